//! gRPC calls to real services: grpcio for Python and @grpc/grpc-js for Node, traced by OpenTelemetry as their users do
//! it, and tonic (`tests/real/grpc.sh`, `tests/grpc`). Each test starts its own, on a free port.

use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use crate::stalling_proxy::StallingProxy;
use crate::started::StartedService;
use crate::support::{Bench, free_address, service};

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/grpc");

/// The service in Python, with these options.
fn python(options: &[&str]) -> Option<StartedService> {
    let mut command = Command::new(setting("PYTHON")?);
    Some(StartedService::start(command.arg(format!("{FOLDER}/server.py")).arg(proto()).args(options)))
}

/// The service in Node; its spans go to this URL.
fn node(spans: Option<&str>) -> Option<StartedService> {
    let modules = setting("NODE")?;
    let mut command = Command::new("node");
    command.env("NODE_PATH", modules).arg(format!("{FOLDER}/server.js")).arg(proto()).args(spans);
    Some(StartedService::start(&mut command))
}

/// The service by tonic.
fn tonic() -> Option<StartedService> {
    let mut command = Command::new(setting("TONIC")?);
    Some(StartedService::start(command.arg(format!("{FOLDER}/shop.binpb"))))
}

fn setting(name: &str) -> Option<String> {
    service(&format!("BENCH_TEST_GRPC_{name}"), "what tests/real/grpc.sh printed")
}

fn proto() -> String {
    format!("{FOLDER}/shop.proto")
}

/// Calls of all four kinds, each checked.
const STEPS: &str = "runner: { constant: { times: 40, concurrency: 4 } }
sla: { thresholds: ['count(errors) == 0', 'p95(wait action \"get\") < 30s'] }
iteration:
  - action: get
    grpc: shop.v1.Orders/Get
    message: { id: 'o-{{ iteration }}' }
    expect:
      status: OK
      message: { $.id: 'o-{{ iteration }}', $.number: 18446744073709551615, $.balance: -9223372036854775808, $.state: PAID, '$.labels.a': b }
    extract: { card: { json: $.card }, last: { header: x-last } }
  - { action: list, grpc: shop.v1.Orders/List, message: { count: 3 }, expect: { messages: 3, message: { '$[2].id': '2' } } }
  - { action: add, grpc: shop.v1.Orders/Add, messages: [{ price: 1 }, { price: 2.5 }], expect: { message: { $.price: 3.5 } } }
  - { action: chat, grpc: shop.v1.Orders/Chat, messages: [{ id: '{{ card }}' }, { id: '{{ last }}' }], expect: { message: { '$[0].id': '4711', '$[1].id': tail } } }
  - { action: gone, grpc: shop.v1.Orders/Get, message: { id: gone }, expect: { status: NOT_FOUND } }";

/// Runs calls of all four kinds: the results.
#[track_caller]
fn all_are_right(url: &str, deployment: &str, scenario: &str) -> Value {
    let bench = Bench::new();
    bench.load(url, deployment, &format!("{scenario}{STEPS}"));
    bench.run(&["run", "scenario.yaml"]).expect_code(0);
    let results = bench.results();
    let workload = &results["workloads"][0];
    assert_eq!(workload["iterations"]["ok"], 40, "{}", workload["errors"]);
    for action in workload["actions"].as_array().unwrap() {
        assert_eq!(action["http2"], 40, "{action:#}");
    }
    results
}

#[test]
fn real_services_say_what_their_messages_are() {
    for service in [python(&[]), python(&["--gzip"]), node(None), tonic()] {
        let Some(service) = service else { continue };
        all_are_right(&service.url(), "", "");
    }
}

#[test]
fn real_services_without_reflection_need_their_files() {
    let Some(service) = python(&["--no-reflection"]) else { return };
    let bench = Bench::new();
    bench.load(&service.url(), "", STEPS);
    let ended = bench.run(&["run", "scenario.yaml"]).expect_code(65);
    assert!(ended.stderr.contains("it has no server reflection"), "{}", ended.stderr);
    assert!(ended.stderr.contains("grpc: { protos: [shop.proto] }"), "{}", ended.stderr);
    for files in [format!("protos: ['{}']", proto()), format!("descriptors: '{FOLDER}/shop.binpb'")] {
        all_are_right(&service.url(), "", &format!("grpc: {{ {files} }}\n"));
    }
}

#[test]
fn real_calls_over_tls_and_unix_sockets() {
    let bench = Bench::new();
    let path = |name: &str| bench.path().join(name).display().to_string();
    let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
    bench.write("cert.pem", made.cert.pem());
    bench.write("key.pem", made.signing_key.serialize_pem());
    let (cert, key) = (path("cert.pem"), path("key.pem"));
    let tls = format!("tls: {{ ca: '{cert}', cert: '{cert}', key: '{key}' }}");
    for (options, tls) in [
        (vec!["--tls", &cert, &key], format!("tls: {{ ca: '{cert}' }}")),
        (vec!["--tls", &cert, &key, "--client-ca", &cert], tls),
    ] {
        let Some(service) = python(&options) else { return };
        let results = all_are_right(&format!("grpcs://127.0.0.1:{}", service.port), &tls, "");
        let tls_ms = &results["workloads"][0]["actions"][0]["phases"]["tls_ms"];
        assert!(tls_ms.as_f64() > Some(0.0), "{tls_ms}");
    }
    let socket = path("orders.sock");
    let Some(_service) = python(&["--unix", &socket]) else { return };
    all_are_right(&format!("unix:{socket}"), "", "");
}

/// A dialogue whose messages follow from each other, with another call in between; a client's stream by steps.
const DIALOGUES: &str = "runner: { constant: { times: 40, concurrency: 4 } }
iteration:
  - action: chat
    grpc: shop.v1.Orders/Chat
    steps:
      - { action: ask, send: { json: { id: 'o-{{ iteration }}', price: 0.5 } }, receive: { json: { $.id: 'o-{{ iteration }}' } }, extract: { price: { json: $.price } } }
      - { action: beside, grpc: shop.v1.Orders/Get, message: { id: a }, expect: { message: { $.id: a } } }
      - repeat: 3
        steps: [ { action: again, send: { json: { id: '{{ price }}', number: 18446744073709551615 } }, receive: true, expect: { message: { $.id: '0.5', $.number: 18446744073709551615 } } } ]
      - { think: 2ms }
      - { action: two, send: { json: { id: x } } }
      - { action: both, send: { json: { id: y } }, receive: { count: 2 }, expect: { message: { $.id: y } } }
      - { action: last, send: { json: { id: z } } }
      - { action: end, close: true, expect: { status: OK, messages: 1, message: { $.id: z } } }
  - action: add
    grpc: shop.v1.Orders/Add
    gzip: true
    steps:
      - { action: first, send: { json: { price: 1 } } }
      - { action: second, send: { json: { price: 2.5 } } }
      - { action: sum, close: true, expect: { message: { $.price: 3.5 } } }
  - action: list
    grpc: shop.v1.Orders/List
    steps:
      - { action: rows, send: { json: { count: 5 } }, receive: { json: { $.id: '3' } } }
  - action: gone
    grpc: shop.v1.Orders/Get
    steps:
      - { action: ask gone, send: { json: { id: gone } } }
      - { action: is gone, close: true, expect: { status: NOT_FOUND } }";

#[test]
fn real_services_answer_dialogues() {
    for (service, http) in [
        (python(&[]), ""),
        (python(&["--gzip"]), "http: { connections: shared, max_connections: 1 }\n"),
        (node(None), ""),
        (tonic(), ""),
    ] {
        let Some(service) = service else { continue };
        let bench = Bench::new();
        bench.load(&service.url(), "", &format!("{http}{DIALOGUES}"));
        let ended = bench.run(&["run", "scenario.yaml"]).expect_code(0);
        let workload = &bench.results()["workloads"][0];
        assert_eq!(workload["iterations"]["ok"], 40, "{}\n{}", workload["errors"], ended.stdout);
        // Every user keeps its one connection.
        let actions = workload["actions"].as_array().unwrap().iter();
        let opened: u64 = actions.map(|action| action["connections_opened"].as_u64().unwrap_or(0)).sum();
        assert!(opened <= 4, "{opened}");
        let shown = bench.run(&["run", "scenario.yaml", "--once", "--verbose"]).stdout;
        assert!(shown.contains("{\"id\":\"o-0\",\"price\":0.5}") && shown.contains("CLOSE"), "{shown}");
    }
}

#[test]
fn real_calls_carry_metadata_and_a_deadline() {
    let Some(service) = python(&[]) else { return };
    let bench = Bench::new();
    let steps = "runner: { serial: { times: 2 } }
iteration:
  - action: told
    grpc: shop.v1.Orders/Get
    message: { id: metadata }
    metadata: { x-user: 'u{{ iteration }}', x-raw-bin: AQI= }
    timeout: 7s
    expect: { message: { \"$.labels['x-user']\": 'u{{ iteration }}', \"$.labels['x-raw-bin']\": AQI= } }
    extract: { left: { json: $.labels.deadline }, raw: { header: x-raw-bin } }
  - { action: late, grpc: shop.v1.Orders/Get, message: { id: a, delay_ms: 5000 }, timeout: 100ms }";
    bench.load(&service.url(), "", steps);
    let ended = bench.run(&["run", "scenario.yaml", "--once", "--verbose"]);
    let left = ended.stdout.lines().find_map(|line| line.trim().strip_prefix("left = "));
    let left: f64 = left.unwrap_or_else(|| panic!("{}", ended.stdout)).parse().unwrap();
    assert!(left > 0.0 && left <= 7.0, "{left}");
    assert!(ended.stdout.contains("> {\"id\":\"metadata\"}"), "{}", ended.stdout);
    assert!(ended.stderr.contains("timed out after 100 ms"), "{}", ended.stderr);
    let curl = bench.run(&["run", "scenario.yaml", "--once", "--curl"]).stdout;
    let call = "grpcurl \\\n  -plaintext \\\n  -H 'x-raw-bin: AQI=' \\\n  -H 'x-user: u0' \\\n  -d '{\"id\":\"metadata\"}' \\\n";
    assert!(curl.contains(call) && curl.contains("'shop.v1.Orders/Get'"), "{curl}");
}

#[test]
fn real_faults_are_said_with_their_status() {
    let Some(service) = python(&[]) else { return };
    for (id, message) in [
        ("gone", "answered NOT_FOUND: no such order: äöü; google.rpc.ErrorInfo ("),
        ("denied", "answered PERMISSION_DENIED: not yours: 100%, expected OK"),
        ("crash", "answered UNKNOWN: Exception calling application"),
        ("large", "raise `max_body`"),
    ] {
        let bench = Bench::new();
        let step = format!("{{ grpc: shop.v1.Orders/Get, message: {{ id: {id} }}, max_body: 1MiB }}");
        bench.load(
            &service.url(),
            "",
            &format!("runner: {{ serial: {{ times: 2 }} }}\niteration: [ {step} ]"),
        );
        bench.run(&["run", "scenario.yaml"]);
        let error = &bench.results()["workloads"][0]["errors"][0];
        assert!(error["message"].as_str().unwrap().contains(message), "{id}: {error:#}");
    }
}

#[test]
fn real_services_are_called_and_written_down_by_their_address() {
    let Some(service) = python(&[]) else { return };
    let bench = Bench::new();
    let address = format!("grpc://127.0.0.1:{}", service.port);
    let call = format!("{address}/shop.v1.Orders/Get");
    let ended =
        bench.run(&["run", &call, "--data", "{\"id\": \"{{ iteration }}\"}", "-n", "20"]).expect_code(0);
    assert!(ended.stdout.contains("20 iterations"), "{}", ended.stdout);
    let bench = Bench::new();
    let ended = bench.run(&["init", &address]).expect_code(0);
    assert!(ended.stdout.contains("4 requests an iteration"), "{}", ended.stdout);
    bench.run(&["run", "load.yaml", "-n", "20", "-c", "2"]);
    let errors = &bench.results()["workloads"][0]["errors"];
    assert!(errors.as_array().unwrap().is_empty(), "{errors:#}");
    let wrong = bench.run(&["run", &format!("{address}/shop.v1.Order/Get")]);
    assert!(wrong.stderr.contains("did you mean `shop.v1.Orders`?"), "{}", wrong.stderr);
}

/// Python calls Node for each order; `delay_ms` of some iterations makes Node slow. It is long beside what a busy machine adds
/// to Node's few other milliseconds, without which the whole of `stock` would be named.
#[test]
fn real_causes_behind_grpc_are_named_across_two_languages() {
    let receiver = free_address();
    let spans = format!("http://{receiver}/v1/traces");
    let Some(stock) = node(Some(&spans)) else { return };
    let next = format!("127.0.0.1:{}", stock.port);
    let Some(orders) = python(&["--spans", &spans, "--next", &next]) else { return };
    for slow_ms in [300, 0] {
        let steps = format!(
            "warm_up: {{ times: 20 }}
runner: {{ constant: {{ times: 300, concurrency: 2 }} }}
iteration:
  - action: get
    grpc: shop.v1.Orders/Get
    message: {{ id: '{{{{ iteration }}}}' }}
    metadata: {{ x-next-ms: '{{{{ {slow_ms} if iteration % 10 == 0 else 0 }}}}' }}"
        );
        let results = orders.is_cause_named(receiver, &steps, ("stock", "count stock"), slow_ms > 0);
        let comparison = &results["workloads"][0]["comparison"];
        let tree = comparison["tree"].as_array().unwrap();
        for service in ["orders", "stock"] {
            assert!(tree.iter().any(|node| node["service"] == service), "{service}: {comparison:#}");
        }
    }
}

/// One stream of ten has a slow message: what the service did meanwhile is named, and the gap is seen.
#[test]
fn a_slow_message_of_a_real_stream_is_named() {
    let receiver = free_address();
    let Some(orders) = python(&["--spans", &format!("http://{receiver}/v1/traces")]) else { return };
    for slow_ms in [300, 0] {
        let steps = format!(
            "warm_up: {{ times: 20 }}
runner: {{ constant: {{ times: 300, concurrency: 2 }} }}
iteration:
  - action: list
    grpc: shop.v1.Orders/List
    message: {{ count: 5, gap_ms: 1, slow_at: 3, slow_ms: '{{{{ {slow_ms} if iteration % 10 == 0 else 0 }}}}' }}
    expect: {{ messages: 5 }}
sla: {{ thresholds: [ p50(first) < 10s, p50(gap) < 10s ] }}"
        );
        let results = orders.is_cause_named(receiver, &steps, ("orders", "load row"), slow_ms > 0);
        let streams = &results["workloads"][0]["actions"][0]["streams"];
        assert_eq!((&streams["streams"], &streams["messages"]), (&300.into(), &1500.into()), "{streams:#}");
        assert!(slow_ms == 0 || streams["gap"]["max_ms"].as_f64() >= Some(290.0), "{streams:#}");
    }
}

/// Node is too slow for one call of ten, whose deadline cuts the chain: each is one failure, and what it waited for is named.
#[test]
fn a_deadline_that_cuts_a_real_chain_is_one_failure_with_its_cause() {
    let receiver = free_address();
    let spans = format!("http://{receiver}/v1/traces");
    let Some(stock) = node(Some(&spans)) else { return };
    let next = format!("127.0.0.1:{}", stock.port);
    let Some(orders) = python(&["--spans", &spans, "--next", &next]) else { return };
    let steps = |expect: &str| {
        format!(
            "runner: {{ constant: {{ times: 100, concurrency: 2 }} }}
iteration:
  - action: get
    grpc: shop.v1.Orders/Get
    message: {{ id: a }}
    timeout: 400ms
    metadata: {{ x-next-ms: '{{{{ 900 if iteration % 10 == 0 else 0 }}}}' }}
    {expect}"
        )
    };
    let bench = Bench::new();
    let deployment = format!("profiler: {{ receive: \"{receiver}\" }}");
    bench.load(&orders.url(), &deployment, &steps(""));
    let ended = bench.run(&["run", "scenario.yaml"]).expect_code(0);
    let results = bench.results();
    let errors = results["workloads"][0]["errors"].as_array().unwrap();
    let late = errors.iter().find(|error| error["class"] == "timeout").unwrap();
    assert_eq!(late["message"], "timed out after 400 ms before the answer was complete", "{errors:#?}");
    assert!(late["count"].as_u64() >= Some(10), "{errors:#?}");
    let statuses = &results["workloads"][0]["actions"][0]["status"];
    assert!(statuses["4"].as_u64() >= Some(10), "{statuses:#}");
    assert!(ended.stdout.contains("`count stock` in stock"), "{}", ended.stdout);
    let bench = Bench::new();
    bench.load(&orders.url(), "", &steps("expect: { status: [OK, DEADLINE_EXCEEDED] }"));
    bench.run(&["run", "scenario.yaml"]).expect_code(0);
    let iterations = &bench.results()["workloads"][0]["iterations"];
    assert_eq!(iterations["failed"], 0, "{iterations:#}");
}

/// All calls go over one connection, which stands still now and then: what holds them up is outside of the services.
#[test]
fn a_connection_that_holds_up_all_its_calls_is_told_from_a_slow_service() {
    let receiver = free_address();
    let Some(orders) = python(&["--spans", &format!("http://{receiver}/v1/traces")]) else { return };
    for stalls_ms in [600, 0] {
        // Long calls in short flows: of every machine's calls, several in a hundred are held up.
        let (flows, stalls) = (Duration::from_millis(400), Duration::from_millis(stalls_ms));
        let proxy = StallingProxy::start(orders.port, flows, stalls);
        let bench = Bench::new();
        let steps = "http: { connections: shared, max_connections: 1 }
warm_up: { times: 20 }
runner: { constant: { times: 700, concurrency: 8 } }
iteration: [ { action: get, grpc: shop.v1.Orders/Get, message: { id: a, delay_ms: 20 } } ]";
        let deployment = format!("profiler: {{ receive: \"{receiver}\" }}");
        bench.load(&format!("http://127.0.0.1:{}", proxy.port), &deployment, steps);
        let ended = bench.run(&["run", "scenario.yaml"]).expect_code(0);
        let comparison = &bench.results()["workloads"][0]["comparison"];
        let kinds = comparison["kinds"].as_array().cloned().unwrap_or_default();
        let named = kinds.iter().find(|kind| kind["guilty"] == true);
        // Without stalls, a busy machine may hold up a call, but for no such time.
        let held_up = named.filter(|kind| kind["outside"] == true && kind["delta_ms"].as_f64() > Some(400.0));
        assert_eq!(held_up.is_some(), stalls_ms > 0, "{comparison:#}\n{}", ended.stdout);
    }
}
