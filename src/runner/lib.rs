//! When iterations start and stop.
//!
//! A coordinator (the caller's thread) owns the run's state and its log. Workers send it batches; each
//! is a thread with a separate runtime. A worker drives its share of every workload that is running:
//! `closed` models by virtual users, `open` models by the clock. [`measure::generator`] says whether the
//! harness itself is the bottleneck. Nothing here knows what an iteration does.
//!
//! Each `select!` here is `biased`: tokio would choose at random between branches that are ready, and a simulated load must
//! be the same each time.

pub mod count;
pub mod limits;
pub mod observers;
pub mod stop;

mod beat;
mod cgroup;
mod closed;
mod held;
mod listening;
mod machine;
mod open;
mod pacer;
mod readings;
mod running;
mod share;
#[cfg(feature = "simulation")]
pub mod simulated;
mod vitals;
mod worker;

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

use count::Spread;
use iteration::Context;
use measure::generator::{Generator, WorkerVitals};
use measure::log::{IterationCounts, LogWriter};
use measure::recorder::{Batch, Live};
use observers::{Observer, Observers};
use plan::Plan;
use running::{RunningWorkload, WorkloadGroup};
use stop::{Stop, StopReason};

/// At most this many batches wait for the disk.
const BATCHES_MAX: usize = 64;
const PROGRESS_EVERY: Duration = Duration::from_millis(100);

/// The progress of a workload.
pub struct Progress<'a> {
    /// The workload's index.
    pub workload: usize,
    /// Since the workload's start.
    pub elapsed: Duration,
    /// All iterations of the workload that have ended.
    pub total: &'a Live,
    /// Iterations in progress.
    pub under_way: u64,
    /// Arrivals that wait for a virtual user.
    pub queued: u64,
    /// Arrivals that were due and never started.
    pub dropped: u64,
    /// All iterations that ended, including the warm-up.
    pub ended: u64,
    /// The iterations of the warm-up among them.
    pub warm_up: u64,
    /// The times from due to start.
    pub queue_time: Spread,
}

/// The input of a run's workers.
pub struct LoadInput {
    pub plan: Arc<Plan>,
    /// The state that iterations share.
    pub context: Arc<Context>,
    /// The handle that stops the run.
    pub stop: Stop,
    /// Threads that generate load.
    pub workers: u32,
    /// The most virtual users if the scenario sets no limit.
    pub users_max: u32,
}

/// The outcome of a load, besides its samples.
pub struct LoadReport {
    /// Notes for the results.
    pub notes: Vec<String>,
    /// How the load generator performed.
    pub generator: Generator,
    /// One entry for each workload.
    pub issued: Vec<IterationCounts>,
    /// Why the log could not be written. The load was stopped then; everything written before is kept.
    pub failed: Option<io::Error>,
}

/// Runs all workloads of the plan, one after another or at the same time, and writes every iteration
/// to the log.
pub fn run(load: &Arc<LoadInput>, log: &mut LogWriter, mut observers: Observers<'_>) -> LoadReport {
    let targets = load.plan.deployment.targets.iter().map(|(_, url)| url.origin.clone()).collect();
    let machine = machine::Watch::start(load.context.clock.now_ns(), targets);
    let all: Vec<usize> = (0..load.plan.workloads.len()).collect();
    let groups: Vec<&[usize]> = if load.plan.parallel { vec![&all] } else { all.chunks(1).collect() };
    let issued = load
        .plan
        .workloads
        .iter()
        .map(|workload| IterationCounts::none_of(load.plan.planned(workload)))
        .collect();
    let (notes, workers) = (Vec::new(), Vec::new());
    let mut run = CoordinatorState {
        load,
        log,
        observers: &mut observers,
        failed: None,
        issued,
        notes,
        workers,
        addresses: 0,
    };
    for group in groups {
        if load.stop.is_stopping() {
            break;
        }
        run.group(group);
    }
    let CoordinatorState { failed, issued, mut notes, workers, .. } = run;
    let generator = machine.finish(workers, issued.iter().map(|workload| workload.unrecorded).sum());
    notes.extend(generator.notes());
    notes.extend(load.context.http.addresses().note());
    LoadReport { notes, generator, issued, failed }
}

/// A run in progress: the state that its groups share.
struct CoordinatorState<'a> {
    load: &'a Arc<LoadInput>,
    log: &'a mut LogWriter,
    observers: &'a mut dyn Observer,
    failed: Option<io::Error>,
    issued: Vec<IterationCounts>,
    notes: Vec<String>,
    workers: Vec<WorkerVitals>,
    /// How many addresses of hosts are in the log.
    addresses: usize,
}

impl CoordinatorState<'_> {
    /// Runs the workloads of a group to their end.
    fn group(&mut self, workloads: &[usize]) {
        let group = Arc::new(WorkloadGroup::new(self.load, workloads));
        for workload in workloads {
            self.observers.begin(&self.load.plan, *workload);
        }
        let mut totals: Vec<Live> = workloads.iter().map(|_| Live::new()).collect();
        let all_ended = self.drive(&group, &mut totals);
        // A run with less load than planned is not valid.
        let short_of_load = |reason: String| self.load.stop.stop(StopReason::Failed(reason));
        for ended in all_ended {
            match ended {
                Ok(ended) => {
                    if ended.panics > 0 {
                        let panics = ended.panics;
                        short_of_load(format!(
                            "{panics} virtual users ended because of a bug in bench; please report it"
                        ));
                    }
                    self.workers.push(ended.vitals);
                }
                Err(reason) => short_of_load(reason),
            }
        }
        for (running, total) in group.workloads.iter().zip(&totals) {
            self.issued[usize::from(running.workload)] = running.issued(self.load, total);
            self.notes.extend(running.note(self.load));
            if !running.is_end_reported() {
                self.observers.end(&running.progress(&group, total));
            }
        }
    }

    /// Runs a group's workers and writes what they record. Says how each ended.
    fn drive(&mut self, group: &Arc<WorkloadGroup>, totals: &mut [Live]) -> Vec<worker::WorkerResult> {
        #[cfg(feature = "simulation")]
        if let Some(script) = simulated::script() {
            return self.drive_simulated(group, totals, script);
        }
        let (sender, batches) = sync_channel(BATCHES_MAX);
        let threads: Vec<_> =
            (0..group.workers()).map(|number| worker::start(group, number, &sender)).collect();
        drop(sender);
        let have_ended = self.collect(group, &batches, totals);
        let end = if have_ended { worker::Thread::join } else { worker::Thread::join_or_leave };
        threads
            .into_iter()
            .map(|thread| thread.map_err(|error| worker::did_not_start(&error)).and_then(end))
            .collect()
    }

    /// Writes the workers' batches until all workers have ended. False if one has not, long after it was cut off.
    fn collect(&mut self, group: &WorkloadGroup, batches: &Receiver<Batch>, totals: &mut [Live]) -> bool {
        let mut shown = Instant::now();
        let (mut waited, mut looked) = (Duration::ZERO, Instant::now());
        loop {
            // A process that was stopped meanwhile has not waited.
            let passed = std::mem::replace(&mut looked, Instant::now()).elapsed().min(Duration::from_secs(1));
            if self.load.stop.cut_off_token().is_cancelled() {
                waited += passed;
            }
            if waited > worker::ENDS_WITHIN {
                return false;
            }
            let counts_every = self.observers.counts_every();
            match batches.recv_timeout(counts_every.unwrap_or(PROGRESS_EVERY)) {
                Ok(batch) => self.add(group, &batch, totals),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return true,
            }
            self.flush();
            if counts_every.is_some() {
                for running in group.workloads.iter().filter(|running| !running.is_end_reported()) {
                    let elapsed = Duration::from_nanos(running.elapsed_ns(group));
                    self.observers.begun(usize::from(running.workload), elapsed, running.begun());
                }
            }
            if shown.elapsed() >= PROGRESS_EVERY {
                shown = Instant::now();
                for (running, total) in group.workloads.iter().zip(totals.iter()) {
                    self.show(group, running, total);
                }
            }
        }
    }

    fn add(&mut self, group: &WorkloadGroup, batch: &Batch, totals: &mut [Live]) {
        if let Some(at) = group.position(batch.workload) {
            totals[at].add(&batch.live);
        }
        self.observers.batch(batch);
        self.take(batch);
    }

    fn show(&mut self, group: &WorkloadGroup, running: &RunningWorkload, total: &Live) {
        if running.is_end_reported() {
            return;
        }
        let progress = running.progress(group, total);
        // The last batch arrives after the last iteration.
        if running.is_over() && running.recorded(total) >= progress.ended {
            running.set_end_reported();
            self.observers.end(&progress);
        } else {
            self.observers.progress(&progress);
        }
    }

    fn take(&mut self, batch: &Batch) {
        if self.failed.is_some() {
            self.log.lose(&batch.samples);
        } else if let Err(error) = self.write(batch) {
            self.fail(error);
        }
    }

    fn write(&mut self, batch: &Batch) -> io::Result<()> {
        let addresses = self.load.context.http.addresses().after(self.addresses);
        self.addresses += addresses.len();
        let named = if addresses.is_empty() { Ok(()) } else { self.log.addresses(&addresses) };
        let texts = if batch.failures.is_empty() { Ok(()) } else { self.log.failures(&batch.failures) };
        // Write the samples even if the rest fails: a failure counts without its text.
        let users = self.log.users(&batch.users);
        let samples = self.log.samples(&batch.samples);
        named.and(texts).and(users).and(samples)
    }

    /// Buffered data would be lost if the process died, and the next batch may be far away.
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
