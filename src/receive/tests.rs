//! Requests in protobuf and JSON: what is handed over is what was sent, and nothing else is.

mod links;

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::links::Links;
use super::wire::{SPANS_MAX, WireError, WireRequest};
use base::hex;
use osprofiler::spans::translate::{push_varint, to_protobuf};
use osprofiler::spans::{SpanEvent, SpanKind, TraceSpan, json as osprofiler_json, protobuf};

type TraceSpanMap = BTreeMap<u128, Vec<TraceSpan>>;

/// A field that holds bytes.
fn field(number: u8, content: &[u8]) -> Vec<u8> {
    let mut field = vec![number << 3 | 2];
    push_varint(&mut field, content.len() as u64);
    [field, content.to_vec()].concat()
}

/// A request of one resource and one scope with these spans.
fn request(spans: &[Vec<u8>]) -> Vec<u8> {
    let spans: Vec<u8> = spans.iter().flat_map(|span| field(2, span)).collect();
    field(1, &field(2, &spans))
}

/// A span with these ids and further fields.
fn span(trace_id: &[u8], span_id: &[u8], more: &[u8]) -> Vec<u8> {
    [field(1, trace_id), field(2, span_id), more.to_vec()].concat()
}

fn valid(more: &[u8]) -> Vec<u8> {
    span(&[1; 16], &[2; 8], more)
}

/// What a request hands over; every message is of one trace and resource.
fn delivered(body: &[u8], wants: impl Fn(u128) -> bool) -> Result<TraceSpanMap, WireError> {
    let request = WireRequest::read(body, &mut Links::new(), &wants)?;
    let (mut by_trace, mut number) = (TraceSpanMap::new(), 0);
    request.deliver(|trace_id, spans, message| {
        let decoded = protobuf::decode(&field(1, message)).unwrap();
        assert_eq!(decoded.len(), spans as usize);
        assert!(decoded.iter().all(|span| span.trace_id == trace_id && wants(trace_id)));
        assert!(decoded.iter().all(|span| span.resource == decoded[0].resource));
        number += decoded.len() as u64;
        by_trace.entry(trace_id).or_default().extend(decoded);
    });
    assert_eq!(number, request.wanted());
    Ok(by_trace)
}

fn sorted(mut by_trace: TraceSpanMap) -> TraceSpanMap {
    by_trace.values_mut().for_each(|spans| spans.sort_by_key(|span| span.span_id));
    by_trace
}

fn by_trace(spans: impl IntoIterator<Item = TraceSpan>) -> TraceSpanMap {
    let mut by_trace = TraceSpanMap::new();
    for span in spans {
        by_trace.entry(span.trace_id).or_default().push(span);
    }
    by_trace
}

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<i32>().prop_map(|number| Value::from(f64::from(number) + 0.5)),
        ".{0,6}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 8, 3, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..3).prop_map(Value::from),
            vec(("[a-c]", inner), 0..3).prop_map(|pairs| Value::Object(pairs.into_iter().collect())),
        ]
    })
}

fn attributes() -> impl Strategy<Value = Map<String, Value>> {
    vec((".{0,3}", any_value()), 0..3).prop_map(|pairs| pairs.into_iter().collect())
}

prop_compose! {
    fn any_span()(
        ids in (1..5_u128, any::<Option<u64>>()),
        name in ".{0,5}",
        kind in 0..6_i64,
        times in any::<(u64, u64)>(),
        attributes in attributes(),
        event in proptest::option::of((".{0,3}", any::<u64>(), attributes())),
        error in proptest::option::of(".{0,3}"),
        resource in 0..3_u8,
        scope in "[ab]?",
    ) -> TraceSpan {
        TraceSpan {
            trace_id: ids.0 << 64 | ids.0,
            parent_id: ids.1.filter(|id| *id != 0),
            name,
            kind: SpanKind::from_number(kind),
            start_ns: times.0,
            end_ns: times.1,
            attributes,
            events: event.into_iter().map(|(name, time_ns, attributes)| SpanEvent { name, time_ns, attributes }).collect(),
            error,
            resource: Arc::new(Map::from_iter([("service.name".to_owned(), resource.into())])),
            scope: Arc::from(scope),
            ..TraceSpan::default()
        }
    }
}

/// Spans with different ids.
fn any_spans() -> impl Strategy<Value = Vec<TraceSpan>> {
    vec(any_span(), 0..12).prop_map(|mut spans| {
        spans.iter_mut().zip(1..).for_each(|(span, id)| span.span_id = id);
        spans
    })
}

fn any_value_json(value: &Value) -> Value {
    match value {
        Value::Null => json!({}),
        Value::Bool(value) => json!({"boolValue": value}),
        Value::String(text) => json!({"stringValue": text}),
        Value::Number(number) if number.is_i64() => json!({"intValue": number.to_string()}),
        Value::Number(number) => json!({"doubleValue": number}),
        Value::Array(values) => {
            json!({"arrayValue": {"values": values.iter().map(any_value_json).collect::<Vec<_>>()}})
        }
        Value::Object(object) => json!({"kvlistValue": {"values": pairs_json(object)}}),
    }
}

fn pairs_json(object: &Map<String, Value>) -> Value {
    object.iter().map(|(key, value)| json!({"key": key, "value": any_value_json(value)})).collect()
}

/// A request in JSON, with a resource for each span.
fn request_json(spans: &[TraceSpan]) -> Value {
    let event = |event: &SpanEvent| {
        let attributes = pairs_json(&event.attributes);
        json!({"timeUnixNano": event.time_ns, "name": event.name, "attributes": attributes})
    };
    let group = |span: &TraceSpan| {
        json!({
            "resource": {"attributes": pairs_json(&span.resource)},
            "scopeSpans": [{"scope": {"name": &*span.scope}, "spans": [{
                "traceId": format!("{:032X}", span.trace_id),
                "spanId": format!("{:016x}", span.span_id),
                "parentSpanId": span.parent_id.map(|id| format!("{id:016x}")).unwrap_or_default(),
                "name": span.name,
                "kind": span.kind as i32,
                "startTimeUnixNano": span.start_ns.to_string(),
                "endTimeUnixNano": span.end_ns,
                "attributes": pairs_json(&span.attributes),
                "events": span.events.iter().map(event).collect::<Vec<_>>(),
                "status": span.error.as_ref().map(|message| json!({"code": 2, "message": message})),
            }]}],
        })
    };
    json!({"resourceSpans": spans.iter().map(group).collect::<Vec<_>>()})
}

proptest! {
    #[test]
    fn what_is_wanted_is_handed_over_as_it_was_sent(spans in any_spans(), wanted in 0..16_u128) {
        let wants = |trace_id: u128| wanted >> (trace_id as u32 - 1) & 1 == 1;
        let body = protobuf::encode(&spans);
        let expected = by_trace(protobuf::decode(&body).unwrap().into_iter().filter(|span| wants(span.trace_id)));
        prop_assert_eq!(sorted(delivered(&body, wants).unwrap()), sorted(expected.clone()));
        prop_assert_eq!(sorted(expected), by_trace(spans.iter().filter(|span| wants(span.trace_id)).cloned()));
        let request = WireRequest::read(&body, &mut Links::new(), wants).unwrap();
        prop_assert_eq!(request.wanted() + request.foreign, spans.len() as u64);
        prop_assert_eq!(request.invalid, 0);
    }

    #[test]
    fn spans_are_the_same_however_they_are_split_among_requests(
        spans in any_spans(), places in vec(any::<prop::sample::Index>(), 0..4), joined in any::<bool>(),
    ) {
        let mut places: Vec<usize> = places.iter().map(|at| at.index(spans.len() + 1)).collect();
        places.extend([0, spans.len()]);
        places.sort_unstable();
        let mut bodies: Vec<Vec<u8>> =
            places.windows(2).map(|ends| protobuf::encode(&spans[ends[0]..ends[1]])).collect();
        // Messages one behind the other are one message.
        if joined {
            bodies = vec![bodies.concat()];
        }
        let mut all = TraceSpanMap::new();
        for body in bodies {
            for (trace_id, spans) in delivered(&body, |_| true).unwrap() {
                all.entry(trace_id).or_default().extend(spans);
            }
        }
        prop_assert_eq!(sorted(all), by_trace(spans));
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in vec(any::<u8>(), 0..100)) {
        let _ = delivered(&bytes, |_| true);
        let _ = to_protobuf(&bytes);
    }

    /// Whatever is damaged: what is still handed over can be decoded, which `delivered` checks, and so can the whole.
    #[test]
    fn damaged_requests_are_refused_or_can_be_decoded(
        spans in any_spans(), at in any::<prop::sample::Index>(), byte in any::<u8>(), cut in any::<bool>(),
    ) {
        let mut body = protobuf::encode(&spans);
        prop_assume!(!body.is_empty());
        let at = at.index(body.len());
        if cut { body.truncate(at) } else { body[at] = byte }
        let request = WireRequest::read(&body, &mut Links::new(), |_| true).map(|request| request.invalid);
        if delivered(&body, |_| true).is_ok() && request == Ok(0) {
            prop_assert!(protobuf::decode(&body).is_ok());
        }
    }

    #[test]
    fn json_is_the_same_as_protobuf(spans in any_spans()) {
        let text = request_json(&spans).to_string();
        let translated = to_protobuf(text.as_bytes()).unwrap();
        prop_assert!(translated.len() <= text.len());
        let decoded = protobuf::decode(&translated).unwrap();
        prop_assert_eq!(&decoded, &osprofiler_json::decode(text.as_bytes()).unwrap().spans);
        prop_assert_eq!(by_trace(decoded), by_trace(spans));
    }

    #[test]
    fn damaged_json_is_refused_or_can_be_decoded(
        spans in any_spans(), at in any::<prop::sample::Index>(), byte in any::<u8>(), cut in any::<bool>(),
    ) {
        let mut text = request_json(&spans).to_string().into_bytes();
        let at = at.index(text.len());
        if cut { text.truncate(at) } else { text[at] = byte }
        if let Ok(body) = to_protobuf(&text) {
            prop_assert!(body.len() <= text.len());
            delivered(&body, |_| true).unwrap();
        }
    }
}

#[test]
fn spans_without_valid_ids_are_counted_and_no_others_suffer() {
    let (good, zeros) = (valid(&[]), vec![0; 16]);
    for (bad, name) in [
        (span(&[1; 15], &[2; 8], &[]), "a trace id of 15 bytes"),
        (span(&[1; 17], &[2; 8], &[]), "a trace id of 17 bytes"),
        (span(&zeros, &[2; 8], &[]), "a trace id of zeros"),
        (span(&[1; 16], &[2; 7], &[]), "a span id of 7 bytes"),
        (span(&[1; 16], &zeros[..8], &[]), "a span id of zeros"),
        (span(&[1; 16], &[2; 8], &field(4, &[3; 9])), "a parent id of 9 bytes"),
        (field(2, &[2; 8]), "no trace id"),
        (field(1, &[1; 16]), "no span id"),
        (Vec::new(), "nothing"),
    ] {
        let body = request(&[good.clone(), bad, good.clone()]);
        let request = WireRequest::read(&body, &mut Links::new(), |_| true).unwrap();
        assert_eq!((request.wanted(), request.invalid), (2, 1), "{name}");
        let taken = delivered(&body, |_| true).unwrap();
        assert_eq!(taken.values().map(Vec::len).sum::<usize>(), 2, "{name}");
    }
}

#[test]
fn malformed_requests_are_refused_as_a_whole() {
    const INT: &[u8] = &[0x08, 1];
    let key = |key: &[u8]| field(9, &field(1, key));
    for (body, name) in [
        (vec![0xff], "a key that ends"),
        (vec![0; 2], "a field without a number"),
        (vec![0x0b, 0x0c], "a group"),
        (vec![0x0a, 5, 1], "a length beyond the end"),
        ([vec![0x0a], vec![0xff; 10]].concat(), "a length of over 64 bits"),
        ([vec![0x20], vec![0x80; 10], vec![0]].concat(), "a number of eleven bytes"),
        ([vec![0x20], vec![0xff; 9], vec![2]].concat(), "a number of 65 bits"),
        (INT.to_vec(), "a number as the resources"),
        (field(1, &[0x10, 1]), "a number as the scopes"),
        (field(1, &[0x08, 1]), "a number as the resource"),
        (field(1, &field(1, &[0xff])), "a damaged resource"),
        (field(1, &field(3, &[0xff])), "a schema's URL that is not UTF-8"),
        (field(1, &field(2, &[0x10, 1])), "a number as the spans"),
        (field(1, &field(2, &field(1, &[0x0a, 9]))), "a damaged scope"),
        (request(&[valid(&[0x0d, 0, 0, 0, 0])]), "a number as the trace id"),
        (request(&[valid(&[0x2a, 2, b'x'])]), "a name beyond the end"),
        (request(&[valid(&[0x28, 1])]), "a number as the name"),
        (request(&[valid(&[0x38, 1])]), "a varint as the start"),
        (request(&[valid(&field(5, &[0xc3]))]), "a name that is not UTF-8"),
        (request(&[valid(&key(&[0xff]))]), "a key that is not UTF-8"),
        (request(&[valid(&field(9, &field(2, &[0x08, 1])))]), "a number as a text value"),
        (request(&[valid(&field(9, &field(2, &[0x3a, 4])))]), "bytes beyond the end"),
        (request(&[valid(&field(15, &[0x1a, 0]))]), "a text as the status code"),
        (request(&[valid(&[]), vec![0x0a]]), "a damaged span behind a good one"),
    ] {
        // Spans of other traces are not looked into so deeply.
        assert!(
            matches!(WireRequest::read(&body, &mut Links::new(), |_| true), Err(WireError::Malformed(_))),
            "{name}"
        );
        let taken = [request(&[valid(&[])]), body].concat();
        assert!(
            WireRequest::read(&taken, &mut Links::new(), |_| true).is_err(),
            "{name} behind a good resource"
        );
    }
}

#[test]
fn unknown_fields_and_repeated_heads_are_what_protobuf_says() {
    let unknown = [0xf8, 0x07, 1, 0xa2, 0x01, 1, 0xff, 0xfd, 0x07, 1, 2, 3, 4].to_vec();
    let plain = request(&[valid(&[])]);
    let body = field(
        1,
        &[unknown.clone(), field(2, &[unknown.clone(), field(2, &valid(&unknown))].concat())].concat(),
    );
    let body = [unknown, body].concat();
    assert_eq!(delivered(&body, |_| true).unwrap(), delivered(&plain, |_| true).unwrap());
    // The last id counts, and two resources are one.
    let name = |key: &[u8]| field(1, &field(1, &[field(1, key), field(2, &[0x10, 1])].concat()));
    let again = field(
        1,
        &[name(b"a"), field(2, &field(2, &span(&[9; 16], &[2; 8], &field(1, &[1; 16])))), name(b"b")]
            .concat(),
    );
    let taken = delivered(&again, |trace_id| trace_id == u128::from_be_bytes([1; 16])).unwrap();
    let keys: Vec<&String> = taken[&u128::from_be_bytes([1; 16])][0].resource.keys().collect();
    assert_eq!(keys, ["a", "b"]);
}

#[test]
fn spans_of_other_traces_cost_no_copy_and_no_check() {
    let mut asked = Vec::new();
    let spans = [valid(&field(5, &[0xff])), valid(&[]), span(&[7; 16], &[2; 8], &[])];
    let body = request(&spans);
    let request = WireRequest::read(&body, &mut Links::new(), |trace_id| {
        asked.push(trace_id);
        false
    });
    let request = request.unwrap();
    assert_eq!((request.wanted(), request.foreign), (0, 3));
    request.deliver(|_, _, _| panic!("nothing is wanted"));
    assert_eq!(asked, [u128::from_be_bytes([1; 16]), u128::from_be_bytes([7; 16])]);
}

#[test]
fn the_size_of_a_request_is_bounded() {
    // Lists in lists, as deep as it is allowed and deeper.
    let nested = |depth: usize| {
        let list = (0..depth).fold(field(1, b"x"), |inner, _| field(5, &field(1, &inner)));
        request(&[valid(&field(9, &field(2, &list)))])
    };
    assert!(delivered(&nested(25), |_| true).is_ok());
    for depth in [40, 2_000] {
        let error = WireRequest::read(&nested(depth), &mut Links::new(), |_| true).unwrap_err();
        assert_eq!(error, WireError::Malformed("messages are nested too deeply"), "{depth}");
    }
    let spans = vec![Vec::new(); SPANS_MAX];
    let body = request(&spans);
    assert_eq!(WireRequest::read(&body, &mut Links::new(), |_| true).unwrap().invalid, SPANS_MAX as u64);
    let more = [body, request(&[Vec::new()])].concat();
    assert_eq!(WireRequest::read(&more, &mut Links::new(), |_| true).unwrap_err(), WireError::TooManySpans);
    // A resource of 1 MiB for each of 300 traces; of one trace, it is copied once.
    let resource = field(1, &field(1, &field(1, &vec![b'r'; 1 << 20])));
    for (traces, expected) in [(300_u64, Some(WireError::TooLarge)), (1, None)] {
        let spans = (1..=300_u64).flat_map(|number| {
            let id = u128::from(number % traces + 1).to_be_bytes();
            field(2, &span(&id, &[2; 8], &[]))
        });
        let body = field(1, &[resource.clone(), field(2, &spans.collect::<Vec<u8>>())].concat());
        assert_eq!(WireRequest::read(&body, &mut Links::new(), |_| true).err(), expected, "{traces}");
    }
    let pieces = field(1, &[field(1, &[]).repeat(100), field(2, &field(2, &valid(&[])))].concat());
    assert!(WireRequest::read(&pieces, &mut Links::new(), |_| true).is_err());
    // Empty messages take no memory.
    let empty = field(1, &field(2, &[])).repeat(1_000_000);
    assert_eq!(WireRequest::read(&empty, &mut Links::new(), |_| true).unwrap().wanted(), 0);
}

#[test]
fn every_field_of_json_is_kept() {
    let span = |json: &str| format!(r#"{{"resourceSpans":[{{"scopeSpans":[{{"spans":[{json}]}}]}}]}}"#);
    let bytes = |hex: &str| {
        (0..hex.len() / 2).map(|at| hex::first_byte(&hex.as_bytes()[2 * at..]).unwrap()).collect()
    };
    for (json, expected) in [
        ("{}", ""),
        (r#"{"flags":257}"#, "850101010000"),
        (
            r#"{"traceState":"a=b","droppedAttributesCount":3,"droppedEventsCount":"4","droppedLinksCount":5}"#,
            "1a03613d62500360047005",
        ),
        (
            r#"{"links":[{"traceId":"0AfF","spanId":"01","attributes":[{"key":"k"}],"flags":1}]}"#,
            "6a110a020aff1201012203 0a016b3501000000",
        ),
        (
            r#"{"kind":"SPAN_KIND_CONSUMER","status":{"code":"STATUS_CODE_ERROR","message":"m"}}"#,
            "30057a05180212016d",
        ),
        (r#"{"kind":-1,"name":null,"events":null,"unknown":[{"a":{}}]}"#, "30ffffffffffffffffff01"),
        (
            r#"{"startTimeUnixNano":"18446744073709551615","endTimeUnixNano":1e3}"#,
            "39ffffffffffffffff41e803000000000000",
        ),
        (
            r#"{"attributes":[{"key":"a","value":{"bytesValue":"AP8="}},{"value":{"bytesValue":"-_8"}}]}"#,
            "4a090a016112043a0200ff4a0612043a02fbff",
        ),
        (
            r#"{"attributes":[{"value":{"intValue":-1}},{"value":{"boolValue":true}},{"value":{"doubleValue":2}}]}"#,
            "4a0d120b18ffffffffffffffffff014a0412021001 4a0b1209210000000000000040",
        ),
        (
            r#"{"attributes":[{"value":{"doubleValue":"NaN"}},{"value":{"doubleValue":"-Infinity"}}]}"#,
            "4a0b120921000000000000f87f4a0b120921000000000000f0ff",
        ),
        // What JavaScript's SDK writes of whole numbers that 64 bits do not hold, and of a text that it cut.
        (
            r#"{"attributes":[{"value":{"intValue":1e300}},{"value":{"intValue":18446744073709552000}}]}"#,
            "4a0b1209219c7500883ce4377e4a0b120921000000000000f043",
        ),
        (r#"{"attributes":[{"value":{"stringValue":"a\ud83d"}}]}"#, "4a0812060a0461efbfbd"),
        (
            r#"{"attributes":[{"value":{}},{"value":{"arrayValue":{"values":[null,{"stringValue":""}]}}}]}"#,
            "4a0212004a0812062a040a020a00",
        ),
    ] {
        let expected: Vec<u8> = bytes(&expected.replace(' ', ""));
        let translated = to_protobuf(span(json).as_bytes()).unwrap();
        assert_eq!(hex::encode(&translated), hex::encode(&request(&[expected])), "{json}");
    }
    let heads = r#"{"resourceSpans":[{"schemaUrl":"u","resource":{"droppedAttributesCount":1,
        "entityRefs":[{"type":"t","idKeys":["a","b"]}]},"scopeSpans":[{"schemaUrl":"v",
        "scope":{"name":"n","version":"1","droppedAttributesCount":2}}]}]}"#;
    let translated = hex::encode(&to_protobuf(heads.as_bytes()).unwrap());
    assert!(translated.contains("1a01750a0d10011a091201741a01611a0162"), "{translated}");
    assert!(translated.contains("1a01760a080a016e1201312002"), "{translated}");
}

#[test]
fn json_of_another_structure_is_refused() {
    let span = |json: &str| format!(r#"{{"resourceSpans":[{{"scopeSpans":[{{"spans":[{json}]}}]}}]}}"#);
    for (json, part) in [
        ("[]".to_owned(), "an object of OTLP"),
        ("{}{}".to_owned(), "trailing"),
        (String::new(), "EOF"),
        (r#"{"resourceSpans":{}}"#.to_owned(), "resourceSpans has an invalid value"),
        (r#"{"resourceSpans":[[]]}"#.to_owned(), "resourceSpans has an invalid value"),
        (span(r#"{"traceId":"AAAAAAAAAAAAAAAAAAAAAA=="}"#), "traceId has an invalid value"),
        (span(r#"{"traceId":"abc"}"#), "traceId has an invalid value"),
        (span(r#"{"traceId":1}"#), "traceId has an invalid value"),
        (span(r#"{"name":["a"]}"#), "name has an invalid value"),
        (span(r#"{"name":true}"#), "name has an invalid value"),
        (span(r#"{"startTimeUnixNano":-1}"#), "startTimeUnixNano has an invalid value"),
        (span(r#"{"startTimeUnixNano":"1.5"}"#), "startTimeUnixNano has an invalid value"),
        (span(r#"{"flags":4294967296}"#), "flags has an invalid value"),
        (span(r#"{"kind":"server"}"#), "kind has an invalid value"),
        (span(r#"{"kind":4294967296}"#), "kind has an invalid value"),
        (span(r#"{"status":[]}"#), "status has an invalid value"),
        (span(r#"{"attributes":[{"value":{"bytesValue":"!"}}]}"#), "bytesValue has an invalid value"),
        (span(r#"{"attributes":[{"value":{"intValue":1.5}}]}"#), "intValue has an invalid value"),
        (span(r#"{"attributes":[{"value":{"boolValue":"true"}}]}"#), "boolValue has an invalid value"),
        (span(&format!(r#"{{"unknown":{}"#, "[".repeat(100_000))), "expected"),
        (
            span(&format!(r#"{{"attributes":[{{"value":{}"#, r#"{"arrayValue":{"values":["#.repeat(100))),
            "recursion limit",
        ),
    ] {
        let error = to_protobuf(json.as_bytes()).unwrap_err().to_string();
        assert!(error.contains(part), "{json:.200}: {error}");
    }
}
