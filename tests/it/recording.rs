//! Finished iterations are never lost: interrupts at any instant, slow disks, clocks that jump.
//!
//! `BENCH_SLOW_TESTS=1` tries a hundred instants instead of a few.
#![cfg(unix)]

use std::collections::BTreeSet;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bench::measure::log::{End, Header, LogWriter, RunLog, Sink, Visitor};
use bench::measure::recorder::{Batch, Recorder};
use bench::measure::rows::Rows;
use bench::measure::sample::IterationSample;
use bench::results::model::{IterationRow, Results, RunStatus};
use serde_json::Value;

use crate::server::ScriptedServer;
use crate::support::{Bench, CommandOutput};

const GET: &str = "iteration: [ { action: a, get: '/x?{{ trace_id }}' } ]";
/// What may be lost, and what a busy machine adds to it.
const BEHIND: Duration = Duration::from_millis(1000);
const SLACK: Duration = Duration::from_millis(500);

fn instants() -> u64 {
    match std::env::var("BENCH_SLOW_TESTS") {
        Ok(value) if !value.is_empty() => 100,
        _ => 5,
    }
}

/// The ids of answered requests, each with the time of its answer.
type AnswerTimes = Arc<Mutex<Vec<(Instant, String)>>>;

fn server() -> (ScriptedServer, AnswerTimes) {
    let answered = AnswerTimes::default();
    let seen_by = Arc::clone(&answered);
    let server = ScriptedServer::start(move |seen, wire| {
        wire.pause(Duration::from_millis(2));
        let after = wire.answer("200 OK", "text/plain", "ok");
        if let Some(id) = seen.path.strip_prefix("/x?") {
            seen_by.lock().unwrap().push((Instant::now(), id.to_owned()));
        }
        after
    });
    (server, answered)
}

fn start(bench: &Bench) -> Child {
    let mut command = bench.command(&["run", "scenario.yaml"]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Ends a load with `signal` at the `nth` of some instants scattered over its first seconds.
fn end_at(nth: u64, signal: &str) -> (Bench, CommandOutput, Instant, AnswerTimes) {
    let (server, answered) = server();
    let bench = Bench::new();
    bench.load(
        &server.url(),
        "",
        &format!("runner: {{ constant: {{ times: 10000000, concurrency: 4 }} }}\n{GET}"),
    );
    let child = start(&bench);
    server.wait_for(1);
    std::thread::sleep(Duration::from_millis((nth * 977 + 131) % 2500));
    let at = Instant::now();
    let status = Command::new("kill").args([format!("-{signal}"), child.id().to_string()]).status().unwrap();
    assert!(status.success());
    let ended = CommandOutput::from(child.wait_with_output().unwrap());
    (bench, ended, at, answered)
}

fn trace_ids(results: &Value) -> BTreeSet<String> {
    let rows = results["iterations"].as_array().unwrap();
    rows.iter().map(|row| row["trace_id"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_run_that_is_killed_at_any_instant_loses_a_second_at_most() {
    for nth in 0..instants() {
        let (bench, ended, killed, answered) = end_at(nth, "KILL");
        assert_eq!(ended.code, None);
        let directory = bench.run_directory();
        let report = bench.run(&["report", directory.to_str().unwrap()]);
        // Killed in its first instant, it has recorded nothing: that is not a verdict.
        assert!(matches!(report.code, Some(0 | 3)), "{report:?}");
        let results = bench.results();
        assert_eq!(results["run"]["status"], "recovered");
        let recovered = trace_ids(&results);
        let answered = answered.lock().unwrap();
        let all: BTreeSet<String> = answered.iter().map(|(_, id)| id.clone()).collect();
        assert!(recovered.is_subset(&all), "nothing is invented");
        let old = answered.iter().filter(|(at, _)| *at + BEHIND + SLACK < killed);
        let lost = old.filter(|(_, id)| !recovered.contains(id)).count();
        assert_eq!(lost, 0, "instant {nth}: {} of {} recovered", recovered.len(), all.len());
    }
}

#[test]
fn a_run_that_is_interrupted_at_any_instant_loses_nothing() {
    for nth in 0..instants() {
        let (bench, ended, _, answered) = end_at(1000 + nth, "INT");
        ended.expect_code(105);
        let mut results = bench.results();
        let recorded = trace_ids(&results);
        let answered: BTreeSet<String> = answered.lock().unwrap().iter().map(|(_, id)| id.clone()).collect();
        assert_eq!(recorded, answered, "instant {nth}");
        let rows = results.as_object_mut().unwrap().remove("iterations").unwrap();
        let rows: Vec<IterationRow> = serde_json::from_value(rows).unwrap();
        let results: Results = serde_json::from_value(results).unwrap();
        assert_eq!(results.run.status, RunStatus::Interrupted);
        assert_eq!(results.workloads[0].iterations.total, rows.len() as u64);
    }
}

/// A disk that takes nothing until it is let go.
struct StuckDisk {
    written: Arc<Mutex<Vec<u8>>>,
    stuck: Arc<Mutex<()>>,
}

impl std::io::Write for StuckDisk {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let _stuck = self.stuck.lock().unwrap();
        self.written.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Sink for StuckDisk {
    fn sync(&mut self) -> std::io::Result<()> {
        Ok(())
    }

    fn cut(&mut self, _: u64) -> std::io::Result<()> {
        Ok(())
    }
}

/// Counts the iterations of a log.
struct Counter(u64);

impl Visitor for Counter {
    fn rows(&mut self, rows: &Rows) -> std::io::Result<()> {
        self.0 += rows.len() as u64;
        Ok(())
    }
}

fn header() -> Header {
    serde_json::from_value(serde_json::json!({
        "run_id": uuid::Uuid::nil(), "id_seed": uuid::Uuid::nil(), "started_unix_ns": 0,
        "scenario": {"title": "t", "file": "f", "sha256": "", "set": {}},
        "deployment": {"name": "d", "file": "f", "targets": {}, "tls_verified": true, "auth": "none"},
        "profiling_off": null, "collector": null, "notes": [], "workloads": [],
        "environment": {"bench_version": "", "os": "", "cpus": 1, "workers": 1},
    }))
    .unwrap()
}

/// The disk takes nothing until all is recorded: if recording ever waited for it, this would not end.
#[test]
fn a_disk_that_is_stuck_never_holds_up_recording_and_what_is_not_recorded_is_counted() {
    const ITERATIONS: u64 = 1_500_000;
    let (written, stuck) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(())));
    let disk = StuckDisk { written: Arc::clone(&written), stuck: Arc::clone(&stuck) };
    let mut log = LogWriter::to_sink(Box::new(disk)).unwrap();
    log.header(&header()).unwrap();
    let (sender, batches) = sync_channel::<Batch>(64);
    let held = stuck.lock().unwrap();
    let coordinator = std::thread::spawn(move || {
        let (mut unrecorded, mut ended) = (0, 0);
        while let Ok(batch) = batches.recv() {
            (unrecorded, ended) = (unrecorded + batch.live.unrecorded, ended + batch.live.ended());
            log.samples(&batch.samples).unwrap();
            log.flush().unwrap();
        }
        log.end(&End::default()).unwrap();
        (unrecorded, ended)
    });
    let mut recorder = Recorder::new(0, 0, 1, sender);
    for number in 0..ITERATIONS {
        recorder.record(&IterationSample { number, duration_ns: 1_000_000, ..IterationSample::default() });
    }
    drop(held);
    recorder.flush(true);
    drop(recorder);
    let (unrecorded, ended) = coordinator.join().unwrap();
    assert_eq!(ended, ITERATIONS, "all are counted");
    assert!(unrecorded > 0, "more than fits into memory is not kept");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.log");
    std::fs::write(&path, &*written.lock().unwrap()).unwrap();
    let mut recorded = Counter(0);
    let ending = RunLog::open(&path).unwrap().visit(&mut [&mut recorded]).unwrap();
    assert_eq!(ending.end.unwrap().rows, Some(recorded.0));
    assert_eq!(recorded.0 + unrecorded, ITERATIONS, "what is not in the log is counted");
}

/// Between the program and the C library: every other look at the wall clock is an hour off.
const JUMPING_CLOCK: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <time.h>
int clock_gettime(clockid_t id, struct timespec *t) {
    static int (*real)(clockid_t, struct timespec *);
    static int looks;
    if (!real) real = dlsym(RTLD_NEXT, "clock_gettime");
    int answer = real(id, t);
    if (id == CLOCK_REALTIME) t->tv_sec += looks++ % 2 ? 3600 : -3600;
    return answer;
}
"#;

#[test]
fn a_wall_clock_that_jumps_changes_no_duration() {
    let (server, _) = server();
    let bench = Bench::new();
    let source = bench.write("clock.c", JUMPING_CLOCK);
    let library = bench.path().join("clock.so");
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source).arg("-ldl");
    if !compiler.output().is_ok_and(|output| output.status.success()) {
        println!("skipped: install a C compiler");
        return;
    }
    bench.load(
        &server.url(),
        "",
        &format!("runner: {{ constant: {{ times: 300, concurrency: 2 }} }}\n{GET}"),
    );
    let mut command = bench.command(&["run", "scenario.yaml"]);
    Bench::end(command.env("LD_PRELOAD", &library)).expect_code(0);
    let results = bench.results();
    let rows = results["iterations"].as_array().unwrap();
    assert_eq!(rows.len(), 300);
    for row in rows {
        let number = |name: &str| row[name].as_f64().unwrap();
        assert!((2.0..60_000.0).contains(&number("duration_ms")), "{row}");
        assert!((0.0..60.0).contains(&number("start_s")) && number("due_s") <= number("start_s"), "{row}");
    }
    assert!((0.0..60.0).contains(&results["run"]["duration_s"].as_f64().unwrap()));
}
