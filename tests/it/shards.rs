//! Loads that several processes make together, and the runs that are merged from them.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;

use crate::receiving::{export, shop_that_tells};
use crate::server::ScriptedServer;
use crate::support::{Bench, ChildGuard, CommandOutput, adds_up, free_address};

/// A server that answers every request with 200.
fn server() -> ScriptedServer {
    ScriptedServer::start(|_, wire| wire.answer("200 OK", "application/json", "{}"))
}

/// Runs three shards at the same time, each with these arguments; returns how they ended.
fn three(bench: &Bench, arguments: &[&str]) -> Vec<CommandOutput> {
    let start = |index: usize| {
        let shard = format!("{index}/3");
        let own = ["run", "scenario.yaml", "--shard", &shard, "--job", "j", "--workers", "1"];
        let mut command = bench.command(&[&own, arguments].concat());
        ChildGuard::start(command.stdout(Stdio::piped()).stderr(Stdio::piped()))
    };
    let started: Vec<_> = (0..3).map(start).collect();
    started.into_iter().map(ChildGuard::end).collect()
}

/// Merges what is in `runs`; returns what was said and the results.
fn merged(bench: &Bench, arguments: &[&str]) -> (CommandOutput, Value) {
    let _ = std::fs::remove_dir_all(bench.path().join("merged"));
    let ended = bench.run(&[&["merge", "runs", "--out", "merged"], arguments].concat());
    let directories: Vec<PathBuf> =
        std::fs::read_dir(bench.path().join("merged")).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(directories.len(), 1, "{}", ended.stderr);
    let results =
        serde_json::from_slice(&std::fs::read(directories[0].join("results.json")).unwrap()).unwrap();
    adds_up(&results);
    (ended, results)
}

/// The numbers of the iterations and their trace ids, in the order of the list.
fn numbers_and_ids(results: &Value) -> (Vec<u64>, BTreeSet<&str>) {
    let rows = results["iterations"].as_array().unwrap();
    let number = |row: &Value| row["number"].as_u64().unwrap();
    (rows.iter().map(number).collect(), rows.iter().filter_map(|row| row["trace_id"].as_str()).collect())
}

fn rows(count: usize) -> String {
    let mut text = "id\n".to_owned();
    (0..count).for_each(|row| writeln!(text, "{row:03}").unwrap());
    text
}

const STEPS: &str = "iteration: [{ action: post, post: /, body: '{{ users.id }} {{ iteration }}' }]";

#[test]
fn three_shards_make_each_iteration_once_with_the_row_of_one_process() {
    let of = |runner: &str, order: &str, arguments: &[&str]| {
        let (bench, server) = (Bench::new(), server());
        bench.write("users.csv", rows(61));
        let data = format!("data: {{ users: {{ file: users.csv, order: {order}, on_end: stop }} }}");
        let keys = format!("{data}\nrunner: {{ {runner} }}\n{STEPS}");
        bench.load(&server.url(), "profiler: { hmac_keys: [k] }", &keys);
        let (mut ended, results) = if arguments.is_empty() {
            three(&bench, &["--quiet"]).into_iter().for_each(|ended| drop(ended.expect_code(0)));
            merged(&bench, &[])
        } else {
            let ended = bench.run(&[&["run", "scenario.yaml", "--quiet"], arguments].concat()).expect_code(0);
            (ended, bench.results())
        };
        ended = ended.expect_code(0);
        let bodies = server.seen().into_iter().map(|seen| String::from_utf8(seen.body).unwrap());
        let mut bodies: Vec<String> = bodies.filter(|body| !body.is_empty()).collect();
        bodies.sort_unstable();
        (bodies, results, ended.stdout)
    };
    for runner in [
        "constant: { times: 61, concurrency: 7 }",
        "rps: { rps: 2000, times: 61 }",
        // The rows end these.
        "constant: { times: 5000, concurrency: 7 }",
        "rps: { rps: 2000, times: 5000 }",
        "constant_for_duration: { duration: 300, concurrency: 7 }",
        "ramping: { start: 5, stages: [{ duration: 300, concurrency: 7 }] }",
    ] {
        for order in ["sequential", "shuffled"] {
            let (bodies, results, stdout) = of(runner, order, &[]);
            assert_eq!(bodies.len(), 61, "{runner}");
            assert!(stdout.contains("61"), "{stdout}");
            let (mut numbers, ids) = numbers_and_ids(&results);
            numbers.sort_unstable();
            assert_eq!((numbers, ids.len()), ((0..61).collect(), 61), "{runner}");
            assert_eq!(results["shards"].as_array().unwrap().len(), 3);
            // Which row an iteration has depends on the seed of the data alone.
            let seed = results["run"]["seed"].as_u64().unwrap_or_default().to_string();
            if runner.contains("times: 61") {
                let (alone, ..) = of(runner, order, &["--no-shard", "--workers", "1", "--seed", &seed]);
                assert_eq!(bodies, alone, "{runner} {order}");
            }
        }
    }
}

#[test]
fn shards_that_meet_begin_together_and_none_is_judged_alone() {
    let (bench, server) = (Bench::new(), server());
    let keys = "runner: { constant: { times: 90, concurrency: 3 } }\niteration: [{ get: / }]\nsla: { thresholds: [p99 < 1ns] }";
    bench.load(&server.url(), "", keys);
    for ended in three(&bench, &["--together", "meet", "--wait", "100s"]) {
        let ended = ended.expect_code(0);
        assert!(ended.stdout.contains("a part of a load"), "{}", ended.stdout);
        assert!(ended.stderr.contains("the load begins when all shards are"), "{}", ended.stderr);
    }
    let (ended, results) = merged(&bench, &[]);
    assert!(ended.expect_code(2).stdout.contains("3 shards on 1 machine, begun within "));
    for shard in results["shards"].as_array().unwrap() {
        assert_eq!(
            (&shard["iterations"], &shard["clock_correction_s"]),
            (&30.into(), &0.0.into()),
            "{shard}"
        );
        assert!(shard["late_s"].as_f64().is_some(), "{shard}");
    }
    // The same job once more finds where it met, and begins at once.
    std::fs::remove_dir_all(bench.path().join("runs")).unwrap();
    for ended in three(&bench, &["--together", "meet", "--quiet"]) {
        ended.expect_code(0);
    }
}

/// No shard makes as many iterations as the threshold forbids; all three together do, long before they end.
#[test]
fn a_threshold_that_only_all_shards_together_break_ends_the_load_of_each() {
    let (bench, server) = (Bench::new(), server());
    let keys = "runner: { rps: { rps: 2, times: 57 } }
iteration: [{ get: / }]
sla: { thresholds: [{ threshold: count(iterations) < 20, abort_on_fail: true, delay: 1s }] }";
    bench.load(&server.url(), "", keys);
    for ended in three(&bench, &["--together", "meet"]) {
        let ended = ended.expect_code(0);
        assert!(ended.stdout.contains("the load was ended by the threshold"), "{}", ended.stdout);
    }
    let (ended, results) = merged(&bench, &[]);
    let ended = ended.expect_code(2);
    assert!(ended.stdout.contains("count(iterations) < 20"), "{}", ended.stdout);
    assert_eq!(
        (&results["run"]["status"], &results["verdict"]["outcome"]),
        (&"aborted".into(), &"FAIL".into())
    );
    for shard in results["shards"].as_array().unwrap() {
        assert!(shard["iterations"].as_u64().unwrap() < 19, "{shard}");
    }
    let left: Vec<_> = walk(&bench.path().join("meet"));
    assert!(left.iter().any(|name| name == "stop.json"), "{left:?}");
    assert!(left.iter().filter(|name| name.starts_with("samples-")).count() <= 6, "{left:?}");
}

/// A service that sends its spans to each of these addresses, like OpenTelemetry's collector with several exporters.
fn shop_for(addresses: Vec<SocketAddr>) -> ScriptedServer {
    shop_that_tells(move |spans| {
        // A shard that has ended listens no more.
        let listening = addresses.iter().filter(|address| TcpStream::connect(address).is_ok());
        listening.for_each(|address| drop(export(*address, spans)));
    })
}

/// The ids of the stored traces of the merged run, which are all complete, and the shards that they are of.
fn traces(bench: &Bench, results: &Value) -> (BTreeSet<String>, BTreeSet<u64>) {
    let fetched = results["profiling"]["fetched"].as_object().unwrap();
    assert_eq!(fetched.keys().collect::<Vec<_>>(), ["complete"], "{fetched:?}");
    let stored = std::fs::read_dir(merged_directory(bench).join("traces")).unwrap();
    let stem = |path: PathBuf| path.file_stem().unwrap().to_str().unwrap().to_owned();
    let ids: BTreeSet<String> = stored.map(|entry| stem(entry.unwrap().path())).collect();
    let rows = results["iterations"].as_array().unwrap().iter();
    let of_traces = rows.filter(|row| row["trace_id"].as_str().is_some_and(|id| ids.contains(id)));
    let shards = of_traces.map(|row| row["number"].as_u64().unwrap() % 3).collect();
    (ids, shards)
}

fn merged_directory(bench: &Bench) -> PathBuf {
    std::fs::read_dir(bench.path().join("merged")).unwrap().next().unwrap().unwrap().path()
}

#[test]
fn the_slow_iterations_of_all_shards_are_explained_by_what_their_receivers_kept() {
    let addresses: Vec<SocketAddr> = (0..3).map(|_| free_address()).collect();
    let (bench, server) = (Bench::new(), shop_for(addresses.clone()));
    let keys = "runner: { constant: { times: 300, concurrency: 6 } }\niteration: [{ action: a, get: /x }]";
    bench.load(&server.url(), "profiler: { headers: [w3c] }", keys);
    let start = |(index, address): (usize, &SocketAddr)| {
        let (shard, receive) = (format!("{index}/3"), format!("--receive={address}"));
        let own = ["run", "scenario.yaml", "--shard", &shard, "--job", "j", "--workers", "1", "--no-probe"];
        let mut command = bench.command(&[&own[..], &[&receive]].concat());
        ChildGuard::start(command.stdout(Stdio::piped()).stderr(Stdio::piped()))
    };
    let started: Vec<_> = addresses.iter().enumerate().map(start).collect();
    started.into_iter().for_each(|shard| drop(shard.end().expect_code(0)));
    let (ended, results) = merged(&bench, &[]);
    let ended = ended.expect_code(0);
    assert!(ended.stdout.contains("`SELECT item · SELECT ?` in shop"), "{}", ended.stdout);
    assert!(!ended.stderr.contains("no spans"), "{}", ended.stderr);
    let (chosen, shards) = traces(&bench, &results);
    assert!(chosen.len() >= 20, "{chosen:?}");
    assert_eq!(shards, (0..3).collect());
    let received = &results["profiling"]["received"];
    assert_eq!((received["spans"].as_u64(), received["addresses"].as_array().unwrap().len()), (Some(600), 3));
    // A trace that was kept and not chosen.
    let (_, all) = numbers_and_ids(&results);
    let merged = merged_directory(&bench);
    let show = |id: &&str| bench.run(&["trace", "show", merged.to_str().unwrap(), id]).code == Some(0);
    assert!(all.iter().filter(|id| !chosen.contains(**id)).any(show));
    // Made again, the report says the same.
    bench.run(&["report", merged.to_str().unwrap()]).expect_code(0);
    let again: Value = serde_json::from_slice(&std::fs::read(merged.join("results.json")).unwrap()).unwrap();
    assert_eq!(again["profiling"]["received"], *received);
}

/// The service knows one address only, that of `bench receive`.
#[test]
fn one_receiver_serves_all_shards() {
    let address = free_address();
    let (bench, server) = (Bench::new(), shop_for(vec![address]));
    let mut receive = bench.command(&["receive", &address.to_string(), "-o", "spans.jsonl"]);
    let receiver = ChildGuard::start(receive.stdout(Stdio::piped()).stderr(Stdio::piped()));
    while TcpStream::connect(address).is_err() {
        std::thread::sleep(Duration::from_millis(20));
    }
    let keys = "runner: { constant: { times: 300, concurrency: 6 } }\niteration: [{ action: a, get: /x }]";
    bench.load(&server.url(), "profiler: { headers: [w3c] }", keys);
    three(&bench, &["--quiet"]).into_iter().for_each(|ended| drop(ended.expect_code(0)));
    receiver.interrupt().expect_code(0);
    let (ended, results) = merged(&bench, &["--from", "spans.jsonl"]);
    let ended = ended.expect_code(0);
    assert!(ended.stdout.contains("`SELECT item · SELECT ?` in shop"), "{}", ended.stdout);
    assert_eq!(traces(&bench, &results).1, (0..3).collect());
}

/// Spans that came to the receiver of another shard are not kept, and the merge says what to do.
#[test]
fn spans_that_only_one_shard_gets_are_told() {
    let address = free_address();
    let (bench, server) = (Bench::new(), shop_for(vec![address]));
    let keys = "runner: { constant: { times: 60, concurrency: 3 } }\niteration: [{ action: a, get: /x }]";
    bench.load(&server.url(), "profiler: { headers: [w3c] }", keys);
    for (shard, address) in [("0/2", address), ("1/2", free_address())] {
        let arguments = ["run", "scenario.yaml", "--shard", shard, "--job", "j", "--no-probe"];
        bench.run(&[&arguments[..], &[&format!("--receive={address}")]].concat()).expect_code(0);
    }
    let (ended, _) = merged(&bench, &[]);
    let ended = ended.expect_code(0);
    assert!(ended.stderr.contains("have no spans at their shard's receiver"), "{}", ended.stderr);
    assert!(ended.stderr.contains("`bench merge --from` reads"), "{}", ended.stderr);
}

/// The names of the files of the only run that met here.
fn walk(meet: &std::path::Path) -> Vec<String> {
    let runs: Vec<PathBuf> = std::fs::read_dir(meet).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(runs.len(), 1, "{runs:?}");
    let names = std::fs::read_dir(&runs[0]).unwrap();
    names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn a_killed_shard_is_named_and_may_run_again() {
    let (bench, server) = (Bench::new(), server());
    let keys = "runner: { constant_for_duration: { duration: 100, concurrency: 3 } }
iteration: [{ action: get, get: / }, { think: 20ms }]";
    bench.load(&server.url(), "", keys);
    let of = |shard: &str| {
        let mut command = bench.command(&[
            "run",
            "scenario.yaml",
            "--quiet",
            "--shard",
            shard,
            "--job",
            "j",
            "--workers",
            "1",
        ]);
        command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    };
    let seen = |wanted: usize| {
        while server.seen().len() < wanted {
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    };
    let interrupt = |mut process: std::process::Child| {
        let ended = std::process::Command::new("kill").args(["-INT", &process.id().to_string()]).status();
        assert!(ended.unwrap().success());
        process.wait().unwrap();
    };
    let mut killed = of("1/3");
    seen(40);
    killed.kill().unwrap();
    killed.wait().unwrap();
    for shard in ["0/3", "2/3"] {
        let so_far = server.seen().len();
        let process = of(shard);
        seen(so_far + 40);
        interrupt(process);
    }
    let refused = bench.run(&["merge", "runs", "--out", "merged"]).expect_code(65).stderr;
    assert!(refused.contains("shard 1 in runs/") && refused.contains("--partial"), "{refused}");
    let (ended, results) = merged(&bench, &["--partial"]);
    let ended = ended.expect_code(1);
    assert!(ended.stdout.contains("has no end: it was killed, or it still runs"), "{}", ended.stdout);
    assert_eq!(results["shards"][1]["status"], "recovered");
    let so_far = server.seen().len();
    let again = of("1/3");
    seen(so_far + 40);
    interrupt(again);
    let (_, results) = merged(&bench, &[]);
    assert_eq!(results["shards"][1]["status"], "interrupted");
    assert!(results["notes"].to_string().contains("shard 1 was begun 2 times"), "{}", results["notes"]);
}

/// Arguments, variables, keys of the scenario, the exit code, and what is said.
type ShardRefusalRow =
    (&'static [&'static str], &'static [(&'static str, &'static str)], &'static str, i32, &'static str);

#[test]
fn what_is_wrong_with_a_shard_is_said() {
    let server = server();
    let (job, plain) = (["--job", "j"], "");
    let rows: &[ShardRefusalRow] = &[
        (&["--shard", "3/3"], &[], plain, 64, "shards count from 0"),
        (&["--shard", "first"], &[], plain, 64, "as in 2/8"),
        (&["--shard", "1/3"], &[], plain, 64, "the same --job NAME"),
        (&["--shards", "3"], &[], plain, 64, "name it with --shard"),
        (&[], &[("JOB_COMPLETION_INDEX", "1")], plain, 64, "--shards N or BENCH_SHARDS"),
        (&["--shards", "1", "--shard", "0/1"], &[], plain, 64, "cannot be used with"),
        (&["--shard", "1/3", "--start-at", "noon"], &[], plain, 64, "is not a time with its zone"),
        (&["--shard", "1/3", "--together", "scenario.yaml"], &[], plain, 1, "scenario.yaml"),
        (
            &["--shard", "1/3", "--together", "meet", "--wait", "1ms"],
            &[],
            plain,
            1,
            "2 of 3 shards did not come within 1.00 ms: 0, 2",
        ),
        (
            &["--shard", "1/3", "--start-at", "2020-01-01T00:00:00Z", "--skew-max", "1s"],
            &[],
            plain,
            1,
            "--skew-max allows 1s",
        ),
        (&["--shard", "1/3", "--start-at", "2020-01-01T00:00:00Z"], &[], plain, 0, "after it was due"),
        (
            &["--shard", "1/3"],
            &[],
            "sla: { thresholds: [{ threshold: p99 < 5s, abort_on_fail: true }] }",
            64,
            "abort_on_fail",
        ),
        (&["--shard", "1/3", "--once"], &[], plain, 64, "--once"),
        (&["--once"], &[("OMPI_COMM_WORLD_RANK", "0"), ("OMPI_COMM_WORLD_SIZE", "9")], plain, 0, "GET /"),
    ];
    for (arguments, variables, keys, code, words) in rows {
        let bench = Bench::new();
        let keys = format!(
            "runner: {{ constant: {{ times: 6, concurrency: 3 }} }}\niteration: [{{ get: / }}]\n{keys}"
        );
        bench.load(&server.url(), "", &keys);
        let named = arguments.contains(&"--shard") && !words.contains("--job");
        let own: &[&str] = if named { &job } else { &[] };
        let mut command = bench.command(&[&["run", "scenario.yaml"], *arguments, own].concat());
        let ended = Bench::end(command.envs(variables.iter().copied()));
        let said = format!("{}{}", ended.stdout, ended.stderr);
        assert!(said.contains(words), "{arguments:?} {variables:?}: {said}");
        assert_eq!(ended.code, Some(*code), "{arguments:?}: {said}");
    }
}

#[test]
fn what_cannot_be_merged_is_said() {
    let (bench, server) = (Bench::new(), server());
    bench.load(
        &server.url(),
        "",
        "runner: { constant: { times: 3, concurrency: 3 } }\niteration: [{ get: / }]",
    );
    bench.run(&["run", "scenario.yaml", "--quiet", "--out", "whole"]).expect_code(0);
    let whole = std::fs::read_dir(bench.path().join("whole")).unwrap().next().unwrap().unwrap().path();
    std::fs::create_dir(bench.path().join("empty")).unwrap();
    let shard = ["run", "scenario.yaml", "--quiet", "--shard", "1/3", "--job", "j"];
    bench.run(&shard).expect_code(0);
    for (directory, words) in [
        ("nowhere", "nowhere"),
        ("empty", "there is no shard in empty"),
        ("whole", "there is no shard in whole"),
        (whole.to_str().unwrap(), "is no shard, but a whole run"),
        ("runs", "2 of 3 shards are missing: 0, 2"),
    ] {
        let ended = bench.run(&["merge", directory]).expect_code(65);
        assert!(ended.stderr.contains(words), "{directory}: {}", ended.stderr);
    }
    // A part of a part is merged all the same, if it is asked for, and cannot pass.
    let (ended, results) = merged(&bench, &["--partial"]);
    let ended = ended.expect_code(1);
    assert!(ended.stdout.contains("2 of 3 shards are missing"), "{}", ended.stdout);
    assert_eq!(results["workloads"][0]["iterations"]["total"], 1);
    let twice = bench.run(&["merge", "runs", "--out", "merged", "--partial"]).expect_code(1);
    assert!(twice.stderr.contains("merged before"), "{}", twice.stderr);
}
