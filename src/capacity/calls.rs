//! The calls in traces that may wait for each other: points of one name in one process's traces, with the time from which
//! each could have begun.
//!
//! A call could begin when its caller had begun and no earlier call of it was open. What passes from then on is waiting, or
//! the caller's own work; how much of it is usual, traces without waiting tell. Only times of one host are compared.

use std::collections::BTreeMap;

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
        for (index, point) in tree.points.iter().enumerate() {
            let Some((group, ready_us)) = ready(tree, index) else { continue };
            let Some(end_us) = point.end_us() else { continue };
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

/// The group of a point, and when it could have begun, in microseconds of its trace.
fn ready(tree: &TraceTree, index: usize) -> Option<(CallGroup, u64)> {
    let point = &tree.points[index];
    let parent = point.parent.filter(|parent| *parent < index)?;
    let caller = &tree.points[parent];
    if is_client(point) || !point.starts {
        return None;
    }
    // A clock of another host does not tell when its caller was ready.
    if !is_client(caller) && caller.host != point.host {
        return None;
    }
    let enters = caller.reporter() != point.reporter();
    let siblings =
        tree.points.iter().enumerate().filter(|(at, one)| *at != index && one.parent == Some(parent));
    let before =
        siblings.filter_map(|(_, one)| one.end_us()).filter(|end_us| *end_us <= point.start_us).max();
    let group = CallGroup {
        service: point.reporter(),
        caller: caller.reporter(),
        host: point.host.as_deref().unwrap_or_default().to_owned(),
        name: point.name.to_string(),
        enters,
    };
    Some((group, before.unwrap_or(caller.start_us).max(caller.start_us)))
}

/// The group that a point is a call of.
#[must_use]
pub fn group_of(tree: &TraceTree, index: usize) -> Option<CallGroup> {
    ready(tree, index).map(|(group, _)| group)
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
