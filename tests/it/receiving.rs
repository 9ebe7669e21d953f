//! A run with a receiver: a service without any key or backend sends its spans to `bench`, and the slow ones are explained.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bench::harness::{Event, Finished, HarnessError, Interrupt, RunOptions, Sink, YamlFile, run};
use bench::results::model::TraceState;
use serde_json::{Value, json};

use crate::server::{Seen, Server};

pub(crate) fn now_ns() -> u64 {
    u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos()).unwrap()
}

/// A request of a service that speaks OpenTelemetry: trace and parent from its `traceparent`, if it is sampled.
#[derive(Clone)]
pub(crate) struct Traced {
    pub(crate) trace_id: String,
    pub(crate) parent_id: String,
    pub(crate) nth: usize,
}

impl Traced {
    pub(crate) fn of(seen: &Seen) -> Option<Self> {
        let parts: Vec<&str> = seen.headers.get("traceparent")?.split('-').collect();
        let sampled = parts[3] == "01";
        sampled.then(|| Self { trace_id: parts[1].to_owned(), parent_id: parts[2].to_owned(), nth: seen.nth })
    }

    pub(crate) fn span(&self, which: u64, parent: &str, name: &str, kind: u8, times_ns: (u64, u64)) -> Value {
        json!({
            "traceId": self.trace_id, "spanId": format!("{:08x}{which:08x}", self.nth + 1),
            "parentSpanId": parent, "name": name, "kind": kind,
            "startTimeUnixNano": times_ns.0.to_string(), "endTimeUnixNano": times_ns.1.to_string(),
            "attributes": [{ "key": "db.statement", "value": { "stringValue": "SELECT 1" } }],
        })
    }

    pub(crate) fn id(&self, which: u64) -> String {
        format!("{:08x}{which:08x}", self.nth + 1)
    }
}

/// Sends spans as an exporter does; the answer's status.
pub(crate) fn export(address: SocketAddr, spans: &[Value]) -> String {
    let resource = json!({ "attributes": [{ "key": "service.name", "value": { "stringValue": "shop" } }] });
    let body = json!({ "resourceSpans": [{ "resource": resource, "scopeSpans": [{ "spans": spans }] }] });
    let body = body.to_string();
    let mut stream = TcpStream::connect(address).unwrap();
    let head = format!(
        "POST /v1/traces HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all((head + &body).as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer.lines().next().unwrap_or_default().to_owned()
}

/// Every tenth request waits for a slow statement.
fn shop(receiver: Arc<OnceLock<SocketAddr>>) -> Server {
    Server::start(move |seen, wire| {
        let began = now_ns();
        let slow = seen.nth % 10 == 9;
        std::thread::sleep(Duration::from_millis(if slow { 120 } else { 1 }));
        // Before the answer, so that all spans are there when the load ends.
        if let (Some(traced), Some(address)) = (Traced::of(seen), receiver.get()) {
            let ended = now_ns();
            let foreign = Traced {
                trace_id: "0af7651916cd43dd8448eb211c80319c".to_owned(),
                ..Traced::of(seen).unwrap()
            };
            let spans = [
                traced.span(1, &traced.parent_id, "GET /x", 2, (began, ended)),
                traced.span(2, &traced.id(1), "SELECT item", 3, (began, ended)),
                foreign.span(3, "", "somebody else's", 2, (began, ended)),
            ];
            assert_eq!(export(*address, &spans), "HTTP/1.1 200 OK");
        }
        wire.answer("200 OK", "application/json", "{}")
    })
}

pub(crate) fn options(folder: &std::path::Path, url: &str, profiler: &str, scenario: &str) -> RunOptions {
    let text = format!("title: t\n{scenario}\niteration: [ {{ action: a, get: /x }} ]\n");
    let mut options = RunOptions::new(YamlFile::text("s.yaml", text));
    let deployment = format!("targets: {{ default: \"{url}\" }}\nprofiler: {profiler}\n");
    options.deployment = Some(YamlFile::text("d.yaml", deployment));
    options.out = folder.to_path_buf();
    options
}

fn run_shop(profiler: &str, scenario: &str) -> Finished {
    let address = Arc::new(OnceLock::new());
    let server = shop(Arc::clone(&address));
    let events: Sink = Arc::new(move |event: &Event<'_>| {
        if let Event::Receiving(addresses) = event {
            address.set(addresses[0]).unwrap();
        }
    });
    let folder = tempfile::tempdir().unwrap();
    run(options(folder.path(), &server.url(), profiler, scenario), &Interrupt::new(), &events).unwrap()
}

#[test]
fn a_service_without_a_key_or_a_backend_is_explained() {
    let finished =
        run_shop("{ receive: 127.0.0.1:0 }", "runner: { constant: { times: 200, concurrency: 4 } }");
    let results = &finished.results;
    assert_eq!(results.profiling.headers, ["w3c"]);
    let received = results.profiling.received.as_ref().unwrap();
    assert_eq!((received.spans, received.other_traces), (400, 200), "{received:?}");
    assert_eq!((received.refused_requests, received.lost_spans), (0, 0), "{received:?}");
    let fetched = &results.profiling.fetched;
    assert!(fetched[&TraceState::Complete] > 20, "{fetched:?}");
    assert_eq!(fetched.keys().collect::<Vec<_>>(), [&TraceState::Complete], "{fetched:?}");
    // Something else may hold up a busy machine now and then.
    let culprits: Vec<&str> =
        results.slowest.iter().take(9).map(|slow| slow.culprit.as_ref().unwrap().name.as_str()).collect();
    let named = culprits.iter().filter(|name| name.contains("SELECT")).count();
    assert!(named > culprits.len() / 2, "{culprits:?}");
}

#[test]
fn the_control_group_sends_no_spans() {
    let finished = run_shop(
        "{ receive: 127.0.0.1:0 }",
        "profile: { control: 50% }\nrunner: { constant: { times: 100, concurrency: 4 } }",
    );
    let workload = &finished.results.workloads[0];
    let received = finished.results.profiling.received.as_ref().unwrap();
    assert!(workload.unprofiled > 0 && workload.unprofiled < 100);
    assert_eq!(received.spans, 2 * (100 - workload.unprofiled));
}

#[test]
fn a_service_that_sends_nothing_is_told_what_to_set() {
    let server = Server::answering_after(Duration::ZERO);
    let folder = tempfile::tempdir().unwrap();
    let options =
        options(folder.path(), &server.url(), "{ receive: 127.0.0.1:0 }", "runner: { serial: { times: 3 } }");
    let finished = run(options, &Interrupt::new(), &bench::harness::event::silent()).unwrap();
    let notes = finished.results.notes.join("\n");
    assert!(notes.contains("set OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:"), "{notes}");
    assert!(!notes.contains("HMAC"), "there is no key to check: {notes}");
    assert!(!finished.results.profiling.fetched.contains_key(&TraceState::Complete));
}

#[test]
fn a_port_that_is_taken_is_said_before_anything_is_made() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let profiler = format!("{{ receive: \"{}\" }}", taken.local_addr().unwrap());
    let options = options(folder.path(), "http://127.0.0.1:1", &profiler, "runner: { serial: { times: 1 } }");
    let error: HarnessError = match run(options, &Interrupt::new(), &bench::harness::event::silent()) {
        Err(error) => error,
        Ok(_) => panic!("it ran"),
    };
    let text = format!("{error:?}");
    assert!(text.contains("cannot receive spans at 127.0.0.1:"), "{text}");
    assert!(std::fs::read_dir(folder.path()).unwrap().next().is_none());
}
