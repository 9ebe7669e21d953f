//! A new run against the runs before it: what is left where pairs cannot be run. It is the weaker gate.
//!
//! The new run's ln(percentile) is held against what one more run of the same kind would stay below in 99 of 100
//! cases: mean + t·s·√(1 + 1/n). FAIL needs that, a tenth more than the mean, and a second run that confirms it, which
//! has to be apart from the first ([`super::apart`]): what slows one minute slows both runs in it. Where
//! the past runs vary by more than 5 % it finds too little to block on, and only advises. Failures are held against
//! the share of all past iterations that failed: a run that fails surely more never passes. Figures that a file states
//! and that cannot be held against its iterations show nothing.

use schemars::JsonSchema;
use serde::Serialize;

use super::paired::Metric;
use super::{FAILS_ALIKE, FAILS_MORE};
use crate::base::statistics::binomial::{Part, Share};
use crate::base::statistics::paired::{mean_and_sd, prediction_upper};
use crate::results::model::{Outcome, Results};
use crate::results::stored::{Figure, StoredRun};

use super::apart::{Apart, Second};

/// How many past runs are needed.
pub const RUNS_MIN: usize = 10;
/// How many of the latest are looked at.
pub const RUNS_MAX: usize = 20;
const ALPHA: f64 = 0.01;
/// Past runs that vary by more do not block.
const SD_MAX: f64 = 0.05;

/// A percentile of the new run against those of past ones.
#[derive(Clone, Debug, JsonSchema, PartialEq, Serialize)]
pub struct HistoryRow {
    /// The workload's name.
    pub workload: String,
    /// The action's name; absent for iterations.
    pub action: Option<String>,
    /// Such as 95.
    pub percentile: f64,
    /// How many past runs.
    pub runs: usize,
    /// Their geometric mean.
    pub past_ms: f64,
    /// By how much they vary: the standard deviation of the logarithm, 0.05 for about 5 %.
    pub sd: f64,
    /// One more run of the same kind stays below this but for a chance of 1 %.
    pub bound_ms: f64,
    /// The new run's.
    pub new_ms: f64,
    /// That of the run that is to confirm it.
    pub confirming_ms: Option<f64>,
    /// How it is judged.
    pub outcome: Outcome,
    /// Why, in a sentence.
    pub reason: String,
}

/// What failed of a workload, or never started, against past runs.
#[derive(Clone, Debug, JsonSchema, PartialEq, Serialize)]
pub struct HistoryFailures {
    /// The workload's name.
    pub workload: String,
    /// How many past runs.
    pub runs: usize,
    /// The share of all their iterations, 0 to 1.
    pub past_share: f64,
    /// The past share is at most this but for a chance of 1 %, and never less than 0.001 above what was seen.
    pub bound_share: f64,
    /// How many of the new run.
    pub new: u64,
    /// See `past_share`.
    pub new_share: f64,
    /// That of the run that is to confirm it.
    pub confirming_share: Option<f64>,
    /// How it is judged.
    pub outcome: Outcome,
    /// Why, in a sentence.
    pub reason: String,
}

/// Judges what failed of every workload.
#[must_use]
pub fn judge_failures(
    past: &[&StoredRun],
    new: &StoredRun,
    second: Option<&Second<'_>>,
) -> Vec<HistoryFailures> {
    let of = |workload: &crate::results::model::Workload| {
        let read = |run: &StoredRun| failed(&run.results, &workload.name);
        let proven = past.iter().filter(|run| run.is_proven());
        let parts: Vec<Part> = proven.filter_map(|run| read(run)).collect();
        let new_part = read(new)?;
        let confirming = second
            .and_then(|second| Confirming::of(second, past, |run| read(run).filter(|_| run.is_proven())));
        let mut row = failures_of(&parts, new_part, confirming);
        if !new.is_proven() {
            (row.outcome, row.reason) = (Outcome::Inconclusive, UNPROVEN.to_owned());
        }
        Some(HistoryFailures { workload: workload.name.clone(), ..row })
    };
    new.results.workloads.iter().filter_map(of).collect()
}

/// What a second run shows of one figure.
struct Confirming<T> {
    value: T,
    /// Of the runs of the base between the two.
    between: Vec<T>,
    /// Why it cannot confirm anything.
    why_not: Option<String>,
}

impl<T> Confirming<T> {
    /// `None` when it does not have the figure.
    fn of(second: &Second<'_>, past: &[&StoredRun], read: impl Fn(&StoredRun) -> Option<T>) -> Option<Self> {
        let value = read(second.run)?;
        let (between, why_not) = match &second.apart {
            Apart::Later => (Vec::new(), None),
            Apart::Between(runs) => (runs.iter().filter_map(|run| read(past.get(*run)?)).collect(), None),
            Apart::No(reason) => (Vec::new(), Some(reason.clone())),
        };
        Some(Self { value, between, why_not })
    }
}

/// Why a file without a log and without iterations shows nothing.
const UNPROVEN: &str =
    "the new run's figures cannot be held against its iterations: give its directory with the run's log";
/// What a second run has to be.
const RUN_AGAIN: &str =
    "a second run has to confirm it: run again 10 minutes or more after the end of this one, and give both";
const BASE_AS_WELL: &str =
    "a run of the base between the two did the same: it was the hour and not the build";

/// Failed and dropped iterations, of all that did not end with the run.
fn failed(results: &Results, workload: &str) -> Option<Part> {
    let counts = results.workloads.iter().find(|other| other.name == workload)?.iterations;
    let k = counts.failed.saturating_add(counts.dropped);
    Some(Part { k, n: k.saturating_add(counts.ok) }).filter(|part| part.n > 0)
}

fn failures_of(past: &[Part], new: Part, confirming: Option<Confirming<Part>>) -> HistoryFailures {
    let sum = |of: fn(&Part) -> u64| past.iter().map(of).fold(0, u64::saturating_add);
    let pooled = Share::independent(Part { k: sum(|part| part.k), n: sum(|part| part.n) });
    let past_share = pooled.seen();
    let bound = pooled.bounds(ALPHA).1.max(past_share + FAILS_ALIKE);
    let above = |part: Part| Share::independent(part).surely_above(bound, ALPHA);
    let new_share = Share::independent(new).seen();
    let runs = past.len();
    let (outcome, reason) = if runs < RUNS_MIN {
        (Outcome::Inconclusive, format!("{runs} past runs can be compared, and {RUNS_MIN} are needed"))
    } else {
        let often = "fails more often than past runs";
        let (outcome, reason) = match (above(new), &confirming) {
            (true, None) => (Outcome::Inconclusive, format!("{often}; {RUN_AGAIN}")),
            (true, Some(Confirming { why_not: Some(reason), .. })) => {
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
            (false, _) => (Outcome::Pass, "within what past runs do".to_owned()),
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

/// Judges every workload's metrics; `margin` is 0.1 for a tenth.
///
/// # Errors
/// The new run has nothing that these metrics could be of.
pub fn judge(
    past: &[&StoredRun],
    new: &StoredRun,
    second: Option<&Second<'_>>,
    metrics: &[Metric],
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
            let confirming = second.and_then(|second| Confirming::of(second, past, known));
            let row = match read(new) {
                Figure::Ms(ms) => one(&values, ms, confirming.as_ref(), margin),
                Figure::NoSamples => HistoryRow {
                    reason: "the new run has no samples of it".to_owned(),
                    ..unknown(values.len())
                },
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
    if rows.is_empty() {
        Err("the new run has nothing to judge by these metrics".to_owned())
    } else {
        Ok(rows)
    }
}

/// A row of which nothing is known.
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

fn one(past_ln: &[f64], new_ms: f64, confirming: Option<&Confirming<f64>>, margin: f64) -> HistoryRow {
    let runs = past_ln.len();
    let among_failures = !past_ln.iter().all(|value| value.is_finite());
    let (mean, sd) = mean_and_sd(past_ln).unwrap_or_default();
    let bound = prediction_upper(past_ln, ALPHA).unwrap_or(f64::INFINITY);
    // What falls among failures is longer than whatever went well.
    let above = |ms: f64| ms.ln() > bound && ms.ln() >= mean + (1.0 + margin).ln();
    // A run of the base that was as slow says that it was the hour.
    let as_slow = |second: &Confirming<f64>| {
        second.between.iter().any(|ms| ms * (1.0 + margin) > new_ms.min(second.value))
    };
    let longer = "longer than past runs";
    let (outcome, reason) = if runs < RUNS_MIN {
        (Outcome::Inconclusive, format!("{runs} past runs can be compared, and {RUNS_MIN} are needed"))
    } else if among_failures {
        let reason = "in some past runs it falls among what failed: there is nothing to compare with";
        (Outcome::Inconclusive, reason.to_owned())
    } else if sd > SD_MAX {
        let advice = if above(new_ms) {
            format!("{longer} by more than chance")
        } else {
            "within what past runs do".to_owned()
        };
        let reason = format!(
            "{advice}, but past runs vary by {:.1} %, too much to judge by: use bench ab",
            sd * 100.0
        );
        (Outcome::Inconclusive, reason)
    } else if !above(new_ms) {
        (Outcome::Pass, "within what past runs do".to_owned())
    } else {
        match confirming {
            None => (Outcome::Inconclusive, format!("{longer}; {RUN_AGAIN}")),
            Some(Confirming { why_not: Some(reason), .. }) => {
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
        new_ms: new_ms.min(f64::MAX),
        confirming_ms: confirming.map(|second| second.value.min(f64::MAX)),
        outcome,
        reason,
        ..unknown(runs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_held_against_past_ones() {
        let part = |k, n| Part { k, n };
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
            // More, but of too few to be sure.
            (often(part(10, 1000), 10), part(1, 20), None, Outcome::Inconclusive),
            (often(part(700, 1000), 10), part(0, 1000), None, Outcome::Pass),
            (Vec::new(), part(0, 1000), None, Outcome::Inconclusive),
        ] {
            let second = confirming.map(|value| Confirming { value, between: Vec::new(), why_not: None });
            let row = failures_of(&past, new, second);
            assert_eq!(row.outcome, expected, "{past:?} {new:?} {confirming:?}: {}", row.reason);
        }
    }

    #[test]
    fn a_new_run_is_held_against_past_ones() {
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
            // A second run that is none.
            (10, 0.02, 125.0, Some(125.0), None, not(), Outcome::Inconclusive),
            (10, 0.02, 125.0, Some(101.0), None, not(), Outcome::Inconclusive),
            (10, 0.02, 100.0, Some(100.0), None, not(), Outcome::Pass),
            // A run of the base between the two.
            (10, 0.02, 125.0, Some(126.0), Some(100.0), free(), Outcome::Fail),
            (10, 0.02, 125.0, Some(126.0), Some(124.0), free(), Outcome::Inconclusive),
            (10, 0.02, 125.0, Some(126.0), Some(115.0), free(), Outcome::Inconclusive),
            // It falls among what failed.
            (10, 0.02, f64::INFINITY, None, None, free(), Outcome::Inconclusive),
            (10, 0.02, f64::INFINITY, Some(f64::INFINITY), None, free(), Outcome::Fail),
            // Beyond chance, but not by a tenth.
            (20, 0.001, 105.0, Some(105.0), None, free(), Outcome::Pass),
            (20, 0.1, 300.0, Some(300.0), None, free(), Outcome::Inconclusive),
            (0, 0.0, 100.0, None, None, free(), Outcome::Inconclusive),
        ] {
            let confirming = confirming.map(|value| Confirming {
                value,
                between: between.into_iter().collect(),
                why_not: why_not.clone(),
            });
            let row = one(&past(runs, spread), new_ms, confirming.as_ref(), 0.1);
            assert_eq!(
                row.outcome, expected,
                "{runs} runs, spread {spread}, {new_ms} ms, {between:?}, {why_not:?}: {}",
                row.reason
            );
        }
    }
}
