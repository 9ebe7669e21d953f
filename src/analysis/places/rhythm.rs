//! Whether slow iterations come at regular intervals: of time, or of their numbers.

use super::{Population, numbers};
use measure::sample::IterationSample;
use results::model::{Rhythm, Series};
use statistics::order::at_percentile;

/// Fewer slow iterations have no rhythm.
const SLOW_MIN: usize = 10;
/// The probability of a wrong finding, over all intervals, in one set of slow iterations; three sets are looked at.
const CHANCE_MAX: f64 = 0.0025;
/// At least this share of slow iterations must be within the rhythm.
const SHARE_MIN: f64 = 0.6;
/// Intervals of numbers up to this are tried.
const EVERY_MAX: u64 = 200;
/// An interval must occur this often in a run.
const BEATS_MIN: f64 = 5.0;
/// Slow iterations that start within this part of the run are one event.
const EVENT_PART: f64 = 200.0;
/// An interval is at least this many times as long as the gap that separates events.
const GAPS_MIN: f64 = 4.0;
/// Events with at least this many slow iterations are also tested alone: a single one may be slow for any reason.
const LARGE: usize = 3;
/// More events have no interval that is worth a name.
const EVENTS_MAX: usize = 300;
/// Events within such a part of the interval are on time.
const WINDOWS: [f64; 3] = [0.05, 0.1, 0.2];
/// Phases that are nearer than this are the same.
const ROUNDING: f64 = 1e-9;
/// What is held up for this part of the interval is held up by something else: a pause is shorter than its interval.
const LASTS_MAX: f64 = 0.6;
/// Fewer typical iterations have no rhythm.
const TYPICAL_MIN: usize = 20;
/// If the load itself has a phase clearer than this, its own rhythm may be all there is.
const LOAD_PHASE_MAX: f64 = 0.25;

/// Every nth iteration: a row of the data, one of several hosts in turn. The share is that of `all`.
pub(super) fn by_number(
    slow: &[&IterationSample],
    all: &[&IterationSample],
    population: &Population<'_>,
) -> Option<Rhythm> {
    let numbers = numbers(slow, population);
    let count = numbers.len();
    // Nothing stands out if most iterations are in question.
    if count < SLOW_MIN || (count as u64) * 2 > population.total {
        return None;
    }
    let most = EVERY_MAX.min(population.total / (2 * BEATS_MIN as u64));
    let mut best: Option<(f64, u64, usize, u64)> = None;
    for every in 2..=most {
        let mut seen = vec![0_usize; usize::try_from(every).unwrap_or(0)];
        for number in &numbers {
            seen[usize::try_from(number % every).unwrap_or(0)] += 1;
        }
        let (largest, turn) = seen.into_iter().zip(0..).max_by_key(|(seen, _)| *seen).unwrap_or_default();
        let chance = at_least(largest, count, 1.0 / every as f64) * every as f64;
        if best.is_none_or(|(known, ..)| chance < known) {
            best = Some((chance, every, largest, turn));
        }
    }
    let (chance, every, largest, turn) = best?;
    let (chance, share) = ((chance * most as f64).min(1.0), largest as f64 / count as f64);
    // Whatever each iteration does, three in four of every second one are no rhythm of slow ones.
    let by_chance = 1.0 / every as f64;
    let all = self::numbers(all, population);
    let in_turn = all.iter().filter(|number| **number % every == turn).count();
    (chance <= CHANCE_MAX && share >= SHARE_MIN.max(1.5 * by_chance)).then(|| Rhythm {
        every_s: None,
        every_iterations: Some(every),
        share: in_turn as f64 / all.len().max(1) as f64,
        share_by_chance: by_chance,
        chance,
    })
}

/// The probability of at least `k` of `n` where each has probability `p`: Chernoff's bound.
fn at_least(k: usize, n: usize, p: f64) -> f64 {
    let share = k as f64 / n.max(1) as f64;
    if share <= p {
        return 1.0;
    }
    let part = |of: f64, from: f64| if of > 0.0 { of * (of / from).ln() } else { 0.0 };
    (-(n as f64) * (part(share, p) + part(1.0 - share, 1.0 - p))).exp()
}

/// Slow iterations that start together.
#[derive(Clone, Copy, Debug)]
struct Event {
    at_s: f64,
    size: usize,
}

/// An interval, and how many events are on time.
#[derive(Clone, Copy, Debug)]
struct Beat {
    chance: f64,
    frequency: f64,
    /// Where in the interval the window begins, and its width, as parts of the interval.
    window: (f64, f64),
}

impl Beat {
    /// Intervals from the beginning of the first window; the event that begins a window is within it, however it is
    /// rounded.
    fn turns(&self, event: &Event) -> f64 {
        event.at_s * self.frequency - self.window.0 + ROUNDING
    }

    fn is_on_time(&self, event: &Event) -> bool {
        self.turns(event).rem_euclid(1.0) <= self.window.1 + 2.0 * ROUNDING
    }
}

/// A period in seconds: a job, garbage collection, a timer. The share is that of `all`.
pub(super) fn by_time(
    slow: &[&IterationSample],
    all: &[&IterationSample],
    population: &Population<'_>,
) -> Option<Rhythm> {
    let series = population.series?;
    let length_s = series.step_s * series.completed.len() as f64;
    if slow.len() < SLOW_MIN || length_s <= 0.0 || population.total == 0 {
        return None;
    }
    let gap_s = (length_s / EVENT_PART).max(2.0 * length_s / population.total as f64);
    let every = events(slow, gap_s);
    let large: Vec<Event> = every.iter().copied().filter(|event| event.size >= LARGE).collect();
    let highest = 1.0 / (GAPS_MIN * gap_s);
    let share_of = |beat: &Beat, events: &[Event], of: usize| {
        let on_time = events.iter().filter(|event| beat.is_on_time(event));
        on_time.map(|event| event.size).sum::<usize>() as f64 / of as f64
    };
    // Multiples of a frequency have as many events on time, but most of their beats have none.
    let is_often = |beat: &Beat| {
        let on_time = every.iter().filter(|event| beat.is_on_time(event));
        let turn = |event: &Event| beat.turns(event).floor() as i64;
        let mut turns: Vec<i64> = on_time.map(turn).collect();
        turns.dedup();
        turns.len() as f64 >= BEATS_MIN.max(SHARE_MIN * (length_s * beat.frequency).floor())
    };
    let is_clear = |beat: &Beat| {
        share_of(beat, &every, slow.len()) >= SHARE_MIN
            && is_often(beat)
            && load_phase(series, beat.frequency) <= LOAD_PHASE_MAX
            && !is_of_load(beat, slow, population, share_of(beat, &every, slow.len()))
    };
    let found = [&every, &large].map(|events| best(events, length_s, highest, is_clear));
    let beat = found.into_iter().flatten().min_by(|one, other| one.chance.total_cmp(&other.chance))?;
    Some(Rhythm {
        every_s: Some(1.0 / beat.frequency),
        every_iterations: None,
        share: share_of(&beat, &events(all, gap_s), all.len()),
        share_by_chance: beat.window.1,
        chance: beat.chance,
    })
}

/// Whether the load may have this rhythm itself. In a closed loop, a user begins an iteration when its last one has
/// ended. So slow ones that wait for each other come as often as one of them lasts, and users that began together stay
/// together. Then typical iterations begin in the same part of the interval too.
fn is_of_load(beat: &Beat, slow: &[&IterationSample], population: &Population<'_>, share: f64) -> bool {
    let Population { typical, is_closed, .. } = population;
    let interval_s = 1.0 / beat.frequency;
    let mut lengths_s: Vec<f64> = slow.iter().map(|one| one.duration_ns as f64 / 1e9).collect();
    lengths_s.sort_by(f64::total_cmp);
    // Arrivals at a rate come whether or not others have ended.
    if *is_closed
        && at_percentile(&lengths_s, 50.0).is_some_and(|length_s| length_s >= LASTS_MAX * interval_s)
    {
        return true;
    }
    let is_on_time =
        |one: &&&IterationSample| beat.is_on_time(&Event { at_s: one.start_ns as f64 / 1e9, size: 1 });
    let on_time = typical.iter().filter(is_on_time).count() as f64 / typical.len().max(1) as f64;
    typical.len() >= TYPICAL_MIN && on_time >= share / 2.0 && on_time >= 2.0 * beat.window.1
}

/// The clear interval at which most events are on time, if that is no chance.
fn best(events: &[Event], length_s: f64, highest: f64, is_clear: impl Fn(&Beat) -> bool) -> Option<Beat> {
    let count = events.len();
    if (count as f64) < BEATS_MIN || count > EVENTS_MAX {
        return None;
    }
    // Most of the beats must have an event.
    let (from, to) = (BEATS_MIN / length_s, highest.min(count as f64 / SHARE_MIN / length_s));
    let step = WINDOWS[0] / 2.0 / length_s;
    let steps = ((to - from) / step).floor().max(0.0) as u64;
    let mut best: Option<Beat> = None;
    for frequency in (0..=steps).map(|number| from + step * number as f64) {
        let mut phases: Vec<f64> =
            events.iter().map(|event| (event.at_s * frequency).rem_euclid(1.0)).collect();
        phases.sort_by(f64::total_cmp);
        for width in WINDOWS {
            let (inside, from_phase) = fullest(&phases, width);
            // Any event may begin the window; frequencies nearer than the window allows are not tests of their own.
            let tests = count as f64 * ((to - from) * length_s * 2.0 / width).max(1.0);
            let chance = at_least(inside - 1, count - 1, width) * tests * (2 * WINDOWS.len()) as f64;
            let beat = Beat { chance, frequency, window: (from_phase, width) };
            if chance <= CHANCE_MAX && best.is_none_or(|known| chance < known.chance) && is_clear(&beat) {
                best = Some(beat);
            }
        }
    }
    best
}

/// The window of this width with the most phases, as a circle: how many, and where it begins.
fn fullest(phases: &[f64], width: f64) -> (usize, f64) {
    let (mut most, mut end) = ((0, 0.0), 0);
    let at = |index: usize| phases[index % phases.len()] + (index / phases.len()) as f64;
    for begin in 0..phases.len() {
        end = end.max(begin);
        while end < begin + phases.len() && at(end) <= phases[begin] + width {
            end += 1;
        }
        if end - begin > most.0 {
            most = (end - begin, phases[begin]);
        }
    }
    most
}

fn events(slow: &[&IterationSample], gap_s: f64) -> Vec<Event> {
    let mut starts_s: Vec<f64> = slow.iter().map(|one| one.start_ns as f64 / 1e9).collect();
    starts_s.sort_by(f64::total_cmp);
    let mut events: Vec<Event> = Vec::new();
    let mut last_s = f64::NEG_INFINITY;
    for at_s in starts_s {
        match events.last_mut().filter(|_| at_s - last_s < gap_s) {
            Some(event) => event.size += 1,
            None => events.push(Event { at_s, size: 1 }),
        }
        last_s = at_s;
    }
    events
}

/// How clear a phase all iterations have at a frequency, 0 to 1 (the length of Rayleigh's mean vector).
fn load_phase(series: &Series, frequency: f64) -> f64 {
    let (mut x, mut y, mut sum) = (0.0, 0.0, 0.0);
    for (place, count) in series.completed.iter().enumerate() {
        let at_s = series.start_s + series.step_s * (place as f64 + 0.5);
        let (sin, cos) = (at_s * frequency * std::f64::consts::TAU).sin_cos();
        let weight = *count as f64;
        (x, y, sum) = (x + weight * cos, y + weight * sin, sum + weight);
    }
    if sum > 0.0 { x.hypot(y) / sum } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LENGTH_S: f64 = 60.0;
    const TOTAL: u64 = 6_000;

    fn series(of: impl Fn(f64) -> u64) -> Series {
        let completed = (0..120).map(|place| of((f64::from(place) + 0.5) * 0.5)).collect();
        Series { start_s: 0.0, step_s: 0.5, completed, ..Series::default() }
    }

    fn at(seconds: impl IntoIterator<Item = f64>) -> Vec<IterationSample> {
        let of = |s: f64| IterationSample {
            start_ns: (s * 1e9) as u64,
            number: (s / LENGTH_S * TOTAL as f64) as u64,
            ..IterationSample::default()
        };
        seconds.into_iter().filter(|s| (0.0..LENGTH_S).contains(s)).map(of).collect()
    }

    fn found(slow: &[IterationSample], series: &Series) -> Option<f64> {
        let population = Population { total: TOTAL, series: Some(series), ..Population::default() };
        let slow: Vec<&IterationSample> = slow.iter().collect();
        by_time(&slow, &slow, &population)?.every_s
    }

    /// Stalls at these times hold up this many iterations each; others are slow at random.
    fn stalls(
        random: &mut fastrand::Rng,
        times: &[f64],
        held_up: usize,
        others: usize,
    ) -> Vec<IterationSample> {
        let mut all: Vec<f64> = Vec::new();
        for time in times {
            all.extend((0..held_up).map(|_| time - 0.1 * random.f64()));
        }
        all.extend((0..others).map(|_| LENGTH_S * random.f64()));
        at(all)
    }

    #[test]
    fn a_planted_interval_is_found() {
        let even = series(|_| 50);
        for (every_s, held_up, others) in [(10.0, 8, 0), (5.0, 8, 4), (3.0, 5, 8), (2.0, 3, 8), (7.3, 10, 2)]
        {
            let mut missed = 0;
            for seed in 0..20 {
                let mut random = fastrand::Rng::with_seed(seed);
                let begin_s = every_s * random.f64();
                let times: Vec<f64> = (0..40)
                    .map(|beat| begin_s + every_s * f64::from(beat))
                    .filter(|s| *s < LENGTH_S)
                    .collect();
                let slow = stalls(&mut random, &times, held_up, others);
                let is_it = |seen: f64| (seen / every_s - 1.0).abs() < 0.05;
                missed += u32::from(!found(&slow, &even).is_some_and(is_it));
            }
            // Of five events in a minute one is easily lost.
            let most = if every_s > 6.0 { 8 } else { 2 };
            assert!(missed <= most, "every {every_s} s: {missed} missed");
        }
    }

    #[test]
    fn of_runs_without_a_rhythm_hardly_any_has_a_finding() {
        const RUNS: u64 = 200;
        let even = series(|_| 50);
        for (held_up, number) in [(1, 60), (1, 15), (8, 8), (8, 20), (3, 40)] {
            let wrong = (0..RUNS).filter(|seed| {
                let mut random = fastrand::Rng::with_seed(*seed);
                let times: Vec<f64> = (0..number).map(|_| LENGTH_S * random.f64()).collect();
                let slow = stalls(&mut random, &times, held_up, 5);
                let population = Population { total: TOTAL, series: Some(&even), ..Population::default() };
                let slow: Vec<&IterationSample> = slow.iter().collect();
                by_time(&slow, &slow, &population).is_some() || by_number(&slow, &slow, &population).is_some()
            });
            assert!(wrong.count() as u64 <= RUNS / 100, "{number} stalls of {held_up}");
        }
    }

    #[test]
    fn the_rhythm_of_the_load_is_not_that_of_the_service() {
        // Bursts every five seconds; slow ones are in them because everything is.
        let bursts = series(|s| if s % 5.0 < 1.0 { 200 } else { 2 });
        let mut random = fastrand::Rng::with_seed(1);
        let slow = at((0..80).map(|_| 5.0 * f64::from(random.u32(0..12)) + random.f64()));
        assert!(found(&slow, &series(|_| 50)).is_some());
        assert_eq!(found(&slow, &bursts), None);
    }

    /// Users in a closed loop: each begins an iteration when its last one has ended, after a pause. In the service,
    /// they wait in a queue for one of its workers.
    fn closed_loop(
        seed: u64,
        users: usize,
        think_s: f64,
        workers: usize,
        spread: f64,
    ) -> Vec<IterationSample> {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut next: Vec<f64> = vec![0.0; users];
        let mut free: Vec<f64> = vec![0.0; workers];
        let mut all = Vec::new();
        for number in 0.. {
            let (user, at_s) =
                (0..users).map(|user| (user, next[user])).min_by(|a, b| a.1.total_cmp(&b.1)).unwrap();
            if at_s > LENGTH_S {
                break;
            }
            let worker = (0..workers).min_by(|&a, &b| free[a].total_cmp(&free[b])).unwrap();
            // Some requests take much longer, for no reason of time.
            let heavy = if random.u8(0..40) == 0 { 12.0 } else { 1.0 };
            let service_s = 0.02 * heavy * (1.0 - spread / 2.0 + spread * random.f64());
            let end_s = free[worker].max(at_s) + service_s;
            free[worker] = end_s;
            next[user] = end_s + think_s;
            all.push(IterationSample {
                number,
                due_ns: (at_s * 1e9) as u64,
                start_ns: (at_s * 1e9) as u64,
                duration_ns: ((end_s - at_s) * 1e9) as u64,
                ..IterationSample::default()
            });
        }
        all
    }

    /// The interval of the slowest 5 % of all iterations, if one is found.
    fn of_all(all: &[IterationSample]) -> Option<f64> {
        let mut order: Vec<&IterationSample> = all.iter().collect();
        order.sort_by_key(|one| std::cmp::Reverse(one.response_ns()));
        let (slow, rest) = order.split_at((all.len() / 20).min(200));
        let typical: Vec<&IterationSample> =
            rest[rest.len() / 3..].iter().step_by((rest.len() / 150).max(1)).copied().collect();
        let counted = |from_s: f64| {
            let ends = all.iter().map(|one| (one.start_ns + one.duration_ns) as f64 / 1e9);
            ends.filter(|end| (from_s..from_s + 0.5).contains(end)).count() as u64
        };
        let series = series(|middle_s| counted(middle_s - 0.25));
        let population = Population {
            total: all.len() as u64,
            series: Some(&series),
            typical: &typical,
            is_closed: true,
            ..Population::default()
        };
        by_time(slow, slow, &population)?.every_s
    }

    #[test]
    fn a_closed_loop_has_no_garbage_collection() {
        let mut wrong = Vec::new();
        for seed in 0..10 {
            for (users, think_s, workers, spread) in [
                (1, 0.0, 1, 0.2),
                (8, 0.0, 1, 0.02),
                (8, 1.0, 1, 0.02),
                (8, 1.0, 8, 0.02),
                (20, 2.0, 4, 0.1),
                (50, 5.0, 10, 0.5),
                (10, 0.5, 2, 0.0),
            ] {
                let all = closed_loop(seed, users, think_s, workers, spread);
                let found = of_all(&all);
                wrong.extend(found.map(|every_s| (seed, users, think_s, workers, every_s)));
            }
        }
        assert!(wrong.len() <= 1, "{wrong:?}");
    }

    /// A service that stands still every three seconds is found in the same loops.
    #[test]
    fn a_pause_of_the_service_is_found_in_a_closed_loop() {
        let mut missed = 0;
        for seed in 0..10 {
            let mut random = fastrand::Rng::with_seed(seed);
            let mut all = Vec::new();
            for user in 0..8_u64 {
                let mut at_s = 0.05 * user as f64;
                for turn in 0.. {
                    if at_s > LENGTH_S {
                        break;
                    }
                    let mut end_s = at_s + 0.05 + 0.05 * random.f64();
                    let pause_s = (end_s / 3.0).floor() * 3.0;
                    if pause_s > 0.0 && end_s < pause_s + 0.4 {
                        end_s = pause_s + 0.4;
                    }
                    all.push(IterationSample {
                        number: 8 * turn + user,
                        due_ns: (at_s * 1e9) as u64,
                        start_ns: (at_s * 1e9) as u64,
                        duration_ns: ((end_s - at_s) * 1e9) as u64,
                        ..IterationSample::default()
                    });
                    at_s = end_s + 0.02 * random.f64();
                }
            }
            all.sort_by_key(|one| one.start_ns);
            missed += u32::from(!of_all(&all).is_some_and(|every_s| (every_s / 3.0 - 1.0).abs() < 0.05));
        }
        assert!(missed <= 2, "{missed}");
    }

    #[test]
    fn every_tenth_iteration_is_found_and_nothing_in_random_numbers() {
        let run = |numbers: &[u64]| {
            let of = |&number: &u64| IterationSample { number, ..IterationSample::default() };
            let slow: Vec<IterationSample> = numbers.iter().map(of).collect();
            let population = Population { total: 420, ..Population::default() };
            let slow: Vec<&IterationSample> = slow.iter().collect();
            by_number(&slow, &slow, &population).and_then(|found| found.every_iterations)
        };
        let tenth: Vec<u64> = (0..42).map(|turn| 3 + 10 * turn).chain([77, 142, 308]).collect();
        assert_eq!(run(&tenth), Some(10));
        assert_eq!(run(&tenth[..8]), None);
        let mut random = fastrand::Rng::with_seed(7);
        let wrong = (0..300).filter(|_| {
            let numbers: std::collections::BTreeSet<u64> = (0..30).map(|_| random.u64(0..420)).collect();
            run(&numbers.into_iter().collect::<Vec<_>>()).is_some()
        });
        assert!(wrong.count() <= 3);
    }
}
