//! `bench trace request`: one request with its trace.

use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::process::Stdio;

use bench::harness::Interrupt;
use bench::harness::demo::StandaloneDemo;
use bench::harness::options::Environment;
use bench::harness::traces::request::{TraceRequest, request};
use bench::harness::url_run::UrlRun;

use crate::receiving::shop_and_events;
use crate::support::{Bench, CommandOutput};

#[test]
fn a_signed_request_shows_what_the_service_did() {
    let bench = Bench::new();
    let deployment = bench.path().join("d.yaml");
    let demo = StandaloneDemo::start(Some(bench.path()), Some(&deployment)).unwrap();
    let (url, key) = (demo.demo().url().to_owned(), demo.demo().hmac_key().expose().to_owned());
    let collector = demo.demo().connection_string().expose().to_owned();
    bench.write("key", format!("{key}\n"));
    let target = format!("{url}/v3/auth/tokens");
    let with = |key: &str, more: &[&str]| -> CommandOutput {
        let arguments =
            ["trace", "request", target.as_str(), "--connection-string", collector.as_str(), "-m", "POST"];
        let key = if key.is_empty() { vec![] } else { vec!["--key", key] };
        let body =
            ["--data", r#"{"auth":{"identity":{"password":{"user":{"name":"demo","password":"x"}}}}}"#];
        let mut command = bench.command(&[&arguments[..], &key, &body, more].concat());
        command.env("THE_KEY", demo.demo().hmac_key().expose()).stdin(Stdio::piped());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // It need not be read.
        let _ = child
            .stdin
            .take()
            .unwrap()
            .write_all(format!("{}\nnext line", demo.demo().hmac_key().expose()).as_bytes());
        CommandOutput::from(child.wait_with_output().unwrap())
    };
    for given in ["env:THE_KEY", "@key", "-", key.as_str()] {
        let ended = with(given, &[]);
        assert!(
            ended.stdout.contains("complete") && ended.stdout.contains("wsgi POST /v3/auth/tokens"),
            "{ended:?}"
        );
        assert!(ended.stderr.contains(&format!("POST {target}: ")), "{ended:?}");
        assert_eq!(
            ended.stderr.contains("can read the key in the list of processes"),
            given == key,
            "{ended:?}"
        );
        assert!(!ended.stderr.contains(&key) && !ended.stdout.contains(&key), "{ended:?}");
    }
    // Without the right key the service reports nothing.
    let ended = with("wrong", &[]).expect_code(1);
    assert!(ended.stderr.contains("the trace is not complete: no trace reached the collector"), "{ended:?}");
    let json = with("@key", &["--json"]).stdout;
    assert_eq!(serde_json::from_str::<serde_json::Value>(&json).unwrap()["state"], "complete", "{json}");
    let waited = with("@key", &["--wait", "100ms"]);
    assert!(waited.stdout.contains("complete"), "{waited:?}");
    let page = with("@key", &["--html", "-o", "page.html"]);
    assert!(page.stdout.is_empty(), "{page:?}");
    assert!(std::fs::read_to_string(bench.path().join("page.html")).unwrap().contains("wsgi"));
    let by_deployment = bench.run(&["trace", "request", &format!("{url}/v3"), "-d", "d.yaml"]);
    assert!(by_deployment.stdout.contains("complete"), "{by_deployment:?}");
    for (given, text) in [
        ("env:NO_SUCH_KEY", "the variable is not set"),
        ("@no-such-file", "cannot read it"),
        ("@d.yaml/", "cannot read it"),
    ] {
        let ended = with(given, &[]).expect_code(64);
        assert!(ended.stderr.contains(text), "{ended:?}");
    }
    drop(demo);
}

#[test]
fn a_service_without_a_key_sends_its_spans_here() {
    let (server, events) = shop_and_events();
    let options = TraceRequest {
        request: UrlRun { url: format!("{}/x", server.url()), ..UrlRun::default() },
        deployment: None,
        key: None,
        connection: None,
        receive: Some(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))),
        environment: Environment::default(),
    };
    let traced = request(&options, &Interrupt::new(), &events).unwrap();
    assert!(traced.is_complete(), "{traced:?}");
    assert_eq!((traced.answer.status, &traced.answer.error), (Some(200), &None));
    assert_eq!(traced.profiling.headers, ["w3c"]);
    let trace = traced.trace.unwrap();
    let names: Vec<&str> = trace.tree.points.iter().map(|point| point.name.as_str()).collect();
    let has = |name: &str| names.iter().any(|known| known.contains(name));
    assert!(has("action") && has("GET /x") && has("SELECT item"), "{names:?}");
}

#[test]
fn a_request_that_cannot_be_sent_says_why() {
    let bench = Bench::new();
    let rows: [(&[&str], i32, &str); 4] = [
        (&["http://127.0.0.1:1/x", "--receive=127.0.0.1:0"], 69, "127.0.0.1:1"),
        (&["ftp://127.0.0.1/x"], 64, "`ftp://127.0.0.1/x` is not a URL"),
        (&["http://127.0.0.1:1/x", "-m", "FE(H"], 64, "`FE(H` is not a method that bench sends"),
        (&["http://127.0.0.1:1/x", "-d", "none.yaml"], 65, "cannot read none.yaml"),
    ];
    for (arguments, code, text) in rows {
        let ended = bench.run(&[&["trace", "request"], arguments].concat()).expect_code(code);
        assert!(ended.stderr.contains(text), "{arguments:?}: {ended:?}");
    }
}
