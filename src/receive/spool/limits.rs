//! The bounds of what is kept.

/// The bounds of a spool.
#[derive(Clone, Copy, Debug)]
pub struct SpoolLimits {
    /// Memory for spans of iterations that are not decided.
    pub waiting_bytes: usize,
    /// Memory for spans that still have to be written.
    pub queue_bytes: usize,
    /// All files together.
    pub disk_bytes: u64,
    /// At this length, another file is begun.
    pub segment_bytes: u64,
    /// Spans of a trace.
    pub trace_spans: u32,
    /// Bytes of a trace.
    pub trace_bytes: usize,
}

impl Default for SpoolLimits {
    fn default() -> Self {
        Self {
            waiting_bytes: 64 << 20,
            queue_bytes: 32 << 20,
            disk_bytes: 1_000_000_000,
            segment_bytes: 8 << 20,
            trace_spans: 5_000,
            trace_bytes: 4 << 20,
        }
    }
}
