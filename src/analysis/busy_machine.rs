//! Tests with a simulated service on a busy machine: any point of an iteration may have to wait for a processor, for
//! longer than the point itself takes. A healthy run must name no cause, and a call that only some iterations make must
//! be named although most slow iterations are slow for no reason of their own.

use std::sync::Arc;

use serde_json::{Map, json};
use uuid::Uuid;

use super::causes::{ComparedIteration, of_workload};
use super::places::Population;
use measure::sample::IterationSample;
use osprofiler::report::{Point, TraceTree};
use results::choice::IterationClass;
use results::client_points::{ACTION, ITERATION, REPORTER};
use results::model::{Comparison, NoCauseReason};

/// The points of every iteration, and how long each takes in microseconds.
const POINTS: [(&str, u64); 8] = [
    ("rpc", 300),
    ("hash", 2_500),
    ("select user", 800),
    ("select local_user", 900),
    ("select password", 1_500),
    ("update user", 1_200),
    ("select role", 700),
    ("revoke", 600),
];
/// Calls that have nothing to do with slowness: one in how many iterations makes each, and how long it takes.
const HARMLESS: [(&str, u64, u64); 4] =
    [("log", 50, 300), ("audit", 20, 500), ("notify", 5, 400), ("cache", 2, 200)];

/// What a run is like.
#[derive(Clone, Copy, Debug)]
struct Run {
    iterations: usize,
    /// In how many percent of its points an iteration waits for a processor, and for how long on average.
    waits_percent: u64,
    wait_us: u64,
    /// A statement: one in how many iterations runs it, and how long it takes; 0 for none.
    planted: (u64, u64),
}

/// How long iterations take, and the points of each, with their times.
fn iteration(run: Run, random: &mut fastrand::Rng) -> Vec<(&'static str, u64)> {
    let mut points = POINTS.to_vec();
    let some = HARMLESS.into_iter().filter(|(_, one_in, _)| random.u64(0..*one_in) == 0);
    points.extend(some.map(|(name, _, us)| (name, us)));
    let (one_in, us) = run.planted;
    if one_in > 0 && random.u64(0..one_in) == 0 {
        points.push(("planted", us));
    }
    for (_, us) in &mut points {
        *us = *us * random.u64(80..130) / 100;
        if random.u64(0..100) < run.waits_percent {
            // Waits are as long as the time slices of others, and sometimes much longer.
            *us += (run.wait_us as f64 * -(1.0 - random.f64()).ln()) as u64;
        }
    }
    points
}

fn point(name: &str, parent: Option<usize>, (start_us, us, own_us): (u64, u64, u64)) -> Point {
    let reporter = if [ITERATION, ACTION].contains(&name) { REPORTER } else { "shop" };
    Point {
        depth: parent.map_or(0, |parent| parent + 1),
        parent,
        trace_id: format!("{name}-{start_us}").into(),
        parent_id: "".into(),
        name: name.into(),
        service: Some(reporter.into()),
        project: Some(reporter.into()),
        host: None,
        start_us,
        starts: true,
        reversed_us: None,
        duration_us: Some(us),
        self_us: Some(own_us),
        error: None,
        info: Map::new().into(),
        stop_info: Map::new().into(),
    }
}

fn tree(points: &[(&'static str, u64)]) -> TraceTree {
    let all_us: u64 = points.iter().map(|(_, us)| us).sum();
    let mut action = point(ACTION, Some(0), (0, all_us, 0));
    action.info_mut().insert("name".into(), json!("buy"));
    let mut tree = vec![point(ITERATION, None, (0, all_us, 0)), action];
    let mut at_us = 0;
    for &(name, us) in points {
        tree.push(point(name, Some(1), (at_us, us, us)));
        at_us += us;
    }
    TraceTree { points: tree, ..TraceTree::default() }
}

/// What the comparison of a run says: its slow iterations by rank, and as many typical ones.
fn compare(run: Run, seed: u64) -> Comparison {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut all: Vec<Vec<(&str, u64)>> = (0..run.iterations).map(|_| iteration(run, &mut random)).collect();
    let us = |points: &Vec<(&str, u64)>| points.iter().map(|(_, us)| us).sum::<u64>();
    all.sort_by_cached_key(|points| std::cmp::Reverse(us(points)));
    let (top, slow) = (run.iterations / 100, run.iterations / 20);
    let (few, typical) = (slow.max(24), slow.max(50));
    let mut chosen: Vec<(usize, IterationClass)> = (0..few)
        .map(|rank| (rank, if rank < slow { IterationClass::Slow } else { IterationClass::Other }))
        .collect();
    let mut usual: Vec<usize> = (run.iterations / 2..run.iterations * 9 / 10).collect();
    random.shuffle(&mut usual);
    chosen.extend(usual.into_iter().take(typical).map(|rank| (rank, IterationClass::Typical)));
    let compared: Vec<ComparedIteration> = chosen
        .into_iter()
        .map(|(rank, side)| ComparedIteration {
            side,
            top: rank < top,
            trace_id: Uuid::from_u128(rank as u128),
            sample: IterationSample {
                number: rank as u64,
                duration_ns: us(&all[rank]) * 1_000,
                ..IterationSample::default()
            },
            tree: Some(Arc::new(tree(&all[rank]))),
            functions: Arc::default(),
        })
        .collect();
    let population = Population { total: run.iterations as u64, ..Population::default() };
    of_workload(&compared, 0, &population, seed).comparison.unwrap()
}

/// How many of these runs name the planted statement, something else, and nothing.
fn counts(run: Run, runs: u64) -> (u64, u64, u64) {
    let mut counts = (0, 0, 0);
    for seed in 0..runs {
        let seen = compare(run, seed);
        match seen.kinds.iter().find(|kind| kind.is_cause) {
            Some(kind) if kind.name == "planted" => counts.0 += 1,
            Some(_) => counts.1 += 1,
            None => counts.2 += 1,
        }
    }
    counts
}

const HEALTHY: Run = Run { iterations: 2_000, waits_percent: 8, wait_us: 25_000, planted: (0, 0) };

#[test]
fn a_busy_machine_makes_nothing_a_cause() {
    const RUNS: u64 = 10;
    let mut accused = Vec::new();
    for (what, run) in [
        ("busy", HEALTHY),
        ("long waits", Run { waits_percent: 2, wait_us: 90_000, ..HEALTHY }),
        ("few iterations", Run { iterations: 300, ..HEALTHY }),
    ] {
        let (_, wrong, _) = counts(run, RUNS);
        println!("{what}: {wrong} of {RUNS} healthy runs accuse somebody");
        accused.extend((wrong > 0).then_some(what));
    }
    assert!(accused.is_empty(), "{accused:?}");
}

#[test]
fn a_call_of_some_is_named_on_a_busy_machine() {
    const RUNS: u64 = 6;
    let slow = (50, 80_000);
    let mut faults = Vec::new();
    for (what, run, least) in [
        ("quiet", Run { waits_percent: 0, planted: slow, ..HEALTHY }, RUNS),
        ("busy", Run { planted: slow, ..HEALTHY }, RUNS),
        // Half of the iterations wait for as long as the statement takes.
        ("busier", Run { waits_percent: 16, wait_us: 30_000, planted: slow, ..HEALTHY }, RUNS / 3),
        // Too many for the slowest 1 %, which are 10 iterations, and too few for half of the slowest 5 %.
        ("between the tails", Run { iterations: 1_000, waits_percent: 0, planted: slow, ..HEALTHY }, RUNS),
        ("few iterations", Run { iterations: 500, planted: slow, ..HEALTHY }, RUNS - 2),
    ] {
        let (right, wrong, nothing) = counts(run, RUNS);
        println!("{what}: of {RUNS} runs, {right} right, {wrong} wrong, {nothing} nothing");
        faults.extend((wrong > 0 || right < least).then_some(what));
    }
    assert!(faults.is_empty(), "{faults:?}");
}

/// With fewer than five callers no cause is named, but what is missing is.
#[test]
fn too_few_callers_are_said_to_be_too_few() {
    let run = Run { iterations: 200, waits_percent: 0, wait_us: 0, planted: (50, 80_000) };
    let mut told = 0;
    for seed in 0..20 {
        let seen = compare(run, seed);
        let first = &seen.kinds[0];
        let callers = (first.slow_calls * seen.slow as f64).round() as u64;
        match seen.missing {
            Some(missing) => {
                told += 1;
                assert_eq!((missing.seen, missing.needed, missing.of_callers), (callers, 5, true));
                assert_eq!(missing.iterations, 1_000_u64.div_ceil(callers));
                assert_eq!(seen.no_finding, Some(NoCauseReason::Unclear));
            }
            None => assert!(first.is_cause && callers >= 5 || first.name != "planted", "{first:?}"),
        }
    }
    assert!(told >= 5, "{told}");
}
