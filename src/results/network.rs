//! What TCP had to repeat for a workload's slow requests, and what that means in words.

use crate::model::Network;
use measure::phases::{Retransmits, SLOW_CONNECT};
use measure::sample::{ActionSample, CompletionStatus, IterationSample};

/// How many of the slowest iterations the reports list.
const SHOWN: usize = 10;

/// The counts of a workload, without its warm-up.
#[derive(Clone, Copy, Debug, Default)]
pub struct RetransmitCounts {
    late_connections: u64,
    /// The shortest and the longest of these waits.
    connect_ns: Option<(u64, u64)>,
    /// Requests that were given up while their connection had no answer.
    given_up: u64,
    resent: u64,
    out_of_order: u64,
}

const SLOW_CONNECT_NS: u64 = SLOW_CONNECT.as_nanos() as u64;

/// Whether a request was given up after the kernel must have asked for its connection again. A name that cannot be resolved,
/// or a refusal, is another matter.
fn is_given_up(action: &ActionSample) -> bool {
    let phases = &action.phases;
    let is_connecting =
        phases.opened && phases.resolve_ns > 0 && phases.connect_ns == 0 && action.outcome.is_none();
    is_connecting && action.ended == CompletionStatus::Failed && action.duration_ns >= SLOW_CONNECT_NS
}

impl RetransmitCounts {
    pub(super) fn add(&mut self, action: &ActionSample) {
        let Retransmits { syns, segments, out_of_order } = action.phases.retransmits;
        if syns > 0 {
            self.late_connections += 1;
            let ns = action.phases.connect_ns;
            // After a redirect or a poll, this is the time of the last request, which may have reused the connection.
            if ns >= SLOW_CONNECT_NS {
                let (shortest, longest) = self.connect_ns.unwrap_or((ns, ns));
                self.connect_ns = Some((shortest.min(ns), longest.max(ns)));
            }
        } else if is_given_up(action) {
            self.given_up += 1;
        }
        self.resent += u64::from(segments > 0);
        self.out_of_order += u64::from(out_of_order > 0);
    }

    /// As the results have it; `None` if nothing was repeated.
    pub(super) fn model(&self) -> Option<Network> {
        let Self { late_connections, connect_ns, given_up, resent, out_of_order } = *self;
        let (shortest, longest) = connect_ns.unwrap_or_default();
        let ms = |ns: u64| ns as f64 / 1e6;
        (late_connections + given_up + resent + out_of_order > 0).then(|| Network {
            late_connections,
            late_connection_ms_min: ms(shortest),
            late_connection_ms_max: ms(longest),
            connections_given_up: given_up,
            requests_with_segments_resent: resent,
            answers_out_of_order: out_of_order,
        })
    }
}

/// What a reader must know of all workloads, each in a sentence.
pub(super) fn notes(
    each: impl Iterator<Item = RetransmitCounts>,
    slowest: &[IterationSample],
) -> impl Iterator<Item = String> {
    let mut all = RetransmitCounts::default();
    for RetransmitCounts { late_connections, connect_ns, given_up, resent, out_of_order } in each {
        all.late_connections += late_connections;
        all.given_up += given_up;
        all.resent += resent;
        all.out_of_order += out_of_order;
        all.connect_ns = match (all.connect_ns, connect_ns) {
            (Some(one), Some(other)) => Some((one.0.min(other.0), one.1.max(other.1))),
            (one, other) => one.or(other),
        };
    }
    let slowest = &slowest[..slowest.len().min(SHOWN)];
    [of_connections(&all, slowest), of_segments(&all, slowest)].into_iter().flatten()
}

fn of_connections(all: &RetransmitCounts, slowest: &[IterationSample]) -> Option<String> {
    let seconds = |ns: u64| format!("{:.1}", ns as f64 / 1e9);
    let waited = all.connect_ns.map_or_else(String::new, |(shortest, longest)| {
        let (from, to) = (seconds(shortest), seconds(longest));
        if from == to { format!(" {to} s") } else { format!(" {from} to {to} s") }
    });
    let connections = |number: u64| match number {
        1 => "1 connection".to_owned(),
        number => format!("{number} connections"),
    };
    let among = among(slowest, |one| one.syns > 0);
    let late = format!(
        "{} waited{waited}, until this machine's kernel asked the service again{among}",
        connections(all.late_connections)
    );
    let given_up = format!("{} had no answer when the request was given up", connections(all.given_up));
    let what = match (all.late_connections, all.given_up) {
        (0, 0) => return None,
        (_, 0) => late,
        (0, _) => given_up,
        _ => format!("{late}, and {given_up}"),
    };
    Some(format!(
        "{what}: the service's queue of connections was full (its backlog, or `net.core.somaxconn` there), or the network \
         lost packets"
    ))
}

fn of_segments(all: &RetransmitCounts, slowest: &[IterationSample]) -> Option<String> {
    let requests = |number: u64| match number {
        1 => "1 slow request".to_owned(),
        number => format!("{number} slow requests"),
    };
    let what = match (all.resent, all.out_of_order) {
        (0, 0) => return None,
        (resent, 0) => format!("segments of {} had to be sent again", requests(resent)),
        (0, late) => format!("segments of the answers to {} came out of order", requests(late)),
        (resent, late) => format!(
            "segments of {} had to be sent again, and the answers to {late} came out of order",
            requests(resent)
        ),
    };
    let among = among(slowest, |one| one.segments > 0 || one.out_of_order > 0);
    let why = match all.resent {
        0 => "the network lost packets, or passed some by others",
        _ => "the network lost packets, or a new connection found the service's queue full",
    };
    Some(format!("{what}{among}: {why}"))
}

/// How many of the slowest iterations are affected.
fn among(slowest: &[IterationSample], is_affected: fn(&Retransmits) -> bool) -> String {
    let has_it =
        |one: &&IterationSample| one.actions.iter().any(|action| is_affected(&action.phases.retransmits));
    match slowest.iter().filter(has_it).count() {
        0 => String::new(),
        number => format!(" ({number} of the {} slowest iterations)", slowest.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use measure::phases::Phases;

    fn action(retransmits: Retransmits, connect_ms: u64) -> ActionSample {
        let phases = Phases { retransmits, connect_ns: connect_ms * 1_000_000, ..Phases::default() };
        ActionSample { phases, ..ActionSample::default() }
    }

    /// A request that failed while it was connecting, to a name that was resolved or not.
    fn given_up(is_resolved: bool, ms: u64) -> ActionSample {
        let phases = Phases { opened: true, resolve_ns: u64::from(is_resolved), ..Phases::default() };
        ActionSample {
            phases,
            duration_ns: ms * 1_000_000,
            ended: CompletionStatus::Failed,
            ..ActionSample::default()
        }
    }

    #[test]
    fn what_was_repeated_is_said_with_what_it_means() {
        let late = |syns: u8| Retransmits { syns, ..Retransmits::default() };
        let lost = |segments: u8, out_of_order: u8| Retransmits { syns: 0, segments, out_of_order };
        let rows = [
            (vec![action(lost(0, 0), 5)], vec![]),
            (vec![given_up(true, 500), given_up(false, 3_000)], vec![]),
            (
                vec![given_up(true, 1_000), given_up(true, 2_000), action(late(1), 0)],
                vec![
                    "1 connection waited, until this machine's kernel asked the service again (1 of the 3 slowest iterations), \
                     and 2 connections had no answer when the request was given up: the service's queue of",
                ],
            ),
            (
                vec![given_up(true, 1_000)],
                vec!["1 connection had no answer when the request was given up: the service's queue of"],
            ),
            (
                vec![action(late(1), 1_010), action(late(2), 3_070), action(lost(0, 0), 5)],
                vec![
                    "2 connections waited 1.0 to 3.1 s, until this machine's kernel asked the service again (2 of the 3 \
                      slowest iterations): the service's queue of",
                ],
            ),
            (
                vec![action(late(1), 1_010), action(lost(3, 0), 0)],
                vec![
                    "1 connection waited 1.0 s, until this machine's kernel asked the service again (1 of the 2 slowest",
                    "segments of 1 slow request had to be sent again (1 of the 2 slowest iterations): the network lost \
                     packets, or a new connection",
                ],
            ),
            (
                vec![action(lost(0, 2), 0), action(lost(0, 1), 0)],
                vec![
                    "segments of the answers to 2 slow requests came out of order (2 of the 2 slowest iterations): the \
                      network lost packets, or passed",
                ],
            ),
            (
                vec![action(lost(1, 2), 0), action(lost(4, 0), 0)],
                vec![
                    "segments of 2 slow requests had to be sent again, and the answers to 1 came out of order (2 of the 2 \
                      slowest",
                ],
            ),
        ];
        for (actions, expected) in rows {
            let mut all = RetransmitCounts::default();
            actions.iter().for_each(|action| all.add(action));
            let iteration = |action| IterationSample { actions: vec![action], ..IterationSample::default() };
            let slowest: Vec<IterationSample> = actions.into_iter().map(iteration).collect();
            let said: Vec<String> =
                [of_connections(&all, &slowest), of_segments(&all, &slowest)].into_iter().flatten().collect();
            assert_eq!(said.len(), expected.len(), "{said:?}");
            for (said, begins) in said.iter().zip(&expected) {
                assert!(said.starts_with(begins), "{said}");
            }
            assert_eq!(all.model().is_some(), !expected.is_empty());
        }
    }
}
