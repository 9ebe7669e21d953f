//! The part of the result model that says whether a run counts as good.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// The outcome of one or all gates.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Outcome {
    /// Every criterion holds.
    Pass,
    /// At least one criterion does not hold.
    Fail,
    /// The data allow neither: too few samples, or too much noise, to tell which side of the limit it is on.
    Inconclusive,
    /// There is no data to judge by.
    Invalid,
    /// No criterion was asked for.
    None,
}

impl Outcome {
    /// As people read it.
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

    /// How much it weighs beside others.
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
    /// The worst of the criteria's outcomes; INVALID when the run itself is (see `invalid`).
    pub outcome: Outcome,
    /// Why the run says nothing about the service whatever the criteria say, one sentence each.
    #[serde(default)]
    pub invalid: Vec<String>,
    /// One row for each criterion of each workload.
    pub criteria: Vec<Criterion>,
}

/// What a criterion that does not hold means for the run.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// The run fails.
    #[default]
    Fail,
    /// It is shown; the run's verdict does not look at it.
    Warn,
}

/// One criterion of a workload's `sla`.
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
    /// How it went.
    pub outcome: Outcome,
    /// What it means for the run.
    #[serde(default)]
    pub severity: Severity,
    /// Why it is INCONCLUSIVE or INVALID, and what would help.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The limit, the observed value and its bounds, where they are numbers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured: Option<Measured>,
    /// True for the criterion that ended the load.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub aborted: bool,
    /// How many iterations it was judged by.
    pub samples: u64,
    /// Trace ids of iterations that broke it, worst first, at most five.
    pub trace_ids: Vec<Uuid>,
}

/// A criterion in numbers, all in the same unit.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Measured {
    /// `ms`, `%`, `1/s` or `calls`; empty for plain numbers.
    pub unit: String,
    /// What is allowed.
    pub limit: f64,
    /// What was seen.
    pub value: f64,
    /// The value is at least this, with 95 % confidence; absent where the value is exact or no bound is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub low: Option<f64>,
    /// The value is at most this, with 95 % confidence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub high: Option<f64>,
}
