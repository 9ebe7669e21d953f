//! What is said about traces of a real cloud (OpenStack 2026.2), reduced by `vectors/openstack/reduce.py`.

use std::collections::{BTreeMap, BTreeSet};

use bench::analysis::breakdown::break_down;
use bench::analysis::foreign::mixed;
use bench::analysis::polls::{PAUSE, polls};
use bench::osprofiler::report::{Point, TraceTree};
use bench::results::model::TraceState;
use bench::results::rpc::QUEUE;
use bench::results::trace::StoredTrace;

use crate::support::Bench;

fn path(name: &str) -> String {
    format!("{}/tests/vectors/openstack/{name}.json", env!("CARGO_MANIFEST_DIR"))
}

fn stored(name: &str) -> StoredTrace {
    serde_json::from_slice(&std::fs::read(path(name)).unwrap()).unwrap()
}

/// How long the iteration waited for each kind of point itself, in milliseconds.
fn parts(tree: &TraceTree) -> BTreeMap<String, f64> {
    let found = break_down(&[tree], 1);
    let parts = &found.traces[0].as_ref().expect("a complete trace").parts;
    let mut named = BTreeMap::new();
    for part in parts {
        let kind = &found.kinds[part.kind];
        *named.entry(format!("{} {} {}", kind.service, kind.name, kind.detail)).or_default() +=
            part.exclusive_us / 1e3;
    }
    named
}

#[test]
fn the_boot_of_a_server_is_one_tree_over_eight_services() {
    let trace = stored("boot-server");
    assert_eq!((trace.state, trace.unreadable), (TraceState::Complete, 0));
    let reported = TraceTree::build(&trace.records);
    assert_eq!((reported.points.len(), reported.incomplete()), (664, 0));
    let services: BTreeSet<String> = reported.points.iter().map(Point::reporter).collect();
    let expected = [
        "bench",
        "glance/api",
        "keystone/public",
        "neutron/neutron-server",
        "nova/nova-compute",
        "nova/nova-conductor",
        "nova/nova-scheduler",
        "nova/osapi_compute",
        "placement",
    ];
    assert!(services.iter().eq(&expected), "{services:?}");

    let tree = trace.tree;
    let queues: Vec<String> = tree
        .points
        .iter()
        .filter(|point| point.name == QUEUE)
        .map(|point| {
            format!("{} {} {}", point.reporter(), point.detail(), point.duration_us.unwrap_or(0) / 1_000)
        })
        .collect();
    let expected = [
        "nova/nova-scheduler select_destinations 17",
        "nova/nova-scheduler select_destinations 22",
        "nova/nova-compute build_and_run_instance 12",
        "nova/nova-scheduler update_instance_info 6",
        "nova/nova-compute build_and_run_instance 1",
    ];
    assert_eq!(queues, expected);

    let polls = polls(&tree);
    assert_eq!(polls.len(), 1);
    assert_eq!(tree.points[polls[0].index].detail(), "wait until ACTIVE");
    assert_eq!(mixed(&[&*tree]), None, "no point of another request");
    // The poll took 4.2 s; services worked for most of it.
    let parts = parts(&tree);
    let whole = tree.points[0].duration_us.unwrap_or(0) as f64 / 1e3;
    let sum: f64 = parts.values().sum();
    assert!((sum - whole).abs() < 1.0, "{sum} of {whole}");
    let pauses = parts.iter().filter(|(kind, _)| kind.contains(PAUSE));
    let pauses: f64 = pauses.map(|(_, ms)| ms).sum();
    assert!((1.0..100.0).contains(&pauses), "{pauses} of 4.2 s");
}

/// Recorded with Nova as it is shipped, which serves RPC in threads.
#[test]
fn points_of_later_requests_are_told_from_those_of_a_boot() {
    let trace = stored("boot-server-threads");
    let found = mixed(&[&*trace.tree]).expect("points of other requests");
    assert!(found.services.contains("nova/nova-compute"), "{found:?}");
    assert_eq!((found.traces, found.with_foreign, found.lacking), (1, 1, 0), "{found:?}");
    // The boot took 2.9 s.
    assert!((3_000_000..10_000_000).contains(&found.after_us), "{found:?}");

    let shown = Bench::new().run(&["trace", "show", &path("boot-server-threads")]).expect_code(0).stdout;
    let (_, note) = shown.split_once("\nnote: ").expect("a note");
    let note = note.split_whitespace().collect::<Vec<_>>().join(" ");
    for part in [
        "`nova/nova-compute`",
        "not counted",
        "threads of the service keep the first trace",
        "concurrency_backend",
    ] {
        assert!(note.contains(part), "{part}: {note}");
    }
    // What the iteration itself took does not include them.
    let tree = trace.tree;
    let sum: f64 = parts(&tree).values().sum();
    let whole = tree.points[0].duration_us.unwrap_or(0) as f64 / 1e3;
    assert!((2_500.0..3_500.0).contains(&whole) && (sum - whole).abs() < 1.0, "{sum} of {whole}");
}

#[test]
fn the_tree_shows_what_messages_waited_for_and_what_the_poll_did() {
    let bench = Bench::new();
    let shown = bench.run(&["trace", "show", &path("boot-server")]).expect_code(0).stdout;
    for part in [
        "trace 0: 664 points over 5.48 s, complete; bench, glance/api, keystone/public, neutron/neutron-server, nova/",
        "2 × queue of RPC select_destinations",
        "after the answer: `wait until ACTIVE` waited for these\n",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    assert!(!shown.contains("nothing waited"), "{shown}");
    let json = bench.run(&["trace", "show", &path("boot-server"), "--json"]).expect_code(0).stdout;
    assert!(!json.contains(QUEUE), "the JSON has what services reported");
    let page = bench.run(&["trace", "show", &path("boot-server"), "--html"]).expect_code(0).stdout;
    assert!(page.contains("<title>"), "{page}");
}
