//! The part of the result model on work that goes on after the response.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::causes::Comparison;
use super::explanation::Explanation;

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
    /// Why work ended late; absent where the work of late iterations ended with their responses, or too few have traces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub late: Option<Box<LateWork>>,
}

/// The iterations of the random sample whose work ended late, compared with typical ones. All times are to the end of the
/// work, along the path to its last span: what does not lead there takes no time. Iterations whose work had not ended at the
/// deadline are left out.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
pub struct LateWork {
    /// Late iterations against typical ones.
    pub comparison: Comparison,
    /// The iterations whose work ended last, latest first, each with what explains it.
    pub latest: Vec<LateIteration>,
}

/// An iteration whose work ended late.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
pub struct LateIteration {
    /// Its response time, from when it was due.
    pub response_ms: f64,
    /// What explains when its work ended; its `response_ms` is the time until then.
    pub explanation: Explanation,
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
