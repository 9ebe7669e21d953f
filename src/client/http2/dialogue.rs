//! A request over HTTP/2 whose body is sent piece by piece while its answer is read piece by piece, such as a gRPC call with
//! messages in both directions.
//!
//! It is one of the streams of its connection, so other requests of the user go over the same connection meanwhile. If
//! nobody reads the answer, the server may send no more of it than a stream's window.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::poll_fn;
use std::mem;
use std::ops::ControlFlow;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use http::{HeaderMap, StatusCode};

use base::clock::{now, saturating_nanos};
use measure::phases::Phases;
use measure::protocol::HTTP2;

use super::pieces::AnswerReading;
use super::stream::CollectedAnswer;
use super::{ExchangeFailure, Http2};
use crate::error::ClientError;
use crate::reading::BodyReader;
use crate::{Answer, Request};

/// While more of an answer waits for its reader, the server is not asked for more.
const WAITING_BYTES_MAX: usize = 1 << 20;

/// A request that is being sent, and answered.
pub struct Dialogue {
    connection: Rc<Http2>,
    id: u32,
    answer: WaitingPieces,
    /// Whether the connection had served a request before.
    reused: bool,
    is_over: bool,
}

/// What comes in answer.
#[derive(Debug)]
pub enum Arrival {
    /// A piece of its body, and when it came.
    Piece(Instant, Vec<u8>),
    /// The end, with the head and the trailers. A body is there only of an answer that is not OK.
    End(Box<Answer>),
}

/// The pieces of an answer that have come before anybody asked for them.
#[derive(Default)]
struct WaitingPieces {
    headers: RefCell<Option<Arc<HeaderMap>>>,
    pieces: RefCell<VecDeque<(Instant, Vec<u8>)>>,
}

impl WaitingPieces {
    fn has_room(&self) -> bool {
        self.pieces.borrow().iter().map(|(_, piece)| piece.len()).sum::<usize>() < WAITING_BYTES_MAX
    }

    fn take_first(&self) -> Option<(Instant, Vec<u8>)> {
        self.pieces.borrow_mut().pop_front()
    }
}

impl BodyReader for WaitingPieces {
    fn begin(&self, status: StatusCode, headers: Option<&HeaderMap>) -> Result<bool, ClientError> {
        let mut known = self.headers.borrow_mut();
        if known.is_none() {
            *known = headers.cloned().map(Arc::new);
        }
        Ok(status == StatusCode::OK)
    }

    fn take(&self, piece: &[u8], at: Instant) -> Result<ControlFlow<()>, ClientError> {
        self.pieces.borrow_mut().push_back((at, piece.to_vec()));
        Ok(ControlFlow::Continue(()))
    }

    fn kept_bytes_max(&self) -> usize {
        0
    }
}

impl Dialogue {
    /// Sends the head of a request.
    pub(crate) async fn open(
        connection: Rc<Http2>,
        request: &Request<'_>,
        phases: &mut Phases,
    ) -> Result<Self, ClientError> {
        let reused = connection.requests.replace(connection.requests.get() + 1) > 0;
        (phases.address, phases.version) = (connection.address, HTTP2);
        let started = if phases.opened { now() } else { request.started };
        let answer = WaitingPieces::default();
        let asked = Request { reader: Some(&answer), keep_headers: true, keep_trailers: true, ..*request };
        let begun = match connection.begin(&asked) {
            Some(begun) => begun,
            None => connection.begin_later(&asked).await,
        };
        let id = begun.map_err(|failure| connection.explained(failure, false, reused))?.keep();
        connection.in_flight.set(connection.in_flight.get() + 1);
        let dialogue = Self { connection, id, answer, reused, is_over: false };
        dialogue.written().await;
        phases.send_ns = saturating_nanos(now() - started);
        if dialogue.connection.is_ended() {
            return Err(dialogue.failed(ExchangeFailure::Connection));
        }
        Ok(dialogue)
    }

    /// The headers of the answer, once they are there.
    pub fn headers(&self) -> Option<Arc<HeaderMap>> {
        self.answer.headers.borrow().clone()
    }

    /// Sends a piece. `is_last`: nothing follows. What comes meanwhile is kept for later: a server that is writing might read
    /// nothing before. If the answer is over, nothing is sent.
    pub async fn send(&mut self, piece: &[u8], is_last: bool) {
        let _turn = ReadingTurn(self);
        let mut rest = piece;
        let is_wanted = poll_fn(|cx| {
            let polled = self.connection.poll_upload(cx, self.id, &mut rest, is_last);
            if polled.is_pending() && self.answer.has_room() {
                self.hand_over(cx);
            }
            polled
        });
        if is_wanted.await {
            self.written().await;
        }
    }

    /// What comes next in answer. Dropping the future loses nothing.
    ///
    /// # Errors
    /// The connection has ended, or the server has reset the request, or has broken a rule.
    pub async fn next(&mut self) -> Result<Arrival, ClientError> {
        let piece = {
            let _turn = ReadingTurn(self);
            poll_fn(|cx| self.poll_piece(cx)).await
        };
        match piece {
            Some((at, piece)) => Ok(Arrival::Piece(at, piece)),
            None => self.end().map(|answer| Arrival::End(Box::new(answer))),
        }
    }

    /// Reads what has come by now, and gives it piece by piece; `None` if there is no more now.
    ///
    /// # Errors
    /// As [`Self::next`].
    pub async fn look(&mut self) -> Result<Option<Arrival>, ClientError> {
        let looked = {
            let _turn = ReadingTurn(self);
            poll_fn(|cx| Poll::Ready(self.poll_piece(cx))).await
        };
        match looked {
            Poll::Pending => Ok(None),
            Poll::Ready(Some((at, piece))) => Ok(Some(Arrival::Piece(at, piece))),
            Poll::Ready(None) => self.end().map(|answer| Some(Arrival::End(Box::new(answer)))),
        }
    }

    /// Answers the server's pings, until it is dropped.
    pub async fn idle(&mut self) -> Infallible {
        let _turn = ReadingTurn(self);
        poll_fn(|cx| {
            let mut driven = self.connection.driven.borrow_mut();
            if driven.ended.is_none() && !driven.multiplexer.has_ended(self.id) {
                driven.drive(self.id, cx);
                driven.multiplexer.wait(self.id, cx.waker());
            }
            Poll::Pending
        })
        .await
    }

    /// Waits until all is written that was sent, or nothing is wanted any more.
    async fn written(&self) {
        let _turn = ReadingTurn(self);
        poll_fn(|cx| {
            let mut driven = self.connection.driven.borrow_mut();
            driven.drive(self.id, cx);
            if driven.multiplexer.is_written(self.id)
                || driven.ended.is_some()
                || driven.multiplexer.has_ended(self.id)
            {
                return Poll::Ready(());
            }
            driven.multiplexer.wait(self.id, cx.waker());
            Poll::Pending
        })
        .await;
    }

    /// The next piece of the answer's body, or `None` at its end.
    fn poll_piece(&self, cx: &mut Context<'_>) -> Poll<Option<(Instant, Vec<u8>)>> {
        if let Some(first) = self.answer.take_first() {
            return Poll::Ready(Some(first));
        }
        {
            let mut driven = self.connection.driven.borrow_mut();
            if !driven.multiplexer.has_ended(self.id) {
                driven.drive(self.id, cx);
            }
        }
        self.hand_over(cx);
        if let Some(first) = self.answer.take_first() {
            return Poll::Ready(Some(first));
        }
        let mut driven = self.connection.driven.borrow_mut();
        if driven.ended.is_some() || driven.multiplexer.has_ended(self.id) {
            return Poll::Ready(None);
        }
        driven.multiplexer.wait(self.id, cx.waker());
        Poll::Pending
    }

    /// Takes the pieces that have come from the connection, which tells the server that it may send more.
    fn hand_over(&self, cx: &mut Context<'_>) {
        let mut driven = self.connection.driven.borrow_mut();
        driven.multiplexer.hand_over(self.id, &mut AnswerReading::by(&self.answer));
        if !driven.multiplexer.unsent().is_empty() {
            driven.write_or_end(cx);
        }
    }

    fn end(&mut self) -> Result<Answer, ClientError> {
        if mem::replace(&mut self.is_over, true) {
            let when = "before this step".to_owned();
            return Err(ClientError::Closed { when, unprocessed: false, kept_alive: false });
        }
        let taken = self.connection.driven.borrow_mut().multiplexer.take(self.id, false);
        match taken {
            Some(Ok(CollectedAnswer { status, headers, body, body_bytes, trailers })) => {
                Ok(Answer { status, headers, body, body_bytes, trailers, ended: now() })
            }
            Some(Err(failure)) => Err(self.failed(ExchangeFailure::Stream(failure))),
            None => Err(self.failed(ExchangeFailure::Connection)),
        }
    }

    fn failed(&self, failure: ExchangeFailure) -> ClientError {
        let answered = self.answer.headers.borrow().is_some();
        self.connection.explained(failure, answered, self.reused)
    }
}

impl Drop for Dialogue {
    fn drop(&mut self) {
        self.connection.driven.borrow_mut().release(self.id);
        self.connection.in_flight.set(self.connection.in_flight.get().saturating_sub(1));
        self.connection.idle_since.set(now());
    }
}

/// While this lives, the task of a dialogue may be the one that reads its connection.
struct ReadingTurn<'a>(&'a Dialogue);

impl Drop for ReadingTurn<'_> {
    fn drop(&mut self) {
        let mut driven = self.0.connection.driven.borrow_mut();
        driven.multiplexer.stop_waiting(self.0.id);
        driven.hand_over(self.0.id);
    }
}
