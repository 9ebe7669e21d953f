//! Spans of other traces with links to wanted ones.

use std::sync::Arc;

use serde_json::json;

use super::field;
use crate::links::{LINKS_OF_A_SPAN_MAX, Links};
use crate::wire::{WireError, WireRequest};
use osprofiler::spans::{SpanLink, TraceSpan, protobuf};

/// The traces that are wanted.
const WANTED: [u128; 2] = [1, 2];

fn wants(trace_id: u128) -> bool {
    WANTED.contains(&trace_id)
}

/// A span whose id is its number; links to the first span of each of these traces.
fn span(trace_id: u128, span_id: u64, links: &[u128]) -> TraceSpan {
    let resource = json!({"service.name": "worker"});
    TraceSpan {
        trace_id,
        span_id,
        resource: Arc::new(resource.as_object().unwrap().clone()),
        links: links.iter().map(|trace_id| SpanLink { trace_id: *trace_id, span_id: 1 }).collect(),
        ..TraceSpan::default()
    }
}

/// The traces that each span was handed over for, and how many spans are wanted, linked and foreign.
type SpanDelivery = (Vec<(u128, u64)>, [u64; 3]);

fn handed(spans: &[TraceSpan], links: &mut Links) -> SpanDelivery {
    let body = protobuf::encode(spans);
    let request = WireRequest::read(&body, links, wants).unwrap();
    let mut handed = Vec::new();
    request.deliver(|trace_id, number, message| {
        let spans = protobuf::decode(&field(1, message)).unwrap();
        assert_eq!(spans.len(), number as usize);
        handed.extend(spans.iter().map(|span| (trace_id, span.span_id)));
    });
    handed.sort_unstable();
    (handed, [request.wanted(), request.linked, request.foreign])
}

#[test]
fn a_trace_with_a_link_to_a_wanted_one_belongs_to_it() {
    for (what, spans, expected, counts) in [
        ("no link", vec![span(1, 1, &[]), span(7, 2, &[])], vec![(1, 1)], [1, 0, 1]),
        ("a link to a foreign trace", vec![span(7, 2, &[9]), span(9, 3, &[7])], vec![], [0, 0, 2]),
        ("to itself", vec![span(7, 2, &[7])], vec![], [0, 0, 1]),
        ("a link", vec![span(7, 2, &[1]), span(7, 3, &[]), span(8, 4, &[])], vec![(1, 2), (1, 3)], [0, 2, 1]),
        (
            "spans below it come before it",
            vec![span(7, 3, &[]), span(8, 4, &[]), span(7, 2, &[1])],
            vec![(1, 2), (1, 3)],
            [0, 2, 1],
        ),
        (
            "messages of two iterations, and one of somebody else",
            vec![span(7, 2, &[1, 9, 2]), span(7, 3, &[])],
            vec![(1, 2), (1, 3), (2, 2), (2, 3)],
            [0, 2, 0],
        ),
        (
            "a consumer that sends messages itself, in any order",
            vec![span(8, 4, &[7]), span(7, 3, &[]), span(7, 2, &[1]), span(8, 5, &[])],
            vec![(1, 2), (1, 3), (1, 4), (1, 5)],
            [0, 4, 0],
        ),
        (
            "a wanted trace stays one",
            vec![span(1, 1, &[2]), span(2, 2, &[1])],
            vec![(1, 1), (2, 2)],
            [2, 0, 0],
        ),
        ("the same link twice", vec![span(7, 2, &[1, 1])], vec![(1, 2)], [0, 1, 0]),
    ] {
        assert_eq!(handed(&spans, &mut Links::new()), (expected, counts), "{what}");
    }
}

#[test]
fn links_are_known_in_later_requests() {
    let mut links = Links::new();
    assert_eq!(handed(&[span(7, 2, &[2])], &mut links).1, [0, 1, 0]);
    assert_eq!(links.take_added(), [(7, 2)]);
    assert_eq!(handed(&[span(7, 3, &[]), span(8, 4, &[])], &mut links), (vec![(2, 3)], [0, 1, 1]));
    // A further message of another iteration.
    assert_eq!(handed(&[span(7, 5, &[1])], &mut links).0, [(1, 5), (2, 5)]);
    assert_eq!((links.take_added(), links.take_ignored()), (vec![(7, 1)], 0));
}

#[test]
fn hostile_links_are_bounded_or_ignored() {
    let mut many = span(7, 2, &[]);
    many.links = vec![SpanLink { trace_id: 9, span_id: 1 }; LINKS_OF_A_SPAN_MAX];
    many.links.push(SpanLink { trace_id: 1, span_id: 1 });
    let mut links = Links::new();
    assert_eq!(handed(&[many], &mut links).1, [0, 0, 1]);
    assert_eq!(links.take_ignored(), 1);
    let ids = [field(1, &7_u128.to_be_bytes()), field(2, &[2; 8])].concat();
    let good = field(13, &field(1, &1_u128.to_be_bytes()));
    let request = |link: &[u8]| field(1, &field(2, &field(2, &[&ids[..], link].concat())));
    let linked =
        |body: &[u8]| WireRequest::read(body, &mut Links::new(), wants).map(|request| request.linked);
    for (what, link, expected) in [
        ("a good one", good.clone(), Ok(1)),
        ("an id that is too short", field(13, &field(1, &[1; 3])), Ok(0)),
        ("an id of zeros", field(13, &field(1, &[0; 16])), Ok(0)),
        ("no id", field(13, &[]), Ok(0)),
        ("no message", [13 << 3, 1].to_vec(), Ok(0)),
        ("not protobuf", field(13, &[0xff; 9]), Ok(0)),
        // What is handed over is checked to its last byte.
        (
            "a good one, and damage behind it",
            [good, field(13, &[0xff; 9])].concat(),
            Err(WireError::Malformed("a field is damaged or ends after its message")),
        ),
    ] {
        assert_eq!(linked(&request(&link)), expected, "{what}");
    }
}
