//! Percent-encoding of bytes in URLs (RFC 3986). What needs it depends on the part of the URL.

use super::hex;

/// Appends `%XX`.
pub fn push_byte(byte: u8, output: &mut String) {
    output.push('%');
    output.extend(hex::digits::<1, 2>(&[byte]).map(|digit| char::from(digit.to_ascii_uppercase())));
}

/// A text for a path or a query: all but letters, digits and `-._~` is encoded.
#[must_use]
pub fn encode(text: &str) -> String {
    let mut output = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            output.push(char::from(byte));
        } else {
            push_byte(byte, &mut output);
        }
    }
    output
}

/// Decodes every `%XX`; any other `%` is kept.
#[must_use]
pub fn decode(text: &str) -> Vec<u8> {
    let (mut bytes, mut rest) = (Vec::with_capacity(text.len()), text.as_bytes());
    while let Some((&byte, tail)) = rest.split_first() {
        match hex::first_byte(tail).filter(|_| byte == b'%') {
            Some(decoded) => {
                bytes.push(decoded);
                rest = &tail[2..];
            }
            None => {
                bytes.push(byte);
                rest = tail;
            }
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_is_escaped_and_read_back() {
        for byte in 0..=255 {
            let mut text = String::new();
            push_byte(byte, &mut text);
            assert_eq!(text, format!("%{byte:02X}"));
            assert_eq!(decode(&text), [byte]);
        }
        for (text, plain) in [("a%2fb%2Fc", "a/b/c"), ("100%", "100%"), ("%4", "%4"), ("%+f%zz", "%+f%zz")] {
            assert_eq!(decode(text), plain.as_bytes(), "{text}");
        }
    }
}
