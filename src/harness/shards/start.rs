//! When a shard's load begins: at once, at a time, or together with all others.
//!
//! Shards that share a directory meet there. Each leaves a file that says that it is ready; the first shard that sees
//! all of them writes when the load begins. The directory's own clock, which stamps these files, is the one that all
//! shards share, so machines whose clocks differ begin together all the same.
//!
//! ```text
//! DIR/RUN_ID/ready-2.json    shard 2 is ready: who it is
//! DIR/RUN_ID/left-2.json     shard 2 has waited long enough for the others
//! DIR/RUN_ID/start.json      when the load begins, by the clock that all share
//! ```

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::error::HarnessError;
use crate::host;
use base::clock::{RunClock, saturating_nanos};
use base::units::format_ns;
use measure::log::ShardStart;
use plan::shard::Shard;
use text::files::{make_directory, open_regular, write_at_once};
use text::times::rfc3339;

/// How often to look whether all are ready.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// From when all are ready to the beginning: all must have read the time by then, even from a slow directory.
const LEAD: Duration = Duration::from_secs(2);
/// Clocks that differ by less count as equal: a file system's stamps are no better than that.
const CLOCKS_EQUAL: Duration = Duration::from_millis(100);
/// The kinds of files: of a shard that is ready, and of one that has waited long enough.
const READY: &str = "ready";
const LEFT: &str = "left";
/// A file larger than this is none of ours.
const FILE_BYTES_MAX: u64 = 64 << 10;

/// What decides when a shard's load begins.
#[derive(Clone, Debug)]
pub(crate) enum Start {
    /// Nothing: at once.
    Now,
    /// The wall clock, in nanoseconds since 1970.
    At(u64),
    /// All shards, in a directory of this run.
    Together {
        /// The directory.
        folder: PathBuf,
        /// For how long to wait for the others.
        longest: Duration,
    },
}

/// A shard that is ready.
#[derive(Debug, Deserialize, PartialEq, Serialize)]
struct ShardPresence {
    /// Tells this process from another one with the same index.
    id: Uuid,
    /// The machine.
    host: String,
    /// The process.
    pid: u32,
}

/// When the load begins.
#[derive(Debug, Deserialize, Serialize)]
struct StartSignal {
    /// By the clock that all shards share.
    unix_ns: u64,
}

impl Start {
    /// What is waited for; `None` if nothing is.
    pub(crate) fn words(&self) -> Option<String> {
        match self {
            Self::Now => None,
            Self::At(unix_ns) => Some(format!("the load begins at {}", rfc3339(*unix_ns))),
            Self::Together { folder, .. } => {
                Some(format!("ready; the load begins when all shards are, in {}", folder.display()))
            }
        }
    }

    /// Waits for the beginning. The log can be read by what comes back.
    ///
    /// # Errors
    /// Others have not come, another process has the same index, or the directory cannot be used.
    pub(crate) async fn wait(&self, shard: Shard, clock: &RunClock) -> Result<ShardStart, HarnessError> {
        let (due_unix_ns, clock_correction_ns) = match self {
            Self::Now => return Ok(ShardStart { began_ns: clock.now_ns(), ..ShardStart::default() }),
            Self::At(unix_ns) => (*unix_ns, None),
            Self::Together { folder, longest } => {
                let (unix_ns, correction_ns) = meet(folder, shard, *longest).await?;
                (own_time(unix_ns, correction_ns), Some(correction_ns))
            }
        };
        let now_unix_ns = unix_now_ns();
        let due_ns = clock.now_ns().saturating_add(due_unix_ns.saturating_sub(now_unix_ns));
        tokio::time::sleep_until(clock.instant_at(due_ns).into()).await;
        // It may have been due before the clock of the log began.
        let began_ns = clock.now_ns();
        let late_ns = now_unix_ns.saturating_sub(due_unix_ns).saturating_add(began_ns.saturating_sub(due_ns));
        Ok(ShardStart { began_ns, late_ns: Some(late_ns), clock_correction_ns })
    }
}

/// What a process's own clock shows at this time of the clock that all share.
fn own_time(shared_unix_ns: u64, correction_ns: i64) -> u64 {
    shared_unix_ns.checked_add_signed(-correction_ns).unwrap_or(shared_unix_ns)
}

/// Waits until all shards are ready; returns when the load begins by the clock that all share, and what must be added to
/// this process's clock to get that one.
async fn meet(folder: &Path, shard: Shard, longest: Duration) -> Result<(u64, i64), HarnessError> {
    let cannot = |path: &Path, error: &io::Error| {
        HarnessError::failed(format!("the shards cannot meet: {}: {error}", path.display()))
            .remedy("name a directory with --together that all shards can write to")
    };
    let own = folder.join(name(READY, shard.index()));
    let ready = ShardPresence { id: Uuid::new_v4(), host: host::name(), pid: std::process::id() };
    // All shards have the same one: the first one to come makes it.
    make_directory(folder).map_err(|error| cannot(folder, &error))?;
    let correction_ns = announce(&own, &ready).map_err(|error| cannot(&own, &error))?;
    is_ours(folder, &own).map_err(|error| cannot(folder, &error))?;
    let (start, deadline) = (folder.join("start.json"), tokio::time::Instant::now() + longest);
    loop {
        let all_are_ready = without(folder, shard.count(), &[READY]).map(|missing| missing.is_empty());
        // Whatever a file says, no load begins before all shards are there.
        if let (true, Some(StartSignal { unix_ns })) =
            (all_are_ready.map_err(|error| cannot(folder, &error))?, read(&start))
        {
            let now_ns = unix_now_ns().saturating_add_signed(correction_ns);
            is_soon(unix_ns, now_ns, longest).map_err(|error| cannot(&start, &error))?;
            return Ok((unix_ns, correction_ns));
        }
        let there: Option<ShardPresence> = read(&own);
        if let Some(other) = there.filter(|there| *there != ready) {
            return Err(HarnessError::failed(format!(
                "another process is shard {shard}, too: process {} on {}",
                other.pid, other.host
            ))
            .remedy("give each shard an index of its own"));
        }
        let without =
            |kinds: &[&str]| without(folder, shard.count(), kinds).map_err(|error| cannot(folder, &error));
        if without(&[READY])?.is_empty() {
            let now_ns = unix_now_ns().checked_add_signed(correction_ns).unwrap_or_default();
            let beginning = StartSignal { unix_ns: now_ns.saturating_add(saturating_nanos(LEAD)) };
            write_first(&start, &beginning).map_err(|error| cannot(&start, &error))?;
            continue;
        }
        if tokio::time::Instant::now() >= deadline {
            let missing = without(&[READY, LEFT])?;
            let waited = format_ns(saturating_nanos(longest));
            // A shard that comes later must not begin alone, and one that still waits must not take this one for
            // missing.
            let _ = std::fs::rename(&own, folder.join(name(LEFT, shard.index())));
            return Err(HarnessError::failed(format!(
                "{} of {} shards did not come within {waited}: {}",
                missing.len(),
                shard.count(),
                listed(&missing)
            ))
            .remedy("see why they did not start, or wait longer with --wait"));
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Refuses a directory that another user made: its owner decides when the load begins.
#[cfg(unix)]
fn is_ours(folder: &Path, own: &Path) -> io::Result<()> {
    use std::os::unix::fs::MetadataExt as _;
    // By what is stored there, not by this process's user: a network file system may map users.
    let owner = |path: &Path| std::fs::symlink_metadata(path).map(|facts| facts.uid());
    if owner(folder)? == owner(own)? {
        return Ok(());
    }
    Err(io::Error::new(io::ErrorKind::PermissionDenied, "it belongs to another user"))
}

#[cfg(not(unix))]
fn is_ours(_: &Path, _: &Path) -> io::Result<()> {
    Ok(())
}

/// Refuses a beginning that no shard would write: one that is further away than the others may be waited for.
fn is_soon(unix_ns: u64, now_ns: u64, longest: Duration) -> io::Result<()> {
    // Clocks that were compared by a slow directory may still differ a little.
    let latest_ns = now_ns.saturating_add(saturating_nanos(longest.saturating_add(LEAD * 2)));
    if unix_ns <= latest_ns {
        return Ok(());
    }
    let ahead = format_ns(unix_ns.saturating_sub(now_ns));
    Err(io::Error::other(format!("the load would begin only in {ahead}, which none of the shards wrote")))
}

/// Says that this shard is ready; returns how far the directory's clock is ahead of this process's.
fn announce(path: &Path, ready: &ShardPresence) -> io::Result<i64> {
    let before = unix_now_ns();
    write_at_once(path, |output| Ok(serde_json::to_writer(output, ready)?))?;
    let after = unix_now_ns();
    let stamped = std::fs::metadata(path)?.modified()?;
    Ok(ahead_ns(unix_ns(stamped), before, after))
}

/// How far a clock is ahead that stamped a file between two times of this process's clock; 0 if that is too little to
/// tell.
fn ahead_ns(stamped_ns: u64, before_ns: u64, after_ns: u64) -> i64 {
    let own_ns = before_ns + after_ns.saturating_sub(before_ns) / 2;
    let difference = i128::from(stamped_ns) - i128::from(own_ns);
    let unsure = saturating_nanos(CLOCKS_EQUAL).max(after_ns.saturating_sub(before_ns));
    if difference.unsigned_abs() <= u128::from(unsure) { 0 } else { i64::try_from(difference).unwrap_or(0) }
}

/// Writes the beginning, unless another shard was first.
fn write_first(path: &Path, beginning: &StartSignal) -> io::Result<()> {
    // A file that is there is whole: it is written under another name, and only one name can be linked.
    let own = path.with_extension(Uuid::new_v4().simple().to_string());
    let mut file = std::fs::File::options().write(true).create_new(true).open(&own)?;
    serde_json::to_writer(&mut file, beginning)?;
    file.flush()?;
    drop(file);
    let linked = std::fs::hard_link(&own, path);
    std::fs::remove_file(&own)?;
    match linked {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

/// The shards that have no file of these kinds.
fn without(folder: &Path, count: u32, kinds: &[&str]) -> io::Result<Vec<u32>> {
    let names: std::collections::HashSet<String> = std::fs::read_dir(folder)?
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    let has = |index: u32| kinds.iter().any(|kind| names.contains(&name(kind, index)));
    Ok((0..count).filter(|index| !has(*index)).collect())
}

fn name(kind: &str, index: u32) -> String {
    format!("{kind}-{index}.json")
}

/// At most ten numbers, and how many more.
pub(crate) fn listed(numbers: &[u32]) -> String {
    const SHOWN: usize = 10;
    let shown: Vec<String> = numbers.iter().take(SHOWN).map(ToString::to_string).collect();
    let more = numbers.len().saturating_sub(SHOWN);
    if more == 0 { shown.join(", ") } else { format!("{} and {more} more", shown.join(", ")) }
}

/// What tells the process that is ready as this shard from another one.
pub(super) fn attempt(folder: &Path, index: u32) -> Option<Uuid> {
    read(&folder.join(name(READY, index))).map(|ShardPresence { id, .. }| id)
}

/// The content of a file of the directory; `None` if it is not there, or is none of ours.
pub(super) fn read<T: for<'de> Deserialize<'de>>(path: &Path) -> Option<T> {
    let file = open_regular(path).ok()?;
    let small = file.metadata().ok().filter(|facts| facts.len() <= FILE_BYTES_MAX);
    small.and_then(|_| serde_json::from_reader(file).ok())
}

fn unix_now_ns() -> u64 {
    unix_ns(SystemTime::now())
}

fn unix_ns(time: SystemTime) -> u64 {
    saturating_nanos(time.duration_since(UNIX_EPOCH).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shard(index: u64, count: u64) -> Shard {
        Shard::new(index, count).unwrap()
    }

    fn block_on<T>(work: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(work)
    }

    #[test]
    fn all_shards_get_the_same_beginning() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("run");
        let found = block_on(async {
            let longest = Duration::from_secs(60);
            tokio::join!(
                meet(&folder, shard(0, 3), longest),
                meet(&folder, shard(1, 3), longest),
                meet(&folder, shard(2, 3), longest)
            )
        });
        let (one, two, three) = (found.0.unwrap(), found.1.unwrap(), found.2.unwrap());
        assert_eq!((one, one), (two, three));
        // One that is started again finds it, too.
        assert_eq!(block_on(meet(&folder, shard(1, 3), Duration::ZERO)).unwrap(), one);
    }

    #[test]
    fn who_does_not_come_and_who_is_there_twice_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let late = block_on(meet(folder.path(), shard(1, 4), Duration::ZERO)).unwrap_err().to_string();
        assert!(late.contains("3 of 4 shards") && late.contains("0, 2, 3"), "{late}");
        let again = block_on(meet(folder.path(), shard(0, 4), Duration::ZERO)).unwrap_err().to_string();
        assert!(again.contains("2 of 4 shards") && again.contains("2, 3"), "{again}");
        assert_eq!(without(folder.path(), 4, &[READY]).unwrap(), [0, 1, 2, 3], "nobody is ready any more");
        let twice = block_on(async {
            let longest = Duration::from_secs(60);
            tokio::select! {
                found = meet(folder.path(), shard(2, 4), longest) => found,
                () = async {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                    let _ = meet(folder.path(), shard(2, 4), longest).await;
                } => unreachable!(),
            }
        });
        let twice = twice.unwrap_err().to_string();
        assert!(twice.contains("another process is shard 2/4"), "{twice}");
        let file = folder.path().join("file");
        std::fs::write(&file, "").unwrap();
        let error = block_on(meet(&file, shard(0, 2), Duration::ZERO)).unwrap_err().to_string();
        assert!(error.contains("--together"), "{error}");
    }

    #[test]
    fn a_beginning_that_no_shard_wrote_is_not_believed() {
        let folder = tempfile::tempdir().unwrap();
        let forge = |unix_ns: u64| {
            let text = serde_json::to_string(&StartSignal { unix_ns }).unwrap();
            std::fs::write(folder.path().join("start.json"), text).unwrap();
        };
        forge(1);
        let alone = block_on(meet(folder.path(), shard(0, 2), Duration::ZERO)).unwrap_err().to_string();
        assert!(alone.contains("1 of 2 shards did not come"), "{alone}");
        std::fs::write(folder.path().join(name(READY, 1)), "{}").unwrap();
        forge(unix_now_ns() + saturating_nanos(Duration::from_secs(3_600)));
        let late = block_on(meet(folder.path(), shard(0, 2), Duration::ZERO)).unwrap_err().to_string();
        assert!(late.contains("the load would begin only in"), "{late}");
    }

    #[cfg(unix)]
    #[test]
    fn a_directory_of_another_user_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let meeting = folder.path().join("run");
        make_directory(&meeting).unwrap();
        if std::os::unix::fs::chown(&meeting, Some(65_534), None).is_err() {
            println!("skipped: only root can give a directory away");
            return;
        }
        let error = block_on(meet(&meeting, shard(0, 2), Duration::ZERO)).unwrap_err().to_string();
        assert!(error.contains("it belongs to another user"), "{error}");
    }

    #[test]
    fn clocks_differ_only_if_a_stamp_shows_it() {
        let ms = 1_000_000;
        for (stamped, before, after, expected) in [
            (1_000 * ms, 1_001 * ms, 1_002 * ms, 0),
            (1_090 * ms, 1_000 * ms, 1_000 * ms, 0),
            (5_000 * ms, 1_000 * ms, 1_000 * ms, 4_000 * ms as i64),
            (1_000 * ms, 61_000 * ms, 61_002 * ms, -60_001 * ms as i64),
            // The directory took three seconds to answer.
            (3_000 * ms, 1_000 * ms, 4_000 * ms, 0),
        ] {
            assert_eq!(ahead_ns(stamped, before, after), expected, "{stamped} {before} {after}");
        }
        assert_eq!(own_time(1_000, 400), 600);
    }
}
