//! What response times the same arrivals would have had if something were different, as an interval.
//!
//! What an iteration does is known where it has a trace. Those that take long by themselves all have one, because the slowest
//! iterations are traced; they stay where they were. Every other iteration gets the program of one that was chosen by its number
//! or by chance. All are run again at their due times ([`crate::replay`]), as they were and changed. This is done many times,
//! each time with another choice: that gives the interval. It holds what a new run of the same length would vary by, too. If
//! the programs as they were do not give the response times that were measured, there is no prediction.
//!
//! Some of what iterations wait for is not in their traces, such as a processor that all share. Then what an iteration does
//! takes longer the more others are under way, and faster iterations would help the others, too: the prediction is an upper
//! bound. So it is where users wait for their own iterations to end, because they hide what waits.

use std::collections::HashMap;

use base::parallel;
use statistics::order::at_percentile;

use crate::ceiling::ServerCeiling;
use crate::program::Program;
use crate::replay::{Arrival, replay};

/// With fewer traced iterations nothing is predicted.
pub const TRACED_MIN: usize = 40;
/// So many times the load is run again.
const REPLICATES: u64 = 50;
/// The program gives a percentile of today if it is this near to it, as a share.
const FITS: f64 = 0.12;
/// What an iteration does may take longer by this share because of others under way.
const GROWS_MAX: f64 = 0.12;
/// So many standard errors show that it does.
const ERRORS_MIN: f64 = 3.0;
/// The ends of the interval, as shares of the replicates.
const INTERVAL: (f64, f64) = (0.05, 0.95);
/// New samples of few values vary by less than the values do, so the interval is made longer by this. It is what the
/// simulated services need for nine in ten.
const STRETCHED: f64 = 1.5;

/// An iteration of the load.
#[derive(Clone, Copy, Debug)]
pub struct LoadedIteration {
    /// When it was due, in microseconds.
    pub due_us: i64,
    /// From then to its end.
    pub response_us: i64,
    /// Whether it counts: not in the warm-up.
    pub counts: bool,
    /// Its place among the traced ones.
    pub traced: Option<usize>,
}

/// A traced iteration.
#[derive(Clone, Debug)]
pub struct TracedIteration {
    pub due_us: i64,
    /// From then to its end.
    pub response_us: i64,
    /// Whether it was chosen by number or by chance, not for its response time.
    pub is_random: bool,
    pub program: Program,
}

/// What was measured.
#[derive(Clone, Debug, Default)]
pub struct MeasuredLoad {
    /// In the order of their due times, without a gap.
    pub iterations: Vec<LoadedIteration>,
    pub traced: Vec<TracedIteration>,
    pub pools: Vec<ServerCeiling>,
    /// Whether iterations are due however slow others are.
    pub is_open: bool,
    /// Iterations with longer response times are slow: all of them have traces, or a random sample of them has.
    pub slow_from_us: i64,
}

/// What would be different.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// The work of these kinds takes so many times as long.
    Work { kinds: Vec<usize>, times: f64 },
    /// The work of these kinds takes at most so long in an iteration, in microseconds.
    WorkAtMost { kinds: Vec<usize>, us: i64 },
    /// An iteration has at most so many calls of these kinds.
    Calls { kinds: Vec<usize>, most: usize },
    /// A pool has so many servers.
    Servers { pool: usize, count: u32 },
}

/// A percentile of the response times, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PredictedPercentile {
    pub percentile: f64,
    /// As measured.
    pub today_ms: f64,
    /// What the replay gives for today.
    pub replayed_ms: f64,
    /// What it would be.
    pub then_ms: f64,
    /// With 90 % confidence it would be at least this,
    pub low_ms: f64,
    /// and at most this.
    pub high_ms: f64,
}

/// What would be.
#[derive(Clone, Debug, PartialEq)]
pub struct Prediction {
    pub percentiles: Vec<PredictedPercentile>,
    /// Why the true values may be lower: iterations wait for something that the replay does not know.
    pub at_most: Option<UpperBoundReason>,
    /// How many iterations were run again.
    pub iterations: usize,
    /// How many of them have traces.
    pub traced: usize,
}

/// Why a prediction is an upper bound.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum UpperBoundReason {
    /// Users wait for their own iterations, so nothing tells what waits.
    ClosedLoad,
    /// What an iteration does takes longer, by this share, because others are under way.
    Shares { by: f64 },
}

/// Why nothing is predicted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum NoPrediction {
    /// So few iterations have whole traces.
    TooFewTraces { traced: usize },
    /// The change touches nothing.
    NothingChanges,
    /// The replay gives other response times than the measured ones, in milliseconds.
    DoesNotFit { percentile: f64, measured_ms: f64, replayed_ms: f64 },
    /// More work was asked for where the result is an upper bound.
    OnlyLess,
}

/// The percentiles that are predicted.
pub const PERCENTILES: [f64; 3] = [50.0, 95.0, 99.0];

/// Predicts the response times after a change. The same `seed` gives the same prediction.
///
/// # Errors
/// Why there is no prediction.
pub fn predict(load: &MeasuredLoad, change: &Change, seed: u64) -> Result<Prediction, NoPrediction> {
    let traced = load.traced.len();
    if traced < TRACED_MIN || !load.iterations.iter().any(|one| one.counts) {
        return Err(NoPrediction::TooFewTraces { traced });
    }
    let changed: Vec<Program> = load.traced.iter().map(|one| changed(&one.program, change)).collect();
    let before: Vec<u32> = load.pools.iter().map(|pool| pool.servers).collect();
    let mut after = before.clone();
    if let Change::Servers { pool, count } = change {
        after[*pool] = (*count).max(1);
    }
    let is_same = changed.iter().zip(&load.traced).all(|(new, old)| *new == old.program);
    if is_same && before == after {
        return Err(NoPrediction::NothingChanges);
    }
    let at_most = upper_bound(load);
    let is_more = || {
        let total =
            |programs: &mut dyn Iterator<Item = &Program>| programs.map(Program::alone_us).sum::<i64>();
        total(&mut changed.iter()) > total(&mut load.traced.iter().map(|one| &one.program))
            || after.iter().zip(&before).any(|(new, old)| new < old)
    };
    if at_most.is_some() && is_more() {
        return Err(NoPrediction::OnlyLess);
    }
    let choice = ProgramChoice::of(load);
    if choice.light.len() < TRACED_MIN {
        return Err(NoPrediction::TooFewTraces { traced: choice.light.len() });
    }
    let old: Vec<&Program> = load.traced.iter().map(|one| &one.program).collect();
    let new: Vec<&Program> = changed.iter().collect();
    let replicas = parallel::map((0..REPLICATES).collect(), |number| {
        let mut drawn = fastrand::Rng::with_seed(seed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let chosen = choice.draw(&mut drawn);
        let percentiles = |programs: &[&Program], servers: &[u32]| {
            if servers.is_empty() {
                // Nothing waits.
                let alone_us: Vec<i64> = programs.iter().map(|program| program.alone_us()).collect();
                return counted(load, chosen.iter().map(|&at| alone_us[at]).collect());
            }
            let due = load.iterations.iter().zip(&chosen);
            let arrivals: Vec<Arrival<'_>> =
                due.map(|(one, &at)| Arrival { due_us: one.due_us, program: programs[at] }).collect();
            counted(load, replay(&arrivals, servers))
        };
        (percentiles(&old, &before), percentiles(&new, &after))
    });
    let measured = counted(load, load.iterations.iter().map(|one| one.response_us).collect());
    let percentiles: Vec<PredictedPercentile> = PERCENTILES
        .iter()
        .enumerate()
        .map(|(place, &percentile)| {
            let (old, new): (Vec<f64>, Vec<f64>) =
                replicas.iter().map(|(old, new)| (old[place], new[place])).unzip();
            predicted(percentile, measured[place], old, new)
        })
        .collect();
    for (one, place) in percentiles.iter().zip(0..) {
        let old: Vec<f64> = replicas.iter().map(|(old, _)| old[place]).collect();
        if !fits(one.today_ms, old) {
            let PredictedPercentile { percentile, today_ms: measured_ms, replayed_ms, .. } = *one;
            return Err(NoPrediction::DoesNotFit { percentile, measured_ms, replayed_ms });
        }
    }
    Ok(Prediction { percentiles, at_most, iterations: load.iterations.len(), traced })
}

/// A program with the change.
pub(crate) fn changed(program: &Program, change: &Change) -> Program {
    let scaled = |kinds: &[usize], times: f64| {
        program.with_work(&kinds.iter().map(|kind| (*kind, times)).collect::<HashMap<_, _>>())
    };
    match change {
        Change::Work { kinds, times } => scaled(kinds, *times),
        Change::WorkAtMost { kinds, us } => match program.work_us(kinds) {
            now_us if now_us > *us => scaled(kinds, *us as f64 / now_us as f64),
            _ => program.clone(),
        },
        Change::Calls { kinds, most } => program.with_calls(kinds, *most),
        Change::Servers { .. } => program.clone(),
    }
}

/// Which programs iterations may have.
struct ProgramChoice {
    iterations: usize,
    /// The traced ones that do not take long by themselves, chosen by number or by chance.
    light: Vec<usize>,
    /// Those that take long by themselves.
    heavy: Vec<usize>,
    /// The iterations that they are of, by place.
    heavy_at: Vec<usize>,
    /// Slow iterations without a trace, and which share of them takes long by itself.
    unknown_at: Vec<usize>,
    heavy_share: f64,
}

impl ProgramChoice {
    fn of(load: &MeasuredLoad) -> Self {
        let is_heavy: Vec<bool> =
            load.traced.iter().map(|one| one.program.alone_us() > load.slow_from_us).collect();
        let light = (0..is_heavy.len()).filter(|&at| !is_heavy[at] && load.traced[at].is_random);
        let places = || load.iterations.iter().enumerate();
        let is_slow = |one: &LoadedIteration| one.response_us > load.slow_from_us;
        let slow_traced = places().filter(|(_, one)| is_slow(one) && one.traced.is_some()).count();
        let heavy_at: Vec<usize> = places()
            .filter(|(_, one)| one.traced.is_some_and(|at| is_heavy[at]))
            .map(|(place, _)| place)
            .collect();
        Self {
            iterations: load.iterations.len(),
            light: light.collect(),
            heavy: (0..is_heavy.len()).filter(|&at| is_heavy[at]).collect(),
            unknown_at: places()
                .filter(|(_, one)| is_slow(one) && one.traced.is_none())
                .map(|(place, _)| place)
                .collect(),
            heavy_share: heavy_at.len() as f64 / slow_traced.max(1) as f64,
            heavy_at,
        }
    }

    /// A program for each iteration.
    fn draw(&self, drawn: &mut fastrand::Rng) -> Vec<usize> {
        // Another sample of those that were traced.
        let light: Vec<usize> =
            self.light.iter().map(|_| self.light[drawn.usize(0..self.light.len())]).collect();
        let mut chosen: Vec<usize> =
            (0..self.iterations).map(|_| light[drawn.usize(0..light.len())]).collect();
        if self.heavy.is_empty() {
            return chosen;
        }
        let unknown = self.unknown_at.iter().filter(|_| drawn.f64() < self.heavy_share).copied();
        let places: Vec<usize> = unknown.chain(self.heavy_at.iter().copied()).collect();
        for place in places {
            // As many as another run might have, about where this one had them.
            for copy in 0..poisson(drawn) {
                let at = if copy == 0 { place } else { self.near(place, drawn) };
                chosen[at] = self.heavy[drawn.usize(0..self.heavy.len())];
            }
        }
        chosen
    }
}

impl ProgramChoice {
    /// A place not far from another one.
    fn near(&self, place: usize, drawn: &mut fastrand::Rng) -> usize {
        let far = self.iterations / 40;
        drawn.usize(place.saturating_sub(far)..=(place + far).min(self.iterations - 1))
    }
}

/// A number of Poisson's distribution with the mean 1.
fn poisson(drawn: &mut fastrand::Rng) -> usize {
    let (mut number, mut product) = (0, drawn.f64());
    while product > (-1.0_f64).exp() {
        number += 1;
        product *= drawn.f64();
    }
    number
}

/// The percentiles of those that count, in milliseconds.
fn counted(load: &MeasuredLoad, responses_us: Vec<i64>) -> Vec<f64> {
    let mut counted: Vec<i64> = load
        .iterations
        .iter()
        .zip(responses_us)
        .filter(|(one, _)| one.counts)
        .map(|(_, response_us)| response_us)
        .collect();
    counted.sort_unstable();
    let at = |percentile: f64| at_percentile(&counted, percentile).unwrap_or(0) as f64 / 1e3;
    PERCENTILES.iter().map(|&percentile| at(percentile)).collect()
}

fn predicted(percentile: f64, today_ms: f64, mut old: Vec<f64>, mut new: Vec<f64>) -> PredictedPercentile {
    old.sort_by(f64::total_cmp);
    new.sort_by(f64::total_cmp);
    let at = |values: &[f64], share: f64| values[((values.len() - 1) as f64 * share).round() as usize];
    let (replayed_ms, then_ms) = (at(&old, 0.5), at(&new, 0.5));
    // What the replay is wrong by today, it may be wrong by then.
    let wrong_by = if replayed_ms > 0.0 { today_ms / replayed_ms } else { 1.0 };
    let stretched = |ms: f64| if then_ms > 0.0 { then_ms * (ms / then_ms).powf(STRETCHED) } else { ms };
    let (low, high) = (stretched(at(&new, INTERVAL.0)), stretched(at(&new, INTERVAL.1)));
    let then_ms = then_ms * wrong_by.sqrt();
    PredictedPercentile {
        percentile,
        today_ms,
        replayed_ms,
        then_ms,
        low_ms: low * wrong_by.min(1.0),
        high_ms: high * wrong_by.max(1.0),
    }
}

/// Whether the replay gives today's percentile.
fn fits(today_ms: f64, mut replayed: Vec<f64>) -> bool {
    replayed.sort_by(f64::total_cmp);
    let middle_ms = replayed[replayed.len() / 2];
    let is_within = (replayed[0]..=replayed[replayed.len() - 1]).contains(&today_ms);
    is_within || (middle_ms - today_ms).abs() <= FITS * today_ms
}

/// Why the truth may be lower than what is predicted.
fn upper_bound(load: &MeasuredLoad) -> Option<UpperBoundReason> {
    if !load.is_open {
        return Some(UpperBoundReason::ClosedLoad);
    }
    let by = grows(load)?;
    Some(UpperBoundReason::Shares { by })
}

/// By what share what an iteration does takes longer because of the others that are under way meanwhile; `None` if it does
/// not, or by little.
fn grows(load: &MeasuredLoad) -> Option<f64> {
    let under_way = UnderWaySum::of(load);
    let random = load.traced.iter().filter(|one| one.is_random);
    let seen: Vec<(f64, f64)> = random
        .map(|one| {
            let others = under_way.mean(one.due_us, one.due_us + one.response_us.max(1)) - 1.0;
            (others.max(0.0), one.program.alone_us() as f64)
        })
        .collect();
    let n = seen.len() as f64;
    if seen.len() < TRACED_MIN / 2 {
        return None;
    }
    let (mean_x, mean_y) =
        (seen.iter().map(|(x, _)| x).sum::<f64>() / n, seen.iter().map(|(_, y)| y).sum::<f64>() / n);
    let xx = seen.iter().map(|(x, _)| (x - mean_x).powi(2)).sum::<f64>();
    let xy = seen.iter().map(|(x, y)| (x - mean_x) * (y - mean_y)).sum::<f64>();
    if xx <= 0.0 || mean_y <= 0.0 {
        return None;
    }
    let slope = xy / xx;
    let rest = seen.iter().map(|(x, y)| (y - mean_y - slope * (x - mean_x)).powi(2)).sum::<f64>();
    let error = (rest / (n - 2.0).max(1.0) / xx).sqrt();
    let by = slope * mean_x / mean_y;
    (slope > ERRORS_MIN * error && by > GROWS_MAX).then_some(by)
}

/// How many iterations are under way over time.
struct UnderWaySum {
    /// The due times in order, each with the sum of those up to it; the same of the ends.
    begins: Vec<(i64, f64)>,
    ends: Vec<(i64, f64)>,
}

impl UnderWaySum {
    fn of(load: &MeasuredLoad) -> Self {
        let summed = |mut times: Vec<i64>| {
            times.sort_unstable();
            let mut sum = 0.0;
            let add = |us: i64| {
                sum += us as f64;
                (us, sum)
            };
            times.into_iter().map(add).collect()
        };
        let iterations = &load.iterations;
        Self {
            begins: summed(iterations.iter().map(|one| one.due_us).collect()),
            ends: summed(iterations.iter().map(|one| one.due_us + one.response_us).collect()),
        }
    }

    /// The mean number of them between two times.
    fn mean(&self, from_us: i64, until_us: i64) -> f64 {
        let up_to = |times: &[(i64, f64)], us: i64| {
            let count = times.partition_point(|(one, _)| *one < us);
            count as f64 * us as f64 - count.checked_sub(1).map_or(0.0, |last| times[last].1)
        };
        let spent = |us: i64| up_to(&self.begins, us) - up_to(&self.ends, us);
        (spent(until_us) - spent(from_us)) / (until_us - from_us).max(1) as f64
    }
}
