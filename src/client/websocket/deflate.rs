//! Compression of messages ([RFC 7692](https://www.rfc-editor.org/rfc/rfc7692), section 7.2): each ends at a byte, without
//! the four bytes that such an end has.

use std::cell::RefCell;

use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};

use super::violation::Violation;

/// What the end of a compressed message lacks.
const TAIL: &[u8] = &[0, 0, 0xff, 0xff];
/// Shorter messages are sent as they are.
pub(super) const COMPRESSED_FROM: usize = 1024;
/// What is compressed or unpacked at once. A decoder may hold as much as its window, and loses it at an error.
const STEP_BYTES: usize = 32 << 10;
/// A larger buffer is not kept.
const KEPT_BYTES_MAX: usize = 1 << 20;
/// The largest window, as a power of two.
pub(super) const WINDOW_BITS_MAX: u8 = 15;

/// What the WebSockets of a thread share, because ten thousand of them have no room for a compressor each.
#[derive(Default)]
struct SharedCodec {
    compressor: Option<Compress>,
    compressed: Vec<u8>,
    /// Room for what is compressed or unpacked at once.
    step: Vec<u8>,
    /// For connections whose messages know nothing of each other.
    inflater: Option<Box<Decompress>>,
}

impl SharedCodec {
    /// Compresses a message without references to earlier ones. References stay within the window, because the compressor
    /// forgets what was before at each full flush.
    fn compress(&mut self, content: &[u8], window_bits: u8) -> Option<()> {
        let Self { compressor, compressed, step, .. } = self;
        step.resize(STEP_BYTES, 0);
        compressed.clear();
        let compressor = compressor.get_or_insert_with(|| Compress::new(Compression::default(), false));
        compressor.reset();
        let piece_bytes = if window_bits < WINDOW_BITS_MAX { 1 << window_bits } else { usize::MAX };
        let mut left = content.len();
        for piece in content.chunks(piece_bytes) {
            left -= piece.len();
            let flush = if left == 0 { FlushCompress::Sync } else { FlushCompress::Full };
            let mut rest = piece;
            loop {
                let (taken, given) = (compressor.total_in(), compressor.total_out());
                compressor.compress(rest, step, flush).ok()?;
                rest = rest.get(usize::try_from(compressor.total_in() - taken).ok()?..)?;
                let given = usize::try_from(compressor.total_out() - given).ok()?;
                compressed.extend_from_slice(step.get(..given)?);
                if compressed.len() >= content.len() {
                    return None;
                }
                if given < step.len() && rest.is_empty() {
                    break;
                }
            }
        }
        compressed.ends_with(TAIL).then(|| compressed.truncate(compressed.len() - TAIL.len()))
    }
}

thread_local! {
    static SHARED: RefCell<SharedCodec> = RefCell::default();
}

/// Gives `taker` the message in its compressed form; false if that is not shorter.
pub(super) fn compressed(content: &[u8], window_bits: u8, taker: impl FnOnce(&[u8])) -> bool {
    SHARED.with_borrow_mut(|shared| {
        let is_shorter = shared.compress(content, window_bits).is_some();
        if is_shorter {
            taker(&shared.compressed);
        }
        if shared.compressed.capacity() > KEPT_BYTES_MAX {
            shared.compressed = Vec::new();
        }
        is_shorter
    })
}

/// Unpacks the messages of a connection.
pub(super) struct Inflater {
    /// Made for the first compressed message, as many connections have none.
    decompress: Option<Box<Decompress>>,
    /// Whether a message may refer to those before it.
    keeps_context: bool,
}

impl Inflater {
    pub(super) fn new(keeps_context: bool) -> Self {
        Self { decompress: None, keeps_context }
    }

    /// Unpacks a piece of a message; `taker` gets what it holds.
    pub(super) fn take(
        &mut self,
        mut piece: &[u8],
        taker: &mut dyn FnMut(&[u8]) -> Result<(), Violation>,
    ) -> Result<(), Violation> {
        SHARED.with_borrow_mut(|shared| {
            shared.step.resize(STEP_BYTES, 0);
            let spare = &mut shared.inflater;
            let decompress = self.decompress.get_or_insert_with(|| {
                let spare = spare.take().filter(|_| !self.keeps_context);
                spare.unwrap_or_else(|| Box::new(Decompress::new(false)))
            });
            loop {
                let (taken, given) = (decompress.total_in(), decompress.total_out());
                let status = decompress.decompress(piece, &mut shared.step, FlushDecompress::Sync);
                let taken = usize::try_from(decompress.total_in() - taken).unwrap_or(usize::MAX);
                let given = usize::try_from(decompress.total_out() - given).unwrap_or(usize::MAX);
                piece = piece.get(taken..).unwrap_or_default();
                let unpacked = shared.step.get(..given).unwrap_or_default();
                taker(unpacked)?;
                match status {
                    // Its last block said that it is the last (section 7.2.3.4); the next one begins anew.
                    Ok(Status::StreamEnd) => decompress.reset(false),
                    Ok(_) if taken > 0 || given > 0 => {}
                    Ok(_) if piece.is_empty() => return Ok(()),
                    Ok(_) | Err(_) => return Err(Violation::Damaged),
                }
                if piece.is_empty() && given < shared.step.len() {
                    return Ok(());
                }
            }
        })
    }

    /// The end of a message.
    pub(super) fn end(
        &mut self,
        taker: &mut dyn FnMut(&[u8]) -> Result<(), Violation>,
    ) -> Result<(), Violation> {
        self.take(TAIL, taker)?;
        if !self.keeps_context
            && let Some(mut decompress) = self.decompress.take()
        {
            decompress.reset(false);
            SHARED.with_borrow_mut(|shared| shared.inflater = Some(decompress));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packed(content: &[u8], window_bits: u8) -> Option<Vec<u8>> {
        let mut packed = None;
        let is_shorter = compressed(content, window_bits, |bytes| packed = Some(bytes.to_vec()));
        assert_eq!(is_shorter, packed.is_some());
        packed
    }

    fn unpacked(inflater: &mut Inflater, bytes: &[u8], piece: usize) -> Result<Vec<u8>, Violation> {
        let mut content = Vec::new();
        let mut taker = |unpacked: &[u8]| {
            content.extend_from_slice(unpacked);
            Ok(())
        };
        bytes.chunks(piece).try_for_each(|piece| inflater.take(piece, &mut taker))?;
        inflater.end(&mut taker)?;
        Ok(content)
    }

    /// Bytes that do not become shorter.
    fn noise(length: usize) -> Vec<u8> {
        let mut rng = fastrand::Rng::with_seed(7);
        (0..length).map(|_| rng.u8(..)).collect()
    }

    #[test]
    fn messages_come_back_whatever_the_window_is() {
        let text = "{\"item\": \"a cup\", \"price\": 12}, ".repeat(20_000);
        for window_bits in 8..=15 {
            for length in [1024, 1025, 32_768, 32_769, 300_001, text.len()] {
                let content = &text.as_bytes()[..length];
                let packed = packed(content, window_bits).unwrap();
                for keeps_context in [false, true] {
                    let mut inflater = Inflater::new(keeps_context);
                    for piece in [usize::MAX, 1, 7] {
                        let back = unpacked(&mut inflater, &packed, piece).unwrap();
                        assert!(
                            back == content,
                            "{length} bytes with {window_bits} bits in pieces of {piece}"
                        );
                    }
                }
            }
        }
        assert_eq!(packed(&noise(5000), 15), None, "noise gets no shorter");
    }

    #[test]
    fn no_reference_leaves_the_window() {
        // What repeats after 512 bytes is found by a window of 1024, and not by one of 512.
        let repeated = noise(512).repeat(20);
        assert_eq!(packed(&repeated, 9), None);
        assert!(packed(&repeated, 10).unwrap().len() < 6000);
        assert!(packed(&repeated, 15).unwrap().len() < 1000);
    }

    #[test]
    fn the_examples_of_the_standard_are_understood() {
        // RFC 7692, section 7.2.3: one block, a window that is kept, no compression, the last block, two blocks.
        let rows: [&[&[u8]]; 4] = [
            &[&[0xf2, 0x48, 0xcd, 0xc9, 0xc9, 0x07, 0x00], &[0xf2, 0x00, 0x11, 0x00, 0x00]],
            &[&[0x00, 0x05, 0x00, 0xfa, 0xff, 0x48, 0x65, 0x6c, 0x6c, 0x6f, 0x00]],
            &[&[0xf3, 0x48, 0xcd, 0xc9, 0xc9, 0x07, 0x00, 0x00], &[0xf2, 0x48, 0xcd, 0xc9, 0xc9, 0x07, 0x00]],
            &[&[0xf2, 0x48, 0x05, 0x00, 0x00, 0x00, 0xff, 0xff, 0xca, 0xc9, 0xc9, 0x07, 0x00]],
        ];
        for messages in rows {
            for piece in [usize::MAX, 1, 3] {
                let mut inflater = Inflater::new(true);
                for message in messages {
                    assert_eq!(
                        unpacked(&mut inflater, message, piece).as_deref(),
                        Ok(&b"Hello"[..]),
                        "{message:?}"
                    );
                }
            }
        }
        // Without the window, the second one refers to nothing: an error with zlib, zeros with miniz_oxide. Features of other
        // crates choose between them.
        let mut inflater = Inflater::new(false);
        assert!(unpacked(&mut inflater, rows[0][0], 1).is_ok());
        let second = unpacked(&mut inflater, rows[0][1], 1);
        assert!(second == Err(Violation::Damaged) || second.as_deref() == Ok(b"H\0\0\0\0"), "{second:?}");
        assert_eq!(unpacked(&mut Inflater::new(true), &[0x00], 1).as_deref(), Ok(&b""[..]));
        assert_eq!(unpacked(&mut Inflater::new(true), &[0xff, 0xff], 1), Err(Violation::Damaged));
    }
}
