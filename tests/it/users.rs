//! `user_setup` and `user_teardown`: what each virtual user does around its iterations.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};

use crate::server::{After, ScriptedRequest, ScriptedServer, Wire};
use crate::support::Bench;

/// Gives out sessions by name; everything else needs one. The first `refused` logins are refused.
fn shop(refused: u64) -> ScriptedServer {
    let logins = AtomicU64::new(0);
    ScriptedServer::start(move |seen: &ScriptedRequest, wire: &mut Wire<'_>| -> After {
        if seen.method == "POST" && seen.path == "/sessions" {
            let number = logins.fetch_add(1, Ordering::SeqCst);
            let body = json!({ "token": format!("token-{number}-canary") }).to_string();
            let status = if number < refused { "503 Service Unavailable" } else { "201 Created" };
            let head = format!("application/json\r\nSet-Cookie: session=s{number}; Path=/");
            return wire.answer(status, &head, &body);
        }
        wire.answer("200 OK", "application/json", "{}")
    })
}

const STEPS: &str = "user_setup:
  - { action: log in, post: /sessions, json: { user: '{{ iteration }}' }, extract: { token: { json: $.token } } }
iteration:
  - { action: read, get: '/orders/{{ iteration }}', headers: { X-Token: '{{ token }}' } }
user_teardown:
  - { action: log out, delete: /sessions, headers: { X-Token: '{{ token }}' } }
";

/// How many requests of each method came, by the value of a header.
fn by_header(server: &ScriptedServer, name: &str) -> BTreeMap<(String, String), u64> {
    let mut counts = BTreeMap::new();
    for seen in server.seen() {
        let value = seen.headers.get(name).cloned().unwrap_or_default();
        *counts.entry((seen.method.clone(), value)).or_default() += 1;
    }
    counts
}

#[test]
fn each_user_logs_in_once_and_keeps_its_token_and_its_cookies() {
    for (runner, users, iterations) in [
        ("constant: { times: 30, concurrency: 3 }", 3, 30),
        ("constant_for_duration: { duration: 1s, concurrency: 2 }", 2, 0),
        ("ramping: { start: 2, stages: [{ duration: 1s, concurrency: 2 }] }", 2, 0),
    ] {
        let (bench, server) = (Bench::new(), shop(0));
        bench.load(&server.url(), "", &format!("runner: {{ {runner} }}\n{STEPS}"));
        let ended = bench.run(&["run", "scenario.yaml", "--workers", "2"]).expect_code(0);
        let results = bench.results();
        let workload = &results["workloads"][0];
        let total = workload["iterations"]["total"].as_u64().unwrap();
        assert!(if iterations > 0 { total == iterations } else { total > users }, "{total}");
        for header in ["x-token", "cookie"] {
            let counts = by_header(&server, header);
            let gets: u64 =
                counts.iter().filter(|((method, _), _)| method == "GET").map(|(_, count)| count).sum();
            let of = |wanted: &'static str| {
                let own = counts.iter().filter(move |((method, _), _)| method == wanted);
                own.map(|((_, value), count)| (value, *count))
            };
            assert_eq!((gets, of("POST").map(|(_, count)| count).sum::<u64>()), (total, users), "{counts:?}");
            assert_eq!(of("DELETE").map(|(_, count)| count).collect::<Vec<_>>(), vec![1; users as usize]);
            assert!(
                of("GET").chain(of("DELETE")).all(|(value, _)| !value.is_empty()),
                "{header}: {counts:?}"
            );
            assert_eq!(of("GET").count() as u64, users, "each user has its own {header}: {counts:?}");
        }
        for (part, action) in [("user_setup", "log in"), ("user_teardown", "log out")] {
            let part = &workload[part];
            assert_eq!((&part["users"]["ok"], &part["actions"][0]["name"]), (&users.into(), &json!(action)));
            assert_eq!(part["actions"][0]["requests"]["total"], users);
        }
        assert_eq!(workload["actions"].as_array().unwrap().len(), 1, "they are in no other figure");
        assert!(ended.stdout.contains("user_setup") && ended.stdout.contains("log out"), "{}", ended.stdout);
        let run = bench.run_directory();
        for name in ["results.json", "report.html", "report.md"] {
            assert!(
                !std::fs::read_to_string(run.join(name)).unwrap().contains("canary"),
                "{name} shows a token"
            );
        }
    }
}

#[test]
fn a_user_that_cannot_log_in_fails_its_iteration_and_tries_again() {
    let (bench, server) = (Bench::new(), shop(2));
    bench.load(&server.url(), "", &format!("runner: {{ serial: {{ times: 10 }} }}\n{STEPS}"));
    let ended = bench.run(&["run", "scenario.yaml"]).expect_code(0);
    let results = bench.results();
    let workload = &results["workloads"][0];
    assert_eq!((&workload["iterations"]["failed"], &workload["iterations"]["ok"]), (&2.into(), &8.into()));
    let error = &workload["errors"][0];
    assert_eq!(error["message"], "user_setup failed: log in: answered 503");
    assert_eq!((&error["class"], &error["count"]), (&json!("status"), &2.into()));
    let users = &workload["user_setup"]["users"];
    assert_eq!((&users["total"], &users["failed"], &users["ok"]), (&3.into(), &2.into(), &1.into()));
    assert!(ended.stdout.contains("user_setup failed: log in"), "{}", ended.stdout);
}

#[test]
fn at_an_arrival_rate_a_new_user_logs_in_first() {
    let (bench, server) = (Bench::new(), shop(0));
    bench.load(&server.url(), "", &format!("runner: {{ rps: {{ rps: 50, times: 40 }} }}\n{STEPS}"));
    bench.run(&["run", "scenario.yaml"]).expect_code(0);
    let workload = &bench.results()["workloads"][0];
    let users = workload["user_setup"]["users"]["ok"].as_u64().unwrap();
    assert!((1..40).contains(&users), "{users}");
    assert_eq!(
        (&workload["iterations"]["ok"], &workload["user_teardown"]["users"]["ok"]),
        (&40.into(), &users.into())
    );
    let tokens = by_header(&server, "x-token");
    assert!(!tokens.contains_key(&("GET".to_owned(), String::new())), "{tokens:?}");
}

/// A row for each user is the same before, in and after its iterations; the probe and `--once` log in, too.
#[test]
fn a_user_has_its_row_in_all_its_steps() {
    let (bench, server) = (Bench::new(), shop(0));
    let steps = STEPS
        .replace("'{{ iteration }}'", "'{{ people.name }}'")
        .replace("/{{ iteration }}", "/{{ people.name }}");
    let data = "data: { people: { rows: [{ name: ada }, { name: bob }], per: user } }\nprobe: true\n";
    let load = "runner: { constant: { times: 20, concurrency: 2 } }\n";
    bench.load(&server.url(), "", &format!("{data}{load}{steps}"));
    bench.run(&["run", "scenario.yaml"]).expect_code(0);
    let bodies: Vec<String> =
        server.seen().into_iter().map(|seen| String::from_utf8(seen.body).unwrap()).collect();
    for name in ["ada", "bob"] {
        assert!(bodies.iter().any(|body| body.contains(name)), "{name}: {bodies:?}");
    }
    let results: Value = bench.results();
    assert_eq!(results["workloads"][0]["user_setup"]["users"]["ok"], 2, "the probe's user is not counted");
    let once = bench.run(&["run", "scenario.yaml", "--once", "--verbose"]).expect_code(0).stdout;
    let at = |what: &str| once.find(what).unwrap_or_else(|| panic!("{what}: {once}"));
    assert!(at("user_setup") < at("log in") && at("log in") < at("read") && at("read") < at("log out"));
    assert!(!once.contains("canary"), "{once}");
}

#[test]
fn mistakes_in_what_users_do_are_reported() {
    for (keys, message, help) in [
        (
            "data: { people: { rows: [{ name: ada }] } }\nuser_setup: [{ get: '/{{ people.name }}' }]\n",
            "`user_setup` uses `people`, whose rows are for iterations",
            "add `per: user` to `people`",
        ),
        ("user_setup: [{ get: /, measure: { a: { json: $.a } } }]\n", "in `user_setup`", "not measured"),
        ("user_teardown: [{ get: '/{{ nothing }}' }]\n", "nothing", ""),
        ("user_setup: [{ action: a }]\n", "a step without a request", ""),
    ] {
        let bench = Bench::new();
        let load = "runner: { serial: { times: 1 } }\niteration: [{ get: / }]\n";
        bench.load("http://127.0.0.1:9", "", &format!("{keys}{load}"));
        let ended = bench.run(&["run", "scenario.yaml"]).expect_code(65);
        assert!(ended.stderr.contains(message) && ended.stderr.contains(help), "{keys}: {}", ended.stderr);
    }
}
