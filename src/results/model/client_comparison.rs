//! The part of the result model that compares slow iterations by what the client alone knows: where their time went, what
//! they have in common, and their place in the run. It needs no trace.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::causes::ComparedKind;
use super::client_causes::SlowPlaces;
use super::differences::Differences;

/// The slow iterations of a workload compared with typical ones by the client's own figures.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
pub struct ClientComparison {
    /// Which are slow: the upper 5 % of response times.
    pub slow_percent: u32,
    /// How many slow iterations were compared, whether they have traces or not.
    pub slow: u64,
    /// How many typical ones: between the 10th and 50th percentile, matched in time.
    pub typical: u64,
    /// The mean response time of the slow ones.
    pub slow_ms: f64,
    /// The mean response time of the typical ones.
    pub typical_ms: f64,
    /// The client's own points that explain most of the difference, largest share first: queue time, waiting for the
    /// answer of an action, opening a connection, reading an answer.
    pub parts: Vec<ComparedKind>,
    /// What slow iterations have more often than typical ones; absent with too few of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub differences: Option<Differences>,
    /// Where in the run the slow iterations are; absent if that says nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub places: Option<SlowPlaces>,
}
