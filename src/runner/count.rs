//! A worker's counters while the load runs. One thread writes them, others read them, and each worker's
//! counters have separate cache lines. Nothing here may lock or wait.

use std::sync::atomic::{AtomicU64, Ordering};

use base::clock::Nanos;
use statistics::order::{bucket_of_rank, rank};

/// Gives its content separate cache lines.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct CachePadded<T>(pub(super) T);

/// A number that one thread writes.
#[derive(Debug, Default)]
pub(super) struct Counter(AtomicU64);

impl Counter {
    /// Adds one. Only the counter's single writer may call this.
    #[inline]
    pub(super) fn bump(&self) {
        self.set(self.get() + 1);
    }

    #[inline]
    pub(super) fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    #[inline]
    pub(super) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// One worker's counters of one workload.
#[derive(Debug, Default)]
pub(super) struct WorkerCounters {
    /// Iterations that started.
    pub(super) started: Counter,
    /// Iterations that ended.
    pub(super) ended: Counter,
    /// Ended iterations of the warm-up.
    pub(super) warm_up: Counter,
    /// Arrivals that wait for a virtual user.
    pub(super) queued: Counter,
    /// The largest number of waiting arrivals.
    pub(super) queued_max: Counter,
    /// Arrivals dropped because the queue was full.
    pub(super) dropped: Counter,
    /// Handled arrivals of an open model: started, queued or dropped.
    pub(super) arrived: Counter,
    /// Arrivals given up at the end while they waited for a virtual user.
    pub(super) given_up: Counter,
    /// Virtual users.
    pub(super) users: Counter,
    /// The times from due to start.
    pub(super) queue_time: Spread,
}

impl WorkerCounters {
    /// Iterations in progress. The two numbers are read one after the other.
    pub(super) fn under_way(&self) -> u64 {
        let ended = self.ended.get();
        self.started.get().saturating_sub(ended)
    }
}

const BUCKETS: usize = 256;

/// A coarse distribution of durations, for progress and not for results. Buckets are about 20 % wide.
#[derive(Debug)]
pub struct Spread {
    buckets: Box<[Counter; BUCKETS]>,
    max_ns: Counter,
}

impl Default for Spread {
    fn default() -> Self {
        Self { buckets: Box::new(std::array::from_fn(|_| Counter::default())), max_ns: Counter::default() }
    }
}

impl Spread {
    /// Adds a duration. Only the single writer may call this.
    #[inline]
    pub(super) fn record(&self, ns: Nanos) {
        self.buckets[bucket(ns)].bump();
        if ns > self.max_ns.get() {
            self.max_ns.set(ns);
        }
    }

    /// Adds all durations of another distribution.
    pub(super) fn add(&self, other: &Self) {
        for (own, theirs) in self.buckets.iter().zip(other.buckets.iter()) {
            own.set(own.get() + theirs.get());
        }
        self.max_ns.set(self.max_ns.get().max(other.max_ns.get()));
    }

    /// The number of durations.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.buckets.iter().map(Counter::get).sum()
    }

    /// The largest duration, exact.
    #[must_use]
    pub fn max_ns(&self) -> Nanos {
        self.max_ns.get()
    }

    /// The value at a percentile, to about 20 %; 0 without durations.
    #[must_use]
    pub fn percentile_ns(&self, percentile: f64) -> Nanos {
        let Some(rank) = rank(self.count(), percentile) else { return 0 };
        let bucket = bucket_of_rank(self.buckets.iter().map(Counter::get), rank);
        bucket.map_or(0, |bucket| upper_ns(bucket).min(self.max_ns()))
    }
}

/// Four buckets to each power of two.
#[inline]
fn bucket(ns: Nanos) -> usize {
    let power = ns.max(1).ilog2() as usize;
    if power < 2 { ns as usize } else { power * 4 + ((ns >> (power - 2)) & 3) as usize }
}

/// The largest duration in a bucket.
fn upper_ns(index: usize) -> Nanos {
    if index < 8 {
        return index as Nanos;
    }
    let (power, quarter) = (index / 4, (index % 4) as u128);
    let next = (5 + quarter) << (power - 2);
    Nanos::try_from(next - 1).unwrap_or(Nanos::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_duration_lies_in_a_bucket_that_is_at_most_a_fifth_wider() {
        for ns in (0..5_000).chain((0..59).map(|power| 37_u64 << power)).chain([u64::MAX]) {
            let (index, upper) = (bucket(ns), upper_ns(bucket(ns)));
            assert!(index < BUCKETS && ns <= upper, "{ns}: {index}, {upper}");
            assert!(ns < 4 || upper as f64 <= ns as f64 * 1.26, "{ns}: {upper}");
        }
        assert!((0..5_000).all(|ns| bucket(ns) <= bucket(ns + 1)));
    }

    #[test]
    fn percentiles_of_a_spread_are_near_and_its_maximum_is_exact() {
        let spread = Spread::default();
        assert_eq!((spread.count(), spread.percentile_ns(99.0), spread.max_ns()), (0, 0, 0));
        (1..=1000).for_each(|us| spread.record(us * 1_000));
        let sum = Spread::default();
        sum.add(&spread);
        sum.add(&spread);
        assert_eq!((sum.count(), sum.max_ns(), sum.percentile_ns(100.0)), (2000, 1_000_000, 1_000_000));
        for (percentile, expected) in [(50.0, 500_000.0), (99.0, 990_000.0)] {
            let ratio = sum.percentile_ns(percentile) as f64 / expected;
            assert!((1.0..1.25).contains(&ratio), "p{percentile}: {ratio}");
        }
    }
}
