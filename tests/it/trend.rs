//! `bench trend`: stored runs over time.

use std::path::Path;

use serde_json::Value;

use crate::schema::assert_described;
use crate::support::Bench;

const SCENARIO: &str = r#"
title: Look up
deployment: d.yaml
runner: { constant: { times: 60, concurrency: 1 } }
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

/// The run's directory, below `runs` of another name.
fn copied(bench: &Bench, from: &Path, name: &str, change: &dyn Fn(&mut Value)) {
    let to = bench.path().join("nightly").join(name);
    std::fs::create_dir_all(to.join("traces")).unwrap();
    std::fs::copy(from.join("run.log"), to.join("run.log")).unwrap();
    for entry in std::fs::read_dir(from.join("traces")).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), to.join("traces").join(entry.file_name())).unwrap();
    }
    let mut results: Value =
        serde_json::from_slice(&std::fs::read(from.join("results.json")).unwrap()).unwrap();
    change(&mut results);
    std::fs::write(to.join("results.json"), serde_json::to_vec(&results).unwrap()).unwrap();
}

/// Eight nights of one build and eight of another one, of which a run was interrupted, and one of another scenario.
fn nights() -> Bench {
    let bench = Bench::new();
    bench.write("s.yaml", SCENARIO);
    let mut made = Vec::new();
    for slowdown in ["0%", "150%"] {
        bench.write("d.yaml", format!("name: demo\ndemo: {{ slowdown: {slowdown} }}\n"));
        bench.run(&["run", "s.yaml", "--quiet", "--out", &format!("runs-{}", made.len())]).expect_code(0);
        let directory = bench.path().join(format!("runs-{}", made.len()));
        made.push(std::fs::read_dir(directory).unwrap().next().unwrap().unwrap().path());
    }
    for night in 0..16 {
        let is_new = night >= 8;
        let change = |results: &mut Value| {
            // It was the build that changed, and not the demo's setting.
            results["deployment"]["demo"] = "the same".into();
            results["run"]["started_at"] = format!("2026-11-{:02}T01:00:00.000Z", night + 1).into();
        };
        let name = format!("202611{:02}T010000Z-look-up-{night:08x}", night + 1);
        copied(&bench, &made[usize::from(is_new)], &name, &change);
    }
    let stopped = |results: &mut Value| results["run"]["status"] = "interrupted".into();
    copied(&bench, &made[0], "20261117T010000Z-look-up-000000aa", &stopped);
    let other = |results: &mut Value| results["scenario"]["sha256"] = "0".repeat(64).into();
    copied(&bench, &made[0], "20261118T010000Z-look-up-000000bb", &other);
    bench
}

#[test]
fn a_slower_build_is_found_with_its_night_and_its_trace_points() {
    let bench = nights();
    let ended = bench.run(&["trend", "nightly", "--json"]).expect_code(0);
    let found: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_described("trend", &found);
    let groups = found["groups"].as_array().unwrap();
    assert_eq!(groups.len(), 2, "{found:#}");
    // The newest run has another text of the scenario, and stands alone.
    assert_eq!(groups[0]["runs"].as_array().unwrap().len(), 1);
    assert!(
        groups[1]["differs"].to_string().contains("the scenario file's text"),
        "{}",
        groups[1]["differs"]
    );
    assert_eq!(groups[1]["runs"].as_array().unwrap().len(), 16);
    let changes = groups[1]["changes"].as_array().unwrap();
    let median = changes.iter().find(|change| change["percentile"] == 50.0).expect("p50 changed");
    assert_eq!((&median["at"], &median["earliest"], &median["latest"]), (&8.into(), &8.into(), &8.into()));
    assert!(median["ratio"].as_f64().unwrap() > 1.2, "{median}");
    let point = &median["points"][0];
    assert!(point["new_self_ms"].as_f64() > point["base_self_ms"].as_f64(), "{median:#}");
    assert_ne!(point["service"], "bench");
    let left_out = found["left_out"].as_array().unwrap();
    assert_eq!(left_out.len(), 1, "{left_out:?}");

    let text = bench.run(&["trend", "nightly"]).expect_code(0).stdout;
    assert!(text.contains("16 runs from 2026-11-01 to 2026-11-16"), "{text}");
    assert!(text.contains("p50 rose by ") && text.contains("nightly/20261109T010000Z"), "{text}");
    assert!(text.contains("in a typical iteration instead of"), "{text}");
    assert!(text.contains("nightly/20261117T010000Z is left out: it "), "{text}");
    let markdown = bench.run(&["trend", "nightly", "--markdown"]).expect_code(0).stdout;
    assert!(markdown.contains("| from run |"), "{markdown}");
}

#[test]
fn a_directory_without_runs_says_so() {
    let bench = Bench::new();
    assert!(bench.run(&["trend"]).expect_code(0).stdout.contains("No runs to compare in "));
    let ended = bench.run(&["trend", "nowhere"]).expect_code(65);
    assert!(ended.stderr.contains("name the directory that holds the runs"), "{}", ended.stderr);
}
