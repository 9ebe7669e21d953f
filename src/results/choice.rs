//! Which traces are worth fetching: slow iterations, failed ones, and typical ones to compare them with.
//!
//! Slow are those of the upper 5 % of response times of a workload's iterations without fault, typical those between
//! its 10th and 50th percentile. They are matched in time, slice by slice, so that what changed over the run (caches,
//! other load) does not look like a cause. The choice is random where there are too many, and the same for the same
//! run. One pass over the log, or two where iterations failed, in bounded memory. Iterations that were left unprofiled have no trace to fetch.

use std::collections::HashSet;

use super::aggregate::{Aggregate, AggregateError, WorkloadStats};
use crate::base::ids::IdSpace;
use crate::measure::latency::{Latency, SampleId};
use crate::measure::rows::Row;
use crate::measure::sample::{Ended, IterationSample};

/// Time slices within which slow and typical iterations are matched.
const SLICES: usize = 20;
/// Failed iterations that are fetched at most.
const FAILED_MAX: usize = 50;

/// To which side an iteration belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Of the upper 5 %.
    Slow,
    /// Between the 10th and the 50th percentile.
    Typical,
    /// It ended with a fault.
    Failed,
    /// None of these.
    Other,
}

/// An iteration whose trace is to be fetched.
#[derive(Clone, Debug, PartialEq)]
pub struct Chosen {
    /// The iteration.
    pub sample: IterationSample,
    /// Why it was chosen.
    pub side: Side,
    /// Of the slow ones: whether it is of the upper 1 %.
    pub top: bool,
    /// True when it is of the random sample of its workload's iterations without fault, by which thresholds of traces
    /// are judged; it may be slow or typical as well.
    pub random: bool,
}

/// Chooses as many slow iterations as the run's header wants, as many typical ones, some of the failed, and others if
/// it wants those. The slowest of the run are always among them, unless nothing is wanted.
///
/// # Errors
/// The log cannot be read again.
pub fn choose(aggregate: &Aggregate) -> Result<Vec<Chosen>, AggregateError> {
    let mut random = fastrand::Rng::with_seed(aggregate.header.id_seed.as_u64_pair().0);
    let (slow, others) = aggregate.header.traces_wanted;
    if slow == 0 {
        return Ok(Vec::new());
    }
    let (ids, control) = (IdSpace::from_seed(aggregate.header.id_seed), aggregate.header.control);
    let share = |of: u32| (of as usize).div_ceil(aggregate.workloads.len().max(1));
    let (per_workload, others_each) = (share(slow), share(others));
    let mut others: Vec<Reservoir> =
        aggregate.workloads.iter().map(|_| Reservoir::new(others_each)).collect();
    let without_fault = without_fault(aggregate)?;
    let mut groups: Vec<Group> = aggregate
        .workloads
        .iter()
        .zip(&without_fault)
        .map(|(workload, without_fault)| {
            let response = without_fault.as_ref().unwrap_or(&workload.response);
            let at = |percentile| response.percentile_ns(percentile);
            Group {
                slow_ns: slow_from_ns(response, 95.0),
                top_ns: slow_from_ns(response, 99.0),
                total: 0,
                typical_ns: (at(10.0), at(50.0)),
                first_ns: workload.first_start_ns,
                length_ns: workload.last_end_ns.saturating_sub(workload.first_start_ns).max(1),
                slow: Reservoir::new(per_workload),
                typical: (0..SLICES).map(|_| Reservoir::new(per_workload)).collect(),
                failed: Reservoir::new(FAILED_MAX),
            }
        })
        .collect();
    aggregate.for_each_row(|row| {
        if ids.is_control(row.head.workload, row.head.number, control) {
            return;
        }
        if let Some(group) = groups.get_mut(usize::from(row.head.workload)) {
            group.offer(row, &mut random);
            if row.head.ended.is_measured() && !row.head.warm_up {
                others[usize::from(row.head.workload)].offer(row, &mut random);
            }
        }
    })?;
    let mut chosen: Vec<Chosen> = groups.into_iter().flat_map(|group| group.chosen(&mut random)).collect();
    let place = |sample: &IterationSample| (sample.workload, sample.number);
    let others = || others.iter().flat_map(|others| &others.kept);
    let well = |sample: &&IterationSample| sample.ended == Ended::Ok;
    let sampled: HashSet<(u16, u64)> = others().filter(well).map(place).collect();
    chosen.iter_mut().for_each(|chosen| chosen.random = sampled.contains(&place(&chosen.sample)));
    let mut known: HashSet<(u16, u64)> = chosen.iter().map(|chosen| place(&chosen.sample)).collect();
    for sample in aggregate.slowest.iter().chain(others()) {
        if ids.is_control(sample.workload, sample.number, control) {
            continue;
        }
        if known.insert(place(sample)) {
            let random = sampled.contains(&place(sample));
            chosen.push(Chosen { sample: sample.clone(), side: Side::Other, top: false, random });
        }
    }
    Ok(chosen)
}

/// The response times of iterations without fault, of those workloads that had others too: what fails fast, or by a
/// timeout, must not decide which of them count as slow.
fn without_fault(aggregate: &Aggregate) -> Result<Vec<Option<Latency>>, AggregateError> {
    let mixed = |workload: &WorkloadStats| (workload.iterations.failed > 0).then(Latency::new);
    let mut responses: Vec<Option<Latency>> = aggregate.workloads.iter().map(mixed).collect();
    if responses.iter().all(Option::is_none) {
        return Ok(responses);
    }
    aggregate.for_each_row(|row| {
        let head = row.head;
        if let Some(Some(response)) = responses.get_mut(usize::from(head.workload))
            && head.ended == Ended::Ok
            && !head.warm_up
        {
            response.record(head.response_ns(), SampleId { workload: head.workload, number: head.number });
        }
    })?;
    Ok(responses)
}

/// Beyond this an iteration counts as one of the slowest; never at what half of the iterations take.
fn slow_from_ns(response: &Latency, percentile: f64) -> u64 {
    response.upper_part_from_ns(percentile).max(response.percentile_ns(50.0))
}

struct Group {
    slow_ns: u64,
    top_ns: u64,
    /// How many iterations without fault there were.
    total: u64,
    typical_ns: (u64, u64),
    first_ns: u64,
    length_ns: u64,
    slow: Reservoir,
    /// One for each slice of time.
    typical: Vec<Reservoir>,
    failed: Reservoir,
}

impl Group {
    fn offer(&mut self, row: Row<'_>, random: &mut fastrand::Rng) {
        if row.head.warm_up {
            return;
        }
        self.total += u64::from(row.head.ended == Ended::Ok);
        let response_ns = row.head.response_ns();
        let (low_ns, high_ns) = self.typical_ns;
        match row.head.ended {
            Ended::Failed => self.failed.offer(row, random),
            Ended::Ok if response_ns > self.slow_ns => self.slow.offer(row, random),
            Ended::Ok if (low_ns..=high_ns).contains(&response_ns) => {
                let slice = self.slice(row.head.start_ns);
                self.typical[slice].offer(row, random);
            }
            _ => {}
        }
    }

    fn slice(&self, start_ns: u64) -> usize {
        let since_ns = u128::from(start_ns.saturating_sub(self.first_ns));
        ((since_ns * SLICES as u128 / u128::from(self.length_ns)) as usize).min(SLICES - 1)
    }

    /// Which of the slow ones are of the upper 1 %: by rank where all of them are here, else by time.
    fn top(&self, slow: &[IterationSample]) -> Vec<bool> {
        if self.slow.seen > slow.len() {
            return slow.iter().map(|sample| sample.response_ns() > self.top_ns).collect();
        }
        let mut order: Vec<usize> = (0..slow.len()).collect();
        order.sort_by_key(|&index| std::cmp::Reverse(slow[index].response_ns()));
        let mut top = vec![false; slow.len()];
        let count = usize::try_from(self.total.div_ceil(100)).unwrap_or(usize::MAX);
        order.into_iter().take(count).for_each(|index| top[index] = true);
        top
    }

    fn chosen(mut self, random: &mut fastrand::Rng) -> Vec<Chosen> {
        let slow = std::mem::take(&mut self.slow.kept);
        let top = self.top(&slow);
        // At least as many as a finding needs, and for each slow one a typical one of its time.
        let mut wanted = [0; SLICES];
        for sample in &slow {
            wanted[self.slice(sample.start_ns)] += 1;
        }
        let mut typical = Vec::new();
        let mut missing = 0;
        for (reservoir, wanted) in self.typical.iter_mut().zip(wanted) {
            random.shuffle(&mut reservoir.kept);
            let taken = reservoir.kept.split_off(reservoir.kept.len().saturating_sub(wanted));
            missing += wanted - taken.len();
            typical.extend(taken);
        }
        let floor = typical_min(slow.len());
        missing = missing.max(floor.saturating_sub(typical.len()));
        let mut rest: Vec<IterationSample> =
            self.typical.into_iter().flat_map(|reservoir| reservoir.kept).collect();
        random.shuffle(&mut rest);
        typical.extend(rest.into_iter().take(missing));
        let sided = |side| move |sample| Chosen { sample, side, top: false, random: false };
        slow.into_iter()
            .zip(top)
            .map(|(sample, top)| Chosen { sample, side: Side::Slow, top, random: false })
            .chain(typical.into_iter().map(sided(Side::Typical)))
            .chain(self.failed.kept.into_iter().map(sided(Side::Failed)))
            .collect()
    }
}

/// A comparison needs twice as many typical iterations as slow ones where these are few.
fn typical_min(slow: usize) -> usize {
    (2 * slow).min(40)
}

/// A uniform sample of a stream.
struct Reservoir {
    kept: Vec<IterationSample>,
    seen: usize,
    limit: usize,
}

impl Reservoir {
    fn new(limit: usize) -> Self {
        Self { kept: Vec::new(), seen: 0, limit }
    }

    fn offer(&mut self, row: Row<'_>, random: &mut fastrand::Rng) {
        self.seen += 1;
        if self.kept.len() < self.limit {
            self.kept.push(row.to_sample());
        } else {
            let place = random.usize(0..self.seen);
            if place < self.limit {
                self.kept[place] = row.to_sample();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::log::LogWriter;
    use crate::measure::rows::Rows;
    use crate::results::header::Header;
    use serde_json::json;

    /// What is chosen of a run whose iterations took these numbers of milliseconds; `None` failed at once.
    fn chosen_of(ms: impl Iterator<Item = Option<u64>>) -> Vec<Chosen> {
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
        log.header(&serde_json::to_vec(&header).unwrap()).unwrap();
        let mut rows = Rows::default();
        for (number, ms) in (0..).zip(ms) {
            rows.push(&IterationSample {
                number,
                due_ns: number * 10_000_000,
                start_ns: number * 10_000_000,
                duration_ns: ms.unwrap_or(0) * 1_000_000 + number,
                ended: if ms.is_some() { Ended::Ok } else { Ended::Failed },
                ..IterationSample::default()
            });
        }
        log.samples(&rows).unwrap();
        log.end(b"{\"status\": \"finished\", \"error\": null, \"notes\": []}").unwrap();
        drop(log);
        choose(&Aggregate::read(&path).unwrap()).unwrap()
    }

    #[test]
    fn slow_iterations_that_all_took_the_same_time_are_slow() {
        // Every how many iterations one is slow, the time that it takes, and how many of 1,000 are chosen.
        for (every, slow_ms, expected) in [(12, 5_000, 84), (20, 5_000, 50), (25, 5_000, 40), (2, 100, 0)] {
            let ms = (0..1000).map(|number| Some(if number % every == 0 { slow_ms } else { 100 }));
            let slow = chosen_of(ms).iter().filter(|one| one.side == Side::Slow).count();
            assert_eq!(slow, expected, "one of {every} takes {slow_ms} ms");
        }
    }

    #[test]
    fn failures_do_not_decide_what_counts_as_slow() {
        let usual = |number: u64| if number % 20 == 7 { 500 } else { 100 + number % 10 };
        let all_well = |number: u64| Some(usual(number));
        // Four of five fail at once.
        let mostly_failed = |number: u64| number.is_multiple_of(5).then(|| usual(number / 5));
        for chosen in [chosen_of((0..1000).map(all_well)), chosen_of((0..5000).map(mostly_failed))] {
            let of = |side| chosen.iter().filter(move |one: &&Chosen| one.side == side);
            let ms = |one: &Chosen| one.sample.duration_ns / 1_000_000;
            assert!((45..=50).contains(&of(Side::Slow).count()), "{}", of(Side::Slow).count());
            assert!(of(Side::Slow).all(|one| ms(one) == 500));
            assert!(of(Side::Typical).count() >= 40, "{}", of(Side::Typical).count());
            assert!(of(Side::Typical).all(|one| (100..110).contains(&ms(one))));
            assert!(chosen.iter().filter(|one| one.top).count() <= 10);
            let random: Vec<&Chosen> = chosen.iter().filter(|one| one.random).collect();
            assert!(!random.is_empty() && random.iter().all(|one| one.sample.ended == Ended::Ok));
        }
    }
}
