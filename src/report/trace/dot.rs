//! A trace as a graph for Graphviz: `bench trace show ID --dot | dot -Tsvg > trace.svg`.
//!
//! A node is a point, with its service, what it did and how long it took. The more own time a point has, the darker
//! its node. Names from traces appear in quoted strings only.

use std::io::{self, Write};

use crate::words::{duration_us, visible};
use osprofiler::report::{Point, TraceTree};

/// Longer details make unreadable nodes.
const DETAIL_CHARS_MAX: usize = 60;

/// Writes the graph.
///
/// # Errors
/// When `out` cannot be written.
pub fn write(base_id: &str, tree: &TraceTree, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "digraph {} {{", quoted(base_id))?;
    writeln!(out, "  node [shape=box, style=\"rounded,filled\", fillcolor=white, fontname=\"sans-serif\"]")?;
    let longest_us = tree.points.iter().filter_map(|point| point.self_us).max().unwrap_or(0).max(1);
    for (index, point) in tree.points.iter().enumerate() {
        writeln!(out, "  p{index} [label={}{}]", quoted(&label(point)), looks(point, longest_us))?;
        if let Some(parent) = point.parent {
            writeln!(out, "  p{parent} -> p{index}")?;
        }
    }
    writeln!(out, "}}")
}

fn label(point: &Point) -> String {
    let place = point.reporter();
    let place = if place.is_empty() { place } else { format!("{place}: ") };
    let mut detail: String = point.detail().chars().take(DETAIL_CHARS_MAX).collect();
    if detail.len() < point.detail().len() {
        detail.push('…');
    }
    let time = match (point.duration_us, point.self_us) {
        (Some(whole), Some(own)) if own < whole => {
            format!("{}, {} own time", duration_us(whole), duration_us(own))
        }
        (Some(whole), _) => duration_us(whole),
        _ => format!("incomplete: {}", super::incomplete(point).unwrap_or("no stop")),
    };
    let error = point.error.as_ref().map(|error| error.etype.clone()).unwrap_or_default();
    let lines = [format!("{place}{}", point.name), detail, time, error];
    let lines: Vec<&str> = lines.iter().map(String::as_str).filter(|line| !line.is_empty()).collect();
    lines.join("\n")
}

/// The colour, as hue, saturation and value.
fn looks(point: &Point, longest_us: u64) -> String {
    if point.error.is_some() {
        return ", fillcolor=\"#f0b3bb\", color=\"#b3132b\"".to_owned();
    }
    match point.self_us {
        None => ", style=\"rounded,dashed\"".to_owned(),
        Some(own_us) => {
            format!(", fillcolor=\"0.58 {:.3} 1.000\"", own_us as f64 / longest_us as f64 * 0.5)
        }
    }
}

fn quoted(text: &str) -> String {
    let mut shown = String::from("\"");
    for c in visible(text).chars() {
        match c {
            '"' => shown.push_str("\\\""),
            '\\' => shown.push_str("\\\\"),
            '\n' => shown.push_str("\\n"),
            c => shown.push(c),
        }
    }
    shown.push('"');
    shown
}
