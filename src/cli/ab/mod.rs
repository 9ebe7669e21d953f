//! `bench ab`: two builds by rounds that take turns, until the verdict is clear.

mod arms;
mod service;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::analysis::points::{PairTraces, Points, over_pairs};
use crate::base::clock::RunClock;
use crate::base::units::parse_duration;
use crate::osprofiler::report::TraceTree;
use crate::report::pairs::{self, FORMAT, Pair, Paired, RoundInfo, VERSION};
use crate::results::choice::Side;
use crate::results::directory::{RunDirectory, write_at_once};
use crate::results::model::{Outcome, RunStatus, ScenarioInfo};
use crate::verdict::paired::{Decision, METRICS_MAX, Metric, Names, Round, Rules, Series, Trial, series};

use self::arms::{Arm, Job};
use super::exit::{Exit, Stopped};
use super::housekeeping::Signals;
use super::run::{self, RoundEnded};
use super::{LoadArguments, RunArguments, metrics, say};
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
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    // A signal between two rounds is not lost either.
    let interrupted = Arc::new(AtomicBool::new(false));
    let mut signals = runtime.block_on(async { Signals::listen() })?;
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

    fn pair(&mut self, b_first: bool) -> Result<(), Ended> {
        let number = self.pairs.len() + 1;
        let (mut a, mut b) = (None, None);
        for is_b in [b_first, !b_first] {
            let ended = self.round(number, is_b)?;
            *(if is_b { &mut b } else { &mut a }) = Some(ended);
        }
        let (Some(a), Some(b)) = (a, b) else { return Ok(()) };
        let invalid = a.results.verdict.invalid.iter().chain(&b.results.verdict.invalid).next().cloned();
        let left_out = match invalid {
            Some(reason) => {
                self.trial.discard();
                Some(reason)
            }
            None => {
                self.trial.push(Round::of(&a.aggregate, &self.series), Round::of(&b.aggregate, &self.series))
            }
        };
        let info = |round: &RoundEnded, is_b| info(round, &round_name(number, is_b));
        self.scenario.get_or_insert_with(|| a.results.scenario.clone());
        self.pairs.push(Pair { b_first, left_out: left_out.clone(), a: info(&a, false), b: info(&b, true) });
        if let Some(reason) = left_out {
            self.notes.push(format!("pair {number} is left out: {reason}"));
            return Ok(());
        }
        self.traces.push(PairTraces { a: points(&a), b: points(&b) });
        for note in a.results.notes.iter().chain(&b.results.notes).chain(a.results.profiling.reason.iter()) {
            if !self.notes.contains(note) && self.notes.len() < 20 {
                self.notes.push(note.clone());
            }
        }
        Ok(())
    }

    fn round(&self, number: usize, is_b: bool) -> Result<RoundEnded, Ended> {
        let is_interrupted = || self.interrupted.load(Ordering::Acquire);
        if is_interrupted() {
            return Err(Ended::Interrupted);
        }
        let arm = if is_b { &self.job.b } else { &self.job.a };
        let directory = self.directory.join(round_name(number, is_b));
        let service = arm.start(&self.job, &self.directory, &self.runtime, &self.interrupted);
        let service = service
            .map_err(|stopped| if is_interrupted() { Ended::Interrupted } else { Ended::Stopped(stopped) })?;
        let wanted = run::Round {
            directory: &directory,
            target: arm.target.as_deref(),
            length: self.arguments.round,
            traces: TRACES_OF_ROUND,
        };
        let ended = run::round(&self.run_arguments(arm), &wanted);
        drop(service);
        let ended = ended.map_err(|stopped| {
            if stopped.exit == Exit::Interrupted { Ended::Interrupted } else { Ended::Stopped(stopped) }
        })?;
        let failed = |text: String| Err(Ended::Stopped(Stopped::new(Exit::Failed, format!("error: {text}"))));
        match ended.results.run.status {
            RunStatus::Finished => Ok(ended),
            RunStatus::Interrupted => Err(Ended::Interrupted),
            RunStatus::TimedOut => failed("a round took longer than the scenario's `timeout`".to_owned()),
            RunStatus::Aborted => failed("a threshold of the scenario ended a round".to_owned()),
            RunStatus::Failed | RunStatus::Recovered => {
                failed(ended.results.run.error.unwrap_or_else(|| "a round did not end".to_owned()))
            }
        }
    }

    fn run_arguments(&self, arm: &Arm) -> RunArguments {
        RunArguments {
            scenario: self.arguments.scenario.clone(),
            deployment: arm.deployment.clone(),
            out: self.directory.clone(),
            load: self.arguments.load.clone(),
            publish: false,
            gate: super::gate::GateArguments::default(),
            traces: super::pages::TracesArgument::default(),
            quiet: true,
            watch: metrics::WatchArguments::default(),
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
        let markdown = pairs::markdown(&paired);
        finish::to_step_summary(&|output| output.write_all(markdown.as_bytes()));
        if self.arguments.quiet {
            let shown = pairs::terminal(&paired);
            super::print(shown.lines().next().unwrap_or_default())?;
            super::print(&self.directory.display().to_string())?;
        } else {
            super::print(&format!("\n{}", pairs::terminal(&paired)))?;
            super::print(&format!("\nresults  {}", self.directory.join("ab.json").display()))?;
        }
        let title = format!("ab {}", paired.scenario.title);
        gate::tell_criteria(self.arguments.junit.as_deref(), &title, &pairs::criteria(&paired))?;
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

fn round_name(number: usize, is_b: bool) -> String {
    format!("{number:04}-{}", if is_b { "b" } else { "a" })
}

fn info(round: &RoundEnded, directory: &str) -> RoundInfo {
    let counts = || round.results.workloads.iter().map(|workload| workload.iterations);
    RoundInfo {
        directory: directory.to_owned(),
        started_at: round.results.run.started_at.clone(),
        iterations: counts().map(|counts| counts.total).sum(),
        failed: counts().map(|counts| counts.failed).sum(),
        duration_s: round.results.run.duration_s,
    }
}

/// The points of typical and of slow iterations' traces.
fn points(round: &RoundEnded) -> [Points; 2] {
    let mut both = [Points::default(), Points::default()];
    for (side, trace) in &round.traces {
        let tree = TraceTree::build(&trace.records);
        match side {
            Side::Typical if tree.incomplete() == 0 => both[0].add(&tree),
            Side::Slow if tree.incomplete() == 0 => both[1].add(&tree),
            _ => {}
        }
    }
    both
}

/// The names of a plan's workloads.
fn names(plan: &crate::plan::Plan) -> Vec<Names> {
    let of = |workload: &crate::plan::Workload| Names {
        workload: workload.name.clone(),
        actions: workload.actions().map(|action| action.name.to_string()).collect(),
    };
    plan.workloads.iter().map(of).collect()
}
