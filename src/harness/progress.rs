//! The progress of a load, as events.

use std::collections::VecDeque;
use std::time::Duration;

use measure::ids::RunIds;
use plan::Plan;
use runner::Progress;
use runner::observers::Observer;
use terms::control::ControlShare;

use super::event::{Event, Sink, WorkloadProgress};

/// The rate is measured over this time.
const RATE_OVER: Duration = Duration::from_secs(2);

/// Turns reports of the runner into events.
pub(super) struct AsEvents<'a> {
    events: &'a Sink,
    ids: RunIds,
    profiled_percent: Option<f64>,
    /// The workloads that are under way.
    under_way: Vec<ActiveWorkload>,
}

struct ActiveWorkload {
    index: usize,
    name: String,
    times: Option<u64>,
    duration: Option<Duration>,
    timeout: Duration,
    /// Counts of ended iterations at some times in the last seconds.
    before: VecDeque<(Duration, u64)>,
}

impl ActiveWorkload {
    fn rate(&self, elapsed: Duration, ended: u64) -> f64 {
        let (since, had) = self.before.front().copied().unwrap_or_default();
        let seconds = elapsed.saturating_sub(since).as_secs_f64().max(1e-3);
        ended.saturating_sub(had) as f64 / seconds
    }

    fn remember(&mut self, progress: &Progress<'_>) {
        self.before.push_back((progress.elapsed, progress.ended));
        while self.before.front().is_some_and(|(at, _)| *at + RATE_OVER < progress.elapsed) {
            self.before.pop_front();
        }
    }
}

impl<'a> AsEvents<'a> {
    pub(super) fn new(events: &'a Sink, ids: RunIds, profiled: Option<ControlShare>) -> Self {
        let profiled_percent = profiled.map(|control| 100.0 - control.percent());
        Self { events, ids, profiled_percent, under_way: Vec::new() }
    }

    fn at_start(&self, workload: &ActiveWorkload) -> WorkloadProgress {
        WorkloadProgress {
            workload: workload.index,
            name: workload.name.clone(),
            times: workload.times,
            duration: workload.duration,
            timeout: Some(workload.timeout),
            elapsed: Duration::ZERO,
            ended: 0,
            warm_up: 0,
            under_way: 0,
            queued: 0,
            dropped: 0,
            failed: 0,
            rate: 0.0,
            p50_ns: None,
            p99_ns: None,
            queue_time_p99_ns: 0,
            slowest: None,
            profiled_percent: self.profiled_percent,
        }
    }

    fn figures(&self, workload: &ActiveWorkload, progress: &Progress<'_>) -> WorkloadProgress {
        let total = progress.total;
        WorkloadProgress {
            elapsed: progress.elapsed,
            ended: progress.ended,
            warm_up: progress.warm_up,
            under_way: progress.under_way,
            queued: progress.queued,
            dropped: progress.dropped,
            failed: total.failed,
            rate: workload.rate(progress.elapsed, progress.ended),
            p50_ns: total.percentile_ns(50.0),
            p99_ns: total.percentile_ns(99.0),
            queue_time_p99_ns: progress.queue_time.percentile_ns(99.0),
            slowest: total.slowest.map(|(ns, id)| (ns, self.ids.trace_id(id))),
            ..self.at_start(workload)
        }
    }

    fn position(&self, progress: &Progress<'_>) -> Option<usize> {
        self.under_way.iter().position(|workload| workload.index == progress.workload)
    }
}

impl Observer for AsEvents<'_> {
    fn begin(&mut self, plan: &Plan, workload: usize) {
        let runner = &plan.workloads[workload].runner;
        let begun = ActiveWorkload {
            index: workload,
            name: plan.workloads[workload].name.clone(),
            times: runner.times().map(|times| plan.shard.part_of(times)),
            duration: runner.duration(),
            timeout: runner.timeout,
            before: VecDeque::new(),
        };
        self.events.event(&Event::WorkloadBegan(&self.at_start(&begun)));
        self.under_way.push(begun);
    }

    fn progress(&mut self, progress: &Progress<'_>) {
        let Some(at) = self.position(progress) else { return };
        self.events.event(&Event::WorkloadProgress(&self.figures(&self.under_way[at], progress)));
        self.under_way[at].remember(progress);
    }

    fn end(&mut self, progress: &Progress<'_>) {
        let Some(at) = self.position(progress) else { return };
        let mut workload = self.under_way.remove(at);
        // The last figures are for the whole load.
        workload.before.clear();
        self.events.event(&Event::WorkloadEnded(&self.figures(&workload, progress)));
    }
}
