//! The plan of a run from its files.

use crate::config::Document;
use crate::config::scenario::Scenario;
use crate::harness::error::HarnessError;
use crate::harness::files;
use crate::harness::options::RunOptions;
use crate::harness::task::TaskFile;
use crate::plan::Plan;
use crate::plan::deployment::Deployment;

/// The plan, for a single iteration if one is wanted.
pub(super) fn planned(
    options: &RunOptions,
    document: &Document<Scenario>,
    deployment: Deployment,
    task: Option<&TaskFile>,
) -> Result<Plan, HarnessError> {
    let mut plan = files::plan(&options.scenario, document, deployment, task, &options.load)?;
    if options.once.is_some() {
        plan.run_once();
    }
    Ok(plan)
}
