//! The part of the result model that says why a run has its verdict.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// What a reader must know first: why the run has its verdict, in a headline and a sentence.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Reason {
    /// What it is about.
    pub kind: ReasonKind,
    /// At most ten words.
    pub headline: String,
    /// One or several sentences: what was found, what was expected, and what to do.
    pub sentence: String,
    /// The workload, if the run has several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workload: Option<String>,
    /// The action in which it happened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action: Option<String>,
    /// The criterion that decided, as its `condition` says it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub criterion: Option<String>,
    /// How many iterations failed like this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    /// Of how many iterations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of: Option<u64>,
    /// What was expected: of an answer, or the limit of a criterion.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected: Option<String>,
    /// What was found instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub found: Option<String>,
    /// The beginning of the answer's body; without secrets, on one line, at most 200 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub excerpt: Option<String>,
    /// Trace ids of iterations that show it, at most five.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub trace_ids: Vec<Uuid>,
}

impl ReasonKind {
    /// True if failed iterations, or a run that failed, come before everything about time.
    #[must_use]
    pub fn is_by_errors(self) -> bool {
        matches!(self, Self::Run | Self::NothingRan | Self::AllFailed | Self::Errors)
    }
}

/// What a reason is about.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ReasonKind {
    /// The run itself failed, such as its `setup`.
    Run,
    /// No iteration ran.
    NothingRan,
    /// Every iteration failed.
    AllFailed,
    /// Iterations failed, which a criterion forbids, or which is more than 1 % where nothing judges failures.
    Errors,
    /// A limit on a time is broken.
    Time,
    /// Another criterion is broken.
    Criterion,
    /// There is nothing to judge by, or the load generator was the limit.
    Invalid,
    /// Too few samples to judge by.
    Inconclusive,
    /// What the slow iterations wait for; nothing is broken.
    Slow,
    /// Nothing is broken, but no trace came, so that only the client's own times are known.
    NoTraces,
    /// Nothing is broken, and this is only a part of a load, which nothing judges.
    Shard,
    /// Nothing stands out.
    Nothing,
}
