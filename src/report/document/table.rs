//! Tables of a document.

use super::{Badge, StyledLine, StyledSpan};

/// Rows that a terminal shows of a table, unless the table says otherwise; Markdown has its own bound.
const ROWS_SHOWN: usize = 100;

/// Rows of cells under titles.
#[derive(Clone, Debug, PartialEq)]
pub struct DocumentTable {
    pub columns: Vec<Column>,
    /// In their order.
    pub rows: Vec<TableRow>,
    /// The largest number of rows that a terminal shows.
    pub rows_shown: usize,
    /// The word for the other rows: `more` in `… and 3 more`.
    pub others: &'static str,
    /// The scale on which the intervals of its cells are drawn.
    pub scale: Scale,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    pub title: &'static str,
    /// The kind of its cells.
    pub kind: DocumentColumnKind,
    /// Where a terminal has no room, columns with the highest number are left out first; 0 always stays.
    pub left_out: u8,
}

/// The kind of cells in a column; a writer aligns and cuts them accordingly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DocumentColumnKind {
    /// Words, never cut.
    Words,
    /// A name or a statement: cut at its end if it is long.
    Name,
    /// A message: goes on below in a narrow column, and is cut at its end if it is long.
    Message,
    /// A number with its unit.
    Figure,
    /// An interval; only a page draws it, because its figures are in other columns.
    Drawing,
}

#[derive(Clone, Debug, PartialEq)]
pub struct TableRow {
    /// How it relates to the rows above.
    pub part: RowRole,
    /// One for each column.
    pub cells: Vec<Cell>,
}

/// How a row relates to those above it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowRole {
    /// An independent row.
    Whole,
    /// Further figures of the row above.
    Further,
    /// A part of the last whole.
    Step,
    /// Further figures of such a part.
    FurtherOfStep,
    /// The title of the rows below: its only cell spans all columns.
    Group,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// Text.
    Line(StyledLine),
    /// A value between its bounds.
    Interval(Interval),
}

/// A value between its bounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// The value itself.
    pub value: f64,
    /// At least this; unknown where it is not finite.
    pub low: f64,
    /// At most this; unknown where it is not finite.
    pub high: f64,
    /// How it is coloured.
    pub tone: super::Tone,
}

/// The scale of intervals: the neutral value, and the limit if there is one.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Scale {
    /// The value that means no difference.
    pub neutral: f64,
    /// The limit that values are compared with.
    pub limit: Option<f64>,
    /// True for ratios, which are drawn by their logarithm.
    pub ratio: bool,
}

impl Column {
    /// Words, which are never cut.
    #[must_use]
    pub fn words(title: &'static str) -> Self {
        Self { title, kind: DocumentColumnKind::Words, left_out: 0 }
    }

    /// A name or a statement.
    #[must_use]
    pub fn name(title: &'static str) -> Self {
        Self { title, kind: DocumentColumnKind::Name, left_out: 0 }
    }

    #[must_use]
    pub fn message(title: &'static str) -> Self {
        Self { title, kind: DocumentColumnKind::Message, left_out: 0 }
    }

    /// A number.
    #[must_use]
    pub fn figure(title: &'static str) -> Self {
        Self { title, kind: DocumentColumnKind::Figure, left_out: 0 }
    }

    /// The same, left out where there is no room: the higher the number, the earlier.
    #[must_use]
    pub fn left_out(self, left_out: u8) -> Self {
        Self { left_out, ..self }
    }

    /// An interval.
    #[must_use]
    pub fn drawing(title: &'static str) -> Self {
        Self { title, kind: DocumentColumnKind::Drawing, left_out: 0 }
    }
}

impl DocumentTable {
    /// An empty table.
    #[must_use]
    pub fn new(columns: Vec<Column>) -> Self {
        Self { columns, rows: Vec::new(), rows_shown: ROWS_SHOWN, others: "more", scale: Scale::default() }
    }

    /// Adds a row.
    pub fn row<const N: usize>(&mut self, cells: [Cell; N]) {
        self.part(RowRole::Whole, cells.into());
    }

    /// Adds a row that belongs to those above it.
    pub fn part(&mut self, part: RowRole, cells: Vec<Cell>) {
        self.rows.push(TableRow { part, cells });
    }
}

impl Cell {
    /// An id, a path, a statement.
    #[must_use]
    pub fn code(code: impl Into<String>) -> Self {
        Self::Line(StyledLine { spans: vec![StyledSpan::Code(code.into())] })
    }

    /// Nothing.
    #[must_use]
    pub fn empty() -> Self {
        Self::Line(StyledLine::default())
    }
}

impl Interval {
    /// For a difference: longer is bad and shorter is good if its bounds exclude zero.
    #[must_use]
    pub fn of_difference(value: f64, bounds: Option<(f64, f64)>) -> Self {
        let (low, high) = bounds.unwrap_or((f64::NAN, f64::NAN));
        Self { value, low, high, tone: tone(low, high, 0.0) }
    }

    /// For a ratio, in the same way.
    #[must_use]
    pub fn of_ratio(value: f64, low: Option<f64>, high: Option<f64>) -> Self {
        let [low, high] = [low, high].map(|bound| bound.unwrap_or(f64::NAN));
        Self { value, low, high, tone: tone(low, high, 1.0) }
    }
}

fn tone(low: f64, high: f64, neutral: f64) -> super::Tone {
    match () {
        () if low > neutral => super::Tone::Bad,
        () if high < neutral => super::Tone::Good,
        () => super::Tone::Plain,
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::Line(text.into())
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self::Line(text.into())
    }
}

impl From<StyledLine> for Cell {
    fn from(line: StyledLine) -> Self {
        Self::Line(line)
    }
}

impl From<Badge> for Cell {
    fn from(badge: Badge) -> Self {
        Self::Line(badge.into())
    }
}

impl From<Interval> for Cell {
    fn from(interval: Interval) -> Self {
        Self::Interval(interval)
    }
}
