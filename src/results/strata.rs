//! Which iterations the stored traces of a run are of, why each was fetched, and how many iterations each stands for.
//!
//! Half of the traces are of the slowest 5 % of iterations, so their sums are not the run's sums. [`Strata::weights`]
//! gives each trace the number of iterations that it stands for: slow, failed and all other iterations are strata, and
//! within one every trace counts the same. Of the others, most traces are of typical iterations.

use std::collections::HashMap;

use uuid::Uuid;

use super::aggregate::{Aggregate, WorkloadStats};
use super::choice::{ChosenIteration, IterationClass, SlownessLimits, choose};
use measure::latency::SampleId;

/// A part of a run's iterations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stratum {
    /// Among the slowest 5 % of a workload.
    Slow,
    /// Neither slow nor failed.
    Rest,
    Failed,
}

/// A stored trace's iteration.
#[derive(Clone, Debug)]
pub struct StratifiedIteration {
    /// The iteration, and why its trace was fetched.
    pub chosen: ChosenIteration,
    pub trace_id: Uuid,
    /// The part that it is a sample of.
    pub stratum: Stratum,
    /// True if it is one of the slowest of the run.
    pub is_slowest: bool,
}

/// The iterations of a run with stored traces.
#[derive(Clone, Debug, Default)]
pub struct Strata {
    /// Those with a stored trace, longest response time first.
    pub sampled: Vec<StratifiedIteration>,
    /// How many iterations each part of each workload has.
    counts: HashMap<(u16, Stratum), u64>,
}

impl Strata {
    /// Of a run whose stored traces the aggregate knows.
    #[must_use]
    pub fn of(aggregate: &Aggregate, is_stored: impl Fn(Uuid) -> bool) -> Self {
        let limits: Vec<SlownessLimits> = aggregate.workloads.iter().map(SlownessLimits::of).collect();
        let ids = aggregate.log.ids();
        let slowest: Vec<SampleId> = aggregate.slowest.iter().map(SampleId::from).collect();
        let sampled = |chosen: ChosenIteration| {
            let stratum = match limits.get(usize::from(chosen.sample.workload))?.side(&chosen.sample) {
                IterationClass::Slow => Stratum::Slow,
                IterationClass::Failed => Stratum::Failed,
                IterationClass::Typical | IterationClass::Other => Stratum::Rest,
            };
            let id = SampleId::from(&chosen.sample);
            let (trace_id, is_slowest) = (ids.trace_id(id), slowest.contains(&id));
            is_stored(trace_id).then_some(StratifiedIteration { chosen, trace_id, stratum, is_slowest })
        };
        let mut sampled: Vec<StratifiedIteration> =
            choose(aggregate).into_iter().filter_map(sampled).collect();
        sampled.sort_by_key(|one| std::cmp::Reverse(one.chosen.sample.response_ns()));
        let mut counts = HashMap::new();
        for ((number, stats), limits) in (0_u16..).zip(&aggregate.workloads).zip(&limits) {
            let [slow, rest, failed] = parts(stats, limits);
            counts.insert((number, Stratum::Slow), slow);
            counts.insert((number, Stratum::Rest), rest);
            counts.insert((number, Stratum::Failed), failed);
        }
        Self { sampled, counts }
    }

    /// How many iterations each trace stands for, by its id.
    #[must_use]
    pub fn weights(&self) -> HashMap<Uuid, f64> {
        let mut traces: HashMap<(u16, Stratum), u64> = HashMap::new();
        let place = |one: &StratifiedIteration| (one.chosen.sample.workload, one.stratum);
        self.sampled.iter().for_each(|one| *traces.entry(place(one)).or_default() += 1);
        let weight = |one: &StratifiedIteration| {
            let of_all = self.counts.get(&place(one)).copied().unwrap_or(0);
            (one.trace_id, of_all as f64 / traces[&place(one)].max(1) as f64)
        };
        self.sampled.iter().map(weight).collect()
    }

    /// What sums with these weights are of.
    #[must_use]
    pub fn weighting(&self) -> Weighting {
        let traces = |stratum| self.sampled.iter().filter(|one| one.stratum == stratum).count();
        let is_known = |place: &(u16, Stratum)| {
            self.sampled.iter().any(|one| (one.chosen.sample.workload, one.stratum) == *place)
        };
        Weighting {
            iterations: self.counts.values().sum(),
            slow: traces(Stratum::Slow),
            rest: traces(Stratum::Rest),
            failed: traces(Stratum::Failed),
            without: self.counts.iter().filter(|(place, _)| !is_known(place)).map(|(_, count)| count).sum(),
        }
    }
}

/// Slow, other and failed iterations of a workload.
fn parts(stats: &WorkloadStats, limits: &SlownessLimits) -> [u64; 3] {
    let failed = stats.failed_response.count();
    let ok = stats.response.count().saturating_sub(failed);
    let slow = stats.response.without(&stats.failed_response).count_above(limits.slow_ns).min(ok);
    [slow, ok - slow, failed]
}

/// What weighted sums are of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Weighting {
    /// All iterations that ended.
    pub iterations: u64,
    /// Traces of slow iterations.
    pub slow: usize,
    /// Traces of iterations that are neither slow nor failed.
    pub rest: usize,
    /// Traces of failed iterations.
    pub failed: usize,
    /// Iterations of parts without any trace, which no sum includes.
    pub without: u64,
}

impl Weighting {
    /// How many traces there are.
    #[must_use]
    pub fn traces(&self) -> usize {
        self.slow + self.rest + self.failed
    }

    /// Adds the figures of another run.
    pub fn add(&mut self, other: &Self) {
        self.iterations += other.iterations;
        self.slow += other.slow;
        self.rest += other.rest;
        self.failed += other.failed;
        self.without += other.without;
    }
}
