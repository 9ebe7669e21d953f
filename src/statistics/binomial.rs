//! Exact (Clopper–Pearson) bounds for the probability of exceeding a limit, for samples that depend on their
//! neighbours.
//!
//! Consecutive requests meet the same queue, so n of them carry less information than n independent samples. The
//! samples are divided into contiguous batches. The design effect D is how much more the batches vary than independent
//! batches would. The bounds are those of n/D samples with k/D exceedances. Batches: Heidelberger and Lewis, 1984. The
//! bounds invert the order-statistic interval of a quantile: Hahn and Meeker, Statistical Intervals, 1991.

use super::beta::beta_reg;
use super::order::{OrderBounds, last, share_above};

/// The number of contiguous batches.
pub const BATCHES: usize = 20;

/// More samples than this are scaled down to this number, in proportion. Bounds are then wider than necessary.
const SAMPLES_MAX: f64 = 1e9;

/// A count of samples, and how many of them count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BinomialCount {
    /// The samples that count.
    pub k: u64,
    /// All samples.
    pub n: u64,
}

/// A share with its design effect.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Share {
    /// All samples together.
    pub whole: BinomialCount,
    /// The design effect, at least 1.
    effect: f64,
}

impl Share {
    /// Of independent samples.
    #[must_use]
    pub fn independent(whole: BinomialCount) -> Self {
        Self { whole, effect: 1.0 }
    }

    /// For samples with this design effect, where the number of those that count is not known.
    #[must_use]
    pub fn weighed(n: u64, effect: f64) -> Self {
        Self { whole: BinomialCount { k: 0, n }, effect: effect.max(1.0) }
    }

    /// Of samples in contiguous batches, which may differ in size.
    #[must_use]
    pub fn of_batches(batches: &[BinomialCount]) -> Self {
        let sum = |of: fn(&BinomialCount) -> u64| batches.iter().map(of).sum::<u64>();
        let whole = BinomialCount { k: sum(|part| part.k), n: sum(|part| part.n) };
        let filled = as_f64(batches.iter().filter(|part| part.n > 0).count() as u64);
        let (n, p) = (as_f64(whole.n), as_f64(whole.k) / as_f64(whole.n));
        if whole.k == 0 || whole.k == whole.n || filled < 2.0 {
            return Self::independent(whole);
        }
        // The variance of a ratio of sums; for batches of equal size, it is that of their mean.
        let squares: f64 = batches.iter().map(|part| (as_f64(part.k) - p * as_f64(part.n)).powi(2)).sum();
        let variance = squares * filled / (filled - 1.0) / (n * n);
        let effect = (variance * n / (p * (1.0 - p))).clamp(1.0, n);
        Self { whole, effect }
    }

    /// The design effect: at least 1.
    #[must_use]
    pub fn effect(&self) -> f64 {
        self.effect
    }

    /// The observed share.
    #[must_use]
    pub fn seen(&self) -> f64 {
        if self.whole.n == 0 { 0.0 } else { as_f64(self.whole.k) / as_f64(self.whole.n) }
    }

    /// True if the probability is above `limit`; wrong with a probability of at most `alpha`.
    #[must_use]
    pub fn surely_above(&self, limit: f64, alpha: f64) -> bool {
        let (k, n) = self.effective();
        // P(at least k | limit) < alpha. For k up to the expected number, it is at least a quarter.
        k > limit * n
            && (limit <= 0.0 || limit < 1.0 && beta(k, n - k + 1.0, limit).is_some_and(|p| p < alpha))
    }

    /// True if the probability is at most `limit`; wrong with a probability of at most `alpha`.
    #[must_use]
    pub fn surely_at_most(&self, limit: f64, alpha: f64) -> bool {
        let (k, n) = self.effective();
        // P(at most k | limit) <= alpha. For k from the expected number, it is at least a quarter.
        n > 0.0
            && (limit >= 1.0
                || limit > 0.0
                    && k < limit * n
                    && beta(n - k, k + 1.0, 1.0 - limit).is_some_and(|p| p <= alpha * (1.0 + 1e-12)))
    }

    /// The lower and the upper bound of the probability, each wrong with a probability of at most `alpha`.
    #[must_use]
    pub fn bounds(&self, alpha: f64) -> (f64, f64) {
        let (k, n) = self.effective();
        bounds(k, n, alpha)
    }

    /// Bounds of a percentile, as ranks among all samples, each wrong with a probability of at most `alpha`. They
    /// invert [`Self::surely_at_most`] and [`Self::surely_above`]. The upper bound is at most a value exactly when the
    /// share of samples above that value is surely at most that of the percentile. The lower bound is above the value
    /// exactly when the share is surely higher.
    #[must_use]
    pub fn order_bounds(&self, percent: f64, alpha: f64) -> OrderBounds {
        let n = self.whole.n;
        let allowed = share_above(percent);
        let with = |k| Self { whole: BinomialCount { k, n }, effect: self.effect };
        // `good` counts samples that are not above.
        let enough = |good: u64| with(n - good).surely_at_most(allowed, alpha);
        let few = |good: u64| with(n - good).surely_above(allowed, alpha);
        let high = last(n, |rank| !enough(rank)) + 1;
        let low = last(n, |rank| few(rank - 1));
        OrderBounds { low: (low >= 1).then_some(low), high: (high <= n).then_some(high) }
    }

    fn effective(&self) -> (f64, f64) {
        let effect = self.effect.max(as_f64(self.whole.n) / SAMPLES_MAX);
        (as_f64(self.whole.k) / effect, as_f64(self.whole.n) / effect)
    }
}

/// Clopper–Pearson bounds of a probability, from `k` of `n` samples, each one-sided with error `alpha`. The numbers may
/// have fractions. Without samples, the bounds are 0 and 1.
#[must_use]
pub fn bounds(k: f64, n: f64, alpha: f64) -> (f64, f64) {
    let valid = n > 0.0 && (0.0..=n).contains(&k) && n.is_finite() && alpha > 0.0 && alpha < 1.0;
    if !valid {
        return (0.0, 1.0);
    }
    let (k, n) = if n > SAMPLES_MAX { (k / (n / SAMPLES_MAX), SAMPLES_MAX) } else { (k, n) };
    let low = if k > 0.0 { beta_quantile(k, n - k + 1.0, alpha) } else { 0.0 };
    let high = if k < n { beta_quantile(k + 1.0, n - k, 1.0 - alpha) } else { 1.0 };
    (low, high)
}

/// The fewest samples that can show that a probability is at most `limit`: enough if none of them counts.
#[must_use]
pub fn samples_needed(limit: f64, alpha: f64) -> Option<u64> {
    if !(limit > 0.0 && limit < 1.0) {
        return None;
    }
    let needed = (alpha.ln() / (-limit).ln_1p() - 1e-9).ceil() as u64;
    Some(needed)
}

/// Merges neighbours into batches of about equal size, at most [`BATCHES`].
#[must_use]
pub fn batches<T: Default>(parts: &[T], size: impl Fn(&T) -> u64, merge: impl Fn(&mut T, &T)) -> Vec<T> {
    let numbers = batch_numbers(parts.iter().map(&size));
    let count = numbers.iter().flatten().max().map_or(0, |last| last + 1);
    let mut merged: Vec<T> = std::iter::repeat_with(T::default).take(count).collect();
    for (part, number) in parts.iter().zip(numbers) {
        if let Some(batch) = number.and_then(|number| merged.get_mut(number)) {
            merge(batch, part);
        }
    }
    merged
}

/// The batch of each contiguous part, where batches have about equal size; `None` for parts without samples.
#[must_use]
pub fn batch_numbers(sizes: impl Iterator<Item = u64> + Clone) -> Vec<Option<usize>> {
    let total = u128::from(sizes.clone().sum::<u64>());
    let (mut before, mut last, mut count) = (0_u64, None, 0);
    let number = |size: u64| {
        if size == 0 {
            return None;
        }
        // By the middle of the part, so that a large part does not affect the batches of its neighbours.
        let middle = u128::from(before) * 2 + u128::from(size);
        let batch = middle * BATCHES as u128 / (total * 2);
        before += size;
        if last != Some(batch) {
            last = Some(batch);
            count += 1;
        }
        Some(count - 1)
    };
    sizes.map(number).collect()
}

/// The regularised incomplete beta function I_x(a, b).
fn beta(a: f64, b: f64, x: f64) -> Option<f64> {
    Some(beta_reg(a, b, x)).filter(|value| value.is_finite())
}

/// The x with I_x(a, b) = p, by bisection: slow, but as accurate as the function itself.
fn beta_quantile(a: f64, b: f64, p: f64) -> f64 {
    let (mut low, mut high) = (0.0_f64, 1.0_f64);
    for _ in 0..200 {
        let middle = (low + high) / 2.0;
        if middle <= low || middle >= high {
            break;
        }
        match beta(a, b, middle) {
            Some(value) if value < p => low = middle,
            Some(_) => high = middle,
            None => break,
        }
        // Ten digits are more than any output shows.
        if high - low <= 1e-13 * high {
            break;
        }
    }
    (low + high) / 2.0
}

fn as_f64(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paired::student_upper;
    use proptest::prelude::*;

    fn vectors() -> serde_json::Value {
        serde_json::from_str(include_str!("../../tests/vectors/gate/scipy.json")).unwrap()
    }

    fn near(found: f64, expected: f64) -> bool {
        (found - expected).abs() <= 1e-7 * expected.abs().max(1e-6)
    }

    #[test]
    fn bounds_equal_scipys() {
        let vectors = vectors();
        let rows = vectors["binomial"].as_array().unwrap();
        assert!(rows.len() > 2000);
        for row in rows {
            let row: Vec<f64> = row.as_array().unwrap().iter().map(|cell| cell.as_f64().unwrap()).collect();
            let (low, high) = bounds(row[0], row[1], row[2]);
            assert!(near(low, row[3]) && near(high, row[4]), "{row:?}: {low} {high}");
        }
    }

    #[test]
    fn beyond_a_billion_samples_the_share_still_decides() {
        let (low, high) = bounds(5e9, 20e9, 0.05);
        assert!(0.2499 < low && low < 0.25 && 0.25 < high && high < 0.2501, "{low} {high}");
    }

    #[test]
    fn what_is_no_share_has_no_bounds() {
        let (infinite, nan) = (f64::INFINITY, f64::NAN);
        for (k, n, alpha) in [
            (0.0, 0.0, 0.05),
            (0.0, -1.0, 0.05),
            (-1.0, 4.0, 0.05),
            (5.0, 4.0, 0.05),
            (2.0, infinite, 0.05),
            (2.0, nan, 0.05),
            (nan, 4.0, 0.05),
            (2.0, 4.0, 0.0),
            (2.0, 4.0, -0.1),
            (2.0, 4.0, 1.0),
            (2.0, 4.0, 1.1),
            (2.0, 4.0, nan),
        ] {
            assert_eq!(bounds(k, n, alpha), (0.0, 1.0), "{k} of {n}, {alpha}");
        }
        let share = Share::independent(BinomialCount { k: 2, n: 4 });
        assert_eq!((share.effect(), share.bounds(0.05)), (1.0, bounds(2.0, 4.0, 0.05)));
    }

    #[test]
    fn students_quantiles_equal_scipys() {
        let vectors = vectors();
        for row in vectors["student"].as_array().unwrap() {
            let [freedom, alpha, expected] = [0, 1, 2].map(|cell| row[cell].as_f64().unwrap());
            let found = student_upper(alpha, freedom);
            assert!((found / expected - 1.0).abs() < 1e-6, "{row}: {found}");
        }
    }

    #[test]
    fn the_number_of_samples_needed() {
        for (limit, needed) in
            [(0.05, Some(59)), (0.01, Some(299)), (0.001, Some(2995)), (0.0, None), (1.0, None)]
        {
            assert_eq!(samples_needed(limit, 0.05), needed, "{limit}");
        }
        // A half to the power of two is exactly a quarter.
        assert_eq!(samples_needed(0.5, 0.25), Some(2));
        for (n, shown) in [(298, false), (299, true)] {
            assert_eq!(
                Share::independent(BinomialCount { k: 0, n }).surely_at_most(0.01, 0.05),
                shown,
                "{n}"
            );
        }
    }

    #[test]
    fn samples_in_bursts_carry_less_information() {
        let even = [BinomialCount { k: 5, n: 100 }; 20];
        let mut bursts = [BinomialCount { k: 0, n: 100 }; 20];
        bursts[7].k = 100;
        let (even, bursts) = (Share::of_batches(&even), Share::of_batches(&bursts));
        assert_eq!((even.seen(), even.effect), (0.05, 1.0));
        assert_eq!(bursts.seen(), 0.05);
        assert!(bursts.effect > 90.0, "{}", bursts.effect);
        assert!(even.surely_above(0.03, 0.05) && !bursts.surely_above(0.03, 0.05));
    }

    proptest! {
        #[test]
        fn verdicts_agree_with_bounds(parts in prop::collection::vec((0_u64..50, 0_u64..200), 0..25), limit in 0.0_f64..=1.0) {
            let parts: Vec<BinomialCount> = parts.into_iter().map(|(k, more)| BinomialCount { k, n: k + more }).collect();
            let share = Share::of_batches(&parts);
            let (low, high) = share.bounds(0.05);
            prop_assert!((0.0..=1.0).contains(&low) && low <= high && high <= 1.0);
            if (low - limit).abs() > 1e-9 {
                prop_assert_eq!(share.surely_above(limit, 0.05), low > limit);
            }
            if (high - limit).abs() > 1e-9 {
                prop_assert_eq!(share.surely_at_most(limit, 0.05), share.whole.n > 0 && high < limit);
            }
        }

        #[test]
        fn nothing_panics(k in any::<f64>(), n in any::<f64>(), alpha in any::<f64>()) {
            let (low, high) = bounds(k, n, alpha);
            prop_assert!(low <= high);
        }

        #[test]
        fn merging_keeps_every_sample(parts in prop::collection::vec(0_u64..1000, 0..900)) {
            let merged = batches(&parts, |part| *part, |into: &mut u64, part| *into += part);
            prop_assert!(merged.len() <= BATCHES);
            prop_assert_eq!(merged.iter().sum::<u64>(), parts.iter().sum::<u64>());
        }
    }
}
