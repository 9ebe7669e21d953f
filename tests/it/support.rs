//! Shared by several tests: the binary in a temporary folder, and the results of a run.

use std::ffi::OsStr;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::Value;

use crate::rewind;

/// An address that nobody listens at. What asks the system for any port never gets it: those ports are above 32,000.
pub(crate) fn free_address() -> SocketAddr {
    static GIVEN: AtomicU16 = AtomicU16::new(0);
    // Other processes of tests have others.
    let first = 10_000 + (std::process::id() % 100) as u16 * 100;
    loop {
        let port = first + GIVEN.fetch_add(1, Ordering::Relaxed) % 100;
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        if TcpListener::bind(address).is_ok() {
            return address;
        }
    }
}

/// How often a load is made on a machine that is too busy for it.
const TRIES: u32 = 4;

/// A temporary folder in which the binary runs, with a clean environment.
pub(crate) struct Bench {
    folder: tempfile::TempDir,
}

impl Bench {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Writes a file into the folder.
    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path().join(name);
        std::fs::write(&path, content).unwrap();
        path
    }

    /// The command, not yet started.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_bench"));
        command.current_dir(self.path()).args(arguments).env("NO_COLOR", "1").env_remove("OS_AUTH_URL");
        command.env_remove("OSPROFILER_CONNECTION_STRING").env_remove("GITHUB_STEP_SUMMARY");
        command
    }

    /// Runs the command to its end.
    pub(crate) fn run(&self, arguments: &[&str]) -> CommandOutput {
        Self::end(&mut self.command(arguments))
    }

    /// Writes `scenario.yaml`, which has these keys, and a deployment whose default target is `url`
    /// and which has these further keys.
    pub(crate) fn load(&self, url: &str, deployment: &str, scenario: &str) {
        self.write("deployment.yaml", format!("targets: {{ default: \"{url}\" }}\n{deployment}\n"));
        self.write("scenario.yaml", format!("title: t\ndeployment: deployment.yaml\n{scenario}\n"));
    }

    /// Runs a command that [`Bench::command`] made to its end. A load that other programs of the machine disturbed is made
    /// again, as its user would.
    pub(crate) fn end(command: &mut Command) -> CommandOutput {
        let mut discarded = std::env::var_os("BENCH_TEST_LOADS_TWICE").is_none();
        for _ in 1..TRIES {
            let services = rewind::StateRewind::load();
            let before = directories_of_runs(command);
            let ended = CommandOutput::from(command.output().unwrap());
            let mut new = directories_of_runs(command);
            new.retain(|directory| !before.contains(directory));
            let is_good = discarded || new.is_empty();
            discarded |= !new.is_empty();
            if is_good && !ended.was_disturbed() && !new.iter().any(|directory| was_disturbed(directory)) {
                return ended;
            }
            for directory in new {
                std::fs::remove_dir_all(directory).unwrap();
            }
            services.again();
        }
        CommandOutput::from(command.output().unwrap())
    }

    /// The only run directory below `runs/`.
    pub(crate) fn run_directory(&self) -> PathBuf {
        let mut entries: Vec<_> = std::fs::read_dir(self.path().join("runs")).unwrap().collect();
        assert_eq!(entries.len(), 1);
        entries.remove(0).unwrap().path()
    }

    /// The results of the only run, whose iterations add up.
    #[track_caller]
    pub(crate) fn results(&self) -> Value {
        let path = self.run_directory().join("results.json");
        let results: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        adds_up(&results);
        assert!(!results["verdict"]["invalid"].to_string().contains("lost count"), "{}", results["verdict"]);
        results
    }
}

/// A process that does not outlive its test.
pub(crate) struct ChildGuard(Option<Child>);

/// The same command with signals as a shell at a terminal gives them: what `nohup` or a shell's `&` started inherits
/// that some are ignored.
pub(crate) fn with_default_signals(command: &Command) -> Command {
    let mut own = Command::new("env");
    own.arg("--default-signal=HUP,INT,QUIT,TERM").arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => own.env(name, value),
            None => own.env_remove(name),
        };
    }
    if let Some(folder) = command.get_current_dir() {
        own.current_dir(folder);
    }
    own
}

impl ChildGuard {
    pub(crate) fn start(command: &mut Command) -> Self {
        Self(Some(command.spawn().unwrap()))
    }

    /// Ends it as Ctrl-C does.
    pub(crate) fn interrupt(self) -> CommandOutput {
        let id = self.0.as_ref().unwrap().id().to_string();
        assert!(Command::new("kill").args(["-INT", &id]).status().unwrap().success());
        self.end()
    }

    /// Waits until it has ended.
    pub(crate) fn end(mut self) -> CommandOutput {
        CommandOutput::from(self.0.take().unwrap().wait_with_output().unwrap())
    }
}

impl Drop for ChildGuard {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Asserts the invariant of results: issued = ok + failed + aborted + unrecorded; where a number was planned, planned =
/// issued + dropped + not started; after a crash the unknown terms are null. The iterations that are listed are counted
/// anew.
#[track_caller]
pub(crate) fn adds_up(results: &Value) {
    let (record, rows) = (&results["record"], results["iterations"].as_array().unwrap());
    assert_eq!(
        (&record["rows"], &results["iterations_omitted"]),
        (&rows.len().into(), &0.into()),
        "{record}"
    );
    let tallies = record["tallies"].as_array().unwrap();
    assert_eq!(tallies.len(), results["workloads"].as_array().unwrap().len());
    let has_end = record["rows_expected"].is_u64();
    assert!(has_end || results["run"]["status"] == "recovered" || record["state"] == "complete", "{record}");
    for (number, tally) in tallies.iter().enumerate() {
        let count = |outcome: &str| {
            let one = |row: &&Value| row["workload"] == number && row["outcome"] == outcome;
            rows.iter().filter(one).count() as u64
        };
        for outcome in ["ok", "failed", "aborted"] {
            assert_eq!(tally[outcome], count(outcome), "{outcome}: {tally}");
        }
        let ended = count("ok") + count("failed") + count("aborted");
        let Some(issued) = tally["issued"].as_u64() else {
            for unknown in ["issued", "unrecorded", "dropped", "not_started"] {
                assert!(tally[unknown].is_null(), "{unknown} cannot be known: {tally}");
            }
            continue;
        };
        // Of a log that is damaged some are missing; a forged log is reported.
        let told = results["verdict"]["invalid"].to_string().contains("lost count");
        if record["state"] == "complete" && !told {
            assert_eq!(tally["dropped"], count("dropped"), "{tally}");
            assert_eq!(issued, ended + tally["unrecorded"].as_u64().unwrap(), "{tally}");
            if let Some(planned) = tally["planned"].as_u64() {
                let rest = tally["dropped"].as_u64().unwrap() + tally["not_started"].as_u64().unwrap();
                assert_eq!(planned, issued + rest, "{tally}");
            }
        }
    }
    if results["verdict"]["outcome"] == "PASS" {
        assert_eq!((&record["state"], &record["bytes_lost"]), (&"complete".into(), &0.into()), "{record}");
    }
}

/// A command that has ended.
#[derive(Debug)]
pub(crate) struct CommandOutput {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl From<Output> for CommandOutput {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

/// The run directories in the folder that a command writes its runs to.
fn directories_of_runs(command: &Command) -> Vec<PathBuf> {
    let arguments: Vec<&OsStr> = command.get_args().collect();
    let out = arguments.iter().position(|argument| *argument == "--out").and_then(|at| arguments.get(at + 1));
    let Some(folder) = command.get_current_dir() else { return Vec::new() };
    let entries = std::fs::read_dir(folder.join(out.unwrap_or(&OsStr::new("runs")))).into_iter().flatten();
    entries.map(|entry| entry.unwrap().path()).filter(|path| path.is_dir()).collect()
}

/// Why a run says nothing if other programs kept bench from the processors.
const DISTURBED: [&str; 3] =
    ["kept from running", "bench waited for a processor", "too busy with other processes"];

/// True if the run in this directory is INVALID because of other programs, also if it has no gate.
fn was_disturbed(directory: &Path) -> bool {
    let Ok(results) = std::fs::read(directory.join("results.json")) else { return false };
    let results: Value = serde_json::from_slice(&results).unwrap_or_default();
    let invalid = results["verdict"]["invalid"].to_string();
    DISTURBED.iter().any(|reason| invalid.contains(reason))
}

/// Whether a text says that other programs kept bench from the processors.
pub(crate) fn tells_of_disturbance(text: &str) -> bool {
    DISTURBED.iter().any(|reason| text.contains(reason))
}

impl CommandOutput {
    /// True if there is no verdict because other programs kept bench from the processors.
    pub(crate) fn was_disturbed(&self) -> bool {
        self.code == Some(3) && tells_of_disturbance(&self.stdout)
    }

    /// Asserts the exit code, showing what was printed if it is another.
    #[track_caller]
    pub(crate) fn expect_code(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "stdout:\n{}\nstderr:\n{}", self.stdout, self.stderr);
        self
    }
}

/// The value of a variable that names a real service; says that the test is skipped if it is not set.
pub(crate) fn service(variable: &str, what: &str) -> Option<String> {
    let value = std::env::var(variable).ok().filter(|value| !value.is_empty());
    if value.is_none() {
        println!("skipped: set {variable} to {what}, or run eval \"$(tests/real/up.sh)\" first");
    }
    value
}

/// Held by tests that count what is in the real redis, or write to it.
pub(crate) fn redis_to_oneself() -> MutexGuard<'static, ()> {
    static REDIS: Mutex<()> = Mutex::new(());
    REDIS.lock().unwrap_or_else(PoisonError::into_inner)
}
