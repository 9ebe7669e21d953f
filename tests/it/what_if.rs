//! `bench what-if`: what a change would have brought to a run.

use bench::harness::stored::{WantedChange, WhatIfOptions, what_if};
use bench::results::model::{Fix, UpperBound};
use serde_json::Value;

use crate::receiving::run_shop_with_a_pool;
use crate::schema::assert_described;
use crate::support::Bench;

/// Some look-ups make a slow query. One user, so that they wait for nothing else on a busy machine.
const SCENARIO: &str = r#"
title: Look up
deployment: d.yaml
runner: { constant: { times: 250, concurrency: 1 } }
setup:
  - action: log in
    post: /v3/auth/tokens
    json: { auth: { identity: { password: { user: { name: user-1, password: demo } } } } }
    extract: { token: { header: X-Subject-Token } }
iteration:
  - action: look up
    get: /v3/users/user-1
    headers: { X-Auth-Token: "{{ token }}" }
    expect: { status: 200 }
"#;
const DEPLOYMENT: &str = "name: demo\ndemo: { slow_percent: 8, slow_query: 300ms }\n";

fn ran() -> Bench {
    let bench = Bench::new();
    bench.write("d.yaml", DEPLOYMENT);
    bench.write("s.yaml", SCENARIO);
    let ended = bench.run(&["run", "s.yaml"]).expect_code(0);
    assert!(ended.stdout.contains("Without the cause, p99 would be at most "), "{}", ended.stdout);
    bench
}

fn p99(prediction: &Value) -> (f64, f64) {
    let all = prediction["percentiles"].as_array().unwrap();
    let p99 = all.iter().find(|one| one["percentile"] == 99.0).unwrap();
    (p99["today_ms"].as_f64().unwrap(), p99["high_ms"].as_f64().unwrap())
}

/// A closed load, and traces of slow and typical iterations: an upper bound, in the report and by command.
#[test]
fn the_demo_without_its_slow_query() {
    let bench = ran();
    let said = bench.results()["workloads"][0]["without_cause"].clone();
    let (today_ms, most_ms) = p99(&said);
    assert!(today_ms > 300.0 && most_ms < 250.0, "{said}");
    assert_eq!(said["upper_bound"], "slow_traces_only");

    let ended = bench.run(&["what-if", "latest"]).expect_code(0);
    for part in [
        "Without the time of `db SELECT",
        "then, at most",
        "What may be changed, by --kind",
        "These are upper bounds",
    ] {
        assert!(ended.stdout.contains(part), "{part}: {}", ended.stdout);
    }
    let json = |arguments: &[&str]| -> Value {
        let ended = bench.run(&[&["what-if", "latest", "--json"], arguments].concat()).expect_code(0);
        let value = serde_json::from_str(&ended.stdout).unwrap();
        assert_described("what-if", &value);
        value
    };
    assert_eq!(json(&[])["prediction"], said);
    let kind = json(&[])["prediction"]["fix"]["name"].as_str().unwrap().to_owned();
    let with_dot = kind.replacen(' ', " · ", 1);
    for kind in [kind.as_str(), with_dot.as_str(), "from assignment"] {
        let none = json(&["--kind", kind, "--times", "0"])["prediction"].clone();
        assert!(p99(&none).1 < 250.0, "{none}");
        let half = json(&["--kind", kind, "--times", "0.5"])["prediction"].clone();
        assert!(p99(&half).1 > p99(&none).1 && p99(&half).1 < today_ms, "{half}");
    }
    let calls = json(&["--kind", "from assignment", "--calls", "0"])["prediction"].clone();
    assert!(p99(&calls).1 < 250.0, "{calls}");
    let most = json(&["--kind", "from assignment", "--at-most", "100ms"])["prediction"].clone();
    assert!((100.0..320.0).contains(&p99(&most).1), "{most}");

    // The report keeps it, and says it.
    bench.run(&["report", "latest"]).expect_code(0);
    assert_eq!(bench.results()["workloads"][0]["without_cause"], said);
    let page = std::fs::read_to_string(bench.run_directory().join("report.html")).unwrap();
    assert!(page.contains("Without the cause, p99 would be at most "));
}

#[test]
fn what_cannot_be_predicted_is_said() {
    let bench = ran();
    for (arguments, code, said) in [
        (&["--kind", "db"][..], 64, "add --times 0.5, --at-most 5ms, --calls 1, or --servers 2x"),
        (&["--times", "0.5"], 64, "name them with --kind"),
        (&["--kind", "nobody", "--times", "0"], 64, "no point of a service is named `nobody`"),
        (&["--kind=db", "--times=-1"], 64, "not a factor"),
        (&["--servers", "0"], 64, "not a number; for example 10, or 2x"),
        (&["--kind", "db", "--times", "1", "--calls", "1"], 64, "cannot be used with"),
        (&["--servers", "2x"], 64, "no calls were seen to wait for a number of servers"),
        (&["--workload", "other", "--servers", "2x"], 64, "the run has no workload named `other`"),
    ] {
        let ended = bench.run(&[&["what-if", "latest"], arguments].concat()).expect_code(code);
        assert!(ended.stderr.contains(said), "{arguments:?}: {}", ended.stderr);
    }
    for (arguments, said) in [
        (["--kind", "from assignment", "--times", "1"], "changes nothing in any traced iteration"),
        (["--kind", "from assignment", "--times", "3"], "only upper bounds can be told"),
    ] {
        let ended = bench.run(&[&["what-if", "latest"], &arguments[..]].concat()).expect_code(4);
        assert!(ended.stdout.contains(said), "{arguments:?}: {}", ended.stdout);
    }
    let bench = Bench::new();
    bench.write("d.yaml", DEPLOYMENT);
    bench.write("s.yaml", SCENARIO.replace("times: 250", "times: 20"));
    bench.run(&["run", "s.yaml", "--no-profile"]).expect_code(0);
    let ended = bench.run(&["what-if", "latest"]).expect_code(65);
    assert!(ended.stderr.contains("the run has no whole traces of services"), "{}", ended.stderr);
}

/// An open load with received spans: queries wait for three connections, so with six of them next to nothing waits. On a
/// busy machine a run may not show it, so it may try again.
#[test]
fn more_connections_shorten_what_waits_for_them() {
    let mut seen = Vec::new();
    for _ in 0..4 {
        let folder = tempfile::tempdir().unwrap();
        let finished = run_shop_with_a_pool(folder.path());
        let asked = |change| {
            let options = WhatIfOptions {
                run_dir: finished.directory.clone().unwrap(),
                workload: None,
                kind: None,
                change: Some(change),
            };
            what_if(&options)
        };
        let (Ok(more), Ok(same)) = (asked(WantedChange::MoreServers(2.0)), asked(WantedChange::Servers(3)))
        else {
            seen.push("no calls were seen to wait".to_owned());
            continue;
        };
        assert_eq!((more.pools.len(), more.pools[0].name.as_str()), (1, "query"));
        assert!(same.prediction.is_none(), "{same:?}");
        let Some(prediction) = more.prediction else {
            seen.push(format!("{:?}", more.none_because));
            continue;
        };
        let fix = Fix::Servers { name: "query".to_owned(), today: 3, then: 6 };
        assert_eq!(prediction.fix, fix, "{prediction:?}");
        let p99 = *prediction.at(99.0).unwrap();
        assert!(p99.low_ms <= p99.then_ms && p99.then_ms <= p99.high_ms, "{p99:?}");
        if prediction.upper_bound == Some(UpperBound::Sharing) || p99.today_ms < 30.0 {
            seen.push(format!("{prediction:?}"));
            continue;
        }
        // Each query takes 12 ms.
        assert!(p99.then_ms > 11.0 && p99.then_ms < 0.9 * p99.today_ms, "{prediction:?}");
        return;
    }
    panic!("four runs: {seen:#?}");
}
