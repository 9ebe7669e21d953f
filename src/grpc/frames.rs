//! The frames of messages in a body: a byte that says whether it is compressed, its length in four bytes, the message.

use std::io::{Read as _, Write as _};

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;

/// The bytes in front of a message.
pub const HEAD_BYTES: usize = 5;

/// Appends a message and its frame, compressed with gzip if requested.
pub fn push(output: &mut Vec<u8>, message: &[u8], gzip: bool) {
    let compressed = gzip.then(|| compressed(message));
    let content = compressed.as_deref().unwrap_or(message);
    output.push(u8::from(gzip));
    // A message of 4 GiB has no place in memory.
    output.extend_from_slice(&u32::try_from(content.len()).unwrap_or(u32::MAX).to_be_bytes());
    output.extend_from_slice(content);
}

fn compressed(message: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    // Writing to a vector cannot fail.
    let _ = encoder.write_all(message);
    encoder.finish().unwrap_or_default()
}

/// Why the frames of a body cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FrameError {
    /// What is wrong with them.
    Broken(String),
    /// More than this number of bytes when unpacked.
    TooLarge(u64),
}

/// A message in a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FramedMessage<'a> {
    /// Whether it is compressed.
    pub is_compressed: bool,
    /// Its bytes, as they came.
    pub content: &'a [u8],
}

/// The messages of a body, one after another; after an error, there are none.
pub fn split(body: &[u8]) -> impl Iterator<Item = Result<FramedMessage<'_>, FrameError>> {
    let mut rest = body;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let next = first(rest);
        rest = next.as_ref().map_or(&[], |(_, rest)| rest);
        Some(next.map(|(message, _)| message))
    })
}

fn first(bytes: &[u8]) -> Result<(FramedMessage<'_>, &[u8]), FrameError> {
    let broken = |reason: String| FrameError::Broken(reason);
    let Some(([flag, length @ ..], rest)) = bytes.split_first_chunk::<HEAD_BYTES>() else {
        return Err(broken(format!(
            "it ends after {} of the {HEAD_BYTES} bytes before a message",
            bytes.len()
        )));
    };
    let length = u32::from_be_bytes(*length);
    if *flag > 1 {
        return Err(broken(format!("a message begins with the byte {flag}, which must be 0 or 1")));
    }
    let size = usize::try_from(length).unwrap_or(usize::MAX);
    match rest.split_at_checked(size) {
        Some((content, rest)) => Ok((FramedMessage { is_compressed: *flag == 1, content }, rest)),
        None => Err(broken(format!("it ends after {} of the {length} bytes of a message", rest.len()))),
    }
}

impl FramedMessage<'_> {
    /// The message, decompressed; `encoding` is what the answer says in `grpc-encoding`.
    ///
    /// # Errors
    /// A compression that is not known or not as it says, and more than `bytes_max` bytes.
    pub fn unpacked(&self, encoding: Option<&str>, bytes_max: u64) -> Result<Option<Vec<u8>>, FrameError> {
        if !self.is_compressed {
            return Ok(None);
        }
        match encoding {
            Some("gzip") => self.inflated(bytes_max).map(Some),
            None | Some("identity") => Err(FrameError::Broken(
                "a message is compressed, but `grpc-encoding` does not say how".to_owned(),
            )),
            Some(other) => Err(FrameError::Broken(format!(
                "a message is compressed with `{other}`; bench reads only gzip"
            ))),
        }
    }

    fn inflated(&self, bytes_max: u64) -> Result<Vec<u8>, FrameError> {
        let mut message = Vec::new();
        let mut decoder = GzDecoder::new(self.content).take(bytes_max.saturating_add(1));
        let read = decoder.read_to_end(&mut message);
        if message.len() as u64 > bytes_max {
            return Err(FrameError::TooLarge(bytes_max));
        }
        read.map_err(|error| FrameError::Broken(format!("a message is not valid gzip: {error}")))?;
        Ok(message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn unpacked(body: &[u8], encoding: Option<&str>, bytes_max: u64) -> Result<Vec<Vec<u8>>, FrameError> {
        let one = |message: Result<FramedMessage<'_>, FrameError>| {
            let message = message?;
            Ok(message.unpacked(encoding, bytes_max)?.unwrap_or_else(|| message.content.to_vec()))
        };
        split(body).map(one).collect()
    }

    #[test]
    fn what_is_not_a_row_of_messages_is_said() {
        let mut packed = Vec::new();
        push(&mut packed, &[7; 1000], true);
        for (body, encoding, reason) in [
            (&b"\0\0\0"[..], None, "it ends after 3 of the 5 bytes before a message"),
            (b"\0\0\0\0\x04abc", None, "it ends after 3 of the 4 bytes of a message"),
            (b"\0\0\0\0\x01a\x02\0\0\0\0", None, "begins with the byte 2"),
            (b"<html>", None, "begins with the byte 60"),
            (b"\x01\0\0\0\x01a", Some("gzip"), "not valid gzip"),
            (&packed, None, "does not say how"),
            (&packed, Some("snappy"), "compressed with `snappy`"),
        ] {
            match unpacked(body, encoding, 1 << 20) {
                Err(FrameError::Broken(said)) => assert!(said.contains(reason), "{said}"),
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(unpacked(&packed, Some("gzip"), 1000), Ok(vec![vec![7; 1000]]));
        assert_eq!(unpacked(&packed, Some("gzip"), 999), Err(FrameError::TooLarge(999)));
    }

    proptest! {
        #[test]
        fn messages_come_back(messages in proptest::collection::vec(
            (proptest::collection::vec(any::<u8>(), 0..100), any::<bool>()), 0..5,
        )) {
            let mut body = Vec::new();
            messages.iter().for_each(|(message, gzip)| push(&mut body, message, *gzip));
            let expected: Vec<_> = messages.into_iter().map(|(message, _)| message).collect();
            prop_assert_eq!(unpacked(&body, Some("gzip"), 100), Ok(expected));
        }

        #[test]
        fn no_body_makes_it_panic(body in proptest::collection::vec(any::<u8>(), 0..100)) {
            let _ = unpacked(&body, Some("gzip"), 100);
        }
    }
}
