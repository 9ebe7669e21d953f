//! The iterations of a run as columns: what charts draw, without what only tables need.
//!
//! Bounded by whoever fills it: a run may have millions of iterations, a report draws at most about
//! a hundred thousand. Nothing here may decide which iterations are taken.

/// How an iteration ended, as a byte of [`IterationColumns::outcome`].
pub const OUTCOME_OK: u8 = 0;
/// Ended with a fault.
pub const OUTCOME_FAILED: u8 = 1;
/// Cut off by the end of the run.
pub const OUTCOME_ABORTED: u8 = 2;

/// Iterations, one entry of each column for each, in any order.
#[derive(Clone, Debug, Default)]
pub struct IterationColumns {
    /// How many iterations the run had; more than there are entries when these are a sample.
    pub total: u64,
    /// The index of its workload.
    pub workload: Vec<u16>,
    /// When it started, in microseconds from the run's start.
    pub start_us: Vec<u64>,
    /// From its start to its end (its service time), in milliseconds.
    pub duration_ms: Vec<f32>,
    /// [`OUTCOME_OK`], [`OUTCOME_FAILED`] or [`OUTCOME_ABORTED`].
    pub outcome: Vec<u8>,
    /// Its trace id.
    pub trace_id: Vec<[u8; 16]>,
}

impl IterationColumns {
    /// How many iterations are here: the length of the shortest column.
    #[must_use]
    pub fn len(&self) -> usize {
        let lengths = [self.workload.len(), self.start_us.len(), self.duration_ms.len(), self.outcome.len()];
        lengths.into_iter().fold(self.trace_id.len(), usize::min)
    }

    /// True when there is no iteration.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// True when the run had more iterations than are here.
    #[must_use]
    pub fn is_sample(&self) -> bool {
        self.total > self.len() as u64
    }
}
