//! Records as JSON lines, as OSProfiler's own example of a collector writes them: one object a line.
//!
//! Nothing is lost in this format. A line that is not a record is skipped, and counted if it names the trace.

use std::collections::HashMap;
use std::io::{self, BufReader};
use std::path::Path;

use super::CollectorTrace;
use super::regular_file::regular;
use crate::profile_log::each_text;
use crate::record::{TRACE_BYTES_MAX, TRACE_RECORDS_MAX, TraceRecord, point_name};
use crate::summary::{TRACES_MAX, TraceQuery, TraceSummary};

/// Writes one line for each record. JSON never contains a line break, even if its strings do.
pub(super) fn lines(records: &[TraceRecord]) -> String {
    let mut text = String::new();
    for line in records.iter().filter_map(|record| serde_json::to_string(record).ok()) {
        text.push_str(&line);
        text.push('\n');
    }
    text
}

/// A trace's records in the order of the file; `None` for a trace over the limits.
pub(super) fn find(path: &Path, base_id: &str, target: &str) -> io::Result<Option<CollectorTrace>> {
    let quoted = serde_json::to_string(base_id)?;
    let (mut stored, mut bytes) = (CollectorTrace::default(), 0);
    each_text(BufReader::new(regular(path)?), |_, text| {
        // Most lines are of other traces; ids that JSON can write in two ways are rare, and are not found.
        let Some(text) = text.ok().filter(|text| text.contains(&quoted)) else { return };
        let decoded = TraceRecord::decode(text.as_bytes());
        if decoded.as_ref().is_ok_and(|found| found.base_id != base_id) {
            return;
        }
        bytes += text.len();
        if stored.seen() <= TRACE_RECORDS_MAX && bytes <= TRACE_BYTES_MAX {
            stored.add(base_id, target, decoded);
        }
    })?;
    let fits = stored.seen() <= TRACE_RECORDS_MAX && bytes <= TRACE_BYTES_MAX;
    Ok(fits.then_some(stored))
}

pub(super) fn summaries(path: &Path, query: &TraceQuery) -> io::Result<Vec<TraceSummary>> {
    let mut traces: HashMap<String, TraceSummary> = HashMap::new();
    each_text(BufReader::new(regular(path)?), |_, text| {
        let Some(record) = text.ok().and_then(|text| TraceRecord::decode(text.as_bytes()).ok()) else {
            return;
        };
        if traces.len() >= TRACES_MAX && !traces.contains_key(record.base_id.as_str()) {
            return;
        }
        let trace = traces.entry(record.base_id.to_string()).or_insert_with(|| TraceSummary {
            base_id: record.base_id.to_string(),
            timestamp: record.timestamp.to_string(),
            records: Some(0),
            name: Some(point_name(&record.name).to_owned()),
            failed: Some(false),
        });
        trace.records = trace.records.map(|records| records + 1);
        if record.info.contains_key("etype") {
            trace.failed = Some(true);
        }
    })?;
    Ok(query.newest(traces))
}
