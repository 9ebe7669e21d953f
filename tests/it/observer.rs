//! The cost of profiling: a random share of iterations is not profiled, and is compared with the others.

use std::collections::HashMap;
use std::time::Duration;

use bench::measure::ids::RunIds;
use bench::terms::control::ControlShare;
use serde_json::Value;

use crate::server::ScriptedServer;
use crate::support::Bench;

const TRACE_HEADERS: [&str; 3] = ["x-trace-info", "x-trace-hmac", "traceparent"];

/// A service that takes 4 ms longer for a request that is traced.
fn costly() -> ScriptedServer {
    ScriptedServer::start(|seen, wire| {
        let traced = seen.headers.contains_key("x-trace-info");
        wire.pause(Duration::from_millis(if traced { 6 } else { 2 }));
        wire.answer("200 OK", "application/json", "{}")
    })
}

fn rows(bench: &Bench) -> Vec<Value> {
    bench.results()["iterations"].as_array().unwrap().clone()
}

/// The scenario writes its own trace headers, as text and as a template: neither is sent.
#[test]
fn iterations_of_the_control_carry_no_trace_and_are_marked_everywhere() {
    let server = costly();
    let bench = Bench::new();
    bench.load(
        &server.url(),
        "profiler: { hmac_key: s3cret }",
        "profile: { control: 30% }\n\
         runner: { constant: { times: 400, concurrency: 8 } }\n\
         warm_up: { times: 20 }\n\
         iteration: [ { action: a, get: '/a?{{ trace_id }}', headers: { X-Trace-Info: mine, traceparent: '{{ trace_id }}' } }, \
                      { action: b, get: '/b?{{ trace_id }}' } ]",
    );
    let ended = bench.run(&["run", "scenario.yaml"]).expect_code(0);
    let results = bench.results();
    let seed = results["run"]["id_seed"].as_str().unwrap().parse().unwrap();
    let ids = RunIds::new(seed, ControlShare::from_percent(30.0));
    let mut profiled: HashMap<String, bool> = HashMap::new();
    for row in rows(&bench) {
        let control = ids.is_control((0, row["number"].as_u64().unwrap()));
        assert_eq!(row.get("profiled"), control.then_some(&Value::Bool(false)), "{row}");
        profiled.insert(row["trace_id"].as_str().unwrap().to_owned(), !control);
    }
    assert_eq!(profiled.len(), 420);
    for seen in server.seen() {
        let Some((_, id)) = seen.path.split_once('?') else { continue };
        let sent = TRACE_HEADERS.iter().filter(|name| seen.headers.contains_key(**name)).count();
        assert_eq!(sent, if profiled[id] { 3 } else { 1 }, "{}: {:?}", seen.path, seen.headers);
        let sampled = seen.headers["traceparent"].ends_with("-01");
        assert_eq!(sampled, profiled[id], "{}: {:?}", seen.path, seen.headers);
        assert_ne!(seen.headers.get("x-trace-info").map(String::as_str), Some("mine"));
    }
    let measured = results["iterations"].as_array().unwrap().iter().filter(|row| row["warm_up"] != true);
    let control = measured.filter(|row| row["profiled"] == false).count();
    let workload = &results["workloads"][0];
    assert_eq!(workload["unprofiled"], control);
    let effect = &workload["observer_effect"];
    assert_eq!((&effect["control"], &effect["profiled"]), (&control.into(), &(400 - control).into()));
    assert_eq!(effect["control_percent"], 30.0);
    let share = (400 - control) as f64 / 400.0 * 100.0;
    assert!(ended.stdout.contains(&format!("; {share:.0} % profiled")), "{}", ended.stdout);
    assert!(ended.stderr.contains("70 % profiled"), "{}", ended.stderr);
    // The costs are real and large; how large they came out is not for a test to say.
    assert!(
        ended.stdout.contains("Profiling costs ") && ended.stdout.contains(" at p50 ("),
        "{}",
        ended.stdout
    );
    in_exports(&bench, &profiled);
}

/// `profiled` in every table that is exported.
#[track_caller]
fn in_exports(bench: &Bench, profiled: &HashMap<String, bool>) {
    let run = bench.run_directory();
    let run = run.to_str().unwrap();
    for extra in [None, Some("--actions")] {
        let arguments: Vec<&str> = ["export", run, "--jsonl"].into_iter().chain(extra).collect();
        let lines = bench.run(&arguments).expect_code(0).stdout;
        assert!(lines.lines().count() >= profiled.len());
        for line in lines.lines() {
            let row: Value = serde_json::from_str(line).unwrap();
            assert_eq!(row["profiled"], profiled[row["trace_id"].as_str().unwrap()], "{line}");
        }
    }
    let csv = bench.run(&["export", run, "--csv"]).expect_code(0).stdout;
    assert!(csv.lines().next().unwrap().ends_with(",profiled,resent"), "{csv}");
}

/// Not one trace of the control is asked for, however slow it was; a report made again says the same.
#[test]
fn the_control_is_not_fetched_and_a_second_report_agrees() {
    let bench = Bench::new();
    bench.write("deployment.yaml", "demo: { slow_percent: 5, slow_query: 50ms }\n");
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(root.join("scenarios/demo.yaml")).unwrap();
    let text = text
        .replace("../deployments/demo.yaml", "deployment.yaml")
        .replace("times: 2000, concurrency: 10", "times: 300, concurrency: 4")
        .replace("runner:", "profile: { control: 50% }\nrunner:");
    bench.write("demo.yaml", text);
    bench.run(&["run", "demo.yaml"]).expect_code(0);
    let (first, directory) = (bench.results(), bench.run_directory());
    let control: Vec<String> = rows(&bench)
        .iter()
        .filter(|row| row["profiled"] == false)
        .map(|row| row["trace_id"].as_str().unwrap().to_owned())
        .collect();
    assert!((90..210).contains(&control.len()), "{}", control.len());
    assert!(control.iter().all(|id| !directory.join(format!("traces/{id}.json")).exists()));
    assert!(first["profiling"]["fetched"]["complete"].as_u64().unwrap() > 0);
    assert_eq!(first["profiling"]["fetched"]["absent"], Value::Null, "every one asked for had been traced");
    for slow in first["slowest"].as_array().unwrap() {
        let id = slow["trace_id"].as_str().unwrap().to_owned();
        let expected = if control.contains(&id) { "not_fetched" } else { "complete" };
        assert_eq!(slow["trace"], expected, "{slow}");
    }
    bench.run(&["report", directory.to_str().unwrap()]).expect_code(0);
    assert_eq!(bench.results()["workloads"][0], first["workloads"][0]);
}

/// Without a key nothing is profiled, and there is nothing to compare.
#[test]
fn an_unprofiled_run_has_no_control() {
    let server = ScriptedServer::answering_after(Duration::ZERO);
    let bench = Bench::new();
    bench.load(
        &server.url(),
        "",
        "profile: { control: 50% }\nrunner: { serial: { times: 20 } }\niteration: [ { action: a, get: / } ]",
    );
    bench.run(&["run", "scenario.yaml"]).expect_code(0);
    let results = bench.results();
    assert_eq!(results["workloads"][0]["observer_effect"], Value::Null);
    assert!(rows(&bench).iter().all(|row| row.get("profiled").is_none()));
}
