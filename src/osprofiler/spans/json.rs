//! OTLP traces as JSON: as the specification has it, as Tempo answers, and as Grafana saves them.
//!
//! Tempo's first API names the list `batches`, its second puts all under `trace`; both write ids in
//! base64, where the specification has hexadecimal digits, and old ones name scopes
//! `instrumentationLibrary`. All of it is read, by [`translate`].

use serde::Deserialize;
use serde_json::Value;

use super::{BoundedList, DecodedSpans, SPANS_MAX, SpanError, protobuf, translate};

/// The spans of an answer; none if it holds none. What of it cannot be read is counted.
///
/// # Errors
/// No JSON object, or too many spans.
pub fn decode(body: &[u8]) -> Result<DecodedSpans, SpanError> {
    let translate::TranslatedRequest { bytes, faults, partial } = translate::of_answer(body)?;
    let mut decoded = DecodedSpans { spans: Vec::new(), faults, partial };
    protobuf::decode_into(&bytes, &mut decoded)?;
    Ok(decoded)
}

fn unsigned(value: &Value) -> u64 {
    value.as_u64().or_else(|| value.as_str()?.parse().ok()).unwrap_or(0)
}

/// What a search of Tempo found.
#[derive(Debug, Default, Deserialize)]
pub struct TempoSearchAnswer {
    #[serde(default)]
    traces: BoundedList<FoundTrace, SPANS_MAX>,
}

/// A trace that a search of Tempo found.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FoundTrace {
    #[serde(rename = "traceID")]
    trace_id: String,
    #[serde(default)]
    root_trace_name: String,
    #[serde(default)]
    start_time_unix_nano: Value,
}

/// The traces of an answer to a search: id, start in nanoseconds, and the root's name if known.
///
/// # Errors
/// No JSON of that shape, or an id that is none.
pub fn decode_search(body: &[u8]) -> Result<Vec<(u128, u64, Option<String>)>, SpanError> {
    let found: TempoSearchAnswer = serde_json::from_slice(body).map_err(SpanError::Json)?;
    let traces = found.traces.0.into_iter().map(|trace| {
        // Tempo leaves leading zeros out.
        let id = super::jaeger::hex_id(&trace.trace_id)?;
        // This text marks a root that has not arrived.
        let known = |name: &String| !name.is_empty() && name != "<root span not yet received>";
        Ok((id, unsigned(&trace.start_time_unix_nano), Some(trace.root_trace_name).filter(known)))
    });
    traces.collect()
}
