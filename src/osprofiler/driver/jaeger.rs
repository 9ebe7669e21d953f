//! Jaeger, to read: the JSON API of its query service (`/api/traces`), as its own pages use it.
//!
//! What wrote the spans does not matter: OSProfiler's OTLP driver, ours, or any OpenTelemetry
//! service. Traces are asked for raw, so that Jaeger does not move spans to correct clocks. Listing
//! shows what Jaeger answers without a time range: the traces of the last two days, newest first if
//! Jaeger's storage gives them in that order. Traces are listed page by page and kept as summaries,
//! for Jaeger answers with whole traces. Tested against in-process servers with answers of documented
//! shape, never against Jaeger itself.

use std::collections::{HashMap, HashSet};

use super::forward::driver;
use super::http::{CollectorHttpClient, HttpAnswer, is_too_large};
use super::one_way::{JAEGER_NOT_WRITTEN, not_written};
use super::span_answers::{failed, stored, too_large};
use super::{CollectorTrace, DriverError, LIST_TIMEOUT, TraceQuery, TraceSummary};
use crate::record::TraceRecord;
use crate::spans::jaeger::ListingEntry;
use crate::spans::{SpanError, jaeger, trace_id};

const DEFAULT_PORT: u16 = 16_686;
const JSON: &str = "application/json";
/// Services that are asked for their traces.
const SERVICES_MAX: usize = 100;
/// Traces of each service.
const TRACES_MAX: usize = 1_000;
/// Traces for each answer, which are whole ones.
const PAGE_LEN: usize = 100;
const LARGE_TRACES: &str = "it answers a listing with whole traces, and each of these is over 128 MiB; \
    profile less under one base_id";

/// A query service of Jaeger; see [`super::Collector`].
#[derive(Debug)]
pub(super) struct JaegerCollector {
    http: CollectorHttpClient,
}

impl JaegerCollector {
    /// Whether the connection string can be read.
    pub(super) fn check(url: &str, target: String) -> Result<(), DriverError> {
        Self::http(url, target).map(drop)
    }

    fn http(url: &str, target: String) -> Result<CollectorHttpClient, DriverError> {
        let scheme = if url.starts_with("jaeger+https://") { "https" } else { "http" };
        CollectorHttpClient::new(url, target, scheme, DEFAULT_PORT)
    }

    pub(super) async fn connect(url: &str, target: String) -> Result<Self, DriverError> {
        let collector = Self { http: Self::http(url, target)? };
        collector.services().await?;
        Ok(collector)
    }

    async fn records(&self, base_id: &str) -> Result<CollectorTrace, DriverError> {
        let path = format!("/api/traces/{:032x}", trace_id(base_id));
        let answer = self.http.get(&path, &[("raw", "true")], JSON).await?;
        if answer.status == 404 {
            return Ok(CollectorTrace::default());
        }
        let decoded = self.decoded(&answer, jaeger::decode).map_err(|error| too_large(error, base_id))?;
        Ok(stored(base_id, self.http.target(), decoded))
    }

    async fn write(&self, _records: &[TraceRecord]) -> Result<(), DriverError> {
        Err(not_written(self.http.target(), JAEGER_NOT_WRITTEN))
    }

    async fn probe(&self) -> Result<(), DriverError> {
        self.services().await.map(|_| ())
    }

    async fn services(&self) -> Result<Vec<String>, DriverError> {
        let answer = self.http.get("/api/services", &[], JSON).await?;
        self.decoded(&answer, jaeger::decode_services)
    }

    async fn list(&self, query: &TraceQuery) -> Result<Vec<TraceSummary>, DriverError> {
        let target = || self.http.target().to_owned();
        let mut traces: HashMap<u128, TraceSummary> = HashMap::new();
        let mut too_large = false;
        let walk = async {
            for service in self.services().await?.iter().take(SERVICES_MAX) {
                too_large |= !self.list_service(service, query, &mut traces).await?;
                keep_newest(&mut traces, query.limit);
            }
            Ok(())
        };
        match tokio::time::timeout(LIST_TIMEOUT, walk).await {
            Ok(walked) => walked?,
            Err(_) => return Err(DriverError::Timeout { target: target(), limit: LIST_TIMEOUT }),
        }
        if too_large && traces.is_empty() {
            let (action, target, reason) = ("read from", target(), LARGE_TRACES);
            return Err(DriverError::NotOffered { action, target, reason });
        }
        let mut summaries: Vec<TraceSummary> = traces.into_values().collect();
        summaries.sort_by(|one, other| age(other).cmp(&age(one)));
        Ok(summaries)
    }

    /// Adds the traces of a service, page by page. False if one is too large to be looked at, behind
    /// which the others cannot be reached.
    async fn list_service(
        &self,
        service: &str,
        query: &TraceQuery,
        traces: &mut HashMap<u128, TraceSummary>,
    ) -> Result<bool, DriverError> {
        let wanted = query.limit.clamp(1, TRACES_MAX);
        let mut page_len = wanted.min(PAGE_LEN);
        let (mut seen, mut end_us) = (HashSet::new(), u64::MAX);
        loop {
            let page = match self.page(service, query, page_len, end_us).await {
                Ok(page) => page,
                Err(error) if is_too_large(&error) => {
                    page_len /= 2;
                    if page_len == 0 {
                        return Ok(false);
                    }
                    continue;
                }
                Err(error) => return Err(error),
            };
            let (known, found) = (seen.len(), page.len());
            let last_us = page.iter().map(|trace| trace.last_start_ns / 1_000).min().unwrap_or(0);
            for trace in page {
                seen.insert(trace.trace_id);
                let summary =
                    trace.summary.filter(|summary| !query.errors_only || summary.failed == Some(true));
                traces.extend(summary.map(|summary| (trace.trace_id, summary)));
            }
            let next_us = last_us.saturating_sub(1);
            if found < page_len || seen.len() >= wanted || seen.len() == known || next_us >= end_us {
                return Ok(true);
            }
            end_us = next_us;
        }
    }

    /// The newest traces of a service with spans that started before a time.
    async fn page(
        &self,
        service: &str,
        query: &TraceQuery,
        len: usize,
        end_us: u64,
    ) -> Result<Vec<ListingEntry>, DriverError> {
        let (len, end) = (len.to_string(), end_us.to_string());
        let mut parameters = vec![("service", service), ("limit", &len)];
        if query.errors_only {
            parameters.push(("tags", r#"{"error":"true"}"#));
        }
        if end_us != u64::MAX {
            parameters.push(("end", &end));
        }
        let answer = self.http.get("/api/traces", &parameters, JSON).await?;
        self.decoded(&answer, jaeger::decode_listing)
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

/// By what newer traces come first.
fn age(trace: &TraceSummary) -> (&str, &str) {
    (&trace.timestamp, &trace.base_id)
}

/// Forgets the oldest of more than `limit` traces.
fn keep_newest(traces: &mut HashMap<u128, TraceSummary>, limit: usize) {
    if traces.len() > limit {
        let mut all: Vec<(u128, TraceSummary)> = traces.drain().collect();
        all.sort_by(|(_, one), (_, other)| age(other).cmp(&age(one)));
        all.truncate(limit);
        traces.extend(all);
    }
}

driver!(JaegerCollector {
    fn target(&self) -> &str {
        self.http.target()
    }
});
