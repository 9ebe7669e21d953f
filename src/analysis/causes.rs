//! Compares slow with typical iterations of each workload, for the results.
//!
//! Combines the chosen iterations, their trees and the attribution. Nothing here may fetch, print or write text for
//! readers.

use uuid::Uuid;

pub use super::compared::ComparedIteration;
use super::compared::Traces;
use super::comparison::{ComparisonFinding, judge};
use super::explanation;
use super::levels::Level;
use super::moments::{IterationPeriod, moments};
use super::places::{Population, places};
use super::some::{CALLERS_MIN, OccasionalCall, called_by_some};
use super::tails::{SLOW_PERCENT, Tail, tails};
use measure::sample::{CompletionStatus, IterationSample};
use osprofiler::report::TraceTree;
use results::choice::{FEW_FROM, FEW_UNTIL, IterationClass, SLOWEST_OF_FEW};
use results::model::{Comparison, Explanation, NoCauseReason, Overall, SlowIterationShortage, SlowMoments};

/// Why the slow iterations of a workload were slow.
#[derive(Clone, Debug, Default)]
pub struct Causes {
    /// Slow against typical ones; `None` if there are no slow iterations with traces.
    pub comparison: Option<Comparison>,
    /// Each slow or failed one, slowest first.
    pub explanations: Vec<Explanation>,
    /// The traces that lack spans which typical ones have.
    pub lacking: Vec<Uuid>,
}

/// Why the slow iterations of one workload were slow.
///
/// The slowest 1 % are compared first, because a cause that affects only them is lost among the slowest 5 %. If they
/// are too few or show no finding, more of them are compared, up to the slowest 5 % (`tails`). If those are too few and
/// there are at least 100 iterations, the slowest 20 iterations are compared. If no kind of point stands out under the
/// point around it, kinds are compared wherever they are. If none stands out then, a call may that only some slow
/// iterations make (`some`). Then, whole services are compared, and then each with the calls that wait for it. If
/// nothing stands out in the end, the slow iterations may be slow as a whole.
#[must_use]
pub fn of_workload(
    compared: &[ComparedIteration],
    workload: usize,
    population: &Population<'_>,
    seed: u64,
) -> Causes {
    let none = TraceTree::default();
    let traces = Traces::of(compared, workload, &none);
    let sides = Sides::of(&traces, population);
    let found = sides.compared(&traces, Level::Place, seed);
    let further = found.as_ref().and_then(|found| sides.further(&traces, found, seed));
    let overall = found.as_ref().filter(|_| further.is_none());
    let overall = overall.and_then(|found| sides.overall(&traces, found, seed));
    let (found, overall) = overall.map_or((found, None), |(found, overall)| (Some(found), Some(overall)));
    let (traces, found) = further.map_or((traces, found), |(traces, found)| (traces, Some(found)));
    let comparison = found.map(|found| {
        let samples = |of: &[usize]| -> Vec<&IterationSample> {
            of.iter().map(|&one| &traces.compared[one].sample).collect()
        };
        let mut comparison = found.judged.comparison(&traces, found.percent);
        comparison.of_slow = found.of_slow;
        let typical = samples(&sides.typical);
        let all_slow = sides.tails.last().map_or(&[][..], |tail| &tail.of);
        comparison.places = places(
            &samples(&found.slow),
            &samples(all_slow),
            &Population { typical: &typical, ..population.clone() },
        );
        // A sample is no larger in a longer run.
        let is_sample = population.compared() < population.total;
        let missing = missing(&comparison, population.compared());
        comparison.missing = missing.filter(|_| overall.is_none() && !is_sample);
        comparison.overall = overall;
        comparison
    });
    let explanations = explanation::of_each(&traces, &sides.typical, population.slowest, comparison.as_ref());
    let lacking = traces.compared.iter().zip(&traces.lacking).filter(|(_, lacking)| **lacking);
    Causes { comparison, explanations, lacking: lacking.map(|(one, _)| one.trace_id).collect() }
}

/// The slow iterations of a workload, as indices of its traces, and the typical ones.
struct Sides {
    /// The slowest 1 %, and more of them.
    tails: Vec<Tail>,
    /// The slowest of few.
    few: Option<Tail>,
    typical: Vec<usize>,
    /// When the longest iterations of the workload began, and how long they took, also those without a trace.
    longest: Vec<IterationPeriod>,
}

/// A comparison, and which slow iterations it is of.
struct TailComparison {
    judged: ComparisonFinding,
    slow: Vec<usize>,
    percent: u32,
    /// Of how many slow iterations these make the call that is named.
    of_slow: Option<u64>,
    /// When they come, if not at any time.
    moments: Option<SlowMoments>,
}

impl TailComparison {
    fn has_few(&self) -> bool {
        self.judged.no_finding() == Some(NoCauseReason::FewTraces)
    }
}

impl Sides {
    fn of(traces: &Traces<'_>, population: &Population<'_>) -> Self {
        let total = population.compared();
        let top = traces.which(|one| one.side == IterationClass::Slow && one.top);
        let slow = traces.which(|one| one.side == IterationClass::Slow);
        Self {
            tails: tails(traces, top, slow, total),
            few: slowest_of_few(traces, total),
            typical: traces.which(|one| one.side == IterationClass::Typical),
            longest: population.longest.clone(),
        }
    }

    /// Compares the iterations of a tail with the typical ones.
    fn judged(&self, traces: &Traces<'_>, tail: &Tail, level: Level, seed: u64) -> Option<TailComparison> {
        let moments = self.moments(traces, &tail.of);
        let judged = judge(traces, (&tail.of, &self.typical), level, moments.is_some(), seed)?;
        Some(TailComparison { judged, slow: tail.of.clone(), percent: tail.percent, of_slow: None, moments })
    }

    /// The moments at which these slow iterations come, or the longer half of them: iterations that a stop holds up are
    /// longer than others beside them. If these are too few to tell, all iterations of the run that took about as long.
    fn moments(&self, traces: &Traces<'_>, slow: &[usize]) -> Option<SlowMoments> {
        let times = |of: &[usize]| -> Vec<IterationPeriod> {
            let of = of.iter().map(|&one| &traces.compared[one].sample);
            of.map(|sample| (sample.start_ns, sample.duration_ns)).collect()
        };
        let mean_ms = |times: &[IterationPeriod]| {
            times.iter().map(|one| one.1 as f64 / 1e6).sum::<f64>() / times.len().max(1) as f64
        };
        let typical_ms = mean_ms(&times(&self.typical));
        let mut longest = slow.to_vec();
        longest.sort_by_key(|&one| std::cmp::Reverse(traces.compared[one].sample.response_ns()));
        longest.truncate(slow.len() / 2);
        let from_ms = (typical_ms + mean_ms(&times(slow))) / 2.0;
        let as_long = self.longest.iter().copied().filter(|one| one.1 as f64 / 1e6 >= from_ms).collect();
        let all: Vec<usize> = (0..traces.compared.len()).collect();
        let all = times(&all);
        [times(slow), times(&longest), as_long].iter().find_map(|of| moments(of, &all, typical_ms))
    }

    /// How slow iterations are slow as a whole, if nothing in them stands out, and in which of them that is seen.
    fn overall(
        &self,
        traces: &Traces<'_>,
        found: &TailComparison,
        seed: u64,
    ) -> Option<(TailComparison, Overall)> {
        if found.judged.no_finding() != Some(NoCauseReason::Unclear) {
            return None;
        }
        // What affects only the slowest ones is lost among many others here too.
        self.tails.iter().find_map(|tail| {
            let found = self.judged(traces, tail, Level::Place, seed)?;
            let overall = found.judged.overall(traces, found.moments)?;
            Some((found, overall))
        })
    }

    /// The first tail that shows a finding, or the last.
    fn compared(&self, traces: &Traces<'_>, level: Level, seed: u64) -> Option<TailComparison> {
        let of = |tail: &Tail| self.judged(traces, tail, level, seed);
        let (last, first) = self.tails.split_last()?;
        let found =
            first.iter().find_map(|tail| of(tail).filter(|found| found.judged.no_finding().is_none()));
        let found = found.or_else(|| of(last));
        match &self.few {
            Some(few) if found.as_ref().is_none_or(TailComparison::has_few) => {
                of(few).filter(|wider| !wider.has_few()).or(found)
            }
            _ => found,
        }
    }

    /// What stands out if no kind does under the point around it, with the traces at that level of detail.
    fn further<'a>(
        &self,
        traces: &Traces<'a>,
        found: &TailComparison,
        seed: u64,
    ) -> Option<(Traces<'a>, TailComparison)> {
        if found.judged.no_finding() != Some(NoCauseReason::Unclear) {
            return None;
        }
        let at = |level: Level, of: &dyn Fn(&Traces<'a>) -> Option<TailComparison>| {
            let traces = traces.at(level)?;
            let found = of(&traces)?;
            found.judged.no_finding().is_none().then_some((traces, found))
        };
        let all = |level| at(level, &|traces| self.compared(traces, level, seed));
        let some = |level| at(level, &|traces| self.of_callers(traces, found, level, seed));
        all(Level::Kind)
            .or_else(|| some(Level::Place))
            .or_else(|| some(Level::Kind))
            .or_else(|| all(Level::Service))
            .or_else(|| all(Level::Served))
    }

    /// Compares the slow iterations that make a call which typical ones do not make.
    fn of_callers(
        &self,
        traces: &Traces<'_>,
        found: &TailComparison,
        level: Level,
        seed: u64,
    ) -> Option<TailComparison> {
        let (slow, typical) = (traces.complete(&found.slow), traces.complete(&self.typical));
        let called = called_by_some(traces, &slow, &typical).into_iter().filter(|one| one.is_certain);
        called.into_iter().find_map(|OccasionalCall { kind, by, .. }| {
            let judged = judge(traces, (&by, &self.typical), level, false, seed)?.of_callers(kind)?;
            let of_slow = Some(slow.len() as u64);
            Some(TailComparison { judged, slow: by, percent: found.percent, of_slow, moments: None })
        })
    }
}

/// Which slow iterations a finding lacks. Traces that are missing are another matter, which more iterations do not mend.
fn missing(seen: &Comparison, total: u64) -> Option<SlowIterationShortage> {
    let needed = |seen: u64, needed: u64| (total * needed).div_ceil(seen.max(1));
    match seen.no_finding? {
        NoCauseReason::FewTraces if seen.left_out == 0 && total < FEW_FROM => {
            let (seen, needed) = (seen.slow, SLOWEST_OF_FEW as u64);
            Some(SlowIterationShortage { seen, needed, iterations: FEW_FROM, of_callers: false })
        }
        NoCauseReason::Unclear => {
            let first = seen.kinds.first().filter(|kind| kind.share >= CALLED_MIN)?;
            let callers = (first.slow_calls.min(1.0) * seen.slow as f64).round() as u64;
            let is_called_by_few = first.typical_calls < 0.05 && callers > 0 && callers < CALLERS_MIN as u64;
            is_called_by_few.then(|| SlowIterationShortage {
                seen: callers,
                needed: CALLERS_MIN as u64,
                iterations: needed(callers, CALLERS_MIN as u64),
                of_callers: true,
            })
        }
        _ => None,
    }
}

/// A call that explains less of the difference is no reason to run more iterations.
const CALLED_MIN: f64 = 0.2;

/// The slowest iterations of a workload of few, and which part of all they are in percent; `None` if there are too few, or
/// enough. Some more than these were chosen, so those that lack points can be replaced.
fn slowest_of_few(traces: &Traces<'_>, total: u64) -> Option<Tail> {
    if !(FEW_FROM..FEW_UNTIL).contains(&total) {
        return None;
    }
    let is_ok = |one: &ComparedIteration| {
        one.sample.ended == CompletionStatus::Ok && one.side != IterationClass::Typical
    };
    let mut slowest = traces.which(is_ok);
    slowest.sort_by_key(|&index| std::cmp::Reverse(traces.compared[index].sample.response_ns()));
    slowest.truncate(SLOWEST_OF_FEW + SLOWEST_OF_FEW / 5);
    let complete = traces.complete(&slowest);
    if complete.len() >= SLOWEST_OF_FEW {
        slowest = complete;
    }
    slowest.truncate(SLOWEST_OF_FEW);
    let percent = (100 * SLOWEST_OF_FEW as u64).div_ceil(total);
    Some(Tail { of: slowest, percent: u32::try_from(percent).unwrap_or(SLOW_PERCENT) })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use uuid::Uuid;

    use osprofiler::functions::model::{Builder, Function};
    use osprofiler::record::TraceRecord;
    use results::client_points::REPORTER;
    use results::functions::Functions;

    /// A trace in which `shop` calls `delivery`, whose work begins late; each service's points as (name, start, end).
    fn calling(called: &[(&str, &str, u32, u32)], until_us: u32) -> TraceTree {
        let record = |name: String, id: usize, parent: &str, us: u32, service: &str| TraceRecord {
            name: name.into(),
            base_id: "b".into(),
            trace_id: id.to_string().into(),
            parent_id: parent.into(),
            timestamp: format!("2026-11-20T22:52:00.{us:06}").into(),
            info: serde_json::Map::new().into(),
            project: None,
            service: Some(service.into()),
        };
        let points = [("shop", "call", 0, until_us)];
        let mut records = Vec::new();
        for (id, (service, name, start_us, end_us)) in points.iter().chain(called).enumerate() {
            let parent = if id == 0 { "b" } else { "0" };
            records.push(record(format!("{name}-start"), id, parent, *start_us, service));
            records.push(record(format!("{name}-stop"), id, parent, *end_us, service));
        }
        TraceTree::build(&records)
    }

    #[test]
    fn a_call_of_one_other_service_names_it() {
        let rows = [
            ("another service", vec![("delivery", "wsgi", 1_000, 2_000)], Some("delivery")),
            ("the same service", vec![("shop", "wsgi", 1_000, 2_000)], None),
            ("two", vec![("delivery", "wsgi", 1_000, 2_000), ("stock", "wsgi", 3_000, 4_000)], None),
            ("none", vec![], None),
        ];
        for (what, called, expected) in rows {
            let compared = |side: IterationClass, until_us: u32| ComparedIteration {
                side,
                top: false,
                trace_id: Uuid::nil(),
                sample: IterationSample::default(),
                tree: Some(calling(&called, until_us).into()),
                functions: Arc::default(),
            };
            let mut all: Vec<ComparedIteration> =
                (0..20).map(|_| compared(IterationClass::Slow, 900_000)).collect();
            all.extend((0..40).map(|_| compared(IterationClass::Typical, 9_000)));
            let first = of_workload(&all, 0, &Population::default(), 7).comparison.unwrap().kinds.remove(0);
            assert_eq!((first.name.as_str(), first.is_cause), ("call", true), "{what}");
            assert_eq!(first.called_service.as_deref(), expected, "{what}");
        }
    }

    /// A workload with few iterations compares its slowest ones that have whole traces.
    #[test]
    fn of_few_iterations_the_slowest_with_whole_traces_are_compared() {
        let slow = SLOWEST_OF_FEW + 4;
        let compared =
            |number: u64, is_whole: bool, ended: CompletionStatus, side: IterationClass| ComparedIteration {
                side,
                top: false,
                trace_id: Uuid::nil(),
                sample: IterationSample {
                    number,
                    duration_ns: 1_000 - number,
                    ended,
                    ..IterationSample::default()
                },
                tree: is_whole.then(|| calling(&[], 900_000).into()),
                functions: Arc::default(),
            };
        for (lacking, total, expected) in [
            (0, 300, Some((0, 7))),
            // Traces that lack points are replaced, if enough more were chosen.
            (1, 300, Some((1, 7))),
            (4, 300, Some((4, 7))),
            (5, 300, Some((0, 7))),
            (
                0,
                FEW_FROM,
                Some((0, u32::try_from((100 * SLOWEST_OF_FEW as u64).div_ceil(FEW_FROM)).unwrap())),
            ),
            (0, FEW_FROM - 1, None),
            (0, FEW_UNTIL, None),
        ] {
            let of_slow =
                |number| compared(number, number >= lacking, CompletionStatus::Ok, IterationClass::Slow);
            let mut all: Vec<ComparedIteration> = (0..slow as u64).map(of_slow).collect();
            all.extend(
                (0..50).map(|number| {
                    compared(500 + number, true, CompletionStatus::Ok, IterationClass::Typical)
                }),
            );
            all.insert(0, compared(0, true, CompletionStatus::Failed, IterationClass::Slow));
            let none = TraceTree::default();
            let found = slowest_of_few(&Traces::of(&all, 0, &none), total);
            let first = found.map(|Tail { of: slowest, percent }| {
                assert_eq!(slowest.len(), SLOWEST_OF_FEW, "{lacking} of {total}");
                (all[slowest[0]].sample.number, percent)
            });
            assert_eq!(first, expected, "{lacking} of {total}");
        }
    }

    /// Their times say nothing, so they are left out where times are compared.
    #[test]
    fn failed_iterations_come_last() {
        let compared = |side: IterationClass| ComparedIteration {
            side,
            top: false,
            trace_id: Uuid::nil(),
            sample: IterationSample::default(),
            tree: Some(calling(&[], 9_000).into()),
            functions: Arc::default(),
        };
        let all =
            [IterationClass::Failed, IterationClass::Slow, IterationClass::Failed, IterationClass::Typical]
                .map(compared);
        let none = TraceTree::default();
        let order: Vec<IterationClass> =
            Traces::of(&all, 0, &none).compared.iter().map(|one| one.side).collect();
        assert_eq!(
            order,
            [IterationClass::Slow, IterationClass::Typical, IterationClass::Failed, IterationClass::Failed]
        );
    }

    /// Of 300 iterations, the slowest 1 % and 5 % are too few to compare, and the slowest 20 are not.
    #[test]
    fn of_few_iterations_the_slowest_twenty_are_compared() {
        let compared = |side: IterationClass, ms: u64| ComparedIteration {
            side,
            top: false,
            trace_id: Uuid::nil(),
            sample: IterationSample { duration_ns: ms * 1_000_000, ..IterationSample::default() },
            tree: Some(calling(&[], u32::try_from(ms * 1_000).unwrap()).into()),
            functions: Arc::default(),
        };
        let finding = |slow: usize, others: usize, total: u64| {
            let all: Vec<ComparedIteration> = std::iter::repeat_n((IterationClass::Slow, 900), slow)
                .chain(std::iter::repeat_n((IterationClass::Other, 800), others))
                .chain(std::iter::repeat_n((IterationClass::Typical, 9), 40))
                .map(|(side, ms)| compared(side, ms))
                .collect();
            let population = Population { total, ..Population::default() };
            let found = of_workload(&all, 0, &population, 7).comparison.unwrap();
            (found.slow_percent, found.slow, found.no_finding)
        };
        let few = Some(NoCauseReason::FewTraces);
        for (slow, others, total, expected) in [
            (15, 9, 300, (7, 20, None)),
            // Enough of the slowest 5 %, or too few of all.
            (20, 9, 300, (5, 20, None)),
            (15, 2, 300, (5, 15, few)),
            (15, 9, 2_000, (5, 15, few)),
        ] {
            assert_eq!(finding(slow, others, total), expected, "{slow} and {others} of {total}");
        }
    }

    /// What `shop` had on its stack in these milliseconds, seen a hundred times a second.
    fn at_work(ms: u64) -> Functions {
        let mut profile = Builder::new("call", 100);
        profile.add(Some("0"), &[Function::named("shop::render")], ms / 10);
        Functions { profiles: vec![profile.finish()], unreadable: 0 }
    }

    #[test]
    fn a_call_that_works_itself_waits_for_nobody() {
        for (slow_ms, expected) in [(890, None), (10, Some("delivery"))] {
            let compared = |side: IterationClass, until_us: u32, ms: u64| ComparedIteration {
                side,
                top: false,
                trace_id: Uuid::nil(),
                sample: IterationSample::default(),
                tree: Some(calling(&[("delivery", "wsgi", 1_000, 2_000)], until_us).into()),
                functions: at_work(ms).into(),
            };
            let mut all: Vec<ComparedIteration> =
                (0..20).map(|_| compared(IterationClass::Slow, 900_000, slow_ms)).collect();
            all.extend((0..40).map(|_| compared(IterationClass::Typical, 9_000, 10)));
            let mut comparison = of_workload(&all, 0, &Population::default(), 7).comparison.unwrap();
            let cause = comparison.functions.and_then(|functions| functions.cause);
            assert_eq!(cause.is_some(), expected.is_none(), "{slow_ms} ms: {cause:?}");
            let first = comparison.kinds.remove(0);
            assert_eq!((first.is_cause, first.called_service.as_deref()), (true, expected), "{slow_ms} ms");
        }
    }

    /// A trace of `shop`, which calls `stock` under each of eight points of its own: the time of each point and of each
    /// call in microseconds, with noise.
    fn spread(
        random: &mut fastrand::Rng,
        own_us: u32,
        call_us: u32,
        of_call: fn(usize) -> String,
    ) -> TraceTree {
        let record = |name: String, id: usize, parent: &str, us: u32, service: &str| TraceRecord {
            name: name.into(),
            base_id: "b".into(),
            trace_id: id.to_string().into(),
            parent_id: parent.into(),
            timestamp: format!("2026-11-20T22:52:00.{us:06}").into(),
            info: serde_json::Map::new().into(),
            project: None,
            service: Some(service.into()),
        };
        let mut noisy = |us: u32| us * random.u32(80..120) / 100;
        let (mut at_us, mut inner) = (10, Vec::new());
        for number in 0..8 {
            let (id, calls) = (2 * number + 1, (2 * number + 1).to_string());
            let (from_us, call) = (at_us, of_call(number));
            at_us += noisy(own_us);
            inner.push(record(format!("op{number}-start"), id, "0", from_us, "shop"));
            inner.push(record(format!("{call}-start"), id + 1, &calls, at_us, "stock"));
            at_us += noisy(call_us);
            inner.push(record(format!("{call}-stop"), id + 1, &calls, at_us, "stock"));
            inner.push(record(format!("op{number}-stop"), id, "0", at_us + 1, "shop"));
            at_us += 10;
        }
        let mut records = vec![record("all-start".into(), 0, "b", 0, "shop")];
        records.append(&mut inner);
        records.push(record("all-stop".into(), 0, "b", at_us, "shop"));
        TraceTree::build(&records)
    }

    #[test]
    fn a_cause_in_many_places_is_found_at_a_coarser_level() {
        // What is planted, the names of the calls, the times of slow ones (of 13 of 20, and of the others), and what is named.
        // Typical ones take 9 and 1 ms.
        type PlantedRow = (&'static str, fn(usize) -> String, [(u32, u32); 2], Option<&'static str>);
        let rows: [PlantedRow; 5] = [
            ("one kind in all places", |_| "reserve".into(), [(9_000, 6_000); 2], Some("stock reserve")),
            (
                "all kinds of a service",
                |at| format!("reserve{at}"),
                [(9_000, 6_000); 2],
                Some("stock all trace points"),
            ),
            ("everything alike", |at| format!("reserve{at}"), [(18_000, 2_000); 2], None),
            ("the service that takes most anyway", |at| format!("reserve{at}"), [(14_000, 1_000); 2], None),
            // A machine that is busy now and then: another draw of 20 might show another service first.
            (
                "one service, and another one nearly as often",
                |at| format!("reserve{at}"),
                [(9_000, 6_000), (14_000, 1_000)],
                None,
            ),
        ];
        for (what, of_call, slow, expected) in rows {
            let mut random = fastrand::Rng::with_seed(7);
            let mut compared = |side: IterationClass, own_us: u32, call_us: u32| ComparedIteration {
                side,
                top: false,
                trace_id: Uuid::nil(),
                sample: IterationSample::default(),
                tree: Some(spread(&mut random, own_us, call_us, of_call).into()),
                functions: Arc::default(),
            };
            let mut all: Vec<ComparedIteration> = (0..20)
                .map(|rank| slow[usize::from(rank >= 13)])
                .map(|(own_us, call_us)| compared(IterationClass::Slow, own_us, call_us))
                .collect();
            all.extend((0..40).map(|_| compared(IterationClass::Typical, 9_000, 1_000)));
            let found = of_workload(&all, 0, &Population::default(), 7);
            let kinds = found.comparison.unwrap().kinds;
            let cause =
                kinds.iter().find(|kind| kind.is_cause).map(|kind| format!("{} {}", kind.service, kind.name));
            assert_eq!(cause.as_deref(), expected, "{what}: {kinds:?}");
            // What each slow iteration waits for is said at the same level.
            let of_headline = found.explanations.iter().filter(|one| one.is_headline).count();
            assert_eq!(of_headline, if expected.is_some() { 20 } else { 0 }, "{what}");
        }
    }

    /// An iteration that sends this many requests, one every 100 ms, until what it waits for is done.
    fn polling(requests: u32) -> TraceTree {
        let record =
            |name: &str, id: u32, parent: u32, ms: u32, project: &str, info: serde_json::Value| TraceRecord {
                name: name.into(),
                base_id: "b".into(),
                trace_id: id.to_string().into(),
                parent_id: if id == 0 { "b".into() } else { parent.to_string().into() },
                timestamp: format!("2026-11-20T22:52:{:02}.{:03}000", ms / 1_000, ms % 1_000).into(),
                info: info.as_object().cloned().unwrap_or_default().into(),
                project: Some(project.into()),
                service: Some(project.into()),
            };
        let none = serde_json::Value::Null;
        let end_ms = 100 * (requests - 1) + 10;
        let said = serde_json::json!({"requests": requests});
        let mut records = vec![record("iteration-start", 0, 0, 0, REPORTER, none.clone())];
        records.push(record("action-start", 1, 0, 0, REPORTER, none.clone()));
        for number in 0..requests {
            let (id, ms) = (number + 2, 100 * number);
            records.push(record("wsgi-start", id, 1, ms, "nova", none.clone()));
            records.push(record("wsgi-stop", id, 1, ms + 10, "nova", none.clone()));
        }
        records.push(record("action-stop", 1, 0, end_ms, REPORTER, said));
        records.push(record("iteration-stop", 0, 0, end_ms, REPORTER, none));
        TraceTree::build(&records)
    }

    #[test]
    fn one_request_more_of_a_poll_is_no_cause() {
        let rows = [(4, false), (5, false), (6, true), (20, true)];
        for (requests, is_named) in rows {
            let compared = |side: IterationClass, requests: u32| ComparedIteration {
                side,
                top: false,
                trace_id: Uuid::nil(),
                sample: IterationSample::default(),
                tree: Some(polling(requests).into()),
                functions: Arc::default(),
            };
            let mut all: Vec<ComparedIteration> =
                (0..20).map(|_| compared(IterationClass::Slow, requests)).collect();
            all.extend((0..40).map(|_| compared(IterationClass::Typical, 4)));
            let comparison = of_workload(&all, 0, &Population::default(), 7).comparison.unwrap();
            let causes: Vec<&str> =
                comparison.kinds.iter().filter(|kind| kind.is_cause).map(|kind| kind.name.as_str()).collect();
            assert_eq!(causes.contains(&"pause between polls"), is_named, "{requests}: {causes:?}");
        }
    }
}
