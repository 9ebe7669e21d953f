//! Mistral's guide to profiling, with a real Mistral that OSProfiler traces into its log and into a real redis.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

use crate::support::{Bench, CommandOutput, service};

/// A workflow of three actions, which Mistral runs after it has answered.
const WORKFLOW: &str = "version: '2.0'\nNAME:\n  type: direct\n  tasks:\n    first:\n      action: std.echo output=\"one\"\n      \
    on-success: [second, third]\n    second:\n      action: std.noop\n    third:\n      action: std.noop\n";

/// What `tests/real/openstack.sh` started.
struct Mistral {
    url: String,
    log: String,
    bench: Bench,
}

impl Mistral {
    fn of_environment() -> Option<Self> {
        let url = service("BENCH_TEST_MISTRAL_URL", "a Mistral: tests/real/openstack.sh")?;
        let log = service("BENCH_TEST_MISTRAL_LOG", "the log with its trace points")?;
        let keystone = service("BENCH_TEST_OPENSTACK_URL", "its Keystone")?;
        let redis = service("BENCH_TEST_OPENSTACK_REDIS_URL", "the redis that it is traced into")?;
        service("BENCH_TEST_OPENSTACK_PASSWORD", "the password of its admin")?;
        service("BENCH_TEST_OPENSTACK_HMAC_KEY", "its HMAC key")?;
        let bench = Bench::new();
        bench.write(
            "mistral.yaml",
            format!(
                "auth:\n  keystone:\n    auth_url: {keystone}\n    username: admin\n    \
                 password: {{ env: BENCH_TEST_OPENSTACK_PASSWORD }}\n    project_name: admin\n\
                 profiler: {{ hmac_key: {{ env: BENCH_TEST_OPENSTACK_HMAC_KEY }}, connection_string: \"{redis}\" }}\n"
            ),
        );
        Some(Self { url, log, bench })
    }

    fn request(
        &self,
        method: &str,
        path: &str,
        content_type: &str,
        body: &str,
        more: &[&str],
    ) -> CommandOutput {
        let url = format!("{}{path}", self.url);
        let given = ["trace", "request", &url, "-d", "mistral.yaml", "-m", method, "-T", content_type];
        self.bench.run(&[&given[..], &["--data", body], more].concat())
    }
}

/// The number of points of each name, without those of requests and statements, which other services have, too.
fn ranked(table: &str) -> BTreeMap<String, u64> {
    let rows = table.lines().skip(2).map(|line| line.split_whitespace().collect::<Vec<_>>());
    let rows = rows.filter(|row| row.len() == 5 && !["db", "wsgi"].contains(&row[4]));
    rows.map(|row| (row[4].to_owned(), row[3].parse().unwrap())).collect()
}

#[test]
fn real_mistral_has_the_same_figures_in_its_log_and_in_redis() {
    let Some(mistral) = Mistral::of_environment() else { return };
    let name = format!("bench_{}", std::process::id());
    let made = mistral.request(
        "POST",
        "/workflows",
        "text/plain",
        &WORKFLOW.replace("NAME", &name),
        &["--wait", "1s"],
    );
    assert!(made.stderr.contains(": 201 in "), "{made:?}");

    let body = format!("{{\"workflow_name\": \"{name}\"}}");
    let begun =
        mistral.request("POST", "/executions", "application/json", &body, &["--wait", "30s", "--json"]);
    assert!(begun.stderr.contains(": 201 in "), "{begun:?}");
    let trace: Value = serde_json::from_str(&begun.stdout).expect("a trace as JSON");
    let id = trace["base_id"].as_str().expect("its id");

    let (bench, log) = (&mistral.bench, mistral.log.as_str());
    let of_redis = bench.run(&["trace", "rank", id, "-d", "mistral.yaml"]).expect_code(0).stdout;
    let of_log = bench.run(&["trace", "rank", log, id]).expect_code(0).stdout;
    assert_eq!(ranked(&of_redis), ranked(&of_log));
    assert!(ranked(&of_log)["engine-start-workflow"] == 1, "{of_log}");

    // What the log has of all requests, as the guide has it: into a file.
    bench.run(&["trace", "rank", log, "report.txt"]).expect_code(0);
    let report = std::fs::read_to_string(bench.path().join("report.txt")).unwrap();
    let of_all = ranked(&report);
    assert!(of_all["engine-start-workflow"] >= 1 && of_all["default-executor-run-action"] >= 3, "{report}");
    let with_min = bench.run(&["trace", "rank", log, "--min"]).expect_code(0).stdout;
    assert!(with_min.starts_with("Total time | Min time | Max time | Avg time | Occurrences | Trace name\n"));
    assert!(Path::new(log).is_file());

    let gone = mistral.request("DELETE", &format!("/workflows/{name}"), "text/plain", "", &["--wait", "1s"]);
    assert!(gone.stderr.contains(": 204 in "), "{gone:?}");
}
