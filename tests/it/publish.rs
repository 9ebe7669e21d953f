//! After the load: traces from faulty collectors, and the client's own points written to working ones.
#![cfg(unix)]

use std::time::Duration;

use bench::base::secret::Secret;
use bench::osprofiler::compat::compat_report;
use bench::osprofiler::driver::Collector;
use bench::osprofiler::record::{Info, Timestamp, TraceRecord};
use bench::osprofiler::verifying::ServerKeys;
use serde_json::{Value, json};

use crate::backend::Backend;
use crate::real_osprofiler::Peer;
use crate::rewind;
use crate::server::{After, ScriptedServer};
use crate::signals::{end, signal, start};
use crate::support::{Bench, free_address, redis_to_oneself, service};

const LOAD: &str = "runner: { constant: { times: 100, concurrency: 4 } }\niteration: [ { action: a, get: / } ]\ntrace: { settle: 200ms }";

/// The demo with few iterations.
fn demo() -> Bench {
    let bench = Bench::new();
    bench.write("deployment.yaml", "demo: {}\n");
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(root.join("scenarios/demo.yaml")).unwrap();
    let text = text
        .replace("../deployments/demo.yaml", "deployment.yaml")
        .replace("times: 2000, concurrency: 10", "times: 100, concurrency: 4");
    bench.write("scenario.yaml", text);
    bench
}

fn fetched(results: &Value, state: &str) -> u64 {
    results["profiling"]["fetched"][state].as_u64().unwrap_or(0)
}

/// What other readers of the collector see is what the run directory holds, from the iteration to the last statement.
#[test]
fn what_is_published_makes_the_collectors_tree_the_stored_one() {
    let bench = demo();
    let ended = bench.run(&["run", "scenario.yaml", "--publish"]).expect_code(0);
    let (results, run) = (bench.results(), bench.run_directory());
    let collector = format!("sqlite://{}", run.join("demo-traces.db").display());
    let from_collector = |id: &str| {
        bench.run(&["trace", "show", id, "--json", "--connection-string", &collector]).expect_code(0).stdout
    };
    let mut records = 0;
    for entry in std::fs::read_dir(run.join("traces")).unwrap() {
        let path = entry.unwrap().path();
        let id = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let stored =
            bench.run(&["trace", "show", run.to_str().unwrap(), &id, "--json"]).expect_code(0).stdout;
        assert_eq!(from_collector(&id), stored, "{id}");
        let own = serde_json::from_slice::<Value>(&std::fs::read(&path).unwrap()).unwrap();
        let own =
            own["records"].as_array().unwrap().iter().filter(|record| record["project"] == "bench").count();
        records += own as u64;
    }
    assert!(records > 0);
    assert_eq!(results["profiling"]["published"], records);
    assert!(ended.stdout.contains(&format!("{records} records of the client's own points published")));

    // Once a run: a report that is made again publishes nothing.
    let id = results["slowest"][0]["trace_id"].as_str().unwrap();
    let before = from_collector(id);
    bench.run(&["report", run.to_str().unwrap()]).expect_code(0);
    assert_eq!(from_collector(id), before);
}

/// report.md is there, and is added to a step's summary; a summary that cannot be written costs a warning.
#[test]
fn the_report_in_markdown_is_written_and_added_to_a_steps_summary() {
    let server = ScriptedServer::start(|_, wire| wire.answer("500 <b>|`", "text/plain", "no"));
    let bench = Bench::new();
    let title = "title: \"</table><script>alert(1)</script> | [x](javascript:1)\"";
    bench.load(&server.url(), "", LOAD);
    let text = std::fs::read_to_string(bench.path().join("scenario.yaml")).unwrap();
    bench.write("scenario.yaml", text.replace("title: t", title));
    rewind::file(bench.write("summary.md", "before\n"));
    let mut command = bench.command(&["run", "scenario.yaml"]);
    Bench::end(command.env("GITHUB_STEP_SUMMARY", bench.path().join("summary.md"))).expect_code(0);
    let report = std::fs::read_to_string(bench.run_directory().join("report.md")).unwrap();
    assert!(report.starts_with("## no gate · &lt;/table&gt;&lt;script&gt;"), "{report}");
    assert!(!report.contains("<script") && !report.contains("| [x]"), "{report}");
    assert!(report.contains("| iteration | 100 | 100 |"), "{report}");
    let summary = std::fs::read_to_string(bench.path().join("summary.md")).unwrap();
    assert_eq!(summary, format!("before\n{report}"));
    let run = bench.run_directory();
    let mut command = bench.command(&["report", run.to_str().unwrap()]);
    let ended = Bench::end(command.env("GITHUB_STEP_SUMMARY", bench.path())).expect_code(0);
    assert!(
        ended.stderr.contains("warning: cannot write to the file that $GITHUB_STEP_SUMMARY names"),
        "{}",
        ended.stderr
    );
}

/// Where traces cannot be read back, the points of the iterations that would have been chosen are sent all the same.
#[test]
fn points_are_published_by_otlp_with_their_parents() {
    let (backend, server) = (Backend::start(), ScriptedServer::answering_after(Duration::ZERO));
    let bench = Bench::new();
    let profiler = format!("profiler: {{ hmac_key: k, connection_string: \"otlp://{}\" }}", backend.address);
    bench.load(&server.url(), &profiler, LOAD);
    bench.run(&["run", "scenario.yaml", "--publish"]).expect_code(0);
    let published = bench.results()["profiling"]["published"].as_u64().unwrap();
    let spans = backend.spans();
    assert_eq!(spans.len() as u64 * 2, published, "a span for two records");
    let sent: Vec<String> =
        server.seen().iter().filter_map(|seen| seen.headers.get("traceparent").cloned()).collect();
    let actions: Vec<_> = spans.iter().filter(|span| span.name.contains("action")).collect();
    assert!(!actions.is_empty());
    for action in actions {
        // What the service got for a parent is the action's span, and above it is the iteration's.
        let parent = format!("00-{:032x}-{:016x}-01", action.trace_id, action.span_id);
        assert!(sent.contains(&parent), "{parent}");
        assert!(
            spans.iter().any(|span| span.trace_id == action.trace_id
                && Some(span.span_id) == action.parent_id
                && span.name.contains("iteration")),
            "{action:?}"
        );
    }
}

/// A collector that takes nothing costs a warning: the run has its results, its ids and its exit code.
#[test]
fn a_collector_that_refuses_what_is_published_costs_a_warning() {
    let server = ScriptedServer::answering_after(Duration::ZERO);
    let backend = Backend::start();
    backend.refuse(&[400; 1_000], b"no");
    let closed = free_address().to_string();
    for address in [backend.address, closed] {
        let bench = Bench::new();
        let profiler = format!("profiler: {{ hmac_key: k, connection_string: \"otlp://{address}\" }}");
        bench.load(&server.url(), &profiler, LOAD);
        let ended = bench.run(&["run", "scenario.yaml", "--publish"]).expect_code(0);
        assert!(
            ended.stdout.contains("records of the client's own points were not published: "),
            "{}",
            ended.stdout
        );
        let results = bench.results();
        assert_eq!(results["profiling"]["published"], 0);
        assert_eq!(results["iterations"].as_array().unwrap().len(), 100);
    }
}

/// What cannot work is reported before the load.
#[test]
fn publishing_that_cannot_work_is_refused_before_the_load() {
    let server = ScriptedServer::answering_after(Duration::ZERO);
    for (deployment, scenario, says) in [
        ("profiler: { hmac_key: k }", LOAD, "the deployment names no collector"),
        (
            "profiler: { hmac_key: k, connection_string: 'jaeger://127.0.0.1:1' }",
            LOAD,
            "write to otlp://host:4318",
        ),
        (
            "profiler: { hmac_key: k, connection_string: 'tempo://127.0.0.1:1' }",
            LOAD,
            "write to otlp://host:4318",
        ),
        ("", LOAD, "nothing is profiled: the deployment has no HMAC key"),
        (
            "profiler: { hmac_key: k, connection_string: 'redis://127.0.0.1:1' }",
            "runner: { serial: { times: 1 } }\niteration: [ { get: / } ]\ntrace: { fetch: none }",
            "no trace is kept",
        ),
    ] {
        let bench = Bench::new();
        bench.load(&server.url(), deployment, scenario);
        let ended = bench.run(&["run", "scenario.yaml", "--publish"]).expect_code(64);
        assert!(ended.stderr.contains("cannot --publish") && ended.stderr.contains(says), "{}", ended.stderr);
        assert!(!bench.path().join("runs").exists());
    }
    assert_eq!(server.seen().len(), 0);
}

/// Jaeger's query API, which does with a trace what `script` says.
fn jaeger(
    script: impl Fn(usize, &mut crate::server::Wire<'_>) -> After + Send + Sync + 'static,
) -> ScriptedServer {
    ScriptedServer::start(move |seen, wire| match seen.path.strip_prefix("/api/traces/") {
        Some(_) => script(seen.nth, wire),
        None => wire.answer("200 OK", "application/json", r#"{"data":[]}"#),
    })
}

#[test]
fn a_collector_that_is_wrong_costs_a_warning_and_no_id() {
    let server = ScriptedServer::answering_after(Duration::ZERO);
    let limit = Duration::from_secs(25);
    for (name, collector) in [
        ("closes", jaeger(|_, _| After::Close)),
        ("resets", jaeger(|_, _| After::Reset)),
        ("hangs", jaeger(|_, _| After::Hang)),
        ("garbage", jaeger(|_, wire| wire.answer("200 OK", "application/json", b"\xff\x00{]"))),
        (
            "other JSON",
            jaeger(|_, wire| wire.answer("200 OK", "application/json", r#"{"data":[{"spans":7}]}"#)),
        ),
        (
            "refuses",
            jaeger(|_, wire| wire.answer("500 Oops", "text/html", "<script>alert(1)</script>\u{1b}[31m")),
        ),
        (
            "half an answer",
            jaeger(|_, wire| {
                wire.send("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{\"data\":[");
                After::Close
            }),
        ),
        (
            "every other",
            jaeger(|nth, wire| match nth % 2 {
                0 => After::Close,
                _ => wire.answer("200 OK", "application/json", r#"{"data":[]}"#),
            }),
        ),
    ] {
        let bench = Bench::new();
        let profiler =
            format!("profiler: {{ hmac_key: k, connection_string: \"jaeger://{}\" }}", collector.address());
        bench.load(&server.url(), &profiler, LOAD);
        let began = rewind::began();
        let ended = bench.run(&["run", "scenario.yaml"]).expect_code(0);
        assert!(began.lock().unwrap().elapsed() < limit, "{name}: bounded");
        let results = bench.results();
        assert_eq!(results["iterations"].as_array().unwrap().len(), 100, "{name}");
        assert_eq!(results["slowest"].as_array().unwrap().len(), 10, "{name}");
        assert!(
            fetched(&results, "not_fetched") + fetched(&results, "absent") > 0,
            "{name}: {}",
            results["profiling"]
        );
        if name != "every other" {
            assert!(
                ended.stdout.contains("the collector did not give all traces: "),
                "{name}: {}",
                ended.stdout
            );
            assert!(ended.stdout.contains("without an answer"), "{name}: {}", ended.stdout);
        }
        assert!(!ended.stdout.contains('\u{1b}'), "{name}");
        assert!(ended.stderr.matches("fetching ").count() == 1, "{name}: one line, {}", ended.stderr);
    }
}

/// A signal while traces are fetched keeps those that are here, and the run is what it was.
#[test]
fn a_signal_while_fetching_keeps_what_is_there() {
    let server = ScriptedServer::answering_after(Duration::ZERO);
    let asked = std::sync::atomic::AtomicUsize::new(0);
    let collector = jaeger(move |_, wire| {
        if asked.fetch_add(1, std::sync::atomic::Ordering::SeqCst) < 3 {
            return wire.answer("200 OK", "application/json", r#"{"data":[]}"#);
        }
        wire.pause(Duration::from_secs(60));
        After::Close
    });
    let bench = Bench::new();
    let profiler =
        format!("profiler: {{ hmac_key: k, connection_string: \"jaeger://{}\" }}", collector.address());
    bench.load(&server.url(), &profiler, &format!("probe: false\n{LOAD}"));
    let child = start(&bench);
    // The check before the load, three answers, and eight questions that hang.
    collector.wait_for(1 + 3 + 8);
    signal(&child, "INT");
    let ended = end(child).expect_code(0);
    let results = bench.results();
    assert_eq!(results["run"]["status"], "finished");
    assert_eq!((fetched(&results, "absent"), results["iterations"].as_array().unwrap().len()), (3, 100));
    assert!(fetched(&results, "not_fetched") >= 8, "{}", ended.stdout);
}

/// The library's own `trace show --json` reads the published tree from redis: the iteration, its action, the service.
#[test]
fn real_library_shows_the_published_tree() {
    let Some(python) = service("BENCH_TEST_PYTHON", "a Python that has OSProfiler") else { return };
    let Some(url) = service("BENCH_TEST_REDIS_URL", "a redis") else { return };
    let _redis = redis_to_oneself();
    let server = reporting_service(url.clone());
    let bench = Bench::new();
    bench.load(&server.url(), &format!("profiler: {{ hmac_key: k, connection_string: \"{url}\" }}"), LOAD);
    bench.run(&["run", "scenario.yaml", "--publish"]).expect_code(0);
    let results = bench.results();
    assert!(fetched(&results, "complete") >= 10, "{}", results["profiling"]);
    let mut peer = Peer::of(&python);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    for slow in results["slowest"].as_array().unwrap() {
        let id = slow["trace_id"].as_str().unwrap();
        let theirs = peer.ask(&json!({"op": "report", "connection_string": url, "base_id": id}));
        let mut path = Vec::new();
        let mut at = &theirs["children"];
        // The service's point is the last: phases of the request are leaves.
        while let Some(point) = at
            .as_array()
            .unwrap()
            .iter()
            .find(|point| ["iteration", "action", "wsgi"].iter().any(|n| point["info"]["name"] == *n))
        {
            path.push(point["info"]["name"].as_str().unwrap().to_owned());
            at = &point["children"];
        }
        assert_eq!(path, ["iteration", "action", "wsgi"], "{theirs}");
        let records = runtime.block_on(async {
            Collector::connect(&Secret::new(&url)).await.unwrap().records(id).await.unwrap()
        });
        assert_eq!(compat_report(&records).to_string(), theirs.to_string());
    }
}

/// A service that writes a point for each request into redis, below what the request says.
fn reporting_service(url: String) -> ScriptedServer {
    ScriptedServer::start(move |seen, wire| {
        let (info, hmac) = (&seen.headers["x-trace-info"], &seen.headers["x-trace-hmac"]);
        let context = ServerKeys::parse("k").verify(info.as_bytes(), hmac.as_bytes()).unwrap();
        let now = || u64::try_from(std::time::UNIX_EPOCH.elapsed().unwrap().as_nanos()).unwrap();
        let point = uuid::Uuid::new_v4().to_string();
        let record = |suffix: &str| TraceRecord {
            name: format!("wsgi-{suffix}").into(),
            base_id: context.base_id.as_str().into(),
            trace_id: point.as_str().into(),
            parent_id: context.parent_id.as_str().into(),
            timestamp: Timestamp::from_unix_ns(now()),
            info: Info::from_iter([("host".to_owned(), "vm".into())]).into(),
            project: Some("api".into()),
            service: Some("api".into()),
        };
        let first = record("start");
        wire.pause(Duration::from_millis(2));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let collector = Collector::connect(&Secret::new(&url)).await.unwrap();
            collector.write(&[first, record("stop")]).await.unwrap();
        });
        wire.answer("200 OK", "application/json", "{}")
    })
}
