//! gRPC calls whose messages are sent and received by steps, with a server that breaks rules. `real_grpc.rs` has real servers.

use std::time::Duration;

use h2::Reason;

use crate::h2_server::{Act, H2Server};
use crate::support::{Bench, CommandOutput};

/// An order with the id `a`.
const ORDER: &[u8] = b"\x0a\x01a";

fn said(output: &CommandOutput) -> String {
    format!("{}{}", output.stdout, output.stderr)
}

/// Messages in their frames.
fn framed(messages: &[&[u8]]) -> Vec<u8> {
    let one =
        |message: &&[u8]| [&[0][..], &u32::try_from(message.len()).unwrap().to_be_bytes(), message].concat();
    messages.iter().flat_map(one).collect()
}

fn answer(body: Vec<u8>, status: &[(&'static str, &str)]) -> Act {
    let trailers = status.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
    Act::Trailed(200, vec![("content-type", "application/grpc".to_owned())], body, trailers)
}

fn scenario(steps: &str) -> String {
    let proto = format!("{}/tests/grpc/shop.proto", env!("CARGO_MANIFEST_DIR"));
    format!(
        "grpc: {{ protos: ['{proto}'] }}\nrunner: {{ serial: {{ times: 3 }} }}\niteration:\n  - action: chat\n    grpc: shop.v1.Orders/Chat\n    max_body: 1MiB\n    steps:\n{steps}"
    )
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table of answers")]
fn the_end_of_a_dialogue_is_judged_like_that_of_a_call() {
    let ok = [("grpc-status", "0")];
    let close = "      - { action: end, close: true, timeout: 2s }";
    let asks = "      - { action: ask, send: { json: { id: b } }, receive: true, timeout: 2s }";
    let table: Vec<(&str, &str, Act, &str, &str)> = vec![
        ("fine", close, answer(framed(&[ORDER, ORDER]), &ok), "", ""),
        (
            "checked",
            "      - { close: true, expect: { messages: 2, message: { $.id: a } } }",
            answer(framed(&[b"\x0a\x01b", ORDER]), &ok),
            "",
            "",
        ),
        (
            "another message",
            "      - { close: true, expect: { message: { $.id: b } } }",
            answer(framed(&[ORDER]), &ok),
            "check",
            "the value at $.id is not `\"b\"`",
        ),
        (
            "status",
            close,
            answer(Vec::new(), &[("grpc-status", "5"), ("grpc-message", "no%20room")]),
            "status",
            "answered NOT_FOUND: no room, expected OK",
        ),
        (
            "expected status",
            "      - { close: true, expect: { status: NOT_FOUND } }",
            answer(Vec::new(), &[("grpc-status", "5")]),
            "",
            "",
        ),
        (
            "two messages",
            "      - { send: { json: { id: b } }, action: one }\n      - { send: { json: { id: b } }, action: two }",
            answer(framed(&[ORDER]), &ok),
            "",
            "",
        ),
        (
            "no message",
            "      - { close: true, expect: { message: { $.id: b } } }",
            answer(Vec::new(), &ok),
            "check",
            "no message came",
        ),
        // The service may be faster than the step that asks for its status.
        (
            "ended before",
            "      - { think: 100ms }\n      - { close: true, expect: { messages: 2, message: { $.id: a } } }",
            Act::AtOnce(Box::new(answer(framed(&[b"\x0a\x01b", ORDER]), &ok))),
            "",
            "",
        ),
        (
            "ended while it was read",
            "      - { receive: { for: 10s }, expect: { messages: 2 } }\n      - { close: true, expect: { status: OK } }",
            Act::AtOnce(Box::new(answer(framed(&[ORDER, ORDER]), &ok))),
            "",
            "",
        ),
        ("no trailers", close, answer(framed(&[ORDER]), &[]), "protocol", "its trailers are missing"),
        ("half", close, answer(b"\0\0\0\0\x09a".to_vec(), &ok), "protocol", "it ends within a message"),
        ("wire", close, answer(framed(&[b"\xff\xff"]), &ok), "protocol", "it is no shop.v1.Order"),
        ("large", close, answer(b"\0\x7f\0\0\0a".to_vec(), &ok), "body_limit", "raise `max_body`"),
        ("flag", close, answer(b"\x09\0\0\0\0".to_vec(), &ok), "protocol", "begins with the byte 9"),
        (
            "packed",
            close,
            answer([&[1][..], &framed(&[ORDER])[1..]].concat(), &ok),
            "protocol",
            "does not say how",
        ),
        (
            "proxy",
            close,
            Act::Trailed(502, Vec::new(), b"<html>".to_vec(), Vec::new()),
            "status",
            "answered UNAVAILABLE: the answer is not gRPC: HTTP status 502 Bad Gateway, expected OK",
        ),
        ("reset", close, Act::Reset(Reason::INTERNAL_ERROR), "closed", "INTERNAL_ERROR"),
        ("goaway", close, Act::GoAway(Reason::NO_ERROR), "closed", "GOAWAY"),
        ("cut off", close, Act::Close, "closed", "closed"),
        (
            "silent",
            "      - { close: true, timeout: 200ms }",
            Act::Hang,
            "timeout",
            "before the service had ended the call",
        ),
        // What comes before the question is no answer to it.
        (
            "early end",
            asks,
            Act::AtOnce(Box::new(answer(Vec::new(), &[("grpc-status", "7"), ("grpc-message", "no")]))),
            "closed",
            "the service ended the call: PERMISSION_DENIED: no",
        ),
        (
            "no answer",
            "      - { send: { json: {} }, receive: true, timeout: 200ms }",
            Act::Hang,
            "timeout",
            "before a message came",
        ),
        // The end that no step waits for is judged, too.
        (
            "left open",
            "      - { send: { json: { id: b } } }",
            answer(Vec::new(), &[("grpc-status", "13")]),
            "closed",
            "the service ended the call: INTERNAL",
        ),
        ("left open, fine", "      - { send: { json: { id: b } } }", answer(Vec::new(), &ok), "", ""),
    ];
    for (name, steps, act, class, message) in table {
        let server = H2Server::start(move |_| act.clone());
        let bench = Bench::new();
        bench.load(&server.url(), "", &scenario(steps));
        let output = bench.run(&["run", "scenario.yaml"]);
        let errors = &bench.results()["workloads"][0]["errors"];
        if class.is_empty() {
            assert!(errors.as_array().unwrap().is_empty(), "{name}: {errors:#}");
            continue;
        }
        let error = &errors[0];
        // Messages say whether the connection had served another iteration.
        let count: u64 = errors.as_array().unwrap().iter().filter_map(|error| error["count"].as_u64()).sum();
        assert_eq!((&error["class"], count), (&class.into(), 3), "{name}: {errors:#}");
        assert!(error["message"].as_str().unwrap().contains(message), "{name}: {error:#} {}", said(&output));
    }
}

#[test]
fn a_dialogue_says_its_deadline_only_if_it_has_one() {
    let server = H2Server::start(|_| answer(framed(&[ORDER]), &[("grpc-status", "0")]));
    for (timeout, expected) in [("", None), ("    timeout: 5s\n", Some("5000000u"))] {
        let bench = Bench::new();
        let text =
            scenario("      - { send: { json: { id: '{{ traceparent }}' } } }\n      - { close: true }");
        bench.load(&server.url(), "", &text.replace("    max_body", &format!("{timeout}    max_body")));
        bench.run(&["run", "scenario.yaml", "-n", "1"]).expect_code(0);
        let seen = server.seen().pop().unwrap();
        let told = seen.headers.get("grpc-timeout").map(|value| value.to_str().unwrap().to_owned());
        assert_eq!(told.as_deref(), expected);
        assert!(seen.headers.get("content-length").is_none());
        // A trace context of 55 letters.
        assert_eq!(seen.body_bytes, 5 + 2 + 55);
    }
}

/// A dialogue counts the same statuses and bytes as a call without steps.
#[test]
fn what_a_dialogue_counts() {
    let server = H2Server::start(|_| answer(framed(&[ORDER, ORDER]), &[("grpc-status", "0")]));
    let bench = Bench::new();
    let steps = "      - { action: ask, send: { json: { id: b } } }\n      - { action: end, close: true }";
    bench.load(&server.url(), "", &scenario(steps));
    bench.run(&["run", "scenario.yaml"]).expect_code(0);
    let results = bench.results();
    let actions = results["workloads"][0]["actions"].as_array().unwrap();
    let counted: Vec<_> = actions
        .iter()
        .map(|action| (action["status"].to_string(), action["bytes_received"].as_u64()))
        .collect();
    let nothing = ("{}".to_owned(), Some(0));
    assert_eq!(
        counted,
        [nothing.clone(), nothing, ("{\"0\":3}".to_owned(), Some(3 * 2 * (5 + 3)))],
        "{results:#}"
    );
}

/// A method that takes one message has it all after the first.
#[test]
fn a_second_message_is_refused_where_one_is_taken() {
    let server = H2Server::start(|_| answer(framed(&[ORDER]), &[("grpc-status", "0")]));
    let send = |name: &str| format!("      - {{ action: {name}, send: {{ json: {{}} }} }}");
    let steps = [send("one"), send("two")].join("\n");
    let bench = Bench::new();
    bench.load(&server.url(), "", &scenario(&steps).replace("Orders/Chat", "Orders/List"));
    bench.run(&["run", "scenario.yaml"]);
    let errors = &bench.results()["workloads"][0]["errors"];
    assert_eq!((&errors[0]["class"], &errors[0]["action"]), (&"request".into(), &"two".into()), "{errors:#}");
    assert!(errors[0]["message"].as_str().unwrap().contains("List takes one message"), "{errors:#}");
}

/// The server may send no more than a window of messages while no step waits for them.
#[test]
fn a_flood_of_messages_is_bounded() {
    let many = framed(&vec![ORDER; 10_000]);
    let pieces = vec![(Duration::ZERO, many); 100];
    let kind = vec![("content-type", "application/grpc".to_owned())];
    let act = Act::AtOnce(Box::new(Act::Pieces(200, kind, pieces, true)));
    let server = H2Server::start(move |_| act.clone());
    let bench = Bench::new();
    let steps = "      - { think: 300ms }
      - { action: read, receive: { count: 500000 }, timeout: 60s }";
    bench.load(&server.url(), "", &scenario(steps));
    bench.run(&["run", "scenario.yaml", "-n", "1"]).expect_code(0);
    let results = bench.results();
    let read = &results["workloads"][0]["actions"][1];
    assert_eq!(read["streams"]["messages"], 500_000, "{results:#}");
}

#[test]
fn steps_that_do_not_fit_a_dialogue_are_named() {
    let bench = Bench::new();
    for (steps, message, help) in [
        ("      - { ping: true }", "`ping` belongs to a WebSocket", "a gRPC call has no pings"),
        ("      - { close: 1000 }", "a gRPC call is closed without a code", "`close: true`"),
        ("      - { close: false }", "`close: false` does nothing", "write true"),
        ("      - { send: hello }", "a gRPC message that is no JSON", "send: {json:"),
        ("      - { send: { json: { idd: a } } }", "unrecognized field name 'idd'", ".proto"),
        ("      - { receive: { close: 4000 } }", "a gRPC call has no closing code", "expect: {status:"),
        (
            "      - { receive: true, expect: { status: OK } }",
            "only the end of a gRPC call has a status",
            "close: true",
        ),
        ("      - { close: true, expect: { status: 404 } }", "this is an HTTP status", "NOT_FOUND"),
        (
            "      - { close: true, expect: { headers: { a: b } } }",
            "`headers` does not belong to a message",
            "without `steps`",
        ),
        (
            "      - { close: true, extract: { a: { header: x-last } } }",
            "a message has no header",
            "with `json`",
        ),
        ("      - { websocket: /a }", "a WebSocket within a gRPC call with steps", "behind it"),
        (
            "      - { grpc: shop.v1.Orders/Chat, steps: [] }",
            "a gRPC call with steps within another one",
            "behind it",
        ),
        (
            "      - { send: { json: {} }, metadata: { a: b } }",
            "`metadata` does not belong to a message",
            "the step `grpc`",
        ),
        (
            "      - { close: true }\n    message: {}",
            "`message` does not belong to a call with `steps`",
            "`send`",
        ),
        (
            "      - { close: true }\n    expect: { status: OK }",
            "`expect` does not belong to a call with `steps`",
            "`close`",
        ),
        (
            "      - { close: true }\n  - { close: true }",
            "`close` outside of a WebSocket or a gRPC call",
            "into the `steps`",
        ),
    ] {
        bench.load("http://127.0.0.1:9", "", &scenario(steps));
        let output = said(&bench.run(&["validate", "scenario.yaml"]).expect_code(65));
        assert!(output.contains(message) && output.contains(help), "{steps}:\n{output}");
    }
}
