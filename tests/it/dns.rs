//! DNS names: lookups, new lookups after the time to live, and the use of all addresses.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::rewind;
use crate::server::ScriptedServer;
use crate::support::Bench;

/// What is answered to a question for IPv4 addresses; there are no others.
#[derive(Clone, Debug)]
enum DnsAnswer {
    /// These addresses hold for this many seconds.
    Addresses(Vec<Ipv4Addr>, u32),
    /// A name that is another name, and its address, each with its time.
    Alias(u32, Ipv4Addr, u32),
    /// An error of this number.
    Code(u8),
    /// Over UDP only that it does not fit; over TCP this.
    Truncated(Vec<Ipv4Addr>),
    /// An answer to another question, then the right one.
    StrangerFirst(Ipv4Addr),
    /// Bytes that are not an answer, then the right one.
    GarbageFirst(Ipv4Addr),
    Silence,
    /// This address for a question for IPv4, and silence for IPv6.
    SilentOnIpv6(Ipv4Addr),
}

/// A DNS server at 127.0.0.1, over UDP and TCP on the same port.
struct Dns {
    address: SocketAddr,
    queries: Arc<AtomicUsize>,
    stopping: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Dns {
    fn start(script: impl Fn() -> DnsAnswer + Send + Sync + 'static) -> Self {
        // A port that is free for both.
        let (udp, tcp) = loop {
            let udp = UdpSocket::bind(("127.0.0.1", 0)).unwrap();
            if let Ok(tcp) = TcpListener::bind(udp.local_addr().unwrap()) {
                break (udp, tcp);
            }
        };
        let address = udp.local_addr().unwrap();
        let (queries, stopping) = (rewind::counter(), Arc::new(AtomicBool::new(false)));
        let script = Arc::new(script);
        udp.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        let (count, ended, over_udp) = (Arc::clone(&queries), Arc::clone(&stopping), Arc::clone(&script));
        let datagrams = std::thread::spawn(move || {
            let mut buffer = [0; 1500];
            while !ended.load(Ordering::SeqCst) {
                let Ok((length, client)) = udp.recv_from(&mut buffer) else { continue };
                count.fetch_add(1, Ordering::SeqCst);
                for packet in packets(&buffer[..length], &over_udp(), false) {
                    udp.send_to(&packet, client).unwrap();
                }
            }
        });
        let ended = Arc::clone(&stopping);
        let streams = std::thread::spawn(move || {
            for stream in tcp.incoming() {
                if ended.load(Ordering::SeqCst) {
                    return;
                }
                let mut stream = stream.unwrap();
                let mut length = [0; 2];
                stream.read_exact(&mut length).unwrap();
                let mut query = vec![0; usize::from(u16::from_be_bytes(length))];
                stream.read_exact(&mut query).unwrap();
                for packet in packets(&query, &script(), true) {
                    let length = u16::try_from(packet.len()).unwrap().to_be_bytes();
                    stream.write_all(&[&length, packet.as_slice()].concat()).unwrap();
                }
            }
        });
        Self { address, queries, stopping, threads: vec![datagrams, streams] }
    }

    fn queries(&self) -> usize {
        self.queries.load(Ordering::SeqCst)
    }
}

impl Drop for Dns {
    fn drop(&mut self) {
        self.stopping.store(true, Ordering::SeqCst);
        drop(std::net::TcpStream::connect(self.address));
        for thread in self.threads.drain(..) {
            assert!(thread.join().is_ok() || std::thread::panicking());
        }
    }
}

/// The answers to a query.
fn packets(query: &[u8], answer: &DnsAnswer, over_tcp: bool) -> Vec<Vec<u8>> {
    let name_end = 12 + query[12..].iter().position(|byte| *byte == 0).unwrap() + 1;
    let is_a = query[name_end..name_end + 2] == [0, 1];
    let question = &query[12..name_end + 4];
    let packet = |flags: [u8; 2], records: Vec<Vec<u8>>| {
        let count = u16::try_from(records.len()).unwrap().to_be_bytes();
        let head = [&query[..2], &flags, &[0, 1], &count, &[0, 0, 0, 0]].concat();
        [head, question.to_vec(), records.concat()].concat()
    };
    let record = |address: &Ipv4Addr, ttl: u32| {
        [&[0xc0, 12, 0, 1, 0, 1][..], &ttl.to_be_bytes(), &[0, 4], &address.octets()].concat()
    };
    let fine = [0x81, 0x80];
    let addresses = |addresses: &[Ipv4Addr], ttl| {
        let records = addresses.iter().filter(|_| is_a).map(|address| record(address, ttl)).collect();
        packet(fine, records)
    };
    match answer {
        DnsAnswer::Addresses(list, ttl) => vec![addresses(list, *ttl)],
        DnsAnswer::Alias(ttl, address, address_ttl) => {
            // The alias points to the name `x`, whose bytes stand in the record itself.
            let alias = [&[0xc0, 12, 0, 5, 0, 1][..], &ttl.to_be_bytes(), &[0, 3, 1, b'x', 0]].concat();
            let mut records = vec![alias];
            records.extend(is_a.then(|| record(address, *address_ttl)));
            vec![packet(fine, records)]
        }
        DnsAnswer::Code(code) => vec![packet([0x81, 0x80 | code], Vec::new())],
        DnsAnswer::Truncated(list) if over_tcp => vec![addresses(list, 60)],
        DnsAnswer::Truncated(_) => vec![packet([0x83, 0x80], Vec::new())],
        DnsAnswer::StrangerFirst(address) => {
            let mut stranger = addresses(&[Ipv4Addr::new(127, 6, 6, 6)], 60);
            stranger[0] ^= 1;
            vec![stranger, addresses(&[*address], 60)]
        }
        DnsAnswer::GarbageFirst(address) => vec![vec![0xff; 40], vec![1], addresses(&[*address], 60)],
        DnsAnswer::SilentOnIpv6(address) if is_a => vec![addresses(&[*address], 60)],
        DnsAnswer::Silence | DnsAnswer::SilentOnIpv6(_) => Vec::new(),
    }
}

const ONE: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 1);
const TWO: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
const THREE: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 3);
/// An address at which no server listens.
const NOBODY: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 4);

/// What DNS says changes with the load, not with the test's clock: a busy machine may begin the load late, or make
/// it again.
struct DnsLoadQuestions {
    /// When a server answered first.
    answered: Mutex<Option<Instant>>,
    /// The questions since a second after it.
    questions: Arc<AtomicUsize>,
}

impl DnsLoadQuestions {
    fn new() -> Arc<Self> {
        let load = Arc::new(Self { answered: Mutex::default(), questions: rewind::counter() });
        let own = Arc::clone(&load);
        rewind::before_loads(move || {
            let own = Arc::clone(&own);
            move || *own.answered.lock().unwrap() = None
        });
        load
    }

    /// How many questions came a second or more after the first answer, this one among them.
    fn question(&self) -> usize {
        let answered = self.answered.lock().unwrap();
        match *answered {
            Some(first) if first.elapsed() >= Duration::from_secs(1) => {
                self.questions.fetch_add(1, Ordering::SeqCst) + 1
            }
            _ => 0,
        }
    }
}

/// Two servers, at the same port of two addresses.
fn two_servers() -> (ScriptedServer, ScriptedServer) {
    two_servers_and(&DnsLoadQuestions::new())
}

fn two_servers_and(load: &Arc<DnsLoadQuestions>) -> (ScriptedServer, ScriptedServer) {
    loop {
        let load = Arc::clone(load);
        let one = ScriptedServer::start(move |_, wire| {
            load.answered.lock().unwrap().get_or_insert_with(Instant::now);
            wire.answer("200 OK", "text/plain", "one")
        });
        let two = SocketAddr::new(TWO.into(), one.address().port());
        if TcpListener::bind(two).is_ok() {
            return (
                one,
                ScriptedServer::start_at(two, |_, wire| wire.answer("200 OK", "text/plain", "two")),
            );
        }
    }
}

/// A load on `svc.example` with this DNS and scenario, each iteration on its own connection.
fn load(servers: &[SocketAddr], port: u16, scenario: &str) -> (Bench, Vec<String>) {
    let bench = Bench::new();
    let servers: Vec<String> = servers.iter().map(|server| format!("\"{server}\"")).collect();
    bench.load(
        &format!("http://svc.example:{port}"),
        &format!("dns: {{ servers: [{}] }}", servers.join(", ")),
        &format!("http: {{ connections: iteration }}\n{scenario}"),
    );
    (bench, servers)
}

fn run(servers: &[SocketAddr], port: u16, scenario: &str) -> Value {
    let (bench, _) = load(servers, port, scenario);
    bench.run(&["run", "scenario.yaml"]).expect_code(0);
    bench.results()["workloads"][0].clone()
}

const FEW: &str =
    "runner: { constant: { times: 40, concurrency: 4 } }\niteration: [ { action: a, get: /x } ]";

#[test]
fn connections_go_round_all_addresses_and_ask_once() {
    let (one, two) = two_servers();
    let dns = Dns::start(|| DnsAnswer::Addresses(vec![ONE, TWO], 60));
    let workload = run(&[dns.address], one.address().port(), FEW);
    assert_eq!(workload["iterations"]["ok"], 40, "{}", workload["errors"]);
    assert_eq!(workload["actions"][0]["connections_opened"], 40);
    assert!(workload["actions"][0]["phases"]["resolve_ms"].as_f64().unwrap() > 0.0);
    assert_eq!(one.connections() + two.connections(), 40);
    assert!((10..=30).contains(&one.connections()), "{} and {}", one.connections(), two.connections());
    // Once for each worker and once before the load, two kinds of addresses each time.
    let workers = std::thread::available_parallelism().unwrap().get();
    assert!(dns.queries() <= 2 * (workers + 1), "{} queries", dns.queries());
}

#[test]
fn an_address_that_changes_is_found_when_its_time_is_over() {
    let during = DnsLoadQuestions::new();
    let (one, two) = two_servers_and(&during);
    let asked = Arc::clone(&during);
    let dns = Dns::start(move || DnsAnswer::Addresses(vec![if asked.question() > 0 { TWO } else { ONE }], 1));
    let scenario = "runner: { constant_for_duration: { duration: 5, concurrency: 2 } }\niteration: [ { think: 50ms }, { action: a, get: /x } ]";
    let workload = run(&[dns.address], one.address().port(), scenario);
    assert_eq!(workload["iterations"]["failed"], 0, "{}", workload["errors"]);
    assert!(one.connections() > 0 && two.connections() > 0, "{} {}", one.connections(), two.connections());
    let workers = std::thread::available_parallelism().unwrap().get();
    assert!(dns.queries() <= 2 * 7 * (workers + 1), "{} queries", dns.queries());
}

#[test]
fn a_name_that_is_lost_for_a_while_is_an_error_and_comes_back() {
    let during = DnsLoadQuestions::new();
    let (one, _two) = two_servers_and(&during);
    // Twelve questions are six lookups of about a second each. On a busy machine bench may give up
    // waiting and ask again, so the first answers may reach nobody.
    let dns = Dns::start(move || match during.question() {
        1..=12 => DnsAnswer::Code(3),
        _ => DnsAnswer::Addresses(vec![ONE], 1),
    });
    let scenario = "runner: { constant_for_duration: { duration: 12, concurrency: 2 } }\niteration: [ { think: 50ms }, { action: a, get: /x } ]";
    let (bench, _) = load(&[dns.address], one.address().port(), scenario);
    bench.run(&["run", "scenario.yaml"]).expect_code(0);
    let results = bench.results();
    let workload = &results["workloads"][0];
    let errors = workload["errors"].as_array().unwrap();
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert_eq!(errors[0]["class"], "resolve");
    let message = errors[0]["message"].as_str().unwrap();
    assert!(message.contains("cannot resolve svc.example: there is no such name"), "{message}");
    let rows = results["iterations"].as_array().unwrap();
    let failed = |row: &&Value| row["outcome"] == "failed";
    let last_failure = rows.iter().rposition(|row| failed(&row)).unwrap();
    assert!(rows[last_failure + 1..].len() > 1, "the load goes on when the name is back");
}

#[test]
fn what_dns_servers_may_answer() {
    let (one, _two) = two_servers();
    let silent = Dns::start(|| DnsAnswer::Silence);
    let broken = Dns::start(|| DnsAnswer::Code(2));
    for answer in [
        DnsAnswer::Addresses(vec![ONE], 0),
        DnsAnswer::Alias(5, ONE, 300),
        DnsAnswer::Truncated(vec![ONE]),
        DnsAnswer::StrangerFirst(ONE),
        DnsAnswer::GarbageFirst(ONE),
        DnsAnswer::SilentOnIpv6(ONE),
        // Nobody listens at the second address: the next one is tried.
        DnsAnswer::Addresses(vec![Ipv4Addr::new(127, 0, 0, 3), ONE], 60),
    ] {
        let shown = format!("{answer:?}");
        let dns = Dns::start(move || answer.clone());
        // A server that is broken, and one that is silent, are passed over.
        let workload = run(&[broken.address, dns.address], one.address().port(), FEW);
        assert_eq!(workload["iterations"]["ok"], 40, "{shown}: {}", workload["errors"]);
    }
    let dns = Dns::start(|| DnsAnswer::Addresses(vec![ONE], 60));
    let few = FEW.replace("40", "2");
    assert_eq!(run(&[silent.address, dns.address], one.address().port(), &few)["iterations"]["ok"], 2);
}

/// A listener whose queue is full drops what else would connect.
#[cfg(target_os = "linux")]
#[test]
fn an_address_that_is_silent_holds_no_connection_up_for_long() {
    let (one, port) = loop {
        let one = ScriptedServer::start(|_, wire| wire.answer("200 OK", "text/plain", "one"));
        let port = one.address().port();
        if TcpListener::bind((THREE, port)).is_ok() {
            break (one, port);
        }
    };
    let silent = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    silent.bind(&SocketAddr::from((THREE, port)).into()).unwrap();
    silent.listen(0).unwrap();
    let filled: Vec<_> = (0..3)
        .map(|_| {
            let client = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
            client.set_nonblocking(true).unwrap();
            let _ = client.connect(&SocketAddr::from((THREE, port)).into());
            client
        })
        .collect();
    for addresses in [vec![THREE, ONE], vec![ONE, THREE], vec![NOBODY, THREE, ONE]] {
        let dns = Dns::start(move || DnsAnswer::Addresses(addresses.clone(), 60));
        let workload = run(&[dns.address], port, &FEW.replace("40", "6"));
        assert_eq!(workload["iterations"]["ok"], 6, "{}", workload["errors"]);
    }
    drop(filled);
    assert_eq!(one.connections(), 18);
}

#[test]
fn localhost_is_both_loopback_addresses() {
    let Ok(listener) = TcpListener::bind("[::1]:0") else {
        println!("skipped: this machine has no IPv6");
        return;
    };
    let address = listener.local_addr().unwrap();
    drop(listener);
    let six = ScriptedServer::start_at(address, |_, wire| wire.answer("200 OK", "text/plain", "six"));
    let four = ScriptedServer::start(|_, wire| wire.answer("200 OK", "text/plain", "four"));
    for server in [&six, &four] {
        let url = format!("http://localhost:{}", server.address().port());
        let bench = Bench::new();
        bench.load(&url, "", FEW);
        bench.run(&["run", "scenario.yaml"]).expect_code(0);
        let workload = bench.results()["workloads"][0].clone();
        assert_eq!((&workload["iterations"]["ok"], server.connections() > 0), (&40.into(), true), "{url}");
    }
}

#[test]
fn names_without_an_address_end_the_run_before_the_load() {
    for (answer, part) in [
        (DnsAnswer::Code(3), "there is no such name according to the DNS server 127.0.0.1"),
        (DnsAnswer::Code(2), "answered ServerFailure"),
        (DnsAnswer::Code(5), "answered Refused"),
        (DnsAnswer::Addresses(Vec::new(), 60), "svc.example has no address"),
        (DnsAnswer::Silence, "did not answer within 2 s"),
    ] {
        let shown = format!("{answer:?}");
        let dns = Dns::start(move || answer.clone());
        let (bench, _) = load(&[dns.address], 80, FEW);
        let ended = bench.run(&["run", "scenario.yaml"]).expect_code(69);
        assert!(ended.stderr.contains("cannot resolve svc.example"), "{shown}: {}", ended.stderr);
        assert!(ended.stderr.contains(part), "{shown}: {}", ended.stderr);
    }
}

#[test]
fn a_dns_server_that_is_no_address_is_a_fault_of_the_file() {
    let bench = Bench::new();
    bench.load("http://h", "dns: { servers: [ns.example] }", FEW);
    let ended = bench.run(&["validate", "deployment.yaml"]).expect_code(65);
    assert!(ended.stderr.contains("`ns.example` is not a DNS server's address"), "{}", ended.stderr);
    bench.load("http://h", "http: { version: 3 }", FEW);
    let ended = bench.run(&["validate", "deployment.yaml"]).expect_code(65);
    assert!(ended.stderr.contains("`3` is not an HTTP version that bench supports"), "{}", ended.stderr);
}

#[test]
fn a_host_that_a_redirect_names_is_not_resolved_unless_it_is_allowed_and_not_reached_by_any_address() {
    let server = ScriptedServer::start(|_, wire| {
        wire.send("HTTP/1.1 302 Go\r\nLocation: http://elsewhere.test/\r\nContent-Length: 0\r\n\r\n");
        crate::server::After::Keep
    });
    for (allowed, address, queries, part) in [
        ("", [169, 254, 169, 254], 0, "add `elsewhere.test` to `targets_allowed`"),
        ("elsewhere.test", [169, 254, 169, 254], 1, "has the address 169.254.169.254"),
        ("'*.below.test', elsewhere.test", [127, 0, 0, 1], 1, "has the address 127.0.0.1"),
    ] {
        let dns = Dns::start(move || DnsAnswer::Addresses(vec![Ipv4Addr::from(address)], 60));
        let bench = Bench::new();
        let deployment = format!("targets_allowed: [{allowed}]\ndns: {{ servers: ['{}'] }}", dns.address);
        let scenario =
            "http: { redirects: 1 }\nrunner: { serial: { times: 1 } }\niteration: [ { action: a, get: / } ]";
        bench.load(&server.url(), &deployment, scenario);
        bench.run(&["run", "scenario.yaml"]).expect_code(0);
        let error = bench.results()["workloads"][0]["errors"][0].clone();
        assert_eq!(error["class"], "target", "{allowed}: {error}");
        assert!(error["message"].as_str().unwrap().contains(part), "{allowed}: {error}");
        assert_eq!(dns.queries() > 0, queries > 0, "{allowed}");
    }
}
