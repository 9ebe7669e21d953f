//! Whole results of runs in which everything happens, kept in `tests/pages`: no figure changes unnoticed.

use std::path::Path;
use std::sync::Arc;

use measure::protocol::Protocol;
use serde_json::{Value, json};

use super::aggregate::Aggregate;
use super::build::build;
use super::choice::{choose, slow_and_typical};
use measure::errors::{Failure, FailureClass, NumberedFailure};
use measure::log::{End, Header, IterationCounts, LogWriter};
use measure::phases::{Phases, Retransmits};
use measure::rows::Rows;
use measure::sample::{ActionSample, CompletionStatus, IterationSample};

fn header() -> Header {
    let nil = uuid::Uuid::nil();
    serde_json::from_value(json!({
        "run_id": nil, "id_seed": nil, "started_unix_ns": 1_700_000_000_000_000_000_u64,
        "scenario": { "title": "t", "file": "f", "sha256": "", "set": {} },
        "deployment": { "name": "d", "file": "f", "targets": {}, "tls_verified": true, "auth": "none" },
        "profiling_off": null, "collector": null, "traces_wanted": [6, 4],
        "environment": { "bench_version": "0", "os": "", "cpus": 1, "workers": 1 },
        "notes": ["noted"],
        "workloads": [
            { "name": "closed", "runner": { "constant": { "times": 900, "concurrency": 10 } }, "sla": {},
              "actions": [["list", "GET /"], ["show", "GET /{id}"]] },
            { "name": "open", "runner": { "rps": { "rps": 50, "times": 400 } }, "sla": {}, "actions": [["post", "POST /"]] },
        ],
    }))
    .unwrap()
}

/// A request, with phases that differ from each other and from those of other requests.
fn action(
    number: u64,
    action: u16,
    (offset_ns, duration_ns): (u64, u64),
    ended: CompletionStatus,
) -> ActionSample {
    let phases = Phases {
        resolve_ns: if number.is_multiple_of(50) { 300_000 } else { 0 },
        connect_ns: if number.is_multiple_of(50) { 200_000 } else { 0 },
        tls_ns: if number.is_multiple_of(50) { 900_000 } else { 0 },
        send_ns: 20_000 + number,
        wait_ns: duration_ns / 2,
        receive_ns: duration_ns / 10,
        before_ns: if number.is_multiple_of(40) { 50_000 } else { 0 },
        opened: number.is_multiple_of(50),
        version: u8::from(number.is_multiple_of(3)),
        resent: number.is_multiple_of(11),
        address: (number % 2) as u16 + 1,
        retransmits: Retransmits {
            syns: u8::from(number.is_multiple_of(50)),
            segments: u8::from(number % 37 == 5),
            out_of_order: u8::from(number % 41 == 5),
        },
    };
    let status = match ended {
        CompletionStatus::Failed if number.is_multiple_of(2) => 503,
        CompletionStatus::Failed => 0,
        _ => 200,
    };
    let (body_bytes, requests) = (number % 700, 1 + u32::from(number.is_multiple_of(25)));
    ActionSample {
        action,
        offset_ns,
        duration_ns,
        phases,
        protocol: Protocol::Http,
        outcome: (status != 0).then_some(status),
        body_bytes,
        ended,
        requests,
        point: 2,
        parent: 1,
    }
}

/// An iteration of the first workload, which has two requests, or of the second, which is open and has one.
fn iteration(workload: u16, number: u64) -> IterationSample {
    let ms = 5 + number * 37 % 100 + if number % 60 == 17 { 700 } else { 0 };
    let every_ns = if workload == 0 { 11_000_000 } else { 20_000_000 };
    let due_ns = 1_000_000_000 + number * every_ns;
    let ended = match (workload, number) {
        (0, 890..) => CompletionStatus::Aborted,
        (1, number) if number % 45 == 44 => CompletionStatus::Dropped,
        (_, number) if number % 31 == 30 => CompletionStatus::Failed,
        _ => CompletionStatus::Ok,
    };
    let is_dropped = ended == CompletionStatus::Dropped;
    let duration_ns = if is_dropped { 0 } else { ms * 1_000_000 + number };
    let actions = match (workload, ended) {
        (_, CompletionStatus::Dropped) => Vec::new(),
        (0, CompletionStatus::Failed) => vec![action(number, 0, (1_000, duration_ns - 2_000), ended)],
        (0, _) => vec![
            action(number, 0, (1_000, duration_ns / 3), CompletionStatus::Ok),
            action(number, 1, (duration_ns / 3 + 2_000, duration_ns / 2), ended),
            action(number, 1, (duration_ns - 9_000, 8_000), ended),
        ],
        _ => vec![action(number, 0, (0, duration_ns), ended)],
    };
    IterationSample {
        workload,
        number,
        warm_up: number < 20,
        due_ns,
        start_ns: due_ns + if is_dropped { 0 } else { number % 5 * 400_000 },
        duration_ns,
        ended,
        error: if ended == CompletionStatus::Failed {
            1 + (number % 2) as u32 + 2 * u32::from(workload)
        } else {
            0
        },
        user: 0,
        actions,
        streams: Vec::new(),
        numbers: Vec::new(),
    }
}

fn log(path: &Path) -> Aggregate {
    log_with(&header(), path)
}

fn log_with(header: &Header, path: &Path) -> Aggregate {
    let mut log = LogWriter::create(path).unwrap();
    log.header(header).unwrap();
    let failure = |number: u32, class: &str, action: &str| NumberedFailure {
        number,
        failure: Failure {
            class: FailureClass::named(class),
            action: Some(Arc::from(action)),
            message: format!("{class} of {action}"),
            seen: None,
        },
    };
    log.failures(&[
        failure(1, "status", "list"),
        failure(2, "timeout", "list"),
        failure(3, "status", "post"),
        failure(4, "timeout", "post"),
    ])
    .unwrap();
    for some in 0..9 {
        let mut rows = Rows::default();
        (some * 100..some * 100 + 100).for_each(|number| rows.push(&iteration(0, number)));
        (some * 45..some * 45 + 45)
            .filter(|number| *number < 400)
            .for_each(|number| rows.push(&iteration(1, number)));
        log.samples(&rows).unwrap();
    }
    let issued = vec![IterationCounts::none_of(Some(1_000)), IterationCounts::none_of(Some(400))];
    log.end(&End { notes: vec!["ended".to_owned()], issued, ..End::default() }).unwrap();
    drop(log);
    Aggregate::read(path).unwrap()
}

/// The warm-up is neither among the slowest nor on a side of the comparison with unprofiled iterations, which only a run
/// with such iterations has.
#[test]
fn figures_of_single_iterations_leave_the_warm_up_out() {
    let folder = tempfile::tempdir().unwrap();
    let with = |control: f64| {
        let mut value = serde_json::to_value(header()).unwrap();
        value["control"] = json!(control);
        log_with(&serde_json::from_value(value).unwrap(), &folder.path().join(control.to_string()))
    };
    for (control, sides) in [(0.0, [0, 0]), (50.0, [842, 360])] {
        let run = with(control);
        assert!(!run.slowest.is_empty() && run.slowest.iter().all(|one| !one.warm_up));
        let seen = [0, 1].map(|workload| {
            let stats = &run.workloads[workload];
            let all = stats.sides.profiled.seen + stats.sides.control.seen;
            assert!(all == 0 || all == stats.iterations.ok && stats.sides.control.seen > 50);
            all
        });
        assert_eq!(seen, sides, "{control} %");
        let points = run.client_points(&run.slowest[0]);
        assert!(points.iter().any(|point| point.name == "iteration-start"), "{points:?}");
    }
}

/// Compressed histograms are other bytes with each version of the compressor.
fn without_histograms(value: &mut Value) {
    match value {
        Value::Object(entries) => {
            entries.retain(|key, _| !key.contains("histogram"));
            entries.values_mut().for_each(without_histograms);
        }
        Value::Array(values) => values.iter_mut().for_each(without_histograms),
        _ => {}
    }
}

#[test]
fn results_of_a_run_in_which_everything_happens() {
    let folder = tempfile::tempdir().unwrap();
    let aggregate = log(&folder.path().join("run.log"));
    let results = build(&aggregate);
    let mut whole = serde_json::to_value(&results).unwrap();
    without_histograms(&mut whole);
    text::compare_page!("results", &serde_json::to_string_pretty(&whole).unwrap());
    let line = |one: &super::choice::ChosenIteration| {
        let (workload, number) = (one.sample.workload, one.sample.number);
        format!("{workload}/{number}: {:?}, top {}, random {}\n", one.side, one.top, one.random)
    };
    let chosen: String = choose(&aggregate).iter().map(line).collect();
    let compared: String = slow_and_typical(&aggregate).iter().map(line).collect();
    text::compare_page!("choice", &format!("chosen:\n{chosen}slow and typical:\n{compared}"));
}
