//! Gates through the program: thresholds on the demo and on a server with known latencies, early ends, `bench check`.

use crate::support::Bench;

/// The demo, with these runner and criteria.
fn demo(bench: &Bench, runner: &str, sla: &str) {
    bench.write("demo.yaml", "name: demo\ndemo: {}\n");
    bench.write(
        "scenario.yaml",
        format!(
            r#"
title: Gates
deployment: demo.yaml
runner: {runner}
iteration:
  - action: log in
    post: /v3/auth/tokens
    json: {{ auth: {{ identity: {{ methods: [password], password: {{ user: {{ name: user-7, domain: {{ id: default }}, password: demo }} }} }} }} }}
    expect: {{ status: 201 }}
sla:
{sla}
"#
        ),
    );
}

const SLA: &str = r#"
  failure_rate: { max: 0 }
  thresholds:
    - p(95) < 60s
    - p(99) < 1ns
    - p(99.99) < 60s
    - rate(errors) == 0
    - p95(action "log in") < 60s
    - p50(wait action "log in") < 1ns
    - p95(connect) < 60s
    - max(tls) < 60s
    - count(trace "db") <= 1000
    - avg(trace "db") < 1ns
    - count(trace "no such point") <= 1
    - { threshold: max < 1ns, severity: warn }
"#;

#[test]
fn every_verdict_is_told_where_ci_reads_it() {
    let bench = Bench::new();
    demo(&bench, "{ constant: { times: 120, concurrency: 2 } }", SLA);
    let mut command = bench.command(&["run", "scenario.yaml", "--junit", "junit.xml"]);
    let ended = Bench::end(command.env("GITHUB_ACTIONS", "true")).expect_code(2);
    let results = bench.results();
    let row = |condition: &str| {
        let rows = results["verdict"]["criteria"].as_array().unwrap();
        rows.iter().find(|row| row["condition"] == condition).unwrap_or_else(|| panic!("{condition}")).clone()
    };
    for (condition, outcome) in [
        ("p95 < 60s", "PASS"),
        ("p99 < 1ns", "FAIL"),
        ("p99.99 < 60s", "INCONCLUSIVE"),
        ("rate(errors) == 0%", "PASS"),
        ("p95(action \"log in\") < 60s", "PASS"),
        ("p50(wait action \"log in\") < 1ns", "FAIL"),
        // Two connections are too few for a percentile.
        ("p95(connect) < 60s", "INCONCLUSIVE"),
        ("max(tls) < 60s", "INVALID"),
        ("count(trace \"db\") <= 1000", "PASS"),
        ("avg(trace \"db\") < 1ns", "FAIL"),
        ("count(trace \"no such point\") <= 1", "INVALID"),
        ("max < 1ns", "FAIL"),
    ] {
        assert_eq!(row(condition)["outcome"], outcome, "{}", row(condition));
    }
    assert_eq!(row("max < 1ns")["severity"], "warn");
    let why = row("max(tls) < 60s")["reason"].clone();
    assert!(why.as_str().unwrap().contains("TLS handshake"), "{why}");
    assert_eq!(row("p99 < 1ns")["trace_ids"].as_array().unwrap().len(), 5);
    assert!(row("count(trace \"no such point\") <= 1")["reason"].as_str().unwrap().contains("db"));
    assert!(ended.stdout.contains("::error title=FAIL Gates%3A p99 < 1ns::"), "{}", ended.stdout);
    assert!(ended.stdout.contains("::warning title=INCONCLUSIVE"), "{}", ended.stdout);
    let junit = std::fs::read_to_string(bench.path().join("junit.xml")).unwrap();
    assert!(junit.contains("tests=\"13\" skipped=\"3\" errors=\"2\" failures=\"3\""), "{junit}");
    let badge = std::fs::read_to_string(bench.run_directory().join("badge.txt")).unwrap();
    assert!(badge.starts_with("bench: FAIL · "), "{badge}");
}

#[test]
fn a_stored_run_is_judged_again() {
    let bench = Bench::new();
    demo(&bench, "{ constant: { times: 120, concurrency: 2 } }", "  thresholds: [p95 < 60s]\n");
    bench.run(&["run", "scenario.yaml", "-q"]).expect_code(0);
    let directory = bench.run_directory();
    let directory = directory.to_str().unwrap();
    let before = std::fs::read(bench.run_directory().join("results.json")).unwrap();
    let check = |sla: &str, options: &[&str]| {
        bench.write("sla.yaml", sla);
        let arguments = [&["check", directory, "--sla", "sla.yaml"], options].concat();
        bench.run(&arguments)
    };
    assert!(bench.run(&["check", directory]).expect_code(0).stdout.contains("pass  p95 < 60s: "));
    check("sla: { thresholds: [p95 < 1ns] }", &[]).expect_code(2);
    check("sla: { thresholds: [p99.9 < 60s] }", &[]).expect_code(0);
    check("sla: { thresholds: [p99.9 < 60s] }", &["--strict"]).expect_code(4);
    let unsampled = check("sla: { thresholds: ['count(trace \"db\") < 5'] }", &[]).expect_code(3);
    assert!(unsampled.stdout.contains("no random sample of traces"), "{}", unsampled.stdout);
    check("workloads: [{ name: Gates, sla: { failure_rate: { max: 0 } } }]", &["--junit", "again.xml"])
        .expect_code(0);
    assert!(bench.path().join("again.xml").is_file());
    for (sla, message) in [
        ("sla: { thresholds: ['p95(action \"log im\") < 1s'] }", "did you mean `log in`?"),
        ("workloads: [{ name: Gate, sla: { failure_rate: { max: 0 } } }]", "did you mean `Gates`?"),
        ("slaa: { failure_rate: { max: 0 } }", "did you mean `sla`?"),
        ("title: nothing", "the file has no criteria"),
        ("sla: { failure_rates: 1 }", "did you mean `failure_rate`?"),
    ] {
        let ended = check(sla, &[]).expect_code(65);
        assert!(ended.stderr.contains(message), "{sla}: {}", ended.stderr);
    }
    bench.run(&["check", "scenario.yaml"]).expect_code(65);
    bench.run(&["check", "nowhere"]).expect_code(65);
    let after = std::fs::read(bench.run_directory().join("results.json")).unwrap();
    assert!(before == after, "a check changes nothing");
}

/// A log that was cut short is judged by what it holds; an empty one by nothing.
#[test]
fn a_damaged_run_is_judged_by_what_is_left() {
    let bench = Bench::new();
    demo(&bench, "{ constant: { times: 120, concurrency: 2 } }", "  thresholds: [p95 < 60s]\n");
    bench.run(&["run", "scenario.yaml", "-q", "--no-profile"]).expect_code(0);
    let log = bench.run_directory().join("run.log");
    let bytes = std::fs::read(&log).unwrap();
    let directory = bench.run_directory();
    for (length, code) in [(bytes.len() - 20, 0), (60, 65), (10, 65), (0, 65)] {
        std::fs::write(&log, &bytes[..length]).unwrap();
        let ended = bench.run(&["check", directory.to_str().unwrap()]);
        assert_eq!(ended.code, Some(code), "{length}: {ended:?}");
        let strict = bench.run(&["check", directory.to_str().unwrap(), "--strict", "--junit", "cut.xml"]);
        assert_eq!(strict.code, Some(if code == 0 { 4 } else { code }), "{length}: {strict:?}");
    }
    let junit = std::fs::read_to_string(bench.path().join("cut.xml")).unwrap();
    assert!(junit.contains("errors=\"1\"") && junit.contains("the log has no end"), "{junit}");
}

#[test]
fn a_threshold_ends_the_load() {
    let bench = Bench::new();
    let sla =
        "  thresholds:\n    - { threshold: p50 < 1ns, abort_on_fail: true, delay: 1s }\n    - p95 < 60s\n";
    demo(&bench, "{ constant_for_duration: { duration: 60s, concurrency: 2 } }", sla);
    let ended = bench.run(&["run", "scenario.yaml", "--no-profile"]).expect_code(2);
    let results = bench.results();
    assert_eq!(results["run"]["status"], "aborted");
    assert!(results["run"]["duration_s"].as_f64().unwrap() < 50.0);
    assert_eq!(results["verdict"]["criteria"][0]["aborted"], true);
    assert!(ended.stdout.contains("FAIL  p50 < 1ns: ") && ended.stdout.contains("and ended the load"));
    assert!(ended.stdout.contains("the load was ended by the threshold `p50 < 1ns`"), "{}", ended.stdout);
    bench.run(&["check", bench.run_directory().to_str().unwrap()]).expect_code(2);
}
