//! Workloads under way: what the workers share, which is little and mostly read.

use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use crate::base::clock::{Nanos, saturating_nanos};
use crate::config::runner::WarmUp;
use crate::measure::log::Issued;
use crate::measure::recorder::Live;
use crate::plan::Workload;
use crate::plan::runner::Model;

use super::count::{Apart, Counters, Spread};
use super::{Load, Progress};

/// Workers need a moment to begin; the first arrivals shall not be late on that account.
const LEAD: Duration = Duration::from_millis(20);

/// Workloads that run at the same time.
pub(super) struct Group {
    pub(super) load: Arc<Load>,
    pub(super) workloads: Vec<Arc<Running>>,
    /// The zero of all their shapes, on the run's clock.
    pub(super) started_ns: Nanos,
}

impl Group {
    pub(super) fn new(load: &Arc<Load>, workloads: &[usize]) -> Self {
        let models = || workloads.iter().map(|index| &load.plan.workloads[*index].runner.model);
        let open = models().filter(|model| matches!(model, Model::Open(_))).count();
        let lead = if open > 0 { LEAD } else { Duration::ZERO };
        let running = |index: &usize| Arc::new(Running::new(load, *index, open));
        Self {
            workloads: workloads.iter().map(running).collect(),
            started_ns: load.context.clock.now_ns() + saturating_nanos(lead),
            load: Arc::clone(load),
        }
    }

    /// How many workers have something to do.
    pub(super) fn workers(&self) -> u32 {
        self.workloads.iter().map(|running| running.workers).max().unwrap_or(1)
    }

    /// Where a workload stands in the group.
    pub(super) fn position(&self, workload: u16) -> Option<usize> {
        self.workloads.iter().position(|running| running.workload == workload)
    }

    pub(super) fn elapsed_ns(&self) -> Nanos {
        self.load.context.clock.now_ns().saturating_sub(self.started_ns)
    }
}

/// One workload under way.
pub(super) struct Running {
    /// Its index in the plan.
    pub(super) workload: u16,
    pub(super) name: Arc<str>,
    /// How many workers take part.
    pub(super) workers: u32,
    /// The most virtual users.
    pub(super) users_max: u32,
    /// One for each worker.
    pub(super) counters: Vec<Apart<Counters>>,
    claims: Claims,
    /// Workers that still have something to do.
    left: AtomicU32,
    ended_after: OnceLock<Duration>,
    told: AtomicBool,
}

impl Running {
    fn new(load: &Load, index: usize, open_workloads: usize) -> Self {
        let workload = &load.plan.workloads[index];
        let (users_max, workers_max) = match &workload.runner.model {
            Model::Closed(closed) => {
                let users = closed.users.users_max();
                (users, users)
            }
            Model::Open(open) => {
                let share = load.users_max / u32::try_from(open_workloads.max(1)).unwrap_or(1);
                let users = open.concurrency_max.unwrap_or(share).max(1);
                (users, users.min(u32::try_from(open.arrivals.total()).unwrap_or(u32::MAX)))
            }
        };
        let workers = load.workers.clamp(1, workers_max.max(1));
        Self {
            workload: u16::try_from(index).unwrap_or(u16::MAX),
            name: Arc::from(workload.name.as_str()),
            workers,
            users_max,
            counters: (0..workers).map(|_| Apart::default()).collect(),
            claims: Claims::new(workload),
            left: AtomicU32::new(workers),
            ended_after: OnceLock::new(),
            told: AtomicBool::new(false),
        }
    }

    /// Its plan.
    pub(super) fn plan<'a>(&self, load: &'a Load) -> &'a Workload {
        &load.plan.workloads[usize::from(self.workload)]
    }

    /// This worker's share of `of`: the first workers have one more where it does not divide evenly.
    pub(super) fn share(&self, of: u32, worker: u32) -> u32 {
        of / self.workers + u32::from(worker < of % self.workers)
    }

    /// A worker has nothing more to do.
    pub(super) fn leave(&self, group: &Group) {
        if self.left.fetch_sub(1, Ordering::AcqRel) == 1 {
            let _ = self.ended_after.set(Duration::from_nanos(group.elapsed_ns()));
        }
    }

    /// True when no worker has anything to do any more.
    pub(super) fn is_over(&self) -> bool {
        self.ended_after.get().is_some()
    }

    /// The coordinator has said so.
    pub(super) fn tell(&self) {
        self.told.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_told(&self) -> bool {
        self.told.load(Ordering::Relaxed)
    }

    /// How many of the iterations that ended have reached the coordinator, with those of the warm-up.
    pub(super) fn recorded(&self, total: &Live) -> u64 {
        total.ended() + total.warm_up
    }

    pub(super) fn progress<'a>(&self, group: &Group, total: &'a Live) -> Progress<'a> {
        let sum =
            |value: fn(&Counters) -> u64| self.counters.iter().map(|Apart(counters)| value(counters)).sum();
        let lag = Spread::default();
        self.counters.iter().for_each(|Apart(counters)| lag.add(&counters.lag));
        let elapsed = Duration::from_nanos(group.elapsed_ns());
        Progress {
            workload: usize::from(self.workload),
            elapsed: self.ended_after.get().copied().unwrap_or(elapsed),
            total,
            under_way: sum(Counters::under_way),
            queued: sum(|counters| counters.queued.get()),
            dropped: sum(|counters| counters.dropped.get()),
            ended: sum(|counters| counters.ended.get()),
            warm_up: sum(|counters| counters.warm_up.get()),
            lag,
        }
    }

    /// What became of the iterations that were planned, once all workers have gone.
    pub(super) fn issued(&self, load: &Load, total: &Live) -> Issued {
        let sum =
            |value: fn(&Counters) -> u64| self.counters.iter().map(|Apart(counters)| value(counters)).sum();
        let (planned, not_started) = match &self.plan(load).runner.model {
            Model::Closed(_) => self.claims.planned(),
            Model::Open(open) => {
                let arrived: u64 = sum(|counters| counters.arrived.get());
                (Some(open.arrivals.total()), Some(open.arrivals.total().saturating_sub(arrived)))
            }
        };
        Issued {
            planned,
            issued: sum(|counters| counters.started.get() + counters.given_up.get()),
            dropped: sum(|counters| counters.dropped.get()),
            unrecorded: total.unrecorded,
            not_started,
        }
    }

    /// The next iteration of a closed model for this worker; `None` when there is none. `local`
    /// counts the worker's own.
    pub(super) fn claim(&self, worker: u32, local: &mut u64, elapsed_ns: Nanos) -> Option<Claim> {
        self.claims.next(self.workers, worker, local, elapsed_ns)
    }
}

/// An iteration to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Claim {
    pub(super) number: u64,
    pub(super) warm_up: bool,
}

/// Which iterations of a closed model are left. Where nothing bounds their number, workers count on
/// their own and share nothing.
struct Claims {
    times: Option<u64>,
    duration_ns: Option<Nanos>,
    warm_up: Option<WarmUp>,
    /// Iterations that were claimed.
    next: Apart<AtomicU64>,
    /// Those of them that are measured, while the clock ends the warm-up.
    measured: Apart<AtomicU64>,
    /// When the first measured one was claimed, while a number ends the warm-up.
    measured_from_ns: OnceLock<Nanos>,
}

impl Claims {
    fn new(workload: &Workload) -> Self {
        let (times, duration) = match &workload.runner.model {
            Model::Closed(closed) => (closed.times, closed.duration),
            Model::Open(_) => (None, None),
        };
        Self {
            times,
            duration_ns: duration.map(saturating_nanos),
            warm_up: workload.runner.warm_up,
            next: Apart::default(),
            measured: Apart::default(),
            measured_from_ns: OnceLock::new(),
        }
    }

    /// How many iterations there were to be, those of the warm-up with them, and how many of these nobody claimed;
    /// nothing where only the clock bounds them.
    fn planned(&self) -> (Option<u64>, Option<u64>) {
        let Some(times) = self.times else { return (None, None) };
        let count = |counter: &Apart<AtomicU64>| counter.0.load(Ordering::Relaxed);
        let claimed = count(&self.next);
        let (planned, claimed) = match self.warm_up {
            None => (times, claimed.min(times)),
            Some(WarmUp::Times(warm_up)) => {
                let planned = warm_up.saturating_add(times);
                (planned, claimed.min(planned))
            }
            // The clock ends the warm-up: as many as it has come to belong to the plan.
            Some(WarmUp::For(_)) => {
                let measured = count(&self.measured).min(times);
                (claimed.saturating_sub(measured).saturating_add(times), claimed)
            }
        };
        (Some(planned), Some(planned - claimed))
    }

    fn next(&self, workers: u32, worker: u32, local: &mut u64, elapsed_ns: Nanos) -> Option<Claim> {
        let ended = |from_ns: Nanos| {
            self.duration_ns.is_some_and(|lasts| elapsed_ns >= from_ns.saturating_add(lasts))
        };
        let claim = |counter: &Apart<AtomicU64>| counter.0.fetch_add(1, Ordering::Relaxed);
        match (self.warm_up, self.times) {
            (Some(WarmUp::Times(warm_up)), times) => {
                if self.measured_from_ns.get().is_some_and(|from_ns| ended(*from_ns)) {
                    return None;
                }
                let number = claim(&self.next);
                if number >= warm_up {
                    self.measured_from_ns.get_or_init(|| elapsed_ns);
                }
                let within = times.is_none_or(|times| number < warm_up.saturating_add(times));
                within.then_some(Claim { number, warm_up: number < warm_up })
            }
            (warm_up, Some(times)) => {
                let until_ns = warm_up_ns(warm_up);
                if elapsed_ns < until_ns {
                    return Some(Claim { number: claim(&self.next), warm_up: true });
                }
                // Without a warm-up, the measured ones are all.
                if warm_up.is_some() && claim(&self.measured) >= times {
                    return None;
                }
                let number = claim(&self.next);
                (warm_up.is_some() || number < times).then_some(Claim { number, warm_up: false })
            }
            (warm_up, None) => {
                let until_ns = warm_up_ns(warm_up);
                if ended(until_ns) {
                    return None;
                }
                let number = *local * u64::from(workers) + u64::from(worker);
                *local += 1;
                Some(Claim { number, warm_up: elapsed_ns < until_ns })
            }
        }
    }
}

fn warm_up_ns(warm_up: Option<WarmUp>) -> Nanos {
    if let Some(WarmUp::For(lasts)) = warm_up { saturating_nanos(lasts) } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claims(times: Option<u64>, duration_ns: Option<u64>, warm_up: Option<WarmUp>) -> Claims {
        let (next, measured) = (Apart::default(), Apart::default());
        Claims { times, duration_ns, warm_up, next, measured, measured_from_ns: OnceLock::new() }
    }

    /// What two workers claim in turn, one claim every ten nanoseconds.
    fn claimed(claims: &Claims) -> (u64, u64) {
        let (mut numbers, mut warm, mut local) = (std::collections::BTreeSet::new(), 0, [0, 0]);
        for step in 0..1_000_u64 {
            let worker = (step % 2) as u32;
            let Some(claim) = claims.next(2, worker, &mut local[worker as usize], step * 10) else {
                continue;
            };
            assert!(numbers.insert(claim.number), "{} twice", claim.number);
            assert!(!claim.warm_up || warm == numbers.len() as u64 - 1, "a warm-up after the measured part");
            warm += u64::from(claim.warm_up);
        }
        assert_eq!(numbers.last().copied(), (numbers.len() as u64).checked_sub(1), "no number is left out");
        (warm, numbers.len() as u64 - warm)
    }

    #[test]
    fn every_number_is_claimed_once_and_the_warm_up_first() {
        let warm_for = Some(WarmUp::For(Duration::from_nanos(200)));
        let warm_times = Some(WarmUp::Times(30));
        let rows = [
            (Some(100), None, None, (0, 100)),
            (None, Some(500), None, (0, 50)),
            (Some(100), None, warm_for, (20, 100)),
            (Some(100), None, warm_times, (30, 100)),
            (None, Some(500), warm_for, (20, 50)),
            (None, Some(500), warm_times, (30, 50)),
        ];
        for (times, duration_ns, warm_up, expected) in rows {
            let claims = claims(times, duration_ns, warm_up);
            assert_eq!(claimed(&claims), expected, "{times:?} {duration_ns:?} {warm_up:?}");
        }
    }
}
