//! The handshake of WebSocket: what a client sends in addition, and what an answer 101 must say
//! ([RFC 6455](https://www.rfc-editor.org/rfc/rfc6455), section 4).

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http::header::{
    CONNECTION, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_EXTENSIONS, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL,
    SEC_WEBSOCKET_VERSION, UPGRADE,
};
use http::{HeaderMap, HeaderName, HeaderValue};
use sha1::{Digest as _, Sha1};

use super::Request;
use super::error::ClientError;
use super::headers::HeaderBlock;
use super::websocket::extension::{self, DeflateTerms, MessageCompression};

/// What every server appends to the key before it hashes it.
const GUID: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// A question for WebSocket.
pub(super) struct Handshake {
    /// 16 random bytes in base64.
    key: String,
    /// How messages may be compressed.
    offers: Vec<DeflateTerms>,
}

impl Handshake {
    /// For a request, whose headers may offer to compress messages.
    pub(super) fn new(request: &Request<'_>) -> Result<Self, ClientError> {
        let mut offers = Vec::new();
        for (_, value) in headers_named(request, &SEC_WEBSOCKET_EXTENSIONS) {
            let written = extension::offers(&String::from_utf8_lossy(value));
            offers.extend(written.map_err(|complaint| ClientError::Request(complaint.to_string()))?);
        }
        Ok(Self { key: BASE64_STANDARD.encode(fastrand::u128(..).to_ne_bytes()), offers })
    }

    /// Adds what the request says of it.
    pub(super) fn add_to(&self, headers: &mut HeaderBlock) {
        headers.push_valid(&CONNECTION, b"Upgrade");
        headers.push_valid(&UPGRADE, b"websocket");
        headers.push_valid(&SEC_WEBSOCKET_VERSION, b"13");
        headers.push_valid(&SEC_WEBSOCKET_KEY, self.key.as_bytes());
    }

    /// What the server must answer to the key.
    fn accepted(&self) -> String {
        let hash = Sha1::new().chain_update(&self.key).chain_update(GUID).finalize();
        BASE64_STANDARD.encode(hash)
    }

    /// Checks the answer 101 to a request. Whether messages may be compressed, and how.
    pub(super) fn check(
        &self,
        request: &Request<'_>,
        headers: Option<&HeaderMap>,
    ) -> Result<Option<MessageCompression>, ClientError> {
        let no_headers = HeaderMap::new();
        let headers = headers.unwrap_or(&no_headers);
        let text = |name: &HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
        let has_token = |name: &HeaderName, token: &str| {
            let values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
            values.flat_map(|value| value.split(',')).any(|one| one.trim().eq_ignore_ascii_case(token))
        };
        let wrong = |reason: &str| Err(ClientError::WebSocket(format!("the answer 101 {reason}")));
        if !has_token(&UPGRADE, "websocket") {
            return wrong("does not change to WebSocket: its `Upgrade` is another");
        }
        if !has_token(&CONNECTION, "upgrade") {
            return wrong("has no `Connection: Upgrade`");
        }
        if text(&SEC_WEBSOCKET_ACCEPT).map(str::trim) != Some(&self.accepted()) {
            return wrong("does not fit the request: its `Sec-WebSocket-Accept` is another");
        }
        if let Some(chosen) = headers.get(SEC_WEBSOCKET_PROTOCOL)
            && !is_offered(request, chosen)
        {
            return wrong("names a subprotocol that was not offered: see `subprotocols`");
        }
        if !headers.contains_key(SEC_WEBSOCKET_EXTENSIONS) {
            return Ok(None);
        }
        let lines = headers.get_all(SEC_WEBSOCKET_EXTENSIONS).iter();
        let lines = lines.map(|line| String::from_utf8_lossy(line.as_bytes())).collect::<Vec<_>>();
        match extension::agreed(&self.offers, &lines.join(",")) {
            Ok(compression) => Ok(Some(compression)),
            Err(reason) => wrong(&reason),
        }
    }
}

/// The lines of a request's header.
fn headers_named<'r>(
    request: &Request<'r>,
    name: &HeaderName,
) -> impl Iterator<Item = (&'r HeaderName, &'r [u8])> {
    let all = request.own.iter().chain(request.fixed.iter());
    all.filter(move |(other, _)| *other == name)
}

/// Whether a request offers this subprotocol.
fn is_offered(request: &Request<'_>, chosen: &HeaderValue) -> bool {
    let chosen = chosen.as_bytes().trim_ascii();
    headers_named(request, &SEC_WEBSOCKET_PROTOCOL)
        .any(|(_, value)| value.split(|byte| *byte == b',').any(|one| one.trim_ascii() == chosen))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_is_answered_as_in_the_standard() {
        // RFC 6455, section 1.3.
        let handshake = Handshake { key: "dGhlIHNhbXBsZSBub25jZQ==".to_owned(), offers: Vec::new() };
        assert_eq!(handshake.accepted(), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }
}
