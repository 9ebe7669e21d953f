//! The result model: what `results.json` holds, in the order of the file.
//!
//! Version 1. A key is never given another meaning: new keys may be added within a version; anything
//! else raises [`VERSION`]. Times are milliseconds in `_ms`, seconds in `_s` (both with all the
//! digits measured), counts are plain numbers.
//!
//! The iterations are not a field of [`Results`]: there may be millions. They are streamed into
//! the same JSON object as the last key, `iterations`, a list of [`IterationRow`].

mod asynchronous;
mod causes;
mod client_causes;
mod client_comparison;
mod differences;
mod explanation;
mod functions;
mod gate;
mod load;
mod numbers;
mod prediction;
mod probe;
mod queues;
mod reason;
mod record;
mod shards;
mod streams;
mod tags;
mod task;
mod users;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use uuid::Uuid;

use measure::generator::Generator;
// The log and the results have these in common.
pub use measure::log::{DeploymentInfo, LoadEnvironment, ScenarioInfo, ShardHeader};
use statistics::order::same_percentile;

pub use asynchronous::{Asynchronous, AsynchronousAt, AsynchronousSample, LateIteration, LateWork};
pub use causes::{
    CallSpread, ComparedKind, ComparedNode, Comparison, Contrast, EffectAt, Finding, IterationCause,
    NoCauseReason, ObserverEffect, Overall, SlowIterationShortage, WholePattern,
};
pub use client_causes::{FirstIterations, Rhythm, SlowMoments, SlowPlaces, SlowestStall};
pub use client_comparison::ClientComparison;
pub use differences::{AttributeDifference, AttributeValue, Correlation, Differences};
pub use explanation::{Basis, Explanation, OwnTime, Place};
pub use functions::{ComparedFunction, ComparedFunctions, FunctionNode};
pub use gate::{Criterion, CriterionMeasurement, Outcome, Severity, Verdict};
pub use load::{LoadSeries, Network, OfferedLoad};
pub use numbers::{MeasuredNumbers, NumberPercentile};
pub use prediction::{
    CallPool, ChangeableKind, Fix, FixPrediction, FixRecord, PredictedTime, UpperBound, WhatIf,
};
pub use probe::Probe;
pub use queues::CallQueue;
pub use reason::{Reason, ReasonKind};
pub use record::{Record, RecordState, Tally};
pub use shards::MergedShard;
pub use streams::StreamedAnswers;
pub use tags::TaggedRequests;
pub use task::{Hook, Subtask, Task};
pub use users::UserActivity;

/// The value of the key `format` in every results file.
pub const FORMAT: &str = "bench-results";
/// The version of the model that this build writes.
pub const VERSION: u32 = 1;

/// A run: what ran, where, with which options, and the results.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
pub struct Results {
    /// Always `bench-results`.
    pub format: String,
    /// The version of this model.
    pub version: u32,
    /// The verdict of all the scenario's `sla` sections.
    pub verdict: Verdict,
    /// Why the run has this verdict; absent in results of earlier builds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
    /// When and how the run went.
    pub run: Run,
    /// What was run.
    pub scenario: ScenarioInfo,
    /// Where it was run.
    pub deployment: DeploymentInfo,
    /// Whether iterations were traced, and by which collector.
    pub profiling: Profiling,
    /// The machine that generated the load.
    pub environment: LoadEnvironment,
    /// The state of the load generator itself; absent if there was no load or the harness was killed.
    #[serde(default)]
    pub generator: Option<Generator>,
    /// Whether the run log has all iterations that ran; absent in results of earlier builds.
    #[serde(default)]
    pub record: Option<Record>,
    /// The traced iteration before the load; absent if there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probe: Option<Probe>,
    /// Which part of a load this is; absent for a whole one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shard: Option<ShardHeader>,
    /// The shards that this run was merged from, by their numbers; absent if it was not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shards: Vec<MergedShard>,
    /// What a task file of Rally says of itself; absent for a scenario.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<Task>,
    /// The programs that the task's hooks started, in order; absent if there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hooks: Vec<Hook>,
    /// The slowest iterations by what explains them, most frequent first.
    pub findings: Vec<Finding>,
    /// Why each slow or failed iteration with a trace was slow, by workload, slowest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub explanations: Vec<Explanation>,
    /// Warnings about the figures, as sentences.
    pub notes: Vec<String>,
    /// An entry for each workload, in the scenario's order.
    pub workloads: Vec<Workload>,
    /// The slowest iterations of the run by response time, slowest first.
    pub slowest: Vec<SlowIteration>,
    /// Present if most of these end at the same moment, which chance does not explain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stall: Option<SlowestStall>,
}

impl Results {
    /// Why an iteration was slow, if that is known.
    #[must_use]
    pub fn explanation(&self, trace_id: Uuid) -> Option<&Explanation> {
        self.explanations.iter().find(|known| known.trace_id == trace_id)
    }
}

/// When and how the run went.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
pub struct Run {
    /// A random id of the run.
    pub id: Uuid,
    /// The seed from which every trace id of this run is derived.
    pub id_seed: Uuid,
    /// The seed of rows and of random values in requests, for `--seed`; absent if nothing depended on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// How it ended.
    pub status: RunStatus,
    /// RFC 3339, UTC: the zero of every `start_s` and `due_s`.
    pub started_at: String,
    /// From the first workload's start to the last one's end, in seconds.
    pub duration_s: f64,
    /// What went wrong with the run itself, if anything.
    pub error: Option<String>,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RunStatus {
    /// All workloads ran to their end.
    Finished,
    /// Stopped by SIGINT, SIGTERM or SIGHUP; the results are those until then.
    Interrupted,
    /// Stopped by the scenario's own time limit.
    TimedOut,
    /// Stopped by a threshold with `abort_on_fail`.
    Aborted,
    /// `setup` or the harness failed.
    Failed,
    /// The log has no end: the harness was killed. The results include everything up to the last frame.
    Recovered,
}

/// Whether iterations were traced.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
pub struct Profiling {
    /// True when a profiler was initialised for each iteration and its headers were sent.
    pub enabled: bool,
    /// The headers that carried the trace, as in the deployment's `profiler.headers`; empty in runs of earlier builds.
    #[serde(default)]
    pub headers: Vec<String>,
    /// Why not, if it was not.
    pub reason: Option<String>,
    /// The collector without user, password and query.
    pub collector: Option<String>,
    /// What the receiver of spans received; absent without one.
    #[serde(default)]
    pub received: Option<ReceivedSpans>,
    /// What happened when traces were fetched: a count for each state of a trace.
    pub fetched: BTreeMap<TraceState, u64>,
    /// The collector's last error.
    pub collector_error: Option<String>,
    /// How long fetching took, in seconds; absent if nothing was fetched, or if the results were rebuilt.
    #[serde(default)]
    pub fetch_s: Option<f64>,
    /// Records of the client's own points that the collector accepted (`--publish`).
    #[serde(default)]
    pub published: u64,
}

/// What the receiver of spans received (`profiler.receive`).
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[schemars(rename = "Received")]
pub struct ReceivedSpans {
    /// The addresses at which it listened.
    pub addresses: Vec<String>,
    /// Spans of this run's traces.
    pub spans: u64,
    /// In half of the seconds no more came than this; 0 if they did not come in nearly all seconds, or in fewer than three.
    #[serde(default)]
    pub spans_per_s: u64,
    /// The most that came in a second.
    #[serde(default)]
    pub most_spans_per_s: u64,
    /// Spans of other traces that belong to this run's traces because of links.
    #[serde(default)]
    pub linked_spans: u64,
    /// Links, and spans with links, that were passed over because they were too many.
    #[serde(default)]
    pub links_ignored: u64,
    /// Spans of other traces, which are not kept.
    pub other_traces: u64,
    /// Spans without valid ids.
    pub invalid_spans: u64,
    /// Requests that were refused.
    pub refused_requests: u64,
    /// Why the first of them was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused_because: Option<String>,
    /// Traces that were kept: of all iterations that might be chosen.
    pub kept_traces: u64,
    /// Their spans.
    pub kept_spans: u64,
    /// Spans that were lost for want of memory or disk space.
    pub lost_spans: u64,
    /// How often the sample of traces to keep was made half as large for want of space.
    pub sample_halved: u32,
    /// Spans that the backend of `profiler.forward` accepted.
    pub forwarded: u64,
    /// Spans that it did not accept.
    pub forward_dropped: u64,
}

impl ReceivedSpans {
    /// What two receivers received.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        // One that received for too short a time has none.
        let has_rates = [&self, &other].iter().all(|one| one.spans == 0 || one.spans_per_s > 0);
        self.addresses.extend(other.addresses);
        self.addresses.sort_unstable();
        self.addresses.dedup();
        Self {
            addresses: self.addresses,
            spans: self.spans + other.spans,
            spans_per_s: if has_rates { self.spans_per_s + other.spans_per_s } else { 0 },
            most_spans_per_s: if has_rates { self.most_spans_per_s + other.most_spans_per_s } else { 0 },
            linked_spans: self.linked_spans + other.linked_spans,
            links_ignored: self.links_ignored + other.links_ignored,
            other_traces: self.other_traces + other.other_traces,
            invalid_spans: self.invalid_spans + other.invalid_spans,
            refused_requests: self.refused_requests + other.refused_requests,
            refused_because: self.refused_because.or(other.refused_because),
            kept_traces: self.kept_traces + other.kept_traces,
            kept_spans: self.kept_spans + other.kept_spans,
            lost_spans: self.lost_spans + other.lost_spans,
            sample_halved: self.sample_halved.max(other.sample_halved),
            forwarded: self.forwarded + other.forwarded,
            forward_dropped: self.forward_dropped + other.forward_dropped,
        }
    }
}

/// The figures of a workload.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
pub struct Workload {
    /// Its name.
    pub name: String,
    /// The runner's name and settings as resolved, such as `{"constant": {"times": 100, …}}`.
    pub runner: Map<String, Value>,
    /// Offset of the first iteration's start from the run's start, in seconds.
    pub start_s: f64,
    /// From the first start to the last end, in seconds.
    pub duration_s: f64,
    /// How the iterations ended, without the warm-up.
    pub iterations: Counts,
    /// How the iterations of the warm-up ended; no other figure includes them.
    #[serde(default)]
    pub warm_up: Counts,
    /// How many of the iterations were left unprofiled for comparison (`profile: {control}`); part of the total.
    #[serde(default)]
    pub unprofiled: u64,
    /// Completed iterations per second.
    pub rate_per_s: f64,
    /// From the time an iteration was due to its end; failed ones included, aborted ones not.
    pub response_time: Distribution,
    /// From the time an iteration really started to its end; failed ones included, aborted ones not.
    pub service_time: Distribution,
    /// From the time an iteration was due to its start: how late the load was, for whatever reason.
    #[serde(default, rename = "start_lag")]
    pub queue_time: Distribution,
    /// From the start of iterations to the end of the last span of their traces; absent without `end: asynchronous`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asynchronous: Option<Asynchronous>,
    /// An entry for each action, in the scenario's order.
    pub actions: Vec<Action>,
    /// An entry for each tag and value of its actions, in alphabetical order; absent if no action has tags.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<TaggedRequests>,
    /// What its virtual users did before their first iterations; absent without `user_setup`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_setup: Option<UserActivity>,
    /// What they did after their last ones; absent without `user_teardown`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_teardown: Option<UserActivity>,
    /// The numbers that its actions took from answers, by name; absent if they take none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub measured: Vec<MeasuredNumbers>,
    /// The faults, most frequent first.
    pub errors: Vec<ErrorClass>,
    /// Its slow iterations compared with typical ones; absent if there are too few traces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comparison: Option<Comparison>,
    /// The same by the client's own figures, which need no trace; absent with too few iterations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_comparison: Option<ClientComparison>,
    /// Calls that wait for their turn, longest first, by the traces of iterations in a row; absent if none is certain to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub queues: Vec<CallQueue>,
    /// What response times would be if what makes slow iterations slow were gone; absent if that cannot be told, or would
    /// bring little.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub without_cause: Option<FixPrediction>,
    /// Response times over time; absent if nothing completed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub series: Option<Series>,
    /// The load that was asked for and the load that was served; absent if nothing was due.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offered: Option<OfferedLoad>,
    /// What TCP had to repeat; absent if nothing is known of that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<Network>,
    /// What profiling cost; absent without unprofiled iterations to compare with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observer_effect: Option<ObserverEffect>,
}

/// How iterations or requests ended.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct Counts {
    /// All that were due, whatever happened to them.
    pub total: u64,
    /// Without fault.
    pub ok: u64,
    /// With a fault of the service, the network or a check.
    pub failed: u64,
    /// Cut off by the end of the run.
    pub aborted: u64,
    /// Due, but never started because the harness could neither start nor queue it; part of the total.
    #[serde(default)]
    pub dropped: u64,
    /// Of those without and with a fault: how many sent a request once more, because its connection had ended before an
    /// answer, and that was safe.
    #[serde(default, skip_serializing_if = "differences::is_zero")]
    pub resent: u64,
}

/// The figures of an action.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
pub struct Action {
    /// Its name.
    pub name: String,
    /// `GET /v3/users/{{ id }}`: the method and the URL as written; `group` or `together` for a group of steps.
    pub request: String,
    /// How its requests ended; the polls of an action that polls, and the rounds of a group.
    pub requests: Counts,
    /// In how many iterations it ran, if it ran several times in some of them. Its percentiles are over all its samples.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iterations: Option<u64>,
    /// How many requests it sent, if there were several for a sample, or none for a group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sent: Option<u64>,
    /// From send to the last byte of the answer.
    pub service_time: Distribution,
    /// From when it was due to the last byte: the service time plus how late its iteration had started.
    #[serde(default)]
    pub response_time: Distribution,
    /// The mean of each phase of the requests that answered, in milliseconds.
    pub phases: Phases,
    /// How often each status code was answered: HTTP's from 100 on, and gRPC's up to 16.
    pub status: BTreeMap<u16, u64>,
    /// Bytes of answers' bodies.
    pub bytes_received: u64,
    /// Connections that its requests opened (the others were reused).
    pub connections_opened: u64,
    /// Requests that went over HTTP/2.
    #[serde(default)]
    pub http2: u64,
    /// What came as streams; absent if its requests are not answered so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub streams: Option<StreamedAnswers>,
    /// Service times over time; absent if no request completed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub series: Option<Series>,
}

/// Iterations or requests over time; each list has an entry for each interval.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Series {
    /// Offset of the first interval from the run's start, in seconds.
    pub start_s: f64,
    /// The length of an interval, in seconds.
    pub step_s: f64,
    /// How many ended in each interval, without those that were cut off.
    pub completed: Vec<u64>,
    /// How many of them failed.
    pub failed: Vec<u64>,
    /// Their median, to about 2 %; 0 if none ended.
    pub p50_ms: Vec<f64>,
    /// Their 99th percentile, to about 2 %; 0 if none ended.
    pub p99_ms: Vec<f64>,
}

/// The mean of each phase of a request, in milliseconds; a reused connection counts as 0.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Phases {
    /// Resolving the host's name.
    pub resolve_ms: f64,
    /// The TCP handshake.
    pub connect_ms: f64,
    /// The TLS handshake.
    pub tls_ms: f64,
    /// Writing the request.
    pub send_ms: f64,
    /// From the request's last byte to the answer's first.
    pub wait_ms: f64,
    /// From the answer's first byte to its last.
    pub receive_ms: f64,
    /// Redirects that were followed before the last request; not part of the service time.
    #[serde(default)]
    pub redirect_ms: f64,
}

/// A fault.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
pub struct ErrorClass {
    /// Its class, such as `timeout`, `connect`, `status`, `check`.
    pub class: String,
    /// The action in which it happened.
    pub action: Option<String>,
    /// The message of its first occurrence.
    pub message: String,
    /// What was checked, such as `$.server.status`, if a check failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// What the check expects of it, in words that follow its name, such as ``is `"ACTIVE"` ``; at its first occurrence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected: Option<String>,
    /// The value that did not meet its check, at its first occurrence; without secrets, at most about 80 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub found: Option<String>,
    /// The beginning of the answer's body at its first occurrence; without secrets, on one line, at most 200 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
    /// How often it happened.
    pub count: u64,
    /// Trace ids of the first iterations that it ended, at most five.
    pub trace_ids: Vec<Uuid>,
}

/// A latency distribution (an HDR histogram with three significant digits).
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
pub struct Distribution {
    /// The number of samples; if it is 0, every other field is 0 or empty.
    pub count: u64,
    /// The smallest.
    pub min_ms: f64,
    /// The arithmetic mean, exact.
    pub mean_ms: f64,
    /// The standard deviation.
    pub stddev_ms: f64,
    /// The largest, exact.
    pub max_ms: f64,
    /// Samples longer than the histogram's range of a day; percentiles treat them as a day.
    #[serde(default)]
    pub over_range: u64,
    /// Value at each percentile of what completed, whether it failed or not, ascending.
    pub percentiles: Vec<Percentile>,
    /// The percentiles of all that thresholds judge, as reports show them; absent if all of them succeeded, and in results of
    /// earlier builds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of_all: Option<PercentilesOfDue>,
    /// The whole histogram of nanoseconds: HdrHistogram's V2 format, deflated, in base64.
    pub histogram: String,
    /// Every occupied bucket of about 5 % width, ascending, with a sample's trace id.
    pub buckets: Vec<Bucket>,
}

impl Distribution {
    /// The value at a percentile; `None` without samples, or if results do not include this percentile.
    #[must_use]
    pub fn at(&self, percentile: f64) -> Option<f64> {
        let known = self.percentiles.iter().find(|known| same_percentile(known.percentile, percentile));
        known.filter(|_| self.count > 0).map(|known| known.value_ms)
    }

    /// The percentile of all that thresholds judge; `None` as for [`Self::at`].
    #[must_use]
    pub fn of_all_at(&self, percentile: f64) -> Option<Time> {
        let Some(of_all) = &self.of_all else { return self.at(percentile).map(Time::Ms) };
        let known = of_all.percentiles.iter().find(|known| same_percentile(known.percentile, percentile));
        known.map(|known| known.value_ms.map_or(Time::None, Time::Ms))
    }

    /// How many samples thresholds judge.
    #[must_use]
    pub fn count_of_all(&self) -> u64 {
        self.of_all.as_ref().map_or(self.count, |all| all.count)
    }
}

/// A percentile that may be of an iteration without a valid time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Time {
    /// In milliseconds.
    Ms(f64),
    /// It falls among those that failed, never started or were cut off.
    None,
}

/// The percentiles of all that were due: those that failed, never started or were cut off count as longer than every
/// success. In service times, those that never started do not count.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[schemars(rename = "OfAll")]
pub struct PercentilesOfDue {
    /// How many they are.
    pub count: u64,
    /// Value at each percentile, ascending.
    pub percentiles: Vec<PercentileOfAll>,
}

/// A percentile of all that were due.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct PercentileOfAll {
    /// Such as 99.9.
    pub percentile: f64,
    /// The value that this share of all does not exceed; absent if it falls among those without a valid time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value_ms: Option<f64>,
}

/// A percentile of a distribution.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Percentile {
    /// Such as 99.9.
    pub percentile: f64,
    /// The value that this share of the samples does not exceed: the sample of its rank. It is rounded up by at most
    /// 0.1 % (to the edge of its bucket in the histogram), and never above the largest.
    pub value_ms: f64,
}

/// An occupied bucket of a distribution.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
pub struct Bucket {
    /// Its lower bound, inclusive.
    pub from_ms: f64,
    /// Its upper bound, exclusive.
    pub to_ms: f64,
    /// Its samples.
    pub count: u64,
    /// The trace id of its slowest sample.
    pub trace_id: Uuid,
}

/// How an iteration or a request ended.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, JsonSchema, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum IterationOutcome {
    /// Without fault.
    Ok,
    /// With a fault of the service, the network or a check.
    Failed,
    /// Cut off by the end of the run.
    Aborted,
    /// Due, but never started.
    Dropped,
}

/// An iteration, as listed in `results.json` under `iterations`.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
pub struct IterationRow {
    /// Its trace id: OSProfiler's base_id.
    pub trace_id: Uuid,
    /// The index of its workload.
    pub workload: u16,
    /// Its number within the workload, from 0.
    pub number: u64,
    /// True if it was part of the warm-up: it is listed, but no figure includes it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub warm_up: bool,
    /// False when it was left unprofiled for comparison (`profile: {control}`); absent of all others:
    /// `profiling.enabled` says whether those were.
    #[serde(default = "yes", skip_serializing_if = "Clone::clone")]
    pub profiled: bool,
    /// When it was due, in seconds from the run's start.
    pub due_s: f64,
    /// When it started, in seconds from the run's start; absent if it never did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_s: Option<f64>,
    /// From its start to its end; absent if it never started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<f64>,
    /// How it ended.
    pub outcome: IterationOutcome,
    /// True if it sent a request once more.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub resent: bool,
    /// The class of the fault that ended it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl IterationRow {
    /// How long it ran, in milliseconds: 0 if it never started, which no iteration with a trace did.
    #[must_use]
    pub fn ran_ms(&self) -> f64 {
        self.duration_ms.unwrap_or_default()
    }
}

fn yes() -> bool {
    true
}

/// One of the slowest iterations, with findings from its trace.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
pub struct SlowIteration {
    /// The iteration.
    #[serde(flatten)]
    pub iteration: IterationRow,
    /// From the time it was due to its end.
    pub response_ms: f64,
    /// From its start to the end of the last span of its trace that had come; absent without `end: asynchronous`, and
    /// without a trace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asynchronous_ms: Option<f64>,
    /// Its actions in order, with the offset from its start.
    pub actions: Vec<ActionTiming>,
    /// The state of its trace in the collector.
    pub trace: TraceState,
    /// True if it lacks spans that most typical traces have: these were probably lost, so that nothing is blamed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub lacks_spans: bool,
    /// The trace point that its explanation names.
    #[serde(rename = "culprit")]
    pub cause: Option<IterationCause>,
}

/// An action of an iteration.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
pub struct ActionTiming {
    /// The action's name.
    pub name: String,
    /// Offset from the iteration's start.
    pub start_ms: f64,
    /// From send to the last byte of the answer.
    pub duration_ms: f64,
    /// The answer's status; absent without an answer, and for a group.
    pub status: Option<u16>,
    /// True for a group of steps.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub group: bool,
    /// How often the kernel asked for its connection again (SYN), up to 255. This and the next two are known on Linux, of
    /// requests that took 200 ms or longer.
    #[serde(default, skip_serializing_if = "differences::is_zero")]
    pub syns_resent: u8,
    /// How many segments to the service were sent again meanwhile, up to 255.
    #[serde(default, skip_serializing_if = "differences::is_zero")]
    pub segments_resent: u8,
    /// How many segments of the answer came although one before them was missing, up to 255.
    #[serde(default, skip_serializing_if = "differences::is_zero")]
    pub segments_out_of_order: u8,
}

/// The state of a trace in the collector.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TraceState {
    /// Every point has its start and its stop.
    Complete,
    /// A point has no stop or no start, or a record could not be read.
    Partial,
    /// The collector has no point of the trace.
    Absent,
    /// The trace was not requested, or the collector did not answer.
    NotFetched,
}
