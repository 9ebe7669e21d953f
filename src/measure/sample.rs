//! The measurements of an iteration.

use std::collections::BTreeSet;

use crate::numbers::MeasuredNumber;
use crate::phases::Phases;
use crate::protocol::Protocol;
use crate::streams::StreamSample;
use base::clock::Nanos;

/// How an iteration or a request ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum CompletionStatus {
    /// Without fault.
    #[default]
    Ok = 0,
    /// With a fault of the service, the network or a check.
    Failed = 1,
    /// Cut off by the end of the run.
    Aborted = 2,
    /// Never started: it was due, but the harness could neither start nor queue it.
    Dropped = 3,
}

impl CompletionStatus {
    /// True if its duration is a measurement: it ran to its end, successfully or not.
    #[must_use]
    pub fn is_measured(self) -> bool {
        matches!(self, Self::Ok | Self::Failed)
    }

    /// From its number in the log.
    #[must_use]
    pub fn from_u8(number: u8) -> Option<Self> {
        [Self::Ok, Self::Failed, Self::Aborted, Self::Dropped]
            .into_iter()
            .find(|ended| *ended as u8 == number)
    }
}

/// An iteration. All offsets count from the run's anchor on the monotonic clock.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IterationSample {
    /// The workload's index.
    pub workload: u16,
    /// The iteration's number within its workload.
    pub number: u64,
    /// True before the workload's warm-up is over: excluded from all statistics.
    pub warm_up: bool,
    /// When it was due.
    pub due_ns: Nanos,
    /// When it started.
    pub start_ns: Nanos,
    /// From its start to its end.
    pub duration_ns: Nanos,
    /// How it ended.
    pub ended: CompletionStatus,
    /// The number of its fault in the log's table of errors; 0 for none.
    pub error: u32,
    /// Its virtual user's number plus 1, if that decides which rows of data it got; 0 otherwise.
    pub user: u32,
    /// Its requests, in order.
    pub actions: Vec<ActionSample>,
    /// What came back as streams, in no order.
    pub streams: Vec<StreamSample>,
    /// The numbers that were taken from their answers, in no order.
    pub numbers: Vec<MeasuredNumber>,
}

impl IterationSample {
    /// From the time it was due to its end.
    #[must_use]
    pub fn response_ns(&self) -> Nanos {
        self.queue_time_ns() + self.duration_ns
    }

    /// From the time it was due to its start.
    #[must_use]
    pub fn queue_time_ns(&self) -> Nanos {
        self.start_ns.saturating_sub(self.due_ns)
    }

    /// The actions that got an answer, by index.
    #[must_use]
    pub fn answered_actions(&self) -> BTreeSet<u16> {
        let answered = self.actions.iter().filter(|action| action.outcome.is_some());
        answered.map(|action| action.action).collect()
    }
}

/// An action of an iteration: a request, several requests of a poll, or a group of steps, which sends none itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ActionSample {
    /// The action's index within its workload.
    pub action: u16,
    /// Offset from the iteration's start.
    pub offset_ns: Nanos,
    /// From send to the last byte of the answer.
    pub duration_ns: Nanos,
    pub phases: Phases,
    /// The protocol that it speaks.
    pub protocol: Protocol,
    /// The number with which the answer says how it went, such as HTTP's status; `None` without an answer.
    pub outcome: Option<u16>,
    /// The length of the answer's body.
    pub body_bytes: u64,
    /// How it ended.
    pub ended: CompletionStatus,
    /// How many requests it sent; 0 for a group.
    pub requests: u32,
    /// The number of its trace point within the iteration, whose own point has the number 1.
    pub point: u32,
    /// The number of the trace point around it.
    pub parent: u32,
}
