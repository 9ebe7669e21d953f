//! Compares slow with typical iterations of each workload, for the results.
//!
//! Combines the chosen iterations, their trees and the attribution. Nothing here may fetch, print or write text for
//! readers.

use std::collections::BTreeSet;

use uuid::Uuid;

use super::attribution::{Attribution, Cause, Unsupported, compare};
use super::breakdown::{Breakdowns, Kind, is_outside};
pub use super::compared::Compared;
use super::compared::Traces;
use super::contrast::{Points, contrast, points_of};
use super::differences::{Known, differences};
use super::explained::is_explained;
use super::explanation;
use super::feature::{CLIENT, POINT};
use super::features::point_value;
use super::mean_tree::mean_tree;
use super::places::{Population, places};
use crate::measure::sample::{Ended, IterationSample};
use crate::osprofiler::report::TraceTree;
use crate::results::choice::{FEW_FROM, FEW_UNTIL, SLOWEST_OF_FEW, Side};
use crate::results::client_points::REPORTER;
use crate::results::model::{ComparedKind, Comparison, Contrast, Explanation, NoFinding};

/// Why the slow iterations of a workload were slow.
#[derive(Clone, Debug, Default)]
pub struct Causes {
    /// Slow against typical ones; `None` if there are no slow iterations with traces.
    pub comparison: Option<Comparison>,
    /// Each slow or failed one, slowest first.
    pub explanations: Vec<Explanation>,
}

/// Why the slow iterations of one workload were slow.
///
/// The slowest 1 % are compared first, because a cause that affects only them is lost among the slowest 5 %. If they
/// are too few or show no finding, the slowest 5 % are compared; if those are too few and there are at least 100
/// iterations, the slowest 20 iterations.
#[must_use]
pub fn of_workload(compared: &[Compared], workload: usize, population: &Population<'_>, seed: u64) -> Causes {
    let none = TraceTree::default();
    let traces = Traces::of(compared, workload, &none);
    let slow = traces.which(|one| one.side == Side::Slow);
    let top = traces.which(|one| one.side == Side::Slow && one.top);
    let typical = traces.which(|one| one.side == Side::Typical);
    let few = slowest_of_few(&traces, population.total);
    let mut found = of_slow(&traces, &top, &typical, 1, seed)
        .filter(|found| found.no_finding.is_none())
        .map(|found| (found, &top))
        .or_else(|| Some((of_slow(&traces, &slow, &typical, 5, seed)?, &slow)));
    if let Some((of_few, percent)) = &few
        && found.as_ref().is_none_or(|(found, _)| found.no_finding == Some(NoFinding::FewTraces))
        && let Some(wider) = of_slow(&traces, of_few, &typical, *percent, seed)
        && wider.no_finding != Some(NoFinding::FewTraces)
    {
        found = Some((wider, of_few));
    }
    let comparison = found.map(|(mut comparison, of)| {
        let samples: Vec<&IterationSample> = of.iter().map(|&one| &traces.compared[one].sample).collect();
        comparison.places = places(&samples, population);
        comparison
    });
    let explanations = explanation::of_each(&traces, &typical, population.slowest, comparison.as_ref());
    Causes { comparison, explanations }
}

/// The slowest iterations of a workload of few, and which part of all they are in percent; `None` if there are too few, or
/// enough.
fn slowest_of_few(traces: &Traces<'_>, total: u64) -> Option<(Vec<usize>, u32)> {
    if !(FEW_FROM..FEW_UNTIL).contains(&total) {
        return None;
    }
    let is_ok = |one: &Compared| one.sample.ended == Ended::Ok && one.side != Side::Typical;
    let mut slowest = traces.which(is_ok);
    slowest.sort_by_key(|&index| std::cmp::Reverse(traces.compared[index].sample.response_ns()));
    slowest.truncate(SLOWEST_OF_FEW);
    let percent = (100 * SLOWEST_OF_FEW as u64).div_ceil(total);
    Some((slowest, u32::try_from(percent).unwrap_or(5)))
}

/// Compares these slow with these typical iterations; `None` without a tree of a slow one.
pub(super) fn of_slow(
    traces: &Traces<'_>,
    slow: &[usize],
    typical: &[usize],
    slow_percent: u32,
    seed: u64,
) -> Option<Comparison> {
    if !slow.iter().any(|&one| traces.compared[one].tree.is_some()) {
        return None;
    }
    let breakdowns = &traces.breakdowns;
    let (whole_slow, whole_typical) = (traces.complete(slow), traces.complete(typical));
    let (slow_parts, typical_parts) = (traces.parts(slow), traces.parts(typical));
    let lost = |all: usize, kept: usize| if all == 0 { 0.0 } else { ratio(all - kept, all) };
    let incomplete = lost(slow.len(), slow_parts.len()).max(lost(typical.len(), typical_parts.len()));
    let mut found = compare(&slow_parts, &typical_parts, breakdowns.kinds.len(), incomplete, seed);
    let both: Vec<usize> = whole_slow.iter().chain(&whole_typical).copied().collect();
    let called = called_services(traces, &both);
    if !is_explained(&found.causes, &services(breakdowns, &called), &typical_parts) {
        found.causes.iter_mut().for_each(|cause| cause.guilty = false);
    }
    let (slow_trees, typical_trees) = (traces.trees(&whole_slow), traces.trees(&whole_typical));
    let tree = mean_tree(&slow_trees, &typical_trees);
    let ids: Vec<Uuid> = whole_slow.iter().map(|&one| traces.compared[one].trace_id).collect();
    let mut kinds: Vec<ComparedKind> =
        found.causes.iter().map(|cause| row(cause, breakdowns, &ids)).collect();
    for (number, (cause, kind)) in found.causes.iter().zip(&mut kinds).enumerate() {
        kind.called_service.clone_from(&called[cause.kind]);
        if number == 0 || cause.guilty {
            let points = |of: &[usize]| -> Vec<_> {
                of.iter()
                    .map(|&one| points_of(traces.trees[one], &breakdowns.kind_of[one], cause.kind))
                    .collect()
            };
            kind.contrasts = contrasts(&points(&whole_slow), &points(&whole_typical));
        }
    }
    let differences = differences(&slow_trees, &typical_trees, &known(&kinds));
    Some(Comparison {
        slow_percent,
        slow: found.slow as u64,
        typical: found.fast as u64,
        left_out: (slow.len() + typical.len() - found.slow - found.fast) as u64,
        slow_ms: found.slow_us / 1e3,
        typical_ms: found.fast_us / 1e3,
        no_finding: no_finding(&found),
        kinds,
        clocks_moved: breakdowns.shifted.len() as u64,
        clocks_inconsistent: breakdowns.inconsistent.len() as u64,
        tree,
        differences,
        places: None,
    })
}

/// What the kinds say already: the guilty points, and the attributes that their slow calls have.
fn known(kinds: &[ComparedKind]) -> Known {
    let guilty = kinds.iter().filter(|kind| kind.guilty);
    guilty
        .clone()
        .map(|kind| (POINT.to_owned(), point_value(&kind.name, &kind.detail)))
        .chain(guilty.flat_map(|kind| kind.contrasts.iter().map(|contrast| known_of(kind, contrast))))
        .collect()
}

/// The attribute of a guilty point's contrast as differences name it, and its value.
fn known_of(kind: &ComparedKind, contrast: &Contrast) -> (String, String) {
    let attribute = contrast.attribute.as_str();
    let own = ["attributes.", "resource."].iter().find_map(|prefix| attribute.strip_prefix(prefix));
    let attribute = match own {
        None if kind.service == REPORTER => format!("{CLIENT}{attribute}"),
        own => own.unwrap_or(attribute).to_owned(),
    };
    (attribute, contrast.value.clone())
}

/// The attributes that slow points of a kind have in common.
fn contrasts(slow: &[Points<'_>], typical: &[Points<'_>]) -> Vec<Contrast> {
    let found = contrast(slow, typical).into_iter();
    found
        .map(|found| Contrast {
            attribute: found.attribute,
            value: found.value,
            slow_share: found.slow_share,
            typical_share: found.typical_share,
        })
        .collect()
}

/// For each kind, the one other service that its points call; `None` for the client, whose own time has a name.
fn called_services(traces: &Traces<'_>, of: &[usize]) -> Vec<Option<String>> {
    let mut called = vec![BTreeSet::new(); traces.breakdowns.kinds.len()];
    for (tree, kinds) in of.iter().map(|&one| (traces.trees[one], &traces.breakdowns.kind_of[one])) {
        for point in &tree.points {
            let Some((parent, kind)) = point.parent.and_then(|parent| Some((parent, *kinds.get(parent)?)))
            else {
                continue;
            };
            let (caller, service) = (tree.points[parent].reporter(), point.reporter());
            if caller != REPORTER && caller != service && !service.is_empty() {
                called[kind].insert(service);
            }
        }
    }
    called.into_iter().map(|mut one| if one.len() == 1 { one.pop_first() } else { None }).collect()
}

/// For each kind, the service that its own time belongs to: that of a call to the service which it waits for.
fn services(breakdowns: &Breakdowns, called: &[Option<String>]) -> Vec<Option<String>> {
    let of_kind = |kind: &Kind| {
        Some(&kind.service).filter(|service| !service.is_empty() && *service != REPORTER).cloned()
    };
    breakdowns
        .kinds
        .iter()
        .zip(called)
        .map(|(kind, called)| called.clone().or_else(|| of_kind(kind)))
        .collect()
}

fn no_finding(found: &Attribution) -> Option<NoFinding> {
    match found.unsupported {
        Some(Unsupported::FewTraces) => Some(NoFinding::FewTraces),
        Some(Unsupported::Incomplete) => Some(NoFinding::Incomplete),
        Some(Unsupported::NoGap) => Some(NoFinding::NoGap),
        None if found.causes.iter().any(|cause| cause.guilty) => None,
        None => Some(NoFinding::Unclear),
    }
}

fn row(cause: &Cause, breakdowns: &Breakdowns, ids: &[Uuid]) -> ComparedKind {
    let kind = &breakdowns.kinds[cause.kind];
    ComparedKind {
        service: kind.service.clone(),
        name: kind.name.clone(),
        detail: kind.detail.clone(),
        parent: kind.parent.clone(),
        outside: is_outside(kind),
        delta_ms: cause.delta_us / 1e3,
        share: cause.share,
        share_low: cause.share_low,
        share_high: cause.share_high,
        slow_calls: cause.slow_calls,
        typical_calls: cause.fast_calls,
        more_calls_ms: cause.more_calls_us / 1e3,
        slower_calls_ms: cause.slower_calls_us / 1e3,
        effect: cause.effect,
        exceeding: cause.exceeding,
        guilty: cause.guilty,
        worst_trace_id: ids.get(cause.worst).copied(),
        called_service: None,
        contrasts: Vec::new(),
    }
}

fn ratio(part: usize, whole: usize) -> f64 {
    part as f64 / whole as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::osprofiler::record::Record;

    /// A trace in which `shop` calls `delivery`, whose work begins late; each service's points as (name, start, end).
    fn calling(called: &[(&str, &str, u32, u32)], until_us: u32) -> TraceTree {
        let record = |name: String, id: usize, parent: &str, us: u32, service: &str| Record {
            name,
            base_id: "b".into(),
            trace_id: id.to_string(),
            parent_id: parent.into(),
            timestamp: format!("2026-11-20T22:52:00.{us:06}"),
            info: serde_json::Map::new(),
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
            let compared = |side: Side, until_us: u32| Compared {
                side,
                top: false,
                trace_id: Uuid::nil(),
                sample: IterationSample::default(),
                tree: Some(calling(&called, until_us)),
            };
            let mut all: Vec<Compared> = (0..20).map(|_| compared(Side::Slow, 900_000)).collect();
            all.extend((0..40).map(|_| compared(Side::Typical, 9_000)));
            let first = of_workload(&all, 0, &Population::default(), 7).comparison.unwrap().kinds.remove(0);
            assert_eq!((first.name.as_str(), first.guilty), ("call", true), "{what}");
            assert_eq!(first.called_service.as_deref(), expected, "{what}");
        }
    }
}
