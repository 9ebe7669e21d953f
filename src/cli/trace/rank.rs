//! `bench trace rank`: Mistral's ranking of trace points.

use std::path::PathBuf;

use crate::cli::exit::Exit;
use crate::harness::HarnessError;
use crate::report::trace::ranking;

use super::sources::SourceArguments;
use super::{Grouping, words};

/// Rank trace points by the time that they took, as Mistral's script does.
///
/// A line for each name, in seconds: total, longest, average, how often. Times are inclusive: a point counts
/// in the points around it too (`bench trace stats` tells them apart). Of a profile log the table equals that
/// of Mistral's rank_profiled_methods.py to the byte, its omissions included; they are told, and --all counts
/// them. Lines that are none of such a log are counted and told.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct RankArguments {
    #[command(flatten)]
    source: SourceArguments,
    /// What makes a row, of traces that are not in a log.
    #[arg(long, value_enum, default_value_t = Grouping::Name)]
    by: Grouping,
    /// Count also what Mistral's script leaves out (1000 s and more), and keep names with blanks whole.
    #[arg(long)]
    all: bool,
    /// The file to write (default: standard output).
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

pub(super) fn rank(arguments: &RankArguments) -> Result<Exit, HarnessError> {
    let ranking = arguments.source.source().rank(arguments.by.into(), arguments.all)?;
    words(arguments.output.as_deref(), |out| ranking::write(&ranking, out))?;
    Ok(Exit::Ok)
}
