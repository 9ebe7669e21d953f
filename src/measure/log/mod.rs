//! The run log: append-only, versioned, checksummed.
//!
//! ```text
//! "BENCHLOG" version:u16        then frames:
//! length:u32 kind:u8 crc32(kind, payload):u32 payload          (little-endian)
//! ```
//! Samples are blocks of columns ([`super::codec`]). The last frame says how many iterations the log
//! must hold. Every result can be made from this file alone. Only this module knows the format, both
//! ways.
//!
//! Version 3: samples in columns. The versions before had rows. Logs of earlier builds of version 3
//! have no number of iterations in their last frame.

mod reader;
#[cfg(test)]
mod tests;
mod writer;

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::base::files::open_regular;

use super::errors::NumberedFailure;
use super::rows::Rows;

pub use reader::{Flaws, LogReader};
pub use writer::{LogWriter, Sink};

const MAGIC: &[u8; 8] = b"BENCHLOG";
/// The version that this build writes and reads.
pub const VERSION: u16 = 3;
/// The largest payload that is read or written, in bytes.
pub const PAYLOAD_BYTES_MAX: usize = 16 << 20;
/// The log's name in a run directory.
pub const FILE_NAME: &str = "run.log";
/// How long samples wait for others to share a block with. With what they waited in their worker, the
/// log is at most a second behind.
pub const BLOCK_EVERY: Duration = Duration::from_millis(400);
/// The key in the last frame's JSON that says how many iterations the log must hold.
pub const ROWS_KEY: &str = "rows";

const KIND_HEADER: u8 = 1;
const KIND_SAMPLES: u8 = 2;
const KIND_FAILURES: u8 = 3;
const KIND_END: u8 = 4;
/// Length, kind and checksum.
const FRAME_HEAD_BYTES: usize = 9;

/// One frame of the log.
#[derive(Debug, PartialEq)]
pub enum Frame {
    /// What ran: JSON, the first frame.
    Header(Vec<u8>),
    /// Samples, in order of their numbers within the frame.
    Samples(Rows),
    /// Texts that samples refer to; always before the samples.
    Failures(Vec<NumberedFailure>),
    /// How it ended: JSON, the last frame, with the number of iterations under [`ROWS_KEY`].
    End(Vec<u8>),
}

/// Why a log cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// It cannot be opened.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: String,
        /// The system's words.
        source: io::Error,
    },
    /// The system gives no more of it.
    #[error(
        "{path} cannot be read beyond byte {at}: {source}; copy what can be read of it to another disk, and use the copy"
    )]
    Unreadable {
        /// The file.
        path: String,
        /// Everything before it could be read.
        at: u64,
        /// The system's words.
        source: io::Error,
    },
    /// It is something else.
    #[error("{path} is not a run log of bench")]
    Foreign {
        /// The file.
        path: String,
    },
    /// It is of another version.
    #[error(
        "{path} has version {found} of the run log; this bench reads version {VERSION}: use the bench that wrote it"
    )]
    Version {
        /// The file.
        path: String,
        /// Its version.
        found: u16,
    },
}

impl From<LogError> for io::Error {
    fn from(error: LogError) -> Self {
        Self::other(error)
    }
}

/// A log to be read, as often as is needed: by its name, or by the file that was written, which can be
/// read even when its name is gone.
#[derive(Clone, Debug)]
pub struct LogFile {
    path: PathBuf,
    written: Option<Arc<File>>,
}

impl LogFile {
    /// The log with this name.
    #[must_use]
    pub fn at(path: &Path) -> Self {
        Self { path: path.to_path_buf(), written: None }
    }

    /// Reads it from its beginning.
    ///
    /// # Errors
    /// No log, another version, another file.
    pub fn open(&self) -> Result<LogReader<Box<dyn Read>>, LogError> {
        let name = self.path.display().to_string();
        let input: Box<dyn Read> = match &self.written {
            Some(file) => Box::new(FromStart { file: Arc::clone(file), at: 0 }),
            None => {
                let file = open_regular(&self.path);
                Box::new(file.map_err(|source| LogError::Io { path: name.clone(), source })?)
            }
        };
        LogReader::new(input, &name)
    }

    /// Its name.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// True when its name leads to the file that was written.
    #[must_use]
    pub fn is_in_place(&self) -> bool {
        let there = std::fs::metadata(&self.path);
        match (there, self.written.as_ref().map(|file| file.metadata())) {
            (Ok(there), Some(Ok(written))) => same_file(&there, &written),
            (there, _) => there.is_ok(),
        }
    }
}

/// Reads a file that others use too: without its position.
struct FromStart {
    file: Arc<File>,
    at: u64,
}

impl Read for FromStart {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let read = read_at(&self.file, bytes, self.at)?;
        self.at += read as u64;
        Ok(read)
    }
}

#[cfg(unix)]
fn read_at(file: &File, bytes: &mut [u8], at: u64) -> io::Result<usize> {
    std::os::unix::fs::FileExt::read_at(file, bytes, at)
}

#[cfg(windows)]
fn read_at(file: &File, bytes: &mut [u8], at: u64) -> io::Result<usize> {
    std::os::windows::fs::FileExt::seek_read(file, bytes, at)
}

#[cfg(unix)]
fn same_file(one: &std::fs::Metadata, other: &std::fs::Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}

#[cfg(not(unix))]
fn same_file(_: &std::fs::Metadata, _: &std::fs::Metadata) -> bool {
    true
}

fn checksum(kind: u8, payload: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&[kind]);
    hasher.update(payload);
    hasher.finalize()
}
