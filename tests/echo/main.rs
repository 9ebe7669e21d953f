//! A toy protocol, to prove the seam for real ones: a line over TCP, which the service sends back.
//!
//! What it adds to `bench` is in this folder: its names (`names.rs`), its call as compiled (`plan.rs`) and how it is sent
//! (`call.rs`). [`PLACES`] are the only other files that know of it. Only builds of tests have it.

#![expect(clippy::unwrap_used, reason = "all of it is tests, helpers included")]

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

/// Where a protocol is plugged in.
const PLACES: [&str; 8] = [
    "Cargo.toml",
    "src/config/Cargo.toml",
    "src/config/step.rs",
    "src/iteration/Cargo.toml",
    "src/iteration/call.rs",
    "src/measure/protocol.rs",
    "src/plan/Cargo.toml",
    "src/plan/call.rs",
];

/// Sends each line back, but for `other` another one, and for `nothing` none.
fn answer(stream: TcpStream) {
    let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
    let mut stream = stream;
    while let Some(Ok(line)) = lines.next() {
        let answer = match line.as_str() {
            "other" => "something else",
            "nothing" => return,
            line => line,
        };
        if writeln!(stream, "{answer}").is_err() {
            return;
        }
    }
}

/// An echo service on a free port. It ends with the test.
fn service() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || answer(stream));
        }
    });
    format!("http://{address}")
}

struct Bench(tempfile::TempDir);

impl Bench {
    fn new(scenario: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let deployment = format!("targets: {{ default: \"{}\" }}\n", service());
        std::fs::write(folder.path().join("deployment.yaml"), deployment).unwrap();
        let scenario = format!("title: t\ndeployment: deployment.yaml\n{scenario}\n");
        std::fs::write(folder.path().join("scenario.yaml"), scenario).unwrap();
        Self(folder)
    }

    fn run(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_bench"));
        command.current_dir(self.0.path()).args(arguments).env("NO_COLOR", "1").output().unwrap()
    }

    fn run_directory(&self) -> PathBuf {
        let mut runs = std::fs::read_dir(self.0.path().join("runs")).unwrap();
        runs.next().unwrap().unwrap().path()
    }

    fn results(&self) -> Value {
        serde_json::from_slice(&std::fs::read(self.run_directory().join("results.json")).unwrap()).unwrap()
    }
}

fn said(output: &Output) -> String {
    [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text).into_owned()).concat()
}

#[test]
fn a_load_of_another_protocol_is_measured_checked_stored_and_reported() {
    let bench = Bench::new(
        "runner: { constant: { times: 40, concurrency: 2 } }
sla: { thresholds: ['count(errors) == 0', 'p95(action \"say\") < 30s'] }
iteration:
  - { action: say, echo: 'number {{ iteration }}', expect: { body: number }, extract: { word: { regex: '[a-z]+' } } }
  - { echo: '{{ word }}', expect: { variables: { word: number } }, timeout: 20s, tags: { kind: short } }",
    );
    let output = bench.run(&["run", "scenario.yaml", "--no-profile"]);
    assert!(output.status.success(), "{}", said(&output));
    let results = bench.results();
    let workload = &results["workloads"][0];
    let names: Vec<_> = workload["actions"].as_array().unwrap().iter().map(|one| &one["name"]).collect();
    assert_eq!(names, ["say", "echo {{ word }}"]);
    for action in workload["actions"].as_array().unwrap() {
        assert_eq!((&action["requests"]["total"], &action["http2"]), (&40.into(), &0.into()), "{action:#}");
        assert_eq!(action["status"], serde_json::json!({"0": 40}), "{action:#}");
        assert!(action["phases"]["wait_ms"].as_f64() > Some(0.0), "{action:#}");
    }
    // A virtual user keeps its connection.
    assert_eq!(workload["actions"][0]["connections_opened"], 2, "{workload:#}");
    let page = std::fs::read_to_string(bench.run_directory().join("report.html")).unwrap();
    assert!(page.contains("echo {{ word }}"), "{page}");
    // Everything is made again from the log.
    let before = results["workloads"].clone();
    let run = bench.run_directory().display().to_string();
    let output = bench.run(&["report", &run]);
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(bench.results()["workloads"], before);
}

#[test]
fn outcomes_that_are_not_good_and_broken_connections_are_failures() {
    for (line, class, message) in
        [("other", "status", "answered 1"), ("nothing", "closed", "unexpected end of file")]
    {
        let bench = Bench::new(&format!(
            "runner: {{ constant: {{ times: 3, concurrency: 1 }} }}\niteration: [{{ echo: {line} }}]"
        ));
        let output = bench.run(&["run", "scenario.yaml", "--no-profile"]);
        let error = &bench.results()["workloads"][0]["errors"][0];
        assert_eq!(
            (&error["class"], &error["count"]),
            (&class.into(), &3.into()),
            "{error:#} {}",
            said(&output)
        );
        assert!(error["message"].as_str().unwrap().contains(message), "{error:#}");
    }
}

#[test]
fn faults_of_a_call_stand_at_their_lines() {
    let bench = Bench::new(
        "runner: { constant: { times: 1, concurrency: 1 } }\niteration:\n  - echo: '{{ nobody }}'",
    );
    let output = bench.run(&["run", "scenario.yaml"]);
    let text = said(&output);
    assert!(text.contains("unknown variable `nobody`") && text.contains("scenario.yaml:5"), "{text}");
}

/// If this list grows, the seam has become wider than it was meant to be.
#[test]
fn a_protocol_is_one_folder_and_eight_places() {
    fn visit(folder: &Path, found: &mut Vec<String>, root: &Path) {
        for entry in std::fs::read_dir(folder).unwrap().flatten() {
            let path = entry.path();
            if path.is_dir() {
                visit(&path, found, root);
            } else if std::fs::read_to_string(&path).is_ok_and(|text| text.contains("tests/echo")) {
                found.push(path.strip_prefix(root).unwrap().display().to_string());
            }
        }
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found = vec!["Cargo.toml".to_owned()];
    visit(&root.join("src"), &mut found, root);
    found.sort();
    assert_eq!(found, PLACES);
}
