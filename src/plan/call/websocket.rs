//! The request that opens a WebSocket.

use http::Method;
use http::header::{
    CONNECTION, HeaderName, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_EXTENSIONS, SEC_WEBSOCKET_KEY,
    SEC_WEBSOCKET_PROTOCOL, SEC_WEBSOCKET_VERSION, UPGRADE,
};

use client::options::Version;
use client::websocket::extension;
use config::step::Step;
use text::diagnostics::Fault;
use text::template::CompiledText;
use text::yaml::YamlNode;
use text::yaml_place::{at, key_span};

use super::http::{HttpCall, mixed};
use crate::compiler::Compiler;

/// Keys of requests that mean nothing for a handshake.
const NOT_OF_HANDSHAKES: [&str; 10] =
    ["json", "form", "body", "file", "multipart", "gzip", "redirects", "decompress", "stream", "poll"];
/// Keys that only the step `websocket` has.
pub(super) const OF_HANDSHAKES: [&str; 1] = ["subprotocols"];
/// The headers of the handshake, which bench writes itself.
const RESERVED: [HeaderName; 6] = [
    CONNECTION,
    UPGRADE,
    SEC_WEBSOCKET_ACCEPT,
    SEC_WEBSOCKET_KEY,
    SEC_WEBSOCKET_PROTOCOL,
    SEC_WEBSOCKET_VERSION,
];

/// The name of a handshake's action that has none.
pub(super) fn label(url: &str) -> String {
    format!("websocket {}", client::url::without_fragment(url))
}

impl Compiler<'_> {
    /// The request that opens a WebSocket.
    pub(super) fn handshake(&mut self, step: &Step, url: &str, node: &YamlNode) -> Option<HttpCall> {
        self.refuse_keys(
            &NOT_OF_HANDSHAKES,
            node,
            "does not belong to the opening of a WebSocket",
            "remove it; messages are sent by `send` in `steps`",
        );
        for (name, lines) in step.headers.iter().flatten() {
            if name.eq_ignore_ascii_case(SEC_WEBSOCKET_EXTENSIONS.as_str()) {
                self.offers(lines.all(), at(node, &["headers", name]));
            }
            if RESERVED.iter().any(|reserved| name.eq_ignore_ascii_case(reserved.as_str())) {
                let fault = Fault::error(
                    key_span(at(node, &["headers"]), name),
                    format!("`{name}` is written by bench itself"),
                );
                self.texts.faults.push(fault.help("remove it; `subprotocols` is a key of the step"));
            }
        }
        let mut call = self.http_call(step, ("websocket", &Method::GET, url), node)?;
        if let Some(offered) = &step.subprotocols {
            let place = at(node, &["subprotocols"]);
            let is_token = |name: &String| {
                !name.is_empty()
                    && name
                        .bytes()
                        .all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
            };
            if let Some(bad) = offered.iter().find(|name| !is_token(name)) {
                let fault = Fault::error(place.span.clone(), format!("`{bad}` is not a subprotocol"));
                self.texts.faults.push(fault.help("use letters, digits, dots and dashes"));
            }
            call.headers
                .push((SEC_WEBSOCKET_PROTOCOL, CompiledText::Literal(offered.join(", ").into_boxed_str())));
        }
        call.mixed_headers = mixed(&call.headers);
        Some(HttpCall { version: Version::Upgrade, redirects_max: 0, decompress: false, ..call })
    }

    /// Checks which compression is offered, where that is written; the rest is checked when it is sent.
    fn offers(&mut self, lines: &[String], place: &YamlNode) {
        for line in lines.iter().filter(|line| !line.contains("{{")) {
            if let Err(complaint) = extension::offers(line) {
                self.texts.faults.push(Fault::of(place.span.clone(), complaint));
            }
        }
    }

    /// Reports keys of WebSocket beside another call.
    pub(super) fn without_websocket(&mut self, node: &YamlNode) {
        self.refuse_keys(
            &OF_HANDSHAKES,
            node,
            "belongs to a WebSocket",
            "add `websocket: /path`, or remove it",
        );
    }
}
