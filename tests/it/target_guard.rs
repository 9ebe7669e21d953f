//! Requests go only to listed hosts, wherever the name of another host comes from.

use serde_json::Value;

use crate::server::{After, ScriptedServer};
use crate::support::Bench;

/// What becomes of two passes of an action that another host may be reached by.
enum HostGuardExpectation {
    /// The action fails with this class and these words, and the other host sees nothing.
    Fails(&'static str, &'static str),
    /// The other host is reached, without anything secret.
    Reaches,
    /// The target is reached, signed and with credentials; the other host is not.
    Stays,
}
use HostGuardExpectation::{Fails, Reaches, Stays};

const SECRET: [&str; 4] = ["authorization", "x-api-key", "x-trace-hmac", "traceparent"];

/// Runs the action twice below a deployment with secrets. In all texts `GOOD` and `OTHER` are
/// the addresses of the target and of the other host, `PORT` for the latter's port.
fn check(name: &str, allowed: &str, action: &str, location: &str, expected: &HostGuardExpectation) {
    let other = ScriptedServer::start(|_, wire| wire.answer("200 OK", "application/json", "{}"));
    let other_address = other.url().trim_start_matches("http://").to_owned();
    let port = other_address.rsplit(':').next().unwrap().to_owned();
    let place = |text: &str, good: &str| {
        text.replace("GOOD", good).replace("OTHER", &other_address).replace("PORT", &port)
    };
    let (other_place, location) = (place("OTHER", ""), location.to_owned());
    let other_port = port.clone();
    let good = ScriptedServer::start(move |seen, wire| match seen.path.as_str() {
        "/go" => {
            let good = seen.headers["host"].clone();
            let location = location.replace("GOODPORT", good.rsplit(':').next().unwrap());
            let location =
                location.replace("GOOD", &good).replace("OTHER", &other_place).replace("PORT", &other_port);
            wire.send(format!("HTTP/1.1 307 Go\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n"));
            After::Keep
        }
        "/link" => {
            let good = seen.headers["host"].clone();
            let link =
                location.replace("GOOD", &good).replace("OTHER", &other_place).replace("PORT", &other_port);
            wire.answer("200 OK", "application/json", serde_json::json!({ "link": link }).to_string())
        }
        _ => wire.answer("200 OK", "application/json", "{}"),
    });
    let good_address = good.url().trim_start_matches("http://").to_owned();
    let bench = Bench::new();
    let deployment = format!(
        "targets_allowed: [{}]\nheaders: {{ X-Api-Key: hunter2 }}\nauth: {{ bearer: {{ token: hunter3 }} }}\nprofiler: {{ hmac_key: KEY }}",
        place(allowed, &good_address)
    );
    let scenario = format!(
        "http: {{ redirects: 3 }}\nvariables: {{ good: \"{good_address}\", other: \"{other_address}\", port: \"{port}\" }}\nrunner: {{ serial: {{ times: 2 }} }}\niteration: [ {} ]",
        place(action, &good_address)
    );
    bench.load(&good.url(), &deployment, &scenario);
    bench.run(&["run", "scenario.yaml"]).expect_code(0);
    let workload: Value = bench.results()["workloads"][0].clone();
    let (errors, seen) = (&workload["errors"], other.seen());
    match expected {
        Fails(class, part) => {
            assert_eq!(workload["iterations"]["failed"], 2, "{name}: {errors}");
            assert_eq!(errors[0]["class"], *class, "{name}: {errors}");
            assert!(errors[0]["message"].as_str().unwrap().contains(part), "{name}: {errors}");
            assert_eq!((seen.len(), other.connections()), (0, 0), "{name}");
        }
        Reaches => {
            assert_eq!(workload["iterations"]["ok"], 2, "{name}: {errors}");
            assert_eq!(seen.len(), 2, "{name}");
            for secret in SECRET {
                assert!(seen.iter().all(|seen| !seen.headers.contains_key(secret)), "{name}: {secret}");
            }
        }
        Stays => {
            assert_eq!(workload["iterations"]["ok"], 2, "{name}: {errors}");
            assert_eq!(other.connections(), 0, "{name}");
            let last = good.seen().into_iter().next_back().unwrap();
            for secret in SECRET {
                assert!(last.headers.contains_key(secret), "{name}: {secret}");
            }
        }
    }
}

const REFUSED: HostGuardExpectation = Fails("target", "add `");

#[test]
fn redirects_lead_to_listed_hosts_only() {
    let go = "{ action: a, get: /go }";
    for (name, allowed, location, expected) in [
        ("another port", "", "http://OTHER/", REFUSED),
        ("without a scheme", "", "//OTHER/", REFUSED),
        ("credentials before the host", "", "http://GOOD@OTHER/", REFUSED),
        ("a name and a password before the host", "", "http://127.0.0.1:80@OTHER/", REFUSED),
        ("a backslash", "", "http:\\\\OTHER/", REFUSED),
        ("upper case", "", "HTTP://LOCALHOST:PORT/", REFUSED),
        ("a decimal address", "", "http://2130706433:PORT/", REFUSED),
        ("an address of IPv6", "", "http://[::ffff:127.0.0.1]:PORT/", REFUSED),
        ("another scheme", "", "https://GOOD/", REFUSED),
        ("another host is allowed", "a.example, '*.127.example'", "http://OTHER/", REFUSED),
        ("another port is allowed", "'127.0.0.1:1'", "http://OTHER/", REFUSED),
        ("the host and port are allowed", "'OTHER'", "http://OTHER/", Reaches),
        ("the host is allowed", "127.0.0.1", "http://2130706433:PORT/", Reaches),
        ("the target itself", "", "http://GOOD/end", Stays),
        ("the target itself, with a decimal address", "", "/end", Stays),
    ] {
        check(name, allowed, go, location, &expected);
    }
    let (post, empty) = ("{ action: a, post: /go, json: { a: 1 } }", "{ action: a, post: /go }");
    for (name, allowed, action, location, expected) in [
        ("a body, to an allowed host", "'OTHER'", post, "http://OTHER/", Fails("redirect", "to `targets`")),
        ("a body, to a host that is not listed", "", post, "http://OTHER/", REFUSED),
        ("a body, to the target itself", "", post, "http://GOOD/end", Stays),
        ("no body, to an allowed host", "'OTHER'", empty, "http://OTHER/", Reaches),
    ] {
        check(name, allowed, action, location, &expected);
    }
    let literal = "{ action: a, get: /go }, { action: b, get: 'http://OTHER/' }";
    let bench = Bench::new();
    bench.load(
        "http://127.0.0.1:1",
        "",
        &format!(
            "runner: {{ serial: {{ times: 1 }} }}\niteration: [ {} ]",
            literal.replace("OTHER", "h.example")
        ),
    );
    bench.run(&["validate", "scenario.yaml"]).expect_code(0);
}

#[test]
fn templates_and_answers_lead_to_listed_hosts_only() {
    let extracted =
        "{ action: l, get: /link, extract: { link: { json: $.link } } }, { action: a, get: '{{ link }}' }";
    for (name, allowed, action, location, expected) in [
        ("a variable", "", "{ action: a, get: 'http://{{ other }}/x' }", "", REFUSED),
        ("a part of the host", "", "{ action: a, get: 'http://127.0.0.{{ 1 }}:PORT/x' }", "", REFUSED),
        ("the whole URL", "", "{ action: a, get: '{{ \"http://\" ~ other }}/x' }", "", REFUSED),
        ("the scheme", "", "{ action: a, get: '{{ \"https\" }}://{{ good }}/x' }", "", REFUSED),
        (
            "behind the target's name",
            "",
            "{ action: a, get: '{{ \"@\" ~ other }}/x' }",
            "",
            Fails("template", "neither a path nor a URL"),
        ),
        (
            "more of the target's name",
            "",
            "{ action: a, get: '{{ \".example\" }}/x' }",
            "",
            Fails("template", "neither a path nor a URL"),
        ),
        (
            "credentials",
            "",
            "{ action: a, get: 'http://{{ good }}@{{ other }}/x' }",
            "",
            Fails("template", "a URL with credentials"),
        ),
        ("two slashes are a path", "", "{ action: a, get: '{{ \"//\" ~ other }}/x' }", "", Stays),
        ("allowed", "'OTHER'", "{ action: a, get: 'http://{{ other }}/x' }", "", Reaches),
        ("the target", "", "{ action: a, get: 'http://{{ good }}/x', query: { a: 1 } }", "", Stays),
        ("extracted", "", extracted, "http://OTHER/x", REFUSED),
        ("extracted and allowed", "'OTHER'", extracted, "http://OTHER/x", Reaches),
        ("extracted, of the target", "", extracted, "http://GOOD/x?y=z", Stays),
        ("extracted, a path", "", extracted, "/x?y=z", Stays),
        ("a literal URL is listed", "", "{ action: a, get: 'http://OTHER/x' }", "", Reaches),
    ] {
        check(name, allowed, action, location, &expected);
    }
}

#[test]
fn what_targets_allowed_holds_is_checked_with_its_place() {
    let bench = Bench::new();
    let scenario = "runner: { serial: { times: 1 } }\niteration: [ { get: / } ]";
    for (text, part) in [
        ("targets_allowed: ['http://h/']", "`http://h/` is not a host"),
        ("targets_allowed: ['*']", "a `*` is only allowed before the first dot"),
        ("targets_allowed: ['*.com']", "a whole top-level domain"),
        ("targets_allowed: ['h:0']", "its port is not one from 1 to 65535"),
        ("targets_alowed: [h]", "targets_allowed"),
    ] {
        bench.load("http://127.0.0.1:1", text, scenario);
        let ended = bench.run(&["validate", "scenario.yaml"]).expect_code(65);
        assert!(
            ended.stderr.contains(part) && ended.stderr.contains("deployment.yaml:2"),
            "{text}: {ended:?}"
        );
    }
}
