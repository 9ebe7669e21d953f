//! The run log as a table for other programs.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::error::HarnessError;
use crate::read_again::no_log;
use measure::log::LogError;
use results::directory::RunDirectory;
use results::export::{ExportFormat, ExportSummary, ExportTable, export};
use text::files::write_output;

/// Which table to write of which run.
#[derive(Clone, Debug)]
pub struct ExportOptions {
    /// The run's directory.
    pub run_dir: PathBuf,
    /// What a row is.
    pub table: ExportTable,
    /// How it is written.
    pub format: ExportFormat,
}

impl ExportOptions {
    fn log(&self) -> Result<PathBuf, HarnessError> {
        if !self.format.is_built() {
            let remedy =
                "run `cargo install --locked --path . --features parquet`, or export --csv or --jsonl";
            return Err(HarnessError::usage("this bench was built without Parquet").remedy(remedy));
        }
        let log = RunDirectory::open(&self.run_dir).log();
        if log.is_file() { Ok(log) } else { Err(no_log(&self.run_dir)) }
    }
}

/// Writes the table. The inner result lists what could not be read of the log.
///
/// # Errors
/// When the output fails.
pub fn export_to(
    options: &ExportOptions,
    output: &mut (dyn Write + Send),
) -> io::Result<Result<Vec<String>, HarnessError>> {
    let log = match options.log() {
        Ok(log) => log,
        Err(error) => return Ok(Err(error)),
    };
    match export(&log, options.table, options.format, output) {
        Ok(ExportSummary { missing, .. }) => Ok(Ok(missing)),
        Err(LogError::Visitor(error)) => Err(error),
        Err(error) => Ok(Err(HarnessError::of_log(error))),
    }
}

/// Writes the table to a file, whole or not at all; returns what could not be read of the log.
///
/// # Errors
/// When something cannot be read or written.
pub fn export_file(options: &ExportOptions, path: &Path) -> Result<Vec<String>, HarnessError> {
    options.log()?;
    let mut read = None;
    let written = write_output(path, |output| {
        let exported = export_to(options, output)?;
        let failed = exported.is_err();
        read = Some(exported);
        if failed { Err(io::Error::other("the log cannot be read")) } else { Ok(()) }
    });
    match (written, read) {
        (Ok(()), Some(missing)) => missing,
        (_, Some(Err(error))) => Err(error),
        (Err(error), _) => Err(HarnessError::failed(format!("cannot write {}: {error}", path.display()))),
        (Ok(()), None) => Ok(Vec::new()),
    }
}
