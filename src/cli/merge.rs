//! `bench merge`.

use std::path::PathBuf;
use std::time::Duration;

use base::units::parse_duration;
use harness::merge::{MergeOptions, merge};
use harness::options::Environment;
use harness::stored::{CollectOptions, collect};
use harness::{Event, FinishedRun, HarnessError, Interrupt};

use super::exit::Exit;
use super::gate::{GateArguments, TracesArgument};
use super::output;
use super::progress::ProgressDisplay;
use super::signals::interrupt_by_signals;

/// Make one run of the parts that `bench run --shard` or a launcher's processes made, and judge it.
///
/// The merged run's log has every iteration of all parts, with the number and the trace id that it would have in a run
/// of one machine. Percentiles, errors, criteria and reports are made from it as always. The traces of its slow
/// iterations are fetched with --collect, or later by `bench collect`.
#[derive(Debug, clap::Args)]
pub(super) struct MergeArguments {
    /// The run directories of the parts, or directories that hold them.
    #[arg(required = true, value_name = "DIR")]
    directories: Vec<PathBuf>,
    /// The directory in which to make the merged run's directory.
    #[arg(short, long, alias = "output", value_name = "DIR", default_value = "runs")]
    out: PathBuf,
    /// Merge what there is, although parts are missing or were killed. Such a run cannot pass.
    #[arg(long)]
    partial: bool,
    /// Wait this long for parts that have not ended or are not there yet, such as 2h.
    #[arg(long, value_name = "TIME", default_value = "0s", hide_default_value = true, value_parser = parse_duration)]
    wait: Duration,
    /// Also fetch the traces of the slow iterations from the collector of the deployment.
    #[arg(long)]
    collect: bool,
    /// Take the traces of the slow iterations from this file of `bench receive` or of OpenTelemetry's collector. May be
    /// given several times.
    #[arg(long, value_name = "FILE")]
    from: Vec<PathBuf>,
    /// With --collect: the deployment whose collector has the traces (default: that of the parts).
    #[arg(short, long, value_name = "FILE", requires = "collect")]
    deployment: Option<PathBuf>,
    /// Print only the verdict and the run's directory.
    #[arg(short, long)]
    quiet: bool,
    #[command(flatten)]
    gate: GateArguments,
    #[command(flatten)]
    traces: TracesArgument,
}

pub(super) fn run(arguments: &MergeArguments) -> Result<Exit, HarnessError> {
    let MergeArguments { gate, traces, quiet, .. } = arguments;
    let options = MergeOptions {
        directories: arguments.directories.clone(),
        out: arguments.out.clone(),
        partial: arguments.partial,
        wait: arguments.wait,
        report: gate.report(traces),
    };
    let shown = ProgressDisplay::new(*quiet).sink();
    let mut merged = merge(&options, &shown)?;
    if let Some(run_dir) =
        merged.directory.clone().filter(|_| arguments.collect || !arguments.from.is_empty())
    {
        match traces_of(arguments, run_dir) {
            Ok(collected) => merged = collected,
            // The verdict stands without them.
            Err(error) => shown.event(&Event::Warning(&format!("no traces were fetched: {error}"))),
        }
    }
    gate.print(merged, *quiet)
}

/// Fetches the traces of a merged run; returns it with its causes.
fn traces_of(arguments: &MergeArguments, run_dir: PathBuf) -> Result<FinishedRun, HarnessError> {
    let options = CollectOptions {
        run_dir,
        ids: Vec::new(),
        slowest: 0,
        from: arguments.from.clone(),
        deployment: arguments.deployment.clone().map(Into::into),
        connection: None,
        wait: Duration::ZERO,
        again: false,
        profiles: None,
        report: arguments.gate.report(&arguments.traces),
        environment: Environment::default(),
    };
    let interrupt = Interrupt::new();
    let _listening = interrupt_by_signals(&interrupt, || output::last_words("ended at once"))?;
    Ok(collect(&options, &interrupt, &ProgressDisplay::new(arguments.quiet).sink())?.finished)
}
