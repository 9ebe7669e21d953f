//! The mean trees of slow and of typical iterations, which a differential flame graph draws.
//!
//! Points of one kind under the same path of kinds are one node. Its time is the mean over all iterations of a side;
//! an iteration without such points counts as 0. Times are durations, so parallel children can add up to more than
//! their parent; points that nothing waited for have no time of their own. Hostile traces can have any number of kinds
//! at any depth, so both are bounded; points beyond a bound are left out with all points below them. Nothing here may
//! fetch or print.

use std::collections::HashMap;

use super::{asynchronous, statement};
use osprofiler::report::{Point, TraceTree, reporter};
use results::model::ComparedNode;

/// At most this many nodes go to the results: the longest, with all nodes above them.
const SHOWN_MAX: usize = 300;
/// At most this many distinct nodes.
const NODES_MAX: usize = 20_000;
const DEPTH_MAX: u32 = 48;

/// The reporting project and service, the point's name and its detail.
type Key<'a> = [&'a str; 4];

struct Node<'a> {
    parent: Option<usize>,
    depth: u32,
    key: Key<'a>,
    /// For slow and for typical iterations.
    sums_us: [f64; 2],
    self_us: [f64; 2],
    calls: [f64; 2],
    /// The sum of its points' starts on both sides, to order siblings.
    starts_us: f64,
}

impl Node<'_> {
    fn start_us(&self) -> f64 {
        self.starts_us / (self.calls[0] + self.calls[1]).max(1.0)
    }
}

/// The mean tree of both sides, depth first, siblings by start. Expects complete traces only.
#[must_use]
pub fn mean_tree(slow: &[&TraceTree], typical: &[&TraceTree]) -> Vec<ComparedNode> {
    let nodes = merged(slow, typical);
    let (slow_count, typical_count) = (float(slow.len().max(1)), float(typical.len().max(1)));
    let node = |index: usize| {
        let Node { depth, key: [project, service, name, detail], sums_us, self_us, calls, .. } =
            &nodes[index];
        ComparedNode {
            depth: *depth,
            service: reporter(project, service),
            name: (*name).to_owned(),
            detail: (*detail).to_owned(),
            slow_ms: sums_us[0] / slow_count / 1e3,
            typical_ms: sums_us[1] / typical_count / 1e3,
            slow_self_ms: self_us[0] / slow_count / 1e3,
            typical_self_ms: self_us[1] / typical_count / 1e3,
            slow_calls: calls[0] / slow_count,
            typical_calls: calls[1] / typical_count,
        }
    };
    let weights: Vec<f64> = nodes
        .iter()
        .map(|node| (node.sums_us[0] / slow_count).max(node.sums_us[1] / typical_count))
        .collect();
    let shown = longest(&nodes, &weights);
    depth_first(&nodes, &shown).into_iter().map(node).collect()
}

fn merged<'a>(slow: &[&'a TraceTree], typical: &[&'a TraceTree]) -> Vec<Node<'a>> {
    let mut nodes: Vec<Node<'a>> = Vec::new();
    let mut known: HashMap<(Option<usize>, Key<'a>), usize> = HashMap::new();
    let sides = slow.iter().map(|tree| (0, *tree)).chain(typical.iter().map(|tree| (1, *tree)));
    for (side, tree) in sides {
        // The node of each point of this trace; `None` for points that are left out.
        let mut places: Vec<Option<usize>> = Vec::with_capacity(tree.points.len());
        let own_us = asynchronous::own_us(tree, &asynchronous::awaited(tree));
        for (index, point) in tree.points.iter().enumerate() {
            // A service's point without a known parent counts below the client's root.
            let above = point.parent.filter(|&above| above < index).or((index > 0).then_some(0));
            let parent = above.map(|above| places[above]);
            let depth = parent.flatten().map_or(0, |parent| nodes[parent].depth + 1);
            if parent == Some(None) || depth > DEPTH_MAX {
                places.push(None);
                continue;
            }
            let (parent, key) = (parent.flatten(), key(point));
            let place = known.get(&(parent, key)).copied().or_else(|| {
                (nodes.len() < NODES_MAX).then(|| {
                    known.insert((parent, key), nodes.len());
                    nodes.push(Node {
                        parent,
                        depth,
                        key,
                        sums_us: [0.0; 2],
                        self_us: [0.0; 2],
                        calls: [0.0; 2],
                        starts_us: 0.0,
                    });
                    nodes.len() - 1
                })
            });
            places.push(place);
            if let Some(node) = place.map(|place| &mut nodes[place]) {
                node.sums_us[side] += us(point.duration_us.unwrap_or(0));
                node.self_us[side] += us(own_us[index]);
                node.calls[side] += 1.0;
                node.starts_us += us(point.start_us);
            }
        }
    }
    nodes
}

fn key(point: &Point) -> Key<'_> {
    let (project, service) = (point.project.as_deref(), point.service.as_deref());
    [project.unwrap_or_default(), service.unwrap_or_default(), &point.name, statement::kind(point)]
}

/// The nodes to show: the longest, with all nodes above them.
fn longest(nodes: &[Node<'_>], weights: &[f64]) -> Vec<bool> {
    let mut order: Vec<usize> = (0..nodes.len()).collect();
    order.sort_by(|&one, &other| weights[other].total_cmp(&weights[one]).then(one.cmp(&other)));
    let mut shown = vec![false; nodes.len()];
    let mut room = SHOWN_MAX;
    for index in order {
        let above: Vec<usize> =
            std::iter::successors(Some(index), |&at| nodes[at].parent).take_while(|&at| !shown[at]).collect();
        if above.len() <= room {
            room -= above.len();
            above.into_iter().for_each(|at| shown[at] = true);
        }
    }
    shown
}

fn depth_first(nodes: &[Node<'_>], shown: &[bool]) -> Vec<usize> {
    let mut children: Vec<Vec<usize>> = vec![Vec::new(); nodes.len()];
    let mut open: Vec<usize> = Vec::new();
    for index in (0..nodes.len()).filter(|&index| shown[index]) {
        match nodes[index].parent {
            Some(parent) => children[parent].push(index),
            None => open.push(index),
        }
    }
    let by_start = |list: &mut Vec<usize>| {
        list.sort_by(|&one, &other| {
            nodes[one].start_us().total_cmp(&nodes[other].start_us()).then(one.cmp(&other))
        });
        list.reverse();
    };
    by_start(&mut open);
    children.iter_mut().for_each(by_start);
    let mut order = Vec::new();
    while let Some(index) = open.pop() {
        order.push(index);
        open.append(&mut children[index]);
    }
    order
}

/// The share of the whole difference that each node explains by the time that no child covers.
#[must_use]
pub fn own_shares(tree: &[ComparedNode]) -> Vec<f64> {
    let gap_ms = tree.first().map_or(0.0, |root| root.slow_ms - root.typical_ms);
    let share = |node: &ComparedNode| {
        if gap_ms > 0.0 { (node.slow_self_ms - node.typical_self_ms) / gap_ms } else { 0.0 }
    };
    tree.iter().map(share).collect()
}

fn float(number: usize) -> f64 {
    number as f64
}

fn us(us: u64) -> f64 {
    us as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use osprofiler::record::{Info, TraceRecord};
    use proptest::prelude::*;

    /// A trace of points (id, parent, name, start, end), in microseconds; id 0 is the base.
    fn tree(points: &[(u32, u32, &str, u32, u32)]) -> TraceTree {
        let record = |id: u32, parent: u32, name: String, at_us: u32| TraceRecord {
            name: name.into(),
            base_id: "0".into(),
            trace_id: id.to_string().into(),
            parent_id: parent.to_string().into(),
            timestamp: format!("2026-11-20T22:52:{:02}.{:06}", at_us / 1_000_000 % 60, at_us % 1_000_000)
                .into(),
            info: Info::new().into(),
            project: Some("p".into()),
            service: Some("s".into()),
        };
        let records: Vec<TraceRecord> = points
            .iter()
            .flat_map(|&(id, parent, name, from, to)| {
                [
                    record(id, parent, format!("{name}-start"), from),
                    record(id, parent, format!("{name}-stop"), to),
                ]
            })
            .collect();
        TraceTree::build(&records)
    }

    #[test]
    fn means_are_over_all_iterations_of_a_side() {
        let slow = [
            tree(&[(1, 0, "iteration", 0, 9_000), (2, 1, "db", 1_000, 4_000), (3, 1, "db", 5_000, 8_000)]),
            tree(&[(1, 0, "iteration", 0, 3_000), (2, 1, "rpc", 1_000, 2_000)]),
        ];
        let typical = [tree(&[(1, 0, "iteration", 0, 2_000), (2, 1, "db", 1_000, 1_500)])];
        let nodes = mean_tree(&slow.iter().collect::<Vec<_>>(), &typical.iter().collect::<Vec<_>>());
        let short: Vec<_> = nodes
            .iter()
            .map(|n| (n.depth, n.name.as_str(), n.slow_ms, n.typical_ms, n.slow_calls, n.typical_calls))
            .collect();
        assert_eq!(
            short,
            [
                (0, "iteration", 6.0, 2.0, 1.0, 1.0),
                (1, "rpc", 0.5, 0.0, 0.5, 0.0),
                (1, "db", 3.0, 0.5, 1.0, 1.0),
            ]
        );
        let shares = own_shares(&nodes);
        assert_eq!(shares, [0.25, 0.125, 0.625]);
        assert!(mean_tree(&[], &[]).is_empty());
    }

    #[test]
    fn the_shortest_nodes_are_left_out_first() {
        let mut points = vec![(1, 0, "iteration".to_owned(), 0, 900_000)];
        points.extend((2..2_000).map(|id| (id, 1, format!("kind {id}"), id, 2 * id)));
        let points: Vec<_> = points
            .iter()
            .map(|(id, parent, name, from, to)| (*id, *parent, name.as_str(), *from, *to))
            .collect();
        let nodes = mean_tree(&[&tree(&points)], &[]);
        assert_eq!(nodes.len(), SHOWN_MAX);
        assert!(
            nodes.iter().any(|node| node.name == "kind 1999")
                && nodes.iter().all(|node| node.name != "kind 2")
        );
    }

    proptest! {
        #[test]
        fn any_trace_gives_a_tree_in_depth_first_order(points in prop::collection::vec((1_u32..60, 0_u32..60, 0_usize..4, 0_u32..1000, 0_u32..1000), 0..60)) {
            let points: Vec<_> = points.iter().map(|(id, parent, name, from, length)| (*id, *parent, ["a", "b", "c", "d"][*name], *from, from + length)).collect();
            let trace = tree(&points);
            let nodes = mean_tree(&[&trace], &[&trace]);
            let mut depth = -1_i64;
            for node in &nodes {
                prop_assert!(i64::from(node.depth) <= depth + 1);
                depth = i64::from(node.depth);
                prop_assert_eq!(node.slow_ms, node.typical_ms);
            }
            prop_assert_eq!(nodes.is_empty(), trace.points.is_empty());
        }
    }
}
