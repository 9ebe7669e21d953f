//! What the client itself knows of slow iterations: which of several addresses answered, and which row of data was used.
//! With traces and without, in the results and in every report, and again from the log alone.

use std::fmt::Write as _;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::time::Duration;

use bench::results::aggregate::Aggregate;
use serde_json::Value;

use crate::h2_server::{Act, H2Server, H2ServerOptions};
use crate::planted_service::{KEY, Plant, SLOW_ROW, Shop};
use crate::server::{After, ScriptedServer, Wire};
use crate::support::Bench;

/// More than a busy machine makes most requests late.
const SLOW: Duration = Duration::from_millis(500);
const FAST_ADDRESS: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 1);
const SLOW_ADDRESS: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

fn answer(wire: &mut Wire<'_>, is_slow: bool) -> After {
    if is_slow && !wire.pause(SLOW) {
        return After::Close;
    }
    wire.answer("200 OK", "application/json", "{}")
}

/// A fast and a slow server, at the same port of two addresses.
fn fast_and_slow() -> (ScriptedServer, ScriptedServer) {
    loop {
        let fast = ScriptedServer::start(|_, wire| answer(wire, false));
        let slow = SocketAddr::new(SLOW_ADDRESS.into(), fast.address().port());
        if TcpListener::bind(slow).is_ok() {
            return (fast, ScriptedServer::start_at(slow, |_, wire| answer(wire, true)));
        }
    }
}

/// The difference with this attribute and point between slow and typical iterations, in a comparison.
#[track_caller]
fn difference(comparison: &Value, attribute: &str, point: Option<&str>) -> Value {
    let found = comparison["differences"]["found"].as_array().unwrap_or_else(|| panic!("{comparison:#}"));
    let is_it = |one: &&Value| one["attribute"] == attribute && one["point"].as_str() == point;
    found.iter().find(is_it).cloned().unwrap_or_else(|| panic!("no {attribute}: {comparison:#}"))
}

/// Asserts that the terminal and the files say this of a run, once each.
#[track_caller]
fn say(bench: &Bench, stdout: &str, sentence: &str) {
    let read = |name: &str| std::fs::read_to_string(bench.run_directory().join(name)).unwrap();
    for (what, text) in [("terminal", stdout.to_owned()), ("report.md", read("report.md"))] {
        let one_line = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(one_line.matches(sentence).count(), 1, "{what}: {text}");
    }
}

#[test]
fn the_slow_one_of_several_addresses_is_named() {
    let (fast, slow) = fast_and_slow();
    let (bench, port) = (Bench::new(), fast.address().port());
    let hosts = format!("dns: {{ hosts: {{ svc.example: [{FAST_ADDRESS}, {SLOW_ADDRESS}] }} }}");
    bench.load(
        &format!("http://svc.example:{port}"),
        &hosts,
        "http: { connections: iteration }
runner: { constant: { times: 240, concurrency: 12 } }
iteration: [{ action: list, get: / }]",
    );
    let ended = bench.run(&["run", "scenario.yaml"]).expect_code(0);
    assert!(fast.connections() > 80 && slow.connections() > 80, "each of them serves its share");
    let comparison = bench.results()["workloads"][0]["client_comparison"].clone();
    let found = difference(&comparison, "client.address", None);
    assert_eq!(found["value"], SLOW_ADDRESS.to_string(), "{found}");
    say(&bench, &ended.stdout, &format!("get their answers from `{SLOW_ADDRESS}` ("));
    let again = bench.run(&["report", bench.run_directory().to_str().unwrap()]).expect_code(0);
    assert_eq!(bench.results()["workloads"][0]["client_comparison"], comparison, "{}", again.stdout);
}

/// The addresses in the log of a run on a host that has these; every request of its slowest iterations has one, or none.
#[track_caller]
fn recorded(url: &str, version: &str, connections: &str, addresses: &[Ipv4Addr]) -> Vec<String> {
    let bench = Bench::new();
    bench.load(
        &url.replace("127.0.0.1", "svc.example"),
        &format!(
            "tls: {{ verify: false }}\nhttp: {{ version: {version} }}
dns: {{ hosts: {{ svc.example: {addresses:?} }} }}"
        ),
        &format!(
            "http: {{ connections: {connections} }}
runner: {{ constant: {{ times: 40, concurrency: 4 }} }}
iteration: [{{ action: list, get: / }}, {{ action: show, get: /1 }}]"
        ),
    );
    bench.run(&["run", "scenario.yaml", "--quiet", "--workers", "1"]).expect_code(0);
    let aggregate = Aggregate::read(&bench.run_directory().join("run.log")).unwrap();
    let mut found: Vec<String> = aggregate.addresses.values().map(ToString::to_string).collect();
    found.sort_unstable();
    assert_eq!(aggregate.slowest.len(), 10);
    for sample in &aggregate.slowest {
        let numbers: Vec<u16> = sample.actions.iter().map(|action| action.phases.address).collect();
        let known = numbers.iter().filter(|number| aggregate.addresses.contains_key(number)).count();
        assert_eq!(numbers.len(), 2);
        assert_eq!(known, if found.is_empty() { 0 } else { 2 }, "{version} {connections}: {sample:?}");
        assert!(!found.is_empty() || numbers == [0, 0], "{version} {connections}: {sample:?}");
    }
    found
}

#[test]
fn connections_keep_their_address_and_the_only_address_of_a_host_is_not_recorded() {
    let (fast, _slow) = fast_and_slow();
    let folder = tempfile::tempdir().unwrap();
    let tls = Some((folder.path().join("ca.pem"), &["h2"][..]));
    let http2 = H2Server::with(H2ServerOptions { tls, ..H2ServerOptions::default() }, |_| Act::Answer(3));
    // Nobody listens there.
    let closed = Ipv4Addr::new(127, 0, 0, 3);
    for connections in ["iteration", "user", "shared"] {
        let one = |version, url: &str, addresses: &[Ipv4Addr]| recorded(url, version, connections, addresses);
        let both = [FAST_ADDRESS, SLOW_ADDRESS];
        assert_eq!(one("1.1", &fast.url(), &both), ["127.0.0.1", "127.0.0.2"], "{connections}");
        assert_eq!(one("2", &http2.url(), &[FAST_ADDRESS, closed]), ["127.0.0.1"], "{connections}");
        for (version, url) in [("1.1", fast.url()), ("2", http2.url())] {
            assert!(one(version, &url, &[FAST_ADDRESS]).is_empty(), "{version} {connections}");
        }
    }
}

/// Twelve rows, of which this one is slow.
fn rows(slow: u32) -> String {
    let mut text = "id,password\n".to_owned();
    for row in 1..=12 {
        let id = if row == slow { "slow".to_owned() } else { format!("r{row}") };
        writeln!(text, "{id},Canary-In-A-Row-{row}").unwrap();
    }
    text
}

#[test]
fn a_slow_row_of_data_is_named_without_a_trace_and_without_its_file() {
    let server = ScriptedServer::start(|seen, wire| answer(wire, seen.path == "/slow"));
    let all = "runner: { constant: { times: 300, concurrency: 6 } }";
    // The user with the slow row has fewer iterations than the others.
    let by_user = "runner: { constant: { times: 300, concurrency: 3 } }";
    for (options, runner, row) in [
        ("order: sequential", all, 4),
        ("order: shuffled", all, 4),
        ("order: random, on_end: repeat", all, 4),
        ("per: user", by_user, 2),
    ] {
        let bench = Bench::new();
        bench.write("ids.csv", rows(row));
        bench.load(
            &server.url(),
            "",
            &format!(
                "data: {{ ids: {{ file: ids.csv, {options} }} }}
{runner}
iteration: [{{ action: show, get: '/{{{{ ids.id }}}}' }}, {{ think: 50ms }}]"
            ),
        );
        let ended = bench.run(&["run", "scenario.yaml", "--seed", "7"]).expect_code(0);
        let comparison = bench.results()["workloads"][0]["client_comparison"].clone();
        let found = difference(&comparison, "client.row", Some("ids"));
        assert_eq!(found["value"], row.to_string(), "{options}: {found}");
        say(&bench, &ended.stdout, &format!("use row {row} of `ids` ("));
        assert!(!bench.results().to_string().contains("Canary-In-A-Row"), "{options}");
        std::fs::remove_file(bench.path().join("ids.csv")).unwrap();
        bench.run(&["report", bench.run_directory().to_str().unwrap()]).expect_code(0);
        assert_eq!(bench.results()["workloads"][0]["client_comparison"], comparison, "{options}");
    }
}

#[test]
fn a_slow_row_of_data_is_named_beside_the_statement_that_takes_long() {
    let bench = Bench::new();
    let collector = format!("sqlite://{}", bench.path().join("traces.db").display());
    let shop = Shop::start(Plant::SlowRow, &collector);
    let profiler = format!("profiler: {{ hmac_key: {KEY}, connection_string: \"{collector}\" }}");
    let carts: Vec<String> =
        (1..=12).map(|row| if row == 4 { SLOW_ROW.to_owned() } else { row.to_string() }).collect();
    bench.load(
        &shop.url,
        &profiler,
        &format!(
            "data: {{ carts: {{ rows: {carts:?}, order: shuffled }} }}
runner: {{ constant: {{ times: 600, concurrency: 4 }} }}
iteration: [{{ action: buy, get: '/cart?row={{{{ carts }}}}' }}]"
        ),
    );
    let ended = bench.run(&["run", "scenario.yaml"]).expect_code(0);
    let comparison = bench.results()["workloads"][0]["comparison"].clone();
    assert_eq!(comparison["kinds"][0]["detail"], "SELECT price FROM item WHERE cart = ?", "{comparison:#}");
    assert_eq!(difference(&comparison, "client.row", Some("carts"))["value"], "4", "{comparison:#}");
    say(&bench, &ended.stdout, "use row 4 of `carts` (");
}
