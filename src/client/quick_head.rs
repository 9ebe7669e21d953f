//! Parses an ordinary head in a single pass.
//!
//! It only supports the common form: HTTP/1.1, lines that end with CR LF, no folding. httparse parses
//! all others. A test checks that both give the same result.

use super::fields::Fields;

/// The parts of an ordinary head that determine its body and the reuse of its connection.
pub(super) struct QuickHead {
    pub(super) status: u16,
    pub(super) fields: Fields,
    /// The length of the head, in bytes.
    pub(super) length: usize,
}

const STATUS_LINE: &[u8] = b"HTTP/1.1 ";

/// Parses a head at the beginning of `bytes`; `None` if it is incomplete, not ordinary, or has more than `headers_max`
/// headers.
pub(super) fn quick_head(bytes: &[u8], headers_max: usize) -> Option<QuickHead> {
    let rest = bytes.strip_prefix(STATUS_LINE)?;
    let (digits, _) = rest.split_first_chunk::<3>()?;
    let status = digits
        .iter()
        .try_fold(0, |status, digit| digit.is_ascii_digit().then(|| status * 10 + u16::from(digit - b'0')))?;
    let (reason, mut at) = line(bytes, STATUS_LINE.len() + 3)?;
    if !(reason.is_empty() || reason.starts_with(b" ")) || !is_plain(reason) {
        return None;
    }
    let mut fields = Fields::default();
    for _ in 0..=headers_max {
        let (text, next) = line(bytes, at)?;
        at = next;
        if text.is_empty() {
            return Some(QuickHead { status, fields, length: at });
        }
        let colon = text.iter().position(|byte| !is_token(*byte)).filter(|colon| *colon > 0)?;
        let (name, value) = (&text[..colon], text[colon..].strip_prefix(b":")?);
        if !is_plain(value) {
            return None;
        }
        fields.note(name, value.trim_ascii());
    }
    None
}

/// The line at `from`, without its end, and the start of the next line.
fn line(bytes: &[u8], from: usize) -> Option<(&[u8], usize)> {
    let rest = &bytes[from..];
    let feed = memchr::memchr(b'\n', rest)?;
    let text = rest[..feed].strip_suffix(b"\r")?;
    Some((text, from + feed + 1))
}

/// True without control characters. There is no early exit, so that the compiler vectorises the loop.
fn is_plain(text: &[u8]) -> bool {
    text.iter().fold(true, |plain, byte| plain & (*byte >= b' ') & (*byte < 0x7f))
}

/// A character of a header's name (RFC 9110, section 5.6.2).
fn is_token(byte: u8) -> bool {
    static TOKEN: [bool; 256] = {
        let mut token = [false; 256];
        let text = b"!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
        let mut at = 0;
        while at < text.len() {
            token[text[at] as usize] = true;
            at += 1;
        }
        token
    };
    TOKEN[usize::from(byte)]
}
