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

use crate::arrivals;
use crate::choice::ProgramChoice;
use crate::measured::{LoadedIteration, MeasuredLoad};
use crate::program::Program;
use crate::replay::{LinkedProgram, ReplayArrival, replay};
use crate::sharing;

/// With fewer traced iterations nothing is predicted.
pub const TRACED_MIN: usize = 40;
/// With fewer slow ones nothing is taken from them.
const SLOW_MIN: usize = 16;
/// A slow iteration saves what one of so many does whose response times are nearest.
const NEAREST: usize = 8;
/// So many times the load is run again.
const REPLICATES: u64 = 50;
/// The program gives a percentile of today if it is this near to it, as a share.
const FITS: f64 = 0.12;
/// The ends of the interval, as shares of the replicates.
const INTERVAL: (f64, f64) = (0.05, 0.95);
/// New samples of few values vary by less than the values do, so the interval is made longer by this. It is what the
/// simulated services need for nine in ten.
const STRETCHED: f64 = 1.5;

/// What would be different.
#[derive(Clone, Debug, PartialEq)]
pub enum LoadChange {
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
    /// Only typical and slow iterations have traces: what would become of the others is not known, and they stay as they are.
    OnlySlow,
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
    /// What would be shorter takes longer, by this share, because others are under way: some of it is waiting.
    Waits { by: f64 },
}

/// The percentiles that are predicted.
pub const PERCENTILES: [f64; 3] = [50.0, 95.0, 99.0];

/// Predicts the response times after a change. The same `seed` gives the same prediction.
///
/// # Errors
/// Why there is no prediction.
pub fn predict(load: &MeasuredLoad, change: &LoadChange, seed: u64) -> Result<Prediction, NoPrediction> {
    if !load.iterations.iter().any(|one| one.counts) {
        return Err(NoPrediction::TooFewTraces { traced: 0 });
    }
    let before: Vec<u32> = load.pools.iter().map(|pool| pool.servers).collect();
    let mut after = before.clone();
    if let LoadChange::Servers { pool, count } = change {
        after[*pool] = (*count).max(1);
    }
    let programs: Vec<Program> = load.traced.iter().map(|one| changed(&one.program, change)).collect();
    let is_same = programs.iter().zip(&load.traced).all(|(new, old)| *new == old.program);
    if is_same && before == after {
        return Err(NoPrediction::NothingChanges);
    }
    if let LoadChange::Work { kinds, .. } | LoadChange::WorkAtMost { kinds, .. } = change
        && let Some(by) = sharing::waits(load, kinds)
    {
        return Err(NoPrediction::Waits { by });
    }
    let choice = ProgramChoice::of(load);
    let is_by_chance = choice.light.len() >= TRACED_MIN;
    let at_most = if is_by_chance { upper_bound(load) } else { Some(UpperBoundReason::OnlySlow) };
    let replicates = match is_by_chance {
        true => replayed(load, &choice, &programs, (&before, &after), seed),
        false if before == after => subtracted(load, &programs, seed)?,
        false => return Err(NoPrediction::TooFewTraces { traced: choice.light.len() }),
    };
    let total = |programs: &mut dyn Iterator<Item = &Program>| programs.map(Program::alone_us).sum::<i64>();
    let is_more = total(&mut programs.iter()) > total(&mut load.traced.iter().map(|one| &one.program))
        || after.iter().zip(&before).any(|(new, old)| new < old);
    if at_most.is_some() && is_more {
        return Err(NoPrediction::OnlyLess);
    }
    let measured = counted(load, load.iterations.iter().map(|one| one.response_us).collect());
    let mut percentiles = Vec::with_capacity(PERCENTILES.len());
    for (place, &percentile) in PERCENTILES.iter().enumerate() {
        let (old, new): (Vec<f64>, Vec<f64>) =
            replicates.iter().map(|(old, new)| (old[place], new[place])).unzip();
        let one = predicted(percentile, measured[place], old.clone(), new);
        if !fits(one.today_ms, old) {
            let (measured_ms, replayed_ms) = (one.today_ms, one.replayed_ms);
            return Err(NoPrediction::DoesNotFit { percentile, measured_ms, replayed_ms });
        }
        // Less work is never slower.
        let most_ms = if at_most.is_some() { one.today_ms } else { f64::INFINITY };
        percentiles.push(PredictedPercentile {
            then_ms: one.then_ms.min(most_ms),
            low_ms: one.low_ms.min(most_ms),
            high_ms: one.high_ms.min(most_ms),
            ..one
        });
    }
    let traced = load.traced.len();
    Ok(Prediction { percentiles, at_most, iterations: load.iterations.len(), traced })
}

/// The percentiles of each replicate, as it was and changed.
type Replicates = Vec<(Vec<f64>, Vec<f64>)>;

/// Runs the load again and again.
fn replayed(
    load: &MeasuredLoad,
    choice: &ProgramChoice,
    programs: &[Program],
    (before, after): (&[u32], &[u32]),
    seed: u64,
) -> Replicates {
    let old: Vec<LinkedProgram<'_>> =
        load.traced.iter().map(|one| LinkedProgram::new(&one.program)).collect();
    let new: Vec<LinkedProgram<'_>> = programs.iter().map(LinkedProgram::new).collect();
    parallel::map((0..REPLICATES).collect(), |number| {
        let mut drawn = drawn(seed, number);
        let chosen = choice.draw(&mut drawn);
        let due_us = arrivals::draw(&load.iterations, &mut drawn);
        let percentiles = |programs: &[LinkedProgram<'_>], servers: &[u32]| {
            if servers.is_empty() {
                // Nothing waits.
                let alone_us: Vec<i64> = programs.iter().map(LinkedProgram::alone_us).collect();
                return counted(load, chosen.iter().map(|&at| alone_us[at]).collect());
            }
            let due = due_us.iter().zip(&chosen);
            let arrivals: Vec<ReplayArrival<'_>> =
                due.map(|(&due_us, &at)| ReplayArrival { due_us, program: &programs[at] }).collect();
            counted(load, replay(&arrivals, servers))
        };
        (percentiles(&old, before), percentiles(&new, after))
    })
}

/// Takes from slow iterations what they would save, or what one of about the same response time would; the others stay as
/// they are. Each replicate is another sample of the iterations.
///
/// # Errors
/// Too few slow iterations have traces.
fn subtracted(load: &MeasuredLoad, programs: &[Program], seed: u64) -> Result<Replicates, NoPrediction> {
    let saved_us: Vec<i64> =
        load.traced.iter().zip(programs).map(|(one, new)| one.program.alone_us() - new.alone_us()).collect();
    let is_slow = |at: &usize| load.traced[*at].response_us > load.slow_from_us;
    let mut slow: Vec<usize> = (0..load.traced.len()).filter(is_slow).collect();
    slow.sort_unstable_by_key(|&at| load.traced[at].response_us);
    if slow.len() < SLOW_MIN {
        return Err(NoPrediction::TooFewTraces { traced: slow.len() });
    }
    let counted: Vec<&LoadedIteration> = load.iterations.iter().filter(|one| one.counts).collect();
    let replicate = |number| {
        let mut drawn = drawn(seed, number);
        let mut both: (Vec<i64>, Vec<i64>) = (Vec::new(), Vec::new());
        for _ in 0..counted.len() {
            let one = counted[drawn.usize(0..counted.len())];
            let saved_us = match one.traced {
                _ if one.response_us <= load.slow_from_us => 0,
                Some(at) => saved_us[at],
                None => {
                    let near = slow.partition_point(|&at| load.traced[at].response_us < one.response_us);
                    let from = near.saturating_sub(NEAREST / 2).min(slow.len() - NEAREST);
                    saved_us[slow[drawn.usize(from..from + NEAREST)]]
                }
            };
            both.0.push(one.response_us);
            both.1.push(one.response_us - saved_us);
        }
        (percentiles_ms(both.0), percentiles_ms(both.1))
    };
    Ok((0..REPLICATES).map(replicate).collect())
}

fn drawn(seed: u64, number: u64) -> fastrand::Rng {
    fastrand::Rng::with_seed(seed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

/// A program with the change.
pub(crate) fn changed(program: &Program, change: &LoadChange) -> Program {
    let scaled = |kinds: &[usize], times: f64| {
        program.with_work(&kinds.iter().map(|kind| (*kind, times)).collect::<HashMap<_, _>>())
    };
    match change {
        LoadChange::Work { kinds, times } => scaled(kinds, *times),
        LoadChange::WorkAtMost { kinds, us } => match program.work_us(kinds) {
            now_us if now_us > *us => scaled(kinds, *us as f64 / now_us as f64),
            _ => program.clone(),
        },
        LoadChange::Calls { kinds, most } => program.with_calls(kinds, *most),
        LoadChange::Servers { .. } => program.clone(),
    }
}

/// The percentiles of those that count, in milliseconds.
fn counted(load: &MeasuredLoad, responses_us: Vec<i64>) -> Vec<f64> {
    let both = load.iterations.iter().zip(responses_us);
    percentiles_ms(both.filter(|(one, _)| one.counts).map(|(_, response_us)| response_us).collect())
}

fn percentiles_ms(mut responses_us: Vec<i64>) -> Vec<f64> {
    responses_us.sort_unstable();
    let at = |percentile: f64| at_percentile(&responses_us, percentile).unwrap_or(0) as f64 / 1e3;
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
    sharing::grows(load).map(|by| UpperBoundReason::Shares { by })
}
