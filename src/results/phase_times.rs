//! The times of a phase of a workload's requests, read from the log once more.

use std::io;

use base::clock::Nanos;
use measure::latency::{Latency, SampleId};
use measure::log::{LogError, RunLog, Visitor};
use measure::phases::Phases;
use measure::rows::Rows;
use measure::sample::CompletionStatus;
use terms::threshold::RequestPhase;

/// How long a phase of a request took; `None` if it had none.
pub(super) fn phase_ns(phases: &Phases, phase: RequestPhase) -> Option<Nanos> {
    match phase {
        RequestPhase::Resolve => phases.opened.then_some(phases.resolve_ns),
        RequestPhase::Connect => phases.opened.then_some(phases.connect_ns),
        RequestPhase::Tls => (phases.tls_ns > 0).then_some(phases.tls_ns),
        RequestPhase::Send => Some(phases.send_ns),
        RequestPhase::Wait => Some(phases.wait_ns),
        RequestPhase::Receive => Some(phases.receive_ns),
    }
}

/// The times of a phase.
pub struct PhaseTimes {
    workload: usize,
    /// The action; absent for all.
    action: Option<usize>,
    phase: RequestPhase,
    /// Of requests that were not cut off.
    pub all: Latency,
    /// Of these, those that failed.
    pub failed: Latency,
    /// How many requests were cut off.
    pub aborted: u64,
}

impl PhaseTimes {
    /// Reads the times of an action's requests, or of all requests of a workload; without the warm-up.
    ///
    /// # Errors
    /// The log cannot be read.
    pub fn read(
        log: &RunLog,
        workload: usize,
        action: Option<usize>,
        phase: RequestPhase,
    ) -> Result<Self, LogError> {
        let (all, failed) = (Latency::new(), Latency::new());
        let mut times = Self { workload, action, phase, all, failed, aborted: 0 };
        log.visit(&mut [&mut times])?;
        Ok(times)
    }
}

impl Visitor for PhaseTimes {
    fn rows(&mut self, rows: &Rows) -> io::Result<()> {
        let of_workload = |workload: u16| usize::from(workload) == self.workload;
        for row in rows.iter().filter(|row| of_workload(row.head.workload) && !row.head.warm_up) {
            let id = SampleId { workload: row.head.workload, number: row.head.number };
            let is_it = |action: u16| self.action.is_none_or(|wanted| usize::from(action) == wanted);
            for request in row.actions.iter().filter(|request| is_it(request.action)) {
                let Some(phase_ns) = phase_ns(&request.phases, self.phase) else { continue };
                match request.ended {
                    CompletionStatus::Ok => self.all.record(phase_ns, id),
                    CompletionStatus::Failed => {
                        self.all.record(phase_ns, id);
                        self.failed.record(phase_ns, id);
                    }
                    CompletionStatus::Aborted | CompletionStatus::Dropped => self.aborted += 1,
                }
            }
        }
        Ok(())
    }
}
