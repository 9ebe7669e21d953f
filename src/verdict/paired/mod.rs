//! Whether build B is slower than build A, from rounds that took turns.
//!
//! A pair is one round of each; its difference is ln(B/A) of a percentile, so what slows the machine for both falls
//! out. The mean of the differences has Student's bounds: FAIL when even the lower one is above the margin, PASS when
//! even the upper one is below it, else INCONCLUSIVE. There are two looks, each with its own share of error, which is
//! divided over the gated percentiles. What failed, never started or was cut off took longer than all that went well.
//! Requests are never pooled over pairs: pairs are what varies. Rounds that are too short are lengthened, on both sides
//! (`length`). Nothing here runs, prints or reads a file.

mod failures;
mod length;
mod metric;
mod series;
#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;

use schemars::JsonSchema;
use serde::Serialize;

use crate::base::statistics::paired::{Estimate, signed_rank};
use crate::results::model::Outcome;

pub use failures::Failures;
pub use length::{LENGTHEN_MAX, Offered, Span};
pub use metric::Metric;
pub use series::{Names, Round, Series, is_known, series};

/// How likely a look may be wrong, one-sided, over all gated percentiles.
pub const ALPHA: f64 = 0.005;
/// How many percentiles may be gated: each costs the others some of their power.
pub const METRICS_MAX: usize = 3;
/// What a histogram's reading, or a round's share of failures, may be off.
const RESOLUTION: f64 = 0.001;
/// How likely the smallest detectable change is found.
const POWER: f64 = 0.8;
/// After how many pairs without a single successful iteration B counts as broken, and not as slow.
const BROKEN_PAIRS: usize = 3;

/// How pairs are judged.
#[derive(Clone, Debug, PartialEq)]
pub struct Rules {
    /// How much longer B may take: 0.1 for a tenth.
    pub margin: f64,
    /// After how many pairs there is a look; the last ends it.
    pub looks: [usize; 2],
}

/// What the pairs say, at a look or on the way to it.
#[derive(Clone, Debug, JsonSchema, PartialEq, Serialize)]
pub struct Row {
    /// What it is of.
    #[serde(flatten)]
    pub series: Series,
    /// The geometric mean of A's rounds; absent when a round has none.
    pub a_ms: Option<f64>,
    /// The same of B's.
    pub b_ms: Option<f64>,
    /// B/A, the geometric mean of the pairs; absent with fewer than two.
    pub ratio: Option<f64>,
    /// The ratio is at least this, but for a chance of `alpha`.
    pub low: Option<f64>,
    /// The ratio is at most this, but for a chance of `alpha`.
    pub high: Option<f64>,
    /// How likely each bound is wrong.
    pub alpha: f64,
    /// The standard deviation of ln(B/A) over the pairs.
    pub sd: Option<f64>,
    /// The smallest ratio that would be called FAIL four times in five.
    pub detectable: Option<f64>,
    /// Wilcoxon's signed-rank test as a cross-check: the chance of differences from the margin at least so large.
    pub wilcoxon_p: Option<f64>,
    /// How it is judged; `NONE` where the verdict does not look at it.
    pub outcome: Outcome,
    /// The fewest samples that it had in a pair's rounds of one side.
    pub samples: u64,
    /// A and B of each pair in milliseconds; absent where it falls among what failed or never started.
    pub pairs: Vec<(Option<f64>, Option<f64>)>,
}

/// A verdict with its reasons.
#[derive(Clone, Debug, JsonSchema, PartialEq, Serialize)]
pub struct Decision {
    /// The verdict.
    pub outcome: Outcome,
    /// One sentence each.
    pub reasons: Vec<String>,
}

/// The pairs so far.
#[derive(Clone, Debug)]
pub struct Trial {
    rules: Rules,
    series: Vec<Series>,
    pairs: Vec<(Round, Round)>,
    discarded: usize,
    /// Why no pair can be judged.
    given_up: Option<Decision>,
}

impl Trial {
    /// Nothing has run yet.
    #[must_use]
    pub fn new(rules: Rules, series: Vec<Series>) -> Self {
        Self { rules, series, pairs: Vec::new(), discarded: 0, given_up: None }
    }

    /// Adds a round of each.
    pub fn push(&mut self, a: Round, b: Round) {
        self.pairs.push((a, b));
    }

    /// Leaves out a pair in which the load generator itself was the limit, or A's round was short; it is run again.
    pub fn discard(&mut self) {
        self.discarded += 1;
    }

    /// How many pairs count.
    #[must_use]
    pub fn pairs(&self) -> usize {
        self.pairs.len()
    }

    /// How likely each bound is wrong.
    #[must_use]
    pub fn alpha(&self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "a few")]
        let gated = self.series.iter().filter(|series| series.gated).count().max(1) as f64;
        ALPHA / gated
    }

    /// What the pairs say of each series.
    #[must_use]
    pub fn rows(&self) -> Vec<Row> {
        (0..self.series.len()).map(|index| self.row(index)).collect()
    }

    fn row(&self, index: usize) -> Row {
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
            // What is long and rare may be missing among few samples of B.
            (true, _) => match judge(low, high, 1.0 + self.rules.margin) {
                Outcome::Pass if !enough => Outcome::Inconclusive,
                outcome => outcome,
            },
        };
        let beyond: Vec<f64> = differences.iter().map(|difference| difference - limit).collect();
        let above = estimate.is_some_and(|seen| seen.mean > limit);
        let wilcoxon = signed_rank(&beyond).filter(|_| estimate.is_some());
        Row {
            a_ms: finite(geometric_mean(pairs.iter().map(|pair| pair.0))),
            b_ms: finite(geometric_mean(pairs.iter().map(|pair| pair.1))),
            ratio: estimate.map(|seen| seen.mean.exp()),
            low,
            high,
            alpha,
            sd: estimate.map(|seen| seen.sd),
            detectable: estimate.map(|seen| seen.detectable(limit, alpha, POWER).exp()),
            wilcoxon_p: wilcoxon.map(|test| if above { test.p_greater } else { test.p_less }),
            outcome,
            samples,
            pairs: pairs.into_iter().map(|(a, b)| (finite(a), finite(b))).collect(),
            series,
        }
    }

    /// What failed on both sides.
    #[must_use]
    pub fn failures(&self) -> Vec<Failures> {
        let workloads = self.pairs.first().map_or(0, |(a, _)| a.ended.len());
        (0..workloads).map(|workload| failures::of(&self.pairs, workload)).collect()
    }

    /// The verdict if it is due; `None` while more pairs are to run.
    #[must_use]
    pub fn decide(&self) -> Option<Decision> {
        if let Some(decision) = self.no_use() {
            return Some(decision);
        }
        let (count, [first, last]) = (self.pairs.len(), self.rules.looks);
        if count != first && count < last {
            return None;
        }
        let rows = self.rows();
        let gated = rows.iter().filter(|row| row.series.gated).map(|row| row.outcome);
        let failures = self.failures();
        let outcomes = gated.chain(failures.iter().map(|failures| failures.outcome));
        let outcome = Outcome::worst(outcomes.chain([Outcome::Pass]));
        (outcome != Outcome::Inconclusive || count >= last).then(|| Decision { outcome, reasons: Vec::new() })
    }

    /// Why more rounds would be of no use, if so.
    fn no_use(&self) -> Option<Decision> {
        let invalid = |reason: String| Some(Decision { outcome: Outcome::Invalid, reasons: vec![reason] });
        if self.given_up.is_some() {
            return self.given_up.clone();
        }
        if self.discarded > 1 + self.rules.looks[1] / 5 {
            return invalid(format!(
                "{} pairs had to be left out, as the load generator itself was the limit or A's rounds were too short: \
                 use a machine with more cores, less load, or longer rounds (--round)",
                self.discarded
            ));
        }
        if self.pairs.iter().any(|(a, _)| a.broken()) {
            return invalid(
                "no iteration went well in a round of A: there is nothing to compare with".to_owned(),
            );
        }
        if self.pairs.len() >= BROKEN_PAIRS && self.pairs.iter().all(|(_, b)| b.broken()) {
            let reason = format!("no iteration went well in B, in {} pairs", self.pairs.len());
            return Some(Decision { outcome: Outcome::Fail, reasons: vec![reason] });
        }
        None
    }
}

/// FAIL when even the lower bound of a ratio is above the limit, PASS when even the upper one is below.
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

/// 0 without values, or where one is 0.
fn geometric_mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0.0), |(sum, count), value| (sum + value.ln(), count + 1.0));
    if count == 0.0 { 0.0 } else { (sum / count).exp() }
}
