//! `bench capacity`.

use std::path::PathBuf;
use std::time::Duration;

use base::units::parse_duration;
use harness::capacity::{CapacityOptions, CapacityResult, PreparedCapacity};
use harness::{HarnessError, Interrupt};
use plan::overrides::threshold;
use report::capacity;
use report::document::terminal;

use super::exit::Exit;
use super::gate::{annotate_criteria, step_summary};
use super::output;
use super::progress::ProgressDisplay;
use super::run::LoadArguments;
use super::signals::interrupt_by_signals;
use super::standard_input;
use super::url::rate;

const EXAMPLES: &str = "\
Examples:
  bench capacity order.yaml --threshold 'p99 < 500ms'     how much load it takes, and what stops it
  bench capacity order.yaml --max-rate 5000 --budget 10m  up to a higher rate, for longer
  bench capacity order.yaml --at-least 400                a gate: it must bear 400 iterations per second";

/// Find the highest arrival rate at which a scenario's criteria hold, and what stops the service.
///
/// Runs the scenario's iterations at rates that grow until a criterion breaks, then between the two, until the highest
/// rate that holds and the lowest that breaks are within 5 % and each was seen twice. Iterations are due at their times
/// however slow the service is, so a backlog counts. After a level that breaks it waits until single requests are as
/// fast again, or says that they never are.
///
/// Then the traces of a level at half the capacity and of one above it are compared: which calls wait for one of how many
/// servers, where requests wait before they enter a service, or whose own work grew. Needs a key and a collector, or the
/// spans of OpenTelemetry.
///
/// The scenario's `sla` says what must hold; --threshold adds to it. The search overloads the service for some seconds at
/// a time: --max-rate and --budget bound it.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct CapacityArguments {
    /// The scenario file (`-` for standard input), or `demo`.
    #[arg(value_name = "SCENARIO|demo")]
    scenario: PathBuf,
    /// The deployment file, instead of the one that the scenario names.
    #[arg(short, long, value_name = "FILE")]
    deployment: Option<PathBuf>,
    /// The target of the deployment to use instead of `default`.
    #[arg(long, value_name = "NAME")]
    target: Option<String>,
    /// What every level must meet besides the scenario's criteria, such as 'p99 < 500ms'; may be repeated.
    #[arg(long, value_name = "CONDITION", value_parser = threshold)]
    threshold: Vec<String>,
    /// The rate that the service must bear, in iterations per second: PASS if it does, FAIL if it does not.
    #[arg(long, value_name = "RATE", value_parser = rate)]
    at_least: Option<f64>,
    /// No higher rate is tried, in iterations per second.
    #[arg(long, value_name = "RATE", default_value = "1000", value_parser = rate)]
    max_rate: f64,
    /// The rate to begin with (default: half of what one user gets).
    #[arg(long, value_name = "RATE", value_parser = rate)]
    start: Option<f64>,
    /// How long the search may take.
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = length)]
    budget: Duration,
    /// How long a level lasts at least; at a low rate it lasts longer, for enough iterations.
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = length)]
    level: Duration,
    /// Exit with 4 when the verdict is INCONCLUSIVE.
    #[arg(long)]
    strict: bool,
    /// Write the verdict as JUnit XML.
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// The directory in which to make the directory of the search.
    #[arg(short, long, alias = "output", value_name = "DIR", default_value = "runs")]
    out: PathBuf,
    #[command(flatten)]
    load: LoadArguments,
    /// Print only the verdict and the directory: no progress and no tables.
    #[arg(short, long)]
    quiet: bool,
    /// Print the search's capacity.json on standard output, and nothing else there (`bench schema capacity`).
    #[arg(long)]
    json: bool,
}

fn length(text: &str) -> Result<Duration, String> {
    let length = parse_duration(text).map_err(|complaint| complaint.to_string())?;
    if length < Duration::from_secs(1) {
        Err("at least a second; for example 10s".to_owned())
    } else {
        Ok(length)
    }
}

pub(super) fn run(arguments: &CapacityArguments) -> Result<Exit, HarnessError> {
    let options = CapacityOptions {
        deployment: arguments.deployment.as_ref().map(Into::into),
        target: arguments.target.clone(),
        thresholds: arguments.threshold.clone(),
        budget: arguments.budget,
        level: arguments.level,
        first_per_s: arguments.start,
        highest_per_s: arguments.max_rate,
        at_least_per_s: arguments.at_least,
        load: arguments.load.options_of(Some(&arguments.scenario))?,
        out: arguments.out.clone(),
        junit: arguments.junit.clone(),
        step_summary: step_summary(),
        ..CapacityOptions::new(standard_input::scenario(&arguments.scenario)?)
    };
    let shown = ProgressDisplay::new(arguments.quiet);
    let search = PreparedCapacity::new(options, &shown.sink())?;
    let interrupt = Interrupt::new();
    let listening = interrupt_by_signals(&interrupt, move || output::last_words(&shown.last_words()))?;
    let searched = search.run(&interrupt)?;
    drop(listening);
    print(searched, arguments)
}

fn print(searched: CapacityResult, arguments: &CapacityArguments) -> Result<Exit, HarnessError> {
    let CapacityResult { conclusion, found, directory, heard, fault } = searched;
    if arguments.json {
        output::deliver_file(&directory.join("capacity.json"))?;
        return fault.map_or(Ok(super::gate::told(conclusion, arguments.strict)), Err);
    }
    if arguments.quiet {
        output::print(&terminal::line(&capacity::headline(&found), output::style()));
        output::print(&directory.display().to_string());
    } else {
        output::print(&format!("\n{}", capacity::terminal(&found, &heard, output::style())));
        let path = |name| directory.join(name).display().to_string();
        output::print(&format!("\nreport   {}\nresults  {}", path("capacity.html"), path("capacity.json")));
    }
    annotate_criteria(&capacity::criteria(&found));
    fault.map_or(Ok(super::gate::told(conclusion, arguments.strict)), Err)
}
