//! The traced iteration before the load: it is in no figure, and what it finds is said before the load.

use std::collections::HashSet;

use bench::harness::{Interrupt, run};
use bench::results::model::TraceState;
use serde_json::Value;

use crate::receiving::{options, shop_and_events};
use crate::server::ScriptedServer;
use crate::support::{Bench, adds_up};

const TIMES: usize = 20;

fn service() -> ScriptedServer {
    ScriptedServer::start(|_, wire| wire.answer("200 OK", "application/json", "{}"))
}

/// A load on a service whose traces never reach the collector.
fn load(bench: &Bench, server: &ScriptedServer, more: &str) {
    let collector = bench.path().join("collector.db");
    bench.load(
        &server.url(),
        &format!("profiler: {{ hmac_key: k, connection_string: \"sqlite:///{}\" }}", collector.display()),
        &format!(
            "runner: {{ constant: {{ times: {TIMES}, concurrency: 1 }} }}\ntrace: {{ settle: 100ms }}\n\
             data: {{ people: {{ rows: [ada, bob] }} }}\n\
             iteration: [ {{ action: a, get: '/{{{{ iteration }}}}/{{{{ people }}}}' }} ]\n{more}"
        ),
    );
}

fn paths(server: &ScriptedServer) -> Vec<String> {
    server.seen().iter().map(|seen| seen.path.clone()).collect()
}

#[test]
fn it_runs_before_the_load_and_is_in_no_figure() {
    let (server, bench) = (service(), Bench::new());
    load(&bench, &server, "");
    let ended = bench.run(&["run", "scenario.yaml"]).expect_code(0);
    let paths = paths(&server);
    assert_eq!(paths.len(), TIMES + 1, "{paths:?}");
    assert_eq!(paths[..3], ["/2000000000/ada", "/0/ada", "/1/bob"]);
    let results = bench.results();
    adds_up(&results);
    assert_eq!(results["workloads"][0]["iterations"]["total"], TIMES);
    assert_eq!(results["workloads"][0]["response_time"]["count"], TIMES);
    let probe = &results["probe"];
    assert_eq!((&probe["outcome"], &probe["trace"]), (&Value::from("ok"), &Value::from("absent")));
    let rows = results["iterations"].as_array().unwrap();
    let ids: HashSet<&str> = rows.iter().map(|row| row["trace_id"].as_str().unwrap()).collect();
    assert!(ids.len() == TIMES && !ids.contains(probe["trace_id"].as_str().unwrap()));
    let missing = probe["missing"].as_str().unwrap();
    assert!(missing.contains("holds no trace at all") && missing.contains("HMAC key"), "{missing}");
    let warned = ended.stderr.find("warning: the probe has no trace").unwrap();
    let loaded = ended.stderr.find(&format!(" of {TIMES}")).unwrap();
    assert!(warned < loaded, "{}", ended.stderr);
    assert!(ended.stdout.contains("probe    ok in "), "{}", ended.stdout);
    // A wrong key looks like this: it stands first in the result, once, and nothing says that all is well.
    let first = ended.stdout.find("No trace came; only the client's times are known").unwrap();
    let why = ended.stdout.find("holds no trace at all").unwrap();
    assert!(first < why && why < ended.stdout.find("0 failed").unwrap(), "{}", ended.stdout);
    assert_eq!(ended.stdout.matches("holds no trace at all").count(), 1, "{}", ended.stdout);
    assert!(ended.stdout.contains("; trace headers sent, but no trace came\n"), "{}", ended.stdout);
    assert!(!format!("{}{}", ended.stdout, ended.stderr).contains("profiled"), "{ended:?}");
    assert_eq!(results["reason"]["kind"], "no_traces");
    let directory = bench.run_directory();
    let markdown = std::fs::read_to_string(directory.join("report.md")).unwrap();
    assert!(markdown.contains("### No trace came; only the client's times are known\n"), "{markdown}");
    // It is there again from the log alone.
    std::fs::remove_file(directory.join("results.json")).unwrap();
    bench.run(&["report", directory.to_str().unwrap()]).expect_code(0);
    assert_eq!(&bench.results()["probe"], probe);
}

#[test]
fn a_strict_run_ends_with_it() {
    let (server, bench) = (service(), Bench::new());
    load(&bench, &server, "teardown: [ { delete: /down } ]");
    let ended = bench.run(&["run", "scenario.yaml", "--strict"]).expect_code(69);
    assert_eq!(paths(&server), ["/2000000000/ada", "/down"]);
    assert_eq!(ended.stderr.matches("the probe has no trace").count(), 1, "{}", ended.stderr);
    assert_eq!(std::fs::read_dir(bench.path().join("runs")).map_or(0, Iterator::count), 0);

    // Of a small load too.
    load(&bench, &server, "");
    bench.run(&["run", "scenario.yaml", "--strict", "-n", "3"]).expect_code(69);

    let server =
        ScriptedServer::start(|_, wire| wire.answer("401 Unauthorized", "application/json", "{\"why\": 7}"));
    load(&bench, &server, "");
    let ended = bench.run(&["run", "scenario.yaml", "--strict"]).expect_code(69);
    assert!(ended.stderr.contains("the probe failed: a: answered 401"), "{}", ended.stderr);
    assert!(ended.stderr.contains("{\"why\": 7}"), "{}", ended.stderr);
}

#[test]
fn it_can_be_left_out() {
    for (arguments, more, requests) in [
        (&["--no-probe"][..], "", TIMES),
        (&[], "probe: false", TIMES),
        (&["--no-profile"], "probe: true", TIMES),
        (&["-n", "9"], "", 9),
        (&["-n", "9"], "probe: true", 10),
        (&["--once"], "probe: true", 1),
    ] {
        let (server, bench) = (service(), Bench::new());
        load(&bench, &server, more);
        let arguments: Vec<&str> = ["run", "scenario.yaml"].iter().chain(arguments).copied().collect();
        bench.run(&arguments).expect_code(0);
        assert_eq!(server.seen().len(), requests, "{arguments:?} {more}");
    }
}

#[test]
fn pairs_say_what_profiling_costs() {
    let (server, bench) = (service(), Bench::new());
    load(&bench, &server, "probe: { pairs: 8 }");
    let ended = bench.run(&["run", "scenario.yaml"]).expect_code(0);
    let seen = server.seen();
    assert_eq!(seen.len(), 1 + 2 * 8 + TIMES);
    let signed = |seen: &crate::server::ScriptedRequest| {
        seen.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("x-trace-hmac"))
    };
    assert_eq!(seen[1..17].iter().filter(|seen| signed(seen)).count(), 8);
    assert!(seen[17..].iter().all(signed), "every iteration of the load is profiled");
    let effect = &bench.results()["workloads"][0]["observer_effect"];
    assert_eq!((&effect["pairs"], &effect["percentiles"][0]["percentile"]), (&8.into(), &50.0.into()));
    assert!(ended.stdout.contains("from 8 pairs of iterations"), "{}", ended.stdout);
    assert!(!ended.stdout.contains("is not measured"), "{}", ended.stdout);
    load(&bench, &server, "");
    let ended = bench.run(&["run", "scenario.yaml"]).expect_code(0);
    assert!(ended.stdout.contains("what profiling costs is not measured"), "{}", ended.stdout);
}

#[test]
fn a_receiver_takes_its_trace_beside_those_of_the_load() {
    let (server, events) = shop_and_events();
    let folder = tempfile::tempdir().unwrap();
    let mut options = options(
        folder.path(),
        &server.url(),
        "{ receive: 127.0.0.1:0 }",
        "runner: { constant: { times: 40, concurrency: 4 } }",
    );
    options.load.no_probe = false;
    let results = run(options, &Interrupt::new(), &events).unwrap().results;
    let probe = results.probe.as_ref().unwrap();
    assert_eq!((probe.trace, probe.points, probe.missing.as_ref()), (TraceState::Complete, 2, None));
    assert_eq!(probe.services, ["shop"]);
    let received = results.profiling.received.as_ref().unwrap();
    assert_eq!(received.spans, 80, "{received:?}");
}
