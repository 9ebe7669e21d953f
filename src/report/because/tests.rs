//! Sentences against the traces that they speak of. Each family of traces has a known truth, and every number of its
//! sentence is worked out anew from the traces, call by call.

use std::sync::Arc;

use serde_json::json;
use uuid::Uuid;

use crate::document::terminal;
use crate::explanation::{comparison, sentence};
use crate::texts::duration;
use analysis::causes::{ComparedIteration, of_workload};
use analysis::late_work::{WAITING_AGAIN, WAITING_IN_QUEUE, WAITING_TO_BEGIN};
use analysis::places::Population;
use measure::sample::{ActionSample, IterationSample};
use osprofiler::record::{Timestamp, TraceRecord};
use osprofiler::report::TraceTree;
use results::choice::IterationClass;
use results::client_points::REPORTER;
use results::model::Comparison;

const SLOW: usize = 30;
const TYPICAL: usize = 50;
const BEGIN_US: u64 = 1_000_000_000_000_000;

/// A point: its name, the index of the one around it, its start and end in microseconds, and its shard.
struct PointSpecification(&'static str, Option<usize>, u64, u64, Option<usize>);

/// A trace of a request `GET /orders` to `shop`, whose points begin `before_us` after the request and end `after_us` before
/// its end.
fn trace(points: &[PointSpecification], (before_us, after_us): (u64, u64)) -> (TraceTree, IterationSample) {
    let until_us = points.iter().map(|point| point.3).max().unwrap_or(0) + before_us + after_us;
    let mut records = Vec::new();
    let mut add =
        |name: &str, id: &str, parent: &str, (from, to): (u64, u64), by: &str, info: serde_json::Value| {
            for (half, us) in [("start", from), ("stop", to)] {
                records.push(TraceRecord {
                    name: format!("{name}-{half}").into(),
                    base_id: "b".into(),
                    trace_id: id.into(),
                    parent_id: parent.into(),
                    timestamp: Timestamp::from_unix_ns((BEGIN_US + us) * 1_000),
                    info: info.as_object().cloned().unwrap_or_default().into(),
                    project: Some(by.into()),
                    service: Some(by.into()),
                });
            }
        };
    add("iteration", "i", "b", (0, until_us), REPORTER, json!({"name": "order"}));
    add("action", "a", "i", (0, until_us), REPORTER, json!({"name": "orders"}));
    for (index, PointSpecification(name, parent, from, to, shard)) in points.iter().enumerate() {
        let above = parent.map_or_else(|| "a".to_owned(), |parent| parent.to_string());
        let info = shard.map_or_else(|| json!({}), |shard| json!({"shard": shard}));
        let times = (from + before_us, to + before_us);
        add(name, &index.to_string(), &above, times, "shop", info);
    }
    let action = ActionSample { duration_ns: until_us * 1_000, requests: 1, ..ActionSample::default() };
    let duration_ns = until_us * 1_000;
    let sample = IterationSample { duration_ns, actions: vec![action], ..IterationSample::default() };
    (TraceTree::build(&records), sample)
}

/// The slow and the typical traces of a family, with noise.
type Family = fn(is_slow: bool, noise: &mut dyn FnMut(u64) -> u64) -> (Vec<PointSpecification>, (u64, u64));

fn compared(family: Family) -> Vec<ComparedIteration> {
    let mut random = fastrand::Rng::with_seed(7);
    let mut noise = |us: u64| us * random.u64(95..105) / 100;
    let one = |number: usize| {
        let is_slow = number < SLOW;
        let (points, around) = family(is_slow, &mut noise);
        let (tree, sample) = trace(&points, around);
        ComparedIteration {
            side: if is_slow { IterationClass::Slow } else { IterationClass::Typical },
            top: false,
            trace_id: Uuid::from_u128(number as u128 + 1),
            sample: IterationSample { number: number as u64, ..sample },
            tree: Some(Arc::new(tree)),
            functions: Arc::default(),
        }
    };
    (0..SLOW + TYPICAL).map(one).collect()
}

/// The durations of the points of this name, the longest first, of each trace of a side.
fn calls_ms(all: &[ComparedIteration], side: IterationClass, name: &str) -> Vec<Vec<f64>> {
    let of = |one: &ComparedIteration| {
        let points = one.tree.iter().flat_map(|tree| &tree.points).filter(|point| point.name == name);
        let mut ms: Vec<f64> = points.map(|point| point.duration_us.unwrap() as f64 / 1e3).collect();
        ms.sort_by(|one, other| other.total_cmp(one));
        ms
    };
    all.iter().filter(|one| one.side == side).map(of).collect()
}

/// How much longer the call of this rank takes in slow traces, on average.
fn longer_ms(all: &[ComparedIteration], name: &str, rank: usize) -> f64 {
    let mean = |side: IterationClass| {
        let ms: Vec<f64> = calls_ms(all, side, name).iter().map(|calls| calls[rank]).collect();
        ms.iter().sum::<f64>() / ms.len() as f64
    };
    mean(IterationClass::Slow) - mean(IterationClass::Typical)
}

fn found(family: Family) -> (Vec<ComparedIteration>, Comparison, String) {
    let all = compared(family);
    let found = of_workload(&all, 0, &Population::default(), 7).comparison.unwrap();
    let text = terminal::line(&comparison(&found), terminal::TerminalStyle::default());
    (all, found, text)
}

/// The server's point with twenty calls below it, one after the other or side by side, that take this long.
fn twenty(
    ms: impl Fn(usize) -> f64,
    parallel: bool,
    noise: &mut dyn FnMut(u64) -> u64,
) -> Vec<PointSpecification> {
    let mut points = vec![PointSpecification("wsgi", None, 0, 0, None)];
    let (mut at_us, mut end_us) = (1_000, 0);
    for shard in 0..20 {
        let us = noise((ms(shard) * 1e3) as u64);
        points.push(PointSpecification("db", Some(0), at_us, at_us + us, Some(shard)));
        end_us = end_us.max(at_us + us);
        at_us += if parallel { 0 } else { us };
    }
    points[0].3 = end_us + 1_000;
    points
}

#[test]
fn one_slow_call_of_twenty_is_not_twenty() {
    let sequential: Family = |is_slow, noise| {
        (twenty(|shard| if shard == 7 && is_slow { 117.0 } else { 5.0 }, false, noise), (300, 300))
    };
    let parallel: Family = |is_slow, noise| {
        (twenty(|shard| if shard == 7 && is_slow { 117.0 } else { 5.0 }, true, noise), (300, 300))
    };
    for (what, family) in [("one after the other", sequential), ("side by side", parallel)] {
        let (all, seen, text) = found(family);
        let first = longer_ms(&all, "db", 0);
        assert!((110.0..114.0).contains(&first), "{first}");
        let expected = format!("the longest of its 20 calls takes {} longer", duration(first));
        assert!(text.contains(&expected), "{what}: {expected}: {text}");
        assert!(!text.contains("each of"), "{what}: {text}");
        // The others take no longer but for the noise, and the slow one is named by what tells it from them.
        let spread = seen.kinds[0].spread.as_ref().unwrap();
        assert!(spread.others_longer_ms.unwrap().abs() < 0.5, "{spread:?}");
        assert_eq!((spread.longest, spread.of), (1, 20.0));
        assert!(text.contains("with `shard=7`"), "{what}: {text}");
        let contrast = &seen.kinds[0].contrasts[0];
        assert_eq!((contrast.attribute.as_str(), contrast.value.as_str()), ("shard", "7"));
        assert!(contrast.slow_share > 0.5 && contrast.typical_share < 0.2, "{contrast:?}");
    }
}

#[test]
fn calls_that_are_alike_are_told_as_such_and_others_by_how_many_they_are() {
    let alike: Family =
        |is_slow, noise| (twenty(|_| if is_slow { 10.0 } else { 5.0 }, false, noise), (300, 300));
    let (all, _, text) = found(alike);
    let mean = (0..20).map(|rank| longer_ms(&all, "db", rank)).sum::<f64>() / 20.0;
    let expected = format!("because each of its 20 calls takes {} longer", duration(mean));
    assert!(text.contains(&expected), "{expected}: {text}");
    let three: Family = |is_slow, noise| {
        let ms = |shard: usize| if shard.is_multiple_of(8) && is_slow { 60.0 } else { 5.0 };
        (twenty(ms, false, noise), (300, 300))
    };
    let (all, _, text) = found(three);
    let mean = (0..3).map(|rank| longer_ms(&all, "db", rank)).sum::<f64>() / 3.0;
    let expected = format!("because the 3 longest of its 20 calls take {} longer on average", duration(mean));
    assert!(text.contains(&expected), "{expected}: {text}");
    // Side by side, each takes as much longer as all of them together.
    let parallel: Family =
        |is_slow, noise| (twenty(|_| if is_slow { 100.0 } else { 5.0 }, true, noise), (300, 300));
    let (all, _, text) = found(parallel);
    let mean = (0..20).map(|rank| longer_ms(&all, "db", rank)).sum::<f64>() / 20.0;
    assert!(mean > 90.0, "{mean}");
    let expected = format!("because each of its 20 calls takes {} longer", duration(mean));
    assert!(text.contains(&expected), "{expected}: {text}");
}

/// A shard that is the slowest on both sides is told by its own time.
#[test]
fn a_shard_that_is_always_the_longest_is_named_too() {
    let family: Family = |is_slow, noise| {
        let ms = |shard: usize| if shard == 7 { if is_slow { 130.0 } else { 10.0 } } else { 5.0 };
        (twenty(ms, true, noise), (300, 300))
    };
    let (_, _, text) = found(family);
    assert!(text.contains("with `shard=7`"), "{text}");
    // Where another one is slow in each trace, none is named.
    let any: Family = |is_slow, noise| {
        let slow = (noise(1_237) % 20) as usize;
        (twenty(|shard| if shard == slow && is_slow { 130.0 } else { 5.0 }, true, noise), (300, 300))
    };
    let (_, seen, text) = found(any);
    assert!(seen.kinds[0].contrasts.is_empty(), "{text}");
}

/// Own time is not a duration: where it lies in its point is said, and that the points below do not count.
#[test]
fn own_time_is_told_with_its_place() {
    /// The server's point with two calls of 10 ms below; its own time before, between and after them.
    fn own(
        before: u64,
        between: u64,
        after: u64,
        noise: &mut dyn FnMut(u64) -> u64,
    ) -> Vec<PointSpecification> {
        let [before, between, after] = [before, between, after].map(|ms| noise(ms * 1_000));
        let (one, two) = (before, before + 10_000 + between);
        vec![
            PointSpecification("wsgi", None, 0, two + 10_000 + after, None),
            PointSpecification("db", Some(0), one, one + 10_000, None),
            PointSpecification("db", Some(0), two, two + 10_000, None),
        ]
    }
    let rows: [(Family, &str); 5] = [
        (
            |is_slow, noise| (own(if is_slow { 103 } else { 3 }, 3, 3, noise), (300, 300)),
            "by itself, before the first point below it",
        ),
        (
            |is_slow, noise| (own(3, if is_slow { 103 } else { 3 }, 3, noise), (300, 300)),
            "by itself, between the points below it",
        ),
        (
            |is_slow, noise| (own(3, 3, if is_slow { 103 } else { 3 }, noise), (300, 300)),
            "by itself, after the last point below it",
        ),
        (
            |is_slow, noise| {
                let ms = if is_slow { 53 } else { 3 };
                (own(ms, 3, ms, noise), (300, 300))
            },
            "by itself, without the points below it",
        ),
        // Without points below, own time is duration.
        (
            |is_slow, noise| {
                let us = noise(if is_slow { 103_000 } else { 3_000 });
                (vec![PointSpecification("wsgi", None, 0, us, None)], (300, 300))
            },
            "longer.",
        ),
    ];
    for (family, place) in rows {
        let (all, seen, text) = found(family);
        let own_ms = |side: IterationClass| -> f64 {
            let of = |one: &ComparedIteration| {
                let wsgi = one.tree.iter().flat_map(|tree| &tree.points).find(|point| point.name == "wsgi");
                wsgi.and_then(|point| point.self_us).unwrap() as f64 / 1e3
            };
            let all: Vec<f64> = all.iter().filter(|one| one.side == side).map(of).collect();
            all.iter().sum::<f64>() / all.len() as f64
        };
        let longer = duration(own_ms(IterationClass::Slow) - own_ms(IterationClass::Typical));
        let expected = format!("it takes {longer} longer {place}").replace("longer longer.", "longer.");
        assert!(text.contains(&expected), "{expected}: {text}");
        assert_eq!(seen.kinds[0].name, "wsgi");
        // The same of a single iteration.
        let one = &of_workload(&all, 0, &Population::default(), 7).explanations[0];
        let text = terminal::line(&sentence(one), terminal::TerminalStyle::default());
        let place = if place == "longer." { "longer than in typical iterations: " } else { place };
        assert!(text.contains(place), "{place}: {text}");
    }
}

#[test]
fn time_outside_of_the_services_says_where_it_lies_and_what_it_can_be() {
    let rows: [(Family, &str, &str); 2] = [
        (
            |is_slow, noise| {
                (
                    vec![PointSpecification("wsgi", None, 0, noise(5_000), None)],
                    (noise(if is_slow { 90_000 } else { 500 }), 500),
                )
            },
            "before the first point of a service",
            "a queue of the service before its first point",
        ),
        (
            |is_slow, noise| {
                (
                    vec![PointSpecification("wsgi", None, 0, noise(5_000), None)],
                    (500, noise(if is_slow { 90_000 } else { 500 })),
                )
            },
            "after the last point of a service",
            "what the service does after its last point",
        ),
    ];
    for (family, place, reason) in rows {
        let (all, _, text) = found(family);
        assert!(text.contains(&format!("longer {place}: the network, a proxy, {reason}")), "{text}");
        let one = &of_workload(&all, 0, &Population::default(), 7).explanations[0];
        let text = terminal::line(&sentence(one), terminal::TerminalStyle::default());
        assert!(text.contains(place) && text.contains("It can be the network, a proxy, "), "{text}");
    }
}

#[test]
fn waiting_work_is_told_by_why_it_waits() {
    for (name, [slow, typical], [more_ms, slower_ms], expected) in [
        (
            WAITING_IN_QUEUE,
            [1.0, 1.0],
            [0.0, 130.0],
            "messages wait 130 ms longer: no worker was free, none asked for them, or they were to be delivered later",
        ),
        (WAITING_IN_QUEUE, [5.0, 1.0], [120.0, 10.0], "5 messages wait one after another instead of 1"),
        (
            WAITING_AGAIN,
            [1.0, 0.0],
            [130.0, 0.0],
            "the work had run before and waited 130 ms to run again, which typical work does not",
        ),
        (
            WAITING_AGAIN,
            [1.0, 1.0],
            [0.0, 130.0],
            "work that had run before waits 130 ms longer to run again",
        ),
        (WAITING_TO_BEGIN, [1.0, 1.0], [0.0, 130.0], "it waits 130 ms longer to begin"),
    ] {
        let kind = serde_json::from_value(json!({
            "service": "worker", "name": name, "detail": "work", "parent": "send", "outside": false, "delta_ms": 130.0,
            "share": 0.9, "share_low": 0.8, "share_high": 1.0, "slow_calls": slow, "typical_calls": typical,
            "more_calls_ms": more_ms, "slower_calls_ms": slower_ms, "effect": 1.0, "exceeding": 1.0, "guilty": true,
            "worst_trace_id": null,
        }));
        assert_eq!(super::because(&kind.unwrap()), expected);
    }
}
