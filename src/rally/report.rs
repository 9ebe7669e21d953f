//! A run as Rally reports its tasks: what the JSON and the JUnit report have in common.
//!
//! A run of a scenario of `bench`'s own is reported, too: as a task with a subtask for each workload.

use serde_json::{Map, Value, json};
use uuid::Uuid;

use measure::log::{Header, HookRun, RallySubtask, RallyTask, RallyWorkload};
use results::model::{Criterion, Outcome, Results, RunStatus, Severity, Workload};

/// A run in Rally's terms.
pub(super) struct TaskReport<'a> {
    pub(super) header: &'a Header,
    pub(super) results: &'a Results,
    pub(super) hooks: &'a [HookRun],
    pub(super) task: RallyTask,
}

/// What an id belongs to, besides the run.
#[derive(Clone, Copy)]
pub(super) enum TaskPart {
    Subtask = 1,
    Workload = 2,
}

impl<'a> TaskReport<'a> {
    pub(super) fn new(header: &'a Header, results: &'a Results, hooks: &'a [HookRun]) -> Self {
        let task = header.rally.clone().unwrap_or_else(|| of_scenario(header));
        Self { header, results, hooks, task }
    }

    /// Subtasks, each with the index of its first workload in the run.
    pub(super) fn subtasks(&self) -> impl Iterator<Item = (usize, &RallySubtask)> {
        let mut next = 0;
        self.task.subtasks.iter().map(move |subtask| {
            let first = next;
            next += subtask.workloads.len();
            (first, subtask)
        })
    }

    /// An id that is the same in each report of the run.
    pub(super) fn id(&self, part: TaskPart, index: usize) -> Uuid {
        Uuid::from_u128(self.header.run_id.as_u128() ^ ((part as u128) << 32 | index as u128))
    }

    /// `finished`, `aborted` or `crashed`.
    pub(super) fn status(&self) -> &'static str {
        match self.results.run.status {
            RunStatus::Finished => "finished",
            RunStatus::Interrupted | RunStatus::TimedOut | RunStatus::Aborted => "aborted",
            RunStatus::Failed | RunStatus::Recovered => "crashed",
        }
    }

    /// When the run began and ended, in seconds of the Unix epoch.
    pub(super) fn span_s(&self) -> (u64, u64) {
        let began = self.header.started_unix_ns;
        let ends = self.results.workloads.iter().map(|workload| workload.start_s + workload.duration_s);
        let lasted_s = ends.fold(self.results.run.duration_s, f64::max);
        (began / 1_000_000_000, (began as f64 / 1e9 + lasted_s).ceil() as u64)
    }

    /// When a workload began and ended, in seconds of the Unix epoch.
    pub(super) fn span_of(&self, workload: &Workload) -> (u64, u64) {
        let began = self.header.started_unix_ns as f64 / 1e9 + workload.start_s;
        (began as u64, (began + workload.duration_s).ceil() as u64)
    }

    /// A workload's criteria that decide.
    pub(super) fn criteria(&self, workload: &str) -> Vec<&Criterion> {
        let all = self.results.verdict.criteria.iter();
        all.filter(|criterion| criterion.workload == workload && criterion.severity == Severity::Fail)
            .collect()
    }
}

/// Whether a criterion holds, for a report that knows nothing between.
pub(super) fn holds(criterion: &Criterion) -> bool {
    matches!(criterion.outcome, Outcome::Pass | Outcome::Inconclusive)
}

/// A criterion in a sentence, as Rally's end.
pub(super) fn detail(criterion: &Criterion) -> String {
    let end = if holds(criterion) { "Passed" } else { "Failed" };
    format!("{}: {} - {end}", criterion.condition, criterion.observed)
}

/// `2026-11-23T09:30:00`.
pub(super) fn time(unix_s: u64) -> String {
    let text = text::times::rfc3339(unix_s.saturating_mul(1_000_000_000));
    text.chars().take("2026-11-23T09:30:00".len()).collect()
}

fn of_scenario(header: &Header) -> RallyTask {
    let subtask = |workload: &measure::log::WorkloadHeader| {
        let (runner_type, runner) = workload.runner.iter().next().map_or_else(
            || ("serial".to_owned(), json!({})),
            |(name, settings)| (name.clone(), settings.clone()),
        );
        let workloads = vec![RallyWorkload {
            // Rally's readers split a name at its first dot.
            scenario: format!("bench.{}", workload.name),
            args: Value::Object(Map::new()),
            runner_type,
            runner,
            contexts: Value::Object(Map::new()),
            sla: Value::Object(Map::new()),
            hooks: Value::Array(Vec::new()),
            ..RallyWorkload::default()
        }];
        RallySubtask { title: workload.name.clone(), description: String::new(), workloads }
    };
    RallyTask {
        title: header.scenario.title.clone(),
        subtasks: header.workloads.iter().map(subtask).collect(),
        ..RallyTask::default()
    }
}
