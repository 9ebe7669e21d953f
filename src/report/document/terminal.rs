//! A document for a person at a terminal: aligned columns, colours if wanted, nothing that a terminal would obey.

use std::borrow::Cow;

use unicode_width::UnicodeWidthStr;

use super::{Badge, Block, Cell, Document, Judged, Kind, Line, Part, Row, Span, Table};
use crate::base::visible::on_one_line;

pub use super::wrapping::wrapped;

/// The largest length of a name, in characters.
const NAME_CHARS_MAX: usize = 72;
/// The largest length of a message, in characters.
const MESSAGE_CHARS_MAX: usize = 160;
/// A column is not made narrower than this to fit the terminal.
const COLUMN_WIDTH_MIN: usize = 24;
/// Where that is not enough, no narrower than this.
const NARROW_COLUMN_WIDTH_MIN: usize = 14;
/// The last column is made still narrower than that, to this, before a row goes beyond the terminal.
const LAST_COLUMN_WIDTH_MIN: usize = 8;
/// The indent of the further lines of a sentence.
const ITEM_INDENT: usize = 2;
/// The width of the names of facts.
const FACT_WIDTH: usize = 8;
/// The indent of the lines that belong to a criterion.
const CRITERION_INDENT: &str = "      ";

/// How the text is shown.
#[derive(Clone, Copy, Debug, Default)]
pub struct Style {
    /// Columns of the terminal: text wraps there, and long cells are cut. Unknown for a file or a pipe, whose reader
    /// decides.
    pub columns: Option<usize>,
    /// Whether colours may be used.
    pub colour: bool,
}

/// The document as text, without a line break at its end.
#[must_use]
pub fn text(document: &Document, style: Style) -> String {
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
pub fn line(line: &Line, style: Style) -> String {
    let shown = line.spans.iter().map(|span| match span {
        Span::Text(text) => Cow::from(on_one_line(text)),
        Span::Code(code) if code.is_empty() => Cow::from(""),
        Span::Code(code) => Cow::from(format!("`{}`", on_one_line(code).replace('`', "\""))),
        Span::Badge(badge) => Cow::from(painted(*badge, style)),
    });
    shown.collect()
}

fn painted(badge: Badge, style: Style) -> String {
    match badge.tone.sgr().filter(|_| style.colour) {
        Some(code) => format!("\u{1b}[{code}m{}\u{1b}[0m", badge.word),
        None => badge.word.to_owned(),
    }
}

fn block(block: &Block, style: Style) -> String {
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
            criteria.iter().map(|one| criterion(one, style)).collect::<Vec<_>>().join("\n")
        }
        Block::Invalid(reason) => {
            let badge = Badge { word: "INVALID", ..Badge::invalid_without_gate() };
            wrapped(format!("{}  {}", painted(badge, style), line(reason, style)), ITEM_INDENT)
        }
        Block::Note(word, text) => wrapped(format!("{word}: {}", line(text, style)), ITEM_INDENT),
        Block::Facts(facts) => {
            let one = |(name, value): &(&str, Line)| {
                wrapped(format!("{name:<FACT_WIDTH$} {}", line(value, style)), FACT_WIDTH + 1)
            };
            facts.iter().map(one).collect::<Vec<_>>().join("\n")
        }
    }
}

fn criterion(judged: &Judged, style: Style) -> String {
    let Judged { badge, condition, observed, reason, trace_ids } = judged;
    let first = format!("{}  {}: {}", painted(*badge, style), line(condition, style), line(observed, style));
    let mut shown = wrapped(&first, style.columns, CRITERION_INDENT.len());
    let reason = reason.iter().map(|reason| line(reason, style));
    let ids = trace_ids.iter().map(|id| format!("trace {}", on_one_line(id)));
    for further in reason.chain(ids) {
        shown.push('\n');
        let further = format!("{CRITERION_INDENT}{further}");
        shown.push_str(&wrapped(&further, style.columns, CRITERION_INDENT.len()));
    }
    shown
}

/// A cell in its column, with its colour separate from its text: colours have no width.
struct Shown {
    text: String,
    sgr: Option<&'static str>,
}

fn table(table: &Table, style: Style) -> String {
    let shown: Vec<usize> =
        (0..table.columns.len()).filter(|at| table.columns[*at].kind != Kind::Drawing).collect();
    let head = shown.iter().map(|at| Shown { text: table.columns[*at].title.to_owned(), sgr: None });
    let mut rows: Vec<Vec<Shown>> = vec![head.collect()];
    let is_group = |row: &&Row| row.part == Part::Group;
    let given: Vec<&Row> = table.rows.iter().take(table.rows_shown).collect();
    for row in given.iter().filter(|row| !is_group(row)) {
        rows.push(shown.iter().map(|at| cell(row, *at, table.columns[*at].kind, style)).collect());
    }
    let kinds: Vec<Kind> = shown.iter().map(|at| table.columns[*at].kind).collect();
    let widths = widths(&rows, &kinds, style);
    let mut texts = rows.iter().map(|row| row_text(row, &kinds, &widths));
    let mut lines: Vec<String> = texts.next().into_iter().collect();
    for row in given {
        match row.cells.first() {
            Some(Cell::Line(title)) if row.part == Part::Group => lines.push(line(title, style)),
            _ => lines.extend(texts.next()),
        }
    }
    let left = table.rows.len().saturating_sub(table.rows_shown);
    if left > 0 {
        lines.push(format!("… and {left} {}", table.others));
    }
    lines.join("\n")
}

fn cell(row: &Row, at: usize, kind: Kind, style: Style) -> Shown {
    let indent = match row.part {
        _ if at > 0 => "",
        Part::Whole | Part::Group => "",
        Part::Further => " ",
        Part::Step => "  ",
        Part::FurtherOfStep => "   ",
    };
    let Some(Cell::Line(content)) = row.cells.get(at) else {
        return Shown { text: String::new(), sgr: None };
    };
    let sgr = match content.spans.as_slice() {
        [Span::Badge(badge)] if style.colour => badge.tone.sgr(),
        _ => None,
    };
    // In a cell, text from a trace is unchanged.
    let text: String = content
        .spans
        .iter()
        .map(|span| match span {
            Span::Text(text) | Span::Code(text) => on_one_line(text),
            Span::Badge(badge) => badge.word.to_owned(),
        })
        .collect();
    Shown { text: format!("{indent}{}", cut(&text, chars_max(kind), kind)), sgr }
}

fn chars_max(kind: Kind) -> usize {
    match kind {
        Kind::Name => NAME_CHARS_MAX,
        Kind::Message => MESSAGE_CHARS_MAX,
        Kind::Words | Kind::Figure | Kind::Drawing => usize::MAX,
    }
}

/// The width of each column: what its cells need, less where the terminal has no room for it.
fn widths(rows: &[Vec<Shown>], kinds: &[Kind], style: Style) -> Vec<usize> {
    let needed = |at: usize| rows.iter().map(|row| row[at].text.width()).max().unwrap_or(0);
    let mut widths: Vec<usize> = (0..kinds.len()).map(needed).collect();
    let Some(columns) = style.columns else { return widths };
    let mut excess = (widths.iter().sum::<usize>() + 2 * widths.len()).saturating_sub(columns + 1);
    for least in [COLUMN_WIDTH_MIN, NARROW_COLUMN_WIDTH_MIN] {
        excess = shrunk(&mut widths, kinds, excess, least);
    }
    // The last column that is not of figures.
    if let Some(last) = (1..kinds.len()).rev().find(|at| kinds[*at] != Kind::Figure && widths[*at] > 0) {
        widths[last] -= excess.min(widths[last].saturating_sub(LAST_COLUMN_WIDTH_MIN));
    }
    widths
}

/// Makes the widest columns of names and messages narrower, to no less than `least`; returns how much is still too wide.
fn shrunk(widths: &mut [usize], kinds: &[Kind], mut excess: usize, least: usize) -> usize {
    while excess > 0 {
        let flexible = (0..kinds.len()).filter(|at| matches!(kinds[*at], Kind::Name | Kind::Message));
        let widest = flexible.max_by_key(|at| widths[*at]).filter(|at| widths[*at] > least);
        let Some(at) = widest else { break };
        let less = excess.min(widths[at] - least);
        widths[at] -= less;
        excess -= less;
    }
    excess
}

fn row_text(row: &[Shown], kinds: &[Kind], widths: &[usize]) -> String {
    let mut text = String::new();
    for ((Shown { text: cell, sgr }, kind), width) in row.iter().zip(kinds).zip(widths) {
        let cell = if cell.width() > *width { cut(cell, *width, *kind) } else { Cow::from(cell) };
        let gap = " ".repeat(width.saturating_sub(cell.width()));
        let coloured = match sgr {
            Some(code) => Cow::from(format!("\u{1b}[{code}m{cell}\u{1b}[0m")),
            None => cell,
        };
        text.push_str(if text.is_empty() { " " } else { "  " });
        match kind {
            Kind::Figure => text.extend([gap.as_str(), &coloured]),
            _ => text.extend([&*coloured, gap.as_str()]),
        }
    }
    text.truncate(text.trim_end().len());
    text
}

/// The beginning of a long text; of a name also its end, where a statement has its table and condition.
fn cut(text: &str, chars_max: usize, kind: Kind) -> Cow<'_, str> {
    let length = text.chars().count();
    if length <= chars_max {
        return Cow::from(text);
    }
    let room = chars_max.saturating_sub(1);
    let tail = if kind == Kind::Name { room / 2 } else { 0 };
    let begin = text.chars().take(room - tail);
    begin.chain(['…']).chain(text.chars().skip(length - tail)).collect()
}
