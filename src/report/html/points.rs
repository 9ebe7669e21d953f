//! Traces for the report's script: their points, and the rows in which a large trace is shown.
//!
//! A row stands for a point, or for several that fold. A file holds a limited number of points of a trace: the points
//! that rows show, points with errors and the longest ones, with their ancestors.

use std::io;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Serialize, Serializer};

use super::gzip;
use super::island::write_json;
use super::marks::{self, CauseData, Marks};
use super::refs::{LinkableTraces, TraceDisplay};
use crate::words;
use analysis::folding::{self, FoldedRow, RowKind};
use osprofiler::info::SharedInfo;
use osprofiler::record::Info;
use osprofiler::report::{Point, TraceTree};
use results::model::{Explanation, Results, TraceState};
use results::trace::StoredTrace;

/// The largest number of points of a trace in a run's report; a page with more rows is slow and unreadable.
pub(super) const POINTS_MAX: usize = 2_000;
/// The largest number of points on the page of a single trace.
pub(super) const PAGE_POINTS_MAX: usize = 10_000;
/// A point's info that is longer than this (as JSON) is cut.
const INFO_BYTES_MAX: usize = 16 * 1024;

/// Traces of up to this many points are shown whole.
const POINTS_UNFOLDED_MAX: usize = 60;
/// Rows of a trace.
const ROWS_MAX: usize = 4_000;
/// The points of a folded row that are drawn and can be unfolded.
const MEMBERS_MAX: usize = 300;

#[derive(Serialize)]
struct TraceData<'a> {
    id: String,
    state: TraceState,
    total: usize,
    /// What explains it.
    cause: Option<CauseData<'a>>,
    /// Its rows; none where every point has one.
    rows: Vec<RowData>,
    points: Vec<PointData<'a>>,
}

#[derive(Serialize)]
struct PointData<'a> {
    depth: usize,
    id: &'a str,
    name: &'a str,
    detail: String,
    service: &'a str,
    project: &'a str,
    host: &'a str,
    start_us: u64,
    duration_us: Option<u64>,
    self_us: u64,
    error: Option<String>,
    /// The index of its mark.
    #[serde(skip_serializing_if = "Option::is_none")]
    mark: Option<usize>,
    info: ShownInfo<'a>,
    stop_info: ShownInfo<'a>,
}

/// A row of a folded trace; points are indices of those in the file.
#[derive(Serialize)]
struct RowData {
    depth: usize,
    kind: &'static str,
    /// The longest of its points.
    point: usize,
    members: Vec<usize>,
    /// How many points it stands for, without those below them.
    count: usize,
    /// Of how many kinds small points are.
    #[serde(skip_serializing_if = "Option::is_none")]
    kinds: Option<usize>,
    sum_us: Option<u64>,
    own_us: u64,
    start_us: u64,
    end_us: u64,
    /// Points below that have no row.
    below: usize,
    afterwards: bool,
    /// The client's poll that waited for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    poll: Option<usize>,
    /// The point that began it, for what goes on after the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    began: Option<usize>,
}

/// The traces that are embedded, each cut to its [`POINTS_MAX`] longest points.
pub(super) fn traces(results: &Results, traces: &LinkableTraces<'_>) -> io::Result<String> {
    let marks = Marks::of(results);
    let embedded = traces.traces().filter(|_| *traces.all.shown == TraceDisplay::Embed);
    packed(&embedded.collect::<Vec<_>>(), |trace, out| write_json(&of_run(trace, &marks), out))
}

fn of_run<'a>(trace: &'a StoredTrace, marks: &Marks<'a>) -> TraceData<'a> {
    let cause = marks.named_cause(trace);
    let at =
        cause.as_ref().and_then(|cause| trace.tree.points.iter().position(|one| one.trace_id == cause.id));
    let rows = if trace.tree.points.len() > POINTS_UNFOLDED_MAX { rows(&trace.tree, at) } else { Vec::new() };
    let id = trace.trace_id.to_string();
    TraceData { cause, ..trace_data(id, trace.state, &trace.tree.points, POINTS_MAX, Some(marks), rows) }
}

/// One trace, cut to its [`PAGE_POINTS_MAX`] longest points; `seen` explains it.
pub(super) fn trace(
    id: &str,
    state: TraceState,
    tree: &TraceTree,
    seen: Option<&Explanation>,
) -> io::Result<String> {
    let cause = seen.and_then(marks::cause);
    let points = &tree.points;
    let at = cause.as_ref().and_then(|cause| points.iter().position(|one| one.trace_id == cause.id));
    let rows = if points.len() > POINTS_UNFOLDED_MAX { rows(tree, at) } else { Vec::new() };
    let data = trace_data(id.to_owned(), state, points, PAGE_POINTS_MAX, None, rows);
    packed(&[TraceData { cause, ..data }], write_json)
}

/// The rows of a folded trace, with indices of all its points; none if nothing folds.
fn rows(tree: &TraceTree, cause: Option<usize>) -> Vec<FoldedRow> {
    let keep: Vec<usize> = cause.into_iter().collect();
    let folded = folding::fold(tree, &keep);
    if folded.folded { folded.rows.into_iter().take(ROWS_MAX).collect() } else { Vec::new() }
}

fn trace_data<'a>(
    id: String,
    state: TraceState,
    points: &'a [Point],
    points_max: usize,
    marks: Option<&Marks<'_>>,
    rows: Vec<FoldedRow>,
) -> TraceData<'a> {
    let mut kept = vec![false; points.len()];
    for index in shown_points(points, points_max) {
        kept[index] = true;
    }
    for index in rows.iter().flat_map(|row| [Some(row.longest), row.began_in, row.poll]).flatten() {
        kept[index] = true;
    }
    let mut places = vec![0; points.len()];
    let mut shown = Vec::new();
    for (index, _) in kept.iter().enumerate().filter(|(_, kept)| **kept) {
        places[index] = shown.len();
        shown.push(point(&points[index], marks));
    }
    let row = |row: FoldedRow| RowData {
        depth: row.depth,
        kind: match row.kind {
            RowKind::Point => "point",
            RowKind::Alike => "alike",
            RowKind::Nested => "nested",
            RowKind::Small { .. } => "small",
            RowKind::Repeated { .. } => "repeated",
        },
        point: places[row.longest],
        count: row.members.len(),
        kinds: match row.kind {
            RowKind::Small { kinds } => Some(kinds),
            _ => None,
        },
        began: row.began_in.map(|index| places[index]),
        members: spread(row.members.iter().filter(|one| kept[**one]).map(|one| places[*one]).collect()),
        sum_us: row.sum_us,
        own_us: row.own_us,
        start_us: row.start_us,
        end_us: row.end_us,
        below: row.below,
        afterwards: row.afterwards,
        poll: row.poll.map(|index| places[index]),
    };
    let rows = rows.into_iter().map(row).collect();
    TraceData { id, state, total: points.len(), cause: None, rows, points: shown }
}

/// At most [`MEMBERS_MAX`] of a row's points, from its beginning to its end.
fn spread(members: Vec<usize>) -> Vec<usize> {
    let step = members.len().div_ceil(MEMBERS_MAX).max(1);
    members.into_iter().step_by(step).collect()
}

fn packed<T: Sync>(
    items: &[T],
    write: impl Fn(&T, &mut Vec<u8>) -> io::Result<()> + Sync,
) -> io::Result<String> {
    Ok(STANDARD.encode(gzip::json_list(items, write)?))
}

fn point<'a>(point: &'a Point, marks: Option<&Marks<'_>>) -> PointData<'a> {
    PointData {
        depth: point.depth,
        id: &point.trace_id,
        name: words::shown_name(&point.name),
        detail: point.detail(),
        service: point.service.as_deref().unwrap_or_default(),
        project: point.project.as_deref().unwrap_or_default(),
        host: point.host.as_deref().unwrap_or_default(),
        start_us: point.start_us,
        duration_us: point.duration_us,
        self_us: point.self_us.unwrap_or(0),
        error: point.error.as_ref().map(|error| format!("{}: {}", error.etype, error.message)),
        mark: marks.and_then(|marks| marks.at(point)),
        info: ShownInfo(&point.info),
        stop_info: ShownInfo(&point.stop_info),
    }
}

/// The info itself, or the beginning of its JSON when it is very long.
struct ShownInfo<'a>(&'a SharedInfo);

impl ShownInfo<'_> {
    /// Nothing in its text must be written in another way ([`write_json`]).
    fn is_harmless(text: &str) -> bool {
        text.bytes().all(|byte| matches!(byte, b' '..=b'~') && !matches!(byte, b'\\' | b'<' | b'>' | b'&'))
    }
}

impl Serialize for ShownInfo<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let fits = |text: &str| text.len() <= INFO_BYTES_MAX && Self::is_harmless(text);
        if self.0.text().is_some_and(fits) {
            return self.0.serialize(serializer);
        }
        let info = self.0.read();
        let json = serde_json::to_string(&*info).unwrap_or_default();
        if json.len() <= INFO_BYTES_MAX {
            return info.serialize(serializer);
        }
        let mut cut = Info::new();
        cut.insert("cut from a total of bytes".to_owned(), json.len().into());
        cut.insert("beginning".to_owned(), json[..json.floor_char_boundary(INFO_BYTES_MAX)].into());
        cut.serialize(serializer)
    }
}

/// The indices of the points to show: all, or those with errors and the longest, with their ancestors.
pub(super) fn shown_points(points: &[Point], points_max: usize) -> Vec<usize> {
    if points.len() <= points_max {
        return (0..points.len()).collect();
    }
    let parents = parents(points);
    let mut levels = vec![0_usize; points.len()];
    for index in 0..points.len() {
        levels[index] = parents[index].map_or(0, |above| levels[above] + 1);
    }
    let mut order: Vec<usize> = (0..points.len()).collect();
    order.sort_by_key(|index| {
        let point = &points[*index];
        (point.error.is_none(), std::cmp::Reverse(point.duration_us.unwrap_or(u64::MAX)))
    });
    let mut shown = vec![false; points.len()];
    let mut room = points_max;
    for index in order {
        // Too deep to be shown with all that is above it: walking there for each such point would take long.
        if levels[index] >= points_max {
            continue;
        }
        let mut above = Vec::new();
        let mut next = Some(index);
        while let Some(current) = next.filter(|current| !shown[*current] && above.len() <= room) {
            above.push(current);
            next = parents[current];
        }
        if above.len() <= room {
            room -= above.len();
            above.into_iter().for_each(|kept| shown[kept] = true);
        }
    }
    (0..points.len()).filter(|index| shown[*index]).collect()
}

fn parents(points: &[Point]) -> Vec<Option<usize>> {
    let mut open: Vec<usize> = Vec::new();
    let mut parents = Vec::with_capacity(points.len());
    for (index, point) in points.iter().enumerate() {
        while open.last().is_some_and(|above| points[*above].depth >= point.depth) {
            open.pop();
        }
        parents.push(open.last().copied());
        open.push(index);
    }
    parents
}
