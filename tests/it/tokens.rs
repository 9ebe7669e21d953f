//! Tokens by OAuth 2.0 and by programs: how they are asked for, sent, renewed and hidden.

use serde_json::Value;

use crate::server::{After, ScriptedRequest, ScriptedServer, Wire};
use crate::support::{Bench, CommandOutput};

const ONE: &str = "runner: { serial: { times: 2 } }\niteration: [ { action: a, get: /x } ]";

/// A token endpoint and a service: `/x` wants the last token.
fn service(seen: &ScriptedRequest, wire: &mut Wire<'_>) -> After {
    if seen.path != "/token?tenant=1" {
        let status = if seen.headers.contains_key("authorization") { "200 OK" } else { "401 Unauthorized" };
        return wire.answer(status, "text/plain", "ok");
    }
    let body = String::from_utf8_lossy(&seen.body).into_owned();
    // `a b:c` and `s3cr&t/Qw9` as RFC 6749 writes them in Basic.
    let basic = seen.headers.get("authorization").map(String::as_str)
        == Some("Basic YSUyMGIlM0FjOnMzY3IlMjZ0JTJGUXc5");
    let post = body.contains("client_id=a%20b%3Ac&client_secret=s3cr%26t%2FQw9");
    match (basic || post, body.contains("scope=bad")) {
        (false, _) => wire.answer(
            "401 Unauthorized",
            "application/json",
            "{\"error\":\"invalid_client\",\"error_description\":\"who is s3cr&t/Qw9\"}",
        ),
        (true, true) => wire.answer("400 Bad Request", "application/json", "{\"error\":\"invalid_scope\"}"),
        (true, false) => wire.answer(
            "200 OK",
            "application/json",
            format!(
                "{{\"access_token\":\"T0k3n-{}-Zx8\",\"token_type\":\"Bearer\",\"expires_in\":1}}",
                seen.nth
            ),
        ),
    }
}

fn run(bench: &Bench, url: &str, auth: &str, scenario: &str) -> CommandOutput {
    bench.load(url, &format!("auth: {{ {auth} }}"), scenario);
    bench.run(&["run", "scenario.yaml"])
}

/// Everything that a run wrote and said.
fn all_words(bench: &Bench, ended: &CommandOutput) -> String {
    let mut words = format!("{}{}", ended.stdout, ended.stderr);
    if bench.path().join("runs").exists() {
        for file in std::fs::read_dir(bench.run_directory()).unwrap() {
            words += &String::from_utf8_lossy(&std::fs::read(file.unwrap().path()).unwrap_or_default());
        }
    }
    words
}

#[test]
fn a_token_by_client_credentials_is_sent_and_hidden() {
    for (settings, parts) in [
        ("", vec!["grant_type=client_credentials"]),
        ("style: post, scope: \"read write\", audience: api", vec!["scope=read%20write", "audience=api"]),
    ] {
        let server = ScriptedServer::start(service);
        let bench = Bench::new();
        let auth = format!(
            "oauth2: {{ token_url: \"{}/token?tenant=1\", client_id: \"a b:c\", client_secret: \"s3cr&t/Qw9\", {settings} }}",
            server.url()
        );
        let ended = run(&bench, &server.url(), &auth, ONE).expect_code(0);
        let results: Value = bench.results();
        assert_eq!(results["workloads"][0]["iterations"]["ok"], 2, "{results}");
        let seen = server.seen();
        let body = String::from_utf8_lossy(&seen[0].body).into_owned();
        assert!(parts.iter().all(|part| body.contains(part)), "{body}");
        assert_eq!(seen[0].headers["content-type"], "application/x-www-form-urlencoded");
        assert!(seen[1..].iter().all(|seen| seen.headers["authorization"] == "Bearer T0k3n-0-Zx8"));
        let words = all_words(&bench, &ended);
        for secret in ["T0k3n", "s3cr&t", "s3cr%26t", "YSUyMGIl"] {
            assert!(!words.contains(secret), "{secret} is shown");
        }
    }
}

#[test]
fn a_refusal_says_what_to_check() {
    let server = ScriptedServer::start(service);
    for (url, settings, parts) in [
        (
            "/token?tenant=1",
            "client_secret: wr0ng-Zk3",
            ["answered 401: invalid_client", "`client_secret` and `style`"],
        ),
        (
            "/token?tenant=1",
            "client_secret: \"s3cr&t/Qw9\", scope: bad",
            ["answered 400: invalid_scope", "`scope`"],
        ),
        ("/x", "client_secret: \"s3cr&t/Qw9\"", ["answered 200 without an access_token", ""]),
    ] {
        let bench = Bench::new();
        let auth =
            format!("oauth2: {{ token_url: \"{}{url}\", client_id: \"a b:c\", {settings} }}", server.url());
        let ended = run(&bench, &server.url(), &auth, ONE);
        let said = ended.stderr.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(parts.iter().all(|part| said.contains(part)), "{said}");
        assert_ne!(ended.code, Some(0));
    }
}

#[test]
fn a_token_is_renewed_ahead_of_its_end_and_not_for_each_request() {
    let server = ScriptedServer::start(service);
    let bench = Bench::new();
    let auth = format!(
        "oauth2: {{ token_url: \"{}/token?tenant=1\", client_id: \"a b:c\", client_secret: \"s3cr&t/Qw9\" }}",
        server.url()
    );
    let scenario = "runner: { constant_for_duration: { duration: 9s, concurrency: 1 } }\niteration: [ { get: /x }, { think: 20ms } ]";
    run(&bench, &server.url(), &auth, scenario).expect_code(0);
    let asked = server.count("/token?tenant=1");
    // Once a second at most.
    assert!((2..=15).contains(&asked), "{asked}");
    let tokens: std::collections::BTreeSet<String> = server
        .seen()
        .iter()
        .filter(|seen| seen.path == "/x")
        .map(|seen| seen.headers["authorization"].clone())
        .collect();
    assert!(tokens.len() >= 2, "{tokens:?}");
}

#[cfg(unix)]
#[test]
fn a_program_prints_the_token() {
    for (command, header, expected) in [
        ("run: [ echo, C0mm4nd-Tk1 ]", "authorization", "Bearer C0mm4nd-Tk1"),
        ("run: \"echo C0mm4nd-Tk1 | tr T U\"", "authorization", "Bearer C0mm4nd-Uk1"),
        ("run: [ echo, C0mm4nd-Tk1 ], header: X-Auth-Token, lifetime: 50m", "x-auth-token", "C0mm4nd-Tk1"),
        (
            "run: [ echo, '{\"status\":{\"token\":\"C0mm4nd-Tk2\",\"expirationTimestamp\":\"2099-01-01T00:00:00Z\"}}' ]",
            "authorization",
            "Bearer C0mm4nd-Tk2",
        ),
        (
            "run: [ echo, '{\"a\":{\"b\":\"C0mm4nd-Tk3\"}}' ], pointer: /a/b",
            "authorization",
            "Bearer C0mm4nd-Tk3",
        ),
    ] {
        let server = ScriptedServer::start(|_, wire| wire.answer("200 OK", "text/plain", "ok"));
        let bench = Bench::new();
        let scenario = "runner: { serial: { times: 1 } }\niteration: [ { get: /x, headers: { x-again: \"{{ auth.token }}\" } } ]";
        let ended = run(&bench, &server.url(), &format!("command: {{ {command} }}"), scenario).expect_code(0);
        let seen = &server.seen()[0];
        assert_eq!(seen.headers[header], expected, "{command}");
        assert!(expected.ends_with(&seen.headers["x-again"]), "{command}");
        assert!(!all_words(&bench, &ended).contains("C0mm4nd"), "{command}");
    }
}

#[cfg(unix)]
#[test]
fn a_program_that_gives_no_token_ends_the_run_before_the_load() {
    let server = ScriptedServer::start(|_, wire| wire.answer("200 OK", "text/plain", "ok"));
    for (command, part) in [
        (
            "run: [ /nowhere/gcloud, auth ]",
            "the program of `auth.command`, /nowhere/gcloud: it cannot be started",
        ),
        ("run: \"echo log in first >&2; exit 1\"", "1): log in first"),
        ("run: [ sleep, '600' ], timeout: 200ms", "did not end within 0.2 s"),
        ("run: \"yes abcdefghijklmnop\"", "printed more than 65536 bytes"),
        ("run: [ echo, two words ]", "must be one word"),
        ("run: [ printf, '\\001' ]", "characters that are not allowed in a header"),
        ("run: [ echo, x ], header: \"a b\"", "`a b` is not a header name"),
        ("run: [ echo, x ], pointer: a", "a JSON pointer starts with a slash"),
        ("run: [ echo, x ], lifetime: 0s", "above zero"),
        ("run: []", "`run` is empty"),
        ("header: x", "lacks the key `run`"),
    ] {
        let bench = Bench::new();
        let ended = run(&bench, &server.url(), &format!("command: {{ {command} }}"), ONE);
        let said = ended.stderr.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(said.contains(part), "{command}: {said}");
    }
    assert!(server.seen().is_empty());
}
