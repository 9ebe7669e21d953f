//! Levels of detail at which the times of traces are compared.
//!
//! A cause need not be in one place. Where every service validates a token anew, or a broker holds all messages back,
//! many kinds of points take a little longer, and none of them explains enough. So kinds are compared under their
//! parents first, then wherever they are, and then by their service alone. And a service that stands still makes some
//! requests slow in its own points. Requests that come meanwhile are slow in the points of its callers, which wait for
//! it. So in the end both are one. Nothing here may judge.

use std::collections::HashMap;

use super::attribution::{Breakdown, OwnTimeSplit, Part};
use super::breakdown::{Breakdowns, Kind};
use results::client_points::REPORTER;
use results::rpc::QUEUE;

/// The name of the kind that all points of a service are.
pub const ALL_POINTS: &str = "all trace points";
/// The same with the calls of others that wait for them.
pub const WITH_CALLS: &str = "all trace points and the calls to them";

/// Whether a kind of this name is all points of a service.
#[must_use]
pub fn is_all_points(name: &str) -> bool {
    name == ALL_POINTS || name == WITH_CALLS
}

/// How finely points are told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// By service, name, detail, and the point around them.
    Place,
    /// By service, name and detail.
    Kind,
    /// By service. The client's points, and the queues of RPC, remain as they are at the level of kinds.
    Service,
    /// By service, together with the calls of others that wait for its answer.
    Served,
}

impl Level {
    /// All levels, the most detailed first.
    pub const ALL: [Self; 4] = [Self::Place, Self::Kind, Self::Service, Self::Served];

    /// True if points are grouped by service alone.
    #[must_use]
    pub fn is_of_services(self) -> bool {
        matches!(self, Self::Service | Self::Served)
    }

    /// What a kind of the most detailed level belongs to at this one; `waits_for` is the service whose answers its points
    /// wait for, if they are such calls.
    #[must_use]
    pub fn of(self, kind: &Kind, waits_for: Option<&str>) -> Kind {
        let is_queue = kind.name == QUEUE && kind.detail.is_empty();
        let name = if self == Self::Served { WITH_CALLS } else { ALL_POINTS };
        let all_points = |of: &str| Kind { service: of.to_owned(), name: name.to_owned(), ..Kind::default() };
        match (self, waits_for) {
            (Self::Place, _) => kind.clone(),
            // A broker that stands still delays messages to all services.
            _ if is_queue => Kind { name: QUEUE.to_owned(), ..Kind::default() },
            (Self::Served, Some(service)) => all_points(service),
            (Self::Service | Self::Served, _) if kind.service != REPORTER && !kind.service.is_empty() => {
                all_points(&kind.service)
            }
            _ => Kind { parent: String::new(), ..kind.clone() },
        }
    }
}

/// The same traces at a level. `waits_for` has for each kind the service whose answers its points wait for.
#[must_use]
pub fn at_level(fine: &Breakdowns, level: Level, waits_for: &[Option<String>]) -> Breakdowns {
    let mut places: HashMap<Kind, usize> = HashMap::new();
    let mut kinds: Vec<Kind> = Vec::new();
    let mut place = |kind: &Kind, waits_for: Option<&str>| {
        *places.entry(level.of(kind, waits_for)).or_insert_with_key(|group| {
            kinds.push(group.clone());
            kinds.len() - 1
        })
    };
    let (mut group_of, mut caller_of) = (Vec::new(), Vec::new());
    for (number, kind) in fine.kinds.iter().enumerate() {
        let waits_for = waits_for.get(number).and_then(Option::as_deref);
        group_of.push(place(kind, waits_for));
        caller_of.push(place(kind, None));
    }
    let groups = Groups { of: &group_of, of_caller: &caller_of };
    let traces = fine.traces.iter().map(|trace| trace.as_ref().map(|trace| groups.joined(trace)));
    let kind_of = fine.kind_of.iter().map(|of| of.iter().map(|&kind| group_of[kind]).collect());
    let longest = fine.traces.iter().zip(&fine.longest_of);
    let longest_of = longest.map(|(trace, of)| trace.as_ref().map(|trace| groups.longest_of(trace, of)));
    Breakdowns {
        kinds,
        traces: traces.collect(),
        kind_of: kind_of.collect(),
        exclusive_of: fine.exclusive_of.clone(),
        longest_of: longest_of.map(Option::unwrap_or_default).collect(),
        wholes: Vec::new(),
        inconsistent: fine.inconsistent.clone(),
        shifted: fine.shifted.clone(),
    }
}

/// For each kind, its group, and that of its service, which differs for a call that waits for another one.
struct Groups<'a> {
    of: &'a [usize],
    of_caller: &'a [usize],
}

impl Groups<'_> {
    /// A trace whose kinds are joined to groups.
    fn joined(&self, trace: &Breakdown) -> Breakdown {
        let mut at: HashMap<usize, usize> = HashMap::new();
        let mut parts: Vec<Part> = Vec::new();
        let mut add = |part: &Part, group: usize| {
            let place = *at.entry(group).or_insert_with(|| {
                parts.push(Part { kind: group, ..Part::default() });
                parts.len() - 1
            });
            parts[place].exclusive_us += part.exclusive_us;
            parts[place].self_us += part.self_us;
            parts[place].calls += part.calls;
            parts[place].lies.add(&part.lies, 1.0);
        };
        for part in &trace.parts {
            let (group, of_caller) = (self.of[part.kind], self.of_caller[part.kind]);
            if group == of_caller {
                add(part, group);
            } else {
                let (before, rest) = until_it_begins(part);
                add(&before, group);
                add(&rest, of_caller);
            }
        }
        Breakdown { parts }
    }

    /// For each group, the longest point of the kind that took most; points of other services are none of it.
    fn longest_of(&self, trace: &Breakdown, of_kind: &HashMap<usize, usize>) -> HashMap<usize, usize> {
        let mut longest: HashMap<usize, (f64, usize)> = HashMap::new();
        for part in trace.parts.iter().filter(|part| self.of[part.kind] == self.of_caller[part.kind]) {
            let Some(&point) = of_kind.get(&part.kind) else { continue };
            let most = longest.entry(self.of[part.kind]).or_insert((part.exclusive_us, point));
            if part.exclusive_us > most.0 {
                *most = (part.exclusive_us, point);
            }
        }
        longest.into_iter().map(|(group, (_, point))| (group, point)).collect()
    }
}

/// The time of calls until the other service begins, and the rest: what comes after its answer is the caller's.
fn until_it_begins(part: &Part) -> (Part, Part) {
    let lies = part.lies;
    // All of it if the other service never began.
    let before_us = (part.exclusive_us - lies.between_us - lies.after_us).max(0.0);
    let share = if part.exclusive_us > 0.0 { (before_us / part.exclusive_us).min(1.0) } else { 0.0 };
    let before = Part {
        exclusive_us: share * part.exclusive_us,
        self_us: share * part.self_us,
        lies: OwnTimeSplit { before_us: lies.before_us, ..OwnTimeSplit::default() },
        ..*part
    };
    let rest = Part {
        exclusive_us: part.exclusive_us - before.exclusive_us,
        self_us: part.self_us - before.self_us,
        calls: 0.0,
        lies: OwnTimeSplit { before_us: 0.0, ..lies },
        ..*part
    };
    (before, rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(service: &str, name: &str, detail: &str, parent: &str) -> Kind {
        Kind {
            service: service.to_owned(),
            name: name.to_owned(),
            detail: detail.to_owned(),
            parent: parent.to_owned(),
        }
    }

    #[test]
    fn levels_join_what_only_differs_in_finer_ones() {
        let kinds = [
            kind("keystone", "db", "SELECT", "wsgi GET /a"),
            kind("keystone", "db", "SELECT", "wsgi GET /b"),
            kind("keystone", "wsgi", "GET /a", ""),
            kind("nova", "db", "SELECT", ""),
            kind("nova", QUEUE, "", ""),
            kind("cinder", QUEUE, "", ""),
            kind(REPORTER, "action", "boot", "iteration"),
            kind(REPORTER, "action", "list", "iteration"),
        ];
        let expected = [
            (Level::Place, vec![0, 1, 2, 3, 4, 5, 6, 7]),
            (Level::Kind, vec![0, 0, 1, 2, 3, 3, 4, 5]),
            (Level::Service, vec![0, 0, 0, 1, 2, 2, 3, 4]),
            // The statements of `wsgi GET /b` are calls that wait for nova.
            (Level::Served, vec![0, 1, 0, 1, 2, 2, 3, 4]),
        ];
        let mut waits_for = vec![None; 8];
        waits_for[1] = Some("nova".to_owned());
        let us = [5.0, 9.0, 1.0, 2.0, 4.0, 3.0, 6.0, 7.0];
        let part = |(kind, us): (usize, &f64)| Part {
            kind,
            exclusive_us: *us,
            self_us: *us,
            calls: 1.0,
            ..Part::default()
        };
        let trace = Breakdown { parts: us.iter().enumerate().map(part).collect() };
        let fine = Breakdowns {
            wholes: Vec::new(),
            kinds: kinds.to_vec(),
            traces: vec![Some(trace), None],
            kind_of: vec![(0..8).collect(), Vec::new()],
            longest_of: vec![(0..8).map(|index| (index, index)).collect(), HashMap::new()],
            ..Breakdowns::default()
        };
        for (level, groups) in expected {
            let found = at_level(&fine, level, &waits_for);
            assert_eq!(found.kind_of, [groups.clone(), Vec::new()], "{level:?}");
            let trace = found.traces[0].as_ref().unwrap();
            let sum =
                |group: usize| -> f64 { (0..8).filter(|&at| groups[at] == group).map(|at| us[at]).sum() };
            for part in &trace.parts {
                assert_eq!(part.exclusive_us, sum(part.kind), "{level:?} {}", part.kind);
                assert_eq!(part.self_us, sum(part.kind), "{level:?} {}", part.kind);
                let calls = groups.iter().filter(|&&group| group == part.kind).count();
                assert_eq!(part.calls, calls as f64, "{level:?} {}", part.kind);
            }
            let all_us: f64 = trace.parts.iter().map(|part| part.exclusive_us).sum();
            assert_eq!((all_us, found.traces[1].is_none()), (37.0, true), "{level:?}");
            // Of both statements the second took longer.
            let longest = if matches!(level, Level::Place | Level::Served) { 0 } else { 1 };
            assert_eq!(found.longest_of[0][&groups[0]], longest, "{level:?}");
        }
    }
}
