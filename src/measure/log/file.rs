//! The file of a log: by its name, or by the file that was written, which outlives its name.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::LogError;
use super::reader::LogReader;
use text::files::open_regular;

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

    /// The log with this name, to be read by the file that was written to it.
    pub(super) fn written(path: &Path, file: Arc<File>) -> Self {
        Self { path: path.to_path_buf(), written: Some(file) }
    }

    /// Reads it from its beginning.
    pub(super) fn open(&self) -> Result<LogReader<Box<dyn Read>>, LogError> {
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

    /// How long it is now, in bytes; 0 if that is not known.
    pub(super) fn bytes(&self) -> u64 {
        let metadata = match &self.written {
            Some(file) => file.metadata(),
            None => std::fs::metadata(&self.path),
        };
        metadata.map_or(0, |metadata| metadata.len())
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
