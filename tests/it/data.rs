//! Rows of data, the seed, and generated values, from the files to the requests.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use serde_json::Value;

use crate::server::ScriptedServer;
use crate::support::Bench;

/// A server that answers every request with 200.
fn server() -> ScriptedServer {
    ScriptedServer::start(|_, wire| wire.answer("200 OK", "application/json", "{}"))
}

/// Runs a scenario with these keys and three workers. Returns the bodies of the requests in order of text, and the
/// results.
fn run(bench: &Bench, keys: &str, arguments: &[&str]) -> (Vec<String>, Value) {
    let server = server();
    bench.load(&server.url(), "", keys);
    let workers: &[&str] = if arguments.contains(&"--workers") { &[] } else { &["--workers", "3"] };
    let all = [&["run", "scenario.yaml", "--quiet"], arguments, workers].concat();
    let ended = bench.run(&all);
    assert!(ended.code == Some(0), "{} {}", ended.stdout, ended.stderr);
    let results = bench.results();
    std::fs::remove_dir_all(bench.path().join("runs")).unwrap();
    let bodies = server.seen().into_iter().map(|seen| String::from_utf8(seen.body).unwrap());
    let mut bodies: Vec<String> = bodies.filter(|body| !body.is_empty()).collect();
    bodies.sort_unstable();
    (bodies, results)
}

fn csv(rows: usize) -> String {
    let mut text = "id,name\n".to_owned();
    (0..rows).for_each(|row| writeln!(text, "{row:03},\"n,{row:03}\"").unwrap());
    text
}

const STEPS: &str = "iteration: [{ post: /, body: '{{ users.id }}' }]";

#[test]
fn three_workers_send_every_row_once_whatever_the_order_and_the_model() {
    let expected: Vec<String> = (0..60).map(|row| format!("{row:03}")).collect();
    for runner in [
        "constant: { times: 60, concurrency: 7 }",
        "rps: { rps: 2000, times: 60 }",
        // The rows end these.
        "constant: { times: 5000, concurrency: 7 }",
        "constant_for_duration: { duration: 300, concurrency: 7 }",
        "rps: { rps: 2000, duration: 300 }",
        "ramping: { start: 5, stages: [{ duration: 300, concurrency: 7 }] }",
    ] {
        for order in ["sequential", "shuffled"] {
            let bench = Bench::new();
            bench.write("users.csv", csv(60));
            let data = format!("data: {{ users: {{ file: users.csv, order: {order}, on_end: stop }} }}");
            let (sent, results) = run(&bench, &format!("{data}\nrunner: {{ {runner} }}\n{STEPS}"), &[]);
            assert_eq!(sent, expected, "{runner} {order}");
            let iterations = &results["workloads"][0]["iterations"];
            assert_eq!((&iterations["total"], &iterations["failed"]), (&60.into(), &0.into()), "{runner}");
            let note = "ended after 60 iterations, because its data `users` was used up";
            let noted = results["notes"].to_string().contains(note);
            assert_eq!(
                noted,
                runner.contains("300") || runner.contains("5000"),
                "{runner} {}",
                results["notes"]
            );
        }
    }
}

#[test]
fn rows_repeat_or_fail_at_their_end_and_the_warm_up_takes_rows_too() {
    let bench = Bench::new();
    bench.write("users.csv", csv(4));
    let of = |on_end: &str, runner: &str| {
        let data = format!("data: {{ users: {{ file: users.csv, on_end: {on_end} }} }}");
        run(&bench, &format!("{data}\nrunner: {{ serial: {{ times: 6 }} }}\n{runner}\n{STEPS}"), &[])
    };
    let (sent, _) = of("repeat", "");
    assert_eq!(sent, ["000", "000", "001", "001", "002", "003"]);
    let (sent, results) = of("error", "");
    assert_eq!(sent, ["000", "001", "002", "003"]);
    let errors = &results["workloads"][0]["errors"];
    assert_eq!((&errors[0]["class"], &errors[0]["count"]), (&"data".into(), &2.into()), "{errors}");
    assert!(
        errors.to_string().contains("data `users` has 4 rows, and none is left for this iteration"),
        "{errors}"
    );
    let (sent, results) = of("stop", "warm_up: { times: 3 }");
    assert_eq!(sent, ["000", "001", "002", "003"]);
    assert_eq!(results["workloads"][0]["iterations"]["total"], 1, "three were the warm-up");
}

#[test]
fn each_user_keeps_its_own_row() {
    let bench = Bench::new();
    bench.write("users.jsonl", "{\"id\": \"a\"}\n{\"id\": \"b\"}\n{\"id\": \"c\"}\n{\"id\": \"d\"}\n");
    let keys = "data: { users: { file: users.jsonl, per: user, on_end: error } }
runner: { constant: { times: 200, concurrency: 4 } }
iteration: [{ post: /, body: '{{ users.id }}' }, { think: 2ms }]";
    let (sent, _) = run(&bench, keys, &[]);
    assert_eq!(sent.len(), 200);
    assert_eq!(sent.into_iter().collect::<BTreeSet<_>>().len(), 4);
}

const GENERATORS: &str = r#"
data: { users: { rows: [a, b, c, { x: 1 }, 5], order: random } }
setup: [{ put: /, body: "{{ uuid() }}" }]
runner: { constant: { times: 30, concurrency: 5 } }
iteration:
  - action: one
    post: /
    json:
      row: "{{ users }}"
      id: "{{ uuid() }}"
      n: "{{ random_int(1, 1000000) }} {{ random_int(1, 1000000) }} {{ random_float(0, 1) }}"
      of: "{{ random_choice([1, 2, 3]) }} {{ weighted_choice({'r': 9, 'w': 1}) }} {{ random_bool(0.3) }}"
      text: "{{ random_string(12) }} {{ random_string(3, 'äöü') }} {{ random_hex(8) }}"
      made_up: "{{ fake('name') }} {{ fake('email') }} {{ random_date('2024-01-01', '2024-12-31') }}"
      count: "{{ counter() }}"
      looped: "{% for i in range(3) %}{{ random_int(0, 9) }}{% endfor %}"
  - think: 1ms
  - action: two
    patch: /
    body: "{{ random_int(1, 1000000) }} {{ uuid() | sha256 }}"
teardown: [{ delete: /, body: "{{ uuid() }}" }]
"#;

#[test]
fn the_same_seed_sends_the_same_requests_and_another_seed_others() {
    let bench = Bench::new();
    let (first, results) = run(&bench, GENERATORS, &["--seed", "42"]);
    assert_eq!((first.len(), &results["run"]["seed"]), (62, &42.into()));
    let distinct: BTreeSet<&String> = first.iter().collect();
    assert_eq!(distinct.len(), 62, "each rendering draws anew: {first:?}");
    let (again, other_run) = run(&bench, GENERATORS, &["--seed", "42", "--workers", "1"]);
    assert_eq!(first, again);
    assert_ne!(results["run"]["id_seed"], other_run["run"]["id_seed"], "runs never share trace ids");
    let (written, results) = run(&bench, &format!("seed: 42\n{GENERATORS}"), &[]);
    assert_eq!((&first, &results["run"]["seed"]), (&written, &42.into()));
    let (other, results) = run(&bench, GENERATORS, &[]);
    assert!(first.iter().all(|body| !other.contains(body)), "{other:?}");
    let seed = results["run"]["seed"].as_u64().unwrap().to_string();
    assert_eq!(run(&bench, GENERATORS, &["--seed", &seed]).0, other, "the results name the seed");
}

#[test]
fn a_seed_is_shown_only_if_requests_depend_on_it() {
    let server = server();
    let bench = Bench::new();
    for (body, shown) in [("{{ random_int(1, 5) }}", true), ("{{ iteration }}", false)] {
        let keys =
            format!("runner: {{ serial: {{ times: 3 }} }}\niteration: [{{ post: /, body: '{body}' }}]");
        bench.load(&server.url(), "", &keys);
        let said = bench.run(&["run", "scenario.yaml", "--seed", "7"]).expect_code(0).stdout;
        assert_eq!(said.contains("7; repeat with --seed 7"), shown, "{said}");
        let directory = bench.run_directory();
        let report = std::fs::read_to_string(directory.join("report.html")).unwrap();
        assert_eq!(report.contains("7; repeat with --seed 7"), shown);
        std::fs::remove_dir_all(bench.path().join("runs")).unwrap();
    }
}

#[test]
fn both_sides_of_a_pair_send_the_same_bytes() {
    let (a, b) = (server(), server());
    let bench = Bench::new();
    bench.load(&a.url(), "", GENERATORS);
    bench.write("b.yaml", format!("targets: {{ default: \"{}\" }}\n", b.url()));
    let arguments =
        ["ab", "scenario.yaml", "-d", "deployment.yaml", "-d", "b.yaml", "--pairs", "10", "--quiet"];
    let ended = bench.run(&[&arguments[..], &["--margin", "1000", "--seed", "3"]].concat());
    assert!([Some(0), Some(2), Some(3)].contains(&ended.code), "{} {}", ended.stdout, ended.stderr);
    let sent = |server: &ScriptedServer| {
        let mut bodies: Vec<Vec<u8>> = server.seen().into_iter().map(|seen| seen.body).collect();
        bodies.retain(|body| !body.is_empty());
        bodies.sort_unstable();
        bodies
    };
    let bodies = sent(&a);
    assert_eq!(bodies, sent(&b));
    let distinct: BTreeSet<&Vec<u8>> = bodies.iter().collect();
    assert_eq!(distinct.len(), bodies.len(), "each pair has another seed");
    let path = bench.run_directory().join("ab.json");
    let compared: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    assert_eq!(compared["seed"], 3);
}

#[test]
fn a_secret_column_is_in_no_output() {
    let server = ScriptedServer::start(|seen, wire| wire.answer("200 OK", "text/plain", &seen.body));
    let bench = Bench::new();
    bench.write("users.csv", "name,password\nada,Canary-In-A-Column-1\n");
    let rows = "data: { users: users.csv, more: { rows: [{ token: Canary-In-A-Column-2 }] } }";
    let steps =
        "iteration: [{ post: /, body: '{{ users.password }} {{ more.token }}', expect: { body: nothing } }]";
    bench.load(&server.url(), "", &format!("{rows}\nrunner: {{ serial: {{ times: 2 }} }}\n{steps}"));
    let ended = bench.run(&["run", "scenario.yaml"]);
    let mut written = ended.stdout + &ended.stderr;
    for file in ["results.json", "report.html", "report.md"] {
        written += &std::fs::read_to_string(bench.run_directory().join(file)).unwrap();
    }
    assert!(written.contains("nothing") && !written.contains("Canary-In-A-Column"), "{written}");
}

#[test]
fn a_large_file_is_read_row_by_row_and_may_not_change_under_way() {
    let bench = Bench::new();
    let long = "x".repeat(900);
    let mut text = "id,pad\n".to_owned();
    (0..12_000).for_each(|row| writeln!(text, "{row},{long}").unwrap());
    let path = bench.write("users.csv", &text);
    let keys = "data: { users: { file: users.csv, order: shuffled } }
runner: { serial: { times: 20 } }
iteration: [{ post: /, body: '{{ users.id }}' }, { think: 20ms }]";
    let (sent, _) = run(&bench, keys, &["--seed", "1"]);
    assert_eq!(sent.iter().collect::<BTreeSet<_>>().len(), 20);
    // The server itself changes the file at the fifth request.
    let server = ScriptedServer::start(move |seen, wire| {
        if seen.nth == 4 {
            let mut file = std::fs::File::options().append(true).open(&path).unwrap();
            std::io::Write::write_all(&mut file, b"1,x\n").unwrap();
        }
        wire.answer("200 OK", "application/json", "{}")
    });
    bench.load(&server.url(), "", keys);
    bench.run(&["run", "scenario.yaml", "--quiet"]);
    let results = bench.results();
    let errors = &results["workloads"][0]["errors"];
    assert!(
        errors.to_string().contains("data `users`: the file has changed while it was in use"),
        "{errors}"
    );
    assert_eq!(errors[0]["class"], "data");
}

/// What `bench validate` says, with its exit code.
fn validated(bench: &Bench, arguments: &[&str]) -> (Option<i32>, String) {
    let ended = bench.run(&[&["validate", "scenario.yaml"], arguments].concat());
    (ended.code, ended.stdout + &ended.stderr)
}

#[test]
fn an_unset_variable_does_not_hide_other_faults_and_offline_is_none() {
    let bench = Bench::new();
    bench.write(
        "deployment.yaml",
        "targets: { default: { env: NOT_SET_1 }, other: { file: missing } }
targets_allowed: [{ env: NOT_SET_2 }]
tls: { ca: missing.pem }
auth: { basic: { username: { env: NOT_SET_3 }, password: { file: missing } } }
profiler: { hmac_key: { env: NOT_SET_4 }, connection_string: { env: NOT_SET_5 } }
",
    );
    let scenario = |step: &str| {
        format!(
            "title: t\ndeployment: deployment.yaml\nvariables: {{ v: {{ env: NOT_SET_6 }} }}\n\
             runner: {{ serial: {{ times: 1 }} }}\niteration:\n  - get: /{{{{ v }}}}\n    \
             headers: {{ X-Key: {{ env: NOT_SET_7 }} }}\n    target: other\n  - {step}\n"
        )
    };
    bench.write("scenario.yaml", scenario("get: /again"));
    let (code, said) = validated(&bench, &["--offline"]);
    assert_eq!(code, Some(0), "{said}");
    bench.write("scenario.yaml", scenario("{ get: '/{{ vv }}', target: othr }"));
    let (code, said) = validated(&bench, &["--offline"]);
    assert_eq!(code, Some(65), "{said}");
    assert!(said.contains("unknown variable `vv`") && said.contains("did you mean `other`?"), "{said}");
    assert!(!said.contains("NOT_SET"), "{said}");
    let (code, said) = validated(&bench, &[]);
    assert_eq!(code, Some(65), "{said}");
    for part in [
        "NOT_SET_1 is not set",
        "NOT_SET_6 is not set",
        "NOT_SET_7 is not set",
        "missing.pem",
        "`vv`",
        "`othr`",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
}

#[test]
fn references_stand_in_place_of_texts_and_their_values_are_in_no_output() {
    const SECRET: &str = "Canary {{ in }} a \"reference\"";
    let server = ScriptedServer::start(|_, wire| wire.answer("401 Unauthorized", "application/json", "{}"));
    let bench = Bench::new();
    bench.write("secret.txt", format!("{SECRET}\n"));
    let steps = r#"
runner: { serial: { times: 1 } }
iteration:
  - post: { env: CANARY_PATH }
    headers: { X-Key: { file: secret.txt } }
    query: { q: { env: NOT_SET, default: fallback } }
    json: { deep: [{ file: secret.txt }], file: "{{ 'a.txt' }}", plain: { env: prod, x: 1 } }
    expect: { status: 201 }
"#;
    bench.load(&server.url(), "", steps);
    let mut command = bench.command(&["run", "scenario.yaml"]);
    let ended = Bench::end(command.env("CANARY_PATH", "/Canary-Path"));
    let seen = &server.seen()[0];
    assert_eq!(seen.path, "/Canary-Path?q=fallback");
    assert_eq!(seen.headers["x-key"], SECRET);
    let body: Value = serde_json::from_slice(&seen.body).unwrap();
    let expected = serde_json::json!({
        "deep": [SECRET], "file": "a.txt", "plain": { "env": "prod", "x": 1 }
    });
    assert_eq!(body, expected);
    let mut written = ended.stdout + &ended.stderr;
    for file in ["results.json", "report.html", "report.md"] {
        written += &std::fs::read_to_string(bench.run_directory().join(file)).unwrap();
    }
    assert!(written.contains("401") && !written.contains("Canary"), "{written}");
}

#[test]
fn the_readme_lists_every_function_filter_and_test() {
    use bench::text::template::{FAKE_KINDS, FUNCTIONS};
    use bench::text::template_names::TemplateNameKind;
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios/data.md");
    let page = std::fs::read_to_string(path).unwrap();
    let section = page.split("\n## Templates\n").nth(1).unwrap().split("\n### Data\n").next().unwrap();
    for (function, meaning) in FUNCTIONS {
        assert!(section.contains(&format!("| `{function}` | {meaning} |")), "{function}");
    }
    let (filters, tests) = section.split_once("\nTests (").unwrap();
    let filters = filters.split("| filter | value |").nth(1).unwrap();
    let named: BTreeSet<&str> = filters
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split(" |").next())
        .flat_map(|names| names.split(['`', ',', ' ']).filter(|name| !name.is_empty()))
        .collect();
    assert_eq!(named, TemplateNameKind::Filter.known().iter().copied().collect());
    assert!(TemplateNameKind::Test.known().iter().all(|name| tests.contains(&format!("`{name}`"))));
    assert!(FAKE_KINDS.iter().all(|kind| section.contains(&format!("`{kind}`"))));
}
