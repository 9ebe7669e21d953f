//! Tags of actions: the rows of results, thresholds, and mistakes.

use serde_json::Value;

use crate::server::{After, ScriptedRequest, ScriptedServer, Wire};
use crate::support::Bench;

const ITERATIONS: u64 = 100;

/// Refuses `/fail` and nothing else.
fn answering(seen: &ScriptedRequest, wire: &mut Wire<'_>) -> After {
    let status = if seen.path == "/fail" { "500 Internal Server Error" } else { "200 OK" };
    wire.answer(status, "application/json", "{}")
}

/// The last action fails. The group's tags hold within it, unless an action has its own value.
const STEPS: &str = "iteration:
  - { action: a, get: /a, tags: { team: identity, kind: read } }
  - { action: plain, get: /plain }
  - group: g
    tags: { team: orders, tier: '1 | 2' }
    steps:
      - { action: b, get: /b, tags: { kind: read } }
      - together: at once
        tags: { where: inside }
        steps:
          - { action: c, get: /c }
      - repeat: 2
        steps:
          - { action: twice, get: /twice }
  - { action: d, get: /fail, tags: { team: identity } }
";

fn run(bench: &Bench, sla: &str, code: i32) -> (String, Value) {
    let server = ScriptedServer::start(answering);
    let runner = format!("runner: {{ constant: {{ times: {ITERATIONS}, concurrency: 2 }} }}");
    bench.load(&server.url(), "", &format!("{runner}\n{STEPS}{sla}"));
    let ended = bench.run(&["run", "scenario.yaml", "--workers", "1"]).expect_code(code);
    (ended.stdout, bench.results())
}

#[test]
fn a_tag_counts_the_requests_of_all_its_actions_and_no_groups() {
    let bench = Bench::new();
    let (shown, results) = run(&bench, "", 0);
    let workload = &results["workloads"][0];
    let action = |name: &str| {
        let actions = workload["actions"].as_array().unwrap();
        actions.iter().find(|action| action["name"] == name).unwrap()
    };
    let expected: [(&str, &str, &[&str], u64); 5] = [
        ("kind", "read", &["a", "b"], 0),
        ("team", "identity", &["a", "d"], ITERATIONS),
        ("team", "orders", &["b", "c", "twice"], 0),
        ("tier", "1 | 2", &["b", "c", "twice"], 0),
        ("where", "inside", &["c"], 0),
    ];
    let tags = workload["tags"].as_array().unwrap();
    assert_eq!(tags.len(), expected.len(), "{tags:?}");
    for (row, (tag, value, members, failed)) in tags.iter().zip(expected) {
        assert_eq!((&row["tag"], &row["value"]), (&Value::from(tag), &Value::from(value)));
        let sum = |path: &str| -> u64 {
            members.iter().map(|name| action(name).pointer(path).unwrap().as_u64().unwrap()).sum()
        };
        let extreme = |path: &str, pick: fn(f64, f64) -> f64| {
            let values = members.iter().map(|name| action(name).pointer(path).unwrap().as_f64().unwrap());
            values.reduce(pick).unwrap()
        };
        for path in [
            "/requests/total",
            "/requests/ok",
            "/requests/failed",
            "/requests/aborted",
            "/service_time/count",
            "/response_time/count",
        ] {
            assert_eq!(row.pointer(path).unwrap(), sum(path), "{tag}={value} {path}");
        }
        assert_eq!(row["requests"]["failed"], failed, "{tag}={value}");
        for times in ["service_time", "response_time"] {
            let (least, most) = (format!("/{times}/min_ms"), format!("/{times}/max_ms"));
            assert_eq!(row[times]["min_ms"], extreme(&least, f64::min), "{tag}={value}");
            assert_eq!(row[times]["max_ms"], extreme(&most, f64::max), "{tag}={value}");
        }
        let counted = row["service_time"]["buckets"].as_array().unwrap();
        let counted: u64 = counted.iter().map(|bucket| bucket["count"].as_u64().unwrap()).sum();
        assert_eq!(counted, sum("/service_time/count"), "{tag}={value}");
    }
    let file = |name: &str| std::fs::read_to_string(bench.run_directory().join(name)).unwrap();
    let row = shown.lines().find(|line| line.trim_start().starts_with("team=identity ")).expect(&shown);
    assert_eq!(row.split_whitespace().collect::<Vec<_>>()[1..3], ["200", "100"], "{shown}");
    let (markdown, page) = (file("report.md"), file("report.html"));
    assert!(markdown.contains("| team=identity | 200 | 100 |"), "{markdown}");
    assert!(markdown.contains("| tier=1 \\| 2 | 400 | 0 |"), "{markdown}");
    assert!(page.contains("<h3>Tags</h3>") && page.contains("<th scope=\"row\">team=identity</th>"));
}

#[test]
fn without_tags_there_is_no_table() {
    let (bench, server) = (Bench::new(), ScriptedServer::start(answering));
    bench.load(
        &server.url(),
        "",
        "runner: { serial: { times: 1 } }\niteration:\n  - { get: /a }\nsetup: [ { get: /b, tags: { a: b } } ]",
    );
    bench.run(&["run", "scenario.yaml"]).expect_code(0);
    assert!(bench.results()["workloads"][0].get("tags").is_none());
    let page = std::fs::read_to_string(bench.run_directory().join("report.html")).unwrap();
    assert!(!page.contains("<h3>Tags</h3>"));
}

#[test]
fn thresholds_judge_all_requests_of_a_tag() {
    let bench = Bench::new();
    let sla = r#"sla:
  thresholds:
    - 'p95(tag "team=orders") < 60s'
    - 'p95(response tag "tier=1 | 2") < 60s'
    - 'count(errors tag "kind=read") == 0'
    - 'rate(errors tag "team=identity") < 60%'
    - 'rate(errors tag "team=identity") > 40%'
    - 'p50(tag "where=inside") < 1ns'
    - 'p95(action "d") < 60s'
"#;
    let (_, results) = run(&bench, sla, 2);
    let criteria = results["verdict"]["criteria"].as_array().unwrap();
    let seen: Vec<_> = criteria
        .iter()
        .map(|one| (one["outcome"].as_str().unwrap(), one["condition"].as_str().unwrap()))
        .collect();
    assert_eq!(
        seen,
        [
            ("PASS", r#"p95(tag "team=orders") < 60s"#),
            ("PASS", r#"p95(response tag "tier=1 | 2") < 60s"#),
            ("PASS", r#"count(errors tag "kind=read") == 0"#),
            ("PASS", r#"rate(errors tag "team=identity") < 60%"#),
            ("PASS", r#"rate(errors tag "team=identity") > 40%"#),
            ("FAIL", r#"p50(tag "where=inside") < 1ns"#),
            ("FAIL", r#"p95(action "d") < 60s"#),
        ]
    );
    // By the log alone, with criteria of another file.
    let directory = bench.run_directory();
    for (sla, code, message) in [
        ("p95(tag \"team=orders\") < 60s", 0, "PASS"),
        ("rate(errors tag \"team=identity\") < 10%", 2, "FAIL"),
        ("p95(tag \"team=order\") < 60s", 65, "did you mean `team=orders`?"),
    ] {
        bench.write("sla.yaml", format!("sla:\n  thresholds: [ '{sla}' ]\n"));
        let ended = bench.run(&["check", directory.to_str().unwrap(), "--sla", "sla.yaml"]).expect_code(code);
        assert!(format!("{}{}", ended.stdout, ended.stderr).contains(message), "{sla}: {ended:?}");
    }
}

#[test]
fn a_threshold_of_a_tag_ends_the_load() {
    let (bench, server) = (Bench::new(), ScriptedServer::start(answering));
    let scenario = "runner: { constant_for_duration: { duration: 120s, concurrency: 2 } }
iteration:
  - { action: a, get: /a, tags: { team: identity } }
  - { action: d, get: /fail, tags: { team: identity } }
sla:
  thresholds:
    - { threshold: 'rate(errors tag \"team=identity\") < 1%', abort_on_fail: true, delay: 1s }
";
    bench.load(&server.url(), "", scenario);
    bench.run(&["run", "scenario.yaml", "--workers", "1"]).expect_code(2);
    let results = bench.results();
    assert_eq!(results["run"]["status"], "aborted");
    assert_eq!(results["verdict"]["criteria"][0]["aborted"], true);
}

#[test]
fn mistakes_in_tags_are_reported() {
    let many: Vec<String> = (0..10).map(|number| format!("t{number}: v")).collect();
    let too_many = format!(
        "  - group: g\n    tags: {{ more: x }}\n    steps: [ {{ get: /, tags: {{ {} }} }} ]\n",
        many.join(", ")
    );
    let tagged = "  - { get: /, tags: { team: identity } }\n";
    let sla = |threshold: &str| format!("{tagged}sla: {{ thresholds: [ '{threshold}' ] }}\n");
    let long = format!("  - {{ get: /, tags: {{ a: {} }} }}\n", "x".repeat(101));
    for (steps, message, help) in [
        ("  - { get: /, tags: { 'a b': c } }\n", "`a b` is not a name for a tag", "letters, digits"),
        ("  - { get: /, tags: { 'a=b': c } }\n", "`a=b` is not a name for a tag", "letters, digits"),
        ("  - { get: /, tags: { '': c } }\n", "is not a name for a tag", "letters, digits"),
        ("  - { get: /, tags: { a: '{{ iteration }}' } }\n", "cannot contain a template", "plain text"),
        ("  - { get: /, tags: { a: ' ' } }\n", "a tag without a value", "team: identity"),
        ("  - { get: /, tags: { a: \"x\\ny\" } }\n", "not a short text", "one line"),
        (&long, "not a short text", "at most 100"),
        ("  - { get: /, tags: {} }\n", "`tags` is empty", "add a tag"),
        ("  - { get: /, tags: [a] }\n", "`tags`", ""),
        ("  - { get: /, tags: { a: 5 } }\n", "`a` must be text", "quotes"),
        (
            "  - { repeat: 2, tags: { a: b }, steps: [ { get: / } ] }\n",
            "`tags` does not belong beside `repeat`",
            "group, together, a request",
        ),
        (&too_many, "more than 10 tags", "groups around it count"),
        (
            &sla("p95(tag \"team=identty\") < 1s"),
            "no action has the tag `team=identty`",
            "did you mean `team=identity`?",
        ),
        (
            &sla("p95(tag \"unlike=x\") < 1s"),
            "no action has the tag `unlike=x`",
            "the workload's tags are: team=identity",
        ),
        (&sla("p95(tag \"team\") < 1s"), "a tag without its name or its value", "tag \"team=VALUE\""),
        (
            "  - { get: / }\nsla: { thresholds: [ 'p95(tag \"a=b\") < 1s' ] }\n",
            "no action has the tag `a=b`",
            "give actions `tags`",
        ),
    ] {
        let bench = Bench::new();
        bench.load(
            "http://127.0.0.1:9",
            "",
            &format!("runner: {{ serial: {{ times: 1 }} }}\niteration:\n{steps}"),
        );
        let ended = bench.run(&["run", "scenario.yaml"]).expect_code(65);
        assert!(ended.stderr.contains(message) && ended.stderr.contains(help), "{steps}: {}", ended.stderr);
    }
}
