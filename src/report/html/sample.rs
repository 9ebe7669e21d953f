//! A realistic run for the report's tests, the same on every machine: a log from a seed with the traces of its
//! collector, read back as `bench report` reads it. What no run would write is not in it.

use std::collections::HashSet;

use measure::protocol::Protocol;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use base::ids::mix;
use measure::errors::{Failure, FailureClass, NumberedFailure};
use measure::log::{End, Header, LogWriter};
use measure::phases::Phases;
use measure::rows::Rows;
use measure::sample::{ActionSample, CompletionStatus, IterationSample};
use osprofiler::record::{Timestamp, TraceRecord};
use results::IterationColumns;
use results::aggregate::Aggregate;
use results::choice;
use results::directory::RunDirectory;
use results::fetched::FetchedRecords;
use results::json;
use results::model::{Results, SlowIteration};
use results::trace::StoredTrace;

pub(crate) struct Sample {
    pub(crate) results: Results,
    pub(crate) iterations: IterationColumns,
    pub(crate) traces: Vec<StoredTrace>,
}

/// When the run started.
const STARTED_UNIX_NS: u64 = 1_763_640_000_000_000_000;
const NS_PER_MS: f64 = 1e6;
/// Iterations of the warm-up of each workload; the first of them fails.
const WARM_UP: u64 = 40;
/// Numbers of the faults in the log.
const STATUS: u32 = 1;
const TIMEOUT: u32 = 2;
/// What fills a trace: the statements of a slow iteration, and of a typical one.
const READS: (usize, usize) = (40, 2);

/// Numbers from a seed.
struct Random(u64);

impl Random {
    fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(1);
        (mix(self.0) >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Log-normal; one of fifty is slow.
    fn latency_ms(&mut self, middle_ms: f64) -> f64 {
        let normal = (0..6).map(|_| self.unit()).sum::<f64>() - 3.0;
        let slow = if self.unit() < 0.02 { 9.0 + 3.0 * self.unit() } else { 1.0 };
        middle_ms * (0.15 * normal).exp() * slow
    }
}

/// A run of two workloads with this number of iterations in all, besides the iterations of the warm-up and the ones
/// that were cut off or dropped.
pub(crate) fn sample(iterations: usize) -> Sample {
    let folder = tempfile::tempdir().unwrap();
    let directory = RunDirectory::open(folder.path());
    let mut log = LogWriter::create(&directory.log()).unwrap();
    log.header(&header()).unwrap();
    log.failures(&failures()).unwrap();
    log.samples(&rows(iterations)).unwrap();
    log.end(&End::default()).unwrap();
    drop(log);
    let aggregate = Aggregate::read(&directory.log()).unwrap();
    let slowest: Vec<Uuid> = aggregate.slowest.iter().map(|slow| aggregate.trace_id(slow)).collect();
    let stored = choice::choose(&aggregate).into_iter().map(|chosen| {
        let id = aggregate.trace_id(&chosen.sample);
        let place = slowest.iter().position(|slow| *slow == id);
        let middle_ms = [38.0, 140.0][usize::from(chosen.sample.workload)];
        let ms = chosen.sample.duration_ns as f64 / NS_PER_MS;
        let reads = if ms > 4.0 * middle_ms { READS.0 } else { READS.1 };
        // Services are under the request of the second action, whose id its headers carried.
        let above = aggregate.log.ids().point_id(&chosen.sample, 3);
        let mut records = records(id, above, chosen.sample.start_ns, ms, reads);
        match place {
            // One lacks a stop, and of one the collector knows nothing.
            Some(2) => drop(records.pop()),
            Some(3) => records.clear(),
            _ => {}
        }
        StoredTrace::new(id, records, 0, None)
    });
    directory.store_traces(&stored.collect::<Vec<_>>()).unwrap();
    let (aggregate, results, traces) = judged(&directory);
    let kept: HashSet<Uuid> = traces.iter().map(|trace| trace.trace_id).collect();
    let iterations = json::write(&results, &aggregate, &kept, &mut std::io::sink()).unwrap();
    Sample { results, iterations, traces }
}

/// As `bench report` judges a run.
fn judged(directory: &RunDirectory) -> (Aggregate, Results, Vec<StoredTrace>) {
    let aggregate = Aggregate::read(&directory.log()).unwrap();
    let mut results = judging::results(&aggregate);
    let all = choice::choose(&aggregate);
    let (mut fetched, mut chosen) = (FetchedRecords::default(), Vec::new());
    for one in &all {
        if let Some(stored) = directory.stored_records(aggregate.trace_id(&one.sample)) {
            fetched.add_stored(stored, true);
            chosen.push(one.clone());
        }
    }
    let traces = judging::explain(&mut results, &aggregate, &chosen, &mut fetched, None);
    judging::judge(&aggregate, &mut results, &all, &traces);
    (aggregate, results, traces)
}

fn header() -> Header {
    let actions = json!([
        ["authenticate", "POST {{ keystone }}/v3/auth/tokens"],
        ["list", "GET {{ keystone }}/v3/users?limit={{ limit }}"],
        ["delete", "DELETE {{ keystone }}/v3/users/{{ id }}"],
        ["never sent", "GET {{ keystone }}/v3/never"],
    ]);
    let header = json!({
        "run_id": Uuid::from_u128(9), "id_seed": Uuid::from_u128(42), "started_unix_ns": STARTED_UNIX_NS,
        "scenario": { "title": "Keystone under load", "file": "scenarios/keystone.yaml",
            "sha256": "6d2c0b5f".repeat(8), "set": { "limit": "50" }, "options": ["--times", "100"] },
        "deployment": { "name": "staging", "file": "deployments/staging.yaml",
            "targets": { "keystone": "https://keystone.staging.example:5000" }, "tls_verified": false, "auth": "keystone" },
        "profiling_off": null, "collector": "redis://collector.example:6379/0",
        "environment": { "bench_version": "0.1.0", "os": "linux x86_64", "host": "ci", "cpus": 8, "workers": 4 },
        "control": 10.0, "traces_wanted": [200, 100],
        "notes": ["The load generator was late by more than 1 ms for 3 % of the iterations."],
        "workloads": [
            { "name": "list-users", "runner": { "constant": { "times": 16_000, "concurrency": 16 } }, "actions": actions,
              "sla": { "failure_rate_max": 5.0, "max_avg_duration_per_atomic": { "never sent": 0.1 },
                       "thresholds": [{ "condition": "p50 < 1ms" }] } },
            { "name": "create-server", "runner": { "rps": { "rate": 66.7, "duration": "60s" } }, "actions": actions,
              "sla": {} },
        ],
    });
    serde_json::from_value(header).unwrap()
}

fn failures() -> [NumberedFailure; 2] {
    let of = |number, class: &str, action: &str, message: &str| NumberedFailure {
        number,
        failure: Failure {
            class: FailureClass::named(class),
            action: Some(action.into()),
            message: message.into(),
            seen: None,
        },
    };
    [
        of(
            STATUS,
            "status",
            "list",
            "503 Service Unavailable: the server is currently unable to handle the request",
        ),
        of(TIMEOUT, "timeout", "authenticate", "no answer within 5.00 s"),
    ]
}

fn rows(iterations: usize) -> Rows {
    let mut random = Random(7);
    let mut rows = Rows::default();
    let mut numbers = [0_u64; 2];
    let mut push =
        |workload: u16, start_s: f64, ms: f64, ended: CompletionStatus, error: u32, warm_up: bool| {
            let number = &mut numbers[usize::from(workload)];
            let lag_ms = if *number % 9 == 0 { 0.4 * ms } else { 0.02 * ms };
            let due_ns = (start_s * 1e9) as u64;
            rows.push(&IterationSample {
                workload,
                number: *number,
                warm_up,
                due_ns,
                start_ns: due_ns + (lag_ms * NS_PER_MS) as u64,
                duration_ns: (ms * NS_PER_MS) as u64,
                ended,
                error,
                user: 0,
                actions: if ended == CompletionStatus::Dropped { Vec::new() } else { requests(ms, error) },
                streams: Vec::new(),
                numbers: Vec::new(),
            });
            *number += 1;
        };
    for workload in [0, 1] {
        for number in 0..WARM_UP {
            let (ended, error) =
                if number == 0 { (CompletionStatus::Failed, STATUS) } else { (CompletionStatus::Ok, 0) };
            push(workload, number as f64 / 1e3, 50.0, ended, error, true);
        }
    }
    for row in 0..iterations {
        let workload = u16::from(row % 5 == 4);
        let ms = random.latency_ms([38.0, 140.0][usize::from(workload)]);
        let (ended, error) = match random.unit() {
            chance if chance < 0.005 => (CompletionStatus::Failed, STATUS),
            chance if chance < 0.008 => (CompletionStatus::Failed, TIMEOUT),
            _ => (CompletionStatus::Ok, 0),
        };
        push(workload, 1.0 + 60.0 * row as f64 / iterations as f64, ms, ended, error, false);
    }
    for _ in 0..7 {
        push(1, 61.0, 0.0, CompletionStatus::Dropped, 0, false);
    }
    for _ in 0..3 {
        push(1, 61.0, 20.0, CompletionStatus::Aborted, 0, false);
    }
    rows
}

fn requests(ms: f64, error: u32) -> Vec<ActionSample> {
    let request = |action: u16, from: f64, share: f64, ended: CompletionStatus, status| {
        let ns = |share: f64| (ms * share * NS_PER_MS) as u64;
        ActionSample {
            action,
            offset_ns: ns(from),
            duration_ns: ns(share),
            phases: Phases { wait_ns: ns(share * 0.8), receive_ns: ns(share * 0.1), ..Phases::default() },
            protocol: Protocol::Http,
            outcome: (status != 0).then_some(status),
            body_bytes: 5_120,
            ended,
            requests: 1,
            point: u32::from(action) + 2,
            parent: 1,
        }
    };
    match error {
        TIMEOUT => vec![request(0, 0.0, 0.99, CompletionStatus::Failed, 0)],
        STATUS => vec![
            request(0, 0.0, 0.04, CompletionStatus::Ok, 201),
            request(1, 0.05, 0.9, CompletionStatus::Failed, 503),
        ],
        _ => vec![
            request(0, 0.0, 0.04, CompletionStatus::Ok, 201),
            request(1, 0.05, 0.9, CompletionStatus::Ok, 200),
            request(2, 0.96, 0.03, CompletionStatus::Ok, 204),
        ],
    }
}

/// What a service reports of an iteration: a request that reads the database once for each role, and a cache; every
/// thirtieth read fails.
fn records(base_id: Uuid, above: Uuid, start_ns: u64, ms: f64, reads: usize) -> Vec<TraceRecord> {
    let begin_us = start_ns as f64 / 1e3 + ms * 60.0;
    let whole_us = ms * 880.0;
    let step_us = whole_us / (reads + 3) as f64;
    let mut points: Vec<(String, u128, f64, f64, Value, bool)> = vec![
        ("wsgi".into(), 0, 0.0, whole_us, json!({"request": {"path": "/v3/users", "method": "GET"}}), false),
        ("identity.list_users".into(), 1, step_us, whole_us - 2.0 * step_us, json!({}), false),
        ("redis".into(), 2, step_us * 1.1, step_us * 0.2, json!({}), false),
    ];
    let statement = "SELECT user.id, user.domain_id FROM user WHERE user.id = %(id)s";
    points.extend((0..reads).map(|n| {
        let info = json!({"db": {"statement": statement, "params": {"id": n}}});
        ("db".into(), 2, step_us * (n as f64 + 1.4), step_us * 0.8, info, n % 30 == 29)
    }));
    // Slow iterations have one host in common.
    let one = reads >= READS.0 || base_id.as_u128().is_multiple_of(3);
    let host = if one { "controller-1" } else { "controller-2" };
    let mut records = Vec::new();
    for (number, (name, parent, from_us, length_us, info, failed)) in points.iter().enumerate() {
        let id = Uuid::from_u128(base_id.as_u128().wrapping_add(number as u128 + 1)).to_string();
        let parent =
            if *parent == 0 { above } else { Uuid::from_u128(base_id.as_u128().wrapping_add(*parent)) };
        let mut record = |suffix: &str, us: f64, info: &Value| {
            let mut info: Map<String, Value> = info.as_object().cloned().unwrap_or_default();
            info.insert("host".into(), host.into());
            let unix_ns = STARTED_UNIX_NS + ((begin_us + us) * 1e3) as u64;
            records.push(TraceRecord {
                name: format!("{name}{suffix}").into(),
                base_id: base_id.to_string().into(),
                trace_id: id.as_str().into(),
                parent_id: parent.to_string().into(),
                timestamp: Timestamp::from_unix_ns(unix_ns),
                info: info.into(),
                project: Some("keystone".into()),
                service: Some("public".into()),
            });
        };
        record("-start", *from_us, info);
        let error = json!({"etype": "DBDeadlock", "message": "lock wait timeout exceeded"});
        record("-stop", from_us + length_us, if *failed { &error } else { &Value::Null });
    }
    records
}

/// A trace of this iteration with this many points.
pub(super) fn trace(slow: &SlowIteration, points: usize) -> StoredTrace {
    let start_ns = (slow.iteration.start_s.unwrap_or_default() * 1e9) as u64;
    let records = records(
        slow.iteration.trace_id,
        slow.iteration.trace_id,
        start_ns,
        slow.iteration.ran_ms(),
        points - 3,
    );
    StoredTrace::new(slow.iteration.trace_id, records, 0, None)
}

/// Replaces every string in the results and the traces, as far down as there are any.
pub(super) fn poison(value: &mut Value, text: &str, keep: &[&str]) {
    match value {
        Value::String(old) => text.clone_into(old),
        Value::Array(items) => items.iter_mut().for_each(|item| poison(item, text, keep)),
        Value::Object(fields) => {
            let mut poisoned = Map::new();
            for (name, mut field) in std::mem::take(fields) {
                if !keep.contains(&name.as_str()) {
                    poison(&mut field, text, keep);
                }
                poisoned.insert(name, field);
            }
            *fields = poisoned;
        }
        _ => {}
    }
}
