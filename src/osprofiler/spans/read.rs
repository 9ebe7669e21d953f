//! From spans to the records of OSProfiler, oldest first.
//!
//! Spans are hostile: of any number, with ids that come twice, parents that are missing or their own
//! children's. Every span becomes a start and a stop record; the tree builder sorts out the rest. A time that is not
//! known is never made up: a span without an end has no stop record, and one that ends before it starts keeps both times.
//!
//! A span without a parent here is below the span that it has a link to. So is the root of another trace, such as the
//! trace of a consumer of messages, and with it all spans of that trace.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;

use serde_json::{Value, json};

use super::meaning::{
    MISSING, PARENT_ID, RESOURCE, TRACE_ID, is_same_resource, meaning, named_base_id, resource,
};
use super::{SpanKind, SpanLink, TraceSpan, span_id, span_id_text, trace_id};
use crate::info::SharedInfo;
use crate::record::{START_SUFFIX, STOP_SUFFIX, Timestamp, TraceRecord};
use crate::report::COPY;
use crate::summary::TraceSummary;
use crate::text::Text;
use base::parallel;

/// The key of a start's info that marks a point below a span that it has a link to. It holds the span (`to`), and the
/// trace that the point has as a span (`own_trace_id`) if it is another one.
pub const LINK: &str = "link";

/// The records of the trace `base_id`, and of other traces with links to it; spans of all others are left out.
#[must_use]
pub fn records(base_id: &str, spans: &[TraceSpan]) -> Vec<TraceRecord> {
    let wanted = trace_id(base_id);
    let traces = linked_traces(wanted, &linking(spans));
    let spans: Vec<&TraceSpan> = spans.iter().filter(|span| traces.contains(&span.trace_id)).collect();
    records_of(base_id, &traces, &spans)
}

/// The records of each trace that has a span here, with its base_id; in the order of their ids. It takes time in
/// proportion to what it returns.
#[must_use]
pub fn traces(spans: &[TraceSpan]) -> Vec<(String, Vec<TraceRecord>)> {
    let mut of_trace: BTreeMap<u128, Vec<&TraceSpan>> = BTreeMap::new();
    for span in spans {
        of_trace.entry(span.trace_id).or_default().push(span);
    }
    let linking = linking(spans);
    let records_of = |(id, own): (&u128, &Vec<&TraceSpan>)| {
        let named = own.iter().find_map(|span| named_base_id(span));
        let base_id = named.map_or_else(|| uuid::Uuid::from_u128(*id).to_string(), str::to_owned);
        let records = if linking.is_empty() {
            records_of(&base_id, &HashSet::from([*id]), own)
        } else {
            let traces = linked_traces(*id, &linking);
            let of_all = traces.iter().filter_map(|id| of_trace.get(id)).flatten().copied();
            records_of(&base_id, &traces, &of_all.collect::<Vec<_>>())
        };
        (base_id, records)
    };
    of_trace.iter().map(records_of).collect()
}

/// Fewer spans than this are not worth a thread.
const SPANS_OF_THREAD_MIN: usize = 4_000;

/// The records of these traces' spans.
fn records_of(base_id: &str, traces: &HashSet<u128>, spans: &[&TraceSpan]) -> Vec<TraceRecord> {
    let wanted = trace_id(base_id);
    let points = points(spans);
    let parents = Parents { base_id, wanted, root: span_id(base_id), traces, points: &points };
    let of_range = |range: Range<usize>| {
        let mut records = Records { all: Vec::with_capacity(range.len() * 2), texts: Texts::of(base_id) };
        range.for_each(|index| of_span(index, spans, &parents, &mut records));
        records.all
    };
    let ranges = parallel::ranges(spans.len(), SPANS_OF_THREAD_MIN);
    let mut records: Vec<(u64, TraceRecord)> =
        parallel::map(ranges, of_range).into_iter().flatten().collect();
    // Stable: records of one microsecond keep the order of their spans.
    records.sort_by_key(|(time_ns, _)| *time_ns);
    records.into_iter().map(|(_, record)| record).collect()
}

/// Records that were made, each with its time.
struct Records {
    all: Vec<(u64, TraceRecord)>,
    texts: Texts,
}

/// Texts that most records have in common, which are one in memory then.
struct Texts {
    base_id: Text,
    project: Option<Text>,
    service: Option<Text>,
}

impl Texts {
    fn of(base_id: &str) -> Self {
        Self { base_id: base_id.into(), project: None, service: None }
    }

    fn reporter(&mut self, project: Option<&str>, service: Option<&str>) -> [Option<Text>; 2] {
        [(&mut self.project, project), (&mut self.service, service)].map(|(known, text)| {
            if known.as_deref() != text {
                *known = text.map(Into::into);
            }
            known.clone()
        })
    }
}

/// The records of a span.
fn of_span(index: usize, spans: &[&TraceSpan], parents: &Parents<'_>, records: &mut Records) {
    let (span, Parents { wanted, points, .. }) = (spans[index], parents);
    if let Some(point) = &points.of_span[index] {
        let around = points.around(span, spans);
        let (parent, link) = parents.of(point, span, around);
        let link = link.map(|link| match span.trace_id {
            own if own == *wanted => json!({"to": span_id_text(link.span_id)}),
            own => json!({"to": span_id_text(link.span_id), "own_trace_id": format!("{own:032x}")}),
        });
        // Every span of a resource would repeat the same.
        let is_first = around.is_none_or(|around| !is_same_resource(spans[around], span));
        let resource = if is_first { resource(span) } else { None };
        let more = [(LINK, link), (RESOURCE, resource)];
        add(records, span, [&point.id, &parent], more);
    }
}

/// For each trace, others with links to it.
type TraceLinks = HashMap<u128, Vec<u128>>;

fn linking(spans: &[TraceSpan]) -> TraceLinks {
    let mut linking = TraceLinks::new();
    for span in spans {
        for link in span.links.iter().filter(|link| link.trace_id != span.trace_id) {
            linking.entry(link.trace_id).or_default().push(span.trace_id);
        }
    }
    linking
}

/// A trace, the traces with links to it, those with links to them, and so on.
fn linked_traces(wanted: u128, linking: &TraceLinks) -> HashSet<u128> {
    let mut traces = HashSet::from([wanted]);
    let mut open = vec![wanted];
    while let Some(trace) = open.pop() {
        let found = linking.get(&trace).into_iter().flatten();
        open.extend(found.filter(|trace| traces.insert(**trace)));
    }
    traces
}

/// What is needed to find the parents of points.
struct Parents<'a> {
    base_id: &'a str,
    wanted: u128,
    /// The span id of the base_id.
    root: u64,
    traces: &'a HashSet<u128>,
    points: &'a SpanPoints,
}

impl Parents<'_> {
    /// The id of the point above, and the link that says so; `around` is the span above, if it is here.
    fn of(&self, point: &PointOf, span: &TraceSpan, around: Option<usize>) -> (String, Option<SpanLink>) {
        if let Some(first) = point.below {
            return (self.points.id_of(first), None);
        }
        if let Some(parent) = text_of(span, PARENT_ID) {
            return (parent.to_owned(), None);
        }
        if let (Some(parent), Some(around)) = (span.parent_id, around) {
            let link = SpanLink { trace_id: span.trace_id, span_id: parent };
            return (self.points.id_of(around), span.links.contains(&link).then_some(link));
        }
        let is_root = |id: u64| id == self.root || id == self.wanted as u64;
        match (span.parent_id, self.link(span)) {
            (Some(parent), _) if span.trace_id == self.wanted && is_root(parent) => {
                (self.base_id.to_owned(), None)
            }
            (_, Some(link)) => {
                let parent = match self.points.first_of.get(&link.span_id) {
                    Some(first) => self.points.id_of(*first),
                    None if is_root(link.span_id) => self.base_id.to_owned(),
                    None => span_id_text(link.span_id),
                };
                (parent, Some(link))
            }
            (Some(parent), None) => (span_id_text(parent), None),
            (None, None) => (self.base_id.to_owned(), None),
        }
    }

    /// The first of a span's links to another span that is here, or else to one that may be the client's.
    fn link(&self, span: &TraceSpan) -> Option<SpanLink> {
        let is_here = |link: &&SpanLink| self.traces.contains(&link.trace_id) && link.span_id != span.span_id;
        let mut links = span.links.iter().filter(is_here);
        let first = links.clone().next();
        links.find(|link| self.points.first_of.contains_key(&link.span_id)).or(first).copied()
    }
}

/// The base_id of a trace: the one that a span names, or else the trace id as a UUID.
#[must_use]
pub fn base_id(trace_id: u128, spans: &[TraceSpan]) -> String {
    let named = spans.iter().filter(|span| span.trace_id == trace_id).find_map(named_base_id);
    named.map_or_else(|| uuid::Uuid::from_u128(trace_id).to_string(), str::to_owned)
}

/// What a list shows of a trace whose spans are all here; `None` if none of them is.
#[must_use]
pub fn summary(trace_id: u128, spans: &[TraceSpan]) -> Option<TraceSummary> {
    let base_id = base_id(trace_id, spans);
    let records = records(&base_id, spans);
    let first = records.first()?;
    let name = first.name.strip_suffix(START_SUFFIX).or_else(|| first.name.strip_suffix(STOP_SUFFIX));
    let failed = |record: &TraceRecord| record.info.has("etype");
    Some(TraceSummary {
        timestamp: first.timestamp.to_string(),
        records: Some(records.len() as u64),
        name: name.map(str::to_owned),
        failed: Some(records.iter().any(failed)),
        base_id,
    })
}

struct PointOf {
    id: String,
    /// The span with the same id that this one is below.
    below: Option<usize>,
}

struct SpanPoints {
    of_span: Vec<Option<PointOf>>,
    first_of: HashMap<u64, usize>,
    /// The server's span of each id that a client's has, too.
    server_of: HashMap<u64, usize>,
}

impl SpanPoints {
    fn id_of(&self, span: usize) -> String {
        self.of_span[span].as_ref().map(|point| point.id.clone()).unwrap_or_default()
    }

    /// The span that a span is below, if it is here. Of a client's and a server's with one id, it is the server's, unless
    /// only the client's is of the same process.
    fn around(&self, span: &TraceSpan, spans: &[&TraceSpan]) -> Option<usize> {
        let id = span.parent_id?;
        let first = *self.first_of.get(&id)?;
        let is_with = |other: usize| is_same_resource(spans[other], span);
        let server = self.server_of.get(&id).copied();
        Some(server.filter(|server| is_with(*server) || !is_with(first)).unwrap_or(first))
    }
}

/// Gives every span an id. A span that was delivered twice counts once. The two halves of a point
/// that was sent before it ended are one point. A client's and a server's span with one id are what Zipkin's clients and
/// servers make: the server's is below the client's. Of others with one id, it is not known which one is the parent of
/// what: they stay beside each other, and the tree says that they share an id ([`COPY`]).
fn points(spans: &[&TraceSpan]) -> SpanPoints {
    let mut points = SpanPoints {
        of_span: Vec::with_capacity(spans.len()),
        first_of: HashMap::with_capacity(spans.len()),
        server_of: HashMap::new(),
    };
    // The client's half first, whichever order they come in.
    let mut order: Vec<usize> = (0..spans.len()).collect();
    order.sort_by_key(|&index| (spans[index].kind == SpanKind::Server, spans[index].start_ns));
    points.of_span.resize_with(spans.len(), || None);
    // The spans of each id that several have.
    let mut copies: HashMap<u64, Vec<usize>> = HashMap::new();
    for index in order {
        let span = spans[index];
        let id = text_of(span, TRACE_ID).map_or_else(|| span_id_text(span.span_id), str::to_owned);
        let Some(&first) = points.first_of.get(&span.span_id) else {
            points.first_of.insert(span.span_id, index);
            points.of_span[index] = Some(PointOf { id, below: None });
            continue;
        };
        let known = copies.entry(span.span_id).or_insert_with(|| vec![first]);
        let point = if is_half(span) {
            Some(PointOf { id, below: None })
        } else if known.len() >= COPIES_MAX || known.iter().any(|&other| same(spans[other], span)) {
            None
        } else if known.iter().any(|&other| is_half(spans[other])) {
            Some(PointOf { id, below: None })
        } else {
            let is_called =
                |first: &usize| span.kind == SpanKind::Server && spans[*first].kind != SpanKind::Server;
            let below = known.first().copied().filter(is_called);
            if below.is_some() {
                points.server_of.entry(span.span_id).or_insert(index);
            }
            Some(PointOf { id: format!("{id}{COPY}{}", known.len() + 1), below })
        };
        if point.is_some() {
            known.push(index);
        }
        points.of_span[index] = point;
    }
    points
}

/// More spans than this with the same id are not distinguished.
const COPIES_MAX: usize = 16;

/// True for a span that lacks one of its times: it may come again with both.
fn is_half(span: &TraceSpan) -> bool {
    text_of(span, MISSING).is_some() || span.start_ns == 0 || span.end_ns == 0
}

fn same(one: &TraceSpan, other: &TraceSpan) -> bool {
    (one.start_ns, one.end_ns, &one.name, one.kind) == (other.start_ns, other.end_ns, &other.name, other.kind)
}

fn add(
    records: &mut Records,
    span: &TraceSpan,
    [id, parent_id]: [&str; 2],
    more: [(&str, Option<Value>); 2],
) {
    let mut point = meaning(span);
    for (key, value) in more {
        point.start.extend(value.map(|value| (key.to_owned(), value)));
    }
    let missing = text_of(span, MISSING);
    // Without any time, a record that cannot be read says that there was something.
    let is_timeless = span.start_ns == 0 && span.end_ns == 0;
    let halves =
        [("start", START_SUFFIX, span.start_ns, point.start), ("stop", STOP_SUFFIX, span.end_ns, point.stop)];
    let [project, service] = records.texts.reporter(point.project.as_deref(), point.service.as_deref());
    let (trace_id, parent_id) = (Text::from(id), Text::from(parent_id));
    for (which, suffix, time_ns, info) in halves {
        if missing == Some(which) || time_ns == 0 && !(is_timeless && which == "start") {
            continue;
        }
        let record = TraceRecord {
            name: format!("{}{suffix}", point.name).into(),
            base_id: records.texts.base_id.clone(),
            trace_id: trace_id.clone(),
            parent_id: parent_id.clone(),
            timestamp: if is_timeless { Timestamp::default() } else { Timestamp::from_unix_ns(time_ns) },
            info: SharedInfo::as_text(&info),
            project: project.clone(),
            service: service.clone(),
        };
        records.all.push((time_ns, record));
    }
}

fn text_of<'a>(span: &'a TraceSpan, key: &str) -> Option<&'a str> {
    span.attributes.get(key).and_then(Value::as_str)
}
