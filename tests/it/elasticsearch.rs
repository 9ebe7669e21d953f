//! The Elasticsearch driver against an in-process server that answers as releases 7 and 8 document it, and, through
//! that server, against OSProfiler's own driver. No real Elasticsearch is involved.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use bench::base::secret::Secret;
use bench::osprofiler::compat::compat_report;
use bench::osprofiler::driver::{Collector, DriverError, TRACE_BYTES_MAX, TraceQuery};
use bench::osprofiler::record::TraceRecord;
use serde_json::{Map, Value, json};

use crate::real_osprofiler::Peer;
use crate::server::{After, ScriptedRequest, ScriptedServer, Wire};
use crate::support::service;

const ALL: TraceQuery = TraceQuery { errors_only: false, limit: 100 };
const FAILED: TraceQuery = TraceQuery { errors_only: true, limit: 100 };

/// What the server holds: for each index its documents, with the type that they were stored under.
#[derive(Default)]
struct ElasticsearchContent {
    indices: BTreeMap<String, Vec<(Option<String>, Value)>>,
    scrolls: Vec<Vec<Value>>,
}

/// A server of this release. Of a user, it wants `elastic:p@ss`.
fn elasticsearch(release: &'static str) -> (ScriptedServer, Arc<Mutex<ElasticsearchContent>>) {
    let held = Arc::new(Mutex::new(ElasticsearchContent::default()));
    let shared = Arc::clone(&held);
    let server = ScriptedServer::start(move |seen, wire| {
        let (status, body) = answer(release, seen, &mut shared.lock().unwrap());
        wire.answer(status, "application/json; charset=UTF-8", body.to_string())
    });
    (server, held)
}

fn answer(release: &str, seen: &ScriptedRequest, held: &mut ElasticsearchContent) -> (&'static str, Value) {
    // elastic:p@ss
    if seen.headers.get("authorization").is_some_and(|value| value != "Basic ZWxhc3RpYzpwQHNz") {
        let reason = "unable to authenticate user [elastic] for REST request";
        return ("401 Unauthorized", refusal(401, "security_exception", reason));
    }
    let (path, query) = seen.path.split_once('?').unwrap_or((&seen.path, ""));
    let typed = release.starts_with('7');
    let segments: Vec<&str> = path.trim_matches('/').split('/').collect();
    let body = || serde_json::from_slice::<Value>(&seen.body).unwrap_or_default();
    match (seen.method.as_str(), segments.as_slice()) {
        ("GET", [""]) => (
            "200 OK",
            json!({
                "name": "n", "cluster_name": "c", "cluster_uuid": "u",
                "version": {"number": release, "build_flavor": "default", "lucene_version": "8.11.1",
                            "minimum_wire_compatibility_version": "6.8.0"},
                "tagline": "You Know, for Search",
            }),
        ),
        ("POST", ["_bulk"]) => bulk(typed, &seen.body, held),
        ("POST", ["_search", "scroll"]) => scroll_on(&body(), held),
        ("DELETE", ["_search", "scroll"]) => {
            held.scrolls.clear();
            ("200 OK", json!({"succeeded": true, "num_freed": 1}))
        }
        ("POST" | "GET", [index, "_search"]) => search(index, None, query, &body(), held),
        ("POST" | "GET", [index, doc_type, "_search"]) if typed => {
            search(index, Some(doc_type), query, &body(), held)
        }
        ("POST", [index, doc_type]) if typed || *doc_type == "_doc" => {
            let stored = store(typed, index, Some(doc_type), body(), held);
            let status = if stored.get("error").is_some() { "400 Bad Request" } else { "201 Created" };
            (status, stored)
        }
        _ => ("400 Bad Request", json!({"error": format!("no handler found for uri [{path}]")})),
    }
}

fn refusal(status: u16, kind: &str, reason: &str) -> Value {
    let cause = json!({"type": kind, "reason": reason});
    json!({"error": {"root_cause": [cause], "type": kind, "reason": reason}, "status": status})
}

fn bulk(typed: bool, body: &[u8], held: &mut ElasticsearchContent) -> (&'static str, Value) {
    let lines: Vec<Value> = body
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
        .map(|line| serde_json::from_slice(line).unwrap())
        .collect();
    if body.last() != Some(&b'\n') {
        let reason = "The bulk request must be terminated by a newline [\\n]";
        return ("400 Bad Request", refusal(400, "illegal_argument_exception", reason));
    }
    let mut items = Vec::new();
    for pair in lines.chunks(2) {
        let place = &pair[0]["index"];
        if !typed && place.get("_type").is_some() {
            let reason = "Action/metadata line [1] contains an unknown parameter [_type]";
            return ("400 Bad Request", refusal(400, "illegal_argument_exception", reason));
        }
        let index = place["_index"].as_str().unwrap();
        items.push(json!({"index": store(typed, index, place["_type"].as_str(), pair[1].clone(), held)}));
    }
    let errors = items.iter().any(|item| item["index"].get("error").is_some());
    ("200 OK", json!({"took": 3, "errors": errors, "items": items}))
}

/// Stores a document, unless its index has documents of another type already, or its timestamp does
/// not fit the mapping that the first one made.
fn store(
    typed: bool,
    index: &str,
    doc_type: Option<&str>,
    document: Value,
    held: &mut ElasticsearchContent,
) -> Value {
    let documents = held.indices.entry(index.to_owned()).or_default();
    let doc_type = typed.then(|| doc_type.unwrap_or("_doc").to_owned());
    let place = json!({"_index": index, "_type": doc_type, "_id": documents.len().to_string()});
    let mut item = place.as_object().unwrap().clone();
    let refused = if documents.first().is_some_and(|(known, _)| *known != doc_type) {
        Some("Rejecting mapping update as the final mapping would have more than 1 type")
    } else if !document["timestamp"].as_str().is_some_and(|time| time.starts_with("20")) {
        Some("failed to parse field [timestamp] of type [date]")
    } else {
        None
    };
    if let Some(reason) = refused {
        item.insert("status".to_owned(), 400.into());
        item.insert("error".to_owned(), json!({"type": "mapper_parsing_exception", "reason": reason}));
    } else {
        item.insert("status".to_owned(), 201.into());
        item.insert("result".to_owned(), "created".into());
        documents.push((doc_type, document));
    }
    Value::Object(item)
}

fn search(
    index: &str,
    doc_type: Option<&str>,
    query: &str,
    body: &Value,
    held: &mut ElasticsearchContent,
) -> (&'static str, Value) {
    let parameter = |name: &str| query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='));
    if !held.indices.contains_key(index) && parameter("ignore_unavailable") != Some("true") {
        return ("404 Not Found", refusal(404, "index_not_found_exception", "no such index"));
    }
    let documents = held.indices.get(index).map(Vec::as_slice).unwrap_or_default();
    let found: Vec<Value> = documents
        .iter()
        .filter(|(known, document)| {
            doc_type.is_none_or(|wanted| known.as_deref() == Some(wanted)) && fits(document, &body["query"])
        })
        .map(|(_, document)| document.clone())
        .collect();
    if let Some(traces) = body.pointer("/aggs/traces") {
        return aggregate(&found, traces);
    }
    let size = parameter("size").and_then(|size| size.parse().ok()).or(body["size"].as_u64()).unwrap_or(10);
    if size > 10_000 {
        let reason = "Result window is too large, from + size must be less than or equal to: [10000]";
        return ("400 Bad Request", refusal(400, "illegal_argument_exception", reason));
    }
    let mut pages: Vec<Vec<Value>> =
        found.chunks(usize::try_from(size).unwrap()).map(<[Value]>::to_vec).collect();
    let first = if pages.is_empty() { Vec::new() } else { pages.remove(0) };
    let mut answer = hits(index, found.len(), &first);
    if parameter("scroll").is_some() {
        pages.reverse();
        held.scrolls = pages;
        answer["_scroll_id"] = "FGluY2x1ZGVfY29udGV4dF91dWlkDXF1ZXJ5QW5kRmV0Y2gB".into();
    }
    ("200 OK", answer)
}

fn scroll_on(body: &Value, held: &mut ElasticsearchContent) -> (&'static str, Value) {
    let Some(id) = body["scroll_id"].as_str() else {
        return ("400 Bad Request", refusal(400, "illegal_argument_exception", "scrollId is missing"));
    };
    let page = held.scrolls.pop().unwrap_or_default();
    let mut answer = hits("i", page.len(), &page);
    answer["_scroll_id"] = id.into();
    ("200 OK", answer)
}

fn hits(index: &str, total: usize, documents: &[Value]) -> Value {
    let hit = |document: &Value| json!({"_index": index, "_id": "x", "_score": 1.0, "_source": document});
    let hits: Vec<Value> = documents.iter().map(hit).collect();
    json!({
        "took": 2, "timed_out": false,
        "_shards": {"total": 1, "successful": 1, "skipped": 0, "failed": 0},
        "hits": {"total": {"value": total, "relation": "eq"}, "max_score": 1.0, "hits": hits},
    })
}

/// The words of analysed text, which the groups of a UUID are.
fn words(text: &str) -> Vec<&str> {
    text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).collect()
}

fn fits(document: &Value, query: &Value) -> bool {
    let (kind, what) = query.as_object().unwrap().iter().next().unwrap();
    let base_id = document["base_id"].as_str().unwrap_or_default();
    match kind.as_str() {
        "match_all" => true,
        "exists" => document.pointer("/info/etype").is_some_and(|etype| !etype.is_null()),
        "match" => words(what["base_id"].as_str().unwrap()).iter().any(|word| words(base_id).contains(word)),
        "match_phrase" => {
            let wanted = words(what["base_id"].as_str().unwrap());
            words(base_id).windows(wanted.len().max(1)).any(|window| window == wanted)
        }
        "terms" => what["base_id.keyword"].as_array().is_some_and(|ids| ids.iter().any(|id| id == base_id)),
        other => panic!("no such query: {other}"),
    }
}

fn aggregate(found: &[Value], traces: &Value) -> (&'static str, Value) {
    let field = traces["terms"]["field"].as_str().unwrap();
    if field != "base_id.keyword" {
        let reason = "Text fields are not optimised for operations that require per-document field data";
        return ("400 Bad Request", refusal(400, "search_phase_execution_exception", reason));
    }
    let mut groups: BTreeMap<&str, Vec<&Value>> = BTreeMap::new();
    for document in found {
        groups.entry(document["base_id"].as_str().unwrap()).or_default().push(document);
    }
    let mut buckets: Vec<(String, Value)> = groups
        .into_iter()
        .map(|(base_id, mut documents)| {
            documents.sort_by_key(|document| document["timestamp"].as_str().unwrap().to_owned());
            let failed = documents.iter().filter(|document| fits(document, &json!({"exists": {}}))).count();
            let time = documents[0]["timestamp"].as_str().unwrap();
            let keep = |key: &str| (key.to_owned(), documents[0][key].clone());
            let source: Map<String, Value> = ["base_id", "timestamp", "name"].map(keep).into_iter().collect();
            let bucket = json!({
                "key": base_id, "doc_count": documents.len(),
                "oldest": {"value": 1.764e12, "value_as_string": format!("{}Z", &time[..23])},
                "failed": {"doc_count": failed},
                "first": {"hits": {"total": {"value": documents.len(), "relation": "eq"}, "max_score": null,
                                   "hits": [{"_index": "i", "_id": "x", "_score": null, "_source": source}]}},
            });
            (time.to_owned(), bucket)
        })
        .collect();
    buckets.sort_by(|a, b| b.0.cmp(&a.0));
    let limit = usize::try_from(traces["terms"]["size"].as_u64().unwrap()).unwrap();
    let buckets: Vec<Value> = buckets.into_iter().take(limit).map(|(_, bucket)| bucket).collect();
    let terms = json!({"doc_count_error_upper_bound": 0, "sum_other_doc_count": 0, "buckets": buckets});
    (
        "200 OK",
        json!({"took": 1, "timed_out": false, "hits": {"hits": []}, "aggregations": {"traces": terms}}),
    )
}

fn url(server: &ScriptedServer, further: &str) -> String {
    format!("elasticsearch://elastic:p%40ss@{}{further}", server.address())
}

async fn connect(url: &str) -> Result<Collector, DriverError> {
    Collector::connect(&Secret::new(url)).await
}

fn records(base_id: &str, second: u32, etype: Option<&str>) -> Vec<TraceRecord> {
    let record = |name: &str, trace_id: &str, parent_id: &str, us: u32| TraceRecord {
        name: name.into(),
        base_id: base_id.into(),
        trace_id: trace_id.into(),
        parent_id: parent_id.into(),
        timestamp: format!("2026-11-21T10:00:{second:02}.{us:06}").into(),
        info: json!({"host": "vm", "db": {"statement": "SELECT 'é'\n"}}).as_object().unwrap().clone().into(),
        project: Some("keystone".into()),
        service: None,
    };
    let mut records = vec![
        record("wsgi-start", "a", base_id, 1),
        record("db-start", "b", "a", 2),
        record("db-stop", "b", "a", 2),
        record("wsgi-stop", "a", base_id, 3),
    ];
    records[2].info_mut().extend(etype.map(|etype| ("etype".to_owned(), json!(etype))));
    records
}

// The groups of digits that two of them share are what Python's driver takes for equality.
const IDS: [&str; 3] = [
    "2d5c9d0c-0000-4000-8000-00000000000a",
    "7b1f7c1e-0000-4000-8000-00000000000b",
    "9e3d1c55-0000-4000-8000-00000000000a",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn documents_of_either_release_are_written_read_and_listed() {
    for release in ["7.17.9", "8.11.0"] {
        let (server, held) = elasticsearch(release);
        let collector = connect(&url(&server, "?filter_error_trace=true")).await.unwrap();
        assert_eq!(collector.records(IDS[0]).await.unwrap(), []);
        assert_eq!(collector.list(&ALL).await.unwrap(), []);
        let mut traces =
            [records(IDS[0], 1, None), records(IDS[1], 2, Some("KeyError")), records(IDS[2], 3, None)];
        for trace in &mut traces {
            collector.write(trace).await.unwrap();
        }
        for (base_id, trace) in IDS.iter().zip(&traces) {
            assert_eq!(collector.records(base_id).await.unwrap(), *trace);
        }
        assert_eq!(collector.records("0000").await.unwrap(), []);
        let listed = collector.list(&ALL).await.unwrap();
        let shown: Vec<_> = listed
            .iter()
            .map(|trace| (trace.base_id.as_str(), trace.records, trace.name.as_deref(), trace.failed))
            .collect();
        let expected = [(IDS[2], false), (IDS[1], true), (IDS[0], false)]
            .map(|(base_id, failed)| (base_id, Some(4), Some("wsgi"), Some(failed)));
        assert_eq!(shown, expected);
        assert_eq!(listed[2].timestamp, "2026-11-21T10:00:01.000001");
        assert_eq!(collector.list(&FAILED).await.unwrap(), [listed[1].clone()]);
        assert_eq!(collector.list(&TraceQuery { errors_only: false, limit: 2 }).await.unwrap(), listed[..2]);
        assert_eq!(collector.list(&TraceQuery { errors_only: false, limit: 0 }).await.unwrap(), []);
        {
            let held = held.lock().unwrap();
            let doc_type = release.starts_with('7').then(|| "notification".to_owned());
            assert!(held.indices.values().flatten().all(|(known, _)| *known == doc_type));
            let marks = &held.indices["osprofiler-notifications-error"];
            assert_eq!(marks[0].1, json!({"base_id": IDS[1], "timestamp": traces[1][2].timestamp}));
        }

        // More than one answer holds.
        let long: Vec<TraceRecord> = (0..5_001)
            .map(|n| TraceRecord {
                base_id: "long".into(),
                trace_id: n.to_string().into(),
                ..traces[0][1].clone()
            })
            .collect();
        // Parts, so that a busy machine writes each within the collector's time.
        for part in long.chunks(500) {
            collector.write(part).await.unwrap();
        }
        assert!(collector.records("long").await.unwrap() == long);
        collector.probe().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refusals_of_documents_and_of_users_are_told() {
    let (server, held) = elasticsearch("7.17.9");
    let collector = connect(&url(&server, "")).await.unwrap();
    let mut bad = records(IDS[0], 1, None);
    bad[1].timestamp = "yesterday".into();
    let error = collector.write(&bad).await.unwrap_err();
    assert!(
        error.chain().contains("1 of 4 records were refused, the first one for mapper_parsing"),
        "{}",
        error.chain()
    );
    // Somebody made the index without the type.
    let other = connect(&url(&server, "?index=other")).await.unwrap();
    held.lock()
        .unwrap()
        .indices
        .insert("other".to_owned(), vec![(Some("_doc".to_owned()), json!({"base_id": "x"}))]);
    let error = other.write(&records(IDS[0], 1, None)).await.unwrap_err();
    assert!(error.chain().contains("more than 1 type"), "{}", error.chain());
    let stored = other.stored("x").await.unwrap();
    assert_eq!((stored.records.len(), stored.rejected), (0, 1));
    assert!(stored.first_rejected.is_some_and(|why| !why.is_empty()));
    connect(&url(&server, "?index=other&doc_type=_doc")).await.unwrap_err();

    let wrong = url(&server, "").replace("p%40ss", "hunter2");
    for (url, part) in [
        (wrong, "401"),
        (
            "elasticsearch://u:hunter2@127.0.0.1:1".to_owned(),
            "connect to the collector elasticsearch://127.0.0.1:1",
        ),
        ("elasticsearch+https://u:hunter2@127.0.0.1:1".to_owned(), "elasticsearch+https://127.0.0.1:1"),
        ("elasticsearch://u:hunter2@h:x".to_owned(), "write it as"),
        (url(&server, "?index=a%2Fb"), "index and doc_type may only contain"),
    ] {
        let error = connect(&url).await.unwrap_err();
        assert!(error.chain().contains(part), "no {part} in {}", error.chain());
        assert!(!format!("{} {error:?}", error.chain()).contains("hunter2"), "{error:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_answers_like_no_elasticsearch_is_told() {
    let whole = "{\"version\": {\"number\": \"8.1.0\"}}";
    let script = |first: &'static str, status: &'static str, later: Vec<u8>| {
        move |seen: &ScriptedRequest, wire: &mut Wire<'_>| -> After {
            if seen.path == "/" {
                wire.answer("200 OK", "application/json", first)
            } else {
                wire.answer(status, "application/json", &later)
            }
        }
    };
    for (first, part) in
        [("<html>", "expected value"), ("{}", "neither Elasticsearch nor OpenSearch"), ("[[[[", "EOF")]
    {
        let server = ScriptedServer::start(script(first, "200 OK", Vec::new()));
        let error = connect(&url(&server, "")).await.unwrap_err();
        assert!(error.chain().contains(part), "{}", error.chain());
    }
    let deep = "[".repeat(100_000).into_bytes();
    let hits =
        br#"{"hits": {"hits": [{"_source": {"base_id": "b", "name": 3}}, {"_source": null}, 7]}}"#.to_vec();
    let endless = br#"{"_scroll_id": "s", "hits": {"hits": []}}"#.to_vec();
    for (status, later, part) in [
        ("200 OK", deep, "recursion limit"),
        ("200 OK", b"\xff\xfe".to_vec(), "read from"),
        ("200 OK", hits, "record 0 of trace b"),
        ("200 OK", vec![b' '; TRACE_BYTES_MAX + 1], "larger than"),
        ("503 Service Unavailable", b"{\"error\": \"busy\"}".to_vec(), "HTTP 503: {\"error\": \"busy\"}"),
        ("302 Found", Vec::new(), "HTTP 302"),
        ("200 OK", endless, ""),
    ] {
        let server = ScriptedServer::start(script(whole, status, later));
        let collector = connect(&url(&server, "")).await.unwrap();
        match collector.stored("b").await {
            Ok(stored) if stored.rejected > 0 => {
                assert!(!part.is_empty() && stored.first_rejected.unwrap().contains(part), "{part}");
            }
            Err(error) => {
                assert!(!part.is_empty() && error.chain().contains(part), "{part}: {}", error.chain())
            }
            Ok(stored) => assert!(part.is_empty() && stored.records.is_empty(), "{part}"),
        }
        let _ = collector.list(&FAILED).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_python_driver_of_elasticsearch_shares_our_documents() {
    let Some(python) = service("BENCH_TEST_STORES_PYTHON", "what tests/real/stores.sh gives it") else {
        return;
    };
    let mut peer = Peer::run(&python, "stores_peer.py");
    let (server, held) = elasticsearch("7.17.9");
    let theirs = url(&server, "");
    let collector = connect(&theirs).await.unwrap();
    let written = peer.ask(&json!({
        "op": "write", "connection_string": theirs, "hmac_key": "k", "filter_error_trace": true,
        "project": "keystone", "service": "public",
        "points": [{"name": "wsgi", "info": {"request": {"path": "/é"}}, "children": [
            {"name": "db", "sleep_ms": 2, "stop_info": {"etype": "KeyError", "message": "no"}},
            {"name": "rpc", "sleep_ms": 2}]}],
    }));
    let from_python = written["base_id"].as_str().unwrap();
    assert_eq!(collector.records(from_python).await.unwrap().len(), 6);
    // Of what shares no group of digits, or their report mixes the two.
    collector.write(&records("5d8a1c55-1111-4111-8111-11111111111a", 1, Some("KeyError"))).await.unwrap();
    for base_id in [from_python, "5d8a1c55-1111-4111-8111-11111111111a"] {
        let mut ours = collector.records(base_id).await.unwrap();
        // They take the documents as they come, oldest first; the report is made for the other order.
        ours.reverse();
        let theirs = peer.ask(&json!({"op": "report", "connection_string": theirs, "base_id": base_id}));
        assert_eq!(compat_report(&ours).to_string(), theirs.to_string());
    }
    let held = held.lock().unwrap();
    assert_eq!(held.indices["osprofiler-notifications-error"].len(), 1);
    assert_eq!(held.indices["osprofiler-notifications"].len(), 10);
}
