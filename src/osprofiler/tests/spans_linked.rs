//! Spans below a link, in this trace or in others.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::report::TraceTree;
use crate::spans::{SpanKind, SpanLink, TraceSpan, jaeger, json as otlp_json, protobuf, read, trace_id};

const BASE_ID: &str = "3fa85f64-5717-4562-b3fc-2c963f66afa6";
/// The trace of a consumer.
const OTHER: u128 = 77;

fn span(trace_id: u128, span_id: u64, parent_id: Option<u64>, links: &[(u128, u64)]) -> TraceSpan {
    TraceSpan {
        trace_id,
        span_id,
        parent_id,
        name: format!("span {span_id}"),
        start_ns: span_id * 1_000_000,
        end_ns: span_id * 1_000_000 + 500_000,
        links: links
            .iter()
            .map(|(trace_id, span_id)| SpanLink { trace_id: *trace_id, span_id: *span_id })
            .collect(),
        resource: Arc::default(),
        ..TraceSpan::default()
    }
}

/// Each point as depth, name, and what it says of a link.
fn tree(spans: &[TraceSpan]) -> Vec<(usize, String, Value)> {
    let tree = TraceTree::build(&read::records(BASE_ID, spans));
    let point = |point: &crate::report::Point| {
        (point.depth, point.name.to_string(), point.info.get(read::LINK).cloned().unwrap_or_default())
    };
    tree.points.iter().map(point).collect()
}

fn expected(points: &[(usize, u64, Value)]) -> Vec<(usize, String, Value)> {
    points.iter().map(|(depth, id, link)| (*depth, format!("span {id}"), link.clone())).collect()
}

#[test]
fn a_span_without_a_parent_is_below_the_span_that_it_has_a_link_to() {
    let own = trace_id(BASE_ID);
    let low_half = own as u64;
    let no = Value::Null;
    let to = |id: u64| json!({"to": format!("{id:016x}")});
    let foreign = |id: u64| json!({"to": format!("{id:016x}"), "own_trace_id": format!("{OTHER:032x}")});
    for (what, spans, points) in [
        (
            "the trace of a consumer, with its own spans",
            vec![span(own, 1, None, &[]), span(OTHER, 2, None, &[(own, 1)]), span(OTHER, 3, Some(2), &[])],
            vec![(0, 1, no.clone()), (1, 2, foreign(1)), (2, 3, no.clone())],
        ),
        (
            "a parent counts more than a link",
            vec![span(own, 1, None, &[]), span(own, 2, None, &[]), span(own, 3, Some(1), &[(own, 2)])],
            vec![(0, 1, no.clone()), (1, 3, no.clone()), (0, 2, no.clone())],
        ),
        (
            "a link within the trace",
            vec![span(own, 1, None, &[]), span(own, 2, None, &[(own, 1)])],
            vec![(0, 1, no.clone()), (1, 2, to(1))],
        ),
        (
            "a link counts more than a parent that is not here",
            vec![span(own, 1, None, &[]), span(OTHER, 2, Some(99), &[(own, 1)])],
            vec![(0, 1, no.clone()), (1, 2, foreign(1))],
        ),
        (
            "a parent that is also linked",
            vec![span(own, 1, None, &[]), span(own, 2, Some(1), &[(own, 1)])],
            vec![(0, 1, no.clone()), (1, 2, to(1))],
        ),
        (
            "the first link to something that is here",
            vec![span(own, 1, None, &[]), span(OTHER, 2, None, &[(5, 6), (own, 98), (own, 1)])],
            vec![(0, 1, no.clone()), (1, 2, foreign(1))],
        ),
        (
            "a link to the client's root",
            vec![span(own, 1, None, &[]), span(OTHER, 2, None, &[(own, low_half)])],
            vec![(0, 1, no.clone()), (0, 2, foreign(low_half))],
        ),
        (
            "traces that do not belong to it",
            vec![span(own, 1, None, &[]), span(OTHER, 2, None, &[]), span(5, 3, None, &[(OTHER, 2)])],
            vec![(0, 1, no)],
        ),
        (
            "links in a circle",
            vec![span(own, 1, None, &[(OTHER, 2)]), span(OTHER, 2, None, &[(own, 1)])],
            vec![(0, 1, foreign(2)), (1, 2, foreign(1))],
        ),
    ] {
        let mut points = expected(&points);
        if what == "links in a circle" {
            points[0].2 = to(2);
        }
        assert_eq!(tree(&spans), points, "{what}");
    }
}

#[test]
fn links_are_read_in_every_format() {
    let own = trace_id(BASE_ID);
    let spans = [span(own, 1, None, &[(OTHER, 5), (own, 6)])];
    assert_eq!(protobuf::decode(&protobuf::encode(&spans)).unwrap(), spans);
    let ids = |id: u128| format!("{id:032x}");
    let of_otlp = json!({"resourceSpans": [{"scopeSpans": [{"spans": [{
        "traceId": ids(own), "spanId": "0000000000000001", "name": "span 1",
        "links": [
            {"traceId": ids(OTHER), "spanId": "0000000000000005"},
            {"traceId": "nothing", "spanId": "0000000000000005"},
            {},
            {"traceId": ids(own), "spanId": "0000000000000006", "attributes": [{"key": "a", "value": {}}]},
        ],
    }]}]}]});
    assert_eq!(otlp_json::decode(of_otlp.to_string().as_bytes()).unwrap().spans[0].links, spans[0].links);
    let of_jaeger = json!({"data": [{"spans": [{
        "traceID": ids(own), "spanID": "1", "operationName": "span 1",
        "references": [
            {"refType": "CHILD_OF", "traceID": ids(own), "spanID": "4"},
            {"refType": "FOLLOWS_FROM", "traceID": ids(OTHER), "spanID": "5"},
            {"refType": "FOLLOWS_FROM", "traceID": "no id", "spanID": "5"},
            {"refType": "FOLLOWS_FROM", "traceID": ids(own), "spanID": "6"},
        ],
    }]}]});
    let decoded = jaeger::decode(of_jaeger.to_string().as_bytes()).unwrap().spans;
    assert_eq!((decoded[0].parent_id, &decoded[0].links), (Some(4), &spans[0].links));
}

#[test]
fn points_say_whether_they_send_or_receive_messages() {
    for (kind, says) in [(SpanKind::Producer, json!("producer")), (SpanKind::Consumer, json!("consumer"))] {
        let span = TraceSpan { kind, ..span(trace_id(BASE_ID), 1, None, &[]) };
        assert_eq!(read::records(BASE_ID, &[span])[0].info["kind"], says);
    }
    assert!(!read::records(BASE_ID, &[span(trace_id(BASE_ID), 1, None, &[])])[0].info.contains_key("kind"));
}
