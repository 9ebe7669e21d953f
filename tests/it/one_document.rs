//! `--json`: one document on standard output and nothing else there; `bench ab` of two URLs; a deployment in a scenario.

use serde_json::Value;

use crate::schema::assert_described;
use crate::server::ScriptedServer;
use crate::support::Bench;

fn server() -> ScriptedServer {
    ScriptedServer::start(|_, wire| wire.answer("200 OK", "application/json", "{}"))
}

fn document(stdout: &str) -> Value {
    serde_json::from_str(stdout).unwrap_or_else(|error| panic!("{error}: {stdout}"))
}

const LOAD: &str = "runner: { serial: { times: 30 } }
iteration: [{ log: hello }, { action: a, get: / }]
sla: { thresholds: [ 'count(errors) == 0' ] }
";

#[test]
fn a_run_and_its_check_are_documents() {
    let (bench, server) = (Bench::new(), server());
    bench.load(&server.url(), "", LOAD);
    let mut command = bench.command(&["run", "scenario.yaml", "--json"]);
    let ended = Bench::end(command.env("GITHUB_ACTIONS", "true")).expect_code(0);
    let printed = document(&ended.stdout);
    assert_eq!(printed, bench.results());
    assert_described("results", &printed);
    let judged = document(&bench.run(&["check", "latest", "--json"]).expect_code(0).stdout);
    assert_described("results", &judged);
    assert_eq!((&judged["verdict"], &judged["iterations_omitted"]), (&printed["verdict"], &30.into()));
    bench.write("sla.yaml", "sla: { thresholds: [ 'count(iterations) > 1000' ] }\n");
    let broken = bench.run(&["check", "latest", "--json", "--sla", "sla.yaml"]).expect_code(2).stdout;
    assert_eq!(document(&broken)["verdict"]["outcome"], "FAIL");
    let ended = bench.run(&["run", "scenario.yaml", "--json", "-n", "0"]).expect_code(64);
    assert_eq!(ended.stdout, "");
}

#[test]
fn faults_are_a_document_with_their_places() {
    let bench = Bench::new();
    bench.load("http://127.0.0.1:9", "", LOAD);
    bench.write("bad.yaml", "title: t\ntimeot: 5s\niteration: [{ get: / }]\n");
    let files = ["validate", "--json", "scenario.yaml", "bad.yaml", "missing.yaml"];
    let found = document(&bench.run(&files).expect_code(65).stdout);
    assert_described("validation", &found);
    assert_eq!((&found["format"], &found["valid"]), (&"bench-validation".into(), &false.into()));
    let files = found["files"].as_array().unwrap();
    let valid: Vec<bool> = files.iter().map(|file| file["valid"].as_bool().unwrap()).collect();
    assert_eq!(valid, [true, false, false]);
    let faults = files[1]["faults"].as_array().unwrap();
    let misspelt = faults.iter().find(|fault| fault["message"].as_str().unwrap().contains("timeot")).unwrap();
    assert_eq!(
        (&misspelt["file"], &misspelt["line"], &misspelt["column"]),
        (&"bad.yaml".into(), &2.into(), &1.into())
    );
    assert!(misspelt["help"].as_str().unwrap().contains("timeout"), "{misspelt}");
    let missing = &files[2]["faults"][0];
    assert!(missing["message"].as_str().unwrap().contains("missing.yaml") && missing.get("line").is_none());
    let all = document(&bench.run(&["validate", "--json", "scenario.yaml"]).expect_code(0).stdout);
    assert_eq!(all["valid"], true);
}

#[test]
fn two_urls_are_compared_without_a_file() {
    let (bench, server) = (Bench::new(), server());
    let [a, b] = ["v1", "v2"].map(|base| format!("{}/{base}/orders", server.url()));
    let options = ["--round", "200ms", "--pairs", "10", "-c", "2", "-H", "X-Tenant: blue", "--json"];
    let ended = bench.run(&[&["ab", &a, &b], options.as_slice()].concat());
    assert!(matches!(ended.code, Some(0 | 2 | 3)), "{ended:?}");
    let paired = document(&ended.stdout);
    assert_described("ab", &paired);
    assert_eq!(paired["scenario"]["title"], "GET /orders");
    for path in ["/v1/orders", "/v2/orders"] {
        assert!(server.count(path) > 10, "{path}");
    }
    assert!(server.seen().iter().all(|seen| seen.headers.contains_key("x-tenant") || seen.method == "HEAD"));
    let other = format!("{}/other", server.url());
    for (arguments, what) in [
        (vec!["ab", &a], "the URL of B is missing"),
        (vec!["ab", &a, &other], "different paths"),
        (vec!["ab", "scenario.yaml", &b], "after a scenario"),
        (
            vec!["ab", "scenario.yaml", "-c", "3", "--target-a", "a", "--target-b", "b"],
            "--concurrency is for URLs",
        ),
        (vec!["ab", &a, &b, "-n", "5"], "--round"),
    ] {
        let ended = bench.run(&arguments).expect_code(64);
        assert!(ended.stderr.contains(what), "{arguments:?}: {}", ended.stderr);
    }
}

#[test]
fn a_scenario_may_hold_its_deployment() {
    let (bench, server) = (Bench::new(), server());
    bench.write("key.txt", "canary-of-the-file\n");
    let scenario = |target: &str| {
        format!(
            "title: t\ndeployment:\n  name: own\n  targets: {{ {target}: '{}' }}\n  auth: {{ bearer: {{ token: {{ file: key.txt }} }} }}\n{LOAD}",
            server.url()
        )
    };
    bench.write("own.yaml", scenario("default"));
    bench.run(&["run", "own.yaml"]).expect_code(0);
    let seen = server.seen();
    assert!(seen.iter().any(|seen| seen.headers["authorization"] == "Bearer canary-of-the-file"));
    let results = bench.results();
    assert_eq!(
        (&results["deployment"]["name"], &results["workloads"][0]["iterations"]["ok"]),
        (&"own".into(), &30.into())
    );
    for name in ["results.json", "report.html", "report.md"] {
        let text = std::fs::read_to_string(bench.run_directory().join(name)).unwrap();
        assert!(!text.contains("canary") && !text.contains("run own.yaml -d"), "{name}");
    }
    bench.write("plain.yaml", format!("title: t\n{LOAD}"));
    bench.run(&["run", "plain.yaml", "-d", "own.yaml", "-q"]).expect_code(0);
    bench.write("other.yaml", "name: other\ntargets: { default: 'http://127.0.0.1:9' }\n");
    let ended = bench.run(&["run", "own.yaml", "-d", "other.yaml"]).expect_code(69);
    assert!(ended.stderr.contains("127.0.0.1:9"), "{}", ended.stderr);
    bench.write("bad.yaml", scenario("deflt").replace("targets", "targts"));
    let ended = bench.run(&["validate", "bad.yaml"]).expect_code(65);
    assert!(
        ended.stderr.contains("bad.yaml:4:3") && ended.stderr.contains("did you mean `targets`"),
        "{}",
        ended.stderr
    );
}
