//! The end of the run log: pending records, how the run ended, and whether all of it could be stored.

use std::io;

use measure::log::{End, LogFile, LogWriter};
use results::directory::RunDirectory;

/// The record of a run that has ended.
pub(super) struct ClosedRunLog {
    /// The log, readable even if its name is gone.
    pub(super) log: LogFile,
    /// How the run ended, even if the log lacks it.
    pub(super) end: End,
    /// True if setup failed.
    pub(super) setup_failed: bool,
    /// Why the log is not complete on disk.
    pub(super) unsaved: Option<String>,
}

/// Writes pending records and then how the run ended: only then the number of iterations in the log is known. If
/// something cannot be written, the run failed.
pub(super) fn close(mut log: LogWriter, mut end: End, directory: &RunDirectory) -> ClosedRunLog {
    let sealed = log.seal();
    for (number, issued) in end.issued.iter_mut().enumerate() {
        issued.unrecorded += log.lost(number);
    }
    let path = directory.log();
    let cannot = |error: &io::Error| format!("{} cannot be written: {error}", path.display());
    if let Err(error) = &sealed {
        end.fail(cannot(error));
    }
    let written = log.end(&end);
    if let Err(error) = &written {
        end.fail(cannot(error));
        // If anything can still be written, it says that the run failed.
        let _ = log.end(&end);
    }
    end.rows = Some(log.rows());
    let file = log.file().unwrap_or_else(|| LogFile::at(&path));
    drop(log);
    let unsaved = if file.is_in_place() {
        sealed.and(written).err().as_ref().map(cannot)
    } else if directory.path().is_dir() {
        Some(format!("{} was deleted or replaced during the run", path.display()))
    } else {
        Some(format!("the run's directory {} was deleted during the run", directory.path().display()))
    };
    if let Some(why) = &unsaved {
        end.fail(why.clone());
    }
    ClosedRunLog { log: file, end, setup_failed: false, unsaved }
}
