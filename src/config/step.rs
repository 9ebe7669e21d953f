//! A step of an iteration, as written.

use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::expect::{Expect, Extract};
use super::reference::{DurationText, SizeText};

/// A step of an iteration: an action with its request, or a think time.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// The name of the action in every table (default: its method and path).
    #[schemars(length(min = 1, max = 200))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub action: Option<String>,
    /// Send a GET request to this path of the target, or to this URL.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub get: Option<String>,
    /// Send a HEAD request to this path of the target, or to this URL.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub head: Option<String>,
    /// Send a POST request to this path of the target, or to this URL.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub post: Option<String>,
    /// Send a PUT request to this path of the target, or to this URL.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub put: Option<String>,
    /// Send a PATCH request to this path of the target, or to this URL.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub patch: Option<String>,
    /// Send a DELETE request to this path of the target, or to this URL.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delete: Option<String>,
    /// Send an OPTIONS request to this path of the target, or to this URL.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub options: Option<String>,
    /// The name of a target in the deployment (default `default`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// Request headers. They override the deployment's headers.
    #[schemars(extend("writeOnly" = true))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub headers: Option<BTreeMap<String, String>>,
    /// Query parameters; `bench` encodes them.
    #[schemars(extend("writeOnly" = true))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub query: Option<BTreeMap<String, Scalar>>,
    /// A JSON body. Strings in it may contain templates.
    #[schemars(extend("writeOnly" = true))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub json: Option<Value>,
    /// A form body; `bench` encodes it.
    #[schemars(extend("writeOnly" = true))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub form: Option<BTreeMap<String, Scalar>>,
    /// A text body. It may contain templates.
    #[schemars(extend("writeOnly" = true))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
    /// `false` sends the request without the deployment's credentials (default true).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auth: Option<bool>,
    /// The time limit of the request (default 30s).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<DurationText>,
    /// The largest number of redirects to follow (default: `redirects` of `http`, or 0).
    #[schemars(range(min = 0, max = 50))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub redirects: Option<u32>,
    /// `true` requests a compressed response, `false` never decompresses it (default: `decompress` of `http`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decompress: Option<bool>,
    /// The largest response body (default: `max_body` of `http`, or 64MiB).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_body: Option<SizeText>,
    /// Checks on the response. Without `status`, a status of 400 or above is a failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expect: Option<Expect>,
    /// Values to take from the response, by variable name. Later actions can use them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extract: Option<BTreeMap<String, Extract>>,
    /// A pause instead of a request. Such a step has no other keys.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub think: Option<DurationText>,
}

/// A string, a number or a boolean.
#[derive(Clone, Debug)]
pub struct Scalar(pub String);

impl<'de> Deserialize<'de> for Scalar {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::String(text) => Ok(Self(text)),
            other => Ok(Self(other.to_string())),
        }
    }
}

impl Serialize for Scalar {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl JsonSchema for Scalar {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Scalar".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": ["string", "number", "boolean"] })
    }
}
