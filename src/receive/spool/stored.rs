//! Kept spans, read after the load: from the spool that has ended, or later from the run directory.

use std::collections::HashMap;
use std::io;
use std::path::Path;

use thiserror::Error;
use uuid::Uuid;

use super::kept::Block;
use super::segments::{Disk, FRAME_HEAD_BYTES, Folder, Frames, SpanFrame, read_whole};
use crate::wire::request_of;
use osprofiler::record::TraceRecord;
use osprofiler::spans::{SpanError, protobuf, read};

/// No more bytes of a trace are read: a file may come from elsewhere.
const TRACE_BYTES_MAX: usize = 64 << 20;

/// Why a trace cannot be read.
#[derive(Debug, Error)]
pub enum StoredError {
    /// The system does not give it.
    #[error("the stored spans cannot be read")]
    Io(#[from] io::Error),
    /// Its bytes are not spans.
    #[error("the stored spans are damaged")]
    Spans(#[from] SpanError),
}

/// Where a frame is.
#[derive(Clone, Copy, Debug)]
struct Extent {
    segment: u32,
    at: u32,
    length: u32,
}

/// The spans of a run that were kept.
pub struct StoredSpans {
    disk: Box<dyn Disk>,
    /// What could not be written, as segments from `first_in_memory` on.
    in_memory: Vec<Vec<u8>>,
    first_in_memory: u32,
    traces: HashMap<u128, Vec<Extent>>,
    skipped: u64,
}

impl StoredSpans {
    /// The spans in a run directory; `None` if there are none.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub fn open(run_directory: &Path) -> io::Result<Option<Self>> {
        let folder = Folder::open(run_directory);
        match folder.list() {
            Ok(_) => Ok(Some(Self::of(Box::new(folder), Vec::new(), |_| true))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// True if there was a receiver, whatever it got.
    #[must_use]
    pub fn is_in(run_directory: &Path) -> bool {
        Folder::open(run_directory).list().is_ok()
    }

    /// The traces that are kept, on a disk and in blocks that were not written.
    pub(super) fn of(disk: Box<dyn Disk>, unwritten: Vec<Block>, is_kept: impl Fn(u128) -> bool) -> Self {
        let segments = disk.list().unwrap_or_default();
        let first_in_memory = segments.iter().max().map_or(0, |last| last + 1);
        let in_memory = unwritten.into_iter().map(|block| block.bytes).collect();
        let mut stored = Self { disk, in_memory, first_in_memory, traces: HashMap::new(), skipped: 0 };
        for segment in segments {
            match read_whole(&*stored.disk, segment) {
                Ok(bytes) => stored.skipped += index(&mut stored.traces, segment, &bytes, &is_kept),
                Err(_) => stored.skipped += 1,
            }
        }
        for (segment, bytes) in (first_in_memory..).zip(&stored.in_memory) {
            index(&mut stored.traces, segment, bytes, &is_kept);
        }
        stored
    }

    /// The ids of all traces, in no particular order.
    pub fn trace_ids(&self) -> impl Iterator<Item = u128> + '_ {
        self.traces.keys().copied()
    }

    /// True if spans of this trace are here.
    #[must_use]
    pub fn has(&self, trace_id: u128) -> bool {
        self.traces.contains_key(&trace_id)
    }

    /// Bytes of the files that are no whole frames: damage, or what a crash cut off.
    #[must_use]
    pub fn skipped_bytes(&self) -> u64 {
        self.skipped
    }

    /// All traces, each as encoded `ResourceSpans`.
    pub fn traces(&self) -> impl Iterator<Item = (u128, io::Result<Vec<Vec<u8>>>)> + '_ {
        self.trace_ids().map(|trace_id| (trace_id, self.trace(trace_id)))
    }

    /// The spans of a trace as encoded `ResourceSpans`, in no particular order; none if the trace is not here. Spans that
    /// were sent twice are there twice; after a crash, others may be, too.
    ///
    /// # Errors
    /// An I/O error of the disk.
    pub fn trace(&self, trace_id: u128) -> io::Result<Vec<Vec<u8>>> {
        let (mut found, mut bytes) = (Vec::new(), 0);
        for extent in self.traces.get(&trace_id).into_iter().flatten() {
            bytes += extent.length as usize;
            if bytes > TRACE_BYTES_MAX {
                break;
            }
            let frame = self.read(*extent)?;
            let mut frames = Frames::of(&frame);
            // The file may have changed since.
            found.extend(
                frames.next().filter(|frame| frame.trace_id == trace_id).map(|frame| frame.payload.to_vec()),
            );
        }
        Ok(found)
    }

    /// The records of an iteration's trace, oldest first; none if the trace is not here.
    ///
    /// # Errors
    /// The spans cannot be read, or are no spans.
    pub fn records(&self, base_id: Uuid) -> Result<Vec<TraceRecord>, StoredError> {
        Ok(records_of(base_id, &self.trace(base_id.as_u128())?)?)
    }

    fn read(&self, Extent { segment, at, length }: Extent) -> io::Result<Vec<u8>> {
        let Some(index) = segment.checked_sub(self.first_in_memory) else {
            return self.disk.read(segment, u64::from(at), u64::from(length));
        };
        let block = self.in_memory.get(index as usize);
        Ok(block
            .and_then(|block| block.get(at as usize..)?.get(..length as usize))
            .unwrap_or_default()
            .to_vec())
    }
}

/// The records of an iteration's trace from its spans as encoded `ResourceSpans`, oldest first.
///
/// # Errors
/// Bytes that are no spans.
pub fn records_of(base_id: Uuid, messages: &[Vec<u8>]) -> Result<Vec<TraceRecord>, SpanError> {
    Ok(read::records(&base_id.to_string(), &protobuf::decode(&request_of(messages))?))
}

/// Adds the frames of a segment that are kept; returns the bytes that are no whole frames.
fn index(
    traces: &mut HashMap<u128, Vec<Extent>>,
    segment: u32,
    bytes: &[u8],
    is_kept: impl Fn(u128) -> bool,
) -> u64 {
    let mut frames = Frames::of_segment(bytes);
    for SpanFrame { trace_id, at, payload, .. } in frames.by_ref().filter(|frame| is_kept(frame.trace_id)) {
        let length = (FRAME_HEAD_BYTES + payload.len()) as u32;
        traces.entry(trace_id).or_default().push(Extent { segment, at: at as u32, length });
    }
    frames.skipped as u64
}
