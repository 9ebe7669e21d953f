//! What only another process shows: a stripped program, a timer that is forbidden, a signal that is taken or blocked.
//!
//! The other process is this test program, which runs the test `child`.

use std::process::{Command, Stdio};
use std::sync::Arc;

use super::burning::{TASKS, rounds_per_ms};
use super::{seen, turn};
use crate::functions::settings::{HZ_MAX, Settings};
use crate::profiler;
use crate::tests::{MemoryNotifier, trace};

const ROLE: &str = "OSPROFILER_TEST_CHILD";

/// Runs the part of a test that needs a process of its own.
#[test]
fn child() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let _turn = turn();
    if role == "handler" {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let _guard = runtime.enter();
        let profiling = tokio::signal::unix::SignalKind::from_raw(27);
        let _taken = tokio::signal::unix::signal(profiling).unwrap();
        println!("start: {}", Settings::new().start().unwrap_err());
        return;
    }
    let functions = match Settings::new().name("one").name("two").hz(HZ_MAX).start() {
        Ok(functions) => functions,
        Err(error) => return println!("start: {error}"),
    };
    let notifier = Arc::<MemoryNotifier>::default();
    let root = trace(&notifier, None);
    let per_ms = rounds_per_ms();
    root.run(|| profiler::trace_sync("one", (), || TASKS[0][0](per_ms * 300)));
    root.run(|| profiler::trace_sync("two", (), || TASKS[0][0](per_ms * 900)));
    drop(root);
    assert!(functions.flush());
    for total in functions.totals() {
        let names = seen(&total).into_keys().filter(|name| name.starts_with("task0")).count();
        println!("{}: {} samples, {names} names, {}", total.operation, total.samples(), total.header());
    }
}

/// What the child prints when it is started with these arguments before the program.
fn run(program: &std::path::Path, before: &[&str], role: &str) -> String {
    let mut words: Vec<&std::ffi::OsStr> = before.iter().map(std::ffi::OsStr::new).collect();
    words.push(program.as_os_str());
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).args(["tests::functions::children::child", "--exact", "--nocapture"]);
    let output = command.env(ROLE, role).stdin(Stdio::null()).output().unwrap();
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{printed}{}", String::from_utf8_lossy(&output.stderr));
    printed
}

fn this_program() -> std::path::PathBuf {
    std::env::current_exe().unwrap()
}

/// The samples that a line of the child tells.
fn samples(printed: &str, operation: &str) -> u64 {
    let line = printed.lines().find_map(|line| line.strip_prefix(&format!("{operation}: "))).unwrap();
    line.split(' ').next().unwrap().parse().unwrap()
}

#[test]
fn in_a_stripped_program_names_are_gone_and_owners_stay() {
    let folder = tempfile::tempdir().unwrap();
    let stripped = folder.path().join("stripped");
    let strip = Command::new("strip").arg("-o").arg(&stripped).arg(this_program()).status();
    if !strip.is_ok_and(|status| status.success()) {
        println!("skipped: no strip");
        return;
    }
    let printed = run(&stripped, &[], "stripped");
    assert!(printed.contains("0 names") && printed.contains("it has no names"), "{printed}");
    let (one, two) = (samples(&printed, "one"), samples(&printed, "two"));
    assert!(one > 0 && two > one, "{printed}");
    let printed = run(&this_program(), &[], "whole");
    assert!(printed.contains("1 names") && !printed.contains("it has no names"), "{printed}");
}

#[test]
fn a_signal_that_is_taken_or_blocked_and_a_timer_that_is_forbidden_are_said() {
    let handler = run(&this_program(), &[], "handler");
    assert!(handler.contains("start: start sampling functions: another part of this process"), "{handler}");
    if Command::new("python3").arg("--version").output().is_err() {
        println!("skipped: no python3");
        return;
    }
    let blocked = "import os, signal, sys; signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGPROF}); \
                   os.execv(sys.argv[1], sys.argv[1:])";
    let printed = run(&this_program(), &["python3", "-c", blocked], "blocked");
    assert!(printed.contains("SIGPROF is blocked"), "{printed}");
    if cfg!(target_arch = "x86_64") {
        let printed = run(&this_program(), &["python3", "-c", FORBID_SETITIMER], "forbidden");
        assert!(printed.contains("a seccomp profile may forbid"), "{printed}");
    }
}

/// Runs a program that may not call setitimer (number 38 on x86-64), as a container's seccomp profile would have it.
const FORBID_SETITIMER: &str = r#"
import ctypes, os, struct, sys
code = [(0x20, 0, 0, 0), (0x15, 0, 1, 38), (0x06, 0, 0, 0x00050001), (0x06, 0, 0, 0x7fff0000)]
filters = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *line) for line in code))
program = struct.pack("HxxxxxxQ", len(code), ctypes.addressof(filters))
libc = ctypes.CDLL(None, use_errno=True)
assert libc.prctl(38, 1, 0, 0, 0) == 0
assert libc.prctl(22, 2, ctypes.create_string_buffer(program), 0, 0) == 0, ctypes.get_errno()
os.execv(sys.argv[1], sys.argv[1:])
"#;
