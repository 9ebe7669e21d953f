//! Where the level of a series changes: for nightly figures, which have outliers and no known distribution.
//!
//! The largest sum of centred ranks up to a place, weighed by how many values are on both sides, is compared with those of
//! random orders of the same values (a permutation test, as in E-divisive: Matteson and James 2014). It is exact for values
//! whose order says nothing: a series without a change gets one with the probability `alpha`. Both parts of a series with a change
//! are looked at again. Values that follow from those before them, such as a slow drift, are no such series.

use super::paired::welch;

/// So many random orders are tried at least, and so many times as many as `1 / alpha`.
const ORDERS_MIN: usize = 999;
const ORDERS_BY_ALPHA: f64 = 20.0;
const ORDERS_MAX: usize = 50_000;
/// A part has at least so many values.
const PART_MIN: usize = 3;
/// So many values are enough for every error probability that is asked for.
const VALUES_LARGE: usize = 100;
/// The error probability of each bound of a difference.
const ALPHA: f64 = 0.025;
/// What chi squared with one degree of freedom is below in 95 of 100 cases.
const CHI_SQUARED: f64 = 3.84;

/// A change of the level.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ChangePoint {
    /// The first value of the new level.
    pub at: usize,
    /// It may begin as early as at this value,
    pub earliest: usize,
    /// and as late as at this one.
    pub latest: usize,
    /// How likely so large a change is in a series without any.
    pub p: f64,
    /// The mean after it minus that before it, up to the changes beside it,
    pub difference: f64,
    /// which is at least this,
    pub low: f64,
    /// and at most this, each with an error probability of 2.5 %.
    pub high: f64,
}

/// The changes of a series of finite values, each at the level `alpha`, in their order. The same `seed` gives the same.
#[must_use]
pub fn change_points(values: &[f64], alpha: f64, seed: u64) -> Vec<ChangePoint> {
    if values.iter().any(|value| !value.is_finite()) {
        return Vec::new();
    }
    let mut random = fastrand::Rng::with_seed(seed);
    let mut found: Vec<(usize, f64)> = Vec::new();
    let mut parts = vec![(0, values.len())];
    while let Some((from, to)) = parts.pop() {
        if let Some((at, p)) = split(&values[from..to], alpha, &mut random) {
            found.push((from + at, p));
            parts.extend([(from, from + at), (from + at, to)]);
        }
    }
    found.sort_unstable_by_key(|(at, _)| *at);
    let ends: Vec<usize> = found.iter().map(|(at, _)| *at).collect();
    let described = found.iter().enumerate().map(|(number, &(at, p))| {
        let from = if number == 0 { 0 } else { ends[number - 1] };
        let to = ends.get(number + 1).copied().unwrap_or(values.len());
        let (earliest, latest) = place_bounds(&values[from..to], at - from);
        let (before, after) = (&values[from..at], &values[at..to]);
        let mean = |part: &[f64]| part.iter().sum::<f64>() / part.len() as f64;
        let difference = mean(after) - mean(before);
        // Each part has at least PART_MIN values.
        let (low, high) = welch(before, after, ALPHA).unwrap_or((difference, difference));
        ChangePoint { at, earliest: from + earliest, latest: from + latest, p, difference, low, high }
    });
    described.collect()
}

/// How many values it takes at least until a change can be found: in the middle, and larger than all noise.
#[must_use]
pub fn values_min(alpha: f64) -> usize {
    let mut count = 2 * PART_MIN;
    // Two of all ways to choose half of them are as extreme.
    let chance = |count: usize| {
        let half = count / 2;
        2.0 / (0..half).map(|n| (count - n) as f64 / (half - n) as f64).product::<f64>()
    };
    while chance(count) > alpha && count < VALUES_LARGE {
        count += 1;
    }
    count
}

/// The place of the largest change, and its probability without one.
fn split(values: &[f64], alpha: f64, random: &mut fastrand::Rng) -> Option<(usize, f64)> {
    if values.len() < 2 * PART_MIN {
        return None;
    }
    let mut ranks = centred_ranks(values);
    let (at, most) = largest(&ranks);
    let orders = ((ORDERS_BY_ALPHA / alpha).ceil() as usize).clamp(ORDERS_MIN, ORDERS_MAX);
    let mut as_large = 1;
    for _ in 0..orders {
        random.shuffle(&mut ranks);
        as_large += usize::from(largest(&ranks).1 >= most * (1.0 - 1e-12));
    }
    let p = as_large as f64 / (orders + 1) as f64;
    (p <= alpha).then_some((at, p))
}

/// Ranks minus their mean; equal values share theirs.
fn centred_ranks(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_unstable_by(|one, other| values[*one].total_cmp(&values[*other]));
    let middle = (values.len() as f64 - 1.0) / 2.0;
    let mut ranks = vec![0.0; values.len()];
    let mut first = 0;
    for same in order.chunk_by(|one, other| values[*one] == values[*other]) {
        let rank = first as f64 + (same.len() as f64 - 1.0) / 2.0 - middle;
        same.iter().for_each(|place| ranks[*place] = rank);
        first += same.len();
    }
    ranks
}

/// The place at which the parts differ most, and by how much.
fn largest(ranks: &[f64]) -> (usize, f64) {
    let count = ranks.len() as f64;
    let (mut sum, mut best) = (0.0, (0, -1.0));
    for (place, rank) in ranks.iter().enumerate().take(ranks.len() - PART_MIN) {
        sum += rank;
        let before = place as f64 + 1.0;
        let weighed = sum * sum / (before * (count - before));
        if place + 1 >= PART_MIN && weighed > best.1 {
            best = (place + 1, weighed);
        }
    }
    best
}

/// The places whose squares of the residuals are not much larger than those of the best one.
fn place_bounds(values: &[f64], at: usize) -> (usize, usize) {
    let around = |part: &[f64]| {
        let mean = part.iter().sum::<f64>() / part.len() as f64;
        part.iter().map(|value| (value - mean).powi(2)).sum::<f64>()
    };
    let squares = |place: usize| around(&values[..place]) + around(&values[place..]);
    let places = || 1..values.len();
    let least = places().map(squares).fold(f64::INFINITY, f64::min);
    let limit = least * (1.0 + CHI_SQUARED / (values.len() as f64 - 2.0).max(1.0));
    let fits = |place: &usize| squares(*place) <= limit;
    (places().find(fits).unwrap_or(at).min(at), places().rev().find(fits).unwrap_or(at).max(at))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values around 0 with this deviation, every twentieth far off.
    fn noise(count: usize, sd: f64, random: &mut fastrand::Rng) -> Vec<f64> {
        let normal = |random: &mut fastrand::Rng| (0..12).map(|_| random.f64()).sum::<f64>() - 6.0;
        (0..count).map(|_| normal(random) * if random.f64() < 0.05 { 5.0 * sd } else { sd }).collect()
    }

    #[test]
    fn a_series_without_a_change_gets_one_as_often_as_was_said() {
        let mut random = fastrand::Rng::with_seed(1);
        for count in [8, 30, 100] {
            let wrong = (0..200).filter(|number| {
                let values = noise(count, 0.05, &mut random);
                !change_points(&values, 0.01, *number).is_empty()
            });
            // Of 200 at 1 %, more than 8 are as likely as 1 in 4,000.
            let wrong = wrong.count();
            assert!(wrong <= 8, "{wrong} of 200 series of {count}");
        }
    }

    #[test]
    fn changes_are_found_where_they_are_and_as_large() {
        let mut random = fastrand::Rng::with_seed(2);
        let (mut found, mut near, mut held, mut within) = (0, 0, 0, 0);
        for number in 0..100 {
            let mut values = noise(60, 0.03, &mut random);
            values[40..].iter_mut().for_each(|value| *value += 0.1);
            let changes = change_points(&values, 0.01, number);
            if let [one] = changes[..] {
                found += 1;
                near += usize::from(one.at.abs_diff(40) <= 2);
                held += usize::from(one.low <= 0.1 && 0.1 <= one.high);
                within += usize::from(one.earliest <= 40 && 40 <= one.latest);
                assert!(one.earliest <= one.at && one.at <= one.latest && one.p <= 0.01, "{one:?}");
            }
        }
        assert!(found >= 93 && near * 10 >= found * 9, "{found} found, {near} near");
        assert!(held * 10 >= found * 9 && within * 10 >= found * 9, "{held} and {within} of {found} hold");
    }

    #[test]
    fn fewer_values_than_it_takes_show_no_change() {
        for (alpha, expected) in [(0.1, 6), (0.01, 10), (0.01 / 3.0, 12), (0.01 / 6.0, 13)] {
            assert_eq!(values_min(alpha), expected, "{alpha}");
            let steps = |count: usize| -> Vec<f64> {
                (0..count).map(|n| n as f64 / 1e3 + if n < count / 2 { 0.0 } else { 9.0 }).collect()
            };
            // Not at the limit itself, where it depends on the random orders.
            assert_eq!(change_points(&steps(expected + 1), alpha, 1).len(), 1, "{alpha}");
            assert!(change_points(&steps(expected - 2), alpha, 1).is_empty(), "{alpha}");
        }
    }

    #[test]
    fn two_changes_are_two() {
        let mut values: Vec<f64> = (0..60).map(|n| f64::from(n % 3) * 0.01).collect();
        values[20..40].iter_mut().for_each(|value| *value += 0.2);
        let at: Vec<usize> = change_points(&values, 0.01, 7).iter().map(|one| one.at).collect();
        assert_eq!(at, [20, 40]);
    }

    #[test]
    fn what_says_nothing_has_no_change() {
        assert!(change_points(&[], 0.01, 1).is_empty());
        assert!(change_points(&[1.0, 2.0, 9.0], 0.01, 1).is_empty());
        assert!(change_points(&[5.0; 100], 0.01, 1).is_empty());
        assert!(change_points(&[1.0, f64::NAN, 1.0, 2.0, 2.0, 2.0], 0.5, 1).is_empty());
    }
}
