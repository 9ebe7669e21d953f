//! The frames of HTTP/2 as they arrive, before the crate h2 reads them. h2 has limits that ordinary servers reach, does
//! not check everything that the standard forbids, and does not tell what is wrong with an answer. So this
//! - leaves out empty DATA frames: h2 takes only a hundred of them in the life of a connection;
//! - stops from time to time, so that a server whose frames never end does not keep the thread from everything else, and
//!   ends a connection whose frames end nothing;
//! - refuses trailers with a `:status` (RFC 9113, section 8.1);
//! - remembers the last fields and the last GOAWAY, to explain errors.
//!
//! A frame costs a few instructions; fields are looked at only in trailers and after an error.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::connect::Stream;
use super::error::ClientError;
use super::field_block;
use super::options::Limits;

/// The number of frames after which others on the thread get their turn.
const FRAMES_AT_ONCE: u32 = 1024;
/// The most frames in a row that end nothing: neither a piece of a body nor a stream.
const IDLE_FRAMES_MAX: u32 = 1_000_000;
/// What an error says of a server that sends more.
pub(super) const FLOOD: &str = "the server sent a million frames that end nothing";
/// What an error says of a server that sends another status after the body.
pub(super) const STATUS_BEHIND: &str = "its trailers have pseudo-header fields, such as `:status`";

const HEAD_BYTES: usize = 9;
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const GOAWAY: u8 = 7;
const CONTINUATION: u8 = 9;
const END_STREAM: u8 = 1;
const PADDED: u8 = 8;
const PRIORITY: u8 = 0x20;

/// How many bytes of a frame are looked at, in words.
const WORDS: usize = 32;

/// What was seen on a connection. Written and read by one thread at a time, mostly the same.
#[derive(Debug)]
pub(super) struct FrameObservation {
    /// The beginning of the last header block.
    words: [AtomicU64; WORDS],
    length: AtomicUsize,
    /// The length of the whole block, with what continues it.
    block_bytes: AtomicUsize,
    /// The last stream that the server has processed or may have, if it said so.
    last_stream: AtomicU32,
}

impl Default for FrameObservation {
    fn default() -> Self {
        let words = std::array::from_fn(|_| AtomicU64::new(0));
        let [length, block_bytes] = [const { AtomicUsize::new(0) }; 2];
        Self { words, length, block_bytes, last_stream: AtomicU32::new(u32::MAX) }
    }
}

impl FrameObservation {
    /// True once the server has sent GOAWAY.
    pub(super) fn is_going_away(&self) -> bool {
        self.last_stream.load(Ordering::Relaxed) != u32::MAX
    }

    /// True if the server has said that it did not process this stream and will not.
    pub(super) fn left_out(&self, stream: u32) -> bool {
        stream > self.last_stream.load(Ordering::Relaxed)
    }

    /// What is wrong with the answer whose fields came last and that h2 refused.
    pub(super) fn explain(&self, limits: &Limits) -> ClientError {
        let bytes: Vec<u8> =
            self.words.iter().flat_map(|word| word.load(Ordering::Relaxed).to_le_bytes()).collect();
        let block = &bytes[..self.length.load(Ordering::Relaxed).min(bytes.len())];
        let reason = match field_block::fault(block) {
            // Huffman's code makes fields shorter.
            None if self.block_bytes.load(Ordering::Relaxed) > limits.head_bytes_max / 2 => {
                return limits.head_exceeded();
            }
            Some(fault) => fault,
            None if field_block::has_length(block) => {
                "its body has another length than its `content-length` says, or it breaks another rule of HTTP/2"
                    .to_owned()
            }
            None => "the server breaks a rule of HTTP/2 (RFC 9113)".to_owned(),
        };
        ClientError::Protocol(format!("HTTP/2: {reason} (PROTOCOL_ERROR)"))
    }

    fn keep(&self, block: &[u8]) {
        let block = &block[..block.len().min(8 * WORDS)];
        self.length.store(block.len(), Ordering::Relaxed);
        for (word, piece) in self.words.iter().zip(block.chunks(8)) {
            let mut bytes = [0; 8];
            bytes[..piece.len()].copy_from_slice(piece);
            word.store(u64::from_le_bytes(bytes), Ordering::Relaxed);
        }
    }
}

/// A connection whose incoming frames are looked at.
pub(super) struct Frames {
    stream: Stream,
    seen: Arc<FrameObservation>,
    /// The beginning of a frame's head, kept back until the rest arrives.
    head: [u8; HEAD_BYTES],
    head_bytes: usize,
    /// How many bytes at the end of `head` are to be passed on: the buffer had no room for the whole head.
    approved: usize,
    /// What is left of the payload of a frame.
    left: usize,
    /// What is looked at of it, if anything.
    looked_at: Option<(Head, Vec<u8>)>,
    /// Streams whose body has begun and not ended.
    bodies: Vec<u32>,
    /// Frames since others had their turn.
    at_once: u32,
    /// Frames in a row that ended nothing.
    idle: u32,
    fault: Option<&'static str>,
}

#[derive(Clone, Copy)]
struct Head {
    length: usize,
    kind: u8,
    flags: u8,
    stream: u32,
}

impl Head {
    fn read(bytes: &[u8; HEAD_BYTES]) -> Self {
        let [a, b, c, kind, flags, stream @ ..] = *bytes;
        let length = usize::from(a) << 16 | usize::from(b) << 8 | usize::from(c);
        Self { length, kind, flags, stream: u32::from_be_bytes(stream) & (u32::MAX >> 1) }
    }

    fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// The fields within the payload of HEADERS.
    fn block<'a>(&self, payload: &'a [u8]) -> &'a [u8] {
        let padding =
            if self.has(PADDED) { payload.first().map_or(0, |bytes| usize::from(*bytes)) } else { 0 };
        let begin = usize::from(self.has(PADDED)) + if self.has(PRIORITY) { 5 } else { 0 };
        let end =
            if payload.len() == self.length { self.length.saturating_sub(padding) } else { payload.len() };
        payload.get(begin..end).unwrap_or_default()
    }
}

impl Frames {
    pub(super) fn new(stream: Stream, seen: &Arc<FrameObservation>) -> Self {
        Self {
            stream,
            seen: Arc::clone(seen),
            head: [0; HEAD_BYTES],
            head_bytes: 0,
            approved: 0,
            left: 0,
            looked_at: None,
            bodies: Vec::new(),
            at_once: 0,
            idle: 0,
            fault: None,
        }
    }

    /// Looks at what arrived, and moves what is passed on to its front. Returns how many bytes those are. `bytes` begins
    /// with what was kept back of a head.
    fn look(&mut self, bytes: &mut [u8]) -> usize {
        let (mut from, mut to) = (0, 0);
        while from < bytes.len() {
            if self.left > 0 {
                let here = self.left.min(bytes.len() - from);
                self.payload(&bytes[from..from + here]);
                if from != to {
                    bytes.copy_within(from..from + here, to);
                }
                (from, to, self.left) = (from + here, to + here, self.left - here);
                continue;
            }
            let Some(head) = bytes[from..].first_chunk::<HEAD_BYTES>() else {
                self.head_bytes = bytes.len() - from;
                self.head[..self.head_bytes].copy_from_slice(&bytes[from..]);
                break;
            };
            let head = Head::read(head);
            if self.passes(head) {
                if from != to {
                    bytes.copy_within(from..from + HEAD_BYTES, to);
                }
                to += HEAD_BYTES;
            }
            from += HEAD_BYTES;
        }
        to
    }

    /// Looks at a frame's head; false for a frame that is left out.
    fn passes(&mut self, head: Head) -> bool {
        self.at_once += 1;
        self.left = head.length;
        let ends = head.has(END_STREAM) && matches!(head.kind, DATA | HEADERS);
        let has_data = head.kind == DATA && head.length > 0;
        if ends || has_data || matches!(head.kind, RST_STREAM | GOAWAY) {
            self.idle = 0;
        } else {
            self.idle += 1;
            if self.idle > IDLE_FRAMES_MAX {
                self.fault = Some(FLOOD);
            }
        }
        match head.kind {
            DATA if head.length == 0 && !ends => return false,
            DATA if !ends => self.body_begins(head.stream),
            DATA | RST_STREAM => self.bodies.retain(|stream| *stream != head.stream),
            HEADERS => {
                // Trailers do not explain what is wrong with the fields before the body.
                if !self.bodies.contains(&head.stream) {
                    self.seen.block_bytes.store(head.length, Ordering::Relaxed);
                }
                self.looked_at = Some((head, Vec::new()));
            }
            CONTINUATION => {
                self.seen.block_bytes.fetch_add(head.length, Ordering::Relaxed);
            }
            GOAWAY => self.looked_at = Some((head, Vec::new())),
            _ => {}
        }
        true
    }

    fn body_begins(&mut self, stream: u32) {
        if !self.bodies.contains(&stream) {
            self.bodies.push(stream);
        }
    }

    /// Reads what is missing of a head; false at the end of the connection.
    fn rest_of_head(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<bool>> {
        let mut missing = ReadBuf::new(&mut self.head[self.head_bytes..]);
        ready!(Pin::new(&mut self.stream).poll_read(cx, &mut missing))?;
        let read = missing.filled().len();
        self.head_bytes += read;
        if self.head_bytes == HEAD_BYTES {
            self.head_bytes = 0;
            if self.passes(Head::read(&self.head)) {
                self.approved = HEAD_BYTES;
            }
        }
        Poll::Ready(Ok(read > 0))
    }

    /// Looks at the payload of a frame, or a part of it.
    fn payload(&mut self, part: &[u8]) {
        let Some((head, mut kept)) = self.looked_at.take() else { return };
        let is_all = part.len() == self.left;
        // Mostly the payload arrives in one piece, and nothing is copied.
        if !is_all || !kept.is_empty() {
            let room = (8 * WORDS).saturating_sub(kept.len());
            kept.extend_from_slice(&part[..part.len().min(room)]);
            if !is_all {
                self.looked_at = Some((head, kept));
                return;
            }
        }
        let payload = if kept.is_empty() { part } else { &kept };
        if head.kind == GOAWAY {
            if let Some(last) = payload.first_chunk::<4>() {
                let last = u32::from_be_bytes(*last) & (u32::MAX >> 1);
                self.seen.last_stream.fetch_min(last, Ordering::Relaxed);
            }
            return;
        }
        let block = head.block(payload);
        if !self.bodies.is_empty() && self.bodies.contains(&head.stream) {
            self.bodies.retain(|stream| *stream != head.stream);
            if field_block::begins_with_pseudo(block) {
                self.fault = Some(STATUS_BEHIND);
            }
            return;
        }
        self.seen.keep(block);
    }
}

impl AsyncRead for Frames {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        loop {
            if let Some(fault) = this.fault {
                return Poll::Ready(Err(io::Error::other(fault)));
            }
            if this.at_once >= FRAMES_AT_ONCE {
                this.at_once = 0;
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            let before = buffer.filled().len();
            if this.approved > 0 {
                let begin = HEAD_BYTES - this.approved;
                let here = this.approved.min(buffer.remaining());
                buffer.put_slice(&this.head[begin..begin + here]);
                this.approved -= here;
                return Poll::Ready(Ok(()));
            }
            if this.head_bytes > 0 && buffer.remaining() <= HEAD_BYTES {
                // There is no room to look at it in the buffer.
                match ready!(this.rest_of_head(cx))? {
                    true => continue,
                    false => return Poll::Ready(Ok(())),
                }
            }
            let kept_back = this.head_bytes;
            buffer.put_slice(&this.head[..kept_back]);
            let read = Pin::new(&mut this.stream).poll_read(cx, buffer);
            let arrived = buffer.filled().len() - before - kept_back;
            if !matches!(read, Poll::Ready(Ok(()))) {
                buffer.set_filled(before);
                this.at_once = 0;
                return read;
            }
            this.head_bytes = 0;
            if arrived == 0 {
                // The end, with what was kept back.
                return Poll::Ready(Ok(()));
            }
            let passed = this.look(&mut buffer.filled_mut()[before..]);
            if this.fault.is_some() {
                buffer.set_filled(before);
                continue;
            }
            buffer.set_filled(before + passed);
            // No bytes would mean the end.
            if passed > 0 {
                return Poll::Ready(Ok(()));
            }
        }
    }
}

impl AsyncWrite for Frames {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use super::*;

    use proptest::prelude::*;

    fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
        let length = (payload.len() as u32).to_be_bytes();
        [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
    }

    /// What is passed on of bytes that arrive in pieces, with what was seen, and the fault.
    fn passed(wire: &[u8], step: usize) -> (Vec<u8>, Arc<FrameObservation>, Option<&'static str>) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
        let _entered = runtime.enter();
        let (stream, _peer) = tokio::net::UnixStream::pair().unwrap();
        let seen = Arc::default();
        let mut frames = Frames::new(Stream::Unix(stream), &seen);
        let mut output = Vec::new();
        for piece in wire.chunks(step) {
            let mut bytes = [&frames.head[..frames.head_bytes], piece].concat();
            frames.head_bytes = 0;
            let passed = frames.look(&mut bytes);
            output.extend_from_slice(&bytes[..passed]);
        }
        output.extend_from_slice(&frames.head[..frames.head_bytes]);
        (output, seen, frames.fault)
    }

    #[test]
    fn only_empty_data_that_ends_nothing_is_left_out() {
        let kept = [
            frame(4, 0, 0, &[]),
            frame(HEADERS, 4, 1, b"\x88\x00\x05X-Big\x01a"),
            frame(DATA, 0, 1, b"ab"),
            frame(DATA, END_STREAM, 1, b""),
            frame(GOAWAY, 0, 0, &[0, 0, 0, 3, 0, 0, 0, 0]),
            frame(8, 0, 0, &[0, 0, 0, 1]),
        ];
        let empty = [frame(DATA, 0, 1, b""), frame(DATA, PADDED & 1, 1, b"")].concat();
        let wire: Vec<u8> = kept.iter().flat_map(|frame| [empty.clone(), frame.clone()].concat()).collect();
        for step in 1..wire.len() {
            let (output, seen, fault) = passed(&wire, step);
            assert_eq!((output, fault), (kept.concat(), None), "{step}");
            assert_eq!([3, 4, 5].map(|stream| seen.left_out(stream)), [false, true, true]);
            let explained = seen.explain(&Limits::default()).to_string();
            assert!(explained.contains("`X-Big` has capital letters"), "{explained}");
        }
        // A part of a head at the end is no frame.
        assert_eq!(passed(&[0, 0, 0], 2).0, [0, 0, 0]);
    }

    #[test]
    fn a_status_behind_a_body_and_frames_without_end_are_faults() {
        let answer = [frame(HEADERS, 4, 1, b"\x88"), frame(DATA, 0, 1, b"ab")].concat();
        for (last, fault) in [
            (frame(HEADERS, 5, 1, b"\x88"), Some(STATUS_BEHIND)),
            (frame(HEADERS, 5 | PADDED, 1, b"\x02\x88\0\0"), Some(STATUS_BEHIND)),
            (frame(HEADERS, 5, 1, b"\x00\x07:status\x03500"), Some(STATUS_BEHIND)),
            (frame(HEADERS, 5, 1, b"\x00\x0bgrpc-status\x010"), None),
            // The answer to another request.
            (frame(HEADERS, 5, 3, b"\x88"), None),
        ] {
            for step in [1, 7, 1000] {
                assert_eq!(passed(&[answer.clone(), last.clone()].concat(), step).2, fault, "{last:?}");
            }
        }
        let pings = frame(6, 0, 0, &[0; 8]).repeat(IDLE_FRAMES_MAX as usize);
        assert_eq!(passed(&pings, 1 << 16).2, None);
        assert_eq!(passed(&[pings, frame(6, 0, 0, &[0; 8])].concat(), 1 << 16).2, Some(FLOOD));
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(wire in proptest::collection::vec(any::<u8>(), 0..300), step in 1..50_usize) {
            prop_assert_eq!(passed(&wire, step).0, passed(&wire, 1000).0);
        }
    }
}
