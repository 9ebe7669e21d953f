//! What stops a simulated service is named from its traces: a pool, workers, work that takes longer, or nothing.
//!
//! Each iteration is an action of the client, a point at which its request enters a service, and a query below that.

mod what_if;

use serde_json::json;
use uuid::Uuid;

use osprofiler::record::{Info, Timestamp, TraceRecord};
use osprofiler::report::TraceTree;

use crate::calls;
use crate::limit::{Limit, LimitKind, NoLimitReason, limit};
use crate::queue::{self, QueueRules};
use crate::servers::QueuedCall;
use crate::waits::waits;

const ANCHOR_US: i64 = 1_700_000_000_000_000;
/// What passes in the service before and after its query, and around the service.
const AROUND_US: i64 = 400;

/// The times of one iteration: when it was due, entered the service, and began and ended its query.
struct IterationTimes {
    due_us: i64,
    enters_us: i64,
    query_us: (i64, i64),
}

fn tree(number: usize, times: &IterationTimes) -> TraceTree {
    let end_us = times.query_us.1 + AROUND_US;
    let points = [
        (1, 0, "iteration", "bench", (times.due_us, end_us + AROUND_US)),
        (2, 1, "action", "bench", (times.due_us, end_us + AROUND_US)),
        (3, 2, "wsgi", "shop", (times.enters_us, end_us)),
        (4, 3, "db", "shop", times.query_us),
    ];
    let id = |point: u128| Uuid::from_u128((number as u128) << 8 | point).to_string();
    let records: Vec<TraceRecord> = points
        .iter()
        .flat_map(|(point, parent, name, service, (from_us, until_us))| {
            let half = |suffix: &str, us: i64| {
                let info: Info = json!({"host": format!("host of {service}")}).as_object().cloned().unwrap();
                TraceRecord {
                    name: format!("{name}{suffix}").into(),
                    base_id: id(1).into(),
                    trace_id: id(*point).into(),
                    parent_id: id(*parent).into(),
                    timestamp: Timestamp::from_unix_ns(u64::try_from(ANCHOR_US + us).unwrap() * 1_000),
                    info: info.into(),
                    project: Some((*service).into()),
                    service: Some((*service).into()),
                }
            };
            [half("-start", *from_us), half("-stop", *until_us)]
        })
        .collect();
    TraceTree::build(&records)
}

/// What grows with the load.
#[derive(Clone, Copy, Debug)]
enum PlantedLimit {
    /// The query waits for a connection.
    Pool(usize),
    /// The request waits for a worker.
    Workers(usize),
    /// The query itself takes longer.
    Work,
    Nothing,
}

/// All iterations of three seconds at this share of what the service bears.
fn level(planted: PlantedLimit, utilisation: f64, seed: u64) -> Vec<TraceTree> {
    let servers = match planted {
        PlantedLimit::Pool(servers) | PlantedLimit::Workers(servers) => servers,
        PlantedLimit::Work | PlantedLimit::Nothing => 64,
    };
    let rules = QueueRules { servers, mean_work_us: 10_000.0, sigma: 0.4, seed };
    let rate_per_s = utilisation * 100.0 * if servers == 64 { 4.0 } else { servers as f64 };
    let calls = queue::calls(&rules, 0, rate_per_s, 3.0, false);
    let longer = if matches!(planted, PlantedLimit::Work) { utilisation * 3.0 } else { 1.0 };
    let times = calls.iter().map(|call| {
        let works_us = ((call.end_us - call.start_us) as f64 * longer) as i64;
        // A worker is busy for as long as its point, a connection for as long as its query.
        let (enters_us, begins_us, works_us) = match planted {
            PlantedLimit::Workers(_) => {
                (call.start_us, call.start_us + AROUND_US, (works_us - 2 * AROUND_US).max(0))
            }
            _ => (call.ready_us + AROUND_US, call.start_us + 2 * AROUND_US, works_us),
        };
        IterationTimes { due_us: call.ready_us, enters_us, query_us: (begins_us, begins_us + works_us) }
    });
    times.enumerate().map(|(number, times)| tree(number + 1, &times)).collect()
}

fn named(planted: PlantedLimit, seed: u64) -> Result<Limit, NoLimitReason> {
    let (low, high) = (level(planted, 0.5, seed), level(planted, 1.1, seed + 100));
    let low: Vec<&TraceTree> = low.iter().collect();
    let high: Vec<&TraceTree> = high.iter().collect();
    let row = &high[high.len() / 3..];
    limit(&low[..low.len().min(80)], &high[high.len() - high.len().min(80)..], row)
}

#[test]
fn what_stops_a_simulated_service_is_named() {
    for seed in 0..3 {
        for servers in [1, 3, 5, 8] {
            let found = named(PlantedLimit::Pool(servers), seed).unwrap();
            assert_eq!((found.kind, found.name.as_str()), (LimitKind::Waits, "db"), "{found:?}");
            assert_eq!(found.servers.map(|one| one.count as usize), Some(servers), "{found:?}");
            let found = named(PlantedLimit::Workers(servers), seed).unwrap();
            assert_eq!((found.kind, found.name.as_str()), (LimitKind::Entry, "wsgi"), "{found:?}");
            assert_eq!(found.servers.map(|one| one.count as usize), Some(servers), "{found:?}");
        }
        let found = named(PlantedLimit::Work, seed).unwrap();
        assert_eq!(
            (found.kind, found.name.as_str(), found.servers),
            (LimitKind::Work, "db", None),
            "{found:?}"
        );
        assert!(named(PlantedLimit::Nothing, seed).is_err());
    }
}

/// With half of the iterations missing, no wrong number is said.
#[test]
fn a_row_with_holes_counts_no_servers() {
    for servers in [3, 5, 8] {
        let (low, high) =
            (level(PlantedLimit::Pool(servers), 0.5, 1), level(PlantedLimit::Pool(servers), 1.1, 101));
        let low: Vec<&TraceTree> = low.iter().collect();
        let half: Vec<&TraceTree> = high.iter().step_by(2).collect();
        let found = limit(&low[..80], &half[half.len() - 80..], &half).unwrap();
        assert_eq!(found.kind, LimitKind::Waits);
        assert!(found.servers.is_none_or(|one| one.count as usize == servers), "{found:?}");
    }
}

#[test]
fn too_few_traces_name_nothing() {
    let high = level(PlantedLimit::Pool(3), 1.1, 1);
    let high: Vec<&TraceTree> = high.iter().collect();
    assert_eq!(limit(&high[..5], &high, &high), Err(NoLimitReason::TooFewTraces));
    assert_eq!(limit(&high, &high, &high).unwrap_err(), NoLimitReason::NothingGrew);
}

/// A call could begin when its caller had begun and its earlier sibling had ended; another host's clock says nothing.
#[test]
fn calls_are_ready_when_their_caller_is() {
    let one = tree(1, &IterationTimes { due_us: 0, enters_us: 700, query_us: (3_000, 9_000) });
    let found = calls::of_traces([&one]);
    let of = |name: &str| {
        let (group, calls) = found.iter().find(|(group, _)| group.name == name).unwrap();
        (group.enters, calls[0])
    };
    let at = |ready_us: i64, start_us: i64, end_us: i64| QueuedCall {
        ready_us: ANCHOR_US + ready_us,
        start_us: ANCHOR_US + start_us,
        end_us: ANCHOR_US + end_us,
    };
    assert_eq!(of("wsgi"), (true, at(0, 700, 9_400)));
    assert_eq!(of("db"), (false, at(700, 3_000, 9_000)));
    assert_eq!(calls::usual_us(&[at(0, 5, 9), at(0, 7, 9)]), 7);
}

/// Iterations of random arrivals of which each works by itself for about 4 ms, and then calls.
fn random_level(planted: PlantedLimit, utilisation: f64, iterations: f64, seed: u64) -> Vec<TraceTree> {
    let (servers, has_pool) = match planted {
        PlantedLimit::Pool(servers) => (servers, true),
        PlantedLimit::Workers(servers) => (servers, false),
        PlantedLimit::Work | PlantedLimit::Nothing => (64, true),
    };
    let mut drawn = fastrand::Rng::with_seed(seed);
    let mut own_us = || 1_000 + (-(1.0 - drawn.f64()).ln() * 3_000.0) as i64;
    // A worker is busy with the iteration's own work, too.
    let mean_work_us = if has_pool { 10_000.0 } else { 14_000.0 };
    let rules = QueueRules { servers, mean_work_us, sigma: 0.6, seed };
    let busy = if servers == 64 { 0.1 } else { utilisation };
    let rate_per_s = busy * servers as f64 * 1e6 / mean_work_us;
    let calls = queue::calls(&rules, 0, rate_per_s, iterations / rate_per_s, true);
    let times = calls.iter().map(|call| match has_pool {
        true => {
            let enters_us = call.ready_us - own_us();
            let query_us = (call.start_us, call.end_us);
            IterationTimes { due_us: enters_us - AROUND_US, enters_us, query_us }
        }
        false => {
            let begins_us = (call.start_us + own_us()).min(call.end_us);
            let query_us = (begins_us, (call.end_us - AROUND_US).max(begins_us));
            IterationTimes { due_us: call.ready_us - AROUND_US, enters_us: call.start_us, query_us }
        }
    });
    times.enumerate().map(|(number, times)| tree(number + 1, &times)).collect()
}

/// From one level alone, of iterations in a row: what waits is counted right, or nothing is said.
#[test]
fn what_waits_at_one_level_is_told_from_work() {
    let (mut said, mut of) = (0, 0);
    for seed in 0..10 {
        for servers in [1, 3, 5, 8] {
            for utilisation in [0.85, 0.95] {
                for (planted, name) in
                    [(PlantedLimit::Pool(servers), "db"), (PlantedLimit::Workers(servers), "wsgi")]
                {
                    let level = random_level(planted, utilisation, 600.0, seed);
                    let found = waits(&level.iter().collect::<Vec<_>>());
                    let right = found
                        .iter()
                        .all(|one| one.group.name == name && one.servers.count as usize == servers);
                    assert!(right, "{planted:?} at {utilisation}, seed {seed}: {found:?}");
                    (said, of) = (said + found.len(), of + 1);
                }
            }
        }
        for planted in [PlantedLimit::Work, PlantedLimit::Nothing] {
            let level = random_level(planted, 0.9, 600.0, seed);
            assert_eq!(waits(&level.iter().collect::<Vec<_>>()), [], "{planted:?}, seed {seed}");
        }
    }
    println!("{said} of {of}");
    assert!(said * 10 >= of * 8, "{said} of {of}");
}
