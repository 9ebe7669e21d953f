//! Places of spans whose clock counts whole milliseconds.
//!
//! OpenTelemetry's SDK for JavaScript writes the start of a span in whole milliseconds, cut off, and its end as that
//! start plus a precise duration (`@opentelemetry/sdk-trace-base` 2.12.1). So every span of a Node service lies up to a
//! millisecond too early: short calls that ran one after another lie on top of each other, and some seem to outlive
//! their parents. The durations are right. Here, spans are moved later by less than a millisecond, where that puts them
//! into the only order that their parents and siblings allow. A span begins and ends within its parent, whatever clock
//! timed the parent. Calls of one parent that would overlap by less than a millisecond ran one after another. Calls
//! that overlap by more stay as they are: they were made at the same time. A span whose start was given to the SDK has
//! an exact one among others in whole milliseconds. So each span is judged by itself, if most of its service's spans
//! start on whole milliseconds.

use std::collections::HashMap;

/// What the clock counts, in microseconds.
const RESOLUTION_US: u64 = 1_000;
/// Each round may move a span because of the ones that the round before has moved.
const ROUNDS_MAX: usize = 16;
/// At least this part of a service's spans starts on a whole millisecond; of a clock that counts microseconds, one in a
/// thousand does.
const WHOLE_MIN: f64 = 0.5;

/// Whose clock it is: project, service and host.
pub(super) type Clock<'p> = [Option<&'p str>; 3];

/// A point of a trace.
#[derive(Clone, Debug)]
pub(super) struct PlacedPoint<'p> {
    pub(super) clock: Clock<'p>,
    /// The index of its parent, which comes before it.
    pub(super) parent: Option<usize>,
    /// Microseconds from the first record of the trace.
    pub(super) start_us: u64,
    /// `None` if its start or its stop is missing.
    pub(super) duration_us: Option<u64>,
}

impl PlacedPoint<'_> {
    fn end_us(&self) -> Option<u64> {
        Some(self.start_us.saturating_add(self.duration_us?))
    }
}

/// Moves the points of such clocks. `first_us` is the zero of their times on the wall clock. False if there are none.
/// `has_kind` says whether the point at an index has a kind. Points of OSProfiler and internal spans have none.
pub(super) fn settle(
    points: &mut [PlacedPoint<'_>],
    first_us: i64,
    has_kind: impl Fn(usize) -> bool,
) -> bool {
    let clocks = clocks(points, first_us, has_kind);
    if clocks.iter().all(Option::is_none) {
        return false;
    }
    let stated: Vec<u64> = points.iter().map(|point| point.start_us).collect();
    for _ in 0..ROUNDS_MAX {
        let one_after_another = siblings(points, &clocks, &stated);
        let within_parents = parents(points, &clocks, &stated);
        if !one_after_another && !within_parents {
            break;
        }
    }
    true
}

/// The clock of each point, as a number, if it counts whole milliseconds.
fn clocks(points: &[PlacedPoint<'_>], first_us: i64, has_kind: impl Fn(usize) -> bool) -> Vec<Option<usize>> {
    #[derive(Clone, Default)]
    struct ClockTally {
        spans: usize,
        whole: usize,
        ends_between: bool,
    }
    let zero_us = first_us.rem_euclid(1_000).unsigned_abs();
    let is_whole = |us: u64| zero_us.wrapping_add(us).is_multiple_of(RESOLUTION_US);
    let of_point = numbered(points);
    let clocks = of_point.iter().max().map_or(0, |most| most + 1);
    let mut all = vec![ClockTally::default(); clocks];
    let with_time = || points.iter().zip(&of_point).filter(|(point, _)| point.duration_us.is_some());
    for (point, number) in with_time() {
        let seen = &mut all[*number];
        seen.spans += 1;
        if is_whole(point.start_us) {
            seen.whole += 1;
            seen.ends_between |= point.end_us().is_some_and(|end| !is_whole(end));
        }
    }
    let is_mostly_whole =
        |seen: &ClockTally| seen.ends_between && seen.whole as f64 >= WHOLE_MIN * seen.spans as f64;
    let mut is_coarse: Vec<bool> = all.iter().map(is_mostly_whole).collect();
    // Whether a point has a kind takes long to find out.
    let mut has_kinds = vec![false; clocks];
    if is_coarse.contains(&true) {
        for (index, number) in of_point.iter().enumerate() {
            if is_coarse[*number] && !has_kinds[*number] && points[index].duration_us.is_some() {
                has_kinds[*number] = has_kind(index);
            }
        }
    }
    is_coarse.iter_mut().zip(has_kinds).for_each(|(is_coarse, has_kinds)| *is_coarse &= has_kinds);
    let known = |(point, number): (&PlacedPoint<'_>, &usize)| {
        let is_coarse = is_coarse[*number] && is_whole(point.start_us);
        (is_coarse && point.duration_us.is_some()).then_some(*number)
    };
    points.iter().zip(&of_point).map(known).collect()
}

/// The clock of each point, as a number. Points that follow each other mostly have the same one.
fn numbered<'p>(points: &[PlacedPoint<'p>]) -> Vec<usize> {
    let mut known: HashMap<Clock<'p>, usize> = HashMap::new();
    let mut last: Option<(Clock<'p>, usize)> = None;
    let mut numbers = Vec::with_capacity(points.len());
    for PlacedPoint { clock, .. } in points {
        let number = match last {
            Some((same, number)) if same == *clock => number,
            _ => {
                let next = known.len();
                *known.entry(*clock).or_insert(next)
            }
        };
        last = Some((*clock, number));
        numbers.push(number);
    }
    numbers
}

/// Moves a point to `us`, if that is less than the resolution after what its record says. True if it moved.
fn move_to(points: &mut [PlacedPoint<'_>], stated: &[u64], index: usize, us: u64) -> bool {
    let may = us > points[index].start_us && us - stated[index] < RESOLUTION_US;
    if may {
        points[index].start_us = us;
    }
    may
}

/// Begins each point within its parent, and after the siblings before it that would overlap by less than the resolution.
fn siblings(points: &mut [PlacedPoint<'_>], clocks: &[Option<usize>], stated: &[u64]) -> bool {
    let mut moved = false;
    // Where the last of the children of each point ends.
    let mut ends: HashMap<usize, u64> = HashMap::new();
    for index in 0..points.len() {
        let Some(parent) = points[index].parent.filter(|_| clocks[index].is_some()) else { continue };
        if is_within(points, clocks, index, parent) {
            let begins = points[parent].start_us;
            moved |= move_to(points, stated, index, begins);
        }
        if let Some(&end) = ends.get(&parent) {
            moved |= move_to(points, stated, index, end);
        }
        let end = points[index].end_us().unwrap_or_default();
        let last = ends.entry(parent).or_insert(end);
        *last = end.max(*last);
    }
    moved
}

/// Begins each point late enough that its children end within it.
fn parents(points: &mut [PlacedPoint<'_>], clocks: &[Option<usize>], stated: &[u64]) -> bool {
    let mut moved = false;
    for index in (0..points.len()).rev() {
        let Some(parent) = points[index].parent.filter(|&parent| clocks[parent].is_some()) else { continue };
        let (Some(end), Some(took)) = (points[index].end_us(), points[parent].duration_us) else { continue };
        if is_within(points, clocks, index, parent) {
            moved |= move_to(points, stated, parent, end.saturating_sub(took));
        }
    }
    moved
}

/// Whether a point should be within its parent, if moving allows it. A point that another clock timed should be only if
/// it began before the parent's end. What begins later was started, and is not waited for.
fn is_within(points: &[PlacedPoint<'_>], clocks: &[Option<usize>], index: usize, parent: usize) -> bool {
    let is_same_clock = clocks[index].is_some() && clocks[index] == clocks[parent];
    is_same_clock || points[parent].end_us().is_some_and(|end_us| points[index].start_us < end_us)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{PlacedPoint, settle};

    /// A span: its parent's number from 1 or 0, its start and its duration in microseconds.
    type GivenSpan = (usize, u64, u64);

    /// These spans as a clock of nanoseconds, or of whole milliseconds, has them, in the order of their tree.
    fn placed(spans: &[GivenSpan], cut: bool, has_kind: bool) -> Vec<PlacedPoint<'static>> {
        let one = |(parent, start, took): &GivenSpan| PlacedPoint {
            clock: [Some("shop"), Some("api"), Some("h")],
            parent: parent.checked_sub(1),
            start_us: if cut { start / 1_000 * 1_000 } else { *start },
            duration_us: Some(*took),
        };
        let mut placed: Vec<PlacedPoint<'static>> = spans.iter().map(one).collect();
        settle(&mut placed, 1_700_000_000_000_000, |_| has_kind);
        placed
    }

    /// The time of the first span in which none of its children runs.
    fn own_us(placed: &[PlacedPoint<'_>]) -> u64 {
        let (begin, end) = (placed[0].start_us, placed[0].end_us().unwrap());
        let inside =
            |us: &u64| placed[1..].iter().any(|one| one.start_us <= *us && *us < one.end_us().unwrap());
        (end - begin) - (begin..end).filter(inside).count() as u64
    }

    fn times(placed: &[PlacedPoint<'_>]) -> Vec<(u64, u64)> {
        placed.iter().map(|one| (one.start_us, one.end_us().unwrap())).collect()
    }

    #[test]
    fn short_calls_run_one_after_another_and_long_ones_stay_parallel() {
        // A request of 13.05 ms with 30 statements of 0.4 ms.
        let mut spans: Vec<GivenSpan> = vec![(0, 200, 13_050)];
        spans.extend((0..30).map(|number| (1, 300 + number * 410, 400)));
        for cut in [false, true] {
            let seen = placed(&spans, cut, true);
            assert_eq!(own_us(&seen), 13_050 - 30 * 400, "{:?}", times(&seen));
        }
        // OSProfiler's clock counts microseconds.
        assert!(own_us(&placed(&spans, true, false)) > 13_050 - 30 * 400);
        let seen = placed(&[(0, 0, 9_050), (1, 100, 5_010), (1, 120, 5_020), (1, 6_300, 510)], true, true);
        assert_eq!(own_us(&seen), 9_050 - 5_020 - 510, "{:?}", times(&seen));
        // One call with another service, whose clock is exact or not: the call takes 1.2 ms, its answer 0.9.
        for (cut_call, cut_answer) in [(true, false), (false, true), (true, true)] {
            let cut = |us: u64, cut: bool| if cut { us / 1_000 * 1_000 } else { us };
            let one = |service, parent, start_us, took| PlacedPoint {
                clock: [Some("shop"), Some(service), Some("h")],
                parent,
                start_us,
                duration_us: Some(took),
            };
            let mut seen = vec![
                one("api", None, cut(9_800, cut_call), 1_200),
                one("stock", Some(0), cut(9_950, cut_answer), 901),
            ];
            settle(&mut seen, 1_700_000_000_000_000, |_| true);
            assert_eq!(own_us(&seen), 299, "{cut_call}, {cut_answer}: {:?}", times(&seen));
        }
        // A start that was given to the SDK among others.
        let mut seen = placed(&spans, true, true);
        seen[30].start_us = spans[30].1;
        seen[1..30]
            .iter_mut()
            .zip(&spans[1..])
            .for_each(|(one, given)| one.start_us = given.1 / 1_000 * 1_000);
        settle(&mut seen, 1_700_000_000_000_000, |_| true);
        assert_eq!(own_us(&seen), 13_050 - 30 * 400, "{:?}", times(&seen));
        // A clock of microseconds, two of whose starts happen to be whole.
        let parallel = [(0, 200, 9_050), (1, 2_000, 1_310), (1, 3_000, 910), (1, 4_150, 90), (1, 4_300, 70)];
        let seen = times(&placed(&parallel, false, true));
        assert_eq!(seen[1..3], [(2_000, 3_310), (3_000, 3_910)]);
        // A child that seems to outlive its parent.
        let seen = times(&placed(&[(0, 900, 500), (1, 1_050, 300)], true, true));
        assert!(seen[1].0 >= seen[0].0 && seen[1].1 <= seen[0].1, "{seen:?}");
        // What outlives it by more was not waited for.
        assert_eq!(times(&placed(&[(0, 0, 510), (1, 100, 5_010)], true, true)), [(0, 510), (0, 5_010)]);
    }

    proptest! {
        /// One after another within a request, cut to whole milliseconds: own times are what they were.
        #[test]
        fn own_times_of_calls_in_a_row_stay(begins in 0_u64..5_000, calls in prop::collection::vec((0_u64..900, 1_u64..2_500), 1..40), rest in 1_u64..900) {
            let (mut at, mut spans) = (begins, vec![(0, begins, 0)]);
            for (gap, took) in calls {
                spans.push((1, at + gap, took));
                at += gap + took;
            }
            spans[0].2 = at + rest - begins;
            let (exact, cut) = (placed(&spans, false, true), placed(&spans, true, true));
            let ends_between = spans.iter().any(|(_, _, took)| took % 1_000 != 0);
            prop_assert!(!ends_between || own_us(&cut) == own_us(&exact), "{:?}", times(&cut));
        }

        #[test]
        fn nothing_moves_by_a_millisecond(spans in prop::collection::vec((0_usize..8, 0_u64..20_000, 0_u64..9_000), 1..30)) {
            let spans: Vec<GivenSpan> = (1..).zip(spans).map(|(number, (parent, start, took))| (parent % number, start, took)).collect();
            for (seen, (_, start, _)) in placed(&spans, true, true).iter().zip(&spans) {
                let cut = start / 1_000 * 1_000;
                prop_assert!(seen.start_us >= cut && seen.start_us < cut + 1_000);
            }
        }
    }
}
