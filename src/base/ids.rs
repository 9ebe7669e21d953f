//! Ids of iterations and their trace points, derived from the run's [`IdSpace`].
//!
//! [`osprofiler::base::ids`] defines how. The run log stores the seed and the iteration's number, and every reader
//! computes the id again. Ids must not be made anywhere else.
//!
//! The seed also determines which iterations are left unprofiled for comparison ([`IdSpace::is_control`]).

use osprofiler::base::ids as derived;
pub(crate) use osprofiler::base::ids::mix;
pub use osprofiler::base::ids::span_id;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// The ids that a run gives to its iterations and points; no two of them are equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdSpace {
    /// Its streams are the workloads, its traces the iterations.
    derived: derived::IdSpace,
    control_key: u64,
    draw_key: u64,
}

/// The share of a run's iterations that are left unprofiled, for comparison with the others.
///
/// In files, it is a percentage.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(from = "f64", into = "f64")]
pub struct ControlShare {
    percent: f64,
    /// An iteration is unprofiled if its hash is below this.
    below: u64,
}

impl ControlShare {
    /// All iterations are profiled.
    pub const NONE: Self = Self { percent: 0.0, below: 0 };

    /// A share in percent, clamped to 0 to 100.
    #[must_use]
    pub fn from_percent(percent: f64) -> Self {
        let percent = if percent.is_nan() { 0.0 } else { percent.clamp(0.0, 100.0) };
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 2^64, saturating")]
        let below = (percent / 100.0 * 18_446_744_073_709_551_616.0) as u64;
        Self { percent, below }
    }

    /// The share in percent.
    #[must_use]
    pub fn percent(self) -> f64 {
        self.percent
    }

    /// True if all iterations are profiled.
    #[must_use]
    pub fn is_none(self) -> bool {
        self.below == 0
    }
}

impl From<f64> for ControlShare {
    fn from(percent: f64) -> Self {
        Self::from_percent(percent)
    }
}

impl From<ControlShare> for f64 {
    fn from(share: ControlShare) -> Self {
        share.percent
    }
}

impl IdSpace {
    /// A new id space from the operating system's randomness.
    #[must_use]
    pub fn random() -> Self {
        Self::from_seed(Uuid::new_v4())
    }

    /// The id space of a stored run.
    #[must_use]
    pub fn from_seed(seed: Uuid) -> Self {
        let derived = derived::IdSpace::from_seed(seed);
        Self { derived, control_key: derived.side_key(0), draw_key: derived.side_key(1) }
    }

    /// The seed, to be stored with the run.
    #[must_use]
    pub fn seed(&self) -> Uuid {
        self.derived.seed()
    }

    /// The base_id (trace id) of iteration `number` of workload number `workload`.
    #[must_use]
    pub fn base_id(&self, workload: u16, number: u64) -> Uuid {
        self.derived.base_id(workload, number)
    }

    /// The id of the `point`-th trace point (from 1) of an iteration; point 0 is its base_id.
    #[must_use]
    pub fn point_id(&self, workload: u16, number: u64, point: u32) -> Uuid {
        self.derived.point_id(workload, number, point)
    }

    /// Whether an iteration is left unprofiled. The choice is random, spread evenly over the run, and the same for
    /// every reader of the run. It is independent of the bits of the trace ids.
    #[inline]
    #[must_use]
    pub fn is_control(&self, workload: u16, number: u64, share: ControlShare) -> bool {
        share.below != 0 && mix(self.control_key ^ (u64::from(workload) << 48) ^ number) < share.below
    }

    /// A random number of an iteration, to draw samples by, the same for every reader of the run.
    #[inline]
    #[must_use]
    pub fn draw(&self, workload: u16, number: u64) -> u64 {
        mix(self.draw_key ^ (u64::from(workload) << 48) ^ number)
    }
}

impl From<IdSpace> for derived::IdSpace {
    fn from(ids: IdSpace) -> Self {
        ids.derived
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ids_of_a_run_do_not_change() {
        let ids = IdSpace::from_seed(Uuid::from_u128(7));
        for (workload, number, point, expected) in [
            (0, 0, 0, "6d891d33-70f3-49ce-81bf-6a3ba23378f7"),
            (2, 1_000_000, 3, "17b899bb-11e2-4422-be6c-ba65bebcb189"),
        ] {
            assert_eq!(ids.point_id(workload, number, point).to_string(), expected);
            assert_eq!(
                derived::IdSpace::from(ids).point_id(workload, number, point),
                ids.point_id(workload, number, point)
            );
        }
    }

    /// The share is right in every part of a run. Choices are independent of each other and of the ids' bits, and
    /// differ between workloads and runs.
    #[test]
    #[expect(clippy::cast_precision_loss, reason = "counts are small")]
    fn the_control_is_a_fair_and_independent_share() {
        const OF: u64 = 200_000;
        for (seed, percent) in [(1, 10.0), (2, 1.0), (3, 50.0), (u128::MAX, 2.5)] {
            let (ids, share) =
                (IdSpace::from_seed(Uuid::from_u128(seed)), ControlShare::from_percent(percent));
            let p = percent / 100.0;
            // Five standard deviations: a false failure in about a million tests.
            let fair = |count: usize, of: f64, p: f64| {
                let off = (count as f64 - of * p).abs();
                assert!(off <= 5.0 * (of * p * (1.0 - p)).sqrt(), "{percent} %: {count} of {of}, p {p}");
            };
            let member: Vec<bool> = (0..OF).map(|number| ids.is_control(0, number, share)).collect();
            for stretch in member.chunks(20_000) {
                fair(stretch.iter().filter(|member| **member).count(), 20_000.0, p);
            }
            for lag in [1, 2, 3, 10, 16, 1024] {
                let both = member.iter().zip(&member[lag..]).filter(|(a, b)| **a && **b).count();
                fair(both, (OF - lag as u64) as f64, p * p);
            }
            let other = (0..OF).filter(|&number| ids.is_control(1, number, share) && member[number as usize]);
            fair(other.count(), OF as f64, p * p);
            for bit in [0, 61, 64, 127] {
                let odd = |number: &u64| {
                    member[*number as usize] && ids.base_id(0, *number).as_u128() >> bit & 1 == 1
                };
                fair((0..OF).filter(odd).count(), OF as f64, p / 2.0);
            }
        }
    }

    #[test]
    fn shares_are_kept_as_percent_and_bounded() {
        let ids = IdSpace::from_seed(Uuid::from_u128(7));
        for (written, percent, members) in
            [("10.5", 10.5, None), ("0", 0.0, Some(0)), ("-3", 0.0, Some(0)), ("1e9", 100.0, Some(1000))]
        {
            let share: ControlShare = serde_json::from_str(written).unwrap();
            assert_eq!(share, ControlShare::from_percent(percent));
            let again: ControlShare = serde_json::from_str(&serde_json::to_string(&share).unwrap()).unwrap();
            assert_eq!(again, share);
            let count = (0..1000).filter(|&number| ids.is_control(0, number, share)).count();
            assert!(members.is_none_or(|members| members == count), "{written}: {count}");
        }
        assert_eq!(ControlShare::from_percent(f64::NAN), ControlShare::NONE);
    }
}
