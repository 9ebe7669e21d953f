//! The spool's own thread: writes what is kept, cleans segments, and makes samples smaller when too much is kept.
//!
//! A disk that is full or fails costs spans, which are counted, and never the run. What cannot be written stays in
//! memory, where that is allowed, and is tried again every second.

use std::sync::PoisonError;
use std::time::{Duration, Instant};

use super::kept::{Block, Job};
use super::segments::{Disk, Frames, SpanFrame, read_whole};
use super::state::SharedSpool;

/// How long spans wait for others to be written with.
const WRITE_EVERY: Duration = Duration::from_millis(100);
const RETRY_AFTER: Duration = Duration::from_secs(1);
/// The number of frames that move at a time, while the receiver waits.
const AT_A_TIME: usize = 64;

struct SpoolWriter<'a> {
    shared: &'a SharedSpool,
    disk: Box<dyn Disk>,
    /// The segment that was created last, and its length on the disk.
    segment: Option<(u32, u64)>,
    failed: Option<Instant>,
    sealed: Instant,
    /// The end has come; writing is tried once more.
    is_last: bool,
}

pub(super) fn run(shared: &SharedSpool, disk: Box<dyn Disk>) -> Box<dyn Disk> {
    let mut writer =
        SpoolWriter { shared, disk, segment: None, failed: None, sealed: Instant::now(), is_last: false };
    while let Some(job) = writer.next_job() {
        match job {
            Job::Write(block) => writer.write(block),
            Job::Remove(segment) => writer.remove(segment),
            Job::Clean(segment) => writer.clean(segment),
        }
    }
    writer.disk
}

impl SpoolWriter<'_> {
    /// Waits for something to do; `None` at the end.
    fn next_job(&mut self) -> Option<Job> {
        let mut state = self.shared.lock();
        loop {
            state.relieve();
            let may_write = self.failed.is_none_or(|at| !self.is_last && at.elapsed() >= RETRY_AFTER);
            if let Some(job) = state.kept.next_job(may_write) {
                return Some(job);
            }
            if self.is_last {
                return None;
            }
            if state.is_closing {
                (self.is_last, self.failed) = (true, None);
                state.kept.seal();
                continue;
            }
            let waited = self.shared.work.wait_timeout(state, WRITE_EVERY);
            (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
            if self.sealed.elapsed() >= WRITE_EVERY {
                self.sealed = Instant::now();
                state.kept.seal();
            }
        }
    }

    fn write(&mut self, block: Block) {
        let written = self.append(&block);
        let mut state = self.shared.lock();
        match written {
            Ok(()) => {
                self.failed = None;
                state.kept.written(&block);
            }
            Err(_) => {
                self.failed = Some(Instant::now());
                state.write_errors += 1;
                state.kept.put_back(block);
                state.kept.tidy_queue(|trace_id| self.shared.place_of(trace_id));
            }
        }
    }

    fn append(&mut self, block: &Block) -> std::io::Result<()> {
        let length = match self.segment {
            Some((segment, length)) if segment == block.segment => length,
            _ => {
                self.disk.create(block.segment)?;
                0
            }
        };
        self.segment = Some((block.segment, length));
        if let Err(error) = self.disk.append(&block.bytes) {
            // Best effort: a reader skips what is no whole frame.
            let _ = self.disk.cut(length);
            return Err(error);
        }
        self.segment = Some((block.segment, length + block.bytes.len() as u64));
        Ok(())
    }

    fn remove(&mut self, segment: u32) {
        // What cannot be removed is only garbage.
        let _ = self.disk.remove(segment);
        self.shared.lock().kept.removed(segment);
    }

    /// Moves what is still kept to the end; the segment is removed when that is written.
    fn clean(&self, segment: u32) {
        let Ok(bytes) = read_whole(&*self.disk, segment) else {
            self.shared.lock().kept.set_unreadable(segment);
            return;
        };
        let frames: Vec<SpanFrame<'_>> = Frames::of_segment(&bytes).collect();
        for some in frames.chunks(AT_A_TIME) {
            let mut state = self.shared.lock();
            state.cleaning_bytes = bytes.len() + frames.len() * size_of::<SpanFrame<'_>>();
            for frame in some {
                if let Some(place) = self.shared.place_of(frame.trace_id) {
                    state.kept.move_frame(place, segment, frame);
                }
            }
            state.note_memory();
        }
        let mut state = self.shared.lock();
        state.cleaning_bytes = 0;
        state.kept.seal();
        // Frames that were damaged since they were written are lost.
        state.kept.set_unreadable(segment);
    }
}
