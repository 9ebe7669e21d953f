//! `bench ab`.

use std::path::PathBuf;
use std::time::Duration;

use base::units::parse_duration;
use harness::ab::{AbOptions, AbResult, PreparedAb, SideOptions};
use harness::url_run::UrlRun;
use harness::{HarnessError, Interrupt, YamlFile};
use report::document::terminal;
use report::pairs;
use verdict::paired::AbMetric;

use super::exit::Exit;
use super::gate::{annotate_criteria, step_summary};
use super::output;
use super::progress::ProgressDisplay;
use super::run::LoadArguments;
use super::signals::interrupt_by_signals;
use super::url::{ShapeArguments, UrlArguments};

/// Compare two builds in alternating rounds: a performance gate that works on noisy machines.
///
/// Runs the scenario against A and B in pairs of rounds, in random order, and judges the ratio of each pair, so
/// whatever slows the machine affects both. After half of the pairs, and after all, the verdict is PASS if the data
/// show that B is not slower by the margin, FAIL if they show that it is, and INCONCLUSIVE otherwise. The comparison
/// ends early if the verdict is clear.
///
/// If a round of either side has too few iterations for a percentile, the rounds of both sides get longer, up to ten
/// times.
///
/// B must also keep the scenario's own criteria: if it fails one in more rounds than chance explains, the verdict is
/// FAIL, and the report says whether A fails it too.
///
/// A and B are two deployments (-d A.yaml -d B.yaml), two targets of one (--target-a, --target-b), or two commands
/// that start a build (--base-cmd, --new-cmd). Each round starts its build and ends it with all its processes. Two URLs need
/// no file: `bench ab http://old:8080/orders http://new:8080/orders`.
#[derive(Debug, clap::Args)]
pub(super) struct AbArguments {
    /// The scenario file, or the URL of A.
    #[arg(value_name = "SCENARIO|URL_A")]
    scenario: PathBuf,
    /// The URL of B, after that of A: a comparison without any file. What their paths end with is the request.
    #[arg(value_name = "URL_B", conflicts_with_all = ["deployment", "target_a", "base_cmd"])]
    url_b: Option<String>,
    #[command(flatten)]
    shape: ShapeArguments,
    #[command(flatten)]
    url: UrlArguments,
    /// A deployment file: given twice, that of A and that of B; given once, that of both.
    #[arg(short, long, value_name = "FILE")]
    deployment: Vec<PathBuf>,
    /// The target of the deployment to use for A, instead of `default`.
    #[arg(long, value_name = "NAME", requires = "target_b")]
    target_a: Option<String>,
    /// The target to use for B.
    #[arg(long, value_name = "NAME", requires = "target_a")]
    target_b: Option<String>,
    /// The command that starts A, run with `sh -c`; SIGTERM stops it.
    #[arg(long, value_name = "COMMAND", requires = "new_cmd", conflicts_with = "target_a")]
    base_cmd: Option<String>,
    /// The command that starts B.
    #[arg(long, value_name = "COMMAND", requires = "base_cmd")]
    new_cmd: Option<String>,
    /// A URL that answers when a command's build is ready (default: a connection to the default target).
    #[arg(long, value_name = "URL", requires = "base_cmd")]
    ready: Option<String>,
    /// The length of a round, instead of that in the scenario; 30s is a good choice.
    #[arg(long, value_name = "DURATION", value_parser = length)]
    round: Option<Duration>,
    /// What to judge B by, such as p99, 'p95(action "log in")' or 'count(trace "db")' (default: p50 and p95).
    ///
    /// count(trace …), errors(trace …) and depth(trace …) are counts per iteration, from random samples of traces. Any
    /// increase that the traces show is FAIL, whatever the margin, often after three pairs of short rounds.
    #[arg(long, value_name = "METRIC")]
    metric: Vec<AbMetric>,
    /// By how many percent B may be slower. Counts must not increase at all.
    #[arg(long, value_name = "PERCENT", default_value_t = 10.0, value_parser = margin)]
    margin: f64,
    /// The largest number of pairs, at least 10; the results are also judged after half of them.
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u16).range(10..=1000))]
    pairs: u16,
    /// Exit with 4 when the verdict is INCONCLUSIVE.
    #[arg(long)]
    strict: bool,
    /// Write the criteria for B as JUnit XML: one test case each.
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// The directory in which to make the directory of the comparison.
    #[arg(short, long, alias = "output", value_name = "DIR", default_value = "runs")]
    out: PathBuf,
    #[command(flatten)]
    load: LoadArguments,
    /// Print only the verdict and the directory: no progress and no tables.
    #[arg(short, long)]
    quiet: bool,
    /// Print the comparison's ab.json on standard output, and nothing else there (`bench schema ab`).
    #[arg(long)]
    json: bool,
}

fn length(text: &str) -> Result<Duration, String> {
    let length = parse_duration(text).map_err(|complaint| complaint.to_string())?;
    if length.is_zero() {
        Err("a round must be longer than that; for example 30s".to_owned())
    } else {
        Ok(length)
    }
}

fn margin(text: &str) -> Result<f64, String> {
    let percent = text.trim().trim_end_matches('%').trim_end().parse::<f64>().ok();
    percent
        .filter(|percent| (0.0..=1000.0).contains(percent))
        .ok_or_else(|| "write a percentage from 0 to 1000, such as 10".to_owned())
}

/// The scenario and the two sides of a comparison of URLs; `None` if files are compared.
fn urls(arguments: &AbArguments) -> Result<Option<(YamlFile, [SideOptions; 2])>, HarnessError> {
    let (shape, url) = (&arguments.shape, &arguments.url);
    let a = arguments.scenario.to_str().filter(|text| UrlRun::is_url(text));
    let (a, b) = match (a, arguments.url_b.as_deref()) {
        (Some(a), Some(b)) if UrlRun::is_url(b) => (a, b),
        (Some(_), _) => {
            return Err(HarnessError::usage("the URL of B is missing")
                .remedy("write it after that of A: bench ab http://old:8080/orders http://new:8080/orders"));
        }
        (None, Some(b)) => {
            return Err(HarnessError::usage(format!("`{b}` after a scenario"))
                .remedy("name one scenario, or two URLs"));
        }
        (None, None) => {
            let option = shape.first_given().or(url.first_given());
            return option.map_or(Ok(None), |option| {
                Err(HarnessError::usage(format!("{option} is for URLs")).remedy("write it into the scenario"))
            });
        }
    };
    let pair = url.request(a)?.pair(b, &shape.of_rounds()?)?;
    let side = |deployment: YamlFile| SideOptions { deployment: Some(deployment), ..SideOptions::default() };
    Ok(Some((pair.scenario, pair.deployments.map(side))))
}

/// The two sides that the arguments name.
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
                "what is A, what is B? give two deployments (-d A.yaml -d B.yaml), two targets (--target-a, --target-b), two commands (--base-cmd, --new-cmd) or two URLs",
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
    let (scenario, [a, b]) = match urls(arguments)? {
        Some(compared) => compared,
        None => (arguments.scenario.clone().into(), sides(arguments)?),
    };
    let options = AbOptions {
        scenario,
        a,
        b,
        ready: arguments.ready.clone(),
        round: arguments.round,
        metrics: arguments.metric.clone(),
        margin_percent: arguments.margin,
        pairs: arguments.pairs,
        load: arguments.load.options_of(Some(&arguments.scenario))?,
        out: arguments.out.clone(),
        junit: arguments.junit.clone(),
        step_summary: step_summary(),
    };
    let shown = ProgressDisplay::new(arguments.quiet);
    let comparison = PreparedAb::new(options, &shown.sink())?;
    let interrupt = Interrupt::new();
    let listening = interrupt_by_signals(&interrupt, move || output::last_words(&shown.last_words()))?;
    let compared = comparison.run(&interrupt)?;
    drop(listening);
    print(compared, arguments)
}

fn print(compared: AbResult, arguments: &AbArguments) -> Result<Exit, HarnessError> {
    let AbResult { conclusion, paired, directory, heard, fault } = compared;
    if arguments.json {
        output::deliver_file(&directory.join("ab.json"))?;
        return fault.map_or(Ok(super::gate::told(conclusion, arguments.strict)), Err);
    }
    if arguments.quiet {
        output::print(&terminal::line(&pairs::headline(&paired), output::style()));
        output::print(&directory.display().to_string());
    } else {
        output::print(&format!("\n{}", pairs::terminal(&paired, &heard, output::style())));
        let path = |name| directory.join(name).display().to_string();
        output::print(&format!("\nreport   {}\nresults  {}", path("ab.html"), path("ab.json")));
    }
    annotate_criteria(&pairs::criteria(&paired));
    fault.map_or(Ok(super::gate::told(conclusion, arguments.strict)), Err)
}
