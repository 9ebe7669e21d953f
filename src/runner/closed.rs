//! The closed model: so many virtual users, each starting its next iteration when its last one ends.
//!
//! serial, constant and constant_for_duration. An iteration is due when its user is free, so response
//! time and service time are the same here.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::SyncSender;
use std::thread::JoinHandle;

use tokio::task::{JoinSet, LocalSet};

use crate::iteration::user::{Assignment, VirtualUser};
use crate::measure::recorder::{Batch, FLUSH_EVERY, Recorder};

use super::Running;

/// A worker's thread; it gives the number of virtual users that panicked.
type Worker = JoinHandle<io::Result<usize>>;

/// Starts the workers of a workload, its virtual users spread evenly over them.
pub(super) fn start(running: &Arc<Running>, sender: &SyncSender<Batch>) -> io::Result<Vec<Worker>> {
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
    let recorder = Rc::new(RefCell::new(Recorder::new(worker, workers, sender)));
    let panics = LocalSet::new().block_on(&runtime, async {
        let ticker = tokio::task::spawn_local(tick(Rc::clone(&recorder)));
        let mut set = JoinSet::new();
        for _ in 0..users {
            set.spawn_local(user(Arc::clone(running), Rc::clone(&recorder)));
        }
        let mut panics = 0;
        while let Some(ended) = set.join_next().await {
            panics += usize::from(ended.is_err());
        }
        ticker.abort();
        panics
    });
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

/// One virtual user's life.
async fn user(running: Arc<Running>, recorder: Rc<RefCell<Recorder>>) {
    let load = &running.load;
    let workload = &load.plan.workloads[running.workload];
    let (times, duration) = (workload.runner.times(), workload.runner.duration());
    let mut user = VirtualUser::new(&load.context);
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
            name: Arc::clone(&running.name),
            number,
            due_ns: load.context.clock.now_ns(),
        };
        let iteration = user.iterate(
            &load.context,
            &assignment,
            &workload.steps,
            &workload.runner,
            load.stop.cut_off_token(),
        );
        let (sample, failure) = iteration.await;
        let mut recorder = recorder.borrow_mut();
        sample.error = failure.map_or(0, |failure| recorder.failure(failure));
        recorder.record(sample);
        running.finished.fetch_add(1, Ordering::Relaxed);
    }
}
