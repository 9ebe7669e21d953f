//! The verdict as JUnit XML: a suite for each workload, a test case for each criterion.

use std::collections::HashMap;
use std::time::Duration;

use quick_junit::{NonSuccessKind, Report, SerializeError, TestCase, TestCaseStatus, TestSuite};

use super::document::Badge;
use super::{screen, words};
use results::model::{Criterion, Outcome, Reason, ReasonKind, Results, RunStatus, Severity};

/// The suite, and the class, of what no workload has.
const ITSELF: &str = "the run itself";

/// The verdict for programs that read JUnit. INVALID is an error; INCONCLUSIVE and warnings are skipped tests. A log
/// without an end record is a separate error.
///
/// # Errors
/// Text that XML cannot hold.
pub fn render(results: &Results) -> Result<String, SerializeError> {
    let mut report = Report::new(results.scenario.title.as_str());
    report.time = seconds(results.run.duration_s);
    let why = VerdictReason(screen::reason(results));
    for workload in &results.workloads {
        let mut suite = TestSuite::new(workload.name.as_str());
        suite.timestamp = results.run.started_at.parse().ok();
        suite.time = Some(seconds(workload.duration_s).unwrap_or_default());
        if !results.deployment.tls_verified {
            suite.add_property(("tls", "not verified"));
        }
        if let Some(not_served) = words::not_served(std::slice::from_ref(workload)) {
            suite.add_property(("not served", not_served.as_str()));
        }
        if workload.iterations.resent > 0 {
            suite.add_property(("resent", workload.iterations.resent.to_string().as_str()));
        }
        let criteria =
            results.verdict.criteria.iter().filter(|criterion| criterion.workload == workload.name);
        // Without profiling, an id names no trace.
        let is_profiled = results.profiling.enabled;
        let shown = |criterion: &Criterion| match is_profiled {
            true => criterion.clone(),
            false => Criterion { trace_ids: Vec::new(), ..criterion.clone() },
        };
        suite.add_test_cases(apart(criteria.map(|criterion| case(&shown(criterion), why.of(criterion)))));
        report.add_test_suite(suite);
    }
    let mut faults: Vec<(&str, &str)> =
        results.verdict.invalid.iter().map(|reason| ("the run can be judged", reason.as_str())).collect();
    if results.run.status == RunStatus::Recovered {
        faults.push(("the run finished", "the log has no end record: only the recorded part was judged"));
    }
    let unjudged = why.unjudged();
    if !faults.is_empty() || unjudged.is_some() {
        let mut suite = TestSuite::new(ITSELF);
        suite.timestamp = results.run.started_at.parse().ok();
        suite.time = Some(Duration::ZERO);
        for (name, reason) in faults {
            let mut status = TestCaseStatus::non_success(NonSuccessKind::Error);
            status.set_message(reason).set_type(Outcome::Invalid.word());
            suite.add_test_case(of_run(name, status));
        }
        suite.add_test_cases(unjudged);
        report.add_test_suite(suite);
    }
    written(&report)
}

/// Criteria of something other than a run, such as a comparison, as one suite: when it began, in RFC 3339, and how long
/// it took.
///
/// # Errors
/// Text that XML cannot hold.
pub fn of_criteria(
    title: &str,
    criteria: &[Criterion],
    (began, took_s): (&str, f64),
) -> Result<String, SerializeError> {
    let mut report = Report::new(title);
    report.time = seconds(took_s);
    let mut suite = TestSuite::new(title);
    suite.timestamp = began.parse().ok();
    suite.time = Some(seconds(took_s).unwrap_or_default());
    suite.add_test_cases(apart(criteria.iter().map(|criterion| case(criterion, None))));
    report.add_test_suite(suite);
    written(&report)
}

/// A case that takes no time itself, since the suite has that of the load. Readers such as dorny/test-reporter show `NaN`
/// without a time.
fn judged(name: &str, status: TestCaseStatus) -> TestCase {
    let mut case = TestCase::new(name, status);
    case.time = Some(Duration::ZERO);
    case
}

/// A case of the run itself, which has no workload.
fn of_run(name: &str, status: TestCaseStatus) -> TestCase {
    let mut case = judged(name, status);
    case.set_classname(ITSELF);
    case
}

/// A duration, if there is one.
fn seconds(value: f64) -> Option<Duration> {
    Duration::try_from_secs_f64(value).ok()
}

/// Cases with names of their own: what reads them takes two of one name for one. Criteria may differ in what their text
/// does not say, such as `min_samples`.
fn apart(cases: impl Iterator<Item = TestCase>) -> impl Iterator<Item = TestCase> {
    let mut seen: HashMap<String, usize> = HashMap::new();
    cases.map(move |mut case| {
        let count = seen.entry(case.name.to_string()).or_default();
        *count += 1;
        if *count > 1 {
            case.name = format!("{} ({count})", case.name.as_str()).into();
        }
        case
    })
}

/// Jenkins's schema counts skipped tests on each suite, and has no such attribute on the root element.
fn written(report: &Report) -> Result<String, SerializeError> {
    const SKIPPED: &str = " skipped=\"";
    let mut xml = report.to_string()?;
    // No value can hold a quote or a bracket, so this is the first tag and its own attribute.
    if let Some(start) = xml.find("<testsuites")
        && let Some(length) = xml[start..].find('>')
        && let Some(at) = xml[start..start + length].find(SKIPPED)
    {
        let at = start + at;
        let end = xml[at + SKIPPED.len()..].find('"').map(|end| at + SKIPPED.len() + end + 1);
        xml.replace_range(at..end.unwrap_or(at), "");
    }
    Ok(xml)
}

/// Why the run has its verdict.
struct VerdictReason(Reason);

impl VerdictReason {
    /// The reason, for the criterion that decided.
    fn of(&self, criterion: &Criterion) -> Option<&Reason> {
        let decided = self.0.criterion.as_ref() == Some(&criterion.condition)
            && self.0.workload.as_ref().is_none_or(|workload| *workload == criterion.workload);
        decided.then_some(&self.0)
    }

    /// Failed iterations that no criterion judges: they fail nothing, and must not be overlooked.
    fn unjudged(&self) -> Option<TestCase> {
        let Self(reason) = self;
        let is_missing = reason.kind == ReasonKind::NoTraces;
        let is_open = reason.criterion.is_none() && (reason.count.is_some() || is_missing);
        is_open.then(|| {
            let name = if is_missing { "traces come" } else { "iterations succeed" };
            let mut status = TestCaseStatus::skipped();
            status.set_message(format!("warning: {}", reason.headline)).set_type("warning");
            status.set_description(lines(reason).join("\n"));
            of_run(&format!("{name} (no criterion judges it)"), status)
        })
    }
}

fn lines(reason: &Reason) -> Vec<String> {
    let excerpt = reason.excerpt.as_ref().map(|body| format!("the answer: {body}"));
    [Some(reason.headline.clone()), Some(reason.sentence.clone()), excerpt].into_iter().flatten().collect()
}

fn case(criterion: &Criterion, why: Option<&Reason>) -> TestCase {
    let mut text = why.map(lines).unwrap_or_default();
    let first = text.len();
    text.push(criterion.observed.clone());
    text.extend(criterion.reason.clone());
    text.extend(criterion.trace_ids.iter().map(|id| format!("trace {id}")));
    let status = match (criterion.outcome, criterion.severity) {
        (Outcome::Pass | Outcome::None, _) => TestCaseStatus::success(),
        (Outcome::Fail, Severity::Fail) => failing(NonSuccessKind::Failure, criterion, &text),
        (Outcome::Invalid, Severity::Fail) => failing(NonSuccessKind::Error, criterion, &text),
        (outcome, _) => {
            let mut status = TestCaseStatus::skipped();
            let is_warning = criterion.severity == Severity::Warn;
            let word = if is_warning { Badge::criterion(criterion).word } else { outcome.word() };
            let only = if is_warning { " (this criterion only warns)" } else { "" };
            status
                .set_message(format!("{word}: {}: {}{only}", criterion.condition, text[first]))
                .set_type(word)
                .set_description(text.join("\n"));
            status
        }
    };
    let mut case = judged(&criterion.condition, status);
    case.set_classname(format!("{}.{}", criterion.workload, criterion.criterion));
    if criterion.outcome == Outcome::Pass {
        case.set_system_out(criterion.observed.as_str());
    }
    case
}

fn failing(kind: NonSuccessKind, criterion: &Criterion, text: &[String]) -> TestCaseStatus {
    let mut status = TestCaseStatus::non_success(kind);
    let outcome = if kind == NonSuccessKind::Failure { Outcome::Fail } else { Outcome::Invalid };
    let word = outcome.word();
    status
        .set_message(format!("{}: {}", criterion.condition, criterion.observed))
        .set_type(word)
        .set_description(text.join("\n"));
    status
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::html::sample;

    const BEGAN: &str = "2025-11-20T12:00:00Z";

    type Names = &'static [&'static str];
    type Element = (&'static str, Names, Names, Names);

    /// For each element of Jenkins's schema (junit-10.xsd of its xunit plugin) that ours uses: the attributes that
    /// it must have, those that it may have, and the elements within it.
    const SCHEMA: [Element; 9] = [
        ("testsuites", &[], &["name", "time", "tests", "failures", "errors"], &["testsuite"]),
        (
            "testsuite",
            &["name", "tests", "failures", "errors"],
            &[
                "group",
                "time",
                "skipped",
                "timestamp",
                "hostname",
                "id",
                "package",
                "file",
                "log",
                "url",
                "version",
            ],
            &["testsuite", "properties", "testcase", "system-out", "system-err"],
        ),
        (
            "testcase",
            &["name"],
            &["time", "classname", "group"],
            &["skipped", "error", "failure", "system-out", "system-err"],
        ),
        ("skipped", &[], &["type", "message"], &[]),
        ("error", &[], &["type", "message"], &[]),
        ("failure", &[], &["type", "message"], &[]),
        ("system-out", &[], &[], &[]),
        ("properties", &[], &[], &["property"]),
        ("property", &["name", "value"], &[], &[]),
    ];

    /// Holds XML to the schema; gives how often each element is there.
    fn hold(xml: &str) -> std::collections::BTreeMap<String, usize> {
        let (mut open, mut seen) = (Vec::<&str>::new(), std::collections::BTreeMap::new());
        for tag in xml.split('<').skip(1).filter(|tag| !tag.starts_with('?')) {
            let (tag, _) = tag.split_once('>').unwrap();
            if let Some(name) = tag.strip_prefix('/') {
                assert_eq!(open.pop(), Some(name), "{xml}");
                continue;
            }
            let content = tag.trim_end_matches('/');
            let (name, mut rest) = content.split_once(' ').unwrap_or((content, ""));
            // What dorny/test-reporter, GitLab and Jenkins show as durations and times.
            for (element, attribute) in [
                ("testcase", " time=\"0.000\""),
                ("testcase", " classname=\""),
                ("testsuite", " time=\""),
                ("testsuite", " timestamp=\"2"),
            ] {
                assert!(name != element || tag.contains(attribute), "<{tag}> has no{attribute}");
            }
            let (_, must, may, _) =
                SCHEMA.iter().find(|(known, ..)| *known == name).unwrap_or_else(|| panic!("<{name}>"));
            match open.last() {
                None => assert_eq!(name, "testsuites"),
                Some(parent) => {
                    let (.., within) = SCHEMA.iter().find(|(known, ..)| known == parent).unwrap();
                    assert!(within.contains(&name), "<{name}> in <{parent}>");
                }
            }
            let mut attributes = Vec::new();
            while let Some((attribute, value)) = rest.trim_start().split_once("=\"") {
                attributes.push(attribute);
                rest = value.split_once('"').unwrap().1;
            }
            assert!(must.iter().all(|attribute| attributes.contains(attribute)), "<{tag}>");
            for attribute in attributes {
                assert!(must.contains(&attribute) || may.contains(&attribute), "{attribute} of <{tag}>");
            }
            *seen.entry(name.to_owned()).or_insert(0) += 1;
            if !tag.ends_with('/') {
                open.push(name);
            }
        }
        assert!(open.is_empty(), "{xml}");
        seen
    }

    #[test]
    fn it_is_valid_by_the_schema_of_jenkins() {
        let mut results = sample::sample(200).results;
        let base = results.verdict.criteria[0].clone();
        let outcomes = [Outcome::Pass, Outcome::Fail, Outcome::Inconclusive, Outcome::Invalid, Outcome::None];
        results.verdict.criteria = outcomes
            .into_iter()
            .flat_map(|outcome| [Severity::Fail, Severity::Warn].map(|severity| (outcome, severity)))
            .map(|(outcome, severity)| Criterion {
                workload: results.workloads[0].name.clone(),
                condition: "p95 <\" skipped=\"9\" & ]]> > 1".to_owned(),
                reason: Some("<testsuite skipped=\"x\">".to_owned()),
                outcome,
                severity,
                ..base.clone()
            })
            .collect();
        results.scenario.title = "a > b skipped=\"7\" <".to_owned();
        results.verdict.invalid = vec!["bench itself".to_owned()];
        results.run.status = RunStatus::Recovered;
        let seen = hold(&render(&results).unwrap());
        let described = render(&results).unwrap();
        assert!(described.contains("Broken: ") || described.contains("is broken: "), "{described}");
        let counts =
            ["testcase", "failure", "error", "skipped"].map(|name| seen.get(name).copied().unwrap_or(0));
        assert_eq!(counts, [12, 1, 3, 4]);
        let seen = hold(&of_criteria("ab <x>", &results.verdict.criteria, (BEGAN, 61.5)).unwrap());
        assert_eq!(seen["testcase"], 10);
        results.verdict.criteria.clear();
        results.verdict.invalid.clear();
        results.run.status = RunStatus::Finished;
        for (tls_verified, properties) in [(true, 0), (false, results.workloads.len())] {
            results.deployment.tls_verified = tls_verified;
            let xml = render(&results).unwrap();
            hold(&xml);
            assert_eq!(xml.matches("<property name=\"tls\" value=\"not verified\"/>").count(), properties);
        }
    }
}
