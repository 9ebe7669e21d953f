//! Parses an ordinary head in a single pass.
//!
//! It only supports the common form: HTTP/1.1, lines that end with CR LF, no folding. httparse parses
//! all others. A test checks that both give the same result. Services answer many requests with the same head (within a
//! second, if it has a date), so the last heads are remembered, each with what it says.

use std::cell::RefCell;

use super::fields::Fields;

/// How many heads a thread remembers, and how long they may be.
const REMEMBERED: usize = 16;
const REMEMBERED_BYTES_MAX: usize = 2 * 1024;

thread_local! {
    static LAST: RefCell<[CachedHead; REMEMBERED]> = RefCell::default();
}

/// A head that was parsed.
#[derive(Default)]
struct CachedHead {
    bytes: Vec<u8>,
    headers_max: usize,
    head: QuickHead,
}

/// The parts of an ordinary head that determine its body and the reuse of its connection.
#[derive(Clone, Copy, Default)]
pub(super) struct QuickHead {
    pub(super) status: u16,
    pub(super) fields: Fields,
    /// The length of the head, in bytes.
    pub(super) length: usize,
}

const STATUS_LINE: &[u8] = b"HTTP/1.1 ";

/// As [`quick_head`], which is asked only if this is not the same head as before.
#[inline]
pub(super) fn remembered_head(bytes: &[u8], headers_max: usize) -> Option<QuickHead> {
    LAST.with_borrow_mut(|last| {
        // Answers with the same head mostly have the same length, and answers to other requests have another one.
        let last = &mut last[bytes.len() % REMEMBERED];
        // A head ends with an empty line, so that no head is the beginning of another one.
        if !last.bytes.is_empty() && bytes.starts_with(&last.bytes) && last.headers_max == headers_max {
            return Some(last.head);
        }
        let head = quick_head(bytes, headers_max)?;
        if head.length <= REMEMBERED_BYTES_MAX {
            last.bytes.clear();
            last.bytes.extend_from_slice(&bytes[..head.length]);
            (last.headers_max, last.head) = (headers_max, head);
        }
        Some(head)
    })
}

/// Parses a head at the beginning of `bytes`; `None` if it is incomplete, not ordinary, or has more than `headers_max`
/// headers.
pub(super) fn quick_head(bytes: &[u8], headers_max: usize) -> Option<QuickHead> {
    let rest = bytes.strip_prefix(STATUS_LINE)?;
    let (digits, _) = rest.split_first_chunk::<3>()?;
    let status = digits
        .iter()
        .try_fold(0, |status, digit| digit.is_ascii_digit().then(|| status * 10 + u16::from(digit - b'0')))?;
    let (reason, mut at) = line(bytes, STATUS_LINE.len() + 3)?;
    if !(reason.is_empty() || reason.starts_with(b" ")) {
        return None;
    }
    let mut fields = Fields::default();
    for headers in 0..=headers_max {
        let (text, next) = line(bytes, at)?;
        at = next;
        if text.is_empty() {
            // The ends of all lines, and nothing else.
            let is_plain = controls(&bytes[..at]) == 2 * (headers + 2);
            return is_plain.then_some(QuickHead { status, fields, length: at });
        }
        let colon = text.iter().position(|byte| !is_token(*byte)).filter(|colon| *colon > 0)?;
        let (name, value) = (&text[..colon], text[colon..].strip_prefix(b":")?);
        fields.note(name, value);
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

/// How many control characters, or characters beyond ASCII, there are.
fn controls(text: &[u8]) -> usize {
    let of_chunk = |chunk: &[u8]| {
        // A byte holds the count of a chunk. There is no early exit, so the compiler vectorises the loop.
        chunk.iter().fold(0_u8, |count, byte| count + u8::from(*byte < b' ' || *byte >= 0x7f))
    };
    text.chunks(usize::from(u8::MAX)).map(of_chunk).map(usize::from).sum()
}

/// A character of a header's name (RFC 9110, section 5.6.2).
#[inline]
pub(super) fn is_token(byte: u8) -> bool {
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
