//! Frames of HTTP/2 (RFC 9113, sections 4, 6 and 7).

use super::code::Http2Code;

/// The length of what begins a frame.
pub(super) const HEAD_BYTES: usize = 9;
/// The largest payload that is accepted, which is the smallest that an end may ask for (RFC 9113, section 6.5.2).
pub(super) const PAYLOAD_BYTES_MAX: usize = 16 << 10;

pub(super) const DATA: u8 = 0;
pub(super) const HEADERS: u8 = 1;
pub(super) const RST_STREAM: u8 = 3;
pub(super) const SETTINGS: u8 = 4;
pub(super) const PUSH_PROMISE: u8 = 5;
pub(super) const PING: u8 = 6;
pub(super) const GOAWAY: u8 = 7;
pub(super) const WINDOW_UPDATE: u8 = 8;
pub(super) const CONTINUATION: u8 = 9;

/// Flags. The same bit has one name for data and another one for answers to SETTINGS and PING.
pub(super) const END_STREAM: u8 = 1;
pub(super) const ACK: u8 = 1;
pub(super) const END_HEADERS: u8 = 4;
const PADDED: u8 = 8;
const PRIORITY: u8 = 0x20;

/// The settings that matter to a client, by their numbers.
pub(super) const HEADER_TABLE_SIZE: u16 = 1;
pub(super) const ENABLE_PUSH: u16 = 2;
pub(super) const MAX_CONCURRENT_STREAMS: u16 = 3;
pub(super) const INITIAL_WINDOW_SIZE: u16 = 4;
pub(super) const MAX_FRAME_SIZE: u16 = 5;
pub(super) const MAX_HEADER_LIST_SIZE: u16 = 6;

/// What begins a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FrameHead {
    pub(super) length: usize,
    pub(super) kind: u8,
    pub(super) flags: u8,
    pub(super) stream: u32,
}

impl FrameHead {
    /// Of bytes that begin with it; `None` if they are too few.
    #[inline]
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let [a, b, c, kind, flags, stream @ ..] = *bytes.first_chunk::<HEAD_BYTES>()?;
        let length = usize::from(a) << 16 | usize::from(b) << 8 | usize::from(c);
        Some(Self { length, kind, flags, stream: u32::from_be_bytes(stream) & (u32::MAX >> 1) })
    }

    /// Appends it to what is sent.
    #[inline]
    pub(super) fn write(self, output: &mut Vec<u8>) {
        output.extend_from_slice(&self.bytes());
    }

    #[expect(clippy::cast_possible_truncation, reason = "no payload has 16 MiB")]
    pub(super) fn bytes(self) -> [u8; HEAD_BYTES] {
        let [_, a, b, c] = (self.length as u32).to_be_bytes();
        let [d, e, f, g] = self.stream.to_be_bytes();
        [a, b, c, self.kind, self.flags, d, e, f, g]
    }

    #[inline]
    pub(super) fn has(self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// The payload of DATA or HEADERS without padding and priority.
    ///
    /// # Errors
    /// There is more padding than payload.
    #[inline]
    pub(super) fn content(self, mut payload: &[u8]) -> Result<&[u8], ConnectionFault> {
        let short = || ConnectionFault::protocol("a frame has more padding than payload");
        let mut padding = 0;
        if self.has(PADDED) {
            let (first, rest) = payload.split_first().ok_or_else(short)?;
            (padding, payload) = (usize::from(*first), rest);
        }
        if self.kind == HEADERS && self.has(PRIORITY) {
            payload = payload.get(5..).ok_or_else(short)?;
        }
        let length = payload.len().checked_sub(padding).ok_or_else(short)?;
        Ok(&payload[..length])
    }
}

/// Appends a frame with a payload of four bytes: RST_STREAM or WINDOW_UPDATE.
pub(super) fn write_number(output: &mut Vec<u8>, kind: u8, stream: u32, number: u32) {
    FrameHead { length: 4, kind, flags: 0, stream }.write(output);
    output.extend_from_slice(&number.to_be_bytes());
}

/// Appends SETTINGS.
pub(super) fn write_settings(output: &mut Vec<u8>, settings: &[(u16, u32)]) {
    FrameHead { length: 6 * settings.len(), kind: SETTINGS, flags: 0, stream: 0 }.write(output);
    for (name, value) in settings {
        output.extend_from_slice(&name.to_be_bytes());
        output.extend_from_slice(&value.to_be_bytes());
    }
}

/// The four bytes of a payload that has no others.
pub(super) fn number(payload: &[u8]) -> Option<u32> {
    payload.try_into().ok().map(u32::from_be_bytes)
}

/// What ends a connection: the server broke a rule, or went beyond a limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ConnectionFault {
    pub(super) code: Http2Code,
    pub(super) reason: String,
}

impl ConnectionFault {
    pub(super) fn new(code: Http2Code, reason: impl Into<String>) -> Self {
        Self { code, reason: reason.into() }
    }

    pub(super) fn protocol(reason: impl Into<String>) -> Self {
        Self::new(Http2Code::PROTOCOL_ERROR, reason)
    }

    pub(super) fn size(kind: &str) -> Self {
        Self::new(Http2Code::FRAME_SIZE_ERROR, format!("a {kind} frame has a wrong length"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_are_read_as_they_are_written() {
        for head in [
            FrameHead { length: 0, kind: SETTINGS, flags: ACK, stream: 0 },
            FrameHead { length: 0x01_02_03, kind: DATA, flags: END_STREAM | PADDED, stream: u32::MAX >> 1 },
        ] {
            assert_eq!(FrameHead::read(&head.bytes()), Some(head));
            assert_eq!(FrameHead::read(&head.bytes()[..8]), None);
        }
    }

    #[test]
    fn padding_and_priority_are_left_out() {
        for (kind, flags, payload, content) in [
            (DATA, 0, &b"abc"[..], Some(&b"abc"[..])),
            (DATA, PADDED, b"\x02abc\0\0", Some(b"abc")),
            (DATA, PADDED | PRIORITY, b"\x01abc\0", Some(b"abc")),
            (HEADERS, PADDED | PRIORITY, b"\x01\0\0\0\0\x10abc\0", Some(b"abc")),
            (DATA, PADDED, b"\x04abc", None),
            (DATA, PADDED, b"", None),
            (HEADERS, PRIORITY, b"abc", None),
        ] {
            let head = FrameHead { length: payload.len(), kind, flags, stream: 1 };
            assert_eq!(head.content(payload).ok(), content, "{kind} {flags} {payload:?}");
        }
    }
}
