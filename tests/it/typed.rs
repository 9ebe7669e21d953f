//! What people type who know other programs: a scenario on standard input, a command in quotes, a run without its name.

use std::io::Write as _;
use std::process::Stdio;

use crate::server::ScriptedServer;
use crate::support::{Bench, CommandOutput};

fn piped(bench: &Bench, words: &[&str], input: &[u8]) -> CommandOutput {
    let mut command = bench.command(words);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // A command that refuses its arguments does not read.
    let _ = child.stdin.take().unwrap().write_all(input);
    CommandOutput::from(child.wait_with_output().unwrap())
}

fn server() -> ScriptedServer {
    ScriptedServer::start(|_, wire| wire.answer("200 OK", "application/json", "{}"))
}

#[test]
fn a_scenario_comes_from_standard_input() {
    let (server, bench) = (server(), Bench::new());
    bench.write("d.yaml", format!("targets: {{ default: \"{}\" }}\n", server.url()));
    let scenario =
        "title: piped\ndeployment: d.yaml\nrunner: { serial: { times: 2 } }\niteration: [{ get: /x }]\n";
    let checked = piped(&bench, &["validate", "-"], scenario.as_bytes()).expect_code(0);
    assert!(checked.stdout.starts_with("-: "), "{}", checked.stdout);
    piped(&bench, &["run", "-", "-n", "3"], scenario.as_bytes()).expect_code(0);
    assert_eq!(bench.results()["scenario"]["title"], "piped");
    assert_eq!(server.seen().len(), 3);
    let fault = piped(&bench, &["run", "-"], b"title: t\nruner: {}\n").expect_code(65);
    assert!(fault.stderr.contains("standard input:2:1"), "{}", fault.stderr);
    for (input, part) in [(&b" \n"[..], "no scenario on standard input"), (b"title: \xff", "not UTF-8")] {
        let ended = piped(&bench, &["run", "-"], input).expect_code(64);
        assert!(ended.stderr.contains(part), "{}", ended.stderr);
    }
}

#[test]
fn a_pasted_curl_command_is_imported() {
    let bench = Bench::new();
    let command = "curl 'http://127.0.0.1:1/orders?state=new' -H 'X-Tenant: blue'";
    bench.run(&["import", "curl", command, "-o", "order.yaml"]).expect_code(0);
    let written = std::fs::read_to_string(bench.path().join("order.yaml")).unwrap();
    assert!(written.contains("state: new") && written.contains("X-Tenant: blue"), "{written}");
    let missing = bench.run(&["import", "curl", "curl"]).expect_code(65);
    assert!(missing.stderr.contains("cannot read curl"), "{}", missing.stderr);
}

#[test]
fn commands_about_a_run_take_the_newest_one() {
    let (server, bench) = (server(), Bench::new());
    bench.run(&["run", &server.url(), "-n", "2", "-c", "1", "-o", "runs"]).expect_code(0);
    bench.run(&["report"]).expect_code(0);
    bench.run(&["check"]).expect_code(0);
    assert!(bench.run(&["comment"]).expect_code(0).stdout.contains("<!-- bench:"));
    let rows = bench.run(&["export"]).expect_code(0);
    assert_eq!(rows.stdout.lines().count(), 3, "{}", rows.stdout);
    let written = bench.run(&["export", "--jsonl", "--out", "rows.jsonl"]).expect_code(0);
    assert!(bench.path().join("rows.jsonl").exists(), "{}", written.stderr);
    let none = Bench::new();
    let ended = none.run(&["check"]);
    assert!(ended.code != Some(0) && ended.stderr.contains("latest"), "{}", ended.stderr);
}
