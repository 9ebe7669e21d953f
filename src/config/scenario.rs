//! The scenario file: what, how often, how good.

use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::reference::{DurationText, Reference, ShareText, SizeText};
use super::runner::{Runner, WarmUp};
pub use super::sla::Sla;

/// A scenario. A file with one workload may write the workload's keys at the top level.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// What it is, in one line.
    #[schemars(length(min = 1))]
    pub title: String,
    /// The deployment file, relative to this file; `-d` overrides it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deployment: Option<String>,
    /// Variables for `{{ templates }}`; `--set NAME=VALUE` overrides them.
    #[schemars(extend("writeOnly" = true))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub variables: Option<BTreeMap<String, Variable>>,
    /// False switches profiling off for this scenario; `{control: 10%}` leaves a random share of iterations
    /// unprofiled, and the report says what profiling costs the others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<Profile>,
    /// Which traces are fetched after the load.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace: Option<Trace>,
    /// The longest that the whole run may take; it is stopped gracefully then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<DurationText>,
    /// How long running iterations may go on after a stop (default 30s).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub graceful_stop: Option<DurationText>,
    /// How the requests use HTTP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http: Option<Http>,
    /// Actions before the load, once; what they extract is visible to all iterations.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub setup: Option<Vec<Step>>,
    /// Actions after the load, once, whatever happened.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub teardown: Option<Vec<Step>>,
    /// Several loads, one after another.
    #[schemars(length(min = 1))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workloads: Option<Vec<Workload>>,
    /// True runs the workloads at the same time instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parallel: Option<bool>,
    /// How often and how concurrently the iteration runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runner: Option<Runner>,
    /// Load before the measured part, of the same kind; its samples are kept apart.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warm_up: Option<WarmUp>,
    /// One pass: actions in order.
    #[schemars(length(min = 1))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub iteration: Option<Vec<Step>>,
    /// When the run counts as good.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sla: Option<Sla>,
}

/// Whether iterations are profiled, and which are not.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Profile {
    /// All or none.
    Switch(bool),
    /// All but a random share.
    Control(ShareText),
}

/// All but a random share.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
struct ProfileControl {
    /// The share of iterations that is left unprofiled, such as `10%`.
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
            "description": "True, false, or {control: 10%}.",
            "anyOf": [{ "type": "boolean" }, control]
        })
    }
}

/// Which traces are fetched after the load, and how long services may take to report.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Trace {
    /// `slow` (the default): of the slowest 5 % of iterations, as many typical ones, and some of the failed; `all`: of
    /// further iterations too, up to the limit; `none`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fetch: Option<Fetch>,
    /// How many slow iterations of the run, and with `all` how many others (default 200).
    #[schemars(range(min = 1, max = 10_000))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// How long to wait for points that are still under way (default 5s).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub settle: Option<DurationText>,
}

/// Whose traces are fetched.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Fetch {
    /// Slow, typical and failed iterations.
    Slow,
    /// Others too.
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

/// How the requests use HTTP: connections, redirects, compression, limits.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Http {
    /// Whose connections are: each virtual user keeps its own (`user`, the default), each iteration
    /// opens its own (`iteration`), or the users of a worker share them (`shared`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connections: Option<Connections>,
    /// The most connections to one origin that the users of a worker share (default 256).
    #[schemars(range(min = 1, max = 100_000))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_connections: Option<u32>,
    /// How many redirects an action follows (default 0: the redirect itself is judged).
    #[schemars(range(min = 0, max = 50))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub redirects: Option<u32>,
    /// True asks for compressed answers. They are decompressed after their time was taken, if anything
    /// looks at the body; false leaves them as they are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decompress: Option<bool>,
    /// The largest body of an answer, before and after decompression (default 64MiB).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_body: Option<SizeText>,
    /// The largest head of an answer (default 256KiB).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_head: Option<SizeText>,
    /// The most headers of an answer (default 256).
    #[schemars(range(min = 1, max = 10_000))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_headers: Option<u32>,
    /// The most bytes of trailers behind a chunked body (default 64KiB).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_trailers: Option<SizeText>,
}

/// Whose connections are.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Connections {
    /// Each virtual user keeps its own.
    User,
    /// Each iteration opens its own.
    Iteration,
    /// The users of a worker share them.
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

/// One load.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    /// Its name in every table.
    #[schemars(length(min = 1))]
    pub name: String,
    // It is always there, but in what is left of a file with faults.
    /// How often and how concurrently the iteration runs.
    #[schemars(with = "Runner")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runner: Option<Runner>,
    /// Load before the measured part, of the same kind; its samples are kept apart.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warm_up: Option<WarmUp>,
    /// One pass: actions in order.
    #[schemars(length(min = 1))]
    pub iteration: Vec<Step>,
    /// When it counts as good.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sla: Option<Sla>,
}

/// A variable's value: anything, or where to find it.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(transparent)]
pub struct Variable(pub Value);

/// A step of an iteration: an action with its request, or a think time.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// The action's name: the key in every table (default: its method and path).
    #[schemars(length(min = 1, max = 200))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub action: Option<String>,
    /// GET this path of the target, or this URL.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub get: Option<String>,
    /// HEAD this path of the target, or this URL.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub head: Option<String>,
    /// POST to this path of the target, or to this URL.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub post: Option<String>,
    /// PUT to this path of the target, or to this URL.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub put: Option<String>,
    /// PATCH this path of the target, or this URL.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub patch: Option<String>,
    /// DELETE this path of the target, or this URL.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delete: Option<String>,
    /// OPTIONS of this path of the target, or of this URL.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub options: Option<String>,
    /// The deployment's target (default `default`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// Headers; they win over the deployment's.
    #[schemars(extend("writeOnly" = true))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub headers: Option<BTreeMap<String, String>>,
    /// Query parameters, encoded for you.
    #[schemars(extend("writeOnly" = true))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub query: Option<BTreeMap<String, Scalar>>,
    /// A JSON body; texts in it may hold templates.
    #[schemars(extend("writeOnly" = true))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub json: Option<Value>,
    /// A form body, encoded for you.
    #[schemars(extend("writeOnly" = true))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub form: Option<BTreeMap<String, Scalar>>,
    /// A body as it is.
    #[schemars(extend("writeOnly" = true))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
    /// False sends the request without the deployment's credentials.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auth: Option<bool>,
    /// The longest that the request may take (default 30s).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<DurationText>,
    /// How many redirects are followed (default: that of `http`, else 0).
    #[schemars(range(min = 0, max = 50))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub redirects: Option<u32>,
    /// True asks for a compressed answer, false leaves one as it is (default: that of `http`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decompress: Option<bool>,
    /// The largest body of the answer (default: that of `http`, else 64MiB).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_body: Option<SizeText>,
    /// What the answer must be; without it, statuses from 400 on are failures.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expect: Option<Expect>,
    /// What to take out of the answer, by the variable's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extract: Option<BTreeMap<String, Extract>>,
    /// A pause instead of a request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub think: Option<DurationText>,
}

/// Text, a number or a boolean.
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

/// What an answer must be.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Expect {
    /// A status such as 201, a class such as `2xx`, or a list of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<Status>,
    /// Headers that must have this value, or match `{matches: REGEX}`.
    #[schemars(extend("writeOnly" = true))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub headers: Option<BTreeMap<String, TextCondition>>,
    /// What the body must hold.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body: Option<TextCondition>,
    /// JSONPath to the value that must stand there; `{exists: true}` asks for any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub json: Option<BTreeMap<String, Value>>,
    /// The longest that the request may have taken.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency: Option<DurationText>,
}

/// Statuses that are accepted.
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

/// A condition on a text: the text itself (of a header) or a part of it (of a body), or
/// `{equals: …}`, `{contains: …}`, `{matches: REGEX}`.
#[derive(Clone, Debug, Default)]
pub struct TextCondition {
    /// The text itself, given without a key.
    pub plain: Option<String>,
    /// All of the text.
    pub equals: Option<String>,
    /// A part of the text.
    pub contains: Option<String>,
    /// A regular expression that matches somewhere.
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
            "description": "Text, or {equals: TEXT}, {contains: TEXT}, {matches: REGEX}.",
            "anyOf": [
                { "type": "string" },
                { "type": "object", "additionalProperties": false, "minProperties": 1, "properties": {
                    "equals": { "type": "string" }, "contains": { "type": "string" }, "matches": { "type": "string" } } }
            ]
        })
    }
}

/// Where a variable's value stands in an answer: exactly one of the places.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Extract {
    /// A JSONPath (RFC 9535), such as `$.token.user.id`; the first match counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub json: Option<String>,
    /// A JSON pointer (RFC 6901), such as `/token/user/id`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pointer: Option<String>,
    /// A header's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub header: Option<String>,
    /// A regular expression on the body; its first group counts, or all that it matches.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub regex: Option<String>,
    /// What counts when nothing is found; without it, the iteration fails.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default: Option<Value>,
    /// True hides the value in every message (default: true where the name of the header or the variable says that it
    /// is a secret, such as X-Subject-Token, Set-Cookie or `token`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret: Option<bool>,
}

/// Variables may refer to a secret as deployments do.
#[must_use]
pub fn variable_reference(variable: &Variable) -> Option<Reference> {
    let map = variable.0.as_object()?;
    let refers = (map.contains_key("env") || map.contains_key("file")) && map.values().all(Value::is_string);
    if refers { Reference::deserialize(&variable.0).ok() } else { None }
}
