//! Reads traces from files instead of a collector.
//!
//! Known formats:
//! - Mistral's profile log, and the trace files of a run directory;
//! - the JSON of `bench trace show` and of `osprofiler trace show`;
//! - records as JSON: an array, or one record per line, as `bench receive` writes them;
//! - OTLP as JSON: one request, or one per line, as the file exporter of OpenTelemetry's collector writes them;
//! - what Tempo, Jaeger and Grafana answer and let people save.
//!
//! Spans have the same readers as spans from collectors. Files are not trusted: sizes are bounded, and unreadable parts
//! are counted and reported with their line.

mod lines;
mod shape;

use std::collections::HashMap;
use std::io::{self, BufRead, BufReader, Read as _};
use std::path::Path;

use serde::Deserialize as _;
use serde_json::Value;
use thiserror::Error;

use osprofiler::compat::ReportStyle;
use osprofiler::driver::TRACE_RECORDS_MAX;
use osprofiler::profile_log::{self, LineError};
use osprofiler::record::{Info, START_SUFFIX, STOP_SUFFIX, Timestamp, TraceRecord};
use osprofiler::report::TraceTree;
use osprofiler::spans::{DecodedSpans, SpanError, TraceSpan, jaeger, json as json_spans, read};
use text::files::{open_named, open_regular};

use self::lines::FileBeginning;
use self::shape::Shape;

/// Larger JSON documents are refused. A log, and a file with an object per line, may have any size.
pub const JSON_BYTES_MAX: u64 = 128 * 1024 * 1024;
/// Deeper JSON is refused; a point takes two levels.
const DEPTH_MAX: usize = 2_000;
const STACK_BYTES: usize = 64 * 1024 * 1024;
/// No more records are kept in memory.
pub const RECORDS_MAX: usize = 4_000_000;
/// At most this many ids of other traces are kept for messages.
const OTHERS_MAX: usize = 20;

/// The records of one trace.
#[derive(Clone, Debug, PartialEq)]
pub struct TraceRecords {
    /// The trace's base id.
    pub base_id: String,
    /// Its records in the order of the file.
    pub records: Vec<TraceRecord>,
    /// The number of unreadable records that may belong to this trace.
    pub unreadable: u64,
    /// That these are only a part of the trace, and why, if the file or the collector says so.
    pub partial: Option<String>,
    /// The style of OSProfiler's report for these records.
    pub style: ReportStyle,
}

impl TraceRecords {
    /// Its tree, with what is missing of it.
    #[must_use]
    pub fn tree(&self) -> TraceTree {
        TraceTree::build(&self.records).with_unreadable(self.unreadable).with_partial(self.partial.as_deref())
    }
}

/// The contents of a file.
#[derive(Clone, Debug, Default)]
pub struct TraceFileContents {
    /// Its traces, in the order of their first records.
    pub traces: Vec<TraceRecords>,
    /// The number of lines or records that could not be read.
    pub malformed: u64,
    /// The place of the first of them, and its error.
    pub first_malformed: Option<String>,
    /// Records beyond [`TRACE_RECORDS_MAX`] in a trace or [`RECORDS_MAX`] in all, which are left out.
    pub left_out: u64,
    /// Some ids of traces that were not requested.
    pub others: Vec<String>,
}

/// The kind of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceFileKind {
    /// Lines of Mistral's profile log.
    Log,
    /// JSON, or a JSON object per line.
    Json,
}

/// Why a file has no usable trace. Messages complete "cannot …".
#[derive(Debug, Error)]
pub enum FileError {
    /// It cannot be read.
    #[error("read it: {0}")]
    Read(#[from] io::Error),
    /// It is larger than the limit.
    #[error("read it: it is larger than 128 MiB; write one file for each trace")]
    TooLarge,
    /// It is not JSON.
    #[error("read its JSON: {0}")]
    Json(#[from] serde_json::Error),
    /// The JSON has another format.
    #[error(
        "find a trace in its JSON; supported formats are `trace show --json` of bench and of OSProfiler, the \
         traces of a run directory, records (an array, or one per line), OTLP (a request, or one per line), and what \
         Jaeger, Tempo and Grafana save"
    )]
    Unknown,
}

/// An open file or pipe. It is opened and read only once.
pub struct OpenTraceFile {
    /// Its kind, by its first character.
    pub kind: TraceFileKind,
    /// Its whole contents.
    pub reader: Box<dyn BufRead>,
}

/// Opens a file that the user names, which may be a pipe, and detects its kind.
///
/// # Errors
/// Fails if it cannot be read.
pub fn open(path: &Path) -> io::Result<OpenTraceFile> {
    opened(open_named(path)?)
}

/// Opens a file that was found in a run's directory. That may come from elsewhere, so a pipe or device in it, which
/// might never end, is refused.
///
/// # Errors
/// Fails if it is not a regular file or cannot be read.
pub fn open_stored(path: &Path) -> io::Result<OpenTraceFile> {
    opened(open_regular(path)?)
}

fn opened(file: impl io::Read + 'static) -> io::Result<OpenTraceFile> {
    let mut reader = BufReader::new(file);
    let begins = |byte: &&u8| !byte.is_ascii_whitespace() && !b"\xef\xbb\xbf".contains(byte);
    while reader.fill_buf().is_err_and(|error| error.kind() == io::ErrorKind::Interrupted) {}
    let kind = match reader.fill_buf()?.iter().find(begins) {
        Some(b'{' | b'[') => TraceFileKind::Json,
        _ => TraceFileKind::Log,
    };
    Ok(OpenTraceFile { kind, reader: Box::new(reader) })
}

/// Reads the traces of a file: all, or those whose ids begin with one of `ids`.
///
/// # Errors
/// Fails if the file cannot be read, is too large, or contains no trace.
pub fn load(opened: OpenTraceFile, ids: &[String]) -> Result<TraceFileContents, FileError> {
    let mut gathered = TraceFileAccumulator { ids, ..TraceFileAccumulator::default() };
    let OpenTraceFile { kind, reader } = opened;
    match kind {
        TraceFileKind::Log => profile_log::each_line(reader, |number, line| match line {
            Ok(line) => gathered.add(line.record()),
            Err(LineError::Blank) => {}
            Err(error) => gathered.reject(|| format!("line {number} {error}")),
        })?,
        TraceFileKind::Json => {
            match lines::first(reader)? {
                FileBeginning::Line { line, rest } => lines::read(Some(line), rest, &mut gathered)?,
                FileBeginning::Other { mut begins, rest } => {
                    rest.take((JSON_BYTES_MAX + 1).saturating_sub(begins.len() as u64))
                        .read_to_end(&mut begins)?;
                    if begins.len() as u64 > JSON_BYTES_MAX {
                        return Err(FileError::TooLarge);
                    }
                    json(without_mark(&begins), &mut gathered)?;
                }
            }
            // In a log, an unreadable line may come from another program. In JSON it counts as a record.
            let unreadable =
                gathered.stated_unreadable.saturating_add(gathered.loaded.malformed - gathered.timeless);
            let partial = gathered.partial;
            for trace in &mut gathered.loaded.traces {
                trace.unreadable = unreadable;
                trace.partial.clone_from(&partial);
            }
        }
    }
    Ok(gathered.loaded)
}

/// Text without the mark of UTF-8.
fn without_mark(text: &[u8]) -> &[u8] {
    text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text)
}

#[derive(Default)]
struct TraceFileAccumulator<'a> {
    loaded: TraceFileContents,
    /// All records that are kept.
    records: usize,
    places: HashMap<String, usize>,
    /// The number of unreadable records that the file states.
    stated_unreadable: u64,
    /// How many records have no time: traces count their own.
    timeless: u64,
    /// That the file has only a part, and why, if it says so.
    partial: Option<String>,
    ids: &'a [String],
}

impl TraceFileAccumulator<'_> {
    fn add(&mut self, record: TraceRecord) {
        if !self.ids.is_empty() && !self.ids.iter().any(|id| record.base_id.starts_with(id.as_str())) {
            if self.loaded.others.len() < OTHERS_MAX
                && !self.loaded.others.iter().any(|known| record.base_id == *known)
            {
                self.loaded.others.push(record.base_id.to_string());
            }
            return;
        }
        // The trace counts it, too: once, in the end.
        if record.timestamp_us().is_none() {
            self.timeless += 1;
            self.reject(|| format!("a record of trace {} has no time", record.base_id));
        }
        let place = self.place(&record.base_id);
        let records = &mut self.loaded.traces[place].records;
        if records.len() < TRACE_RECORDS_MAX && self.records < RECORDS_MAX {
            records.push(record);
            self.records += 1;
        } else {
            self.loaded.left_out += 1;
        }
    }

    /// The index of a trace. Records of one trace mostly follow each other.
    fn place(&mut self, base_id: &str) -> usize {
        let traces = &mut self.loaded.traces;
        if traces.last().is_some_and(|last| last.base_id == base_id) {
            return traces.len() - 1;
        }
        *self.places.entry(base_id.to_owned()).or_insert_with(|| {
            traces.push(TraceRecords {
                base_id: base_id.to_owned(),
                records: Vec::new(),
                unreadable: 0,
                partial: None,
                style: ReportStyle::Records,
            });
            traces.len() - 1
        })
    }

    fn add_json(&mut self, value: Value, place: impl Fn() -> String) {
        // `redis-cli --json LRANGE` prints records in strings.
        let value = match value {
            Value::String(text) => serde_json::from_str(&text).unwrap_or(Value::String(text)),
            value => value,
        };
        match serde_json::from_value::<TraceRecord>(value) {
            Ok(record) if record.timestamp_us().is_some() => self.add(record),
            Ok(_) => self.reject(|| format!("{} has a timestamp that cannot be read", place())),
            Err(error) => self.reject(|| format!("{}: {error}", place())),
        }
    }

    /// Adds the spans of an OTLP request, or of an answer with one.
    fn add_otlp(&mut self, request: &[u8], place: impl Fn() -> String) {
        self.add_spans(json_spans::decode(request), place);
    }

    fn add_spans(&mut self, decoded: Result<DecodedSpans, SpanError>, place: impl Fn() -> String) {
        let DecodedSpans { spans, faults, partial } = match decoded {
            Ok(decoded) => decoded,
            Err(error) => {
                let why =
                    std::error::Error::source(&error).map_or_else(String::new, |why| format!(": {why}"));
                return self.reject(|| format!("{}: {error}{why}", place()));
            }
        };
        if let Some(first) = faults.first {
            self.reject(|| format!("{}: {first}", place()));
            self.loaded.malformed += faults.count - 1;
        }
        self.partial = self.partial.take().or(partial);
        let traces = read::traces(&spans);
        discard(spans);
        for (_, records) in traces {
            records.into_iter().for_each(|record| self.add(record));
        }
    }

    /// Reports have the order of their tree, redis lists have the newest record first, and services send their spans
    /// at different times.
    fn sort(&mut self) {
        for trace in &mut self.loaded.traces {
            let time = |record: Option<&TraceRecord>| record.and_then(TraceRecord::timestamp_us);
            if time(trace.records.first()) > time(trace.records.last()) {
                trace.records.reverse();
            }
            trace.records.sort_by_key(TraceRecord::timestamp_us);
        }
    }

    fn reject(&mut self, why: impl Fn() -> String) {
        self.loaded.malformed += 1;
        self.loaded.first_malformed.get_or_insert_with(why);
    }
}

/// A trace of a run directory.
#[derive(serde::Deserialize)]
struct RunDirectoryTrace {
    records: Vec<TraceRecord>,
    #[serde(default)]
    unreadable: u64,
    #[serde(default)]
    partial: Option<String>,
}

/// Reads a trace of a run directory if every record of it can be read: a large one takes a fifth of the memory that its
/// JSON as values takes.
fn of_run(text: &[u8]) -> Option<RunDirectoryTrace> {
    let trace: RunDirectoryTrace = text.starts_with(OF_RUN).then(|| serde_json::from_slice(text).ok())??;
    trace.records.iter().all(|record| record.timestamp_us().is_some()).then_some(trace)
}

/// How the trace of a run directory begins.
const OF_RUN: &[u8] = b"{\"trace_id\":";

fn json(text: &[u8], gathered: &mut TraceFileAccumulator<'_>) -> Result<(), FileError> {
    if let Some(trace) = of_run(text) {
        gathered.stated_unreadable = trace.unreadable;
        gathered.partial = trace.partial;
        trace.records.into_iter().for_each(|record| gathered.add(record));
        gathered.sort();
        return Ok(());
    }
    // A large document of spans is read once, not as values first.
    if lines::begins_as_otlp(text)
        && let Ok(decoded) = json_spans::decode(text)
        && !decoded.spans.is_empty()
    {
        gathered.add_spans(Ok(decoded), || "the request".to_owned());
        gathered.sort();
        return Ok(());
    }
    const OWN: [&str; 6] = ["records", "children", "trace_id", "timestamp", "unreadable", "partial"];
    if let Some(shape) =
        Shape::of(text).filter(|shape| has_spans(shape) && !OWN.iter().any(|key| shape.has(key)))
    {
        return spans(text, &shape, gathered);
    }
    let document = match deep(text) {
        Ok(document) => document,
        // Several objects on separate lines; the first is unreadable.
        Err(error) if error.line() > 1 && text.starts_with(b"{\"") => {
            lines::read(None, Box::new(io::Cursor::new(text.to_vec())), gathered)?;
            return if gathered.loaded.traces.is_empty() { Err(error.into()) } else { Ok(()) };
        }
        Err(error) => return Err(error.into()),
    };
    match document {
        // A list of answers or requests.
        Value::Array(documents) if documents.iter().any(|one| has_spans(&Shape::of_value(one))) => {
            for document in documents {
                let text = document.to_string();
                let shape = Shape::of_value(&document);
                match document.is_object().then(|| spans(text.as_bytes(), &shape, gathered)) {
                    Some(Ok(())) => {}
                    _ => gathered.reject(|| "an element has no spans".to_owned()),
                }
            }
        }
        Value::Array(records) => {
            for (index, record) in records.into_iter().enumerate() {
                gathered.add_json(record, || format!("record {index}"));
            }
        }
        Value::Object(mut object) => {
            gathered.stated_unreadable = object.get("unreadable").and_then(Value::as_u64).unwrap_or(0);
            gathered.partial = object.get("partial").and_then(Value::as_str).map(str::to_owned);
            if let Some(Value::Array(records)) = object.remove("records") {
                for (index, record) in records.into_iter().enumerate() {
                    gathered.add_json(record, || format!("record {index}"));
                }
            } else if let Some(Value::Array(children)) = object.remove("children") {
                let first_unix_us = object.get("first_unix_us").and_then(Value::as_i64).unwrap_or(0);
                let base_id = object.get("base_id").and_then(Value::as_str).unwrap_or_default();
                report(children, base_id, first_unix_us, gathered);
            } else if object.contains_key("trace_id") && object.contains_key("timestamp") {
                gathered.add_json(Value::Object(object), || "the record".to_owned());
            } else {
                return spans(text, &Shape::of_value(&Value::Object(object)), gathered);
            }
        }
        _ => return Err(FileError::Unknown),
    }
    gathered.sort();
    Ok(())
}

/// Fewer spans than this are not worth a thread.
const SPANS_OF_THREAD_MIN: usize = 4_000;

/// Frees spans. Of a large trace that takes a tenth of the time to show it, so it is done meanwhile.
fn discard(spans: Vec<TraceSpan>) {
    if spans.len() >= SPANS_OF_THREAD_MIN {
        // If no thread starts, they are freed here.
        let _ = std::thread::Builder::new().spawn(move || drop(spans));
    }
}

/// Whether an object is a request of OTLP, or an answer or a download with spans.
fn has_spans(object: &Shape) -> bool {
    lines::is_of_otlp(object)
        || object.object("trace").is_some_and(lines::is_of_otlp)
        || object.is_list("spans")
        || object.is_list("data")
}

/// Reads a request of OTLP, or what Tempo, Jaeger or Grafana answers and saves.
fn spans(text: &[u8], object: &Shape, gathered: &mut TraceFileAccumulator<'_>) -> Result<(), FileError> {
    let is_otlp = lines::is_of_otlp(object) || object.has("trace");
    if is_otlp && has_spans(object) {
        gathered.add_otlp(text, || "the request".to_owned());
    } else if has_spans(object) {
        gathered.add_spans(jaeger::decode(text), || "the answer".to_owned());
    } else if !lines::is_of_other_signal(object) {
        return Err(FileError::Unknown);
    }
    gathered.sort();
    Ok(())
}

/// Reads JSON deeper than serde_json's limit of 128 levels, as OSProfiler's reports can be. Runs on a thread with a
/// stack that is large enough for [`DEPTH_MAX`].
fn deep(text: &[u8]) -> serde_json::Result<Value> {
    let read = || {
        let mut deserializer = serde_json::Deserializer::from_slice(text);
        if depth(text) <= DEPTH_MAX {
            deserializer.disable_recursion_limit();
        }
        let value = Value::deserialize(&mut deserializer)?;
        deserializer.end().map(|()| value)
    };
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(STACK_BYTES).spawn_scoped(scope, read);
        let read = thread.map_err(serde_json::Error::io)?.join();
        read.unwrap_or_else(|_| Err(serde_json::Error::io(io::Error::other("the reader ended unexpectedly"))))
    })
}

/// The largest nesting depth of arrays and objects.
fn depth(text: &[u8]) -> usize {
    let (mut open, mut deepest, mut in_text, mut escaped) = (0_usize, 0, false, false);
    for byte in text {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_text => escaped = true,
            b'"' => in_text = !in_text,
            b'[' | b'{' if !in_text => {
                open += 1;
                deepest = deepest.max(open);
            }
            b']' | b'}' if !in_text => open = open.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

/// The records behind a report. OSProfiler's report contains whole records; for ours they are rebuilt from the points.
fn report(children: Vec<Value>, base_id: &str, first_unix_us: i64, gathered: &mut TraceFileAccumulator<'_>) {
    let mut waiting = children;
    while let Some(mut node) = waiting.pop() {
        if let Some(Value::Array(children)) = node.get_mut("children").map(Value::take) {
            waiting.extend(children);
        }
        let Some(Value::Object(info)) = node.get_mut("info").map(Value::take) else {
            gathered.reject(|| "a point has no info".to_owned());
            continue;
        };
        let raw = |key: &str| key.starts_with("meta.raw_payload.");
        if info.keys().any(|key| raw(key)) {
            for (key, value) in info.into_iter().filter(|(key, _)| raw(key)) {
                gathered.add_json(value, || key.clone());
            }
        } else if !own_point(&node, &info, base_id, first_unix_us, gathered) {
            gathered.reject(|| "a point has neither records nor times".to_owned());
        }
    }
}

/// Rebuilds both records of a point from `bench trace show --json`.
fn own_point(
    node: &Value,
    info: &Info,
    base_id: &str,
    first_unix_us: i64,
    gathered: &mut TraceFileAccumulator<'_>,
) -> bool {
    let text = |key: &str| info.get(key).and_then(Value::as_str).map(str::to_owned);
    let id = |key: &str| node.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (Some(name), Some(start_us)) = (text("name"), info.get("start_us").and_then(Value::as_i64)) else {
        return false;
    };
    let host = text("host").map(Value::String);
    let record = |suffix: &str, at_us: i64, key: &str| {
        let mut info = info.get(key).and_then(Value::as_object).cloned().unwrap_or_default();
        if let (Some(host), false) = (&host, info.contains_key("host")) {
            info.insert("host".to_owned(), host.clone());
        }
        let unix_us = first_unix_us.saturating_add(at_us).max(0).unsigned_abs();
        TraceRecord {
            name: format!("{name}{suffix}").into(),
            base_id: base_id.into(),
            trace_id: id("trace_id").into(),
            parent_id: id("parent_id").into(),
            timestamp: Timestamp::from_unix_ns(unix_us.saturating_mul(1_000)),
            info: info.into(),
            project: text("project").map(Into::into),
            service: text("service").map(Into::into),
        }
    };
    let missing = text("missing");
    let number = |key: &str| info.get(key).and_then(Value::as_i64);
    let took_us = number("duration_us").or_else(|| number("reversed_us").map(i64::saturating_neg));
    if missing.as_deref() != Some("start") {
        gathered.add(record(START_SUFFIX, start_us, "start"));
    }
    match missing.as_deref() {
        Some("stop") => {}
        Some("start") => gathered.add(record(STOP_SUFFIX, start_us, "stop")),
        // Without a duration, it is unknown when it stopped.
        _ => took_us.into_iter().for_each(|took_us| {
            gathered.add(record(STOP_SUFFIX, start_us.saturating_add(took_us), "stop"));
        }),
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::Write as _;

    fn load_bytes(bytes: &[u8]) -> Result<TraceFileContents, FileError> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), bytes).unwrap();
        load(open(file.path())?, &[])
    }

    const RAW: &str = include_str!("../../tests/vectors/traces/get-v3.redis-raw.json");
    const REPORT: &str = include_str!("../../tests/vectors/traces/get-v3.report.json");
    const LOG: &str = include_str!("../../tests/vectors/mistral/1-seed-doc.log");

    #[test]
    fn a_file_of_lines_may_be_larger_than_a_document() {
        let raw = load_bytes(RAW.as_bytes()).unwrap();
        let line = serde_json::to_string(&raw.traces[0].records[0]).unwrap() + "\n";
        let other = line.replace(&raw.traces[0].base_id, "00000000-0000-4000-8000-000000000000");
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let times = JSON_BYTES_MAX as usize / other.len() + 1;
        for part in [line.as_bytes(), other.repeat(times).as_bytes(), b"{\"cut\": ", b"\n", line.as_bytes()] {
            file.write_all(part).unwrap();
        }
        let ids = [raw.traces[0].base_id[..8].to_owned()];
        let loaded = load(open(file.path()).unwrap(), &ids).unwrap();
        assert_eq!((loaded.traces.len(), loaded.traces[0].records.len()), (1, 2));
        assert_eq!((loaded.malformed, loaded.others.len()), (0, 1), "lines of other traces are not parsed");
    }

    #[test]
    fn requests_of_otlp_are_read_whole_or_in_lines() {
        let span = |id: &str, parent: &str, start: u64| {
            format!(
                r#"{{"traceId":"0af7651916cd43dd8448eb211c80319c","spanId":"{id}","parentSpanId":"{parent}","name":"GET /","kind":2,"startTimeUnixNano":"{start}","endTimeUnixNano":"{}"}}"#,
                start + 1_000_000
            )
        };
        let request =
            |spans: &str| format!(r#"{{"resourceSpans":[{{"scopeSpans":[{{"spans":[{spans}]}}]}}]}}"#);
        let (one, two) = (
            span("b7ad6b7169203331", "", 5_000_000),
            span("00f067aa0ba902b7", "b7ad6b7169203331", 5_500_000),
        );
        let whole = request(&format!("{one},{two}"));
        // The child is sent first.
        let lines = format!("{}\n{}\n", request(&two), request(&one));
        let pretty: serde_json::Value = serde_json::from_str(&whole).unwrap();
        for text in [whole, lines, format!("{pretty:#}")] {
            let loaded = load_bytes(text.as_bytes()).unwrap();
            assert_eq!((loaded.traces.len(), loaded.malformed), (1, 0), "{text}");
            assert_eq!(loaded.traces[0].base_id, "0af76519-16cd-43dd-8448-eb211c80319c");
            let tree = TraceTree::build(&loaded.traces[0].records);
            let points: Vec<_> = tree.points.iter().map(|point| (point.depth, point.duration_us)).collect();
            assert_eq!(points, [(0, Some(1000)), (1, Some(1000))], "{text}");
        }
        let damaged = load_bytes(br#"{"resourceSpans":[{"scopeSpans":3}]}"#).unwrap();
        let first = "line 1: scopeSpans has an invalid value: 3";
        assert_eq!((damaged.malformed, damaged.first_malformed.as_deref()), (1, Some(first)));
        // A warning and the trace count the same: here, an item that is no span and a span without a time.
        let timeless =
            r#"{"traceId":"0af7651916cd43dd8448eb211c80319c","spanId":"00f067aa0ba902b8","name":"x"}"#;
        let partly = load_bytes(request(&format!("{one},{timeless},5")).as_bytes()).unwrap();
        assert_eq!((partly.malformed, partly.traces[0].tree().unreadable), (2, 2));
    }

    #[test]
    fn every_format_gives_the_same_trace() {
        let raw = load_bytes(RAW.as_bytes()).unwrap();
        assert_eq!((raw.traces.len(), raw.traces[0].records.len(), raw.malformed), (1, 2, 0));
        let records = &raw.traces[0].records;
        assert_eq!(records[0].name, "wsgi-start");
        let array = serde_json::to_string(records).unwrap();
        let lines: Vec<String> =
            records.iter().map(|record| serde_json::to_string(record).unwrap()).collect();
        let stored =
            serde_json::json!({"trace_id": records[0].base_id, "state": "complete", "records": records});
        let with_mark = format!("\u{feff}\n {array}");
        for form in
            [REPORT, &array, &lines.join("\n"), &lines.join("\r\n\n"), &stored.to_string(), &with_mark]
        {
            assert_eq!(load_bytes(form.as_bytes()).unwrap().traces, raw.traces, "{form}");
        }
        assert_eq!(load_bytes(b"").unwrap().traces, []);
        assert!(matches!(load_bytes(b"{\"a\": 1}"), Err(FileError::Unknown)));
        assert!(matches!(load_bytes(b"{\"a\": "), Err(FileError::Json(_))));
        let nested =
            format!("{{\"children\": {}{}}}", "[{\"info\":{},\"children\":".repeat(1_500), "1".repeat(3));
        assert!(matches!(load_bytes(nested.as_bytes()), Err(FileError::Json(_))));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]

        #[test]
        fn no_file_makes_it_panic(
            which in 0..3usize, cut in any::<prop::sample::Index>(), bytes: Vec<u8>, drop in 0..40usize,
        ) {
            let text = [RAW, REPORT, LOG][which].as_bytes();
            let at = cut.index(text.len());
            let rest = &text[(at + drop).min(text.len())..];
            for content in [bytes.clone(), [&text[..at], &bytes, rest].concat()] {
                if let Ok(loaded) = load_bytes(&content) {
                    for trace in loaded.traces {
                        prop_assert!(TraceTree::build(&trace.records).points.len() <= trace.records.len());
                    }
                }
            }
        }
    }
}
