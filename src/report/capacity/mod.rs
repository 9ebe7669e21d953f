//! The result of a search for capacity, as in `capacity.json`, and its reports.
//!
//! Version 1. As in the results of a run, the meaning of a key never changes.

mod picture;
#[cfg(test)]
mod tests;
pub(super) mod text;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use ::capacity::limit::{Limit, NoLimitReason};
use ::capacity::search::{CapacityBounds, LevelOutcome};
use measure::generator::LocalProcess;
use results::model::{Outcome, ScenarioInfo};

pub(super) use picture::LevelPicture;
pub use text::{criteria, document, headline, level_line, markdown, terminal};

/// The value of `format`.
pub const FORMAT: &str = "bench-capacity";
/// The version that this build writes.
pub const VERSION: u32 = 1;

/// The JSON Schema (draft-07) of `capacity.json`.
#[must_use]
pub fn schema() -> serde_json::Value {
    ::text::json_schema::draft07::<CapacityDocument>()
}

/// The whole document.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[schemars(rename = "Capacity")]
pub struct CapacityDocument {
    /// Always [`FORMAT`].
    pub format: String,
    /// See [`VERSION`].
    pub version: u32,
    /// The version of `bench`.
    pub bench_version: String,
    /// The verdict: on `at_least`, if that is asked for. INVALID if the load generator, and not the service, was the limit.
    pub outcome: Outcome,
    /// Why the verdict is what it is, a sentence each.
    pub reasons: Vec<String>,
    /// False when it was interrupted.
    pub finished: bool,
    /// What was run.
    pub scenario: ScenarioInfo,
    /// The deployment's name.
    pub deployment: String,
    /// What every level had to meet, in words.
    pub conditions: Vec<String>,
    /// What the levels show.
    pub bounds: CapacityBounds,
    /// The rate that the service must bear, in iterations per second; absent if none is asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at_least_per_s: Option<f64>,
    /// The highest rate that could be tried.
    pub highest_per_s: f64,
    /// The levels in their order; the first has one user.
    pub levels: Vec<LevelInfo>,
    /// What stops the service; absent if it is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<Limit>,
    /// Why it is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub no_limit: Option<NoLimit>,
    /// What iterations of the level that breaks fail of, if many more do than at the other; absent otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fails: Option<OverloadFailure>,
    /// The process of this machine that uses one processor whole at the level that breaks: what it used at the level that
    /// holds, and there; absent if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub processor: Option<[LocalProcess; 2]>,
    /// How the service comes back from an overload while a lower load goes on; absent if it was not tried, or is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recovery: Option<OverloadRecovery>,
    /// The levels whose traces were compared: one that holds and one that breaks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compared: Option<[LevelInfo; 2]>,
    /// Notes for the reader.
    pub notes: Vec<String>,
}

/// Why nothing is named that stops the service.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum NoLimit {
    /// No rate breaks, or none holds.
    NoBounds,
    /// There are no traces: nothing is profiled, or there is no collector.
    NoTraces,
    /// The time for the search was over.
    NoTime,
    /// What [`NoLimitReason`] says.
    #[serde(untagged)]
    Analysis(NoLimitReason),
}

/// What most failed iterations of an overloaded level fail of.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct OverloadFailure {
    /// The class of the error, such as `status` or `timeout`.
    pub class: String,
    /// The message of its first occurrence.
    pub message: String,
    /// The share of all iterations, from 0 to 1.
    pub share: f64,
}

/// An overload, and how the service comes back from it.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct OverloadRecovery {
    /// Iterations that were due in a second of the overload.
    pub overload_per_s: f64,
    /// How long it lasted, in seconds.
    pub overload_s: f64,
    /// The loads after it, in their order: each after an overload of its own. Only the last may have recovered.
    pub tries: Vec<RecoveryTry>,
}

/// A load that follows an overload without a pause.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct RecoveryTry {
    /// Its directory, within the search's.
    pub directory: String,
    /// Iterations that were due in a second after the overload.
    pub rate_per_s: f64,
    /// The seconds from the end of the overload until iterations were as good as at the rate that holds; absent if they were
    /// not, until the end of the load.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recovered_after_s: Option<f64>,
}

/// A level.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
pub struct LevelInfo {
    /// Its directory, within the search's; `bench report` makes its report.
    pub directory: String,
    /// Iterations that were due in a second; absent for the level with one user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_per_s: Option<f64>,
    /// Iterations that ended in a second.
    pub served_per_s: f64,
    /// How it went; absent for a level that does not count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<LevelOutcome>,
    /// Why: what broke, or why the level does not count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Measured iterations, without the warm-up.
    pub iterations: u64,
    /// Those that failed.
    pub failed: u64,
    /// Percentiles of the response time in milliseconds; absent where they fall among iterations without one.
    pub p50_ms: Option<f64>,
    /// See `p50_ms`.
    pub p95_ms: Option<f64>,
    /// See `p50_ms`.
    pub p99_ms: Option<f64>,
    /// In seconds.
    pub duration_s: f64,
    /// How long the service took after it until single requests were as fast as before the search, in seconds; absent
    /// where that was not looked at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recovered_after_s: Option<f64>,
    /// True if it did not recover while it was watched.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub not_recovered: bool,
}

impl LevelInfo {
    /// The share of its iterations that failed.
    #[must_use]
    pub fn failed_share(&self) -> f64 {
        if self.iterations == 0 { 0.0 } else { self.failed as f64 / self.iterations as f64 }
    }
}
