//! Remote procedure calls of oslo.messaging in a trace: which point is a caller's and which a server's, what was called, and
//! how long messages waited.
//!
//! OSProfiler names the points of both sides `rpc`; the caller's point is above the server's. A call waits for its
//! answer, a cast does not, and nothing says which of them it was. A server's method may be decorated, so that its
//! point has the decorator's name; then only the caller's point says what was called. Mistral has names of its own for
//! the points of both sides; a caller's is of its module of clients, and the server's of a method of the same name.
//! Between both points the message was on its way: in the broker, or waiting for a free thread of the server.
//! [`with_queues`] gives that time a point of its own. Where the two points are of two hosts, the waiting of a call is
//! the time by which the caller's point is longer than the server's, which needs no clock. The waiting of a cast counts
//! only if it is longer than clocks differ. Nothing here may judge.

use std::borrow::Cow;

use serde_json::json;

use super::functions;
use osprofiler::report::{Point, TraceTree};

/// The name of the points of callers and of servers.
pub const RPC: &str = "rpc";
/// The name of a point for the time that a message or its answer waited.
pub const QUEUE: &str = "queue of RPC";
/// Part of the name of a Python function that is defined in another one, such as a decorator's.
const DECORATED: &str = "<locals>";
/// Part of the name of a caller's function, by OpenStack's convention.
const OF_CALLER: &str = "rpcapi.";
/// The same in Mistral.
const OF_CLIENT: &str = ".rpc.clients.";
/// The clocks of hosts differ by less.
pub const CLOCKS_DIFFER_US: u64 = 100_000;

/// The function that a point is of.
#[must_use]
pub fn function(point: &Point) -> Option<Cow<'_, str>> {
    point.info.text_at(&["function", "name"])
}

/// What an RPC point calls or serves, without module and class; `None` if only a decorator's name is known.
#[must_use]
pub fn method(point: &Point) -> Option<String> {
    let function = function(point).filter(|function| !function.contains(DECORATED))?;
    function.rsplit('.').next().map(str::to_owned)
}

/// True if two points were reported by the same service on the same host.
#[must_use]
pub fn is_same_process(one: &Point, other: &Point) -> bool {
    (&one.project, &one.service, &one.host) == (&other.project, &other.service, &other.host)
}

/// The caller's point of a server's point, an index in [`TraceTree::points`]; `None` for any other point.
#[must_use]
pub fn caller_of(tree: &TraceTree, index: usize) -> Option<usize> {
    let point = tree.points.get(index)?;
    let above = point.parent.filter(|&above| above < index)?;
    let caller = &tree.points[above];
    let is_between = match (point.name.as_str(), caller.name.as_str()) {
        (RPC, RPC) => !is_same_process(caller, point) || is_of(caller, OF_CALLER),
        // What a point is of has to be looked for in its info.
        _ => !is_same_process(caller, point) && is_of(caller, OF_CLIENT) && method(caller) == method(point),
    };
    is_between.then_some(above)
}

/// True if this is part of the name of a point's function.
fn is_of(point: &Point, part: &str) -> bool {
    function(point).is_some_and(|function| function.contains(part))
}

/// True for a point that another process has called. What it calls with may have no point of its own: then it is not known
/// when its messages were sent.
fn is_server(tree: &TraceTree, index: usize) -> bool {
    let point = &tree.points[index];
    if is_of(point, OF_CALLER) || is_of(point, OF_CLIENT) {
        return false;
    }
    let above = point.parent.filter(|&above| above < index);
    caller_of(tree, index).is_some()
        || above.is_some_and(|above| !is_same_process(&tree.points[above], point))
}

/// The tree with a point for each time that a message waited, and servers' points that are named after what is called.
/// Points that only carry functions are left out.
#[must_use]
pub fn with_queues(tree: TraceTree) -> TraceTree {
    let mut tree = functions::without(tree);
    let mut is_called = vec![false; tree.points.len()];
    let mut waits: Vec<Point> = Vec::new();
    for index in 0..tree.points.len() {
        let Some(above) = caller_of(&tree, index).filter(|&above| !is_server(&tree, above)) else { continue };
        // Of a message to several servers, the first counts.
        if !std::mem::replace(&mut is_called[above], true) {
            waits.extend(waiting(&tree.points[above], above, &tree.points[index]));
        }
        let called = method(&tree.points[above]);
        if let Some(called) = called.filter(|_| method(&tree.points[index]).is_none()) {
            let function = tree.points[index].info_mut().entry("function").or_insert_with(|| json!({}));
            if let Some(function) = function.as_object_mut() {
                function.insert("name".to_owned(), called.into());
            }
        }
    }
    if waits.is_empty() { tree } else { with_points(tree, waits) }
}

/// The time before a server's point began, and after it ended if its caller waited for that.
fn waiting(caller: &Point, above: usize, server: &Point) -> Vec<Point> {
    let (Some(sent_us), Some(served_us)) = (caller.end_us(), server.end_us()) else { return Vec::new() };
    let is_one_clock = caller.host.is_some() && caller.host == server.host;
    let times = ((caller.start_us, sent_us), (server.start_us, served_us));
    let Some((message, answer)) = waits(times.0, times.1, is_one_clock) else {
        return Vec::new();
    };
    let point = |what: &str, (from_us, to_us): (u64, u64)| Point {
        depth: caller.depth.saturating_add(1),
        parent: Some(above),
        trace_id: format!("{}-{what}", server.trace_id).into(),
        parent_id: caller.trace_id.clone(),
        name: QUEUE.into(),
        service: server.service.clone(),
        project: server.project.clone(),
        // Its times are on the caller's clock.
        host: caller.host.clone(),
        start_us: from_us,
        starts: true,
        reversed_us: None,
        duration_us: Some(to_us - from_us),
        self_us: Some(to_us - from_us),
        error: None,
        info: json!({"name": method(caller).unwrap_or_default(), "of": what})
            .as_object()
            .cloned()
            .unwrap_or_default()
            .into(),
        stop_info: serde_json::Map::new().into(),
    };
    let is_time = |(from_us, to_us): &(u64, u64)| from_us < to_us;
    let message = Some(message).filter(is_time).map(|times| point("message", times));
    let answer = Some(answer).filter(is_time).map(|times| point("answer", times));
    message.into_iter().chain(answer).collect()
}

/// When the message waited, and when the answer, on the caller's clock; `None` if that is not known.
fn waits(caller: (u64, u64), server: (u64, u64), is_one_clock: bool) -> Option<((u64, u64), (u64, u64))> {
    let took_us = |(start_us, end_us): (u64, u64)| end_us.saturating_sub(start_us);
    if is_one_clock {
        let is_call = caller.0 <= server.0 && server.1 < caller.1;
        let answer = if is_call { (server.1, caller.1) } else { (caller.1, caller.1) };
        return Some(((caller.0, server.0), answer));
    }
    let overlaps = server.0 < caller.1.saturating_add(CLOCKS_DIFFER_US);
    match took_us(caller).checked_sub(took_us(server)).filter(|_| overlaps) {
        // Of a call the sum is known, and each part as well as the clocks agree.
        Some(both_us) => {
            let began_us = caller.0 + server.0.saturating_sub(caller.0).min(both_us);
            Some(((caller.0, began_us), (began_us + took_us(server), caller.1)))
        }
        None if server.0 > caller.0.saturating_add(CLOCKS_DIFFER_US) => {
            Some(((caller.0, server.0), (caller.1, caller.1)))
        }
        None => None,
    }
}

/// The tree with further points, whose parents are indices in it.
fn with_points(tree: TraceTree, more: Vec<Point>) -> TraceTree {
    let TraceTree { points: old, .. } = tree;
    let mut all: Vec<Option<Point>> = old.into_iter().chain(more).map(Some).collect();
    let mut children: Vec<Vec<usize>> = vec![Vec::new(); all.len()];
    let mut open: Vec<(usize, Option<usize>)> = Vec::new();
    for (index, point) in all.iter().flatten().enumerate() {
        match point.parent {
            Some(parent) => children[parent].push(index),
            None => open.push((index, None)),
        }
    }
    let start_us = |index: usize| all[index].as_ref().map_or(0, |point| point.start_us);
    children.iter_mut().for_each(|list| list.sort_by_key(|&child| start_us(child)));
    open.reverse();
    let mut points: Vec<Point> = Vec::with_capacity(all.len());
    while let Some((index, parent)) = open.pop() {
        let Some(point) = all[index].take() else { continue };
        let at = points.len();
        open.extend(children[index].iter().rev().map(|&child| (child, Some(at))));
        points.push(Point { parent, ..point });
    }
    let tree = TraceTree { points, ..tree };
    without_waiting(tree)
}

/// Callers' own times without the times that messages waited.
fn without_waiting(mut tree: TraceTree) -> TraceTree {
    // Siblings come in the order of their starts, so one sweep is enough.
    let mut covered: Vec<(u64, u64)> = tree.points.iter().map(|point| (0, point.start_us)).collect();
    let mut is_caller = vec![false; tree.points.len()];
    for point in &tree.points {
        let (Some(parent), Some(end_us)) = (point.parent, point.end_us()) else { continue };
        is_caller[parent] |= point.name == QUEUE;
        let Some(end_of_parent_us) = tree.points[parent].end_us() else { continue };
        let (sum_us, reached_us) = &mut covered[parent];
        let (start_us, end_us) = (point.start_us.max(*reached_us), end_us.min(end_of_parent_us));
        if end_us > start_us {
            *sum_us += end_us - start_us;
            *reached_us = end_us;
        }
    }
    for ((point, is_caller), (sum_us, _)) in tree.points.iter_mut().zip(is_caller).zip(covered) {
        if is_caller {
            point.self_us = point.duration_us.map(|us| us.saturating_sub(sum_us));
        }
    }
    tree
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use osprofiler::record::{Info, Timestamp, TraceRecord};

    /// A point: id, parent, service, function, host, start and end in milliseconds.
    type At = (u32, u32, &'static str, &'static str, &'static str, u64, u64);

    fn tree(points: &[At]) -> TraceTree {
        let half = |&(id, parent, service, function, host, start, end): &At, is_start: bool| {
            let mut info = Info::from_iter([("host".to_owned(), host.into())]);
            if is_start && !function.is_empty() {
                info.insert("function".to_owned(), json!({ "name": function }));
            }
            let name = if function.is_empty() { "wsgi" } else { RPC };
            TraceRecord {
                name: format!("{name}{}", if is_start { "-start" } else { "-stop" }).into(),
                base_id: "0".into(),
                trace_id: id.to_string().into(),
                parent_id: parent.to_string().into(),
                timestamp: Timestamp::from_unix_ns(
                    1_700_000_000_000_000_000 + 1_000_000 * if is_start { start } else { end },
                ),
                info: info.into(),
                project: Some("nova".into()),
                service: Some(service.into()),
            }
        };
        let records: Vec<TraceRecord> =
            points.iter().flat_map(|one| [half(one, true), half(one, false)]).collect();
        TraceTree::build(&records)
    }

    /// Depth, name, detail, start, duration and own time, in milliseconds.
    fn short(tree: &TraceTree) -> Vec<(usize, &str, String, u64, u64, u64)> {
        let ms = |us: Option<u64>| us.unwrap_or(0) / 1_000;
        let of = |point: &'_ Point| {
            (point.depth, point.detail(), point.start_us / 1_000, ms(point.duration_us), ms(point.self_us))
        };
        tree.points
            .iter()
            .map(|point| {
                let (depth, detail, start, took, own) = of(point);
                (depth, point.name.as_str(), detail, start, took, own)
            })
            .collect()
    }

    const CALLER: &str = "nova.scheduler.rpcapi.SchedulerAPI.select_destinations";
    const DECORATORS: &str = "oslo_messaging.rpc.server.expected_exceptions.<locals>.outer.<locals>.inner";

    #[test]
    fn the_message_and_the_answer_of_a_call_wait() {
        let tree = with_queues(tree(&[
            (1, 0, "conductor", CALLER, "a", 0, 100),
            (2, 1, "scheduler", DECORATORS, "a", 30, 80),
            (3, 2, "placement", "", "a", 40, 60),
        ]));
        let expected = [
            (0, RPC, CALLER.to_owned(), 0, 100, 0),
            (1, QUEUE, "select_destinations".to_owned(), 0, 30, 30),
            (1, RPC, "select_destinations".to_owned(), 30, 50, 30),
            (2, "wsgi", String::new(), 40, 20, 20),
            (1, QUEUE, "select_destinations".to_owned(), 80, 20, 20),
        ];
        assert_eq!(short(&tree), expected);
        assert_eq!(tree.points[1].reporter(), "nova/scheduler");
        let parents: Vec<Option<usize>> = tree.points.iter().map(|point| point.parent).collect();
        assert_eq!(parents, [None, Some(0), Some(0), Some(2), Some(0)]);
    }

    #[test]
    fn the_message_of_a_cast_waits_beyond_its_caller() {
        let tree = with_queues(tree(&[
            (1, 0, "api", "nova.conductor.rpcapi.ComputeTaskAPI.build", "a", 0, 10),
            (2, 1, "conductor", "nova.conductor.manager.ComputeTaskManager.build", "a", 50, 900),
        ]));
        let names: Vec<_> =
            short(&tree).into_iter().map(|(_, name, _, at, took, own)| (name, at, took, own)).collect();
        assert_eq!(names, [(RPC, 0, 10, 0), (QUEUE, 0, 50, 50), (RPC, 50, 850, 850)]);
    }

    #[test]
    fn waiting_between_hosts_needs_no_clock_or_much_time() {
        let call = |server: (u64, u64)| {
            vec![
                (1, 0, "conductor", CALLER, "a", 0, 100),
                (2, 1, "scheduler", "m.s", "b", server.0, server.1),
            ]
        };
        let cast = |server: (u64, u64)| {
            let caller = (1, 0, "conductor", "nova.compute.rpcapi.ComputeAPI.build", "a", 0, 10);
            vec![caller, (2, 1, "compute", "m.build", "b", server.0, server.1)]
        };
        // The start and the duration of each time in a queue.
        for (what, points, expected) in [
            ("clocks agree", call((30, 80)), vec![(0, 30), (80, 20)]),
            ("the server's is ahead", call((95, 145)), vec![(0, 50)]),
            ("the server's is behind", call((0, 50)), vec![(50, 50)]),
            ("the server worked all the time", call((10, 110)), vec![]),
            ("a cast that waits long", cast((500, 900)), vec![(0, 500)]),
        ] {
            let tree = with_queues(tree(&points));
            let waits: Vec<(u64, u64)> = short(&tree)
                .into_iter()
                .filter(|(_, name, ..)| *name == QUEUE)
                .map(|(_, _, _, start, took, _)| (start, took))
                .collect();
            assert_eq!(waits, expected, "{what}");
        }
    }

    #[test]
    fn mistral_has_names_of_its_own() {
        let mut tree = tree(&[
            (1, 0, "engine", "mistral.rpc.clients.ExecutorClient.run_action", "a", 0, 10),
            (2, 1, "executor", "mistral.executors.default_executor.DefaultExecutor.run_action", "a", 50, 900),
            (3, 1, "executor", "mistral.engine.task_handler.run_task", "a", 60, 80),
        ]);
        let names = ["executor-client-run-action", "default-executor-run-action", "task-handler-run-task"];
        for (point, name) in tree.points.iter_mut().zip(names) {
            point.name = name.into();
        }
        let tree = with_queues(tree);
        let names: Vec<&str> = tree.points.iter().map(|point| point.name.as_str()).collect();
        assert_eq!(names, [names[0], QUEUE, "default-executor-run-action", "task-handler-run-task"]);
        assert_eq!(
            (tree.points[1].detail(), tree.points[1].duration_us),
            ("run_action".to_owned(), Some(50_000))
        );
    }

    #[test]
    fn other_points_stay_as_they_are() {
        for (what, points) in [
            (
                "a cast to another host, whose clock may be off",
                vec![
                    (1, 0, "conductor", "nova.compute.rpcapi.ComputeAPI.build", "a", 0, 10),
                    (2, 1, "compute", "m.build", "b", 90, 800),
                ],
            ),
            (
                "a server that calls another one",
                vec![
                    (1, 0, "conductor", "nova.conductor.manager.ComputeTaskManager.build", "a", 0, 100),
                    (2, 1, "conductor", CALLER, "a", 30, 80),
                ],
            ),
            (
                "a server whose calls have no points",
                vec![
                    (1, 0, "api", "", "a", 0, 900),
                    (2, 1, "compute", "m.build", "a", 0, 100),
                    (3, 2, "conductor", "m.object_action", "a", 30, 40),
                    (4, 2, "conductor", "m.object_action", "a", 60, 70),
                ],
            ),
            ("no call at all", vec![(1, 0, "api", "", "a", 0, 9), (2, 1, "api", "", "a", 1, 2)]),
        ] {
            let tree = tree(&points);
            assert_eq!(with_queues(tree.clone()), tree, "{what}");
        }
        assert_eq!(with_queues(TraceTree::default()), TraceTree::default());
    }

    proptest! {
        #[test]
        fn any_trace_stays_in_depth_first_order(
            rows in prop::collection::vec((1_u32..30, 0_u32..30, 0_usize..3, 0_usize..4, 0_u64..90, 0_u64..90), 0..40)
        ) {
            let points: Vec<At> = rows
                .iter()
                .map(|&(id, parent, service, function, start, took)| {
                    let services = ["conductor", "scheduler", "compute"];
                    (id, parent, services[service], ["", CALLER, DECORATORS, "a.b"][function], "a", start, start + took)
                })
                .collect();
            let before = tree(&points);
            let after = with_queues(before.clone());
            prop_assert!(after.points.len() >= before.points.len());
            for (index, point) in after.points.iter().enumerate() {
                prop_assert!(point.parent.is_none_or(|above| above < index));
                let depth = point.parent.map_or(0, |above| after.points[above].depth + 1);
                prop_assert_eq!(point.depth, depth);
                prop_assert!(point.self_us <= point.duration_us);
            }
            let kept: Vec<&str> =
                after.points.iter().filter(|point| point.name != QUEUE).map(|point| point.trace_id.as_str()).collect();
            prop_assert_eq!(kept.len(), before.points.len());
        }
    }
}
