//! What stops a service: the traces of a level that it bears, compared with those of one that it does not.
//!
//! The time of each iteration is divided into each kind's own work, the waits before calls of each service, and the time
//! before a request enters a service. What grew most names the limit, if it is at least half of all that grew. Where calls
//! wait, [`crate::servers`] says for how many servers.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use analysis::breakdown::{Breakdowns, break_down};
use osprofiler::report::TraceTree;
use results::client_points::{ACTION, QUEUE_TIME_POINT, REPORTER};

use crate::calls::{self, CallGroup};
use crate::servers::{QueuedCall, ServerPool, WholeSpan, servers};

/// With fewer complete traces of either level nothing is named.
pub const TRACES_MIN: usize = 20;
/// What grew must be this share of all that grew.
const SHARE_MIN: f64 = 0.5;
/// The difference of means must be so many times its standard error.
const ERRORS_MIN: f64 = 3.0;
/// ServerPool that are less busy are not what stops a service.
const BUSY_MIN: f64 = 0.6;

/// What kind of time grew.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitKind {
    /// Calls wait for their turn.
    Waits,
    /// Requests wait before they enter the service.
    Entry,
    /// The work of a kind of point takes longer.
    Work,
}

/// What stops a service.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Limit {
    /// Which time grew.
    pub kind: LimitKind,
    /// The project and service.
    pub service: String,
    /// The calls that wait, or the point whose work grew, with its statement or path.
    pub name: String,
    /// The mean of this time in an iteration of the level that holds, in milliseconds.
    pub at_ease_ms: f64,
    /// The same at the level that breaks.
    pub overloaded_ms: f64,
    /// Its share of all that grew, from 0 to 1.
    pub share: f64,
    /// What the calls wait for, if it can be told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub servers: Option<ServerPool>,
}

/// Why nothing is named.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum NoLimitReason {
    /// There are too few complete traces of a level.
    TooFewTraces,
    /// Iterations were not slower.
    NothingGrew,
    /// What grew is spread over several places.
    Spread,
}

/// What an iteration's time is divided into.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct TimeShare {
    kind: LimitKindOrder,
    service: String,
    name: String,
}

/// [`LimitKind`], in the order of the sentences.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum LimitKindOrder {
    Waits,
    Entry,
    Work,
}

/// Compares the traces of a level at ease with those of one that breaks. `dense` are all iterations of a while of the
/// latter.
///
/// # Errors
/// The reason why nothing is named.
pub fn limit<'a>(
    at_ease: &'a [&'a TraceTree],
    overloaded: &'a [&'a TraceTree],
    dense: &'a [&'a TraceTree],
) -> Result<Limit, NoLimitReason> {
    let both: Vec<&TraceTree> = at_ease.iter().chain(overloaded).copied().collect();
    let broken_down = break_down(&both, both.len());
    let (usual, high) = broken_down.traces.split_at(at_ease.len());
    let count = |traces: &[Option<_>]| traces.iter().flatten().count();
    if count(usual) < TRACES_MIN || count(high) < TRACES_MIN {
        return Err(NoLimitReason::TooFewTraces);
    }
    let [usual, high] =
        [0..at_ease.len(), at_ease.len()..both.len()].map(|range| shares(&broken_down, range));
    let total = |shares: &Shares| shares.total.iter().sum::<f64>() / shares.total.len().max(1) as f64;
    let grown_us = total(&high) - total(&usual);
    if grown_us <= 0.0 {
        return Err(NoLimitReason::NothingGrew);
    }
    let names = usual.of.keys().chain(high.of.keys());
    let (share, by_us, at_ease_us) = names
        .filter_map(|share| {
            let (low, error_low) = usual.mean_and_error(share);
            let (now, error_now) = high.mean_and_error(share);
            let is_sure = now - low > ERRORS_MIN * error_low.hypot(error_now);
            is_sure.then_some((share, now - low, low))
        })
        .max_by(|one, other| one.1.total_cmp(&other.1))
        .ok_or(NoLimitReason::NothingGrew)?;
    if by_us < SHARE_MIN * grown_us {
        return Err(NoLimitReason::Spread);
    }
    let kind = match share.kind {
        LimitKindOrder::Waits => LimitKind::Waits,
        LimitKindOrder::Entry => LimitKind::Entry,
        LimitKindOrder::Work => LimitKind::Work,
    };
    let queue = (kind != LimitKind::Work).then(|| waited_for(at_ease, dense, share, by_us)).flatten();
    // Requests of one service wait to enter another.
    let kind = match &queue {
        Some((group, _)) if group.enters => LimitKind::Entry,
        _ => kind,
    };
    Ok(Limit {
        kind,
        service: queue.as_ref().map_or_else(|| share.service.clone(), |(group, _)| group.service.clone()),
        name: queue.as_ref().map_or_else(|| share.name.clone(), |(group, _)| group.name.clone()),
        at_ease_ms: at_ease_us / 1e3,
        overloaded_ms: (at_ease_us + by_us) / 1e3,
        share: (by_us / grown_us).min(1.0),
        servers: queue.and_then(|(_, servers)| servers),
    })
}

/// The time of each share in each complete trace of a level, in microseconds.
#[derive(Default)]
struct Shares {
    of: BTreeMap<TimeShare, Vec<f64>>,
    total: Vec<f64>,
}

impl Shares {
    fn add(&mut self, share: TimeShare, trace: usize, us: f64) {
        let values = self.of.entry(share).or_default();
        values.resize(trace + 1, 0.0);
        values[trace] += us;
    }

    /// The mean over all traces, and its standard error.
    fn mean_and_error(&self, share: &TimeShare) -> (f64, f64) {
        let values = self.of.get(share).map_or(&[][..], Vec::as_slice);
        let n = self.total.len().max(1) as f64;
        let mean = values.iter().sum::<f64>() / n;
        let absent = n - values.len() as f64;
        let squares = values.iter().map(|us| (us - mean).powi(2)).sum::<f64>() + absent * mean * mean;
        (mean, (squares / n / n).sqrt())
    }
}

fn shares(broken_down: &Breakdowns, traces: std::ops::Range<usize>) -> Shares {
    let mut shares = Shares::default();
    for breakdown in broken_down.traces[traces].iter().flatten() {
        let trace = shares.total.len();
        shares.total.push(breakdown.parts.iter().map(|part| part.exclusive_us).sum());
        for part in &breakdown.parts {
            let kind = &broken_down.kinds[part.kind];
            let waits_us = part.lies.before_us + part.lies.between_us;
            let is_client = kind.service == REPORTER;
            let of = |order, name: String| TimeShare { kind: order, service: kind.service.clone(), name };
            if !is_client {
                shares.add(of(LimitKindOrder::Waits, String::new()), trace, waits_us);
                let name = analysis::statement::joined(&kind.name, &kind.detail);
                shares.add(of(LimitKindOrder::Work, name), trace, part.exclusive_us - waits_us);
            } else if kind.name == ACTION {
                shares.add(of(LimitKindOrder::Entry, String::new()), trace, part.exclusive_us);
            } else if kind.name == QUEUE_TIME_POINT {
                shares.add(of(LimitKindOrder::Work, kind.name.clone()), trace, part.exclusive_us);
            }
        }
    }
    shares
}

/// The group of calls whose waits grew most, and the servers that they wait for.
fn waited_for(
    at_ease: &[&TraceTree],
    dense: &[&TraceTree],
    share: &TimeShare,
    grown_us: f64,
) -> Option<(CallGroup, Option<ServerPool>)> {
    let usual = calls::of_traces(at_ease.iter().copied());
    let usual_us = |group: &CallGroup| usual.get(group).map_or(0, |calls| calls::usual_us(calls));
    let groups = calls::of_traces(dense.iter().copied());
    let fits = |group: &CallGroup| group.caller == share.service;
    let waited_us = |group: &CallGroup, calls: &[QueuedCall]| -> i64 {
        let usual_us = usual_us(group);
        calls.iter().map(|call| (call.start_us - call.ready_us - usual_us).max(0)).sum()
    };
    let (group, calls) = groups
        .iter()
        .filter(|(group, _)| fits(group))
        .max_by_key(|(group, calls)| waited_us(group, calls))?;
    // Calls that wait for something else do not explain it.
    let each_us = waited_us(group, calls) as f64 / dense.len().max(1) as f64;
    if each_us < SHARE_MIN * grown_us {
        return None;
    }
    let within = whole_span(dense);
    let found = within.and_then(|within| servers(calls, usual_us(group), &within));
    Some((group.clone(), found.filter(|found| found.busy >= BUSY_MIN)))
}

/// The time of which the iterations in a row have all calls: after those before them have ended, and before those after
/// them were due. The first tenth of them shows how long iterations take then.
pub(crate) fn whole_span(dense: &[&TraceTree]) -> Option<WholeSpan> {
    let last_us = |tree: &TraceTree| tree.points.iter().filter_map(|point| point.end_us()).max().unwrap_or(0);
    let end_us =
        |tree: &TraceTree| tree.first_unix_us.saturating_add(i64::try_from(last_us(tree)).unwrap_or(0));
    let mut spans: Vec<(i64, i64)> = dense.iter().map(|tree| (tree.first_unix_us, end_us(tree))).collect();
    spans.sort_unstable();
    let first = spans.len().div_ceil(10).max(5);
    let from_us = spans.iter().take(first).map(|(_, end)| *end).max()?;
    let until_us = spans.last()?.0;
    let whole_us = until_us - spans.first()?.0;
    // A backlog that is longer than the row leaves nothing to see.
    (until_us - from_us > whole_us / 5).then_some(WholeSpan { from_us, until_us })
}
