//! `bench trace rank`: Mistral's ranking of trace points.

use std::path::PathBuf;

use crate::exit::Exit;
use crate::say;
use harness::HarnessError;
use report::trace::{fetched, ranking};

use super::sources::SourceArguments;
use super::{Grouping, words};

/// Rank trace points by their time, as Mistral's script does: `bench trace rank LOG [REPORT]`.
///
/// One line for each name, in seconds: total, longest, average, number of calls. Times are inclusive: the time of a
/// point also counts in the points around it (`bench trace stats` separates them). For a profile log the table equals
/// that of Mistral's rank_profiled_methods.py to the byte, including its omissions. They are reported, and --all counts
/// them. Lines that are not part of such a log are counted and reported. A second file that does not exist is the one
/// to write, as for the script.
#[derive(Debug, clap::Args)]
pub(crate) struct RankArguments {
    #[command(flatten)]
    source: SourceArguments,
    /// What makes a row, for traces that are not in a log.
    #[arg(long, value_enum, default_value_t = Grouping::Name)]
    by: Grouping,
    /// Also count what Mistral's script leaves out (1000 s and more), and keep names with blanks whole.
    #[arg(long)]
    all: bool,
    /// Count each trace of a run once. By default each counts for the iterations like it: half are slow ones.
    #[arg(long)]
    unweighted: bool,
    /// Also show the shortest duration, which the script leaves out.
    #[arg(long)]
    min: bool,
    /// The file to write (default: standard output).
    #[arg(short, long, alias = "out", value_name = "FILE")]
    output: Option<PathBuf>,
}

pub(super) fn rank(arguments: &RankArguments) -> Result<Exit, HarnessError> {
    let mut source = arguments.source.source();
    let output = arguments.output.clone().or_else(|| source.take_output());
    let (ranking, weighted) = source.rank(arguments.by.into(), arguments.all, !arguments.unweighted)?;
    if let Some(weighted) = &weighted {
        say(&fetched::weighting(weighted));
    }
    words(crate::output::file(output.as_ref()), |out| ranking::write(&ranking, arguments.min, out))?;
    Ok(Exit::Ok)
}
