//! Steps that decide what comes next: what the service sees of them, and what the results say.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::time::Duration;

use serde_json::Value;

use crate::server::{After, ScriptedRequest, ScriptedServer, Wire};
use crate::support::Bench;

/// Answers with a list and, for `/count`, the number of requests so far.
fn answering(seen: &ScriptedRequest, wire: &mut Wire<'_>) -> After {
    let body = match seen.path.as_str() {
        "/list" => r#"{"items": ["a", "b", "c"], "more": true}"#.to_owned(),
        _ => format!(r#"{{"nth": {}}}"#, seen.nth),
    };
    wire.answer("200 OK", "application/json", body)
}

/// Runs one iteration of these steps. What the service saw, and the results.
#[track_caller]
fn once(steps: &str, code: i32) -> (Vec<String>, Value) {
    let server = ScriptedServer::start(answering);
    let bench = Bench::new();
    let scenario = format!(
        "runner: {{ serial: {{ times: 1 }} }}\nvariables: {{ fine: true, pages: 2 }}\niteration:\n{steps}"
    );
    bench.load(&server.url(), "", &scenario);
    bench.run(&["run", "scenario.yaml"]).expect_code(code);
    (server.seen().iter().map(|seen| seen.path.clone()).collect(), bench.results())
}

#[test]
fn steps_run_as_often_as_the_scenario_says() {
    for (name, steps, expected) in [
        ("if", "  - if: fine\n    then: [ { get: /then } ]\n    else: [ { get: /else } ]", "/then"),
        ("else", "  - if: \"{{ pages > 5 }}\"\n    else: [ { get: /else } ]", "/else"),
        ("neither", "  - get: /a\n  - if: pages > 5\n    then: [ { get: /then } ]", "/a"),
        ("repeat", "  - repeat: 3\n    as: n\n    steps: [ { action: a, get: \"/{{ n }}\" } ]", "/1 /2 /3"),
        ("repeat a template", "  - repeat: \"{{ pages }}\"\n    steps: [ { get: /a } ]", "/a /a"),
        ("repeat never", "  - get: /b\n  - repeat: 0\n    steps: [ { get: /a } ]", "/b"),
        (
            "for_each of a list",
            "  - for_each: [x, { y: 7 }]\n    steps: [ { action: a, get: \"/{{ item.y if item.y is defined else item }}\" } ]",
            "/x /7",
        ),
        (
            "for_each of an answer",
            "  - get: /list\n    extract: { items: { json: $.items } }\n  - for_each: \"{{ items }}\"\n    as: one\n    steps: [ { action: a, get: \"/{{ one }}\" } ]",
            "/list /a /b /c",
        ),
        (
            "while",
            "  - set: { n: 0 }\n  - while: n < 3\n    steps: [ { action: a, get: \"/{{ n }}\" }, { set: { n: \"{{ n + 1 }}\" } } ]",
            "/0 /1 /2",
        ),
        (
            "stop_iteration",
            "  - get: /a\n  - if: fine\n    then: [ { stop_iteration: true } ]\n  - get: /b",
            "/a",
        ),
        (
            "a choice without a choice",
            "  - choice: [ { weight: 0, steps: [ { get: /a } ] }, { steps: [ { get: /b } ] } ]",
            "/b",
        ),
        (
            "nested",
            "  - repeat: 2\n    steps:\n      - group: g\n        steps: [ { get: /a }, { repeat: 2, steps: [ { get: /b } ] } ]",
            "/a /b /b /a /b /b",
        ),
    ] {
        let (seen, results) = once(steps, 0);
        assert_eq!(seen.join(" "), expected, "{name}");
        assert_eq!(results["workloads"][0]["iterations"]["ok"], 1, "{name}");
    }
}

#[test]
fn steps_that_fail_say_why() {
    for (steps, class, message) in [
        ("  - get: /a\n  - fail: \"page {{ pages }}\"\n  - get: /b", "fail", "page 2"),
        (
            "  - get: /a\n  - while: fine\n    max: 4\n    steps: [ { set: { n: 1 } } ]",
            "loop",
            "still holds after 4 rounds",
        ),
        (
            "  - get: /a\n  - repeat: \"{{ fine }}\"\n    steps: [ { get: /b } ]",
            "loop",
            "needs a whole number",
        ),
        ("  - get: /a\n  - for_each: \"{{ pages }}\"\n    steps: [ { get: /b } ]", "loop", "is not a list"),
        (
            "  - get: /a\n    extract: { n: { json: $.nth } }\n    poll: { until: n > 1000, interval: 10ms, deadline: 50ms }",
            "poll",
            "does not hold after 50.0 ms",
        ),
        (
            "  - get: /a\n    extract: { n: { json: $.nth } }\n    poll: { until: n > 1000, fail_if: n == 2, interval: 1ms, deadline: 20s }",
            "poll",
            "`fail_if` holds",
        ),
        (
            "  - get: /a\n    expect: { status: 404 }\n    poll: { interval: 1ms, deadline: 30ms }",
            "poll",
            "still not so after 30.0 ms: answered 200, expected 404",
        ),
        (
            "  - get: /a\n    expect: { status: 404 }\n    poll: { until: fine, interval: 1ms }",
            "status",
            "expected 404",
        ),
    ] {
        let (_, results) = once(steps, 0);
        let error = &results["workloads"][0]["errors"][0];
        assert_eq!(error["class"], class, "{steps}: {error}");
        assert!(error["message"].as_str().unwrap().contains(message), "{steps}: {error}");
    }
}

#[test]
fn a_poll_is_one_sample_of_all_its_requests() {
    let steps = "  - action: wait\n    get: /a\n    extract: { n: { json: $.nth } }\n    poll: { until: n == 4, interval: 1ms, deadline: 60s }";
    let (seen, results) = once(steps, 0);
    assert_eq!(seen.len(), 5);
    let action = &results["workloads"][0]["actions"][0];
    assert_eq!((&action["requests"]["total"], &action["sent"]), (&Value::from(1), &Value::from(5)));
    assert_eq!(action["service_time"]["count"], 1);
    // Five bodies of ten bytes.
    assert_eq!(action["bytes_received"], 50);
}

#[test]
fn steps_together_are_under_way_at_the_same_time_and_what_they_extract_comes_together() {
    // Each of three requests is answered only when all have come.
    let barrier = Arc::new(Barrier::new(3));
    let server = ScriptedServer::start(move |seen, wire| {
        if seen.path.starts_with("/together") {
            barrier.wait();
        }
        wire.answer("200 OK", "application/json", format!(r#"{{"path": "{}"}}"#, seen.path))
    });
    let bench = Bench::new();
    let scenario = "runner: { constant: { times: 4, concurrency: 1 } }
iteration:
  - together: page
    steps:
      - { action: one, get: /together/1, extract: { one: { json: $.path } } }
      - { action: two, get: /together/2, extract: { two: { json: $.path } } }
      - group: chain
        steps:
          - { action: three, get: /together/3, extract: { three: { json: $.path } } }
          - { action: four, get: '/after{{ three }}' }
  - { action: after, get: '/{{ one }}{{ two }}' }
";
    bench.load(&server.url(), "", scenario);
    bench.run(&["run", "scenario.yaml", "--workers", "1"]).expect_code(0);
    let seen = server.seen();
    assert_eq!(seen.len(), 4 * 5);
    assert_eq!(seen.iter().filter(|seen| seen.path == "//together/1/together/2").count(), 4);
    assert_eq!(seen.iter().filter(|seen| seen.path == "/after/together/3").count(), 4);
    let results = bench.results();
    let actions = results["workloads"][0]["actions"].as_array().unwrap();
    let rows: Vec<_> = actions
        .iter()
        .map(|action| {
            (
                action["name"].as_str().unwrap(),
                action["request"].as_str().unwrap(),
                action["requests"]["ok"].as_u64(),
            )
        })
        .collect();
    assert_eq!(
        rows,
        [
            ("page", "together", Some(4)),
            ("one", "GET /together/1", Some(4)),
            ("two", "GET /together/2", Some(4)),
            ("chain", "group", Some(4)),
            ("three", "GET /together/3", Some(4)),
            ("four", "GET /after{{ three }}", Some(4)),
            ("after", "GET /{{ one }}{{ two }}", Some(4)),
        ]
    );
    // Four connections: one for the steps around, and one for each of those at the same time.
    let opened: u64 = actions.iter().map(|action| action["connections_opened"].as_u64().unwrap()).sum();
    assert_eq!(opened, 4);
}

#[test]
fn one_of_several_steps_together_fails_the_iteration_after_all_have_ended() {
    let server = ScriptedServer::start(|seen, wire| match seen.path.as_str() {
        "/bad" => wire.answer("500 No", "text/plain", "no"),
        _ => {
            wire.pause(Duration::from_millis(30));
            wire.answer("200 OK", "text/plain", "yes")
        }
    });
    let bench = Bench::new();
    let scenario = "runner: { serial: { times: 2 } }
iteration:
  - together: page
    steps: [ { action: slow, get: /slow }, { action: bad, get: /bad } ]
  - { action: never, get: /never }
";
    bench.load(&server.url(), "", scenario);
    bench.run(&["run", "scenario.yaml"]).expect_code(0);
    let workload = &bench.results()["workloads"][0];
    assert_eq!(workload["iterations"]["failed"], 2);
    assert_eq!(workload["errors"][0]["action"], "bad");
    let count = |index: usize, key: &str| workload["actions"][index]["requests"][key].as_u64().unwrap();
    assert_eq!([count(0, "failed"), count(1, "ok"), count(2, "failed"), count(3, "total")], [2, 2, 2, 0]);
}

#[test]
fn the_same_seed_chooses_the_same_steps() {
    let run = |seed: &str| {
        let server = ScriptedServer::start(answering);
        let bench = Bench::new();
        let scenario = "runner: { constant: { times: 60, concurrency: 3 } }
iteration:
  - choice: [ { weight: 2, steps: [ { action: a, get: '/a{{ iteration }}' } ] }, { steps: [ { action: b, get: '/b{{ iteration }}' } ] } ]
";
        bench.load(&server.url(), "", scenario);
        bench.run(&["run", "scenario.yaml", "--seed", seed]).expect_code(0);
        let mut paths: Vec<String> = server.seen().iter().map(|seen| seen.path.clone()).collect();
        paths.sort();
        paths
    };
    let (one, again, other) = (run("1"), run("1"), run("2"));
    assert_eq!(one, again);
    assert_ne!(one, other);
    let a = one.iter().filter(|path| path.starts_with("/a")).count();
    assert!((20..58).contains(&a), "{a} of 60");
}

#[test]
fn loops_without_requests_end_with_the_iteration_s_time() {
    let bench = Bench::new();
    let server = ScriptedServer::start(answering);
    let scenario = "runner: { constant: { times: 2, concurrency: 2, timeout: 1 } }
iteration:
  - get: /a
  - repeat: 100000
    steps: [ { repeat: 100000, steps: [ { set: { n: 1 } } ] } ]
";
    bench.load(&server.url(), "", scenario);
    bench.run(&["run", "scenario.yaml", "--workers", "1"]).expect_code(0);
    let workload = &bench.results()["workloads"][0];
    assert_eq!(workload["iterations"]["failed"], 2);
    let class = workload["errors"][0]["class"].as_str().unwrap();
    // Whichever limit comes first on this machine.
    assert!(["timeout", "loop"].contains(&class), "{class}");
}

#[test]
fn included_steps_take_parameters_and_their_faults_name_their_file() {
    let server = ScriptedServer::start(answering);
    let bench = Bench::new();
    bench.write(
        "steps.yaml",
        "defaults: { page: 1 }\nsteps:\n  - action: open\n    get: /{{ name }}/{{ page }}\n",
    );
    let scenario = "runner: { serial: { times: 1 } }
iteration:
  - include: steps.yaml
    with: { name: first }
  - include: steps.yaml
    as: again
    with: { name: second, page: '{{ 1 + 6 }}' }
";
    bench.load(&server.url(), "", scenario);
    // By itself, too, although only the scenario knows what `name` is.
    let alone = bench.run(&["validate", "steps.yaml"]).expect_code(0).stdout;
    assert!(
        alone.contains("steps.yaml: a valid file of 1 step to include; validate the scenario"),
        "{alone}"
    );
    bench.run(&["run", "scenario.yaml"]).expect_code(0);
    let paths: Vec<_> = server.seen().iter().map(|seen| seen.path.clone()).collect();
    assert_eq!(paths, ["/first/1", "/second/7"]);
    assert_eq!(bench.results()["workloads"][0]["actions"][1]["name"], "again: open");
    for (text, place, message) in [
        ("steps:\n  - get: /{{ nobody }}\n", "steps.yaml:2: ", "unknown variable `nobody`"),
        ("steps:\n  - gett: /\n", "steps.yaml:2: ", "unknown key `gett`"),
        ("steps: 5\n", "steps.yaml:1: ", "must be a list"),
        ("steps:\n  - include: steps.yaml\n", "steps.yaml:2: ", "includes itself"),
        ("steps: [", "steps.yaml:1: ", ""),
        ("steps:\n  - get: /{{ nam }}\n", "steps.yaml does not use `name`", "did you mean `nam`?"),
        ("defaults: { page: 1 }\nsteps:\n  - get: /{{ page }}\n", "does not use `name`", "did you mean"),
    ] {
        bench.write("steps.yaml", text);
        let said = bench.run(&["validate", "scenario.yaml"]).expect_code(65).stderr;
        assert!(
            said.contains(place) && said.contains(message) && said.contains("scenario.yaml:"),
            "{text}: {said}"
        );
    }
    for (text, line, remedy) in [
        ("steps:\n  - gett: /\n", "steps.yaml:2:", "did you mean `get`?"),
        ("defualts: { a: 1 }\nsteps:\n  - get: /\n", "steps.yaml:1:", "did you mean `defaults`?"),
    ] {
        bench.write("steps.yaml", text);
        let alone = bench.run(&["validate", "steps.yaml"]).expect_code(65).stderr;
        assert!(alone.contains(line) && alone.contains(remedy), "{alone}");
    }
}

#[test]
fn texts_of_log_steps_are_printed_ten_times() {
    let server = ScriptedServer::start(answering);
    let bench = Bench::new();
    let scenario =
        "runner: { serial: { times: 15 } }\niteration: [ { get: /a }, { log: 'it is {{ iteration }}' } ]\n";
    bench.load(&server.url(), "", scenario);
    let said = bench.run(&["run", "scenario.yaml"]).expect_code(0).stderr;
    assert_eq!(said.matches("log: it is ").count(), 10, "{said}");
    assert!(said.contains("log: it is 9 (further texts of this step are not printed)"), "{said}");
}

#[test]
fn a_pace_keeps_iterations_apart_and_a_workload_starts_later() {
    let server = ScriptedServer::start(answering);
    let bench = Bench::new();
    let scenario = "parallel: true
workloads:
  - name: paced
    runner: { serial: { times: 4 } }
    iteration: [ { action: a, get: /a }, { pace: 60ms } ]
  - name: later
    start_after: 300ms
    runner: { serial: { times: 1 } }
    iteration: [ { action: b, get: /b } ]
  - name: latest
    start_after: 400ms
    runner: { rps: { rps: 100, times: 3 } }
    iteration: [ { action: c, get: /c } ]
";
    bench.load(&server.url(), "", scenario);
    bench.run(&["run", "scenario.yaml"]).expect_code(0);
    let results = bench.results();
    let starts: Vec<f64> =
        (0..3).map(|index| results["workloads"][index]["start_s"].as_f64().unwrap()).collect();
    // Never earlier; how much later depends on the machine.
    assert!(starts[1] - starts[0] >= 0.25 && starts[2] - starts[0] >= 0.35, "{starts:?}");
    assert!(results["workloads"][0]["duration_s"].as_f64().unwrap() >= 0.24);
}

#[test]
fn arrivals_at_random_depend_only_on_the_seed() {
    let arrivals = |seed: &str, workers: &str| {
        let count = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&count);
        let server = ScriptedServer::start(move |_, wire| {
            counted.fetch_add(1, Ordering::SeqCst);
            wire.answer("200 OK", "text/plain", "")
        });
        let bench = Bench::new();
        let scenario =
            "runner: { rps: { rps: 200, duration: 400ms, random: poisson } }\niteration: [ { get: /a } ]\n";
        bench.load(&server.url(), "", scenario);
        bench.run(&["run", "scenario.yaml", "--seed", seed, "--workers", workers]).expect_code(0);
        let run = bench.run_directory();
        let rows = bench.run(&["export", run.to_str().unwrap(), "--jsonl"]).expect_code(0).stdout;
        let mut due: Vec<u64> = rows
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap()["due_ns"].as_u64().unwrap())
            .collect();
        due.sort_unstable();
        let first = due[0];
        due.iter().map(|due| due - first).collect::<Vec<_>>()
    };
    let (one, two) = (arrivals("1", "1"), arrivals("1", "3"));
    assert_eq!(one, two);
    assert_ne!(one, arrivals("2", "1"));
    let gaps: Vec<u64> = one.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(gaps.iter().min() < gaps.iter().max());
}
