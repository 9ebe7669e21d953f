//! The report of `osprofiler trace show --json`, for tools that read it.
//!
//! Observed on OSProfiler 4.4.0 with its redis driver, quirks and key order included. Nothing new
//! may be built on it: [`super::report`] keeps the microseconds and the names.

use std::collections::HashMap;
use std::io::{self, Write};

use serde::Serialize as _;
use serde_json::ser::{Formatter, PrettyFormatter, Serializer};
use serde_json::{Map, Value, json};

use super::record::TraceRecord;

/// Points nested deeper become roots, so that no reader's (nor this library's) stack overflows;
/// Python fails to print such a report.
pub const REPORT_DEPTH_MAX: usize = 256;

/// Of what kind of collector the report is: they differ in what they keep of a record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReportStyle {
    /// Whole records, newest first: redis and most others.
    #[default]
    Records,
    /// Rows of a table, oldest first, whose payload is `info` alone: the SQLAlchemy driver.
    Rows,
}

struct CompatNode<'a> {
    trace_id: &'a str,
    parent_id: &'a str,
    info: Map<String, Value>,
    started_us: Option<i64>,
    finished_us: Option<i64>,
}

/// The report that OSProfiler makes of a trace's records, given oldest first.
///
/// Points in a cycle are left out, as there, and records without a readable timestamp.
#[must_use]
pub fn compat_report(records: &[TraceRecord]) -> Value {
    compat_report_as(records, ReportStyle::Records)
}

/// The same for a kind of collector.
#[must_use]
pub fn compat_report_as(records: &[TraceRecord], style: ReportStyle) -> Value {
    let (mut nodes, times) = collect(records, style);
    let mut stats: Map<String, Value> = Map::new();
    for node in &mut nodes {
        let started = node.started_us.or(node.finished_us).unwrap_or_default();
        let finished = node.finished_us.unwrap_or(started);
        let (started, finished) = (times.ms(started), times.ms(finished));
        node.info.insert("started".to_owned(), started.into());
        node.info.insert("finished".to_owned(), finished.into());
        let name = node.info.get("name").and_then(Value::as_str).unwrap_or_default();
        let entry = stats.entry(name).or_insert_with(|| json!({"count": 0, "duration": 0}));
        for (key, value) in [("count", 1), ("duration", finished - started)] {
            entry[key] = (entry[key].as_i64().unwrap_or_default() + value).into();
        }
    }
    json!({
        "info": {
            "name": "total",
            "started": 0,
            "finished": times.finished_us.map(|time| times.ms(time)),
            "last_trace_started": times.last_started_us.map(|time| times.ms(time)),
        },
        "children": forest(nodes),
        "stats": stats,
    })
}

#[derive(Default)]
struct Times {
    started_us: Option<i64>,
    finished_us: Option<i64>,
    last_started_us: Option<i64>,
}

impl Times {
    /// Whole milliseconds from the first record.
    fn ms(&self, time_us: i64) -> i64 {
        time_us.saturating_sub(self.started_us.unwrap_or(time_us)) / 1000
    }
}

fn collect(records: &[TraceRecord], style: ReportStyle) -> (Vec<CompatNode<'_>>, Times) {
    let mut times = Times::default();
    let mut indices: HashMap<&str, usize> = HashMap::new();
    let mut nodes: Vec<CompatNode<'_>> = Vec::new();
    // The report's order follows from the order in which OSProfiler reads.
    let ordered: Box<dyn Iterator<Item = &TraceRecord>> = match style {
        ReportStyle::Records => Box::new(records.iter().rev()),
        ReportStyle::Rows => Box::new(records.iter()),
    };
    for record in ordered {
        let Some(time) = record.timestamp_us() else { continue };
        let index = *indices.entry(record.trace_id.as_str()).or_insert(nodes.len());
        if index == nodes.len() {
            nodes.push(new_node(record));
        }
        let node = &mut nodes[index];
        let payload = match style {
            ReportStyle::Records => serde_json::to_value(record).unwrap_or_default(),
            ReportStyle::Rows => json!({"info": record.info}),
        };
        node.info.insert(format!("meta.raw_payload.{}", record.name), payload);
        // The place of the two times in the key order is taken now, their values come later.
        if record.name.ends_with("stop") {
            node.finished_us = Some(time);
            node.info.insert("finished".to_owned(), Value::Null);
            let exception = record.info.value("etype").unwrap_or_else(|| "None".into());
            node.info.insert("exception".to_owned(), exception);
        } else {
            node.started_us = Some(time);
            node.info.insert("started".to_owned(), Value::Null);
            times.last_started_us = times.last_started_us.max(Some(time));
        }
        times.started_us = Some(times.started_us.map_or(time, |known| known.min(time)));
        times.finished_us = times.finished_us.max(Some(time));
    }
    (nodes, times)
}

fn new_node(record: &TraceRecord) -> CompatNode<'_> {
    let mut info = Map::new();
    let name = record.name.split('-').next().unwrap_or_default();
    info.insert("name".to_owned(), name.into());
    info.insert("project".to_owned(), record.project.clone().into());
    info.insert("service".to_owned(), record.service.clone().into());
    info.insert("host".to_owned(), record.info.value("host").unwrap_or_default());
    CompatNode {
        trace_id: &record.trace_id,
        parent_id: &record.parent_id,
        info,
        started_us: None,
        finished_us: None,
    }
}

/// The nested form, built from the leaves up.
fn forest(nodes: Vec<CompatNode<'_>>) -> Value {
    let indices: HashMap<&str, usize> =
        nodes.iter().enumerate().map(|(index, node)| (node.trace_id, index)).collect();
    let parents: Vec<Option<usize>> = nodes.iter().map(|node| indices.get(node.parent_id).copied()).collect();
    let started = |node: &CompatNode<'_>| node.info.get("started").and_then(Value::as_i64);
    let mut order: Vec<usize> = (0..nodes.len()).collect();
    order.sort_by_key(|&index| started(&nodes[index]));
    let mut children: Vec<Vec<usize>> = vec![Vec::new(); nodes.len()];
    let mut waiting: Vec<(usize, usize)> = Vec::new();
    for &index in &order {
        match parents[index] {
            Some(parent) => children[parent].push(index),
            None => waiting.push((index, 0)),
        }
    }
    // Parents before children; points in cycles are never reached.
    let mut reached: Vec<(usize, usize)> = Vec::with_capacity(nodes.len());
    while let Some((index, depth)) = waiting.pop() {
        reached.push((index, depth));
        waiting.extend(children[index].iter().map(|&child| (child, (depth + 1) % REPORT_DEPTH_MAX)));
    }
    let mut built: Vec<Value> = nodes.into_iter().map(node_value).collect();
    let mut places = vec![0; order.len()];
    order.iter().enumerate().for_each(|(place, &index)| places[index] = place);
    let mut roots = Vec::new();
    for &(index, depth) in reached.iter().rev() {
        let subtrees = children[index].iter().filter_map(|&child| {
            let subtree = built[child].take();
            (!subtree.is_null()).then_some(subtree)
        });
        let subtrees: Vec<Value> = subtrees.collect();
        built[index]["children"] = Value::Array(subtrees);
        if depth == 0 {
            roots.push((places[index], built[index].take()));
        }
    }
    roots.sort_by_key(|(place, _)| *place);
    Value::Array(roots.into_iter().map(|(_, root)| root).collect())
}

fn node_value(node: CompatNode<'_>) -> Value {
    json!({"info": node.info, "trace_id": node.trace_id, "parent_id": node.parent_id, "children": []})
}

/// Writes a report as `osprofiler trace show --json` prints it: two blanks a level, ASCII only.
///
/// # Errors
/// When `out` cannot be written.
pub fn write_as_python(report: &Value, out: &mut dyn Write) -> io::Result<()> {
    let formatter = Python(PrettyFormatter::with_indent(b"  "));
    report.serialize(&mut Serializer::with_formatter(&mut *out, formatter)).map_err(io::Error::from)?;
    writeln!(out)
}

/// Python's `json.dumps` with an indent: all characters outside ASCII are escaped.
struct Python<'a>(PrettyFormatter<'a>);

impl Formatter for Python<'_> {
    fn write_string_fragment<W: ?Sized + Write>(&mut self, out: &mut W, fragment: &str) -> io::Result<()> {
        for c in fragment.chars() {
            if c.is_ascii() {
                write!(out, "{c}")?;
            } else {
                let mut units = [0; 2];
                for unit in c.encode_utf16(&mut units) {
                    write!(out, "\\u{unit:04x}")?;
                }
            }
        }
        Ok(())
    }

    fn begin_array<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.0.begin_array(out)
    }

    fn end_array<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.0.end_array(out)
    }

    fn begin_array_value<W: ?Sized + Write>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        self.0.begin_array_value(out, first)
    }

    fn end_array_value<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.0.end_array_value(out)
    }

    fn begin_object<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.0.begin_object(out)
    }

    fn end_object<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.0.end_object(out)
    }

    fn begin_object_key<W: ?Sized + Write>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        self.0.begin_object_key(out, first)
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.0.begin_object_value(out)
    }

    fn end_object_value<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.0.end_object_value(out)
    }
}
