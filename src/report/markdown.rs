//! `report.md`: a run for step summaries and comments.

use std::io::{self, Write};

use super::document::markdown;
use super::run;
use results::model::Results;

/// Writes the report.
///
/// # Errors
/// When the writer fails.
pub fn render(results: &Results, output: &mut dyn Write) -> io::Result<()> {
    output.write_all(markdown::text(&run::report(results)).as_bytes())
}
