//! Series of simulated loads with a planted cause, or none: how often what is planted is named, and how often anything else.
//!
//! A closed load runs a tree of calls on a simulated clock, so that a stop of everything holds up all that is under
//! way. The slowest 5 % are compared with typical iterations as after a real load. If the tests are built with
//! `BENCH_TEST_SERIES=20`, each plant runs 20 times.

use std::fmt::Write as _;
use std::sync::Arc;

use uuid::Uuid;

use super::causes::{Causes, ComparedIteration, of_workload};
use super::places::Population;
use base::parallel;
use measure::sample::IterationSample;
use osprofiler::report::{Point, TraceTree};
use results::choice::IterationClass;
use results::client_points::{ACTION, ITERATION, REPORTER};
use results::model::WholePattern;

const ITERATIONS: usize = 700;
const CONCURRENCY: usize = 4;
const SLOW: usize = ITERATIONS / 20;
const TYPICAL: usize = 70;
/// One iteration in this many is a slow one.
const SLOW_EVERY: usize = 15;
/// Runs of each plant in a usual test.
const RUNS: u64 = 2;
/// The call that is repeated, or the span that is healthy.
const CALL: &str = "call";
const LONG: &str = "compute";

/// A call, and what it calls.
#[derive(Clone, Debug)]
struct Call {
    service: &'static str,
    name: String,
    own_us: f64,
    below: Vec<Call>,
    /// How many of those below run at once.
    at_once: usize,
}

impl Call {
    fn new(service: &'static str, name: impl Into<String>, own_us: f64) -> Self {
        Self { service, name: name.into(), own_us, below: Vec::new(), at_once: 1 }
    }

    fn with(mut self, below: impl IntoIterator<Item = Self>) -> Self {
        self.below.extend(below);
        self
    }
}

/// What makes some iterations slow.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Plant {
    /// A call with this many kinds below it is made `times` times instead of once.
    Repeated { kinds: usize, times: usize },
    /// A call with this many kinds is made for each of more rows, several at once.
    Grown { kinds: usize, at_once: usize },
    /// A loop makes several calls for each row, and no single call is most of it.
    Loop,
    /// A call that typical iterations never make.
    New { kinds: usize },
    /// All points of the service take this many times as long.
    Slower(f64),
    /// The same, while the host has no processor time: at moments, for all that is under way.
    Starved(f64),
    /// The whole process stops.
    Stops,
    /// The longest span alone takes this many times as long.
    LongSlower(f64),
    /// A short span takes much longer.
    ShortSlower,
    /// A statement is run for each row.
    Statements,
    /// Iterations differ as a whole, with a heavy tail.
    TailOfAll,
    /// Every point has a heavy tail of its own, and one of them takes most.
    TailOfEach,
    /// Every point has a heavy tail of its own, and all are alike.
    TailOfEqual,
    /// Nothing but noise.
    Healthy,
}

/// What must be said of a plant.
#[derive(Clone, Copy, Debug, PartialEq)]
enum ExpectedFinding {
    Named(&'static str),
    Whole(WholePattern),
    Nothing,
    /// Nothing, or that everything is slower.
    NoCause,
}

/// One load: the calls of a usual iteration, and the noise.
struct Load {
    plant: Plant,
    random: fastrand::Rng,
    /// The share of the long span, and the noise of each own time.
    long: f64,
    noise: f64,
    stops_us: Vec<(f64, f64)>,
}

impl Load {
    fn new(plant: Plant, seed: u64) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        let long = match seed % 3 {
            _ if plant == Plant::TailOfEqual => 0.15,
            0 => 0.5,
            1 => 0.79,
            _ => 0.88,
        };
        let noise = if seed.is_multiple_of(2) { 0.1 } else { 0.18 };
        let stop_us = 150_000.0 + 200_000.0 * random.f64();
        let every_us = 700_000.0 + 500_000.0 * random.f64();
        let stops_us = match plant {
            Plant::Stops | Plant::Starved(_) => (1..200)
                .map(|number| (every_us * (f64::from(number) + 0.4 * random.f64()), stop_us))
                .collect(),
            _ => Vec::new(),
        };
        Self { plant, random, long, noise, stops_us }
    }

    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.random.f64()).sum::<f64>() - 6.0
    }

    /// A call with this many kinds below it; each takes a part of about 12 ms.
    fn composite(&self, name: &str, kinds: usize) -> Call {
        // The same tree in each iteration.
        let mut random = fastrand::Rng::with_seed(kinds as u64);
        let each_us = 12_000.0 / kinds as f64;
        let mut parents: Vec<usize> = vec![0];
        for number in 1..kinds {
            parents.push(random.usize(0..number));
        }
        let mut calls: Vec<Option<Call>> = (0..kinds)
            .map(|number| {
                let name = if number == 0 { name.to_owned() } else { format!("{name} step {number}") };
                Some(Call::new("delivery", name, each_us * (0.5 + random.f64())))
            })
            .collect();
        for number in (1..kinds).rev() {
            let below = calls[number].take();
            if let Some(parent) = calls[parents[number]].as_mut() {
                parent.below.splice(0..0, below);
            }
        }
        calls.swap_remove(0).unwrap()
    }

    /// The calls of an iteration.
    fn request(&mut self, slow: bool) -> Call {
        let short = |name: &str, us: f64| Call::new("shop", name, us);
        let (plant, rest_us) = (self.plant, 10_000.0);
        let long_us = match plant {
            Plant::Repeated { .. } | Plant::Grown { .. } | Plant::Loop | Plant::New { .. } => 4_000.0,
            _ => rest_us * self.long / (1.0 - self.long),
        };
        let part_us = rest_us / 6.0;
        let factor = |named: bool| match plant {
            Plant::LongSlower(times) if named && slow => times,
            _ => 1.0,
        };
        let mut root = Call::new("shop", "GET /order", part_us).with([
            short("read cart", part_us),
            short("check stock", if slow && plant == Plant::ShortSlower { 40_000.0 } else { part_us }),
            short(LONG, long_us * factor(true)),
            short("render", part_us).with([short("template", part_us)]),
        ]);
        let statements = if slow && plant == Plant::Statements { 50 } else { 2 };
        root.below.extend((0..statements).map(|_| short("SELECT stock", part_us / 2.0)));
        match plant {
            Plant::Repeated { kinds, times } => {
                let number = if slow { times } else { 1 };
                let calls: Vec<Call> = (0..number).map(|_| self.composite(CALL, kinds)).collect();
                root.below.splice(1..1, calls);
            }
            Plant::Grown { kinds, at_once } => {
                let number = if slow { 14 } else { 3 + self.random.usize(0..3) };
                let calls: Vec<Call> = (0..number).map(|_| self.composite(CALL, kinds)).collect();
                let rows = Call { at_once, ..short("each row", 500.0).with(calls) };
                root.below.push(rows);
            }
            Plant::Loop => {
                let number = if slow { 9 } else { 2 };
                let names = [CALL, "call stock", "call price"];
                let calls = (0..number).flat_map(|_| names).map(|name| self.composite(name, 5));
                let calls: Vec<Call> = calls.collect();
                root.below.push(short("each row", 500.0).with(calls));
            }
            Plant::New { kinds } if slow => {
                let call = self.composite(CALL, kinds);
                let longer = Call { own_us: call.own_us * 2.0, ..call };
                root.below.push(longer.with((0..2).map(|_| self.composite("fallback", kinds))));
            }
            _ => {}
        }
        root
    }

    /// How much longer everything in an iteration takes.
    fn factor(&mut self, slow: bool) -> f64 {
        match self.plant {
            Plant::Slower(times) if slow => times,
            Plant::TailOfAll => (0.5 * self.normal()).exp(),
            _ => 1.0,
        }
    }

    /// When work of this length that begins at this time ends.
    fn worked(&self, from_us: f64, own_us: f64) -> f64 {
        let mut until_us = from_us + own_us;
        for &(at_us, stop_us) in &self.stops_us {
            match self.plant {
                Plant::Stops if from_us <= at_us && at_us < until_us => until_us += stop_us,
                // Work goes on at a fraction of its pace.
                Plant::Starved(times) if from_us < at_us + stop_us && at_us < until_us => {
                    let begin_us = from_us.max(at_us);
                    let during_us = ((until_us - begin_us) * times).min(at_us + stop_us - begin_us);
                    until_us += during_us - during_us / times;
                }
                _ => {}
            }
        }
        until_us
    }

    fn own_us(&mut self, call: &Call, factor: f64) -> f64 {
        let noise = match self.plant {
            Plant::TailOfEach | Plant::TailOfEqual => 0.6,
            _ => self.noise,
        };
        call.own_us * factor * (noise * self.normal()).exp()
    }

    /// Runs a call, and returns its end.
    fn run(&mut self, call: &Call, parent: usize, from_us: f64, trace: &mut Trace) -> f64 {
        let index = trace.add(call.service, &call.name, parent, from_us);
        let own_us = self.own_us(call, trace.factor);
        let mut lanes = vec![self.worked(from_us, own_us / 2.0); call.at_once];
        for below in &call.below {
            let first = (0..lanes.len()).min_by(|&one, &other| lanes[one].total_cmp(&lanes[other])).unwrap();
            lanes[first] = self.run(below, index, lanes[first], trace);
        }
        let at_us = lanes.into_iter().fold(from_us, f64::max);
        let end_us = self.worked(at_us, own_us / 2.0);
        trace.end(index, end_us);
        end_us
    }

    /// A whole iteration: the client, the network, the service.
    fn iteration(&mut self, slow: bool, from_us: f64) -> (TraceTree, f64) {
        let request = self.request(slow);
        let mut trace = Trace { origin_us: from_us, points: Vec::new(), factor: self.factor(slow) };
        let root = trace.add(REPORTER, ITERATION, 0, from_us);
        let action = trace.add(REPORTER, ACTION, root, from_us + 20.0);
        let way_us = 200.0 + 100.0 * self.random.f64();
        let end_us = self.run(&request, action, from_us + way_us, &mut trace) + way_us;
        trace.end(action, end_us);
        trace.end(root, end_us + 20.0);
        (
            TraceTree { first_unix_us: 0, points: trace.points, unreadable: 0, ..TraceTree::default() },
            end_us + 20.0,
        )
    }

    /// All of a load's iterations, as they are compared.
    fn compared(mut self) -> Vec<ComparedIteration> {
        let mut free_us = [0.0_f64; CONCURRENCY];
        let mut all: Vec<(TraceTree, f64, f64)> = Vec::new();
        for number in 0..ITERATIONS {
            let first =
                (0..CONCURRENCY).min_by(|&one, &other| free_us[one].total_cmp(&free_us[other])).unwrap();
            let from_us = free_us[first];
            let (tree, end_us) = self.iteration(number % SLOW_EVERY == 3, from_us);
            free_us[first] = end_us + 200.0 * self.random.f64();
            all.push((tree, from_us, end_us));
        }
        all.sort_by(|one, other| (other.2 - other.1).total_cmp(&(one.2 - one.1)));
        let mut typical = all.split_off(ITERATIONS / 2);
        typical.truncate(ITERATIONS * 2 / 5);
        self.random.shuffle(&mut typical);
        typical.truncate(TYPICAL);
        all.truncate(SLOW);
        let of = |side: IterationClass| {
            move |(tree, from_us, end_us): (TraceTree, f64, f64)| ComparedIteration {
                side,
                top: false,
                trace_id: Uuid::nil(),
                sample: IterationSample {
                    start_ns: (from_us * 1e3) as u64,
                    due_ns: (from_us * 1e3) as u64,
                    duration_ns: ((end_us - from_us) * 1e3) as u64,
                    ..IterationSample::default()
                },
                tree: Some(Arc::new(tree)),
                functions: Arc::default(),
            }
        };
        all.into_iter()
            .map(of(IterationClass::Slow))
            .chain(typical.into_iter().map(of(IterationClass::Typical)))
            .collect()
    }
}

/// A trace under way.
struct Trace {
    origin_us: f64,
    points: Vec<Point>,
    factor: f64,
}

impl Trace {
    fn add(&mut self, service: &str, name: &str, parent: usize, at_us: f64) -> usize {
        let index = self.points.len();
        let parent = (index > 0).then_some(parent);
        self.points.push(Point {
            depth: parent.map_or(0, |parent| self.points[parent].depth + 1),
            parent,
            trace_id: index.to_string().into(),
            parent_id: "".into(),
            name: name.into(),
            service: Some(service.into()),
            project: (service == REPORTER).then(|| REPORTER.into()),
            host: None,
            start_us: (at_us - self.origin_us) as u64,
            starts: true,
            duration_us: None,
            self_us: None,
            reversed_us: None,
            error: None,
            info: serde_json::Map::new().into(),
            stop_info: serde_json::Map::new().into(),
        });
        index
    }

    fn end(&mut self, index: usize, at_us: f64) {
        let point = &mut self.points[index];
        point.duration_us = Some(((at_us - self.origin_us) as u64).saturating_sub(point.start_us));
        point.self_us = Some(0);
    }
}

/// What was said of a load, and whether that is right, wrong, or nothing.
fn verdict(plant: Plant, expected: ExpectedFinding, seed: u64) -> (&'static str, String) {
    let Causes { comparison, explanations, .. } =
        of_workload(&Load::new(plant, seed).compared(), 0, &Population::default(), seed);
    let comparison = comparison.unwrap();
    let cause = comparison.kinds.iter().find(|kind| kind.is_cause);
    let mut told = cause.map_or_else(String::new, |kind| format!("{} {:.2}", kind.name, kind.share));
    if let Some(kind) = &comparison.repeated {
        write!(told, " in {}", kind.name).unwrap();
    }
    if let Some(overall) = &comparison.overall {
        write!(told, "{:?} {:.2} {:?}", overall.pattern, overall.factor, overall.moments).unwrap();
    }
    // What is said of single iterations must not blame what the comparison does not.
    let blamed = explanations.iter().filter(|one| one.explains && one.name == LONG).count();
    let whole = comparison.overall.as_ref().map(|overall| overall.pattern);
    let is_named = |name: &str| {
        // Of a loop's calls any is right.
        cause.is_some_and(|kind| kind.name == name || plant == Plant::Loop && kind.name.starts_with(name))
            || comparison.repeated.as_ref().is_some_and(|kind| kind.name == name)
    };
    let said = match expected {
        ExpectedFinding::Named(name) if is_named(name) => "right",
        ExpectedFinding::Whole(pattern)
            if cause.is_none() && whole == Some(pattern) && 2 * blamed <= SLOW =>
        {
            "right"
        }
        // A host without processor time is both.
        ExpectedFinding::Whole(_)
            if cause.is_none() && whole.is_some() && matches!(plant, Plant::Starved(_)) =>
        {
            "right"
        }
        ExpectedFinding::Nothing if cause.is_none() && whole.is_none() => "right",
        ExpectedFinding::NoCause if cause.is_none() && whole != Some(WholePattern::SameMoments) => "right",
        _ if cause.is_none() && whole.is_none() => "silent",
        _ => "wrong",
    };
    (said, told)
}

const PLANTS: [(Plant, ExpectedFinding); 29] = [
    (Plant::Repeated { kinds: 2, times: 2 }, ExpectedFinding::Named(CALL)),
    (Plant::Repeated { kinds: 3, times: 2 }, ExpectedFinding::Named(CALL)),
    (Plant::Repeated { kinds: 8, times: 2 }, ExpectedFinding::Named(CALL)),
    (Plant::Repeated { kinds: 20, times: 2 }, ExpectedFinding::Named(CALL)),
    (Plant::Repeated { kinds: 40, times: 2 }, ExpectedFinding::Named(CALL)),
    (Plant::Repeated { kinds: 2, times: 3 }, ExpectedFinding::Named(CALL)),
    (Plant::Repeated { kinds: 12, times: 3 }, ExpectedFinding::Named(CALL)),
    (Plant::Repeated { kinds: 40, times: 3 }, ExpectedFinding::Named(CALL)),
    (Plant::Grown { kinds: 3, at_once: 1 }, ExpectedFinding::Named(CALL)),
    (Plant::Grown { kinds: 20, at_once: 1 }, ExpectedFinding::Named(CALL)),
    (Plant::Grown { kinds: 20, at_once: 3 }, ExpectedFinding::Named(CALL)),
    (Plant::Grown { kinds: 40, at_once: 4 }, ExpectedFinding::Named(CALL)),
    (Plant::Loop, ExpectedFinding::Named(CALL)),
    (Plant::New { kinds: 2 }, ExpectedFinding::Named(CALL)),
    (Plant::New { kinds: 15 }, ExpectedFinding::Named(CALL)),
    (Plant::Slower(1.5), ExpectedFinding::Whole(WholePattern::SameFactor)),
    (Plant::Slower(2.0), ExpectedFinding::Whole(WholePattern::SameFactor)),
    (Plant::Slower(3.0), ExpectedFinding::Whole(WholePattern::SameFactor)),
    (Plant::Slower(4.0), ExpectedFinding::Whole(WholePattern::SameFactor)),
    (Plant::Starved(3.0), ExpectedFinding::Whole(WholePattern::SameFactor)),
    (Plant::Stops, ExpectedFinding::Whole(WholePattern::SameMoments)),
    (Plant::LongSlower(2.0), ExpectedFinding::Named(LONG)),
    (Plant::LongSlower(4.0), ExpectedFinding::Named(LONG)),
    (Plant::ShortSlower, ExpectedFinding::Named("check stock")),
    (Plant::Statements, ExpectedFinding::Named("SELECT stock")),
    (Plant::TailOfAll, ExpectedFinding::NoCause),
    (Plant::TailOfEach, ExpectedFinding::Nothing),
    (Plant::TailOfEqual, ExpectedFinding::Nothing),
    (Plant::Healthy, ExpectedFinding::Nothing),
];

#[test]
fn what_is_planted_is_named_and_nothing_else() {
    let runs = option_env!("BENCH_TEST_SERIES").and_then(|runs| runs.parse().ok()).unwrap_or(RUNS);
    let all: Vec<(usize, u64)> =
        (0..PLANTS.len()).flat_map(|plant| (0..runs).map(move |seed| (plant, seed))).collect();
    let said = parallel::map(all.clone(), |(plant, seed)| {
        let (plant, expected) = PLANTS[plant];
        verdict(plant, expected, seed)
    });
    let (mut table, mut wrong, mut right) = (String::new(), 0, 0);
    for (number, (plant, _)) in PLANTS.iter().enumerate() {
        let of_plant = all.iter().zip(&said).filter(|((of, _), _)| *of == number);
        let of_plant: Vec<_> = of_plant.map(|((_, seed), said)| (seed, said)).collect();
        let count = |word: &str| of_plant.iter().filter(|(_, (said, _))| *said == word).count();
        writeln!(
            table,
            "{:40} right {:3}  wrong {:3}  silent {:3}",
            format!("{plant:?}"),
            count("right"),
            count("wrong"),
            count("silent")
        )
        .unwrap();
        for (seed, (said, told)) in of_plant.iter().filter(|(_, (said, _))| *said != "right") {
            writeln!(table, "    seed {seed}: {said}: {told}").unwrap();
        }
        (wrong, right) = (wrong + count("wrong"), right + count("right"));
    }
    println!("{table}");
    assert_eq!(wrong, 0, "{table}");
    assert!(right * 100 >= all.len() * 95, "{right} of {}:\n{table}", all.len());
}
