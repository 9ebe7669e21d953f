//! A new run against the runs before it: what is left where pairs cannot be run. It is the weaker gate.
//!
//! The new run's ln(percentile) is held against what one more run of the same kind would stay below in 99 of 100
//! cases: mean + t·s·√(1 + 1/n). FAIL needs that, a tenth more than the mean, and a second run that confirms it. Where
//! the past runs vary by more than 5 % it finds too little to block on, and only advises. Failures are held against
//! the share of all past iterations that failed: a run that fails surely more never passes.

use schemars::JsonSchema;
use serde::Serialize;

use super::paired::Metric;
use super::{FAILS_ALIKE, FAILS_MORE};
use crate::base::statistics::binomial::{Part, Share};
use crate::base::statistics::paired::{mean_and_sd, prediction_upper};
use crate::results::model::{Outcome, Results};
use crate::results::stored::histogram;

/// So many past runs are needed.
pub const RUNS_MIN: usize = 10;
/// The latest so many are looked at.
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
    past: &[&Results],
    new: &Results,
    confirming: Option<&Results>,
) -> Vec<HistoryFailures> {
    let of = |workload: &crate::results::model::Workload| {
        let read = |results: &Results| failed(results, &workload.name);
        let past: Vec<Part> = past.iter().filter_map(|results| read(results)).collect();
        // A second run without the workload confirms nothing.
        let row = failures_of(&past, read(new)?, confirming.and_then(read));
        Some(HistoryFailures { workload: workload.name.clone(), ..row })
    };
    new.workloads.iter().filter_map(of).collect()
}

/// Failed and dropped iterations, of all that did not end with the run.
fn failed(results: &Results, workload: &str) -> Option<Part> {
    let counts = results.workloads.iter().find(|other| other.name == workload)?.iterations;
    let k = counts.failed.saturating_add(counts.dropped);
    Some(Part { k, n: k.saturating_add(counts.ok) }).filter(|part| part.n > 0)
}

fn failures_of(past: &[Part], new: Part, confirming: Option<Part>) -> HistoryFailures {
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
        let (outcome, reason) = match (above(new), confirming.map(above)) {
            (true, Some(true)) => {
                (Outcome::Fail, "fails more often than past runs, confirmed by a second run")
            }
            (true, Some(false)) => (
                Outcome::Inconclusive,
                "fails more often than past runs; a second run did not confirm it: find out why",
            ),
            (true, None) => (
                Outcome::Inconclusive,
                "fails more often than past runs; a second run has to confirm it: run again and give both",
            ),
            (false, _) if new_share > past_share + FAILS_MORE => {
                (Outcome::Inconclusive, "fails more often than past runs, perhaps by chance: run longer")
            }
            (false, _) => (Outcome::Pass, "within what past runs do"),
        };
        (outcome, reason.to_owned())
    };
    HistoryFailures {
        workload: String::new(),
        runs,
        past_share,
        bound_share: bound.min(1.0),
        new: new.k,
        new_share,
        confirming_share: confirming.map(|part| Share::independent(part).seen()),
        outcome,
        reason,
    }
}

/// Judges every workload's metrics; `margin` is 0.1 for a tenth.
///
/// # Errors
/// A histogram that cannot be read, or a metric that the new run has no samples of.
pub fn judge(
    past: &[&Results],
    new: &Results,
    confirming: Option<&Results>,
    metrics: &[Metric],
    margin: f64,
) -> Result<Vec<HistoryRow>, String> {
    let mut rows = Vec::new();
    for workload in &new.workloads {
        for metric in metrics {
            let read = |results: &Results| value_ms(results, &workload.name, metric);
            let Some(new_ms) = read(new)? else { continue };
            let mut values = Vec::new();
            for results in past {
                values.extend(read(results)?.filter(|value| *value > 0.0).map(f64::ln));
            }
            let confirming_ms = confirming.map(read).transpose()?.flatten();
            let row = one(&values, new_ms, confirming_ms, margin);
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

fn one(past_ln: &[f64], new_ms: f64, confirming_ms: Option<f64>, margin: f64) -> HistoryRow {
    let (mean, sd) = mean_and_sd(past_ln).unwrap_or_default();
    let bound = prediction_upper(past_ln, ALPHA).unwrap_or(f64::INFINITY);
    let above = |ms: f64| ms.ln() > bound && ms.ln() >= mean + (1.0 + margin).ln();
    let runs = past_ln.len();
    let (outcome, reason) = if runs < RUNS_MIN {
        (Outcome::Inconclusive, format!("{runs} past runs can be compared, and {RUNS_MIN} are needed"))
    } else if sd > SD_MAX {
        let advice = if above(new_ms) {
            "longer than past runs by more than chance"
        } else {
            "within what past runs do"
        };
        let reason = format!(
            "{advice}, but past runs vary by {:.1} %, too much to judge by: use bench ab",
            sd * 100.0
        );
        (Outcome::Inconclusive, reason)
    } else if !above(new_ms) {
        (Outcome::Pass, "within what past runs do".to_owned())
    } else {
        match confirming_ms.map(above) {
            None => (
                Outcome::Inconclusive,
                "longer than past runs; a second run has to confirm it: run again and give both".to_owned(),
            ),
            Some(true) => (Outcome::Fail, "longer than past runs, confirmed by a second run".to_owned()),
            Some(false) => {
                (Outcome::Pass, "longer than past runs once; a second run did not confirm it".to_owned())
            }
        }
    };
    HistoryRow {
        workload: String::new(),
        action: None,
        percentile: 0.0,
        runs,
        past_ms: if runs == 0 { 0.0 } else { mean.exp() },
        sd,
        bound_ms: if bound.is_finite() { bound.exp() } else { 0.0 },
        new_ms,
        confirming_ms,
        outcome,
        reason,
    }
}

fn value_ms(results: &Results, workload: &str, metric: &Metric) -> Result<Option<f64>, String> {
    let Some(workload) = results.workloads.iter().find(|other| other.name == workload) else {
        return Ok(None);
    };
    let distribution = match &metric.action {
        None => Some(&workload.response_time),
        Some(name) => {
            workload.actions.iter().find(|action| action.name == *name).map(|action| &action.response_time)
        }
    };
    let Some(distribution) = distribution.filter(|distribution| distribution.count > 0) else {
        return Ok(None);
    };
    #[expect(clippy::cast_precision_loss, reason = "exact up to 2^53 ns, 104 days")]
    let value = histogram(distribution)?.value_at_quantile(metric.percentile / 100.0) as f64 / 1e6;
    Ok(Some(value))
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
            let row = failures_of(&past, new, confirming);
            assert_eq!(row.outcome, expected, "{past:?} {new:?} {confirming:?}: {}", row.reason);
        }
    }

    #[test]
    fn a_new_run_is_held_against_past_ones() {
        let past = |runs: usize, spread: f64| -> Vec<f64> {
            (0..runs).map(|run| 100.0_f64.ln() + spread * if run % 2 == 0 { 1.0 } else { -1.0 }).collect()
        };
        for (runs, spread, new_ms, confirming, expected) in [
            (9, 0.02, 200.0, None, Outcome::Inconclusive),
            (10, 0.02, 100.0, None, Outcome::Pass),
            (10, 0.02, 125.0, None, Outcome::Inconclusive),
            (10, 0.02, 125.0, Some(126.0), Outcome::Fail),
            (10, 0.02, 125.0, Some(101.0), Outcome::Pass),
            // Beyond chance, but not by a tenth.
            (20, 0.001, 105.0, Some(105.0), Outcome::Pass),
            (20, 0.1, 300.0, Some(300.0), Outcome::Inconclusive),
            (0, 0.0, 100.0, None, Outcome::Inconclusive),
        ] {
            let row = one(&past(runs, spread), new_ms, confirming, 0.1);
            assert_eq!(
                row.outcome, expected,
                "{runs} runs, spread {spread}, {new_ms} ms, {confirming:?}: {}",
                row.reason
            );
        }
    }
}
