//! Whether slow iterations come at the same moments: several that are under way together begin and end together.
//!
//! A stop of a whole process, or a host without processor time, makes all slow that is under way. Iterations that are slow
//! for their own reasons have neighbours too, but only as many as their number lets expect. Only the client's own figures
//! are used. Nothing here may name a cause.

use results::model::SlowMoments;

/// Fewer slow iterations have no moments.
const SLOW_MIN: usize = 10;
/// Two that begin within this many typical durations of each other may be held up by the same stop.
const REACH: f64 = 1.2;
/// They also end within this many typical durations, or within this part of the time by which they take longer.
const REACH_OF_ENDS: f64 = 2.0;
const REACH_OF_GAP: f64 = 0.1;
/// They have at least this many times as many neighbours as by chance.
const TIMES_MIN: f64 = 2.5;
/// At least this share of them has a neighbour.
const SHARE_MIN: f64 = 0.6;
/// The largest probability of their neighbours by chance.
const CHANCE_MAX: f64 = 0.001;

/// When an iteration began, and how long it took, in nanoseconds.
pub type IterationPeriod = (u64, u64);

/// The moments at which these slow iterations come; `None` if they come at any time. `others` are more iterations of the
/// run, which tell how long it was; `typical_ms` is how long a typical one takes.
#[must_use]
pub fn moments(slow: &[IterationPeriod], others: &[IterationPeriod], typical_ms: f64) -> Option<SlowMoments> {
    if slow.len() < SLOW_MIN || typical_ms <= 0.0 {
        return None;
    }
    let begin_s = |one: &IterationPeriod| one.0 as f64 / 1e9;
    let end_s = |one: &IterationPeriod| (one.0 + one.1) as f64 / 1e9;
    let all = || slow.iter().chain(others);
    let length_s = all().map(end_s).fold(f64::MIN, f64::max) - all().map(begin_s).fold(f64::MAX, f64::min);
    let typical_s = typical_ms / 1e3;
    let mean_s = slow.iter().map(|one| end_s(one) - begin_s(one)).sum::<f64>() / slow.len() as f64;
    let reach_s = REACH * typical_s;
    let reach_of_ends_s = (REACH_OF_ENDS * typical_s).max(REACH_OF_GAP * (mean_s - typical_s));
    let mut times: Vec<(f64, f64)> = slow.iter().map(|one| (begin_s(one), end_s(one))).collect();
    times.sort_by(|one, other| one.0.total_cmp(&other.0));
    let mut neighbours = vec![0_u64; times.len()];
    let mut pairs = 0_u64;
    for (later, &(begin, end)) in times.iter().enumerate() {
        let near = |earlier: &usize| begin - times[*earlier].0 <= reach_s;
        for earlier in (0..later).rev().take_while(near) {
            let (earlier_end, is_under_way) = (times[earlier].1, times[earlier].1 > begin);
            if is_under_way && (end - earlier_end).abs() <= reach_of_ends_s {
                pairs += 1;
                neighbours[earlier] += 1;
                neighbours[later] += 1;
            }
        }
    }
    let count = times.len() as f64;
    // Neighbours of one of them, if all began at any time of the run.
    let by_chance = (count - 1.0) * (2.0 * reach_s / length_s.max(f64::MIN_POSITIVE)).min(1.0);
    let begins: Vec<f64> = times
        .iter()
        .zip(&neighbours)
        .filter(|(_, number)| **number > 0)
        .map(|((begin, _), _)| *begin)
        .collect();
    let together = begins.len();
    let holds = together as f64 >= SHARE_MIN * count
        && 2.0 * pairs as f64 >= TIMES_MIN * by_chance * count
        && at_least(pairs, by_chance * count / 2.0) <= CHANCE_MAX;
    let moments = 1 + begins.windows(2).filter(|pair| pair[1] - pair[0] > reach_s).count();
    holds.then(|| SlowMoments {
        moments: moments as u64,
        iterations: together as u64,
        of: slow.len() as u64,
        share_by_chance: 1.0 - (-by_chance).exp(),
    })
}

/// The probability of at least `seen` events where `expected` are expected: Chernoff's bound for Poisson's
/// distribution.
fn at_least(seen: u64, expected: f64) -> f64 {
    let seen = seen as f64;
    if seen <= expected {
        return 1.0;
    }
    if expected <= 0.0 { 0.0 } else { (seen - expected - seen * (seen / expected).ln()).exp() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(times_ms: impl IntoIterator<Item = (f64, f64)>) -> Vec<IterationPeriod> {
        times_ms.into_iter().map(|(at_ms, ms)| ((at_ms * 1e6) as u64, (ms * 1e6) as u64)).collect()
    }

    fn found(slow: &[IterationPeriod], length_ms: f64) -> Option<SlowMoments> {
        moments(slow, &samples([(0.0, 20.0), (length_ms, 20.0)]), 20.0)
    }

    /// A stop of 200 ms holds up the iterations under way; each began within the 20 ms before.
    #[test]
    fn stops_of_all_that_is_under_way_are_found() {
        for concurrency in [2, 4, 16] {
            for seed in 0..20 {
                let mut random = fastrand::Rng::with_seed(seed);
                let slow = samples((0..10).flat_map(|stop| {
                    let at_ms = 500.0 * f64::from(stop) + 100.0 * random.f64();
                    let before = |_| at_ms - 20.0 * random.f64() + 20.0;
                    (0..concurrency).map(before).map(|from_ms| (from_ms, 220.0)).collect::<Vec<_>>()
                }));
                let seen = found(&slow, 5_000.0);
                let seen = seen.unwrap_or_else(|| panic!("{concurrency} at once, seed {seed}"));
                assert_eq!(
                    (seen.moments, seen.iterations, seen.of),
                    (10, slow.len() as u64, slow.len() as u64)
                );
            }
        }
    }

    #[test]
    fn iterations_that_are_slow_for_their_own_reasons_have_no_moments() {
        for (number, length_ms) in [(20, 5_000.0), (50, 5_000.0), (200, 20_000.0), (200, 2_000.0)] {
            for seed in 0..50 {
                let mut random = fastrand::Rng::with_seed(seed);
                let slow =
                    samples((0..number).map(|_| (length_ms * random.f64(), 20.0 / (1.01 - random.f64()))));
                assert_eq!(found(&slow, length_ms), None, "{number} in {length_ms} ms, seed {seed}");
            }
        }
    }

    /// Stops that hold up more iterations than are compared: in some of these, hardly any has a neighbour left.
    #[test]
    fn of_all_that_stops_hold_up_the_moments_are_seen_where_some_of_them_do_not_tell() {
        let mut told = [0, 0];
        for seed in 0..20 {
            let mut random = fastrand::Rng::with_seed(seed);
            let mut all: Vec<IterationPeriod> = samples((0..16).flat_map(|stop| {
                let at_ms = 1_200.0 * f64::from(stop) + 300.0 * random.f64();
                (0..3).map(|_| (at_ms + 100.0 * random.f64(), 370.0)).collect::<Vec<_>>()
            }));
            let seen =
                |of: &[IterationPeriod]| moments(of, &samples([(0.0, 130.0), (19_500.0, 130.0)]), 130.0);
            told[0] += u32::from(seen(&all).is_some());
            random.shuffle(&mut all);
            told[1] += u32::from(seen(&all[..20]).is_some());
        }
        assert!(told[0] == 20 && told[1] < 10, "{told:?}");
    }
}
