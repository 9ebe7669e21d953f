//! `bench runs`, `latest`, `bench open` and `bench prune`.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::support::Bench;

const SCENARIO: &str = "title: Look around
deployment: demo.yaml
runner: { constant: { times: 60, concurrency: 2 } }
iteration: [ { action: look, get: /, expect: { status: 200 } } ]
sla: { thresholds: [ p50 < LIMIT ] }
";

/// A folder with two runs, of which the newer failed.
fn two_runs() -> (Bench, [PathBuf; 2]) {
    let bench = Bench::new();
    bench.write("demo.yaml", "demo: {}\n");
    bench.write("pass.yaml", SCENARIO.replace("LIMIT", "60s"));
    bench.write("fail.yaml", SCENARIO.replace("LIMIT", "1us").replace("Look around", "Too slow"));
    bench.run(&["run", "pass.yaml"]).expect_code(0);
    let first = moved(&bench, "20260101T000000Z-look-around-aaaaaaaa");
    bench.run(&["run", "fail.yaml", "--out", "made"]).expect_code(2);
    let second = bench.path().join("runs/20260102T000000Z-too-slow-bbbbbbbb");
    fs::rename(only(&bench.path().join("made")), &second).unwrap();
    (bench, [first, second])
}

/// Renames the only run, so that runs of one second have an order.
fn moved(bench: &Bench, name: &str) -> PathBuf {
    let path = bench.path().join("runs").join(name);
    fs::rename(bench.run_directory(), &path).unwrap();
    path
}

fn only(directory: &Path) -> PathBuf {
    fs::read_dir(directory).unwrap().next().unwrap().unwrap().path()
}

fn listed(bench: &Bench, more: &[&str]) -> Vec<Value> {
    let shown = bench.run(&[&["runs", "--json"], more].concat()).expect_code(0).stdout;
    shown.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn runs_are_listed_newest_first_and_damaged_ones_as_such() {
    let (bench, [first, _]) = two_runs();
    let runs = bench.path().join("runs");
    let copy = |name: &str, files: &[&str]| {
        let path = runs.join(name);
        fs::create_dir(&path).unwrap();
        for file in files {
            fs::copy(first.join(file), path.join(file)).unwrap();
        }
        path
    };
    // Without results; with damaged ones; with those of something else; with a damaged log alone.
    copy("20260103T000000Z-log", &["run.log"]);
    let damaged = copy("20260104T000000Z-damaged", &["run.log", "results.json"]);
    let whole = fs::read_to_string(damaged.join("results.json")).unwrap();
    fs::write(damaged.join("results.json"), &whole[..whole.len() / 8]).unwrap();
    fs::write(copy("20260105T000000Z-other", &[]).join("results.json"), "{\"format\": \"x\"}").unwrap();
    fs::write(copy("20260106T000000Z-deep", &[]).join("results.json"), "[".repeat(100_000)).unwrap();
    fs::write(copy("20260107T000000Z-noise", &[]).join("run.log"), "noise").unwrap();
    let ab = json!({"format": "bench-ab", "outcome": "PASS", "reasons": [], "scenario": {"title": "t"},
        "a": {"name": "old"}, "b": {"name": "new"}});
    fs::write(copy("20260108T000000Z-ab", &[]).join("ab.json"), ab.to_string()).unwrap();
    fs::write(copy("20260109T000000Z-bad-ab", &[]).join("ab.json"), "{}").unwrap();
    // Not runs.
    fs::create_dir(runs.join("20260110T000000Z-empty")).unwrap();
    fs::write(runs.join("20260111T000000Z-file"), "x").unwrap();
    // The iterations at the end are not read.
    let (head, _) = whole.split_once("\"iterations\": [").unwrap();
    let cut = copy("20260112T000000Z-cut", &[]).join("results.json");
    fs::write(cut, format!("{head}\"iterations\": [ {{ \"cut")).unwrap();

    let all = listed(&bench, &[]);
    let told: Vec<(&str, &Value, bool)> = all
        .iter()
        .map(|run| {
            let name = run["directory"].as_str().unwrap().rsplit('-').next().unwrap();
            (name, &run["verdict"], run["fault"].is_string())
        })
        .collect();
    let (pass, fail, none) = (json!("PASS"), json!("FAIL"), Value::Null);
    let expected = [
        ("cut", &pass, false),
        ("ab", &none, true),
        ("ab", &pass, false),
        ("noise", &none, true),
        ("deep", &none, true),
        ("other", &none, true),
        ("damaged", &none, true),
        ("log", &none, true),
        ("bbbbbbbb", &fail, false),
        ("aaaaaaaa", &pass, false),
    ];
    assert_eq!(told, expected);
    let failed = &all[8];
    assert!(failed["cause"].as_str().unwrap().contains("p50"), "{failed}");
    assert_eq!((&failed["title"], &failed["kind"]), (&json!("Too slow"), &json!("run")));
    assert!(failed["p99_ms"].as_f64().unwrap() > 0.0);
    assert_eq!(listed(&bench, &["--limit", "3"]).len(), 3);

    let shown = bench.run(&["runs"]).expect_code(0).stdout;
    assert_eq!(shown.matches("damaged  ").count(), 6, "{shown}");
    for told in [" 20260109T000000Z  damaged", "ab: t", "no results yet", " 20260102T000000Z  FAIL "] {
        assert!(shown.contains(told), "{told}: {shown}");
    }
    let said = bench.run(&["runs", "--limit", "2"]).expect_code(0).stderr;
    assert!(said.contains("8 older ones; see them with --limit 10"), "{said}");
}

#[test]
fn the_newest_run_has_a_name() {
    let (bench, [first, second]) = two_runs();
    let name = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();
    for (arguments, code) in [
        (&["report", "latest", "--quiet"][..], 2),
        (&["check", "latest", "--quiet"], 2),
        (&["export", "latest", "--csv"], 0),
        (&["export", "20260101T000000Z", "--csv"], 0),
        (&["report", "runs/20260101T000000Z", "--quiet"], 0),
        (&["collect", "latest", "--quiet"], 2),
        (&["compare", "latest", "runs/latest", "--json"], 0),
        (&["trace", "list", "latest"], 0),
        (&["trace", "stats", "latest"], 0),
        (&["trace", "rank", "runs/latest"], 0),
    ] {
        bench.run(arguments).expect_code(code);
    }
    let quiet = bench.run(&["report", "latest", "--quiet"]).stdout;
    assert!(quiet.contains(&name(&second)), "{quiet}");
    // Something with this name is meant itself.
    fs::rename(&first, bench.path().join("latest")).unwrap();
    let quiet = bench.run(&["report", "latest", "--quiet"]).expect_code(0).stdout;
    assert!(quiet.ends_with("latest\n"), "{quiet}");
    for (arguments, code, said) in [
        (&["report", "made/latest"][..], 64, "there is no run in made; run a scenario first"),
        (&["report", "20260101T000000Y"], 65, "holds no run.log"),
        (
            &["report", "20200101T000000Z"],
            64,
            "no run in runs begins with 20200101T000000Z; `bench runs` lists",
        ),
        (&["report", "absent/latest"], 64, "cannot read absent"),
        (&["trace", "show", "absent/latest"], 65, "cannot read absent"),
        (&["runs", "--out", "absent"], 65, "cannot read absent"),
        (&["open", "absent"], 65, "absent has no report; make it with `bench report`"),
        (&["prune"], 64, "<--keep <N>|--older-than <AGE>>"),
        (&["prune", "--older-than", "soon"], 64, "is not an age; write 30d, 2w or 12h"),
        (&["prune", "--older-than", "1.5d"], 64, "is not an age; write 30d, 2w or 12h"),
        (&["prune", "--keep", "-1"], 64, "--keep"),
    ] {
        let told = bench.run(arguments).expect_code(code).stderr;
        assert!(told.contains(said), "{arguments:?}: {told}");
    }
}

#[cfg(unix)]
#[test]
fn a_report_opens_with_the_browser_or_its_path_is_told() {
    use std::os::unix::fs::PermissionsExt as _;
    let (bench, [_, second]) = two_runs();
    let report = second.canonicalize().unwrap().join("report.html");
    let browser = bench.write("browser.sh", "#!/bin/sh\necho \"$1\" > opened\n");
    fs::set_permissions(&browser, fs::Permissions::from_mode(0o755)).unwrap();
    for (browser, is_opened) in
        [("./browser.sh", true), ("/no/such/program:./browser.sh", true), ("false", false)]
    {
        let mut command = bench.command(&["open"]);
        let ended = Bench::end(command.env("BROWSER", browser)).expect_code(0);
        assert_eq!(Path::new(ended.stdout.trim()).canonicalize().unwrap(), report);
        assert_eq!(ended.stderr.contains("set BROWSER"), !is_opened, "{}", ended.stderr);
        let opened = fs::read_to_string(bench.path().join("opened")).ok();
        assert_eq!(opened.is_some(), is_opened);
        let _ = fs::remove_file(bench.path().join("opened"));
    }
}

#[cfg(unix)]
#[test]
fn only_runs_are_deleted_and_nothing_behind_a_link() {
    let (bench, [first, second]) = two_runs();
    let runs = bench.path().join("runs");
    let link = |from: &Path, to: PathBuf| std::os::unix::fs::symlink(from, to);
    // What must stay: a directory of somebody else, one whose files only have the names, one that a link names.
    let outside = bench.path().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::copy(first.join("run.log"), outside.join("run.log")).unwrap();
    link(&outside, runs.join("20200101T000000Z-link")).unwrap();
    for (name, file) in [("20200102T000000Z-notes", "notes.txt"), ("20200103T000000Z-named", "run.log")] {
        fs::create_dir(runs.join(name)).unwrap();
        fs::write(runs.join(name).join(file), "mine").unwrap();
    }
    // A link in a run is deleted, not what it names.
    let file = bench.write("precious", "x");
    link(&file, first.join("precious")).unwrap();
    link(&outside, first.join("outside")).unwrap();

    let told = bench.run(&["prune", "--keep", "1"]).expect_code(0);
    assert!(told.stdout.contains("look-around") && !told.stdout.contains("too-slow"), "{}", told.stdout);
    assert!(
        told.stderr.contains("1 of 2 old runs") && told.stderr.contains("--yes deletes"),
        "{}",
        told.stderr
    );
    assert!(told.stderr.contains("named stays: its files are not of bench"), "{}", told.stderr);
    assert!(first.exists());
    let told = bench.run(&["prune", "--keep", "0", "--older-than", "30000d", "--yes"]).expect_code(0);
    assert!(told.stderr.contains("0 of 0 old runs"), "{}", told.stderr);
    bench.run(&["prune", "--keep", "1", "--older-than", "0d", "--yes"]).expect_code(0);
    assert!(!first.exists() && second.exists());
    for stays in ["outside/run.log", "precious", "runs/20200102T000000Z-notes/notes.txt"] {
        assert!(bench.path().join(stays).exists(), "{stays}");
    }
    assert!(runs.join("20200103T000000Z-named/run.log").exists());
    assert!(fs::symlink_metadata(runs.join("20200101T000000Z-link")).is_ok());
    // A run without results that was written a moment ago may be under way.
    fs::remove_file(second.join("results.json")).unwrap();
    let told = bench.run(&["prune", "--keep", "0", "--yes"]).expect_code(0);
    assert!(told.stderr.contains("too-slow-bbbbbbbb stays: it may be under way"), "{}", told.stderr);
    assert!(second.exists());
}

/// Half of the traces are of slow iterations; the sums are those of the run.
#[test]
fn sums_of_traces_are_of_all_iterations() {
    let bench = Bench::new();
    bench.write("demo.yaml", "demo: {}\n");
    let scenario = SCENARIO.replace("times: 60", "times: 1000").replace("concurrency: 2", "concurrency: 8");
    bench.write("s.yaml", scenario.replace("LIMIT", "60s"));
    bench.run(&["run", "s.yaml"]).expect_code(0);
    let calls = |arguments: &[&str]| {
        let shown = bench.run(arguments).expect_code(0).stdout;
        let row = shown.lines().find(|line| line.contains("(wsgi GET /)")).map(str::to_owned);
        let row = row.unwrap_or_else(|| panic!("{shown}"));
        row.split_whitespace().next().unwrap().parse::<u64>().unwrap()
    };
    // One call an iteration: rounding moves it by no more than one for each part.
    assert!((998..=1_002).contains(&calls(&["trace", "stats", "latest"])));
    assert!(calls(&["trace", "stats", "latest", "--unweighted"]) < 900);
    let told = bench.run(&["trace", "stats", "latest"]).stdout;
    assert!(told.contains("Weighted to all 1000 iterations, from "), "{told}");
    let ranked = bench.run(&["trace", "rank", "latest"]).expect_code(0);
    assert!(ranked.stderr.contains("Weighted to all 1000 iterations, from "), "{}", ranked.stderr);
    let of = |more: &[&str]| {
        let shown = bench.run(&[&["trace", "rank", "latest"], more].concat()).expect_code(0).stdout;
        let row = shown
            .lines()
            .find(|line| line.ends_with("| wsgi") || line.ends_with(" wsgi"))
            .unwrap()
            .to_owned();
        row.split_whitespace().nth(3).unwrap().parse::<u64>().unwrap()
    };
    assert!((998..=1_002).contains(&of(&[])) && of(&["--unweighted"]) < 900);

    // A run alone shows which traces there are, longest first, and why.
    let shown = bench.run(&["trace", "show", "latest"]).expect_code(0).stdout;
    for told in [
        "longest response time first",
        "slow: of the slowest 1 %",
        "slow: of the slowest 5 %",
        "typical: between",
    ] {
        assert!(shown.contains(told), "{told}: {shown}");
    }
    for form in ["--json", "--html", "--dot"] {
        bench.run(&["trace", "show", "latest", form]).expect_code(64);
    }
}

/// Traces can go, and what they told stays; the trace of the iteration before the load has a name.
#[test]
fn only_traces_are_deleted_if_that_is_asked_for() {
    let (bench, [first, second]) = two_runs();
    let probe = |more: &[&str]| bench.run(&[&["trace", "show"], more].concat());
    let id = {
        let results: Value = serde_json::from_slice(&fs::read(second.join("results.json")).unwrap()).unwrap();
        results["probe"]["trace_id"].as_str().unwrap().to_owned()
    };
    for name in ["probe", &id, &id[..8]] {
        let shown = probe(&["latest", name]).expect_code(0).stdout;
        assert!(shown.starts_with(&format!("trace {id}: ")) && shown.contains("wsgi"), "{name}: {shown}");
    }
    assert!(probe(&["latest"]).expect_code(0).stdout.contains("probe: sent before the load"));
    // It is in no sum.
    let listed = bench.run(&["trace", "list", "latest"]).expect_code(0).stdout;
    assert!(!listed.contains(&id), "{listed}");

    let results = fs::read(second.join("results.json")).unwrap();
    let told = bench.run(&["prune", "--traces-only", "--keep", "0"]).expect_code(0);
    assert!(told.stderr.contains("the traces of 2 of 2 old runs"), "{}", told.stderr);
    assert!(second.join("traces").is_dir() && second.join("probe-trace.json").is_file());
    bench.run(&["prune", "--traces-only", "--keep", "0", "--yes"]).expect_code(0);
    for run in [&first, &second] {
        assert!(!run.join("traces").exists() && !run.join("probe-trace.json").exists());
        assert!(run.join("results.json").is_file() && run.join("report.html").is_file());
    }
    let told = bench.run(&["prune", "--traces-only", "--keep", "0"]).expect_code(0);
    assert!(told.stderr.contains("the traces of 0 of 0 old runs"), "{}", told.stderr);
    let told = probe(&["latest", "probe"]).expect_code(65).stderr;
    assert!(told.contains("holds no trace of its probe"), "{told}");
    // What was found in the traces is not lost with them.
    let told = bench.run(&["report", "latest"]).expect_code(2).stderr;
    assert!(told.contains("by traces that are no longer stored; it is kept"), "{told}");
    assert_eq!(fs::read(second.join("results.json")).unwrap(), results);
}

#[cfg(unix)]
#[test]
fn the_demo_leaves_a_small_file_for_its_owner() {
    use std::os::unix::fs::PermissionsExt as _;
    let bench = Bench::new();
    bench.write("demo.yaml", "demo: {}\n");
    let scenario = SCENARIO.replace("times: 60", "times: 4000").replace("concurrency: 2", "concurrency: 16");
    bench.write("s.yaml", scenario.replace("LIMIT", "60s"));
    bench.run(&["run", "s.yaml"]).expect_code(0);
    let run = bench.run_directory();
    let found = fs::metadata(run.join("demo-traces.db")).unwrap();
    assert_eq!(found.permissions().mode() & 0o777, 0o600);
    assert!(found.len() < 4 << 20, "{}", found.len());
    // The traces that were fetched are there.
    let stored = fs::read_dir(run.join("traces")).unwrap().count();
    let names = fs::read_dir(&run).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let left: Vec<String> = names.filter(|name| name.contains(".db-") || name.contains(".new")).collect();
    assert!(left.is_empty(), "{left:?}");
    fs::remove_dir_all(run.join("traces")).unwrap();
    bench.run(&["collect", "latest"]).expect_code(0);
    assert_eq!(fs::read_dir(run.join("traces")).unwrap().count(), stored);
}
