//! Metrics that are pushed by Prometheus remote write, as lines of InfluxDB and to StatsD: what arrives, and what is said
//! when a receiver does not take them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::UdpSocket;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bench::report::metrics::remote_write::{TimeSeries, WriteRequest};
use prost::Message as _;

use crate::server::{After, ScriptedRequest, ScriptedServer};
use crate::support::{Bench, CommandOutput};

const GET: &str = "iteration: [ { action: a, get: / } ]";
/// A NaN that ends a series.
const STALE: u64 = 0x7ff0_0000_0000_0002;

/// A service of whose answers every fifth is a fault.
fn service() -> ScriptedServer {
    ScriptedServer::start(|seen, wire| match seen.nth % 5 {
        0 => wire.answer("503 No", "text/plain", "no"),
        _ => wire.answer("200 OK", "text/plain", "ok"),
    })
}

/// The files of a load of 50 iterations, whose title has signs.
fn write_files(bench: &Bench, server: &ScriptedServer) {
    bench.write("deployment.yaml", format!("targets: {{ default: '{}' }}\n", server.url()));
    let title = "title: 'a, b=\"c\" \\'\ndeployment: deployment.yaml";
    let runner = "runner: { constant: { times: 50, concurrency: 2 } }";
    bench.write("scenario.yaml", format!("{title}\n{runner}\n{GET}\n"));
}

/// Makes that load with these options.
fn load(bench: &Bench, server: &ScriptedServer, options: &[&str]) -> CommandOutput {
    write_files(bench, server);
    bench.run(&[&["run", "scenario.yaml"], options].concat())
}

fn request(body: &[u8]) -> WriteRequest {
    let plain = snap::raw::Decoder::new().decompress_vec(body).unwrap();
    WriteRequest::decode(plain.as_slice()).unwrap()
}

fn label<'a>(series: &'a TimeSeries, name: &str) -> &'a str {
    series.labels.iter().find(|label| label.name == name).map_or("", |label| label.value.as_str())
}

fn find<'a>(request: &'a WriteRequest, name: &str, more: (&str, &str)) -> &'a TimeSeries {
    let is = |series: &&TimeSeries| label(series, "__name__") == name && label(series, more.0) == more.1;
    request.timeseries.iter().find(is).unwrap_or_else(|| panic!("no {name} of {more:?}"))
}

fn trace_ids(bench: &Bench) -> BTreeSet<String> {
    let results = bench.results();
    let rows = results["iterations"].as_array().unwrap().iter();
    rows.map(|row| row["trace_id"].as_str().unwrap().to_owned()).collect()
}

/// A receiver that answers with these statuses in turn, and the last one for ever.
fn receiver(statuses: &'static [&'static str]) -> ScriptedServer {
    ScriptedServer::start(move |seen, wire| {
        let status = statuses.get(seen.nth).or(statuses.last()).unwrap();
        match *status {
            "close" => After::Close,
            "hang" => After::Hang,
            status => wire.answer(status, "text/plain", "said the receiver\n"),
        }
    })
}

#[test]
fn remote_write_has_the_figures_of_the_results_and_ends_its_series() {
    let (receiver, server, bench) = (receiver(&["204 No Content"]), service(), Bench::new());
    let url = format!("{}/api/v1/write", receiver.url());
    let ended =
        load(&bench, &server, &["--remote-write", &url, "--remote-write-header", "X-Scope-OrgID=team"]);
    assert!(!ended.expect_code(0).stderr.contains("warning: metrics"), "what was pushed arrived");
    let seen = receiver.seen();
    let ScriptedRequest { method, path, headers, body, .. } = seen.last().unwrap();
    assert_eq!((method.as_str(), path.as_str()), ("POST", "/api/v1/write"));
    for (name, value) in [
        ("content-type", "application/x-protobuf"),
        ("content-encoding", "snappy"),
        ("x-prometheus-remote-write-version", "0.1.0"),
        ("x-scope-orgid", "team"),
    ] {
        assert_eq!(headers[name], value, "{name}");
    }
    assert!(headers["user-agent"].starts_with("bench/"), "{headers:?}");
    let request = request(body);
    let results = bench.results();
    let iterations = &results["workloads"][0]["iterations"];
    for outcome in ["ok", "failed", "aborted", "dropped"] {
        let counted = find(&request, "bench_iterations_total", ("outcome", outcome)).samples[0].value;
        assert_eq!(Some(counted), iterations[outcome].as_f64(), "{outcome}: {iterations}");
    }
    let count = find(&request, "bench_response_time_seconds_count", ("workload", "a, b=\"c\" \\"));
    assert_eq!(count.samples[0].value, 50.0);
    let (ids, mut marked) = (trace_ids(&bench), 0);
    for series in &request.timeseries {
        assert_eq!((label(series, "job"), label(series, "instance")), ("bench", run_id(&results)));
        assert_eq!(series.samples[1].value.to_bits(), STALE, "{series:?}");
        assert!(series.samples[0].timestamp < series.samples[1].timestamp);
        for exemplar in &series.exemplars {
            assert!(ids.contains(&exemplar.labels[0].value), "{exemplar:?}");
            marked += 1;
        }
    }
    assert!(marked > 2, "{marked}");
}

fn run_id(results: &serde_json::Value) -> &str {
    results["run"]["id"].as_str().unwrap()
}

#[test]
fn lines_of_influxdb_have_the_figures_of_the_results() {
    let (receiver, server, bench) = (receiver(&["204 No Content"]), service(), Bench::new());
    let url = format!("{}/api/v2/write?org=o&bucket=b&precision=ms", receiver.url());
    write_files(&bench, &server);
    let mut command = bench.command(&["run", "scenario.yaml", "--influx", &url]);
    let ended = Bench::end(command.env("INFLUX_TOKEN", "t0ken-of-influx==")).expect_code(0);
    let seen = receiver.seen();
    let ScriptedRequest { path, headers, body, .. } = seen.last().unwrap();
    assert_eq!(path, "/api/v2/write?org=o&bucket=b&precision=ms");
    assert_eq!(headers["authorization"], "Token t0ken-of-influx==");
    let results = bench.results();
    for text in [&ended.stdout, &ended.stderr, &results.to_string()] {
        assert!(!text.contains("t0ken-of-influx"), "{text}");
    }
    let text = String::from_utf8(body.clone()).unwrap();
    let begin = format!(
        "bench_iterations,deployment=deployment,outcome=ok,run_id={},scenario=a\\,\\ b\\=\"c\"\\ /,workload=a\\,\\ b\\=\"c\"\\ / ",
        run_id(&results)
    );
    let line =
        text.lines().find(|line| line.starts_with(&begin)).unwrap_or_else(|| panic!("{begin}\n{text}"));
    let (field, time) = line[begin.len()..].split_once(' ').unwrap();
    assert_eq!(field, format!("counter={}i", results["workloads"][0]["iterations"]["ok"]));
    assert_eq!(time.len(), 13, "milliseconds: {time}");
    let histogram = text.lines().find(|line| line.starts_with("bench_response_time_seconds,")).unwrap();
    assert!(histogram.contains(" count=50i,sum="), "{histogram}");
    let id = histogram.split("trace_id=\"").nth(1).unwrap().split('"').next().unwrap();
    assert!(trace_ids(&bench).iter().any(|known| known.replace('-', "") == id), "{histogram}");
}

/// What arrives at a port until nothing came for a while.
fn datagrams(socket: &UdpSocket) -> Vec<String> {
    let (mut buffer, mut all) = ([0; 65_536], Vec::new());
    // The load has ended, so that whatever was sent is here already.
    socket.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
    while let Ok(length) = socket.recv(&mut buffer) {
        all.push(String::from_utf8(buffer[..length].to_vec()).unwrap());
    }
    all
}

#[test]
fn statsd_gets_counts_and_single_times() {
    for scheme in ["", "dogstatsd://"] {
        let (socket, server, bench) = (UdpSocket::bind("127.0.0.1:0").unwrap(), service(), Bench::new());
        let address = format!("{scheme}{}", socket.local_addr().unwrap());
        load(&bench, &server, &["--statsd", &address]).expect_code(0);
        let all = datagrams(&socket);
        assert!(all.iter().all(|one| one.len() <= 1_432 && !one.ends_with('\n')), "{all:?}");
        let mut counters: BTreeMap<String, f64> = BTreeMap::new();
        let mut times = 0;
        for line in all.iter().flat_map(|one| one.lines()) {
            let (name, rest) = line.split_once(':').unwrap();
            let (value, rest) = rest.split_once('|').unwrap();
            let (kind, tags) = rest.split_once("|#").unwrap_or((rest, ""));
            match kind {
                "c" => {
                    *counters.entry(format!("{name}|{tags}")).or_default() += value.parse::<f64>().unwrap()
                }
                "ms" => times += usize::from(name.ends_with(".response_time")),
                kind => assert_eq!(kind, "g", "{line}"),
            }
        }
        let results = bench.results();
        for outcome in ["ok", "failed"] {
            let name = if scheme.is_empty() {
                format!("bench.a__b__c___.iterations.{outcome}|")
            } else {
                let tags = "scenario:a__b__c___,deployment:deployment,workload:a__b__c___";
                format!("bench.iterations|{tags},outcome:{outcome}")
            };
            let expected = results["workloads"][0]["iterations"][outcome].as_f64();
            assert_eq!(counters.get(&name).copied(), expected, "{name}: {counters:?}");
        }
        assert_eq!(times, 50, "{all:?}");
    }
}

/// What each protocol asks for again, and what it does not.
#[test]
fn a_receiver_that_cannot_take_figures_now_is_asked_again_or_named() {
    const BUSY_FIRST: [&str; 4] = ["429 Busy", "500 Oops", "503 Busy", "599 Odd"];
    for option in ["--remote-write", "--influx"] {
        let path = if option == "--influx" { "/write?db=d" } else { "/api/v1/write" };
        let ask = |statuses: &'static [&'static str]| {
            let (receiver, server, bench) = (receiver(statuses), service(), Bench::new());
            let ended = load(&bench, &server, &[option, &format!("{}{path}", receiver.url())]).expect_code(0);
            (receiver.seen().len(), ended.stderr)
        };
        for busy in BUSY_FIRST {
            let statuses: &'static [&'static str] = Box::leak(Box::new([busy, "204 No Content"]));
            let (attempts, said) = ask(statuses);
            assert!(
                attempts == 2 && !said.contains("warning: metrics"),
                "{option} {busy}: {attempts} {said}"
            );
        }
        for (statuses, expected) in [
            (&["400 Bad"][..], "answered 400: said the receiver; the last figures are missing there"),
            (&["301 Moved"], "answered 301: said the receiver; the last figures are missing there"),
            (
                &["401 Who"],
                if option == "--influx" {
                    "answered 401: set INFLUX_TOKEN"
                } else {
                    "answered 401: give its key with --remote-write-header"
                },
            ),
            (&["close"], "; the last figures are missing there"),
        ] {
            let (attempts, said) = ask(statuses);
            assert_eq!(attempts, 1, "{option} {statuses:?}: {said}");
            assert_eq!(
                said.matches("warning: metrics cannot be pushed").count(),
                1,
                "{option} {statuses:?}: {said}"
            );
            assert!(said.contains(expected), "{option} {statuses:?}: {said}");
        }
    }
}

/// The load goes on beside a receiver that is silent, and the end waits once.
#[test]
fn a_receiver_that_never_answers_is_named() {
    let (receiver, server, bench) = (receiver(&["hang"]), service(), Bench::new());
    let url = format!("{}/api/v1/write", receiver.url());
    let ended = load(&bench, &server, &["--remote-write", &url]).expect_code(0);
    assert!(ended.stderr.contains("did not answer within 10 s"), "{}", ended.stderr);
    assert_eq!(bench.results()["run"]["status"], "finished");
}

/// Figures that were refused for a while arrive later, the oldest first, each with its own time.
#[test]
fn figures_of_an_outage_are_sent_after_it() {
    let bodies = Arc::new(Mutex::new(Vec::new()));
    let taken = Arc::clone(&bodies);
    let receiver = ScriptedServer::start(move |seen, wire| match seen.nth {
        0 => wire.answer("503 Busy", "text/plain", ""),
        _ => {
            taken.lock().unwrap().push(seen.body.clone());
            wire.answer("204 No Content", "text/plain", "")
        }
    });
    let (server, bench) = (ScriptedServer::answering_after(Duration::from_millis(40)), Bench::new());
    let keys = "runner: { constant: { times: 300, concurrency: 2 } }";
    bench.load(&server.url(), "", &format!("{keys}\n{GET}"));
    let url = format!("{}/api/v1/write", receiver.url());
    let ended = bench.run(&["run", "scenario.yaml", "--remote-write", &url]).expect_code(0);
    assert!(!ended.stderr.contains("warning: metrics"), "{}", ended.stderr);
    let samples: Vec<_> = bodies
        .lock()
        .unwrap()
        .iter()
        .map(|body| find(&request(body), "bench_iterations_total", ("outcome", "ok")).samples[0])
        .collect();
    assert!(samples.len() >= 2, "one of the load and the last: {samples:?}");
    assert!(samples.is_sorted_by(|a, b| a.timestamp < b.timestamp && a.value <= b.value), "{samples:?}");
    assert_eq!(samples.last().unwrap().value, 300.0);
}

#[test]
fn headers_of_remote_write_come_from_its_own_option_and_variable() {
    let (receiver, server, bench) = (receiver(&["204 No Content"]), service(), Bench::new());
    bench.write("key", "Bearer k3y-of-a-file\n");
    bench.load(&server.url(), "", &format!("runner: {{ serial: {{ times: 2 }} }}\n{GET}"));
    let url = format!("{}/api/v1/push", receiver.url());
    let given =
        ["run", "scenario.yaml", "--remote-write", &url, "--remote-write-header", "Authorization=@key"];
    let mut command = bench.command(&given);
    command.env("BENCH_REMOTE_WRITE_HEADERS", "authorization=0verruled-Key,X-Scope-OrgID=t3nant%20value");
    // These are for others.
    command.env("OTEL_EXPORTER_OTLP_HEADERS", "x-otlp=1").env("INFLUX_TOKEN", "of-influx");
    let ended = Bench::end(&mut command).expect_code(0);
    let headers = receiver.seen()[0].headers.clone();
    assert_eq!(headers["authorization"], "Bearer k3y-of-a-file");
    assert_eq!(headers["x-scope-orgid"], "t3nant value");
    assert!(!headers.contains_key("x-otlp"), "{headers:?}");
    let results = bench.results().to_string();
    for secret in ["k3y-of-a-file", "0verruled", "t3nant value"] {
        assert!(
            ![&ended.stdout, &ended.stderr, &results].iter().any(|text| text.contains(secret)),
            "{secret}"
        );
    }
}

#[test]
fn addresses_of_receivers_are_checked_before_anything_runs() {
    let (server, bench) = (service(), Bench::new());
    bench.load(&server.url(), "", &format!("runner: {{ serial: {{ times: 2 }} }}\n{GET}"));
    for (options, expected) in [
        (
            &["--remote-write", "http://127.0.0.1:9090"][..],
            "it lacks the path: write http://127.0.0.1:9090/api/v1/write",
        ),
        (&["--remote-write", "127.0.0.1:9090/api/v1/write"], "write http://127.0.0.1:9090/api/v1/write"),
        (&["--influx", "http://user:s3cr3t-one@127.0.0.1:8086/db"], "its path does not end in /write"),
        (
            &["--influx", "http://127.0.0.1:8086/write?db=d&p=s3cr3t-one&precision=h"],
            "none of ns, us, ms and s",
        ),
        (&["--statsd", "127.0.0.1"], "write HOST:PORT"),
        (&["--remote-write-header", "a=b"], "--remote-write <URL>"),
        (&["--statsd", "127.0.0.1:8125", "--once"], "cannot be used with"),
    ] {
        let ended = bench.run(&[&["run", "scenario.yaml"], options].concat()).expect_code(64);
        assert!(ended.stderr.contains(expected), "{options:?}: {}", ended.stderr);
        assert!(!ended.stderr.contains("s3cr3t-one"), "{}", ended.stderr);
    }
    assert!(!bench.path().join("runs").exists());
    let mut command = bench.command(&["run", "scenario.yaml", "--influx", "http://127.0.0.1:1/write?db=d"]);
    let ended = Bench::end(command.env("INFLUX_TOKEN", "a\nb")).expect_code(64);
    assert!(ended.stderr.contains("INFLUX_TOKEN has characters"), "{}", ended.stderr);
}
