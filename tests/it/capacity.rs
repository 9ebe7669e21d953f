//! `bench capacity`: how much load the demo takes when its pool of connections is small, and what then stops it.

use std::time::Duration;

use serde_json::Value;

use crate::schema::assert_described;
use crate::server::ScriptedServer;
use crate::support::Bench;

/// Every look-up needs a connection for 20 ms, and some milliseconds more: 2 connections bear less than 100 in a second.
const DEPLOYMENT: &str = "name: small\ndemo: { slow_percent: 100, slow_query: 20ms, pool: 2 }\n";
const BEARS_LESS_THAN_PER_S: f64 = 100.0;

const SCENARIO: &str = r#"
title: Look up
deployment: d.yaml
runner: { constant: { times: 30, concurrency: 3 } }
setup:
  - action: log in
    post: /v3/auth/tokens
    json: { auth: { identity: { password: { user: { name: user-1, password: demo } } } } }
    extract: { token: { header: X-Subject-Token } }
iteration:
  - action: look up
    get: /v3/users/user-1
    headers: { X-Auth-Token: "{{ token }}" }
    expect: { status: 200 }
"#;

fn folder() -> Bench {
    let bench = Bench::new();
    bench.write("d.yaml", DEPLOYMENT);
    bench.write("s.yaml", SCENARIO);
    bench
}

fn found(bench: &Bench) -> Value {
    let text = std::fs::read(bench.run_directory().join("capacity.json")).unwrap();
    let value = serde_json::from_slice(&text).unwrap();
    assert_described("capacity", &value);
    value
}

#[test]
fn a_small_pool_is_what_stops_the_demo() {
    let bench = folder();
    let search = ["capacity", "s.yaml", "--threshold", "p50 < 1s", "--start", "30", "--level", "1s"];
    let options = ["--threshold", "capacity >= 100/s", "--junit", "capacity.xml"];
    let ended = bench.run(&[&search[..], &options].concat()).expect_code(2);
    assert!(ended.stderr.contains("searching up to 1000/s for at most 5m"), "{}", ended.stderr);
    let results = found(&bench);
    assert_eq!((&results["format"], &results["outcome"]), (&"bench-capacity".into(), &"FAIL".into()));
    let bounds = &results["bounds"];
    let holds = bounds["holds_per_s"].as_f64().unwrap();
    assert!(holds < BEARS_LESS_THAN_PER_S, "{bounds}");
    assert!(
        bounds["breaks_per_s"].as_f64().unwrap() <= holds * 1.05 || bounds["settled"] == false,
        "{bounds}"
    );
    let limit = &results["limit"];
    assert_eq!((&limit["kind"], &limit["name"]), (&"waits".into(), &"db".into()), "{results:#}");
    // A machine that is too busy for a plateau says nothing; it never says another number.
    if !limit["servers"].is_null() {
        assert_eq!(limit["servers"]["count"], 2, "{limit}");
    }
    assert!(ended.stdout.contains("What stops it: "), "{}", ended.stdout);
    // Two tries of a busy machine may disagree, and then nothing is said.
    if let Some(recovery) = results.get("recovery") {
        assert!(recovery["overload_per_s"].as_f64() > bounds["breaks_per_s"].as_f64(), "{recovery}");
        assert!(ended.stdout.contains("After 4 s at "), "{}", ended.stdout);
    }
    let junit = std::fs::read_to_string(bench.path().join("capacity.xml")).unwrap();
    assert!(junit.contains("failures=\"1\"") && junit.contains("capacity &gt;= 100/s"), "{junit}");
    let page = std::fs::read_to_string(bench.run_directory().join("capacity.html")).unwrap();
    assert!(page.contains("class=\"curve p99\"") && page.contains("class=\"knee\""));
}

#[test]
fn a_service_that_bears_every_rate_passes() {
    let bench = folder();
    // What the scenario says, and options before that.
    let settings = "capacity: { start: 5, max_rate: 99/s, level: 1s, at_least: 10/s }\nrunner:";
    bench.write("s.yaml", SCENARIO.replace("runner:", settings));
    let search = ["capacity", "s.yaml", "--threshold", "p50 < 10s", "--max-rate", "10"];
    let options = ["--quiet"];
    let ended = bench.run(&[&search[..], &options].concat()).expect_code(0);
    assert!(ended.stdout.contains("PASS"), "{}", ended.stdout);
    let results = found(&bench);
    assert_eq!(results["bounds"]["holds_per_s"], 10.0);
    assert!(results["bounds"].get("breaks_per_s").is_none() && results.get("limit").is_none());
}

/// Nothing can be said of a service that fails without load.
#[test]
fn a_service_that_fails_for_one_user_has_no_capacity() {
    let bench = folder();
    bench.write("s.yaml", SCENARIO.replace("status: 200", "status: 418"));
    let ended = bench.run(&["capacity", "s.yaml", "--threshold", "rate(errors) < 1%"]).expect_code(3);
    assert!(ended.stdout.contains("INVALID"), "{}", ended.stdout);
    assert_eq!(found(&bench)["levels"].as_array().unwrap().len(), 1);
}

#[test]
fn what_cannot_be_searched_is_refused_before_anything_is_sent() {
    let bench = folder();
    let two = "title: Two\ndeployment: d.yaml\nworkloads:\n  - { name: a, runner: { serial: { times: 1 } }, iteration: [{ get: / }] }\n  \
               - { name: b, runner: { serial: { times: 1 } }, iteration: [{ get: / }] }\n";
    bench.write("two.yaml", two);
    bench.write("slow.yaml", SCENARIO.replace("runner:", "capacity: { level: 1ms }\nrunner:"));
    for (arguments, code, words) in [
        (vec!["s.yaml"], 65, "a capacity needs an `sla`"),
        (vec!["two.yaml", "--threshold", "p50 < 1s"], 64, "takes one workload, and the scenario has 2"),
        (vec!["s.yaml", "--threshold", "p50 <"], 64, "--threshold"),
        (vec!["s.yaml", "--level", "1ms"], 64, "at least a second"),
        (vec!["s.yaml", "--max-rate", "0"], 64, "write a number of iterations per second"),
        (vec!["slow.yaml"], 65, "slow.yaml:4"),
    ] {
        let ended = bench.run(&[&["capacity"], &arguments[..]].concat()).expect_code(code);
        assert!(ended.stderr.contains(words), "{arguments:?}: {}", ended.stderr);
    }
    assert!(!bench.path().join("runs").exists());
}

/// What was seen before a service died in the search is kept and said.
#[test]
fn a_service_that_dies_ends_the_search_and_loses_nothing() {
    let bench = Bench::new();
    let server = ScriptedServer::answering_after(Duration::from_millis(1));
    bench.write("d.yaml", format!("name: frail\ntargets: {{ default: '{}' }}\n", server.url()));
    bench.write(
        "s.yaml",
        "title: Frail\ndeployment: d.yaml\nrunner: { serial: { times: 1 } }\niteration: [{ get: / }]\n",
    );
    // One user sends for 3 s; it dies some time after that.
    let dies = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_secs(8));
        drop(server);
    });
    let ended = bench
        .run(&["capacity", "s.yaml", "--threshold", "rate(errors) < 50%", "--start", "20", "--level", "1s"])
        .expect_code(0);
    dies.join().unwrap();
    assert!(
        ended.stdout.contains("The search ended because a level could not run: "),
        "{}\n{}",
        ended.stdout,
        ended.stderr
    );
    let results = found(&bench);
    assert!(results["levels"].as_array().unwrap().len() >= 2, "{results:#}");
}
