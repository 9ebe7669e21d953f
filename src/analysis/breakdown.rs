//! From traces to comparable parts: kinds of points, clocks repaired, time on the critical path.
//!
//! The root is the client's own `iteration`; a services' point whose parent is not known counts below it. A trace with a
//! point that lacks its start or stop is left out and counted: what it would say depends on what was lost. Nothing here
//! may fetch or print.

use std::collections::HashMap;

use super::attribution::{Breakdown, Part};
use super::critical_path::{Span, duration_only_self_us, exclusive_us};
use super::skew::{Bounds, Shift};
use super::statement;
use crate::osprofiler::report::{Point, TraceTree};
use crate::results::client_points::{ACTION, REPORTER};

/// What tells kinds of points apart.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Kind {
    /// The project and service that reported it.
    pub service: String,
    /// The point's name.
    pub name: String,
    /// What it did, without literals and ids.
    pub detail: String,
    /// Name and detail of the point around it.
    pub parent: String,
}

/// The traces of one comparison, broken down.
#[derive(Clone, Debug, Default)]
pub struct Broken {
    /// All kinds; parts name them by their places.
    pub kinds: Vec<Kind>,
    /// A breakdown for each trace that is complete; `None` for the others.
    pub traces: Vec<Option<Breakdown>>,
    /// The kind of each point of each trace, by their places; empty for a trace that is not complete.
    pub kind_of: Vec<Vec<usize>>,
    /// Hosts whose clocks wandered, as (caller, called).
    pub inconsistent: Vec<(String, String)>,
    /// Hosts whose clocks were moved, as (caller, called, microseconds).
    pub shifted: Vec<(String, String, i64)>,
}

type Hosts = (String, String);

/// So many kinds are told apart, in the order in which they come; all further ones count as one. A service whose
/// statements or paths never repeat must not take all the memory.
const KINDS_MAX: usize = 5_000;
/// The name of that one.
const FURTHER_KINDS: &str = "points of further kinds";

/// Breaks traces down, with one set of kinds and one repair of clocks for all.
#[must_use]
pub fn break_down(trees: &[TraceTree]) -> Broken {
    let mut broken = Broken::default();
    let mut places: HashMap<Kind, usize> = HashMap::new();
    let shifts = shifts(trees, &mut broken);
    for tree in trees {
        let usable = !tree.points.is_empty() && tree.is_whole();
        let mut kind_of = Vec::new();
        broken.traces.push(usable.then(|| {
            let spans = spans(tree, &shifts);
            let (exclusive, own) = (exclusive_us(&spans), duration_only_self_us(&spans));
            let mut parts: Vec<Part> = Vec::new();
            let mut at: HashMap<usize, usize> = HashMap::new();
            for (index, (exclusive, own)) in exclusive.into_iter().zip(own).enumerate() {
                let mut kind = kind(tree, index);
                if places.len() >= KINDS_MAX && !places.contains_key(&kind) {
                    kind = Kind { name: FURTHER_KINDS.to_owned(), ..Kind::default() };
                }
                let number = *places.entry(kind).or_insert_with_key(|kind| {
                    broken.kinds.push(kind.clone());
                    broken.kinds.len() - 1
                });
                kind_of.push(number);
                let place = *at.entry(number).or_insert_with(|| {
                    parts.push(Part { kind: number, exclusive_us: 0.0, self_us: 0.0, calls: 0.0 });
                    parts.len() - 1
                });
                parts[place].exclusive_us += float(exclusive);
                parts[place].self_us += float(own);
                parts[place].calls += 1.0;
            }
            Breakdown { parts }
        }));
        broken.kind_of.push(kind_of);
    }
    broken
}

#[expect(clippy::cast_precision_loss, reason = "exact up to 285 years")]
fn float(us: u64) -> f64 {
    us as f64
}

/// The kind of a point.
#[must_use]
pub fn kind(tree: &TraceTree, index: usize) -> Kind {
    let point = &tree.points[index];
    let parent =
        point.parent.map(|parent| statement::name_and_kind(&tree.points[parent])).unwrap_or_default();
    Kind { service: point.reporter(), name: point.name.clone(), detail: statement::kind(point), parent }
}

/// On whose clock a point was taken. The client has one of its own even where a service runs on its host: its offsets are
/// monotonic, from one reading of the wall clock.
fn host(point: &Point) -> &str {
    if point.project.as_deref() == Some(REPORTER) {
        return "";
    }
    point.host.as_deref().unwrap_or_default()
}

/// How far each called host's clock must be moved to fit its caller's.
fn shifts(trees: &[TraceTree], broken: &mut Broken) -> HashMap<Hosts, i64> {
    let mut bounds: HashMap<Hosts, Bounds> = HashMap::new();
    for tree in trees {
        for point in &tree.points {
            let Some(parent) = point.parent.map(|parent| &tree.points[parent]) else { continue };
            let (Some(caller), Some(called)) = (interval(parent), interval(point)) else { continue };
            if host(parent) != host(point) {
                let hosts = (host(parent).to_owned(), host(point).to_owned());
                bounds.entry(hosts).or_default().note(caller, called);
            }
        }
    }
    let mut moved = HashMap::new();
    for (hosts, bounds) in bounds {
        match bounds.shift() {
            Shift::None => {}
            Shift::By(us) => {
                broken.shifted.push((hosts.0.clone(), hosts.1.clone(), us));
                moved.insert(hosts, us);
            }
            Shift::Inconsistent => broken.inconsistent.push(hosts),
        }
    }
    broken.shifted.sort();
    broken.inconsistent.sort();
    moved
}

fn interval(point: &Point) -> Option<(i64, i64)> {
    let start_us = i64::try_from(point.start_us).ok()?;
    Some((start_us, i64::try_from(point.end_us()?).ok()?))
}

/// The tree as spans on the client's clock.
fn spans(tree: &TraceTree, shifts: &HashMap<Hosts, i64>) -> Vec<Span> {
    let mut moved_us: Vec<i64> = Vec::with_capacity(tree.points.len());
    let mut spans = Vec::with_capacity(tree.points.len());
    for (index, point) in tree.points.iter().enumerate() {
        let parent = point.parent.filter(|&parent| parent < index);
        let by_us = parent.map_or(0, |parent| {
            let hosts = (host(&tree.points[parent]).to_owned(), host(point).to_owned());
            moved_us[parent].saturating_add(shifts.get(&hosts).copied().unwrap_or(0))
        });
        moved_us.push(by_us);
        let (start_us, end_us) = interval(point).unwrap_or_default();
        let parent = if index == 0 { None } else { Some(parent.unwrap_or(0)) };
        spans.push(Span {
            parent,
            start_us: start_us.saturating_add(by_us),
            end_us: end_us.saturating_add(by_us),
        });
    }
    spans
}

/// Whether a kind is the time of a request in which no point of a service was open.
#[must_use]
pub fn is_outside(kind: &Kind) -> bool {
    kind.service == REPORTER && kind.name == ACTION
}
