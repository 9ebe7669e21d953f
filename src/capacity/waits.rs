//! Which calls wait for their turn in an ordinary load, and for how many servers: waiting told from working by one level
//! alone.
//!
//! Nobody knows here how long a caller works before its call where nothing waits. The shortest gaps of the window tell that,
//! and then the caller's own work looks like waiting whenever it takes longer. Two things tell a queue from that. While a
//! call waits, the number of open calls stands on a plateau ([`crate::servers`]). And what waited begins just as another call
//! ends: a server was handed over. A service that works on few requests at once has such a plateau, too, but nothing is
//! handed over. Of a closed model, no plateau says anything: its users make one. So the load must be open.

use osprofiler::report::TraceTree;

use crate::calls::{self, CallGroup};
use crate::limit::whole_span;
use crate::servers::{QueuedCall, ServerPool, WholeSpan, servers};

/// Fewer calls say nothing.
const CALLS_MIN: usize = 100;
/// A call has a short gap if this share of the calls have none that is longer.
const SHORTEST: f64 = 0.05;
/// A call waits if its gap is longer than this many times the short ones, and by this many microseconds.
const LONGER: f64 = 1.2;
const LONGER_US: i64 = 100;
/// Servers that are less busy are not what calls wait for.
const BUSY_MIN: f64 = 0.6;
/// Waiting for less than this share of the traces' time is not worth a word.
const SHARE_MIN: f64 = 0.05;
/// A call was handed its server if it began within this share of the time between two ends.
const HANDED_WITHIN: f64 = 0.2;
/// At least this share of the calls that waited must have been; by chance, it would be 0.18.
const HANDED_MIN: f64 = 0.6;

/// Calls that wait for their turn.
#[derive(Clone, Debug, PartialEq)]
pub struct CallWait {
    /// Which calls.
    pub group: CallGroup,
    /// What they wait for.
    pub servers: ServerPool,
    /// How long an iteration waits for them, on average, in milliseconds.
    pub each_ms: f64,
    /// The share of this in the time of the iterations, from 0 to 1.
    pub share: f64,
}

/// The calls that wait in these iterations in a row of an open load, longest first. The traces must have the client's points.
#[must_use]
pub fn waits(dense: &[&TraceTree]) -> Vec<CallWait> {
    let Some(within) = whole_span(dense) else { return Vec::new() };
    let lasts_us =
        |tree: &TraceTree| tree.points.iter().filter_map(|point| point.end_us()).max().unwrap_or(0);
    let all_us: u64 = dense.iter().map(|tree| lasts_us(tree)).sum();
    let mut found: Vec<CallWait> = calls::of_traces(dense.iter().copied())
        .into_iter()
        .filter(|(_, calls)| calls.len() >= CALLS_MIN)
        .filter_map(|(group, calls)| {
            let usual_us = usual_us(&calls);
            let servers = servers(&calls, usual_us, &within)?;
            if servers.busy < BUSY_MIN || handed_share(&calls, usual_us, &within) < HANDED_MIN {
                return None;
            }
            let waited_us: i64 = calls.iter().map(|call| waited_us(call, usual_us)).sum();
            let share = waited_us as f64 / all_us.max(1) as f64;
            let each_ms = waited_us as f64 / 1e3 / dense.len().max(1) as f64;
            (share >= SHARE_MIN).then_some(CallWait { group, servers, each_ms, share })
        })
        .collect();
    found.sort_by(|one, other| other.each_ms.total_cmp(&one.each_ms));
    found
}

fn waited_us(call: &QueuedCall, usual_us: i64) -> i64 {
    (call.start_us - call.ready_us - usual_us).max(0)
}

/// How long calls could have begun before they did, where nothing waits.
fn usual_us(calls: &[QueuedCall]) -> i64 {
    let mut gaps: Vec<i64> = calls.iter().map(|call| call.start_us - call.ready_us).collect();
    gaps.sort_unstable();
    let shortest = gaps.get((gaps.len() as f64 * SHORTEST) as usize).copied().unwrap_or(0);
    ((shortest as f64 * LONGER) as i64).max(shortest + LONGER_US)
}

/// Of the calls that waited, the share that began just when another one ended.
fn handed_share(calls: &[QueuedCall], usual_us: i64, within: &WholeSpan) -> f64 {
    let mut ends_us: Vec<i64> = calls.iter().map(|call| call.end_us).collect();
    ends_us.sort_unstable();
    let is_inside = |us: i64| us >= within.from_us && us <= within.until_us;
    let between_us = within.us() as f64 / ends_us.iter().filter(|us| is_inside(**us)).count().max(1) as f64;
    let soon_us = (between_us * HANDED_WITHIN) as i64;
    let waited = calls.iter().filter(|call| is_inside(call.start_us) && waited_us(call, usual_us) > 0);
    let (mut handed, mut all) = (0_u32, 0_u32);
    for call in waited {
        let before = ends_us.partition_point(|end_us| *end_us <= call.start_us);
        let last_us = before.checked_sub(1).map(|at| ends_us[at]);
        handed += u32::from(last_us.is_some_and(|end_us| call.start_us - end_us <= soon_us));
        all += 1;
    }
    f64::from(handed) / f64::from(all.max(1))
}
