//! Profiles of a run's traces from a server that answers as Pyroscope documents its API. No real Pyroscope is involved.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use bench::base::ids::span_id;
use serde_json::{Value, json};

use crate::server::{After, ScriptedRequest, ScriptedServer, Wire};
use crate::support::{Bench, CommandOutput};

const METHOD: &str = "/querier.v1.QuerierService/SelectMergeSpanProfile";

/// Spans with profiles: nanoseconds in `escape_cells`.
type SpanProfileStore = Arc<Mutex<HashMap<String, u64>>>;

fn pyroscope(held: &SpanProfileStore) -> ScriptedServer {
    let held = Arc::clone(held);
    ScriptedServer::start(move |seen, wire| answer(seen, wire, &held.lock().unwrap()))
}

/// As of several spans together: all of it in `render`, and there in `escape_cells`, below the total.
fn answer(seen: &ScriptedRequest, wire: &mut Wire<'_>, held: &HashMap<String, u64>) -> After {
    let body: Value = serde_json::from_slice(&seen.body).unwrap();
    let asked = body["spanSelector"].as_array().unwrap().iter();
    let ns: u64 = asked.filter_map(|id| held.get(id.as_str()?)).sum();
    let right = seen.method == "POST"
        && seen.path == METHOD
        && seen.headers.get("x-scope-orgid").is_some_and(|tenant| tenant == "t1")
        && seen.headers["content-type"] == "application/json"
        && body["labelSelector"] == r#"{service_name="demo"}"#
        && body["profileTypeID"] == "process_cpu:cpu:nanoseconds:cpu:nanoseconds"
        && body["start"].as_i64().unwrap() < body["end"].as_i64().unwrap();
    if !right {
        let refusal = json!({"code": "invalid_argument", "message": "no such tenant"});
        return wire.answer("400 Bad Request", "application/json", refusal.to_string());
    }
    let all = ns.to_string();
    let level = |own: &str, name: &str| json!({"values": ["0", all, own, name]});
    let levels = [level("0", "0"), level("0", "1"), level(&all, "2")];
    let flamegraph =
        json!({"names": ["total", "render", "escape_cells"], "levels": levels, "total": all, "maxSelf": all});
    wire.answer("200 OK", "application/json", json!({"flamegraph": flamegraph}).to_string())
}

fn run(bench: &Bench) {
    bench.write("d.yaml", "demo: {}\n");
    bench.write(
        "s.yaml",
        "title: t\ndeployment: d.yaml\nrunner: { constant: { times: 300, concurrency: 4 } }\niteration: [ { get: /v3 } ]\n",
    );
    bench.run(&["run", "s.yaml"]).expect_code(0);
}

fn collect(bench: &Bench, profiles: &str) -> CommandOutput {
    bench.run(&["collect", bench.run_directory().to_str().unwrap(), "--profiles", profiles])
}

/// The outermost point that a service has in each stored trace, by the trace's id.
fn outermost(bench: &Bench) -> Vec<(String, uuid::Uuid)> {
    let stored = std::fs::read_dir(bench.run_directory().join("traces")).unwrap();
    let mut found = Vec::new();
    for file in stored {
        let trace: Value = serde_json::from_slice(&std::fs::read(file.unwrap().path()).unwrap()).unwrap();
        let records = trace["records"].as_array().unwrap();
        let of_client = |record: &&Value| record["project"] == "bench";
        let client: Vec<&Value> =
            records.iter().filter(of_client).map(|record| &record["trace_id"]).collect();
        let mut services = records.iter().filter(|record| !of_client(record));
        let first = services.find(|record| {
            record["parent_id"] == record["base_id"] || client.contains(&&record["parent_id"])
        });
        let id = first.unwrap()["trace_id"].as_str().unwrap().parse().unwrap();
        found.push((trace["trace_id"].as_str().unwrap().to_owned(), id));
    }
    found
}

#[test]
fn profiles_of_a_run_come_from_a_server() {
    let (bench, held) = (Bench::new(), SpanProfileStore::default());
    run(&bench);
    let points = outermost(&bench);
    for (number, (_, point)) in points.iter().enumerate() {
        // One trace in five has none.
        if number % 5 > 0 {
            held.lock().unwrap().insert(format!("{:016x}", span_id(*point)), 30_000_000);
        }
    }
    let server = pyroscope(&held);
    let url = format!("{}?selector={{service_name=\"demo\"}}&tenant=t1", server.url());
    // The second time replaces what came the first time.
    for _ in 0..2 {
        collect(&bench, &url).expect_code(0);
        let run = bench.run_directory();
        let table = bench.run(&["trace", "stats", "--functions", run.to_str().unwrap()]).expect_code(0);
        let samples = 3 * held.lock().unwrap().len();
        let row = table.stdout.lines().find(|line| line.contains("escape_cells")).unwrap();
        assert!(row.split_whitespace().any(|word| word == samples.to_string()), "{samples}: {row}");
    }
    for (number, (trace, _)) in points.iter().enumerate().take(10) {
        let shown = bench.run(&["trace", "show", bench.run_directory().to_str().unwrap(), trace]).stdout;
        assert_eq!(shown.contains("escape_cells"), number % 5 > 0, "{shown}");
    }
    // Few questions: all points of a trace at once, then halves.
    let most = 2 * points.len() * 40;
    assert!(server.seen().len() < most, "{} of {most}", server.seen().len());
}

#[test]
fn what_a_server_refuses_or_lacks_is_said() {
    let (bench, held) = (Bench::new(), SpanProfileStore::default());
    run(&bench);
    let server = pyroscope(&held);
    let url = format!("{}?selector={{service_name=\"demo\"}}&tenant=", server.url());
    let rows = [
        (format!("{url}t1"), 0, "there is no profile of these traces in http://127.0.0.1"),
        (format!("{url}t2"), 69, "it answered 400: no such tenant"),
        ("http://127.0.0.1:1".to_owned(), 69, "cannot read profiles from http://127.0.0.1:1: "),
        ("http://127.0.0.1:1?tennant=a".to_owned(), 64, "`tennant` is none of selector, type and tenant"),
        ("missing".to_owned(), 69, "cannot read profiles from missing: "),
    ];
    for (profiles, code, said) in rows {
        let ended = collect(&bench, &profiles).expect_code(code);
        assert!(ended.stderr.contains(said), "{profiles}: {}", ended.stderr);
    }
    // A run that finds none goes on.
    std::fs::create_dir(bench.path().join("empty")).unwrap();
    for (profiles, said) in
        [("empty", "there is no profile of these traces in empty"), ("missing", "cannot read profiles from")]
    {
        let ended = bench.run(&["run", "s.yaml", "--out", "others", "--profiles", profiles]);
        let ended = ended.expect_code(0);
        assert!(
            format!("{}{}", ended.stdout, ended.stderr).contains(said),
            "{}{}",
            ended.stdout,
            ended.stderr
        );
    }
}
