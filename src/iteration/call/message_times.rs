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

    /// What was measured until `at`. `is_cut_off`: the stream had not ended then.
    pub(super) fn into_sample(self, at: Instant, is_cut_off: bool) -> StreamSample {
        let mut clock = self.state.into_inner().clock;
        if is_cut_off {
            clock.cut_off(at);
        }
        clock.into_sample()
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
    fn begin(&self, status: StatusCode, _: Option<&HeaderMap>) -> Result<bool, ClientError> {
        self.state.take();
        // What a proxy says instead has no messages.
        Ok(status == StatusCode::OK)
    }

    fn take(&self, piece: &[u8], at: Instant) -> Result<ControlFlow<()>, ClientError> {
        self.state.borrow_mut().take(piece, self.sent, at);
        Ok(ControlFlow::Continue(()))
    }

    fn kept_bytes_max(&self) -> usize {
        usize::MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use grpc::frames;
    use std::time::Duration;

    #[test]
    fn a_message_is_there_when_its_last_byte_is() {
        let (mut body, contents) = (Vec::new(), ["", "one", "", "a longer message"]);
        contents.iter().for_each(|content| frames::push(&mut body, content.as_bytes(), false));
        for size in 1..=body.len() {
            let sent = Instant::now();
            let times = MessageTimes::new(sent);
            assert!(times.begin(StatusCode::OK, None).unwrap());
            for (number, piece) in (1..).zip(body.chunks(size)) {
                let at = sent + Duration::from_millis(number);
                assert!(times.take(piece, at).unwrap().is_continue());
            }
            let sample = times.into_sample(sent, false);
            assert_eq!((sample.messages, sample.gaps.count()), (4, 3), "{size}");
            // The head of the first message, which is empty, is whole in this piece.
            let first = u64::try_from(HEAD_BYTES.div_ceil(size)).unwrap();
            assert_eq!(sample.first_ns, first * 1_000_000, "{size}");
        }
        assert!(!MessageTimes::new(Instant::now()).begin(StatusCode::BAD_GATEWAY, None).unwrap());
    }
}
