//! Times the messages of a gRPC stream while it arrives. What they say is read afterwards.

use std::cell::RefCell;
use std::ops::ControlFlow;
use std::time::Instant;

use http::{HeaderMap, StatusCode};

use client::error::ClientError;
use client::reading::BodyReader;
use grpc::frames::HEAD_BYTES;
use measure::streams::{MessageClock, StreamSample};

/// Counts the messages of one answer, and when each was whole.
pub(super) struct MessageTimes {
    sent: Instant,
    state: RefCell<MessagesSeen>,
}

#[derive(Default)]
struct MessagesSeen {
    clock: MessageClock,
    head: Vec<u8>,
    /// How much of the message is to come whose head has come.
    left: usize,
}

impl MessageTimes {
    /// Of the answer to a call that is sent now.
    pub(super) fn new(sent: Instant) -> Self {
        Self { sent, state: RefCell::default() }
    }

    pub(super) fn into_sample(self) -> StreamSample {
        self.state.into_inner().clock.into_sample()
    }
}

impl MessagesSeen {
    fn take(&mut self, mut piece: &[u8], sent: Instant, at: Instant) {
        while !piece.is_empty() {
            if self.head.len() < HEAD_BYTES {
                let (head, rest) = piece.split_at(piece.len().min(HEAD_BYTES - self.head.len()));
                self.head.extend_from_slice(head);
                piece = rest;
                let Some((_, length)) = self.head.split_first_chunk::<1>() else { break };
                let Some(length) = length.first_chunk::<4>() else { break };
                self.left = u32::from_be_bytes(*length) as usize;
            }
            let here = self.left.min(piece.len());
            (self.left, piece) = (self.left - here, &piece[here..]);
            if self.left == 0 && self.head.len() == HEAD_BYTES {
                self.head.clear();
                self.clock.count(sent, at);
            }
        }
    }
}

impl BodyReader for MessageTimes {
    fn begin(&self, _: StatusCode, _: Option<&HeaderMap>) -> Result<bool, ClientError> {
        self.state.take();
        Ok(true)
    }

    fn take(&self, piece: &[u8], at: Instant) -> Result<ControlFlow<()>, ClientError> {
        self.state.borrow_mut().take(piece, self.sent, at);
        Ok(ControlFlow::Continue(()))
    }

    fn kept_bytes_max(&self) -> usize {
        usize::MAX
    }
}
