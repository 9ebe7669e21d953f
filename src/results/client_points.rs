//! The client's trace points of an iteration, made from the run log.
//!
//! They are the parents of the services' points. `iteration` lasts from when it was due to its end. It contains the
//! `scheduling delay` until it started, a `group` for each group of steps, and an `action` for each action. An `action`
//! contains the phases of the request except the waiting: that is the time of the services and the network. The
//! services got the action's id as their parent, so a single tree reaches from the user to the last statement. Nothing
//! here may read a clock.

use std::collections::HashMap;
use std::net::IpAddr;

use serde_json::{Map, Value, json};
use uuid::Uuid;

use base::ids::span_id;
use config::data::{Order, Per};
use measure::errors::Failure;
use measure::log::{RunLog, WorkloadHeader};
use measure::phases::Retransmits;
use measure::protocol::Protocol;
use measure::sample::{ActionSample, CompletionStatus, IterationSample};
use osprofiler::record::{Info, START_SUFFIX, STOP_SUFFIX, Timestamp, TraceRecord};
use terms::allocation::{Allocation, Taker};

/// The project and service that report these points.
pub const REPORTER: &str = "bench";
/// The name of the point for the whole iteration.
pub const ITERATION: &str = "iteration";
/// The name of an action's point.
pub const ACTION: &str = "action";
/// The name of the point of a group of steps.
pub const GROUP: &str = "group";
/// The key of the rows of data that an iteration used: a map from the data's name to the row's number, from 1.
pub const ROWS: &str = "rows";
/// The key of the address that an action's answer came from, if its host has several.
pub const ADDRESS: &str = "address";
/// The keys of what TCP had to repeat: requests to connect, of the point `connect`; segments of a request, and of its answer.
pub const SYNS_RESENT: &str = "syns_resent";
/// See [`SYNS_RESENT`].
pub const SEGMENTS_RESENT: &str = "segments_resent";
/// See [`SYNS_RESENT`].
pub const OUT_OF_ORDER: &str = "segments_out_of_order";
/// The name of the point for opening a connection.
pub const CONNECT: &str = "connect";
/// The name of the time until an iteration started.
pub const QUEUE_TIME_POINT: &str = "scheduling delay";

/// Numbers of points that are larger than any request's.
const PHASE_POINTS: u32 = 1 << 31;

/// What the log says beside samples, which refer to it by numbers.
#[derive(Clone, Copy)]
pub struct SampleReferences<'a> {
    /// The iteration's fault, if any.
    pub failure: Option<&'a Failure>,
    /// The addresses of hosts that have several.
    pub addresses: &'a HashMap<u16, IpAddr>,
}

/// The records of an iteration, oldest first if points begin at different times.
#[must_use]
pub fn records(log: &RunLog, sample: &IterationSample, known: SampleReferences<'_>) -> Vec<TraceRecord> {
    let SampleReferences { failure, addresses } = known;
    let mut client = Client::new(log, sample);
    let Some(workload) = log.header.workloads.get(usize::from(sample.workload)) else { return Vec::new() };
    let end_ns = sample.start_ns.saturating_add(sample.duration_ns);
    let (base, iteration) = (client.point(0), client.point(1));
    let mut info = json!({"name": workload.name, "number": sample.number});
    let rows = rows(workload, log.header.data_seed, sample);
    if !rows.is_empty() {
        info[ROWS] = rows.into();
    }
    let stop = failure.map(|failure| json!({"etype": failure.class, "message": failure.message}));
    client.add(ITERATION, &iteration, &base, (sample.due_ns, end_ns), info, stop);
    if sample.queue_time_ns() > 0 {
        let id = client.point(PHASE_POINTS);
        client.add(QUEUE_TIME_POINT, &id, &iteration, (sample.due_ns, sample.start_ns), json!({}), None);
    }
    for (place, action) in (0..).zip(&sample.actions) {
        let (id, parent) = (client.point(action.point), client.point(action.parent));
        let (name, request) = workload.actions.get(usize::from(action.action)).cloned().unwrap_or_default();
        let start_ns = sample.start_ns.saturating_add(action.offset_ns);
        let time_ns = (start_ns, start_ns.saturating_add(action.duration_ns));
        if action.requests == 0 {
            let stop = (action.ended == CompletionStatus::Failed).then(|| json!({"etype": "failed"}));
            client.add(GROUP, &id, &parent, time_ns, json!({"name": name, "kind": request}), stop);
            continue;
        }
        let mut info = json!({"name": name, "request_line": request});
        if action.protocol == Protocol::Grpc {
            add_rpc(&mut info, &request);
        }
        let stream = sample.streams.iter().find(|stream| stream.point == action.point);
        let mut stop = stop_info(action, addresses);
        if let Some(stream) = stream {
            stop["messages"] = stream.messages.into();
        }
        client.add(ACTION, &id, &parent, time_ns, info, Some(stop));
        if action.requests == 1 {
            client.phases((place, stream.is_some()), action, start_ns, &id);
        }
    }
    client.records
}

/// Links services' points to the client's if a collector kept only the low 64 bits of ids. Span stores do so with spans
/// from OSProfiler's OTLP driver. Returns whether there was anything to link.
pub fn link(services: &mut [TraceRecord], client: &[TraceRecord]) -> bool {
    let short = |id: &str| id.parse::<Uuid>().ok().map(|id| format!("{:016x}", span_id(id)));
    let known: HashMap<String, &str> = client
        .iter()
        .filter_map(|record| Some((short(&record.trace_id)?, record.trace_id.as_str())))
        .collect();
    let mut any = false;
    for record in services {
        if let Some(id) = known.get(record.parent_id.as_str()) {
            record.parent_id = (*id).into();
            any = true;
        }
    }
    any
}

/// The row of each of the workload's data that an iteration used, by the data's names; without those that the log does
/// not tell.
fn rows(workload: &WorkloadHeader, seed: Option<u64>, sample: &IterationSample) -> Map<String, Value> {
    let row = |data: &Allocation| {
        let user = sample.user.checked_sub(1);
        let is_told = (seed.is_some() || data.order() == Order::Sequential)
            && (user.is_some() || data.per() == Per::Iteration);
        let taker = Taker {
            seed: seed.unwrap_or(0),
            workload: sample.workload,
            iteration: sample.number,
            user: user.unwrap_or(0).into(),
        };
        let place = data.place(&taker).filter(|_| is_told)?;
        Some((data.name().to_string(), Value::from(place + 1)))
    };
    workload.data.iter().filter_map(row).collect()
}

/// Adds what OpenTelemetry's conventions say of a call, so that its point looks like that of a traced client.
fn add_rpc(info: &mut Value, request: &str) {
    let name = request.strip_prefix("grpc ").unwrap_or(request);
    let parts = name.split_once('/').or_else(|| name.rsplit_once('.'));
    info["rpc.system"] = "grpc".into();
    if let Some((service, method)) = parts {
        info["rpc.service"] = service.into();
        info["rpc.method"] = method.into();
    }
}

fn stop_info(action: &ActionSample, addresses: &HashMap<u16, IpAddr>) -> Value {
    let status = action.outcome.unwrap_or(0);
    let mut info = json!({"status": status, "body_bytes": action.body_bytes});
    let is_message = action.protocol == Protocol::WebSocket && action.outcome.is_none();
    if is_message {
        info = json!({"body_bytes": action.body_bytes});
    }
    if action.requests > 1 {
        info["requests"] = action.requests.into();
    }
    if action.protocol.is_http2(action.phases.version) {
        info["http"] = 2.into();
    }
    if let Some(address) = addresses.get(&action.phases.address) {
        info[ADDRESS] = address.to_string().into();
    }
    let Retransmits { segments, out_of_order, .. } = action.phases.retransmits;
    for (key, number) in [(SEGMENTS_RESENT, segments), (OUT_OF_ORDER, out_of_order)] {
        if number > 0 {
            info[key] = number.into();
        }
    }
    if action.ended == CompletionStatus::Failed {
        info["etype"] = "failed".into();
        let written = action.protocol.names().written;
        let status = format!("status {}", written(status));
        info["message"] = if is_message { "no message".to_owned() } else { status }.into();
    }
    info
}

struct Client<'a> {
    log: &'a RunLog,
    sample: &'a IterationSample,
    records: Vec<TraceRecord>,
}

impl<'a> Client<'a> {
    fn new(log: &'a RunLog, sample: &'a IterationSample) -> Self {
        Self { log, sample, records: Vec::new() }
    }

    fn point(&self, number: u32) -> String {
        self.log.ids().point_id(self.sample, number).to_string()
    }

    /// The phases of a request in order, without the waiting, which the services' points cover. While a stream is received,
    /// its service works on what comes next, so that is waiting, too.
    fn phases(
        &mut self,
        (place, is_streamed): (u32, bool),
        action: &ActionSample,
        start_ns: u64,
        parent: &str,
    ) {
        let phases = &action.phases;
        let mut at_ns = start_ns;
        let all = [
            ("redirect", phases.before_ns),
            ("resolve", phases.resolve_ns),
            (CONNECT, phases.connect_ns),
            ("TLS", phases.tls_ns),
            ("send", phases.send_ns),
            ("", phases.wait_ns),
            (if is_streamed { "" } else { "receive" }, phases.receive_ns),
        ];
        for (number, (name, ns)) in (1_u32..).zip(all) {
            let end_ns = at_ns.saturating_add(ns);
            // Records have whole microseconds.
            if !name.is_empty() && ns >= 1_000 {
                let id = self.point(PHASE_POINTS | place.wrapping_add(1) << 3 | number);
                let syns = phases.retransmits.syns;
                let stop = (name == CONNECT && syns > 0).then(|| json!({SYNS_RESENT: syns}));
                self.add(name, &id, parent, (at_ns, end_ns), json!({}), stop);
            }
            at_ns = end_ns;
        }
    }

    fn add(
        &mut self,
        name: &str,
        id: &str,
        parent: &str,
        time_ns: (u64, u64),
        info: Value,
        stop: Option<Value>,
    ) {
        let ids = (self.point(0), id, parent);
        let anchor_ns = self.log.header.started_unix_ns;
        let host = ("host".to_owned(), Value::from(self.log.header.environment.host.as_str()));
        let mut record = |suffix: &str, at_ns: u64, info: Option<Value>| {
            self.records.push(TraceRecord {
                name: format!("{name}{suffix}").into(),
                base_id: ids.0.as_str().into(),
                trace_id: ids.1.into(),
                parent_id: ids.2.into(),
                timestamp: Timestamp::from_unix_ns(anchor_ns.saturating_add(at_ns)),
                // OSProfiler's readers expect a host in each record.
                info: match info {
                    Some(Value::Object(info)) => {
                        info.into_iter().chain([host.clone()]).collect::<Info>().into()
                    }
                    _ => Info::from_iter([host.clone()]).into(),
                },
                project: Some(REPORTER.into()),
                service: Some(REPORTER.into()),
            });
        };
        record(START_SUFFIX, time_ns.0, Some(info));
        record(STOP_SUFFIX, time_ns.1, stop);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(id: &str, parent: &str) -> TraceRecord {
        TraceRecord {
            name: "a-start".into(),
            base_id: "b".into(),
            trace_id: id.into(),
            parent_id: parent.into(),
            timestamp: "2026-11-20T22:52:01.123456".into(),
            info: Info::new().into(),
            project: None,
            service: None,
        }
    }

    #[test]
    fn calls_of_grpc_are_named_as_traced_clients_name_them() {
        for request in ["grpc shop.v1.Orders/Get", "grpc shop.v1.Orders.Get"] {
            let mut info = json!({});
            add_rpc(&mut info, request);
            let expected =
                json!({"rpc.system": "grpc", "rpc.service": "shop.v1.Orders", "rpc.method": "Get"});
            assert_eq!(info, expected, "{request}");
        }
    }

    #[test]
    fn the_rows_of_an_iteration_are_those_that_it_took() {
        use config::data::OnEnd::{Error, Repeat};
        let allocation = |name: &str, order, per, on_end| Allocation::new(name, 20, order, per, on_end);
        let data = [
            allocation("ids", Order::Sequential, Per::Iteration, Repeat),
            allocation("names", Order::Shuffled, Per::Iteration, Error),
            allocation("teams", Order::Random, Per::User, Repeat),
            allocation("users", Order::Sequential, Per::User, Repeat),
        ];
        for (number, user, seed, expected) in [
            (16, 0, None, &[("ids", 17)][..]),
            (36, 0, None, &[("ids", 17)]),
            (16, 3, None, &[("ids", 17), ("users", 3)]),
            (16, 23, None, &[("ids", 17), ("users", 3)]),
            (16, 0, Some(7), &[("ids", 17), ("names", 0)]),
            (16, 3, Some(7), &[("ids", 17), ("names", 0), ("teams", 0), ("users", 3)]),
            // None of the names is left.
            (20, 0, Some(7), &[("ids", 1)]),
        ] {
            let workload = WorkloadHeader { data: data.to_vec(), ..WorkloadHeader::default() };
            let sample = IterationSample { workload: 2, number, user, ..IterationSample::default() };
            let found = rows(&workload, seed, &sample);
            let context = format!("{number} {user} {seed:?}: {found:?}");
            let names: Vec<&str> = found.keys().map(String::as_str).collect();
            assert_eq!(names, expected.iter().map(|(name, _)| *name).collect::<Vec<_>>(), "{context}");
            for (name, row) in expected {
                let of_seed = data.iter().find(|one| &**one.name() == *name).and_then(|one| {
                    let user = u64::from(user.saturating_sub(1));
                    one.place(&Taker { seed: seed.unwrap_or(0), workload: 2, iteration: number, user })
                });
                let row = if *row > 0 { *row } else { of_seed.unwrap() + 1 };
                assert_eq!(found[*name], row, "{context}");
                assert!((1..=20).contains(&row), "{context}");
            }
        }
    }

    #[test]
    fn short_ids_of_parents_become_whole() {
        let id = "3fa85f64-5717-4562-b3fc-2c963f66afa6";
        let client = [record(id, "b")];
        let mut services =
            [record("s", "b3fc2c963f66afa6"), record("t", id), record("u", "b3fc2c963f66afa7")];
        link(&mut services, &client);
        assert_eq!(services.map(|record| record.parent_id), [id, id, "b3fc2c963f66afa7"]);
    }
}
