//! The points of a trace with everything below them: the time of each kind's whole calls on the critical path.
//!
//! Nothing here may compare.

use std::collections::HashMap;

use osprofiler::report::TraceTree;

/// The points of one kind in a trace, each with everything below it. Of points of a kind within each other, only the
/// outermost counts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WholeCalls {
    /// The kind's number.
    pub kind: usize,
    /// The time of its points and of everything below them on the critical path.
    pub us: f64,
    /// The same of durations without children's.
    pub self_us: f64,
    /// The number of points.
    pub calls: f64,
}

/// The whole calls of a trace, of the kind of each of its points, and the exclusive and own time of each.
pub(super) fn of_trace(tree: &TraceTree, kind_of: &[usize], times_us: &[(u64, u64)]) -> Vec<WholeCalls> {
    let mut sums: Vec<(f64, f64)> = times_us.iter().map(|&(us, own)| (us as f64, own as f64)).collect();
    for index in (1..sums.len()).rev() {
        if let Some(parent) = tree.points[index].parent.filter(|&parent| parent < index) {
            let (us, own_us) = sums[index];
            sums[parent] = (sums[parent].0 + us, sums[parent].1 + own_us);
        }
    }
    let mut found: Vec<WholeCalls> = Vec::new();
    let mut at: HashMap<usize, usize> = HashMap::new();
    each_with_open(tree, kind_of, |index, open| {
        let kind = kind_of[index];
        if open.contains_key(&kind) {
            return;
        }
        let place = *at.entry(kind).or_insert_with(|| {
            found.push(WholeCalls { kind, us: 0.0, self_us: 0.0, calls: 0.0 });
            found.len() - 1
        });
        found[place].us += sums[index].0;
        found[place].self_us += sums[index].1;
        found[place].calls += 1.0;
    });
    found
}

/// Visits each point with the kinds of the points above it, and how many of each there are.
pub(super) fn each_with_open(
    tree: &TraceTree,
    kind_of: &[usize],
    mut visit: impl FnMut(usize, &HashMap<usize, usize>),
) {
    let mut above: Vec<usize> = Vec::new();
    let mut open: HashMap<usize, usize> = HashMap::new();
    for (index, point) in tree.points.iter().enumerate().take(kind_of.len()) {
        while let Some(&last) = above.last()
            && point.parent != Some(last)
        {
            above.pop();
            if let Some(number) = open.get_mut(&kind_of[last]) {
                *number -= 1;
                if *number == 0 {
                    open.remove(&kind_of[last]);
                }
            }
        }
        visit(index, &open);
        above.push(index);
        *open.entry(kind_of[index]).or_default() += 1;
    }
}
