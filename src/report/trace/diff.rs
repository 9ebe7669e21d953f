//! The difference of two traces: text and JSON.

use std::io::{self, Write};

use crate::analysis::tree_diff::{DiffedTrace, PointDiff, TreeDiff};
use crate::report::document::{Block, Cell, Column, Document, Line, Table};
use crate::report::words::{duration_us, signed};

/// The difference as a document, with at most `limit` rows in each table.
#[must_use]
pub fn document(diff: &TreeDiff, limit: usize) -> Document {
    let mut document = Document::new(2, "");
    document.push(Block::List(vec![side("A", &diff.a), side("B", &diff.b)]));
    let rows: Vec<&PointDiff> = diff.points.iter().filter(|row| is_different(row)).collect();
    if rows.is_empty() {
        document.push(Block::Paragraph("Both have the same points, which took the same time.".into()));
    }
    let hint = "Points of one kind under the same path; own time is without that of points below".into();
    document.titled("Points", Some(hint), points(&rows, limit));
    document.titled("Attributes that differ", None, attributes(&diff.points, limit));
    let mut notes = Vec::new();
    if rows.len() > limit {
        notes.push(format!("{} more rows: see --limit or --json", rows.len() - limit));
    }
    if diff.left_out > 0 {
        notes.push(format!("{} points are left out: there are too many kinds", diff.left_out));
    }
    document.notes(&notes);
    document
}

/// Writes the difference as JSON.
///
/// # Errors
/// When `out` cannot be written.
pub fn json(diff: &TreeDiff, out: &mut dyn Write) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, diff)?;
    writeln!(out)
}

fn side(name: &str, trace: &DiffedTrace) -> Line {
    let incomplete = match trace.incomplete {
        0 => String::new(),
        points => format!(", {points} of them incomplete"),
    };
    let gaps = match trace.gaps.join(", ") {
        none if none.is_empty() => none,
        gaps => format!(", not complete: {gaps}"),
    };
    let mut line = Line::from(format!("{name}: trace "));
    line.code(trace.base_id.as_str());
    line.text(format!(", {} points over {}{incomplete}{gaps}", trace.points, duration_us(trace.length_us)))
        .done()
}

fn is_different(row: &PointDiff) -> bool {
    row.a != row.b
}

fn points(rows: &[&PointDiff], limit: usize) -> Table {
    let mut table = Table::new(vec![
        Column::name("point"),
        Column::name("below"),
        Column::figure("calls A"),
        Column::figure("calls B"),
        Column::figure("time A"),
        Column::figure("time B"),
        Column::figure("own A"),
        Column::figure("own B"),
        Column::figure("difference"),
    ]);
    for row in rows.iter().take(limit) {
        let time = |calls: u64, us: u64| if calls == 0 { Cell::empty() } else { duration_us(us).into() };
        table.row([
            name(row).into(),
            row.path.last().map_or_else(Cell::empty, |above| above.as_str().into()),
            row.a.calls.to_string().into(),
            row.b.calls.to_string().into(),
            time(row.a.calls, row.a.duration_us),
            time(row.b.calls, row.b.duration_us),
            time(row.a.calls, row.a.self_us),
            time(row.b.calls, row.b.self_us),
            signed(row.self_difference_us as f64 / 1e3).into(),
        ]);
    }
    table
}

fn name(row: &PointDiff) -> String {
    format!("{} {}", row.service, row.name).trim_start().to_owned()
}

fn attributes(rows: &[PointDiff], limit: usize) -> Table {
    let mut table = Table::new(vec![
        Column::name("point"),
        Column::name("attribute"),
        Column::name("only in A"),
        Column::name("only in B"),
    ]);
    let all = rows.iter().flat_map(|row| row.attributes.iter().map(move |attribute| (row, attribute)));
    for (row, attribute) in all.take(limit) {
        table.row([
            name(row).into(),
            attribute.attribute.as_str().into(),
            attribute.a.join(", ").into(),
            attribute.b.join(", ").into(),
        ]);
    }
    table
}
