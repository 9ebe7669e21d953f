//! After how long response times are good again when a load that was too high for a service falls to one that it bears.
//!
//! A service that keeps what it cannot serve, or whose clients try again, may stay overloaded at a rate that it bore before:
//! a metastable failure (Bronson and others, HotOS 2021).

/// Response times in intervals of the same length.
#[derive(Clone, Debug, Default)]
pub struct ResponseSeries<'a> {
    /// The offset of the first interval, in seconds.
    pub start_s: f64,
    /// The length of an interval.
    pub step_s: f64,
    /// How many iterations ended in each.
    pub ended: &'a [u64],
    /// How many of them failed.
    pub failed: &'a [u64],
    /// The median of their response times, in milliseconds.
    pub p50_ms: &'a [f64],
}

/// What is good enough.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GoodEnough {
    /// The median of an interval is at most this, in milliseconds.
    pub p50_ms: f64,
    /// At most this share of its iterations fail.
    pub failed_share: f64,
}

/// So large a share of all intervals from the recovery on is good: a machine pauses now and then.
const GOOD_SHARE: f64 = 0.8;
/// It is followed by at least so many.
const INTERVALS_MIN: usize = 4;

/// The seconds after `fell_s` until iterations were good again and stayed so. `None` if they did not, or if that cannot be
/// told because too little was seen after it.
#[must_use]
pub fn recovered_after_s(series: &ResponseSeries<'_>, fell_s: f64, good: GoodEnough) -> Option<f64> {
    let begins_s = |number: usize| series.start_s + number as f64 * series.step_s;
    let is_good = |number: usize| {
        let ended = series.ended[number];
        ended > 0
            && series.p50_ms[number] <= good.p50_ms
            && series.failed[number] as f64 <= good.failed_share * ended as f64
    };
    // The last interval is a piece.
    let numbers = 0..series.ended.len().saturating_sub(1);
    let after: Vec<(usize, bool)> = numbers
        .filter(|number| begins_s(*number) >= fell_s)
        .map(|number| (number, is_good(number)))
        .collect();
    let stays = |place: usize| {
        let rest = &after[place..];
        let good = rest.iter().filter(|(_, good)| *good).count();
        rest.len() >= INTERVALS_MIN && rest[0].1 && good as f64 >= GOOD_SHARE * rest.len() as f64
    };
    let place = (0..after.len()).find(|place| stays(*place))?;
    Some((begins_s(after[place].0) - fell_s).max(0.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_has_recovered_when_iterations_stay_good() {
        let good = GoodEnough { p50_ms: 20.0, failed_share: 0.05 };
        // Medians by half seconds, failed iterations of ten, and after how long it recovers when the load falls at 2 s.
        for (what, p50_ms, failed, expected) in [
            ("at once", "9 90 90 90 9 9 9 9 9 9", "0 0 0 0 0 0 0 0 0 0", Some(0.0)),
            ("after a second", "9 90 90 90 90 90 9 9 9 9 9", "0 0 0 0 0 0 0 0 0 0 0", Some(1.0)),
            ("with a pause", "9 90 90 90 90 9 9 9 90 9 9 9 9", "0 0 0 0 0 0 0 0 0 0 0 0 0", Some(0.5)),
            ("never", "9 90 90 90 90 90 90 90 90 90", "0 0 0 0 0 0 0 0 0 0", None),
            ("too late to say", "9 90 90 90 90 90 90 9 9 9", "0 0 0 0 0 0 0 0 0 0", None),
            ("it answers with errors", "9 90 90 90 9 9 9 9 9 9", "0 0 0 0 9 9 9 9 9 9", None),
            ("errors end", "9 90 90 90 9 9 9 9 9 9 9", "0 0 0 0 9 9 0 0 0 0 0", Some(1.0)),
            ("good and bad by turns", "9 90 90 90 9 90 9 90 9 90 9", "0 0 0 0 0 0 0 0 0 0 0", None),
            ("nothing was seen", "", "", None),
        ] {
            let numbers = |text: &str| text.split_whitespace().map(|one| one.parse().unwrap()).collect();
            let (p50_ms, failed): (Vec<f64>, Vec<u64>) =
                (numbers(p50_ms), numbers(failed).into_iter().map(|one: f64| one as u64).collect());
            let ended = vec![10; p50_ms.len()];
            let series =
                ResponseSeries { start_s: 0.0, step_s: 0.5, ended: &ended, failed: &failed, p50_ms: &p50_ms };
            assert_eq!(recovered_after_s(&series, 2.0, good), expected, "{what}");
        }
    }
}
