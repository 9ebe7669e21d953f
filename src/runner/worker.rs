//! A worker: a thread with its own runtime that drives its share of every workload of a group.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::task::{JoinSet, LocalSet};

use measure::recorder::{Batch, FLUSH_EVERY, Recorder};
use terms::runner::Model;

use super::running::{RunningWorkload, WorkloadGroup};
use super::share::WorkerShare;
use super::vitals::{self, WorkerMonitor};
use super::{closed, open};
use measure::generator::WorkerVitals;

/// Sockets and timers are polled after at most this many turns of tasks. A timer that waits for many turns
/// is late.
const TURNS: u32 = 16;

/// How long to wait for a worker whose iterations were cut off. After that, its thread counts as stuck.
pub(super) const ENDS_WITHIN: Duration = Duration::from_secs(30);

/// A worker's thread.
pub(super) struct Thread(JoinHandle<io::Result<WorkerReport>>);

/// The result of a worker, or what became of it instead, as a sentence.
pub(super) type WorkerResult = Result<WorkerReport, String>;

/// The message about a worker that panicked.
pub(super) const PANICKED: &str = "a worker ended because of a bug in bench; please report it";

pub(super) fn did_not_start(error: &io::Error) -> String {
    format!("a worker could not start: {error}")
}

/// The result of a worker.
pub(super) struct WorkerReport {
    /// Virtual users that panicked.
    pub(super) panics: usize,
    pub(super) vitals: WorkerVitals,
}

impl Thread {
    /// Waits for its end.
    pub(super) fn join(self) -> WorkerResult {
        match self.0.join() {
            Ok(ended) => ended.map_err(|error| did_not_start(&error)),
            Err(_) => Err(PANICKED.to_owned()),
        }
    }

    /// The same, unless it is stuck: the process ends without it.
    pub(super) fn join_or_leave(self) -> WorkerResult {
        if self.0.is_finished() {
            return self.join();
        }
        let within = ENDS_WITHIN.as_secs();
        Err(format!(
            "a worker was stuck: it did not end within {within} s after its iterations were cut off, and what it \
             had not reported is lost; this is a bug in bench, please report it"
        ))
    }
}

/// Starts worker `number` of a group.
pub(super) fn start(
    group: &Arc<WorkloadGroup>,
    number: u32,
    sender: &SyncSender<Batch>,
) -> io::Result<Thread> {
    let (group, sender) = (Arc::clone(group), sender.clone());
    let thread = std::thread::Builder::new().name(format!("load-{number}"));
    thread.spawn(move || work(&group, number, &sender)).map(Thread)
}

fn work(group: &Arc<WorkloadGroup>, number: u32, sender: &SyncSender<Batch>) -> io::Result<WorkerReport> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().event_interval(TURNS).build()?;
    let worker = Worker::new(group, number, sender);
    let panics = LocalSet::new().block_on(&runtime, worker.drive());
    // A resolver that hangs must not hold up the end of the run.
    runtime.shutdown_background();
    let vitals = worker.vitals();
    for recorder in &worker.recorders {
        recorder.borrow_mut().flush(true);
    }
    Ok(WorkerReport { panics: panics?, vitals })
}

/// What a worker has of a group's workloads.
pub(super) struct Worker {
    group: Arc<WorkloadGroup>,
    number: u32,
    /// One for each of its workloads.
    pub(super) recorders: Vec<Rc<RefCell<Recorder>>>,
    monitor: Rc<WorkerMonitor>,
}

impl Worker {
    pub(super) fn new(group: &Arc<WorkloadGroup>, number: u32, sender: &SyncSender<Batch>) -> Self {
        let recorder = |running: &Arc<RunningWorkload>| {
            let recorder = Recorder::new(running.workload, number, running.workers, sender.clone());
            Rc::new(RefCell::new(recorder))
        };
        let recorders = workloads(group, number).map(recorder).collect();
        Self { group: Arc::clone(group), number, recorders, monitor: Rc::new(WorkerMonitor::new()) }
    }

    /// Drives its workloads to their end. Returns the number of virtual users that panicked.
    pub(super) async fn drive(&self) -> io::Result<usize> {
        let (number, monitor) = (self.number, &self.monitor);
        let watch = tokio::task::spawn_local(vitals::watch(Rc::clone(monitor)));
        let mut set = JoinSet::new();
        for (running, recorder) in workloads(&self.group, number).zip(&self.recorders) {
            let (group, running) = (Arc::clone(&self.group), Arc::clone(running));
            let share =
                Rc::new(WorkerShare { group, running, worker: number, recorder: Rc::clone(recorder) });
            set.spawn_local(drive(share, Rc::clone(monitor)));
        }
        let ticker = tokio::task::spawn_local(tick(self.recorders.clone()));
        let mut panics = Ok(0);
        while let Some(ended) = set.join_next().await {
            panics = match (panics, ended) {
                (Ok(panics), Ok(Ok(more))) => Ok(panics + more),
                (Ok(panics), Err(_)) => Ok(panics + 1),
                (Ok(_), Ok(Err(error))) => Err(error),
                (error, _) => error,
            };
        }
        ticker.abort();
        watch.abort();
        panics
    }

    /// How it performed, once it has ended.
    pub(super) fn vitals(&self) -> WorkerVitals {
        let workloads = workloads(&self.group, self.number).map(|running| running.workload).collect();
        WorkerVitals { workloads, worker: self.number, ..self.monitor.finish() }
    }
}

/// The workloads of a group that worker `number` takes part in.
fn workloads(group: &WorkloadGroup, number: u32) -> impl Iterator<Item = &Arc<RunningWorkload>> {
    group.workloads.iter().filter(move |running| number < running.workers)
}

/// Drives one workload. Returns the number of virtual users that panicked.
async fn drive(share: Rc<WorkerShare>, monitor: Rc<WorkerMonitor>) -> io::Result<usize> {
    let (load, running) = (Arc::clone(&share.group.load), Arc::clone(&share.running));
    let _leave = LeaveOnDrop { group: Arc::clone(&share.group), running: Arc::clone(&running) };
    let wait_ns = running.started_ns(&share.group).saturating_sub(load.context.clock.now_ns());
    // The clock itself says when an open model's arrivals are due.
    if running.plan(&load).start_after > Duration::ZERO
        && matches!(running.plan(&load).runner.model, Model::Closed(_))
    {
        tokio::select! {
            biased;
            () = tokio::time::sleep(Duration::from_nanos(wait_ns)) => {}
            () = load.stop.stopping() => return Ok(0),
        }
    }
    match &running.plan(&load).runner.model {
        Model::Closed(model) => Ok(closed::drive(share, model).await),
        Model::Open(model) => open::drive(share, model, monitor).await,
    }
}

/// Reports that this worker has ended a workload, also after a panic.
struct LeaveOnDrop {
    group: Arc<WorkloadGroup>,
    running: Arc<RunningWorkload>,
}

impl Drop for LeaveOnDrop {
    fn drop(&mut self) {
        self.running.leave(&self.group);
    }
}

/// Sends batches even while no iteration ends.
async fn tick(recorders: Vec<Rc<RefCell<Recorder>>>) {
    loop {
        tokio::time::sleep(FLUSH_EVERY).await;
        recorders.iter().for_each(|recorder| recorder.borrow_mut().tick());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_that_is_stuck_is_left_and_others_are_waited_for() {
        let (release, stuck) = std::sync::mpsc::channel::<()>();
        let worker = |wait: Option<std::sync::mpsc::Receiver<()>>| {
            Thread(std::thread::spawn(move || {
                let _ = wait.map(|until| until.recv());
                Ok(WorkerReport { panics: 0, vitals: WorkerVitals::default() })
            }))
        };
        let ended = worker(None);
        while !ended.0.is_finished() {
            std::thread::yield_now();
        }
        assert!(ended.join_or_leave().is_ok());
        let said = worker(Some(stuck)).join_or_leave().err().unwrap();
        assert!(said.starts_with("a worker was stuck: it did not end within 30 s"), "{said}");
        drop(release);
    }
}
