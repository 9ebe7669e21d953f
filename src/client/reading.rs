//! Reading the body of an answer while it arrives: streams that have no end, or whose times count piece by piece.
//!
//! The sender of a request may pass a [`BodyReader`]. HTTP/1.1 and HTTP/2 give it each piece of the body and the time at which
//! it arrived, still compressed. Over HTTP/2, a server may send no more than a stream's
//! window ahead of the reader.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use http::{HeaderMap, StatusCode};

use super::error::ClientError;

/// How long the end of an answer is awaited after its reader has enough. Mostly, it comes with the last piece; then the
/// connection can be used again.
pub(super) const END_WAIT: Duration = Duration::from_millis(20);

/// Takes the body of an answer as it arrives.
pub trait BodyReader {
    /// Takes the head of an answer. False for one that it does not read, such as a refusal: that is kept like others.
    ///
    /// # Errors
    /// Why it cannot read what follows.
    fn begin(&self, status: StatusCode, headers: Option<&HeaderMap>) -> Result<bool, ClientError>;

    /// Takes the next piece, and when it arrived. After [`ControlFlow::Break`], it is given no more.
    ///
    /// # Errors
    /// What is wrong with the body.
    fn take(&self, piece: &[u8], at: Instant) -> Result<ControlFlow<()>, ClientError>;

    /// How much of the body is kept as well, in bytes.
    fn kept_bytes_max(&self) -> usize;
}

/// The reader of an answer whose head has come.
#[derive(Clone, Copy)]
pub(super) struct Reading<'a> {
    reader: &'a dyn BodyReader,
    /// When it had enough.
    pub(super) enough_at: Option<Instant>,
}

impl<'a> Reading<'a> {
    /// Begins to read an answer, if there is a reader that wants it.
    pub(super) fn begin(
        reader: Option<&'a dyn BodyReader>,
        status: StatusCode,
        headers: Option<&HeaderMap>,
    ) -> Result<Option<Self>, ClientError> {
        let Some(reader) = reader else { return Ok(None) };
        Ok(reader.begin(status, headers)?.then_some(Self { reader, enough_at: None }))
    }

    pub(super) fn take(&mut self, piece: &[u8], at: Instant) -> Result<(), ClientError> {
        if self.enough_at.is_none() && !piece.is_empty() && self.reader.take(piece, at)?.is_break() {
            self.enough_at = Some(at);
        }
        Ok(())
    }

    pub(super) fn kept_bytes_max(&self) -> usize {
        self.reader.kept_bytes_max()
    }
}
