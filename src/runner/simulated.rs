//! Workers and their coordinator as tasks of one thread, whose time passes only while all of them wait.
//!
//! A simulation runs what a load runs but for the threads. It is the same each time: nothing in it depends on the
//! machine, and what happens beside the load stands in a [`Script`].

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{TryRecvError, sync_channel};
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Runtime};
use tokio::task::LocalSet;

use base::clock;
use measure::recorder::Live;

use super::running::WorkloadGroup;
use super::stop::StopReason;
use super::worker::{PANICKED, Worker, WorkerReport, WorkerResult, did_not_start};
use super::{BATCHES_MAX, CoordinatorState};

/// What happens beside the load.
pub struct Script {
    /// For how long the disk holds the coordinator up before it takes the next batches.
    pub held_up: Box<dyn FnMut() -> Duration>,
    /// What happens when, from the start of the first workload, in this order.
    pub events: VecDeque<(Duration, SimulatedEvent)>,
}

/// A script, and when its time began.
pub(super) struct SimulationState {
    script: Script,
    runtime: Runtime,
    began: Option<Instant>,
}

/// What happens to a load.
#[derive(Clone, Debug)]
pub enum SimulatedEvent {
    /// It is stopped, as by a first signal.
    Stop(StopReason),
    /// The iterations under way are cut off, as by a second one.
    CutOff,
    /// The process is killed: the caller's stack is unwound with [`SimulatedKill`].
    Kill,
}

/// The panic of a load that was killed.
#[derive(Debug)]
pub struct SimulatedKill;

thread_local! {
    static SCRIPT: RefCell<Option<SimulationState>> = const { RefCell::new(None) };
    static IS_HERE: Cell<bool> = const { Cell::new(false) };
}

/// Lets the loads of this thread be simulated, from this instant of its clock on.
///
/// # Errors
/// An I/O error while the runtime is built.
pub fn begin(script: Script) -> io::Result<Instant> {
    let runtime = Builder::new_current_thread().enable_all().start_paused(true).build()?;
    let start = runtime.block_on(async { tokio::time::Instant::now() }).into_std();
    clock::simulation::set(Some(Box::new(move || start)));
    SCRIPT.set(Some(SimulationState { script, runtime, began: None }));
    Ok(start)
}

pub fn end() {
    SCRIPT.set(None);
    clock::simulation::set(None);
}

pub(super) fn script() -> Option<SimulationState> {
    SCRIPT.take()
}

/// True within a simulated load.
#[must_use]
pub fn is_here() -> bool {
    IS_HERE.get()
}

/// Ends the simulation of a load, also when it is killed: from now on, no time passes.
struct TimeStands;

impl Drop for TimeStands {
    fn drop(&mut self) {
        let end = clock::now();
        clock::simulation::set(Some(Box::new(move || end)));
        IS_HERE.set(false);
    }
}

impl CoordinatorState<'_> {
    pub(super) fn drive_simulated(
        &mut self,
        group: &Arc<WorkloadGroup>,
        totals: &mut [Live],
        mut running: SimulationState,
    ) -> Vec<WorkerResult> {
        let SimulationState { script, runtime, began } = &mut running;
        let ended = LocalSet::new().block_on(runtime, async {
            clock::simulation::set(Some(Box::new(|| tokio::time::Instant::now().into_std())));
            IS_HERE.set(true);
            let _stands = TimeStands;
            self.coordinate(group, totals, script, *began.get_or_insert_with(clock::now)).await
        });
        // For the next workload.
        SCRIPT.set(Some(running));
        ended
    }

    async fn coordinate(
        &mut self,
        group: &Arc<WorkloadGroup>,
        totals: &mut [Live],
        script: &mut Script,
        began: Instant,
    ) -> Vec<WorkerResult> {
        let Script { held_up, events } = script;
        let mut due = events.clone();
        let (sender, batches) = sync_channel(BATCHES_MAX);
        let workers: Vec<_> = (0..group.workers())
            .map(|number| tokio::task::spawn_local(work(Worker::new(group, number, &sender))))
            .collect();
        drop(sender);
        let stop = self.load.stop.clone();
        let happening = tokio::task::spawn_local(async move {
            while let Some((at, happening)) = due.pop_front() {
                tokio::time::sleep((began + at).saturating_duration_since(clock::now())).await;
                match happening {
                    SimulatedEvent::Stop(reason) => stop.stop(reason),
                    SimulatedEvent::CutOff => stop.cut_off(),
                    SimulatedEvent::Kill => return,
                }
            }
            std::future::pending().await
        });
        loop {
            tokio::time::sleep(held_up().max(Duration::from_millis(1))).await;
            if happening.is_finished() {
                std::panic::resume_unwind(Box::new(SimulatedKill));
            }
            let over = loop {
                match batches.try_recv() {
                    Ok(batch) => self.add(group, &batch, totals),
                    Err(TryRecvError::Empty) => break false,
                    Err(TryRecvError::Disconnected) => break true,
                }
            };
            self.flush();
            for (running, total) in group.workloads.iter().zip(totals.iter()) {
                self.show(group, running, total);
            }
            if over {
                break;
            }
        }
        happening.abort();
        let past = clock::now() - began;
        events.retain(|(at, _)| *at > past);
        let mut all_ended = Vec::new();
        for worker in workers {
            let ended = worker.await.map_err(|_| PANICKED.to_owned());
            all_ended.push(ended.and_then(|ended| ended.map_err(|error| did_not_start(&error))));
        }
        all_ended
    }
}

/// A worker's whole life; it waits for the coordinator at the end, without holding up the thread.
async fn work(worker: Worker) -> io::Result<WorkerReport> {
    let panics = worker.drive().await;
    let vitals = worker.vitals();
    for recorder in &worker.recorders {
        recorder.borrow_mut().flush(false);
        while !recorder.borrow().has_sent_all() {
            tokio::time::sleep(Duration::from_millis(1)).await;
            recorder.borrow_mut().flush(false);
        }
    }
    Ok(WorkerReport { panics: panics?, vitals })
}
