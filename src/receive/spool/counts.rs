//! What was kept and what was let go, as numbers.

/// Spans that were not kept, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiscardCounts {
    /// Their iteration was not chosen. This is what sampling is for, not a loss.
    pub not_chosen: u64,
    /// Too many spans waited for the end of their iteration.
    pub memory: u64,
    /// The disk was full or too slow, or too much was kept.
    pub disk: u64,
    /// Their trace had too many spans or bytes.
    pub trace_too_large: u64,
    /// The end of their iteration never became known.
    pub undecided: u64,
}

impl DiscardCounts {
    /// Spans that may be missed.
    #[must_use]
    pub fn losses(&self) -> u64 {
        self.memory + self.disk + self.trace_too_large + self.undecided
    }
}

/// What a spool has done so far. Every span is in exactly one of `kept_spans`, `waiting_spans` and the parts of
/// `let_go`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpoolCounts {
    /// Spans that came.
    pub spans: u64,
    /// Iterations whose end is known, without those that are not profiled.
    pub iterations: u64,
    /// Traces that are kept and have spans.
    pub kept_traces: u64,
    /// Traces of these that lack spans.
    pub partial_traces: u64,
    pub kept_spans: u64,
    /// Traces that wait for the end of their iteration.
    pub waiting_traces: u64,
    pub waiting_spans: u64,
    /// Spans that were not kept.
    pub let_go: DiscardCounts,
    /// How often a sample was made half as large, because too much was kept.
    pub halved: u32,
    /// The part of memory that is counted, now.
    pub memory_bytes: u64,
    /// The most memory so far.
    pub memory_peak_bytes: u64,
    /// Of that now, what still has to be written.
    pub queued_bytes: u64,
    /// Length of the files.
    pub disk_bytes: u64,
    /// The largest length so far.
    pub disk_peak_bytes: u64,
    /// How often writing failed.
    pub write_errors: u64,
}

/// What is kept of an iteration's trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeptTrace {
    /// The spans that are there; spans that came twice count twice.
    pub spans: u32,
    /// The spans that came and were let go.
    pub lost: u32,
}
