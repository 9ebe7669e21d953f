//! Bounds of a quantile from the order of the samples alone, whatever their distribution.
//!
//! The r-th smallest of n independent samples is not above the q-quantile with the probability that at least r of n
//! fall below it: a binomial tail (Hahn and Meeker, Statistical Intervals, 1991, section 5.2).

use super::beta::beta_reg;

/// The shares of the ordered samples between which a quantile lies.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OrderBounds {
    /// The rank of the lower bound as a share of the samples; absent when there are too few below the quantile.
    pub low: Option<f64>,
    /// The same of the upper bound; absent when there are too few above it.
    pub high: Option<f64>,
}

/// Bounds of the `q`-quantile of `n` samples, each of which fails with probability `alpha` at most. `n` is what the
/// samples are worth if they were independent; its fraction is cut off.
#[must_use]
pub fn order_bounds(n: f64, q: f64, alpha: f64) -> OrderBounds {
    let valid = n.is_finite() && n >= 1.0 && q > 0.0 && q < 1.0 && alpha > 0.0 && alpha < 1.0;
    if !valid {
        return OrderBounds { low: None, high: None };
    }
    let n = n.floor();
    // P(the r-th sample > quantile) = P(fewer than r below it), which grows with r.
    let fewer_than = |rank: f64| binomial_cdf(rank - 1.0, n, q);
    let low = last(n, |rank| fewer_than(rank) <= alpha);
    // P(the r-th sample < quantile) = 1 - P(fewer than r below it): the first rank where that is small enough.
    let high = last(n, |rank| 1.0 - fewer_than(rank) > alpha) + 1.0;
    OrderBounds { low: (low >= 1.0).then_some(low / n), high: (high <= n).then_some(high / n) }
}

/// The last rank of 1 to n for which a condition holds that holds up to some rank; 0 for none.
fn last(n: f64, holds: impl Fn(f64) -> bool) -> f64 {
    let (mut below, mut above) = (0.0_f64, n + 1.0);
    while above - below > 1.0 {
        let middle = ((below + above) / 2.0).floor();
        if holds(middle) {
            below = middle;
        } else {
            above = middle;
        }
    }
    below
}

/// The probability of at most `k` of `n`.
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
