//! The figures of a load that is under way, on one line: where there is little room, what says least is left out first.

use std::time::Duration;

use super::event::WorkloadProgress;
use base::clock::saturating_nanos;
use base::units::format_ns;
use report::words::NO_TIME;

/// A queue time below this comes from timers, not from a queue.
const QUEUE_TIME_SHOWN_NS: u64 = 1_000_000;
/// From this time on, a load without an answer says what it waits for.
const WAITING_FROM: Duration = Duration::from_secs(1);
/// Facts with this rank are never left out.
const ALWAYS: u8 = 0;
/// The first characters of a trace id, which name the trace to `bench trace show`.
const ID_CHARS: usize = 8;

/// A fact, and when it is left out: the higher the rank, the earlier.
struct Fact {
    rank: u8,
    text: String,
}

/// The figures on one line of at most `columns`, if these are given. What is wrong always stays, and what is new longer
/// than what hardly changes.
#[must_use]
pub fn figures(progress: &WorkloadProgress, columns: Option<usize>) -> String {
    let all = facts(progress, usize::MAX);
    let Some(columns) = columns.filter(|columns| joined(&all).chars().count() > *columns) else {
        return joined(&all);
    };
    let mut facts = facts(progress, ID_CHARS);
    while joined(&facts).chars().count() > columns {
        let Some(least) = facts.iter().map(|fact| fact.rank).max().filter(|rank| *rank > ALWAYS) else {
            break;
        };
        facts.retain(|fact| fact.rank != least);
    }
    joined(&facts)
}

fn joined(facts: &[Fact]) -> String {
    facts.iter().map(|fact| fact.text.as_str()).collect::<Vec<_>>().join(", ")
}

fn facts(progress: &WorkloadProgress, id_chars: usize) -> Vec<Fact> {
    let fact = |rank: u8, text: String| Fact { rank, text };
    // A percentile that falls among iterations without a valid time has none.
    let without = if progress.failed + progress.dropped > 0 { NO_TIME } else { "-" };
    let time = |ns: Option<u64>| ns.map_or_else(|| without.to_owned(), format_ns);
    if let Some(waiting) = waiting(progress) {
        // Without an answer there is nothing else to say.
        return vec![fact(ALWAYS, waiting)];
    }
    let mut facts = vec![
        fact(ALWAYS, format!("{:.0}/s", progress.rate)),
        fact(5, format!("{} under way", progress.under_way)),
        fact(if progress.failed > 0 { ALWAYS } else { 6 }, format!("{} failed", progress.failed)),
        fact(2, format!("p50 {}", time(progress.p50_ns))),
        fact(1, format!("p99 {}", time(progress.p99_ns))),
    ];
    if progress.queue_time_p99_ns >= QUEUE_TIME_SHOWN_NS {
        facts.push(fact(3, format!("queue time p99 {}", format_ns(progress.queue_time_p99_ns))));
    }
    for (count, word) in [(progress.queued, "waiting"), (progress.dropped, "dropped")] {
        if count > 0 {
            facts.push(fact(ALWAYS, format!("{count} {word}")));
        }
    }
    facts.extend(match progress.profiled_percent {
        None => Some(fact(7, "not profiled".to_owned())),
        // Whether traces come is known after the load.
        Some(100.0..) => None,
        Some(percent) => Some(fact(7, format!("{percent} % profiled"))),
    });
    if let Some((ns, trace_id)) = progress.slowest {
        let id: String = trace_id.to_string().chars().take(id_chars).collect();
        facts.push(fact(4, format!("slowest {} {id}", format_ns(ns))));
    }
    facts
}

/// What is waited for, since when, and until when, while no iteration has ended; `None` if one has, or soon will.
fn waiting(progress: &WorkloadProgress) -> Option<String> {
    if progress.ended > 0 || progress.under_way == 0 || progress.elapsed < WAITING_FROM {
        return None;
    }
    let until = progress.timeout.map_or_else(String::new, |timeout| {
        format!("; each may take {}", format_ns(saturating_nanos(timeout)))
    });
    let noun = if progress.under_way == 1 { "iteration" } else { "iterations" };
    let since = format_ns(saturating_nanos(progress.elapsed));
    Some(format!(
        "no iteration has ended yet: waiting for {} {noun} since {since}{until}",
        progress.under_way
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_and_what_is_new_stays_where_there_is_little_room() {
        let good = WorkloadProgress {
            workload: 0,
            name: "read".to_owned(),
            times: None,
            duration: None,
            elapsed: Duration::from_secs(1),
            timeout: Some(Duration::from_secs(30)),
            ended: 1_000,
            warm_up: 0,
            under_way: 20,
            queued: 0,
            dropped: 0,
            failed: 0,
            rate: 812.4,
            p50_ns: Some(11_000_000),
            p99_ns: Some(85_000_000),
            queue_time_p99_ns: 0,
            slowest: Some((95_000_000, uuid::Uuid::nil())),
            profiled_percent: Some(100.0),
        };
        let silent = WorkloadProgress { ended: 0, elapsed: Duration::from_secs(4), ..good.clone() };
        let soon = WorkloadProgress { elapsed: Duration::from_millis(900), rate: 0.0, ..silent.clone() };
        let endless = WorkloadProgress { under_way: 1, timeout: None, ..silent.clone() };
        let bad = WorkloadProgress {
            failed: 3,
            dropped: 7,
            queue_time_p99_ns: 2_000_000_000,
            profiled_percent: Some(99.0),
            ..good.clone()
        };
        let without = WorkloadProgress { p99_ns: None, slowest: None, queue_time_p99_ns: 0, ..bad.clone() };
        for (progress, columns, expected) in [
            (
                &good,
                None,
                "812/s, 20 under way, 0 failed, p50 11.0 ms, p99 85.0 ms, slowest 95.0 ms \
                 00000000-0000-0000-0000-000000000000",
            ),
            (
                &good,
                Some(100),
                "812/s, 20 under way, 0 failed, p50 11.0 ms, p99 85.0 ms, slowest 95.0 ms 00000000",
            ),
            (&good, Some(80), "812/s, 20 under way, p50 11.0 ms, p99 85.0 ms, slowest 95.0 ms 00000000"),
            (&good, Some(45), "812/s, p50 11.0 ms, p99 85.0 ms"),
            (&good, Some(1), "812/s"),
            (
                &silent,
                Some(1),
                "no iteration has ended yet: waiting for 20 iterations since 4.00 s; each may take 30.0 s",
            ),
            (&endless, None, "no iteration has ended yet: waiting for 1 iteration since 4.00 s"),
            (&soon, Some(1), "0/s"),
            (&bad, Some(90), "812/s, 3 failed, p50 11.0 ms, p99 85.0 ms, queue time p99 2.00 s, 7 dropped"),
            (&bad, Some(30), "812/s, 3 failed, 7 dropped"),
            (&without, Some(60), "812/s, 3 failed, p50 11.0 ms, p99 no time, 7 dropped"),
            (&bad, Some(1), "812/s, 3 failed, 7 dropped"),
        ] {
            assert_eq!(figures(progress, columns), expected, "{columns:?}");
        }
    }
}
