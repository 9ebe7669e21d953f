//! WebSocket: the request that opens one, and the messages that are sent and received over it.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http::Method;
use http::header::{
    CONNECTION, HeaderName, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_EXTENSIONS, SEC_WEBSOCKET_KEY,
    SEC_WEBSOCKET_PROTOCOL, SEC_WEBSOCKET_VERSION, UPGRADE,
};

use client::options::Version;
use client::url::BaseUrl;
use client::websocket::CONTROL_BYTES_MAX;
use config::step::Step;
use config::websocket::{MessageContent, Receive, ReceivedMessage, SentMessage};
use text::diagnostics::Fault;
use text::template::CompiledText;
use text::yaml::YamlNode;
use text::yaml_place::{at, key_span};

use super::http::{HttpCall, mixed};
use crate::compare::{Test, ValueCondition};
use crate::compiler::{ACTION_TIMEOUT, Compiler};
use crate::condition::Path;
use crate::headers::hide_secrets_of;
use crate::json::JsonTemplate;

/// The variable that has the trace context of a message while it is made.
const TRACEPARENT: &str = "traceparent";
/// Keys of requests that mean nothing for a handshake.
const NOT_OF_HANDSHAKES: [&str; 10] =
    ["json", "form", "body", "file", "multipart", "gzip", "redirects", "decompress", "stream", "poll"];
/// Keys of requests that mean nothing for a message.
const NOT_OF_MESSAGES: [&str; 19] = [
    "headers",
    "query",
    "json",
    "form",
    "body",
    "file",
    "multipart",
    "gzip",
    "auth",
    "cookies",
    "redirects",
    "decompress",
    "max_body",
    "stream",
    "poll",
    "target",
    "message",
    "messages",
    "metadata",
];
/// Keys that only the step `websocket` has.
const OF_HANDSHAKES: [&str; 1] = ["subprotocols"];
/// The headers of the handshake, which bench writes itself.
const RESERVED: [HeaderName; 7] = [
    CONNECTION,
    UPGRADE,
    SEC_WEBSOCKET_ACCEPT,
    SEC_WEBSOCKET_EXTENSIONS,
    SEC_WEBSOCKET_KEY,
    SEC_WEBSOCKET_PROTOCOL,
    SEC_WEBSOCKET_VERSION,
];
/// A closing frame without a code counts as one with this code.
const NO_CODE: u16 = 1005;
const NORMAL: u16 = 1000;

/// What is done over an open WebSocket.
pub struct SocketCall {
    /// Where it leads.
    pub base: BaseUrl,
    pub step: SocketStep,
    /// The name of the variable for the trace context, if a template reads it.
    pub trace_name: Option<Arc<str>>,
}

/// A step over an open WebSocket.
pub enum SocketStep {
    /// A message is sent, or one is waited for, or both.
    Messages { send: Option<MessageTemplate>, receive: Option<Box<AwaitedMessage>> },
    /// A ping and its pong.
    Ping,
    /// The end, with this code.
    Close { code: u16, reason: String },
}

/// A message to send.
pub enum MessageTemplate {
    Json(JsonTemplate),
    Text(CompiledText),
    /// Bytes in base64.
    Binary(CompiledText),
}

/// Which messages are waited for; others are skipped.
pub struct AwaitedMessage {
    /// Conditions on the JSON of a message.
    pub json: Vec<(Path, ValueCondition)>,
    /// A condition on its text.
    pub text: Option<ValueCondition>,
    /// How many; `None` for as many as come in time.
    pub count: Option<u64>,
    /// The code with which the service closes the WebSocket, if that is waited for instead.
    pub close: Option<u16>,
    /// The time after which no more are read.
    pub read_time: Option<Duration>,
}

impl SocketCall {
    /// Whether it sends a message and waits for its answer.
    #[must_use]
    pub fn is_answered(&self) -> bool {
        matches!(self.step, SocketStep::Messages { send: Some(_), receive: Some(_) })
    }

    /// Whether it reads what comes until then, however much it is.
    #[must_use]
    pub fn reads_until_the_end(&self) -> bool {
        matches!(&self.step, SocketStep::Messages { receive: Some(awaited), .. } if awaited.count.is_none())
    }

    /// Whether it ends when the service has closed the WebSocket.
    #[must_use]
    pub fn awaits_the_end(&self) -> bool {
        match &self.step {
            SocketStep::Close { .. } => true,
            SocketStep::Messages { receive: Some(awaited), .. } => awaited.close.is_some(),
            _ => false,
        }
    }

    /// The codes with which the service may answer, unless the scenario says it.
    pub(crate) fn accepted_codes(&self) -> Vec<u16> {
        match self.step {
            SocketStep::Close { code: NORMAL, .. } => vec![NORMAL, NO_CODE],
            SocketStep::Close { code, .. } => vec![code, NORMAL, NO_CODE],
            SocketStep::Messages { receive: Some(ref awaited), .. } => awaited.close.into_iter().collect(),
            _ => Vec::new(),
        }
    }

    /// The time after which no more messages are read.
    #[must_use]
    pub fn read_time(&self) -> Option<Duration> {
        match &self.step {
            SocketStep::Messages { receive: Some(awaited), .. } => awaited.read_time,
            _ => None,
        }
    }

    /// Whether it is answered by several messages.
    #[must_use]
    pub fn may_be_streamed(&self) -> bool {
        matches!(&self.step, SocketStep::Messages { receive: Some(awaited), .. } if awaited.count != Some(1))
    }

    /// See [`Call::explained`](super::ProtocolCall::explained).
    pub(super) fn explained(&self, label: &str) -> (String, Vec<String>) {
        let mut details = Vec::new();
        if let SocketStep::Messages { send, receive } = &self.step {
            details.extend(send.as_ref().map(|send| {
                let kind = match send {
                    MessageTemplate::Json(_) => "JSON",
                    MessageTemplate::Text(_) => "a text",
                    MessageTemplate::Binary(_) => "bytes",
                };
                format!("sends {kind}")
            }));
            details.extend(receive.as_ref().map(|awaited| awaited.explained()));
        }
        (format!("{label} over the WebSocket to {}", self.base), details)
    }
}

impl AwaitedMessage {
    fn explained(&self) -> String {
        if let Some(code) = self.close {
            return format!("waits until the service closes with {code}");
        }
        let which = match (self.json.is_empty(), &self.text) {
            (true, None) => String::new(),
            (true, Some(_)) => " with a text".to_owned(),
            (false, _) => {
                let paths: Vec<_> = self.json.iter().map(|(path, _)| path.to_string()).collect();
                format!(" with {}", paths.join(" and "))
            }
        };
        match self.count {
            Some(1) => format!("waits for a message{which}"),
            Some(count) => format!("waits for {count} messages{which}"),
            None => format!("reads all messages{which}"),
        }
    }
}

/// The key of a step that is done over an open WebSocket, if it is one.
pub(super) fn key_of(step: &Step) -> Option<&'static str> {
    let keys = [
        ("send", step.send.is_some()),
        ("receive", step.receive.is_some()),
        ("ping", step.ping.is_some()),
        ("close", step.close.is_some()),
    ];
    keys.into_iter().find(|(_, is_there)| *is_there).map(|(key, _)| key)
}

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
        for name in step.headers.iter().flatten().map(|(name, _)| name) {
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

    /// A step over the WebSocket that is open.
    pub(super) fn socket_call(&mut self, step: &Step, key: &str, node: &YamlNode) -> Option<SocketCall> {
        let remedy = "keys of requests belong to the step `websocket`";
        self.refuse_keys(&NOT_OF_MESSAGES, node, "does not belong to a message of a WebSocket", remedy);
        self.refuse_keys(&OF_HANDSHAKES, node, "belongs to the step `websocket`", "move it there");
        let Some(base) = self.nesting.socket.clone() else {
            let fault = Fault::error(key_span(node, key), format!("`{key}` outside of a WebSocket"));
            let help = "put it into the `steps` of a step `websocket: /path`; steps within `together` have none open";
            self.texts.faults.push(fault.help(help));
            return None;
        };
        let others = [("ping", step.ping.is_some()), ("close", step.close.is_some())];
        for (other, _) in others.into_iter().filter(|(other, is_there)| *is_there && *other != key) {
            let message = format!("a step with both `{key}` and `{other}`");
            let fault = Fault::error(key_span(node, other), message);
            self.texts.faults.push(fault.help("make one step of each"));
        }
        if let Some(switch) = [("ping", step.ping), ("receive", switch(step.receive.as_ref()))]
            .into_iter()
            .find(|(_, switch)| *switch == Some(false))
        {
            let fault = Fault::error(key_span(node, switch.0), format!("`{}: false` does nothing", switch.0));
            self.texts.faults.push(fault.help("write true, or remove it"));
        }
        let known = self.texts.names.known.contains(TRACEPARENT);
        self.texts.names.known.insert(TRACEPARENT.to_owned());
        let send = step.send.as_ref().map(|send| self.sent_message(send, at(node, &["send"])));
        if !known {
            self.texts.names.known.remove(TRACEPARENT);
        }
        let reads_trace = !known && matches!(&send, Some(Some(send)) if send.reads(TRACEPARENT));
        let received = step.receive.as_ref().map(|receive| self.awaited_message(receive, step, node));
        let step = match (key, &step.close) {
            ("ping", _) => SocketStep::Ping,
            ("close", Some(close)) => {
                let (code, reason) = close.details();
                self.fitting_close((code, &reason), at(node, &["close"]));
                SocketStep::Close { code, reason }
            }
            _ => SocketStep::Messages {
                send: match send {
                    Some(send) => Some(send?),
                    None => None,
                },
                receive: received.map(Box::new),
            },
        };
        Some(SocketCall { base, step, trace_name: reads_trace.then(|| Arc::from(TRACEPARENT)) })
    }

    fn sent_message(&mut self, written: &SentMessage, node: &YamlNode) -> Option<MessageTemplate> {
        let place = |key: &str| if node.get(key).is_some() { at(node, &[key]) } else { node };
        match written.content() {
            MessageContent { json: Some(json), text: None, binary: None } => {
                hide_secrets_of(&json);
                self.texts.json(&json, place("json")).map(MessageTemplate::Json)
            }
            MessageContent { json: None, text: Some(text), binary: None } => {
                self.texts.text(&text, place("text")).map(MessageTemplate::Text)
            }
            MessageContent { json: None, text: None, binary: Some(bytes) } => {
                if !bytes.contains("{{") && BASE64_STANDARD.decode(&bytes).is_err() {
                    let fault = Fault::error(place("binary").span.clone(), "`binary` is not base64");
                    self.texts.faults.push(fault.help("write the bytes as base64, such as AQID"));
                }
                self.texts.text(&bytes, place("binary")).map(MessageTemplate::Binary)
            }
            _ => {
                let what = "a message has exactly one of `json`, `text` and `binary`";
                let fault = Fault::error(node.span.clone(), what);
                self.texts.faults.push(fault.help("write the one to send"));
                None
            }
        }
    }

    fn awaited_message(&mut self, written: &Receive, step: &Step, node: &YamlNode) -> AwaitedMessage {
        let node = at(node, &["receive"]);
        let ReceivedMessage { json, text, count, close, read_time } = written.details();
        if close.is_some() {
            let others = ["json", "text", "count", "for"];
            for key in others.into_iter().filter(|key| node.get(key).is_some()) {
                let fault = Fault::error(key_span(node, key), format!("`{key}` together with `close`"));
                self.texts.faults.push(fault.help("wait for the messages in a step before"));
            }
        }
        self.above_zero(read_time.map(|time| time.0), at(node, &["for"]), "for");
        if count.is_some() && read_time.is_some() {
            let fault = Fault::error(key_span(node, "for"), "`for` together with `count`");
            self.texts
                .faults
                .push(fault.help("give the action a `timeout` instead: `for` reads all that come"));
        }
        let timeout = step.timeout.map_or(ACTION_TIMEOUT, |timeout| timeout.0);
        if read_time.is_some_and(|time| time.0 >= timeout) {
            let span = at(node, &["for"]).span.clone();
            let fault = Fault::error(span, "`for` is not shorter than the action's time limit");
            self.texts.faults.push(fault.help("give the action a longer `timeout`; the default is 30s"));
        }
        AwaitedMessage {
            json: self.texts.json_conditions(json.as_ref(), at(node, &["json"])),
            text: text.map(|text| self.texts.expectation(&text.0, Test::Contains, at(node, &["text"]))),
            count: count.or_else(|| read_time.is_none().then_some(1)),
            close,
            read_time: read_time.map(|time| time.0),
        }
    }

    fn fitting_close(&mut self, (code, reason): (u16, &str), node: &YamlNode) {
        if code != NORMAL && !(3000..=4999).contains(&code) {
            let span = node.get("code").unwrap_or(node).span.clone();
            let fault = Fault::error(span, format!("a client does not close with {code}"));
            self.texts.faults.push(fault.help("write 1000, or a code of your own from 3000 to 4999"));
        }
        // The code takes two bytes.
        if reason.len() > CONTROL_BYTES_MAX - 2 {
            let span = at(node, &["reason"]).span.clone();
            let fault = Fault::error(span, "`reason` is longer than 123 bytes");
            self.texts.faults.push(fault.help("shorten it"));
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

fn switch(receive: Option<&Receive>) -> Option<bool> {
    match receive {
        Some(Receive::Next(next)) => Some(*next),
        _ => None,
    }
}

impl MessageTemplate {
    /// Whether a template in it reads a variable.
    fn reads(&self, name: &str) -> bool {
        match self {
            Self::Json(json) => json.texts().any(|text| text.variables().contains(name)),
            Self::Text(text) | Self::Binary(text) => text.variables().contains(name),
        }
    }
}
