//! A run for a person at a terminal: its summary, its criteria, its verdict in one line.

use std::io::{self, Write};
use std::path::Path;

use super::document::terminal::{self, TerminalStyle};
use super::run;
use results::model::Results;

/// Writes the summary; with `directory`, also the paths of the files. Notes that the reader has `heard`, as warnings
/// before the load, are left out.
///
/// # Errors
/// When the writer fails.
pub fn summary(
    results: &Results,
    directory: Option<&Path>,
    heard: &[String],
    style: TerminalStyle,
    output: &mut dyn Write,
) -> io::Result<()> {
    writeln!(output, "\n{}", terminal::text(&run::summary(results, directory, heard), style))
}

/// Writes the verdict with its criteria, without the figures.
///
/// # Errors
/// When the writer fails.
pub fn gate(results: &Results, style: TerminalStyle, output: &mut dyn Write) -> io::Result<()> {
    writeln!(output, "{}", terminal::text(&run::gate(results), style))
}

/// The verdict in one line.
#[must_use]
pub fn verdict_line(results: &Results, style: TerminalStyle) -> String {
    terminal::line(&run::verdict(results), style)
}
