//! The page as the template sees it: results turned into words.
//!
//! Strings here are plain text; the template escapes them. No statistic may be computed here.

use std::cmp::Reverse;

use serde::Serialize;
use uuid::Uuid;

use super::badge::Badge;
use super::calls::{self, CallsView};
use super::causes::{self, PieceView, SentenceView};
use super::criteria::{self, CriterionView};
use super::environment::{self, FactGroup, fetched, trace_word};
use super::first::{self, CardView};
use super::refs::{LinkableTraces, Refs, TraceDisplay, TraceRef};
use super::text;
use super::workloads::{self, WorkloadView, value_at};
use crate::document::{StyledLine, StyledSpan};
use crate::explanation::PointLabel;
use crate::{again, document, observer, offered, probe, record, screen, slowest, stall, words};
use analysis::explanation::OUTSIDE;
use results::IterationColumns;
use results::model::{
    Criterion, Explanation, IterationCause, IterationOutcome, Outcome, Reason, Results, RunStatus, Severity,
    SlowIteration, TraceState,
};

/// Rows of the slowest iterations on a phone.
const ROWS_ON_PHONE: usize = 5;

/// Everything on the page except the data for its script.
#[derive(Serialize)]
pub(super) struct ReportPage {
    title: String,
    verdict: Badge,
    verdict_reason: String,
    /// What was not served, for the window's title; the reason begins with it.
    not_served: Option<String>,
    summary: String,
    started_at: String,
    banners: Vec<Banner>,
    profiling: String,
    headline: Vec<PieceView>,
    /// The sentence below the headline, and what the service answered.
    reason: Vec<PieceView>,
    /// The full text stands once on the page.
    excerpt: Option<String>,
    /// Errors stand before what explains slowness.
    errors_first: bool,
    /// How many iterations failed, in words; absent if none did.
    errors: Option<String>,
    sentences: Vec<SentenceView>,
    /// Without a card: the trace that shows the reason, and what it is.
    example: Option<(TraceRef, &'static str)>,
    cards: Vec<CardView>,
    tiles: Vec<Tile>,
    notes: Vec<String>,
    criteria: Vec<CriterionView>,
    /// Which columns of the criteria hold anything.
    has_gauges: bool,
    has_broken: bool,
    slowest: Vec<GroupView>,
    /// The moment at which most of them end.
    stall: Option<String>,
    several_workloads: bool,
    sample: String,
    has_iterations: bool,
    /// Whether some are explained by what took longer than in typical ones.
    any_longer: bool,
    any_of_it: bool,
    any_trace: bool,
    /// Whether iterations waited before they started, and whether some did not end well.
    any_waited: bool,
    any_not_ok: bool,
    workloads: Vec<WorkloadView>,
    calls: Option<CallsView>,
    /// How traces are shown: `text`, `embed` or `pages`.
    mode: &'static str,
    seen: usize,
    facts: Vec<FactGroup>,
    /// What the load generator held over time.
    process: Option<String>,
    command: String,
    /// The scenario's text, line by line; absent in runs of earlier builds.
    scenario: Option<Vec<String>>,
    /// The iteration before the load in a sentence.
    probe: Option<String>,
    /// What would measure what profiling costs, if nothing did.
    unmeasured: Option<Vec<PieceView>>,
}

#[derive(Serialize)]
struct Banner {
    class: &'static str,
    title: String,
    text: String,
}

/// A number on the first screen.
#[derive(Serialize)]
struct Tile {
    name: &'static str,
    value: String,
    aside: String,
    class: &'static str,
}

/// Slowest iterations with the same explanation.
#[derive(Serialize)]
struct GroupView {
    title: Vec<PieceView>,
    rows: Vec<SlowView>,
    /// A phone shows none of its rows unless asked.
    beyond: bool,
}

#[derive(Serialize)]
struct SlowView {
    id: TraceRef,
    workload: String,
    number: String,
    response: String,
    service: String,
    waited: Option<String>,
    work_ended: Option<String>,
    start: String,
    outcome: Badge,
    error: Option<String>,
    actions: Vec<ActionView>,
    trace: &'static str,
    cause: Option<CauseView>,
    /// How much longer than typical ones it took, how much of that the cause took, and its share of that.
    longer: Option<String>,
    of_it: Option<String>,
    share: Option<String>,
    /// A phone shows it when asked.
    beyond: bool,
    /// The largest part, of an iteration that nothing explains by itself.
    part: Option<String>,
}

#[derive(Serialize)]
struct ActionView {
    name: String,
    start: String,
    duration: String,
    status: String,
}

#[derive(Serialize)]
struct CauseView {
    name: String,
    detail: String,
    place: String,
    own: String,
    times: [String; 3],
    path: String,
}

/// The page of a run.
#[expect(clippy::too_many_lines, reason = "the fields of a page")]
pub(super) fn page(
    results: &Results,
    iterations: &IterationColumns,
    traces: &LinkableTraces<'_>,
) -> ReportPage {
    let refs = Refs::new(traces);
    let screen = screen::of(results);
    let said = screen::plain(&screen.sentence);
    let failed: u64 = results.workloads.iter().map(|workload| workload.iterations.failed).sum();
    let mut slowest: Vec<GroupView> =
        slowest::groups(results).into_iter().map(|group| group_view(results, group, &refs)).collect();
    slowest
        .iter_mut()
        .flat_map(|group| &mut group.rows)
        .skip(ROWS_ON_PHONE)
        .for_each(|row| row.beyond = true);
    slowest.iter_mut().for_each(|group| group.beyond = group.rows.iter().all(|row| row.beyond));
    // What decided comes first.
    let mut criteria: Vec<&Criterion> = results.verdict.criteria.iter().collect();
    criteria.sort_by_key(|one| (one.severity != Severity::Fail, Reverse(one.outcome.weight())));
    ReportPage {
        title: results.scenario.title.clone(),
        verdict: match results.verdict.outcome {
            Outcome::None if !results.verdict.invalid.is_empty() => {
                document::Badge::verdict(Outcome::Invalid).into()
            }
            outcome => document::Badge::verdict(outcome).into(),
        },
        verdict_reason: match results.verdict.invalid.as_slice() {
            [] => {
                let not_served = words::not_served(&results.workloads).map(|what| what + ". ");
                not_served.unwrap_or_default() + &verdict_reason(&results.verdict.criteria)
            }
            _ => "The run is not valid: it says nothing about the service.".to_owned(),
        },
        not_served: words::not_served(&results.workloads),
        summary: summary(results),
        started_at: results.run.started_at.clone(),
        banners: banners(results, &said),
        profiling: profiling(results),
        notes: notes(results, &screen.reason),
        headline: causes::pieces(screen.headline),
        reason: causes::pieces(without_figures(results, screen.sentence)),
        excerpt: screen.reason.excerpt.clone(),
        errors_first: screen.reason.kind.is_by_errors(),
        errors: (failed > 0).then(|| text::count(failed)),
        example: example(results, &screen.reason, &refs),
        sentences: causes::sentences(results, &said),
        cards: first::cards(results, &refs),
        tiles: tiles(results),
        has_gauges: criteria.iter().any(|one| one.measured.is_some()),
        has_broken: criteria.iter().any(|one| !one.trace_ids.is_empty()),
        criteria: criteria.into_iter().map(|one| criteria::view(one, &said, &refs)).collect(),
        any_waited: slowest
            .iter()
            .flat_map(|group| &group.rows)
            .any(|slow| slow.waited.is_some() || slow.work_ended.is_some()),
        any_of_it: slowest.iter().flat_map(|group| &group.rows).any(|slow| slow.of_it.is_some()),
        any_trace: results.slowest.iter().any(|slow| refs.can_be_seen(slow.iteration.trace_id)),
        any_longer: slowest.iter().flat_map(|group| &group.rows).any(|slow| slow.longer.is_some()),
        any_not_ok: results.slowest.iter().any(|slow| slow.iteration.outcome != IterationOutcome::Ok),
        slowest,
        stall: stall::sentence(results),
        several_workloads: results.workloads.len() > 1,
        sample: sample(iterations),
        has_iterations: !iterations.is_empty(),
        workloads: results
            .workloads
            .iter()
            .map(|one| workloads::view(one, (&said, results.profiling.enabled), &refs))
            .collect(),
        calls: calls::view(traces.all.stored),
        mode: match traces.all.shown {
            TraceDisplay::Text => "text",
            TraceDisplay::Embed => "embed",
            TraceDisplay::Pages(_) => "pages",
        },
        seen: traces.traces().count(),
        facts: environment::facts(results),
        process: environment::process(results),
        command: again::command(results),
        scenario: environment::scenario(results),
        probe: probe::sentence(results),
        unmeasured: observer::unmeasured(results).map(|line| causes::marked(&sentence(line))),
    }
}

/// A trace of the verdict's reason, else that of the slowest iteration.
fn example(results: &Results, reason: &Reason, refs: &Refs) -> Option<(TraceRef, &'static str)> {
    let (of_reason, by_errors) = (&reason.trace_ids, reason.kind.is_by_errors());
    let seen = |id: &Uuid| refs.can_be_seen(*id).then(|| refs.of(*id));
    let named = of_reason.iter().find_map(seen).map(|trace| (trace, "See one of their traces"));
    // Of a run that failed by errors, an error is what to look at.
    let is_failed = |slow: &&SlowIteration| slow.iteration.outcome == IterationOutcome::Failed;
    let failed = || {
        let all = results.slowest.iter().filter(is_failed);
        all.filter(|_| by_errors).find_map(|slow| seen(&slow.iteration.trace_id))
    };
    let named = named.or_else(|| failed().map(|trace| (trace, "See a failed iteration's trace")));
    named.or_else(|| {
        let slowest = results.slowest.iter().find_map(|slow| seen(&slow.iteration.trace_id));
        slowest.map(|trace| (trace, "See the slowest iteration's trace"))
    })
}

impl From<document::Badge> for Badge {
    fn from(badge: document::Badge) -> Self {
        Self { word: badge.word, class: badge.tone.class() }
    }
}

/// How many criteria did not hold or were inconclusive. Warnings do not count.
fn verdict_reason(criteria: &[Criterion]) -> String {
    let judged: Vec<&Criterion> =
        criteria.iter().filter(|criterion| criterion.severity == Severity::Fail).collect();
    let of = |outcome| judged.iter().filter(|criterion| criterion.outcome == outcome).count();
    let broken = criteria.iter().filter(|one| one.outcome == Outcome::Fail && one.severity == Severity::Warn);
    let warned = match broken.count() {
        0 => String::new(),
        1 => " One warning.".to_owned(),
        several => format!(" {several} warnings."),
    };
    let all = judged.len();
    let mut parts = Vec::new();
    for (count, one, more) in [
        (of(Outcome::Fail), "does not hold", "do not hold"),
        (of(Outcome::Invalid), "could not be judged", "could not be judged"),
        (of(Outcome::Inconclusive), "is inconclusive", "are inconclusive"),
    ] {
        if count > 0 {
            parts.push((count, if count == 1 { one } else { more }));
        }
    }
    let reason = match (all, parts.as_slice()) {
        (0, _) => "The scenario has no criteria.".to_owned(),
        (1, []) => "The criterion holds.".to_owned(),
        (all, []) => format!("All {all} criteria hold."),
        (1, [(_, what), ..]) => format!("The criterion {what}."),
        (all, [(count, what), rest @ ..]) => {
            let rest = rest.iter().map(|(count, what)| format!(", {count} {what}"));
            format!("{count} of {all} criteria {what}{}.", rest.collect::<String>())
        }
    };
    reason + &warned
}

/// The numbers of the first screen.
fn tiles(results: &Results) -> Vec<Tile> {
    let sum = |of: fn(&results::model::Counts) -> u64| -> u64 {
        results.workloads.iter().map(|workload| of(&workload.iterations)).sum()
    };
    let (total, failed, dropped) = (sum(|c| c.total), sum(|c| c.failed), sum(|c| c.dropped));
    let tile = |name, value: String, aside: String, class| Tile { name, value, aside, class };
    let share = |part: u64| text::percent(part as f64 / total.max(1) as f64);
    let lasted = format!("in {}", text::duration(results.run.duration_s * 1e3));
    let failures = if failed > 0 { "bad" } else { "" };
    let most_ms = results.workloads.iter().map(|workload| workload.response_time.max_ms).fold(0.0, f64::max);
    let mut tiles = vec![tile("Iterations", text::count(total), lasted, "")];
    if let [only] = results.workloads.as_slice() {
        let aside = offered::asked(only).unwrap_or_else(|| "completed".to_owned());
        tiles.push(tile("Rate", format!("{}/s", text::rate(offered::served_per_s(only))), aside, ""));
    }
    tiles.push(tile("Failed", text::count(failed), share(failed), failures));
    if dropped > 0 {
        tiles.push(tile("Dropped", text::count(dropped), share(dropped), "bad"));
    }
    if let [only] = results.workloads.as_slice() {
        for (name, percentile) in [("p50", 50.0), ("p95", 95.0), ("p99", 99.0)] {
            tiles.push(tile(name, value_at(&only.response_time, percentile), String::new(), ""));
        }
    }
    let is_of_all = results.workloads.iter().all(|workload| workload.response_time.of_all.is_none());
    let longest = if is_of_all { "Longest" } else { "Longest completed" };
    tiles.push(tile(longest, text::duration(most_ms), String::new(), ""));
    let traces: u64 = [TraceState::Complete, TraceState::Partial]
        .iter()
        .filter_map(|state| results.profiling.fetched.get(state))
        .sum();
    if results.workloads.len() > 1 {
        tiles.push(tile("Traces kept", text::count(traces), String::new(), ""));
    }
    tiles
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
            text::rate(offered::served_per_s(only)),
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

/// The sentence below the headline without the figures that stand beside it.
fn without_figures(results: &Results, mut sentence: StyledLine) -> StyledLine {
    let figures = screen::plain(&screen::figures::counted(results));
    if let (Some(StyledSpan::Text(text)), [_]) = (sentence.spans.first_mut(), results.workloads.as_slice())
        && let Some(rest) = text.strip_prefix(&figures)
    {
        *text = rest.trim_start().to_owned();
    }
    sentence.spans.retain(|span| !matches!(span, StyledSpan::Text(text) if text.is_empty()));
    sentence
}

/// The notes that the reason does not say, without the answer that stands below the headline.
fn notes(results: &Results, reason: &Reason) -> Vec<String> {
    let new = results.notes.iter().filter(|note| !probe::is_said(note, &reason.sentence));
    let short = |note: &String| match &reason.excerpt {
        Some(body) => note.replace(&format!("; the answer: {body}"), ""),
        None => note.clone(),
    };
    new.map(short).chain(record::lines(results)).collect()
}

/// What must be known of the run as a whole and is not `said` yet.
fn banners(results: &Results, said: &str) -> Vec<Banner> {
    let invalid = results.verdict.invalid.iter();
    let mut banners: Vec<Banner> = invalid
        .map(|reason| Banner { class: "bad", title: "Not a valid run".to_owned(), text: sentence(reason) })
        .collect();
    let error = results.run.error.clone();
    let ended = match results.run.status {
        RunStatus::Finished => error.as_ref().map(|_| ("bad", "The run reported a fault", "")),
        RunStatus::Interrupted => {
            Some(("doubt", "Interrupted", "A signal stopped the run. The report covers what ran until then."))
        }
        RunStatus::Aborted => {
            Some(("bad", "Stopped by a threshold", "The report covers what ran until then."))
        }
        RunStatus::TimedOut => Some((
            "doubt",
            "Timed out",
            "The run reached the scenario's time limit. The report covers what ran until then.",
        )),
        RunStatus::Failed => Some(("bad", "The run failed", "The report covers what ran until then.")),
        RunStatus::Recovered => Some((
            "doubt",
            "Recovered",
            "bench was killed. The report covers everything up to the last complete record of the log.",
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
            text: "Certificates were not checked: the answers may have come from anyone.".to_owned(),
        });
    }
    if let Some(error) = results.profiling.collector_error.as_ref().filter(|error| !said.contains(*error)) {
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
    if words::no_trace_came(results).is_some() {
        return "Profiling on: trace headers were sent, but no trace came.".to_owned();
    }
    let left = results.workloads.iter().map(|workload| workload.unprofiled).sum::<u64>();
    let only = words::without_osprofiler(profiling);
    let traced = match left {
        0 => format!("every iteration was traced{only}"),
        left => {
            format!(
                "every iteration was traced{only} except {}, left unprofiled for comparison",
                text::count(left)
            )
        }
    };
    match fetched(results) {
        fetched if fetched.is_empty() => format!("Profiling on: {traced}; none was fetched."),
        fetched => format!("Profiling on: {traced}. Fetched: {fetched}."),
    }
}

fn group_view(results: &Results, group: slowest::SlowGroup<'_>, refs: &Refs) -> GroupView {
    let rows = group.iterations.into_iter().map(|(slow, seen)| slow_view(results, slow, seen, refs));
    let (mut title, mut rows) = (group.title, rows.collect::<Vec<_>>());
    // A part that is the largest of all is said once.
    let part = rows.first().and_then(|row| row.part.clone());
    if let Some(part) = part.filter(|part| rows.iter().all(|row| row.part.as_ref() == Some(part))) {
        title.text("; the largest part is ").code(part);
        rows.iter_mut().for_each(|row| row.part = None);
    }
    GroupView { title: causes::pieces(title), rows, beyond: false }
}

fn slow_view(results: &Results, slow: &SlowIteration, seen: Option<&Explanation>, refs: &Refs) -> SlowView {
    let iteration = &slow.iteration;
    let workload = results.workloads.get(usize::from(iteration.workload));
    let waited_ms = slow.response_ms - iteration.ran_ms();
    SlowView {
        id: refs.of(iteration.trace_id),
        workload: workload.map_or_else(|| format!("#{}", iteration.workload), |known| known.name.clone()),
        number: text::count(iteration.number),
        response: text::duration(slow.response_ms),
        service: text::duration(iteration.ran_ms()),
        // Below a hundredth of the whole it is noise of the scheduler.
        waited: (waited_ms > slow.response_ms / 100.0).then(|| text::duration(waited_ms)),
        work_ended: slow.asynchronous_ms.map(text::duration),
        start: text::duration(iteration.start_s.unwrap_or_default() * 1e3),
        outcome: match iteration.outcome {
            IterationOutcome::Ok => Badge { word: "ok", class: "good" },
            IterationOutcome::Failed => Badge { word: "failed", class: "bad" },
            IterationOutcome::Aborted => Badge { word: "aborted", class: "plain" },
            IterationOutcome::Dropped => Badge { word: "dropped", class: "plain" },
        },
        error: iteration.error.clone(),
        actions: slow.actions.iter().map(action).collect(),
        trace: trace_word(slow.trace),
        cause: slow.cause.as_ref().map(cause),
        longer: seen.and_then(|seen| seen.excess_ms).map(words::signed),
        of_it: seen.map(|seen| match seen.longer_ms {
            Some(longer_ms) => words::signed(longer_ms),
            None => text::duration(seen.own_ms),
        }),
        share: seen
            .map(|seen| text::percent(seen.share_of_excess.unwrap_or_else(|| seen.share_of_response()))),
        beyond: false,
        part: seen
            .filter(|seen| !seen.explains)
            .map(|seen| screen::plain(&PointLabel::from(seen).in_service())),
    }
}

fn action(action: &results::model::ActionTiming) -> ActionView {
    ActionView {
        name: action.name.clone(),
        start: text::duration(action.start_ms),
        duration: text::duration(action.duration_ms),
        status: match action.status {
            Some(status) => words::status(status),
            None if action.group => "group".to_owned(),
            None => "no answer".to_owned(),
        },
    }
}

fn cause(cause: &IterationCause) -> CauseView {
    let place = match (cause.service.as_str(), cause.host.as_str()) {
        ("", "") => String::new(),
        ("", host) => format!("on {host}"),
        (service, "") => format!("in {service}"),
        (service, host) => format!("in {service} on {host}"),
    };
    CauseView {
        name: if cause.name == OUTSIDE {
            format!("{} {}", cause.name, cause.detail)
        } else {
            words::point_name(&cause.name, &cause.detail)
        },
        detail: cause.detail.clone(),
        place,
        own: text::duration(cause.self_ms),
        times: [
            format!("{} own time", text::duration(cause.self_ms)),
            format!("{} of the response time", text::percent(cause.share)),
            text::counted(cause.calls, "call"),
        ],
        path: cause.path.join(" › "),
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
