//! Rank 6: when iterations start and stop.
//!
//! One coordinator (the caller's thread) owns the run's state and its log; workers, one thread each
//! with a runtime of its own, send it batches. Nothing here knows what an iteration does. Arrival-rate
//! runners will stand beside [`closed`].

pub mod closed;
pub mod stop;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::iteration::Context;
use crate::measure::log::LogWriter;
use crate::measure::recorder::{Batch, Live};
use crate::plan::Plan;
use stop::{Stop, StopReason};

/// Batches that may wait for the disk.
const BATCHES_MAX: usize = 64;
const PROGRESS_EVERY: Duration = Duration::from_millis(100);

/// How a load is doing.
pub struct Progress<'a> {
    /// The workload's index.
    pub workload: usize,
    /// Since the workload's start.
    pub elapsed: Duration,
    /// All iterations of the workload that have ended.
    pub total: &'a Live,
    /// Iterations that are under way.
    pub under_way: u64,
}

/// Somebody who watches a load. Called on the coordinator's thread, never by a worker.
pub trait Observer {
    /// A workload begins.
    fn begin(&mut self, plan: &Plan, workload: usize);
    /// A worker has sent what it recorded.
    fn batch(&mut self, _batch: &Batch) {}
    /// Called about ten times a second.
    fn progress(&mut self, progress: &Progress<'_>);
    /// A workload has ended.
    fn end(&mut self, progress: &Progress<'_>);
}

/// What a worker needs to know.
pub struct Load {
    /// The plan.
    pub plan: Arc<Plan>,
    /// What iterations share.
    pub context: Arc<Context>,
    /// How to stop.
    pub stop: Stop,
    /// Threads that make the load.
    pub workers: u32,
}

/// One workload under way.
struct Running {
    load: Arc<Load>,
    workload: usize,
    name: Arc<str>,
    next: AtomicU64,
    finished: AtomicU64,
    started: Instant,
}

/// Runs all workloads of the plan, one after another, and writes every iteration to the log.
///
/// # Errors
/// The log could not be written: the load is stopped, what was written stays.
pub fn run(load: &Arc<Load>, log: &mut LogWriter, observer: &mut dyn Observer) -> io::Result<Vec<String>> {
    let mut notes = Vec::new();
    for workload in 0..load.plan.workloads.len() {
        if load.stop.is_stopping() {
            break;
        }
        observer.begin(&load.plan, workload);
        run_workload(load, workload, log, observer, &mut notes)?;
    }
    Ok(notes)
}

fn run_workload(
    load: &Arc<Load>,
    workload: usize,
    log: &mut LogWriter,
    observer: &mut dyn Observer,
    notes: &mut Vec<String>,
) -> io::Result<()> {
    let running = Arc::new(Running {
        load: Arc::clone(load),
        workload,
        name: Arc::from(load.plan.workloads[workload].name.as_str()),
        next: AtomicU64::new(0),
        finished: AtomicU64::new(0),
        started: Instant::now(),
    });
    let (sender, batches) = sync_channel(BATCHES_MAX);
    let threads = closed::start(&running, &sender);
    drop(sender);
    let mut coordinator = Coordinator { running: &running, log, total: Live::new(), failed: None };
    coordinator.collect(&batches, observer);
    let Coordinator { failed, total, .. } = coordinator;
    // Less load than was asked for is no valid run.
    let short_of_load = |reason: String| load.stop.stop(StopReason::Failed(reason));
    for thread in threads {
        match thread.map(JoinHandle::join) {
            Ok(Ok(Ok(0))) => {}
            Ok(Ok(Ok(panics))) => {
                short_of_load(format!(
                    "{panics} virtual users ended by a fault of bench itself; please report it"
                ));
            }
            Err(error) | Ok(Ok(Err(error))) => short_of_load(format!("a worker could not start: {error}")),
            Ok(Err(_)) => {
                short_of_load("a worker ended by a fault of bench itself; please report it".to_owned());
            }
        }
    }
    if total.unrecorded > 0 {
        notes
            .push(format!("{} iterations were not recorded because the disk was too slow", total.unrecorded));
    }
    observer.end(&running.progress(&total));
    failed.map_or(Ok(()), Err)
}

impl Running {
    fn progress<'a>(&self, total: &'a Live) -> Progress<'a> {
        let times = self.load.plan.workloads[self.workload].runner.times().unwrap_or(u64::MAX);
        let claimed = self.next.load(Ordering::Relaxed).min(times);
        let under_way = claimed.saturating_sub(self.finished.load(Ordering::Relaxed));
        Progress { workload: self.workload, elapsed: self.started.elapsed(), total, under_way }
    }
}

/// Writes what the workers send, until all have gone.
struct Coordinator<'a> {
    running: &'a Running,
    log: &'a mut LogWriter,
    total: Live,
    failed: Option<io::Error>,
}

impl Coordinator<'_> {
    fn collect(&mut self, batches: &Receiver<Batch>, observer: &mut dyn Observer) {
        let mut shown = Instant::now();
        loop {
            match batches.recv_timeout(PROGRESS_EVERY) {
                Ok(batch) => {
                    observer.batch(&batch);
                    self.take(&batch);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            self.flush();
            if shown.elapsed() >= PROGRESS_EVERY {
                shown = Instant::now();
                observer.progress(&self.running.progress(&self.total));
            }
        }
    }

    fn take(&mut self, batch: &Batch) {
        self.total.add(&batch.live);
        if self.failed.is_some() {
            self.log.lose(&batch.samples);
        } else if let Err(error) = self.write(batch) {
            self.fail(error);
        }
    }

    fn write(&mut self, batch: &Batch) -> io::Result<()> {
        if !batch.failures.is_empty() {
            self.log.failures(&batch.failures)?;
        }
        self.log.samples(&batch.samples)
    }

    /// What waits in this process dies with it, and there may be no batch to follow it soon.
    fn flush(&mut self) {
        if self.failed.is_none()
            && let Err(error) = self.log.flush()
        {
            self.fail(error);
        }
    }

    fn fail(&mut self, error: io::Error) {
        self.running.load.stop.stop(StopReason::Failed(format!("the run log cannot be written: {error}")));
        self.failed.get_or_insert(error);
    }
}
