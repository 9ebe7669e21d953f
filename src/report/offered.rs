//! Load that was asked for and load that was served, in words. Nothing here computes a statistic.

use super::words::duration;
use results::model::{OfferedLoad, Workload};

/// A service that served this part of the load that was asked for has kept up with it.
const KEPT_UP: f64 = 0.99;

/// `375.0/s of 400/s`, or only what was served where virtual users set the pace.
pub(super) fn rate(workload: &Workload) -> String {
    let of = asked(workload).map(|asked| format!(" {asked}")).unwrap_or_default();
    format!("{:.1}/s{of}", served_per_s(workload))
}

/// Iterations per second. Of a load at a rate, these are the served ones; answers after the last start do not lower
/// them.
pub(super) fn served_per_s(workload: &Workload) -> f64 {
    let at_a_rate = workload.offered.as_ref().filter(|offered| offered.asked_per_s.is_some());
    at_a_rate.map_or(workload.rate_per_s, |offered| offered.served_per_s)
}

/// `of 400/s`, the rate that was asked for.
pub(super) fn asked(workload: &Workload) -> Option<String> {
    Some(format!("of {}/s", per_s(workload.offered.as_ref()?.asked_per_s?)))
}

/// `All 40 virtual users were busy (max_concurrency); 375/s of 400/s served; up to 1200 iterations waited, for up to
/// 3.20 s (queue time).`; `None` if no iteration had to wait for a virtual user.
#[must_use]
pub fn sentence(workload: &Workload) -> Option<String> {
    let offered = workload.offered.as_ref().filter(|offered| offered.all_busy)?;
    let kept_up = offered.asked_per_s.is_some_and(|asked| offered.served_per_s >= KEPT_UP * asked)
        && workload.iterations.dropped == 0;
    let mut parts = vec![busy(offered, if kept_up { " for a time" } else { "" })];
    if let Some(asked) = offered.asked_per_s.filter(|_| !kept_up) {
        parts.push(format!("{}/s of {}/s served", per_s(offered.served_per_s), per_s(asked)));
    }
    if offered.queued_max > 0 {
        let noun = if offered.queued_max == 1 { "iteration" } else { "iterations" };
        parts.push(format!(
            "up to {} {noun} waited, for up to {} (queue time)",
            offered.queued_max,
            duration(workload.queue_time.max_ms)
        ));
    }
    if workload.iterations.dropped > 0 {
        parts.push(format!("{} were dropped", workload.iterations.dropped));
    }
    Some(format!("{}.", parts.join("; ")))
}

fn busy(offered: &OfferedLoad, long: &str) -> String {
    match offered.users_max {
        Some(1) => format!("The only virtual user was busy{long} (max_concurrency)"),
        Some(users) => format!("All {users} virtual users were busy{long} (max_concurrency)"),
        None => format!("All virtual users were busy{long} (as many as the limits of this machine allow)"),
    }
}

fn per_s(rate: f64) -> String {
    if rate >= 99.95 || rate.fract().abs() < 1e-9 { format!("{rate:.0}") } else { format!("{rate:.1}") }
}
