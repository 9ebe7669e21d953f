//! Which function makes a kind of point slower in slow iterations than in typical ones.
//!
//! For each iteration: samples in the function, in points of the cause. Their processor time is compared with how much
//! longer these points took by themselves, so a function is not accused of time that was spent waiting. A function must
//! explain a fifth of that with 95 % confidence (bootstrap over iterations), from enough samples. Functions of Rust's
//! standard library count as work of their callers. Nothing here may write text.

use std::collections::{BTreeMap, HashSet};

use osprofiler::functions::model::{FunctionProfile, SAMPLES_MIN};
use results::functions::Functions;
use results::model::{ComparedFunction, ComparedFunctions, FunctionNode};
use statistics::order::at_percentile;

/// A function is named if its share is certainly at least this.
const SHARE_MIN: f64 = 0.2;
/// While one callee has at least this part of the difference, the callee is the better name.
const MAIN_MIN: f64 = 0.5;
const RESAMPLES: usize = 2_000;
/// The size of the tree in the results.
const NODES_MAX: usize = 400;
const DEPTH_MAX: usize = 64;
/// Calls with a smaller part of the larger side are not in the tree.
const PART_MIN: f64 = 0.005;
/// How the paths of functions that all programs use begin.
const LIBRARIES: [&str; 3] = ["core::", "std::", "alloc::"];

/// An iteration: the functions that were reported with it, the points that matter, and how long they took.
pub(super) struct Iteration<'a> {
    pub(super) functions: &'a Functions,
    /// The ids of the cause's points.
    pub(super) points: HashSet<&'a str>,
    /// How long these took by themselves.
    pub(super) self_ms: f64,
}

/// A call and what is below it, in milliseconds of processor time of an iteration.
#[derive(Default)]
struct Node {
    slow_ms: f64,
    typical_ms: f64,
    children: BTreeMap<String, Node>,
}

impl Node {
    fn difference(&self) -> f64 {
        self.slow_ms - self.typical_ms
    }

    fn size(&self) -> f64 {
        self.slow_ms.max(self.typical_ms)
    }
}

/// Compares the functions of slow and of typical iterations; `None` without any. The same `seed` gives the same bounds.
pub(super) fn compare(
    slow: &[Iteration<'_>],
    typical: &[Iteration<'_>],
    seed: u64,
) -> Option<ComparedFunctions> {
    let all = || slow.iter().chain(typical);
    if slow.is_empty() || typical.is_empty() || all().all(|one| one.functions.profiles.is_empty()) {
        return None;
    }
    // Points that are not polled have no functions of their own: then the iteration's are compared.
    let whole = !all().any(|one| stacks(one, false).next().is_some());
    let mut root = Node::default();
    for one in slow {
        add(&mut root, one, whole, slow.len(), |node, ms| node.slow_ms += ms);
    }
    for one in typical {
        add(&mut root, one, whole, typical.len(), |node, ms| node.typical_ms += ms);
    }
    let count =
        |side: &[Iteration<'_>]| side.iter().flat_map(|one| stacks(one, whole)).map(|one| one.2).sum();
    let (slow_samples, typical_samples): (u64, u64) = (count(slow), count(typical));
    let name = Some(()).filter(|()| slow_samples >= SAMPLES_MIN).and_then(|()| main_function(&root));
    let cause = name.and_then(|name| judge(&name, slow, typical, whole, seed));
    Some(ComparedFunctions {
        slow_samples,
        typical_samples,
        slow_ms: root.slow_ms,
        typical_ms: root.typical_ms,
        whole,
        cause,
        tree: flattened(&root),
    })
}

/// The stacks that matter of an iteration: the profile, the functions from the outermost, and the samples.
fn stacks<'i>(
    one: &'i Iteration<'_>,
    whole: bool,
) -> impl Iterator<Item = (&'i FunctionProfile, &'i [u32], u64)> {
    one.functions.profiles.iter().flat_map(move |profile| {
        let id = |point: u32| profile.points.get(point as usize).map(String::as_str);
        let matters =
            move |point: Option<u32>| whole || point.and_then(id).is_some_and(|id| one.points.contains(id));
        let stacks = profile.stacks.iter().filter(move |stack| matters(stack.point));
        stacks.map(move |stack| (profile, &stack.frames[..], stack.samples))
    })
}

fn ms_of(profile: &FunctionProfile, samples: u64) -> f64 {
    samples as f64 * profile.seconds_per_sample() * 1e3
}

fn add(root: &mut Node, one: &Iteration<'_>, whole: bool, of: usize, add: fn(&mut Node, f64)) {
    for (profile, frames, samples) in stacks(one, whole) {
        let ms = ms_of(profile, samples) / of as f64;
        add(root, ms);
        let mut node = &mut *root;
        for &frame in frames.iter().take(DEPTH_MAX) {
            node = node.children.entry(name_of(profile, frame)).or_default();
            add(node, ms);
        }
    }
}

/// A function's name; the parts that the compiler makes of an `async fn` are one function.
fn name_of(profile: &FunctionProfile, frame: u32) -> String {
    let name = profile.functions.get(frame as usize).map_or("?", |function| function.name.as_str());
    let mut name = name;
    while let Some(outer) = name.strip_suffix("::{{closure}}") {
        name = outer;
    }
    name.to_owned()
}

fn is_library(name: &str) -> bool {
    let bare = name.trim_start_matches(['<', '&', '(', '[', ' ']);
    let implemented = bare.split_once(" as ").map_or("", |(_, of)| of);
    LIBRARIES.iter().any(|path| bare.starts_with(path) || implemented.starts_with(path))
}

/// The function that a stack was at work in, without the standard library's.
pub(super) fn own_function(profile: &FunctionProfile, frames: &[u32]) -> String {
    let names = || frames.iter().rev().map(|&frame| name_of(profile, frame));
    names().find(|name| !is_library(name)).or_else(|| names().next()).unwrap_or_default()
}

/// The innermost function that has most of the difference.
fn main_function(root: &Node) -> Option<String> {
    let all = root.difference();
    let (mut node, mut named) = (root, None);
    while let Some((name, child)) =
        node.children.iter().max_by(|one, other| one.1.difference().total_cmp(&other.1.difference()))
    {
        if child.difference() < MAIN_MIN * all || child.difference() <= 0.0 {
            break;
        }
        if !is_library(name) {
            named = Some(name.clone());
        }
        node = child;
    }
    named
}

/// How much of the difference a function explains; `None` if that is not certain.
fn judge(
    name: &str,
    slow: &[Iteration<'_>],
    typical: &[Iteration<'_>],
    whole: bool,
    seed: u64,
) -> Option<ComparedFunction> {
    let in_it = |side: &[Iteration<'_>]| -> Vec<f64> {
        let of = |one: &Iteration<'_>| {
            let with = stacks(one, whole)
                .filter(|(profile, frames, _)| frames.iter().any(|frame| name_of(profile, *frame) == name));
            with.map(|(profile, _, samples)| ms_of(profile, samples)).sum()
        };
        side.iter().map(of).collect()
    };
    let took = |side: &[Iteration<'_>]| side.iter().map(|one| one.self_ms).collect::<Vec<f64>>();
    let (slow_ms, typical_ms) = (in_it(slow), in_it(typical));
    let (slow_took, typical_took) = (took(slow), took(typical));
    let mut random = fastrand::Rng::with_seed(seed);
    let mut shares = Vec::with_capacity(RESAMPLES);
    for _ in 0..RESAMPLES {
        let rows = |of: usize, random: &mut fastrand::Rng| -> Vec<usize> {
            (0..of).map(|_| random.usize(0..of)).collect()
        };
        let (of_slow, of_typical) = (rows(slow.len(), &mut random), rows(typical.len(), &mut random));
        let difference = |one: &[f64], other: &[f64]| mean(one, &of_slow) - mean(other, &of_typical);
        shares.push(share(difference(&slow_ms, &typical_ms), difference(&slow_took, &typical_took)));
    }
    shares.sort_by(f64::total_cmp);
    let bound = |percent: f64| at_percentile(&shares, percent).unwrap_or(0.0);
    let every = |side: &[Iteration<'_>]| (0..side.len()).collect::<Vec<usize>>();
    let (of_slow, of_typical) = (every(slow), every(typical));
    let (slow_mean, typical_mean) = (mean(&slow_ms, &of_slow), mean(&typical_ms, &of_typical));
    let took = mean(&slow_took, &of_slow) - mean(&typical_took, &of_typical);
    let profiles = slow.iter().flat_map(|one| &one.functions.profiles);
    let known = profiles.flat_map(|profile| {
        let is_it = |frame: &u32| name_of(profile, *frame) == name;
        (0..).take(profile.functions.len()).find(is_it).map(|frame| &profile.functions[frame as usize])
    });
    let place = known.min_by_key(|function| (function.line == 0, function.line));
    let cause = ComparedFunction {
        name: name.to_owned(),
        file: place.map(|function| function.file.clone()).unwrap_or_default(),
        line: place.map_or(0, |function| function.line),
        share: share(slow_mean - typical_mean, took),
        share_low: bound(5.0),
        share_high: bound(95.0),
        slow_ms: slow_mean,
        typical_ms: typical_mean,
    };
    (cause.share_low >= SHARE_MIN).then_some(cause)
}

/// A share of a difference; samples are not exact, so it can seem to be more than all of it.
fn share(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { (part / whole).clamp(0.0, 1.0) } else { 0.0 }
}

fn mean(values: &[f64], rows: &[usize]) -> f64 {
    rows.iter().map(|&row| values[row]).sum::<f64>() / rows.len().max(1) as f64
}

fn flattened(root: &Node) -> Vec<FunctionNode> {
    let least = root.size() * PART_MIN;
    let mut nodes = Vec::new();
    let mut open: Vec<(u32, &str, &Node)> = Vec::new();
    open.extend(sorted(root).into_iter().map(|(name, node)| (0, name, node)));
    while let Some((depth, name, node)) = open.pop() {
        if node.size() < least || nodes.len() >= NODES_MAX {
            continue;
        }
        nodes.push(FunctionNode {
            depth,
            name: name.to_owned(),
            slow_ms: node.slow_ms,
            typical_ms: node.typical_ms,
        });
        open.extend(sorted(node).into_iter().map(|(name, node)| (depth + 1, name, node)));
    }
    nodes
}

/// A node's calls, the smallest first.
fn sorted(node: &Node) -> Vec<(&str, &Node)> {
    let mut calls: Vec<(&str, &Node)> =
        node.children.iter().map(|(name, call)| (name.as_str(), call)).collect();
    calls.sort_by(|one, other| one.1.size().total_cmp(&other.1.size()));
    calls
}

#[cfg(test)]
mod tests {
    use super::*;
    use osprofiler::functions::model::{Builder, Function};

    /// An operation of this many milliseconds: each function with its mean, sampled at 100 Hz.
    fn sampled(random: &mut fastrand::Rng, parts: &[(&[&str], f64)]) -> (Functions, f64) {
        let mut builder = Builder::new("wsgi", 100);
        let mut whole_ms = 0.0;
        for (names, mean_ms) in parts {
            let ms = mean_ms * (0.7 + 0.6 * random.f64());
            whole_ms += ms;
            // A sample every 10 ms of processor time, from a random beginning.
            let samples = (ms / 10.0 + random.f64()).floor();
            let frames: Vec<Function> = names.iter().map(|name| Function::named(name)).collect();
            builder.add(Some("point"), &frames, samples as u64);
        }
        (Functions { profiles: vec![builder.finish()], unreadable: 0 }, whole_ms)
    }

    fn side(
        random: &mut fastrand::Rng,
        number: usize,
        parts: &[(&[&str], f64)],
        waits_ms: f64,
    ) -> Vec<(Functions, f64)> {
        let one = |_| {
            let (functions, ms) = sampled(random, parts);
            (functions, ms + waits_ms)
        };
        (0..number).map(one).collect()
    }

    fn found(slow: &[(Functions, f64)], typical: &[(Functions, f64)], seed: u64) -> ComparedFunctions {
        fn of(side: &[(Functions, f64)]) -> Vec<Iteration<'_>> {
            side.iter()
                .map(|(functions, self_ms)| Iteration {
                    functions,
                    points: HashSet::from(["point"]),
                    self_ms: *self_ms,
                })
                .collect()
        }
        compare(&of(slow), &of(typical), seed).unwrap()
    }

    const PARTS: [(&[&str], f64); 3] = [
        (&["app::render", "app::format"], 20.0),
        (&["app::render", "core::iter::fold", "app::escape::{{closure}}"], 10.0),
        (&["app::render"], 10.0),
    ];

    #[test]
    fn the_planted_function_is_named_with_bounds_that_hold() {
        let mut named = 0;
        for seed in 0..20 {
            let mut random = fastrand::Rng::with_seed(seed);
            let typical = side(&mut random, 60, &PARTS, 5.0);
            let mut parts = PARTS;
            // 61 % of what is added.
            parts[1].1 += 61.0;
            parts[0].1 += 39.0;
            let slow = side(&mut random, 40, &parts, 5.0);
            let seen = found(&slow, &typical, seed);
            let cause = seen.cause.clone().unwrap();
            named += u32::from(cause.name == "app::escape");
            assert!(cause.share_low <= 0.66 && cause.share_high >= 0.56, "{cause:?}");
            assert!(!seen.whole && seen.slow_ms > seen.typical_ms, "{seen:?}");
        }
        assert!(named >= 19, "{named} of 20");
    }

    #[test]
    fn nothing_is_accused_of_waiting_or_without_samples() {
        for seed in 0..20 {
            let mut random = fastrand::Rng::with_seed(seed);
            let typical = side(&mut random, 60, &PARTS, 5.0);
            // The points take 200 ms longer, and no function does.
            let waiting = side(&mut random, 40, &PARTS, 205.0);
            assert_eq!(found(&waiting, &typical, seed).cause, None);
            let alike = side(&mut random, 40, &PARTS, 5.0);
            assert_eq!(found(&alike, &typical, seed).cause, None);
            let mut parts = PARTS;
            parts[0].1 += 60.0;
            let few = side(&mut random, 5, &parts, 5.0);
            assert_eq!(found(&few, &typical, seed).cause, None);
        }
    }

    #[test]
    fn other_points_do_not_count_unless_there_are_no_own_ones() {
        let mut random = fastrand::Rng::with_seed(7);
        let typical = side(&mut random, 60, &PARTS, 0.0);
        let mut parts = PARTS;
        parts[0].1 += 90.0;
        let slow = side(&mut random, 40, &parts, 0.0);
        let of = |side: &'static [(Functions, f64)], point: &'static str| -> Vec<Iteration<'static>> {
            let one = |(functions, self_ms): &'static (Functions, f64)| Iteration {
                functions,
                points: HashSet::from([point]),
                self_ms: *self_ms,
            };
            side.iter().map(one).collect()
        };
        let (slow, typical) = (&*slow.leak(), &*typical.leak());
        let seen = compare(&of(slow, "elsewhere"), &of(typical, "elsewhere"), 7).unwrap();
        assert!(seen.whole && seen.cause.is_some_and(|cause| cause.name == "app::format"));
        assert!(compare(&[], &of(typical, "point"), 7).is_none());
    }

    #[test]
    fn names_of_the_standard_library_are_recognised() {
        for (name, expected) in [
            ("core::iter::fold", true),
            ("<u64 as core::ops::arith::Add>::add", true),
            ("<alloc::vec::Vec<T> as app::Render>::render", true),
            ("app::core::work", false),
            ("<app::Reply as app::Render>::render", false),
        ] {
            assert_eq!(is_library(name), expected, "{name}");
        }
    }
}
