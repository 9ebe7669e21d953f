//! Elasticsearch's JSON: the requests, and what of the answers matters.
//!
//! Written from the REST API's documentation for releases 6 to 8 and OpenSearch; only what all of
//! them take is sent. Answers are hostile: whatever is missing or of another type counts as absent.

use serde_json::{Value, json};

use super::super::TraceSummary;
use super::super::error::is_transient_status;
use crate::record::{RECORD_LEN_MAX, RecordError, TraceRecord, point_name};

/// Whether the server that gave this answer to `GET /` still has types of documents. `None` if it is
/// another kind of server.
pub(super) fn has_types(answer: &Value) -> Option<bool> {
    let version = answer.get("version")?;
    let major: u32 = version.get("number")?.as_str()?.split('.').next()?.parse().ok()?;
    let is_opensearch = version.get("distribution").is_some_and(|name| name == "opensearch");
    Some(major < if is_opensearch { 2 } else { 8 })
}

/// Appends one document to the body of a `_bulk` request. What is sent again with the same id replaces
/// itself.
pub(super) fn add_document(
    body: &mut Vec<u8>,
    index: &str,
    doc_type: Option<&str>,
    id: &str,
    document: &Value,
) {
    let place = match doc_type {
        Some(doc_type) => json!({"index": {"_index": index, "_type": doc_type, "_id": id}}),
        None => json!({"index": {"_index": index, "_id": id}}),
    };
    body.extend_from_slice(format!("{place}\n{document}\n").as_bytes());
}

/// What a `_bulk` request did not store.
#[derive(Debug, PartialEq)]
pub(super) struct BulkRefusal {
    /// Where these documents were in the request; `None` if the server does not tell.
    pub(super) positions: Option<Vec<usize>>,
    /// Whether one of them may be taken later.
    pub(super) transient: bool,
    /// How many, and why the first.
    pub(super) text: String,
}

/// The refusals in the answer to a `_bulk` request. What was there already (409) is none.
pub(super) fn refused_documents(answer: &Value) -> Option<BulkRefusal> {
    if answer.get("errors") != Some(&Value::Bool(true)) {
        return None;
    }
    let items = answer.get("items").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let status = |item: &Value| item.pointer("/index/status").and_then(Value::as_u64).unwrap_or(400);
    let is_refused = |item: &Value| item.pointer("/index/error").is_some() && status(item) != 409;
    let refused: Vec<usize> = (0..items.len()).filter(|position| is_refused(&items[*position])).collect();
    if refused.is_empty() && !items.is_empty() {
        return None;
    }
    let is_transient = |item: &Value| is_transient_status(u16::try_from(status(item)).unwrap_or(400));
    let text = |error: &Value| {
        let part = |key: &str| error.get(key).and_then(Value::as_str).unwrap_or("unknown").to_owned();
        format!("{}: {}", part("type"), part("reason")).chars().take(300).collect::<String>()
    };
    let first = refused.first().and_then(|position| items[*position].pointer("/index/error"));
    let first = first.map_or_else(|| "it does not say why".to_owned(), text);
    Some(BulkRefusal {
        transient: refused.iter().any(|position| is_transient(&items[*position])),
        text: format!("{} of {} records were refused, the first one for {first}", refused.len(), items.len()),
        positions: (!refused.is_empty()).then_some(refused),
    })
}

/// A search for the documents of one trace. Equality is checked again: on a field of analysed text
/// this is about words.
pub(super) fn trace_search(base_id: &str, size: usize) -> Value {
    json!({"size": size, "query": {"match_phrase": {"base_id": base_id}}, "sort": ["_doc"]})
}

/// The traces whose ids `field` holds, newest first, among the documents that `query` finds.
pub(super) fn list_search(field: &str, limit: usize, query: &Value) -> Value {
    json!({
        "size": 0,
        "query": query,
        "aggs": {"traces": {
            "terms": {"field": field, "size": limit, "order": {"oldest": "desc"}},
            "aggs": {
                "oldest": {"min": {"field": "timestamp"}},
                "failed": {"filter": failed_ones()},
                "first": {"top_hits": {
                    "size": 1,
                    "_source": ["base_id", "timestamp", "name"],
                    "sort": [{"timestamp": {"order": "asc"}}],
                }},
            },
        }},
    })
}

/// Finds the records that tell of a failure.
pub(super) fn failed_ones() -> Value {
    json!({"exists": {"field": "info.etype"}})
}

/// The documents that a search found.
pub(super) fn hits(mut answer: Value) -> Vec<Value> {
    let Some(Value::Array(hits)) = answer.pointer_mut("/hits/hits").map(Value::take) else {
        return Vec::new();
    };
    hits.into_iter().filter_map(|mut hit| hit.get_mut("_source").map(Value::take)).collect()
}

/// The answer to [`list_search`].
pub(super) fn summaries(answer: &Value) -> Vec<TraceSummary> {
    let buckets = answer.pointer("/aggregations/traces/buckets").and_then(Value::as_array);
    let summary = |bucket: &Value| {
        let first = |key: &str| {
            let source = bucket.pointer("/first/hits/hits/0/_source")?;
            source.get(key)?.as_str().map(str::to_owned)
        };
        let name = first("name");
        Some(TraceSummary {
            base_id: bucket.get("key")?.as_str()?.to_owned(),
            timestamp: first("timestamp").unwrap_or_default(),
            records: bucket.get("doc_count").and_then(Value::as_u64),
            name: name.as_deref().map(|name| point_name(name).to_owned()),
            failed: bucket.pointer("/failed/doc_count").and_then(Value::as_u64).map(|count| count > 0),
        })
    };
    buckets.into_iter().flatten().filter_map(summary).collect()
}

/// Reads a document as a record.
pub(super) fn record(document: Value) -> Result<TraceRecord, RecordError> {
    let record: TraceRecord = serde_json::from_value(document).map_err(RecordError::Malformed)?;
    if record.timestamp_us().is_none() {
        return Err(RecordError::Timestamp);
    }
    // Few are even near; the exact length is looked at for those only.
    match serde_json::to_vec(&record.info).map(|info| info.len()) {
        Ok(len) if len > RECORD_LEN_MAX => Err(RecordError::TooLong { len }),
        _ => Ok(record),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn versions_tell_of_types() {
        for (version, expected) in [
            (json!({"version": {"number": "6.8.23", "build_flavor": "default"}}), Some(true)),
            (json!({"version": {"number": "7.17.9"}}), Some(true)),
            (json!({"version": {"number": "8.11.0"}}), Some(false)),
            (json!({"version": {"number": "9.1.0-SNAPSHOT"}}), Some(false)),
            (json!({"version": {"number": "1.3.2", "distribution": "opensearch"}}), Some(true)),
            (json!({"version": {"number": "2.11.0", "distribution": "opensearch"}}), Some(false)),
            (json!({"version": {"number": "x"}}), None),
            (json!({"version": 7}), None),
            (json!([]), None),
        ] {
            assert_eq!(has_types(&version), expected, "{version}");
        }
    }

    #[test]
    fn refusals_are_counted() {
        let refused =
            json!({"index": {"status": 400, "error": {"type": "mapper_parsing_exception", "reason": "no"}}});
        let stored = json!({"index": {"status": 201}});
        let answer = json!({"errors": true, "items": [stored, refused, refused]});
        let refusal = refused_documents(&answer).unwrap();
        assert_eq!(
            refusal.text,
            "2 of 3 records were refused, the first one for mapper_parsing_exception: no"
        );
        assert_eq!((refusal.positions, refusal.transient), (Some(vec![1, 2]), false));
        let busy = json!({"index": {"status": 429, "error": {"type": "es_rejected_execution_exception"}}});
        let there = json!({"index": {"status": 409, "error": {"type": "version_conflict_engine_exception"}}});
        let refusal = refused_documents(&json!({"errors": true, "items": [there, busy]})).unwrap();
        assert_eq!((refusal.positions, refusal.transient), (Some(vec![1]), true));
        assert_eq!(refused_documents(&json!({"errors": true, "items": [there]})), None);
        assert_eq!(refused_documents(&json!({"errors": false, "items": [stored]})), None);
        assert!(refused_documents(&json!({"errors": true})).is_some());
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let keys = prop::sample::select(vec![
            "hits",
            "_source",
            "aggregations",
            "traces",
            "buckets",
            "key",
            "doc_count",
            "first",
            "failed",
            "items",
            "errors",
            "index",
            "error",
            "version",
            "number",
            "base_id",
            "timestamp",
            "name",
            "info",
        ]);
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            ".{0,12}".prop_map(Value::from),
        ];
        leaf.prop_recursive(6, 40, 5, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
                prop::collection::vec((keys.clone().prop_map(str::to_owned), inner), 0..5)
                    .prop_map(|entries| Value::Object(entries.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn no_answer_makes_it_panic(answer in any_json()) {
            let _ = has_types(&answer);
            let _ = refused_documents(&answer);
            let _ = summaries(&answer);
            let _ = record(answer.clone());
            let _ = hits(answer);
        }
    }
}
