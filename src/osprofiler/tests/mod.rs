//! Checks against what the real programs produced (`tests/vectors`), and against hostile input.

#[cfg(feature = "tower")]
mod ambient;
#[cfg(feature = "tower")]
mod clients;
#[cfg(all(feature = "mysql", feature = "postgres", feature = "redis", feature = "sqlite"))]
mod collectors;
#[cfg(feature = "sqlite")]
mod collectors_sqlite;
mod files;
#[cfg(feature = "profiles")]
mod functions;
#[cfg(feature = "tower")]
mod grpc;
mod headers;
#[cfg(feature = "tracing")]
mod instrumented;
#[cfg(feature = "tower")]
mod middleware;
mod notifiers;
#[cfg(all(feature = "sqlx", feature = "sqlite"))]
mod pools;
#[cfg(feature = "tower")]
mod profilers;
#[cfg(feature = "tracing")]
mod programs;
#[cfg(feature = "reqwest")]
mod requests;
#[cfg(feature = "spans")]
mod resources;
#[cfg(feature = "spans")]
mod spans;
#[cfg(feature = "spans")]
mod spans_linked;
mod trees;

use std::sync::{Arc, Mutex};

use serde_json::Value;
use uuid::Uuid;

use super::notifier::Notifier;
use super::record::{ServiceIdentity, TraceRecord};
use super::report::{Point, TraceTree};
use super::signing::Signer;
use super::trace::TraceHandle;

/// Keeps what it gets.
#[derive(Default)]
struct MemoryNotifier(Mutex<Vec<TraceRecord>>);

impl Notifier for MemoryNotifier {
    fn notify(&self, record: TraceRecord) {
        self.0.lock().unwrap().push(record);
    }
}

impl MemoryNotifier {
    fn records(&self) -> Vec<TraceRecord> {
        self.0.lock().unwrap().clone()
    }

    fn names(&self) -> Vec<String> {
        self.records().into_iter().map(|record| record.name.into()).collect()
    }
}

fn identity() -> Arc<ServiceIdentity> {
    Arc::new(ServiceIdentity { project: "demo".into(), service: "api".into(), host: "vm".into() })
}

fn vectors() -> Value {
    serde_json::from_str(include_str!("../../../tests/vectors/osprofiler-vectors.json")).unwrap()
}

fn record(name: &str, trace_id: &str, parent_id: &str, us: u32) -> TraceRecord {
    TraceRecord {
        name: name.into(),
        base_id: "base".into(),
        trace_id: trace_id.into(),
        parent_id: parent_id.into(),
        timestamp: format!("2026-11-20T22:52:{:02}.{:06}", us / 1_000_000, us % 1_000_000).into(),
        info: serde_json::Map::new().into(),
        project: None,
        service: None,
    }
}

/// A trace that starts here and is recorded by `notifier`.
fn trace(notifier: &Arc<MemoryNotifier>, signer: Option<Signer>) -> TraceHandle {
    TraceHandle::start(Uuid::new_v4(), signer, identity(), Arc::clone(notifier) as Arc<dyn Notifier>)
}

/// The tree as text: a point on each line, indented, with its error if it has one.
fn outline(records: &[TraceRecord]) -> Vec<String> {
    let points = TraceTree::build(records).points;
    let line = |point: &Point| {
        let error = point.error.as_ref().map(|error| format!(" {}: {}", error.etype, error.message));
        format!("{}{}{}", "  ".repeat(point.depth), point.name, error.unwrap_or_default())
    };
    points.iter().map(line).collect()
}

/// The stop's info of the only point with this name.
fn stop_info(records: &[TraceRecord], name: &str) -> Value {
    let name = format!("{name}-stop");
    let stops: Vec<_> = records.iter().filter(|record| record.name == name).collect();
    assert_eq!(stops.len(), 1, "{name}");
    Value::Object((*stops[0].info).clone())
}
