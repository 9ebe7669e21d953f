//! Rally's task files: they run unchanged, what is not supported is a fault at its line, and reports have Rally's shape.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::rewind;
use crate::server::{After, ScriptedRequest, ScriptedServer, Wire};
use crate::support::{Bench, CommandOutput};

/// A value that must be in no output.
const SECRET: &str = "canary-d1f3a9";

pub(crate) fn answering(seen: &ScriptedRequest, wire: &mut Wire<'_>) -> After {
    let status = if seen.path.starts_with("/missing") { "404 Not Found" } else { "200 OK" };
    wire.answer(status, "application/json", "{}")
}

/// A template with two subtasks and three workloads; `{{ url }}` and `{{ times }}` are its arguments.
const TASK: &str = r#"{% set times = times or 4 %}
---
version: 2
title: Check the shop
description: All of it
tags: [shop, nightly]
subtasks:
  - title: one request
    description: The front page
    scenario:
      HttpRequests.check_request:
        url: "{{ url }}/front?a={{ '{{' }}x}}"
        method: POST
        status_code: 200
        headers: { Authorization: "Bearer canary-d1f3a9", X-Kind: 7 }
        params: { q: [1, "b c"] }
        data: { name: "{% raw %}{{ n }}{% endraw %}", n: 5 }
        timeout: 20
    runner: { constant: { times: {{ times }}, concurrency: 2, max_cpu_count: 1, timeout: 0 } }
    sla: { max_seconds_per_iteration: 60, failure_rate: { max: 0 } }
    contexts: {}
  - title: several
    run_in_parallel: true
    workloads:
      - scenario:
          HttpRequests.check_random_request:
            requests:
              - { url: "{{ url }}/a", method: GET }
              - { url: "{{ url }}/b", method: get, json: { env: NAME } }
              - { url: "{{ url }}/missing", method: PURGE, status_code: 404 }
            status_code: 200
        description: One of three
        runner: { rps: { times: 12, rps: 200, max_concurrency: 4 } }
      - scenario:
          HttpRequests.check_request: { url: "{{ url }}/missing", method: GET, status_code: 200 }
        sla: { failure_rate: { min: 100 } }
"#;

fn with_task(bench: &Bench, task: &str, server: &ScriptedServer, further: &[&str]) -> CommandOutput {
    bench.write("task.yaml", task);
    let arguments = format!("{{\"url\": \"{}\"}}", server.url());
    let all = [&["run", "task.yaml", "--task-args", &arguments][..], further].concat();
    bench.run(&all)
}

#[test]
fn a_task_runs_as_a_scenario_does() {
    let (bench, server) = (Bench::new(), ScriptedServer::start(answering));
    bench.write("args.yaml", "times: 6\nurl: overridden\n");
    let ended = with_task(&bench, TASK, &server, &["--task-args-file", "args.yaml"]).expect_code(0);
    assert!(
        ended.stderr.contains("`run_in_parallel` of the subtask several has no effect"),
        "{}",
        ended.stderr
    );
    let results = bench.results();
    let workloads = results["workloads"].as_array().unwrap();
    let expected = [
        ("HttpRequests.check_request", 6, 0, 6),
        ("HttpRequests.check_random_request", 12, 0, 12),
        ("HttpRequests.check_request (2)", 1, 1, 1),
    ];
    assert_eq!(workloads.len(), expected.len());
    for (workload, (name, total, failed, actions)) in workloads.iter().zip(expected) {
        assert_eq!((&workload["name"], &workload["iterations"]["total"]), (&json!(name), &json!(total)));
        assert_eq!(workload["iterations"]["failed"], failed, "{name}");
        let row =
            workload["actions"].as_array().unwrap().iter().find(|a| a["name"] == "requests.check_request");
        assert_eq!(row.unwrap()["requests"]["total"], actions, "{name}");
    }
    assert_eq!(results["verdict"]["outcome"], "PASS");
    assert_eq!(results["scenario"]["title"], "Check the shop");
    assert_eq!(workloads[0]["runner"]["constant"]["max_cpu_count"], 1);

    let seen = server.seen();
    let front: Vec<&ScriptedRequest> = seen.iter().filter(|seen| seen.path.starts_with("/front")).collect();
    assert_eq!(front.len(), 6);
    for request in front {
        assert_eq!(
            request.path.replace("%7B", "{").replace("%7D", "}"),
            "/front?a={{x}}&q=1&q=b%20c",
            "{}",
            request.path
        );
        assert_eq!((&*request.method, &*request.headers["x-kind"]), ("POST", "7"));
        assert_eq!(request.headers["authorization"], format!("Bearer {SECRET}"));
        let body = String::from_utf8(request.body.clone()).unwrap();
        let mut pairs: Vec<_> = body.split('&').collect();
        pairs.sort_unstable();
        assert_eq!(pairs[0], "n=5");
        assert!(pairs[1].contains("%7B%7B") && pairs[1].starts_with("name="), "{body}");
    }
    let paths = ["/a", "/b", "/missing"].map(|path| server.count(path));
    assert_eq!(paths.iter().sum::<usize>(), 13, "{paths:?}");
    for request in seen.iter().filter(|seen| seen.path == "/b") {
        assert_eq!(request.body, b"{\"env\":\"NAME\"}");
    }
    for name in ["results.json", "report.html", "report.md", "run.log"] {
        let content = std::fs::read(bench.run_directory().join(name)).unwrap();
        let found = memchr::memmem::find(&content, SECRET.as_bytes()).is_some();
        assert!(!found, "the secret is in {name}");
    }
}

#[test]
fn version_1_in_json_runs_too() {
    let bench = Bench::new();
    let task = json!({
        "Dummy.dummy": [{
            "args": { "sleep": 0.001 },
            "runner": { "type": "constant_for_duration", "duration": 0, "concurrency": 3 },
            "hooks": [{
                "name": "sys_call", "args": "sh -c 'echo x >> hook.txt'",
                "trigger": { "name": "event", "args": { "unit": "iteration", "at": [1] } },
            }],
        }, {
            "runner": { "type": "serial", "times": 2 }, "sla": {}, "context": {},
        }],
        "Dummy.failure": [{
            "args": { "sleep": 0, "from_iteration": 2, "to_iteration": 9, "each": 2 },
            "runner": { "type": "serial", "times": 6 }, "sla": { "failure_rate": { "min": 50, "max": 50 } },
        }],
    });
    bench.write("task.json", serde_json::to_string_pretty(&task).unwrap());
    rewind::file(bench.path().join("hook.txt"));
    bench.run(&["run", "task.json"]).expect_code(0);
    let results = bench.results();
    let counts: Vec<(String, Value, Value)> = results["workloads"]
        .as_array()
        .unwrap()
        .iter()
        .map(|w| {
            (
                w["name"].as_str().unwrap().to_owned(),
                w["iterations"]["total"].clone(),
                w["iterations"]["failed"].clone(),
            )
        })
        .collect();
    let row = |name: &str, total: u64, failed: u64| (name.to_owned(), total.into(), failed.into());
    assert_eq!(counts, [row("Dummy.dummy", 3, 0), row("Dummy.dummy (2)", 2, 0), row("Dummy.failure", 6, 3)]);
    assert_eq!(std::fs::read_to_string(bench.path().join("hook.txt")).unwrap(), "x\n");
}

/// Every scenario that is supported, with its atomic actions.
#[test]
fn every_scenario_has_rallys_atomic_actions() {
    let (bench, server) = (Bench::new(), ScriptedServer::start(answering));
    let url = format!("{}/a", server.url());
    let rows: [(&str, Value, u64, &[&str]); 12] = [
        ("Dummy.dummy", json!({ "sleep": 0.001, "other": 1 }), 0, &["foo", "bar"]),
        ("Dummy.openstack", json!({ "sleep": 0.001 }), 0, &["foo", "bar"]),
        ("Dummy.failure", json!({ "sleep": 0, "to_iteration": 2 }), 2, &[]),
        ("Dummy.dummy_exception", json!({ "sleep": 0, "size_of_message": 3 }), 2, &[]),
        ("Dummy.dummy_exception_probability", json!({ "exception_probability": 1 }), 2, &[]),
        ("Dummy.dummy_output", json!({ "random_range": 5 }), 0, &[]),
        ("Dummy.dummy_with_scenario_output", json!({}), 0, &[]),
        (
            "Dummy.dummy_random_fail_in_atomic",
            json!({ "exception_probability": 0 }),
            0,
            &["dummy_fail_test", "dummy_fail_inner_test"],
        ),
        (
            "Dummy.dummy_random_action",
            json!({ "actions_num": 3, "sleep_max": 0.001 }),
            0,
            &["action_0", "action_1", "action_2"],
        ),
        (
            "Dummy.dummy_timed_atomic_actions",
            json!({ "number_of_actions": 2, "sleep_factor": 0.001 }),
            0,
            &["action_0", "action_1"],
        ),
        (
            "HttpRequests.check_request",
            json!({ "url": url, "method": "GET", "status_code": 200 }),
            0,
            &["requests.check_request"],
        ),
        (
            "HttpRequests.check_random_request",
            json!({ "requests": [{ "url": url, "method": "GET" }], "status_code": 200 }),
            0,
            &["requests.check_request", "GET /a"],
        ),
    ];
    let known: Vec<&str> = bench::rally::scenario_names().collect();
    let subtasks: Vec<Value> = rows
        .iter()
        .map(|(name, args, ..)| {
            let (runner, sla) =
                (json!({ "serial": { "times": 2 } }), json!({ "failure_rate": { "max": 100 } }));
            json!({ "title": name, "scenario": { *name: args }, "runner": runner, "sla": sla })
        })
        .collect();
    assert!(
        known.iter().filter(|name| name.starts_with("Dummy") || name.starts_with("Http")).count()
            == rows.len()
    );
    bench.write("task.json", json!({ "version": 2, "title": "all", "subtasks": subtasks }).to_string());
    bench.run(&["run", "task.json"]).expect_code(0);
    let results = bench.results();
    for (workload, (name, _, failed, actions)) in results["workloads"].as_array().unwrap().iter().zip(&rows) {
        assert_eq!(&workload["name"], name);
        assert_eq!(workload["iterations"]["failed"], *failed, "{name}: {}", workload["errors"]);
        let names: Vec<&Value> =
            workload["actions"].as_array().unwrap().iter().map(|action| &action["name"]).collect();
        assert_eq!(names, *actions, "{name}");
    }
    let message = &results["workloads"][3]["errors"][0]["message"];
    assert_eq!(message, "Dummy scenario expected exception: 'MMM'");
}

pub(crate) fn v2(workload: &str) -> String {
    format!("version: 2\ntitle: t\nsubtasks:\n- title: s\n{workload}")
}

#[test]
#[expect(clippy::too_many_lines, reason = "it is a table")]
fn what_is_not_supported_is_a_fault_at_its_line() {
    let http = |more: &str| {
        v2(&format!(
            "  scenario:\n    HttpRequests.check_request:\n      url: http://127.0.0.1:1/x\n      method: GET\n      status_code: 200\n{more}"
        ))
    };
    let dummy = |more: &str| v2(&format!("  scenario: {{ Dummy.dummy: {{}} }}\n{more}"));
    let rows = [
        (
            v2("  scenario: { Dummy.dumy: {} }\n"),
            5,
            "the scenario `Dummy.dumy` is not supported",
            "did you mean `Dummy.dummy`?",
        ),
        (
            v2("  scenario: { Nova.unheard_of: {} }\n"),
            5,
            "the scenario `Nova.unheard_of` is not supported",
            "supported are some of",
        ),
        (http("      verify: false\n"), 10, "`verify: false` of a single request", "tls"),
        (
            http("      files: { a: b }\n"),
            10,
            "unknown key `files` in the scenario's arguments",
            "known keys",
        ),
        (
            v2("  scenario: { GlanceImages.list_images: { detailed: true } }\n"),
            5,
            "unknown key `detailed` in the scenario's arguments",
            "there are no keys here: remove it",
        ),
        (http("      params: { a: { b: 1 } }\n"), 10, "a map where a text is expected", "write a text"),
        (
            v2(
                "  scenario: { HttpRequests.check_request: { url: localhost/x, method: GET, status_code: 200 } }\n",
            ),
            5,
            "is not a complete URL",
            "http://host:port/path",
        ),
        (
            v2("  scenario: { HttpRequests.check_request: { method: GET, status_code: 200 } }\n"),
            5,
            "lacks the key `url`",
            "add `url:`",
        ),
        (
            dummy("  runner: { stress: { times: 1 } }\n"),
            6,
            "the runner `stress` is not supported",
            "supported are serial, constant",
        ),
        (
            dummy("  runner:\n    constant: { times: 1, concurency: 2 }\n"),
            7,
            "unknown key `concurency` in `constant`",
            "did you mean `concurrency`?",
        ),
        (
            dummy("  runner: { constant: { times: 2, concurrency: 3 } }\n"),
            6,
            "more iterations at the same time than there are",
            "raise `times`",
        ),
        (
            dummy("  runner: { rps: { times: 2, rps: { start: 5, end: 2, step: 1 } } }\n"),
            6,
            "`end` of the rate is less than its `start`",
            "exchange",
        ),
        (
            dummy("  sla: { failure_rat: { max: 0 } }\n"),
            6,
            "unknown key `failure_rat`",
            "did you mean `failure_rate`?",
        ),
        (
            dummy("  contexts:\n    unheard_of@openstack: {}\n"),
            7,
            "the context `unheard_of@openstack` is not supported",
            "supported are users, quotas",
        ),
        (
            dummy("  contexts: { api_versions: { glance: { version: 2 }, nova: { version: 2.2 } } }\n"),
            6,
            "`version` of nova is not supported here",
            "microversion",
        ),
        (
            dummy("  contexts: { dummy_context: { fail_setup: true } }\n"),
            6,
            "`fail_setup` of the context `dummy_context` is not supported",
            "remove it",
        ),
        (
            dummy(
                "  hooks:\n  - action: { fault_injection: { action: x } }\n    trigger: { event: { unit: time, at: [1] } }\n",
            ),
            7,
            "the hook `fault_injection` is not supported",
            "sys_call",
        ),
        (
            dummy(
                "  hooks:\n  - action: { sys_call: \"a 'b\" }\n    trigger: { event: { unit: time, at: [1] } }\n",
            ),
            7,
            "a quote in the command is not closed",
            "shell",
        ),
        (
            dummy(
                "  hooks:\n  - action: { sys_call: a }\n    trigger: { event: { unit: iteration, at: [0] } }\n",
            ),
            8,
            "iterations count from 1",
            "1 or more",
        ),
        (
            dummy("  hooks:\n  - action: { sys_call: a }\n    trigger: { sometimes: {} }\n"),
            8,
            "the trigger `sometimes` is not supported",
            "event, periodic",
        ),
        (dummy("  runnner: {}\n"), 6, "unknown key `runnner`", "did you mean `runner`?"),
        ("version: 3\ntitle: t\nsubtasks: []\n".to_owned(), 1, "a task cannot have version 3", "version: 2"),
        ("version: 2\nsubtasks: []\n".to_owned(), 1, "lacks the key `title`", "add `title:`"),
        ("version: 2\ntitle: t\nsubtasks: []\n".to_owned(), 3, "the task has no workload", "add a subtask"),
        ("Dummy.dummy:\n- argz: {}\n".to_owned(), 2, "unknown key `argz`", "did you mean `args`?"),
        (
            "{% for n in [1, 2] %}\nDummy.dummy{{ n }}:\n- args: {}\n{% endfor %}\n".to_owned(),
            2,
            "the scenario `Dummy.dummy1` is not supported",
            "did you mean",
        ),
        (
            "Dummy.dummy:\n- args: { sleep: {{ lenght }} }\n".to_owned(),
            2,
            "the task needs the argument `lenght`",
            "--task-args",
        ),
        (
            "Dummy.dummy:\n- args: {% nothing %}\n".to_owned(),
            2,
            "the template of this task: syntax error",
            "correct the template",
        ),
    ];
    for (task, line, message, help) in rows {
        let bench = Bench::new();
        bench.write("task.yaml", &task);
        for command in [&["validate", "task.yaml"], &["run", "task.yaml"]] {
            let ended = bench.run(command).expect_code(65);
            assert!(ended.stderr.contains(message), "{task}\n{}", ended.stderr);
            assert!(ended.stderr.contains(help), "{task}\n{}", ended.stderr);
            assert!(
                ended.stderr.contains(&format!("task.yaml:{line}:")),
                "line {line}: {task}\n{}",
                ended.stderr
            );
        }
        assert!(!bench.path().join("runs").exists());
    }
}

#[test]
fn arguments_are_for_tasks_and_must_be_readable() {
    let bench = Bench::new();
    bench.write("task.yaml", "Dummy.dummy:\n- args: {}\n");
    bench.load("http://127.0.0.1:1", "", "runner: { serial: { times: 1 } }\niteration: [{ get: / }]");
    for (arguments, code, message) in [
        (&["run", "scenario.yaml", "--task-args", "a: 1"][..], 64, "are for task files of Rally"),
        (&["run", "task.yaml", "--task-args", "[1]"], 64, "--task-args cannot be read"),
        (&["run", "task.yaml", "--task-args-file", "nowhere.yaml"], 65, "cannot read nowhere.yaml"),
        (&["validate", "task.yaml", "--task-args-file", "nowhere.yaml"], 65, "cannot read nowhere.yaml"),
    ] {
        let ended = bench.run(arguments).expect_code(code);
        assert!(ended.stderr.contains(message), "{arguments:?}: {}", ended.stderr);
    }
    let ended = bench.run(&["validate", "task.yaml", "--task-args", "a=1"]).expect_code(0);
    assert!(ended.stdout.contains("a valid task of Rally with 1 workload"), "{}", ended.stdout);
}

#[test]
fn hooks_start_programs_in_the_middle_of_the_load() {
    let (bench, server) = (Bench::new(), ScriptedServer::start(answering));
    let task = v2(&format!(
        "  scenario: {{ HttpRequests.check_request: {{ url: \"{}/a\", method: GET, status_code: 200 }} }}\n\
         \x20 runner: {{ constant: {{ times: 40, concurrency: 4 }} }}\n\
         \x20 hooks:\n\
         \x20 - {{ description: a fault, action: {{ sys_call: \"sh -c 'echo {SECRET} | wc -c; echo bad >&2; exit 3'\" }}, trigger: {{ event: {{ unit: iteration, at: [7, 3, 400] }} }} }}\n\
         \x20 - {{ action: {{ sys_call: echo periodic }}, trigger: {{ periodic: {{ unit: iteration, start: 10, step: 10, end: 30 }} }} }}\n\
         \x20 - {{ action: {{ sys_call: /nowhere/at/all }}, trigger: {{ event: {{ unit: time, at: [0] }} }} }}\n",
        server.url()
    ));
    let ended = with_task(&bench, &task, &server, &["--rally-json", "rally.json"]).expect_code(0);
    assert!(ended.stdout.contains("hook `a fault` at iteration 3"), "{}", ended.stdout);
    assert!(ended.stdout.contains("ended with exit code 3"), "{}", ended.stdout);
    let report: Value =
        serde_json::from_slice(&std::fs::read(bench.path().join("rally.json")).unwrap()).unwrap();
    let hooks = report.pointer("/tasks/0/subtasks/0/workloads/0/hooks").unwrap();
    let values = |hook: usize| -> Vec<u64> {
        let results = hooks[hook]["results"].as_array().unwrap().iter();
        let mut values: Vec<u64> =
            results.map(|result| result["triggered_by"]["value"].as_u64().unwrap()).collect();
        values.sort_unstable();
        values
    };
    assert_eq!((values(0), values(1)), (vec![3, 7], vec![10, 20, 30]));
    assert_eq!(hooks[0]["summary"], json!({ "failed": 2 }));
    assert_eq!(hooks[1]["summary"], json!({ "success": 3 }));
    let printed = &hooks[0]["results"][0]["output"]["complete"][0]["data"];
    assert_eq!(printed[0], "RetCode: 3");
    assert_eq!(printed[2], "StdErr: bad\n");
    // The time of a short load may end before its first second is looked at, but not before its start.
    assert!(hooks[2]["results"].as_array().unwrap().len() <= 1);
}

/// The keys of a value, with those of what it contains; a list is like its first item.
fn shape(value: &Value, at: &str, found: &mut BTreeMap<String, &'static str>) {
    let kind = match value {
        Value::Object(map) => {
            for (key, value) in map {
                shape(value, &format!("{at}/{key}"), found);
            }
            "map"
        }
        Value::Array(list) => {
            if let Some(first) = list.first() {
                shape(first, &format!("{at}/0"), found);
            }
            "list"
        }
        Value::String(_) => "text",
        Value::Number(_) => "number",
        Value::Bool(_) => "bool",
        Value::Null => "null",
    };
    found.insert(at.to_owned(), kind);
}

/// A report of Rally 5.1.0 of the task in the vectors, and that of `bench`, have the same keys and kinds.
#[test]
fn reports_have_rallys_shape() {
    let bench = Bench::new();
    bench.write("task.yaml", include_str!("../vectors/rally/task.yaml"));
    let arguments = ["run", "task.yaml", "--rally-json", "rally.json", "--rally-junit", "rally.xml"];
    bench.run(&arguments).expect_code(2);
    let theirs: Value = serde_json::from_str(include_str!("../vectors/rally/report.json")).unwrap();
    let ours: Value =
        serde_json::from_slice(&std::fs::read(bench.path().join("rally.json")).unwrap()).unwrap();
    let (mut expected, mut found) = (BTreeMap::new(), BTreeMap::new());
    let workload = |report: &Value, subtask: usize, workload: usize| {
        report["tasks"][0]["subtasks"][subtask]["workloads"][workload].clone()
    };
    for (report, shapes) in [(&theirs, &mut expected), (&ours, &mut found)] {
        shape(report, "", shapes);
        shape(&workload(report, 1, 0), "w1", shapes);
        shape(&workload(report, 1, 1), "w2", shapes);
    }
    assert_eq!(found, expected);
    for (subtask, number) in [(0, 0), (1, 0), (1, 1)] {
        let (ours, theirs) = (workload(&ours, subtask, number), workload(&theirs, subtask, number));
        for key in ["runner", "scenario", "contexts", "sla", "position", "total_iteration_count"] {
            assert_eq!(ours[key], theirs[key], "{key} of {subtask}/{number}");
        }
        assert_eq!(ours["pass_sla"], theirs["pass_sla"]);
        assert_eq!(
            ours["data"].as_array().unwrap().len() as u64,
            ours["total_iteration_count"].as_u64().unwrap()
        );
    }
    let xml = std::fs::read_to_string(bench.path().join("rally.xml")).unwrap();
    for part in [
        "<testsuites>",
        "tests=\"3\"",
        "failures=\"1\"",
        "classname=\"Dummy\"",
        "name=\"dummy_exception\"",
        "<failure>",
    ] {
        assert!(xml.contains(part), "{part}: {xml}");
    }
}

/// A run of a scenario of `bench`'s own is reported as a task, and every iteration has its trace id where Rally's
/// plugin puts it, without the collector's password.
#[test]
fn reports_have_trace_ids_and_no_password() {
    let (bench, server) = (Bench::new(), ScriptedServer::start(answering));
    let profiler = format!(
        "profiler: {{ hmac_key: {SECRET}, connection_string: \"file://{}\" }}",
        bench.path().join("spans.jsonl").display()
    );
    bench.write("spans.jsonl", "");
    bench.load(
        &server.url(),
        &profiler,
        "runner: { serial: { times: 3 } }\niteration: [{ action: a, get: /a }]",
    );
    bench.run(&["run", "scenario.yaml", "--no-probe", "--rally-json", "rally.json"]).expect_code(0);
    let text = std::fs::read_to_string(bench.path().join("rally.json")).unwrap();
    assert!(!text.contains(SECRET));
    let report: Value = serde_json::from_str(&text).unwrap();
    let workload = report.pointer("/tasks/0/subtasks/0/workloads/0").unwrap();
    assert!(workload["scenario"]["bench.t"].is_object(), "{workload}");
    let results = bench.results();
    for (row, listed) in
        workload["data"].as_array().unwrap().iter().zip(results["iterations"].as_array().unwrap())
    {
        let complete = &row["output"]["complete"][0];
        assert_eq!(complete["data"]["trace_id"][0], listed["trace_id"], "{complete}");
        assert_eq!(complete["chart_plugin"], "OSProfiler");
        assert_eq!(row["atomic_actions"][0]["name"], "a");
    }
}
