//! A run against the embedded demo, through the binary.

use std::path::Path;

use serde_json::Value;

use crate::support::{Bench, CommandOutput};

/// The shipped demo scenario with fewer iterations for a debug build, and with a slow query that stays
/// the slowest point on a busy machine.
fn demo() -> Bench {
    let bench = Bench::new();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let changed = |file: &str, changes: &[(&str, &str)]| {
        let mut text = std::fs::read_to_string(root.join(file)).unwrap();
        for (from, to) in changes {
            assert!(text.contains(from), "{file} has no `{from}`");
            text = text.replace(from, to);
        }
        text
    };
    let scenario = [
        ("times: 2000, concurrency: 10", "times: 200, concurrency: 4"),
        ("../deployments/demo.yaml", "deployment.yaml"),
    ];
    bench.write("demo.yaml", changed("scenarios/demo.yaml", &scenario));
    let deployment = [("slow_percent: 2 ", "slow_percent: 8 "), ("slow_query: 80ms", "slow_query: 900ms")];
    bench.write("deployment.yaml", changed("deployments/demo.yaml", &deployment));
    bench
}

#[test]
fn the_first_run_finds_the_slow_query_and_names_it() {
    let bench = demo();
    let ended = bench.run(&["run", "demo.yaml"]).expect_code(0);
    assert!(ended.stdout.starts_with("\nPASS · Log in, then look a user up on demo"), "{}", ended.stdout);
    let results = bench.results();
    assert_eq!(results["iterations"].as_array().unwrap().len(), 200);
    let finding = &results["findings"][0];
    assert_eq!((finding["name"].as_str(), finding["service"].as_str()), (Some("db"), Some("demo/identity")));
    assert!(finding["detail"].as_str().unwrap().contains("FROM assignment"), "{finding}");
    let group = "slowest: `db · SELECT … FROM assignment` in demo/identity under `rpc get_roles`";
    assert!(ended.stdout.contains(group), "{}", ended.stdout);
    for explanation in results["explanations"].as_array().unwrap() {
        let share = explanation["share_of_excess"].as_f64().unwrap_or(0.0);
        assert!((0.0..=1.0).contains(&share), "{explanation}");
    }
    for slow in results["slowest"].as_array().unwrap() {
        assert_eq!(slow["trace"], "complete");
        let id = slow["trace_id"].as_str().unwrap();
        assert!(ended.stdout.contains(id));
        assert!(bench.run_directory().join(format!("traces/{id}.json")).is_file());
    }
}

/// What somebody runs who has only the program.
#[test]
fn the_demo_is_built_in_and_runs_without_any_file() {
    let bench = Bench::new();
    // A directory cannot be meant.
    std::fs::create_dir(bench.path().join("demo")).unwrap();
    let ended = bench.run(&["run", "demo", "-n", "60", "--set", "user=user-9"]).expect_code(0);
    assert!(ended.stdout.starts_with("\nPASS · Log in, then look a user up on demo"), "{}", ended.stdout);
    let results = bench.results();
    assert_eq!(results["iterations"].as_array().unwrap().len(), 60);
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let shipped = std::fs::read_to_string(root.join("scenarios/demo.yaml")).unwrap();
    let shipped = shipped.replace("password: demo", "password: \"***\"");
    assert_eq!(results["scenario"]["text"], shipped);
    let report = std::fs::read_to_string(bench.run_directory().join("report.html")).unwrap();
    let again = "bench run demo --set user=user-9 --times 60";
    assert!(report.contains(again), "the report has no `{again}`");
    assert!(bench.run(&["runs"]).expect_code(0).stdout.contains("Log in, then look a user up"));
    // Traces are read from the run's own collector again.
    bench.run(&["collect", "latest", "--slowest", "1"]).expect_code(0);

    let said = bench.run(&["validate", "demo", "--explain"]).expect_code(0).stdout;
    assert!(said.starts_with("demo: a valid scenario with 1 workload and 2 actions\n"), "{said}");
    let missing = bench.run(&["run", "scenarios/demo.yaml"]).expect_code(65).stderr;
    assert!(missing.contains("`bench run demo` needs no file"), "{missing}");
}

#[test]
fn a_file_named_demo_comes_before_the_built_in_one() {
    let bench = Bench::new();
    bench.write("demo", "title: mine\niteration: []\nrnner: {}\n");
    for (words, said) in [
        (["run", "demo"], "unknown key `rnner`"),
        (["validate", "demo"], "unknown key `rnner`"),
        (["init", "demo"], "not an OpenAPI document"),
    ] {
        let ended = bench.run(&words).expect_code(65);
        assert!(ended.stderr.contains(said), "{words:?}: {}", ended.stderr);
    }
    let bench = Bench::new();
    std::os::unix::fs::symlink("nowhere", bench.path().join("demo")).unwrap();
    let ended = bench.run(&["run", "demo"]).expect_code(65);
    assert!(ended.stderr.contains("cannot read demo"), "{}", ended.stderr);
}

/// The files make the same load of the same service.
#[test]
fn the_built_in_demo_is_written_as_files_that_run() {
    let bench = Bench::new();
    let said = bench.run(&["init", "demo", "-o", "mine.yaml"]).expect_code(0).stdout;
    assert!(
        said.contains("mine.yaml: 2 requests an iteration") && said.contains("bench run mine.yaml"),
        "{said}"
    );
    assert!(bench.run(&["init", "demo", "-o", "mine.yaml"]).expect_code(64).stderr.contains("--force"));
    bench.run(&["run", "mine.yaml", "-n", "60"]).expect_code(0);
    let written = bench.results();
    std::fs::remove_dir_all(bench.path().join("runs")).unwrap();
    bench.run(&["run", "demo", "-n", "60"]).expect_code(0);
    let built_in = bench.results();
    for part in ["/deployment/demo", "/deployment/name", "/workloads/0/name", "/scenario/title"] {
        let (one, other) = (written.pointer(part), built_in.pointer(part));
        assert!(one.is_some() && one == other, "{part}: {one:?} {other:?}");
    }
}

#[test]
fn slow_iterations_are_compared_with_typical_ones() {
    let bench = demo();
    let more =
        std::fs::read_to_string(bench.path().join("demo.yaml")).unwrap().replace("times: 200", "times: 500");
    bench.write("demo.yaml", more);
    let ended = bench.run(&["run", "demo.yaml"]).expect_code(0);
    let results = bench.results();
    let comparison = &results["workloads"][0]["comparison"];
    // The slow ones take about the same time: more than 5 % may be as slow as the 95th percentile, or fewer beyond it. Of
    // many, the slowest 20 are compared first.
    assert!([4, 5].contains(&comparison["slow_percent"].as_u64().unwrap()), "{comparison}");
    assert!((12..=40).contains(&comparison["slow"].as_u64().unwrap()), "{comparison}");
    assert_eq!(
        (&comparison["left_out"], &comparison["no_finding"]),
        (&0.into(), &Value::Null),
        "{comparison}"
    );
    let first = &comparison["kinds"][0];
    assert!(
        first["detail"].as_str().unwrap().contains("FROM assignment") && first["guilty"] == true,
        "{first}"
    );
    assert_eq!((&first["name"], &first["parent"]), (&"db".into(), &"rpc get_roles".into()));
    assert!(first["share_low"].as_f64().unwrap() > 0.5, "{first}");
    let shares: f64 =
        comparison["kinds"].as_array().unwrap().iter().map(|kind| kind["share"].as_f64().unwrap()).sum();
    assert!((0.9..1.2).contains(&shares), "{comparison}");
    let bounds = ["% of it (at least ", "explains all of it"];
    assert!(bounds.iter().any(|said| ended.stdout.contains(said)), "{}", ended.stdout);
    // One tree from the user to the statement.
    let id = first["worst_trace_id"].as_str().unwrap();
    let directory = bench.run_directory();
    let shown = bench.run(&["trace", "show", directory.to_str().unwrap(), id]).expect_code(0).stdout;
    let order = [
        "iteration Log in",
        "action look up",
        "wsgi GET /v3/users",
        "rpc get_roles",
        "db SELECT … FROM assignment",
    ];
    // Above the tree stands why it was slow, with some of the same names.
    let tree = &shown[shown.find(order[0]).unwrap_or_default()..];
    let places: Vec<usize> =
        order.iter().map(|part| tree.find(part).unwrap_or_else(|| panic!("{shown}"))).collect();
    assert!(places.is_sorted(), "{shown}");
}

#[test]
fn quiet_prints_the_verdict_and_the_directory_only() {
    let bench = demo();
    let ended = bench.run(&["run", "demo.yaml", "--quiet"]).expect_code(0);
    let directory = bench.run_directory();
    let directory = directory.strip_prefix(bench.path()).unwrap().display();
    assert_eq!(ended.stdout, format!("PASS · Log in, then look a user up on demo\n{directory}\n"));
    assert_eq!(ended.stderr, "");
}

#[test]
fn a_report_can_be_made_again_from_the_log_with_the_same_results() {
    let bench = demo();
    bench.run(&["run", "demo.yaml", "--quiet"]).expect_code(0);
    let (directory, mut first) = (bench.run_directory(), bench.results());
    std::fs::remove_file(directory.join("results.json")).unwrap();
    std::fs::remove_file(directory.join("report.html")).unwrap();
    bench.run(&["report", directory.to_str().unwrap(), "--quiet"]).expect_code(0);
    // Nothing is fetched a second time.
    assert!(first["profiling"]["fetch_s"].take().is_f64());
    assert_eq!(bench.results(), first);
    assert!(directory.join("report.html").is_file());
}

#[test]
fn a_gate_that_fails_shows_the_iterations_that_broke_it() {
    let bench = demo();
    let strict = std::fs::read_to_string(bench.path().join("demo.yaml"))
        .unwrap()
        .replace("max_seconds_per_iteration: 5.0", "max_seconds_per_iteration: 0.01");
    bench.write("demo.yaml", strict);
    let ended = bench.run(&["run", "demo.yaml"]).expect_code(2);
    let results = bench.results();
    assert_eq!(results["verdict"]["outcome"], "FAIL");
    let criterion =
        results["verdict"]["criteria"].as_array().unwrap().iter().find(|c| c["outcome"] == "FAIL").unwrap();
    let ids = criterion["trace_ids"].as_array().unwrap();
    assert_eq!(ids.len(), 5);
    assert!(ended.stdout.contains(ids[0].as_str().unwrap()));
}

/// On a terminal: util-linux's `script` gives the program one.
#[test]
fn on_a_terminal_the_progress_leaves_and_the_summary_stays() {
    let bench = demo();
    let command = format!("'{}' run demo.yaml", env!("CARGO_BIN_EXE_bench"));
    let mut script = std::process::Command::new("script");
    script.current_dir(bench.path()).args(["-qec", &command, "/dev/null"]).env("TERM", "xterm");
    let Ok(output) = script.stdin(std::process::Stdio::null()).output() else {
        println!("skipped: needs the command `script` of util-linux");
        return;
    };
    let ended = CommandOutput::from(output);
    let text = &ended.stdout;
    assert!(ended.code == Some(0) || ended.was_disturbed(), "{text}");
    assert!(text.contains("under way"), "no progress was shown: {text}");
    // Behind the verdict nothing may move the cursor or clear a line.
    let (_, summary) = text.split_once(if ended.code == Some(0) { "PASS" } else { "INVALID" }).unwrap();
    let moves = ["\u{1b}[1A", "\u{1b}[2A", "\u{1b}[2K", "\r\u{1b}"];
    assert!(!moves.iter().any(|code| summary.contains(code)), "{summary:?}");
    assert!(summary.trim_end().ends_with("results.json"), "{summary:?}");
}
