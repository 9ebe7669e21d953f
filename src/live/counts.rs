//! Counts of durations in logarithmic buckets: few numbers for many samples.
//!
//! A bucket is at most 6 % wide, so that a percentile read from it is at most 3 % off. For a moving picture this is
//! enough; results are made from the log.

use base::clock::Nanos;
use statistics::order::rank;

/// Each power of two has this many bits of buckets.
const PART_BITS: u32 = 4;
/// A row of a heat map is this many buckets high: a quarter of a power of two.
const ROW_BUCKETS: u16 = 4;

/// The counts of durations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogCounts {
    /// Occupied buckets, ascending.
    buckets: Vec<(u16, u32)>,
    count: u64,
    max_ns: Nanos,
}

/// The bucket of a duration.
fn bucket_of(value_ns: Nanos) -> u16 {
    let bits = u64::BITS - value_ns.leading_zeros();
    let shift = bits.saturating_sub(PART_BITS + 1);
    let part = value_ns >> shift;
    ((shift << PART_BITS) as u16) + part as u16
}

/// The shortest duration of a bucket.
fn lower_ns(bucket: u16) -> Nanos {
    let bucket = u32::from(bucket);
    let first = 1_u32 << PART_BITS;
    let shift = (bucket >> PART_BITS).saturating_sub(1);
    let part = if bucket < first { bucket } else { first + (bucket & (first - 1)) };
    Nanos::try_from(u128::from(part) << shift).unwrap_or(Nanos::MAX)
}

/// The row of a heat map in which a duration is.
#[must_use]
pub fn row_of(value_ns: Nanos) -> u16 {
    bucket_of(value_ns) / ROW_BUCKETS
}

/// The shortest duration of a row of a heat map.
#[must_use]
pub fn row_from_ns(row: u16) -> Nanos {
    lower_ns(row.saturating_mul(ROW_BUCKETS))
}

impl LogCounts {
    /// Adds a duration.
    pub fn add(&mut self, value_ns: Nanos) {
        self.add_several(bucket_of(value_ns), 1);
        self.max_ns = self.max_ns.max(value_ns);
    }

    fn add_several(&mut self, bucket: u16, count: u32) {
        self.count += u64::from(count);
        match self.buckets.binary_search_by_key(&bucket, |(bucket, _)| *bucket) {
            Ok(at) => self.buckets[at].1 = self.buckets[at].1.saturating_add(count),
            Err(at) => self.buckets.insert(at, (bucket, count)),
        }
    }

    /// Adds the counts of others.
    pub fn merge(&mut self, other: &Self) {
        other.buckets.iter().for_each(|(bucket, count)| self.add_several(*bucket, *count));
        self.max_ns = self.max_ns.max(other.max_ns);
    }

    /// How many durations there are.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The longest one; 0 without any.
    #[must_use]
    pub fn max_ns(&self) -> Nanos {
        self.max_ns
    }

    /// A percentile, if `timeless` further samples count as longer than all of these; `None` if it is among them, or if
    /// there are no samples.
    #[must_use]
    pub fn percentile_ns(&self, percent: f64, timeless: u64) -> Option<Nanos> {
        let wanted = rank(self.count + timeless, percent)?;
        let mut seen = 0;
        let (bucket, _) = self.buckets.iter().find(|(_, count)| {
            seen += u64::from(*count);
            seen >= wanted
        })?;
        let middle = lower_ns(*bucket).midpoint(lower_ns(bucket + 1));
        Some(middle.min(self.max_ns))
    }

    /// The counts by [`row_of`], ascending.
    #[must_use]
    pub fn rows(&self) -> Vec<(u16, u32)> {
        let mut rows: Vec<(u16, u32)> = Vec::new();
        for (bucket, count) in &self.buckets {
            match rows.last_mut().filter(|(row, _)| *row == bucket / ROW_BUCKETS) {
                Some((_, sum)) => *sum = sum.saturating_add(*count),
                None => rows.push((bucket / ROW_BUCKETS, *count)),
            }
        }
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_bucket_has_what_is_between_its_bounds(value_ns in prop_oneof![0_u64..100, any::<u64>()]) {
            let bucket = bucket_of(value_ns);
            prop_assert!(lower_ns(bucket) <= value_ns);
            prop_assert!(value_ns < lower_ns(bucket + 1) || lower_ns(bucket + 1) == Nanos::MAX);
            // It is narrow.
            prop_assert!(value_ns < 32 || (lower_ns(bucket + 1) - lower_ns(bucket)) * 15 <= value_ns);
            prop_assert!(row_from_ns(row_of(value_ns)) <= value_ns);
        }

        /// Percentiles are at most 4 % off those of the sorted durations.
        #[test]
        fn percentiles_are_near_the_exact_ones(
            mut values in prop::collection::vec(1_000_u64..10_000_000_000, 1..200),
            percent in 0.0_f64..100.0,
            timeless in 0_u64..20,
        ) {
            let mut counts = LogCounts::default();
            values.iter().for_each(|value_ns| counts.add(*value_ns));
            values.sort_unstable();
            let rank = rank(values.len() as u64 + timeless, percent).unwrap();
            let exact = values.get(rank as usize - 1);
            let found = counts.percentile_ns(percent, timeless);
            prop_assert_eq!(exact.is_some(), found.is_some());
            if let (Some(exact), Some(found)) = (exact, found) {
                prop_assert!((found as f64 / *exact as f64 - 1.0).abs() < 0.04, "{found} for {exact}");
            }
        }

        #[test]
        fn counts_of_parts_are_those_of_the_whole(
            first in prop::collection::vec(any::<u64>(), 0..50), second in prop::collection::vec(any::<u64>(), 0..50)
        ) {
            let of = |values: &[u64]| {
                let mut counts = LogCounts::default();
                values.iter().for_each(|value_ns| counts.add(*value_ns));
                counts
            };
            let mut merged = of(&first);
            merged.merge(&of(&second));
            prop_assert_eq!(&merged, &of(&[first, second].concat()));
            let rows: u64 = merged.rows().iter().map(|(_, count)| u64::from(*count)).sum();
            prop_assert_eq!(rows, merged.count());
        }
    }
}
