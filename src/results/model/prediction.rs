//! What response times would be if something were different.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What is different in a prediction.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(into = "FixRecord", try_from = "FixRecord")]
pub enum Fix {
    /// The own work of the points of a kind takes so many times as long.
    Work { kind: String, times: f64 },
    /// It takes at most so long in an iteration; 0 without them.
    WorkAtMost { kind: String, at_most_ms: f64 },
    /// An iteration has at most so many calls of a kind.
    Calls { kind: String, at_most: u32 },
    /// So many calls of this name run at a time.
    Servers { name: String, today: u32, then: u32 },
}

/// What is different in a prediction, as it stands in JSON: its name, and one of the others.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct FixRecord {
    /// The kind of points, or the calls that run so many at a time.
    pub name: String,
    /// Their own work takes so many times as long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub times: Option<f64>,
    /// Their own work takes at most so long in an iteration; 0 without them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_most_ms: Option<f64>,
    /// An iteration has at most so many calls of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_most_calls: Option<u32>,
    /// So many run at a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub servers: Option<u32>,
    /// So many run at a time today.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub servers_today: Option<u32>,
}

impl From<Fix> for FixRecord {
    fn from(fix: Fix) -> Self {
        match fix {
            Fix::Work { kind, times } => Self { name: kind, times: Some(times), ..Self::default() },
            Fix::WorkAtMost { kind, at_most_ms } => {
                Self { name: kind, at_most_ms: Some(at_most_ms), ..Self::default() }
            }
            Fix::Calls { kind, at_most } => {
                Self { name: kind, at_most_calls: Some(at_most), ..Self::default() }
            }
            Fix::Servers { name, today, then } => {
                Self { name, servers: Some(then), servers_today: Some(today), ..Self::default() }
            }
        }
    }
}

impl TryFrom<FixRecord> for Fix {
    type Error = &'static str;

    fn try_from(record: FixRecord) -> Result<Self, Self::Error> {
        let FixRecord { name, times, at_most_ms, at_most_calls, servers, servers_today } = record;
        match (times, at_most_ms, at_most_calls, servers.zip(servers_today)) {
            (Some(times), None, None, None) => Ok(Self::Work { kind: name, times }),
            (None, Some(at_most_ms), None, None) => Ok(Self::WorkAtMost { kind: name, at_most_ms }),
            (None, None, Some(at_most), None) => Ok(Self::Calls { kind: name, at_most }),
            (None, None, None, Some((then, today))) => Ok(Self::Servers { name, today, then }),
            _ => Err("a prediction has one difference"),
        }
    }
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
    #[schemars(with = "FixRecord")]
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
