//! The Action for GitHub (`.github/actions/bench`): each of its shell steps is run as GitHub runs it, against a server of
//! the test.
#![cfg(unix)]

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_yaml::Value;

use crate::forge::{Forge, TOKEN};
use crate::server::ScriptedServer;
use crate::support::{Bench, tells_of_disturbance};

/// How often a load is made on a machine that is too busy for it.
const TRIES: u32 = 4;

const SCENARIO: &str = "
title: \"Look $(touch injected) `touch injected` ';touch injected;'\"
deployment: demo.yaml
runner: { constant: { times: 30, concurrency: 2 } }
iteration: [ { action: look, get: /, expect: { status: 200 } } ]
sla: { thresholds: [ p(50) < LIMIT ] }
";

fn action() -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(".github/actions/bench/action.yml");
    serde_yaml::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("{value:?} is no text"))
}

/// A job that runs the action's steps, one after another, with what GitHub gives them.
struct ActionJob {
    bench: Bench,
    action: Value,
    /// What expressions stand for: `inputs.path`, `steps.gate.outputs.verdict`, `github.token`.
    values: BTreeMap<String, String>,
    environment: BTreeMap<String, String>,
}

impl ActionJob {
    fn new(inputs: &[(&str, &str)]) -> Self {
        let (bench, action) = (Bench::new(), action());
        let mut values = BTreeMap::from([
            ("github.token".to_owned(), TOKEN.to_owned()),
            ("github.action_repository".to_owned(), "me/bench".to_owned()),
        ]);
        for (name, input) in action["inputs"].as_mapping().unwrap() {
            let name = text(name);
            let default = input.get("default").map_or("", text);
            let given = inputs.iter().find(|(given, _)| *given == name).map(|(_, value)| *value);
            assert!(given.is_some() || input.get("required").is_none(), "{name}");
            let value = given.map_or_else(|| expanded(default, &values), str::to_owned);
            values.insert(format!("inputs.{name}"), value);
        }
        assert!(inputs.iter().all(|(name, _)| values.contains_key(&format!("inputs.{name}"))), "{inputs:?}");
        bench.write("demo.yaml", "demo: {}\n");
        std::fs::create_dir(bench.path().join("temporary")).unwrap();
        Self { bench, action, values, environment: BTreeMap::new() }
    }

    fn with(mut self, environment: &[(&str, &str)]) -> Self {
        self.environment
            .extend(environment.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
        self
    }

    /// Runs a step; its outputs are there for the steps after it. A load that other programs of the machine disturbed is
    /// made again.
    fn step(&mut self, id: &str) -> Output {
        for _ in 1..TRIES {
            let ended = self.step_once(id);
            if !tells_of_disturbance(&said(&ended)) {
                return ended;
            }
            let _ = std::fs::remove_file(self.bench.path().join("temporary/summary.md"));
        }
        self.step_once(id)
    }

    fn step_once(&mut self, id: &str) -> Output {
        let steps = self.action["runs"]["steps"].as_sequence().unwrap();
        let is_it = |step: &&Value| step.get("id").map_or(text(&step["name"]), text) == id;
        let step = steps.iter().find(is_it).unwrap_or_else(|| panic!("no step {id}")).clone();
        assert_eq!(text(&step["shell"]), "bash");
        let script = self.bench.write("temporary/script.sh", text(&step["run"]));
        let output = self.bench.write("temporary/output", "");
        let mut command = Command::new("bash");
        command.args(["--noprofile", "--norc", "-eo", "pipefail"]).arg(script).current_dir(self.bench.path());
        command
            .env_clear()
            .envs(std::env::vars().filter(|(name, _)| ["PATH", "HOME"].contains(&name.as_str())));
        command.env("GITHUB_ACTIONS", "true").env("GITHUB_OUTPUT", &output);
        command.env("GITHUB_STEP_SUMMARY", self.bench.path().join("temporary/summary.md"));
        command.env("RUNNER_TEMP", self.bench.path().join("temporary")).envs(&self.environment);
        for (name, value) in step["env"].as_mapping().unwrap() {
            command.env(text(name), expanded(text(value), &self.values));
        }
        let ended = command.output().unwrap();
        let outputs = std::fs::read_to_string(output).unwrap();
        for (name, value) in outputs.lines().filter_map(|line| line.split_once('=')) {
            self.values.insert(format!("steps.{id}.outputs.{name}"), value.to_owned());
        }
        let said = [ended.stdout.as_slice(), &ended.stderr].concat();
        assert!(!String::from_utf8_lossy(&said).contains(TOKEN), "the token is in the log of {id}");
        ended
    }

    fn output(&self, name: &str) -> &str {
        let value = text(&self.action["outputs"][name]["value"]);
        let key = value.trim_start_matches("${{").trim_end_matches("}}").trim();
        self.values.get(key).map_or("", String::as_str)
    }
}

/// A text with its expressions replaced; one that is not known is empty, as in GitHub.
fn expanded(text: &str, values: &BTreeMap<String, String>) -> String {
    let mut pieces = text.split("${{");
    let mut expanded = pieces.next().unwrap().to_owned();
    for piece in pieces {
        let (name, rest) = piece.split_once("}}").unwrap();
        expanded.push_str(values.get(name.trim()).map_or("", String::as_str));
        expanded.push_str(rest);
    }
    expanded
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&[output.stdout.as_slice(), &output.stderr].concat()).into_owned()
}

/// Nothing that somebody else chooses may become a part of a script.
#[test]
fn no_script_has_an_expression_and_every_input_is_used() {
    let action = action();
    let mut whole = String::new();
    for step in action["runs"]["steps"].as_sequence().unwrap() {
        if let Some(script) = step.get("run") {
            assert!(!text(script).contains("${{"), "{script:?}");
        }
        whole.push_str(&serde_yaml::to_string(step).unwrap());
    }
    for (name, input) in action["inputs"].as_mapping().unwrap() {
        assert!(whole.contains(&format!("inputs.{}", text(name))), "{name:?} is not used");
        assert!(text(&input["description"]).len() > 10);
    }
}

#[test]
fn a_gate_runs_comments_and_ends_as_its_verdict_says() {
    for (limit, verdict, code) in [("60s", "PASS", 0), ("1ns", "FAIL", 2)] {
        let forge = Forge::obliging();
        let url = forge.server.url();
        let scenario = "a scenario $(touch injected).yaml";
        let mut job = ActionJob::new(&[
            ("path", env!("CARGO_BIN_EXE_bench")),
            ("scenario", scenario),
            ("deployment", "demo.yaml"),
            ("arguments", "--seed\n7\n\n--junit\nj unit.xml\n"),
            ("comment-tag", "order"),
        ])
        .with(&[
            ("GITHUB_API_URL", url.as_str()),
            ("GITHUB_EVENT_NAME", "pull_request"),
            ("GITHUB_REF", "refs/pull/12/merge"),
            ("GITHUB_REPOSITORY", "me/shop"),
        ]);
        job.bench.write(scenario, SCENARIO.replace("LIMIT", limit));
        let ended = job.step("install");
        assert!(ended.status.success(), "{}", said(&ended));
        let ended = job.step("gate");
        assert!(ended.status.success(), "{}", said(&ended));
        assert_eq!(
            (job.output("verdict"), job.output("exit-code")),
            (verdict, code.to_string().as_str()),
            "{}",
            said(&ended)
        );
        assert_eq!(said(&ended).contains("::error title="), verdict == "FAIL", "{}", said(&ended));
        assert!(Path::new(job.output("report-path")).is_file(), "{:?}", job.values);
        assert!(job.bench.path().join("j unit.xml").is_file());
        let summary = std::fs::read_to_string(job.bench.path().join("temporary/summary.md")).unwrap();
        assert!(summary.starts_with(&format!("## {verdict} · ")), "{summary}");
        // The second push changes the comment of the first.
        for _ in 0..2 {
            job.values.insert(
                "steps.artifact.outputs.artifact-url".to_owned(),
                "https://github.test/a/1".to_owned(),
            );
            let ended = job.step("comment");
            assert!(ended.status.success(), "{}", said(&ended));
            assert_eq!(job.output("comment-url"), "https://github.test/me/shop/pull/12#issuecomment-1000");
        }
        let comments = forge.comments();
        let [comment] = &comments[..] else { panic!("{comments:?}") };
        assert!(
            comment.body.starts_with(&format!("<!-- bench:order -->\n### {verdict} · ")),
            "{}",
            comment.body
        );
        assert!(comment.body.contains("[Full report](https://github.test/a/1)"), "{}", comment.body);
        assert_eq!(job.step("The verdict").status.code(), Some(code));
        assert!(
            !job.bench.path().join("injected").exists()
                && !job.bench.path().join("temporary/injected").exists()
        );
    }
}

#[test]
fn without_a_pull_request_or_a_right_to_comment_the_verdict_counts() {
    let forge = Forge::obliging();
    let url = forge.server.url();
    let mut job = ActionJob::new(&[
        ("path", env!("CARGO_BIN_EXE_bench")),
        ("scenario", "s.yaml"),
        ("github-token", "x"),
    ])
    .with(&[
        ("GITHUB_API_URL", url.as_str()),
        ("GITHUB_REPOSITORY", "me/shop"),
        ("GITHUB_EVENT_NAME", "push"),
    ]);
    job.bench.write("s.yaml", SCENARIO.replace("LIMIT", "60s"));
    for id in ["install", "gate"] {
        assert!(job.step(id).status.success());
    }
    let ended = job.step("comment");
    assert!(
        ended.status.success() && said(&ended).contains("belongs to no pull request"),
        "{}",
        said(&ended)
    );
    job = job.with(&[("GITHUB_EVENT_NAME", "pull_request"), ("GITHUB_REF", "refs/pull/12/merge")]);
    let ended = job.step("comment");
    assert!(ended.status.success() && said(&ended).contains("::warning title=bench::"), "{}", said(&ended));
    assert_eq!((job.output("comment-url"), forge.comments().len()), ("", 0));
    assert_eq!(job.step("The verdict").status.code(), Some(0));
}

/// An archive with a program that says its version, and its SHA-256.
fn release(folder: &Path) -> (Vec<u8>, String) {
    let name = "bench-9.9.9-x86_64-linux";
    let program = folder.join(name).join("bin/bench");
    std::fs::create_dir_all(program.parent().unwrap()).unwrap();
    std::fs::write(&program, "#!/bin/sh\necho bench 9.9.9\n").unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let archive = folder.join("a.tar.gz");
    let packed =
        Command::new("tar").arg("-czf").arg(&archive).arg("-C").arg(folder).arg(name).status().unwrap();
    assert!(packed.success());
    let summed = Command::new("sha256sum").arg(&archive).output().unwrap();
    let digest = String::from_utf8(summed.stdout).unwrap().split(' ').next().unwrap().to_owned();
    (std::fs::read(archive).unwrap(), digest)
}

#[test]
fn a_release_is_installed_only_with_its_checksum() {
    let folder = tempfile::tempdir().unwrap();
    let (archive, digest) = release(folder.path());
    let wrong = "0".repeat(64);
    let sums = format!(
        "{wrong}  bench-9.9.9-x86_64-image.tar\n{digest}  bench-9.9.9-x86_64-linux.tar.gz\n{wrong}  other.deb\n"
    );
    let no_archive = format!("{wrong}  other.deb\n");
    let server = ScriptedServer::start(move |request, wire| match request.path.rsplit_once('/') {
        Some(("/me/bench/releases/download/v9.9.9" | "/me/bench/releases/latest/download", file)) => {
            match file {
                "SHA256SUMS" => wire.answer("200 OK", "text/plain", &sums),
                "bench-9.9.9-x86_64-linux.tar.gz" => wire.answer("200 OK", "application/gzip", &archive),
                _ => wire.answer("404 Not Found", "text/plain", "no"),
            }
        }
        Some(("/me/bench/releases/download/v1.0.0", "SHA256SUMS")) => {
            wire.answer("200 OK", "text/plain", &no_archive)
        }
        _ => wire.answer("404 Not Found", "text/plain", "no"),
    });
    let url = server.url();
    for (version, sha256, code) in [
        ("v9.9.9", "", 0),
        ("latest", "", 0),
        ("v9.9.9", digest.as_str(), 0),
        ("v9.9.9", wrong.as_str(), 65),
        ("v0.0.0", "", 22),
        ("v1.0.0", "", 65),
    ] {
        let inputs = [("scenario", "s.yaml"), ("version", version), ("sha256", sha256)];
        let mut job = ActionJob::new(&inputs).with(&[("GITHUB_SERVER_URL", url.as_str())]);
        let ended = job.step("install");
        assert_eq!(ended.status.code(), Some(code), "{version} {sha256}: {}", said(&ended));
        let program = job.values.get("steps.install.outputs.program").map(PathBuf::from);
        assert_eq!(program.is_some_and(|program| program.is_file()), code == 0, "{version} {sha256}");
    }
    let mut job = ActionJob::new(&[("scenario", "s.yaml"), ("path", "./nothing")]);
    assert_eq!(job.step("install").status.code(), Some(64));
}
