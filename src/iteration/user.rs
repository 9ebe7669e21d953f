//! A virtual user: runs one iteration after another on its own connections.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Instant;

use uuid::Uuid;

use base::clock::{Nanos, now, saturating_nanos};
use client::cookies::{CookieMode, Jar};
use config::data::Per;
use measure::errors::{Failure, FailureClass};
use measure::sample::{CompletionStatus, IterationSample};
use plan::data::Feeder;
use plan::probe::PROBE;
use plan::step::PlanStep;
use terms::allocation::Taker;
use terms::runner::Runner;
use text::template::Variables;

use super::Context;
use super::ONCE;
use super::crowd::Sender;
use super::flow::Ending;
use super::lane::Lane;
use super::pass::{Branch, Pass};
use super::user_state::{SharedVariables, UserState};
use measure::observation::Observation;

/// Which iteration to run.
#[derive(Clone, Copy)]
pub struct Assignment<'a> {
    /// The workload's index.
    pub workload: u16,
    /// The workload's name.
    pub name: &'a Arc<str>,
    /// The data that its steps use.
    pub data: &'a [Arc<Feeder>],
    /// The iteration's number within it.
    pub number: u64,
    /// True before the workload's warm-up is over.
    pub warm_up: bool,
    /// When it was due.
    pub due_ns: Nanos,
    /// When it starts: now.
    pub start: Instant,
}

/// What a virtual user does around its iterations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UserPhase {
    /// Before its first iteration: `user_setup`.
    Setup,
    /// After its last one: `user_teardown`.
    Teardown,
}

/// Where the draws of users begin among those of workloads, which are fewer: each workload has two for its users.
const DRAWS_OF_USERS: u16 = 1 << 15;

impl UserPhase {
    /// The key of its steps.
    #[must_use]
    pub fn key(self) -> &'static str {
        match self {
            Self::Setup => "user_setup",
            Self::Teardown => "user_teardown",
        }
    }

    /// The stream of random numbers that its steps draw from.
    fn draws(self, workload: u16) -> u16 {
        DRAWS_OF_USERS | (workload << 1) | u16::from(self == Self::Teardown)
    }
}

pub struct VirtualUser {
    /// Its number within the workload, from 0; the same in every run.
    number: u64,
    lane: Lane,
    cookies: Jar,
    sample: IterationSample,
    /// When the current iteration began.
    began: Option<Instant>,
    /// The variables of the last iteration, for reuse.
    variables: Option<Variables>,
    /// What its `user_setup` gave it; `None` before.
    state: Option<Box<UserState>>,
}

impl VirtualUser {
    /// A virtual user without connections; `number` is its number within the workload.
    #[must_use]
    pub fn new(context: &Context, number: u64) -> Self {
        Self {
            number,
            lane: Lane::new(context),
            cookies: Jar::default(),
            sample: IterationSample::default(),
            began: None,
            variables: None,
            state: None,
        }
    }

    /// True once its `user_setup` has succeeded, until its `user_teardown`.
    #[inline]
    #[must_use]
    pub fn is_set_up(&self) -> bool {
        self.state.is_some()
    }

    /// Its number within the workload, from 0.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Runs one iteration to its end or to the runner's timeout. Dropping the future cuts it off:
    /// see [`Self::cut_off`].
    ///
    /// The caller sets the sample's `error`.
    pub async fn iterate(
        &mut self,
        context: &Context,
        assignment: &Assignment<'_>,
        steps: &[PlanStep],
        runner: &Runner,
    ) -> (&mut IterationSample, Option<Failure>) {
        let started = assignment.start;
        self.begin(assignment, context.clock.offset_ns(started));
        self.began = Some(started);
        let (workload, number) = (assignment.workload, assignment.number);
        let mut branch = Branch::of_iteration(context, workload, number);
        let base_id = branch.base_id();
        let sampled = !context.ids.is_control((workload, number));
        let mut variables = self.variables_of(context, assignment, base_id);
        let cookies = of_next_iteration(&self.cookies, context.http.cookies());
        if let Some(state) = &self.state {
            state.give(&mut variables, &self.cookies);
        }
        let (of, whose) = ((workload, &**assignment.name), (&*context.credentials, &mut variables));
        let pass = Pass {
            context,
            sender: context.crowds.take(context.data_seed, of, number, whose),
            workload,
            number,
            signer: context.signer.as_ref().filter(|_| sampled).map(|signer| signer.for_base(base_id)),
            sampled,
            started,
            deadline: Some((started + runner.timeout, runner.timeout)),
            cookies,
            points: Cell::new(0),
            rounds: Cell::new(0),
        };
        branch.begin(&pass);
        pass.observe(|| Observation::Part {
            name: assignment.name.to_string(),
            trace_id: Some(base_id).filter(|_| context.propagation.traces()),
        });
        let ended = match self.take_rows(context, assignment, &mut variables) {
            Ok(()) => self.lane.steps(&pass, &mut branch, steps, &mut variables).await,
            Err(failure) => Err(Ending::Failed(failure)),
        };
        self.variables = Some(variables);
        self.sample.duration_ns = saturating_nanos(now() - started);
        self.sample.actions = std::mem::take(&mut self.lane.actions);
        self.sample.streams = std::mem::take(&mut self.lane.streams);
        self.sample.numbers = std::mem::take(&mut self.lane.numbers);
        self.began = None;
        self.lane.end_iteration();
        let failure = match ended {
            Err(Ending::Failed(failure)) => Some(Failure { seen: self.lane.take_seen(), ..failure }),
            Ok(()) | Err(Ending::Stopped) => None,
        };
        if failure.is_some() {
            self.sample.ended = CompletionStatus::Failed;
        }
        (&mut self.sample, failure)
    }

    /// Closes its connections, because no further iteration follows. A ramp may start the user again.
    pub fn leave(&mut self) {
        self.lane.leave();
    }

    /// The sample of an iteration whose future was dropped, with the request in progress; `None` between
    /// two iterations.
    pub fn cut_off(&mut self) -> Option<&mut IterationSample> {
        let began = self.began.take()?;
        self.sample.duration_ns = saturating_nanos(now() - began);
        self.sample.ended = CompletionStatus::Aborted;
        self.lane.cut_off();
        self.sample.actions = std::mem::take(&mut self.lane.actions);
        self.sample.streams = std::mem::take(&mut self.lane.streams);
        self.sample.numbers = std::mem::take(&mut self.lane.numbers);
        Some(&mut self.sample)
    }

    /// Runs what the user does before or after its iterations, outside of these and unprofiled. After a setup that succeeded,
    /// its iterations begin with what that has extracted. The workload and the start are the assignment's.
    ///
    /// The caller sets the sample's `error`.
    pub async fn run_phase(
        &mut self,
        context: &Context,
        assignment: &Assignment<'_>,
        steps: &[PlanStep],
        phase: UserPhase,
    ) -> (&mut IterationSample, Option<Failure>) {
        self.begin(assignment, context.clock.offset_ns(assignment.start));
        self.sample.number = self.number.wrapping_mul(2) + u64::from(phase == UserPhase::Teardown);
        let draws = phase.draws(assignment.workload);
        let mut branch = Branch::of_iteration(context, draws, self.number);
        let of = (draws, assignment.name);
        let mut variables = context.variables_over(self.beneath(context), of, self.number, branch.base_id());
        let mode = context.http.cookies();
        let cookies = of_next_iteration(&self.cookies, mode);
        if let Some(state) = &self.state {
            state.give(&mut variables, &self.cookies);
        }
        let pass = Pass {
            context,
            sender: Sender::deployment(&context.credentials),
            workload: draws,
            number: self.number,
            signer: None,
            sampled: false,
            started: assignment.start,
            deadline: None,
            cookies,
            points: Cell::new(0),
            rounds: Cell::new(0),
        };
        branch.begin(&pass);
        pass.observe(|| Observation::Part { name: phase.key().to_owned(), trace_id: None });
        let ended = match self.take_rows(context, assignment, &mut variables) {
            Ok(()) => self.lane.steps(&pass, &mut branch, steps, &mut variables).await,
            Err(failure) => Err(Ending::Failed(failure)),
        };
        self.sample.duration_ns = saturating_nanos(now() - assignment.start);
        self.sample.actions = std::mem::take(&mut self.lane.actions);
        self.sample.streams = std::mem::take(&mut self.lane.streams);
        let failure = match ended {
            Err(Ending::Failed(failure)) => Some(Failure { seen: self.lane.take_seen(), ..failure }),
            Ok(()) | Err(Ending::Stopped) => None,
        };
        let kept = UserState::new(&context.variables, &variables, &self.cookies, mode);
        self.variables = None;
        self.state = (failure.is_none() && phase == UserPhase::Setup).then(|| Box::new(kept));
        if failure.is_some() {
            self.sample.ended = CompletionStatus::Failed;
        }
        (&mut self.sample, failure)
    }

    /// The variables beneath those of an iteration.
    #[inline]
    fn beneath<'a>(&'a self, context: &'a Context) -> &'a SharedVariables {
        self.state.as_ref().map_or(&context.variables, |state| &state.variables)
    }

    /// Runs the steps of setup or teardown once, outside the load and unprofiled. Extracted values are in
    /// `variables` even if a later step fails.
    ///
    /// # Errors
    /// Returns the first failure.
    pub async fn once(
        &mut self,
        context: &Context,
        steps: &[PlanStep],
        name: &Arc<str>,
        variables: &mut Variables,
    ) -> Result<(), Failure> {
        let start = now();
        self.begin(
            &Assignment { workload: ONCE, name, data: &[], number: 0, warm_up: false, due_ns: 0, start },
            0,
        );
        let pass = Pass {
            context,
            sender: Sender::deployment(&context.credentials),
            workload: ONCE,
            number: 0,
            signer: None,
            sampled: false,
            started: start,
            deadline: None,
            cookies: of_next_iteration(&self.cookies, context.http.cookies()),
            points: Cell::new(0),
            rounds: Cell::new(0),
        };
        let mut branch = Branch::of_iteration(context, ONCE, 0);
        branch.begin(&pass);
        if !steps.is_empty() {
            pass.observe(|| Observation::Part { name: name.to_string(), trace_id: None });
        }
        match self.lane.steps(&pass, &mut branch, steps, variables).await {
            Err(Ending::Failed(failure)) => Err(Failure { seen: self.lane.take_seen(), ..failure }),
            Ok(()) | Err(Ending::Stopped) => Ok(()),
        }
    }

    #[inline]
    fn begin(&mut self, assignment: &Assignment<'_>, start_ns: Nanos) {
        // The memory of the last iteration's actions, which an idle user holds once.
        self.lane.actions = std::mem::take(&mut self.sample.actions);
        self.lane.streams = std::mem::take(&mut self.sample.streams);
        self.lane.numbers = std::mem::take(&mut self.sample.numbers);
        self.lane.begin_iteration();
        self.sample = IterationSample {
            workload: assignment.workload,
            number: assignment.number,
            warm_up: assignment.warm_up,
            due_ns: assignment.due_ns.min(start_ns),
            start_ns,
            user: self.number_for_rows(assignment.data),
            ..IterationSample::default()
        };
    }

    /// This user's number plus 1, if any of these data goes by it; 0 otherwise.
    #[inline]
    fn number_for_rows(&self, data: &[Arc<Feeder>]) -> u32 {
        let is_asked = data.iter().any(|data| data.per() == Per::User);
        let number = u32::try_from(self.number.saturating_add(1));
        if is_asked { number.unwrap_or(0) } else { 0 }
    }

    /// Sets the variables of the workload's data.
    #[inline]
    fn take_rows(
        &self,
        context: &Context,
        assignment: &Assignment<'_>,
        variables: &mut Variables,
    ) -> Result<(), Failure> {
        for data in assignment.data {
            let (seed, workload) = (context.data_seed, assignment.workload);
            // The probe takes the first row without using it up.
            let iteration = if workload == PROBE { 0 } else { assignment.number };
            let taker = Taker { seed, workload, iteration, user: self.number };
            let (row, secrets) = data.row(&taker).map_err(|message| Failure {
                class: FailureClass::Data,
                action: None,
                message,
                seen: None,
            })?;
            variables.set(data.name(), row);
            variables.hide(secrets);
        }
        Ok(())
    }

    #[inline]
    fn variables_of(&mut self, context: &Context, assignment: &Assignment<'_>, base_id: Uuid) -> Variables {
        let name = (assignment.workload, assignment.name);
        match self.variables.take() {
            Some(mut variables) => {
                context.renew(&mut variables, name, assignment.number, base_id);
                variables
            }
            None => context.variables_over(self.beneath(context), name, assignment.number, base_id),
        }
    }
}

/// The cookies for the iteration that begins.
#[inline]
fn of_next_iteration(jar: &Jar, mode: CookieMode) -> Option<&Jar> {
    match mode {
        CookieMode::Off => return None,
        CookieMode::Iteration => jar.clear(),
        CookieMode::User => {}
    }
    Some(jar)
}
