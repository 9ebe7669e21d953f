//! A trace as a tree in the terminal: a time bar, durations, and the nesting of points.

use std::io::{self, Write};

use crate::analysis::asynchronous::is_linked;
use crate::base::visible::on_one_line;
use crate::osprofiler::report::{Point, TraceTree};
use crate::report::document::terminal::Style;
use crate::report::words::duration_us;
use crate::results::model::TraceState;
use crate::results::trace::state;

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

/// Writes the tree with a line of summary above.
///
/// # Errors
/// When `out` cannot be written.
pub fn write(base_id: &str, tree: &TraceTree, style: Style, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{}", summary(base_id, tree))?;
    writeln!(out)?;
    let length_us = tree.length_us();
    let whole = duration_us(length_us);
    let scale = format!("0{whole:>width$}", width = BAR_CELLS - 1);
    writeln!(out, "{}", paint(&format!("{scale}  {:>8}  {:>8}  point", "took", "itself"), DIM, style))?;
    let children = tree.children();
    let last = last_children(tree, &children);
    // For each level, whether the branch goes on below.
    let mut goes_on: Vec<bool> = Vec::new();
    for (index, point) in tree.points.iter().enumerate() {
        goes_on.truncate(point.depth);
        goes_on.push(!last[index]);
        let own = &children[index];
        let bar = bar(point, own.iter().map(|&child| &tree.points[child]), length_us);
        let time = |us: Option<u64>| us.map_or_else(|| "?".to_owned(), duration_us);
        let left = format!("{bar}  {:>8}  {:>8}  ", time(point.duration_us), time(point.self_us));
        let room = style.columns.unwrap_or(COLUMNS).saturating_sub(LEFT_COLUMNS).max(NAME_COLUMNS_MIN);
        let parent = point.parent.map(|parent| &tree.points[parent]);
        writeln!(out, "{left}{}", name(point, parent, &goes_on, room, style))?;
        if let Some(error) = &point.error {
            let text = on_one_line(&format!("{}: {}", error.etype, error.message));
            let indent = " ".repeat(2 * point.depth.min(INDENT_MAX) + 2);
            let text = cut(&format!("{indent}✗ {text}"), room);
            writeln!(out, "{:LEFT_COLUMNS$}{}", "", paint(&text, RED, style))?;
        }
    }
    Ok(())
}

const DIM: &str = "2";
const BOLD: &str = "1";
const RED: &str = "31";

fn paint(text: &str, code: &str, style: Style) -> String {
    if style.colour && !text.is_empty() { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
}

fn summary(base_id: &str, tree: &TraceTree) -> String {
    let state = match state(tree) {
        TraceState::Complete => "complete".to_owned(),
        TraceState::Partial => {
            let incomplete = match tree.incomplete() {
                0 => String::new(),
                points => format!("{points} of them incomplete"),
            };
            let unreadable = match tree.unreadable {
                0 => String::new(),
                1 => "not complete: 1 record cannot be read".to_owned(),
                records => format!("not complete: {records} records cannot be read"),
            };
            let both = [incomplete, unreadable].into_iter().filter(|text| !text.is_empty());
            both.collect::<Vec<_>>().join(", ")
        }
        TraceState::Absent | TraceState::NotFetched => "none of a service".to_owned(),
    };
    let failed = tree.points.iter().filter(|point| point.error.is_some()).count();
    let failed = if failed == 0 { String::new() } else { format!(", {failed} with an error") };
    let mut places: Vec<String> = tree.points.iter().map(Point::reporter).collect();
    places.sort();
    places.dedup();
    places.retain(|place| !place.is_empty());
    let places = if places.is_empty() { String::new() } else { format!("; {}", places.join(", ")) };
    let points = tree.points.len();
    let noun = if points == 1 { "point" } else { "points" };
    let text = format!(
        "trace {base_id}: {points} {noun} over {}, {state}{failed}{places}",
        duration_us(tree.length_us())
    );
    on_one_line(&text)
}

/// Whether each point is the last of its siblings.
fn last_children(tree: &TraceTree, children: &[Vec<usize>]) -> Vec<bool> {
    let mut last = vec![false; tree.points.len()];
    for own in children {
        if let Some(&index) = own.last() {
            last[index] = true;
        }
    }
    if let Some(root) = (0..tree.points.len()).rev().find(|&index| tree.points[index].parent.is_none()) {
        last[root] = true;
    }
    last
}

/// Full blocks for own time, light ones where a child ran.
fn bar<'a>(point: &Point, children: impl Iterator<Item = &'a Point>, length_us: u64) -> String {
    #[derive(Clone, Copy, PartialEq)]
    enum Cell {
        Out,
        Own,
        Child,
    }
    let length_us = u128::from(length_us.max(1));
    let cell = |us: u64| ((u128::from(us) * BAR_CELLS as u128 / length_us) as usize).min(BAR_CELLS - 1);
    let mut cells = [Cell::Out; BAR_CELLS];
    let end_us = point.end_us().unwrap_or(point.start_us);
    cells[cell(point.start_us)..=cell(end_us.saturating_sub(1).max(point.start_us))].fill(Cell::Own);
    for child in children {
        let Some(child_end_us) = child.end_us() else { continue };
        // A cell is the child's when the child covers it from edge to edge.
        let (first, last) = (cell(child.start_us), cell(child_end_us.saturating_sub(1).max(child.start_us)));
        let edge = |index: usize| (index as u128 * length_us / BAR_CELLS as u128) as u64;
        let first = if edge(first) + 1 < child.start_us { first + 1 } else { first };
        for cell in cells.iter_mut().take(last + 1).skip(first).filter(|cell| **cell == Cell::Own) {
            *cell = Cell::Child;
        }
    }
    let unknown = point.duration_us.is_none();
    let shown = |cell: &Cell| match cell {
        Cell::Out => ' ',
        Cell::Own if unknown => '?',
        Cell::Own => '█',
        Cell::Child => '░',
    };
    cells.iter().map(shown).collect()
}

fn name(point: &Point, parent: Option<&Point>, goes_on: &[bool], room: usize, style: Style) -> String {
    let mut branch = String::new();
    if point.depth > INDENT_MAX {
        branch = format!("{:indent$}[{}] ", "", point.depth, indent = 2 * INDENT_MAX);
    } else if point.depth > 0 {
        for level in &goes_on[1..point.depth] {
            branch.push_str(if *level { "│ " } else { "  " });
        }
        branch.push_str(if goes_on[point.depth] { "├ " } else { "└ " });
    }
    let place = point.reporter();
    let known = parent.is_some_and(|parent| parent.reporter() == place);
    let place =
        if known || place.is_empty() { String::new() } else { format!("  [{}]", on_one_line(&place)) };
    let missing = super::missing(point).map_or_else(String::new, |what| format!("  (no {what})"));
    let linked = if is_linked(point) { "  (linked)" } else { "" };
    let tail = format!("{missing}{linked}{place}");
    let title = on_one_line(&point.name);
    let used = branch.chars().count() + title.chars().count() + tail.chars().count() + 1;
    let detail = on_one_line(&point.detail());
    let detail =
        if detail.is_empty() { detail } else { format!(" {}", cut(&detail, room.saturating_sub(used))) };
    let title = if point.error.is_some() { paint(&title, RED, style) } else { paint(&title, BOLD, style) };
    format!("{}{title}{detail}{}", paint(&branch, DIM, style), paint(&tail, DIM, style))
}

fn cut(text: &str, chars_max: usize) -> String {
    if text.chars().count() <= chars_max {
        return text.to_owned();
    }
    let mut shown: String = text.chars().take(chars_max.saturating_sub(1)).collect();
    shown.push('…');
    shown
}
