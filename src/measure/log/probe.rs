//! What the log's last frame says of the probe, as written.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// The iteration before the load, and its pairs.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct ProbeRecord {
    /// The trace id of the iteration.
    pub trace_id: Uuid,
    /// The workload whose steps it ran.
    pub workload: String,
    /// True if it had no fault.
    pub ok: bool,
    /// From its start to its end, in nanoseconds.
    pub duration_ns: u64,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// The beginning of the answer's body if it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
    /// How many points of its trace came; absent if no collector could be asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub points: Option<u64>,
    /// True if every point has its start and its stop.
    #[serde(default)]
    pub is_complete: bool,
    /// The services of these points.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub services: Vec<String>,
    /// For how long the trace was waited for, in nanoseconds.
    #[serde(default)]
    pub waited_ns: u64,
    /// Why no trace came.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missing: Option<String>,
    /// The times of pairs of iterations without fault, in nanoseconds: profiled, and not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pairs_ns: Vec<(u64, u64)>,
    /// Pairs in which an iteration failed.
    #[serde(default)]
    pub pairs_failed: u64,
}
