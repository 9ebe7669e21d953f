//! Clock skew between hosts: the shift that puts every call inside its caller.
//!
//! All calls between a pair of hosts bound the shift: the called host's clock must move by at least
//! `caller.start - call.start` and at most `caller.end - call.end`. Single calls can be exceptions (a response
//! that the caller did not wait for), so the bounds are a high and a low percentile. There is one shift for each pair
//! of hosts, never one for each span: centring each span (jaegertracing/jaeger#1459) would hide the network's time.

use std::collections::HashMap;

use statistics::order::at_percentile;

/// Some clocks count whole milliseconds, such as JavaScript's: a smaller difference does not show a drift.
pub(super) const RESOLUTION_US: i64 = 1_000;

/// If no shift fits all calls, one may fit all but this part of them: calls to a service that was blocked outlive their callers.
const EXCEPTIONS_PERCENT: [f64; 2] = [10.0, 25.0];

/// The bounds on the shift from the calls between two hosts.
#[derive(Clone, Debug, Default)]
pub struct Bounds {
    low_us: Vec<i64>,
    high_us: Vec<i64>,
}

/// The relation of two hosts' clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shift {
    /// The calls need no shift.
    None,
    /// The called host's clock must move by this many microseconds.
    By(i64),
    /// No shift fits almost all calls: a clock drifted during the run, or calls outlive their callers. This one fits most of
    /// them, if they need any.
    Inconsistent(Option<i64>),
}

impl Bounds {
    /// Adds a call: the start and end of the caller and of the call, each on its host's clock.
    pub fn note(&mut self, caller_us: (i64, i64), call_us: (i64, i64)) {
        self.low_us.push(caller_us.0.saturating_sub(call_us.0));
        self.high_us.push(caller_us.1.saturating_sub(call_us.1));
    }

    /// The shift that fits almost all calls.
    #[must_use]
    pub fn shift(&self) -> Shift {
        match self.shift_of_all_but(1.0) {
            Some(0) => Shift::None,
            Some(us) => Shift::By(us),
            None if self.low_us.is_empty() => Shift::None,
            None => Shift::Inconsistent(
                EXCEPTIONS_PERCENT
                    .iter()
                    .find_map(|percent| self.shift_of_all_but(*percent))
                    .filter(|us| *us != 0),
            ),
        }
    }

    /// The shift that fits all calls but this part of them, in percent; `None` if none does.
    fn shift_of_all_but(&self, percent: f64) -> Option<i64> {
        let (low, high) = (percentile(&self.low_us, 100.0 - percent)?, percentile(&self.high_us, percent)?);
        let is_apart = low > high;
        match () {
            () if low <= 0 && 0 <= high => Some(0),
            () if is_apart && low <= RESOLUTION_US && -RESOLUTION_US <= high => Some(0),
            // Two such clocks spread the bounds by up to two of these; the middle is right within one.
            () if is_apart && low.saturating_sub(high) <= 2 * RESOLUTION_US => Some(i64::midpoint(low, high)),
            () if is_apart => None,
            // The bound that is closest to 0.
            () if low > 0 => Some(low),
            () => Some(high),
        }
    }
}

/// The shifts between all pairs of hosts, by (caller, called).
#[must_use]
pub fn shifts<Host: Clone + Eq + std::hash::Hash>(
    bounds: &HashMap<(Host, Host), Bounds>,
) -> HashMap<(Host, Host), Shift> {
    bounds.iter().map(|(pair, bounds)| (pair.clone(), bounds.shift())).collect()
}

fn percentile(values: &[i64], percent: f64) -> Option<i64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    at_percentile(&sorted, percent)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    type Interval = (i64, i64);

    fn shift(calls: &[(Interval, Interval)]) -> Shift {
        let mut bounds = Bounds::default();
        calls.iter().for_each(|&(caller, call)| bounds.note(caller, call));
        bounds.shift()
    }

    #[test]
    fn the_smallest_shift_that_fits_is_taken() {
        assert_eq!(shift(&[]), Shift::None);
        assert_eq!(shift(&[((0, 100), (10, 90))]), Shift::None);
        // Its clock is 50 behind: the call seems to start before its caller.
        assert_eq!(shift(&[((0, 100), (-40, 40))]), Shift::By(40));
        assert_eq!(shift(&[((0, 100), (60, 140))]), Shift::By(-40));
        // No shift fits both, but a clock of whole milliseconds would explain it; a drift is more.
        let around = |us: i64| shift(&[((0, 100), (-us, 40)), ((0, 100), (60, 100 + us))]);
        assert_eq!((around(40), around(1_000)), (Shift::None, Shift::None));
        assert_eq!(around(1_001), Shift::Inconsistent(None));
        // One in ten outlives its caller by much; the others say that the clock is 50 ms ahead.
        let late = |number: i64| ((0, 3_000), (50_100, if number % 8 == 0 { 90_000 } else { 52_900 }));
        assert_eq!(shift(&(0..80).map(late).collect::<Vec<_>>()), Shift::Inconsistent(Some(-49_900)));
        // A clock that is 50 ms ahead, where both count whole milliseconds.
        let coarse = [((0, 3_000), (50_100, 52_900)), ((0, 3_000), (49_110, 51_910))];
        assert_eq!(shift(&coarse), Shift::By(-49_505));
    }

    proptest! {
        #[test]
        fn a_shifted_clock_is_found(skew in -50_000..50_000_i64, calls in prop::collection::vec((0..5_000_i64, 1..5_000_i64, 0..5_000_i64), 1..80)) {
            let noted: Vec<_> = calls
                .iter()
                .map(|&(before, inside, after)| ((0, before + inside + after), (before + skew, before + inside + skew)))
                .collect();
            let by = match shift(&noted) {
                Shift::None => 0,
                Shift::By(us) => us,
                Shift::Inconsistent(_) => panic!("one shift fits all calls: {}", -skew),
            };
            // The shift puts almost every call inside its caller; with fewer than 100 calls, every call.
            for ((start, end), (from, to)) in noted {
                prop_assert!(start <= from + by && to + by <= end);
            }
        }
    }
}
