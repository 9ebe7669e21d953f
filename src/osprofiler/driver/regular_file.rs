//! Opening the file of a collector.

use std::fs::File;
use std::io;
use std::path::Path;

/// Opens a regular file: a pipe with this name would never let go.
pub(super) fn regular(path: &Path) -> io::Result<File> {
    if !std::fs::metadata(path)?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
    }
    File::open(path)
}
