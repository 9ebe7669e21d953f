//! The part of the result model on what the client alone knows of slow iterations: their place in the run.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Where in the run the slow iterations of a workload are.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct SlowPlaces {
    /// Present if the first iterations of the run are slow ones more often than any others in a row.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first: Option<FirstIterations>,
    /// Present if slow ones come at regular intervals.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rhythm: Option<Rhythm>,
}

/// The first iterations of a run, without the warm-up, that were slow.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[schemars(rename = "FirstOnes")]
pub struct FirstIterations {
    /// How many of the first `among` iterations are slow ones: at least half.
    pub slow: u64,
    /// The length of the run's beginning, in iterations.
    pub among: u64,
    /// How many iterations the workload had.
    pub of: u64,
    /// The mean response time of these slow ones.
    pub slow_ms: f64,
    /// Iterations of the warm-up, which are not counted; 0 without one.
    pub warm_up: u64,
    /// The probability that the place with the most slow iterations in a row is the first one by chance.
    pub chance: f64,
}

/// Slow iterations at regular intervals.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Rhythm {
    /// The interval in seconds, if it is one of time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub every_s: Option<f64>,
    /// The interval in iterations, if it is one of their numbers: every tenth.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub every_iterations: Option<u64>,
    /// The share of slow iterations that are within it, 0 to 1.
    pub share: f64,
    /// The share that would be by chance, 0 to 1.
    pub share_by_chance: f64,
    /// The probability of so clear a rhythm by chance, adjusted for the number of intervals that were tried.
    pub chance: f64,
}

/// Moments at which slow iterations come together.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct SlowMoments {
    /// How many moments.
    pub moments: u64,
    /// How many slow iterations begin and end together with another one.
    pub iterations: u64,
    /// Of how many.
    pub of: u64,
    /// The share that would have another one so near by chance, 0 to 1.
    pub share_by_chance: f64,
}

/// Most of the run's slowest iterations that end at the same moment.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct SlowestStall {
    /// How many of them.
    pub iterations: u64,
    /// Of how many.
    pub of: u64,
    /// From the end of the first of them to that of the last.
    pub within_ms: f64,
    /// When the first of them ended, in seconds from the run's start.
    pub at_s: f64,
}
