//! Which directories are runs or comparisons, and what names them.

use std::fs;
use std::io::ErrorKind;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::Value;

use crate::error::HarnessError;
use results::directory::RunDirectory;
use results::model::Outcome;
use text::files::open_regular;
use text::times::rfc3339;

/// Where runs are unless told otherwise.
pub const DIRECTORY: &str = "runs";
/// The name of the newest run.
const LATEST: &str = "latest";
/// The beginning of a run's name that tells when it began: `20261120T225201Z`.
const TIME_CHARS: usize = 16;
/// How many characters of its id tell it from another one that began in the same second.
const ID_CHARS: usize = 4;
/// The largest comparison that is read.
const COMPARISON_BYTES_MAX: u64 = 64 << 20;

/// What a directory contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DirectoryKind {
    Run,
    Comparison,
}

/// A run or comparison that was found.
#[derive(Clone, Debug)]
pub(super) struct RunCandidate {
    pub(super) path: PathBuf,
    pub(super) kind: DirectoryKind,
    /// When it began: its name tells, or else the time of its directory.
    pub(super) began: String,
}

/// A path on the command line. `latest` is the newest run of `runs`, and `DIR/latest` is the newest of another
/// directory; `20261120T225201Z` is the run whose name begins so. A path that exists is taken as it is.
///
/// # Errors
/// There is no run, or there are several.
pub fn named(path: &Path) -> Result<PathBuf, HarnessError> {
    newest(path, Some(DirectoryKind::Run))
}

/// As [`named`], for the newest run or comparison.
///
/// # Errors
/// There is none, or there are several.
pub(crate) fn newest_of_all(path: &Path) -> Result<PathBuf, HarnessError> {
    newest(path, None)
}

/// As [`named`], for runs and comparisons.
pub(super) fn newest(path: &Path, wanted: Option<DirectoryKind>) -> Result<PathBuf, HarnessError> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let is_special = name == LATEST || time(&name).is_some();
    if !is_special || fs::symlink_metadata(path).is_ok() {
        return Ok(path.to_path_buf());
    }
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let parent = parent.unwrap_or(Path::new(DIRECTORY));
    let is_wanted = |found: &RunCandidate| {
        let begins = name == LATEST || found.name().starts_with(&*name) || is_short(&found.name(), &name);
        begins && wanted.is_none_or(|kind| found.kind == kind)
    };
    let mut all = find(parent)?.into_iter().filter(is_wanted);
    match (all.next(), name == LATEST || all.next().is_none()) {
        (Some(found), true) => Ok(found.path),
        (Some(_), false) => {
            let text = format!("several runs in {} begin with {name}", parent.display());
            Err(HarnessError::input(text).remedy("write more of the name"))
        }
        (None, _) if name == LATEST => {
            let text = format!("there is no run in {}", parent.display());
            Err(HarnessError::input(text)
                .remedy("run a scenario first, or write DIR/latest with the directory of the runs"))
        }
        (None, _) => {
            let text = format!("no run in {} begins with {name}", parent.display());
            Err(HarnessError::input(text).remedy("`bench runs` lists them"))
        }
    }
}

/// The name of a run whose time another one has too: its time, and the beginning of its id.
fn short(name: &str) -> Option<String> {
    let id = name.get(TIME_CHARS..)?.rsplit_once('-')?.1;
    let is_id = id.len() >= ID_CHARS && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_id.then(|| format!("{}-{}", &name[..TIME_CHARS], &id[..ID_CHARS]))
}

fn is_short(name: &str, of: &str) -> bool {
    short(name).is_some_and(|short| short == of)
}

impl RunCandidate {
    /// The name of its directory.
    pub(super) fn name(&self) -> String {
        self.path.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }
}

/// What names each of these on the command line: the beginning of its name that tells when it began, if no other begins
/// so. In another directory than `runs`, with that.
pub(super) fn names(directory: &Path, all: &[RunCandidate]) -> Vec<String> {
    let beginning = |found: &RunCandidate| {
        let name = found.name();
        time(&name).map(|_| name.chars().take(TIME_CHARS).collect::<String>())
    };
    let beginnings: Vec<Option<String>> = all.iter().map(beginning).collect();
    let shorts: Vec<Option<String>> = all.iter().map(|found| short(&found.name())).collect();
    let alone = |of: &[Option<String>], name: &Option<String>| {
        name.clone().filter(|_| of.iter().filter(|other| *other == name).count() == 1)
    };
    let name = |(found, (begins, short)): (&RunCandidate, (&Option<String>, &Option<String>))| {
        let name = alone(&beginnings, begins).or_else(|| alone(&shorts, short));
        match name {
            Some(name) if directory == Path::new(DIRECTORY) => name,
            Some(name) => directory.join(name).display().to_string(),
            None => found.path.display().to_string(),
        }
    };
    all.iter().zip(beginnings.iter().zip(&shorts)).map(name).collect()
}

/// The runs and comparisons of a directory, newest first. Symbolic links are not followed.
pub(super) fn find(directory: &Path) -> Result<Vec<RunCandidate>, HarnessError> {
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        // Where nothing ran yet.
        Err(error) if error.kind() == ErrorKind::NotFound && directory == Path::new(DIRECTORY) => {
            return Ok(Vec::new());
        }
        Err(error) => {
            let text = format!("cannot read {}: {error}", directory.display());
            let remedy = "name the directory that holds the runs";
            return Err(HarnessError::input(text).remedy(remedy));
        }
    };
    let is_directory = |entry: &fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
    let entries = entries.filter_map(Result::ok).filter(is_directory).map(|entry| entry.path());
    let mut all: Vec<RunCandidate> = entries.filter_map(found).collect();
    all.sort_by(|one, other| (&other.began, &other.path).cmp(&(&one.began, &one.path)));
    Ok(all)
}

/// The directories in this one that have a run log, the oldest first.
pub(crate) fn logs_in(directory: &Path) -> Result<Vec<PathBuf>, HarnessError> {
    let is_log = |found: &RunCandidate| RunDirectory::open(&found.path).log().is_file();
    Ok(find(directory)?.into_iter().rev().filter(is_log).map(|found| found.path).collect())
}

/// The runs in this directory, newest first, with what names each on the command line.
pub(crate) fn runs_in(directory: &Path) -> Result<Vec<(PathBuf, String)>, HarnessError> {
    let all = find(directory)?;
    let named = all.iter().zip(names(directory, &all)).filter(|(found, _)| found.kind == DirectoryKind::Run);
    Ok(named.map(|(found, name)| (found.path.clone(), name)).collect())
}

pub(super) fn found(path: PathBuf) -> Option<RunCandidate> {
    let run = RunDirectory::open(&path);
    let is_file = |path: &Path| fs::symlink_metadata(path).is_ok_and(|found| found.is_file());
    let kind = if is_file(&comparison(&path)) {
        DirectoryKind::Comparison
    } else if is_file(&run.log()) || is_file(&run.results()) {
        DirectoryKind::Run
    } else {
        return None;
    };
    let began = began(&path);
    Some(RunCandidate { path, kind, began })
}

fn comparison(directory: &Path) -> PathBuf {
    directory.join("ab.json")
}

/// `2026-11-20T22:52:01`, from the beginning of a name such as `20261120T225201Z-issue-tokens-1a2b3c4d`.
fn time(name: &str) -> Option<String> {
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let (date, time) = (name.get(..8)?, name.get(9..15)?);
    let is_time =
        name.get(8..9) == Some("T") && name.get(15..16) == Some("Z") && digits(date) && digits(time);
    is_time.then(|| {
        let (year, month, day) = (&date[..4], &date[4..6], &date[6..]);
        format!("{year}-{month}-{day}T{}:{}:{}", &time[..2], &time[2..4], &time[4..])
    })
}

/// When it began: its name tells, or else when the directory last changed.
pub(super) fn began(path: &Path) -> String {
    if let Some(time) = time(&path.file_name().unwrap_or_default().to_string_lossy()) {
        return time;
    }
    let changed = fs::metadata(path).and_then(|found| found.modified()).unwrap_or(UNIX_EPOCH);
    let since = changed.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let text = rfc3339(u64::try_from(since.as_nanos()).unwrap_or(0));
    text.chars().take(19).collect()
}

/// Title, verdict and first reason of a comparison.
pub(super) fn comparison_of(path: &Path) -> Result<(String, Outcome, String), String> {
    let mut json = Vec::new();
    let file = open_regular(&comparison(path)).map_err(|error| error.to_string())?;
    file.take(COMPARISON_BYTES_MAX).read_to_end(&mut json).map_err(|error| error.to_string())?;
    let value: Value = serde_json::from_slice(&json).map_err(|error| error.to_string())?;
    if value["format"] != report::pairs::FORMAT {
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
