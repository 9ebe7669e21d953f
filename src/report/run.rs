//! The result of a run as documents: the summary at the terminal, and `report.md`.
//!
//! Both have the same parts. At a terminal the most important part is last, where people look; in Markdown it is first,
//! because the rest may be cut. Nothing here may compute a statistic.

use std::path::Path;

use super::document::{
    Badge, Block, Cell, Column, DocumentTable, JudgedCriterion, ReportDocument, RowRole, StyledLine,
};
use super::explanation::has_cause;
use super::screen::{self, Screen};
use super::tags::PERCENTILES;
use super::words::{self, duration};
use super::{
    asynchronous, histogram, measured, observer, offered, probe, record, samples, seed, shards, slowest,
    stall, statuses, streams, tags, users,
};
use results::model::{
    Counts, Criterion, Distribution, ErrorClass, Outcome, ReasonKind, Results, RunStatus, TraceState,
    Workload,
};

/// The largest number of kinds of failure that a terminal shows.
const ERRORS_SHOWN: usize = 8;

/// The summary for a terminal; with `directory`, also the paths of the files. Notes that the reader has `heard` are left
/// out.
#[must_use]
pub fn summary(results: &Results, directory: Option<&Path>, heard: &[String]) -> ReportDocument {
    let (mut document, screen) = head(results);
    document.blocks.extend(workloads(results, &screen));
    let by_errors = screen.reason.kind.is_by_errors();
    if by_errors {
        document.blocks.extend(criteria(results));
    }
    document.blocks.extend(causes(results, &screen));
    document.blocks.extend(slow(results, &screen));
    if !by_errors {
        document.blocks.extend(criteria(results));
    }
    let facts = facts(results);
    if !facts.is_empty() {
        document.push(Block::Facts(facts));
    }
    add_notes(&mut document, &notes(results, &screen, heard));
    if let Some(directory) = directory {
        let path = |name| StyledLine::from(directory.join(name).display().to_string());
        document.push(Block::Facts(vec![("report", path("report.html")), ("results", path("results.json"))]));
    }
    document
}

/// The report for step summaries and comments.
#[must_use]
pub fn report(results: &Results) -> ReportDocument {
    let (mut document, screen) = head(results);
    let by_errors = screen.reason.kind.is_by_errors();
    if !by_errors {
        document.blocks.extend(causes(results, &screen));
    }
    document.blocks.extend(criteria(results));
    document.blocks.extend(workloads(results, &screen));
    if by_errors {
        document.blocks.extend(causes(results, &screen));
    }
    document.blocks.extend(slow(results, &screen));
    let facts = facts(results);
    if !facts.is_empty() {
        document.push(Block::Facts(facts));
    }
    add_notes(&mut document, &notes(results, &screen, &[]));
    document
}

/// Adds notes, in which code stands between backquotes.
fn add_notes(document: &mut ReportDocument, notes: &[String]) {
    document.blocks.extend(notes.iter().map(|note| Block::Note("note", StyledLine::quoting(note))));
}

/// The notes that the reader has not heard, and that the reason of the verdict does not say.
fn notes(results: &Results, screen: &Screen, heard: &[String]) -> Vec<String> {
    let said = |note: &&String| heard.contains(note) || probe::is_said(note, &screen.reason.sentence);
    results.notes.iter().filter(|note| !said(note)).cloned().collect()
}

/// The verdict with its criteria, without the figures.
#[must_use]
pub fn gate(results: &Results) -> ReportDocument {
    let (mut document, _) = head(results);
    document.blocks.extend(criteria(results));
    document
}

/// The verdict with its reason, and what else makes the run INVALID.
fn head(results: &Results) -> (ReportDocument, Screen) {
    let mut document = ReportDocument::new(2, "report.html");
    let screen = screen::of(results);
    document.push(Block::Title(verdict(results)));
    document.push(Block::Heading(screen.headline.clone(), None));
    document.push(Block::Paragraph(screen.sentence.clone()));
    let is_first = matches!(screen.reason.kind, ReasonKind::NoTraces) || screen.reason.kind.is_by_errors();
    let missing = words::no_trace_came(results).filter(|_| !is_first);
    document.blocks.extend(missing.map(|missing| Block::Note("no trace came", missing.into())));
    let excerpt = screen.reason.excerpt.as_deref();
    document
        .blocks
        .extend(excerpt.map(|body| Block::Note("the answer", StyledLine::default().code(body).done())));
    let invalid = results.verdict.invalid.iter();
    document.blocks.extend(invalid.map(|reason| Block::Invalid(reason.as_str().into())));
    (document, screen)
}

/// The verdict in one line.
#[must_use]
pub fn verdict(results: &Results) -> StyledLine {
    let mut line = StyledLine::from(badge(results));
    line.text(format!(" · {}", subject(results))).done()
}

/// The verdict in one word.
pub(super) fn badge(results: &Results) -> Badge {
    match results.verdict.outcome {
        Outcome::Pass if results.run.status != RunStatus::Finished => Badge::so_far(),
        Outcome::None if !results.verdict.invalid.is_empty() => Badge::invalid_without_gate(),
        outcome => Badge::verdict(outcome),
    }
}

/// What was run, and what must not be overlooked of how it went.
pub(super) fn subject(results: &Results) -> String {
    let status = match results.run.status {
        RunStatus::Finished => String::new(),
        RunStatus::Interrupted => " · interrupted".to_owned(),
        RunStatus::TimedOut => " · stopped by its time limit".to_owned(),
        RunStatus::Aborted => " · stopped by a threshold".to_owned(),
        RunStatus::Recovered => " · recovered from the log".to_owned(),
        RunStatus::Failed => format!(" · failed: {}", results.run.error.as_deref().unwrap_or_default()),
    };
    let not_served =
        words::not_served(&results.workloads).map_or_else(String::new, |words| format!("{words} · "));
    let tls = if results.deployment.tls_verified { "" } else { " · TLS NOT VERIFIED" };
    let failed = if screen::has_unjudged_failures(results) { failures(results) } else { String::new() };
    format!("{not_served}{} on {}{status}{tls}{failed}", results.scenario.title, results.deployment.name)
}

/// How many iterations failed, where nothing judges that: an exit code of 0 must not hide it.
fn failures(results: &Results) -> String {
    let counts = results.workloads.iter().map(|workload| workload.iterations);
    let (total, failed) =
        counts.fold((0, 0), |(total, failed), one| (total + one.total, failed + one.failed));
    match failed {
        0 => String::new(),
        failed if failed == total => format!(" · ALL {total} ITERATIONS FAILED"),
        failed => format!(" · {failed} of {total} iterations failed"),
    }
}

/// Why slow iterations are slow, without what the reason of the verdict says already.
fn causes(results: &Results, screen: &Screen) -> impl Iterator<Item = Block> {
    causes_of(results, screen).into_iter().map(Block::Paragraph)
}

/// The same as sentences.
pub(super) fn causes_of(results: &Results, screen: &Screen) -> Vec<StyledLine> {
    let said = screen::plain(&screen.sentence);
    words::sentences(results).into_iter().filter(|one| !said.contains(&screen::plain(one))).collect()
}

/// The slowest iterations. Without any trace they say nothing of a run that failed by errors.
fn slow(results: &Results, screen: &Screen) -> Vec<Block> {
    let traced = results.slowest.iter().any(|slow| slow.trace != TraceState::NotFetched);
    if screen.reason.kind.is_by_errors() && !traced {
        return Vec::new();
    }
    let stall = stall::sentence(results).map(|sentence| Block::Paragraph(sentence.into()));
    stall.into_iter().chain(slowest::blocks(results)).collect()
}

/// The criteria, if there are any.
pub(super) fn criteria(results: &Results) -> Option<Block> {
    let several = results.workloads.len() > 1;
    let judged = |criterion: &Criterion| {
        let workload = if several { format!("{}: ", criterion.workload) } else { String::new() };
        let off = screen::off_limit(criterion).filter(|_| criterion.outcome == Outcome::Fail);
        let off = off.map_or_else(String::new, |off| format!("; {off}"));
        // Without profiling, no iteration has a trace.
        let ids = criterion.trace_ids.iter().filter(|_| results.profiling.enabled);
        let ended = if criterion.aborted { ", and ended the load" } else { "" };
        JudgedCriterion {
            badge: Badge::criterion(criterion),
            condition: format!("{workload}{}", criterion.condition).into(),
            observed: format!("{}{off}{ended}", criterion.observed).into(),
            reason: criterion.reason.as_deref().map(StyledLine::from),
            trace_ids: ids.map(ToString::to_string).collect(),
        }
    };
    let all: Vec<JudgedCriterion> = results.verdict.criteria.iter().map(judged).collect();
    (!all.is_empty()).then_some(Block::Criteria(all))
}

fn workloads(results: &Results, screen: &Screen) -> Vec<Block> {
    results.workloads.iter().flat_map(|of| workload(of, results, screen)).collect()
}

fn workload(workload: &Workload, results: &Results, screen: &Screen) -> Vec<Block> {
    let name = workload.name.as_str().into();
    let mut blocks = vec![Block::Heading(name, Some(workload_line(workload, results).into()))];
    if workload.iterations.total > 0 {
        blocks.push(Block::Table(times(workload)));
        blocks.extend(statuses::table(workload).map(Block::Table));
        // Where something explains what is slow, that says more.
        let is_explained = workload.comparison.as_ref().is_some_and(has_cause);
        blocks.extend(histogram::table(workload).filter(|_| !is_explained).map(Block::Table));
        blocks.extend(streams::table(workload, results.profiling.enabled).map(Block::Table));
        blocks.extend(streams::sentence(workload).map(|sentence| Block::Paragraph(sentence.into())));
        blocks.extend(users::table(workload).map(Block::Table));
        blocks.extend(users::sentence(workload).map(|sentence| Block::Paragraph(sentence.into())));
        blocks.extend(measured::table(workload, results.profiling.enabled).map(Block::Table));
        blocks.extend(tags::table(workload).map(Block::Table));
        blocks.extend(samples::sentence(workload).map(|sentence| Block::Paragraph(sentence.into())));
    }
    let busy = offered::sentence(workload).filter(|busy| !screen.reason.sentence.contains(busy));
    blocks.extend(busy.map(|sentence| Block::Paragraph(sentence.into())));
    if !workload.errors.is_empty() {
        blocks.push(Block::Table(errors(workload, results.profiling.enabled)));
    }
    let effect = workload.observer_effect.as_ref();
    blocks.extend(effect.map(|effect| Block::Paragraph(observer::sentence(effect).into())));
    blocks.extend(asynchronous::sentence(workload).map(|sentence| Block::Paragraph(sentence.into())));
    blocks.extend(asynchronous::latest(workload).map(Block::Table));
    blocks
}

fn workload_line(workload: &Workload, results: &Results) -> String {
    let Counts { total, failed, aborted, .. } = workload.iterations;
    if total == 0 {
        return "no iteration ran".to_owned();
    }
    let profiled = match (&results.profiling.enabled, &results.profiling.reason) {
        (true, _) if words::no_trace_came(results).is_some() => {
            "trace headers sent, but no trace came".to_owned()
        }
        (true, _) if workload.unprofiled > 0 => {
            format!("{}{}", words::share_profiled(workload), words::without_osprofiler(&results.profiling))
        }
        (true, _) => format!("all profiled{}", words::without_osprofiler(&results.profiling)),
        (false, reason) => format!("not profiled: {}", reason.as_deref().unwrap_or("no reason given")),
    };
    let aborted = if aborted > 0 { format!(", {aborted} cut off") } else { String::new() };
    format!(
        "{total} iteration{} in {:.2} s, {}, {failed} failed{aborted}{}; {profiled}",
        if total == 1 { "" } else { "s" },
        workload.duration_s,
        offered::rate(workload),
        words::aside(workload)
    )
}

/// Counts and percentiles of a workload's iterations and of its actions.
pub(super) fn times(workload: &Workload) -> DocumentTable {
    let mut columns = vec![Column::name(""), Column::figure("count"), Column::figure("failed")];
    columns.extend(PERCENTILES.iter().map(|(title, _)| Column::figure(title)));
    let actions = workload.actions.iter().flat_map(|action| [&action.service_time, &action.response_time]);
    let all = [&workload.response_time, &workload.service_time].into_iter().chain(actions);
    columns.push(Column::figure(words::max_title(all)));
    let mut table = DocumentTable::new(columns);
    let waited = words::waited(workload);
    let mut row = |part, name: &str, counts: Option<Counts>, times: &Distribution| {
        // Counts appear once: further rows of times have none.
        let count =
            |of: fn(Counts) -> u64| counts.map_or_else(Cell::empty, |counts| of(counts).to_string().into());
        let mut cells = vec![name.into(), count(|counts| counts.total), count(|counts| counts.failed)];
        cells
            .extend(PERCENTILES.iter().map(|(_, wanted)| Cell::from(words::percentile(times, *wanted, "-"))));
        cells.push(if times.count == 0 { "-".into() } else { duration(times.max_ms).into() });
        table.part(part, cells);
    };
    row(RowRole::Whole, "iteration", Some(workload.iterations), &workload.response_time);
    if waited {
        row(RowRole::Further, "from its start", None, &workload.service_time);
        row(RowRole::Further, "queue time", None, &workload.queue_time);
    }
    for action in &workload.actions {
        row(RowRole::Step, &action.name, Some(action.requests), &action.service_time);
        if waited {
            row(RowRole::FurtherOfStep, "from due", None, &action.response_time);
        }
    }
    table
}

/// Kinds of failure, with a trace of each if there are traces.
fn errors(workload: &Workload, is_profiled: bool) -> DocumentTable {
    let mut table = DocumentTable::new(vec![
        Column::figure("failed"),
        Column::words("class").left_out(2),
        Column::name("action"),
        Column::message("message"),
    ]);
    table.columns.extend(is_profiled.then(|| Column::words("a trace id")));
    let is_quoted = workload.errors.iter().any(|error| quoted(error).is_some());
    if is_quoted {
        table.columns.insert(4, Column::message("the first answer").left_out(1));
    }
    (table.rows_shown, table.others) = (ERRORS_SHOWN, "other kinds of failure");
    for error in &workload.errors {
        let mut cells = vec![
            error.count.to_string().into(),
            error.class.as_str().into(),
            error.action.as_deref().unwrap_or_default().into(),
            error.message.as_str().into(),
        ];
        cells.extend(is_quoted.then(|| quoted(error).map_or_else(Cell::empty, Cell::from)));
        let id = || error.trace_ids.first().map_or_else(Cell::empty, |id| Cell::code(id.to_string()));
        cells.extend(is_profiled.then(id));
        table.part(RowRole::Whole, cells);
    }
    table
}

/// What was found, and how the body began.
fn quoted(error: &ErrorClass) -> Option<String> {
    let found = error.found.as_ref().map(|found| format!("found {found}"));
    let parts: Vec<String> = found.into_iter().chain(error.body.clone()).collect();
    (!parts.is_empty()).then(|| parts.join("; "))
}

/// How the run's numbers add up, what made the load, and what was fetched.
pub(super) fn facts(results: &Results) -> Vec<(&'static str, StyledLine)> {
    let record = record::lines(results).into_iter().map(|line| ("record", line.into()));
    let probe = probe::sentence(results).map(|line| ("probe", line.into()));
    let cost = observer::unmeasured(results).map(|line| ("cost", line.into()));
    let load = results.generator.as_ref().map(|seen| ("load", words::generator(seen).into()));
    let shards = shards::sentence(results).map(|line| ("shards", line.into()));
    let traces = words::fetched(&results.profiling).map(|fetched| ("traces", fetched.into()));
    let spans = results.profiling.received.as_ref().map(|seen| ("spans", words::received(seen).into()));
    let seed = results.run.seed.map(|seed| ("seed", seed::words(seed).into()));
    record.chain(probe).chain(shards).chain(load).chain(traces).chain(spans).chain(cost).chain(seed).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::markdown::{self, BYTES_MAX};
    use crate::document::terminal::{self, TerminalStyle};
    use crate::html::sample;
    use results::model::Severity;

    /// Markdown has everything that the terminal shows of a criterion; a warning never looks like a failure.
    #[test]
    fn criteria_say_how_and_why() {
        let mut results = sample::sample(200).results;
        let base = results.verdict.criteria[0].clone();
        for (outcome, severity, symbol, word, code) in [
            (Outcome::Pass, Severity::Fail, "✅", "pass", "32"),
            (Outcome::Fail, Severity::Fail, "❌", "**FAIL**", "31"),
            (Outcome::Inconclusive, Severity::Fail, "❔", "**INCONCLUSIVE**", "33"),
            (Outcome::Invalid, Severity::Fail, "🚫", "**INVALID**", "33"),
            (Outcome::None, Severity::Fail, "🚫", "**INVALID**", "33"),
            (Outcome::Pass, Severity::Warn, "✅", "pass", "32"),
            (Outcome::Fail, Severity::Warn, "⚠️", "warning", "33"),
            (Outcome::Inconclusive, Severity::Warn, "⚠️", "warning: inconclusive", "33"),
            (Outcome::Invalid, Severity::Warn, "⚠️", "warning: invalid", "33"),
        ] {
            let reason =
                matches!(outcome, Outcome::Inconclusive | Outcome::Invalid).then(|| "too | few".to_owned());
            let has_reason = reason.is_some();
            results.verdict.criteria = vec![Criterion { outcome, severity, reason, ..base.clone() }];
            results.verdict.invalid = vec!["the *generator*".to_owned()];
            let report = markdown::text(&report(&results));
            let row = report.lines().find(|line| line.starts_with(&format!("| {symbol} {word} |")));
            let row = row.unwrap_or_else(|| panic!("{outcome:?} {severity:?}: {report}"));
            assert_eq!(row.contains("– too \\| few"), has_reason, "{row}");
            assert!(report.contains("**INVALID** the \\*generator\\*"), "{report}");
            let text = terminal::text(&gate(&results), TerminalStyle { colour: true, columns: None });
            let word = word.replace('*', "");
            let expected = format!("\n\u{1b}[{code};1m{word}\u{1b}[0m  list-users: {}: ", base.condition);
            assert!(text.contains(&expected), "{expected:?}: {text:?}");
            assert_eq!(text.contains("\n      too | few"), has_reason, "{text}");
        }
    }

    #[test]
    fn the_report_is_bounded_and_has_its_parts() {
        let mut results = sample::sample(200).results;
        let render = |results: &Results| markdown::text(&report(results));
        let report = render(&results);
        assert!(report.starts_with("## FAIL · "), "{report}");
        for part in
            ["| criterion |", "| iteration |", "| slowest |", "| ↳ queue time |", "\n### list-users\n"]
        {
            assert!(report.contains(part), "{part}: {report}");
        }
        assert!(report.len() < BYTES_MAX);
        let workload = results.workloads[0].clone();
        results.workloads = vec![workload; 1_000];
        let report = render(&results);
        assert!(
            report.len() <= BYTES_MAX && report.ends_with("\n… and more: see report.html.\n"),
            "{}",
            report.len()
        );
    }
}
