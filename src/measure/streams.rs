//! What is measured of an answer that comes as a stream: its messages, the first of them, and the gaps between them.

use std::time::Instant;

use base::clock::{Nanos, saturating_nanos};

use crate::latency::{VALUE_NS_MAX, leading, smallest_with};

/// Gaps that differ by less than 1 in 128 are counted as one: their middle is at most 0.4 % away.
const GAP_BITS: u32 = 7;
/// The most different gaps of an iteration that are kept; the gaps of further streams are not.
pub(crate) const GAPS_OF_ITERATION_MAX: usize = 1 << 17;

/// A stream of messages in answer to a call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StreamSample {
    /// The number of its action's trace point within the iteration.
    pub point: u32,
    /// How many messages came.
    pub messages: u64,
    /// From sending the call to its first message; 0 without one.
    pub first_ns: Nanos,
    /// How many tokens a language model said that it made; 0 if it was not asked.
    pub tokens: u64,
    /// The times between messages.
    pub gaps: GapCounts,
}

/// Times the messages of a stream while they come.
#[derive(Debug, Default)]
pub struct MessageClock {
    sample: StreamSample,
    sent_at: Option<Instant>,
    last_at: Option<Instant>,
}

impl MessageClock {
    /// Counts a message that came `at`, in answer to a call that was sent at `sent`.
    pub fn count(&mut self, sent: Instant, at: Instant) {
        self.sample.messages += 1;
        self.sent_at = Some(sent);
        match self.last_at.replace(at) {
            Some(last_at) => self.sample.gaps.add(saturating_nanos(at.saturating_duration_since(last_at))),
            None => self.sample.first_ns = saturating_nanos(at.saturating_duration_since(sent)),
        }
    }

    /// Notes that reading ended `at`, before the stream did: the gap that was open then is at least so long. It counts if
    /// it is the longest, so that a stream that stalls looks no better than one that goes on. What passed before the call
    /// was sent is no part of it: a message may have come before anybody asked for it.
    pub fn cut_off(&mut self, at: Instant) {
        if let Some(last_at) = self.last_at.max(self.sent_at) {
            let gap_ns = saturating_nanos(at.saturating_duration_since(last_at));
            if self.sample.gaps.iter().last().is_none_or(|(longest_ns, _)| gap_ns > longest_ns) {
                self.sample.gaps.add(gap_ns);
            }
        }
    }

    /// How many messages have come.
    #[must_use]
    pub fn messages(&self) -> u64 {
        self.sample.messages
    }

    /// Notes how many tokens a language model says that it made.
    pub fn note_tokens(&mut self, tokens: u64) {
        self.sample.tokens = tokens;
    }

    /// What was measured.
    #[must_use]
    pub fn into_sample(self) -> StreamSample {
        self.sample
    }
}

/// How often each gap occurred, by its length: a small histogram that grows with the number of different gaps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GapCounts(Vec<(u16, u32)>);

impl GapCounts {
    /// Adds a gap.
    pub fn add(&mut self, gap_ns: Nanos) {
        // Buckets of times of up to a day have small numbers.
        let bucket = leading::<GAP_BITS>(gap_ns.min(VALUE_NS_MAX)) as u16;
        match self.0.binary_search_by_key(&bucket, |(bucket, _)| *bucket) {
            Ok(at) => self.0[at].1 = self.0[at].1.saturating_add(1),
            Err(at) => self.0.insert(at, (bucket, 1)),
        }
    }

    /// The gaps in ascending order, each with the number of times that it occurred.
    pub fn iter(&self) -> impl Iterator<Item = (Nanos, u32)> {
        self.0.iter().map(|(bucket, count)| (middle_ns(*bucket), *count))
    }

    /// The number of gaps.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.0.iter().map(|(_, count)| u64::from(*count)).sum()
    }

    /// How many different gaps there are.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// As it is stored: pairs of a bucket and its count, in ascending order.
    pub(crate) fn stored(&self) -> &[(u16, u32)] {
        &self.0
    }

    /// From pairs; `None` unless the buckets ascend.
    pub(crate) fn from_stored(pairs: Vec<(u16, u32)>) -> Option<Self> {
        pairs.is_sorted_by(|(one, _), (next, _)| one < next).then_some(Self(pairs))
    }
}

/// The middle of a bucket.
fn middle_ns(bucket: u16) -> Nanos {
    let [least, next] = [bucket.into(), usize::from(bucket) + 1].map(smallest_with::<GAP_BITS>);
    least + (next - least) / 2
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn gaps_are_counted_by_their_length() {
        let mut gaps = GapCounts::default();
        [20_000_000, 5, 20_000_000, 0, 20_050_000].into_iter().for_each(|gap_ns| gaps.add(gap_ns));
        let counted: Vec<_> = gaps.iter().collect();
        assert_eq!(counted, [(0, 1), (5, 1), (19_988_480, 3)]);
        assert_eq!(gaps.count(), 5);
    }

    proptest! {
        #[test]
        fn a_gap_is_at_most_four_thousandths_away(gap_ns in 0..VALUE_NS_MAX) {
            let mut gaps = GapCounts::default();
            gaps.add(gap_ns);
            let (read_ns, count) = gaps.iter().next().unwrap();
            prop_assert!(count == 1 && read_ns.abs_diff(gap_ns) * 256 <= gap_ns, "{} {}", gap_ns, read_ns);
        }
    }
}
