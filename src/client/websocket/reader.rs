//! Reads what a server sends over a WebSocket ([RFC 6455](https://www.rfc-editor.org/rfc/rfc6455), sections 5, 7.4 and 8.1;
//! [RFC 7692](https://www.rfc-editor.org/rfc/rfc7692), section 6), in pieces of any size.
//!
//! Nothing is reserved for a length before its bytes come, and a message is refused as soon as it breaks a rule.

use bytes::Bytes;
use bytes::buf::{BufMut as _, Limit};

use super::deflate::Inflater;
use super::extension::MessageCompression;
use super::frames::{
    BINARY, CLOSE, CONTINUATION, FrameHead, HEAD_BYTES_MAX, NO_CODE, PING, TEXT, is_close_code,
};
use super::message::{CONTROL_BYTES_MAX, SocketMessage};
use super::violation::Violation;

/// A payload of which less is missing is read with what follows it.
const OWN_READ_BYTES_MIN: usize = 8 << 10;

/// What has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FrameArrival {
    /// For the user.
    Message(SocketMessage),
    /// To be answered with [`MessageReader::control`].
    Ping,
}

/// A frame whose head has come.
#[derive(Clone, Copy)]
struct UnfinishedFrame {
    head: FrameHead,
    /// How much of its payload is missing.
    missing: u64,
}

/// A message whose first frame has come.
struct UnfinishedMessage {
    is_text: bool,
    is_compressed: bool,
    content: Vec<u8>,
    /// How much of a text is known to be valid.
    checked: usize,
    bytes_max: usize,
}

impl UnfinishedMessage {
    /// Adds a piece. The rules are those for single bytes: however it is torn, the same one is broken first.
    fn add(&mut self, piece: &[u8]) -> Result<(), Violation> {
        let room = self.bytes_max - self.content.len();
        let fits = piece.get(..room);
        self.content.extend_from_slice(fits.unwrap_or(piece));
        self.check()?;
        if fits.is_some_and(|fits| fits.len() < piece.len()) { Err(Violation::TooLarge) } else { Ok(()) }
    }

    /// Checks what is new of a text.
    fn check(&mut self) -> Result<(), Violation> {
        if !self.is_text {
            return Ok(());
        }
        match std::str::from_utf8(&self.content[self.checked..]) {
            Ok(valid) => self.checked += valid.len(),
            // The rest of a character may come later.
            Err(error) if error.error_len().is_none() => self.checked += error.valid_up_to(),
            Err(_) => return Err(Violation::NotUtf8),
        }
        Ok(())
    }

    fn finished(mut self) -> Result<SocketMessage, Violation> {
        if self.is_text && self.checked < self.content.len() {
            return Err(Violation::NotUtf8);
        }
        if self.content.capacity() > 2 * self.content.len() {
            self.content.shrink_to_fit();
        }
        let content = Bytes::from(self.content);
        Ok(if self.is_text { SocketMessage::Text(content) } else { SocketMessage::Binary(content) })
    }
}

/// Makes messages of the bytes of a server.
pub struct MessageReader {
    bytes_max: usize,
    /// If compression is agreed on.
    inflater: Option<Inflater>,
    /// The beginning of a head whose rest has not come.
    head: [u8; HEAD_BYTES_MAX],
    head_bytes: usize,
    frame: Option<UnfinishedFrame>,
    message: Option<UnfinishedMessage>,
    /// The payload of a control frame, which may come within a message.
    control: [u8; CONTROL_BYTES_MAX],
    control_bytes: usize,
}

impl MessageReader {
    /// A reader of messages of at most `bytes_max` bytes.
    #[must_use]
    pub fn new(bytes_max: u64, compression: Option<MessageCompression>) -> Self {
        Self {
            bytes_max: usize::try_from(bytes_max).unwrap_or(usize::MAX),
            inflater: compression.map(|agreed| Inflater::new(agreed.server_keeps_context)),
            head: [0; HEAD_BYTES_MAX],
            head_bytes: 0,
            frame: None,
            message: None,
            control: [0; CONTROL_BYTES_MAX],
            control_bytes: 0,
        }
    }

    /// The payload of the last control frame.
    #[must_use]
    pub fn control(&self) -> &[u8] {
        &self.control[..self.control_bytes]
    }

    /// Takes bytes from the beginning of `input` until something has come; `None` if all of them were taken before.
    ///
    /// # Errors
    /// The server has broken a rule. Nothing more may be read.
    pub fn take(&mut self, input: &mut &[u8]) -> Result<Option<FrameArrival>, Violation> {
        loop {
            let Some(frame) = self.frame else {
                let Some(head) = self.read_head(input)? else { return Ok(None) };
                self.begin(head)?;
                continue;
            };
            let here = usize::try_from(frame.missing).unwrap_or(usize::MAX).min(input.len());
            let (payload, rest) = input.split_at(here);
            *input = rest;
            let missing = frame.missing - here as u64;
            self.frame = (missing > 0).then_some(UnfinishedFrame { missing, ..frame });
            if let Some(arrival) = self.payload(frame.head, payload, missing == 0)? {
                return Ok(Some(arrival));
            }
            if missing > 0 {
                return Ok(None);
            }
        }
    }

    /// Where the rest of a long payload may be read to at once, without another copy of it; then [`Self::filled`] must be
    /// called. It is at most what is missing, and at most a few times what has come.
    pub fn room(&mut self) -> Option<Limit<&mut Vec<u8>>> {
        let missing = usize::try_from(self.frame?.missing).unwrap_or(usize::MAX);
        let message = self.message.as_mut().filter(|message| !message.is_compressed)?;
        let content = &mut message.content;
        if missing < OWN_READ_BYTES_MIN || content.len() < OWN_READ_BYTES_MIN {
            return None;
        }
        if content.len() == content.capacity() {
            content.reserve_exact(missing.min(content.len().saturating_mul(3)));
        }
        let spare = content.capacity() - content.len();
        Some(content.limit(missing.min(spare)))
    }

    /// Takes note of bytes that were read into the room.
    ///
    /// # Errors
    /// As [`Self::take`].
    pub fn filled(&mut self, bytes: usize) -> Result<(), Violation> {
        if let Some(frame) = &mut self.frame {
            frame.missing -= bytes as u64;
        }
        self.message.as_mut().map_or(Ok(()), UnfinishedMessage::check)
    }

    fn read_head(&mut self, input: &mut &[u8]) -> Result<Option<FrameHead>, Violation> {
        if self.head_bytes == 0
            && let Some((head, bytes)) = FrameHead::read(input)?
        {
            *input = &input[bytes..];
            return Ok(Some(head));
        }
        while let Some((first, rest)) = input.split_first() {
            self.head[self.head_bytes] = *first;
            self.head_bytes += 1;
            *input = rest;
            if let Some((head, _)) = FrameHead::read(&self.head[..self.head_bytes])? {
                self.head_bytes = 0;
                return Ok(Some(head));
            }
        }
        Ok(None)
    }

    /// Begins a frame if it may follow those before it (section 5.4).
    fn begin(&mut self, head: FrameHead) -> Result<(), Violation> {
        self.frame = Some(UnfinishedFrame { head, missing: head.length });
        if head.opcode >= CLOSE {
            self.control_bytes = 0;
            return Ok(());
        }
        match (&self.message, head.opcode) {
            (Some(_), CONTINUATION) if head.is_compressed => return Err(Violation::RESERVED_BIT),
            (Some(_), CONTINUATION) => {}
            (None, TEXT | BINARY) if head.is_compressed && self.inflater.is_none() => {
                return Err(Violation::RESERVED_BIT);
            }
            (None, TEXT | BINARY) => {
                self.message = Some(UnfinishedMessage {
                    is_text: head.opcode == TEXT,
                    is_compressed: head.is_compressed,
                    content: Vec::new(),
                    checked: 0,
                    bytes_max: self.bytes_max,
                });
            }
            (None, _) => return Err(Violation::Protocol("invalid opcode: a rest without a beginning")),
            (Some(_), _) => return Err(Violation::Protocol("invalid opcode: a message within another one")),
        }
        let message = self.message.as_ref().filter(|message| !message.is_compressed);
        let is_within =
            |message: &UnfinishedMessage| head.length <= (message.bytes_max - message.content.len()) as u64;
        if message.is_none_or(is_within) { Ok(()) } else { Err(Violation::TooLarge) }
    }

    /// Takes a piece of a frame's payload.
    fn payload(
        &mut self,
        head: FrameHead,
        piece: &[u8],
        is_whole: bool,
    ) -> Result<Option<FrameArrival>, Violation> {
        if head.opcode >= CLOSE {
            let end = self.control_bytes + piece.len();
            self.control[self.control_bytes..end].copy_from_slice(piece);
            self.control_bytes = end;
            return if is_whole { self.control_frame(head.opcode).map(Some) } else { Ok(None) };
        }
        let Some(message) = &mut self.message else { return Ok(None) };
        let is_end = is_whole && head.is_last;
        match &mut self.inflater {
            Some(inflater) if message.is_compressed => {
                let mut taker = |unpacked: &[u8]| message.add(unpacked);
                inflater.take(piece, &mut taker)?;
                if is_end {
                    inflater.end(&mut taker)?;
                }
            }
            // Most messages come at once: they are copied once.
            _ if is_end && message.content.is_empty() => message.content = piece.to_vec(),
            _ => {
                if message.content.is_empty() {
                    let length = usize::try_from(head.length).unwrap_or(usize::MAX);
                    message.content.reserve_exact(length.min(piece.len().saturating_mul(4)));
                }
                message.content.extend_from_slice(piece);
            }
        }
        message.check()?;
        if !is_end {
            return Ok(None);
        }
        let message = self.message.take().map(UnfinishedMessage::finished).transpose()?;
        Ok(message.map(FrameArrival::Message))
    }

    /// Reads a whole control frame (section 5.5).
    fn control_frame(&self, opcode: u8) -> Result<FrameArrival, Violation> {
        match (opcode, self.control()) {
            (PING, _) => Ok(FrameArrival::Ping),
            (CLOSE, []) => Ok(FrameArrival::Message(SocketMessage::Close(NO_CODE, String::new()))),
            (CLOSE, [high, low, reason @ ..]) => {
                let code = u16::from_be_bytes([*high, *low]);
                if !is_close_code(code) {
                    return Err(Violation::Protocol("invalid close code"));
                }
                let reason = std::str::from_utf8(reason).map_err(|_| Violation::NotUtf8)?;
                Ok(FrameArrival::Message(SocketMessage::Close(code, reason.to_owned())))
            }
            (_, content) => Ok(FrameArrival::Message(SocketMessage::Pong(Bytes::copy_from_slice(content)))),
        }
    }
}
