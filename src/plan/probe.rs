//! The probe: what runs before the load, outside its numbering.

use config::probe::{PAIRS_MAX, PAIRS_MIN, Probe as Written};

use super::Plan;

/// The index of the probe in place of a workload's: there are fewer workloads. Values that are made up differ from the
/// load's.
pub const PROBE: u16 = u16::MAX - 1;
/// `{{ iteration }}` in the first iteration of the probe; its pairs count on. It is higher than the numbers of loads, so
/// that names made of it are free, and fits into 32 bits.
pub const FIRST_NUMBER: u64 = 2_000_000_000;
/// A load of fewer iterations has no probe unless the scenario asks for one or the run is strict: it would be a
/// large part of it.
pub const ITERATIONS_MIN: u64 = 10;

/// What the scenario says of the probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProbePlan {
    /// How many pairs of iterations with and without profiling follow.
    pub pairs: u32,
    /// True if the scenario asks for it: then it runs before a small load, and without a collector, too.
    pub asked: bool,
}

impl ProbePlan {
    /// The probe of a scenario; `None` if it has none.
    #[must_use]
    pub fn of(written: Option<Written>) -> Option<Self> {
        match written {
            Some(Written::Switch(false)) => None,
            Some(Written::Switch(true)) => Some(Self { pairs: 0, asked: true }),
            Some(Written::Pairs(pairs)) => {
                Some(Self { pairs: pairs.clamp(PAIRS_MIN, PAIRS_MAX), asked: true })
            }
            None => Some(Self { pairs: 0, asked: false }),
        }
    }
}

impl Plan {
    /// The probe, if one is to run. `can_ask`: whether there is a collector to ask, or a receiver. `strict`: whether
    /// the run must end without the probe's trace, and so has a probe before a small load too.
    #[must_use]
    pub fn wanted_probe(&self, can_ask: bool, strict: bool) -> Option<ProbePlan> {
        let planned: Option<u64> = self.workloads.iter().map(super::WorkloadPlan::planned).sum();
        let is_small = !strict && planned.is_some_and(|planned| planned < ITERATIONS_MIN);
        let probe = self.probe.filter(|_| self.profiling_off.is_none())?;
        (probe.asked && (can_ask || probe.pairs > 0) || can_ask && !is_small).then_some(probe)
    }
}
