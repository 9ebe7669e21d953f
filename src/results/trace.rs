//! A fetched trace, as stored in the run directory and as shown in reports.
//!
//! The file `traces/<trace_id>.json` has the records as they came from the collector, so that every analysis is
//! possible offline. The tree is built from the records when the file is read.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize};
use uuid::Uuid;

use super::client_points::REPORTER;
use super::functions::Functions;
use super::model::TraceState;
use super::rpc::with_queues;
use osprofiler::record::{TraceRecord, share};
use osprofiler::report::{Gaps, Point, TracePointCounts, TraceTree, count_points};

/// A fetched trace.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(from = "StoredRecords")]
pub struct StoredTrace {
    /// OSProfiler's base_id.
    pub trace_id: Uuid,
    /// Its state in the collector.
    pub state: TraceState,
    /// The records from the collector, oldest first; none of a trace whose file has them and that needs them no more.
    pub records: Vec<TraceRecord>,
    /// How many further records of the collector could not be read.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unreadable: u64,
    /// That these are only a part of the trace, and why, if the collector says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partial: Option<String>,
    /// How long after the response of its iteration it was read, in nanoseconds; absent where that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_after_ns: Option<u64>,
    /// From the iteration's start to the end of its last span; absent without `end: asynchronous`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asynchronous_ms: Option<f64>,
    /// Its points, with the times that messages of RPC waited.
    #[serde(skip)]
    pub tree: Arc<TraceTree>,
    /// The functions that services reported with it.
    #[serde(skip)]
    pub functions: Arc<Functions>,
    /// Whether its file has just this, so that it need not be written.
    #[serde(skip)]
    pub filed: TraceFileState,
}

/// Whether a trace is in its file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TraceFileState {
    /// There is no file, or it has something else.
    #[default]
    No,
    /// Written, but a loss of power may still take it away.
    Written,
    /// Written and synced.
    Synced,
}

/// The file of a trace, without what is computed from it.
#[derive(Clone, Debug, Deserialize)]
pub struct StoredRecords {
    /// OSProfiler's base_id.
    pub trace_id: Uuid,
    /// The records, oldest first; equal infos are one.
    #[serde(deserialize_with = "shared")]
    pub records: Vec<TraceRecord>,
    /// How many further records of the collector could not be read.
    #[serde(default)]
    pub unreadable: u64,
    /// As in [`StoredTrace`].
    #[serde(default)]
    pub partial: Option<String>,
    /// As in [`StoredTrace`].
    #[serde(default)]
    pub read_after_ns: Option<u64>,
    /// As in [`StoredTrace`].
    #[serde(default)]
    pub asynchronous_ms: Option<f64>,
}

fn shared<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<TraceRecord>, D::Error> {
    let mut records = Vec::deserialize(deserializer)?;
    share(&mut records);
    Ok(records)
}

impl StoredRecords {
    /// Its state in the collector, as [`state`] says for the tree.
    #[must_use]
    pub fn state(&self) -> TraceState {
        let TracePointCounts { points, incomplete, unreadable, gaps } =
            count_points(&self.records, is_of_service);
        let has_client = self.records.iter().any(|record| !is_of_service(record));
        // Without the client's points, the parents of services' outermost ones are not here.
        let gaps = if has_client { gaps } else { Gaps { lost_parents: 0, lost_callers: 0, ..gaps } };
        let gaps = Gaps { partial: self.partial.as_deref().map(Into::into), ..gaps };
        state_of(points, incomplete, self.unreadable.saturating_add(unreadable), &gaps, has_client)
    }

    /// The records of the services, and the client's own.
    #[must_use]
    pub fn split(records: Vec<TraceRecord>) -> (Vec<TraceRecord>, Vec<TraceRecord>) {
        // Fetched ones have none of the client's, and stay where they are.
        if records.iter().all(is_of_service) {
            return (records, Vec::new());
        }
        records.into_iter().partition(is_of_service)
    }
}

fn is_of_service(record: &TraceRecord) -> bool {
    record.project.as_deref() != Some(REPORTER)
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl StoredTrace {
    /// A trace with its tree.
    #[must_use]
    pub fn new(trace_id: Uuid, records: Vec<TraceRecord>, unreadable: u64, partial: Option<String>) -> Self {
        let tree = TraceTree::build(&records).with_unreadable(unreadable).with_partial(partial.as_deref());
        let tree = Arc::new(with_queues(tree));
        let (read_after_ns, asynchronous_ms) = (None, None);
        let functions = Arc::new(Functions::of(&records));
        Self {
            trace_id,
            state: state(&tree),
            records,
            unreadable,
            partial,
            read_after_ns,
            asynchronous_ms,
            tree,
            functions,
            filed: TraceFileState::No,
        }
    }

    /// Lets go of what its file has.
    pub fn forget_records(&mut self) {
        self.records = Vec::new();
    }

    /// The records of the services, without the client's own.
    pub fn services(&self) -> impl Iterator<Item = &TraceRecord> + Clone {
        self.records.iter().filter(|record| is_of_service(record))
    }
}

impl From<StoredRecords> for StoredTrace {
    fn from(file: StoredRecords) -> Self {
        let StoredRecords { trace_id, records, unreadable, partial, read_after_ns, asynchronous_ms } = file;
        Self { read_after_ns, asynchronous_ms, ..Self::new(trace_id, records, unreadable, partial) }
    }
}

/// Takes no more for missing what is missing in most of these traces of one run that have such a point at all: a service that
/// calls it does not report. What only few of them lack was lost.
pub fn excuse_usual<'a>(traces: impl IntoIterator<Item = &'a mut StoredTrace>) {
    let traces: Vec<&mut StoredTrace> = traces.into_iter().collect();
    if traces.iter().all(|trace| trace.tree.gaps.parents() == 0) {
        return;
    }
    // In how many traces there is such a point, and in how many of them one without a parent.
    let mut seen: HashMap<TracePointKey<'_>, (usize, usize)> = HashMap::new();
    for trace in &traces {
        let all: HashSet<TracePointKey<'_>> = of_services(&trace.tree).map(place).collect();
        all.iter().for_each(|place| seen.entry(*place).or_default().0 += 1);
        let roots: HashSet<TracePointKey<'_>> = roots(&trace.tree).map(place).collect();
        roots.iter().for_each(|place| seen.entry(*place).or_default().1 += 1);
    }
    let is_usual =
        |point: &Point| seen.get(&place(point)).is_some_and(|(of, roots)| *of > 1 && 2 * roots > *of);
    let is_excused: Vec<bool> = traces
        .iter()
        .map(|trace| trace.tree.gaps.parents() > 0 && roots(&trace.tree).all(is_usual))
        .collect();
    drop(seen);
    for (trace, _) in traces.into_iter().zip(is_excused).filter(|(_, is_excused)| *is_excused) {
        let tree = Arc::make_mut(&mut trace.tree);
        (tree.gaps.lost_parents, tree.gaps.lost_callers) = (0, 0);
        trace.state = state(&trace.tree);
    }
}

/// Project, service and name of a point.
type TracePointKey<'a> = (Option<&'a str>, Option<&'a str>, &'a str);

fn place(point: &Point) -> TracePointKey<'_> {
    (point.project.as_deref(), point.service.as_deref(), &point.name)
}

fn of_services(tree: &TraceTree) -> impl Iterator<Item = &Point> {
    tree.points.iter().filter(|point| point.project.as_deref() != Some(REPORTER))
}

/// A trace's points of services without a parent.
fn roots(tree: &TraceTree) -> impl Iterator<Item = &Point> {
    of_services(tree).filter(|point| point.parent.is_none())
}

/// The state of a trace, from its tree.
#[must_use]
pub fn state(tree: &TraceTree) -> TraceState {
    // The client's own points do not come from the collector.
    let incomplete = of_services(tree).filter(|point| point.duration_us.is_none()).count();
    let points = of_services(tree).count();
    state_of(points, incomplete, tree.unreadable, &tree.gaps, points < tree.points.len())
}

/// `points`: how many points are of services; `incomplete`: how many of these are incomplete. With the client's points,
/// a missing caller is one whose service may not report; else it is of the trace.
fn state_of(points: usize, incomplete: usize, unreadable: u64, gaps: &Gaps, has_client: bool) -> TraceState {
    let lost_callers = if has_client { 0 } else { gaps.lost_callers };
    let is_whole = incomplete == 0 && Gaps { lost_callers, ..gaps.clone() } == Gaps::default();
    match (points, unreadable) {
        (0, 0) if gaps.partial.is_none() => TraceState::Absent,
        (_, 0) if is_whole => TraceState::Complete,
        _ => TraceState::Partial,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_trace_with_a_record_that_cannot_be_read_is_not_complete() {
        let record = |name: &str, second: u32| {
            serde_json::from_value::<TraceRecord>(json!({
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
            let trace = StoredTrace::new(Uuid::nil(), records, unreadable, None);
            assert_eq!(trace.state, expected);
            let again: StoredTrace = serde_json::from_str(&serde_json::to_string(&trace).unwrap()).unwrap();
            assert_eq!(
                (again.state, again.unreadable, again.tree.unreadable),
                (expected, unreadable, unreadable)
            );
            assert_eq!(trace.tree.is_whole(), unreadable == 0 && trace.records.len() != 1);
        }
    }
}
