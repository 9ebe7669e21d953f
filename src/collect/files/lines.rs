//! JSON with an object on each line: records of OSProfiler, or requests of OTLP. Such a file may have any size, so it is
//! read line by line. A collector of OpenTelemetry writes all its signals to one file: metrics, logs and profiles are no
//! damage.

use std::io::{self, BufRead, Read as _};

use memchr::memmem;

use super::shape::Shape;
use super::{FileError, TraceFileAccumulator, without_mark};
use osprofiler::record::RECORD_LEN_MAX;

/// The keys of an OTLP request with spans, the second is Tempo's.
const OTLP: [&str; 2] = ["resourceSpans", "batches"];
/// The keys of requests of OTLP's other signals.
const OTHER_SIGNALS: [&str; 4] = ["resourceMetrics", "resourceLogs", "resourceProfiles", "scopeProfiles"];
/// The number of bytes of a line that are looked at to see what it is.
const KEY_BYTES_MAX: usize = 64;
/// A longer line is skipped. A request of OTLP has many spans.
const LINE_BYTES_MAX: usize = 16 << 20;

/// Beyond this line, lines that do not contain a wanted id are not parsed.
const ALL_PARSED: u64 = 1_000;

/// How a file begins.
pub(super) enum FileBeginning {
    /// With an object on its first line.
    Line { line: Vec<u8>, rest: Box<dyn BufRead> },
    /// With another document, perhaps over many lines.
    Other { begins: Vec<u8>, rest: Box<dyn BufRead> },
}

/// Looks at the first line with text.
pub(super) fn first(mut reader: Box<dyn BufRead>) -> io::Result<FileBeginning> {
    let mut begins = Vec::new();
    while begins.iter().all(u8::is_ascii_whitespace) || without_mark(&begins).is_empty() {
        let limit = LINE_BYTES_MAX.saturating_sub(begins.len()) as u64;
        if reader.by_ref().take(limit).read_until(b'\n', &mut begins)? == 0 {
            break;
        }
    }
    // What does not end here is no object on a line: all of it would be read for nothing.
    let ends = begins.len() < LINE_BYTES_MAX || begins.ends_with(b"\n");
    let shape = if ends { Shape::of(without_mark(&begins).trim_ascii()) } else { None };
    Ok(match shape {
        Some(shape) if is_record(&shape) || is_of_otlp(&shape) || is_of_other_signal(&shape) => {
            FileBeginning::Line { line: begins, rest: reader }
        }
        _ => FileBeginning::Other { begins, rest: reader },
    })
}

/// Whether an object is a request of OTLP with spans, or looks so.
pub(super) fn is_of_otlp(object: &Shape) -> bool {
    OTLP.iter().any(|key| object.has(key) && !object.is_text(key))
}

/// Whether an object is a request of another signal of OTLP's.
pub(super) fn is_of_other_signal(object: &Shape) -> bool {
    OTHER_SIGNALS.iter().any(|key| object.is_list(key))
}

/// Whether a document begins as a request of OTLP does.
pub(super) fn begins_as_otlp(document: &[u8]) -> bool {
    begins_with(document, &OTLP)
}

/// Whether a line begins with one of these keys.
fn begins_with(line: &[u8], keys: &[&str]) -> bool {
    let begins = &line[..line.len().min(KEY_BYTES_MAX)];
    keys.iter().any(|key| {
        let Some(at) = memmem::find(begins, key.as_bytes()) else { return false };
        // Not within a text, and not a value.
        let quotes = begins[..at].iter().filter(|byte| **byte == b'"').count();
        let behind = begins[at + key.len()..].strip_prefix(b"\"").map(<[u8]>::trim_ascii_start);
        begins[..at].ends_with(b"\"") && quotes % 2 == 1 && behind.is_some_and(|rest| rest.starts_with(b":"))
    })
}

fn is_record(object: &Shape) -> bool {
    ["base_id", "trace_id", "timestamp"].iter().all(|key| object.has(key))
}

/// Reads the first line, if it has been read already, and all others.
pub(super) fn read(
    first: Option<Vec<u8>>,
    mut rest: Box<dyn BufRead>,
    gathered: &mut TraceFileAccumulator<'_>,
) -> Result<(), FileError> {
    let mut number = u64::from(first.is_some());
    if let Some(line) = first {
        one(without_mark(&line).trim_ascii(), number, gathered);
    }
    let mut line = Vec::new();
    while rest.by_ref().take(LINE_BYTES_MAX as u64 + 1).read_until(b'\n', &mut line)? > 0 {
        number += 1;
        if line.len() > LINE_BYTES_MAX {
            gathered.reject(|| format!("line {number} is too long"));
            rest.skip_until(b'\n')?;
        } else {
            one(line.trim_ascii(), number, gathered);
        }
        line.clear();
    }
    gathered.sort();
    Ok(())
}

fn one(line: &[u8], number: u64, gathered: &mut TraceFileAccumulator<'_>) {
    let is_wanted = || {
        number <= ALL_PARSED
            || gathered.ids.is_empty()
            || gathered.ids.iter().any(|id| memmem::find(line, id.as_bytes()).is_some())
    };
    if line.is_empty() || begins_with(line, &OTHER_SIGNALS) {
        return;
    }
    // The ids of OTLP have no dashes, so these lines are not looked through.
    if begins_with(line, &OTLP) {
        return gathered.add_otlp(line, || format!("line {number}"));
    }
    if !is_wanted() {
        return;
    }
    match serde_json::from_slice(line) {
        Ok(value) if line.len() <= RECORD_LEN_MAX => gathered.add_json(value, || format!("line {number}")),
        Ok(_) => gathered.reject(|| format!("line {number} is too long")),
        Err(error) => gathered.reject(|| format!("line {number}: {error}")),
    }
}
