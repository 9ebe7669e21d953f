//! The part of the result model on work that goes on after the response.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Times from the start of iterations to the end of the last span of their traces (`end: asynchronous`).
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
pub struct Asynchronous {
    /// For how long after the last response spans were waited for, in seconds.
    pub deadline_s: f64,
    /// Which iterations these times are of.
    pub sample: AsynchronousSample,
    /// How many of the sample have a trace that was read after its deadline: the number behind every figure here.
    pub traced: u64,
    /// How many iterations the sample has.
    pub of: u64,
    /// How many iterations succeeded.
    pub of_iterations: u64,
    /// How many of `traced` had probably not ended at the deadline. They count with the time for which they were waited
    /// for at least.
    pub running: u64,
    /// How many of `traced` have spans below a link, such as those of consumers.
    pub linked: u64,
    /// p50, p90, p95 and p99; empty without a trace.
    pub percentiles: Vec<AsynchronousAt>,
    /// The longest time of the sample.
    pub max_ms: Option<f64>,
}

/// Which iterations asynchronous times are of.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AsynchronousSample {
    /// A random sample of all successful iterations; never chosen by their times.
    Random,
}

/// A percentile of asynchronous times.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct AsynchronousAt {
    /// Such as 95.
    pub percentile: f64,
    /// The time that this share of the sample does not exceed.
    pub value_ms: f64,
    /// That of all iterations is at least this, with an error probability of 5 %; absent with too few traces.
    pub low_ms: Option<f64>,
    /// That of all iterations is at most this, with an error probability of 5 %; absent with too few traces.
    pub high_ms: Option<f64>,
    /// True if it is the time of an iteration that had not ended: the real value is larger.
    pub is_running: bool,
}

impl Asynchronous {
    /// The figures at a percentile.
    #[must_use]
    pub fn at(&self, percentile: f64) -> Option<&AsynchronousAt> {
        self.percentiles.iter().find(|known| (known.percentile - percentile).abs() < 1e-9)
    }
}
