//! The load that was asked for and the load that was served, over time, in bounded memory.
//!
//! Counts of what became due, started and ended in each interval; their sums up to the end of an interval give how many
//! iterations were under way or waited then. The warm-up is load too, so it is counted here, and in the series only.

use std::time::Duration;

use super::model::{LoadSeries, OfferedLoad};
use measure::intervals::Intervals;
use measure::log::WorkloadHeader;
use measure::rows::IterationHead;
use measure::sample::CompletionStatus;
use terms::runner::{Model, Runner};

/// With fewer intervals than this, intervals in which little happens are not merged.
const INTERVALS_FEW: u64 = 24;
/// The fewest iterations in an interval for which its rates are meaningful.
const ITERATIONS_WANTED: u64 = 20;
/// A queue time below this share of the response time comes from timers.
const QUEUE_SHARE: f64 = 0.01;
const NS_PER_S: f64 = 1e9;

/// Collects the load of one workload.
#[derive(Clone, Debug)]
pub struct LoadBuilder {
    intervals: Intervals<LoadInterval>,
    first_due_ns: u64,
    /// The first and the last time at which a measured iteration was due, and how many were.
    measured_due_ns: Option<(u64, u64)>,
    measured: u64,
    /// The first and the last time at which a measured iteration ended, and how many did.
    measured_end_ns: Option<(u64, u64)>,
    measured_ended: u64,
}

/// What happened in an interval.
#[derive(Clone, Copy, Debug, Default)]
struct LoadInterval {
    due: u64,
    dropped: u64,
    started: u64,
    /// Waited until the run was cut off.
    given_up: u64,
    ended: u64,
    /// Ended, and those that were cut off.
    left: u64,
    queue_time_sum_ns: u64,
    queue_time_max_ns: u64,
}

impl LoadInterval {
    fn merge(&mut self, other: Self) {
        self.due += other.due;
        self.dropped += other.dropped;
        self.started += other.started;
        self.given_up += other.given_up;
        self.ended += other.ended;
        self.left += other.left;
        self.queue_time_sum_ns = self.queue_time_sum_ns.saturating_add(other.queue_time_sum_ns);
        self.queue_time_max_ns = self.queue_time_max_ns.max(other.queue_time_max_ns);
    }
}

/// What is known of a workload besides its iterations.
pub struct WorkloadFigures<'a> {
    /// Its header in the log.
    pub header: &'a WorkloadHeader,
    /// Completed iterations per second, from the first start to the last end.
    pub rate_per_s: f64,
    /// The queue time that 1 % of the iterations exceed.
    pub queue_time_p99_ns: u64,
    /// The response time that 1 % of the iterations exceed.
    pub response_p99_ns: u64,
    /// How late the load generator itself handled 1 % of the arrivals, at least.
    pub generator_late_ns: u64,
}

impl Default for LoadBuilder {
    fn default() -> Self {
        Self {
            intervals: Intervals::default(),
            first_due_ns: u64::MAX,
            measured_due_ns: None,
            measured: 0,
            measured_end_ns: None,
            measured_ended: 0,
        }
    }
}

impl LoadBuilder {
    /// Counts an iteration.
    #[inline]
    pub fn record(&mut self, head: &IterationHead) {
        self.first_due_ns = self.first_due_ns.min(head.due_ns);
        if !head.warm_up {
            let (first, last) = self.measured_due_ns.unwrap_or((head.due_ns, head.due_ns));
            self.measured_due_ns = Some((first.min(head.due_ns), last.max(head.due_ns)));
            self.measured += 1;
        }
        let dropped = head.ended == CompletionStatus::Dropped;
        let due = self.at(head.due_ns);
        due.due += 1;
        due.dropped += u64::from(dropped);
        if dropped {
            return;
        }
        let started = self.at(head.start_ns);
        started.queue_time_max_ns = started.queue_time_max_ns.max(head.queue_time_ns());
        if !head.has_started() {
            started.given_up += 1;
            return;
        }
        started.started += 1;
        started.queue_time_sum_ns = started.queue_time_sum_ns.saturating_add(head.queue_time_ns());
        let end_ns = head.start_ns.saturating_add(head.duration_ns);
        if head.ended.is_measured() && !head.warm_up {
            let (first, last) = self.measured_end_ns.unwrap_or((end_ns, end_ns));
            self.measured_end_ns = Some((first.min(end_ns), last.max(end_ns)));
            self.measured_ended += 1;
        }
        let left = self.at(end_ns);
        left.left += 1;
        left.ended += u64::from(head.ended.is_measured());
    }

    #[inline]
    fn at(&mut self, ns: u64) -> &mut LoadInterval {
        self.intervals.at(ns, LoadInterval::merge)
    }

    /// The load; `None` if nothing was due.
    #[must_use]
    pub fn finish(&self, known: &WorkloadFigures<'_>) -> Option<OfferedLoad> {
        let runner = Runner::from_json(&known.header.runner);
        let is_open = runner.as_ref().is_some_and(|runner| matches!(runner.model, Model::Open(_)));
        let series = self.clone().series(runner.as_ref())?;
        let most = |values: &[u64]| values.iter().copied().max().unwrap_or(0);
        let (busy_max, queued_max) = (most(&series.busy), most(&series.queued));
        let waited = queued_max > 0
            && known.queue_time_p99_ns as f64 > QUEUE_SHARE * known.response_p99_ns as f64
            && known.queue_time_p99_ns / 2 > known.generator_late_ns;
        Some(OfferedLoad {
            asked_per_s: if is_open { self.asked_per_s() } else { None },
            served_per_s: if is_open { self.served_per_s() } else { None }.unwrap_or(known.rate_per_s),
            users_max: runner.as_ref().and_then(Runner::concurrency),
            busy_max,
            queued_max,
            all_busy: is_open && (waited || most(&series.dropped) > 0),
            series: Some(series),
        })
    }

    fn asked_per_s(&self) -> Option<f64> {
        let (first_ns, last_ns) = self.measured_due_ns?;
        let between_s = last_ns.saturating_sub(first_ns) as f64 / NS_PER_S;
        (between_s > 0.0).then(|| (self.measured - 1) as f64 / between_s)
    }

    /// The rate at which iterations ended, to be held against the rate at which they were due. Both are taken between
    /// first and last: an answer that takes a second makes the load end a second later, but not at a lower rate. A
    /// service that stops and then catches up has served no more than was due.
    fn served_per_s(&self) -> Option<f64> {
        let between = |(first_ns, last_ns): (u64, u64)| last_ns.saturating_sub(first_ns) as f64 / NS_PER_S;
        let between_s = between(self.measured_end_ns?).max(between(self.measured_due_ns?));
        (between_s > 0.0).then(|| (self.measured_ended - 1) as f64 / between_s)
    }

    fn series(mut self, runner: Option<&Runner>) -> Option<LoadSeries> {
        let total: u64 = self.intervals.iter().map(|interval| interval.due).sum();
        while self.intervals.count() > INTERVALS_FEW && total / self.intervals.count() < ITERATIONS_WANTED {
            self.intervals.double(LoadInterval::merge);
        }
        if self.intervals.count() == 0 {
            return None;
        }
        let mut series = LoadSeries {
            start_s: self.intervals.start_ns() as f64 / NS_PER_S,
            step_s: self.intervals.step_ns() as f64 / NS_PER_S,
            ..LoadSeries::default()
        };
        let (mut busy, mut queued) = (0_u64, 0_u64);
        for seen in self.intervals.iter() {
            busy = (busy + seen.started).saturating_sub(seen.left);
            queued = (queued + seen.due).saturating_sub(seen.dropped + seen.started + seen.given_up);
            series.due.push(seen.due);
            series.dropped.push(seen.dropped);
            series.started.push(seen.started);
            series.ended.push(seen.ended);
            series.busy.push(busy);
            series.queued.push(queued);
            let mean_ns = seen.queue_time_sum_ns as f64 / seen.started.max(1) as f64;
            series.queue_time_mean_ms.push(mean_ns / 1e6);
            series.queue_time_max_ms.push(seen.queue_time_max_ns as f64 / 1e6);
        }
        match runner {
            Some(runner @ Runner { model: Model::Open(_), .. }) => {
                series.planned_per_s = self.planned(runner);
            }
            Some(runner) => series.planned_users = self.planned(runner),
            None => {}
        }
        Some(series)
    }

    /// The planned load in the middle of each interval.
    fn planned(&self, runner: &Runner) -> Vec<f64> {
        let (start_ns, lasts) = match &runner.model {
            Model::Open(open) => {
                let start_ns = self.first_due_ns.saturating_sub(open.arrivals.due_ns(0));
                (start_ns, Some(open.arrivals.lasts()))
            }
            Model::Closed(_) => (self.first_due_ns, runner.duration()),
        };
        let value = |number: u64| {
            let (start_of_all_ns, step_ns) = (self.intervals.start_ns(), self.intervals.step_ns());
            let middle_ns =
                start_of_all_ns.saturating_add(number.saturating_mul(step_ns)).saturating_add(step_ns / 2);
            let elapsed = Duration::from_nanos(middle_ns.saturating_sub(start_ns));
            if lasts.is_some_and(|lasts| elapsed > lasts) {
                return 0.0;
            }
            match &runner.model {
                Model::Open(open) => open.arrivals.rate_per_s(elapsed),
                Model::Closed(closed) => f64::from(closed.users.users(elapsed)),
            }
        };
        (0..self.intervals.count()).map(value).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    fn header(runner: Value) -> WorkloadHeader {
        WorkloadHeader { runner: runner.as_object().unwrap().clone(), ..WorkloadHeader::default() }
    }

    fn known(header: &WorkloadHeader) -> WorkloadFigures<'_> {
        WorkloadFigures {
            header,
            rate_per_s: 375.0,
            queue_time_p99_ns: 600_000_000,
            response_p99_ns: 700_000_000,
            generator_late_ns: 0,
        }
    }

    fn head(due_ms: u64, start_ms: u64, duration_ms: u64) -> IterationHead {
        IterationHead {
            due_ns: due_ms * 1_000_000,
            start_ns: start_ms * 1_000_000,
            duration_ns: duration_ms * 1_000_000,
            ..IterationHead::default()
        }
    }

    /// A service with 40 users of 100 ms each serves 400/s; 500/s are asked for.
    #[test]
    fn an_overload_shows_its_users_its_queue_and_both_rates() {
        let runner = json!({ "rps": { "rps": 500.0, "duration": 10.0, "max_concurrency": 40, "max_queue": 900,
            "timeout": 600.0 } });
        let header = header(runner);
        let (mut load, mut free_ms) = (LoadBuilder::default(), [0_u64; 40]);
        for n in 0..5_000_u64 {
            let free_ms = &mut free_ms[n as usize % 40];
            let start_ms = (*free_ms).max(n * 2);
            *free_ms = start_ms + 100;
            load.record(&head(n * 2, start_ms, 100));
        }
        let seen = load.finish(&known(&header)).unwrap();
        let series = seen.series.unwrap();
        assert_eq!((seen.users_max, seen.busy_max, seen.all_busy), (Some(40), 40, true));
        assert!((seen.asked_per_s.unwrap() - 500.0).abs() < 0.1, "{:?}", seen.asked_per_s);
        assert!((900..=1_100).contains(&seen.queued_max), "{}", seen.queued_max);
        assert_eq!(series.due.iter().sum::<u64>(), 5_000);
        assert_eq!(series.ended.iter().sum::<u64>(), 5_000);
        assert_eq!((series.busy.last(), series.queued.last()), (Some(&0), Some(&0)));
        let planned = series.planned_per_s;
        assert_eq!((planned.len(), series.planned_users.len()), (series.due.len(), 0));
        assert!((planned[0] - 500.0).abs() < 1e-6 && planned.last() == Some(&0.0));
        // The same wait is no sign of busy users if the generator itself was late, or if users set the pace.
        let late = WorkloadFigures { generator_late_ns: 590_000_000, ..known(&header) };
        assert!(!load.finish(&late).unwrap().all_busy);
        // Nor is a wait that is small beside the response time.
        for (queue_time_p99_ns, all_busy) in [(6_900_000, false), (7_100_000, true)] {
            let seen = load.finish(&WorkloadFigures { queue_time_p99_ns, ..known(&header) }).unwrap();
            assert_eq!(seen.all_busy, all_busy, "{queue_time_p99_ns}");
        }
        let closed =
            self::header(json!({ "constant_for_duration": { "duration": 10.0, "concurrency": 40 } }));
        let closed = load.finish(&known(&closed)).unwrap();
        assert_eq!((closed.asked_per_s, closed.all_busy, closed.users_max), (None, false, Some(40)));
    }

    /// Answers that take long end later, not at a lower rate; a service that falls behind serves less.
    #[test]
    fn the_served_rate_is_not_lowered_by_answers_that_end_after_the_last_start() {
        let open = header(json!({ "rps": { "rps": 50.0, "duration": 2.0 } }));
        let served = |duration_ms: fn(u64) -> u64| {
            let mut load = LoadBuilder::default();
            for n in 0..100 {
                load.record(&head(n * 20, n * 20, duration_ms(n)));
            }
            load.finish(&known(&open)).unwrap()
        };
        type Takes = fn(u64) -> u64;
        let cases: [(&str, Takes, f64); 4] = [
            ("each takes 300 ms", |_| 300, 50.0),
            ("each takes longer than the load", |_| 5_000, 50.0),
            ("stops for a second, then catches up", |n| 1_000_u64.saturating_sub(n * 20).max(1), 50.0),
            ("serves one each 40 ms", |n| 40 + n * 20, 25.0),
        ];
        for (what, duration_ms, per_s) in cases {
            let seen = served(duration_ms);
            assert!((seen.served_per_s - per_s).abs() < 0.5, "{what}: {}", seen.served_per_s);
            assert!((seen.asked_per_s.unwrap() - 50.0).abs() < 0.1, "{what}");
        }
    }

    /// What results say of each kind of runner is the plan again.
    #[test]
    fn the_planned_load_is_that_of_the_runner() {
        for (runner, of_rate, at) in [
            (json!({ "serial": { "times": 3 } }), false, vec![1.0, 1.0]),
            (json!({ "constant": { "times": 90, "concurrency": 4 } }), false, vec![4.0, 4.0]),
            (
                json!({ "ramping": { "start": 0, "stages": [{ "duration": 10, "rps": 100 }] } }),
                true,
                vec![2.6, 95.0],
            ),
            (
                json!({ "ramping": { "start": 2, "stepped": true, "stages": [{ "duration": 5, "concurrency": 8 },
                    { "duration": 5, "concurrency": 3 }] } }),
                false,
                vec![8.0, 3.0],
            ),
            (
                json!({ "rps": { "rps": { "start": 10, "end": 30, "step": 20, "duration": 5 }, "duration": 10 } }),
                true,
                vec![10.0, 30.0],
            ),
        ] {
            let written = serde_json::from_value(runner.clone()).unwrap();
            let shown = Runner::from_config(&written, None).unwrap().to_json();
            let header = WorkloadHeader { runner: shown, ..WorkloadHeader::default() };
            let mut load = LoadBuilder::default();
            // Of a ramp from zero, the first arrival is not due at the start.
            let first_ms = match Runner::from_json(&header.runner).unwrap().model {
                Model::Open(open) => open.arrivals.due_ns(0) / 1_000_000,
                Model::Closed(_) => 0,
            };
            (0..100).for_each(|n| load.record(&head(first_ms + n * 97, first_ms + n * 97, 50)));
            let LoadSeries { planned_per_s, planned_users, .. } =
                load.finish(&known(&header)).unwrap().series.unwrap();
            let (planned, none) =
                if of_rate { (planned_per_s, planned_users) } else { (planned_users, planned_per_s) };
            assert!(none.is_empty(), "{runner}");
            let ends = [planned[0], *planned.last().unwrap()];
            for (seen, wanted) in ends.iter().zip(&at) {
                assert!((seen - wanted).abs() <= wanted * 0.12 + 0.6, "{runner}: {ends:?}");
            }
        }
        let unknown = header(json!({ "swarm": { "bees": 3 } }));
        let mut load = LoadBuilder::default();
        load.record(&head(0, 0, 1));
        let series = load.finish(&known(&unknown)).unwrap().series.unwrap();
        assert!(series.planned_users.is_empty() && series.planned_per_s.is_empty());
        assert_eq!(LoadBuilder::default().finish(&known(&unknown)), None);
    }

    proptest! {
        #[test]
        fn nothing_is_lost_in_whatever_order(
            rows in prop::collection::vec((0_u64..1 << 30, 0_u64..1 << 20, prop_oneof![Just(0_u64), 0_u64..1 << 20], 0_u8..4), 1..200)
        ) {
            let header = header(json!({ "serial": { "times": 3 } }));
            let (mut load, mut given_up) = (LoadBuilder::default(), 0);
            for (due_ms, lag_ms, duration_ms, ended) in &rows {
                let ended = [CompletionStatus::Ok, CompletionStatus::Failed, CompletionStatus::Aborted, CompletionStatus::Dropped][usize::from(*ended)];
                let head = IterationHead { ended, ..head(*due_ms, due_ms + lag_ms, *duration_ms) };
                given_up += u64::from(ended == CompletionStatus::Aborted && !head.has_started());
                load.record(&head);
            }
            let series = load.finish(&known(&header)).unwrap().series.unwrap();
            let sum = |values: &[u64]| values.iter().sum::<u64>();
            prop_assert!(series.due.len() as u64 <= measure::intervals::INTERVALS_MAX);
            prop_assert_eq!(sum(&series.due), rows.len() as u64);
            prop_assert_eq!(sum(&series.started) + sum(&series.dropped) + given_up, rows.len() as u64);
            prop_assert_eq!((series.busy.last(), series.queued.last()), (Some(&0), Some(&0)));
        }
    }
}
