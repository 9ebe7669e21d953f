//! A heartbeat: from how often it comes too late follows for how long a thread was kept from running.
//!
//! A stopped process, a quota of processor time and a busy machine all show here, on every system: something that only
//! sleeps is woken too late. How much time that was is an estimate: each beat stands for the time since the last one, or
//! for as long as it was late, if that is longer.

use std::time::Duration;

/// A beat that is this much too late is counted, whatever kept the thread. An ordinary busy machine takes less.
const GAP: Duration = Duration::from_millis(20);
/// The same, if the thread did not wait for a processor: then it was stopped, or its whole machine was.
const STOPPED: Duration = Duration::from_millis(3);

/// A timer of an event loop is late by as much on its own.
const TIMER: Duration = Duration::from_millis(1);

/// The times between beats. No stop and no quota has a period that all of them are multiples of. In step with such a
/// period, every beat could fall into the part of it in which the process runs.
const EVERY_MS: [u64; 5] = [7, 11, 8, 13, 9];

/// The beats of one thread.
#[derive(Debug)]
pub(super) struct Beats {
    /// How much longer than [`EVERY_MS`] the times between them are.
    times: u32,
    count: usize,
    kept: Duration,
    longest: Duration,
    /// How late all beats were together.
    delays: Duration,
}

impl Beats {
    /// Beats about every `times` hundredths of a second.
    pub(super) fn every(times: u32) -> Self {
        Self { times, count: 0, kept: Duration::ZERO, longest: Duration::ZERO, delays: Duration::ZERO }
    }

    /// The time until the next beat.
    pub(super) fn next(&self) -> Duration {
        Duration::from_millis(EVERY_MS[self.count % EVERY_MS.len()]) * self.times
    }

    /// A beat came this much too late. Of that time the thread `computed` or waited for a processor (`queued`).
    pub(super) fn beat(&mut self, late: Duration, computed: Duration, queued: Duration) {
        let asked = self.next();
        self.count += 1;
        let gap = late.saturating_sub(computed);
        self.delays += gap.saturating_sub(TIMER);
        if gap >= GAP || gap.saturating_sub(queued) >= STOPPED {
            self.kept += gap.max(asked);
            self.longest = self.longest.max(gap);
        }
    }

    /// True if a beat that is this late may count.
    pub(super) fn is_late(late: Duration) -> bool {
        late >= STOPPED
    }

    /// How long an event waits for the thread, on average.
    pub(super) fn delay(&self) -> Duration {
        self.delays / u32::try_from(self.count).unwrap_or(u32::MAX).max(1)
    }

    /// For how long the thread was kept from running, and the longest such time.
    pub(super) fn kept(&self) -> (Duration, Duration) {
        (self.kept, self.longest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEP_NS: u64 = 10_000;

    /// The share that the beats find of a process that runs for a part of each period, from somewhere in it.
    fn found(times: u32, period_us: u64, stopped_us: u64, queued: bool) -> f64 {
        const LASTS: Duration = Duration::from_secs(60);
        let is_stopped =
            |at: Duration| (at.as_nanos() as u64 + 3_333) % (period_us * 1_000) < stopped_us * 1_000;
        let (mut beats, mut at) = (Beats::every(times), Duration::ZERO);
        while at < LASTS {
            let due = at + beats.next();
            at = due;
            while is_stopped(at) {
                at += Duration::from_nanos(STEP_NS);
            }
            let late = at - due;
            beats.beat(late, Duration::ZERO, if queued { late } else { Duration::ZERO });
        }
        beats.kept().0.as_secs_f64() / LASTS.as_secs_f64()
    }

    #[test]
    fn the_share_of_a_stop_is_found_whatever_its_period() {
        // The period and the stop, in microseconds.
        for (period, stopped) in [
            (70_000, 50_000),
            (100_000, 98_500),
            (100_000, 10_000),
            (100_000, 1_000),
            (20_000, 18_000),
            (1_000_000, 100_000),
            (1_000_000, 10_000),
            (200_000, 180_000),
            (50_000, 25_000),
            (10_000, 0),
        ] {
            // The first milliseconds of a wait do not count: a beat in the last part of a stop is hardly late.
            let uncounted = STOPPED.as_micros() as f64;
            let real = (stopped as f64 - uncounted).max(0.0) / period as f64;
            let share = found(1, period, stopped, false);
            // Of a short period, all beats together meet only some parts.
            let off = if period < 50_000 { 0.16 } else { 0.05 };
            assert!((share - real).abs() < off, "{stopped} of {period} µs: {share}, not {real}");
        }
    }

    #[test]
    fn short_waits_for_a_processor_are_those_of_any_busy_machine() {
        for (period, stopped, counts) in
            [(20_000, 10_000, false), (40_000, 19_000, false), (100_000, 90_000, true), (100_000, 0, false)]
        {
            let share = found(2, period, stopped, true);
            assert_eq!(share >= 0.1, counts, "{stopped} of {period} µs: {share}");
        }
        let mut beats = Beats::every(1);
        assert_eq!(beats.delay(), Duration::ZERO, "no beat yet");
        for late_ms in [1, 9, 5, 0] {
            beats.beat(Duration::from_millis(late_ms), Duration::ZERO, Duration::from_millis(late_ms));
        }
        assert_eq!((beats.delay(), beats.kept().0), (Duration::from_millis(3), Duration::ZERO));
        let mut beats = Beats::every(1);
        beats.beat(Duration::from_millis(90), Duration::from_millis(85), Duration::ZERO);
        assert_eq!(beats.kept().1, Duration::from_millis(5), "what it computed itself does not count");
    }
}
