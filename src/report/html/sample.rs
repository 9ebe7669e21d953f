//! A realistic run for the report's tests, the same on every machine.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::base::ids::{IdSpace, mix};
use crate::base::statistics::order::rank;
use crate::osprofiler::record::Record;
use crate::results::IterationColumns;
use crate::results::model::*;
use crate::results::trace::{StoredPoint, StoredTrace};

pub(in crate::report) struct Sample {
    pub(in crate::report) results: Results,
    pub(in crate::report) iterations: IterationColumns,
    pub(in crate::report) traces: Vec<StoredTrace>,
}

/// Numbers from a seed.
struct Random(u64);

impl Random {
    fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(1);
        (mix(self.0) >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Log-normal, with a tail of slow ones.
    fn latency_ms(&mut self, middle_ms: f64) -> f64 {
        let normal = (0..6).map(|_| self.unit()).sum::<f64>() - 3.0;
        let tail = if self.unit() < 0.01 { 4.0 + 6.0 * self.unit() } else { 1.0 };
        middle_ms * (0.45 * normal).exp() * tail
    }
}

const NAMES: [&str; 2] = ["list-users", "create-server"];

/// A run of two workloads with this number of iterations in all.
pub(in crate::report) fn sample(iterations: usize) -> Sample {
    let mut random = Random(7);
    let ids = IdSpace::from_seed(Uuid::from_u128(42));
    let mut columns = IterationColumns { total: iterations as u64, ..IterationColumns::default() };
    for number in 0..iterations {
        let workload = u16::from(number % 5 == 4);
        let start_s = 60.0 * number as f64 / iterations as f64;
        let stall = if (31.0..33.0).contains(&start_s) { 3.0 } else { 1.0 };
        let chance = random.unit();
        columns.workload.push(workload);
        columns.start_us.push((start_s * 1e6) as u64);
        columns.duration_ms.push((random.latency_ms([38.0, 140.0][usize::from(workload)]) * stall) as f32);
        columns.outcome.push(if number + 3 >= iterations { 2 } else { u8::from(chance < 0.008 * stall) });
        columns.trace_id.push(*ids.base_id(workload, number as u64).as_bytes());
    }
    let mut order: Vec<usize> = (0..iterations).filter(|n| columns.outcome[*n] < 2).collect();
    order.sort_by(|a, b| columns.duration_ms[*b].total_cmp(&columns.duration_ms[*a]));
    let mut slowest: Vec<SlowIteration> =
        order.iter().take(10).enumerate().map(|(rank, row)| slow(&columns, *row, rank)).collect();
    slowest.sort_by(|a, b| b.response_ms.total_cmp(&a.response_ms));
    slowest.iter_mut().enumerate().for_each(|(rank, slow)| learn(slow, rank));
    let sizes = [120, 38, 5].into_iter().zip(&slowest);
    let traces = sizes.map(|(size, slow)| trace(slow, size)).collect();
    let workloads = [0, 1].map(|index| workload(&columns, index)).into();
    Sample { results: results(workloads, slowest), iterations: columns, traces }
}

fn distribution(mut rows: Vec<(f64, Uuid)>) -> Distribution {
    rows.sort_by(|a, b| a.0.total_cmp(&b.0));
    let count = rows.len();
    let mut buckets: Vec<Bucket> = Vec::new();
    for (ms, trace_id) in &rows {
        let step = (ms.ln() / 1.05_f64.ln()).floor();
        let (from_ms, to_ms) = (1.05_f64.powf(step), 1.05_f64.powf(step + 1.0));
        match buckets.last_mut().filter(|last| last.from_ms == from_ms) {
            Some(last) => (last.count, last.trace_id) = (last.count + 1, *trace_id),
            None => buckets.push(Bucket { from_ms, to_ms, count: 1, trace_id: *trace_id }),
        }
    }
    let at = |percentile: f64| rows[rank(rows.len() as u64, percentile).unwrap_or(1) as usize - 1].0;
    let percentiles = [50.0, 75.0, 90.0, 95.0, 99.0, 99.9, 99.99]
        .map(|percentile| Percentile { percentile, value_ms: at(percentile) });
    Distribution {
        count: count as u64,
        min_ms: rows[0].0,
        mean_ms: rows.iter().map(|row| row.0).sum::<f64>() / count as f64,
        stddev_ms: rows[count / 2].0 / 3.0,
        max_ms: rows[count - 1].0,
        percentiles: percentiles.into(),
        over_range: 0,
        histogram: String::new(),
        buckets,
    }
}

fn workload(columns: &IterationColumns, index: u16) -> Workload {
    let rows = (0..columns.len()).filter(|row| columns.workload[*row] == index);
    let ended: Vec<usize> = rows.filter(|row| columns.outcome[*row] < 2).collect();
    let of = |factor: f64| {
        let rows = ended.iter().enumerate();
        let late = |n: usize| if n.is_multiple_of(9) { factor } else { 1.0 };
        rows.map(|(n, row)| {
            (f64::from(columns.duration_ms[*row]) * late(n), Uuid::from_bytes(columns.trace_id[*row]))
        })
        .collect::<Vec<_>>()
    };
    let failed = ended.iter().filter(|row| columns.outcome[**row] == 1).count() as u64;
    let total = ended.len() as u64;
    let counts = Counts {
        total: total + 10 * u64::from(index),
        ok: total - failed,
        failed,
        aborted: 3 * u64::from(index),
        dropped: 7 * u64::from(index),
    };
    let runner = [
        json!({"constant": {"times": 16_000, "concurrency": 16}}),
        json!({"rps": {"rate": 66.7, "duration": "60s"}}),
    ];
    let trace_ids = of(1.0).iter().take(5).map(|row| row.1).collect::<Vec<_>>();
    let actions = [
        ("authenticate", "POST {{ keystone }}/v3/auth/tokens", 0.4),
        ("list", "GET {{ keystone }}/v3/users?limit={{ limit }}", 0.5),
        ("delete", "DELETE {{ keystone }}/v3/users/{{ id }}", 0.1),
    ];
    Workload {
        comparison: (index == 0).then(|| comparison(trace_ids[0])),
        observer_effect: Some(effect()),
        series: Some(series()),
        name: NAMES[usize::from(index)].to_owned(),
        runner: runner[usize::from(index)].as_object().cloned().unwrap_or_default(),
        start_s: 0.0,
        duration_s: 60.4,
        iterations: counts,
        warm_up: Counts { total: 40, ok: 39, failed: 1, ..Counts::default() },
        unprofiled: 0,
        rate_per_s: total as f64 / 60.4,
        response_time: distribution(of(1.4)),
        service_time: distribution(of(1.0)),
        start_lag: distribution(of(0.4)),
        actions: actions
            .map(|(name, request, share)| action(name, request, share, &of(share), counts))
            .into(),
        errors: vec![
            error(
                "status",
                Some("list"),
                "503 Service Unavailable: the server is currently unable to handle the request",
                failed - failed / 3,
                &trace_ids,
            ),
            error("timeout", Some("authenticate"), "no answer within 5.00 s", failed / 3, &trace_ids[..2]),
        ],
    }
}

fn series() -> Series {
    let wave = |n: i32| 40.0 + 20.0 * (f64::from(n) / 5.0).sin();
    Series {
        start_s: 0.0,
        step_s: 1.0,
        completed: (0..60).map(|n| 260 + n % 7).collect(),
        failed: (0..60).map(|n| u64::from(n % 9 == 0)).collect(),
        p50_ms: (0..60).map(wave).collect(),
        p99_ms: (0..60).map(|n| 4.0 * wave(n)).collect(),
    }
}

fn effect() -> ObserverEffect {
    let at = |percentile, profiled_ms: f64, low_ms, high_ms| EffectAt {
        percentile,
        profiled_ms,
        control_ms: 38.0,
        difference_ms: profiled_ms - 38.0,
        low_ms,
        high_ms,
    };
    ObserverEffect {
        control_percent: 10.0,
        profiled: 14_400,
        control: 1_600,
        percentiles: vec![at(50.0, 39.1, 0.7, 1.5), at(99.0, 38.5, -4.0, 5.0)],
    }
}

fn comparison(worst: Uuid) -> Comparison {
    let kind = |detail: &str, share: f64, guilty: bool| ComparedKind {
        service: "keystone/public".to_owned(),
        name: "db".to_owned(),
        detail: detail.to_owned(),
        parent: "wsgi GET /v3/users".to_owned(),
        outside: false,
        delta_ms: 812.0 * share,
        share,
        share_low: share - 0.13,
        share_high: share + 0.09,
        slow_calls: 40.0,
        typical_calls: 2.0,
        more_calls_ms: 780.0 * share,
        slower_calls_ms: 32.0 * share,
        effect: 0.9,
        exceeding: 0.93,
        guilty,
        worst_trace_id: Some(worst),
        contrasts: vec![Contrast {
            attribute: "host".to_owned(),
            value: "controller-1".to_owned(),
            slow_share: 0.91,
            typical_share: 0.33,
        }],
    };
    let node = |depth, service: &str, name: &str, detail: &str, slow_ms, typical_ms, calls| ComparedNode {
        depth,
        service: service.to_owned(),
        name: name.to_owned(),
        detail: detail.to_owned(),
        slow_ms,
        typical_ms,
        slow_self_ms: if depth == 3 { slow_ms } else { 10.0 },
        typical_self_ms: if depth == 3 { typical_ms } else { 5.0 },
        slow_calls: calls,
        typical_calls: 1.0,
    };
    let kinds = [
        ("SELECT role.id FROM assignment WHERE actor_id = ?", 0.71, true),
        ("SELECT id FROM user", 0.2, false),
        ("SELECT 1", 0.004, false),
    ];
    Comparison {
        slow_percent: 1,
        slow: 160,
        typical: 160,
        left_out: 4,
        slow_ms: 900.0,
        typical_ms: 88.0,
        no_finding: None,
        kinds: kinds.map(|(detail, share, guilty)| kind(detail, share, guilty)).into(),
        clocks_moved: 1,
        clocks_inconsistent: 0,
        tree: vec![
            node(0, "bench", "iteration", "list-users", 900.0, 88.0, 1.0),
            node(1, "bench", "action", "list", 880.0, 80.0, 1.0),
            node(2, "keystone/public", "wsgi", "GET /v3/users", 870.0, 75.0, 1.0),
            node(
                3,
                "keystone/public",
                "db",
                "SELECT role.id FROM assignment WHERE actor_id = ?",
                600.0,
                20.0,
                40.0,
            ),
            node(3, "keystone/public", "db", "SELECT id FROM user", 190.0, 30.0, 2.0),
            node(3, "keystone/public", "redis", "", 10.0, 15.0, 1.0),
        ],
    }
}

fn error(class: &str, action: Option<&str>, message: &str, count: u64, trace_ids: &[Uuid]) -> ErrorClass {
    ErrorClass {
        class: class.to_owned(),
        action: action.map(str::to_owned),
        message: message.to_owned(),
        count,
        trace_ids: trace_ids.to_vec(),
    }
}

fn action(name: &str, request: &str, share: f64, rows: &[(f64, Uuid)], counts: Counts) -> Action {
    let phase = |part: f64| part * share * 50.0;
    Action {
        name: name.to_owned(),
        request: request.to_owned(),
        requests: counts,
        service_time: distribution(rows.to_vec()),
        response_time: distribution(rows.iter().map(|(ms, id)| (ms * 1.2, *id)).collect()),
        phases: Phases {
            resolve_ms: 0.0,
            connect_ms: phase(0.02),
            tls_ms: phase(0.08),
            send_ms: phase(0.01),
            wait_ms: phase(0.8),
            receive_ms: phase(0.09),
            redirect_ms: 0.0,
        },
        status: BTreeMap::from([(200, counts.ok), (503, counts.failed)]),
        bytes_received: counts.ok * 5_120,
        connections_opened: 16,
        http2: 0,
        series: Some(series()),
    }
}

fn slow(columns: &IterationColumns, row: usize, rank: usize) -> SlowIteration {
    let duration_ms = f64::from(columns.duration_ms[row]);
    let failed = columns.outcome[row] == 1;
    let start_s = columns.start_us[row] as f64 / 1e6;
    let timing = |name: &str, from: f64, share: f64, status| ActionTiming {
        name: name.to_owned(),
        start_ms: duration_ms * from,
        duration_ms: duration_ms * share,
        status,
    };
    SlowIteration {
        iteration: IterationRow {
            trace_id: Uuid::from_bytes(columns.trace_id[row]),
            workload: columns.workload[row],
            number: row as u64,
            warm_up: false,
            profiled: true,
            due_s: start_s,
            start_s,
            duration_ms,
            outcome: if failed { IterationOutcome::Failed } else { IterationOutcome::Ok },
            error: failed.then(|| "status".to_owned()),
        },
        response_ms: duration_ms * if rank == 0 || rank == 5 { 1.4 } else { 1.0 },
        actions: vec![
            timing("authenticate", 0.0, 0.3, Some(201)),
            timing("list", 0.31, 0.55, Some(if failed { 503 } else { 200 })),
            timing("delete", 0.87, 0.12, if rank == 4 { None } else { Some(204) }),
            timing("logout", 0.99, 0.01, Some(204)),
        ],
        trace: TraceState::NotFetched,
        culprit: None,
    }
}

/// What the collector told of the slowest.
fn learn(slow: &mut SlowIteration, rank: usize) {
    slow.trace = match rank {
        0 | 1 => TraceState::Complete,
        2 => TraceState::Partial,
        3 => TraceState::Absent,
        _ => return,
    };
    slow.culprit = (rank < 3).then(|| Culprit {
        name: "db".to_owned(),
        detail: "SELECT user.id, user.domain_id FROM user WHERE user.id = %(id)s".to_owned(),
        service: "keystone".to_owned(),
        host: "controller-1".to_owned(),
        calls: 40,
        self_ms: slow.iteration.duration_ms * 0.61,
        share: 0.61,
        path: vec!["wsgi".to_owned(), "identity.list_users".to_owned()],
    });
}

/// A request that reads the database once for each user; every tenth read fails, the last has no stop.
pub(super) fn trace(slow: &SlowIteration, points: usize) -> StoredTrace {
    let whole_us = (slow.iteration.duration_ms * 1e3) as i64;
    let step = whole_us / (points as i64 + 1);
    let incomplete = slow.trace == TraceState::Partial;
    let all = (0..points as i64).map(|n| {
        let (depth, name, length) = match n {
            0 => (0, "wsgi", whole_us),
            1 => (1, "identity.list_users", whole_us - 2 * step),
            n if n % 7 == 6 => (3, "redis", step / 3),
            _ => (2, "db", step * 4 / 5),
        };
        let start_us = if n < 2 { n * step } else { n * step + step / 10 };
        StoredPoint {
            depth,
            trace_id: Uuid::from_u128(1000 + n as u128).to_string(),
            parent_id: slow.iteration.trace_id.to_string(),
            name: name.to_owned(),
            detail: match n { 0 => "GET /v3/users", 1 => "", _ => "SELECT user.id, user.domain_id FROM user WHERE user.id = %(id)s" }.to_owned(),
            service: "keystone".to_owned(),
            project: "identity".to_owned(),
            host: "controller-1".to_owned(),
            start_us,
            duration_us: (!incomplete || n + 1 < points as i64).then_some(length as u64),
            self_us: if n < 2 { step as u64 } else { length as u64 },
            error: (n % 30 == 29).then(|| "DBDeadlock: lock wait timeout exceeded".to_owned()),
            info: json!({"db": {"statement": "SELECT user.id FROM user WHERE user.id = %(id)s", "params": {"id": n}}, "host": "controller-1"}),
            stop_info: json!({}),
        }
    });
    let points: Vec<StoredPoint> = all.collect();
    StoredTrace {
        trace_id: slow.iteration.trace_id,
        state: slow.trace,
        records: points.iter().flat_map(records).collect(),
        unreadable: 0,
        points,
    }
}

/// A point's start and, if it has one, its stop; the tree is flat.
fn records(point: &StoredPoint) -> Vec<Record> {
    let record = |suffix: &str, us: i64| Record {
        name: format!("{}{suffix}", point.name),
        base_id: point.parent_id.clone(),
        trace_id: point.trace_id.clone(),
        parent_id: point.parent_id.clone(),
        timestamp: format!("2025-11-20T12:00:{:02}.{:06}", us / 1_000_000, us % 1_000_000),
        info: point.info.as_object().cloned().unwrap_or_default(),
        project: Some(point.project.clone()),
        service: Some(point.service.clone()),
    };
    let stop = point.duration_us.map(|us| record("-stop", point.start_us + us as i64));
    std::iter::once(record("-start", point.start_us)).chain(stop).collect()
}

fn criterion(
    workload: usize,
    name: &str,
    condition: &str,
    observed: &str,
    outcome: Outcome,
    trace_ids: Vec<Uuid>,
) -> Criterion {
    Criterion {
        workload: NAMES[workload].to_owned(),
        criterion: name.to_owned(),
        condition: condition.to_owned(),
        observed: observed.to_owned(),
        outcome,
        severity: Severity::Fail,
        reason: (outcome == Outcome::Invalid).then(|| "no request of this action completed".to_owned()),
        measured: (outcome == Outcome::Fail).then(|| Measured {
            unit: "ms".to_owned(),
            limit: 200.0,
            value: 287.0,
            low: Some(261.0),
            high: Some(320.0),
        }),
        aborted: outcome == Outcome::Fail,
        samples: 16_000,
        trace_ids,
    }
}

fn results(workloads: Vec<Workload>, slowest: Vec<SlowIteration>) -> Results {
    let broke = slowest.iter().take(5).map(|slow| slow.iteration.trace_id).collect();
    Results {
        format: FORMAT.to_owned(),
        version: VERSION,
        verdict: Verdict {
            outcome: Outcome::Fail,
            invalid: Vec::new(),
            criteria: vec![
                criterion(0, "failure_rate", "failure rate at most 1 %", "0.86 %", Outcome::Pass, vec![]),
                criterion(
                    0,
                    "p99",
                    "p99 of the response time at most 200 ms",
                    "287 ms",
                    Outcome::Fail,
                    broke,
                ),
                criterion(
                    1,
                    "max_avg_duration_per_atomic",
                    "mean of `list` at most 100 ms",
                    "no samples",
                    Outcome::Invalid,
                    vec![],
                ),
            ],
        },
        run: run(),
        scenario: ScenarioInfo {
            title: "Keystone under load".to_owned(),
            file: "scenarios/keystone.yaml".to_owned(),
            sha256: "6d2c0b5f".repeat(8),
            set: BTreeMap::from([("limit".to_owned(), "50".to_owned())]),
        },
        deployment: deployment(),
        profiling: profiling(),
        environment: environment(),
        generator: None,
        record: None,
        findings: vec![Finding {
            name: "db".to_owned(),
            detail: "SELECT role.id FROM assignment".to_owned(),
            service: "keystone".to_owned(),
            path: vec!["wsgi GET /v3/users".to_owned()],
            iterations: 2,
            of: 3,
            median_self_ms: 412.0,
            median_share: 0.71,
            median_calls: 40.0,
            trace_ids: Vec::new(),
        }],
        notes: vec!["The load generator was late by more than 1 ms for 3 % of the iterations.".to_owned()],
        workloads,
        slowest,
    }
}

fn environment() -> Environment {
    Environment {
        bench_version: "0.1.0".to_owned(),
        os: "linux x86_64".to_owned(),
        host: "ci".to_owned(),
        cpus: 8,
        workers: 4,
    }
}

fn run() -> Run {
    Run {
        id: Uuid::from_u128(9),
        id_seed: Uuid::from_u128(42),
        status: RunStatus::Finished,
        started_at: "2025-11-20T12:00:00Z".to_owned(),
        duration_s: 60.4,
        error: None,
    }
}

fn deployment() -> DeploymentInfo {
    DeploymentInfo {
        demo: None,
        name: "staging".to_owned(),
        file: "deployments/staging.yaml".to_owned(),
        targets: BTreeMap::from([(
            "keystone".to_owned(),
            "https://keystone.staging.example:5000".to_owned(),
        )]),
        tls_verified: false,
        auth: "keystone".to_owned(),
    }
}

fn profiling() -> Profiling {
    Profiling {
        enabled: true,
        reason: None,
        collector: Some("redis://collector.example:6379/0".to_owned()),
        fetched: BTreeMap::from([
            (TraceState::Complete, 2),
            (TraceState::Partial, 1),
            (TraceState::Absent, 1),
        ]),
        collector_error: None,
        fetch_s: Some(1.2),
        published: 0,
    }
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
