//! Two clocks: the monotonic one measures, the wall clock is read once a run.
//!
//! No duration may ever come from the wall clock, which can jump.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Nanoseconds, of a duration or since a [`RunClock`]'s anchor.
pub type Nanos = u64;

/// A run's anchor: one instant read on both clocks at once.
#[derive(Clone, Copy, Debug)]
pub struct RunClock {
    anchor: Instant,
    wall_anchor_unix_ns: u64,
}

impl RunClock {
    /// Reads both clocks.
    #[must_use]
    pub fn start() -> Self {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { anchor: Instant::now(), wall_anchor_unix_ns: saturating_nanos(wall) }
    }

    /// Nanoseconds since the anchor, monotonic.
    #[must_use]
    pub fn now_ns(&self) -> Nanos {
        saturating_nanos(self.anchor.elapsed())
    }

    /// The instant that lies `offset_ns` after the anchor.
    #[must_use]
    pub fn instant_at(&self, offset_ns: Nanos) -> Instant {
        self.anchor + Duration::from_nanos(offset_ns)
    }

    /// The offset of `instant` from the anchor (0 when it lies before).
    #[must_use]
    pub fn offset_ns(&self, instant: Instant) -> Nanos {
        saturating_nanos(instant.saturating_duration_since(self.anchor))
    }

    /// The anchor on the wall clock, in nanoseconds since the Unix epoch.
    #[must_use]
    pub fn wall_anchor_unix_ns(&self) -> u64 {
        self.wall_anchor_unix_ns
    }
}

/// `duration` in nanoseconds, [`u64::MAX`] (584 years) when it is longer.
#[must_use]
pub fn saturating_nanos(duration: Duration) -> Nanos {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Nanoseconds since 1970 of a time that [`rfc3339`] wrote, or another such; `None` when it is none.
#[must_use]
pub fn from_rfc3339(text: &str) -> Option<i128> {
    text.parse::<jiff::Timestamp>().ok().map(|time| time.as_nanosecond())
}

/// A wall-clock time as RFC 3339 in UTC with milliseconds, `2026-11-20T22:52:01.123Z`.
#[must_use]
pub fn rfc3339(unix_ns: u64) -> String {
    let timestamp = jiff::Timestamp::from_nanosecond(i128::from(unix_ns)).unwrap_or_default();
    format!("{timestamp:.3}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wall_clock_times_are_printed_in_utc_with_milliseconds() {
        for (unix_ns, expected) in
            [(0, "1970-01-01T00:00:00.000Z"), (1_582_790_665_789_433_000, "2020-02-27T08:04:25.789Z")]
        {
            assert_eq!(rfc3339(unix_ns), expected);
        }
    }

    #[test]
    fn an_instant_before_the_anchor_is_offset_zero() {
        let before = Instant::now();
        let clock = RunClock::start();
        assert_eq!(clock.offset_ns(before), 0);
        assert_eq!(clock.offset_ns(clock.instant_at(1_500)), 1_500);
    }
}
