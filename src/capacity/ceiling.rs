//! Pools that calls wait for now and then: by the number of open calls that is reached, but never passed.
//!
//! [`crate::waits`] says what waits for most of the time, and must not be wrong. A replay needs every pool that matters once
//! something is different, however seldom calls wait today. While all servers are busy, the end of a call is the start of
//! another that was ready before: a server is handed over. Where calls overlap at will, that is chance, and more of them
//! are open at times. Whether the pools are right, the replay shows: with wrong ones it does not give today's times.

use std::collections::BTreeMap;
use std::collections::HashSet;

use osprofiler::report::TraceTree;

use crate::calls::{self, CallGroup};
use crate::limit::whole_span;
use crate::servers::{QueuedCall, WholeSpan};

/// Fewer calls say nothing.
const CALLS_MIN: usize = 100;
/// Of the time in which as many calls were open as there are servers, more may be for this share at most.
const ABOVE_MAX: f64 = 0.01;
/// A server was handed over if the next call began within this share of the time between two ends,
const HANDED_WITHIN: f64 = 0.1;
/// Within this share of it, it may have been,
const MAYBE_WITHIN: f64 = 0.5;
/// and within this time at most, in microseconds.
const HANDED_US_MAX: i64 = 2_000;
/// So many times a server must have been handed over,
const HANDED_MIN: usize = 10;
/// and so many times as often as by chance.
const OFTENER: f64 = 2.5;

/// A pool of servers that calls are handed.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerCeiling {
    /// Which calls.
    pub group: CallGroup,
    /// How many servers.
    pub servers: u32,
    /// Of this time, all calls were seen.
    pub within: WholeSpan,
    /// When calls began that had waited, in microseconds of their clock.
    pub handed_us: HashSet<i64>,
    /// How long the others' callers worked before them, shortest first, in microseconds.
    pub gaps_us: Vec<i64>,
}

impl ServerCeiling {
    /// How much of the time before a call that began at `start_us` its caller worked, as far as that is known.
    #[must_use]
    pub fn own_gap_us(&self, gap_us: i64, start_us: i64) -> i64 {
        let is_inside = start_us >= self.within.from_us && start_us <= self.within.until_us;
        if is_inside && !self.handed_us.contains(&start_us) {
            return gap_us;
        }
        // What is not known is taken from those that did not wait, one after the other. All of what waited took longer than
        // that. Of what is outside, nobody knows whether it did.
        let possible =
            if is_inside { self.gaps_us.partition_point(|one| *one <= gap_us) } else { self.gaps_us.len() };
        let number = start_us.unsigned_abs().wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        match usize::try_from(number).unwrap_or(0).checked_rem(possible) {
            Some(at) => self.gaps_us[at].min(gap_us),
            None => gap_us,
        }
    }
}

/// The pools in these iterations in a row of an open load. The traces must have the client's points.
#[must_use]
pub fn ceilings(dense: &[&TraceTree]) -> Vec<ServerCeiling> {
    let Some(within) = whole_span(dense) else { return Vec::new() };
    let groups: BTreeMap<CallGroup, Vec<QueuedCall>> = calls::of_traces(dense.iter().copied());
    groups.into_iter().filter_map(|(group, calls)| ceiling(group, calls, &within)).collect()
}

fn ceiling(group: CallGroup, mut calls: Vec<QueuedCall>, within: &WholeSpan) -> Option<ServerCeiling> {
    if calls.len() < CALLS_MIN {
        return None;
    }
    calls.sort_unstable_by_key(|call| call.start_us);
    let open_us = time_open(&calls, within);
    let from = |count: usize| open_us.iter().skip(count).sum::<i64>() as f64;
    // The highest number that is passed for next to no time.
    let servers = (1..open_us.len()).find(|&count| from(count + 1) <= ABOVE_MAX * from(count))?;
    let between_us = within.us() as f64 / calls.len() as f64;
    let soon_us = ((between_us * HANDED_WITHIN) as i64).clamp(1, HANDED_US_MAX);
    let drops_us = drops(&calls, servers, within);
    let by_chance = soon_us as f64 / between_us * drops_us.len() as f64;
    let handed = began_after(&calls, &drops_us, soon_us).len();
    if handed < HANDED_MIN || (handed as f64) < OFTENER * by_chance {
        return None;
    }
    // A server that is free for longer was not waited for. Until then, that is not known.
    let maybe_us = ((between_us * MAYBE_WITHIN) as i64).clamp(soon_us, HANDED_US_MAX);
    let handed_us = calls.iter().filter(|call| may_have_waited(call, &drops_us, maybe_us));
    let handed_us: HashSet<i64> = handed_us.map(|call| call.start_us).collect();
    let is_inside = |call: &&QueuedCall| call.start_us >= within.from_us && call.start_us <= within.until_us;
    let others = calls.iter().filter(is_inside).filter(|call| !handed_us.contains(&call.start_us));
    let mut gaps_us: Vec<i64> = others.map(|call| call.start_us - call.ready_us).collect();
    gaps_us.sort_unstable();
    Some(ServerCeiling { group, servers: u32::try_from(servers).ok()?, within: *within, handed_us, gaps_us })
}

/// When one of so many open calls ended, in order.
fn drops(calls: &[QueuedCall], servers: usize, within: &WholeSpan) -> Vec<i64> {
    let mut ends: Vec<i64> = calls.iter().map(|call| call.end_us).collect();
    ends.sort_unstable();
    let is_drop = |(number, end_us): &(usize, i64)| {
        let begun = calls.partition_point(|call| call.start_us < *end_us);
        *end_us >= within.from_us && *end_us <= within.until_us && begun - number >= servers
    };
    ends.into_iter().enumerate().filter(is_drop).map(|(_, end_us)| end_us).collect()
}

/// When calls began that were ready before one of these ends and began so soon after it; one for each end.
fn began_after(calls: &[QueuedCall], drops_us: &[i64], soon_us: i64) -> HashSet<i64> {
    let mut found = HashSet::new();
    for &end_us in drops_us {
        let first = calls.partition_point(|call| call.start_us < end_us);
        let next = calls[first..].iter().take_while(|call| call.start_us - end_us <= soon_us);
        let waited = next.filter(|call| call.ready_us < end_us - soon_us);
        found.extend(waited.map(|call| call.start_us).find(|start_us| !found.contains(start_us)));
    }
    found
}

/// Whether all servers were busy shortly before a call began, and it was ready then.
fn may_have_waited(call: &QueuedCall, drops_us: &[i64], shortly_us: i64) -> bool {
    let before = drops_us.partition_point(|drop_us| *drop_us <= call.start_us);
    before
        .checked_sub(1)
        .is_some_and(|at| call.start_us - drops_us[at] <= shortly_us && call.ready_us < drops_us[at])
}

/// For each number of open calls, how long so many were.
fn time_open(calls: &[QueuedCall], within: &WholeSpan) -> Vec<i64> {
    let mut changes: Vec<(i64, i32)> =
        calls.iter().flat_map(|call| [(call.start_us, 1), (call.end_us, -1)]).collect();
    // Of changes at one time, ends come first.
    changes.sort_unstable();
    let (mut spent_us, mut open, mut at_us): (Vec<i64>, i32, i64) = (Vec::new(), 0, i64::MIN);
    for (us, by) in changes {
        let lasted_us = us.min(within.until_us) - at_us.max(within.from_us);
        if lasted_us > 0 && at_us != i64::MIN {
            let place = usize::try_from(open).unwrap_or(0);
            spent_us.resize(spent_us.len().max(place + 1), 0);
            spent_us[place] += lasted_us;
        }
        (open, at_us) = (open + by, us);
    }
    spent_us
}
