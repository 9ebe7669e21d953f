//! Rally itself and `bench` run the same task file, and report the same: atomic actions, counts, hooks, outcomes. Their
//! durations are printed side by side.

use std::process::Command;

use serde_json::Value;

use crate::rally::answering;
use crate::server::ScriptedServer;
use crate::support::Bench;

#[test]
fn real_rally_runs_the_same_task() {
    let Some(rally) = std::env::var_os("BENCH_TEST_RALLY") else {
        println!("skipped: BENCH_TEST_RALLY names no program; see tests/real/rally.sh");
        return;
    };
    let (bench, server) = (Bench::new(), ScriptedServer::start(answering));
    bench.write("task.yaml", include_str!("../vectors/rally/both.yaml"));
    let arguments = format!("{{\"url\": \"{}\"}}", server.url());
    let config = format!("[database]\nconnection = sqlite:///{}/rally.db\n", bench.path().display());
    bench.write("rally.conf", config);
    let call = |arguments: &[&str]| {
        let mut command = Command::new(&rally);
        command.args(["--config-file", "rally.conf"]).args(arguments).current_dir(bench.path());
        let output = command.env("HOME", bench.path()).output().unwrap();
        let all =
            String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        (output.status.success(), all)
    };
    for arguments in [&["db", "create"][..], &["env", "create", "--name", "e"]] {
        let (good, said) = call(arguments);
        assert!(good, "{said}");
    }
    let (_, said) = call(&["task", "start", "task.yaml", "--task-args", &arguments]);
    let (good, why) = call(&["task", "report", "--json", "--out", "theirs.json"]);
    assert!(good, "{said}\n{why}");
    let of_rally = server.seen().len();
    bench.run(&["run", "task.yaml", "--task-args", &arguments, "--rally-json", "ours.json"]);
    let of_bench = server.seen().len() - of_rally;
    let read = |name: &str| -> Value {
        serde_json::from_slice(&std::fs::read(bench.path().join(name)).unwrap()).unwrap()
    };
    compare(&read("theirs.json"), &read("ours.json"));
    assert_eq!(of_bench, of_rally, "requests");
}

/// Asserts that both reports say the same, and prints their mean durations.
fn compare(theirs: &Value, ours: &Value) {
    println!("{:<46} {:>6} {:>12} {:>12}", "workload, action", "count", "Rally mean", "bench mean");
    let workloads = |report: &Value| -> Vec<Value> {
        let subtasks = report["tasks"][0]["subtasks"].as_array().unwrap();
        subtasks.iter().flat_map(|subtask| subtask["workloads"].as_array().unwrap().clone()).collect()
    };
    let (theirs, ours) = (workloads(theirs), workloads(ours));
    assert_eq!(ours.len(), theirs.len());
    for (ours, theirs) in ours.iter().zip(&theirs) {
        let name = theirs["scenario"].as_object().unwrap().keys().next().unwrap();
        for key in ["scenario", "runner", "sla", "total_iteration_count", "pass_sla"] {
            assert_eq!(ours[key], theirs[key], "{key} of {name}");
        }
        // What fails by chance differs.
        if !name.contains("random_fail") {
            assert_eq!(ours["failed_iteration_count"], theirs["failed_iteration_count"], "{name}");
        }
        let runs = |report: &Value| -> Vec<usize> {
            report["hooks"]
                .as_array()
                .unwrap()
                .iter()
                .map(|hook| hook["results"].as_array().unwrap().len())
                .collect()
        };
        assert_eq!(runs(ours), runs(theirs), "hooks of {name}");
        let total = |report: &Value| report["statistics"]["durations"]["total"]["data"].clone();
        println!(
            "{name:<46} {:>6} {:>12} {:>12}",
            total(ours)["iteration_count"],
            total(theirs)["avg"],
            total(ours)["avg"]
        );
        for atomic in theirs["statistics"]["durations"]["atomics"].as_array().unwrap() {
            let atomics = ours["statistics"]["durations"]["atomics"].as_array().unwrap();
            let found = atomics.iter().find(|own| own["name"] == atomic["name"]);
            let found = found.unwrap_or_else(|| panic!("{name} has no {}", atomic["name"]));
            if !name.contains("random_fail") {
                assert_eq!(found["data"]["iteration_count"], atomic["data"]["iteration_count"], "{name}");
                assert_eq!(found["display_name"], atomic["display_name"], "{name}");
            }
            println!(
                "{:<46} {:>6} {:>12} {:>12}",
                format!("  {}", atomic["name"].as_str().unwrap()),
                found["data"]["iteration_count"],
                atomic["data"]["avg"],
                found["data"]["avg"]
            );
        }
    }
}
