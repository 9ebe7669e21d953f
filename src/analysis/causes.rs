//! Slow against typical iterations of each workload, as results hold it.
//!
//! Joins the choice of iterations, their trees and the attribution. Nothing here may fetch, print or word.

use uuid::Uuid;

use super::attribution::{Attribution, Breakdown, Cause, Unsupported, compare};
use super::breakdown::{Broken, break_down, is_outside};
use super::contrast::{contrast, points_of};
use super::mean_tree::mean_tree;
use crate::osprofiler::report::TraceTree;
use crate::results::choice::Side;
use crate::results::model::{ComparedKind, Comparison, Contrast, NoFinding};

/// A fetched iteration, with the client's points and the services'.
pub struct Compared {
    /// The workload's index.
    pub workload: usize,
    /// On which side it stands.
    pub side: Side,
    /// Whether it is of the slowest 1 %.
    pub top: bool,
    /// Its trace.
    pub trace_id: Uuid,
    /// The tree; `None` if the collector had nothing of it.
    pub tree: Option<TraceTree>,
}

/// The comparison of one workload; `None` when it has no slow iterations with traces.
///
/// The slowest 1 % speak first: a cause that only they have is lost among the slowest 5 %. Where they are too few, or
/// nothing stands out in them, the slowest 5 % are compared.
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
    let broken = break_down(&trees);
    let (slow_parts, typical_parts) = broken.traces.split_at(slow.len());
    let complete = |parts: &[Option<_>]| parts.iter().flatten().cloned().collect::<Vec<_>>();
    let (slow_complete, typical_complete) = (complete(slow_parts), complete(typical_parts));
    let lost = |all: usize, kept: usize| if all == 0 { 0.0 } else { ratio(all - kept, all) };
    let incomplete = lost(slow.len(), slow_complete.len()).max(lost(typical.len(), typical_complete.len()));
    let found = compare(&slow_complete, &typical_complete, broken.kinds.len(), incomplete, seed);
    let (slow_trees, typical_trees) = trees.split_at(slow.len());
    let tree = mean_tree(&compared(slow_trees, slow_parts), &compared(typical_trees, typical_parts));
    let ids: Vec<Uuid> = slow
        .iter()
        .zip(slow_parts)
        .filter(|(_, parts)| parts.is_some())
        .map(|(one, _)| one.trace_id)
        .collect();
    let mut kinds: Vec<ComparedKind> = found.causes.iter().map(|cause| row(cause, &broken, &ids)).collect();
    for (number, (cause, kind)) in found.causes.iter().zip(&mut kinds).enumerate() {
        if number == 0 || cause.guilty {
            kind.contrasts = contrasts(cause.kind, &trees, &broken, slow.len());
        }
    }
    Some(Comparison {
        slow_percent,
        slow: found.slow as u64,
        typical: found.fast as u64,
        left_out: (slow.len() + typical.len() - found.slow - found.fast) as u64,
        slow_ms: found.slow_us / 1e3,
        typical_ms: found.fast_us / 1e3,
        no_finding: no_finding(&found),
        kinds,
        clocks_moved: broken.shifted.len() as u64,
        clocks_inconsistent: broken.inconsistent.len() as u64,
        tree,
    })
}

/// The trees of the traces that are compared.
fn compared<'a>(trees: &'a [TraceTree], parts: &[Option<Breakdown>]) -> Vec<&'a TraceTree> {
    trees.iter().zip(parts).filter(|(_, parts)| parts.is_some()).map(|(tree, _)| tree).collect()
}

/// What slow points of a kind have in common; the first `slow` trees are the slow ones.
fn contrasts(kind: usize, trees: &[TraceTree], broken: &Broken, slow: usize) -> Vec<Contrast> {
    let points: Vec<_> =
        trees.iter().zip(&broken.kind_of).map(|(tree, kinds)| points_of(tree, kinds, kind)).collect();
    let (slow, typical) = points.split_at(slow);
    let told = contrast(slow, typical).into_iter();
    told.map(|one| Contrast {
        attribute: one.attribute,
        value: one.value,
        slow_share: one.slow_share,
        typical_share: one.typical_share,
    })
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

fn row(cause: &Cause, broken: &Broken, ids: &[Uuid]) -> ComparedKind {
    let kind = &broken.kinds[cause.kind];
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
        contrasts: Vec::new(),
    }
}

#[expect(clippy::cast_precision_loss, reason = "a share of few")]
fn ratio(part: usize, whole: usize) -> f64 {
    part as f64 / whole as f64
}
