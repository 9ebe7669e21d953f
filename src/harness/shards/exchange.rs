//! What shards measure, told to shard 0 while the load runs: for thresholds that end the load of all, and for the metrics
//! of all.
//!
//! Every second, each shard leaves what it has measured in the directory in which the shards met. Shard 0 counts it
//! with its own, exactly as if it had measured it, and says there when the load ends. For thresholds it counts only the
//! time up to which all shards have told everything, so that one that is late does not look like a lower throughput.
//! Files are written and read on a thread of their own: a directory that hangs holds up nothing.
//!
//! ```text
//! DIR/RUN_ID/samples-2-ATTEMPT-17    the 18th of what shard 2 tells, which shard 0 removes
//! DIR/RUN_ID/stop.json               the threshold that ends the load
//! ```

use std::cell::OnceCell;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::chunk::{Chunk, ChunkSupplement};
use super::source::{ShardAudience, ShardSource, chunk_path, split};
use super::start::{attempt, read};
use crate::live_gate::LiveGate;
use base::clock::{Nanos, RunClock, saturating_nanos};
use live::figures::ShardLoad;
use measure::errors::{Failure, NumberedFailure};
use measure::log::ShardStart;
use measure::recorder::Batch;
use measure::rows::Rows;
use plan::Plan;
use plan::shard::Shard;
use runner::Progress;
use runner::observers::Observer;
use text::files::write_at_once;

/// How often shards tell what they have measured.
const EVERY: Duration = Duration::from_secs(1);
/// Workers report what has ended within this time.
const REPORTED_WITHIN: Duration = Duration::from_secs(1);
/// How many files of a shard may wait to be read.
const UNREAD_MAX: u64 = 60;
/// How much may wait for the slowest shard.
const HELD_BYTES_MAX: usize = 512 << 20;

/// A threshold: the numbers of its workload and its own.
type Numbers = (usize, usize);

/// What shards of a load tell each other, and where.
pub(crate) struct Link<'a> {
    /// The directory in which they met.
    pub(crate) folder: PathBuf,
    /// Which one this is.
    pub(crate) shard: Shard,
    /// The clock of its samples.
    pub(crate) clock: RunClock,
    /// When its load began; known before its first sample.
    pub(crate) began: &'a OnceCell<ShardStart>,
    /// Whether a threshold may end the load.
    pub(crate) judges: bool,
    /// Who else wants to know what all shards measure, if this one says it.
    pub(crate) audience: ShardAudience,
}

/// The gate of a load that other shards may make, too.
pub(crate) struct Exchange<'a> {
    gate: LiveGate,
    link: Option<Link<'a>>,
    shared: Arc<ExchangeChannel>,
    thread: Option<JoinHandle<()>>,
}

/// What the load's thread and the one that exchanges have in common.
#[derive(Default)]
struct ExchangeChannel {
    state: Mutex<ExchangeState>,
    changed: Condvar,
}

#[derive(Default)]
struct ExchangeState {
    /// Own samples that were not told yet.
    own: Rows,
    /// What they do not say.
    beside: ChunkSupplement,
    /// What all shards have measured up to the same time, to be counted.
    ready: Rows,
    /// The threshold that ends the load.
    ended_by: Option<Numbers>,
    /// The own load has ended.
    over: bool,
    /// Why nothing is exchanged any more.
    given_up: Option<String>,
}

#[derive(Deserialize, Serialize)]
struct StopFile {
    workload: usize,
    threshold: usize,
}

impl<'a> Exchange<'a> {
    /// The gate of a load; with a link, one that counts what all its shards have measured.
    pub(crate) fn new(gate: LiveGate, link: Option<Link<'a>>) -> Self {
        let gate = if link.is_some() { gate.of_all_shards() } else { gate };
        Self { gate, link, shared: Arc::default(), thread: None }
    }

    /// Tells the others that this load has ended. Returns the threshold that ended it, and notes for the results.
    pub(crate) fn finish(mut self, plan: &Plan) -> (Option<Numbers>, Vec<String>) {
        self.shared.state().over = true;
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            // It has nothing to say that is not in the state.
            let _ = thread.join();
        }
        let why = self.shared.state().given_up.take();
        let unwatched = why.map(|why| format!("the shards were not watched together to the end: {why}"));
        (self.gate.broken(), self.gate.note(plan).into_iter().chain(unwatched).collect())
    }

    fn start(&mut self) {
        let Some(link) = self.link.as_ref().filter(|_| self.thread.is_none()) else { return };
        let correction_ns = link.began.get().and_then(|began| began.clock_correction_ns).unwrap_or(0);
        let zero_unix_ns = link.clock.wall_anchor_unix_ns();
        let teller = Teller {
            folder: link.folder.clone(),
            shard: link.shard,
            clock: link.clock,
            zero_unix_ns: zero_unix_ns.checked_add_signed(correction_ns).unwrap_or(zero_unix_ns),
            judges: link.judges,
            audience: link.audience.clone(),
            shared: Arc::clone(&self.shared),
        };
        let started = std::thread::Builder::new().name("shards".to_owned()).spawn(move || teller.run());
        match started {
            Ok(thread) => self.thread = Some(thread),
            Err(error) => self.shared.state().given_up = Some(error.to_string()),
        }
    }

    fn note(&self, progress: &Progress<'_>, under_way: u64) {
        if self.link.is_some() {
            let mut state = self.shared.state();
            let now = of(&mut state.beside.now, progress.workload);
            (now.under_way, now.queued, now.dropped) = (under_way, progress.queued, progress.dropped);
        }
    }

    fn exchange(&mut self) {
        if self.link.is_none() {
            return;
        }
        let mut state = self.shared.state();
        let (ready, ended_by) = (std::mem::take(&mut state.ready), state.ended_by);
        drop(state);
        if let Some(numbers) = ended_by.filter(|_| self.gate.broken().is_none()) {
            return self.gate.end_by(numbers);
        }
        self.gate.count(&ready);
    }
}

impl Observer for Exchange<'_> {
    fn begin(&mut self, _: &Plan, _: usize) {
        self.start();
    }

    fn batch(&mut self, batch: &Batch) {
        self.gate.batch(batch);
        if self.link.is_none() {
            return;
        }
        let mut state = self.shared.state();
        if state.given_up.is_none() {
            state.own.extend(&batch.samples);
            state.beside.add(batch);
        }
        if state.own.bytes() > HELD_BYTES_MAX {
            state.give_up("the directory of the shards takes too long".to_owned());
        }
    }

    fn progress(&mut self, progress: &Progress<'_>) {
        self.note(progress, progress.under_way);
        self.exchange();
        self.gate.progress(progress);
        if self.link.is_some() && self.gate.broken().is_some() {
            self.shared.state().ended_by = self.gate.broken();
            self.shared.changed.notify_all();
        }
    }

    fn end(&mut self, progress: &Progress<'_>) {
        self.note(progress, 0);
    }
}

impl ExchangeChannel {
    fn state(&self) -> MutexGuard<'_, ExchangeState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until it is time to tell the others, or this load ends.
    fn wait(&self) -> MutexGuard<'_, ExchangeState> {
        let goes_on = |state: &mut ExchangeState| !state.over && state.ended_by.is_none();
        let (state, _) = self
            .changed
            .wait_timeout_while(self.state(), EVERY, goes_on)
            .unwrap_or_else(PoisonError::into_inner);
        state
    }
}

impl ExchangeState {
    fn give_up(&mut self, why: String) {
        (self.own, self.ready) = (Rows::default(), Rows::default());
        self.given_up.get_or_insert(why);
    }
}

impl ChunkSupplement {
    fn add(&mut self, batch: &Batch) {
        self.failures.extend(batch.failures.iter().map(|NumberedFailure { number, failure }| {
            let Failure { class, action, message, .. } = failure.clone();
            NumberedFailure { number: *number, failure: Failure { class, action, message, seen: None } }
        }));
        of(&mut self.now, usize::from(batch.workload)).unrecorded += batch.live.unrecorded;
    }

    /// What there is to tell; what is under way stays so.
    fn take(&mut self) -> Self {
        let next = self.now.iter().map(|now| ShardLoad { unrecorded: 0, ..*now }).collect();
        std::mem::replace(self, Self { now: next, failures: Vec::new() })
    }
}

/// How a workload stands.
fn of(loads: &mut Vec<ShardLoad>, workload: usize) -> &mut ShardLoad {
    if loads.len() <= workload {
        loads.resize(workload + 1, ShardLoad::default());
    }
    &mut loads[workload]
}

/// Tells the others, or hears them.
struct Teller {
    folder: PathBuf,
    shard: Shard,
    clock: RunClock,
    /// The zero of the samples' times, by the clock that all shards share.
    zero_unix_ns: u64,
    judges: bool,
    audience: ShardAudience,
    shared: Arc<ExchangeChannel>,
}

impl Teller {
    fn run(self) {
        let done = if self.shard.index() == 0 { self.hear() } else { self.tell() };
        if let Err(why) = done {
            self.shared.state().give_up(why);
        }
    }

    /// Leaves what this shard measures, and sees whether the load has ended.
    fn tell(&self) -> Result<(), String> {
        let index = self.shard.index();
        let attempt = attempt(&self.folder, index).ok_or("another process is this shard, too")?;
        let stop = self.folder.join(STOP);
        for number in 0_u64.. {
            let mut state = self.shared.wait();
            let (rows, beside, over) = (std::mem::take(&mut state.own), state.beside.take(), state.over);
            let complete_to_ns = if over { Nanos::MAX } else { self.complete_to_ns() };
            drop(state);
            let chunk = Chunk { zero_unix_ns: self.zero_unix_ns, complete_to_ns, rows, beside };
            let path = chunk_path(&self.folder, index, attempt, number);
            write_at_once(&path, |output| output.write_all(&chunk.encode()))
                .map_err(|error| format!("{}: {error}", path.display()))?;
            if over {
                return Ok(());
            }
            if let Some(StopFile { workload, threshold }) = read(&stop) {
                self.shared.state().ended_by = Some((workload, threshold));
                return Ok(());
            }
            let early = number.checked_sub(UNREAD_MAX);
            if early.is_some_and(|early| chunk_path(&self.folder, index, attempt, early).exists()) {
                self.forget(attempt, number);
                return Err("shard 0 does not count any more".to_owned());
            }
        }
        Ok(())
    }

    /// Removes the files that shard 0 does not read.
    fn forget(&self, attempt: Uuid, last: u64) {
        for number in last.saturating_sub(UNREAD_MAX)..=last {
            let _ = std::fs::remove_file(chunk_path(&self.folder, self.shard.index(), attempt, number));
        }
    }

    /// Counts what all shards measure, and says when the load has ended.
    fn hear(&self) -> Result<(), String> {
        let stop = self.folder.join(STOP);
        // An earlier load with the same name may have been ended.
        let _ = std::fs::remove_file(&stop);
        let mut sources = (1..self.shard.count())
            .map(|index| ShardSource::new(&self.folder, index))
            .collect::<Result<Vec<_>, String>>()?;
        let mut held = Rows::default();
        loop {
            let mut state = self.shared.wait();
            let (own, over, ended_by) = (std::mem::take(&mut state.own), state.over, state.ended_by);
            let mut to_ns = self.complete_to_ns();
            drop(state);
            if let Some((workload, threshold)) = ended_by {
                let file = StopFile { workload, threshold };
                return write_at_once(&stop, |output| Ok(serde_json::to_writer(output, &file)?))
                    .map_err(|error| format!("the others were not told: {}: {error}", stop.display()));
            }
            if over {
                return Ok(());
            }
            held.extend(&own);
            for source in &mut sources {
                source.hear(&self.folder, self.zero_unix_ns, &self.audience, &mut held)?;
                to_ns = to_ns.min(source.complete_to_ns);
            }
            if !self.judges {
                held.clear();
                continue;
            }
            let mut state = self.shared.state();
            held = split(&held, to_ns, &mut state.ready);
            if held.bytes() > HELD_BYTES_MAX {
                return Err("a shard is too far behind".to_owned());
            }
        }
    }

    /// All own samples that ended by then have been reported.
    fn complete_to_ns(&self) -> Nanos {
        self.clock.now_ns().saturating_sub(saturating_nanos(REPORTED_WITHIN))
    }
}

const STOP: &str = "stop.json";
