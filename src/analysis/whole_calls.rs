//! Calls with everything below them: which of them slow iterations make more often than typical ones.
//!
//! Where a whole call is made twice, such as a retried request or a step for each row, its time spreads over all kinds of
//! points below it, and none of them explains much. So each kind is also compared with the critical path of everything
//! below its points. Named is the topmost kind that is called more often: more often for each call of the point around
//! it. Several such kinds side by side, as in a loop over rows, explain the gap together. Nothing here may fetch or print.

use std::collections::{BTreeSet, HashMap, HashSet};

use super::attribution::{
    Attribution, Breakdown, KindContribution, OwnTimeSplit, Part, Table, cause, cliffs_delta, mean, shares,
};
use super::compared::Traces;
use super::wholes::{WholeCalls, each_with_open};
use results::client_points::REPORTER;

/// More calls explain at least this share of the gap, together.
const EXPLAINED_MIN: f64 = 0.5;
/// And each of the kinds that are called more often at least this.
const EACH_MIN: f64 = 0.1;
/// The lower bound of the share of all of them together.
const SCORE_MIN: f64 = 0.2;
/// More calls explain at least this part of what a kind took longer; the rest is due to slower calls.
const MORE_MIN: f64 = 0.5;
/// There must be this many times as many calls.
const TIMES_MIN: f64 = 1.15;
const EFFECT_MIN: f64 = 0.33;
const EXCEED_MIN: f64 = 0.3;
/// Durations, which no clock affects, must have grown by at least this part of the time on the critical path.
const SELF_MIN: f64 = 0.3;
/// At most this many kinds get bounds.
const CANDIDATES_MAX: usize = 12;
/// A single kind of point that explains at least this part of what whole calls explain is named itself.
const ONE_KIND_MIN: f64 = 0.75;

/// The calls that slow iterations make more often.
#[derive(Clone, Debug, Default)]
pub(super) struct RepeatedCalls {
    /// Their kinds, with times and calls of whole calls: largest share first, all causes. Empty if they explain too little.
    pub(super) causes: Vec<KindContribution>,
    /// Whether they are named instead of kinds of points by themselves.
    pub(super) is_first: bool,
}

/// Finds the calls that slow iterations make more often, if these explain enough. Kinds of `found` that only tell what
/// happens within such calls are no longer causes.
pub(super) fn repeated(
    found: &mut Attribution,
    traces: &Traces<'_>,
    (slow, typical): (&[usize], &[usize]),
    seed: u64,
) -> RepeatedCalls {
    let kinds = traces.breakdowns.kinds.len();
    let has_services = traces.breakdowns.kinds.iter().any(|kind| kind.service != REPORTER);
    if found.unsupported.is_some() || !has_services || traces.breakdowns.wholes.is_empty() {
        return RepeatedCalls::default();
    }
    let (slow_table, fast_table) = (table(traces, slow, kinds), table(traces, typical, kinds));
    let gap_us = found.slow_us - found.fast_us;
    let mut candidates: Vec<KindContribution> = topmost(traces, slow, &slow_table, &fast_table)
        .into_iter()
        .map(|kind| cause(&slow_table, &fast_table, kind, gap_us))
        .filter(|one| is_called_more(one, gap_us) && has_grown(&slow_table, &fast_table, one))
        .collect();
    candidates.sort_by(|one, other| other.delta_us.total_cmp(&one.delta_us).then(one.kind.cmp(&other.kind)));
    candidates.truncate(CANDIDATES_MAX);
    let causes: Vec<usize> = found.causes.iter().filter(|one| one.is_cause).map(|one| one.kind).collect();
    let watched: BTreeSet<usize> = candidates.iter().map(|one| one.kind).chain(causes).collect();
    let nested = KindNesting::of(traces, slow, &watched);
    let mut causes: Vec<KindContribution> = Vec::new();
    for one in candidates {
        // A kind that holds another one comes first, because it takes at least as long.
        if !causes.iter().any(|known| nested.is_within(one.kind, known.kind)) {
            causes.push(one);
        }
    }
    let together: f64 = causes.iter().map(|one| one.more_calls_us / gap_us).sum();
    let kinds: Vec<usize> = causes.iter().map(|one| one.kind).collect();
    let bounds = shares(&slow_table, &fast_table, &kinds, seed);
    let low: f64 = bounds.iter().map(|(low, _)| low).sum();
    if together < EXPLAINED_MIN || low < SCORE_MIN {
        return RepeatedCalls::default();
    }
    for (one, (low, high)) in causes.iter_mut().zip(bounds) {
        (one.share_low, one.share_high, one.is_cause) = (low, high, true);
    }
    named(found, causes, &nested)
}

/// Decides between kinds of points by themselves, and whole calls.
fn named(found: &mut Attribution, causes: Vec<KindContribution>, nested: &KindNesting) -> RepeatedCalls {
    let is_in =
        |kind: usize| causes.iter().any(|whole| whole.kind == kind || nested.is_within(kind, whole.kind));
    let whole: f64 = causes.iter().map(|one| one.share).sum();
    let named = || found.causes.iter().filter(|one| one.is_cause);
    let inside = named().filter(|one| is_in(one.kind)).map(|one| one.share).fold(0.0, f64::max);
    let beside = named().filter(|one| !is_in(one.kind)).map(|one| one.share).fold(0.0, f64::max);
    if inside >= ONE_KIND_MIN * whole || beside > whole {
        return RepeatedCalls { causes: if beside > whole { Vec::new() } else { causes }, is_first: false };
    }
    found.causes.iter_mut().filter(|one| is_in(one.kind)).for_each(|one| one.is_cause = false);
    RepeatedCalls { causes, is_first: true }
}

/// The whole calls of these traces, with the totals of the traces.
fn table(traces: &Traces<'_>, of: &[usize], kinds: usize) -> Table {
    let parts = |wholes: &Vec<WholeCalls>| {
        let part = |one: &WholeCalls| Part {
            kind: one.kind,
            exclusive_us: one.us,
            self_us: one.self_us,
            calls: one.calls,
            lies: OwnTimeSplit::default(),
        };
        Breakdown { parts: wholes.iter().map(part).collect() }
    };
    let wholes: Vec<Breakdown> = of.iter().map(|&one| parts(&traces.breakdowns.wholes[one])).collect();
    let total = |trace: &Breakdown| trace.parts.iter().map(|part| part.exclusive_us).sum();
    let totals = traces.parts(of).iter().map(total).collect();
    let mut table = Table::new(&wholes, kinds);
    table.totals = totals;
    table
}

/// The kinds of services that have more calls for each call of the point around them.
fn topmost(traces: &Traces<'_>, slow: &[usize], slow_table: &Table, fast_table: &Table) -> Vec<usize> {
    let kinds = &traces.breakdowns.kinds;
    let mut parents: HashMap<usize, HashSet<usize>> = HashMap::new();
    for &one in slow {
        let of = &traces.breakdowns.kind_of[one];
        for (index, point) in traces.trees[one].points.iter().enumerate().skip(1).take(of.len()) {
            parents.entry(of[index]).or_default().insert(of[point.parent.unwrap_or(0)]);
        }
    }
    let calls = |kind: usize| (mean(&slow_table.calls[kind]), mean(&fast_table.calls[kind]));
    let is_topmost = |kind: &usize| {
        let (slow_calls, fast_calls) = calls(*kind);
        let more = slow_calls - fast_calls;
        if slow_calls < TIMES_MIN * fast_calls || more <= 0.0 {
            return false;
        }
        let Some(around) = parents.get(kind) else { return false };
        let around = around.iter().map(|&kind| calls(kind));
        let (slow_around, fast_around) =
            around.fold((0.0, 0.0), |sums, (slow, fast)| (sums.0 + slow, sums.1 + fast));
        // What as many calls of the point around would have.
        let expected = if fast_around > 0.0 { fast_calls * slow_around / fast_around } else { slow_calls };
        slow_calls - expected >= MORE_MIN * more
    };
    let is_repeatable = |kind: &usize| !(kinds[*kind].service == REPORTER && kinds[*kind].parent.is_empty());
    (0..kinds.len()).filter(is_repeatable).filter(is_topmost).collect()
}

/// Whether more calls are what makes a kind take longer.
fn is_called_more(one: &KindContribution, gap_us: f64) -> bool {
    one.delta_us > 0.0
        && one.more_calls_us >= MORE_MIN * one.delta_us
        && one.more_calls_us >= EACH_MIN * gap_us
        && one.effect >= EFFECT_MIN
        && one.exceeding >= EXCEED_MIN
}

/// Whether slow traces have more of its calls, and not only a few of them; and whether durations agree.
fn has_grown(slow: &Table, fast: &Table, one: &KindContribution) -> bool {
    let own_us = mean(&slow.own[one.kind]) - mean(&fast.own[one.kind]);
    cliffs_delta(&slow.calls[one.kind], &fast.calls[one.kind]) >= EFFECT_MIN
        && own_us >= SELF_MIN * one.delta_us
}

/// How often points of one kind are within points of another one.
struct KindNesting {
    within: HashMap<(usize, usize), usize>,
    all: HashMap<usize, usize>,
}

impl KindNesting {
    fn of(traces: &Traces<'_>, of: &[usize], watched: &BTreeSet<usize>) -> Self {
        let mut nested = Self { within: HashMap::new(), all: HashMap::new() };
        for &one in of {
            let kind_of = &traces.breakdowns.kind_of[one];
            each_with_open(traces.trees[one], kind_of, |index, open| {
                let kind = kind_of[index];
                if !watched.contains(&kind) {
                    return;
                }
                *nested.all.entry(kind).or_default() += 1;
                for &outer in watched.iter().filter(|outer| **outer != kind && open.contains_key(outer)) {
                    *nested.within.entry((kind, outer)).or_default() += 1;
                }
            });
        }
        nested
    }

    /// Whether at least half of the points of a kind are within another one.
    fn is_within(&self, kind: usize, outer: usize) -> bool {
        let within = self.within.get(&(kind, outer)).copied().unwrap_or(0);
        within > 0 && 2 * within >= self.all.get(&kind).copied().unwrap_or(0)
    }
}
