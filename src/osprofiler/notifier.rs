//! From observed code to the collector, without ever making observed code wait.
//!
//! OSProfiler's own drivers write while the request waits, so a collector that is down makes every
//! traced request fail. Here records go into a bounded queue, a background task writes them in
//! batches, and what does not fit is dropped and counted. Nothing here may block or panic in
//! [`Notifier::notify`].

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::driver::{Collector, DriverError};
use super::record::Record;

/// How many records may wait for the collector, unless told otherwise (about 30 MB).
pub const QUEUE_LEN: usize = 65_536;

const BATCH_LEN_MAX: usize = 2_048;
const RETRY_AFTER_MIN: Duration = Duration::from_millis(50);
const RETRY_AFTER_MAX: Duration = Duration::from_secs(2);
/// How long [`QueueNotifier::shutdown`] goes on writing what waits.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(10);

/// Takes records from observed code.
pub trait Notifier: Send + Sync {
    /// Takes a record; must return at once, whatever the collector does.
    fn notify(&self, record: Record);
}

/// Writes records to a [`Collector`] from a background task.
pub struct QueueNotifier {
    queue: mpsc::Sender<Record>,
    dropped: Arc<AtomicU64>,
    stop: CancellationToken,
    writer: Mutex<Option<JoinHandle<Written>>>,
}

/// What became of a notifier's records.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NotifierReport {
    /// Records the collector took.
    pub written: u64,
    /// Records lost: the queue was full, or the collector was down until the end.
    pub dropped: u64,
    /// The last failure to write, even if a later attempt succeeded.
    pub last_error: Option<String>,
}

#[derive(Default)]
struct Written {
    records: u64,
    lost: u64,
    last_error: Option<String>,
}

impl QueueNotifier {
    /// Starts the background task, on the current tokio runtime, with room for `queue_len` records.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    #[must_use]
    pub fn start(collector: Collector, queue_len: usize) -> Self {
        let (queue, records) = mpsc::channel(queue_len.max(1));
        let stop = CancellationToken::new();
        let writer = Writer { collector, records, stop: stop.clone(), written: Written::default() };
        let task = tokio::spawn(writer.run());
        Self { queue, dropped: Arc::default(), stop, writer: Mutex::new(Some(task)) }
    }

    /// How many records did not fit into the queue so far.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Writes what waits (starting no write after 10 s), ends the task and reports.
    /// Later records are dropped. A second call reports nothing written.
    pub async fn shutdown(&self) -> NotifierReport {
        self.stop.cancel();
        let task = self.writer.lock().unwrap_or_else(PoisonError::into_inner).take();
        let written = match task {
            Some(task) => task.await.unwrap_or_else(|error| Written {
                last_error: Some(format!("end the notifier: {error}")),
                ..Written::default()
            }),
            None => Written::default(),
        };
        NotifierReport {
            written: written.records,
            dropped: written.lost + self.dropped(),
            last_error: written.last_error,
        }
    }
}

impl Notifier for QueueNotifier {
    fn notify(&self, record: Record) {
        if self.queue.try_send(record).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Drop for QueueNotifier {
    /// Lets the task end by itself; only [`QueueNotifier::shutdown`] waits for it.
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl fmt::Debug for QueueNotifier {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "QueueNotifier({} dropped)", self.dropped())
    }
}

struct Writer {
    collector: Collector,
    records: mpsc::Receiver<Record>,
    stop: CancellationToken,
    written: Written,
}

impl Writer {
    async fn run(mut self) -> Written {
        let mut batch = Vec::with_capacity(BATCH_LEN_MAX);
        loop {
            tokio::select! {
                biased;
                () = self.stop.cancelled() => break,
                received = self.records.recv_many(&mut batch, BATCH_LEN_MAX) => {
                    if received == 0 {
                        return self.flush().await;
                    }
                }
            }
            self.write(&batch).await;
            batch.clear();
        }
        self.drain(batch).await
    }

    /// Tries until the batch is written or shutdown begins; meanwhile the queue fills and drops.
    async fn write(&mut self, batch: &[Record]) {
        let mut retry_after = RETRY_AFTER_MIN;
        while let Err(error) = self.collector.write(batch).await {
            let give_up = !error.is_transient();
            self.note(&error);
            if give_up {
                self.written.lost += batch.len() as u64;
                return;
            }
            tokio::select! {
                () = self.stop.cancelled() => {
                    self.write_once(batch).await;
                    return;
                }
                () = sleep(retry_after) => retry_after = (retry_after * 2).min(RETRY_AFTER_MAX),
            }
        }
        self.written.records += batch.len() as u64;
    }

    async fn write_once(&mut self, batch: &[Record]) {
        match self.collector.write(batch).await {
            Ok(()) => self.written.records += batch.len() as u64,
            Err(error) => {
                self.note(&error);
                self.written.lost += batch.len() as u64;
            }
        }
    }

    /// After the call to stop: one attempt for each batch that still waits, within a time limit.
    async fn drain(mut self, mut batch: Vec<Record>) -> Written {
        self.records.close();
        let deadline = Instant::now() + SHUTDOWN_TIMEOUT;
        loop {
            if batch.is_empty() && self.records.recv_many(&mut batch, BATCH_LEN_MAX).await == 0 {
                return self.flush().await;
            }
            if Instant::now() < deadline {
                self.write_once(&batch).await;
            } else {
                self.written.lost += batch.len() as u64;
            }
            batch.clear();
        }
    }

    async fn flush(mut self) -> Written {
        if let Err(error) = self.collector.flush().await {
            self.note(&error);
        }
        self.written
    }

    fn note(&mut self, error: &DriverError) {
        self.written.last_error = Some(error.chain());
    }
}
