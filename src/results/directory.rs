//! The run directory: its name and its files, which are written atomically.
//!
//! ```text
//! runs/20261120T225201Z-issue-tokens-1a2b3c4d/
//!   run.log        every iteration, append-only, written while the load runs
//!   results.json   report.html   report.md   traces/<trace_id>.json   probe-trace.json
//! ```

use std::collections::HashSet;
use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use uuid::Uuid;

use measure::log;
pub use text::files::write_at_once;
use text::files::{make_directory, open_regular, owner_only, sync_all_in, write_one_of_many};
use text::times::rfc3339;

use super::trace::{StoredRecords, StoredTrace, TraceFileState};

const SLUG_CHARS_MAX: usize = 40;
/// The largest stored trace that is read.
const TRACE_BYTES_MAX: u64 = 128 << 20;

/// A run's directory.
#[derive(Clone, Debug)]
pub struct RunDirectory {
    path: PathBuf,
}

impl RunDirectory {
    /// Creates the directory of a new run in `parent`, for its owner only; `shard` is its number, if it is one of several.
    ///
    /// # Errors
    /// Any error of the system.
    pub fn create(
        parent: &Path,
        title: &str,
        run_id: Uuid,
        started_unix_ns: u64,
        shard: Option<u32>,
    ) -> io::Result<Self> {
        fs::create_dir_all(parent)?;
        let time: String =
            rfc3339(started_unix_ns).chars().take(19).filter(|c| !matches!(c, '-' | ':')).collect();
        let id = &run_id.simple().to_string()[..8];
        let shard = shard.map_or_else(String::new, |index| format!("-shard-{index}"));
        Self::make(&parent.join(format!("{time}Z-{}-{id}{shard}", slug(title))))
    }

    /// Creates the directory of a run at this path, for its owner only.
    ///
    /// # Errors
    /// Any error of the system; the path must not exist.
    pub fn make(path: &Path) -> io::Result<Self> {
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        let mut builder = fs::DirBuilder::new();
        owner_only(&mut builder);
        builder.create(path)?;
        Ok(Self { path: path.to_path_buf() })
    }

    /// The directory of an existing run.
    #[must_use]
    pub fn open(path: &Path) -> Self {
        Self { path: path.to_path_buf() }
    }

    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The run log.
    #[must_use]
    pub fn log(&self) -> PathBuf {
        self.path.join(log::FILE_NAME)
    }

    /// The path of `results.json`.
    #[must_use]
    pub fn results(&self) -> PathBuf {
        self.path.join("results.json")
    }

    /// The path of the HTML report.
    #[must_use]
    pub fn report(&self) -> PathBuf {
        self.path.join("report.html")
    }

    /// The path of the Markdown report.
    #[must_use]
    pub fn markdown(&self) -> PathBuf {
        self.path.join("report.md")
    }

    /// The file of a fetched trace.
    #[must_use]
    pub fn trace(&self, trace_id: Uuid) -> PathBuf {
        self.path.join("traces").join(format!("{trace_id}.json"))
    }

    /// The file of the trace of the iteration before the load, which is not one of the load's traces.
    #[must_use]
    pub fn probe_trace(&self) -> PathBuf {
        self.path.join("probe-trace.json")
    }

    /// Stores the trace of the iteration before the load.
    ///
    /// # Errors
    /// Any error of the system.
    pub fn store_probe(&self, trace: &StoredTrace) -> io::Result<()> {
        write_at_once(&self.probe_trace(), |output| Ok(serde_json::to_writer(output, trace)?))
    }

    /// Stores fetched traces.
    ///
    /// # Errors
    /// Any error of the system.
    pub fn store_traces(&self, traces: &[StoredTrace]) -> io::Result<()> {
        if traces.is_empty() {
            return Ok(());
        }
        let folder = self.path.join("traces");
        // Opening a pipe of that name would wait for ever.
        make_directory(&folder)?;
        let mut new = traces.iter().filter(|trace| trace.filed == TraceFileState::No);
        new.try_for_each(|trace| self.write_trace(trace))?;
        if traces.iter().all(|trace| trace.filed == TraceFileState::Synced) {
            Ok(())
        } else {
            sync_all_in(&folder)
        }
    }

    /// Writes one of many fetched traces; [`RunDirectory::store_traces`] must follow, which syncs it.
    ///
    /// # Errors
    /// Any error of the system.
    pub fn write_trace(&self, trace: &StoredTrace) -> io::Result<()> {
        make_directory(&self.path.join("traces"))?;
        // In one piece: a record is some thirty small writes.
        let json = serde_json::to_vec(trace)?;
        write_one_of_many(&self.trace(trace.trace_id), |output| output.write_all(&json))
    }

    /// The ids of the stored traces.
    #[must_use]
    pub fn stored_traces(&self) -> HashSet<Uuid> {
        let entries = fs::read_dir(self.path.join("traces")).into_iter().flatten().flatten();
        let id = |name: &str| name.strip_suffix(".json").and_then(|id| id.parse().ok());
        entries.filter_map(|entry| entry.file_name().to_str().and_then(id)).collect()
    }

    /// A stored trace; `None` if it was not fetched or cannot be read.
    #[must_use]
    pub fn stored_trace(&self, trace_id: Uuid) -> Option<StoredTrace> {
        read(&self.trace(trace_id))
    }

    /// True if the file of a trace lies in this directory, and is no link to another one.
    #[must_use]
    pub fn has_trace(&self, trace_id: Uuid) -> bool {
        fs::symlink_metadata(self.trace(trace_id)).is_ok_and(|found| found.is_file())
    }

    /// The records of a stored trace; `None` if it was not fetched or cannot be read.
    #[must_use]
    pub fn stored_records(&self, trace_id: Uuid) -> Option<StoredRecords> {
        read(&self.trace(trace_id))
    }

    /// The trace of the iteration before the load; `None` if none came, or it cannot be read.
    #[must_use]
    pub fn stored_probe(&self) -> Option<StoredTrace> {
        read(&self.probe_trace())
    }
}

fn read<T: DeserializeOwned>(path: &Path) -> Option<T> {
    let mut json = Vec::new();
    let mut file = open_regular(path).ok()?.take(TRACE_BYTES_MAX + 1);
    file.read_to_end(&mut json).ok().filter(|length| *length as u64 <= TRACE_BYTES_MAX)?;
    serde_json::from_slice(&json).ok()
}

/// The letters and digits of a title, with dashes for the rest.
fn slug(title: &str) -> String {
    let mut slug = String::new();
    for c in title.chars().take(SLUG_CHARS_MAX * 2) {
        if c.is_ascii_alphanumeric() {
            slug.push(c.to_ascii_lowercase());
        } else if !slug.is_empty() && !slug.ends_with('-') {
            slug.push('-');
        }
    }
    slug.truncate(SLUG_CHARS_MAX);
    let slug = slug.trim_end_matches('-');
    if slug.is_empty() { "run".to_owned() } else { slug.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_made_of_letters_and_digits_only() {
        for (title, expected) in [
            ("Issue & validate: tokens!", "issue-validate-tokens"),
            ("../../etc", "etc"),
            ("ü", "run"),
            ("", "run"),
        ] {
            assert_eq!(slug(title), expected);
        }
    }
}
