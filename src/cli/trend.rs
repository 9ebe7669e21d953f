//! `bench trend`.

use std::path::PathBuf;

use harness::{HarnessError, runs, stored};
use report::document::terminal;
use report::trend;

use super::exit::Exit;
use super::output;

const EXAMPLES: &str = "\
Examples:
  bench trend                        the runs in runs/
  bench trend nightly --markdown     for a wiki or a job's summary
  bench trend nightly --json | jq '.groups[0].changes'";

/// Show how the percentiles of stored runs changed over time, and from which run on.
///
/// Runs are compared with those of the same scenario, load, targets and machine. A change is one of the level: an outlier is
/// none, and with no change in a group, one is named in one of a hundred. Each is shown with the run with which it began,
/// the bounds of how large it is, and the trace points that take longer in typical iterations from then on.
///
/// At least twelve runs are needed, and about three of them after the change. Nothing is sent, and no file is written.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct TrendArguments {
    /// The directory of the runs.
    #[arg(value_name = "DIR", default_value = runs::DIRECTORY)]
    directory: PathBuf,
    /// Print Markdown.
    #[arg(long, conflicts_with = "json")]
    markdown: bool,
    /// Print one JSON document instead of words: `bench schema trend`.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &TrendArguments) -> Result<Exit, HarnessError> {
    let found = stored::trend(&arguments.directory)?;
    if arguments.json {
        let json = trend::json(&found);
        let json = json.map_err(|error| HarnessError::failed(format!("cannot write JSON: {error}")))?;
        output::deliver_json(&json)?;
    } else if arguments.markdown {
        output::deliver(&trend::markdown(&found))?;
    } else {
        output::show(&terminal::text(&trend::document(&found), output::style()))?;
    }
    Ok(Exit::Ok)
}
