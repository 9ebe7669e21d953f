//! `bench compare`: two runs side by side, a run against its history, and what it refuses.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use crate::schema::assert_described;
use crate::server::ScriptedServer;
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
        "Use `bench ab` for that",
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
    assert!(markdown.contains("| look p50 |") && markdown.contains("has no log"), "{markdown}");
    // A page, in the same way.
    bench.run(&["compare", text(&base), text(&new), "--html", "-o", "c.html"]).expect_code(0);
    let page = std::fs::read_to_string(bench.path().join("c.html")).unwrap();
    assert!(page.starts_with("<!DOCTYPE html>") && page.contains(">look p50</th>"), "{page}");
    bench.run(&["compare", text(&base), text(&new), "--html", "--json"]).expect_code(64);
    // A run against itself has the ratio 1 everywhere.
    let same = bench.run(&["compare", text(&base), text(&base), "--json"]).expect_code(0).stdout;
    let same: Value = serde_json::from_str(&same).unwrap();
    assert!(same["rows"].as_array().unwrap().iter().all(|row| row["ratio"] == 1.0));
}

/// A build that fails at once is no fast build: failures count as longer than every success, here as in thresholds.
#[test]
fn failures_are_no_fast_answers() {
    let mode = Arc::new(AtomicUsize::new(0));
    let (seen, asked) = (Arc::clone(&mode), AtomicUsize::new(0));
    let server = ScriptedServer::start(move |_, wire| {
        let fails = match seen.load(Ordering::SeqCst) {
            0 => false,
            1 => asked.fetch_add(1, Ordering::SeqCst) % 2 == 1,
            _ => true,
        };
        if fails {
            return wire.answer("503 Broken", "text/plain", "");
        }
        wire.pause(Duration::from_millis(5));
        wire.answer("200 OK", "text/plain", "")
    });
    let bench = Bench::new();
    let runner =
        "runner: { constant: { times: 60, concurrency: 3 } }\niteration: [ { action: look, get: /x } ]";
    bench.load(&server.url(), "profiler: { enabled: false }", runner);
    let past: Vec<PathBuf> = (0..11).map(|_| run(&bench, "past", &[])).collect();
    let made = |how: usize| {
        mode.store(how, Ordering::SeqCst);
        run(&bench, "new", &[])
    };
    let (half, half_again, dead, dead_again) = (made(1), made(1), made(2), made(2));
    let base = text(past.last().unwrap());
    let ended = bench.run(&["compare", base, text(&half)]).expect_code(0);
    let row = ended.stdout.lines().find(|line| line.trim_start().starts_with("p90")).unwrap();
    assert!(row.contains("no time") && row.contains("failures here"), "{}", ended.stdout);
    assert!(!ended.stdout.contains("lower here"), "{}", ended.stdout);
    let json = bench.run(&["compare", base, text(&half), "--json"]).expect_code(0).stdout;
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_described("compare", &json);
    let p90 = json["rows"].as_array().unwrap().iter().find(|row| row["percentile"] == 90.0).unwrap();
    assert_eq!((&p90["new_ms"], &p90["ratio"]), (&Value::Null, &Value::Null), "{p90}");
    let page = bench.run(&["compare", base, text(&half), "--html"]).expect_code(0).stdout;
    assert!(page.contains("of the iterations failed, instead of none"), "{page}");
    let past = bench.path().join("past");
    for (new, rerun) in [(&half, Some(&half_again)), (&dead, None), (&dead, Some(&dead_again))] {
        let more = rerun.map(|rerun| text(rerun));
        for form in ["", "--html", "--json", "--markdown"] {
            let arguments: Vec<&str> = ["compare", text(&past), text(new)]
                .into_iter()
                .chain(more)
                .chain((!form.is_empty()).then_some(form))
                .collect();
            let ended = bench.run(&arguments);
            assert!(matches!(ended.code, Some(0 | 2)), "{arguments:?}: {ended:?}");
            for sentinel in ["18446744", "1.797693", "NaN", "inf"] {
                assert!(!ended.stdout.contains(sentinel), "{arguments:?}: {sentinel}: {}", ended.stdout);
            }
            if form == "--json" {
                let json: Value = serde_json::from_str(&ended.stdout).unwrap();
                assert_described("history", &json);
                assert!(["FAIL", "INCONCLUSIVE"].contains(&json["outcome"].as_str().unwrap()), "{json}");
            }
        }
    }
    // A run without a success is nothing to compare with.
    let ended = bench.run(&["compare", text(&bench.path().join("new")), text(&half)]);
    assert!(!ended.stdout.contains("18446744"), "{}", ended.stdout);
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
        ("[1, 2]".to_owned(), "does not contain results of bench"),
        ("not json".to_owned(), "does not contain results of bench"),
        (json!({ "format": "k6" }).to_string(), "`format` is not"),
        (whole[..whole.len() / 2].to_owned(), "does not contain results of bench"),
        (set("/version", json!(99)), "version 99 of the results"),
        (set("/version", json!(-1)), "does not contain results"),
        (set(&format!("{distribution}/mean_ms"), json!(-5.0)), "-5 ms is not a duration"),
        (set(&format!("{distribution}/mean_ms"), json!("NaN")), "does not contain results"),
        (set(&format!("{distribution}/percentiles/0/value_ms"), json!(-0.5)), "-0.5 ms is not a duration"),
        (set(&format!("{distribution}/count"), json!(299)), "states 299 samples"),
        (set(&format!("{distribution}/histogram"), json!("AAAA")), "histogram cannot be read"),
        (set(&format!("{distribution}/histogram"), json!("*")), "histogram cannot be read"),
        (set(&format!("{distribution}/count"), json!(0)), "it states 0 of them, and lists 300"),
        (set("/workloads", json!([])), "it lists iterations of workload 0, but has no such workload"),
        (set("/workloads/0/iterations/ok", json!(0)), "it states 300 iterations (0 ok, 0 failed"),
    ] {
        let file = bench.write("results-of-somebody.json", content);
        let ended = bench.run(&["compare", text(&good), text(&file)]).expect_code(65);
        assert!(ended.stderr.contains(message), "{message}: {}", ended.stderr);
    }
    for (path, message) in [
        ("none", "cannot read none"),
        (".", "cannot read ./results.json"),
        ("scenario.yaml", "does not contain results"),
    ] {
        let ended = bench.run(&["compare", text(&good), path]).expect_code(65);
        assert!(ended.stderr.contains(message), "{message}: {}", ended.stderr);
    }
    std::fs::create_dir(bench.path().join("empty")).unwrap();
    let ended = bench.run(&["compare", "empty", text(&good)]).expect_code(65);
    assert!(ended.stderr.contains("is not a run and contains none"), "{}", ended.stderr);
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
    assert!(ended.stderr.contains("only one sample"), "{}", ended.stderr);
}

/// A run as its `results.json` holds it, with other ids, begun some minutes after another time.
fn copy_of(results: &Value, number: u32, minutes: i64) -> Value {
    let mut copy = results.clone();
    for key in ["id", "id_seed"] {
        copy["run"][key] = format!("00000000-0000-4000-8000-{number:012}").into();
    }
    let start: jiff::Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
    let start = start.checked_add(jiff::SignedDuration::from_mins(minutes)).unwrap();
    copy["run"]["started_at"] = start.to_string().into();
    copy
}

/// The same run, if every iteration had taken so long.
fn slowed(results: &Value, ms: f64) -> Value {
    let mut slow = results.clone();
    let count = slow["iterations"].as_array().unwrap().len() as u64;
    for row in slow["iterations"].as_array_mut().unwrap() {
        row["duration_ms"] = ms.into();
        row["start_s"] = row["due_s"].clone();
    }
    let mut histogram = hdrhistogram::Histogram::<u64>::new(3).unwrap();
    histogram.record_n((ms * 1e6) as u64, count).unwrap();
    let mut bytes = Vec::new();
    use hdrhistogram::serialization::Serializer as _;
    hdrhistogram::serialization::V2DeflateSerializer::new().serialize(&histogram, &mut bytes).unwrap();
    use base64::Engine as _;
    let encoded: Value = base64::engine::general_purpose::STANDARD.encode(bytes).into();
    for clock in ["response_time", "service_time"] {
        let times = &mut slow["workloads"][0][clock];
        times["histogram"] = encoded.clone();
        for key in ["min_ms", "mean_ms", "max_ms"] {
            times[key] = ms.into();
        }
        times["percentiles"]
            .as_array_mut()
            .unwrap()
            .iter_mut()
            .for_each(|known| known["value_ms"] = ms.into());
    }
    slow
}

/// The same run, with this number of failed iterations.
fn failing(results: &Value, failed: u64) -> Value {
    let mut failing = results.clone();
    let rows = failing["iterations"].as_array_mut().unwrap();
    rows.iter_mut().take(failed as usize).for_each(|row| row["outcome"] = "failed".into());
    let ok = rows.len() as u64 - failed;
    let counts = &mut failing["workloads"][0]["iterations"];
    (counts["ok"], counts["failed"]) = (ok.into(), failed.into());
    failing
}

fn results_of(run: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(run.join("results.json")).unwrap()).unwrap()
}

/// Past runs are copies of one with other ids, so that they vary by nothing; a day apart, and all before 2026.
fn history(bench: &Bench, runs: u32, of: &Path) -> PathBuf {
    let past = bench.path().join(format!("past-{runs}"));
    let results = results_of(of);
    for number in 0..runs {
        let directory = past.join(format!("20260101T0000{number:02}Z-look"));
        std::fs::create_dir_all(&directory).unwrap();
        let copy = copy_of(&results, number, -1440 * i64::from(number + 1));
        std::fs::write(directory.join("results.json"), copy.to_string()).unwrap();
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
        ended.contains("INCONCLUSIVE") && ended.contains("9 past runs are comparable, and 10 are needed"),
        "{ended}"
    );
    told(&["compare", text(&few), text(&base), "--strict"], 4);
    // The same runs once more do not count as further runs.
    for number in 0..9 {
        let (from, to) =
            (few.join(format!("20260101T0000{number:02}Z-look")), few.join(format!("copy-{number}")));
        std::fs::create_dir_all(&to).unwrap();
        std::fs::copy(from.join("results.json"), to.join("results.json")).unwrap();
    }
    let ended = told(&["compare", text(&few), text(&base)], 0);
    assert!(ended.contains("9 past runs are comparable, and 10 are needed"), "{ended}");
    let ended = told(&["compare", text(&many), text(&base)], 0);
    assert!(ended.starts_with("PASS · Look") && ended.contains("12 past runs"), "{ended}");
    let results = results_of(&base);
    let write = |name: &str, results: Value| bench.write(name, results.to_string());
    let slow = slowed(&results, 10_000.0);
    let files = [0, 60].map(|minutes| {
        write(&format!("slow-{minutes}.json"), copy_of(&slow, 100 + minutes, i64::from(minutes)))
    });
    let ended = told(&["compare", text(&many), text(&files[0])], 0);
    assert!(ended.contains("INCONCLUSIVE") && ended.contains("a second run must confirm it"), "{ended}");
    let ended = told(&["compare", text(&many), text(&files[0]), text(&files[1])], 2);
    assert!(ended.starts_with("FAIL") && ended.contains("confirmed by a second run"), "{ended}");
    let quick = write("quick.json", copy_of(&results, 200, 60));
    let json = told(&["compare", text(&many), text(&files[0]), text(&quick), "--json"], 0);
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&json["format"], &json["outcome"]), (&"bench-history".into(), &"PASS".into()));
    assert_described("history", &json);
    // As quick as ever, and most of it failed: no percentile of what went well is good for that.
    let most = failing(&results, 210);
    let files_failing = [0, 60].map(|minutes| {
        write(&format!("failing-{minutes}.json"), copy_of(&most, 300 + minutes, i64::from(minutes)))
    });
    let ended = told(&["compare", text(&many), text(&files_failing[0])], 0);
    assert!(
        ended.starts_with("INCONCLUSIVE") && ended.contains("fails more often than past runs"),
        "{ended}"
    );
    told(&["compare", text(&many), text(&files_failing[0]), text(&files_failing[1])], 2);
    let ended = bench.run(&["compare", text(&base), text(&files[0]), text(&files[1])]).expect_code(64);
    assert!(ended.stderr.contains("two runs are only compared"), "{}", ended.stderr);
}

/// A second run confirms only if it is another one, and not in the same slow minute.
#[test]
fn a_second_run_confirms_only_when_it_is_apart_from_the_first() {
    let bench = folder();
    let base = run(&bench, "runs", &["--no-profile"]);
    let results = results_of(&base);
    let past = history(&bench, 12, &base);
    let slow = slowed(&results, 10_000.0);
    let new = bench.write("new.json", copy_of(&slow, 100, 0).to_string());
    let between = past.join("between.json");
    std::fs::create_dir(bench.path().join("rerun")).unwrap();
    for (number, minutes, base_ms, code, message) in [
        // The same run in another place.
        (100, 0, None, 4, "RERUN is the same run as NEW"),
        (100, 60, None, 4, "RERUN is the same run as NEW"),
        // Ten minutes from the end of the first, which took some 10 s at least by its own account.
        (101, 0, None, 4, "run again 10 minutes or more after"),
        (101, 9, None, 4, "run again 10 minutes or more after"),
        (101, -9, None, 4, "run again 10 minutes or more after"),
        (101, 12, None, 2, "confirmed by a second run"),
        (101, -12, None, 2, "confirmed by a second run"),
        // A run of the base between the two.
        (101, 4, Some(0.0), 2, "confirmed by a second run"),
        (101, 4, Some(9_500.0), 4, "INCONCLUSIVE"),
    ] {
        let rerun = bench.write("rerun/results.json", copy_of(&slow, number, minutes).to_string());
        let _ = std::fs::remove_file(&between);
        if let Some(base_ms) = base_ms {
            let of_base = if base_ms > 0.0 { slowed(&results, base_ms) } else { results.clone() };
            std::fs::write(&between, copy_of(&of_base, 50, 2).to_string()).unwrap();
        }
        let rerun = rerun.parent().unwrap();
        let ended = bench.run(&["compare", text(&past), text(&new), text(rerun), "--strict"]);
        assert_eq!(ended.code, Some(code), "{number} {minutes} {base_ms:?}: {ended:?}");
        assert!(ended.stdout.contains(message), "{number} {minutes} {base_ms:?}: {}", ended.stdout);
    }
    std::fs::remove_file(&between).unwrap();
    let ended = bench.run(&["compare", text(&past), text(&new), text(&new), "--markdown"]).expect_code(0);
    assert!(ended.stdout.starts_with("### INCONCLUSIVE"), "{}", ended.stdout);
    let ended = bench.run(&["compare", text(&past), text(&new), text(&new), "--html"]).expect_code(0);
    assert!(ended.stdout.contains("<span class=\"verdict\">INCONCLUSIVE</span>"), "{}", ended.stdout);
    assert!(ended.stdout.contains("RERUN is the same run as NEW"), "{}", ended.stdout);
}

/// Whatever a file states, its iterations tell; without these it shows nothing.
#[test]
fn what_a_file_states_is_held_against_its_iterations() {
    let bench = folder();
    let base = run(&bench, "runs", &["--no-profile"]);
    let results = results_of(&base);
    let past = history(&bench, 12, &base);
    // Slow iterations under the figures of a quick run.
    let mut forged = copy_of(&slowed(&results, 10_000.0), 100, 0);
    forged["workloads"] = results["workloads"].clone();
    let mut no_failures = copy_of(&failing(&results, 100), 101, 0);
    no_failures["workloads"] = results["workloads"].clone();
    let mut only_percentiles = copy_of(&results, 102, 0);
    only_percentiles["workloads"][0]["response_time"]["percentiles"][0]["value_ms"] = 0.001.into();
    let mut no_such = copy_of(&results, 103, 0);
    no_such["iterations"][7]["duration_ms"] = (-1.0).into();
    for (forged, message) in [
        (forged, "it states a mean of "),
        (
            no_failures,
            "it states 300 iterations (300 ok, 0 failed, 0 cut off, 0 dropped, 0 with a request that was sent once more), and lists 300 iterations (200 ok",
        ),
        (only_percentiles, "it states a p"),
        (no_such, "took -1 ms"),
    ] {
        let file = bench.write("forged.json", forged.to_string());
        for arguments in [[text(&past), text(&file)], [text(&base), text(&file)]] {
            let ended = bench.run(&["compare", arguments[0], arguments[1]]).expect_code(65);
            assert!(ended.stderr.contains(message), "{message}: {}", ended.stderr);
        }
        // Among past runs it is passed over.
        std::fs::copy(&file, past.join("forged.json")).unwrap();
        let ended = bench.run(&["compare", text(&past), text(&base)]).expect_code(0);
        assert!(ended.stdout.contains("1 past runs were skipped"), "{}", ended.stdout);
        std::fs::remove_file(past.join("forged.json")).unwrap();
    }
    let mut bare = copy_of(&results, 104, 0);
    bare.as_object_mut().unwrap().remove("iterations");
    let bare = bench.write("bare.json", bare.to_string());
    let ended = bench.run(&["compare", text(&past), text(&bare), "--strict"]).expect_code(4);
    assert!(ended.stdout.contains("cannot be checked against its iterations"), "{}", ended.stdout);
    // An action's requests are not listed.
    let file = bench.write("listed.json", copy_of(&results, 105, 0).to_string());
    let of_action = ["--metric", "p95(action \"look\")", "--strict"];
    bench.run(&[&["compare", text(&past), text(&file)], &of_action[..]].concat()).expect_code(4);
}

/// A misspelt metric is refused and never passed over.
#[test]
fn a_metric_that_there_is_not_is_refused() {
    let bench = folder();
    let base = run(&bench, "runs", &["--no-profile"]);
    let past = history(&bench, 12, &base);
    for (metric, message) in [
        ("p9O", "`p9O` is not a percentile: write p95"),
        ("P95", "is not a percentile"),
        ("p95(action \"loook\")", "no action is named `loook`; the actions are `look`; did you mean `look`?"),
        ("p95(action \"x\")", "no action is named `x`; the actions are `look`"),
        ("p95(actoin \"look\")", "is not a percentile"),
    ] {
        let arguments =
            ["compare", text(&past), text(&base), "--metric", "p50", "--metric", metric, "--strict"];
        let ended = bench.run(&arguments).expect_code(64);
        assert!(ended.stderr.contains(message), "{metric}: {}", ended.stderr);
    }
    let ended = bench.run(&["compare", text(&base), text(&base), "--metric", "p50"]).expect_code(64);
    assert!(ended.stderr.contains("for two runs, all percentiles are shown"), "{}", ended.stderr);
}
