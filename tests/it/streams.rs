//! Standard input, output and error closed, broken, blocked or full, under every command.
//!
//! A closed or stopped reader changes no verdict, no exit code and no file. `BENCH_SLOW_TESTS=1` tries every fault with
//! every command instead of one or two.
#![cfg(unix)]

use std::fs::File;
use std::io::{PipeReader, Read as _, Write as _, pipe};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::server::ScriptedServer;
use crate::signals::{end, signal};
use crate::support::{Bench, CommandOutput, with_default_signals};

/// Longer than any of these commands may take, on a busy machine too.
const PATIENCE: Duration = Duration::from_secs(120);

/// What a command's standard output is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Words {
    /// A verdict, or a note about what was done: it may stay unread.
    Verdict,
    /// What the command was called for.
    Product,
    /// Nothing: everything goes to standard error.
    None,
}
use Words::{Product, Verdict};

/// A command, its exit code with all streams open, and the files that it must leave.
pub(crate) struct StreamCommandRow {
    pub(crate) arguments: &'static str,
    pub(crate) code: i32,
    pub(crate) words: Words,
    pub(crate) files: &'static [&'static str],
}

pub(crate) const fn row(
    arguments: &'static str,
    code: i32,
    words: Words,
    files: &'static [&'static str],
) -> StreamCommandRow {
    StreamCommandRow { arguments, code, words, files }
}

pub(crate) const RUN: &[&str] =
    &["results.json", "report.html", "report.md", "badge.txt", "badge.json", "../out.xml"];
const STORED: &[&str] = &["results.json", "report.html", "report.md", "badge.txt", "badge.json"];

pub(crate) const ROWS: [StreamCommandRow; 41] = [
    row("run pass.yaml --out out --junit out.xml", 0, Verdict, RUN),
    row("run fail.yaml --out out --junit out.xml", 2, Verdict, RUN),
    row("run pass.yaml --out out --junit out.xml --quiet", 0, Verdict, RUN),
    row("report run", 0, Verdict, STORED),
    row("check run --junit run/../out.xml", 0, Verdict, &["../out.xml"]),
    row("check run --sla fail.yaml --junit out.xml", 2, Verdict, &["../out.xml"]),
    row("validate pass.yaml fail.yaml", 0, Verdict, &[]),
    row("validate bad.yaml", 65, Words::None, &[]),
    row("validate pass.yaml bad.yaml fail.yaml", 65, Verdict, &[]),
    row("man pages", 0, Verdict, &["../pages/bench.1"]),
    row("trace verify -d d.yaml", 0, Verdict, &[]),
    row("compare run other", 0, Product, &[]),
    row("compare run other --json", 0, Product, &[]),
    row("compare run other --markdown -o out.md", 0, Words::None, &["../out.md"]),
    row("export run --csv", 0, Product, &[]),
    row("export run --jsonl --actions", 0, Product, &[]),
    row("export run --csv -o out.csv", 0, Words::None, &["../out.csv"]),
    row("schema scenario", 0, Product, &[]),
    row("runs --out .", 0, Product, &[]),
    row("runs --out . --json", 0, Product, &[]),
    row("prune --out . --keep 0", 0, Verdict, &[]),
    row("trace list run", 0, Product, &[]),
    row("trace show trace.json", 0, Product, &[]),
    row("trace show trace.json --json", 0, Product, &[]),
    row("trace show trace.json --html", 0, Product, &[]),
    row("trace diff trace.json trace.json", 0, Product, &[]),
    row("trace diff trace.json trace.json --json", 0, Product, &[]),
    row("trace show run", 0, Product, &[]),
    row("trace show big.json", 0, Product, &[]),
    row("trace show big.json --all", 0, Product, &[]),
    row("trace show big.json --json --compat", 0, Product, &[]),
    row("trace show big.json --html", 0, Product, &[]),
    row("trace show big.json --dot", 0, Product, &[]),
    row("trace rank run", 0, Product, &[]),
    row("trace stats run", 0, Product, &[]),
    row("trace headers -d d.yaml", 0, Product, &[]),
    row("completions bash", 0, Product, &[]),
    row("--help", 0, Product, &[]),
    row("--version", 0, Product, &[]),
    row("run --no-such-flag", 64, Words::None, &[]),
    row("report absent", 65, Words::None, &[]),
];

const SCENARIO: &str = "title: Streams
deployment: demo.yaml
runner: { constant: { times: 20, concurrency: 2 } }
iteration: [ { action: look, get: /, expect: { status: 200 } } ]
sla: { thresholds: [ LIMIT ] }
";

/// A folder with two runs of the demo, one of their traces, and the files for another.
pub(crate) fn prepared() -> &'static Bench {
    static PREPARED: OnceLock<Bench> = OnceLock::new();
    PREPARED.get_or_init(|| {
        let bench = Bench::new();
        bench.write("demo.yaml", "name: demo\ndemo: {}\n");
        bench.write("d.yaml", "targets: { default: http://h }\nprofiler: { hmac_keys: [first] }\n");
        bench.write("pass.yaml", SCENARIO.replace("LIMIT", "max < 60s"));
        bench.write("fail.yaml", SCENARIO.replace("LIMIT", "p50 < 1ns"));
        bench.write("bad.yaml", SCENARIO.replace("LIMIT", "no such thing").replace("title", "titel"));
        for name in ["run", "other"] {
            bench.run(&["run", "pass.yaml"]).expect_code(0);
            std::fs::rename(bench.run_directory(), bench.path().join(name)).unwrap();
        }
        let trace = std::fs::read_dir(bench.path().join("run/traces")).unwrap().next().unwrap().unwrap();
        std::fs::copy(trace.path(), bench.path().join("trace.json")).unwrap();
        bench.write("big.json", Value::Array((0..2_000).flat_map(point).collect()).to_string());
        let headers = bench.run(&["trace", "headers", "-d", "d.yaml", "--format", "json"]).expect_code(0);
        bench.write("input", headers.stdout);
        bench
    })
}

/// The records of a point of a trace that is longer than any buffer.
fn point(number: u32) -> [Value; 2] {
    ["start", "stop"].map(|end| {
        json!({
            "base_id": "base", "parent_id": "base", "trace_id": format!("point-{number}"), "name": format!("db-{end}"),
            "project": "p", "service": "s", "timestamp": format!("2026-01-01T00:00:00.{number:06}"),
            "info": { "db": { "statement": format!("SELECT {number} FROM a_table_with_a_long_name") } },
        })
    })
}

/// A copy of what is prepared.
pub(crate) fn folder() -> Bench {
    let bench = Bench::new();
    let from = prepared().path().join(".");
    let copied = Command::new("cp").arg("-R").arg(from).arg(bench.path()).status().unwrap();
    assert!(copied.success());
    bench
}

/// What is wrong with a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StreamFault {
    /// Its reader has gone.
    Broken,
    /// Nobody reads, and the pipe is full.
    Blocked,
    /// A full disk.
    Full,
}

/// A pipe that takes nothing more; the reader must stay.
fn blocked_pipe() -> (PipeReader, Stdio) {
    let (reader, mut writer) = pipe().unwrap();
    rustix::io::ioctl_fionbio(&writer, true).unwrap();
    for size in [4096, 1] {
        let bytes = vec![b'.'; size];
        while writer.write(&bytes).is_ok() {}
    }
    rustix::io::ioctl_fionbio(&writer, false).unwrap();
    (reader, writer.into())
}

fn faulty(fault: StreamFault) -> (Option<PipeReader>, Stdio) {
    match fault {
        StreamFault::Broken => (None, pipe().unwrap().1.into()),
        StreamFault::Blocked => {
            let (reader, writer) = blocked_pipe();
            (Some(reader), writer)
        }
        StreamFault::Full => (None, File::options().write(true).open("/dev/full").unwrap().into()),
    }
}

pub(crate) fn command(bench: &Bench, row: &StreamCommandRow) -> Command {
    let mut command = bench.command(&row.arguments.split(' ').collect::<Vec<_>>());
    command.stdin(File::open(bench.path().join("input")).unwrap());
    command
}

/// Every file that was asked for is there and whole, and none is half written.
fn assert_files(bench: &Bench, row: &StreamCommandRow, shown: &str) {
    let run = bench.path().join("out");
    let run = std::fs::read_dir(run).ok().and_then(|mut entries| entries.next());
    let run = run.map_or_else(|| bench.path().join("run"), |entry| entry.unwrap().path());
    for file in row.files {
        let file = file.strip_prefix("../").map_or_else(|| run.join(file), |file| bench.path().join(file));
        assert!(file.is_file(), "{} is missing: {shown}", file.display());
    }
    whole_files(bench.path(), shown);
}

/// Every file below a folder is what its name says, from its beginning to its end.
pub(crate) fn whole_files(folder: &Path, shown: &str) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            whole_files(&path, shown);
            continue;
        }
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        assert!(!name.contains(".part"), "{} is left: {shown}", path.display());
        let Ok(bytes) = std::fs::read(&path) else { continue };
        let text = String::from_utf8_lossy(&bytes);
        let ends = |end: &str| text.trim_end().ends_with(end);
        let whole = match name.rsplit_once('.').map_or("", |(_, extension)| extension) {
            "json" => serde_json::from_slice::<Value>(&bytes).is_ok(),
            "html" => ends("</html>"),
            "xml" => ends("</testsuites>"),
            "parquet" => bytes.ends_with(b"PAR1"),
            "md" | "txt" | "csv" | "jsonl" | "1" => bytes.ends_with(b"\n"),
            _ => true,
        };
        assert!(whole, "{} is not whole: {shown}", path.display());
    }
}

/// Whether everything is to be tried.
pub(crate) fn is_long() -> bool {
    std::env::var_os("BENCH_SLOW_TESTS").is_some_and(|value| !value.is_empty())
}

/// The faults to try on a row: one after another, so that all are tried on some.
fn faults_for(row: &StreamCommandRow) -> Vec<StreamFault> {
    let all = [StreamFault::Broken, StreamFault::Blocked, StreamFault::Full];
    let number = ROWS.iter().position(|other| other.arguments == row.arguments).unwrap_or_default();
    if is_long() { all.to_vec() } else { vec![all[number % all.len()]] }
}

/// Runs every row in a separate folder, several at a time.
fn each_row(check: impl Fn(&Bench, &StreamCommandRow) + Sync) {
    prepared();
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                while let Some(row) = ROWS.get(next.fetch_add(1, Ordering::Relaxed)) {
                    check(&folder(), row);
                }
            });
        }
    });
}

#[test]
fn every_command_ends_as_it_should_with_its_streams_open() {
    each_row(|bench, row| {
        let ended = Bench::end(&mut command(bench, row));
        let shown = format!("{}: {ended:?}", row.arguments);
        assert_eq!(ended.code, Some(row.code), "{shown}");
        assert_eq!(row.words == Words::None, ended.stdout.is_empty(), "{shown}");
        assert_files(bench, row, &shown);
    });
}

#[test]
fn a_faulty_standard_output_changes_no_verdict_and_no_file() {
    each_row(|bench, row| {
        let mut faults = faults_for(row);
        if !faults.contains(&StreamFault::Broken) {
            faults.push(StreamFault::Broken);
        }
        for fault in faults {
            let mut command = command(bench, row);
            let (reader, stdout) = faulty(fault);
            let mut child = command.stdout(stdout).stderr(Stdio::piped()).spawn().unwrap();
            if fault == StreamFault::Blocked && row.words == Product {
                // It waits for its reader, and a signal ends it.
                std::thread::sleep(Duration::from_secs(1));
                assert!(child.try_wait().unwrap().is_none(), "{} did not wait", row.arguments);
                signal(&child, "TERM");
                assert_eq!(ended(child).code, None, "{}", row.arguments);
                continue;
            }
            let ended = ended(child);
            drop(reader);
            let shown = format!("{} with {fault:?}: {ended:?}", row.arguments);
            let unwritten = fault == StreamFault::Full && row.words != Words::None;
            let code = if unwritten && row.code == 0 { 1 } else { row.code };
            assert_eq!(ended.code, Some(code), "{shown}");
            assert_eq!(ended.stderr.contains("standard output cannot be written"), unwritten, "{shown}");
            assert_files(bench, row, &shown);
            let _ = std::fs::remove_dir_all(bench.path().join("out"));
        }
    });
}

#[test]
fn a_faulty_standard_error_changes_nothing() {
    each_row(|bench, row| {
        for fault in faults_for(row) {
            let mut command = command(bench, row);
            let (reader, stderr) = faulty(fault);
            let ended = ended(command.stdout(Stdio::piped()).stderr(stderr).spawn().unwrap());
            drop(reader);
            let shown = format!("{} with {fault:?}: {ended:?}", row.arguments);
            assert_eq!(ended.code, Some(row.code), "{shown}");
            assert_eq!(row.words == Words::None, ended.stdout.is_empty(), "{shown}");
            assert_files(bench, row, &shown);
            let _ = std::fs::remove_dir_all(bench.path().join("out"));
        }
    });
}

/// A descriptor that is free is given to the next file that is opened, which would then be printed into.
#[test]
fn closed_streams_are_not_taken_for_the_files_that_are_opened_next() {
    let each = [">&-", "2>&-", "<&-"].into_iter().filter(|_| is_long());
    for closed in each.chain(["<&- >&- 2>&-"]) {
        each_row(|bench, row| {
            let mut command = Command::new("sh");
            command.current_dir(bench.path()).env("NO_COLOR", "1");
            let script = format!("exec \"$0\" {} <input {closed}", row.arguments);
            let ended = Bench::end(command.args(["-c", &script, env!("CARGO_BIN_EXE_bench")]));
            let shown = format!("{} {closed}: {ended:?}", row.arguments);
            // Headers that cannot be read are not headers.
            let unread = closed.contains('<') && row.arguments.contains("verify");
            assert_eq!(ended.code, Some(if unread { 65 } else { row.code }), "{shown}");
            assert_files(bench, row, &shown);
        });
    }
}

/// Waits for the end, within bounds.
#[track_caller]
fn ended(mut child: Child) -> CommandOutput {
    let until = Instant::now() + PATIENCE;
    let (mut stdout, mut stderr) = (child.stdout.take(), child.stderr.take());
    std::thread::scope(|scope| {
        let mut text = String::new();
        let errors = scope.spawn(move || {
            let mut text = String::new();
            stderr.as_mut().map(|stderr| stderr.read_to_string(&mut text));
            text
        });
        let output = scope.spawn(move || {
            stdout.as_mut().map(|stdout| stdout.read_to_string(&mut text));
            text
        });
        while child.try_wait().unwrap().is_none() {
            if Instant::now() > until {
                child.kill().unwrap();
                panic!("did not end; it said: {}", errors.join().unwrap());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let code = child.wait().unwrap().code();
        CommandOutput { code, stdout: output.join().unwrap(), stderr: errors.join().unwrap() }
    })
}

/// A load that would never end.
fn endless(bench: &Bench, server: &ScriptedServer) {
    let get = "iteration: [ { action: a, get: '/x?{{ trace_id }}' } ]";
    bench.load(
        &server.url(),
        "",
        &format!("runner: {{ constant: {{ times: 1000000, concurrency: 4 }} }}\n{get}"),
    );
}

#[test]
fn with_both_streams_blocked_a_signal_still_ends_a_load_with_all_its_files() {
    let server = ScriptedServer::answering_after(Duration::from_millis(2));
    let bench = Bench::new();
    endless(&bench, &server);
    let ((_out, stdout), (_err, stderr)) = (blocked_pipe(), blocked_pipe());
    let child = bench.command(&["run", "scenario.yaml"]).stdout(stdout).stderr(stderr).spawn().unwrap();
    server.wait_for(200);
    signal(&child, "TERM");
    end(child).expect_code(105);
    assert_eq!(bench.results()["run"]["status"], "interrupted");
    let rows = bench.results()["iterations"].as_array().unwrap().len();
    assert_eq!(rows as u64, bench.results()["workloads"][0]["iterations"]["total"]);
    assert!(rows >= 200, "the load went on: {rows}");
}

#[test]
fn the_demo_ends_at_a_signal_whatever_became_of_its_streams() {
    for fault in [StreamFault::Broken, StreamFault::Blocked] {
        let bench = Bench::new();
        let ((_reader, stdout), temporary) = (faulty(fault), bench.path().join("tmp"));
        std::fs::create_dir(&temporary).unwrap();
        let mut command = with_default_signals(&bench.command(&["demo", "--deployment", "d.yaml"]));
        let child = command.env("TMPDIR", &temporary).stdout(stdout).stderr(Stdio::piped()).spawn().unwrap();
        let until = Instant::now() + PATIENCE;
        while !bench.path().join("d.yaml").exists() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(10));
        }
        signal(&child, "HUP");
        end(child).expect_code(0);
        assert_eq!(std::fs::read_dir(&temporary).unwrap().count(), 0, "its folder is gone");
        whole_files(bench.path(), "demo");
    }
}

/// Otherwise the system would end the process, with half a file left.
#[test]
fn a_limit_on_the_size_of_files_is_met_as_a_full_disk() {
    for arguments in [
        "report run",
        "report run --junit out.xml --traces pages",
        "compare run other --json -o out.json",
        "export run --csv -o out.csv",
        "export run --jsonl -o out.jsonl",
        "trace show trace.json --html -o out.html",
        "man pages",
    ] {
        let bench = folder();
        let mut command = Command::new("sh");
        let script = format!("ulimit -f 1; exec \"$0\" {arguments}");
        let command = command.current_dir(bench.path()).args(["-c", &script, env!("CARGO_BIN_EXE_bench")]);
        let ended = Bench::end(command);
        let shown = format!("{arguments}: {ended:?}");
        assert_eq!(ended.code, Some(1), "{shown}");
        assert!(ended.stderr.contains("File too large"), "{shown}");
        whole_files(bench.path(), &shown);
    }
}
