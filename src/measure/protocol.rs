//! What tells samples of one protocol from samples of another: names, and which outcomes are good.
//!
//! All protocols share the phases of a request over a connection ([`crate::phases::Phases`]), so thresholds and tables
//! have one vocabulary. What differs stands here, and nothing else in a sample or in a log depends on a protocol.

use config::grpc::status_name;

#[cfg(feature = "simulation")]
#[path = "../../tests/echo/names.rs"]
pub mod echo;

/// A protocol, by its number in the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Protocol {
    /// HTTP/1.1 and HTTP/2.
    #[default]
    Http = 0,
    /// gRPC, over HTTP/2.
    Grpc = 1,
    /// Messages of WebSocket. The request that opens one is of HTTP.
    WebSocket = 2,
    /// The toy protocol of tests/echo.
    #[cfg(feature = "simulation")]
    Echo = 200,
}

/// The names of a protocol's figures.
#[derive(Debug)]
pub struct ProtocolNames {
    pub protocol: Protocol,
    /// What the earlier requests of a call are called, whose time is no part of its duration.
    pub before: &'static str,
    /// Its versions, each by its number in a sample; the first is version 0.
    pub versions: &'static [&'static str],
    /// True for an outcome that is no failure unless the scenario says otherwise.
    pub is_good: fn(u16) -> bool,
    /// An outcome in words, such as `404 Not Found`.
    pub outcome: fn(u16) -> String,
    /// An outcome as scenarios write it, such as `404`.
    pub written: fn(u16) -> String,
}

/// The number of HTTP/2 among the versions of HTTP.
pub const HTTP2: u8 = 1;

static ALL: &[&ProtocolNames] = &[
    &HTTP,
    &GRPC,
    &WEBSOCKET,
    #[cfg(feature = "simulation")]
    &echo::ECHO,
];

static HTTP: ProtocolNames = ProtocolNames {
    protocol: Protocol::Http,
    before: "redirects",
    versions: &["HTTP/1.1", "HTTP/2"],
    is_good: |status| status < 400,
    outcome: |status| {
        http::StatusCode::from_u16(status).map_or_else(|_| status.to_string(), |one| one.to_string())
    },
    written: |status| status.to_string(),
};

static GRPC: ProtocolNames = ProtocolNames {
    protocol: Protocol::Grpc,
    before: "",
    // Over HTTP/1.1, which is version 0, there is none.
    versions: &["gRPC", "gRPC"],
    is_good: |status| status == 0,
    outcome: |status| match status_name(status) {
        Some(name) => format!("{status} {name}"),
        None => status.to_string(),
    },
    written: |status| status_name(status).map_or_else(|| status.to_string(), str::to_owned),
};

static WEBSOCKET: ProtocolNames = ProtocolNames {
    protocol: Protocol::WebSocket,
    before: "",
    versions: &["WebSocket"],
    is_good: |code| code == MESSAGE,
    outcome: |code| match close_code_name(code) {
        _ if code == MESSAGE => "message".to_owned(),
        Some(name) => format!("{code} {name}"),
        None => code.to_string(),
    },
    written: |code| if code == MESSAGE { "message".to_owned() } else { code.to_string() },
};

/// What a call over a WebSocket is answered with, unless it is a close code.
pub const MESSAGE: u16 = 0;

/// What the close codes of WebSocket mean ([registry]).
///
/// [registry]: https://www.iana.org/assignments/websocket/websocket.xhtml#close-code-number
fn close_code_name(code: u16) -> Option<&'static str> {
    Some(match code {
        1000 => "normal closure",
        1001 => "going away",
        1002 => "protocol error",
        1003 => "unsupported data",
        1005 => "no code",
        1007 => "invalid data",
        1008 => "policy violation",
        1009 => "message too big",
        1010 => "extension missing",
        1011 => "internal error",
        1012 => "service restart",
        1013 => "try again later",
        1014 => "bad gateway",
        _ => return None,
    })
}

impl Protocol {
    /// True for HTTP/2, by the version that a call used.
    #[must_use]
    pub fn is_http2(self, version: u8) -> bool {
        matches!(self, Self::Http | Self::Grpc) && version == HTTP2
    }

    /// From its number in the log.
    #[must_use]
    pub fn from_u8(number: u8) -> Option<Self> {
        ALL.iter().map(|names| names.protocol).find(|protocol| *protocol as u8 == number)
    }

    #[must_use]
    pub fn names(self) -> &'static ProtocolNames {
        ALL.iter().find(|names| names.protocol == self).unwrap_or(&ALL[0])
    }
}

impl ProtocolNames {
    /// The name of a version; empty for a number that it does not have.
    #[must_use]
    pub fn version(&self, number: u8) -> &'static str {
        self.versions.get(usize::from(number)).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_is_one_protocol() {
        for names in ALL {
            assert_eq!(Protocol::from_u8(names.protocol as u8), Some(names.protocol));
            assert!(!names.versions.is_empty() && std::ptr::eq(names.protocol.names(), *names));
        }
        assert_eq!(Protocol::from_u8(u8::MAX), None);
        let said = [200, 404, 599, 1000].map(HTTP.outcome);
        assert_eq!(said, ["200 OK", "404 Not Found", "599 <unknown status code>", "1000"]);
        assert_eq!([0, 5, 16, 17].map(GRPC.outcome), ["0 OK", "5 NOT_FOUND", "16 UNAUTHENTICATED", "17"]);
        let closed = [0, 1000, 1011, 4000].map(WEBSOCKET.outcome);
        assert_eq!(closed, ["message", "1000 normal closure", "1011 internal error", "4000"]);
    }
}
