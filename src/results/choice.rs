//! Chooses which traces to fetch: those of slow, failed and typical iterations.
//!
//! Slow iterations are the slowest 5 % of a workload's successful iterations by response time; typical iterations are
//! between the 10th and the 50th percentile. They are matched in time, slice by slice, so that changes during the run
//! (caches, other load) do not look like causes. If there are too many, the choice is random, but it is the same for
//! the same run, in whatever order its iterations are read. This needs a single pass over the log, in memory that
//! hardly grows with it ([`measure::ranked`]). Of a run of few iterations, such as 100 boots of a server, the slowest 20 are
//! chosen too, because the slowest 5 % are too few to compare. Unprofiled iterations have no trace to fetch. Iterations with stored
//! traces are chosen again, even if another build chose them.

use std::collections::HashSet;

use super::aggregate::{Aggregate, WorkloadStats};
use super::candidates::Candidates;
use base::clock::Nanos;
use measure::candidates::Group;
use measure::ranked::SampleCandidates;
use measure::sample::{CompletionStatus, IterationSample};

/// Runs of at least this many iterations have enough slow ones to compare, if these are the slowest of all.
pub const FEW_FROM: u64 = 100;
/// From this many on, 5 % are enough, even if the histogram's precision and lost points take half of them away. Of 420
/// iterations, 21 are the slowest 5 %, but 19 were found longer than the limit and had their traces.
pub const FEW_UNTIL: u64 = 800;
/// How many iterations of a run of few count as slow where the slowest 5 % are too few.
pub const SLOWEST_OF_FEW: usize = 20;

/// Time slices within which slow and typical iterations are matched.
const SLICES: usize = 20;

/// The group of an iteration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IterationClass {
    /// Among the slowest 5 %.
    Slow,
    /// Between the 10th and the 50th percentile.
    Typical,
    Failed,
    /// Any other iteration.
    Other,
}

/// An iteration whose trace is to be fetched.
#[derive(Clone, Debug, PartialEq)]
pub struct ChosenIteration {
    pub sample: IterationSample,
    /// Why it was chosen.
    pub side: IterationClass,
    /// Whether a slow iteration is among the slowest 1 %.
    pub top: bool,
    /// True if it is in the random sample of successful iterations that thresholds on traces use; it may be slow or
    /// typical too.
    pub random: bool,
}

/// Chooses as many slow iterations as the run's header wants, as many typical ones, some of the failed, and others if
/// it wants those. The slowest of the run are always among them, unless nothing is wanted.
#[must_use]
pub fn choose(aggregate: &Aggregate) -> Vec<ChosenIteration> {
    let Candidates { ids, wanted, groups, of_stored, .. } = &aggregate.candidates;
    if wanted.0 == 0 {
        return Vec::new();
    }
    let limits: Vec<SlownessLimits> = aggregate.workloads.iter().map(SlownessLimits::of).collect();
    let of_group = |(group, limits): (&Group<IterationSample>, _)| chosen(group, limits);
    let mut chosen: Vec<ChosenIteration> = groups.iter().zip(&limits).flat_map(of_group).collect();
    let others: Vec<&IterationSample> = groups.iter().flat_map(|group| samples(&group.others, 0)).collect();
    let place = |sample: &IterationSample| (sample.workload, sample.number);
    let well = others.iter().filter(|sample| sample.ended == CompletionStatus::Ok);
    let sampled: HashSet<(u16, u64)> = well.map(|sample| place(sample)).collect();
    chosen.iter_mut().for_each(|chosen| chosen.random = sampled.contains(&place(&chosen.sample)));
    let mut known: HashSet<(u16, u64)> = chosen.iter().map(|chosen| place(&chosen.sample)).collect();
    let slowest = aggregate.slowest.iter().filter(|sample| !ids.is_control(*sample));
    let few = groups.iter().zip(&aggregate.workloads);
    let few = few.flat_map(|(group, stats)| slowest_of_few(group, stats));
    for sample in slowest.chain(few).chain(others) {
        if known.insert(place(sample)) {
            let random = sampled.contains(&place(sample));
            chosen.push(ChosenIteration {
                sample: sample.clone(),
                side: IterationClass::Other,
                top: false,
                random,
            });
        }
    }
    for sample in of_stored {
        if known.insert(place(sample)) {
            let limits = &limits[usize::from(sample.workload)];
            let (side, top) = (limits.side(sample), limits.is_top(sample));
            chosen.push(ChosenIteration { sample: sample.clone(), side, top, random: false });
        }
    }
    chosen
}

/// Slow and typical iterations of all workloads, whether their traces are wanted or not.
#[must_use]
pub fn slow_and_typical(aggregate: &Aggregate) -> Vec<ChosenIteration> {
    let groups = aggregate.candidates.groups.iter().zip(&aggregate.workloads);
    let chosen = groups.flat_map(|(group, stats)| chosen(group, &SlownessLimits::of(stats)));
    chosen.filter(|one| matches!(one.side, IterationClass::Slow | IterationClass::Typical)).collect()
}

/// Which iterations of a workload are slow and typical.
#[derive(Debug)]
pub(super) struct SlownessLimits {
    /// Longer ones are slow.
    pub(super) slow_ns: Nanos,
    /// Longer ones are of the upper 1 %.
    top_ns: Nanos,
    /// From the shortest to the longest typical one.
    typical_ns: (Nanos, Nanos),
    first_ns: Nanos,
    length_ns: Nanos,
}

impl SlownessLimits {
    pub(super) fn of(stats: &WorkloadStats) -> Self {
        // Fast failures and timeouts must not affect which successful iterations count as slow.
        let times = stats.response.without(&stats.failed_response);
        // Never below the median.
        let beyond = |percentile| times.upper_part_from_ns(percentile).max(times.percentile_ns(50.0));
        Self {
            slow_ns: beyond(95.0),
            top_ns: beyond(99.0),
            // Of 100 iterations there are just enough, if none is lost at the histogram's precision.
            typical_ns: (times.percentile_from_ns(10.0), times.percentile_ns(50.0)),
            first_ns: stats.first_start_ns,
            length_ns: stats.last_end_ns.saturating_sub(stats.first_start_ns).max(1),
        }
    }

    pub(super) fn side(&self, sample: &IterationSample) -> IterationClass {
        let response_ns = sample.response_ns();
        match sample.ended {
            CompletionStatus::Failed => IterationClass::Failed,
            CompletionStatus::Ok if response_ns > self.slow_ns => IterationClass::Slow,
            CompletionStatus::Ok if (self.typical_ns.0..=self.typical_ns.1).contains(&response_ns) => {
                IterationClass::Typical
            }
            _ => IterationClass::Other,
        }
    }

    fn is_top(&self, sample: &IterationSample) -> bool {
        sample.ended == CompletionStatus::Ok && sample.response_ns() > self.top_ns
    }

    /// The time slice in which an iteration started.
    fn slice(&self, sample: &IterationSample) -> usize {
        let since_ns = u128::from(sample.start_ns.saturating_sub(self.first_ns));
        ((since_ns * SLICES as u128 / u128::from(self.length_ns)) as usize).min(SLICES - 1)
    }
}

fn samples(ranked: &SampleCandidates<IterationSample>, rank: u64) -> impl Iterator<Item = &IterationSample> {
    ranked.up_to(rank).into_iter().map(|candidate| &candidate.item)
}

fn chosen(group: &Group<IterationSample>, limits: &SlownessLimits) -> Vec<ChosenIteration> {
    let mut slow: Vec<&IterationSample> = samples(&group.slow, !limits.slow_ns.saturating_add(1)).collect();
    let all_are_here = slow.len() <= group.wanted;
    slow.truncate(group.wanted);
    let top = match all_are_here {
        true => longest(group, &slow),
        false => slow.iter().map(|sample| limits.is_top(sample)).collect(),
    };
    let typical = typical(group, &slow, limits);
    let sided = |side| {
        move |sample: &IterationSample| ChosenIteration {
            sample: sample.clone(),
            side,
            top: false,
            random: false,
        }
    };
    let slow = slow.into_iter().map(sided(IterationClass::Slow)).zip(top);
    slow.map(|(chosen, top)| ChosenIteration { top, ..chosen })
        .chain(typical.into_iter().map(sided(IterationClass::Typical)))
        .chain(samples(&group.failed, 0).map(sided(IterationClass::Failed)))
        .collect()
}

/// The slowest iterations of a run of few, with some more.
fn slowest_of_few<'a>(group: &'a Group<IterationSample>, stats: &WorkloadStats) -> Vec<&'a IterationSample> {
    if !(FEW_FROM..FEW_UNTIL).contains(&group.total) {
        return Vec::new();
    }
    let times = stats.response.without(&stats.failed_response);
    // Some more, because the limit is only within a histogram's precision.
    let wanted = 1.2 * SLOWEST_OF_FEW as f64;
    let from_ns = times.upper_part_from_ns(100.0 - 100.0 * wanted / group.total as f64);
    samples(&group.slow, !from_ns.saturating_add(1)).collect()
}

/// Which slow iterations are among the slowest 1 % by rank; `slow`: all slow iterations.
fn longest(group: &Group<IterationSample>, slow: &[&IterationSample]) -> Vec<bool> {
    let mut order: Vec<usize> = (0..slow.len()).collect();
    order.sort_by_key(|&index| std::cmp::Reverse(slow[index].response_ns()));
    let mut top = vec![false; slow.len()];
    let count = usize::try_from(group.total.div_ceil(100)).unwrap_or(usize::MAX);
    order.into_iter().take(count).for_each(|index| top[index] = true);
    top
}

/// For each slow iteration, a typical one from the same time if possible; others fill up the number.
fn typical<'a>(
    group: &'a Group<IterationSample>,
    slow: &[&IterationSample],
    limits: &SlownessLimits,
) -> Vec<&'a IterationSample> {
    let mut wanted = [0_usize; SLICES];
    slow.iter().for_each(|sample| wanted[limits.slice(sample)] += 1);
    let (mut typical, mut rest) = (Vec::new(), Vec::new());
    let candidates = group.typical.up_to(limits.typical_ns.1).into_iter().map(|candidate| &candidate.item);
    for sample in candidates.filter(|sample| limits.side(sample) == IterationClass::Typical) {
        let wanted = &mut wanted[limits.slice(sample)];
        if *wanted > 0 {
            *wanted -= 1;
            typical.push(sample);
        } else {
            rest.push(sample);
        }
    }
    // At least as many as a finding needs.
    let least = if group.total < FEW_FROM { typical_min(slow.len()) } else { TYPICAL_MIN };
    let missing = slow.len().max(least).saturating_sub(typical.len());
    typical.extend(rest.into_iter().take(missing));
    typical
}

/// A comparison needs 40 typical iterations; some of their traces may lack points.
const TYPICAL_MIN: usize = 50;

/// A comparison needs twice as many typical iterations as slow ones where these are few.
fn typical_min(slow: usize) -> usize {
    (2 * slow).min(TYPICAL_MIN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use measure::log::{End, Header, LogWriter};
    use measure::rows::Rows;
    use serde_json::json;

    /// The choice for a run whose iterations took these numbers of milliseconds; `None` failed at once.
    fn chosen_of(ms: impl Iterator<Item = Option<u64>>) -> Vec<ChosenIteration> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.log");
        let nil = uuid::Uuid::nil();
        let header: Header = serde_json::from_value(json!({
            "run_id": nil, "id_seed": nil, "started_unix_ns": 0,
            "scenario": { "title": "t", "file": "f", "sha256": "", "set": {} },
            "deployment": { "name": "d", "file": "f", "targets": {}, "tls_verified": true, "auth": "none" },
            "profiling_off": null, "collector": null, "traces_wanted": [200, 100],
            "environment": { "bench_version": "0", "os": "", "cpus": 1, "workers": 1 },
            "notes": [], "workloads": [{ "name": "w", "runner": {}, "sla": {}, "actions": [] }],
        }))
        .unwrap();
        let mut log = LogWriter::create(&path).unwrap();
        log.header(&header).unwrap();
        let mut rows = Rows::default();
        for (number, ms) in (0..).zip(ms) {
            rows.push(&IterationSample {
                number,
                due_ns: number * 10_000_000,
                start_ns: number * 10_000_000,
                duration_ns: ms.unwrap_or(0) * 1_000_000 + number,
                ended: if ms.is_some() { CompletionStatus::Ok } else { CompletionStatus::Failed },
                ..IterationSample::default()
            });
        }
        log.samples(&rows).unwrap();
        log.end(&End::default()).unwrap();
        drop(log);
        choose(&Aggregate::read(&path).unwrap())
    }

    #[test]
    fn slow_iterations_that_all_took_the_same_time_are_slow() {
        // Every how many iterations one is slow, the time that it takes, and how many of 1,000 are chosen.
        for (every, slow_ms, expected) in [(12, 5_000, 84), (20, 5_000, 50), (25, 5_000, 40), (2, 100, 0)] {
            let ms = (0..1000).map(|number| Some(if number % every == 0 { slow_ms } else { 100 }));
            let slow = chosen_of(ms).iter().filter(|one| one.side == IterationClass::Slow).count();
            assert_eq!(slow, expected, "one of {every} takes {slow_ms} ms");
        }
    }

    #[test]
    fn of_few_iterations_enough_are_chosen_to_compare() {
        // How many iterations, how many of the slowest are wanted at least, and how many typical ones.
        for (total, slowest, typical) in
            [(60, 3, 6), (99, 4, 8), (100, 20, 40), (420, 20, 40), (799, 20, 40), (800, 20, 40)]
        {
            let chosen = chosen_of((0..total).map(|number| Some(100 + number * 13 % total)));
            let of_slowest =
                |one: &&ChosenIteration| one.sample.duration_ns / 1_000_000 >= 100 + total - slowest;
            assert_eq!(chosen.iter().filter(of_slowest).count() as u64, slowest, "{total}");
            let found = chosen.iter().filter(|one| one.side == IterationClass::Typical).count();
            assert!(found >= typical, "{total}: {found}");
        }
    }

    #[test]
    fn failures_do_not_decide_what_counts_as_slow() {
        let usual = |number: u64| if number % 20 == 7 { 500 } else { 100 + number % 10 };
        let all_well = |number: u64| Some(usual(number));
        // Four of five fail at once.
        let mostly_failed = |number: u64| number.is_multiple_of(5).then(|| usual(number / 5));
        for chosen in [chosen_of((0..1000).map(all_well)), chosen_of((0..5000).map(mostly_failed))] {
            let of = |side| chosen.iter().filter(move |one: &&ChosenIteration| one.side == side);
            let ms = |one: &ChosenIteration| one.sample.duration_ns / 1_000_000;
            assert!(
                (45..=50).contains(&of(IterationClass::Slow).count()),
                "{}",
                of(IterationClass::Slow).count()
            );
            assert!(of(IterationClass::Slow).all(|one| ms(one) == 500));
            assert!(of(IterationClass::Typical).count() >= 40, "{}", of(IterationClass::Typical).count());
            assert!(of(IterationClass::Typical).all(|one| (100..110).contains(&ms(one))));
            assert!(chosen.iter().filter(|one| one.top).count() <= 10);
            let random: Vec<&ChosenIteration> = chosen.iter().filter(|one| one.random).collect();
            assert!(!random.is_empty() && random.iter().all(|one| one.sample.ended == CompletionStatus::Ok));
        }
    }
}
