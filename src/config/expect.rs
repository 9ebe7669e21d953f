//! The checks on a response and the values to take from it, as written.

use crate::notation::schema;
use std::collections::BTreeMap;

use schemars::{JsonSchema, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use text::digits;

use super::condition::{Condition, TextCondition};
use super::grpc::{STATUSES, status_name, status_number};
use super::reference::DurationText;

/// Checks on a response.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Expect {
    /// A status such as 201, a class such as `2xx`, or a list of them. Of gRPC, the name of a status, such as NOT_FOUND.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<Status>,
    /// Headers with the exact value that each must have, or a condition such as `{matches: REGEX}`.
    #[schemars(extend("writeOnly" = true))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub headers: Option<BTreeMap<String, TextCondition>>,
    /// Text that the body must contain, or a condition such as `{matches: REGEX}`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body: Option<TextCondition>,
    /// JSONPaths with the value that each must have, or comparisons such as `{gt: 3}`. A map that the value must equal is
    /// written as `{equals: MAP}`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub json: Option<BTreeMap<String, Condition>>,
    /// The same as `json`, for the message of a gRPC answer or of a WebSocket. Of a gRPC method that answers with a stream,
    /// the body is the list of its messages.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<BTreeMap<String, Condition>>,
    /// The number of messages in a gRPC answer or from a WebSocket, or of events in a stream, or a comparison such as
    /// `{ge: 1}`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub messages: Option<Condition>,
    /// Variables with the value that each must have after `extract`, or comparisons.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub variables: Option<BTreeMap<String, Condition>>,
    /// The action fails if the request takes longer than this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency: Option<DurationText>,
}

/// The accepted statuses.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Status(pub Vec<StatusRange>);

/// `from..=to`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct StatusRange {
    /// The first status.
    pub from: u16,
    /// The last status.
    pub to: u16,
}

impl<'de> Deserialize<'de> for Status {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        use serde::de::Error;
        let value = digits::rounded(deserializer)?;
        let items = if let Value::Array(items) = value { items } else { vec![value] };
        items
            .iter()
            .map(status_range)
            .collect::<Option<Vec<_>>>()
            .map(Self)
            .ok_or_else(|| D::Error::custom("a status is a number from 100 to 599, a class such as 2xx, or the name of a gRPC status such as NOT_FOUND"))
    }
}

fn status_range(value: &Value) -> Option<StatusRange> {
    match value {
        Value::Number(number) => {
            let status = u16::try_from(number.as_u64()?).ok().filter(|s| (100..600).contains(s))?;
            Some(StatusRange { from: status, to: status })
        }
        Value::String(text) if text.starts_with(|c: char| c.is_ascii_uppercase()) => {
            status_number(text).map(|number| StatusRange { from: number, to: number })
        }
        Value::String(text) => {
            let class = text.strip_suffix("xx")?.parse::<u16>().ok().filter(|c| (1..6).contains(c))?;
            Some(StatusRange { from: class * 100, to: class * 100 + 99 })
        }
        _ => None,
    }
}

impl Serialize for Status {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let written = |range: &StatusRange| match range.from == range.to {
            true => status_name(range.from).map_or_else(|| Value::from(range.from), Value::from),
            false => Value::from(format!("{}xx", range.from / 100)),
        };
        match self.0.as_slice() {
            [one] => written(one).serialize(serializer),
            several => several.iter().map(written).collect::<Vec<_>>().serialize(serializer),
        }
    }
}

schema!(Status, "Status", |_| {
    let classes = ["1xx", "2xx", "3xx", "4xx", "5xx"];
    let statuses: Vec<&str> = classes.iter().chain(&STATUSES).copied().collect();
    let one = json_schema!({ "anyOf": [
            { "type": "integer", "minimum": 100, "maximum": 599 },
            { "type": "string", "enum": statuses } ] });
    json_schema!({
        "description": "A status, a class such as 2xx, the name of a gRPC status, or a list of them.",
        "anyOf": [
            { "type": "integer", "minimum": 100, "maximum": 599 },
            { "type": "string", "enum": statuses },
            { "type": "array", "minItems": 1, "items": one }
        ]
    })
});

/// Where to find a variable's value in a response: exactly one of `json`, `pointer`, `header`, `cookie` and `regex`.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Extract {
    /// A JSONPath (RFC 9535) in the body, such as `$.token.user.id`. The value is the first match.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub json: Option<String>,
    /// A JSON pointer (RFC 6901) in the body, such as `/token/user/id`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pointer: Option<String>,
    /// The name of a cookie that this response or an earlier one of the iteration set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cookie: Option<String>,
    /// The name of a header.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub header: Option<String>,
    /// A regular expression for the body. The value is its first group, or the whole match if it has no group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub regex: Option<String>,
    /// The value if nothing is found. Without a default, the iteration fails.
    #[serde(default, deserialize_with = "digits::some", skip_serializing_if = "Option::is_none")]
    pub default: Option<Value>,
    /// `true` hides the value in every message. The default is `true` if the header or the variable has a name like a
    /// secret, such as X-Subject-Token, Set-Cookie or `token`, and otherwise `false`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret: Option<bool>,
}

/// Where to find a number in a response: exactly one of `json`, `pointer`, `header`, `cookie` and `regex`. A text that is a
/// number counts, such as `"19.90"`; anything else is counted as no number, and fails nothing.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct MeasurePlace {
    /// A JSONPath (RFC 9535) in the body, such as `$.cart.total`. The number is the first match.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub json: Option<String>,
    /// A JSON pointer (RFC 6901) in the body, such as `/cart/total`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pointer: Option<String>,
    /// The name of a cookie that this response or an earlier one of the iteration set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cookie: Option<String>,
    /// The name of a header, such as `X-RateLimit-Remaining`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub header: Option<String>,
    /// A regular expression for the body. The number is its first group, or the whole match if it has no group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub regex: Option<String>,
}

impl MeasurePlace {
    /// The same place, as `extract` has it.
    #[must_use]
    pub fn as_extract(&self) -> Extract {
        Extract {
            json: self.json.clone(),
            pointer: self.pointer.clone(),
            cookie: self.cookie.clone(),
            header: self.header.clone(),
            regex: self.regex.clone(),
            default: None,
            secret: None,
        }
    }
}
