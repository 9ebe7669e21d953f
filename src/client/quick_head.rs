//! Reading an ordinary head in one pass.
//!
//! It knows the common shape only: HTTP/1.1, lines that end with CR LF, no folding. Whatever else
//! comes is left to httparse; a test holds that where this gives an answer, httparse gives the same.

use super::framing::Fields;

/// An ordinary head: what decides about its body and its connection.
pub(super) struct QuickHead {
    pub(super) status: u16,
    pub(super) fields: Fields,
    /// How many bytes of the buffer it took.
    pub(super) length: usize,
}

const STATUS_LINE: &[u8] = b"HTTP/1.1 ";

/// Reads a head off the front of `bytes`; `None` when it is not whole, not ordinary or of more than
/// `headers_max` headers.
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

/// The line that begins at `from`, without its end, and where the next one begins.
fn line(bytes: &[u8], from: usize) -> Option<(&[u8], usize)> {
    let rest = &bytes[from..];
    let feed = memchr::memchr(b'\n', rest)?;
    let text = rest[..feed].strip_suffix(b"\r")?;
    Some((text, from + feed + 1))
}

/// True without control characters. There is no early exit, so that many bytes are looked at at a time.
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
