//! Sends records from observed code to the collector, without ever making observed code wait.
//!
//! OSProfiler's own drivers write while the request waits, so a collector that is down makes every
//! traced request fail. Here records go into a bounded queue, a background task writes them in
//! batches, and records that do not fit are dropped and counted. [`Notifier::notify`] must not block
//! or panic.

use std::borrow::Cow;
use std::fmt;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::task::Poll;
use std::time::Duration;

use serde_json::Value;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

use super::driver::{Collector, DriverError};
use super::record::{RECORD_LEN_MAX, ServiceIdentity, TraceRecord};

/// How many records may wait for the collector, by default (about 30 MB).
pub const QUEUE_LEN: usize = 65_536;
/// How many bytes of text in records may wait for the collector, even if they are only few records.
pub const QUEUE_BYTES_MAX: u64 = 128 * 1024 * 1024;

const BATCH_LEN_MAX: usize = 2_048;
const RETRY_AFTER_MIN: Duration = Duration::from_millis(50);
const RETRY_AFTER_MAX: Duration = Duration::from_secs(2);
/// How often a working collector may refuse the same record.
const REFUSALS_MAX: u32 = 2;
/// How long to search a batch for refused records. After that, a refused part of the batch is dropped as a
/// whole.
const HALVING_TIMEOUT: Duration = Duration::from_secs(20);
/// How long [`QueueNotifier::shutdown`] continues to write waiting records.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(10);

/// Takes records from observed code.
///
/// Any `Fn(Record)` is a notifier, as any function is in OSProfiler. If it panics, the observed work
/// continues. The notifier's own work is not traced.
pub trait Notifier: Send + Sync {
    /// Takes a record. It must return at once, even if the collector is slow.
    fn notify(&self, record: TraceRecord);
}

impl<F: Fn(TraceRecord) + Send + Sync> Notifier for F {
    fn notify(&self, record: TraceRecord) {
        self(record);
    }
}

/// Gives every record to each of several notifiers.
#[derive(Clone)]
pub struct FanOut(Vec<Arc<dyn Notifier>>);

impl FanOut {
    /// Notifies in this order.
    #[must_use]
    pub fn new(notifiers: Vec<Arc<dyn Notifier>>) -> Self {
        Self(notifiers)
    }
}

impl Notifier for FanOut {
    fn notify(&self, record: TraceRecord) {
        let Some((last, others)) = self.0.split_last() else { return };
        for notifier in others {
            // One that panics must not keep the record from the others.
            let _ = catch_unwind(AssertUnwindSafe(|| notifier.notify(record.clone())));
        }
        last.notify(record);
    }
}

/// A service and the notifier it reports to.
#[derive(Clone)]
pub struct Reporter {
    pub(super) identity: Arc<ServiceIdentity>,
    pub(super) notifier: Arc<dyn Notifier>,
}

impl Reporter {
    /// `identity` reports to `notifier`.
    #[must_use]
    pub fn new(identity: Arc<ServiceIdentity>, notifier: Arc<dyn Notifier>) -> Self {
        Self { identity, notifier }
    }
}

static PROCESS: RwLock<Option<Reporter>> = RwLock::new(None);

/// Sets the process's notifier, to which profilers from `init` and from messages report. As in
/// OSProfiler, there is none at first: traces are then passed on but not recorded.
pub fn set(reporter: Option<Reporter>) {
    let before = std::mem::replace(&mut *PROCESS.write().unwrap_or_else(PoisonError::into_inner), reporter);
    // Its last reference may go here, which runs foreign code: not under the lock.
    drop(before);
}

/// The reporter that [`set`] was given.
#[must_use]
pub fn get() -> Option<Reporter> {
    PROCESS.read().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Writes records to a [`Collector`] from a background task. When this is dropped the task ends; only
/// [`QueueNotifier::shutdown`] waits for it.
pub struct QueueNotifier {
    queue: mpsc::Sender<Item>,
    counts: Arc<NotifierCounters>,
    /// `true` calls the task to stop; so does dropping this.
    stop: watch::Sender<bool>,
    writer: Mutex<Option<JoinHandle<()>>>,
}

/// The outcome of a notifier's records.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NotifierReport {
    /// Records the collector took.
    pub written: u64,
    /// Records lost: the queue was full, or the collector was down until the end.
    pub dropped: u64,
    /// The last failure to write, even if a later attempt succeeded.
    pub last_error: Option<String>,
}

enum Item {
    Record(TraceRecord),
    /// Answered once everything before it is written or given up.
    Flush(oneshot::Sender<()>),
}

/// Shared with the background task, so that the counts survive the end of the task, even after a panic.
#[derive(Default)]
struct NotifierCounters {
    written: AtomicU64,
    dropped: AtomicU64,
    /// Records that the collector took, and lost after that.
    lost: AtomicU64,
    waiting_bytes: AtomicU64,
    last_error: Mutex<Option<String>>,
}

impl NotifierCounters {
    fn add(counter: &AtomicU64, count: usize) {
        counter.fetch_add(count as u64, Ordering::Relaxed);
    }

    fn note(&self, error: String) {
        *self.last_error.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
    }

    /// Notes an error, and which records that were taken are lost by it.
    fn note_loss(&self, result: &Result<(), DriverError>) {
        if let Err(error) = result {
            self.note(error.chain());
            if let DriverError::Rejected { records, .. } = error {
                self.lost.fetch_add(*records, Ordering::Relaxed);
            }
        }
    }

    fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed).saturating_add(self.lost.load(Ordering::Relaxed))
    }

    fn report(&self) -> NotifierReport {
        let lost = self.lost.load(Ordering::Relaxed);
        NotifierReport {
            written: self.written.load(Ordering::Relaxed).saturating_sub(lost),
            dropped: self.dropped(),
            last_error: self.last_error.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        }
    }
}

impl QueueNotifier {
    /// Starts the background task, on the current tokio runtime, with room for `queue_len` records
    /// and [`QUEUE_BYTES_MAX`].
    ///
    /// # Panics
    /// Outside a tokio runtime.
    #[must_use]
    pub fn start(collector: Collector, queue_len: usize) -> Self {
        let (queue, items) = mpsc::channel(queue_len.max(1));
        let ((stop, stopping), counts) = (watch::channel(false), Arc::<NotifierCounters>::default());
        let writer = Writer { collector, items, stop: stopping, counts: Arc::clone(&counts) };
        let task = tokio::spawn(writer.run());
        Self { queue, counts, stop, writer: Mutex::new(Some(task)) }
    }

    /// How many records were dropped so far.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.counts.dropped()
    }

    /// The outcome of the records so far.
    #[must_use]
    pub fn report(&self) -> NotifierReport {
        self.counts.report()
    }

    /// Returns `true` when every record notified before is written or given up; `false` if that
    /// took longer than `limit`, because the collector is down or slow.
    pub async fn flush(&self, limit: Duration) -> bool {
        let (reached, flushed) = oneshot::channel();
        let flush = async {
            // A queue that is closed holds nothing to wait for.
            self.queue.send(Item::Flush(reached)).await.is_err() || flushed.await.is_ok()
        };
        timeout(limit, flush).await.unwrap_or(false)
    }

    /// Writes what waits (starting no write after 10 s), ends the task and reports on everything
    /// since the start. Later records are dropped.
    pub async fn shutdown(&self) -> NotifierReport {
        self.stop.send_replace(true);
        let task = self.writer.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(Err(error)) = match task {
            Some(task) => Some(task.await),
            None => None,
        } {
            self.counts.note(format!("end the notifier: {error}"));
        }
        self.report()
    }
}

impl Notifier for QueueNotifier {
    fn notify(&self, record: TraceRecord) {
        let bytes = size_bytes(&record);
        let waiting = self.counts.waiting_bytes.fetch_add(bytes, Ordering::Relaxed);
        let fits = bytes <= RECORD_LEN_MAX as u64 && waiting.saturating_add(bytes) <= QUEUE_BYTES_MAX;
        if !fits || self.queue.try_send(Item::Record(record)).is_err() {
            self.counts.waiting_bytes.fetch_sub(bytes, Ordering::Relaxed);
            NotifierCounters::add(&self.counts.dropped, 1);
        }
    }
}

impl fmt::Debug for QueueNotifier {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "QueueNotifier({} dropped)", self.dropped())
    }
}

/// About how long the record's JSON is: never less than the texts in it.
fn size_bytes(record: &TraceRecord) -> u64 {
    let TraceRecord { name, base_id, trace_id, parent_id, timestamp, info, project, service } = record;
    let texts = [name, base_id, trace_id, parent_id].into_iter().chain(project).chain(service);
    let mut bytes: usize = 120 + timestamp.text_len() + texts.map(|text| text.len()).sum::<usize>();
    let mut waiting: Vec<&Value> = Vec::new();
    for (key, value) in info.iter() {
        bytes += key.len() + 6;
        waiting.push(value);
    }
    // Not by recursion: a value may be nested deeper than a stack.
    while let Some(value) = waiting.pop() {
        bytes += match value {
            Value::String(text) => text.len() + 4,
            Value::Array(items) => {
                waiting.extend(items);
                2
            }
            Value::Object(entries) => {
                waiting.extend(entries.values());
                2 + entries.keys().map(|key| key.len() + 6).sum::<usize>()
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => 8,
        };
    }
    bytes as u64
}

/// The outcome of some records of a batch.
enum BatchOutcome {
    Written,
    /// The collector works, but does not take all of these.
    Refused,
    GivenUp,
}

/// The result of `work`; `None` if the call to stop comes first.
async fn unless_stopped<T>(stop: &watch::Receiver<bool>, work: impl Future<Output = T>) -> Option<T> {
    let mut stop = stop.clone();
    let mut stopped = pin!(async move { stop.wait_for(|stop| *stop).await.is_ok() });
    let mut work = pin!(work);
    poll_fn(|context| match stopped.as_mut().poll(context) {
        Poll::Ready(_) => Poll::Ready(None),
        Poll::Pending => work.as_mut().poll(context).map(Some),
    })
    .await
}

struct Writer {
    collector: Collector,
    items: mpsc::Receiver<Item>,
    stop: watch::Receiver<bool>,
    counts: Arc<NotifierCounters>,
}

impl Writer {
    async fn run(mut self) {
        let mut items = Vec::with_capacity(BATCH_LEN_MAX);
        loop {
            let receiving = self.items.recv_many(&mut items, BATCH_LEN_MAX);
            match unless_stopped(&self.stop, receiving).await {
                None => break,
                Some(0) => return self.flush_at_last().await,
                Some(_) => {}
            }
            self.take(&mut items, None).await;
        }
        self.drain(items).await;
    }

    /// Writes records and answers the callers that wait for them, until the deadline.
    async fn take(&self, items: &mut Vec<Item>, deadline: Option<Instant>) {
        let mut batch = Vec::with_capacity(items.len());
        for item in items.drain(..) {
            match item {
                Item::Record(record) => batch.push(record),
                Item::Flush(reached) => {
                    self.write(&mut batch, deadline).await;
                    self.flush().await;
                    // The caller may have given up waiting.
                    let _ = reached.send(());
                }
            }
        }
        self.write(&mut batch, deadline).await;
    }

    async fn write(&self, batch: &mut Vec<TraceRecord>, deadline: Option<Instant>) {
        if batch.is_empty() {
            return;
        }
        let written = self.write_at_last(batch, deadline).await;
        NotifierCounters::add(&self.counts.written, written);
        NotifierCounters::add(&self.counts.dropped, batch.len() - written);
        let bytes = batch.drain(..).map(|record| size_bytes(&record)).sum();
        self.counts.waiting_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Tries until the batch is written or shutdown begins; meanwhile the queue fills and drops. With a
    /// deadline, which is shutdown, there is one attempt. Records that a working collector refuses are left
    /// out: they are found by halving, for a limited time.
    async fn write_at_last(&self, batch: &[TraceRecord], deadline: Option<Instant>) -> usize {
        let mut written = 0;
        let mut until = deadline;
        let is_over = |until: Option<Instant>| until.is_some_and(|until| Instant::now() >= until);
        let mut parts = vec![Cow::Borrowed(batch)];
        while let Some(mut part) = parts.pop() {
            if is_over(deadline) {
                break;
            }
            let before = part.len();
            let refused = match self.write_part(&mut part, deadline.is_some()).await {
                BatchOutcome::Written => {
                    written += before;
                    continue;
                }
                BatchOutcome::GivenUp => false,
                BatchOutcome::Refused => true,
            };
            written += before - part.len();
            let until = *until.get_or_insert_with(|| Instant::now() + HALVING_TIMEOUT);
            if refused && part.len() > 1 && !is_over(Some(until)) {
                let (first, second) = part.split_at(part.len() / 2);
                parts.extend([Cow::Owned(second.to_vec()), Cow::Owned(first.to_vec())]);
            }
        }
        written
    }

    /// Leaves in `part` what is not stored, unless all is.
    async fn write_part(&self, part: &mut Cow<'_, [TraceRecord]>, at_once: bool) -> BatchOutcome {
        let mut retry_after = RETRY_AFTER_MIN;
        let mut refusals = 0;
        let mut last = at_once;
        while let Err(error) = self.try_write(part).await {
            if let DriverError::Partial { left, .. } = &error {
                *part = left.iter().filter_map(|index| part.get(*index)).cloned().collect();
            } else if error.refuses_content() {
                return BatchOutcome::Refused;
            }
            if last || !error.is_transient() {
                return BatchOutcome::GivenUp;
            }
            // An answer that is an error may be about the records, unless nothing works.
            if error.may_refuse_content() && self.collector.probe().await.is_ok() {
                refusals += 1;
                if part.len() > 1 || refusals == REFUSALS_MAX {
                    return BatchOutcome::Refused;
                }
            }
            match unless_stopped(&self.stop, sleep(retry_after)).await {
                None => last = true,
                Some(()) => retry_after = (retry_after * 2).min(RETRY_AFTER_MAX),
            }
        }
        BatchOutcome::Written
    }

    /// Tells only of what is not stored and may come again.
    async fn try_write(&self, batch: &[TraceRecord]) -> Result<(), DriverError> {
        let written = self.collector.write(batch).await;
        self.counts.note_loss(&written);
        if matches!(written, Err(DriverError::Rejected { .. })) { Ok(()) } else { written }
    }

    /// After the call to stop: one attempt for each batch that still waits, within a time limit.
    async fn drain(mut self, mut items: Vec<Item>) {
        self.items.close();
        let deadline = Instant::now() + SHUTDOWN_TIMEOUT;
        while !items.is_empty() || self.items.recv_many(&mut items, BATCH_LEN_MAX).await > 0 {
            self.take(&mut items, Some(deadline)).await;
        }
        self.flush_at_last().await;
    }

    /// Makes the collector send the records that it keeps back.
    async fn flush(&self) {
        self.counts.note_loss(&self.collector.flush().await);
    }

    /// The same for the last time: records that are still kept back are lost.
    async fn flush_at_last(&self) {
        self.flush().await;
        self.counts.lost.fetch_add(self.collector.held().await, Ordering::Relaxed);
    }
}
