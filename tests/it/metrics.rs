//! Metrics of a load while it runs: for a scraper, a real Prometheus and an OTLP receiver.
#![cfg(unix)]

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bench::report::metrics::otlp::{ExportMetricsRequest, OtlpMetricData};
use prost::Message as _;
use serde_json::Value;

use crate::server::{After, ScriptedServer};
use crate::support::{Bench, ChildGuard, free_address};

/// Longer than anything here may take, on a busy machine too.
const PATIENCE: Duration = Duration::from_secs(60);
const GET: &str = "iteration: [ { action: a, get: / } ]";

/// A load under way that serves metrics.
struct MetricsLoad {
    child: Child,
    address: String,
}

impl MetricsLoad {
    fn start(bench: &Bench, arguments: &[&str]) -> Self {
        let arguments = [&["run", "scenario.yaml", "--metrics", "127.0.0.1:0"], arguments].concat();
        let mut command = bench.command(&arguments);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
        let line = lines.find(|line| line.starts_with("metrics at ")).unwrap();
        // Whatever else it says must find a reader.
        std::thread::spawn(move || lines.for_each(drop));
        let url = line.strip_prefix("metrics at http://").unwrap();
        Self { child, address: url.strip_suffix("/metrics").unwrap().to_owned() }
    }

    fn stop(mut self) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args(["-INT", &id]).status().unwrap().success());
        assert_eq!(self.child.wait().unwrap().code(), Some(105));
    }
}

/// A test that fails leaves no load behind.
impl Drop for MetricsLoad {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A request by hand: status line and headers, body. Empty while nothing listens.
pub(crate) fn get(address: &str, path: &str) -> (String, String) {
    let mut answer = String::new();
    if let Ok(mut stream) = TcpStream::connect(address) {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let head = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
        if stream.write_all(head.as_bytes()).is_ok() {
            // A server that is being stopped may reset the connection.
            let _ = stream.read_to_string(&mut answer);
        }
    }
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_default();
    (head.to_owned(), body.to_owned())
}

/// Asks again and again until the answer is there.
#[track_caller]
pub(crate) fn wait_for<T>(what: &str, ask: impl Fn() -> Option<T>) -> T {
    let until = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = ask() {
            return found;
        }
        assert!(Instant::now() < until, "{what} did not come");
        std::thread::sleep(Duration::from_millis(100));
    }
}

fn trace_ids(bench: &Bench) -> BTreeSet<String> {
    let results = bench.results();
    let rows = results["iterations"].as_array().unwrap().iter();
    rows.map(|row| row["trace_id"].as_str().unwrap().to_owned()).collect()
}

fn endless(server: &ScriptedServer) -> Bench {
    let bench = Bench::new();
    bench.load(
        &server.url(),
        "",
        &format!("runner: {{ constant: {{ times: 10000000, concurrency: 2 }} }}\n{GET}"),
    );
    bench
}

#[test]
fn a_scrape_has_counts_and_trace_ids_of_the_run() {
    let server = ScriptedServer::start(|seen, wire| {
        wire.pause(Duration::from_millis(3));
        match seen.nth % 5 {
            0 => wire.answer("503 No", "text/plain", "no"),
            _ => wire.answer("200 OK", "text/plain", "ok"),
        }
    });
    let bench = endless(&server);
    let load = MetricsLoad::start(&bench, &[]);
    let (head, body) = wait_for("a failure", || {
        Some(get(&load.address, "/metrics")).filter(|(_, body)| body.contains("class=\"status\""))
    });
    assert!(head.starts_with("HTTP/1.1 200 OK"), "{head}");
    assert!(head.contains("content-type: application/openmetrics-text; version=1.0.0"), "{head}");
    assert!(body.ends_with("# EOF\n"));
    assert!(body.contains("bench_iterations_total{workload=\"t\",outcome=\"ok\"}"), "{body}");
    assert!(body.contains("bench_build_info{version=\""), "{body}");
    assert!(body.contains("bench_start_lag_seconds_count{"), "{body}");
    // Between two iterations, a user has none.
    wait_for("both users at work", || {
        let (_, body) = get(&load.address, "/metrics");
        let line =
            body.lines().find(|line| line.starts_with("bench_iterations_in_flight{")).unwrap().to_owned();
        let in_flight: u64 = line.rsplit(' ').next().unwrap().parse().unwrap();
        assert!(in_flight <= 2, "{line}");
        (in_flight == 2).then_some(())
    });
    assert!(get(&load.address, "/").0.starts_with("HTTP/1.1 404"), "only one path");
    let named: BTreeSet<&str> =
        body.split("# {trace_id=\"").skip(1).map(|rest| rest.split('"').next().unwrap()).collect();
    assert!(!named.is_empty());
    load.stop();
    let ids = trace_ids(&bench);
    assert!(named.iter().all(|id| ids.contains(*id)), "every exemplar is an iteration of this run");
}

#[test]
fn a_port_that_is_taken_is_said_before_anything_is_made() {
    let server = ScriptedServer::answering_after(Duration::ZERO);
    let bench = endless(&server);
    let taken = server.url().replace("http://", "");
    let ended = bench.run(&["run", "scenario.yaml", "--metrics", &taken]).expect_code(1);
    assert!(ended.stderr.contains("choose another port"), "{}", ended.stderr);
    assert!(!bench.path().join("runs").exists());
    bench.run(&["run", "scenario.yaml", "--metrics", "somewhere"]).expect_code(64);
    bench.run(&["run", "scenario.yaml", "--otlp", "localhost"]).expect_code(64);
}

/// Ends with the test, whatever becomes of it.
struct Prometheus(Child);

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn real_prometheus_stores_exemplars_with_trace_ids_of_the_run() {
    if !Command::new("prometheus").arg("--version").output().is_ok_and(|output| output.status.success()) {
        println!("skipped: install prometheus (apt-get install prometheus)");
        return;
    }
    let server = ScriptedServer::answering_after(Duration::from_millis(2));
    let bench = endless(&server);
    let load = MetricsLoad::start(&bench, &[]);
    let config = format!(
        "global: {{ scrape_interval: 500ms, scrape_timeout: 500ms }}\n\
         scrape_configs: [ {{ job_name: bench, static_configs: [ {{ targets: ['{}'] }} ] }} ]\n",
        load.address
    );
    bench.write("prometheus.yaml", config);
    let address = free_address().to_string();
    let prometheus = Command::new("prometheus")
        .current_dir(bench.path())
        .args(["--config.file=prometheus.yaml", "--storage.tsdb.path=tsdb", "--log.level=error"])
        .args(["--enable-feature=exemplar-storage", &format!("--web.listen-address={address}")])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let prometheus = Prometheus(prometheus.unwrap());
    let query = "/api/v1/query_exemplars?query=bench_response_time_seconds_bucket&start=0&end=99999999999";
    let json = |path: &str| serde_json::from_str::<Value>(&unchunked(&get(&address, path))).ok();
    let found = wait_for("an exemplar", || {
        let answer = json(query)?;
        let series = answer["data"].as_array()?.iter().flat_map(|series| series["exemplars"].as_array());
        let ids: BTreeSet<String> = series
            .flatten()
            .filter_map(|exemplar| exemplar["labels"]["trace_id"].as_str().map(str::to_owned))
            .collect();
        (ids.len() >= 2).then_some(ids)
    });
    let counted = wait_for("a count", || {
        let answer = json("/api/v1/query?query=sum(bench_iterations_total)")?;
        answer["data"]["result"][0]["value"][1].as_str()?.parse::<u64>().ok()
    });
    let up = json("/api/v1/targets").unwrap();
    let target = &up["data"]["activeTargets"][0];
    assert_eq!((&target["health"], &target["lastError"]), (&"up".into(), &"".into()), "{target}");
    drop(prometheus);
    load.stop();
    let ids = trace_ids(&bench);
    assert!(found.iter().all(|id| ids.contains(id)), "{found:?} are of this run");
    assert!((1..=ids.len() as u64).contains(&counted));
}

/// The body, its chunks put together again.
pub(crate) fn unchunked((head, body): &(String, String)) -> String {
    if !head.to_lowercase().contains("transfer-encoding: chunked") {
        return body.clone();
    }
    let (mut rest, mut whole) = (body.as_str(), String::new());
    while let Some((size, after)) = rest.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).unwrap_or(0);
        if size == 0 || after.len() < size + 2 {
            break;
        }
        whole.push_str(&after[..size]);
        rest = &after[size + 2..];
    }
    whole
}

/// Credentials in the receiver's URL are not for a proxy that the environment happens to name.
#[test]
fn metrics_are_pushed_through_no_proxy() {
    let receiver = ScriptedServer::start(|_, wire| wire.answer("200 OK", "application/x-protobuf", ""));
    let server = ScriptedServer::answering_after(Duration::from_millis(1));
    let bench = Bench::new();
    let dns = "dns: { hosts: { metrics.example: 127.0.0.1 } }";
    bench.load(&server.url(), dns, &format!("runner: {{ constant: {{ times: 5, concurrency: 1 }} }}\n{GET}"));
    let url = format!("http://user:p4ssw0rd@metrics.example:{}", receiver.address().port());
    let mut command = bench.command(&["run", "scenario.yaml", "--otlp", &url]);
    let ended = Bench::end(command.env("http_proxy", "http://127.0.0.1:1")).expect_code(0);
    assert!(!ended.stderr.contains("cannot be pushed"), "{}", ended.stderr);
    assert!(receiver.seen().iter().all(|seen| seen.headers.contains_key("authorization")));
    assert!(!receiver.seen().is_empty());
}

#[test]
fn a_receiver_of_otlp_gets_counts_and_trace_ids() {
    let bodies = Arc::new(Mutex::new(Vec::new()));
    let pushed = Arc::clone(&bodies);
    let receiver = ScriptedServer::start(move |seen, wire| {
        assert_eq!((seen.method.as_str(), seen.path.as_str()), ("POST", "/v1/metrics"));
        assert_eq!(seen.headers["content-type"], "application/x-protobuf");
        pushed.lock().unwrap().push(seen.body.clone());
        wire.answer("200 OK", "application/x-protobuf", "")
    });
    let server = ScriptedServer::answering_after(Duration::from_millis(1));
    let bench = Bench::new();
    bench.load(&server.url(), "", &format!("runner: {{ constant: {{ times: 50, concurrency: 2 }} }}\n{GET}"));
    let ended = bench.run(&["run", "scenario.yaml", "--otlp", &receiver.url()]).expect_code(0);
    assert!(!ended.stderr.contains("warning"), "{}", ended.stderr);
    let last = bodies.lock().unwrap().last().unwrap().clone();
    let request = ExportMetricsRequest::decode(last.as_slice()).unwrap();
    let resource = request.resource_metrics[0].resource.as_ref().unwrap();
    assert!(resource.attributes.iter().any(|attribute| attribute.key == "service.name"));
    let metrics = &request.resource_metrics[0].scope_metrics[0].metrics;
    let named = |name: &str| metrics.iter().find(|metric| metric.name == name).unwrap().data.as_ref();
    let Some(OtlpMetricData::Sum(sum)) = named("bench_iterations") else { panic!("no sum") };
    assert_eq!(
        sum.data_points.iter().filter_map(|point| point.as_int).sum::<i64>(),
        50,
        "the last push has all"
    );
    let Some(OtlpMetricData::Histogram(histogram)) = named("bench_response_time") else {
        panic!("no histogram")
    };
    let point = &histogram.data_points[0];
    assert_eq!((point.count, point.bucket_counts.iter().sum::<u64>()), (50, 50));
    let ids = trace_ids(&bench);
    assert!(!point.exemplars.is_empty());
    for exemplar in &point.exemplars {
        let id = uuid::Uuid::from_slice(&exemplar.trace_id).unwrap();
        assert!(ids.contains(&id.to_string()));
        assert_eq!(exemplar.span_id.len(), 8);
    }
}

/// The last figures have one chance: a receiver that is busy is asked again, one that refuses is not.
#[test]
fn a_receiver_that_is_busy_gets_the_last_figures_later() {
    for (status, wait, attempts) in [
        ("429 Busy", "0", 2),
        ("502 Bad", "0", 2),
        ("503 Busy", "0", 2),
        ("504 Late", "0", 2),
        // No run waits that long.
        ("503 Busy", "18446744073709551615", 1),
        ("400 Bad", "0", 1),
        ("401 Who", "0", 1),
        ("500 Oops", "0", 1),
    ] {
        let receiver = ScriptedServer::start(move |seen, wire| match seen.nth {
            0 => {
                wire.send(format!("HTTP/1.1 {status}\r\nRetry-After: {wait}\r\nContent-Length: 0\r\n\r\n"));
                After::Keep
            }
            _ => wire.answer("200 OK", "application/x-protobuf", ""),
        });
        let server = ScriptedServer::answering_after(Duration::ZERO);
        let bench = Bench::new();
        bench.load(&server.url(), "", &format!("runner: {{ serial: {{ times: 2 }} }}\n{GET}"));
        let ended = bench.run(&["run", "scenario.yaml", "--otlp", &receiver.url()]).expect_code(0);
        let warned = ended.stderr.contains("cannot be pushed");
        assert_eq!((receiver.seen().len(), warned), (attempts, attempts == 1), "{status}: {}", ended.stderr);
    }
}

#[test]
fn headers_of_pushes_come_from_files_and_variables_and_are_shown_nowhere() {
    let receiver = ScriptedServer::start(|_, wire| wire.answer("403 Who", "text/plain", "no"));
    let server = ScriptedServer::answering_after(Duration::ZERO);
    let bench = Bench::new();
    bench.load(&server.url(), "", &format!("runner: {{ serial: {{ times: 2 }} }}\n{GET}"));
    bench.write("key", "k3y-of-a-file\n");
    let given = ["run", "scenario.yaml", "--otlp", &receiver.url(), "--otlp-header", "api-key=@key"];
    let mut command = bench.command(&given);
    command.env("OTEL_EXPORTER_OTLP_HEADERS", "api-key=0verruled-Key,x-tenant=t3nant%20value");
    let ended = Bench::end(&mut command).expect_code(0);
    let headers = receiver.seen()[0].headers.clone();
    assert_eq!(
        (headers["api-key"].as_str(), headers["x-tenant"].as_str()),
        ("k3y-of-a-file", "t3nant value")
    );
    assert!(ended.stderr.contains("give its key with --otlp-header"), "{}", ended.stderr);
    let results = bench.results().to_string();
    for secret in ["k3y-of-a-file", "t3nant value"] {
        assert!(
            ![&ended.stdout, &ended.stderr, &results].iter().any(|text| text.contains(secret)),
            "{secret}"
        );
    }
    for (header, part) in
        [("api-key=@none", "none: "), ("word", "write it as NAME=@FILE"), ("a b=c", "no name of a header")]
    {
        let ended = bench.run(&["run", "scenario.yaml", "--otlp", &receiver.url(), "--otlp-header", header]);
        assert!(ended.expect_code(64).stderr.contains(part), "{header}");
    }
}

#[test]
fn a_receiver_that_refuses_or_is_gone_is_a_warning_only() {
    let refusing = ScriptedServer::start(|_, wire| wire.answer("500 Oops", "text/plain", "no"));
    let closing = ScriptedServer::start(|_, _| After::Close);
    let gone = ScriptedServer::answering_after(Duration::ZERO).url();
    for (url, expected) in
        [(refusing.url(), "answered 500"), (closing.url(), "cannot be pushed"), (gone, "cannot be pushed")]
    {
        let server = ScriptedServer::answering_after(Duration::ZERO);
        let bench = Bench::new();
        bench.load(&server.url(), "", &format!("runner: {{ serial: {{ times: 2 }} }}\n{GET}"));
        let ended = bench.run(&["run", "scenario.yaml", "--otlp", &url]).expect_code(0);
        assert!(ended.stderr.contains("warning: metrics cannot be pushed"), "{}", ended.stderr);
        assert!(ended.stderr.contains(expected), "{}", ended.stderr);
        assert_eq!(bench.results()["run"]["status"], "finished");
    }
}

#[test]
fn scrapes_are_answered_beside_half_sent_requests_and_by_own_names_only() {
    let server = ScriptedServer::answering_after(Duration::from_millis(10));
    let bench = endless(&server);
    let load = MetricsLoad::start(&bench, &[]);
    // More than are served at once; each says a half of a request, and then nothing.
    let half = || {
        let mut stream = TcpStream::connect(&load.address).ok()?;
        stream.write_all(b"GET /metrics HTTP/1.1\r\nHos").ok()?;
        Some(stream)
    };
    let halves: Vec<_> = (0..40).map(|_| half()).collect();
    let asked = |host: &str| {
        let mut answer = String::new();
        if let Ok(mut stream) = TcpStream::connect(&load.address) {
            // Before, they shut others out for 300 s.
            let _ = stream.set_read_timeout(Some(Duration::from_secs(120)));
            let _ = write!(stream, "GET /metrics HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
            let _ = stream.read_to_string(&mut answer);
        }
        answer
    };
    let hosts = [("127.0.0.1", "200"), ("localhost:1", "200"), ("evil.example", "421")];
    let answers = hosts.map(|(host, status)| (host, status, asked(host)));
    drop(halves);
    load.stop();
    for (host, status, answer) in answers {
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{host}: {answer}");
        assert_eq!(answer.contains("# EOF"), status == "200", "{host}: {answer}");
    }
}

/// The value of a series.
fn value(text: &str, series: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(series)?.trim().parse().ok())
}

/// Each shard makes 19 iterations, the odd ones of which fail.
#[test]
fn the_first_shard_serves_the_metrics_of_all() {
    let (bench, server) = (
        Bench::new(),
        ScriptedServer::start(|seen, wire| {
            let odd = seen.path.ends_with(['1', '3', '5', '7', '9']);
            wire.answer(if odd { "500 Internal Server Error" } else { "200 OK" }, "text/plain", "")
        }),
    );
    let keys = "runner: { rps: { rps: 3, times: 57 } }\niteration: [{ action: a, get: '/{{ iteration }}' }]";
    bench.load(&server.url(), "profiler: { hmac_keys: [k] }", keys);
    let metrics = free_address().to_string();
    let start = |index: usize| {
        let shard = format!("{index}/3");
        let own = ["run", "scenario.yaml", "--shard", &shard, "--job", "j", "--workers", "1", "--quiet"];
        let lead = ["--together", "meet", "--lead", "--metrics", &metrics];
        ChildGuard::start(
            bench.command(&[&own[..], &lead[..]].concat()).stdout(Stdio::piped()).stderr(Stdio::piped()),
        )
    };
    let shards: Vec<ChildGuard> = (0..3).map(start).collect();
    let (text, failed) = wait_for("more than one shard makes", || {
        let (_, text) = get(&metrics, "/metrics");
        let ok = value(&text, "bench_iterations_total{workload=\"t\",outcome=\"ok\"} ")?;
        let failed = value(&text, "bench_iterations_total{workload=\"t\",outcome=\"failed\"} ")?;
        (ok + failed > 19).then_some((text, failed))
    });
    assert_eq!(value(&text, "bench_errors_total{workload=\"t\",class=\"status\"} "), Some(failed), "{text}");
    assert!(!text.contains("shard="), "{text}");
    assert!(text.contains("# {trace_id="), "{text}");
    for shard in shards {
        shard.end().expect_code(0);
    }
}

/// Whoever opens connections and never ends a request does not keep a scraper out.
#[test]
fn half_requests_do_not_keep_a_scraper_out() {
    let server = ScriptedServer::answering_after(Duration::from_millis(20));
    let bench = Bench::new();
    bench.load(
        &server.url(),
        "",
        &format!("runner: {{ constant: {{ times: 1000000, concurrency: 1 }} }}\n{GET}"),
    );
    let load = MetricsLoad::start(&bench, &[]);
    let half: Vec<TcpStream> = (0..100)
        .map(|_| {
            let mut stream = TcpStream::connect(&load.address).unwrap();
            stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: ").unwrap();
            stream
        })
        .collect();
    let asked = Instant::now();
    let (head, body) = get(&load.address, "/metrics");
    assert!(head.starts_with("HTTP/1.1 200") && !body.is_empty(), "{head}");
    // The time limit of a request is 5 s, and a connection's is far above.
    assert!(asked.elapsed() < Duration::from_secs(4), "{:?}", asked.elapsed());
    drop(half);
    load.stop();
}
