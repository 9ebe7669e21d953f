//! The header of the log, written before the first iteration.

use super::RunExecution;
use crate::host;
use crate::shards::ShardAssignment;
use base::clock::saturating_nanos;
use base::masking::masked;
use base::secret::redacted_url;
use measure::log::{DeploymentInfo, Header, LoadEnvironment, ScenarioInfo, WorkloadHeader};
use plan::step::{self, NamedStep, PlanStep};
use text::named_secrets::without_secrets;

impl RunExecution {
    pub(super) fn header(&self) -> Header {
        let (plan, deployment) = (&self.plan, &self.plan.deployment);
        let workloads = plan.workloads.iter().map(|workload| {
            let named = workload.named();
            let tags: Vec<_> = named.iter().map(|row| row.tags.clone()).collect();
            let names = plan::step::names(&named);
            let has_tags = tags.iter().any(|tags| !tags.is_empty());
            WorkloadHeader {
                name: workload.name.clone(),
                runner: workload.runner.to_json(),
                sla: workload.sla.clone(),
                planned: plan.planned(workload),
                asynchronous_deadline_ns: workload.asynchronous.map(saturating_nanos),
                actions: named.into_iter().map(name_of).collect(),
                user_setup: names_of(&workload.user_setup),
                user_teardown: names_of(&workload.user_teardown),
                tags: if has_tags { tags } else { Vec::new() },
                streams: names.streams,
                measures: names.measures,
                data: workload.data.iter().map(|data| data.allocation().clone()).collect(),
            }
        });
        Header {
            run_id: self.identity.run_id,
            id_seed: self.identity.ids.seed(),
            data_seed: self.plan.uses_seed.then_some(self.identity.data_seed),
            started_unix_ns: self.identity.clock.wall_anchor_unix_ns(),
            scenario: ScenarioInfo {
                title: plan.title.clone(),
                file: plan.file.display().to_string(),
                sha256: plan.sha256.clone(),
                set: plan.set.clone(),
                options: self.options.words(),
                text: Some(without_secrets(&plan.text, &[])),
            },
            deployment: DeploymentInfo {
                name: deployment.name.clone(),
                file: deployment.file.display().to_string(),
                targets: deployment
                    .targets
                    .iter()
                    .map(|(name, url)| (name.clone(), url.to_string()))
                    .collect(),
                tls_verified: deployment.tls.verify,
                auth: deployment.auth.kind().to_owned(),
                demo: deployment.demo.map(|demo| demo.to_string()),
            },
            profiling_off: plan.profiling_off.clone(),
            trace_headers: plan.propagation.names().into_iter().map(str::to_owned).collect(),
            collector: deployment
                .connection_string
                .as_ref()
                .map(|connection| redacted_url(connection.expose())),
            environment: LoadEnvironment {
                bench_version: env!("CARGO_PKG_VERSION").to_owned(),
                os: format!("{} {}", std::env::consts::OS, std::env::consts::ARCH),
                host: host::name(),
                cpus: std::thread::available_parallelism().map_or(1, |n| u32::try_from(n.get()).unwrap_or(1)),
                workers: self.share.workers,
            },
            control: plan.control,
            traces_wanted: (plan.traces.slow, plan.traces.others),
            in_a_row: (self.identity.row.start, self.identity.row.end),
            notes: plan.warnings.iter().map(|warning| masked(warning).into_owned()).collect(),
            workloads: workloads.collect(),
            rally: self.task.as_ref().map(|task| task.record().clone()),
            shard: self.share.part.as_ref().map(ShardAssignment::header),
            shards: Vec::new(),
        }
    }
}

/// Name and request of each action and group.
fn names_of(steps: &[PlanStep]) -> Vec<(String, String)> {
    step::named(steps).into_iter().map(name_of).collect()
}

fn name_of(row: NamedStep) -> (String, String) {
    (row.name.to_string(), masked(&row.label).into_owned())
}
