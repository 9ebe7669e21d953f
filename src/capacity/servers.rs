//! How many calls of a kind a service works on at once while others wait: the size of a pool, workers, or a lock.
//!
//! While a call waits, the number of open calls stands on a plateau, and that is the number of servers. It is lower for a
//! moment when a server is handed over, and on a busy machine for longer, but it is never higher: that tells a plateau from
//! calls that overlap at will. All calls of the window must be there. If half of them are missing, the plateau is too, and
//! the edge above it. So there is no answer without both. All times must be of one clock.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Fewer waiting calls say nothing.
const WAITING_MIN: usize = 30;
/// The plateau must hold this share of the time in which calls wait.
const PLATEAU_MIN: f64 = 0.5;
/// More calls than the plateau's may be open for this share of it at most.
const ABOVE_MAX: f64 = 0.02;

/// One call, in microseconds of one clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueuedCall {
    /// When it could have begun: its caller had nothing else to do.
    pub ready_us: i64,
    /// When it began.
    pub start_us: i64,
    /// When it ended, not before it began.
    pub end_us: i64,
}

/// A time of which all calls are there, in microseconds of their clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WholeSpan {
    /// From here on.
    pub from_us: i64,
    /// Up to here.
    pub until_us: i64,
}

impl WholeSpan {
    /// Its length.
    #[must_use]
    pub fn us(&self) -> i64 {
        self.until_us - self.from_us
    }
}

/// ServerPool that calls wait for.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct ServerPool {
    /// How many there are.
    pub count: u32,
    /// The share of the waiting time during which just so many calls were open, from 0 to 1.
    pub plateau: f64,
    /// How much of their time the servers were busy, from 0 to 1.
    pub busy: f64,
    /// The mean time that a call waited, in milliseconds.
    pub waits_ms: f64,
    /// The mean time that a call took once it had begun, in milliseconds.
    pub works_ms: f64,
    /// How many calls this was seen in.
    pub calls: u64,
}

/// The servers that these calls wait for; `None` if too few of them wait, or if the number of open calls does not stand
/// still while they do. A call waits only for what exceeds `usual_us`: the time that also passes before it where
/// nothing waits.
#[must_use]
pub fn servers(calls: &[QueuedCall], usual_us: i64, within: &WholeSpan) -> Option<ServerPool> {
    let usual_us = usual_us.max(0);
    let inside = |call: &&QueuedCall| call.start_us >= within.from_us && call.start_us <= within.until_us;
    let waits = |call: &&QueuedCall| call.start_us - call.ready_us > usual_us;
    let seen: Vec<&QueuedCall> = calls.iter().filter(inside).collect();
    if seen.iter().filter(|call| waits(call)).count() < WAITING_MIN {
        return None;
    }
    let open_us = open_while_waiting(calls, usual_us, within);
    let all_us = open_us.iter().sum::<i64>().max(1) as f64;
    let (count, most_us) = open_us.iter().enumerate().skip(1).max_by_key(|(_, us)| **us)?;
    let plateau = *most_us as f64 / all_us;
    let above = open_us[count + 1..].iter().sum::<i64>() as f64 / all_us;
    if plateau < PLATEAU_MIN || above > ABOVE_MAX {
        return None;
    }
    let part =
        |call: &QueuedCall| (call.end_us.min(within.until_us) - call.start_us.max(within.from_us)).max(0);
    let worked_us: i64 = calls.iter().map(part).sum();
    let waited_us = seen.iter().map(|call| (call.start_us - call.ready_us - usual_us).max(0)).sum::<i64>();
    let lasted_us = seen.iter().map(|call| call.end_us - call.start_us).sum::<i64>();
    let each = |us: i64| us as f64 / 1e3 / seen.len() as f64;
    Some(ServerPool {
        count: u32::try_from(count).ok()?,
        plateau,
        busy: (worked_us as f64 / (count as f64 * within.us().max(1) as f64)).min(1.0),
        waits_ms: each(waited_us),
        works_ms: each(lasted_us),
        calls: seen.len() as u64,
    })
}

/// For each number of open calls, how long so many were open while at least one waited.
fn open_while_waiting(calls: &[QueuedCall], usual_us: i64, within: &WholeSpan) -> Vec<i64> {
    // (time, change of open calls, change of waiting calls); of changes at one time, ends come first.
    let mut changes: Vec<(i64, i32, i32)> = Vec::with_capacity(calls.len() * 4);
    for call in calls {
        let waits_from_us = call.ready_us + usual_us;
        if call.start_us > waits_from_us {
            changes.push((waits_from_us, 0, 1));
            changes.push((call.start_us, 0, -1));
        }
        changes.push((call.start_us, 1, 0));
        changes.push((call.end_us, -1, 0));
    }
    changes.sort_unstable();
    let mut spent_us: Vec<i64> = Vec::new();
    let (mut open, mut waiting, mut at_us) = (0_i32, 0_i32, i64::MIN);
    for (us, of_open, of_waiting) in changes {
        let (from_us, until_us) = (at_us.max(within.from_us), us.min(within.until_us));
        if waiting > 0 && until_us > from_us {
            let place = usize::try_from(open).unwrap_or(0);
            if spent_us.len() <= place {
                spent_us.resize(place + 1, 0);
            }
            spent_us[place] += until_us - from_us;
        }
        (open, waiting, at_us) = (open + of_open, waiting + of_waiting, us);
    }
    spent_us
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::{self, QueueRules};

    /// Up to the last arrival, all calls are there.
    fn whole(calls: &[QueuedCall]) -> WholeSpan {
        WholeSpan { from_us: 0, until_us: calls.last().unwrap().ready_us }
    }

    /// The series of the design: every number of servers is found, and the plateau holds the waiting time; with half of
    /// the calls left out nothing is said.
    #[test]
    fn the_servers_of_simulated_queues_are_counted() {
        let (mut all, mut right, mut said_of_halves) = (0, 0, 0);
        for count in [1_usize, 3, 5, 8, 16] {
            for utilisation in [0.6, 0.85, 0.95] {
                for seed in 0..5 {
                    let rules = QueueRules { servers: count, mean_work_us: 10_000.0, sigma: 0.8, seed };
                    let rate = count as f64 * 100.0 * utilisation;
                    let calls = queue::calls(&rules, 0, rate, 3_000.0 / rate, true);
                    all += 1;
                    // At low utilisation of many servers next to nothing waits.
                    let Some(found) = servers(&calls, 0, &whole(&calls)) else {
                        right += u32::from(
                            calls.iter().filter(|call| call.start_us > call.ready_us).count() < WAITING_MIN,
                        );
                        continue;
                    };
                    right += u32::from(found.count as usize == count && found.plateau > 0.99);
                    assert!((found.busy - utilisation).abs() < 0.15, "{found:?}, {utilisation}");
                    let half: Vec<QueuedCall> = calls.into_iter().step_by(2).collect();
                    said_of_halves += u32::from(
                        servers(&half, 0, &whole(&half)).is_some_and(|found| found.count as usize != count),
                    );
                }
            }
        }
        assert_eq!(right, all);
        assert!(said_of_halves * 20 <= all, "{said_of_halves} of {all} are wrong with half of the calls");
    }

    /// What passes before every call is no waiting.
    #[test]
    fn usual_gaps_do_not_count() {
        let calls: Vec<QueuedCall> = (0..1_000)
            .map(|number| QueuedCall {
                ready_us: number * 10_000,
                start_us: number * 10_000 + 500,
                end_us: number * 10_000 + 3_000,
            })
            .collect();
        assert_eq!(servers(&calls, 600, &whole(&calls)), None);
        // While they wait, none is open: nothing to wait for.
        assert_eq!(servers(&calls, 0, &whole(&calls)), None);
    }

    /// Without a queue, calls overlap at will: a processor that is shared has no plateau.
    #[test]
    fn shared_processors_have_no_servers() {
        let mut drawn = fastrand::Rng::with_seed(1);
        let calls: Vec<QueuedCall> = (0..2_000)
            .map(|number| {
                let ready_us = number * 1_000;
                let start_us = ready_us + drawn.i64(0..2_000);
                QueuedCall { ready_us, start_us, end_us: start_us + drawn.i64(1_000..30_000) }
            })
            .collect();
        assert_eq!(servers(&calls, 0, &whole(&calls)), None);
    }
}
