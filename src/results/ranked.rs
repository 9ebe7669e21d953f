//! Random samples of the iterations up to a rank that is known only at the end of the log, drawn in a single pass.
//!
//! Each iteration has a rank (such as its response time) and a random key that is the same for every reader. The sample
//! up to a rank consists of the iterations with the smallest keys. So an iteration is kept while fewer than `n` others
//! have a smaller key and no larger rank, where `n` is the size of the sample. This keeps about `n · (1 + ln(N / n))`
//! of `N` iterations, whatever the limit is. The order of iterations does not matter, so several logs of a run give the
//! same sample.

use std::collections::{BTreeMap, BinaryHeap};

use crate::base::clock::Nanos;
use crate::measure::rows::Row;
use crate::measure::sample::IterationSample;

/// The number of steps in rank for which the largest useful key is known.
const STEPS_MAX: usize = 64;
/// The most intervals of time; for a long run, there are at least half as many.
const INTERVALS_MAX: u64 = 40;
const INTERVAL_FIRST_NS: Nanos = 1_000_000;

/// An iteration that may be in the sample.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    pub(super) rank: u64,
    pub(super) key: u64,
    pub(super) sample: IterationSample,
}

/// The iterations that may be in a sample.
#[derive(Clone, Debug)]
pub(super) struct Ranked {
    limit: usize,
    kept: Vec<Candidate>,
    /// At this number, useless iterations are removed.
    prune_at: usize,
    /// Ascending: from this rank on, only smaller keys than this are useful.
    steps: Vec<(u64, u64)>,
}

impl Ranked {
    /// For samples of `limit` iterations.
    pub(super) fn new(limit: usize) -> Self {
        Self { limit, kept: Vec::new(), prune_at: 4 * limit.max(8), steps: Vec::new() }
    }

    /// Adds an iteration, if it may be in a sample.
    #[inline]
    pub(super) fn offer(&mut self, rank: u64, key: u64, row: Row<'_>) {
        if self.takes(rank, key) {
            self.keep(Candidate { rank, key, sample: row.to_sample() });
        }
    }

    #[inline]
    fn takes(&self, rank: u64, key: u64) -> bool {
        let at = self.steps.partition_point(|(from, _)| *from <= rank);
        self.limit > 0 && (at == 0 || key < self.steps[at - 1].1)
    }

    fn keep(&mut self, candidate: Candidate) {
        self.kept.push(candidate);
        if self.kept.len() >= self.prune_at {
            self.prune();
        }
    }

    fn prune(&mut self) {
        self.kept.sort_unstable_by_key(|candidate| (candidate.rank, candidate.key));
        let (limit, mut steps) = (self.limit, Vec::new());
        let mut smallest = BinaryHeap::new();
        self.kept.retain(|candidate| {
            if smallest.len() >= limit {
                if smallest.peek().is_some_and(|largest| candidate.key >= *largest) {
                    return false;
                }
                smallest.pop();
            }
            smallest.push(candidate.key);
            if smallest.len() >= limit {
                steps.extend(smallest.peek().map(|largest| (candidate.rank, *largest)));
            }
            true
        });
        // A missing step only admits a few more iterations until the next removal.
        let every = steps.len().div_ceil(STEPS_MAX).max(1);
        self.steps = steps.into_iter().step_by(every).collect();
        self.prune_at = (self.kept.len() + self.kept.len() / 4).max(4 * limit.max(8));
    }

    /// Adds all iterations of another.
    fn add(&mut self, other: Self) {
        for candidate in other.kept {
            if self.takes(candidate.rank, candidate.key) {
                self.keep(candidate);
            }
        }
    }

    /// The sample up to a rank, smallest keys first.
    pub(super) fn up_to(&self, rank: u64) -> Vec<&Candidate> {
        let mut sample: Vec<&Candidate> =
            self.kept.iter().filter(|candidate| candidate.rank <= rank).collect();
        sample.sort_unstable_by_key(|candidate| candidate.key);
        sample.truncate(self.limit);
        sample
    }
}

/// The same for each interval of start times. The intervals cover the run, and each with iterations has candidates.
#[derive(Clone, Debug)]
pub(super) struct RankedInTime {
    limit: usize,
    interval_ns: Nanos,
    intervals: BTreeMap<u64, Ranked>,
}

impl RankedInTime {
    /// For samples of `limit` iterations from each interval.
    pub(super) fn new(limit: usize) -> Self {
        Self { limit, interval_ns: INTERVAL_FIRST_NS, intervals: BTreeMap::new() }
    }

    #[inline]
    pub(super) fn offer(&mut self, rank: u64, key: u64, row: Row<'_>) {
        let start_ns = row.head.start_ns;
        while self.span(start_ns) > INTERVALS_MAX {
            self.double();
        }
        let limit = self.limit;
        let interval = self.intervals.entry(start_ns / self.interval_ns);
        interval.or_insert_with(|| Ranked::new(limit)).offer(rank, key, row);
    }

    /// The number of intervals from the first to the last, including that of a given time.
    fn span(&self, with_ns: Nanos) -> u64 {
        let with = with_ns / self.interval_ns;
        let first = self.intervals.first_key_value().map_or(with, |(first, _)| with.min(*first));
        let last = self.intervals.last_key_value().map_or(with, |(last, _)| with.max(*last));
        last - first + 1
    }

    fn double(&mut self) {
        self.interval_ns = self.interval_ns.saturating_mul(2);
        for (number, interval) in std::mem::take(&mut self.intervals) {
            match self.intervals.entry(number / 2) {
                std::collections::btree_map::Entry::Vacant(entry) => drop(entry.insert(interval)),
                std::collections::btree_map::Entry::Occupied(mut entry) => entry.get_mut().add(interval),
            }
        }
    }

    /// The samples of all intervals together, smallest keys first.
    pub(super) fn up_to(&self, rank: u64) -> Vec<&Candidate> {
        let mut sample: Vec<&Candidate> =
            self.intervals.values().flat_map(|interval| interval.up_to(rank)).collect();
        sample.sort_unstable_by_key(|candidate| candidate.key);
        sample
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::rows::Rows;
    use proptest::prelude::*;

    fn row_of(rows: &mut Rows, number: u64, start_ns: Nanos) -> Row<'_> {
        rows.clear();
        rows.push(&IterationSample { number, start_ns, ..IterationSample::default() });
        rows.iter().next().unwrap()
    }

    fn numbers(sample: Vec<&Candidate>) -> Vec<u64> {
        sample.into_iter().map(|candidate| candidate.sample.number).collect()
    }

    /// The sample by its definition.
    fn expected(all: &[(u64, u64, Nanos)], limit: usize, within: impl Fn(u64, Nanos) -> bool) -> Vec<u64> {
        let mut those: Vec<(u64, u64)> = (0..)
            .zip(all)
            .filter(|(_, (rank, _, start_ns))| within(*rank, *start_ns))
            .map(|(number, (_, key, _))| (*key, number))
            .collect();
        those.sort_unstable();
        those.into_iter().take(limit).map(|(_, number)| number).collect()
    }

    proptest! {
        #[test]
        fn whatever_the_limit_turns_out_to_be_the_sample_is_that_of_all_iterations(
            ranks in prop::collection::vec((0..50_u64, any::<u64>(), 0..100_000_000_u64), 0..600),
            limit in 1..12_usize,
        ) {
            let (mut ranked, mut in_time) = (Ranked::new(limit), RankedInTime::new(limit));
            let mut rows = Rows::default();
            for (number, (rank, key, start_ns)) in (0..).zip(&ranks) {
                ranked.offer(*rank, *key, row_of(&mut rows, number, *start_ns));
                in_time.offer(*rank, *key, row_of(&mut rows, number, *start_ns));
            }
            prop_assert!(in_time.intervals.len() as u64 <= INTERVALS_MAX);
            for limit_rank in 0..50 {
                let found = numbers(ranked.up_to(limit_rank));
                prop_assert_eq!(found, expected(&ranks, limit, |rank, _| rank <= limit_rank));
                for (interval, sample) in &in_time.intervals {
                    let own = |rank, start_ns| {
                        rank <= limit_rank && start_ns / in_time.interval_ns == *interval
                    };
                    prop_assert_eq!(numbers(sample.up_to(limit_rank)), expected(&ranks, limit, own));
                }
            }
        }
    }

    #[test]
    fn what_is_kept_hardly_grows_with_the_run() {
        let (mut ranked, mut rows) = (Ranked::new(100), Rows::default());
        let mut random = fastrand::Rng::with_seed(7);
        for number in 0..300_000 {
            ranked.offer(random.u64(..), random.u64(..), row_of(&mut rows, number, 0));
        }
        // 100 · (1 + ln(3000)) are about 900, and a quarter more between two removals.
        assert!((600..1500).contains(&ranked.kept.len()), "{}", ranked.kept.len());
        assert!(ranked.steps.len() <= STEPS_MAX);
    }
}
