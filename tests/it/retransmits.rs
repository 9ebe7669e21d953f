//! What the kernel repeats for a load is said: in the notes, the results and the table of actions. Linux alone tells it.

#![cfg(target_os = "linux")]

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use crate::support::Bench;

/// More users than the service's queue of connections holds.
const USERS: usize = 6;

/// Takes no connection for a while, with a queue of one; then has room for all, and answers each once.
fn serve_late(socket: &socket2::Socket, listener: &TcpListener) {
    let mut first = [rustix::event::PollFd::new(listener, rustix::event::PollFlags::IN)];
    rustix::event::poll(&mut first, None).unwrap();
    std::thread::sleep(Duration::from_millis(1_500));
    socket.listen(128).unwrap();
    for connection in listener.incoming() {
        answer(connection.unwrap());
    }
}

fn answer(mut connection: TcpStream) {
    let mut head = Vec::new();
    let mut bytes = [0; 512];
    while !head.ends_with(b"\r\n\r\n") {
        match connection.read(&mut bytes) {
            Ok(read) if read > 0 => head.extend_from_slice(&bytes[..read]),
            _ => return,
        }
    }
    let _ = connection.write_all(b"HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n");
}

#[test]
fn a_full_queue_of_connections_is_named() {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into()).unwrap();
    socket.listen(0).unwrap();
    let listener = TcpListener::from(socket.try_clone().unwrap());
    let bench = Bench::new();
    // The reachability check is a connection, too, and would fill the queue.
    bench.load(
        &format!("http://{}", listener.local_addr().unwrap()),
        "",
        &format!(
            "runner: {{ constant: {{ times: {USERS}, concurrency: {USERS} }} }}\n\
             iteration: [ {{ action: a, get: /, expect: {{ status: 204 }} }} ]"
        ),
    );
    std::thread::spawn(move || {
        // That of the check.
        drop(listener.accept());
        serve_late(&socket, &listener);
    });
    let ended = bench.run(&["run", "scenario.yaml"]).expect_code(0);
    let results = bench.results();
    let network = &results["workloads"][0]["network"];
    let late = network["late_connections"].as_u64().unwrap_or(0);
    assert!((1..USERS as u64).contains(&late), "{network} {}", ended.stdout);
    assert!(network["late_connection_ms_min"].as_f64().unwrap() >= 900.0, "{network}");
    let note = format!("{late} connection{} waited ", if late == 1 { "" } else { "s" });
    let said = ended.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains(&note) && said.contains("queue of connections was full"), "{said}");
    let directory = bench.run_directory();
    assert!(std::fs::read_to_string(directory.join("report.html")).unwrap().contains(&note));
    assert_eq!(
        results["slowest"][0]["actions"][0]["syns_resent"].as_u64().map(|number| number > 0),
        Some(true)
    );
    let table =
        bench.run(&["export", directory.to_str().unwrap(), "--csv", "--actions"]).expect_code(0).stdout;
    let mut rows = table.lines().map(|row| row.split(',').collect::<Vec<_>>());
    let at = rows.next().unwrap().iter().position(|name| *name == "syns_resent").unwrap();
    assert_eq!(rows.filter(|row| row[at] != "0").count() as u64, late, "{table}");
}
