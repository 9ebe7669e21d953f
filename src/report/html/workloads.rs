//! One workload's section as the template sees it: counts, percentiles, actions, errors.
//!
//! Strings here are plain text; the template escapes them. No statistic may be computed here.

use std::fmt::Write as _;

use serde::Serialize;
use serde_json::{Map, Value};

use super::causes::{self, ComparisonView, EffectView, LateView};
use super::document::{self, TableView};
use super::refs::{Refs, TraceRef};
use super::text;
use crate::{asynchronous, measured, offered, samples, streams, tags, users, words};
use results::model::{Action, Asynchronous, Counts, Distribution, ErrorClass, Phases, Series, Workload};

/// The width of a bar of phases, in units of its drawing.
const PHASES_WIDTH: f64 = 200.0;
/// A smaller share of a bar is less than a pixel.
const PHASE_SEEN: f64 = 0.004;
/// The size of a chart in a table's row.
const SPARK_WIDTH: f64 = 120.0;
const SPARK_HEIGHT: f64 = 24.0;
const SPARK_POINTS_MAX: usize = 60;

#[derive(Serialize)]
pub(super) struct WorkloadView {
    name: String,
    settings: String,
    counts: CountsView,
    aside: String,
    waited: bool,
    rate: String,
    start: String,
    duration: String,
    p50: String,
    p90: String,
    p99: String,
    max: String,
    described: String,
    percentile_names: Vec<String>,
    distributions: Vec<DistributionView>,
    /// What percentiles are of, if it needs saying.
    without_time: Option<String>,
    actions: Vec<ActionView>,
    /// The phases that took a part of any action's time, with their numbers.
    phases: Vec<(usize, &'static str)>,
    /// Which columns of the actions hold anything.
    any_action_failed: bool,
    any_action_aborted: bool,
    /// Answers that came as streams.
    streams: Option<TableView>,
    streamed: Option<String>,
    /// What users do around their iterations, and what failed after them.
    users: Option<TableView>,
    users_failed: Option<String>,
    /// Numbers from answers.
    measured: Option<TableView>,
    tags: Option<TableView>,
    errors: Vec<ErrorView>,
    /// Whether any of them names a trace.
    errors_have_traces: bool,
    comparison: Option<ComparisonView>,
    late: Option<LateView>,
    effect: Option<EffectView>,
    asynchronous: Option<String>,
    /// What was asked for against what was served.
    offered: Option<String>,
}

#[derive(Serialize)]
struct CountsView {
    total: String,
    ok: String,
    failed: String,
    aborted: String,
    dropped: String,
    any_failed: bool,
    any_dropped: bool,
}

#[derive(Serialize)]
struct DistributionView {
    name: &'static str,
    count: String,
    min: String,
    mean: String,
    stddev: String,
    max: String,
    percentiles: Vec<String>,
}

#[derive(Serialize)]
struct ActionView {
    name: String,
    request: String,
    /// What its percentiles are over, if that is not one request in each iteration.
    samples: Option<String>,
    counts: CountsView,
    p50: String,
    p90: String,
    p95: String,
    p99: String,
    max: String,
    from_due: [String; 5],
    phases: Vec<PhaseBar>,
    described: String,
    longest: String,
    statuses: Vec<(String, String, &'static str)>,
    connections: String,
    bytes: String,
    spark: Option<Spark>,
}

/// An action over time, in a small chart.
#[derive(Serialize)]
struct Spark {
    p50: String,
    p99: String,
    failed: String,
    described: String,
}

/// One phase's part of a stacked bar.
#[derive(Serialize)]
struct PhaseBar {
    name: &'static str,
    x: String,
    width: String,
    time: String,
}

#[derive(Serialize)]
struct ErrorView {
    class: String,
    action: String,
    message: String,
    /// The value that did not meet its check, and the beginning of the body.
    found: Option<String>,
    body: Option<String>,
    count: String,
    /// As long as its share of all faults.
    width: String,
    traces: Vec<TraceRef>,
}

/// Whether the results of a sample of this size can tell a percentile: at least one of them is beyond it.
fn carries(count: u64, percentile: f64) -> bool {
    count as f64 * (100.0 - percentile) >= 99.999
}

/// The percentiles of the table: those between them are in results.json.
const SHOWN: [f64; 8] = [25.0, 50.0, 75.0, 90.0, 95.0, 99.0, 99.9, 99.99];

fn shown_percentiles(distribution: &Distribution) -> impl Iterator<Item = f64> {
    let (count, known) = (distribution.count_of_all(), &distribution.percentiles);
    known.iter().map(|known| known.percentile).filter(move |one| SHOWN.contains(one) && carries(count, *one))
}

/// The value at a percentile, or a dash where the sample is too small for it.
fn carried_at(distribution: &Distribution, percentile: f64) -> String {
    match carries(distribution.count_of_all(), percentile) {
        true => value_at(distribution, percentile),
        false => "–".to_owned(),
    }
}

/// The value at a percentile in words; a dash when the results do not hold it.
pub(super) fn value_at(distribution: &Distribution, percentile: f64) -> String {
    words::percentile(distribution, percentile, "–")
}

/// A runner's settings in one line: `constant: times 100, concurrency 4`.
pub(super) fn settings(runner: &Map<String, Value>) -> String {
    let plain = |value: &Value| match value {
        Value::String(text) => text.clone(),
        // 600 rather than 600.0.
        Value::Number(number) => {
            number.as_f64().map_or_else(|| number.to_string(), |number| number.to_string())
        }
        other => other.to_string(),
    };
    let runners = runner.iter().map(|(name, value)| match value {
        Value::Object(settings) => {
            let settings = settings.iter().map(|(key, value)| format!("{key} {}", plain(value)));
            format!("{name}: {}", settings.collect::<Vec<_>>().join(", "))
        }
        other => format!("{name}: {}", plain(other)),
    });
    runners.collect::<Vec<_>>().join("; ")
}

/// One workload's section, without what is `said` already.
pub(super) fn view(workload: &Workload, (said, is_profiled): (&str, bool), refs: &Refs) -> WorkloadView {
    let (response, service) = (&workload.response_time, &workload.service_time);
    let widest_ms = workload.actions.iter().map(|action| sum_ms(&action.phases)).fold(0.0, f64::max);
    let waited = words::waited(workload);
    // Without waiting, both times are the same.
    let more = [
        distribution("Service time", service, response),
        distribution("Queue time", &workload.queue_time, response),
    ];
    WorkloadView {
        name: workload.name.clone(),
        settings: settings(&workload.runner),
        counts: counts(&workload.iterations),
        aside: words::aside(workload),
        waited,
        rate: text::rate(offered::served_per_s(workload)),
        start: text::duration(workload.start_s * 1e3),
        duration: text::duration(workload.duration_s * 1e3),
        p50: value_at(response, 50.0),
        p90: carried_at(response, 90.0),
        p99: carried_at(response, 99.0),
        max: longest(response),
        described: format!(
            "p50 {}, p90 {}, p99 {}, maximum {}",
            value_at(response, 50.0),
            value_at(response, 90.0),
            value_at(response, 99.0),
            longest(response)
        ),
        without_time: without_time(response),
        percentile_names: shown_percentiles(response).map(|known| format!("p{known}")).collect(),
        distributions: std::iter::once(distribution("Response time", response, response))
            .chain(more.into_iter().filter(|_| waited))
            .chain(workload.asynchronous.as_ref().map(|seen| work_ended(seen, response)))
            .collect(),
        actions: workload.actions.iter().map(|one| action(one, widest_ms)).collect(),
        phases: phases_seen(&workload.actions),
        any_action_failed: workload.actions.iter().any(|one| one.requests.failed > 0),
        any_action_aborted: workload.actions.iter().any(|one| one.requests.aborted > 0),
        streams: streams::table(workload, is_profiled).map(|streams| document::table(&streams)),
        streamed: streams::sentence(workload),
        users: users::table(workload).map(|users| document::table(&users)),
        users_failed: users::sentence(workload),
        measured: measured::table(workload, is_profiled).map(|measured| document::table(&measured)),
        tags: tags::table(workload).map(|tags| document::table(&tags)),
        errors: errors(&workload.errors, refs),
        errors_have_traces: workload.errors.iter().any(|error| !error.trace_ids.is_empty()),
        comparison: causes::comparison(workload, refs),
        late: causes::late(workload, refs),
        effect: workload.observer_effect.as_ref().map(causes::effect),
        asynchronous: asynchronous::sentence(workload),
        offered: offered::sentence(workload).filter(|one| !said.contains(one.as_str())),
    }
}

/// What percentiles are of, where some iterations have no valid time.
fn without_time(response: &Distribution) -> Option<String> {
    let all = response.of_all.as_ref()?;
    Some(format!(
        "Percentiles are of all {} iterations that were due: those that failed, never started or were cut off count as longer \
         than every success and have no time. The charts, the means and the extremes are of the {} that completed.",
        text::count(all.count),
        text::count(response.count)
    ))
}

pub(super) fn longest(distribution: &Distribution) -> String {
    if distribution.count == 0 { "–".to_owned() } else { text::duration(distribution.max_ms) }
}

fn counts(counts: &Counts) -> CountsView {
    CountsView {
        total: text::count(counts.total),
        ok: text::count(counts.ok),
        failed: text::count(counts.failed),
        aborted: text::count(counts.aborted),
        dropped: text::count(counts.dropped),
        any_dropped: counts.dropped > 0,
        any_failed: counts.failed > 0,
    }
}

/// `columns` names the percentiles: both rows of a table show the same ones.
fn distribution(name: &'static str, shown: &Distribution, columns: &Distribution) -> DistributionView {
    let time = |ms| if shown.count == 0 { "–".to_owned() } else { text::duration(ms) };
    DistributionView {
        name,
        count: text::count(shown.count),
        min: time(shown.min_ms),
        mean: time(shown.mean_ms),
        stddev: time(shown.stddev_ms),
        max: time(shown.max_ms),
        percentiles: shown_percentiles(columns).map(|known| carried_at(shown, known)).collect(),
    }
}

/// The times of a sample, where it has them.
fn work_ended(seen: &Asynchronous, columns: &Distribution) -> DistributionView {
    let none = || "–".to_owned();
    let at = |percentile: f64| seen.at(percentile).map_or_else(none, |at| text::duration(at.value_ms));
    DistributionView {
        name: "To the end of asynchronous work",
        count: text::count(seen.traced),
        min: none(),
        mean: none(),
        stddev: none(),
        max: seen.max_ms.map_or_else(none, text::duration),
        percentiles: shown_percentiles(columns).map(at).collect(),
    }
}

fn phase_list(phases: &Phases) -> [(&'static str, f64); 7] {
    [
        ("resolve", phases.resolve_ms),
        ("connect", phases.connect_ms),
        ("TLS", phases.tls_ms),
        ("send", phases.send_ms),
        ("wait", phases.wait_ms),
        ("receive", phases.receive_ms),
        ("redirect", phases.redirect_ms),
    ]
}

/// The phases that can be seen in a bar.
fn phases_seen(actions: &[Action]) -> Vec<(usize, &'static str)> {
    let names = phase_list(&Phases::default()).map(|(name, _)| name);
    let is_seen = |index: &usize| {
        actions.iter().map(|action| &action.phases).any(|phases| {
            let (_, ms) = phase_list(phases)[*index];
            ms > sum_ms(phases) * PHASE_SEEN
        })
    };
    names.into_iter().enumerate().filter(|(index, _)| is_seen(index)).collect()
}

fn sum_ms(phases: &Phases) -> f64 {
    phase_list(phases).iter().map(|(_, ms)| ms.max(0.0)).sum()
}

/// `widest_ms`: what fills the whole width, the same for all actions so that their bars compare.
fn phase_bars(phases: &Phases, widest_ms: f64) -> Vec<PhaseBar> {
    let mut x = 0.0;
    let mut bars = Vec::new();
    for (name, ms) in phase_list(phases) {
        let width = if widest_ms > 0.0 { ms.max(0.0) / widest_ms * PHASES_WIDTH } else { 0.0 };
        bars.push(PhaseBar {
            name,
            x: format!("{x:.2}"),
            width: format!("{width:.2}"),
            time: text::duration(ms),
        });
        x += width;
    }
    bars
}

fn action(action: &Action, widest_ms: f64) -> ActionView {
    let times = &action.service_time;
    let longest_phase = phase_list(&action.phases).into_iter().max_by(|a, b| a.1.total_cmp(&b.1));
    let phases = phase_bars(&action.phases, widest_ms);
    let described = phases.iter().map(|phase| format!("{} {}", phase.name, phase.time));
    ActionView {
        name: action.name.clone(),
        request: action.request.clone(),
        samples: samples::clause(action),
        counts: counts(&action.requests),
        p50: value_at(times, 50.0),
        p90: carried_at(times, 90.0),
        p95: carried_at(times, 95.0),
        p99: carried_at(times, 99.0),
        max: longest(times),
        from_due: {
            let due = &action.response_time;
            [
                value_at(due, 50.0),
                carried_at(due, 90.0),
                carried_at(due, 95.0),
                carried_at(due, 99.0),
                longest(due),
            ]
        },
        described: described.collect::<Vec<_>>().join(", "),
        phases,
        longest: match longest_phase {
            Some((name, ms)) if ms > 0.0 => format!("{name} {}", text::duration(ms)),
            _ => "–".to_owned(),
        },
        statuses: action
            .status
            .iter()
            .map(|(code, count)| (words::status(*code), text::count(*count), status_class(*code)))
            .collect(),
        connections: text::count(action.connections_opened),
        bytes: text::bytes(action.bytes_received),
        spark: action.series.as_ref().and_then(spark),
    }
}

fn status_class(code: u16) -> &'static str {
    if words::is_good(code) { "plain" } else { "bad" }
}

/// `None` where there is no course to see.
fn spark(series: &Series) -> Option<Spark> {
    let intervals = series.completed.len();
    let most_ms = series.p99_ms.iter().copied().fold(0.0, f64::max);
    if intervals < 4 || most_ms <= 0.0 {
        return None;
    }
    // A chart of so few pixels shows no more points, and the page no longer paths.
    let step = intervals.div_ceil(SPARK_POINTS_MAX);
    let x = |place: usize| place as f64 / (intervals - 1) as f64 * SPARK_WIDTH;
    let y = |ms: f64| SPARK_HEIGHT - 1.0 - ms / most_ms * (SPARK_HEIGHT - 3.0);
    let line = |values: &[f64]| {
        let mut path = String::new();
        let mut pen = "M";
        for (place, several) in values.chunks(step).enumerate() {
            let ms = several.iter().copied().fold(0.0, f64::max);
            // Nothing ended there: a gap, not a zero.
            if ms <= 0.0 {
                pen = "M";
                continue;
            }
            let _ = write!(path, "{pen}{:.1} {:.1}", x(place * step), y(ms));
            pen = "L";
        }
        path
    };
    let failed = series.failed.chunks(step).enumerate();
    let failed = failed.filter(|(_, several)| several.iter().any(|failed| *failed > 0));
    let failed = failed.map(|(place, _)| format!("M{:.1} {}v-3", x(place * step), SPARK_HEIGHT)).collect();
    Some(Spark {
        p50: line(&series.p50_ms),
        p99: line(&series.p99_ms),
        failed,
        described: format!(
            "p50 and p99 over time; the highest p99 of an interval is {}",
            text::duration(most_ms)
        ),
    })
}

fn errors(errors: &[ErrorClass], refs: &Refs) -> Vec<ErrorView> {
    let most = errors.iter().map(|error| error.count).max().unwrap_or(0).max(1);
    let view = |error: &ErrorClass| ErrorView {
        class: error.class.clone(),
        action: error.action.clone().unwrap_or_else(|| "–".to_owned()),
        message: error.message.clone(),
        found: error.found.clone(),
        body: error.body.clone(),
        count: text::count(error.count),
        width: format!("{:.1}", error.count as f64 / most as f64 * 60.0),
        traces: refs.all(&error.trace_ids),
    };
    errors.iter().map(view).collect()
}
