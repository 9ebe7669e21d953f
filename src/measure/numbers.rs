//! Numbers that a scenario takes from answers, such as the total of a cart.

use std::collections::BTreeMap;

use crate::latency::SampleId;

/// A value that an action looked for in its answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MeasuredNumber {
    /// The number of its name within the workload.
    pub measure: u16,
    /// The number of its action's trace point within the iteration.
    pub point: u32,
    /// The bits of the value: an integer, so that samples can be compared.
    bits: u64,
}

impl MeasuredNumber {
    /// A value, or that there was none. One that is not finite is none.
    #[must_use]
    pub fn new(measure: u16, point: u32, value: Option<f64>) -> Self {
        // There is one zero, and one way to have no value.
        let value =
            value.filter(|value| value.is_finite()).map(|value| if value == 0.0 { 0.0 } else { value });
        Self { measure, point, bits: value.unwrap_or(f64::NAN).to_bits() }
    }

    /// The value; `None` if the answer had no number there.
    #[must_use]
    pub fn value(&self) -> Option<f64> {
        Some(f64::from_bits(self.bits)).filter(|value| value.is_finite())
    }

    /// As it is stored. Whole numbers have zeros at the end, so in this order of bytes they are small.
    pub(crate) fn stored(&self) -> u64 {
        self.bits.swap_bytes()
    }

    pub(crate) fn from_stored(measure: u16, point: u32, stored: u64) -> Self {
        Self::new(measure, point, Some(f64::from_bits(stored.swap_bytes())))
    }
}

/// The place of a value among all values: of two, the larger has the larger rank. Neighbouring values have neighbouring ranks.
#[must_use]
pub fn rank_of(value: f64) -> u64 {
    let bits = value.to_bits();
    if bits >> 63 == 1 { !bits } else { bits | 1 << 63 }
}

/// The value with a rank.
#[must_use]
pub fn value_of_rank(rank: u64) -> f64 {
    f64::from_bits(if rank >> 63 == 1 { rank & !(1 << 63) } else { !rank })
}

/// Numbers that agree in sign, exponent and these bits of their fraction are in one bucket: they differ by less than 0.1 %.
const BUCKET_BITS: u32 = 10;
/// The bits of a double's fraction.
const FRACTION_BITS: u32 = 52;

/// A distribution of numbers. Every figure is one of the numbers or exact; a percentile is at most 0.1 % away from the number
/// of its rank, and whole numbers up to 2048 are exact.
#[derive(Clone, Debug, Default)]
pub struct NumberDistribution {
    buckets: BTreeMap<u64, NumberBucket>,
    count: u64,
    sum: f64,
}

/// The numbers of a bucket.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NumberBucket {
    /// The number of its numbers.
    pub count: u64,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
    /// The iteration of the largest.
    pub exemplar: SampleId,
}

impl NumberDistribution {
    /// Adds a number.
    pub fn record(&mut self, value: f64, sample: SampleId) {
        self.count += 1;
        self.sum += value;
        let new = NumberBucket { count: 0, min: value, max: value, exemplar: sample };
        let bucket = self.buckets.entry(rank_of(value) >> (FRACTION_BITS - BUCKET_BITS)).or_insert(new);
        bucket.count += 1;
        bucket.min = bucket.min.min(value);
        // Of several that are equally large, the one with the lowest number: the same in any order.
        if value > bucket.max || value == bucket.max && sample < bucket.exemplar {
            (bucket.max, bucket.exemplar) = (value, sample);
        }
    }

    /// The number of numbers.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The arithmetic mean; `None` without numbers.
    #[must_use]
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum / self.count as f64)
    }

    /// The smallest number.
    #[must_use]
    pub fn min(&self) -> Option<f64> {
        self.buckets.first_key_value().map(|(_, bucket)| bucket.min)
    }

    /// The largest number, with its iteration.
    #[must_use]
    pub fn max(&self) -> Option<(f64, SampleId)> {
        self.buckets.last_key_value().map(|(_, bucket)| (bucket.max, bucket.exemplar))
    }

    /// The largest number of the bucket with this rank, counted from 1 for the smallest, and its iteration.
    #[must_use]
    pub fn at_rank(&self, rank: u64) -> Option<(f64, SampleId)> {
        let mut before = 0;
        let holds = self.buckets.values().find(|bucket| {
            before += bucket.count;
            before >= rank
        });
        holds.filter(|_| rank > 0).map(|bucket| (bucket.max, bucket.exemplar))
    }

    /// The number at a percentile, as [`Self::at_rank`] gives it.
    #[must_use]
    pub fn percentile(&self, percentile: f64) -> Option<(f64, SampleId)> {
        self.at_rank(statistics::order::rank(self.count, percentile)?)
    }

    /// The occupied buckets, ascending.
    pub fn buckets(&self) -> impl Iterator<Item = &NumberBucket> {
        self.buckets.values()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_not_finite_is_no_number() {
        for value in [None, Some(f64::NAN), Some(f64::INFINITY), Some(f64::NEG_INFINITY)] {
            assert_eq!(MeasuredNumber::new(1, 2, value), MeasuredNumber::new(1, 2, None), "{value:?}");
            assert_eq!(MeasuredNumber::new(1, 2, value).value(), None);
        }
        assert_eq!(MeasuredNumber::new(1, 2, Some(-0.0)), MeasuredNumber::new(1, 2, Some(0.0)));
        assert!(MeasuredNumber::new(0, 0, Some(42.0)).stored() < 1 << 16);
    }

    fn id(number: u64) -> SampleId {
        SampleId { workload: 0, number }
    }

    #[test]
    fn small_whole_numbers_are_exact() {
        let mut numbers = NumberDistribution::default();
        (0..=2048).for_each(|number| numbers.record(number as f64, id(number)));
        for rank in 1..=2049 {
            assert_eq!(numbers.at_rank(rank), Some(((rank - 1) as f64, id(rank - 1))));
        }
        assert_eq!((numbers.at_rank(0), numbers.at_rank(2050)), (None, None));
        assert_eq!(
            (numbers.min(), numbers.max(), numbers.mean()),
            (Some(0.0), Some((2048.0, id(2048))), Some(1024.0))
        );
    }

    #[test]
    fn of_equal_numbers_the_first_iteration_is_named() {
        let mut numbers = NumberDistribution::default();
        for (number, value) in [(7, -2.5), (3, -2.5), (5, -2.5), (9, -80.0)] {
            numbers.record(value, id(number));
        }
        assert_eq!((numbers.max(), numbers.percentile(25.0)), (Some((-2.5, id(3))), Some((-80.0, id(9)))));
    }

    proptest! {
        #[test]
        fn a_percentile_is_close_to_the_number_of_its_rank(
            values in proptest::collection::vec(-1e9..1e9_f64, 1..200), at in 0..200_usize,
        ) {
            let (mut numbers, mut sorted) = (NumberDistribution::default(), values.clone());
            values.iter().for_each(|value| numbers.record(*value, id(0)));
            sorted.sort_by(f64::total_cmp);
            let at = at % sorted.len();
            let (found, _) = numbers.at_rank(at as u64 + 1).unwrap();
            prop_assert!(found >= sorted[at] && (found - sorted[at]).abs() <= sorted[at].abs() / 1000.0);
        }

        #[test]
        fn ranks_are_in_the_order_of_values(one in any::<f64>(), other in any::<f64>()) {
            prop_assume!(one.is_finite() && other.is_finite() && one != 0.0 && other != 0.0);
            prop_assert_eq!(one.partial_cmp(&other).unwrap(), rank_of(one).cmp(&rank_of(other)));
            prop_assert_eq!(value_of_rank(rank_of(one)), one);
        }
    }
}
