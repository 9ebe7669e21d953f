//! The difference of two traces: text and JSON.

use std::collections::BTreeSet;
use std::io::{self, Write};

use crate::document::{Block, Cell, Column, DocumentTable, ReportDocument, StyledLine};
use crate::words::{duration_us, signed, without_middle};
use analysis::tree_diff::{AttributeDiff, DiffedTrace, PointDiff, PointSums, TreeDiff};

/// How many values of an attribute are shown at most, and in how many characters each.
const VALUES_MAX: usize = 2;
const VALUE_CHARS_MAX: usize = 24;
/// How many hexadecimal digits make an id, and how many after a word that ids begin with.
const HEX_MIN: usize = 8;
const HEX_AFTER_MIN: usize = 6;

/// The time of a point that lacks its start or its stop.
const UNKNOWN: &str = "unknown";

/// The difference as a document, with at most `limit` rows in each table.
#[must_use]
pub fn document(diff: &TreeDiff, limit: usize) -> ReportDocument {
    let mut document = ReportDocument::new(2, "");
    document.push(Block::List(vec![side("A", &diff.a), side("B", &diff.b)]));
    let rows: Vec<&PointDiff> = diff.points.iter().filter(|row| is_different(row)).collect();
    if rows.is_empty() {
        document.push(Block::Paragraph("Both have the same points, which took the same time.".into()));
    }
    let hint = "Points of one kind under the same path; own time is without that of points below".into();
    document.titled("Points", Some(hint), points(&rows, limit));
    let (table, left_out) = attributes(&diff.points, limit);
    document.titled("Attributes that differ", None, table);
    let mut notes = Vec::new();
    if left_out > 0 {
        let noun = if left_out == 1 { "attribute differs" } else { "attributes differ" };
        notes.push(format!("{left_out} {noun} in ids, addresses and times only: see --json"));
    }
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

fn side(name: &str, trace: &DiffedTrace) -> StyledLine {
    let incomplete = match trace.incomplete {
        0 => String::new(),
        points => format!(", {points} of them incomplete"),
    };
    let gaps = match trace.gaps.join(", ") {
        none if none.is_empty() => none,
        gaps => format!(", not complete: {gaps}"),
    };
    let mut line = StyledLine::from(format!("{name}: trace "));
    line.code(trace.base_id.as_str());
    line.text(format!(", {} points over {}{incomplete}{gaps}", trace.points, duration_us(trace.length_us)))
        .done()
}

fn is_different(row: &PointDiff) -> bool {
    row.a != row.b
}

fn points(rows: &[&PointDiff], limit: usize) -> DocumentTable {
    let mut table = DocumentTable::new(vec![
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
        let time = |sums: &PointSums, us: u64| match (sums.calls - sums.untimed, sums.untimed) {
            (0, 0) => Cell::empty(),
            (0, _) => UNKNOWN.into(),
            (_, 0) => duration_us(us).into(),
            (_, untimed) => format!("{} + {untimed} {UNKNOWN}", duration_us(us)).into(),
        };
        table.row([
            name(row).into(),
            row.path.last().map_or_else(Cell::empty, |above| above.as_str().into()),
            row.a.calls.to_string().into(),
            row.b.calls.to_string().into(),
            time(&row.a, row.a.duration_us),
            time(&row.b, row.b.duration_us),
            time(&row.a, row.a.self_us),
            time(&row.b, row.b.self_us),
            row.self_difference_us.map_or_else(|| UNKNOWN.into(), |us| signed(us as f64 / 1e3).into()),
        ]);
    }
    table
}

fn name(row: &PointDiff) -> String {
    format!("{} {}", row.service, row.name).trim_start().to_owned()
}

/// The attributes that differ by more than ids, addresses and times, and how many differ by these only.
fn attributes(rows: &[PointDiff], limit: usize) -> (DocumentTable, usize) {
    let mut table = DocumentTable::new(vec![
        Column::name("point"),
        Column::name("attribute"),
        Column::name("only in A"),
        Column::name("only in B"),
    ]);
    let all = rows.iter().flat_map(|row| row.attributes.iter().map(move |attribute| (row, attribute)));
    let (differing, alike): (Vec<_>, Vec<_>) = all.partition(|(_, attribute)| says_something(attribute));
    for (row, attribute) in differing.into_iter().take(limit) {
        table.row([
            name(row).into(),
            attribute.attribute.as_str().into(),
            in_short(&attribute.a).into(),
            in_short(&attribute.b).into(),
        ]);
    }
    (table, alike.len())
}

/// Values of every trace differ in ids, addresses and times, and that says nothing.
fn says_something(attribute: &AttributeDiff) -> bool {
    let kinds = |values: &[String]| -> BTreeSet<String> { values.iter().map(|value| kind(value)).collect() };
    kinds(&attribute.a) != kinds(&attribute.b)
}

/// A value with its ids, addresses and times replaced.
fn kind(value: &str) -> String {
    let mut kind = String::new();
    for word in value.split_inclusive(|c: char| !(c.is_alphanumeric() || "-.:_+".contains(c))) {
        let end = word.trim_end_matches(|c: char| !(c.is_alphanumeric() || "-.:_+".contains(c)));
        kind.push_str(if is_id(end) { "…" } else { end });
        kind.push_str(&word[end.len()..]);
    }
    kind
}

/// Whether a word is an id (hexadecimal digits, with or without hyphens), an address of memory or of a network, a time, or a
/// long number.
fn is_id(word: &str) -> bool {
    let word = word.trim_matches(['.', ':', '-', '_', '+']);
    let bare =
        ["req-", "0x", "instance-", "tap", "qbr", "qvo"].iter().find_map(|prefix| word.strip_prefix(prefix));
    let hex: String = bare.unwrap_or(word).chars().filter(|c| *c != '-').collect();
    let has_digit = hex.contains(|c: char| c.is_ascii_digit());
    let is_hex = !hex.is_empty() && hex.bytes().all(|byte| byte.is_ascii_hexdigit());
    let is_long = hex.len() >= if bare.is_some() { HEX_AFTER_MIN } else { HEX_MIN };
    let is_time = word.get(..10).is_some_and(|date| {
        let digit = |at: usize| date.as_bytes()[at].is_ascii_digit();
        date.is_ascii()
            && (0..10).all(|at| if at == 4 || at == 7 { date.as_bytes()[at] == b'-' } else { digit(at) })
    });
    let is_mac = word.len() == 17 && word.split(':').count() == 6;
    is_hex && has_digit && is_long
        || is_time
        || is_mac
        || word.parse::<std::net::IpAddr>().is_ok()
        || word.parse::<std::net::SocketAddr>().is_ok()
}

/// A few values, each shortened: all of them are in the JSON.
fn in_short(values: &[String]) -> String {
    let shown = values.iter().take(VALUES_MAX).map(|value| without_middle(value, VALUE_CHARS_MAX));
    let mut shown: Vec<String> = shown.collect();
    if values.len() > VALUES_MAX {
        shown.push(format!("{} more", values.len() - VALUES_MAX));
    }
    shown.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_addresses_and_times_are_no_difference() {
        for (a, b, expected) in [
            ("miss", "hit", true),
            ("e4b1c1f2-53a0-4d5f-9f3e-8f2f0a5c2d11", "0b0a6e6a-1c7e-4b39-8c33-5f2b7b1d2a44", false),
            ("a7f3d0c49be84c1f", "99f3d0c49be84c1e", false),
            (
                "/servers/e4b1c1f2-53a0-4d5f-9f3e-8f2f0a5c2d11",
                "/servers/0b0a6e6a-1c7e-4b39-8c33-5f2b7b1d2a44",
                false,
            ),
            (
                "/servers/e4b1c1f2-53a0-4d5f-9f3e-8f2f0a5c2d11",
                "/ports/0b0a6e6a-1c7e-4b39-8c33-5f2b7b1d2a44",
                true,
            ),
            ("<Host object at 0x7f21a4c0>", "<Host object at 0x7f98b4d8>", false),
            ("10.0.0.7", "10.0.0.9", false),
            ("10.0.0.7:5672", "10.0.0.9:5672", false),
            ("fa:16:3e:11:22:33", "fa:16:3e:aa:bb:cc", false),
            ("2026-11-20T22:52:01", "2026-11-21T02:02:31", false),
            ("req-e4b1c1f2-53a0-4d5f-9f3e-8f2f0a5c2d11", "req-0b0a6e6a-1c7e-4b39-8c33-5f2b7b1d2a44", false),
            ("1763678001", "1763678411", false),
            ("200", "500", true),
            ("node-1", "node-2", true),
            ("cafe", "face", true),
        ] {
            let values = |value: &str| vec![value.to_owned()];
            let attribute = AttributeDiff { attribute: "x".into(), a: values(a), b: values(b) };
            assert_eq!(says_something(&attribute), expected, "{a} and {b}");
        }
    }

    #[test]
    fn values_are_shown_in_short() {
        let long = vec!["x".repeat(300); 5];
        let shown = in_short(&long);
        assert!(
            shown.chars().count() <= VALUES_MAX * (VALUE_CHARS_MAX + 3) + 8 && shown.ends_with("3 more"),
            "{shown}"
        );
        assert_eq!(in_short(&["a".to_owned(), "b".to_owned()]), "a, b");
    }
}
