//! All received spans in one file, for a receiver that stands alone: OSProfiler's records, one per line, as `bench trace`
//! reads them.
//!
//! A thread of its own writes the file. What waits for it is bounded, and so is the file; spans beyond either are
//! dropped and counted. A disk that fails ends the file at its last whole line.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use super::Taker;
use super::wire::request_of;
use osprofiler::record::TraceRecord;
use osprofiler::spans::{protobuf, read};
use text::files::create_private;

/// Messages that wait to be written.
const MESSAGES_MAX: usize = 4_096;
const WAITING_BYTES_MAX: u64 = 64 << 20;
/// How long lines wait in memory.
const FLUSH_EVERY: Duration = Duration::from_millis(500);
/// Bytes that are written together.
const WRITE_BYTES: usize = 256 << 10;
/// More traces are not told apart by the count.
const TRACES_COUNTED_MAX: usize = 1_000_000;

/// What a file has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpanFileSummary {
    /// Spans that were written.
    pub spans: u64,
    /// Their traces; at most a million are counted.
    pub traces: u64,
    /// Spans that were dropped: the disk was too slow or has failed, or the file is as large as it may be.
    pub dropped_spans: u64,
    /// The size of the file.
    pub bytes: u64,
    /// Why it ends early: the disk's error.
    pub error: Option<String>,
}

/// A file that takes every span.
pub struct SpanFile {
    shared: Arc<SpanFileState>,
    queue: Mutex<Option<SyncSender<SpanBatch>>>,
    thread: Mutex<Option<JoinHandle<SpanFileSummary>>>,
}

#[derive(Default)]
struct SpanFileState {
    waiting_bytes: AtomicU64,
    spans: AtomicU64,
    dropped_spans: AtomicU64,
}

struct SpanBatch {
    trace_id: u128,
    spans: u32,
    resource_spans: Vec<u8>,
}

impl SpanFile {
    /// Makes the file, which must not exist, for its owner only. It is never larger than `bytes_max`. `clean` may change
    /// each record before it is written.
    ///
    /// # Errors
    /// An I/O error of the file system, or the thread cannot be started.
    pub fn create(path: &Path, bytes_max: u64, clean: fn(&mut TraceRecord)) -> io::Result<Self> {
        let file = create_private(path)?;
        let shared = Arc::new(SpanFileState::default());
        let (queue, messages) = sync_channel(MESSAGES_MAX);
        let writer = SpanFileWriter {
            file,
            bytes_max,
            clean,
            shared: Arc::clone(&shared),
            buffer: Vec::with_capacity(WRITE_BYTES * 2),
            buffered_spans: 0,
            traces: HashSet::new(),
            written: SpanFileSummary::default(),
        };
        let thread =
            std::thread::Builder::new().name("spans".to_owned()).spawn(move || writer.run(&messages))?;
        Ok(Self { shared, queue: Mutex::new(Some(queue)), thread: Mutex::new(Some(thread)) })
    }

    /// How many spans were taken so far.
    #[must_use]
    pub fn spans(&self) -> u64 {
        self.shared.spans.load(Relaxed)
    }

    /// Writes what waits and closes the file. A second call returns nothing.
    pub fn finish(&self) -> SpanFileSummary {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner).take();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        let written = thread.and_then(|thread| thread.join().ok()).unwrap_or_default();
        SpanFileSummary { dropped_spans: self.shared.dropped_spans.load(Relaxed), ..written }
    }
}

impl Taker for SpanFile {
    fn wants(&self, _: u128) -> bool {
        true
    }

    fn take(&self, trace_id: u128, spans: u32, resource_spans: &[u8]) {
        let bytes = resource_spans.len() as u64;
        self.shared.spans.fetch_add(u64::from(spans), Relaxed);
        let waiting = self.shared.waiting_bytes.fetch_add(bytes, Relaxed) + bytes;
        let message = SpanBatch { trace_id, spans, resource_spans: resource_spans.to_vec() };
        let queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        let is_taken = waiting <= WAITING_BYTES_MAX
            && queue.as_ref().is_some_and(|queue| queue.try_send(message).is_ok());
        if !is_taken {
            self.shared.waiting_bytes.fetch_sub(bytes, Relaxed);
            self.shared.dropped_spans.fetch_add(u64::from(spans), Relaxed);
        }
    }
}

struct SpanFileWriter {
    file: File,
    bytes_max: u64,
    clean: fn(&mut TraceRecord),
    shared: Arc<SpanFileState>,
    /// Whole lines that wait to be written.
    buffer: Vec<u8>,
    buffered_spans: u64,
    traces: HashSet<u128>,
    written: SpanFileSummary,
}

impl SpanFileWriter {
    fn run(mut self, messages: &Receiver<SpanBatch>) -> SpanFileSummary {
        loop {
            match messages.recv_timeout(FLUSH_EVERY) {
                Ok(message) => {
                    self.shared.waiting_bytes.fetch_sub(message.resource_spans.len() as u64, Relaxed);
                    self.add(&message);
                    if self.buffer.len() >= WRITE_BYTES {
                        self.flush();
                    }
                }
                Err(RecvTimeoutError::Timeout) => self.flush(),
                Err(RecvTimeoutError::Disconnected) => {
                    self.flush();
                    self.written.traces = self.traces.len() as u64;
                    return self.written;
                }
            }
        }
    }

    fn add(&mut self, message: &SpanBatch) {
        let before = self.buffer.len();
        if self.written.error.is_some() || self.lines(message).is_none() {
            self.buffer.truncate(before);
            self.drop_spans(u64::from(message.spans));
            return;
        }
        self.buffered_spans += u64::from(message.spans);
        if self.traces.len() < TRACES_COUNTED_MAX {
            self.traces.insert(message.trace_id);
        }
    }

    /// Appends a line for each record; `None` if that is not possible.
    fn lines(&mut self, message: &SpanBatch) -> Option<()> {
        let spans = protobuf::decode(&request_of(&[message.resource_spans.as_slice()])).ok()?;
        for mut record in read::records(&read::base_id(message.trace_id, &spans), &spans) {
            (self.clean)(&mut record);
            serde_json::to_writer(&mut self.buffer, &record).ok()?;
            self.buffer.push(b'\n');
        }
        (self.written.bytes + self.buffer.len() as u64 <= self.bytes_max).then_some(())
    }

    fn flush(&mut self) {
        let spans = std::mem::take(&mut self.buffered_spans);
        match self.file.write_all(&self.buffer) {
            Ok(()) => {
                self.written.bytes += self.buffer.len() as u64;
                self.written.spans += spans;
            }
            Err(error) => {
                // Best effort: a reader skips a line that is cut off.
                let _ = self.file.set_len(self.written.bytes);
                self.written.error = Some(error.to_string());
                self.drop_spans(spans);
            }
        }
        self.buffer.clear();
    }

    fn drop_spans(&self, spans: u64) {
        self.shared.dropped_spans.fetch_add(spans, Relaxed);
    }
}
