//! The closed model: so many virtual users, each starting its next iteration when its last one ends.
//!
//! serial, constant and constant_for_duration. An iteration is due when its user is free, so response
//! time and service time are the same here.

use std::cell::RefCell;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::SyncSender;
use std::task::Poll;
use std::thread::JoinHandle;

use tokio::task::{JoinSet, LocalSet};

use crate::base::clock::Nanos;
use crate::iteration::user::{Assignment, VirtualUser};
use crate::measure::errors::Failure;
use crate::measure::recorder::{Batch, FLUSH_EVERY, Recorder};
use crate::measure::sample::{Ended, IterationSample};

use super::Running;

/// A worker's thread; it gives the number of virtual users that panicked.
type Worker = JoinHandle<io::Result<usize>>;

/// Starts the workers of a workload, its virtual users spread evenly over them.
pub(super) fn start(running: &Arc<Running>, sender: &SyncSender<Batch>) -> Vec<io::Result<Worker>> {
    let users = running.load.plan.workloads[running.workload].runner.concurrency();
    let workers = running.load.workers.clamp(1, users.max(1));
    (0..workers)
        .map(|worker| {
            let (running, sender) = (Arc::clone(running), sender.clone());
            let share = users / workers + u32::from(worker < users % workers);
            std::thread::Builder::new()
                .name(format!("load-{worker}"))
                .spawn(move || work(&running, worker, workers, share, sender))
        })
        .collect()
}

fn work(
    running: &Arc<Running>,
    worker: u32,
    workers: u32,
    users: u32,
    sender: SyncSender<Batch>,
) -> io::Result<usize> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let workload = u16::try_from(running.workload).unwrap_or(u16::MAX);
    let recorder = Rc::new(RefCell::new(Recorder::new(workload, worker, workers, sender)));
    let panics = LocalSet::new().block_on(&runtime, async {
        let ticker = tokio::task::spawn_local(tick(Rc::clone(&recorder)));
        let mut set = JoinSet::new();
        let mut users_of_worker = Vec::new();
        for _ in 0..users {
            let user = Rc::new(RefCell::new(VirtualUser::new(&running.load.context)));
            users_of_worker.push(Rc::clone(&user));
            set.spawn_local(live(Arc::clone(running), Rc::clone(&recorder), user));
        }
        let panics = tokio::select! {
            panics = until_all_end(&mut set) => panics,
            () = running.load.stop.cut_off_token().cancelled() => {
                set.abort_all();
                until_all_end(&mut set).await
            }
        };
        for user in &users_of_worker {
            if let Some(sample) = user.borrow_mut().cut_off() {
                recorder.borrow_mut().record(sample);
            }
        }
        ticker.abort();
        panics
    });
    // A resolver that hangs must not hold up the end of the run.
    runtime.shutdown_background();
    recorder.borrow_mut().flush(true);
    Ok(panics)
}

/// Sends batches even while no iteration ends.
async fn tick(recorder: Rc<RefCell<Recorder>>) {
    loop {
        tokio::time::sleep(FLUSH_EVERY).await;
        recorder.borrow_mut().tick();
    }
}

/// The number of tasks that panicked; those that were cut off did not.
async fn until_all_end(set: &mut JoinSet<()>) -> usize {
    let mut panics = 0;
    while let Some(ended) = set.join_next().await {
        panics += usize::from(ended.is_err_and(|error| error.is_panic()));
    }
    panics
}

/// One virtual user's life. Dropping it cuts the iteration off that is under way.
#[expect(clippy::await_holding_refcell_ref, reason = "others borrow the user only once its task has gone")]
async fn live(running: Arc<Running>, recorder: Rc<RefCell<Recorder>>, user: Rc<RefCell<VirtualUser>>) {
    let load = &running.load;
    let workload = &load.plan.workloads[running.workload];
    let (times, duration) = (workload.runner.times(), workload.runner.duration());
    let mut user = user.borrow_mut();
    loop {
        if load.stop.is_stopping() || duration.is_some_and(|duration| running.started.elapsed() >= duration) {
            return;
        }
        let number = running.next.fetch_add(1, Ordering::Relaxed);
        if times.is_some_and(|times| number >= times) {
            return;
        }
        let assignment = Assignment {
            workload: u16::try_from(running.workload).unwrap_or(u16::MAX),
            name: &running.name,
            number,
            warm_up: false,
            due_ns: load.context.clock.now_ns(),
        };
        let ended = {
            let iteration = pin!(user.iterate(&load.context, &assignment, &workload.steps, &workload.runner));
            caught(iteration).await
        };
        let mut recorder = recorder.borrow_mut();
        if let Ok((sample, failure)) = ended {
            sample.error = failure.map_or(0, |failure| recorder.failure(failure));
            recorder.record(sample);
        } else {
            // The iteration is lost, but neither its place in the results nor the run is.
            *user = VirtualUser::new(&load.context);
            let mut sample = lost(&assignment, load.context.clock.now_ns());
            sample.error = recorder.failure(fault_of_bench());
            recorder.record(&sample);
        }
        running.finished.fetch_add(1, Ordering::Relaxed);
    }
}

/// Ends with `Err` when `iteration` panics; the panic's message is on standard error then.
async fn caught<T>(mut iteration: Pin<&mut impl Future<Output = T>>) -> Result<T, ()> {
    std::future::poll_fn(|cx| {
        // Nothing that the iteration used is looked at after a panic.
        match catch_unwind(AssertUnwindSafe(|| iteration.as_mut().poll(cx))) {
            Ok(poll) => poll.map(Ok),
            Err(_) => Poll::Ready(Err(())),
        }
    })
    .await
}

/// What is kept of an iteration that panicked.
fn lost(assignment: &Assignment<'_>, now_ns: Nanos) -> IterationSample {
    IterationSample {
        workload: assignment.workload,
        number: assignment.number,
        due_ns: assignment.due_ns,
        start_ns: assignment.due_ns,
        duration_ns: now_ns.saturating_sub(assignment.due_ns),
        ended: Ended::Failed,
        ..IterationSample::default()
    }
}

fn fault_of_bench() -> Failure {
    let message = "a fault of bench itself, described on standard error; please report it".to_owned();
    Failure { class: "bench".to_owned(), action: None, message }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_iteration_that_panics_is_caught_at_whatever_step() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let panicking = |steps: u32| async move {
            for step in 0..4 {
                assert_ne!(step, steps, "expected by this test");
                tokio::task::yield_now().await;
            }
            steps
        };
        let ended = (0..6).map(|steps| runtime.block_on(caught(pin!(panicking(steps)))));
        assert_eq!(ended.collect::<Vec<_>>(), [Err(()), Err(()), Err(()), Err(()), Ok(4), Ok(5)]);
    }
}
