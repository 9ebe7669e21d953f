//! Checks against what the real programs produced (`tests/vectors`), and against hostile input.

mod collectors;
mod collectors_sqlite;
mod headers;
mod middleware;
mod profilers;
mod spans;
mod trees;

use std::sync::{Arc, Mutex};

use serde_json::Value;

use super::notifier::Notifier;
use super::record::{Identity, Record};

/// Keeps what it gets.
#[derive(Default)]
struct MemoryNotifier(Mutex<Vec<Record>>);

impl Notifier for MemoryNotifier {
    fn notify(&self, record: Record) {
        self.0.lock().unwrap().push(record);
    }
}

impl MemoryNotifier {
    fn records(&self) -> Vec<Record> {
        self.0.lock().unwrap().clone()
    }

    fn names(&self) -> Vec<String> {
        self.records().into_iter().map(|record| record.name).collect()
    }
}

fn identity() -> Arc<Identity> {
    Arc::new(Identity { project: "demo".into(), service: "api".into(), host: "vm".into() })
}

fn vectors() -> Value {
    serde_json::from_str(include_str!("../../../tests/vectors/osprofiler-vectors.json")).unwrap()
}

fn record(name: &str, trace_id: &str, parent_id: &str, us: u32) -> Record {
    Record {
        name: name.into(),
        base_id: "base".into(),
        trace_id: trace_id.into(),
        parent_id: parent_id.into(),
        timestamp: format!("2026-11-20T22:52:{:02}.{:06}", us / 1_000_000, us % 1_000_000),
        info: serde_json::Map::new(),
        project: None,
        service: None,
    }
}
