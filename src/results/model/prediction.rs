//! What response times would be if something were different.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What is different in a prediction.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Fix {
    /// The own work of these points takes so many times as long.
    Work {
        /// Their kind, in words.
        kind: String,
        /// How many times as long.
        times: f64,
    },
    /// The own work of these points takes at most so long in an iteration, in milliseconds; 0 without them.
    WorkAtMost {
        /// Their kind, in words.
        kind: String,
        /// How long.
        at_most_ms: f64,
    },
    /// An iteration has at most so many calls of these points.
    Calls {
        /// Their kind, in words.
        kind: String,
        /// How many.
        at_most: u32,
    },
    /// So many calls run at a time.
    Servers {
        /// The name of the calls.
        name: String,
        /// How many run at a time today.
        today: u32,
        /// How many then.
        then: u32,
    },
}

/// Why the true response times may be lower than the predicted ones.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum UpperBound {
    /// Users wait for their own iterations to end, so nothing tells what waits for what.
    ClosedLoad,
    /// Iterations take longer because of others that are under way, and no trace shows what they share.
    Sharing,
    /// Only slow and typical iterations have traces; what is not known stays as it is.
    SlowTracesOnly,
}

/// A predicted percentile of the response times.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct PredictedTime {
    /// Which one, from 0 to 100.
    pub percentile: f64,
    /// As measured, of the successful iterations that were replayed.
    pub today_ms: f64,
    /// What it would be.
    pub then_ms: f64,
    /// With 90 % confidence, a new run has at least this,
    pub low_ms: f64,
    /// and at most this.
    pub high_ms: f64,
}

/// What response times the same arrivals would have had with one difference.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct FixPrediction {
    /// What is different.
    pub fix: Fix,
    /// The response times.
    pub percentiles: Vec<PredictedTime>,
    /// Why the truth may be lower; absent if nothing says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upper_bound: Option<UpperBound>,
    /// How many iterations were replayed.
    pub iterations: u64,
    /// How many of them have traces.
    pub traced: u64,
}

impl FixPrediction {
    /// One of the percentiles.
    #[must_use]
    pub fn at(&self, percentile: f64) -> Option<&PredictedTime> {
        self.percentiles.iter().find(|one| (one.percentile - percentile).abs() < f64::EPSILON)
    }
}

/// A kind of point that may be changed.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct ChangeableKind {
    /// The project and service that reported it.
    pub service: String,
    /// Its name and what it did.
    pub name: String,
    /// The mean number of its calls in an iteration that was not chosen for being slow.
    pub calls: f64,
    /// What they do themselves in it, on average.
    pub own_ms: f64,
}

/// Calls that were seen to run so many at a time.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct CallPool {
    /// Their name.
    pub name: String,
    /// How many run at a time.
    pub servers: u32,
}

/// What `bench what-if` says of a run.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct WhatIf {
    /// The run's id.
    pub run: String,
    /// The workload.
    pub workload: String,
    /// What the change would bring; without one, what it would bring if the named cause were gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prediction: Option<FixPrediction>,
    /// Why there is no prediction of the change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub none_because: Option<String>,
    /// What may be changed, largest first.
    pub kinds: Vec<ChangeableKind>,
    /// The calls that were seen to run so many at a time.
    pub pools: Vec<CallPool>,
}
