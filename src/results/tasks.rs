//! What the run log says of a task file of Rally, as results have it.

use measure::log::{HookRun, RallyTask};

use super::model::{Hook, Subtask, Task};

impl From<&RallyTask> for Task {
    fn from(task: &RallyTask) -> Self {
        let subtasks = task.subtasks.iter().map(|subtask| Subtask {
            title: subtask.title.clone(),
            description: subtask.description.clone(),
            workloads: subtask.workloads.len(),
        });
        let subtasks = subtasks.collect();
        Self { description: task.description.clone(), tags: task.tags.clone(), subtasks }
    }
}

impl From<&HookRun> for Hook {
    fn from(run: &HookRun) -> Self {
        Self {
            workload: run.workload,
            hook: run.hook,
            event: run.event.clone(),
            value: run.value,
            start_s: run.start_ns as f64 / 1e9,
            duration_ms: run.duration_ns as f64 / 1e6,
            exit_code: run.exit_code,
            error: run.error.clone(),
            output: run.output.clone(),
            error_output: run.error_output.clone(),
        }
    }
}
