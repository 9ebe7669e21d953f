//! The fetched iterations of a workload, broken down together.

use std::sync::Arc;

use uuid::Uuid;

use super::attribution::Breakdown;
use super::breakdown::{Breakdowns, break_down};
use super::contrast::{Points, points_of};
use super::levels::{Level, at_level};
use crate::measure::sample::IterationSample;
use crate::osprofiler::report::TraceTree;
use crate::results::choice::Side;
use crate::results::functions::Functions;

/// A fetched iteration, with the client's points and the services'.
pub struct Compared {
    /// Slow or typical.
    pub side: Side,
    /// Whether it is among the slowest 1 %.
    pub top: bool,
    /// Its trace id.
    pub trace_id: Uuid,
    /// What the client measured; its workload is that which is asked about.
    pub sample: IterationSample,
    /// The tree; `None` if the collector did not have it.
    pub tree: Option<Arc<TraceTree>>,
    /// The functions that services reported with it.
    pub functions: Arc<Functions>,
}

/// The traces of a workload, broken down together.
pub(super) struct Traces<'a> {
    pub(super) compared: Vec<&'a Compared>,
    pub(super) trees: Vec<&'a TraceTree>,
    pub(super) breakdowns: Breakdowns,
}

impl<'a> Traces<'a> {
    pub(super) fn of(compared: &'a [Compared], workload: usize, none: &'a TraceTree) -> Self {
        let mut all: Vec<&Compared> =
            compared.iter().filter(|one| usize::from(one.sample.workload) == workload).collect();
        all.sort_by_key(|one| one.side == Side::Failed);
        let timed = all.iter().take_while(|one| one.side != Side::Failed).count();
        let trees: Vec<&TraceTree> = all.iter().map(|one| one.tree.as_deref().unwrap_or(none)).collect();
        let breakdowns = break_down(&trees, timed);
        Self { compared: all, trees, breakdowns }
    }

    /// The same traces, with points told apart less finely.
    pub(super) fn at(&self, level: Level) -> Self {
        let breakdowns = at_level(&self.breakdowns, level);
        Self { compared: self.compared.clone(), trees: self.trees.clone(), breakdowns }
    }

    /// The indices of the traces for which this holds.
    pub(super) fn which(&self, holds: impl Fn(&Compared) -> bool) -> Vec<usize> {
        (0..self.compared.len()).filter(|&index| holds(self.compared[index])).collect()
    }

    /// Those of these traces that are complete.
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
