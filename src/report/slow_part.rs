//! Which slow iterations a comparison is of, and what it lacks where it names no cause, in words. Nothing here computes a
//! statistic.

use super::document::StyledLine;
use super::named::{kind_name, share_with_bound};
use results::model::{ComparedKind, Comparison, NoCauseReason, Results, SlowIterationShortage};

/// A part at least this large, at its lower bound, is said to be the largest although nothing is certain.
const LARGE: f64 = 0.2;
/// A kind that took longer than usual in fewer slow iterations than this stands out in few of them.
const FEW: f64 = 0.35;

/// `iterations above p95`, or `40 of the 99 iterations above p95` where only those count that make a call.
pub(super) fn which(seen: &Comparison) -> String {
    let percentile = 100_u32.saturating_sub(seen.slow_percent);
    match seen.of_slow {
        Some(of) => format!("{} of the {of} iterations above p{percentile}", seen.slow),
        None => format!("iterations above p{percentile}"),
    }
}

/// Why no cause is named, and what helps: the end of the sentence.
pub(super) fn unclear(seen: &Comparison) -> StyledLine {
    let first = seen.kinds.first();
    let mut line = StyledLine::default();
    if let (
        Some(SlowIterationShortage { seen: callers, needed, iterations, of_callers: true }),
        Some(first),
    ) = (seen.missing, first)
    {
        line.line(kind_name(first))
            .text(format!(" may explain {}, but only {callers} of these", share_with_bound(first)));
        let (slow, call) = (seen.slow, if callers == 1 { "calls" } else { "call" });
        let text = format!(
            " {slow} {call} it, and a finding needs {needed}: run about {iterations} iterations or more."
        );
        return line.text(text).done();
    }
    match (seen.no_finding, seen.missing) {
        (Some(NoCauseReason::FewTraces), Some(missing)) => line.text(format!(
            "too few traces to be certain why ({} slow, {} typical): run at least {} iterations",
            seen.slow, seen.typical, missing.iterations
        )),
        (Some(NoCauseReason::FewTraces), None) => line
            .text(format!("too few traces to be certain why ({} slow, {} typical)", seen.slow, seen.typical)),
        (Some(NoCauseReason::Incomplete), _) => line.text("too many traces lack points to be certain why"),
        _ => return spread(line, seen),
    };
    line.text(".");
    if let Some(first) = first {
        line.text(" The largest part is in ")
            .line(kind_name(first))
            .text(format!(" ({}).", share_with_bound(first)));
    }
    line.done()
}

/// The largest part of what slow iterations take longer, where it is large and not certain to be the cause.
pub(super) fn largest(results: &Results) -> Option<&ComparedKind> {
    let may_be_it = |why: NoCauseReason| {
        matches!(why, NoCauseReason::Unclear | NoCauseReason::FewTraces | NoCauseReason::Incomplete)
    };
    let gap_ms = |seen: &Comparison| seen.slow_ms - seen.typical_ms;
    let comparisons = results.workloads.iter().filter_map(|workload| workload.comparison.as_ref());
    let seen = comparisons
        .filter(|seen| gap_ms(seen) > 0.0 && seen.no_finding.is_some_and(may_be_it))
        .max_by(|one, other| gap_ms(one).total_cmp(&gap_ms(other)))?;
    seen.kinds.first().filter(|first| first.share_low >= LARGE)
}

/// No kind is certain to be the cause: either one is large and not in enough iterations, or many are a little slower.
fn spread(mut line: StyledLine, seen: &Comparison) -> StyledLine {
    let Some(first) = seen.kinds.first() else { return line.text("nothing stands out.").done() };
    if first.share_low < LARGE {
        line.text("nothing stands out. The largest part is in ").line(kind_name(first));
        return line.text(format!(" ({}).", share_with_bound(first))).done();
    }
    line.text("no cause is certain. The largest part is in ").line(kind_name(first));
    let text = match first.exceeding < FEW {
        true => format!(
            " ({}), but in only {:.0} of these {} it took longer than in typical ones.",
            share_with_bound(first),
            first.exceeding * seen.slow as f64,
            seen.slow
        ),
        false => format!(" ({}), and other points are slower, too.", share_with_bound(first)),
    };
    line.text(text).done()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::document::terminal;
    use crate::explanation::comparison;

    /// A comparison whose first kind is called by this share of slow iterations, and longer than usual in as many.
    fn seen(callers: f64, [share, low]: [f64; 2], of_slow: Option<u64>, is_cause: bool) -> Comparison {
        serde_json::from_value(json!({
            "slow_percent": 10, "slow": 20, "of_slow": of_slow, "typical": 50, "slow_ms": 40.0, "typical_ms": 20.0,
            "left_out": 0, "no_finding": if is_cause { None } else { Some("unclear") },
            "clocks_moved": 0, "clocks_inconsistent": 0,
            "kinds": [{
                "service": "demo/identity", "name": "db", "detail": "SELECT * FROM assignment", "parent": "rpc get_roles",
                "outside": false, "delta_ms": 16.0, "share": share, "share_low": low, "share_high": 1.0,
                "slow_calls": callers, "typical_calls": 0.0, "more_calls_ms": 16.0, "slower_calls_ms": 0.0,
                "effect": callers, "exceeding": callers, "guilty": is_cause, "worst_trace_id": null,
            }],
        }))
        .unwrap()
    }

    #[test]
    fn one_statement_says_what_is_missing() {
        let missing = SlowIterationShortage { seen: 4, needed: 5, iterations: 250, of_callers: true };
        let few = SlowIterationShortage { seen: 20, needed: 20, iterations: 100, of_callers: false };
        let with = |missing, seen| Comparison { missing: Some(missing), ..seen };
        let db = "`db · SELECT … FROM assignment` in demo/identity under `rpc get_roles`";
        for (what, seen, expected) in [
            (
                "too few callers",
                with(missing, seen(0.2, [0.8, 0.46], None, false)),
                "I… DB may explain 80 %, at least 46 %, but only 4 of these 20 call it, and a finding needs 5: run about \
                 250 iterations or more.",
            ),
            (
                "one caller",
                with(
                    SlowIterationShortage { seen: 1, iterations: 1_000, ..missing },
                    seen(0.05, [0.5, 0.0], None, false),
                ),
                "I… DB may explain 50 %, at least 0 %, but only 1 of these 20 calls it, and a finding needs 5: run about \
                 1000 iterations or more.",
            ),
            (
                "too few iterations",
                Comparison {
                    no_finding: Some(NoCauseReason::FewTraces),
                    ..with(few, seen(0.2, [0.8, 0.46], None, false))
                },
                "I… too few traces to be certain why (20 slow, 50 typical): run at least 100 iterations. The largest part \
                 is in DB (80 %, at least 46 %).",
            ),
            (
                "large, in few",
                seen(0.3, [0.95, 0.92], None, false),
                "I… no cause is certain. The largest part is in DB (95 %, at least 92 %), but in only 6 of these 20 it took \
                 longer than in typical ones.",
            ),
            (
                "large, among others",
                seen(1.0, [0.4, 0.3], None, false),
                "I… no cause is certain. The largest part is in DB (40 %, at least 30 %), and other points are slower, too.",
            ),
            (
                "spread",
                seen(1.0, [0.2, 0.12], None, false),
                "I… nothing stands out. The largest part is in DB (20 %, at least 12 %).",
            ),
            (
                "some of them",
                seen(1.0, [0.8, 0.7], Some(50), true),
                "20 of the 50 i… DB explains 80 % of it (at least 70 %), because these call it once, typical ones never.",
            ),
        ] {
            let line = terminal::line(&comparison(&seen), terminal::TerminalStyle::default());
            let head = "terations above p90 take 20.0 ms longer than typical ones (40.0 ms instead of 20.0 ms, on average);";
            assert_eq!(line.replace(head, "…").replace(db, "DB"), expected, "{what}");
        }
    }
}
