//! When iterations start: rates, ramps, queues, warm-up, several workloads at once, and whether the load generator kept
//! up. No test asserts a time, except one that must have passed at least.
#![cfg(unix)]

use std::collections::BTreeSet;
use std::io::Read as _;
use std::process::Command;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use crate::rewind;
use crate::server::{After, ScriptedServer};
use crate::signals::{end, signal, start};
use crate::support::Bench;

const GET: &str = "iteration: [ { action: a, get: '/x?{{ iteration }}' } ]";
const SLA: &str = "sla: { failure_rate: { max: 0 } }";

fn count(results: &Value, key: &str) -> u64 {
    results["workloads"][0]["iterations"][key].as_u64().unwrap()
}

fn rows(results: &Value) -> &Vec<Value> {
    results["iterations"].as_array().unwrap()
}

fn number(row: &Value, key: &str) -> f64 {
    row[key].as_f64().unwrap()
}

/// When iterations were due, in order, counted from the first.
fn due(results: &Value) -> Vec<f64> {
    let mut due: Vec<f64> = rows(results).iter().map(|row| number(row, "due_s")).collect();
    due.sort_by(f64::total_cmp);
    let first = due[0];
    due.iter().map(|due| due - first).collect()
}

fn numbers(results: &Value) -> BTreeSet<u64> {
    rows(results).iter().map(|row| row["number"].as_u64().unwrap()).collect()
}

/// Runs a load with this runner to an end with this code.
#[track_caller]
fn run(server: &ScriptedServer, runner: &str, rest: &str, code: i32) -> (Value, String) {
    let bench = Bench::new();
    bench.load(&server.url(), "", &format!("runner: {runner}\n{rest}"));
    let ended = bench.run(&["run", "scenario.yaml"]).expect_code(code);
    (bench.results(), ended.stdout)
}

#[test]
fn due_times_are_the_shapes_own_and_every_iteration_runs_once() {
    let server = ScriptedServer::answering_after(Duration::ZERO);
    let level: Vec<f64> = (0..40).map(|k| f64::from(k) / 100.0).collect();
    let stairs: Vec<f64> =
        (0..10).map(|k| f64::from(k) / 20.0).chain((0..30).map(|k| 0.5 + f64::from(k) / 40.0)).collect();
    // 20 t² arrivals by time t.
    let line: Vec<f64> = (0..20).map(|k| (f64::from(k) / 20.0).sqrt()).collect();
    let table = [
        ("{ rps: { rps: 100, times: 40 } }", level.clone()),
        ("{ rps: { rps: 100, duration: 0.4, pacing: precise } }", level),
        ("{ rps: { rps: { start: 20, end: 40, step: 20, duration: 0.5 }, times: 40 } }", stairs),
        ("{ ramping: { stages: [ { duration: 1, rps: 40 } ] } }", line),
    ];
    let mut seen_before = 0;
    for (runner, expected) in table {
        let (results, _) = run(&server, runner, GET, 0);
        let due = due(&results);
        assert_eq!(due.len(), expected.len(), "{runner}");
        let far = due.iter().zip(&expected).find(|(due, expected)| (*due - *expected).abs() > 1e-6);
        assert!(far.is_none(), "{runner}: {far:?}");
        assert_eq!(numbers(&results), (0..expected.len() as u64).collect(), "{runner}");
        assert!(rows(&results).iter().all(|row| number(row, "start_s") >= number(row, "due_s")), "{runner}");
        let sent = server.seen().len();
        assert_eq!(sent - std::mem::replace(&mut seen_before, sent), expected.len(), "{runner}");
    }
}

#[test]
fn a_stalling_service_delays_what_is_due_and_nothing_is_dropped() {
    const STALL: Duration = Duration::from_millis(600);
    let until = rewind::state(None);
    let server = ScriptedServer::start(move |seen, wire| {
        if seen.nth >= 40 {
            let until = *until.lock().unwrap().get_or_insert_with(|| Instant::now() + STALL);
            wire.pause(until.saturating_duration_since(Instant::now()));
        }
        wire.answer("200 OK", "text/plain", "ok")
    });
    let runner = "{ rps: { rps: 200, duration: 1.5, max_concurrency: 2 } }";
    let (results, stdout) = run(&server, runner, GET, 0);
    assert_eq!((count(&results, "total"), count(&results, "ok"), count(&results, "dropped")), (300, 300, 0));
    // 60 arrivals are due in the first half of the stall, and two of them at most are under way.
    let late = rows(&results).iter().filter(|row| number(row, "start_s") - number(row, "due_s") >= 0.29);
    assert!(late.count() >= 50);
    assert!(stdout.contains("queue time"), "{stdout}");
    assert_eq!(results["workloads"][0]["response_time"]["count"], 300);
    let fault = results["verdict"]["invalid"].as_array().unwrap();
    assert!(fault.iter().all(|fault| !fault.as_str().unwrap().contains("schedule")), "{fault:?}");
}

#[test]
fn beyond_a_full_queue_arrivals_are_dropped_and_counted() {
    let server = ScriptedServer::answering_after(Duration::from_millis(250));
    let runner = "{ rps: { rps: 100, duration: 1, max_concurrency: 1, max_queue: 3 } }";
    let (results, stdout) = run(&server, runner, GET, 0);
    let (ok, dropped) = (count(&results, "ok"), count(&results, "dropped"));
    assert_eq!((count(&results, "total"), ok + dropped), (100, 100));
    assert_eq!(server.seen().len() as u64, ok);
    assert!(dropped >= 90, "one at a time and three waiting: {dropped}");
    assert!(stdout.contains(&format!("{dropped} dropped: never started")), "{stdout}");
    let of_rows = rows(&results).iter().filter(|row| row["outcome"] == "dropped").count();
    assert_eq!(of_rows as u64, dropped);
    assert_eq!(numbers(&results), (0..100).collect());
}

#[test]
fn what_waits_when_a_timed_load_ends_is_cut_off_after_the_grace() {
    let server = ScriptedServer::answering_after(Duration::from_millis(200));
    let rest = format!("graceful_stop: 300ms\n{GET}");
    let (results, _) = run(&server, "{ rps: { rps: 50, duration: 1, max_concurrency: 1 } }", &rest, 0);
    let (ok, aborted) = (count(&results, "ok"), count(&results, "aborted"));
    assert_eq!((ok + aborted, count(&results, "dropped")), (50, 0));
    assert!(ok >= 1 && aborted >= 30, "{ok} {aborted}");
    // By number, all of them run.
    let rest = format!("graceful_stop: 1ms\n{GET}");
    let (results, _) = run(&server, "{ rps: { rps: 1000, times: 8, max_concurrency: 2 } }", &rest, 0);
    assert_eq!((count(&results, "ok"), count(&results, "total")), (8, 8));
}

#[test]
fn a_ramp_of_users_has_as_many_as_its_stages_say() {
    let server = ScriptedServer::answering_after(Duration::from_millis(5));
    let runner = "{ ramping: { start: 1, stepped: true, stages: [ { duration: 0.3, concurrency: 6 }, \
                  { duration: 0.2, concurrency: 0 }, { duration: 0.3, concurrency: 3 } ] } }";
    let (results, _) = run(&server, runner, GET, 0);
    assert_eq!(count(&results, "ok"), server.seen().len() as u64);
    assert_eq!(count(&results, "total"), numbers(&results).len() as u64);
    let mut edges: Vec<(f64, i32)> = rows(&results)
        .iter()
        .flat_map(|row| {
            let start = number(row, "start_s");
            [(start, 1), (start + number(row, "duration_ms") / 1e3, -1)]
        })
        .collect();
    edges.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    let most = edges.iter().scan(0, |under_way, (_, change)| {
        *under_way += change;
        Some(*under_way)
    });
    assert_eq!(most.max(), Some(6));
}

#[test]
fn workloads_run_at_the_same_time_when_asked_to() {
    for (parallel, together) in [("", false), ("parallel: true", true)] {
        let server = ScriptedServer::answering_after(Duration::from_millis(20));
        let bench = Bench::new();
        let workloads = "workloads:\n\
             \u{20} - { name: one, runner: { serial: { times: 20 } }, iteration: [ { get: /a } ] }\n\
             \u{20} - { name: two, runner: { rps: { rps: 50, times: 20 } }, iteration: [ { get: /b } ] }\n\
             \u{20} - { name: three, runner: { constant: { times: 40, concurrency: 4 } }, iteration: [ { get: /c } ] }";
        bench.load(&server.url(), "", &format!("{parallel}\n{workloads}"));
        let ended = bench.run(&["run", "scenario.yaml"]).expect_code(0);
        let results = bench.results();
        let totals: Vec<_> = (0..3).map(|at| results["workloads"][at]["iterations"]["ok"].clone()).collect();
        assert_eq!(totals, [20, 20, 40]);
        assert!(
            ["one: 20", "two: 20", "three: 40"].iter().all(|line| ended.stderr.contains(line)),
            "{ended:?}"
        );
        let paths: Vec<String> = server.seen().into_iter().map(|seen| seen.path).collect();
        let first = |path: &str| paths.iter().position(|other| other == path).unwrap();
        let last = |path: &str| paths.iter().rposition(|other| other == path).unwrap();
        assert_eq!(first("/b") < last("/a"), together, "{paths:?}");
        assert_eq!(first("/c") < last("/a"), together, "{paths:?}");
        let ids: BTreeSet<&str> =
            rows(&results).iter().map(|row| row["trace_id"].as_str().unwrap()).collect();
        assert_eq!(ids.len(), 80);
    }
}

#[test]
fn a_warm_up_runs_before_with_numbers_of_its_own() {
    let server = ScriptedServer::answering_after(Duration::from_millis(1));
    let table = [
        ("{ constant: { times: 20, concurrency: 3 } }", "{ times: 10 }", Some(30)),
        ("{ rps: { rps: 200, times: 20 } }", "{ times: 10 }", Some(30)),
        ("{ rps: { rps: 200, duration: 0.1 } }", "50ms", Some(30)),
        ("{ constant: { times: 20, concurrency: 3 } }", "100ms", None),
        ("{ constant_for_duration: { duration: 0.2, concurrency: 3 } }", "{ times: 10 }", None),
    ];
    let mut seen_before = 0;
    for (runner, warm_up, total) in table {
        let (results, _) = run(&server, runner, &format!("warm_up: {warm_up}\n{GET}"), 0);
        let sent = server.seen().len();
        let all = (sent - std::mem::replace(&mut seen_before, sent)) as u64;
        let warm_up = results["workloads"][0]["warm_up"]["total"].as_u64().unwrap();
        assert_eq!(warm_up + count(&results, "total"), all, "{runner}");
        let flagged = rows(&results).iter().filter(|row| row["warm_up"] == true);
        assert!(flagged.clone().count() as u64 == warm_up && warm_up > 0, "{runner}: {warm_up}");
        let last_warm = flagged.map(|row| number(row, "due_s")).fold(0.0, f64::max);
        let measured = rows(&results).iter().filter(|row| row["warm_up"] != true);
        let first = measured.map(|row| number(row, "due_s")).fold(f64::INFINITY, f64::min);
        assert!(total.is_none() || (warm_up, count(&results, "total")) == (10, 20), "{runner}: {warm_up}");
        assert!(!runner.contains("rps") || last_warm < first, "{runner}");
        assert_eq!(rows(&results).len() as u64, all, "{runner}");
        assert_eq!(numbers(&results).len() as u64, all, "no number twice: {runner}");
        assert!(total.is_none_or(|total| total == all) && all > 20, "{runner}: {all}");
        let settings = results["workloads"][0]["runner"].as_object().unwrap().values().next().unwrap();
        assert!(settings["warm_up"].is_object() || settings["warm_up"].is_number(), "{settings}");
    }
}

#[test]
fn a_generator_that_is_the_limit_makes_the_run_invalid() {
    let server = ScriptedServer::answering_after(Duration::ZERO);
    // Each iteration computes for a millisecond or more; 2,500 a second are asked for.
    let body = "{% for i in range(300) %}{% for j in range(250) %}{% endfor %}{% endfor %}";
    let rest = format!("graceful_stop: 100ms\niteration: [ {{ post: /x, body: \"{body}\" }} ]");
    let runner = "{ rps: { rps: 2500, duration: 2, max_concurrency: 20 } }";
    for (sla, code, headline) in [(SLA, 3, "INVALID · "), ("", 0, "INVALID (no gate) · ")] {
        let bench = Bench::new();
        bench.load(&server.url(), "", &format!("runner: {runner}\n{rest}\n{sla}"));
        let ended = bench.run(&["run", "scenario.yaml", "--workers", "1"]).expect_code(code);
        assert!(ended.stdout.contains(headline), "{}", ended.stdout);
        let results = bench.results();
        assert_eq!(results["environment"]["workers"], 1);
        let reasons = results["verdict"]["invalid"].to_string();
        assert!(reasons.contains("--workers"), "{reasons} {}", results["generator"]);
        // The same from the log.
        bench.run(&["report", bench.run_directory().to_str().unwrap()]).expect_code(code);
    }
}

#[test]
fn a_process_that_was_stopped_makes_the_run_invalid_and_loses_no_arrival() {
    let server = ScriptedServer::answering_after(Duration::ZERO);
    let bench = Bench::new();
    bench.load(&server.url(), "", &format!("runner: {{ rps: {{ rps: 100, duration: 4 }} }}\n{GET}\n{SLA}"));
    let child = start(&bench);
    server.wait_for(50);
    signal(&child, "STOP");
    std::thread::sleep(Duration::from_millis(2_000));
    signal(&child, "CONT");
    let ended = end(child).expect_code(3);
    assert!(ended.stdout.contains("INVALID · "), "{}", ended.stdout);
    let results = bench.results();
    assert!(results["verdict"]["invalid"].to_string().contains("suspended"), "{}", results["verdict"]);
    assert_eq!((count(&results, "total"), count(&results, "ok")), (400, 400));
    assert_eq!(server.seen().len(), 400, "late, but none is missing");
}

/// Stopped for 50 of every 70 ms, each runner makes a load of its own, on which no service can be judged.
#[test]
fn a_process_that_is_stopped_for_a_part_of_each_period_gets_no_wrong_verdict() {
    let server = ScriptedServer::answering_after(Duration::from_millis(5));
    for runner in [
        "{ constant_for_duration: { duration: 2, concurrency: 4 } }",
        "{ serial: { times: 150 } }",
        "{ ramping: { start: 2, stages: [ { duration: 2, concurrency: 4 } ] } }",
        "{ rps: { rps: 100, duration: 2 } }",
    ] {
        let bench = Bench::new();
        bench.load(&server.url(), "", &format!("runner: {runner}\n{GET}\n{SLA}"));
        let before = server.seen().len();
        let mut child = start(&bench);
        server.wait_for(before + 2);
        let until = Instant::now() + Duration::from_secs(20);
        while child.try_wait().unwrap().is_none() && Instant::now() < until {
            signal(&child, "STOP");
            std::thread::sleep(Duration::from_millis(50));
            signal(&child, "CONT");
            std::thread::sleep(Duration::from_millis(20));
        }
        let ended = end(child).expect_code(3);
        assert!(ended.stdout.contains("INVALID · "), "{runner}: {}", ended.stdout);
        let results = bench.results();
        let reasons = results["verdict"]["invalid"].to_string();
        assert!(reasons.contains("kept from running"), "{runner}: {reasons}");
        let worker = &results["generator"]["workers"][0];
        let share = number(worker, "kept_s") / number(worker, "load_s");
        assert!((0.3..=1.0).contains(&share), "{runner}: {worker}");
        // The same from the log.
        bench.run(&["report", bench.run_directory().to_str().unwrap()]).expect_code(3);
    }
}

/// The median of a table, of a criterion and of every other output is of all that were due; the first line says what was
/// not served.
#[test]
fn what_was_not_served_counts_in_every_percentile() {
    let server = ScriptedServer::answering_after(Duration::from_millis(100));
    let runner = "{ rps: { rps: 40, times: 100, max_concurrency: 3, max_queue: 1 } }";
    let sla = "sla: { thresholds: [ p(10) < 9s, p(99) > 1ms ] }";
    let bench = Bench::new();
    bench.load(&server.url(), "", &format!("runner: {runner}\n{GET}\n{sla}"));
    let ended = bench.run(&["run", "scenario.yaml"]);
    let results = bench.results();
    let (total, dropped) = (count(&results, "total"), count(&results, "dropped"));
    assert!(total == 100 && (2..80).contains(&dropped), "{dropped}");
    let first = ended.stdout.lines().find(|line| line.contains(" · ")).unwrap();
    assert!(first.contains(&format!(" not served ({dropped} never started)")), "{first}");
    let all = &results["workloads"][0]["response_time"]["of_all"];
    assert_eq!(all["count"], 100);
    let at = |wanted: f64| {
        let all = all["percentiles"].as_array().unwrap();
        all.iter().find(|one| one["percentile"] == wanted).unwrap()["value_ms"].clone()
    };
    let mut times: Vec<f64> = rows(&results)
        .iter()
        .filter(|row| row["outcome"] == "ok")
        .map(|row| number(row, "duration_ms") + (number(row, "start_s") - number(row, "due_s")) * 1e3)
        .collect();
    times.sort_by(f64::total_cmp);
    let expected = times[9];
    assert!((at(10.0).as_f64().unwrap() / expected - 1.0).abs() < 0.01, "{} {expected}", at(10.0));
    let criterion = number(&results["verdict"]["criteria"][0]["measured"], "value");
    assert!((criterion / expected - 1.0).abs() < 0.01, "{criterion} {expected}");
    assert!(at(99.0).is_null(), "the 99th of 100 never started");
    for file in ["report.md", "badge.txt"] {
        let text = std::fs::read_to_string(bench.run_directory().join(file)).unwrap();
        assert!(text.lines().next().unwrap().contains("not served"), "{file}: {text}");
    }
    // The lines of the report's chart, too.
    let html = std::fs::read_to_string(bench.run_directory().join("report.html")).unwrap();
    assert!(html.contains(r#""of_all":{"count":100,"#), "the chart draws percentiles of all");
    let title = html.split_once("<title>").unwrap().1.split_once("</title>").unwrap().0;
    let heading = html.split_once("class=\"why-verdict\">").unwrap().1;
    assert!(
        title.contains(" not served (") && heading[..200].contains(" not served ("),
        "{title}: {}",
        &heading[..200]
    );
    // What never started has no time in a table, and above all not 0.
    let csv = bench.run(&["export", "latest", "--csv"]).expect_code(0).stdout;
    let of_dropped: Vec<Vec<&str>> = csv
        .lines()
        .map(|line| line.split(',').collect())
        .filter(|row: &Vec<&str>| row[4] == "dropped")
        .collect();
    assert_eq!(of_dropped.len() as u64, dropped);
    assert!(
        of_dropped.iter().all(|row| !row[5].is_empty() && row[6..10] == ["", "", "", ""]),
        "{of_dropped:?}"
    );
    for row in rows(&results).iter().filter(|row| row["outcome"] == "dropped") {
        assert!(row.get("start_s").is_none() && row.get("duration_ms").is_none(), "{row}");
    }
    let list = bench.run(&["runs"]).stdout;
    assert!(list.contains("no time") && list.contains("not served"), "{list}");
    let directory = bench.run_directory();
    let both = bench.run(&["compare", directory.to_str().unwrap(), directory.to_str().unwrap()]).stdout;
    assert!(both.contains(&format!("0 failed, {dropped} never started, 0 cut off, of 100")), "{both}");
    assert!(ended.stdout.contains("no time"), "{}", ended.stdout);
}

/// What waited for a user until the run was cut off never started, in any output.
#[test]
fn what_waited_until_the_end_never_started() {
    let server = ScriptedServer::answering_after(Duration::from_secs(1));
    let bench = Bench::new();
    let runner = "{ rps: { rps: 20, duration: 1, max_concurrency: 1 } }";
    bench.load(&server.url(), "", &format!("graceful_stop: 200ms\nrunner: {runner}\n{GET}"));
    bench.run(&["run", "scenario.yaml", "--no-probe"]).expect_code(0);
    let results = bench.results();
    let (total, aborted) = (count(&results, "total"), count(&results, "aborted"));
    assert!(total == 20 && aborted >= 15, "{aborted} of {total}");
    let (waiting, ran): (Vec<&Value>, Vec<&Value>) =
        rows(&results).iter().partition(|row| row.get("start_s").is_none());
    assert!(waiting.iter().all(|row| row["outcome"] == "aborted" && row.get("duration_ms").is_none()));
    assert!(waiting.len() as u64 >= 15, "{}", waiting.len());
    let started = results["workloads"][0]["offered"]["series"]["started"].as_array().unwrap();
    let started: u64 = started.iter().map(|count| count.as_u64().unwrap()).sum();
    assert_eq!(started, ran.len() as u64);
    let directory = bench.run_directory();
    // The page draws what ran.
    let page = std::fs::read_to_string(directory.join("report.html")).unwrap();
    let (_, packed) = page.split_once("id=\"iterations\"").unwrap();
    let (_, packed) = packed.split_once('>').unwrap();
    let packed = STANDARD.decode(packed.split('<').next().unwrap().trim()).unwrap();
    let mut drawn = [0; 4];
    flate2::read::GzDecoder::new(packed.as_slice()).read_exact(&mut drawn).unwrap();
    assert_eq!(u32::from_le_bytes(drawn) as usize, ran.len());
    let both = bench.run(&["compare", directory.to_str().unwrap(), directory.to_str().unwrap()]).stdout;
    assert!(both.contains(&format!("{aborted} cut off, of 20")), "{both}");
    // The report made again from the log and the rows holds.
    bench.run(&["check", directory.to_str().unwrap()]).expect_code(0);
}

/// The rate is that of the load in the report, too: answers that take a second do not halve it.
#[test]
fn answers_after_the_last_start_lower_the_rate_in_no_output() {
    let server = ScriptedServer::answering_after(Duration::from_secs(1));
    let bench = Bench::new();
    let runner = "{ rps: { rps: 20, duration: 1, max_concurrency: 40 } }";
    bench.load(&server.url(), "", &format!("runner: {runner}\n{GET}"));
    let ended = bench.run(&["run", "scenario.yaml"]).expect_code(0);
    let (before, _) = ended.stdout.split_once("/s of 20/s").unwrap();
    let printed: f64 = before.rsplit(' ').next().unwrap().parse().unwrap();
    assert!(printed > 15.0, "{printed}");
    let html = std::fs::read_to_string(bench.run_directory().join("report.html")).unwrap();
    let html = html.replace("&#x2f;", "/");
    let (_, tile) = html.split_once("<dt>Rate</dt><dd><b>").unwrap();
    let (shown, aside) = tile.split_once("/s</b> ").unwrap();
    assert!((shown.parse::<f64>().unwrap() - printed).abs() < 0.06, "{shown} {printed}");
    assert!(aside.starts_with("of 20/s</dd>"), "{}", &aside[..20]);
}

#[test]
fn a_signal_ends_a_rate_gracefully() {
    for name in ["INT", "TERM"] {
        let server = ScriptedServer::answering_after(Duration::from_millis(20));
        let bench = Bench::new();
        bench.load(&server.url(), "", &format!("runner: {{ rps: {{ rps: 200, duration: 600 }} }}\n{GET}"));
        let child = start(&bench);
        server.wait_for(100);
        signal(&child, name);
        end(child).expect_code(105);
        let results = bench.results();
        assert_eq!(results["run"]["status"], "interrupted");
        let total = count(&results, "total");
        assert_eq!((count(&results, "ok"), count(&results, "dropped")), (total, 0));
        assert_eq!(server.seen().len() as u64, total, "none is lost, none is invented");
    }
}

#[test]
fn what_waits_when_a_signal_comes_is_cut_off() {
    let server = ScriptedServer::start(|seen, wire| {
        if seen.nth >= 10 {
            return After::Hang;
        }
        wire.answer("200 OK", "text/plain", "ok")
    });
    let bench = Bench::new();
    let runner = "{ rps: { rps: 200, duration: 600, max_concurrency: 4 } }";
    bench.load(&server.url(), "", &format!("graceful_stop: 200ms\nrunner: {runner}\n{GET}"));
    let child = start(&bench);
    server.wait_for(14);
    std::thread::sleep(Duration::from_millis(500));
    signal(&child, "INT");
    end(child).expect_code(105);
    let results = bench.results();
    let (ok, aborted) = (count(&results, "ok"), count(&results, "aborted"));
    assert_eq!((ok, ok + aborted), (10, count(&results, "total")));
    assert!(aborted >= 50, "four under way, the others waiting: {aborted}");
}

#[test]
fn a_rate_goes_on_while_its_target_restarts() {
    let server = ScriptedServer::answering_after(Duration::ZERO);
    let (url, address) = (server.url(), server.address());
    let bench = Bench::new();
    bench.load(&url, "", &format!("runner: {{ rps: {{ rps: 100, duration: 4 }} }}\n{GET}"));
    let child = start(&bench);
    server.wait_for(100);
    drop(server);
    std::thread::sleep(Duration::from_millis(500));
    let server = ScriptedServer::start_at(address, |_, wire| wire.answer("200 OK", "text/plain", "ok"));
    end(child).expect_code(0);
    let results = bench.results();
    let (ok, failed) = (count(&results, "ok"), count(&results, "failed"));
    assert_eq!((ok + failed, count(&results, "total"), count(&results, "dropped")), (400, 400, 0));
    assert!(failed >= 20 && !server.seen().is_empty(), "{ok} {failed}");
    let mut last: Vec<&Value> = rows(&results).iter().collect();
    last.sort_by(|a, b| number(a, "due_s").total_cmp(&number(b, "due_s")));
    assert_eq!(last[399]["outcome"], "ok", "it recovered");
}

#[test]
fn a_load_that_the_system_cannot_carry_is_refused_before_it_begins() {
    let server = ScriptedServer::answering_after(Duration::ZERO);
    let bench = Bench::new();
    let limited = |limit: u32| {
        let script = format!("ulimit -n {limit} && exec \"$0\" run scenario.yaml");
        let mut shell = Command::new("sh");
        shell.current_dir(bench.path()).args(["-c", &script, env!("CARGO_BIN_EXE_bench")]);
        Bench::end(&mut shell)
    };
    bench.load(
        &server.url(),
        "",
        &format!("runner: {{ constant: {{ times: 500, concurrency: 300 }} }}\n{GET}"),
    );
    let ended = limited(200).expect_code(1);
    assert!(ended.stderr.contains("300 virtual users need about 400 descriptors"), "{}", ended.stderr);
    assert!(ended.stderr.contains("ulimit -n 400"), "{}", ended.stderr);
    assert_eq!(server.seen().len(), 0);
    assert!(!bench.path().join("runs").exists(), "nothing is left behind");
    // An open model is bounded by the limit instead, and says so where it is asked for more.
    let rps = "{ rps: { rps: 100, times: 20, max_concurrency: 1000 } }";
    bench.load(&server.url(), "", &format!("runner: {rps}\n{GET}"));
    let ended = limited(200).expect_code(0);
    assert!(
        ended.stderr.contains("`max_concurrency` allows 1000 virtual users, but the limits of descriptors"),
        "{}",
        ended.stderr
    );
}

#[test]
fn workers_are_a_number_of_threads() {
    let server = ScriptedServer::answering_after(Duration::ZERO);
    let bench = Bench::new();
    bench.load(&server.url(), "", &format!("runner: {{ constant: {{ times: 30, concurrency: 5 }} }}\n{GET}"));
    let ended = bench.run(&["run", "scenario.yaml", "--workers", "3"]).expect_code(0);
    assert!(ended.stdout.contains("load     3 workers, the busiest at "), "{}", ended.stdout);
    let results = bench.results();
    assert_eq!(results["environment"]["workers"], 3);
    assert_eq!(results["generator"]["workers"].as_array().unwrap().len(), 3);
    for wrong in ["0", "2000", "many"] {
        bench.run(&["run", "scenario.yaml", "--workers", wrong]).expect_code(64);
    }
}
