//! Repeats the request of an action until a condition holds. All attempts are one sample and one trace point.

use base::clock::{now, saturating_nanos};
use base::units::format_ns;
use measure::errors::FailureClass;
use measure::sample::{ActionSample, CompletionStatus};
use plan::action::Action;
use plan::action::PollPolicy;
use text::template::{TemplateError, Variables};

use super::compare::Fault;
use super::flow::holds;
use super::lane::{Attempt, Lane};
use super::pass::{Branch, EarlierAttempts, Pass};

/// What an attempt shows.
enum Outcome {
    /// The poll is over.
    Over(Result<(), Fault>),
    /// Not yet, for this reason.
    NotYet(Option<Fault>),
}

impl Lane {
    pub(super) async fn poll(
        &mut self,
        pass: &Pass<'_>,
        branch: &Branch,
        action: &Action,
        variables: &mut Variables,
        mut before: EarlierAttempts,
    ) -> Result<Attempt, Fault> {
        let Some(poll) = &action.poll else {
            return self.attempt(pass, branch, action, variables, &before).await;
        };
        loop {
            let Attempt { sample, verdict } = self.attempt(pass, branch, action, variables, &before).await?;
            let ended = now();
            let began =
                before.began.unwrap_or_else(|| ended - std::time::Duration::from_nanos(sample.duration_ns));
            let next = ended + poll.interval;
            let (why, over) = match outcome(poll, verdict, variables) {
                Outcome::Over(verdict) => (None, Some(verdict)),
                Outcome::NotYet(why) => (why, None),
            };
            if let Some(verdict) = over {
                return Ok(concluded(sample, verdict));
            }
            if next > began + poll.deadline {
                return Ok(concluded(sample, Err(too_late(poll, why))));
            }
            before = EarlierAttempts {
                began: Some(began),
                requests: sample.requests,
                body_bytes: sample.body_bytes,
                resent: sample.phases.resent,
                retransmits: sample.phases.retransmits,
                parent: before.parent,
            };
            self.state.under_way.push((ActionSample { ended: CompletionStatus::Failed, ..sample }, began));
            let waited = self.callers.dialogue.while_waiting(pass.wait(next)).await;
            self.state.under_way.pop();
            if let Err(fault) = waited {
                let duration_ns = saturating_nanos(now() - began);
                return Ok(concluded(ActionSample { duration_ns, ..sample }, Err(fault)));
            }
        }
    }
}

fn concluded(sample: ActionSample, verdict: Result<(), Fault>) -> Attempt {
    let ended = if verdict.is_ok() { CompletionStatus::Ok } else { CompletionStatus::Failed };
    Attempt { sample: ActionSample { ended, ..sample }, verdict }
}

fn outcome(poll: &PollPolicy, verdict: Result<(), Fault>, variables: &Variables) -> Outcome {
    let template = |error: TemplateError| Outcome::Over(Err((FailureClass::Template, error.to_string())));
    if verdict.is_ok()
        && let Some(condition) = &poll.fail_if
    {
        match holds(condition, variables) {
            Ok(true) => {
                return Outcome::Over(Err((
                    FailureClass::Poll,
                    "the condition in `fail_if` holds".to_owned(),
                )));
            }
            Ok(false) => {}
            Err(error) => return template(error),
        }
    }
    match (verdict, &poll.until) {
        (Err(fault), None) if fault.0.is_of_check() => Outcome::NotYet(Some(fault)),
        (Err(fault), _) => Outcome::Over(Err(fault)),
        (Ok(()), None) => Outcome::Over(Ok(())),
        (Ok(()), Some(condition)) => match holds(condition, variables) {
            Ok(true) => Outcome::Over(Ok(())),
            Ok(false) => Outcome::NotYet(None),
            Err(error) => template(error),
        },
    }
}

/// The message has no count of attempts, which would differ from iteration to iteration.
fn too_late(poll: &PollPolicy, why: Option<Fault>) -> Fault {
    let limit = format_ns(saturating_nanos(poll.deadline));
    (
        FailureClass::Poll,
        match why {
            Some((_, why)) => format!("still not so after {limit}: {why}"),
            None => format!("the condition in `until` does not hold after {limit}"),
        },
    )
}
