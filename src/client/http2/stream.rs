//! A request over HTTP/2 that is in flight, and its answer as it arrives.

use std::sync::Arc;
use std::task::Waker;
use std::time::Instant;

use http::{HeaderMap, Method, StatusCode};

use base::clock::now;

use super::answer::{AnswerHead, broken};
use super::code::Http2Code;
use crate::error::ClientError;
use crate::framing::KeepHeaders;
use crate::options::INTERIM_MAX;
use crate::{BEGINNING_BYTES, Request};

/// What is wanted of an answer, as far as it is known when the request is sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct AnswerWish {
    keep_headers: KeepHeaders,
    pub(super) keep_trailers: bool,
    /// How much to keep of the body of an answer with the status 200, and with another one.
    kept_bytes_max: [usize; 2],
    body_bytes_max: u64,
    /// True while a reader keeps nothing of the body, which then has no limit.
    is_only_read: bool,
    is_to_head: bool,
}

impl AnswerWish {
    pub(super) fn of(request: &Request<'_>) -> Self {
        // Only later is known whether another status is refused.
        let other = if request.keep_body { usize::MAX } else { BEGINNING_BYTES };
        Self {
            keep_headers: KeepHeaders::of(request),
            keep_trailers: request.keep_trailers,
            kept_bytes_max: [request.bytes_kept(StatusCode::OK), other],
            body_bytes_max: request.body_bytes_max,
            is_only_read: request.reader.is_some_and(|reader| reader.kept_bytes_max() == 0),
            is_to_head: *request.method == Method::HEAD,
        }
    }

    /// Which headers to keep of a head. One that ends the answer may say what trailers would.
    pub(super) fn headers_kept(&self, ends: bool) -> KeepHeaders {
        if ends && self.keep_trailers { KeepHeaders::Always } else { self.keep_headers }
    }
}

/// Why a stream has no answer.
#[derive(Debug)]
pub(super) enum StreamFailure {
    /// The server has ended it.
    Reset(Http2Code),
    /// The server has ended the connection with GOAWAY, and has not processed this one.
    LeftOut,
    /// What is wrong with the answer, or beyond a limit.
    Answer(ClientError),
}

/// An answer as it arrived.
#[derive(Debug)]
pub(super) struct CollectedAnswer {
    pub(super) status: StatusCode,
    pub(super) headers: Option<Arc<HeaderMap>>,
    pub(super) body: Vec<u8>,
    pub(super) body_bytes: u64,
    /// Only if requested.
    pub(super) trailers: Option<Arc<HeaderMap>>,
}

/// The pieces that no reader has taken yet.
#[derive(Debug, Default)]
pub(super) struct UnreadPieces {
    pub(super) content: Vec<u8>,
    /// When each came, and its length.
    pub(super) pieces: Vec<(Instant, usize)>,
}

impl UnreadPieces {
    fn add(&mut self, content: &[u8], at: Instant) {
        if content.is_empty() {
            return;
        }
        self.content.extend_from_slice(content);
        self.pieces.push((at, content.len()));
    }
}

/// A request in flight.
#[derive(Debug)]
pub(super) struct StreamState {
    pub(super) id: u32,
    pub(super) wish: AnswerWish,
    /// How much the server lets this one send.
    pub(super) send_window: i64,
    /// The bytes that were read and not yet reported to the server.
    pub(super) unreported: u32,
    pub(super) head: Option<AnswerHead>,
    /// When the head arrived.
    pub(super) first: Option<Instant>,
    pub(super) body: Vec<u8>,
    pub(super) body_bytes: u64,
    /// What waits for the reader of the answer, if it has one.
    pub(super) unread: Option<UnreadPieces>,
    pub(super) trailers: Option<Arc<HeaderMap>>,
    interim: usize,
    /// The end of the answer, whole or not.
    pub(super) outcome: Option<Result<(), StreamFailure>>,
    /// True until the whole request waits to be sent or is sent.
    pub(super) is_uploading: bool,
    /// The place behind its last byte among all bytes that are sent.
    pub(super) end: u64,
    /// Who waits for it.
    pub(super) waker: Option<Waker>,
}

impl StreamState {
    /// A request of which nothing has come back yet. `end`: the place behind its last byte among all bytes that are sent.
    pub(super) fn new(id: u32, request: &Request<'_>, send_window: i64, end: u64) -> Self {
        Self {
            id,
            wish: AnswerWish::of(request),
            send_window,
            unreported: 0,
            head: None,
            first: None,
            body: Vec::new(),
            body_bytes: 0,
            unread: request.reader.map(|_| UnreadPieces::default()),
            trailers: None,
            interim: 0,
            outcome: None,
            is_uploading: !request.body.is_empty(),
            end,
            waker: None,
        }
    }

    /// True until the answer is there, or there will be none.
    pub(super) fn is_open(&self) -> bool {
        self.outcome.is_none()
    }

    /// True if there will be no answer.
    pub(super) fn has_failed(&self) -> bool {
        matches!(self.outcome, Some(Err(_)))
    }

    /// Takes the head of an answer, or of an interim one.
    pub(super) fn take_head(&mut self, head: Result<AnswerHead, ClientError>, ends: bool) {
        let head = match head {
            Ok(head) => head,
            Err(error) => return self.fail(StreamFailure::Answer(error)),
        };
        if head.status.is_informational() {
            self.interim += 1;
            if ends || head.status == StatusCode::SWITCHING_PROTOCOLS {
                let reason = format!("it ends with the interim answer {}", head.status.as_u16());
                self.fail(StreamFailure::Answer(broken(reason)));
            } else if self.interim > INTERIM_MAX {
                let reason = format!("more than {INTERIM_MAX} interim answers came before the answer");
                self.fail(StreamFailure::Answer(ClientError::Limit(reason)));
            }
            return;
        }
        self.first = Some(now());
        self.head = Some(head);
        if self.unread.is_some() {
            self.waker.take().into_iter().for_each(Waker::wake);
        }
        if ends {
            self.end_answer();
        }
    }

    pub(super) fn take_trailers(
        &mut self,
        trailers: Result<Option<Arc<HeaderMap>>, ClientError>,
        ends: bool,
    ) {
        match trailers {
            Err(error) => self.fail(StreamFailure::Answer(error)),
            Ok(trailers) if ends => {
                self.trailers = trailers;
                self.end_answer();
            }
            Ok(_) => {
                let reason = "it has a second head that does not end it".to_owned();
                self.fail(StreamFailure::Answer(broken(reason)));
            }
        }
    }

    /// Adds a part of the body.
    pub(super) fn add(&mut self, content: &[u8]) -> Result<(), ClientError> {
        let Some(head) = &self.head else { return Err(broken("its body comes before its head".to_owned())) };
        self.body_bytes += content.len() as u64;
        let is_only_read = self.wish.is_only_read && self.unread.is_some();
        if self.body_bytes > self.wish.body_bytes_max && !is_only_read {
            return Err(ClientError::BodyTooLarge { limit: self.wish.body_bytes_max });
        }
        if self.has_body() && head.length.is_some_and(|length| self.body_bytes > length) {
            return Err(self.other_length());
        }
        if let Some(unread) = &mut self.unread {
            unread.add(content, now());
            // Another task may have read it.
            self.waker.take().into_iter().for_each(Waker::wake);
        } else {
            self.keep(content);
        }
        Ok(())
    }

    /// Keeps as much of a part of the body as is wanted.
    pub(super) fn keep(&mut self, content: &[u8]) {
        let is_ok = self.head.as_ref().is_some_and(|head| head.status == StatusCode::OK);
        let [of_ok, of_others] = self.wish.kept_bytes_max;
        crate::keep(&mut self.body, content, if is_ok { of_ok } else { of_others });
    }

    /// False if the length in the head is not that of the body (RFC 9113, section 8.1.1).
    fn has_body(&self) -> bool {
        let has_none = |head: &AnswerHead| matches!(head.status.as_u16(), 204 | 304);
        !self.wish.is_to_head && !self.head.as_ref().is_some_and(has_none)
    }

    fn other_length(&self) -> ClientError {
        let said = self.head.as_ref().and_then(|head| head.length).unwrap_or_default();
        broken(format!(
            "its body has another length than its `content-length` says: {} bytes, not {said}",
            self.body_bytes
        ))
    }

    pub(super) fn end_answer(&mut self) {
        let length = self.head.as_ref().and_then(|head| head.length);
        if self.has_body() && length.is_some_and(|length| length != self.body_bytes) {
            return self.fail(StreamFailure::Answer(self.other_length()));
        }
        self.end(Ok(()));
    }

    pub(super) fn fail(&mut self, failure: StreamFailure) {
        self.end(Err(failure));
    }

    fn end(&mut self, outcome: Result<(), StreamFailure>) {
        self.outcome = Some(outcome);
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}
