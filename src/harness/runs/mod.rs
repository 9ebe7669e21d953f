//! The runs and comparisons in a directory: found, listed, named `latest`, opened and deleted.
//!
//! A directory is one of them if it has a run log, results, or a comparison of bench; nothing else is touched. Their
//! files are not trusted: what is damaged is listed as such.

mod open;
mod prune;

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::Value;

use crate::base::clock::rfc3339;
use crate::base::files::open_regular;
use crate::measure::log::RunLog;
use crate::report::runs::{self, ListedRun};
use crate::results::directory::RunDirectory;
use crate::results::head;
use crate::results::model::Outcome;

use super::error::HarnessError;

pub use open::{Opened, open};
pub use prune::{PruneOptions, Pruned, age, prune};

/// Where runs are unless told otherwise.
pub const DIRECTORY: &str = "runs";
/// The name of the newest run.
const LATEST: &str = "latest";
/// The largest comparison that is read.
const COMPARISON_BYTES_MAX: u64 = 64 << 20;

/// What a directory contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Run,
    Comparison,
}

/// A run or comparison that was found.
#[derive(Clone, Debug)]
struct Found {
    path: PathBuf,
    kind: Kind,
    /// When it began: its name tells, or else the time of its directory.
    began: String,
}

/// A path on the command line: `latest` is the newest run of `runs`, and `DIR/latest` that of another directory.
/// Something that exists by that name is itself.
///
/// # Errors
/// There is no run.
pub fn named(path: &Path) -> Result<PathBuf, HarnessError> {
    newest(path, Some(Kind::Run))
}

fn newest(path: &Path, wanted: Option<Kind>) -> Result<PathBuf, HarnessError> {
    let is_latest =
        path.file_name().is_some_and(|name| name == LATEST) && fs::symlink_metadata(path).is_err();
    if !is_latest {
        return Ok(path.to_path_buf());
    }
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let parent = parent.unwrap_or(Path::new(DIRECTORY));
    let all = find(parent)?;
    let newest = all.into_iter().find(|found| wanted.is_none_or(|kind| found.kind == kind));
    newest.map(|found| found.path).ok_or_else(|| {
        HarnessError::input(format!("there is no run in {}", parent.display()))
            .remedy("run a scenario first, or name its directory")
    })
}

/// The runs and comparisons of a directory, newest first. Symbolic links are not followed.
fn find(directory: &Path) -> Result<Vec<Found>, HarnessError> {
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) => {
            let text = format!("cannot read {}: {error}", directory.display());
            return Err(HarnessError::input(text).remedy("name the directory of the runs with --out"));
        }
    };
    let is_directory = |entry: &fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
    let entries = entries.filter_map(Result::ok).filter(is_directory).map(|entry| entry.path());
    let mut all: Vec<Found> = entries.filter_map(found).collect();
    all.sort_by(|one, other| (&other.began, &other.path).cmp(&(&one.began, &one.path)));
    Ok(all)
}

fn found(path: PathBuf) -> Option<Found> {
    let run = RunDirectory::open(&path);
    let is_file = |path: &Path| fs::symlink_metadata(path).is_ok_and(|found| found.is_file());
    let kind = if is_file(&comparison(&path)) {
        Kind::Comparison
    } else if is_file(&run.log()) || is_file(&run.results()) {
        Kind::Run
    } else {
        return None;
    };
    let began = began(&path);
    Some(Found { path, kind, began })
}

fn comparison(directory: &Path) -> PathBuf {
    directory.join("ab.json")
}

/// `2026-11-20T22:52:01`, from the beginning of a name such as `20261120T225201Z-issue-tokens-1a2b3c4d`, or from when the
/// directory last changed.
fn began(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if let (Some(date), Some("T"), Some(time), Some("Z")) =
        (name.get(..8), name.get(8..9), name.get(9..15), name.get(15..16))
        && digits(date)
        && digits(time)
    {
        let (year, month, day) = (&date[..4], &date[4..6], &date[6..]);
        return format!("{year}-{month}-{day}T{}:{}:{}", &time[..2], &time[2..4], &time[4..]);
    }
    let changed = fs::metadata(path).and_then(|found| found.modified()).unwrap_or(UNIX_EPOCH);
    let since = changed.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let text = rfc3339(u64::try_from(since.as_nanos()).unwrap_or(0));
    text.chars().take(19).collect()
}

/// The newest runs and comparisons of a directory, and how many more there are.
///
/// # Errors
/// The directory cannot be read.
pub fn list(directory: &Path, limit: usize) -> Result<(Vec<ListedRun>, usize), HarnessError> {
    let all = find(directory)?;
    let more = all.len().saturating_sub(limit);
    Ok((all.iter().take(limit).map(listed).collect(), more))
}

fn listed(found: &Found) -> ListedRun {
    let blank = ListedRun {
        directory: found.path.display().to_string(),
        kind: if found.kind == Kind::Run { "run" } else { "ab" },
        started_at: found.began.clone(),
        title: String::new(),
        verdict: None,
        p99_ms: None,
        cause: String::new(),
        fault: None,
    };
    match found.kind {
        Kind::Run => listed_run(&found.path, blank),
        Kind::Comparison => listed_comparison(&found.path, blank),
    }
}

fn listed_run(path: &Path, blank: ListedRun) -> ListedRun {
    let directory = RunDirectory::open(path);
    match head::read(&directory.results()) {
        Ok(results) => ListedRun {
            started_at: results.run.started_at.clone(),
            title: results.scenario.title.clone(),
            verdict: Some(results.verdict.outcome),
            p99_ms: runs::p99_ms(&results),
            cause: runs::cause(&results),
            ..blank
        },
        Err(reason) => {
            let log = RunLog::open(&directory.log());
            let fault = match (&log, directory.results().exists()) {
                (Ok(_), false) => "no results yet: it is under way, or `bench report` makes them".to_owned(),
                (Ok(_), true) => format!("results.json: {reason}; `bench report` makes it again"),
                (Err(error), false) => error.to_string(),
                (Err(_), true) => format!("results.json: {reason}"),
            };
            let header = log.ok().map(|log| log.header);
            let title = header.as_ref().map_or_else(String::new, |header| header.scenario.title.clone());
            let started = header.map_or(blank.started_at, |header| rfc3339(header.started_unix_ns));
            ListedRun { title, started_at: started, fault: Some(fault), ..blank }
        }
    }
}

fn listed_comparison(path: &Path, blank: ListedRun) -> ListedRun {
    match comparison_of(path) {
        Ok((title, verdict, cause)) => ListedRun { title, verdict: Some(verdict), cause, ..blank },
        Err(reason) => ListedRun { fault: Some(format!("ab.json: {reason}")), ..blank },
    }
}

/// Title, verdict and first reason of a comparison.
fn comparison_of(path: &Path) -> Result<(String, Outcome, String), String> {
    let mut json = Vec::new();
    let file = open_regular(&comparison(path)).map_err(|error| error.to_string())?;
    file.take(COMPARISON_BYTES_MAX).read_to_end(&mut json).map_err(|error| error.to_string())?;
    let value: Value = serde_json::from_slice(&json).map_err(|error| error.to_string())?;
    if value["format"] != crate::report::pairs::FORMAT {
        return Err("it does not contain a comparison of bench".to_owned());
    }
    let outcome = serde_json::from_value(value["outcome"].clone()).map_err(|error| error.to_string())?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (a, b) = (text(&value["a"]["name"]), text(&value["b"]["name"]));
    let cause = match value["reasons"][0].as_str() {
        Some(reason) => reason.to_owned(),
        None => format!("B ({b}) against A ({a})"),
    };
    Ok((text(&value["scenario"]["title"]), outcome, cause))
}

#[cfg(test)]
mod tests;
