//! A new run against past runs. This is the weaker gate, for cases where pairs cannot be run.
//!
//! The new run's ln(percentile) is compared with the bound that one more run of the same kind stays below in 99 of 100
//! cases: mean + t·s·√(1 + 1/n). FAIL needs three things: a value above that bound, at least 10 % above the mean, and
//! a second run that confirms it. The second run must be separate in time ([`super::separation`]), since a disturbance
//! slows all runs of the same minutes. If past runs vary by more than 5 %, the result is only advice. The failure rate
//! is compared with that of all past iterations: a run that fails significantly more never passes. Figures in a file
//! are ignored if they cannot be checked against its iterations.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::paired::PercentileMetric;
use super::{FAILS_ALIKE, FAILS_MORE};
use results::model::{Outcome, Results};
use results::nullable;
use results::stored::{Figure, StoredRun};
use statistics::binomial::{BinomialCount, Share};
use statistics::paired::{mean_and_sd, prediction_upper};

use super::separation::{ConfirmingRun, Separation};

/// The number of past runs that a verdict needs.
pub const RUNS_MIN: usize = 10;
/// At most this many past runs count, the latest.
pub const RUNS_MAX: usize = 20;
const ALPHA: f64 = 0.01;
/// If past runs vary by more, there is no verdict.
const SD_MAX: f64 = 0.05;

/// A percentile of the new run against those of past ones.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct HistoryRow {
    /// The workload's name.
    pub workload: String,
    /// The action's name; absent for iterations.
    pub action: Option<String>,
    /// Such as 95.
    pub percentile: f64,
    /// The number of past runs.
    pub runs: usize,
    /// Their geometric mean.
    pub past_ms: f64,
    /// The variation of past runs: the standard deviation of the logarithm, 0.05 for about 5 %.
    pub sd: f64,
    /// One more run of the same kind stays below this with a probability of 99 %.
    pub bound_ms: f64,
    /// The new run's value; infinite (null in JSON) if the percentile falls among those that failed, never started or were
    /// cut off: they count as longer than all others.
    #[schemars(with = "Option<f64>")]
    #[serde(deserialize_with = "nullable::infinite")]
    pub new_ms: f64,
    /// The confirming run's value, in the same way; absent without such a run.
    pub confirming_ms: Option<f64>,
    /// The outcome.
    pub outcome: Outcome,
    /// The reason, in a sentence.
    pub reason: String,
}

/// The failed and dropped iterations of a workload against past runs.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct HistoryFailures {
    /// The workload's name.
    pub workload: String,
    /// The number of past runs.
    pub runs: usize,
    /// The share of all their iterations, 0 to 1.
    pub past_share: f64,
    /// The past share is at most this with a probability of 99 %. Always at least 0.001 above the observed share.
    pub bound_share: f64,
    /// The number in the new run.
    pub new: u64,
    /// The share in the new run, 0 to 1.
    pub new_share: f64,
    /// The share in the confirming run.
    pub confirming_share: Option<f64>,
    /// The outcome.
    pub outcome: Outcome,
    /// The reason, in a sentence.
    pub reason: String,
}

/// Judges the failures of every workload.
#[must_use]
pub fn judge_failures(
    past: &[&StoredRun],
    new: &StoredRun,
    second: Option<&ConfirmingRun<'_>>,
) -> Vec<HistoryFailures> {
    let of = |workload: &results::model::Workload| {
        let read = |run: &StoredRun| failed(&run.results, &workload.name);
        let proven = past.iter().filter(|run| run.is_proven());
        let parts: Vec<BinomialCount> = proven.filter_map(|run| read(run)).collect();
        let new_part = read(new)?;
        let confirming = second.and_then(|second| {
            ConfirmingFigure::of(second, past, |run| read(run).filter(|_| run.is_proven()))
        });
        let mut row = failures_of(&parts, new_part, confirming);
        if !new.is_proven() {
            (row.outcome, row.reason) = (Outcome::Inconclusive, UNPROVEN.to_owned());
        }
        Some(HistoryFailures { workload: workload.name.clone(), ..row })
    };
    new.results.workloads.iter().filter_map(of).collect()
}

/// A figure of a second run.
struct ConfirmingFigure<T> {
    value: T,
    /// The figures of base runs between the two.
    between: Vec<T>,
    /// Why the run cannot confirm anything.
    why_not: Option<String>,
}

impl<T> ConfirmingFigure<T> {
    /// `None` if the second run does not have the figure.
    fn of(
        second: &ConfirmingRun<'_>,
        past: &[&StoredRun],
        read: impl Fn(&StoredRun) -> Option<T>,
    ) -> Option<Self> {
        let value = read(second.run)?;
        let (between, why_not) = match &second.separation {
            Separation::Later => (Vec::new(), None),
            Separation::Between(runs) => {
                (runs.iter().filter_map(|run| read(past.get(*run)?)).collect(), None)
            }
            Separation::TooClose(reason) => (Vec::new(), Some(reason.clone())),
        };
        Some(Self { value, between, why_not })
    }
}

/// Why the figures of a file without a log and without iterations are ignored.
const UNPROVEN: &str =
    "the new run's figures cannot be checked against its iterations: give its directory with the run log";
/// The conditions on a second run.
const RUN_AGAIN: &str =
    "a second run must confirm it: run again 10 minutes or more after the end of this run, and give both";
const BASE_AS_WELL: &str =
    "a base run between the two did the same: the cause is the time of the runs, not the build";

/// Failed and dropped iterations, of all except those that were cut off.
fn failed(results: &Results, workload: &str) -> Option<BinomialCount> {
    let counts = results.workloads.iter().find(|other| other.name == workload)?.iterations;
    let k = counts.failed.saturating_add(counts.dropped);
    Some(BinomialCount { k, n: k.saturating_add(counts.ok) }).filter(|part| part.n > 0)
}

fn failures_of(
    past: &[BinomialCount],
    new: BinomialCount,
    confirming: Option<ConfirmingFigure<BinomialCount>>,
) -> HistoryFailures {
    let sum = |of: fn(&BinomialCount) -> u64| past.iter().map(of).fold(0, u64::saturating_add);
    let pooled = Share::independent(BinomialCount { k: sum(|part| part.k), n: sum(|part| part.n) });
    let past_share = pooled.seen();
    let bound = pooled.bounds(ALPHA).1.max(past_share + FAILS_ALIKE);
    let above = |part: BinomialCount| Share::independent(part).surely_above(bound, ALPHA);
    let new_share = Share::independent(new).seen();
    let runs = past.len();
    let (outcome, reason) = if runs < RUNS_MIN {
        (Outcome::Inconclusive, format!("{runs} past runs are comparable, and {RUNS_MIN} are needed"))
    } else {
        let often = "fails more often than past runs";
        let (outcome, reason) = match (above(new), &confirming) {
            (true, None) => (Outcome::Inconclusive, format!("{often}; {RUN_AGAIN}")),
            (true, Some(ConfirmingFigure { why_not: Some(reason), .. })) => {
                (Outcome::Inconclusive, format!("{often}; {reason}"))
            }
            (true, Some(second)) if !above(second.value) => {
                (Outcome::Inconclusive, format!("{often}; a second run did not confirm it: find out why"))
            }
            (true, Some(second)) if second.between.iter().any(|part| above(*part)) => {
                (Outcome::Inconclusive, format!("{often}; {BASE_AS_WELL}"))
            }
            (true, Some(_)) => (Outcome::Fail, format!("{often}, confirmed by a second run")),
            (false, _) if new_share > past_share + FAILS_MORE => {
                (Outcome::Inconclusive, format!("{often}, perhaps by chance: run longer"))
            }
            (false, _) => (Outcome::Pass, "within the range of past runs".to_owned()),
        };
        (outcome, reason)
    };
    HistoryFailures {
        workload: String::new(),
        runs,
        past_share,
        bound_share: bound.min(1.0),
        new: new.k,
        new_share,
        confirming_share: confirming.map(|second| Share::independent(second.value).seen()),
        outcome,
        reason,
    }
}

/// Judges every workload's metrics; `margin` is 0.1 for 10 %.
///
/// # Errors
/// Fails if none of the metrics applies to the new run.
pub fn judge(
    past: &[&StoredRun],
    new: &StoredRun,
    second: Option<&ConfirmingRun<'_>>,
    metrics: &[PercentileMetric],
    margin: f64,
) -> Result<Vec<HistoryRow>, String> {
    let mut rows = Vec::new();
    for workload in &new.results.workloads {
        for metric in metrics {
            let action = metric.action.as_deref();
            let has = |name: &str| workload.actions.iter().any(|action| action.name == name);
            if action.is_some_and(|name| !has(name)) {
                continue;
            }
            let read = |run: &StoredRun| run.percentile(&workload.name, action, metric.percentile);
            let known = |run: &StoredRun| match read(run) {
                Figure::Ms(ms) => Some(ms).filter(|ms| *ms > 0.0),
                Figure::NoSamples | Figure::Unproven => None,
            };
            let values: Vec<f64> = past.iter().filter_map(|run| known(run)).map(f64::ln).collect();
            let confirming = second.and_then(|second| ConfirmingFigure::of(second, past, known));
            let row = match read(new) {
                Figure::Ms(ms) => judge_row(&values, ms, confirming.as_ref(), margin),
                Figure::NoSamples => {
                    HistoryRow { reason: "the new run has no samples".to_owned(), ..unknown(values.len()) }
                }
                Figure::Unproven => HistoryRow { reason: UNPROVEN.to_owned(), ..unknown(values.len()) },
            };
            rows.push(HistoryRow {
                workload: workload.name.clone(),
                action: metric.action.clone(),
                percentile: metric.percentile,
                ..row
            });
        }
    }
    if rows.is_empty() { Err("none of these metrics applies to the new run".to_owned()) } else { Ok(rows) }
}

/// A row without data.
fn unknown(runs: usize) -> HistoryRow {
    HistoryRow {
        workload: String::new(),
        action: None,
        percentile: 0.0,
        runs,
        past_ms: 0.0,
        sd: 0.0,
        bound_ms: 0.0,
        new_ms: 0.0,
        confirming_ms: None,
        outcome: Outcome::Inconclusive,
        reason: String::new(),
    }
}

fn judge_row(
    past_ln: &[f64],
    new_ms: f64,
    confirming: Option<&ConfirmingFigure<f64>>,
    margin: f64,
) -> HistoryRow {
    let runs = past_ln.len();
    let among_failures = !past_ln.iter().all(|value| value.is_finite());
    let (mean, sd) = mean_and_sd(past_ln).unwrap_or_default();
    let bound = prediction_upper(past_ln, ALPHA).unwrap_or(f64::INFINITY);
    // A percentile among failures is longer than every successful time.
    let above = |ms: f64| ms.ln() > bound && ms.ln() >= mean + (1.0 + margin).ln();
    // If a base run was as slow, the cause is the time and not the build.
    let as_slow = |second: &ConfirmingFigure<f64>| {
        second.between.iter().any(|ms| ms * (1.0 + margin) > new_ms.min(second.value))
    };
    let longer =
        if new_ms.is_finite() { "longer than past runs" } else { "among failures, unlike in past runs" };
    let (outcome, reason) = if runs < RUNS_MIN {
        (Outcome::Inconclusive, format!("{runs} past runs are comparable, and {RUNS_MIN} are needed"))
    } else if among_failures {
        let reason = "in some past runs this percentile falls among the failures: nothing to compare with";
        (Outcome::Inconclusive, reason.to_owned())
    } else if sd > SD_MAX {
        let advice = if new_ms.is_infinite() {
            longer.to_owned()
        } else if above(new_ms) {
            format!("{longer} by more than chance")
        } else {
            "within the range of past runs".to_owned()
        };
        let reason = format!(
            "{advice}, but past runs vary by {:.1} %, too much for a verdict: use bench ab",
            sd * 100.0
        );
        (Outcome::Inconclusive, reason)
    } else if !above(new_ms) {
        (Outcome::Pass, "within the range of past runs".to_owned())
    } else {
        match confirming {
            None => (Outcome::Inconclusive, format!("{longer}; {RUN_AGAIN}")),
            Some(ConfirmingFigure { why_not: Some(reason), .. }) => {
                (Outcome::Inconclusive, format!("{longer}; {reason}"))
            }
            Some(second) if !above(second.value) => {
                (Outcome::Pass, format!("{longer} once; a second run did not confirm it"))
            }
            Some(second) if as_slow(second) => (Outcome::Inconclusive, format!("{longer}; {BASE_AS_WELL}")),
            Some(_) => (Outcome::Fail, format!("{longer}, confirmed by a second run")),
        }
    };
    let finite = |ms: f64| if ms.is_finite() { ms } else { 0.0 };
    HistoryRow {
        runs,
        past_ms: if runs == 0 { 0.0 } else { finite(mean.exp()) },
        sd,
        bound_ms: finite(bound.exp()),
        new_ms,
        confirming_ms: confirming.map(|second| second.value),
        outcome,
        reason,
        ..unknown(runs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_compared_with_past_runs() {
        let part = |k, n| BinomialCount { k, n };
        let often = |one, runs| vec![one; runs];
        for (past, new, confirming, expected) in [
            (often(part(0, 1000), 10), part(0, 1000), None, Outcome::Pass),
            (often(part(0, 1000), 10), part(700, 1000), None, Outcome::Inconclusive),
            (often(part(0, 1000), 10), part(700, 1000), Some(part(700, 1000)), Outcome::Fail),
            (often(part(0, 1000), 10), part(700, 1000), Some(part(0, 1000)), Outcome::Inconclusive),
            (often(part(0, 1000), 9), part(700, 1000), Some(part(700, 1000)), Outcome::Inconclusive),
            (often(part(0, 1000), 10), part(1, 1000), None, Outcome::Pass),
            (often(part(50, 1000), 10), part(52, 1000), None, Outcome::Pass),
            (often(part(50, 1000), 10), part(120, 1000), Some(part(120, 1000)), Outcome::Fail),
            // More, but too few iterations for certainty.
            (often(part(10, 1000), 10), part(1, 20), None, Outcome::Inconclusive),
            (often(part(700, 1000), 10), part(0, 1000), None, Outcome::Pass),
            (Vec::new(), part(0, 1000), None, Outcome::Inconclusive),
        ] {
            let second =
                confirming.map(|value| ConfirmingFigure { value, between: Vec::new(), why_not: None });
            let row = failures_of(&past, new, second);
            assert_eq!(row.outcome, expected, "{past:?} {new:?} {confirming:?}: {}", row.reason);
        }
    }

    #[test]
    fn failures_are_confirmed_only_by_a_run_that_can_and_no_base_run_shares() {
        let part = |k| BinomialCount { k, n: 1000 };
        for (between, why_not, expected, reason) in [
            (vec![], None, Outcome::Fail, "confirmed by a second run"),
            (vec![part(0), part(1)], None, Outcome::Fail, "confirmed by a second run"),
            (vec![part(0), part(690)], None, Outcome::Inconclusive, BASE_AS_WELL),
            (vec![], Some("it is the same run".to_owned()), Outcome::Inconclusive, "it is the same run"),
        ] {
            let second = ConfirmingFigure { value: part(700), between, why_not };
            let row = failures_of(&[part(0); 10], part(700), Some(second));
            assert_eq!(row.outcome, expected, "{}", row.reason);
            assert!(row.reason.ends_with(reason), "{}", row.reason);
        }
    }

    #[test]
    fn a_new_run_is_compared_with_past_runs() {
        let past = |runs: usize, spread: f64| -> Vec<f64> {
            (0..runs).map(|run| 100.0_f64.ln() + spread * if run % 2 == 0 { 1.0 } else { -1.0 }).collect()
        };
        let free = || None;
        let not = || Some("it is the same run".to_owned());
        for (runs, spread, new_ms, confirming, between, why_not, expected) in [
            (9, 0.02, 200.0, None, None, free(), Outcome::Inconclusive),
            (10, 0.02, 100.0, None, None, free(), Outcome::Pass),
            (10, 0.02, 125.0, None, None, free(), Outcome::Inconclusive),
            (10, 0.02, 125.0, Some(126.0), None, free(), Outcome::Fail),
            (10, 0.02, 125.0, Some(101.0), None, free(), Outcome::Pass),
            // A second run that cannot confirm anything.
            (10, 0.02, 125.0, Some(125.0), None, not(), Outcome::Inconclusive),
            (10, 0.02, 125.0, Some(101.0), None, not(), Outcome::Inconclusive),
            (10, 0.02, 100.0, Some(100.0), None, not(), Outcome::Pass),
            // A base run between the two.
            (10, 0.02, 125.0, Some(126.0), Some(100.0), free(), Outcome::Fail),
            (10, 0.02, 125.0, Some(126.0), Some(124.0), free(), Outcome::Inconclusive),
            (10, 0.02, 125.0, Some(126.0), Some(115.0), free(), Outcome::Inconclusive),
            // The percentile falls among the failures.
            (10, 0.02, f64::INFINITY, None, None, free(), Outcome::Inconclusive),
            (10, 0.02, f64::INFINITY, Some(f64::INFINITY), None, free(), Outcome::Fail),
            // More than chance, but less than 10 %.
            (20, 0.001, 105.0, Some(105.0), None, free(), Outcome::Pass),
            (20, 0.1, 300.0, Some(300.0), None, free(), Outcome::Inconclusive),
            (0, 0.0, 100.0, None, None, free(), Outcome::Inconclusive),
        ] {
            let confirming = confirming.map(|value| ConfirmingFigure {
                value,
                between: between.into_iter().collect(),
                why_not: why_not.clone(),
            });
            let row = judge_row(&past(runs, spread), new_ms, confirming.as_ref(), 0.1);
            assert_eq!(
                row.outcome, expected,
                "{runs} runs, spread {spread}, {new_ms} ms, {between:?}, {why_not:?}: {}",
                row.reason
            );
        }
    }
}
