//! Whether build B is slower than build A, from rounds that took turns.
//!
//! A pair is one round of each; its difference is ln(B/A) of a percentile, so what slows the machine for both falls
//! out. The mean of the differences has Student's bounds: FAIL when even the lower one is above the margin, PASS when
//! even the upper one is below it, else INCONCLUSIVE. There are two looks, each with its own share of error, which is
//! divided over the gated percentiles. Requests are never pooled over rounds: rounds are what varies. Nothing here
//! runs, prints or reads a file.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;

use crate::base::statistics::paired::{Estimate, signed_rank};
use crate::measure::latency::Latency;
use crate::results::aggregate::Aggregate;
use crate::results::model::Outcome;

/// How likely a look may be wrong, one-sided, over all gated percentiles.
pub const ALPHA: f64 = 0.005;
/// How many percentiles may be gated: each costs the others some of their power.
pub const METRICS_MAX: usize = 3;
/// What a histogram's reading may be off.
const RESOLUTION: f64 = 0.001;
/// How likely the smallest detectable change is found.
const POWER: f64 = 0.8;
/// With a chance between this and [`ALPHA`], more failures in B are neither noise nor a finding.
const SUSPICIOUS: f64 = 0.05;
/// B may fail by so much more than A, as a share of all iterations, whatever the rounds say.
const FAILS_ALIKE: f64 = 0.001;
/// So much more of all iterations matters; also, how much of a round's must fail for it to count as affected.
const FAILS_MORE: f64 = 0.01;
/// In so many rounds B must be affected, and A in none, for failures that come in bursts to be B's own.
const AFFECTED_MIN: usize = 2;
/// So many samples must lie beyond a percentile in every round.
const BEYOND_MIN: f64 = 10.0;
/// After so many pairs without a single iteration that went well, B is broken, and not slow.
const BROKEN_PAIRS: usize = 3;
/// Percentiles of iterations that are shown, gated or not.
const ITERATION_PERCENTILES: [f64; 4] = [50.0, 90.0, 95.0, 99.0];
/// Percentiles of actions.
const ACTION_PERCENTILES: [f64; 2] = [50.0, 95.0];

/// A percentile of iterations or of one action: `p95`, `p99(action "log in")`.
#[derive(Clone, Debug, PartialEq)]
pub struct Metric {
    /// Such as 95.
    pub percentile: f64,
    /// The action; absent for iterations.
    pub action: Option<String>,
}

impl FromStr for Metric {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is no percentile: write p95, p(99.9) or p95(action \"NAME\")");
        let rest = text.trim().strip_prefix('p').ok_or_else(wrong)?;
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (mut number, mut rest) = rest.split_at(digits);
        if number.is_empty() {
            (number, rest) =
                rest.strip_prefix('(').and_then(|rest| rest.split_once(')')).ok_or_else(wrong)?;
        }
        let percentile: f64 = number.trim().parse().map_err(|_| wrong())?;
        if !(percentile > 0.0 && percentile < 100.0) {
            return Err(format!("`{text}`: a percentile lies between 0 and 100; write p95"));
        }
        if rest.trim().is_empty() {
            return Ok(Self { percentile, action: None });
        }
        let inner =
            rest.trim().strip_prefix('(').and_then(|rest| rest.strip_suffix(')')).ok_or_else(wrong)?;
        let name = inner.trim().strip_prefix("action").ok_or_else(wrong)?.trim();
        let name =
            name.strip_prefix(['"', '\'']).and_then(|name| name.strip_suffix(['"', '\''])).unwrap_or(name);
        if name.is_empty() {
            return Err(wrong());
        }
        Ok(Self { percentile, action: Some(name.to_owned()) })
    }
}

impl fmt::Display for Metric {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "p{}", self.percentile)?;
        match &self.action {
            Some(action) => write!(formatter, "(action \"{action}\")"),
            None => Ok(()),
        }
    }
}

/// What is compared in every round.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Series {
    /// The workload's index.
    pub workload: usize,
    /// The action's index within it; absent for iterations.
    pub action: Option<usize>,
    /// Such as 95.
    pub percentile: f64,
    /// Whether the verdict looks at it.
    pub gated: bool,
}

impl Series {
    /// How many samples a round needs.
    #[must_use]
    pub fn samples_min(&self) -> u64 {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "at least 10")]
        let least = (BEYOND_MIN * 100.0 / (100.0 - self.percentile) - 1e-6).ceil() as u64;
        least
    }

    fn latency<'a>(&self, aggregate: &'a Aggregate) -> Option<&'a Latency> {
        let workload = aggregate.workloads.get(self.workload)?;
        match self.action {
            None => Some(&workload.response),
            Some(action) => workload.actions.get(action).map(|action| &action.response),
        }
    }
}

/// A workload's names.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Names {
    /// Its own.
    pub workload: String,
    /// Its actions', in their order.
    pub actions: Vec<String>,
}

/// All that is compared of these workloads: the gated metrics, and what is shown beside them.
///
/// # Errors
/// A metric of an action that no workload has, with the names that there are.
pub fn series(workloads: &[Names], metrics: &[Metric]) -> Result<Vec<Series>, String> {
    for action in metrics.iter().filter_map(|metric| metric.action.as_ref()) {
        let mut known = workloads.iter().flat_map(|workload| &workload.actions);
        if !known.clone().any(|name| name == action) {
            let known: Vec<String> = known.by_ref().map(|name| format!("`{name}`")).collect();
            return Err(format!("no action is called `{action}`; there are {}", known.join(", ")));
        }
    }
    let mut all = Vec::new();
    for (workload, names) in workloads.iter().enumerate() {
        let subjects = std::iter::once(None).chain((0..names.actions.len()).map(Some));
        for action in subjects {
            let name = action.map(|index| &names.actions[index]);
            let of_it = |metric: &&Metric| metric.action.as_ref() == name;
            let gated: Vec<f64> = metrics.iter().filter(of_it).map(|metric| metric.percentile).collect();
            let shown: &[f64] = if action.is_some() { &ACTION_PERCENTILES } else { &ITERATION_PERCENTILES };
            let mut percentiles: Vec<f64> = shown.iter().chain(&gated).copied().collect();
            percentiles.sort_by(f64::total_cmp);
            percentiles.dedup();
            all.extend(percentiles.into_iter().map(|percentile| Series {
                workload,
                action,
                percentile,
                gated: gated.contains(&percentile),
            }));
        }
    }
    Ok(all)
}

/// What one round of one side came to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Round {
    /// For each workload: iterations that went well, and those that failed or were dropped.
    pub ended: Vec<(u64, u64)>,
    /// For each series: the percentile in milliseconds, and of how many samples.
    pub values: Vec<(f64, u64)>,
}

impl Round {
    /// The figures of a run.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "exact up to 2^53 ns, 104 days")]
    pub fn of(aggregate: &Aggregate, series: &[Series]) -> Self {
        let ended = aggregate.workloads.iter().map(|workload| {
            let counts = workload.iterations;
            (counts.ok, counts.failed + counts.dropped)
        });
        let values = series.iter().map(|series| {
            series.latency(aggregate).map_or((0.0, 0), |latency| {
                (latency.percentile_ns(series.percentile) as f64 / 1e6, latency.count())
            })
        });
        Self { ended: ended.collect(), values: values.collect() }
    }

    fn broken(&self) -> bool {
        self.ended.iter().map(|(ok, _)| ok).sum::<u64>() == 0
    }
}

/// How pairs are judged.
#[derive(Clone, Debug, PartialEq)]
pub struct Rules {
    /// How much longer B may take: 0.1 for a tenth.
    pub margin: f64,
    /// After how many pairs there is a look; the last ends it.
    pub looks: [usize; 2],
}

/// What the pairs say, at a look or on the way to it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// What it is of.
    #[serde(flatten)]
    pub series: Series,
    /// The geometric mean of A's rounds.
    pub a_ms: f64,
    /// The same of B's.
    pub b_ms: f64,
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
    /// The fewest samples that it had in a round.
    pub samples: u64,
    /// A and B of each pair in milliseconds.
    pub pairs: Vec<(f64, f64)>,
}

/// Failures of a workload on both sides.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Failures {
    /// The workload's index.
    pub workload: usize,
    /// A's failed and dropped iterations.
    pub a: u64,
    /// As a share of all, 0 to 1.
    pub a_share: f64,
    /// B's.
    pub b: u64,
    /// See `a_share`.
    pub b_share: f64,
    /// How likely B's shares exceed A's by so much if neither build fails more: Wilcoxon's test, one-sided.
    pub p_greater: Option<f64>,
    /// FAIL when B fails more beyond doubt, PASS only when it is shown not to matter.
    pub outcome: Outcome,
}

/// A verdict with its reasons.
#[derive(Clone, Debug, PartialEq, Serialize)]
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
}

impl Trial {
    /// Nothing has run yet.
    #[must_use]
    pub fn new(rules: Rules, series: Vec<Series>) -> Self {
        Self { rules, series, pairs: Vec::new(), discarded: 0 }
    }

    /// Adds a round of each; gives why it is left out instead, if so.
    pub fn push(&mut self, a: Round, b: Round) -> Option<String> {
        // Once rounds are known to be long enough, one that is short met a bad moment; but never is a round left out
        // for what may be B's own doing.
        let short = self.short(&a).filter(|_| !self.pairs.is_empty() && !a.broken() && !b.broken());
        let left_out = short
            .map(|(series, samples)| format!("p{} of A has {samples} samples, too few", series.percentile));
        if left_out.is_some() {
            self.discard();
            return left_out;
        }
        self.pairs.push((a, b));
        None
    }

    /// A gated series of which a round has too few samples, and how many.
    fn short(&self, round: &Round) -> Option<(&Series, u64)> {
        let gated = self.series.iter().enumerate().filter(|(_, series)| series.gated);
        gated
            .filter_map(|(index, series)| Some((series, round.values.get(index)?.1)))
            .find(|(series, samples)| *samples < series.samples_min())
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
        let pairs: Vec<(f64, f64)> = both.iter().map(|((a, _), (b, _))| (*a, *b)).collect();
        let enough = samples >= series.samples_min();
        let differences: Vec<f64> = pairs.iter().map(|(a, b)| (b / a).ln()).collect();
        let estimate = Estimate::of(&differences, RESOLUTION).filter(|_| enough);
        let (alpha, limit) = (self.alpha(), (1.0 + self.rules.margin).ln());
        let bound = |sign: f64| estimate.map(|seen| (seen.mean + sign * seen.reach(alpha)).exp());
        let (low, high) = (bound(-1.0), bound(1.0));
        let outcome = match (series.gated, estimate) {
            (false, _) => Outcome::None,
            (true, None) if !enough => Outcome::Invalid,
            (true, _) => judge(low, high, 1.0 + self.rules.margin),
        };
        let beyond: Vec<f64> = differences.iter().map(|difference| difference - limit).collect();
        let above = estimate.is_some_and(|seen| seen.mean > limit);
        let wilcoxon = signed_rank(&beyond).filter(|_| estimate.is_some());
        Row {
            a_ms: geometric_mean(pairs.iter().map(|pair| pair.0)),
            b_ms: geometric_mean(pairs.iter().map(|pair| pair.1)),
            ratio: estimate.map(|seen| seen.mean.exp()),
            low,
            high,
            alpha,
            sd: estimate.map(|seen| seen.sd),
            detectable: estimate.map(|seen| seen.detectable(limit, alpha, POWER).exp()),
            wilcoxon_p: wilcoxon.map(|test| if above { test.p_greater } else { test.p_less }),
            outcome,
            samples,
            pairs,
            series,
        }
    }

    /// What failed on both sides.
    #[must_use]
    pub fn failures(&self) -> Vec<Failures> {
        let workloads = self.pairs.first().map_or(0, |(a, _)| a.ended.len());
        (0..workloads).map(|workload| self.failures_of(workload)).collect()
    }

    #[expect(clippy::cast_precision_loss, reason = "shares")]
    fn failures_of(&self, workload: usize) -> Failures {
        let of = |round: &Round| round.ended.get(workload).copied().unwrap_or_default();
        let share = |(ok, failed): (u64, u64)| failed as f64 / (ok + failed).max(1) as f64;
        let sum = |side: fn(&(Round, Round)) -> &Round| {
            self.pairs.iter().map(side).map(of).fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
        };
        let (a, b) = (sum(|pair| &pair.0), sum(|pair| &pair.1));
        let differences: Vec<f64> = self.pairs.iter().map(|(a, b)| share(of(b)) - share(of(a))).collect();
        let p_greater = signed_rank(&differences).map(|test| test.p_greater);
        // The test passes over rounds that fail alike, so few rounds of many failures never reach a small chance.
        let affected = |side: fn(&(Round, Round)) -> &Round| {
            self.pairs.iter().map(side).filter(|round| share(of(round)) > FAILS_MORE).count()
        };
        let excess = share(b) - share(a);
        let bursts =
            excess > FAILS_MORE && affected(|pair| &pair.1) >= AFFECTED_MIN && affected(|pair| &pair.0) == 0;
        let at_most = Estimate::of(&differences, RESOLUTION).map(|seen| seen.mean + seen.reach(ALPHA));
        let outcome = match p_greater {
            Some(p) if p < ALPHA => Outcome::Fail,
            _ if bursts => Outcome::Fail,
            Some(p) if p < SUSPICIOUS => Outcome::Inconclusive,
            _ if excess <= FAILS_ALIKE || at_most.is_some_and(|most| most < FAILS_MORE) => Outcome::Pass,
            _ => Outcome::Inconclusive,
        };
        Failures { workload, a: a.1, a_share: share(a), b: b.1, b_share: share(b), p_greater, outcome }
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
        let mut outcomes: Vec<Outcome> =
            self.rows().iter().filter(|row| row.series.gated).map(|row| row.outcome).collect();
        outcomes.extend(self.failures().iter().map(|failures| failures.outcome));
        let any = |outcome| outcomes.contains(&outcome);
        let outcome = if any(Outcome::Fail) {
            Outcome::Fail
        } else if any(Outcome::Invalid) {
            Outcome::Invalid
        } else if any(Outcome::Inconclusive) {
            Outcome::Inconclusive
        } else {
            Outcome::Pass
        };
        (outcome != Outcome::Inconclusive || count >= last).then(|| Decision { outcome, reasons: Vec::new() })
    }

    /// Why more rounds would be of no use, if so.
    fn no_use(&self) -> Option<Decision> {
        let invalid = |reason: String| Some(Decision { outcome: Outcome::Invalid, reasons: vec![reason] });
        if self.discarded > 1 + self.rules.looks[1] / 5 {
            return invalid(format!(
                "{} pairs had to be left out, as the load generator itself was the limit or A's round was short: use a \
                 machine with more cores, less load, or longer rounds (--round)",
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
        // What fails at once has no percentiles to speak of; that is seen above.
        let mut working = self.pairs.iter().flat_map(|(a, b)| [a, b]).filter(|round| !round.broken());
        working.find_map(|round| self.short(round)).and_then(|(series, least)| {
            invalid(format!(
                "p{} needs {} samples in every round, and one has {least}: make rounds longer (--round), or gate a \
                 lower percentile (--metric)",
                series.percentile,
                series.samples_min()
            ))
        })
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

/// 0 without values, or where one is 0.
fn geometric_mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0.0), |(sum, count), value| (sum + value.ln(), count + 1.0));
    if count == 0.0 { 0.0 } else { (sum / count).exp() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn series() -> Vec<Series> {
        vec![Series { workload: 0, action: None, percentile: 50.0, gated: true }]
    }

    fn round(value_ms: f64, failed: u64) -> Round {
        Round { ended: vec![(1000 - failed, failed)], values: vec![(value_ms, 1000)] }
    }

    fn trial(pairs: usize, ratio: f64, noise: f64, failed: (u64, u64)) -> Trial {
        let mut trial = Trial::new(Rules { margin: 0.1, looks: [10, 20] }, series());
        for pair in 0..pairs {
            let shared = 1.0 + 0.3 * (pair % 3) as f64;
            let own = if pair % 2 == 0 { noise } else { -noise };
            trial.push(round(10.0 * shared, failed.0), round(10.0 * shared * ratio * (1.0 + own), failed.1));
        }
        trial
    }

    #[test]
    fn pairs_are_judged_by_their_bounds() {
        let outcome = |trial: Trial| trial.decide().map(|decision| decision.outcome);
        for (pairs, ratio, noise, failed, expected) in [
            (9, 1.5, 0.02, (0, 0), None),
            (10, 1.0, 0.02, (0, 0), Some(Outcome::Pass)),
            (10, 1.25, 0.02, (0, 0), Some(Outcome::Fail)),
            (10, 1.1, 0.02, (0, 0), None),
            (19, 1.1, 0.02, (0, 0), None),
            (20, 1.1, 0.02, (0, 0), Some(Outcome::Inconclusive)),
            (10, 1.0, 0.3, (0, 0), None),
            (10, 0.5, 0.02, (0, 0), Some(Outcome::Pass)),
            // B fails more in every pair.
            (10, 1.0, 0.02, (0, 3), Some(Outcome::Fail)),
            (10, 1.0, 0.02, (3, 0), Some(Outcome::Pass)),
            (3, 0.01, 0.02, (0, 1000), Some(Outcome::Fail)),
            (1, 1.0, 0.02, (1000, 0), Some(Outcome::Invalid)),
        ] {
            let seen = outcome(trial(pairs, ratio, noise, failed));
            assert_eq!(seen, expected, "{pairs} pairs, ratio {ratio}, noise {noise}, failures {failed:?}");
        }
    }

    /// Few rounds in which nearly all fails are as good as none to a test by ranks.
    #[test]
    fn failures_in_few_rounds_do_not_pass() {
        for (pairs, affected, share, in_a, expected) in [
            (10, 3, 900, 0, Some(Outcome::Fail)),
            (10, 4, 900, 0, Some(Outcome::Fail)),
            (10, 5, 900, 0, Some(Outcome::Fail)),
            (20, 3, 900, 0, Some(Outcome::Fail)),
            (20, 4, 900, 0, Some(Outcome::Fail)),
            (20, 5, 900, 0, Some(Outcome::Fail)),
            // Once may be the machine.
            (10, 1, 900, 0, None),
            (20, 1, 900, 0, Some(Outcome::Inconclusive)),
            // A is affected as well.
            (20, 4, 900, 2, Some(Outcome::Inconclusive)),
            (20, 4, 900, 4, Some(Outcome::Pass)),
            (20, 4, 0, 4, Some(Outcome::Pass)),
            // Too few to matter.
            (20, 4, 2, 0, Some(Outcome::Pass)),
        ] {
            let mut trial = Trial::new(Rules { margin: 0.1, looks: [10, 20] }, series());
            for pair in 0..pairs {
                let failed = |rounds| if pair < rounds { 900 } else { 0 };
                let own = if pair % 2 == 0 { 1.01 } else { 0.99 };
                trial.push(round(10.0, failed(in_a)), round(10.0 * own, failed(affected).min(share)));
            }
            let seen = trial.decide().map(|decision| decision.outcome);
            assert_eq!(seen, expected, "{pairs} pairs, {affected} rounds, {share} ‰, {in_a} of A");
        }
    }

    #[test]
    fn a_round_without_enough_samples_is_told_at_once() {
        let mut trial = Trial::new(
            Rules { margin: 0.1, looks: [10, 20] },
            vec![Series { percentile: 99.0, ..series()[0].clone() }],
        );
        trial.push(round(1.0, 0), round(1.0, 0));
        assert_eq!(trial.decide(), None, "1,000 are enough for p99");
        trial.push(round(1.0, 0), Round { values: vec![(1.0, 999)], ..round(1.0, 0) });
        let decision = trial.decide().unwrap();
        assert_eq!(decision.outcome, Outcome::Invalid);
        assert!(decision.reasons[0].contains("p99 needs 1000 samples"), "{decision:?}");
        assert_eq!(trial.rows()[0].ratio, None);
    }

    #[test]
    fn a_later_pair_is_left_out_when_a_is_short() {
        let short = |failed| Round { values: vec![(10.0, 19)], ..round(10.0, failed) };
        let outcome = |trial: &Trial| trial.decide().map(|decision| decision.outcome);
        let mut first = trial(0, 1.0, 0.01, (0, 0));
        assert_eq!(first.push(short(0), round(10.0, 0)), None);
        assert_eq!(outcome(&first), Some(Outcome::Invalid), "rounds are too short altogether");
        for (a, b, left_out, expected) in [
            (short(0), round(10.0, 0), true, None),
            (short(0), short(0), true, None),
            (round(10.0, 0), short(0), false, Some(Outcome::Invalid)),
            (short(0), round(10.0, 1000), false, Some(Outcome::Invalid)),
            (short(1000), round(10.0, 0), false, Some(Outcome::Invalid)),
        ] {
            let mut trial = trial(5, 1.0, 0.01, (0, 0));
            assert_eq!(trial.push(a.clone(), b.clone()).is_some(), left_out, "{a:?} {b:?}");
            assert_eq!(
                (trial.pairs(), outcome(&trial)),
                (6 - usize::from(left_out), expected),
                "{a:?} {b:?}"
            );
        }
        let mut often = trial(5, 1.0, 0.01, (0, 0));
        for _ in 0..6 {
            assert!(often.push(short(0), round(10.0, 0)).is_some());
        }
        assert_eq!(outcome(&often), Some(Outcome::Invalid));
    }

    #[test]
    fn pairs_that_the_generator_spoilt_end_it_when_they_are_many() {
        let mut trial = trial(5, 1.0, 0.01, (0, 0));
        (0..5).for_each(|_| trial.discard());
        assert_eq!(trial.decide(), None);
        trial.discard();
        assert_eq!(trial.decide().unwrap().outcome, Outcome::Invalid);
    }

    #[test]
    fn metrics_are_read_and_written() {
        for (text, shown) in [
            ("p95", "p95"),
            ("p(99.9)", "p99.9"),
            (" p50 ", "p50"),
            ("p95(action \"log in\")", "p95(action \"log in\")"),
            ("p(95)(action 'log in')", "p95(action \"log in\")"),
            ("p99.5(action list)", "p99.5(action \"list\")"),
        ] {
            assert_eq!(text.parse::<Metric>().unwrap().to_string(), shown, "{text}");
        }
        for text in [
            "",
            "95",
            "p",
            "p0",
            "p100",
            "p-1",
            "pNaN",
            "p95(",
            "p95()",
            "p95(action)",
            "p95 x",
            "p1.2.3",
            "p(",
        ] {
            assert!(text.parse::<Metric>().is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_rounds_are_survived(rounds in proptest::collection::vec((any::<f64>(), any::<f64>(), 0..3_u64), 0..25)) {
            let mut trial = Trial::new(Rules { margin: 0.1, looks: [10, 20] }, series());
            for (a, b, failed) in rounds {
                trial.push(round(a, failed), round(b, 0));
            }
            let _ = (trial.decide(), trial.rows(), trial.failures());
            for row in trial.rows() {
                prop_assert!(row.low.is_none_or(|low| low.is_finite() || low.is_infinite()));
                prop_assert!(row.outcome != Outcome::Pass || row.high.unwrap() < 1.1);
            }
        }

        /// The same machine twice: with noise on both sides no verdict calls B slower.
        #[test]
        fn equal_builds_do_not_fail(seed: u64) {
            let mut random = fastrand::Rng::with_seed(seed);
            let mut noise = |size: f64| size * (0..12).map(|_| random.f64() - 0.5).sum::<f64>();
            let mut trial = Trial::new(Rules { margin: 0.1, looks: [10, 20] }, series());
            while trial.decide().is_none() {
                let shared = noise(0.1);
                trial.push(round((shared + noise(0.05)).exp(), 0), round((shared + noise(0.05)).exp(), 0));
            }
            prop_assert!(trial.decide().unwrap().outcome != Outcome::Fail);
        }
    }
}
