//! When an iteration's asynchronous work ends, as a workload says it.

use crate::notation::schema;
use schemars::{JsonSchema, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use text::digits;

use super::reference::DurationText;

/// What a workload measures to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum End {
    /// The response.
    Response,
    /// The response, and the end of the last span of the trace; waits for spans for this time, if it is written.
    Asynchronous(Option<DurationText>),
}

/// Measure to the end of the last span, too.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
struct EndMap {
    /// How to measure asynchronous work.
    asynchronous: AsynchronousEnd,
}

/// How to measure asynchronous work.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
struct AsynchronousEnd {
    /// How long after the last response to wait for spans of work that has not ended (default 10s, at most 1h).
    #[serde(skip_serializing_if = "Option::is_none")]
    deadline: Option<DurationText>,
}

impl<'de> Deserialize<'de> for End {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        use serde::de::Error;
        match digits::rounded(deserializer)? {
            Value::String(text) if text == "response" => Ok(Self::Response),
            Value::String(text) if text == "asynchronous" => Ok(Self::Asynchronous(None)),
            map @ Value::Object(_) => EndMap::deserialize(map)
                .map(|end| Self::Asynchronous(end.asynchronous.deadline))
                .map_err(D::Error::custom),
            _ => Err(D::Error::custom("expected response, asynchronous or {asynchronous: {deadline: 30s}}")),
        }
    }
}

impl Serialize for End {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match *self {
            Self::Response => "response".serialize(serializer),
            Self::Asynchronous(None) => "asynchronous".serialize(serializer),
            Self::Asynchronous(deadline) => {
                EndMap { asynchronous: AsynchronousEnd { deadline } }.serialize(serializer)
            }
        }
    }
}

schema!(End, "End", |generator| {
    let map = generator.subschema_for::<EndMap>();
    json_schema!({
        "description": "response, asynchronous, or {asynchronous: {deadline: 30s}}.",
        "anyOf": [{ "type": "string", "enum": ["response", "asynchronous"] }, map]
    })
});
