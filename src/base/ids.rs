//! Ids of iterations and trace points: UUID v4, derived from a run's random seed.
//!
//! A base_id read as a 128-bit integer is the W3C trace id, the low 64 bits of a point's UUID are
//! its span id: the mapping that OSProfiler's own OTLP driver uses, so that one id finds a trace in
//! redis, SQL, Jaeger or Tempo alike.
//!
//! Derived ids cost neither randomness nor storage: the run log keeps the seed and the iteration's
//! number, and every reader computes the id again. No id may be made anywhere else.
//!
//! Which iterations are left unprofiled for comparison follows from the seed too ([`IdSpace::is_control`]).

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// The two random halves of a v4 UUID: 122 bits, as 61 + 61.
const HALF_MASK: u64 = (1 << 61) - 1;
const ROUNDS: u64 = 6;

/// Which ids a run gives to its iterations and points.
///
/// A keyed permutation (a Feistel network) of the 122 free bits of a v4 UUID: two different
/// positions of one run can never share an id, and two runs share one as seldom as random UUIDs do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdSpace {
    round_keys: [u64; ROUNDS as usize],
    control_key: u64,
    seed: Uuid,
}

/// The share of a run's iterations that is left unprofiled, for comparison with the others.
///
/// In files it is a number of percent.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(from = "f64", into = "f64")]
pub struct ControlShare {
    percent: f64,
    /// Hashes below this are in it.
    below: u64,
}

impl ControlShare {
    /// No iteration.
    pub const NONE: Self = Self { percent: 0.0, below: 0 };

    /// A share in percent, which is brought between 0 and 100.
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

    /// True when it is no iteration at all.
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
        let (high, low) = seed.as_u64_pair();
        let mut round_keys = [0; ROUNDS as usize];
        for (round, key) in (0..).zip(round_keys.iter_mut()) {
            *key = mix(high ^ mix(low.wrapping_add(round)));
        }
        let control_key = mix(high ^ mix(low.wrapping_add(ROUNDS)));
        Self { round_keys, control_key, seed }
    }

    /// The seed to store beside the run.
    #[must_use]
    pub fn seed(&self) -> Uuid {
        self.seed
    }

    /// The base_id (trace id) of iteration `number` of workload number `workload`.
    #[must_use]
    pub fn base_id(&self, workload: u16, number: u64) -> Uuid {
        self.point_id(workload, number, 0)
    }

    /// The id of the `point`-th trace point (from 1) of an iteration; point 0 is its base_id.
    #[must_use]
    pub fn point_id(&self, workload: u16, number: u64, point: u32) -> Uuid {
        self.permute(number & HALF_MASK, (u64::from(workload) << 32) | u64::from(point))
    }

    /// Whether an iteration is left unprofiled: a random share of them, spread evenly over the run, the same for
    /// every reader of the run. No bit of the trace ids tells.
    #[inline]
    #[must_use]
    pub fn is_control(&self, workload: u16, number: u64, share: ControlShare) -> bool {
        share.below != 0 && mix(self.control_key ^ (u64::from(workload) << 48) ^ number) < share.below
    }

    fn permute(&self, mut left: u64, mut right: u64) -> Uuid {
        for key in self.round_keys {
            let mixed = mix(right ^ key) & HALF_MASK;
            (left, right) = (right, left ^ mixed);
        }
        uuid_v4_from_halves(left, right)
    }
}

/// The span id (OTLP, W3C) of a trace point: the low 64 bits of its UUID.
#[must_use]
pub fn span_id(point: Uuid) -> u64 {
    point.as_u64_pair().1
}

/// Spreads 122 bits over the free positions of a v4 UUID (RFC 9562, section 5.4).
fn uuid_v4_from_halves(left: u64, right: u64) -> Uuid {
    let bits = (u128::from(left) << 61) | u128::from(right);
    let high = (bits >> 74) as u64; // 48 bits
    let middle = (bits >> 62) as u64 & 0xfff; // 12 bits
    let low = bits as u64 & ((1 << 62) - 1);
    Uuid::from_u64_pair((high << 16) | (4 << 12) | middle, (0b10 << 62) | low)
}

/// The finaliser of SplitMix64 (Steele, Lea, Flood 2014): a bijection that spreads every bit.
pub(crate) fn mix(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn ids_are_valid_unique_and_repeat_only_for_the_same_seed() {
        let mut seen = HashSet::new();
        let seeds = [Uuid::nil(), Uuid::max(), Uuid::from_u128(1), Uuid::new_v4()];
        for seed in seeds {
            let ids = IdSpace::from_seed(seed);
            for workload in 0..3 {
                for number in (0..500).chain([u64::from(u32::MAX), HALF_MASK]) {
                    for point in 0..4 {
                        let id = ids.point_id(workload, number, point);
                        assert_eq!(id.get_version_num(), 4);
                        assert_eq!(id.get_variant(), uuid::Variant::RFC4122);
                        assert!(seen.insert(id), "{id} came twice");
                        assert_eq!(IdSpace::from_seed(seed).point_id(workload, number, point), id);
                    }
                }
            }
        }
    }

    /// Within a run a permutation cannot repeat an id; between runs, ids meet as seldom as random
    /// ones: never, in any number that could be tried.
    #[test]
    fn ids_never_repeat_over_many_runs() {
        const RUNS: u128 = 2_000;
        const OF_EACH: u64 = 200;
        let mut seen = HashSet::new();
        // Seeds that differ in a bit or two are the hardest.
        for run in 0..RUNS {
            let seed = if run % 2 == 0 { Uuid::from_u128(run / 2) } else { Uuid::from_u128(run << 64) };
            let ids = IdSpace::from_seed(seed);
            seen.extend((0..OF_EACH).map(|number| ids.base_id((number % 3) as u16, number)));
        }
        assert_eq!(seen.len() as u64, RUNS as u64 * OF_EACH);
        let shared_bits =
            seen.iter().fold((u128::MAX, 0), |(all, any), id| (all & id.as_u128(), any | id.as_u128()));
        assert_eq!((shared_bits.0 ^ shared_bits.1).count_ones(), 122, "every free bit varies");
    }

    /// The share is kept in every stretch of a run, one membership tells nothing of the next nor of the ids' bits,
    /// and workloads and runs differ.
    #[test]
    #[expect(clippy::cast_precision_loss, reason = "counts are small")]
    fn the_control_is_a_fair_and_independent_share() {
        const OF: u64 = 200_000;
        for (seed, percent) in [(1, 10.0), (2, 1.0), (3, 50.0), (u128::MAX, 2.5)] {
            let (ids, share) =
                (IdSpace::from_seed(Uuid::from_u128(seed)), ControlShare::from_percent(percent));
            let p = percent / 100.0;
            // Five standard deviations: one fault in some million of such tests.
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

    #[test]
    fn every_free_bit_of_the_ids_varies() {
        let ids = IdSpace::from_seed(Uuid::from_u128(7));
        let (mut ones, mut zeros) = (0_u128, 0_u128);
        for number in 0..64 {
            let id = ids.base_id(0, number).as_u128();
            ones |= id;
            zeros |= !id;
        }
        assert_eq!((ones & zeros).count_ones(), 122);
    }
}
