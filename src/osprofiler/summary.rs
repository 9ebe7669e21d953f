//! What a list of traces says of each, and which of them are asked for.

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
