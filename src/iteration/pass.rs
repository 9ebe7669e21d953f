//! What the requests of an iteration have in common: whose they are, where they stand in its trace, and by when they
//! must be answered.

use std::cell::Cell;
use std::time::{Duration, Instant};

use uuid::Uuid;

use base::clock::{Nanos, now, saturating_nanos};
use base::ids::mix;
use base::lists::push_frugally;
use base::units::format_ns;
use client::cookies::Jar;
use measure::errors::{FailureClass, FailureEvidence};
use measure::observation::Observation;
use measure::phases::{Phases, Retransmits};
use measure::sample::{ActionSample, CompletionStatus};
use measure::streams::StreamSample;
use osprofiler::derived::DerivedProfiler;
use osprofiler::signing::BaseSigner;
use plan::action::Action;
use plan::condition::Extract;
use text::template::{Variables, text_of};

use super::Context;
use super::compare::{Fault, Verdict};
use super::crowd::Sender;
use super::deadline::Deadline;

/// What all lanes of one iteration share.
pub(super) struct Pass<'a> {
    pub(super) context: &'a Context,
    /// Whose credentials its requests carry.
    pub(super) sender: Sender<'a>,
    pub(super) workload: u16,
    pub(super) number: u64,
    pub(super) signer: Option<BaseSigner>,
    /// False if services should not record it: of the control group, setup and teardown.
    pub(super) sampled: bool,
    pub(super) started: Instant,
    /// When it must be over, and the limit for messages.
    pub(super) deadline: Option<(Instant, Duration)>,
    /// The iteration's cookies; `None` if they are off.
    pub(super) cookies: Option<&'a Jar>,
    /// The number of the last trace point that was begun.
    pub(super) points: Cell<u32>,
    /// How many rounds of loops there were.
    pub(super) rounds: Cell<u32>,
}

/// Where a lane is in the iteration's tree of trace points.
#[derive(Clone)]
pub(super) struct Branch {
    pub(super) profiler: DerivedProfiler,
    /// The number of the innermost open point; 0 outside all points.
    pub(super) point: u32,
    /// The state of its random numbers.
    random: u64,
    /// In how many steps it is.
    pub(super) depth: usize,
}

impl Branch {
    /// Outside all points of an iteration.
    #[inline]
    pub(super) fn of_iteration(context: &Context, workload: u16, number: u64) -> Self {
        let profiler = DerivedProfiler::new(context.ids, workload, number);
        Self { profiler, point: 0, random: context.data_draw(workload, number), depth: 0 }
    }

    /// The iteration's trace.
    #[inline]
    pub(super) fn base_id(&self) -> Uuid {
        self.profiler.base_id()
    }

    /// At the same place, for the step number `number` of those that run at the same time.
    #[inline]
    pub(super) fn beside(&self, number: usize) -> Self {
        Self { random: mix(self.random ^ (number as u64 + 1)), ..self.clone() }
    }

    /// The next random number of this branch. It depends only on the iteration and on the steps before.
    #[inline]
    pub(super) fn random(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.random)
    }

    /// Begins a point. Returns its number and that of the point around it.
    #[inline]
    pub(super) fn begin(&mut self, pass: &Pass<'_>) -> (u32, u32) {
        let (point, parent) = (pass.points.get().saturating_add(1), self.point);
        pass.points.set(point);
        self.profiler.start_numbered(point);
        self.point = point;
        (point, parent)
    }

    /// Ends the innermost point, within the point number `parent`.
    #[inline]
    pub(super) fn end(&mut self, parent: u32) {
        self.profiler.stop();
        self.point = parent;
    }
}

/// What a lane knows of the call that it makes.
#[derive(Default)]
pub(super) struct CallState {
    /// The call, and the groups around it, outermost first, to record them if they are cut off.
    pub(super) under_way: Vec<(ActionSample, Instant)>,
    /// The phases of its last request so far.
    pub(super) phases: Phases,
    pub(super) deadline: Deadline,
    /// What its answer was, if it came as a stream.
    pub(super) streamed: Option<StreamSample>,
    /// The numbers that were taken from its answer, by the numbers of their names; `None` where there was none.
    pub(super) numbers: Vec<(u16, Option<f64>)>,
    /// What was seen in the last answer, if it failed.
    pub(super) seen: Option<Box<FailureEvidence>>,
}

/// How a call went, as its protocol tells it; its phases stand in [`CallState`].
pub(super) struct CallResult {
    pub(super) ended: Instant,
    /// Without what came before the last request.
    pub(super) duration: Duration,
    /// `None` without an answer.
    pub(super) outcome: Option<u16>,
    pub(super) body_bytes: u64,
    pub(super) verdict: Verdict,
}

/// The earlier requests of an action that polls; none for other actions.
#[derive(Default)]
pub(super) struct EarlierAttempts {
    /// When the first was sent.
    pub(super) began: Option<Instant>,
    /// How many were sent.
    pub(super) requests: u32,
    /// The bytes of their answers' bodies.
    pub(super) body_bytes: u64,
    /// Whether one of them was sent once more.
    pub(super) resent: bool,
    /// What TCP repeated for them.
    pub(super) retransmits: Retransmits,
    /// The number of the point around the action.
    pub(super) parent: u32,
}

impl EarlierAttempts {
    /// Notes that a call is under way from `sent` on, in case it is cut off. Gives the number of its attempt, from 1.
    #[inline]
    pub(super) fn sends(
        &self,
        pass: &Pass<'_>,
        branch: &Branch,
        action: &Action,
        sent: Instant,
        state: &mut CallState,
    ) -> u32 {
        let sample = self.sample(pass, action, branch.point, sent);
        push_frugally(&mut state.under_way, (sample, self.began.unwrap_or(sent)));
        state.phases = Phases::default();
        sample.requests
    }

    /// The sample of an action whose next request is sent now.
    #[inline]
    pub(super) fn sample(&self, pass: &Pass<'_>, action: &Action, point: u32, sent: Instant) -> ActionSample {
        ActionSample {
            action: action.index,
            protocol: action.call.protocol(),
            offset_ns: pass.offset_ns(self.began.unwrap_or(sent)),
            ended: CompletionStatus::Failed,
            requests: self.requests.saturating_add(1),
            point,
            parent: self.parent,
            ..ActionSample::default()
        }
    }
}

impl Pass<'_> {
    /// Records what happens, if the iteration is observed.
    #[inline]
    pub(super) fn observe(&self, observation: impl FnOnce() -> Observation) {
        if let Some(observed) = &self.context.observed {
            observed.push(observation());
        }
    }

    /// Records a step that is no request.
    pub(super) fn step(&self, branch: &Branch, text: impl FnOnce() -> String) {
        self.observe(|| Observation::Step { depth: branch.depth, text: text() });
    }

    /// The time from the iteration's start.
    #[inline]
    pub(super) fn offset_ns(&self, at: Instant) -> Nanos {
        saturating_nanos(at.saturating_duration_since(self.started))
    }

    /// The deadline of a request sent now.
    #[inline]
    pub(super) fn limit(&self, action: &Action, sent: Instant) -> Instant {
        let limit = sent + action.timeout;
        self.deadline.map_or(limit, |(deadline, _)| deadline.min(limit))
    }

    /// Which limit expired at `now`: that of the iteration, or the call's own in these words.
    pub(super) fn timed_out(&self, now: Instant, own: impl FnOnce() -> String) -> String {
        match self.deadline {
            Some((deadline, limit)) if deadline <= now => iteration_timeout(limit),
            _ => own(),
        }
    }

    /// Waits until `until`.
    ///
    /// # Errors
    /// The iteration's deadline comes first.
    pub(super) async fn wait(&self, until: Instant) -> Result<(), Fault> {
        match self.deadline {
            Some((deadline, limit)) if deadline < until => {
                tokio::time::sleep_until(deadline.into()).await;
                Err((FailureClass::Timeout, iteration_timeout(limit)))
            }
            _ => {
                tokio::time::sleep_until(until.into()).await;
                Ok(())
            }
        }
    }

    /// # Errors
    /// The iteration's deadline has passed.
    pub(super) fn in_time(&self) -> Result<(), Fault> {
        match self.deadline {
            Some((deadline, limit)) if deadline <= now() => {
                Err((FailureClass::Timeout, iteration_timeout(limit)))
            }
            _ => Ok(()),
        }
    }
}

/// The variables that an action extracts, as they are now.
pub(super) fn extracted(action: &Action, variables: &Variables) -> Vec<(String, String, bool)> {
    let value = |extract: &Extract| {
        let value = variables.get(&extract.variable)?;
        let shown = text_of(&value).map_or_else(|error| error.0, |text| text.into_owned());
        Some((extract.variable.to_string(), shown, extract.secret))
    };
    action.extracts.iter().filter_map(value).collect()
}

fn iteration_timeout(limit: Duration) -> String {
    format!("the iteration took longer than {}", format_ns(saturating_nanos(limit)))
}
