//! The records of traces as they come from a collector, a receiver or the files of a run.

use std::collections::HashMap;

use uuid::Uuid;

use super::trace::StoredRecords;
use base::clock::Nanos;
use osprofiler::record::TraceRecord;

/// The collector's answers.
#[derive(Debug, Default)]
pub struct FetchedRecords {
    /// The records of each trace with an answer; empty for an absent trace.
    pub records: HashMap<Uuid, Vec<TraceRecord>>,
    /// The number of unreadable records, for traces that have some.
    pub unreadable: HashMap<Uuid, u64>,
    /// For each trace that the collector gave only in part: why.
    pub partial: HashMap<Uuid, String>,
    /// How long after the response of its iteration each trace was read; absent where that is not known.
    pub read_after_ns: HashMap<Uuid, Nanos>,
    /// The collector's last error if it cost a trace, else the unreadable records.
    pub error: Option<String>,
    /// Of traces that come from their files: the client's own records there, and the time of asynchronous work.
    stored: HashMap<Uuid, StoredClientRecords>,
}

/// The client's own records, and the time of asynchronous work in milliseconds.
type StoredClientRecords = (Vec<TraceRecord>, Option<f64>);

/// What is known of one trace.
#[derive(Debug)]
pub struct FetchedTrace {
    /// The records of the services; empty for an absent trace.
    pub services: Vec<TraceRecord>,
    /// The number of unreadable records.
    pub unreadable: u64,
    /// That it is only a part, and why, if the collector says so.
    pub partial: Option<String>,
    /// How long after the response of its iteration it was read; absent where that is not known.
    pub read_after_ns: Option<Nanos>,
    /// Of a trace from its file: the client's own records there, and the time of asynchronous work in milliseconds.
    pub stored: Option<StoredClientRecords>,
}

impl FetchedRecords {
    /// Adds a trace from its file, which need not be written again if nothing changes and it `is_here`.
    pub fn add_stored(&mut self, trace: StoredRecords, is_here: bool) {
        let StoredRecords { trace_id, records, unreadable, partial, read_after_ns, asynchronous_ms } = trace;
        let (services, client) = StoredRecords::split(records);
        self.records.insert(trace_id, services);
        self.unreadable.insert(trace_id, unreadable);
        self.partial.extend(partial.map(|why| (trace_id, why)));
        self.read_after_ns.extend(read_after_ns.map(|after_ns| (trace_id, after_ns)));
        if is_here {
            self.stored.insert(trace_id, (client, asynchronous_ms));
        }
    }

    /// Takes what is known of a trace; `None` without an answer.
    pub fn take(&mut self, trace_id: Uuid) -> Option<FetchedTrace> {
        Some(FetchedTrace {
            services: self.records.remove(&trace_id)?,
            unreadable: self.unreadable.get(&trace_id).copied().unwrap_or(0),
            partial: self.partial.get(&trace_id).cloned(),
            read_after_ns: self.read_after_ns.get(&trace_id).copied(),
            stored: self.stored.remove(&trace_id),
        })
    }
}
