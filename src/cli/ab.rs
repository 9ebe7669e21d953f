//! `bench ab`.

use std::path::PathBuf;
use std::time::Duration;

use crate::base::units::parse_duration;
use crate::harness::ab::{AbOptions, Compared, PreparedAb, SideOptions};
use crate::harness::{HarnessError, Interrupt};
use crate::report::pairs;
use crate::verdict::paired::Metric;

use super::exit::Exit;
use super::gate::{annotate_criteria, step_summary};
use super::output;
use super::progress::Shown;
use super::run::LoadArguments;
use super::signals::interrupt_by_signals;

/// Compare two builds by rounds that take turns: the gate for performance that holds under noise.
///
/// Runs the scenario against A and B in turn, in random order, and judges the ratio of each pair: what slows the
/// machine for both falls out. After half of the pairs, and after all, it says PASS when B is shown not to be slower
/// by the margin, FAIL when it is shown to be, and INCONCLUSIVE else. It ends early when that is clear.
///
/// Where a round of either side has too few iterations for a percentile, rounds of both are made longer, up to ten
/// times.
///
/// A and B are two deployments (-d A.yaml -d B.yaml), two targets of one (--target-a, --target-b), or two commands
/// that start a build (--base-cmd, --new-cmd); each round starts its build and ends it, with all that it started.
#[derive(Debug, clap::Args)]
pub(super) struct AbArguments {
    /// The scenario file.
    scenario: PathBuf,
    /// A deployment file: given twice, A's and B's; given once, that of both.
    #[arg(short, long, value_name = "FILE")]
    deployment: Vec<PathBuf>,
    /// The target of the deployment that is A, in the place of `default`.
    #[arg(long, value_name = "NAME", requires = "target_b")]
    target_a: Option<String>,
    /// The target that is B.
    #[arg(long, value_name = "NAME", requires = "target_a")]
    target_b: Option<String>,
    /// The command that starts A, by `sh -c`; it runs until it is ended with SIGTERM.
    #[arg(long, value_name = "COMMAND", requires = "new_cmd", conflicts_with = "target_a")]
    base_cmd: Option<String>,
    /// The command that starts B.
    #[arg(long, value_name = "COMMAND", requires = "base_cmd")]
    new_cmd: Option<String>,
    /// The URL that answers once a command's build is ready (default: a connection to the default target).
    #[arg(long, value_name = "URL", requires = "base_cmd")]
    ready: Option<String>,
    /// How long a round lasts, instead of what the scenario says; 30s is a good choice.
    #[arg(long, value_name = "DURATION", value_parser = length)]
    round: Option<Duration>,
    /// A percentile that B is judged by, such as p99 or 'p95(action "log in")' (default: p50 and p95).
    #[arg(long, value_name = "PERCENTILE")]
    metric: Vec<Metric>,
    /// By how many percent B may be slower.
    #[arg(long, value_name = "PERCENT", default_value_t = 10.0, value_parser = margin)]
    margin: f64,
    /// How many pairs there are at most; there is a look after half of them.
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u16).range(10..=1000))]
    pairs: u16,
    /// Exit with 4 when the verdict is INCONCLUSIVE.
    #[arg(long)]
    strict: bool,
    /// Write what B is judged by as JUnit XML: one test case each.
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// The directory in which the directory of the comparison is made.
    #[arg(long, value_name = "DIR", default_value = "runs")]
    out: PathBuf,
    #[command(flatten)]
    load: LoadArguments,
    /// Print no progress and no tables, only the verdict and the directory.
    #[arg(short, long)]
    quiet: bool,
}

fn length(text: &str) -> Result<Duration, String> {
    let length = parse_duration(text).map_err(|complaint| complaint.to_string())?;
    if length.is_zero() {
        Err("a round lasts longer than that; write it such as 30s".to_owned())
    } else {
        Ok(length)
    }
}

fn margin(text: &str) -> Result<f64, String> {
    let percent = text.trim().trim_end_matches('%').trim_end().parse::<f64>().ok();
    percent
        .filter(|percent| (0.0..=1000.0).contains(percent))
        .ok_or_else(|| "write it in percent, such as 10".to_owned())
}

/// Which two sides the arguments mean.
fn sides(arguments: &AbArguments) -> Result<[SideOptions; 2], HarnessError> {
    let named = arguments.target_a.is_some() || arguments.base_cmd.is_some();
    let (a, b) = match (arguments.deployment.as_slice(), named) {
        ([a, b], false) => (Some(a), Some(b)),
        ([one], true) => (Some(one), Some(one)),
        ([], true) => (None, None),
        ([_, _], true) => {
            let text = "two deployments, and targets or commands: what is A, what is B?";
            return Err(HarnessError::usage(text).remedy("give one deployment"));
        }
        ([_, _, ..], _) => {
            return Err(HarnessError::usage("more than two deployments").remedy("give A's and B's"));
        }
        _ => {
            return Err(HarnessError::usage(
                "what is A, what is B? give two deployments (-d A.yaml -d B.yaml), two targets (--target-a, --target-b) or two commands (--base-cmd, --new-cmd)",
            ));
        }
    };
    let side =
        |deployment: Option<&PathBuf>, target: &Option<String>, command: &Option<String>| SideOptions {
            deployment: deployment.map(Into::into),
            target: target.clone(),
            command: command.clone(),
        };
    Ok([side(a, &arguments.target_a, &arguments.base_cmd), side(b, &arguments.target_b, &arguments.new_cmd)])
}

pub(super) fn run(arguments: &AbArguments) -> Result<Exit, HarnessError> {
    let [a, b] = sides(arguments)?;
    let options = AbOptions {
        scenario: arguments.scenario.clone().into(),
        a,
        b,
        ready: arguments.ready.clone(),
        round: arguments.round,
        metrics: arguments.metric.clone(),
        margin_percent: arguments.margin,
        pairs: arguments.pairs,
        load: arguments.load.options(),
        out: arguments.out.clone(),
        junit: arguments.junit.clone(),
        step_summary: step_summary(),
    };
    let shown = Shown::new(arguments.quiet);
    let comparison = PreparedAb::new(options, &shown.sink())?;
    let interrupt = Interrupt::new();
    let listening = interrupt_by_signals(&interrupt, move || output::last_words(&shown.last_words()))?;
    let compared = comparison.run(&interrupt)?;
    drop(listening);
    tell(compared, arguments)
}

fn tell(compared: Compared, arguments: &AbArguments) -> Result<Exit, HarnessError> {
    let Compared { conclusion, paired, directory, fault } = compared;
    let text = pairs::terminal(&paired, output::look());
    if arguments.quiet {
        output::print(text.lines().next().unwrap_or_default());
        output::print(&directory.display().to_string());
    } else {
        output::print(&format!("\n{text}"));
        let path = |name| directory.join(name).display().to_string();
        output::print(&format!("\nreport   {}\nresults  {}", path("ab.html"), path("ab.json")));
    }
    annotate_criteria(&pairs::criteria(&paired));
    fault.map_or(Ok(Exit::of(conclusion, arguments.strict)), Err)
}
