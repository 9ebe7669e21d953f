//! One strand of a virtual user's requests, which are sent one after another over its own connections.
//!
//! A user has one lane, and one more for each step that runs beside others in `together`. Nothing here decides which
//! step comes next; see [`super::flow`].

use base::clock::{now, saturating_nanos};
use measure::errors::{FailureClass, FailureEvidence};
use measure::numbers::MeasuredNumber;
use measure::observation::Observation;
use measure::phases::Phases;
use measure::sample::{ActionSample, CompletionStatus};
use measure::streams::StreamSample;
use plan::action::Action;
use text::template::{Variables, allowance};

use super::Context;
use super::call::Callers;
use super::compare::Fault;
use super::pass::{Branch, CallResult, CallState, EarlierAttempts, Pass};

pub(super) struct Lane {
    pub(super) callers: Callers,
    /// The iteration's measurements so far.
    pub(super) actions: Vec<ActionSample>,
    pub(super) streams: Vec<StreamSample>,
    pub(super) numbers: Vec<MeasuredNumber>,
    pub(super) state: CallState,
    /// The lanes of steps that run at the same time.
    pub(super) beside: Vec<Lane>,
}

/// A request that ended: its measurement and the verdict on its answer.
pub(super) struct Attempt {
    pub(super) sample: ActionSample,
    pub(super) verdict: Result<(), Fault>,
}

impl Lane {
    /// A lane without connections.
    pub(super) fn new(context: &Context) -> Self {
        Self {
            callers: Callers::new(context),
            actions: Vec::new(),
            streams: Vec::new(),
            numbers: Vec::new(),
            state: CallState::default(),
            beside: Vec::new(),
        }
    }

    /// Prepares for the next iteration.
    #[inline]
    pub(super) fn begin_iteration(&mut self) {
        self.actions.clear();
        self.streams.clear();
        self.numbers.clear();
        self.state.under_way.clear();
        self.state.seen = None;
        self.beside.iter_mut().for_each(Self::begin_iteration);
    }

    /// Ends the iteration's connections, if each iteration opens its own.
    #[inline]
    pub(super) fn end_iteration(&mut self) {
        self.callers.end_iteration();
        self.beside.iter_mut().for_each(Self::end_iteration);
    }

    /// Ends all connections.
    pub(super) fn leave(&mut self) {
        self.callers.leave();
        self.beside.iter_mut().for_each(Self::leave);
    }

    /// What was seen in the answer that failed.
    pub(super) fn take_seen(&mut self) -> Option<Box<FailureEvidence>> {
        let own = self.state.seen.take();
        own.or_else(|| self.beside.iter_mut().find_map(Self::take_seen))
    }

    /// Ends everything that is under way as cut off.
    pub(super) fn cut_off(&mut self) {
        for lane in &mut self.beside {
            lane.cut_off();
            self.actions.append(&mut lane.actions);
            self.streams.append(&mut lane.streams);
            self.numbers.append(&mut lane.numbers);
        }
        self.callers.dialogue.leave();
        let phases = std::mem::take(&mut self.state.phases);
        while let Some((action, since)) = self.state.under_way.pop() {
            self.actions.push(ActionSample {
                duration_ns: saturating_nanos(now() - since),
                phases: if action.requests > 0 { phases } else { Phases::default() },
                ended: CompletionStatus::Aborted,
                ..action
            });
        }
    }

    /// Makes the call of an action within the point that was just begun, and judges the answer.
    ///
    /// # Errors
    /// A template that fails: nothing was sent.
    pub(super) async fn attempt(
        &mut self,
        pass: &Pass<'_>,
        branch: &Branch,
        action: &Action,
        variables: &mut Variables,
        before: &EarlierAttempts,
    ) -> Result<Attempt, Fault> {
        allowance::renew();
        self.state.numbers.clear();
        let called = self.callers.call(&mut self.state, pass, branch, action, variables, before).await;
        let CallResult { ended, duration, outcome, body_bytes, verdict } = called.map_err(|error| {
            pass.observe(|| Observation::Unsent {
                depth: branch.depth,
                action: action.name.to_string(),
                message: error.to_string(),
            });
            (FailureClass::Template, error.to_string())
        })?;
        let (sample, _) = self
            .state
            .under_way
            .pop()
            .unwrap_or_else(|| (before.sample(pass, action, branch.point, ended), ended));
        if let Some(streamed) = self.state.streamed.take() {
            // Of a poll, the last attempt counts.
            self.streams.retain(|earlier| earlier.point != sample.point);
            self.streams.push(StreamSample { point: sample.point, ..streamed });
        }
        if !self.state.numbers.is_empty() {
            // The same.
            self.numbers.retain(|earlier| earlier.point != sample.point);
            let taken = self.state.numbers.drain(..);
            self.numbers
                .extend(taken.map(|(measure, value)| MeasuredNumber::new(measure, sample.point, value)));
        }
        let duration = before.began.map_or(duration, |began| ended.saturating_duration_since(began));
        let sample = ActionSample {
            duration_ns: saturating_nanos(duration),
            phases: Phases {
                resent: self.state.phases.resent || before.resent,
                retransmits: self.state.phases.retransmits.and(before.retransmits),
                ..self.state.phases
            },
            outcome,
            body_bytes: before.body_bytes.saturating_add(body_bytes),
            ended: if verdict.is_ok() { CompletionStatus::Ok } else { CompletionStatus::Failed },
            ..sample
        };
        Ok(Attempt { sample, verdict })
    }
}
