//! Runs the steps of an iteration in the order that the scenario says.
//!
//! Plain requests and pauses run in one future. Every other step has its own, so that a plan without them needs no
//! memory for them. What a request is, is [`super::lane`]'s.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use base::clock::{now, saturating_nanos};
use base::lists::push_frugally;
use base::masking::masked_with;
use base::units::format_ns;
use measure::errors::{Failure, FailureClass};
use measure::rows::REQUESTS_OF_ITERATION_MAX;
use measure::sample::{ActionSample, CompletionStatus};
use plan::action::Action;
use plan::json::JsonTemplate;
use plan::step::PlanStep;
use plan::step::flow::{FlowStep, LogText, StepGroup};
use text::template::{self, CompiledText, TemplateError, Value, Variables, allowance};

use super::compare::Fault;
use super::lane::Lane;
use super::pass::{Branch, EarlierAttempts, Pass};

/// The most rounds of a `repeat`.
const REPEAT_MAX: u64 = 100_000;
/// The most rounds of all loops of an iteration, so that loops without requests end, too.
const ROUNDS_MAX: u32 = 1_000_000;
/// After this many rounds, other users get a turn.
const ROUNDS_AT_A_TIME: u32 = 16;
/// How many texts of a `log` step are printed.
const LOGGED_MAX: u32 = 10;

/// Why an iteration ends before its last step.
pub(super) enum Ending {
    /// A step failed.
    Failed(Failure),
    /// The scenario stops it, without a fault.
    Stopped,
}

/// How a list of steps went.
type StepResult = Result<(), Ending>;
type StepFuture<'a> = Pin<Box<dyn Future<Output = StepResult> + 'a>>;

impl Lane {
    /// Runs steps one after another.
    ///
    /// # Errors
    /// The iteration ends here.
    pub(super) async fn steps(
        &mut self,
        pass: &Pass<'_>,
        branch: &mut Branch,
        steps: &[PlanStep],
        variables: &mut Variables,
    ) -> StepResult {
        for step in steps {
            match step {
                PlanStep::Think(pause) => {
                    let length = pause.length(branch.random());
                    pass.step(branch, || format!("think {}", format_ns(saturating_nanos(length))));
                    let waited = self.callers.dialogue.while_waiting(pass.wait(now() + length)).await;
                    waited.map_err(|fault| failed(fault, None, variables))?;
                }
                PlanStep::Action(action) => {
                    let ended = self.action(pass, branch, action, variables).await;
                    ended.map_err(|fault| failed(fault, Some(&action.name), variables))?;
                }
                PlanStep::Flow(flow) => self.flow(pass, branch, flow, variables).await?,
            }
        }
        Ok(())
    }

    /// One action within its own trace point.
    async fn action(
        &mut self,
        pass: &Pass<'_>,
        branch: &mut Branch,
        action: &Action,
        variables: &mut Variables,
    ) -> Result<(), Fault> {
        if self.actions.len() >= REQUESTS_OF_ITERATION_MAX {
            return Err((
                FailureClass::Loop,
                format!("more than {REQUESTS_OF_ITERATION_MAX} actions in one iteration"),
            ));
        }
        let (_, parent) = branch.begin(pass);
        let before = EarlierAttempts { parent, ..EarlierAttempts::default() };
        let attempt = match action.poll {
            None => self.attempt(pass, branch, action, variables, &before).await,
            Some(_) => Box::pin(self.poll(pass, branch, action, variables, before)).await,
        };
        branch.end(parent);
        let attempt = attempt?;
        push_frugally(&mut self.actions, attempt.sample);
        attempt.verdict
    }

    fn flow<'a>(
        &'a mut self,
        pass: &'a Pass<'_>,
        branch: &'a mut Branch,
        flow: &'a FlowStep,
        variables: &'a mut Variables,
    ) -> StepFuture<'a> {
        Box::pin(async move {
            pass.step(branch, || words(flow));
            branch.depth += 1;
            let went = self.flow_within(pass, branch, flow, variables).await;
            branch.depth -= 1;
            went
        })
    }

    fn flow_within<'a>(
        &'a mut self,
        pass: &'a Pass<'_>,
        branch: &'a mut Branch,
        flow: &'a FlowStep,
        variables: &'a mut Variables,
    ) -> StepFuture<'a> {
        Box::pin(async move {
            match flow {
                FlowStep::Group(group) => self.group(pass, branch, group, variables).await,
                FlowStep::If { condition, then, otherwise } => {
                    let holds = is_true(condition, variables)?;
                    pass.step(branch, || (if holds { "it holds" } else { "it does not hold" }).to_owned());
                    let steps = if holds { then } else { otherwise };
                    self.steps(pass, branch, steps, variables).await
                }
                FlowStep::Dialogue { steps } => self.over_dialogue(pass, branch, steps, variables).await,
                FlowStep::Repeat { times, variable, steps } => {
                    let times = rounds(times, variables)?;
                    for round in 1..=times {
                        pass.turn(variables).await?;
                        pass.step(branch, || format!("round {round} of {times}"));
                        if let Some(variable) = variable {
                            variables.set(variable, Value::from(round));
                        }
                        self.steps(pass, branch, steps, variables).await?;
                    }
                    Ok(())
                }
                FlowStep::ForEach { items, variable, steps } => {
                    for item in list(items, variables)? {
                        pass.turn(variables).await?;
                        pass.step(branch, || format!("{variable} = {item}"));
                        variables.set(variable, template::from_json(&item));
                        self.steps(pass, branch, steps, variables).await?;
                    }
                    Ok(())
                }
                FlowStep::While { condition, rounds_max, steps } => {
                    let mut round = 0;
                    while is_true(condition, variables)? {
                        if round >= *rounds_max {
                            let message =
                                format!("`while`: its condition still holds after {rounds_max} rounds");
                            return Err(failed((FailureClass::Loop, message), None, variables));
                        }
                        round += 1;
                        pass.turn(variables).await?;
                        self.steps(pass, branch, steps, variables).await?;
                    }
                    Ok(())
                }
                FlowStep::Choice(alternatives) => {
                    let steps = chosen(alternatives, branch.random());
                    self.steps(pass, branch, steps, variables).await
                }
                FlowStep::Include { with, steps } => {
                    set(with, variables)?;
                    self.steps(pass, branch, steps, variables).await
                }
                FlowStep::Pace(pace) => {
                    let until = pass.started + *pace;
                    let waited = self.callers.dialogue.while_waiting(pass.wait(until)).await;
                    waited.map_err(|fault| failed(fault, None, variables))
                }
                FlowStep::Set(values) => set(values, variables),
                FlowStep::Log(log) => pass.log(log, variables),
                FlowStep::Fail(text) => {
                    let message = rendered(text, variables)?;
                    Err(failed((FailureClass::Fail, message), None, variables))
                }
                FlowStep::StopIteration => Err(Ending::Stopped),
            }
        })
    }

    /// Opens a dialogue by the first of these steps, does the others over it, and closes it. There are no others if the
    /// service refused it, as the scenario expects.
    async fn over_dialogue(
        &mut self,
        pass: &Pass<'_>,
        branch: &mut Branch,
        steps: &[PlanStep],
        variables: &mut Variables,
    ) -> StepResult {
        let Some((open, steps)) = steps.split_first() else { return Ok(()) };
        self.steps(pass, branch, std::slice::from_ref(open), variables).await?;
        if !self.callers.dialogue.is_open() {
            return Ok(());
        }
        let ended = self.steps(pass, branch, steps, variables).await;
        if matches!(ended, Err(Ending::Failed(_))) {
            self.callers.dialogue.leave();
            return ended;
        }
        let closed = self.callers.dialogue.hang_up(pass.deadline.map(|(deadline, _)| deadline)).await;
        let PlanStep::Action(open) = open else { return ended };
        closed.map_err(|fault| failed(fault, Some(&open.name), variables)).and(ended)
    }

    /// Steps within a trace point of their own.
    async fn group(
        &mut self,
        pass: &Pass<'_>,
        branch: &mut Branch,
        group: &StepGroup,
        variables: &mut Variables,
    ) -> StepResult {
        let began = now();
        let (point, parent) = branch.begin(pass);
        let sample = ActionSample {
            action: group.index,
            offset_ns: pass.offset_ns(began),
            point,
            parent,
            ..ActionSample::default()
        };
        self.state.under_way.push((sample, began));
        let ended = match &group.together {
            None => self.steps(pass, branch, &group.steps, variables).await,
            Some(sets) => self.together(pass, branch, &group.steps, sets, variables).await,
        };
        self.state.under_way.pop();
        branch.end(parent);
        self.actions.push(ActionSample {
            duration_ns: saturating_nanos(now() - began),
            ended: if matches!(ended, Err(Ending::Failed(_))) {
                CompletionStatus::Failed
            } else {
                CompletionStatus::Ok
            },
            ..sample
        });
        ended
    }

    /// Steps at the same time, each in a lane of its own. All of them run to their ends; then the first failure counts,
    /// in the order of the file.
    async fn together(
        &mut self,
        pass: &Pass<'_>,
        branch: &Branch,
        steps: &[PlanStep],
        sets: &[Vec<Arc<str>>],
        variables: &mut Variables,
    ) -> StepResult {
        while self.beside.len() < steps.len() {
            self.beside.push(Lane::new(pass.context));
        }
        let lanes = self.beside.iter_mut().zip(steps).enumerate();
        let running = lanes.map(|(number, (lane, step))| {
            let (mut branch, mut own) = (branch.beside(number), variables.branch(number as u64));
            async move {
                let ended = lane.steps(pass, &mut branch, std::slice::from_ref(step), &mut own).await;
                (ended, own)
            }
        });
        let running = futures_util::future::join_all(running.collect::<Vec<_>>());
        let ended = self.callers.dialogue.while_waiting(running).await;
        for lane in &mut self.beside {
            self.actions.append(&mut lane.actions);
            self.streams.append(&mut lane.streams);
            self.numbers.append(&mut lane.numbers);
        }
        variables.merge(ended.iter().map(|(_, own)| own).zip(sets));
        let (mut stopped, ended) = (false, ended.into_iter().map(|(ended, _)| ended));
        for ended in ended {
            match ended {
                // A failure counts more than a stop.
                Err(failed @ Ending::Failed(_)) => return Err(failed),
                Err(Ending::Stopped) => stopped = true,
                Ok(()) => {}
            }
        }
        if stopped { Err(Ending::Stopped) } else { Ok(()) }
    }
}

impl Pass<'_> {
    /// Counts a round of a loop, and lets others have a turn now and then: a loop may have no request.
    async fn turn(&self, variables: &Variables) -> StepResult {
        let round = self.rounds.get();
        self.rounds.set(round + 1);
        let fault = if round >= ROUNDS_MAX {
            Err((FailureClass::Loop, format!("more than {ROUNDS_MAX} rounds of loops in one iteration")))
        } else {
            self.in_time()
        };
        fault.map_err(|fault| failed(fault, None, variables))?;
        if round % ROUNDS_AT_A_TIME == ROUNDS_AT_A_TIME - 1 {
            tokio::task::yield_now().await;
        }
        Ok(())
    }

    /// Prints a text of the scenario, if it is among the first.
    fn log(&self, log: &LogText, variables: &Variables) -> StepResult {
        if log.printed.load(Ordering::Relaxed) >= LOGGED_MAX {
            return Ok(());
        }
        let text = rendered(&log.text, variables)?;
        let number = log.printed.fetch_add(1, Ordering::Relaxed);
        if number < LOGGED_MAX {
            let last =
                if number + 1 == LOGGED_MAX { " (further texts of this step are not printed)" } else { "" };
            (self.context.log)(&format!("{}{last}", masked_with(&text, &variables.secrets())));
        }
        Ok(())
    }
}

/// What a step does, for people.
fn words(flow: &FlowStep) -> String {
    let names = |values: &[(Arc<str>, JsonTemplate)]| {
        values.iter().map(|(name, _)| &**name).collect::<Vec<_>>().join(", ")
    };
    match flow {
        FlowStep::Group(group) => match group.together {
            Some(_) => format!("together {}", group.name),
            None => format!("group {}", group.name),
        },
        FlowStep::If { .. } => "if".to_owned(),
        FlowStep::Repeat { .. } => "repeat".to_owned(),
        FlowStep::Dialogue { .. } => "dialogue".to_owned(),
        FlowStep::ForEach { variable, .. } => format!("for each {variable}"),
        FlowStep::While { .. } => "while".to_owned(),
        FlowStep::Choice(_) => "choice".to_owned(),
        FlowStep::Pace(pace) => format!("pace {}", format_ns(saturating_nanos(*pace))),
        FlowStep::Fail(_) => "fail".to_owned(),
        FlowStep::StopIteration => "stop_iteration".to_owned(),
        FlowStep::Set(values) => format!("set {}", names(values)),
        FlowStep::Log(_) => "log".to_owned(),
        FlowStep::Include { .. } => "include".to_owned(),
    }
}

/// The failure of an iteration, without secrets.
pub(super) fn failed((class, message): Fault, action: Option<&Arc<str>>, variables: &Variables) -> Ending {
    Ending::Failed(Failure {
        class,
        action: action.map(Arc::clone),
        message: masked_with(&message, &variables.secrets()).into_owned(),
        seen: None,
    })
}

fn template(error: TemplateError, variables: &Variables) -> Ending {
    failed((FailureClass::Template, error.to_string()), None, variables)
}

/// Whether a condition holds.
pub(super) fn holds(condition: &CompiledText, variables: &Variables) -> Result<bool, TemplateError> {
    allowance::renew();
    Ok(match condition.evaluate(variables)? {
        // What a file or an answer gives as text.
        value if value.as_str().is_some_and(|text| matches!(text, "false" | "False" | "0")) => false,
        value => value.is_true(),
    })
}

fn is_true(condition: &CompiledText, variables: &Variables) -> Result<bool, Ending> {
    holds(condition, variables).map_err(|error| template(error, variables))
}

fn rendered(text: &CompiledText, variables: &Variables) -> Result<String, Ending> {
    allowance::renew();
    let mut output = String::new();
    text.render(variables, &mut output).map_err(|error| template(error, variables))?;
    Ok(output)
}

/// The number of rounds of a `repeat`.
fn rounds(times: &CompiledText, variables: &Variables) -> Result<u64, Ending> {
    let text = rendered(times, variables)?;
    let times = text.trim().parse::<u64>().ok().filter(|times| *times <= REPEAT_MAX);
    times.ok_or_else(|| {
        let message = format!("`repeat` needs a whole number from 0 to {REPEAT_MAX}");
        failed((FailureClass::Loop, message), None, variables)
    })
}

/// The items of a `for_each`.
fn list(items: &JsonTemplate, variables: &Variables) -> Result<Vec<serde_json::Value>, Ending> {
    allowance::renew();
    match items.evaluate(variables).map_err(|error| template(error, variables))? {
        serde_json::Value::Array(items) => Ok(items),
        _ => Err(failed(
            (FailureClass::Loop, "`for_each`: the value is not a list".to_owned()),
            None,
            variables,
        )),
    }
}

fn set(values: &[(Arc<str>, JsonTemplate)], variables: &mut Variables) -> StepResult {
    allowance::renew();
    let evaluated: Result<Vec<_>, _> =
        values.iter().map(|(name, value)| Ok((name, value.evaluate(variables)?))).collect();
    let evaluated = evaluated.map_err(|error| template(error, variables))?;
    for (name, value) in evaluated {
        variables.set(name, template::from_json(&value));
    }
    Ok(())
}

/// One of several lists of steps, by weight.
fn chosen(alternatives: &[(f64, Vec<PlanStep>)], random: u64) -> &[PlanStep] {
    let sum: f64 = alternatives.iter().map(|(weight, _)| weight).sum();
    let mut left = (random >> 11) as f64 / (1_u64 << 53) as f64 * sum;
    for (weight, steps) in alternatives {
        if left < *weight {
            return steps;
        }
        left -= weight;
    }
    // Rounding may leave a little; the last one that can be chosen takes it.
    alternatives.iter().rev().find(|(weight, _)| *weight > 0.0).map_or(&[], |(_, steps)| steps)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alternatives_are_chosen_as_often_as_their_weights_say() {
        let think =
            |ms| vec![PlanStep::Think(plan::step::flow::Pause::Fixed(std::time::Duration::from_millis(ms)))];
        let alternatives = [(70.0, think(1)), (0.0, think(2)), (29.0, think(3)), (1.0, Vec::new())];
        let mut random = fastrand::Rng::with_seed(7);
        let mut counts = [0; 4];
        for _ in 0..100_000 {
            let steps = chosen(&alternatives, random.u64(..));
            let place = alternatives.iter().position(|(_, other)| std::ptr::eq(other.as_slice(), steps));
            counts[place.unwrap()] += 1;
        }
        assert_eq!(counts[1], 0);
        assert!((69_000..71_000).contains(&counts[0]) && (28_000..30_000).contains(&counts[2]), "{counts:?}");
        assert!((800..1_200).contains(&counts[3]), "{counts:?}");
        assert!(!chosen(&alternatives[..3], u64::MAX).is_empty());
    }
}
