//! The verdict in one line: `bench: PASS · p99 88.1 ms`, `bench: FAIL · p(99) is 412 ms, limit 250 ms`, as text and as an endpoint of shields.io.

use super::document::Badge;
use super::words::{self, NO_TIME, duration, visible};
use super::{runs, screen};
use results::model::{ReasonKind, Results, Time};

/// One line of text.
#[must_use]
pub fn line(results: &Results) -> String {
    format!("bench: {}\n", message(results))
}

/// What shields.io reads from an endpoint (its schema version 1).
#[must_use]
pub fn endpoint(results: &Results) -> String {
    let colour = Badge::verdict(results.verdict.outcome).tone.shield();
    let badge = serde_json::json!({
        "schemaVersion": 1, "label": "bench", "message": message(results), "color": colour,
    });
    format!("{badge}\n")
}

fn message(results: &Results) -> String {
    let verdict = results.verdict.outcome.word();
    // What was not served is in no time, so it comes first.
    let not_served =
        words::not_served(&results.workloads).map_or_else(String::new, |words| format!(" · {words}"));
    let reason = screen::reason(results);
    if !matches!(
        reason.kind,
        ReasonKind::Slow | ReasonKind::NoTraces | ReasonKind::Shard | ReasonKind::Nothing
    ) {
        return format!("{verdict}{not_served} · {}", visible(&reason.headline));
    }
    let p99 = match runs::p99(results) {
        Some(Time::Ms(p99_ms)) => format!(" · p99 {}", duration(p99_ms)),
        Some(Time::None) => format!(" · p99 {NO_TIME}"),
        None => String::new(),
    };
    format!("{verdict}{not_served}{p99}")
}
