//! The fetched iterations of a workload, broken down together.

use std::collections::BTreeSet;
use std::sync::Arc;

use uuid::Uuid;

use super::asynchronous::answers;
use super::attribution::Breakdown;
use super::breakdown::{Breakdowns, break_down};
use super::contrast::{Points, points_of};
use super::levels::{Level, at_level};
use super::usual::lacking;
use measure::sample::IterationSample;
use osprofiler::report::{Point, TraceTree};
use results::choice::IterationClass;
use results::client_points::REPORTER;
use results::functions::Functions;

/// A fetched iteration, with the client's points and the services'.
pub struct ComparedIteration {
    /// Slow or typical.
    pub side: IterationClass,
    /// Whether it is among the slowest 1 %.
    pub top: bool,
    pub trace_id: Uuid,
    /// What the client measured; its workload is that which is asked about.
    pub sample: IterationSample,
    /// The tree; `None` if the collector did not have it.
    pub tree: Option<Arc<TraceTree>>,
    /// The functions that services reported with it.
    pub functions: Arc<Functions>,
}

/// Whether spans of these traces did not come: points lack those above them, or nothing came although the same actions have
/// traces in other iterations.
fn is_lossy(all: &[&ComparedIteration]) -> bool {
    let traced = all.iter().filter(|one| one.tree.is_some());
    let traced: BTreeSet<BTreeSet<u16>> = traced.map(|one| one.sample.answered_actions()).collect();
    all.iter().any(|one| match &one.tree {
        Some(tree) => tree.gaps.lost_parents > 0 || tree.gaps.lost_callers > 0,
        None => {
            let actions = one.sample.answered_actions();
            !actions.is_empty() && traced.contains(&actions)
        }
    })
}

/// The traces of a workload, broken down together.
pub(super) struct Traces<'a> {
    pub(super) compared: Vec<&'a ComparedIteration>,
    pub(super) trees: Vec<&'a TraceTree>,
    pub(super) breakdowns: Breakdowns,
    /// Which of them are left out because they lack spans that others have.
    pub(super) lacking: Vec<bool>,
}

impl<'a> Traces<'a> {
    pub(super) fn of(compared: &'a [ComparedIteration], workload: usize, none: &'a TraceTree) -> Self {
        let mut all: Vec<&ComparedIteration> =
            compared.iter().filter(|one| usize::from(one.sample.workload) == workload).collect();
        all.sort_by_key(|one| one.side == IterationClass::Failed);
        let timed = all.iter().take_while(|one| one.side != IterationClass::Failed).count();
        let trees: Vec<&TraceTree> = all.iter().map(|one| one.tree.as_deref().unwrap_or(none)).collect();
        let mut breakdowns = break_down(&trees, timed);
        let typical: Vec<usize> =
            (0..timed).filter(|&index| all[index].side == IterationClass::Typical).collect();
        let is_lossy = is_lossy(&all[..timed]);
        let lacking = lacking(&trees, &breakdowns, &typical, is_lossy);
        (0..lacking.len()).filter(|&index| lacking[index]).for_each(|index| breakdowns.leave_out(index));
        Self { compared: all, trees, breakdowns, lacking }
    }

    /// The same traces, with points told apart less finely; `None` if the level before is the same because no call waits.
    pub(super) fn at(&self, level: Level) -> Option<Self> {
        let waits_for = if level == Level::Served { self.waits_for() } else { Vec::new() };
        if level == Level::Served && waits_for.iter().all(Option::is_none) {
            return None;
        }
        let breakdowns = at_level(&self.breakdowns, level, &waits_for);
        let (compared, trees) = (self.compared.clone(), self.trees.clone());
        Some(Self { compared, trees, breakdowns, lacking: self.lacking.clone() })
    }

    /// For each kind, the one other service that its points call; `None` for the client, whose own time has a name.
    pub(super) fn called_services(&self, of: &[usize]) -> Vec<Option<String>> {
        self.only_called(of, |_, _| true)
    }

    /// The same of calls that wait for an answer, in all complete traces.
    fn waits_for(&self) -> Vec<Option<String>> {
        let all: Vec<usize> = (0..self.trees.len()).collect();
        self.only_called(&self.complete(&all), answers)
    }

    /// For each kind, the one other service whose points are below its points, if this holds of each such point and the one
    /// above it.
    fn only_called(&self, of: &[usize], holds: fn(&Point, &Point) -> bool) -> Vec<Option<String>> {
        let mut called = vec![(BTreeSet::new(), true); self.breakdowns.kinds.len()];
        for (tree, kinds) in of.iter().map(|&one| (self.trees[one], &self.breakdowns.kind_of[one])) {
            for point in &tree.points {
                let Some((parent, kind)) =
                    point.parent.and_then(|parent| Some((&tree.points[parent], *kinds.get(parent)?)))
                else {
                    continue;
                };
                let (caller, service) = (parent.reporter(), point.reporter());
                if caller != REPORTER && caller != service && !service.is_empty() {
                    let (services, all_hold) = &mut called[kind];
                    services.insert(service);
                    *all_hold &= holds(parent, point);
                }
            }
        }
        let one = |(mut services, all_hold): (BTreeSet<String>, bool)| {
            if services.len() == 1 && all_hold { services.pop_first() } else { None }
        };
        called.into_iter().map(one).collect()
    }

    /// The indices of the traces for which this holds.
    pub(super) fn which(&self, holds: impl Fn(&ComparedIteration) -> bool) -> Vec<usize> {
        (0..self.compared.len()).filter(|&index| holds(self.compared[index])).collect()
    }

    /// The complete ones of these traces.
    pub(super) fn complete(&self, of: &[usize]) -> Vec<usize> {
        of.iter().copied().filter(|&index| self.breakdowns.traces[index].is_some()).collect()
    }

    /// The breakdowns of the complete ones of these traces.
    pub(super) fn parts(&self, of: &[usize]) -> Vec<Breakdown> {
        of.iter().filter_map(|&index| self.breakdowns.traces[index].clone()).collect()
    }

    /// The points of a kind in one of these traces.
    pub(super) fn points_of(&self, one: usize, kind: usize) -> Points<'a> {
        let Breakdowns { kind_of, exclusive_of, .. } = &self.breakdowns;
        points_of(self.trees[one], &kind_of[one], &exclusive_of[one], kind)
    }

    pub(super) fn trees(&self, of: &[usize]) -> Vec<&'a TraceTree> {
        of.iter().map(|&index| self.trees[index]).collect()
    }
}
