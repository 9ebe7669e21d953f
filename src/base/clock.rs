//! Two clocks: the monotonic one measures, the wall clock is read once a run.
//!
//! No duration may ever come from the wall clock, which can jump.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Nanoseconds, of a duration or since a [`RunClock`]'s anchor.
pub type Nanos = u64;

/// Now, on the clock that measures. In a simulation (feature `simulation`), the simulated time.
#[inline]
#[must_use]
pub fn now() -> Instant {
    #[cfg(feature = "simulation")]
    if let Some(simulated) = simulation::now() {
        return simulated;
    }
    Instant::now()
}

/// Another clock for a thread, in tests that simulate what takes time. Not in programs: the feature must be on.
#[cfg(feature = "simulation")]
pub mod simulation {
    use std::cell::RefCell;
    use std::time::Instant;

    type Clock = Box<dyn Fn() -> Instant>;

    thread_local! {
        static CLOCK: RefCell<Option<Clock>> = const { RefCell::new(None) };
    }

    /// Lets this clock tell the time of this thread; `None` for the real one.
    pub fn set(clock: Option<Clock>) {
        CLOCK.set(clock);
    }

    /// True if this thread has another clock than the real one.
    #[must_use]
    pub fn is_set() -> bool {
        CLOCK.with_borrow(Option::is_some)
    }

    #[inline]
    pub(super) fn now() -> Option<Instant> {
        CLOCK.with_borrow(|clock| clock.as_ref().map(|clock| clock()))
    }
}

/// A run's anchor: one instant read on both clocks at once.
#[derive(Clone, Copy, Debug)]
pub struct RunClock {
    anchor: Instant,
    wall_anchor_unix_ns: u64,
}

impl RunClock {
    /// Reads both clocks.
    #[inline]
    #[must_use]
    pub fn start() -> Self {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { anchor: now(), wall_anchor_unix_ns: saturating_nanos(wall) }
    }

    /// Nanoseconds since the anchor, monotonic.
    #[inline]
    #[must_use]
    pub fn now_ns(&self) -> Nanos {
        saturating_nanos(now().saturating_duration_since(self.anchor))
    }

    /// The instant `offset_ns` after the anchor.
    #[inline]
    #[must_use]
    pub fn instant_at(&self, offset_ns: Nanos) -> Instant {
        self.anchor + Duration::from_nanos(offset_ns)
    }

    /// The offset of `instant` from the anchor (0 if it is earlier).
    #[inline]
    #[must_use]
    pub fn offset_ns(&self, instant: Instant) -> Nanos {
        saturating_nanos(instant.saturating_duration_since(self.anchor))
    }

    /// The anchor on the wall clock, in nanoseconds since the Unix epoch.
    #[inline]
    #[must_use]
    pub fn wall_anchor_unix_ns(&self) -> u64 {
        self.wall_anchor_unix_ns
    }
}

/// `duration` in nanoseconds, [`u64::MAX`] (584 years) when it is longer.
#[inline]
#[must_use]
pub fn saturating_nanos(duration: Duration) -> Nanos {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instant_before_the_anchor_is_offset_zero() {
        let before = Instant::now();
        let clock = RunClock::start();
        assert_eq!(clock.offset_ns(before), 0);
        assert_eq!(clock.offset_ns(clock.instant_at(1_500)), 1_500);
    }
}
