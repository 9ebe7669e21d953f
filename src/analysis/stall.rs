//! Whether the slowest iterations end together: something held them all up at once.

use results::model::{SlowIteration, SlowestStall};

/// Iterations that a stall lets go end within this time.
const WITHIN_S: f64 = 0.02;
/// Fewer of the slowest say nothing.
const MEMBERS_MIN: usize = 4;
/// So improbable must it be by chance.
const CHANCE_MAX: f64 = 1e-3;

/// The most of the slowest iterations that end within a moment of each other, if they are at least half of them and more than
/// chance explains in a load that lasted for this time.
#[must_use]
pub fn of_slowest(slowest: &[SlowIteration], lasted_s: f64) -> Option<SlowestStall> {
    let mut ends_s: Vec<f64> =
        slowest.iter().map(|slow| slow.iteration.due_s + slow.response_ms / 1e3).collect();
    ends_s.sort_by(f64::total_cmp);
    let from =
        |first: usize| ends_s[first..].iter().take_while(|end_s| **end_s - ends_s[first] <= WITHIN_S).count();
    // Of equally many, the first.
    let (members, first) =
        (0..ends_s.len()).rev().map(|first| (from(first), first)).max_by_key(|(members, _)| *members)?;
    let is_most = members >= MEMBERS_MIN && members * 2 >= ends_s.len();
    (is_most && chance(members, ends_s.len(), lasted_s) <= CHANCE_MAX).then(|| SlowestStall {
        iterations: members as u64,
        of: ends_s.len() as u64,
        within_ms: (ends_s[first + members - 1] - ends_s[first]) * 1e3,
        at_s: ends_s[first],
    })
}

/// A bound of the probability that so many of these end so near to each other by chance: that of one group, times the number of
/// groups and of their first members.
fn chance(members: usize, of: usize, lasted_s: f64) -> f64 {
    let share = if lasted_s > 0.0 { (WITHIN_S / lasted_s).min(1.0) } else { 1.0 };
    let groups = (0..members).fold(1.0, |groups, n| groups * (of - n) as f64 / (n + 1) as f64);
    groups * members as f64 * share.powi(i32::try_from(members).unwrap_or(i32::MAX) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use results::model::{IterationOutcome, IterationRow, TraceState};
    use uuid::Uuid;

    fn slow(end_s: f64) -> SlowIteration {
        let iteration = IterationRow {
            trace_id: Uuid::nil(),
            workload: 0,
            number: 0,
            warm_up: false,
            profiled: true,
            due_s: end_s - 0.1,
            start_s: None,
            duration_ms: None,
            outcome: IterationOutcome::Ok,
            resent: false,
            error: None,
        };
        SlowIteration {
            iteration,
            response_ms: 100.0,
            asynchronous_ms: None,
            actions: Vec::new(),
            trace: TraceState::NotFetched,
            lacks_spans: false,
            cause: None,
        }
    }

    #[test]
    fn a_stall_is_found_where_it_is_and_nowhere_else() {
        for (ends, lasted_s, expected) in [
            (vec![3.0, 3.005, 3.01, 3.012, 3.019, 1.0, 5.0, 7.0, 8.0, 9.0], 10.0, Some((5, 3.0))),
            // Less than half, too few, too short a load, and only pairs.
            (vec![3.0, 3.005, 3.01, 3.012, 1.0, 2.0, 5.0, 7.0, 8.0, 9.0], 10.0, None),
            (vec![3.0, 3.005, 3.01, 9.0], 10.0, None),
            (vec![0.03, 0.035, 0.04, 0.042, 0.05], 0.1, None),
            (vec![1.0, 1.01, 3.0, 3.01, 5.0, 5.01, 7.0, 7.01], 10.0, None),
            (Vec::new(), 10.0, None),
        ] {
            let slowest: Vec<_> = ends.iter().map(|end_s| slow(*end_s)).collect();
            let found = of_slowest(&slowest, lasted_s);
            let found = found.map(|stall| (stall.iterations, (stall.at_s * 1e3).round() / 1e3));
            assert_eq!(found, expected, "{ends:?}");
        }
    }

    #[test]
    fn iterations_that_are_slow_at_random_have_none() {
        let mut random = fastrand::Rng::with_seed(7);
        let found = (0..2_000).filter(|_| {
            let slowest: Vec<_> = (0..10).map(|_| slow(random.f64() * 2.0)).collect();
            of_slowest(&slowest, 2.0).is_some()
        });
        assert!(found.count() <= 2);
    }

    proptest! {
        #[test]
        fn no_times_make_it_panic(ends in proptest::collection::vec(any::<f64>(), 0..10), lasted_s: f64) {
            let slowest: Vec<_> = ends.into_iter().map(slow).collect();
            let _ = of_slowest(&slowest, lasted_s);
        }
    }
}
