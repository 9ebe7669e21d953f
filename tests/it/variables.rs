//! Values that do not stand on the command line: `.env`, `--env-file`, and `BENCH_*` variables for options.

use crate::server::ScriptedServer;
use crate::support::Bench;

const SCENARIO: &str = "variables: { key: { env: OWN_KEY } }
runner: { serial: { times: 2 } }
iteration: [{ action: a, get: '/{{ key }}' }]
";

fn server() -> ScriptedServer {
    ScriptedServer::start(|_, wire| wire.answer("200 OK", "application/json", "{}"))
}

#[test]
fn references_are_looked_up_in_the_environment_and_then_in_files() {
    // What is set, what is beside the scenario, what is named, and what counts.
    for (set, beside, named, expected) in [
        (None, Some("OWN_KEY=beside-canary"), None, "/beside-canary"),
        (Some("real"), Some("OWN_KEY=beside-canary"), None, "/real"),
        (None, Some("OWN_KEY=beside-canary"), Some("# c\nexport OWN_KEY='named-canary'\n"), "/named-canary"),
        (Some("real"), None, Some("OWN_KEY=named-canary"), "/real"),
        (None, Some("not a variable canary\nOWN_KEY=beside-canary"), None, "/beside-canary"),
    ] {
        let (bench, server) = (Bench::new(), server());
        bench.load(&server.url(), "", SCENARIO);
        beside.into_iter().for_each(|text| drop(bench.write(".env", text)));
        named.into_iter().for_each(|text| drop(bench.write("own.env", text)));
        let files: &[&str] = if named.is_some() { &["--env-file", "own.env"] } else { &[] };
        for (command, sends) in [("validate", false), ("run", true)] {
            let mut command = bench.command(&[&[command, "scenario.yaml"], files].concat());
            match set {
                Some(value) => command.env("OWN_KEY", value),
                None => command.env_remove("OWN_KEY"),
            };
            let ended = Bench::end(&mut command).expect_code(0);
            let said = ended.stdout + &ended.stderr;
            assert!(!said.contains("canary"), "{said}");
            assert_eq!(
                said.contains(".env:1: a line without `=`"),
                expected == "/beside-canary" && beside != Some("OWN_KEY=beside-canary")
            );
            if sends {
                assert_eq!(server.count(expected), 2, "{:?}", server.seen());
                let kept = std::fs::read_to_string(bench.run_directory().join("results.json")).unwrap();
                assert!(!kept.contains("canary"), "{kept}");
            }
        }
    }
}

#[test]
fn a_file_that_is_named_must_be_one_of_variables() {
    let bench = Bench::new();
    bench.load("http://127.0.0.1:9", "", SCENARIO);
    bench.write("own.env", "A=1\nhunter2 hunter2\n");
    let ended = bench.run(&["run", "scenario.yaml", "--env-file", "own.env"]).expect_code(65);
    assert!(
        ended.stderr.contains("own.env:2: a line without `=`") && !ended.stderr.contains("hunter2"),
        "{}",
        ended.stderr
    );
    let ended = bench.run(&["run", "scenario.yaml", "--env-file", "none.env"]).expect_code(64);
    assert!(ended.stderr.contains("cannot read none.env"), "{}", ended.stderr);
    let ended = bench.run(&["run", "scenario.yaml"]).expect_code(65);
    assert!(ended.stderr.contains("the environment variable OWN_KEY is not set"), "{}", ended.stderr);
}

#[test]
fn every_option_of_a_run_has_a_variable() {
    let (bench, server) = (Bench::new(), server());
    bench.load(&server.url(), "", SCENARIO);
    let mut command = bench.command(&["run", "scenario.yaml", "-c", "1"]);
    let variables = [
        ("OWN_KEY", "k"),
        ("BENCH_TIMES", "7"),
        ("BENCH_QUIET", "yes"),
        ("BENCH_CONCURRENCY", "3"),
        ("BENCH_NO_PROBE", "1"),
    ];
    let ended = Bench::end(command.envs(variables)).expect_code(0);
    assert_eq!((server.count("/k"), ended.stdout.lines().count()), (7, 2), "{}", ended.stdout);
    let results = bench.results();
    assert_eq!(results["workloads"][0]["runner"]["constant"]["concurrency"], 1, "the command line wins");
    let mut command = bench.command(&["run", "scenario.yaml"]);
    let ended = Bench::end(command.envs([("OWN_KEY", "k"), ("BENCH_TIMES", "many")])).expect_code(64);
    assert!(ended.stderr.contains("many") && ended.stderr.contains("BENCH_TIMES"), "{}", ended.stderr);
}
