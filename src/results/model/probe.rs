//! The part of the result model on the probe: the traced iteration before the load.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::{IterationOutcome, TraceState};

/// One iteration that ran before the load, to see whether its trace arrives. No other figure includes it.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Probe {
    /// Its trace id.
    pub trace_id: Uuid,
    /// The workload whose steps it ran.
    pub workload: String,
    /// How it ended.
    pub outcome: IterationOutcome,
    /// From its start to its end.
    pub duration_ms: f64,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// The beginning of the answer's body if it failed; without secrets, at most 200 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
    /// The state of its trace; `not_fetched` if the collector cannot be asked, or did not answer.
    pub trace: TraceState,
    /// How many points the trace had when the load began.
    pub points: u64,
    /// The services that reported them.
    pub services: Vec<String>,
    /// How long the trace was waited for, in seconds.
    pub waited_s: f64,
    /// Why no trace came, and what to do, if that can be told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missing: Option<String>,
}
