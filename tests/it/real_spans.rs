//! Against OSProfiler's own drivers for OTLP, RabbitMQ and MongoDB: each side reads what the other writes, with the
//! same result.

use std::collections::HashMap;
use std::io::Write;
#[cfg(any(feature = "messaging", feature = "mongodb"))]
use std::time::{Duration, Instant};

use bench::osprofiler::record::{Info, START_SUFFIX, TraceRecord};
use bench::osprofiler::report::TraceTree;
use bench::osprofiler::spans::{TraceSpan, json as otlp_json, protobuf, write};
use serde_json::{Value, json};

use crate::backend::Backend;
use crate::real_osprofiler::Peer;
use crate::support::service;

const PYTHON: &str = "BENCH_TEST_DRIVERS_PYTHON";
const WHAT: &str = "a Python that has OSProfiler and its drivers' packages (tests/real/drivers.sh)";

fn points() -> Value {
    let function = json!({"name": "m.f", "args": "(1,)", "kwargs": "{}"});
    let sent =
        json!({"method": "GET", "query": "q=é", "path": "/p", "hostname": "h", "port": 80, "scheme": "http"});
    let request = json!({"path": "/v3/é", "query": "a=1", "method": "GET", "scheme": "http"});
    json!([
        {"name": "wsgi", "info": {"request": request}, "children": [
            {"name": "db", "info": {"db": {"statement": "select 1", "params": {"é": [1, null, 2.5]}}},
             "stop_info": {"db": {"result": "[1]"}}},
            {"name": "http", "info": {"requests": sent}, "stop_info": {"requests": {"status_code": 201}}},
            {"name": "rpc", "info": {"function": function}, "stop_info": {"function": {"result": "7"}}, "children": [
                {"name": "my-api", "children": [{"name": "db", "info": {"db": {"statement": "INSERT INTO t", "params": []}},
                    "stop_info": {"etype": "IntegrityError", "message": "tw\nice"}}]}]},
            {"name": "cache", "info": {"x": 1}}]},
        {"name": "wsgi", "info": {"request": {"path": "/", "query": "", "method": "POST", "scheme": "https"}}},
    ])
}

/// What the library's driver gave its OTLP exporter, and the spans that came out.
fn python_spans(peer: Peer, backend: &Backend) -> (Vec<TraceRecord>, Vec<TraceSpan>) {
    let mut peer = peer;
    let url = format!("otlp://{}", backend.address);
    let mut write = json!({"op": "write", "connection_string": url, "hmac_key": "k", "project": "demo",
        "service": "api", "host": "vm", "points": points(), "echo": true});
    let mut written = peer.ask(&write)["records"].clone();
    // A request whose parent is a point of the client.
    write["base_id"] = "0d3b2e0c-9a0f-4f6e-8f43-0c4a4b5f6d7e".into();
    write["parent_id"] = "7a1c2f0c-9a0f-4f6e-a2b1-0c4a4b5f6d7e".into();
    let more = peer.ask(&write)["records"].take();
    written.as_array_mut().unwrap().extend(more.as_array().unwrap().clone());
    // The exporter sends what waits when the process ends.
    drop(peer);
    // A second driver in one process sends every later span twice.
    let mut spans: Vec<TraceSpan> = Vec::new();
    for span in backend.spans() {
        if !spans.iter().any(|known| (known.trace_id, known.span_id) == (span.trace_id, span.span_id)) {
            spans.push(span);
        }
    }
    (serde_json::from_value(written).unwrap(), spans)
}

#[test]
fn real_spans_of_the_library_equal_ours() {
    let Some(python) = service(PYTHON, WHAT) else { return };
    let backend = Backend::start();
    let (written, theirs) = python_spans(Peer::of(&python), &backend);
    assert_eq!((written.len(), theirs.len()), (32, 16));
    let mut starts: HashMap<&str, &TraceRecord> = HashMap::new();
    let mut compared = 0;
    for record in &written {
        if record.name.ends_with(START_SUFFIX) {
            starts.insert(&record.trace_id, record);
            continue;
        }
        let ours = write::span(starts.get(record.trace_id.as_str()).copied(), Some(record)).unwrap();
        let same = |span: &&TraceSpan| (span.trace_id, span.span_id) == (ours.trace_id, ours.span_id);
        let them = theirs.iter().find(same).unwrap_or_else(|| panic!("no {ours:?}"));
        assert_eq!((&ours.name, ours.kind, ours.parent_id), (&them.name, them.kind, them.parent_id));
        let attributes: Info = (ours.attributes.iter())
            .filter(|(key, _)| !key.starts_with("osprofiler."))
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        assert_eq!(attributes, them.attributes);
        let events = |span: &TraceSpan| -> Vec<(String, Info)> {
            span.events.iter().map(|event| (event.name.clone(), event.attributes.clone())).collect()
        };
        assert_eq!(events(&ours), events(them));
        compared += 1;
    }
    assert_eq!(compared, 16);
}

#[test]
fn real_spans_of_the_library_are_the_tree_that_was() {
    let Some(python) = service(PYTHON, WHAT) else { return };
    let backend = Backend::start();
    let (written, _) = python_spans(Peer::of(&python), &backend);
    let base_id = written[0].base_id.clone();
    let direct: Vec<TraceRecord> =
        written.iter().filter(|record| record.base_id == base_id).cloned().collect();
    let shape = |records: &[TraceRecord]| -> Vec<_> {
        let points = TraceTree::build(records).points;
        points
            .into_iter()
            .map(|mut point| {
                // The library's driver drops what it does not know.
                point.info_mut().retain(|key, _| key != "x" && key != "host");
                (point.depth, point.name.clone(), point.detail(), point.error, point.info)
            })
            .collect()
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        for reader in ["jaeger://{}/jaeger", "tempo://{}/tempo", "tempo://{}/tempo-old"] {
            let records =
                collector(&reader.replace("{}", &backend.address)).await.records(&base_id).await.unwrap();
            assert_eq!(shape(&records), shape(&direct), "{reader}");
            let from = (records[0].project.as_deref(), records[0].service.as_deref());
            assert_eq!(from, (Some("demo"), Some("api")));
        }
    });
}

/// OpenTelemetry's own protobuf definitions read our requests, and we the JSON that they make of them,
/// which is the form in which Tempo answers.
#[test]
fn real_opentelemetry_definitions_read_our_requests() {
    const SCRIPT: &str = "
import sys
from google.protobuf.json_format import MessageToJson
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
request = ExportTraceServiceRequest.FromString(sys.stdin.buffer.read())
assert len(request.SerializeToString()) == request.ByteSize()
print(MessageToJson(request))
";
    let Some(python) = service(PYTHON, WHAT) else { return };
    let vector = include_str!("../vectors/traces/placement-get-rps.redis-raw.json");
    let vector: Value = serde_json::from_str(vector).unwrap();
    let mut records: Vec<TraceRecord> = Vec::new();
    collect_records(&vector, &mut records);
    assert!(records.len() > 100, "{}", records.len());
    let mut starts: HashMap<&str, &TraceRecord> = HashMap::new();
    let mut spans = Vec::new();
    for record in &records {
        if record.name.ends_with(START_SUFFIX) {
            starts.insert(&record.trace_id, record);
        }
    }
    for record in records.iter().filter(|record| !record.name.ends_with(START_SUFFIX)) {
        let mut span = write::span(starts.get(record.trace_id.as_str()).copied(), Some(record)).unwrap();
        let odd = json!({"list": [1, "é", [true]], "object": {"a": {"b": 0.5}}, "least": i64::MIN});
        span.attributes.extend(odd.as_object().cloned().unwrap());
        spans.push(span);
    }
    let mut child = std::process::Command::new(python)
        .args(["-c", SCRIPT])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(&protobuf::encode(&spans)).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    let mut read = otlp_json::decode(&output.stdout).unwrap().spans;
    let key = |span: &TraceSpan| (span.trace_id, span.span_id);
    read.sort_by_key(key);
    spans.sort_by_key(key);
    assert_eq!(read, spans);
}

/// The records in a vector, oldest first.
fn collect_records(value: &Value, records: &mut Vec<TraceRecord>) {
    match value {
        Value::String(text) => records.extend(TraceRecord::decode(text.as_bytes())),
        Value::Array(values) => values.iter().rev().for_each(|value| collect_records(value, records)),
        Value::Object(object) => match serde_json::from_value(value.clone()) {
            Ok(record) => records.push(record),
            Err(_) => object.values().for_each(|value| collect_records(value, records)),
        },
        _ => {}
    }
}

async fn collector(url: &str) -> bench::osprofiler::driver::Collector {
    bench::osprofiler::driver::Collector::connect(&bench::base::secret::Secret::new(url)).await.unwrap()
}

#[cfg(any(feature = "messaging", feature = "mongodb"))]
mod stored {
    use std::sync::Arc;

    use bench::osprofiler::compat::compat_report;
    use bench::osprofiler::driver::{Collector, TraceQuery};
    use bench::osprofiler::notifier::{Notifier, QueueNotifier};
    use bench::osprofiler::record::ServiceIdentity;
    use bench::osprofiler::trace::TraceHandle;
    use uuid::Uuid;

    use super::*;

    /// The library writes, we read; we write, the library reads; the reports are equal.
    pub(super) async fn both_ways(peer: &mut Peer, url: &str, theirs: &Value) {
        let collector = collector(url).await;
        collector.probe().await.unwrap();
        let ask = |op: &str, more: Value| {
            let mut request = json!({"op": op, "hmac_key": "k"});
            let parts = [theirs, &more].map(|part| part.as_object().unwrap().clone());
            parts.into_iter().for_each(|part| request.as_object_mut().unwrap().extend(part));
            request
        };
        let origin =
            json!({"project": "demo", "service": "api", "host": "vm", "points": points(), "echo": true});
        let written = peer.ask(&ask("write", origin));
        let base_id = written["base_id"].as_str().unwrap();
        let mut expected: Vec<TraceRecord> = serde_json::from_value(written["records"].clone()).unwrap();
        for record in &mut expected {
            (record.project, record.service) = (Some("demo".into()), Some("api".into()));
        }
        let records = collector.records(base_id).await.unwrap();
        assert_eq!(records, expected);
        // Reading takes nothing away.
        assert_eq!(collector.records(base_id).await.unwrap(), expected);
        let ours = our_trace(&collector).await;
        assert_eq!(collector.records(&Uuid::new_v4().to_string()).await.unwrap(), []);

        let query = TraceQuery { errors_only: false, limit: 1_000 };
        let listed = collector.list(&query).await.unwrap();
        let found = listed.iter().find(|trace| trace.base_id == base_id).unwrap();
        assert_eq!(
            (found.records, found.name.as_deref(), found.failed),
            (Some(16), Some("wsgi"), Some(true))
        );
        assert_eq!(found.timestamp, expected[0].timestamp.to_string());
        assert!(listed.iter().any(|trace| trace.base_id == ours && trace.failed == Some(false)));
        let failed = collector.list(&TraceQuery { errors_only: true, ..query }).await.unwrap();
        assert!(failed.iter().any(|trace| trace.base_id == base_id));
        assert!(failed.iter().all(|trace| trace.base_id != ours && trace.failed == Some(true)));

        // Before the library reads, which may take everything away.
        let reports = [base_id, &ours].map(str::to_owned);
        let mut compat = Vec::new();
        for id in &reports {
            compat.push(compat_report(&collector.records(id).await.unwrap()));
        }
        drop(collector);
        // The newest first: the library's messaging driver removes every other trace.
        let report = peer.ask(&ask("report", json!({"base_id": reports[1]})));
        assert_same(&compat[1], &report);
        if theirs["connection_string"] != "messaging://" {
            assert_same(&compat[0], &peer.ask(&ask("report", json!({"base_id": reports[0]}))));
        }
    }

    /// Equal but for what a storage adds to the raw records.
    #[track_caller]
    fn assert_same(ours: &Value, theirs: &Value) {
        assert!(!theirs["children"].as_array().unwrap().is_empty(), "{theirs}");
        assert_eq!(ours, theirs);
    }

    async fn our_trace(collector: &Collector) -> String {
        let queue = Arc::new(QueueNotifier::start(collector.clone(), 1_000));
        let identity = ServiceIdentity { project: "demo".into(), service: "rust".into(), host: "vm".into() };
        let sink = Arc::clone(&queue) as Arc<dyn Notifier>;
        let trace = TraceHandle::start(Uuid::new_v4(), None, Arc::new(identity), sink);
        {
            let info =
                json!({"request": {"method": "GET", "path": "/漢", "n": 1_i64 << 40, "f": 0.5, "z": null}});
            let root = trace.enter("wsgi", info.as_object().cloned());
            tokio::time::sleep(Duration::from_millis(3)).await;
            drop(root.trace().enter("db", None));
        }
        let report = queue.shutdown().await;
        assert_eq!((report.written, report.dropped, report.last_error), (4, 0, None));
        trace.base_id().to_owned()
    }
}

#[cfg(feature = "messaging")]
#[test]
fn real_rabbitmq_carries_traces_between_the_library_and_us() {
    let Some(python) = service(PYTHON, WHAT) else { return };
    let Some(url) = service("BENCH_TEST_AMQP_URL", "a RabbitMQ (tests/real/broker.sh)") else { return };
    let mut peer = Peer::of(&python);
    let transport = url.replacen("messaging://", "rabbit://", 1);
    let theirs = json!({"connection_string": "messaging://", "options": {"transport_url": transport}});
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(stored::both_ways(&mut peer, &url, &theirs));
}

#[cfg(feature = "mongodb")]
#[test]
fn real_mongodb_protocol_carries_traces_between_the_library_and_us() {
    let Some(python) = service(PYTHON, WHAT) else { return };
    let Some(url) = service("BENCH_TEST_MONGODB_URL", "a MongoDB (tests/real/drivers.sh)") else { return };
    let mut peer = Peer::of(&python);
    let theirs = json!({"connection_string": url});
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(stored::both_ways(&mut peer, &url, &theirs));
    runtime.block_on(check_a_long_trace(&url));
}

/// More documents than one answer holds, and connection strings that are none.
#[cfg(feature = "mongodb")]
async fn check_a_long_trace(url: &str) {
    let collector = collector(url).await;
    let base_id = uuid::Uuid::new_v4().to_string();
    let records: Vec<TraceRecord> = (0..3_000)
        .map(|n| TraceRecord {
            name: "a-start".into(),
            base_id: base_id.as_str().into(),
            trace_id: n.to_string().into(),
            parent_id: base_id.as_str().into(),
            timestamp: "2026-11-20T22:52:01.000000".into(),
            info: json!({"n": n, "text": "é\"'$."}).as_object().cloned().unwrap().into(),
            project: None,
            service: None,
        })
        .collect();
    let start = Instant::now();
    for batch in records.chunks(1_000) {
        collector.write(batch).await.unwrap();
    }
    assert_eq!(collector.records(&base_id).await.unwrap(), records);
    println!("3000 documents written and read in {:?}", start.elapsed());
}

#[cfg(any(feature = "messaging", feature = "mongodb"))]
#[tokio::test]
async fn faults_of_storages_are_told_without_passwords() {
    for (url, part) in [
        #[cfg(feature = "messaging")]
        ("messaging://u:hunter2@127.0.0.1:1/v", "connect to the collector messaging://127.0.0.1:1/v"),
        #[cfg(feature = "messaging")]
        ("messaging://", "write it as messaging://user:password@host"),
        #[cfg(feature = "mongodb")]
        ("mongodb://u:hunter2@127.0.0.1:1/", "connect to the collector mongodb://127.0.0.1:1/"),
        #[cfg(feature = "mongodb")]
        ("mongodb://u:hunter2@h:x/", "write it as mongodb://"),
        #[cfg(feature = "mongodb")]
        ("mongodb+srv://u:hunter2@h/", "name the hosts"),
    ] {
        let start = Instant::now();
        let url = bench::base::secret::Secret::new(url);
        let error = bench::osprofiler::driver::Collector::connect(&url).await.unwrap_err();
        let shown = format!("{} {error:?}", error.chain());
        assert!(shown.contains(part), "{shown}");
        assert!(!shown.contains("hunter2"), "{shown}");
        assert!(start.elapsed() < Duration::from_secs(30));
    }
}
