//! Clock skew between hosts: the shift that puts every call inside its caller.
//!
//! All calls between a pair of hosts bound the shift: the called host's clock must move by at least
//! `caller.start - call.start` and at most `caller.end - call.end`. Single calls can be exceptions (a response
//! that the caller did not wait for), so the bounds are a high and a low percentile. There is one shift for each pair
//! of hosts, never one for each span: centring each span (jaegertracing/jaeger#1459) would hide the network's time.

use std::collections::HashMap;

use crate::base::statistics::order::at_percentile;

/// Some clocks count whole milliseconds, such as JavaScript's: a smaller difference does not show a drift.
const RESOLUTION_US: i64 = 1_000;

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
    /// No shift fits: a clock drifted during the run, or calls outlive their callers.
    Inconsistent,
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
        let (Some(low), Some(high)) = (percentile(&self.low_us, 99.0), percentile(&self.high_us, 1.0)) else {
            return Shift::None;
        };
        match () {
            () if low <= 0 && 0 <= high => Shift::None,
            () if low > high && low <= RESOLUTION_US && -RESOLUTION_US <= high => Shift::None,
            () if low > high => Shift::Inconsistent,
            // The bound that is closest to 0.
            () if low > 0 => Shift::By(low),
            () => Shift::By(high),
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
        assert_eq!(around(1_001), Shift::Inconsistent);
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
                Shift::Inconsistent => panic!("one shift fits all calls: {}", -skew),
            };
            // The shift puts almost every call inside its caller; with fewer than 100 calls, every call.
            for ((start, end), (from, to)) in noted {
                prop_assert!(start <= from + by && to + by <= end);
            }
        }
    }
}
