//! How long a comparison takes, in words: before it starts, and when its rounds have become longer.

use std::time::Duration;

use plan::Plan;
use verdict::paired::LENGTHEN_MAX;

/// For how long the load of a round lasts, if only the clock bounds it.
pub(super) fn of_round(plan: &Plan) -> Option<Duration> {
    let mut whole = Duration::ZERO;
    for workload in &plan.workloads {
        let lasts = workload.start_after + workload.runner.duration()?;
        whole = if plan.parallel { whole.max(lasts) } else { whole + lasts };
    }
    Some(whole)
}

/// Before the first pair.
pub(super) fn planned(round: Option<Duration>, looks: [usize; 2]) -> String {
    let [half, all] = looks;
    let longer = format!("rounds with too few iterations get longer, up to {LENGTHEN_MAX} times");
    match round {
        Some(round) => {
            let [least, most] =
                [half, all].map(|pairs| rough(round * 2 * u32::try_from(pairs).unwrap_or(u32::MAX)));
            format!(
                "{all} pairs of rounds of {} take {most} of load, or {least} if {half} are enough; {longer}",
                rough(round)
            )
        }
        None => format!(
            "{half} to {all} pairs of rounds; how long these take is known after the first pair; {longer}"
        ),
    }
}

/// After a pair: how long it took, and the largest number of pairs that are left.
pub(super) fn left(pair: Duration, pairs: usize) -> Option<String> {
    let most = pair.saturating_mul(u32::try_from(pairs).unwrap_or(u32::MAX));
    (pairs > 0)
        .then(|| format!("a pair takes {} now; {pairs} more take {} at most", rough(pair), rough(most)))
}

/// `45 s`, `12 min`, `3.5 h`.
fn rough(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    match seconds {
        ..10.0 => format!("{seconds:.1} s"),
        ..120.0 => format!("{seconds:.0} s"),
        ..7_200.0 => format!("{:.0} min", seconds / 60.0),
        _ => format!("{:.1} h", seconds / 3_600.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_told_before_and_after_they_change() {
        let seconds = Duration::from_secs;
        for (round, expected) in [
            (
                Some(seconds(30)),
                "20 pairs of rounds of 30 s take 20 min of load, or 10 min if 10 are enough; ",
            ),
            (
                Some(seconds(600)),
                "20 pairs of rounds of 10 min take 6.7 h of load, or 3.3 h if 10 are enough; ",
            ),
            (None, "10 to 20 pairs of rounds; how long these take is known after the first pair; "),
        ] {
            let text = planned(round, [10, 20]);
            assert!(text.starts_with(expected) && text.ends_with("get longer, up to 10 times"), "{text}");
        }
        for (pair, pairs, expected) in [
            (Duration::from_millis(1_234), 3, Some("a pair takes 1.2 s now; 3 more take 3.7 s at most")),
            (seconds(62), 19, Some("a pair takes 62 s now; 19 more take 20 min at most")),
            (seconds(62), 0, None),
            (Duration::MAX, usize::MAX, Some("a pair takes")),
        ] {
            let text = left(pair, pairs);
            assert_eq!(text.is_some(), expected.is_some());
            assert!(text.unwrap_or_default().starts_with(expected.unwrap_or_default()));
        }
    }
}
