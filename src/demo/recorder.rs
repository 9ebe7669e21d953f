//! The demo's notifier: a queue that can be emptied on demand.
//!
//! A flush puts a new queue in the old one's place and writes the old one to its end, so that
//! whoever flushed knows that what was notified before is stored. Nothing here may make a request
//! wait: the lock is held for as long as it takes to put a record into a queue.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::osprofiler::driver::Collector;
use crate::osprofiler::notifier::{Notifier, NotifierReport, QueueNotifier};
use crate::osprofiler::record::Record;

/// How many records may wait: a burst of 2,000 requests makes about 36,000.
pub(super) const QUEUE_LEN: usize = 131_072;

pub(super) struct Recorder {
    collector: Collector,
    queue: Mutex<Arc<QueueNotifier>>,
    /// What became of the queues that were ended.
    ended: Mutex<NotifierReport>,
}

impl Recorder {
    /// Starts writing on the current tokio runtime.
    pub(super) fn start(collector: Collector) -> Self {
        let queue = Arc::new(QueueNotifier::start(collector.clone(), QUEUE_LEN));
        Self { collector, queue: Mutex::new(queue), ended: Mutex::default() }
    }

    /// Returns when all that was notified before is stored, or given up.
    pub(super) async fn flush(&self) -> NotifierReport {
        let fresh = Arc::new(QueueNotifier::start(self.collector.clone(), QUEUE_LEN));
        let full = std::mem::replace(&mut *lock(&self.queue), fresh);
        self.end(&full).await
    }

    /// As [`Recorder::flush`], for good: what is notified from now on is lost. Reports on
    /// everything since the start.
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
    fn notify(&self, record: Record) {
        lock(&self.queue).notify(record);
    }
}

/// A panic leaves nothing half done that the locks of this file guard.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
