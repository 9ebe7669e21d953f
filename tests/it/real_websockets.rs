//! WebSockets of real services: Python's `websockets` with OpenTelemetry, and Node's `ws` (`tests/real/websocket.sh`,
//! `tests/websocket`). Each test starts its own, on a free port.

use std::process::Command;

use crate::started::StartedService;
use crate::support::{Bench, free_address, service};

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/websocket");

fn setting(name: &str) -> Option<String> {
    service(&format!("BENCH_TEST_WEBSOCKET_{name}"), "what tests/real/websocket.sh printed")
}

/// The chat room in Python, with these options.
fn room(options: &[&str]) -> Option<StartedService> {
    let mut command = Command::new(setting("PYTHON")?);
    Some(StartedService::start(command.arg(format!("{FOLDER}/room.py")).args(options)))
}

/// The echo in Node.
fn echo() -> Option<StartedService> {
    let mut command = Command::new("node");
    command.env("NODE_PATH", setting("NODE")?).arg(format!("{FOLDER}/echo.js"));
    Some(StartedService::start(&mut command))
}

/// A conversation, each answer checked. During `think`, the room closes a connection whose pings get no answer.
const CONVERSATION: &str = "runner: { constant: { times: 12, concurrency: 4 } }
sla: { thresholds: ['count(errors) == 0', 'p95(first) < 30s', 'p95(connect) < 30s'] }
iteration:
  - action: join
    websocket: /rooms/{{ iteration }}?a=b
    subprotocols: [chat.v1, chat.v0]
    expect: { headers: { sec-websocket-protocol: chat.v1 } }
    steps:
      - action: hello
        send: { json: { type: hello } }
        receive: { json: { $.type: welcome } }
        expect: { message: { $.path: '/rooms/{{ iteration }}?a=b', $.subprotocol: chat.v1 } }
        extract: { id: { json: $.id } }
      - think: 800ms
      - { action: say, send: { json: { type: say, text: 'I am {{ id }}' } }, receive: { text: said }, expect: { json: { $.text: 'I am {{ id }}' } } }
      - { action: count, send: { json: { type: count, n: 50 } }, receive: { json: { $.type: item }, count: 50 }, expect: { messages: 50, json: { $.number: 49 } } }
      - { action: bytes, send: { binary: AAEC/w== }, receive: true }
      - { action: large, send: { json: { type: large, bytes: 300000 } }, receive: { text: xxx }, expect: { body: { length: 300000 } } }
      - ping: true
      - close: { code: 4001, reason: bye }";

#[test]
fn real_rooms_answer_in_clear_and_over_tls() {
    let bench = Bench::new();
    let path = |name: &str| bench.path().join(name).display().to_string();
    let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
    bench.write("cert.pem", made.cert.pem());
    bench.write("key.pem", made.signing_key.serialize_pem());
    let (cert, key) = (path("cert.pem"), path("key.pem"));
    let tls = format!("tls: {{ ca: '{cert}' }}");
    // `websockets` agrees to the offer with a window that nobody has asked for.
    let offering = CONVERSATION.replace(
        "    subprotocols:",
        "    headers: { sec-websocket-extensions: permessage-deflate; client_max_window_bits }\n    subprotocols:",
    );
    assert_ne!(offering, CONVERSATION);
    for (scheme, options, deployment, conversation) in [
        ("ws", vec![], "", CONVERSATION),
        ("ws", vec![], "", &offering),
        ("wss", vec!["--tls", &cert, &key], &tls, &offering),
    ] {
        let Some(room) = room(&options) else { return };
        let bench = Bench::new();
        bench.load(&format!("{scheme}://127.0.0.1:{}", room.port), deployment, conversation);
        let ended = bench.run(&["run", "scenario.yaml"]).expect_code(0);
        let workload = &bench.results()["workloads"][0];
        assert_eq!(workload["iterations"]["ok"], 12, "{:#}\n{}", workload["errors"], ended.stderr);
        let actions = workload["actions"].as_array().unwrap();
        assert_eq!(actions[7]["status"], serde_json::json!({"4001": 12}), "{:#}", actions[7]);
        let streams = &actions[3]["streams"];
        assert_eq!((&streams["streams"], &streams["messages"]), (&12.into(), &600.into()), "{streams:#}");
    }
}

/// Without the offer, nothing is compressed; with it, far fewer bytes come and go.
#[test]
fn real_servers_compress_if_they_are_asked_to() {
    let Some(echo) = echo() else { return };
    let long = "a cup ".repeat(20_000);
    for (offer, extensions, wire) in [
        ("", "", "{ ge: 240000 }"),
        ("permessage-deflate", "permessage-deflate", "{ lt: 10000 }"),
        (
            "permessage-deflate; server_no_context_takeover; client_max_window_bits=10",
            "permessage-deflate",
            "{ lt: 10000 }",
        ),
    ] {
        let headers = if offer.is_empty() {
            String::new()
        } else {
            format!("\n  headers: {{ sec-websocket-extensions: '{offer}' }}")
        };
        let bench = Bench::new();
        let steps = format!(
            "runner: {{ constant: {{ times: 40, concurrency: 4 }} }}\niteration:\n- websocket: /{headers}\n  steps:\n  \
             - {{ action: short, send: 'äöü {{{{ iteration }}}}', receive: true, expect: {{ body: {{ equals: 'äöü {{{{ iteration }}}}' }} }} }}\n  \
             - {{ repeat: 2, steps: [ {{ action: long, send: '{long}', receive: true, expect: {{ body: {{ equals: '{long}' }} }} }} ] }}\n  \
             - {{ action: bytes, send: {{ binary: AAH/ }}, receive: true }}\n  - ping: true\n  \
             - {{ action: wire, send: 'wire?', receive: true, expect: {{ json: {{ $.extensions: '{extensions}', $.bytesRead: {wire}, $.bytesWritten: {wire} }} }} }}"
        );
        bench.load(&echo.url(), "", &steps);
        let ended = bench.run(&["run", "scenario.yaml"]).expect_code(0);
        let workload = &bench.results()["workloads"][0];
        assert_eq!(workload["iterations"]["ok"], 40, "{offer}: {:#}\n{}", workload["errors"], ended.stderr);
    }
    let bench = Bench::new();
    let url = format!("ws://127.0.0.1:{}/a?b=c", echo.port);
    let ended = bench.run(&["run", &url, "--data", "hello", "-n", "20", "-c", "2"]).expect_code(0);
    assert!(ended.stdout.contains(", none failed\n20 iterations in "), "{}", ended.stdout);
    let curl = bench.run(&["run", &url, "--data", "hello", "--once", "--curl"]).stdout;
    let expected = format!("websocat \\\n  'ws://127.0.0.1:{}/a?b=c'\n", echo.port);
    assert!(curl.contains(&expected) && curl.contains("# over the WebSocket: SEND send"), "{curl}");
}

#[test]
fn real_refusals_and_ends_are_failures_with_their_reasons() {
    let Some(room) = room(&[]) else { return };
    for (path, step, class, message) in [
        ("closed", "{ ping: true }", "status", "answered 403, expected 101"),
        (
            "open",
            "{ send: { json: { type: leave, code: 1013, reason: full } }, receive: { json: { $.type: said } } }",
            "closed",
            "the service closed the WebSocket: 1013 try again later: full",
        ),
        ("open", "{ send: 'not JSON', receive: true }", "closed", "1011 internal error"),
    ] {
        let bench = Bench::new();
        let steps = format!(
            "runner: {{ serial: {{ times: 3 }} }}\niteration: [ {{ action: join, websocket: /{path}, steps: [ {step} ] }} ]"
        );
        bench.load(&room.url(), "", &steps);
        bench.run(&["run", "scenario.yaml"]);
        let results = bench.results();
        let error = &results["workloads"][0]["errors"][0];
        assert_eq!((&error["count"], &error["class"]), (&3.into(), &class.into()), "{error:#}");
        assert!(error["message"].as_str().unwrap().contains(message), "{error:#}");
    }
}

/// One message of ten takes the room long: what it did meanwhile is named.
#[test]
fn real_causes_behind_messages_are_named() {
    let receiver = free_address();
    let Some(room) = room(&["--spans", &format!("http://{receiver}/v1/traces")]) else { return };
    for (slow_ms, is_planted) in [(300, true), (1, false)] {
        let steps = format!(
            "warm_up: {{ times: 20 }}
runner: {{ constant: {{ times: 300, concurrency: 2 }} }}
iteration:
  - action: join
    websocket: /
    steps:
      - action: say
        send: {{ json: {{ type: say, text: a, ms: '{{{{ {slow_ms} if iteration % 10 == 0 else 1 }}}}', traceparent: '{{{{ traceparent }}}}' }} }}
        receive: {{ json: {{ $.type: said }} }}"
        );
        room.is_cause_named(receiver, &steps, ("room", "look up room"), is_planted);
    }
}
