//! Keeps the spans of the iterations that [`sampling`] says, in bounded memory and on a bounded part of the disk.
//!
//! Spans come from the receiver's thread, batches of ended iterations from the coordinator's. Neither waits for a disk:
//! a thread of the spool's own writes. What becomes of the spans of an iteration:
//!
//! - It is not decided: they wait in memory. If that is full, the spans of the oldest iterations, which may well become
//!   the slowest, go to the disk as if they were kept. If that is not possible either, they are let go.
//! - It is kept: they go to the disk, until other iterations take its place in every sample.
//! - It is dropped: they are let go.

pub mod sampling;
pub mod segments;
pub mod stored;

mod counts;
mod decisions;
mod kept;
mod limits;
mod state;
#[cfg(test)]
mod tests;
mod waiting;
mod writer;

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use super::Taker;
pub use counts::{DiscardCounts, KeptTrace, SpoolCounts};
use decisions::IterationKey;
pub use limits::SpoolLimits;
use measure::ids::RunIds;
use measure::latency::SampleId;
use measure::rows::{IterationHead, Rows};
use measure::sample::CompletionStatus;
use sampling::SamplingQuota;
use segments::{Disk, Folder, Frames, read_whole};
use state::{SharedSpool, SpoolState};
use stored::StoredSpans;

/// The number of iterations that are decided at a time, while the receiver waits.
const AT_A_TIME: usize = 128;

/// Keeps spans.
pub struct Spool {
    shared: Arc<SharedSpool>,
    writer: Mutex<Option<JoinHandle<Box<dyn Disk>>>>,
}

impl Spool {
    /// Starts a spool for the iterations of a run with this number of workloads.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn start(
        ids: RunIds,
        workloads: u16,
        wanted: SamplingQuota,
        limits: SpoolLimits,
        disk: Box<dyn Disk>,
    ) -> io::Result<Self> {
        let shared = Arc::new(SharedSpool::new(ids, workloads, wanted, limits));
        let of_thread = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("spool".to_owned());
        let writer = thread.spawn(move || writer::run(&of_thread, disk))?;
        Ok(Self { shared, writer: Mutex::new(Some(writer)) })
    }

    /// Decides about the iterations of a batch, which have ended.
    pub fn batch(&self, rows: &Rows) {
        let mut heads = rows.iter().map(|row| row.head).filter(|head| self.is_profiled(head)).peekable();
        while heads.peek().is_some() {
            let mut state = self.shared.lock();
            heads.by_ref().take(AT_A_TIME).for_each(|head| state.ended(head));
            state.note_memory();
        }
        // The writer looks for too much being kept.
        self.shared.work.notify_one();
    }

    /// Decides about an iteration that has ended.
    pub fn ended(&self, head: &IterationHead) {
        if self.is_profiled(head) {
            self.shared.lock().ended(head);
        }
    }

    fn is_profiled(&self, head: &IterationHead) -> bool {
        head.ended != CompletionStatus::Dropped && !self.shared.is_control(head)
    }

    /// What it has done so far.
    #[must_use]
    pub fn counts(&self) -> SpoolCounts {
        self.shared.lock().counts()
    }

    /// What is kept of an iteration's trace; `None` if it is not kept, or not decided.
    #[must_use]
    pub fn kept(&self, iteration: impl Into<SampleId>) -> Option<KeptTrace> {
        let place = IterationKey::of(iteration.into())?;
        let state = self.shared.lock();
        let entry = state.kept.traces.get(&place).filter(|entry| !entry.is_early)?;
        Some(KeptTrace { spans: entry.spans, lost: entry.lost })
    }

    /// What is written of an iteration's trace while spans come, as encoded `ResourceSpans`; `None` if the trace is not
    /// kept. What came in the last moments may be missing.
    ///
    /// # Errors
    /// An I/O error of the disk.
    pub fn written(
        &self,
        iteration: impl Into<SampleId>,
        trace_id: u128,
        run_directory: &Path,
    ) -> io::Result<Option<Vec<Vec<u8>>>> {
        let Some(place) = IterationKey::of(iteration.into()) else { return Ok(None) };
        let segments = match self.shared.lock().kept.traces.get(&place) {
            Some(entry) if !entry.is_early => entry.segments(),
            _ => return Ok(None),
        };
        let disk = Folder::open(run_directory);
        let mut found = Vec::new();
        for segment in segments {
            let bytes = match read_whole(&disk, segment) {
                // It waits to be written, or what is kept of it was moved just now.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                read => read?,
            };
            let frames = Frames::of_segment(&bytes).filter(|frame| frame.trace_id == trace_id);
            found.extend(frames.map(|frame| frame.payload.to_vec()));
        }
        Ok(Some(found))
    }

    /// Ends it: writes what waits to be written, lets go of what is not decided, and gives what is kept. Spans that come
    /// later are counted as undecided. Only the first call gives something.
    pub fn finish(&self) -> Option<(StoredSpans, SpoolCounts)> {
        let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner).take()?;
        self.shared.lock().close();
        self.shared.work.notify_one();
        let disk = writer.join().ok()?;
        let mut state = self.shared.lock();
        let unwritten = state.kept.take_unwritten();
        let counts = state.counts();
        let SpoolState { kept, .. } = &*state;
        let place_of = |trace_id| self.shared.place_of(trace_id);
        let is_kept = |trace_id| place_of(trace_id).is_some_and(|place| kept.traces.contains_key(&place));
        Some((StoredSpans::of(disk, unwritten, is_kept), counts))
    }
}

impl Drop for Spool {
    fn drop(&mut self) {
        drop(self.finish());
    }
}

impl Taker for Spool {
    fn wants(&self, trace_id: u128) -> bool {
        self.shared.place_of(trace_id).is_some()
    }

    fn take(&self, trace_id: u128, spans: u32, resource_spans: &[u8]) {
        if let Some(place) = self.shared.place_of(trace_id) {
            self.shared.lock().take(place, trace_id, spans, resource_spans);
        }
    }
}
