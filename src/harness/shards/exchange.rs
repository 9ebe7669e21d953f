//! Ends the load of all shards when an `abort_on_fail` threshold has certainly failed for all of them together.
//!
//! Every second, each shard leaves what it has measured in the directory in which the shards met. Shard 0 counts it
//! with its own, exactly as if it had measured it, and says there when the load ends. It counts only the time up to which
//! all shards have told everything, so that one that is late does not look like a lower throughput. Files are written
//! and read on a thread of their own: a directory that hangs holds up nothing.
//!
//! ```text
//! DIR/RUN_ID/samples-2-ATTEMPT-17    the 18th of what shard 2 tells, which shard 0 removes
//! DIR/RUN_ID/stop.json               the threshold that ends the load
//! ```

use std::cell::OnceCell;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::chunk::Chunk;
use super::start::{attempt, read};
use crate::base::clock::{Nanos, RunClock, saturating_nanos};
use crate::base::files::{open_regular, write_at_once};
use crate::base::units::format_ns;
use crate::measure::log::Began;
use crate::measure::recorder::Batch;
use crate::measure::rows::Rows;
use crate::plan::Plan;
use crate::plan::shard::Shard;
use crate::runner::{Observer, Progress};
use crate::verdict::live::LiveGate;

/// How often shards tell what they have measured.
const EVERY: Duration = Duration::from_secs(1);
/// Workers report what has ended within this time.
const REPORTED_WITHIN: Duration = Duration::from_secs(1);
/// Without a word from a shard for so long, its part of the load is not known any more.
const SILENT: Duration = Duration::from_secs(60);
/// How many files of a shard may wait to be read.
const UNREAD_MAX: u64 = 60;
/// How much may wait for the slowest shard.
const HELD_BYTES_MAX: usize = 512 << 20;
/// A larger file is none of ours.
const CHUNK_BYTES_MAX: u64 = 1 << 30;

/// A threshold: the numbers of its workload and its own.
type Numbers = (usize, usize);

/// What shards of a load tell each other, and where.
pub(in crate::harness) struct Link<'a> {
    /// The directory in which they met.
    pub(in crate::harness) folder: PathBuf,
    /// Which one this is.
    pub(in crate::harness) shard: Shard,
    /// The clock of its samples.
    pub(in crate::harness) clock: RunClock,
    /// When its load began; known before its first sample.
    pub(in crate::harness) began: &'a OnceCell<Began>,
}

/// The gate of a load that other shards may make, too.
pub(in crate::harness) struct Exchange<'a> {
    gate: LiveGate<'a>,
    link: Option<Link<'a>>,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// What the load's thread and the one that exchanges have in common.
#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Own samples that were not told yet.
    own: Rows,
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
    pub(in crate::harness) fn new(gate: LiveGate<'a>, link: Option<Link<'a>>) -> Self {
        let gate = if link.is_some() { gate.of_all_shards() } else { gate };
        Self { gate, link, shared: Arc::default(), thread: None }
    }

    /// Tells the others that this load has ended. Returns the threshold that ended it, and notes for the results.
    pub(in crate::harness) fn finish(mut self, plan: &Plan) -> (Option<Numbers>, Vec<String>) {
        self.shared.state().over = true;
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            // It has nothing to say that is not in the state.
            let _ = thread.join();
        }
        let why = self.shared.state().given_up.take();
        let unwatched = why.map(|why| format!("abort_on_fail did not apply to the end: {why}"));
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
            shared: Arc::clone(&self.shared),
        };
        let started = std::thread::Builder::new().name("shards".to_owned()).spawn(move || teller.run());
        match started {
            Ok(thread) => self.thread = Some(thread),
            Err(error) => self.shared.state().given_up = Some(error.to_string()),
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
    fn begin(&mut self, plan: &Plan, workload: usize) {
        self.start();
        self.gate.begin(plan, workload);
    }

    fn batch(&mut self, batch: &Batch) {
        self.gate.batch(batch);
        if self.link.is_none() {
            return;
        }
        let mut state = self.shared.state();
        if state.given_up.is_none() {
            state.own.extend(&batch.samples);
        }
        if state.own.bytes() > HELD_BYTES_MAX {
            state.give_up("the directory of the shards takes too long".to_owned());
        }
    }

    fn progress(&mut self, progress: &Progress<'_>) {
        self.exchange();
        self.gate.progress(progress);
        if self.link.is_some() && self.gate.broken().is_some() {
            self.shared.state().ended_by = self.gate.broken();
            self.shared.changed.notify_all();
        }
    }

    fn end(&mut self, progress: &Progress<'_>) {
        self.gate.end(progress);
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until it is time to tell the others, or this load ends.
    fn wait(&self) -> MutexGuard<'_, State> {
        let goes_on = |state: &mut State| !state.over && state.ended_by.is_none();
        let (state, _) = self
            .changed
            .wait_timeout_while(self.state(), EVERY, goes_on)
            .unwrap_or_else(PoisonError::into_inner);
        state
    }
}

impl State {
    fn give_up(&mut self, why: String) {
        (self.own, self.ready) = (Rows::default(), Rows::default());
        self.given_up.get_or_insert(why);
    }
}

/// Tells the others, or hears them.
struct Teller {
    folder: PathBuf,
    shard: Shard,
    clock: RunClock,
    /// The zero of the samples' times, by the clock that all shards share.
    zero_unix_ns: u64,
    shared: Arc<Shared>,
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
            let (rows, over) = (std::mem::take(&mut state.own), state.over);
            let complete_to_ns = if over { Nanos::MAX } else { self.complete_to_ns() };
            drop(state);
            let chunk = Chunk { zero_unix_ns: self.zero_unix_ns, complete_to_ns, rows };
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

    /// Removes what nobody reads.
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
            .map(|index| Source::new(&self.folder, index))
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
                source.hear(&self.folder, self.zero_unix_ns, &mut held)?;
                to_ns = to_ns.min(source.complete_to_ns);
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

/// Another shard, as shard 0 hears it.
struct Source {
    index: u32,
    attempt: Uuid,
    /// The number of the chunk that comes next.
    next: u64,
    heard: Instant,
    complete_to_ns: Nanos,
}

impl Source {
    fn new(folder: &Path, index: u32) -> Result<Self, String> {
        let attempt = attempt(folder, index).ok_or_else(|| format!("shard {index} is not there"))?;
        Ok(Self { index, attempt, next: 0, heard: Instant::now(), complete_to_ns: 0 })
    }

    /// Takes what this shard has told since; moves its times to the clock with this zero.
    fn hear(&mut self, folder: &Path, zero_unix_ns: u64, held: &mut Rows) -> Result<(), String> {
        loop {
            let path = chunk_path(folder, self.index, self.attempt, self.next);
            let Some(mut chunk) = chunk(&path)? else { break };
            // A file that stays takes space, and does no other harm.
            let _ = std::fs::remove_file(&path);
            let later = i128::from(chunk.zero_unix_ns) - i128::from(zero_unix_ns);
            let later_ns = i64::try_from(later).unwrap_or(0);
            chunk.rows.shift(later_ns);
            held.extend(&chunk.rows);
            // The end of its load is the end, whatever the clocks show.
            let complete_to_ns = chunk.complete_to_ns;
            self.complete_to_ns = match complete_to_ns {
                Nanos::MAX => complete_to_ns,
                _ => complete_to_ns.saturating_add_signed(later_ns),
            };
            self.next += 1;
            self.heard = Instant::now();
        }
        if self.complete_to_ns != Nanos::MAX && self.heard.elapsed() > SILENT {
            let silent = format_ns(saturating_nanos(SILENT));
            return Err(format!("shard {} has said nothing for {silent}", self.index));
        }
        Ok(())
    }
}

/// The chunk in a file; `None` if there is no such file yet.
fn chunk(path: &Path) -> Result<Option<Chunk>, String> {
    let cannot = |error: std::io::Error| format!("{}: {error}", path.display());
    let file = match open_regular(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(cannot(error)),
    };
    let mut bytes = Vec::new();
    std::io::Read::read_to_end(&mut std::io::Read::take(file, CHUNK_BYTES_MAX), &mut bytes)
        .map_err(cannot)?;
    let chunk = Chunk::decode(&bytes);
    chunk.map(Some).ok_or_else(|| format!("{} is no file of a shard of this version", path.display()))
}

fn chunk_path(folder: &Path, index: u32, attempt: Uuid, number: u64) -> PathBuf {
    folder.join(format!("samples-{index}-{}-{number}", attempt.simple()))
}

/// Appends what ended by then to `ready`, and returns the rest.
fn split(rows: &Rows, to_ns: Nanos, ready: &mut Rows) -> Rows {
    let mut rest = Rows::default();
    for row in rows.iter() {
        let end_ns = row.head.start_ns.saturating_add(row.head.duration_ns);
        if end_ns <= to_ns { ready.push_row(row) } else { rest.push_row(row) }
    }
    rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::sample::IterationSample;

    const MS: Nanos = 1_000_000;

    fn rows(starts_ms: &[u64]) -> Rows {
        let mut rows = Rows::default();
        for (number, start_ms) in (0..).zip(starts_ms) {
            let (start_ns, duration_ns) = (start_ms * MS, 10 * MS);
            rows.push(&IterationSample { number, start_ns, duration_ns, ..IterationSample::default() });
        }
        rows
    }

    fn starts_ms(rows: &Rows) -> Vec<u64> {
        rows.iter().map(|row| row.head.start_ns / MS).collect()
    }

    fn leave(folder: &Path, source: &Source, number: u64, bytes: &[u8]) {
        std::fs::write(chunk_path(folder, source.index, source.attempt, number), bytes).unwrap();
    }

    #[test]
    fn what_a_shard_tells_is_heard_in_order_on_the_clock_of_the_first() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let attempt = Uuid::from_u128(9);
        let mut source = Source { index: 2, attempt, next: 0, heard: Instant::now(), complete_to_ns: 0 };
        let of = |starts_ms: &[u64], complete_to_ns| Chunk {
            zero_unix_ns: 5_000 * MS,
            complete_to_ns,
            rows: rows(starts_ms),
        };
        let mut held = Rows::default();
        leave(folder, &source, 1, &of(&[40], 60 * MS).encode());
        source.hear(folder, 4_900 * MS, &mut held).unwrap();
        assert!(held.is_empty(), "the first one is not there yet");
        leave(folder, &source, 0, &of(&[10, 20], 30 * MS).encode());
        source.hear(folder, 4_900 * MS, &mut held).unwrap();
        assert_eq!((starts_ms(&held), source.complete_to_ns), (vec![110, 120, 140], 160 * MS));
        assert_eq!(std::fs::read_dir(folder).unwrap().count(), 0, "what was heard is removed");

        let mut ready = Rows::default();
        let rest = split(&held, 130 * MS, &mut ready);
        assert_eq!((starts_ms(&ready), starts_ms(&rest)), (vec![110, 120], vec![140]));

        leave(folder, &source, 2, b"something else");
        let error = source.hear(folder, 0, &mut held).unwrap_err();
        assert!(error.contains("samples-2-") && error.contains("of this version"), "{error}");
    }

    #[test]
    fn a_shard_that_says_nothing_is_named_unless_its_load_has_ended() {
        let folder = tempfile::tempdir().unwrap();
        let long_ago = Instant::now().checked_sub(SILENT + Duration::from_secs(1)).unwrap();
        for (complete_to_ns, heard, says) in [
            (MS, long_ago, Some("shard 3 has said nothing for")),
            (Nanos::MAX, long_ago, None),
            (MS, Instant::now(), None),
        ] {
            let mut source = Source { index: 3, attempt: Uuid::nil(), next: 5, heard, complete_to_ns };
            let found = source.hear(folder.path(), 0, &mut Rows::default()).err();
            assert_eq!(found.is_some(), says.is_some(), "{found:?}");
            assert!(found.unwrap_or_default().contains(says.unwrap_or_default()));
        }
        assert!(Source::new(folder.path(), 1).err().unwrap().contains("shard 1 is not there"));
    }
}
