//! The live page: what it serves while a load runs, to whom, and that the report takes its place.
#![cfg(unix)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use crate::browser::Browser;
use crate::server::ScriptedServer;
use crate::support::Bench;

const PATIENCE: Duration = Duration::from_secs(60);
const LOAD: &str = "runner: { constant: { times: 1 } }\niteration: [ { action: look, get: / } ]\nsla: { failure_rate: { max: 0 } }";

/// A load under way with a page.
struct PageLoad {
    child: Child,
    address: String,
}

impl PageLoad {
    fn start(bench: &Bench, lasts: &str) -> Self {
        Self::start_with(bench, lasts, &[])
    }

    fn start_with(bench: &Bench, lasts: &str, more: &[&str]) -> Self {
        let arguments = ["run", "scenario.yaml", "-z", lasts, "-c", "2", "--live=127.0.0.1:0"];
        let mut command = bench.command(&[&arguments[..], more].concat());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
        let line = lines.find(|line| line.starts_with("live page at ")).unwrap();
        // Whatever else it says must find a reader.
        std::thread::spawn(move || lines.for_each(drop));
        let url = line.strip_prefix("live page at http://").unwrap();
        Self { child, address: url.strip_suffix('/').unwrap().to_owned() }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// A request with these header lines: the status line, the headers and the body.
    fn ask(&self, method: &str, path: &str, headers: &str) -> (String, String) {
        let mut stream = self.connect();
        write!(stream, "{method} {path} HTTP/1.1\r\nConnection: close\r\n{headers}\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.to_owned(), body.to_owned())
    }

    /// The events from now on, as their names and data.
    fn events(&self) -> impl Iterator<Item = (String, String)> + use<> {
        let mut stream = self.connect();
        write!(stream, "GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
        let mut name = String::new();
        let lines = BufReader::new(stream).lines().map_while(Result::ok);
        lines.filter_map(move |line| {
            if let Some(event) = line.strip_prefix("event: ") {
                event.clone_into(&mut name);
            }
            line.strip_prefix("data:").map(|data| (name.clone(), data.trim().to_owned()))
        })
    }
}

/// Another shard, of which nothing is read.
struct PageLess(Child);

impl PageLess {
    fn start(bench: &Bench, more: &[&str]) -> Self {
        let arguments = ["run", "scenario.yaml", "-z", "100s", "-c", "2", "--live=127.0.0.1:0", "--quiet"];
        let mut command = bench.command(&[&arguments[..], more].concat());
        Self(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    }
}

impl Drop for PageLess {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A test that fails leaves no load behind.
impl Drop for PageLoad {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn load() -> (Bench, ScriptedServer) {
    let bench = Bench::new();
    let server = ScriptedServer::answering_after(Duration::from_millis(5));
    bench.load(&server.url(), "", LOAD);
    (bench, server)
}

/// Only this machine's own names, and no page of another origin, get anything; nobody can change anything.
#[test]
fn the_page_is_for_own_names_and_read_only() {
    let (bench, _server) = load();
    let load = PageLoad::start(&bench, "100s");
    for (method, path, headers, expected) in [
        ("GET", "/", "Host: 127.0.0.1:9100\r\n", "200"),
        ("HEAD", "/", "Host: localhost\r\n", "200"),
        ("GET", "/report", "Host: localhost\r\n", "404"),
        ("GET", "/other", "Host: localhost\r\n", "404"),
        ("POST", "/", "Host: localhost\r\n", "405"),
        ("DELETE", "/report", "Host: localhost\r\n", "405"),
        ("GET", "/", "Host: evil.example\r\n", "421"),
        ("GET", "/events", "Host: evil.example:9100\r\n", "421"),
        ("GET", "/events", "Host: localhost\r\nOrigin: https://evil.example\r\n", "403"),
        ("GET", "/events", "Host: localhost\r\nOrigin: null\r\n", "403"),
    ] {
        let (head, _) = load.ask(method, path, headers);
        assert!(head.starts_with(&format!("HTTP/1.1 {expected} ")), "{method} {path} {headers}: {head}");
        let head = head.to_ascii_lowercase();
        assert!(!head.contains("access-control-allow"), "{head}");
        assert!(head.contains("cross-origin-resource-policy: same-origin"), "{head}");
        assert!(head.contains("x-frame-options: deny") && head.contains("nosniff"), "{head}");
    }
    let (_, page) = load.ask("GET", "/", "Host: localhost\r\n");
    assert!(page.contains("connect-src 'self'") && !page.contains("http://www.w3.org/1999"), "{page}");
    // More viewers than there is room for: the newest still gets its pictures.
    let idle: Vec<_> = (0..40).map(|_| load.events()).collect();
    let mut last = load.events();
    assert!(last.any(|(name, _)| name == "snapshot"));
    drop(idle);
}

/// What is sent grows with the load and ends with the report, which is the file of the run's directory.
#[test]
fn the_page_gets_pictures_and_then_the_report() {
    let (bench, _server) = load();
    let mut load = PageLoad::start(&bench, "4s");
    let (mut pictures, mut told) = (Vec::new(), Vec::new());
    for (name, data) in load.events() {
        match name.as_str() {
            "snapshot" => pictures.push(serde_json::from_str::<Value>(&data).unwrap()),
            _ => told.push(name),
        }
        // The connection stays open, and the program waits for the report to be fetched.
        if told.last().is_some_and(|name| name == "report") {
            break;
        }
    }
    assert_eq!(told.last().map(String::as_str), Some("report"), "{told:?}");
    let ended: Vec<u64> = pictures.iter().map(|one| one["loads"][0]["ended"].as_u64().unwrap()).collect();
    assert!(ended.len() >= 2 && ended.is_sorted() && ended.last() > ended.first(), "{ended:?}");
    let last = &pictures.last().unwrap()["loads"][0];
    assert_eq!(last["criteria"][0]["condition"], "failure rate at most 0 %", "{last}");
    assert_eq!(last["steps"][0]["name"], "look", "{last}");
    assert!(last["slowest"][0]["trace_id"].as_str().is_some_and(|id| id.len() == 36), "{last}");
    let (head, report) = load.ask("GET", "/report", "Host: localhost\r\n");
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    load.child.wait().unwrap();
    let file = std::fs::read_to_string(bench.run_directory().join("report.html")).unwrap();
    assert!(report == file, "the report that was served is another");
    let iterations = bench.results()["workloads"][0]["iterations"]["ok"].as_u64().unwrap();
    assert!(iterations >= *ended.last().unwrap(), "{iterations}");
}

/// Shard 0 leads: its page has the iterations, the users and the failures of all.
#[test]
fn the_page_of_the_first_shard_shows_all_shards() {
    let bench = Bench::new();
    let server = ScriptedServer::start(|seen, wire| {
        let odd = seen.path.ends_with(['1', '3', '5', '7', '9']);
        std::thread::sleep(Duration::from_millis(20));
        wire.answer(if odd { "500 Internal Server Error" } else { "200 OK" }, "text/plain", "")
    });
    bench.load(&server.url(), "", &LOAD.replace("get: /", "get: '/{{ iteration }}'"));
    let of = |shard| ["--shard", shard, "--job", "j", "--together", "meet", "--lead", "--workers", "1"];
    // Odd iterations are those of shard 1, so no failure is shard 0's own.
    let other = PageLess::start(&bench, &of("1/2"));
    let load = PageLoad::start_with(&bench, "100s", &of("0/2"));
    let found = load.events().find_map(|(name, data)| {
        let picture: Value = serde_json::from_str(&data).ok().filter(|_| name == "snapshot")?;
        let shown = &picture["loads"][0];
        (shown["failed"].as_u64() > Some(10) && shown["ended"].as_u64() > Some(20)).then_some(picture)
    });
    let picture = found.unwrap();
    assert_eq!(picture["part"], "all 2 shards");
    let shown = &picture["loads"][0];
    assert_eq!(shown["asked"]["users"], 2, "{shown}");
    assert_eq!(shown["errors"][0]["class"], "status", "{shown}");
    assert!(shown["errors"][0]["example"].as_str().unwrap().starts_with("look: "), "{shown}");
    let (ended, failed) = (shown["ended"].as_u64().unwrap(), shown["failed"].as_u64().unwrap());
    assert!(failed < ended, "{shown}");
    assert_eq!(shown["criteria"][0]["state"], "broken", "{shown}");
    drop((load, other));
}

/// In a browser: charts and tables fill, nothing is wider than a phone, and the report comes by itself.
#[test]
fn a_browser_shows_the_load_and_then_the_report() {
    let Some(browser) = Browser::start() else {
        println!("skipped: there is no chromedriver");
        return;
    };
    let (bench, _server) = load();
    let load = PageLoad::start(&bench, "8s");
    let phone = json!({"width": 390, "height": 800, "deviceScaleFactor": 1, "mobile": true});
    browser.chromium("Emulation.setDeviceMetricsOverride", &phone);
    browser.call("POST", "/url", &json!({"url": format!("http://{}/", load.address)}));
    browser.wait("return document.querySelectorAll('.heat-cell').length > 3");
    browser.wait("return document.querySelectorAll('.strip-line').length >= 3");
    browser.wait("return document.querySelector('#summary').textContent.includes('p99')");
    let rows = browser.run("return [...document.querySelectorAll('tbody th')].map((one) => one.textContent)");
    for expected in ["iteration", "look", "failure rate at most 0 %"] {
        assert!(rows.as_array().unwrap().contains(&json!(expected)), "{rows}");
    }
    let width = browser.run("return document.documentElement.scrollWidth");
    assert!(width.as_u64().is_some_and(|width| width <= 390), "{width}");
    // The report draws itself.
    browser
        .wait("return location.pathname === '/report' && document.documentElement.dataset.drawn === 'yes'");
    let title = browser.run("return document.title");
    assert!(title.as_str().is_some_and(|title| title.ends_with(" · t")), "{title}");
    assert_eq!(browser.console(), json!([]), "{}", browser.console());
}
