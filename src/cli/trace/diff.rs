//! `bench trace diff`: two traces side by side.

use std::path::PathBuf;

use crate::exit::Exit;
use harness::HarnessError;
use report::document::terminal;
use report::trace::diff;

use super::sources::SourceArguments;
use super::{output, words};

/// Compare two traces: calls and times of each kind of point, and attributes that differ.
///
/// Points are aligned by the path of kinds above them, and sorted by the difference of own time. Name the traces as in
/// `bench trace show`: two ids, two files, or a run's directory with two ids.
#[derive(Debug, clap::Args)]
pub(crate) struct DiffArguments {
    #[command(flatten)]
    source: SourceArguments,
    /// JSON, with all rows.
    #[arg(long)]
    json: bool,
    /// How many rows to print.
    #[arg(long, value_name = "N", default_value_t = 30)]
    limit: usize,
    /// The file to write (default: standard output).
    #[arg(short, long, alias = "out", value_name = "FILE")]
    output: Option<PathBuf>,
}

pub(super) fn diff(arguments: &DiffArguments) -> Result<Exit, HarnessError> {
    let found = arguments.source.source().diff()?;
    let path = crate::output::file(arguments.output.as_ref());
    if arguments.json {
        output(path, |out| diff::json(&found, out))?;
    } else {
        let style = if path.is_some() { terminal::TerminalStyle::default() } else { crate::output::style() };
        let document = diff::document(&found, arguments.limit);
        words(path, |out| writeln!(out, "{}", terminal::text(&document, style)))?;
    }
    Ok(Exit::Ok)
}
