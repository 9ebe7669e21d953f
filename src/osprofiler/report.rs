//! Builds the tree of a trace from its records, in microseconds.
//!
//! OSProfiler's own report floors to milliseconds, cuts names at the first hyphen and shows a point
//! without a stop as lasting 0 ms; [`TraceTree`] does none of that, and [`super::compat`] does all
//! of it. Records are hostile: cycles, duplicates and any depth are laid out without recursion. What is missing or
//! impossible is said and never becomes a time of 0 ([`Gaps`]).

use std::collections::HashMap;

use serde_json::Value;

pub use super::info::DETAIL_LEN_MAX;
use super::info::SharedInfo;
use super::record::{Info, STOP_SUFFIX, TraceRecord, point_name};
use crate::coarse_clocks::{self, PlacedPoint};
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
    /// What else is missing of it, or impossible.
    pub gaps: Gaps,
}

/// What is missing of a trace, or impossible in it, besides points without a start or a stop.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gaps {
    /// Points whose parent is missing, within a service: a record was lost.
    pub lost_parents: usize,
    /// Points at which another service was called, whose caller is missing: it was lost, or its service does not report.
    pub lost_callers: usize,
    /// How many times points are each other's ancestors, or their own.
    pub cycles: usize,
    /// Points that had the id of another one.
    pub same_ids: usize,
    /// That the records are only a part, and why, if their collector says so.
    pub partial: Option<Box<str>>,
}

impl Gaps {
    /// How many points lack their parent.
    #[must_use]
    pub fn parents(&self) -> usize {
        self.lost_parents + self.lost_callers
    }

    /// Adds what another trace lacks.
    pub fn add(&mut self, other: &Self) {
        self.lost_parents += other.lost_parents;
        self.lost_callers += other.lost_callers;
        self.cycles += other.cycles;
        self.same_ids += other.same_ids;
        if self.partial.is_none() {
            self.partial.clone_from(&other.partial);
        }
    }

    /// Texts for people, each of what is wrong.
    #[must_use]
    pub fn texts(&self) -> Vec<String> {
        let counted = |count: usize, one: &str, many: &str| match count {
            0 => None,
            1 => Some(one.to_owned()),
            count => Some(many.replace('#', &count.to_string())),
        };
        let partial = self.partial.as_deref().map(|why| {
            let why = if why.is_empty() { String::new() } else { format!(": {why}") };
            format!("the collector gave only a part{why}")
        });
        [
            counted(
                self.parents(),
                "the parent of 1 point is missing",
                "the parents of # points are missing",
            ),
            counted(self.cycles, "1 point is its own ancestor", "# points are their own ancestors"),
            counted(self.same_ids, "1 point has the id of another", "# points have the ids of others"),
            partial,
        ]
        .into_iter()
        .flatten()
        .collect()
    }
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
    /// By how much it stops before it starts, in microseconds, which is impossible.
    pub reversed_us: Option<u64>,
    /// Microseconds; `None` if the start or the stop is missing, or if it stops before it starts.
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
struct PointRecords<'a> {
    first: &'a TraceRecord,
    start: Option<(i64, &'a TraceRecord)>,
    stop: Option<(i64, &'a TraceRecord)>,
    children: Vec<usize>,
    parent: Option<usize>,
    placed: bool,
    /// Records of another point had its id.
    shares_id: bool,
}

/// What stands between the id of a span and its number, where several spans have one id.
pub(crate) const COPY: char = '#';

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

    /// How many points lack their start or their stop, or stop before they start.
    #[must_use]
    pub fn incomplete(&self) -> usize {
        self.points.iter().filter(|point| point.duration_us.is_none()).count()
    }

    /// Microseconds from the first record to the last.
    #[must_use]
    pub fn length_us(&self) -> u64 {
        self.points.iter().map(|point| point.end_us().unwrap_or(point.start_us)).max().unwrap_or(0)
    }

    /// Builds the tree of one trace. Records without a readable timestamp are left out and counted.
    ///
    /// A point whose parent is unknown is a root; of points that are each other's ancestors the
    /// earliest is one. A single outermost point may have a parent elsewhere; that of several is missing.
    #[must_use]
    pub fn build<'a>(records: impl IntoIterator<Item = &'a TraceRecord>) -> Self {
        let PointCollection { mut nodes, first_us, unreadable } = collect(records);
        let mut gaps = gaps(&nodes, |_| true);
        link(&mut nodes);
        let mut order: Vec<usize> = (0..nodes.len()).collect();
        order.sort_by_key(|&index| nodes[index].begin_us());
        let mut points = Vec::with_capacity(nodes.len());
        let mut shared = ValueInterner::default();
        // Roots come first; points that they do not reach are in cycles.
        for in_cycle in [false, true] {
            for &root in &order {
                if !nodes[root].placed && (in_cycle || nodes[root].parent.is_none()) {
                    gaps.cycles += usize::from(in_cycle);
                    place(&mut nodes, root, first_us, &mut points, &mut shared);
                }
            }
        }
        settle_coarse_clocks(&mut points, first_us);
        fill_own_times(&mut points);
        Self { first_unix_us: if points.is_empty() { 0 } else { first_us }, points, unreadable, gaps }
    }

    /// The tree, with this number of records added that could not be read.
    #[must_use]
    pub fn with_unreadable(self, unreadable: u64) -> Self {
        Self { unreadable: self.unreadable.saturating_add(unreadable), ..self }
    }

    /// The tree, with what its collector says if it gave only a part.
    #[must_use]
    pub fn with_partial(mut self, why: Option<&str>) -> Self {
        self.gaps.partial = why.map(Into::into);
        self
    }

    /// True when every point has its start and its stop, every record was read, and nothing else is missing or
    /// impossible. Callers may be missing: their services may not report.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.has_all_times() && self.gaps.lost_parents == 0
    }

    /// The same, with parents missing anywhere: no time of it is in doubt.
    #[must_use]
    pub fn has_all_times(&self) -> bool {
        let gaps = Gaps { lost_parents: 0, lost_callers: 0, ..self.gaps.clone() };
        self.incomplete() == 0 && self.unreadable == 0 && gaps == Gaps::default()
    }

    /// That records cannot be read, if there are any.
    #[must_use]
    pub fn unreadable_text(&self) -> Option<String> {
        match self.unreadable {
            0 => None,
            1 => Some("1 record cannot be read".to_owned()),
            records => Some(format!("{records} records cannot be read")),
        }
    }
}

fn placed(point: &Point) -> PlacedPoint<'_> {
    PlacedPoint {
        clock: [&point.project, &point.service, &point.host].map(|text| text.as_deref()),
        parent: point.parent,
        start_us: point.start_us,
        duration_us: point.duration_us,
    }
}

/// Moves the points of clocks that count whole milliseconds to where they can have been.
fn settle_coarse_clocks(points: &mut [Point], first_us: i64) {
    let mut moved: Vec<PlacedPoint<'_>> = points.iter().map(placed).collect();
    if !coarse_clocks::settle(&mut moved, first_us, |index| points[index].info.contains_key("kind")) {
        return;
    }
    let starts_us: Vec<u64> = moved.iter().map(|one| one.start_us).collect();
    for (point, start_us) in points.iter_mut().zip(starts_us) {
        point.start_us = start_us;
    }
}

/// What [`TraceTree::build`] would say of these records, without a tree.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TracePointCounts {
    /// Points.
    pub points: usize,
    /// Points that lack their start or their stop, or stop before they start.
    pub incomplete: usize,
    /// Records whose timestamp cannot be read.
    pub unreadable: u64,
    /// What else is missing or impossible.
    pub gaps: Gaps,
}

/// Counts the points of these records, and what is wrong with them: only points whose records are `counted`. Cycles of
/// several points are not looked for.
#[must_use]
pub fn count_points<'a>(
    records: impl IntoIterator<Item = &'a TraceRecord>,
    counted: impl Fn(&TraceRecord) -> bool,
) -> TracePointCounts {
    let PointCollection { nodes, unreadable, .. } = collect(records);
    let gaps = gaps(&nodes, |node| counted(node.first));
    let of_them = || nodes.iter().filter(|node| counted(node.first));
    let incomplete = of_them().filter(|node| node.took_us().is_none_or(|us| us < 0)).count();
    TracePointCounts { points: of_them().count(), incomplete, unreadable, gaps }
}

/// What is wrong with how these points belong together, before they are linked; of some of them only.
fn gaps(nodes: &[PointRecords<'_>], counted: impl Fn(&PointRecords<'_>) -> bool) -> Gaps {
    let mut found = Gaps::default();
    let is_root = |node: &&PointRecords<'_>| node.parent.is_none();
    let is_lost = |node: &PointRecords<'_>| {
        let parent = node.first.parent_id.as_str();
        !parent.is_empty() && parent != node.first.base_id.as_str()
    };
    let roots: Vec<&PointRecords<'_>> = nodes.iter().filter(is_root).collect();
    let one_caller = roots.windows(2).all(|two| two[0].first.parent_id == two[1].first.parent_id);
    let is_called_from_elsewhere = one_caller && roots.iter().all(|node| node.is_called());
    if roots.len() > 1 && !is_called_from_elsewhere {
        for node in roots.into_iter().filter(|node| is_lost(node) && counted(node)) {
            match node.is_called() {
                true => found.lost_callers += 1,
                false => found.lost_parents += 1,
            }
        }
    }
    for (index, node) in nodes.iter().enumerate().filter(|(_, node)| counted(node)) {
        found.cycles += usize::from(node.parent == Some(index));
        found.same_ids += usize::from(node.shares_id || node.is_copy());
    }
    found
}

impl Point {
    /// The info of the start record, to change it: a copy of its own, if it is shared.
    pub fn info_mut(&mut self) -> &mut Info {
        self.info.to_mut()
    }

    /// What the point did, on one line of at most [`DETAIL_LEN_MAX`] characters. It is the statement of a database
    /// point (without long lists of columns), the method and path of a request, or the name of a function; else empty.
    #[must_use]
    pub fn detail(&self) -> String {
        self.info.detail()
    }

    /// The service that reported the point, such as `keystone/public`; empty if unknown.
    #[must_use]
    pub fn reporter(&self) -> String {
        reporter(self.project.as_deref().unwrap_or_default(), self.service.as_deref().unwrap_or_default())
    }

    /// Whether another point has the same [`Point::reporter`].
    #[must_use]
    pub fn has_reporter_of(&self, other: &Self) -> bool {
        let is_same = (&self.project, &self.service) == (&other.project, &other.service);
        is_same || self.reporter() == other.reporter()
    }

    /// Microseconds from the trace's first record to its end, if that is known.
    #[must_use]
    pub fn end_us(&self) -> Option<u64> {
        self.duration_us.map(|duration| self.start_us.saturating_add(duration))
    }
}

impl PointRecords<'_> {
    fn begin_us(&self) -> i64 {
        self.start.or(self.stop).map_or(0, |(time, _)| time)
    }

    /// True for a span that had the id of another one, and is not what that one called.
    fn is_copy(&self) -> bool {
        let whole = self.first.trace_id.as_str().rsplit_once(COPY);
        whole.is_some_and(|(id, number)| {
            number.bytes().all(|byte| byte.is_ascii_digit()) && id != self.first.parent_id.as_str()
        })
    }

    /// Negative if it stops before it starts: its clock was set back, or the record is nonsense.
    fn took_us(&self) -> Option<i64> {
        let ((start, _), (stop, _)) = self.start.zip(self.stop)?;
        Some(stop.saturating_sub(start))
    }

    /// True for a point at which a service was called, or a message taken: what is above it may be of another service, which
    /// may not report.
    fn is_called(&self) -> bool {
        let kind = self.first.info.text_at(&["kind"]);
        let is_of_kind = kind.as_deref().is_some_and(|kind| ["server", "consumer"].contains(&kind));
        let name = point_name(&self.first.name);
        is_of_kind
            || name.contains("wsgi")
            || name == "rpc"
            || ["request", "link"].iter().any(|key| self.first.info.contains_key(key))
    }

    fn point(&self, depth: usize, parent: Option<usize>, first_us: i64, shared: &mut ValueInterner) -> Point {
        let took_us = self.took_us();
        let duration_us = took_us.and_then(|us| u64::try_from(us).ok());
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
            reversed_us: took_us.filter(|us| *us < 0).map(i64::unsigned_abs),
            duration_us,
            self_us: duration_us,
            error: self.stop.and_then(|(_, record)| error(&record.info)),
            info: self.start.map(|(_, record)| record.info.clone()).unwrap_or_default(),
            stop_info: self.stop.map(|(_, record)| shared.hostless(&record.info)).unwrap_or_default(),
        }
    }
}

struct PointCollection<'a> {
    nodes: Vec<PointRecords<'a>>,
    /// When the first record was made.
    first_us: i64,
    /// Records whose timestamp cannot be read.
    unreadable: u64,
}

/// Brings the records of each point together; of several starts the first counts, of several stops
/// the last.
fn collect<'a>(records: impl IntoIterator<Item = &'a TraceRecord>) -> PointCollection<'a> {
    let records = records.into_iter();
    // Most points have two records.
    let points = records.size_hint().0 / 2;
    let mut indices: HashMap<&str, usize> = HashMap::with_capacity(points);
    let mut nodes: Vec<PointRecords<'a>> = Vec::with_capacity(points);
    let (mut first_us, mut unreadable) = (i64::MAX, 0);
    for record in records {
        let Some(time) = record.timestamp_us() else {
            unreadable += 1;
            continue;
        };
        first_us = first_us.min(time);
        // A point without points below it stops in the record after its start.
        let last = nodes.last().filter(|last| last.first.trace_id.is_same(&record.trace_id));
        let index = match last {
            Some(_) => nodes.len() - 1,
            None => *indices.entry(record.trace_id.as_str()).or_insert(nodes.len()),
        };
        if index == nodes.len() {
            nodes.push(PointRecords {
                first: record,
                start: None,
                stop: None,
                children: Vec::new(),
                parent: None,
                placed: false,
                shares_id: false,
            });
        }
        let node = &mut nodes[index];
        let is_stop = record.name.ends_with(STOP_SUFFIX);
        let known = if is_stop { node.stop } else { node.start };
        let first = node.first;
        // What is delivered twice is the same twice.
        node.shares_id |= (point_name(&record.name), &record.parent_id)
            != (point_name(&first.name), &first.parent_id)
            || known.is_some_and(|(known, _)| known != time);
        if is_stop {
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
    PointCollection { nodes, first_us, unreadable }
}

fn link(nodes: &mut [PointRecords<'_>]) {
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
fn place(
    nodes: &mut [PointRecords<'_>],
    root: usize,
    first_us: i64,
    points: &mut Vec<Point>,
    shared: &mut ValueInterner,
) {
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
/// in the order of their starts, so one sweep is enough. The children of a point whose time is not known are taken from
/// the point around it: else their time would count twice.
fn fill_own_times(points: &mut [Point]) {
    let mut around: Vec<Option<usize>> = Vec::with_capacity(points.len());
    for point in &*points {
        let known = |parent: usize| points[parent].duration_us.map(|_| parent).or(around[parent]);
        around.push(point.parent.and_then(known));
    }
    let mut order: Vec<usize> = (0..points.len()).collect();
    if points.iter().any(|point| point.duration_us.is_none()) {
        order.sort_by_key(|&index| points[index].start_us);
    }
    let mut covered: Vec<(u64, u64)> = points.iter().map(|point| (0, point.start_us)).collect();
    for index in order {
        let child = &points[index];
        let (Some(around), Some(end)) = (around[index], child.end_us()) else { continue };
        let Some(last) = points[around].end_us() else { continue };
        let (sum, reached) = &mut covered[around];
        let (start, end) = (child.start_us.max(*reached), end.min(last));
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
struct ValueInterner {
    /// Infos, with the same without their hosts.
    hostless: Vec<[SharedInfo; 2]>,
    /// Names and hosts.
    texts: Vec<Text>,
}

impl ValueInterner {
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
