//! `bench ab`: two builds by rounds that take turns, until the verdict is clear.

mod arms;
mod rounds;
mod service;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::analysis::points::{PairTraces, over_pairs};
use crate::base::clock::RunClock;
use crate::base::units::parse_duration;
use crate::report::pairs::{self, FORMAT, Pair, Paired, VERSION};
use crate::results::directory::{RunDirectory, write_at_once};
use crate::results::model::{Outcome, ScenarioInfo};
use crate::verdict::paired::{Decision, METRICS_MAX, Metric, Names, Rules, Series, Trial, series};

use self::arms::Job;
use super::exit::{Exit, Stopped};
use super::housekeeping::Signals;
use super::run;
use super::{LoadArguments, output, say};
use super::{finish, gate};

/// Traces of slow iterations that a round fetches, and about twice as many others: what it takes to compare points
/// without loading the collector between rounds.
const TRACES_OF_ROUND: u32 = 10;

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
    let length = parse_duration(text)?;
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

/// Runs the comparison.
pub(super) fn run(arguments: &AbArguments) -> Result<Exit, Stopped> {
    let metrics = match arguments.metric.as_slice() {
        [] => ["p50", "p95"].iter().filter_map(|text| text.parse().ok()).collect(),
        given => given.to_vec(),
    };
    if metrics.len() > METRICS_MAX {
        let text = format!(
            "error: {} percentiles to judge by; choose at most {METRICS_MAX}: each makes the bounds of the others wider",
            metrics.len()
        );
        return Err(Stopped::new(Exit::Usage, text));
    }
    let job = arms::prepare(arguments)?;
    let series =
        series(&job.names, &metrics).map_err(|error| Stopped::new(Exit::Usage, format!("error: {error}")))?;
    let runtime = super::housekeeping::runtime()?;
    // A signal between two rounds is not lost either.
    let interrupted = Arc::new(AtomicBool::new(false));
    let mut signals =
        runtime.block_on(async { Signals::listen() }).map_err(Stopped::cannot("listen to signals"))?;
    let flag = Arc::clone(&interrupted);
    runtime.spawn(async move {
        signals.next().await;
        flag.store(true, Ordering::Release);
    });
    let directory = make_directory(arguments, &job)?;
    let pairs = usize::from(arguments.pairs);
    let rules = Rules { margin: arguments.margin / 100.0, looks: [pairs.div_ceil(2), pairs] };
    let mut comparison = Comparison {
        arguments,
        job,
        directory,
        trial: Trial::new(rules.clone(), series.clone()),
        series,
        rules,
        order_seed: fastrand::u64(..),
        pairs: Vec::new(),
        traces: Vec::new(),
        notes: Vec::new(),
        scenario: None,
        factor: 1.0,
        interrupted,
        runtime,
    };
    let decision = comparison.pairs_until_decided()?;
    comparison.report(decision)
}

fn make_directory(arguments: &AbArguments, job: &Job) -> Result<PathBuf, Stopped> {
    let title = format!("ab {}", job.title);
    let started = RunClock::start().wall_anchor_unix_ns();
    let made = RunDirectory::create(&arguments.out, &title, uuid::Uuid::new_v4(), started);
    made.map(|made| made.path().to_path_buf()).map_err(|error| {
        let out = arguments.out.display();
        Stopped::new(
            Exit::Failed,
            format!("error: cannot make a directory in {out}: {error}; choose another with --out"),
        )
    })
}

/// A comparison under way.
struct Comparison<'a> {
    arguments: &'a AbArguments,
    job: Job,
    directory: PathBuf,
    trial: Trial,
    series: Vec<Series>,
    rules: Rules,
    order_seed: u64,
    pairs: Vec<Pair>,
    traces: Vec<PairTraces>,
    notes: Vec<String>,
    scenario: Option<ScenarioInfo>,
    /// How many times as long as at first a round lasts.
    factor: f64,
    interrupted: Arc<AtomicBool>,
    runtime: tokio::runtime::Runtime,
}

/// Why there is no further round.
enum Ended {
    Interrupted,
    /// What went wrong with a round.
    Stopped(Stopped),
}

impl Comparison<'_> {
    /// The verdict; `None` when it was interrupted.
    fn pairs_until_decided(&mut self) -> Result<Option<Decision>, Stopped> {
        let mut random = fastrand::Rng::with_seed(self.order_seed);
        let mut b_first = random.bool();
        loop {
            // Of each two pairs one begins with A and one with B, in random order.
            b_first = if self.pairs.len().is_multiple_of(2) { random.bool() } else { !b_first };
            match self.pair(b_first) {
                Ok(()) => {}
                Err(Ended::Interrupted) => return Ok(None),
                Err(Ended::Stopped(stopped)) if self.pairs.is_empty() => {
                    let _ = std::fs::remove_dir_all(&self.directory);
                    return Err(stopped);
                }
                Err(Ended::Stopped(stopped)) => {
                    let text = stopped.text.trim_start_matches("error: ");
                    let reasons = vec![format!("pair {} could not run: {text}", self.pairs.len() + 1)];
                    return Ok(Some(Decision { outcome: Outcome::Invalid, reasons }));
                }
            }
            if !self.arguments.quiet {
                say(&pairs::progress(
                    self.trial.pairs(),
                    self.rules.looks[1],
                    &self.trial.rows(),
                    &self.job.names,
                ));
            }
            if let Some(decision) = self.trial.decide() {
                return Ok(Some(decision));
            }
        }
    }

    fn report(self, decision: Option<Decision>) -> Result<Exit, Stopped> {
        let Some(scenario) = self.scenario else {
            return Err(Stopped::new(
                Exit::Interrupted,
                "interrupted before the first pair of rounds had ended",
            ));
        };
        let finished = decision.is_some();
        let cut_short = || {
            let reasons = vec![format!("interrupted after {} pairs: no verdict", self.trial.pairs())];
            Decision { outcome: Outcome::Inconclusive, reasons }
        };
        let paired = Paired {
            format: FORMAT,
            version: VERSION,
            bench_version: env!("CARGO_PKG_VERSION"),
            decision: decision.unwrap_or_else(cut_short),
            finished,
            scenario,
            a: self.job.a.side(),
            b: self.job.b.side(),
            margin_percent: self.arguments.margin,
            looks: self.rules.looks,
            alpha: self.trial.alpha(),
            order_seed: self.order_seed,
            pairs: self.pairs,
            workloads: self.job.names,
            rows: self.trial.rows(),
            failures: self.trial.failures(),
            points: over_pairs(&self.traces),
            notes: self.notes,
        };
        write(&paired, &self.directory)?;
        let (title, criteria) = (format!("ab {}", paired.scenario.title), pairs::criteria(&paired));
        let junit = self.arguments.junit.as_deref();
        let junit = junit.map_or(Ok(()), |path| gate::junit_of_criteria(path, &title, &criteria));
        let markdown = pairs::markdown(&paired);
        finish::to_step_summary(&|output| output.write_all(markdown.as_bytes()));
        if self.arguments.quiet {
            let shown = pairs::terminal(&paired);
            output::print(shown.lines().next().unwrap_or_default());
            output::print(&self.directory.display().to_string());
        } else {
            output::print(&format!("\n{}", pairs::terminal(&paired)));
            output::print(&format!("\nresults  {}", self.directory.join("ab.json").display()));
        }
        gate::annotate_criteria(&criteria);
        junit?;
        Ok(exit(&paired, self.arguments.strict))
    }
}

fn exit(paired: &Paired, strict: bool) -> Exit {
    match paired.decision.outcome {
        _ if !paired.finished => Exit::Interrupted,
        Outcome::Fail => Exit::Gate,
        Outcome::Invalid => Exit::Invalid,
        Outcome::Inconclusive if strict => Exit::Inconclusive,
        Outcome::Pass | Outcome::Inconclusive | Outcome::None => Exit::Ok,
    }
}

fn write(paired: &Paired, directory: &Path) -> Result<(), Stopped> {
    let failed = |error: std::io::Error| {
        let directory = directory.display();
        Stopped::new(Exit::Failed, format!("error: cannot write the results to {directory}: {error}"))
    };
    write_at_once(&directory.join("ab.json"), |output| Ok(serde_json::to_writer_pretty(output, paired)?))
        .map_err(failed)?;
    write_at_once(&directory.join("ab.md"), |output| output.write_all(pairs::markdown(paired).as_bytes()))
        .map_err(failed)
}

/// The names of a plan's workloads.
fn names(plan: &crate::plan::Plan) -> Vec<Names> {
    let of = |workload: &crate::plan::Workload| Names {
        workload: workload.name.clone(),
        actions: workload.actions().map(|action| action.name.to_string()).collect(),
    };
    plan.workloads.iter().map(of).collect()
}
