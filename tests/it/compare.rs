//! `bench compare`: two runs side by side, a run against its history, and what is refused.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::schema::assert_described;
use crate::support::Bench;

const SCENARIO: &str = r#"
title: Look
deployment: demo.yaml
variables: { path: / }
runner: { constant: { times: 300, concurrency: 5 } }
iteration:
  - action: look
    get: "{{ path }}"
    expect: { status: 200 }
"#;

fn folder() -> Bench {
    let bench = Bench::new();
    bench.write("demo.yaml", "demo: {}\n");
    bench.write("slower.yaml", "name: demo\ndemo: { slowdown: 100% }\n");
    bench.write("scenario.yaml", SCENARIO);
    bench
}

/// Runs the scenario and gives its directory.
fn run(bench: &Bench, out: &str, further: &[&str]) -> PathBuf {
    let before = directories(&bench.path().join(out));
    let arguments: Vec<&str> = ["run", "scenario.yaml", "--quiet", "--out", out]
        .into_iter()
        .chain(further.iter().copied())
        .collect();
    bench.run(&arguments);
    directories(&bench.path().join(out)).into_iter().find(|path| !before.contains(path)).unwrap()
}

fn directories(path: &Path) -> Vec<PathBuf> {
    std::fs::read_dir(path).into_iter().flatten().map(|entry| entry.unwrap().path()).collect()
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn two_runs_are_shown_side_by_side_and_not_judged() {
    let bench = folder();
    let (base, new) = (run(&bench, "runs", &[]), run(&bench, "runs", &[]));
    let ended = bench.run(&["compare", text(&base), text(&new)]).expect_code(0);
    for part in [
        "This describes these two runs",
        "`bench ab` can tell",
        "look p99",
        "0 of 300",
        "Trace points of typical",
    ] {
        assert!(ended.stdout.contains(part), "{part}: {}", ended.stdout);
    }
    assert!(!ended.stdout.contains("FAIL") && !ended.stdout.contains("PASS"), "{}", ended.stdout);
    let json = bench.run(&["compare", text(&base), text(&new), "--json"]).expect_code(0).stdout;
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&json["format"], &json["version"]), (&"bench-compare".into(), &1.into()));
    assert_described("compare", &json);
    let row = &json["rows"][0];
    assert_eq!((&row["percentile"], &row["base_samples"][0]), (&50.0.into(), &300.into()));
    assert!(row["low"].as_f64().unwrap() <= row["ratio"].as_f64().unwrap(), "{row}");
    assert!(row["high"].as_f64().unwrap() >= row["ratio"].as_f64().unwrap(), "{row}");
    assert!(row["base_samples"][1].as_f64().unwrap() <= 300.0);
    let rare = json["rows"].as_array().unwrap().iter().find(|row| row["percentile"] == 99.9).unwrap();
    assert_eq!(rare["high"], Value::Null, "300 samples bound no p99.9: {rare}");
    assert!(json["typical_points"]["base_traces"].as_u64().unwrap() > 0);
    // A results.json alone will do, with a word on what it lacks.
    let file = base.join("results.json");
    let ended = bench.run(&["compare", text(&file), text(&new), "--markdown", "-o", "c.md"]).expect_code(0);
    assert_eq!(ended.stdout, "");
    let markdown = std::fs::read_to_string(bench.path().join("c.md")).unwrap();
    assert!(markdown.contains("| look p50 |") && markdown.contains("without its log"), "{markdown}");
    // A run against itself has the ratio 1 everywhere.
    let same = bench.run(&["compare", text(&base), text(&base), "--json"]).expect_code(0).stdout;
    let same: Value = serde_json::from_str(&same).unwrap();
    assert!(same["rows"].as_array().unwrap().iter().all(|row| row["ratio"] == 1.0));
}

#[test]
fn runs_of_something_else_are_refused_with_what_differs() {
    let bench = folder();
    let base = run(&bench, "runs", &[]);
    for (further, message) in [
        (&["--no-profile"][..], "profiling: profiled and not profiled"),
        (&["--workers", "1", "--set", "path=/?x"][..], "variables set: {} and {\"path\": \"/?x\"}"),
        (&["-d", "slower.yaml"][..], "slowdown 100%"),
    ] {
        let new = run(&bench, "runs", further);
        let ended = bench.run(&["compare", text(&base), text(&new)]).expect_code(65);
        assert!(ended.stderr.contains(message), "{further:?}: {}", ended.stderr);
        assert!(ended.stderr.contains("--allow-different"), "{}", ended.stderr);
        let ended = bench.run(&["compare", text(&base), text(&new), "--allow-different"]).expect_code(0);
        assert!(ended.stdout.contains("differs: "), "{}", ended.stdout);
    }
    bench.write(
        "scenario.yaml",
        SCENARIO.replace("title: Look", "title: Looks").replace("times: 300", "times: 301"),
    );
    let new = run(&bench, "runs", &[]);
    let ended = bench.run(&["compare", text(&base), text(&new)]).expect_code(65);
    for message in ["scenario: `Look` and `Looks`", "SHA-256", "load: "] {
        assert!(ended.stderr.contains(message), "{message}: {}", ended.stderr);
    }
}

#[test]
fn what_is_no_result_is_refused_with_its_reason() {
    let bench = folder();
    let good = run(&bench, "runs", &[]);
    let results: Value = serde_json::from_slice(&std::fs::read(good.join("results.json")).unwrap()).unwrap();
    let whole = results.to_string();
    let with = |change: &dyn Fn(&mut Value)| {
        let mut changed = results.clone();
        change(&mut changed);
        changed.to_string()
    };
    let distribution = "/workloads/0/response_time";
    let set = |pointer: &str, value: Value| {
        with(&|results: &mut Value| *results.pointer_mut(pointer).unwrap() = value.clone())
    };
    for (content, message) in [
        (String::new(), "EOF"),
        ("{}".to_owned(), "`format` is not `bench-results`"),
        ("[1, 2]".to_owned(), "holds no results of bench"),
        ("not json".to_owned(), "holds no results of bench"),
        (json!({ "format": "k6" }).to_string(), "`format` is not"),
        (whole[..whole.len() / 2].to_owned(), "EOF"),
        (set("/version", json!(99)), "version 99 of the results"),
        (set("/version", json!(-1)), "holds no results"),
        (set(&format!("{distribution}/mean_ms"), json!(-5.0)), "-5 ms is no duration"),
        (set(&format!("{distribution}/mean_ms"), json!("NaN")), "holds no results"),
        (set(&format!("{distribution}/percentiles/0/value_ms"), json!(-0.5)), "-0.5 ms is no duration"),
        (set(&format!("{distribution}/count"), json!(299)), "counts 299 samples"),
        (set(&format!("{distribution}/histogram"), json!("AAAA")), "histogram cannot be read"),
        (set(&format!("{distribution}/histogram"), json!("*")), "histogram cannot be read"),
        (set(&format!("{distribution}/count"), json!(0)), "it has no samples"),
        (set("/workloads", json!([])), "it has no samples"),
        (set("/workloads/0/iterations/ok", json!(0)), "none of its iterations went well"),
    ] {
        let file = bench.write("results-of-somebody.json", content);
        let ended = bench.run(&["compare", text(&good), text(&file)]).expect_code(65);
        assert!(ended.stderr.contains(message), "{message}: {}", ended.stderr);
    }
    for (path, message) in [
        ("none", "cannot read none"),
        (".", "cannot read ./results.json"),
        ("scenario.yaml", "holds no results"),
    ] {
        let ended = bench.run(&["compare", text(&good), path]).expect_code(65);
        assert!(ended.stderr.contains(message), "{message}: {}", ended.stderr);
    }
    std::fs::create_dir(bench.path().join("empty")).unwrap();
    let ended = bench.run(&["compare", "empty", text(&good)]).expect_code(65);
    assert!(ended.stderr.contains("is no run and holds none"), "{}", ended.stderr);
    // A log of another version, a foreign one, one without anything.
    let other = bench.path().join("other");
    std::fs::create_dir(&other).unwrap();
    let log = std::fs::read(good.join("run.log")).unwrap();
    let version_9 = [&log[..8], &[9, 0], &log[10..]].concat();
    for (bytes, message) in [
        (version_9.as_slice(), "version 9 of the run log"),
        (b"x", "not a run log"),
        (&log[..10], "no header"),
    ] {
        std::fs::write(other.join("run.log"), bytes).unwrap();
        let ended = bench.run(&["compare", text(&good), text(&other)]).expect_code(65);
        assert!(ended.stderr.contains(message), "{message}: {}", ended.stderr);
    }
    bench.write("scenario.yaml", SCENARIO.replace("times: 300, concurrency: 5", "times: 1"));
    let one = run(&bench, "runs", &[]);
    let ended = bench.run(&["compare", text(&good), text(&one)]).expect_code(65);
    assert!(ended.stderr.contains("one sample has no percentiles"), "{}", ended.stderr);
    let failed = run(&bench, "runs", &["--set", "path=/none"]);
    let ended = bench.run(&["compare", text(&failed), text(&failed)]).expect_code(65);
    assert!(ended.stderr.contains("none of its iterations went well"), "{}", ended.stderr);
}

/// Past runs are copies of one with other ids, so that they vary by nothing.
fn history(bench: &Bench, runs: usize, of: &Path) -> PathBuf {
    let past = bench.path().join(format!("past-{runs}"));
    let mut results: Value =
        serde_json::from_slice(&std::fs::read(of.join("results.json")).unwrap()).unwrap();
    for number in 0..runs {
        let directory = past.join(format!("20260101T0000{number:02}Z-look"));
        std::fs::create_dir_all(&directory).unwrap();
        results["run"]["id"] = format!("00000000-0000-4000-8000-{number:012}").into();
        std::fs::write(directory.join("results.json"), results.to_string()).unwrap();
    }
    past
}

#[test]
fn a_run_is_held_against_past_runs() {
    let bench = folder();
    let base = run(&bench, "runs", &["--no-profile"]);
    let (few, many) = (history(&bench, 9, &base), history(&bench, 12, &base));
    let told = |arguments: &[&str], code: i32| bench.run(arguments).expect_code(code).stdout;
    let ended = told(&["compare", text(&few), text(&base)], 0);
    assert!(
        ended.contains("INCONCLUSIVE") && ended.contains("9 past runs can be compared, and 10 are needed"),
        "{ended}"
    );
    told(&["compare", text(&few), text(&base), "--strict"], 4);
    // The same runs once more are no further runs.
    for number in 0..9 {
        let (from, to) =
            (few.join(format!("20260101T0000{number:02}Z-look")), few.join(format!("copy-{number}")));
        std::fs::create_dir_all(&to).unwrap();
        std::fs::copy(from.join("results.json"), to.join("results.json")).unwrap();
    }
    let ended = told(&["compare", text(&few), text(&base)], 0);
    assert!(ended.contains("9 past runs can be compared, and 10 are needed"), "{ended}");
    let ended = told(&["compare", text(&many), text(&base)], 0);
    assert!(ended.starts_with("PASS · Look") && ended.contains("12 past runs"), "{ended}");
    // A run with the same settings whose percentiles are ten times as long: its histogram is another's.
    let mut slow: Value = serde_json::from_slice(&std::fs::read(base.join("results.json")).unwrap()).unwrap();
    let mut histogram = hdrhistogram::Histogram::<u64>::new(3).unwrap();
    (0..300).for_each(|_| histogram.record(10_000_000_000).unwrap());
    let mut bytes = Vec::new();
    use hdrhistogram::serialization::Serializer as _;
    hdrhistogram::serialization::V2DeflateSerializer::new().serialize(&histogram, &mut bytes).unwrap();
    use base64::Engine as _;
    let encoded = base64::engine::general_purpose::STANDARD.encode(bytes);
    slow["workloads"][0]["response_time"]["histogram"] = encoded.into();
    let mut files = Vec::new();
    for number in 1..=2 {
        slow["run"]["id"] = format!("00000000-0000-4000-9000-{number:012}").into();
        files.push(bench.write(&format!("slow-{number}.json"), slow.to_string()));
    }
    let ended = told(&["compare", text(&many), text(&files[0])], 0);
    assert!(ended.contains("INCONCLUSIVE") && ended.contains("a second run has to confirm it"), "{ended}");
    let ended = told(&["compare", text(&many), text(&files[0]), text(&files[1])], 2);
    assert!(ended.starts_with("FAIL") && ended.contains("confirmed by a second run"), "{ended}");
    let json = told(&["compare", text(&many), text(&files[0]), text(&base), "--json"], 0);
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&json["format"], &json["outcome"]), (&"bench-history".into(), &"PASS".into()));
    assert_described("history", &json);
    // As quick as ever, and most of it failed.
    let mut failing: Value =
        serde_json::from_slice(&std::fs::read(base.join("results.json")).unwrap()).unwrap();
    (failing["workloads"][0]["iterations"]["ok"], failing["workloads"][0]["iterations"]["failed"]) =
        (90.into(), 210.into());
    let mut files_failing = Vec::new();
    for number in 1..=2 {
        failing["run"]["id"] = format!("00000000-0000-4000-a000-{number:012}").into();
        files_failing.push(bench.write(&format!("failing-{number}.json"), failing.to_string()));
    }
    let ended = told(&["compare", text(&many), text(&files_failing[0])], 0);
    assert!(
        ended.starts_with("INCONCLUSIVE") && ended.contains("fails more often than past runs"),
        "{ended}"
    );
    told(&["compare", text(&many), text(&files_failing[0]), text(&files_failing[1])], 2);
    let ended = bench.run(&["compare", text(&base), text(&files[0]), text(&files[1])]).expect_code(64);
    assert!(ended.stderr.contains("two runs are only compared"), "{}", ended.stderr);
}
