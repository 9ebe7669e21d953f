//! Task files of Rally: read as scenarios, their hooks run, and their runs reported as Rally does.
//!
//! What they mean is in the crate `rally`, which a build may leave out (the feature `openstack`); then a task file is
//! refused, with what to do.

// The tests of a build with it check this, too.
#[cfg(any(test, not(feature = "openstack")))]
#[cfg_attr(feature = "openstack", expect(dead_code, reason = "only the tests use it"))]
mod absent;
#[cfg(feature = "openstack")]
mod hooks;
#[cfg(feature = "openstack")]
mod reports;
#[cfg(feature = "openstack")]
mod task;

use super::error::HarnessError;
use super::options::LoadOptions;

#[cfg(not(feature = "openstack"))]
pub(super) use absent::{TaskFile, can_report, hooks, is_task, read, reports};
#[cfg(feature = "openstack")]
pub(super) use hooks::hooks;
#[cfg(feature = "openstack")]
pub(super) use rally::is_task;
#[cfg(feature = "openstack")]
pub(super) use reports::{can_report, reports};
#[cfg(feature = "openstack")]
pub(super) use task::{TaskFile, read};

/// Refuses arguments for a file that is no task.
pub(super) fn refuse_arguments(load: &LoadOptions) -> Result<(), HarnessError> {
    if load.task_arguments.is_empty() {
        return Ok(());
    }
    Err(HarnessError::usage("--task-args and --task-args-file are for task files of Rally")
        .remedy("give a scenario's variables with --set NAME=VALUE"))
}
