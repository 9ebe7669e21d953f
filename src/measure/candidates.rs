//! The iterations of a run whose traces may be worth fetching: random samples of the slow, the typical, the failed and of
//! all. They are known at any time while the load runs, and again from the log.

use super::ranked::{RankedInTime, SampleCandidates};
use super::rows::IterationHead;
use super::sample::CompletionStatus;

/// Failed iterations that are fetched at most.
const FAILED_MAX: usize = 50;
/// Typical iterations that are kept of each interval of time, at most.
const TYPICAL_OF_INTERVAL_MAX: usize = 200;

/// A group for each workload, each with its share of what is wanted: how many slow iterations, and how many others.
#[must_use]
pub fn groups<T>(wanted: (u32, u32), workloads: usize) -> Vec<Group<T>> {
    let share = |of: u32| (of as usize).div_ceil(workloads.max(1));
    (0..workloads).map(|_| Group::new(share(wanted.0), share(wanted.1))).collect()
}

/// The iterations of a workload that may be chosen, each as a `T`.
#[derive(Debug)]
pub struct Group<T> {
    /// How many slow ones are wanted.
    pub wanted: usize,
    /// How many iterations without fault there were.
    pub total: u64,
    /// By response time, longest first; one more than is wanted, to see whether these are all.
    pub slow: SampleCandidates<T>,
    /// By response time.
    pub typical: RankedInTime<T>,
    /// Those that failed, at random.
    pub failed: SampleCandidates<T>,
    /// Any that ended, at random.
    pub others: SampleCandidates<T>,
}

impl<T> Group<T> {
    fn new(wanted: usize, others: usize) -> Self {
        Self {
            wanted,
            total: 0,
            slow: SampleCandidates::new(wanted + 1),
            typical: RankedInTime::new(wanted.div_ceil(2).min(TYPICAL_OF_INTERVAL_MAX)),
            failed: SampleCandidates::new(FAILED_MAX),
            others: SampleCandidates::new(others),
        }
    }

    /// Adds an iteration of the measured part, with the number that it drew. `item` is called once for each sample that
    /// it may be in; `gone` gets what no longer can be in one of the samples.
    #[inline]
    pub fn offer(
        &mut self,
        head: &IterationHead,
        draw: u64,
        mut item: impl FnMut() -> T,
        gone: &mut impl FnMut(T),
    ) {
        let response_ns = head.response_ns();
        match head.ended {
            CompletionStatus::Failed => self.failed.offer(0, draw, &mut item, gone),
            CompletionStatus::Ok => {
                self.total += 1;
                self.slow.offer(!response_ns, draw, &mut item, gone);
                self.typical.offer(response_ns, draw, head.start_ns, &mut item, gone);
            }
            CompletionStatus::Aborted | CompletionStatus::Dropped => return,
        }
        self.others.offer(0, draw, item, gone);
    }

    /// How many iterations the largest of the samples has to keep.
    #[must_use]
    pub fn largest(&self) -> usize {
        let Self { slow, typical, failed, others, .. } = self;
        slow.count().max(typical.count()).max(failed.count()).max(others.count())
    }

    /// Halves the size of the sample that has to keep the most iterations. Every sample stays what it is by definition,
    /// but smaller.
    pub fn halve_largest(&mut self, gone: &mut impl FnMut(T)) {
        let largest = self.largest();
        let Self { slow, typical, failed, others, .. } = self;
        if typical.count() == largest {
            typical.limit_to(typical.limit() / 2, gone);
        } else if let Some(sample) =
            [slow, others, failed].into_iter().find(|sample| sample.count() == largest)
        {
            sample.limit_to(sample.limit() / 2, gone);
        }
    }
}
