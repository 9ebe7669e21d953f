//! What an iteration does, as steps that can be run again: each with the work before it, the step that it waits for, and
//! the servers that it needs.
//!
//! A step begins some time after its caller began, or after the sibling that ended last before it; that time is its caller's
//! own work. A step ends some time after the last step that it waits for. What waited for a server is left out of these times,
//! because a replay ([`crate::replay`]) makes its own queues. Work that nothing waits for is run, too: it may hold servers.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use analysis::asynchronous::awaited;
use analysis::breakdown::{Kind, kind};
use osprofiler::report::TraceTree;

use crate::calls::{self, CallGroup};
use crate::ceiling::ServerCeiling;

/// One point of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramStep {
    /// The step that it is part of, which comes before it; none for the first.
    pub parent: Option<usize>,
    /// The step of the same parent that it waits for; none if it follows its parent's start.
    pub after: Option<usize>,
    /// The number of its kind.
    pub kind: usize,
    /// The number of the pool that it needs a server of.
    pub pool: Option<usize>,
    /// Its parent's work before it, in microseconds.
    pub gap_us: i64,
    /// Its own work after the last step that it waits for, or all of its work.
    pub tail_us: i64,
    /// Whether its parent waits for it.
    pub is_awaited: bool,
}

/// An iteration's steps; parents and siblings come before those that need them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Program {
    pub steps: Vec<ProgramStep>,
}

/// The kinds of the steps of several programs, by their numbers.
#[derive(Clone, Debug, Default)]
pub struct StepKinds {
    kinds: Vec<Kind>,
    numbers: HashMap<Kind, usize>,
}

impl StepKinds {
    /// All kinds, in the order of their numbers.
    #[must_use]
    pub fn all(&self) -> &[Kind] {
        &self.kinds
    }

    fn number(&mut self, kind: Kind) -> usize {
        *self.numbers.entry(kind).or_insert_with_key(|kind| {
            self.kinds.push(kind.clone());
            self.kinds.len() - 1
        })
    }
}

/// The program of a trace that has the client's points. `None` if something of the trace is missing, or if it has not one
/// outermost point.
#[must_use]
pub fn of_trace(tree: &TraceTree, pools: &[ServerCeiling], kinds: &mut StepKinds) -> Option<Program> {
    if tree.incomplete() > 0 || tree.gaps.parents() > 0 || tree.unreadable > 0 {
        return None;
    }
    let (first, rest) = tree.points.split_first()?;
    if first.parent.is_some() || rest.iter().any(|point| point.parent.is_none()) {
        return None;
    }
    let parts = StepTimes::of(tree)?;
    let of_group: BTreeMap<&CallGroup, usize> =
        pools.iter().enumerate().map(|(number, pool)| (&pool.group, number)).collect();
    let mut last_end_us: Vec<Option<i64>> = vec![None; tree.points.len()];
    for (index, point) in tree.points.iter().enumerate().skip(1) {
        if let Some(parent) = point.parent.filter(|_| parts.is_awaited[index]) {
            last_end_us[parent] = last_end_us[parent].max(Some(parts.of[index].1));
        }
    }
    // The ends of the steps so far that are waited for, by parent.
    let mut ended: Vec<BTreeSet<(i64, usize)>> = vec![BTreeSet::new(); tree.points.len()];
    let mut steps: Vec<ProgramStep> = Vec::with_capacity(tree.points.len());
    for (index, point) in tree.points.iter().enumerate() {
        let (start_us, end_us) = parts.of[index];
        let last_us = last_end_us[index];
        let (after, begins_us) = point.parent.map_or((None, start_us), |parent| {
            let before = ended[parent].range(..=(start_us, usize::MAX)).next_back().copied();
            before.map_or((None, parts.of[parent].0), |(end_us, one)| (Some(one), end_us))
        });
        if let Some(parent) = point.parent.filter(|_| parts.is_awaited[index]) {
            ended[parent].insert((end_us, index));
        }
        let pool = calls::group_of(tree, index).and_then(|group| of_group.get(&group).copied());
        let gap_us = (start_us - begins_us).max(0);
        steps.push(ProgramStep {
            parent: point.parent,
            after,
            kind: kinds.number(kind(tree, index)),
            pool,
            gap_us: pool.map_or(gap_us, |number| {
                pools[number].own_gap_us(gap_us, tree.first_unix_us.saturating_add_unsigned(point.start_us))
            }),
            tail_us: (end_us - last_us.unwrap_or(start_us)).max(0),
            is_awaited: parts.is_awaited[index],
        });
    }
    Some(Program { steps })
}

/// When the points of a trace began and ended, on one clock.
struct StepTimes {
    of: Vec<(i64, i64)>,
    is_awaited: Vec<bool>,
}

impl StepTimes {
    /// What a caller waited for lies within it: where clocks say something else, the clocks are wrong. `None` if a point
    /// has no end.
    fn of(tree: &TraceTree) -> Option<Self> {
        let awaited = awaited(tree);
        let mut times = Self { of: Vec::with_capacity(awaited.len()), is_awaited: Vec::new() };
        let mut moved_us: Vec<i64> = Vec::with_capacity(awaited.len());
        for (index, point) in tree.points.iter().enumerate() {
            let (start_us, end_us) = match awaited[index] {
                Some(part) => part,
                None => (point.start_us, point.end_us()?),
            };
            let (start_us, end_us) = (i64::try_from(start_us).ok()?, i64::try_from(end_us).ok()?);
            let parent = point.parent;
            let is_awaited = awaited[index].is_some() && parent.is_none_or(|parent| times.is_awaited[parent]);
            let moved = parent.map_or(0, |parent| {
                let (from_us, until_us) = times.of[parent];
                let by_us = moved_us[parent];
                let (start_us, end_us) = (start_us + by_us, end_us + by_us);
                // It is moved as a whole, so that what it contains keeps its place.
                let late_us = if is_awaited { (end_us - until_us).max(0) } else { 0 };
                by_us - late_us.min((start_us - from_us).max(0)) + (from_us - start_us).max(0)
            });
            let (start_us, mut end_us) = (start_us + moved, end_us + moved);
            if let Some(parent) = parent.filter(|_| is_awaited) {
                end_us = end_us.min(times.of[parent].1);
            }
            times.of.push((start_us, end_us.max(start_us)));
            times.is_awaited.push(is_awaited);
            moved_us.push(moved);
        }
        Some(times)
    }
}

impl Program {
    /// How long it takes where nothing waits for a server, in microseconds.
    #[must_use]
    pub fn alone_us(&self) -> i64 {
        // From the innermost steps outwards: what is within a step comes after it.
        let mut lengths_us = vec![0_i64; self.steps.len()];
        let mut children: Vec<Vec<usize>> = vec![Vec::new(); self.steps.len()];
        for (index, step) in self.steps.iter().enumerate() {
            if let Some(parent) = step.parent {
                children[parent].push(index);
            }
        }
        let mut ends_us = vec![0_i64; self.steps.len()];
        for index in (0..self.steps.len()).rev() {
            let mut last_us = 0;
            for &child in &children[index] {
                let step = &self.steps[child];
                let begins_us = step.after.map_or(0, |after| ends_us[after]);
                ends_us[child] = begins_us + step.gap_us + lengths_us[child];
                if step.is_awaited {
                    last_us = last_us.max(ends_us[child]);
                }
            }
            lengths_us[index] = last_us + self.steps[index].tail_us;
        }
        lengths_us.first().copied().unwrap_or(0)
    }

    /// The same with the work of these kinds multiplied: what their steps do themselves, not the steps within them.
    #[must_use]
    pub fn with_work(&self, factors: &HashMap<usize, f64>) -> Self {
        let scaled = |us: i64, kind: usize| match factors.get(&kind) {
            Some(factor) => (us as f64 * factor) as i64,
            None => us,
        };
        let of = |step: &ProgramStep| {
            let above = step.parent.map(|parent| self.steps[parent].kind);
            ProgramStep {
                gap_us: above.map_or(step.gap_us, |above| scaled(step.gap_us, above)),
                tail_us: scaled(step.tail_us, step.kind),
                ..step.clone()
            }
        };
        Self { steps: self.steps.iter().map(of).collect() }
    }

    /// The same with at most so many steps of these kinds; the others, and what is within them, are left out.
    #[must_use]
    pub fn with_calls(&self, kinds: &[usize], most: usize) -> Self {
        let mut kept: Vec<Option<usize>> = vec![None; self.steps.len()];
        let (mut steps, mut seen): (Vec<ProgramStep>, usize) = (Vec::new(), 0);
        for (index, step) in self.steps.iter().enumerate() {
            let is_within = step.parent.is_some_and(|parent| kept[parent].is_none());
            if is_within {
                continue;
            }
            if kinds.contains(&step.kind) {
                seen += 1;
                if seen > most {
                    continue;
                }
            }
            // What it waited for may be gone; the caller's work before that stays.
            let (after, work_us) = self.before(step.after, &kept);
            kept[index] = Some(steps.len());
            let at = |index: Option<usize>| index.and_then(|index| kept[index]);
            let gap_us = step.gap_us + work_us;
            steps.push(ProgramStep { parent: at(step.parent), after: at(after), gap_us, ..step.clone() });
        }
        // So does the caller's work before those that were its last.
        let mut last_of: Vec<Option<usize>> = vec![None; self.steps.len()];
        for (index, step) in self.steps.iter().enumerate() {
            if let Some(parent) = step.parent.filter(|_| step.is_awaited) {
                last_of[parent] = Some(index);
            }
        }
        for (parent, last) in last_of.into_iter().enumerate() {
            if let (Some(to), Some(gone)) = (kept[parent], last.filter(|&last| kept[last].is_none())) {
                steps[to].tail_us += self.before(Some(gone), &kept).1;
            }
        }
        Self { steps }
    }

    /// The step that is left of those that a step waited for, one after the other, and the caller's work between.
    fn before(&self, mut after: Option<usize>, kept: &[Option<usize>]) -> (Option<usize>, i64) {
        let mut work_us = 0;
        while let Some(gone) = after.filter(|&one| kept[one].is_none()) {
            work_us += self.steps[gone].gap_us;
            after = self.steps[gone].after;
        }
        (after, work_us)
    }

    /// What the steps of these kinds do themselves, in microseconds.
    #[must_use]
    pub fn work_us(&self, kinds: &[usize]) -> i64 {
        let is_of = |kind: usize| kinds.contains(&kind);
        let of = |step: &ProgramStep| {
            let above = step.parent.is_some_and(|parent| is_of(self.steps[parent].kind));
            i64::from(above) * step.gap_us + i64::from(is_of(step.kind)) * step.tail_us
        };
        self.steps.iter().map(of).sum()
    }

    /// How many steps of these kinds it has.
    #[must_use]
    pub fn count(&self, kinds: &[usize]) -> usize {
        self.steps.iter().filter(|step| kinds.contains(&step.kind)).count()
    }
}
