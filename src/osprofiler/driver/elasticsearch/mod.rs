//! The Elasticsearch collector: one document a record, in the index `osprofiler-notifications`.
//!
//! `elasticsearch://[user:password@]host[:9200][/path]`, as the Python driver takes it, or
//! `elasticsearch+https://` for TLS. Options after the `?`: `index`, `doc_type` (default `notification`,
//! as the Python driver's option `es_doc_type`), and `filter_error_trace=true`, which also stores the id
//! of a failed trace in `osprofiler-notifications-error`, off unless set, as there.
//!
//! Documents are the records as redis holds them. Before release 8, Elasticsearch keeps documents of
//! a type, and the Python driver reads only its own type. So documents are written with that type
//! where the server still has types, and without elsewhere ([`wire`] has the requests).
//!
//! The Python driver asks for documents that hold *any* word of a base_id, and so mixes traces whose
//! ids share a group of digits; here the id has to be equal. Its list of traces fails, before anything
//! is sent, on a set that JSON does not know (with its client's release 7.13).
//!
//! Not tested against a live Elasticsearch: none can be installed from Debian's packages. What it
//! sends and reads was tested against an in-process server with the documented answers of releases 7
//! and 8, to and from the Python driver.

mod wire;

use std::fmt;

use serde_json::{Value, json};
use url::Url;

use super::forward::driver;
use super::http::{CollectorHttpClient, HttpAnswer};
use super::{Cause, CollectorTrace, DriverError, TRACE_RECORDS_MAX, TraceQuery, TraceSummary, digest};
use crate::record::TraceRecord;
use base::hex;

const PORT: u16 = 9200;
const INDEX: &str = "osprofiler-notifications";
const DOC_TYPE: &str = "notification";
/// Bytes for each batch of writes.
const WRITE_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Documents by one search, which is all that most traces need; Elasticsearch allows for 10,000.
const PAGE_LEN: usize = 5_000;
/// Documents for each answer of a longer trace.
const SCROLL_PAGE_LEN: usize = 2_000;
/// Each listed trace costs the server an aggregation.
const LIST_LEN_MAX: usize = 1_000;

const NAMES: &str = "index and doc_type may only contain letters, digits, `-`, `_` and `.`";

/// A client of an Elasticsearch; see [`super::Collector`].
pub(super) struct ElasticsearchCollector {
    http: CollectorHttpClient,
    index: String,
    /// `None` where the server has no types any more.
    doc_type: Option<String>,
    filter_error_trace: bool,
}

impl ElasticsearchCollector {
    /// Whether the connection string can be read.
    pub(super) fn check(url: &str, target: String) -> Result<(), DriverError> {
        Self::settings(url, target).map(drop)
    }

    /// Reads the connection string; nothing is sent.
    fn settings(url: &str, target: String) -> Result<(Self, String), DriverError> {
        let scheme = if url.starts_with("elasticsearch+https://") { "https" } else { "http" };
        let http = CollectorHttpClient::new(url, target.clone(), scheme, PORT)?;
        let invalid = |reason| DriverError::Invalid { target: target.clone(), reason };
        let (mut index, mut doc_type, mut filter_error_trace) =
            (INDEX.to_owned(), DOC_TYPE.to_owned(), false);
        // `CollectorHttpClient` has read it, so that it can be read.
        for (name, value) in Url::parse(url).iter().flat_map(Url::query_pairs) {
            match &*name {
                "index" => index = value.into_owned(),
                "doc_type" | "es_doc_type" => doc_type = value.into_owned(),
                "filter_error_trace" => filter_error_trace = matches!(&*value, "true" | "True" | "1"),
                _ => {}
            }
        }
        if !(is_name(&index) && is_name(&doc_type)) {
            return Err(invalid(NAMES));
        }
        Ok((Self { http, index, doc_type: None, filter_error_trace }, doc_type))
    }

    pub(super) async fn connect(url: &str, target: String) -> Result<Self, DriverError> {
        let (mut collector, doc_type) = Self::settings(url, target)?;
        if collector.has_types().await? {
            collector.doc_type = Some(doc_type);
        }
        Ok(collector)
    }

    async fn has_types(&self) -> Result<bool, DriverError> {
        let answer = self.ask("read from", "GET", "/", None).await?;
        wire::has_types(&answer).ok_or_else(|| {
            self.failed("read from", "what answers there is neither Elasticsearch nor OpenSearch".into())
        })
    }

    async fn write(&self, records: &[TraceRecord]) -> Result<(), DriverError> {
        let mut bulk = Bulk::default();
        let mut refused = RefusedDocuments::default();
        for (index, record) in records.iter().enumerate() {
            let document =
                serde_json::to_value(record).map_err(|error| self.failed("write to", error.into()))?;
            let id = hex::encode(&digest(record)[..16]);
            wire::add_document(&mut bulk.body, &self.index, self.doc_type.as_deref(), &id, &document);
            bulk.documents.push(Some(index));
            let failed = record.info.has("etype");
            if self.filter_error_trace && failed {
                let mark = json!({"base_id": record.base_id, "timestamp": record.timestamp});
                let index = format!("{INDEX}-error");
                wire::add_document(&mut bulk.body, &index, self.doc_type.as_deref(), &id, &mark);
                bulk.documents.push(None);
            }
            if bulk.body.len() > WRITE_BYTES_MAX {
                self.bulk(std::mem::take(&mut bulk), &mut refused).await?;
            }
        }
        if !bulk.body.is_empty() {
            self.bulk(bulk, &mut refused).await?;
        }
        match refused.reason {
            None => Ok(()),
            Some(reason) => Err(DriverError::Partial {
                target: self.http.target().to_owned(),
                left: refused.records,
                transient: refused.transient,
                source: reason.into(),
            }),
        }
    }

    async fn bulk(&self, bulk: Bulk, refused: &mut RefusedDocuments) -> Result<(), DriverError> {
        let answer = self.http.post("/_bulk", "application/x-ndjson", bulk.body).await?;
        let answer = self.success("write to", answer)?;
        let Some(refusal) = wire::refused_documents(&answer) else { return Ok(()) };
        let records = match refusal.positions {
            Some(positions) => {
                let document = |position: usize| bulk.documents.get(position).copied().flatten();
                positions.into_iter().filter_map(document).collect()
            }
            None => bulk.documents.into_iter().flatten().collect::<Vec<usize>>(),
        };
        // A mark that is refused costs no record.
        if !records.is_empty() {
            refused.records.extend(records);
            refused.transient |= refusal.transient;
            refused.reason.get_or_insert(refusal.text);
        }
        Ok(())
    }

    /// Oldest first; what has the same microsecond, as it was stored.
    async fn records(&self, base_id: &str) -> Result<CollectorTrace, DriverError> {
        let search = wire::trace_search(base_id, PAGE_LEN);
        let answer = self.ask("read from", "POST", &self.search_path(""), Some(&search)).await?;
        let hits = wire::hits(answer);
        let mut documents = if hits.len() < PAGE_LEN { hits } else { self.scrolled(base_id).await? };
        documents.retain(|document| document["base_id"] == base_id);
        documents.sort_by(|a, b| a["timestamp"].as_str().cmp(&b["timestamp"].as_str()));
        let mut stored = CollectorTrace::default();
        for document in documents {
            stored.add(base_id, self.http.target(), wire::record(document));
        }
        Ok(stored)
    }

    /// All documents of a long trace.
    async fn scrolled(&self, base_id: &str) -> Result<Vec<Value>, DriverError> {
        let search = wire::trace_search(base_id, SCROLL_PAGE_LEN);
        let mut answer =
            self.ask("read from", "POST", &self.search_path("&scroll=1m"), Some(&search)).await?;
        let mut documents = Vec::new();
        let mut bytes = 0;
        loop {
            let scroll_id = answer["_scroll_id"].as_str().unwrap_or_default().to_owned();
            let page = wire::hits(answer);
            bytes += page.iter().map(|document| document.to_string().len()).sum::<usize>();
            let (last, over) = (
                page.is_empty() || scroll_id.is_empty(),
                documents.len() + page.len() > TRACE_RECORDS_MAX || bytes > super::TRACE_BYTES_MAX,
            );
            documents.extend(page);
            if last || over {
                // It would expire; a server allows few at a time.
                let end = json!({"scroll_id": [scroll_id]});
                let _ = self.ask("read from", "DELETE", "/_search/scroll", Some(&end)).await;
            }
            if over {
                let target = self.http.target().to_owned();
                return Err(DriverError::TooLarge { base_id: base_id.to_owned(), target });
            }
            if last {
                return Ok(documents);
            }
            let next = json!({"scroll_id": scroll_id, "scroll": "1m"});
            answer = self.ask("read from", "POST", "/_search/scroll", Some(&next)).await?;
        }
    }

    async fn list(&self, query: &TraceQuery) -> Result<Vec<TraceSummary>, DriverError> {
        let limit = query.limit.min(LIST_LEN_MAX);
        if limit == 0 {
            return Ok(Vec::new());
        }
        // Elasticsearch's own mapping of a string, or the mapping of an index that was prepared.
        let mut found = Vec::new();
        for field in ["base_id.keyword", "base_id"] {
            let filter = if query.errors_only {
                let failed = wire::list_search(field, limit, &wire::failed_ones());
                let ids = match self.aggregate(&failed).await? {
                    Some(failed) => failed.into_iter().map(|trace| trace.base_id).collect::<Vec<_>>(),
                    None => continue,
                };
                json!({"terms": {field: ids}})
            } else {
                json!({"match_all": {}})
            };
            if let Some(traces) = self.aggregate(&wire::list_search(field, limit, &filter)).await? {
                found = traces;
            }
            if !found.is_empty() {
                break;
            }
        }
        found.sort_by(|a, b| (&b.timestamp, &a.base_id).cmp(&(&a.timestamp, &b.base_id)));
        Ok(found)
    }

    /// `None` if the server does not aggregate by that field.
    async fn aggregate(&self, search: &Value) -> Result<Option<Vec<TraceSummary>>, DriverError> {
        match self.ask("read from", "POST", &self.search_path(""), Some(search)).await {
            Ok(answer) => Ok(Some(wire::summaries(&answer))),
            Err(DriverError::Status { status: 400, .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn probe(&self) -> Result<(), DriverError> {
        self.has_types().await.map(|_| ())
    }

    /// No trace was ever stored if there is no index.
    fn search_path(&self, further: &str) -> String {
        format!("/{}/_search?ignore_unavailable=true&allow_no_indices=true{further}", self.index)
    }

    async fn ask(
        &self,
        action: &'static str,
        method: &str,
        path: &str,
        json: Option<&Value>,
    ) -> Result<Value, DriverError> {
        let answer = self.http.exchange(action, method, path, json).await?;
        self.success(action, answer)
    }

    fn success(&self, action: &'static str, answer: HttpAnswer) -> Result<Value, DriverError> {
        if !(200..300).contains(&answer.status) {
            return Err(self.http.refused(action, &answer));
        }
        serde_json::from_slice(&answer.body).map_err(|error| self.failed(action, error.into()))
    }

    fn failed(&self, action: &'static str, source: Cause) -> DriverError {
        DriverError::Request { action, target: self.http.target().to_owned(), source }
    }
}

/// One request.
#[derive(Default)]
struct Bulk {
    body: Vec<u8>,
    /// Of each document the record that it is; `None` for a mark of a failed trace.
    documents: Vec<Option<usize>>,
}

/// What was not stored.
#[derive(Default)]
struct RefusedDocuments {
    records: Vec<usize>,
    transient: bool,
    reason: Option<String>,
}

/// Characters that a path may hold without coding.
fn is_name(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    !text.is_empty() && text.len() < 256 && text.chars().all(plain) && !text.starts_with(['.', '_', '-'])
}

driver!(ElasticsearchCollector {
    fn target(&self) -> &str {
        self.http.target()
    }
});

impl fmt::Debug for ElasticsearchCollector {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "ElasticsearchCollector({})", self.http.target())
    }
}
