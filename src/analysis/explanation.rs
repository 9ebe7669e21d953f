//! Why each slow iteration was slow: the kind of point that took the most above its mean in typical iterations.
//!
//! This is the comparison of [`super::attribution`] for one trace against the mean of all typical ones, with the same
//! kinds of points and the same critical path, so that the two agree. Queue time and time outside the services are
//! kinds as any other. The exclusive times of a trace add up to its response time, so the differences of all kinds add
//! up to the excess. The named kind's difference is at most all of it, even if others took less time than in typical
//! iterations.
//!
//! If the comparison names whole calls that slow iterations make more often, an iteration with more of them is explained by
//! these. And a kind that grew no more than the rest of its trace explains nothing.
//!
//! One trace has no bounds: an explanation says how long, never how certain. With too few typical traces, or an incomplete
//! one, the kind with the most own time is named instead ([`super::own_time`]). Nothing here may write text.

use std::collections::HashMap;

use super::attribution::{Breakdown, OwnTimeSplit};
use super::breakdown::{Kind, is_outside};
use super::compared::Traces;
use super::own_time::largest;
use super::proportion::is_of_service;
use measure::sample::IterationSample;
use osprofiler::report::{Point, TraceTree};
use results::choice::IterationClass;
use results::client_points::{QUEUE_TIME_POINT, REPORTER};
use results::model::{Basis, ComparedKind, Comparison, Explanation, IterationCause, OwnTime, Place};

/// Fewer typical traces have no mean to compare with.
const TYPICAL_MIN: usize = 5;
/// A kind explains an iteration if its share of the excess is at least this.
const EXPLAINS_MIN: f64 = 0.5;
/// The same for a kind that the comparison of slow with typical iterations names.
const HEADLINE_EXPLAINS_MIN: f64 = 0.2;

/// A kind explains nothing if the rest of the services' time grew by more than this part of what the kind grew by, each
/// relative to typical iterations. A rest that takes a smaller share than [`REST_MIN`] tells nothing.
const REST_GROWTH_MAX: f64 = 0.5;
const REST_MIN: f64 = 0.03;

/// Times and calls of a kind in a trace, or their means.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct KindUsage {
    exclusive_us: f64,
    /// Durations without children's, which no clock affects.
    self_us: f64,
    calls: f64,
    lies: OwnTimeSplit,
}

/// The means of typical iterations.
#[derive(Clone, Debug, Default)]
struct Typical {
    of_kind: HashMap<usize, KindUsage>,
    whole_us: f64,
}

impl Typical {
    /// `None` with too few traces.
    fn of(traces: &[&Breakdown]) -> Option<Self> {
        if traces.len() < TYPICAL_MIN {
            return None;
        }
        let mut typical = Self::default();
        let number = traces.len() as f64;
        for part in traces.iter().flat_map(|trace| &trace.parts) {
            let mean = typical.of_kind.entry(part.kind).or_default();
            mean.exclusive_us += part.exclusive_us / number;
            mean.self_us += part.self_us / number;
            mean.calls += part.calls / number;
            mean.lies.add(&part.lies, 1.0 / number);
            typical.whole_us += part.exclusive_us / number;
        }
        Some(typical)
    }
}

/// The kind that is most above typical in one trace.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Excess {
    kind: usize,
    here: KindUsage,
    typical: KindUsage,
    whole_us: f64,
    typical_whole_us: f64,
    /// How much longer it took as a share of how much longer the trace took, 0 to 1.
    share: f64,
    /// The same as a share of all that took longer, which may be more than the excess.
    share_of_longer: f64,
}

impl Excess {
    fn longer_us(&self) -> f64 {
        self.here.exclusive_us - self.typical.exclusive_us
    }

    /// Where in its points that lies.
    fn own_time(&self) -> OwnTime {
        let mut lies = self.here.lies;
        lies.add(&self.typical.lies, -1.0);
        lies.place(self.longer_us())
    }

    /// Whether durations say otherwise: a clock that is off moves a service's time out of the request.
    fn is_of_clocks(&self) -> bool {
        let longer = |of: fn(&KindUsage) -> f64| of(&self.here) - of(&self.typical);
        longer(|taken| taken.self_us) < longer(|taken| taken.exclusive_us) / 2.0
    }
}

/// `None` if the iteration did not take longer than typical ones.
fn excess(trace: &Breakdown, typical: &Typical) -> Option<Excess> {
    let whole_us: f64 = trace.parts.iter().map(|part| part.exclusive_us).sum();
    if whole_us <= typical.whole_us {
        return None;
    }
    // A kind that the trace lacks is not above its mean.
    let longer = trace.parts.iter().map(|part| {
        let mean = typical.of_kind.get(&part.kind).copied().unwrap_or_default();
        (part, mean, part.exclusive_us - mean.exclusive_us)
    });
    let longer: Vec<_> = longer.filter(|(_, _, us)| *us > 0.0).collect();
    let all_us: f64 = longer.iter().map(|(_, _, us)| us).sum();
    let (part, mean, us) = longer
        .into_iter()
        .max_by(|one, other| one.2.total_cmp(&other.2).then(other.0.kind.cmp(&one.0.kind)))?;
    Some(Excess {
        kind: part.kind,
        here: KindUsage {
            exclusive_us: part.exclusive_us,
            self_us: part.self_us,
            calls: part.calls,
            lies: part.lies,
        },
        typical: mean,
        whole_us,
        typical_whole_us: typical.whole_us,
        share: (us / (whole_us - typical.whole_us)).clamp(0.0, 1.0),
        share_of_longer: (us / all_us).clamp(0.0, 1.0),
    })
}

/// Why each slow or failed iteration of a workload was slow, and each of the `slowest`, slowest first; `typical` are the
/// indices of the typical ones.
pub(super) fn of_each(
    traces: &Traces<'_>,
    typical: &[usize],
    slowest: &[IterationSample],
    comparison: Option<&Comparison>,
) -> Vec<Explanation> {
    let breakdowns = &traces.breakdowns;
    let wholes = wholes(traces, typical, comparison);
    let typical: Vec<&Breakdown> =
        typical.iter().filter_map(|&index| breakdowns.traces[index].as_ref()).collect();
    let typical = Typical::of(&typical);
    let is_wanted = |index: &usize| {
        let one = traces.compared[*index];
        if traces.lacking[*index] {
            return false;
        }
        let is_it = |other: &IterationSample| {
            (other.workload, other.number) == (one.sample.workload, one.sample.number)
        };
        // Of a short run most of the slowest are no slow ones by rank.
        matches!(one.side, IterationClass::Slow | IterationClass::Failed) || slowest.iter().any(is_it)
    };
    let mut order: Vec<usize> = (0..traces.compared.len()).filter(is_wanted).collect();
    order.sort_by_key(|&index| std::cmp::Reverse(traces.compared[index].sample.response_ns()));
    let of = |index| of_trace(traces, index, (typical.as_ref(), &wholes), comparison);
    order.into_iter().filter_map(of).collect()
}

/// The whole calls that the comparison names, each with its mean in typical iterations.
fn wholes(
    traces: &Traces<'_>,
    typical: &[usize],
    comparison: Option<&Comparison>,
) -> Vec<(usize, KindUsage)> {
    let breakdowns = &traces.breakdowns;
    if breakdowns.wholes.is_empty() {
        return Vec::new();
    }
    let complete = traces.complete(typical);
    let number = complete.len().max(1) as f64;
    let named = comparison.iter().flat_map(|comparison| &comparison.kinds);
    let named = named.filter(|one| one.is_cause && one.with_below);
    let kinds = named.filter_map(|one| breakdowns.kinds.iter().position(|kind| is_same(one, kind)));
    kinds
        .map(|kind| {
            let mut mean = KindUsage::default();
            for &index in &complete {
                let here = whole(traces, index, kind);
                mean.exclusive_us += here.exclusive_us / number;
                mean.self_us += here.self_us / number;
                mean.calls += here.calls / number;
            }
            (kind, mean)
        })
        .collect()
}

/// The whole calls of a kind in a trace.
fn whole(traces: &Traces<'_>, index: usize, kind: usize) -> KindUsage {
    let found = traces.breakdowns.wholes[index].iter().find(|one| one.kind == kind);
    found.map_or_else(KindUsage::default, |one| KindUsage {
        exclusive_us: one.us,
        self_us: one.self_us,
        calls: one.calls,
        ..KindUsage::default()
    })
}

/// Whether a row of a comparison is of this kind.
fn is_same(one: &ComparedKind, kind: &Kind) -> bool {
    (&one.service, &one.name, &one.detail, &one.parent)
        == (&kind.service, &kind.name, &kind.detail, &kind.parent)
}

/// The whole call that takes the most above its mean, if it explains enough of what this trace takes longer.
fn excess_of_whole(
    traces: &Traces<'_>,
    index: usize,
    (typical, wholes): (&Typical, &[(usize, KindUsage)]),
) -> Option<Excess> {
    let trace = traces.breakdowns.traces[index].as_ref()?;
    let whole_us: f64 = trace.parts.iter().map(|part| part.exclusive_us).sum();
    let longer = wholes.iter().map(|&(kind, mean)| {
        let here = whole(traces, index, kind);
        (kind, here, mean, here.exclusive_us - mean.exclusive_us)
    });
    let (kind, here, mean, us) = longer.max_by(|one, other| one.3.total_cmp(&other.3))?;
    let share = us / (whole_us - typical.whole_us).max(f64::MIN_POSITIVE);
    let is_more = here.calls > mean.calls && whole_us > typical.whole_us;
    (is_more && share >= HEADLINE_EXPLAINS_MIN).then(|| Excess {
        kind,
        here,
        typical: mean,
        whole_us,
        typical_whole_us: typical.whole_us,
        share: share.clamp(0.0, 1.0),
        share_of_longer: share.clamp(0.0, 1.0),
    })
}

/// Whether a kind of a service grew beyond its share of typical traces.
fn grew_alone(found: &Excess, kinds: &[Kind], trace: &Breakdown, typical: &Typical) -> bool {
    let mean_us = found.typical.exclusive_us;
    let is_rest = |kind: usize| kind != found.kind && is_of_service(&kinds[kind]);
    if mean_us <= 0.0 || !is_of_service(&kinds[found.kind]) {
        return true;
    }
    let rest = typical.of_kind.iter().filter(|(kind, _)| is_rest(**kind));
    let rest_us: f64 = rest.map(|(_, mean)| mean.exclusive_us).sum();
    if rest_us < REST_MIN * (rest_us + mean_us) {
        return true;
    }
    let here = trace.parts.iter().filter(|part| is_rest(part.kind)).map(|part| part.exclusive_us);
    let growth = (found.here.exclusive_us - mean_us) / mean_us;
    (here.sum::<f64>() - rest_us) / rest_us <= REST_GROWTH_MAX * growth
}

fn of_trace(
    traces: &Traces<'_>,
    index: usize,
    (typical, wholes): (Option<&Typical>, &[(usize, KindUsage)]),
    comparison: Option<&Comparison>,
) -> Option<Explanation> {
    let (compared, tree) = (traces.compared[index], traces.trees[index]);
    compared.tree.as_ref()?;
    let breakdowns = &traces.breakdowns;
    let of_whole = typical.and_then(|typical| excess_of_whole(traces, index, (typical, wholes)));
    let of_kind = || {
        let (trace, typical) = breakdowns.traces[index].as_ref().zip(typical)?;
        let found = excess(trace, typical)?;
        Some((found, grew_alone(&found, &breakdowns.kinds, trace, typical)))
    };
    let found = of_whole.map(|found| (found, true)).or_else(of_kind);
    let is_right = |found: &Excess| !(is_outside(&breakdowns.kinds[found.kind]) && found.is_of_clocks());
    let Some((found, grew_alone)) = found.filter(|(found, _)| is_right(found)) else {
        let largest = largest(tree, &compared.sample)?;
        let response_us = compared.sample.response_ns() as f64 / 1e3;
        let base = Explanation {
            trace_id: compared.trace_id,
            workload: compared.sample.workload,
            own_ms: (largest.own_us as f64).min(response_us) / 1e3,
            response_ms: response_us / 1e3,
            calls: largest.calls,
            explains: true,
            ..empty()
        };
        return Some(with_point(base, &largest.kind, tree, largest.longest));
    };
    let kind = &breakdowns.kinds[found.kind];
    let is_headline = comparison
        .is_some_and(|comparison| comparison.kinds.iter().any(|one| one.is_cause && is_same(one, kind)));
    // What holds of all slow iterations together is no single kind's fault in one of them.
    let is_alone = grew_alone && comparison.is_none_or(|comparison| comparison.overall.is_none());
    let least = if is_headline { HEADLINE_EXPLAINS_MIN } else { EXPLAINS_MIN };
    let base = Explanation {
        trace_id: compared.trace_id,
        workload: compared.sample.workload,
        basis: Basis::Difference,
        own_ms: found.here.exclusive_us / 1e3,
        typical_ms: Some(found.typical.exclusive_us / 1e3),
        longer_ms: Some(found.longer_us() / 1e3),
        own_time: Some(found.own_time()),
        response_ms: found.whole_us / 1e3,
        typical_response_ms: Some(found.typical_whole_us / 1e3),
        excess_ms: Some((found.whole_us - found.typical_whole_us) / 1e3),
        share_of_excess: Some(found.share),
        calls: found.here.calls as u64,
        typical_calls: Some(found.typical.calls),
        explains: found.share_of_longer >= least && (is_headline || is_alone),
        is_headline,
        ..empty()
    };
    Some(with_point(base, kind, tree, breakdowns.longest_of[index].get(&found.kind).copied()))
}

fn empty() -> Explanation {
    Explanation {
        trace_id: uuid::Uuid::nil(),
        workload: 0,
        basis: Basis::OwnTime,
        place: Place::Point,
        service: String::new(),
        name: String::new(),
        detail: String::new(),
        parent: String::new(),
        host: String::new(),
        path: Vec::new(),
        point_id: None,
        own_ms: 0.0,
        typical_ms: None,
        longer_ms: None,
        own_time: None,
        response_ms: 0.0,
        typical_response_ms: None,
        excess_ms: None,
        share_of_excess: None,
        calls: 0,
        typical_calls: None,
        explains: false,
        is_headline: false,
    }
}

fn with_point(base: Explanation, kind: &Kind, tree: &TraceTree, longest: Option<usize>) -> Explanation {
    let point = longest.and_then(|index| tree.points.get(index));
    Explanation {
        place: place(kind),
        service: kind.service.clone(),
        name: kind.name.clone(),
        detail: kind.detail.clone(),
        parent: kind.parent.clone(),
        host: point.and_then(|point| point.host.as_deref()).unwrap_or_default().to_owned(),
        path: longest.map(|index| path(tree, index)).unwrap_or_default(),
        point_id: point.map(|point| point.trace_id.to_string()),
        ..base
    }
}

fn place(kind: &Kind) -> Place {
    match () {
        () if is_outside(kind) => Place::Outside,
        () if kind.service == REPORTER && kind.name == QUEUE_TIME_POINT => Place::QueueTime,
        () => Place::Point,
    }
}

/// The most names of a path; a trace may be nested as deeply as it likes.
const PATH_MAX: usize = 32;

/// The names of the services' points above a point, outermost first.
fn path(tree: &TraceTree, index: usize) -> Vec<String> {
    let mut names = Vec::new();
    let mut above = tree.points[index].parent;
    while let Some(point) = above.and_then(|above| tree.points.get(above)).filter(|_| names.len() < PATH_MAX)
    {
        if !is_client(point) {
            names.push(super::statement::name_and_kind(point));
        }
        above = point.parent;
    }
    names.reverse();
    names
}

fn is_client(point: &Point) -> bool {
    point.project.as_deref() == Some(REPORTER)
}

/// The name for time outside all trace points.
pub const OUTSIDE: &str = "outside the traced services";
/// The name for the time that passed before an iteration started, although it was due.
pub const QUEUE_TIME: &str = "queue time before the start";

/// The point that an explanation names, in short.
#[must_use]
pub fn cause(explanation: &Explanation) -> IterationCause {
    let (name, detail, service) = match explanation.place {
        Place::Point => (explanation.name.clone(), explanation.detail.clone(), explanation.service.clone()),
        Place::QueueTime => (QUEUE_TIME.to_owned(), String::new(), String::new()),
        Place::Outside => {
            let reasons = "(the network, a proxy, a queue before its first point, or this machine)";
            (OUTSIDE.to_owned(), reasons.to_owned(), String::new())
        }
    };
    IterationCause {
        name,
        detail,
        service,
        host: if explanation.place == Place::Point { explanation.host.clone() } else { String::new() },
        calls: explanation.calls,
        self_ms: explanation.own_ms,
        share: explanation.share_of_response(),
        path: explanation.path.clone(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::attribution::Part;
    use super::*;

    /// What a trace is, its parts, and the kind, how much longer it took, and its share.
    type PartsRow = (&'static str, &'static [(f64, f64)], Option<(usize, f64, f64)>);

    fn trace(parts: &[(f64, f64)]) -> Breakdown {
        let part = |(kind, &(us, calls)): (usize, &(f64, f64))| Part {
            kind,
            exclusive_us: us,
            self_us: us,
            calls,
            ..Part::default()
        };
        Breakdown {
            parts: parts.iter().enumerate().filter(|(_, (_, calls))| *calls > 0.0).map(part).collect(),
        }
    }

    #[test]
    fn the_kind_that_is_most_above_its_mean_explains_a_trace() {
        let typical = trace(&[(100.0, 1.0), (400.0, 2.0), (0.0, 0.0)]);
        let typical = Typical::of(&[&typical; TYPICAL_MIN]).unwrap();
        let rows: [PartsRow; 5] = [
            // Kind 1 takes most of both, and is not what is slow.
            ("a slower kind", &[(700.0, 1.0), (500.0, 2.0)], Some((0, 600.0, 6.0 / 7.0))),
            ("a new kind", &[(100.0, 1.0), (400.0, 2.0), (300.0, 9.0)], Some((2, 300.0, 1.0))),
            ("another is quicker", &[(100.0, 1.0), (0.0, 0.0), (900.0, 1.0)], Some((2, 900.0, 1.0))),
            ("as typical", &[(100.0, 1.0), (400.0, 2.0)], None),
            ("quicker", &[(400.0, 1.0)], None),
        ];
        for (what, parts, expected) in rows {
            let found = excess(&trace(parts), &typical);
            let seen = found
                .map(|found| (found.kind, found.here.exclusive_us - found.typical.exclusive_us, found.share));
            assert_eq!(seen, expected, "{what}");
        }
        let few = trace(&[(1.0, 1.0)]);
        assert!(Typical::of(&[&few; TYPICAL_MIN - 1]).is_none());
    }

    proptest! {
        #[test]
        fn shares_are_between_0_and_1_and_parts_add_up(
            slow in prop::collection::vec((0.0..1e6, 0.0..9.0), 6),
            typical in prop::collection::vec(prop::collection::vec((0.0..1e6, 0.0..9.0), 6), TYPICAL_MIN..12),
        ) {
            let (slow, typical): (Breakdown, Vec<Breakdown>) = (trace(&slow), typical.iter().map(|one| trace(one)).collect());
            let typical = Typical::of(&typical.iter().collect::<Vec<_>>()).unwrap();
            let whole_us: f64 = slow.parts.iter().map(|part| part.exclusive_us).sum();
            let Some(found) = excess(&slow, &typical) else {
                prop_assert!(whole_us <= typical.whole_us);
                return Ok(());
            };
            prop_assert!((0.0..=1.0).contains(&found.share));
            prop_assert!((found.whole_us - whole_us).abs() < 1e-3);
            // All differences add up to the excess, so the named one and the rest do.
            let kinds = 0..6;
            let of = |kind: usize| slow.parts.iter().filter(|part| part.kind == kind).map(|part| part.exclusive_us).sum::<f64>();
            let differences: Vec<f64> = kinds
                .map(|kind| of(kind) - typical.of_kind.get(&kind).map_or(0.0, |mean| mean.exclusive_us))
                .collect();
            let excess_us = found.whole_us - found.typical_whole_us;
            prop_assert!((differences.iter().sum::<f64>() - excess_us).abs() < 1e-3);
            let longer: f64 = differences.iter().filter(|us| **us > 0.0).sum();
            let shares: f64 = differences.iter().filter(|us| **us > 0.0).map(|us| us / longer).sum();
            prop_assert!((shares - 1.0).abs() < 1e-9);
            let largest = differences.iter().copied().fold(0.0, f64::max);
            prop_assert!((found.share_of_longer - largest / longer).abs() < 1e-9);
            prop_assert!((found.share - (largest / excess_us).min(1.0)).abs() < 1e-9);
            prop_assert!((0.0..=1.0).contains(&found.share_of_longer));
        }
    }
}
