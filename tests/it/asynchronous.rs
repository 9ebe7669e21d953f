//! Work that goes on after the response: a service that answers at once, and a worker of its queue whose spans come later,
//! in the same trace or in one of their own with a link.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use bench::harness::{Event, FinishedRun, Interrupt, Sink, run};
use bench::results::model::{Outcome, TraceState};
use serde_json::{Value, json};

use crate::receiving::{SampledRequest, export, now_ns, options};
use crate::server::ScriptedServer;
use crate::support::Bench;

/// How long the worker takes, at least.
const WORK: Duration = Duration::from_millis(150);
/// Every n-th message is lost.
const LOST_EVERY: usize = 5;

/// The kinds of spans, with OTLP's numbers.
const INTERNAL: u8 = 1;
const SERVER: u8 = 2;
const PRODUCER: u8 = 4;
const CONSUMER: u8 = 5;

type Workers = Arc<Mutex<Vec<std::thread::JoinHandle<()>>>>;

/// How long work takes where every n-th is late: typical and late.
const LATE: [Duration; 2] = [Duration::from_millis(5), Duration::from_millis(250)];
const LATE_EVERY: usize = 6;

/// `/queue` sends a message, `/late` one whose work is late at times, `/task` starts a task in the background.
fn shop(receiver: Arc<OnceLock<SocketAddr>>, workers: Workers) -> ScriptedServer {
    ScriptedServer::start(move |seen, wire| {
        let began = now_ns();
        std::thread::sleep(Duration::from_millis(1));
        if let (Some(traced), Some(address)) = (SampledRequest::of(seen), receiver.get().copied()) {
            let ended = now_ns();
            let get = traced.span(1, &traced.parent_id, "GET", SERVER, (began, ended));
            let is_late = seen.path.contains("late");
            let is_queue = seen.path.contains("queue") || is_late;
            let send = traced.span(2, &traced.id(1), "publish", PRODUCER, (began, ended));
            let spans = if is_queue { vec![get, send] } else { vec![get] };
            assert_eq!(export(address, &spans), "HTTP/1.1 200 OK");
            let nth = seen.nth;
            let worker = std::thread::spawn(move || {
                std::thread::sleep(if is_late { Duration::from_millis(2) } else { WORK });
                if is_late {
                    let began = now_ns();
                    std::thread::sleep(LATE[usize::from(nth % LATE_EVERY == 0)]);
                    let own = traced.span(4, &traced.id(2), "work", CONSUMER, (began, now_ns()));
                    assert_eq!(export(address, &[own]), "HTTP/1.1 200 OK");
                } else if !is_queue {
                    let task = traced.span(3, &traced.id(1), "task", INTERNAL, (began, now_ns()));
                    export(address, &[task]);
                } else if nth % LOST_EVERY != 0 {
                    consume(address, &traced, ended);
                }
            });
            workers.lock().unwrap().push(worker);
        }
        wire.answer("200 OK", "application/json", "{}")
    })
}

/// A consumer with a trace of its own; the statement in it is sent before it, and on its own.
fn consume(address: SocketAddr, traced: &SampledRequest, began: u64) {
    // Another trace for certain: the program's ids have a 4 there, the version of a UUID.
    let own = SampledRequest {
        trace_id: format!("{}c{}", &traced.trace_id[..12], &traced.trace_id[13..]),
        ..traced.clone()
    };
    let ended = now_ns();
    let statement = own.span(5, &own.id(4), "UPDATE", INTERNAL, (began, ended));
    assert_eq!(export(address, &[statement]), "HTTP/1.1 200 OK");
    let mut work = own.span(4, "", "work", CONSUMER, (began, ended));
    work["links"] = json!([{ "traceId": traced.trace_id, "spanId": traced.id(2) }]);
    assert_eq!(export(address, &[work]), "HTTP/1.1 200 OK");
}

fn run_shop(scenario: &str, interrupt_wait: bool) -> (FinishedRun, tempfile::TempDir) {
    let (address, workers) = (Arc::new(OnceLock::new()), Workers::default());
    let server = shop(Arc::clone(&address), Arc::clone(&workers));
    let interrupt = Interrupt::new();
    let of_events = interrupt.clone();
    let events: Sink = Arc::new(move |event: &Event<'_>| match event {
        Event::Receiving(addresses) => address.set(addresses[0]).unwrap(),
        Event::AwaitingWork { .. } if interrupt_wait => of_events.interrupt(),
        _ => {}
    });
    let folder = tempfile::tempdir().unwrap();
    let mut options = options(folder.path(), &server.url(), "{ receive: 127.0.0.1:0 }", "");
    options.scenario = bench::harness::YamlFile::text("s.yaml", scenario.to_owned());
    let finished = run(options, &interrupt, &events).unwrap();
    workers.lock().unwrap().drain(..).for_each(|worker| worker.join().unwrap());
    (finished, folder)
}

const QUEUE: &str = "
title: t
runner: { constant: { times: 40, concurrency: 4 } }
end: { asynchronous: { deadline: 4s } }
iteration: [ { action: a, get: /queue } ]
sla: { thresholds: ['p50(asynchronous) >= 150ms', 'p25(asynchronous) < 100ms'] }
";

#[test]
fn a_consumers_trace_belongs_to_the_iteration_that_sent_the_message() {
    let (finished, _folder) = run_shop(QUEUE, false);
    let results = &finished.results;
    let received = results.profiling.received.as_ref().unwrap();
    let consumed = 40 - 40 / LOST_EVERY as u64;
    assert_eq!((received.spans, received.linked_spans), (80, 2 * consumed), "{received:?}");
    assert_eq!((received.other_traces, received.links_ignored), (0, 0), "{received:?}");
    let seen = results.workloads[0].asynchronous.as_ref().unwrap();
    assert_eq!((seen.traced, seen.of, seen.of_iterations), (40, 40, 40), "{seen:?}");
    assert_eq!((seen.linked, seen.running), (consumed, 40 - consumed), "{seen:?}");
    let work_ms = WORK.as_secs_f64() * 1e3;
    assert!(seen.at(50.0).unwrap().value_ms >= work_ms, "{seen:?}");
    let outcomes: Vec<Outcome> = results.verdict.criteria.iter().map(|one| one.outcome).collect();
    assert_eq!(outcomes, [Outcome::Pass, Outcome::Fail], "{:?}", results.verdict.criteria);
    for slow in &results.slowest {
        let cause = slow.cause.as_ref().map_or("", |cause| cause.name.as_str());
        assert!(!["work", "UPDATE"].contains(&cause), "{slow:?}");
    }
    let trace =
        finished.traces.iter().find(|trace| trace.tree.points.iter().any(|p| p.name == "work")).unwrap();
    assert!(trace.state == TraceState::Complete && trace.asynchronous_ms.unwrap() >= work_ms);
    let place = |name: &str| trace.tree.points.iter().position(|point| point.name == name).unwrap();
    let depth = |name: &str| trace.tree.points[place(name)].depth;
    assert_eq!((depth("work"), depth("UPDATE")), (depth("publish") + 1, depth("publish") + 2));
    assert_eq!(trace.tree.points[place("work")].info["link"]["own_trace_id"].as_str().unwrap()[12..13], *"c");
    again_and_in_every_output(&finished);
}

/// A value as it is read from its text: a double may lose its last bit.
fn read_again(value: &impl serde::Serialize) -> Value {
    serde_json::from_str(&serde_json::to_string(value).unwrap()).unwrap()
}

/// What a run says, a report of the stored run says again.
fn again_and_in_every_output(finished: &FinishedRun) {
    let directory = finished.directory.as_ref().unwrap();
    let (bench, path) = (Bench::new(), directory.to_str().unwrap());
    let shown = bench.run(&["report", path]).stdout;
    let text = |name: &str| std::fs::read_to_string(directory.join(name)).unwrap();
    for output in [&shown, &text("report.md"), &text("report.html")] {
        let joined = output.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(joined.contains("in 40 of 40 random iterations"), "{joined}");
        assert!(joined.contains("still running at the deadline"), "{joined}");
    }
    let again: Value = serde_json::from_str(&text("results.json")).unwrap();
    let expected = read_again(&finished.results.workloads[0].asynchronous);
    assert_eq!(again["workloads"][0]["asynchronous"], expected);
    let with_link = finished.traces.iter().find(|trace| trace.tree.points.iter().any(|p| p.name == "work"));
    let linked = with_link.unwrap().trace_id.to_string();
    let tree = bench.run(&["trace", "show", path, &linked]).stdout;
    assert!(tree.contains("(linked)"), "{tree}");
}

#[test]
fn work_that_ends_late_is_explained_in_every_output() {
    let (finished, _folder) = run_shop(
        // Longer than the late work takes: what all ends in the same moment may be a pause of the whole process.
        "title: t\nrunner: { rps: { rps: 90, times: 180 } }\nend: { asynchronous: { deadline: 3s } }\n\
         iteration: [ { action: a, get: /late } ]\nsla: { thresholds: ['p95(asynchronous) < 100ms'] }\n",
        false,
    );
    let results = &finished.results;
    let late = results.workloads[0].asynchronous.as_ref().unwrap().late.as_ref().unwrap();
    let causes: Vec<(&str, f64)> = late
        .comparison
        .kinds
        .iter()
        .filter(|kind| kind.is_cause)
        .map(|kind| (kind.name.as_str(), kind.share))
        .collect();
    assert!(
        causes.first().is_some_and(|(name, share)| *name == "work" && *share > 0.6),
        "{:?}",
        late.comparison
    );
    assert_eq!(late.latest.len(), 10);
    for one in &late.latest {
        let work_ms = one.explanation.response_ms;
        assert!(work_ms >= LATE[1].as_secs_f64() * 1e3 && one.response_ms < work_ms, "{one:?}");
        assert_eq!(one.explanation.name, "work", "{one:?}");
    }
    // The broken limit is one on asynchronous work, so that comes first.
    let reason = results.reason.as_ref().unwrap();
    assert!(reason.headline.starts_with("p95(asynchronous) is "), "{reason:?}");
    assert!(
        reason.sentence.contains("The work of iterations above p")
            && reason.sentence.contains("work · SELECT ? in shop"),
        "{reason:?}"
    );
    let directory = finished.directory.as_ref().unwrap();
    let shown = Bench::new().run(&["report", directory.to_str().unwrap()]).stdout;
    let text = |name: &str| std::fs::read_to_string(directory.join(name)).unwrap();
    let id = late.latest[0].explanation.trace_id.to_string();
    for output in [&shown, &text("report.md"), &text("report.html")] {
        assert!(output.contains("The work of iterations above p"), "{output}");
    }
    for output in [&shown, &text("report.md"), &text("report.html")] {
        assert!(output.contains(&id), "{id}: {output}");
    }
    let again: Value = serde_json::from_str(&text("results.json")).unwrap();
    assert_eq!(again["workloads"][0]["asynchronous"]["late"], read_again(late));
}

#[test]
fn a_task_in_the_background_is_never_why_a_response_took_long() {
    let (finished, _folder) = run_shop(
        "title: t\nrunner: { constant: { times: 40, concurrency: 4 } }\nend: { asynchronous: { deadline: 3s } }\n\
         iteration: [ { action: a, get: /task } ]\n",
        false,
    );
    let results = &finished.results;
    let seen = results.workloads[0].asynchronous.as_ref().unwrap();
    assert_eq!((seen.traced, seen.of, seen.linked, seen.running), (40, 40, 0, 0), "{seen:?}");
    assert!(seen.at(50.0).unwrap().value_ms >= WORK.as_secs_f64() * 1e3, "{seen:?}");
    for slow in &results.slowest {
        assert_ne!(slow.cause.as_ref().unwrap().name, "task", "{slow:?}");
    }
    let compared = results.workloads[0].comparison.iter().flat_map(|comparison| &comparison.kinds);
    let causes: Vec<&str> = compared.filter(|kind| kind.is_cause).map(|kind| kind.name.as_str()).collect();
    assert!(!causes.contains(&"task"), "{causes:?}");
}

#[test]
fn without_its_deadline_asynchronous_work_judges_nothing() {
    let (finished, _folder) = run_shop(&QUEUE.replace("4s", "1h"), true);
    let seen = finished.results.workloads[0].asynchronous.as_ref().unwrap();
    assert_eq!((seen.traced, seen.of), (0, 40), "{seen:?}");
    let outcomes: Vec<Outcome> = finished.results.verdict.criteria.iter().map(|one| one.outcome).collect();
    assert_eq!(outcomes, [Outcome::Invalid, Outcome::Invalid], "{:?}", finished.results.verdict.criteria);
}

#[test]
fn what_asynchronous_work_needs_is_said_before_the_load() {
    let bench = Bench::new();
    bench.write("d.yaml", "targets: { default: http://127.0.0.1:1 }\n");
    let rest = "runner: { serial: { times: 1 } }\niteration: [ { get: / } ]\n";
    for (text, expected) in [
        (
            "sla: { thresholds: ['p95(asynchronous) < 5s'] }\n",
            "p95(asynchronous) without `end: asynchronous`",
        ),
        (
            "end: asynchronous\nsla: { thresholds: ['p95(asynchronous) < 11s'] }\n",
            "`p95(asynchronous) < 11s` is beyond the deadline",
        ),
        ("end: { asynchronous: { deadline: 2h } }\n", "the deadline is longer than one hour"),
        ("end: { asynchronous: { deadline: 0s } }\n", "`deadline` is zero"),
        (
            "end: asynchronous\ntrace: { fetch: none }\n",
            "`end: asynchronous` needs traces, but none are fetched",
        ),
        ("end: later\n", "`end`"),
        (
            "sla: { thresholds: ['p95(asynchronous action \"a\") < 1s'] }\n",
            "cannot be combined with an action",
        ),
    ] {
        bench.write("s.yaml", format!("title: t\n{text}{rest}"));
        let ended = bench.run(&["validate", "-d", "d.yaml", "s.yaml"]).expect_code(65);
        assert!(ended.stderr.contains(expected), "{expected}: {}", ended.stderr);
    }
    bench.write("s.yaml", format!("title: t\nend: asynchronous\n{rest}"));
    bench.run(&["validate", "-d", "d.yaml", "s.yaml"]).expect_code(0);
}
