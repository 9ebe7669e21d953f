//! A moment at which most of the slowest iterations end.

use results::model::{Results, SlowestStall};

use super::words::duration;

/// What is seen, in a sentence; `None` without such a moment.
pub(super) fn sentence(results: &Results) -> Option<String> {
    let SlowestStall { iterations, of, within_ms, at_s } = results.stall?;
    let begins = results.workloads.iter().map(|workload| workload.start_s).fold(f64::INFINITY, f64::min);
    let after = duration(((at_s - begins) * 1e3).max(0.0));
    let within = if within_ms < 1.0 { "1 ms".to_owned() } else { duration(within_ms) };
    Some(format!(
        "{iterations} of the {of} slowest end within {within}, {after} after the start: something held them up together, such \
         as a pause of the service, of the network or of this machine."
    ))
}
