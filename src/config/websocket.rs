//! WebSocket, as written: what is sent, and which message is waited for.

use std::collections::BTreeMap;

use schemars::{JsonSchema, json_schema};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use text::digits;

use super::condition::{Condition, TextCondition};
use super::reference::DurationText;
use crate::notation::{schema, written_as_its_value};

/// A message to send.
#[derive(Clone, Debug)]
pub enum SentMessage {
    /// A text message.
    Text(String),
    /// A map.
    Content(Box<MessageContent>),
}

/// A message to send: exactly one of `json`, `text` and `binary`.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
#[schemars(extend("minProperties" = 1, "maxProperties" = 1))]
pub struct MessageContent {
    /// JSON, sent as a text message. Strings in it may contain templates.
    #[serde(default, deserialize_with = "digits::some", skip_serializing_if = "Option::is_none")]
    pub json: Option<Value>,
    /// A text message. It may contain templates.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The bytes of a binary message, as base64. It may contain templates.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub binary: Option<String>,
}

/// Which message is waited for.
#[derive(Clone, Debug)]
pub enum Receive {
    /// The next one.
    Next(bool),
    /// A map.
    Details(Box<ReceivedMessage>),
}

/// Which message is waited for. Others that come before it are skipped.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ReceivedMessage {
    /// JSONPaths with the value that each has in the message, or comparisons.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub json: Option<BTreeMap<String, Condition>>,
    /// Text that the message contains, or a condition such as `{matches: REGEX}`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<TextCondition>,
    /// The number of such messages (default 1). Then the first of them and the gaps between them are measured.
    #[schemars(range(min = 1))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    /// Wait until the service closes the WebSocket with this code, such as 4001; all messages before are skipped.
    #[schemars(range(min = 1000, max = 4999))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub close: Option<u16>,
    /// Read all such messages that come in this time, in place of `count`.
    #[serde(rename = "for", skip_serializing_if = "Option::is_none")]
    pub read_time: Option<DurationText>,
}

/// How a WebSocket is closed, or a gRPC call.
#[derive(Clone, Debug)]
pub enum Close {
    /// Without a code of its own.
    Switch(bool),
    /// With this code.
    Code(u16),
    /// A map.
    Details(Box<CloseDetails>),
}

/// How a WebSocket is closed.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct CloseDetails {
    /// The code: 1000, or one from 3000 to 4999 (default 1000).
    #[schemars(range(min = 1000, max = 4999))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<u16>,
    /// The reason, in at most 123 bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl SentMessage {
    /// The map that it stands for.
    #[must_use]
    pub fn content(&self) -> MessageContent {
        match self {
            Self::Content(content) => (**content).clone(),
            Self::Text(text) => MessageContent { json: None, text: Some(text.clone()), binary: None },
        }
    }
}

impl Receive {
    /// The map that it stands for.
    #[must_use]
    pub fn details(&self) -> ReceivedMessage {
        match self {
            Self::Details(details) => (**details).clone(),
            Self::Next(_) => ReceivedMessage::default(),
        }
    }
}

impl Close {
    /// The code and the reason.
    #[must_use]
    pub fn details(&self) -> (u16, String) {
        match self {
            Self::Switch(_) => (1000, String::new()),
            Self::Code(code) => (*code, String::new()),
            Self::Details(details) => {
                (details.code.unwrap_or(1000), details.reason.clone().unwrap_or_default())
            }
        }
    }
}

impl<'de> Deserialize<'de> for SentMessage {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        use serde::de::Error;
        match digits::value(deserializer)? {
            map @ Value::Object(_) if digits::digits(&map).is_none() => {
                serde_json::from_value(map).map(Self::Content).map_err(D::Error::custom)
            }
            Value::String(text) => Ok(Self::Text(text)),
            _ => Err(D::Error::custom("expected a text, or a map such as {json: {type: hello}}")),
        }
    }
}

written_as_its_value!(SentMessage: Text, Content);

schema!(SentMessage, "SentMessage", |generator| {
    let content = generator.subschema_for::<MessageContent>();
    json_schema!({
        "description": "A text, or a map such as {json: {type: hello}}.",
        "anyOf": [{ "type": "string" }, content]
    })
});

impl<'de> Deserialize<'de> for Receive {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        use serde::de::Error;
        match digits::value(deserializer)? {
            Value::Bool(next) => Ok(Self::Next(next)),
            map @ Value::Object(_) if digits::digits(&map).is_none() => {
                serde_json::from_value(map).map(Self::Details).map_err(D::Error::custom)
            }
            _ => Err(D::Error::custom("expected true, or a map such as {json: {$.type: welcome}}")),
        }
    }
}

written_as_its_value!(Receive: Next, Details);

schema!(Receive, "Receive", |generator| {
    let details = generator.subschema_for::<ReceivedMessage>();
    json_schema!({
        "description": "true for the next message, or a map such as {json: {$.type: welcome}}.",
        "anyOf": [{ "type": "boolean" }, details]
    })
});

impl<'de> Deserialize<'de> for Close {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        use serde::de::Error;
        match digits::rounded(deserializer)? {
            map @ Value::Object(_) => {
                serde_json::from_value(map).map(Self::Details).map_err(D::Error::custom)
            }
            Value::Bool(closes) => Ok(Self::Switch(closes)),
            number => serde_json::from_value(number).map(Self::Code).map_err(|_| {
                D::Error::custom("expected true, a code such as 1000, or {code: 4000, reason: bye}")
            }),
        }
    }
}

written_as_its_value!(Close: Switch, Code, Details);

schema!(Close, "Close", |generator| {
    let details = generator.subschema_for::<CloseDetails>();
    json_schema!({
        "description": "true, a code such as 1000, or a map such as {code: 4000, reason: bye}.",
        "anyOf": [{ "type": "boolean" }, { "type": "integer", "minimum": 1000, "maximum": 4999 }, details]
    })
});
