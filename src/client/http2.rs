//! HTTP/2 for the load path: connections of a single virtual user, or shared by the users of a worker.
//!
//! A task that waits for its answer drives the connection: it writes, reads, and wakes the tasks whose answers it has read.
//! So a connection needs no task of its own. When the one who was waiting to read has its answer, it wakes another. Frames
//! that arrive on an idle connection (a ping, GOAWAY) are read before the next request. Nothing is sent again here; see
//! [`super::pool`] for requests that the server did not process. What the bytes mean is in [`multiplexer`].

mod answer;
pub(super) mod code;
mod decoder;
pub mod dialogue;
mod encoder;
mod frame;
mod huffman;
mod multiplexer;
mod pieces;
mod receiving;
mod static_table;
mod stream;
#[cfg(test)]
mod tests;

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};
use std::time::{Duration, Instant};

use tokio::io::AsyncWrite as _;
use tokio_util::io::poll_read_buf;

use base::clock::{now, saturating_nanos};

use super::body::{BodyContent, Source};
use super::buffers;
use super::connect::{OpenedConnection, Stream};
use super::error::{ClientError, when};
use super::options::Limits;
use super::reading::END_WAIT;
use super::retransmits::{Ends, Span, Wire};
use super::{Answer, Request};
use code::Http2Code;
use frame::ConnectionFault;
use measure::phases::Phases;
use measure::protocol::HTTP2;
use multiplexer::{Multiplexer, WAITING_BYTES_MAX};
use pieces::AnswerReading;
use receiving::NO_HTTP2;
use stream::{CollectedAnswer, StreamFailure};

/// A connection that was idle for longer is checked before reuse, as in HTTP/1.1.
const LOOK_AFTER_IDLE: Duration = Duration::from_micros(50);
/// The number of frames after which others on the thread get their turn.
const FRAMES_AT_ONCE: u64 = 1024;
/// While more waits to be sent than bodies ever do, nothing is read: answers to a flood would pile up.
const UNREAD_BYTES_MAX: usize = 4 * WAITING_BYTES_MAX;
/// The most that is read at once.
const READ_BYTES_MAX: usize = 64 << 10;

/// A connection.
pub(super) struct Http2 {
    driven: RefCell<DrivenConnection>,
    /// The number of its address, if the host has several.
    address: u16,
    requests: Cell<u64>,
    /// Requests in flight, and those that wait for room.
    in_flight: Cell<usize>,
    /// When the last one ended.
    idle_since: Cell<Instant>,
    wire: (Wire, Option<Ends>),
}

/// A socket with what is known of it.
struct DrivenConnection {
    stream: Stream,
    multiplexer: Multiplexer,
    input: Vec<u8>,
    /// True if bytes were written and may still be in the library for TLS.
    is_unflushed: bool,
    ended: Option<ConnectionEnd>,
    /// Requests that wait for room, or for the server's settings.
    waiting: VecDeque<Waker>,
    /// The stream whose task reads now; 0 for one that waits.
    reader: u32,
}

/// Why a connection has ended.
enum ConnectionEnd {
    Io(io::Error),
    Fault(ConnectionFault),
}

impl Http2 {
    /// Begins to speak HTTP/2 on an open connection. One that is shared by several users says when it is opened.
    pub(super) fn new(opened: OpenedConnection, limits: Limits, shared: Option<Instant>) -> Self {
        let OpenedConnection { stream, address, syns, .. } = opened;
        let wire = (Wire::new(syns, shared), stream.ends());
        let driven = DrivenConnection {
            stream,
            multiplexer: Multiplexer::new(limits),
            input: Vec::new(),
            is_unflushed: false,
            ended: None,
            waiting: VecDeque::new(),
            reader: 0,
        };
        Self {
            driven: RefCell::new(driven),
            address,
            requests: Cell::new(0),
            in_flight: Cell::new(0),
            idle_since: Cell::new(now()),
            wire,
        }
    }

    /// Waits for the server's settings: only then is the number of concurrent requests known. If the server ends the
    /// connection instead, the request gets that error.
    pub(super) async fn set_up(&self) {
        let _waiting = WaitGuard(self);
        poll_fn(|cx| {
            let mut driven = self.driven.borrow_mut();
            driven.drive(0, cx);
            if driven.multiplexer.is_set_up() || driven.ended.is_some() {
                return Poll::Ready(());
            }
            driven.wait(cx);
            Poll::Pending
        })
        .await;
    }

    /// True if another request can be sent without a check, because the last answer was very recent.
    pub(super) fn was_just_used(&self, now: Instant) -> bool {
        self.is_open() && now.saturating_duration_since(self.idle_since.get()) < LOOK_AFTER_IDLE
    }

    /// Since when it has been idle: `now` while it serves requests.
    pub(super) fn idle_since(&self, now: Instant) -> Instant {
        match self.in_flight.get() {
            0 => self.idle_since.get(),
            _ => now,
        }
    }

    /// True once nothing comes over it any more.
    fn is_ended(&self) -> bool {
        self.driven.borrow().ended.is_some()
    }

    /// How many requests are in flight or wait.
    pub(super) fn in_flight(&self) -> usize {
        self.in_flight.get()
    }

    /// True while the server accepts a further concurrent request.
    pub(super) fn has_room(&self) -> bool {
        self.in_flight.get() < self.driven.borrow().multiplexer.streams_max()
    }

    /// False once the connection has ended, or its server has said that it will: it takes no more requests.
    pub(super) fn is_open(&self) -> bool {
        self.driven.borrow().is_open()
    }

    /// The same, after reading what the server sent in the meantime.
    pub(super) async fn is_usable(&self) -> bool {
        // While requests are in flight, they read.
        if self.in_flight.get() == 0 {
            poll_fn(|cx| {
                self.driven.borrow_mut().drive(0, cx);
                Poll::Ready(())
            })
            .await;
        }
        self.is_open()
    }

    /// Sends a request and reads its answer; records the phases send, wait and receive. Afterwards, [`Self::is_open`] tells
    /// whether the connection can be reused.
    pub(super) async fn exchange(
        &self,
        request: &Request<'_>,
        phases: &mut Phases,
    ) -> Result<Answer, ClientError> {
        let reused = self.requests.replace(self.requests.get() + 1) > 0;
        (phases.address, phases.version) = (self.address, HTTP2);
        let started = if phases.opened { now() } else { request.started };
        let _in_flight = InFlightGuard::new(&self.in_flight);
        let asked = PendingRequest::new(&self.wire, request);
        let mut times = StreamTimes { started, sent: None, first: None, enough: None };
        let outcome = self.talk(request, &mut times).await;
        let ended = times.note(phases);
        self.idle_since.set(ended);
        let bytes = outcome.as_ref().map_or(0, |answer| answer.body_bytes);
        asked.ended(&times, ended, bytes, phases);
        match outcome {
            Ok(CollectedAnswer { status, headers, mut body, body_bytes, trailers }) => {
                body.truncate(request.bytes_kept(status));
                Ok(Answer { status, headers, body, body_bytes, trailers, ended })
            }
            Err(failure) => Err(self.explained(failure, times.first.is_some(), reused)),
        }
    }

    async fn talk(
        &self,
        request: &Request<'_>,
        times: &mut StreamTimes,
    ) -> Result<CollectedAnswer, ExchangeFailure> {
        let opened = match request.body {
            BodyContent::Bytes(_) => None,
            // A separate future, because it is rare and needs memory.
            parts => Some(Box::pin(parts.open()).await.map_err(ExchangeFailure::Answer)?),
        };
        let stream = match self.begin(request) {
            Some(begun) => begun,
            // A separate future, because it is rare.
            None => Box::pin(self.begin_later(request)).await,
        }?;
        let rest = match (opened, request.body) {
            (None, BodyContent::Bytes(bytes)) => {
                // Mostly, the windows have room for the whole body.
                let added = self.driven.borrow_mut().multiplexer.upload(stream.id, bytes, true);
                (added < bytes.len()).then(|| Source::of(&bytes.slice(added..)))
            }
            (opened, _) => opened.filter(|body| !body.is_at_end()),
        };
        if let Some(mut rest) = rest {
            // A separate future, because it is rare.
            Box::pin(self.upload(stream.id, &mut rest)).await?;
        }
        let mut reading = AnswerReading::of(request);
        poll_fn(|cx| self.poll_answer(cx, stream.id, (&mut times.sent, &mut reading))).await;
        times.enough = reading.enough_at();
        if times.enough.is_some() {
            // A separate future, because it is rare.
            let end =
                poll_fn(|cx| self.poll_answer(cx, stream.id, (&mut times.sent, &mut AnswerReading::none())));
            let _ = Box::pin(tokio::time::timeout(END_WAIT, end)).await;
        }
        times.first = self.driven.borrow().multiplexer.first(stream.id);
        let taken = self.driven.borrow_mut().multiplexer.take(stream.id, times.enough.is_some());
        if let Some(fault) = reading.into_fault() {
            return Err(ExchangeFailure::Answer(fault));
        }
        match taken {
            Some(answer) => answer.map_err(ExchangeFailure::Stream),
            None => Err(ExchangeFailure::Connection),
        }
    }

    /// Begins a request, if the server accepts it now.
    fn begin(&self, request: &Request<'_>) -> Option<Result<StreamGuard<'_>, ExchangeFailure>> {
        let mut driven = self.driven.borrow_mut();
        if !driven.is_open() {
            return Some(Err(ExchangeFailure::NotSent));
        }
        if !driven.multiplexer.has_room() {
            return None;
        }
        let id = driven.multiplexer.begin(request);
        Some(Ok(StreamGuard { connection: self, id }))
    }

    /// Begins a request as soon as the server accepts it.
    async fn begin_later(&self, request: &Request<'_>) -> Result<StreamGuard<'_>, ExchangeFailure> {
        let _waiting = WaitGuard(self);
        poll_fn(|cx| {
            self.driven.borrow_mut().drive(0, cx);
            if let Some(begun) = self.begin(request) {
                return Poll::Ready(begun);
            }
            self.driven.borrow_mut().wait(cx);
            Poll::Pending
        })
        .await
    }

    /// Sends a body, unless the answer comes before its end.
    async fn upload(&self, id: u32, body: &mut Source) -> Result<(), ExchangeFailure> {
        while !body.is_at_end() {
            let chunk = body.next().await.map_err(ExchangeFailure::Answer)?;
            let (mut rest, is_last) = (&chunk[..], body.is_at_end());
            let wants_more = poll_fn(|cx| self.poll_upload(cx, id, &mut rest, is_last)).await;
            if !wants_more {
                break;
            }
        }
        Ok(())
    }

    /// Ready when a part of a body waits to be sent, or with `false` when the rest is not wanted any more.
    fn poll_upload(&self, cx: &mut Context<'_>, id: u32, rest: &mut &[u8], is_last: bool) -> Poll<bool> {
        let mut driven = self.driven.borrow_mut();
        loop {
            if driven.ended.is_some() || driven.multiplexer.has_ended(id) {
                return Poll::Ready(false);
            }
            let added = driven.multiplexer.upload(id, rest, is_last);
            *rest = &rest[added..];
            if rest.is_empty() {
                return Poll::Ready(true);
            }
            driven.drive(id, cx);
            // What was written and read may have made room.
            if !driven.multiplexer.can_upload(id) {
                driven.multiplexer.wait(id, cx.waker());
                return Poll::Pending;
            }
        }
    }

    /// Ready when the answer is there, when its reader has enough, or when there will be none. Notes when the request was
    /// sent.
    fn poll_answer(
        &self,
        cx: &mut Context<'_>,
        id: u32,
        (sent, reading): (&mut Option<Instant>, &mut AnswerReading<'_>),
    ) -> Poll<()> {
        let mut driven = self.driven.borrow_mut();
        let driven = &mut *driven;
        if sent.is_none() && driven.multiplexer.is_whole(id) {
            // Mostly, the socket takes the whole request at once.
            driven.write_or_end(cx);
            if driven.multiplexer.is_sent(id) {
                *sent = Some(now());
            }
        }
        if !driven.multiplexer.has_ended(id) {
            driven.drive(id, cx);
        }
        driven.multiplexer.hand_over(id, reading);
        if driven.ended.is_some() || driven.multiplexer.has_ended(id) || reading.is_over() {
            return Poll::Ready(());
        }
        // The server may be told that it may send more.
        if !driven.multiplexer.unsent().is_empty() {
            driven.write_or_end(cx);
        }
        driven.multiplexer.wait(id, cx.waker());
        Poll::Pending
    }

    /// What to say of a request without an answer. `answered`: the answer had begun. `reused`: the connection had served a
    /// request before.
    fn explained(&self, failure: ExchangeFailure, answered: bool, reused: bool) -> ClientError {
        let driven = self.driven.borrow();
        let going_away = |unprocessed| {
            let code = driven.multiplexer.farewell()?;
            Some(ClientError::going_away(code, answered, reused, unprocessed))
        };
        match failure {
            ExchangeFailure::Answer(error) | ExchangeFailure::Stream(StreamFailure::Answer(error)) => error,
            ExchangeFailure::Stream(StreamFailure::Reset(code)) => ClientError::Reset {
                when: when(answered, reused),
                reason: code.to_string(),
                unprocessed: code == Http2Code::REFUSED_STREAM && !answered,
            },
            ExchangeFailure::Stream(StreamFailure::LeftOut) => {
                going_away(true).unwrap_or_else(|| driven.error(answered, reused))
            }
            ExchangeFailure::Connection => match driven.ended {
                Some(ConnectionEnd::Fault(_)) => driven.error(answered, reused),
                // The server had announced it.
                _ => going_away(false).unwrap_or_else(|| driven.error(answered, reused)),
            },
            // What was not sent was not processed.
            ExchangeFailure::NotSent => match driven.error(answered, reused) {
                ClientError::Closed { when, kept_alive, .. } => {
                    let closed = ClientError::Closed { when, kept_alive, unprocessed: true };
                    going_away(true).unwrap_or(closed)
                }
                other => other,
            },
        }
    }
}

impl DrivenConnection {
    /// False once it takes no more requests.
    fn is_open(&self) -> bool {
        self.ended.is_none() && !self.multiplexer.is_going_away()
    }

    /// Writes what waits to be sent and reads what arrived, for the task of a stream (0: of one that waits), until its answer
    /// is there or nothing is left to do. Then the task is woken when there is.
    fn drive(&mut self, id: u32, cx: &mut Context<'_>) {
        self.reader = id;
        let begun = self.multiplexer.frames();
        loop {
            self.write_or_end(cx);
            let is_done = id != 0 && self.multiplexer.has_ended(id);
            if is_done || self.ended.is_some() || self.multiplexer.unsent().len() > UNREAD_BYTES_MAX {
                break;
            }
            if self.multiplexer.frames() - begun >= FRAMES_AT_ONCE {
                cx.waker().wake_by_ref();
                break;
            }
            match self.read(cx) {
                Poll::Pending => break,
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(end)) => self.end(end, cx),
            }
        }
        if self.input.is_empty() {
            buffers::give(&mut self.input);
        }
    }

    fn write_or_end(&mut self, cx: &mut Context<'_>) {
        if self.ended.is_none()
            && let Err(error) = self.write(cx)
        {
            // What the server said before it ended the connection counts.
            while let Poll::Ready(Ok(())) = self.read(cx) {}
            self.end(ConnectionEnd::Io(error), cx);
        }
    }

    /// Writes as much as the socket accepts.
    fn write(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        while !self.multiplexer.unsent().is_empty() {
            let unsent = self.multiplexer.unsent();
            let written = match self.stream.try_write(unsent)? {
                0 => match Pin::new(&mut self.stream).poll_write(cx, unsent)? {
                    Poll::Ready(0) => return Err(io::ErrorKind::WriteZero.into()),
                    Poll::Ready(written) => {
                        self.is_unflushed = true;
                        written
                    }
                    Poll::Pending => return Ok(()),
                },
                written => written,
            };
            self.multiplexer.note_sent(written);
        }
        if self.is_unflushed && Pin::new(&mut self.stream).poll_flush(cx)?.is_ready() {
            self.is_unflushed = false;
        }
        Ok(())
    }

    /// Reads once from the socket, and what the bytes say.
    fn read(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), ConnectionEnd>> {
        if self.input.capacity() == 0 {
            self.input = buffers::take();
        }
        let read = ready!(poll_read_buf(Pin::new(&mut self.stream), cx, &mut self.input));
        if read.map_err(ConnectionEnd::Io)? == 0 {
            return Poll::Ready(Err(ConnectionEnd::Io(io::ErrorKind::UnexpectedEof.into())));
        }
        let taken = self.multiplexer.receive(&self.input).map_err(ConnectionEnd::Fault)?;
        let is_full = self.input.len() == self.input.capacity();
        self.input.drain(..taken);
        // Large bodies are read in large pieces; the rest of a frame must have room.
        if is_full {
            self.input.reserve(READ_BYTES_MAX - self.input.len().min(READ_BYTES_MAX / 2));
        }
        if !self.waiting.is_empty() && (self.multiplexer.has_room() || self.multiplexer.is_going_away()) {
            self.waiting.drain(..).for_each(Waker::wake);
        }
        Poll::Ready(Ok(()))
    }

    /// Ends the connection, and wakes all who wait for it.
    fn end(&mut self, end: ConnectionEnd, cx: &mut Context<'_>) {
        if let ConnectionEnd::Fault(fault) = &end {
            self.multiplexer.say_why(fault);
            // The server may not listen any more.
            let _ = self.write(cx);
        }
        self.ended = Some(end);
        self.multiplexer.wake_all();
        self.waiting.drain(..).for_each(Waker::wake);
    }

    /// Has the task woken when there is room for a request, or the server's settings are known.
    fn wait(&mut self, cx: &Context<'_>) {
        if !self.waiting.iter().any(|waker| waker.will_wake(cx.waker())) {
            self.waiting.push_back(cx.waker().clone());
        }
    }

    /// Ends the use of a stream. One whose answer was not taken is reset.
    fn release(&mut self, id: u32) {
        drop(self.multiplexer.take(id, false));
        // What is left is sent with the next request.
        if self.ended.is_none()
            && !self.multiplexer.unsent().is_empty()
            && let Ok(written) = self.stream.try_write(self.multiplexer.unsent())
        {
            self.multiplexer.note_sent(written);
        }
        self.multiplexer.rest();
        self.hand_over(id);
        self.offer_room();
    }

    /// Lets another task read, if the one that ends was to read.
    fn hand_over(&mut self, id: u32) {
        if self.reader != id {
            return;
        }
        if let Some(next) = self.multiplexer.wake_one() {
            self.reader = next;
        } else if let Some(waker) = self.waiting.pop_front() {
            self.reader = 0;
            waker.wake();
        }
    }

    /// Wakes the request that has waited for longest, if there is room for it.
    fn offer_room(&mut self) {
        if self.multiplexer.has_room()
            && let Some(waker) = self.waiting.pop_front()
        {
            waker.wake();
        }
    }

    /// Why the connection has ended.
    fn error(&self, answered: bool, reused: bool) -> ClientError {
        match &self.ended {
            Some(ConnectionEnd::Io(error)) => ClientError::closed(error, answered, reused),
            Some(ConnectionEnd::Fault(fault)) if fault.code == Http2Code::ENHANCE_YOUR_CALM => {
                ClientError::Limit(fault.reason.clone())
            }
            Some(ConnectionEnd::Fault(fault)) if fault.reason == NO_HTTP2 => {
                ClientError::Protocol(fault.reason.clone())
            }
            Some(ConnectionEnd::Fault(ConnectionFault { code, reason })) => {
                ClientError::Protocol(format!("HTTP/2: {reason} ({code})"))
            }
            None => ClientError::closed(&io::ErrorKind::UnexpectedEof.into(), answered, reused),
        }
    }
}

/// Why a request has no answer.
enum ExchangeFailure {
    /// Of its body, or before it was sent.
    Answer(ClientError),
    /// Of its stream alone.
    Stream(StreamFailure),
    /// The connection has ended.
    Connection,
    /// The connection had ended, or the server had said that it will, before the request was sent.
    NotSent,
}

/// A stream in use. Dropped before its answer was taken, it is reset.
struct StreamGuard<'a> {
    connection: &'a Http2,
    id: u32,
}

impl StreamGuard<'_> {
    /// Keeps the stream in use; returns its number.
    fn keep(self) -> u32 {
        let id = self.id;
        std::mem::forget(self);
        id
    }
}

impl Drop for StreamGuard<'_> {
    fn drop(&mut self) {
        self.connection.driven.borrow_mut().release(self.id);
    }
}

/// A task that waits for room, or for the server's settings.
struct WaitGuard<'a>(&'a Http2);

impl Drop for WaitGuard<'_> {
    fn drop(&mut self) {
        let mut driven = self.0.driven.borrow_mut();
        driven.hand_over(0);
        // One that gives up may have been woken for room that another can use.
        driven.offer_room();
    }
}

/// A request in flight, or cut off.
struct InFlightGuard<'a>(&'a Cell<usize>);

impl<'a> InFlightGuard<'a> {
    fn new(number: &'a Cell<usize>) -> Self {
        number.set(number.get() + 1);
        Self(number)
    }
}

impl Drop for InFlightGuard<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

/// A request that waits for its answer: what TCP repeats meanwhile is noted in the end, also if it is given up.
struct PendingRequest<'a> {
    wire: Option<&'a (Wire, Option<Ends>)>,
    started: Instant,
}

impl<'a> PendingRequest<'a> {
    fn new(wire: &'a (Wire, Option<Ends>), request: &Request<'_>) -> Self {
        Self { wire: Some(wire), started: request.started }
    }

    fn ended(mut self, times: &StreamTimes, ended: Instant, answer_bytes: u64, phases: &mut Phases) {
        if let Some((wire, ends)) = self.wire.take() {
            let written = times.sent.unwrap_or(times.started);
            let span = Span { started: self.started, written, ended };
            wire.note(|| *ends, span, answer_bytes, &mut phases.retransmits);
        }
    }
}

impl Drop for PendingRequest<'_> {
    fn drop(&mut self) {
        if let Some((wire, ends)) = self.wire {
            wire.cut_off(|| *ends, self.started, self.started);
        }
    }
}

/// The times of a request.
struct StreamTimes {
    started: Instant,
    sent: Option<Instant>,
    first: Option<Instant>,
    /// When its reader had enough.
    enough: Option<Instant>,
}

impl StreamTimes {
    /// Records the phases; returns the time at which the answer ended.
    fn note(&self, phases: &mut Phases) -> Instant {
        let ended = self.enough.unwrap_or_else(now);
        let first = self.first.unwrap_or(ended);
        // An answer may begin before the whole request is sent.
        let sent = self.sent.unwrap_or(ended).min(first);
        phases.send_ns = saturating_nanos(sent.saturating_duration_since(self.started));
        phases.wait_ns = saturating_nanos(first.saturating_duration_since(sent));
        phases.receive_ns = saturating_nanos(ended.saturating_duration_since(first));
        ended
    }
}
