//! The overhead of profiling from pairs of iterations before the load: one profiled, one not, in changing order.
//!
//! The difference of a pair is free of everything that both have in common. The bounds of the median difference are two
//! order statistics of the differences: whether a difference is above its median is a fair coin, whatever the
//! distribution. This is the sign test with its interval (Conover, Practical Nonparametric Statistics, 3rd edition,
//! 3.4). The pairs run one after another, so this is the cost of an idle service; under load it may be larger.

use results::model::{EffectAt, ObserverEffect};
use statistics::binomial::Share;
use statistics::order::{at_percentile, at_rank};

/// The error probability of each bound.
const TAIL: f64 = 0.025;
const MEDIAN: f64 = 50.0;
const NS_PER_MS: f64 = 1e6;

/// The overhead from the times of pairs, profiled and not; `None` without pairs.
#[must_use]
pub fn effect(pairs_ns: &[(u64, u64)]) -> Option<ObserverEffect> {
    if pairs_ns.is_empty() {
        return None;
    }
    let count = pairs_ns.len() as u64;
    Some(ObserverEffect {
        control_percent: 0.0,
        profiled: count,
        control: count,
        pairs: Some(count),
        percentiles: median(pairs_ns).into_iter().collect(),
    })
}

fn median(pairs_ns: &[(u64, u64)]) -> Option<EffectAt> {
    let sorted = |value: fn(&(u64, u64)) -> f64| {
        let mut values: Vec<f64> = pairs_ns.iter().map(value).collect();
        values.sort_by(f64::total_cmp);
        values
    };
    let differences = sorted(|(with, without)| *with as f64 - *without as f64);
    let bounds = Share::weighed(pairs_ns.len() as u64, 1.0).order_bounds(MEDIAN, TAIL);
    let at = |rank: u64| at_rank(&differences, rank).map(|ns| ns / NS_PER_MS);
    let middle = |values: &[f64]| at_percentile(values, MEDIAN).map(|ns| ns / NS_PER_MS);
    Some(EffectAt {
        percentile: MEDIAN,
        profiled_ms: middle(&sorted(|(with, _)| *with as f64))?,
        control_ms: middle(&sorted(|(_, without)| *without as f64))?,
        difference_ms: middle(&differences)?,
        low_ms: at(bounds.low?)?,
        high_ms: at(bounds.high?)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The ranks are those in tables of the sign test's interval: 1 and 6 of 6, 6 and 15 of 20 pairs.
    #[test]
    fn bounds_are_those_of_the_sign_test() {
        for (count, low, high) in [(5, None, None), (6, Some(1), Some(6)), (20, Some(6), Some(15))] {
            let pairs: Vec<(u64, u64)> =
                (1..=count).map(|n| (100_000_000 + n * 1_000_000, 100_000_000)).collect();
            let seen = effect(&pairs).unwrap();
            assert_eq!((seen.pairs, seen.profiled), (Some(count), count));
            let bounds = seen.at(MEDIAN).map(|at| (at.low_ms.round() as u64, at.high_ms.round() as u64));
            assert_eq!(bounds, low.zip(high), "{count}");
        }
        assert_eq!(effect(&[]), None);
    }

    /// In at least 95 of 100 series the bounds hold the true cost, with long tails too.
    #[test]
    fn bounds_hold_the_true_cost() {
        const SERIES: usize = 1_000;
        let mut random = fastrand::Rng::with_seed(3);
        let mut time = || 10.0 - 4.0 * (1.0 - random.f64()).ln();
        let mut held = 0;
        for _ in 0..SERIES {
            let pair = |_| (((time() + 1.5) * NS_PER_MS) as u64, (time() * NS_PER_MS) as u64);
            let pairs: Vec<(u64, u64)> = (0..20).map(pair).collect();
            let seen = effect(&pairs).unwrap().percentiles[0].clone();
            held += usize::from((seen.low_ms..=seen.high_ms).contains(&1.5));
        }
        // Three standard deviations below 95 in 100.
        assert!(held >= 929, "{held} of {SERIES}");
    }
}
