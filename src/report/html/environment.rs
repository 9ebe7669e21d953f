//! Where and how it ran, as the template sees it.
//!
//! Strings here are plain text; the template escapes them.

use serde::Serialize;

use super::{text, workloads};
use crate::{probe, seed, words};
use results::model::{Results, TraceState};

#[derive(Serialize)]
pub(super) struct FactGroup {
    title: &'static str,
    facts: Vec<(String, String)>,
}

/// The scenario's text, line by line with the line ends.
pub(super) fn scenario(results: &Results) -> Option<Vec<String>> {
    let text = results.scenario.text.as_ref().filter(|text| !text.trim().is_empty())?;
    Some(text.split_inclusive('\n').map(str::to_owned).collect())
}

/// What is known of the run's surroundings.
pub(super) fn facts(results: &Results) -> Vec<FactGroup> {
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
    if !results.profiling.headers.is_empty() {
        traced.push(fact("Trace headers", &results.profiling.headers.join(", ")));
    }
    traced.extend(probe::sentence(results).map(|line| ("Probe".to_owned(), line)));
    traced.extend(results.profiling.collector.iter().map(|url| fact("Collector", url)));
    traced.push((
        "Traces fetched".to_owned(),
        Some(fetched(results)).filter(|f| !f.is_empty()).unwrap_or("none".to_owned()),
    ));
    traced.extend(results.profiling.received.iter().map(|seen| fact("Spans", &words::received(seen))));
    let mut run_facts = vec![
        fact("Run id", &run.id.to_string()),
        fact("Id seed", &run.id_seed.to_string()),
        fact("Started", &run.started_at),
        fact("Duration", &text::duration(run.duration_s * 1e3)),
    ];
    run_facts.extend(run.seed.map(|seed| fact("Seed of the data", &seed::words(seed))));
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

/// What the load generator's process held, beside the chart of it.
pub(super) fn process(results: &Results) -> Option<String> {
    let held = results.generator.as_ref()?.process.as_ref()?;
    let most = |values: &[u64]| values.iter().copied().max().unwrap_or(0);
    let (first, last) = (held.memory_bytes.first()?, held.memory_bytes.last()?);
    let opened = match most(&held.descriptors) {
        0 => String::new(),
        most => format!("{} open descriptors and ", text::count(most)),
    };
    Some(format!(
        "Its process had {} of memory at first and {} at the end, and at most {opened}{} threads.",
        text::bytes(*first),
        text::bytes(*last),
        text::count(most(&held.threads)),
    ))
}

/// The fetched traces by their state.
pub(super) fn fetched(results: &Results) -> String {
    let counts = results.profiling.fetched.iter();
    let counts = counts.map(|(state, count)| format!("{} {}", text::count(*count), trace_word(*state)));
    counts.collect::<Vec<_>>().join(", ")
}

/// The state of a trace as a word.
pub(super) fn trace_word(state: TraceState) -> &'static str {
    match state {
        TraceState::Complete => "complete",
        TraceState::Partial => "partial",
        TraceState::Absent => "absent",
        TraceState::NotFetched => "not fetched",
    }
}
