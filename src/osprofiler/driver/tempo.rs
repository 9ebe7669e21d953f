//! Grafana Tempo, to read: `/api/v2/traces`, before Tempo 2.7 `/api/traces`, and `/api/search`.
//!
//! Protobuf is asked for; JSON is understood too. A trace is listed with its id as a UUID, because a
//! search does not tell the base_id of a trace that is named by no UUID. Listing covers two days.
//! Tested against in-process servers with answers of documented shape, never against Tempo itself.

use super::forward::driver;
use super::http::{CollectorHttpClient, HttpAnswer};
use super::one_way::{TEMPO_NOT_WRITTEN, not_written};
use super::span_answers::{failed, stored, too_large};
use super::{CollectorTrace, DriverError, TraceQuery, TraceSummary};
use crate::record::{Timestamp, TraceRecord};
use crate::spans::{DecodedSpans, SpanError, json, protobuf, trace_id};
use base::clock::RunClock;

const DEFAULT_PORT: u16 = 3_200;
/// Tempo compares the whole header with this.
const PROTOBUF: &str = "application/protobuf";
const JSON: &str = "application/json";
/// Tempo refuses searches over a week by default.
const LIST_SECONDS: u64 = 2 * 24 * 3_600;
const TRACES_MAX: usize = 1_000;

/// A query frontend of Tempo; see [`super::Collector`].
#[derive(Debug)]
pub(super) struct TempoCollector {
    http: CollectorHttpClient,
}

impl TempoCollector {
    /// Whether the connection string can be read.
    pub(super) fn check(url: &str, target: String) -> Result<(), DriverError> {
        Self::http(url, target).map(drop)
    }

    fn http(url: &str, target: String) -> Result<CollectorHttpClient, DriverError> {
        let scheme = if url.starts_with("tempo+https://") { "https" } else { "http" };
        CollectorHttpClient::new(url, target, scheme, DEFAULT_PORT)
    }

    pub(super) async fn connect(url: &str, target: String) -> Result<Self, DriverError> {
        let collector = Self { http: Self::http(url, target)? };
        collector.probe().await?;
        Ok(collector)
    }

    async fn records(&self, base_id: &str) -> Result<CollectorTrace, DriverError> {
        let id = trace_id(base_id);
        for (path, decode) in [
            (format!("/api/v2/traces/{id:032x}"), protobuf::decode_tempo_v2 as fn(&[u8]) -> _),
            (format!("/api/traces/{id:032x}"), protobuf::decode_tempo),
        ] {
            let answer = self.http.get(&path, &[], PROTOBUF).await?;
            if answer.status == 404 {
                // Either knows no such trace, or no such path.
                continue;
            }
            if answer.status != 200 {
                return Err(self.http.refused("read from", &answer));
            }
            let spans = decoded(&answer, decode).map_err(|error| failed(self.http.target(), error));
            let decoded = spans.map_err(|error| too_large(error, base_id))?;
            return Ok(stored(base_id, self.http.target(), decoded));
        }
        Ok(CollectorTrace::default())
    }

    async fn write(&self, _records: &[TraceRecord]) -> Result<(), DriverError> {
        Err(not_written(self.http.target(), TEMPO_NOT_WRITTEN))
    }

    async fn list(&self, query: &TraceQuery) -> Result<Vec<TraceSummary>, DriverError> {
        let now = RunClock::start().wall_anchor_unix_ns() / 1_000_000_000;
        let (start, end) = (now.saturating_sub(LIST_SECONDS).to_string(), now.saturating_add(1).to_string());
        let limit = query.limit.clamp(1, TRACES_MAX).to_string();
        let wanted = if query.errors_only { "{ status = error || span.error = true }" } else { "{}" };
        let parameters = [("q", wanted), ("limit", &limit), ("start", &start), ("end", &end)];
        let answer = self.http.get("/api/search", &parameters, JSON).await?;
        if answer.status != 200 {
            return Err(self.http.refused("read from", &answer));
        }
        let mut found =
            json::decode_search(&answer.body).map_err(|error| failed(self.http.target(), error))?;
        found.sort_by_key(|(id, start_ns, _)| std::cmp::Reverse((*start_ns, *id)));
        let summaries = found.into_iter().take(query.limit).map(|(id, start_ns, name)| TraceSummary {
            base_id: uuid::Uuid::from_u128(id).to_string(),
            timestamp: Timestamp::from_unix_ns(start_ns).to_string(),
            records: None,
            name,
            failed: query.errors_only.then_some(true),
        });
        Ok(summaries.collect())
    }

    async fn probe(&self) -> Result<(), DriverError> {
        let answer = self.http.get("/api/echo", &[], "*/*").await?;
        if answer.status == 200 { Ok(()) } else { Err(self.http.refused("read from", &answer)) }
    }
}

/// Decodes JSON if the answer is JSON, by its content type or by how it begins.
fn decoded(
    answer: &HttpAnswer,
    decode: impl FnOnce(&[u8]) -> Result<DecodedSpans, SpanError>,
) -> Result<DecodedSpans, SpanError> {
    let is_protobuf = answer.content_type.contains("protobuf");
    let is_json = answer.content_type.contains("json") || answer.body.starts_with(b"{");
    if is_json && !is_protobuf { json::decode(&answer.body) } else { decode(&answer.body) }
}

driver!(TempoCollector {
    fn target(&self) -> &str {
        self.http.target()
    }
});
