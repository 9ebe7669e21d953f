//! A trace as a tree in the terminal: a time bar, durations, and the nesting of points. Large ones are folded.

use std::collections::{BTreeSet, HashSet};
use std::io::{self, Write};

use crate::document::terminal::{self, TerminalStyle, wrapped};
use crate::explanation::sentence;
use crate::mixed;
use crate::words::{duration, duration_us};
use analysis::asynchronous::is_linked;
use analysis::folding::{self, FoldedRow, RowKind};
use analysis::foreign;
use analysis::statement;
use base::parallel;
use base::visible::on_one_line;
use osprofiler::report::{Point, TraceTree};
use results::functions::Functions;
use results::model::{Explanation, TraceState};
use results::trace::state;

use super::functions::PointFunctions;

/// The width of the bars, in characters.
const BAR_CELLS: usize = 24;
/// Deeper points are drawn at this depth, with their depth as a number.
const INDENT_MAX: usize = 24;
/// The width to the left of the tree: the bar, two durations and the gaps.
const LEFT_COLUMNS: usize = BAR_CELLS + 2 + 8 + 2 + 8 + 2;
/// The width of text that goes to a file or a pipe.
const COLUMNS: usize = 140;
/// Names are legible even where the terminal is narrow.
const NAME_COLUMNS_MIN: usize = 30;

/// Writes the tree with a line of summary above: folded, or with `all`, a line for each point. The point that made the
/// iteration slow, if that is known, is marked, and never folded. Below a point are the functions that were most at work in
/// it.
///
/// # Errors
/// When `out` cannot be written.
pub fn write(
    base_id: &str,
    tree: &TraceTree,
    all: bool,
    explanation: Option<&Explanation>,
    functions: &Functions,
    style: TerminalStyle,
    out: &mut dyn Write,
) -> io::Result<()> {
    writeln!(out, "{}", wrapped(&summary(base_id, tree), style.columns, 2))?;
    if let Some(seen) = explanation {
        writeln!(out, "{}", wrapped(&terminal::line(&sentence(seen), style), style.columns, 2))?;
    }
    writeln!(out)?;
    let length_us = tree.length_us();
    let whole = duration_us(length_us);
    let scale = format!("0{whole:>width$}", width = BAR_CELLS - 1);
    writeln!(out, "{}", paint(&format!("{scale}  {:>8}  {:>8}  point", "took", "itself"), DIM, style))?;
    let cause = explanation.and_then(|seen| seen.point_id.as_deref());
    let cause = cause.and_then(|id| tree.points.iter().position(|point| point.trace_id == id));
    let folded = if all { folding::unfolded(tree) } else { folding::fold(tree, cause.as_slice()) };
    let marked = explanation.zip(cause).map(|(seen, index)| (index, mark(seen)));
    let (children, by_point) = (tree.children(), PointFunctions::of(functions));
    let lines = TreePrinter { tree, length_us, children, rows: &folded.rows, marked, by_point, style };
    for lines in lines.all() {
        out.write_all(&lines?)?;
    }
    if folded.folded {
        let (points, lines) = (grouped(folded.points), grouped(folded.rows.len()));
        writeln!(out)?;
        writeln!(
            out,
            "{}",
            paint(
                &format!(
                    "{points} points in {lines} lines, of several (×) the sum; --all shows each on its own"
                ),
                DIM,
                style
            )
        )?;
    }
    if functions.unreadable > 0 {
        writeln!(out)?;
        writeln!(out, "note: {} profiles of functions cannot be read", functions.unreadable)?;
    }
    if let Some(header) = functions.profiles.first().map(|_| functions.sum(false).header()) {
        writeln!(out)?;
        writeln!(out, "{}", wrapped(&on_one_line(&format!("functions (ƒ): {header}")), style.columns, 2))?;
    }
    // A single trace cannot tell a service that is not traced from one that takes its time.
    let mixed = foreign::mixed(&[tree]).filter(|mixed| mixed.with_foreign > 0);
    if let Some(mixed) = mixed {
        writeln!(out)?;
        let note = format!("note: {}", mixed::sentence(&mixed));
        writeln!(out, "{}", wrapped(&on_one_line(&note), style.columns, 2))?;
    }
    Ok(())
}

/// Whether the points of a row are each below the one before.
fn is_nested(row: &FoldedRow) -> bool {
    row.kind == RowKind::Nested
}

/// What is said beside the point that made the iteration slow: how long it typically takes.
fn mark(seen: &Explanation) -> String {
    let what = if seen.explains { "made it slow" } else { "largest part" };
    match seen.typical_ms {
        Some(_) if seen.typical_calls == Some(0.0) => format!("  ◀ {what}; not in typical ones"),
        Some(typical_ms) => format!("  ◀ {what}; typically {}", duration(typical_ms)),
        None => format!("  ◀ {what}"),
    }
}

/// The heading of what goes on after the answer.
fn heading(tree: &TraceTree, poll: Option<usize>) -> String {
    let waiter = poll.and_then(|index| tree.points.get(index)).map_or_else(
        || "nothing".to_owned(),
        |poll| format!("`{}`", on_one_line(&folding::cut_name(&poll.detail(), PLACE_CHARS_MAX))),
    );
    format!("after the answer: {waiter} waited for these")
}

/// `1,603`.
fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let mut shown = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            shown.push(',');
        }
        shown.push(digit);
    }
    shown
}

struct TreePrinter<'a> {
    tree: &'a TraceTree,
    /// From the first record to the last.
    length_us: u64,
    children: Vec<Vec<usize>>,
    rows: &'a [FoldedRow],
    /// The point that made the iteration slow, and what is said beside it.
    marked: Option<(usize, String)>,
    by_point: PointFunctions,
    style: TerminalStyle,
}

/// Fewer rows than this are not worth a thread.
const ROWS_OF_THREAD_MIN: usize = 2_000;

impl TreePrinter<'_> {
    /// The lines of all rows, in parts.
    fn all(&self) -> Vec<io::Result<Vec<u8>>> {
        let last = last_rows(self.rows);
        // For each level, whether the branch goes on below; of each part, above its first row.
        let mut goes_on: Vec<bool> = Vec::new();
        let parts = parallel::ranges(self.rows.len(), ROWS_OF_THREAD_MIN).into_iter().map(|range| {
            let above = goes_on.clone();
            for at in range.clone() {
                goes_on.truncate(self.rows[at].depth);
                goes_on.push(!last[at]);
            }
            (range, above)
        });
        let parts: Vec<_> = parts.collect();
        parallel::map(parts, |(range, mut goes_on)| {
            let mut lines = Vec::new();
            for at in range {
                let row = &self.rows[at];
                let begins =
                    |before: &FoldedRow| (before.afterwards, before.poll) != (row.afterwards, row.poll);
                if row.afterwards && self.rows[..at].last().is_none_or(begins) {
                    let heading = paint(&heading(self.tree, row.poll), BOLD, self.style);
                    writeln!(lines, "\n{heading}")?;
                }
                goes_on.truncate(row.depth);
                goes_on.push(!last[at]);
                self.write(row, &goes_on, &mut lines)?;
            }
            Ok(lines)
        })
    }

    fn write(&self, row: &FoldedRow, goes_on: &[bool], out: &mut dyn Write) -> io::Result<()> {
        let style = self.style;
        let bar = self.bar(row);
        let time = |us: Option<u64>| us.map_or_else(|| "?".to_owned(), duration_us);
        let own_us = row.sum_us.map(|_| row.own_us);
        let left = format!("{bar}  {:>8}  {:>8}  ", time(row.sum_us), time(own_us));
        let room = style.columns.unwrap_or(COLUMNS).saturating_sub(LEFT_COLUMNS).max(NAME_COLUMNS_MIN);
        writeln!(out, "{left}{}", self.name(row, goes_on, room))?;
        if let Some(error) = &self.tree.points[row.longest].error {
            let text =
                on_one_line(&format!("{}: {}", cut(&error.etype, room), cut(&error.message, 4 * room)));
            let indent = " ".repeat(2 * row.depth.min(INDENT_MAX) + 2);
            let text = cut(&format!("{indent}✗ {text}"), room);
            writeln!(out, "{:LEFT_COLUMNS$}{}", "", paint(&text, RED, style))?;
        }
        let ids = row.members.iter().map(|&member| self.tree.points[member].trace_id.as_str());
        let indent = " ".repeat(2 * row.depth.min(INDENT_MAX) + 2);
        for line in self.by_point.lines(ids) {
            let text = cut(&format!("{indent}{line}"), room);
            writeln!(out, "{:LEFT_COLUMNS$}{}", "", paint(&text, DIM, style))?;
        }
        Ok(())
    }

    /// Full blocks for own time, light ones where a child ran.
    fn bar(&self, row: &FoldedRow) -> String {
        let mut bar = TimeBar::new(self.length_us);
        for &member in &row.members {
            bar.own(&self.tree.points[member]);
        }
        let inner = if is_nested(row) { &row.members[row.members.len() - 1..] } else { &row.members };
        for &child in inner.iter().flat_map(|&member| &self.children[member]) {
            bar.child(&self.tree.points[child]);
        }
        bar.text(row.sum_us.is_none())
    }

    fn name(&self, row: &FoldedRow, goes_on: &[bool], room: usize) -> String {
        let (style, point) = (self.style, &self.tree.points[row.longest]);
        let branch = branch(row.depth, goes_on);
        let tail = self.tail(row);
        let mark_width = self.mark_of(row).map_or(0, |mark| mark.chars().count());
        let used = branch.chars().count() + tail.chars().count() + mark_width + 1;
        let left = room.saturating_sub(used);
        let many = row.members.len();
        let (title, detail) = match row.kind {
            RowKind::Small { kinds } => {
                (format!("{many} points of {kinds} kinds, each kind below 1 %"), String::new())
            }
            _ if is_nested(row) => {
                (format!("{} nested {many} deep", named(point, left)), statement::kind(point).to_owned())
            }
            _ if many > 1 => (format!("{many} × {}", named(point, left)), statement::kind(point).to_owned()),
            _ => (named(point, left), point.detail()),
        };
        let (title, detail) = (on_one_line(&title), on_one_line(&detail));
        let left = left.saturating_sub(title.chars().count());
        let detail = if detail.is_empty() { String::new() } else { format!(" {}", cut(&detail, left)) };
        let mark = self.mark_of(row).unwrap_or_default();
        let title = match (&point.error, row.kind) {
            (_, RowKind::Small { .. }) => paint(&title, DIM, style),
            (Some(_), _) => paint(&title, RED, style),
            (None, _) if !mark.is_empty() => paint(&title, RED_BOLD, style),
            (None, _) => paint(&title, BOLD, style),
        };
        let mark = paint(mark, RED_BOLD, style);
        format!("{}{title}{detail}{}{mark}", paint(&branch, DIM, style), paint(&tail, DIM, style))
    }

    /// What is said beside the point that made the iteration slow.
    fn mark_of(&self, row: &FoldedRow) -> Option<&str> {
        let (index, mark) = self.marked.as_ref()?;
        row.members.contains(index).then_some(mark.as_str())
    }

    /// What follows the name.
    fn tail(&self, row: &FoldedRow) -> String {
        let point = &self.tree.points[row.longest];
        let is_small = matches!(row.kind, RowKind::Small { .. });
        let longest = point.duration_us.filter(|_| row.members.len() > 1 && !is_small && !is_nested(row));
        let below = match row.kind {
            RowKind::Repeated { .. } => format!("  (+{} as above)", grouped(row.below)),
            _ if row.below > 0 => format!("  (+{} below)", grouped(row.below)),
            _ => String::new(),
        };
        let began = row.began_in.and_then(|index| self.tree.points.get(index)).map(|began| {
            let name = statement::joined(&named(began, BEGAN_CHARS_MAX), statement::kind(began));
            format!("  (begun by {})", cut(on_one_line(&name).trim_end(), BEGAN_CHARS_MAX))
        });
        let parent = row.parent.map(|parent| &self.tree.points[self.rows[parent].longest]);
        let is_known = is_small || parent.is_some_and(|parent| parent.has_reporter_of(point));
        let place = if is_known { String::new() } else { point.reporter() };
        let place = on_one_line(&folding::cut_name(&place, PLACE_CHARS_MAX));
        [
            longest.map_or_else(String::new, |us| format!("  longest {}", duration_us(us))),
            below,
            super::incomplete(point).map_or_else(String::new, |what| format!("  ({what})")),
            if is_linked(point) { "  (linked)".to_owned() } else { String::new() },
            began.unwrap_or_default(),
            if place.is_empty() { String::new() } else { format!("  [{place}]") },
        ]
        .concat()
    }
}

/// The largest length of a service's name, and of the point that began another one, in characters.
const PLACE_CHARS_MAX: usize = 60;
/// The largest number of services in the summary.
const PLACES_MAX: usize = 20;
const BEGAN_CHARS_MAX: usize = 40;

/// A point's name; the size of one that is too long.
fn named(point: &Point, chars_max: usize) -> String {
    folding::cut_name(&point.name, chars_max.max(NAME_COLUMNS_MIN))
}

const DIM: &str = "2";
const BOLD: &str = "1";
const RED: &str = "31";
const RED_BOLD: &str = "31;1";

fn paint(text: &str, code: &str, style: TerminalStyle) -> String {
    if style.colour && !text.is_empty() { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
}

fn summary(base_id: &str, tree: &TraceTree) -> String {
    let state = match state(tree) {
        // A caller may be missing only because its service does not report.
        TraceState::Complete if tree.gaps.lost_callers > 0 => {
            format!("complete, but {}", tree.gaps.texts().join(", "))
        }
        TraceState::Complete => "complete".to_owned(),
        TraceState::Partial => {
            let incomplete = match tree.incomplete() {
                0 => None,
                points => Some(format!("{points} of them incomplete")),
            };
            let others: Vec<String> = tree.unreadable_text().into_iter().chain(tree.gaps.texts()).collect();
            let others = (!others.is_empty()).then(|| format!("not complete: {}", others.join(", ")));
            incomplete.into_iter().chain(others).collect::<Vec<_>>().join(", ")
        }
        TraceState::Absent | TraceState::NotFetched => "none of a service".to_owned(),
    };
    let failed = tree.points.iter().filter(|point| point.error.is_some()).count();
    let failed = if failed == 0 { String::new() } else { format!(", {failed} with an error") };
    let places: BTreeSet<String> = tree.points.iter().map(Point::reporter).collect();
    let named = || places.iter().filter(|place| !place.is_empty());
    let mut shown: Vec<String> =
        named().take(PLACES_MAX).map(|place| folding::cut_name(place, PLACE_CHARS_MAX)).collect();
    if named().count() > PLACES_MAX {
        shown.push(format!("and {} more", named().count() - PLACES_MAX));
    }
    let places = if shown.is_empty() { String::new() } else { format!("; {}", shown.join(", ")) };
    let points = super::reported(tree);
    let noun = if points == 1 { "point" } else { "points" };
    let base_id = folding::cut_name(base_id, PLACE_CHARS_MAX);
    let text = format!(
        "trace {base_id}: {points} {noun} over {}, {state}{failed}{places}",
        duration_us(tree.length_us())
    );
    on_one_line(&text)
}

/// Whether each row is the last of its siblings.
fn last_rows(rows: &[FoldedRow]) -> Vec<bool> {
    let mut last = vec![false; rows.len()];
    let mut is_followed: HashSet<(Option<usize>, bool, Option<usize>)> = HashSet::new();
    for (at, row) in rows.iter().enumerate().rev() {
        last[at] = is_followed.insert((row.parent, row.afterwards, row.poll));
    }
    last
}

#[derive(Clone, Copy, PartialEq)]
enum Cell {
    Out,
    Own,
    Child,
}

/// When points ran, on the scale of the trace.
struct TimeBar {
    length_us: u128,
    cells: [Cell; BAR_CELLS],
}

impl TimeBar {
    fn new(length_us: u64) -> Self {
        Self { length_us: u128::from(length_us.max(1)), cells: [Cell::Out; BAR_CELLS] }
    }

    fn cell(&self, us: u64) -> usize {
        ((u128::from(us) * BAR_CELLS as u128 / self.length_us) as usize).min(BAR_CELLS - 1)
    }

    fn own(&mut self, point: &Point) {
        let end_us = point.end_us().unwrap_or(point.start_us);
        let cells = self.cell(point.start_us)..=self.cell(end_us.saturating_sub(1).max(point.start_us));
        self.cells[cells].fill(Cell::Own);
    }

    /// A cell is the child's when the child covers it from edge to edge.
    fn child(&mut self, child: &Point) {
        let Some(end_us) = child.end_us() else { return };
        let first = self.cell(child.start_us);
        let last = self.cell(end_us.saturating_sub(1).max(child.start_us));
        let edge = (first as u128 * self.length_us / BAR_CELLS as u128) as u64;
        let first = if edge + 1 < child.start_us { first + 1 } else { first };
        for cell in self.cells.iter_mut().take(last + 1).skip(first).filter(|cell| **cell == Cell::Own) {
            *cell = Cell::Child;
        }
    }

    fn text(&self, is_unknown: bool) -> String {
        let shown = |cell: &Cell| match cell {
            Cell::Out => ' ',
            Cell::Own if is_unknown => '?',
            Cell::Own => '█',
            Cell::Child => '░',
        };
        self.cells.iter().map(shown).collect()
    }
}

fn branch(depth: usize, goes_on: &[bool]) -> String {
    if depth > INDENT_MAX {
        return format!("{:indent$}[{depth}] ", "", indent = 2 * INDENT_MAX);
    }
    let mut branch = String::new();
    if depth > 0 {
        for level in &goes_on[1..depth] {
            branch.push_str(if *level { "│ " } else { "  " });
        }
        branch.push_str(if goes_on[depth] { "├ " } else { "└ " });
    }
    branch
}

fn cut(text: &str, chars_max: usize) -> String {
    if text.chars().count() <= chars_max {
        return text.to_owned();
    }
    let mut shown: String = text.chars().take(chars_max.saturating_sub(1)).collect();
    shown.push('…');
    shown
}
