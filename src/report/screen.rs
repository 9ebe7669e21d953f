//! The first screen: why a run has its verdict, as a headline of at most ten words and a sentence.
//!
//! The one place for these words: the terminal, Markdown, HTML, JUnit, `results.json`, the list of runs and the badge take
//! them from here. A run that failed by errors never begins with what is slow. Nothing here computes a statistic.

pub(super) mod figures;

use uuid::Uuid;

use super::document::{StyledLine, StyledSpan};
use super::explanation::kind_in_short;
use super::texts::percent;
use super::words::{self, CauseName, FoundCause, duration};
use super::{failed, machine, offered, prediction, queues, slow_part};
use analysis::explanation::QUEUE_TIME;
use base::units::{beside_limit, format_ns_to};
use results::model::{
    Counts, Criterion, CriterionMeasurement, ErrorClass, NoCauseReason, Outcome, Reason, ReasonKind, Results,
    RunStatus, Severity, Workload,
};

/// The most words of a headline.
const HEADLINE_WORDS_MAX: usize = 10;
/// The most words of a point's name in a headline.
const NAME_WORDS_MAX: usize = 6;
/// From this share of failed iterations on, a run that nothing judges by its failures is about them.
const FAILED_SHARE: f64 = 0.01;
const TRACES_MAX: usize = 5;
/// The most further broken criteria that are named.
const OTHERS_MAX: usize = 3;
/// Criteria of Rally that limit a time.
const TIMES_OF_RALLY: [&str; 5] = [
    "max_seconds_per_iteration",
    "max_avg_duration",
    "max_avg_duration_per_atomic",
    "outliers",
    "performance_degradation",
];

/// Why a run has its verdict, with the pieces of its words.
#[derive(Clone, Debug, PartialEq)]
pub struct Screen {
    /// At most ten words.
    pub headline: StyledLine,
    /// One or several sentences.
    pub sentence: StyledLine,
    /// The same as plain texts, with what they name.
    pub reason: Reason,
}

/// Why a run has its verdict, as `results.json` has it.
#[must_use]
pub fn reason(results: &Results) -> Reason {
    of(results).reason
}

/// Why a run has its verdict.
#[must_use]
pub fn of(results: &Results) -> Screen {
    let total = results.workloads.iter().fold(Counts::default(), |sum, workload| Counts {
        total: sum.total + workload.iterations.total,
        ok: sum.ok + workload.iterations.ok,
        failed: sum.failed + workload.iterations.failed,
        ..sum
    });
    if results.run.status == RunStatus::Failed && (total.ok == 0 || total.failed == 0) {
        return run_failed(results);
    }
    if total.ok == 0 && total.failed > 0 {
        return errors(results, ReasonKind::AllFailed, None);
    }
    if total.total == 0 {
        return nothing_ran(results);
    }
    if results.run.status == RunStatus::Failed {
        return run_failed(results);
    }
    match results.verdict.outcome {
        Outcome::Fail => failing(results),
        Outcome::Invalid => invalid(results),
        _ if !results.verdict.invalid.is_empty() => invalid(results),
        Outcome::Inconclusive => inconclusive(results),
        Outcome::Pass | Outcome::None if results.shard.is_some() => shard(results, total.total),
        Outcome::Pass | Outcome::None if has_unjudged_failures(results) => {
            errors(results, ReasonKind::Errors, None)
        }
        Outcome::Pass | Outcome::None => match words::no_trace_came(results) {
            Some(why) => without_traces(results, &why),
            None => slow(results),
        },
    }
}

fn screen(kind: ReasonKind, headline: StyledLine, sentence: StyledLine) -> Screen {
    let headline = in_words(headline, HEADLINE_WORDS_MAX);
    let reason = Reason {
        kind,
        headline: plain(&headline),
        sentence: plain(&sentence),
        workload: None,
        action: None,
        criterion: None,
        count: None,
        of: None,
        expected: None,
        found: None,
        excerpt: None,
        trace_ids: Vec::new(),
    };
    Screen { headline, sentence, reason }
}

/// The words of a line without markup.
pub(super) fn plain(line: &StyledLine) -> String {
    line.spans
        .iter()
        .map(|span| match span {
            StyledSpan::Text(text) | StyledSpan::Code(text) => text.as_str(),
            StyledSpan::Badge(badge) => badge.word,
        })
        .collect()
}

/// The line, cut after `words_max` words.
fn in_words(line: StyledLine, words_max: usize) -> StyledLine {
    if plain(&line).split_whitespace().count() <= words_max {
        return line;
    }
    let (mut left, mut cut) = (words_max, StyledLine::default());
    for span in line.spans {
        let (StyledSpan::Text(text) | StyledSpan::Code(text)) = &span else { continue };
        let words: Vec<&str> = text.split_whitespace().collect();
        if words.len() <= left {
            left -= words.len();
            cut.spans.push(span);
            continue;
        }
        let blank = if text.starts_with(char::is_whitespace) { " " } else { "" };
        let text = format!("{blank}{}…", words[..left].join(" "));
        match span {
            StyledSpan::Code(_) if left > 0 => cut.code(text),
            _ => cut.text(text),
        };
        break;
    }
    cut
}

fn run_failed(results: &Results) -> Screen {
    let error = results.run.error.as_deref().unwrap_or("its notes say why");
    let headline = match error.split_once(':') {
        Some(("setup failed", _)) => "Setup failed, so nothing ran",
        _ => "The run itself failed",
    };
    screen(ReasonKind::Run, headline.into(), sentence_of(error).into())
}

fn nothing_ran(results: &Results) -> Screen {
    let why = results.notes.last().or(results.verdict.invalid.first());
    let sentence = match (results.run.status, why) {
        (RunStatus::Interrupted, _) => "It was interrupted before the first iteration ended.".to_owned(),
        (RunStatus::TimedOut, _) => {
            "Its time limit came before the first iteration ended: raise `timeout`.".to_owned()
        }
        (_, Some(note)) => sentence_of(note),
        (_, None) => "There is nothing to judge.".to_owned(),
    };
    screen(ReasonKind::NothingRan, "No iteration ran".into(), sentence.into())
}

/// What to do with a part of a load.
fn shard(results: &Results, iterations: u64) -> Screen {
    let (index, count) = results.shard.as_ref().map_or((0, 0), |shard| (shard.index, shard.count));
    let headline = format!("Shard {index} of {count}: a part of a load");
    let sentence = format!(
        "{iterations} iterations were recorded. `bench merge` makes one run of all {count} shards and judges it; shards are \
         numbered from 0."
    );
    screen(ReasonKind::Shard, headline.into(), sentence.into())
}

/// A text as a sentence: a capital at its beginning, a full stop at its end.
fn sentence_of(text: &str) -> String {
    let mut chars = text.trim().chars();
    let first = chars.next().map(char::to_uppercase).into_iter().flatten();
    let sentence: String = first.chain(chars).collect();
    if sentence.ends_with(['.', '!', '?']) { sentence } else { format!("{sentence}.") }
}

/// Why iterations failed. `broken` is the criterion that forbids it.
fn errors(results: &Results, kind: ReasonKind, broken: Option<&Criterion>) -> Screen {
    let of_criterion = |workload: &&Workload| broken.is_none_or(|broken| workload.name == broken.workload);
    let most =
        results.workloads.iter().filter(of_criterion).max_by_key(|workload| workload.iterations.failed);
    let Some(workload) = most else { return slow(results) };
    let Counts { ok, failed, .. } = workload.iterations;
    let total = ok + failed;
    let noun = if total == 1 { "iteration" } else { "iterations" };
    let counted = match kind {
        ReasonKind::AllFailed if total == 1 => "The only iteration failed".to_owned(),
        ReasonKind::AllFailed => format!("All {total} iterations failed"),
        _ => format!("{failed} of {total} failed"),
    };
    let first = workload.errors.first();
    let mut headline = StyledLine::from(counted);
    if let Some(error) = first {
        headline.text(": ").line(failed::in_short(error));
    }
    let share = failed as f64 / total.max(1) as f64 * 100.0;
    let mut sentence = StyledLine::default();
    match first {
        Some(error) if error.count == total => {
            sentence.line(failed::clause(error)).text(if total == 1 { "." } else { ", every time." });
        }
        Some(error) => {
            sentence.line(failed::clause(error));
            let share = error.count as f64 / total.max(1) as f64 * 100.0;
            sentence.text(format!(", in {} of {total} {noun} ({}).", error.count, percent(share)));
            let others = failed.saturating_sub(error.count);
            if others > 0 {
                let kinds = workload.errors.len().saturating_sub(1);
                let kinds =
                    if kinds == 1 { "in one other way".into() } else { format!("in {kinds} other ways") };
                sentence.text(format!(" {others} failed {kinds}."));
            }
        }
        None => {
            sentence.text(format!("{failed} of {total} {noun} failed ({}).", percent(share)));
        }
    }
    if let Some(broken) = broken {
        sentence.text(" Broken: ").code(&broken.condition).text(".");
    }
    let mut screen = screen(kind, headline, sentence);
    screen.reason = of_error(screen.reason, first);
    screen.reason.workload = named(results, workload);
    screen.reason.criterion = broken.map(|broken| broken.condition.clone());
    (screen.reason.count, screen.reason.of) = (Some(failed), Some(total));
    screen
}

fn of_error(reason: Reason, error: Option<&ErrorClass>) -> Reason {
    let Some(error) = error else { return reason };
    let (found, expected) = failed::found_and_expected(error);
    Reason {
        action: error.action.clone(),
        expected,
        found,
        excerpt: error.body.clone(),
        trace_ids: error.trace_ids.iter().copied().take(TRACES_MAX).collect(),
        ..reason
    }
}

/// A workload's name, if there are several.
fn named(results: &Results, workload: &Workload) -> Option<String> {
    (results.workloads.len() > 1).then(|| workload.name.clone())
}

fn share_failed(counts: Counts) -> f64 {
    counts.failed as f64 / (counts.ok + counts.failed).max(1) as f64
}

fn judges_failures(criterion: &Criterion) -> bool {
    criterion.criterion == "failure_rate" || criterion.condition.contains("(errors")
}

pub(super) fn has_unjudged_failures(results: &Results) -> bool {
    results.workloads.iter().any(|workload| {
        let judged =
            |criterion: &Criterion| criterion.workload == workload.name && judges_failures(criterion);
        share_failed(workload.iterations) >= FAILED_SHARE && !results.verdict.criteria.iter().any(judged)
    })
}

/// The first of the run's criteria with this outcome that can fail it.
fn criteria(results: &Results, outcome: Outcome) -> impl Iterator<Item = &Criterion> {
    let all = results.verdict.criteria.iter();
    all.filter(move |one| one.outcome == outcome && one.severity == Severity::Fail)
}

fn failing(results: &Results) -> Screen {
    let failed_of = |criterion: &Criterion| {
        let workload = results.workloads.iter().find(|workload| workload.name == criterion.workload);
        workload.map_or(0.0, |workload| share_failed(workload.iterations))
    };
    let by_errors = criteria(results, Outcome::Fail).find(|one| judges_failures(one) && failed_of(one) > 0.0);
    // Where at least this share failed, failures are what breaks limits on times too.
    let through_errors = || criteria(results, Outcome::Fail).find(|one| failed_of(one) >= FAILED_SHARE);
    if let Some(broken) = by_errors.or_else(through_errors) {
        return errors(results, ReasonKind::Errors, Some(broken));
    }
    match criteria(results, Outcome::Fail).next() {
        Some(broken) => broken_limit(results, broken),
        None if has_unjudged_failures(results) => errors(results, ReasonKind::Errors, None),
        None => slow(results),
    }
}

fn broken_limit(results: &Results, broken: &Criterion) -> Screen {
    let of_time = broken.measured.as_ref().is_some_and(|seen| seen.unit == "ms")
        || TIMES_OF_RALLY.contains(&broken.criterion.as_str());
    let kind = if of_time { ReasonKind::Time } else { ReasonKind::Criterion };
    let metric = metric(&broken.condition);
    let mut sentence = StyledLine::default();
    sentence.code(&broken.condition).text(" is broken: ");
    let mut headline = StyledLine::from(format!("Broken: {}", broken.condition));
    let (mut expected, mut found) = (None, None);
    if let Some(seen) = &broken.measured {
        // Both with as many digits as it takes to tell them apart.
        let limit = beside_limit(seen.limit, seen.value, |limit, more| amount(limit, &seen.unit, more));
        let value = measured(seen);
        headline = StyledLine::from(format!("{metric} is {value}, limit {limit}"));
        (expected, found) = (Some(limit), Some(value));
    }
    sentence.text(found_by(broken)).text(".");
    let others: Vec<&Criterion> = criteria(results, Outcome::Fail).skip(1).collect();
    for (number, other) in others.iter().take(OTHERS_MAX).enumerate() {
        sentence.text(if number == 0 { " Broken too: " } else { ", " });
        sentence.code(&other.condition).text(format!(" ({})", found_by(other)));
    }
    match others.len().saturating_sub(OTHERS_MAX) {
        0 if others.is_empty() => {}
        0 => {
            sentence.text(".");
        }
        more => {
            sentence.text(format!(", and {more} more."));
        }
    }
    let workload = results.workloads.iter().find(|workload| workload.name == broken.workload);
    let by_time = workload.filter(|_| of_time);
    let cause = if is_of_work(broken) { late_cause_of } else { cause_of };
    let why = by_time.and_then(cause);
    let why = why.or_else(|| workload.and_then(offered::sentence).map(StyledLine::from));
    if let Some(why) = why {
        sentence.text(" ").line(why);
    }
    let mut screen = screen(kind, headline, sentence);
    screen.reason = Reason {
        criterion: Some(broken.condition.clone()),
        workload: workload.and_then(|workload| named(results, workload)),
        trace_ids: first_ids(&broken.trace_ids),
        expected,
        found,
        ..screen.reason
    };
    screen
}

/// What broke a criterion, in short: its figure and how far that is off, if there is one.
fn found_by(broken: &Criterion) -> String {
    let Some(seen) = &broken.measured else { return broken.observed.clone() };
    let off = off_limit(broken).map_or_else(String::new, |off| format!(", {off}"));
    format!("{}{off}", measured(seen))
}

/// How far the figure of a criterion is from its limit, if it has both.
pub(super) fn off_limit(criterion: &Criterion) -> Option<String> {
    let seen = criterion.measured.as_ref()?;
    (seen.limit > 0.0 && seen.value != seen.limit).then(|| off(seen.value / seen.limit))
}

/// How far a value is from its limit, if it is this many times as large as the limit.
fn off(times: f64) -> String {
    match times {
        times if times >= 2.0 => format!("{} times the limit", rounded(times, 0)),
        times if times > 1.0 => format!("{} over the limit", percent((times - 1.0) * 100.0)),
        times => format!("{} under the limit", percent((1.0 - times) * 100.0)),
    }
}

fn first_ids(ids: &[Uuid]) -> Vec<Uuid> {
    ids.iter().copied().take(TRACES_MAX).collect()
}

/// What a condition is about: `p99` of `p(99) < 250ms`, `p95 of response, action create` of longer ones.
fn metric(condition: &str) -> String {
    let operators = [" <= ", " >= ", " == ", " < ", " > "];
    let at = operators.iter().filter_map(|operator| condition.find(operator)).min();
    condition[..at.unwrap_or(condition.len())].trim().to_owned()
}

/// The value of a criterion, with the digits that tell it from the limit.
pub(super) fn measured(seen: &CriterionMeasurement) -> String {
    beside_limit(seen.value, seen.limit, |value, more| amount(value, &seen.unit, more))
}

/// A value of a criterion in its unit, with this number of digits more than usual.
fn amount(value: f64, unit: &str, more: usize) -> String {
    match unit {
        "ms" if value > 0.0 => format_ns_to((value * 1e6).round() as u64, more),
        "ms" => duration(value),
        "%" if more == 0 => percent(value),
        "%" => format!("{value:.*} %", 1 + more),
        "1/s" => format!("{}/s", rounded(value, more)),
        "" => rounded(value, more),
        unit => format!("{} {unit}", rounded(value, more)),
    }
}

fn rounded(value: f64, more: usize) -> String {
    match value {
        value if value.fract() == 0.0 => format!("{value:.0}"),
        value if value.abs() >= 99.95 => format!("{value:.more$}"),
        value => format!("{value:.*}", 1 + more),
    }
}

fn invalid(results: &Results) -> Screen {
    let of_run = results.verdict.invalid.first();
    if let Some(why) = of_run {
        let short = why.split([':', ';', ',']).next().unwrap_or(why);
        let headline = in_words(format!("No verdict: {short}").into(), HEADLINE_WORDS_MAX);
        return screen(ReasonKind::Invalid, headline, sentence_of(why).into());
    }
    undecided(results, Outcome::Invalid, ReasonKind::Invalid, "No data for")
}

fn inconclusive(results: &Results) -> Screen {
    undecided(results, Outcome::Inconclusive, ReasonKind::Inconclusive, "Undecided:")
}

/// A criterion that is not decided, and what would help.
fn undecided(results: &Results, outcome: Outcome, kind: ReasonKind, word: &str) -> Screen {
    let Some(open) = criteria(results, outcome).next() else {
        let sentence = "The record of the run has no end, so what ran after it is unknown: run it again.";
        return screen(kind, "Undecided: the record has no end".into(), sentence.into());
    };
    let headline = match kind {
        ReasonKind::Inconclusive => format!("{word} {}", open.condition),
        _ => format!("{word} {}", metric(&open.condition)),
    };
    let mut sentence = StyledLine::default();
    let value = open.measured.as_ref().map(measured);
    sentence.code(&open.condition).text(format!(": {}", value.as_ref().unwrap_or(&open.observed)));
    if let Some(reason) = &open.reason {
        sentence.text(format!("; {reason}"));
    }
    let mut screen = screen(kind, headline.into(), sentence.text(".").done());
    screen.reason.criterion = Some(open.condition.clone());
    screen.reason.trace_ids = first_ids(&open.trace_ids);
    screen
}

/// What is known of slow iterations, whatever the criteria say.
#[must_use]
pub fn slow(results: &Results) -> Screen {
    let late = results.workloads.iter().find_map(|workload| machine::late(results, workload));
    if let Some(FoundCause { name, sentence: mut why, late: work, workload }) = words::cause(results) {
        let of_response = work.is_none().then_some(workload);
        let queue = of_response.and_then(Workload::queue_of_cause);
        if let Some(queue) = queue {
            why.text(" ").line(queues::sentence(queue));
        }
        let predicted = of_response.and_then(|workload| workload.without_cause.as_ref());
        if let Some(line) = predicted.and_then(prediction::without_cause) {
            why.text(" ").line(line);
        }
        let headline = match (name, queue) {
            (CauseName::Kind(_), Some(queue)) => queues::headline(queue),
            (CauseName::Kind(name), None) if work.is_some() => late_because_of(name),
            (CauseName::Kind(name), None) => match (plain(&name).as_str(), late) {
                (QUEUE_TIME, Some(late)) => {
                    why.text(" ").text(late);
                    "Slow iterations start late: bench itself was late".into()
                }
                _ => waiting_for(name),
            },
            (CauseName::Whole(pattern), _) => {
                machine::busy(results).into_iter().for_each(|busy| {
                    why.text(" ").text(busy);
                });
                words::whole_in_short(pattern).into()
            }
        };
        let mut screen = screen(ReasonKind::Slow, headline, why);
        let slowest = results.slowest.iter().map(|slow| slow.iteration.trace_id);
        screen.reason.trace_ids = match work {
            Some(work) => work.latest.iter().map(|one| one.explanation.trace_id).take(TRACES_MAX).collect(),
            None => slowest.take(TRACES_MAX).collect(),
        };
        return screen;
    }
    if let Some(busy) = results.workloads.iter().find_map(offered::sentence) {
        let short = busy.split([';', '(', '.']).next().unwrap_or(&busy).trim().to_owned();
        return screen(ReasonKind::Slow, short.into(), busy.into());
    }
    let is_unclear = |workload: &Workload| {
        let seen = workload.comparison.as_ref();
        seen.is_some_and(|seen| seen.no_finding == Some(NoCauseReason::Unclear) && seen.missing.is_none())
    };
    if let Some(busy) = machine::busy(results).filter(|_| results.workloads.iter().any(is_unclear)) {
        let mut sentence = words::sentences(results).into_iter().next().unwrap_or_default();
        sentence.text(" ").text(busy);
        return screen(
            ReasonKind::Slow,
            "This machine was busy, and nothing else stands out".into(),
            sentence,
        );
    }
    let headline = match slow_part::largest(results) {
        Some(part) => {
            let mut headline = StyledLine::from("Slow iterations: perhaps ");
            headline.line(in_words(kind_in_short(part), NAME_WORDS_MAX)).done()
        }
        None => figures::in_short(results).into(),
    };
    let mut sentence =
        words::sentences(results).into_iter().next().unwrap_or_else(|| figures::counted(results));
    let has_collector = results.profiling.collector.is_some() || results.profiling.received.is_some();
    if results.profiling.enabled && !has_collector {
        sentence.text(" No collector is named, so nothing tells why slow ones are slow: add ");
        sentence.code("profiler.connection_string").text(" or ").code("profiler.receive").text(".");
    }
    screen(ReasonKind::Nothing, headline, sentence)
}

/// A run that nothing speaks against, but no trace of it came: a wrong key looks like this.
fn without_traces(results: &Results, why: &str) -> Screen {
    let asked: u64 = results.profiling.fetched.values().sum();
    let of = if asked == 1 { "The trace".to_owned() } else { format!("None of the {asked} traces") };
    let did = if asked == 1 { "did not come" } else { "came" };
    let sentence = format!("{of} that bench asked for {did}, so nothing is known of the services: {why}.");
    screen(ReasonKind::NoTraces, "No trace came; only the client's times are known".into(), sentence.into())
}

/// The headline on what slow iterations wait for.
fn waiting_for(name: StyledLine) -> StyledLine {
    let text = plain(&name);
    let mut headline = StyledLine::from("Slow iterations ");
    match text.as_str() {
        QUEUE_TIME => headline.text("wait for a free virtual user"),
        text if text.starts_with("time ") => headline.text("lose ").line(name),
        _ => headline.text("wait for ").line(in_words(name, NAME_WORDS_MAX)),
    };
    headline
}

/// The headline on what asynchronous work waits for.
fn late_because_of(name: StyledLine) -> StyledLine {
    let text = plain(&name);
    let verb = match text.as_str() {
        text if text.starts_with("waiting ") => "is ",
        text if text.starts_with("time ") => "loses ",
        _ => "waits for ",
    };
    StyledLine::from(format!("Late work {verb}")).line(in_words(name, NAME_WORDS_MAX)).done()
}

/// The sentence on what makes slow iterations of a workload slow, if something does for certain.
fn cause_of(workload: &Workload) -> Option<StyledLine> {
    let comparison = workload.comparison.as_ref()?;
    words::has_cause(comparison).then(|| words::comparison(comparison))
}

/// What makes the work of a workload end late, if a point stands out.
fn late_cause_of(workload: &Workload) -> Option<StyledLine> {
    let late = words::late_work(workload)?;
    words::has_cause(&late.comparison).then(|| words::late(late))
}

/// Whether a criterion limits the time to the end of asynchronous work.
pub(super) fn is_of_work(criterion: &Criterion) -> bool {
    // A name in it may hold anything: what follows the statistic decides.
    criterion.condition.split_once('(').is_some_and(|(_, rest)| rest.starts_with("asynchronous)"))
}

#[cfg(test)]
#[path = "screen/tests.rs"]
mod tests;
