//! Bytes as hexadecimal digits, and back.

/// The two digits of every byte.
static PAIRS: [[u8; 2]; 256] = {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut pairs = [[0; 2]; 256];
    let mut byte = 0;
    while byte < 256 {
        pairs[byte] = [DIGITS[byte >> 4], DIGITS[byte & 15]];
        byte += 1;
    }
    pairs
};

/// Lowercase digits, without allocating: two for each byte.
#[must_use]
pub fn digits<const BYTES: usize, const DIGITS: usize>(bytes: &[u8; BYTES]) -> [u8; DIGITS] {
    const { assert!(DIGITS == 2 * BYTES, "a byte has two digits") };
    let mut digits = [b'0'; DIGITS];
    for (byte, pair) in bytes.iter().zip(digits.as_chunks_mut::<2>().0) {
        *pair = PAIRS[usize::from(*byte)];
    }
    digits
}

/// Lowercase digits as text.
#[must_use]
pub fn encode(bytes: &[u8]) -> String {
    bytes.iter().flat_map(|byte| PAIRS[usize::from(*byte)]).map(char::from).collect()
}

/// The bytes of exactly this many lowercase digits; else `None`.
#[must_use]
pub fn decode_lower<const BYTES: usize>(digits: &[u8]) -> Option<[u8; BYTES]> {
    if digits.len() != 2 * BYTES {
        return None;
    }
    let mut bytes = [0; BYTES];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = first_byte(pair).filter(|_| !pair.iter().any(u8::is_ascii_uppercase))?;
    }
    Some(bytes)
}

/// The byte of the first two digits, in either case.
#[must_use]
pub fn first_byte(digits: &[u8]) -> Option<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    Some((digit(*digits.first()?)? << 4) | digit(*digits.get(1)?)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_is_two_digits_that_are_read_back() {
        for byte in 0..=255_u8 {
            let text = encode(&[byte, 7]);
            assert_eq!(text, format!("{byte:02x}07"));
            assert_eq!(digits::<2, 4>(&[byte, 7]), text.as_bytes());
            assert_eq!(decode_lower(text.as_bytes()), Some([byte, 7]));
            assert_eq!(first_byte(text.to_uppercase().as_bytes()), Some(byte));
        }
        for bad in ["", "0", "0g", "+1", "0F", "000", "é"] {
            assert_eq!(decode_lower::<1>(bad.as_bytes()), None, "{bad}");
        }
        for bad in ["", "0", "0g", "+1", " 1", "é"] {
            assert_eq!(first_byte(bad.as_bytes()), None, "{bad}");
        }
    }
}
