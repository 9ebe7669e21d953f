//! Numbers that actions take from their answers (`measure`): results, reports, exports, thresholds, shards, mistakes.

use std::process::Stdio;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};

use crate::server::{After, ScriptedRequest, ScriptedServer, Wire};
use crate::support::{Bench, ChildGuard};

const ITERATIONS: u64 = 600;

/// Every cart has a total of its own: 1, 2, 3, … Every tenth order says so in words.
fn shop() -> ScriptedServer {
    let carts = AtomicU64::new(1);
    ScriptedServer::start(move |seen: &ScriptedRequest, wire: &mut Wire<'_>| -> After {
        let number = carts.fetch_add(u64::from(seen.path == "/cart"), Ordering::SeqCst);
        let body = match seen.path.as_str() {
            "/cart" => json!({ "total": number, "text": format!("-{number}.5"), "many": [true, null, {}] }),
            "/fails" => json!({ "total": 1_000_000 }),
            _ => json!({ "state": "ok" }),
        };
        let status = if seen.path == "/fails" { "500 Internal Server Error" } else { "200 OK" };
        wire.answer(status, "application/json", body.to_string())
    })
}

const STEPS: &str = "iteration:
  - action: cart
    get: /cart
    measure:
      cart_total: { json: $.total }
      balance: { regex: '\"text\":\"([^\"]+)\"' }
      nothing: { pointer: /many/0 }
      nowhere: { header: X-Left }
      length: { header: Content-Length }
";

fn runner(times: u64) -> String {
    format!("runner: {{ constant: {{ times: {times}, concurrency: 4 }} }}\n")
}

fn measured<'r>(results: &'r Value, name: &str) -> &'r Value {
    let all = results["workloads"][0]["measured"].as_array().unwrap();
    all.iter().find(|of| of["name"] == name).unwrap()
}

fn percentile(of: &Value, wanted: f64) -> f64 {
    let all = of["percentiles"].as_array().unwrap();
    all.iter().find(|at| at["percentile"] == wanted).unwrap()["value"].as_f64().unwrap()
}

/// Whoever writes a scenario sees the numbers before the load.
#[test]
fn a_single_iteration_shows_its_numbers() {
    let (bench, server) = (Bench::new(), shop());
    bench.load(&server.url(), "", &format!("{}{STEPS}", runner(1)));
    let shown = bench.run(&["run", "scenario.yaml", "--once", "--verbose"]).expect_code(0).stdout;
    for line in [
        "measure `cart_total` is 1",
        "measure `balance` is -1.5",
        "measure `nothing` finds no number in this answer",
    ] {
        assert!(shown.contains(line), "{line}: {shown}");
    }
}

#[test]
fn numbers_have_percentiles_thresholds_and_a_trace() {
    let (bench, server) = (Bench::new(), shop());
    let sla = "sla:
  thresholds:
    - p95(measure \"cart_total\") < 700
    - p50(measure \"cart_total\") > 20
    - avg(measure \"balance\") < -50
    - max(measure \"cart_total\") <= 600
    - min(measure \"balance\") >= -600.5
    - p99(measure \"cart_total\") < 100
    - { threshold: avg(measure \"cart_total\") < 1000, abort_on_fail: true }
";
    bench.load(&server.url(), "profiler: { hmac_keys: [k] }", &(runner(ITERATIONS) + STEPS + sla));
    let ended = bench.run(&["run", "scenario.yaml"]).expect_code(2);
    let results = bench.results();
    let total = measured(&results, "cart_total");
    assert_eq!((&total["count"], &total["min"], &total["max"]), (&600.into(), &json!(1.0), &json!(600.0)));
    assert_eq!(total["mean"], json!(300.5));
    assert_eq!([50.0, 95.0, 99.0].map(|at| percentile(total, at)), [300.0, 570.0, 594.0]);
    assert_eq!(total.get("without_number"), None);
    let largest = total["percentiles"].as_array().unwrap().last().unwrap();
    let ids: Vec<&Value> =
        results["iterations"].as_array().unwrap().iter().map(|row| &row["trace_id"]).collect();
    assert!(ids.contains(&&largest["trace_id"]), "{largest}");
    let balance = measured(&results, "balance");
    assert_eq!((&balance["min"], percentile(balance, 100.0)), (&json!(-600.5), -1.5));
    for name in ["nothing", "nowhere"] {
        let of = measured(&results, name);
        assert_eq!((&of["count"], &of["without_number"], of.get("max")), (&0.into(), &600.into(), None));
    }
    assert!(measured(&results, "length")["min"].as_f64().unwrap() > 10.0);
    let outcomes: Vec<&str> =
        results["verdict"]["criteria"].as_array().unwrap().iter().map(outcome).collect();
    assert_eq!(outcomes, ["PASS", "PASS", "PASS", "PASS", "PASS", "FAIL", "PASS"], "{}", ended.stdout);
    let broken = &results["verdict"]["criteria"][5];
    assert_eq!((&broken["measured"]["unit"], &broken["measured"]["value"]), (&json!(""), &json!(594.0)));
    assert_eq!(broken["trace_ids"][0], largest["trace_id"], "the largest is the first example");
    for (name, text) in [("terminal", ended.stdout), ("report.md", page(&bench, "report.md"))] {
        for expected in ["cart_total", "no number", "300.5", "-600.5", largest["trace_id"].as_str().unwrap()]
        {
            assert!(text.contains(expected), "{name} lacks {expected}: {text}");
        }
    }
    assert!(page(&bench, "report.html").contains("Numbers from answers"));
}

fn outcome(criterion: &Value) -> &str {
    criterion["outcome"].as_str().unwrap()
}

fn page(bench: &Bench, name: &str) -> String {
    std::fs::read_to_string(bench.run_directory().join(name)).unwrap()
}

/// A stored run can be judged by its numbers, and each action's numbers are in its exports.
#[test]
fn numbers_are_in_the_run_log() {
    let (bench, server) = (Bench::new(), shop());
    bench.load(&server.url(), "", &(runner(60) + STEPS));
    bench.run(&["run", "scenario.yaml", "-q"]).expect_code(0);
    for (threshold, code, shown) in [
        ("max(measure \"cart_total\") <= 60", 0, "60"),
        ("max(measure \"cart_total\") < 60", 2, "limit 60"),
        ("p50(measure \"cart_total\") < 10", 2, "of 60 over 10"),
        ("min(measure \"nothing\") > 1", 3, "no answer had this number"),
        ("p95(measure \"cart\") < 1", 65, "no action measures `cart`"),
    ] {
        bench.write("sla.yaml", format!("sla:\n  thresholds: [ '{threshold}' ]\n"));
        let ended = bench.run(&["check", "latest", "--sla", "sla.yaml"]).expect_code(code);
        assert!(format!("{}{}", ended.stdout, ended.stderr).contains(shown), "{threshold}: {ended:?}");
    }
    let ended = bench.run(&["export", "latest", "--jsonl", "--actions", "-o", "-"]).expect_code(0);
    let rows: Vec<Value> = ended.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let mut totals: Vec<i64> = Vec::new();
    for row in &rows {
        let own: Value = serde_json::from_str(row["measured"].as_str().unwrap()).unwrap();
        assert_eq!((&own["nothing"], own.as_object().unwrap().len()), (&Value::Null, 5), "{own}");
        totals.push(own["cart_total"].as_f64().unwrap() as i64);
    }
    totals.sort_unstable();
    assert_eq!(totals, (1..=60).collect::<Vec<_>>());
    let again = bench.results();
    bench.run(&["report", "latest"]).expect_code(0);
    assert_eq!(bench.results()["workloads"][0]["measured"], again["workloads"][0]["measured"]);
}

/// Only answers that pass their checks are measured; of a poll, the last; and lanes that run at the same time add up.
#[test]
fn what_is_measured() {
    let (bench, server) = (Bench::new(), shop());
    let steps = "iteration:
  - together: at once
    steps:
      - { action: one, get: /cart, measure: { total: { json: $.total } } }
      - { action: two, get: /cart, measure: { total: { json: $.total } } }
  - repeat: 2
    steps: [ { action: again, get: /cart, measure: { total: { json: $.total } } } ]
  - action: poll
    get: /cart
    measure: { polled: { json: $.total } }
    extract: { n: { json: $.total } }
    poll: { until: '{{ n % 6 == 0 }}', interval: 1ms }
  - { action: fails, get: /fails, measure: { total: { json: $.total } } }
";
    bench.load(&server.url(), "", &("runner: { serial: { times: 5 } }\n".to_owned() + steps));
    bench.run(&["run", "scenario.yaml", "-q"]);
    let results = bench.results();
    let (total, polled) = (measured(&results, "total"), measured(&results, "polled"));
    assert_eq!((&total["count"], &polled["count"]), (&20.into(), &5.into()), "{total} {polled}");
    assert!(total["max"].as_f64().unwrap() < 1000.0, "a refused answer is not measured: {total}");
    assert_eq!([1.0, 5.0].map(|nth| percentile(polled, nth * 10.0) % 6.0), [0.0, 0.0]);
}

#[test]
fn numbers_of_shards_add_up() {
    let (bench, server) = (Bench::new(), shop());
    bench.load(&server.url(), "", &(runner(90) + STEPS));
    let start = |index: usize| {
        let shard = format!("{index}/3");
        let mut command = bench.command(&["run", "scenario.yaml", "--shard", &shard, "--job", "j", "-q"]);
        ChildGuard::start(command.stdout(Stdio::piped()).stderr(Stdio::piped()))
    };
    let started: Vec<_> = (0..3).map(start).collect();
    started.into_iter().for_each(|shard| drop(shard.end().expect_code(0)));
    bench.run(&["merge", "runs", "--out", "merged"]).expect_code(0);
    let merged = std::fs::read_dir(bench.path().join("merged")).unwrap().map(|entry| entry.unwrap().path());
    let results = merged.map(|path| path.join("results.json")).find(|path| path.is_file()).unwrap();
    let results: Value = serde_json::from_slice(&std::fs::read(results).unwrap()).unwrap();
    let total = measured(&results, "cart_total");
    assert_eq!((&total["count"], &total["min"], &total["max"]), (&90.into(), &json!(1.0), &json!(90.0)));
    assert_eq!(total["mean"], json!(45.5));
    assert_eq!(measured(&results, "nothing")["without_number"], 90);
}

#[test]
fn mistakes_in_measures_are_reported() {
    let of = |measure: &str| format!("iteration:\n  - {{ action: a, get: /, measure: {measure} }}\n");
    let sla = |threshold: &str| {
        of("{ cart_total: { json: $.a } }") + &format!("sla: {{ thresholds: [ '{threshold}' ] }}\n")
    };
    for (keys, message, help) in [
        (of("{ a: $.a }"), "`a`", "map"),
        (of("{ a: {} }"), "`a` needs exactly one place", "json, pointer"),
        (of("{ a: { json: $.a, header: X } }"), "`a` needs exactly one place", "json, pointer"),
        (of("{ a: { json: 'a[' } }"), "JSONPath", ""),
        (of("{ a: { json: $.a, default: 1 } }"), "default", ""),
        (of("{ 'a b': { json: $.a } }"), "`a b` is not a name for a metric", "letters, digits"),
        (
            "setup: [{ get: /, measure: { a: { json: $.a } } }]\n".to_owned() + &of("{ b: { json: $.b } }"),
            "in `setup`",
            "not measured",
        ),
        (
            sla("p95(measure \"cart_totl\") < 1"),
            "no action measures `cart_totl`",
            "did you mean `cart_total`?",
        ),
        (
            sla("p95(measure \"unlike\") < 1"),
            "no action measures `unlike`",
            "the workload measures: cart_total",
        ),
        (sla("cart_total.p95 < 1"), "unknown metric", "write p95(measure \"cart_total\")"),
        (sla("p95(measure \"cart_total\") < 1s"), "does not fit", "plain number"),
        (sla("p95(measure \"cart_total\") == 1"), "never exactly equal", "<= or >="),
        (sla("p95(measure \"cart_total\" action \"a\") < 1"), "cannot be combined", "only that"),
        (sla("p95(measure) < 1"), "`measure` without its name", "measure \"NAME\""),
        (
            "iteration: [{ get: / }]\nsla: { thresholds: [ 'p95(measure \"a\") < 1' ] }\n".to_owned(),
            "no action measures `a`",
            "`measure: {a: {json: $.a}}`",
        ),
    ] {
        let bench = Bench::new();
        bench.load("http://127.0.0.1:9", "", &("runner: { serial: { times: 1 } }\n".to_owned() + &keys));
        let ended = bench.run(&["run", "scenario.yaml"]).expect_code(65);
        assert!(ended.stderr.contains(message) && ended.stderr.contains(help), "{keys}: {}", ended.stderr);
    }
}
