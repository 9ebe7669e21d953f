//! The calls in traces that may wait for each other: points of one name in one process's traces, with the time from which
//! each could have begun.
//!
//! A call could begin when its caller had begun and no earlier call of it was open. What passes from then on is waiting, or
//! the caller's own work; how much of it is usual, traces without waiting tell. Only times of one host are compared.

use std::collections::{BTreeMap, BTreeSet};

use osprofiler::report::{Point, TraceTree};
use results::client_points::REPORTER;

use crate::servers::QueuedCall;

/// Calls that may share servers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CallGroup {
    /// The project and service that reported them.
    pub service: String,
    /// The same of their callers; `bench` for the client's.
    pub caller: String,
    /// The host of both ends.
    pub host: String,
    /// Their name, such as `db`.
    pub name: String,
    /// True for the points at which requests enter a service.
    pub enters: bool,
}

/// The calls of all groups in these traces, which must have the client's points.
#[must_use]
pub fn of_traces<'a>(trees: impl IntoIterator<Item = &'a TraceTree>) -> BTreeMap<CallGroup, Vec<QueuedCall>> {
    let mut groups: BTreeMap<CallGroup, Vec<QueuedCall>> = BTreeMap::new();
    for tree in trees {
        // When siblings ended so far, by parent; they come in the order of their starts.
        let mut ended: Vec<BTreeSet<u64>> = vec![BTreeSet::new(); tree.points.len()];
        for (index, point) in tree.points.iter().enumerate() {
            let Some(parent) = point.parent.filter(|parent| *parent < index) else { continue };
            let before = ended[parent].range(..=point.start_us).next_back().copied();
            ended[parent].extend(point.end_us());
            let Some(group) = group_of(tree, index) else { continue };
            let Some(end_us) = point.end_us() else { continue };
            let caller_us = tree.points[parent].start_us;
            let ready_us = before.map_or(caller_us, |before| before.max(caller_us));
            let at = |us: u64| tree.first_unix_us.saturating_add(i64::try_from(us).unwrap_or(i64::MAX));
            let start_us = at(point.start_us);
            let call = QueuedCall {
                ready_us: at(ready_us).min(start_us),
                start_us,
                end_us: at(end_us).max(start_us),
            };
            groups.entry(group).or_default().push(call);
        }
    }
    groups
}

/// The group that a point is a call of.
#[must_use]
pub fn group_of(tree: &TraceTree, index: usize) -> Option<CallGroup> {
    let point = &tree.points[index];
    let caller = &tree.points[point.parent.filter(|parent| *parent < index)?];
    if is_client(point) || !point.starts {
        return None;
    }
    // A clock of another host does not tell when its caller was ready.
    if !is_client(caller) && caller.host != point.host {
        return None;
    }
    Some(CallGroup {
        service: point.reporter(),
        caller: caller.reporter(),
        host: point.host.as_deref().unwrap_or_default().to_owned(),
        name: point.name.to_string(),
        enters: caller.reporter() != point.reporter(),
    })
}

/// Whether a point is the client's own.
fn is_client(point: &Point) -> bool {
    point.project.as_deref() == Some(REPORTER)
}

/// How long calls usually could have begun before they did, where nothing waits: nine in ten did within this time, in
/// microseconds.
#[must_use]
pub fn usual_us(calls: &[QueuedCall]) -> i64 {
    let mut gaps: Vec<i64> = calls.iter().map(|call| call.start_us - call.ready_us).collect();
    gaps.sort_unstable();
    gaps.get(gaps.len() * 9 / 10).copied().unwrap_or(0)
}
