//! The traces that are kept: which, how much of each, in which segments, and what of them still has to be written.
//!
//! Frames go to the end of the open segment, by way of a bounded queue in memory. A trace that is dropped leaves garbage
//! in its segments; a segment that is mostly garbage is cleaned: what is still kept moves to the end, and the segment is
//! removed. So files are only ever appended to.

use std::collections::{BTreeMap, VecDeque};

use super::decisions::IterationKey;
use super::limits::SpoolLimits;
use super::segments::{FRAME_HEAD_BYTES, Frames, SEGMENT_HEAD, SpanFrame, write_frame};
use super::waiting::IterationMap;

/// How much is written at a time, at least.
const BLOCK_BYTES: usize = 256 << 10;
/// What the tables take for a kept trace, roughly: its entry, its segments and its places in the samples.
const TRACE_BYTES: usize = 240;

/// A trace that is kept.
#[derive(Debug, Default)]
pub(super) struct SpooledTrace {
    /// The number of samples that it is in; of an iteration that is not decided, none.
    pub(super) samples: u8,
    /// Its iteration is not decided; it is here because memory was short.
    pub(super) is_early: bool,
    pub(super) spans: u32,
    /// Spans of it that were let go.
    pub(super) lost: u32,
    /// Of its payloads.
    bytes: u64,
    /// Its segments, with the length of its frames in each.
    places: Vec<(u32, u32)>,
}

impl SpooledTrace {
    fn add_to(&mut self, segment: u32, length: u32) {
        match self.places.iter_mut().find(|(number, _)| *number == segment) {
            Some((_, bytes)) => *bytes += length,
            None => self.places.push((segment, length)),
        }
    }

    /// False if it has no such bytes in the segment.
    fn take_from(&mut self, segment: u32, length: u32) -> bool {
        let Some(at) = self.places.iter().position(|place| place.0 == segment && place.1 >= length) else {
            return false;
        };
        self.places[at].1 -= length;
        if self.places[at].1 == 0 {
            self.places.swap_remove(at);
        }
        true
    }

    /// The segments that have frames of it.
    pub(super) fn segments(&self) -> Vec<u32> {
        self.places.iter().map(|(segment, _)| *segment).collect()
    }

    fn length(&self) -> u64 {
        self.places.iter().map(|(_, length)| u64::from(*length)).sum()
    }
}

#[derive(Debug, Default)]
struct Segment {
    length: u64,
    /// The length of the frames of traces that are kept.
    live: u64,
    /// It could not be read, so it cannot be cleaned.
    is_unreadable: bool,
}

/// Bytes to append to a segment: whole frames, and the segment's beginning if it is the first block.
#[derive(Debug)]
pub(super) struct Block {
    pub(super) segment: u32,
    pub(super) bytes: Vec<u8>,
}

impl Block {
    pub(super) fn frames(&self) -> Frames<'_> {
        match self.bytes.starts_with(&SEGMENT_HEAD) {
            true => Frames::of_segment(&self.bytes),
            false => Frames::of(&self.bytes),
        }
    }
}

/// Why spans are not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SpoolRefusal {
    /// Their trace is too large.
    TraceTooLarge,
    /// The disk is too slow or full, or what is on it is at its limit.
    NoRoom,
}

/// What the writer is to do next.
#[derive(Debug)]
pub(super) enum Job {
    Write(Block),
    Remove(u32),
    Clean(u32),
}

#[derive(Debug)]
pub(super) struct KeptTraces {
    limits: SpoolLimits,
    pub(super) traces: IterationMap<SpooledTrace>,
    pub(super) spans: u64,
    segments: BTreeMap<u32, Segment>,
    /// The number of the segment that is appended to.
    open: u32,
    filling: Vec<u8>,
    blocks: VecDeque<Block>,
    /// Of all blocks and what is being filled, up to the end of their writing.
    queued: usize,
    /// Of all segments, including what still has to be written.
    length: u64,
    live: u64,
    /// Of the traces whose iterations are not decided.
    early: u64,
    pub(super) disk_peak: u64,
}

impl KeptTraces {
    pub(super) fn new(limits: SpoolLimits) -> Self {
        let mut kept = Self {
            limits,
            traces: IterationMap::default(),
            spans: 0,
            segments: BTreeMap::new(),
            open: 0,
            filling: Vec::new(),
            blocks: VecDeque::new(),
            queued: 0,
            length: 0,
            live: 0,
            early: 0,
            disk_peak: 0,
        };
        kept.begin_segment();
        kept
    }

    /// Keeps spans of a trace that has an entry.
    pub(super) fn add(
        &mut self,
        place: IterationKey,
        trace_id: u128,
        spans: u32,
        payload: &[u8],
    ) -> Result<(), SpoolRefusal> {
        let Some(entry) = self.traces.get_mut(&place) else { return Err(SpoolRefusal::NoRoom) };
        let length = payload.len() + FRAME_HEAD_BYTES;
        let bytes = entry.bytes + payload.len() as u64;
        let room_bytes = self.limits.disk_bytes.saturating_sub(2 * self.limits.segment_bytes);
        let refused = if entry.spans.saturating_add(spans) > self.limits.trace_spans
            || bytes > self.limits.trace_bytes as u64
        {
            Some(SpoolRefusal::TraceTooLarge)
        } else if self.queued + length > self.limits.queue_bytes || self.length + length as u64 > room_bytes {
            Some(SpoolRefusal::NoRoom)
        } else {
            None
        };
        if let Some(refused) = refused {
            entry.lost = entry.lost.saturating_add(spans);
            return Err(refused);
        }
        entry.spans += spans;
        entry.bytes = bytes;
        if entry.is_early {
            self.early += length as u64;
        }
        self.spans += u64::from(spans);
        self.append(place, trace_id, spans, payload);
        Ok(())
    }

    fn append(&mut self, place: IterationKey, trace_id: u128, spans: u32, payload: &[u8]) {
        if self.segments.get(&self.open).is_some_and(|open| open.length >= self.limits.segment_bytes) {
            self.seal();
            self.open += 1;
            self.begin_segment();
        }
        let length = (payload.len() + FRAME_HEAD_BYTES) as u32;
        if self.filling.capacity() == 0 {
            self.filling.reserve(BLOCK_BYTES + length as usize);
        }
        write_frame(&mut self.filling, trace_id, spans, payload);
        if let Some(entry) = self.traces.get_mut(&place) {
            entry.add_to(self.open, length);
        }
        let segment = self.segments.entry(self.open).or_default();
        segment.length += u64::from(length);
        segment.live += u64::from(length);
        self.live += u64::from(length);
        self.length += u64::from(length);
        self.queued += length as usize;
        self.disk_peak = self.disk_peak.max(self.length);
        if self.filling.len() >= BLOCK_BYTES {
            self.seal();
        }
    }

    fn begin_segment(&mut self) {
        let length = SEGMENT_HEAD.len();
        self.filling.extend_from_slice(&SEGMENT_HEAD);
        self.segments.insert(self.open, Segment { length: length as u64, ..Segment::default() });
        self.length += length as u64;
        self.queued += length;
    }

    /// Makes a block of what waits to be written.
    pub(super) fn seal(&mut self) {
        // A segment without frames need not be there.
        if self.filling.len() > SEGMENT_HEAD.len() {
            let bytes = std::mem::take(&mut self.filling);
            self.blocks.push_back(Block { segment: self.open, bytes });
        }
    }

    /// Drops a trace; returns its spans.
    pub(super) fn drop_trace(&mut self, place: IterationKey) -> u32 {
        let Some(entry) = self.traces.remove(&place) else { return 0 };
        if entry.is_early {
            self.early -= entry.length();
        }
        for (segment, length) in &entry.places {
            if let Some(segment) = self.segments.get_mut(segment) {
                segment.live -= u64::from(*length);
                self.live -= u64::from(*length);
            }
        }
        self.spans -= u64::from(entry.spans);
        entry.spans
    }

    /// The iteration of a trace is decided: it is in `samples` more samples.
    pub(super) fn decide(&mut self, place: IterationKey, samples: u8) -> &mut SpooledTrace {
        let entry = self.traces.entry(place).or_default();
        if entry.is_early {
            self.early -= entry.length();
            entry.is_early = false;
        }
        entry.samples += samples;
        entry
    }

    /// Makes an entry for a trace whose iteration is not decided, if there is room for this number of bytes and chunks.
    pub(super) fn begin_early(&mut self, place: IterationKey, bytes: usize, chunks: usize) -> bool {
        let length = bytes + chunks * FRAME_HEAD_BYTES;
        let fits = self.queued + length <= self.limits.queue_bytes / 2
            && self.early + length as u64 <= self.limits.disk_bytes / 4
            && self.length + length as u64 <= self.limits.disk_bytes / 2;
        if fits {
            self.traces.entry(place).or_default().is_early = true;
        }
        fits
    }

    /// True if so much is kept that cleaning could no longer make room.
    pub(super) fn is_too_much(&self) -> bool {
        self.live > (self.limits.disk_bytes / 2).saturating_sub(2 * self.limits.segment_bytes)
    }

    /// What the writer is to do next; nothing is written unless `may_write`.
    pub(super) fn next_job(&mut self, may_write: bool) -> Option<Job> {
        let is_short = self.length > self.limits.disk_bytes / 10 * 8;
        let is_behind = self.queued > self.limits.queue_bytes / 2;
        if may_write
            && (is_behind || !is_short)
            && let Some(block) = self.blocks.pop_front()
        {
            return Some(Job::Write(block));
        }
        let dead =
            self.segments.iter().find(|(number, segment)| segment.live == 0 && self.is_at_rest(**number));
        if let Some((number, _)) = dead {
            return Some(Job::Remove(*number));
        }
        if !may_write {
            return None;
        }
        let percent_max = if is_short { 90 } else { 50 };
        let by_live = |(_, segment): &(&u32, &Segment)| segment.live * 1000 / segment.length.max(1);
        let worst = self.segments.iter().filter(|(number, segment)| {
            segment.live * 100 < segment.length * percent_max
                && !segment.is_unreadable
                && self.is_at_rest(**number)
        });
        if let Some((number, _)) = worst.min_by_key(by_live) {
            return Some(Job::Clean(*number));
        }
        self.blocks.pop_front().map(Job::Write)
    }

    /// True for a segment that is wholly written.
    fn is_at_rest(&self, segment: u32) -> bool {
        segment < self.open && self.blocks.front().is_none_or(|block| segment < block.segment)
    }

    /// A block was written.
    pub(super) fn written(&mut self, block: &Block) {
        self.queued -= block.bytes.len();
    }

    /// A block could not be written, and has to wait; frames of traces that were dropped need not.
    pub(super) fn put_back(&mut self, block: Block) {
        self.blocks.push_front(block);
    }

    /// Takes the frames of dropped traces out of the queue. `place_of` says which trace a frame is of.
    pub(super) fn tidy_queue(&mut self, place_of: impl Fn(u128) -> Option<IterationKey>) {
        for block in &mut self.blocks {
            let mut bytes = Vec::with_capacity(block.bytes.len());
            if block.bytes.starts_with(&SEGMENT_HEAD) {
                bytes.extend_from_slice(&SEGMENT_HEAD);
            }
            let traces = &self.traces;
            let is_kept = |frame: &SpanFrame<'_>| {
                place_of(frame.trace_id).is_some_and(|place| traces.contains_key(&place))
            };
            for frame in block.frames().filter(is_kept) {
                bytes.extend_from_slice(&block.bytes[frame.at..frame.at + frame.length]);
            }
            let less = block.bytes.len() - bytes.len();
            if let Some(segment) = self.segments.get_mut(&block.segment) {
                segment.length -= less as u64;
            }
            self.length -= less as u64;
            self.queued -= less;
            bytes.shrink_to_fit();
            block.bytes = bytes;
        }
    }

    /// Moves a frame of a segment that is being cleaned to the end, if its trace is kept.
    pub(super) fn move_frame(&mut self, place: IterationKey, segment: u32, frame: &SpanFrame<'_>) {
        let length = frame.length as u32;
        let Some(entry) = self.traces.get_mut(&place) else { return };
        if !entry.take_from(segment, length) {
            return;
        }
        if let Some(segment) = self.segments.get_mut(&segment) {
            segment.live -= u64::from(length);
            self.live -= u64::from(length);
        }
        self.append(place, frame.trace_id, frame.spans, frame.payload);
    }

    /// A segment is no longer there.
    pub(super) fn removed(&mut self, segment: u32) {
        if let Some(segment) = self.segments.remove(&segment) {
            self.length -= segment.length;
            self.live -= segment.live;
        }
    }

    pub(super) fn set_unreadable(&mut self, segment: u32) {
        if let Some(segment) = self.segments.get_mut(&segment) {
            segment.is_unreadable = true;
        }
    }

    /// The traces whose iterations are not decided.
    pub(super) fn early_traces(&self) -> Vec<IterationKey> {
        self.traces.iter().filter(|(_, entry)| entry.is_early).map(|(place, _)| *place).collect()
    }

    /// Takes out what was not written, at the end.
    pub(super) fn take_unwritten(&mut self) -> Vec<Block> {
        self.seal();
        self.blocks.drain(..).collect()
    }

    pub(super) fn disk_bytes(&self) -> u64 {
        self.length - self.queued as u64
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.queued + self.traces.len() * TRACE_BYTES + self.segments.len() * 64
    }

    pub(super) fn queued_bytes(&self) -> usize {
        self.queued
    }
}
