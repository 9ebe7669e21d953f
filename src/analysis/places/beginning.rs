//! Whether the first iterations of a run are the slow ones.

use super::{Population, numbers};
use measure::sample::IterationSample;
use results::model::FirstIterations;

/// Fewer iterations have too few places to compare the beginning with: that the best of them is the first has a
/// probability of one in their number.
const TOTAL_MIN: u64 = 200;
/// Fewer slow ones at the beginning say nothing: one stall holds up all that are under way.
const SLOW_MIN: usize = 4;
/// The beginning is at most this part of the run.
const PART_MAX: u64 = 10;

/// The first iterations, if they are slow ones as in hardly any other place.
pub(super) fn first_ones(slow: &[&IterationSample], population: &Population<'_>) -> Option<FirstIterations> {
    let total = population.total;
    if total < TOTAL_MIN {
        return None;
    }
    let numbers: Vec<u64> = numbers(slow, population).into_iter().collect();
    let first = run_at(&numbers, 0);
    if first.slow < SLOW_MIN || first.length > total / PART_MAX {
        return None;
    }
    // Where others are as slow in a row, the beginning is nothing special.
    let is_alike = |at: usize| run_at(&numbers[at..], numbers[at]).score >= first.score;
    if (0..numbers.len()).any(|at| numbers[at] > 0 && is_alike(at)) {
        return None;
    }
    let chance = 1.0 / total as f64;
    let of_these = slow.iter().filter(|one| population.place(one) < first.length);
    let times_ms: Vec<f64> = of_these.map(|one| one.response_ns() as f64 / 1e6).collect();
    Some(FirstIterations {
        slow: first.slow as u64,
        among: first.length,
        of: total,
        slow_ms: times_ms.iter().sum::<f64>() / times_ms.len().max(1) as f64,
        warm_up: population.warm_up,
        chance,
    })
}

/// Slow iterations in a row, with some others between.
#[derive(Clone, Copy, Debug, Default)]
struct SlowStreak {
    /// How many slow ones.
    slow: usize,
    /// How many iterations, from the place to the last slow one.
    length: u64,
    /// Two for each slow one, less one for each other.
    score: u64,
}

/// The best run from a place on; `numbers` are the numbers of the slow iterations from there on, ascending.
fn run_at(numbers: &[u64], place: u64) -> SlowStreak {
    let mut best = SlowStreak::default();
    for (slow, number) in (1_usize..).zip(numbers) {
        let length = number - place + 1;
        let Some(score) = (3 * slow as u64).checked_sub(length) else { break };
        if score > best.score {
            best = SlowStreak { slow, length, score };
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn samples(numbers: &[u64], warm_up: u64) -> Vec<IterationSample> {
        let sample = |&number: &u64| IterationSample {
            number: number + warm_up,
            duration_ns: 400_000_000,
            ..IterationSample::default()
        };
        numbers.iter().map(sample).collect()
    }

    fn found(numbers: &[u64], total: u64, warm_up: u64) -> Option<(u64, u64)> {
        let samples = samples(numbers, warm_up);
        let population = Population { total, warm_up, ..Population::default() };
        let found = first_ones(&samples.iter().collect::<Vec<_>>(), &population)?;
        assert!((found.slow_ms - 400.0).abs() < 1e-9);
        Some((found.slow, found.among))
    }

    #[test]
    fn the_first_ones_are_found_where_they_are_special() {
        let noise = [40, 77, 110, 145, 190, 222, 260, 261, 280, 290, 299];
        let with = |first: &[u64]| first.iter().chain(&noise).copied().collect::<Vec<u64>>();
        for (what, numbers, total, warm_up, expected) in [
            ("the first four of 300", with(&[0, 1, 2, 3]), 300, 0, Some((4, 4))),
            ("after a warm-up", with(&[0, 1, 2, 3]), 300, 50, Some((4, 4))),
            ("with gaps", with(&[0, 2, 3, 5]), 300, 0, Some((4, 6))),
            ("two", with(&[0, 1]), 300, 0, None),
            ("elsewhere as many", with(&[0, 1, 2, 100, 101, 102]), 300, 0, None),
            ("anywhere", with(&[30, 31, 32, 33]), 300, 0, None),
            ("a short run", vec![0, 1, 2, 3], 100, 0, None),
            ("everything", (0..300).collect(), 300, 0, None),
            ("none", vec![], 300, 0, None),
        ] {
            assert_eq!(found(&numbers, total, warm_up), expected, "{what}");
        }
    }

    #[test]
    fn of_runs_without_a_beginning_hardly_any_has_a_finding() {
        const RUNS: u64 = 2_000;
        for group in [1, 4, 12] {
            let wrong = (0..RUNS).filter(|seed| {
                let mut random = fastrand::Rng::with_seed(*seed);
                let total = random.u64(200..2_000);
                // 5 % are slow, in groups.
                let groups = (total / 20).div_ceil(group);
                let starts = (0..groups).map(|_| random.u64(0..total)).collect::<Vec<_>>();
                let numbers: BTreeSet<u64> = starts
                    .iter()
                    .flat_map(|start| (0..group).map(move |one| (start + one) % total))
                    .collect();
                found(&numbers.into_iter().collect::<Vec<_>>(), total, 0).is_some()
            });
            assert!(wrong.count() as u64 <= RUNS / 100, "{group}");
        }
    }
}
