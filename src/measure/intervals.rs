//! A run cut into at most 120 intervals of equal length, whatever its length: the interval doubles whenever there are
//! more, so the length of the run need not be known before.
//!
//! Looked up for every sample of a run when results are made: nothing here may search.

use std::collections::VecDeque;

/// The most intervals.
pub const INTERVALS_MAX: u64 = 120;
const STEP_FIRST_NS: u64 = 1_000_000;

/// What is known of each interval.
#[derive(Clone, Debug)]
pub struct Intervals<T> {
    step_ns: u64,
    /// The number of the first interval, counted from the run's anchor.
    first: u64,
    intervals: VecDeque<T>,
    /// The times of the interval that was asked for last, and its place: most samples are in the same one.
    last: (u64, u64, usize),
}

impl<T> Default for Intervals<T> {
    fn default() -> Self {
        Self { step_ns: STEP_FIRST_NS, first: 0, intervals: VecDeque::new(), last: (0, 0, 0) }
    }
}

impl<T: Default> Intervals<T> {
    /// The interval that contains this time. `merge` adds the second of two intervals to the first.
    #[inline]
    pub fn at(&mut self, ns: u64, merge: impl Fn(&mut T, T)) -> &mut T {
        let (from, until, place) = self.last;
        if ns < from || ns >= until {
            return self.find(ns, merge);
        }
        &mut self.intervals[place]
    }

    fn find(&mut self, ns: u64, merge: impl Fn(&mut T, T)) -> &mut T {
        let number = loop {
            let number = ns / self.step_ns;
            if self.intervals.is_empty() {
                self.first = number;
            }
            let last = self.first + (self.intervals.len() as u64).max(1) - 1;
            if last.max(number) - self.first.min(number) < INTERVALS_MAX {
                break number;
            }
            self.double(&merge);
        };
        while number < self.first {
            self.intervals.push_front(T::default());
            self.first -= 1;
        }
        let place = (number - self.first) as usize;
        while self.intervals.len() <= place {
            self.intervals.push_back(T::default());
        }
        let from = number * self.step_ns;
        self.last = (from, from.saturating_add(self.step_ns), place);
        &mut self.intervals[place]
    }

    /// Doubles the length of every interval.
    pub fn double(&mut self, merge: impl Fn(&mut T, T)) {
        let numbers = self.first..;
        let mut merged: VecDeque<T> = VecDeque::with_capacity(self.intervals.len() / 2 + 1);
        let first = self.first / 2;
        for (number, interval) in numbers.zip(std::mem::take(&mut self.intervals)) {
            match merged.get_mut((number / 2 - first) as usize) {
                Some(into) => merge(into, interval),
                None => merged.push_back(interval),
            }
        }
        (self.step_ns, self.first, self.intervals) = (self.step_ns.saturating_mul(2), first, merged);
        self.last = (0, 0, 0);
    }

    /// The length of an interval.
    pub fn step_ns(&self) -> u64 {
        self.step_ns
    }

    /// When the first interval begins, from the run's anchor.
    pub fn start_ns(&self) -> u64 {
        self.first.saturating_mul(self.step_ns)
    }

    /// How many intervals there are, from the first to the last that has something.
    pub fn count(&self) -> u64 {
        self.intervals.len() as u64
    }

    /// All intervals, in order.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.intervals.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn all_intervals_are_used_before_they_double() {
        let mut intervals = Intervals::<u64>::default();
        let mut at = |number: u64| {
            *intervals.at(number * STEP_FIRST_NS, |one, other| *one += other) += 1;
            intervals.step_ns() / STEP_FIRST_NS
        };
        assert_eq!((at(0), at(INTERVALS_MAX - 1), at(5), at(INTERVALS_MAX - 1)), (1, 1, 1, 1));
        assert_eq!(at(INTERVALS_MAX), 2);
    }

    proptest! {
        /// The same as dividing every time by the last length.
        #[test]
        fn every_time_is_in_its_interval(times in prop::collection::vec(0_u64..u64::MAX, 1..100), bits in 0..44_u32) {
            let times: Vec<u64> = times.into_iter().map(|time| time >> bits).collect();
            let mut intervals = Intervals::<Vec<u64>>::default();
            for time in &times {
                intervals.at(*time, |one, other| one.extend(other)).push(*time);
            }
            let (start_ns, step_ns) = (intervals.start_ns(), intervals.step_ns());
            prop_assert!((1..=INTERVALS_MAX).contains(&intervals.count()));
            for (number, interval) in (0_u64..).zip(intervals.iter()) {
                for time in interval {
                    prop_assert_eq!(time / step_ns, start_ns / step_ns + number);
                }
            }
            prop_assert_eq!(intervals.iter().map(Vec::len).sum::<usize>(), times.len());
            let ends = [intervals.iter().next(), intervals.iter().last()];
            prop_assert!(ends.into_iter().flatten().all(|interval| !interval.is_empty()));
        }
    }
}
