//! Deletes old runs, or their traces: only directories that are runs or comparisons of bench, and nothing that a link points to.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::find::{DirectoryKind, RunCandidate, comparison_of, find};
use crate::error::HarnessError;
use base::clock::RunClock;
use base::units::parse_duration;
use measure::log::RunLog;
use results::directory::RunDirectory;
use results::head;
use text::times::from_rfc3339;

/// A run whose files changed within this time may be under way.
const UNDER_WAY: Duration = Duration::from_secs(10 * 60);
/// Directories in a run are not deeper than this.
const DEPTH_MAX: usize = 8;

/// Which runs to delete.
#[derive(Clone, Debug)]
pub struct PruneOptions {
    /// The directory of the runs.
    pub directory: PathBuf,
    /// The newest ones that stay.
    pub keep: Option<usize>,
    /// Only those that began longer ago than this.
    pub older_than: Option<Duration>,
    /// Delete only traces; runs without any are left out.
    pub traces_only: bool,
    /// False to say only what would be deleted.
    pub delete: bool,
}

/// A run that is deleted, or whose traces are, or would be.
#[derive(Clone, Debug, PartialEq)]
pub struct PruneCandidate {
    /// Its directory.
    pub directory: PathBuf,
    /// The size of the files to delete.
    pub bytes: u64,
    /// Why it stays, although it is old.
    pub stays: Option<String>,
}

/// Parses an age: `30d`, `2w`, or a duration such as `12h`.
///
/// # Errors
/// It is none.
pub fn age(text: &str) -> Result<Duration, String> {
    let days =
        |number: &str, of: u64| number.trim().parse::<u64>().ok().and_then(|number| number.checked_mul(of));
    let whole = match (text.strip_suffix('d'), text.strip_suffix('w')) {
        (Some(number), _) => days(number, 1),
        (_, Some(number)) => days(number, 7),
        _ => None,
    };
    let seconds = whole.filter(|days| *days <= 36_500).map(|days| days * 86_400);
    seconds
        .map(Duration::from_secs)
        .or_else(|| parse_duration(text).ok())
        .ok_or_else(|| format!("`{text}` is not an age; write 30d, 2w or 12h"))
}

/// Deletes the runs that the options name, oldest first, or says which these are.
///
/// # Errors
/// The directory cannot be read, or nothing says which runs to delete.
pub fn prune(options: &PruneOptions) -> Result<Vec<PruneCandidate>, HarnessError> {
    if options.keep.is_none() && options.older_than.is_none() {
        let text = "which runs are to be deleted?";
        return Err(HarnessError::usage(text).remedy("give --keep N, --older-than AGE, or both"));
    }
    let now = UNIX_EPOCH + Duration::from_nanos(RunClock::start().wall_anchor_unix_ns());
    let all = find(&options.directory)?;
    let old = all.into_iter().skip(options.keep.unwrap_or(0)).filter(|found| match options.older_than {
        Some(age) => is_older(found, age, now),
        None => true,
    });
    let mut pruned: Vec<PruneCandidate> = old.filter_map(|found| one(&found, now, options)).collect();
    pruned.reverse();
    Ok(pruned)
}

fn is_older(found: &RunCandidate, age: Duration, now: SystemTime) -> bool {
    let Some(began_ns) = from_rfc3339(&format!("{}Z", found.began)) else { return false };
    let now_ns = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
    i128::try_from(now_ns).unwrap_or(i128::MAX) - began_ns
        > i128::try_from(age.as_nanos()).unwrap_or(i128::MAX)
}

fn one(found: &RunCandidate, now: SystemTime, options: &PruneOptions) -> Option<PruneCandidate> {
    let (mut bytes, changed) = size(&found.path, DEPTH_MAX);
    let targets = if options.traces_only { traces(found) } else { vec![found.path.clone()] };
    if options.traces_only {
        bytes = targets.iter().map(|target| size_of(target)).fold(0, u64::saturating_add);
        if bytes == 0 {
            return None;
        }
    }
    let is_recent =
        changed.is_some_and(|changed| now.duration_since(changed).unwrap_or_default() < UNDER_WAY);
    let mut stays = None;
    if !is_of_bench(found) {
        stays = Some("its files are not of bench, or damaged: delete it yourself".to_owned());
    } else if is_recent && !is_reported(found) {
        stays = Some("it may be under way".to_owned());
    } else if options.delete
        && let Some(error) = targets.iter().find_map(|target| delete(target).err())
    {
        stays = Some(error.to_string());
    }
    Some(PruneCandidate { directory: found.path.clone(), bytes, stays })
}

/// Links are removed, not followed.
fn delete(target: &Path) -> io::Result<()> {
    match fs::symlink_metadata(target) {
        Ok(there) if there.is_dir() => fs::remove_dir_all(target),
        Ok(_) => fs::remove_file(target),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

fn size_of(target: &Path) -> u64 {
    match fs::symlink_metadata(target) {
        Ok(there) if there.is_dir() => size(target, DEPTH_MAX).0,
        Ok(there) => there.len(),
        Err(_) => 0,
    }
}

/// What holds the traces of a run, or of the rounds of a comparison: directories and a file.
fn traces(found: &RunCandidate) -> Vec<PathBuf> {
    let of_run = |run: &Path| {
        [run.join("traces"), run.join("spans"), RunDirectory::open(run).probe_trace()]
            .into_iter()
            .filter(|path| fs::symlink_metadata(path).is_ok())
    };
    match found.kind {
        DirectoryKind::Run => of_run(&found.path).collect(),
        DirectoryKind::Comparison => {
            let entries = fs::read_dir(&found.path).into_iter().flatten().filter_map(Result::ok);
            let rounds = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
            rounds.flat_map(|round| of_run(&round.path()).collect::<Vec<_>>()).collect()
        }
    }
}

/// True if the contents of a file in it show that bench made it: a name alone does not.
fn is_of_bench(found: &RunCandidate) -> bool {
    let run = RunDirectory::open(&found.path);
    match found.kind {
        DirectoryKind::Run => RunLog::open(&run.log()).is_ok() || head::read(&run.results()).is_ok(),
        DirectoryKind::Comparison => comparison_of(&found.path).is_ok(),
    }
}

fn is_reported(found: &RunCandidate) -> bool {
    found.kind == DirectoryKind::Comparison || RunDirectory::open(&found.path).results().is_file()
}

/// The size of the files in a directory, and when the last of them changed. Links are not followed.
fn size(directory: &Path, depth: usize) -> (u64, Option<SystemTime>) {
    let (mut bytes, mut changed) = (0_u64, None);
    let entries = fs::read_dir(directory).into_iter().flatten().filter_map(Result::ok);
    for entry in entries {
        let Ok(found) = entry.metadata() else { continue };
        let (more, last) = match found.is_dir() {
            true if depth > 0 => size(&entry.path(), depth - 1),
            true => (0, None),
            false => (found.len(), found.modified().ok()),
        };
        bytes = bytes.saturating_add(more);
        changed = changed.max(last);
    }
    (bytes, changed)
}
