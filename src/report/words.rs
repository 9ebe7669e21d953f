//! Text that several reports share: sentences, durations, and outside text made safe to display.

pub use super::explanation::{
    CauseName, FoundCause, cause, comparison, finding, has_cause, late, late_work, sentences, whole_in_short,
    why,
};
use super::probe::is_on_missing_traces;
pub use super::texts::{calls, duration, duration_us, point_name, shown_name, signed, with_sign};
pub use base::visible::{code_point, is_deceptive, visible};
use measure::generator::Generator;
use measure::protocol::Protocol;
use results::model::{Distribution, Profiling, ReceivedSpans, Results, Time, TraceState, Workload};

/// True when iterations waited before they started, so that response and service times differ.
#[must_use]
pub fn waited(workload: &Workload) -> bool {
    match (workload.queue_time.at(99.0), workload.response_time.at(99.0)) {
        // A queue time below a hundredth is noise of the scheduler.
        (Some(lag_ms), Some(total_ms)) => lag_ms > total_ms / 100.0,
        _ => false,
    }
}

/// The protocol of a status: gRPC has 0 to 16, HTTP 100 to 599, and the close codes of WebSocket begin at 1000.
fn protocol_of(status: u16) -> Protocol {
    match status {
        ..100 => Protocol::Grpc,
        100..1000 => Protocol::Http,
        _ => Protocol::WebSocket,
    }
}

/// False for a status that is a failure unless the scenario expects it.
pub(super) fn is_good(status: u16) -> bool {
    // A normal closure, perhaps without a code, and what means something only to the service.
    matches!(status, 1000 | 1005 | 3000..) || (protocol_of(status).names().is_good)(status)
}

/// A status as its protocol writes it: `404`, `NOT_FOUND`.
pub(super) fn status(status: u16) -> String {
    (protocol_of(status).names().written)(status)
}

/// What reports show instead of a percentile that falls among iterations that failed, never started or were cut off.
pub const NO_TIME: &str = "no time";

/// A percentile of all that were due, in words; `unknown` if the results do not have it.
#[must_use]
pub fn percentile(times: &Distribution, percentile: f64, unknown: &str) -> String {
    match times.of_all_at(percentile) {
        Some(Time::Ms(ms)) => duration(ms),
        Some(Time::None) => NO_TIME.to_owned(),
        None => unknown.to_owned(),
    }
}

/// The title of the largest times. Percentiles are of all, but what failed or never started has no time, so the largest
/// one is of what completed: it says so where there is a difference.
pub(super) fn max_title<'d>(mut times: impl Iterator<Item = &'d Distribution>) -> &'static str {
    if times.any(|times| times.of_all.is_some()) { "max of completed" } else { "max" }
}

/// `30 % not served (2950 never started, 50 cut off)`; `None` if nothing was dropped, and hardly anything cut off.
#[must_use]
pub fn not_served(workloads: &[Workload]) -> Option<String> {
    let sum = |of: fn(&Workload) -> u64| workloads.iter().map(of).sum::<u64>();
    let total = sum(|workload| workload.iterations.total);
    let (dropped, aborted) =
        (sum(|workload| workload.iterations.dropped), sum(|workload| workload.iterations.aborted));
    if dropped == 0 && aborted * 100 <= total {
        return None;
    }
    let counts = [(dropped, "never started"), (aborted, "cut off")];
    let counts: Vec<String> = counts
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, word)| format!("{count} {word}"))
        .collect();
    let share = super::texts::percent((dropped + aborted) as f64 / total.max(1) as f64 * 100.0);
    Some(format!("{share} not served ({})", counts.join(", ")))
}

/// `90 % profiled`: for a workload that left some iterations unprofiled for comparison.
#[must_use]
pub fn share_profiled(workload: &Workload) -> String {
    let total = workload.iterations.total.max(1);
    let share = total.saturating_sub(workload.unprofiled) as f64 / total as f64;
    format!("{:.0} % profiled", share * 100.0)
}

/// Why no trace came of a run that asked for some, in a clause; `None` if one came, or none was asked for.
#[must_use]
pub fn no_trace_came(results: &Results) -> Option<String> {
    let fetched = &results.profiling.fetched;
    let came = [TraceState::Complete, TraceState::Partial].iter().any(|state| fetched.contains_key(state));
    if fetched.is_empty() || came {
        return None;
    }
    let of_probe = results.probe.as_ref().and_then(|probe| probe.missing.clone());
    let of_collector = results.profiling.collector_error.as_ref();
    let of_collector = of_collector.map(|error| format!("the collector did not give them: {error}"));
    let of_notes = || results.notes.iter().find(|note| is_on_missing_traces(note)).cloned();
    let why = of_probe.or(of_collector).or_else(of_notes);
    Some(why.unwrap_or_else(|| "the reason is not known".to_owned()))
}

/// ` (traceparent only)`: for a run that did not send OSProfiler's headers.
#[must_use]
pub fn without_osprofiler(profiling: &Profiling) -> &'static str {
    let headers = &profiling.headers;
    if headers.is_empty() || headers.iter().any(|name| name == "osprofiler") {
        ""
    } else {
        " (traceparent only)"
    }
}

/// The rest of a workload's counts: warm-up iterations, dropped arrivals, and those that sent a request once more.
#[must_use]
pub fn aside(workload: &Workload) -> String {
    let mut dropped = match workload.iterations.dropped {
        0 => String::new(),
        dropped => format!(", {dropped} dropped: never started"),
    };
    if workload.iterations.resent > 0 {
        dropped = format!("{dropped}, {} resent a request", workload.iterations.resent);
    }
    let failed = match workload.warm_up.failed {
        0 => String::new(),
        failed => format!(" ({failed} failed)"),
    };
    match workload.warm_up.total {
        0 => dropped,
        total => format!("{dropped}, {total} warm-up iterations not counted{failed}"),
    }
}

/// How the load generator performed, in one line.
#[must_use]
pub fn generator(seen: &Generator) -> String {
    let most = |value: fn(&measure::generator::WorkerVitals) -> f64| {
        seen.workers.iter().map(value).fold(0.0, f64::max)
    };
    let count = seen.workers.iter().map(|worker| worker.worker + 1).max().unwrap_or(0);
    let mut parts = vec![
        format!("{count} worker{}", if count == 1 { "" } else { "s" }),
        format!("the busiest at {:.0} % of a core", most(|worker| worker.cpu_share_max) * 100.0),
    ];
    if seen.workers.iter().any(|worker| worker.arrivals > 0) {
        parts.push(format!(
            "schedule kept within {} (p99) and {} (worst)",
            duration(most(|worker| worker.late_p99_ms)),
            duration(most(|worker| worker.late_max_ms))
        ));
    }
    match (seen.descriptors_max, seen.descriptors_limit) {
        (0, _) => {}
        (most, Some(limit)) => parts.push(format!("{most} of {limit} descriptors")),
        (most, None) => parts.push(format!("{most} descriptors")),
    }
    parts.join(", ")
}

/// The fetched traces in one line: `400 asked for in 1.20 s: 396 complete, 3 partial, 1 absent`; `None` if none were
/// requested.
#[must_use]
pub fn fetched(profiling: &Profiling) -> Option<String> {
    let total: u64 = profiling.fetched.values().sum();
    if total == 0 {
        return None;
    }
    let took = profiling.fetch_s.map_or_else(String::new, |s| format!(" in {}", duration(s * 1e3)));
    let states = profiling.fetched.iter().map(|(state, count)| {
        let word = match state {
            TraceState::Complete => "complete",
            TraceState::Partial => "partial",
            TraceState::Absent => "absent",
            TraceState::NotFetched => "without an answer",
        };
        format!("{count} {word}")
    });
    let published = match profiling.published {
        0 => String::new(),
        records => format!("; {records} records of the client's own points published"),
    };
    Some(format!("{total} asked for{took}: {}{published}", states.collect::<Vec<_>>().join(", ")))
}

/// What the receiver of spans received, in one line: `2408 received for this run, all kept: 400 traces; 17 of other
/// traces`.
#[must_use]
pub fn received(seen: &ReceivedSpans) -> String {
    let kept = match seen.kept_spans == seen.spans + seen.linked_spans {
        true => "all".to_owned(),
        false => seen.kept_spans.to_string(),
    };
    let mut parts =
        vec![format!("{} received for this run, {kept} kept: {} traces", seen.spans, seen.kept_traces)];
    let others = [
        (seen.linked_spans, "of linked traces"),
        (seen.lost_spans, "lost for want of memory or disk space"),
        (seen.other_traces, "of other traces"),
        (seen.invalid_spans, "without valid ids"),
        (seen.refused_requests, "requests refused"),
        (seen.forwarded, "passed on"),
        (seen.forward_dropped, "not passed on"),
    ];
    let others = others.into_iter().filter(|(number, _)| *number > 0);
    parts.extend(others.map(|(number, what)| format!("{number} {what}")));
    if seen.sample_halved > 0 {
        let share = 0.5_f64.powi(i32::try_from(seen.sample_halved).unwrap_or(i32::MAX));
        parts.push(format!("typical traces are a sample of {:.3} % for want of space", share * 100.0));
    }
    parts.join("; ")
}

/// `1.234`, or `–` for NaN. A very wide bound gets no digits.
#[must_use]
pub fn ratio(value: f64) -> String {
    match value {
        _ if value.is_nan() => "–".to_owned(),
        _ if value >= 100.0 => "over 100".to_owned(),
        _ if value < 0.01 => "under 0.01".to_owned(),
        _ => format!("{value:.3}"),
    }
}

/// [`ratio`] for a value that may be unknown.
#[must_use]
pub fn known_ratio(value: Option<f64>) -> String {
    value.map_or_else(|| "–".to_owned(), ratio)
}

/// `1.140 to 1.250`: a value's confidence bounds; a dash where they are not known.
#[must_use]
pub fn bounds(low: Option<f64>, high: Option<f64>, shown: impl Fn(f64) -> String) -> String {
    low.zip(high).map_or_else(|| "–".to_owned(), |(low, high)| format!("{} to {}", shown(low), shown(high)))
}

/// Calls on two sides: `2.00 → 22.00`, and once where they are equal.
#[must_use]
pub fn calls_of_both(one: f64, other: f64) -> String {
    match (format!("{one:.2}"), format!("{other:.2}")) {
        (one, other) if one == other => one,
        (one, other) => format!("{one} → {other}"),
    }
}

/// A share as `+12.3 %`, with a minus sign for a negative one.
#[must_use]
pub fn percent(share: f64) -> String {
    with_sign(share * 100.0, |size| format!("{size:.1} %"))
}

/// A failure rate as `1.234 %`.
#[must_use]
pub fn share_of_failures(share: f64) -> String {
    format!("{:.3} %", share * 100.0)
}

/// The beginning and the end of a long text: a statement ends with its table and condition.
#[must_use]
pub fn without_middle(text: &str, chars_max: usize) -> String {
    let length = text.chars().count();
    if length <= chars_max {
        return text.to_owned();
    }
    let half = chars_max / 2;
    text.chars().take(half).chain(['…']).chain(text.chars().skip(length - half)).collect()
}
