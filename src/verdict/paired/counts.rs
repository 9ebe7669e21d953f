//! Whether build B does more than build A: calls, errors and depth of trace points, per iteration.
//!
//! Each round has a random sample of successful iterations, and each pair of rounds the difference of two means.
//! Where every sampled iteration of a side has the same count, the difference is exact; else it has Student's bounds over
//! pairs. Any increase whose lower bound is above zero is FAIL: no margin applies, because a build does not call a
//! database more often by noise. PASS needs the upper bound of the increase within the margin. Counts are judged after
//! every pair from the third, with a smaller error probability than at the two looks.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::metric::PercentileMetric;
use results::model::Outcome;
use statistics::counts::{CountDifference, CountSums};
use terms::threshold::selector::Selector;
use terms::threshold::{Figure, Metric as OfThreshold, Statistic, parse_metric};

/// Counts are judged from this number of pairs.
pub(super) const PAIRS_MIN: usize = 3;
/// The error probability of a bound between the looks, over all gated metrics.
pub(super) const ALPHA_BETWEEN: f64 = 0.001;
/// A round needs this many complete traces of the random sample.
const TRACES_MIN: u64 = 5;
/// At most this share of a round's sample may lack a complete trace.
const MISSING_MAX: f64 = 0.2;
/// At most this share of pairs may have a round without enough traces.
const LACKING_MAX: f64 = 0.2;
/// Differences below this are rounding.
const ROUNDING: f64 = 1e-9;

/// A count per iteration: `count(trace "db")`, `errors(trace)`, `depth(trace where service = "orders")`.
#[derive(Clone, Debug, PartialEq)]
pub struct CountMetric {
    /// What is counted.
    pub figure: Figure,
    /// The trace points.
    pub points: Selector,
}

/// A metric that B is judged by.
#[derive(Clone, Debug, PartialEq)]
pub enum AbMetric {
    /// A percentile of times.
    Percentile(PercentileMetric),
    /// A count of trace points.
    Count(CountMetric),
}

/// A count that every round of a workload is compared by.
#[derive(Clone, Debug, PartialEq)]
pub struct CountSeries {
    /// The workload's index.
    pub workload: usize,
    /// What is counted.
    pub metric: CountMetric,
}

/// The counts of the random sample of one side of a pair.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RoundCounts {
    /// How many iterations were sampled.
    pub sampled: u64,
    /// The counts of those with complete traces.
    pub counts: CountSums,
    /// Why the selected points are unknown: a name that no trace has.
    pub unknown: Option<String>,
}

/// A count over the pairs so far.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct CountRow {
    /// The workload's index.
    pub workload: usize,
    /// The metric, such as `count(trace "db")`.
    pub metric: String,
    /// The mean per iteration of A; absent with fewer than two pairs.
    pub a: Option<f64>,
    /// The same of B.
    pub b: Option<f64>,
    /// B is larger by at least this, with an error probability of `alpha`.
    pub low: Option<f64>,
    /// B is larger by at most this, with an error probability of `alpha`.
    pub high: Option<f64>,
    /// True if every sampled iteration of a side has the same count, so that the difference is exact.
    pub exact: bool,
    /// The error probability of each bound.
    pub alpha: f64,
    /// The outcome.
    pub outcome: Outcome,
    /// Why it is INVALID, and what would help.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The number of traces of A and of B.
    pub traces: [u64; 2],
    /// The means of A and B in each pair; absent without traces.
    pub pairs: Vec<(Option<f64>, Option<f64>)>,
}

impl RoundCounts {
    fn is_enough(&self) -> bool {
        let missing = 1.0 - self.counts.n as f64 / self.sampled.max(1) as f64;
        self.counts.n >= TRACES_MIN && missing <= MISSING_MAX
    }
}

/// The figures of a series; `pairs` are the counts of both sides.
pub(super) fn row(
    series: &CountSeries,
    pairs: &[(RoundCounts, RoundCounts)],
    alpha: f64,
    margin: f64,
) -> CountRow {
    let enough: Vec<(CountSums, CountSums)> = pairs
        .iter()
        .filter(|(a, b)| a.is_enough() && b.is_enough())
        .map(|(a, b)| (a.counts, b.counts))
        .collect();
    let seen = CountDifference::of(&enough);
    let reason = invalid(pairs, enough.len());
    let outcome = match (&reason, &seen) {
        (Some(_), _) => Outcome::Invalid,
        (None, Some(seen)) if enough.len() >= PAIRS_MIN => judge(seen, alpha, margin),
        _ => Outcome::Inconclusive,
    };
    let bounds = seen.map(|seen| seen.bounds(alpha));
    let traces = |side: fn(&(RoundCounts, RoundCounts)) -> &RoundCounts| {
        pairs.iter().map(|pair| side(pair).counts.n).sum::<u64>()
    };
    CountRow {
        workload: series.workload,
        metric: series.metric.to_string(),
        a: seen.map(|seen| seen.a),
        b: seen.map(|seen| seen.b),
        low: bounds.map(|bounds| bounds.0),
        high: bounds.map(|bounds| bounds.1),
        exact: seen.is_some_and(|seen| seen.error <= 0.0),
        alpha,
        outcome,
        reason,
        traces: [traces(|pair| &pair.0), traces(|pair| &pair.1)],
        pairs: pairs.iter().map(|(a, b)| (a.counts.mean(), b.counts.mean())).collect(),
    }
}

fn judge(seen: &CountDifference, alpha: f64, margin: f64) -> Outcome {
    let (low, high) = seen.bounds(alpha);
    if low > ROUNDING {
        Outcome::Fail
    } else if high <= seen.a * margin + ROUNDING {
        Outcome::Pass
    } else {
        Outcome::Inconclusive
    }
}

/// Why the pairs say nothing; `enough` of them have enough traces.
fn invalid(pairs: &[(RoundCounts, RoundCounts)], enough: usize) -> Option<String> {
    let lacking = pairs.len() - enough;
    if pairs.is_empty() || lacking as f64 > LACKING_MAX * pairs.len() as f64 {
        let side = |is_b: bool| {
            let rounds = pairs.iter().map(|(a, b)| if is_b { b } else { a });
            let worst = rounds.min_by_key(|round| (round.is_enough(), round.counts.n))?;
            (!worst.is_enough()).then_some((if is_b { "B" } else { "A" }, worst))
        };
        let lack = side(false).or_else(|| side(true));
        let text = lack.map_or_else(String::new, |(side, worst)| {
            format!(
                ": a round of {side} had {} complete traces of {} sampled iterations",
                worst.counts.n, worst.sampled
            )
        });
        return Some(format!(
            "too few traces{text}; {TRACES_MIN} are needed in every round: check that the build reports to the \
             collector, or make rounds longer (--round)"
        ));
    }
    // A point that only B has is new, and one that only A has is gone.
    let unknown = |(a, b): &(RoundCounts, RoundCounts)| a.unknown.clone().filter(|_| b.unknown.is_some());
    let all: Vec<String> = pairs.iter().filter_map(unknown).collect();
    (all.len() == pairs.len()).then(|| all.into_iter().next()).flatten()
}

impl FromStr for CountMetric {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let metric = parse_metric(text).map_err(|mistake| {
            let at = text.get(..mistake.at.start).map_or(0, |before| before.chars().count()) + 1;
            format!("{} (character {at}): {}", mistake.message, mistake.help)
        })?;
        match metric {
            OfThreshold::Trace(Statistic::Mean, figure, points) if figure != Figure::Time => {
                Ok(Self { figure, points })
            }
            other => Err(format!(
                "{other} is not compared between builds: write p95, p95(action \"NAME\"), count(trace \"NAME\"), \
                 errors(trace) or depth(trace)"
            )),
        }
    }
}

impl fmt::Display for CountMetric {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        OfThreshold::Trace(Statistic::Mean, self.figure, self.points.clone()).fmt(formatter)
    }
}

impl FromStr for AbMetric {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        if ["count", "errors", "depth", "avg", "max", "min", "med"].iter().any(|word| text.starts_with(word))
        {
            return text.parse().map(Self::Count);
        }
        text.parse().map(Self::Percentile).map_err(|error| format!("{error}, or count(trace \"NAME\")"))
    }
}

impl fmt::Display for AbMetric {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Percentile(metric) => metric.fmt(formatter),
            Self::Count(metric) => metric.fmt(formatter),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::*;
    use crate::paired::{Decision, Round, Rules, Trial};

    fn counted(values: &[f64], sampled: u64) -> RoundCounts {
        let mut counts = CountSums::default();
        values.iter().for_each(|value| counts.add(*value));
        RoundCounts { sampled, counts, unknown: None }
    }

    /// The decision and the number of pairs that it took.
    fn decided(mut pair: impl FnMut() -> (RoundCounts, RoundCounts), most: usize) -> (Decision, usize) {
        let metric: CountMetric = "count(trace \"db\")".parse().unwrap();
        let rules = Rules { margin: 0.1, looks: [most.div_ceil(2), most] };
        let mut trial = Trial::new(rules, Vec::new()).with_counts(vec![CountSeries { workload: 0, metric }]);
        loop {
            let (a, b) = pair();
            let round = |counts: RoundCounts| Round {
                ended: vec![(100, 0)],
                values: Vec::new(),
                counts: vec![counts],
            };
            trial.push(round(a), round(b));
            if let Some(decision) = trial.decide() {
                return (decision, trial.pairs());
            }
        }
    }

    /// Whole rows of counts, kept in `tests/pages`.
    #[test]
    fn counts_are_told_with_all_their_figures() {
        let series = |metric: &str| CountSeries { workload: 0, metric: metric.parse().unwrap() };
        let both = vec![series("count(trace \"db\")"), series("errors(trace)")];
        let mut page = String::new();
        for (name, of_b) in [
            ("equal", [4.0, 4.0, 4.0, 4.0]),
            ("a call more", [5.0, 5.0, 5.0, 5.0]),
            ("now and then one more", [4.0, 4.0, 5.0, 4.0]),
            ("a hundredth more", [4.04, 4.04, 4.04, 4.04]),
            ("a tenth more", [4.4, 4.4, 4.4, 4.4]),
            ("fewer", [3.0, 4.0, 3.0, 3.0]),
        ] {
            let rules = Rules { margin: 0.1, looks: [5, 10] };
            let mut trial = Trial::new(rules, Vec::new()).with_counts(both.clone());
            for pair in 0..10 {
                let round = |values: &[f64]| Round {
                    ended: vec![(100, 0)],
                    values: Vec::new(),
                    counts: vec![counted(values, 9), counted(&[0.0, 0.0, 1.0, 0.0, 1.0, 0.0], 6)],
                };
                trial.push(round(&[4.0; 8]), round(&[of_b, of_b].concat()));
                if [1, 3, 4, 9].contains(&pair) {
                    writeln!(page, "{name}, {} pairs: {:?}", pair + 1, trial.decide()).unwrap();
                    trial.count_rows().iter().for_each(|row| writeln!(page, "    {row:?}").unwrap());
                }
            }
        }
        text::compare_page!("counts", &page);
    }

    #[test]
    fn metrics_are_read_and_written() {
        for (text, shown) in [
            ("p95", "p95"),
            ("p(99)(action 'x')", "p99(action \"x\")"),
            (" count(trace \"db\") ", "count(trace \"db\")"),
            ("avg(calls 'db SELECT' where error)", "count(trace \"db SELECT\" where error)"),
            ("errors(trace)", "errors(trace)"),
            ("depth(trace where service = \"a\")", "depth(trace where service = \"a\")"),
        ] {
            assert_eq!(text.parse::<AbMetric>().unwrap().to_string(), shown, "{text}");
        }
        for (text, said) in [
            ("count(trace \"db\") <= 3", "without a comparison"),
            ("max(calls \"db\")", "is not compared between builds"),
            ("avg(trace \"db\")", "is not compared between builds"),
            ("count(errors)", "is not compared between builds"),
            ("count(trace where sevice = \"a\")", "(character 19): did you mean `service`?"),
            ("95", "or count(trace"),
        ] {
            let error = text.parse::<AbMetric>().unwrap_err();
            assert!(error.contains(said), "{text}: {error}");
        }
    }

    /// Of the pairs, a fifth may lack traces. The side and the round that lack most are named, A's first.
    #[test]
    fn pairs_without_traces_are_told() {
        let (whole, some) = (counted(&[2.0; 8], 8), counted(&[2.0; 5], 8));
        for (traces, sampled, is_enough) in [
            (8, 8, true),
            (8, 10, true),
            (7, 9, false),
            (5, 5, true),
            (4, 4, false),
            (5, 8, false),
            (0, 0, false),
        ] {
            let seen = counted(&vec![2.0; traces], sampled).is_enough();
            assert_eq!(seen, is_enough, "{traces} of {sampled}");
        }
        let pairs = |lacking: usize, of: usize, lack: [&RoundCounts; 2]| -> Vec<(RoundCounts, RoundCounts)> {
            let side = |pair: usize, side: usize| if pair < lacking { lack[side] } else { &whole };
            (0..of).map(|pair| (side(pair, 0).clone(), side(pair, 1).clone())).collect()
        };
        for (lacking, of, lack, said) in [
            (0, 10, [&whole, &whole], None),
            (2, 10, [&whole, &some], None),
            (3, 10, [&whole, &some], Some("too few traces: a round of B had 5 complete traces of 8 sampled")),
            (3, 10, [&some, &whole], Some("too few traces: a round of A had 5 complete traces of 8 sampled")),
            (3, 10, [&some, &counted(&[], 8)], Some("too few traces: a round of A had 5 complete")),
            (0, 0, [&whole, &whole], Some("too few traces; 5 are needed")),
        ] {
            let why = invalid(&pairs(lacking, of, lack), of - lacking);
            assert_eq!(why.is_some(), said.is_some(), "{lacking} of {of}: {why:?}");
            assert!(said.is_none_or(|said| why.as_deref().unwrap().starts_with(said)), "{why:?}");
        }
    }

    #[test]
    fn counts_are_judged_exactly() {
        let same = |calls: f64| counted(&[calls; 30], 30);
        let rows: [(&str, [RoundCounts; 2], Outcome, usize); 8] = [
            ("N+1", [same(2.0), same(22.0)], Outcome::Fail, 3),
            ("one more", [same(2.0), same(3.0)], Outcome::Fail, 3),
            ("new", [same(0.0), same(1.0)], Outcome::Fail, 3),
            ("the same", [same(2.0), same(2.0)], Outcome::Pass, 5),
            ("fewer", [same(22.0), same(2.0)], Outcome::Pass, 5),
            ("no traces of B", [same(2.0), counted(&[], 30)], Outcome::Invalid, 3),
            ("no traces of A", [counted(&[], 30), same(2.0)], Outcome::Invalid, 3),
            ("too few of them", [same(2.0), counted(&[2.0; 20], 30)], Outcome::Invalid, 3),
        ];
        for (name, [a, b], outcome, pairs) in rows {
            let (decision, after) = decided(|| (a.clone(), b.clone()), 10);
            assert_eq!((decision.outcome, after), (outcome, pairs), "{name}: {decision:?}");
            assert_eq!(decision.reasons.is_empty(), outcome != Outcome::Invalid, "{name}: {decision:?}");
        }
        let unknown = |seen: bool| RoundCounts {
            unknown: (!seen).then(|| "no trace point is named \"db\"".to_owned()),
            ..counted(&[0.0; 30], 30)
        };
        let (decision, _) = decided(|| (unknown(false), unknown(false)), 10);
        assert_eq!(decision.outcome, Outcome::Invalid);
        assert!(decision.reasons[0].contains("named \"db\""), "{decision:?}");
        // Gone in B.
        let (decision, _) = decided(|| (unknown(true), unknown(false)), 10);
        assert_eq!(decision.outcome, Outcome::Pass);
    }

    /// A mix of endpoints with 1, 2, 5 and 40 calls; sometimes a whole round has a call more, as with a cold cache.
    fn sample(random: &mut fastrand::Rng, more: f64) -> RoundCounts {
        let cold = if random.f64() < 0.2 { 1.0 } else { 0.0 };
        let values: Vec<f64> = (0..30)
            .map(|_| match random.u32(0..100) {
                0..50 => 1.0 + cold,
                50..80 => 2.0 + more + cold,
                80..97 => 5.0 + cold,
                _ => 40.0,
            })
            .collect();
        counted(&values, 30)
    }

    #[test]
    fn equal_builds_with_varying_counts_rarely_fail() {
        let wrong = (0..2_000)
            .filter(|seed| {
                let mut random = fastrand::Rng::with_seed(*seed);
                let (decision, _) = decided(|| (sample(&mut random, 0.0), sample(&mut random, 0.0)), 20);
                decision.outcome == Outcome::Fail
            })
            .count();
        println!("2000 comparisons of equal builds: {wrong} FAIL");
        assert!(wrong <= 100, "{wrong} of 2000");
    }

    #[test]
    fn more_calls_of_one_endpoint_are_found_in_few_pairs() {
        let (mut found, mut pairs) = (0, 0);
        for seed in 0..200 {
            let mut random = fastrand::Rng::with_seed(seed);
            let (decision, after) = decided(|| (sample(&mut random, 0.0), sample(&mut random, 20.0)), 20);
            found += usize::from(decision.outcome == Outcome::Fail);
            pairs += after;
        }
        println!(
            "200 builds with more calls: {found} FAIL after {} pairs",
            f64::from(u32::try_from(pairs).unwrap()) / 200.0
        );
        assert!(found >= 198, "{found} of 200");
        assert!(pairs <= 200 * 10, "{} pairs on average", pairs / 200);
    }
}
