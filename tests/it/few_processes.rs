//! A server with fewer processes than the load has users, each of which keeps a connection until it is idle for long, as
//! Apache's prefork does. Connections of users that have no further iteration must make room for others.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use crate::support::Bench;

const PROCESSES: usize = 3;
/// Longer than any request here takes, also on a busy machine.
const KEPT_FOR: Duration = Duration::from_secs(12);

/// Starts the server; its threads end with the test's process.
fn prefork() -> SocketAddr {
    let listener = Arc::new(TcpListener::bind("127.0.0.1:0").unwrap());
    let address = listener.local_addr().unwrap();
    for _ in 0..PROCESSES {
        let listener = Arc::clone(&listener);
        std::thread::spawn(move || {
            while let Ok((stream, _)) = listener.accept() {
                let _ = serve(&stream);
            }
        });
    }
    address
}

/// Answers one request after another until the client is quiet for too long.
fn serve(stream: &std::net::TcpStream) -> std::io::Result<()> {
    stream.set_read_timeout(Some(KEPT_FOR))?;
    let mut lines = BufReader::new(stream).lines();
    while let Some(line) = lines.next().transpose()? {
        if line.is_empty() {
            (&*stream).write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")?;
        }
    }
    Ok(())
}

#[test]
fn users_that_are_done_make_room_for_others() {
    let iterations = |runner: &str, connections: &str| {
        format!(
            "http: {{ connections: {connections} }}\nrunner: {{ {runner} }}\niteration: [ {{ action: a, get: / }} ]\n"
        )
    };
    let closed = "constant: { times: 40, concurrency: 12 }";
    let ramp = "ramping: { stages: [ { duration: 500ms, concurrency: 12 }, { duration: 500ms, concurrency: 2 }, { duration: 1s, concurrency: 2 } ] }";
    let open = "rps: { rps: 400, times: 40, max_concurrency: 12 }";
    for (runner, connections) in
        [(closed, "user"), (closed, "iteration"), (closed, "shared"), (ramp, "user"), (open, "user")]
    {
        let bench = Bench::new();
        bench.load(&format!("http://{}", prefork()), "", &iterations(runner, connections));
        bench.run(&["run", "--workers", "1", "scenario.yaml"]).expect_code(0);
        let results = bench.results();
        let times = &results["workloads"][0]["service_time"];
        assert!(times["count"].as_u64().unwrap() >= 40, "{runner}, {connections}: {times}");
        // Nobody waited until the server gave up an idle connection.
        let max_ms = times["max_ms"].as_f64().unwrap();
        assert!(max_ms < KEPT_FOR.as_secs_f64() * 1e3 - 2_000.0, "{runner}, {connections}: {max_ms} ms");
    }
}
