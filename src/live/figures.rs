//! The figures of a load under way. They take what the coordinator receives, and little memory for any load.

use std::collections::{BTreeMap, HashMap, VecDeque};

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use base::clock::Nanos;
use base::masking::masked;
use base::visible::on_one_line;
use measure::errors::{Failure, NumberedFailure};
use measure::ids::RunIds;
use measure::latency::SampleId;
use measure::recorder::Batch;
use measure::rows::{Rows, SampleRow};
use measure::sample::CompletionStatus;

use super::counts::LogCounts;
use super::series::LoadSeries;
use super::snapshot::{
    AskedLoad, ErrorSnapshot, LiveSnapshot, LoadSnapshot, LoadState, SlowIteration, StepSnapshot,
};

/// This process, among those whose faults are known.
const OWN: u32 = u32::MAX;
/// How many of the slowest iterations are known.
pub const SLOWEST_MAX: usize = 20;
/// So many steps have figures over time; further ones only in total.
const STEP_SERIES_MAX: usize = 32;
/// A column counts as over this long after its end: batches come late.
const LATE_NS: Nanos = 400_000_000;
/// What other processes measure comes later.
const LATE_OF_OTHERS_NS: Nanos = 2_500_000_000;
/// The rate is measured over this time.
const RATE_NS: Nanos = 2_000_000_000;
/// The longest text of an example.
const EXAMPLE_CHARS_MAX: usize = 300;

/// Which load, and which part of it, somebody looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchedPart {
    /// The iterations of every workload.
    Every,
    /// One workload: its iterations, or the step of this number.
    One { load: usize, step: Option<usize> },
}

/// The progress of a workload, as the runner reports it.
#[derive(Clone, Copy, Debug, Default)]
pub struct LoadProgress {
    pub elapsed_ns: Nanos,
    /// All that have ended, including the warm-up.
    pub ended: u64,
    pub warm_up: u64,
    pub under_way: u64,
    pub queued: u64,
    pub dropped: u64,
    pub asked: AskedLoad,
}

/// The plan of a workload that begins.
#[derive(Clone, Copy, Debug, Default)]
pub struct LoadBounds {
    /// When it begins, on the run's clock.
    pub origin_ns: Nanos,
    pub times: Option<u64>,
    pub duration_ns: Option<Nanos>,
}

/// What another process that makes a part of the load says of a workload.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
pub struct ShardLoad {
    /// Iterations under way.
    pub under_way: u64,
    /// Arrivals that wait for a virtual user.
    pub queued: u64,
    /// Arrivals that were due and never started.
    pub dropped: u64,
    /// How many were not recorded since it last said so.
    #[serde(default)]
    pub unrecorded: u64,
}

/// A load so far.
pub struct LoadFigures {
    ids: RunIds,
    workloads: Vec<WorkloadFigures>,
    /// By the process that met them, and their numbers there.
    failures: HashMap<(u32, u32), Failure>,
}

#[derive(Default)]
struct WorkloadFigures {
    name: String,
    state: LoadState,
    bounds: LoadBounds,
    progress: LoadProgress,
    /// What other processes say, by their numbers.
    others: BTreeMap<u32, PartFigures>,
    late_ns: Nanos,
    /// How many had ended at some times in the last seconds.
    before: VecDeque<(Nanos, u64)>,
    failed: u64,
    timeless: u64,
    times: LogCounts,
    series: LoadSeries,
    steps: Vec<StepFigures>,
    errors: Vec<ErrorFigures>,
    /// The slowest first.
    slowest: Vec<SlowSample>,
}

/// The part of another process in a workload.
#[derive(Clone, Copy, Default)]
struct PartFigures {
    ended: u64,
    warm_up: u64,
    now: ShardLoad,
}

#[derive(Default)]
struct StepFigures {
    name: String,
    count: u64,
    failed: u64,
    times: LogCounts,
    series: Option<LoadSeries>,
}

struct ErrorFigures {
    class: &'static str,
    count: u64,
    example: String,
    last: SampleId,
}

struct SlowSample {
    sample: SampleId,
    response_ns: Nanos,
    queue_ns: Nanos,
    at_ns: Nanos,
    failed: bool,
    longest_step: Option<(u16, Nanos)>,
}

impl LoadFigures {
    /// No figures yet, of workloads with these names and steps.
    #[must_use]
    pub fn new(workloads: impl IntoIterator<Item = (String, Vec<String>)>, ids: RunIds) -> Self {
        let workloads = workloads.into_iter().map(|(name, steps)| WorkloadFigures {
            name: shown(&name),
            steps: (0..)
                .zip(steps)
                .map(|(number, name)| StepFigures {
                    name: shown(&name),
                    series: (number < STEP_SERIES_MAX).then(LoadSeries::default),
                    ..StepFigures::default()
                })
                .collect(),
            late_ns: LATE_NS,
            ..WorkloadFigures::default()
        });
        Self { ids, workloads: workloads.collect(), failures: HashMap::new() }
    }

    /// A workload begins.
    pub fn begin(&mut self, workload: usize, bounds: LoadBounds) {
        if let Some(figures) = self.workloads.get_mut(workload) {
            figures.state = LoadState::Running;
            figures.bounds = bounds;
        }
    }

    /// Adds a batch of a worker.
    pub fn add(&mut self, batch: &Batch) {
        self.add_rows(OWN, &batch.samples, &batch.failures);
    }

    /// Other processes make parts of this load, and their figures come late.
    pub fn expect_others(&mut self) {
        self.workloads.iter_mut().for_each(|figures| figures.late_ns = LATE_OF_OTHERS_NS);
    }

    /// Adds what process number `shard` has measured since it last did, on the clock of this one, and how its workloads
    /// stand now.
    pub fn add_shard(&mut self, shard: u32, rows: &Rows, failures: &[NumberedFailure], now: &[ShardLoad]) {
        self.add_rows(shard, rows, failures);
        for row in rows.iter() {
            let Some(figures) = self.workloads.get_mut(usize::from(row.head.workload)) else { continue };
            let has_ended = row.head.ended != CompletionStatus::Dropped;
            let part = figures.others.entry(shard).or_default();
            part.ended += u64::from(has_ended);
            part.warm_up += u64::from(has_ended && row.head.warm_up);
        }
        for (figures, now) in self.workloads.iter_mut().zip(now) {
            let part = figures.others.entry(shard).or_default();
            part.now = *now;
            part.ended += now.unrecorded;
        }
    }

    fn add_rows(&mut self, source: u32, rows: &Rows, failures: &[NumberedFailure]) {
        for NumberedFailure { number, failure } in failures {
            self.failures.entry((source, *number)).or_insert_with(|| failure.clone());
        }
        for row in rows.iter() {
            if let Some(figures) = self.workloads.get_mut(usize::from(row.head.workload)) {
                figures.add(row, self.failures.get(&(source, row.head.error)));
            }
        }
    }

    /// The runner has reported progress.
    pub fn progress(&mut self, workload: usize, progress: LoadProgress) {
        let Some(figures) = self.workloads.get_mut(workload) else { return };
        let now_ns = progress.elapsed_ns;
        figures.progress = progress;
        let all = figures.of_all();
        figures.before.push_back((now_ns, all.ended));
        while figures.before.len() > 2
            && figures.before.front().is_some_and(|(at_ns, _)| *at_ns + RATE_NS < now_ns)
        {
            figures.before.pop_front();
        }
        let column = figures.series.at(now_ns);
        column.under_way = column.under_way.max(all.under_way);
        column.queued = column.queued.max(all.queued);
        if let AskedLoad::PerSecond(rate) = progress.asked {
            column.asked_per_s = Some(rate);
        }
    }

    /// A workload has ended.
    pub fn end(&mut self, workload: usize, progress: LoadProgress) {
        if let Some(figures) = self.workloads.get_mut(workload) {
            figures.progress = progress;
            figures.state = LoadState::Ended;
        }
    }

    /// The load now. Only what is looked at is computed. Criteria and spans are not known here.
    #[must_use]
    pub fn snapshot(&self, part: WatchedPart) -> LiveSnapshot {
        let of = |(number, figures): (usize, &WorkloadFigures)| match part {
            WatchedPart::Every => figures.snapshot(self.ids, None),
            WatchedPart::One { load, step } if load == number => figures.snapshot(self.ids, step),
            WatchedPart::One { .. } => figures.summary(),
        };
        LiveSnapshot { loads: self.workloads.iter().enumerate().map(of).collect(), ..LiveSnapshot::default() }
    }

    /// The samples of the slowest iterations of a workload, in the order of its snapshot.
    pub fn slowest(&self, workload: usize) -> impl Iterator<Item = SampleId> + '_ {
        let figures = self.workloads.get(workload);
        figures.into_iter().flat_map(|figures| figures.slowest.iter().map(|slow| slow.sample))
    }
}

impl WorkloadFigures {
    fn add(&mut self, row: SampleRow<'_>, failure: Option<&Failure>) {
        let head = row.head;
        let end_ns = head.start_ns.saturating_add(head.duration_ns);
        let at_ns = end_ns.saturating_sub(self.bounds.origin_ns);
        let (response_ns, failed) = (head.response_ns(), head.ended == CompletionStatus::Failed);
        let has_time = head.ended == CompletionStatus::Ok;
        let column = self.series.at(at_ns);
        column.ended += u64::from(head.ended.is_measured());
        column.failed += u64::from(failed);
        column.warm_up |= head.warm_up;
        match has_time {
            true => column.times.add(response_ns),
            false => column.timeless += 1,
        }
        self.add_steps(row, at_ns);
        if head.warm_up {
            return;
        }
        match has_time {
            true => self.times.add(response_ns),
            false => self.timeless += 1,
        }
        self.failed += u64::from(failed);
        if let Some(failure) = failure.filter(|_| head.error != 0) {
            self.add_error(failure, head.into());
        }
        if head.ended.is_measured() {
            self.offer(row, response_ns, at_ns);
        }
    }

    fn add_steps(&mut self, row: SampleRow<'_>, at_ns: Nanos) {
        for action in row.actions.iter().filter(|action| action.ended.is_measured()) {
            let Some(step) = self.steps.get_mut(usize::from(action.action)) else { continue };
            let failed = action.ended == CompletionStatus::Failed;
            if let Some(series) = &mut step.series {
                let column = series.at(at_ns);
                column.ended += 1;
                column.failed += u64::from(failed);
                column.warm_up |= row.head.warm_up;
                column.times.add(action.duration_ns);
            }
            if !row.head.warm_up {
                step.count += 1;
                step.failed += u64::from(failed);
                step.times.add(action.duration_ns);
            }
        }
    }

    fn add_error(&mut self, failure: &Failure, sample: SampleId) {
        let class = failure.class.as_str();
        match self.errors.iter_mut().find(|error| error.class == class) {
            Some(error) => {
                error.count += 1;
                error.last = sample;
            }
            None => {
                let example = match &failure.action {
                    Some(action) => format!("{action}: {}", failure.message),
                    None => failure.message.clone(),
                };
                let example = shown(&example).chars().take(EXAMPLE_CHARS_MAX).collect();
                self.errors.push(ErrorFigures { class, count: 1, example, last: sample });
            }
        }
    }

    /// Keeps an iteration if it is one of the slowest.
    fn offer(&mut self, row: SampleRow<'_>, response_ns: Nanos, at_ns: Nanos) {
        let is_full = self.slowest.len() >= SLOWEST_MAX;
        if is_full && self.slowest.last().is_some_and(|last| last.response_ns >= response_ns) {
            return;
        }
        // A group has no requests of its own.
        let steps = row.actions.iter().filter(|action| action.requests > 0);
        let longest = steps.max_by_key(|action| action.duration_ns);
        let at = self.slowest.partition_point(|other| other.response_ns >= response_ns);
        self.slowest.insert(
            at,
            SlowSample {
                sample: row.head.into(),
                response_ns,
                queue_ns: row.head.queue_time_ns(),
                at_ns,
                failed: row.head.ended == CompletionStatus::Failed,
                longest_step: longest.map(|action| (action.action, action.duration_ns)),
            },
        );
        self.slowest.truncate(SLOWEST_MAX);
    }

    /// The progress of all processes together.
    fn of_all(&self) -> LoadProgress {
        self.others.values().fold(self.progress, |sum, part| LoadProgress {
            ended: sum.ended + part.ended,
            warm_up: sum.warm_up + part.warm_up,
            under_way: sum.under_way + part.now.under_way,
            queued: sum.queued + part.now.queued,
            dropped: sum.dropped + part.now.dropped,
            ..sum
        })
    }

    fn summary(&self) -> LoadSnapshot {
        let LoadProgress { elapsed_ns, ended, warm_up, under_way, queued, dropped, asked } = self.of_all();
        let seconds = |ns: Nanos| (ns as f64 / 1e9).max(1e-3);
        let served_per_s = match (self.state, self.before.front(), self.before.back()) {
            (LoadState::Running, Some((from_ns, had)), Some((to_ns, has))) if to_ns > from_ns => {
                has.saturating_sub(*had) as f64 / seconds(to_ns - from_ns)
            }
            _ if ended == 0 => 0.0,
            _ => ended as f64 / seconds(elapsed_ns),
        };
        LoadSnapshot {
            name: self.name.clone(),
            state: self.state,
            elapsed_ns,
            times: self.bounds.times,
            duration_ns: self.bounds.duration_ns,
            ended,
            warm_up,
            failed: self.failed,
            dropped,
            under_way,
            queued,
            asked,
            served_per_s,
            p50_ns: self.times.percentile_ns(50.0, self.timeless),
            p95_ns: self.times.percentile_ns(95.0, self.timeless),
            p99_ns: self.times.percentile_ns(99.0, self.timeless),
            max_ns: self.times.max_ns(),
            ..LoadSnapshot::default()
        }
    }

    fn snapshot(&self, ids: RunIds, step: Option<usize>) -> LoadSnapshot {
        let until_ns = match self.state {
            LoadState::Ended => self.progress.elapsed_ns.saturating_add(RATE_NS),
            _ => self.progress.elapsed_ns.saturating_sub(self.late_ns),
        };
        let chosen = step.and_then(|step| self.steps.get(step)?.series.as_ref());
        let mut errors: Vec<&ErrorFigures> = self.errors.iter().collect();
        errors.sort_by_key(|error| std::cmp::Reverse(error.count));
        LoadSnapshot {
            series: chosen.unwrap_or(&self.series).snapshot(until_ns),
            steps: self.steps.iter().map(StepFigures::snapshot).collect(),
            errors: errors.into_iter().map(|error| error.snapshot(ids)).collect(),
            slowest: self.slowest.iter().map(|slow| self.of_slow(ids, slow)).collect(),
            ..self.summary()
        }
    }

    fn of_slow(&self, ids: RunIds, slow: &SlowSample) -> SlowIteration {
        let name = |action: u16| self.steps.get(usize::from(action)).map(|step| step.name.clone());
        SlowIteration {
            trace_id: ids.trace_id(slow.sample),
            response_ns: slow.response_ns,
            queue_ns: slow.queue_ns,
            at_ns: slow.at_ns,
            failed: slow.failed,
            longest_step: slow.longest_step.and_then(|(action, ns)| Some((name(action)?, ns))),
            spans: None,
        }
    }
}

impl StepFigures {
    fn snapshot(&self) -> StepSnapshot {
        StepSnapshot {
            name: self.name.clone(),
            count: self.count,
            failed: self.failed,
            p50_ns: self.times.percentile_ns(50.0, 0),
            p95_ns: self.times.percentile_ns(95.0, 0),
            p99_ns: self.times.percentile_ns(99.0, 0),
            max_ns: self.times.max_ns(),
        }
    }
}

impl ErrorFigures {
    fn snapshot(&self, ids: RunIds) -> ErrorSnapshot {
        let trace_id: Uuid = ids.trace_id(self.last);
        ErrorSnapshot {
            class: self.class.to_owned(),
            count: self.count,
            example: self.example.clone(),
            trace_id,
        }
    }
}

/// A text as it may be shown: on one line, without secrets and without commands for a terminal.
#[must_use]
pub fn shown(text: &str) -> String {
    on_one_line(&masked(text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use measure::errors::FailureClass;
    use measure::recorder::Live;
    use measure::sample::{ActionSample, IterationSample};
    use terms::control::ControlShare;

    fn batch(samples: &[IterationSample], failures: Vec<NumberedFailure>) -> Batch {
        let mut rows = Rows::default();
        samples.iter().for_each(|sample| rows.push(sample));
        Batch { workload: 0, failures, samples: rows, users: Rows::default(), live: Live::new() }
    }

    fn one_workload() -> LoadFigures {
        let ids = RunIds::new(Uuid::nil(), ControlShare::NONE);
        LoadFigures::new([("w".to_owned(), vec!["a".to_owned(), "b".to_owned()])], ids)
    }

    fn every(figures: &LoadFigures) -> LoadSnapshot {
        figures.snapshot(WatchedPart::Every).loads.remove(0)
    }

    #[test]
    fn failures_have_no_time_and_the_warm_up_counts_nowhere_but_in_the_charts() {
        let mut figures = one_workload();
        let of = |number: u64, ended, warm_up| IterationSample {
            number,
            due_ns: 0,
            start_ns: 1_000_000,
            duration_ns: if warm_up { 90_000_000 } else { 9_000_000 },
            ended,
            warm_up,
            ..IterationSample::default()
        };
        let mut samples: Vec<IterationSample> =
            (0..90).map(|number| of(number, CompletionStatus::Ok, false)).collect();
        samples.extend((90..96).map(|number| of(number, CompletionStatus::Failed, false)));
        samples.extend((96..100).map(|number| of(number, CompletionStatus::Dropped, false)));
        samples.extend((100..130).map(|number| of(number, CompletionStatus::Ok, true)));
        figures.add(&batch(&samples, Vec::new()));
        figures.end(
            0,
            LoadProgress { elapsed_ns: 1_000_000_000, ended: 126, warm_up: 30, ..LoadProgress::default() },
        );
        let shown = every(&figures);
        assert_eq!((shown.failed, shown.max_ns, shown.p99_ns), (6, 10_000_000, None));
        assert!(shown.p50_ns.is_some_and(|ns| ns.abs_diff(10_000_000) < 300_000), "{:?}", shown.p50_ns);
        assert!(shown.p95_ns.is_none(), "10 of 100 have no time");
        let column = &shown.series.columns[0];
        assert_eq!((column.served_per_s, column.failed_per_s, column.warm_up), (504.0, 24.0, true));
        assert_eq!(shown.slowest.len(), SLOWEST_MAX);
    }

    #[test]
    fn the_slowest_iterations_are_known_with_what_took_longest() {
        let mut figures = one_workload();
        let action = |action, duration_ns| ActionSample {
            action,
            duration_ns,
            requests: 1,
            ..ActionSample::default()
        };
        for number in 0..1_000 {
            // The group around both is no step that takes time itself.
            let group = ActionSample { action: 0, duration_ns: u64::MAX / 4, ..ActionSample::default() };
            let sample = IterationSample {
                number,
                start_ns: number,
                due_ns: number,
                duration_ns: (number * 7_919) % 1_000 * 1_000,
                actions: vec![group, action(0, 5), action(1, 700)],
                ..IterationSample::default()
            };
            figures.add(&batch(&[sample], Vec::new()));
        }
        let shown = every(&figures);
        let times: Vec<u64> = shown.slowest.iter().map(|slow| slow.response_ns / 1_000).collect();
        assert_eq!(times, (980..1_000).rev().collect::<Vec<_>>());
        assert_eq!(shown.slowest[0].longest_step, Some(("b".to_owned(), 700)));
        let ids = RunIds::new(Uuid::nil(), ControlShare::NONE);
        let samples: Vec<Uuid> = figures.slowest(0).map(|sample| ids.trace_id(sample)).collect();
        assert_eq!(samples, shown.slowest.iter().map(|slow| slow.trace_id).collect::<Vec<_>>());
        assert_eq!((shown.steps[1].count, shown.steps[1].max_ns), (1_000, 700));
    }

    /// What a service answers can neither command the terminal nor show a secret.
    #[test]
    fn an_example_of_an_error_is_harmless() {
        base::masking::hide("s3cret-of-the-live-view");
        let failure = Failure {
            class: FailureClass::Status,
            action: Some("look\u{1b}]0;up".into()),
            message: "\u{1b}[2Jsays s3cret-of-the-live-view\nand more".to_owned(),
            seen: None,
        };
        let mut figures = one_workload();
        let failed = |number| IterationSample {
            number,
            error: 4,
            ended: CompletionStatus::Failed,
            ..IterationSample::default()
        };
        let failures = vec![NumberedFailure { number: 4, failure }];
        figures.add(&batch(&[failed(1)], failures));
        figures.add(&batch(&[failed(2)], Vec::new()));
        let shown = every(&figures);
        let [error] = &shown.errors[..] else { panic!("{:?}", shown.errors) };
        assert_eq!((error.class.as_str(), error.count), ("status", 2));
        assert!(!error.example.contains(['\u{1b}', '\n']), "{}", error.example);
        assert!(!error.example.contains("s3cret"), "{}", error.example);
        assert!(error.example.contains("***") && error.example.contains("and more"), "{}", error.example);
    }

    /// The rate is that of the last two seconds while the load runs, and that of the whole load at its end.
    #[test]
    fn the_rate_is_that_of_now() {
        let mut figures = one_workload();
        figures.begin(0, LoadBounds::default());
        let at = |tenths: u64, ended| LoadProgress {
            elapsed_ns: tenths * 100_000_000,
            ended,
            ..LoadProgress::default()
        };
        for tenths in 1..=100 {
            figures.progress(0, at(tenths, tenths * 10));
        }
        for tenths in 101..=130 {
            figures.progress(0, at(tenths, 1_000 + (tenths - 100) * 50));
        }
        assert!((every(&figures).served_per_s - 500.0).abs() < 1.0, "{}", every(&figures).served_per_s);
        figures.end(0, at(200, 2_500));
        assert!((every(&figures).served_per_s - 125.0).abs() < 0.1, "{}", every(&figures).served_per_s);
    }
}
