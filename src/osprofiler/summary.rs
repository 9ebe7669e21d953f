//! The summaries in a list of traces, and the filter of such a list.

use std::collections::HashMap;

/// How many traces a single pass over a file can distinguish.
pub(crate) const TRACES_MAX: usize = 1_000_000;

/// Which traces to list.
#[derive(Clone, Copy, Debug)]
pub struct TraceQuery {
    /// Only those with a point that failed.
    pub errors_only: bool,
    /// At most this many.
    pub limit: usize,
}

/// A trace in a collector. Values that a storage cannot provide cheaply are `None`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceSummary {
    /// The trace.
    pub base_id: String,
    /// UTC time of its oldest known record, in the format of records.
    pub timestamp: String,
    /// How many records it has.
    pub records: Option<u64>,
    /// The name of its oldest known point.
    pub name: Option<String>,
    /// Whether one of its points failed.
    pub failed: Option<bool>,
}

impl TraceQuery {
    /// The requested traces, newest first.
    pub(crate) fn newest(&self, traces: HashMap<String, TraceSummary>) -> Vec<TraceSummary> {
        let mut traces: Vec<TraceSummary> = traces.into_values().collect();
        traces.retain(|trace| !self.errors_only || trace.failed == Some(true));
        traces.sort_by(|one, other| other.timestamp.cmp(&one.timestamp));
        traces.truncate(self.limit);
        traces
    }
}
