//! Iterations or requests over time: counts and percentiles by interval, in bounded memory.
//!
//! Times are counted in buckets of at most 1/32 of their value, and percentiles are the middle of a bucket, which is enough
//! for a small chart. Exact percentiles of the whole run are in the distributions; verdicts must not use the figures here.

use super::model::Series;
use measure::intervals::Intervals;
use statistics::order::{bucket_of_rank, rank};

/// With fewer intervals than this, intervals with few samples are not merged.
const INTERVALS_FEW: u64 = 24;
/// The fewest samples for which the percentiles of an interval are meaningful.
const SAMPLES_WANTED: u64 = 20;
/// Buckets for each doubling of the value.
const SUB_BUCKETS: u64 = 32;

/// Collects one series.
#[derive(Clone, Debug, Default)]
pub struct SeriesBuilder {
    intervals: Intervals<SeriesInterval>,
}

#[derive(Clone, Debug, Default)]
struct SeriesInterval {
    completed: u64,
    failed: u64,
    times: BucketCounts,
}

/// Counts by bucket, from the first bucket that is in use.
#[derive(Clone, Debug, Default)]
struct BucketCounts {
    first: u64,
    counts: Vec<u64>,
}

impl SeriesBuilder {
    /// Counts a sample that ended at `end_ns` of the run's clock after `duration_ns`.
    #[inline]
    pub fn record(&mut self, end_ns: u64, duration_ns: u64, failed: bool) {
        let interval = self.intervals.at(end_ns, SeriesInterval::merge);
        interval.completed += 1;
        interval.failed += u64::from(failed);
        interval.times.record(bucket(duration_ns), 1);
    }

    /// The series; `None` if nothing was counted.
    #[must_use]
    pub fn finish(mut self) -> Option<Series> {
        let total: u64 = self.intervals.iter().map(|interval| interval.completed).sum();
        while self.intervals.count() > INTERVALS_FEW && total / self.intervals.count() < SAMPLES_WANTED {
            self.intervals.double(SeriesInterval::merge);
        }
        if self.intervals.count() == 0 {
            return None;
        }
        let mut series = Series {
            start_s: self.intervals.start_ns() as f64 / 1e9,
            step_s: self.intervals.step_ns() as f64 / 1e9,
            ..Series::default()
        };
        for interval in self.intervals.iter() {
            series.completed.push(interval.completed);
            series.failed.push(interval.failed);
            series.p50_ms.push(interval.times.percentile_ms(50.0));
            series.p99_ms.push(interval.times.percentile_ms(99.0));
        }
        Some(series)
    }
}

impl SeriesInterval {
    fn merge(&mut self, other: Self) {
        self.completed += other.completed;
        self.failed += other.failed;
        for (place, count) in (other.times.first..).zip(other.times.counts) {
            self.times.record(place, count);
        }
    }
}

impl BucketCounts {
    #[inline]
    fn record(&mut self, place: u64, count: u64) {
        if count == 0 {
            return;
        }
        if self.counts.is_empty() {
            self.first = place;
        }
        if place < self.first {
            let more = usize::try_from(self.first - place).unwrap_or(0);
            self.counts.splice(0..0, std::iter::repeat_n(0, more));
            self.first = place;
        }
        let index = usize::try_from(place - self.first).unwrap_or(0);
        if index >= self.counts.len() {
            self.counts.resize(index + 1, 0);
        }
        self.counts[index] += count;
    }

    /// The middle of the bucket with this percentile.
    fn percentile_ms(&self, percent: f64) -> f64 {
        let Some(rank) = rank(self.counts.iter().sum(), percent) else { return 0.0 };
        let Some(index) = bucket_of_rank(self.counts.iter().copied(), rank) else { return 0.0 };
        let place = self.first + index as u64;
        let (from_ns, to_ns) = (lower_ns(place), lower_ns(place + 1));
        (from_ns as f64 + to_ns as f64 - 1.0) / 2.0 / 1e6
    }
}

/// The number of a duration's bucket: whole nanoseconds first, then 32 buckets for each doubling.
#[inline]
fn bucket(ns: u64) -> u64 {
    let doublings = u64::from((ns / SUB_BUCKETS).max(1).ilog2());
    doublings * SUB_BUCKETS + (ns >> doublings)
}

/// The start of a bucket.
fn lower_ns(place: u64) -> u64 {
    if place < 2 * SUB_BUCKETS {
        return place;
    }
    let doublings = place / SUB_BUCKETS - 1;
    (place % SUB_BUCKETS + SUB_BUCKETS)
        .checked_shl(u32::try_from(doublings).unwrap_or(63))
        .unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn every_duration_lies_in_its_bucket() {
        for ns in [0, 1, 31, 32, 63, 64, 65, 127, 128, 1_000, 999_999, 86_400_000_000_000] {
            let place = bucket(ns);
            assert!(lower_ns(place) <= ns && ns < lower_ns(place + 1), "{ns}: {place}");
        }
    }

    #[test]
    fn a_series_counts_and_orders() {
        let mut builder = SeriesBuilder::default();
        for n in 0..60_000_u64 {
            // A second workload's clock starts late.
            builder.record(
                7_000_000_000 + n * 1_000_000,
                if n < 30_000 { 10_000_000 } else { 20_000_000 },
                n % 100 == 0,
            );
        }
        let series = builder.finish().unwrap();
        assert!((60..=120).contains(&series.completed.len()), "{}", series.completed.len());
        assert_eq!(series.completed.iter().sum::<u64>(), 60_000);
        assert_eq!(series.failed.iter().sum::<u64>(), 600);
        assert!((6.4..=7.0).contains(&series.start_s), "{}", series.start_s);
        assert!((series.p50_ms[1] / 10.0 - 1.0).abs() < 0.02, "{:?}", series.p50_ms);
        assert!((series.p99_ms.last().unwrap() / 20.0 - 1.0).abs() < 0.02);
        assert!(SeriesBuilder::default().finish().is_none());
    }

    proptest! {
        #[test]
        fn nothing_is_lost_in_whatever_order(ends in prop::collection::vec((0_u64..1 << 50, 0_u64..1 << 40, any::<bool>()), 1..200)) {
            let mut builder = SeriesBuilder::default();
            for (end_ns, duration_ns, failed) in &ends {
                builder.record(*end_ns, *duration_ns, *failed);
            }
            let series = builder.finish().unwrap();
            prop_assert!(series.completed.len() as u64 <= measure::intervals::INTERVALS_MAX);
            prop_assert_eq!(series.completed.iter().sum::<u64>(), ends.len() as u64);
            prop_assert_eq!(series.failed.iter().sum::<u64>(), ends.iter().filter(|end| end.2).count() as u64);
        }
    }
}
