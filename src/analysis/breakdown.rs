//! Breaks traces down into comparable parts: kinds of points, corrected clocks, time on the critical path.
//!
//! The root is the client's `iteration` point; a service's point without a known parent counts below it. A trace with a
//! point that lacks its start or stop is left out and counted, because its times are not reliable. Points that nobody
//! waited for take no time ([`asynchronous`]). Nothing here may fetch or print.

use std::borrow::Borrow;
use std::collections::HashMap;

use super::asynchronous::{self, is_consumer, is_linked};
use super::attribution::{Breakdown, Part};
use super::critical_path::{Span, duration_only_self_us, exclusive_us};
use super::skew::{Bounds, Shift};
use super::statement;
use crate::osprofiler::report::{Point, TraceTree};
use crate::results::client_points::{ACTION, REPORTER};

/// A kind of trace point.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Kind {
    /// The project and service that reported it.
    pub service: String,
    /// The point's name.
    pub name: String,
    /// Its statement or path, without literals and ids.
    pub detail: String,
    /// Name and detail of its parent point.
    pub parent: String,
}

/// The traces of one comparison, broken down.
#[derive(Clone, Debug, Default)]
pub struct Breakdowns {
    /// All kinds; parts refer to them by index.
    pub kinds: Vec<Kind>,
    /// A breakdown for each complete trace; `None` for the others.
    pub traces: Vec<Option<Breakdown>>,
    /// The index of each point's kind, for each trace; empty for an incomplete trace.
    pub kind_of: Vec<Vec<usize>>,
    /// For each kind of a trace, the index of the point with the most exclusive time; empty for an incomplete trace.
    pub longest_of: Vec<HashMap<usize, usize>>,
    /// Pairs of hosts whose clocks drifted, as (caller, called).
    pub inconsistent: Vec<(String, String)>,
    /// Pairs of hosts whose clocks were corrected, as (caller, called, microseconds).
    pub shifted: Vec<(String, String, i64)>,
}

type Hosts = (String, String);

/// The first this many kinds are distinguished; all further ones count as a single kind. A service whose statements or
/// paths never repeat must not fill the memory.
const KINDS_MAX: usize = 5_000;
/// The name of that single kind.
const FURTHER_KINDS: &str = "points of further kinds";

/// Breaks traces down with a shared set of kinds and shared clock corrections. Clocks are compared over the first
/// `timed` traces: those of failed iterations, which services may outlive, say little about them.
#[must_use]
pub fn break_down<T: Borrow<TraceTree>>(trees: &[T], timed: usize) -> Breakdowns {
    let mut breakdowns = Breakdowns::default();
    let mut places: HashMap<Kind, usize> = HashMap::new();
    let shifts = shifts(&trees[..timed.min(trees.len())], &mut breakdowns);
    for tree in trees {
        let tree = tree.borrow();
        let mut longest: HashMap<usize, (u64, usize)> = HashMap::new();
        let usable = !tree.points.is_empty() && tree.is_whole();
        let mut kind_of = Vec::new();
        breakdowns.traces.push(usable.then(|| {
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
                    breakdowns.kinds.push(kind.clone());
                    breakdowns.kinds.len() - 1
                });
                kind_of.push(number);
                let place = *at.entry(number).or_insert_with(|| {
                    parts.push(Part { kind: number, exclusive_us: 0.0, self_us: 0.0, calls: 0.0 });
                    parts.len() - 1
                });
                let most = longest.entry(number).or_insert((exclusive, index));
                if exclusive > most.0 {
                    *most = (exclusive, index);
                }
                parts[place].exclusive_us += float(exclusive);
                parts[place].self_us += float(own);
                parts[place].calls += 1.0;
            }
            Breakdown { parts }
        }));
        breakdowns.kind_of.push(kind_of);
        breakdowns.longest_of.push(longest.into_iter().map(|(kind, (_, index))| (kind, index)).collect());
    }
    breakdowns
}

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

/// The host whose clock timed a point, or where that is unknown, its service; empty for the client. The client has a
/// separate clock even if a service runs on the same host: it reads the wall clock once and adds monotonic offsets.
fn host(point: &Point) -> &str {
    if point.project.as_deref() == Some(REPORTER) {
        return "";
    }
    point.host.as_deref().or(point.service.as_deref()).unwrap_or_default()
}

/// The correction of each called host's clock relative to its caller's.
fn shifts<T: Borrow<TraceTree>>(trees: &[T], breakdowns: &mut Breakdowns) -> HashMap<Hosts, i64> {
    let mut bounds: HashMap<Hosts, Bounds> = HashMap::new();
    for tree in trees.iter().map(Borrow::borrow) {
        for point in &tree.points {
            let Some(parent) = point.parent.map(|parent| &tree.points[parent]) else { continue };
            let (Some(caller), Some(called)) = (interval(parent), interval(point)) else { continue };
            // A consumer may begin at any time after its message was sent.
            if host(parent) != host(point) && !is_linked(point) && !is_consumer(point) {
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
                breakdowns.shifted.push((hosts.0.clone(), hosts.1.clone(), us));
                moved.insert(hosts, us);
            }
            Shift::Inconsistent => breakdowns.inconsistent.push(hosts),
        }
    }
    breakdowns.shifted.sort();
    breakdowns.inconsistent.sort();
    moved
}

fn interval(point: &Point) -> Option<(i64, i64)> {
    let start_us = i64::try_from(point.start_us).ok()?;
    Some((start_us, i64::try_from(point.end_us()?).ok()?))
}

/// The tree as spans on the client's clock, each with the part of it that was waited for.
fn spans(tree: &TraceTree, shifts: &HashMap<Hosts, i64>) -> Vec<Span> {
    let mut moved_us: Vec<i64> = Vec::with_capacity(tree.points.len());
    let mut spans: Vec<Span> = Vec::with_capacity(tree.points.len());
    let awaited = asynchronous::awaited(tree);
    for (index, point) in tree.points.iter().enumerate() {
        let parent = point.parent.filter(|&parent| parent < index);
        let by_us = parent.map_or(0, |parent| {
            let hosts = (host(&tree.points[parent]).to_owned(), host(point).to_owned());
            moved_us[parent].saturating_add(shifts.get(&hosts).copied().unwrap_or(0))
        });
        moved_us.push(by_us);
        let parent = if index == 0 { None } else { Some(parent.unwrap_or(0)) };
        let (start_us, end_us) = match (awaited[index], parent) {
            (None, Some(parent)) => (spans[parent].end_us, spans[parent].end_us),
            (part, _) => {
                let (start_us, end_us) = interval(point).unwrap_or_default();
                let waited_us = part.and_then(|(_, end_us)| i64::try_from(end_us).ok());
                let end_us = end_us.min(waited_us.unwrap_or(end_us));
                (start_us.saturating_add(by_us), end_us.saturating_add(by_us))
            }
        };
        spans.push(Span { parent, start_us, end_us });
    }
    spans
}

/// Whether a kind is the time of a request outside all points of services.
#[must_use]
pub fn is_outside(kind: &Kind) -> bool {
    kind.service == REPORTER && kind.name == ACTION
}
