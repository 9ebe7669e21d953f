//! A document for a person at a terminal: aligned columns, colours if wanted, nothing that a terminal would obey.

use std::borrow::Cow;
use std::collections::HashSet;

use unicode_width::UnicodeWidthStr;

use super::{
    Badge, Block, Cell, DocumentColumnKind, DocumentTable, JudgedCriterion, ReportDocument, RowRole,
    StyledLine, StyledSpan, TableRow,
};
use base::visible::on_one_line;

pub use super::wrapping::wrapped;

/// The largest length of a name, in characters.
const NAME_CHARS_MAX: usize = 72;
/// The largest length of a message, in characters.
const MESSAGE_CHARS_MAX: usize = 160;
/// A column of names or messages is not made narrower than this while others can be left out.
const COLUMN_WIDTH_MIN: usize = 30;
/// Where that is not enough, no narrower than the first of these, and then than the last.
const NARROW_COLUMN_WIDTH_MIN: [usize; 2] = [20, 14];
/// A message takes no more lines than this.
const MESSAGE_LINES_MAX: usize = 6;
/// The largest number of traces listed for a criterion; the results have all.
const TRACES_MAX: usize = 3;
/// The indent of the further lines of a sentence.
const ITEM_INDENT: usize = 2;
/// The width of the names of facts.
const FACT_WIDTH: usize = 8;
/// The indent of the lines that belong to a criterion.
const CRITERION_INDENT: &str = "      ";

/// How the text is shown.
#[derive(Clone, Copy, Debug, Default)]
pub struct TerminalStyle {
    /// Columns of the terminal: text wraps there, and long cells are cut. Unknown for a file or a pipe, whose reader
    /// decides.
    pub columns: Option<usize>,
    /// Whether colours may be used.
    pub colour: bool,
}

/// The document as text, without a line break at its end.
#[must_use]
pub fn text(document: &ReportDocument, style: TerminalStyle) -> String {
    let mut text = String::new();
    let mut blocks = document.blocks.iter().peekable();
    while let Some(one) = blocks.next() {
        text.push_str(&block(one, style));
        let close = matches!(
            (one, blocks.peek()),
            (Block::Heading(..), _) | (Block::Facts(_), Some(Block::Facts(_)))
        );
        if blocks.peek().is_some() {
            text.push_str(if close { "\n" } else { "\n\n" });
        }
    }
    text
}

/// A line as text.
#[must_use]
pub fn line(line: &StyledLine, style: TerminalStyle) -> String {
    let shown = line.spans.iter().map(|span| match span {
        StyledSpan::Text(text) => Cow::from(on_one_line(text)),
        StyledSpan::Code(code) if code.is_empty() => Cow::from(""),
        StyledSpan::Code(code) => Cow::from(format!("`{}`", on_one_line(code).replace('`', "\""))),
        StyledSpan::Badge(badge) => Cow::from(painted(*badge, style)),
    });
    shown.collect()
}

fn painted(badge: Badge, style: TerminalStyle) -> String {
    match badge.tone.sgr().filter(|_| style.colour) {
        Some(code) => format!("\u{1b}[{code}m{}\u{1b}[0m", badge.word),
        None => badge.word.to_owned(),
    }
}

fn block(block: &Block, style: TerminalStyle) -> String {
    let wrapped = |text: String, indent: usize| wrapped(&text, style.columns, indent);
    match block {
        Block::Title(text) | Block::Paragraph(text) | Block::Heading(text, None) => {
            wrapped(line(text, style), 0)
        }
        Block::Heading(text, Some(hint)) => {
            wrapped(format!("{}: {}", line(text, style), line(hint, style)), 0)
        }
        Block::List(lines) => {
            let shown = lines.iter().map(|one| wrapped(line(one, style), ITEM_INDENT));
            shown.collect::<Vec<_>>().join("\n")
        }
        Block::Table(rows) => table(rows, style),
        Block::Criteria(criteria) => {
            let mut seen = HashSet::new();
            criteria.iter().map(|one| criterion(one, &mut seen, style)).collect::<Vec<_>>().join("\n")
        }
        Block::Invalid(reason) => {
            let badge = Badge { word: "INVALID", ..Badge::invalid_without_gate() };
            wrapped(format!("{}  {}", painted(badge, style), line(reason, style)), ITEM_INDENT)
        }
        Block::Note(word, text) => wrapped(format!("{word}: {}", line(text, style)), ITEM_INDENT),
        Block::Facts(facts) => {
            let one = |(name, value): &(&str, StyledLine)| {
                wrapped(format!("{name:<FACT_WIDTH$} {}", line(value, style)), FACT_WIDTH + 1)
            };
            facts.iter().map(one).collect::<Vec<_>>().join("\n")
        }
    }
}

/// A criterion with its reason, and with the traces that stand at none above it.
fn criterion<'a>(judged: &'a JudgedCriterion, seen: &mut HashSet<&'a str>, style: TerminalStyle) -> String {
    let JudgedCriterion { badge, condition, observed, reason, trace_ids } = judged;
    let first = format!("{}  {}: {}", painted(*badge, style), line(condition, style), line(observed, style));
    let mut shown = wrapped(&first, style.columns, CRITERION_INDENT.len());
    let reason = reason.iter().map(|reason| line(reason, style));
    let new = trace_ids.iter().filter(|id| seen.insert(id)).take(TRACES_MAX);
    let ids = new.map(|id| format!("trace {}", on_one_line(id)));
    for further in reason.chain(ids) {
        shown.push('\n');
        let further = format!("{CRITERION_INDENT}{further}");
        shown.push_str(&wrapped(&further, style.columns, CRITERION_INDENT.len()));
    }
    shown
}

/// A cell in its column, with its colour separate from its text: colours have no width.
struct TerminalCell {
    text: String,
    sgr: Option<&'static str>,
}

fn table(table: &DocumentTable, style: TerminalStyle) -> String {
    let given: Vec<&TableRow> = table.rows.iter().take(table.rows_shown).collect();
    let mut shown: Vec<usize> = (0..table.columns.len())
        .filter(|at| table.columns[*at].kind != DocumentColumnKind::Drawing)
        .collect();
    let kinds = |shown: &[usize]| -> Vec<DocumentColumnKind> {
        shown.iter().map(|at| table.columns[*at].kind).collect()
    };
    let mut rows = cells(table, &given, &shown, style);
    let widths = loop {
        let is_last = shown.iter().all(|at| table.columns[*at].left_out == 0);
        if let Some(widths) = widths(&rows, &kinds(&shown), style, is_last) {
            break widths;
        }
        let first = shown.iter().map(|at| table.columns[*at].left_out).max().unwrap_or(0);
        shown.retain(|at| table.columns[*at].left_out != first);
        rows = cells(table, &given, &shown, style);
    };
    let kinds = kinds(&shown);
    let mut texts = rows.iter().map(|row| row_text(row, &kinds, &widths));
    let mut lines: Vec<String> = texts.next().into_iter().collect();
    for row in given {
        match row.cells.first() {
            Some(Cell::Line(title)) if row.part == RowRole::Group => {
                lines.push(wrapped(&line(title, style), style.columns, ITEM_INDENT));
            }
            _ => lines.extend(texts.next()),
        }
    }
    let left = table.rows.len().saturating_sub(table.rows_shown);
    if left > 0 {
        lines.push(format!("… and {left} {}", table.others));
    }
    lines.join("\n")
}

/// The titles, and the cells of each row that is no group's title.
fn cells(
    table: &DocumentTable,
    given: &[&TableRow],
    shown: &[usize],
    style: TerminalStyle,
) -> Vec<Vec<TerminalCell>> {
    let head = shown.iter().map(|at| TerminalCell { text: table.columns[*at].title.to_owned(), sgr: None });
    let of_row = |row: &&TableRow| -> Vec<TerminalCell> {
        shown.iter().map(|at| cell(row, *at, table.columns[*at].kind, style)).collect()
    };
    let rows = given.iter().filter(|row| row.part != RowRole::Group).map(of_row);
    std::iter::once(head.collect()).chain(rows).collect()
}

fn cell(row: &TableRow, at: usize, kind: DocumentColumnKind, style: TerminalStyle) -> TerminalCell {
    let indent = match row.part {
        _ if at > 0 => "",
        RowRole::Whole | RowRole::Group => "",
        RowRole::Further => " ",
        RowRole::Step => "  ",
        RowRole::FurtherOfStep => "   ",
    };
    let Some(Cell::Line(content)) = row.cells.get(at) else {
        return TerminalCell { text: String::new(), sgr: None };
    };
    let sgr = match content.spans.as_slice() {
        [StyledSpan::Badge(badge)] if style.colour => badge.tone.sgr(),
        _ => None,
    };
    // In a cell, text from a trace is unchanged.
    let text: String = content
        .spans
        .iter()
        .map(|span| match span {
            StyledSpan::Text(text) | StyledSpan::Code(text) => on_one_line(text),
            StyledSpan::Badge(badge) => badge.word.to_owned(),
        })
        .collect();
    TerminalCell { text: format!("{indent}{}", cut(&text, chars_max(kind))), sgr }
}

fn chars_max(kind: DocumentColumnKind) -> usize {
    match kind {
        DocumentColumnKind::Name => NAME_CHARS_MAX,
        DocumentColumnKind::Message => MESSAGE_CHARS_MAX,
        DocumentColumnKind::Words | DocumentColumnKind::Figure | DocumentColumnKind::Drawing => usize::MAX,
    }
}

/// The width of each column: what its cells need, less where the terminal has no room for it. `None` if a column is to be
/// left out; `is_last` if none can be.
fn widths(
    rows: &[Vec<TerminalCell>],
    kinds: &[DocumentColumnKind],
    style: TerminalStyle,
    is_last: bool,
) -> Option<Vec<usize>> {
    let needed = |at: usize| rows.iter().map(|row| row[at].text.width()).max().unwrap_or(0);
    let mut widths: Vec<usize> = (0..kinds.len()).map(needed).collect();
    let Some(columns) = style.columns else { return Some(widths) };
    let excess = (widths.iter().sum::<usize>() + 2 * widths.len()).saturating_sub(columns + 1);
    let excess = shrunk(&mut widths, kinds, excess, COLUMN_WIDTH_MIN);
    if is_last {
        let narrower = |excess, least| shrunk(&mut widths, kinds, excess, least);
        NARROW_COLUMN_WIDTH_MIN.into_iter().fold(excess, narrower);
    }
    (is_last || excess == 0).then_some(widths)
}

/// Makes the widest columns of names and messages narrower, to no less than `least`; returns how much is still too wide.
fn shrunk(widths: &mut [usize], kinds: &[DocumentColumnKind], mut excess: usize, least: usize) -> usize {
    while excess > 0 {
        let flexible = (0..kinds.len())
            .filter(|at| matches!(kinds[*at], DocumentColumnKind::Name | DocumentColumnKind::Message));
        let widest = flexible.max_by_key(|at| widths[*at]).filter(|at| widths[*at] > least);
        let Some(at) = widest else { break };
        let less = excess.min(widths[at] - least);
        widths[at] -= less;
        excess -= less;
    }
    excess
}

/// A row; a message may take several lines.
fn row_text(row: &[TerminalCell], kinds: &[DocumentColumnKind], widths: &[usize]) -> String {
    let of_cell =
        |((TerminalCell { text, .. }, kind), width): ((&TerminalCell, &DocumentColumnKind), &usize)| {
            match kind {
                _ if text.width() <= *width => vec![text.clone()],
                DocumentColumnKind::Message => folded(text, *width),
                _ => vec![cut(text, *width).into_owned()],
            }
        };
    let cells: Vec<Vec<String>> = row.iter().zip(kinds).zip(widths).map(of_cell).collect();
    let height = cells.iter().map(Vec::len).max().unwrap_or(1);
    let mut lines = Vec::with_capacity(height);
    for number in 0..height {
        let mut text = String::new();
        for (((lines, TerminalCell { sgr, .. }), kind), width) in cells.iter().zip(row).zip(kinds).zip(widths)
        {
            let cell = lines.get(number).map_or("", String::as_str);
            let gap = " ".repeat(width.saturating_sub(cell.width()));
            let coloured = match sgr {
                Some(code) if !cell.is_empty() => Cow::from(format!("\u{1b}[{code}m{cell}\u{1b}[0m")),
                _ => Cow::from(cell),
            };
            text.push_str(if text.is_empty() { " " } else { "  " });
            match kind {
                DocumentColumnKind::Figure => text.extend([gap.as_str(), &coloured]),
                _ => text.extend([&*coloured, gap.as_str()]),
            }
        }
        text.truncate(text.trim_end().len());
        lines.push(text);
    }
    lines.join("\n")
}

/// A text in lines of this width, between words where that is possible.
fn folded(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut line = String::new();
    for word in text.split(' ') {
        let mut word = word;
        if !line.is_empty() && line.width() + 1 + word.width() > width {
            lines.push(std::mem::take(&mut line));
        }
        while word.width() > width {
            let at = word.char_indices().nth(width).map_or(word.len(), |(at, _)| at);
            lines.push(word[..at].to_owned());
            word = &word[at..];
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    lines.push(line);
    lines.retain(|line| !line.is_empty());
    if lines.len() > MESSAGE_LINES_MAX {
        lines.truncate(MESSAGE_LINES_MAX);
        if let Some(last) = lines.last_mut() {
            *last = format!("{}…", cut(last, width.saturating_sub(1)).trim_end_matches('…'));
        }
    }
    lines
}

/// The beginning of a long text.
fn cut(text: &str, chars_max: usize) -> Cow<'_, str> {
    if text.chars().count() <= chars_max {
        return Cow::from(text);
    }
    text.chars().take(chars_max.saturating_sub(1)).chain(['…']).collect()
}
