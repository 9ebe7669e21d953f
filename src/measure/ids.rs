//! The ids of a run's iterations, and which of them are left unprofiled: both follow from the run's seed.
//!
//! The one place that derives them, for what makes the run and for everything that reads its log. The log keeps the seed
//! and the iteration's number.

use uuid::Uuid;

use super::latency::SampleId;
use base::ids::{IdSpace, mix};
use terms::control::ControlShare;

/// What a run's seed determines about its iterations.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RunIds {
    /// Its streams are the workloads, its traces the iterations.
    space: IdSpace,
    control: ControlShare,
    control_key: u64,
    draw_key: u64,
}

impl RunIds {
    /// For a run with this seed, and with this share of its iterations unprofiled.
    #[must_use]
    pub fn new(seed: Uuid, control: ControlShare) -> Self {
        let space = IdSpace::from_seed(seed);
        Self { space, control, control_key: space.side_key(0), draw_key: space.side_key(1) }
    }

    /// Of a new run, by the operating system's randomness.
    #[must_use]
    pub fn random(control: ControlShare) -> Self {
        Self::new(Uuid::new_v4(), control)
    }

    /// The seed to store beside the run.
    #[must_use]
    pub fn seed(&self) -> Uuid {
        self.space.seed()
    }

    /// The trace id of an iteration.
    #[inline]
    #[must_use]
    pub fn trace_id(&self, iteration: impl Into<SampleId>) -> Uuid {
        self.point_id(iteration, 0)
    }

    /// The iteration that has this trace id, if it is an id of this run; the inverse of [`RunIds::trace_id`]. It takes
    /// computation only. The id of another run or program passes with a probability of 2⁻⁴⁵. It then leads to a random
    /// number of up to 61 bits: the caller must know how large numbers can be.
    #[inline]
    #[must_use]
    pub fn sample_of(&self, trace_id: u128) -> Option<SampleId> {
        match self.space.position_of(Uuid::from_u128(trace_id)) {
            Some((workload, number, 0)) => Some(SampleId { workload, number }),
            _ => None,
        }
    }

    /// The id of one of `bench`'s own points of an iteration, counted from 1.
    #[inline]
    #[must_use]
    pub fn point_id(&self, iteration: impl Into<SampleId>, point: u32) -> Uuid {
        let SampleId { workload, number } = iteration.into();
        self.space.point_id(workload, number, point)
    }

    /// Whether an iteration is left unprofiled for comparison with the others: a random share of them, spread evenly
    /// over the run. No bit of the trace ids tells.
    #[inline]
    #[must_use]
    pub fn is_control(&self, iteration: impl Into<SampleId>) -> bool {
        !self.control.is_none() && self.control.contains(number_of(self.control_key, iteration.into()))
    }

    /// A random number for each iteration, used to draw samples of iterations. It is the same for every reader of the
    /// run, in any order.
    #[inline]
    #[must_use]
    pub fn draw(&self, iteration: impl Into<SampleId>) -> u64 {
        number_of(self.draw_key, iteration.into())
    }
}

#[inline]
fn number_of(key: u64, SampleId { workload, number }: SampleId) -> u64 {
    mix(key ^ (u64::from(workload) << 48) ^ number)
}

impl From<RunIds> for IdSpace {
    fn from(ids: RunIds) -> Self {
        ids.space
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ids_of_a_run_stay_what_they_were() {
        let ids = RunIds::new(Uuid::from_u128(7), ControlShare::NONE);
        for (workload, number, point, expected) in [
            (0, 0, 0, "6d891d33-70f3-49ce-81bf-6a3ba23378f7"),
            (2, 1_000_000, 3, "17b899bb-11e2-4422-be6c-ba65bebcb189"),
        ] {
            assert_eq!(ids.point_id((workload, number), point).to_string(), expected);
        }
    }

    #[test]
    fn a_trace_id_leads_back_to_its_iteration_and_no_other_id_does() {
        let run = |seed| RunIds::new(Uuid::from_u128(seed), ControlShare::NONE);
        let (ids, other) = (run(7), run(8));
        for iteration in [(0, 0), (3, 1_000_000), (u16::MAX, u64::MAX >> 3)] {
            let back = ids.sample_of(ids.trace_id(iteration).as_u128());
            assert_eq!(back, Some(iteration.into()));
            assert_eq!(ids.sample_of(ids.point_id(iteration, 1).as_u128()), None);
            assert_eq!(other.sample_of(ids.trace_id(iteration).as_u128()), None);
        }
        assert_eq!((ids.sample_of(0), ids.sample_of(u128::MAX)), (None, None));
    }

    /// The share is kept in every stretch of a run, one membership tells nothing of the next nor of the ids' bits,
    /// and workloads and runs differ.
    #[test]
    fn the_control_is_a_fair_and_independent_share() {
        const OF: u64 = 200_000;
        for (seed, percent) in [(1, 10.0), (2, 1.0), (3, 50.0), (u128::MAX, 2.5)] {
            let ids = RunIds::new(Uuid::from_u128(seed), ControlShare::from_percent(percent));
            let p = percent / 100.0;
            // Five standard deviations: one fault in some million of such tests.
            let fair = |count: usize, of: f64, p: f64| {
                let off = (count as f64 - of * p).abs();
                assert!(off <= 5.0 * (of * p * (1.0 - p)).sqrt(), "{percent} %: {count} of {of}, p {p}");
            };
            let member: Vec<bool> = (0..OF).map(|number| ids.is_control((0, number))).collect();
            for stretch in member.chunks(20_000) {
                fair(stretch.iter().filter(|member| **member).count(), 20_000.0, p);
            }
            for lag in [1, 2, 3, 10, 16, 1024] {
                let both = member.iter().zip(&member[lag..]).filter(|(a, b)| **a && **b).count();
                fair(both, (OF - lag as u64) as f64, p * p);
            }
            let other = (0..OF).filter(|&number| ids.is_control((1, number)) && member[number as usize]);
            fair(other.count(), OF as f64, p * p);
            for bit in [0, 61, 64, 127] {
                let odd = |number: &u64| {
                    member[*number as usize] && ids.trace_id((0, *number)).as_u128() >> bit & 1 == 1
                };
                fair((0..OF).filter(odd).count(), OF as f64, p / 2.0);
            }
        }
    }
}
