//! A run with a receiver: a service without any key or backend sends its spans to `bench`, and the slow ones are explained.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, OnceLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bench::harness::options::LiveFeed;
use bench::harness::{Event, FinishedRun, HarnessError, Interrupt, RunOptions, Sink, YamlFile, run};
use bench::live::figures::WatchedPart;
use bench::results::model::TraceState;
use osprofiler::base::secret::Secret;
use osprofiler::driver::Collector;
use osprofiler::record::TraceRecord;
use osprofiler::report::Point;
use osprofiler::verifying::ServerKeys;
use serde_json::{Value, json};

use crate::server::{ScriptedRequest, ScriptedServer};

pub(crate) fn now_ns() -> u64 {
    u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos()).unwrap()
}

/// A request of a service that speaks OpenTelemetry: trace and parent from its `traceparent`, if it is sampled.
#[derive(Clone)]
pub(crate) struct SampledRequest {
    pub(crate) trace_id: String,
    pub(crate) parent_id: String,
    pub(crate) nth: usize,
}

impl SampledRequest {
    pub(crate) fn of(seen: &ScriptedRequest) -> Option<Self> {
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

/// A request of OTLP in JSON.
pub(crate) fn request_of(spans: &[Value]) -> Value {
    let resource = json!({ "attributes": [{ "key": "service.name", "value": { "stringValue": "shop" } }] });
    json!({ "resourceSpans": [{ "resource": resource, "scopeSpans": [{ "spans": spans }] }] })
}

/// Sends spans as an exporter does; the answer's status.
pub(crate) fn export(address: SocketAddr, spans: &[Value]) -> String {
    let body = request_of(spans).to_string();
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

/// Every tenth request waits for a slow statement; its spans go to the receiver.
fn shop(receiver: Arc<OnceLock<SocketAddr>>) -> ScriptedServer {
    shop_that_tells(move |spans| {
        if let Some(address) = receiver.get() {
            assert_eq!(export(*address, spans), "HTTP/1.1 200 OK");
        }
    })
}

/// Every tenth request waits for a slow statement.
pub(crate) fn shop_that_tells(tell: impl Fn(&[Value]) + Send + Sync + 'static) -> ScriptedServer {
    ScriptedServer::start(move |seen, wire| {
        let began = now_ns();
        let slow = seen.nth % 10 == 9;
        std::thread::sleep(Duration::from_millis(if slow { 120 } else { 1 }));
        // Before the answer, so that all spans are there when the load ends.
        if let Some(traced) = SampledRequest::of(seen) {
            let ended = now_ns();
            let foreign = SampledRequest {
                trace_id: "0af7651916cd43dd8448eb211c80319c".to_owned(),
                ..SampledRequest::of(seen).unwrap()
            };
            let spans = [
                traced.span(1, &traced.parent_id, "GET /x", 2, (began, ended)),
                traced.span(2, &traced.id(1), "SELECT item", 3, (began, ended)),
                foreign.span(3, "", "somebody else's", 2, (began, ended)),
            ];
            tell(&spans);
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
    // These tests count requests and spans.
    options.load.no_probe = true;
    options
}

/// The shop, and a receiver of events that tells it where spans are received.
pub(crate) fn shop_and_events() -> (ScriptedServer, Sink) {
    let address = Arc::new(OnceLock::new());
    let server = shop(Arc::clone(&address));
    let events = Arc::new(move |event: &Event<'_>| {
        if let Event::Receiving(addresses) = event {
            address.set(addresses[0]).unwrap();
        }
    });
    (server, events)
}

/// Runs a load on the shop, into a directory below `folder`.
pub(crate) fn run_shop_in(folder: &std::path::Path, profiler: &str, scenario: &str) -> FinishedRun {
    let (server, events) = shop_and_events();
    run(options(folder, &server.url(), profiler, scenario), &Interrupt::new(), &events).unwrap()
}

fn run_shop(profiler: &str, scenario: &str) -> FinishedRun {
    run_shop_in(tempfile::tempdir().unwrap().path(), profiler, scenario)
}

/// When a service loses spans, a note says how many traces lack some, when they began, and what helps.
#[test]
fn spans_that_never_came_are_counted_and_said() {
    let address = Arc::new(OnceLock::new());
    let receiver: Arc<OnceLock<SocketAddr>> = Arc::clone(&address);
    let told = std::sync::atomic::AtomicUsize::new(0);
    let server = shop_that_tells(move |spans| {
        let nth = told.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        // From the middle on, nothing of each third trace, and the caller's span of each third is lost; of two others the
        // statement that made them slow.
        let came = match nth % 3 {
            1 if nth > 60 => return,
            2 if nth > 60 => &spans[1..],
            0 if nth > 60 && nth % 10 == 9 => &spans[..1],
            _ => spans,
        };
        if let Some(receiver) = receiver.get() {
            export(*receiver, came);
        }
    });
    let events: Sink = Arc::new(move |event: &Event<'_>| {
        if let Event::Receiving(addresses) = event {
            address.set(addresses[0]).unwrap();
        }
    });
    let folder = tempfile::tempdir().unwrap();
    let scenario = "runner: { constant: { times: 120, concurrency: 1 } }";
    let lossy = options(folder.path(), &server.url(), "{ receive: 127.0.0.1:0 }", scenario);
    let finished = run(lossy, &Interrupt::new(), &events).unwrap();
    let notes = finished.results.notes.join("\n");
    let said = notes.lines().find(|note| note.contains("no span came")).unwrap_or_else(|| panic!("{notes}"));
    for part in ["lack spans above those that came", "their iterations began", "OTEL_BSP_MAX_QUEUE_SIZE"] {
        assert!(said.contains(part), "{said}");
    }
    let number = |words: &str| -> usize {
        said.split_whitespace().collect::<Vec<_>>().windows(2).find(|pair| pair[1] == words).unwrap()[0]
            .parse()
            .unwrap()
    };
    let fetched = &finished.results.profiling.fetched;
    assert_eq!(number("lack") as u64, fetched[&TraceState::Partial], "{said}");
    assert!(said.contains(&format!(" traces: of {} no span came, ", fetched[&TraceState::Absent])), "{said}");
    assert!(said.contains(", 2 lack spans that most others have ("), "{said}");
    let lacking: Vec<_> = finished.results.slowest.iter().filter(|slow| slow.lacks_spans).collect();
    // The list has ten of the twelve slow ones.
    assert!(lacking.len() <= 2, "{said}");
    assert!(lacking.iter().all(|slow| slow.cause.is_none()));
    // There is no note if the traces that lack spans sent no request.
    let (server, events) = shop_and_events();
    let some = "runner: { constant: { times: 40, concurrency: 1 } }\n\
                iteration:\n- { if: \"{{ random_int(1, 10) > 4 }}\", then: [{ action: a, get: /x }] }\n- { think: 1ms }\n";
    let mut quiet = options(folder.path(), &server.url(), "{ receive: 127.0.0.1:0 }", scenario);
    quiet.scenario = YamlFile::text("s.yaml", format!("title: t\n{some}"));
    let whole = run(quiet, &Interrupt::new(), &events).unwrap();
    assert!(whole.results.profiling.fetched[&TraceState::Absent] > 0);
    assert!(whole.results.profiling.fetched[&TraceState::Complete] > 0);
    assert!(
        !whole.results.notes.iter().any(|note| note.contains("no span came")),
        "{:?}",
        whole.results.notes
    );
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
    let causes: Vec<&str> =
        results.slowest.iter().take(9).map(|slow| slow.cause.as_ref().unwrap().name.as_str()).collect();
    let named = causes.iter().filter(|name| name.contains("SELECT")).count();
    assert!(named > causes.len() / 2, "{causes:?}");
}

/// Whoever looks at a load with a receiver learns the cause before the load ends, from traces that are whole.
#[test]
fn the_cause_so_far_is_known_while_the_load_runs() {
    let (server, events) = shop_and_events();
    let folder = tempfile::tempdir().unwrap();
    let load = "runner: { rps: { rps: 60, duration: 40s } }";
    let mut options = options(folder.path(), &server.url(), "{ receive: '127.0.0.1:0' }", load);
    let viewers = Arc::new(LiveFeed::default());
    options.watch.viewers = Some(Arc::clone(&viewers));
    let interrupt = Interrupt::new();
    let found = std::thread::scope(|scope| {
        let load = scope.spawn(|| run(options, &interrupt, &events).unwrap());
        let mut found = None;
        while found.is_none() && !load.is_finished() {
            std::thread::sleep(Duration::from_millis(200));
            let cause = viewers.snapshot(WatchedPart::Every).and_then(|snapshot| snapshot.cause);
            found = cause.filter(|cause| cause.is_named);
        }
        interrupt.interrupt();
        found
    });
    let found = found.unwrap();
    assert_eq!(found.headline, "Slow iterations wait for SELECT item · SELECT ?");
    assert!(found.sentence.contains("explains") && found.traces > 20, "{found:?}");
}

/// A service whose queries wait for three connections, and how long each holds one.
fn shop_with_a_pool(tell: impl Fn(&[Value]) + Send + Sync + 'static) -> ScriptedServer {
    let free = Arc::new((Mutex::new(3_u32), Condvar::new()));
    ScriptedServer::start(move |seen, wire| {
        let (began, (left, freed)) = (now_ns(), &*free);
        let mut held = freed.wait_while(left.lock().unwrap(), |left| *left == 0).unwrap();
        *held -= 1;
        drop(held);
        let query = now_ns();
        std::thread::sleep(Duration::from_millis(12));
        let answered = now_ns();
        *left.lock().unwrap() += 1;
        freed.notify_one();
        if let Some(traced) = SampledRequest::of(seen) {
            tell(&[
                traced.span(1, &traced.parent_id, "GET /x", 2, (began, now_ns())),
                traced.span(2, &traced.id(1), "query", 3, (query, answered)),
            ]);
        }
        wire.answer("200 OK", "application/json", "{}")
    })
}

/// Runs an open load on it, into a directory below `folder`.
pub(crate) fn run_shop_with_a_pool(folder: &std::path::Path) -> FinishedRun {
    let address = Arc::new(OnceLock::<SocketAddr>::new());
    let told = Arc::clone(&address);
    let server = shop_with_a_pool(move |spans| {
        if let Some(address) = told.get() {
            assert_eq!(export(*address, spans), "HTTP/1.1 200 OK");
        }
    });
    let events: Sink = Arc::new(move |event: &Event<'_>| {
        if let Event::Receiving(addresses) = event {
            address.set(addresses[0]).unwrap();
        }
    });
    let load = "runner: { rps: { rps: 220, times: 1000, random: poisson } }";
    let options = options(folder, &server.url(), "{ receive: '127.0.0.1:0' }", load);
    run(options, &Interrupt::new(), &events).unwrap()
}

/// Never a wrong number; on a busy machine a run may say nothing, so it may try again.
#[test]
fn what_waits_for_its_turn_is_said_with_the_number_of_servers() {
    let said = (0..4).find_map(|_| {
        let folder = tempfile::tempdir().unwrap();
        let finished = run_shop_with_a_pool(folder.path());
        let queues = &finished.results.workloads[0].queues;
        let wrong = queues.iter().any(|queue| (queue.name.as_str(), queue.servers) != ("query", 3));
        assert!(!wrong, "{queues:?}");
        queues.first().cloned()
    });
    let said = said.expect("four runs said nothing");
    assert!((12.0..40.0).contains(&said.works_ms) && said.waits_ms > 0.5 && said.busy > 0.6, "{said:?}");
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
    let server = ScriptedServer::answering_after(Duration::ZERO);
    let folder = tempfile::tempdir().unwrap();
    let options =
        options(folder.path(), &server.url(), "{ receive: 127.0.0.1:0 }", "runner: { serial: { times: 3 } }");
    let finished = run(options, &Interrupt::new(), &bench::harness::event::silent()).unwrap();
    let notes = finished.results.notes.join("\n");
    assert!(notes.contains("set OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:"), "{notes}");
    assert!(!notes.contains("HMAC"), "there is no key to check: {notes}");
    assert!(!finished.results.profiling.fetched.contains_key(&TraceState::Complete));
}

/// A receiver that refuses what a service sends says why, and not how to send it.
#[test]
fn requests_that_are_refused_are_said_with_the_reason() {
    let address = Arc::new(OnceLock::new());
    let receiver: Arc<OnceLock<SocketAddr>> = Arc::clone(&address);
    let server = shop_that_tells(move |_| {
        let mut stream = TcpStream::connect(receiver.get().unwrap()).unwrap();
        let head = "POST /v1/traces HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\n\
                    Content-Encoding: deflate\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}";
        stream.write_all(head.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 415"), "{answer}");
    });
    let events = Arc::new(move |event: &Event<'_>| {
        if let Event::Receiving(addresses) = event {
            address.set(addresses[0]).unwrap();
        }
    });
    let folder = tempfile::tempdir().unwrap();
    let options =
        options(folder.path(), &server.url(), "{ receive: 127.0.0.1:0 }", "runner: { serial: { times: 3 } }");
    let finished = run(options, &Interrupt::new(), &(events as Sink)).unwrap();
    let notes = finished.results.notes.join("\n");
    let expected =
        "3 requests were refused by the receiver of spans; the first: the content encoding must be gzip";
    assert!(notes.contains(expected) && !notes.contains("OTEL_EXPORTER_OTLP_ENDPOINT"), "{notes}");
    assert_eq!(finished.results.profiling.received.as_ref().map(|seen| seen.refused_requests), Some(3));
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

/// The records of a request with a statement, as OSProfiler's middleware and wrappers make them.
fn records_of(base_id: &str, parent_id: &str, nth: usize) -> Vec<TraceRecord> {
    let id = |which: usize| format!("{nth:08x}-0000-4000-8000-{:012x}", 2 * nth + which);
    let record = |name: &str, id: &str, parent: &str, ms: u64| -> TraceRecord {
        let timestamp =
            osprofiler::record::Timestamp::from_unix_ns(1_795_387_892_000_000_000 + ms * 1_000_000);
        let statement = if name.starts_with("db") { json!({ "statement": "SELECT 1" }) } else { json!({}) };
        let info = json!({ "host": "h", "db": statement });
        serde_json::from_value(json!({
            "name": name, "base_id": base_id, "trace_id": id, "parent_id": parent, "timestamp": timestamp,
            "info": info, "project": "shop", "service": "api",
        }))
        .unwrap()
    };
    let (request, statement) = (id(1), id(2));
    vec![
        record("wsgi-start", &request, parent_id, 0),
        record("db-start", &statement, &request, 1),
        record("db-stop", &statement, &request, 3),
        record("wsgi-stop", &request, parent_id, 4),
    ]
}

#[test]
fn records_of_osprofilers_own_otlp_driver_are_received() {
    let address = Arc::new(OnceLock::new());
    let receiver: Arc<OnceLock<SocketAddr>> = Arc::clone(&address);
    let keys = ServerKeys::parse("KEY");
    let server = ScriptedServer::start(move |seen, wire| {
        let header =
            |name: &str| seen.headers.get(name).map(|text| text.as_bytes().to_vec()).unwrap_or_default();
        let context = keys.verify(&header("x-trace-info"), &header("x-trace-hmac")).unwrap();
        let records = records_of(&context.base_id, &context.parent_id, seen.nth);
        let collector = Secret::new(format!("otlp://{}", receiver.get().unwrap()));
        tokio::runtime::Runtime::new().unwrap().block_on(async {
            let collector = Collector::connect(&collector).await.unwrap();
            collector.write(&records).await.unwrap();
            collector.flush().await.unwrap();
        });
        wire.answer("200 OK", "application/json", "{}")
    });
    let events: Sink = Arc::new(move |event: &Event<'_>| {
        if let Event::Receiving(addresses) = event {
            address.set(addresses[0]).unwrap();
        }
    });
    let folder = tempfile::tempdir().unwrap();
    let profiler = "{ hmac_key: KEY, receive: 127.0.0.1:0 }";
    let options = options(folder.path(), &server.url(), profiler, "runner: { serial: { times: 5 } }");
    let finished = run(options, &Interrupt::new(), &events).unwrap();
    assert_eq!(finished.results.profiling.fetched, [(TraceState::Complete, 5)].into(), "{finished:?}");
    let trace = &finished.traces[0];
    let points: Vec<(&str, Option<&str>, String)> = trace
        .tree
        .points
        .iter()
        .filter(|point| point.project.as_deref() == Some("shop"))
        .map(|point| (point.name.as_str(), point.service.as_deref(), point.detail()))
        .collect();
    let expected = [("wsgi", Some("api"), String::new()), ("db", Some("api"), "SELECT 1".to_owned())];
    assert_eq!(points, expected, "{trace:?}");
}

/// What a row of the next test does to a service's spans.
type Change = fn(&mut Vec<Value>);

/// What may happen to the spans of a service.
#[test]
fn spans_that_are_late_twice_or_hostile_are_shown_all_the_same() {
    let rows: [(&str, Change); 4] = [
        ("children before their parents", |spans| spans.reverse()),
        ("every span twice", |spans| spans.extend(spans.clone())),
        ("a clock that is three hours ahead", |spans| {
            for span in spans {
                for key in ["startTimeUnixNano", "endTimeUnixNano"] {
                    let ns: u64 = span[key].as_str().unwrap().parse().unwrap();
                    span[key] = (ns + 3 * 3_600_000_000_000).to_string().into();
                }
            }
        }),
        ("hostile words", |spans| {
            for span in spans {
                let attack = "</script><script>alert(1)</script>\u{1b}[2J\u{202e}";
                span["name"] = format!("SELECT {attack}").into();
                span["attributes"] = json!([
                    { "key": attack, "value": { "stringValue": attack } },
                    { "key": "db.statement", "value": { "stringValue": attack } },
                    { "key": "deep", "value": { "arrayValue": { "values": [{ "stringValue": attack }] } } },
                ]);
            }
        }),
    ];
    for (what, change) in rows {
        let address: Arc<OnceLock<SocketAddr>> = Arc::new(OnceLock::new());
        let receiver = Arc::clone(&address);
        let server = shop_that_tells(move |spans| {
            let mut spans = spans.to_vec();
            change(&mut spans);
            // One by one, as if each came from a process of its own.
            for span in spans {
                assert_eq!(export(*receiver.get().unwrap(), &[span]), "HTTP/1.1 200 OK");
            }
        });
        let events: Sink = Arc::new(move |event: &Event<'_>| {
            if let Event::Receiving(addresses) = event {
                address.set(addresses[0]).unwrap();
            }
        });
        let folder = tempfile::tempdir().unwrap();
        let options = options(
            folder.path(),
            &server.url(),
            "{ receive: 127.0.0.1:0 }",
            "runner: { constant: { times: 60, concurrency: 2 } }",
        );
        let finished = run(options, &Interrupt::new(), &events).unwrap();
        let fetched = &finished.results.profiling.fetched;
        assert_eq!(fetched.keys().collect::<Vec<_>>(), [&TraceState::Complete], "{what}: {fetched:?}");
        let slowest_id = finished.results.slowest[0].iteration.trace_id;
        let slowest = finished.traces.iter().find(|trace| trace.trace_id == slowest_id).unwrap();
        let is_of_shop = |point: &&Point| point.service.as_deref() == Some("shop");
        let services: Vec<&Point> = slowest.tree.points.iter().filter(is_of_shop).collect();
        assert_eq!(services.len(), 2, "{what}: {services:?}");
        assert_eq!(services[1].parent_id, services[0].trace_id, "{what}");
        let causes: Vec<_> =
            finished.results.slowest.iter().take(5).filter_map(|slow| slow.cause.as_ref()).collect();
        assert!(causes.iter().any(|cause| cause.name.contains("SELECT")), "{what}: {causes:?}");
        let directory = finished.directory.as_ref().unwrap();
        for file in ["report.html", "report.md", "results.json"] {
            let text = std::fs::read_to_string(directory.join(file)).unwrap();
            assert!(!text.contains('\u{1b}'), "{what}: {file}");
            // Data keep the text as it is.
            assert!(file == "results.json" || !text.contains('\u{202e}'), "{what}: {file}");
            assert!(file != "report.html" || !text.contains("<script>alert"), "{what}: {file}");
        }
    }
}
