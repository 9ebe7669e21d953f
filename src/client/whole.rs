//! Decoders that read a compressed body to its end: every frame of zstd, and nothing behind the data of the others.
//!
//! The crates' own decoders stop after the first frame, or at the end of the compressed data, without a word. Then a
//! check for the absence of a text would pass because it saw half a body.

use std::io::{self, Read};

use brotli_decompressor::{BrotliDecompressStream, BrotliResult, BrotliState, StandardAlloc};
use ruzstd::decoding::{FrameDecoder, StreamingDecoder};

/// The largest window of zstd (RFC 9659).
const ZSTD_WINDOW_BYTES_MAX: u64 = 8 << 20;
/// How a frame begins that decoders skip, without its last four bits (RFC 8878, section 3.1.2).
const SKIPPED: u32 = 0x184d_2a50;

/// A decoder, and what it leaves over of its input: at its end, that must be nothing.
pub(super) struct StrictDecoder<D>(pub(super) D, pub(super) fn(&D) -> &[u8]);

impl<D: Read> Read for StrictDecoder<D> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.0.read(buffer)?;
        match self.1(&self.0).len() {
            behind if read == 0 && behind > 0 && !buffer.is_empty() => {
                Err(io::Error::other(format!("it has {behind} bytes behind its end")))
            }
            _ => Ok(read),
        }
    }
}

/// A decoder of brotli.
pub(super) struct Brotli<'a> {
    /// What was not read yet.
    pub(super) rest: &'a [u8],
    state: Box<BrotliState<StandardAlloc, StandardAlloc, StandardAlloc>>,
    total: usize,
    over: bool,
}

impl<'a> Brotli<'a> {
    pub(super) fn new(input: &'a [u8]) -> Self {
        let [bytes, numbers, codes] = std::array::from_fn(|_| StandardAlloc::default());
        let state = Box::new(BrotliState::new(bytes, numbers, codes));
        Self { rest: input, state, total: 0, over: false }
    }
}

impl Read for Brotli<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.over || buffer.is_empty() {
            return Ok(0);
        }
        let (mut input, mut taken) = (self.rest.len(), 0);
        let (mut room, mut written) = (buffer.len(), 0);
        let result = BrotliDecompressStream(
            &mut input,
            &mut taken,
            self.rest,
            &mut room,
            &mut written,
            buffer,
            &mut self.total,
            &mut self.state,
        );
        self.rest = &self.rest[taken..];
        match result {
            BrotliResult::ResultSuccess => self.over = true,
            BrotliResult::NeedsMoreInput if written == 0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            BrotliResult::NeedsMoreInput | BrotliResult::NeedsMoreOutput => {}
            BrotliResult::ResultFailure => return Err(io::Error::other("it is not valid brotli")),
        }
        Ok(written)
    }
}

/// A decoder of zstd: of all frames, one after another (RFC 8878, section 3.1). It refuses windows larger than HTTP
/// allows.
pub(super) struct Zstd<'a> {
    /// Behind the current frame.
    rest: &'a [u8],
    frame: Option<StreamingDecoder<&'a [u8], FrameDecoder>>,
    /// Kept from frame to frame, with its memory.
    idle: Option<FrameDecoder>,
    /// How many bytes the current frame has given so far.
    given: u64,
}

/// A frame that has less or other content than it says, or more.
fn check(frame: &FrameDecoder, given: u64) -> io::Result<()> {
    // Whether it says 0 or nothing cannot be told apart.
    let stated = frame.content_size();
    if stated != 0 && stated != given {
        return Err(io::Error::other(format!("a frame says that it has {stated} bytes, and has {given}")));
    }
    match (frame.get_checksum_from_data(), frame.get_calculated_checksum()) {
        (Some(stated), Some(found)) if stated != found => {
            Err(io::Error::other("the checksum of a frame is another one"))
        }
        _ => Ok(()),
    }
}

impl<'a> Zstd<'a> {
    pub(super) fn new(input: &'a [u8]) -> Self {
        let mut decoder = FrameDecoder::new();
        decoder.set_max_window_size(ZSTD_WINDOW_BYTES_MAX);
        Self { rest: input, frame: None, idle: Some(decoder), given: 0 }
    }

    /// Begins the next frame; false at the end.
    fn begin(&mut self) -> io::Result<bool> {
        while let Some((magic, rest)) = self.rest.split_first_chunk::<4>()
            && u32::from_le_bytes(*magic) & !0xf == SKIPPED
        {
            let length = rest.split_first_chunk::<4>();
            let rest = length.and_then(|(length, rest)| {
                rest.get(usize::try_from(u32::from_le_bytes(*length)).unwrap_or(usize::MAX)..)
            });
            self.rest = rest.ok_or(io::ErrorKind::UnexpectedEof)?;
        }
        if self.rest.is_empty() {
            return Ok(false);
        }
        let decoder = self.idle.take().unwrap_or_default();
        let frame = StreamingDecoder::new_with_decoder(self.rest, decoder);
        self.frame = Some(frame.map_err(|error| io::Error::other(error.to_string()))?);
        Ok(true)
    }
}

impl Read for Zstd<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        loop {
            if let Some(frame) = &mut self.frame {
                let read = frame.read(buffer)?;
                if read > 0 {
                    self.given += read as u64;
                    return Ok(read);
                }
            }
            if let Some(frame) = self.frame.take() {
                let (rest, decoder) = frame.into_parts();
                check(&decoder, std::mem::take(&mut self.given))?;
                (self.rest, self.idle) = (rest, Some(decoder));
            }
            if !self.begin()? {
                return Ok(0);
            }
        }
    }
}
