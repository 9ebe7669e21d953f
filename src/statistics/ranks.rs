//! Whether the members of a row that have a property come later in it than chance explains (the rank-sum test).

use super::paired::normal_upper;

/// Up to this many of the rarer kind, every way in which they could lie is counted.
const EXACT_MAX: usize = 10;

/// The chance that the `true` members come at least as late as in this row, if their places are a matter of chance. It
/// is Wilcoxon's rank-sum test, one-sided: exact if there are few of them, or else with the normal distribution. 1 if
/// none or all are `true`.
#[must_use]
pub fn chance_of_later(row: &[bool]) -> f64 {
    let (all, have) = (row.len(), row.iter().filter(|has| **has).count());
    if have == 0 || have == all {
        return 1.0;
    }
    let sum: usize = row.iter().enumerate().filter(|(_, has)| **has).map(|(place, _)| place + 1).sum();
    if have <= EXACT_MAX {
        return exact(all, have, sum);
    }
    let (n, m) = (have as f64, (all - have) as f64);
    let (mean, variance) = (n * (n + m + 1.0) / 2.0, n * m * (n + m + 1.0) / 12.0);
    normal_upper((sum as f64 - 0.5 - mean) / variance.sqrt())
}

/// The share of all ways to choose `have` of the places 1 to `all` whose sum is at least this.
fn exact(all: usize, have: usize, sum: usize) -> f64 {
    // The number of ways by how many are chosen and their sum.
    let sums = have * all + 1;
    let mut ways = vec![vec![0.0_f64; sums]; have + 1];
    ways[0][0] = 1.0;
    for place in 1..=all {
        for chosen in (1..=have.min(place)).rev() {
            let (fewer, more) = ways.split_at_mut(chosen);
            for (to, from) in more[0][place..].iter_mut().zip(&fewer[chosen - 1]) {
                *to += from;
            }
        }
    }
    let of = &ways[have];
    of[sum.min(sums)..].iter().sum::<f64>() / of.iter().sum::<f64>()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(text: &str) -> Vec<bool> {
        text.chars().map(|one| one == 'x').collect()
    }

    #[test]
    fn chances_are_those_of_counting() {
        for (text, expected) in [
            ("", 1.0),
            ("...", 1.0),
            ("xx", 1.0),
            ("..x", 1.0 / 3.0),
            (".x.", 2.0 / 3.0),
            ("x..", 1.0),
            // Of the ten ways, one has the sum 9, and one 8.
            ("...xx", 0.1),
            ("..x.x", 0.2),
            // The sums 4 and more of 3 to 9.
            (".xx..", 0.8),
        ] {
            let seen = chance_of_later(&row(text));
            assert!((seen - expected).abs() < 1e-12, "{text}: {seen}");
        }
        // Four of seventy, at the very end: 1 of 916895 ways.
        let seen = chance_of_later(&row(&format!("{}xxxx", ".".repeat(66))));
        assert!((seen * 916_895.0 - 1.0).abs() < 1e-9, "{seen}");
    }

    #[test]
    fn many_are_judged_as_few_are() {
        let mut random = fastrand::Rng::with_seed(7);
        for _ in 0..40 {
            let mut places: Vec<bool> = (0..60).map(|place| place < EXACT_MAX + 2).collect();
            random.shuffle(&mut places);
            let sum = places.iter().enumerate().filter(|(_, has)| **has).map(|(place, _)| place + 1).sum();
            let (seen, counted) = (chance_of_later(&places), exact(60, EXACT_MAX + 2, sum));
            assert!((seen - counted).abs() < 0.01, "{seen} {counted}");
        }
    }
}
