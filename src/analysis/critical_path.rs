//! The critical path through a tree of spans: the exclusive time of each span.
//!
//! The walk goes back from the end of each span. The child that ended last before the walk's position is the one
//! that the span waited for. Gaps and the remainder belong to the span itself. This is the rule of Jaeger's critical
//! path and of CRISP. Unlike there, a child that was still running when the next one began is not skipped: it counts
//! until that moment, whether both ran in parallel or the clocks of two hosts differ. The times of all spans add up to
//! the root's duration exactly, for any tree, because children are clamped to their parents first. Nothing here may
//! recurse: trees come from outside.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// One span of a tree. Parents come before their children, the root first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Its parent's index; `None` for the root only.
    pub parent: Option<usize>,
    /// Its start, on any clock that all spans share.
    pub start_us: i64,
    /// Its end, not before its start.
    pub end_us: i64,
}

/// The exclusive time of a span, by where in the span it lies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Own {
    /// Of a span without children: all of it.
    pub alone_us: u64,
    /// Before the first child that was waited for.
    pub before_us: u64,
    /// Between two children.
    pub between_us: u64,
    /// After the last child.
    pub after_us: u64,
}

impl Own {
    #[must_use]
    pub fn us(&self) -> u64 {
        self.alone_us + self.before_us + self.between_us + self.after_us
    }
}

/// The exclusive time of each span on the critical path. The times add up to the root's duration.
#[must_use]
pub fn exclusive(spans: &[Span]) -> Vec<Own> {
    let mut own = vec![Own::default(); spans.len()];
    if spans.is_empty() {
        return own;
    }
    let spans = clamped(spans);
    let mut children = vec![Vec::new(); spans.len()];
    for (index, span) in spans.iter().enumerate() {
        if let Some(parent) = span.parent {
            children[parent].push(index);
        }
    }
    let is_leaf: Vec<bool> = children.iter().map(Vec::is_empty).collect();
    for list in &mut children {
        // The last to end first; of those that end together the longest was waited for, and of two of the same times
        // the one with children, which says more. The order in which they were reported must not matter.
        list.sort_by_key(|&child| (Reverse(spans[child].end_us), spans[child].start_us, is_leaf[child]));
    }
    // Each entry is a span and the time from which the walk goes back in it.
    let mut waiting = vec![(0, spans[0].end_us)];
    while let Some((index, from_us)) = waiting.pop() {
        let mut at_us = from_us;
        let mut below =
            ChildCursor { spans: &spans, is_leaf: &is_leaf, rest: &children[index], open: BinaryHeap::new() };
        let mut has_waited = false;
        while let Some(child) = below.before(at_us) {
            let end_us = spans[child].end_us.min(at_us);
            let gap_us = at_us.abs_diff(end_us);
            if has_waited {
                own[index].between_us += gap_us;
            } else {
                own[index].after_us += gap_us;
            }
            has_waited = true;
            waiting.push((child, end_us));
            at_us = spans[child].start_us;
        }
        let first_us = at_us.abs_diff(spans[index].start_us);
        if children[index].is_empty() {
            own[index].alone_us += first_us;
        } else {
            own[index].before_us += first_us;
        }
    }
    own
}

/// The start and end of an open child, whether it is a leaf, and its index: children are taken in this order.
type OpenChild = (i64, Reverse<i64>, bool, usize);

/// A span's children, in the order of the walk.
struct ChildCursor<'a> {
    spans: &'a [Span],
    is_leaf: &'a [bool],
    /// Those that ended before the walk's position, the last to end first.
    rest: &'a [usize],
    /// Those that were open there, by their start; ties as for those that ended together.
    open: BinaryHeap<Reverse<OpenChild>>,
}

impl ChildCursor<'_> {
    /// The child that the span waited for before `at_us`: the first to begin of those open then, else the last that
    /// had ended.
    fn before(&mut self, at_us: i64) -> Option<usize> {
        while let Some((&child, rest)) = self.rest.split_first()
            && self.spans[child].end_us >= at_us
        {
            let Span { start_us, end_us, .. } = self.spans[child];
            self.open.push(Reverse((start_us, Reverse(end_us), self.is_leaf[child], child)));
            self.rest = rest;
        }
        if let Some(Reverse((start_us, _, _, child))) = self.open.pop()
            && start_us < at_us
        {
            return Some(child);
        }
        // The other open children did not begin earlier.
        self.open.clear();
        let (&child, rest) = self.rest.split_first()?;
        self.rest = rest;
        (self.spans[child].start_us < at_us).then_some(child)
    }
}

/// The duration of each span minus the sum of its children's, at least 0. Clock skew between hosts does not affect it.
#[must_use]
pub fn duration_only_self_us(spans: &[Span]) -> Vec<u64> {
    // Times come from outside: the sum of the children may overflow.
    let length_us = |span: &Span| span.end_us.saturating_sub(span.start_us);
    let mut own: Vec<i64> = spans.iter().map(length_us).collect();
    for span in spans {
        if let Some(parent) = span.parent {
            own[parent] = own[parent].saturating_sub(length_us(span));
        }
    }
    own.into_iter().map(|us| us.max(0).unsigned_abs()).collect()
}

/// The spans with every child inside its parent.
fn clamped(spans: &[Span]) -> Vec<Span> {
    let mut inside: Vec<Span> = Vec::with_capacity(spans.len());
    for (index, span) in spans.iter().enumerate() {
        let bounds = span.parent.filter(|&parent| parent < index).map(|parent| inside[parent]);
        let (low, high) = bounds.map_or((i64::MIN, i64::MAX), |parent| (parent.start_us, parent.end_us));
        let start_us = span.start_us.clamp(low, high);
        let end_us = span.end_us.clamp(start_us, high.max(start_us));
        let parent =
            if index == 0 { None } else { Some(span.parent.filter(|&parent| parent < index).unwrap_or(0)) };
        inside.push(Span { parent, start_us, end_us });
    }
    inside
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn exclusive_us(spans: &[Span]) -> Vec<u64> {
        exclusive(spans).iter().map(Own::us).collect()
    }

    /// Before, between and after the children; a child off the path, or without a length, divides nothing.
    #[test]
    fn own_time_lies_before_between_or_after_the_children() {
        let own =
            |alone_us, before_us, between_us, after_us| Own { alone_us, before_us, between_us, after_us };
        let root = span(None, 0, 100);
        for (what, below, expected) in [
            ("a leaf", vec![], own(100, 0, 0, 0)),
            ("one child", vec![span(Some(0), 20, 90)], own(0, 20, 0, 10)),
            ("two", vec![span(Some(0), 20, 40), span(Some(0), 70, 95)], own(0, 20, 30, 5)),
            ("two at once", vec![span(Some(0), 20, 40), span(Some(0), 20, 90)], own(0, 20, 0, 10)),
            (
                "one that overlaps the next",
                vec![span(Some(0), 20, 60), span(Some(0), 50, 90)],
                own(0, 20, 0, 10),
            ),
            ("an instant", vec![span(Some(0), 20, 20)], own(0, 20, 0, 80)),
            ("all covered", vec![span(Some(0), 0, 100)], own(0, 0, 0, 0)),
            ("beyond its parent", vec![span(Some(0), -50, 60)], own(0, 0, 0, 40)),
        ] {
            let spans: Vec<Span> = std::iter::once(root).chain(below).collect();
            assert_eq!(exclusive(&spans)[0], expected, "{what}");
        }
    }

    fn span(parent: Option<usize>, start_us: i64, end_us: i64) -> Span {
        Span { parent, start_us, end_us }
    }

    #[test]
    fn the_child_that_was_waited_for_counts() {
        for (what, spans, expected) in [
            ("a leaf", vec![span(None, 0, 100)], vec![100]),
            ("one child", vec![span(None, 0, 100), span(Some(0), 20, 90)], vec![30, 70]),
            (
                "of two parallel children the last to end",
                vec![span(None, 0, 100), span(Some(0), 10, 50), span(Some(0), 10, 90)],
                vec![20, 0, 80],
            ),
            (
                "one after the other",
                vec![span(None, 0, 100), span(Some(0), 0, 50), span(Some(0), 50, 100)],
                vec![0, 50, 50],
            ),
            (
                "an overlap smaller than the clocks' precision",
                vec![span(None, 0, 1000), span(Some(0), 0, 505), span(Some(0), 500, 1000)],
                vec![0, 500, 500],
            ),
            (
                "a child beyond its parent is clamped",
                vec![span(None, 0, 100), span(Some(0), -50, 500), span(Some(1), 90, 400)],
                vec![0, 90, 10],
            ),
            (
                "work beside the path has slack",
                vec![span(None, 0, 100), span(Some(0), 0, 40), span(Some(0), 0, 95), span(Some(1), 0, 40)],
                vec![5, 0, 95, 0],
            ),
            (
                "a child that overlaps the next, until the next begins",
                vec![span(None, 0, 100), span(Some(0), 10, 60), span(Some(0), 40, 90)],
                vec![20, 30, 50],
            ),
            (
                "of several open children the first to begin",
                vec![span(None, 0, 100), span(Some(0), 0, 60), span(Some(0), 20, 50), span(Some(0), 30, 100)],
                vec![0, 30, 0, 70],
            ),
            (
                "of two that begin together the longer, in either order",
                vec![
                    span(None, 0, 100),
                    span(Some(0), 10, 30),
                    span(Some(0), 10, 50),
                    span(Some(0), 20, 100),
                ],
                vec![10, 0, 10, 80],
            ),
            (
                "of two of the same times the one with a child",
                vec![span(None, 0, 100), span(Some(0), 0, 100), span(Some(0), 0, 100), span(Some(2), 0, 60)],
                vec![0, 0, 40, 60],
            ),
            ("nothing", vec![], vec![]),
            ("an instant", vec![span(None, 5, 5), span(Some(0), 5, 5)], vec![0, 0]),
        ] {
            assert_eq!(exclusive_us(&spans), expected, "{what}");
        }
    }

    fn trees() -> impl Strategy<Value = Vec<Span>> {
        prop::collection::vec((any::<prop::sample::Index>(), 0..1_000_i64, 0..1_000_i64), 1..60).prop_map(
            |rows| {
                let mut spans = vec![span(None, 0, 1_000)];
                for (number, (parent, start_us, length_us)) in rows.into_iter().enumerate() {
                    spans.push(span(Some(parent.index(number + 1)), start_us, start_us + length_us));
                }
                spans
            },
        )
    }

    proptest! {
        #[test]
        fn sections_sum_to_the_whole(spans in trees()) {
            prop_assert_eq!(exclusive_us(&spans).iter().sum::<u64>(), 1_000);
        }

        #[test]
        fn no_times_make_it_panic(rows in prop::collection::vec((any::<i64>(), any::<i64>()), 1..30)) {
            let mut spans = vec![span(None, i64::MIN, i64::MAX)];
            spans.extend(rows.into_iter().map(|(one, other)| span(Some(0), one.min(other), one.max(other))));
            prop_assert_eq!(exclusive_us(&spans).len(), spans.len());
            prop_assert_eq!(duration_only_self_us(&spans).len(), spans.len());
        }

        #[test]
        fn moving_all_clocks_changes_nothing(spans in trees(), shift in -1_000_000..1_000_000_i64) {
            let moved: Vec<Span> =
                spans.iter().map(|s| span(s.parent, s.start_us + shift, s.end_us + shift)).collect();
            prop_assert_eq!(exclusive_us(&moved), exclusive_us(&spans));
        }

        #[test]
        fn the_order_of_siblings_changes_nothing(spans in trees(), seed: u64) {
            // The same tree, with the root's leaves after all other spans and shuffled.
            let mut leaves: Vec<usize> = (1..spans.len())
                .filter(|&index| spans[index].parent == Some(0) && !spans.iter().any(|s| s.parent == Some(index)))
                .collect();
            fastrand::Rng::with_seed(seed).shuffle(&mut leaves);
            let kept: Vec<usize> = (0..spans.len()).filter(|index| !leaves.contains(index)).collect();
            let order: Vec<usize> = kept.iter().chain(&leaves).copied().collect();
            let place = |old: usize| order.iter().position(|&index| index == old).unwrap();
            let other: Vec<Span> =
                order.iter().map(|&index| Span { parent: spans[index].parent.map(place), ..spans[index] }).collect();
            let (one, two) = (exclusive_us(&spans), exclusive_us(&other));
            // What a child does beyond its parent counts for nothing, so it tells none apart.
            let (spans, other) = (clamped(&spans), clamped(&other));
            let alike = |index: usize, of: &[Span], own: &[u64]| (of[index].start_us, of[index].end_us, own[index]);
            let mut one: Vec<_> = (0..one.len()).map(|index| alike(index, &spans, &one)).collect();
            let mut two: Vec<_> = (0..two.len()).map(|index| alike(index, &other, &two)).collect();
            one.sort_unstable();
            two.sort_unstable();
            prop_assert_eq!(one, two);
        }
    }
}
