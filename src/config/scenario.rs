//! The scenario file: what to do, how often, and how good the results must be.

use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::end::End;
use super::reference::{DurationText, Reference, ShareText, SizeText};
use super::runner::{Runner, WarmUp};
pub use super::sla::Sla;

/// A load test. With a single workload, its keys may be at the top level.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// The title of the scenario in every report, in one line.
    #[schemars(length(min = 1))]
    pub title: String,
    /// The deployment file, relative to this file. `-d` overrides it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deployment: Option<String>,
    /// Variables for `{{ templates }}`. `--set NAME=VALUE` overrides them.
    #[schemars(extend("writeOnly" = true))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub variables: Option<BTreeMap<String, Variable>>,
    /// `true` (the default) profiles every iteration, if the deployment has an HMAC key. `false` turns profiling off.
    /// `{control: 10%}` leaves a random share of iterations unprofiled and reports the cost of profiling.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<Profile>,
    /// Which traces to fetch after the load.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace: Option<Trace>,
    /// The time limit of the whole run, after which it stops gracefully (default: no limit).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<DurationText>,
    /// How long running iterations may continue after the load has stopped (default 30s).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub graceful_stop: Option<DurationText>,
    /// How requests use HTTP: connections, redirects, compression and size limits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http: Option<Http>,
    /// Actions that run once, before the load. All iterations can use the values that these actions extract.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub setup: Option<Vec<Step>>,
    /// Actions that run once, after the load, even if the load failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub teardown: Option<Vec<Step>>,
    /// Several loads, one after another, instead of a top-level `runner`, `warm_up`, `end`, `iteration` and `sla`.
    #[schemars(length(min = 1))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workloads: Option<Vec<Workload>>,
    /// `true` runs the workloads at the same time; `false` (the default), one after another.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parallel: Option<bool>,
    /// When iterations start: one after another, at a fixed concurrency, or at an arrival rate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runner: Option<Runner>,
    /// Load before the measured part: a duration or a number of iterations. It is not part of any figure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warm_up: Option<WarmUp>,
    /// What to measure to: the `response` (the default), or with `asynchronous`, also the end of the trace's last span.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end: Option<End>,
    /// The steps of one iteration, in order.
    #[schemars(length(min = 1))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub iteration: Option<Vec<Step>>,
    /// Criteria that the results must meet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sla: Option<Sla>,
}

/// Which iterations are profiled.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Profile {
    /// All (true) or none (false).
    Switch(bool),
    /// All except a random share.
    Control(ShareText),
}

/// Profile all iterations except a random share.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
struct ProfileControl {
    /// The share of iterations to leave unprofiled, such as `10%`.
    control: ShareText,
}

impl<'de> Deserialize<'de> for Profile {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        use serde::de::Error;
        match Value::deserialize(deserializer)? {
            Value::Bool(on) => Ok(Self::Switch(on)),
            map @ Value::Object(_) => ProfileControl::deserialize(map)
                .map(|profile| Self::Control(profile.control))
                .map_err(D::Error::custom),
            _ => Err(D::Error::custom("expected true, false or {control: 10%}")),
        }
    }
}

impl Serialize for Profile {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match *self {
            Self::Switch(on) => on.serialize(serializer),
            Self::Control(control) => ProfileControl { control }.serialize(serializer),
        }
    }
}

impl JsonSchema for Profile {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Profile".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let control = generator.subschema_for::<ProfileControl>();
        json_schema!({
            "description": "true, false, or {control: 10%}.",
            "anyOf": [{ "type": "boolean" }, control]
        })
    }
}

/// Which traces to fetch after the load, and how long to wait for them.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Trace {
    /// `slow` (the default) fetches the traces of the slowest 5 % of iterations, as many typical ones, and some failed
    /// ones. `all` also fetches traces of other iterations. `none` fetches no traces.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fetch: Option<Fetch>,
    /// The largest number of slow iterations to fetch for the run, and with `all`, of other iterations (default 200).
    #[schemars(range(min = 1, max = 10_000))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// How long to wait for trace points that the collector has not received yet (default 5s).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub settle: Option<DurationText>,
}

/// Which iterations' traces to fetch.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Fetch {
    /// Slow, typical and failed iterations.
    Slow,
    /// Other iterations too.
    All,
    /// None.
    None,
}

impl JsonSchema for Fetch {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Fetch".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "enum": ["slow", "all", "none"] })
    }
}

/// How requests use HTTP: connections, redirects, compression and size limits.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Http {
    /// `user` (the default): each virtual user keeps its connections. `iteration`: each iteration opens new
    /// connections. `shared`: the users of a worker share connections.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connections: Option<Connections>,
    /// With `connections: shared`, the largest number of connections per worker to one origin (default 256).
    #[schemars(range(min = 1, max = 100_000))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_connections: Option<u32>,
    /// The largest number of redirects that an action follows (default 0: the redirect itself is checked).
    #[schemars(range(min = 0, max = 50))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub redirects: Option<u32>,
    /// `true` requests compressed responses. By default, `bench` does not request compression, but decompresses what it
    /// receives if a check or an extraction needs the body; this is not part of the service time. `false` never
    /// decompresses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decompress: Option<bool>,
    /// The largest response body, both before and after decompression (default 64MiB).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_body: Option<SizeText>,
    /// The largest response head: the status line and all headers (default 256KiB).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_head: Option<SizeText>,
    /// The largest number of headers in a response (default 256).
    #[schemars(range(min = 1, max = 10_000))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_headers: Option<u32>,
    /// The largest size of the trailers after a chunked body (default 64KiB).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_trailers: Option<SizeText>,
}

/// Which iterations share connections.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Connections {
    /// Each virtual user keeps its connections.
    User,
    /// Each iteration opens new connections.
    Iteration,
    /// The users of a worker share connections.
    Shared,
}

impl JsonSchema for Connections {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Connections".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "enum": ["user", "iteration", "shared"] })
    }
}

/// One of several loads.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    /// The name of the workload in every table.
    #[schemars(length(min = 1))]
    pub name: String,
    // Required, but may be missing after the faulty parts of a file were removed.
    /// When iterations start: one after another, at a fixed concurrency, or at an arrival rate.
    #[schemars(with = "Runner")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runner: Option<Runner>,
    /// Load before the measured part: a duration or a number of iterations. It is not part of any figure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warm_up: Option<WarmUp>,
    /// What to measure to: the `response` (the default), or with `asynchronous`, also the end of the trace's last span.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end: Option<End>,
    /// The steps of one iteration, in order.
    #[schemars(length(min = 1))]
    pub iteration: Vec<Step>,
    /// Criteria that the results of this workload must meet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sla: Option<Sla>,
}

/// A value, or a reference to a secret: {env: NAME}, {env: NAME, default: TEXT} or {file: PATH}.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(transparent)]
pub struct Variable(pub Value);

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

/// Checks on a response.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Expect {
    /// A status such as 201, a class such as `2xx`, or a list of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<Status>,
    /// Headers with the exact value that each must have, or a condition such as `{matches: REGEX}`.
    #[schemars(extend("writeOnly" = true))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub headers: Option<BTreeMap<String, TextCondition>>,
    /// Text that the body must contain, or a condition such as `{matches: REGEX}`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body: Option<TextCondition>,
    /// JSONPaths with the value that each must have. `{exists: true}` accepts any value, `{exists: false}` none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub json: Option<BTreeMap<String, Value>>,
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
        let value = Value::deserialize(deserializer)?;
        let items = if let Value::Array(items) = value { items } else { vec![value] };
        items
            .iter()
            .map(status_range)
            .collect::<Option<Vec<_>>>()
            .map(Self)
            .ok_or_else(|| D::Error::custom("a status is a number from 100 to 599 or a class such as 2xx"))
    }
}

fn status_range(value: &Value) -> Option<StatusRange> {
    match value {
        Value::Number(number) => {
            let status = u16::try_from(number.as_u64()?).ok().filter(|s| (100..600).contains(s))?;
            Some(StatusRange { from: status, to: status })
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
            true => Value::from(range.from),
            false => Value::from(format!("{}xx", range.from / 100)),
        };
        match self.0.as_slice() {
            [one] => written(one).serialize(serializer),
            several => several.iter().map(written).collect::<Vec<_>>().serialize(serializer),
        }
    }
}

impl JsonSchema for Status {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Status".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let one = json_schema!({ "anyOf": [
            { "type": "integer", "minimum": 100, "maximum": 599 },
            { "type": "string", "enum": ["1xx", "2xx", "3xx", "4xx", "5xx"] } ] });
        json_schema!({
            "description": "A status, a class such as 2xx, or a list of them.",
            "anyOf": [
                { "type": "integer", "minimum": 100, "maximum": 599 },
                { "type": "string", "enum": ["1xx", "2xx", "3xx", "4xx", "5xx"] },
                { "type": "array", "minItems": 1, "items": one }
            ]
        })
    }
}

/// A condition on a text: text alone, or `{equals: …}`, `{contains: …}`, `{matches: REGEX}`. Text alone means `equals`
/// for a header and `contains` for a body.
#[derive(Clone, Debug, Default)]
pub struct TextCondition {
    /// Text alone.
    pub plain: Option<String>,
    /// The whole text must equal this.
    pub equals: Option<String>,
    /// The text must contain this.
    pub contains: Option<String>,
    /// This regular expression must match somewhere in the text.
    pub matches: Option<String>,
}

impl<'de> Deserialize<'de> for TextCondition {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::String(text) => Ok(Self { plain: Some(text), ..Self::default() }),
            Value::Object(map) => {
                let take = |key: &str| map.get(key).and_then(Value::as_str).map(str::to_owned);
                Ok(Self {
                    plain: None,
                    equals: take("equals"),
                    contains: take("contains"),
                    matches: take("matches"),
                })
            }
            _ => Err(serde::de::Error::custom("expected text or {equals|contains|matches: TEXT}")),
        }
    }
}

impl Serialize for TextCondition {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if let Some(text) = &self.plain {
            return text.serialize(serializer);
        }
        let keys = [("equals", &self.equals), ("contains", &self.contains), ("matches", &self.matches)];
        let written = keys.into_iter().filter_map(|(key, text)| Some((key, text.as_ref()?)));
        serializer.collect_map(written)
    }
}

impl JsonSchema for TextCondition {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "TextCondition".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "Text, {equals: TEXT}, {contains: TEXT} or {matches: REGEX}. Text alone means `equals` for \
                a header and `contains` for a body.",
            "anyOf": [
                { "type": "string" },
                { "type": "object", "additionalProperties": false, "minProperties": 1, "properties": {
                    "equals": { "type": "string" }, "contains": { "type": "string" }, "matches": { "type": "string" } } }
            ]
        })
    }
}

/// Where to find a variable's value in a response: exactly one of `json`, `pointer`, `header` and `regex`.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Extract {
    /// A JSONPath (RFC 9535) in the body, such as `$.token.user.id`. The value is the first match.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub json: Option<String>,
    /// A JSON pointer (RFC 6901) in the body, such as `/token/user/id`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pointer: Option<String>,
    /// The name of a header.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub header: Option<String>,
    /// A regular expression for the body. The value is its first group, or the whole match if it has no group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub regex: Option<String>,
    /// The value if nothing is found. Without a default, the iteration fails.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default: Option<Value>,
    /// `true` hides the value in every message. The default is `true` if the header or the variable has a name like a
    /// secret, such as X-Subject-Token, Set-Cookie or `token`, and otherwise `false`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret: Option<bool>,
}

/// The reference to a secret that a variable consists of, if any.
#[must_use]
pub fn variable_reference(variable: &Variable) -> Option<Reference> {
    let map = variable.0.as_object()?;
    let refers = (map.contains_key("env") || map.contains_key("file")) && map.values().all(Value::is_string);
    if refers { Reference::deserialize(&variable.0).ok() } else { None }
}
