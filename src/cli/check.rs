//! `bench check`.

use std::path::PathBuf;

use harness::HarnessError;
use harness::stored::{CheckOptions, check};

use super::exit::Exit;
use super::gate::GateArguments;
use super::runs::run_path;

/// Judge a run again, by its own criteria or by those of a file.
///
/// Prints the criteria as the run did, and exits with the same codes. Nothing in the run's directory is changed.
/// Thresholds of traces are judged by the random sample of traces that the run fetched, if any.
#[derive(Debug, clap::Args)]
pub(super) struct CheckArguments {
    /// The run's directory (default: the newest in runs/).
    #[arg(default_value = "latest", value_parser = run_path())]
    run_dir: PathBuf,
    /// Take the criteria from this scenario, or from a file with only `sla:`, instead of the run's own.
    #[arg(long, value_name = "FILE")]
    sla: Option<PathBuf>,
    /// Print the verdict only.
    #[arg(short, long)]
    quiet: bool,
    /// Print one JSON document on standard output, and nothing else there: as results.json, without the list of iterations.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    gate: GateArguments,
}

pub(super) fn run(arguments: &CheckArguments) -> Result<Exit, HarnessError> {
    let CheckArguments { run_dir, sla, quiet, json, gate } = arguments;
    let sla = sla.as_ref().map(Into::into);
    let (junit, figures) = (gate.junit.clone(), gate.figures());
    let options = CheckOptions { run_dir: run_dir.clone(), sla, junit, figures };
    let judged = check(&options)?;
    if *json { gate.print_judged(judged) } else { gate.tell_criteria(judged, *quiet) }
}
