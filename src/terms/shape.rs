//! Load shapes: pure functions of the time since a workload's start.
//!
//! [`Arrivals`] computes the due time of each iteration of an open model in closed form, so that each worker can
//! compute any arrival without the others. [`Concurrency`] computes the number of virtual users of a closed model. This
//! module must not read a clock or depend on the service.

use std::sync::Arc;
use std::time::Duration;

use super::poisson::Poisson;

/// Tolerance for whole arrivals: sums of rates times durations are not exact.
const SLACK: f64 = 1e-6;
const NS_PER_S: f64 = 1e9;

/// A segment of a shape: a value that changes linearly.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinearSegment {
    /// The length in seconds; infinite for the last segment of an endless shape.
    pub lasts_s: f64,
    /// The value at its start.
    pub from: f64,
    /// The value at its end.
    pub to: f64,
}

impl LinearSegment {
    /// A segment with the same value throughout.
    #[must_use]
    pub fn level(lasts_s: f64, value: f64) -> Self {
        Self { lasts_s, from: value, to: value }
    }

    /// The part before `lasts_s`.
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

    /// How many arrivals are due in the segment, if its value is a rate.
    fn arrivals(&self) -> f64 {
        let mean = f64::midpoint(self.from, self.to);
        if mean == 0.0 { 0.0 } else { mean * self.lasts_s }
    }

    /// The time since the start at which this many arrivals have been due: the inverse of the rate's integral.
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

/// A segment and its place in the shape.
#[derive(Clone, Copy, Debug)]
struct PlacedSegment {
    segment: LinearSegment,
    start_s: f64,
    /// The number of arrivals due before the segment.
    before: f64,
}

fn place(segments: impl IntoIterator<Item = LinearSegment>) -> Vec<PlacedSegment> {
    let (mut start_s, mut before) = (0.0, 0.0);
    let mut placed = Vec::new();
    for segment in segments {
        placed.push(PlacedSegment { segment, start_s, before });
        start_s += segment.lasts_s;
        before += segment.arrivals();
    }
    placed
}

/// When the iterations of an open model are due.
#[derive(Clone, Debug)]
pub struct Arrivals {
    segments: Vec<PlacedSegment>,
    total: u64,
    warm_up: u64,
    /// The arrivals of a rate of 1, if they come at random.
    random: Option<Arc<Poisson>>,
}

/// Finds the due times of arrivals with growing numbers, one after another.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cursor {
    last: Option<(u64, f64)>,
}

impl Arrivals {
    /// The arrivals for a rate, in iterations per second, that follows these segments: at most `times`, and none from
    /// `duration` on. Without either, the arrivals end with the segments.
    #[must_use]
    pub fn new(segments: &[LinearSegment], times: Option<u64>, duration: Option<Duration>) -> Self {
        let mut left_s = duration.map_or(f64::INFINITY, |duration| duration.as_secs_f64());
        let mut cut = Vec::new();
        for segment in segments {
            if left_s <= 0.0 {
                break;
            }
            cut.push(segment.cut(left_s));
            left_s -= segment.lasts_s;
        }
        let segments = place(cut);
        let all = segments.last().map_or(0.0, |last| last.before + last.segment.arrivals());
        Self { total: whole(all).min(times.unwrap_or(u64::MAX)), segments, warm_up: 0, random: None }
    }

    /// Adds a warm-up at the rate of the start: for this long, or with this many arrivals. `None` if that rate is zero.
    #[must_use]
    pub fn with_warm_up(&self, lasts: Option<Duration>, times: u64) -> Option<Self> {
        let rate = self.segments.first().map(|first| first.segment.from).filter(|rate| *rate > 0.0)?;
        let lasts_s = lasts.map_or_else(|| count(times) / rate, |lasts| lasts.as_secs_f64());
        let level = LinearSegment::level(lasts_s, rate);
        let warm_up = whole(level.arrivals());
        // The measured part begins with a whole arrival, so that its due times are the same as without a warm-up.
        let level = LinearSegment::level(count(warm_up) / rate, rate);
        let rest = self.segments.iter().map(|placed| placed.segment);
        let segments = place(std::iter::once(level).chain(rest));
        Some(Self { segments, total: self.total.saturating_add(warm_up), warm_up, random: None })
    }

    /// The same rate with arrivals at random, as a Poisson process: their number varies, unless `times` limits it and
    /// the rate lasts long enough.
    #[must_use]
    pub fn at_random(&self, seed: u64, times: Option<u64>) -> Self {
        let all = self.segments.last().map_or(0.0, |last| last.before + last.segment.arrivals());
        let limit = times.map_or(u64::MAX, |times| {
            // The warm-up's own number is not known yet; it is cut below.
            times.saturating_add(self.warm_up.saturating_mul(2)).saturating_add(1000)
        });
        let process = Poisson::new(seed, all, limit);
        let warm_up = if self.warm_up == 0 { 0 } else { process.before(count(self.warm_up)) };
        let total = process.total().min(times.map_or(u64::MAX, |times| times.saturating_add(warm_up)));
        Self { segments: self.segments.clone(), total, warm_up, random: Some(Arc::new(process)) }
    }

    /// The number of arrivals, including the warm-up.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.total
    }

    /// The number of arrivals in the warm-up. They come first.
    #[must_use]
    pub fn warm_up(&self) -> u64 {
        self.warm_up
    }

    /// The due time of arrival `number` (from 0), in nanoseconds since the start. It never decreases as `number` grows.
    #[must_use]
    pub fn due_ns(&self, number: u64) -> u64 {
        self.due_at_ns(self.random.as_ref().map_or(count(number), |process| process.at(number)))
    }

    /// The same, for a caller that asks for growing numbers.
    #[must_use]
    pub fn due_next_ns(&self, number: u64, cursor: &mut Cursor) -> u64 {
        let Some(process) = &self.random else { return self.due_ns(number) };
        let at = match cursor.last {
            Some(last) if last.0 <= number => process.after(last, number),
            _ => process.at(number),
        };
        cursor.last = Some((number, at));
        self.due_at_ns(at)
    }

    /// When the integral of the rate reaches `nth`.
    fn due_at_ns(&self, nth: f64) -> u64 {
        // An arrival on the border of two segments belongs to the second one, so it comes after a pause.
        let after = self.segments.partition_point(|placed| placed.before <= nth + SLACK);
        let with_arrivals = |placed: &&PlacedSegment| placed.segment.arrivals() > 0.0;
        let found = self.segments[..after].iter().rev().find(with_arrivals);
        found.map_or(0, |placed| {
            nanos(placed.start_s + placed.segment.time_of_s((nth - placed.before).max(0.0)))
        })
    }

    /// The rate at this time since the start; zero after the end.
    #[must_use]
    pub fn rate_per_s(&self, elapsed: Duration) -> f64 {
        value_at(&self.segments, elapsed)
    }

    /// The time from the start to the due time of the last arrival.
    #[must_use]
    pub fn lasts(&self) -> Duration {
        Duration::from_nanos(self.total.checked_sub(1).map_or(0, |last| self.due_ns(last)))
    }
}

/// The number of virtual users of a closed model over time.
#[derive(Clone, Debug)]
pub struct Concurrency {
    segments: Vec<PlacedSegment>,
}

impl Concurrency {
    /// This many virtual users, without an end.
    #[must_use]
    pub fn level(users: u32) -> Self {
        Self::new(&[LinearSegment::level(f64::INFINITY, f64::from(users))])
    }

    /// The virtual users for these segments, and none after them.
    #[must_use]
    pub fn new(segments: &[LinearSegment]) -> Self {
        Self { segments: place(segments.iter().copied()) }
    }

    /// Adds a warm-up with the number of users of the start.
    #[must_use]
    pub fn with_warm_up(&self, lasts: Duration) -> Self {
        let first = self.segments.first().map_or(0.0, |placed| placed.segment.from);
        let rest = self.segments.iter().map(|placed| placed.segment);
        let level = LinearSegment::level(lasts.as_secs_f64(), first);
        Self { segments: place(std::iter::once(level).chain(rest)) }
    }

    /// The number of virtual users at this time since the start.
    #[must_use]
    pub fn users(&self, elapsed: Duration) -> u32 {
        value_at(&self.segments, elapsed).round() as u32
    }

    /// The largest number of virtual users at any time.
    #[must_use]
    pub fn users_max(&self) -> u32 {
        let ends = self.segments.iter().flat_map(|placed| [placed.segment.from, placed.segment.to]);
        ends.fold(0.0, f64::max).round() as u32
    }

    /// True if the number never changes.
    #[must_use]
    pub fn is_level(&self) -> bool {
        matches!(self.segments.as_slice(), [only] if only.segment.lasts_s.is_infinite())
    }
}

/// The value at a time; zero after the end.
fn value_at(segments: &[PlacedSegment], elapsed: Duration) -> f64 {
    let at_s = elapsed.as_secs_f64();
    let after = segments.partition_point(|placed| placed.start_s <= at_s);
    let Some(placed) = after.checked_sub(1).map(|index| &segments[index]) else { return 0.0 };
    let since_s = at_s - placed.start_s;
    if since_s < placed.segment.lasts_s { placed.segment.value_at(since_s) } else { 0.0 }
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

    fn line(lasts_s: f64, from: f64, to: f64) -> LinearSegment {
        LinearSegment { lasts_s, from, to }
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
        for (name, segments, times, duration, expected) in rows {
            assert_eq!(due_ms(&Arrivals::new(&segments, times, duration)), expected, "{name}");
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

    fn segments() -> impl Strategy<Value = Vec<LinearSegment>> {
        let rate = prop_oneof![Just(0.0), 0.01..10.0_f64, 10.0..20_000.0_f64];
        proptest::collection::vec((0.001..30.0_f64, rate.clone(), rate), 1..6).prop_map(|stages| {
            stages.into_iter().map(|(lasts_s, from, to)| line(lasts_s, from, to)).collect()
        })
    }

    proptest! {
        #[test]
        fn due_times_never_decrease_and_stay_within_the_shape(
            segments in segments(),
            numbers in proptest::collection::vec(0.0..1.0_f64, 20),
        ) {
            let arrivals = Arrivals::new(&segments, None, None);
            let end_ns = nanos(segments.iter().map(|segment| segment.lasts_s).sum());
            for number in numbers {
                let number = (number * arrivals.total() as f64) as u64;
                for next in number..(number + 50).min(arrivals.total().saturating_sub(1)) {
                    prop_assert!(arrivals.due_ns(next) <= arrivals.due_ns(next + 1));
                    prop_assert!(arrivals.due_ns(next + 1) <= end_ns);
                }
            }
        }

        #[test]
        fn the_integral_of_the_rate_matches_the_count(segments in segments(), share in 0.0..1.0_f64) {
            let arrivals = Arrivals::new(&segments, None, None);
            let ends_s: f64 = segments.iter().map(|segment| segment.lasts_s).sum();
            let at_s = share * ends_s;
            // By small trapezia, an independent way to the same number.
            let (mut integral, mut start_s) = (0.0, 0.0);
            for segment in &segments {
                let within_s = (at_s - start_s).clamp(0.0, segment.lasts_s);
                for part in 0..100 {
                    let [a, b] = [part, part + 1].map(|part| {
                        let share = f64::from(part) / 100.0 * within_s / segment.lasts_s;
                        segment.from + (segment.to - segment.from) * share
                    });
                    integral += (a + b) / 2.0 * within_s / 100.0;
                }
                start_s += segment.lasts_s;
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
