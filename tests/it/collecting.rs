//! `bench collect`: traces of a run, fetched later and from elsewhere.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use crate::receiving::{request_of, run_shop_in, shop_that_tells};
use crate::support::{Bench, CommandOutput};

/// Where the time of the slowest iterations went, and what distinguishes the slow ones.
fn explained(results: &Value) -> Value {
    let causes: Vec<&Value> =
        results["slowest"].as_array().unwrap().iter().map(|slow| &slow["culprit"]["name"]).collect();
    json!({ "culprits": causes, "comparison": results["workloads"][0]["comparison"] })
}

fn collect(bench: &Bench, more: &[&str]) -> CommandOutput {
    let run = bench.run_directory();
    let arguments = [&["collect", run.to_str().unwrap()], more].concat();
    bench.run(&arguments)
}

fn ids(results: &Value) -> Vec<String> {
    let rows = results["iterations"].as_array().unwrap().iter();
    rows.map(|row| row["trace_id"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_run_that_lost_its_traces_is_explained_again() {
    let bench = Bench::new();
    bench.write("d.yaml", "demo: {}\n");
    bench.write(
        "s.yaml",
        "title: t\ndeployment: d.yaml\nrunner: { constant: { times: 300, concurrency: 4 } }\niteration: [ { get: /v3 } ]\n",
    );
    bench.run(&["run", "s.yaml"]).expect_code(0);
    let (run, before) = (bench.run_directory(), bench.results());
    std::fs::remove_dir_all(run.join("traces")).unwrap();
    // What explains the run is not thrown away with the traces.
    let kept = bench.run(&["report", run.to_str().unwrap()]).expect_code(0).stderr;
    assert!(kept.contains("traces that are no longer stored; it is kept"), "{kept}");
    assert_eq!(explained(&bench.results()), explained(&before));
    // The collector is in the run's directory.
    let said = collect(&bench, &[]).expect_code(0).stderr;
    assert!(
        said.contains(
            " wanted traces are complete now, 0 were before; 0 are incomplete, of 0 there is nothing"
        ),
        "{said}"
    );
    assert_eq!(explained(&bench.results()), explained(&before));
    // Other iterations, by their number and by their ids.
    let stored = || std::fs::read_dir(run.join("traces")).unwrap().count();
    let chosen = stored();
    collect(&bench, &["--slowest", "200"]).expect_code(0);
    let slowest = stored();
    assert!(slowest >= 200 && slowest > chosen, "{slowest}");
    let missing =
        ids(&before).into_iter().find(|id| !run.join(format!("traces/{id}.json")).exists()).unwrap();
    // As OpenTelemetry writes it.
    collect(&bench, &[&missing.replace('-', "")[..20]]).expect_code(0);
    assert!(run.join(format!("traces/{missing}.json")).exists());
    assert_eq!(stored(), slowest + 1);
}

#[test]
fn what_a_receiver_kept_is_there_for_every_iteration() {
    let bench = Bench::new();
    run_shop_in(
        &bench.path().join("runs"),
        "{ receive: 127.0.0.1:0 }",
        "runner: { constant: { times: 200, concurrency: 4 } }",
    );
    let shown = bench.run(&["report", bench.run_directory().to_str().unwrap()]).expect_code(0).stdout;
    let spans = "spans    400 received for this run, all kept: 200 traces; 200 of other traces";
    assert!(shown.contains(spans), "{shown}");
    let (run, results) = (bench.run_directory(), bench.results());
    let stored = || std::fs::read_dir(run.join("traces")).unwrap().count();
    assert!(stored() < 200);
    let other = ids(&results).into_iter().find(|id| !run.join(format!("traces/{id}.json")).exists()).unwrap();
    let tree = bench.run(&["trace", "show", run.to_str().unwrap(), &other[..13]]).expect_code(0).stdout;
    assert!(tree.contains("SELECT item"), "{tree}");
    collect(&bench, &["--slowest", "200"]).expect_code(0);
    assert_eq!(stored(), 200);
    assert_eq!(bench.results()["profiling"]["received"], results["profiling"]["received"]);
}

#[test]
fn spans_that_came_late_are_taken_from_a_file() {
    let (bench, exported) = (Bench::new(), Arc::new(Mutex::new(Vec::new())));
    let lines = Arc::clone(&exported);
    let server = shop_that_tells(move |spans| lines.lock().unwrap().push(request_of(spans).to_string()));
    bench.load(
        &server.url(),
        "profiler: { headers: [w3c] }",
        "runner: { constant: { times: 200, concurrency: 4 } }\niteration: [ { get: /x } ]",
    );
    bench.run(&["run", "scenario.yaml"]).expect_code(0);
    let said = collect(&bench, &[]).expect_code(64).stderr;
    assert!(said.contains("the run has no collector, and none is given; give -d DEPLOYMENT"), "{said}");
    // Half of them at first, then all.
    let all = exported.lock().unwrap().join("\n");
    let half: Vec<&str> = all.lines().step_by(2).collect();
    bench.write("half.json", half.join("\n"));
    bench.write("all.json", &all);
    collect(&bench, &["--from", "half.json"]).expect_code(0);
    collect(&bench, &["--from", "all.json", "--slowest", "40"]).expect_code(0);
    let results = bench.results();
    let states: BTreeMap<String, u64> =
        serde_json::from_value(results["profiling"]["fetched"].clone()).unwrap();
    assert_eq!(states.keys().collect::<Vec<_>>(), ["complete"], "{states:?}");
    let named = explained(&results).to_string();
    assert!(named.contains("SELECT item"), "{named}");
}

/// A run's directory may come from elsewhere, and a deployment in it would choose what is contacted.
#[test]
fn a_deployment_inside_of_the_run_is_used_only_if_it_is_named() {
    let (bench, server) =
        (Bench::new(), crate::server::ScriptedServer::answering_after(std::time::Duration::ZERO));
    let (own, before) = (bench.path().join("own"), bench.path().join("before"));
    std::fs::create_dir(&own).unwrap();
    let collector = bench.path().join("collector.db");
    let deployment = format!(
        "targets: {{ default: \"{}\" }}\nprofiler: {{ hmac_key: k, connection_string: \"sqlite:///{}\" }}\n",
        server.url(),
        collector.display()
    );
    bench.write("own/d.yaml", &deployment);
    bench.write(
        "s.yaml",
        "title: t\ndeployment: own/d.yaml\nrunner: { serial: { times: 5 } }\ntrace: { settle: 100ms }\n\
         iteration: [ { get: /x } ]\n",
    );
    bench.run(&["run", "s.yaml"]).expect_code(0);
    let collect = |more: &[&str]| bench.run(&[&["collect", "own", "--wait", "100ms"], more].concat());
    // What the log names is in the run's directory now.
    std::fs::rename(&own, &before).unwrap();
    std::fs::rename(bench.run_directory(), &own).unwrap();
    let said = collect(&[]).expect_code(64).stderr;
    assert!(said.contains("own/d.yaml is not here"), "{said}");
    std::fs::rename(before.join("d.yaml"), own.join("d.yaml")).unwrap();
    let said = collect(&[]).expect_code(64).stderr;
    assert!(said.contains("own/d.yaml lies in its own directory, which is not trusted"), "{said}");
    assert!(said.contains("give -d DEPLOYMENT"), "{said}");
    let said = collect(&["-d", "own/d.yaml"]).stderr;
    assert!(said.contains("wanted traces are complete now"), "{said}");
}

#[test]
fn what_cannot_be_collected_says_why() {
    let (bench, server) =
        (Bench::new(), crate::server::ScriptedServer::answering_after(std::time::Duration::ZERO));
    bench.load(&server.url(), "", "runner: { serial: { times: 5 } }\niteration: [ { get: /x } ]");
    bench.run(&["run", "scenario.yaml"]).expect_code(0);
    let said = collect(&bench, &[]).expect_code(65).stderr;
    assert!(said.contains("it was not profiled: the deployment has no HMAC key"), "{said}");
    let said = bench.run(&["collect", "."]).expect_code(65).stderr;
    assert!(said.contains(". holds no run.log; give the directory of a run"), "{said}");

    let bench = Bench::new();
    bench.load(
        &server.url(),
        "profiler: { headers: [w3c] }",
        "runner: { serial: { times: 5 } }\niteration: [ { get: /x } ]",
    );
    bench.run(&["run", "scenario.yaml"]).expect_code(0);
    bench.write("broken.json", "{\"a\": ");
    let rows: [(&[&str], i32, &str); 6] = [
        (&["00000000"], 65, "no profiled iteration of this run has an id that begins with 00000000"),
        (&["ab"], 64, "`ab` is too short for the beginning of an id; write at least 4 characters"),
        (&["--from", "nothing.json"], 65, "nothing.json: cannot read it: No such file"),
        (&["--from", "broken.json"], 65, "broken.json: cannot read its JSON"),
        (&["--connection-string", "redis://127.0.0.1:1"], 69, "the collector gave no trace"),
        (&["-d", "scenario.yaml"], 65, "unknown key"),
    ];
    for (arguments, code, text) in rows {
        let said = collect(&bench, arguments).expect_code(code).stderr;
        assert!(said.contains(text), "{arguments:?}: {said}");
    }
}
