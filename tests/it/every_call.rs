//! The n-th system call of a kind fails, for every n, under every command: `tests/faults/shim.c` is loaded between the
//! program and the C library.
//!
//! Whichever call fails: the command ends with the right exit code and message, no file is partly written, no good file
//! is damaged, and an incomplete result never passes. By default some n of each kind are tried; `BENCH_SLOW_TESTS=1`
//! tries all of them, also for `bench ab`.
//!
//! Not covered: calls that do not use the C library's functions by name. These are calls inside the C library (the
//! resolver, `readdir`), `statx`, `mmap`, `copy_file_range`, and work of the kernel after a call has returned.
#![cfg(target_os = "linux")]

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::server::ScriptedServer;
use crate::signals::signal;
use crate::streams::{ROWS, StreamCommandRow, Words, command, folder, is_long, prepared, row, whole_files};
use crate::support::{Bench, CommandOutput};

/// Longer than any of these commands may take, on a busy machine too.
const PATIENCE: Duration = Duration::from_secs(120);

/// What happens to a call.
struct SystemCallFault {
    call: &'static str,
    /// Below the folder of the test, unless it is another place.
    place: Option<&'static str>,
    /// The number of the error; 0: only half of the bytes are taken or given.
    error: i32,
    /// All that follow fail too.
    on: bool,
}

const fn once(call: &'static str, error: i32) -> SystemCallFault {
    SystemCallFault { call, place: None, error, on: false }
}

const fn on(call: &'static str, error: i32) -> SystemCallFault {
    SystemCallFault { call, place: None, error, on: true }
}

const fn at(place: &'static str, call: &'static str, error: i32) -> SystemCallFault {
    SystemCallFault { call, place: Some(place), error, on: false }
}

const EINTR: i32 = 4;
const EIO: i32 = 5;
const EACCES: i32 = 13;
const EMFILE: i32 = 24;
const ENOSPC: i32 = 28;
const EPIPE: i32 = 32;
const ECONNRESET: i32 = 104;
const HALF: i32 = 0;

const FAULTS: [SystemCallFault; 21] = [
    once("write", ENOSPC),
    on("write", ENOSPC),
    once("write", EINTR),
    once("write", HALF),
    once("read", EIO),
    once("read", EINTR),
    once("read", HALF),
    once("sync", EIO),
    on("sync", EIO),
    once("rename", EIO),
    once("mkdir", ENOSPC),
    once("open", EMFILE),
    on("open", EACCES),
    once("truncate", EIO),
    once("opendir", EACCES),
    at("stdio", "write", ENOSPC),
    at("stdio", "write", EPIPE),
    at("stdio", "write", EINTR),
    at("stdio", "write", HALF),
    at("sockets", "send", ECONNRESET),
    at("sockets", "recv", ECONNRESET),
];

impl SystemCallFault {
    /// A program that is written well does not notice.
    fn is_harmless(&self) -> bool {
        matches!(self.error, EINTR | HALF)
    }
}

const SERVED: &[&str] =
    &["results.json", "report.html", "report.md", "badge.txt", "badge.json", "../out.xml"];
const ITERATIONS: u64 = 40;

/// Beside those of the streams: against a server, so that files are the run's own.
const MORE: &[StreamCommandRow] = &[
    row("run load.yaml --out out --junit out.xml --traces pages", 0, Words::Verdict, SERVED),
    row("run slow.yaml --out out --junit out.xml", 2, Words::Verdict, SERVED),
    row("export run --jsonl -o out.jsonl", 0, Words::None, &["../out.jsonl"]),
    #[cfg(feature = "parquet")]
    row("export run --parquet -o out.parquet", 0, Words::None, &["../out.parquet"]),
    row("trace stats run --prof out.prof", 0, Words::None, &["../out.prof"]),
    row("trace show trace.json --html -o out.html", 0, Words::None, &["../out.html"]),
    row("report run --junit out.xml --traces pages", 0, Words::Verdict, &["report.html", "../out.xml"]),
    row("trace rank run trace.json -o out.txt", 0, Words::None, &["../out.txt"]),
    row("demo --deployment made.yaml", 0, Words::Verdict, &["../made.yaml"]),
];

/// Two builds, which takes a while.
const AB: StreamCommandRow = row(
    "ab load.yaml -d h.yaml -d h.yaml --out out --pairs 10 --junit out.xml",
    0,
    Words::Verdict,
    &["ab.json", "ab.html", "ab.md", "../out.xml"],
);

/// The shim, compiled; `None` without a C compiler.
fn shim() -> Option<&'static Path> {
    static SHIM: OnceLock<Option<(tempfile::TempDir, PathBuf)>> = OnceLock::new();
    let made = SHIM.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        let library = folder.path().join("shim.so");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/faults/shim.c");
        let mut compiler = Command::new("cc");
        compiler.args(["-O1", "-shared", "-fPIC", "-o"]).arg(&library).arg(source).arg("-ldl");
        let output = compiler.output().ok()?;
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Some((folder, library))
    });
    made.as_ref().map(|(_, library)| library.as_path())
}

/// The files that a command has to work with, and a scenario against a server.
fn folder_with_load() -> Bench {
    static SERVER: OnceLock<ScriptedServer> = OnceLock::new();
    let server =
        SERVER.get_or_init(|| ScriptedServer::start(|_, wire| wire.answer("200 OK", "text/plain", "ok")));
    let bench = folder();
    bench.write("h.yaml", format!("targets: {{ default: \"{}\" }}\n", server.url()));
    for (name, limit) in [("load.yaml", "max < 60s"), ("slow.yaml", "p50 < 1ns")] {
        let scenario = format!(
            "title: Calls\ndeployment: h.yaml\nrunner: {{ constant: {{ times: {ITERATIONS}, concurrency: 2 }} }}\n\
             iteration: [ {{ action: look, get: /, timeout: 2s, expect: {{ status: 200 }} }} ]\n\
             sla: {{ thresholds: [ {limit} ] }}\n"
        );
        bench.write(name, scenario);
    }
    bench
}

/// Waits for the end, within bounds; the demo ends when it is asked to.
fn end(mut command: Command, is_demo: bool) -> Result<CommandOutput, String> {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let (mut output, mut errors) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
    let output = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        output.read_to_end(&mut bytes).unwrap();
        bytes
    });
    let errors = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        errors.read_to_end(&mut bytes).unwrap();
        bytes
    });
    let (started, mut asked) = (Instant::now(), !is_demo);
    while child.try_wait().unwrap().is_none() {
        if !asked && started.elapsed() > Duration::from_millis(700) {
            asked = true;
            signal(&child, "TERM");
        }
        if started.elapsed() > PATIENCE {
            child.kill().unwrap();
            child.wait().unwrap();
            return Err("did not end".to_owned());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let code = child.wait().unwrap().code();
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Ok(CommandOutput { code, stdout: text(output.join().unwrap()), stderr: text(errors.join().unwrap()) })
}

/// All files below a folder.
fn contents(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    let mut pending = vec![folder.to_path_buf()];
    while let Some(path) = pending.pop() {
        if path.is_dir() {
            pending.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        } else {
            let name = path.strip_prefix(folder).unwrap().to_path_buf();
            files.insert(name, std::fs::read(&path).unwrap_or_default());
        }
    }
    files
}

/// What a command may write anew; everything else that was there stays as it was.
fn is_rewritten(name: &Path) -> bool {
    let derived = ["results.json", "report.html", "report.md", "badge.txt", "badge.json"];
    name.parent() == Some(Path::new("run")) && derived.iter().any(|file| name.ends_with(file))
        || name.extension().is_some_and(|extension| extension == "db")
}

/// A file that commands make on purpose.
fn is_known(name: &Path) -> bool {
    const KNOWN: [&str; 16] = [
        "json",
        "html",
        "xml",
        "parquet",
        "md",
        "txt",
        "csv",
        "jsonl",
        "1",
        "prof",
        "log",
        "db",
        "db-wal",
        "db-shm",
        "db-journal",
        "yaml",
    ];
    let extension = name.extension().unwrap_or_default().to_string_lossy();
    KNOWN.contains(&extension.as_ref())
}

/// The directory of the run that the command made, if it made one.
fn made_run(bench: &Bench) -> Option<PathBuf> {
    let entry = std::fs::read_dir(bench.path().join("out")).ok()?.next()?;
    Some(entry.unwrap().path())
}

fn iterations(run: &Path) -> Option<u64> {
    let bytes = std::fs::read(run.join("results.json")).ok()?;
    let results: Value = serde_json::from_slice(&bytes).ok()?;
    results["workloads"][0]["iterations"]["total"].as_u64()
}

/// Runs a command whose `nth` call fails. `Ok(false)` when it has fewer such calls; what is wrong otherwise.
fn run(library: &Path, row: &StreamCommandRow, fault: &SystemCallFault, nth: u64) -> Result<bool, String> {
    let bench = folder_with_load();
    let before = contents(bench.path());
    let fired = tempfile::tempdir().unwrap();
    let fired = fired.path().join("fired");
    let mut command = command(&bench, row);
    let place = fault.place.map_or_else(|| bench.path().canonicalize().unwrap(), PathBuf::from);
    command.env("LD_PRELOAD", library).env("FAULT_CALL", fault.call).env("FAULT_NTH", nth.to_string());
    command.env("FAULT_ERRNO", fault.error.to_string()).env("FAULT_WHERE", place);
    command.env("FAULT_THEN", if fault.on { "on" } else { "" }).env("FAULT_FIRED", &fired);
    let ended = end(command, row.arguments.starts_with("demo"))?;
    let (code, fired) = (ended.code, fired.exists());
    let shown = format!("{ended:?}");
    let wrong = |what: &str| Err(format!("{what}: {shown}"));
    // Files.
    std::panic::catch_unwind(|| whole_files(bench.path(), ""))
        .map_err(|panic| format!("{:?}: {shown}", panic.downcast_ref::<String>()))?;
    let after = contents(bench.path());
    if let Some(left) = after.keys().find(|name| !before.contains_key(*name) && !is_known(name)) {
        return wrong(&format!("{} is left", left.display()));
    }
    for (name, content) in before.iter().filter(|(name, _)| !is_rewritten(name)) {
        if after.get(name) != Some(content) {
            return wrong(&format!("{} was good and is damaged", name.display()));
        }
    }
    // Exit code and words.
    // Whether two builds that are the same differ is left to chance.
    let is_verdict = row.arguments.starts_with("ab") && matches!(code, Some(0 | 2 | 3));
    let unchanged = code == Some(row.code) || is_verdict && !ended.stderr.contains("error: ");
    if (!fired || fault.is_harmless()) && !unchanged {
        return wrong("another exit code without a reason");
    }
    if !unchanged && !matches!(code, Some(1 | 3 | 65 | 69)) {
        return wrong("a wrong exit code");
    }
    if ended.stderr.contains("panicked") {
        return wrong("a panic");
    }
    let run = made_run(&bench);
    if unchanged {
        for file in row.files {
            let folder = run.clone().unwrap_or_else(|| bench.path().join("run"));
            let path =
                file.strip_prefix("../").map_or_else(|| folder.join(file), |file| bench.path().join(file));
            if !path.is_file() {
                return wrong(&format!("{file} is missing"));
            }
        }
    } else if !ended.stderr.contains("error: ") && code != Some(3) {
        return wrong("it does not say what is wrong");
    } else if code != Some(3) && !names_what_failed(&ended.stderr, fault) {
        return wrong("it does not say where");
    }
    // Nothing that is incomplete passes, now or when it is read again.
    if let Some(run) =
        run.filter(|_| row.arguments.contains("load.yaml") || row.arguments.contains("slow.yaml"))
    {
        let passes = |ended: &CommandOutput| ended.code == Some(0) || ended.stdout.contains("PASS");
        if passes(&ended) && iterations(&run) != Some(ITERATIONS) {
            return wrong("it passes without all iterations");
        }
        if !unchanged && run.join("run.log").exists() {
            let again = bench.run(&["report", run.to_str().unwrap(), "--strict"]);
            if passes(&again) && iterations(&run) != Some(ITERATIONS) {
                return wrong(&format!("read again, it passes without all iterations: {again:?}"));
            }
        }
    }
    Ok(fired)
}

/// Whether a message has a name of what failed.
fn names_what_failed(stderr: &str, fault: &SystemCallFault) -> bool {
    let places: &[&str] = match fault.place {
        Some("stdio") => &["standard output"],
        Some(_) => &["127.0.0.1"],
        None => &[
            ".yaml", ".json", ".html", ".md", ".txt", ".xml", ".log", ".csv", ".prof", ".parquet", ".db",
            "run", "out", "other", "pages",
        ],
    };
    stderr.lines().any(|line| places.iter().any(|place| line.contains(place)))
}

/// Which n is tried after this one.
fn next(nth: u64, offset: usize, is_ab: bool) -> u64 {
    if is_long() && !is_ab { nth + 1 } else { nth * 3 + offset as u64 % 3 }
}

#[test]
fn any_call_may_fail_under_any_command() {
    let Some(library) = shim() else {
        println!("skipped: install a C compiler");
        return;
    };
    prepared();
    let rows = ROWS.iter().chain(MORE).chain(is_long().then_some(&AB));
    let all: Vec<(&StreamCommandRow, &SystemCallFault)> =
        rows.flat_map(|row| FAULTS.iter().map(move |fault| (row, fault))).collect();
    // Every command and every fault is among those of the short round.
    let cases: Vec<(&StreamCommandRow, &SystemCallFault)> =
        all.into_iter().step_by(if is_long() { 1 } else { 13 }).collect();
    let (at, tried, reached) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
    let problems = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                loop {
                    let number = at.fetch_add(1, Ordering::Relaxed);
                    let Some((row, fault)) = cases.get(number) else { break };
                    let mut nth = 1;
                    loop {
                        tried.fetch_add(1, Ordering::Relaxed);
                        match run(library, row, fault, nth) {
                            Ok(true) => {
                                reached.fetch_add(1, Ordering::Relaxed);
                            }
                            Ok(false) => break,
                            Err(problem) => {
                                let SystemCallFault { call, place, error, on, .. } = fault;
                                let place = place.unwrap_or("files");
                                let case = format!(
                                    "{}: {call} {nth} on {place}, error {error}, on {on}: {problem}",
                                    row.arguments
                                );
                                println!("{case}");
                                problems.lock().unwrap().push(case);
                            }
                        }
                        nth = next(nth, number, row.arguments.starts_with("ab"));
                    }
                }
            });
        }
    });
    let (tried, reached, problems) =
        (tried.into_inner(), reached.into_inner(), problems.into_inner().unwrap());
    println!("{reached} calls failed in {tried} commands");
    assert!(problems.is_empty(), "{} problems:\n{}", problems.len(), problems.join("\n"));
    assert!(reached > 40, "the shim is not reached");
}

/// The disk takes nothing from the first iteration until after the last: what is due goes out all the same, and all of
/// it is in the log in the end.
#[test]
fn a_disk_that_is_stuck_for_the_whole_load_holds_up_no_arrival() {
    const ARRIVALS: u64 = 300;
    let Some(library) = shim() else {
        println!("skipped: install a C compiler");
        return;
    };
    let server = ScriptedServer::start(|_, wire| wire.answer("200 OK", "text/plain", "ok"));
    let bench = Bench::new();
    bench.load(
        &server.url(),
        "",
        &format!(
            "runner: {{ rps: {{ rps: 200, times: {ARRIVALS} }} }}\niteration: [ {{ action: a, get: /x }} ]"
        ),
    );
    let (fired, released) = (bench.path().join("fired"), bench.path().join("released"));
    let mut command = bench.command(&["run", "scenario.yaml"]);
    command.env("LD_PRELOAD", library).env("FAULT_CALL", "write").env("FAULT_FIRED", &fired);
    // The first two writes are of before the load.
    command.env("FAULT_NTH", "3").env("FAULT_UNTIL", &released);
    command.env("FAULT_WHERE", bench.path().canonicalize().unwrap().join("runs"));
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    server.wait_for(usize::try_from(ARRIVALS).unwrap());
    let log = std::fs::metadata(bench.run_directory().join("run.log")).unwrap().len();
    assert!(fired.exists(), "the disk is stuck");
    bench.write("released", "");
    CommandOutput::from(child.wait_with_output().unwrap()).expect_code(0);
    let workload = &bench.results()["workloads"][0];
    assert_eq!(
        (&workload["iterations"]["total"], &workload["iterations"]["dropped"]),
        (&ARRIVALS.into(), &0.into())
    );
    let written = std::fs::metadata(bench.run_directory().join("run.log")).unwrap().len();
    assert!(written > log, "the iterations were written after the last of them: {log} of {written} bytes");
}

/// Traces are written without a sync of their own: one for all of them follows.
#[test]
fn traces_that_do_not_reach_the_disk_fail_the_command() {
    let Some(library) = shim() else {
        println!("skipped: install a C compiler");
        return;
    };
    let bench = Bench::new();
    bench.write("d.yaml", "demo: {}\n");
    let scenario =
        "title: t\ndeployment: d.yaml\nrunner: { constant: { times: 20 } }\niteration: [ { get: /v3 } ]\n";
    bench.write("s.yaml", scenario);
    bench.run(&["run", "s.yaml"]).expect_code(0);
    let run = bench.run_directory().canonicalize().unwrap();
    let traces = run.join("traces");
    std::fs::remove_dir_all(&traces).unwrap();
    let arguments = ["collect", run.to_str().unwrap()];
    let mut command = bench.command(&arguments);
    command.env("LD_PRELOAD", library).env("FAULT_CALL", "sync").env("FAULT_NTH", "1");
    command.env("FAULT_ERRNO", EIO.to_string()).env("FAULT_WHERE", &traces);
    let said = Bench::end(&mut command).expect_code(1).stderr;
    assert!(said.contains("traces cannot be written"), "{said}");
    bench.run(&arguments).expect_code(0);
}
