//! When bench queries a collector, and how: not during the load, and without a scan over all keys afterwards.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::json;

use crate::rewind;
use crate::server::ScriptedServer;
use crate::support::Bench;

const ITERATIONS: usize = 200;

/// A redis that has a trace under every key, and notes each command with the number of requests that the load had made
/// by then.
struct Redis {
    address: SocketAddr,
    asked: Arc<Mutex<Vec<(usize, String)>>>,
    accepting: Option<JoinHandle<()>>,
    ending: Arc<AtomicUsize>,
}

impl Redis {
    /// `requests` counts what the service was asked so far.
    fn start(requests: Arc<AtomicUsize>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (asked, ending) = (rewind::state(Vec::new()), Arc::new(AtomicUsize::new(0)));
        let (notes, end) = (Arc::clone(&asked), Arc::clone(&ending));
        let accepting = std::thread::spawn(move || {
            let mut serving = Vec::new();
            for stream in listener.incoming() {
                if end.load(Ordering::SeqCst) > 0 {
                    break;
                }
                let (notes, requests) = (Arc::clone(&notes), Arc::clone(&requests));
                serving.push(std::thread::spawn(move || serve(stream.unwrap(), &notes, &requests)));
            }
            for thread in serving {
                thread.join().unwrap();
            }
        });
        Self { address, asked, accepting: Some(accepting), ending }
    }

    /// What was asked, each with the number of requests that the service had got by then.
    fn asked(&self) -> Vec<(usize, String)> {
        self.asked.lock().unwrap().clone()
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        self.ending.store(1, Ordering::SeqCst);
        let _ = TcpStream::connect(self.address);
        if let Some(accepting) = self.accepting.take() {
            let _ = accepting.join();
        }
    }
}

/// Answers commands until the client is gone.
fn serve(stream: TcpStream, asked: &Mutex<Vec<(usize, String)>>, requests: &AtomicUsize) {
    let mut output = stream.try_clone().unwrap();
    let mut input = BufReader::new(stream);
    while let Some(words) = command(&mut input) {
        let name = words[0].to_uppercase();
        asked.lock().unwrap().push((requests.load(Ordering::SeqCst), name.clone()));
        let answer = match name.as_str() {
            "LRANGE" => records(&words[1]),
            "MEMORY" => ":1000\r\n".to_owned(),
            "PING" => "+PONG\r\n".to_owned(),
            "SCAN" => "*2\r\n$1\r\n0\r\n*0\r\n".to_owned(),
            "HELLO" => "-ERR unknown command\r\n".to_owned(),
            _ => "+OK\r\n".to_owned(),
        };
        if output.write_all(answer.as_bytes()).is_err() {
            return;
        }
    }
}

/// One command as RESP writes it: an array of texts with their lengths. `None` at the end.
fn command(input: &mut impl BufRead) -> Option<Vec<String>> {
    let mut line = String::new();
    input.read_line(&mut line).ok().filter(|read| *read > 0)?;
    let count: usize = line.strip_prefix('*')?.trim().parse().ok()?;
    (0..count)
        .map(|_| {
            let mut line = String::new();
            input.read_line(&mut line).ok()?;
            let length: usize = line.strip_prefix('$')?.trim().parse().ok()?;
            let mut text = vec![0; length + 2];
            input.read_exact(&mut text).ok()?;
            String::from_utf8(text[..length].to_vec()).ok()
        })
        .collect()
}

/// Start and stop of one point, newest first, as OSProfiler's list under this key holds them.
fn records(key: &str) -> String {
    let base_id = key.rsplit(':').next().unwrap();
    let point = "3e9fb51e-1f60-436d-902d-2e7ceea70971";
    let texts: Vec<String> =
        [("wsgi-stop", "2026-11-20T20:37:19.002"), ("wsgi-start", "2026-11-20T20:37:19.001")]
            .map(|(name, timestamp)| {
                json!({
                    "name": name, "base_id": base_id, "trace_id": point, "parent_id": base_id,
                    "timestamp": timestamp, "info": {"host": "vm"}, "project": "p", "service": "s",
                })
                .to_string()
            })
            .into();
    let parts: String = texts.iter().map(|text| format!("${}\r\n{text}\r\n", text.len())).collect();
    format!("*{}\r\n{parts}", texts.len())
}

#[test]
fn nothing_is_fetched_while_load_runs_and_a_list_is_read_at_once() {
    let requests = rewind::counter();
    let redis = Redis::start(Arc::clone(&requests));
    let server = ScriptedServer::start(move |_, wire| {
        requests.fetch_add(1, Ordering::SeqCst);
        wire.pause(Duration::from_millis(1));
        wire.answer("200 OK", "application/json", "{}")
    });
    let bench = Bench::new();
    bench.load(
        &server.url(),
        &format!("profiler: {{ hmac_key: k, connection_string: \"redis://{}\" }}", redis.address),
        &format!(
            "runner: {{ constant: {{ times: {ITERATIONS}, concurrency: 4 }} }}\niteration: [ {{ get: / }} ]\n\
             trace: {{ fetch: all, settle: 200ms }}"
        ),
    );
    bench.run(&["run", "scenario.yaml"]).expect_code(0);
    let results = bench.results();
    let complete = results["profiling"]["fetched"]["complete"].as_u64().unwrap();
    assert_eq!(complete, ITERATIONS as u64, "{}", results["profiling"]);

    let asked = redis.asked();
    // The first request is the probe's, whose trace is asked for before the load begins.
    let under_load: Vec<_> = asked.iter().filter(|(after, _)| (2..=ITERATIONS).contains(after)).collect();
    assert!(under_load.is_empty(), "{under_load:?}");
    let times = |name: &str| asked.iter().filter(|(_, asked)| asked == name).count();
    assert!(times("PING") >= 1, "it is asked before the load whether it answers");
    assert_eq!((times("SCAN"), times("KEYS")), (0, 0), "a trace that has a list is not searched for");
    assert!(times("LRANGE") >= ITERATIONS && times("LRANGE") <= 4 * ITERATIONS, "{}", times("LRANGE"));
}
