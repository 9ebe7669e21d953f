//! Rank 6: when iterations start and stop.
//!
//! One coordinator (the caller's thread) owns the run's state and its log; workers, one thread each
//! with a runtime of its own, send it batches. A worker drives its share of every workload that runs
//! at the time: `closed` by virtual users, `open` by the clock. Beside them, [`generator`] watches
//! whether the harness itself is the bottleneck. Nothing here knows what an iteration does.

pub mod count;
pub mod generator;
pub mod limits;
pub mod stop;

mod closed;
mod machine;
mod one;
mod open;
mod pacer;
mod running;
mod vitals;
mod worker;

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

use crate::iteration::Context;
use crate::measure::log::{Issued, LogWriter};
use crate::measure::recorder::{Batch, Live};
use crate::plan::Plan;
use count::Spread;
use generator::{Generator, WorkerVitals};
use running::{Group, Running};
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
    /// Arrivals that wait for a virtual user.
    pub queued: u64,
    /// Arrivals that were due and never started.
    pub dropped: u64,
    /// All that ended, with those of the warm-up.
    pub ended: u64,
    /// Those of the warm-up among them.
    pub warm_up: u64,
    /// From due to start.
    pub lag: Spread,
}

/// Somebody who watches a load. Called on the coordinator's thread, never by a worker.
pub trait Observer {
    /// A workload begins; several may be under way.
    fn begin(&mut self, plan: &Plan, workload: usize);
    /// A worker has sent what it recorded.
    fn batch(&mut self, _batch: &Batch) {}
    /// Called about ten times a second for each workload that is under way.
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
    /// How many virtual users there may be where the scenario sets no bound.
    pub users_max: u32,
}

/// What was seen beside the samples.
pub struct Seen {
    /// What a reader of the results must know.
    pub notes: Vec<String>,
    /// How the load generator did.
    pub generator: Generator,
    /// One entry for each workload.
    pub issued: Vec<Issued>,
    /// Why the log could not be written; the load was stopped then, and what was written stays.
    pub failed: Option<io::Error>,
}

/// Runs all workloads of the plan, one after another or at the same time, and writes every iteration
/// to the log.
pub fn run(load: &Arc<Load>, log: &mut LogWriter, observer: &mut dyn Observer) -> Seen {
    let machine = machine::Watch::start();
    let all: Vec<usize> = (0..load.plan.workloads.len()).collect();
    let groups: Vec<&[usize]> = if load.plan.parallel { vec![&all] } else { all.chunks(1).collect() };
    let issued =
        load.plan.workloads.iter().map(|workload| Issued::none_of(workload.runner.planned())).collect();
    let mut run = Run { load, log, observer, failed: None, issued, workers: Vec::new() };
    for group in groups {
        if load.stop.is_stopping() {
            break;
        }
        run.group(group);
    }
    let Run { failed, issued, workers, .. } = run;
    let generator = machine.finish(workers, issued.iter().map(|workload| workload.unrecorded).sum());
    Seen { notes: generator.notes(), generator, issued, failed }
}

/// A run under way: what its groups have in common.
struct Run<'a> {
    load: &'a Arc<Load>,
    log: &'a mut LogWriter,
    observer: &'a mut dyn Observer,
    failed: Option<io::Error>,
    issued: Vec<Issued>,
    workers: Vec<WorkerVitals>,
}

impl Run<'_> {
    /// Runs the workloads of a group to their end.
    fn group(&mut self, workloads: &[usize]) {
        let group = Arc::new(Group::new(self.load, workloads));
        for workload in workloads {
            self.observer.begin(&self.load.plan, *workload);
        }
        let (sender, batches) = sync_channel(BATCHES_MAX);
        let threads: Vec<_> =
            (0..group.workers()).map(|number| worker::start(&group, number, &sender)).collect();
        drop(sender);
        let mut totals: Vec<Live> = workloads.iter().map(|_| Live::new()).collect();
        self.collect(&group, &batches, &mut totals);
        // Less load than was asked for is no valid run.
        let short_of_load = |reason: String| self.load.stop.stop(StopReason::Failed(reason));
        for thread in threads {
            match thread.map(worker::Thread::join) {
                Ok(Ok(Ok(ended))) => {
                    if ended.panics > 0 {
                        let panics = ended.panics;
                        short_of_load(format!(
                            "{panics} virtual users ended by a fault of bench itself; please report it"
                        ));
                    }
                    self.workers.push(ended.vitals);
                }
                Err(error) | Ok(Ok(Err(error))) => {
                    short_of_load(format!("a worker could not start: {error}"));
                }
                Ok(Err(_)) => {
                    short_of_load("a worker ended by a fault of bench itself; please report it".to_owned());
                }
            }
        }
        for (running, total) in group.workloads.iter().zip(&totals) {
            self.issued[usize::from(running.workload)] = running.issued(self.load, total);
            if !running.is_told() {
                self.observer.end(&running.progress(&group, total));
            }
        }
    }

    /// Writes what the workers send, until all have gone.
    fn collect(&mut self, group: &Group, batches: &Receiver<Batch>, totals: &mut [Live]) {
        let mut shown = Instant::now();
        loop {
            match batches.recv_timeout(PROGRESS_EVERY) {
                Ok(batch) => {
                    if let Some(at) = group.position(batch.workload) {
                        totals[at].add(&batch.live);
                    }
                    self.observer.batch(&batch);
                    self.take(&batch);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            self.flush();
            if shown.elapsed() >= PROGRESS_EVERY {
                shown = Instant::now();
                for (running, total) in group.workloads.iter().zip(totals.iter()) {
                    self.show(group, running, total);
                }
            }
        }
    }

    fn show(&mut self, group: &Group, running: &Running, total: &Live) {
        if running.is_told() {
            return;
        }
        let progress = running.progress(group, total);
        // The last batch arrives after the last iteration.
        if running.is_over() && running.recorded(total) >= progress.ended {
            running.tell();
            self.observer.end(&progress);
        } else {
            self.observer.progress(&progress);
        }
    }

    fn take(&mut self, batch: &Batch) {
        if self.failed.is_some() {
            self.log.lose(&batch.samples);
        } else if let Err(error) = write(self.log, batch) {
            self.fail(error);
        }
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
        self.load.stop.stop(StopReason::Failed(format!("the run log cannot be written: {error}")));
        self.failed.get_or_insert(error);
    }
}

fn write(log: &mut LogWriter, batch: &Batch) -> io::Result<()> {
    let texts = if batch.failures.is_empty() { Ok(()) } else { log.failures(&batch.failures) };
    // Without its text a failure is still one.
    let samples = log.samples(&batch.samples);
    texts.and(samples)
}
