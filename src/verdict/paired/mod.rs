//! Whether build B is slower than build A, from alternating rounds.
//!
//! A pair is one round of each build. Its difference is ln(B/A) of a percentile, so a disturbance that slows both
//! rounds cancels out. The mean of the differences has Student's bounds: FAIL when even the lower bound is above the
//! margin, PASS when even the upper bound is below it, else INCONCLUSIVE. Pairs are judged at most twice (two looks).
//! Each look has its own share of the accepted error, divided among the gated percentiles. An iteration that
//! failed, never started or was cut off counts as slower than every successful one. Requests are never pooled over
//! pairs, because the variation is between pairs. Rounds that are too short get longer on both sides (`length`). Counts
//! of trace points are judged after every pair (`counts`).
//! Nothing here runs, prints or reads a file.

mod counts;
mod failures;
mod length;
mod metric;
mod series;
#[cfg(test)]
mod simulation;
mod sla;
#[cfg(test)]
mod tests;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use results::model::Outcome;
use statistics::paired::{Estimate, signed_rank};

pub use counts::{AbMetric, CountMetric, CountRow, CountSeries, RoundCounts};
pub use failures::Failures;
pub use length::{LENGTHEN_MAX, PairDecision, RoundLengths};
pub use metric::PercentileMetric;
pub use series::{PercentileSeries, Round, WorkloadNames, check_action, series};
pub use sla::{SlaRow, SlaSide, sla, with_sla};

/// The accepted one-sided error probability of a look, over all gated percentiles.
pub const ALPHA: f64 = 0.005;
/// At most this many metrics can be gated: each costs the others some power.
pub const METRICS_MAX: usize = 3;
/// The relative error of a histogram's value or of a round's failure rate.
const RESOLUTION: f64 = 0.001;
/// The probability of detecting the smallest detectable change.
const POWER: f64 = 0.8;
/// More pairs are not proposed.
pub const PAIRS_MOST: usize = 200;
/// After this many pairs without a successful iteration, B counts as broken and not as slow.
const BROKEN_PAIRS: usize = 3;

/// The rules for judging pairs.
#[derive(Clone, Debug, PartialEq)]
pub struct Rules {
    /// How much longer B may take: 0.1 for 10 %.
    pub margin: f64,
    /// The numbers of pairs after which pairs are judged; the last ends the trial.
    pub looks: [usize; 2],
}

/// The figures of a series over the pairs so far.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[schemars(rename = "Row")]
pub struct PercentileSeriesRow {
    /// The workload, action and percentile.
    #[serde(flatten)]
    pub series: PercentileSeries,
    /// The geometric mean of A's rounds; absent if a round has no value.
    pub a_ms: Option<f64>,
    /// The same for B.
    pub b_ms: Option<f64>,
    /// B/A, the geometric mean of the pairs; absent with fewer than two.
    pub ratio: Option<f64>,
    /// The ratio is at least this, with an error probability of `alpha`.
    pub low: Option<f64>,
    /// The ratio is at most this, with an error probability of `alpha`.
    pub high: Option<f64>,
    /// The error probability of each bound.
    pub alpha: f64,
    /// The standard deviation of ln(B/A) over the pairs.
    pub sd: Option<f64>,
    /// The smallest ratio that would get FAIL with 80 % power.
    pub detectable: Option<f64>,
    /// How many pairs would decide with 80 % power, if their differences stay as they are; absent if it is decided, and
    /// beyond 200 pairs.
    pub needed: Option<usize>,
    /// Wilcoxon's signed-rank test as a cross-check: the p-value of the differences from the margin.
    pub wilcoxon_p: Option<f64>,
    /// The outcome; `NONE` if it is not gated.
    pub outcome: Outcome,
    /// The smallest number of samples on one side of a pair.
    pub samples: u64,
    /// A and B of each pair in milliseconds; absent if the percentile falls among failed or dropped iterations.
    pub pairs: Vec<(Option<f64>, Option<f64>)>,
}

/// A verdict with its reasons.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Decision {
    /// The verdict.
    pub outcome: Outcome,
    /// The reasons, one sentence each.
    pub reasons: Vec<String>,
}

/// The pairs so far.
#[derive(Clone, Debug)]
pub struct Trial {
    rules: Rules,
    series: Vec<PercentileSeries>,
    counts: Vec<CountSeries>,
    pairs: Vec<(Round, Round)>,
    discarded: usize,
    /// The decision to stop because no pair can be judged.
    given_up: Option<Decision>,
}

impl Trial {
    /// A trial without pairs.
    #[must_use]
    pub fn new(rules: Rules, series: Vec<PercentileSeries>) -> Self {
        Self { rules, series, counts: Vec::new(), pairs: Vec::new(), discarded: 0, given_up: None }
    }

    /// The trial, which also judges these counts.
    #[must_use]
    pub fn with_counts(self, counts: Vec<CountSeries>) -> Self {
        Self { counts, ..self }
    }

    /// Adds a round of each.
    pub fn push(&mut self, a: Round, b: Round) {
        self.pairs.push((a, b));
    }

    /// Counts a pair as discarded: the load generator was the limit, or A's round was short. The pair runs again.
    pub fn discard(&mut self) {
        self.discarded += 1;
    }

    /// The number of pairs that count.
    #[must_use]
    pub fn pairs(&self) -> usize {
        self.pairs.len()
    }

    /// The error probability of each bound.
    #[must_use]
    pub fn alpha(&self) -> f64 {
        ALPHA / self.gated()
    }

    fn gated(&self) -> f64 {
        let percentiles = self.series.iter().filter(|series| series.gated).count();
        (percentiles + self.counts.len()).max(1) as f64
    }

    /// The figures of every count, with the bounds that apply after this number of pairs.
    #[must_use]
    pub fn count_rows(&self) -> Vec<CountRow> {
        let at_look = self.rules.looks.contains(&self.pairs.len());
        let alpha = if at_look { self.alpha() } else { counts::ALPHA_BETWEEN / self.gated() };
        let rows = self.counts.iter().enumerate().map(|(index, series)| {
            let of = |round: &Round| round.counts.get(index).cloned().unwrap_or_default();
            let pairs: Vec<_> = self.pairs.iter().map(|(a, b)| (of(a), of(b))).collect();
            counts::row(series, &pairs, alpha, self.rules.margin)
        });
        rows.collect()
    }

    /// The decision by counts alone: they need few pairs.
    fn by_counts(&self, rows: &[CountRow]) -> Option<Decision> {
        if self.pairs.len() < counts::PAIRS_MIN {
            return None;
        }
        if rows.iter().any(|row| row.outcome == Outcome::Fail) {
            return Some(Decision { outcome: Outcome::Fail, reasons: Vec::new() });
        }
        let invalid = rows.iter().find(|row| row.outcome == Outcome::Invalid)?;
        let reason = invalid.reason.as_deref().unwrap_or("no traces");
        let reasons = vec![format!("{}: {reason}", invalid.metric)];
        Some(Decision { outcome: Outcome::Invalid, reasons })
    }

    /// The figures of every series.
    #[must_use]
    pub fn rows(&self) -> Vec<PercentileSeriesRow> {
        (0..self.series.len()).map(|index| self.row(index)).collect()
    }

    fn row(&self, index: usize) -> PercentileSeriesRow {
        let series = self.series[index].clone();
        let of = |round: &Round| round.values.get(index).copied().unwrap_or_default();
        let both: Vec<_> = self.pairs.iter().map(|(a, b)| (of(a), of(b))).collect();
        let samples = both.iter().map(|((_, a), (_, b))| *a.min(b)).min().unwrap_or(0);
        let pairs: Vec<_> = both.iter().map(|((a, _), (b, _))| (*a, *b)).collect();
        let enough = samples >= series.samples_min();
        let differences: Vec<f64> = pairs.iter().map(|(a, b)| (b / a).ln()).collect();
        let estimate = Estimate::of(&differences, RESOLUTION);
        let (alpha, limit) = (self.alpha(), (1.0 + self.rules.margin).ln());
        let bound = |sign: f64| estimate.map(|seen| (seen.mean + sign * seen.reach(alpha)).exp());
        let (low, high) = (bound(-1.0), bound(1.0));
        let outcome = match (series.gated, estimate) {
            (false, _) => Outcome::None,
            // Few samples of B may miss rare slow iterations.
            (true, _) => match judge(low, high, 1.0 + self.rules.margin) {
                Outcome::Pass if !enough => Outcome::Inconclusive,
                outcome => outcome,
            },
        };
        let beyond: Vec<f64> = differences.iter().map(|difference| difference - limit).collect();
        let above = estimate.is_some_and(|seen| seen.mean > limit);
        let wilcoxon = signed_rank(&beyond).filter(|_| estimate.is_some());
        PercentileSeriesRow {
            a_ms: finite(geometric_mean(pairs.iter().map(|pair| pair.0))),
            b_ms: finite(geometric_mean(pairs.iter().map(|pair| pair.1))),
            ratio: estimate.map(|seen| seen.mean.exp()),
            low,
            high,
            alpha,
            sd: estimate.map(|seen| seen.sd),
            detectable: estimate.map(|seen| seen.detectable(limit, alpha, POWER).exp()),
            needed: estimate
                .filter(|_| outcome == Outcome::Inconclusive && enough)
                .and_then(|seen| seen.count_for(limit, alpha, POWER, PAIRS_MOST)),
            wilcoxon_p: wilcoxon.map(|test| if above { test.p_greater } else { test.p_less }),
            outcome,
            samples,
            pairs: pairs.into_iter().map(|(a, b)| (finite(a), finite(b))).collect(),
            series,
        }
    }

    /// The failures of both sides, by workload.
    #[must_use]
    pub fn failures(&self) -> Vec<Failures> {
        let workloads = self.pairs.first().map_or(0, |(a, _)| a.ended.len());
        (0..workloads).map(|workload| failures::of(&self.pairs, workload)).collect()
    }

    /// The verdict, or `None` if more pairs must run.
    #[must_use]
    pub fn decide(&self) -> Option<Decision> {
        if let Some(decision) = self.early_end() {
            return Some(decision);
        }
        let counts = self.count_rows();
        if let Some(decision) = self.by_counts(&counts) {
            return Some(decision);
        }
        let (count, [first, last]) = (self.pairs.len(), self.rules.looks);
        if count != first && count < last {
            return None;
        }
        let rows = self.rows();
        let gated = rows.iter().filter(|row| row.series.gated).map(|row| row.outcome);
        let failures = self.failures();
        let outcomes = gated
            .chain(counts.iter().map(|row| row.outcome))
            .chain(failures.iter().map(|failures| failures.outcome));
        let outcome = Outcome::worst(outcomes.chain([Outcome::Pass]));
        (outcome != Outcome::Inconclusive || count >= last).then(|| Decision { outcome, reasons: Vec::new() })
    }

    /// The decision if further rounds would be useless.
    fn early_end(&self) -> Option<Decision> {
        let invalid = |reason: String| Some(Decision { outcome: Outcome::Invalid, reasons: vec![reason] });
        if self.given_up.is_some() {
            return self.given_up.clone();
        }
        if self.discarded > 1 + self.rules.looks[1] / 5 {
            return invalid(format!(
                "{} pairs were discarded, because the load generator itself was the limit or A's rounds were too \
                 short: use a machine with more cores, less load, or longer rounds (--round)",
                self.discarded
            ));
        }
        if self.pairs.iter().any(|(a, _)| a.broken()) {
            return invalid(
                "no iteration succeeded in a round of A: there is nothing to compare with".to_owned(),
            );
        }
        if self.pairs.len() >= BROKEN_PAIRS && self.pairs.iter().all(|(_, b)| b.broken()) {
            let reason = format!("no iteration of B succeeded in {} pairs", self.pairs.len());
            return Some(Decision { outcome: Outcome::Fail, reasons: vec![reason] });
        }
        None
    }
}

/// FAIL when even the lower bound of a ratio is above the limit, PASS when even the upper bound is below it.
fn judge(low: Option<f64>, high: Option<f64>, limit: f64) -> Outcome {
    match (low, high) {
        (Some(low), _) if low > limit => Outcome::Fail,
        (_, Some(high)) if high < limit => Outcome::Pass,
        _ => Outcome::Inconclusive,
    }
}

fn finite(value: f64) -> Option<f64> {
    Some(value).filter(|value| value.is_finite())
}

/// 0 without values, or if a value is 0.
fn geometric_mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0.0), |(sum, count), value| (sum + value.ln(), count + 1.0));
    if count == 0.0 { 0.0 } else { (sum / count).exp() }
}
