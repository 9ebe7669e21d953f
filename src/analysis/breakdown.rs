//! Breaks traces down into comparable parts: kinds of points, corrected clocks, time on the critical path.
//!
//! The root is the client's `iteration` point; a service's point without a known parent counts below it. A trace with a
//! point that lacks its start, its stop or its parent is left out and counted, because its times are not reliable.
//! Points that nothing waited for take no time ([`asynchronous`]). Nothing here may fetch or print.

use std::borrow::Borrow;
use std::collections::HashMap;

use super::asynchronous::{self, is_consumer, is_linked};
use super::attribution::{Breakdown, OwnTimeSplit, Part};
use super::critical_path::{Own, Span, duration_only_self_us, exclusive};
use super::foreign;
use super::polls::{PAUSE, is_poll};
use super::skew::{Bounds, RESOLUTION_US, Shift};
use super::statement;
use super::wholes::{self, WholeCalls};
use base::parallel;
use osprofiler::report::{Point, TraceTree};
use results::client_points::{ACTION, REPORTER};
use results::rpc::{QUEUE, caller_of};

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
    /// The exclusive time of each point in microseconds, likewise. Half the size: there are as many as points.
    pub exclusive_of: Vec<Vec<f32>>,
    /// For each kind of a trace, the index of the point with the most exclusive time; empty for an incomplete trace.
    pub longest_of: Vec<HashMap<usize, usize>>,
    /// The calls of each trace with everything below them; empty for an incomplete trace, and at coarser levels.
    pub wholes: Vec<Vec<WholeCalls>>,
    /// Pairs of hosts whose clocks drifted, as (caller, called).
    pub inconsistent: Vec<(String, String)>,
    /// Pairs of hosts whose clocks were corrected, as (caller, called, microseconds).
    pub shifted: Vec<(String, String, i64)>,
}

impl Breakdowns {
    /// Takes a trace for an incomplete one.
    pub fn leave_out(&mut self, index: usize) {
        self.traces[index] = None;
        self.kind_of[index].clear();
        self.exclusive_of[index].clear();
        self.longest_of[index].clear();
        self.wholes[index].clear();
    }
}

type Hosts = (String, String);

/// The first this many kinds are distinguished; all further ones count as a single kind. A service whose statements or
/// paths never repeat must not fill the memory.
const KINDS_MAX: usize = 5_000;
/// The name of that single kind.
const FURTHER_KINDS: &str = "points of further kinds";

/// Breaks traces down with a shared set of kinds and shared clock corrections. Clocks are compared over the first
/// `timed` traces: traces of failed iterations, which services may outlive, say little about clocks.
#[must_use]
pub fn break_down<T: Borrow<TraceTree> + Sync>(trees: &[T], timed: usize) -> Breakdowns {
    let mut breakdowns = Breakdowns::default();
    let mut places = Places::default();
    let shifts = shifts(&trees[..timed.min(trees.len())], &mut breakdowns);
    let lacking = foreign::lacking(trees);
    let times = parallel::map((0..trees.len()).collect(), |number| {
        let tree = trees[number].borrow();
        // A caller that is missing here, and not in others, took time that would be blamed on another point.
        let is_whole = tree.is_whole() && tree.gaps.lost_callers == 0;
        let usable = !tree.points.is_empty() && is_whole && !lacking[number];
        usable.then(|| {
            let (spans, place_of) = spans(tree, &shifts);
            (exclusive(&spans), duration_only_self_us(&spans), place_of)
        })
    });
    for (tree, times) in trees.iter().zip(times) {
        let tree = tree.borrow();
        let mut longest: HashMap<usize, (u64, usize)> = HashMap::new();
        let (mut kind_of, mut exclusive_of) = (Vec::new(), Vec::new());
        let (mut whole_calls, mut times_us) = (Vec::new(), Vec::new());
        breakdowns.traces.push(times.map(|(exclusive, own, place_of)| {
            let mut parts: Vec<Part> = Vec::new();
            let mut at: HashMap<usize, usize> = HashMap::new();
            for (index, &place) in place_of.iter().enumerate() {
                let (lies, own) = (exclusive[place], own[place]);
                let exclusive = lies.us();
                exclusive_of.push(float(exclusive) as f32);
                times_us.push((exclusive, own));
                let of_kind = places.of(tree, index, &mut breakdowns.kinds);
                kind_of.push(of_kind);
                let place = *at.entry(of_kind).or_insert_with(|| {
                    parts.push(Part { kind: of_kind, ..Part::default() });
                    parts.len() - 1
                });
                let most = longest.entry(of_kind).or_insert((exclusive, index));
                if exclusive > most.0 {
                    *most = (exclusive, index);
                }
                parts[place].exclusive_us += float(exclusive);
                parts[place].self_us += float(own);
                parts[place].calls += 1.0;
                parts[place].lies.add(&self::lies(&lies), 1.0);
            }
            whole_calls = wholes::of_trace(tree, &kind_of, &times_us);
            Breakdown { parts }
        }));
        breakdowns.kind_of.push(kind_of);
        breakdowns.exclusive_of.push(exclusive_of);
        breakdowns.wholes.push(whole_calls);
        breakdowns.longest_of.push(longest.into_iter().map(|(kind, (_, index))| (kind, index)).collect());
    }
    breakdowns
}

fn lies(own: &Own) -> OwnTimeSplit {
    let [before_us, between_us, after_us] = [own.before_us, own.between_us, own.after_us].map(float);
    OwnTimeSplit { before_us, between_us, after_us }
}

fn float(us: u64) -> f64 {
    us as f64
}

/// The indices of kinds.
#[derive(Default)]
struct Places<'a> {
    of_kind: HashMap<Kind, usize>,
    /// By what kinds are made of, which needs no new text for each point.
    of_parts: HashMap<[&'a str; 6], usize>,
}

impl<'a> Places<'a> {
    /// The index of a point's kind, which may be new.
    fn of(&mut self, tree: &'a TraceTree, index: usize, kinds: &mut Vec<Kind>) -> usize {
        let parts = parts(tree, index);
        if let Some(&known) = self.of_parts.get(&parts) {
            return known;
        }
        let mut kind = kind(tree, index);
        let is_further = self.of_kind.len() >= KINDS_MAX && !self.of_kind.contains_key(&kind);
        if is_further {
            kind = Kind { name: FURTHER_KINDS.to_owned(), ..Kind::default() };
        }
        let found = *self.of_kind.entry(kind).or_insert_with_key(|kind| {
            kinds.push(kind.clone());
            kinds.len() - 1
        });
        if !is_further {
            self.of_parts.insert(parts, found);
        }
        found
    }
}

/// What the kind of a point is made of: equal parts, equal kinds.
fn parts(tree: &TraceTree, index: usize) -> [&str; 6] {
    let point = &tree.points[index];
    let (project, service) = (point.project.as_deref(), point.service.as_deref());
    let (project, service) = (project.unwrap_or_default(), service.unwrap_or_default());
    if point.name == QUEUE {
        return [project, service, QUEUE, "", "", ""];
    }
    let name = if is_poll(tree, index) { PAUSE } else { point.name.as_str() };
    let parent = point.parent.map(|parent| &tree.points[parent]);
    let (above, call) = parent.map_or(("", ""), |parent| (parent.name.as_str(), statement::kind(parent)));
    [project, service, name, statement::kind(point), above, call]
}

/// The kind of a point.
#[must_use]
pub fn kind(tree: &TraceTree, index: usize) -> Kind {
    let point = &tree.points[index];
    if point.name == QUEUE {
        // Whatever waits in the queue of a service waits for the same reason.
        return Kind { service: point.reporter(), name: QUEUE.to_owned(), ..Kind::default() };
    }
    let parent =
        point.parent.map(|parent| statement::name_and_kind(&tree.points[parent])).unwrap_or_default();
    let name = if is_poll(tree, index) { PAUSE } else { point.name.as_str() };
    Kind {
        service: point.reporter(),
        name: name.to_owned(),
        detail: statement::kind(point).to_owned(),
        parent,
    }
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
        let ends = asynchronous::ends_us(tree);
        let interval = |index: usize| {
            let point: &Point = &tree.points[index];
            Some((point.start_us, ends[index].filter(|_| point.duration_us.is_some())?))
        };
        for (index, point) in tree.points.iter().enumerate() {
            let Some(above) = point.parent else { continue };
            let parent = &tree.points[above];
            let (Some(caller), Some(called)) = (interval(above), interval(index)) else { continue };
            let is_sent = caller_of(tree, index).is_some() && asynchronous::is_sent(caller, called);
            let (caller, called) = (signed(caller), signed(called));
            // A consumer may begin at any time after its message was sent.
            if host(parent) != host(point) && !is_linked(point) && !is_consumer(point) && !is_sent {
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
            Shift::Inconsistent(of_most) => {
                breakdowns.inconsistent.push(hosts.clone());
                moved.extend(of_most.map(|us| (hosts, us)));
            }
        }
    }
    breakdowns.shifted.sort();
    breakdowns.inconsistent.sort();
    moved
}

fn signed((start_us, end_us): (u64, u64)) -> (i64, i64) {
    let signed = |us: u64| i64::try_from(us).unwrap_or(i64::MAX);
    (signed(start_us), signed(end_us))
}

/// The tree as spans on the client's clock, each with the part of it that was waited for, and the place of each point's.
/// What a poll waited for is below the poll, and comes after all else.
fn spans(tree: &TraceTree, shifts: &HashMap<Hosts, i64>) -> (Vec<Span>, Vec<usize>) {
    let mut moved_us: Vec<i64> = Vec::with_capacity(tree.points.len());
    for (index, point) in tree.points.iter().enumerate() {
        let parent = point.parent.filter(|&parent| parent < index);
        moved_us.push(parent.map_or(0, |parent| {
            let caller = &tree.points[parent];
            let hosts = (host(caller).to_owned(), host(point).to_owned());
            let Some(shift_us) = shifts.get(&hosts) else { return moved_us[parent] };
            let by_us = moved_us[parent].saturating_add(*shift_us);
            match asynchronous::answers(caller, point) {
                true => by_us.saturating_add(within(times(caller, moved_us[parent]), times(point, by_us))),
                false => by_us,
            }
        }));
    }
    let waited = asynchronous::waited(tree, &moved_us);
    let above = |index: usize| tree.points[index].parent.filter(|&parent| parent < index);
    let mut is_polled: Vec<bool> = Vec::with_capacity(tree.points.len());
    for (index, one) in waited.iter().enumerate() {
        is_polled.push(one.poll.is_some() || above(index).is_some_and(|above| is_polled[above]));
    }
    let order = (0..is_polled.len()).filter(|&index| !is_polled[index]);
    let order = order.chain((0..is_polled.len()).filter(|&index| is_polled[index]));
    let mut spans: Vec<Span> = Vec::with_capacity(tree.points.len());
    let mut place_of = vec![0; tree.points.len()];
    for index in order {
        place_of[index] = spans.len();
        let is_root = spans.is_empty();
        let parent = waited[index].poll.or_else(|| above(index)).map_or(0, |parent| place_of[parent]);
        let (start_us, end_us) = match waited[index].part {
            None if !is_root => (spans[parent].end_us, spans[parent].end_us),
            part => {
                let (start_us, end_us) = signed(part.unwrap_or_default());
                (start_us.saturating_add(moved_us[index]), end_us.saturating_add(moved_us[index]))
            }
        };
        spans.push(Span { parent: (!is_root).then_some(parent), start_us, end_us });
    }
    (spans, place_of)
}

/// When a point started and ended, moved by `by_us` microseconds.
fn times(point: &Point, by_us: i64) -> (i64, i64) {
    let (start_us, end_us) = signed((point.start_us, point.end_us().unwrap_or(point.start_us)));
    (start_us.saturating_add(by_us), end_us.saturating_add(by_us))
}

/// By how much more to move an answer that is only as far outside its call as a clock of whole milliseconds puts it.
fn within(call: (i64, i64), answer: (i64, i64)) -> i64 {
    let (early_us, late_us) = (call.0.saturating_sub(answer.0), answer.1.saturating_sub(call.1));
    let fits = early_us.saturating_add(late_us) <= 0;
    match () {
        () if fits && (1..=RESOLUTION_US).contains(&early_us) => early_us,
        () if fits && (1..=RESOLUTION_US).contains(&late_us) => -late_us,
        () => 0,
    }
}

/// Whether a kind is the time of a request outside all points of services.
#[must_use]
pub fn is_outside(kind: &Kind) -> bool {
    kind.service == REPORTER && kind.name == ACTION
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::sample_trees::{at, iteration, with};

    /// Calls of 3 ms to a host whose clock is 50 ms ahead, with answers as long; both clocks count whole milliseconds, so the
    /// answers lie 50 and 51 ms late. `late_every` answers outlive their calls by much.
    fn apart(number: u32, late_every: u32) -> TraceTree {
        let client = |point, kind: &str| with(point, json!({ "kind": kind }));
        let (base, from) =
            (5_050 + u64::from(number % 2), if number.is_multiple_of(late_every) { 900 } else { 0 });
        iteration(vec![
            at(3, 2, "GET", "shop", (5_005, 5_095)),
            client(at(4, 3, "call", "shop", (5_010, 5_013)), "client"),
            client(at(5, 4, "answer", "stock", (base + 10, base + 13 + from)), "server"),
        ])
    }

    #[test]
    fn clocks_of_hosts_are_aligned_although_they_are_coarse_or_some_calls_go_on() {
        for (what, late_every, inconsistent) in [("coarse", u32::MAX, 0), ("some calls go on", 8, 1)] {
            let trees: Vec<TraceTree> = (1..81).map(|number| apart(number, late_every)).collect();
            let found = break_down(&trees, trees.len());
            assert_eq!(found.inconsistent.len(), inconsistent, "{what}");
            let of = |name: &str| {
                let kind = found.kinds.iter().position(|kind| kind.name == name).unwrap();
                let usual = found.traces[2].as_ref().unwrap();
                usual.parts.iter().find(|part| part.kind == kind).unwrap().exclusive_us
            };
            assert_eq!((of("call"), of("answer")), (0.0, 3_000.0), "{what}");
        }
    }
}
