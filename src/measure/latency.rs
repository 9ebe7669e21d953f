//! A distribution of durations with an exemplar for every occupied bucket.
//!
//! An HdrHistogram (by Gil Tene) with three significant digits and values in nanoseconds, the exact sum,
//! and buckets of about 5 % width that keep their slowest sample. Percentiles are always read from a
//! histogram, never averaged.

use std::sync::OnceLock;

use hdrhistogram::{Counter, Histogram};

use base::clock::Nanos;
use statistics::order::rank;

/// Longer values are counted as this value: a day.
pub const VALUE_NS_MAX: Nanos = 24 * 3600 * 1_000_000_000;
const SIGNIFICANT_DIGITS: u8 = 3;
/// The width of a bucket: each ends 5 % above its start.
const BUCKET_RATIO: f64 = 1.05;

/// The iteration of a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SampleId {
    /// The workload's index.
    pub workload: u16,
    /// The iteration's number within it.
    pub number: u64,
}

/// An occupied bucket.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bucket {
    /// Its lower bound, inclusive.
    pub from_ns: f64,
    /// Its upper bound, exclusive.
    pub to_ns: f64,
    /// The number of its samples.
    pub count: u64,
    /// Its slowest sample.
    pub exemplar: SampleId,
}

/// The samples of a bucket.
#[derive(Clone, Copy)]
struct Slowest {
    count: u64,
    value_ns: Nanos,
    sample: SampleId,
}

impl Slowest {
    /// Of several that are equally slow, the one with the lowest number: the same in any order of the samples.
    #[inline]
    fn add(&mut self, other: &Self) {
        let is_slower = other.value_ns > self.value_ns;
        if self.count == 0 || is_slower || other.value_ns == self.value_ns && other.sample < self.sample {
            (self.value_ns, self.sample) = (other.value_ns, other.sample);
        }
        self.count += other.count;
    }
}

/// A distribution of durations.
pub struct Latency {
    /// The samples of each bucket of the histogram, by [`leading`]: counting them here takes a third of the time that the
    /// library takes.
    counts: Vec<u64>,
    count: u64,
    /// The histogram, once it has been asked for.
    histogram: OnceLock<Histogram<u64>>,
    sum_ns: u128,
    min_ns: Nanos,
    max_ns: Nanos,
    /// Samples longer than [`VALUE_NS_MAX`]; percentiles treat them as that value.
    over_range: u64,
    /// By [`bucket_of`].
    buckets: Vec<Slowest>,
}

impl Default for Latency {
    fn default() -> Self {
        Self::new()
    }
}

impl Latency {
    /// An empty distribution. It grows with its largest value, so that a thousand actions fit.
    #[must_use]
    pub fn new() -> Self {
        Self {
            counts: Vec::new(),
            count: 0,
            histogram: OnceLock::new(),
            sum_ns: 0,
            min_ns: Nanos::MAX,
            max_ns: 0,
            over_range: 0,
            buckets: Vec::new(),
        }
    }

    /// Adds a sample.
    #[inline]
    pub fn record(&mut self, value_ns: Nanos, sample: SampleId) {
        self.add_to_count(leading::<HISTOGRAM_BITS>(value_ns.clamp(1, VALUE_NS_MAX)), 1);
        self.sum_ns += u128::from(value_ns);
        self.min_ns = self.min_ns.min(value_ns);
        self.max_ns = self.max_ns.max(value_ns);
        self.over_range += u64::from(value_ns > VALUE_NS_MAX);
        self.add_to_bucket(bucket_of(value_ns), &Slowest { count: 1, value_ns, sample });
    }

    /// Adds several samples of the same value, all of one iteration.
    pub fn record_several(&mut self, value_ns: Nanos, times: u64, sample: SampleId) {
        self.add_to_count(leading::<HISTOGRAM_BITS>(value_ns.clamp(1, VALUE_NS_MAX)), times);
        self.sum_ns += u128::from(value_ns) * u128::from(times);
        self.min_ns = self.min_ns.min(value_ns);
        self.max_ns = self.max_ns.max(value_ns);
        self.over_range += if value_ns > VALUE_NS_MAX { times } else { 0 };
        self.add_to_bucket(bucket_of(value_ns), &Slowest { count: times, value_ns, sample });
    }

    #[inline]
    fn add_to_count(&mut self, index: usize, count: u64) {
        if index >= self.counts.len() {
            self.counts.resize(index + 1, 0);
        }
        self.counts[index] += count;
        self.count += count;
        if self.histogram.get().is_some() {
            self.histogram = OnceLock::new();
        }
    }

    /// The samples as the library has them.
    fn histogram(&self) -> &Histogram<u64> {
        self.histogram.get_or_init(|| {
            #[expect(clippy::unwrap_used, reason = "a constant that every test below exercises")]
            let mut histogram = Histogram::new(SIGNIFICANT_DIGITS).unwrap();
            for (index, count) in self.counts.iter().enumerate().filter(|(_, count)| **count > 0) {
                // Up to a day, the histogram can always grow, so recording cannot fail.
                let _ = histogram.record_n(smallest_with::<HISTOGRAM_BITS>(index), *count);
            }
            histogram
        })
    }

    #[inline]
    fn add_to_bucket(&mut self, index: usize, slowest: &Slowest) {
        if index >= self.buckets.len() {
            self.buckets.resize(index + 1, Slowest { count: 0, ..*slowest });
        }
        self.buckets[index].add(slowest);
    }

    /// Adds the samples of another distribution.
    pub fn add(&mut self, other: &Self) {
        for (index, count) in other.counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            self.add_to_count(index, *count);
        }
        self.sum_ns += other.sum_ns;
        self.min_ns = self.min_ns.min(other.min_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
        self.over_range += other.over_range;
        for (index, slowest) in other.buckets.iter().enumerate().filter(|(_, bucket)| bucket.count > 0) {
            self.add_to_bucket(index, slowest);
        }
    }

    /// The number of samples.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The number of samples longer than [`VALUE_NS_MAX`].
    #[must_use]
    pub fn over_range(&self) -> u64 {
        self.over_range
    }

    /// The smallest sample, exact; 0 without samples.
    #[must_use]
    pub fn min_ns(&self) -> Nanos {
        if self.count() == 0 { 0 } else { self.min_ns }
    }

    /// The largest sample, exact; 0 without samples.
    #[must_use]
    pub fn max_ns(&self) -> Nanos {
        self.max_ns
    }

    /// The arithmetic mean, exact to the nanosecond; 0 without samples.
    #[must_use]
    pub fn mean_ns(&self) -> f64 {
        if self.count() == 0 { 0.0 } else { self.sum_ns as f64 / self.count() as f64 }
    }

    /// The standard deviation, within the histogram's precision.
    #[must_use]
    pub fn stddev_ns(&self) -> f64 {
        if self.count() == 0 { 0.0 } else { self.histogram().stdev() }
    }

    /// The sample of the percentile's [`rank`], within the histogram's precision; never above the largest sample. 0
    /// without samples.
    #[must_use]
    pub fn percentile_ns(&self, percentile: f64) -> Nanos {
        value_at_percentile(self.histogram(), percentile).map_or(0, |value_ns| value_ns.min(self.max_ns))
    }

    /// The same, if the samples in `failed`, and `never` further ones without a time, count as longer than all others;
    /// `None` if the percentile is among them.
    #[must_use]
    pub fn percentile_failures_last_ns(&self, failed: &Self, never: u64, percentile: f64) -> Option<Nanos> {
        if failed.count() == 0 && never == 0 {
            return Some(self.percentile_ns(percentile));
        }
        self.without(failed).at_rank(rank(self.count() + never, percentile)?)
    }

    /// The samples without those in `failed`, which must be a subset.
    #[must_use]
    pub fn without(&self, failed: &Self) -> Percentiles {
        let mut histogram = self.histogram().clone();
        if failed.count() > 0 && histogram.subtract(failed.histogram()).is_err() {
            histogram.clear();
        }
        Percentiles { histogram, max_ns: self.max_ns }
    }

    /// The occupied buckets, ascending.
    pub fn buckets(&self) -> impl Iterator<Item = Bucket> + '_ {
        let occupied = self.buckets.iter().enumerate().filter(|(_, bucket)| bucket.count > 0);
        occupied.map(|(index, bucket)| Bucket {
            from_ns: lower_bound(index),
            to_ns: lower_bound(index + 1),
            count: bucket.count,
            exemplar: bucket.sample,
        })
    }

    /// The histogram in HdrHistogram's V2 format, deflated.
    ///
    /// # Errors
    /// An error of the library (none with these bounds).
    pub fn v2_deflate(&self) -> Result<Vec<u8>, String> {
        use hdrhistogram::serialization::{Serializer as _, V2DeflateSerializer};
        let mut bytes = Vec::new();
        V2DeflateSerializer::new()
            .serialize(self.histogram(), &mut bytes)
            .map_err(|error| error.to_string())?;
        Ok(bytes)
    }
}

/// The percentiles of a part of a distribution's samples.
pub struct Percentiles {
    histogram: Histogram<u64>,
    max_ns: Nanos,
}

impl Percentiles {
    /// How many samples there are.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// The value of a rank, counted from 1 for the smallest; `None` after the last sample.
    #[must_use]
    pub fn at_rank(&self, rank: u64) -> Option<Nanos> {
        value_at_rank(&self.histogram, rank).map(|value_ns| value_ns.min(self.max_ns))
    }

    /// The sample of the percentile's [`rank`], within the histogram's precision; 0 without samples.
    #[must_use]
    pub fn percentile_ns(&self, percentile: f64) -> Nanos {
        value_at_percentile(&self.histogram, percentile).map_or(0, |value_ns| value_ns.min(self.max_ns))
    }

    /// The shortest duration that the histogram cannot tell from the percentile: no sample of that rank is below it.
    #[must_use]
    pub fn percentile_from_ns(&self, percentile: f64) -> Nanos {
        value_at_percentile(&self.histogram, percentile)
            .map_or(0, |value_ns| self.histogram.lowest_equivalent(value_ns))
    }

    /// The duration that separates the upper part of the samples: usually the percentile itself. It is a little less if
    /// much of that part took the same time as the percentile, within the histogram's precision: otherwise no sample
    /// would be above it. An example is a query that waits for a timeout. 0 without samples.
    #[must_use]
    pub fn upper_part_from_ns(&self, percentile: f64) -> Nanos {
        let Some(rank) = rank(self.histogram.len(), percentile) else { return 0 };
        let Some(value_ns) = value_at_rank(&self.histogram, rank) else { return 0 };
        let wanted = self.histogram.len() - rank;
        let above = self.histogram.count_between(value_ns.saturating_add(1), Nanos::MAX);
        let at_ns =
            if above * 6 < wanted * 5 { self.histogram.lowest_equivalent(value_ns) - 1 } else { value_ns };
        at_ns.min(self.max_ns)
    }

    /// How many samples are above a duration, within the histogram's precision.
    #[must_use]
    pub fn count_above(&self, value_ns: Nanos) -> u64 {
        self.histogram.count_between(value_ns.saturating_add(1), Nanos::MAX)
    }
}

/// The value of a rank, counted from 1 for the smallest, within a histogram's precision; `None` after the last sample.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "the one place")]
pub fn value_at_rank<C: Counter>(histogram: &Histogram<C>, rank: u64) -> Option<Nanos> {
    let known = (1..=histogram.len()).contains(&rank);
    // The library rounds up to a whole number of samples, so ask for the middle between two, to be safe from rounding.
    known.then(|| histogram.value_at_quantile((rank as f64 - 0.5) / histogram.len() as f64))
}

/// The value of a percentile's [`rank`], within a histogram's precision; `None` without samples.
#[must_use]
pub fn value_at_percentile<C: Counter>(histogram: &Histogram<C>, percentile: f64) -> Option<Nanos> {
    rank(histogram.len(), percentile).and_then(|rank| value_at_rank(histogram, rank))
}

fn lower_bound(index: usize) -> f64 {
    BUCKET_RATIO.powf(index as f64)
}

/// A table over the leading bits of a value, and the smallest value of each bucket.
struct Bounds {
    /// The last bucket that begins no later than the values with these leading bits.
    first: Vec<u16>,
    least: Vec<Nanos>,
}

/// The bits behind the first one that the table looks at: the values of an entry are in two buckets at most.
const LEADING_BITS: u32 = 5;
/// The same of the histogram: those that three significant digits take. It also ends each of its buckets there.
const HISTOGRAM_BITS: u32 = 10;

fn bounds() -> &'static Bounds {
    static BOUNDS: OnceLock<Bounds> = OnceLock::new();
    BOUNDS.get_or_init(|| {
        let least: Vec<Nanos> = (0..1000).map(|index| lower_bound(index).ceil() as Nanos).collect();
        let first = (0..=leading::<LEADING_BITS>(u64::MAX)).map(|leading| {
            let smallest = smallest_with::<LEADING_BITS>(leading);
            least.partition_point(|least| *least <= smallest).saturating_sub(1) as u16
        });
        Bounds { first: first.collect(), least }
    })
}

/// A value's number of bits and its leading bits, as one number that grows with it.
#[inline]
pub(crate) fn leading<const BITS: u32>(value: u64) -> usize {
    // One bit more than these is there in every value that is not small.
    let above = (value | 1 << BITS).ilog2() - BITS;
    ((above as usize) << BITS) + (value >> above) as usize
}

/// The smallest value for which [`leading`] gives this.
pub(crate) fn smallest_with<const BITS: u32>(leading: usize) -> u64 {
    let above = (leading >> BITS).saturating_sub(1);
    ((leading - (above << BITS)) as u64) << above
}

/// The last bucket whose smallest value is not above `value_ns`.
#[inline]
fn bucket_of(value_ns: Nanos) -> usize {
    let bounds = bounds();
    let mut index = usize::from(bounds.first[leading::<LEADING_BITS>(value_ns)]);
    while bounds.least.get(index + 1).is_some_and(|least| *least <= value_ns) {
        index += 1;
    }
    index
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: u64) -> SampleId {
        SampleId { workload: 0, number }
    }

    #[test]
    fn an_empty_distribution_is_all_zero() {
        let latency = Latency::new();
        assert_eq!(
            (latency.count(), latency.min_ns(), latency.max_ns(), latency.percentile_ns(99.0)),
            (0, 0, 0, 0)
        );
        assert_eq!((latency.mean_ns(), latency.buckets().count()), (0.0, 0));
    }

    #[test]
    fn what_is_over_the_range_is_counted_when_distributions_are_added() {
        let over = |times: u64| {
            let mut latency = Latency::new();
            (0..times).for_each(|number| latency.record(VALUE_NS_MAX + 1 + number, id(number)));
            latency
        };
        let mut sum = over(2);
        sum.add(&over(3));
        assert_eq!((sum.over_range(), sum.count()), (5, 5));
        sum.record(VALUE_NS_MAX, id(9));
        assert_eq!((sum.over_range(), sum.count()), (5, 6));
    }

    /// Of a hundred samples, ten belong to the upper tenth. Where nearly all of them are above the value of its rank,
    /// it begins there; where many are equal to it, they belong to it, too.
    #[test]
    fn the_upper_part_has_its_share() {
        for (equal, above, from_ms) in [(7, 9, 2_000), (7, 8, 1_999), (10, 5, 1_999), (90, 0, 1_999)] {
            let mut latency = Latency::new();
            let ms = [(100 - equal - above, 1_u64), (equal, 2_000), (above, 3_000)];
            let all = ms.into_iter().flat_map(|(times, ms)| std::iter::repeat_n(ms, times));
            all.zip(0..).for_each(|(ms, number)| latency.record(ms * 1_000_000, id(number)));
            let times = latency.without(&Latency::new());
            let from_ns = times.upper_part_from_ns(90.0);
            let is_below = from_ns < 1_999_999_999;
            assert_eq!(is_below, from_ms < 2_000, "{equal} equal, {above} above: {from_ns}");
        }
    }

    /// Where the histogram tells nanoseconds apart, it begins one below.
    #[test]
    fn the_upper_part_begins_just_below_what_many_took() {
        let mut latency = Latency::new();
        (0..100).for_each(|number| latency.record(if number < 20 { 500 } else { 1_000 }, id(number)));
        assert_eq!(latency.without(&Latency::new()).upper_part_from_ns(90.0), 999);
    }

    #[test]
    fn the_ends_are_exact() {
        let mut latency = Latency::new();
        [70_001, 50_003, 90_007].into_iter().for_each(|ns| latency.record(ns, id(ns)));
        assert_eq!((latency.min_ns(), latency.max_ns()), (50_003, 90_007));
    }

    #[test]
    fn the_histogram_is_that_of_the_library() {
        let mut library = Histogram::<u64>::new(SIGNIFICANT_DIGITS).unwrap();
        let mut latency = Latency::new();
        let values = (0..60).flat_map(|bits| [0, 1, 2].map(|more| (more + (1_u64 << bits)) * 3 / 2));
        for value in values.chain(0..5_000).chain([VALUE_NS_MAX, u64::MAX]) {
            let counted = value.clamp(1, VALUE_NS_MAX);
            library.record(counted).unwrap();
            latency.record(value, id(0));
            let index = leading::<HISTOGRAM_BITS>(counted);
            assert_eq!(smallest_with::<HISTOGRAM_BITS>(index), library.lowest_equivalent(counted), "{value}");
            assert!(
                smallest_with::<HISTOGRAM_BITS>(index + 1) > library.highest_equivalent(counted),
                "{value}"
            );
        }
        assert!(*latency.histogram() == library && latency.count() == library.len());
        latency.record(7, id(0));
        assert_eq!(latency.histogram().len(), library.len() + 1);
    }

    #[test]
    fn distributions_put_together_are_one_of_all_samples() {
        let (mut all, mut parts) = (Latency::new(), [Latency::new(), Latency::new(), Latency::new()]);
        for number in 0..3_000 {
            let value_ns = number * number * 77_777;
            all.record(value_ns, id(number));
            parts[usize::from(number % 7 > 2)].record(value_ns, id(number));
        }
        let mut sum = Latency::new();
        parts.iter().for_each(|part| sum.add(part));
        for percentile in [0.1, 50.0, 95.0, 99.9, 100.0] {
            assert_eq!(sum.percentile_ns(percentile), all.percentile_ns(percentile));
        }
        assert_eq!((sum.count(), sum.min_ns(), sum.max_ns()), (all.count(), all.min_ns(), all.max_ns()));
        assert_eq!(sum.mean_ns(), all.mean_ns());
        assert!(sum.buckets().eq(all.buckets()));
    }

    #[test]
    fn percentiles_are_within_a_thousandth_and_never_above_the_largest() {
        let mut latency = Latency::new();
        for value in 1..=100_000 {
            latency.record(value * 1_000, id(value));
        }
        for (percentile, expected) in
            [(50.0, 50_000_000.0), (99.0, 99_000_000.0), (99.9, 99_900_000.0), (100.0, 1e8)]
        {
            let value = latency.percentile_ns(percentile) as f64;
            assert!((value / expected - 1.0).abs() <= 0.001, "p{percentile}: {value}");
            assert!(latency.percentile_ns(percentile) <= latency.max_ns());
        }
        assert_eq!(latency.mean_ns(), 50_000_500.0);
    }

    /// In floating point, 99.9 / 100 · 1,000 is more than 999.
    #[test]
    fn a_percentile_is_the_sample_of_its_rank() {
        for n in [1_u64, 2, 10, 59, 100, 299, 1_000, 2_000, 2_995, 3_000, 4_000] {
            // Far enough apart that each has its own bucket, up to the largest.
            let values: Vec<u64> =
                (0..n).map(|number| (1e6 * 1.004_f64.powf(number as f64)) as u64).collect();
            let mut latency = Latency::new();
            values.iter().for_each(|value| latency.record(*value, id(1)));
            for parts in [1_u64, 100, 250, 500, 900, 950, 990, 995, 999, 1_000] {
                let expected = values[(n * parts).div_ceil(1_000).max(1) as usize - 1];
                let found = latency.percentile_ns(parts as f64 / 10.0);
                let near = found.abs_diff(expected) <= expected / 1_000;
                assert!(near, "p{} of {n}: {found}, not {expected}", parts as f64 / 10.0);
            }
        }
        let latency = Latency::new();
        assert_eq!(value_at_rank(latency.histogram(), 1), None);
    }

    #[test]
    fn failures_come_last_however_quick_they_were() {
        // 90 samples from 10 to 99 ms, and 10 that failed within a millisecond.
        let (mut all, mut failed) = (Latency::new(), Latency::new());
        for number in 0..100 {
            let value_ns = if number < 10 { 500_000 } else { number * 1_000_000 };
            all.record(value_ns, id(number));
            if number < 10 {
                failed.record(value_ns, id(number));
            }
        }
        let none = Latency::new();
        for (failed, never, percentile, expected_ms) in [
            (&none, 0, 50.0, Some(49)),
            (&failed, 0, 50.0, Some(59)),
            (&failed, 0, 90.0, Some(99)),
            (&failed, 0, 90.5, None),
            (&failed, 100, 45.0, Some(99)),
            (&failed, 100, 46.0, None),
            (&none, 100, 50.0, Some(99)),
            (&none, 100, 51.0, None),
            (&all, 0, 1.0, None),
        ] {
            let found = all.percentile_failures_last_ns(failed, never, percentile);
            let found_ms = found.map(|ns| (ns as f64 / 1e6).round() as u64);
            assert_eq!(found_ms, expected_ms, "{} failed, {never} never, p{percentile}", failed.count());
        }
        assert_eq!(none.percentile_failures_last_ns(&none, 0, 50.0), Some(0));
    }

    #[test]
    fn every_occupied_bucket_has_its_slowest_sample() {
        let mut latency = Latency::new();
        for (number, value) in [(1, 1_000), (2, 1_020), (3, 5_000_000), (4, u64::MAX), (5, 0)] {
            latency.record(value, id(number));
        }
        let buckets: Vec<_> = latency.buckets().collect();
        assert_eq!(buckets.iter().map(|bucket| bucket.count).sum::<u64>(), 5);
        let bucket = buckets.iter().find(|bucket| bucket.exemplar == id(3)).unwrap();
        assert!(bucket.from_ns <= 5_000_000.0 && 5_000_000.0 < bucket.to_ns);
        assert!(bucket.to_ns / bucket.from_ns < 1.051);
        assert_eq!(latency.over_range(), 1, "longer than a day");
        assert!(latency.percentile_ns(100.0) <= latency.max_ns());
    }

    #[test]
    fn every_value_is_within_the_bounds_of_its_bucket() {
        let values =
            (0..64).flat_map(|bits| [(1_u64 << bits) - 1, 1 << bits, 3 << bits >> 1, 7 << bits >> 2]);
        for value in values.chain(1..3000) {
            let index = bucket_of(value);
            assert!(lower_bound(index) <= (value as f64).max(1.0), "{value} in {index}");
            assert!((value as f64) < lower_bound(index + 1), "{value} in {index}");
        }
    }

    #[test]
    fn the_stored_histogram_is_read_by_the_library() {
        let mut latency = Latency::new();
        latency.record(123_456_789, id(1));
        let bytes = latency.v2_deflate().unwrap();
        let read: Histogram<u64> =
            hdrhistogram::serialization::Deserializer::new().deserialize(&mut bytes.as_slice()).unwrap();
        assert_eq!(read.len(), 1);
        assert!(read.equivalent(read.max(), 123_456_789));
    }
}
