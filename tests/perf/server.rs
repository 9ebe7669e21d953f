//! A small HTTP/1.1 server whose behaviour is known exactly, for the benchmark beside it.
//!
//! `perf-server clock RATE` notes when every request arrives and answers `GET /deviation` with how far
//! the arrivals are from a schedule of RATE a second; `perf-server stall EVERY_MS FOR_MS` answers at
//! once, except that it stops answering for FOR_MS every EVERY_MS; `perf-server tenth FOR_MS` answers at
//! once, except that every tenth answer takes FOR_MS. `GET /took` says how long requests took here. All print their port and
//! end when standard input does. One thread; it takes no part in any measurement of processor time.

#![expect(clippy::print_stdout, reason = "it is a program that prints")]

use std::cell::RefCell;
use std::io::Read as _;
use std::rc::Rc;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::LocalSet;

const HEAD_BYTES_MAX: usize = 16 * 1024;

#[derive(Clone, Copy)]
enum Mode {
    Clock { rate_per_s: f64 },
    Stall { every: Duration, lasts: Duration },
    Tenth { takes: Duration },
}

struct PerfServerState {
    mode: Mode,
    started: Instant,
    arrivals: RefCell<Vec<Instant>>,
    /// From a request's arrival to its answer.
    took: RefCell<Vec<Duration>>,
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let number = |at: usize| arguments.get(at).and_then(|text| text.parse::<f64>().ok());
    let mode = match (arguments.get(1).map(String::as_str), number(2), number(3)) {
        (Some("clock"), Some(rate_per_s), _) => Mode::Clock { rate_per_s },
        (Some("stall"), Some(every_ms), Some(for_ms)) => Mode::Stall {
            every: Duration::from_secs_f64(every_ms / 1e3),
            lasts: Duration::from_secs_f64(for_ms / 1e3),
        },
        (Some("tenth"), Some(for_ms), _) => Mode::Tenth { takes: Duration::from_secs_f64(for_ms / 1e3) },
        _ => panic!("usage: perf-server clock RATE | stall EVERY_MS FOR_MS | tenth FOR_MS"),
    };
    std::thread::spawn(|| {
        // The parent process holds the other end.
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        std::process::exit(0);
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let state = Rc::new(PerfServerState {
        mode,
        started: Instant::now(),
        arrivals: RefCell::default(),
        took: RefCell::default(),
    });
    LocalSet::new().block_on(&runtime, serve(state));
}

async fn serve(state: Rc<PerfServerState>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    println!("{}", listener.local_addr().expect("an address").port());
    loop {
        let Ok((socket, _)) = listener.accept().await else { continue };
        let _ = socket.set_nodelay(true);
        tokio::task::spawn_local(connection(socket, Rc::clone(&state)));
    }
}

async fn connection(mut socket: TcpStream, state: Rc<PerfServerState>) {
    let mut input = Vec::new();
    loop {
        let mut buffer = [0; 4096];
        match socket.read(&mut buffer).await {
            Ok(0) | Err(_) => return,
            Ok(length) => input.extend_from_slice(&buffer[..length]),
        }
        let arrived = Instant::now();
        // Requests have no bodies here, and come one at a time.
        if !input.ends_with(b"\r\n\r\n") {
            if input.len() > HEAD_BYTES_MAX {
                return;
            }
            continue;
        }
        let asks = input.starts_with(b"GET /deviation");
        let asks_took = input.starts_with(b"GET /took");
        input.clear();
        let body = match state.mode {
            _ if asks_took => took(&mut state.took.borrow_mut()),
            Mode::Clock { rate_per_s } if asks => deviation(&state.arrivals.borrow(), rate_per_s),
            Mode::Clock { .. } => {
                state.arrivals.borrow_mut().push(arrived);
                "ok".to_owned()
            }
            Mode::Stall { every, lasts } => {
                let into = state.started.elapsed().as_secs_f64() % every.as_secs_f64();
                // The stall is at the end of each period, so that a load may begin with calm.
                let calm = (every - lasts).as_secs_f64();
                if into >= calm {
                    tokio::time::sleep(Duration::from_secs_f64(every.as_secs_f64() - into)).await;
                }
                "ok".to_owned()
            }
            Mode::Tenth { takes } => {
                if state.took.borrow().len() % 10 == 9 {
                    // Not the answers beside it: this one has not ended yet.
                    state.took.borrow_mut().push(Duration::ZERO);
                    let number = state.took.borrow().len() - 1;
                    tokio::time::sleep(takes).await;
                    state.took.borrow_mut()[number] = arrived.elapsed();
                } else {
                    state.took.borrow_mut().push(arrived.elapsed());
                }
                "ok".to_owned()
            }
        };
        let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len());
        if socket.write_all(answer.as_bytes()).await.is_err() {
            return;
        }
    }
}

/// Mean and percentiles of how long requests took here. As JSON, in milliseconds.
fn took(took: &mut [Duration]) -> String {
    took.sort();
    let at =
        |share: f64| took.get((took.len() as f64 * share) as usize).map_or(0.0, Duration::as_secs_f64) * 1e3;
    let mean = took.iter().sum::<Duration>().as_secs_f64() * 1e3 / took.len().max(1) as f64;
    format!(r#"{{"mean": {mean:.4}, "p50": {:.4}, "p95": {:.4}, "p99": {:.4}}}"#, at(0.5), at(0.95), at(0.99))
}

/// How far arrivals are from the nearest schedule of `rate_per_s`: the k-th is due k / rate after the
/// first, moved so that the earliest tenth of a per cent is on time. As JSON, in microseconds.
fn deviation(arrivals: &[Instant], rate_per_s: f64) -> String {
    let Some(first) = arrivals.first() else { return "{}".to_owned() };
    let mut arrivals: Vec<f64> = arrivals.iter().map(|at| (*at - *first).as_secs_f64()).collect();
    arrivals.sort_by(f64::total_cmp);
    let mut late: Vec<f64> = arrivals.iter().enumerate().map(|(k, at)| at - k as f64 / rate_per_s).collect();
    late.sort_by(f64::total_cmp);
    let at = |share: f64| late[((late.len() - 1) as f64 * share) as usize];
    let on_time = at(0.001);
    let us = |share: f64| (at(share) - on_time) * 1e6;
    format!(
        r#"{{"count": {}, "p50_us": {:.1}, "p90_us": {:.1}, "p99_us": {:.1}, "p999_us": {:.1}}}"#,
        late.len(),
        us(0.5),
        us(0.9),
        us(0.99),
        us(0.999)
    )
}
