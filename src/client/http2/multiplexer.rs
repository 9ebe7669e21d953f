//! The client's end of an HTTP/2 connection (RFC 9113), without its socket: bytes that arrive go in, bytes to send come out,
//! and answers are collected stream by stream.
//!
//! Everything is bounded: a frame, a head, trailers, what is kept of a body, interim answers, frames in a row that end
//! nothing, and what waits to be sent. What frames mean that arrive is in `receiving`.

use std::sync::Arc;
use std::task::Waker;
use std::time::Instant;

use http::{HeaderMap, StatusCode};

use super::code::Http2Code;
use super::decoder::FieldDecoder;
use super::encoder::FieldEncoder;
use super::frame::{self, ConnectionFault, FrameHead, HEAD_BYTES, PAYLOAD_BYTES_MAX};
use super::stream::{CollectedAnswer, StreamFailure, StreamState};
use crate::options::Limits;
use crate::{Request, buffers};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// How much a server may send before bench reports that it has read it: of a single answer, and of all.
pub(super) const STREAM_WINDOW_BYTES: u32 = 1 << 20;
pub(super) const CONNECTION_WINDOW_BYTES: u32 = 4 << 20;
/// The windows of a connection until its ends say otherwise (RFC 9113, section 6.9.2).
const INITIAL_WINDOW_BYTES: u32 = 65_535;
pub(super) const WINDOW_BYTES_MAX: i64 = (1 << 31) - 1;
pub(super) const STREAM_MAX: u32 = (1 << 31) - 1;
/// The longest payload of the frames that are sent, though a server may accept longer ones.
pub(super) const SENT_PAYLOAD_BYTES_MAX: usize = 64 << 10;
/// While more waits to be sent, no body is added to it.
pub(super) const WAITING_BYTES_MAX: usize = 64 << 10;
/// How many streams that ended here are remembered: the server may not know yet.
const ENDED_HERE_MAX: usize = 64;

/// The fields of a head or of trailers, of which more frames are to come.
#[derive(Debug)]
pub(super) struct UnfinishedBlock {
    pub(super) stream: u32,
    pub(super) ends_stream: bool,
    pub(super) block: Vec<u8>,
}

/// A head that was read, and will say the same as long as the table is the same.
#[derive(Debug)]
pub(super) struct KnownHead {
    pub(super) block: Box<[u8]>,
    pub(super) changes: u64,
    pub(super) status: StatusCode,
    /// If they were kept.
    pub(super) headers: Option<Arc<HeaderMap>>,
    pub(super) length: Option<u64>,
}

/// The same for trailers.
#[derive(Debug)]
pub(super) struct KnownTrailers {
    pub(super) block: Box<[u8]>,
    pub(super) changes: u64,
    pub(super) fields: Arc<HeaderMap>,
}

/// The state of a connection.
#[derive(Debug)]
pub(super) struct Multiplexer {
    pub(super) limits: Limits,
    pub(super) decoder: FieldDecoder,
    pub(super) encoder: FieldEncoder,
    pub(super) known_head: Option<KnownHead>,
    pub(super) known_trailers: Option<KnownTrailers>,
    /// What is to be sent, and how much of it was.
    pub(super) output: Vec<u8>,
    sent: usize,
    /// How much was sent before that.
    sent_before: u64,
    pub(super) streams: Vec<StreamState>,
    pub(super) next_stream: u32,
    /// Streams that ended here: the server may not know yet.
    pub(super) ended_here: Vec<u32>,
    /// True if there were more of them than are remembered.
    pub(super) has_forgotten: bool,
    pub(super) send_window: i64,
    /// What the server's settings say.
    pub(super) initial_window: i64,
    pub(super) payload_bytes_max: usize,
    pub(super) streams_max: u32,
    /// The bytes that were read and not yet reported to the server.
    pub(super) unreported: u32,
    pub(super) unfinished: Option<UnfinishedBlock>,
    pub(super) is_set_up: bool,
    /// The last stream that the server has processed or may have, and why it ends the connection.
    pub(super) farewell: Option<(u32, Http2Code)>,
    /// Frames in a row that ended nothing.
    pub(super) idle_frames: u32,
    /// Frames that were read.
    pub(super) frames: u64,
}

impl Multiplexer {
    /// A new connection; what opens it waits to be sent.
    pub(super) fn new(limits: Limits) -> Self {
        let mut output = Vec::new();
        output.extend_from_slice(PREFACE);
        let list_bytes = u32::try_from(limits.head_bytes_max).unwrap_or(u32::MAX);
        let settings = [
            (frame::ENABLE_PUSH, 0),
            (frame::INITIAL_WINDOW_SIZE, STREAM_WINDOW_BYTES),
            (frame::MAX_HEADER_LIST_SIZE, list_bytes),
        ];
        frame::write_settings(&mut output, &settings);
        let more = CONNECTION_WINDOW_BYTES - INITIAL_WINDOW_BYTES;
        frame::write_number(&mut output, frame::WINDOW_UPDATE, 0, more);
        Self {
            limits,
            decoder: FieldDecoder::default(),
            encoder: FieldEncoder::default(),
            known_head: None,
            known_trailers: None,
            output,
            sent: 0,
            sent_before: 0,
            streams: Vec::new(),
            next_stream: 1,
            ended_here: Vec::new(),
            has_forgotten: false,
            send_window: INITIAL_WINDOW_BYTES.into(),
            initial_window: INITIAL_WINDOW_BYTES.into(),
            payload_bytes_max: PAYLOAD_BYTES_MAX,
            streams_max: u32::MAX,
            unreported: 0,
            unfinished: None,
            is_set_up: false,
            farewell: None,
            idle_frames: 0,
            frames: 0,
        }
    }

    /// True once the server's settings are known.
    pub(super) fn is_set_up(&self) -> bool {
        self.is_set_up
    }

    /// True if it can take no more requests: the server goes away, or all numbers are used.
    pub(super) fn is_going_away(&self) -> bool {
        self.farewell.is_some() || self.next_stream > STREAM_MAX
    }

    /// Why the server goes away, if it does.
    pub(super) fn farewell(&self) -> Option<Http2Code> {
        self.farewell.map(|(_, code)| code)
    }

    /// True while the server accepts a further concurrent request.
    pub(super) fn has_room(&self) -> bool {
        self.streams.len() < self.streams_max()
    }

    /// The most concurrent requests that the server accepts.
    pub(super) fn streams_max(&self) -> usize {
        usize::try_from(self.streams_max).unwrap_or(usize::MAX)
    }

    /// How many frames were read.
    pub(super) fn frames(&self) -> u64 {
        self.frames
    }

    /// What is to be sent.
    pub(super) fn unsent(&self) -> &[u8] {
        &self.output[self.sent..]
    }

    /// Counts this number of bytes as sent.
    pub(super) fn note_sent(&mut self, bytes: usize) {
        self.sent += bytes;
        if self.sent == self.output.len() {
            self.sent_before += self.sent as u64;
            self.output.clear();
            self.sent = 0;
            self.wake_uploads();
        }
    }

    /// Gives memory back while no request is in flight.
    pub(super) fn rest(&mut self) {
        if self.streams.is_empty() && self.output.is_empty() {
            buffers::give(&mut self.output);
        }
    }

    /// Begins a request, whose head then waits to be sent; returns its number.
    pub(super) fn begin(&mut self, request: &Request<'_>) -> u32 {
        if self.output.capacity() == 0 {
            self.output = buffers::take();
        }
        let id = self.next_stream;
        self.next_stream += 2;
        self.write_head(id, request.body.is_empty(), request);
        let stream = StreamState::new(id, request, self.initial_window, self.end());
        self.streams.push(stream);
        id
    }

    fn write_head(&mut self, stream: u32, is_whole: bool, request: &Request<'_>) {
        let begin = self.output.len();
        let flags = frame::END_HEADERS | if is_whole { frame::END_STREAM } else { 0 };
        let head = FrameHead { length: 0, kind: frame::HEADERS, flags, stream };
        head.write(&mut self.output);
        self.encoder.write(request, &mut self.output);
        let length = self.output.len() - begin - HEAD_BYTES;
        if length <= self.payload_bytes_max {
            let head = FrameHead { length, ..head };
            self.output[begin..begin + HEAD_BYTES].copy_from_slice(&head.bytes());
        } else {
            self.split_head(begin, head);
        }
    }

    /// Spreads a head over several frames.
    #[cold]
    fn split_head(&mut self, begin: usize, head: FrameHead) {
        let block = self.output.split_off(begin + HEAD_BYTES);
        self.output.truncate(begin);
        let pieces = block.chunks(self.payload_bytes_max);
        let last = pieces.len() - 1;
        for (index, piece) in pieces.enumerate() {
            let kind = if index == 0 { frame::HEADERS } else { frame::CONTINUATION };
            let of_first = if index == 0 { head.flags & frame::END_STREAM } else { 0 };
            let flags = of_first | if index == last { frame::END_HEADERS } else { 0 };
            FrameHead { length: piece.len(), kind, flags, stream: head.stream }.write(&mut self.output);
            self.output.extend_from_slice(piece);
        }
    }

    /// The place behind all bytes so far.
    fn end(&self) -> u64 {
        self.sent_before + self.output.len() as u64
    }

    /// Adds a part of a request's body to what is sent, as far as the server makes room; returns how much that was.
    /// `is_last`: nothing comes behind it.
    pub(super) fn upload(&mut self, id: u32, chunk: &[u8], is_last: bool) -> usize {
        let Some(place) = self.place(id) else { return chunk.len() };
        let mut added = 0;
        while self.output.len() - self.sent < WAITING_BYTES_MAX {
            let left = chunk.len() - added;
            let window = usize::try_from(self.send_window.min(self.streams[place].send_window)).unwrap_or(0);
            let length = left.min(window).min(self.payload_bytes_max);
            let ends = is_last && length == left;
            if length == 0 && !(ends && self.streams[place].is_uploading) {
                break;
            }
            let flags = if ends { frame::END_STREAM } else { 0 };
            FrameHead { length, kind: frame::DATA, flags, stream: id }.write(&mut self.output);
            self.output.extend_from_slice(&chunk[added..added + length]);
            added += length;
            self.send_window -= length as i64;
            self.streams[place].send_window -= length as i64;
            self.streams[place].is_uploading = !ends;
        }
        self.streams[place].end = self.end();
        added
    }

    /// True if more of a body can be added now.
    pub(super) fn can_upload(&self, id: u32) -> bool {
        self.unsent().len() < WAITING_BYTES_MAX
            && self
                .stream(id)
                .is_none_or(|stream| !stream.is_open() || self.send_window.min(stream.send_window) > 0)
    }

    /// True once the whole request waits to be sent, or need not be sent any more.
    pub(super) fn is_whole(&self, id: u32) -> bool {
        self.stream(id).is_none_or(|stream| !stream.is_uploading)
    }

    /// True once a request is sent to its last byte.
    pub(super) fn is_sent(&self, id: u32) -> bool {
        let sent = self.sent_before + self.sent as u64;
        self.stream(id).is_none_or(|stream| !stream.is_uploading && stream.end <= sent)
    }

    /// True once all is sent that was added to a request so far.
    pub(super) fn is_written(&self, id: u32) -> bool {
        let sent = self.sent_before + self.sent as u64;
        self.stream(id).is_none_or(|stream| stream.end <= sent)
    }

    /// When the head of the answer arrived, if it did.
    pub(super) fn first(&self, id: u32) -> Option<Instant> {
        self.stream(id).and_then(|stream| stream.first)
    }

    /// True once the answer is there, or there will be none.
    pub(super) fn has_ended(&self, id: u32) -> bool {
        self.stream(id).is_none_or(|stream| !stream.is_open())
    }

    /// Who is to be woken when something happens to a request.
    pub(super) fn wait(&mut self, id: u32, waker: &Waker) {
        if let Some(place) = self.place(id) {
            match &mut self.streams[place].waker {
                Some(known) => known.clone_from(waker),
                none => *none = Some(waker.clone()),
            }
        }
    }

    /// Forgets who waits for a request.
    pub(super) fn stop_waiting(&mut self, id: u32) {
        if let Some(place) = self.place(id) {
            self.streams[place].waker = None;
        }
    }

    /// Wakes one of those who wait for an answer, so that it reads from now on; returns the number of its stream.
    pub(super) fn wake_one(&mut self) -> Option<u32> {
        let (id, waker) =
            self.streams.iter_mut().find_map(|stream| Some((stream.id, stream.waker.take()?)))?;
        waker.wake();
        Some(id)
    }

    /// Wakes all who wait for an answer: the connection has ended.
    pub(super) fn wake_all(&mut self) {
        self.streams.iter_mut().filter_map(|stream| stream.waker.take()).for_each(Waker::wake);
    }

    pub(super) fn wake_uploads(&mut self) {
        let uploads = self.streams.iter_mut().filter(|stream| stream.is_uploading);
        uploads.filter_map(|stream| stream.waker.take()).for_each(Waker::wake);
    }

    /// Takes a request out, with its answer if that is whole or its reader had enough. A stream that has not ended is reset.
    pub(super) fn take(
        &mut self,
        id: u32,
        had_enough: bool,
    ) -> Option<Result<CollectedAnswer, StreamFailure>> {
        let place = self.place(id)?;
        let stream = self.streams.swap_remove(place);
        let is_reset = match &stream.outcome {
            Some(Err(StreamFailure::Reset(_) | StreamFailure::LeftOut)) => false,
            // A server may answer before it has the whole request; it needs the rest no more.
            Some(Ok(())) => stream.is_uploading,
            Some(Err(StreamFailure::Answer(_))) | None => true,
        };
        if is_reset {
            self.reset(id);
        }
        let StreamState { head, body, body_bytes, trailers, outcome, .. } = stream;
        Some(match if had_enough { Ok(()) } else { outcome? } {
            Ok(()) => {
                let head = head?;
                let (status, headers) = (head.status, head.headers);
                Ok(CollectedAnswer { status, headers, body, body_bytes, trailers })
            }
            Err(failure) => Err(failure),
        })
    }

    fn reset(&mut self, id: u32) {
        frame::write_number(&mut self.output, frame::RST_STREAM, id, Http2Code::CANCEL.0);
        if self.ended_here.len() < ENDED_HERE_MAX {
            self.ended_here.push(id);
        } else {
            self.has_forgotten = true;
        }
    }

    pub(super) fn place(&self, id: u32) -> Option<usize> {
        self.streams.iter().position(|stream| stream.id == id)
    }

    pub(super) fn stream(&self, id: u32) -> Option<&StreamState> {
        self.streams.iter().find(|stream| stream.id == id)
    }

    /// Says goodbye to a server that breaks a rule.
    pub(super) fn say_why(&mut self, fault: &ConnectionFault) {
        FrameHead { length: 8, kind: frame::GOAWAY, flags: 0, stream: 0 }.write(&mut self.output);
        self.output.extend_from_slice(&[0; 4]);
        self.output.extend_from_slice(&fault.code.0.to_be_bytes());
    }
}
