//! The levels of a search: how each runs, and how it is judged.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ::capacity::over_time::{ResponseSeries, backlog_growth};
use ::capacity::search::LevelOutcome;
use plan::levels::LevelLoad;
use plan::{Plan, SEED_MAX};
use report::capacity::LevelInfo;
use results::model::{Criterion, Outcome, RunStatus, ScenarioInfo, Severity, Time, Workload};

use super::CapacityOptions;
use crate::error::{HarnessError, HarnessErrorKind};
use crate::event::{Event, Sink};
use crate::interrupt::Interrupt;
use crate::options::{LoadOptions, RunOptions};
use crate::run::{self, Round, RoundEnded};
use base::ids::mix;

/// A level measures at least so many iterations, for its percentiles.
const ITERATIONS_MIN: f64 = 400.0;
/// But lasts at most so many times as long as asked for.
const LONGER_MAX: u32 = 6;
/// This share of a level is its warm-up.
const WARM_UP_SHARE: u32 = 6;
/// How long the level with one user lasts, and each look at whether a service has recovered.
const ONE_USER: Duration = Duration::from_secs(3);
const LOOK: Duration = Duration::from_secs(1);
/// For so long a service is watched until it has recovered.
pub(super) const RECOVERY_MAX: Duration = Duration::from_secs(30);
/// It has recovered when the median of single requests is at most this many times that of the first level, or a few
/// milliseconds longer.
const RECOVERED: f64 = 1.5;
const RECOVERED_MS: f64 = 3.0;
/// Notes that begin with the same characters say the same.
const NOTE_BEGINS: usize = 24;
/// A level at which a smaller share of what is due is served does not hold.
const SERVED_MIN: f64 = 0.95;

/// How a level ended.
pub(super) enum LevelEnd {
    Counts(LevelOutcome),
    /// It says nothing of the service, for this reason.
    Invalid(String),
    Interrupted,
}

/// Runs levels, and keeps what they show.
pub(super) struct LevelRunner<'a> {
    pub(super) options: &'a CapacityOptions,
    pub(super) plan: &'a Plan,
    directory: PathBuf,
    interrupt: &'a Interrupt,
    pub(super) events: &'a Sink,
    pub(super) deadline: Instant,
    /// The levels so far, without looks at recovery.
    pub(super) levels: Vec<LevelInfo>,
    pub(super) scenario: Option<ScenarioInfo>,
    /// What every level must meet, in words.
    pub(super) conditions: Vec<String>,
    pub(super) notes: Vec<String>,
    number: u64,
    seed: u64,
}

/// The load of a level.
pub(super) fn load(
    options: &CapacityOptions,
    rate_per_s: Option<f64>,
    length: Duration,
    ends_early: bool,
) -> LevelLoad {
    let warm_up = length / WARM_UP_SHARE;
    LevelLoad {
        rate_per_s,
        length: length + warm_up,
        warm_up,
        ends_early,
        is_random: false,
        overload: None,
        thresholds: options.thresholds.clone(),
    }
}

/// A round that is a level.
pub(super) fn round<'a>(directory: &'a Path, level: &'a LevelLoad, target: Option<&'a str>) -> Round<'a> {
    Round {
        directory,
        target,
        length: None,
        factor: 1.0,
        traces: 0,
        random_traces: 0,
        level: Some(level),
        window: 0..0,
    }
}

impl<'a> LevelRunner<'a> {
    pub(super) fn new(
        options: &'a CapacityOptions,
        plan: &'a Plan,
        directory: PathBuf,
        interrupt: &'a Interrupt,
        events: &'a Sink,
        deadline: Instant,
    ) -> Self {
        Self {
            options,
            plan,
            directory,
            interrupt,
            events,
            deadline,
            levels: Vec::new(),
            scenario: None,
            conditions: Vec::new(),
            notes: Vec::new(),
            number: 0,
            seed: plan.seed.unwrap_or_else(|| fastrand::u64(..=SEED_MAX)),
        }
    }

    /// Whether there is time for another level and for this much after it.
    pub(super) fn has_time(&self, after: Duration) -> bool {
        let level = self.options.level() + self.options.level() / WARM_UP_SHARE;
        Instant::now() + level + after < self.deadline
    }

    /// The rate that one user got.
    pub(super) fn at_ease_per_s(&self) -> f64 {
        self.levels.first().map_or(1.0, |level| level.served_per_s.max(0.1))
    }

    /// The first level: one user.
    pub(super) fn one_user(&mut self) -> Result<LevelEnd, HarnessError> {
        let level = load(self.options, None, ONE_USER, false);
        let Some(ended) = self.run(&level, &|round| round)? else { return Ok(LevelEnd::Interrupted) };
        self.scenario = Some(ended.results.scenario.clone());
        self.conditions =
            ended.results.verdict.criteria.iter().map(|criterion| criterion.condition.clone()).collect();
        let (info, _) = self.judged(&ended, None);
        let all_failed = info.iterations == info.failed;
        let reason = info.reason.clone();
        self.keep(LevelInfo { outcome: None, ..info });
        Ok(match all_failed {
            true => LevelEnd::Invalid(
                reason.unwrap_or_else(|| "every iteration of a single user failed".to_owned()),
            ),
            false => LevelEnd::Counts(LevelOutcome::Holds),
        })
    }

    /// A level at this rate.
    pub(super) fn level(&mut self, rate_per_s: f64) -> Result<LevelEnd, HarnessError> {
        let wanted = Duration::from_secs_f64((ITERATIONS_MIN / rate_per_s).min(3_600.0));
        let length = wanted.clamp(self.options.level(), self.options.level() * LONGER_MAX);
        let level = load(self.options, Some(rate_per_s), length, true);
        let Some(ended) = self.run(&level, &|round| round)? else { return Ok(LevelEnd::Interrupted) };
        let (info, end) = self.judged(&ended, Some(rate_per_s));
        self.keep(info);
        Ok(end)
    }

    /// Sends single requests until they are as fast as before the search; false if they never are. A demo of a level has
    /// ended with it.
    pub(super) fn await_recovery(&mut self) -> Result<bool, HarnessError> {
        let Some((is_fast, waited_s)) = self.drained(RECOVERY_MAX)? else { return Ok(true) };
        if let Some(level) = self.levels.last_mut() {
            (level.recovered_after_s, level.not_recovered) = (Some(waited_s), !is_fast);
        }
        Ok(is_fast)
    }

    /// The same, for at most so long: whether they are, and after how many seconds. `None` if there is nothing to wait for.
    pub(super) fn drained(&mut self, most: Duration) -> Result<Option<(bool, f64)>, HarnessError> {
        let Some(usual_ms) = self.levels.first().and_then(|level| level.p50_ms) else { return Ok(None) };
        if self.plan.deployment.demo.is_some() {
            return Ok(None);
        }
        let began = Instant::now();
        let good_ms = (usual_ms * RECOVERED).max(usual_ms + RECOVERED_MS);
        loop {
            let look = load(self.options, None, LOOK, false);
            let Some(ended) = self.run(&look, &|round| round)? else { return Ok(None) };
            let (info, _) = self.judged(&ended, None);
            let is_fast = info.p50_ms.is_some_and(|ms| ms <= good_ms) && info.failed * 2 < info.iterations;
            if is_fast || began.elapsed() >= most {
                let waited_s = (began.elapsed().as_secs_f64() - LOOK.as_secs_f64()).max(0.0);
                return Ok(Some((is_fast, waited_s)));
            }
        }
    }

    /// Runs a level; `None` if it was interrupted.
    pub(super) fn run(
        &mut self,
        level: &LevelLoad,
        change: &dyn for<'r> Fn(Round<'r>) -> Round<'r>,
    ) -> Result<Option<RoundEnded>, HarnessError> {
        if self.interrupt.is_interrupted() {
            return Ok(None);
        }
        self.number += 1;
        let directory = self.directory.join(self.directory_name());
        let wanted = change(round(&directory, level, self.options.target.as_deref()));
        let CapacityOptions { scenario, deployment, load, .. } = self.options;
        let seed = mix(self.seed ^ mix(self.number)) & SEED_MAX;
        let no_probe = load.no_probe || self.number > 1;
        let load = LoadOptions { seed: Some(seed), no_probe, ..load.clone() };
        let options =
            RunOptions { deployment: deployment.clone(), load, ..RunOptions::new(scenario.clone()) };
        let ended = match run::round(options, &wanted, self.interrupt, self.events) {
            Ok(ended) => ended,
            Err(error) if error.kind() == HarnessErrorKind::Interrupted => return Ok(None),
            Err(error) => return Err(error),
        };
        let run = &ended.results.run;
        match run.status {
            RunStatus::Finished | RunStatus::TimedOut | RunStatus::Aborted => {}
            RunStatus::Interrupted => return Ok(None),
            RunStatus::Failed | RunStatus::Recovered => {
                let error = run.error.as_deref().unwrap_or("a level did not end");
                let kind =
                    if ended.setup_failed { HarnessErrorKind::Unreachable } else { HarnessErrorKind::Failed };
                return Err(HarnessError::new(kind, error));
            }
        }
        // A level that a threshold ends says so, and is shown as one that breaks.
        let is_cut = run.status == RunStatus::Aborted;
        let notes = ended.results.notes.iter().filter(|_| !is_cut);
        for note in notes.chain(ended.results.profiling.reason.iter()) {
            // What differs only in its figures was said already.
            let said = |known: &String| known.chars().take(NOTE_BEGINS).eq(note.chars().take(NOTE_BEGINS));
            if !self.notes.iter().any(said) && self.notes.len() < 10 {
                self.notes.push(note.clone());
            }
        }
        Ok(Some(ended))
    }

    /// What a level shows, and how it counts.
    pub(super) fn judged(&self, ended: &RoundEnded, rate_per_s: Option<f64>) -> (LevelInfo, LevelEnd) {
        let results = &ended.results;
        let workload = results.workloads.first();
        let at = |percentile| workload.and_then(|one| time(one, percentile));
        let served_per_s = workload
            .map_or(0.0, |one| one.offered.as_ref().map_or(one.rate_per_s, |offered| offered.served_per_s));
        let (outcome, reason) =
            outcome(results.verdict.outcome, &results.verdict.invalid, &results.verdict.criteria);
        let lags_behind = rate_per_s.is_some_and(|rate| served_per_s < SERVED_MIN * rate);
        let is_cut = results.run.status == RunStatus::Aborted;
        // A backlog that no criterion looks at, or not yet.
        let backlog = match outcome {
            Some(LevelOutcome::Holds | LevelOutcome::Unclear) if !is_cut => rate_per_s.and_then(|_| {
                let grows = workload.and_then(backlog_growth_s).map(|by_s| {
                    format!("response times grew by {:.0} ms in each second: a backlog", by_s * 1e3)
                });
                let lags = || "a smaller share than 95 % of what was due was served".to_owned();
                grows.or_else(|| lags_behind.then(lags))
            }),
            _ => None,
        };
        let (outcome, reason) = match backlog {
            Some(reason) => (Some(LevelOutcome::Breaks), Some(reason)),
            None => (outcome, reason),
        };
        let info = LevelInfo {
            directory: self.directory_name(),
            rate_per_s,
            served_per_s,
            outcome,
            reason: reason.clone(),
            iterations: workload.map_or(0, |one| one.iterations.total),
            failed: workload.map_or(0, |one| one.iterations.failed),
            p50_ms: at(50.0),
            p95_ms: at(95.0),
            p99_ms: at(99.0),
            duration_s: results.run.duration_s,
            recovered_after_s: None,
            not_recovered: false,
        };
        let end = outcome.map_or_else(
            || LevelEnd::Invalid(reason.unwrap_or_else(|| "there was nothing to judge".to_owned())),
            LevelEnd::Counts,
        );
        (info, end)
    }

    /// The directory of the level that ran last, within the search's.
    pub(super) fn directory_name(&self) -> String {
        format!("{:04}", self.number)
    }

    fn keep(&mut self, level: LevelInfo) {
        self.events.event(&Event::LevelEnded(&level));
        self.levels.push(level);
    }
}

/// Response times over the course of a level.
pub(super) fn response_series(workload: &Workload) -> Option<ResponseSeries<'_>> {
    let seen = workload.series.as_ref()?;
    Some(ResponseSeries {
        start_s: seen.start_s,
        step_s: seen.step_s,
        ended: &seen.completed,
        failed: &seen.failed,
        p50_ms: &seen.p50_ms,
    })
}

/// By how much response times grew in each second, if a backlog did.
fn backlog_growth_s(workload: &Workload) -> Option<f64> {
    backlog_growth(&response_series(workload)?)
}

/// A percentile of the response times of all that were due, if it is one of iterations with a time.
fn time(workload: &Workload, percentile: f64) -> Option<f64> {
    match workload.response_time.of_all_at(percentile) {
        Some(Time::Ms(ms)) => Some(ms),
        Some(Time::None) | None => None,
    }
}

/// How a level counts by its verdict, and why; no outcome if it says nothing of the service.
fn outcome(
    verdict: Outcome,
    invalid: &[String],
    criteria: &[Criterion],
) -> (Option<LevelOutcome>, Option<String>) {
    let of = |outcome| {
        let mut decided =
            criteria.iter().filter(|one| one.outcome == outcome && one.severity == Severity::Fail);
        decided.next().map(|one| format!("{}: {}", one.condition, one.observed))
    };
    match verdict {
        Outcome::Pass | Outcome::None => (Some(LevelOutcome::Holds), None),
        Outcome::Fail => (Some(LevelOutcome::Breaks), of(Outcome::Fail)),
        Outcome::Inconclusive => (Some(LevelOutcome::Unclear), of(Outcome::Inconclusive)),
        Outcome::Invalid => {
            let first = criteria.iter().find(|one| one.outcome == Outcome::Invalid);
            let reason = first.and_then(|one| one.reason.clone().or_else(|| of(Outcome::Invalid)));
            (None, invalid.first().cloned().or(reason))
        }
    }
}
