//! The attributes of resources that readers of spans keep.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::record::Info;
use crate::report::TraceTree;
use crate::spans::meaning::RESOURCE;
use crate::spans::{TraceSpan, read};

fn info(value: Value) -> Info {
    value.as_object().cloned().unwrap_or_default()
}

fn span(span_id: u64, parent_id: Option<u64>, resource: &Arc<Info>) -> TraceSpan {
    let (start_ns, end_ns) = (span_id * 1_000_000, 100_000_000 - span_id * 1_000_000);
    let resource = Arc::clone(resource);
    TraceSpan {
        trace_id: 1,
        span_id,
        parent_id,
        name: format!("op{span_id}"),
        start_ns,
        end_ns,
        resource,
        ..TraceSpan::default()
    }
}

#[test]
fn only_the_first_point_of_a_resource_has_its_attributes() {
    let api = Arc::new(info(json!({"service.name": "api", "host.name": "h", "k8s.pod.name": "api-7",
        "telemetry.sdk.name": "x", "process.pid": 7, "process.command_args": ["a"]})));
    // Another delivery of the same resource, and one of another pod.
    let again = Arc::new((*api).clone());
    let other = Arc::new(info(json!({"service.name": "api", "k8s.pod.name": "api-8"})));
    let mut beside = (*api).clone();
    beside.insert("service.name".into(), "proxy".into());
    let beside = Arc::new(beside);
    let spans = [
        span(1, None, &api),
        span(2, Some(1), &api),
        span(3, Some(2), &again),
        span(4, Some(3), &other),
        span(5, Some(4), &api),
        span(6, Some(99), &api),
        // Another service in the same pod.
        span(7, Some(6), &beside),
    ];
    let tree = TraceTree::build(&read::records("00000000-0000-0000-0000-000000000001", &spans));
    let kept: Vec<(&str, Option<&Value>)> =
        tree.points.iter().map(|point| (point.name.as_str(), point.info.get(RESOURCE))).collect();
    let (api, other) = (json!({"k8s.pod.name": "api-7", "process.pid": 7}), json!({"k8s.pod.name": "api-8"}));
    let expected = [
        ("op1", Some(&api)),
        ("op2", None),
        ("op3", None),
        ("op4", Some(&other)),
        ("op5", Some(&api)),
        ("op6", Some(&api)),
        ("op7", Some(&api)),
    ];
    assert_eq!(kept, expected);
}

#[test]
fn a_hostile_resource_is_bounded() {
    let many: Info = (0..10_000).map(|number| (format!("k{number}"), json!(number))).collect();
    let long = info(json!({"a": "x".repeat(10_000), "service.name": "s"}));
    for (resource, expected) in [(many, Some(32)), (long, None), (Info::new(), None)] {
        let spans = [span(1, None, &Arc::new(resource))];
        let tree = TraceTree::build(&read::records("00000000-0000-0000-0000-000000000001", &spans));
        let kept = tree.points[0].info.get(RESOURCE).and_then(Value::as_object).map(serde_json::Map::len);
        assert_eq!(kept, expected);
    }
}
