//! `report.md`: what the terminal says, in GitHub-flavoured Markdown, for step summaries and comments.
//!
//! Titles, names, statements and messages come from outside: [`text`] leaves nothing in them that Markdown or HTML
//! would obey. The whole is bounded ([`BYTES_MAX`]); what does not fit is left out and said to be. Nothing here may
//! compute a statistic.

use std::io::{self, Write};

use super::words::{self, Piece, duration};
use super::{observer, terminal};
use crate::results::model::{Counts, Criterion, Distribution, Outcome, Results, Severity, Workload};

/// GitHub takes 65,536 characters in a comment and 1 MiB in a step summary.
pub const BYTES_MAX: usize = 60_000;
/// Rows of a table.
const ROWS_MAX: usize = 20;
/// What is shown of one text, in characters.
const TEXT_CHARS_MAX: usize = 400;
const LEFT_OUT: &str = "… and more: see report.html.\n";
const PERCENTILES: [f64; 4] = [50.0, 90.0, 95.0, 99.0];

/// Writes the report.
///
/// # Errors
/// What the writer says.
pub fn render(results: &Results, output: &mut dyn Write) -> io::Result<()> {
    let mut left = BYTES_MAX - LEFT_OUT.len();
    for block in blocks(results) {
        let Some(rest) = left.checked_sub(block.len() + 1) else {
            return output.write_all(LEFT_OUT.as_bytes());
        };
        left = rest;
        writeln!(output, "{block}")?;
    }
    Ok(())
}

/// The parts, most important first; each ends its last line.
fn blocks(results: &Results) -> impl Iterator<Item = String> {
    let head = format!("## {}\n", text(&terminal::verdict_line(results, false)));
    let invalid = results.verdict.invalid.iter().map(|reason| format!("**INVALID** {}\n", text(reason)));
    let sentences = words::sentence_pieces(results);
    let sentences: Vec<String> =
        sentences.iter().map(|pieces| pieces.iter().map(piece).chain(["\n".to_owned()]).collect()).collect();
    let (slow, rest) = (slowest(results), rest(results));
    let workloads = results.workloads.iter().flat_map(move |of| workload(of, results));
    std::iter::once(head)
        .chain(invalid)
        .chain(sentences)
        .chain(criteria(results))
        .chain(workloads)
        .chain(slow)
        .chain(rest)
}

fn piece(piece: &Piece) -> String {
    match piece {
        Piece::Text(words) => text(words),
        Piece::Code(code) => code_span(code),
    }
}

/// Text from outside as it is, on one line: nothing between backquotes is markup.
fn code_span(code: &str) -> String {
    let code: String =
        terminal::clean(code).chars().take(TEXT_CHARS_MAX).map(|c| if c == '`' { '"' } else { c }).collect();
    if code.trim().is_empty() { String::new() } else { format!("`{code}`") }
}

fn criteria(results: &Results) -> Option<String> {
    let several = results.workloads.len() > 1;
    let row = |criterion: &Criterion| {
        let outcome = match (criterion.outcome, criterion.severity) {
            (Outcome::Pass, _) => "✅ pass",
            (Outcome::Fail, Severity::Fail) => "❌ **FAIL**",
            (Outcome::Fail, Severity::Warn) => "⚠️ warning",
            (Outcome::Inconclusive, Severity::Fail) => "❔ **INCONCLUSIVE**",
            (Outcome::Inconclusive, Severity::Warn) => "⚠️ warning: inconclusive",
            (Outcome::Invalid | Outcome::None, Severity::Fail) => "🚫 **INVALID**",
            (Outcome::Invalid | Outcome::None, Severity::Warn) => "⚠️ warning: invalid",
        };
        let workload = if several { format!("{}: ", text(&criterion.workload)) } else { String::new() };
        let ids: Vec<String> = criterion.trace_ids.iter().take(3).map(|id| format!("`{id}`")).collect();
        let condition = text(&criterion.condition);
        let ended = if criterion.aborted { ", and ended the load" } else { "" };
        let reason = criterion.reason.as_deref().map_or_else(String::new, |why| format!(" – {}", text(why)));
        let observed = format!("{}{ended}{reason}", text(&criterion.observed));
        format!("| {outcome} | {workload}{condition} | {observed} | {} |", ids.join(" "))
    };
    let rows: Vec<String> = results.verdict.criteria.iter().map(row).collect();
    table("| | criterion | observed | traces |\n|---|---|---|---|", &rows)
}

fn workload(workload: &Workload, results: &Results) -> Vec<String> {
    let mut blocks = vec![format!("{}\n", text(&terminal::workload_line(workload, results)))];
    if workload.iterations.total > 0 {
        let mut rows = vec![row("iteration", workload.iterations, &workload.response_time)];
        if words::waited(workload) {
            rows.push(row("from its start", workload.iterations, &workload.service_time));
        }
        let actions = workload.actions.iter();
        rows.extend(actions.map(|action| row(&text(&action.name), action.requests, &action.service_time)));
        let head = "| | count | failed | p50 | p90 | p95 | p99 | max |\n|---|--:|--:|--:|--:|--:|--:|--:|";
        blocks.extend(table(head, &rows));
    }
    let errors = workload.errors.iter().map(|error| {
        let id = error.trace_ids.first().map(|id| format!("`{id}`")).unwrap_or_default();
        let action = error.action.as_deref().map(text).unwrap_or_default();
        format!("| {} | {} | {action} | {} | {id} |", error.count, text(&error.class), text(&error.message))
    });
    let errors: Vec<String> = errors.collect();
    blocks.extend(table("| failed | class | action | message | a trace |\n|--:|---|---|---|---|", &errors));
    blocks.extend(
        workload.observer_effect.as_ref().map(|effect| format!("{}\n", text(&observer::sentence(effect)))),
    );
    blocks
}

/// `name` is escaped already.
fn row(name: &str, counts: Counts, times: &Distribution) -> String {
    let value = |wanted: f64| times.at(wanted).map_or_else(|| "-".to_owned(), duration);
    let values: Vec<String> = PERCENTILES.into_iter().map(value).collect();
    let max = if times.count == 0 { "-".to_owned() } else { duration(times.max_ms) };
    format!("| {name} | {} | {} | {} | {max} |", counts.total, counts.failed, values.join(" | "))
}

fn slowest(results: &Results) -> Option<String> {
    let rows = results.slowest.iter().map(|slow| {
        let (time, id) = (duration(slow.response_ms), slow.iteration.trace_id);
        format!("| {time} | `{id}` | {} |", text(&terminal::where_the_time_went(slow, results)))
    });
    table("| slowest | trace id | where the time went |\n|--:|---|---|", &rows.collect::<Vec<_>>())
}

/// What else a reader must know.
fn rest(results: &Results) -> Vec<String> {
    let generator =
        results.generator.as_ref().map(|seen| format!("Load: {}.\n", text(&words::generator(seen))));
    let fetched = words::fetched(&results.profiling).map(|fetched| format!("Traces: {}.\n", text(&fetched)));
    let error = results.profiling.collector_error.as_ref();
    let error = error.map(|error| format!("The collector did not give all traces: {}\n", text(error)));
    let notes = results.notes.iter().map(|note| format!("Note: {}\n", text(note)));
    let record = super::record::lines(results).into_iter().map(|line| format!("Record: {}\n", text(&line)));
    generator.into_iter().chain(fetched).chain(error).chain(record).chain(notes).collect()
}

/// A table with its first rows; `None` without any.
fn table(head: &str, rows: &[String]) -> Option<String> {
    if rows.is_empty() {
        return None;
    }
    let shown = rows.iter().take(ROWS_MAX).map(|row| format!("{row}\n"));
    let more = rows.len().saturating_sub(ROWS_MAX);
    let more = if more > 0 { format!("\n… and {more} more.\n") } else { String::new() };
    Some(format!("{head}\n{}{more}", shown.collect::<String>()))
}

/// Text from outside on one line, cut if it is long, in which neither Markdown nor HTML finds anything to obey: no
/// markup, no link, no mention, no formula, no cell's end.
#[must_use]
pub fn text(text: &str) -> String {
    let clean = terminal::clean(text);
    let mut chars = clean.chars().take(TEXT_CHARS_MAX).peekable();
    let mut safe = String::with_capacity(clean.len() + 16);
    // What would begin a list or a heading's underline, were it the first on its line.
    let mut at_start = true;
    while let Some(c) = chars.next() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '~' | '$' | '#' | '@' | '!' => safe.extend(['\\', c]),
            // A link, or an emoji's name.
            ':' if chars
                .peek()
                .is_some_and(|next| next.is_alphanumeric() || matches!(next, '/' | '+' | '-')) =>
            {
                safe.push_str("\\:");
            }
            '.' if at_start || safe.ends_with(['w', 'W']) => safe.push_str("\\."),
            '-' | '+' | '=' | ')' if at_start => safe.extend(['\\', c]),
            c => safe.push(c),
        }
        at_start &= c.is_ascii_digit() || c == ' ';
    }
    if clean.chars().count() > TEXT_CHARS_MAX {
        safe.push('…');
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::html::sample;
    use proptest::prelude::*;

    #[test]
    fn text_is_only_text() {
        for (given, expected) in [
            ("db SELECT a FROM b WHERE c = ?", "db SELECT a FROM b WHERE c = ?"),
            ("<img src=x onerror=alert(1)>", "&lt;img src=x onerror=alert(1)&gt;"),
            ("a|b\nc", "a\\|b c"),
            ("[x](javascript:alert(1))", "\\[x\\](javascript\\:alert(1))"),
            ("see https://evil.example", "see https\\://evil.example"),
            ("www.evil.example", "www\\.evil.example"),
            ("@somebody #12 :rocket: $x$ ~~x~~", "\\@somebody \\#12 \\:rocket: \\$x\\$ \\~\\~x\\~\\~"),
            ("1. one", "1\\. one"),
            ("- one", "\\- one"),
            ("# one", "\\# one"),
            ("a\\|b `c`", "a\\\\\\|b \\`c\\`"),
            ("\u{1b}[31mred\u{202e}", "‹U+001B›\\[31mred‹U+202E›"),
        ] {
            assert_eq!(text(given), expected, "{given}");
        }
        assert_eq!(text(&"x".repeat(10_000)).chars().count(), TEXT_CHARS_MAX + 1);
    }

    proptest! {
        /// Whatever a name is: one line, no tag, and each cell's border is ours.
        #[test]
        fn no_text_breaks_out(given in "\\PC{0,60}|[<>|`*_\\[\\]()#!:/&\\\\\n -]{0,60}") {
            let safe = text(&given);
            prop_assert!(!safe.contains(['\n', '<', '>']));
            let mut escaped = false;
            for c in safe.chars() {
                prop_assert!(escaped || !matches!(c, '|' | '`' | '*' | '_' | '[' | ']'), "{}", safe);
                escaped = c == '\\' && !escaped;
            }
            prop_assert!(!escaped, "an escape at the end would take what follows: {}", safe);
        }
    }

    /// What the terminal says of a criterion stands here too; a warning never looks like what the run failed by.
    #[test]
    fn criteria_say_how_and_why() {
        let mut results = sample::sample(200).results;
        let base = results.verdict.criteria[0].clone();
        for (outcome, severity, expected) in [
            (Outcome::Pass, Severity::Fail, "| ✅ pass |"),
            (Outcome::Fail, Severity::Fail, "| ❌ **FAIL** |"),
            (Outcome::Inconclusive, Severity::Fail, "| ❔ **INCONCLUSIVE** |"),
            (Outcome::Invalid, Severity::Fail, "| 🚫 **INVALID** |"),
            (Outcome::Pass, Severity::Warn, "| ✅ pass |"),
            (Outcome::Fail, Severity::Warn, "| ⚠️ warning |"),
            (Outcome::Inconclusive, Severity::Warn, "| ⚠️ warning: inconclusive |"),
            (Outcome::Invalid, Severity::Warn, "| ⚠️ warning: invalid |"),
        ] {
            let reason =
                matches!(outcome, Outcome::Inconclusive | Outcome::Invalid).then(|| "too | few".to_owned());
            results.verdict.criteria = vec![Criterion { outcome, severity, reason, ..base.clone() }];
            results.verdict.invalid = vec!["the *generator*".to_owned()];
            let mut output = Vec::new();
            render(&results, &mut output).unwrap();
            let report = String::from_utf8(output).unwrap();
            let row = report.lines().find(|line| line.starts_with(expected));
            let row = row.unwrap_or_else(|| panic!("{outcome:?} {severity:?}: {report}"));
            assert_eq!(
                row.contains("– too \\| few"),
                outcome != Outcome::Pass && outcome != Outcome::Fail,
                "{row}"
            );
            assert!(report.contains("**INVALID** the \\*generator\\*"), "{report}");
        }
    }

    #[test]
    fn the_report_is_bounded_and_has_its_parts() {
        let mut results = sample::sample(200).results;
        let render = |results: &Results| {
            let mut output = Vec::new();
            render(results, &mut output).unwrap();
            String::from_utf8(output).unwrap()
        };
        let report = render(&results);
        assert!(report.starts_with("## "), "{report}");
        for part in ["| criterion |", "| iteration |", "| slowest |"] {
            assert!(report.contains(part), "{part}: {report}");
        }
        assert!(report.len() < BYTES_MAX);
        let workload = results.workloads[0].clone();
        results.workloads = vec![workload; 1_000];
        let report = render(&results);
        assert!(report.len() <= BYTES_MAX && report.ends_with(LEFT_OUT), "{}", report.len());
    }
}
