//! The iterations of a run whose traces may be worth fetching, gathered in one pass; [`super::choice`] chooses among them.

use std::collections::HashSet;
use std::io;

use uuid::Uuid;

use super::ranked::{Ranked, RankedInTime};
use crate::measure::ids::RunIds;
use crate::measure::log::{RunLog, Visitor};
use crate::measure::rows::{Row, Rows};
use crate::measure::sample::{Ended, IterationSample};

/// Failed iterations that are fetched at most.
const FAILED_MAX: usize = 50;
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
    pub(super) groups: Vec<Group>,
}

impl Candidates {
    /// For as many as the header of a log wants, and those of which traces are stored.
    #[must_use]
    pub(super) fn new(log: &RunLog, stored: HashSet<Uuid>) -> Self {
        let wanted = log.header.traces_wanted;
        let workloads = log.header.workloads.len();
        let share = |of: u32| (of as usize).div_ceil(workloads.max(1));
        let groups = (0..workloads).map(|_| Group::new(share(wanted.0), share(wanted.1))).collect();
        Self { ids: log.ids(), wanted, stored, of_stored: Vec::new(), groups }
    }

    fn add(&mut self, row: Row<'_>) {
        if row.head.warm_up || self.ids.is_control(row.head) {
            return;
        }
        if let Some(group) = self.groups.get_mut(usize::from(row.head.workload)) {
            group.offer(row, self.ids.draw(row.head));
            if !self.stored.is_empty() && self.stored.contains(&self.ids.trace_id(row.head)) {
                self.of_stored.push(row.to_sample());
            }
        }
    }
}

impl Visitor for Candidates {
    fn rows(&mut self, rows: &Rows) -> io::Result<()> {
        if self.wanted.0 > 0 {
            rows.iter().for_each(|row| self.add(row));
        }
        Ok(())
    }
}

#[derive(Debug)]
pub(super) struct Group {
    /// How many slow ones are wanted.
    pub(super) wanted: usize,
    /// How many iterations without fault there were.
    pub(super) total: u64,
    /// By response time, longest first; one more than is wanted, to see whether these are all.
    pub(super) slow: Ranked,
    /// By response time.
    pub(super) typical: RankedInTime,
    pub(super) failed: Ranked,
    pub(super) others: Ranked,
}

impl Group {
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

    fn offer(&mut self, row: Row<'_>, draw: u64) {
        let response_ns = row.head.response_ns();
        match row.head.ended {
            Ended::Failed => self.failed.offer(0, draw, row),
            Ended::Ok => {
                self.total += 1;
                self.slow.offer(!response_ns, draw, row);
                self.typical.offer(response_ns, draw, row);
            }
            Ended::Aborted | Ended::Dropped => return,
        }
        self.others.offer(0, draw, row);
    }
}
