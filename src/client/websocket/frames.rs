//! The frames of WebSocket ([RFC 6455](https://www.rfc-editor.org/rfc/rfc6455), section 5): their heads, and how a client
//! writes them.

use super::violation::Violation;

/// A frame that goes on with a message.
pub(super) const CONTINUATION: u8 = 0;
/// The first frame of a text.
pub(super) const TEXT: u8 = 1;
/// The first frame of bytes.
pub(super) const BINARY: u8 = 2;
/// The end of the connection.
pub(super) const CLOSE: u8 = 8;
/// A question whether the other side is there.
pub(super) const PING: u8 = 9;
/// The answer to a ping.
pub(super) const PONG: u8 = 10;
/// A closing frame without a code counts as one with this code, which is never sent (section 7.4.1).
pub(super) const NO_CODE: u16 = 1005;
/// The bit of a message's last frame.
pub(super) const FIN: u8 = 0x80;
/// The bit of a message that is compressed (RFC 7692, section 6).
pub(super) const COMPRESSED: u8 = 0x40;
const RESERVED: u8 = 0x30;
const MASKED: u8 = 0x80;
/// The longest head that a server sends.
pub(super) const HEAD_BYTES_MAX: usize = 10;
/// How much is masked at once, so that it is still in the processor's cache.
const MASK_AT_ONCE: usize = 16 << 10;

/// What stands before a frame's payload (section 5.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FrameHead {
    pub(super) opcode: u8,
    /// Whether it is the last frame of its message.
    pub(super) is_last: bool,
    /// Whether the bit for compression is set.
    pub(super) is_compressed: bool,
    /// The length of the payload.
    pub(super) length: u64,
}

impl FrameHead {
    /// Reads a head of a server from the beginning of `bytes`, and how long it is; `None` if bytes are missing.
    pub(super) fn read(bytes: &[u8]) -> Result<Option<(Self, usize)>, Violation> {
        let Some(first) = bytes.first() else { return Ok(None) };
        let opcode = first & 0x0f;
        let (is_last, is_compressed) = (first & FIN != 0, first & COMPRESSED != 0);
        let is_control = opcode >= CLOSE;
        if first & RESERVED != 0 || is_control && is_compressed {
            return Err(Violation::RESERVED_BIT);
        }
        if !matches!(opcode, CONTINUATION..=BINARY | CLOSE..=PONG) {
            return Err(Violation::Protocol("invalid opcode"));
        }
        if is_control && !is_last {
            return Err(Violation::Protocol("fragmented control frame"));
        }
        let Some(second) = bytes.get(1) else { return Ok(None) };
        if second & MASKED != 0 {
            return Err(Violation::Protocol("unexpected masked frame"));
        }
        let (length, head_bytes) = match second & 0x7f {
            126.. if is_control => return Err(Violation::LENGTH),
            126 => match bytes.get(2..4) {
                Some(&[a, b]) => (u64::from(u16::from_be_bytes([a, b])), 4),
                _ => return Ok(None),
            },
            127 => match bytes.get(2..10).and_then(|length| length.try_into().ok()) {
                Some(length) => (u64::from_be_bytes(length), 10),
                None => return Ok(None),
            },
            short => (short.into(), 2),
        };
        // The shortest form is the only one, and the highest bit is 0.
        let is_shortest = match head_bytes {
            2 => true,
            4 => length >= 126,
            _ => length > u16::MAX.into() && length >> 63 == 0,
        };
        if !is_shortest || opcode == CLOSE && length == 1 {
            return Err(Violation::LENGTH);
        }
        Ok(Some((Self { opcode, is_last, is_compressed, length }, head_bytes)))
    }
}

/// Whether a closing frame may have this code (section 7.4, and what IANA has registered since).
pub(super) fn is_close_code(code: u16) -> bool {
    matches!(code, 1000..=1003 | 1007..=1014 | 3000..=4999)
}

/// Appends a whole frame: its first byte, its length, a new mask, and the payload under that mask (section 5.3).
pub(super) fn push_frame(output: &mut Vec<u8>, first: u8, payload: &[u8]) {
    let mask = fastrand::u32(..).to_ne_bytes();
    output.reserve(HEAD_BYTES_MAX + mask.len() + payload.len());
    output.push(first);
    match (u8::try_from(payload.len()), u16::try_from(payload.len())) {
        (Ok(length @ ..126), _) => output.push(MASKED | length),
        (_, Ok(length)) => {
            output.push(MASKED | 126);
            output.extend_from_slice(&length.to_be_bytes());
        }
        _ => {
            output.push(MASKED | 127);
            output.extend_from_slice(&(payload.len() as u64).to_be_bytes());
        }
    }
    output.extend_from_slice(&mask);
    for piece in payload.chunks(MASK_AT_ONCE) {
        let at = output.len();
        output.extend_from_slice(piece);
        apply_mask(&mut output[at..], mask);
    }
}

/// Masks bytes, or takes the mask off.
fn apply_mask(bytes: &mut [u8], mask: [u8; 4]) {
    let [a, b, c, d] = mask;
    let wide = u64::from_ne_bytes([a, b, c, d, a, b, c, d]);
    let (wholes, rest) = bytes.as_chunks_mut::<8>();
    for whole in wholes {
        *whole = (u64::from_ne_bytes(*whole) ^ wide).to_ne_bytes();
    }
    for (byte, mask) in rest.iter_mut().zip(mask.iter().cycle()) {
        *byte ^= mask;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_of_every_length_are_masked_and_come_back() {
        for length in [0, 1, 3, 4, 7, 8, 9, 125, 126, 127, 65_535, 65_536, 70_001] {
            let payload: Vec<u8> = (0..length).map(|at| (at % 251) as u8).collect();
            let mut output = vec![7];
            push_frame(&mut output, FIN | BINARY, &payload);
            let [7, first, second, rest @ ..] = output.as_slice() else { panic!("{length}") };
            assert_eq!((*first, second & MASKED), (FIN | BINARY, MASKED));
            // Without its bit, a mask is part of the payload.
            let head = [&[*first, second & !MASKED], rest].concat();
            let (head, head_bytes) = FrameHead::read(&head).unwrap().unwrap();
            assert_eq!(head.length, length as u64);
            let (mask, masked) = output[1 + head_bytes..].split_first_chunk::<4>().unwrap();
            let mut unmasked = masked.to_vec();
            apply_mask(&mut unmasked, *mask);
            assert_eq!(unmasked, payload, "{length}");
            assert!(length < 125 || masked != payload, "{length} bytes are not masked");
        }
    }
}
