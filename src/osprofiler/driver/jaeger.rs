//! Jaeger, to read: the JSON API of its query service (`/api/traces`), as its own pages use it.
//!
//! What wrote the spans does not matter: OSProfiler's OTLP driver, ours, or any OpenTelemetry
//! service. Traces are asked for raw, so that Jaeger does not move spans to correct clocks. Listing
//! shows what Jaeger answers without a time range: the traces of the last two days.
//! Tested against in-process servers with answers of documented shape, never against Jaeger itself.

use std::collections::HashMap;

use serde_json::Value;

use super::http::{Http, HttpAnswer};
use super::{Answer, Driver, DriverError, Stored, TraceQuery, TraceSummary};
use crate::osprofiler::record::{Record, START_SUFFIX, STOP_SUFFIX};
use crate::osprofiler::spans::{Span, SpanError, jaeger, read, trace_id};

const DEFAULT_PORT: u16 = 16_686;
const JSON: &str = "application/json";
/// Services that are asked for their traces.
const SERVICES_MAX: usize = 100;
/// Traces for each answer.
const TRACES_MAX: usize = 1_000;

/// A query service of Jaeger; see [`super::Collector`].
#[derive(Debug)]
pub(super) struct JaegerCollector {
    http: Http,
}

impl JaegerCollector {
    pub(super) async fn connect(url: &str, target: String) -> Result<Self, DriverError> {
        let scheme = if url.starts_with("jaeger+https://") { "https" } else { "http" };
        let collector = Self { http: Http::new(url, target, scheme, DEFAULT_PORT)? };
        collector.services().await?;
        Ok(collector)
    }

    async fn records(&self, base_id: &str) -> Result<Vec<Record>, DriverError> {
        let path = format!("/api/traces/{:032x}", trace_id(base_id));
        let answer = self.http.get(&path, &[("raw", "true")], JSON).await?;
        if answer.status == 404 {
            return Ok(Vec::new());
        }
        let spans = self.decoded(&answer, jaeger::decode).map_err(|error| too_large(error, base_id))?;
        Ok(read::records(base_id, &spans))
    }

    async fn services(&self) -> Result<Vec<String>, DriverError> {
        let answer = self.http.get("/api/services", &[], JSON).await?;
        self.decoded(&answer, jaeger::decode_services)
    }

    async fn list(&self, query: &TraceQuery) -> Result<Vec<TraceSummary>, DriverError> {
        let limit = query.limit.clamp(1, TRACES_MAX).to_string();
        let mut traces: HashMap<u128, Vec<Span>> = HashMap::new();
        for service in self.services().await?.iter().take(SERVICES_MAX) {
            let mut parameters = vec![("service", service.as_str()), ("limit", &limit)];
            if query.errors_only {
                parameters.push(("tags", r#"{"error":"true"}"#));
            }
            let answer = self.http.get("/api/traces", &parameters, JSON).await?;
            let mut found: HashMap<u128, Vec<Span>> = HashMap::new();
            for span in self.decoded(&answer, jaeger::decode)? {
                found.entry(span.trace_id).or_default().push(span);
            }
            traces.extend(found);
        }
        let mut summaries: Vec<TraceSummary> =
            traces.iter().filter_map(|(id, spans)| summary(*id, spans)).collect();
        summaries.retain(|summary| !query.errors_only || summary.failed == Some(true));
        summaries
            .sort_by(|one, other| (&other.timestamp, &other.base_id).cmp(&(&one.timestamp, &one.base_id)));
        summaries.truncate(query.limit);
        Ok(summaries)
    }

    fn decoded<T>(
        &self,
        answer: &HttpAnswer,
        decode: impl FnOnce(&[u8]) -> Result<T, SpanError>,
    ) -> Result<T, DriverError> {
        if answer.status != 200 {
            return Err(self.http.refused("read from", answer));
        }
        decode(&answer.body).map_err(|error| failed(self.http.target(), error))
    }
}

/// The error of an answer that cannot be decoded.
pub(super) fn failed(target: &str, error: SpanError) -> DriverError {
    let target = target.to_owned();
    match error {
        // The trace is filled in where it is known.
        SpanError::TooMany => DriverError::TooLarge { base_id: String::new(), target },
        error => DriverError::Request { action: "read from", target, source: error.into() },
    }
}

/// Says which trace is too large.
pub(super) fn too_large(error: DriverError, base_id: &str) -> DriverError {
    match error {
        DriverError::TooLarge { target, .. } => DriverError::TooLarge { base_id: base_id.to_owned(), target },
        other => other,
    }
}

/// What a list shows of a trace whose spans are all here.
fn summary(id: u128, spans: &[Span]) -> Option<TraceSummary> {
    let base_id = read::base_id(id, spans);
    let records = read::records(&base_id, spans);
    let first = records.first()?;
    let name = first.name.strip_suffix(START_SUFFIX).or_else(|| first.name.strip_suffix(STOP_SUFFIX));
    let failed = |record: &Record| !record.info.get("etype").is_none_or(Value::is_null);
    Some(TraceSummary {
        timestamp: first.timestamp.clone(),
        records: Some(records.len() as u64),
        name: name.map(str::to_owned),
        failed: Some(records.iter().any(failed)),
        base_id,
    })
}

impl Driver for JaegerCollector {
    fn write<'a>(&'a self, _records: &'a [Record]) -> Answer<'a, ()> {
        let target = self.http.target().to_owned();
        let reason = "Jaeger takes spans by OTLP; write to otlp://host:4318";
        Box::pin(std::future::ready(Err(DriverError::NotOffered { action: "write to", target, reason })))
    }

    fn records<'a>(&'a self, base_id: &'a str) -> Answer<'a, Stored> {
        Box::pin(async move { self.records(base_id).await.map(Stored::from) })
    }

    fn list<'a>(&'a self, query: &'a TraceQuery) -> Answer<'a, Vec<TraceSummary>> {
        Box::pin(self.list(query))
    }

    fn probe(&self) -> Answer<'_, ()> {
        Box::pin(async { self.services().await.map(|_| ()) })
    }

    fn target(&self) -> &str {
        self.http.target()
    }
}
