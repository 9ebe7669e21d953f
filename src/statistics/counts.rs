//! The difference of two means of counts, from pairs of samples.
//!
//! Counts repeat, so the differences of a few pairs can be equal by chance: their spread then says nothing. The standard
//! error is therefore at least the one that the counts within the samples imply. Where every count of a side is the same,
//! both are zero, and the difference is exact.

use super::paired::{mean_and_sd, student_upper};

/// Sums over the counts of a sample.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CountSums {
    /// How many counts.
    pub n: u64,
    pub sum: f64,
    /// The sum of their squares.
    pub squares: f64,
}

/// The mean difference over pairs of samples.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CountDifference {
    /// How many pairs.
    pub pairs: usize,
    /// The mean of the first samples' means.
    pub a: f64,
    /// The mean of the second samples' means.
    pub b: f64,
    /// Its standard error; 0 if the difference is exact.
    pub error: f64,
}

impl CountSums {
    pub fn add(&mut self, count: f64) {
        self.n += 1;
        self.sum += count;
        self.squares += count * count;
    }

    /// Adds another sample.
    pub fn merge(&mut self, other: &Self) {
        self.n += other.n;
        self.sum += other.sum;
        self.squares += other.squares;
    }

    /// The mean; `None` without counts.
    #[must_use]
    pub fn mean(&self) -> Option<f64> {
        (self.n > 0).then(|| self.sum / as_f64(self.n))
    }

    /// The variance of the mean; 0 with fewer than two counts.
    fn variance_of_mean(&self) -> f64 {
        if self.n < 2 {
            return 0.0;
        }
        let n = as_f64(self.n);
        // Counts are whole, so that equal ones give exactly 0.
        let variance = (n * self.squares - self.sum * self.sum) / (n * (n - 1.0));
        variance.max(0.0) / n
    }
}

impl CountDifference {
    /// Of at least two pairs, none of them empty.
    #[must_use]
    pub fn of(pairs: &[(CountSums, CountSums)]) -> Option<Self> {
        let means: Vec<(f64, f64)> =
            pairs.iter().map(|(a, b)| Some((a.mean()?, b.mean()?))).collect::<Option<_>>()?;
        let differences: Vec<f64> = means.iter().map(|(a, b)| b - a).collect();
        let (_, sd) = mean_and_sd(&differences)?;
        let count = pairs.len() as f64;
        let within =
            pairs.iter().map(|(a, b)| a.variance_of_mean() + b.variance_of_mean()).sum::<f64>() / count;
        let mean = |side: fn(&(f64, f64)) -> f64| means.iter().map(side).sum::<f64>() / count;
        let error = (sd * sd).max(within).sqrt() / count.sqrt();
        Some(Self { pairs: pairs.len(), a: mean(|pair| pair.0), b: mean(|pair| pair.1), error })
    }

    /// How much larger the second mean is.
    #[must_use]
    pub fn difference(&self) -> f64 {
        self.b - self.a
    }

    /// The lower and the upper bound of the difference (Student's), each wrong with a probability of `alpha`.
    #[must_use]
    pub fn bounds(&self, alpha: f64) -> (f64, f64) {
        if self.error <= 0.0 {
            return (self.difference(), self.difference());
        }
        let reach = student_upper(alpha, self.pairs as f64 - 1.0) * self.error;
        (self.difference() - reach, self.difference() + reach)
    }
}

fn as_f64(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(values: &[f64]) -> CountSums {
        let mut counts = CountSums::default();
        values.iter().for_each(|value| counts.add(*value));
        counts
    }

    #[test]
    fn a_mean_of_counts_varies_from_two_on() {
        for (values, expected) in
            [(&[][..], 0.0), (&[4.0], 0.0), (&[1.0, 3.0], 1.0), (&[1.0, 3.0, 5.0], 4.0 / 3.0)]
        {
            assert!((counts(values).variance_of_mean() - expected).abs() < 1e-12, "{values:?}");
        }
    }

    #[test]
    fn equal_counts_are_exact_and_others_are_not() {
        let pair = |a: &[f64], b: &[f64]| (counts(a), counts(b));
        for (pairs, difference, exact) in [
            (vec![pair(&[2.0; 9], &[22.0; 7]); 3], 20.0, true),
            (vec![pair(&[2.0; 9], &[2.0; 30]); 2], 0.0, true),
            // Equal differences by chance.
            (vec![pair(&[2.0, 2.0, 3.0], &[2.0, 3.0, 4.0]); 3], 2.0 / 3.0, false),
            // Equal within rounds, not between them.
            (vec![pair(&[2.0; 5], &[3.0; 5]), pair(&[2.0; 5], &[2.0; 5])], 0.5, false),
        ] {
            let seen = CountDifference::of(&pairs).unwrap();
            assert!((seen.difference() - difference).abs() < 1e-12, "{pairs:?}: {seen:?}");
            let (low, high) = seen.bounds(0.005);
            assert_eq!(low >= high, exact, "{pairs:?}: {seen:?}");
        }
        for pairs in [vec![], vec![pair(&[1.0], &[1.0])], vec![pair(&[], &[1.0]); 3]] {
            assert_eq!(CountDifference::of(&pairs), None);
        }
    }

    /// What both sides have in common is no difference.
    #[test]
    fn what_varies_between_pairs_alike_is_no_spread() {
        let pairs: Vec<_> =
            [10.0, 200.0, 3_000.0].map(|all| (counts(&[all; 4]), counts(&[all + 1.0; 4]))).to_vec();
        let (low, high) = CountDifference::of(&pairs).unwrap().bounds(0.005);
        assert!(low > 0.5 && high < 1.5, "{low} {high}");
    }

    #[test]
    fn bounds_are_those_of_scipy() {
        // scipy.stats.ttest_1samp([1, 2, 4, 3], 0).confidence_interval(0.99), the spread within rounds being smaller.
        let pairs: Vec<_> = [1.0, 2.0, 4.0, 3.0].map(|b| (counts(&[1.0; 4]), counts(&[1.0 + b; 4]))).to_vec();
        let (low, high) = CountDifference::of(&pairs).unwrap().bounds(0.005);
        assert!((low + 1.270_2).abs() < 1e-3 && (high - 6.270_2).abs() < 1e-3, "{low} {high}");
    }
}
