//! `bench run --once --watch`: again whenever a file changes.

use std::process::Stdio;

use crate::server::ScriptedServer;
use crate::support::{Bench, ChildGuard};

#[test]
fn an_iteration_is_run_again_when_a_file_changes_also_after_a_fault() {
    let (bench, server) =
        (Bench::new(), ScriptedServer::start(|_, wire| wire.answer("200 OK", "application/json", "{}")));
    let scenario = |path: &str| {
        format!("runner: {{ serial: {{ times: 9 }} }}\niteration: [{{ action: a, get: {path} }}]\n")
    };
    bench.load(&server.url(), "", &scenario("/first"));
    let wait_for = |path: &str| {
        for _ in 0..600 {
            if server.count(path) > 0 {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        panic!("{path} was not asked for: {:?}", server.seen());
    };
    let mut command = bench.command(&["run", "scenario.yaml", "--once", "--watch"]);
    let child = ChildGuard::start(command.stdout(Stdio::piped()).stderr(Stdio::piped()));
    wait_for("/first");
    bench.load(&server.url(), "", &scenario("[")); // A fault is shown, and the next change counts.
    std::thread::sleep(std::time::Duration::from_millis(1500));
    bench.load(&server.url(), "", &scenario("/second"));
    wait_for("/second");
    let ended = child.interrupt().expect_code(0);
    assert!(
        ended.stderr.contains("changed: deployment.yaml, scenario.yaml") && ended.stderr.contains("error"),
        "{}",
        ended.stderr
    );
    assert_eq!(server.count("/first"), 1);
}

#[test]
fn what_cannot_be_watched_is_refused() {
    for arguments in [["run", "http://127.0.0.1:9/", "--once", "--watch"], ["run", "-", "--once", "--watch"]]
    {
        let ended = Bench::new().run(&arguments).expect_code(64);
        assert!(ended.stderr.contains("--watch needs a file"), "{}", ended.stderr);
    }
    let ended = Bench::new().run(&["run", "scenario.yaml", "--watch"]).expect_code(64);
    assert!(ended.stderr.contains("--once"), "{}", ended.stderr);
}
