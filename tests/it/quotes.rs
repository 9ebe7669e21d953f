//! What a failed check quotes of an answer: the beginning of its body and the value that was found.

use crate::h2_server::{Act, H2Server};
use crate::server::ScriptedServer;
use crate::support::Bench;

const RUNNER: &str = "runner: { serial: { times: 3 } }";

/// Answers every request with a number that differs, and with what its path says.
fn server() -> ScriptedServer {
    ScriptedServer::start(|seen, wire| {
        let number = seen.nth_of_connection;
        match seen.path.split('?').next().unwrap() {
            "/denied" => wire.answer(
                "401 Unauthorized",
                "application/json",
                format!("{{\n  \"error\": \"who are you\",\n  \"token\": \"t0k3n-of-{number}\" }}\n"),
            ),
            "/long" => wire.answer("500 Oops", "text/html", "<b>long</b> ".repeat(10_000)),
            "/binary" => wire.answer("500 Oops", "image/png", b"\x89PNG\0\0"),
            "/echo" => wire.answer("400 Bad", "text/plain", format!("bad key in {}", seen.path)),
            "/hostile" => wire.answer("400 Bad", "text/plain", "\u{1b}[31m<script>alert(1)</script>\u{202e}"),
            "/empty" => wire.answer("404 Not Found", "text/plain", ""),
            _ => wire.answer(
                "200 OK",
                "application/json",
                format!("{{\"n\": {number}, \"password\": \"pw-{number}\"}}"),
            ),
        }
    })
}

#[expect(clippy::too_many_lines, reason = "one run, and all of its outputs")]
#[test]
fn a_failed_check_quotes_the_answer_in_every_output() {
    let server = server();
    for (steps, message, found, body) in [
        ("get: /denied", "answered 401", None, Some(r#"{ "error": "who are you", "token": "***" }"#)),
        ("get: /long", "answered 500", None, Some("<b>long</b> <b>long</b>")),
        ("get: /binary", "answered 500", None, Some("(6 bytes that are no text)")),
        ("{ get: '/echo?key={{ password }}' }", "answered 400", None, Some("bad key in /echo?key=***")),
        ("get: /hostile", "answered 400", None, Some("‹U+001B›[31m<script>alert(1)</script>‹U+202E›")),
        ("get: /empty", "answered 404", None, None),
        (
            "{ get: /n, expect: { json: { $.n: { gt: 5 } } } }",
            "the value at $.n is not more than `5`",
            Some("`0`"),
            Some(r#"{"n": 0, "password": "***"}"#),
        ),
        (
            "{ get: /n, expect: { json: { $.password: none } } }",
            "the value at $.password is not `\"none\"`",
            Some("***"),
            Some(r#"{"n": 0, "password": "***"}"#),
        ),
        (
            "{ get: /n, expect: { headers: { Content-Type: text/html } } }",
            "the header content-type is not `text/html`",
            Some("`application/json`"),
            None,
        ),
        (
            "{ get: /n, extract: { n: { json: $.n } }, expect: { variables: { n: { type: string } } } }",
            "the variable n is not a string",
            Some("`0`"),
            Some(r#"{"n": 0, "password": "***"}"#),
        ),
    ] {
        let bench = Bench::new();
        let steps = steps.strip_prefix("{ ").and_then(|steps| steps.strip_suffix(" }")).unwrap_or(steps);
        bench.load(
            &server.url(),
            "",
            &format!("variables: {{ password: {{ env: THE_KEY }} }}\n{RUNNER}\niteration: [{{ {steps} }}]"),
        );
        let mut command = bench.command(&["run", "scenario.yaml"]);
        let ended = Bench::end(command.env("THE_KEY", "v3ry-s3cr3t")).expect_code(0);
        let results = bench.results();
        let errors = results["workloads"][0]["errors"].as_array().unwrap();
        assert_eq!(errors.len(), 1, "{steps}: the figures that differ are in no message: {errors:?}");
        let error = &errors[0];
        assert_eq!((error["message"].as_str().unwrap(), &error["count"]), (message, &3.into()), "{steps}");
        assert_eq!(error["found"].as_str(), found, "{steps}");
        match body {
            Some(body) => assert!(error["body"].as_str().unwrap().starts_with(body), "{steps}: {error}"),
            None => assert!(error["body"].is_null(), "{steps}: {error}"),
        }
        assert!(error["body"].as_str().unwrap_or_default().chars().count() <= 201, "{error}");
        let folder = bench.run_directory();
        let page = std::fs::read_to_string(folder.join("report.html")).unwrap();
        let notes = std::fs::read_to_string(folder.join("report.md")).unwrap();
        for quoted in found.into_iter().chain(body.filter(|body| !body.contains(['<', '"']))) {
            // A page writes some characters in another way.
            let words = quoted.trim_matches('`').split(['/', '=']).next().unwrap();
            assert!(page.contains(words) && ended.stdout.contains(words), "{steps}: {}", ended.stdout);
            assert!(words.contains('*') || notes.contains(words.trim_end_matches(')')), "{steps}: {notes}");
        }
        assert!(!page.contains("<script>alert(1)"), "{steps}");
        for output in [&page, &notes, &ended.stdout, &results.to_string()] {
            assert!(
                !output.contains("t0k3n") && !output.contains("v3ry") && !output.contains("pw-"),
                "{steps}"
            );
        }
        // What was stored is shown again.
        let again = bench.run(&["report", folder.to_str().unwrap()]).expect_code(0).stdout;
        assert!(found.is_none_or(|found| again.contains(found.trim_matches('`'))), "{again}");
    }
}

#[test]
fn a_failure_of_setup_and_one_over_http2_are_quoted_too() {
    let server = server();
    let bench = Bench::new();
    let setup = "setup: [{ action: log in, get: /denied }]";
    bench.load(&server.url(), "", &format!("{setup}\n{RUNNER}\niteration: [{{ get: /n }}]"));
    let ended = bench.run(&["run", "scenario.yaml"]).expect_code(1);
    let said =
        "setup failed: log in: answered 401; the body: { \"error\": \"who are you\", \"token\": \"***\" }";
    assert!(ended.stdout.contains(said) || ended.stderr.contains(said), "{ended:?}");
    let server = H2Server::start(|_| Act::Full(503, Vec::new(), b"come back later".to_vec()));
    let bench = Bench::new();
    bench.load(&server.url(), "http: { version: 2 }", &format!("{RUNNER}\niteration: [{{ get: /n }}]"));
    bench.run(&["run", "scenario.yaml"]).expect_code(0);
    assert_eq!(bench.results()["workloads"][0]["errors"][0]["body"], "come back later");
}
