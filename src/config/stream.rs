//! How an answer is read that comes as a stream, as written: `stream: events`, or a map.

use std::collections::BTreeMap;

use schemars::{JsonSchema, json_schema};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use text::digits;

use super::condition::Condition;
use super::reference::{DurationText, SizeText};
use crate::notation::{schema, written_as_its_value};

/// How an answer is read that comes as a stream.
#[derive(Clone, Debug)]
pub enum StreamReading {
    /// Only the format.
    Format(StreamFormat),
    /// A map.
    Details(Box<StreamDetails>),
}

/// A stream: its format, its end, and checks on its events.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct StreamDetails {
    /// `events` (server-sent events), `lines` (such as JSON lines), or `chunks` (each piece as it arrives).
    #[serde(rename = "as")]
    pub format: StreamFormat,
    /// The event after which no more are read. A text such as `"[DONE]"` is the data of an event that only marks the end. If
    /// the stream ends without it, the action fails.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<StreamEnd>,
    /// The number of events after which no more are read.
    #[schemars(range(min = 1))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max: Option<u64>,
    /// The time after which no more are read, from the sending of the request.
    #[serde(rename = "for", skip_serializing_if = "Option::is_none")]
    pub read_time: Option<DurationText>,
    /// JSONPaths with the value that each must have in every event, or comparisons. (`expect` and `extract` read the last
    /// event.)
    #[serde(skip_serializing_if = "Option::is_none")]
    pub each: Option<BTreeMap<String, Condition>>,
    /// The JSONPath of the number of tokens that a language model made, in any event, such as
    /// `$.usage.completion_tokens`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<String>,
    /// The largest event that is read (default 4MiB).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_event: Option<SizeText>,
}

/// How a stream is made up: of server-sent events, of a line for each event, or of pieces as they arrive.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum StreamFormat {
    Events,
    Lines,
    Chunks,
}

/// The event after which no more are read.
#[derive(Clone, Debug)]
pub enum StreamEnd {
    /// The data of an event that only marks the end.
    Data(String),
    /// A map.
    Event(EndEvent),
}

/// The event after which no more are read: `event` or `json`.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
#[schemars(extend("minProperties" = 1, "maxProperties" = 1))]
pub struct EndEvent {
    /// The type of a server-sent event that only marks the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event: Option<String>,
    /// JSONPaths with the value that each has in the last event, or comparisons. That event counts like the others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub json: Option<BTreeMap<String, Condition>>,
}

impl StreamReading {
    /// The map that it stands for.
    #[must_use]
    pub fn details(&self) -> StreamDetails {
        match self {
            Self::Details(details) => (**details).clone(),
            Self::Format(format) => StreamDetails {
                format: *format,
                until: None,
                max: None,
                read_time: None,
                each: None,
                tokens: None,
                max_event: None,
            },
        }
    }
}

impl<'de> Deserialize<'de> for StreamReading {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        use serde::de::Error;
        match digits::value(deserializer)? {
            map @ Value::Object(_) => {
                serde_json::from_value(map).map(Self::Details).map_err(D::Error::custom)
            }
            other => serde_json::from_value(other).map(Self::Format).map_err(D::Error::custom),
        }
    }
}

written_as_its_value!(StreamReading: Format, Details);

schema!(StreamReading, "Stream", |generator| {
    let (format, details) =
        (generator.subschema_for::<StreamFormat>(), generator.subschema_for::<StreamDetails>());
    json_schema!({
        "description": "events, lines or chunks, or a map such as {as: events, until: \"[DONE]\"}.",
        "anyOf": [format, details]
    })
});

impl<'de> Deserialize<'de> for StreamEnd {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        use serde::de::Error;
        match digits::value(deserializer)? {
            map @ Value::Object(_) if digits::digits(&map).is_none() => {
                serde_json::from_value(map).map(Self::Event).map_err(D::Error::custom)
            }
            Value::String(text) => Ok(Self::Data(text)),
            _ => Err(D::Error::custom("expected a text, or a map such as {json: {$.done: true}}")),
        }
    }
}

written_as_its_value!(StreamEnd: Data, Event);

schema!(StreamEnd, "StreamEnd", |generator| {
    let event = generator.subschema_for::<EndEvent>();
    json_schema!({
        "description": "The data of the event that marks the end, or a map such as {json: {$.done: true}}.",
        "anyOf": [{ "type": "string" }, event]
    })
});
