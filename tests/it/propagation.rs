//! Which headers carry a trace: OSProfiler's with a key, W3C's without one, and what the texts say of it.

use std::collections::HashMap;

use serde_json::Value;

use crate::server::{ScriptedRequest, ScriptedServer};
use crate::support::Bench;

const ALL: [&str; 5] = ["x-trace-info", "x-trace-hmac", "traceparent", "tracestate", "baggage"];
const SIGNED: [&str; 2] = ["x-trace-info", "x-trace-hmac"];
const KEYED: [&str; 3] = ["x-trace-info", "x-trace-hmac", "traceparent"];
const W3C: [&str; 1] = ["traceparent"];

fn server() -> ScriptedServer {
    ScriptedServer::start(|_, wire| wire.answer("200 OK", "application/json", "{}"))
}

/// Runs four iterations of two requests; the second one has trace headers in the scenario.
fn run(deployment: &str, rest: &str, options: &[&str]) -> (Bench, Vec<ScriptedRequest>, String) {
    let (server, bench) = (server(), Bench::new());
    let scenario = format!(
        "{rest}runner: {{ constant: {{ times: 4, concurrency: 2 }} }}\n\
         setup: [ {{ get: '/setup' }} ]\n\
         iteration: [ {{ action: a, get: '/a?{{{{ trace_id }}}}' }}, \
                      {{ action: b, get: '/b?{{{{ trace_id }}}}', \
                         headers: {{ X-Trace-Info: mine, traceparent: mine, tracestate: mine, baggage: mine=1 }} }} ]"
    );
    bench.load(&server.url(), deployment, &scenario);
    let arguments: Vec<&str> = ["run", "scenario.yaml"].into_iter().chain(options.iter().copied()).collect();
    let ended = bench.run(&arguments).expect_code(0);
    let seen = server.seen().into_iter().filter(|seen| seen.path.contains('?')).collect();
    (bench, seen, format!("{}{}", ended.stderr, ended.stdout))
}

#[test]
fn headers_follow_key_collector_and_what_the_deployment_names() {
    let none: [&str; 0] = [];
    let rows: [(&str, &[&str], &str); 10] = [
        ("", &none, "not profiling: the deployment has no HMAC key (profiler.hmac_key); services that speak"),
        ("profiler: { hmac_key: s3cret-key }", &KEYED, "; all profiled\n"),
        ("profiler: { hmac_key: s3cret-key, headers: [osprofiler] }", &SIGNED, "; all profiled\n"),
        (
            "profiler: { hmac_key: s3cret-key, headers: [w3c] }",
            &W3C,
            "without OSProfiler's headers: the deployment does not name them (profiler.headers)",
        ),
        (
            "profiler: { headers: [w3c] }",
            &W3C,
            "without OSProfiler's headers: the deployment has no HMAC key (profiler.hmac_key)",
        ),
        ("profiler: { headers: [w3c] }", &W3C, "; all profiled (traceparent only)\n"),
        (
            "profiler: { headers: [w3c, tracestate, baggage] }",
            &ALL[2..],
            "; all profiled (traceparent only)\n",
        ),
        (
            "profiler: { hmac_key: s3cret-key, headers: [osprofiler, w3c, tracestate, baggage] }",
            &ALL,
            "all profiled",
        ),
        // The collector does not answer, which is a reason not to begin, unless nothing is profiled.
        ("profiler: { connection_string: 'otlp://127.0.0.1:9' }", &W3C, "no traces are fetched"),
        ("profiler: { enabled: false, headers: [w3c] }", &none, "profiler.enabled: false"),
    ];
    for (deployment, expected, text) in rows {
        let (bench, seen, said) = run(deployment, "", &[]);
        assert!(said.contains(text), "{deployment}: no {text} in {said}");
        assert_eq!(seen.len(), 8, "{deployment}");
        let names: Vec<String> = names_of(expected);
        assert_eq!(bench.results()["profiling"]["headers"], Value::from(names), "{deployment}");
        for seen in seen {
            check_headers(&seen, expected, deployment);
        }
    }
    let (_, seen, _) = run("profiler: { headers: [w3c, baggage] }", "", &["--no-profile"]);
    for seen in seen.iter().filter(|seen| seen.path.starts_with("/b")) {
        assert_eq!(seen.headers["traceparent"], "mine", "without a profiler the scenario's own are sent");
        assert_eq!(seen.headers["baggage"], "mine=1");
    }
}

fn names_of(headers: &[&str]) -> Vec<String> {
    let names = [
        ("x-trace-info", "osprofiler"),
        ("traceparent", "w3c"),
        ("tracestate", "tracestate"),
        ("baggage", "baggage"),
    ];
    names.iter().filter(|(header, _)| headers.contains(header)).map(|(_, name)| (*name).to_owned()).collect()
}

fn check_headers(seen: &ScriptedRequest, expected: &[&str], deployment: &str) {
    let (path, id) = seen.path.split_once('?').unwrap();
    let simple = id.replace('-', "");
    for name in ALL {
        let value = seen.headers.get(name).map(String::as_str);
        let written = path == "/b" && (expected.is_empty() || name == "baggage" && !expected.contains(&name));
        match (expected.contains(&name), value) {
            (true, Some(value)) => match name {
                "traceparent" => {
                    assert!(value.starts_with(&format!("00-{simple}-")) && value.ends_with("-01"), "{value}");
                }
                "tracestate" => assert!(value.starts_with("bench=") && value.len() == 7, "{value}"),
                "baggage" => assert!(value.starts_with("bench.iteration=") && value.len() == 17, "{value}"),
                _ => assert!(value.len() >= 40, "{name}: {value}"),
            },
            (false, Some(value)) if written => {
                assert!(value.starts_with("mine"), "{deployment} {path} {name}: {value}")
            }
            (false, None) => assert!(!written || name == "x-trace-hmac", "{deployment} {path} lacks {name}"),
            (wanted, value) => panic!("{deployment} {path} {name}: {wanted} {value:?}"),
        }
    }
}

/// With W3C's headers, the control group says that it is not sampled: else a service's own sampler would decide.
#[test]
fn unprofiled_iterations_say_that_they_are_not_sampled() {
    for deployment in ["profiler: { headers: [w3c] }", "profiler: { hmac_key: s3cret-key }"] {
        let (bench, seen, _) = run(deployment, "profile: { control: 50% }\n", &[]);
        let rows = bench.results()["iterations"].as_array().unwrap().clone();
        let profiled: HashMap<&str, bool> = rows
            .iter()
            .map(|row| (row["trace_id"].as_str().unwrap(), row.get("profiled") != Some(&Value::Bool(false))))
            .collect();
        for seen in seen {
            let (_, id) = seen.path.split_once('?').unwrap();
            let flag = if profiled[id] { "-01" } else { "-00" };
            assert!(seen.headers["traceparent"].ends_with(flag), "{:?}", seen.headers);
            let signed = deployment.contains("key") && profiled[id];
            assert_eq!(seen.headers.contains_key("x-trace-info"), signed, "{:?}", seen.headers);
        }
    }
}

#[test]
fn a_collector_that_no_trace_can_reach_is_a_warning() {
    for (profiler, warns) in [
        ("{ headers: [w3c], connection_string: 'redis://127.0.0.1:9' }", true),
        ("{ headers: [w3c], hmac_key: s3cret-key, connection_string: 'mysql://u:p@127.0.0.1:9/d' }", true),
        ("{ headers: [w3c], connection_string: 'tempo://127.0.0.1:9' }", false),
        ("{ connection_string: 'jaeger://127.0.0.1:9' }", false),
        ("{ hmac_key: s3cret-key, connection_string: 'redis://127.0.0.1:9' }", false),
    ] {
        let bench = Bench::new();
        let scenario = "runner: { serial: { times: 1 } }\niteration: [ { get: / } ]";
        bench.load("http://127.0.0.1:1", &format!("profiler: {profiler}"), scenario);
        let ended = bench.run(&["validate", "scenario.yaml"]).expect_code(0);
        let said = ended.stderr + &ended.stdout;
        assert_eq!(said.contains("no trace can reach the collector"), warns, "{profiler}: {said}");
        assert!(!said.contains("u:p@"), "{said}");
    }
}

#[test]
fn a_list_of_headers_that_cannot_be_is_refused_with_its_place() {
    for (headers, part) in [
        ("[]", "`headers` is empty"),
        ("[osprofiler]", "`osprofiler` needs an HMAC key"),
        ("[w3c, w3c]", "this header is named twice"),
        ("[tracestate]", "`tracestate` means nothing without `traceparent`"),
        ("[baggage]", "`baggage` alone traces nothing"),
        ("[b3]", "osprofiler, w3c, tracestate, baggage"),
        ("w3c", "a list"),
    ] {
        let bench = Bench::new();
        let scenario = "runner: { serial: { times: 1 } }\niteration: [ { get: / } ]";
        bench.load("http://127.0.0.1:1", &format!("profiler: {{ headers: {headers} }}"), scenario);
        let ended = bench.run(&["validate", "scenario.yaml"]).expect_code(65);
        assert!(ended.stderr.contains(part), "{headers}: no {part} in {}", ended.stderr);
        assert!(ended.stderr.contains("deployment.yaml:2:"), "{headers}: {}", ended.stderr);
    }
}
