//! Traces that lack spans which typical traces of the same workload have.
//!
//! A queue of spans that is full loses some of a trace, often without a gap: the parents of those that came are there
//! (see `findings/full-span-queues.sh`). What is lost would be blamed on the point around it, which seems to have done
//! the work itself. So a trace is left out if a call that typical traces have answered by another service has no answer
//! in it. If this or anything else shows that spans were lost, it is also left out if a point that nearly always calls
//! something did not, and took longer by itself than in typical traces. Without such a sign, it may have taken another
//! way through the code. Traces with an error may have ended early, and stay. Nothing here may judge a cause.

use std::collections::{BTreeMap, BTreeSet};

use super::asynchronous::{answers, is_call};
use super::attribution::percentile;
use super::breakdown::Breakdowns;
use osprofiler::report::TraceTree;
use results::client_points::REPORTER;

/// What this share of typical traces have is usual: answers of other services, without and with a sign of losses, and calls
/// within a service. A part of the answers may come from a cache, or from a host that reports nothing.
const ANSWERED_MIN: f64 = 0.9;
const ANSWERED_MIN_OF_LOSSY: f64 = 0.5;
const CALLED_MIN: f64 = 0.8;
/// Fewer traces say nothing about what is usual.
const TYPICAL_MIN: usize = 20;

/// Kinds of points: a point's, and that of what it calls; `None` if it calls another service, whichever.
type Pair = (usize, Option<usize>);

/// What a trace has, of each kind of its points.
#[derive(Default)]
struct TraceKinds {
    kinds: BTreeSet<usize>,
    pairs: BTreeSet<Pair>,
    /// Calls to other services that none answered.
    unanswered: BTreeSet<usize>,
}

impl TraceKinds {
    fn of(tree: &TraceTree, kind_of: &[usize]) -> Self {
        let mut found = Self { kinds: kind_of.iter().copied().collect(), ..Self::default() };
        let mut is_answered = vec![false; kind_of.len()];
        for (index, point) in tree.points.iter().enumerate() {
            let Some(above) = point.parent.filter(|&above| above < kind_of.len()) else { continue };
            let caller = &tree.points[above];
            if caller.reporter() == REPORTER || index >= kind_of.len() {
                continue;
            }
            found.pairs.insert((kind_of[above], Some(kind_of[index])));
            if !caller.has_reporter_of(point) && answers(caller, point) {
                is_answered[above] = true;
                found.pairs.insert((kind_of[above], None));
            }
        }
        let calls = tree.points.iter().zip(kind_of).zip(&is_answered);
        let unanswered = calls.filter(|((point, _), answered)| !**answered && is_call(point));
        found.unanswered = unanswered.map(|((_, kind), _)| *kind).collect();
        found
    }
}

/// Which of these traces lack what the typical ones have. `is_lossy` says whether spans of others did not come.
pub(super) fn lacking(
    trees: &[&TraceTree],
    breakdowns: &Breakdowns,
    typical: &[usize],
    is_lossy: bool,
) -> Vec<bool> {
    let none = vec![false; trees.len()];
    let is_whole = |index: usize| breakdowns.traces[index].is_some();
    let typical: Vec<usize> = typical.iter().copied().filter(|&index| is_whole(index)).collect();
    if typical.len() < TYPICAL_MIN {
        return none;
    }
    let seen: Vec<Option<TraceKinds>> = (0..trees.len())
        .map(|index| is_whole(index).then(|| TraceKinds::of(trees[index], &breakdowns.kind_of[index])))
        .collect();
    let may_end_early = |index: usize| trees[index].points.iter().any(|point| point.error.is_some());
    let usual = usual(&typical, &seen, if is_lossy { ANSWERED_MIN_OF_LOSSY } else { ANSWERED_MIN });
    let has_unanswered = |has: &TraceKinds| {
        usual.iter().any(|(kind, called)| called.is_none() && has.unanswered.contains(kind))
    };
    let shows_losses = |(index, has): (usize, &Option<TraceKinds>)| {
        has.as_ref().is_some_and(has_unanswered) && !may_end_early(index)
    };
    let is_lossy = is_lossy || seen.iter().enumerate().any(shows_losses);
    let own_us = |index: usize, kind: usize| {
        let parts = breakdowns.traces[index].iter().flat_map(|trace| &trace.parts);
        parts.filter(|part| part.kind == kind).map(|part| part.self_us).sum::<f64>()
    };
    let mut longest_us: BTreeMap<usize, f64> = BTreeMap::new();
    let of_trace = |(index, has): (usize, &Option<TraceKinds>)| {
        let Some(has) = has else { return false };
        let mut took_longer = |kind: usize| {
            let usual_us = *longest_us.entry(kind).or_insert_with(|| {
                let us: Vec<f64> = typical.iter().map(|&one| own_us(one, kind)).collect();
                percentile(&us, 95.0)
            });
            own_us(index, kind) > usual_us
        };
        let mut lacked = usual.iter().filter(|pair| pair.1.is_some() && !has.pairs.contains(pair));
        !may_end_early(index)
            && (has_unanswered(has)
                || is_lossy && lacked.any(|&(kind, _)| has.kinds.contains(&kind) && took_longer(kind)))
    };
    seen.iter().enumerate().map(of_trace).collect()
}

/// What nearly all typical traces with the point around it have.
fn usual(typical: &[usize], seen: &[Option<TraceKinds>], answered_min: f64) -> Vec<Pair> {
    let mut with_kind: BTreeMap<usize, usize> = BTreeMap::new();
    let mut with_pair: BTreeMap<Pair, usize> = BTreeMap::new();
    let mut without_answer: BTreeMap<usize, usize> = BTreeMap::new();
    for &index in typical {
        let Some(has) = &seen[index] else { continue };
        has.kinds.iter().for_each(|&kind| *with_kind.entry(kind).or_default() += 1);
        has.pairs.iter().for_each(|&pair| *with_pair.entry(pair).or_default() += 1);
        has.unanswered.iter().for_each(|&kind| *without_answer.entry(kind).or_default() += 1);
    }
    let is_usual = |&(kind, called): &Pair, number: usize| {
        let of = with_kind.get(&kind).copied().unwrap_or(0);
        let (has, least) = match called {
            None => (of.saturating_sub(without_answer.get(&kind).copied().unwrap_or(0)), answered_min),
            Some(_) => (number, CALLED_MIN),
        };
        of >= TYPICAL_MIN && has as f64 >= least * of as f64
    };
    with_pair.into_iter().filter(|(pair, number)| is_usual(pair, *number)).map(|(pair, _)| pair).collect()
}
