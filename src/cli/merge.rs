//! `bench merge`.

use std::path::PathBuf;

use crate::harness::HarnessError;
use crate::harness::merge::{MergeOptions, merge};

use super::exit::Exit;
use super::gate::{GateArguments, TracesArgument};
use super::progress::Shown;

/// Make one run of the parts that `bench run --shard` or a launcher's processes made, and judge it.
///
/// The merged run's log has every iteration of all parts, with the number and the trace id that it would have in a run of
/// one machine; percentiles, errors, criteria and reports are made from it as always. `bench collect` then fetches the
/// traces of its slow iterations.
#[derive(Debug, clap::Args)]
pub(super) struct MergeArguments {
    /// The run directories of the parts, or directories that hold them.
    #[arg(required = true, value_name = "DIR")]
    directories: Vec<PathBuf>,
    /// The directory in which to make the merged run's directory.
    #[arg(long, value_name = "DIR", default_value = "runs")]
    out: PathBuf,
    /// Merge what there is, although parts are missing or were killed. Such a run cannot pass.
    #[arg(long)]
    partial: bool,
    /// Print only the verdict and the run's directory.
    #[arg(short, long)]
    quiet: bool,
    #[command(flatten)]
    gate: GateArguments,
    #[command(flatten)]
    traces: TracesArgument,
}

pub(super) fn run(arguments: &MergeArguments) -> Result<Exit, HarnessError> {
    let MergeArguments { directories, out, partial, quiet, gate, traces } = arguments;
    let options = MergeOptions {
        directories: directories.clone(),
        out: out.clone(),
        partial: *partial,
        report: gate.report(traces),
    };
    let merged = merge(&options, &Shown::new(*quiet).sink())?;
    gate.print(merged, *quiet)
}
