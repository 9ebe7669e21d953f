//! Compares two builds in alternating rounds, until the verdict is clear.

mod arms;
mod counts;
mod length;
mod rounds;
mod service;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use analysis::call_changes;
use analysis::points::{PairTraces, over_pairs};
use report::html::comparison;
use report::pairs::{self, FORMAT, Pair, PairDocument, VERSION};
use results::directory::write_at_once;
use results::model::{Criterion, Outcome, ScenarioInfo};
use verdict::paired::{
    AbMetric, CountSeries, Decision, METRICS_MAX, PercentileMetric, PercentileSeries, Rules, Trial,
    WorkloadNames, series, sla, with_sla,
};

use self::arms::Job;
use super::error::{HarnessError, HarnessErrorKind};
use super::event::{Event, Sink};
use super::interrupt::Interrupt;
use super::options::{LoadOptions, YamlFile};
use super::outcome::Conclusion;
use super::{housekeeping, writing};

/// The number of slow iterations whose traces a round fetches, besides about twice as many others: enough to compare
/// points without loading the collector between rounds.
const TRACES_OF_ROUND: u32 = 10;
/// The number of random iterations of each workload whose traces a round fetches to count trace points.
const TRACES_COUNTED: u32 = 30;

/// One side of a comparison: a deployment, one of its targets, a command that starts a build, or several of these.
#[derive(Clone, Debug, Default)]
pub struct SideOptions {
    /// Its deployment, instead of the one that the scenario names.
    pub deployment: Option<YamlFile>,
    /// The target of the deployment to use instead of `default`.
    pub target: Option<String>,
    /// The command that starts the build for a round, run with `sh -c`; SIGTERM stops it.
    pub command: Option<String>,
}

/// What to compare, and how.
#[derive(Clone, Debug)]
pub struct AbOptions {
    /// The scenario.
    pub scenario: YamlFile,
    /// The build that B is compared with.
    pub a: SideOptions,
    /// The build that is judged.
    pub b: SideOptions,
    /// The URL that answers once a command's build is ready; a connection to the default target if it is absent.
    pub ready: Option<String>,
    /// How long a round lasts, instead of what the scenario says.
    pub round: Option<Duration>,
    /// What to judge B by; p50 and p95 if empty.
    pub metrics: Vec<AbMetric>,
    /// By how many percent B may be slower. Counts must not increase at all.
    pub margin_percent: f64,
    /// The largest number of pairs; the results are also judged after half of them.
    pub pairs: u16,
    /// Changes to the load of both sides.
    pub load: LoadOptions,
    /// The directory in which the directory of the comparison is made.
    pub out: PathBuf,
    /// Write what B is judged by as JUnit XML to this file.
    pub junit: Option<PathBuf>,
    /// Add the report in Markdown to this file: GitHub Actions' summary of a step.
    pub step_summary: Option<PathBuf>,
}

impl AbOptions {
    /// Compares two sides with the defaults of `bench ab`.
    pub fn new(scenario: impl Into<YamlFile>, a: SideOptions, b: SideOptions) -> Self {
        Self {
            scenario: scenario.into(),
            a,
            b,
            ready: None,
            round: None,
            metrics: Vec::new(),
            margin_percent: 10.0,
            pairs: 20,
            load: LoadOptions::default(),
            out: "runs".into(),
            junit: None,
            step_summary: None,
        }
    }
}

/// A comparison that has ended.
#[derive(Debug)]
pub struct AbResult {
    /// How it ended.
    pub conclusion: Conclusion,
    /// Its pairs, ratios and verdict.
    pub paired: PairDocument,
    /// Its directory, with ab.json, ab.html, ab.md and a directory for each round.
    pub directory: PathBuf,
    /// The notes that events have told already.
    pub heard: Vec<String>,
    /// Which further file could not be written.
    pub fault: Option<HarnessError>,
}

/// A comparison that has read its files, but has not started anything yet.
pub struct PreparedAb {
    options: AbOptions,
    job: Job,
    series: Vec<PercentileSeries>,
    counted: Vec<CountSeries>,
    runtime: tokio::runtime::Runtime,
    events: Sink,
}

impl PreparedAb {
    /// Reads all files of both sides, to find every fault before anything starts.
    ///
    /// # Errors
    /// Every fault of the files, or of the options.
    pub fn new(options: AbOptions, events: &Sink) -> Result<Self, HarnessError> {
        let metrics = match options.metrics.as_slice() {
            [] => ["p50", "p95"].iter().filter_map(|text| text.parse().ok()).collect(),
            given => given.to_vec(),
        };
        if metrics.len() > METRICS_MAX {
            let text = format!("{} metrics to judge by", metrics.len());
            let help = format!("choose at most {METRICS_MAX}: each makes the bounds of the others wider");
            return Err(HarnessError::usage(text).remedy(help));
        }
        let job = arms::prepare(&options, events)?;
        let (series, counted) = what_to_compare(&job.names, metrics)?;
        let runtime = housekeeping::runtime()?;
        Ok(Self { options, job, series, counted, runtime, events: Arc::clone(events) })
    }

    /// Runs pairs of rounds until the verdict is clear, and writes it. Blocks until then.
    ///
    /// # Errors
    /// When there is nothing to report.
    pub fn run(self, interrupt: &Interrupt) -> Result<AbResult, HarnessError> {
        let Self { options, job, series, counted, runtime, events } = self;
        let directory = housekeeping::directory_of_rounds(&options.out, &format!("ab {}", job.title))?;
        let pairs = usize::from(options.pairs);
        let heard = job.warnings.clone();
        let rules = Rules { margin: options.margin_percent / 100.0, looks: [pairs.div_ceil(2), pairs] };
        let mut comparison = Comparison {
            options,
            job,
            directory,
            trial: Trial::new(rules.clone(), series.clone()).with_counts(counted.clone()),
            series,
            counted,
            counts_shown: counts::SelectedPoints::default(),
            rules,
            order_seed: fastrand::u64(..),
            pairs: Vec::new(),
            traces: Vec::new(),
            functions: Vec::new(),
            criteria: [Vec::new(), Vec::new()],
            notes: Vec::new(),
            heard,
            scenario: None,
            factor: 1.0,
            is_longer: false,
            interrupt: interrupt.clone(),
            events,
            runtime,
        };
        let planned = length::planned(comparison.job.round, comparison.rules.looks);
        comparison.events.event(&Event::ComparisonLength(&planned));
        let decision = comparison.pairs_until_decided()?;
        comparison.report(decision)
    }
}

/// The percentiles and the counts of each workload.
fn what_to_compare(
    names: &[WorkloadNames],
    metrics: Vec<AbMetric>,
) -> Result<(Vec<PercentileSeries>, Vec<CountSeries>), HarnessError> {
    let (mut percentiles, mut counted): (Vec<PercentileMetric>, Vec<CountSeries>) = (Vec::new(), Vec::new());
    for metric in metrics {
        match metric {
            AbMetric::Percentile(metric) => percentiles.push(metric),
            AbMetric::Count(metric) => counted
                .extend((0..names.len()).map(|workload| CountSeries { workload, metric: metric.clone() })),
        }
    }
    Ok((series(names, &percentiles).map_err(HarnessError::usage)?, counted))
}

/// A comparison under way.
struct Comparison {
    options: AbOptions,
    job: Job,
    directory: PathBuf,
    trial: Trial,
    series: Vec<PercentileSeries>,
    counted: Vec<CountSeries>,
    /// What shows the differences of counts.
    counts_shown: counts::SelectedPoints,
    rules: Rules,
    order_seed: u64,
    pairs: Vec<Pair>,
    traces: Vec<PairTraces>,
    /// The functions of the same traces, where services report them.
    functions: Vec<PairTraces>,
    /// The scenario's own criteria in each round that counts, of A and of B.
    criteria: [Vec<Vec<Criterion>>; 2],
    notes: Vec<String>,
    /// Those that events have told.
    heard: Vec<String>,
    scenario: Option<ScenarioInfo>,
    /// The length of a round, as a multiple of the first length.
    factor: f64,
    /// True from when rounds became longer until the next pair has shown how long pairs take.
    is_longer: bool,
    interrupt: Interrupt,
    events: Sink,
    runtime: tokio::runtime::Runtime,
}

/// Why there is no further round.
enum AbStopCause {
    Interrupted,
    /// What went wrong with a round.
    Failed(HarnessError),
}

impl Comparison {
    /// The verdict; `None` if it was interrupted.
    fn pairs_until_decided(&mut self) -> Result<Option<Decision>, HarnessError> {
        let mut random = fastrand::Rng::with_seed(self.order_seed);
        let mut b_first = random.bool();
        loop {
            // Of each two pairs one begins with A and one with B, in random order.
            b_first = if self.pairs.len().is_multiple_of(2) { random.bool() } else { !b_first };
            let (began, factor) = (Instant::now(), self.factor);
            match self.pair(b_first) {
                Ok(()) => {}
                Err(AbStopCause::Interrupted) => return Ok(None),
                Err(AbStopCause::Failed(error)) if self.pairs.is_empty() => {
                    let _ = std::fs::remove_dir_all(&self.directory);
                    return Err(error);
                }
                Err(AbStopCause::Failed(error)) => {
                    let reasons = vec![format!("pair {} could not run: {error}", self.pairs.len() + 1)];
                    return Ok(Some(Decision { outcome: Outcome::Invalid, reasons }));
                }
            }
            self.events.event(&Event::PairEnded {
                pairs: self.trial.pairs(),
                pairs_max: self.rules.looks[1],
                rows: &self.trial.rows(),
                counts: &self.trial.count_rows(),
                workloads: &self.job.names,
            });
            if let Some(decision) = self.trial.decide() {
                return Ok(Some(decision));
            }
            // A pair with further, longer rounds gives no estimate: the next one shows how long pairs take.
            let is_news = self.pairs.len() == 1 || self.is_longer;
            if self.factor > factor {
                self.is_longer = true;
            } else if is_news {
                self.is_longer = false;
                let pairs = self.rules.looks[1].saturating_sub(self.trial.pairs());
                let left = length::left(began.elapsed(), pairs);
                left.iter().for_each(|text| self.events.event(&Event::ComparisonLength(text)));
            }
        }
    }

    fn report(self, decision: Option<Decision>) -> Result<AbResult, HarnessError> {
        let Some(scenario) = self.scenario else {
            return Err(HarnessError::new(
                HarnessErrorKind::Interrupted,
                "interrupted before the first pair of rounds had ended",
            ));
        };
        let finished = decision.is_some();
        let cut_short = || {
            let reasons = vec![format!("interrupted after {} pairs: no verdict", self.trial.pairs())];
            Decision { outcome: Outcome::Inconclusive, reasons }
        };
        let sla = sla(&self.criteria[0], &self.criteria[1]);
        let paired = PairDocument {
            format: FORMAT.to_owned(),
            version: VERSION,
            bench_version: env!("CARGO_PKG_VERSION").to_owned(),
            decision: decision.map_or_else(cut_short, |decision| with_sla(decision, &sla)),
            finished,
            scenario,
            a: self.job.a.side(),
            b: self.job.b.side(),
            margin_percent: self.options.margin_percent,
            looks: self.rules.looks,
            alpha: self.trial.alpha(),
            order_seed: self.order_seed,
            seed: self.job.uses_seed.then_some(self.job.seed),
            pairs: self.pairs,
            workloads: self.job.names,
            rows: self.trial.rows(),
            counts: self.counts_shown.with(self.trial.count_rows()),
            sla,
            failures: self.trial.failures(),
            points: over_pairs(&self.traces),
            functions: over_pairs(&self.functions),
            calls: call_changes::over_pairs(&self.traces),
            notes: self.notes,
        };
        write(&paired, &self.directory)?;
        let (title, criteria) = (format!("ab {}", paired.scenario.title), pairs::criteria(&paired));
        let junit = self.options.junit.as_deref();
        let junit = junit.map_or(Ok(()), |path| {
            writing::junit_of_criteria(path, &title, &criteria, (paired.began(), paired.load_s()))
        });
        if let Some(path) = &self.options.step_summary {
            let markdown = pairs::markdown(&paired);
            writing::add_to(path, &|output| output.write_all(markdown.as_bytes()), &self.events);
        }
        let conclusion = conclusion(&paired);
        Ok(AbResult { conclusion, paired, directory: self.directory, heard: self.heard, fault: junit.err() })
    }
}

fn conclusion(paired: &PairDocument) -> Conclusion {
    match paired.decision.outcome {
        _ if !paired.finished => Conclusion::Interrupted,
        Outcome::Fail => Conclusion::GateFailed,
        Outcome::Invalid => Conclusion::NoVerdict,
        Outcome::Inconclusive => Conclusion::Inconclusive,
        Outcome::Pass | Outcome::None => Conclusion::Good,
    }
}

fn write(paired: &PairDocument, directory: &Path) -> Result<(), HarnessError> {
    let failed = |error: std::io::Error| {
        let directory = directory.display();
        HarnessError::failed(format!("cannot write the results to {directory}: {error}"))
    };
    write_at_once(&directory.join("ab.json"), |output| Ok(serde_json::to_writer_pretty(output, paired)?))
        .map_err(failed)?;
    write_at_once(&directory.join("ab.html"), |output| comparison::ab(paired, output)).map_err(failed)?;
    write_at_once(&directory.join("ab.md"), |output| output.write_all(pairs::markdown(paired).as_bytes()))
        .map_err(failed)
}

/// The names of a plan's workloads.
fn names(plan: &plan::Plan) -> Vec<WorkloadNames> {
    let of = |workload: &plan::WorkloadPlan| WorkloadNames {
        workload: workload.name.clone(),
        actions: workload.named().into_iter().map(|row| row.name.to_string()).collect(),
    };
    plan.workloads.iter().map(of).collect()
}
