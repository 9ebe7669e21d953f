//! Damaged logs, unreadable logs and full disks: every output says INVALID or failed, never PASS.
//!
//! `BENCH_SLOW_TESTS=1` tries many more places and sizes.
#![cfg(unix)]

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::server::ScriptedServer;
use crate::support::{Bench, CommandOutput, adds_up};

const GET: &str = "iteration: [ { action: a, get: /x } ]";
const GATE: &str = "sla: { thresholds: [p95 < 60s], failure_rate: { max: 0 } }";
/// A frame's length, kind and checksum.
const HEAD_BYTES: usize = 9;

fn is_long() -> bool {
    std::env::var_os("BENCH_SLOW_TESTS").is_some_and(|value| !value.is_empty())
}

fn server() -> ScriptedServer {
    ScriptedServer::start(|_, wire| wire.answer("200 OK", "text/plain", "ok"))
}

/// A folder with a scenario of some iterations and a gate that passes.
fn scenario(server: &ScriptedServer, times: u64) -> Bench {
    let bench = Bench::new();
    let runner = format!("runner: {{ constant: {{ times: {times}, concurrency: 4 }} }}");
    bench.load(&server.url(), "", &format!("{runner}\n{GET}\n{GATE}"));
    bench
}

/// The frames of a log: where each begins, and its kind.
fn frames(log: &[u8]) -> Vec<(usize, u8)> {
    let (mut at, mut frames) = (10, Vec::new());
    while at < log.len() {
        let length = u32::from_le_bytes(log[at..at + 4].try_into().unwrap()) as usize;
        frames.push((at, log[at + 4]));
        at += HEAD_BYTES + length;
    }
    assert_eq!(at, log.len(), "a whole log");
    frames
}

/// The log with another last frame: this JSON.
fn with_end(log: &[u8], end: &Value) -> Vec<u8> {
    let at = frames(log).last().unwrap().0;
    let payload = serde_json::to_vec(end).unwrap();
    let mut crc = crc32fast::Hasher::new();
    crc.update(&[4]);
    crc.update(&payload);
    let mut changed = log[..at].to_vec();
    changed.extend_from_slice(&(payload.len() as u32).to_le_bytes());
    changed.push(4);
    changed.extend_from_slice(&crc.finalize().to_le_bytes());
    changed.extend_from_slice(&payload);
    changed
}

fn end_of(log: &[u8]) -> Value {
    serde_json::from_slice(&log[frames(log).last().unwrap().0 + HEAD_BYTES..]).unwrap()
}

/// Everything that says how a run went, in one text.
fn all_words(bench: &Bench, directory: &Path, ended: &CommandOutput) -> String {
    let mut words = format!("{}\n{}", ended.stdout, ended.stderr);
    for name in ["badge.txt", "badge.json", "report.md", "results.json"] {
        words.push_str(&std::fs::read_to_string(directory.join(name)).unwrap_or_default());
    }
    words.push_str(&std::fs::read_to_string(bench.path().join("j.xml")).unwrap_or_default());
    words
}

/// Asserts that nothing says PASS of the run as a whole.
#[track_caller]
fn assert_no_pass(bench: &Bench, directory: &Path, ended: &CommandOutput) {
    let words = all_words(bench, directory, ended);
    for pass in ["PASS ·", "PASS so far", "bench: PASS", "\"outcome\": \"PASS\",\n    \"invalid\""] {
        assert!(!words.contains(pass), "{pass}: {words}");
    }
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn every_reader_tells_cut_damaged_and_incomplete_logs_apart() {
    let server = server();
    let bench = scenario(&server, 9_000);
    bench.run(&["run", "scenario.yaml", "--junit", "j.xml"]).expect_code(0);
    bench.results();
    let directory = bench.run_directory();
    let (path, name) = (directory.join("run.log"), directory.to_str().unwrap().to_owned());
    let (log, results) =
        (std::fs::read(&path).unwrap(), std::fs::read(directory.join("results.json")).unwrap());
    let other = scenario(&server, 9_000);
    other.run(&["run", "scenario.yaml", "-q"]).expect_code(0);
    let base = other.run_directory();
    let base = base.to_str().unwrap();
    let frames = frames(&log);
    let block = frames.iter().find(|(_, kind)| *kind == 2).unwrap().0;
    let after = frames[frames.iter().position(|(at, _)| *at == block).unwrap() + 1].0;
    let mut flipped = log.clone();
    flipped[block + HEAD_BYTES + 40] ^= 1;
    let without = [&log[..block], &log[after..]].concat();
    let twice = [&log[..after], &log[block..]].concat();
    let garbage = [&log[..], &[0; 30]].concat();
    let mut earlier = end_of(&log);
    assert_eq!(earlier["rows"], 9_000);
    earlier.as_object_mut().unwrap().remove("rows");
    earlier.as_object_mut().unwrap().remove("issued");
    let mut lost_count = end_of(&log);
    lost_count["issued"][0]["issued"] = 9_001.into();
    let mut unread = log.clone();
    let end = frames.last().unwrap().0;
    unread[end + HEAD_BYTES + 3] ^= 1;
    // Code of report and check, the same with --strict, a sentence, whether the export warns.
    for (what, log, code, strict, sentence, warns) in [
        ("whole", log.clone(), 0, 0, "", false),
        ("of an earlier build", with_end(&log, &earlier), 0, 0, "", false),
        ("cut in its end", log[..log.len() - 7].to_vec(), 0, 4, "the log has no end", true),
        ("without end", log[..end].to_vec(), 0, 4, "the log has no end", true),
        ("a bit in a block", flipped, 3, 3, "the run log is damaged at byte", true),
        ("a block less", without, 3, 3, "iterations of the run log are missing", true),
        ("a block twice", twice, 3, 3, "must have 9000 iterations but has", true),
        ("bytes behind its end", garbage, 3, 3, "damaged", true),
        ("a bit in its end", unread, 3, 3, "damaged", true),
        ("one more issued", with_end(&log, &lost_count), 3, 3, "9001 iterations were issued", false),
    ] {
        std::fs::write(&path, &log).unwrap();
        std::fs::write(directory.join("results.json"), &results).unwrap();
        for strict_too in [false, true] {
            let mut arguments = vec!["check", &name];
            arguments.extend(strict_too.then_some("--strict"));
            let check = bench.run(&arguments);
            assert_eq!(check.code, Some(if strict_too { strict } else { code }), "{what}: {check:?}");
            if code == 3 {
                assert!(
                    check.stdout.contains("INVALID") && check.stdout.contains(sentence),
                    "{what}: {check:?}"
                );
            }
        }
        let compare = bench.run(&["compare", base, &name, "--allow-different"]);
        assert_eq!(compare.code, Some(if code == 3 { 3 } else { 0 }), "{what}: {compare:?}");
        assert!(code != 3 || compare.stderr.contains("is INVALID"), "{what}: {compare:?}");
        let export = bench.run(&["export", &name, "--csv", "-o", "x.csv"]).expect_code(0);
        assert_eq!(export.stderr.contains("warning: "), warns, "{what}: {export:?}");
        let report = bench.run(&["report", &name, "--strict", "--junit", "j.xml"]);
        assert_eq!(report.code, Some(strict), "{what}: {report:?}");
        assert!(report.stdout.contains(sentence), "{what}: {}", report.stdout);
        let kept = std::fs::read(directory.join("results.json")).unwrap();
        if code == 0 && strict == 0 {
            continue;
        }
        assert!(
            report.stderr.contains("contains more than the log") == (kept == results),
            "{what}: {report:?}"
        );
        // What knew more is gone: the new one says what is known, in every place.
        for name in ["results.json", "report.html", "report.md", "badge.txt", "badge.json"] {
            let _ = std::fs::remove_file(directory.join(name));
        }
        let report = bench.run(&["report", &name, "--junit", "j.xml"]);
        assert_eq!(report.code, Some(code), "{what}: {report:?}");
        assert_no_pass(&bench, &directory, &report);
        let again: Value =
            serde_json::from_slice(&std::fs::read(directory.join("results.json")).unwrap()).unwrap();
        adds_up(&again);
        let outcome = if code == 3 { "INVALID" } else { "INCONCLUSIVE" };
        assert_eq!(again["verdict"]["outcome"], outcome, "{what}: {}", again["verdict"]);
    }
}

/// Between the program and the C library: calls on `run.log` that fail as `FAIL` says, from byte or call `FROM` on.
const FAILING_DISK: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>
static int fails(int fd, const char *call) {
    const char *fail = getenv("FAIL");
    char link[64], path[4096];
    if (!fail || strcmp(fail, call)) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 8) return 0;
    path[length] = 0;
    return strstr(path, "/run.log") != 0;
}
static long from(void) { return getenv("FROM") ? atol(getenv("FROM")) : 0; }
static long done;
ssize_t read(int fd, void *to, size_t size) {
    static ssize_t (*real)(int, void *, size_t);
    if (!real) real = dlsym(RTLD_NEXT, "read");
    if (!fails(fd, "read")) return real(fd, to, size);
    if (done >= from()) { errno = EIO; return -1; }
    if (size > 1000) size = 1000;
    ssize_t got = real(fd, to, size);
    if (got > 0) done += got;
    return got;
}
ssize_t pread64(int fd, void *to, size_t size, off64_t at) {
    static ssize_t (*real)(int, void *, size_t, off64_t);
    if (!real) real = dlsym(RTLD_NEXT, "pread64");
    if (fails(fd, "read") && at >= from()) { errno = EIO; return -1; }
    return real(fd, to, size, at);
}
ssize_t write(int fd, const void *bytes, size_t size) {
    static ssize_t (*real)(int, const void *, size_t);
    if (!real) real = dlsym(RTLD_NEXT, "write");
    if (!fails(fd, "write")) return real(fd, bytes, size);
    if (done >= from()) { errno = ENOSPC; return -1; }
    if (done + (long)size > from()) size = from() - done;
    ssize_t got = real(fd, bytes, size);
    if (got > 0) done += got;
    return got;
}
int fdatasync(int fd) {
    static int (*real)(int);
    if (!real) real = dlsym(RTLD_NEXT, "fdatasync");
    if (fails(fd, "fdatasync") && done++ >= from()) { errno = EIO; return -1; }
    return real(fd);
}
"#;

fn shim(bench: &Bench) -> Option<PathBuf> {
    let source = bench.write("disk.c", FAILING_DISK);
    let library = bench.path().join("disk.so");
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source).arg("-ldl");
    if compiler.output().is_ok_and(|output| output.status.success()) {
        return Some(library);
    }
    println!("skipped: install a C compiler");
    None
}

/// Runs a command whose calls on the log fail.
fn failing(bench: &Bench, shim: &Path, (call, from): (&str, u64), arguments: &[&str]) -> CommandOutput {
    let mut command = bench.command(arguments);
    command.env("LD_PRELOAD", shim).env("FAIL", call).env("FROM", from.to_string());
    Bench::end(&mut command)
}

#[test]
fn a_log_that_cannot_be_read_is_an_error_with_its_path_and_leaves_everything_as_it_was() {
    let server = server();
    let bench = scenario(&server, 9_000);
    let Some(shim) = shim(&bench) else { return };
    bench.run(&["run", "scenario.yaml", "-q"]).expect_code(0);
    let directory = bench.run_directory();
    let name = directory.to_str().unwrap();
    let length = std::fs::metadata(directory.join("run.log")).unwrap().len();
    let files = || {
        let mut names: Vec<_> =
            std::fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().path()).collect();
        names.sort();
        names
            .into_iter()
            .filter(|path| path.is_file())
            .map(|path| (std::fs::read(&path).unwrap(), path))
            .collect::<Vec<_>>()
    };
    let before = files();
    for from in [0, 5, 300, length / 2, length] {
        for arguments in [
            &["report", name, "--strict"][..],
            &["check", name],
            &["export", name, "--csv", "-o", "x.csv"],
            &["compare", name, name],
        ] {
            let ended = failing(&bench, &shim, ("read", from), arguments).expect_code(1);
            let said = &ended.stderr;
            assert!(said.contains("run.log cannot be read beyond byte"), "{from} {arguments:?}: {said}");
            assert!(
                said.contains("os error 5") && !ended.stdout.contains("PASS"),
                "{from} {arguments:?}: {said}"
            );
            assert!(before == files(), "{from} {arguments:?}: a file was changed");
        }
        assert!(!bench.path().join("x.csv").exists(), "no half of a table");
    }
    // The run itself reads its log, too.
    let bench = scenario(&server, 300);
    let ended =
        failing(&bench, &shim, ("read", 200), &["run", "scenario.yaml", "--junit", "j.xml"]).expect_code(1);
    assert!(ended.stderr.contains("run.log cannot be read beyond byte"), "{}", ended.stderr);
    assert_no_pass(&bench, &bench.run_directory(), &ended);
}

#[test]
fn a_disk_that_is_full_at_any_byte_of_the_log_never_lets_a_run_pass() {
    let server = server();
    let bench = scenario(&server, 3_000);
    let Some(shim) = shim(&bench) else { return };
    bench.run(&["run", "scenario.yaml", "-q"]).expect_code(0);
    let length = std::fs::metadata(bench.run_directory().join("run.log")).unwrap().len();
    let step = if is_long() { 151 } else { length / 7 };
    // Logs of two runs differ by some bytes.
    let near_the_end = [1, 20, 300, 700, 1100].map(|bytes| length - bytes);
    for from in (0..length).step_by(usize::try_from(step).unwrap()).chain(near_the_end) {
        let bench = scenario(&server, 3_000);
        let ended = failing(&bench, &shim, ("write", from), &["run", "scenario.yaml", "--junit", "j.xml"]);
        if ended.code == Some(0) {
            let written = std::fs::metadata(bench.run_directory().join("run.log")).unwrap().len();
            assert!(written <= from, "{from}: a log of {written} bytes is not all there");
            bench.results();
            continue;
        }
        let ended = ended.expect_code(1);
        assert!(ended.stderr.contains("cannot be written"), "{from}: {}", ended.stderr);
        let directory = bench.run_directory();
        assert_no_pass(&bench, &directory, &ended);
        if directory.join("results.json").exists() {
            let results = bench.results();
            assert_eq!(results["run"]["status"], "failed", "{from}");
            let tally = &results["record"]["tallies"][0];
            assert_eq!(tally["planned"], 3_000, "{from}: {tally}");
        }
        let report = bench.run(&["report", directory.to_str().unwrap(), "--strict"]);
        assert!(matches!(report.code, Some(1 | 3 | 4 | 65)), "{from}: {report:?}");
        assert_no_pass(&bench, &directory, &report);
    }
}

#[test]
fn an_end_that_cannot_be_brought_to_the_disk_fails_the_run_in_every_output() {
    let server = server();
    let bench = scenario(&server, 200);
    let Some(shim) = shim(&bench) else { return };
    let ended = failing(&bench, &shim, ("fdatasync", 1), &["run", "scenario.yaml", "--junit", "j.xml"])
        .expect_code(1);
    let directory = bench.run_directory();
    assert!(ended.stderr.contains("run.log cannot be written"), "{}", ended.stderr);
    assert!(ended.stdout.contains("INVALID"), "{}", ended.stdout);
    assert_no_pass(&bench, &directory, &ended);
    let results = bench.results();
    assert_eq!(
        (&results["run"]["status"], &results["verdict"]["outcome"]),
        (&"failed".into(), &"INVALID".into())
    );
    assert_eq!(results["workloads"][0]["iterations"]["ok"], 200, "what was measured is shown");
    let junit = std::fs::read_to_string(bench.path().join("j.xml")).unwrap();
    assert!(junit.contains("cannot be written"), "{junit}");
    let report = bench.run(&["report", directory.to_str().unwrap(), "--strict"]);
    assert!(report.code != Some(0), "{report:?}");
    assert_no_pass(&bench, &directory, &report);
}

#[test]
fn a_directory_that_is_deleted_during_the_run_is_named_and_the_figures_are_shown() {
    let server = server();
    for quiet in [false, true] {
        let bench = Bench::new();
        let runner = "runner: { constant_for_duration: { duration: 3s, concurrency: 2 } }";
        bench.load(&server.url(), "", &format!("{runner}\n{GET}\n{GATE}"));
        let mut command = bench.command(&["run", "scenario.yaml"]);
        if quiet {
            command.arg("-q");
        }
        let before = server.seen().len();
        let child = command
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        server.wait_for(before + 50);
        std::fs::remove_dir_all(bench.run_directory()).unwrap();
        let ended = CommandOutput::from(child.wait_with_output().unwrap()).expect_code(1);
        assert!(
            ended.stderr.contains("directory") && ended.stderr.contains("was deleted during the run"),
            "{}",
            ended.stderr
        );
        assert!(ended.stdout.contains("INVALID") && !ended.stdout.contains("PASS"), "{}", ended.stdout);
        assert_eq!(ended.stdout.contains("p99"), !quiet, "{}", ended.stdout);
        assert!(
            !ended.stdout.contains("report.html"),
            "no file is named that is not there: {}",
            ended.stdout
        );
    }
}

#[test]
fn a_small_disk_never_lets_a_run_pass() {
    let server = server();
    let sizes: Vec<u64> = if is_long() { (60..240).step_by(4).collect() } else { vec![80, 120, 160] };
    for size in sizes {
        let bench = scenario(&server, 20_000);
        let disk = bench.path().join("runs");
        std::fs::create_dir(&disk).unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &format!("size={size}k"), "tmpfs"]).arg(&disk);
        if !mount.output().is_ok_and(|output| output.status.success()) {
            println!("skipped: run as a user who may mount a tmpfs");
            return;
        }
        let ended = bench.run(&["run", "scenario.yaml", "--junit", "j.xml"]);
        let directory = bench.run_directory();
        let report = bench.run(&["report", directory.to_str().unwrap(), "--strict"]);
        let words = [&ended, &report].map(|ended| all_words(&bench, &directory, ended)).concat();
        let unmounted = Command::new("umount").arg(&disk).status().unwrap();
        assert!(unmounted.success());
        assert_eq!(ended.code, Some(1), "{size}k: {ended:?}");
        assert!(matches!(report.code, Some(1 | 3 | 4 | 65)), "{size}k: {report:?}");
        assert!(!words.contains("PASS ·") && !words.contains("PASS so far"), "{size}k: {words}");
    }
}
