//! The verdict as JUnit XML: a suite for each workload, a test case for each criterion.

use quick_junit::{NonSuccessKind, Report, SerializeError, TestCase, TestCaseStatus, TestSuite};

use crate::results::model::{Criterion, Outcome, Results, RunStatus, Severity};

/// The verdict for programs that read JUnit. What was not judged (INVALID) is an error, what could not be told
/// (INCONCLUSIVE) is skipped, and so is a warning. A run whose log has no end has an error of its own.
///
/// # Errors
/// Text that XML cannot hold.
pub fn render(results: &Results) -> Result<String, SerializeError> {
    let mut report = Report::new(results.scenario.title.as_str());
    for workload in &results.workloads {
        let mut suite = TestSuite::new(workload.name.as_str());
        let criteria =
            results.verdict.criteria.iter().filter(|criterion| criterion.workload == workload.name);
        suite.add_test_cases(criteria.map(case));
        report.add_test_suite(suite);
    }
    let mut faults: Vec<(&str, &str)> = results
        .verdict
        .invalid
        .iter()
        .map(|reason| ("the load generator kept up", reason.as_str()))
        .collect();
    if results.run.status == RunStatus::Recovered {
        faults.push((
            "the run came to its end",
            "the run has no end: what its log holds is judged, and more is not known",
        ));
    }
    if !faults.is_empty() {
        let mut suite = TestSuite::new("the run itself");
        for (name, reason) in faults {
            let mut status = TestCaseStatus::non_success(NonSuccessKind::Error);
            status.set_message(reason).set_type("INVALID");
            suite.add_test_case(TestCase::new(name, status));
        }
        report.add_test_suite(suite);
    }
    report.to_string()
}

/// Criteria of something else than a run, such as a comparison, as one suite.
///
/// # Errors
/// Text that XML cannot hold.
pub fn of_criteria(title: &str, criteria: &[Criterion]) -> Result<String, SerializeError> {
    let mut report = Report::new(title);
    let mut suite = TestSuite::new(title);
    suite.add_test_cases(criteria.iter().map(case));
    report.add_test_suite(suite);
    report.to_string()
}

fn case(criterion: &Criterion) -> TestCase {
    let mut text = vec![criterion.observed.clone()];
    text.extend(criterion.reason.clone());
    text.extend(criterion.trace_ids.iter().map(|id| format!("trace {id}")));
    let status = match (criterion.outcome, criterion.severity) {
        (Outcome::Pass | Outcome::None, _) => TestCaseStatus::success(),
        (Outcome::Fail, Severity::Fail) => failing(NonSuccessKind::Failure, criterion, &text),
        (Outcome::Invalid, Severity::Fail) => failing(NonSuccessKind::Error, criterion, &text),
        (outcome, _) => {
            let mut status = TestCaseStatus::skipped();
            let word = if outcome == Outcome::Inconclusive { "INCONCLUSIVE" } else { "warning" };
            status
                .set_message(format!("{word}: {}", text[0]))
                .set_type(word)
                .set_description(text.join("\n"));
            status
        }
    };
    let mut case = TestCase::new(criterion.condition.as_str(), status);
    case.set_classname(format!("{}.{}", criterion.workload, criterion.criterion));
    if criterion.outcome == Outcome::Pass {
        case.set_system_out(criterion.observed.as_str());
    }
    case
}

fn failing(kind: NonSuccessKind, criterion: &Criterion, text: &[String]) -> TestCaseStatus {
    let mut status = TestCaseStatus::non_success(kind);
    let word = if kind == NonSuccessKind::Failure { "FAIL" } else { "INVALID" };
    status
        .set_message(format!("{}: {}", criterion.condition, criterion.observed))
        .set_type(word)
        .set_description(text.join("\n"));
    status
}
