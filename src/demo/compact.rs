//! The demo's collector after a run: only the traces that were fetched.
//!
//! A short run stores 25 MB of traces, of which a report needs 200. `bench trace show` says so for the others.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::base::files::create_private;
use crate::base::secret::Secret;
use crate::osprofiler::driver::Collector;
use crate::osprofiler::record::Record;

/// Smaller files stay as they are, with every trace: `bench collect` can still fetch others.
pub(super) const BYTES_MIN: u64 = 8 << 20;
/// How long a connection may take to end.
const CLOSED_WITHIN: Duration = Duration::from_secs(10);
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Replaces a collector's file by one with these traces, if it is large. On an error the file stays as it is.
pub(super) fn compact(file: &Path, traces: &[Vec<Record>]) {
    // A log that still waits beside the file would be taken for one of the new file, and holds what the file will.
    if is_closed(file) && fs::metadata(file).is_ok_and(|found| found.len() >= BYTES_MIN) {
        let fresh = beside(file, ".new");
        if !is_written(&fresh, traces) || fs::rename(&fresh, file).is_err() {
            remove(&fresh);
        }
    }
}

/// True once the last connection to a file has ended, which may take a moment: it removes the log beside it, and then
/// the log's index.
fn is_closed(file: &Path) -> bool {
    let both = ["-wal", "-shm"].map(|end| beside(file, end));
    for _ in 0..CLOSED_WITHIN.as_millis() / LOOK_EVERY.as_millis() {
        if both.iter().all(|one| fs::symlink_metadata(one).is_err()) {
            return true;
        }
        std::thread::sleep(LOOK_EVERY);
    }
    false
}

/// True if a new file has all of them, and needs no other file.
fn is_written(fresh: &Path, traces: &[Vec<Record>]) -> bool {
    let (Ok(_), Some(path)) = (create_private(fresh), fresh.to_str()) else { return false };
    let connection = Secret::new(format!("sqlite://{path}"));
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else {
        return false;
    };
    let written = runtime.block_on(async {
        let Ok(collector) = Collector::connect(&connection).await else { return false };
        for records in traces {
            if collector.write(records).await.is_err() {
                return false;
            }
        }
        true
    });
    // Ends the connection, which writes what waits in the other files.
    drop(runtime);
    written && is_closed(fresh)
}

fn remove(file: &Path) {
    for end in ["", "-wal", "-shm"] {
        // They may not be there.
        let _ = fs::remove_file(beside(file, end));
    }
}

fn beside(file: &Path, end: &str) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(end);
    name.into()
}
