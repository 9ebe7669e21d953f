//! Tests with a service that stands still now and then, as with a blocked event loop. A request that it works on is
//! slow in its own points; one that comes meanwhile is slow in the call of its caller. Which of the two happens more
//! often is chance, so neither may stand out by itself.

use std::sync::Arc;

use serde_json::json;
use uuid::Uuid;

use super::causes::{ComparedIteration, of_workload};
use super::places::Population;
use measure::sample::IterationSample;
use osprofiler::record::{Timestamp, TraceRecord};
use osprofiler::report::TraceTree;
use results::choice::IterationClass;
use results::client_points::{ACTION, ITERATION, REPORTER};
use results::model::OwnTime;

/// The kind of a point's span, and the service that reported it.
type SpanOrigin = (&'static str, &'static str);

/// A trace under construction, with a clock.
struct TraceFixture {
    records: Vec<TraceRecord>,
    at_us: u64,
}

impl TraceFixture {
    fn half(&mut self, half: &str, name: &str, id: &str, parent: &str, (kind, service): SpanOrigin) {
        let info = if kind.is_empty() { json!({"name": name}) } else { json!({"kind": kind}) };
        self.records.push(TraceRecord {
            name: format!("{name}-{half}").into(),
            base_id: "b".into(),
            trace_id: id.into(),
            parent_id: parent.into(),
            timestamp: Timestamp::from_unix_ns((1_000_000_000_000_000 + self.at_us) * 1_000),
            info: info.as_object().cloned().unwrap_or_default().into(),
            project: Some(service.into()),
            service: Some(service.into()),
        });
    }

    /// A point, and what happens in it.
    fn point(&mut self, (name, parent): (&str, &str), by: SpanOrigin, inside: impl FnOnce(&mut Self)) {
        self.half("start", name, name, parent, by);
        inside(self);
        self.half("stop", name, name, parent, by);
    }
}

/// Where the time of a stop of 400 ms goes.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Stop {
    None,
    /// The call to `delivery` waits before `delivery` begins.
    Before,
    /// `delivery` stops while it works.
    Inside,
    /// `delivery` stops while it waits for `parcels`.
    Below,
    /// The caller, `shop`, stops between its statements.
    Caller,
    /// The caller stops while it waits for `delivery`, and takes the answer late.
    After,
}

/// A request to `shop`, which runs statements and calls `delivery`, which calls `parcels`.
fn trace(stop: Stop, waits_percent: u64, random: &mut fastrand::Rng) -> TraceFixture {
    let mut made = TraceFixture { records: Vec::new(), at_us: 0 };
    // A point may wait for a processor.
    let mut pass = |made: &mut TraceFixture, us: u64, of: Stop| {
        let waits_us =
            if random.u64(0..100) < waits_percent { 8_000.0 * -(1.0 - random.f64()).ln() } else { 0.0 };
        let stops_us = if stop == of && stop != Stop::None { 400_000 } else { 0 };
        made.at_us += us * random.u64(70..140) / 100 + waits_us as u64 + stops_us;
    };
    made.point((ITERATION, "b"), ("", REPORTER), |made| {
        made.point((ACTION, ITERATION), ("", REPORTER), |made| {
            made.point(("orders", ACTION), ("server", "shop"), |made| {
                for number in 0..8 {
                    let select = format!("select{number}");
                    made.point((&select, "orders"), ("", "shop"), |made| pass(made, 1_500, Stop::None));
                }
                pass(made, 3_000, Stop::Caller);
                made.point(("GET delivery", "orders"), ("client", "shop"), |made| {
                    pass(made, 2_000, Stop::Before);
                    made.point(("handler", "GET delivery"), ("server", "delivery"), |made| {
                        made.point(("quote", "handler"), ("", "delivery"), |made| {
                            pass(made, 2_000, Stop::Inside);
                            made.point(("GET parcels", "quote"), ("client", "delivery"), |made| {
                                pass(made, 1_000, Stop::None);
                                made.point(("pack", "GET parcels"), ("server", "parcels"), |made| {
                                    pass(made, 3_000, Stop::None);
                                });
                                pass(made, 500, Stop::Below);
                            });
                        });
                    });
                    pass(made, 500, Stop::After);
                });
            });
        });
    });
    made
}

/// The service that is named in a run of 420 iterations. Each kind of stop comes with its share of all stops, in percent, and
/// `waits_percent` of the points wait for a processor.
fn named(stops: &[(Stop, u64)], waits_percent: u64, seed: u64) -> Option<String> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut all: Vec<TraceFixture> = (0..420)
        .map(|number| {
            let part = random.u64(0..100);
            let mut until = 0;
            let drawn = stops.iter().find(|(_, percent)| {
                until += percent;
                part < until
            });
            // One in twelve stops.
            trace(
                drawn.filter(|_| number % 12 == 0).map_or(Stop::None, |(stop, _)| *stop),
                waits_percent,
                &mut random,
            )
        })
        .collect();
    all.sort_by_key(|made| std::cmp::Reverse(made.at_us));
    let compared: Vec<ComparedIteration> = (0..21)
        .chain(210..260)
        .map(|rank| {
            let TraceFixture { records, at_us } = &all[rank];
            ComparedIteration {
                side: if rank < 21 { IterationClass::Slow } else { IterationClass::Typical },
                top: rank < 4,
                trace_id: Uuid::from_u128(rank as u128),
                sample: IterationSample {
                    number: rank as u64,
                    duration_ns: at_us * 1_000,
                    ..IterationSample::default()
                },
                tree: Some(Arc::new(TraceTree::build(records))),
                functions: Arc::default(),
            }
        })
        .collect();
    let population = Population { total: 420, ..Population::default() };
    let comparison = of_workload(&compared, 0, &population, seed).comparison?;
    let cause = comparison.kinds.into_iter().find(|kind| kind.is_cause)?;
    // What comes after the answer of the called service is the caller's.
    let called = cause.called_service.filter(|_| cause.own_time != Some(OwnTime::After));
    Some(called.unwrap_or(cause.service))
}

/// What happens, in which part of the stops, in how many percent points wait for a processor, and the service to name.
type StopRow = (&'static str, &'static [(Stop, u64)], u64, Option<&'static str>);

#[test]
fn a_service_that_stands_still_is_named_wherever_it_stops() {
    const RUNS: u64 = 6;
    let rows: [StopRow; 9] = [
        ("nothing", &[], 8, None),
        ("half before it begins", &[(Stop::Before, 50), (Stop::Inside, 50)], 8, Some("delivery")),
        ("the same on a busy machine", &[(Stop::Before, 50), (Stop::Inside, 50)], 35, Some("delivery")),
        ("mostly before", &[(Stop::Before, 70), (Stop::Inside, 30)], 8, Some("delivery")),
        ("mostly inside", &[(Stop::Before, 30), (Stop::Inside, 70)], 8, Some("delivery")),
        (
            "some while it waits",
            &[(Stop::Before, 40), (Stop::Inside, 40), (Stop::Below, 20)],
            8,
            Some("delivery"),
        ),
        ("always before", &[(Stop::Before, 100)], 8, Some("delivery")),
        ("the caller", &[(Stop::Caller, 100)], 8, Some("shop")),
        ("the caller, half while it waits", &[(Stop::Caller, 50), (Stop::After, 50)], 8, Some("shop")),
    ];
    let mut faults = Vec::new();
    for (what, stops, waits_percent, expected) in rows {
        let seen: Vec<Option<String>> = (0..RUNS).map(|seed| named(stops, waits_percent, seed)).collect();
        let right = seen.iter().filter(|one| one.as_deref() == expected).count() as u64;
        let wrong = seen.iter().filter(|one| one.is_some() && one.as_deref() != expected).count();
        println!("{what}: of {RUNS} runs, {right} right, {wrong} wrong");
        faults.extend((wrong > 0 || right < RUNS).then_some(what));
    }
    assert!(faults.is_empty(), "{faults:?}");
}
