//! A fetched trace, as stored in the run directory and as shown in reports.
//!
//! The file `traces/<trace_id>.json` has the records as they came from the collector, so that every analysis is
//! possible offline. The points are computed from the records when the file is read.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::client_points::REPORTER;
use super::model::TraceState;
use super::rpc::with_queues;
use crate::osprofiler::record::{Info, Record};
use crate::osprofiler::report::{Point, TraceTree};

/// A fetched trace.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(from = "TraceFile")]
pub struct StoredTrace {
    /// OSProfiler's base_id.
    pub trace_id: Uuid,
    /// Its state in the collector.
    pub state: TraceState,
    /// The records from the collector, oldest first.
    pub records: Vec<Record>,
    /// How many further records of the collector could not be read.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unreadable: u64,
    /// How long after the response of its iteration it was read, in nanoseconds; absent where that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_after_ns: Option<u64>,
    /// From the iteration's start to the end of its last span; absent without `end: asynchronous`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asynchronous_ms: Option<f64>,
    /// Its points, depth first, each parent before its children, children by start.
    #[serde(skip)]
    pub points: Vec<StoredPoint>,
}

#[derive(Deserialize)]
struct TraceFile {
    trace_id: Uuid,
    records: Vec<Record>,
    #[serde(default)]
    unreadable: u64,
    #[serde(default)]
    read_after_ns: Option<u64>,
    #[serde(default)]
    asynchronous_ms: Option<f64>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// One trace point of a stored trace.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct StoredPoint {
    /// 0 for a root.
    pub depth: u32,
    /// The point's id.
    pub trace_id: String,
    /// Its parent's id.
    pub parent_id: String,
    /// Its name, such as `wsgi` or `db`.
    pub name: String,
    /// What it did, in a few words: a statement, a method and path.
    pub detail: String,
    /// The service that reported it.
    pub service: String,
    /// The project that reported it.
    pub project: String,
    /// The host that reported it.
    pub host: String,
    /// Offset from the trace's first record, in microseconds.
    pub start_us: i64,
    /// `None` if its stop (or its start) is missing.
    pub duration_us: Option<u64>,
    /// Duration without the union of its children, in microseconds.
    pub self_us: u64,
    /// The exception that it ended with.
    pub error: Option<String>,
    /// What was recorded at its start.
    pub info: Arc<Info>,
    /// What was recorded at its stop.
    #[serde(default)]
    pub stop_info: Arc<Info>,
}

impl StoredTrace {
    /// A trace with its points.
    #[must_use]
    pub fn new(trace_id: Uuid, records: Vec<Record>, unreadable: u64) -> Self {
        let tree = with_queues(TraceTree::build(&records).with_unreadable(unreadable));
        Self::of_tree(trace_id, records, &tree)
    }

    /// A trace with its points, from the tree of its records.
    #[must_use]
    pub fn of_tree(trace_id: Uuid, records: Vec<Record>, tree: &TraceTree) -> Self {
        let points = tree.points.iter().map(StoredPoint::from).collect();
        let (unreadable, read_after_ns, asynchronous_ms) = (tree.unreadable, None, None);
        Self { trace_id, state: state(tree), records, unreadable, read_after_ns, asynchronous_ms, points }
    }

    /// Its tree, with the times that messages of RPC waited.
    #[must_use]
    pub fn tree(&self) -> TraceTree {
        with_queues(TraceTree::build(&self.records).with_unreadable(self.unreadable))
    }

    /// The records of the services, without the client's own.
    #[must_use]
    pub fn services(&self) -> Vec<Record> {
        let own = |record: &&Record| record.project.as_deref() != Some(REPORTER);
        self.records.iter().filter(own).cloned().collect()
    }
}

impl From<TraceFile> for StoredTrace {
    fn from(file: TraceFile) -> Self {
        let TraceFile { trace_id, records, unreadable, read_after_ns, asynchronous_ms } = file;
        Self { read_after_ns, asynchronous_ms, ..Self::new(trace_id, records, unreadable) }
    }
}

/// The state of a trace, from its tree.
#[must_use]
pub fn state(tree: &TraceTree) -> TraceState {
    // The client's own points do not come from the collector.
    let mut services =
        tree.points.iter().filter(|point| point.project.as_deref() != Some(REPORTER)).peekable();
    if tree.unreadable > 0 {
        return TraceState::Partial;
    }
    if services.peek().is_none() {
        return TraceState::Absent;
    }
    if services.any(|point| point.duration_us.is_none()) { TraceState::Partial } else { TraceState::Complete }
}

impl From<&Point> for StoredPoint {
    fn from(point: &Point) -> Self {
        Self {
            depth: u32::try_from(point.depth).unwrap_or(u32::MAX),
            trace_id: point.trace_id.clone(),
            parent_id: point.parent_id.clone(),
            name: point.name.clone(),
            detail: point.detail(),
            service: point.service.clone().unwrap_or_default(),
            project: point.project.clone().unwrap_or_default(),
            host: point.host.clone().unwrap_or_default(),
            start_us: i64::try_from(point.start_us).unwrap_or(i64::MAX),
            duration_us: point.duration_us,
            self_us: point.self_us.unwrap_or(0),
            error: point.error.as_ref().map(|error| format!("{}: {}", error.etype, error.message)),
            info: Arc::clone(&point.info),
            stop_info: Arc::clone(&point.stop_info),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_trace_with_a_record_that_cannot_be_read_is_not_complete() {
        let record = |name: &str, second: u32| {
            serde_json::from_value::<Record>(json!({
                "name": name, "base_id": "b", "trace_id": "t", "parent_id": "b",
                "timestamp": format!("2026-11-20T22:52:{second:02}.000000"),
            }))
            .unwrap()
        };
        let both = || vec![record("wsgi-start", 1), record("wsgi-stop", 2)];
        for (records, unreadable, expected) in [
            (both(), 0, TraceState::Complete),
            (both(), 1, TraceState::Partial),
            (both()[..1].to_vec(), 0, TraceState::Partial),
            (Vec::new(), 0, TraceState::Absent),
            (Vec::new(), 2, TraceState::Partial),
        ] {
            let trace = StoredTrace::new(Uuid::nil(), records, unreadable);
            assert_eq!(trace.state, expected);
            let again: StoredTrace = serde_json::from_str(&serde_json::to_string(&trace).unwrap()).unwrap();
            assert_eq!(
                (again.state, again.unreadable, again.tree().unreadable),
                (expected, unreadable, unreadable)
            );
            assert_eq!(trace.tree().is_whole(), unreadable == 0 && trace.records.len() != 1);
        }
    }
}
