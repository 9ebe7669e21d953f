//! When the iterations of a workload were due, and how long they took from then on.

use std::io;
use std::ops::Range;

use base::clock::Nanos;
use measure::log::{LogError, RunLog, Visitor};
use measure::rows::Rows;
use measure::sample::CompletionStatus;

/// An iteration that started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DueIteration {
    /// Its number within its workload.
    pub number: u64,
    /// When it was due, since the run's start.
    pub due_ns: Nanos,
    /// From then to its end.
    pub response_ns: Nanos,
    /// Whether it succeeded, after the warm-up.
    pub counts: bool,
}

/// The iterations of a workload with these numbers, in the order of their due times.
///
/// # Errors
/// The log cannot be read.
pub fn of(log: &RunLog, workload: usize, numbers: Range<u64>) -> Result<Vec<DueIteration>, LogError> {
    let mut times = DueTimes { workload, numbers, found: Vec::new() };
    log.visit(&mut [&mut times])?;
    times.found.sort_unstable_by_key(|one| (one.due_ns, one.number));
    Ok(times.found)
}

struct DueTimes {
    workload: usize,
    numbers: Range<u64>,
    found: Vec<DueIteration>,
}

impl Visitor for DueTimes {
    fn rows(&mut self, rows: &Rows) -> io::Result<()> {
        let heads = rows.iter().map(|row| row.head);
        let wanted = heads.filter(|head| {
            usize::from(head.workload) == self.workload
                && self.numbers.contains(&head.number)
                && head.has_started()
        });
        self.found.extend(wanted.map(|head| DueIteration {
            number: head.number,
            due_ns: head.due_ns,
            response_ns: head.response_ns(),
            counts: !head.warm_up && head.ended == CompletionStatus::Ok,
        }));
        Ok(())
    }
}
