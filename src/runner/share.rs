//! A worker's share of a workload: runs its iterations, catches panics, counts and records. Both models use it.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Instant;

use base::clock::{Nanos, now, saturating_nanos};
use iteration::user::{Assignment, UserPhase, VirtualUser};
use measure::errors::{Failure, FailureClass};
use measure::recorder::Recorder;
use measure::sample::{CompletionStatus, IterationSample};
use plan::step::PlanStep;
use terms::runner::Model;

use super::count::WorkerCounters;
use super::running::{RunningWorkload, WorkloadGroup};

/// A worker's share of a workload.
pub(super) struct WorkerShare {
    pub(super) group: Arc<WorkloadGroup>,
    pub(super) running: Arc<RunningWorkload>,
    pub(super) worker: u32,
    pub(super) recorder: Rc<RefCell<Recorder>>,
}

impl WorkerShare {
    #[inline]
    pub(super) fn counters(&self) -> &WorkerCounters {
        &self.running.counters[self.worker as usize].0
    }

    #[inline]
    pub(super) fn now_ns(&self) -> Nanos {
        self.group.load.context.clock.now_ns()
    }

    /// A virtual user without connections. `slot` is its number among this worker's users.
    pub(super) fn new_user(&self, slot: u64) -> VirtualUser {
        let own = slot * u64::from(self.running.workers) + u64::from(self.worker);
        VirtualUser::new(&self.group.load.context, self.running.number(own))
    }

    /// Runs one iteration, which starts now, and records it.
    pub(super) async fn iterate(
        &self,
        user: &mut VirtualUser,
        number: u64,
        warm_up: bool,
        due_ns: Nanos,
        start: Instant,
    ) {
        let load = &self.group.load;
        let plan = self.running.plan(load);
        let (workload, name) = (self.running.workload, &self.running.name);
        let data = plan.data.as_slice();
        let (mut due_ns, mut start) = (due_ns, start);
        if !plan.user_setup.is_empty() && !user.is_set_up() {
            if let Err(failure) = self.set_up(user, start).await {
                return self.lack_user((number, warm_up), (due_ns, start), &failure);
            }
            start = now();
            // In a closed model, an iteration is due when its user is free.
            if matches!(plan.runner.model, Model::Closed(_)) {
                due_ns = load.context.clock.offset_ns(start);
            }
        }
        let assignment = Assignment { workload, name, data, number, warm_up, due_ns, start };
        self.counters().started.bump();
        // Pinned here and borrowed: passing the future by value would take its space twice in each user.
        let ended = {
            let iteration = pin!(user.iterate(&load.context, &assignment, &plan.steps, &plan.runner));
            caught(iteration).await
        };
        if let Ok((sample, failure)) = ended {
            sample.error = failure.map_or(0, |failure| self.recorder.borrow_mut().failure(failure));
            self.record(sample);
        } else {
            // The iteration is lost, but it keeps its place in the results, and the run goes on.
            *user = VirtualUser::new(&load.context, user.number());
            let mut sample = self.unstarted(number, warm_up, due_ns, CompletionStatus::Failed);
            sample.duration_ns = self.now_ns().saturating_sub(due_ns);
            sample.error = self.recorder.borrow_mut().failure(fault_of_bench());
            self.record(&sample);
        }
    }

    /// Runs the `user_setup` of a user, and records it.
    async fn set_up(&self, user: &mut VirtualUser, start: Instant) -> Result<(), Failure> {
        let plan = self.running.plan(&self.group.load);
        self.run_phase(user, &plan.user_setup, UserPhase::Setup, start).await
    }

    /// Runs the `user_teardown` of a user that was set up, or needs no setup, and records it. It is cut off like an iteration.
    pub(super) async fn tear_down(&self, user: &mut VirtualUser) {
        let plan = self.running.plan(&self.group.load);
        if !plan.user_teardown.is_empty() && (plan.user_setup.is_empty() || user.is_set_up()) {
            let _ = self.run_phase(user, &plan.user_teardown, UserPhase::Teardown, now()).await;
        }
    }

    async fn run_phase(
        &self,
        user: &mut VirtualUser,
        steps: &[PlanStep],
        phase: UserPhase,
        start: Instant,
    ) -> Result<(), Failure> {
        let load = &self.group.load;
        let (workload, name) = (self.running.workload, &self.running.name);
        let data = self.running.plan(load).data.as_slice();
        let due_ns = load.context.clock.offset_ns(start);
        let assignment = Assignment { workload, name, data, number: 0, warm_up: false, due_ns, start };
        let ended = {
            // In a box, so that a user's future does not hold it for the whole load.
            let running = Box::pin(user.run_phase(&load.context, &assignment, steps, phase));
            caught(pin!(running)).await
        };
        let Ok((sample, failure)) = ended else {
            *user = VirtualUser::new(&load.context, user.number());
            return Err(fault_of_bench());
        };
        sample.error =
            failure.as_ref().map_or(0, |failure| self.recorder.borrow_mut().failure(failure.clone()));
        self.recorder.borrow_mut().record_user(sample);
        failure.map_or(Ok(()), Err)
    }

    /// Records an iteration whose user could not be set up. The user tries it again before its next one.
    fn lack_user(
        &self,
        (number, warm_up): (u64, bool),
        (due_ns, start): (Nanos, Instant),
        failure: &Failure,
    ) {
        self.counters().started.bump();
        let what = match &failure.action {
            Some(action) => format!("{action}: {}", failure.message),
            None => failure.message.clone(),
        };
        let message = format!("{} failed: {what}", UserPhase::Setup.key());
        let seen = failure.seen.clone();
        let failure = Failure { class: failure.class, action: None, message, seen };
        let mut sample = self.unstarted(number, warm_up, due_ns, CompletionStatus::Failed);
        sample.start_ns = self.group.load.context.clock.offset_ns(start).max(due_ns);
        sample.duration_ns = saturating_nanos(now() - start);
        sample.error = self.recorder.borrow_mut().failure(failure);
        self.record(&sample);
    }

    /// Records the part of an iteration that ran before its future was dropped.
    pub(super) fn cut_off(&self, user: &mut VirtualUser) {
        if let Some(sample) = user.cut_off() {
            self.record(sample);
        }
    }

    /// The sample of an iteration that did not run.
    pub(super) fn unstarted(
        &self,
        number: u64,
        warm_up: bool,
        due_ns: Nanos,
        ended: CompletionStatus,
    ) -> IterationSample {
        let workload = self.running.workload;
        IterationSample { workload, number, warm_up, due_ns, start_ns: due_ns, ended, ..Default::default() }
    }

    #[inline]
    fn record(&self, sample: &IterationSample) {
        let counters = self.counters();
        counters.ended.bump();
        if sample.warm_up {
            counters.warm_up.bump();
        }
        counters.queue_time.record(sample.queue_time_ns());
        self.recorder.borrow_mut().record(sample);
    }
}

/// Returns `Err` if `iteration` panics; the panic's message is on standard error.
async fn caught<T>(mut iteration: Pin<&mut impl Future<Output = T>>) -> Result<T, ()> {
    std::future::poll_fn(|cx| {
        // The iteration's state is not used after a panic.
        match catch_unwind(AssertUnwindSafe(|| iteration.as_mut().poll(cx))) {
            Ok(poll) => poll.map(Ok),
            Err(_) => Poll::Ready(Err(())),
        }
    })
    .await
}

fn fault_of_bench() -> Failure {
    let message = "a bug in bench, described on standard error; please report it".to_owned();
    Failure { class: FailureClass::Bench, action: None, message, seen: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_of_an_iteration_is_caught_at_every_step() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let panicking = |steps: u32| async move {
            for step in 0..4 {
                // Without the hook's message, which would look like a failure.
                if step == steps {
                    std::panic::resume_unwind(Box::new("expected by this test"));
                }
                tokio::task::yield_now().await;
            }
            steps
        };
        let ended = (0..6).map(|steps| runtime.block_on(caught(pin!(panicking(steps)))));
        assert_eq!(ended.collect::<Vec<_>>(), [Err(()), Err(()), Err(()), Err(()), Ok(4), Ok(5)]);
    }
}
