//! A document in GitHub-flavoured Markdown, for files, step summaries and comments.
//!
//! [`escaped`] removes the meaning of Markdown and HTML from a text. The length is bounded ([`BYTES_MAX`]): what does
//! not fit is left out, with a remark.

use std::borrow::Cow;

use super::{
    Block, Cell, DocumentColumnKind, DocumentTable, JudgedCriterion, ReportDocument, RowRole, StyledLine,
    StyledSpan, TableRow,
};
use crate::texts::capitalised;
use base::visible::on_one_line;

/// GitHub takes 65,536 characters in a comment and 1 MiB in a step summary.
pub const BYTES_MAX: usize = 60_000;
/// The largest number of rows in a table.
const ROWS_MAX: usize = 20;
/// The largest length of one text, in characters.
const TEXT_CHARS_MAX: usize = 400;
/// A space without width, as ASCII.
const NO_WIDTH: &str = "&#8203;";
/// The largest number of traces listed for a criterion.
const TRACES_MAX: usize = 3;

/// The document as Markdown, with a final line feed.
#[must_use]
pub fn text(document: &ReportDocument) -> String {
    let whole = if document.whole.is_empty() { String::new() } else { format!(": see {}", document.whole) };
    let left_out = format!("… and more{whole}.\n");
    let mut text = String::new();
    for block in document.blocks.iter().filter_map(|one| block(one, document.level)) {
        let gap = usize::from(!text.is_empty());
        if text.len() + gap + block.len() > BYTES_MAX - left_out.len() - 1 {
            text.push('\n');
            text.push_str(&left_out);
            break;
        }
        if gap > 0 {
            text.push('\n');
        }
        text.push_str(&block);
    }
    text
}

/// A part, with a final line feed.
fn block(block: &Block, level: usize) -> Option<String> {
    let marks = |level: usize| "#".repeat(level.clamp(1, 6));
    let text = match block {
        Block::Title(title) => format!("{} {}\n", marks(level), line(title)),
        Block::Heading(title, None) => format!("{} {}\n", marks(level + 1), line(title)),
        Block::Heading(title, Some(hint)) => {
            format!("{} {}\n\n{}\n", marks(level + 1), line(title), line(hint))
        }
        Block::Paragraph(text) => format!("{}\n", line(text)),
        Block::List(lines) => lines.iter().map(|one| format!("- {}\n", line(one))).collect(),
        Block::Table(rows) => return table(rows),
        Block::Criteria(all) => return criteria(all),
        Block::Invalid(reason) => format!("**INVALID** {}\n", line(reason)),
        Block::Note(word, text) => format!("{}: {}\n", capitalised(word), line(text)),
        Block::Facts(facts) => {
            facts.iter().map(|(name, value)| format!("- {}: {}\n", capitalised(name), line(value))).collect()
        }
    };
    Some(text).filter(|text| !text.trim().is_empty())
}

/// Whether what follows one of GitLab's and GitHub's marks makes it the name of something: an issue, a label, an epic.
fn begins_reference(next: Option<&char>) -> bool {
    next.is_some_and(|next| next.is_alphanumeric() || matches!(next, '_' | '"'))
}

/// A line as Markdown. Blanks at its ends would be markup.
#[must_use]
pub fn line(line: &StyledLine) -> String {
    spans(line, false).trim().to_owned()
}

fn spans(line: &StyledLine, in_table: bool) -> String {
    let shown = line.spans.iter().map(|span| match span {
        StyledSpan::Text(text) => escaped(text),
        StyledSpan::Code(code) => code_span(code, in_table),
        StyledSpan::Badge(badge) if in_table => {
            let word = if badge.strong { format!("**{}**", badge.word) } else { badge.word.to_owned() };
            if badge.symbol.is_empty() { word } else { format!("{} {word}", badge.symbol) }
        }
        StyledSpan::Badge(badge) => badge.word.to_owned(),
    });
    shown.collect()
}

/// Text as it is, on one line: nothing between backquotes is markup. In a table a border or a backslash would be, so
/// that such a text stands there without backquotes.
fn code_span(code: &str, in_table: bool) -> String {
    let code: String = on_one_line(code).trim().chars().take(TEXT_CHARS_MAX).collect();
    if in_table && code.contains(['|', '\\']) {
        return escaped(&code);
    }
    let code = code.replace('`', "\"");
    if code.trim().is_empty() { String::new() } else { format!("`{}`", code.trim()) }
}

fn criteria(criteria: &[JudgedCriterion]) -> Option<String> {
    let row = |judged: &JudgedCriterion| {
        let ids: Vec<String> =
            judged.trace_ids.iter().take(TRACES_MAX).map(|id| code_span(id, true)).collect();
        let reason =
            judged.reason.as_ref().map_or_else(String::new, |why| format!(" – {}", spans(why, true).trim()));
        format!(
            "| {} | {} | {}{reason} | {} |",
            spans(&judged.badge.into(), true),
            spans(&judged.condition, true).trim(),
            spans(&judged.observed, true).trim(),
            ids.join(" ")
        )
    };
    let rows: Vec<String> = criteria.iter().map(row).collect();
    rows_of("| | criterion | observed | traces |\n|---|---|---|---|", &rows, "more")
}

fn table(table: &DocumentTable) -> Option<String> {
    let shown: Vec<usize> = (0..table.columns.len())
        .filter(|at| table.columns[*at].kind != DocumentColumnKind::Drawing)
        .collect();
    let titles: Vec<Cow<'_, str>> = shown
        .iter()
        .map(|at| match table.columns[*at].title {
            "" => Cow::from(" "),
            title => Cow::from(format!(" {} ", escaped(title))),
        })
        .collect();
    let rule: Vec<&str> = shown
        .iter()
        .map(|at| if table.columns[*at].kind == DocumentColumnKind::Figure { "--:" } else { "---" })
        .collect();
    let head = format!("|{}|\n|{}|", titles.join("|"), rule.join("|"));
    let rows: Vec<String> = table.rows.iter().map(|row| table_row(row, &shown)).collect();
    rows_of(&head, &rows, table.others)
}

fn table_row(row: &TableRow, shown: &[usize]) -> String {
    if let (RowRole::Group, Some(Cell::Line(title))) = (row.part, row.cells.first()) {
        return format!("| {} |{}", spans(title, true).trim(), " |".repeat(shown.len().saturating_sub(1)));
    }
    let cell = |at: &usize| match row.cells.get(*at) {
        Some(Cell::Line(line)) => {
            let further = *at == 0 && matches!(row.part, RowRole::Further | RowRole::FurtherOfStep);
            format!("{}{}", if further { "↳ " } else { "" }, spans(line, true).trim())
        }
        _ => String::new(),
    };
    let cells: Vec<String> = shown.iter().map(cell).collect();
    format!("| {} |", cells.join(" | "))
}

/// A table's first rows; `None` without any.
fn rows_of(head: &str, rows: &[String], others: &str) -> Option<String> {
    if rows.is_empty() {
        return None;
    }
    let shown = rows.iter().take(ROWS_MAX).map(|row| format!("{row}\n"));
    let left = rows.len().saturating_sub(ROWS_MAX);
    let left = if left > 0 { format!("\n… and {left} {others}.\n") } else { String::new() };
    Some(format!("{head}\n{}{left}", shown.collect::<String>()))
}

/// Text on one line, cut if it is long. Neither Markdown nor HTML finds anything in it to obey: no markup, no link, no
/// mention, no formula, no cell's end, no command to a CI system.
///
/// GitHub looks for mentions and for links to issues in the page that it makes of Markdown, where no backslash is left. So
/// a space without width follows what begins one.
#[must_use]
pub fn escaped(text: &str) -> String {
    let clean = on_one_line(text);
    let mut chars = clean.chars().take(TEXT_CHARS_MAX).peekable();
    let mut safe = String::with_capacity(clean.len() + 16);
    // What would begin a list, a heading's underline or a command, were it the first on its line.
    let mut at_start = true;
    while let Some(c) = chars.next() {
        match c {
            '&' => safe.push_str(if begins_reference(chars.peek()) { "&amp;&#8203;" } else { "&amp;" }),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            // An escaped one beside a code span would be taken for a part of its quotes.
            '`' => safe.push_str("&#96;"),
            '@' => safe.push_str("\\@&#8203;"),
            '#' | '!' | '~' | '$' => {
                safe.extend(['\\', c]);
                // What follows may be in the next piece.
                let is_open = chars.peek().is_none_or(|next| begins_reference(Some(next)));
                safe.push_str(if is_open { NO_WIDTH } else { "" });
            }
            '%' if begins_reference(chars.peek()) => safe.extend(['%'].into_iter().chain(NO_WIDTH.chars())),
            // `GH-12` is an issue, too.
            '-' if safe.ends_with("GH") && chars.peek().is_none_or(char::is_ascii_digit) => {
                safe.push('-');
                safe.push_str(NO_WIDTH);
            }
            '\\' | '*' | '_' | '[' | ']' | '|' => safe.extend(['\\', c]),
            // A link, an emoji's name, or a command; what follows may be in the next piece.
            ':' if at_start
                || chars
                    .peek()
                    .is_none_or(|next| next.is_alphanumeric() || matches!(next, '/' | '+' | '-')) =>
            {
                safe.push_str("\\:");
                safe.push_str(if chars.peek() == Some(&'/') { NO_WIDTH } else { "" });
            }
            // `1.` and `1)` begin a list only before a blank; what follows may be in the next piece.
            '.' | ')' if at_start && chars.peek().is_none_or(|next| !next.is_alphanumeric()) => {
                safe.extend(['\\', c]);
            }
            '.' if safe.ends_with(['w', 'W']) => safe.push_str("\\."),
            '-' | '+' | '=' if at_start => safe.extend(['\\', c]),
            c => safe.push(c),
        }
        at_start &= c.is_ascii_digit() || c == ' ';
    }
    if clean.chars().count() > TEXT_CHARS_MAX {
        safe.push('…');
    }
    safe
}
