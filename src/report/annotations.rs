//! The verdict as workflow commands of GitHub Actions: a line beside the job for each criterion that does not hold.

use crate::results::model::{Criterion, Outcome, Results, Severity};

use crate::base::visible::on_one_line;

/// GitHub shows ten annotations of each kind per step.
const SHOWN_MAX: usize = 10;

/// A line each, errors before warnings; empty when all is well.
#[must_use]
pub fn render(results: &Results) -> String {
    let mut lines: Vec<String> =
        results.verdict.invalid.iter().map(|reason| line("error", Outcome::Invalid.word(), reason)).collect();
    lines.extend(of_criteria(&results.verdict.criteria));
    lines.join("\n")
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
