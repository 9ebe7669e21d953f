//! Ids of traces and trace points: UUID v4, derived from a seed.
//!
//! A base_id read as a 128-bit integer is the W3C trace id. The low 64 bits of a point's UUID are its
//! span id. OSProfiler's own OTLP driver uses this mapping, so one id finds a trace in redis, SQL,
//! Jaeger or Tempo alike.
//!
//! Derived ids cost neither randomness nor storage: a program that keeps the seed and a trace's
//! number computes its ids again.

use uuid::Uuid;

/// The two random halves of a v4 UUID: 122 bits, as 61 + 61.
const HALF_MASK: u64 = (1 << 61) - 1;
const ROUNDS: u64 = 6;

/// Gives ids to the traces of several streams, and to their points.
///
/// A keyed permutation (a Feistel network) of the 122 free bits of a v4 UUID. Two different positions of one space can
/// never share an id, and two spaces share one as seldom as random UUIDs do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdSpace {
    round_keys: [u64; ROUNDS as usize],
    seed: Uuid,
}

impl IdSpace {
    /// A new id space from the operating system's randomness.
    #[must_use]
    pub fn random() -> Self {
        Self::from_seed(Uuid::new_v4())
    }

    /// The id space of a seed: always the same one.
    #[must_use]
    pub fn from_seed(seed: Uuid) -> Self {
        let (high, low) = seed.as_u64_pair();
        let mut round_keys = [0; ROUNDS as usize];
        for (round, key) in (0..).zip(round_keys.iter_mut()) {
            *key = mix(high ^ mix(low.wrapping_add(round)));
        }
        Self { round_keys, seed }
    }

    /// The seed to keep.
    #[must_use]
    pub fn seed(&self) -> Uuid {
        self.seed
    }

    /// A further number that follows from the seed and has nothing to do with the ids. `purpose` tells
    /// several of them apart.
    #[must_use]
    pub fn side_key(&self, purpose: u16) -> u64 {
        let (high, low) = self.seed.as_u64_pair();
        mix(high ^ mix(low.wrapping_add(ROUNDS).wrapping_add(u64::from(purpose))))
    }

    /// The base_id (trace id) of trace `number` of stream number `stream`.
    #[must_use]
    pub fn base_id(&self, stream: u16, number: u64) -> Uuid {
        self.point_id(stream, number, 0)
    }

    /// The id of the `point`-th trace point (from 1) of a trace; point 0 is its base_id.
    #[inline]
    #[must_use]
    pub fn point_id(&self, stream: u16, number: u64, point: u32) -> Uuid {
        self.permute(number & HALF_MASK, (u64::from(stream) << 32) | u64::from(point))
    }

    /// The stream, the number and the point that an id was derived from; `None` if the id is not of this space.
    ///
    /// A random UUID v4 passes with a probability of 2⁻¹³, and then with a random number and point. A caller that knows
    /// how many streams, numbers and points there are can tell the space's ids from all others.
    #[must_use]
    pub fn position_of(&self, id: Uuid) -> Option<(u16, u64, u32)> {
        let (mut left, mut right) = halves_of_uuid_v4(id)?;
        for key in self.round_keys.iter().rev() {
            let mixed = mix(left ^ key) & HALF_MASK;
            (left, right) = (right ^ mixed, left);
        }
        let stream = u16::try_from(right >> 32).ok()?;
        Some((stream, left, right as u32))
    }

    #[inline]
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
#[inline]
fn uuid_v4_from_halves(left: u64, right: u64) -> Uuid {
    let bits = (u128::from(left) << 61) | u128::from(right);
    let high = (bits >> 74) as u64; // 48 bits
    let middle = (bits >> 62) as u64 & 0xfff; // 12 bits
    let low = bits as u64 & ((1 << 62) - 1);
    Uuid::from_u64_pair((high << 16) | (4 << 12) | middle, (0b10 << 62) | low)
}

/// The inverse of [`uuid_v4_from_halves`]; `None` for anything but a v4 UUID.
fn halves_of_uuid_v4(id: Uuid) -> Option<(u64, u64)> {
    let (high, low) = id.as_u64_pair();
    if (high >> 12) & 0xf != 4 || low >> 62 != 0b10 {
        return None;
    }
    let bits =
        (u128::from(high >> 16) << 74) | (u128::from(high & 0xfff) << 62) | u128::from(low & ((1 << 62) - 1));
    Some(((bits >> 61) as u64, bits as u64 & HALF_MASK))
}

/// The finaliser of SplitMix64 (Steele, Lea, Flood 2014): a bijection that spreads every bit.
#[inline]
#[must_use]
pub fn mix(value: u64) -> u64 {
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
            for stream in 0..3 {
                for number in (0..500).chain([u64::from(u32::MAX), HALF_MASK]) {
                    for point in 0..4 {
                        let id = ids.point_id(stream, number, point);
                        assert_eq!(id.get_version_num(), 4);
                        assert_eq!(id.get_variant(), uuid::Variant::RFC4122);
                        assert!(seen.insert(id), "{id} came twice");
                        assert_eq!(IdSpace::from_seed(seed).point_id(stream, number, point), id);
                    }
                }
            }
        }
    }

    /// Within a space a permutation cannot repeat an id; between spaces, ids meet as seldom as random
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

    #[test]
    fn every_id_leads_back_to_its_position() {
        let mut random = 1_u64;
        let mut next = || {
            random = mix(random);
            random
        };
        for seed in [Uuid::nil(), Uuid::max(), Uuid::from_u128(7), Uuid::new_v4()] {
            let (ids, other) = (IdSpace::from_seed(seed), IdSpace::from_seed(Uuid::from_u128(99)));
            let edges = [(0, 0, 0), (u16::MAX, HALF_MASK, u32::MAX), (0, HALF_MASK, 0), (1, 1, 1)];
            let drawn = (0..2_000).map(|_| (next() as u16, next() & HALF_MASK, next() as u32));
            for (stream, number, point) in edges.into_iter().chain(drawn) {
                let id = ids.point_id(stream, number, point);
                assert_eq!(ids.position_of(id), Some((stream, number, point)));
                // Another run, or bits that no v4 UUID has.
                assert_ne!(other.position_of(id), Some((stream, number, point)));
                for bit in [62, 63, 76, 77, 78, 79] {
                    assert_eq!(ids.position_of(Uuid::from_u128(id.as_u128() ^ (1 << bit))), None);
                }
            }
        }
    }

    #[test]
    fn a_foreign_id_is_almost_never_taken_for_one_of_the_space() {
        let ids = IdSpace::from_seed(Uuid::from_u128(7));
        let others = (0..200_000_u64).map(|number| IdSpace::from_seed(Uuid::from_u128(8)).base_id(0, number));
        let mut of_any_stream = 0;
        for (stream, number, point) in others.filter_map(|id| ids.position_of(id)) {
            of_any_stream += 1;
            assert!(point != 0 || stream > 100 || number > 1 << 40, "{stream} {number} {point}");
        }
        // 2⁻¹³ of them, give or take five standard deviations.
        assert!((1..=49).contains(&of_any_stream), "{of_any_stream}");
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
