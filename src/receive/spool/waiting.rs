//! Spans of iterations about which nothing is decided yet, in memory.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};

use super::decisions::IterationKey;
use base::ids::mix;

/// What a table takes for a trace besides its bytes, roughly.
const TRACE_BYTES: usize = 128;
const CHUNK_HEAD_BYTES: usize = 8;

/// A hasher for [`IterationKey`], whose numbers cannot be chosen from outside.
#[derive(Default)]
pub(super) struct PlaceHasher(u64);

impl Hasher for PlaceHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    #[inline]
    fn write_u64(&mut self, number: u64) {
        self.0 = mix(self.0 ^ number);
    }
}

pub(super) type IterationMap<T> = HashMap<IterationKey, T, BuildHasherDefault<PlaceHasher>>;

/// The spans of a trace so far: chunks of spans that came together, each an encoded `ResourceSpans`. All of them are in
/// one piece of memory: it is given back on the coordinator's thread, where many small ones would take long.
#[derive(Debug, Default)]
pub(super) struct TraceBuffer {
    /// The number of spans and the length of each chunk, and its bytes.
    buffer: Vec<u8>,
    chunks: usize,
    pub(super) spans: u32,
    /// Spans over the bounds of a trace.
    pub(super) lost: u32,
}

impl TraceBuffer {
    fn push(&mut self, spans: u32, bytes: &[u8]) {
        self.buffer.reserve(CHUNK_HEAD_BYTES + bytes.len());
        self.buffer.extend_from_slice(&spans.to_le_bytes());
        self.buffer.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
        self.buffer.extend_from_slice(bytes);
        self.chunks += 1;
        self.spans += spans;
    }

    /// The number of chunks.
    pub(super) fn count(&self) -> usize {
        self.chunks
    }

    /// The bytes of all chunks.
    pub(super) fn bytes(&self) -> usize {
        self.buffer.len() - self.chunks * CHUNK_HEAD_BYTES
    }

    /// The chunks: how many spans, and their bytes.
    pub(super) fn chunks(&self) -> impl Iterator<Item = (u32, &[u8])> {
        let mut rest = self.buffer.as_slice();
        std::iter::from_fn(move || {
            let (head, behind) = rest.split_first_chunk::<CHUNK_HEAD_BYTES>()?;
            let number = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
            let (bytes, behind) = behind.split_at_checked(number(4) as usize)?;
            rest = behind;
            Some((number(0), bytes))
        })
    }

    fn memory_bytes(&self) -> usize {
        TRACE_BYTES + self.buffer.capacity()
    }
}

/// The traces that wait for a decision.
#[derive(Debug, Default)]
pub(super) struct WaitingTraces {
    traces: IterationMap<TraceBuffer>,
    /// In the order in which they came; some are no longer here.
    order: VecDeque<IterationKey>,
    spans: u64,
    bytes: usize,
}

impl WaitingTraces {
    /// Adds spans, unless their trace would be over these bounds. False if they were not added.
    pub(super) fn push(&mut self, place: IterationKey, spans: u32, bytes: &[u8], max: (u32, usize)) -> bool {
        let order = &mut self.order;
        let added = &mut self.bytes;
        let trace = self.traces.entry(place).or_insert_with(|| {
            order.push_back(place);
            *added += TRACE_BYTES;
            TraceBuffer::default()
        });
        if trace.spans.saturating_add(spans) > max.0 || trace.bytes() + bytes.len() > max.1 {
            trace.lost = trace.lost.saturating_add(spans);
            return false;
        }
        let before = trace.buffer.capacity();
        trace.push(spans, bytes);
        *added += trace.buffer.capacity() - before;
        self.spans += u64::from(spans);
        true
    }

    /// Takes a trace out.
    #[inline]
    pub(super) fn remove(&mut self, place: IterationKey) -> Option<TraceBuffer> {
        let trace = self.traces.remove(&place)?;
        self.spans -= u64::from(trace.spans);
        self.bytes -= trace.memory_bytes();
        if self.order.len() > 2 * self.traces.len() + 1024 {
            self.order.retain(|place| self.traces.contains_key(place));
        }
        Some(trace)
    }

    /// Takes out the trace that came first.
    pub(super) fn pop_oldest(&mut self) -> Option<(IterationKey, TraceBuffer)> {
        while let Some(place) = self.order.pop_front() {
            if let Some(trace) = self.remove(place) {
                return Some((place, trace));
            }
        }
        None
    }

    pub(super) fn traces(&self) -> usize {
        self.traces.len()
    }

    pub(super) fn spans(&self) -> u64 {
        self.spans
    }

    /// Memory in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.bytes + self.order.len() * size_of::<IterationKey>()
    }
}
