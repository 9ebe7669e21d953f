//! The largest entries of a stream, largest first: the same ones in whatever order they come.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use base::clock::Nanos;
use measure::latency::SampleId;

/// The number of trace ids beside an error or a criterion.
pub const EXEMPLARS_MAX: usize = 5;

/// How large an entry is; of entries of one size, the iteration with the lower number comes first.
pub(super) type Size = (Nanos, Reverse<SampleId>);

/// The size of an entry of this iteration.
#[inline]
pub(super) fn size(size_ns: Nanos, iteration: impl Into<SampleId>) -> Size {
    (size_ns, Reverse(iteration.into()))
}

/// How many of the longest iterations have their times kept.
const TIMES_MAX: usize = 400;

/// When the longest iterations began, and how long they took.
#[derive(Clone, Debug, Default)]
pub struct LongestTimes(BinaryHeap<Reverse<(Nanos, Reverse<SampleId>, Nanos)>>);

impl LongestTimes {
    /// Keeps an iteration if it is one of the longest.
    #[inline]
    pub(super) fn offer(&mut self, start_ns: Nanos, duration_ns: Nanos, iteration: SampleId) {
        let entry = Reverse((duration_ns, Reverse(iteration), start_ns));
        if self.0.len() < TIMES_MAX {
            self.0.push(entry);
        } else if let Some(mut shortest) = self.0.peek_mut()
            && entry < *shortest
        {
            *shortest = entry;
        }
    }

    /// The start and the duration of each, in no order.
    pub fn times(&self) -> impl Iterator<Item = (Nanos, Nanos)> {
        self.0.iter().map(|Reverse((duration_ns, _, start_ns))| (*start_ns, *duration_ns))
    }
}

/// Puts an entry in its place among the `max` largest.
#[inline]
pub(super) fn keep_largest<T>(
    kept: &mut Vec<T>,
    max: usize,
    size: Size,
    size_of: impl Fn(&T) -> Size,
    entry: impl FnOnce() -> T,
) {
    if kept.len() >= max && kept.last().is_some_and(|last| size_of(last) >= size) {
        return;
    }
    let at = kept.partition_point(|other| size_of(other) >= size);
    kept.insert(at, entry());
    kept.truncate(max);
}

/// Puts an iteration in its place among the [`EXEMPLARS_MAX`] with the lowest numbers.
#[inline]
pub(super) fn keep_first(kept: &mut Vec<SampleId>, iteration: SampleId) {
    let at = kept.partition_point(|other| *other < iteration);
    if at < EXEMPLARS_MAX {
        kept.insert(at, iteration);
        kept.truncate(EXEMPLARS_MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_are_kept_in_order_and_of_equals_those_with_low_numbers() {
        let all = [3, 9, 1, 9, 4, 4, 4, 2];
        for order in [[0, 1, 2, 3, 4, 5, 6, 7], [7, 6, 5, 4, 3, 2, 1, 0], [6, 0, 3, 5, 1, 7, 2, 4]] {
            let (mut kept, mut first) = (Vec::new(), Vec::new());
            for number in order {
                let size_ns = all[usize::try_from(number).unwrap()];
                let own = |(ns, number): &(Nanos, u64)| size(*ns, (0, *number));
                keep_largest(&mut kept, 4, size(size_ns, (0, number)), own, || (size_ns, number));
                keep_first(&mut first, (0, number).into());
            }
            assert_eq!(kept, [(9, 1), (9, 3), (4, 4), (4, 5)]);
            assert_eq!(first.iter().map(|id| id.number).collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
        }
    }
    #[test]
    fn the_times_of_the_longest_are_the_same_in_whatever_order_they_come() {
        let offered = |numbers: &mut dyn Iterator<Item = u64>| {
            let mut longest = LongestTimes::default();
            for number in numbers {
                // Many last equally long.
                longest.offer(number, number / 7, SampleId { workload: 0, number });
            }
            let mut times: Vec<(Nanos, Nanos)> = longest.times().collect();
            times.sort_unstable();
            times
        };
        let times = offered(&mut (0..3_000));
        assert_eq!(times, offered(&mut (0..3_000).rev()));
        assert_eq!(times.len(), TIMES_MAX);
        assert!(times.iter().all(|(_, duration_ns)| *duration_ns >= (3_000 - TIMES_MAX as u64) / 7));
    }
}
