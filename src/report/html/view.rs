//! The page as the template sees it: results turned into words.
//!
//! Strings here are plain text; the template escapes them. No statistic may be computed here.

use std::collections::HashSet;

use serde::Serialize;
use uuid::Uuid;

use super::text;
use super::workloads::{self, WorkloadView, value_at};
use crate::report::words;
use crate::results::IterationColumns;
use crate::results::model::{
    Criterion, Culprit, IterationOutcome, Outcome, Results, RunStatus, SlowIteration, TraceState,
};
use crate::results::trace::StoredTrace;

/// Everything on the page but the islands.
#[derive(Serialize)]
pub(super) struct Page {
    title: String,
    verdict: Badge,
    verdict_reason: String,
    summary: String,
    started_at: String,
    banners: Vec<Banner>,
    profiling: String,
    findings: Vec<String>,
    notes: Vec<String>,
    criteria: Vec<CriterionView>,
    slowest: Vec<SlowView>,
    several_workloads: bool,
    sample: String,
    has_iterations: bool,
    workloads: Vec<WorkloadView>,
    facts: Vec<FactGroup>,
}

/// A word with the class that colours it.
#[derive(Serialize)]
pub(super) struct Badge {
    pub(super) word: &'static str,
    pub(super) class: &'static str,
}

#[derive(Serialize)]
struct Banner {
    class: &'static str,
    title: String,
    text: String,
}

#[derive(Serialize)]
struct CriterionView {
    workload: String,
    criterion: String,
    condition: String,
    observed: String,
    outcome: Badge,
    samples: String,
    trace_ids: Vec<Uuid>,
}

#[derive(Serialize)]
struct SlowView {
    trace_id: Uuid,
    workload: String,
    number: String,
    response: String,
    service: String,
    waited: Option<String>,
    start: String,
    outcome: Badge,
    error: Option<String>,
    actions: Vec<ActionView>,
    trace: &'static str,
    embedded: bool,
    culprit: Option<CulpritView>,
}

#[derive(Serialize)]
struct ActionView {
    name: String,
    start: String,
    duration: String,
    status: String,
}

#[derive(Serialize)]
struct CulpritView {
    name: String,
    detail: String,
    place: String,
    times: [String; 3],
    path: String,
}

#[derive(Serialize)]
struct FactGroup {
    title: &'static str,
    facts: Vec<(String, String)>,
}

/// The page of a run.
pub(super) fn page(results: &Results, iterations: &IterationColumns, traces: &[StoredTrace]) -> Page {
    let embedded: HashSet<Uuid> = traces.iter().map(|trace| trace.trace_id).collect();
    Page {
        title: results.scenario.title.clone(),
        verdict: match results.verdict.outcome {
            Outcome::None if !results.verdict.invalid.is_empty() => verdict_badge(Outcome::Invalid),
            outcome => verdict_badge(outcome),
        },
        verdict_reason: match results.verdict.invalid.as_slice() {
            [] => verdict_reason(&results.verdict.criteria),
            _ => "The run says nothing about the service.".to_owned(),
        },
        summary: summary(results),
        started_at: results.run.started_at.clone(),
        banners: banners(results),
        profiling: profiling(results),
        findings: words::sentences(results),
        notes: results.notes.clone(),
        criteria: results.verdict.criteria.iter().map(criterion).collect(),
        slowest: results.slowest.iter().map(|slow| slow_view(results, slow, &embedded)).collect(),
        several_workloads: results.workloads.len() > 1,
        sample: sample(iterations),
        has_iterations: !iterations.is_empty(),
        workloads: results.workloads.iter().map(workloads::view).collect(),
        facts: facts(results),
    }
}

fn verdict_badge(outcome: Outcome) -> Badge {
    let (word, class) = match outcome {
        Outcome::Pass => ("PASS", "good"),
        Outcome::Fail => ("FAIL", "bad"),
        Outcome::Inconclusive => ("INCONCLUSIVE", "doubt"),
        Outcome::Invalid => ("INVALID", "doubt"),
        Outcome::None => ("NO GATE", "plain"),
    };
    Badge { word, class }
}

fn verdict_reason(criteria: &[Criterion]) -> String {
    let of = |outcome| criteria.iter().filter(|criterion| criterion.outcome == outcome).count();
    match (criteria.len(), of(Outcome::Fail), of(Outcome::Invalid)) {
        (0, _, _) => "The scenario asks for no criterion.".to_owned(),
        (1, 0, 0) => "The criterion holds.".to_owned(),
        (all, 0, 0) => format!("All {all} criteria hold."),
        (all, 0, unjudged) => format!("{unjudged} of {all} criteria could not be judged."),
        (1, 1, 0) => "The criterion does not hold.".to_owned(),
        (all, broken, 0) => format!("{broken} of {all} criteria do not hold."),
        (all, broken, unjudged) => {
            format!("{broken} of {all} criteria do not hold, {unjudged} could not be judged.")
        }
    }
}

fn summary(results: &Results) -> String {
    let total = results.workloads.iter().map(|workload| workload.iterations.total).sum();
    let failed: u64 = results.workloads.iter().map(|workload| workload.iterations.failed).sum();
    let aborted: u64 = results.workloads.iter().map(|workload| workload.iterations.aborted).sum();
    let ran = text::counted(total, "iteration");
    let lasted = text::duration(results.run.duration_s * 1e3);
    let by = match results.workloads.as_slice() {
        [only] => format!(
            " ({} a second), response time p50 {}, p99 {}",
            text::rate(only.rate_per_s),
            value_at(&only.response_time, 50.0),
            value_at(&only.response_time, 99.0)
        ),
        several => format!(" by {}", text::counted(several.len() as u64, "workload")),
    };
    let faults = match failed {
        0 => "none failed".to_owned(),
        failed => format!("{} failed", text::count(failed)),
    };
    let cut = match aborted {
        0 => String::new(),
        aborted => format!(", {} cut off by the end of the run", text::count(aborted)),
    };
    let dropped: u64 = results.workloads.iter().map(|workload| workload.iterations.dropped).sum();
    let dropped = match dropped {
        0 => String::new(),
        dropped => format!(", {} dropped because too many were waiting", text::count(dropped)),
    };
    format!("{ran} in {lasted}{by}; {faults}{cut}{dropped}.")
}

/// A reason as a sentence.
fn sentence(reason: &str) -> String {
    let mut letters = reason.chars();
    let first = letters.next().map(char::to_uppercase);
    first.into_iter().flatten().chain(letters).chain(['.']).collect()
}

fn banners(results: &Results) -> Vec<Banner> {
    let invalid = results.verdict.invalid.iter();
    let mut banners: Vec<Banner> = invalid
        .map(|reason| Banner { class: "bad", title: "Not a valid run".to_owned(), text: sentence(reason) })
        .collect();
    let error = results.run.error.clone();
    let ended = match results.run.status {
        RunStatus::Finished => error.as_ref().map(|_| ("bad", "The run reported a fault", "")),
        RunStatus::Interrupted => {
            Some(("doubt", "Interrupted", "The run was stopped by a signal; what had run is here."))
        }
        RunStatus::Aborted => Some(("bad", "Stopped by a threshold", "What had run until then is here.")),
        RunStatus::TimedOut => {
            Some(("doubt", "Timed out", "The run reached the scenario's time limit; what had run is here."))
        }
        RunStatus::Failed => Some(("bad", "The run failed", "What had run is here.")),
        RunStatus::Recovered => Some((
            "doubt",
            "Recovered",
            "The harness was killed; this is everything up to the last complete record of its log.",
        )),
    };
    if let Some((class, title, text)) = ended {
        let text = [text, error.as_deref().unwrap_or_default()].join(" ").trim().to_owned();
        banners.push(Banner { class, title: title.to_owned(), text });
    }
    if !results.deployment.tls_verified {
        banners.push(Banner {
            class: "doubt",
            title: "TLS not verified".to_owned(),
            text: "Certificates were not checked: the answers may have come from anybody.".to_owned(),
        });
    }
    if let Some(error) = &results.profiling.collector_error {
        banners.push(Banner { class: "doubt", title: "Collector error".to_owned(), text: error.clone() });
    }
    banners
}

fn profiling(results: &Results) -> String {
    let profiling = &results.profiling;
    if !profiling.enabled {
        return match &profiling.reason {
            Some(reason) => format!("Profiling off: {reason}"),
            None => "Profiling off.".to_owned(),
        };
    }
    if results.workloads.iter().all(|workload| workload.iterations.total == 0) {
        return "Profiling on; no iteration ran.".to_owned();
    }
    match fetched(results) {
        fetched if fetched.is_empty() => {
            "Profiling on: every iteration was traced; none was fetched.".to_owned()
        }
        fetched => format!("Profiling on: every iteration was traced. Fetched: {fetched}."),
    }
}

fn fetched(results: &Results) -> String {
    let counts = results.profiling.fetched.iter();
    let counts = counts.map(|(state, count)| format!("{} {}", text::count(*count), trace_word(*state)));
    counts.collect::<Vec<_>>().join(", ")
}

fn trace_word(state: TraceState) -> &'static str {
    match state {
        TraceState::Complete => "complete",
        TraceState::Partial => "partial",
        TraceState::Absent => "absent",
        TraceState::NotFetched => "not fetched",
    }
}

fn criterion(criterion: &Criterion) -> CriterionView {
    CriterionView {
        workload: criterion.workload.clone(),
        criterion: criterion.criterion.clone(),
        condition: criterion.condition.clone(),
        observed: criterion.observed.clone(),
        outcome: verdict_badge(criterion.outcome),
        samples: text::count(criterion.samples),
        trace_ids: criterion.trace_ids.clone(),
    }
}

fn slow_view(results: &Results, slow: &SlowIteration, embedded: &HashSet<Uuid>) -> SlowView {
    let iteration = &slow.iteration;
    let workload = results.workloads.get(usize::from(iteration.workload));
    let waited_ms = slow.response_ms - iteration.duration_ms;
    SlowView {
        trace_id: iteration.trace_id,
        workload: workload.map_or_else(|| format!("#{}", iteration.workload), |known| known.name.clone()),
        number: text::count(iteration.number),
        response: text::duration(slow.response_ms),
        service: text::duration(iteration.duration_ms),
        // Below a hundredth of the whole it is the scheduler's noise, and a reader's distraction.
        waited: (waited_ms > slow.response_ms / 100.0).then(|| text::duration(waited_ms)),
        start: text::duration(iteration.start_s * 1e3),
        outcome: match iteration.outcome {
            IterationOutcome::Ok => Badge { word: "ok", class: "good" },
            IterationOutcome::Failed => Badge { word: "failed", class: "bad" },
            IterationOutcome::Aborted => Badge { word: "aborted", class: "plain" },
            IterationOutcome::Dropped => Badge { word: "dropped", class: "plain" },
        },
        error: iteration.error.clone(),
        actions: slow.actions.iter().map(action).collect(),
        trace: trace_word(slow.trace),
        embedded: embedded.contains(&iteration.trace_id),
        culprit: slow.culprit.as_ref().map(culprit),
    }
}

fn action(action: &crate::results::model::ActionTiming) -> ActionView {
    ActionView {
        name: action.name.clone(),
        start: text::duration(action.start_ms),
        duration: text::duration(action.duration_ms),
        status: action.status.map_or_else(|| "no answer".to_owned(), |status| status.to_string()),
    }
}

fn culprit(culprit: &Culprit) -> CulpritView {
    let place = match (culprit.service.as_str(), culprit.host.as_str()) {
        ("", "") => String::new(),
        ("", host) => format!("on {host}"),
        (service, "") => format!("in {service}"),
        (service, host) => format!("in {service} on {host}"),
    };
    CulpritView {
        name: culprit.name.clone(),
        detail: culprit.detail.clone(),
        place,
        times: [
            format!("{} of its own", text::duration(culprit.self_ms)),
            format!("{} of the iteration", text::percent(culprit.share)),
            text::counted(culprit.calls, "call"),
        ],
        path: culprit.path.join(" › "),
    }
}

fn sample(iterations: &IterationColumns) -> String {
    let shown = iterations.len() as u64;
    if iterations.is_sample() {
        format!("A sample of {} of {}.", text::count(shown), text::counted(iterations.total, "iteration"))
    } else {
        format!("{}.", text::counted(shown, "iteration"))
    }
}

fn facts(results: &Results) -> Vec<FactGroup> {
    let fact = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let (run, scenario) = (&results.run, &results.scenario);
    let (deployment, environment) = (&results.deployment, &results.environment);
    let mut where_it_ran = vec![fact("Name", &deployment.name), fact("File", &deployment.file)];
    where_it_ran.extend(deployment.targets.iter().map(|(name, url)| (format!("Target {name}"), url.clone())));
    where_it_ran.push(fact("Authentication", &deployment.auth));
    where_it_ran.push(fact("TLS", if deployment.tls_verified { "verified" } else { "not verified" }));
    let mut what_ran = vec![fact("File", &scenario.file), fact("SHA-256", &scenario.sha256)];
    what_ran.extend(scenario.set.iter().map(|(name, value)| (format!("--set {name}"), value.clone())));
    what_ran.extend(
        results
            .workloads
            .iter()
            .map(|workload| (format!("Workload {}", workload.name), workloads::settings(&workload.runner))),
    );
    let mut traced = vec![fact("Profiling", if results.profiling.enabled { "on" } else { "off" })];
    traced.extend(results.profiling.collector.iter().map(|url| fact("Collector", url)));
    traced.push((
        "Traces fetched".to_owned(),
        Some(fetched(results)).filter(|f| !f.is_empty()).unwrap_or("none".to_owned()),
    ));
    let run_facts = vec![
        fact("Run id", &run.id.to_string()),
        fact("Id seed", &run.id_seed.to_string()),
        fact("Started", &run.started_at),
        fact("Duration", &text::duration(run.duration_s * 1e3)),
    ];
    let mut machine = vec![
        fact("bench", &environment.bench_version),
        fact("System", &environment.os),
        fact("Processors", &environment.cpus.to_string()),
        fact("Workers", &environment.workers.to_string()),
        fact("Results format", &format!("{} {}", results.format, results.version)),
    ];
    machine.extend(results.generator.iter().map(|seen| fact("Its load", &words::generator(seen))));
    [
        ("Deployment", where_it_ran),
        ("Scenario", what_ran),
        ("Run", run_facts),
        ("Tracing", traced),
        ("Load generator", machine),
    ]
    .map(|(title, facts)| FactGroup { title, facts })
    .into()
}
