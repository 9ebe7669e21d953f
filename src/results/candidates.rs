//! The iterations of a run whose traces may be worth fetching, gathered in one pass; [`super::choice`] chooses among them.

use std::collections::HashSet;
use std::io;

use uuid::Uuid;

use super::ranked::{Ranked, RankedInTime};
use crate::measure::ids::RunIds;
use crate::measure::log::{RunLog, Visitor};
use crate::measure::rows::{IterationHead, Row, Rows};
use crate::measure::sample::{Ended, IterationSample};

/// Failed iterations that are fetched at most.
const FAILED_MAX: usize = 50;
/// Slow iterations that are compared by the client's own figures where no traces are wanted.
const SLOW_WITHOUT_TRACES: u32 = 200;
/// Typical iterations that are kept of each interval of time, at most.
const TYPICAL_OF_INTERVAL_MAX: usize = 200;

/// The iterations of a run that may be chosen, gathered in one pass.
#[derive(Debug)]
pub(super) struct Candidates {
    pub(super) ids: RunIds,
    /// How many slow ones are wanted, and how many others.
    pub(super) wanted: (u32, u32),
    /// The traces that are there already, and the iterations that they are of.
    stored: HashSet<Uuid>,
    pub(super) of_stored: Vec<IterationSample>,
    /// One for each workload.
    pub(super) groups: Vec<Group<IterationSample>>,
}

impl Candidates {
    /// For as many as the header of a log wants, and those of which traces are stored.
    #[must_use]
    pub(super) fn new(log: &RunLog, stored: HashSet<Uuid>) -> Self {
        let wanted = log.header.traces_wanted;
        let gathered = if wanted.0 == 0 { (SLOW_WITHOUT_TRACES, 0) } else { wanted };
        let groups = groups(gathered, log.header.workloads.len());
        Self { ids: log.ids(), wanted, stored, of_stored: Vec::new(), groups }
    }

    fn add(&mut self, row: Row<'_>) {
        if row.head.warm_up || self.ids.is_control(row.head) {
            return;
        }
        if let Some(group) = self.groups.get_mut(usize::from(row.head.workload)) {
            group.offer(row.head, self.ids.draw(row.head), || row.to_sample(), &mut drop);
            if !self.stored.is_empty() && self.stored.contains(&self.ids.trace_id(row.head)) {
                self.of_stored.push(row.to_sample());
            }
        }
    }
}

impl Visitor for Candidates {
    fn rows(&mut self, rows: &Rows) -> io::Result<()> {
        rows.iter().for_each(|row| self.add(row));
        Ok(())
    }
}

/// A group for each workload, each with its share of what is wanted: how many slow iterations, and how many others.
pub fn groups<T>(wanted: (u32, u32), workloads: usize) -> Vec<Group<T>> {
    let share = |of: u32| (of as usize).div_ceil(workloads.max(1));
    (0..workloads).map(|_| Group::new(share(wanted.0), share(wanted.1))).collect()
}

/// The iterations of a workload that may be chosen, each as a `T`.
#[derive(Debug)]
pub struct Group<T> {
    /// How many slow ones are wanted.
    pub(super) wanted: usize,
    /// How many iterations without fault there were.
    pub(super) total: u64,
    /// By response time, longest first; one more than is wanted, to see whether these are all.
    pub(super) slow: Ranked<T>,
    /// By response time.
    pub(super) typical: RankedInTime<T>,
    pub(super) failed: Ranked<T>,
    pub(super) others: Ranked<T>,
}

impl<T> Group<T> {
    fn new(wanted: usize, others: usize) -> Self {
        Self {
            wanted,
            total: 0,
            slow: Ranked::new(wanted + 1),
            typical: RankedInTime::new(wanted.div_ceil(2).min(TYPICAL_OF_INTERVAL_MAX)),
            failed: Ranked::new(FAILED_MAX),
            others: Ranked::new(others),
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
            Ended::Failed => self.failed.offer(0, draw, &mut item, gone),
            Ended::Ok => {
                self.total += 1;
                self.slow.offer(!response_ns, draw, &mut item, gone);
                self.typical.offer(response_ns, draw, head.start_ns, &mut item, gone);
            }
            Ended::Aborted | Ended::Dropped => return,
        }
        self.others.offer(0, draw, item, gone);
    }

    /// How many iterations the largest of the samples has to keep.
    pub fn largest(&self) -> usize {
        let Self { slow, typical, failed, others, .. } = self;
        slow.len().max(typical.len()).max(failed.len()).max(others.len())
    }

    /// Halves the size of the sample that has to keep the most iterations. Every sample stays what it is by definition,
    /// but smaller.
    pub fn halve_largest(&mut self, gone: &mut impl FnMut(T)) {
        let largest = self.largest();
        let Self { slow, typical, failed, others, .. } = self;
        if typical.len() == largest {
            typical.limit_to(typical.limit() / 2, gone);
        } else if let Some(sample) = [slow, others, failed].into_iter().find(|sample| sample.len() == largest)
        {
            sample.limit_to(sample.limit() / 2, gone);
        }
    }
}
