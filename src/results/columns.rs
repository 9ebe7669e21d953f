//! The iterations of a run as columns for charts.
//!
//! The caller bounds their number: a run may have millions of iterations, but a report draws at most about
//! a hundred thousand. Nothing here may decide which iterations are included.

/// How an iteration ended, as a byte of [`IterationColumns::outcome`].
pub const OUTCOME_OK: u8 = 0;
/// Ended with a fault.
pub const OUTCOME_FAILED: u8 = 1;
/// Cut off by the end of the run.
pub const OUTCOME_ABORTED: u8 = 2;

/// Iterations, with an entry in each column, in any order.
#[derive(Clone, Debug, Default)]
pub struct IterationColumns {
    /// The number of iterations of the run; larger than the number of entries if these are a sample.
    pub total: u64,
    /// The index of its workload.
    pub workload: Vec<u16>,
    /// When it started, in microseconds from the run's start.
    pub start_us: Vec<u64>,
    /// From its start to its end (its service time), in milliseconds.
    pub duration_ms: Vec<f32>,
    /// How long after it was due it started (its queue time), in milliseconds; empty if all started when they were due.
    pub waited_ms: Vec<f32>,
    /// [`OUTCOME_OK`], [`OUTCOME_FAILED`] or [`OUTCOME_ABORTED`].
    pub outcome: Vec<u8>,
    pub trace_id: Vec<[u8; 16]>,
}

impl IterationColumns {
    /// The number of entries: the length of the shortest column.
    #[must_use]
    pub fn len(&self) -> usize {
        let lengths = [self.workload.len(), self.start_us.len(), self.duration_ms.len(), self.outcome.len()];
        lengths.into_iter().fold(self.trace_id.len(), usize::min)
    }

    /// True if there are no iterations.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// True if the run had more iterations than there are entries.
    #[must_use]
    pub fn is_sample(&self) -> bool {
        self.total > self.len() as u64
    }
}
