//! Slow against typical iterations by what the client alone knows, for runs without traces or with few.
//!
//! The comparison is that of [`super::causes`], over trees of the client's own points: queue time, actions, and the phases
//! of their requests. Of an action's own time only the waiting for the answer is left. Nothing here may say what a service
//! did.

use super::causes::ComparedIteration;
use super::compared::Traces;
use super::comparison::judge;
use super::levels::Level;
use super::places::{Population, places};
use measure::sample::IterationSample;
use osprofiler::report::TraceTree;
use results::choice::IterationClass;
use results::model::ClientComparison;

/// Fewer slow iterations say nothing.
const SLOW_MIN: usize = 10;
const SLOW_PERCENT: u32 = 5;

/// Compares the slow iterations of a workload with typical ones; the trees of `compared` have the client's points only.
/// `None` with too few iterations.
#[must_use]
pub fn of_workload(
    compared: &[ComparedIteration],
    workload: usize,
    population: &Population<'_>,
    seed: u64,
) -> Option<ClientComparison> {
    let none = TraceTree::default();
    let traces = Traces::of(compared, workload, &none);
    let slow = traces.which(|one| one.side == IterationClass::Slow);
    let typical = traces.which(|one| one.side == IterationClass::Typical);
    if slow.len() < SLOW_MIN || typical.is_empty() {
        return None;
    }
    let mut found =
        judge(&traces, (&slow, &typical), Level::Place, false, seed)?.comparison(&traces, SLOW_PERCENT);
    // A size or a status is one of the differences.
    found.kinds.iter_mut().for_each(|kind| kind.contrasts.clear());
    let samples: Vec<&IterationSample> = slow.iter().map(|&one| &traces.compared[one].sample).collect();
    Some(ClientComparison {
        slow_percent: SLOW_PERCENT,
        slow: found.slow,
        typical: found.typical,
        slow_ms: found.slow_ms,
        typical_ms: found.typical_ms,
        parts: found.kinds,
        differences: found.differences,
        places: places(&samples, &[], population),
    })
}

#[cfg(test)]
mod tests {

    use serde_json::{Map, Value, json};
    use uuid::Uuid;

    use super::*;
    use osprofiler::report::Point;
    use results::client_points::{ACTION, ITERATION, REPORTER};
    use results::model::Series;

    const TOTAL: u64 = 600;

    /// What an iteration was like.
    #[derive(Clone, Copy)]
    struct IterationFixture {
        number: u64,
        wait_us: u64,
        connect_us: u64,
        body_bytes: u64,
    }

    fn point(name: &str, parent: Option<usize>, (start_us, us, self_us): (u64, u64, u64)) -> Point {
        Point {
            depth: parent.map_or(0, |parent| parent + 1),
            parent,
            trace_id: format!("{name}-{start_us}").into(),
            parent_id: "".into(),
            name: name.into(),
            service: Some(REPORTER.into()),
            project: Some(REPORTER.into()),
            host: None,
            start_us,
            starts: true,
            reversed_us: None,
            duration_us: Some(us),
            self_us: Some(self_us),
            error: None,
            info: Map::new().into(),
            stop_info: Map::new().into(),
        }
    }

    fn compared(seen: IterationFixture, side: IterationClass) -> ComparedIteration {
        let all_us = seen.wait_us + seen.connect_us;
        let mut action = point(ACTION, Some(0), (0, all_us, seen.wait_us));
        action.info_mut().insert("name".into(), json!("buy"));
        action.stop_info.to_mut().insert("status".into(), Value::from(200));
        action.stop_info.to_mut().insert("body_bytes".into(), Value::from(seen.body_bytes));
        let mut points = vec![point(ITERATION, None, (0, all_us, 0)), action];
        if seen.connect_us > 0 {
            points.push(point("connect", Some(1), (0, seen.connect_us, seen.connect_us)));
        }
        let due_ns = seen.number * 50_000_000;
        let sample = IterationSample {
            number: seen.number,
            due_ns,
            start_ns: due_ns,
            duration_ns: all_us * 1_000,
            ..IterationSample::default()
        };
        let tree = TraceTree { points, ..TraceTree::default() };
        ComparedIteration {
            side,
            top: false,
            trace_id: Uuid::from_u128(seen.number.into()),
            sample,
            tree: Some(tree.into()),
            functions: std::sync::Arc::default(),
        }
    }

    /// The slowest 5 % against some of the others.
    fn compare(mut all: Vec<IterationFixture>, seed: u64) -> ClientComparison {
        all.sort_by_key(|one| std::cmp::Reverse(one.wait_us + one.connect_us));
        let slow = all[..30].iter().map(|one| compared(*one, IterationClass::Slow));
        let typical = all[300..].iter().step_by(7).map(|one| compared(*one, IterationClass::Typical));
        let chosen: Vec<ComparedIteration> = slow.chain(typical).collect();
        let series = Series { start_s: 0.0, step_s: 0.5, completed: vec![10; 60], ..Series::default() };
        let population = Population { total: TOTAL, series: Some(&series), ..Population::default() };
        of_workload(&chosen, 0, &population, seed).unwrap()
    }

    /// A run in which nothing is wrong: times, sizes and connections have nothing to do with each other.
    fn healthy(seed: u64) -> Vec<IterationFixture> {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut one = |number| IterationFixture {
            number,
            wait_us: (20_000.0 / (1.0 - random.f64()).sqrt()) as u64,
            connect_us: if random.u8(0..4) == 0 { 50 } else { 0 },
            body_bytes: 1 << random.u8(8..16),
        };
        (0..TOTAL).map(&mut one).collect()
    }

    #[test]
    fn the_client_finds_planted_causes_without_a_trace() {
        for (what, plant, part, difference, is_first) in [
            (
                "the first requests",
                (|one| {
                    if one.number < 15 {
                        one.wait_us += 2_000_000
                    }
                }) as fn(&mut IterationFixture),
                ACTION,
                None,
                true,
            ),
            (
                "slow new connections",
                |one| {
                    if one.number % 12 == 5 {
                        one.connect_us = 2_000_000
                    }
                },
                "connect",
                None,
                false,
            ),
            (
                "large answers",
                |one| {
                    if (one.number * 7919) % 1_000 < 60 {
                        (one.wait_us, one.body_bytes) = (2_000_000 + one.number, 1 << 20);
                    }
                },
                ACTION,
                Some("client.answer"),
                false,
            ),
        ] {
            let mut all = healthy(7);
            all.iter_mut().for_each(plant);
            let found = compare(all, 7);
            assert!(found.parts[0].is_cause && found.parts[0].name == part, "{what}: {:?}", found.parts[0]);
            let values = found.differences.iter().flat_map(|all| &all.found);
            let attributes: Vec<&str> = values.map(|one| one.value.attribute.as_str()).collect();
            assert!(difference.is_none_or(|one| attributes.contains(&one)), "{what}: {attributes:?}");
            let first = found.places.as_ref().is_some_and(|places| places.first.is_some());
            assert_eq!(first, is_first, "{what}: {:?}", found.places);
        }
    }

    #[test]
    fn of_healthy_runs_hardly_any_has_a_finding() {
        const RUNS: u64 = 100;
        let wrong = (0..RUNS).filter(|seed| {
            let found = compare(healthy(*seed), *seed);
            found.places.is_some() || found.differences.is_some_and(|all| !all.found.is_empty())
        });
        assert!(wrong.count() as u64 <= RUNS / 100);
    }

    #[test]
    fn too_few_iterations_say_nothing() {
        let few: Vec<ComparedIteration> = healthy(1)
            .into_iter()
            .take(40)
            .enumerate()
            .map(|(place, one)| {
                compared(
                    one,
                    if place < SLOW_MIN - 1 { IterationClass::Slow } else { IterationClass::Typical },
                )
            })
            .collect();
        assert!(of_workload(&few, 0, &Population::default(), 1).is_none());
    }
}
