//! What receiving spans costs: `cargo bench --bench receiver [SPANS]`, two million of each kind without a number.
//!
//! Batches of 512 spans of about 400 bytes, as an exporter of a traced web service sends them, come by HTTP over one
//! connection. The processor time is that of the receiver's thread alone, so that the sender's does not count.
//! Printed, never judged: machines differ.

#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "a benchmark prints, and may stop")]

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

use bench::osprofiler::spans::{SpanKind, TraceSpan, protobuf, translate};
use bench::receive::server::{Receiver, ReceiverOptions};
use bench::receive::{Taker, listen};
use serde_json::json;

const SPANS: u64 = 2_000_000;
const BATCH: u64 = 512;
/// Batches made beforehand, sent over and over.
const PREPARED: u64 = 32;
/// Spans of a trace in one service.
const SPANS_OF_A_TRACE: u64 = 10;

/// Counts what it is given.
#[derive(Default)]
struct CountingSink {
    wants: bool,
    spans: AtomicU64,
    bytes: AtomicU64,
}

impl Taker for CountingSink {
    fn wants(&self, _: u128) -> bool {
        self.wants
    }

    fn take(&self, _: u128, spans: u32, resource_spans: &[u8]) {
        self.spans.fetch_add(u64::from(spans), Relaxed);
        self.bytes.fetch_add(resource_spans.len() as u64, Relaxed);
    }
}

fn spans(batch: u64) -> Vec<TraceSpan> {
    let resource = json!({
        "service.name": "orders", "service.version": "1.4.2", "telemetry.sdk.name": "opentelemetry",
        "telemetry.sdk.language": "python", "telemetry.sdk.version": "1.27.0", "host.name": "orders-7f9c-x2",
        "process.pid": 4711, "process.command": "gunicorn", "k8s.pod.name": "orders-7f9c-x2",
    });
    let resource = Arc::new(resource.as_object().unwrap().clone());
    let span = |number: u64| {
        // Traces of concurrent requests, mixed as they are in a batch.
        let trace = batch * (BATCH / SPANS_OF_A_TRACE) + number % (BATCH / SPANS_OF_A_TRACE);
        let attributes = json!({
            "http.request.method": "GET", "url.path": format!("/v1/orders/{number}"),
            "db.system": "postgresql", "db.name": "orders", "server.address": "10.1.2.3", "server.port": 5432,
            "db.statement": "SELECT id, customer, total FROM orders WHERE id = $1 AND deleted IS NULL",
            "thread.id": 140_000 + number,
        });
        TraceSpan {
            trace_id: u128::from(trace + 1) << 64 | 0x5eed,
            span_id: batch * BATCH + number + 1,
            parent_id: Some(number + 7),
            name: "SELECT orders".to_owned(),
            kind: SpanKind::Client,
            start_ns: 1_700_000_000_000_000_000 + number,
            end_ns: 1_700_000_000_003_000_000 + number,
            attributes: attributes.as_object().unwrap().clone(),
            resource: Arc::clone(&resource),
            scope: Arc::from("opentelemetry.instrumentation.sqlalchemy"),
            ..TraceSpan::default()
        }
    };
    (0..BATCH).map(span).collect()
}

fn as_json(spans: &[TraceSpan]) -> Vec<u8> {
    let pairs = |info: &serde_json::Map<String, serde_json::Value>| {
        let pair = |(key, value): (&String, &serde_json::Value)| match value.as_i64() {
            Some(number) => json!({"key": key, "value": {"intValue": number.to_string()}}),
            None => json!({"key": key, "value": {"stringValue": value}}),
        };
        info.iter().map(pair).collect::<Vec<_>>()
    };
    let span = |span: &TraceSpan| {
        json!({
            "traceId": format!("{:032x}", span.trace_id), "spanId": format!("{:016x}", span.span_id),
            "parentSpanId": format!("{:016x}", span.parent_id.unwrap()), "name": span.name, "kind": 3,
            "startTimeUnixNano": span.start_ns.to_string(), "endTimeUnixNano": span.end_ns.to_string(),
            "attributes": pairs(&span.attributes),
        })
    };
    let scopes =
        json!([{"scope": {"name": &*spans[0].scope}, "spans": spans.iter().map(span).collect::<Vec<_>>()}]);
    let resource = json!({"attributes": pairs(&spans[0].resource)});
    json!({"resourceSpans": [{"resource": resource, "scopeSpans": scopes}]}).to_string().into_bytes()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// Seconds of processor time of the receiver's thread so far (`/proc/PID/task/TID/schedstat`: nanoseconds).
fn cpu_seconds() -> f64 {
    for task in std::fs::read_dir("/proc/self/task").unwrap().flatten() {
        if std::fs::read_to_string(task.path().join("comm")).unwrap_or_default().trim() == "receiver" {
            let times = std::fs::read_to_string(task.path().join("schedstat")).unwrap();
            return times.split(' ').next().unwrap().parse::<f64>().unwrap() / 1e9;
        }
    }
    panic!("there is no thread of that name");
}

fn request(kind: &str, encoding: &str, body: &[u8]) -> Vec<u8> {
    let length = body.len();
    let head = format!(
        "POST /v1/traces HTTP/1.1\r\nHost: h\r\nContent-Type: {kind}\r\n{encoding}Content-Length: {length}\r\n\r\n"
    );
    [head.as_bytes(), body].concat()
}

fn main() {
    let number = std::env::args().find_map(|argument| argument.replace('_', "").parse().ok());
    let batches = (number.unwrap_or(SPANS) / BATCH).max(1);
    let prepared: Vec<Vec<TraceSpan>> = (0..PREPARED).map(spans).collect();
    let bodies: Vec<Vec<u8>> = prepared.iter().map(|spans| protobuf::encode(spans)).collect();
    let texts: Vec<Vec<u8>> = prepared.iter().map(|spans| as_json(spans)).collect();
    assert_eq!(protobuf::decode(&translate::to_protobuf(&texts[0]).unwrap()).unwrap(), prepared[0]);
    let size = bodies[0].len() as u64 / BATCH;
    println!("{} spans in batches of {BATCH}, {size} bytes each in protobuf", batches * BATCH);
    println!("spans                    per second of one core   of wanted   wall clock");
    const GZIP: &str = "Content-Encoding: gzip\r\n";
    for (name, kind, encoding, bodies) in [
        ("protobuf", "application/x-protobuf", "", &bodies),
        ("protobuf, gzip", "application/x-protobuf", GZIP, &bodies),
        ("JSON", "application/json", "", &texts),
    ] {
        let requests: Vec<Vec<u8>> = bodies
            .iter()
            .map(|body| request(kind, encoding, &if encoding.is_empty() { body.clone() } else { gzip(body) }))
            .collect();
        let mut wanted_rate = 0.0;
        for wants in [true, false] {
            let taker = Arc::new(CountingSink { wants, ..CountingSink::default() });
            let listeners = listen::bind(&["127.0.0.1:0".parse().unwrap()]).unwrap();
            let receiver =
                Receiver::start(listeners, Arc::clone(&taker) as Arc<dyn Taker>, ReceiverOptions::default());
            let receiver = receiver.unwrap();
            let mut stream = TcpStream::connect(receiver.addresses()[0]).unwrap();
            stream.set_nodelay(true).unwrap();
            let (started, mut answer) = (Instant::now(), [0; 1024]);
            for batch in 0..batches {
                stream.write_all(&requests[(batch % PREPARED) as usize]).unwrap();
                let length = stream.read(&mut answer).unwrap();
                assert!(answer[..length].starts_with(b"HTTP/1.1 200"));
            }
            let (wall, cpu) = (started.elapsed().as_secs_f64(), cpu_seconds());
            drop(stream);
            let counts = receiver.stop();
            assert_eq!(counts.spans + counts.foreign_spans, batches * BATCH);
            assert_eq!(taker.spans.load(Relaxed), counts.spans);
            let rate = (batches * BATCH) as f64 / cpu;
            let (kind, share) = if wants {
                wanted_rate = rate;
                ("wanted", String::new())
            } else {
                ("foreign", format!("{:.0} %", 100.0 * wanted_rate / rate))
            };
            println!("{:<24} {rate:>22.0} {share:>11} {wall:>10.2} s", format!("{kind}, {name}"));
        }
    }
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find(|line| line.starts_with("VmHWM")).unwrap_or_default();
    println!("peak memory, the sender's included: {}", peak.trim_start_matches("VmHWM:").trim());
}
