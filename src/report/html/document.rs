//! A document as part of a page: the views for the macros of `document.html`.
//!
//! Strings here are plain text; the template escapes them. Nothing here may compute a statistic; it only
//! computes positions on drawings.

use serde::Serialize;

use crate::document::{
    Block, Cell, Column, DocumentColumnKind, DocumentTable, Interval, JudgedCriterion, RowRole, Scale,
    StyledLine, StyledSpan, TableRow,
};

/// The macros for parts of a document; a page's template includes them.
pub(super) const MACROS: &str = include_str!("document.html");
/// Rows of a table.
const ROWS_MAX: usize = 200;
/// Columns of a table that needs no whole screen.
const NARROW_MAX: usize = 7;
/// The free space at each end of a drawing, in percent of its width.
const MARGIN_PERCENT: f64 = 3.0;

/// A part of a document.
#[derive(Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(super) enum BlockView {
    Title { line: Vec<SpanView> },
    Heading { line: Vec<SpanView>, hint: Option<Vec<SpanView>> },
    Paragraph { line: Vec<SpanView> },
    List { lines: Vec<Vec<SpanView>> },
    Table { table: TableView },
    Criteria { criteria: Vec<JudgedView> },
    Invalid { line: Vec<SpanView> },
    Note { word: &'static str, line: Vec<SpanView> },
    Facts { facts: Vec<FactView> },
}

#[derive(Serialize)]
pub(super) struct SpanView {
    text: String,
    code: bool,
    class: &'static str,
}

#[derive(Serialize)]
pub(super) struct FactView {
    name: &'static str,
    line: Vec<SpanView>,
}

#[derive(Serialize)]
pub(super) struct JudgedView {
    word: &'static str,
    class: &'static str,
    condition: Vec<SpanView>,
    observed: Vec<SpanView>,
    reason: Option<Vec<SpanView>>,
    ids: Vec<String>,
}

#[derive(Serialize)]
pub(super) struct TableView {
    columns: Vec<ColumnView>,
    rows: Vec<RowView>,
    left: usize,
    others: &'static str,
    /// Too few figures to spread them over a whole screen.
    narrow: bool,
}

#[derive(Serialize)]
struct ColumnView {
    title: &'static str,
    class: &'static str,
}

#[derive(Serialize)]
struct RowView {
    class: &'static str,
    cells: Vec<CellView>,
}

#[derive(Serialize)]
struct CellView {
    class: &'static str,
    line: Vec<SpanView>,
    drawn: Option<DrawnView>,
}

/// The position of an interval on its drawing, in percent of the width.
#[derive(Serialize)]
struct DrawnView {
    class: &'static str,
    value: String,
    neutral: String,
    limit: Option<String>,
    from: Option<String>,
    to: Option<String>,
    described: String,
}

impl FactView {
    pub(super) fn new(name: &'static str, line: &StyledLine) -> Self {
        Self { name, line: spans(line) }
    }
}

/// The parts of a document.
#[cfg(test)]
pub(super) fn blocks(document: &crate::document::ReportDocument) -> Vec<BlockView> {
    document.blocks.iter().map(block).collect()
}

pub(super) fn block(block: &Block) -> BlockView {
    match block {
        Block::Title(line) => BlockView::Title { line: spans(line) },
        Block::Heading(line, hint) => {
            BlockView::Heading { line: spans(line), hint: hint.as_ref().map(spans) }
        }
        Block::Paragraph(line) => BlockView::Paragraph { line: spans(line) },
        Block::List(lines) => BlockView::List { lines: lines.iter().map(spans).collect() },
        Block::Table(rows) => BlockView::Table { table: table(rows) },
        Block::Criteria(all) => BlockView::Criteria { criteria: all.iter().map(judged).collect() },
        Block::Invalid(line) => BlockView::Invalid { line: spans(line) },
        Block::Note(word, line) => BlockView::Note { word, line: spans(line) },
        Block::Facts(facts) => {
            BlockView::Facts { facts: facts.iter().map(|(name, line)| FactView::new(name, line)).collect() }
        }
    }
}

pub(super) fn spans(line: &StyledLine) -> Vec<SpanView> {
    let span = |span: &StyledSpan| match span {
        StyledSpan::Text(text) => SpanView { text: text.clone(), code: false, class: "" },
        StyledSpan::Code(code) => SpanView { text: code.clone(), code: true, class: "" },
        StyledSpan::Badge(badge) => {
            SpanView { text: badge.word.to_owned(), code: false, class: badge.tone.class() }
        }
    };
    line.spans.iter().map(span).collect()
}

fn judged(judged: &JudgedCriterion) -> JudgedView {
    JudgedView {
        word: judged.badge.word,
        class: judged.badge.tone.class(),
        condition: spans(&judged.condition),
        observed: spans(&judged.observed),
        reason: judged.reason.as_ref().map(spans),
        ids: judged.trace_ids.clone(),
    }
}

pub(super) fn table(table: &DocumentTable) -> TableView {
    let drawing = IntervalScale::of(table);
    TableView {
        columns: table
            .columns
            .iter()
            .map(|column| ColumnView { title: column.title, class: class(column) })
            .collect(),
        rows: table.rows.iter().take(ROWS_MAX).map(|one| row(one, &table.columns, &drawing)).collect(),
        left: table.rows.len().saturating_sub(ROWS_MAX),
        others: table.others,
        narrow: table.columns.len() <= NARROW_MAX
            && !table
                .columns
                .iter()
                .any(|one| matches!(one.kind, DocumentColumnKind::Drawing | DocumentColumnKind::Message)),
    }
}

fn class(column: &Column) -> &'static str {
    match column.kind {
        // What a narrow terminal leaves out, a phone does too.
        DocumentColumnKind::Figure if column.left_out > 0 => "n lo",
        DocumentColumnKind::Words | DocumentColumnKind::Name if column.left_out > 0 => "lo",
        DocumentColumnKind::Figure if column.title.starts_with("longer by") => "n bounds long",
        DocumentColumnKind::Figure if column.title.ends_with("bounds") => "n bounds",
        DocumentColumnKind::Figure => "n",
        DocumentColumnKind::Drawing => "range",
        DocumentColumnKind::Message => "words",
        DocumentColumnKind::Words | DocumentColumnKind::Name => "",
    }
}

fn row(row: &TableRow, columns: &[Column], drawing: &IntervalScale) -> RowView {
    let cell = |(cell, column): (&Cell, &Column)| match cell {
        Cell::Line(line) => CellView { class: class(column), line: spans(line), drawn: None },
        Cell::Interval(interval) => {
            CellView { class: "range", line: Vec::new(), drawn: Some(drawing.view(interval)) }
        }
    };
    RowView {
        class: match row.part {
            RowRole::Whole => "",
            RowRole::Further => "further",
            RowRole::Step => "step",
            RowRole::FurtherOfStep => "further step",
            RowRole::Group => "group",
        },
        cells: row.cells.iter().zip(columns).map(cell).collect(),
    }
}

/// The scale of a table's intervals.
struct IntervalScale {
    scale: Scale,
    from: f64,
    to: f64,
}

impl IntervalScale {
    fn of(table: &DocumentTable) -> Self {
        let mut drawing = Self { scale: table.scale, from: 0.0, to: 1.0 };
        let ends = table.rows.iter().flat_map(|row| &row.cells).flat_map(|cell| match cell {
            Cell::Interval(Interval { value, low, high, .. }) => vec![*value, *low, *high],
            Cell::Line(_) => Vec::new(),
        });
        let known = ends.chain([table.scale.neutral]).chain(table.scale.limit);
        let known = known.filter(|end| end.is_finite());
        let known: Vec<f64> = known.map(|end| drawing.place(end)).collect();
        drawing.from = known.iter().copied().fold(f64::INFINITY, f64::min);
        drawing.to = known.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        drawing
    }

    fn place(&self, value: f64) -> f64 {
        if self.scale.ratio { value.clamp(0.01, 100.0).ln() } else { value }
    }

    /// In percent of the width.
    fn x(&self, value: f64) -> String {
        let span = if self.to > self.from { self.to - self.from } else { 1.0 };
        let share = ((self.place(value) - self.from) / span).clamp(0.0, 1.0);
        format!("{:.2}", MARGIN_PERCENT + share * (100.0 - 2.0 * MARGIN_PERCENT))
    }

    fn view(&self, interval: &Interval) -> DrawnView {
        let Interval { value, low, high, tone } = *interval;
        let words = |value: f64| {
            if self.scale.ratio { crate::words::ratio(value) } else { format!("{value:+.3} ms") }
        };
        let bounded = low.is_finite() && high.is_finite();
        DrawnView {
            class: tone.class(),
            value: self.x(value),
            neutral: self.x(self.scale.neutral),
            limit: self.scale.limit.map(|limit| self.x(limit)),
            from: bounded.then(|| self.x(low)),
            to: bounded.then(|| self.x(high)),
            described: match bounded {
                true => format!("{}, from {} to {}", words(value), words(low), words(high)),
                false => format!("{}, without bounds", words(value)),
            },
        }
    }
}
