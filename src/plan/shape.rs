//! Load shapes: pure functions of the time since a workload's start.
//!
//! [`Arrivals`] says when each iteration of an open model is due, in closed form, so that any worker
//! finds any arrival on its own; [`Concurrency`] says how many virtual users a closed model has.
//! No clock is read here, and nothing depends on how the service does.

use std::time::Duration;

/// So much may be missing to the next whole arrival: sums of rates times durations are not exact.
const SLACK: f64 = 1e-6;
const NS_PER_S: f64 = 1e9;

/// One stretch of a shape: a value that goes from one to another in a straight line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stretch {
    /// How long it lasts in seconds; infinite for the last one of a shape without an end.
    pub lasts_s: f64,
    /// The value at its start.
    pub from: f64,
    /// The value at its end.
    pub to: f64,
}

impl Stretch {
    /// A stretch with the same value throughout.
    #[must_use]
    pub fn level(lasts_s: f64, value: f64) -> Self {
        Self { lasts_s, from: value, to: value }
    }

    /// The part of it before `lasts_s`.
    fn cut(self, lasts_s: f64) -> Self {
        if lasts_s >= self.lasts_s {
            return self;
        }
        Self { lasts_s, to: self.value_at(lasts_s), ..self }
    }

    /// The value at this time since its start.
    fn value_at(&self, at_s: f64) -> f64 {
        if self.from == self.to || self.lasts_s <= 0.0 {
            return self.to;
        }
        self.from + (self.to - self.from) * (at_s / self.lasts_s).clamp(0.0, 1.0)
    }

    /// How many arrivals are due in it, when its value is a rate.
    fn arrivals(&self) -> f64 {
        let mean = f64::midpoint(self.from, self.to);
        if mean == 0.0 { 0.0 } else { mean * self.lasts_s }
    }

    /// When so many arrivals have been due, since its start: the inverse of the rate's integral.
    fn time_of_s(&self, arrivals: f64) -> f64 {
        if self.from == self.to {
            return arrivals / self.from;
        }
        // Of the two forms of the root, this one is exact for small slopes and for a start at zero.
        let slope = (self.to - self.from) / self.lasts_s;
        let root = (self.from * self.from + 2.0 * slope * arrivals).max(0.0).sqrt();
        let time_s = if arrivals == 0.0 { 0.0 } else { 2.0 * arrivals / (self.from + root) };
        time_s.min(self.lasts_s)
    }
}

/// A stretch with what came before it.
#[derive(Clone, Copy, Debug)]
struct Placed {
    stretch: Stretch,
    start_s: f64,
    /// Arrivals that were due before it.
    before: f64,
}

fn place(stretches: impl IntoIterator<Item = Stretch>) -> Vec<Placed> {
    let (mut start_s, mut before) = (0.0, 0.0);
    let mut placed = Vec::new();
    for stretch in stretches {
        placed.push(Placed { stretch, start_s, before });
        start_s += stretch.lasts_s;
        before += stretch.arrivals();
    }
    placed
}

/// When the iterations of an open model are due.
#[derive(Clone, Debug)]
pub struct Arrivals {
    stretches: Vec<Placed>,
    total: u64,
    warm_up: u64,
}

impl Arrivals {
    /// The arrivals of a rate that goes through these stretches, in iterations a second; at most
    /// `times`, and none from `duration` on. Without either, it ends with its stretches.
    #[must_use]
    pub fn new(stretches: &[Stretch], times: Option<u64>, duration: Option<Duration>) -> Self {
        let mut left_s = duration.map_or(f64::INFINITY, |duration| duration.as_secs_f64());
        let mut cut = Vec::new();
        for stretch in stretches {
            if left_s <= 0.0 {
                break;
            }
            cut.push(stretch.cut(left_s));
            left_s -= stretch.lasts_s;
        }
        let stretches = place(cut);
        let all = stretches.last().map_or(0.0, |last| last.before + last.stretch.arrivals());
        Self { total: whole(all).min(times.unwrap_or(u64::MAX)), stretches, warm_up: 0 }
    }

    /// The same after a warm-up at the rate of the start: for so long, or of so many arrivals.
    /// `None` when that rate is zero.
    #[must_use]
    pub fn with_warm_up(&self, lasts: Option<Duration>, times: u64) -> Option<Self> {
        let rate = self.stretches.first().map(|first| first.stretch.from).filter(|rate| *rate > 0.0)?;
        let lasts_s = lasts.map_or_else(|| count(times) / rate, |lasts| lasts.as_secs_f64());
        let level = Stretch::level(lasts_s, rate);
        let warm_up = whole(level.arrivals());
        // The measured part begins with a whole arrival, so that its times are those without warm-up.
        let level = Stretch::level(count(warm_up) / rate, rate);
        let rest = self.stretches.iter().map(|placed| placed.stretch);
        let stretches = place(std::iter::once(level).chain(rest));
        Some(Self { stretches, total: self.total.saturating_add(warm_up), warm_up })
    }

    /// How many arrivals there are, with those of the warm-up.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.total
    }

    /// How many of them are the warm-up's; they come first.
    #[must_use]
    pub fn warm_up(&self) -> u64 {
        self.warm_up
    }

    /// When arrival `number` (from 0) is due, in nanoseconds since the start. It never decreases
    /// with the number.
    #[must_use]
    pub fn due_ns(&self, number: u64) -> u64 {
        let nth = count(number);
        // An arrival on the border of two stretches is the first of the second one: behind a pause.
        let after = self.stretches.partition_point(|placed| placed.before <= nth + SLACK);
        let with_arrivals = |placed: &&Placed| placed.stretch.arrivals() > 0.0;
        let found = self.stretches[..after].iter().rev().find(with_arrivals);
        found.map_or(0, |placed| {
            nanos(placed.start_s + placed.stretch.time_of_s((nth - placed.before).max(0.0)))
        })
    }

    /// The rate that is asked for at this time since the start; zero after the end.
    #[must_use]
    pub fn rate_per_s(&self, elapsed: Duration) -> f64 {
        value_at(&self.stretches, elapsed)
    }

    /// From the start to the last arrival's due time.
    #[must_use]
    pub fn lasts(&self) -> Duration {
        Duration::from_nanos(self.total.checked_sub(1).map_or(0, |last| self.due_ns(last)))
    }
}

/// How many virtual users a closed model has.
#[derive(Clone, Debug)]
pub struct Concurrency {
    stretches: Vec<Placed>,
}

impl Concurrency {
    /// So many virtual users, without an end.
    #[must_use]
    pub fn level(users: u32) -> Self {
        Self::new(&[Stretch::level(f64::INFINITY, f64::from(users))])
    }

    /// The virtual users of these stretches, and none after them.
    #[must_use]
    pub fn new(stretches: &[Stretch]) -> Self {
        Self { stretches: place(stretches.iter().copied()) }
    }

    /// The same after a warm-up with the users of the start.
    #[must_use]
    pub fn with_warm_up(&self, lasts: Duration) -> Self {
        let first = self.stretches.first().map_or(0.0, |placed| placed.stretch.from);
        let rest = self.stretches.iter().map(|placed| placed.stretch);
        let level = Stretch::level(lasts.as_secs_f64(), first);
        Self { stretches: place(std::iter::once(level).chain(rest)) }
    }

    /// How many virtual users there are at this time since the start.
    #[must_use]
    pub fn users(&self, elapsed: Duration) -> u32 {
        value_at(&self.stretches, elapsed).round() as u32
    }

    /// The most virtual users at any time.
    #[must_use]
    pub fn users_max(&self) -> u32 {
        let ends = self.stretches.iter().flat_map(|placed| [placed.stretch.from, placed.stretch.to]);
        ends.fold(0.0, f64::max).round() as u32
    }

    /// True when the number never changes.
    #[must_use]
    pub fn is_level(&self) -> bool {
        matches!(self.stretches.as_slice(), [only] if only.stretch.lasts_s.is_infinite())
    }
}

/// The value at a time; behind the end it is zero.
fn value_at(stretches: &[Placed], elapsed: Duration) -> f64 {
    let at_s = elapsed.as_secs_f64();
    let after = stretches.partition_point(|placed| placed.start_s <= at_s);
    let Some(placed) = after.checked_sub(1).map(|index| &stretches[index]) else { return 0.0 };
    let since_s = at_s - placed.start_s;
    if since_s < placed.stretch.lasts_s { placed.stretch.value_at(since_s) } else { 0.0 }
}

fn whole(arrivals: f64) -> u64 {
    (arrivals - SLACK).ceil().max(0.0) as u64
}

fn count(number: u64) -> f64 {
    number as f64
}

fn nanos(seconds: f64) -> u64 {
    (seconds * NS_PER_S).round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MS: u64 = 1_000_000;

    fn line(lasts_s: f64, from: f64, to: f64) -> Stretch {
        Stretch { lasts_s, from, to }
    }

    fn due_ms(arrivals: &Arrivals) -> Vec<f64> {
        (0..arrivals.total()).map(|number| arrivals.due_ns(number) as f64 / MS as f64).collect()
    }

    #[test]
    fn arrivals_are_due_when_the_integral_of_the_rate_reaches_their_number() {
        let forever = f64::INFINITY;
        let ten_seconds = Some(Duration::from_secs(10));
        let rows = [
            ("constant, by times", vec![line(forever, 4.0, 4.0)], Some(3), None, vec![0.0, 250.0, 500.0]),
            (
                "constant, by duration",
                vec![line(forever, 0.3, 0.3)],
                None,
                ten_seconds,
                vec![0.0, 3333.333333, 6666.666667],
            ),
            ("a rising line", vec![line(2.0, 0.0, 2.0)], None, None, vec![0.0, 1414.213562]),
            ("a falling line", vec![line(2.0, 2.0, 0.0)], None, None, vec![0.0, 585.786_438]),
            (
                "steps",
                vec![line(1.0, 2.0, 2.0), line(forever, 4.0, 4.0)],
                Some(5),
                None,
                vec![0.0, 500.0, 1000.0, 1250.0, 1500.0],
            ),
            (
                "a pause between",
                vec![line(1.0, 2.0, 2.0), line(5.0, 0.0, 0.0), line(1.0, 2.0, 2.0)],
                None,
                None,
                vec![0.0, 500.0, 6000.0, 6500.0],
            ),
            ("nothing at all", vec![line(5.0, 0.0, 0.0)], None, None, vec![]),
            (
                "cut within a line",
                vec![line(20.0, 0.0, 2.0)],
                None,
                ten_seconds,
                vec![0.0, 4472.135955, 6324.55532, 7745.966692, 8944.27191],
            ),
        ];
        for (name, stretches, times, duration, expected) in rows {
            assert_eq!(due_ms(&Arrivals::new(&stretches, times, duration)), expected, "{name}");
        }
    }

    #[test]
    fn a_whole_number_of_arrivals_is_not_one_more_for_want_of_precision() {
        for (rate, seconds, expected) in
            [(10.0, 1, 10), (0.1, 30, 3), (1.1, 10, 11), (3333.3, 10, 33_333), (1e6, 60, 60_000_000)]
        {
            let arrivals =
                Arrivals::new(&[line(f64::INFINITY, rate, rate)], None, Some(Duration::from_secs(seconds)));
            assert_eq!(arrivals.total(), expected, "{rate}/s");
        }
    }

    #[test]
    fn a_warm_up_goes_before_at_the_rate_of_the_start() {
        let shape = Arrivals::new(&[line(1.0, 2.0, 4.0)], None, None);
        for (lasts, times, warm_up, first_ms) in
            [(Some(Duration::from_secs(2)), 0, 4, 2000.0), (None, 3, 3, 1500.0)]
        {
            let warmed = shape.with_warm_up(lasts, times).unwrap();
            assert_eq!((warmed.warm_up(), warmed.total()), (warm_up, warm_up + shape.total()));
            let expected: Vec<f64> = due_ms(&shape).iter().map(|due| due + first_ms).collect();
            assert_eq!(due_ms(&warmed)[warm_up as usize..], expected);
        }
        assert!(Arrivals::new(&[line(1.0, 0.0, 4.0)], None, None).with_warm_up(None, 1).is_none());
    }

    #[test]
    fn users_follow_the_stages_and_leave_at_the_end() {
        let ramp = Concurrency::new(&[line(10.0, 0.0, 10.0), line(5.0, 10.0, 10.0), line(1.0, 3.0, 3.0)]);
        let at = |ms: u64| ramp.users(Duration::from_millis(ms));
        assert_eq!(
            [0, 400, 600, 5_000, 9_999, 12_000, 15_000, 15_999, 16_000].map(at),
            [0, 0, 1, 5, 10, 10, 3, 3, 0]
        );
        assert_eq!(ramp.users_max(), 10);
        let level = Concurrency::level(7);
        assert_eq!((level.users(Duration::MAX), level.users_max(), level.is_level()), (7, 7, true));
        let warmed = ramp.with_warm_up(Duration::from_secs(4));
        assert_eq!([0, 3_999, 9_000].map(|ms| warmed.users(Duration::from_millis(ms))), [0, 0, 5]);
    }

    fn stretches() -> impl Strategy<Value = Vec<Stretch>> {
        let rate = prop_oneof![Just(0.0), 0.01..10.0_f64, 10.0..20_000.0_f64];
        proptest::collection::vec((0.001..30.0_f64, rate.clone(), rate), 1..6).prop_map(|stages| {
            stages.into_iter().map(|(lasts_s, from, to)| line(lasts_s, from, to)).collect()
        })
    }

    proptest! {
        #[test]
        fn due_times_never_decrease_and_stay_within_the_shape(
            stretches in stretches(),
            numbers in proptest::collection::vec(0.0..1.0_f64, 20),
        ) {
            let arrivals = Arrivals::new(&stretches, None, None);
            let end_ns = nanos(stretches.iter().map(|stretch| stretch.lasts_s).sum());
            for number in numbers {
                let number = (number * arrivals.total() as f64) as u64;
                for next in number..(number + 50).min(arrivals.total().saturating_sub(1)) {
                    prop_assert!(arrivals.due_ns(next) <= arrivals.due_ns(next + 1));
                    prop_assert!(arrivals.due_ns(next + 1) <= end_ns);
                }
            }
        }

        #[test]
        fn the_integral_of_the_rate_matches_the_count(stretches in stretches(), share in 0.0..1.0_f64) {
            let arrivals = Arrivals::new(&stretches, None, None);
            let ends_s: f64 = stretches.iter().map(|stretch| stretch.lasts_s).sum();
            let at_s = share * ends_s;
            // By small trapezia, an independent way to the same number.
            let (mut integral, mut start_s) = (0.0, 0.0);
            for stretch in &stretches {
                let within_s = (at_s - start_s).clamp(0.0, stretch.lasts_s);
                for part in 0..100 {
                    let [a, b] = [part, part + 1].map(|part| {
                        let share = f64::from(part) / 100.0 * within_s / stretch.lasts_s;
                        stretch.from + (stretch.to - stretch.from) * share
                    });
                    integral += (a + b) / 2.0 * within_s / 100.0;
                }
                start_s += stretch.lasts_s;
            }
            let at_ns = nanos(at_s);
            let (mut low, mut high) = (0, arrivals.total());
            while low < high {
                let middle = low.midpoint(high);
                if arrivals.due_ns(middle) < at_ns { low = middle + 1 } else { high = middle }
            }
            prop_assert!((low as f64 - integral).abs() <= 1.0 + integral * 1e-9, "{low} by {at_s} s: {integral}");
        }
    }
}
