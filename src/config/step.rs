//! A step of an iteration, as written.

pub mod credentials;
pub mod flow;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use text::digits;

use self::credentials::Credentials;
use self::flow::{Alternative, Assignments, Condition, CountText, Items, Poll, Think};
pub use super::body::Scalar;
use super::body::{Lines, Multipart, OrderedMap, Values};
use super::expect::{Expect, Extract, MeasurePlace};
use super::reference::{DurationText, SizeText};
use super::stream::StreamReading;
use super::websocket::{Close, Receive, SentMessage};

/// A step of an iteration: an action with its request, a pause, or a step that decides what comes next.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
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
    /// Send a request with any other method, such as `PURGE /cache`: the method and the path, or a URL.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request: Option<String>,
    /// Call this gRPC method, such as `shop.v1.Payments/Charge`. With `steps`, they send and receive its messages.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grpc: Option<String>,
    /// The message of a gRPC call, in protobuf's JSON mapping (default: an empty message). Strings in it may contain
    /// templates.
    #[schemars(extend("writeOnly" = true))]
    #[serde(default, deserialize_with = "digits::some", skip_serializing_if = "Option::is_none")]
    pub message: Option<Value>,
    /// The messages of a method whose client sends a stream: a list, or a template that gives one.
    #[schemars(extend("writeOnly" = true))]
    #[serde(default, deserialize_with = "digits::some", skip_serializing_if = "Option::is_none")]
    pub messages: Option<Value>,
    /// The metadata of a gRPC call. A list sends a name several times. Values whose name ends in `-bin` are base64.
    #[schemars(extend("writeOnly" = true))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<BTreeMap<String, Lines<String>>>,
    /// Open a WebSocket at this path of the target, or at this URL, for the actions in `steps`. It is closed after them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub websocket: Option<String>,
    /// The subprotocols that a WebSocket offers, the preferred one first.
    #[schemars(length(min = 1))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subprotocols: Option<Vec<String>>,
    /// Send this message over the open WebSocket: a text, or a map such as `{json: {type: hello}}`. In a gRPC call, it is
    /// always `json`.
    #[schemars(extend("writeOnly" = true))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub send: Option<SentMessage>,
    /// Wait for a message of the open WebSocket or gRPC call: `true` for the next one, or a map such as `{json: {$.type: welcome}}`.
    /// Together with `send`, it is the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub receive: Option<Receive>,
    /// `true` sends a ping over the open WebSocket and waits for its pong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ping: Option<bool>,
    /// Close the open WebSocket with this code, such as 1000, and wait until the service has closed it, too. In a gRPC
    /// call, `true` ends the messages that are sent, and waits for the status.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub close: Option<Close>,
    /// Send this line to the target, which sends it back: the toy protocol of tests/echo.
    #[cfg(feature = "simulation")]
    #[schemars(extend("x-unpublished" = true))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub echo: Option<String>,
    /// The name of a target in the deployment (default `default`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// Tags, such as `{team: identity}`: results have a row for each tag and value, over all actions with it. A group's
    /// tags hold for the actions within it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tags: Option<BTreeMap<String, String>>,
    /// Request headers. They override the deployment's headers. A list sends a header several times.
    #[schemars(extend("writeOnly" = true))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub headers: Option<BTreeMap<String, Lines<String>>>,
    /// Query parameters, in the order in which they are written; `bench` encodes them. A list sends a name several times.
    #[schemars(extend("writeOnly" = true))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub query: Option<OrderedMap<Values>>,
    /// A JSON body. Strings in it may contain templates.
    #[schemars(extend("writeOnly" = true))]
    #[serde(default, deserialize_with = "digits::some", skip_serializing_if = "Option::is_none")]
    pub json: Option<Value>,
    /// A form body, in the order in which it is written; `bench` encodes it. A list sends a name several times.
    #[schemars(extend("writeOnly" = true))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub form: Option<OrderedMap<Values>>,
    /// A text body. It may contain templates.
    #[schemars(extend("writeOnly" = true))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
    /// A body that is the content of this file, as it is. The path is relative to the scenario. A large file is read
    /// from disk while it is sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// A multipart/form-data body: texts, which may contain templates, and files.
    #[schemars(extend("writeOnly" = true))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub multipart: Option<Multipart>,
    /// `true` compresses the body with gzip and says so in `Content-Encoding`, or in `grpc-encoding` (default false).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gzip: Option<bool>,
    /// `false` sends the request without credentials (default true: those of the iteration's user if `contexts` make
    /// users, or else the deployment's). `admin` always sends the deployment's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auth: Option<Credentials>,
    /// `false` sends the request without cookies and keeps none of its response (default: `cookies` of `http`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cookies: Option<bool>,
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
    /// Read the response as a stream: `events`, `lines` or `chunks`, or a map such as `{as: events, until: "[DONE]"}`. Then
    /// its first event and the gaps between events are measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stream: Option<StreamReading>,
    /// Checks on the response. Without `status`, a status of 400 or above is a failure, and in gRPC any but OK.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expect: Option<Expect>,
    /// Values to take from the response, by variable name. Later actions can use them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extract: Option<BTreeMap<String, Extract>>,
    /// Numbers to take from the response, by the name of the metric that they belong to, such as `{cart_total: {json: $.total}}`.
    /// The metric has percentiles, and thresholds such as `p95(measure "cart_total") < 100`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub measure: Option<BTreeMap<String, MeasurePlace>>,
    /// Repeats the request until a condition holds, such as `{until: "{{ status == 'ACTIVE' }}"}`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub poll: Option<Poll>,
    /// A pause: a duration, `{min: 1s, max: 3s}` (uniformly distributed) or `{mean: 2s}` (exponentially distributed).
    /// Such a step has no other keys.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub think: Option<Think>,
    /// Wait until this time after the start of the iteration, so that iterations of a user start at a steady pace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pace: Option<DurationText>,
    /// Run the steps in `then` if this expression is true, such as `{{ total > 10 }}`, and otherwise those in `else`.
    #[serde(rename = "if", skip_serializing_if = "Option::is_none")]
    pub condition: Option<Condition>,
    /// The steps to run if the condition in `if` is true.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub then: Option<Vec<Step>>,
    /// The steps to run if the condition in `if` is false.
    #[serde(rename = "else", skip_serializing_if = "Option::is_none")]
    pub otherwise: Option<Vec<Step>>,
    /// Run `steps` this many times.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repeat: Option<CountText>,
    /// Run `steps` once for each item of a list. The variable named by `as` has the item.
    #[schemars(extend("writeOnly" = true))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub for_each: Option<Items>,
    /// Run `steps` as long as this expression is true, but at most `max` times.
    #[serde(rename = "while", skip_serializing_if = "Option::is_none")]
    pub while_: Option<Condition>,
    /// The largest number of rounds of a `while` (default 1000). The iteration fails if there would be more.
    #[schemars(range(min = 1, max = 100_000))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max: Option<u32>,
    /// With `repeat`, the variable that counts the rounds from 1. With `for_each`, the variable that has the item. With
    /// `include`, what the names of the file's actions begin with.
    #[serde(rename = "as", skip_serializing_if = "Option::is_none")]
    pub as_: Option<String>,
    /// Run one of several lists of steps, chosen at random by `weight`.
    #[schemars(length(min = 1))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub choice: Option<Vec<Alternative>>,
    /// A named group of `steps`. It has its own latency in every table, and its own trace point.
    #[schemars(length(min = 1, max = 200))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// A named group whose `steps` run at the same time, each over its own connections.
    #[schemars(length(min = 1, max = 200))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub together: Option<String>,
    /// The steps of a `repeat`, `for_each`, `while`, `group`, `together`, `websocket` or `grpc`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub steps: Option<Vec<Step>>,
    /// Set variables. Strings may contain templates; a single `{{ expression }}` keeps its type.
    #[schemars(extend("writeOnly" = true))]
    #[serde(default, deserialize_with = "digits::assignments", skip_serializing_if = "Option::is_none")]
    pub set: Option<Assignments>,
    /// Print this text. A run prints the first 10 texts of each such step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log: Option<String>,
    /// End the iteration as failed, with this message.
    #[schemars(length(min = 1))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fail: Option<String>,
    /// `true` ends the iteration here, without a failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop_iteration: Option<bool>,
    /// Run the steps of another file, relative to this one. The file has the key `steps`, and perhaps `defaults` for its
    /// parameters.
    #[schemars(length(min = 1))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub include: Option<String>,
    /// The parameters of an `include`: variables that are set before its steps.
    #[schemars(extend("writeOnly" = true))]
    #[serde(default, deserialize_with = "digits::assignments", skip_serializing_if = "Option::is_none")]
    pub with: Option<Assignments>,
}
