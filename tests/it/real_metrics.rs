//! Pushed metrics in what stores them: a real Prometheus, VictoriaMetrics, InfluxDB and StatsD (`tests/real/metrics.sh`).
//! Each test starts its own, on a free port. Prometheus is also asked every query of the dashboard for Grafana.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use bench::base::percent;
use serde_json::Value;

use crate::metrics::{get, unchunked, wait_for};
use crate::server::ScriptedServer;
use crate::support::{Bench, CommandOutput, free_address, service};

const DASHBOARD: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/deployments/grafana/bench.json");
const FLUSHES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/metrics/flushes.js");

fn program(name: &str) -> Option<String> {
    service(&format!("BENCH_TEST_METRICS_{name}"), "what tests/real/metrics.sh printed")
}

/// A server that ends with the test.
struct MetricsPeer {
    child: Child,
    address: SocketAddr,
}

impl Drop for MetricsPeer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl MetricsPeer {
    /// Starts a program in the folder of the test, and waits until it answers at this path.
    #[track_caller]
    fn start(bench: &Bench, address: SocketAddr, command: &mut Command, ready: &str) -> Self {
        let command = command.current_dir(bench.path()).stdin(Stdio::null());
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let peer = Self { child, address };
        wait_for("the peer", || {
            let (head, _) = get(&address.to_string(), ready);
            (head.contains(" 200 ") || head.contains(" 204 ")).then_some(())
        });
        peer
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// The answer to a question, as JSON.
    #[track_caller]
    fn ask(&self, path: &str, parameters: &[(&str, &str)]) -> Value {
        let pairs = parameters.iter().map(|(name, value)| format!("{name}={}", percent::encode(value)));
        let path = format!("{path}?{}", pairs.collect::<Vec<_>>().join("&"));
        let answer = unchunked(&get(&self.address.to_string(), &path));
        serde_json::from_str(&answer).unwrap_or_else(|error| panic!("{path}: {error}: {answer}"))
    }

    /// The series of a query at the end: their labels and values.
    #[track_caller]
    fn query(&self, query: &str) -> Vec<(Value, f64)> {
        let answer = self.ask("/api/v1/query", &[("query", query)]);
        assert_eq!(answer["status"], "success", "{query}: {answer}");
        let series = answer["data"]["result"].as_array().unwrap().iter();
        let read = |one: &Value| (one["metric"].clone(), one["value"][1].as_str().unwrap().parse().unwrap());
        series.map(read).collect()
    }

    /// The values of a query, by a label.
    fn by(&self, label: &str, query: &str) -> BTreeMap<String, f64> {
        let series = self.query(query).into_iter();
        series.map(|(labels, value)| (labels[label].as_str().unwrap_or_default().to_owned(), value)).collect()
    }
}

fn prometheus(bench: &Bench) -> Option<MetricsPeer> {
    let address = free_address();
    bench.write("prometheus.yaml", "{}\n");
    let mut command = Command::new(program("PROMETHEUS")?);
    command
        .args(["--config.file=prometheus.yaml", "--storage.tsdb.path=tsdb", "--log.level=error"])
        .args(["--web.enable-remote-write-receiver", "--enable-feature=exemplar-storage"])
        .arg(format!("--web.listen-address={address}"));
    Some(MetricsPeer::start(bench, address, &mut command, "/-/ready"))
}

/// A load of some sixteen seconds, so that figures are pushed several times while it runs; every tenth iteration fails.
fn load(bench: &Bench, options: &[&str]) -> (CommandOutput, Value) {
    let server = ScriptedServer::start(|seen, wire| {
        wire.pause(Duration::from_millis(if seen.nth % 50 == 0 { 300 } else { 30 }));
        match seen.nth % 20 {
            0 => wire.answer("503 No", "text/plain", "no"),
            _ => wire.answer("200 OK", "application/x-ndjson", "{}\n{}\n"),
        }
    });
    let steps =
        "iteration:\n  - { action: read, get: /read }\n  - { action: list, get: /list, stream: lines }";
    bench.load(
        &server.url(),
        "",
        &format!("runner: {{ constant: {{ times: 900, concurrency: 4 }} }}\n{steps}"),
    );
    let ended = bench.run(&[&["run", "scenario.yaml"], options].concat()).expect_code(0);
    assert!(!ended.stderr.contains("warning: metrics"), "{}", ended.stderr);
    let results = bench.results();
    (ended, results)
}

/// The counts of the results, by outcome.
fn outcomes(results: &Value) -> BTreeMap<String, f64> {
    let counts = &results["workloads"][0]["iterations"];
    ["ok", "failed", "aborted", "dropped"].map(|one| (one.to_owned(), counts[one].as_f64().unwrap())).into()
}

/// How long all iterations took together, from when they were due, in seconds.
fn response_s(results: &Value) -> f64 {
    let rows = results["iterations"].as_array().unwrap().iter();
    let number = |row: &Value, key: &str| row[key].as_f64().unwrap();
    rows.map(|row| number(row, "start_s") - number(row, "due_s") + number(row, "duration_ms") / 1e3).sum()
}

/// Figures are those of the results, exactly where they are counts.
#[track_caller]
fn has_the_figures(peer: &MetricsPeer, results: &Value) {
    let of = |metric: &str| format!("last_over_time({metric}[1h])");
    assert_eq!(peer.by("outcome", &of("bench_iterations_total")), outcomes(results));
    let one = |query: &str| {
        let found = peer.query(query);
        assert_eq!(found.len(), 1, "{query}: {found:?}");
        found[0].1
    };
    let count = results["iterations"].as_array().unwrap().len() as f64;
    assert_eq!(one(&of("bench_response_time_seconds_count{job=\"bench\"}")), count);
    assert_eq!(one(&of("bench_response_time_seconds_bucket{le=\"+Inf\"}")), count);
    let (sum, expected) = (one(&of("bench_response_time_seconds_sum{job=\"bench\"}")), response_s(results));
    assert!((sum - expected).abs() < 0.01, "{sum} is not {expected}");
    // Without a mark that they end, they would be there for five more minutes.
    let later = (jiff::Timestamp::now().as_second() + 10).to_string();
    let later = peer.ask("/api/v1/query", &[("query", "bench_iterations_total"), ("time", &later)]);
    assert_eq!(later["data"]["result"], serde_json::json!([]), "the series have ended");
}

#[test]
fn real_prometheus_has_what_was_pushed_with_its_exemplars() {
    let bench = Bench::new();
    let Some(peer) = prometheus(&bench) else { return };
    let (_, results) = load(&bench, &["--remote-write", &peer.url("/api/v1/write")]);
    has_the_figures(&peer, &results);
    let range = [("start", "0"), ("end", "99999999999")];
    let query = ("query", "bench_response_time_seconds_bucket");
    let answer = peer.ask("/api/v1/query_exemplars", &[&[query], &range[..]].concat());
    let rows = results["iterations"].as_array().unwrap();
    let known: BTreeSet<&str> = rows.iter().map(|row| row["trace_id"].as_str().unwrap()).collect();
    let mut found = 0;
    for exemplar in
        answer["data"].as_array().unwrap().iter().flat_map(|one| one["exemplars"].as_array().unwrap())
    {
        let id = exemplar["labels"]["trace_id"].as_str().unwrap();
        assert!(known.contains(id), "{exemplar}");
        assert_eq!(exemplar["labels"]["w3c_trace_id"], id.replace('-', ""));
        found += 1;
    }
    assert!(found >= 2, "{answer}");
    asks_the_dashboard(&peer, &results);
}

/// Each query of the dashboard has data, as Grafana would ask it, and so have its variables.
fn asks_the_dashboard(peer: &MetricsPeer, results: &Value) {
    let dashboard: Value = serde_json::from_str(&std::fs::read_to_string(DASHBOARD).unwrap()).unwrap();
    let run_id = results["run"]["id"].as_str().unwrap();
    let values = [
        ("$scenario", "t"),
        ("$run", run_id),
        ("$instance", run_id),
        ("$workload", "t"),
        ("$__rate_interval", "20s"),
        ("$__range", "1h"),
    ];
    let filled =
        |text: &str| values.iter().fold(text.to_owned(), |text, (name, value)| text.replace(name, value));
    let mut variables = 0;
    for variable in dashboard["templating"]["list"].as_array().unwrap() {
        let Some(query) = variable["query"]["query"].as_str().map(filled) else { continue };
        let inner = query.strip_prefix("label_values(").and_then(|rest| rest.strip_suffix(')')).unwrap();
        let (metric, label) = inner.rsplit_once(", ").unwrap();
        let answer = peer.ask(&format!("/api/v1/label/{label}/values"), &[("match[]", metric)]);
        let name = variable["name"].as_str().unwrap();
        let expected = values.iter().find(|(known, _)| known[1..] == *name).unwrap().1;
        assert_eq!(answer["data"], serde_json::json!([expected]), "{name}: {answer}");
        variables += 1;
    }
    let seconds = |key: &str| results["run"][key].as_f64().unwrap();
    let started: jiff::Timestamp = results["run"]["started_at"].as_str().unwrap().parse().unwrap();
    let end = started.as_second() as f64 + seconds("duration_s") + 2.0;
    let (start, end) = (started.as_second().to_string(), end.to_string());
    let panels = dashboard["panels"].as_array().unwrap().iter();
    let panels =
        panels.flat_map(|panel| [panel].into_iter().chain(panel["panels"].as_array().into_iter().flatten()));
    let mut queries = 0;
    for (panel, target) in panels
        .flat_map(|panel| panel["targets"].as_array().into_iter().flatten().map(move |one| (panel, one)))
    {
        let query = filled(target["expr"].as_str().unwrap());
        assert!(!query.contains('$'), "{query}");
        let answer = if target["instant"] == true {
            peer.ask("/api/v1/query", &[("query", &query)])
        } else {
            peer.ask(
                "/api/v1/query_range",
                &[("query", &query), ("start", &start), ("end", &end), ("step", "1")],
            )
        };
        let series = answer["data"]["result"].as_array().unwrap_or_else(|| panic!("{query}: {answer}"));
        let texts = series.iter().flat_map(|one| {
            let many = one["values"].as_array().into_iter().flatten().map(|pair| &pair[1]);
            many.chain([&one["value"][1]])
        });
        let numbers: Vec<f64> = texts.filter_map(|text| text.as_str()?.parse().ok()).collect();
        assert!(numbers.iter().any(|number| number.is_finite()), "{}: {query}: {answer}", panel["title"]);
        // A faster machine changes no count: some have failed, and all took some time.
        let is_positive = numbers.iter().any(|number| *number > 0.0);
        let may_be_zero = ["Dropped", "Iterations that ended otherwise"];
        assert!(is_positive || may_be_zero.contains(&panel["title"].as_str().unwrap()), "{query}: {answer}");
        queries += 1;
    }
    assert!(variables == 4 && queries > 20, "{variables} variables and {queries} queries");
}

#[test]
fn real_victoria_metrics_takes_remote_write_and_lines() {
    let bench = Bench::new();
    let Some(program) = program("VICTORIA_METRICS") else { return };
    let address = free_address();
    let mut command = Command::new(program);
    command.args(["-storageDataPath=victoria", "-search.latencyOffset=0s", "-loggerLevel=ERROR"]);
    let peer =
        MetricsPeer::start(&bench, address, command.arg(format!("-httpListenAddr={address}")), "/health");
    let (write, lines) = (peer.url("/api/v1/write"), peer.url("/write?db=d"));
    let (_, results) = load(&bench, &["--remote-write", &write, "--influx", &lines]);
    get(&address.to_string(), "/internal/force_flush");
    let of = |field: &str| format!("last_over_time({field}[1h])");
    // It shows what is a second old or older.
    wait_for("the last figures", || {
        (peer.by("outcome", &of("bench_iterations_total")) == outcomes(&results)).then_some(())
    });
    has_the_figures(&peer, &results);
    assert_eq!(peer.by("outcome", &of("bench_iterations_counter")), outcomes(&results));
    let sum = peer.query(&of("bench_response_time_seconds_sum{db=\"d\"}"));
    assert!((sum[0].1 - response_s(&results)).abs() < 0.01, "{sum:?}");
    assert_eq!((&sum[0].0["scenario"], &sum[0].0["run_id"]), (&"t".into(), &results["run"]["id"]));
}

fn post(address: SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(
        stream,
        "POST {path} HTTP/1.1\r\nHost: {address}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn real_influxdb_has_the_figures_and_says_who_may_not_write() {
    let bench = Bench::new();
    let Some(program) = program("INFLUXD") else { return };
    let (address, inner) = (free_address(), free_address());
    let config = format!(
        "reporting-disabled = true\nbind-address = \"{inner}\"\n[meta]\ndir = \"influx/meta\"\n\
         [data]\ndir = \"influx/data\"\nwal-dir = \"influx/wal\"\n[monitor]\nstore-enabled = false\n\
         [http]\nbind-address = \"{address}\"\nauth-enabled = true\nlog-enabled = false\n"
    );
    bench.write("influxdb.conf", config);
    let mut command = Command::new(program);
    let peer = MetricsPeer::start(&bench, address, command.args(["-config", "influxdb.conf"]), "/ping");
    let (login, password) = ("u=admin&p=s3cr3t-w0rd", "s3cr3t-w0rd");
    for (login, query) in [
        ("", "CREATE USER admin WITH PASSWORD 's3cr3t-w0rd' WITH ALL PRIVILEGES"),
        (login, "CREATE DATABASE d"),
    ] {
        let answer = post(address, &format!("/query?{login}&q={}", percent::encode(query)));
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    }
    let refused = Bench::new();
    let server = ScriptedServer::answering_after(Duration::ZERO);
    refused.load(&server.url(), "", "runner: { serial: { times: 2 } }\niteration: [ { action: a, get: / } ]");
    for (url, expected) in [
        (format!("http://admin:0ther-w0rd@{address}/write?db=d"), "answered 401: set INFLUX_TOKEN"),
        (format!("http://{address}/write?db=none&u=admin&p={password}"), "database not found: \\\"none\\\""),
    ] {
        let ended = refused.run(&["run", "scenario.yaml", "--influx", &url]).expect_code(0);
        assert!(ended.stderr.contains(expected), "{}", ended.stderr);
        assert!(!ended.stderr.contains("0ther-w0rd") && !ended.stderr.contains(password), "{}", ended.stderr);
    }
    let url = format!("http://admin:{password}@{address}/write?db=d&precision=ms");
    let (ended, results) = load(&bench, &["--influx", &url]);
    assert!(!format!("{}{}{results}", ended.stdout, ended.stderr).contains(password));
    let ask = |query: &str| {
        let parameters = [("db", "d"), ("u", "admin"), ("p", password), ("q", query)];
        peer.ask("/query", &parameters)["results"][0]["series"].clone()
    };
    let series = ask("SELECT last(counter) FROM bench_iterations GROUP BY outcome");
    let counted: BTreeMap<String, f64> = series
        .as_array()
        .unwrap()
        .iter()
        .map(|one| {
            (one["tags"]["outcome"].as_str().unwrap().to_owned(), one["values"][0][1].as_f64().unwrap())
        })
        .collect();
    assert_eq!(counted, outcomes(&results));
    let series = ask(
        "SELECT last(\"sum\"), last(\"count\"), last(\"+Inf\"), last(trace_id) FROM bench_response_time_seconds WHERE scenario = 't'",
    );
    let row = &series[0]["values"][0];
    assert!((row[1].as_f64().unwrap() - response_s(&results)).abs() < 0.01, "{row}");
    assert_eq!((&row[2], &row[3]), (&900.into(), &900.into()), "{row}");
    let id = row[4].as_str().unwrap();
    let rows = results["iterations"].as_array().unwrap();
    assert!(rows.iter().any(|row| row["trace_id"].as_str().unwrap().replace('-', "") == id), "{row}");
    let points = ask("SELECT count(counter) FROM bench_iterations WHERE outcome = 'ok'");
    assert!(points[0]["values"][0][1].as_u64().unwrap() >= 2, "of the load and the last: {points}");
}

#[test]
fn real_statsd_adds_up_what_it_is_sent() {
    let bench = Bench::new();
    let Some(program) = program("STATSD") else { return };
    let (address, management) = (free_address(), free_address());
    let config = format!(
        "{{ address: '127.0.0.1', port: {}, mgmt_address: '127.0.0.1', mgmt_port: {}, flushInterval: 1000, \
         backends: ['{FLUSHES}'] }}\n",
        address.port(),
        management.port()
    );
    bench.write("statsd.js", config);
    let mut command = Command::new("node");
    command.args([&program, "statsd.js"]).current_dir(bench.path()).stdin(Stdio::null());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let flushes = std::thread::spawn(move || lines.map_while(Result::ok).collect::<Vec<_>>());
    let peer = MetricsPeer { child, address: management };
    wait_for("statsd", || TcpStream::connect(management).ok());
    let (_, results) = load(&bench, &["--statsd", &address.to_string()]);
    // It has the last datagram when it has flushed once more.
    std::thread::sleep(Duration::from_millis(2_500));
    drop(peer);
    let lines = flushes.join().unwrap();
    let flushes: Vec<Value> = lines.iter().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let sum = |kind: &str, name: &str| -> f64 {
        flushes.iter().filter_map(|flush| flush[kind][name].as_f64()).sum()
    };
    for outcome in ["ok", "failed"] {
        let counted = sum("counters", &format!("bench.t.iterations.{outcome}"));
        assert_eq!(counted, outcomes(&results)[outcome], "{outcome}: {lines:?}");
    }
    assert_eq!(sum("counters", "statsd.bad_lines_seen"), 0.0);
    // Each time was sent with its share of all, of which there are fractions.
    let timed = sum("timer_counters", "bench.t.response_time");
    assert!((timed - 900.0).abs() < 0.5, "{timed}: {lines:?}");
    assert_eq!(flushes.last().unwrap()["gauges"]["bench.t.iterations_in_flight"], 0);
}
