//! gRPC calls: what bench sends, and what it says about invalid answers. `real_grpc.rs` has real servers.

use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;

use crate::h2_server::{Act, H2Server, H2ServerRequest};
use crate::support::{Bench, CommandOutput};

/// An order with the id `a`.
const ORDER: &[u8] = b"\x0a\x01a";

fn proto() -> String {
    format!("{}/tests/grpc/shop.proto", env!("CARGO_MANIFEST_DIR"))
}

/// A message with its frame.
fn framed(flag: u8, message: &[u8]) -> Vec<u8> {
    let length = u32::try_from(message.len()).unwrap().to_be_bytes();
    [&[flag][..], &length, message].concat()
}

fn gzipped(message: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(message).unwrap();
    encoder.finish().unwrap()
}

fn status(code: &str) -> Vec<(&'static str, String)> {
    vec![("grpc-status", code.to_owned())]
}

fn answer(body: Vec<u8>, trailers: Vec<(&'static str, String)>) -> Act {
    Act::Trailed(200, vec![("content-type", "application/grpc".to_owned())], body, trailers)
}

fn said(output: &CommandOutput) -> String {
    format!("{}{}", output.stdout, output.stderr)
}

/// A load of these steps, whose messages are known from a file.
fn load(server: &H2Server, steps: &str) -> Bench {
    let bench = Bench::new();
    let scenario = format!(
        "grpc: {{ protos: ['{}'] }}\nrunner: {{ serial: {{ times: 3 }} }}\niteration:\n{steps}",
        proto()
    );
    bench.load(&server.url(), "", &scenario);
    bench
}

#[test]
fn a_call_is_sent_as_grpc_says() {
    let server = H2Server::start(|_| answer(framed(0, ORDER), status("0")));
    let steps = "  - action: get
    grpc: shop.v1.Orders/Get
    message: { id: 'o-{{ iteration }}' }
    metadata: { X-User: u1, x-raw-bin: AQI= }
    timeout: 5s
    expect: { status: OK, messages: 1, message: { $.id: a } }
    extract: { id: { json: $.id } }
  - { grpc: shop.v1.Orders.Get, action: again, message: { id: '{{ id }}' }, gzip: true }";
    let bench = load(&server, steps);
    bench.run(&["run", "scenario.yaml"]).expect_code(0);
    let results = bench.results();
    let action = &results["workloads"][0]["actions"][0];
    assert_eq!(
        (&action["status"], &action["http2"]),
        (&serde_json::json!({"0": 3}), &3.into()),
        "{action:#}"
    );
    // A virtual user keeps its connection.
    assert_eq!(server.connections(), 1);
    let seen = server.seen();
    let [first, second] = [&seen[0], &seen[1]];
    assert_eq!((first.method.as_str(), first.body_bytes), ("POST", 5 + 5));
    assert!(first.uri.ends_with("/shop.v1.Orders/Get") && second.uri.ends_with("/shop.v1.Orders/Get"));
    let header = |request: &H2ServerRequest, name: &str| {
        request.headers.get(name).map(|value| value.to_str().unwrap().to_owned())
    };
    for (name, value) in [
        ("content-type", Some("application/grpc")),
        ("te", Some("trailers")),
        ("grpc-timeout", Some("5000000u")),
        ("x-user", Some("u1")),
        ("x-raw-bin", Some("AQI=")),
        ("accept", None),
        ("grpc-encoding", None),
    ] {
        assert_eq!(header(first, name).as_deref(), value, "{name}");
    }
    assert_eq!(header(second, "grpc-timeout").as_deref(), Some("30000000u"));
    assert_eq!(header(second, "grpc-encoding").as_deref(), Some("gzip"));
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table of answers")]
fn answers_that_are_not_what_they_must_be_are_failures() {
    let bomb = gzipped(&vec![0; 20 << 20]);
    let gzip = ("grpc-encoding", "gzip".to_owned());
    let kind = ("content-type", "application/grpc".to_owned());
    let get = "{ grpc: shop.v1.Orders/Get, max_body: 1MiB, timeout: 5s";
    let checked = format!("{get}, expect: {{ message: {{ $.id: a }} }} }}");
    let plain = format!("{get} }}");
    let cases: Vec<(&str, &str, Act, &str, &str)> = vec![
        ("no trailers", &plain, answer(framed(0, ORDER), Vec::new()), "protocol", "its trailers are missing"),
        (
            "77",
            &plain,
            answer(framed(0, ORDER), status("77")),
            "protocol",
            "`grpc-status` is `77`, which is none",
        ),
        ("words", &plain, answer(framed(0, ORDER), status("fine")), "protocol", "`grpc-status` is `fine`"),
        (
            "half",
            &plain,
            answer(b"\0\0\0\0\x09a".to_vec(), status("0")),
            "protocol",
            "after 1 of the 9 bytes",
        ),
        ("head", &plain, answer(b"\0\0".to_vec(), status("0")), "protocol", "after 2 of the 5 bytes"),
        ("flag", &plain, answer(framed(7, ORDER), status("0")), "protocol", "begins with the byte 7"),
        ("none", &plain, answer(Vec::new(), status("0")), "protocol", "the answer to Get has 0 messages"),
        (
            "two",
            &plain,
            answer([framed(0, ORDER), framed(0, ORDER)].concat(), status("0")),
            "protocol",
            "has 2 messages, not one",
        ),
        ("wire", &checked, answer(framed(0, b"\xff\xff"), status("0")), "protocol", "it is no shop.v1.Order"),
        ("packed", &checked, answer(framed(1, ORDER), status("0")), "protocol", "does not say how"),
        (
            "bomb",
            &checked,
            Act::Trailed(200, vec![kind.clone(), gzip], framed(1, &bomb), status("0")),
            "body_limit",
            "larger than 1048576 bytes",
        ),
        (
            "large",
            &plain,
            answer(framed(0, &vec![0; 2 << 20]), status("0")),
            "body_limit",
            "raise `max_body`",
        ),
        (
            "proxy",
            &plain,
            Act::Trailed(502, Vec::new(), b"<html>".to_vec(), Vec::new()),
            "status",
            "answered UNAVAILABLE: the answer is not gRPC: HTTP status 502 Bad Gateway, expected OK",
        ),
        (
            "head alone",
            &plain,
            Act::Trailed(
                200,
                vec![kind, ("grpc-status", "5".into()), ("grpc-message", "no%20such: 100%25".into())],
                Vec::new(),
                Vec::new(),
            ),
            "status",
            "answered NOT_FOUND: no such: 100%, expected OK",
        ),
    ];
    for (name, step, act, class, message) in cases {
        let server = H2Server::start(move |_| act.clone());
        let bench = load(&server, &format!("  - {step}"));
        let output = bench.run(&["run", "scenario.yaml"]);
        let errors = &bench.results()["workloads"][0]["errors"];
        let error = &errors[0];
        assert_eq!((&error["class"], &error["count"]), (&class.into(), &3.into()), "{name}: {errors:#}");
        assert!(error["message"].as_str().unwrap().contains(message), "{name}: {error:#} {}", said(&output));
    }
}

#[test]
fn a_call_that_may_fail_is_not_a_failure() {
    let server = H2Server::start(|_| answer(Vec::new(), status("5")));
    let bench = load(&server, "  - { grpc: shop.v1.Orders/Get, expect: { status: [OK, NOT_FOUND] } }");
    bench.run(&["run", "scenario.yaml"]).expect_code(0);
    let status = &bench.results()["workloads"][0]["actions"][0]["status"];
    assert_eq!(status, &serde_json::json!({"5": 3}));
}

#[test]
fn a_stream_is_a_list_of_messages() {
    let stream = [framed(0, ORDER), framed(0, b"\x0a\x01b")].concat();
    let server = H2Server::start(move |_| answer(stream.clone(), status("0")));
    let steps =
        "  - { grpc: shop.v1.Orders/List, expect: { messages: { ge: 2 }, message: { '$[-1].id': b } } }
  - { grpc: shop.v1.Orders/Chat, messages: [ { id: a }, { id: '{{ iteration }}' } ], expect: { messages: 2 } }
  - { grpc: shop.v1.Orders/Chat, action: none, messages: [] }
  - { grpc: shop.v1.Orders/List, action: few, expect: { messages: 3 } }";
    let bench = load(&server, steps);
    bench.run(&["run", "scenario.yaml"]);
    let results = bench.results();
    let error = &results["workloads"][0]["errors"][0];
    let message = error["message"].as_str().unwrap();
    assert!(message.contains("the number of messages is not `3`"), "{error:#}");
    assert_eq!(error["count"], 3);
    assert_eq!(server.seen().iter().map(|one| one.body_bytes).take(3).collect::<Vec<_>>(), [5, 16, 0]);
}

#[test]
fn what_does_not_fit_is_named_with_its_place() {
    let bench = Bench::new();
    for (step, message, place) in [
        (
            "grpc: shop.v1.Orders/Gett",
            "the service `shop.v1.Orders` has no method `Gett`",
            "did you mean `Get`",
        ),
        ("grpc: shop.v1.Order/Get", "there is no service `shop.v1.Order`", "did you mean `shop.v1.Orders`"),
        ("grpc: Orders", "`Orders` is not a method of a service", "such as `shop.v1.Payments/Charge`"),
        (
            "{ grpc: shop.v1.Orders/Get, message: { id: [5] } }",
            "$.id is no string: invalid type: sequence",
            ":6:48",
        ),
        (
            "{ grpc: shop.v1.Orders/Chat, messages: [ {}, { items: [ { amount: x } ] } ] }",
            "message 2: the message is no shop.v1.Order: $.items[0].amount is no int32",
            ":6:71",
        ),
        (
            "{ grpc: shop.v1.Orders/Chat, message: { state: NEW } }",
            "is no shop.v1.State (STATE_UNSPECIFIED, OPEN, PAID)",
            ":6:52",
        ),
        ("{ grpc: shop.v1.Orders/Get, message: { idd: a } }", "unrecognized field name 'idd'", ":6"),
        ("{ grpc: shop.v1.Orders/Get, messages: [ {} ] }", "this method takes one message", "message: {…}"),
        ("{ grpc: shop.v1.Orders/Get, headers: { a: b } }", "`headers` belongs to HTTP", "`metadata`"),
        ("{ get: /, message: {} }", "`message` belongs to a gRPC call", "add `grpc:"),
        (
            "{ grpc: shop.v1.Orders/Get, metadata: { te: a } }",
            "`te` is written by bench itself",
            "keys of the action",
        ),
        (
            "{ grpc: shop.v1.Orders/Get, metadata: { a-bin: '%' } }",
            "is not base64",
            "write its bytes as base64",
        ),
        ("{ grpc: shop.v1.Orders/Get, expect: { status: 404 } }", "this is an HTTP status", "NOT_FOUND"),
        ("{ get: /, expect: { status: OK } }", "this is a gRPC status", "such as 404"),
        ("{ get: /, expect: { messages: 1 } }", "`messages` belongs to a gRPC call", "`json`"),
        ("{ grpc: shop.v1.Orders/Get, expect: { status: FINE } }", "cannot be `FINE`", "NOT_FOUND"),
    ] {
        let scenario = format!(
            "grpc: {{ protos: ['{}'] }}\nrunner: {{ serial: {{ times: 1 }} }}\niteration:\n  - {step}",
            proto()
        );
        bench.load("http://127.0.0.1:9", "", &scenario);
        let output = bench.run(&["validate", "scenario.yaml"]).expect_code(65);
        let output = said(&output);
        assert!(output.contains(message) && output.contains(place), "{step}:\n{output}");
    }
    for (files, message) in [
        ("protos: [gone.proto]", "gone.proto"),
        ("protos: [bad.proto]", "bad.proto"),
        ("descriptors: bad.proto", "failed to decode"),
        ("{ protos: [bad.proto], descriptors: x }", "`protos` together with `descriptors`"),
        ("import_paths: [a]", "neither `protos` nor `descriptors`"),
    ] {
        bench.write("bad.proto", "syntax = \"proto3\";\nmessage A { strin a = 1; }\n");
        let files = if files.starts_with('{') { files.to_owned() } else { format!("{{ {files} }}") };
        let scenario = format!("grpc: {files}\niteration: [ {{ grpc: a.B/C }} ]");
        bench.load("http://127.0.0.1:9", "", &scenario);
        let output = bench.run(&["validate", "scenario.yaml"]).expect_code(65);
        let output = said(&output);
        assert!(output.contains(message), "{files}:\n{output}");
    }
}

#[test]
fn a_call_that_is_late_has_the_status_of_one() {
    let hangs = H2Server::start(|_| Act::Hang);
    let early = H2Server::start(|_| answer(Vec::new(), status("4")));
    let step = |expect: &str| {
        format!("  - {{ action: a, grpc: shop.v1.Orders/Get, message: {{ id: a }}, timeout: 100ms{expect} }}")
    };
    for (server, expect, class, message) in [
        (&hangs, "", "timeout", "timed out after 100 ms before the answer was complete"),
        (&hangs, ", expect: { status: NOT_FOUND }", "timeout", "timed out after 100 ms before"),
        // The service had given up before.
        (&early, "", "status", "answered DEADLINE_EXCEEDED, expected OK"),
    ] {
        let bench = load(server, &step(expect));
        bench.run(&["run", "scenario.yaml"]).expect_code(0);
        let workload = &bench.results()["workloads"][0];
        let error = &workload["errors"][0];
        assert_eq!((&error["class"], &error["count"]), (&class.into(), &3.into()), "{error:#}");
        assert!(error["message"].as_str().unwrap().contains(message), "{error:#}");
        assert_eq!(workload["actions"][0]["status"]["4"], 3, "{workload:#}");
    }
    let bench = load(&hangs, &step(", expect: { status: [OK, DEADLINE_EXCEEDED] }"));
    bench.run(&["run", "scenario.yaml"]).expect_code(0);
    assert_eq!(bench.results()["workloads"][0]["iterations"]["ok"], 3);
}
