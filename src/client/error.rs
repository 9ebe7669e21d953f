//! Errors of requests, in classes that a report can count.

use std::io;

use super::http2::code::Http2Code;
use measure::errors::FailureClass;

/// Why a request has no answer. The text says what happened and, if possible, how to fix it.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The host's name has no address.
    #[error("cannot resolve {host}: {reason}")]
    Resolve {
        /// The name.
        host: String,
        /// The resolver's message.
        reason: String,
    },
    /// No connection was made.
    #[error("cannot connect to {address}: {reason}")]
    Connect {
        /// Host and port.
        address: String,
        /// The system's message.
        reason: String,
    },
    /// The TLS handshake failed.
    #[error("TLS with {address} failed: {reason}")]
    Tls {
        /// Host and port.
        address: String,
        /// The library's message.
        reason: String,
    },
    /// This machine ran out of descriptors or ports; the service is not at fault.
    #[error("this machine cannot open another connection: {reason}{}", remedy(reason))]
    Exhausted {
        /// The system's message.
        reason: String,
    },
    /// The connection ended before the answer did.
    #[error("the connection was closed {when}")]
    Closed {
        /// When.
        when: String,
        /// True if the server said that it has not processed the request and will not.
        unprocessed: bool,
        /// True if it had served a request before and no byte of this answer came: the server may have ended it because it
        /// was idle.
        kept_alive: bool,
    },
    /// The server ended a single request of an HTTP/2 connection.
    #[error("the server ended the request {when}, with the HTTP/2 error {reason}")]
    Reset {
        /// When.
        when: &'static str,
        /// The error's name.
        reason: String,
        /// True if the server said that it has not processed the request and will not.
        unprocessed: bool,
    },
    /// A template, an answer or a redirect named a host that is not listed; nothing was sent to it.
    #[error("the request was not sent: {0}")]
    Target(String),
    /// A redirect has an invalid URL, forms a loop, is one too many, or would take a body to a host that is no target.
    #[error("the redirect cannot be followed: {reason}")]
    Redirect {
        /// Why.
        reason: String,
    },
    /// The answer was not valid HTTP.
    #[error("the answer is not valid HTTP: {0}")]
    Protocol(String),
    /// The answer or a message was not valid in WebSocket.
    #[error("not valid WebSocket: {0}")]
    WebSocket(String),
    /// The answer is beyond a limit of `bench`; the service is not at fault.
    #[error("a limit of bench ended the request: {0}")]
    Limit(String),
    /// The server sent bytes that belong to no request.
    #[error("the server sent bytes that no request asked for, {when}: `{begins}`")]
    Unasked {
        /// When.
        when: &'static str,
        /// How they begin, without control characters.
        begins: String,
    },
    /// The answer is larger than the limit.
    #[error("the answer's body is larger than {limit} bytes; raise `max_body`")]
    BodyTooLarge {
        /// The limit.
        limit: u64,
    },
    /// A file of the request's body cannot be read, or is not what it was before the load.
    #[error("cannot send {path}: {reason}")]
    File {
        /// The file.
        path: String,
        /// Why.
        reason: String,
    },
    /// The request could not be built.
    #[error("the request cannot be sent: {0}")]
    Request(String),
}

impl ClientError {
    /// The error's class in results.
    #[must_use]
    pub fn class(&self) -> FailureClass {
        match self {
            Self::Resolve { .. } => FailureClass::Resolve,
            Self::Connect { .. } => FailureClass::Connect,
            Self::Tls { .. } => FailureClass::Tls,
            Self::Exhausted { .. } | Self::Limit(_) => FailureClass::Client,
            Self::Closed { kept_alive: true, .. } => FailureClass::KeptAliveClosed,
            Self::Closed { .. } | Self::Reset { .. } => FailureClass::Closed,
            Self::Target(_) => FailureClass::Target,
            Self::Redirect { .. } => FailureClass::Redirect,
            Self::Protocol(_) | Self::WebSocket(_) | Self::Unasked { .. } => FailureClass::Protocol,
            Self::BodyTooLarge { .. } => FailureClass::BodyLimit,
            Self::File { .. } => FailureClass::File,
            Self::Request(_) => FailureClass::Request,
        }
    }

    /// An error of connecting to `address`.
    pub(super) fn connecting(address: &str, error: &io::Error) -> Self {
        if is_exhausted(error) {
            Self::Exhausted { reason: error.to_string() }
        } else {
            Self::Connect { address: address.to_owned(), reason: plain_words(error) }
        }
    }

    /// An error of the TLS handshake with `address`.
    pub(super) fn handshaking(address: &str, error: &io::Error) -> Self {
        let reason = chain(error);
        if let Some(alert) = Self::alert(error) {
            return Self::refused_by_tls(address, alert);
        }
        let cause = error.get_ref().and_then(|cause| cause.downcast_ref::<rustls::Error>());
        let help = match cause {
            Some(rustls::Error::InvalidCertificate(_)) => {
                "; name the certificate that signed it, or the certificate itself, under `tls.ca` of the deployment, \
                 or switch verification off with `tls: { verify: false }`"
            }
            Some(rustls::Error::InvalidMessage(_)) => "; does that port speak TLS?",
            _ => "",
        };
        Self::Tls { address: address.to_owned(), reason: format!("{reason}{help}") }
    }

    /// A TLS server that refuses the client, in the handshake or, with TLS 1.3, right after it.
    pub(super) fn refused_by_tls(address: &str, alert: rustls::AlertDescription) -> Self {
        use rustls::AlertDescription as Alert;
        let reason = match alert {
            Alert::CertificateRequired | Alert::NoCertificate => {
                format!(
                    "the server asks for a client certificate ({alert:?}): name one under `tls: {{ cert, key }}` of the deployment"
                )
            }
            Alert::BadCertificate
            | Alert::UnsupportedCertificate
            | Alert::CertificateRevoked
            | Alert::CertificateExpired
            | Alert::CertificateUnknown
            | Alert::UnknownCA
            | Alert::AccessDenied => format!(
                "the server refuses the client's certificate ({alert:?}): look at `tls: {{ cert, key }}` of the deployment, and \
                 whether the server trusts who signed it"
            ),
            Alert::HandshakeFailure => format!(
                "the server refuses the handshake ({alert:?}): it may ask for a client certificate (`tls: {{ cert, key }}` of \
                 the deployment), or has neither TLS 1.2 nor 1.3 with a usual cipher"
            ),
            Alert::ProtocolVersion => format!("the server has neither TLS 1.2 nor TLS 1.3 ({alert:?})"),
            Alert::UnrecognisedName => format!(
                "the server does not know this name ({alert:?}): give the one that it has under `tls.sni` of the deployment"
            ),
            alert => format!("the server ended it with the alert {alert:?}"),
        };
        Self::Tls { address: address.to_owned(), reason }
    }

    /// The server's alert, if that is what ended a connection.
    pub(super) fn alert(error: &io::Error) -> Option<rustls::AlertDescription> {
        match error.get_ref()?.downcast_ref::<rustls::Error>()? {
            rustls::Error::AlertReceived(alert) => Some(*alert),
            _ => None,
        }
    }

    /// What to say of a server that speaks HTTP/1.1 alone.
    pub(super) fn needs_http2() -> Self {
        Self::Request("a call whose messages are sent later needs HTTP/2".to_owned())
    }

    /// A connection that ended. `answered`: the answer had begun. `reused`: the connection had served a request before.
    pub(super) fn closed(error: &io::Error, answered: bool, reused: bool) -> Self {
        if let Some(alert) = Self::alert(error) {
            return Self::refused_by_tls("the server", alert);
        }
        // rustls reports data that is not TLS as invalid data.
        if error.kind() == io::ErrorKind::InvalidData {
            return Self::Protocol(chain(error));
        }
        let when = format!("{} ({})", when(answered, reused), chain(error));
        Self::Closed { when, unprocessed: false, kept_alive: reused && !answered }
    }

    /// Bytes that came before the request that would have read them as its answer. `reused`: the connection had served a
    /// request before.
    pub(super) fn unasked(bytes: &[u8], reused: bool) -> Self {
        const SHOWN: usize = 40;
        let text = String::from_utf8_lossy(bytes);
        let begins = text.chars().map(|char| if char.is_control() { ' ' } else { char });
        let when = if reused {
            "on a connection that was kept alive"
        } else {
            "on a new connection, before its first request (does that port speak HTTP?)"
        };
        Self::Unasked { when, begins: begins.take(SHOWN).collect::<String>().trim().to_owned() }
    }

    /// True if the request may be sent once more, whatever its method: the server said that it has not processed it (RFC
    /// 9113, section 8.7).
    pub(super) fn is_unprocessed(&self) -> bool {
        matches!(self, Self::Closed { unprocessed: true, .. } | Self::Reset { unprocessed: true, .. })
    }

    /// True if a server may have ended the connection because it was idle.
    pub(super) fn is_of_kept_alive(&self) -> bool {
        matches!(self, Self::Closed { kept_alive: true, .. })
    }

    /// A connection that the server ended with this reason.
    pub(super) fn going_away(code: Http2Code, answered: bool, reused: bool, unprocessed: bool) -> Self {
        let when = format!("{} (GOAWAY: {code})", when(answered, reused));
        Self::Closed { when, unprocessed, kept_alive: false }
    }
}

fn remedy(reason: &str) -> &'static str {
    if reason.contains("assign requested address") {
        "; widen `net.ipv4.ip_local_port_range`, keep connections alive, or lower the rate"
    } else {
        "; raise `ulimit -n` or lower the concurrency"
    }
}

pub(super) fn when(answered: bool, reused: bool) -> &'static str {
    match (answered, reused) {
        (true, _) => "in the middle of the answer",
        (false, true) => "before the answer, on a connection that was kept alive",
        (false, false) => "before the answer",
    }
}

/// True if this machine is out of descriptors, ports, or memory for sockets.
pub(super) fn is_exhausted(error: &io::Error) -> bool {
    // ENFILE, EMFILE, ENOBUFS and EADDRNOTAVAIL have no kind of their own on every platform.
    matches!(error.raw_os_error(), Some(23 | 24 | 105)) || error.kind() == io::ErrorKind::AddrNotAvailable
}

fn plain_words(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => "connection refused; is the service running there?".to_owned(),
        _ => error.to_string(),
    }
}

/// An error with its causes, without repetitions.
pub(super) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resources_missing_on_this_machine_are_not_the_services_fault() {
        for (errno, class) in [
            (23, "client"),
            (24, "client"),
            (99, "client"),
            (105, "client"),
            (111, "connect"),
            (113, "connect"),
        ] {
            let error = ClientError::connecting("h:1", &io::Error::from_raw_os_error(errno));
            assert_eq!(error.class().as_str(), class, "{errno}: {error}");
        }
    }
}
