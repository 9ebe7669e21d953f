//! Another shard, as shard 0 hears it: the files that it leaves in the directory in which the shards met.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use measure::errors::FailureClass;
use uuid::Uuid;

use super::chunk::{Chunk, ChunkSupplement};
use super::start::attempt;
use crate::live::Sum;
use crate::live_feed::LiveFeed;
use base::clock::{Nanos, saturating_nanos};
use base::units::format_ns;
use measure::meter::ShardMeasurements;
use measure::rows::Rows;
use text::files::open_regular;

/// If a shard is silent for this long, its part of the load is not known any more.
const SILENT: Duration = Duration::from_secs(60);
/// A larger file is none of ours.
const CHUNK_BYTES_MAX: u64 = 1 << 30;

/// Who wants to know what all shards measure, besides the gate.
#[derive(Clone, Default)]
pub(crate) struct ShardAudience {
    /// Their metrics, if this shard serves them.
    pub(crate) sum: Option<Sum>,
    /// Those who look at the load.
    pub(crate) viewers: Option<Arc<LiveFeed>>,
}

/// Another shard, as shard 0 hears it.
pub(super) struct ShardSource {
    index: u32,
    attempt: Uuid,
    /// The number of the chunk that comes next.
    next: u64,
    heard: Instant,
    /// Whatever ended by then was heard.
    pub(super) complete_to_ns: Nanos,
    /// The classes of its faults.
    classes: HashMap<u32, FailureClass>,
}

impl ShardSource {
    /// Shard `index`, which is ready.
    pub(super) fn new(folder: &Path, index: u32) -> Result<Self, String> {
        let attempt = attempt(folder, index).ok_or_else(|| format!("shard {index} is not there"))?;
        Ok(Self {
            index,
            attempt,
            next: 0,
            heard: Instant::now(),
            complete_to_ns: 0,
            classes: HashMap::new(),
        })
    }

    /// Takes what this shard has told since; moves its times to the clock with this zero.
    pub(super) fn hear(
        &mut self,
        folder: &Path,
        zero_unix_ns: u64,
        audience: &ShardAudience,
        held: &mut Rows,
    ) -> Result<(), String> {
        loop {
            let path = chunk_path(folder, self.index, self.attempt, self.next);
            let Some(mut chunk) = chunk(&path)? else { break };
            // A file that stays takes space, and does no other harm.
            let _ = std::fs::remove_file(&path);
            let later = i128::from(chunk.zero_unix_ns) - i128::from(zero_unix_ns);
            let later_ns = i64::try_from(later).unwrap_or(0);
            chunk.rows.shift(later_ns);
            held.extend(&chunk.rows);
            let ChunkSupplement { failures, now } = &chunk.beside;
            self.classes.extend(failures.iter().map(|one| (one.number, one.failure.class)));
            if let Some(sum) = &audience.sum {
                let in_flight = now.iter().map(|one| one.under_way).collect();
                let unrecorded = now.iter().map(|one| one.unrecorded).collect();
                sum.add(
                    self.index,
                    &ShardMeasurements { rows: &chunk.rows, classes: &self.classes, in_flight, unrecorded },
                );
            }
            if let Some(viewers) = &audience.viewers {
                viewers.add_shard(self.index, &chunk.rows, failures, now);
            }
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

/// The file of what a shard told.
pub(super) fn chunk_path(folder: &Path, index: u32, attempt: Uuid, number: u64) -> PathBuf {
    folder.join(format!("samples-{index}-{}-{number}", attempt.simple()))
}

/// Appends what ended by then to `ready`, and returns the rest.
pub(super) fn split(rows: &Rows, to_ns: Nanos, ready: &mut Rows) -> Rows {
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
    use measure::sample::IterationSample;

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

    fn leave(folder: &Path, source: &ShardSource, number: u64, bytes: &[u8]) {
        std::fs::write(chunk_path(folder, source.index, source.attempt, number), bytes).unwrap();
    }

    #[test]
    fn what_a_shard_tells_is_heard_in_order_on_the_clock_of_the_first() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let attempt = Uuid::from_u128(9);
        let mut source = ShardSource {
            index: 2,
            attempt,
            next: 0,
            heard: Instant::now(),
            complete_to_ns: 0,
            classes: HashMap::new(),
        };
        let of = |starts_ms: &[u64], complete_to_ns| Chunk {
            zero_unix_ns: 5_000 * MS,
            complete_to_ns,
            rows: rows(starts_ms),
            beside: ChunkSupplement::default(),
        };
        let mut held = Rows::default();
        leave(folder, &source, 1, &of(&[40], 60 * MS).encode());
        source.hear(folder, 4_900 * MS, &ShardAudience::default(), &mut held).unwrap();
        assert!(held.is_empty(), "the first one is not there yet");
        leave(folder, &source, 0, &of(&[10, 20], 30 * MS).encode());
        source.hear(folder, 4_900 * MS, &ShardAudience::default(), &mut held).unwrap();
        assert_eq!((starts_ms(&held), source.complete_to_ns), (vec![110, 120, 140], 160 * MS));
        assert_eq!(std::fs::read_dir(folder).unwrap().count(), 0, "what was heard is removed");

        let mut ready = Rows::default();
        let rest = split(&held, 130 * MS, &mut ready);
        assert_eq!((starts_ms(&ready), starts_ms(&rest)), (vec![110, 120], vec![140]));

        leave(folder, &source, 2, b"something else");
        let error = source.hear(folder, 0, &ShardAudience::default(), &mut held).unwrap_err();
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
            let mut source = ShardSource {
                index: 3,
                attempt: Uuid::nil(),
                next: 5,
                heard,
                complete_to_ns,
                classes: HashMap::new(),
            };
            let found = source.hear(folder.path(), 0, &ShardAudience::default(), &mut Rows::default()).err();
            assert_eq!(found.is_some(), says.is_some(), "{found:?}");
            assert!(found.unwrap_or_default().contains(says.unwrap_or_default()));
        }
        assert!(ShardSource::new(folder.path(), 1).err().unwrap().contains("shard 1 is not there"));
    }
}
