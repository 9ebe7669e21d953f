//! What remains when a run is interrupted or killed.
#![cfg(unix)]

use std::collections::BTreeSet;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::server::{After, ScriptedServer};
use crate::support::{Bench, CommandOutput, with_default_signals};

const TEARDOWN: &str = "teardown: [ { action: t, delete: /t } ]";
const GET: &str = "iteration: [ { action: a, get: '/x?{{ trace_id }}' } ]";

/// Longer than any of these runs may take to end, on a busy machine too.
const PATIENCE: Duration = Duration::from_secs(40);

pub(crate) fn start(bench: &Bench) -> Child {
    let mut command = with_default_signals(&bench.command(&["run", "scenario.yaml"]));
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

pub(crate) fn signal(child: &Child, name: &str) {
    let status = Command::new("kill").args([format!("-{name}"), child.id().to_string()]).status().unwrap();
    assert!(status.success());
}

/// Waits for the end, within bounds.
#[track_caller]
pub(crate) fn end(mut child: Child) -> CommandOutput {
    let until = Instant::now() + PATIENCE;
    while child.try_wait().unwrap().is_none() {
        if Instant::now() > until {
            child.kill().unwrap();
            panic!("did not end: {:?}", CommandOutput::from(child.wait_with_output().unwrap()));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    CommandOutput::from(child.wait_with_output().unwrap())
}

fn counts(results: &Value) -> [u64; 4] {
    let iterations = &results["workloads"][0]["iterations"];
    ["total", "ok", "failed", "aborted"].map(|key| iterations[key].as_u64().unwrap())
}

fn trace_ids(results: &Value) -> BTreeSet<String> {
    let rows = results["iterations"].as_array().unwrap();
    let ids: BTreeSet<String> = rows.iter().map(|row| row["trace_id"].as_str().unwrap().to_owned()).collect();
    assert_eq!(ids.len(), rows.len(), "no id twice");
    ids
}

/// The ids of the iterations whose requests reached the server.
fn ids_at(server: &ScriptedServer) -> BTreeSet<String> {
    let seen = server.seen();
    seen.iter().filter_map(|seen| seen.path.strip_prefix("/x?")).map(str::to_owned).collect()
}

#[test]
fn a_signal_lets_iterations_end_and_reports_what_ran() {
    for name in ["INT", "TERM", "HUP"] {
        let server = ScriptedServer::answering_after(Duration::from_millis(20));
        let bench = Bench::new();
        bench.load(
            &server.url(),
            "",
            &format!("runner: {{ constant: {{ times: 1000000, concurrency: 8 }} }}\n{GET}\n{TEARDOWN}"),
        );
        let child = start(&bench);
        server.wait_for(100);
        signal(&child, name);
        let ended = end(child).expect_code(105);
        assert!(ended.stderr.contains("stopping"), "{}", ended.stderr);
        let results = bench.results();
        assert_eq!(results["run"]["status"], "interrupted");
        let [total, ok, failed, aborted] = counts(&results);
        assert_eq!((ok, failed, aborted), (total, 0, 0), "those under way came to their end");
        assert_eq!(trace_ids(&results), ids_at(&server), "none is lost, none is invented");
        assert_eq!(server.count("/t"), 1, "teardown ran");
        assert!(bench.run_directory().join("report.html").is_file());
    }
}

/// What nohup starts outlives its terminal.
#[test]
fn a_hangup_that_was_ignored_from_the_start_stays_ignored() {
    let server = ScriptedServer::answering_after(Duration::from_millis(5));
    let bench = Bench::new();
    bench.load(
        &server.url(),
        "",
        &format!("runner: {{ constant: {{ times: 400, concurrency: 4 }} }}\n{GET}"),
    );
    let mut command = Command::new("sh");
    command.current_dir(bench.path()).env("NO_COLOR", "1");
    command.args(["-c", "trap '' HUP; exec \"$0\" run scenario.yaml", env!("CARGO_BIN_EXE_bench")]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    server.wait_for(50);
    signal(&child, "HUP");
    end(child).expect_code(0);
    assert_eq!(counts(&bench.results()), [400, 400, 0, 0]);
}

#[test]
fn iterations_that_outlast_the_grace_are_counted_as_cut_off() {
    let server = ScriptedServer::start(|seen, wire| {
        if seen.nth >= 20 && seen.path != "/t" {
            return After::Hang;
        }
        wire.answer("200 OK", "text/plain", "ok")
    });
    let bench = Bench::new();
    bench.load(
        &server.url(),
        "",
        &format!("graceful_stop: 200ms\nrunner: {{ constant: {{ times: 1000, concurrency: 4 }} }}\n{GET}\n{TEARDOWN}"),
    );
    let child = start(&bench);
    server.wait_for(24);
    signal(&child, "INT");
    end(child).expect_code(105);
    let results = bench.results();
    assert_eq!(counts(&results), [24, 20, 0, 4]);
    let requests = &results["workloads"][0]["actions"][0]["requests"];
    assert_eq!(
        requests,
        &serde_json::json!({"total": 24, "ok": 20, "failed": 0, "aborted": 4, "dropped": 0 })
    );
    assert_eq!(results["workloads"][0]["service_time"]["count"], 20);
    assert_eq!(trace_ids(&results), ids_at(&server));
    assert_eq!(server.count("/t"), 1, "teardown ran");
}

#[test]
fn a_second_signal_ends_at_once_and_the_log_keeps_what_ended() {
    let server = ScriptedServer::start(|seen, wire| {
        if seen.nth >= 20 {
            return After::Hang;
        }
        wire.answer("200 OK", "text/plain", "ok")
    });
    let bench = Bench::new();
    bench.load(
        &server.url(),
        "",
        &format!("runner: {{ constant: {{ times: 1000, concurrency: 4 }} }}\n{GET}"),
    );
    let child = start(&bench);
    server.wait_for(24);
    // What has ended is on its way to the log within a second.
    std::thread::sleep(Duration::from_secs(2));
    let asked = Instant::now();
    signal(&child, "INT");
    std::thread::sleep(Duration::from_millis(300));
    signal(&child, "INT");
    let ended = end(child).expect_code(105);
    assert!(asked.elapsed() < Duration::from_secs(20), "the grace is 30 s");
    assert!(ended.stderr.contains("ended at once"), "{}", ended.stderr);
    let run = bench.run_directory();
    assert!(!run.join("results.json").exists());
    bench.run(&["report", run.to_str().unwrap()]).expect_code(0);
    let results = bench.results();
    assert_eq!(results["run"]["status"], "recovered");
    assert_eq!(counts(&results), [20, 20, 0, 0]);
}

#[test]
fn a_signal_before_the_load_ends_the_run_with_nothing_left_behind() {
    // A login that is never answered.
    let server = ScriptedServer::start(|_, _| After::Hang);
    let bench = Bench::new();
    let auth = format!(
        "auth: {{ keystone: {{ auth_url: \"{}/v3\", username: u, password: p, project_name: p }} }}",
        server.url()
    );
    bench.load(&server.url(), &auth, &format!("runner: {{ serial: {{ times: 1 }} }}\n{GET}"));
    let child = start(&bench);
    server.wait_for(1);
    signal(&child, "INT");
    let ended = end(child).expect_code(105);
    assert!(ended.stderr.contains("nothing ran"), "{}", ended.stderr);
    assert_eq!(std::fs::read_dir(bench.path().join("runs")).unwrap().count(), 0);
}

#[test]
fn a_signal_in_setup_runs_teardown() {
    let server = ScriptedServer::start(|seen, wire| match seen.path.as_str() {
        "/hang" => After::Hang,
        _ => wire.answer("200 OK", "application/json", "{\"id\": 5}"),
    });
    let bench = Bench::new();
    bench.load(
        &server.url(),
        "",
        &format!(
            "runner: {{ serial: {{ times: 1 }} }}\n{GET}\n\
             setup: [ {{ action: m, post: /make, extract: {{ id: {{ json: $.id }} }} }}, {{ action: h, get: /hang }} ]\n\
             teardown: [ {{ action: t, delete: '/made/{{{{ id }}}}' }} ]"
        ),
    );
    let child = start(&bench);
    server.wait_for(2);
    signal(&child, "TERM");
    end(child).expect_code(105);
    assert_eq!(server.count("/made/5"), 1, "what was made is taken down");
    assert_eq!(counts(&bench.results()), [0; 4]);
}

#[test]
fn a_killed_run_is_recovered_from_its_log() {
    let server = ScriptedServer::answering_after(Duration::from_millis(2));
    let bench = Bench::new();
    bench.load(
        &server.url(),
        "",
        &format!("runner: {{ constant: {{ times: 1000000, concurrency: 8 }} }}\n{GET}"),
    );
    let child = start(&bench);
    server.wait_for(2000);
    std::thread::sleep(Duration::from_secs(2));
    let sent_before: BTreeSet<String> = ids_at(&server);
    std::thread::sleep(Duration::from_secs(2));
    signal(&child, "KILL");
    assert_eq!(end(child).code, None);
    let run = bench.run_directory();
    assert!(!run.join("results.json").exists(), "no half of a report");
    let ended = bench.run(&["report", run.to_str().unwrap()]).expect_code(0);
    assert!(!ended.stdout.is_empty());
    let results = bench.results();
    assert_eq!(results["run"]["status"], "recovered");
    let (recovered, sent) = (trace_ids(&results), ids_at(&server));
    assert_eq!(counts(&results)[0], recovered.len() as u64);
    assert!(recovered.is_subset(&sent), "nothing is invented");
    let lost_old = sent_before.difference(&recovered).count();
    assert_eq!(lost_old, 0, "what ended two seconds before is recovered");
}

#[test]
fn a_log_cut_or_damaged_anywhere_is_reported_or_refused_but_never_a_panic() {
    let server = ScriptedServer::start(|seen, wire| match seen.nth % 7 {
        0 => wire.answer("500 Oops", "text/plain", "no"),
        _ => wire.answer("200 OK", "text/plain", "ok"),
    });
    let bench = Bench::new();
    bench.load(
        &server.url(),
        "",
        &format!("runner: {{ constant: {{ times: 300, concurrency: 3 }} }}\n{GET}"),
    );
    bench.run(&["run", "scenario.yaml"]).expect_code(0);
    let run = bench.run_directory();
    let log = std::fs::read(run.join("run.log")).unwrap();
    let whole = trace_ids(&bench.results());
    assert_eq!(whole.len(), 300);
    // Evenly spread, with a step that is not a multiple of anything.
    let damaged = bench.path().join("damaged");
    std::fs::create_dir(&damaged).unwrap();
    for at in (0..log.len()).step_by(log.len() / 23) {
        let mut flipped = log.clone();
        flipped[at] ^= 0x55;
        for bytes in [&log[..at], &flipped] {
            std::fs::write(damaged.join("run.log"), bytes).unwrap();
            let _ = std::fs::remove_file(damaged.join("results.json"));
            let ended = bench.run(&["report", "damaged"]);
            assert!(matches!(ended.code, Some(0 | 3 | 65)), "at {at}: {ended:?}");
            assert!(!ended.stderr.contains("panicked"), "at {at}: {ended:?}");
            if ended.code == Some(65) {
                assert!(ended.stderr.starts_with("error: "), "at {at}: {ended:?}");
                continue;
            }
            let results: Value =
                serde_json::from_slice(&std::fs::read(damaged.join("results.json")).unwrap()).unwrap();
            assert!(trace_ids(&results).is_subset(&whole), "at {at}");
        }
    }
}

/// A pipe in the place of a file: where it may be one it is read, and waiting for it ends at the first signal.
#[test]
fn a_pipe_that_nobody_writes_to_does_not_hold_up_a_signal() {
    let bench = Bench::new();
    bench.load(
        "http://127.0.0.1:9",
        "",
        &format!("runner: {{ constant: {{ times: 1, concurrency: 1 }} }}\n{GET}"),
    );
    assert!(Command::new("mkfifo").arg(bench.path().join("pipe")).status().unwrap().success());
    for arguments in [&["run", "scenario.yaml", "-d", "pipe"][..], &["run", "pipe"]] {
        let mut command = with_default_signals(&bench.command(arguments));
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        // It listens to signals soon; one before that ends it as well.
        std::thread::sleep(Duration::from_millis(500));
        signal(&child, "TERM");
        let ended = end(child);
        assert!(matches!(ended.code, Some(105) | None), "{ended:?}");
    }
    // Where it cannot be one, it is refused at once.
    bench.load("http://127.0.0.1:9", "tls: { ca: pipe }", "runner: { constant: { times: 1, concurrency: 1 } }\niteration: [ { action: a, post: /, file: pipe } ]");
    let refused = bench.run(&["validate", "scenario.yaml"]).expect_code(65).stderr;
    assert!(refused.contains("not a regular file") || refused.contains("not a file"), "{refused}");
}
