//! Decompression of a body while it arrives, so that each piece can be read when it comes: gzip, deflate, br.

use std::io::{self, Write};
use std::mem;
use std::ops::ControlFlow;

use brotli_decompressor::{BrotliDecompressStream, BrotliResult, BrotliState, StandardAlloc};
use flate2::write::{DeflateDecoder, MultiGzDecoder, ZlibDecoder};
use http::HeaderMap;

use super::decode::{codings, damaged, has_zlib_head};
use super::error::ClientError;

/// The codings to ask for in an answer that is read while it arrives.
pub const ACCEPT_ENCODING: &str = "gzip, deflate, br";
/// How much is decompressed at once: a bomb gives at most a thousand times as much.
const STEP_BYTES: usize = 1024;
/// The room for what brotli gives at once.
const BROTLI_OUTPUT_BYTES: usize = 16 << 10;

/// Takes the decompressed pieces; see [`super::reading::BodyReader::take`].
pub type PieceSink<'a> = dyn FnMut(&[u8]) -> Result<ControlFlow<()>, ClientError> + 'a;

/// Decompresses the pieces of a body.
pub struct PieceDecoder {
    coding: String,
    decoder: Decoder,
}

enum Decoder {
    /// Nothing to do.
    Plain,
    Gzip(Box<MultiGzDecoder<Vec<u8>>>),
    /// Until its first two bytes tell whether it has zlib's head.
    Deflate(Vec<u8>),
    Zlib(Box<ZlibDecoder<Vec<u8>>>),
    Raw(Box<DeflateDecoder<Vec<u8>>>),
    Brotli(Box<BrotliState<StandardAlloc, StandardAlloc, StandardAlloc>>),
}

impl PieceDecoder {
    /// A decoder of the body that has these headers.
    ///
    /// # Errors
    /// A coding that is not known, or several.
    pub fn new(headers: Option<&HeaderMap>) -> Result<Self, ClientError> {
        let coding = match codings(headers).as_mut_slice() {
            [] => String::new(),
            [one] => mem::take(one),
            several => several.join(", "),
        };
        let decoder = match coding.as_str() {
            "" => Decoder::Plain,
            "gzip" | "x-gzip" => Decoder::Gzip(Box::new(MultiGzDecoder::new(Vec::new()))),
            "deflate" => Decoder::Deflate(Vec::new()),
            "br" => {
                let [bytes, numbers, codes] = std::array::from_fn(|_| StandardAlloc::default());
                Decoder::Brotli(Box::new(BrotliState::new(bytes, numbers, codes)))
            }
            other => {
                return Err(ClientError::Protocol(format!(
                    "the stream has the content encoding `{}`, which is not read while it arrives; ask for \
                     another with the header Accept-Encoding, such as gzip",
                    other.chars().take(40).collect::<String>()
                )));
            }
        };
        Ok(Self { coding, decoder })
    }

    /// Takes a piece, and gives what it holds.
    ///
    /// # Errors
    /// A body that is damaged, and the sink's.
    pub fn take(&mut self, piece: &[u8], sink: &mut PieceSink<'_>) -> Result<ControlFlow<()>, ClientError> {
        if matches!(self.decoder, Decoder::Plain) {
            return sink(piece);
        }
        for step in piece.chunks(STEP_BYTES) {
            let flow = match self.decoder.step(step, sink) {
                Ok(flow) => flow?,
                Err(error) => return Err(damaged(&self.coding, &error)),
            };
            if flow.is_break() {
                return Ok(flow);
            }
        }
        Ok(ControlFlow::Continue(()))
    }
}

impl Decoder {
    fn step(
        &mut self,
        step: &[u8],
        sink: &mut PieceSink<'_>,
    ) -> io::Result<Result<ControlFlow<()>, ClientError>> {
        if let Self::Deflate(begun) = self {
            begun.extend_from_slice(step);
            if begun.len() < 2 {
                return Ok(Ok(ControlFlow::Continue(())));
            }
            let begun = mem::take(begun);
            *self = match has_zlib_head(&begun) {
                true => Self::Zlib(Box::new(ZlibDecoder::new(Vec::new()))),
                false => Self::Raw(Box::new(DeflateDecoder::new(Vec::new()))),
            };
            return self.step(&begun, sink);
        }
        let output = match self {
            Self::Plain | Self::Deflate(_) => return Ok(sink(step)),
            Self::Gzip(gzip) => written(gzip, step).map(|()| mem::take(gzip.get_mut()))?,
            Self::Zlib(zlib) => written(zlib, step).map(|()| mem::take(zlib.get_mut()))?,
            Self::Raw(raw) => written(raw, step).map(|()| mem::take(raw.get_mut()))?,
            Self::Brotli(state) => return unfold_brotli(state, step, sink),
        };
        Ok(if output.is_empty() { Ok(ControlFlow::Continue(())) } else { sink(&output) })
    }
}

fn written(decoder: &mut impl Write, step: &[u8]) -> io::Result<()> {
    decoder.write_all(step)?;
    decoder.flush()
}

fn unfold_brotli(
    state: &mut BrotliState<StandardAlloc, StandardAlloc, StandardAlloc>,
    step: &[u8],
    sink: &mut PieceSink<'_>,
) -> io::Result<Result<ControlFlow<()>, ClientError>> {
    let (mut left, mut taken, mut total) = (step.len(), 0, 0);
    let mut output = [0; BROTLI_OUTPUT_BYTES];
    loop {
        let (mut room, mut written) = (output.len(), 0);
        let result = BrotliDecompressStream(
            &mut left,
            &mut taken,
            step,
            &mut room,
            &mut written,
            &mut output,
            &mut total,
            state,
        );
        if written > 0 {
            match sink(&output[..written]) {
                Ok(ControlFlow::Continue(())) => {}
                end => return Ok(end),
            }
        }
        match result {
            BrotliResult::ResultFailure => return Err(io::Error::other("it is not valid brotli")),
            BrotliResult::ResultSuccess if left > 0 => {
                return Err(io::Error::other(format!("it has {left} bytes behind its end")));
            }
            BrotliResult::ResultSuccess | BrotliResult::NeedsMoreInput => {
                return Ok(Ok(ControlFlow::Continue(())));
            }
            BrotliResult::NeedsMoreOutput => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::Compression;
    use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};
    use http::HeaderValue;
    use http::header::CONTENT_ENCODING;

    fn decoder(coding: &'static str) -> Result<PieceDecoder, ClientError> {
        PieceDecoder::new(Some(&HeaderMap::from_iter([(CONTENT_ENCODING, HeaderValue::from_static(coding))])))
    }

    /// What comes out for each of the pieces that a flushing encoder makes of the messages.
    fn pieces_of(coding: &'static str, mut encoder: impl Write, sent: impl Fn() -> Vec<u8>) -> Vec<String> {
        let (mut decoder, mut known) = (decoder(coding).unwrap(), 0);
        let mut all = Vec::new();
        for message in ["one", "two", "three"] {
            written(&mut encoder, message.as_bytes()).unwrap();
            let bytes = sent();
            let mut got = Vec::new();
            let taken = decoder.take(&bytes[known..], &mut |piece| {
                got.extend_from_slice(piece);
                Ok(ControlFlow::Continue(()))
            });
            assert!(taken.unwrap().is_continue());
            known = bytes.len();
            all.push(String::from_utf8(got).unwrap());
        }
        all
    }

    /// What an encoder has written so far.
    #[derive(Clone, Default)]
    struct EncoderOutput(std::rc::Rc<std::cell::RefCell<Vec<u8>>>);

    impl Write for EncoderOutput {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.borrow_mut().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn each_flushed_message_comes_out_when_it_came_in() {
        let level = Compression::default();
        for coding in ["gzip", "x-gzip", "deflate", "raw", "identity"] {
            let sent = EncoderOutput::default();
            let read = || sent.0.borrow().clone();
            let pieces = match coding {
                "deflate" => pieces_of("deflate", ZlibEncoder::new(sent.clone(), level), read),
                "raw" => pieces_of("deflate", DeflateEncoder::new(sent.clone(), level), read),
                "identity" => pieces_of("identity", sent.clone(), read),
                gzip => pieces_of(gzip, GzEncoder::new(sent.clone(), level), read),
            };
            assert_eq!(pieces, ["one", "two", "three"], "{coding}");
        }
    }

    #[test]
    fn brotli_comes_out_as_it_comes_in() {
        // By `brotli`: a block that is not compressed.
        let whole = [0x0b, 0x02, 0x80, b'b', b'e', b'n', b'c', b'h', 0x03];
        for at in 1..whole.len() {
            let (mut decoder, mut got) = (decoder("br").unwrap(), Vec::new());
            for piece in [&whole[..at], &whole[at..]] {
                let taken = decoder.take(piece, &mut |piece| {
                    got.extend_from_slice(piece);
                    Ok(ControlFlow::Continue(()))
                });
                assert!(taken.unwrap().is_continue());
            }
            assert_eq!(got, b"bench", "{at}");
        }
        let error = decoder("br").unwrap().take(&[0xff; 20], &mut |_| Ok(ControlFlow::Continue(())));
        assert!(error.unwrap_err().to_string().contains("not valid brotli"));
    }

    #[test]
    fn what_cannot_be_read_while_it_arrives_is_refused() {
        for (coding, part) in
            [("zstd", "`zstd`, which is not read while"), ("gzip, br", "`gzip, br`"), ("x", "`x`")]
        {
            let error = decoder(coding).err().unwrap().to_string();
            assert!(error.contains(part) && error.contains("Accept-Encoding"), "{error}");
        }
        let mut gzip = decoder("gzip").unwrap();
        let error = gzip.take(b"no gzip at all", &mut |_| Ok(ControlFlow::Continue(()))).unwrap_err();
        assert!(error.to_string().contains("cannot be decoded (content encoding: gzip)"), "{error}");
    }

    #[test]
    fn a_sink_that_has_enough_is_given_no_more() {
        let sent = EncoderOutput::default();
        let mut encoder = GzEncoder::new(sent.clone(), Compression::best());
        encoder.write_all(&vec![b'a'; 40 << 20]).unwrap();
        drop(encoder);
        let bytes = sent.0.borrow().clone();
        let mut calls = 0;
        let taken = decoder("gzip").unwrap().take(&bytes, &mut |piece| {
            calls += 1;
            assert!(piece.len() < 2 << 20, "{}", piece.len());
            Ok(ControlFlow::Break(()))
        });
        assert!(taken.unwrap().is_break() && calls == 1);
    }
}
