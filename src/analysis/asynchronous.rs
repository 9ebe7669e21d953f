//! Work of an iteration that nothing waited for: when it ended, and what it must not be blamed for.
//!
//! Spans may outlive the request that began them: background tasks, consumers of messages. They belong to the iteration,
//! but they are not the cause of its response time, unless the client polled until they were done ([`super::polls`]).
//! [`awaited`] says which part of each point the response waited for, and [`running`] which traces lack points that had not
//! ended. When the work ended, and what it waited for itself, is in [`super::late_work`].

use std::collections::{HashMap, HashSet};

use super::foreign::foreign;
use super::polls::{polls, waiting_for};
use super::statement;
use osprofiler::report::{Point, TraceTree};
use osprofiler::spans::meaning::{CLIENT, CONSUMER, KIND, PRODUCER, SERVER};
use osprofiler::spans::read::LINK;
use results::client_points::REPORTER;
use results::rpc::{CLOCKS_DIFFER_US, caller_of, is_same_process};

/// A point that ends later than its parent by no more than this was waited for.
const TOLERANCE_US: u64 = 5_000;
/// Nor is one by no more than this part of the time that both took.
const TOLERANCE_PART: u64 = 10;

/// True for a point that is below another one by a link.
#[must_use]
pub fn is_linked(point: &Point) -> bool {
    point.info.contains_key(LINK)
}

/// What was waited for of a point.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AwaitedPart {
    /// The start and end of its part that something waited for, on the clock of the tree; `None` if nothing did. Almost
    /// always this is the whole point.
    pub part: Option<(u64, u64)>,
    /// The poll that waited for it, an index in [`TraceTree::points`], where the point around it did not.
    pub poll: Option<usize>,
}

/// The part of each point that the response may have waited for, as start and end on the clock of the tree; `None` for
/// points that nothing waited for.
#[must_use]
pub fn awaited(tree: &TraceTree) -> Vec<Option<(u64, u64)>> {
    waited(tree, &[]).into_iter().map(|waited| waited.part).collect()
}

/// What was waited for of each point. Points are `moved_us` microseconds later on the client's clock; without these, as
/// recorded.
#[must_use]
pub fn waited(tree: &TraceTree, moved_us: &[i64]) -> Vec<AwaitedPart> {
    let (ends, polls, foreign) = (ends_us(tree), polls(tree), foreign(tree));
    let mut found: Vec<AwaitedPart> = Vec::with_capacity(tree.points.len());
    // For each point, when the client's request around it ended, if the service went on.
    let mut answered_us: Vec<Option<u64>> = Vec::with_capacity(tree.points.len());
    // For each point, the part of the one above that a poll waited for.
    let mut within: Vec<Option<(u64, u64)>> = Vec::with_capacity(tree.points.len());
    let calls = calls_us(tree);
    for (index, point) in tree.points.iter().enumerate() {
        let whole = (point.start_us, ends[index].unwrap_or(point.start_us));
        let own_by_us = moved_us.get(index).copied().unwrap_or(0);
        let Some(above) = point.parent.filter(|&above| above < index) else {
            let part = (!is_linked(point)).then_some(whole);
            answered_us.push(None);
            within.push(None);
            found.push(AwaitedPart { part, poll: None });
            continue;
        };
        let parent = &tree.points[above];
        let of_parent = (parent.start_us, ends[above].unwrap_or(u64::MAX));
        let is_called = is_client(parent) && !is_client(point);
        let is_same_clock = !is_called && clock(parent) == clock(point);
        let goes_on = is_called && whole.0 <= of_parent.1 && outlives(whole, of_parent);
        let answered = if is_same_clock { answered_us[above] } else { goes_on.then_some(of_parent.1) };
        let is_own_time = is_same_clock || is_consumer(point);
        let is_late = answered.is_some_and(|answered| whole.0 >= answered);
        let nobody_waits = found[above].part.is_none()
            || is_linked(point)
            || is_late
            || is_own_time && outlives(whole, of_parent)
            || caller_of(tree, index).is_some() && is_sent(of_parent, whole);
        if nobody_waits {
            let may_poll = !polls.is_empty() && !is_client(point) && !is_linked(point) && !foreign[index];
            let polled = if may_poll { waiting_for(&polls, moved_by(whole, own_by_us)) } else { None };
            let part = polled.map(|(_, part)| moved_by(part, own_by_us.saturating_neg()));
            let answered = if part.is_some() { None } else { answered };
            answered_us.push(answered);
            within.push(part);
            found.push(AwaitedPart { part, poll: polled.map(|(poll, _)| poll) });
            continue;
        }
        let end_us = answered.map_or(whole.1, |answered| whole.1.min(answered));
        let bounds = within[above];
        let part = bounds.map_or((whole.0, end_us), |(from_us, to_us)| {
            (whole.0.clamp(from_us, to_us), end_us.clamp(from_us, to_us))
        });
        let part = if is_client(point) { part } else { bounded(part, own_by_us, calls[index]) };
        answered_us.push(answered);
        within.push(bounds.map(|_| part));
        found.push(AwaitedPart { part: Some(part), poll: None });
    }
    found
}

/// The client's call that each point is below, or is, on the client's clock.
fn calls_us(tree: &TraceTree) -> Vec<Option<(u64, u64)>> {
    let mut calls: Vec<Option<(u64, u64)>> = Vec::with_capacity(tree.points.len());
    for (index, point) in tree.points.iter().enumerate() {
        let own = is_client(point).then(|| Some((point.start_us, point.end_us()?)));
        let above = point.parent.filter(|&above| above < index);
        calls.push(own.unwrap_or_else(|| above.and_then(|above| calls[above])));
    }
    calls
}

/// The part of a point that is within the client's call, if it claims to have taken longer than that: the client's own
/// times are right, and it waited no longer.
fn bounded(part: (u64, u64), moved_us: i64, call: Option<(u64, u64)>) -> (u64, u64) {
    let Some(call) = call else { return part };
    let call_us = call.1.saturating_sub(call.0);
    let most_us = call_us.saturating_add(TOLERANCE_US.max(call_us / TOLERANCE_PART));
    if part.1.saturating_sub(part.0) <= most_us {
        return part;
    }
    let (start_us, end_us) = moved_by(part, moved_us);
    let within = (start_us.clamp(call.0, call.1), end_us.clamp(call.0, call.1));
    moved_by(within, moved_us.saturating_neg())
}

fn moved_by((start_us, end_us): (u64, u64), by_us: i64) -> (u64, u64) {
    (start_us.saturating_add_signed(by_us), end_us.saturating_add_signed(by_us))
}

/// When each point ended, if that is known. The point of an RPC's server may only start a thread: it ends when the last
/// point ended that its process has below it.
#[must_use]
pub fn ends_us(tree: &TraceTree) -> Vec<Option<u64>> {
    let own: Vec<Option<u64>> = tree.points.iter().map(Point::end_us).collect();
    let mut last = own.clone();
    for index in (0..tree.points.len()).rev() {
        let above = tree.points[index].parent.filter(|&above| above < index);
        let above = above.filter(|&above| is_same_process(&tree.points[above], &tree.points[index]));
        if let Some(above) = above {
            last[above] = last[above].map(|known| known.max(last[index].unwrap_or(known)));
        }
    }
    let is_server = |index: &usize| caller_of(tree, *index).is_some();
    (0..own.len()).map(|index| if is_server(&index) { last[index] } else { own[index] }).collect()
}

/// True if an RPC's caller cannot have waited for its server, on whatever host that is: it took longer, or began after the
/// caller's end by more than clocks differ.
#[must_use]
pub fn is_sent(caller: (u64, u64), server: (u64, u64)) -> bool {
    let took_us = |(start_us, end_us): (u64, u64)| end_us.saturating_sub(start_us);
    let of_caller_us = took_us(caller);
    took_us(server) > of_caller_us.saturating_add(TOLERANCE_US.max(of_caller_us / TOLERANCE_PART))
        || server.0 > caller.1.saturating_add(CLOCKS_DIFFER_US)
}

/// Each point's own time within what the response waited for: without the union of its children's.
#[must_use]
pub fn own_us(tree: &TraceTree, awaited: &[Option<(u64, u64)>]) -> Vec<u64> {
    let mut own: Vec<u64> = awaited.iter().map(|part| part.map_or(0, |(start, end)| end - start)).collect();
    // How far children cover each point. Siblings come in the order of their starts.
    let mut reached: Vec<u64> = awaited.iter().map(|part| part.map_or(0, |(start, _)| start)).collect();
    for (index, point) in tree.points.iter().enumerate() {
        let Some(above) = point.parent.filter(|&above| above < index) else { continue };
        let (Some((start, end)), Some((_, end_of_parent))) = (awaited[index], awaited[above]) else {
            continue;
        };
        let (start, end) = (start.max(reached[above]), end.min(end_of_parent));
        if end > start {
            own[above] = own[above].saturating_sub(end - start);
            reached[above] = end;
        }
    }
    own
}

/// True if a point began within another one and ended so much later that the other one cannot have waited for it.
pub(super) fn outlives(point: (u64, u64), parent: (u64, u64)) -> bool {
    let after_us = point.1.saturating_sub(parent.1);
    let both_us = parent.1.saturating_sub(point.0);
    point.0 >= parent.0 && after_us > TOLERANCE_US.max(both_us / TOLERANCE_PART)
}

pub(super) fn is_client(point: &Point) -> bool {
    point.project.as_deref() == Some(REPORTER)
}

fn is_of_kind(point: &Point, kind: &str) -> bool {
    point.info.text_at(&[KIND]).is_some_and(|of| of == kind)
}

/// True for a span that receives or processes messages.
#[must_use]
pub fn is_consumer(point: &Point) -> bool {
    is_of_kind(point, CONSUMER)
}

/// True for a span that sends messages.
pub(super) fn is_producer(point: &Point) -> bool {
    is_of_kind(point, PRODUCER)
}

/// Whose clock timed a point: its host's, or where that is unknown, its service's.
pub(super) fn clock(point: &Point) -> (&str, &str) {
    match point.host.as_deref() {
        Some(host) => (host, ""),
        None => (point.project.as_deref().unwrap_or_default(), point.service.as_deref().unwrap_or_default()),
    }
}

/// True for the point of a server that answers a request of a client that waits for it, by OpenTelemetry's kinds or by what
/// OSProfiler tells of requests by HTTP.
pub(super) fn answers(client: &Point, server: &Point) -> bool {
    let is_server = is_of_kind(server, SERVER) || server.info.contains_key("request");
    is_server && is_call(client) && !is_linked(server)
}

/// True for a call that waits for an answer, likewise.
pub(super) fn is_call(point: &Point) -> bool {
    is_of_kind(point, CLIENT) || point.info.contains_key("requests")
}

/// Which of these traces of one workload probably lack points, because these had not ended: a point has no end, its
/// parent is missing, or a message was sent and not consumed. What is missing in most of the traces is never recorded,
/// so it says nothing.
#[must_use]
pub fn running(trees: &[&TraceTree]) -> Vec<bool> {
    let mut seen: HashMap<Gap, usize> = HashMap::new();
    let gaps: Vec<HashSet<Gap>> = trees.iter().map(|tree| gaps(tree)).collect();
    for gap in gaps.iter().flatten() {
        *seen.entry(gap.clone()).or_default() += 1;
    }
    let is_usual =
        |gap: &Gap| trees.len() > 1 && seen.get(gap).is_some_and(|number| 2 * number > trees.len());
    let of_one = |(tree, gaps): (&&TraceTree, &HashSet<Gap>)| {
        tree.incomplete() > 0 || gaps.iter().any(|gap| !is_usual(gap))
    };
    trees.iter().zip(&gaps).map(of_one).collect()
}

/// A place where something may be missing: the service, name and kind of the point there, and whether it lacks a parent
/// or a consumer.
type Gap = (String, String, bool);

fn gaps(tree: &TraceTree) -> HashSet<Gap> {
    let children = tree.children();
    let services = tree.points.iter().enumerate().filter(|(_, point)| !is_client(point));
    services
        .filter_map(|(index, point)| {
            let has_no_parent = point.parent.is_none();
            let is_unconsumed = is_producer(point) && children[index].is_empty();
            let is_gap = has_no_parent || is_unconsumed;
            is_gap.then(|| (point.reporter(), statement::name_and_kind(point), has_no_parent))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::breakdown::break_down;
    use crate::sample_trees::{at, iteration, linked, with};

    #[test]
    fn what_nobody_waited_for_takes_no_time_of_the_response() {
        for (what, services, expected) in [
            (
                "a statement",
                vec![at(3, 2, "GET", "shop", (5_005, 5_095)), at(4, 3, "db", "shop", (5_010, 5_090))],
                vec![10, 80],
            ),
            (
                "work that goes on after the response, with a statement in time",
                vec![
                    at(3, 2, "GET", "shop", (5_005, 5_095)),
                    at(4, 3, "task", "shop", (5_010, 5_600)),
                    at(5, 4, "db", "shop", (5_012, 5_090)),
                ],
                vec![90, 0, 0],
            ),
            (
                "a task that the server's span includes",
                vec![at(3, 2, "GET", "shop", (5_005, 5_600)), at(4, 3, "task", "shop", (5_100, 5_600))],
                vec![94, 0],
            ),
            (
                "a server that ends a little later than its client",
                vec![at(3, 2, "GET", "shop", (5_005, 5_103)), at(4, 3, "db", "shop", (5_010, 5_090))],
                vec![18, 80],
            ),
            (
                "a call to another host that seems to end after its caller",
                vec![at(3, 2, "GET", "shop", (5_005, 5_095)), at(4, 3, "GET", "stock", (5_010, 5_160))],
                // No longer than the client's own request.
                vec![5, 89],
            ),
        ] {
            let tree = iteration(services);
            let own = own_us(&tree, &awaited(&tree));
            let of_services: Vec<u64> = own[2..].iter().map(|us| us / 1_000).collect();
            assert_eq!(of_services, expected, "{what}");
        }
    }

    #[test]
    fn no_span_takes_longer_than_the_clients_request() {
        for (what, services, expected) in [
            (
                "a span that claims hours around the request",
                vec![at(3, 2, "GET", "shop", (5_005, 5_095)), at(4, 3, "job", "shop", (5, 9_000_000))],
                vec![0, 98],
            ),
            (
                "a server that claims hours around the request",
                vec![at(3, 2, "GET", "shop", (5, 9_000_000)), at(4, 3, "db", "shop", (5_010, 5_090))],
                vec![18, 80],
            ),
            (
                "a consumer on another host",
                vec![
                    at(3, 2, "GET", "shop", (5_005, 5_095)),
                    with(at(4, 3, "work", "worker", (5_010, 5_600)), json!({"kind": "consumer"})),
                    at(5, 4, "db", "worker", (5_020, 5_090)),
                ],
                vec![90, 0, 0],
            ),
            (
                "a consumer that the server waits for",
                vec![
                    at(3, 2, "GET", "shop", (5_005, 5_095)),
                    with(at(4, 3, "work", "worker", (5_010, 5_090)), json!({"kind": "consumer"})),
                ],
                vec![10, 80],
            ),
            (
                "a consumer that begins after the response",
                vec![
                    at(3, 2, "GET", "shop", (5_005, 5_095)),
                    with(at(4, 3, "work", "worker", (5_200, 5_600)), json!({"kind": "consumer"})),
                ],
                vec![90, 0],
            ),
            (
                "a point below a link",
                vec![
                    at(3, 2, "GET", "shop", (5_005, 5_095)),
                    with(at(4, 3, "work", "worker", (5_010, 5_090)), linked()),
                ],
                vec![90, 0],
            ),
        ] {
            let tree = iteration(services);
            let own = own_us(&tree, &awaited(&tree));
            let of_services: Vec<u64> = own[2..].iter().map(|us| us / 1_000).collect();
            assert_eq!(of_services, expected, "{what}");
        }
    }

    /// A task that outlives the response takes longer in slow iterations than the statement that makes them slow.
    #[test]
    fn fire_and_forget_work_is_never_on_the_critical_path() {
        let slow = iteration(vec![
            at(3, 2, "GET", "shop", (5_005, 5_095)),
            at(4, 3, "task", "shop", (5_006, 5_600)),
            at(5, 3, "db", "shop", (5_010, 5_090)),
        ]);
        let broken = break_down(std::slice::from_ref(&slow), 1);
        let parts = &broken.traces[0].as_ref().unwrap().parts;
        let of = |name: &str| {
            let kind = broken.kinds.iter().position(|kind| kind.name == name).unwrap();
            let part = parts.iter().find(|part| part.kind == kind).unwrap();
            (part.exclusive_us, part.self_us)
        };
        assert_eq!(
            (of("task"), of("db"), of("GET")),
            ((0.0, 0.0), (80_000.0, 80_000.0), (10_000.0, 10_000.0))
        );
        assert!(broken.inconsistent.is_empty());
    }

    #[test]
    fn a_trace_that_lacks_what_others_have_is_still_running() {
        let get = || at(3, 2, "GET", "shop", (5_005, 5_095));
        let send = || with(at(4, 3, "send", "shop", (5_010, 5_011)), json!({"kind": "producer"}));
        let work =
            |parent| with(at(5, parent, "work", "worker", (5_200, 5_300)), json!({"kind": "consumer"}));
        let done = || iteration(vec![get(), send(), work(4)]);
        let unconsumed = || iteration(vec![get(), send()]);
        let orphan = || iteration(vec![get(), work(77)]);
        for (what, trees, expected) in [
            ("all are complete", vec![done(), done()], vec![false, false]),
            ("a message waits", vec![done(), done(), unconsumed()], vec![false, false, true]),
            ("consumers do not report", vec![unconsumed(), unconsumed(), done()], vec![false; 3]),
            ("a point above is missing", vec![done(), orphan(), done()], vec![false, true, false]),
            ("a proxy does not report", vec![orphan(), orphan()], vec![false, false]),
            ("one alone", vec![unconsumed()], vec![true]),
        ] {
            assert_eq!(running(&trees.iter().collect::<Vec<_>>()), expected, "{what}");
        }
    }
}
