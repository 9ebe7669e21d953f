//! The figures of a run of which nothing else is known, for its first screen.

use super::named;
use crate::document::StyledLine;
use crate::words::{self, duration};
use results::model::{Results, Time, Workload};

/// The figures of a run that nothing else is known of, in a few words.
pub(super) fn in_short(results: &Results) -> String {
    let counts = results.workloads.iter().map(|workload| workload.iterations);
    let (total, failed) =
        counts.fold((0, 0), |(total, failed), one| (total + one.total, failed + one.failed));
    let failures = if failed == 0 { "none failed".to_owned() } else { format!("{failed} failed") };
    let at = |workload: &Workload, percentile| {
        let times = &workload.response_time;
        let has_time = matches!(times.of_all_at(percentile), Some(Time::Ms(_)));
        has_time.then(|| words::percentile(times, percentile, ""))
    };
    let times = match &results.workloads[..] {
        [one] if total > 1 => at(one, 50.0).zip(at(one, 99.0)),
        _ => None,
    };
    match times {
        Some((p50, p99)) => format!("p50 {p50}, p99 {p99}, {failures}"),
        None if total == 1 => format!("1 iteration, {failures}"),
        None => format!("{total} iterations, {failures}"),
    }
}

/// The figures of a run, without those of the headline.
pub(crate) fn counted(results: &Results) -> StyledLine {
    match &results.workloads[..] {
        [one] => {
            let (count, lasted) = (one.response_time.count_of_all(), duration(one.duration_s * 1e3));
            let noun = if count == 1 { "iteration" } else { "iterations" };
            format!("{count} {noun} in {lasted}.").into()
        }
        _ => figures(results),
    }
}

/// The figures of a run that nothing else is known of.
fn figures(results: &Results) -> StyledLine {
    let one = |workload: &Workload| {
        let count = workload.response_time.count_of_all();
        let at = |percentile| {
            let shown = words::percentile(&workload.response_time, percentile, "");
            (!shown.is_empty()).then_some(shown)
        };
        let (p50, p99) = (at(50.0)?, at(99.0)?);
        let name = named(results, workload).map_or_else(String::new, |name| format!("{name}: "));
        Some(format!("{name}{count} iterations, p50 {p50}, p99 {p99}."))
    };
    let all: Vec<String> = results.workloads.iter().filter_map(one).collect();
    all.join(" ").into()
}
