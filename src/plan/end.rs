//! What a workload measures to: its responses, or also the asynchronous work behind them.

use std::time::Duration;

use config::end::End;
use config::scenario::{Fetch, Scenario};
use text::diagnostics::Fault;
use text::yaml::YamlNode;
use text::yaml_place::{at, first_key, key_span};

use super::compiler::Compiler;
use super::{Plan, WorkloadPlan};
use osprofiler::driver::Collector;
use terms::sla::Sla;
use terms::threshold::Metric;

/// How long to wait for spans after the last response, if the scenario does not say.
pub const DEADLINE: Duration = Duration::from_secs(10);
/// The longest time to wait.
const DEADLINE_MAX: Duration = Duration::from_secs(3_600);

impl Compiler<'_> {
    /// The deadline for asynchronous work of the workload at `node`; `None` if it ends with its responses. Reports
    /// criteria that could not be judged with it.
    pub(super) fn end(&mut self, written: Option<End>, sla: &Sla, node: &YamlNode) -> Option<Duration> {
        let place = at(node, &["end"]);
        let deadline = match written {
            Some(End::Asynchronous(deadline)) => Some(deadline.map_or(DEADLINE, |text| text.0)),
            Some(End::Response) | None => None,
        };
        let written_at = at(place, &["asynchronous", "deadline"]);
        self.above_zero(deadline, written_at, "deadline");
        if deadline.is_some_and(|deadline| deadline > DEADLINE_MAX) {
            let fault = Fault::error(written_at.span.clone(), "the deadline is longer than one hour");
            self.texts.faults.push(fault.help("write at most 1h"));
        }
        let asked = sla.thresholds.iter().map(|threshold| &threshold.condition);
        let asked = asked.filter(|condition| matches!(condition.metric, Metric::Asynchronous(_)));
        for condition in asked {
            let Some(deadline) = deadline else {
                if self.texts.names.whole.is_none() {
                    let message = format!("{} without `end: asynchronous`", condition.metric);
                    let fault = Fault::error(first_key(at(node, &["sla"])), message);
                    self.texts
                        .faults
                        .push(fault.help("add `end: asynchronous` to the workload, or remove the threshold"));
                }
                continue;
            };
            if condition.limit > deadline.as_nanos() as f64 {
                let message = format!("`{condition}` is beyond the deadline, so it could not be judged");
                let fault = Fault::error(first_key(at(node, &["sla"])), message);
                self.texts
                    .faults
                    .push(fault.help("raise the deadline: end: { asynchronous: { deadline: … } }"));
            }
        }
        deadline
    }
}

/// The fault of asynchronous work for which no traces would be fetched.
pub(super) fn faulty_fetch(value: &Scenario, root: &YamlNode, workloads: &[WorkloadPlan]) -> Option<Fault> {
    let fetch = value.trace.and_then(|trace| trace.fetch);
    let waits = workloads.iter().any(|workload| workload.asynchronous.is_some());
    (fetch == Some(Fetch::None) && waits).then(|| {
        let span = key_span(at(root, &["trace"]), "fetch");
        let fault = Fault::error(span, "`end: asynchronous` needs traces, but none are fetched");
        fault.help("remove `fetch: none`, or `end: asynchronous`")
    })
}

impl Plan {
    /// The longest deadline for asynchronous work, if a workload has one.
    #[must_use]
    pub fn asynchronous(&self) -> Option<Duration> {
        self.workloads.iter().filter_map(|workload| workload.asynchronous).max()
    }

    /// What a reader must know of asynchronous work that cannot be measured.
    #[must_use]
    pub(super) fn asynchronous_warning(&self) -> Option<String> {
        self.asynchronous()?;
        let collector = self.deployment.connection_string.as_ref();
        let has_collector = collector.is_some_and(|collector| Collector::reads(collector.expose()).is_ok());
        let why = match &self.profiling_off {
            Some(reason) => format!("nothing is profiled: {reason}"),
            None if self.deployment.spans.receive.is_empty() && !has_collector => {
                "there is neither a receiver (profiler.receive) nor a collector to ask".to_owned()
            }
            None => return None,
        };
        Some(format!("`end: asynchronous` measures nothing: {why}"))
    }
}
