//! The times of a phase of a workload's requests, read from the log once more.

use std::io;

use base::clock::Nanos;
use measure::latency::{Latency, SampleId};
use measure::log::{LogError, RunLog, Visitor};
use measure::protocol::Protocol;
use measure::rows::{Rows, SampleRow};
use measure::sample::{ActionSample, CompletionStatus};
use terms::threshold::RequestPhase;

/// Gives how long a phase of a request took, and how that counts; nothing if it had none, and each gap of a stream.
pub(super) fn each_phase_ns(
    row: &SampleRow<'_>,
    request: &ActionSample,
    phase: RequestPhase,
    given: &mut dyn FnMut(Nanos, CompletionStatus),
) {
    let ended = request.ended;
    if !phase.is_of_streams() {
        return phase_ns(request, phase).into_iter().for_each(|phase_ns| given(phase_ns, ended));
    }
    match (phase, row.stream_of(request)) {
        (RequestPhase::First, Some(stream)) if stream.messages > 0 => given(stream.first_ns, ended),
        // A first message that never came is later than any.
        (RequestPhase::First, Some(_)) if ended.is_measured() => {
            given(request.duration_ns, CompletionStatus::Failed);
        }
        (RequestPhase::Gap, Some(stream)) if stream.gaps.count() > 0 => {
            let gaps = stream.gaps.iter();
            gaps.for_each(|(gap_ns, times)| (0..times).for_each(|_| given(gap_ns, ended)));
        }
        // One that failed before is no good one.
        _ if ended == CompletionStatus::Failed => given(request.duration_ns, ended),
        _ => {}
    }
}

/// The time of a phase, if the request has it. A message of a WebSocket need not be sent, or waited for.
fn phase_ns(request: &ActionSample, phase: RequestPhase) -> Option<Nanos> {
    let phases = &request.phases;
    let is_message = request.protocol == Protocol::WebSocket;
    let if_there = |ns: Nanos| {
        let is_there = !is_message || ns > 0 || request.ended == CompletionStatus::Failed;
        is_there.then_some(ns)
    };
    match phase {
        RequestPhase::First | RequestPhase::Gap => None,
        RequestPhase::Resolve => phases.opened.then_some(phases.resolve_ns),
        RequestPhase::Connect => phases.opened.then_some(phases.connect_ns),
        RequestPhase::Tls => (phases.tls_ns > 0).then_some(phases.tls_ns),
        RequestPhase::Send => if_there(phases.send_ns),
        RequestPhase::Wait => if_there(phases.wait_ns),
        RequestPhase::Receive => (!is_message).then_some(phases.receive_ns),
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
        let own = self.workload;
        let of_workload = |workload: u16| usize::from(workload) == own;
        for row in rows.iter().filter(|row| of_workload(row.head.workload) && !row.head.warm_up) {
            let id = SampleId { workload: row.head.workload, number: row.head.number };
            let Self { action, all, failed, aborted, phase, .. } = &mut *self;
            let is_it = |number: u16| action.is_none_or(|wanted| usize::from(number) == wanted);
            for request in row.actions.iter().filter(|request| is_it(request.action)) {
                each_phase_ns(&row, request, *phase, &mut |phase_ns, ended| match ended {
                    CompletionStatus::Ok => all.record(phase_ns, id),
                    CompletionStatus::Failed => {
                        all.record(phase_ns, id);
                        failed.record(phase_ns, id);
                    }
                    CompletionStatus::Aborted | CompletionStatus::Dropped => *aborted += 1,
                });
            }
        }
        Ok(())
    }
}
