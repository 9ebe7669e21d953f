//! What a list of traces says of each, and which of them are asked for.

use std::collections::HashMap;

/// Traces that one look into a file can tell apart.
pub(crate) const TRACES_MAX: usize = 1_000_000;

/// Which traces to list.
#[derive(Clone, Copy, Debug)]
pub struct TraceQuery {
    /// Only those with a point that failed.
    pub errors_only: bool,
    /// Not more than this.
    pub limit: usize,
}

/// A trace that a collector holds. What a storage does not tell cheaply is `None`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceSummary {
    /// The trace.
    pub base_id: String,
    /// UTC time of its oldest known record, as records hold it.
    pub timestamp: String,
    /// How many records it has.
    pub records: Option<u64>,
    /// The name of its oldest known point.
    pub name: Option<String>,
    /// Whether one of its points failed.
    pub failed: Option<bool>,
}

impl TraceQuery {
    /// Those that are asked for, newest first.
    pub(crate) fn newest(&self, traces: HashMap<String, TraceSummary>) -> Vec<TraceSummary> {
        let mut traces: Vec<TraceSummary> = traces.into_values().collect();
        traces.retain(|trace| !self.errors_only || trace.failed == Some(true));
        traces.sort_by(|one, other| other.timestamp.cmp(&one.timestamp));
        traces.truncate(self.limit);
        traces
    }
}
