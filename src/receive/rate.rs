//! How many spans came in each second: a queue of spans that is full sends as many as it can, second after second.

use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// Later seconds are not told apart.
const SECONDS_MAX: usize = 86_400;

/// Spans of each second since the first came.
#[derive(Debug, Default)]
pub(super) struct PerSecond(Mutex<Option<(Instant, Vec<u64>)>>);

/// How many spans came a second, without the first and the last second, which are parts of one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpanRate {
    /// In how many seconds any came.
    pub seconds: u64,
    /// Of how many.
    pub of_seconds: u64,
    /// In half of them no more came than this.
    pub median_per_s: u64,
    /// The most that came in one.
    pub most_per_s: u64,
}

impl PerSecond {
    pub(super) fn add(&self, spans: u64) {
        self.add_at(Instant::now(), spans);
    }

    fn add_at(&self, now: Instant, spans: u64) {
        if spans == 0 {
            return;
        }
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (began, counts) = seen.get_or_insert_with(|| (now, Vec::new()));
        let second = usize::try_from(now.saturating_duration_since(*began).as_secs()).unwrap_or(SECONDS_MAX);
        let second = second.min(SECONDS_MAX - 1);
        if counts.len() <= second {
            counts.resize(second + 1, 0);
        }
        counts[second] += spans;
    }

    pub(super) fn rate(&self) -> SpanRate {
        let seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let counts = seen.as_ref().map_or(&[][..], |(_, counts)| counts.as_slice());
        let inner = counts.get(1..counts.len().saturating_sub(1)).unwrap_or_default();
        let of_seconds = inner.len() as u64;
        let mut inner: Vec<u64> = inner.iter().copied().filter(|spans| *spans > 0).collect();
        inner.sort_unstable();
        SpanRate {
            seconds: inner.len() as u64,
            of_seconds,
            median_per_s: inner.get(inner.len() / 2).copied().unwrap_or(0),
            most_per_s: inner.last().copied().unwrap_or(0),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn seconds_without_spans_and_parts_of_seconds_do_not_count() {
        let (rate, began) = (PerSecond::default(), Instant::now());
        assert_eq!(rate.rate(), SpanRate::default());
        for (ms, spans) in
            [(0, 7), (1_100, 10), (1_900, 20), (2_500, 40), (5_000, 50), (5_001, 0), (6_500, 9)]
        {
            rate.add_at(began + Duration::from_millis(ms), spans);
        }
        assert_eq!(rate.rate(), SpanRate { seconds: 3, of_seconds: 5, median_per_s: 40, most_per_s: 50 });
    }
}
