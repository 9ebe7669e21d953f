//! Asynchronous work in words, the same in every output.

use super::document::{Cell, Column, DocumentTable, StyledLine};
use super::explanation::PointLabel;
use super::words::{self, duration};
use results::model::{Asynchronous, AsynchronousAt, Explanation, LateIteration, Workload};
use verdict::traces::MISSING_MAX;

/// Late iterations that a table shows.
const LATEST_SHOWN: usize = 5;

/// What was measured of a workload's asynchronous work, beside its response times, and of how many iterations.
#[must_use]
pub fn sentence(workload: &Workload) -> Option<String> {
    let seen = workload.asynchronous.as_ref()?;
    let Asynchronous { traced, of, of_iterations, .. } = seen;
    let deadline = duration(seen.deadline_s * 1e3);
    if *traced == 0 {
        return Some(format!(
            "Asynchronous work was not measured: of {of} random iterations, none has a trace that was read after the \
             deadline of {deadline}."
        ));
    }
    if 1.0 - *traced as f64 / (*of).max(1) as f64 > MISSING_MAX {
        return Some(format!(
            "When asynchronous work ends is not known: of {of} random iterations, only {traced} have a trace that was read \
             after the deadline of {deadline}."
        ));
    }
    let at = |percentile: f64| seen.at(percentile).map(|at| format!("p{percentile} {}", value(at)));
    let times: Vec<String> = [at(50.0), at(95.0)].into_iter().flatten().collect();
    let longest = seen.max_ms.map_or_else(String::new, |ms| format!(", longest {}", duration(ms)));
    let response = |percentile: f64| {
        let times = &workload.response_time;
        times.at(percentile)?;
        Some(format!("p{percentile} {}", words::percentile(times, percentile, "")))
    };
    let responses: Vec<String> = [response(50.0), response(95.0)].into_iter().flatten().collect();
    let linked = match seen.linked {
        0 => String::new(),
        linked => format!(", {linked} of them with work behind a link"),
    };
    let running = match seen.running {
        0 => String::new(),
        running => format!(" {running} still running at the deadline of {deadline}."),
    };
    Some(format!(
        "Asynchronous work ended after {}{longest} (responses: {}). Measured from the start to the last span in {traced} of \
         {of} random iterations{linked}; {of_iterations} succeeded.{running}",
        times.join(", "),
        responses.join(", ")
    ))
}

/// The iterations whose work ended last, each with what explains it.
#[must_use]
pub fn latest(workload: &Workload) -> Option<DocumentTable> {
    let late = words::late_work(workload)?;
    let mut table = DocumentTable::new(vec![
        Column::figure("work ended"),
        Column::figure("response").left_out(2),
        Column::words("trace id"),
        Column::figure("above typical").left_out(1),
        Column::name("largest part"),
    ]);
    (table.rows_shown, table.others) = (LATEST_SHOWN, "other late iterations");
    for LateIteration { response_ms, explanation } in &late.latest {
        table.row([
            duration(explanation.response_ms).into(),
            duration(*response_ms).into(),
            Cell::code(explanation.trace_id.to_string()),
            explanation.excess_ms.map_or_else(Cell::empty, |ms| words::signed(ms).into()),
            largest_part(explanation).into(),
        ]);
    }
    (!table.rows.is_empty()).then_some(table)
}

/// What takes most of the time that the work of an iteration ended later, and how much longer than in typical ones.
pub(super) fn largest_part(explanation: &Explanation) -> StyledLine {
    let mut line = PointLabel::from(explanation).in_service();
    match explanation.longer_ms {
        Some(ms) => line.text(format!(", {} longer", duration(ms))).done(),
        None => line.text(format!(", {}", duration(explanation.own_ms))).done(),
    }
}

/// `3.4 s (2.9 s to 5.1 s)`.
fn value(at: &AsynchronousAt) -> String {
    let bounds = match (at.low_ms, at.high_ms) {
        (Some(low), Some(high)) => format!(" ({} to {})", duration(low), duration(high)),
        (Some(low), None) => format!(" (at least {})", duration(low)),
        (None, Some(high)) => format!(" (at most {})", duration(high)),
        (None, None) => String::new(),
    };
    let more = if at.is_running { "over " } else { "" };
    format!("{more}{}{bounds}", duration(at.value_ms))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::html::sample;
    use results::model::AsynchronousSample;

    #[test]
    fn both_times_are_said_with_of_how_many() {
        let mut workload = sample::sample(200).results.workloads.remove(0);
        assert_eq!(sentence(&workload), None);
        let at = |percentile, value_ms, high_ms, is_running| AsynchronousAt {
            percentile,
            value_ms,
            low_ms: Some(value_ms / 2.0),
            high_ms,
            is_running,
        };
        let seen = Asynchronous {
            deadline_s: 10.0,
            sample: AsynchronousSample::Random,
            traced: 180,
            of: 200,
            of_iterations: 5_000,
            running: 3,
            linked: 90,
            percentiles: vec![at(50.0, 1_000.0, Some(2_000.0), false), at(95.0, 4_000.0, None, true)],
            max_ms: Some(9_000.0),
            late: None,
        };
        workload.asynchronous = Some(seen.clone());
        let text = sentence(&workload).unwrap();
        for part in [
            "p50 1.00 s (500 ms to 2.00 s), p95 over 4.00 s (at least 2.00 s), longest 9.00 s (responses: p50 ",
            "in 180 of 200 random iterations, 90 of them with work behind a link; 5000 succeeded. 3 still running",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        workload.asynchronous = Some(Asynchronous { traced: 159, ..seen.clone() });
        let few = sentence(&workload).unwrap();
        assert!(
            few.starts_with("When asynchronous work ends is not known: of 200 random iterations, only 159"),
            "{few}"
        );
        workload.asynchronous = Some(Asynchronous { traced: 0, percentiles: Vec::new(), ..seen });
        assert!(
            sentence(&workload).unwrap().starts_with("Asynchronous work was not measured: of 200 random")
        );
    }
}
