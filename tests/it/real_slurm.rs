//! A real Slurm and a real mpirun start the shards of a load; `bench` makes one run of them.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::Value;

use crate::support::{Bench, CommandOutput, adds_up, service};

// Ten seconds, on a machine that has time for it.
const SCENARIO: &str = "runner: { constant: { times: 600, concurrency: 3 } }
iteration: [{ action: get, get: / }, { think: 50ms }]
sla: { failure_rate: { max: 0 } }";

/// A cluster, and the demo as the service under load.
struct Cluster {
    /// Two arrays at the same time would wait for each other.
    _alone: MutexGuard<'static, ()>,
    bench: Bench,
    configuration: String,
    demo: Child,
}

impl Cluster {
    /// `None` if there is none.
    fn new() -> Option<Self> {
        static ALONE: Mutex<()> = Mutex::new(());
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let configuration = service("BENCH_TEST_SLURM_CONF", "the slurm.conf of tests/real/slurm.sh")?;
        let bench = Bench::new();
        bench.write("load.yaml", format!("title: load\ndeployment: demo.yaml\n{SCENARIO}\n"));
        let mut demo = bench.command(&["demo", "--deployment", "demo.yaml"]);
        let demo = demo.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        wait_for("the demo", || bench.path().join("demo.yaml").exists().then_some(()));
        Some(Self { _alone: alone, bench, configuration, demo })
    }

    /// Runs one of Slurm's programs; returns what it printed.
    fn slurm(&self, program: &str, arguments: &[&str]) -> CommandOutput {
        let mut command = Command::new(program);
        command.current_dir(self.bench.path()).args(arguments).env("SLURM_CONF", &self.configuration);
        CommandOutput::from(command.output().unwrap())
    }

    /// Submits the script as `bench slurm` prints it; returns the number of the array.
    fn submit(&self, arguments: &[&str]) -> String {
        let own = ["slurm", "load.yaml", "--shards", "3", "--sbatch=--cpus-per-task=2"];
        let script = self.bench.run(&[&own, arguments].concat()).expect_code(0).stdout;
        self.bench.write("load.sbatch", script);
        let ended = self.slurm("sbatch", &["--parsable", "load.sbatch"]).expect_code(0);
        ended.stdout.trim().to_owned()
    }

    /// One field of what Slurm says of a job.
    fn field(&self, job: &str, field: &str) -> Option<String> {
        let said = self.slurm("scontrol", &["--oneliner", "show", "job", job]).stdout;
        let fields = said
            .lines()
            .next()?
            .split_whitespace()
            .find_map(|word| word.strip_prefix(field)?.strip_prefix('='));
        fields.map(str::to_owned)
    }

    fn await_state(&self, job: &str, states: &[&str]) -> String {
        wait_for(&format!("{job} to be {states:?}"), || {
            self.field(job, "JobState").filter(|state| states.contains(&state.as_str()))
        })
    }

    /// The end of the job that merges: its exit code, what it printed, and the results that it made, if it made some.
    fn merged(&self, array: &str) -> (String, String, Option<Value>) {
        let folder = self.bench.path().join(format!("runs/slurm-{array}"));
        let job = wait_for("the job that merges", || {
            let listed = self.slurm("squeue", &["--noheader", "--states=all", "--format=%i %j %E"]).stdout;
            let own = |line: &&str| line.contains("bench-merge") && said_by(self.bench.path(), array, line);
            listed.lines().find(own).map(|line| line.split_whitespace().next().unwrap().to_owned())
        });
        self.await_state(&job, &["COMPLETED", "FAILED"]);
        let code = self.field(&job, "ExitCode").unwrap();
        let said = std::fs::read_to_string(self.bench.path().join(format!("slurm-{job}.out"))).unwrap();
        let results = runs_in(&folder).pop().map(|run| {
            let results: Value =
                serde_json::from_slice(&std::fs::read(run.join("results.json")).unwrap()).unwrap();
            adds_up(&results);
            results
        });
        (code, said, results)
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let _ = self.demo.kill();
        let _ = self.demo.wait();
    }
}

/// Whether this line of squeue is of the job that the first task of this array submitted.
fn said_by(folder: &Path, array: &str, line: &str) -> bool {
    let said = std::fs::read_to_string(folder.join(format!("slurm-{array}_0.out"))).unwrap_or_default();
    let job = line.split_whitespace().next().unwrap_or_default();
    said.lines().any(|said| said == format!("Submitted batch job {job}"))
}

/// The runs that were merged, and not their shards.
fn runs_in(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.join("results.json").is_file()).collect()
}

/// Asks again and again, for two minutes at most.
#[track_caller]
fn wait_for<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    for _ in 0..600 {
        if let Some(found) = ask() {
            return found;
        }
        std::thread::sleep(Duration::from_millis(200));
    }
    panic!("waited in vain for {what}");
}

#[test]
fn real_slurm_runs_the_printed_script_and_a_killed_shard_again() {
    let Some(cluster) = Cluster::new() else { return };
    let array = cluster.submit(&["--", "--workers", "1"]);
    let (code, said, results) = cluster.merged(&array);
    let results = results.unwrap_or_else(|| panic!("{code} {said}"));
    assert_eq!((code.as_str(), &results["iterations"].as_array().unwrap().len()), ("0:0", &600), "{said}");
    assert!(said.contains("PASS · load on demo") && said.contains("3 shards on 1 machine"), "{said}");
    assert!(said.contains(" complete\n") && !said.contains("trace not fetched"), "{said}");

    let array = cluster.submit(&["--", "--workers", "1"]);
    let second = format!("{array}_1");
    cluster.await_state(&second, &["RUNNING"]);
    // The load lasts ten seconds from here.
    wait_for("its load", || {
        let said = std::fs::read_to_string(cluster.bench.path().join(format!("slurm-{second}.out"))).ok()?;
        said.contains("load: ").then_some(())
    });
    let meet = std::fs::read_dir(cluster.bench.path().join(format!("runs/slurm-{array}/meet"))).unwrap();
    let ready = meet.last().unwrap().unwrap().path().join("ready-1.json");
    let ready: Value = serde_json::from_slice(&std::fs::read(ready).unwrap()).unwrap();
    // It cannot end by itself when Slurm asks it to, as on a machine that fails, so it is killed.
    let stopped = Command::new("kill").args(["-STOP", &ready["pid"].to_string()]).status().unwrap();
    assert!(stopped.success());
    cluster.slurm("scontrol", &["requeue", &second]).expect_code(0);
    cluster.await_state(&second, &["PENDING"]);
    // Slurm would wait for two minutes. What begins in the same second as the first attempt ended is refused by the node.
    cluster.slurm("scontrol", &["update", &format!("JobId={second}"), "StartTime=now+3"]).expect_code(0);
    let (code, said, results) = cluster.merged(&array);
    let results = results.unwrap_or_else(|| panic!("{code} {said}"));
    assert_eq!((code.as_str(), results["iterations"].as_array().unwrap().len()), ("0:0", 600), "{said}");
    assert!(said.contains("shard 1 was begun 2 times"), "{said}");
}

#[test]
fn real_slurm_never_starts_one_of_the_shards() {
    let Some(cluster) = Cluster::new() else { return };
    // Of this array only two tasks run at a time.
    let script =
        cluster.bench.run(&["slurm", "load.yaml", "--shards", "3", "--wait", "3s"]).expect_code(0).stdout;
    cluster.bench.write("load.sbatch", script.replace("--array=0-2", "--array=0-2%2"));
    let array =
        cluster.slurm("sbatch", &["--parsable", "load.sbatch"]).expect_code(0).stdout.trim().to_owned();
    let (code, said, results) = cluster.merged(&array);
    assert_ne!(code, "0:0", "{said}");
    let first = std::fs::read_to_string(cluster.bench.path().join(format!("slurm-{array}_0.out"))).unwrap();
    assert!(first.contains("1 of 3 shards did not come within 3.00 s: 2"), "{first}");
    assert!(results.is_none_or(|results| results["run"]["status"] == "failed"), "{said}");
}

#[test]
fn real_slurm_and_mpirun_start_shards_without_a_script() {
    let Some(cluster) = Cluster::new() else { return };
    let program = env!("CARGO_BIN_EXE_bench");
    let run = |out: &str| -> Vec<String> {
        ["run", "load.yaml", "--quiet", "--workers", "1", "--together", "meet", "--out", out]
            .map(str::to_owned)
            .to_vec()
    };
    let launchers = [
        ("srun", vec!["--ntasks=3", "--nodes=3", program]),
        ("mpirun", vec!["--allow-run-as-root", "--oversubscribe", "-n", "3", program]),
    ];
    for (launcher, before) in launchers {
        let own = run(launcher);
        let arguments: Vec<&str> = before.into_iter().chain(own.iter().map(String::as_str)).collect();
        cluster.slurm(launcher, &arguments).expect_code(0);
        let merged =
            cluster.bench.run(&["merge", launcher, "--out", &format!("{launcher}/merged")]).expect_code(0);
        assert!(merged.stdout.contains("load: 600 iterations"), "{launcher}: {}", merged.stdout);
        assert!(merged.stdout.contains("200 iterations each"), "{launcher}: {}", merged.stdout);
    }
}
