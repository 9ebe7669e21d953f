//! Comparisons of stored runs for people: at a terminal, in Markdown, and on a page.

use super::{AgainstHistory, PointDifference, RunRef, TracePoints, TwoRuns};
use crate::document::{
    Badge, Block, Cell, Column, DocumentTable, Interval, ReportDocument, Scale, StyledLine, Tone,
    markdown as md, terminal as tty,
};
use crate::kind_names;
use crate::words::{bounds, calls_of_both, duration, known_ratio, ratio, share_of_failures, signed};
use results::model::{Counts, Outcome};
use verdict::compare::FailuresRow;
use verdict::history::HistoryRow;

const POINTS_SHOWN: usize = 8;
const ROWS_SHOWN: usize = 100;

/// Two runs, for a terminal.
#[must_use]
pub fn terminal(compared: &TwoRuns, style: tty::TerminalStyle) -> String {
    tty::text(&document(compared), style)
}

/// Two runs, for a step summary or a comment.
#[must_use]
pub fn markdown(compared: &TwoRuns) -> String {
    md::text(&document(compared))
}

/// A run against its history, for a terminal.
#[must_use]
pub fn history_terminal(judged: &AgainstHistory, style: tty::TerminalStyle) -> String {
    tty::text(&history_document(judged), style)
}

/// The same in Markdown.
#[must_use]
pub fn history_markdown(judged: &AgainstHistory) -> String {
    md::text(&history_document(judged))
}

/// Two runs side by side.
#[must_use]
pub fn document(compared: &TwoRuns) -> ReportDocument {
    let mut document = ReportDocument::new(3, "");
    let (base, new) = (named(&compared.base), named(&compared.new));
    document.push(Block::Title(format!("{}: {new} against {base}", compared.new.scenario).into()));
    document.push(Block::Paragraph(caveat()));
    let differences = compared.differences.iter();
    document.blocks.extend(differences.map(|one| Block::Note("differs", one.as_str().into())));
    let mut tables = [("Response times", ratios(compared)), (NOT_SERVED, failures(compared))];
    // A rise of failures comes first: what fails takes no time.
    if compared.failures.iter().any(FailuresRow::differ) {
        tables.reverse();
    }
    tables.into_iter().for_each(|(title, table)| document.titled(title, None, table));
    for (title, hint, table) in point_tables(compared) {
        document.titled(title, Some(hint), table);
    }
    document.notes(&compared.notes);
    document
}

/// With one run of each, a slow hour looks like a slow build.
pub(crate) fn caveat() -> StyledLine {
    let mut line = StyledLine::from(
        "This describes these two runs. One run of each does not show whether the builds differ: the figures also contain \
         what else the machine and the network did at the time. ",
    );
    line.text("Use ").code("bench ab").text(" for that.").done()
}

/// The trace points that differ most, in typical and in slow iterations, and what their figures mean.
pub(crate) fn point_tables(compared: &TwoRuns) -> Vec<(&'static str, StyledLine, DocumentTable)> {
    let hint = |points: &TracePoints| {
        let TracePoints { base_traces, new_traces, .. } = points;
        format!("Own time and calls per trace, of {base_traces} and {new_traces} fetched traces")
    };
    let of = |title, points: &TracePoints| (title, hint(points).into(), point_table(points));
    vec![
        of("Trace points of typical iterations", &compared.typical_points),
        of("Trace points of slow iterations", &compared.slow_points),
    ]
}

pub(crate) fn named(run: &RunRef) -> String {
    let time: String = run.started_at.chars().take(19).collect();
    format!("{} ({time})", run.path)
}

/// One row for each percentile.
pub(crate) fn ratios(compared: &TwoRuns) -> DocumentTable {
    let mut table = DocumentTable::new(vec![
        Column::name(""),
        Column::drawing("between its bounds"),
        Column::figure("base"),
        Column::figure("new"),
        Column::figure("new/base"),
        Column::figure("95 % bounds"),
        Column::words(""),
    ]);
    table.scale = Scale { neutral: 1.0, limit: None, ratio: true };
    let several = compared.failures.len() > 1;
    for row in compared.rows.iter().take(ROWS_SHOWN) {
        let mut subject = Vec::new();
        if several {
            subject.push(row.workload.clone());
        }
        subject.extend(row.action.clone());
        subject.push(format!("p{}", row.percentile));
        let finding = match (row.low, row.high) {
            _ if row.base_ms.is_finite() && row.new_ms.is_infinite() => {
                format!("{} here", without_time(compared, &row.workload, |both| &both.new))
            }
            _ if row.base_ms.is_infinite() && row.new_ms.is_finite() => {
                format!("{} in the base", without_time(compared, &row.workload, |both| &both.base))
            }
            _ if row.new_ms.is_infinite() => {
                without_time(compared, &row.workload, |both| &both.new).to_owned()
            }
            (Some(low), _) if low > 1.0 => "higher here".to_owned(),
            (_, Some(high)) if high < 1.0 => "lower here".to_owned(),
            (Some(_), Some(_)) => "not clear".to_owned(),
            _ => "too few samples".to_owned(),
        };
        table.row([
            subject.join(" ").into(),
            row.ratio.map_or_else(Cell::empty, |ratio| Interval::of_ratio(ratio, row.low, row.high).into()),
            duration(row.base_ms).into(),
            duration(row.new_ms).into(),
            known_ratio(row.ratio).into(),
            bounds(row.low, row.high, ratio).into(),
            finding.into(),
        ]);
    }
    table
}

/// What of a workload has no time: failures, or more than that.
fn without_time(compared: &TwoRuns, workload: &str, side: fn(&FailuresRow) -> &Counts) -> &'static str {
    let counts = compared.failures.iter().find(|row| row.workload == workload).map(side);
    if counts.is_some_and(|counts| counts.dropped + counts.aborted > 0) { "not served" } else { "failures" }
}

/// The title of the tables of what has no time: it counts as longer than every success.
pub(crate) const NOT_SERVED: &str = "Failed or not served";

/// What failed or was not served, one row for each workload.
pub(crate) fn failures(compared: &TwoRuns) -> DocumentTable {
    let mut table = DocumentTable::new(vec![Column::name(""), Column::figure("base"), Column::figure("new")]);
    let shown = |counts: &Counts| match counts {
        Counts { failed, dropped: 0, aborted: 0, total, .. } => format!("{failed} of {total}"),
        Counts { failed, dropped, aborted, total, .. } => {
            format!("{failed} failed, {dropped} never started, {aborted} cut off, of {total}")
        }
    };
    for row in &compared.failures {
        table.row([row.workload.as_str().into(), shown(&row.base).into(), shown(&row.new).into()]);
    }
    table
}

fn point_table(points: &TracePoints) -> DocumentTable {
    let mut table = DocumentTable::new(vec![
        Column::name(""),
        Column::drawing("longer in the new run"),
        Column::name("of").left_out(2),
        Column::figure("base"),
        Column::figure("new"),
        Column::figure("longer by, 95 % bounds"),
        Column::figure("calls base → new").left_out(1),
    ]);
    let shown: Vec<&PointDifference> = points.kinds.iter().take(POINTS_SHOWN).collect();
    let kinds: Vec<(&str, &str)> =
        shown.iter().map(|kind| (kind.service.as_str(), kind.name.as_str())).collect();
    for (kind, name) in shown.into_iter().zip(kind_names::distinct(&kinds)) {
        let difference_ms = kind.new_self_ms - kind.base_self_ms;
        table.row([
            name.into(),
            Interval::of_difference(difference_ms, kind.low_ms.zip(kind.high_ms)).into(),
            kind.service.as_str().into(),
            duration(kind.base_self_ms).into(),
            duration(kind.new_self_ms).into(),
            bounds(kind.low_ms, kind.high_ms, signed).into(),
            calls_of_both(kind.base_calls, kind.new_calls).into(),
        ]);
    }
    table
}

/// A run against its history.
#[must_use]
pub fn history_document(judged: &AgainstHistory) -> ReportDocument {
    let mut document = ReportDocument::new(3, "");
    let mut title = StyledLine::from(Badge::verdict(judged.outcome));
    document.push(Block::Title(title.text(" · ").line(history_subject(judged)).done()));
    if judged.past.is_empty() {
        // A table would have rows of nothing.
        document.blocks.extend(judged.notes.first().map(|why| Block::Paragraph(StyledLine::quoting(why))));
        return document;
    }
    let mut tables = [("Response times", history_table(judged)), (NOT_SERVED, history_failures(judged))];
    if judged.failures.iter().any(|row| row.outcome != Outcome::Pass) {
        tables.reverse();
    }
    tables.into_iter().for_each(|(title, table)| document.titled(title, None, table));
    document.notes(&judged.notes);
    document
}

pub(crate) fn history_subject(judged: &AgainstHistory) -> StyledLine {
    let new = named(&judged.new);
    format!("{}: {new} against {} past runs", judged.new.scenario, judged.past.len()).into()
}

/// What failed or was not served, one row for each workload.
pub(crate) fn history_failures(judged: &AgainstHistory) -> DocumentTable {
    let mut table = DocumentTable::new(vec![
        Column::name(""),
        Column::figure("past runs"),
        Column::figure("new"),
        Column::figure("99 % bound of past runs"),
        Column::words(""),
        Column::message("why"),
    ]);
    for row in &judged.failures {
        table.row([
            row.workload.as_str().into(),
            share_of_failures(row.past_share).into(),
            share_of_failures(row.new_share).into(),
            share_of_failures(row.bound_share).into(),
            Badge::verdict(row.outcome).into(),
            row.reason.as_str().into(),
        ]);
    }
    table
}

/// The new run's value as a ratio of the past ones, and their range; nothing where one of them is not known.
fn against_past(row: &HistoryRow, tone: Tone) -> Cell {
    let (value, high) = (row.new_ms / row.past_ms, row.bound_ms / row.past_ms);
    if row.past_ms > 0.0 && value.is_finite() && high > 0.0 {
        Interval { value, low: 1.0, high, tone }.into()
    } else {
        Cell::empty()
    }
}

/// A figure of past runs; a dash where they have none.
fn known(ms: f64) -> String {
    if ms > 0.0 { duration(ms) } else { "–".to_owned() }
}

/// One row for each metric.
pub(crate) fn history_table(judged: &AgainstHistory) -> DocumentTable {
    let mut table = DocumentTable::new(vec![
        Column::name(""),
        Column::drawing("against past runs"),
        Column::figure("past runs"),
        Column::figure("vary by"),
        Column::figure("new"),
        Column::figure("99 % of runs stay below"),
        Column::words(""),
        Column::message("why"),
    ]);
    table.scale = Scale { neutral: 1.0, limit: None, ratio: true };
    for row in &judged.rows {
        let action = row.action.as_deref().map(|action| format!("{action} ")).unwrap_or_default();
        let badge = Badge::verdict(row.outcome);
        table.row([
            format!("{} {action}p{}", row.workload, row.percentile).into(),
            against_past(row, badge.tone),
            known(row.past_ms).into(),
            if row.past_ms > 0.0 { format!("{:.1} %", row.sd * 100.0).into() } else { Cell::empty() },
            duration(row.new_ms).into(),
            known(row.bound_ms).into(),
            badge.into(),
            row.reason.as_str().into(),
        ]);
    }
    table
}
