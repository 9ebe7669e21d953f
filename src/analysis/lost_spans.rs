//! Tests with spans that are lost on their way, as by a full queue. No point may be blamed for the time of what is
//! missing below it, and no trace that only took another way may be left out.

use std::sync::Arc;

use serde_json::json;
use uuid::Uuid;

use super::causes::{Causes, ComparedIteration, of_workload};
use super::places::Population;
use measure::sample::{ActionSample, IterationSample};
use osprofiler::record::{Timestamp, TraceRecord};
use osprofiler::report::TraceTree;
use results::choice::IterationClass;
use results::client_points::{ACTION, ITERATION, REPORTER};

const SLOW: usize = 24;
const TYPICAL: usize = 50;

/// A point: its name, the one around it, the kind of its span, its service, its start and its end in milliseconds.
type SpanFixture = (&'static str, &'static str, &'static str, &'static str, u64, u64);

/// A request to `shop`, which runs a statement and calls `stock`, which runs another. The statement of slow ones takes 300 ms
/// longer.
fn points(is_slow: bool) -> Vec<SpanFixture> {
    let ms = if is_slow { 300 } else { 0 };
    vec![
        (ITERATION, "b", "", REPORTER, 0, 40 + ms),
        (ACTION, ITERATION, "", REPORTER, 0, 40 + ms),
        ("orders", ACTION, "server", "shop", 1, 39 + ms),
        ("select", "orders", "", "shop", 2, 8),
        ("GET stock", "orders", "client", "shop", 10, 35 + ms),
        ("stock", "GET stock", "server", "stock", 12, 33 + ms),
        ("scan", "stock", "", "stock", 14, 30 + ms),
    ]
}

/// The trace without what is lost; a point with an error fails.
fn trace(is_slow: bool, lost: &[&str], fails: bool, noise_us: u64) -> TraceTree {
    let mut records = Vec::new();
    for (name, parent, kind, service, from, to) in points(is_slow) {
        if lost.contains(&name) {
            continue;
        }
        for (half, ms) in [("start", from), ("stop", to)] {
            let is_stop = half == "stop";
            let mut info = json!({"name": name});
            if !kind.is_empty() && !is_stop {
                info["kind"] = kind.into();
            }
            if is_stop && fails && name == "orders" {
                info["etype"] = "ERROR".into();
            }
            let noise_us = if is_stop { noise_us.min(900) } else { 0 };
            records.push(TraceRecord {
                name: format!("{name}-{half}").into(),
                base_id: "b".into(),
                trace_id: name.into(),
                parent_id: parent.into(),
                timestamp: Timestamp::from_unix_ns((1_000_000_000_000_000 + ms * 1_000 + noise_us) * 1_000),
                info: info.as_object().cloned().unwrap_or_default().into(),
                project: Some(service.into()),
                service: Some(service.into()),
            });
        }
    }
    TraceTree::build(&records)
}

/// What is lost of a slow or typical trace, by its number; `None` if all of it is.
type LossPattern = fn(is_slow: bool, number: usize) -> Option<&'static [&'static str]>;

fn causes(lost: LossPattern, fails: bool) -> Causes {
    let compared: Vec<ComparedIteration> = (0..SLOW + TYPICAL)
        .map(|number| {
            let is_slow = number < SLOW;
            let tree = lost(is_slow, number)
                .map(|lost| Arc::new(trace(is_slow, lost, fails && is_slow, 13 * number as u64)));
            ComparedIteration {
                side: if is_slow { IterationClass::Slow } else { IterationClass::Typical },
                top: false,
                trace_id: Uuid::from_u128(number as u128 + 1),
                sample: IterationSample {
                    number: number as u64,
                    duration_ns: if is_slow { 340_000_000 } else { 40_000_000 },
                    actions: vec![ActionSample { outcome: Some(200), ..ActionSample::default() }],
                    ..IterationSample::default()
                },
                tree,
                functions: Arc::default(),
            }
        })
        .collect();
    of_workload(&compared, 0, &Population { total: 480, ..Population::default() }, 7)
}

#[test]
fn what_is_lost_is_blamed_on_nobody() {
    const BELOW: &[&str] = &["stock", "scan"];
    // What is lost, whether slow ones fail, how many lack spans, and what is named.
    let rows: [(&str, LossPattern, bool, usize, Option<&str>); 8] = [
        ("nothing", |_, _| Some(&[]), false, 0, Some("scan")),
        (
            "the called service of a few",
            |_, number| Some(if number % 12 == 0 { BELOW } else { &[] }),
            false,
            7,
            Some("scan"),
        ),
        (
            "the called service of most slow ones",
            |is_slow, number| Some(if is_slow && number % 4 != 0 { BELOW } else { &[] }),
            false,
            18,
            None,
        ),
        ("the called service always", |_, _| Some(BELOW), false, 0, Some("GET stock")),
        (
            "the called service of slow ones that fail",
            |is_slow, _| Some(if is_slow { BELOW } else { &[] }),
            true,
            0,
            Some("GET stock"),
        ),
        (
            "a statement of slow ones, and one trace wholly",
            |is_slow, number| match number {
                30 => None,
                _ => Some(if is_slow && number % 4 != 0 { &["scan"] } else { &[] }),
            },
            false,
            18,
            None,
        ),
        // Without a sign of losses it is another way through the code, whose own time it is.
        (
            "a statement of slow ones",
            |is_slow, _| Some(if is_slow { &["scan"] } else { &[] }),
            false,
            0,
            Some("stock"),
        ),
        // It makes the same difference in all of them.
        (
            "a short statement of slow and typical ones",
            |_, number| match number {
                30 => None,
                _ => Some(if number % 9 == 0 { &["select"] } else { &[] }),
            },
            false,
            0,
            Some("scan"),
        ),
    ];
    for (what, lost, fails, lacking, named) in rows {
        let seen = causes(lost, fails);
        let comparison = seen.comparison.unwrap();
        let cause = comparison.kinds.iter().find(|kind| kind.is_cause).map(|kind| kind.name.as_str());
        assert_eq!((seen.lacking.len(), cause), (lacking, named), "{what}: {comparison:?}");
        // What lacks spans is not explained by what is left of it.
        let is_explained = |id: &Uuid| seen.explanations.iter().any(|one| one.trace_id == *id);
        assert!(!seen.lacking.iter().any(is_explained), "{what}");
    }
}
