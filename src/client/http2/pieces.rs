//! The pieces of an answer's body on their way to its reader (see [`crate::reading`]).
//!
//! Another request's task may read the connection, so pieces wait at their stream until the task of their own request takes
//! them. Only then is the server told that it may send more.

use std::mem;
use std::time::Instant;

use super::frame;
use super::multiplexer::{Multiplexer, STREAM_WINDOW_BYTES};
use crate::Request;
use crate::error::ClientError;
use crate::reading::{BodyReader, Reading};

/// How much memory an open stream keeps for its next piece: there may be thousands.
const KEPT_BYTES_MAX: usize = 1024;

/// What is known of an answer that a reader may want.
pub(super) struct AnswerReading<'a> {
    reader: Option<&'a dyn BodyReader>,
    reading: Option<Reading<'a>>,
    fault: Option<ClientError>,
}

impl<'a> AnswerReading<'a> {
    pub(super) fn of(request: &Request<'a>) -> Self {
        Self { reader: request.reader, ..Self::none() }
    }

    /// Of an answer that this reader takes; it may have begun already.
    pub(super) fn by(reader: &'a dyn BodyReader) -> Self {
        Self { reader: Some(reader), ..Self::none() }
    }

    /// Of an answer without a reader.
    pub(super) fn none() -> Self {
        Self { reader: None, reading: None, fault: None }
    }

    /// True until the head has come.
    fn is_unbegun(&self) -> bool {
        self.reader.is_some()
    }

    /// When the reader had enough.
    pub(super) fn enough_at(&self) -> Option<Instant> {
        self.reading.as_ref()?.enough_at
    }

    /// True once nothing more is wanted of the answer.
    pub(super) fn is_over(&self) -> bool {
        self.fault.is_some() || self.enough_at().is_some()
    }

    /// What is wrong with the body.
    pub(super) fn into_fault(self) -> Option<ClientError> {
        self.fault
    }
}

impl Multiplexer {
    /// Hands the pieces that have come to the reader of their answer.
    pub(super) fn hand_over(&mut self, id: u32, answer: &mut AnswerReading<'_>) {
        if answer.is_over() || answer.is_unbegun() && !self.begin_reading(id, answer) {
            return;
        }
        let Some(reading) = &mut answer.reading else { return };
        let Some(place) = self.place(id) else { return };
        let stream = &mut self.streams[place];
        let Some(unread) = &mut stream.unread else { return };
        let mut at = 0;
        for (came_at, length) in unread.pieces.drain(..) {
            let piece = &unread.content[at..at + length];
            at += length;
            if let Err(fault) = reading.take(piece, came_at) {
                answer.fault = Some(fault);
                return;
            }
            crate::keep(&mut stream.body, piece, reading.kept_bytes_max());
        }
        // A large piece must not keep its memory for a stream that has no end.
        if unread.content.capacity() > KEPT_BYTES_MAX {
            unread.content = Vec::new();
        }
        unread.content.clear();
        stream.unreported += u32::try_from(at).unwrap_or(u32::MAX);
        if stream.is_open() && stream.unreported >= STREAM_WINDOW_BYTES / 2 {
            let read = mem::take(&mut stream.unreported);
            frame::write_number(&mut self.output, frame::WINDOW_UPDATE, id, read);
        }
    }

    /// Shows the reader the head; false if it has not come.
    fn begin_reading(&mut self, id: u32, answer: &mut AnswerReading<'_>) -> bool {
        let Some(place) = self.place(id) else { return false };
        let stream = &mut self.streams[place];
        let Some(head) = &stream.head else { return false };
        let reader = answer.reader.take();
        match Reading::begin(reader, head.status, head.headers.as_deref()) {
            Ok(reading) => answer.reading = reading,
            Err(fault) => answer.fault = Some(fault),
        }
        if answer.reading.is_none() {
            // What came with the head is kept like what follows.
            let unread = stream.unread.take().unwrap_or_default();
            stream.keep(&unread.content);
        }
        answer.fault.is_none()
    }
}
