//! Predictions for simulated services, against what the services then do.
//!
//! An iteration enters a service, works, queries, works, and sometimes makes a second, long query. Both need a connection of
//! one pool. The simulation here knows nothing of programs: it draws anew for the truth, with the change made.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use serde_json::json;
use uuid::Uuid;

use osprofiler::record::{Info, Timestamp, TraceRecord};
use osprofiler::report::TraceTree;

use crate::ceiling::ceilings;
use crate::measured::{ChosenFor, LoadedIteration, MeasuredLoad, TracedIteration};
use crate::program::{Program, ProgramStep, StepKinds, of_trace};
use crate::replay::{LinkedProgram, ReplayArrival, replay};
use crate::what_if::{LoadChange, NoPrediction, PERCENTILES, Prediction, UpperBoundReason, changed, predict};

const ANCHOR_US: i64 = 1_700_000_000_000_000;
const ITERATIONS: usize = 2_400;
/// What passes around the service and its work.
const AROUND_US: i64 = 200;

/// A simulated service.
#[derive(Clone, Copy)]
struct SimulatedService {
    connections: usize,
    /// The mean work of the service itself, twice an iteration.
    own_us: f64,
    /// The mean of the query.
    query_us: f64,
    /// How often the second query is made, and how long it takes.
    second: (f64, f64),
    /// By what share the service's own work takes longer for each iteration under way.
    shares: f64,
}

const SERVICE: SimulatedService = SimulatedService {
    connections: 4,
    own_us: 2_000.0,
    query_us: 8_000.0,
    second: (0.03, 60_000.0),
    shares: 0.0,
};

/// When an iteration was due, entered, made its queries, and left.
#[derive(Clone, Default)]
struct SimulatedTimes {
    due_us: i64,
    queries_us: Vec<(i64, i64)>,
    leaves_us: i64,
}

impl SimulatedService {
    /// Iterations a second at which its connections are so busy.
    fn rate_per_s(&self, utilisation: f64) -> f64 {
        utilisation * self.connections as f64 * 1e6 / (self.query_us + self.second.0 * self.second.1)
    }

    /// A load of random arrivals.
    fn load(&self, rate_per_s: f64, seed: u64) -> Vec<SimulatedTimes> {
        let mut drawn = fastrand::Rng::with_seed(seed);
        let mut due_us = 0.0;
        let mut times: Vec<SimulatedTimes> = Vec::new();
        let mut events: BinaryHeap<Reverse<(i64, usize, bool)>> = BinaryHeap::new();
        for number in 0..ITERATIONS {
            due_us += -(1.0 - drawn.f64()).ln() * 1e6 / rate_per_s;
            times.push(SimulatedTimes { due_us: due_us as i64, ..SimulatedTimes::default() });
            let own_us = exponential(&mut drawn, self.own_us);
            events.push(Reverse((due_us as i64 + 2 * AROUND_US + own_us, number, true)));
        }
        let mut makes_two: Vec<bool> = times.iter().map(|_| drawn.f64() < self.second.0).collect();
        let (mut free, mut line) = (self.connections, VecDeque::new());
        let mut under_way = 0_usize;
        // (when, which, whether it asks for a connection; else its query ends)
        while let Some(Reverse((us, number, asks))) = events.pop() {
            let next = if asks {
                line.push_back(number);
                under_way += 1;
                (free > 0).then(|| {
                    free -= 1;
                    line.pop_front()
                })
            } else {
                let more_us = exponential(&mut drawn, self.own_us * (1.0 + self.shares * under_way as f64));
                under_way -= 1;
                if std::mem::take(&mut makes_two[number]) {
                    events.push(Reverse((us + more_us, number, true)));
                } else {
                    times[number].leaves_us = us + more_us;
                }
                if line.is_empty() {
                    free += 1;
                }
                Some(line.pop_front())
            };
            let Some(next) = next.flatten() else { continue };
            let is_second = !times[next].queries_us.is_empty();
            let works_us = match is_second {
                true => self.second.1 as i64,
                false => lognormal(&mut drawn, self.query_us),
            };
            times[next].queries_us.push((us, us + works_us));
            events.push(Reverse((us + works_us, next, false)));
        }
        times
    }
}

fn exponential(drawn: &mut fastrand::Rng, mean_us: f64) -> i64 {
    (-(1.0 - drawn.f64()).ln() * mean_us) as i64
}

fn lognormal(drawn: &mut fastrand::Rng, mean_us: f64) -> i64 {
    let normal = (-2.0 * (1.0 - drawn.f64()).ln()).sqrt() * (std::f64::consts::TAU * drawn.f64()).cos();
    (mean_us * (0.5 * normal - 0.125).exp()) as i64
}

fn tree(number: usize, times: &SimulatedTimes) -> TraceTree {
    let end_us = times.leaves_us + 2 * AROUND_US;
    let mut points = vec![
        (0, "iteration", "bench", (times.due_us, end_us), ""),
        (1, "action", "bench", (times.due_us, end_us), ""),
        (2, "wsgi", "shop", (times.due_us + AROUND_US, times.leaves_us + AROUND_US), ""),
    ];
    points.extend(
        times
            .queries_us
            .iter()
            .zip(["SELECT a FROM one", "SELECT b FROM two"])
            .map(|(&query_us, statement)| (3, "db", "shop", query_us, statement)),
    );
    let id = |point: u128| Uuid::from_u128((number as u128 + 1) << 8 | point).to_string();
    let records: Vec<TraceRecord> = (1..)
        .zip(&points)
        .flat_map(|(point, (parent, name, service, (from_us, until_us), statement))| {
            [("-start", *from_us), ("-stop", *until_us)].map(|(suffix, us)| {
                let info = json!({"host": "a", "db": {"statement": statement}});
                let info: Info = info.as_object().cloned().unwrap();
                TraceRecord {
                    name: format!("{name}{suffix}").into(),
                    base_id: id(1).into(),
                    trace_id: id(point).into(),
                    parent_id: id(if *parent == 0 { 1 } else { *parent }).into(),
                    timestamp: Timestamp::from_unix_ns(u64::try_from(ANCHOR_US + us).unwrap() * 1_000),
                    info: info.into(),
                    project: Some((*service).into()),
                    service: Some((*service).into()),
                }
            })
        })
        .collect();
    TraceTree::build(&records)
}

/// What is measured of a load: a quarter of it in a row has traces, and so have the slowest.
fn measured(times: &[SimulatedTimes], kinds: &mut StepKinds) -> MeasuredLoad {
    let response_us = |one: &SimulatedTimes| one.leaves_us + 2 * AROUND_US - one.due_us;
    let row = times.len() / 2..times.len() / 2 + times.len() / 4;
    let trees: Vec<TraceTree> = row.clone().map(|number| tree(number, &times[number])).collect();
    let pools = ceilings(&trees.iter().collect::<Vec<_>>());
    let mut slowest: Vec<usize> = (0..times.len()).collect();
    slowest.sort_by_key(|&number| Reverse(response_us(&times[number])));
    slowest.truncate(100);
    let traced: Vec<usize> =
        (0..times.len()).filter(|number| row.contains(number) || slowest.contains(number)).collect();
    let slow_from_us = slowest.iter().map(|&number| response_us(&times[number])).min().unwrap();
    MeasuredLoad {
        iterations: times
            .iter()
            .enumerate()
            .map(|(number, one)| LoadedIteration {
                due_us: one.due_us,
                response_us: response_us(one),
                counts: number >= times.len() / 20,
                traced: traced.iter().position(|&at| at == number),
            })
            .collect(),
        traced: traced
            .iter()
            .map(|&number| TracedIteration {
                due_us: times[number].due_us,
                response_us: response_us(&times[number]),
                chosen: if row.contains(&number) { ChosenFor::Chance } else { ChosenFor::Slowness },
                program: of_trace(&tree(number, &times[number]), &pools, kinds).unwrap(),
            })
            .collect(),
        pools,
        is_open: true,
        slow_from_us: slow_from_us - 1,
    }
}

fn percentiles_ms(times: &[SimulatedTimes]) -> Vec<f64> {
    let counted = times.iter().skip(times.len() / 20);
    let mut all: Vec<i64> = counted.map(|one| one.leaves_us + 2 * AROUND_US - one.due_us).collect();
    all.sort_unstable();
    PERCENTILES
        .iter()
        .map(|p| all[((all.len() as f64 * p / 100.0).ceil() as usize) - 1] as f64 / 1e3)
        .collect()
}

/// What is changed.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fix {
    /// The second query is gone.
    NoSecond,
    /// The query takes half as long.
    HalfQuery,
    /// The service's own work takes a quarter.
    QuarterOwn,
    /// Three connections more.
    MoreConnections,
}

impl Fix {
    fn made(self, service: SimulatedService) -> SimulatedService {
        match self {
            Self::NoSecond => SimulatedService { second: (0.0, 0.0), ..service },
            Self::HalfQuery => SimulatedService { query_us: service.query_us / 2.0, ..service },
            Self::QuarterOwn => SimulatedService { own_us: service.own_us / 4.0, ..service },
            Self::MoreConnections => SimulatedService { connections: service.connections + 3, ..service },
        }
    }

    fn change(self, kinds: &StepKinds, service: &SimulatedService) -> LoadChange {
        let of = |wanted: &str| -> Vec<usize> {
            let all = kinds.all().iter().enumerate();
            all.filter(|(_, kind)| kind.detail.contains(wanted) || kind.name == wanted)
                .map(|(number, _)| number)
                .collect()
        };
        match self {
            Self::NoSecond => LoadChange::Calls { kinds: of("two"), most: 0 },
            Self::HalfQuery => LoadChange::Work { kinds: of("one"), times: 0.5 },
            Self::QuarterOwn => LoadChange::Work { kinds: of("wsgi"), times: 0.25 },
            Self::MoreConnections => {
                LoadChange::Servers { pool: 0, count: u32::try_from(service.connections).unwrap() + 3 }
            }
        }
    }
}

/// Plain subtraction: what changes of an iteration's own time, without queues.
fn subtracted(times: &[SimulatedTimes], fix: Fix, service: &SimulatedService) -> f64 {
    let mut kinds = StepKinds::default();
    let programs: Vec<Program> = times
        .iter()
        .enumerate()
        .map(|(number, one)| of_trace(&tree(number, one), &[], &mut kinds).unwrap())
        .collect();
    let LoadChange::Servers { .. } = fix.change(&kinds, service) else {
        let change = fix.change(&kinds, service);
        let mut left: Vec<i64> =
            programs.iter().map(|program| changed(program, &change).alone_us()).collect();
        left.sort_unstable();
        return left[left.len() * 99 / 100] as f64 / 1e3;
    };
    percentiles_ms(times)[2]
}

/// One prediction, and what the changed service did.
struct Trial {
    found: Result<Prediction, NoPrediction>,
    truth_ms: Vec<f64>,
    subtracted_ms: f64,
    servers: Vec<u32>,
}

fn trial(service: &SimulatedService, utilisation: f64, fix: Fix, seed: u64) -> Trial {
    let rate_per_s = service.rate_per_s(utilisation);
    let mut kinds = StepKinds::default();
    let times = service.load(rate_per_s, seed);
    let load = measured(&times, &mut kinds);
    let truth_ms = percentiles_ms(&fix.made(*service).load(rate_per_s, seed + 1_000));
    let servers: Vec<u32> = load.pools.iter().map(|one| one.servers).collect();
    let found = match fix {
        Fix::MoreConnections if servers.is_empty() => Err(NoPrediction::NothingChanges),
        _ => predict(&load, &fix.change(&kinds, service), seed),
    };
    Trial { found, truth_ms, subtracted_ms: subtracted(&times, fix, service), servers }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// The series of the design, simulated: nine in ten intervals hold what the changed service then does. `BENCH_SLOW_TESTS=1`
/// has ten times as many.
#[test]
fn predictions_hold_for_simulated_services() {
    let seeds = if std::env::var_os("BENCH_SLOW_TESTS").is_some() { 20 } else { 1 };
    let (mut held, mut all, mut silent) = (0, 0, 0);
    let mut errors = Vec::new();
    for utilisation in [0.3, 0.6, 0.85] {
        let (mut ours, mut plain) = (Vec::new(), Vec::new());
        for fix in [Fix::NoSecond, Fix::HalfQuery, Fix::QuarterOwn, Fix::MoreConnections] {
            let (mut here, mut of) = (0, 0);
            for seed in 0..seeds {
                let Trial { found, truth_ms, subtracted_ms, servers } =
                    trial(&SERVICE, utilisation, fix, seed);
                assert!(servers.is_empty() || servers == [4], "{utilisation} {seed}: {servers:?}");
                let Ok(found) = found else {
                    silent += 1;
                    continue;
                };
                let p99 = found.percentiles[2];
                of += 1;
                here += u32::from((p99.low_ms..=p99.high_ms).contains(&truth_ms[2]));
                ours.push((p99.then_ms / truth_ms[2] - 1.0).abs());
                plain.push((subtracted_ms / truth_ms[2] - 1.0).abs());
            }
            println!("{utilisation} {fix:?}: {here} of {of}");
            (held, all) = (held + here, all + of);
        }
        println!("{utilisation}: error {:.3}, subtracted {:.3}", median(ours.clone()), median(plain.clone()));
        if utilisation > 0.8 {
            assert!(median(ours.clone()) * 2.0 <= median(plain));
        }
        errors.extend(ours);
    }
    println!("{held} of {all}, {silent} silent, median error {:.3}", median(errors.clone()));
    assert!(held * 100 >= all * 75, "{held} of {all}");
    assert!(silent * 5 <= all && median(errors) <= 0.1);
}

/// Where iterations slow each other down by something that no trace shows, the truth is lower, and that is said; more
/// work is not predicted at all.
#[test]
fn what_all_share_makes_an_upper_bound() {
    let service = SimulatedService { connections: 16, shares: 0.5, second: (0.0, 0.0), ..SERVICE };
    let mut kinds = StepKinds::default();
    let mut load = measured(&service.load(service.rate_per_s(0.5), 1), &mut kinds);
    let all: Vec<usize> = (0..kinds.all().len()).filter(|&kind| kinds.all()[kind].name == "db").collect();
    let half = LoadChange::Work { kinds: all.clone(), times: 0.5 };
    let found = predict(&load, &half, 1).unwrap();
    assert!(matches!(found.at_most, Some(UpperBoundReason::Shares { by }) if by > 0.2), "{found:?}");
    let twice = LoadChange::Work { kinds: all, times: 2.0 };
    assert_eq!(predict(&load, &twice, 1), Err(NoPrediction::OnlyLess));
    load.is_open = false;
    assert_eq!(predict(&load, &half, 1).unwrap().at_most, Some(UpperBoundReason::ClosedLoad));
}

#[test]
fn nothing_is_predicted_without_a_reason_to() {
    let mut kinds = StepKinds::default();
    let times = SERVICE.load(SERVICE.rate_per_s(0.6), 3);
    let load = measured(&times, &mut kinds);
    let none = LoadChange::Work { kinds: vec![99], times: 0.5 };
    assert_eq!(predict(&load, &none, 1), Err(NoPrediction::NothingChanges));
    let change = Fix::HalfQuery.change(&kinds, &SERVICE);
    let mut few = MeasuredLoad { traced: load.traced[..10].to_vec(), ..load.clone() };
    few.iterations.iter_mut().for_each(|one| one.traced = one.traced.filter(|&at| at < 10));
    assert!(matches!(predict(&few, &change, 1), Err(NoPrediction::TooFewTraces { traced: ..=10 })));
    // A pool that is not there.
    let mut wrong = load;
    wrong.pools[0].servers = 2;
    assert!(matches!(predict(&wrong, &change, 1), Err(NoPrediction::DoesNotFit { .. })));
}

/// Where only slow and typical iterations have traces, what is known to go away is taken from the slow ones: that is at
/// least as much as the truth.
#[test]
fn traces_of_slow_iterations_alone_give_an_upper_bound() {
    for seed in 0..5 {
        let rate_per_s = SERVICE.rate_per_s(0.3);
        let mut kinds = StepKinds::default();
        let times = SERVICE.load(rate_per_s, seed);
        let mut load = measured(&times, &mut kinds);
        load.traced.retain(|one| one.response_us > load.slow_from_us);
        for (place, iteration) in load.iterations.iter_mut().enumerate() {
            iteration.traced = load.traced.iter().position(|one| one.due_us == times[place].due_us);
        }
        load.pools.clear();
        let change = Fix::NoSecond.change(&kinds, &SERVICE);
        let found = predict(&load, &change, 1).unwrap();
        assert_eq!(found.at_most, Some(UpperBoundReason::OnlySlow));
        let truth_ms = percentiles_ms(&Fix::NoSecond.made(SERVICE).load(rate_per_s, seed + 1_000))[2];
        let p99 = found.percentiles[2];
        assert!(truth_ms < p99.high_ms * 1.1 && p99.high_ms < p99.today_ms * 0.6, "{truth_ms} {p99:?}");
        let servers = LoadChange::Servers { pool: 0, count: 9 };
        load.pools = measured(&times, &mut kinds).pools;
        if !load.pools.is_empty() {
            assert!(matches!(predict(&load, &servers, 1), Err(NoPrediction::TooFewTraces { .. })));
        }
    }
}

/// Without queues, a program takes as long as its trace, in whatever order its calls are.
#[test]
fn a_program_takes_as_long_as_its_trace() {
    let mut kinds = StepKinds::default();
    for (number, times) in SERVICE.load(SERVICE.rate_per_s(0.6), 7).iter().enumerate().take(200) {
        let tree = tree(number, times);
        let program = of_trace(&tree, &[], &mut kinds).unwrap();
        assert_eq!(program.alone_us(), i64::try_from(tree.length_us()).unwrap());
        let arrival = ReplayArrival { due_us: 5, program: &LinkedProgram::new(&program) };
        assert_eq!(replay(&[arrival], &[]), [program.alone_us()]);
    }
}

/// The steps of a hand-made program: parallel calls, calls one after the other, and work that nothing waits for.
#[test]
fn steps_wait_for_what_they_need() {
    let step = |parent, after, kind, (gap_us, tail_us), is_awaited| ProgramStep {
        parent,
        after,
        kind,
        pool: None,
        gap_us,
        tail_us,
        is_awaited,
    };
    let program = Program {
        steps: vec![
            step(None, None, 0, (0, 10), true),
            step(Some(0), None, 1, (5, 100), true),
            step(Some(0), None, 1, (5, 40), true),
            step(Some(0), Some(1), 1, (7, 20), true),
            step(Some(0), Some(3), 2, (1, 1_000), false),
        ],
    };
    let takes = |program: &Program| {
        assert_eq!(
            replay(&[ReplayArrival { due_us: 0, program: &LinkedProgram::new(program) }], &[]),
            [program.alone_us()]
        );
        program.alone_us()
    };
    assert_eq!(takes(&program), 5 + 100 + 7 + 20 + 10);
    assert_eq!(program.work_us(&[1]), 160);
    assert_eq!(program.work_us(&[0]), 5 + 5 + 7 + 1 + 10);
    assert_eq!(takes(&program.with_work(&[(1, 0.5)].into())), 5 + 50 + 7 + 10 + 10);
    assert_eq!(program.with_calls(&[1], 1).count(&[1]), 1);
    // The caller's work before the calls that are gone stays.
    assert_eq!(takes(&program.with_calls(&[1], 1)), 5 + 100 + 7 + 10);
    assert_eq!(takes(&program.with_calls(&[1], 0)), 5 + 7 + 10);
    // One server: one of the parallel calls waits.
    let mut one = program;
    one.steps.iter_mut().filter(|step| step.kind == 1).for_each(|step| step.pool = Some(0));
    let one = LinkedProgram::new(&one);
    let arrivals = [ReplayArrival { due_us: 0, program: &one }];
    assert_eq!(replay(&arrivals, &[2]), [142]);
    assert_eq!(replay(&arrivals, &[1]), [5 + 100 + 40 + 20 + 10]);
}
