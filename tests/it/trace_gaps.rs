//! What is missing of a trace, unreadable or impossible in it: a table of cases, each in every format that holds traces. It
//! is never a time of 0 and never "complete" without a word, in the terminal, as JSON and as a page.

use std::io::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bench::base::secret::Secret;
use bench::collect::files;
use bench::osprofiler::driver::Collector;
use bench::osprofiler::record::TraceRecord;
use bench::osprofiler::report::TraceTree;
use bench::report::document::terminal::TerminalStyle;
use bench::report::html;
use bench::report::trace::{json as trace_json, text};
use bench::results::functions::Functions;
use bench::results::model::TraceState;
use bench::results::trace::state;
use serde_json::{Map, Value, json};

const TRACE: &str = "5b8efff798038103d269b633813fc60c";
const BASE: &str = "5b8efff7-9803-8103-d269-b633813fc60c";
/// When the traces begin, in milliseconds since 1970.
const BEGIN_MS: i64 = 1_544_712_660_000;

/// A time in a file.
#[derive(Clone, Copy, PartialEq)]
enum Time {
    /// Milliseconds.
    At(i64),
    /// There is none.
    None,
    /// 0, as OTLP writes that it is not known.
    Zero,
    /// A text that is no time.
    Unreadable,
}

use Time::{At, None as No, Unreadable, Zero};

/// A span: its id, its parent's (0 for none), name, OTLP's kind, start and end.
type GapSpanRow = (u64, u64, &'static str, u8, Time, Time);

const SERVER: u8 = 2;
const CLIENT: u8 = 3;
const ROOT: GapSpanRow = (1, 0, "GET /", SERVER, At(0), At(100));

fn db(id: u64, parent: u64, start: Time, end: Time) -> GapSpanRow {
    (id, parent, "db SELECT", CLIENT, start, end)
}

fn child(id: u64, parent: u64) -> GapSpanRow {
    db(id, parent, At(10), At(40))
}

/// Writes spans as a file.
type Write = fn(&[GapSpanRow]) -> Vec<u8>;

fn hex_id(id: u64) -> String {
    format!("{id:016x}")
}

fn base64_of(hex: &str) -> String {
    let bytes: Vec<u8> =
        (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect();
    STANDARD.encode(bytes)
}

fn otlp_span(&(id, parent, name, kind, start, end): &GapSpanRow, ids: fn(&str) -> String) -> Value {
    let mut span = json!({
        "traceId": ids(TRACE), "spanId": ids(&hex_id(id)), "name": name, "kind": kind, "attributes": [], "status": {},
    });
    if parent != 0 {
        span["parentSpanId"] = ids(&hex_id(parent)).into();
    }
    for (key, time) in [("startTimeUnixNano", start), ("endTimeUnixNano", end)] {
        match time {
            At(ms) => span[key] = format!("{}000000", BEGIN_MS + ms).into(),
            Zero => span[key] = "0".into(),
            Unreadable => span[key] = "2018-12-13T14:51:00.000Z".into(),
            No => {}
        }
    }
    span
}

fn groups(spans: &[GapSpanRow], ids: fn(&str) -> String, scopes: &str) -> Value {
    let spans: Vec<Value> = spans.iter().map(|span| otlp_span(span, ids)).collect();
    let resource = json!({"attributes": [{"key": "service.name", "value": {"stringValue": "shop"}}]});
    json!([{"resource": resource, scopes: [{"spans": spans}]}])
}

fn otlp(spans: &[GapSpanRow]) -> Vec<u8> {
    json!({"resourceSpans": groups(spans, str::to_owned, "scopeSpans")}).to_string().into_bytes()
}

/// As the file exporter of a collector writes all signals.
fn otlp_lines(spans: &[GapSpanRow]) -> Vec<u8> {
    let mut lines = vec![json!({"resourceMetrics": [{"resource": {}, "scopeMetrics": []}]})];
    for span in spans {
        lines.push(json!({"resourceSpans": groups(&[*span], str::to_owned, "scopeSpans")}));
        lines.push(json!({"resourceLogs": [{"resource": {}, "scopeLogs": []}]}));
    }
    lines.iter().flat_map(|line| format!("{line}\n").into_bytes()).collect()
}

fn tempo(spans: &[GapSpanRow]) -> Vec<u8> {
    format!("{:#}", json!({"batches": groups(spans, base64_of, "instrumentationLibrarySpans")})).into_bytes()
}

fn tempo_v2(spans: &[GapSpanRow]) -> Vec<u8> {
    let trace = json!({"resourceSpans": groups(spans, base64_of, "scopeSpans")});
    json!({"trace": trace, "metrics": {}, "status": "COMPLETE"}).to_string().into_bytes()
}

fn jaeger(spans: &[GapSpanRow]) -> Vec<u8> {
    let span = |&(id, parent, name, kind, start, end): &GapSpanRow| {
        let kind = if kind == SERVER { "server" } else { "client" };
        let mut span = json!({
            "traceID": TRACE, "spanID": hex_id(id), "operationName": name, "processID": "p1", "logs": [],
            "tags": [{"key": "span.kind", "type": "string", "value": kind}], "warnings": null, "references": [],
        });
        if parent != 0 {
            let reference = json!({"refType": "CHILD_OF", "traceID": TRACE, "spanID": hex_id(parent)});
            span["references"] = json!([reference]);
        }
        match start {
            At(ms) => span["startTime"] = ((BEGIN_MS + ms) * 1_000).into(),
            Unreadable => span["startTime"] = "yesterday".into(),
            Zero => span["startTime"] = 0.into(),
            No => {}
        }
        match (start, end) {
            (At(start), At(end)) => span["duration"] = ((end - start) * 1_000).into(),
            (_, Unreadable) => span["duration"] = "long".into(),
            _ => {}
        }
        span
    };
    let spans: Vec<Value> = spans.iter().map(span).collect();
    let trace = json!({"traceID": TRACE, "spans": spans, "processes": {"p1": {"serviceName": "shop"}}});
    json!({"data": [trace], "total": 0, "limit": 0, "offset": 0, "errors": null}).to_string().into_bytes()
}

/// OSProfiler's records.
fn records(spans: &[GapSpanRow]) -> Vec<Value> {
    let of_span = |&(id, parent, name, kind, start, end): &GapSpanRow| {
        let record = |suffix: &str, time: Time| {
            let timestamp = match time {
                At(ms) => format!("2018-12-13T14:51:{:02}.{:03}000", ms / 1_000, ms % 1_000),
                Unreadable => "yesterday".to_owned(),
                No | Zero => return None,
            };
            let info = if kind == SERVER { json!({"request": {"path": "/"}}) } else { json!({}) };
            let parent_id = if parent == 0 { BASE.to_owned() } else { hex_id(parent) };
            Some(json!({
                "name": format!("{name}-{suffix}"), "base_id": BASE, "trace_id": hex_id(id), "parent_id": parent_id,
                "timestamp": timestamp, "info": info, "project": null, "service": "shop",
            }))
        };
        [record("start", start), record("stop", end)].into_iter().flatten().collect::<Vec<_>>()
    };
    spans.iter().flat_map(of_span).collect()
}

fn record_array(spans: &[GapSpanRow]) -> Vec<u8> {
    format!("{:#}", Value::Array(records(spans))).into_bytes()
}

fn record_lines(spans: &[GapSpanRow]) -> Vec<u8> {
    records(spans).iter().flat_map(|record| format!("{record}\n").into_bytes()).collect()
}

/// The trace of a run's directory.
fn of_run(spans: &[GapSpanRow]) -> Vec<u8> {
    json!({"trace_id": BASE, "state": "complete", "records": records(spans)}).to_string().into_bytes()
}

/// OSProfiler's own report, which has whole records.
fn report(spans: &[GapSpanRow]) -> Vec<u8> {
    let point = |record: &Value| {
        let mut info = Map::new();
        info.insert(format!("meta.raw_payload.{}", record["name"].as_str().unwrap()), record.clone());
        json!({"info": info, "parent_id": record["parent_id"], "trace_id": record["trace_id"], "children": []})
    };
    let points: Vec<Value> = records(spans).iter().map(point).collect();
    json!({"info": {"name": "total"}, "stats": {}, "children": points}).to_string().into_bytes()
}

/// What `bench trace show --json` makes of it.
fn own_json(spans: &[GapSpanRow]) -> Vec<u8> {
    let trace = load(&otlp(spans)).expect("a trace");
    let mut shown = Vec::new();
    trace_json::write(&trace.base_id, &trace.tree(), &mut shown).unwrap();
    shown
}

const SPANS: [(&str, Write); 5] = [
    ("OTLP", otlp),
    ("OTLP in lines", otlp_lines),
    ("Tempo's first API", tempo),
    ("Tempo's second API", tempo_v2),
    ("Jaeger", jaeger),
];
const RECORDS: [(&str, Write); 4] = [
    ("records in an array", record_array),
    ("records in lines", record_lines),
    ("the trace of a run", of_run),
    ("OSProfiler's report", report),
];

fn load(bytes: &[u8]) -> Option<files::TraceRecords> {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(bytes).unwrap();
    let loaded = files::load(files::open(file.path()).unwrap(), &[]).unwrap();
    assert!(loaded.traces.len() <= 1);
    loaded.traces.into_iter().next()
}

/// The text in the terminal.
fn shown(tree: &TraceTree) -> String {
    let mut shown = Vec::new();
    text::write(BASE, tree, true, None, &Functions::default(), TerminalStyle::default(), &mut shown).unwrap();
    String::from_utf8(shown).unwrap()
}

const WHOLE: &str = ", complete; shop";
const ONE_RECORD: &str = "not complete: 1 record cannot be read";
const ONE_PARENT: &str = "not complete: the parent of 1 point is missing";
const INCOMPLETE: &str = "1 of them incomplete";

/// What is wrong with a trace, and what is said of it: by spans, and by records where that differs.
type Case = (&'static str, Vec<GapSpanRow>, Vec<&'static str>, Option<Vec<&'static str>>);

fn cases() -> Vec<Case> {
    [cases_of_times(), cases_of_parents(), cases_of_ids()].concat()
}

fn cases_of_times() -> Vec<Case> {
    vec![
        ("nothing", vec![ROOT, child(2, 1)], vec!["2 points over 100 ms", WHOLE], None),
        ("no end", vec![ROOT, db(2, 1, At(10), No)], vec![INCOMPLETE, "db SELECT  (no stop)"], None),
        ("the end is 0", vec![ROOT, db(2, 1, At(10), Zero)], vec![INCOMPLETE, "db SELECT  (no stop)"], None),
        (
            "no times",
            vec![ROOT, db(2, 1, No, No)],
            vec![ONE_RECORD],
            Some(vec!["1 point over 100 ms", WHOLE]),
        ),
        (
            "ends before it starts",
            vec![ROOT, db(2, 1, At(40), At(10))],
            vec![INCOMPLETE, "db SELECT  (ends before it starts)"],
            None,
        ),
        (
            "an end that cannot be read",
            vec![ROOT, db(2, 1, At(10), Unreadable)],
            vec![INCOMPLETE, "1 record cannot be read", "db SELECT  (no stop)"],
            None,
        ),
        (
            "times that cannot be read",
            vec![ROOT, db(2, 1, Unreadable, Unreadable)],
            vec!["cannot be read"],
            None,
        ),
    ]
}

fn cases_of_parents() -> Vec<Case> {
    vec![
        ("the parent is missing", vec![ROOT, child(2, 99)], vec![ONE_PARENT], None),
        (
            "two parents are missing",
            vec![ROOT, child(2, 98), child(3, 99)],
            vec!["not complete: the parents of 2 points are missing"],
            None,
        ),
        (
            "the root is missing",
            vec![child(2, 1), child(3, 1)],
            vec!["not complete: the parents of 2 points are missing"],
            None,
        ),
        (
            "the root has a parent elsewhere",
            vec![(1, 99, "GET /", SERVER, At(0), At(100)), child(2, 1)],
            vec![WHOLE],
            None,
        ),
        (
            "one caller elsewhere of two requests",
            vec![(1, 99, "GET /", SERVER, At(0), At(40)), (2, 99, "GET /", SERVER, At(50), At(100))],
            vec![WHOLE],
            None,
        ),
        (
            "two roots",
            vec![ROOT, (2, 0, "GET /", SERVER, At(110), At(120))],
            vec!["2 points over 120 ms", WHOLE],
            None,
        ),
        ("its own parent", vec![ROOT, child(2, 2)], vec!["not complete: 1 point is its own ancestor"], None),
        (
            "a cycle of two",
            vec![ROOT, child(2, 3), child(3, 2)],
            vec!["3 points", "not complete: 1 point is its own ancestor"],
            None,
        ),
        (
            "nothing but a cycle",
            vec![child(2, 3), child(3, 2)],
            vec!["not complete: 1 point is its own ancestor"],
            None,
        ),
    ]
}

fn cases_of_ids() -> Vec<Case> {
    vec![
        ("delivered twice", vec![ROOT, child(2, 1), child(2, 1)], vec!["2 points over 100 ms", WHOLE], None),
        (
            "two points of one id",
            vec![ROOT, child(2, 1), db(2, 1, At(50), At(70))],
            // Of spans, both are shown.
            vec!["3 points over 100 ms", "not complete: 1 point has the id of another"],
            Some(vec!["2 points over 100 ms", "not complete: 1 point has the id of another"]),
        ),
        (
            "before its end, and again after it",
            vec![ROOT, db(2, 1, At(10), Zero), child(2, 1)],
            vec!["2 points over 100 ms", WHOLE],
            None,
        ),
    ]
}

#[test]
fn what_is_missing_or_impossible_is_said_of_every_format() {
    for (case, spans, expected, of_records) in cases() {
        let of_records = of_records.unwrap_or_else(|| expected.clone());
        let of_spans = SPANS.iter().map(|format| (format, &expected));
        for ((format, write), expected) in of_spans.chain(RECORDS.iter().map(|format| (format, &of_records)))
        {
            // Each line is read on its own: what has one id in two of them is one point, as of records.
            let is_split = case == "two points of one id" && *format == "OTLP in lines";
            let expected = if is_split { &of_records } else { expected };
            let trace = load(&write(&spans)).unwrap_or_else(|| panic!("{case}, {format}: no trace"));
            let tree = trace.tree();
            let text = shown(&tree);
            for part in expected {
                assert!(text.contains(part), "{case}, {format}: no {part:?} in\n{text}");
            }
            assert!(tree.points.iter().all(|point| point.duration_us != Some(0)), "{case}, {format}\n{text}");
            said_elsewhere(&tree, expected.contains(&WHOLE), &format!("{case}, {format}"));
        }
    }
}

/// JSON and page say the same.
fn said_elsewhere(tree: &TraceTree, is_whole: bool, case: &str) {
    let expected = if is_whole { TraceState::Complete } else { TraceState::Partial };
    assert_eq!(state(tree), expected, "{case}");
    let mut shown = Vec::new();
    trace_json::write(BASE, tree, &mut shown).unwrap();
    let document: Value = serde_json::from_slice(&shown).unwrap();
    assert_eq!(document["state"], json!(expected), "{case}");
    let mut page = Vec::new();
    html::trace::write(BASE, tree, None, &Functions::default(), None, &mut page).unwrap();
    let page = String::from_utf8(page).unwrap();
    for text in tree.gaps.texts() {
        assert!(page.contains(&format!("Of this trace, {text}.")), "{case}");
    }
    assert_eq!(page.contains("how long they took is not known"), tree.incomplete() > 0, "{case}");
}

#[test]
fn json_of_a_trace_is_the_trace_again() {
    for (case, spans, expected, _) in cases() {
        // Records that cannot be read are counted there; they are not in it.
        let tree = load(&own_json(&spans)).unwrap_or_else(|| panic!("{case}: no trace")).tree();
        let text = shown(&tree);
        for part in expected {
            assert!(text.contains(part), "{case}: no {part:?} in\n{text}");
        }
    }
}

/// The long of JavaScript's protobuf library, numbers with a fraction or an exponent.
#[test]
fn times_that_can_be_computed_are_right() {
    let ns: u64 = BEGIN_MS.unsigned_abs() * 1_000_000;
    let halves = |ns: u64| {
        let low = (ns & 0xffff_ffff) as u32;
        json!({"low": low.cast_signed(), "high": ns >> 32, "unsigned": true})
    };
    for (form, start, end) in [
        ("halves", halves(ns), halves(ns + 100_000_000)),
        ("numbers", json!(ns), json!(ns + 100_000_000)),
        ("a number of JavaScript's", json!(1.54471266e18), json!((ns + 100_000_000).to_string())),
        ("an exponent in a text", json!("1.54471266e18"), json!((ns + 100_000_000).to_string())),
    ] {
        let mut request: Value = serde_json::from_slice(&otlp(&[ROOT])).unwrap();
        let span = &mut request["resourceSpans"][0]["scopeSpans"][0]["spans"][0];
        (span["startTimeUnixNano"], span["endTimeUnixNano"]) = (start, end);
        let tree = load(request.to_string().as_bytes()).unwrap().tree();
        assert!(shown(&tree).contains("1 point over 100 ms, complete"), "{form}: {}", shown(&tree));
        assert_eq!(tree.first_unix_us, BEGIN_MS * 1_000, "{form}");
    }
}

/// What Tempo cut is shown, and it is said that it is only a part.
#[test]
fn a_part_of_a_trace_is_shown_as_one() {
    let trace = json!({"resourceSpans": groups(&[ROOT, child(2, 1)], base64_of, "scopeSpans")});
    let answer = json!({"trace": trace, "status": "PARTIAL", "message": "trace exceeds max size"});
    let trace = load(answer.to_string().as_bytes()).unwrap();
    let text = shown(&trace.tree());
    let said =
        "2 points over 100 ms, not complete: the collector gave only a part: trace exceeds max size; shop";
    assert!(text.contains(said), "{text}");
    let mut json = Vec::new();
    trace_json::write(BASE, &trace.tree(), &mut json).unwrap();
    assert_eq!(load(&json).unwrap().partial.as_deref(), Some("trace exceeds max size"));
}

/// A collector has the same records as the file.
#[tokio::test]
async fn what_is_missing_or_impossible_is_said_of_a_collector() {
    let directory = tempfile::tempdir().unwrap();
    for (case, spans, expected, of_records) in cases() {
        let path = directory.path().join(format!("{}.jsonl", case.replace(' ', "-")));
        for connection in [format!("file://{}", path.display()), format!("sqlite://{}.db", path.display())] {
            let collector = Collector::connect(&Secret::new(connection.as_str())).await.unwrap();
            let records: Vec<TraceRecord> =
                records(&spans).into_iter().map(|record| serde_json::from_value(record).unwrap()).collect();
            collector.write(&records).await.unwrap();
            let stored = collector.stored(BASE).await.unwrap();
            collector.close().await;
            let tree = TraceTree::build(&stored.records).with_unreadable(stored.rejected);
            let text = shown(&tree);
            for part in of_records.as_ref().unwrap_or(&expected) {
                assert!(text.contains(part), "{case}, {connection}: no {part:?} in\n{text}");
            }
        }
    }
}
