//! `bench validate --explain`: what a scenario will do, before it does anything.

use crate::support::Bench;

#[test]
fn a_plan_is_explained_without_its_secrets() {
    let bench = Bench::new();
    bench.write(
        "d.yaml",
        "name: staging\ntargets: { default: http://127.0.0.1:1/api }\nauth: { bearer: { token: s3cr3t-token } }\n",
    );
    let scenario = r#"title: Orders
deployment: d.yaml
variables: { customer: c-1, password: { env: PASSWORD } }
setup:
  - action: log in
    post: /login
    json: { password: "{{ password }}" }
    extract: { session: { json: $.session } }
runner: { ramping: { stages: [{ duration: 1m, rps: 100 }, { duration: 30s, rps: 0 }] } }
iteration:
  - action: list
    get: /orders
    query: { customer: "{{ customer }}" }
    headers: { X-Session: "{{ session }}", X-Key: s3cr3t-key }
  - think: 1s
  - if: "{{ customer == 'c-1' }}"
    then: [{ action: read, get: /orders/1 }, { action: more, get: /orders/2 }]
    else: [{ stop_iteration: true }]
  - repeat: 3
    steps: [{ action: step, get: /step }]
sla:
  failure_rate: { max: 1 }
  thresholds: [p95 < 2s, p99 < 3s, "rate(errors) < 1%"]
"#;
    bench.write("s.yaml", scenario);
    let said = Bench::end(bench.command(&["validate", "--explain", "s.yaml"]).env("PASSWORD", "s3cr3t-word"))
        .expect_code(0)
        .stdout;
    for part in [
        "s.yaml: a valid scenario",
        "staging",
        "default http://127.0.0.1:1/api",
        "bearer",
        "list: GET http://127.0.0.1:1/api/orders; query customer; headers x-key, x-session",
        "think 1s",
        "if a condition holds",
        "    then",
        "repeat 3 times",
        "1 to 6 an iteration",
        "log in: POST http://127.0.0.1:1/api/login; JSON body; extracts session",
        "4500 iterations within ",
        "iterations/s",
        "99.2 │",
        "59 samples for a PASS",
        "299 samples for a PASS",
        "line 3 of s.yaml",
        "environment variable PASSWORD",
        "extracted by log in",
    ] {
        assert!(said.contains(part), "{part}:\n{said}");
    }
    assert!(!said.contains("s3cr3t"), "{said}");
    // Nothing needs to be set to look at it.
    bench.run(&["validate", "--explain", "--offline", "s.yaml"]).expect_code(0);
}
