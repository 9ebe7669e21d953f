//! Pages in a real Chromium, through WebDriver; this file tests that the page of a trace draws and responds.

use std::io::{BufRead as _, BufReader, Read, Write as _};
use std::net::TcpStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use crate::support::Bench;

/// How often a chromedriver is started that finds no port.
const STARTS_MAX: usize = 20;

/// A chromedriver and its port; `None` where there is none.
///
/// It takes a free port of IPv6 and ends if the same port of IPv4 is taken, which happens on a busy machine.
fn driver() -> Option<(Child, u16)> {
    for _ in 0..STARTS_MAX {
        let started =
            Command::new("chromedriver").arg("--port=0").stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
        let Ok(mut driver) = started else {
            println!("skipped: no chromedriver; install chromium and chromium-driver");
            return None;
        };
        match port(driver.stdout.take().unwrap()) {
            Ok(port) => return Some((driver, port)),
            Err(lines) if lines.contains("port not available") => {
                driver.wait().unwrap();
            }
            Err(lines) => panic!("chromedriver names no port: {lines}"),
        }
    }
    panic!("chromedriver found no free port in {STARTS_MAX} starts");
}

/// The port that a chromedriver names, or all that it says until it ends.
fn port(output: impl Read) -> Result<u16, String> {
    let mut said = String::new();
    for line in BufReader::new(output).lines().map_while(Result::ok) {
        let port = line.strip_prefix("ChromeDriver was started successfully on port ");
        if let Some(port) = port.and_then(|port| port.trim_end_matches('.').parse().ok()) {
            return Ok(port);
        }
        said.push_str(&line);
        said.push('\n');
    }
    Err(said)
}

#[test]
fn a_chromedriver_names_its_port_or_says_why_not() {
    let said = "Starting ChromeDriver 1\nOnly local connections are allowed.\n";
    let good = format!("{said}ChromeDriver was started successfully on port 41234.\n");
    assert_eq!(port(good.as_bytes()), Ok(41234));
    let taken = format!("{said}IPv4 port not available. Exiting...\n");
    assert_eq!(port(taken.as_bytes()), Err(taken));
}

/// A browser window.
pub(crate) struct Browser {
    driver: Child,
    port: u16,
    session: String,
    _profile: tempfile::TempDir,
}

impl Browser {
    /// `None` where there is no chromedriver.
    pub(crate) fn start() -> Option<Self> {
        let (driver, port) = driver()?;
        let profile = tempfile::tempdir().unwrap();
        let mut browser = Self { driver, port, session: String::new(), _profile: profile };
        let arguments = [
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--window-size=1280,900",
        ];
        let mut arguments: Vec<String> = arguments.map(str::to_owned).to_vec();
        arguments.push(format!("--user-data-dir={}", browser._profile.path().display()));
        let capabilities = json!({"capabilities": {"alwaysMatch": {
            "goog:chromeOptions": {"args": arguments}, "goog:loggingPrefs": {"browser": "ALL"}}}});
        let session = browser.call("POST", "/session", &capabilities);
        browser.session = format!("/session/{}", session["sessionId"].as_str().unwrap());
        Some(browser)
    }

    /// One exchange with the driver.
    #[track_caller]
    pub(crate) fn call(&self, method: &str, path: &str, body: &Value) -> Value {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.set_read_timeout(Some(std::time::Duration::from_secs(60))).unwrap();
        let body = if method == "POST" { body.to_string() } else { String::new() };
        let path = format!("{}{path}", self.session);
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
            body.len()
        );
        stream.write_all(format!("{head}{body}").as_bytes()).unwrap();
        let mut answer = BufReader::new(stream);
        let mut length = 0;
        loop {
            let mut line = String::new();
            answer.read_line(&mut line).unwrap();
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
            if line.trim().is_empty() {
                break;
            }
        }
        let mut text = vec![0; length];
        answer.read_exact(&mut text).unwrap();
        let value = serde_json::from_slice::<Value>(&text).unwrap()["value"].take();
        assert!(value.get("error").is_none(), "{method} {path}: {value}");
        value
    }

    /// Opens a file; without a script it is then as it stays.
    pub(crate) fn load(&self, path: &Path) {
        self.call("POST", "/url", &json!({"url": format!("file://{}", path.display())}));
    }

    /// Opens a file and waits until its script has drawn.
    #[track_caller]
    pub(crate) fn open(&self, path: &Path) {
        self.load(path);
        for _ in 0..1200 {
            if self.run("return document.documentElement.dataset.drawn === 'yes'") == json!(true) {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        panic!("not drawn; the console says {}", self.console());
    }

    #[track_caller]
    pub(crate) fn run(&self, script: &str) -> Value {
        self.call("POST", "/execute/sync", &json!({"script": script, "args": []}))
    }

    /// Runs a script until it gives something that is neither `null` nor `false`; a minute at least.
    #[track_caller]
    pub(crate) fn wait(&self, script: &str) -> Value {
        for _ in 0..2400 {
            let value = self.run(script);
            if !value.is_null() && value != json!(false) {
                return value;
            }
            std::thread::sleep(std::time::Duration::from_millis(25));
        }
        panic!("{script} never came true; the console says {}", self.console());
    }

    /// Presses keys, one after the other.
    #[track_caller]
    pub(crate) fn press(&self, keys: &[&str]) {
        let actions: Vec<Value> = keys
            .iter()
            .flat_map(|key| {
                [json!({"type": "keyDown", "value": key}), json!({"type": "keyUp", "value": key})]
            })
            .collect();
        self.call(
            "POST",
            "/actions",
            &json!({"actions": [{"type": "key", "id": "keys", "actions": actions}]}),
        );
    }

    /// Moves the pointer to a place of the window, and clicks there if wanted.
    #[track_caller]
    pub(crate) fn point(&self, x: f64, y: f64, click: bool) {
        let place = |value: f64| value.round() as i64;
        let mut actions = vec![json!({"type": "pointerMove", "duration": 0, "x": place(x), "y": place(y)})];
        if click {
            actions.push(json!({"type": "pointerDown", "button": 0}));
            actions.push(json!({"type": "pointerUp", "button": 0}));
        }
        let pointer = json!({"type": "pointer", "id": "mouse", "parameters": {"pointerType": "mouse"}, "actions": actions});
        self.call("POST", "/actions", &json!({"actions": [pointer]}));
    }

    /// A command of Chromium's own protocol.
    #[track_caller]
    pub(crate) fn chromium(&self, command: &str, parameters: &Value) -> Value {
        self.call("POST", "/goog/cdp/execute", &json!({"cmd": command, "params": parameters}))
    }

    /// What the console has said since the last call.
    pub(crate) fn console(&self) -> Value {
        self.call("POST", "/se/log", &json!({"type": "browser"}))
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // Of a test that failed too: what its browser started would stay.
        if !self.session.is_empty() {
            let _ = catch_unwind(AssertUnwindSafe(|| self.call("DELETE", "", &Value::Null)));
        }
        // Its browsers end with it.
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}

fn record(name: &str, id: &str, parent: &str, base: &str, us: u32, info: &Value, place: &str) -> Value {
    json!({
        "name": name, "base_id": base, "trace_id": id, "parent_id": parent,
        "timestamp": format!("2026-11-20T22:52:{:02}.{:06}", us / 1_000_000, us % 1_000_000),
        "info": info, "project": place, "service": place,
    })
}

#[test]
fn the_page_of_a_trace_draws_searches_and_shows_details() {
    let Some(browser) = Browser::start() else { return };
    let bench = Bench::new();
    let file =
        concat!(env!("CARGO_MANIFEST_DIR"), "/tests/vectors/traces/post-project-409-dberror.redis-raw.json");
    bench.run(&["trace", "show", file, "--html", "-o", "t.html"]).expect_code(0);
    browser.open(&bench.path().join("t.html"));
    // Alike points fold, and the search shows them all.
    let rows = browser.run("return document.querySelectorAll('.wf li').length").as_u64().unwrap();
    assert!((10..75).contains(&rows), "{rows}");
    let search = |text: &str| {
        browser.run(&format!(
            "const field = document.querySelector('#search'); field.value = {}; \
             field.dispatchEvent(new Event('input')); \
             return [document.querySelector('#matches').textContent, document.querySelectorAll('.wf li:not(.miss)').length - 1]",
            json!(text)
        ))
    };
    assert_eq!(search("insert into PROJECT"), json!(["1 found", 1]));
    assert_eq!(search("no such thing"), json!(["none", 0]));
    assert_eq!(browser.run("return document.querySelectorAll('.wf li').length"), 75);
    browser.run("document.querySelector('#errors').click()");
    assert_eq!(search(""), json!(["1 found", 1]));
    assert_eq!(browser.run("return document.querySelectorAll('li.broken').length"), 1);
    let more = browser.run(
        "document.querySelector('li.broken .open').click(); return document.querySelector('li.broken .more').textContent",
    );
    assert!(more.as_str().unwrap().contains("IntegrityError"), "{more}");
    let hidden = browser.run(
        "document.querySelector('#fold').click(); return [...document.querySelectorAll('.wf li')].filter((li) => li.hidden).length",
    );
    assert_eq!(hidden, 73);
    assert_eq!(browser.console(), json!([]));
}

#[test]
fn the_page_of_a_huge_trace_opens() {
    let Some(browser) = Browser::start() else { return };
    let bench = Bench::new();
    let mut records = vec![record("wsgi-start", "r", "b", "b", 0, &json!({}), "s")];
    for n in 1..=20_000_u32 {
        let id = n.to_string();
        records.push(record(
            "db-start",
            &id,
            "r",
            "b",
            2 * n,
            &json!({"db": {"statement": "SELECT 1"}}),
            "s",
        ));
        records.push(record("db-stop", &id, "r", "b", 2 * n + 1, &json!({}), "s"));
    }
    records.push(record("wsgi-stop", "r", "b", "b", 50_000, &json!({}), "s"));
    bench.write("a.json", Value::Array(records).to_string());
    bench.run(&["trace", "show", "a.json", "--html", "-o", "a.html"]).expect_code(0);
    browser.open(&bench.path().join("a.html"));
    // The 20,000 statements are one row, which unfolds.
    let rows = "return document.querySelectorAll('.wf li').length";
    assert!(browser.run(rows).as_u64().unwrap() < 10, "{}", browser.run(rows));
    let told = browser.run("return document.querySelector('.unfold').textContent");
    assert_eq!(told, "20,000×");
    browser.run("document.querySelector('.unfold').click()");
    assert!(browser.run(rows).as_u64().unwrap() > 100);
    browser.run("document.querySelector('.to-all').click()");
    assert_eq!(browser.run(rows), 10_001);
    assert_eq!(browser.console(), json!([]));
}

/// A browser that lays out a mebibyte in a table takes long: pages show its beginning, and hand out the rest.
#[test]
fn the_page_of_a_trace_with_huge_texts_shows_their_beginnings() {
    const LONG: usize = 1 << 18;
    let Some(browser) = Browser::start() else { return };
    let bench = Bench::new();
    let text = "a \u{202e}<b>".repeat(LONG / 6);
    let info = json!({"db": {"statement": text}});
    let records = [
        record(&format!("{text}-start"), "r", "b", "b", 0, &json!({}), &text),
        record("db-start", "1", "r", "b", 1, &info, "s"),
        record("db-stop", "1", "r", "b", 2, &json!({"etype": "E", "message": text}), "s"),
        record(&format!("{text}-stop"), "r", "b", "b", 9, &json!({}), &text),
    ];
    bench.write("a.json", json!(records).to_string());
    bench.run(&["trace", "show", "a.json", "--html", "-o", "a.html"]).expect_code(0);
    browser.open(&bench.path().join("a.html"));
    browser.run("document.querySelectorAll('.open').forEach((button) => button.click())");
    let shown = browser.run("return document.querySelector('main, body').innerText.length");
    assert!(shown.as_u64().unwrap() < 60_000, "{shown}");
    let whole = browser.run(
        "return [...document.querySelectorAll('.more button')].filter((button) => button.textContent.startsWith('Copy all')).length",
    );
    assert!(whole.as_u64().unwrap() >= 2, "the rest can be had: {whole}");
    assert_eq!(browser.console(), json!([]));
}

/// A chain of calls nests in its data, never in the page.
#[test]
fn the_page_of_a_deep_trace_is_flat() {
    let Some(browser) = Browser::start() else { return };
    let bench = Bench::new();
    let mut records = Vec::new();
    for n in 0..9_000_u32 {
        let (id, parent) = (n.to_string(), if n == 0 { "b".to_owned() } else { (n - 1).to_string() });
        records.push(record("rpc-start", &id, &parent, "b", n, &json!({}), "s"));
        records.push(record("rpc-stop", &id, &parent, "b", 1_000_000 - n, &json!({}), "s"));
    }
    bench.write("a.json", json!(records).to_string());
    bench.run(&["trace", "show", "a.json", "--html", "-o", "a.html"]).expect_code(0);
    browser.open(&bench.path().join("a.html"));
    // They are one row with the words of the terminal, and as long as the outermost.
    let row = "return ['.unfold', '.open b', '.time'].map((part) => document.querySelector('.wf li:nth-child(2) ' + part).textContent)";
    assert_eq!(browser.run(row), json!(["9,000 deep", "rpc nested", "1.00\u{a0}s"]));
    browser.run("document.querySelector('.unfold').click()");
    let inside = browser.run("return document.querySelectorAll('.wf li.inside').length").as_u64().unwrap();
    assert!((100..=300).contains(&inside), "{inside}");
    browser.run("document.querySelector('.to-all')?.click()");
    let nested = browser.run(
        "const items = [...document.querySelectorAll('.wf li')]; return [items.length, items.filter((item) => item.querySelector('li')).length]",
    );
    assert_eq!(nested, json!([9_001, 0]));
    assert_eq!(browser.console(), json!([]));
}
