//! The result of a comparison by paired rounds, as in `ab.json`, and its reports.
//!
//! Version 1. As in the results of a run, the meaning of a key never changes.

pub(super) mod counts;
mod next;
pub(super) mod sla;
pub(super) mod text;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use analysis::call_changes::CallChange;
use analysis::points::PointRow;
use results::model::ScenarioInfo;
use verdict::paired::{Decision, Failures, PercentileSeriesRow, SlaRow, WorkloadNames};

pub use counts::{CountedPoint, CountedTrace, PairCount};
pub use text::{criteria, document, headline, markdown, progress, terminal};

/// The value of `format`.
pub const FORMAT: &str = "bench-ab";
/// The version that this build writes.
pub const VERSION: u32 = 1;

/// The JSON Schema (draft-07) of `ab.json`.
#[must_use]
pub fn schema() -> serde_json::Value {
    ::text::json_schema::draft07::<PairDocument>()
}

/// The whole document.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[schemars(rename = "Paired")]
pub struct PairDocument {
    /// Always [`FORMAT`].
    pub format: String,
    /// See [`VERSION`].
    pub version: u32,
    /// The version of `bench`.
    pub bench_version: String,
    /// The verdict and its reasons.
    #[serde(flatten)]
    pub decision: Decision,
    /// False when it was interrupted: the verdict then is INCONCLUSIVE.
    pub finished: bool,
    /// What was run.
    pub scenario: ScenarioInfo,
    /// The side that B is compared with.
    pub a: Side,
    /// The side that is judged.
    pub b: Side,
    /// How much longer B may take, in percent.
    pub margin_percent: f64,
    /// After how many pairs the results were judged, or would have been.
    pub looks: [usize; 2],
    /// The probability that a bound of a ratio is wrong, each time the results are judged.
    pub alpha: f64,
    /// The seed of the order within each pair.
    pub order_seed: u64,
    /// The seed from which each pair has the seed of its requests, for `--seed`; absent if nothing depended on it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// The pairs in their order.
    pub pairs: Vec<Pair>,
    /// The workloads' names.
    pub workloads: Vec<WorkloadNames>,
    /// One row for each percentile.
    pub rows: Vec<PercentileSeriesRow>,
    /// One for each count of trace points that B is judged by.
    pub counts: Vec<PairCount>,
    /// The scenario's own criteria over the rounds of both sides.
    pub sla: Vec<SlaRow>,
    /// One for each workload.
    pub failures: Vec<Failures>,
    /// Kinds of trace points in the fetched traces; they do not affect the verdict.
    pub points: Vec<PointRow>,
    /// Functions in the fetched traces, where services report them: the operation stands for the service, processor time for
    /// own time, samples for calls; they do not affect the verdict.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub functions: Vec<PointRow>,
    /// Kinds of trace points that B calls more or less often; they do not affect the verdict.
    pub calls: Vec<CallChange>,
    /// Notes for the reader.
    pub notes: Vec<String>,
}

impl PairDocument {
    /// When its first round began: RFC 3339, UTC; empty without one.
    #[must_use]
    pub fn began(&self) -> &str {
        let first = self.pairs.first().map(|pair| if pair.b_first { &pair.b } else { &pair.a });
        first.map_or("", |round| round.started_at.as_str())
    }

    /// How long its rounds took together, in seconds.
    #[must_use]
    pub fn load_s(&self) -> f64 {
        let of_pair = |pair: &Pair| {
            let further = pair.further.iter().map(|both| both.a.duration_s + both.b.duration_s);
            pair.a.duration_s + pair.b.duration_s + further.sum::<f64>()
        };
        self.pairs.iter().map(of_pair).sum()
    }
}

/// One side.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
pub struct Side {
    /// Its name: that of its deployment, its target, or its command.
    pub name: String,
    /// The deployment's file.
    pub deployment: String,
    /// The target used instead of `default`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// The command that started it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
}

/// One pair.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
pub struct Pair {
    /// True when B ran first.
    pub b_first: bool,
    /// Why it is left out; absent when it counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub left_out: Option<String>,
    /// A's round.
    pub a: RoundInfo,
    /// B's.
    pub b: RoundInfo,
    /// Further rounds of the pair, which are longer: those before had too few iterations.
    pub further: Vec<FurtherRounds>,
}

/// Further rounds of a pair.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[schemars(rename = "Further")]
pub struct FurtherRounds {
    /// A's.
    pub a: RoundInfo,
    /// B's.
    pub b: RoundInfo,
}

/// One round.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
pub struct RoundInfo {
    /// Its directory, within the job's; `bench report` makes its report.
    pub directory: String,
    /// RFC 3339, UTC.
    pub started_at: String,
    /// Measured iterations, without the warm-up.
    pub iterations: u64,
    /// Those that failed.
    pub failed: u64,
    /// In seconds.
    pub duration_s: f64,
    /// Its planned length, as a multiple of the first rounds'.
    pub length: f64,
}
