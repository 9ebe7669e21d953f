//! A dialogue: the messages that are sent and received over an open WebSocket, or in a gRPC call.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

use client::url::BaseUrl;
use client::websocket::CONTROL_BYTES_MAX;
use config::step::Step;
use config::websocket::{Close, MessageContent, Receive, ReceivedMessage, SentMessage};
use measure::protocol::Protocol;
use text::diagnostics::Fault;
use text::template::CompiledText;
use text::yaml::YamlNode;
use text::yaml_place::{at, key_span};

use super::websocket::OF_HANDSHAKES;
use crate::compare::{Test, ValueCondition};
use crate::compiler::{ACTION_TIMEOUT, Compiler};
use crate::condition::Path;
use crate::headers::hide_secrets_of;
use crate::json::JsonTemplate;
use crate::messages::Messages;
use crate::nesting::NestedDialogue;

/// The variable that has the trace context of a message while it is made.
const TRACEPARENT: &str = "traceparent";
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
/// A closing frame without a code counts as one with this code.
const NO_CODE: u16 = 1005;
const NORMAL: u16 = 1000;

/// What is done over an open WebSocket, or in an open gRPC call.
pub struct DialogueCall {
    /// Where it leads.
    pub base: BaseUrl,
    /// Which of the two it is.
    pub protocol: Protocol,
    pub step: DialogueStep,
    /// The name of the variable for the trace context, if a template reads it.
    pub trace_name: Option<Arc<str>>,
}

/// A step of a dialogue.
pub enum DialogueStep {
    /// A message is sent, or one is waited for, or both.
    Messages { send: Option<MessageTemplate>, receive: Option<Box<AwaitedMessage>> },
    /// A ping and its pong.
    Ping,
    /// The end: of a WebSocket with this code; of the messages that a gRPC call sends, and then the end of the call.
    Close { code: u16, reason: String },
}

/// A message to send.
pub enum MessageTemplate {
    Json(JsonTemplate),
    Text(CompiledText),
    /// Bytes in base64.
    Binary(CompiledText),
    /// A message of a gRPC call.
    Grpc(Messages),
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

impl DialogueCall {
    /// Whether it sends a message and waits for its answer.
    #[must_use]
    pub fn is_answered(&self) -> bool {
        matches!(self.step, DialogueStep::Messages { send: Some(_), receive: Some(_) })
    }

    /// Whether it reads what comes until then, however much it is.
    #[must_use]
    pub fn reads_until_the_end(&self) -> bool {
        matches!(&self.step, DialogueStep::Messages { receive: Some(awaited), .. } if awaited.count.is_none())
    }

    /// Whether it reads all that comes until the status of a gRPC call.
    #[must_use]
    pub fn reads_to_the_status(&self) -> bool {
        self.protocol == Protocol::Grpc && matches!(self.step, DialogueStep::Close { .. })
    }

    /// Whether it ends when the service has closed the WebSocket.
    #[must_use]
    pub fn awaits_the_end(&self) -> bool {
        match &self.step {
            DialogueStep::Close { .. } => true,
            DialogueStep::Messages { receive: Some(awaited), .. } => awaited.close.is_some(),
            _ => false,
        }
    }

    /// The codes with which the service may answer, unless the scenario says it.
    pub(crate) fn accepted_codes(&self) -> Vec<u16> {
        match self.step {
            // As that of every call, the status is OK.
            _ if self.protocol == Protocol::Grpc => Vec::new(),
            DialogueStep::Close { code: NORMAL, .. } => vec![NORMAL, NO_CODE],
            DialogueStep::Close { code, .. } => vec![code, NORMAL, NO_CODE],
            DialogueStep::Messages { receive: Some(ref awaited), .. } => awaited.close.into_iter().collect(),
            _ => Vec::new(),
        }
    }

    /// The time after which no more messages are read.
    #[must_use]
    pub fn read_time(&self) -> Option<Duration> {
        match &self.step {
            DialogueStep::Messages { receive: Some(awaited), .. } => awaited.read_time,
            _ => None,
        }
    }

    /// Whether it is answered by several messages.
    #[must_use]
    pub fn may_be_streamed(&self) -> bool {
        matches!(&self.step, DialogueStep::Messages { receive: Some(awaited), .. } if awaited.count != Some(1))
    }

    /// See [`Call::explained`](super::ProtocolCall::explained).
    pub(super) fn explained(&self, label: &str) -> (String, Vec<String>) {
        let mut details = Vec::new();
        if let DialogueStep::Messages { send, receive } = &self.step {
            details.extend(send.as_ref().map(|send| {
                let kind = match send {
                    MessageTemplate::Grpc(_) => "a message",
                    MessageTemplate::Json(_) => "JSON",
                    MessageTemplate::Text(_) => "a text",
                    MessageTemplate::Binary(_) => "bytes",
                };
                format!("sends {kind}")
            }));
            details.extend(receive.as_ref().map(|awaited| awaited.explained()));
        }
        let place = match self.protocol {
            Protocol::Grpc => "in the gRPC call",
            _ => "over the WebSocket",
        };
        (format!("{label} {place} to {}", self.base), details)
    }
}

impl AwaitedMessage {
    /// All messages, until the end.
    #[must_use]
    pub fn all() -> Self {
        Self { json: Vec::new(), text: None, count: None, close: None, read_time: None }
    }

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

impl Compiler<'_> {
    /// A step of the dialogue that is open.
    pub(super) fn dialogue_call(&mut self, step: &Step, key: &str, node: &YamlNode) -> Option<DialogueCall> {
        let Some(open) = self.nesting.dialogue.clone() else {
            let message = format!("`{key}` outside of a WebSocket or a gRPC call");
            let fault = Fault::error(key_span(node, key), message);
            let help = "put it into the `steps` of a step `websocket: /path` or `grpc: package.Service/Method`; steps within \
                        `together` have none open";
            self.texts.faults.push(fault.help(help));
            return None;
        };
        let opening = open.key();
        let remedy = format!("keys of requests belong to the step `{opening}`");
        self.refuse_keys(&NOT_OF_MESSAGES, node, "does not belong to a message", &remedy);
        self.refuse_keys(&OF_HANDSHAKES, node, "belongs to the step `websocket`", "move it there");
        self.one_thing(step, key, node);
        if open.protocol == Protocol::Grpc {
            self.refuse_keys(
                &["ping"],
                node,
                "belongs to a WebSocket",
                "remove it: a gRPC call has no pings",
            );
        }
        let known = self.texts.names.known.contains(TRACEPARENT);
        self.texts.names.known.insert(TRACEPARENT.to_owned());
        let send = step.send.as_ref().map(|send| self.sent_message(send, &open, at(node, &["send"])));
        if !known {
            self.texts.names.known.remove(TRACEPARENT);
        }
        let reads_trace = !known && matches!(&send, Some(Some(send)) if send.reads(TRACEPARENT));
        let received = step.receive.as_ref().map(|receive| self.awaited_message(receive, step, node));
        if open.protocol == Protocol::Grpc && received.as_ref().is_some_and(|awaited| awaited.close.is_some())
        {
            let fault =
                Fault::error(key_span(at(node, &["receive"]), "close"), "a gRPC call has no closing code");
            let help = "write a step `close: true` with `expect: {status: NOT_FOUND}`";
            self.texts.faults.push(fault.help(help));
        }
        let step = match (key, &step.close) {
            ("ping", _) => DialogueStep::Ping,
            ("close", Some(close)) => {
                let (code, reason) = close.details();
                self.fitting_close((close, code, &reason), open.protocol, at(node, &["close"]));
                DialogueStep::Close { code, reason }
            }
            _ => DialogueStep::Messages {
                send: match send {
                    Some(send) => Some(send?),
                    None => None,
                },
                receive: received.map(Box::new),
            },
        };
        let trace_name = reads_trace.then(|| Arc::from(TRACEPARENT));
        Some(DialogueCall { base: open.base, protocol: open.protocol, step, trace_name })
    }

    /// Reports a step that would do several things, or nothing.
    fn one_thing(&mut self, step: &Step, key: &str, node: &YamlNode) {
        let others = [("ping", step.ping.is_some()), ("close", step.close.is_some())];
        for (other, _) in others.into_iter().filter(|(other, is_there)| *is_there && *other != key) {
            let message = format!("a step with both `{key}` and `{other}`");
            let fault = Fault::error(key_span(node, other), message);
            self.texts.faults.push(fault.help("make one step of each"));
        }
        let closes = match &step.close {
            Some(Close::Switch(closes)) => Some(*closes),
            _ => None,
        };
        let switches = [("ping", step.ping), ("receive", switch(step.receive.as_ref())), ("close", closes)];
        if let Some((switch, _)) = switches.into_iter().find(|(_, switch)| *switch == Some(false)) {
            let fault = Fault::error(key_span(node, switch), format!("`{switch}: false` does nothing"));
            self.texts.faults.push(fault.help("write true, or remove it"));
        }
    }

    fn sent_message(
        &mut self,
        written: &SentMessage,
        open: &NestedDialogue,
        node: &YamlNode,
    ) -> Option<MessageTemplate> {
        let place = |key: &str| if node.get(key).is_some() { at(node, &[key]) } else { node };
        let content = written.content();
        match content {
            MessageContent { json: Some(json), text: None, binary: None }
                if open.protocol == Protocol::Grpc =>
            {
                let how = (open.method.as_ref(), false, open.gzip);
                self.grpc_messages(&json, how, place("json")).map(MessageTemplate::Grpc)
            }
            MessageContent { json: None, .. } if open.protocol == Protocol::Grpc => {
                let fault = Fault::error(node.span.clone(), "a gRPC message that is no JSON");
                self.texts.faults.push(fault.help("write it as `send: {json: {field: value}}`"));
                None
            }
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

    fn fitting_close(
        &mut self,
        (close, code, reason): (&Close, u16, &str),
        protocol: Protocol,
        node: &YamlNode,
    ) {
        if protocol == Protocol::Grpc {
            if !matches!(close, Close::Switch(_)) {
                let fault = Fault::error(node.span.clone(), "a gRPC call is closed without a code");
                self.texts.faults.push(fault.help("write `close: true`"));
            }
            return;
        }
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
            Self::Grpc(messages) => messages.texts().any(|text| text.variables().contains(name)),
        }
    }
}
