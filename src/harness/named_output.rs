//! Writes files that options name.

use std::path::Path;

use text::files::write_output;

use super::error::HarnessError;

/// Writes a text into a file, or to standard output.
pub(super) fn write_named(path: &Path, text: &str) -> Result<(), HarnessError> {
    let written = write_output(path, |output| output.write_all(text.as_bytes()));
    written.map_err(|error| cannot_write(path, &error))
}

/// A file that cannot be written.
pub(super) fn cannot_write(path: &Path, error: &std::io::Error) -> HarnessError {
    HarnessError::failed(format!("{} cannot be written: {error}", path.display()))
}
