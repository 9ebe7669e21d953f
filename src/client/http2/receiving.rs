//! What a client of HTTP/2 does with the frames that arrive (RFC 9113, section 6).

use std::mem;
use std::sync::Arc;

use super::answer::{AnswerFields, AnswerHead, broken};
use super::code::Http2Code;
use super::decoder::InvalidBlock;
use super::frame::{self, ConnectionFault, FrameHead, HEAD_BYTES, PAYLOAD_BYTES_MAX};
use super::multiplexer::{
    CONNECTION_WINDOW_BYTES, KnownHead, KnownTrailers, Multiplexer, SENT_PAYLOAD_BYTES_MAX, STREAM_MAX,
    STREAM_WINDOW_BYTES, UnfinishedBlock, WINDOW_BYTES_MAX,
};
use super::stream::{StreamFailure, StreamState};
use crate::framing::KeepHeaders;

/// The message for a server that begins with something else.
pub(super) const NO_HTTP2: &str = "it is not HTTP/2; does the server support HTTP/2?";
/// The most frames in a row that end nothing: neither a piece of a body nor a stream.
pub(super) const IDLE_FRAMES_MAX: u32 = 1_000_000;

impl Multiplexer {
    /// Reads whole frames from the beginning of `input`; returns how many bytes they had.
    ///
    /// # Errors
    /// What ends the connection. The server is to be told with [`Self::say_why`].
    pub(super) fn receive(&mut self, input: &[u8]) -> Result<usize, ConnectionFault> {
        let mut at = 0;
        while let Some(head) = FrameHead::read(&input[at..]) {
            if !self.is_set_up && (head.kind != frame::SETTINGS || head.stream != 0 || head.has(frame::ACK)) {
                return Err(ConnectionFault::protocol(NO_HTTP2));
            }
            if head.length > PAYLOAD_BYTES_MAX {
                let reason = format!("a frame has {} bytes, and may have {PAYLOAD_BYTES_MAX}", head.length);
                return Err(ConnectionFault::new(Http2Code::FRAME_SIZE_ERROR, reason));
            }
            let begin = at + HEAD_BYTES;
            let Some(payload) = input.get(begin..begin + head.length) else { break };
            at = begin + head.length;
            self.frames += 1;
            self.count_idle(head)?;
            self.frame(head, payload)?;
        }
        Ok(at)
    }

    #[inline]
    fn count_idle(&mut self, head: FrameHead) -> Result<(), ConnectionFault> {
        let ends = head.has(frame::END_STREAM) && matches!(head.kind, frame::DATA | frame::HEADERS);
        let has_data = head.kind == frame::DATA && head.length > 0;
        if ends || has_data || matches!(head.kind, frame::RST_STREAM | frame::GOAWAY) {
            self.idle_frames = 0;
            return Ok(());
        }
        self.idle_frames += 1;
        if self.idle_frames > IDLE_FRAMES_MAX {
            let reason = "the server sent a million frames that end nothing";
            return Err(ConnectionFault::new(Http2Code::ENHANCE_YOUR_CALM, reason));
        }
        Ok(())
    }

    fn frame(&mut self, head: FrameHead, payload: &[u8]) -> Result<(), ConnectionFault> {
        if self.unfinished.is_some() || head.kind == frame::CONTINUATION {
            return self.continuation(head, payload);
        }
        match head.kind {
            frame::DATA => self.data(head, payload),
            frame::HEADERS => self.headers(head, payload),
            frame::RST_STREAM => self.reset_by_server(head, payload),
            frame::SETTINGS => self.settings(head, payload),
            frame::PUSH_PROMISE => {
                Err(ConnectionFault::protocol("the server pushes, which it was told not to"))
            }
            frame::PING => self.ping(head, payload),
            frame::GOAWAY => self.goaway(head, payload),
            frame::WINDOW_UPDATE => self.window_update(head, payload),
            // PRIORITY, and what is not known.
            _ => Ok(()),
        }
    }

    /// The place of the stream that a frame belongs to; `None` if it has ended and the server may not know yet.
    fn addressed(&self, head: FrameHead, kind: &str) -> Result<Option<usize>, ConnectionFault> {
        if head.stream == 0 || head.stream.is_multiple_of(2) || head.stream >= self.next_stream {
            let reason = format!("a {kind} frame belongs to the stream {}, which is no request", head.stream);
            return Err(ConnectionFault::protocol(reason));
        }
        Ok(self.place(head.stream).filter(|place| self.streams[*place].is_open()))
    }

    /// Like [`Self::addressed`], for frames that none may follow the end of an answer.
    fn answered(&self, head: FrameHead, kind: &str) -> Result<Option<usize>, ConnectionFault> {
        let place = self.addressed(head, kind)?;
        let has_failed = || self.stream(head.stream).is_some_and(StreamState::has_failed);
        let has_ended_here = self.has_forgotten || self.ended_here.contains(&head.stream);
        if place.is_none() && !has_ended_here && !has_failed() {
            let reason = format!("a {kind} frame came after the end of its stream");
            return Err(ConnectionFault::new(Http2Code::STREAM_CLOSED, reason));
        }
        Ok(place)
    }

    fn data(&mut self, head: FrameHead, payload: &[u8]) -> Result<(), ConnectionFault> {
        let place = self.answered(head, "DATA")?;
        let content = head.content(payload)?;
        // Padding counts, and so does what comes for a stream that has ended.
        let length = u32::try_from(payload.len()).unwrap_or(u32::MAX);
        self.unreported += length;
        if self.unreported >= CONNECTION_WINDOW_BYTES / 2 {
            let read = mem::take(&mut self.unreported);
            frame::write_number(&mut self.output, frame::WINDOW_UPDATE, 0, read);
        }
        let Some(place) = place else { return Ok(()) };
        let stream = &mut self.streams[place];
        let ends = head.has(frame::END_STREAM);
        // A reader has the content reported when it has taken it.
        let is_read_later = stream.unread.is_some();
        if let Err(error) = stream.add(content) {
            stream.fail(StreamFailure::Answer(error));
        } else if ends {
            stream.end_answer();
        } else {
            let later = if is_read_later { u32::try_from(content.len()).unwrap_or(length) } else { 0 };
            stream.unreported += length - later;
            if stream.unreported >= STREAM_WINDOW_BYTES / 2 {
                let read = mem::take(&mut stream.unreported);
                frame::write_number(&mut self.output, frame::WINDOW_UPDATE, head.stream, read);
            }
        }
        Ok(())
    }

    fn headers(&mut self, head: FrameHead, payload: &[u8]) -> Result<(), ConnectionFault> {
        self.answered(head, "HEADERS")?;
        let block = head.content(payload)?;
        let ends_stream = head.has(frame::END_STREAM);
        if head.has(frame::END_HEADERS) {
            return self.block(head.stream, ends_stream, block);
        }
        self.unfinished = Some(UnfinishedBlock { stream: head.stream, ends_stream, block: block.to_vec() });
        Ok(())
    }

    fn continuation(&mut self, head: FrameHead, payload: &[u8]) -> Result<(), ConnectionFault> {
        let is_next =
            |block: &UnfinishedBlock| head.kind == frame::CONTINUATION && head.stream == block.stream;
        let Some(mut unfinished) = self.unfinished.take().filter(is_next) else {
            return Err(ConnectionFault::protocol("the frames of a head are not one behind another"));
        };
        unfinished.block.extend_from_slice(payload);
        if unfinished.block.len() > self.limits.head_bytes_max {
            let reason = self.limits.head_exceeded().to_string();
            return Err(ConnectionFault::new(Http2Code::ENHANCE_YOUR_CALM, reason));
        }
        if head.has(frame::END_HEADERS) {
            return self.block(unfinished.stream, unfinished.ends_stream, &unfinished.block);
        }
        self.unfinished = Some(unfinished);
        Ok(())
    }

    /// Reads a whole header block: a head, an interim one, or trailers.
    fn block(&mut self, id: u32, ends: bool, block: &[u8]) -> Result<(), ConnectionFault> {
        let damaged = |reason: &str| {
            ConnectionFault::new(
                Http2Code::COMPRESSION_ERROR,
                format!("the fields of an answer cannot be unpacked: {reason}"),
            )
        };
        let place = self.place(id).filter(|place| self.streams[*place].is_open());
        let Some(place) = place else {
            // The table must stay the same as the server's.
            return self.decoder.read(block, &mut |_, _| {}).map_err(|invalid| damaged(invalid.0));
        };
        let stream = &mut self.streams[place];
        if stream.head.is_some() {
            return self.trailers(place, ends, block).map_err(|invalid| damaged(invalid.0));
        }
        let keep_headers = stream.wish.headers_kept(ends);
        if let Some(known) = &self.known_head
            && known.changes == self.decoder.changes()
            && (keep_headers != KeepHeaders::Always || known.headers.is_some())
            && *known.block == *block
        {
            let headers = known.headers.as_ref().filter(|_| keep_headers == KeepHeaders::Always).cloned();
            let head = AnswerHead { status: known.status, headers, length: known.length };
            stream.take_head(Ok(head), ends);
            return Ok(());
        }
        let changes = self.decoder.changes();
        let mut fields = AnswerFields::of_head(keep_headers, &self.limits);
        let read = self.decoder.read(block, &mut |name, value| fields.take(name, value));
        read.map_err(|invalid| damaged(invalid.0))?;
        let sets_cookies = fields.sets_cookies();
        let head = fields.head();
        if let Ok(head) = &head
            && changes == self.decoder.changes()
            && !sets_cookies
        {
            let (status, headers, length) = (head.status, head.headers.clone(), head.length);
            self.known_head = Some(KnownHead { block: block.into(), changes, status, headers, length });
        }
        stream.take_head(head, ends);
        Ok(())
    }

    /// Reads the trailers of an answer.
    fn trailers(&mut self, place: usize, ends: bool, block: &[u8]) -> Result<(), InvalidBlock> {
        let stream = &mut self.streams[place];
        let keeps = stream.wish.keep_trailers;
        if let Some(known) = &self.known_trailers
            && keeps
            && known.changes == self.decoder.changes()
            && *known.block == *block
        {
            stream.take_trailers(Ok(Some(Arc::clone(&known.fields))), ends);
            return Ok(());
        }
        let changes = self.decoder.changes();
        let keep = if keeps { KeepHeaders::Always } else { KeepHeaders::Never };
        let mut fields = AnswerFields::of_trailers(keep, &self.limits);
        self.decoder.read(block, &mut |name, value| fields.take(name, value))?;
        let trailers = fields.trailers().map(|fields| keeps.then(|| Arc::new(fields)));
        if let Ok(Some(fields)) = &trailers
            && changes == self.decoder.changes()
        {
            let (block, fields) = (block.into(), Arc::clone(fields));
            self.known_trailers = Some(KnownTrailers { block, changes, fields });
        }
        stream.take_trailers(trailers, ends);
        Ok(())
    }

    fn reset_by_server(&mut self, head: FrameHead, payload: &[u8]) -> Result<(), ConnectionFault> {
        let place = self.addressed(head, "RST_STREAM")?;
        let code = frame::number(payload).ok_or_else(|| ConnectionFault::size("RST_STREAM"))?;
        if let Some(place) = place {
            self.streams[place].fail(StreamFailure::Reset(Http2Code(code)));
        } else if let Some(place) = self.place(head.stream) {
            // The server wants no more of the request; its answer is whole.
            self.streams[place].is_uploading = false;
        }
        Ok(())
    }

    fn settings(&mut self, head: FrameHead, payload: &[u8]) -> Result<(), ConnectionFault> {
        if head.stream != 0 {
            return Err(ConnectionFault::protocol("a SETTINGS frame belongs to a stream"));
        }
        if head.has(frame::ACK) {
            return if payload.is_empty() { Ok(()) } else { Err(ConnectionFault::size("SETTINGS")) };
        }
        let (settings, []) = payload.as_chunks::<6>() else { return Err(ConnectionFault::size("SETTINGS")) };
        for [a, b, value @ ..] in settings {
            self.setting(u16::from_be_bytes([*a, *b]), u32::from_be_bytes(*value))?;
        }
        self.is_set_up = true;
        FrameHead { length: 0, kind: frame::SETTINGS, flags: frame::ACK, stream: 0 }.write(&mut self.output);
        Ok(())
    }

    fn setting(&mut self, name: u16, value: u32) -> Result<(), ConnectionFault> {
        match name {
            frame::HEADER_TABLE_SIZE => self.encoder.resize(usize::try_from(value).unwrap_or(usize::MAX)),
            frame::ENABLE_PUSH if value > 0 => {
                return Err(ConnectionFault::protocol("the server sets ENABLE_PUSH, which only clients may"));
            }
            frame::MAX_CONCURRENT_STREAMS => self.streams_max = value,
            frame::INITIAL_WINDOW_SIZE => {
                if i64::from(value) > WINDOW_BYTES_MAX {
                    let reason = "the server's initial window is larger than 2^31 - 1 bytes";
                    return Err(ConnectionFault::new(Http2Code::FLOW_CONTROL_ERROR, reason));
                }
                let more = i64::from(value) - self.initial_window;
                self.initial_window = value.into();
                for stream in &mut self.streams {
                    stream.send_window += more;
                    if stream.send_window > WINDOW_BYTES_MAX {
                        return Err(window_overflow());
                    }
                }
                self.wake_uploads();
            }
            frame::MAX_FRAME_SIZE => {
                let bytes = usize::try_from(value).unwrap_or(usize::MAX);
                if !(PAYLOAD_BYTES_MAX..1 << 24).contains(&bytes) {
                    return Err(ConnectionFault::protocol(
                        "the server sets MAX_FRAME_SIZE to what is not allowed",
                    ));
                }
                self.payload_bytes_max = bytes.min(SENT_PAYLOAD_BYTES_MAX);
            }
            _ => {}
        }
        Ok(())
    }

    fn ping(&mut self, head: FrameHead, payload: &[u8]) -> Result<(), ConnectionFault> {
        if head.stream != 0 {
            return Err(ConnectionFault::protocol("a PING frame belongs to a stream"));
        }
        if payload.len() != 8 {
            return Err(ConnectionFault::size("PING"));
        }
        if !head.has(frame::ACK) {
            FrameHead { flags: frame::ACK, ..head }.write(&mut self.output);
            self.output.extend_from_slice(payload);
        }
        Ok(())
    }

    fn goaway(&mut self, head: FrameHead, payload: &[u8]) -> Result<(), ConnectionFault> {
        if head.stream != 0 {
            return Err(ConnectionFault::protocol("a GOAWAY frame belongs to a stream"));
        }
        let Some(([a, b, c, d, code @ ..], _)) = payload.split_first_chunk::<8>() else {
            return Err(ConnectionFault::size("GOAWAY"));
        };
        let last = u32::from_be_bytes([*a, *b, *c, *d]) & STREAM_MAX;
        let last = self.farewell.map_or(last, |(before, _)| before.min(last));
        self.farewell = Some((last, Http2Code(u32::from_be_bytes(*code))));
        for stream in self.streams.iter_mut().filter(|stream| stream.id > last && stream.is_open()) {
            stream.fail(StreamFailure::LeftOut);
        }
        Ok(())
    }

    fn window_update(&mut self, head: FrameHead, payload: &[u8]) -> Result<(), ConnectionFault> {
        let more = frame::number(payload).ok_or_else(|| ConnectionFault::size("WINDOW_UPDATE"))? & STREAM_MAX;
        if head.stream == 0 {
            self.send_window += i64::from(more);
            if more == 0 {
                return Err(ConnectionFault::protocol("a WINDOW_UPDATE frame adds nothing"));
            }
            if self.send_window > WINDOW_BYTES_MAX {
                return Err(window_overflow());
            }
            self.wake_uploads();
            return Ok(());
        }
        let Some(place) = self.addressed(head, "WINDOW_UPDATE")? else { return Ok(()) };
        let stream = &mut self.streams[place];
        stream.send_window += i64::from(more);
        if more == 0 {
            stream.fail(StreamFailure::Answer(broken("a WINDOW_UPDATE frame adds nothing".to_owned())));
        } else if stream.send_window > WINDOW_BYTES_MAX {
            stream.fail(StreamFailure::Answer(broken("its window is larger than 2^31 - 1 bytes".to_owned())));
        } else if stream.is_uploading
            && let Some(waker) = stream.waker.take()
        {
            waker.wake();
        }
        Ok(())
    }
}

fn window_overflow() -> ConnectionFault {
    ConnectionFault::new(Http2Code::FLOW_CONTROL_ERROR, "a window is larger than 2^31 - 1 bytes")
}
