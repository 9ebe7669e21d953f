//! The demo's notifier: a queue that can be flushed on demand.
//!
//! A flush replaces the queue with a new one and writes the old one to its end. After that, every
//! earlier record is stored. Nothing here may make a request wait: the lock is held only while a record
//! is put into the queue.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use osprofiler::driver::Collector;
use osprofiler::notifier::{Notifier, NotifierReport, QueueNotifier};
use osprofiler::record::TraceRecord;

/// The largest number of waiting records: a burst of 2,000 requests makes about 36,000.
pub(super) const QUEUE_LEN: usize = 131_072;

pub(super) struct Recorder {
    collector: Collector,
    queue: Mutex<Arc<QueueNotifier>>,
    /// The sums of all ended queues.
    ended: Mutex<NotifierReport>,
}

impl Recorder {
    /// Starts writing on the current tokio runtime.
    pub(super) fn start(collector: Collector) -> Self {
        let queue = Arc::new(QueueNotifier::start(collector.clone(), QUEUE_LEN));
        Self { collector, queue: Mutex::new(queue), ended: Mutex::default() }
    }

    /// Returns when all earlier records are stored or given up.
    pub(super) async fn flush(&self) -> NotifierReport {
        let fresh = Arc::new(QueueNotifier::start(self.collector.clone(), QUEUE_LEN));
        let full = std::mem::replace(&mut *lock(&self.queue), fresh);
        self.end(&full).await
    }

    /// Flushes for the last time: later records are lost. Reports on everything since the start.
    pub(super) async fn shutdown(&self) -> NotifierReport {
        let last = Arc::clone(&lock(&self.queue));
        self.end(&last).await;
        lock(&self.ended).clone()
    }

    async fn end(&self, queue: &QueueNotifier) -> NotifierReport {
        let report = queue.shutdown().await;
        let mut ended = lock(&self.ended);
        ended.written += report.written;
        ended.dropped += report.dropped;
        if report.last_error.is_some() {
            ended.last_error.clone_from(&report.last_error);
        }
        report
    }
}

impl Notifier for Recorder {
    fn notify(&self, record: TraceRecord) {
        lock(&self.queue).notify(record);
    }
}

/// Ignores poisoning: a panic leaves the data behind the locks of this file consistent.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
