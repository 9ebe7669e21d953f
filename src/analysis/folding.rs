//! A large trace as few rows: siblings of one kind, nested ones, repeated subtrees and small parts fold, and what goes
//! on after the answer stands apart.
//!
//! One boot of a server in a cloud has 1,600 points, two thirds of them in 26 validations of a token with 40 statements
//! each. [`fold`] makes some 60 rows of it. What a reader looks for never disappears. A row shows each point that has
//! an error, lacks its start or its stop, is named by the caller, or is far longer than its like. The work is
//! proportional to the number of points, and traces of any depth need no recursion.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};

use super::asynchronous::waited;
use super::statement;
use osprofiler::report::{Point, TraceTree};

/// Traces of up to this many points have no small parts: a screen holds them.
const POINTS_ON_A_SCREEN: usize = 40;
/// Siblings of one kind fold from this number on.
const ALIKE_MIN: usize = 3;
/// Parts below this share of the trace are small.
const SMALL_PART: u64 = 100;
/// All small parts that a row stands for take at most this share of the trace together.
const SMALL_TOGETHER_PART: u64 = 20;
/// A point of a group stands alone if it takes at least this share of the trace, and this many times their median.
const OUTLIER_PART: u64 = 10;
const OUTLIER_TIMES: u64 = 3;
/// A subtree is like an earlier one only where it saves this many points.
const REPEATED_MIN: usize = 3;
/// Nor is it if it takes this many times as long, and is not small.
const REPEATED_TIMES: u64 = 2;
/// A point that lasts longer than its parent by this much was not waited for, whatever their clocks say.
const LONGER_US: u64 = 5_000;
/// Hosts' clocks differ by less.
const CLOCKS_DIFFER_US: u64 = 100_000;

/// A trace as rows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FoldedTrace {
    /// Depth first, siblings by start; what goes on after the answer comes last.
    pub rows: Vec<FoldedRow>,
    /// How many points the trace has.
    pub points: usize,
    /// True if there are points without a row of their own.
    pub folded: bool,
}

/// A row: a point, or several.
#[derive(Clone, Debug, PartialEq)]
pub struct FoldedRow {
    /// How deep it is, from 0.
    pub depth: usize,
    /// The row that it is part of, an index in [`FoldedTrace::rows`].
    pub parent: Option<usize>,
    /// What it stands for.
    pub kind: RowKind,
    /// Its points, indices in [`TraceTree::points`], by start; without those below them. Never empty.
    pub members: Vec<usize>,
    /// The longest of them, whose name represents the others.
    pub longest: usize,
    /// How long they took together, in microseconds, of nested ones the outermost; `None` where that is not known.
    pub sum_us: Option<u64>,
    /// How long they took themselves, without the points below, in microseconds.
    pub own_us: u64,
    /// When the first of them began, in microseconds from the start of the trace.
    pub start_us: u64,
    /// When the last of them ended.
    pub end_us: u64,
    /// How many points below them have no row.
    pub below: usize,
    /// True for what goes on after the answer. The uppermost rows of such parts have depth 0 and no parent.
    pub afterwards: bool,
    /// The client's poll that waited for what goes on after the answer, an index in [`TraceTree::points`].
    pub poll: Option<usize>,
    /// The point that began it, for the uppermost rows of what goes on after the answer.
    pub began_in: Option<usize>,
}

/// What a row stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowKind {
    Point,
    /// Siblings of one kind. The rows below are of what is below all of them.
    Alike,
    /// Siblings of several kinds that took little, with all that is below them.
    Small {
        /// How many kinds.
        kinds: usize,
    },
    /// Points of one kind, each the only one below the one before. The rows below are of what is below the innermost.
    Nested,
    /// A point, or several of one kind, with points below as an earlier row has.
    Repeated {
        /// The earlier row, an index in [`FoldedTrace::rows`].
        row: usize,
    },
}

/// Folds a trace. The points `keep`, and those around them, have rows of their own.
#[must_use]
pub fn fold(tree: &TraceTree, keep: &[usize]) -> FoldedTrace {
    TreeFolder::new(tree, keep, true).rows()
}

/// Every point as a row.
#[must_use]
pub fn unfolded(tree: &TraceTree) -> FoldedTrace {
    TreeFolder::new(tree, &[], false).rows()
}

/// A row that is not placed yet.
struct Draft {
    kind: RowKind,
    /// Whether each member is below the one before.
    is_nested: bool,
    members: Vec<usize>,
    depth: usize,
    parent: Option<usize>,
    later: Option<Later>,
}

/// What goes on after the answer, by the poll that waited for it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Later {
    /// Points that nothing waited for come last.
    is_unawaited: bool,
    poll: Option<usize>,
}

impl Draft {
    /// The members that no other member is around.
    fn outer(&self) -> &[usize] {
        if self.is_nested { &self.members[..1] } else { &self.members }
    }

    /// The members that no other member is below.
    fn inner(&self) -> &[usize] {
        if self.is_nested { &self.members[self.members.len() - 1..] } else { &self.members }
    }
}

struct TreeFolder<'a> {
    tree: &'a TraceTree,
    folds: bool,
    /// Those that the answer waited for.
    children: Vec<Vec<usize>>,
    /// Where something begins that goes on after the answer.
    later: BTreeMap<Later, Vec<usize>>,
    /// A number for each kind of point.
    kinds: Vec<u32>,
    /// A number for the kinds of all points below each point, if points fold.
    shapes: Vec<u64>,
    /// How many points are below each point.
    below: Vec<usize>,
    /// How long each point or any below it took: what a cast leads to lasts longer than the cast.
    longest_us: Vec<u64>,
    /// Points that a reader looks for, and those around them.
    needed: Vec<bool>,
    /// Points that have rows of their own.
    alone: Vec<bool>,
    whole_us: u64,
}

impl<'a> TreeFolder<'a> {
    fn new(tree: &'a TraceTree, keep: &[usize], folds: bool) -> Self {
        let (children, later) = parts(tree);
        let number = tree.points.len();
        let kinds = if folds { kinds(tree) } else { vec![0; number] };
        let mut needed: Vec<bool> =
            tree.points.iter().map(|point| point.error.is_some() || point.duration_us.is_none()).collect();
        let mut alone = vec![false; number];
        for &index in keep.iter().filter(|&&index| index < number) {
            (needed[index], alone[index]) = (true, true);
        }
        let (mut shapes, mut below) = (vec![0; number], vec![0; number]);
        let mut longest_us: Vec<u64> =
            tree.points.iter().map(|point| point.duration_us.unwrap_or(0)).collect();
        // Every point comes after the one around it.
        for index in (0..number).rev() {
            if folds {
                let distinct: BTreeSet<u64> = children[index].iter().map(|&child| shapes[child]).collect();
                shapes[index] = hash(&(kinds[index], distinct));
            }
            for &child in &children[index] {
                below[index] += below[child] + 1;
                longest_us[index] = longest_us[index].max(longest_us[child]);
                needed[index] |= needed[child];
                alone[index] |= alone[child];
            }
        }
        let whole_us = tree.length_us();
        Self { tree, folds, children, later, kinds, shapes, below, longest_us, needed, alone, whole_us }
    }

    fn rows(self) -> FoldedTrace {
        let mut rows: Vec<FoldedRow> = Vec::new();
        let mut seen: HashMap<u64, usize> = HashMap::new();
        let is_root = |index: &usize| self.tree.points[*index].parent.is_none();
        let roots: Vec<usize> = (0..self.tree.points.len()).filter(is_root).collect();
        let later = self.later.iter().map(|(later, tops)| (tops.clone(), Some(*later)));
        for (tops, later) in std::iter::once((roots, None)).chain(later) {
            let mut waiting = self.drafts(tops, ALIKE_MIN, 0, None, later);
            waiting.reverse();
            while let Some(mut draft) = waiting.pop() {
                let is_closed = matches!(draft.kind, RowKind::Small { .. }) || self.is_small(draft.outer());
                let at = rows.len();
                let earlier = if is_closed { None } else { self.earlier(&draft, &rows, &mut seen, at) };
                if let Some(row) = earlier {
                    draft.kind = RowKind::Repeated { row };
                }
                let is_open = !is_closed && earlier.is_none();
                if is_open {
                    let below =
                        draft.inner().iter().flat_map(|&member| self.children[member].iter().copied());
                    let least = if draft.inner().len() > 1 { 2 } else { ALIKE_MIN };
                    let inner = self.drafts(below.collect(), least, draft.depth + 1, Some(at), later);
                    waiting.extend(inner.into_iter().rev());
                }
                rows.push(self.row(draft, is_open));
            }
        }
        let folded = rows.iter().any(|row| row.members.len() > 1 || row.below > 0);
        FoldedTrace { rows, points: self.tree.points.len(), folded }
    }

    /// The rows of siblings, by start.
    fn drafts(
        &self,
        mut siblings: Vec<usize>,
        alike_min: usize,
        depth: usize,
        parent: Option<usize>,
        later: Option<Later>,
    ) -> Vec<Draft> {
        siblings.sort_by_key(|&index| (self.tree.points[index].start_us, index));
        let groups = if self.folds {
            self.small(self.alike(siblings, alike_min))
        } else {
            siblings.into_iter().map(|one| (RowKind::Point, vec![one])).collect()
        };
        let draft = |(kind, members)| {
            let (kind, members) = self.with_nested(kind, members);
            Draft { kind, is_nested: kind == RowKind::Nested, members, depth, parent, later }
        };
        groups.into_iter().map(draft).collect()
    }

    /// A point with the points of its kind below it, where each is the only one below the one before.
    fn with_nested(&self, kind: RowKind, members: Vec<usize>) -> (RowKind, Vec<usize>) {
        if !self.folds || kind != RowKind::Point {
            return (kind, members);
        }
        let mut chain = members;
        while let Some(&last) = chain.last()
            && let [only] = self.children[last].as_slice()
            && self.kinds[*only] == self.kinds[last]
            && !self.alone[*only]
        {
            chain.push(*only);
        }
        if chain.len() < ALIKE_MIN {
            chain.truncate(1);
            return (kind, chain);
        }
        (RowKind::Nested, chain)
    }

    /// Siblings of one kind together, except for outliers.
    fn alike(&self, siblings: Vec<usize>, alike_min: usize) -> Vec<(RowKind, Vec<usize>)> {
        let mut places: HashMap<u32, usize> = HashMap::new();
        let mut groups: Vec<Vec<usize>> = Vec::new();
        for index in siblings {
            let place = if self.alone[index] {
                groups.len()
            } else {
                *places.entry(self.kinds[index]).or_insert(groups.len())
            };
            if place == groups.len() {
                groups.push(Vec::new());
            }
            groups[place].push(index);
        }
        let mut rows: Vec<(RowKind, Vec<usize>)> = Vec::new();
        for group in groups {
            let (outliers, mut others) = self.outliers(group, alike_min);
            rows.extend(outliers.into_iter().map(|one| (RowKind::Point, vec![one])));
            match others.len() {
                0 => {}
                several if several >= alike_min => rows.push((RowKind::Alike, others)),
                _ => rows.extend(others.drain(..).map(|one| (RowKind::Point, vec![one]))),
            }
        }
        rows.sort_by_key(|(_, members)| (self.tree.points[members[0]].start_us, members[0]));
        rows
    }

    /// The points that are far longer than the others of their kind, and the others.
    fn outliers(&self, group: Vec<usize>, alike_min: usize) -> (Vec<usize>, Vec<usize>) {
        if group.len() < alike_min {
            return (Vec::new(), group);
        }
        let took = |index: usize| self.tree.points[index].duration_us.unwrap_or(0);
        let mut times: Vec<u64> = group.iter().map(|&index| took(index)).collect();
        times.sort_unstable();
        let median = times[times.len() / 2];
        let least = (self.whole_us / OUTLIER_PART).max(median.saturating_mul(OUTLIER_TIMES)).max(1);
        group.into_iter().partition(|&index| took(index) >= least)
    }

    /// Joins the rows that took little, the longest of them only while all take little together.
    fn small(&self, rows: Vec<(RowKind, Vec<usize>)>) -> Vec<(RowKind, Vec<usize>)> {
        let mut small: Vec<usize> = (0..rows.len()).filter(|&at| self.is_small(&rows[at].1)).collect();
        small.sort_by_key(|&at| (self.sum_us(&rows[at].1), at));
        let mut together_us = 0_u64;
        small.retain(|&at| {
            together_us = together_us.saturating_add(self.sum_us(&rows[at].1));
            together_us <= self.whole_us / SMALL_TOGETHER_PART
        });
        if small.len() < 2 {
            return rows;
        }
        let mut is_small = vec![false; rows.len()];
        small.iter().for_each(|&at| is_small[at] = true);
        let (mut kept, mut place, mut joined) = (Vec::new(), None, Vec::new());
        for ((kind, members), is_small) in rows.into_iter().zip(is_small) {
            if is_small {
                place.get_or_insert(kept.len());
                joined.extend(members);
            } else {
                kept.push((kind, members));
            }
        }
        let mut kinds: Vec<u32> = joined.iter().map(|&index| self.kinds[index]).collect();
        kinds.sort_unstable();
        kinds.dedup();
        joined.sort_by_key(|&index| (self.tree.points[index].start_us, index));
        let kind = if kinds.len() == 1 { RowKind::Alike } else { RowKind::Small { kinds: kinds.len() } };
        kept.insert(place.unwrap_or(0), (kind, joined));
        kept
    }

    fn is_small(&self, members: &[usize]) -> bool {
        self.folds
            && self.tree.points.len() > POINTS_ON_A_SCREEN
            && !members.iter().any(|&index| self.needed[index])
            && members.iter().fold(0, |sum_us: u64, &index| sum_us.saturating_add(self.longest_us[index]))
                < self.whole_us / SMALL_PART
    }

    fn sum_us(&self, members: &[usize]) -> u64 {
        let took = members.iter().map(|&index| self.tree.points[index].duration_us.unwrap_or(0));
        took.fold(0, u64::saturating_add)
    }

    /// An earlier row with the same kinds of points below.
    fn earlier(
        &self,
        draft: &Draft,
        rows: &[FoldedRow],
        seen: &mut HashMap<u64, usize>,
        at: usize,
    ) -> Option<usize> {
        let below: usize = draft.inner().iter().map(|&index| self.below[index]).sum();
        if !self.folds || below < REPEATED_MIN {
            return None;
        }
        let inner = draft.inner().iter().flat_map(|&index| &self.children[index]);
        let distinct: BTreeSet<u64> = inner.map(|&child| self.shapes[child]).collect();
        let shape = hash(&(self.kinds[draft.members[0]], distinct));
        let Some(&row) = seen.get(&shape) else {
            seen.insert(shape, at);
            return None;
        };
        let each = |sum_us: u64, members: usize| sum_us / members.max(1) as u64;
        let of_earlier = each(rows[row].sum_us.unwrap_or(0), rows[row].members.len());
        let of_this = each(self.sum_us(draft.outer()), draft.members.len());
        let is_needed = draft.members.iter().any(|&index| self.needed[index]);
        let is_much_longer = of_this > of_earlier.saturating_mul(REPEATED_TIMES).max(self.whole_us / 20);
        (!is_needed && !is_much_longer).then_some(row)
    }

    fn row(&self, draft: Draft, is_open: bool) -> FoldedRow {
        let sum_us = self.sum_us(draft.outer());
        let below = if is_open { 0 } else { draft.inner().iter().map(|&index| self.below[index]).sum() };
        let Draft { kind, members, depth, parent, later, .. } = draft;
        let points = || members.iter().map(|&index| &self.tree.points[index]);
        let took = |index: &usize| self.tree.points[*index].duration_us;
        // Of several that took as long, the first.
        let longest = members.iter().rev().max_by_key(|index| took(index)).copied().unwrap_or(0);
        FoldedRow {
            depth,
            parent,
            kind,
            longest,
            sum_us: took(&longest).map(|_| sum_us),
            own_us: points().map(|point| point.self_us.unwrap_or(0)).fold(0, u64::saturating_add),
            start_us: points().map(|point| point.start_us).min().unwrap_or(0),
            end_us: points().map(end_us).max().unwrap_or(0),
            below,
            afterwards: later.is_some(),
            poll: later.and_then(|later| later.poll),
            began_in: self.tree.points[longest].parent.filter(|_| later.is_some() && parent.is_none()),
            members,
        }
    }
}

fn end_us(point: &Point) -> u64 {
    point.end_us().unwrap_or(point.start_us)
}

fn hash(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// A number for each kind of point: the reporter, what it did, how it failed, and whether its times are known.
fn kinds(tree: &TraceTree) -> Vec<u32> {
    let mut numbers: HashMap<u64, u32> = HashMap::new();
    let kind = |point: &Point| {
        let error = point.error.as_ref().map(|error| &error.etype);
        let what = (point.reporter(), statement::name_and_kind(point), error, point.duration_us.is_some());
        let next = u32::try_from(numbers.len()).unwrap_or(u32::MAX);
        *numbers.entry(hash(&what)).or_insert(next)
    };
    tree.points.iter().map(kind).collect()
}

/// The children of each point that the answer waited for, and where something begins that goes on after it.
fn parts(tree: &TraceTree) -> (Vec<Vec<usize>>, BTreeMap<Later, Vec<usize>>) {
    let waited = waited(tree, &[]);
    let mut is_later = vec![false; tree.points.len()];
    // What a poll waited for has parts that it waited for, too.
    let mut polls: Vec<Option<usize>> = vec![None; tree.points.len()];
    let mut children = vec![Vec::new(); tree.points.len()];
    let mut later: BTreeMap<Later, Vec<usize>> = BTreeMap::new();
    for (index, point) in tree.points.iter().enumerate() {
        let Some(above) = point.parent.filter(|&above| above < index) else { continue };
        polls[index] = waited[index].poll.or(polls[above]).filter(|_| waited[index].part.is_some());
        let goes_on = waited[index].part.is_none() || outlives(point, &tree.points[above]);
        is_later[index] = is_later[above] || goes_on;
        if goes_on && !is_later[above] {
            let poll = polls[index];
            later.entry(Later { is_unawaited: poll.is_none(), poll }).or_default().push(index);
        } else {
            children[above].push(index);
        }
    }
    (children, later)
}

/// True for a part that its caller cannot have waited for, on whatever host: it lasts longer, or begins after it by more
/// than clocks differ.
fn outlives(point: &Point, parent: &Point) -> bool {
    let (Some(took_us), Some(end_of_parent_us)) = (point.duration_us, parent.end_us()) else { return false };
    let of_parent_us = parent.duration_us.unwrap_or(u64::MAX);
    let is_longer = took_us > of_parent_us.saturating_add(LONGER_US.max(of_parent_us / 10));
    let is_after = point.start_us > end_of_parent_us.saturating_add(CLOCKS_DIFFER_US);
    (is_longer && end_us(point) > end_of_parent_us) || is_after
}

/// The beginning of a name that is too long, with the name's size where that is large: `wsgi… (1.0 MiB)`.
#[must_use]
pub fn cut_name(name: &str, chars_max: usize) -> String {
    // Four bytes a character at most: what is longer need not be read to its end.
    let Some((end, _)) = name.char_indices().nth(chars_max) else { return name.to_owned() };
    let size = match name.len() {
        0..1_024 => String::new(),
        bytes @ ..1_048_576 => format!(" ({} KiB)", bytes / 1_024),
        bytes => format!(" ({:.1} MiB)", bytes as f64 / 1_048_576.0),
    };
    let room = chars_max.saturating_sub(size.len() + 1);
    let end = name[..end].char_indices().nth(room).map_or(end, |(at, _)| at);
    format!("{}…{size}", &name[..end])
}

#[cfg(test)]
mod tests;
