//! What `bench compare` found, as its JSON holds it, and how it is shown.
//!
//! Version 1 of each of the two kinds. As in the results of a run, no key is ever given another meaning.

pub(super) mod text;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use analysis::points::Difference;
use results::model::{Outcome, Results};
use verdict::compare::{FailuresRow, RatioRow};
use verdict::history::{HistoryFailures, HistoryRow};

pub use text::{document, history_document, history_markdown, history_terminal, markdown, terminal};

/// The value of `format` of two runs side by side.
pub const TWO_RUNS: &str = "bench-compare";
/// The value of `format` of a run against its history.
pub const HISTORY: &str = "bench-history";
/// The version that this build writes, of both kinds.
pub const VERSION: u32 = 1;

/// The JSON Schema (draft-07) of two runs side by side.
#[must_use]
pub fn schema() -> serde_json::Value {
    ::text::json_schema::draft07::<TwoRuns>()
}

/// The JSON Schema (draft-07) of a run against its history.
#[must_use]
pub fn history_schema() -> serde_json::Value {
    ::text::json_schema::draft07::<AgainstHistory>()
}

/// A run that is compared.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
pub struct RunRef {
    /// As it was named.
    pub path: String,
    /// Its id.
    pub run_id: uuid::Uuid,
    /// When it ran: RFC 3339, UTC.
    pub started_at: String,
    /// Its scenario's title.
    pub scenario: String,
    /// Its deployment's name.
    pub deployment: String,
    /// The `bench` that made it.
    pub bench_version: String,
}

impl RunRef {
    /// Of these results.
    #[must_use]
    pub fn new(path: &std::path::Path, results: &Results) -> Self {
        Self {
            path: path.display().to_string(),
            run_id: results.run.id,
            started_at: results.run.started_at.clone(),
            scenario: results.scenario.title.clone(),
            deployment: results.deployment.name.clone(),
            bench_version: results.environment.bench_version.clone(),
        }
    }
}

/// Two runs side by side; there is no verdict.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
pub struct TwoRuns {
    /// Always `bench-compare`.
    pub format: String,
    /// See [`VERSION`].
    pub version: u32,
    /// The one that is compared with.
    pub base: RunRef,
    /// The other.
    pub new: RunRef,
    /// What else differs between them; empty unless it was allowed.
    pub differences: Vec<String>,
    /// Percentiles of response times.
    pub rows: Vec<RatioRow>,
    /// What failed.
    pub failures: Vec<FailuresRow>,
    /// Trace points of typical iterations, of traces that were fetched.
    pub typical_points: TracePoints,
    /// The same of slow ones.
    pub slow_points: TracePoints,
    /// Notes for the reader.
    pub notes: Vec<String>,
}

/// Trace points of both runs, for one choice of traces.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
pub struct TracePoints {
    /// Complete traces of the base.
    pub base_traces: usize,
    /// Complete traces of the new run.
    pub new_traces: usize,
    /// Kinds of points, largest difference first.
    pub kinds: Vec<PointDifference>,
}

/// A kind of trace point in both runs.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
pub struct PointDifference {
    /// The service that reported it.
    pub service: String,
    /// Its name and what it did.
    pub name: String,
    /// Mean own time in a trace of the base.
    pub base_self_ms: f64,
    /// See `base_self_ms`.
    pub new_self_ms: f64,
    /// Mean number of calls in a trace of the base.
    pub base_calls: f64,
    /// See `base_calls`.
    pub new_calls: f64,
    /// The difference is at least this, but for a chance of 2.5 %.
    pub low_ms: Option<f64>,
    /// The difference is at most this.
    pub high_ms: Option<f64>,
}

impl From<Difference> for PointDifference {
    fn from(found: Difference) -> Self {
        Self {
            service: found.kind.service,
            name: found.kind.name,
            base_self_ms: found.base.self_ms,
            new_self_ms: found.new.self_ms,
            base_calls: found.base.calls,
            new_calls: found.new.calls,
            low_ms: found.bounds_ms.map(|bounds| bounds.0),
            high_ms: found.bounds_ms.map(|bounds| bounds.1),
        }
    }
}

/// A run against the runs before it.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
pub struct AgainstHistory {
    /// Always `bench-history`.
    pub format: String,
    /// See [`VERSION`].
    pub version: u32,
    /// The worst of the rows.
    pub outcome: Outcome,
    /// The run that is judged.
    pub new: RunRef,
    /// The second new run, which confirms the first.
    pub confirming: Option<RunRef>,
    /// The past runs, latest first.
    pub past: Vec<RunRef>,
    /// One row for each metric.
    pub rows: Vec<HistoryRow>,
    /// What failed, one row for each workload.
    pub failures: Vec<HistoryFailures>,
    /// Notes for the reader.
    pub notes: Vec<String>,
}
