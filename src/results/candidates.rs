//! The iterations of a run whose traces may be worth fetching, gathered in one pass; [`super::choice`] chooses among them.

use std::collections::HashSet;
use std::io;
use std::ops::Range;

use uuid::Uuid;

use measure::candidates::{Group, groups};
use measure::ids::RunIds;
use measure::log::{RunLog, Visitor};
use measure::rows::{Rows, SampleRow};
use measure::sample::IterationSample;

/// Slow iterations that are compared by the client's own figures where no traces are wanted.
const SLOW_WITHOUT_TRACES: u32 = 200;

/// The iterations of a run that may be chosen, gathered in one pass.
#[derive(Debug)]
pub(super) struct Candidates {
    pub(super) ids: RunIds,
    /// How many slow ones are wanted, and how many others.
    pub(super) wanted: (u32, u32),
    /// The traces that are there already, and the iterations that they are of.
    stored: HashSet<Uuid>,
    pub(super) of_stored: Vec<IterationSample>,
    /// Numbers of the first workload, and the iterations that have them.
    row: Range<u64>,
    pub(super) of_row: Vec<IterationSample>,
    /// One for each workload.
    pub(super) groups: Vec<Group<IterationSample>>,
}

impl Candidates {
    /// For as many traces as the header of a log wants, and for the stored ones.
    #[must_use]
    pub(super) fn new(log: &RunLog, stored: HashSet<Uuid>) -> Self {
        let wanted = log.header.traces_wanted;
        let gathered = if wanted.0 == 0 { (SLOW_WITHOUT_TRACES, 0) } else { wanted };
        let groups = groups(gathered, log.header.workloads.len());
        let row = log.header.in_a_row.0..log.header.in_a_row.1;
        Self { ids: log.ids(), wanted, stored, of_stored: Vec::new(), row, of_row: Vec::new(), groups }
    }

    fn add(&mut self, row: SampleRow<'_>) {
        if row.head.warm_up || self.ids.is_control(row.head) {
            return;
        }
        if let Some(group) = self.groups.get_mut(usize::from(row.head.workload)) {
            group.offer(row.head, self.ids.draw(row.head), || row.to_sample(), &mut drop);
            if !self.stored.is_empty() && self.stored.contains(&self.ids.trace_id(row.head)) {
                self.of_stored.push(row.to_sample());
            }
            if row.head.workload == 0 && self.row.contains(&row.head.number) {
                self.of_row.push(row.to_sample());
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
