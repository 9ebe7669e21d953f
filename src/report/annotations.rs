//! The verdict as workflow commands of GitHub Actions: a line beside the job for each criterion that does not hold.

use super::screen;
use results::model::{Criterion, Outcome, Reason, ReasonKind, Results, Severity};

use base::visible::on_one_line;

/// GitHub shows ten annotations of each kind per step.
const SHOWN_MAX: usize = 10;

/// A line each, errors before warnings; empty when all is well.
#[must_use]
pub fn render(results: &Results) -> String {
    let mut lines: Vec<String> =
        results.verdict.invalid.iter().map(|reason| line("error", Outcome::Invalid.word(), reason)).collect();
    let reason = screen::reason(results);
    // What no criterion says: iterations that failed without one, and traces that never came.
    let is_open =
        reason.criterion.is_none() && (reason.count.is_some() || reason.kind == ReasonKind::NoTraces);
    lines.extend(is_open.then(|| line("warning", &reason.headline, &reason.sentence)));
    let criteria: Vec<Criterion> = results
        .verdict
        .criteria
        .iter()
        .map(|one| with_reason(one, &reason, results.profiling.enabled))
        .collect();
    lines.extend(of_criteria(&criteria));
    lines.join("\n")
}

/// A criterion with the reason of the verdict before its figure, if it decided; without traces if there are none.
fn with_reason(criterion: &Criterion, reason: &Reason, is_profiled: bool) -> Criterion {
    let mut shown = criterion.clone();
    let of_workload = reason.workload.as_ref().is_none_or(|workload| *workload == criterion.workload);
    if reason.criterion.as_ref() == Some(&criterion.condition) && of_workload && reason.kind.is_by_errors() {
        shown.observed = format!("{}; {}", reason.headline, criterion.observed);
    }
    if !is_profiled {
        shown.trace_ids.clear();
    }
    shown
}

/// The same for criteria of something other than a run, such as a comparison.
#[must_use]
pub fn of_criteria(criteria: &[Criterion]) -> Vec<String> {
    let mut lines = Vec::new();
    for wanted in ["error", "warning"] {
        let of_level = |criterion: &&Criterion| level(criterion) == Some(wanted);
        for criterion in criteria.iter().filter(of_level).take(SHOWN_MAX) {
            lines.push(line(wanted, &title(criterion), &text(criterion)));
        }
    }
    lines
}

fn level(criterion: &Criterion) -> Option<&'static str> {
    match (criterion.outcome, criterion.severity) {
        (Outcome::Pass | Outcome::None, _) => None,
        (Outcome::Fail | Outcome::Invalid, Severity::Fail) => Some("error"),
        _ => Some("warning"),
    }
}

fn title(criterion: &Criterion) -> String {
    let outcome = match criterion.outcome {
        outcome @ (Outcome::Fail | Outcome::Inconclusive) => outcome,
        _ => Outcome::Invalid,
    };
    let word = outcome.word();
    format!("{word} {}: {}", criterion.workload, criterion.condition)
}

fn text(criterion: &Criterion) -> String {
    let mut text = criterion.observed.clone();
    if let Some(reason) = &criterion.reason {
        text = format!("{text}; {reason}");
    }
    if let Some(id) = criterion.trace_ids.first() {
        text = format!("{text}; trace {id}");
    }
    text
}

fn line(level: &str, title: &str, text: &str) -> String {
    format!("::{level} title={}::{}", property(title), message(text))
}

/// A workflow command is a line; `%` begins an escape.
fn message(text: &str) -> String {
    on_one_line(text).replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

/// In a property, what ends one is escaped as well.
fn property(text: &str) -> String {
    message(text).replace(':', "%3A").replace(',', "%2C")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::html::sample;
    use results::model::TraceState;

    /// What no criterion says stands beside the job too, and ids without traces do not.
    #[test]
    fn missing_traces_are_a_warning_and_ids_are_of_traces() {
        let mut results = sample::sample(200).results;
        results.verdict.invalid.clear();
        for workload in &mut results.workloads {
            workload.iterations.failed = 0;
        }
        let criterion = results.verdict.criteria[0].clone();
        let trace_ids = vec![uuid::Uuid::from_u128(7)];
        let fail = Criterion { outcome: Outcome::Fail, severity: Severity::Fail, trace_ids, ..criterion };
        for (is_profiled, has_traces, outcome, holds) in [
            (true, true, Outcome::Fail, ["::error ", "; trace 00000000-"]),
            (false, true, Outcome::Fail, ["::error ", ""]),
            (true, false, Outcome::Pass, ["::warning title=No trace came", "::None of the "]),
        ] {
            results.profiling.enabled = is_profiled;
            results.profiling.fetched =
                [(if has_traces { TraceState::Complete } else { TraceState::Absent }, 10)].into();
            results.verdict.outcome = outcome;
            let criteria = if outcome == Outcome::Fail { vec![fail.clone()] } else { Vec::new() };
            results.verdict.criteria = criteria;
            let shown = render(&results);
            assert!(holds.iter().all(|part| shown.contains(part)), "{holds:?}: {shown}");
            assert_eq!(shown.contains("trace 0000"), is_profiled && outcome == Outcome::Fail, "{shown}");
        }
    }
}
