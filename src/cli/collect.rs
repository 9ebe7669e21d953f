//! `bench collect`.

use std::path::PathBuf;
use std::time::Duration;

use base::secret::Secret;
use base::units::parse_duration;
use harness::options::Environment;
use harness::stored::{CollectOptions, collect};
use harness::{HarnessError, Interrupt};

use super::exit::Exit;
use super::gate::{GateArguments, TracesArgument};
use super::output::{self, say};
use super::profiles::ProfilesArgument;
use super::progress::ProgressDisplay;
use super::runs::run_path;
use super::signals::interrupt_by_signals;

/// Fetch traces of a run later, and write its report again.
///
/// For a collector that was down when the load ended, for spans that came late, and for iterations that the run did
/// not choose. Asks the collector of the run's deployment; looks first at what the run's own receiver has kept.
/// Traces that are stored and complete are not fetched again.
#[derive(Debug, clap::Args)]
pub(super) struct CollectArguments {
    /// The run's directory (default: the newest in runs/).
    #[arg(default_value = "latest", value_parser = run_path())]
    run_dir: PathBuf,
    /// Trace ids of iterations, or their beginnings (default: those that the run would choose).
    #[arg(value_name = "ID")]
    ids: Vec<String>,
    /// Also the traces of the N slowest iterations.
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true, value_parser = clap::value_parser!(u32).range(0..=100_000))]
    slowest: u32,
    /// Take traces from this file (may be repeated): of `bench receive`, or of OpenTelemetry's collector.
    #[arg(long, value_name = "FILE")]
    from: Vec<PathBuf>,
    /// The deployment whose collector has the traces (default: the run's own).
    #[arg(short, long, value_name = "FILE")]
    deployment: Option<PathBuf>,
    /// The collector.
    #[arg(long, value_name = "URL", conflicts_with = "deployment")]
    connection_string: Option<String>,
    /// Wait this long for traces that are not complete, such as 10s.
    #[arg(long, value_name = "TIME", default_value = "0s", hide_default_value = true, value_parser = time)]
    wait: Duration,
    /// Fetch traces again that are stored and complete.
    #[arg(long)]
    again: bool,
    /// Print only the verdict and the directory.
    #[arg(short, long)]
    quiet: bool,
    #[command(flatten)]
    gate: GateArguments,
    #[command(flatten)]
    traces: TracesArgument,
    #[command(flatten)]
    profiles: ProfilesArgument,
}

fn time(text: &str) -> Result<Duration, String> {
    parse_duration(text).map_err(|complaint| complaint.to_string())
}

pub(super) fn run(arguments: &CollectArguments) -> Result<Exit, HarnessError> {
    let CollectArguments { gate, traces, quiet, .. } = arguments;
    let options = CollectOptions {
        run_dir: arguments.run_dir.clone(),
        ids: arguments.ids.clone(),
        slowest: arguments.slowest as usize,
        from: arguments.from.clone(),
        deployment: arguments.deployment.clone().map(Into::into),
        connection: arguments.connection_string.as_deref().map(Secret::new),
        wait: arguments.wait,
        again: arguments.again,
        profiles: arguments.profiles.source(),
        report: gate.report(traces),
        environment: Environment::default(),
    };
    let interrupt = Interrupt::new();
    let listening = interrupt_by_signals(&interrupt, || output::last_words("ended at once"))?;
    let collected = collect(&options, &interrupt, &ProgressDisplay::new(*quiet).sink())?;
    drop(listening);
    let absent = collected.wanted - collected.complete - collected.partial;
    say(&format!(
        "{} of {} wanted traces are complete now, {} were before; {} are incomplete, of {absent} there is nothing",
        collected.complete, collected.wanted, collected.before, collected.partial
    ));
    gate.print(collected.finished, *quiet)
}
