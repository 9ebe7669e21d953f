//! Builds the tree of a trace from its records, in microseconds.
//!
//! OSProfiler's own report floors to milliseconds, cuts names at the first hyphen and shows a point
//! without a stop as lasting 0 ms; [`TraceTree`] does none of that, and [`super::compat`] does all
//! of it. Records are hostile: cycles, duplicates and any depth are laid out without recursion.

use std::collections::HashMap;

use serde_json::Value;

pub use super::info::DETAIL_LEN_MAX;
use super::info::SharedInfo;
use super::record::{Info, Record, STOP_SUFFIX, point_name};
use crate::text::Text;

/// A trace: each point comes after the point that contains it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TraceTree {
    /// When its first record was made, in microseconds since the Unix epoch; 0 without records.
    pub first_unix_us: i64,
    /// Depth first; siblings by start.
    pub points: Vec<Point>,
    /// How many stored records of the trace could not be read.
    pub unreadable: u64,
}

/// A trace point.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// 0 for a point without a known parent.
    pub depth: usize,
    /// The index of the parent in [`TraceTree::points`], if it is there.
    pub parent: Option<usize>,
    /// The point's id.
    pub trace_id: Text,
    /// As recorded; base_id or an unknown id for a root.
    pub parent_id: Text,
    /// Without `-start` or `-stop`.
    pub name: Text,
    /// The reporter's service.
    pub service: Option<Text>,
    /// The reporter's project.
    pub project: Option<Text>,
    /// The reporter's host.
    pub host: Option<Text>,
    /// Microseconds from the trace's first record; the stop's if there is no start.
    pub start_us: u64,
    /// Whether the start was recorded. If not, there is only a stop.
    pub starts: bool,
    /// Microseconds; `None` if the start or the stop is missing.
    pub duration_us: Option<u64>,
    /// The duration without the time that children cover, overlaps counted once.
    pub self_us: Option<u64>,
    /// The error in the stop record.
    pub error: Option<Box<PointError>>,
    /// The info of the start record.
    pub info: SharedInfo,
    /// The info of the stop record, without the host, which the start record has too.
    pub stop_info: SharedInfo,
}

/// An error that ended a point.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PointError {
    /// The exception's class.
    pub etype: String,
    /// The message; JSON if it was not text.
    pub message: String,
}

/// The records of a point.
struct Node<'a> {
    first: &'a Record,
    start: Option<(i64, &'a Record)>,
    stop: Option<(i64, &'a Record)>,
    children: Vec<usize>,
    parent: Option<usize>,
    placed: bool,
}

impl TraceTree {
    /// The indices of every point's children, in order.
    #[must_use]
    pub fn children(&self) -> Vec<Vec<usize>> {
        let mut children = vec![Vec::new(); self.points.len()];
        for (index, point) in self.points.iter().enumerate() {
            if let Some(parent) = point.parent {
                children[parent].push(index);
            }
        }
        children
    }

    /// How many points lack their start or their stop.
    #[must_use]
    pub fn incomplete(&self) -> usize {
        self.points.iter().filter(|point| point.duration_us.is_none()).count()
    }

    /// Microseconds from the first record to the last.
    #[must_use]
    pub fn length_us(&self) -> u64 {
        self.points.iter().map(|point| point.end_us().unwrap_or(point.start_us)).max().unwrap_or(0)
    }

    /// Builds the tree of one trace. Records without a readable timestamp are left out.
    ///
    /// A point whose parent is unknown is a root; of points that are each other's ancestors the
    /// earliest is one.
    #[must_use]
    pub fn build<'a>(records: impl IntoIterator<Item = &'a Record>) -> Self {
        let (mut nodes, first_us) = collect(records);
        link(&mut nodes);
        let mut order: Vec<usize> = (0..nodes.len()).collect();
        order.sort_by_key(|&index| nodes[index].begin_us());
        let mut points = Vec::with_capacity(nodes.len());
        let mut shared = Shared::default();
        // Roots come first; points that they do not reach are in cycles.
        for in_cycle in [false, true] {
            for &root in &order {
                if !nodes[root].placed && (in_cycle || nodes[root].parent.is_none()) {
                    place(&mut nodes, root, first_us, &mut points, &mut shared);
                }
            }
        }
        fill_self_times(&mut points);
        Self { first_unix_us: if points.is_empty() { 0 } else { first_us }, points, unreadable: 0 }
    }

    /// The tree, with this number of records added that could not be read.
    #[must_use]
    pub fn with_unreadable(self, unreadable: u64) -> Self {
        Self { unreadable, ..self }
    }

    /// True when every point has its start and its stop, and every record was read.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.incomplete() == 0 && self.unreadable == 0
    }
}

/// How many points these records have, and how many of them lack their start or their stop, as
/// [`TraceTree::incomplete`] counts.
#[must_use]
pub fn count_points<'a>(records: impl IntoIterator<Item = &'a Record>) -> (usize, usize) {
    let (nodes, _) = collect(records);
    (nodes.len(), nodes.iter().filter(|node| node.start.is_none() || node.stop.is_none()).count())
}

impl Point {
    /// The info of the start record, to change it: a copy of its own, if it is shared.
    pub fn info_mut(&mut self) -> &mut Info {
        self.info.to_mut()
    }

    /// What the point did, on one line of at most [`DETAIL_LEN_MAX`] characters: the statement of a
    /// database point (without long lists of columns), method and path of a request, the name of a function; else empty.
    #[must_use]
    pub fn detail(&self) -> String {
        self.info.detail()
    }

    /// The service that reported the point, such as `keystone/public`; empty if unknown.
    #[must_use]
    pub fn reporter(&self) -> String {
        reporter(self.project.as_deref().unwrap_or_default(), self.service.as_deref().unwrap_or_default())
    }

    /// Microseconds from the trace's first record to its end, if that is known.
    #[must_use]
    pub fn end_us(&self) -> Option<u64> {
        self.duration_us.map(|duration| self.start_us.saturating_add(duration))
    }
}

impl Node<'_> {
    fn begin_us(&self) -> i64 {
        self.start.or(self.stop).map_or(0, |(time, _)| time)
    }

    fn point(&self, depth: usize, parent: Option<usize>, first_us: i64, shared: &mut Shared) -> Point {
        let duration_us = match (self.start, self.stop) {
            // A clock that was set back would make it negative.
            (Some((start, _)), Some((stop, _))) => Some(stop.saturating_sub(start).max(0).unsigned_abs()),
            _ => None,
        };
        let record = self.start.or(self.stop).map_or(self.first, |(_, record)| record);
        Point {
            depth,
            parent,
            trace_id: record.trace_id.clone(),
            parent_id: record.parent_id.clone(),
            name: shared.text(point_name(&record.name)),
            service: record.service.clone(),
            project: record.project.clone(),
            host: record.host().map(|host| shared.text(&host)),
            start_us: self.begin_us().saturating_sub(first_us).max(0).unsigned_abs(),
            starts: self.start.is_some(),
            duration_us,
            self_us: duration_us,
            error: self.stop.and_then(|(_, record)| error(&record.info)),
            info: self.start.map(|(_, record)| record.info.clone()).unwrap_or_default(),
            stop_info: self.stop.map(|(_, record)| shared.hostless(&record.info)).unwrap_or_default(),
        }
    }
}

/// Brings the records of each point together; of several starts the first counts, of several stops
/// the last. Also says when the trace's first record was made.
fn collect<'a>(records: impl IntoIterator<Item = &'a Record>) -> (Vec<Node<'a>>, i64) {
    let mut indices: HashMap<&str, usize> = HashMap::new();
    let mut nodes: Vec<Node<'a>> = Vec::new();
    let mut first_us = i64::MAX;
    for record in records {
        let Some(time) = record.timestamp_us() else { continue };
        first_us = first_us.min(time);
        let index = *indices.entry(record.trace_id.as_str()).or_insert(nodes.len());
        if index == nodes.len() {
            let children = Vec::new();
            let node = Node { first: record, start: None, stop: None, children, parent: None, placed: false };
            nodes.push(node);
        }
        let node = &mut nodes[index];
        if record.name.ends_with(STOP_SUFFIX) {
            if node.stop.is_none_or(|(known, _)| time >= known) {
                node.stop = Some((time, record));
            }
        } else if node.start.is_none_or(|(known, _)| time < known) {
            node.start = Some((time, record));
        }
    }
    for node in &mut nodes {
        node.parent = indices.get(node.first.parent_id.as_str()).copied();
    }
    (nodes, first_us)
}

fn link(nodes: &mut [Node<'_>]) {
    for index in 0..nodes.len() {
        if let Some(parent) = nodes[index].parent {
            if parent == index {
                nodes[index].parent = None;
            } else {
                nodes[parent].children.push(index);
            }
        }
    }
    for index in 0..nodes.len() {
        let mut children = std::mem::take(&mut nodes[index].children);
        children.sort_by_key(|&child| nodes[child].begin_us());
        nodes[index].children = children;
    }
}

/// Appends the tree under `root`, which must not be placed yet.
fn place(nodes: &mut [Node<'_>], root: usize, first_us: i64, points: &mut Vec<Point>, shared: &mut Shared) {
    let mut waiting = vec![(root, 0, None)];
    while let Some((index, depth, parent)) = waiting.pop() {
        if nodes[index].placed {
            continue;
        }
        nodes[index].placed = true;
        let position = points.len();
        points.push(nodes[index].point(depth, parent, first_us, shared));
        let children = std::mem::take(&mut nodes[index].children);
        waiting.extend(children.into_iter().rev().map(|child| (child, depth + 1, Some(position))));
    }
}

/// Takes from each point the union of its children's intervals, clamped to its own. Siblings come
/// in the order of their starts, so one sweep is enough.
fn fill_self_times(points: &mut [Point]) {
    let mut covered: Vec<(u64, u64)> = points.iter().map(|point| (0, point.start_us)).collect();
    for index in 0..points.len() {
        let child = &points[index];
        let (Some(parent), Some(end)) = (child.parent, child.end_us()) else { continue };
        let Some(parent_end) = points[parent].end_us() else { continue };
        let (sum, reached) = &mut covered[parent];
        let (start, end) = (child.start_us.max(*reached), end.min(parent_end));
        if end > start {
            *sum += end - start;
            *reached = end;
        }
    }
    for (point, (sum, _)) in points.iter_mut().zip(covered) {
        point.self_us = point.duration_us.map(|duration| duration.saturating_sub(sum));
    }
}

/// `keystone/public`: a service's own name says little without its project's.
#[must_use]
pub fn reporter(project: &str, service: &str) -> String {
    match (project, service) {
        (project, "") => project.to_owned(),
        ("", service) => service.to_owned(),
        (project, service) if project == service => service.to_owned(),
        (project, service) => format!("{project}/{service}"),
    }
}

/// What many points of a trace have in common.
#[derive(Default)]
struct Shared {
    /// Infos, with the same without their hosts.
    hostless: Vec<[SharedInfo; 2]>,
    /// Names and hosts.
    texts: Vec<Text>,
}

impl Shared {
    /// How many of each are remembered.
    const KNOWN_MAX: usize = 16;

    fn text(&mut self, text: &str) -> Text {
        if let Some(known) = self.texts.iter().find(|known| *known == text) {
            return known.clone();
        }
        let new = Text::from(text);
        if self.texts.len() < Self::KNOWN_MAX {
            self.texts.push(new.clone());
        }
        new
    }

    fn hostless(&mut self, info: &SharedInfo) -> SharedInfo {
        if let Some([_, known]) = self.hostless.iter().find(|[whole, _]| whole.is_same(info)) {
            return known.clone();
        }
        if !info.contains_key("host") {
            return info.clone();
        }
        let mut others = info.read().into_owned();
        others.shift_remove("host");
        let new = if info.text().is_some() { SharedInfo::as_text(&others) } else { others.into() };
        if self.hostless.len() < Self::KNOWN_MAX {
            self.hostless.push([info.clone(), new.clone()]);
        }
        new
    }
}

fn error(stop_info: &SharedInfo) -> Option<Box<PointError>> {
    if !stop_info.may_have("etype") {
        return None;
    }
    let stop_info: &Info = &stop_info.read();
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let etype = stop_info.get("etype").filter(|etype| !etype.is_null()).map(text)?;
    let message = stop_info.get("message").filter(|message| !message.is_null()).map(text);
    Some(Box::new(PointError { etype, message: message.unwrap_or_default() }))
}
