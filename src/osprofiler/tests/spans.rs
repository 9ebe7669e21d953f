//! Records to spans and back: as the Python driver has them, without loss, and from hostile bytes.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use proptest::prelude::*;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::record::{Info, TRACE_RECORDS_MAX, Timestamp, TraceRecord};
use crate::report::TraceTree;
use crate::spans::{
    DecodedSpans, SpanError, SpanEvent, SpanKind, TraceSpan, jaeger, json, protobuf, read, span_id, trace_id,
    write,
};

fn request() -> Value {
    serde_json::from_str(include_str!("../../../tests/vectors/otlp/otlp-request.json")).unwrap()
}

fn python_spans() -> Vec<TraceSpan> {
    let vector = request();
    let bodies = vector["requests"].as_array().unwrap().iter();
    bodies
        .flat_map(|request| {
            let body = STANDARD.decode(request["body_base64"].as_str().unwrap()).unwrap();
            protobuf::decode(&body).unwrap()
        })
        .collect()
}

fn info(value: Value) -> Info {
    value.as_object().cloned().unwrap()
}

fn record(name: &str, ids: [&str; 3], us: u64, info: Info) -> TraceRecord {
    TraceRecord {
        name: name.into(),
        base_id: ids[0].into(),
        trace_id: ids[1].into(),
        parent_id: ids[2].into(),
        timestamp: Timestamp::from_unix_ns(1_795_207_554_000_000_000 + us * 1_000),
        info: info.into(),
        project: Some("demo".into()),
        service: Some("api".into()),
    }
}

#[test]
fn ids_are_those_of_the_python_driver() {
    let mut checked = 0;
    for case in super::vectors()["ids"].as_array().unwrap() {
        let texts = ["input", "trace_id_hex32", "span_id_hex16"].map(|key| case[key].as_str());
        let [Some(input), Some(trace), Some(span)] = texts else { continue };
        // Zero is no id in OTLP; and Python takes hyphens anywhere.
        if Uuid::parse_str(input).is_ok_and(|id| !id.is_nil()) {
            assert_eq!(format!("{:032x}", trace_id(input)), trace, "{input}");
            assert_eq!(format!("{:016x}", span_id(input)), span, "{input}");
            checked += 1;
        }
    }
    assert!(checked >= 4, "{checked}");
    // Python draws these anew for every span.
    for text in ["not-a-uuid", "", "00000000-0000-0000-0000-000000000000"] {
        assert_ne!(trace_id(text), 0);
        assert_eq!(trace_id(text), trace_id(text));
        assert_ne!(span_id(text), 0);
    }
    assert_ne!(trace_id("one"), trace_id("other"));
}

/// What the vector's points were, by the script that made it, and what became of them.
#[test]
fn spans_are_those_of_the_python_driver() {
    let theirs = python_spans();
    let http = json!({"path": "/v3/users", "query": "a=1", "method": "GET", "scheme": "http"});
    let sent =
        json!({"path": "/p", "query": "q", "method": "GET", "scheme": "http", "hostname": "h", "port": 80});
    for (index, name, start, stop) in [
        (0, "db", json!({"db": {"statement": "select 1\nfrom x", "params": ["p", 1]}}), json!({})),
        (1, "rpc", json!({"function": {"name": "m.f", "args": "(1,)", "kwargs": "{}"}}), json!({})),
        (3, "my-api-thing", json!({}), json!({})),
        (4, "http", json!({"requests": sent}), json!({"requests": {"status_code": 201}})),
        (
            5,
            "db",
            json!({"db": {"statement": "INSERT INTO t", "params": []}}),
            json!({"etype": "ValueError", "message": "no"}),
        ),
        (6, "wsgi", json!({"request": http}), json!({})),
        (9, "rpc", json!({}), json!({})),
    ] {
        let them = &theirs[index];
        let base_id = Uuid::from_u128(them.trace_id).to_string();
        let id = |low: u64| Uuid::from_u64_pair(7, low).to_string();
        let parent_id = them.parent_id.map_or_else(|| base_id.clone(), id);
        let ids = [base_id.as_str(), &id(them.span_id), &parent_id];
        let ours = write::span(
            Some(&record(&format!("{name}-start"), ids, 0, info(start))),
            Some(&record(&format!("{name}-stop"), ids, 5, info(stop))),
        )
        .unwrap();
        assert_eq!(
            (ours.trace_id, ours.span_id, ours.parent_id),
            (them.trace_id, them.span_id, them.parent_id)
        );
        assert_eq!((&ours.name, ours.kind), (&them.name, them.kind));
        assert_eq!(without_ours(&ours.attributes), them.attributes, "{name}");
        let events = |span: &TraceSpan| -> Vec<(String, Info)> {
            span.events.iter().map(|event| (event.name.clone(), event.attributes.clone())).collect()
        };
        assert_eq!(events(&ours), events(them));
        // Theirs leaves it unset.
        assert_eq!(ours.error.is_some(), !them.events.is_empty());
        assert_eq!(ours.resource["service.name"], them.resource["service.name"]);
    }
    // Names lose a suffix, not characters.
    assert_eq!(theirs[2].name, "re");
    let restart = record("restart-start", ["b", "t", "b"], 0, Info::new());
    assert_eq!(write::span(Some(&restart), None).unwrap().name, "restart");
}

fn without_ours(attributes: &Info) -> Info {
    attributes
        .iter()
        .filter(|(key, _)| !key.starts_with("osprofiler."))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}

#[test]
fn spans_of_the_python_driver_become_the_tree_that_was() {
    let spans = python_spans();
    let base_id = "e62df5e7-2862-4e98-bb10-acb2516b4a81";
    let tree = TraceTree::build(&read::records(base_id, &spans));
    let points: Vec<_> =
        tree.points.iter().map(|point| (point.depth, &*point.name, point.detail())).collect();
    let expected = [
        (0, "wsgi", "GET /v3/users?a=1"),
        (1, "db", "select 1 from x"),
        (1, "rpc", "m.f"),
        (1, "re", ""),
        (1, "my-api-thing", ""),
        (1, "http", "GET h/p?q"),
        (1, "db", "INSERT INTO t"),
    ];
    assert_eq!(points, expected.map(|(depth, name, detail)| (depth, name, detail.to_owned())));
    let failed = tree.points[6].error.as_ref().unwrap();
    assert_eq!((&*failed.etype, &*failed.message), ("ValueError", "no"));
    assert_eq!(tree.points[0].parent_id, base_id);
    assert_eq!(tree.points[0].duration_us, Some(2_609));
    assert!(tree.points.iter().all(|point| point.project.as_deref() == Some("demo")));
    assert!(tree.points.iter().all(|point| point.service.as_deref() == Some("api")));
    assert_eq!(tree.points[1].info["db"]["params"], json!(["p", 1]));

    // A root below the client's point keeps the part of the link that 64 bits hold.
    let remote = read::records("146968e4-0a64-4170-a965-b9226d4e6bc3", &spans);
    assert_eq!(remote[0].parent_id, "af9f8f8148dfcbff");
    // One whose header said that the parent is base_id: the library leaves it out; others send it.
    let base_id = Uuid::from_u128(spans[7].trace_id);
    let mut below_base = spans[7].clone();
    below_base.parent_id = Some(base_id.as_u64_pair().1);
    assert_eq!(read::records(&base_id.to_string(), &[below_base])[0].parent_id, base_id.to_string());
    assert!(read::records("unknown", &spans).is_empty());
}

/// Any JSON that a record's info may hold.
fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        "[a-z\u{e9}\" ]{0,6}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        let key = prop_oneof![
            "[a-z]{1,4}",
            "(db|request|requests|function|host|etype|message|result|name|error|statement|params|path|method|query|scheme|hostname|status_code)"
        ];
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::vec((key, inner), 0..4)
                .prop_map(|pairs| Value::Object(pairs.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

fn any_info() -> impl Strategy<Value = Info> {
    let key =
        prop_oneof!["[a-z]{1,4}", "(db|request|requests|function|host|etype|message|attributes|events)"];
    prop::collection::vec((key, any_value()), 0..4).prop_map(|pairs| pairs.into_iter().collect())
}

fn any_point() -> impl Strategy<Value = [TraceRecord; 2]> {
    let id = || prop_oneof!["[a-z]{0,3}", any::<u128>().prop_map(|id| Uuid::from_u128(id).to_string())];
    let name = prop_oneof!["[a-z-]{0,8}", "(wsgi|db|http|rpc|restart|WSGI_GET_/)"];
    let origin = || prop::option::of("[a-z-]{0,4}");
    (name, id(), id(), id(), 0..9_u64, any_info(), any_info(), origin(), origin()).prop_map(
        |(name, base_id, trace_id, parent_id, us, start, stop, project, service)| {
            let ids = [&*base_id, &*trace_id, &*parent_id];
            let point = [
                record(&format!("{name}-start"), ids, 3, start),
                record(&format!("{name}-stop"), ids, 3 + us, stop),
            ];
            point.map(|record| TraceRecord {
                project: project.as_deref().map(Into::into),
                service: service.as_deref().map(Into::into),
                ..record
            })
        },
    )
}

/// A span as Jaeger shows it.
fn as_jaeger(span: &TraceSpan) -> Value {
    let tags = |attributes: &Info| -> Vec<Value> {
        let tag = |(key, value): (&String, &Value)| {
            let kind = match value {
                Value::Bool(_) => "bool",
                Value::Number(number) if number.is_f64() => "float64",
                Value::Number(_) => "int64",
                _ => "string",
            };
            json!({"key": key, "type": kind, "value": value})
        };
        attributes.iter().map(tag).collect()
    };
    let mut own = span.attributes.clone();
    own.insert("span.kind".into(), format!("{:?}", span.kind).to_lowercase().into());
    own.insert("otel.scope.name".into(), span.scope.to_string().into());
    if let Some(message) = &span.error {
        own.insert("otel.status_code".into(), "ERROR".into());
        own.insert("otel.status_description".into(), message.clone().into());
    }
    let trace_id = format!("{:x}", span.trace_id);
    let parent = span.parent_id.map(|id| format!("{id:016x}"));
    let references: Vec<Value> =
        (parent.iter()).map(|id| json!({"refType": "CHILD_OF", "traceID": trace_id, "spanID": id})).collect();
    let logs: Vec<Value> = (span.events.iter())
        .map(|event| {
            let mut fields = event.attributes.clone();
            fields.insert("event".into(), event.name.clone().into());
            json!({"timestamp": event.time_ns / 1_000, "fields": tags(&fields)})
        })
        .collect();
    let mut process = span.resource.as_ref().clone();
    let service = process.swap_remove("service.name");
    json!({"data": [{"traceID": trace_id, "spans": [{
        "traceID": trace_id, "spanID": format!("{:016x}", span.span_id), "operationName": span.name,
        "references": references, "startTime": span.start_ns / 1_000,
        "duration": (span.end_ns - span.start_ns) / 1_000,
        "tags": tags(&own), "logs": logs, "processID": "p1", "warnings": null,
    }], "processes": {"p1": {"serviceName": service, "tags": tags(&process)}}}], "errors": null})
}

proptest! {
    #[test]
    fn a_point_survives_every_format(point in any_point()) {
        let [start, stop] = &point;
        let span = write::span(Some(start), Some(stop)).unwrap();
        prop_assert_eq!(&read::records(&start.base_id, std::slice::from_ref(&span)), &point);
        let sent = protobuf::decode(&protobuf::encode(std::slice::from_ref(&span))).unwrap();
        prop_assert_eq!(&read::records(&start.base_id, &sent), &point);
        let shown = jaeger::decode(as_jaeger(&span).to_string().as_bytes()).unwrap().spans;
        prop_assert_eq!(&read::records(&start.base_id, &shown), &point);

        // Its halves, sent apart, are the point again.
        let halves = [write::span(Some(start), None).unwrap(), write::span(None, Some(stop)).unwrap()];
        prop_assert_eq!(&read::records(&start.base_id, &halves[..1]), &point[..1]);
        prop_assert_eq!(&read::records(&start.base_id, &halves[1..]), &point[1..]);
        let tree = TraceTree::build(&read::records(&start.base_id, &halves));
        prop_assert_eq!(tree.points.len(), 1);
        prop_assert_eq!(tree, TraceTree::build(&point));
    }

    #[test]
    fn decoders_never_panic(bytes: Vec<u8>, text in "[\\[{\"spanID:,1}\\]]{0,40}") {
        for bytes in [bytes.as_slice(), text.as_bytes()] {
            let _ = protobuf::decode(bytes);
            let _ = protobuf::decode_tempo_v2(bytes);
            let _ = protobuf::decode_answer(bytes);
            let _ = json::decode(bytes);
            let _ = json::decode_search(bytes);
            let _ = jaeger::decode(bytes);
            let _ = jaeger::decode_services(bytes);
            let _ = jaeger::decode_listing(bytes);
        }
    }

    /// One byte of a real answer changed, or its end cut off.
    #[test]
    fn damaged_answers_are_survived(at in 0..4_000_usize, byte: u8, cut in 0..4_000_usize) {
        let span = write::span(
            Some(&record("db-start", ["b", "t", "p"], 1, info(json!({"db": {"statement": "SELECT 1"}})))),
            Some(&record("db-stop", ["b", "t", "p"], 2, info(json!({"etype": "E", "message": "m"})))),
        ).unwrap();
        let check = |mut body: Vec<u8>, decode: fn(&[u8]) -> Result<DecodedSpans, SpanError>| {
            let (at, cut) = (at % body.len(), cut % body.len());
            let _ = decode(&body[..cut]);
            body[at] = byte;
            if let Ok(DecodedSpans { spans, .. }) = decode(&body) {
                let _ = TraceTree::build(&read::records("b", &spans));
                let _: Vec<_> = spans.iter().map(|span| read::base_id(span.trace_id, &spans)).collect();
            }
        };
        check(protobuf::encode(std::slice::from_ref(&span)), protobuf::decode_tempo);
        check(as_jaeger(&span).to_string().into_bytes(), jaeger::decode);
        check(TEMPO.as_bytes().to_vec(), json::decode);
    }

    /// Any ids, times, doubles and parents.
    #[test]
    fn any_spans_become_a_tree(
        spans in prop::collection::vec((0..4_u64, prop::option::of(0..4_u64), any::<u64>(), any::<u64>(), 0..6_i64), 0..12)
    ) {
        let wanted = trace_id("b");
        let spans: Vec<TraceSpan> = spans.into_iter().map(|(id, parent, start_ns, end_ns, kind)| TraceSpan {
            trace_id: wanted, span_id: id, parent_id: parent, start_ns, end_ns, kind: SpanKind::from_number(kind),
            name: "x".into(), ..TraceSpan::default()
        }).collect();
        let records = read::records("b", &spans);
        prop_assert!(records.len() <= spans.len() * 2);
        prop_assert!(records.iter().all(|record| record.timestamp_us().is_some()));
        let tree = TraceTree::build(&records);
        let halves = tree.points.iter().filter(|point| point.duration_us.is_none() && point.reversed_us.is_none());
        prop_assert_eq!(tree.points.len() * 2, records.len() + halves.count());
    }
}

/// The shape of Tempo's first API, ids in base64.
const TEMPO: &str = r#"{"batches": [{"resource": {"attributes": [
    {"key": "service.name", "value": {"stringValue": "shop"}},
    {"key": "host.name", "value": {"stringValue": "vm"}}]},
  "instrumentationLibrarySpans": [{"instrumentationLibrary": {"name": "otel"}, "spans": [
    {"traceId": "AAAAAAAAAAAAAAAAAAAAAQ==", "spanId": "AAAAAAAAAAI=", "name": "GET /cart",
     "kind": "SPAN_KIND_SERVER", "startTimeUnixNano": "1000000", "endTimeUnixNano": "9000000",
     "attributes": [{"key": "http.request.method", "value": {"stringValue": "GET"}},
       {"key": "url.path", "value": {"stringValue": "/cart"}},
       {"key": "url.query", "value": {"stringValue": "?id=1"}},
       {"key": "http.response.status_code", "value": {"intValue": "500"}},
       {"key": "tags", "value": {"arrayValue": {"values": [{"stringValue": "a"}, {"boolValue": true}]}}}],
     "status": {"code": "STATUS_CODE_ERROR", "message": "out of stock"}},
    {"traceId": "AAAAAAAAAAAAAAAAAAAAAQ==", "spanId": "AAAAAAAAAAM=", "parentSpanId": "AAAAAAAAAAI=",
     "name": "SELECT cart", "kind": 3, "startTimeUnixNano": 2000000, "endTimeUnixNano": 4000000,
     "attributes": [{"key": "db.system.name", "value": {"stringValue": "postgresql"}},
       {"key": "db.query.text", "value": {"stringValue": "SELECT *\nFROM cart"}}],
     "events": [{"name": "exception", "timeUnixNano": "3000000", "attributes": [
       {"key": "exception.type", "value": {"stringValue": "Deadlock"}},
       {"key": "exception.message", "value": {"stringValue": "twice"}}]}],
     "status": {"code": 2}},
    {"traceId": "AAAAAAAAAAAAAAAAAAAAAQ==", "spanId": "AAAAAAAAAAQ=", "parentSpanId": "AAAAAAAAAAI=",
     "name": "POST", "kind": 3, "startTimeUnixNano": 5000000, "endTimeUnixNano": 6000000,
     "attributes": [{"key": "http.method", "value": {"stringValue": "POST"}},
       {"key": "http.url", "value": {"stringValue": "https://pay.example:8443/charge?x=1"}}]},
    {"traceId": "AAAAAAAAAAAAAAAAAAAAAQ==", "spanId": "AAAAAAAAAAU=", "parentSpanId": "AAAAAAAAAAI=",
     "name": "find", "kind": 3, "startTimeUnixNano": 7000000, "endTimeUnixNano": 8000000,
     "attributes": [{"key": "db.system", "value": {"stringValue": "mongodb"}},
       {"key": "db.operation", "value": {"stringValue": "find"}},
       {"key": "db.mongodb.collection", "value": {"stringValue": "cart"}}]}]}]}]}"#;

#[test]
fn traces_of_any_opentelemetry_service_are_good_trees() {
    let base_id = Uuid::from_u128(1).to_string();
    let check = |spans: &[TraceSpan]| {
        let tree = TraceTree::build(&read::records(&base_id, spans));
        let points: Vec<_> = tree
            .points
            .iter()
            .map(|point| (point.depth, &*point.name, point.detail(), point.duration_us))
            .collect();
        let expected = [
            (0, "GET /cart", "GET /cart?id=1", Some(8_000)),
            (1, "SELECT cart", "SELECT * FROM cart", Some(2_000)),
            (1, "POST", "POST pay.example/charge?x=1", Some(1_000)),
            (1, "find", "find cart", Some(1_000)),
        ];
        assert_eq!(points, expected.map(|(depth, name, detail, us)| (depth, name, detail.to_owned(), us)));
        let error = |index: usize| {
            tree.points[index].error.as_ref().map(|error| format!("{}: {}", error.etype, error.message))
        };
        assert_eq!(error(0).as_deref(), Some("ERROR: out of stock"));
        assert_eq!(error(1).as_deref(), Some("Deadlock: twice"));
        assert_eq!(error(2), None);
        assert_eq!(tree.points[0].service.as_deref(), Some("shop"));
        assert_eq!((tree.points[0].host.as_deref(), &tree.points[0].project), (Some("vm"), &None));
        assert_eq!(tree.points[2].info["requests"]["port"], 8443);
        assert_eq!(tree.points[1].info["db"]["system"], "postgresql");
        assert_eq!(tree.points[0].info["attributes"]["tags"], json!(["a", true]));
    };
    let spans = json::decode(TEMPO.as_bytes()).unwrap().spans;
    check(&spans);
    check(
        &json::decode(format!("{{\"trace\": {TEMPO}, \"status\": \"COMPLETE\"}}").as_bytes()).unwrap().spans,
    );
    check(&protobuf::decode(&protobuf::encode(&spans)).unwrap());
    for status in ["\"PARTIAL\"", "1", "\"PARTIAL_STATUS_PARTIAL\""] {
        let partial = format!("{{\"trace\": {TEMPO}, \"status\": {status}, \"message\": \"too large\"}}");
        let decoded = json::decode(partial.as_bytes()).unwrap();
        assert_eq!(decoded.partial.as_deref(), Some("too large"), "{status}");
        check(&decoded.spans);
    }
    // Field 1 has the trace, 3 the status, 4 the message.
    let mut partial = protobuf::encode(&spans);
    let mut head = vec![0x0a];
    crate::spans::translate::push_varint(&mut head, partial.len() as u64);
    partial = [head, partial, vec![0x18, 1, 0x22, 3], b"cut".to_vec()].concat();
    let decoded = protobuf::decode_tempo_v2(&partial).unwrap();
    assert_eq!(decoded.partial.as_deref(), Some("cut"));
    check(&decoded.spans);
    let traces: Vec<Value> = spans.iter().map(|span| as_jaeger(span)["data"][0].clone()).collect();
    check(&jaeger::decode(json!({"data": traces}).to_string().as_bytes()).unwrap().spans);
}

#[test]
fn answers_of_jaeger_are_read() {
    // Old ids without zeros, the old parent, a link into another trace, times beyond all years.
    let answer = json!({"data": [{"traceID": "1", "spans": [
        {"traceID": "1", "spanID": "a", "operationName": "root", "startTime": u64::MAX, "duration": u64::MAX,
         "references": [{"refType": "CHILD_OF", "traceID": "2", "spanID": "f"}], "processID": "p9"},
        {"traceID": "1", "spanID": "b", "operationName": "old", "parentSpanID": "a", "startTime": 5, "duration": 1,
         "tags": [{"key": "error", "type": "bool", "value": true}, {"key": "n", "type": "int64", "value": "7"}],
         "logs": [{"timestamp": 5, "fields": [{"key": "event", "value": "error"}, {"key": "x", "value": 1}]}],
         "processID": "p1"},
        {"traceID": "1", "spanID": "c", "operationName": "late", "startTime": 6, "duration": 1, "processID": "p1",
         "references": [{"refType": "FOLLOWS_FROM", "traceID": "1", "spanID": "a"}]}],
        "processes": {"p1": {"serviceName": "s", "tags": [{"key": "hostname", "type": "string", "value": "h"}]}}}]});
    let spans = jaeger::decode(answer.to_string().as_bytes()).unwrap().spans;
    let base_id = Uuid::from_u128(1).to_string();
    let records = read::records(&base_id, &spans);
    let parents: Vec<_> = records.iter().map(|record| (&*record.name, &*record.parent_id)).collect();
    let a = "000000000000000a";
    assert_eq!(parents[0], ("old-start", a));
    assert_eq!(parents[1], ("old-stop", a));
    assert_eq!(parents[2], ("late-start", a));
    assert_eq!(parents[4], ("root-start", &*base_id));
    assert_eq!((records[0].host().as_deref(), records[0].service.as_deref()), (Some("h"), Some("s")));
    assert_eq!(
        (&records[0].info["attributes"]["n"], &records[1].info["etype"]),
        (&json!(7), &json!("ERROR"))
    );
    assert_eq!(records[0].info["events"][0]["name"], "error");

    for nothing in
        [r#"{"data": null, "errors": [{"code": 404, "msg": "trace not found"}]}"#, r#"{"data": []}"#, "{}"]
    {
        assert_eq!(jaeger::decode(nothing.as_bytes()).unwrap(), DecodedSpans::default());
    }
    let bad = r#"{"data": [{"spans": [{"traceID": "x y", "spanID": "1"}]}]}"#;
    let bad = jaeger::decode(bad.as_bytes()).unwrap();
    let first = "the id of a trace or span has an invalid value: \"x y\"";
    assert_eq!((bad.spans.len(), bad.faults.count, bad.faults.first.as_deref()), (0, 1, Some(first)));
    assert_eq!(jaeger::decode_services(br#"{"data": ["a", "b"], "total": 2}"#).unwrap(), ["a", "b"]);
    let found = br#"{"traces": [{"traceID": "1f", "rootTraceName": "GET /", "startTimeUnixNano": "5"},
        {"traceID": "2", "rootTraceName": "<root span not yet received>"}]}"#;
    assert_eq!(json::decode_search(found).unwrap(), [(0x1f, 5, Some("GET /".to_owned())), (2, 0, None)]);
}

#[test]
fn spans_that_share_an_id_are_told_apart() {
    let span = |name: &str, kind, start_ns| TraceSpan {
        trace_id: trace_id("b"),
        span_id: 5,
        name: name.into(),
        kind,
        start_ns,
        end_ns: start_ns + 1_000,
        ..TraceSpan::default()
    };
    // Zipkin's way; the server's span came first. One of them was delivered twice.
    let mut below = span("db", SpanKind::Client, 3_000);
    (below.span_id, below.parent_id) = (6, Some(5));
    let spans = [
        span("server", SpanKind::Server, 2_000),
        span("client", SpanKind::Client, 1_000),
        span("client", SpanKind::Client, 1_000),
        below,
    ];
    let tree = TraceTree::build(&read::records("b", &spans));
    let names: Vec<_> = tree.points.iter().map(|point| (point.depth, &*point.name)).collect();
    assert_eq!(names, [(0, "client"), (1, "server"), (2, "db")]);
    // The service that reports a span decides which of the two it is below.
    let of = |service: &str, mut span: TraceSpan| {
        span.resource = Arc::new(Info::from_iter([("service.name".to_owned(), json!(service))]));
        span
    };
    for (service, depth) in [("a", 1), ("b", 2), ("c", 2)] {
        let mut below = span("below", SpanKind::Internal, 3_000);
        (below.span_id, below.parent_id) = (6, Some(5));
        let [client, server] = [("client", SpanKind::Client, 1_000), ("server", SpanKind::Server, 2_000)]
            .map(|(name, kind, start_ns)| span(name, kind, start_ns));
        let spans = [of(service, below), of("b", server), of("a", client)];
        let tree = TraceTree::build(&read::records("b", &spans));
        let names: Vec<_> = tree.points.iter().map(|point| (point.depth, &*point.name)).collect();
        assert_eq!(names, [(0, "client"), (1, "server"), (depth, "below")], "{service}");
    }
    let flood: Vec<TraceSpan> = (0..100).map(|n| span("x", SpanKind::Client, n * 10)).collect();
    assert!(read::records("b", &flood).len() <= 32);
}

#[test]
fn answers_over_the_limits_are_refused_before_they_fill_the_memory() {
    // Empty messages of two bytes: spans in a scope in a resource, and attributes of a span.
    let field = |number: u8, content: Vec<u8>| {
        let mut bytes = vec![number << 3 | 2];
        let mut len = content.len();
        while len > 0x7f {
            bytes.push(len as u8 | 0x80);
            len >>= 7;
        }
        bytes.push(len as u8);
        bytes.extend(content);
        bytes
    };
    let too_many = TRACE_RECORDS_MAX / 2 + 10_000;
    let spans = [0x12, 0].repeat(too_many);
    let body = field(1, field(2, spans));
    assert!(matches!(protobuf::decode(&body), Err(SpanError::TooMany)));
    let attributes = [0x4a, 0].repeat(20_000_000);
    let body = field(1, field(2, field(2, attributes)));
    assert!(matches!(protobuf::decode(&body), Err(SpanError::TooMany)));
    let deep = (0..5_000).fold(Vec::new(), |inner, _| field(5, field(1, inner)));
    let body = field(1, field(2, field(2, field(9, field(2, deep)))));
    assert!(matches!(protobuf::decode(&body), Err(SpanError::Protobuf(_))));

    let span = r#"{"traceID":"1","spanID":"1"},"#.repeat(too_many);
    let body = format!(r#"{{"data": [{{"spans": [{}]}}]}}"#, span.trim_end_matches(','));
    assert!(jaeger::decode(body.as_bytes()).is_err());
    let spans = "{},".repeat(too_many);
    let body =
        format!(r#"{{"batches": [{{"scopeSpans": [{{"spans": [{}]}}]}}]}}"#, spans.trim_end_matches(','));
    assert!(matches!(json::decode(body.as_bytes()), Err(SpanError::TooMany)));
    for open in ["[", "{\"data\":", "{\"data\":[{\"spans\":[{\"tags\":[{\"value\":["] {
        let deep = open.repeat(100_000);
        assert!(jaeger::decode(deep.as_bytes()).is_err());
        assert!(json::decode(deep.replace("data", "trace").as_bytes()).is_err());
    }
}

#[test]
fn records_of_odd_times_and_names_are_written() {
    let mut odd = record("-start", ["", "", ""], 0, Info::new());
    assert!(write::span(None, None).is_none());
    odd.timestamp = "yesterday".into();
    assert!(write::span(Some(&odd), None).is_none());
    odd.timestamp = "0001-01-01T00:00:00".into();
    let span = write::span(Some(&odd), None).unwrap();
    assert_eq!((span.start_ns, span.end_ns), (0, 0));
    // A clock that was set back.
    let stop = record("x-stop", ["b", "t", "b"], 0, Info::new());
    let start = record("x-start", ["b", "t", "b"], 7, Info::new());
    let span = write::span(Some(&start), Some(&stop)).unwrap();
    assert_eq!(span.start_ns, span.end_ns);
    let event = SpanEvent::default();
    let span = TraceSpan { events: vec![event], resource: Arc::default(), ..span };
    assert_eq!(protobuf::decode(&protobuf::encode(std::slice::from_ref(&span))).unwrap(), [span]);
}

#[test]
fn a_listing_may_hold_more_spans_than_a_trace() {
    let trace = |id: u64, spans: u64| {
        let span = |n: u64| {
            format!(r#"{{"traceID": "{id:x}", "spanID": "{n:x}", "startTime": {id}, "duration": 0}}"#)
        };
        let spans: Vec<String> = (1..=spans).map(span).collect();
        format!(r#"{{"traceID": "{id:x}", "spans": [{}], "processes": {{}}}}"#, spans.join(","))
    };
    let mut traces: Vec<String> = (1..=51_000).map(|id| trace(id, 1)).collect();
    traces.push(trace(51_001, 60_000));
    let body = format!(r#"{{"data": [{}]}}"#, traces.join(","));
    let listed = jaeger::decode_listing(body.as_bytes()).unwrap();
    assert_eq!(listed.len(), 51_001);
    for (place, id, records, failed) in [(0, 1, Some(2), Some(false)), (51_000, 51_001, None, None)] {
        let summary = listed[place].summary.as_ref().unwrap();
        assert_eq!((summary.records, summary.failed), (records, failed));
        assert_eq!(
            (listed[place].trace_id, listed[place].last_start_ns),
            (id, u64::try_from(id).unwrap() * 1_000)
        );
    }
    for (body, works) in [
        (r#"{"data": null}"#, true),
        ("{}", true),
        (r#"{"data": [{"spans": []}]}"#, true),
        (r#"{"data": [{"spans": [{"traceID": "x", "spanID": "1"}]}]}"#, false),
        (r#"{"data": 7}"#, false),
        ("", false),
    ] {
        assert_eq!(jaeger::decode_listing(body.as_bytes()).is_ok(), works, "{body}");
    }
}
