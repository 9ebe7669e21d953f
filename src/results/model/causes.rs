//! The part of the result model on why iterations were slow, and what profiling itself cost.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::client_causes::{SlowMoments, SlowPlaces};
use super::differences::Differences;
use super::explanation::{Basis, OwnTime, Place};
use super::functions::ComparedFunctions;
use statistics::order::same_percentile;

/// The trace point that an iteration's explanation names, in short.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[schemars(rename = "Culprit")]
pub struct IterationCause {
    /// The point's name, such as `db`.
    pub name: String,
    /// What it did: a statement, a path, a method, without literals and ids; empty when its info does not say.
    pub detail: String,
    /// The service that reported it, after its project: `keystone/public`; empty for queue time and for time outside the
    /// traced services.
    pub service: String,
    /// The host that reported it.
    pub host: String,
    /// How often a point of this name and detail occurs in the trace.
    pub calls: u64,
    /// The time that these calls took by themselves, without their children.
    pub self_ms: f64,
    /// That time as a share of the response time, 0 to 1.
    pub share: f64,
    /// The names of the points above it, outermost first.
    pub path: Vec<String>,
}

/// Slow iterations of a workload compared with typical ones: what makes the difference.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
pub struct Comparison {
    /// Which are slow: the upper 1, 2 or 5 % of response times; more in a run of 100 to 399 iterations, where the
    /// slowest 20 count.
    pub slow_percent: u32,
    /// The number of slow iterations with complete traces, if only the ones that call the named kind of point are
    /// compared; absent if all are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of_slow: Option<u64>,
    /// What a finding lacks; absent if it lacks nothing, or more iterations would not help.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missing: Option<SlowIterationShortage>,
    /// How many slow iterations were compared, with complete traces.
    pub slow: u64,
    /// How many typical ones: between the 10th and 50th percentile, matched in time.
    pub typical: u64,
    /// How many were left out because their traces were absent or incomplete.
    pub left_out: u64,
    /// The mean response time of the slow ones.
    pub slow_ms: f64,
    /// The mean response time of the typical ones.
    pub typical_ms: f64,
    /// Why no kind of point is named as the cause; absent if one is.
    pub no_finding: Option<NoCauseReason>,
    /// The kinds of points that explain most of the difference, largest share first. Whole calls that are the cause come
    /// before them.
    pub kinds: Vec<ComparedKind>,
    /// The topmost call that slow iterations make more often, with everything below it, where a kind of point within it
    /// explains almost as much by itself and is named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repeated: Option<Box<ComparedKind>>,
    /// How slow iterations are slow as a whole, if no kind of point is the cause.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overall: Option<Overall>,
    /// Pairs of hosts whose clocks had to be aligned.
    pub clocks_moved: u64,
    /// Pairs of hosts whose clocks could not be aligned.
    pub clocks_inconsistent: u64,
    /// The mean tree of both sides, in depth-first order: what a flame graph of the difference draws.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tree: Vec<ComparedNode>,
    /// What slow iterations have more often than typical ones anywhere in their traces; absent with too few traces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub differences: Option<Differences>,
    /// The functions of the causes on both sides; absent without any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub functions: Option<ComparedFunctions>,
    /// Where in the run the slow iterations are; absent if that says nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub places: Option<SlowPlaces>,
}

/// Slow iterations that are slow as a whole.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Overall {
    /// What they have in common.
    pub pattern: WholePattern,
    /// How many times as long the services' points take as in typical iterations, on average.
    pub factor: f64,
    /// The moments at which they come, if they do not come at any time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moments: Option<SlowMoments>,
}

/// What slow iterations that are slow as a whole have in common.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum WholePattern {
    /// Everything in them is slower by about the same factor.
    SameFactor,
    /// They come at the same moments, whatever they do.
    SameMoments,
}

/// A place in the mean tree of slow and typical iterations: a kind of point under the same kinds above it.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct ComparedNode {
    /// How many nodes are above it.
    pub depth: u32,
    /// The project and service that reported it; `bench` for the client's own points.
    pub service: String,
    /// The points' name.
    pub name: String,
    /// What the points did, without literals and ids.
    pub detail: String,
    /// The mean of their durations in a slow iteration.
    pub slow_ms: f64,
    /// The same in a typical one.
    pub typical_ms: f64,
    /// The mean of the time that no child covers, in a slow iteration.
    #[serde(default)]
    pub slow_self_ms: f64,
    /// The same in a typical one.
    #[serde(default)]
    pub typical_self_ms: f64,
    /// The mean number of them in a slow iteration.
    pub slow_calls: f64,
    /// The same in a typical one.
    pub typical_calls: f64,
}

/// Which slow iterations a finding lacks, and how many iterations would bring them.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[schemars(rename = "Missing")]
pub struct SlowIterationShortage {
    /// How many slow iterations there are, or how many of them make the call that may be the cause.
    pub seen: u64,
    /// How many a finding needs.
    pub needed: u64,
    /// The number of iterations of a run that would have `needed` of them, if all goes on as before.
    pub iterations: u64,
    /// Whether only slow iterations count that call the first of the kinds.
    pub of_callers: bool,
}

/// Why no cause is named.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "NoFinding")]
pub enum NoCauseReason {
    /// Too few complete traces: 20 slow and 40 typical ones are needed.
    FewTraces,
    /// More than a fifth of a side's traces were incomplete.
    Incomplete,
    /// The slow iterations with traces are not slower.
    NoGap,
    /// No kind of point passes all conditions: the kinds are candidates.
    Unclear,
}

/// A kind of trace point, and how much of the difference it explains.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
pub struct ComparedKind {
    /// The project and service that reported it; `bench` for the client's own points.
    pub service: String,
    /// The point's name. `all trace points` where only a whole service stands out; `all trace points and the calls to
    /// them` where it does so only with the calls of others that wait for it.
    pub name: String,
    /// What it did, without literals and ids.
    pub detail: String,
    /// Name and detail of the point around it; empty where kinds stand out only if it does not matter.
    pub parent: String,
    /// True for the time of a request in which no service had a point open: the network, a queue before the
    /// service, or a service that is not traced.
    pub outside: bool,
    /// True for whole calls: their times are with everything below them, which other kinds have too.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub with_below: bool,
    /// How much longer it took in a slow iteration: the mean, on the critical path, without its children.
    pub delta_ms: f64,
    /// That as a share of the difference; the shares of all kinds but whole calls add up to 1.
    pub share: f64,
    /// The share is at least this, with 95 % confidence.
    pub share_low: f64,
    /// The share is at most this, with 95 % confidence.
    pub share_high: f64,
    /// The mean number of its calls in a slow iteration.
    pub slow_calls: f64,
    /// Its calls in a typical one.
    pub typical_calls: f64,
    /// The part of `delta_ms` that is due to more calls, each at the mean of what a slow and a typical iteration's takes.
    pub more_calls_ms: f64,
    /// The rest of `delta_ms`, which is due to slower calls.
    pub slower_calls_ms: f64,
    /// Cliff's delta: how much more often it took longer in slow iterations than shorter, -1 to 1.
    pub effect: f64,
    /// The share of slow iterations in which it took longer than in 95 % of the typical ones.
    pub exceeding: f64,
    /// Whether share, effect, support and agreement with clock-free durations are all sufficient.
    #[serde(rename = "guilty")]
    pub is_cause: bool,
    /// The slow iteration in which it took longest.
    pub worst_trace_id: Option<Uuid>,
    /// The other service that it calls. Then its own time is what passes before that service begins and after it ends:
    /// the network, or that service was too busy to begin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub called_service: Option<String>,
    /// How its calls share what it takes longer; absent for one call, and in results of earlier builds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spread: Option<CallSpread>,
    /// Where in its points the time lies that it takes longer; absent in results of earlier builds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own_time: Option<OwnTime>,
    /// Hosts and attributes of its points that slow iterations have more often, most significant first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub contrasts: Vec<Contrast>,
}

/// How the calls of a kind of point share what it takes longer. The longest call of a slow iteration is compared with
/// the longest of a typical one, the second with the second, and so on. Times are the calls' own, without their
/// children.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct CallSpread {
    /// The mean number of calls in a slow iteration.
    pub of: f64,
    /// How many of the longest calls make four fifths of the difference on the critical path; all of them if they are
    /// alike.
    pub longest: u64,
    /// Whether each call takes longer by about the same: at least half of the mean, and at most twice as much.
    pub each_alike: bool,
    /// How much longer those take, on average.
    pub longer_ms: f64,
    /// How much longer the longest call takes.
    pub most_longer_ms: f64,
    /// How much longer the median of the others takes, which may be negative; absent without others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub others_longer_ms: Option<f64>,
}

/// A value of an attribute that a kind of point has more often in slow iterations than in typical ones.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Contrast {
    /// `host`, or a key of the point's info.
    pub attribute: String,
    /// Its value.
    pub value: String,
    /// The share of the kind's time in slow iterations that points with this value took, 0 to 1.
    pub slow_share: f64,
    /// The same share in typical iterations.
    pub typical_share: f64,
}

/// The slowest iterations of a run that have the same explanation.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
pub struct Finding {
    /// The point's name.
    pub name: String,
    /// What it did, without literals and ids.
    pub detail: String,
    /// The service that reported it; empty for queue time and for time outside the traced services.
    pub service: String,
    /// Name and detail of the point around it.
    #[serde(default)]
    pub parent: String,
    /// Where the time was spent.
    #[serde(default)]
    pub place: Place,
    /// What the explanations rest on.
    #[serde(default)]
    pub basis: Basis,
    /// Whether the comparison of slow with typical iterations names this kind.
    #[serde(default)]
    pub is_headline: bool,
    /// The names of the points above it, outermost first, in the slowest of these iterations.
    pub path: Vec<String>,
    /// How many of the slowest iterations it explains.
    pub iterations: u64,
    /// How many of the slowest iterations have an explanation, of whatever kind.
    pub of: u64,
    /// The median of its own time.
    pub median_self_ms: f64,
    /// The median of its share of the response time, 0 to 1.
    pub median_share: f64,
    /// The median number of its calls in an iteration.
    pub median_calls: f64,
    /// The median of how much longer it took than in typical iterations; absent without these.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub median_longer_ms: Option<f64>,
    /// The median of that as a share of the excess of its iteration, 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub median_share_of_excess: Option<f64>,
    /// Trace ids of these iterations, slowest first.
    pub trace_ids: Vec<Uuid>,
}

/// What profiling itself cost: profiled iterations against the unprofiled ones beside them (`profile: {control}`), or in
/// pairs before the load (`probe: {pairs}`).
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct ObserverEffect {
    /// The configured share of unprofiled iterations, in percent.
    pub control_percent: f64,
    /// Profiled iterations without fault.
    pub profiled: u64,
    /// Unprofiled ones without fault.
    pub control: u64,
    /// How many pairs before the load it is from; absent if it is from the load itself. Its only percentile is the
    /// median, and the difference is the median of the pairs' differences.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pairs: Option<u64>,
    /// An entry for each percentile with enough iterations of both.
    pub percentiles: Vec<EffectAt>,
}

impl ObserverEffect {
    /// The cost at a percentile, if there are enough iterations of both.
    #[must_use]
    pub fn at(&self, percentile: f64) -> Option<&EffectAt> {
        self.percentiles.iter().find(|known| same_percentile(known.percentile, percentile))
    }
}

/// The cost of profiling at a percentile of service time.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct EffectAt {
    /// Such as 99.
    pub percentile: f64,
    /// Of profiled iterations.
    pub profiled_ms: f64,
    /// Of unprofiled ones.
    pub control_ms: f64,
    /// Profiled minus unprofiled.
    pub difference_ms: f64,
    /// The difference is at least this, with 95 % confidence.
    pub low_ms: f64,
    /// The difference is at most this, with 95 % confidence.
    pub high_ms: f64,
}
