//! MongoDB: the collection `profiler` of the database `osprofiler`, a document for each record.
//!
//! The format (observed on OSProfiler 4.4.0): a record's keys with `info` as a document. The
//! collection `profiler_error` has `base_id` and `timestamp` of traces with an error: OSProfiler fills
//! it only if told to, and with a call that pymongo 4 no longer has; here it is always filled, and
//! never needed. The database is the same whatever the connection string names, as in OSProfiler.
//!
//! Tested with OSProfiler and pymongo on one side and this driver on the other, between them nx-27017
//! (a server of MongoDB's wire protocol on SQLite); never against mongod itself.

use std::collections::HashMap;

use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Bson, Document, doc, serialize_to_document};
use mongodb::error::{Error, ErrorKind};
use mongodb::options::{ClientOptions, ConnectionString};
use mongodb::{Client, Collection, Database};
use serde::Deserialize;
use serde_json::Value;
use tokio::time::timeout;

use super::forward::driver;
use super::{
    CONNECT_TIMEOUT, CollectorTrace, DriverError, TRACE_BYTES_MAX, TRACE_RECORDS_MAX, TraceQuery,
    TraceSummary, answer, digest,
};
use crate::info::SharedInfo;
use crate::record::{Info, RecordError, Timestamp, TraceRecord, point_name};

const DATABASE: &str = "osprofiler";
const RECORDS: &str = "profiler";
/// MongoDB's code for an `_id` that is there already.
const DUPLICATE_KEY: i32 = 11_000;
const ERRORS: &str = "profiler_error";

/// A MongoDB; see [`super::Collector`].
pub(super) struct MongoCollector {
    database: Database,
    target: String,
}

const FORM: &str =
    "write it as mongodb://[user:password@]host[:port][/?option=value], special characters as %XX";

impl MongoCollector {
    /// Whether a connection string can be read.
    pub(super) fn check(url: &str, target: String) -> Result<(), DriverError> {
        if url.starts_with("mongodb+srv://") {
            let reason = "mongodb+srv:// is not supported; name the hosts: mongodb://host1,host2/?tls=true";
            return Err(DriverError::Invalid { target, reason });
        }
        // The cause may quote the string, password and all.
        ConnectionString::parse(url).map(drop).map_err(|_| DriverError::Invalid { target, reason: FORM })
    }

    pub(super) async fn connect(url: &str, target: String) -> Result<Self, DriverError> {
        Self::check(url, target.clone())?;
        let reason = FORM;
        let parsed = timeout(CONNECT_TIMEOUT, ClientOptions::parse(url)).await;
        let Ok(Ok(mut options)) = parsed else { return Err(DriverError::Invalid { target, reason }) };
        options.app_name = Some("osprofiler".to_owned());
        options.connect_timeout = Some(CONNECT_TIMEOUT);
        options.server_selection_timeout = Some(CONNECT_TIMEOUT);
        let Ok(client) = Client::with_options(options) else {
            return Err(DriverError::Invalid { target, reason });
        };
        let collector = Self { database: client.database(DATABASE), target };
        match timeout(2 * CONNECT_TIMEOUT, collector.ping()).await {
            Ok(Ok(_)) => Ok(collector),
            Ok(Err(error)) => Err(DriverError::Connect { target: collector.target, source: error.into() }),
            Err(_) => Err(DriverError::Timeout { target: collector.target, limit: 2 * CONNECT_TIMEOUT }),
        }
    }

    fn collection(&self, name: &str) -> Collection<Document> {
        self.database.collection(name)
    }

    async fn ping(&self) -> Result<Document, mongodb::error::Error> {
        self.database.run_command(doc! { "ping": 1 }).await
    }

    async fn probe(&self) -> Result<(), DriverError> {
        answer("read from", &self.target, self.ping()).await.map(|_| ())
    }

    async fn write(&self, records: &[TraceRecord]) -> Result<(), DriverError> {
        let write = async {
            let documents = records.iter().map(identified);
            let inserted = self.collection(RECORDS).insert_many(documents).ordered(false).await;
            let left = inserted.map(|_| None).or_else(refused)?;
            // One update for each trace, with its first error's time.
            let mut failed: HashMap<&str, &Timestamp> = HashMap::new();
            for record in records.iter().filter(|record| has_failed(record)) {
                failed.entry(&record.base_id).or_insert(&record.timestamp);
            }
            for (base_id, timestamp) in failed {
                let set = doc! { "$set": { "base_id": base_id, "timestamp": timestamp.to_string() } };
                self.collection(ERRORS).update_one(doc! { "base_id": base_id }, set).upsert(true).await?;
            }
            Ok::<_, mongodb::error::Error>(left)
        };
        match answer("write to", &self.target, write).await? {
            None => Ok(()),
            Some((left, error)) => {
                let (target, source) = (self.target.clone(), error.into());
                Err(DriverError::Partial { target, left, transient: false, source })
            }
        }
    }

    async fn records(&self, base_id: &str) -> Result<CollectorTrace, DriverError> {
        let collection = self.database.collection::<RecordDocument>(RECORDS);
        let find = collection.find(doc! { "base_id": base_id }).into_future();
        let mut cursor = answer("read from", &self.target, find).await?;
        let (mut stored, mut seen, mut bytes) = (CollectorTrace::default(), 0, 0);
        while answer("read from", &self.target, cursor.advance()).await? {
            bytes += cursor.current().as_bytes().len();
            if seen == TRACE_RECORDS_MAX || bytes > TRACE_BYTES_MAX {
                let (base_id, target) = (base_id.to_owned(), self.target.clone());
                return Err(DriverError::TooLarge { base_id, target });
            }
            seen += 1;
            let malformed = |error: mongodb::error::Error| {
                RecordError::Malformed(<serde_json::Error as serde::de::Error>::custom(error))
            };
            let record = cursor.deserialize_current().map(TraceRecord::from).map_err(malformed);
            let timed = record.and_then(|record| {
                record.timestamp_us().is_some().then_some(record).ok_or(RecordError::Timestamp)
            });
            // A server that answers with other traces than it was asked for is not believed.
            if timed.as_ref().map_or(true, |record| record.base_id == base_id) {
                stored.add(base_id, &self.target, timed);
            }
        }
        Ok(stored)
    }

    async fn list(&self, query: &TraceQuery) -> Result<Vec<TraceSummary>, DriverError> {
        let mut pipeline = vec![doc! { "$group": {
            "_id": "$base_id",
            "timestamp": { "$min": "$timestamp" },
            "records": { "$sum": 1 },
            "name": { "$first": "$name" },
            "failed": { "$max": "$info.etype" },
        } }];
        if query.errors_only {
            pipeline.push(doc! { "$match": { "failed": { "$ne": Bson::Null } } });
        }
        pipeline.push(doc! { "$sort": { "timestamp": -1 } });
        pipeline.push(doc! { "$limit": i64::try_from(query.limit.max(1)).unwrap_or(i64::MAX) });
        let collection = self.collection(RECORDS);
        let aggregate = collection.aggregate(pipeline).into_future();
        let mut cursor = answer("read from", &self.target, aggregate).await?;
        let mut traces = Vec::new();
        while traces.len() < query.limit && answer("read from", &self.target, cursor.advance()).await? {
            // A document with other fields does not belong to a trace.
            let document = cursor.deserialize_current();
            traces.extend(document.ok().as_ref().and_then(summary));
        }
        Ok(traces)
    }
}

/// A record as its document has it.
#[derive(Deserialize)]
struct RecordDocument {
    name: String,
    base_id: String,
    trace_id: String,
    parent_id: String,
    timestamp: String,
    #[serde(default)]
    info: Info,
    #[serde(default)]
    project: Option<String>,
    #[serde(default)]
    service: Option<String>,
}

impl From<RecordDocument> for TraceRecord {
    fn from(stated: RecordDocument) -> Self {
        let RecordDocument { name, base_id, trace_id, parent_id, timestamp, info, project, service } = stated;
        let info = SharedInfo::as_text(&info);
        Self {
            name: name.into(),
            base_id: base_id.into(),
            trace_id: trace_id.into(),
            parent_id: parent_id.into(),
            timestamp: timestamp.into(),
            info,
            project: project.map(Into::into),
            service: service.map(Into::into),
        }
    }
}

/// A record as a document. What BSON cannot hold (a key with a NUL, a number over 63 bits) is kept as
/// the text of its JSON.
fn document(record: &TraceRecord) -> Document {
    // Text goes into JSON only.
    let mut object = record.clone();
    object.info.to_mut();
    let whole = serialize_to_document(&object).ok().filter(|document| document.to_vec().is_ok());
    whole.unwrap_or_else(|| {
        let mut info = Info::new();
        if let Some(host) = record.host() {
            info.insert("host".to_owned(), host.into_owned().into());
        }
        info.insert("json".to_owned(), Value::Object(record.info.read().into_owned()).to_string().into());
        serialize_to_document(&TraceRecord { info: info.into(), ..record.clone() }).unwrap_or_default()
    })
}

/// A record's document with its own id, so that it is not stored twice.
fn identified(record: &TraceRecord) -> Document {
    let mut id = [0; 12];
    id.copy_from_slice(&digest(record)[..12]);
    let mut document = document(record);
    document.insert("_id", ObjectId::from_bytes(id));
    document
}

/// Which documents are refused, and the error that tells; none if all of those were there already.
fn refused(error: Error) -> Result<Option<(Vec<usize>, Error)>, Error> {
    let ErrorKind::InsertMany(failed) = &*error.kind else { return Err(error) };
    let (Some(refusals), None) = (&failed.write_errors, &failed.write_concern_error) else {
        return Err(error);
    };
    let refusals = refusals.iter().filter(|refusal| refusal.code != DUPLICATE_KEY);
    let mut left: Vec<usize> = refusals.map(|refusal| refusal.index).collect();
    left.sort_unstable();
    Ok((!left.is_empty()).then_some((left, error)))
}

fn has_failed(record: &TraceRecord) -> bool {
    record.info.has("etype")
}

fn summary(document: &Document) -> Option<TraceSummary> {
    let name = document.get_str("name").ok();
    let name = name.map(|name| point_name(name).to_owned());
    let records = match document.get("records") {
        Some(Bson::Int32(records)) => u64::try_from(*records).ok(),
        Some(Bson::Int64(records)) => u64::try_from(*records).ok(),
        _ => None,
    };
    Some(TraceSummary {
        base_id: document.get_str("_id").ok()?.to_owned(),
        timestamp: document.get_str("timestamp").unwrap_or_default().to_owned(),
        records,
        name,
        failed: Some(!matches!(document.get("failed"), None | Some(Bson::Null))),
    })
}

impl std::fmt::Debug for MongoCollector {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "MongoCollector({})", self.target)
    }
}

driver!(MongoCollector {
    fn target(&self) -> &str {
        &self.target
    }
});

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn what_bson_cannot_hold_is_kept_as_text() {
        for info in [json!({"a\0b": 1, "host": "vm"}), json!({"n": u64::MAX, "host": "vm"})] {
            let record = TraceRecord {
                name: "a-start".into(),
                base_id: "b".into(),
                trace_id: "t".into(),
                parent_id: "b".into(),
                timestamp: "2026-11-20T22:52:01.123456".into(),
                info: info.as_object().cloned().unwrap_or_default().into(),
                project: None,
                service: None,
            };
            let document = document(&record);
            let kept = document.get_document("info").unwrap();
            assert_eq!(kept.get_str("json").unwrap(), info.to_string());
            assert_eq!(kept.get_str("host").unwrap(), "vm");
        }
    }

    proptest! {
        #[test]
        fn documents_of_any_shape_are_survived(bytes: Vec<u8>, text: String) {
            if let Ok(document) = mongodb::bson::Document::from_reader(bytes.as_slice()) {
                let _ = summary(&document);
            }
            let _ = summary(&doc! { "_id": &text, "records": &text, "name": 3, "failed": {} });
        }
    }
}
