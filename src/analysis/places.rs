//! Where in the run the slow iterations are: at its beginning, at regular intervals, or anywhere.
//!
//! Only the client's own figures are used, so this holds without a single trace. Slow iterations often come in groups,
//! because one stall holds up all that are under way; a group must not count as many separate observations:
//! - The beginning is compared with every other place in the run: it is special if hardly any place has as many slow
//!   iterations in a row. This needs no assumption about groups.
//! - For intervals of time, slow iterations that start together are one event. The chance is the probability of that
//!   many events in one part of the interval, over all intervals that are tried.
//!
//! Nothing here may name a cause.

mod beginning;
mod rhythm;

use std::collections::BTreeSet;

use measure::sample::IterationSample;
use results::model::{Series, SlowPlaces};

/// The workload that the slow iterations are from.
#[derive(Clone, Debug, Default)]
pub struct Population<'a> {
    /// How many iterations it had, without the warm-up.
    pub total: u64,
    /// How many a random sample of them has, if only that is compared.
    pub sampled: Option<u64>,
    /// The iterations of the warm-up, whose numbers come first.
    pub warm_up: u64,
    /// When iterations ended; a rhythm of the load is none of the service.
    pub series: Option<&'a Series>,
    /// The slowest of the run.
    pub slowest: &'a [IterationSample],
    /// When its longest iterations without fault began, and how long they took, in nanoseconds.
    pub longest: Vec<(u64, u64)>,
    /// Typical iterations: a rhythm that these have too is that of the load.
    pub typical: &'a [&'a IterationSample],
    /// True if virtual users set the pace: then an iteration begins when another has ended.
    pub is_closed: bool,
    /// How many shards share the numbers, if the run is one of them.
    pub shards: u64,
}

impl Population<'_> {
    /// The number of iterations among which the slow ones are the slowest.
    pub(super) fn compared(&self) -> u64 {
        self.sampled.unwrap_or(self.total)
    }

    /// An iteration's place among the iterations of this run, from 0 without the warm-up.
    fn place(&self, iteration: &IterationSample) -> u64 {
        (iteration.number / self.shards.max(1)).saturating_sub(self.warm_up)
    }
}

/// Where these slow iterations are; `None` if that says nothing. An interval is also looked for in `more` of them: the
/// slowest few of those that a pause holds up may all come from some of the pauses.
#[must_use]
pub fn places(
    slow: &[&IterationSample],
    more: &[&IterationSample],
    population: &Population<'_>,
) -> Option<SlowPlaces> {
    let workload = slow.first()?.workload;
    let slowest: Vec<&IterationSample> =
        population.slowest.iter().filter(|one| one.workload == workload && !one.warm_up).collect();
    let longest = longest(slow);
    let first = [slow, &longest, &slowest].iter().find_map(|some| beginning::first_ones(some, population));
    let all = [slow, &longest, if more.len() > slow.len() { more } else { &[] }];
    let rhythm = all.iter().find_map(|some| rhythm::by_number(some, slow, population));
    let rhythm = rhythm.or_else(|| all.iter().find_map(|some| rhythm::by_time(some, slow, population)));
    (first.is_some() || rhythm.is_some()).then_some(SlowPlaces { first, rhythm })
}

/// The longer half: where a busy machine makes many iterations slow, what holds up some of them is seen in these.
fn longest<'a>(slow: &[&'a IterationSample]) -> Vec<&'a IterationSample> {
    let mut order = slow.to_vec();
    order.sort_by_key(|one| std::cmp::Reverse(one.response_ns()));
    order.truncate(slow.len() / 2);
    order
}

/// Numbers from 0 without the warm-up.
fn numbers(slow: &[&IterationSample], population: &Population<'_>) -> BTreeSet<u64> {
    let all = slow.iter().map(|one| population.place(one));
    all.filter(|number| *number < population.total).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of iterations that are slow for no reason, alone or several at a time, hardly any run has a place.
    #[test]
    fn of_runs_without_a_place_hardly_any_has_a_finding() {
        const RUNS: u64 = 200;
        const LENGTH_S: f64 = 30.0;
        let completed = vec![50; 60];
        let series = Series { start_s: 0.0, step_s: 0.5, completed, ..Series::default() };
        for group in [1, 4] {
            let wrong = (0..RUNS).filter(|seed| {
                let mut random = fastrand::Rng::with_seed(*seed);
                let total = random.u64(200..1_200);
                let starts: Vec<u64> =
                    (0..(total / 20).div_ceil(group)).map(|_| random.u64(0..total)).collect();
                let numbers: BTreeSet<u64> = starts
                    .iter()
                    .flat_map(|start| (0..group).map(move |one| (start + one) % total))
                    .collect();
                let at_ns = |number: u64| (number as f64 / total as f64 * LENGTH_S * 1e9) as u64;
                let of = |number: u64| IterationSample {
                    number,
                    due_ns: at_ns(number),
                    start_ns: at_ns(number),
                    duration_ns: 1_000_000 * (100.0 / (1.0 - random.f64())) as u64,
                    ..IterationSample::default()
                };
                let all: Vec<IterationSample> = numbers.into_iter().map(of).collect();
                let mut slowest = all.clone();
                slowest.sort_by_key(|one| std::cmp::Reverse(one.response_ns()));
                slowest.truncate(10);
                let population =
                    Population { total, series: Some(&series), slowest: &slowest, ..Population::default() };
                let mut all: Vec<&IterationSample> = all.iter().collect();
                all.sort_by_key(|one| std::cmp::Reverse(one.response_ns()));
                places(&all[..(2 * all.len()).div_ceil(5)], &all, &population).is_some()
                    || places(&all, &[], &population).is_some()
            });
            assert!(wrong.count() as u64 <= RUNS / 100, "in groups of {group}");
        }
    }

    /// A stall of all that are under way every two seconds, in a run in which more iterations are slow for other reasons.
    #[test]
    fn a_rhythm_among_many_others_is_found_in_the_longer_half() {
        let series = Series { start_s: 0.0, step_s: 0.5, completed: vec![25; 60], ..Series::default() };
        let mut random = fastrand::Rng::with_seed(7);
        let of = |s: f64, ms: u64| IterationSample {
            number: (s * 50.0) as u64,
            due_ns: (s * 1e9) as u64,
            start_ns: (s * 1e9) as u64,
            duration_ns: ms * 1_000_000,
            ..IterationSample::default()
        };
        let stalls =
            (1..15).flat_map(|turn| (0..4).map(move |one| f64::from(2 * turn) + 0.02 * f64::from(one)));
        let mut all: Vec<IterationSample> = stalls.map(|s| of(s, 900)).collect();
        all.extend((0..64).map(|_| random.f64() * 30.0).collect::<Vec<_>>().into_iter().map(|s| of(s, 300)));
        let population = Population { total: 1_500, series: Some(&series), ..Population::default() };
        let slow: Vec<&IterationSample> = all.iter().collect();
        assert!(rhythm::by_time(&slow, &slow, &population).is_none());
        let found = places(&slow, &[], &population).and_then(|places| places.rhythm).unwrap();
        assert!((found.every_s.unwrap() - 2.0).abs() < 0.1, "{found:?}");
        // Of all, not only of those in which it was found.
        assert!((0.35..0.6).contains(&found.share), "{found:?}");
    }
    /// Each pause holds up five iterations, and the slowest of them all belong to only some of the pauses.
    #[test]
    fn a_rhythm_of_more_slow_iterations_is_found_where_the_slowest_miss_some_beats() {
        let series = Series { start_s: 0.0, step_s: 0.5, completed: vec![25; 48], ..Series::default() };
        let of = |(s, ms): (f64, u64)| IterationSample {
            number: (s * 50.0) as u64,
            due_ns: (s * 1e9) as u64,
            start_ns: (s * 1e9) as u64,
            duration_ns: ms * 1_000_000,
            ..IterationSample::default()
        };
        let pause = |turn: u32| {
            let ms = if [2, 3, 7, 8, 9].contains(&turn) { 1_300 } else { 1_200 };
            (0..5).map(move |one| (f64::from(2 * turn) + 0.02 * f64::from(one), ms))
        };
        let all: Vec<IterationSample> = (0..12).flat_map(pause).map(of).collect();
        let mut all: Vec<&IterationSample> = all.iter().collect();
        all.sort_by_key(|one| std::cmp::Reverse(one.duration_ns));
        let population = Population { total: 1_200, series: Some(&series), ..Population::default() };
        let rhythm = |more: &[&IterationSample]| places(&all[..25], more, &population)?.rhythm;
        assert!(rhythm(&[]).is_none_or(|found| found.every_s.is_none()), "{:?}", rhythm(&[]));
        let found = rhythm(&all).unwrap();
        assert!(found.every_s.is_some_and(|every_s| (every_s - 2.0).abs() < 0.1), "{found:?}");
        // Of the slowest.
        assert_eq!(found.share, 1.0);
    }
}
