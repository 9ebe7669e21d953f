//! The probe in words: how the traced iteration before the load went, and why its trace is missing.

use super::texts::duration;
use base::visible::visible;
use measure::errors::Failure;
use measure::log;
use results::model::{IterationOutcome, Probe, Results, TraceState};
use text::times::rfc3339;

/// A collector's clock may differ by this much, and what is this old is recent.
const RECENT_NS: u64 = 300_000_000_000;

/// Why no trace of the probe came.
#[derive(Clone, Debug, PartialEq)]
pub enum MissingTraceCause {
    /// No request goes to a target of the deployment.
    NotSigned,
    /// The collector did not answer.
    NoAnswer {
        /// The collector without user, password and query.
        collector: String,
        /// What it said.
        error: String,
    },
    /// It holds no trace at all, no recent one, or recent ones of others.
    Collector {
        /// The collector without user, password and query.
        collector: String,
        /// True if OSProfiler's headers were sent.
        signed: bool,
        /// The time of its newest trace, and whether it is recent.
        newest: Option<(String, bool)>,
    },
    /// Nothing was received.
    Received {
        /// Where it was waited for.
        address: String,
        /// How many spans of other traces came.
        others: u64,
    },
}

impl MissingTraceCause {
    /// What a collector tells by its newest trace. `since_unix_ns` is when the run began.
    #[must_use]
    pub fn of_collector(
        collector: &str,
        signed: bool,
        newest: Result<Option<String>, String>,
        since_unix_ns: u64,
    ) -> Self {
        let collector = collector.to_owned();
        // Both are UTC, and begin with the date.
        let recent_from = rfc3339(since_unix_ns.saturating_sub(RECENT_NS));
        let of_time = |time: String| {
            let at = |text: &str| text.chars().take(19).collect::<String>().replace(' ', "T");
            let is_recent = at(&time) >= at(&recent_from);
            (at(&time).replace('T', " "), is_recent)
        };
        match newest {
            Err(error) => Self::NoAnswer { collector, error },
            Ok(newest) => Self::Collector { collector, signed, newest: newest.map(of_time) },
        }
    }
}

/// Why no trace came, and what to do.
#[must_use]
pub fn missing(why: &MissingTraceCause) -> String {
    match why {
        MissingTraceCause::NotSigned => {
            "no request of the iteration goes to a target of the deployment, so none carries trace \
            headers: check the URLs of its actions, and `targets`"
                .to_owned()
        }
        MissingTraceCause::NoAnswer { collector, error } => {
            format!("the collector {collector} did not answer: {error}")
        }
        MissingTraceCause::Collector { collector, signed, newest } => {
            let accept = match signed {
                true => "accept this HMAC key (hmac_keys)",
                false => "take the trace from the traceparent header",
            };
            match newest {
                None => format!(
                    "no trace of the probe reached {collector}, which holds no trace at all: check that the services \
                     have tracing enabled, {accept}, and report to this collector"
                ),
                Some((_, true)) => format!(
                    "no trace of the probe reached {collector}, but traces of others did just now: the services report \
                     there, so check that they {accept}"
                ),
                Some((time, false)) => format!(
                    "no trace of the probe reached {collector}, whose latest trace is of {time} UTC: check that the \
                     services still report there, have tracing enabled, and {accept}"
                ),
            }
        }
        MissingTraceCause::Received { address, others: 0 } => format!(
            "no span was received at {address}: set OTEL_EXPORTER_OTLP_ENDPOINT=http://{address} for the services; \
             spans that are held back for more than 5 s (OTEL_BSP_SCHEDULE_DELAY) come later"
        ),
        MissingTraceCause::Received { address, others } => format!(
            "{others} spans were received at {address}, but none of the probe: let the services take the trace from \
             the traceparent header"
        ),
    }
}

/// A failure with its action and what was found.
#[must_use]
pub fn failure(failure: &Failure) -> String {
    let action = failure.action.as_ref().map_or_else(String::new, |action| format!("{action}: "));
    let found = failure.seen.as_deref().and_then(|seen| seen.found.as_ref());
    let found = found.map_or_else(String::new, |found| format!("{FOUND}{found}"));
    format!("{action}{}{found}", failure.message)
}

/// A wrong key has no other symptom: services answer as if tracing had not been requested.
pub const NO_POINTS: &str = "no trace reached the collector: check that the services have OSProfiler enabled, \
    accept this HMAC key and report to this collector";
/// The same of services that speak OpenTelemetry.
pub const NO_SPANS: &str = "no trace reached the collector: check that the services take the trace from the traceparent \
    header and send their spans to this collector";
const NO_TRACE: &str = "the probe has no trace: ";
const FAILED: &str = "the probe failed: ";
const FOUND: &str = ", found ";
const THE_ANSWER: &str = "; the answer: ";

/// Whether a note says why no trace came.
pub(super) fn is_on_missing_traces(note: &str) -> bool {
    note == NO_POINTS || note == NO_SPANS || note.starts_with("no span of this run was received")
}

/// Whether a sentence says what a note says: it is the same, or that the load failed as the probe did.
pub(super) fn is_said(note: &str, sentence: &str) -> bool {
    let failed_alike = |failed: &str| {
        let what = failed.split(THE_ANSWER).next().unwrap_or(failed);
        let what = what.split(FOUND).next().unwrap_or(what);
        what.split_once(": ")
            .is_some_and(|(action, message)| sentence.contains(&format!("{action} {message}")))
    };
    sentence.contains(note.strip_prefix(NO_TRACE).unwrap_or(note))
        || note.strip_prefix(FAILED).is_some_and(failed_alike)
}

/// What a note on the probe is to say once traces of the load came, as the probe's did not.
#[must_use]
pub fn came_later(note: &str) -> Option<String> {
    let is_only = note.starts_with(NO_TRACE);
    is_only.then(|| "the probe's trace did not come before the load, but traces of the load came".to_owned())
}

/// What must be known before the load; `None` if all is well.
#[must_use]
pub fn warning(probe: &log::ProbeRecord) -> Option<String> {
    let body = probe.body.as_ref().map_or_else(String::new, |body| format!("{THE_ANSWER}{body}"));
    let failed = probe.failure.as_ref().map(|why| format!("{FAILED}{why}{body}"));
    let missing = probe.missing.as_ref().map(|why| format!("{NO_TRACE}{why}"));
    let parts: Vec<String> = failed.into_iter().chain(missing).collect();
    (!parts.is_empty()).then(|| parts.join("; "))
}

/// The probe in one line: `ok in 12.3 ms; its trace came within 260 ms: 14 points of keystone, nova`.
#[must_use]
pub fn line(probe: &Probe) -> String {
    let took = duration(probe.duration_ms);
    let ended = match (probe.outcome, &probe.failure) {
        (IterationOutcome::Ok, _) => format!("ok in {took}"),
        (_, Some(why)) => format!("failed after {took}: {}", visible(why)),
        (_, None) => format!("failed after {took}"),
    };
    let noun = if probe.points == 1 { "point" } else { "points" };
    let of =
        if probe.services.is_empty() { String::new() } else { format!(" of {}", probe.services.join(", ")) };
    let within = duration(probe.waited_s * 1e3);
    let trace = match probe.trace {
        TraceState::Complete => format!("; its trace came within {within}: {} {noun}{of}", probe.points),
        TraceState::Partial => {
            format!("; its trace was not complete after {within}: {} {noun}{of}", probe.points)
        }
        TraceState::Absent => format!("; no trace after {within}"),
        TraceState::NotFetched => String::new(),
    };
    format!("{ended}{trace}")
}

/// The probe of a run in one line; `None` if it had none.
#[must_use]
pub fn sentence(results: &Results) -> Option<String> {
    results.probe.as_ref().map(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEGAN_NS: u64 = 1_763_640_000_000_000_000;

    #[test]
    fn a_missing_trace_has_a_reason_and_a_remedy() {
        let of = |newest, signed| {
            missing(&MissingTraceCause::of_collector("redis://c:6379", signed, newest, BEGAN_NS))
        };
        let at = |time: &str| Ok(Some(time.to_owned()));
        for (seen, parts) in [
            (of(Ok(None), true), ["no trace at all", "HMAC key"]),
            (of(at("2025-11-20T11:59:59.000001"), true), ["traces of others did just now", "HMAC key"]),
            (of(at("2025-11-20T11:59:59"), false), ["traces of others did just now", "traceparent"]),
            (
                of(at("2025-11-18T11:59:59.000001"), true),
                ["latest trace is of 2025-11-18 11:59:59 UTC", "HMAC key"],
            ),
            (of(Err("refused".to_owned()), true), ["did not answer", "refused"]),
            (missing(&MissingTraceCause::NotSigned), ["no request", "targets"]),
            (
                missing(&MissingTraceCause::Received { address: "127.0.0.1:4318".to_owned(), others: 0 }),
                ["no span was received", "OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4318"],
            ),
            (
                missing(&MissingTraceCause::Received { address: "127.0.0.1:4318".to_owned(), others: 9 }),
                ["9 spans", "traceparent"],
            ),
        ] {
            assert!(parts.iter().all(|part| seen.contains(part)), "{seen}: {parts:?}");
        }
    }

    #[test]
    fn what_the_verdict_says_of_the_load_is_not_said_of_the_probe_again() {
        let verdict = "GET /v3 answered 404, expected a status below 400, every time.";
        for (note, said) in [
            ("the probe failed: GET /v3: answered 404", true),
            ("the probe failed: GET /v3: answered 404; the answer: {}", true),
            ("the probe failed: GET /v3: answered 404, found 404; the answer: {}", true),
            ("the probe failed: GET /v3: answered 500; the answer: {}", false),
            ("the probe failed: GET /v2: answered 404", false),
            ("another note", false),
            ("expected a status below 400", true),
        ] {
            assert_eq!(is_said(note, verdict), said, "{note}");
        }
    }

    #[test]
    fn the_probe_is_a_line() {
        let base = Probe {
            trace_id: uuid::Uuid::nil(),
            workload: "boot".to_owned(),
            outcome: IterationOutcome::Ok,
            duration_ms: 12.3,
            failure: None,
            body: None,
            trace: TraceState::Complete,
            points: 14,
            services: vec!["keystone".to_owned(), "nova".to_owned()],
            waited_s: 0.26,
            missing: None,
        };
        let failed = Some("log in: answered 401".to_owned());
        for (probe, expected) in [
            (base.clone(), "ok in 12.3 ms; its trace came within 260 ms: 14 points of keystone, nova"),
            (
                Probe {
                    trace: TraceState::Partial,
                    points: 1,
                    services: Vec::new(),
                    waited_s: 5.0,
                    ..base.clone()
                },
                "ok in 12.3 ms; its trace was not complete after 5.00 s: 1 point",
            ),
            (
                Probe { trace: TraceState::Absent, points: 0, waited_s: 5.0, ..base.clone() },
                "ok in 12.3 ms; no trace after 5.00 s",
            ),
            (
                Probe {
                    outcome: IterationOutcome::Failed,
                    failure: failed,
                    trace: TraceState::NotFetched,
                    ..base
                },
                "failed after 12.3 ms: log in: answered 401",
            ),
        ] {
            assert_eq!(line(&probe), expected);
        }
    }
}
