//! The search for the highest arrival rate that a service bears, and for what stops it.
//!
//! Each level is a round with its own directory, as in a comparison. The first has one user and tells how fast the service
//! is at ease. After a level that breaks, single requests are sent until they are as fast again. In the end a level at half
//! the capacity and one above it are traced and compared.

mod levels;
mod naming;
mod options;
mod recovery;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use ::capacity::search::{LevelOutcome, RateSearch, SearchRules, TriedLevel};
use plan::Plan;
use report::capacity::{CapacityDocument, FORMAT, VERSION};
use report::html;
use results::directory::write_at_once;
use results::model::{Outcome, ScenarioInfo};

use self::levels::{LevelEnd, LevelRunner};
use self::naming::NamedLimit;
pub use self::options::{CapacityOptions, SearchSettings};
use super::error::{HarnessError, HarnessErrorKind};
use super::event::{Event, Sink, warn};
use super::interrupt::Interrupt;
use super::outcome::Conclusion;
use super::{demo, files, housekeeping, run, writing};

/// The first rate, as a share of what one user gets.
const FIRST_SHARE: f64 = 0.5;
/// No lower rate is tried, per second.
const LOWEST_PER_S: f64 = 0.1;
/// How many times as high the next rate is while none has broken.
const GROWTH: f64 = 1.5;
/// The ends of the answer are so close.
const RESOLUTION: f64 = 0.05;
/// What is left of the budget for the two levels that are compared.
const NAMING_SHARE: u32 = 6;

/// A search that has ended.
#[derive(Debug)]
pub struct CapacityResult {
    /// How it ended.
    pub conclusion: Conclusion,
    /// What it found.
    pub found: CapacityDocument,
    /// Its directory, with capacity.json, capacity.html, capacity.md and a directory for each level.
    pub directory: PathBuf,
    /// The notes that events have told already.
    pub heard: Vec<String>,
    /// Which further file could not be written.
    pub fault: Option<HarnessError>,
}

/// A search that has read its files, but has not sent anything yet.
pub struct PreparedCapacity {
    options: CapacityOptions,
    plan: Plan,
    events: Sink,
}

impl PreparedCapacity {
    /// Reads the files, to find every fault before anything starts.
    ///
    /// # Errors
    /// Every fault of the files or of the options; a scenario without criteria.
    pub fn new(mut options: CapacityOptions, events: &Sink) -> Result<Self, HarnessError> {
        let plan = checked(&mut options)?;
        if plan.workloads.iter().all(|workload| workload.sla.is_empty()) {
            return Err(HarnessError::input(
                "the scenario says nothing of how good the service must be: a capacity needs an `sla`",
            )
            .remedy("add one, or give --threshold 'p99 < 500ms'"));
        }
        warn(events, &plan.warnings);
        Ok(Self { options, plan, events: Arc::clone(events) })
    }

    /// Searches, names what stops the service, and writes the report. Blocks until then.
    ///
    /// # Errors
    /// When there is nothing to report.
    pub fn run(self, interrupt: &Interrupt) -> Result<CapacityResult, HarnessError> {
        let Self { options, plan, events } = self;
        events.event(&Event::Awaiting(&planned(&options)));
        let directory = housekeeping::directory_of_rounds(&options.out, &format!("capacity {}", plan.title))?;
        let heard = plan.warnings.clone();
        let deadline = Instant::now() + options.budget();
        let mut runner = LevelRunner::new(&options, &plan, directory.clone(), interrupt, &events, deadline);
        let searched = search(&options, &mut runner);
        let Some(scenario) = runner.scenario.clone() else {
            let _ = std::fs::remove_dir_all(&directory);
            return Err(searched.err().unwrap_or_else(|| {
                HarnessError::new(
                    HarnessErrorKind::Interrupted,
                    "interrupted before the first level had ended",
                )
            }));
        };
        let searched = searched?;
        let named = naming::limit(&mut runner, &searched.bounds());
        let recovery = match searched.lost || searched.failed.is_some() {
            true => None,
            false => recovery::recovery(&mut runner, &searched.bounds()),
        };
        let found = CapacityDocument { recovery, ..document(scenario, searched, &runner, named) };
        write(&found, &directory)?;
        let fault = further_files(&options, &found, &events);
        Ok(CapacityResult { conclusion: conclusion(&found), found, directory, heard, fault })
    }
}

/// What will be done, in a sentence.
fn planned(options: &CapacityOptions) -> String {
    format!(
        "searching up to {}/s for at most {}, in levels of {}; Ctrl-C ends it and keeps what is known",
        options.highest_per_s(),
        base::units::write_duration(options.budget()),
        base::units::write_duration(options.level())
    )
}

/// The plan of the first level, which has all faults of the files. What the scenario says of the search joins the options.
fn checked(options: &mut CapacityOptions) -> Result<Plan, HarnessError> {
    let files::Files { mut document, mut deployment, task } =
        files::scenario_and_deployment(&options.scenario, options.deployment.as_ref(), &options.load)?;
    options.settings = options.settings.or(document.value.capacity.unwrap_or_default());
    let level = levels::load(options, Some(options.highest_per_s()), options.level(), true);
    let round = levels::round(&options.out, &level, options.target.as_deref());
    run::vary(&mut document, &mut deployment, &round)?;
    demo::stand_in(&mut deployment);
    files::plan(&options.scenario, &document, deployment, task.as_ref(), &options.load)
}

/// Why a search has ended, and what it knows.
#[derive(Default)]
struct SearchEnd {
    search: Option<RateSearch>,
    /// What the load generator was short of, if it was the limit.
    generator: Option<String>,
    interrupted: bool,
    /// The service did not recover from a level.
    lost: bool,
    /// Why a level could not run: the service is gone, for example. What the levels before it show is kept.
    failed: Option<String>,
}

impl SearchEnd {
    fn bounds(&self) -> ::capacity::search::CapacityBounds {
        self.search.as_ref().map(RateSearch::bounds).unwrap_or_default()
    }

    /// Why it ended before the answer was found, as a sentence.
    fn cut_short(&self) -> Option<String> {
        match self {
            Self { generator: Some(reason), .. } => {
                Some(format!("The load generator was the limit, not the service: {reason}."))
            }
            Self { failed: Some(error), .. } => Some(format!(
                "The search ended because a level could not run: {error}. What was seen before it is shown."
            )),
            Self { lost: true, .. } => Some(
                "The search ended because the service did not recover from a level that broke.".to_owned(),
            ),
            Self { interrupted: true, .. } => Some("The search was interrupted.".to_owned()),
            Self { .. } if !self.bounds().settled => Some(
                "The time ended before the answer was as close as 5 %: give it more (--budget).".to_owned(),
            ),
            Self { .. } => None,
        }
    }
}

/// Runs levels until the answer is known, or cannot be.
fn search(options: &CapacityOptions, runner: &mut LevelRunner<'_>) -> Result<SearchEnd, HarnessError> {
    let mut searched = SearchEnd::default();
    let one_user = match runner.one_user()? {
        LevelEnd::Counts(_) => runner.at_ease_per_s(),
        LevelEnd::Invalid(reason) => {
            searched.generator = Some(reason);
            return Ok(searched);
        }
        LevelEnd::Interrupted => {
            searched.interrupted = true;
            return Ok(searched);
        }
    };
    let rules = SearchRules {
        first_per_s: options.settings.first_per_s.unwrap_or(one_user * FIRST_SHARE),
        highest_per_s: options.highest_per_s(),
        lowest_per_s: LOWEST_PER_S.min(options.highest_per_s()),
        growth: GROWTH,
        resolution: RESOLUTION,
    };
    let mut search = RateSearch::new(rules);
    let mut invalid_before = false;
    while let Some(rate_per_s) = search.next_per_s() {
        if !runner.has_time(options.budget() / NAMING_SHARE) {
            break;
        }
        let ended = runner.level(rate_per_s).and_then(|end| {
            let broke = matches!(end, LevelEnd::Counts(LevelOutcome::Breaks));
            let recovered = if broke { runner.await_recovery() } else { Ok(true) };
            // The level counts, whatever came after it.
            if let LevelEnd::Counts(outcome) = end {
                search.add(TriedLevel { rate_per_s, outcome });
            }
            recovered.map(|recovered| (end, recovered))
        });
        let (end, recovered) = match ended {
            Ok(ended) => ended,
            Err(error) => {
                searched.failed = Some(error.to_string());
                break;
            }
        };
        match end {
            LevelEnd::Counts(_) if !recovered => {
                searched.lost = true;
                break;
            }
            LevelEnd::Counts(_) => invalid_before = false,
            // A machine that was busy for a moment gets a second chance.
            LevelEnd::Invalid(_) if !invalid_before => invalid_before = true,
            LevelEnd::Invalid(reason) => {
                searched.generator = Some(reason);
                break;
            }
            LevelEnd::Interrupted => {
                searched.interrupted = true;
                break;
            }
        }
    }
    searched.search = Some(search);
    Ok(searched)
}

fn document(
    scenario: ScenarioInfo,
    searched: SearchEnd,
    runner: &LevelRunner<'_>,
    named: NamedLimit,
) -> CapacityDocument {
    let (options, bounds) = (runner.options, searched.bounds());
    let is_invalid = searched.generator.is_some();
    let (outcome, reasons) =
        options::verdict(options.settings.at_least_per_s, &bounds, is_invalid, searched.cut_short());
    CapacityDocument {
        format: FORMAT.to_owned(),
        version: VERSION,
        bench_version: env!("CARGO_PKG_VERSION").to_owned(),
        outcome,
        reasons,
        finished: !searched.interrupted,
        scenario,
        deployment: runner.plan.deployment.name.clone(),
        conditions: runner.conditions.clone(),
        bounds,
        at_least_per_s: options.settings.at_least_per_s,
        highest_per_s: options.highest_per_s(),
        levels: runner.levels.clone(),
        limit: named.limit.as_ref().ok().cloned(),
        no_limit: named.limit.err(),
        fails: named.fails,
        processor: named.processor,
        recovery: None,
        compared: named.compared,
        notes: runner.notes.clone(),
    }
}

fn conclusion(found: &CapacityDocument) -> Conclusion {
    match found.outcome {
        _ if !found.finished => Conclusion::Interrupted,
        Outcome::Fail => Conclusion::GateFailed,
        Outcome::Invalid => Conclusion::NoVerdict,
        Outcome::Inconclusive => Conclusion::Inconclusive,
        Outcome::Pass | Outcome::None => Conclusion::Good,
    }
}

fn write(found: &CapacityDocument, directory: &std::path::Path) -> Result<(), HarnessError> {
    let failed = |error: std::io::Error| {
        let directory = directory.display();
        HarnessError::failed(format!("cannot write the results to {directory}: {error}"))
    };
    let json = directory.join("capacity.json");
    write_at_once(&json, |output| Ok(serde_json::to_writer_pretty(output, found)?)).map_err(failed)?;
    write_at_once(&directory.join("capacity.html"), |output| html::capacity::capacity(found, output))
        .map_err(failed)?;
    let markdown = report::capacity::markdown(found);
    write_at_once(&directory.join("capacity.md"), |output| output.write_all(markdown.as_bytes()))
        .map_err(failed)
}

/// Writes what the caller wants besides; returns what could not be written.
fn further_files(options: &CapacityOptions, found: &CapacityDocument, events: &Sink) -> Option<HarnessError> {
    if let Some(path) = &options.step_summary {
        let markdown = report::capacity::markdown(found);
        writing::add_to(path, &|output| output.write_all(markdown.as_bytes()), events);
    }
    let path = options.junit.as_deref()?;
    let title = format!("capacity {}", found.scenario.title);
    let load_s = found.levels.iter().map(|level| level.duration_s).sum();
    writing::junit_of_criteria(path, &title, &report::capacity::criteria(found), ("", load_s)).err()
}
