//! The part of the result model on whether a run passes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// The outcome of a criterion, or of all.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Outcome {
    /// Every criterion holds.
    Pass,
    /// At least one criterion does not hold.
    Fail,
    /// Too few samples or too much noise to show which side of the limit the value is on.
    Inconclusive,
    /// There is no data to judge.
    Invalid,
    /// There are no criteria.
    None,
}

impl Outcome {
    /// The outcome as text.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Pass => "PASS",
            Self::Fail => "FAIL",
            Self::Inconclusive => "INCONCLUSIVE",
            Self::Invalid => "INVALID",
            Self::None => "no gate",
        }
    }

    /// The outcome of several together: FAIL before INVALID before INCONCLUSIVE before PASS, none of none.
    #[must_use]
    pub fn worst(outcomes: impl IntoIterator<Item = Self>) -> Self {
        outcomes.into_iter().max_by_key(|outcome| outcome.weight()).unwrap_or(Self::None)
    }

    /// Its precedence among outcomes.
    #[must_use]
    pub fn weight(self) -> u8 {
        match self {
            Self::Fail => 4,
            Self::Invalid => 3,
            Self::Inconclusive => 2,
            Self::Pass => 1,
            Self::None => 0,
        }
    }
}

/// The verdict of a run.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
pub struct Verdict {
    /// The worst of the criteria's outcomes; INVALID if the run itself is (see `invalid`).
    pub outcome: Outcome,
    /// Why the run is invalid, whatever the criteria say; a sentence for each reason.
    #[serde(default)]
    pub invalid: Vec<String>,
    /// A row for each criterion of each workload.
    pub criteria: Vec<Criterion>,
}

/// What a broken criterion means for the run.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// The run fails.
    #[default]
    Fail,
    /// It is shown but does not affect the run's verdict.
    Warn,
}

/// A criterion of a workload's `sla`.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
pub struct Criterion {
    /// The workload that it judges.
    pub workload: String,
    /// Its name in the scenario, such as `failure_rate`.
    pub criterion: String,
    /// The condition in words, such as `failure rate at most 5 %`.
    pub condition: String,
    /// What was observed, in words, such as `1.2 %`; `no samples` when there were none.
    pub observed: String,
    /// Its outcome.
    pub outcome: Outcome,
    /// What it means for the run if it is broken.
    #[serde(default)]
    pub severity: Severity,
    /// Why it is INCONCLUSIVE or INVALID, and what would help.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The limit, the observed value and its bounds, if they are numbers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured: Option<CriterionMeasurement>,
    /// True if this criterion ended the load.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub aborted: bool,
    /// How many iterations it was judged by.
    pub samples: u64,
    /// Trace ids of iterations that broke it, worst first, at most five.
    pub trace_ids: Vec<Uuid>,
}

/// A criterion in numbers, all in the same unit.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[schemars(rename = "Measured")]
pub struct CriterionMeasurement {
    /// `ms`, `%`, `1/s` or `calls`; empty for plain numbers.
    pub unit: String,
    /// The limit.
    pub limit: f64,
    /// The observed value.
    pub value: f64,
    /// The value is at least this, with 95 % confidence; absent if the value is exact or no bound is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub low: Option<f64>,
    /// The value is at most this, with 95 % confidence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub high: Option<f64>,
}
