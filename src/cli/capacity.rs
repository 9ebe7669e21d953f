//! `bench capacity`.

use std::path::PathBuf;

use config::capacity::SearchTime;
use config::runner::RateText;
use harness::capacity::{CapacityOptions, CapacityResult, PreparedCapacity, SearchSettings};
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
/// At last the service is overloaded for some seconds, to see how it comes back while a lower load goes on.
///
/// The scenario's `sla` says what must hold; --threshold adds to it. Its `capacity` may hold the settings of the search. The
/// search overloads the service for some seconds at a time: --max-rate and --budget bound it.
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
    /// What every level must meet besides the scenario's criteria, such as 'p99 < 500ms', or what the search must find:
    /// 'capacity >= 400/s'; may be repeated.
    #[arg(long, value_name = "CONDITION", value_parser = condition)]
    threshold: Vec<SearchCondition>,
    /// The rate that the service must bear, in iterations per second: PASS if it does, FAIL if it does not. The same as
    /// --threshold 'capacity >= RATE'.
    #[arg(long, value_name = "RATE", value_parser = RateText::parse)]
    at_least: Option<RateText>,
    /// No higher rate is tried, in iterations per second (default: `capacity` in the scenario, or 1000).
    #[arg(long, value_name = "RATE", value_parser = RateText::parse)]
    max_rate: Option<RateText>,
    /// The rate to begin with (default: `capacity` in the scenario, or half of what one user gets).
    #[arg(long, value_name = "RATE", value_parser = RateText::parse)]
    start: Option<RateText>,
    /// How long the search may take (default: `capacity` in the scenario, or 5m).
    #[arg(long, value_name = "DURATION", value_parser = SearchTime::parse)]
    budget: Option<SearchTime>,
    /// How long a level lasts at least (default: `capacity` in the scenario, or 10s); at a low rate it lasts longer, for
    /// enough iterations.
    #[arg(long, value_name = "DURATION", value_parser = SearchTime::parse)]
    level: Option<SearchTime>,
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

/// A condition of each level, or of the answer.
#[derive(Clone, Debug, PartialEq)]
enum SearchCondition {
    Level(String),
    /// The service must bear this many iterations per second.
    AtLeast(f64),
}

fn condition(text: &str) -> Result<SearchCondition, String> {
    let Some(rest) = text.trim().strip_prefix("capacity") else {
        return threshold(text).map(SearchCondition::Level).map_err(|complaint| complaint.to_string());
    };
    let least = rest.trim_start().strip_prefix(">=").and_then(|least| RateText::parse(least).ok());
    let least = least.map(|rate| SearchCondition::AtLeast(rate.0));
    least.ok_or_else(|| "write it as 'capacity >= 400/s'".to_owned())
}

impl CapacityArguments {
    /// The conditions of each level.
    fn of_levels(&self) -> Vec<String> {
        let all = self.threshold.iter();
        all.filter_map(|one| match one {
            SearchCondition::Level(condition) => Some(condition.clone()),
            SearchCondition::AtLeast(_) => None,
        })
        .collect()
    }

    /// The highest rate that it must bear.
    fn least_per_s(&self) -> Option<f64> {
        let all = self.threshold.iter();
        let of_thresholds = all.filter_map(|one| match one {
            SearchCondition::Level(_) => None,
            SearchCondition::AtLeast(least) => Some(*least),
        });
        of_thresholds.chain(self.at_least.map(|rate| rate.0)).reduce(f64::max)
    }
}

pub(super) fn run(arguments: &CapacityArguments) -> Result<Exit, HarnessError> {
    let options = CapacityOptions {
        deployment: arguments.deployment.as_ref().map(Into::into),
        target: arguments.target.clone(),
        thresholds: arguments.of_levels(),
        settings: SearchSettings {
            at_least_per_s: arguments.least_per_s(),
            highest_per_s: arguments.max_rate.map(|rate| rate.0),
            first_per_s: arguments.start.map(|rate| rate.0),
            budget: arguments.budget.map(|time| time.0),
            level: arguments.level.map(|time| time.0),
        },
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_threshold_is_of_each_level_or_of_the_answer() {
        for (text, expected) in [
            ("p99 < 500ms", Some(SearchCondition::Level("p99 < 500ms".to_owned()))),
            ("capacity >= 400/s", Some(SearchCondition::AtLeast(400.0))),
            (" capacity>=2.5", Some(SearchCondition::AtLeast(2.5))),
            ("capacity > 400/s", None),
            ("capacity >= many", None),
            ("p99 <", None),
        ] {
            assert_eq!(condition(text).ok(), expected, "{text}");
        }
    }
}
