//! The verdict in one line: `bench: PASS · p99 88.1 ms`, `bench: FAIL · p(99) is 412 ms, limit 250 ms`, as text and as an endpoint of shields.io.

use super::document::Badge;
use super::screen;
use super::words::{duration, visible};
use crate::results::model::{ReasonKind, Results};

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
    let reason = screen::reason(results);
    if !matches!(
        reason.kind,
        ReasonKind::Slow | ReasonKind::NoTraces | ReasonKind::Shard | ReasonKind::Nothing
    ) {
        return format!("{verdict} · {}", visible(&reason.headline));
    }
    // Of several workloads, the one that takes longest.
    let p99 = results
        .workloads
        .iter()
        .filter_map(|workload| workload.response_time.at(99.0))
        .max_by(f64::total_cmp);
    p99.map_or_else(|| verdict.to_owned(), |p99_ms| format!("{verdict} · p99 {}", duration(p99_ms)))
}
