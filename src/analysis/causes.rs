//! Compares slow with typical iterations of each workload, for the results.
//!
//! Combines the chosen iterations, their trees and the attribution. Nothing here may fetch, print or write text for
//! readers.

use std::collections::BTreeSet;

use uuid::Uuid;

use super::attribution::{Attribution, Breakdown, Cause, Unsupported, compare};
use super::breakdown::{Breakdowns, Kind, break_down, is_outside};
use super::contrast::{contrast, points_of};
use super::differences::{Known, differences};
use super::explained::is_explained;
use super::features::{POINT, point_value};
use super::mean_tree::mean_tree;
use crate::osprofiler::report::TraceTree;
use crate::results::choice::Side;
use crate::results::client_points::REPORTER;
use crate::results::model::{ComparedKind, Comparison, Contrast, NoFinding};

/// A fetched iteration, with the client's points and the services'.
pub struct Compared {
    /// The workload's index.
    pub workload: usize,
    /// Slow or typical.
    pub side: Side,
    /// Whether it is among the slowest 1 %.
    pub top: bool,
    /// Its trace id.
    pub trace_id: Uuid,
    /// The tree; `None` if the collector did not have it.
    pub tree: Option<TraceTree>,
}

/// The comparison of one workload; `None` if it has no slow iterations with traces.
///
/// The slowest 1 % are compared first, because a cause that affects only them is lost among the slowest 5 %. If they
/// are too few or show no finding, the slowest 5 % are compared.
#[must_use]
pub fn of_workload(compared: &[Compared], workload: usize, seed: u64) -> Option<Comparison> {
    let of_side = |side: Side| -> Vec<&Compared> {
        compared.iter().filter(|one| one.workload == workload && one.side == side).collect()
    };
    let (slow, typical) = (of_side(Side::Slow), of_side(Side::Typical));
    let top: Vec<&Compared> = slow.iter().copied().filter(|one| one.top).collect();
    of_slow(&top, &typical, 1, seed)
        .filter(|found| found.no_finding.is_none())
        .or_else(|| of_slow(&slow, &typical, 5, seed))
}

fn of_slow(slow: &[&Compared], typical: &[&Compared], slow_percent: u32, seed: u64) -> Option<Comparison> {
    if !slow.iter().any(|one| one.tree.is_some()) {
        return None;
    }
    let trees: Vec<TraceTree> =
        slow.iter().chain(typical).map(|one| one.tree.clone().unwrap_or_default()).collect();
    let breakdowns = break_down(&trees);
    let (slow_parts, typical_parts) = breakdowns.traces.split_at(slow.len());
    let complete = |parts: &[Option<_>]| parts.iter().flatten().cloned().collect::<Vec<_>>();
    let (slow_complete, typical_complete) = (complete(slow_parts), complete(typical_parts));
    let lost = |all: usize, kept: usize| if all == 0 { 0.0 } else { ratio(all - kept, all) };
    let incomplete = lost(slow.len(), slow_complete.len()).max(lost(typical.len(), typical_complete.len()));
    let mut found = compare(&slow_complete, &typical_complete, breakdowns.kinds.len(), incomplete, seed);
    let called = called_services(&trees, &breakdowns);
    if !is_explained(&found.causes, &services(&breakdowns, &called), &typical_complete) {
        found.causes.iter_mut().for_each(|cause| cause.guilty = false);
    }
    let (slow_trees, typical_trees) = trees.split_at(slow.len());
    let (slow_trees, typical_trees) =
        (compared(slow_trees, slow_parts), compared(typical_trees, typical_parts));
    let tree = mean_tree(&slow_trees, &typical_trees);
    let ids: Vec<Uuid> = slow
        .iter()
        .zip(slow_parts)
        .filter(|(_, parts)| parts.is_some())
        .map(|(one, _)| one.trace_id)
        .collect();
    let mut kinds: Vec<ComparedKind> =
        found.causes.iter().map(|cause| row(cause, &breakdowns, &ids)).collect();
    for (cause, kind) in found.causes.iter().zip(&mut kinds) {
        kind.called_service.clone_from(&called[cause.kind]);
    }
    for (number, (cause, kind)) in found.causes.iter().zip(&mut kinds).enumerate() {
        if number == 0 || cause.guilty {
            kind.contrasts = contrasts(cause.kind, &trees, &breakdowns, slow.len());
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
    })
}

/// What the kinds say already: the guilty points, and the attributes that their slow calls have.
fn known(kinds: &[ComparedKind]) -> Known {
    let guilty = kinds.iter().filter(|kind| kind.guilty);
    guilty
        .clone()
        .map(|kind| (POINT.to_owned(), point_value(&kind.name, &kind.detail)))
        .chain(guilty.flat_map(|kind| &kind.contrasts).map(|contrast| {
            let attribute = contrast.attribute.as_str();
            let own = ["attributes.", "resource."].iter().find_map(|prefix| attribute.strip_prefix(prefix));
            (own.unwrap_or(attribute).to_owned(), contrast.value.clone())
        }))
        .collect()
}

/// The trees of the complete traces.
fn compared<'a>(trees: &'a [TraceTree], parts: &[Option<Breakdown>]) -> Vec<&'a TraceTree> {
    trees.iter().zip(parts).filter(|(_, parts)| parts.is_some()).map(|(tree, _)| tree).collect()
}

/// The attributes that slow points of a kind have in common. The first `slow` trees are the slow ones.
fn contrasts(kind: usize, trees: &[TraceTree], breakdowns: &Breakdowns, slow: usize) -> Vec<Contrast> {
    let points: Vec<_> =
        trees.iter().zip(&breakdowns.kind_of).map(|(tree, kinds)| points_of(tree, kinds, kind)).collect();
    let (slow, typical) = points.split_at(slow);
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
fn called_services(trees: &[TraceTree], breakdowns: &Breakdowns) -> Vec<Option<String>> {
    let mut called = vec![BTreeSet::new(); breakdowns.kinds.len()];
    for (tree, kinds) in trees.iter().zip(&breakdowns.kind_of) {
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
                workload: 0,
                side,
                top: false,
                trace_id: Uuid::nil(),
                tree: Some(calling(&called, until_us)),
            };
            let mut all: Vec<Compared> = (0..20).map(|_| compared(Side::Slow, 900_000)).collect();
            all.extend((0..40).map(|_| compared(Side::Typical, 9_000)));
            let first = of_workload(&all, 0, 7).unwrap().kinds.remove(0);
            assert_eq!((first.name.as_str(), first.guilty), ("call", true), "{what}");
            assert_eq!(first.called_service.as_deref(), expected, "{what}");
        }
    }
}
