//! Random samples of the iterations up to a rank that is known only at the end of the log, drawn in a single pass.
//!
//! Each iteration has a rank (such as its response time) and a random key that is the same for every reader. The sample
//! up to a rank consists of the iterations with the smallest keys. So an iteration is kept while fewer than `n` others
//! have a smaller key and no larger rank, where `n` is the size of the sample. This keeps about `n · (1 + ln(N / n))`
//! of `N` iterations, whatever the limit is. The order of iterations does not matter, so several logs of a run give the
//! same sample.
//!
//! What may be in the sample only ever becomes less. So the receiver of spans can decide while the load runs which traces
//! to keep, by the same code, and is told which of them it can let go.

use std::collections::{BTreeMap, BinaryHeap};

use base::clock::Nanos;

/// The number of steps in rank for which the largest useful key is known.
const STEPS_MAX: usize = 64;
/// The most intervals of time; for a long run, there are at least half as many.
const INTERVALS_MAX: u64 = 40;
const INTERVAL_FIRST_NS: Nanos = 1_000_000;

/// An iteration that may be in the sample.
#[derive(Clone, Debug)]
pub struct Candidate<T> {
    pub rank: u64,
    /// Its random key.
    pub key: u64,
    /// What is known of it.
    pub item: T,
}

/// The iterations that may be in a sample.
#[derive(Clone, Debug)]
pub struct SampleCandidates<T> {
    limit: usize,
    kept: Vec<Candidate<T>>,
    /// At this number, useless iterations are removed.
    prune_at: usize,
    /// Ascending: from this rank on, only smaller keys than this are useful.
    steps: Vec<(u64, u64)>,
}

impl<T> SampleCandidates<T> {
    /// For samples of `limit` iterations.
    pub fn new(limit: usize) -> Self {
        Self { limit, kept: Vec::new(), prune_at: 4 * limit.max(8), steps: Vec::new() }
    }

    /// Adds an iteration, if it may be in a sample; `gone` gets those that no longer can.
    #[inline]
    pub fn offer(&mut self, rank: u64, key: u64, item: impl FnOnce() -> T, gone: &mut impl FnMut(T)) {
        if self.takes(rank, key) {
            self.keep(Candidate { rank, key, item: item() }, gone);
        }
    }

    #[inline]
    fn takes(&self, rank: u64, key: u64) -> bool {
        let at = self.steps.partition_point(|(from, _)| *from <= rank);
        self.limit > 0 && (at == 0 || key < self.steps[at - 1].1)
    }

    fn keep(&mut self, candidate: Candidate<T>, gone: &mut impl FnMut(T)) {
        self.kept.push(candidate);
        if self.kept.len() >= self.prune_at {
            self.prune(gone);
        }
    }

    fn prune(&mut self, gone: &mut impl FnMut(T)) {
        self.kept.sort_unstable_by_key(|candidate| (candidate.rank, candidate.key));
        let (limit, mut steps) = (self.limit, Vec::new());
        let mut smallest = BinaryHeap::new();
        let is_useless = |candidate: &mut Candidate<T>| {
            if smallest.len() >= limit {
                if smallest.peek().is_none_or(|largest| candidate.key >= *largest) {
                    return true;
                }
                smallest.pop();
            }
            smallest.push(candidate.key);
            if smallest.len() >= limit {
                steps.extend(smallest.peek().map(|largest| (candidate.rank, *largest)));
            }
            false
        };
        self.kept.extract_if(.., is_useless).for_each(|candidate| gone(candidate.item));
        let every = steps.len().div_ceil(STEPS_MAX).max(1);
        self.steps = steps.into_iter().step_by(every).collect();
        self.prune_at = (self.kept.len() + self.kept.len() / 4).max(4 * limit.max(8));
    }

    /// Makes the sample smaller from here on.
    pub fn limit_to(&mut self, limit: usize, gone: &mut impl FnMut(T)) {
        self.limit = self.limit.min(limit);
        self.prune(gone);
    }

    /// Adds all iterations of another.
    fn add(&mut self, other: Self, gone: &mut impl FnMut(T)) {
        for candidate in other.kept {
            if self.takes(candidate.rank, candidate.key) {
                self.keep(candidate, gone);
            } else {
                gone(candidate.item);
            }
        }
    }

    /// The sample up to a rank, smallest keys first.
    pub fn up_to(&self, rank: u64) -> Vec<&Candidate<T>> {
        let mut sample: Vec<&Candidate<T>> =
            self.kept.iter().filter(|candidate| candidate.rank <= rank).collect();
        sample.sort_unstable_by_key(|candidate| candidate.key);
        sample.truncate(self.limit);
        sample
    }

    /// The number of iterations that may be in a sample.
    pub fn count(&self) -> usize {
        self.kept.len()
    }

    /// The size of a sample.
    pub fn limit(&self) -> usize {
        self.limit
    }
}

/// The same for each interval of start times. The intervals cover the run, and each with iterations has candidates.
#[derive(Clone, Debug)]
pub struct RankedInTime<T> {
    limit: usize,
    interval_ns: Nanos,
    intervals: BTreeMap<u64, SampleCandidates<T>>,
    /// The first and the last interval: between them, nothing has to be looked up.
    covered: (u64, u64),
}

impl<T> RankedInTime<T> {
    /// For samples of `limit` iterations from each interval.
    pub fn new(limit: usize) -> Self {
        Self { limit, interval_ns: INTERVAL_FIRST_NS, intervals: BTreeMap::new(), covered: (u64::MAX, 0) }
    }

    /// As [`SampleCandidates::offer`].
    #[inline]
    pub fn offer(
        &mut self,
        rank: u64,
        key: u64,
        start_ns: Nanos,
        item: impl FnOnce() -> T,
        gone: &mut impl FnMut(T),
    ) {
        let number = start_ns / self.interval_ns;
        if number < self.covered.0 || number > self.covered.1 {
            self.cover(start_ns, gone);
        }
        let limit = self.limit;
        let interval = self.intervals.entry(start_ns / self.interval_ns);
        interval.or_insert_with(|| SampleCandidates::new(limit)).offer(rank, key, item, gone);
    }

    /// Makes the intervals long enough for this time, too.
    fn cover(&mut self, start_ns: Nanos, gone: &mut impl FnMut(T)) {
        loop {
            let number = start_ns / self.interval_ns;
            let first = self.intervals.first_key_value().map_or(number, |(first, _)| number.min(*first));
            let last = self.intervals.last_key_value().map_or(number, |(last, _)| number.max(*last));
            self.covered = (first, last);
            if last - first < INTERVALS_MAX {
                return;
            }
            self.double(gone);
        }
    }

    fn double(&mut self, gone: &mut impl FnMut(T)) {
        self.interval_ns = self.interval_ns.saturating_mul(2);
        for (number, interval) in std::mem::take(&mut self.intervals) {
            match self.intervals.entry(number / 2) {
                std::collections::btree_map::Entry::Vacant(entry) => drop(entry.insert(interval)),
                std::collections::btree_map::Entry::Occupied(mut entry) => {
                    entry.get_mut().add(interval, gone);
                }
            }
        }
    }

    /// Makes the samples smaller from here on.
    pub fn limit_to(&mut self, limit: usize, gone: &mut impl FnMut(T)) {
        self.limit = self.limit.min(limit);
        self.intervals.values_mut().for_each(|interval| interval.limit_to(limit, gone));
    }

    /// The samples of all intervals together, smallest keys first.
    pub fn up_to(&self, rank: u64) -> Vec<&Candidate<T>> {
        let mut sample: Vec<&Candidate<T>> =
            self.intervals.values().flat_map(|interval| interval.up_to(rank)).collect();
        sample.sort_unstable_by_key(|candidate| candidate.key);
        sample
    }

    /// The number of iterations that may be in a sample.
    pub fn count(&self) -> usize {
        self.intervals.values().map(SampleCandidates::count).sum()
    }

    /// The size of a sample of an interval.
    pub fn limit(&self) -> usize {
        self.limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn numbers(sample: Vec<&Candidate<u64>>) -> Vec<u64> {
        sample.into_iter().map(|candidate| candidate.item).collect()
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
            mut limit in 1..12_usize,
            less_from in 0..1200_u64,
        ) {
            let (mut ranked, mut in_time) = (SampleCandidates::new(limit), RankedInTime::new(limit));
            let (mut gone, mut gone_in_time) = (Vec::new(), Vec::new());
            for (number, (rank, key, start_ns)) in (0..).zip(&ranks) {
                if number == less_from {
                    limit = limit.div_ceil(2);
                    ranked.limit_to(limit, &mut |number| gone.push(number));
                    in_time.limit_to(limit, &mut |number| gone_in_time.push(number));
                }
                let mut taken = false;
                ranked.offer(*rank, *key, || { taken = true; number }, &mut |number| gone.push(number));
                if !taken {
                    gone.push(number);
                }
                taken = false;
                let gone = &mut gone_in_time;
                in_time.offer(*rank, *key, *start_ns, || { taken = true; number }, &mut |number| gone.push(number));
                if !taken {
                    gone.push(number);
                }
            }
            // Each is either here or was let go, once.
            for (mut gone, kept) in [
                (gone, ranked.kept.iter().map(|one| one.item).collect::<Vec<_>>()),
                (gone_in_time, in_time.intervals.values().flat_map(|ranked| &ranked.kept).map(|one| one.item).collect()),
            ] {
                gone.extend(kept);
                gone.sort_unstable();
                prop_assert_eq!(gone, (0..ranks.len() as u64).collect::<Vec<_>>());
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
        let mut ranked = SampleCandidates::new(100);
        let mut random = fastrand::Rng::with_seed(7);
        for number in 0..300_000 {
            ranked.offer(random.u64(..), random.u64(..), || number, &mut drop);
        }
        // 100 · (1 + ln(3000)) are about 900, and a quarter more between two removals.
        assert!((600..1500).contains(&ranked.kept.len()), "{}", ranked.kept.len());
        assert!(ranked.steps.len() <= STEPS_MAX);
    }
}
