//! Headers ready to be sent: HTTP/1.1 copies their text, HTTP/2 reads them one by one.
//!
//! Headers that all requests of an action share are checked and encoded once. Nothing here may accept a
//! value that could end a header early.

use std::ops::Range;

use http::header::{HOST, HeaderName};

/// Headers in the order in which they are sent, each name once.
#[derive(Clone, Debug, Default)]
pub struct HeaderBlock {
    /// `name: value` lines with their line ends.
    text: Vec<u8>,
    fields: Vec<Field>,
    has_host: bool,
}

#[derive(Clone, Debug)]
struct Field {
    name: HeaderName,
    value: Range<usize>,
}

/// A header's value contains a character that is not allowed in headers (RFC 9110, section 5.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("contains characters that are not allowed in a header")]
pub struct InvalidValue;

impl HeaderBlock {
    /// Removes all headers but keeps the memory.
    #[inline]
    pub fn clear(&mut self) {
        self.text.clear();
        self.fields.clear();
        self.has_host = false;
    }

    /// Adds a header that is not there yet.
    ///
    /// # Errors
    /// Control characters in the value.
    #[inline]
    pub fn push(&mut self, name: &HeaderName, value: &[u8]) -> Result<(), InvalidValue> {
        // Without an early exit, the compiler vectorises the loop.
        let allowed = |byte: u8| (byte >= b' ' && byte != 0x7f) || byte == b'\t';
        if !value.iter().fold(true, |all, byte| all & allowed(*byte)) {
            return Err(InvalidValue);
        }
        self.push_valid(name, value);
        Ok(())
    }

    /// Adds a header that is not there yet. The value consists of base64, digits and dashes and needs no check.
    #[inline]
    pub fn push_valid(&mut self, name: &HeaderName, value: &[u8]) {
        let name_bytes = name.as_str().as_bytes();
        self.text.reserve(name_bytes.len() + value.len() + 4);
        self.text.extend_from_slice(name_bytes);
        self.text.extend_from_slice(b": ");
        let start = self.text.len();
        self.text.extend_from_slice(value);
        self.fields.push(Field { name: name.clone(), value: start..self.text.len() });
        self.text.extend_from_slice(b"\r\n");
        self.has_host |= name == HOST;
    }

    /// The headers in HTTP/1.1 form, each with its line end.
    #[inline]
    pub(super) fn http1(&self) -> &[u8] {
        &self.text
    }

    /// True if the headers contain `Host`.
    #[inline]
    pub(super) fn has_host(&self) -> bool {
        self.has_host
    }

    /// Names and values.
    pub fn iter(&self) -> impl Iterator<Item = (&HeaderName, &[u8])> {
        self.fields.iter().map(|field| (&field.name, &self.text[field.value.clone()]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::header::ACCEPT;

    #[test]
    fn headers_are_laid_out_in_order_and_checked() {
        let mut block = HeaderBlock::default();
        assert_eq!(block.push(&ACCEPT, b"*/*"), Ok(()));
        assert_eq!(block.push(&HeaderName::from_static("x-a"), "t\u{e4}b\t1".as_bytes()), Ok(()));
        for bad in [&b"a\r\nb: c"[..], b"\0", b"a\n", b"\x7f"] {
            assert_eq!(block.push(&ACCEPT, bad), Err(InvalidValue), "{bad:?}");
        }
        assert_eq!(block.http1(), "accept: */*\r\nx-a: t\u{e4}b\t1\r\n".as_bytes());
        assert_eq!(block.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["accept", "x-a"]);
        assert!(!block.has_host());
        block.clear();
        assert_eq!(
            (block.push(&HOST, b"h"), block.has_host(), block.http1()),
            (Ok(()), true, &b"host: h\r\n"[..])
        );
    }
}
