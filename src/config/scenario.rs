//! The scenario file: what to do, how often, and how good the results must be.

use crate::notation::schema;
use std::collections::BTreeMap;

use schemars::{JsonSchema, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use text::digits;

use super::capacity::Capacity;
use super::contexts::Contexts;
use super::data::Data;
use super::deployment_place::DeploymentPlace;
use super::end::End;
use super::grpc::Grpc;
use super::http::Http;
use super::probe::Probe;
use super::reference::{DurationText, Reference, ShareText};
use super::runner::{Runner, WarmUp};
pub use super::sla::Sla;
use super::step::Step;

/// A load test. With a single workload, its keys may be at the top level.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// The title of the scenario in every report, in one line.
    #[schemars(length(min = 1))]
    pub title: String,
    /// The deployment file, relative to this file, or the keys of one, such as `{targets: {default: https://api.example}}`.
    /// `-d` overrides it. Requests that are all whole URLs need none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deployment: Option<DeploymentPlace>,
    /// Variables for `{{ templates }}`. `--set NAME=VALUE` overrides them.
    #[schemars(extend("writeOnly" = true))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub variables: Option<BTreeMap<String, Variable>>,
    /// Rows for iterations, from files or lists, by variable name: `{{ users.name }}` is a column of the row that the
    /// iteration takes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<BTreeMap<String, Data>>,
    /// The seed of everything random in requests, so that another run sends the same (default: a random one, which the
    /// results name). `--seed N` overrides it.
    #[schemars(range(min = 0, max = 9_007_199_254_740_991_u64))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// `true` (the default) profiles every iteration, if the deployment has an HMAC key. `false` turns profiling off.
    /// `{control: 10%}` leaves a random share of iterations unprofiled and reports the cost of profiling.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<Profile>,
    /// One traced iteration before the load, to see whether its trace arrives (default: if there is a collector to ask,
    /// and at least 10 iterations are planned). It is in no figure. `{pairs: 20}` also measures what profiling costs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub probe: Option<Probe>,
    /// Which traces to fetch after the load.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace: Option<Trace>,
    /// The time limit of the whole run, after which it stops gracefully (default: no limit).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<DurationText>,
    /// How long running iterations may continue after the run was stopped by a signal, by `timeout` or by a threshold
    /// (default 30s). At the end of its `duration`, a load waits for them; arrivals without a free user wait this long.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub graceful_stop: Option<DurationText>,
    /// How requests use HTTP: connections, redirects, compression and size limits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http: Option<Http>,
    /// How gRPC is used: where the types of its messages come from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grpc: Option<Grpc>,
    /// Users, networks, images and so on that are made in a cloud before the load and deleted after it, for all
    /// workloads that have no `contexts` of their own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub contexts: Option<Contexts>,
    /// Actions that run once, before the load. All iterations can use the values that these actions extract.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub setup: Option<Vec<Step>>,
    /// Actions that run once, after the load, even if the load failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub teardown: Option<Vec<Step>>,
    /// Actions that run once for each virtual user before its first iteration, such as logging in. The user's iterations can
    /// use the values that these actions extract, and keep their cookies. Workloads may have their own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_setup: Option<Vec<Step>>,
    /// Actions that run once for each virtual user after its last iteration. Workloads may have their own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_teardown: Option<Vec<Step>>,
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
    /// For `bench capacity`: the rate that the service must bear, and how far to search.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capacity: Option<Capacity>,
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
        match digits::rounded(deserializer)? {
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

schema!(Profile, "Profile", |generator| {
    let control = generator.subschema_for::<ProfileControl>();
    json_schema!({
        "description": "true, false, or {control: 10%}.",
        "anyOf": [{ "type": "boolean" }, control]
    })
});

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

schema!(Fetch, "Fetch", |_| json_schema!({ "type": "string", "enum": ["slow", "all", "none"] }));

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
    /// How long to wait before this workload: after the one before it, or with `parallel: true`, after the load began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_after: Option<DurationText>,
    /// Load before the measured part: a duration or a number of iterations. It is not part of any figure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warm_up: Option<WarmUp>,
    /// What to measure to: the `response` (the default), or with `asynchronous`, also the end of the trace's last span.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end: Option<End>,
    /// Users, networks, images and so on that are made in a cloud before the load and deleted after it, for this
    /// workload only (default: the scenario's).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub contexts: Option<Contexts>,
    /// Actions that run once for each virtual user before its first iteration, such as logging in. The user's iterations can
    /// use the values that these actions extract, and keep their cookies (default: the scenario's).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_setup: Option<Vec<Step>>,
    /// Actions that run once for each virtual user after its last iteration (default: the scenario's).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_teardown: Option<Vec<Step>>,
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
pub struct Variable(#[serde(deserialize_with = "digits::value")] pub Value);

/// The reference to a secret that a variable consists of, if any.
#[must_use]
pub fn variable_reference(variable: &Variable) -> Option<Reference> {
    let map = variable.0.as_object()?;
    let refers = (map.contains_key("env") || map.contains_key("file")) && map.values().all(Value::is_string);
    if refers { Reference::deserialize(&variable.0).ok() } else { None }
}
