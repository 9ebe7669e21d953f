//! How criteria stand while a load runs: what the verdict would be if it ended now, and what no later sample can change.
//!
//! For people who watch. Nothing here ends a load, and the verdict is made from the log afterwards. Whoever looks often
//! sees a FAIL by chance sooner or later, so a criterion counts as broken for good only by the test that ends loads
//! ([`super::live`]), which spends the accepted error once for all looks. Everything else is said with "so far". Looks
//! take at most a small share of the load's time; a look that would take more is left out, and the last one stays.

use base::clock::Nanos;
use measure::ids::RunIds;
use measure::rows::Rows;
use results::counting::WorkloadCounts;
use results::model::Outcome;
use serde::Serialize;
use statistics::binomial::{BinomialCount, Share};
use statistics::order::share_above;
use terms::sla::Sla;
use terms::tags::ActionNames;
use terms::threshold::{Metric, Statistic, Threshold};

use super::live::{alpha_of, is_final};
use super::threshold::{ALPHA, Judge, ThresholdResult, by_share};
use super::words::{percent_beside, time_beside};

/// Looks may take one nanosecond in this many of the load.
const TIME_SHARE: u64 = 200;
/// The cost of judging a criterion, or one of its windows, in counters read.
const JUDGE_COST: u64 = 2_000;
/// The test for good looks again with this many times the samples.
const GROWTH: f64 = 1.1;
/// A forecast looks ahead at most this many times as far as the load has come.
const FACTOR_MAX: f64 = 100.0;
/// The steps of a forecast.
const FACTOR_STEP: f64 = 1.05;

/// How a criterion stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StandingState {
    /// There is nothing to judge yet.
    Unmeasured,
    /// If the load ended now, it would pass.
    Holding,
    /// If the load ended now, it would be neither: there are too few samples.
    Unclear,
    /// If the load ended now, it would fail.
    Breaking,
    /// It fails, whatever comes.
    Broken,
    /// It is judged after the load, by what is not known before.
    Later,
}

/// A criterion while the load runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CriterionStanding {
    /// The condition, as text.
    pub condition: String,
    pub state: StandingState,
    /// What was observed so far; empty without samples.
    pub observed: String,
    /// In how many seconds it will be clear, if what comes is like what was, where that can be computed.
    pub clear_in_s: Option<f64>,
}

/// The criteria of a load under way.
pub struct Standings {
    ids: RunIds,
    workloads: Vec<WorkloadStandings>,
}

struct WorkloadStandings {
    sla: Sla,
    counts: WorkloadCounts,
    /// Completed iterations, those of them that failed, and the longest.
    completed: u64,
    failed: u64,
    longest_ns: Nanos,
    ok_sum_ns: u128,
    /// Thresholds that fail whatever comes.
    broken: Vec<bool>,
    looks: u32,
    ended_at_last: u64,
    spent: u64,
    last: Vec<CriterionStanding>,
}

impl Standings {
    /// The criteria of each workload, with the names of its actions.
    #[must_use]
    pub fn new<'a>(workloads: impl IntoIterator<Item = (&'a Sla, ActionNames)>, ids: RunIds) -> Self {
        let workloads = workloads.into_iter().map(|(sla, names)| WorkloadStandings::new(sla, names));
        Self { ids, workloads: workloads.collect() }
    }

    /// Counts these iterations.
    pub fn count(&mut self, rows: &Rows) {
        for row in rows.iter().filter(|row| !row.head.warm_up) {
            let Some(workload) = self.workloads.get_mut(usize::from(row.head.workload)) else { continue };
            if row.head.ended.is_measured() {
                let failed = row.head.ended != measure::sample::CompletionStatus::Ok;
                workload.completed += 1;
                workload.failed += u64::from(failed);
                workload.longest_ns = workload.longest_ns.max(row.head.duration_ns);
                workload.ok_sum_ns += if failed { 0 } else { u128::from(row.head.duration_ns) };
            }
            workload.counts.add(row, self.ids.is_control(row.head));
        }
    }

    /// How the criteria of a workload stand, `elapsed_ns` after its start; as they were if a look would take too long.
    pub fn look(&mut self, workload: usize, elapsed_ns: Nanos) -> &[CriterionStanding] {
        match self.workloads.get_mut(workload) {
            Some(workload) => workload.look(elapsed_ns),
            None => &[],
        }
    }
}

impl WorkloadStandings {
    fn new(sla: &Sla, names: ActionNames) -> Self {
        let only = Sla { thresholds: sla.thresholds.clone(), ..Sla::default() };
        let counts = WorkloadCounts::new(&only, names, |_| true);
        let mut made = Self {
            broken: vec![false; sla.thresholds.len()],
            sla: sla.clone(),
            counts,
            completed: 0,
            failed: 0,
            longest_ns: 0,
            ok_sum_ns: 0,
            looks: 0,
            ended_at_last: 0,
            spent: 0,
            last: Vec::new(),
        };
        made.last = made.judged();
        made
    }

    fn look(&mut self, elapsed_ns: Nanos) -> &[CriterionStanding] {
        let windowed = self.sla.thresholds.iter().filter(|one| one.window_ns.is_some());
        let windows: usize =
            windowed.filter_map(|one| self.counts.of(one)).map(|(series, _)| series.slices().len()).sum();
        let criteria = (self.sla.thresholds.len() + windows) as u64;
        let sealing = self.counts.seal_cost(false) + self.counts.seal_cost(true);
        let cost = sealing + criteria * JUDGE_COST;
        if self.spent.saturating_add(cost) > elapsed_ns / TIME_SHARE {
            return &self.last;
        }
        self.spent += cost;
        self.counts.seal();
        self.find_broken();
        self.last = self.judged();
        &self.last
    }

    /// Judges for good, if there are enough new samples.
    fn find_broken(&mut self) {
        let grown = self.completed as f64 >= self.ended_at_last as f64 * GROWTH;
        if !grown || self.completed == self.ended_at_last {
            return;
        }
        self.looks = self.looks.saturating_add(1);
        self.ended_at_last = self.completed;
        let alpha = alpha_of(self.looks);
        for (threshold, broken) in self.sla.thresholds.iter().zip(&mut self.broken) {
            let Some((series, limit)) = self.counts.of(threshold) else { continue };
            let found = Judge { threshold, series, limit, alpha }.outcome(true);
            *broken |= found.is_some_and(|one| one.outcome == Outcome::Fail && is_final(threshold, one));
        }
    }

    fn judged(&self) -> Vec<CriterionStanding> {
        let thresholds = self.sla.thresholds.iter().zip(&self.broken);
        let thresholds = thresholds.map(|(threshold, broken)| self.of_threshold(threshold, *broken));
        self.of_rally().into_iter().chain(thresholds).collect()
    }

    fn of_threshold(&self, threshold: &Threshold, broken: bool) -> CriterionStanding {
        let condition = threshold.to_string();
        let later = || CriterionStanding::later(condition.clone());
        if threshold.condition.metric.needs_traces() {
            return later();
        }
        let Some((series, limit)) = self.counts.of(threshold) else { return later() };
        let judge = Judge { threshold, series, limit, alpha: ALPHA };
        let ThresholdResult { outcome, observed, samples, .. } = judge.judge();
        let state = match outcome {
            _ if broken => StandingState::Broken,
            _ if samples == 0 => StandingState::Unmeasured,
            Outcome::Pass => StandingState::Holding,
            Outcome::Fail => StandingState::Breaking,
            Outcome::Inconclusive => StandingState::Unclear,
            // Too few samples, or no whole window.
            _ => StandingState::Unmeasured,
        };
        let clear_in_s =
            (state == StandingState::Unclear).then(|| clear_in_s(&judge, series.lasted_ns())).flatten();
        let observed = if samples == 0 { String::new() } else { observed };
        CriterionStanding { condition, state, observed, clear_in_s }
    }

    /// Rally's criteria, which are exact.
    fn of_rally(&self) -> Vec<CriterionStanding> {
        let Sla {
            failure_rate_min,
            failure_rate_max,
            max_seconds_per_iteration,
            max_avg_duration,
            max_avg_duration_per_atomic,
            outliers,
            max_degradation,
            thresholds: _,
        } = &self.sla;
        let of = |condition: String, holds: bool, broken: bool, observed: String| {
            let state = match (self.completed, holds) {
                (0, _) => StandingState::Unmeasured,
                _ if broken => StandingState::Broken,
                (_, true) => StandingState::Holding,
                (_, false) => StandingState::Breaking,
            };
            let observed = if self.completed == 0 { String::new() } else { observed };
            CriterionStanding { condition, state, observed, clear_in_s: None }
        };
        let mut standings = Vec::new();
        let failed = self.failed as f64 * 100.0 / self.completed.max(1) as f64;
        if let Some(max) = *failure_rate_max {
            let broken = max <= 0.0 && self.failed > 0;
            let condition = format!("failure rate at most {max} %");
            standings.push(of(condition, failed <= max, broken, percent_beside(failed, max)));
        }
        if let Some(min) = *failure_rate_min {
            let condition = format!("failure rate at least {min} %");
            standings.push(of(condition, failed >= min, false, percent_beside(failed, min)));
        }
        if let Some(limit_s) = *max_seconds_per_iteration {
            let holds = self.longest_ns as f64 <= limit_s * 1e9;
            let observed = format!("longest {}", time_beside(self.longest_ns as f64, limit_s * 1e9));
            standings.push(of(format!("no iteration longer than {limit_s} s"), holds, !holds, observed));
        }
        if let Some(limit_s) = *max_avg_duration {
            let mean_ns = self.ok_sum_ns as f64 / (self.completed - self.failed).max(1) as f64;
            let condition = format!("mean duration at most {limit_s} s");
            let observed = format!("mean {}", time_beside(mean_ns, limit_s * 1e9));
            standings.push(of(condition, mean_ns <= limit_s * 1e9, false, observed));
        }
        let actions = max_avg_duration_per_atomic.iter();
        let actions =
            actions.map(|(action, limit_s)| format!("mean duration of {action} at most {limit_s} s"));
        let outliers = outliers.iter().map(|one| {
            format!("at most {} iterations over the mean by {} standard deviations", one.max, one.sigmas)
        });
        let degradation = max_degradation
            .iter()
            .map(|limit| format!("longest iteration at most {limit} % longer than the shortest"));
        standings.extend(actions.chain(outliers).chain(degradation).map(CriterionStanding::later));
        standings
    }
}

impl CriterionStanding {
    fn later(condition: String) -> Self {
        Self { condition, state: StandingState::Later, observed: String::new(), clear_in_s: None }
    }
}

/// When a share will be clear of its limit, if it stays what it is.
fn clear_in_s(judge: &Judge<'_>, lasted_ns: Nanos) -> Option<f64> {
    let threshold = judge.threshold;
    let allowed = match &threshold.condition.metric {
        _ if threshold.window_ns.is_some() => return None,
        Metric::Time(Statistic::Percentile(at), _) => share_above(*at),
        Metric::Rate(..) => threshold.condition.limit / 100.0,
        _ => return None,
    };
    let factor = clear_factor(judge.share(0..judge.series.slices().len()), |share| {
        by_share(share, threshold.condition.operator, allowed, ALPHA) != Outcome::Inconclusive
    })?;
    Some((factor - 1.0) * lasted_ns as f64 / 1e9)
}

/// How many times as many samples are needed until a share of the same size is clear.
fn clear_factor(share: Share, is_clear: impl Fn(&Share) -> bool) -> Option<f64> {
    let BinomialCount { k, n } = share.whole;
    let mut factor = FACTOR_STEP;
    while factor <= FACTOR_MAX && n > 0 {
        let times = |count: u64| (count as f64 * factor).round() as u64;
        let mut later = share;
        later.whole = BinomialCount { k: times(k), n: times(n) };
        if is_clear(&later) {
            return Some(factor);
        }
        factor *= FACTOR_STEP;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use measure::sample::{CompletionStatus, IterationSample};
    use terms::control::ControlShare;
    use uuid::Uuid;

    /// A workload with this criterion, after `count` iterations of 20 ms, 100 a second, every `failing`th failed.
    fn standing(sla: &Sla, count: u64, failing: u64) -> CriterionStanding {
        let ids = RunIds::new(Uuid::nil(), ControlShare::NONE);
        let mut standings = Standings::new([(sla, ActionNames::default())], ids);
        for second in 0..count.div_ceil(100) {
            let mut rows = Rows::default();
            for number in second * 100..count.min((second + 1) * 100) {
                let is_failed = failing > 0 && number % failing == 0;
                rows.push(&IterationSample {
                    number,
                    due_ns: number * 10_000_000,
                    start_ns: number * 10_000_000,
                    duration_ns: 20_000_000,
                    ended: if is_failed { CompletionStatus::Failed } else { CompletionStatus::Ok },
                    ..IterationSample::default()
                });
            }
            standings.count(&rows);
            standings.look(0, (second + 1) * 1_000_000_000);
        }
        standings.look(0, count.max(1) * 10_000_000).first().cloned().unwrap()
    }

    fn with(text: &str) -> Sla {
        Sla { thresholds: vec![super::super::tests::threshold(text)], ..Sla::default() }
    }

    #[test]
    fn criteria_stand_as_the_samples_say() {
        let most = |max| Sla { failure_rate_max: Some(max), ..Sla::default() };
        let longest = |limit_s| Sla { max_seconds_per_iteration: Some(limit_s), ..Sla::default() };
        let degradation = Sla { max_degradation: Some(10.0), ..Sla::default() };
        for (sla, count, failing, expected) in [
            (with("p50 < 30ms"), 0, 0, StandingState::Unmeasured),
            (with("p50 < 30ms"), 1_000, 0, StandingState::Holding),
            (with("p50 < 10ms"), 1_000, 0, StandingState::Broken),
            (with("p99 < 30ms"), 100, 0, StandingState::Unclear),
            (with("p99 < 30ms"), 400, 0, StandingState::Holding),
            (with("rate(errors) < 1%"), 1_000, 5, StandingState::Broken),
            (with("rate(errors) < 20%"), 1_000, 5, StandingState::Unclear),
            (with("rate(errors) > 1%"), 1_000, 0, StandingState::Broken),
            // More may come.
            (with("count(completed) > 100000"), 1_000, 0, StandingState::Breaking),
            (with("count(errors) < 10"), 1_000, 5, StandingState::Broken),
            (with("count(trace \"db\") < 10"), 1_000, 0, StandingState::Later),
            (most(0.0), 0, 0, StandingState::Unmeasured),
            (most(0.0), 100, 0, StandingState::Holding),
            (most(0.0), 100, 50, StandingState::Broken),
            (most(1.0), 100, 50, StandingState::Breaking),
            (longest(0.1), 100, 0, StandingState::Holding),
            (longest(0.01), 100, 0, StandingState::Broken),
            (degradation, 100, 0, StandingState::Later),
        ] {
            let found = standing(&sla, count, failing);
            assert_eq!(found.state, expected, "{} after {count}: {found:?}", found.condition);
        }
    }

    /// 299 good samples show that less than 1 % are over a limit: with 100 in the first second, two more are needed.
    #[test]
    fn a_forecast_says_when_enough_samples_will_have_come() {
        let found = standing(&with("p99 < 30ms"), 100, 0);
        let seconds = found.clear_in_s.unwrap();
        assert!((1.9..2.3).contains(&seconds), "{seconds}");
        assert_eq!(standing(&with("p99 < 30ms"), 400, 0).clear_in_s, None);
        // A share that equals its limit never gets clear.
        assert_eq!(standing(&with("rate(errors) < 20%"), 1_000, 5).clear_in_s, None);
    }
}
