//! Traces of an iteration for tests: points of the client and of services.

use serde_json::{Value, json};

use osprofiler::record::{Info, Timestamp, TraceRecord};
use osprofiler::report::TraceTree;

/// Of the second in which all tests are.
const ANCHOR_NS: u64 = 1_700_000_000_000_000_000;

/// A point: its times are in milliseconds.
pub(super) struct SamplePoint {
    id: u32,
    parent: u32,
    name: &'static str,
    service: &'static str,
    ms: (u64, u64),
    info: Value,
}

/// Services have a host each; the client's points belong to `bench`.
pub(super) fn at(
    id: u32,
    parent: u32,
    name: &'static str,
    service: &'static str,
    ms: (u64, u64),
) -> SamplePoint {
    SamplePoint { id, parent, name, service, ms, info: json!({}) }
}

pub(super) fn tree(points: &[SamplePoint]) -> TraceTree {
    let records = points.iter().flat_map(|point| {
        let half = |suffix: &str, ms: u64, info: &Value| {
            let mut info: Info = info.as_object().unwrap().clone();
            info.insert("host".to_owned(), format!("host of {}", point.service).into());
            TraceRecord {
                name: format!("{}{suffix}", point.name).into(),
                base_id: "0".into(),
                trace_id: point.id.to_string().into(),
                parent_id: point.parent.to_string().into(),
                timestamp: Timestamp::from_unix_ns(ANCHOR_NS + ms * 1_000_000),
                info: info.into(),
                project: Some(point.service.into()),
                service: Some(point.service.into()),
            }
        };
        [half("-start", point.ms.0, &point.info), half("-stop", point.ms.1, &json!({}))]
    });
    TraceTree::build(&records.collect::<Vec<_>>())
}

/// An iteration of 100 ms with one request, and these points of services.
pub(super) fn iteration(services: Vec<SamplePoint>) -> TraceTree {
    let mut points =
        vec![at(1, 0, "iteration", "bench", (5_000, 5_100)), at(2, 1, "action", "bench", (5_001, 5_099))];
    points.extend(services);
    tree(&points)
}

pub(super) fn with(point: SamplePoint, info: Value) -> SamplePoint {
    SamplePoint { info, ..point }
}

pub(super) fn linked() -> Value {
    json!({"link": {"to": "3"}})
}
