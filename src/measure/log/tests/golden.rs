//! Logs of versions 3 to 7 that were written once, under tests/vectors/log, are read to what they were written from.

use std::path::PathBuf;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::*;
use crate::errors::{Failure, FailureClass};
use crate::generator::{Generator, WorkerVitals};
use crate::numbers::MeasuredNumber;
use crate::phases::{Phases, Retransmits};
use crate::protocol::Protocol;
use crate::sample::{ActionSample, CompletionStatus, IterationSample};
use crate::streams::StreamSample;
use terms::control::ControlShare;
use terms::sla::{Outliers, Sla};
use terms::threshold::{self, Threshold};

/// Everything that is read of a log.
#[derive(Debug, PartialEq)]
struct LogContents {
    header: Header,
    samples: Vec<IterationSample>,
    failures: Vec<NumberedFailure>,
    ending: Ending,
}

#[derive(Default)]
struct Keeper {
    users: Vec<IterationSample>,
    samples: Vec<IterationSample>,
    failures: Vec<NumberedFailure>,
}

impl Visitor for Keeper {
    fn failures(&mut self, failures: &[NumberedFailure]) {
        self.failures.extend(failures.iter().cloned());
    }

    fn users(&mut self, rows: &Rows) {
        self.users.extend(rows.iter().map(|row| row.to_sample()));
    }

    fn rows(&mut self, rows: &Rows) -> std::io::Result<()> {
        self.samples.extend(rows.iter().map(|row| row.to_sample()));
        Ok(())
    }
}

fn read(bytes: &[u8]) -> Result<LogContents, LogError> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(FILE_NAME);
    std::fs::write(&path, bytes).unwrap();
    let log = RunLog::open(&path)?;
    let mut keeper = Keeper::default();
    let ending = log.visit(&mut [&mut keeper])?;
    Ok(LogContents { header: log.header, samples: keeper.samples, failures: keeper.failures, ending })
}

fn vector(name: &str) -> Vec<u8> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/vectors/log").join(name);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn threshold(text: &str) -> Threshold {
    Threshold {
        condition: threshold::parse(text).unwrap(),
        window_ns: None,
        min_samples: None,
        abort_after_ns: None,
        warn: false,
    }
}

#[expect(clippy::too_many_lines, reason = "all fields")]
pub(super) fn header() -> Header {
    let text = str::to_owned;
    let sla = Sla {
        failure_rate_min: Some(0.5),
        failure_rate_max: Some(12.25),
        max_seconds_per_iteration: Some(5.0),
        max_avg_duration: Some(1.5),
        max_avg_duration_per_atomic: [(text("log in"), 0.75)].into(),
        outliers: Some(Outliers { max: 3, min_iterations: 10, sigmas: 2.5 }),
        max_degradation: Some(400.0),
        thresholds: vec![
            threshold("p99.9(action \"log in\") < 250ms"),
            Threshold {
                window_ns: Some(30_000_000_000),
                min_samples: Some(100),
                warn: true,
                ..threshold("rate(errors) <= 0.1%")
            },
            Threshold { abort_after_ns: Some(10_000_000_000), ..threshold("throughput > 20/s") },
        ],
    };
    let workload = |name: &str, sla: Sla, planned| WorkloadHeader {
        name: text(name),
        runner: json!({"constant": {"times": 40, "concurrency": 2}}).as_object().unwrap().clone(),
        sla,
        planned,
        asynchronous_deadline_ns: None,
        actions: vec![
            (text("log in"), text("POST /v3/auth/tokens")),
            (text("look up"), text("GET /v3/users/{{ id }}")),
        ],
        tags: Vec::new(),
        streams: Vec::new(),
        measures: Vec::new(),
        user_setup: Vec::new(),
        user_teardown: Vec::new(),
        data: Vec::new(),
    };
    Header {
        run_id: uuid::Uuid::from_u128(0x1111_2222_3333_4444_8555_6666_7777_8888),
        id_seed: uuid::Uuid::from_u128(0x9999_aaaa_bbbb_4ccc_8ddd_eeee_ffff_0000),
        data_seed: None,
        started_unix_ns: 1_790_000_000_123_456_789,
        scenario: ScenarioInfo {
            title: text("a title: “quoted”\n"),
            file: text("scenario.yaml"),
            sha256: "ab".repeat(32),
            set: [(text("users"), text("7"))].into(),
            options: Vec::new(),
            text: None,
        },
        deployment: DeploymentInfo {
            name: text("staging"),
            file: text("staging.yaml"),
            targets: [(text("identity"), text("https://identity.example/"))].into(),
            tls_verified: false,
            auth: text("keystone"),
            demo: Some(text("slow")),
        },
        profiling_off: Some(text("--no-profile")),
        trace_headers: Vec::new(),
        collector: Some(text("redis://collector:6379")),
        environment: LoadEnvironment {
            bench_version: text("0.1.0"),
            os: text("linux x86_64"),
            host: text("load-1"),
            cpus: 8,
            workers: 4,
        },
        control: ControlShare::from_percent(12.5),
        traces_wanted: (200, 100),
        in_a_row: (0, 0),
        notes: vec![text("a note")],
        workloads: vec![workload("first", sla, Some(40)), workload("second", Sla::default(), None)],
        rally: None,
        shard: None,
        shards: Vec::new(),
    }
}

fn end() -> End {
    End {
        status: Status::Aborted,
        error: Some("an error".to_owned()),
        notes: vec!["seen during the run".to_owned()],
        aborted_by: Some((0, 2)),
        generator: Some(Generator {
            cpu_s: 1.25,
            load_s: 10.5,
            descriptors_max: 77,
            descriptors_limit: Some(1024),
            suspended_s: 0.25,
            wall_clock_jump_s: -1.5,
            unrecorded: 2,
            process: None,
            services: Vec::new(),
            quota: None,
            workers: vec![WorkerVitals {
                workloads: vec![0, 1],
                worker: 3,
                load_s: 10.25,
                cpu_s: 1.125,
                cpu_share_max: 0.875,
                run_queue_s: 0.0625,
                loop_lag_max_ms: 3.5,
                arrivals: 12,
                late_p50_ms: 0.5,
                late_p99_ms: 1.5,
                late_max_ms: 2.5,
                saturated_s: 0.125,
                starved_s: 0.375,
                behind_s: 0.625,
                kept_s: 0.0,
                kept_max_ms: 0.0,
                delay_ms: 0.0,
            }],
        }),
        rows: Some(40),
        probe: None,
        issued: vec![
            IterationCounts {
                planned: Some(40),
                issued: 30,
                dropped: 4,
                unrecorded: 2,
                not_started: Some(6),
            },
            IterationCounts { planned: None, issued: 10, ..IterationCounts::default() },
        ],
        hooks: Vec::new(),
    }
}

fn failures() -> Vec<NumberedFailure> {
    let failure = |class: &str, action: Option<&str>, message: &str| Failure {
        class: FailureClass::named(class),
        action: action.map(Into::into),
        message: message.to_owned(),
        seen: None,
    };
    vec![
        NumberedFailure { number: 1, failure: failure("status", Some("log in"), "500 “Internal”") },
        NumberedFailure { number: 1 << 20, failure: failure("timeout", None, "after 30s") },
    ]
}

/// 40 iterations in the order of a block, with every kind of end and figure.
fn samples() -> Vec<IterationSample> {
    let sample = |number: u64, workload: u16| {
        let ended = [
            CompletionStatus::Ok,
            CompletionStatus::Ok,
            CompletionStatus::Failed,
            CompletionStatus::Aborted,
            CompletionStatus::Dropped,
        ][number as usize % 5];
        let action = |index: u16| ActionSample {
            action: index,
            offset_ns: 1_000 + u64::from(index) * 5_000_000,
            duration_ns: 4_000_000 + number * number * 1_003,
            phases: Phases {
                opened: number == 0,
                version: u8::from(number.is_multiple_of(3)),
                resent: false,
                resolve_ns: if number == 0 { 51_007 } else { 0 },
                connect_ns: if number == 0 { 80_011 } else { 0 },
                tls_ns: if number == 0 { 900_013 } else { 0 },
                send_ns: 6_007 + number,
                wait_ns: 3_000_017 + number * 7,
                receive_ns: 2_003,
                before_ns: if number == 7 { 1_234_567 } else { 0 },
                address: 0,
                retransmits: Retransmits::default(),
            },
            protocol: Protocol::Http,
            outcome: (number != 9).then_some(200 + (number % 2) as u16),
            body_bytes: 612 + number * 1_000_003,
            ended: if index == 1 { ended } else { CompletionStatus::Ok },
            requests: 1,
            point: u32::from(index) + 2,
            parent: 1,
        };
        let due_ns = number * 10_000_000;
        IterationSample {
            workload,
            number: if number == 19 { u64::MAX >> 4 } else { number },
            warm_up: number < 3,
            due_ns,
            start_ns: due_ns + number % 4 * 1_001,
            duration_ns: if number == 18 { 90_000_000_000_000 } else { 11_000_000 + number * 31 },
            ended,
            error: if ended == CompletionStatus::Failed { [1, 1 << 20][usize::from(workload)] } else { 0 },
            user: 0,
            actions: if ended == CompletionStatus::Dropped {
                Vec::new()
            } else {
                (0..2).map(action).collect()
            },
            streams: Vec::new(),
            numbers: Vec::new(),
        }
    };
    (0..2).flat_map(|workload| (0..20).map(move |number| sample(number, workload))).collect()
}

/// The bytes that this build writes.
fn written(header: &Header, failures: &[NumberedFailure], samples: &[IterationSample], end: &End) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(FILE_NAME);
    let mut writer = LogWriter::create(&path).unwrap();
    writer.header(header).unwrap();
    writer.failures(failures).unwrap();
    let mut rows = Rows::default();
    samples.iter().for_each(|sample| rows.push(sample));
    writer.samples(&rows).unwrap();
    writer.end(end).unwrap();
    std::fs::read(&path).unwrap()
}

fn expected() -> LogContents {
    let ending = Ending { end: Some(end()), flaws: Flaws::default() };
    LogContents { header: header(), samples: samples(), failures: failures(), ending }
}

/// A frame of JSON.
fn frame(kind: u8, json: &Value) -> Vec<u8> {
    let payload = serde_json::to_vec(json).unwrap();
    let mut frame = (payload.len() as u32).to_le_bytes().to_vec();
    frame.push(kind);
    frame.extend_from_slice(&checksum(kind, &payload).to_le_bytes());
    frame.extend_from_slice(&payload);
    frame
}

/// Gives every object a key that this build does not know, but those whose keys are names.
fn with_unknown_keys(value: &mut Value) {
    match value {
        Value::Object(entries) => {
            let names = ["set", "targets", "runner", "max_avg_duration_per_atomic"];
            let known = entries.iter_mut().filter(|(key, _)| !names.contains(&key.as_str()));
            known.for_each(|(_, value)| with_unknown_keys(value));
            entries.insert("a_later_key".to_owned(), json!({"with": ["something", 1, null]}));
        }
        Value::Array(items) => items.iter_mut().for_each(with_unknown_keys),
        _ => {}
    }
}

/// The last sample has a group with a poll in it, and two requests at the same time.
fn nested() -> Vec<IterationSample> {
    let mut samples = samples();
    let action = |(action, point, parent, requests): (u16, u32, u32, u32)| ActionSample {
        action,
        point,
        parent,
        requests,
        offset_ns: 1_000,
        duration_ns: 9_000_000,
        ..ActionSample::default()
    };
    if let Some(last) = samples.last_mut() {
        last.actions = [(1, 3, 2, 7), (2, 4, 2, 1), (0, 2, 1, 0)].map(action).to_vec();
    }
    samples
}

/// And requests that were sent again, over connections to several addresses.
fn repeated() -> Vec<IterationSample> {
    let mut samples = nested();
    for (number, sample) in (0_u8..).zip(&mut samples) {
        for action in &mut sample.actions {
            action.phases.address = u16::from(number % 3);
            action.phases.resent = number % 8 == 5;
            let out_of_order = if number == 4 { u8::MAX } else { 0 };
            action.phases.retransmits = Retransmits { syns: number / 30, segments: number % 2, out_of_order };
        }
    }
    samples
}

/// And streams of messages, of gRPC in one iteration.
fn streamed() -> Vec<IterationSample> {
    let mut samples = repeated();
    for (number, sample) in (0..).zip(&mut samples).filter(|(number, _)| number % 5 == 1) {
        let stream = |action: &ActionSample| {
            let mut stream = StreamSample {
                point: action.point,
                messages: number % 4 * 250,
                first_ns: if number % 4 > 0 { 1_000_003 + number } else { 0 },
                tokens: number * 10,
                ..StreamSample::default()
            };
            (1..stream.messages).for_each(|gap| stream.gaps.add(20_000_000 + gap * 50_021));
            stream
        };
        sample.streams = sample.actions.iter().map(stream).collect();
        sample.actions.iter_mut().filter(|_| number == 6).for_each(|action| action.protocol = Protocol::Grpc);
    }
    samples
}

/// And numbers that were taken from answers, none in one of them.
fn measured() -> Vec<IterationSample> {
    let mut samples = streamed();
    for (number, sample) in (0..).zip(&mut samples).filter(|(number, _)| number % 3 == 2) {
        let value = |measure: u16| match (number, measure) {
            (5, _) => None,
            (_, 0) => Some(f64::from(number) * 10.0),
            _ => Some(-0.1 - f64::from(number)),
        };
        let taken = |action: &ActionSample| {
            [0, 1].map(|measure| MeasuredNumber::new(measure, action.point, value(measure)))
        };
        sample.numbers = sample.actions.iter().flat_map(taken).collect();
    }
    samples
}

/// What ran then.
fn measuring_header() -> Header {
    let mut header = header();
    header.workloads[0].measures = vec!["cart_total".to_owned(), "balance".to_owned()];
    header
}

#[test]
fn the_logs_of_versions_3_to_6_are_read() {
    let six = LogContents { samples: streamed(), ..expected() };
    assert_eq!(read(&vector("version-6.log")).unwrap(), six);
    let five = LogContents { samples: repeated(), ..expected() };
    assert_eq!(read(&vector("version-5.log")).unwrap(), five);
    assert_eq!(read(&vector("version-3.log")).unwrap(), expected());
    assert_eq!(read(&vector("version-4.log")).unwrap(), LogContents { samples: nested(), ..expected() });
}

#[test]
fn the_log_of_version_7_is_read_and_written_as_it_was() {
    let now = written(&measuring_header(), &failures(), &measured(), &end());
    let expected = LogContents { header: measuring_header(), samples: measured(), ..expected() };
    assert_eq!(read(&now).unwrap(), expected);
    assert!(now == vector("version-7.log"), "the format has changed");
}

/// What users do around their iterations is told apart from these, and does not count as one.
#[test]
fn what_users_do_is_read_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(FILE_NAME);
    let mut writer = LogWriter::create(&path).unwrap();
    writer.header(&header()).unwrap();
    let (mut users, mut iterations) = (Rows::default(), Rows::default());
    let all = measured();
    all[..5].iter().for_each(|sample| users.push(sample));
    all[5..].iter().for_each(|sample| iterations.push(sample));
    writer.users(&Rows::default()).unwrap();
    writer.users(&users).unwrap();
    writer.samples(&iterations).unwrap();
    writer.end(&end()).unwrap();
    let mut keeper = Keeper::default();
    let ending = RunLog::open(&path).unwrap().visit(&mut [&mut keeper]).unwrap();
    assert_eq!((keeper.users.as_slice(), keeper.samples.as_slice()), all.split_at(5));
    assert_eq!(
        (ending.flaws, ending.end.and_then(|end| end.rows)),
        (Flaws::default(), Some(all.len() as u64 - 5))
    );
}

#[test]
fn a_log_without_the_keys_that_came_later_is_read() {
    let found = read(&vector("version-3-first.log")).unwrap();
    let whole = expected();
    let mut header = whole.header;
    (header.control, header.traces_wanted, header.deployment.demo) = (ControlShare::NONE, (0, 0), None);
    header.environment.host.clear();
    header.workloads.iter_mut().for_each(|workload| {
        (workload.planned, workload.sla.outliers, workload.sla.max_degradation) = (None, None, None);
        workload.sla.max_avg_duration_per_atomic.clear();
        workload.sla.thresholds.clear();
    });
    let end = End { aborted_by: None, generator: None, rows: None, issued: Vec::new(), ..end() };
    let ending = Ending { end: Some(end), flaws: Flaws::default() };
    assert_eq!(found, LogContents { header, samples: whole.samples, failures: whole.failures, ending });
}

#[test]
fn keys_that_a_later_build_adds_are_passed_over() {
    let whole = written(&header(), &failures(), &samples(), &end());
    let length = u32::from_le_bytes(whole[10..14].try_into().unwrap()) as usize;
    let (mut first, mut last) =
        (serde_json::to_value(header()).unwrap(), serde_json::to_value(end()).unwrap());
    let end_bytes = serde_json::to_vec(&end()).unwrap().len() + FRAME_HEAD_BYTES;
    with_unknown_keys(&mut first);
    with_unknown_keys(&mut last);
    let mut later = whole[..10].to_vec();
    later.extend(frame(KIND_HEADER, &first));
    later.extend_from_slice(&whole[10 + FRAME_HEAD_BYTES + length..whole.len() - end_bytes]);
    later.extend(frame(KIND_END, &last));
    assert!(later.len() > whole.len() + 500);
    assert_eq!(read(&later).unwrap(), expected());
}

#[test]
fn other_versions_say_what_to_do() {
    let golden = vector("version-3.log");
    for (version, expected) in [
        (1, "has version 1 of the run log; this bench reads versions 3 to 7: use the bench that wrote it"),
        (2, "has version 2 of the run log; this bench reads versions 3 to 7: use the bench that wrote it"),
        (
            8,
            "has version 8 of the run log; this bench reads versions 3 to 7: a newer bench wrote it; use that one, or",
        ),
        (0xffff, "has version 65535 of the run log"),
    ] {
        let mut bytes = golden.clone();
        bytes[8..10].copy_from_slice(&u16::to_le_bytes(version));
        let error = read(&bytes).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

proptest! {
    #[test]
    fn what_is_written_is_read_again(
        texts in prop::collection::vec(any::<String>(), 6),
        (eighths, window_ns) in (0..800_u32, prop::option::of(any::<u64>())),
        conditions in prop::collection::vec(prop::sample::select(vec![
            "p(95) < 250ms", "max(lag) <= 1h", "rate(errors action \"a\") < 0.1%", "count(dropped) == 0",
            "avg(trace \"db\") < 3.25ms", "count(trace \"db\") <= 12", "overhead(p50) < 5%",
        ]), 0..4),
        durations in prop::collection::vec(0..1_u64 << 50, 0..50),
        status in prop::sample::select(vec![
            Status::Finished, Status::Interrupted, Status::TimedOut, Status::Aborted, Status::Failed,
        ]),
    ) {
        let mut header = header();
        header.scenario.title.clone_from(&texts[0]);
        header.scenario.set = [(texts[1].clone(), texts[2].clone())].into();
        header.scenario.options.clone_from(&texts);
        header.notes = vec![texts[3].clone()];
        header.control = ControlShare::from_percent(f64::from(eighths) / 8.0);
        let workload = &mut header.workloads[1];
        workload.actions = vec![(texts[4].clone(), texts[5].clone())];
        workload.sla.max_avg_duration = Some(f64::from(eighths) / 8.0);
        workload.sla.thresholds =
            conditions.iter().map(|text| Threshold { window_ns, ..threshold(text) }).collect();
        let sample = |(number, duration_ns): (u64, &u64)| IterationSample {
            number,
            duration_ns: *duration_ns,
            ..IterationSample::default()
        };
        let samples: Vec<IterationSample> = (0..).zip(&durations).map(sample).collect();
        let end = End { status, error: texts.first().cloned(), ..End::default() };
        let found = read(&written(&header, &[], &samples, &end)).unwrap();
        let end = End { rows: Some(samples.len() as u64), ..end };
        let ending = Ending { end: Some(end), flaws: Flaws::default() };
        prop_assert_eq!(found, LogContents { header, samples, failures: Vec::new(), ending });
    }
}
