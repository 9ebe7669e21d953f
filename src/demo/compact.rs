//! The demo's collector after a run: only the traces that were fetched.
//!
//! A short run stores 25 MB of traces; a report needs 200 of them. `bench trace show` says so for the others.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use base::secret::Secret;
use osprofiler::driver::Collector;
use osprofiler::record::TraceRecord;
use text::files::create_private;

/// Smaller files stay as they are, with every trace: `bench collect` can still fetch others.
pub(super) const BYTES_MIN: u64 = 8 << 20;
/// How long a connection may take to end.
const CLOSED_WITHIN: Duration = Duration::from_secs(10);
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// After this many looks, another connection tries to remove a log that was left.
const CONNECT_AFTER_LOOKS: u128 = 50;

/// Replaces a collector's file by one with these traces, if it is large. On an error the file stays as it is.
pub(super) fn compact(file: &Path, traces: &[Vec<TraceRecord>]) {
    // A log that still waits beside the file would be taken for one of the new file, and holds what the file will.
    if is_closed(file) && fs::metadata(file).is_ok_and(|found| found.len() >= BYTES_MIN) {
        let fresh = beside(file, ".new");
        if !is_written(&fresh, traces) || fs::rename(&fresh, file).is_err() {
            remove(&fresh);
        }
    }
}

/// True once the last connection to a file has ended, which may take a moment: it removes the log beside it, and then
/// the log's index. Two that end at the same time may each leave that to the other, so that another one has to do it.
fn is_closed(file: &Path) -> bool {
    let both = ["-wal", "-shm"].map(|end| beside(file, end));
    for look in 1..=CLOSED_WITHIN.as_millis() / LOOK_EVERY.as_millis() {
        if both.iter().all(|one| fs::symlink_metadata(one).is_err()) {
            return true;
        }
        std::thread::sleep(LOOK_EVERY);
        if look.is_multiple_of(CONNECT_AFTER_LOOKS) {
            write(file, &[]);
        }
    }
    false
}

/// True if a new file has all of them, and needs no other file.
fn is_written(fresh: &Path, traces: &[Vec<TraceRecord>]) -> bool {
    create_private(fresh).is_ok() && write(fresh, traces) && is_closed(fresh)
}

/// True if a connection to a file wrote all of them. Its end writes what waits in the files beside it.
fn write(file: &Path, traces: &[Vec<TraceRecord>]) -> bool {
    let Some(path) = file.to_str() else { return false };
    let connection = Secret::new(format!("sqlite://{path}"));
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else {
        return false;
    };
    runtime.block_on(async {
        let Ok(collector) = Collector::connect(&connection).await else { return false };
        for records in traces {
            if collector.write(records).await.is_err() {
                return false;
            }
        }
        true
    })
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Two connections that end together leave a log, as a process that was killed does.
    #[test]
    fn a_log_that_was_left_is_taken_up() {
        let folder = tempfile::tempdir().unwrap();
        let open = folder.path().join("open.db");
        let connection = Secret::new(format!("sqlite://{}", open.display()));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let collector = runtime.block_on(Collector::connect(&connection)).unwrap();
        let record = |name: &str| TraceRecord {
            name: name.into(),
            base_id: "00000000-0000-0000-0000-000000000001".into(),
            trace_id: "00000000-0000-0000-0000-000000000002".into(),
            parent_id: "00000000-0000-0000-0000-000000000001".into(),
            timestamp: "2026-11-20T22:52:00.000000".into(),
            info: serde_json::Map::new().into(),
            project: None,
            service: None,
        };
        let records = vec![record("wsgi-start"), record("wsgi-stop")];
        runtime.block_on(collector.write(&records)).unwrap();
        let left = folder.path().join("left.db");
        for end in ["", "-wal", "-shm"] {
            fs::copy(beside(&open, end), beside(&left, end)).unwrap();
        }
        assert!(is_closed(&left));
        let connection = Secret::new(format!("sqlite://{}", left.display()));
        let read = runtime.block_on(async {
            Collector::connect_to_read(&connection).await.unwrap().records(&records[0].base_id).await
        });
        assert_eq!(read.unwrap().len(), 2);
    }
}
