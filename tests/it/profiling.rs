//! Profiling as the services see it: every request is signed, and every iteration has a separate trace.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use bench::osprofiler::verifying::ServerKeys;
use serde_json::Value;

use crate::server::{ScriptedRequest, ScriptedServer};
use crate::support::Bench;

const KEY: &str = "profiler: { hmac_key: s3cret-key }";
const TRACE_HEADERS: [&str; 3] = ["x-trace-info", "x-trace-hmac", "traceparent"];

/// base_id and parent_id of a request, whose three headers must be right.
#[track_caller]
fn verified(seen: &ScriptedRequest) -> (String, String) {
    let [info, hmac, traceparent] = TRACE_HEADERS.map(|name| {
        seen.headers.get(name).unwrap_or_else(|| panic!("{} {} has no {name}", seen.method, seen.path))
    });
    let context = ServerKeys::parse("s3cret-key").verify(info.as_bytes(), hmac.as_bytes()).unwrap();
    assert!(ServerKeys::parse("another").verify(info.as_bytes(), hmac.as_bytes()).is_err());
    let base = context.base_id.replace('-', "");
    let parent = context.parent_id.replace('-', "");
    assert_eq!(traceparent, &format!("00-{base}-{}-01", &parent[16..]));
    (context.base_id, context.parent_id)
}

fn run_ids(results: &Value) -> HashMap<String, &Value> {
    let rows = results["iterations"].as_array().unwrap();
    let ids: HashMap<_, _> =
        rows.iter().map(|row| (row["trace_id"].as_str().unwrap().to_owned(), row)).collect();
    assert_eq!(ids.len(), rows.len(), "a new id for each iteration");
    ids
}

/// Every occupied bucket of every distribution names an iteration of the run.
fn check_buckets(results: &Value, ids: &HashMap<String, &Value>) {
    let workload = &results["workloads"][0];
    let actions = workload["actions"].as_array().unwrap().iter().map(|action| &action["service_time"]);
    for distribution in [&workload["response_time"], &workload["service_time"]].into_iter().chain(actions) {
        let buckets = distribution["buckets"].as_array().unwrap();
        assert!(!buckets.is_empty());
        let mut count = 0;
        for bucket in buckets {
            assert!(ids.contains_key(bucket["trace_id"].as_str().unwrap()), "{bucket}");
            assert!(bucket["count"].as_u64().unwrap() > 0);
            count += bucket["count"].as_u64().unwrap();
        }
        assert_eq!(count, distribution["count"].as_u64().unwrap());
    }
    // The exemplar of an iteration's bucket took as long as the bucket says.
    for bucket in workload["service_time"]["buckets"].as_array().unwrap() {
        let took = ids[bucket["trace_id"].as_str().unwrap()]["duration_ms"].as_f64().unwrap();
        let (from, to) = (bucket["from_ms"].as_f64().unwrap(), bucket["to_ms"].as_f64().unwrap());
        assert!(from <= took * 1.001 && took <= to * 1.001, "{took} in {bucket}");
    }
}

/// Thousands of iterations, fifty at a time, of three requests each, whose answers come in any order.
#[test]
fn interleaved_iterations_never_share_an_id_or_a_stack() {
    const TIMES: usize = 3000;
    let server = ScriptedServer::start(|seen, wire| {
        wire.pause(Duration::from_micros(seen.nth as u64 * 7919 % 3000));
        match seen.nth % 50 {
            0 => wire.answer("500 Oops", "text/plain", "no"),
            _ => wire.answer("200 OK", "application/json", "{\"id\": 1}"),
        }
    });
    let bench = Bench::new();
    bench.load(
        &server.url(),
        KEY,
        &format!(
            "runner: {{ constant: {{ times: {TIMES}, concurrency: 50 }} }}\n\
             iteration:\n\
             - {{ action: a, get: '/a?{{{{ trace_id }}}}' }}\n\
             - {{ action: b, post: '/b?{{{{ trace_id }}}}', json: {{ n: 1 }} }}\n\
             - {{ think: 1ms }}\n\
             - {{ action: c, delete: '/c?{{{{ trace_id }}}}' }}\n"
        ),
    );
    bench.run(&["run", "scenario.yaml", "--quiet"]).expect_code(0);
    let results = bench.results();
    let ids = run_ids(&results);
    assert_eq!(ids.len(), TIMES, "the list of iterations is complete");
    let numbers: HashSet<u64> = ids.values().map(|row| row["number"].as_u64().unwrap()).collect();
    assert_eq!(numbers, (0..TIMES as u64).collect());
    check_buckets(&results, &ids);

    let mut by_iteration: HashMap<String, Vec<(char, String)>> = HashMap::new();
    let mut parents = HashSet::new();
    for seen in server.seen() {
        let (base_id, parent_id) = verified(&seen);
        assert_eq!(&seen.path[3..], base_id, "the headers are those of the iteration that sent them");
        assert_ne!(base_id, parent_id, "a request hangs below its iteration's points");
        assert!(parents.insert(parent_id.clone()), "{parent_id} twice");
        let action = seen.path.as_bytes()[1] as char;
        assert_eq!(seen.body, if action == 'b' { br#"{"n":1}"#.as_slice() } else { b"" });
        by_iteration.entry(base_id).or_default().push((action, parent_id));
    }
    assert!(parents.is_disjoint(&ids.keys().cloned().collect()), "no point has an iteration's id");
    assert_eq!(by_iteration.keys().collect::<HashSet<_>>(), ids.keys().collect::<HashSet<_>>());
    for (id, requests) in &by_iteration {
        let order: String = requests.iter().map(|(action, _)| action).collect();
        let ok = ids[id]["outcome"] == "ok";
        assert!("abc".starts_with(&order) && (order == "abc" || !ok), "{id}: {order}");
    }
    let failed = results["workloads"][0]["iterations"]["failed"].as_u64().unwrap();
    assert!(failed > 0 && failed < TIMES as u64, "some fail, and the others go on: {failed}");
}

#[test]
fn without_a_key_or_when_switched_off_nothing_is_signed() {
    for (deployment, scenario, flag, reason) in [
        (KEY, "", Some("--no-profile"), "--no-profile"),
        ("", "", None, "no HMAC key"),
        (KEY, "profile: false\n", None, "profile: false"),
        ("profiler: { hmac_key: k, enabled: false }", "", None, "enabled: false"),
    ] {
        let server = ScriptedServer::answering_after(Duration::ZERO);
        let bench = Bench::new();
        let iteration = "iteration: [ { action: a, get: /a } ]";
        bench.load(
            &server.url(),
            deployment,
            &format!("{scenario}runner: {{ serial: {{ times: 5 }} }}\n{iteration}"),
        );
        let arguments: Vec<&str> = ["run", "scenario.yaml"].into_iter().chain(flag).collect();
        bench.run(&arguments).expect_code(0);
        assert_eq!(server.seen().len(), 5);
        for seen in server.seen() {
            for name in TRACE_HEADERS {
                assert!(!seen.headers.contains_key(name), "{reason}: {name}");
            }
        }
        let results = bench.results();
        assert_eq!(results["profiling"]["enabled"], false);
        assert!(results["profiling"]["reason"].as_str().unwrap().contains(reason), "{reason}");
        run_ids(&results);
    }
}

#[test]
fn setup_and_teardown_are_not_profiled() {
    let server = ScriptedServer::answering_after(Duration::ZERO);
    let bench = Bench::new();
    bench.load(
        &server.url(),
        KEY,
        "runner: { serial: { times: 2 } }\nsetup: [ { action: s, get: /s } ]\n\
         iteration: [ { action: a, get: /a } ]\nteardown: [ { action: t, get: /t } ]",
    );
    bench.run(&["run", "scenario.yaml"]).expect_code(0);
    for seen in server.seen() {
        assert_eq!(seen.headers.contains_key("x-trace-info"), seen.path == "/a", "{}", seen.path);
    }
}

#[test]
fn a_host_that_is_no_target_learns_no_secret() {
    let (target, other) =
        (ScriptedServer::answering_after(Duration::ZERO), ScriptedServer::answering_after(Duration::ZERO));
    let bench = Bench::new();
    bench.load(
        &target.url(),
        &format!("{KEY}\nauth: {{ bearer: {{ token: t0ken }} }}\nheaders: {{ X-Api-Key: api-secret }}"),
        &format!(
            "runner: {{ serial: {{ times: 3 }} }}\niteration:\n\
             - {{ action: a, get: /a }}\n- {{ action: b, get: \"{}/b\" }}\n- {{ action: c, get: /c, auth: false }}",
            other.url()
        ),
    );
    let ended = bench.run(&["run", "scenario.yaml"]).expect_code(0);
    assert!(ended.stderr.contains("is not a target of the deployment"), "{}", ended.stderr);
    assert_eq!((target.seen().len(), other.seen().len()), (6, 3));
    for seen in target.seen() {
        verified(&seen);
        assert_eq!(seen.headers.contains_key("authorization"), seen.path == "/a");
        assert_eq!(seen.headers["x-api-key"], "api-secret");
    }
    for seen in other.seen() {
        for name in TRACE_HEADERS.into_iter().chain(["authorization", "x-api-key", "x-auth-token"]) {
            assert!(!seen.headers.contains_key(name), "{name}");
        }
        assert!(seen.headers["user-agent"].starts_with("bench/"));
    }
    let written = std::fs::read_to_string(bench.run_directory().join("results.json")).unwrap();
    let log = std::fs::read(bench.run_directory().join("run.log")).unwrap();
    for secret in ["t0ken", "api-secret", "s3cret-key"] {
        assert!(!written.contains(secret));
        assert!(memchr::memmem::find(&log, secret.as_bytes()).is_none());
        assert!(!ended.stderr.contains(secret) && !ended.stdout.contains(secret));
    }
}

#[test]
fn a_request_that_failed_was_signed_as_well() {
    let server = ScriptedServer::start(|seen, wire| match seen.nth % 2 {
        0 => crate::server::After::Reset,
        _ => wire.answer("200 OK", "text/plain", "ok"),
    });
    let bench = Bench::new();
    bench.load(
        &server.url(),
        KEY,
        "http: { resend: never }\nrunner: { constant: { times: 200, concurrency: 10 } }\niteration: [ { action: a, get: /a } ]",
    );
    bench.run(&["run", "scenario.yaml"]).expect_code(0);
    let results = bench.results();
    let ids = run_ids(&results);
    let sent: HashSet<String> = server.seen().iter().map(|seen| verified(seen).0).collect();
    assert_eq!(sent, ids.keys().cloned().collect());
    assert_eq!(server.seen().len(), 200, "nothing is sent twice");
    let iterations = &results["workloads"][0]["iterations"];
    assert_eq!((&iterations["ok"], &iterations["failed"]), (&100.into(), &100.into()));
    for error in results["workloads"][0]["errors"].as_array().unwrap() {
        for id in error["trace_ids"].as_array().unwrap() {
            let class = ids[id.as_str().unwrap()]["error"].as_str().unwrap();
            assert!(["closed", "kept_alive_closed"].contains(&class), "{class}");
        }
    }
}
