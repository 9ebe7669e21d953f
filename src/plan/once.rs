//! A plan for one iteration of each workload, to look at.

use super::Plan;
use terms::control::ControlShare;
use terms::runner::Runner;
use terms::sla::Sla;

impl Plan {
    /// Makes each workload a single profiled iteration without criteria, one after another.
    pub fn run_once(&mut self) {
        for workload in &mut self.workloads {
            workload.runner = Runner::once(workload.runner.timeout);
            workload.sla = Sla::default();
        }
        self.parallel = false;
        self.control = ControlShare::NONE;
        self.probe = None;
        self.traces.slow = self.traces.slow.max(1);
        self.traces.others = 0;
    }
}
