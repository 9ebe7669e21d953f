//! The files of kept spans: `RUN_DIRECTORY/spans/00000001.spans`, each append-only and of about 8 MiB.
//!
//! ```text
//! "BENCHSPN" version:u16        then frames:
//! 0xb5 0x5b length:u32 spans:u32 trace_id:16 bytes (big-endian) crc32:u32 payload          (else little-endian)
//! ```
//! The payload is an encoded OTLP `ResourceSpans` whose spans are all of that trace; the checksum is over everything
//! before and behind it. A crash leaves a frame that is cut off at the end. A reader skips it, and damaged bytes too. A
//! frame may be there twice after a crash. Only this file knows the format.

use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use text::files::{create_private, make_directory, open_regular};

/// The name of the directory within a run's.
pub const DIRECTORY_NAME: &str = "spans";
/// What a segment begins with.
pub(super) const SEGMENT_HEAD: [u8; 10] = *b"BENCHSPN\x01\x00";
const MARK: [u8; 2] = [0xb5, 0x5b];
/// The bytes of a frame before its payload.
pub(super) const FRAME_HEAD_BYTES: usize = 30;
/// The largest payload that is read.
pub(super) const PAYLOAD_BYTES_MAX: usize = 16 << 20;
/// No segment is larger: the last frame may begin just below its limit.
const SEGMENT_BYTES_MAX: u64 = 64 << 20;
/// How many bytes may be summed up to find the next frame behind damage, for each byte of a segment.
const SUMMED_FOR_EACH: usize = 4;

/// Where segments are kept: files, or for tests something that fails.
pub trait Disk: Send {
    /// Begins a segment; it must not be there yet.
    ///
    /// # Errors
    /// An I/O error of the disk.
    fn create(&mut self, segment: u32) -> io::Result<()>;

    /// Appends to the segment that was begun last.
    ///
    /// # Errors
    /// An I/O error of the disk; a part may be written then.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// Cuts the segment that was begun last to this length in bytes.
    ///
    /// # Errors
    /// An I/O error of the disk.
    fn cut(&mut self, length: u64) -> io::Result<()>;

    /// Reads up to `length` bytes of a segment from this place.
    ///
    /// # Errors
    /// An I/O error of the disk.
    fn read(&self, segment: u32, at: u64, length: u64) -> io::Result<Vec<u8>>;

    /// Removes a segment.
    ///
    /// # Errors
    /// An I/O error of the disk.
    fn remove(&mut self, segment: u32) -> io::Result<()>;

    /// The segments that are there, in order.
    ///
    /// # Errors
    /// An I/O error of the disk.
    fn list(&self) -> io::Result<Vec<u32>>;
}

/// Segments as files of a directory.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    open: Option<File>,
}

impl Folder {
    /// The directory of a run's spans, which is made if it is not there.
    ///
    /// # Errors
    /// The directory cannot be made.
    pub fn make(run_directory: &Path) -> io::Result<Self> {
        let path = run_directory.join(DIRECTORY_NAME);
        make_directory(&path)?;
        Ok(Self { path, open: None })
    }

    /// The directory of a run's spans.
    #[must_use]
    pub fn open(run_directory: &Path) -> Self {
        Self { path: run_directory.join(DIRECTORY_NAME), open: None }
    }

    fn name(&self, segment: u32) -> PathBuf {
        self.path.join(format!("{segment:08}.spans"))
    }
}

impl Disk for Folder {
    fn create(&mut self, segment: u32) -> io::Result<()> {
        self.open = Some(create_private(&self.name(segment))?);
        Ok(())
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.open.as_mut().map_or(Ok(()), |file| file.write_all(bytes))
    }

    fn cut(&mut self, length: u64) -> io::Result<()> {
        self.open.as_mut().map_or(Ok(()), |file| file.set_len(length))
    }

    fn read(&self, segment: u32, at: u64, length: u64) -> io::Result<Vec<u8>> {
        let mut file = open_regular(&self.name(segment))?;
        file.seek(SeekFrom::Start(at))?;
        let there = file.metadata()?.len().saturating_sub(at);
        let length = length.min(SEGMENT_BYTES_MAX).min(there);
        let mut bytes = Vec::with_capacity(length as usize);
        file.take(length).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    fn remove(&mut self, segment: u32) -> io::Result<()> {
        fs::remove_file(self.name(segment))
    }

    fn list(&self) -> io::Result<Vec<u32>> {
        let number = |name: &str| name.strip_suffix(".spans").and_then(|number| number.parse::<u32>().ok());
        let mut segments = Vec::new();
        for entry in fs::read_dir(&self.path)? {
            segments.extend(entry?.file_name().to_str().and_then(number));
        }
        segments.sort_unstable();
        Ok(segments)
    }
}

/// Reads a whole segment.
pub(super) fn read_whole(disk: &dyn Disk, segment: u32) -> io::Result<Vec<u8>> {
    disk.read(segment, 0, SEGMENT_BYTES_MAX)
}

/// Appends a frame.
pub(super) fn write_frame(output: &mut Vec<u8>, trace_id: u128, spans: u32, payload: &[u8]) {
    let at = output.len();
    output.extend_from_slice(&MARK);
    output.extend_from_slice(&(payload.len() as u32).to_le_bytes());
    output.extend_from_slice(&spans.to_le_bytes());
    output.extend_from_slice(&trace_id.to_be_bytes());
    let sum = checksum(&output[at..], payload);
    output.extend_from_slice(&sum.to_le_bytes());
    output.extend_from_slice(payload);
}

fn checksum(head: &[u8], payload: &[u8]) -> u32 {
    let mut sum = crc32fast::Hasher::new();
    sum.update(head);
    sum.update(payload);
    sum.finalize()
}

/// Spans of a trace in a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SpanFrame<'a> {
    pub(super) trace_id: u128,
    pub(super) spans: u32,
    pub(super) payload: &'a [u8],
    /// Where it begins, and its whole length.
    pub(super) at: usize,
    pub(super) length: usize,
}

/// The frames of a segment, or of a part of one that begins with a frame.
#[derive(Debug)]
pub(super) struct Frames<'a> {
    bytes: &'a [u8],
    at: usize,
    summed: usize,
    /// Bytes that belong to no frame: damage, or what a crash cut off.
    pub(super) skipped: usize,
}

impl<'a> Frames<'a> {
    /// Of a whole segment; a damaged beginning is skipped.
    pub(super) fn of_segment(bytes: &'a [u8]) -> Self {
        let at = if bytes.starts_with(&SEGMENT_HEAD) { SEGMENT_HEAD.len() } else { 0 };
        Self { bytes, at, summed: 0, skipped: 0 }
    }

    /// Of bytes that begin with a frame.
    pub(super) fn of(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0, summed: 0, skipped: 0 }
    }

    fn frame_at(&mut self, at: usize) -> Option<SpanFrame<'a>> {
        let (head, rest) = self.bytes.get(at..)?.split_at_checked(FRAME_HEAD_BYTES)?;
        let number = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let payload = rest.get(..usize::try_from(number(2)).ok()?)?;
        let budget = SUMMED_FOR_EACH.saturating_mul(self.bytes.len());
        if head[..2] != MARK || payload.len() > PAYLOAD_BYTES_MAX || self.summed > budget {
            return None;
        }
        self.summed += payload.len();
        if checksum(&head[..FRAME_HEAD_BYTES - 4], payload) != number(FRAME_HEAD_BYTES - 4) {
            return None;
        }
        let trace_id = <[u8; 16]>::try_from(&head[10..26]).map(u128::from_be_bytes).ok()?;
        let length = FRAME_HEAD_BYTES + payload.len();
        Some(SpanFrame { trace_id, spans: number(6), payload, at, length })
    }
}

impl<'a> Iterator for Frames<'a> {
    type Item = SpanFrame<'a>;

    fn next(&mut self) -> Option<SpanFrame<'a>> {
        let from = self.at;
        while self.at < self.bytes.len() {
            if let Some(frame) = self.frame_at(self.at) {
                self.skipped += self.at - from;
                self.at += frame.length;
                return Some(frame);
            }
            let next = self.bytes.get(self.at + 1..).and_then(|rest| memchr::memchr(MARK[0], rest));
            self.at = next.map_or(self.bytes.len(), |next| self.at + 1 + next);
        }
        self.skipped += self.at - from;
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Content = (u128, u32, Vec<u8>);

    fn segment() -> (Vec<u8>, Vec<Content>) {
        // A payload that looks like a frame, an empty one, and others.
        let mut inner = Vec::new();
        write_frame(&mut inner, 1, 1, b"inner");
        inner.extend_from_slice(&MARK);
        let all =
            vec![(7, 1, b"one".to_vec()), (u128::MAX, 20, inner), (8, 0, Vec::new()), (7, 3, vec![9; 90])];
        let mut bytes = SEGMENT_HEAD.to_vec();
        all.iter().for_each(|(id, spans, payload)| write_frame(&mut bytes, *id, *spans, payload));
        (bytes, all)
    }

    fn read(bytes: &[u8]) -> (Vec<Content>, usize) {
        let mut frames = Frames::of_segment(bytes);
        let read =
            frames.by_ref().map(|frame| (frame.trace_id, frame.spans, frame.payload.to_vec())).collect();
        (read, frames.skipped)
    }

    #[test]
    fn damage_at_any_byte_costs_one_frame_and_a_cut_costs_the_last() {
        let (bytes, all) = segment();
        assert_eq!(read(&bytes), (all.clone(), 0));
        for at in 0..bytes.len() {
            for change in [0x01, 0x80, 0xff] {
                let mut damaged = bytes.clone();
                damaged[at] ^= change;
                let (read, skipped) = read(&damaged);
                assert!(skipped > 0, "{at}");
                // The second one holds a whole frame, which comes to light when its head is damaged.
                let known: Vec<_> = read.iter().filter(|frame| all.contains(frame)).collect();
                assert!(known.len() >= all.len() - usize::from(at >= SEGMENT_HEAD.len()), "{at}: {read:?}");
                assert!(read.iter().all(|frame| all.contains(frame) || frame.2 == b"inner"), "{at}");
            }
            let (mut cut, skipped) = read(&bytes[..at]);
            let inner =
                cut.extract_if(.., |frame| frame.2 == b"inner").map(|frame| frame.2.len() + FRAME_HEAD_BYTES);
            let skipped = skipped + inner.sum::<usize>();
            assert!(all.starts_with(&cut) && (cut.len() < all.len()), "{at}");
            let whole: usize = cut.iter().map(|frame| FRAME_HEAD_BYTES + frame.2.len()).sum();
            assert!(at < SEGMENT_HEAD.len() || skipped == at - SEGMENT_HEAD.len() - whole, "{at}");
        }
    }

    #[test]
    fn bytes_that_only_look_like_frames_cost_bounded_work() {
        let mut bytes = SEGMENT_HEAD.to_vec();
        for _ in 0..20_000 {
            bytes.extend_from_slice(&MARK);
            bytes.extend_from_slice(&300_000_u32.to_le_bytes());
            bytes.extend_from_slice(&[0; 24]);
        }
        let mut frames = Frames::of_segment(&bytes);
        assert_eq!(frames.next(), None);
        assert!(frames.summed <= (SUMMED_FOR_EACH + 1) * bytes.len());
        assert_eq!(frames.skipped, bytes.len() - SEGMENT_HEAD.len());
    }
}
