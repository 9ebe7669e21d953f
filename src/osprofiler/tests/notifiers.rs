//! Notifiers: what they do when the collector is down, slow, or refuses records.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::{MemoryNotifier, record};
use crate::driver::{Collector, CollectorTrace, Driver, DriverAnswer, DriverError, TraceQuery, TraceSummary};
use crate::notifier::{FanOut, Notifier, NotifierReport, QueueNotifier};
use crate::record::TraceRecord;

/// A collector in memory that can be taken down.
#[derive(Debug, Default)]
struct Memory {
    down: AtomicBool,
    hangs: AtomicBool,
    attempts: AtomicUsize,
    records: Mutex<Vec<String>>,
}

fn refused() -> DriverError {
    DriverError::Request { action: "write to", target: "memory".into(), source: "too sour".into() }
}

impl Driver for Memory {
    fn write<'a>(&'a self, records: &'a [TraceRecord]) -> DriverAnswer<'a, ()> {
        Box::pin(async move {
            self.attempts.fetch_add(1, Ordering::Relaxed);
            if self.hangs.load(Ordering::Relaxed) {
                std::future::pending::<()>().await;
            }
            if self.down.load(Ordering::Relaxed) {
                return Err(DriverError::Connect { target: "memory".into(), source: "gone".into() });
            }
            if records.iter().any(|record| record.name == "poison") {
                return Err(refused());
            }
            self.records.lock().unwrap().extend(records.iter().map(|record| record.name.to_string()));
            Ok(())
        })
    }

    fn records<'a>(&'a self, _: &'a str) -> DriverAnswer<'a, CollectorTrace> {
        Box::pin(async { Ok(CollectorTrace::default()) })
    }

    fn list<'a>(&'a self, _: &'a TraceQuery) -> DriverAnswer<'a, Vec<TraceSummary>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    fn probe(&self) -> DriverAnswer<'_, ()> {
        Box::pin(async { if self.down.load(Ordering::Relaxed) { Err(refused()) } else { Ok(()) } })
    }

    fn target(&self) -> &str {
        "memory"
    }
}

impl Memory {
    fn names(&self) -> Vec<String> {
        self.records.lock().unwrap().clone()
    }
}

fn start(queue_len: usize) -> (Arc<Memory>, QueueNotifier) {
    let memory = Arc::new(Memory::default());
    let collector = Collector::of(Arc::clone(&memory) as Arc<dyn Driver>);
    (memory, QueueNotifier::start(collector, queue_len))
}

fn notify(notifier: &dyn Notifier, names: &[&str]) {
    for name in names {
        notifier.notify(record(name, "id", "parent", 1));
    }
}

const LIMIT: Duration = Duration::from_secs(5);

#[tokio::test(start_paused = true)]
async fn a_flush_waits_until_everything_is_stored() {
    let (memory, notifier) = start(100);
    assert!(notifier.flush(LIMIT).await);
    notify(&notifier, &["a", "b"]);
    assert!(notifier.flush(LIMIT).await);
    assert_eq!(memory.names(), ["a", "b"]);
    memory.down.store(true, Ordering::Relaxed);
    notify(&notifier, &["c"]);
    assert!(!notifier.flush(LIMIT).await, "the collector is down");
    assert!(memory.attempts.load(Ordering::Relaxed) > 3, "it is tried again");
    memory.down.store(false, Ordering::Relaxed);
    assert!(notifier.flush(LIMIT).await);
    assert_eq!(memory.names(), ["a", "b", "c"]);
    let report = notifier.shutdown().await;
    assert_eq!((report.written, report.dropped), (3, 0));
    assert!(report.last_error.unwrap().contains("gone"));
    notify(&notifier, &["too late"]);
    assert!(notifier.flush(LIMIT).await);
    assert_eq!(notifier.report().dropped, 1);
}

#[tokio::test(start_paused = true)]
async fn what_does_not_fit_is_dropped_and_counted() {
    let (memory, notifier) = start(3);
    memory.hangs.store(true, Ordering::Relaxed);
    // No records are taken out before this task waits.
    notify(&notifier, &["a", "b", "c", "d", "e"]);
    assert_eq!(notifier.dropped(), 2);
    tokio::task::yield_now().await;
    let mut huge = record("huge", "id", "parent", 1);
    huge.info_mut().insert("text".into(), "x".repeat(5 * 1024 * 1024).into());
    notifier.notify(huge);
    assert_eq!(notifier.dropped(), 3, "longer than any reader takes");
    let mut large = record("large", "id", "parent", 1);
    large.info_mut().insert("text".into(), serde_json::json!([{"deep": "x".repeat(3 * 1024 * 1024)}]));
    let (memory, notifier) = start(1_000);
    for _ in 0..50 {
        notifier.notify(large.clone());
    }
    assert_eq!(notifier.dropped(), 50 - 42, "128 MiB may wait");
    assert!(notifier.flush(LIMIT).await);
    notifier.notify(large);
    assert!(notifier.flush(LIMIT).await);
    assert_eq!((memory.names().len(), notifier.report().written), (43, 43));
}

#[tokio::test(start_paused = true)]
async fn refused_records_do_not_keep_the_others() {
    let (memory, notifier) = start(1_000);
    let mut names = vec!["good"; 100];
    names[17] = "poison";
    names[98] = "poison";
    notify(&notifier, &names);
    assert!(notifier.flush(Duration::from_secs(60)).await);
    assert_eq!(memory.names().len(), 98);
    let report = notifier.shutdown().await;
    assert_eq!((report.written, report.dropped), (98, 2));
    assert!(report.last_error.unwrap().contains("too sour"));
}

#[tokio::test(start_paused = true)]
async fn shutdown_with_a_dead_collector_ends_and_counts() {
    let (memory, notifier) = start(10_000);
    memory.down.store(true, Ordering::Relaxed);
    notify(&notifier, &["x"; 5_000]);
    tokio::time::sleep(Duration::from_secs(1)).await;
    let report = notifier.shutdown().await;
    let expected = NotifierReport { written: 0, dropped: 5_000, last_error: report.last_error.clone() };
    assert_eq!(report, expected);
    assert_eq!(notifier.shutdown().await, report);
}

#[test]
fn a_record_goes_to_every_notifier_though_one_panics() {
    let memory = Arc::new(MemoryNotifier::default());
    let panicking: Arc<dyn Notifier> = Arc::new(|_: TraceRecord| std::panic::resume_unwind(Box::new(())));
    let all = FanOut::new(vec![
        Arc::clone(&memory) as Arc<dyn Notifier>,
        panicking,
        Arc::clone(&memory) as Arc<dyn Notifier>,
    ]);
    notify(&all, &["a"]);
    notify(&FanOut::new(Vec::new()), &["nobody"]);
    assert_eq!(memory.names(), ["a", "a"]);
}
