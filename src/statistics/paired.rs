//! Paired differences: Student's bounds of their mean, Wilcoxon's signed-rank test, a bound for a further value.

use statrs::function::erf::erfc;

use super::beta::beta_reg;

/// Up to this number of differences, Wilcoxon's distribution is computed exactly; beyond it, it is close to normal.
pub const EXACT_MAX: usize = 60;

/// The mean of differences, with what is needed for its bounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// How many differences.
    pub count: usize,
    pub mean: f64,
    /// Their standard deviation.
    pub sd: f64,
}

impl Estimate {
    /// The mean of at least two finite numbers. `resolution` is the error of a measurement: the deviation is at least
    /// this, so that equal readings do not look exact.
    #[must_use]
    pub fn of(values: &[f64], resolution: f64) -> Option<Self> {
        let (mean, sd) = mean_and_sd(values)?;
        Some(Self { count: values.len(), mean, sd: sd.max(resolution) })
    }

    /// The mean's standard error.
    #[must_use]
    pub fn error(&self) -> f64 {
        self.sd / as_f64(self.count).sqrt()
    }

    /// The distance of each bound from the mean, where each bound is wrong with a probability of `alpha`.
    #[must_use]
    pub fn reach(&self, alpha: f64) -> f64 {
        student_upper(alpha, as_f64(self.count) - 1.0) * self.error()
    }

    /// The mean whose lower bound is above `limit` with a probability of `chance`, given the observed deviation.
    #[must_use]
    pub fn detectable(&self, limit: f64, alpha: f64, chance: f64) -> f64 {
        let df = as_f64(self.count) - 1.0;
        limit + (student_upper(alpha, df) + student_upper(1.0 - chance, df)) * self.error()
    }
}

impl Estimate {
    /// How many such numbers would put the bound between their mean and `limit` with a probability of `chance`, if mean and
    /// deviation stay as they are; `None` if more than `most` would be needed.
    #[must_use]
    pub fn count_for(&self, limit: f64, alpha: f64, chance: f64, most: usize) -> Option<usize> {
        let distance = (self.mean - limit).abs();
        (3..=most).find(|&count| {
            let of = Self { count, ..*self };
            of.detectable(0.0, alpha, chance) <= distance
        })
    }
}

/// Mean and standard deviation of at least two finite numbers.
#[must_use]
pub fn mean_and_sd(values: &[f64]) -> Option<(f64, f64)> {
    // Of fewer than two, or of others than finite numbers, one of the two is not finite.
    let n = as_f64(values.len());
    let mean = values.iter().sum::<f64>() / n;
    let squares = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
    let sd = (squares / (n - 1.0)).sqrt();
    (mean.is_finite() && sd.is_finite()).then_some((mean, sd))
}

/// Bounds of the difference of two means, each with the error probability `alpha` (Welch 1947, with Satterthwaite's degrees of
/// freedom). `None` with fewer than two values of either.
#[must_use]
pub fn welch(base: &[f64], new: &[f64], alpha: f64) -> Option<(f64, f64)> {
    let ((mean_a, sd_a), (mean_b, sd_b)) = (mean_and_sd(base)?, mean_and_sd(new)?);
    let (n_a, n_b) = (as_f64(base.len()), as_f64(new.len()));
    let (a, b) = (sd_a * sd_a / n_a, sd_b * sd_b / n_b);
    let difference = mean_b - mean_a;
    if a + b <= 0.0 {
        return Some((difference, difference));
    }
    let df = (a + b).powi(2) / (a * a / (n_a - 1.0) + b * b / (n_b - 1.0));
    let reach = student_upper(alpha, df) * (a + b).sqrt();
    Some((difference - reach, difference + reach))
}

/// The value that a further value of the same kind exceeds with probability `alpha`: mean + t·s·√(1 + 1/n).
#[must_use]
pub fn prediction_upper(values: &[f64], alpha: f64) -> Option<f64> {
    let (mean, sd) = mean_and_sd(values)?;
    let n = as_f64(values.len());
    Some(mean + student_upper(alpha, n - 1.0) * sd * (1.0 + 1.0 / n).sqrt())
}

/// The value that Student's t with `df` degrees of freedom exceeds with probability `alpha`; NaN if there is none.
#[must_use]
pub fn student_upper(alpha: f64, df: f64) -> f64 {
    let valid = alpha > 0.0 && alpha < 1.0 && df > 0.0 && df.is_finite();
    if !valid {
        return f64::NAN;
    }
    if alpha > 0.5 {
        return -student_upper(1.0 - alpha, df);
    }
    let mut high = 1.0;
    while student_tail(high, df) > alpha && high < 1e300 {
        high *= 2.0;
    }
    let mut low = 0.0;
    // Bisection, until there is no number between the two.
    for _ in 0..2_000 {
        let middle = f64::midpoint(low, high);
        if middle <= low || middle >= high {
            break;
        }
        if student_tail(middle, df) > alpha {
            low = middle;
        } else {
            high = middle;
        }
    }
    f64::midpoint(low, high)
}

/// P(T > t) for t ≥ 0: half the incomplete beta function (Abramowitz and Stegun 26.7.1).
fn student_tail(t: f64, df: f64) -> f64 {
    0.5 * beta_reg(df / 2.0, 0.5, df / (df + t * t))
}

/// Wilcoxon's signed-rank test of the non-zero differences.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SignedRank {
    /// The number of non-zero differences.
    pub count: usize,
    /// The sum of the ranks of the positive ones; ties share their mean rank.
    pub rank_sum: f64,
    /// The probability of a sum at least as large if both signs are equally likely.
    pub p_greater: f64,
    /// The probability of a sum at least as small.
    pub p_less: f64,
}

/// The test; `None` without a non-zero difference, or with NaN. Up to [`EXACT_MAX`] differences, the distribution is
/// exact, even with tied ranks; beyond, it is normal, with its variance corrected for ties.
#[must_use]
pub fn signed_rank(differences: &[f64]) -> Option<SignedRank> {
    if differences.iter().any(|value| !value.is_finite()) {
        return None;
    }
    let mut ordered: Vec<f64> = differences.iter().copied().filter(|value| *value != 0.0).collect();
    ordered.sort_by(|one, other| one.abs().total_cmp(&other.abs()));
    let count = ordered.len();
    if count == 0 {
        return None;
    }
    // Twice the ranks, so that shared ones are whole.
    let (mut doubled, mut tie_term) = (Vec::with_capacity(count), 0.0);
    while doubled.len() < count {
        let first = doubled.len();
        let tied = ordered[first..].iter().take_while(|value| value.abs() == ordered[first].abs()).count();
        doubled.extend(std::iter::repeat_n(2 * first + tied + 1, tied));
        let tied = as_f64(tied);
        tie_term += tied * (tied * tied - 1.0);
    }
    let positive: usize =
        doubled.iter().zip(&ordered).filter(|(_, value)| **value > 0.0).map(|(rank, _)| rank).sum();
    let rank_sum = as_f64(positive) / 2.0;
    let (p_greater, p_less) = if count <= EXACT_MAX {
        counted(&doubled, positive)
    } else {
        let n = as_f64(count);
        let variance = n * (n + 1.0) * (2.0 * n + 1.0) / 24.0 - tie_term / 48.0;
        let z = (rank_sum - n * (n + 1.0) / 4.0) / variance.sqrt();
        (normal_upper(z), normal_upper(-z))
    };
    Some(SignedRank { count, rank_sum, p_greater, p_less })
}

/// The probabilities of a sum of at least and at most `sum`, where each rank is included or not.
fn counted(ranks: &[usize], sum: usize) -> (f64, f64) {
    let total: usize = ranks.iter().sum();
    let mut chances = vec![0.0; total + 1];
    chances[0] = 1.0;
    let mut largest = 0;
    for &rank in ranks {
        largest += rank;
        for at in (0..=largest).rev() {
            let with = if at >= rank { chances[at - rank] } else { 0.0 };
            chances[at] = 0.5 * (chances[at] + with);
        }
    }
    (chances[sum..].iter().sum::<f64>().min(1.0), chances[..=sum].iter().sum::<f64>().min(1.0))
}

pub(super) fn normal_upper(z: f64) -> f64 {
    0.5 * erfc(z / std::f64::consts::SQRT_2)
}

fn as_f64(count: usize) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn welch_bounds_match_scipy() {
        // scipy.stats.ttest_ind([2, 4, 6, 8, 11], [1, 2, 3, 4], equal_var=False).confidence_interval()
        let (low, high) = welch(&[1.0, 2.0, 3.0, 4.0], &[2.0, 4.0, 6.0, 8.0, 11.0], 0.025).unwrap();
        assert!((low + 0.576_876_7).abs() < 1e-6 && (high - 7.976_876_7).abs() < 1e-6, "{low} {high}");
        assert_eq!(welch(&[1.0], &[2.0, 3.0], 0.025), None);
        assert_eq!(welch(&[1.0, 1.0], &[2.0, 2.0], 0.025), Some((1.0, 1.0)));
    }

    #[test]
    fn so_many_more_numbers_would_decide() {
        let of = |mean: f64, sd: f64| Estimate { count: 20, mean, sd };
        // R: n such that (qt(0.9975, n - 1) + qt(0.8, n - 1)) * sd / sqrt(n) <= distance.
        for (seen, limit, expected) in [
            (of(0.2, 0.1), 0.1, Some(17)),
            (of(0.0, 0.1), 0.1, Some(17)),
            (of(0.15, 0.1), 0.1, Some(57)),
            (of(0.12, 0.1), 0.1, None),
            (of(0.1, 0.1), 0.1, None),
        ] {
            let count = seen.count_for(limit, 0.0025, 0.8, 200);
            assert_eq!(count, expected, "{seen:?}");
            if let Some(count) = count {
                let of = |count| Estimate { count, ..seen }.detectable(0.0, 0.0025, 0.8);
                assert!(of(count) <= (seen.mean - limit).abs() && of(count - 1) > (seen.mean - limit).abs());
            }
        }
    }
    use crate::order::binomial_cdf;
    use proptest::prelude::*;
    use serde_json::Value;

    /// Made by tests/vectors/statistics/make.py with SciPy.
    fn vectors() -> Value {
        serde_json::from_str(include_str!("../../tests/vectors/statistics/paired.json")).unwrap()
    }

    fn close(ours: f64, theirs: f64, tolerance: f64) -> bool {
        // Far in the tail, SciPy computes a difference from 1 and loses digits itself.
        (ours - theirs).abs() <= tolerance * theirs.abs() + 1e-14
    }

    #[test]
    fn what_has_no_finite_mean_or_deviation_has_neither() {
        for values in
            [&[][..], &[1.0], &[1.0, f64::NAN], &[f64::INFINITY, 1.0], &[1e200, -1e200], &[1e308, 1e308]]
        {
            assert_eq!(mean_and_sd(values), None, "{values:?}");
        }
        assert_eq!(mean_and_sd(&[1.0, 3.0]), Some((2.0, 2.0_f64.sqrt())));
    }

    fn numbers(row: &Value) -> Vec<f64> {
        row.as_array().unwrap().iter().map(|value| value.as_f64().unwrap()).collect()
    }

    /// 2.5 + 2.353363 · 1.290994 · √1.25, with Student's quantile for three degrees of freedom.
    #[test]
    fn a_prediction_is_farther_than_the_mean_s_own_bound() {
        let upper = prediction_upper(&[1.0, 2.0, 3.0, 4.0], 0.05).unwrap();
        assert!((upper - 5.896_77).abs() < 1e-4, "{upper}");
        for values in [&[][..], &[1.0], &[1.0, f64::NAN], &[1.0, f64::INFINITY]] {
            assert_eq!(mean_and_sd(values), None, "{values:?}");
        }
    }

    #[test]
    fn student_is_symmetric_and_not_defined_for_every_number() {
        for (alpha, df) in [
            (0.0, 5.0),
            (-0.1, 5.0),
            (1.0, 5.0),
            (1.1, 5.0),
            (f64::NAN, 5.0),
            (0.05, 0.0),
            (0.05, -1.0),
            (0.05, f64::INFINITY),
        ] {
            assert!(student_upper(alpha, df).is_nan(), "{alpha}, {df}");
        }
        let upper = student_upper(0.1, 5.0);
        assert!(upper > 1.4 && (student_upper(0.9, 5.0) + upper).abs() < 1e-9, "{upper}");
        assert!(student_upper(0.5, 5.0).abs() < 1e-9);
    }

    #[test]
    fn student_quantiles_are_those_of_scipy() {
        let vectors = vectors();
        let rows = vectors["student"].as_array().unwrap();
        assert!(rows.len() >= 1_000);
        for row in rows {
            let row = numbers(row);
            let ours = student_upper(row[0], row[1]);
            assert!(close(ours, row[2], 1e-9), "alpha {}, df {}: {ours}, SciPy {}", row[0], row[1], row[2]);
        }
        // The two cases that `bench ab` uses: 10 and 20 pairs at 0.005.
        assert!((student_upper(0.005, 9.0) - 3.250).abs() < 0.0005);
        assert!((student_upper(0.005, 19.0) - 2.861).abs() < 0.0005);
    }

    #[test]
    fn signed_ranks_are_those_of_scipy() {
        let vectors = vectors();
        let rows = vectors["signed_rank"].as_array().unwrap();
        assert!(rows.len() >= 1_500);
        for row in rows {
            let differences: Vec<f64> = numbers(&row[0]);
            let ours = signed_rank(&differences).unwrap();
            let (sum, greater, less) =
                (row[1].as_f64().unwrap(), row[2].as_f64().unwrap(), row[3].as_f64().unwrap());
            assert_eq!(ours.rank_sum, sum, "{differences:?}");
            assert!(close(ours.p_greater, greater, 1e-8), "{differences:?}: {ours:?}, SciPy {greater}");
            assert!(close(ours.p_less, less, 1e-8), "{differences:?}: {ours:?}, SciPy {less}");
        }
    }

    #[test]
    fn binomials_are_those_of_scipy() {
        let vectors = vectors();
        for row in vectors["binomial"].as_array().unwrap() {
            let row = numbers(row);
            let ours = binomial_cdf(row[0], row[1], row[2]);
            // Far in the tail only the order of magnitude matters.
            assert!((ours - row[3]).abs() <= 1e-7 * row[3].max(1e-3), "{row:?}: {ours}");
        }
    }

    #[test]
    fn invalid_data_gives_no_result() {
        for values in [&[][..], &[1.0], &[1.0, f64::NAN], &[f64::INFINITY, 1.0], &[f64::MAX, f64::MAX]] {
            assert_eq!(Estimate::of(values, 0.0), None, "{values:?}");
            assert_eq!(prediction_upper(values, 0.01), None);
        }
        for values in [&[][..], &[0.0, -0.0], &[f64::NAN, 1.0]] {
            assert_eq!(signed_rank(values), None, "{values:?}");
        }
        assert_eq!(signed_rank(&[1.0]).unwrap().p_greater, 0.5);
        assert!(student_upper(0.005, 0.0).is_nan() && student_upper(f64::NAN, 5.0).is_nan());
        assert_eq!(Estimate::of(&[0.5, 0.5], 0.001).unwrap().sd, 0.001, "equal readings are not exact");
    }

    proptest! {
        #[test]
        fn no_numbers_make_it_panic(values in proptest::collection::vec(any::<f64>(), 0..80), alpha: f64) {
            let _ = (Estimate::of(&values, 0.0), prediction_upper(&values, alpha));
            if let Some(test) = signed_rank(&values) {
                prop_assert!((0.0..=1.0).contains(&test.p_greater) && (0.0..=1.0).contains(&test.p_less));
            }
        }

        #[test]
        fn signs_mirror(values in proptest::collection::vec(-5.0_f64..5.0, 1..40)) {
            let mirrored: Vec<f64> = values.iter().map(|value| -value).collect();
            if let (Some(one), Some(other)) = (signed_rank(&values), signed_rank(&mirrored)) {
                prop_assert!((one.p_greater - other.p_less).abs() < 1e-12);
            }
        }
    }
}
