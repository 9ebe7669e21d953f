//! `bench run`.

use std::net::SocketAddr;
use std::path::PathBuf;

use crate::harness::live::otlp_url;
use crate::harness::options::{Environment, WatchOptions};
use crate::harness::{HarnessError, Interrupt, LoadOptions, PreparedRun, RunOptions};

use crate::base::complaint::Complaint;
use crate::plan::given::Given;

use super::exit::Exit;
use super::gate::{GateArguments, TracesArgument};
use super::output;
use super::progress::Shown;
use super::signals::interrupt_by_signals;

/// Run a scenario and report what it found.
///
/// Checks the files, then whether targets and collector answer, then makes the load. Each run has a
/// separate directory with results.json, report.html, the run log and the fetched traces. Ctrl-C stops
/// the run gracefully and reports what ran; a second Ctrl-C ends it at once, and `bench report`
/// recovers what was recorded.
#[derive(Debug, clap::Args)]
pub(super) struct RunArguments {
    /// The scenario file.
    scenario: PathBuf,
    /// The deployment file, instead of the one that the scenario names.
    #[arg(short, long, value_name = "FILE")]
    deployment: Option<PathBuf>,
    /// The directory in which to make the run's directory.
    #[arg(long, value_name = "DIR", default_value = "runs")]
    out: PathBuf,
    #[command(flatten)]
    load: LoadArguments,
    /// After the load, also write the client's own points of the fetched traces to the collector: its other readers
    /// then show iteration, actions and phases above the services' points.
    #[arg(long)]
    publish: bool,
    /// Print only the verdict and the run's directory: no progress and no tables.
    #[arg(short, long)]
    quiet: bool,
    #[command(flatten)]
    gate: GateArguments,
    #[command(flatten)]
    traces: TracesArgument,
    #[command(flatten)]
    watch: WatchArguments,
}

/// Changes to a load that need no change to its scenario.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct LoadArguments {
    /// Set a variable that the scenario declares to another value, as text (may be repeated).
    ///
    /// Other users of the machine can read a command line. For a secret, write NAME=@FILE (the first line of a file)
    /// or NAME=env:VARIABLE: neither is in any output, nor is the value of a variable that the scenario declares as a
    /// reference. NAME==VALUE takes the rest as it is, also if it begins with `@`, `env:` or `=`.
    #[arg(long, value_name = "NAME=VALUE", value_parser = name_and_value)]
    set: Vec<(String, Given)>,
    /// Switch profiling off: initialise no profiler and send no trace headers.
    #[arg(long)]
    no_profile: bool,
    /// How many threads make the load (default: one for each core).
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    workers: Option<u32>,
}

impl LoadArguments {
    pub(super) fn options(&self) -> LoadOptions {
        LoadOptions {
            set: self.set.iter().cloned().collect(),
            no_profile: self.no_profile,
            workers: self.workers,
            environment: Environment::default(),
        }
    }
}

/// How to watch a load while it runs.
#[derive(Debug, clap::Args)]
struct WatchArguments {
    /// Serve OpenMetrics at http://ADDRESS/metrics while the load runs, with trace ids as exemplars.
    ///
    /// Port 0 chooses a free port, which is printed.
    #[arg(long, value_name = "ADDRESS")]
    metrics: Option<SocketAddr>,
    /// Push metrics with OTLP over HTTP, with trace ids as exemplars, every five seconds and at the end.
    ///
    /// The base URL of the receiver, such as http://127.0.0.1:4318; `v1/metrics` is added if it is missing.
    #[arg(long, value_name = "URL", value_parser = otlp_url)]
    otlp: Option<String>,
}

fn name_and_value(text: &str) -> Result<(String, Given), Complaint> {
    Given::parse(text, &|name| Environment::default().get(name))
}

pub(super) fn run(arguments: &RunArguments) -> Result<Exit, HarnessError> {
    let RunArguments { scenario, deployment, out, load, publish, quiet, gate, traces, watch } = arguments;
    let options = RunOptions {
        scenario: scenario.into(),
        deployment: deployment.as_ref().map(Into::into),
        load: load.options(),
        out: out.clone(),
        publish: *publish,
        report: gate.report(traces),
        watch: WatchOptions { metrics: watch.metrics, otlp: watch.otlp.clone() },
    };
    let shown = Shown::new(*quiet);
    let run = PreparedRun::new(options, &shown.sink())?;
    let interrupt = Interrupt::new();
    let listening = interrupt_by_signals(&interrupt, move || output::last_words(&shown.last_words()))?;
    let finished = run.run(&interrupt)?;
    drop(listening);
    gate.print(finished, *quiet)
}
