//! The summary that a run ends with, for a person at a terminal.

use std::io::{self, Write};
use std::path::Path;

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};

use super::words::{self, duration};
use super::{observer, record};
use crate::analysis::culprit::OUTSIDE;
use crate::results::model::{
    Counts, Culprit, Distribution, Outcome, Results, RunStatus, Severity, SlowIteration, TraceState, Workload,
};

/// How many of a workload's faults are shown.
const ERRORS_SHOWN: usize = 8;
/// How much of a detail is shown, in characters.
const DETAIL_CHARS: usize = 72;
/// How much of a fault's message is shown, in characters.
const MESSAGE_CHARS: usize = 160;

/// Writes the summary; with `directory`, where more is to be found.
///
/// # Errors
/// What the writer says.
pub fn summary(
    results: &Results,
    directory: Option<&Path>,
    colour: bool,
    output: &mut dyn Write,
) -> io::Result<()> {
    let paint = Paint { colour };
    writeln!(output, "\n{}", headline(results, paint))?;
    for reason in &results.verdict.invalid {
        writeln!(output, "\n{}  {}", paint.red("INVALID"), clean(reason))?;
    }
    for workload in &results.workloads {
        writeln!(output, "\n{}", workload_line(workload, results))?;
        if workload.iterations.total > 0 {
            writeln!(output, "{}", trimmed(&latency_table(workload)))?;
        }
        errors(workload, output)?;
        if let Some(effect) = &workload.observer_effect {
            writeln!(output, "\n{}", observer::sentence(effect))?;
        }
    }
    slowest(results, output)?;
    criteria(results, paint, output)?;
    for line in record::lines(results) {
        writeln!(output, "\nrecord   {}", clean(&line))?;
    }
    if let Some(seen) = &results.generator {
        writeln!(output, "\nload     {}", words::generator(seen))?;
    }
    if let Some(fetched) = words::fetched(&results.profiling) {
        let gap = if results.generator.is_some() { "" } else { "\n" };
        writeln!(output, "{gap}traces   {fetched}")?;
    }
    for note in &results.notes {
        writeln!(output, "\nnote: {}", clean(note))?;
    }
    let Some(directory) = directory else { return Ok(()) };
    let gap = if results.generator.is_some() && results.notes.is_empty() { "" } else { "\n" };
    writeln!(output, "{gap}report   {}", directory.join("report.html").display())?;
    writeln!(output, "results  {}", directory.join("results.json").display())
}

/// The verdict with its criteria, without the figures.
///
/// # Errors
/// What the writer says.
pub fn gate(results: &Results, colour: bool, output: &mut dyn Write) -> io::Result<()> {
    let paint = Paint { colour };
    writeln!(output, "{}", headline(results, paint))?;
    for reason in &results.verdict.invalid {
        writeln!(output, "\n{}  {}", paint.red("INVALID"), clean(reason))?;
    }
    criteria(results, paint, output)
}

/// The verdict in one line.
#[must_use]
pub fn verdict_line(results: &Results, colour: bool) -> String {
    headline(results, Paint { colour })
}

fn headline(results: &Results, paint: Paint) -> String {
    let status = match results.run.status {
        RunStatus::Finished => String::new(),
        RunStatus::Interrupted => " · interrupted".to_owned(),
        RunStatus::TimedOut => " · stopped by its time limit".to_owned(),
        RunStatus::Aborted => " · stopped by a threshold".to_owned(),
        RunStatus::Recovered => " · recovered from the log".to_owned(),
        RunStatus::Failed => {
            format!(" · failed: {}", results.run.error.as_deref().map_or_else(String::new, clean))
        }
    };
    let verdict = match results.verdict.outcome {
        // A run that was cut short has passed what it came to.
        Outcome::Pass if results.run.status != RunStatus::Finished => paint.green("PASS so far"),
        Outcome::Pass => paint.green("PASS"),
        Outcome::Fail => paint.red("FAIL"),
        Outcome::Inconclusive => paint.red("INCONCLUSIVE"),
        Outcome::Invalid => paint.red("INVALID"),
        Outcome::None if !results.verdict.invalid.is_empty() => paint.red("INVALID (no gate)"),
        Outcome::None => "no gate".to_owned(),
    };
    let tls = if results.deployment.tls_verified { "" } else { " · TLS NOT VERIFIED" };
    format!(
        "{verdict} · {} on {}{status}{tls}",
        clean(&results.scenario.title),
        clean(&results.deployment.name)
    )
}

pub(super) fn workload_line(workload: &Workload, results: &Results) -> String {
    let Counts { total, failed, aborted, .. } = workload.iterations;
    if total == 0 {
        return format!("{}: no iteration ran", clean(&workload.name));
    }
    let profiled = match (&results.profiling.enabled, &results.profiling.reason) {
        (true, _) if workload.unprofiled > 0 => words::share_profiled(workload),
        (true, _) => "every one profiled".to_owned(),
        (false, reason) => format!("not profiled: {}", reason.as_deref().unwrap_or("no reason given")),
    };
    let aborted = if aborted > 0 { format!(", {aborted} cut off") } else { String::new() };
    format!(
        "{}: {total} iteration{} in {:.2} s, {:.1}/s, {failed} failed{aborted}{}; {profiled}",
        clean(&workload.name),
        if total == 1 { "" } else { "s" },
        workload.duration_s,
        workload.rate_per_s,
        words::aside(workload)
    )
}

fn latency_table(workload: &Workload) -> Table {
    let mut table = table(&["", "count", "failed", "p50", "p90", "p95", "p99", "max"]);
    let waited = words::waited(workload);
    table.add_row(latency_row("iteration", Some(workload.iterations), &workload.response_time));
    if waited {
        let (service, lag) = (&workload.service_time, &workload.start_lag);
        table.add_row(latency_row(" from its start", None, service));
        table.add_row(latency_row(" late by", None, lag));
    }
    for action in &workload.actions {
        let name = clean(&action.name);
        table.add_row(latency_row(&format!("  {name}"), Some(action.requests), &action.service_time));
        if waited {
            table.add_row(latency_row("   from due", None, &action.response_time));
        }
    }
    right_align(&mut table, 1..8);
    table
}

/// `counts` are given once: a further row of times has none.
fn latency_row(name: &str, counts: Option<Counts>, times: &Distribution) -> Vec<String> {
    let count = |of: fn(Counts) -> u64| counts.map_or_else(String::new, |counts| of(counts).to_string());
    let mut row = vec![name.to_owned(), count(|counts| counts.total), count(|counts| counts.failed)];
    for wanted in [50.0, 90.0, 95.0, 99.0] {
        row.push(times.at(wanted).map_or_else(|| "-".to_owned(), duration));
    }
    row.push(if times.count == 0 { "-".to_owned() } else { duration(times.max_ms) });
    row
}

fn errors(workload: &Workload, output: &mut dyn Write) -> io::Result<()> {
    if workload.errors.is_empty() {
        return Ok(());
    }
    let mut table = table(&["failed", "class", "action", "message", "a trace id"]);
    for error in workload.errors.iter().take(ERRORS_SHOWN) {
        table.add_row([
            error.count.to_string(),
            error.class.clone(),
            error.action.as_deref().map_or_else(String::new, clean),
            cut(&error.message),
            error.trace_ids.first().map(ToString::to_string).unwrap_or_default(),
        ]);
    }
    right_align(&mut table, 0..1);
    writeln!(output, "\n{}", trimmed(&table))?;
    if workload.errors.len() > ERRORS_SHOWN {
        writeln!(output, "… and {} other kinds of failure", workload.errors.len() - ERRORS_SHOWN)?;
    }
    Ok(())
}

fn slowest(results: &Results, output: &mut dyn Write) -> io::Result<()> {
    if results.slowest.is_empty() {
        return Ok(());
    }
    let mut table = table(&["slowest", "trace id", "where the time went"]);
    for slow in &results.slowest {
        let id = slow.iteration.trace_id.to_string();
        table.add_row([duration(slow.response_ms), id, where_the_time_went(slow, results)]);
    }
    right_align(&mut table, 0..1);
    for sentence in words::sentences(results) {
        writeln!(output, "\n{}", clean(&sentence))?;
    }
    writeln!(output, "\n{}", trimmed(&table))?;
    if let Some(error) = &results.profiling.collector_error {
        writeln!(output, "the collector did not give all traces: {}", clean(error))?;
    }
    Ok(())
}

pub(super) fn where_the_time_went(slow: &SlowIteration, results: &Results) -> String {
    match (&slow.culprit, slow.trace) {
        (Some(culprit), _) if said_above(culprit, results) => {
            format!("{} ({:.0} %) as above", duration(culprit.self_ms), culprit.share * 100.0)
        }
        (Some(culprit), _) => sentence(culprit),
        (None, TraceState::Absent) => "the collector has no point of this trace".to_owned(),
        (None, TraceState::Partial | TraceState::Complete) => "the trace holds no time".to_owned(),
        (None, TraceState::NotFetched) => {
            let slowest = slow.actions.iter().max_by(|a, b| a.duration_ms.total_cmp(&b.duration_ms));
            let action = slowest
                .map(|action| format!("action {}, {}", clean(&action.name), duration(action.duration_ms)))
                .unwrap_or_default();
            let why = match (results.profiling.enabled, &results.profiling.collector) {
                _ if !slow.iteration.profiled => "left unprofiled, to compare",
                (false, _) => "not profiled",
                (true, None) => "no collector to ask",
                (true, Some(_)) => "trace not fetched",
            };
            format!("{action} ({why})")
        }
    }
}

/// True when the first finding names this point already.
fn said_above(culprit: &Culprit, results: &Results) -> bool {
    results.findings.first().is_some_and(|finding| {
        finding.iterations > 1
            && (&finding.service, &finding.name, &finding.detail)
                == (&culprit.service, &culprit.name, &culprit.detail)
    })
}

/// `80.1 ms (87 %) db SELECT … in identity, 40 calls`.
fn sentence(culprit: &Culprit) -> String {
    let calls = if culprit.calls > 1 { format!(", {} calls", culprit.calls) } else { String::new() };
    let service =
        if culprit.service.is_empty() { String::new() } else { format!(" in {}", clean(&culprit.service)) };
    let point = match culprit.name.as_str() {
        OUTSIDE => format!("{OUTSIDE} {}", culprit.detail),
        name => words::point_name(name, &culprit.detail),
    };
    let share = culprit.share * 100.0;
    format!("{} ({share:.0} %) {}{service}{calls}", duration(culprit.self_ms), shortened(point.trim_end()))
}

fn criteria(results: &Results, paint: Paint, output: &mut dyn Write) -> io::Result<()> {
    if results.verdict.criteria.is_empty() {
        return Ok(());
    }
    writeln!(output)?;
    for criterion in &results.verdict.criteria {
        let outcome = match (criterion.outcome, criterion.severity) {
            (Outcome::Pass, _) => paint.green("pass"),
            (Outcome::Fail, Severity::Warn) => paint.red("warn"),
            (Outcome::Fail, Severity::Fail) => paint.red("FAIL"),
            (Outcome::Inconclusive, _) => paint.red("INCONCLUSIVE"),
            (Outcome::Invalid | Outcome::None, _) => paint.red("INVALID"),
        };
        let ended = if criterion.aborted { ", and ended the load" } else { "" };
        let workload = if results.workloads.len() > 1 {
            format!("{}: ", clean(&criterion.workload))
        } else {
            String::new()
        };
        let (condition, observed) = (clean(&criterion.condition), clean(&criterion.observed));
        writeln!(output, "{outcome}  {workload}{condition}: {observed}{ended}")?;
        if let Some(reason) = &criterion.reason {
            writeln!(output, "      {}", clean(reason))?;
        }
        for id in &criterion.trace_ids {
            writeln!(output, "      trace {id}")?;
        }
    }
    Ok(())
}

#[derive(Clone, Copy)]
struct Paint {
    colour: bool,
}

impl Paint {
    fn green(self, text: &str) -> String {
        self.wrap("32;1", text)
    }

    fn red(self, text: &str) -> String {
        self.wrap("31;1", text)
    }

    fn wrap(self, code: &str, text: &str) -> String {
        if self.colour { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_owned() }
    }
}

fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Disabled)
        .set_header(header);
    table
}

/// A table without blanks at the ends of its lines.
fn trimmed(table: &Table) -> String {
    table.to_string().lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
}

fn right_align(table: &mut Table, columns: std::ops::Range<usize>) {
    for index in columns {
        if let Some(column) = table.column_mut(index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
}

/// Text from outside on one line, without what a terminal could obey.
#[must_use]
pub fn clean(text: &str) -> String {
    words::visible(text).replace(['\n', '\t'], " ")
}

/// The beginning of a long message.
fn cut(text: &str) -> String {
    let text = clean(text);
    if text.chars().count() <= MESSAGE_CHARS {
        return text;
    }
    text.chars().take(MESSAGE_CHARS).chain(['…']).collect()
}

/// The beginning and the end of a long text: a statement's table and condition stand at its end.
fn shortened(text: &str) -> String {
    let text = clean(text);
    let length = text.chars().count();
    if length <= DETAIL_CHARS {
        return text;
    }
    let half = DETAIL_CHARS / 2;
    text.chars().take(half).chain(['…']).chain(text.chars().skip(length - half)).collect()
}
