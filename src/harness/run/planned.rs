//! The plan of a run from its files.

use crate::error::HarnessError;
use crate::files;
use crate::options::RunOptions;
use crate::rally_task::TaskFile;
use config::Document;
use config::scenario::Scenario;
use plan::Plan;
use plan::deployment::ResolvedDeployment;

/// The plan, for a single iteration if one is wanted.
pub(super) fn planned(
    options: &RunOptions,
    document: &Document<Scenario>,
    deployment: ResolvedDeployment,
    task: Option<&TaskFile>,
) -> Result<Plan, HarnessError> {
    let mut plan = files::plan(&options.scenario, document, deployment, task, &options.load)?;
    if options.once.is_some() {
        plan.run_once();
    }
    Ok(plan)
}
