//! The run log as a table: every row in every format, and errors on the way.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;
use std::process::Stdio;

use serde_json::Value;

use crate::server::ScriptedServer;
use crate::support::Bench;

/// Sixty iterations of two actions; every seventh request of the second fails.
fn run() -> Bench {
    let server = ScriptedServer::start(|seen, wire| match seen.path.as_str() {
        "/b" if seen.nth.is_multiple_of(7) => wire.answer("500 Oops", "text/plain", "no, \"really\""),
        _ => wire.answer("200 OK", "text/plain", "ok"),
    });
    let bench = Bench::new();
    bench.load(
        &server.url(),
        "",
        "workloads:\n  - name: '=HYPERLINK(\"x\")'\n    runner: { constant: { times: 60, concurrency: 3 } }\n    \
         iteration: [ { action: 'log in', get: /a }, { action: 'x, y', get: /b } ]",
    );
    bench.run(&["run", "scenario.yaml"]).expect_code(0);
    bench
}

/// Lines of fields (RFC 4180).
fn parse_csv(text: &str) -> Vec<Vec<String>> {
    let (mut rows, mut row, mut field, mut quoted) = (Vec::new(), Vec::new(), String::new(), false);
    let mut characters = text.chars().peekable();
    while let Some(c) = characters.next() {
        match (quoted, c) {
            (true, '"') if characters.peek() == Some(&'"') => field.extend(characters.next()),
            (_, '"') => quoted = !quoted,
            (false, ',') => row.push(std::mem::take(&mut field)),
            (false, '\r') => {}
            (false, '\n') => {
                row.push(std::mem::take(&mut field));
                rows.push(std::mem::take(&mut row));
            }
            (_, c) => field.push(c),
        }
    }
    assert!(!quoted && field.is_empty(), "the last line is whole");
    rows
}

fn by_id(results: &Value) -> BTreeMap<String, Value> {
    let rows = results["iterations"].as_array().unwrap().iter();
    rows.map(|row| (row["trace_id"].as_str().unwrap().to_owned(), row.clone())).collect()
}

#[test]
fn every_iteration_is_a_row_as_results_have_it() {
    let bench = run();
    let directory = bench.run_directory();
    let directory = directory.to_str().unwrap();
    let iterations = by_id(&bench.results());
    assert_eq!(iterations.len(), 60);
    let csv = parse_csv(&bench.run(&["export", directory, "--csv"]).expect_code(0).stdout);
    let jsonl = bench.run(&["export", directory, "--jsonl"]).expect_code(0).stdout;
    let jsonl: Vec<Value> = jsonl.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((csv.len(), jsonl.len()), (61, 60));
    for (line, object) in csv[1..].iter().zip(&jsonl) {
        let row: BTreeMap<&str, &str> =
            csv[0].iter().map(String::as_str).zip(line.iter().map(String::as_str)).collect();
        let known = &iterations[row["trace_id"]];
        assert_eq!(row["workload"], "'=HYPERLINK(\"x\")", "no spreadsheet takes it for a formula");
        assert_eq!(object["workload"], "=HYPERLINK(\"x\")");
        assert_eq!(row["outcome"], known["outcome"].as_str().unwrap());
        let service_ns: f64 = row["service_time_ns"].parse().unwrap();
        assert_eq!(service_ns / 1e6, known["duration_ms"].as_f64().unwrap());
        let number = |name: &str| row[name].parse::<u64>().unwrap();
        assert_eq!(number("start_ns") - number("due_ns"), number("start_lag_ns"));
        assert_eq!(number("response_time_ns"), number("start_lag_ns") + number("service_time_ns"));
        assert_eq!(row["error_class"], known["error"].as_str().unwrap_or(""));
        assert_eq!(object["error_class"], known["error"], "absent where nothing failed");
        for (name, value) in &row {
            match &object[name] {
                Value::Number(number) => assert_eq!(number.to_string(), **value, "{name}"),
                Value::Bool(flag) => assert_eq!(flag.to_string(), **value, "{name}"),
                Value::Null => assert_eq!(*value, "", "{name}"),
                _ => {}
            }
        }
    }
    assert!(csv.iter().any(|row| row.contains(&"x, y".to_owned())), "the action that failed");
}

#[test]
fn every_action_is_a_row_of_its_own() {
    let bench = run();
    let directory = bench.run_directory();
    let lines =
        bench.run(&["export", directory.to_str().unwrap(), "--jsonl", "--actions"]).expect_code(0).stdout;
    let rows: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(rows.len(), 120);
    let count = |name: &str, value: Value| rows.iter().filter(|row| row[name] == value).count();
    assert_eq!((count("action", "log in".into()), count("action", "x, y".into())), (60, 60));
    assert_eq!((count("position", 0.into()), count("position", 1.into())), (60, 60));
    let results = bench.results();
    let action = &results["workloads"][0]["actions"][1];
    assert_eq!(
        count("status", 500.into()),
        usize::try_from(action["requests"]["failed"].as_u64().unwrap()).unwrap()
    );
    assert_eq!(count("connection_opened", true.into()), 3, "one of each virtual user");
    for row in &rows {
        let number = |name: &str| row[name].as_u64().unwrap();
        assert!(number("send_ns") + number("wait_ns") + number("receive_ns") <= number("service_time_ns"));
        assert_eq!(number("response_time_ns"), number("service_time_ns") + number("start_lag_ns"));
    }
}

/// A Python that has these modules, if there is one.
#[cfg(feature = "parquet")]
fn python(modules: &str) -> Option<String> {
    let python = std::env::var("BENCH_TEST_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let found = std::process::Command::new(&python).args(["-c", &format!("import {modules}")]).output();
    if found.is_ok_and(|output| output.status.success()) {
        return Some(python);
    }
    println!("skipped: install {modules} for python3, or set BENCH_TEST_PYTHON to a Python that has it");
    None
}

/// Reads a Parquet file with somebody else's program: rows, sum of service times, ids, columns.
#[cfg(feature = "parquet")]
fn read_parquet(python: &str, script: &str, path: &Path) -> Value {
    let output = std::process::Command::new(python).args(["-c", script]).arg(path).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[cfg(feature = "parquet")]
fn check_parquet(modules: &str, script: &str) {
    let Some(python) = python(modules) else { return };
    let bench = run();
    let directory = bench.run_directory();
    let path = bench.path().join("all.parquet");
    let arguments = ["export", directory.to_str().unwrap(), "--parquet", "-o", path.to_str().unwrap()];
    bench.run(&arguments).expect_code(0);
    let read = read_parquet(&python, script, &path);
    let lines = bench.run(&["export", directory.to_str().unwrap(), "--jsonl"]).expect_code(0).stdout;
    let rows: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let sum: u64 = rows.iter().map(|row| row["service_time_ns"].as_u64().unwrap()).sum();
    assert_eq!((&read["rows"], &read["sum"]), (&60.into(), &sum.into()));
    let ids: Vec<&Value> = rows.iter().map(|row| &row["trace_id"]).collect();
    assert_eq!(read["ids"].as_array().unwrap().iter().collect::<Vec<_>>(), ids);
    let failed = rows.iter().filter(|row| row["error_class"] == "status").count();
    assert_eq!(read["failed"], failed);
}

#[cfg(feature = "parquet")]
#[test]
fn pyarrow_reads_the_parquet_file() {
    check_parquet(
        "pyarrow.parquet",
        "import sys, json, pyarrow.parquet as p\n\
         t = p.read_table(sys.argv[1]).to_pydict()\n\
         print(json.dumps({'rows': len(t['number']), 'sum': sum(t['service_time_ns']), 'ids': t['trace_id'],\n\
           'failed': sum(c == 'status' for c in t['error_class'])}))",
    );
}

#[cfg(feature = "parquet")]
#[test]
fn duckdb_reads_the_parquet_file() {
    check_parquet(
        "duckdb",
        "import sys, json, duckdb\n\
         q = lambda what: duckdb.sql(f\"select {what} from '{sys.argv[1]}'\").fetchall()\n\
         print(json.dumps({'rows': q('count(*)')[0][0], 'sum': int(q('sum(service_time_ns)')[0][0]),\n\
           'ids': [r[0] for r in q('trace_id')], 'failed': q(\"count(*) filter (error_class = 'status')\")[0][0]}))",
    );
}

#[test]
fn a_reader_that_has_seen_enough_ends_it_quietly() {
    let server = ScriptedServer::start(|_, wire| wire.answer("200 OK", "text/plain", "ok"));
    let bench = Bench::new();
    bench.load(
        &server.url(),
        "",
        "runner: { constant: { times: 3000, concurrency: 4 } }\niteration: [ { get: / } ]",
    );
    bench.run(&["run", "scenario.yaml", "--quiet"]).expect_code(0);
    let directory = bench.run_directory();
    let mut command = bench.command(&["export", directory.to_str().unwrap(), "--jsonl"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut first = [0; 10];
    child.stdout.take().unwrap().read_exact(&mut first).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), &b""[..]));
}

#[test]
fn what_cannot_be_exported_is_said() {
    let bench = run();
    let directory = bench.run_directory();
    let directory = directory.to_str().unwrap();
    for (arguments, code, expected) in [
        (vec!["export", directory, "--csv", "--jsonl"], 64, "cannot be used with"),
        #[cfg(feature = "parquet")]
        (vec!["export", directory, "--parquet"], 64, "--output"),
        (vec!["export", ".", "--csv"], 65, "holds no run.log"),
        (
            vec!["export", directory, "--csv", "-o", "no/such/folder.csv"],
            1,
            "cannot write no/such/folder.csv",
        ),
    ] {
        let ended = bench.run(&arguments).expect_code(code);
        assert!(ended.stderr.contains(expected), "{arguments:?}: {}", ended.stderr);
    }
    // A log cut in the middle of its last frame.
    let log = std::fs::read(Path::new(directory).join("run.log")).unwrap();
    let cut = bench.path().join("cut");
    std::fs::create_dir(&cut).unwrap();
    std::fs::write(cut.join("run.log"), &log[..log.len() - 3]).unwrap();
    let ended = bench.run(&["export", "cut", "--csv", "-o", "cut.csv"]).expect_code(0);
    assert!(ended.stderr.contains("has no end"), "{}", ended.stderr);
    let rows = parse_csv(&std::fs::read_to_string(bench.path().join("cut.csv")).unwrap());
    assert_eq!(rows.len(), 61, "the last frame only says how it ended");
}

#[test]
fn a_hyphen_is_standard_output() {
    let bench = run();
    let piped = bench.run(&["export", "latest", "--csv"]).expect_code(0).stdout;
    let named = bench.run(&["export", "latest", "--csv", "-o", "-"]).expect_code(0).stdout;
    assert!(piped.starts_with("trace_id,") || piped.lines().count() > 1, "{piped}");
    assert_eq!(named, piped);
    assert!(!bench.path().join("-").exists());
}
