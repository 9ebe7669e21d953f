//! Where and how it ran, as the template sees it, with the command that runs it again.
//!
//! Strings here are plain text; the template escapes them.

use std::path::Path;

use ::text::shell;
use serde::Serialize;
use serde_json::Value;

use super::{text, workloads};
use crate::{probe, seed, words};
use ::text::yaml;
use results::model::{Results, TraceState};

/// What stands for the files of a load that was made of a URL, and of a scenario whose URLs are whole.
const OF_URL: &str = "scenario of the URL";
const MADE_FOR_URL: &str = "deployment of the URL";
const WHOLE_URLS: &str = "URLs of the scenario";
/// The keys of a step with a method of HTTP.
const METHODS: [&str; 7] = ["get", "head", "post", "put", "patch", "delete", "options"];

#[derive(Serialize)]
pub(super) struct FactGroup {
    title: &'static str,
    facts: Vec<(String, String)>,
}

/// The command that runs the scenario again, with the same values and data.
pub(super) fn command(results: &Results) -> String {
    let mut words = vec!["bench".to_owned(), "run".to_owned()];
    match of_url(results) {
        Some(options) => words.extend(options.iter().map(|word| shell::word(word))),
        None => {
            words.push(shell::path(Path::new(&results.scenario.file)));
            // A deployment that was made of a scenario, or of a task, has no file of its own.
            if ![WHOLE_URLS, &results.scenario.file].contains(&&*results.deployment.file) {
                words.extend(["-d".to_owned(), shell::path(Path::new(&results.deployment.file))]);
            }
        }
    }
    for (name, value) in &results.scenario.set {
        words.extend(["--set".to_owned(), shell::word(&format!("{name}={value}"))]);
    }
    words.extend(results.scenario.options.iter().map(|word| shell::word(word)));
    words.extend(results.run.seed.iter().flat_map(|seed| ["--seed".to_owned(), seed.to_string()]));
    words.join(" ")
}

/// The URL and the options that a scenario without a file was made of; secrets are `***`, as in the scenario's text.
fn of_url(results: &Results) -> Option<Vec<String>> {
    let scenario = &results.scenario;
    let text = scenario.text.as_ref().filter(|_| scenario.file == OF_URL)?;
    let source = yaml::source(&scenario.file, text.as_bytes()).ok()?;
    let root = yaml::parse(&source).ok()?;
    let root = serde_json::to_value(root.to_value()).ok()?;
    let step = root["iteration"][0].as_object()?;
    let (method, path) = match step.get("request").and_then(Value::as_str) {
        Some(request) => request.split_once(' ').map(|(method, path)| (method.to_owned(), path))?,
        None => METHODS.iter().find_map(|key| Some((key.to_uppercase(), step.get(*key)?.as_str()?)))?,
    };
    let origin = results.deployment.targets.get("default")?.trim_end_matches('/');
    let mut words = vec![format!("{origin}{path}")];
    let body = step.get("body").and_then(Value::as_str);
    if method != if body.is_some() { "POST" } else { "GET" } {
        words.extend(["-m".to_owned(), method]);
    }
    for (name, value) in step.get("headers").and_then(Value::as_object).into_iter().flatten() {
        words.extend(["-H".to_owned(), format!("{name}: {}", plain(value))]);
    }
    words.extend(body.into_iter().flat_map(|body| ["--data".to_owned(), body.to_owned()]));
    words.extend(time_option("--timeout", step.get("timeout")));
    words.extend(shape(&root["runner"]));
    words.extend(time_option("--warm-up", root.get("warm_up")));
    let thresholds = root["sla"]["thresholds"].as_array().into_iter().flatten();
    words.extend(thresholds.flat_map(|one| ["--threshold".to_owned(), plain(one)]));
    if !results.deployment.tls_verified {
        words.push("-k".to_owned());
    }
    if results.deployment.file != MADE_FOR_URL {
        words.extend(["-d".to_owned(), results.deployment.file.clone()]);
    }
    Some(words)
}

fn time_option(name: &str, time: Option<&Value>) -> Vec<String> {
    time.and_then(Value::as_str).map(|time| vec![name.to_owned(), time.to_owned()]).unwrap_or_default()
}

/// The options of a runner's load.
fn shape(runner: &Value) -> Vec<String> {
    let settings = runner.as_object().and_then(|runner| runner.values().next());
    let option = |keys: &[&str], option: &str| {
        let value = keys.iter().find_map(|key| settings?.get(*key)).filter(|value| !value.is_null())?;
        // Rates are written as `100/s`, and times may be plain seconds.
        let unit = if option == "-z" && value.is_number() { "s" } else { "" };
        Some([option.to_owned(), format!("{}{unit}", plain(value).trim_end_matches("/s"))])
    };
    let all = [
        option(&["concurrency", "max_concurrency"], "-c"),
        option(&["times"], "-n"),
        option(&["duration"], "-z"),
        option(&["rps", "rate"], "--rate"),
    ];
    all.into_iter().flatten().flatten().collect()
}

fn plain(value: &Value) -> String {
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    if value.is_number() { text.trim_end_matches(".0").to_owned() } else { text }
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
