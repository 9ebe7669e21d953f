//! Trace points of other requests in a trace, and traces that lack points of their own.
//!
//! OSProfiler's `init()` does nothing in a thread that has a profiler already. Services that serve RPC in native
//! threads, and never clear it, therefore report all that a thread ever does to the first trace that it saw, below the
//! call that began that trace. These are points of later requests and of periodic tasks, seconds or minutes after the
//! iteration. The traces of those requests lack these points. Neither may be taken for what an iteration did. Nothing
//! here may write text.

use std::borrow::Borrow;
use std::collections::{BTreeMap, BTreeSet};

use super::polls::{polls, waiting_for};
use super::statement;
use osprofiler::report::{Point, TraceTree};
use results::rpc::{QUEUE, RPC, caller_of, is_same_process, method};

/// A server's point that begins this much later than the one that the call was for is not part of the same call.
const LATER_US: u64 = 1_000_000;

/// What is wrong with the traces of RPC.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ForeignPointSummary {
    /// How many traces were looked at.
    pub traces: usize,
    /// How many of them have points of other requests.
    pub with_foreign: usize,
    /// The services that reported these points.
    pub services: BTreeSet<String>,
    /// How long the latest of them begins after the end of what its call was for.
    pub after_us: u64,
    /// How many of them lack what a call led to, although others have it.
    pub lacking: usize,
    /// How many have no point of what any call led to.
    pub unserved: usize,
    /// What was called without such a point.
    pub methods: BTreeSet<String>,
}

/// Which points are of other requests.
#[must_use]
pub fn foreign(tree: &TraceTree) -> Vec<bool> {
    let mut is_foreign = vec![false; tree.points.len()];
    for of_call in calls(tree).values() {
        of_call.foreign(tree).into_iter().for_each(|index| is_foreign[index] = true);
    }
    for index in 0..is_foreign.len() {
        is_foreign[index] |=
            tree.points[index].parent.is_some_and(|above| above < index && is_foreign[above]);
    }
    is_foreign
}

/// Which of these traces lack what a call led to that a client's poll waited for, although others have it.
#[must_use]
pub fn lacking<T: Borrow<TraceTree>>(trees: &[T]) -> Vec<bool> {
    let seen: Vec<Calls> = trees.iter().map(|tree| Calls::of(tree.borrow())).collect();
    let served: BTreeSet<&Call> = seen.iter().flat_map(|one| &one.served).collect();
    seen.iter().map(|one| one.unserved.iter().any(|call| served.contains(call))).collect()
}

/// What is wrong with these traces; `None` if nothing is, or with so few that it says nothing.
#[must_use]
pub fn mixed<T: Borrow<TraceTree>>(trees: &[T]) -> Option<ForeignPointSummary> {
    let mut mixed = ForeignPointSummary { traces: trees.len(), ..ForeignPointSummary::default() };
    for tree in trees.iter().map(Borrow::borrow) {
        let foreign: Vec<(u64, usize)> =
            calls(tree).values().flat_map(|of_call| of_call.later(tree)).collect();
        mixed.with_foreign += usize::from(!foreign.is_empty());
        mixed.services.extend(foreign.iter().map(|(_, index)| tree.points[*index].reporter()));
        mixed.after_us = foreign.iter().map(|(after_us, _)| *after_us).fold(mixed.after_us, u64::max);
        let Calls { served, unserved } = Calls::of(tree);
        mixed.unserved += usize::from(served.is_empty() && !unserved.is_empty());
        mixed.methods.extend(unserved.into_iter().map(|(_, called)| called));
    }
    mixed.lacking = lacking(trees).into_iter().filter(|is_lacking| *is_lacking).count();
    // A few traces may have lost records, or were read too early.
    let is_told =
        mixed.with_foreign > 0 || 5 * mixed.lacking > trees.len() || 2 * mixed.unserved > trees.len();
    is_told.then_some(mixed)
}

/// The service that calls, and what.
type Call = (String, String);

/// The calls that a client's poll waited for.
#[derive(Default)]
struct Calls {
    served: BTreeSet<Call>,
    unserved: BTreeSet<Call>,
}

impl Calls {
    fn of(tree: &TraceTree) -> Self {
        let polls = polls(tree);
        if polls.is_empty() {
            return Self::default();
        }
        let (foreign, children) = (foreign(tree), tree.children());
        let mut found = Self::default();
        for (index, point) in tree.points.iter().enumerate() {
            let is_caller = point.name == RPC && caller_of(tree, index).is_none();
            // What is sent when the poll is over may come after the trace was read.
            let is_waited_for = waiting_for(&polls, (point.start_us, u64::MAX)).is_some();
            if !is_caller || foreign[index] || !is_waited_for || !is_by_convention(point) {
                continue;
            }
            let is_served = children[index]
                .iter()
                .any(|&child| !foreign[child] && !is_same_process(&tree.points[child], point));
            let call = (point.reporter(), method(point).unwrap_or_default().to_owned());
            if is_served {
                found.served.insert(call)
            } else {
                found.unserved.insert(call)
            };
        }
        found
    }
}

/// True for a caller's point, by the name that OpenStack's services give to what calls.
fn is_by_convention(point: &Point) -> bool {
    statement::kind(point).contains("rpcapi.")
}

/// What other processes have below a caller's point, by start.
struct RpcCallPoints {
    caller: usize,
    below: Vec<usize>,
}

fn calls(tree: &TraceTree) -> BTreeMap<usize, RpcCallPoints> {
    let mut found: BTreeMap<usize, RpcCallPoints> = BTreeMap::new();
    for (index, point) in tree.points.iter().enumerate() {
        let Some(above) = point.parent.filter(|&above| above < index) else { continue };
        let caller = &tree.points[above];
        let is_of_caller = caller.name == RPC && caller_of(tree, above).is_none() && is_by_convention(caller);
        if is_of_caller && point.name != QUEUE && !is_same_process(caller, point) {
            found
                .entry(above)
                .or_insert_with(|| RpcCallPoints { caller: above, below: Vec::new() })
                .below
                .push(index);
        }
    }
    found
}

impl RpcCallPoints {
    /// The server's point that the call was for.
    fn served(&self, tree: &TraceTree) -> Option<usize> {
        let called = method(&tree.points[self.caller]);
        let of = |is_it: &dyn Fn(Option<&str>) -> bool| {
            let is_served = |index: &&usize| {
                let point = &tree.points[**index];
                point.name == RPC && is_it(method(point).as_deref())
            };
            self.below.iter().find(is_served).copied()
        };
        of(&|known| known.is_some() && known == called.as_deref()).or_else(|| of(&|known| known.is_none()))
    }

    /// Points that are certainly of other requests, each with how long after the call.
    fn later(&self, tree: &TraceTree) -> Vec<(u64, usize)> {
        let served = self.served(tree);
        let caller = &tree.points[self.caller];
        let end_us = |point: &Point| point.end_us().unwrap_or(point.start_us);
        let until_us = served.map_or(0, |index| end_us(&tree.points[index])).max(end_us(caller));
        let others =
            self.below.iter().filter(|&&index| Some(index) != served && !self.is_same(tree, served, index));
        others
            .map(|&index| (tree.points[index].start_us.saturating_sub(until_us), index))
            .filter(|(after_us, _)| *after_us > LATER_US)
            .collect()
    }

    /// All points of other requests.
    fn foreign(&self, tree: &TraceTree) -> Vec<usize> {
        if self.later(tree).is_empty() {
            return Vec::new();
        }
        let served = self.served(tree);
        let is_other = |index: &usize| Some(*index) != served && !self.is_same(tree, served, *index);
        self.below.iter().copied().filter(is_other).collect()
    }

    /// True for the same message at a server on another host.
    fn is_same(&self, tree: &TraceTree, served: Option<usize>, index: usize) -> bool {
        let point = &tree.points[index];
        served.is_some_and(|served| {
            let served = &tree.points[served];
            served.host != point.host && point.name == RPC && method(point) == method(served)
        })
    }
}
