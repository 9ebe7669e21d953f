//! Ranks of percentiles, computed with integers.
//!
//! The percentile p of n samples is the sample of rank ⌈p·n⌉, counted from the smallest (nearest rank). All output and
//! all verdicts of `bench` use this definition. Times come from histograms, so what is written is the upper edge of
//! that sample's bucket, at most 0.1 % above it, and never above the largest sample. In floating point, 99.9 / 100 ·
//! 1,000 is not exactly 999. Bounds of a percentile are ranks too; they come from the test that gives the verdict
//! ([`Share::order_bounds`]).
//!
//! [`Share::order_bounds`]: super::binomial::Share::order_bounds

use super::beta::beta_reg;

/// A whole, in parts: percentiles with up to ten decimals are exact.
const PARTS: u64 = 1_000_000_000_000;

/// The ranks, from 1, of the samples that bound a percentile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OrderBounds {
    /// The rank of the lower bound; absent if there are too few samples below the percentile.
    pub low: Option<u64>,
    /// The rank of the upper bound; absent if there are too few samples above it.
    pub high: Option<u64>,
}

/// The rank, from 1, of a percentile among `n` samples: ⌈percent/100 · n⌉, and at least 1. `None` without samples, or
/// if `percent` is not a percentage.
#[must_use]
pub fn rank(n: u64, percent: f64) -> Option<u64> {
    let product = u128::from(parts(percent)?) * u128::from(n);
    let rank = product.div_ceil(u128::from(PARTS)).max(1);
    u64::try_from(rank).ok().filter(|_| n > 0)
}

/// The sample of a rank, from 1, in sorted samples; `None` after the last one.
#[must_use]
pub fn at_rank<T: Copy>(sorted: &[T], rank: u64) -> Option<T> {
    sorted.get(usize::try_from(rank).ok()?.checked_sub(1)?).copied()
}

/// The sample of a percentile's [`rank`] in sorted samples; `None` without samples.
#[must_use]
pub fn at_percentile<T: Copy>(sorted: &[T], percent: f64) -> Option<T> {
    at_rank(sorted, rank(sorted.len() as u64, percent)?)
}

/// The place of the bucket with the sample of a rank, from 1, by how many samples are in each bucket.
#[must_use]
pub fn bucket_of_rank(counts: impl IntoIterator<Item = u64>, rank: u64) -> Option<usize> {
    let mut seen = 0;
    counts.into_iter().position(|count| {
        seen += count;
        seen >= rank
    })
}

/// The smallest number of samples for which at least `beyond` samples rank above a percentile below 100; `u64::MAX` if
/// no number is enough.
#[must_use]
pub fn samples_for(beyond: u64, percent: f64) -> u64 {
    let above = parts(percent).map_or(0, |parts| PARTS - parts);
    // n − ⌈p·n⌉ = ⌊(1 − p)·n⌋.
    let needed = (u128::from(beyond) * u128::from(PARTS)).checked_div(u128::from(above));
    let exact = u128::from(beyond) * u128::from(PARTS) % u128::from(above.max(1)) == 0;
    needed.map_or(u64::MAX, |needed| u64::try_from(needed + u128::from(!exact)).unwrap_or(u64::MAX))
}

/// The share of samples that are above a percentile.
#[must_use]
pub fn share_above(percent: f64) -> f64 {
    parts(percent).map_or(f64::NAN, |parts| (PARTS - parts) as f64 / PARTS as f64)
}

/// True if two numbers are the same percentile, except for rounding.
#[must_use]
pub fn same_percentile(one: f64, other: f64) -> bool {
    parts(one).is_some_and(|parts_of_one| parts(other) == Some(parts_of_one))
}

fn parts(percent: f64) -> Option<u64> {
    let parts = (percent / 100.0 * PARTS as f64).round();
    (0.0..=100.0).contains(&percent).then_some(parts as u64)
}

/// The last number from 1 to `n` for which a condition holds; 0 if there is none. The condition must hold up to some
/// number and not after it.
pub(super) fn last(n: u64, holds: impl Fn(u64) -> bool) -> u64 {
    let (mut below, mut above) = (0_u64, n.saturating_add(1));
    while above - below > 1 {
        let middle = u64::midpoint(below, above);
        if holds(middle) {
            below = middle;
        } else {
            above = middle;
        }
    }
    below
}

/// The binomial probability of at most `k` of `n`.
#[must_use]
pub fn binomial_cdf(k: f64, n: f64, p: f64) -> f64 {
    if k < 0.0 {
        return 0.0;
    }
    if k >= n {
        return 1.0;
    }
    beta_reg(n - k, k + 1.0, 1.0 - p)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::binomial::{BinomialCount, Share};
    use proptest::prelude::*;
    use serde_json::Value;

    /// Made by tests/vectors/statistics/make.py with SciPy.
    fn rows(table: &str) -> Vec<Vec<Option<f64>>> {
        let vectors: Value =
            serde_json::from_str(include_str!("../../tests/vectors/statistics/paired.json")).unwrap();
        let rows = vectors[table].as_array().unwrap();
        rows.iter().map(|row| row.as_array().unwrap().iter().map(Value::as_f64).collect()).collect()
    }

    #[test]
    fn all_of_n_are_at_most_n() {
        for (k, n, expected) in
            [(-1.0, 5.0, 0.0), (5.0, 5.0, 1.0), (6.0, 5.0, 1.0), (0.0, 0.0, 1.0), (0.0, 2.0, 0.49)]
        {
            let found = binomial_cdf(k, n, 0.3);
            assert!((found - expected).abs() < 1e-12, "{k} of {n}: {found}");
        }
    }

    #[test]
    fn ranks_are_whole_numbers_exactly() {
        let rows = rows("ranks");
        assert!(rows.len() > 300);
        for row in rows {
            let [n, percent, expected] = [0, 1, 2].map(|at| row[at].unwrap());
            assert_eq!(rank(n as u64, percent), Some(expected as u64), "p{percent} of {n}");
        }
        for (n, percent) in [(0, 50.0), (5, -1.0), (5, 100.1), (5, f64::NAN), (5, f64::INFINITY)] {
            assert_eq!(rank(n, percent), None, "p{percent} of {n}");
        }
        let sorted = [1, 2, 3, 4];
        for (percent, sample) in [(0.0, 1), (25.0, 1), (25.1, 2), (50.0, 2), (99.9, 4), (100.0, 4)] {
            assert_eq!(at_percentile(&sorted, percent), Some(sample), "p{percent}");
        }
        assert_eq!(
            (at_percentile::<u8>(&[], 50.0), at_rank(&sorted, 0), at_rank(&sorted, 5)),
            (None, None, None)
        );
        for (rank, bucket) in [(1, Some(1)), (2, Some(1)), (3, Some(3)), (6, Some(3)), (7, None)] {
            assert_eq!(bucket_of_rank([0, 2, 0, 4, 0], rank), bucket, "rank {rank}");
        }
        for (beyond, percent, n) in [(10, 99.0, 1_000), (10, 99.9, 10_000), (10, 95.0, 200), (10, 97.0, 334)]
        {
            assert_eq!(samples_for(beyond, percent), n);
            assert!(
                n - rank(n, percent).unwrap() >= beyond && n - 1 - rank(n - 1, percent).unwrap() < beyond
            );
        }
        assert_eq!(samples_for(10, 100.0), u64::MAX);
        assert!(same_percentile(99.9, 0.999 * 100.0) && !same_percentile(99.9, 99.0));
        assert!(!same_percentile(f64::NAN, f64::NAN));
    }

    #[test]
    fn bounds_are_those_of_scipy() {
        let rows = rows("order");
        assert!(rows.len() > 400);
        for row in rows {
            let [n, q, alpha] = [0, 1, 2].map(|at| row[at].unwrap());
            let bounds = Share::weighed(n as u64, 1.0).order_bounds(q * 100.0, alpha);
            let found = (bounds.low.map(|rank| rank as f64), bounds.high.map(|rank| rank as f64));
            assert_eq!(found, (row[3], row[4]), "n {n}, q {q}, alpha {alpha}");
        }
    }

    /// Draws random times and computes percentiles and bounds as in the program: each bound is wrong in at most one of
    /// twenty runs, and a missing bound could not exist.
    #[test]
    fn each_bound_holds_in_nineteen_runs_of_twenty() {
        let runs = if std::env::var_os("BENCH_SLOW_TESTS").is_some() { 20_000 } else { 1_000 };
        let allowed = f64::from(runs) * 0.05 + 3.5 * (f64::from(runs) * 0.05 * 0.95).sqrt();
        let mut random = fastrand::Rng::with_seed(12);
        for n in [1_u64, 2, 10, 59, 100, 299, 1_000, 2_000, 2_995, 1_000_000] {
            for percent in [50.0, 95.0, 99.0, 99.9] {
                let bounds = Share::weighed(n, 1.0).order_bounds(percent, 0.05);
                let value = rank(n, percent).unwrap();
                assert!(bounds.low.is_none_or(|low| low <= value), "p{percent} of {n}: {bounds:?}");
                assert!(bounds.high.is_none_or(|high| high >= value), "p{percent} of {n}: {bounds:?}");
                let exists = 1.0 - (percent / 100.0_f64).powi(n as i32) >= 0.95 - 1e-9;
                assert_eq!(bounds.high.is_some(), exists, "p{percent} of {n}");
                // How many of n are below the true percentile decides on which side of it a rank is.
                let (mut below, mut above) = (0_u32, 0_u32);
                for _ in 0..if n > 10_000 { 0 } else { runs } {
                    let under = (0..n).filter(|_| random.f64() * 100.0 < percent).count() as u64;
                    below += u32::from(bounds.low.is_some_and(|low| under < low));
                    above += u32::from(bounds.high.is_some_and(|high| under >= high));
                }
                assert!(
                    f64::from(below) <= allowed,
                    "p{percent} of {n}: the lower bound failed {below} of {runs}"
                );
                assert!(
                    f64::from(above) <= allowed,
                    "p{percent} of {n}: the upper bound failed {above} of {runs}"
                );
                // For a million samples, only their number is drawn.
                let p = percent / 100.0;
                let fails = bounds.low.map_or(0.0, |low| binomial_cdf(low as f64 - 1.0, n as f64, p));
                assert!(fails <= 0.05 + 1e-9, "p{percent} of {n}: {fails}");
                let fails =
                    bounds.high.map_or(0.0, |high| 1.0 - binomial_cdf(high as f64 - 1.0, n as f64, p));
                assert!(fails <= 0.05 + 1e-9, "p{percent} of {n}: {fails}");
            }
        }
    }

    proptest! {
        /// Verdicts agree with bounds for all samples, however dependent.
        #[test]
        fn bounds_say_what_the_verdict_says(
            parts in prop::collection::vec((0_u64..40, 0_u64..200), 1..25),
            percent in prop::sample::select(vec![1.0, 50.0, 90.0, 95.0, 99.0, 99.9]),
        ) {
            let parts: Vec<BinomialCount> = parts.into_iter().map(|(k, more)| BinomialCount { k, n: k + more }).collect();
            let share = Share::of_batches(&parts);
            let bounds = share.order_bounds(percent, 0.05);
            let good = share.whole.n - share.whole.k;
            let (above, at_most) =
                (share.surely_above(share_above(percent), 0.05), share.surely_at_most(share_above(percent), 0.05));
            // The sample of a rank is over the limit if there are fewer good samples than that.
            prop_assert_eq!(above, bounds.low.is_some_and(|low| good < low));
            prop_assert_eq!(at_most, bounds.high.is_some_and(|high| good >= high));
        }
    }
}
