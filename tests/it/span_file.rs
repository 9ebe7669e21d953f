//! A receiver without a run, `bench receive`: a file with all spans.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use bench::harness::receive::{ReceiveOptions, ReceivedFile, receive};
use bench::harness::{Event, HarnessError, Interrupt, Sink};
use serde_json::json;

use crate::receiving::export;
use crate::support::Bench;

fn options(output: &Path) -> ReceiveOptions {
    ReceiveOptions {
        addresses: vec![SocketAddr::from(([127, 0, 0, 1], 0)), SocketAddr::from(([127, 0, 0, 1], 0))],
        output: output.to_path_buf(),
        bytes_max: 1 << 30,
        forward: None,
        time: None,
    }
}

/// Receives while `send` sends.
fn received(
    options: ReceiveOptions,
    send: impl FnOnce(&[SocketAddr]),
) -> (Result<ReceivedFile, HarnessError>, Vec<String>) {
    let (tell, addresses) = mpsc::channel();
    let (interrupt, said) = (Interrupt::new(), Arc::new(Mutex::new(Vec::new())));
    let heard = Arc::clone(&said);
    let events: Sink = Arc::new(move |event: &Event<'_>| match event {
        Event::Receiving(addresses) => tell.send(addresses.to_vec()).unwrap(),
        Event::FirstSpans => heard.lock().unwrap().push("first".to_owned()),
        _ => {}
    });
    let until = interrupt.clone();
    let thread = std::thread::spawn(move || receive(&options, &until, &events));
    // It is dropped without an address if it cannot start.
    if let Ok(addresses) = addresses.recv() {
        send(&addresses);
    }
    interrupt.interrupt();
    let ended = thread.join().unwrap();
    let said = said.lock().unwrap().clone();
    (ended, said)
}

fn span(trace: u32, which: u32, parent: &str) -> serde_json::Value {
    json!({
        "traceId": format!("{trace:032x}"), "spanId": format!("{which:016x}"), "parentSpanId": parent,
        "name": format!("step {which}"), "kind": 1,
        "startTimeUnixNano": format!("{}", 1_795_387_892_000_000_000_u64 + u64::from(which) * 1_000_000),
        "endTimeUnixNano": format!("{}", 1_795_387_892_900_000_000_u64 - u64::from(which) * 1_000_000),
    })
}

#[test]
fn every_span_is_in_the_file_and_trace_reads_it() {
    let bench = Bench::new();
    let file = bench.path().join("spans.jsonl");
    let (ended, said) = received(options(&file), |addresses| {
        for trace in 1..=3 {
            // Children come before their parents, by the other address.
            let parent = format!("{:016x}", 1);
            assert_eq!(export(addresses[1], &[span(trace, 2, &parent)]), "HTTP/1.1 200 OK");
            assert_eq!(export(addresses[0], &[span(trace, 1, "")]), "HTTP/1.1 200 OK");
        }
        assert_eq!(
            export(addresses[0], &[json!({"traceId": "0", "spanId": "0"})]),
            "HTTP/1.1 400 Bad Request"
        );
        std::thread::sleep(Duration::from_millis(300));
    });
    let ReceivedFile { counts, written } = ended.unwrap();
    assert_eq!((written.spans, written.traces, written.dropped_spans), (6, 3, 0), "{written:?}");
    assert_eq!((counts.spans, counts.refused.malformed), (6, 1), "{counts:?}");
    assert_eq!(written.bytes, std::fs::metadata(&file).unwrap().len());
    assert_eq!(said, ["first"]);
    let list = bench.run(&["trace", "list", "spans.jsonl"]).expect_code(0).stdout;
    assert_eq!(list.matches("00000000-0000-0000-0000-0000000000").count(), 3, "{list}");
    let id = "00000000-0000-0000-0000-000000000002";
    let tree = bench.run(&["trace", "show", "spans.jsonl", id]).expect_code(0).stdout;
    assert!(tree.contains("2 points over") && tree.contains("└ step 2"), "{tree}");
    let (again, _) = received(options(&file), |_| panic!("it listens"));
    let text = again.unwrap_err().to_string();
    assert!(text.contains("spans.jsonl exists already; give -o another name"), "{text}");
}

#[test]
fn a_file_is_never_larger_than_it_may_be() {
    let bench = Bench::new();
    let file = bench.path().join("spans.jsonl");
    let limited = ReceiveOptions { bytes_max: 20_000, ..options(&file) };
    let (ended, _) = received(limited, |addresses| {
        for trace in 1..=200 {
            export(addresses[0], &[span(trace, 1, "")]);
        }
    });
    let written = ended.unwrap().written;
    assert!(written.bytes <= 20_000 && written.bytes > 10_000, "{written:?}");
    assert!(written.spans > 0 && written.dropped_spans > 0, "{written:?}");
    assert_eq!(written.spans + written.dropped_spans, 200, "{written:?}");
    let lines = std::fs::read_to_string(&file).unwrap();
    assert!(lines.lines().all(|line| serde_json::from_str::<serde_json::Value>(line).is_ok()));
}

#[cfg(target_os = "linux")]
#[test]
fn a_disk_that_is_full_is_said_with_what_was_lost() {
    // Every write fails.
    let (ended, _) = received(options(Path::new("/dev/full")), |_| {});
    let text = ended.unwrap_err().to_string();
    assert!(text.contains("/dev/full"), "{text}");
}

#[test]
fn the_command_says_what_it_received() {
    let bench = Bench::new();
    let mut command = bench.command(&["receive", "127.0.0.1:0", "--for", "100ms", "-o", "a.jsonl"]);
    let ended = Bench::end(&mut command).expect_code(0);
    assert!(ended.stderr.contains("receiving spans at 127.0.0.1:"), "{}", ended.stderr);
    assert_eq!(ended.stdout, "0 spans of 0 traces in a.jsonl (0.00 MB)\n");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let rows: [(&[&str], i32, &str); 4] = [
        (&[&address, "-o", "b.jsonl"], 1, "cannot receive spans at 127.0.0.1:"),
        (
            &["127.0.0.1:0", "-o", "c.jsonl", "--forward", "ftp://x"],
            64,
            "--forward: only http:// and https:// are known",
        ),
        (&["127.0.0.1:0", "-o", "none/d.jsonl"], 1, "none/d.jsonl cannot be written"),
        (&["here"], 64, "invalid"),
    ];
    for (arguments, code, text) in rows {
        let ended = bench.run(&[&["receive", "--for", "1ms"], arguments].concat()).expect_code(code);
        assert!(ended.stderr.contains(text), "{arguments:?}: {}", ended.stderr);
        assert!(!bench.path().join("b.jsonl").exists() && !bench.path().join("c.jsonl").exists());
    }
}
