//! Running workloads: the state that workers share, which is small and mostly read.

use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use base::clock::{Nanos, saturating_nanos};
use config::runner::WarmUp;
use measure::log::IterationCounts;
use measure::recorder::Live;
use plan::WorkloadPlan;
use plan::shard::Shard;
use terms::runner::{Model, OpenModel};

use super::count::{CachePadded, Spread, WorkerCounters};
use super::{LoadInput, Progress};

/// Workers need a moment to start; the first arrivals must not be late because of it.
const LEAD: Duration = Duration::from_millis(20);

/// Workloads that run at the same time.
pub(super) struct WorkloadGroup {
    pub(super) load: Arc<LoadInput>,
    pub(super) workloads: Vec<Arc<RunningWorkload>>,
    /// When they started, on the run's clock.
    pub(super) started_ns: Nanos,
}

impl WorkloadGroup {
    pub(super) fn new(load: &Arc<LoadInput>, workloads: &[usize]) -> Self {
        let models = || workloads.iter().map(|index| &load.plan.workloads[*index].runner.model);
        let open = models().filter(|model| matches!(model, Model::Open(_))).count();
        let lead = if open > 0 { LEAD } else { Duration::ZERO };
        let running = |index: &usize| Arc::new(RunningWorkload::new(load, *index, open));
        Self {
            workloads: workloads.iter().map(running).collect(),
            started_ns: load.context.clock.now_ns() + saturating_nanos(lead),
            load: Arc::clone(load),
        }
    }

    /// The number of workers with something to do.
    pub(super) fn workers(&self) -> u32 {
        self.workloads.iter().map(|running| running.workers).max().unwrap_or(1)
    }

    /// The position of a workload in the group.
    pub(super) fn position(&self, workload: u16) -> Option<usize> {
        self.workloads.iter().position(|running| running.workload == workload)
    }
}

pub(super) struct RunningWorkload {
    /// Its index in the plan.
    pub(super) workload: u16,
    pub(super) name: Arc<str>,
    /// The number of workers that take part.
    pub(super) workers: u32,
    /// The most virtual users.
    pub(super) users_max: u32,
    /// One for each worker.
    pub(super) counters: Vec<CachePadded<WorkerCounters>>,
    claims: Claims,
    /// Which part of the whole load this is: all counts here are its own.
    shard: Shard,
    /// How long after its group it starts.
    start_after_ns: Nanos,
    /// Iterations with this own number or a higher one have no row of data, so they do not start.
    rows_max: u64,
    /// True once an iteration did not start because of that.
    used_up: AtomicBool,
    /// Workers that still have something to do.
    active_workers: AtomicU32,
    ended_after: OnceLock<Duration>,
    end_reported: AtomicBool,
}

impl RunningWorkload {
    fn new(load: &LoadInput, index: usize, open_workloads: usize) -> Self {
        let (workload, shard) = (&load.plan.workloads[index], load.plan.shard);
        let (users_max, workers_max) = match &workload.runner.model {
            Model::Closed(closed) => {
                let users = shard.part_of_users(closed.users.users_max());
                (users, users)
            }
            Model::Open(open) => {
                let share = load.users_max / u32::try_from(open_workloads.max(1)).unwrap_or(1);
                let own = |users| shard.part_of_users(users);
                let users = open.concurrency_max.map_or(share, own).max(1);
                let arrivals = shard.part_of(open.arrivals.total());
                (users, users.min(u32::try_from(arrivals).unwrap_or(u32::MAX)))
            }
        };
        let allowed = load.workers.min(workload.runner.workers_max.unwrap_or(u32::MAX));
        let workers = allowed.clamp(1, workers_max.max(1));
        Self {
            workload: u16::try_from(index).unwrap_or(u16::MAX),
            name: Arc::from(workload.name.as_str()),
            workers,
            users_max,
            counters: (0..workers).map(|_| CachePadded::default()).collect(),
            claims: Claims::new(workload, shard),
            shard,
            start_after_ns: saturating_nanos(workload.start_after),
            rows_max: workload.rows_max().map_or(u64::MAX, |(rows, _)| shard.part_of(rows)),
            used_up: AtomicBool::new(false),
            active_workers: AtomicU32::new(workers),
            ended_after: OnceLock::new(),
            end_reported: AtomicBool::new(false),
        }
    }

    /// When it starts, on the run's clock.
    #[inline]
    pub(super) fn started_ns(&self, group: &WorkloadGroup) -> Nanos {
        group.started_ns + self.start_after_ns
    }

    /// The time since its start; zero before.
    #[inline]
    pub(super) fn elapsed_ns(&self, group: &WorkloadGroup) -> Nanos {
        group.load.context.clock.now_ns().saturating_sub(self.started_ns(group))
    }

    #[inline]
    pub(super) fn plan<'a>(&self, load: &'a LoadInput) -> &'a WorkloadPlan {
        &load.plan.workloads[usize::from(self.workload)]
    }

    /// This worker's share of `of`. If `of` does not divide evenly, the first workers get one more.
    pub(super) fn share(&self, of: u32, worker: u32) -> u32 {
        of / self.workers + u32::from(worker < of % self.workers)
    }

    /// This shard's part of `of` users, or of `of` places for users.
    pub(super) fn part_of_users(&self, of: u32) -> u32 {
        self.shard.part_of_users(of)
    }

    /// The number in the whole load of an iteration or a user, by its number in this shard.
    #[inline]
    pub(super) fn number(&self, own: u64) -> u64 {
        self.shard.number(own)
    }

    /// The own number of the next arrival of the worker that handles arrival `number`; a worker's first one has its number.
    ///
    /// In each `users_max` arrivals a worker has as many as it has users. Else, with 5 users, a worker with 2 of them
    /// would get half of the arrivals, and they would wait while users of the other one are idle.
    pub(super) fn next_arrival(&self, number: u64) -> u64 {
        next_arrival(number, u64::from(self.workers), u64::from(self.users_max))
    }

    /// A worker has nothing more to do.
    pub(super) fn leave(&self, group: &WorkloadGroup) {
        if self.active_workers.fetch_sub(1, Ordering::AcqRel) == 1 {
            let _ = self.ended_after.set(Duration::from_nanos(self.elapsed_ns(group)));
        }
    }

    /// The number of arrivals of an open model that there are rows for.
    pub(super) fn arrivals(&self, model: &OpenModel) -> u64 {
        self.arrivals_wanted(model).min(self.rows_max)
    }

    /// The number of arrivals of an open model.
    pub(super) fn arrivals_wanted(&self, model: &OpenModel) -> u64 {
        self.shard.part_of(model.arrivals.total())
    }

    /// An iteration did not start because it has no row.
    pub(super) fn set_used_up(&self) {
        self.used_up.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_used_up(&self) -> bool {
        self.used_up.load(Ordering::Relaxed)
    }

    /// Why the workload ended early, if its data was used up.
    pub(super) fn note(&self, load: &LoadInput) -> Option<String> {
        let (rows, data) = self.plan(load).rows_max().filter(|_| self.is_used_up())?;
        let name = &self.name;
        Some(format!(
            "{name} ended after {rows} iterations, because its data `{data}` was used up (on_end: stop)"
        ))
    }

    /// True when no worker has anything left to do.
    pub(super) fn is_over(&self) -> bool {
        self.ended_after.get().is_some()
    }

    /// The coordinator has reported the end to the observer.
    pub(super) fn set_end_reported(&self) {
        self.end_reported.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_end_reported(&self) -> bool {
        self.end_reported.load(Ordering::Relaxed)
    }

    /// The number of ended iterations that have reached the coordinator, including the warm-up.
    pub(super) fn recorded(&self, total: &Live) -> u64 {
        total.ended() + total.warm_up
    }

    /// How many iterations have begun.
    pub(super) fn begun(&self) -> u64 {
        self.counters.iter().map(|CachePadded(counters)| counters.started.get()).sum()
    }

    pub(super) fn progress<'a>(&self, group: &WorkloadGroup, total: &'a Live) -> Progress<'a> {
        let sum = |value: fn(&WorkerCounters) -> u64| {
            self.counters.iter().map(|CachePadded(counters)| value(counters)).sum()
        };
        let queue_time = Spread::default();
        self.counters.iter().for_each(|CachePadded(counters)| queue_time.add(&counters.queue_time));
        let elapsed = Duration::from_nanos(self.elapsed_ns(group));
        Progress {
            workload: usize::from(self.workload),
            elapsed: self.ended_after.get().copied().unwrap_or(elapsed),
            total,
            under_way: sum(WorkerCounters::under_way),
            queued: sum(|counters| counters.queued.get()),
            dropped: sum(|counters| counters.dropped.get()),
            ended: sum(|counters| counters.ended.get()),
            warm_up: sum(|counters| counters.warm_up.get()),
            queue_time,
        }
    }

    /// The counts of iterations, once all workers have ended.
    pub(super) fn issued(&self, load: &LoadInput, total: &Live) -> IterationCounts {
        let sum = |value: fn(&WorkerCounters) -> u64| {
            self.counters.iter().map(|CachePadded(counters)| value(counters)).sum()
        };
        let (planned, not_started) = match &self.plan(load).runner.model {
            Model::Closed(_) => self.claims.planned(self.rows_max),
            Model::Open(open) => {
                let arrived: u64 = sum(|counters| counters.arrived.get());
                let planned = self.arrivals(open);
                (Some(planned), Some(planned.saturating_sub(arrived)))
            }
        };
        IterationCounts {
            planned,
            issued: sum(|counters| counters.started.get() + counters.given_up.get()),
            dropped: sum(|counters| counters.dropped.get()),
            unrecorded: total.unrecorded,
            not_started,
        }
    }

    /// The next iteration of a closed model for this worker, or `None`. `local` counts the worker's
    /// iterations.
    #[inline]
    pub(super) fn claim(&self, worker: u32, local: &mut u64, elapsed_ns: Nanos) -> Option<Claim> {
        let claim = self.claims.next(self.workers, worker, local, elapsed_ns)?;
        if claim.number >= self.rows_max {
            self.set_used_up();
            return None;
        }
        Some(Claim { number: self.number(claim.number), ..claim })
    }
}

/// An iteration to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Claim {
    pub(super) number: u64,
    pub(super) warm_up: bool,
}

/// The remaining iterations of a shard's closed model, by their own numbers. If nothing limits their number, workers count
/// independently and share nothing.
struct Claims {
    times: Option<u64>,
    duration_ns: Option<Nanos>,
    warm_up: Option<WarmUp>,
    /// The number of claimed iterations.
    next: CachePadded<AtomicU64>,
    /// The number of claimed iterations that are measured, if the clock ends the warm-up.
    measured: CachePadded<AtomicU64>,
    /// When the first measured iteration was claimed, if a number of iterations ends the warm-up.
    measured_from_ns: OnceLock<Nanos>,
}

impl Claims {
    fn new(workload: &WorkloadPlan, shard: Shard) -> Self {
        let (times, duration) = match &workload.runner.model {
            Model::Closed(closed) => (closed.times, closed.duration),
            Model::Open(_) => (None, None),
        };
        let (warm_up, times) = match workload.runner.warm_up {
            // The first ones of the whole load: one shard may have one more of them than another, and one less of the rest.
            Some(WarmUp::Times(warm_up)) => {
                let own = shard.part_of(warm_up);
                let all = |times: u64| shard.part_of(warm_up.saturating_add(times));
                (Some(WarmUp::Times(own)), times.map(|times| all(times) - own))
            }
            warm_up => (warm_up, times.map(|times| shard.part_of(times))),
        };
        Self {
            times,
            duration_ns: duration.map(saturating_nanos),
            warm_up,
            next: CachePadded::default(),
            measured: CachePadded::default(),
            measured_from_ns: OnceLock::new(),
        }
    }

    /// The number of planned iterations, including the warm-up, and the number of these that were not claimed; `None`
    /// if only the clock bounds them.
    fn planned(&self, rows_max: u64) -> (Option<u64>, Option<u64>) {
        let Some(times) = self.times else { return (None, None) };
        let count = |counter: &CachePadded<AtomicU64>| counter.0.load(Ordering::Relaxed);
        let claimed = count(&self.next);
        let (planned, claimed) = match self.warm_up {
            None => (times, claimed.min(times)),
            Some(WarmUp::Times(warm_up)) => {
                let planned = warm_up.saturating_add(times);
                (planned, claimed.min(planned))
            }
            // The clock ends the warm-up: the plan includes every warm-up iteration that was claimed.
            Some(WarmUp::For(_)) => {
                let measured = count(&self.measured).min(times);
                (claimed.saturating_sub(measured).saturating_add(times), claimed)
            }
        };
        let planned = planned.min(rows_max);
        (Some(planned), Some(planned.saturating_sub(claimed)))
    }

    #[inline]
    fn next(&self, workers: u32, worker: u32, local: &mut u64, elapsed_ns: Nanos) -> Option<Claim> {
        let ended = |from_ns: Nanos| {
            self.duration_ns.is_some_and(|lasts| elapsed_ns >= from_ns.saturating_add(lasts))
        };
        let claim = |counter: &CachePadded<AtomicU64>| counter.0.fetch_add(1, Ordering::Relaxed);
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
                // Without a warm-up, every iteration is measured.
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

/// The next arrival of the worker that handles arrival `number`.
fn next_arrival(number: u64, workers: u64, users_max: u64) -> u64 {
    let users = users_max.max(workers);
    let user = number % users;
    if user + workers < users { number + workers } else { number - user + users + user % workers }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claims(times: Option<u64>, duration_ns: Option<u64>, warm_up: Option<WarmUp>) -> Claims {
        let (next, measured) = (CachePadded::default(), CachePadded::default());
        Claims { times, duration_ns, warm_up, next, measured, measured_from_ns: OnceLock::new() }
    }

    /// The claims of two workers that alternate, one claim every ten nanoseconds.
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
        assert_eq!(numbers.last().copied(), (numbers.len() as u64).checked_sub(1), "no number is skipped");
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

    #[test]
    fn workers_get_arrivals_as_they_have_users() {
        let rows = [
            (2, 5, &[60, 40][..]),
            (3, 3, &[34, 33, 33]),
            (3, 1, &[34, 33, 33]),
            (2, 100_000, &[50, 50]),
            (1, 7, &[100]),
        ];
        for (workers, users, expected) in rows {
            let of = |worker| {
                std::iter::successors(Some(worker), |number| Some(next_arrival(*number, workers, users)))
                    .take_while(|number| *number < 100)
            };
            let mut all: Vec<u64> = (0..workers).flat_map(of).collect();
            let counts: Vec<usize> = (0..workers).map(|worker| of(worker).count()).collect();
            all.sort_unstable();
            assert!(all.into_iter().eq(0..100), "{workers} workers, {users} users");
            assert_eq!(counts, expected, "{workers} workers, {users} users");
        }
    }
}
