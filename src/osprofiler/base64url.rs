//! URL-safe base64 as Python's `base64.urlsafe_b64encode` writes and `urlsafe_b64decode` reads it.
//!
//! The reader is as forgiving as Python's (it skips what is outside the alphabet), because a
//! verifier that is stricter than OSProfiler would leave requests untraced that Keystone traces.
//! Nothing here may allocate while encoding: the load generator signs on its hot path.

const PAD: u8 = b'=';

/// The length of the encoded text, padding included.
pub(super) const fn encoded_len(bytes: usize) -> usize {
    bytes.div_ceil(3) * 4
}

/// Encodes `bytes` into `text`, which must be [`encoded_len`] long.
pub(super) fn encode_into(bytes: &[u8], text: &mut [u8]) {
    debug_assert_eq!(encoded_len(bytes.len()), text.len());
    let (threes, rest) = bytes.as_chunks::<3>();
    let (fours, last) = text.split_at_mut_checked(threes.len() * 4).unwrap_or_default();
    for (three, four) in threes.iter().zip(fours.as_chunks_mut::<4>().0) {
        let bits = u32::from_be_bytes([0, three[0], three[1], three[2]]) as usize;
        let ([a, b], [c, d]) = (PAIRS[bits >> 12], PAIRS[bits & 0xfff]);
        *four = [a, b, c, d];
    }
    if let ([first, second @ ..], Some(four)) = (rest, last.first_chunk_mut::<4>()) {
        let bits = u32::from_be_bytes([0, *first, second.first().copied().unwrap_or(0), 0]) as usize;
        let ([a, b], [c, _]) = (PAIRS[bits >> 12], PAIRS[bits & 0xfff]);
        *four = [a, b, if second.is_empty() { PAD } else { c }, PAD];
    }
}

/// The two characters of every twelve bits.
static PAIRS: [[u8; 2]; 4096] = {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut pairs = [[0; 2]; 4096];
    let mut bits = 0;
    while bits < 4096 {
        pairs[bits] = [ALPHABET[bits >> 6], ALPHABET[bits & 63]];
        bits += 1;
    }
    pairs
};

/// Encodes arbitrary bytes.
pub(super) fn encode(bytes: &[u8]) -> String {
    let mut text = vec![PAD; encoded_len(bytes.len())];
    encode_into(bytes, &mut text);
    String::from_utf8(text).unwrap_or_default()
}

/// Decodes as Python does without `validate`: characters outside the alphabet are skipped, reading
/// ends at complete padding, and missing padding is an error (`None`).
pub(super) fn decode_lenient(text: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3 + 3);
    let (mut bits, mut position, mut pads) = (0_u32, 0_u8, 0_u8);
    for character in text {
        if *character == PAD {
            pads += u8::from(position >= 2);
            if position >= 2 && position + pads >= 4 {
                return Some(bytes);
            }
            continue;
        }
        let Some(value) = value_of(*character) else { continue };
        pads = 0;
        bits = (bits << 6) | u32::from(value);
        match position {
            1 => bytes.push((bits >> 4) as u8),
            2 => bytes.push((bits >> 2) as u8),
            3 => bytes.push(bits as u8),
            _ => {}
        }
        position = (position + 1) % 4;
    }
    (position == 0).then_some(bytes)
}

/// Python translates `-_` to `+/` before it decodes, so both alphabets are read.
fn value_of(character: u8) -> Option<u8> {
    match character {
        b'A'..=b'Z' => Some(character - b'A'),
        b'a'..=b'z' => Some(character - b'a' + 26),
        b'0'..=b'9' => Some(character - b'0' + 52),
        b'-' | b'+' => Some(62),
        b'_' | b'/' => Some(63),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Every expected value is what Python 3.11 returned.
    #[test]
    fn texts_python_reads_are_read_and_others_are_not() {
        for (text, expected) in [
            ("", Some("")),
            ("YQ==", Some("a")),
            ("Y Q\n==", Some("a")),
            ("YQ=!=", Some("a")),
            ("YQ==ignored", Some("a")),
            ("=YWJj", Some("abc")),
            ("YQ=x=", Some("a\u{c}")),
            ("YWJj==YQ==", Some("abca")),
            ("YWI=YWI=", Some("ab")),
            ("Y=Q==", Some("a")),
            ("YW=JjYQ", None),
            ("YQ", None),
            ("YQ=", None),
            ("Y", None),
        ] {
            assert_eq!(decode_lenient(text.as_bytes()).as_deref(), expected.map(str::as_bytes), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn what_is_encoded_is_decoded(bytes: Vec<u8>) {
            prop_assert_eq!(decode_lenient(encode(&bytes).as_bytes()), Some(bytes));
        }

        #[test]
        fn decoding_never_panics(text: Vec<u8>) {
            let _ = decode_lenient(&text);
        }
    }
}
