//! Reads the run log in bounded memory and time, whatever its bytes are.
//!
//! Three things are told apart: a log that is *cut* (it ends within a frame: a crash), one that is
//! *damaged* (a frame is wrong although bytes follow it: reading goes on at the next frame whose
//! checksum holds), and one that is *unreadable* (the system gives an error, which is handed on).

use std::io::{self, Read};

use super::{
    FRAME_HEAD_BYTES, Frame, KIND_ADDRESSES, KIND_BEGAN, KIND_END, KIND_FAILURES, KIND_HEADER, KIND_LAST,
    KIND_SAMPLES, KIND_USERS, LogError, MAGIC, PAYLOAD_BYTES_MAX, VERSION, VERSION_OLDEST, checksum,
};
use crate::codec::{self, Scratch};
use crate::rows::Rows;

/// How much is read at a time.
const READ_BYTES: usize = 128 << 10;
/// How many bytes may be summed up to find the next frame behind a damaged one, and how many more for each byte of the
/// log. What looks like a frame and is none costs no more than that.
const SUMMED_BYTES: u64 = 32 << 20;
const SUMMED_FOR_EACH: u64 = 4;

/// What a log has beside whole frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flaws {
    /// How many stretches hold no frame although bytes follow them.
    pub damaged: u64,
    /// Their length.
    pub damaged_bytes: u64,
    /// Where the first of them begins.
    pub damaged_at: u64,
    /// What there is of a frame that the end of the log cuts off.
    pub cut_bytes: u64,
}

/// Reads frames.
pub(super) struct LogReader<R> {
    input: R,
    path: String,
    version: u16,
    chunk: Box<[u8]>,
    buffer: Vec<u8>,
    /// Where the buffer begins in the log.
    from: u64,
    /// Where in the buffer the next frame begins.
    at: usize,
    /// Nothing more comes.
    input_ended: bool,
    over: bool,
    summed: u64,
    flaws: Flaws,
    /// Whether only iterations are wanted, without their requests.
    heads_only: bool,
    scratch: Scratch,
    /// For the next block, so that not each one takes new memory.
    spare: Rows,
}

/// What is at a place of the log.
enum FrameScan {
    /// A frame whose checksum holds.
    Sound { kind: u8, end: usize },
    /// No frame.
    Wrong,
    /// The beginning of a frame that the log's end cuts off.
    Cut,
    /// The end of the log.
    End,
}

impl<R: Read> LogReader<R> {
    /// Reads the log's beginning.
    pub(super) fn new(mut input: R, name: &str) -> Result<Self, LogError> {
        let mut start = [0; 10];
        let path = name.to_owned();
        if let Err(source) = input.read_exact(&mut start) {
            return Err(match source.kind() {
                io::ErrorKind::UnexpectedEof => LogError::Foreign { path },
                _ => LogError::Unreadable { path, at: 0, source },
            });
        }
        if &start[..8] != MAGIC {
            return Err(LogError::Foreign { path });
        }
        let found = u16::from_le_bytes([start[8], start[9]]);
        if !(VERSION_OLDEST..=VERSION).contains(&found) {
            return Err(LogError::Version { path, found });
        }
        Ok(Self {
            input,
            path,
            version: found,
            chunk: vec![0; READ_BYTES].into_boxed_slice(),
            buffer: Vec::new(),
            from: start.len() as u64,
            at: 0,
            input_ended: false,
            over: false,
            summed: 0,
            flaws: Flaws::default(),
            heads_only: false,
            scratch: Scratch::default(),
            spare: Rows::default(),
        })
    }

    /// Gives iterations without their requests from here on, which takes half the time.
    pub(super) fn heads_only(&mut self) {
        self.heads_only = true;
    }

    /// Takes back the memory of a block.
    pub(super) fn reuse(&mut self, rows: Rows) {
        self.spare = rows;
    }

    /// What was met so far beside whole frames.
    pub(super) fn flaws(&self) -> Flaws {
        self.flaws
    }

    /// Where the next frame begins, in bytes from the log's beginning.
    pub(super) fn next_at(&self) -> u64 {
        self.from + self.at as u64
    }

    /// How far it has read, in bytes from the log's beginning.
    fn place(&self) -> u64 {
        self.from + self.buffer.len() as u64
    }

    fn frame(&mut self) -> io::Result<Option<Frame>> {
        loop {
            self.forget();
            match self.look(self.at)? {
                FrameScan::End => return Ok(None),
                FrameScan::Sound { kind, end } => {
                    let (from, payload) = (self.at, &self.buffer[self.at + FRAME_HEAD_BYTES..end]);
                    let rows = (self.heads_only, &mut self.spare);
                    let frame = interpret(self.version, kind, payload, rows, &mut self.scratch);
                    self.at = end;
                    match frame {
                        Some(frame) => return Ok(Some(frame)),
                        // Its checksum holds, so it ends where it says.
                        None => self.damage(self.from + from as u64, (end - from) as u64),
                    }
                }
                found @ (FrameScan::Wrong | FrameScan::Cut) => {
                    if !self.find_next(&found)? {
                        return Ok(None);
                    }
                }
            }
        }
    }

    fn look(&mut self, at: usize) -> io::Result<FrameScan> {
        if !self.fill(at + FRAME_HEAD_BYTES)? {
            return Ok(if at >= self.buffer.len() { FrameScan::End } else { FrameScan::Cut });
        }
        let head = &self.buffer[at..at + FRAME_HEAD_BYTES];
        let length = u32::from_le_bytes([head[0], head[1], head[2], head[3]]) as usize;
        let (kind, crc) = (head[4], u32::from_le_bytes([head[5], head[6], head[7], head[8]]));
        if !(KIND_HEADER..=KIND_LAST).contains(&kind) || length > PAYLOAD_BYTES_MAX {
            return Ok(FrameScan::Wrong);
        }
        let end = at + FRAME_HEAD_BYTES + length;
        if !self.fill(end)? {
            return Ok(FrameScan::Cut);
        }
        if checksum(kind, &self.buffer[at + FRAME_HEAD_BYTES..end]) == crc {
            Ok(FrameScan::Sound { kind, end })
        } else {
            Ok(FrameScan::Wrong)
        }
    }

    /// Goes on at the next frame behind one that is none; false when there is none up to the log's end. Its length is
    /// not believed: it may be what is wrong.
    fn find_next(&mut self, found: &FrameScan) -> io::Result<bool> {
        let begins = self.from + self.at as u64;
        self.at += 1;
        while self.fill(self.at + FRAME_HEAD_BYTES)? {
            if self.is_frame(self.at)? {
                self.damage(begins, self.from + self.at as u64 - begins);
                return Ok(true);
            }
            self.at += 1;
            self.forget();
        }
        let left = self.place() - begins;
        if matches!(found, FrameScan::Cut) {
            self.flaws.cut_bytes = left;
        } else {
            self.damage(begins, left);
        }
        Ok(false)
    }

    /// True for a whole frame with content, if it may still be looked for.
    fn is_frame(&mut self, at: usize) -> io::Result<bool> {
        if !self.fill(at + FRAME_HEAD_BYTES)? {
            return Ok(false);
        }
        let head = &self.buffer[at..at + FRAME_HEAD_BYTES];
        let length = u64::from(u32::from_le_bytes([head[0], head[1], head[2], head[3]]));
        let wrong = !(KIND_HEADER..=KIND_LAST).contains(&head[4]) || length > PAYLOAD_BYTES_MAX as u64;
        if wrong || self.summed + length > SUMMED_BYTES + SUMMED_FOR_EACH * self.place() {
            return Ok(false);
        }
        self.summed += length;
        let FrameScan::Sound { kind, end } = self.look(at)? else { return Ok(false) };
        let rows = (false, &mut self.spare);
        Ok(interpret(self.version, kind, &self.buffer[at + FRAME_HEAD_BYTES..end], rows, &mut self.scratch)
            .is_some())
    }

    fn damage(&mut self, begins: u64, length: u64) {
        if self.flaws.damaged == 0 {
            self.flaws.damaged_at = begins;
        }
        self.flaws.damaged += 1;
        self.flaws.damaged_bytes += length;
    }

    /// Reads on until the buffer holds this number of bytes; false when the log ends before.
    fn fill(&mut self, length: usize) -> io::Result<bool> {
        while self.buffer.len() < length && !self.input_ended {
            match self.input.read(&mut self.chunk) {
                Ok(0) => self.input_ended = true,
                Ok(read) => self.buffer.extend_from_slice(&self.chunk[..read]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(self.buffer.len() >= length)
    }

    /// Forgets what was read, once that is the larger part.
    fn forget(&mut self) {
        if self.at >= READ_BYTES && self.at >= self.buffer.len() / 2 {
            self.buffer.drain(..self.at);
            self.from += self.at as u64;
            self.at = 0;
        }
    }
}

fn interpret(
    version: u16,
    kind: u8,
    payload: &[u8],
    (heads_only, spare): (bool, &mut Rows),
    scratch: &mut Scratch,
) -> Option<Frame> {
    match kind {
        KIND_HEADER => Some(Frame::Header(payload.to_vec())),
        KIND_SAMPLES => {
            let mut rows = std::mem::take(spare);
            if heads_only {
                codec::decode_without_requests(payload, scratch, &mut rows)?;
            } else {
                codec::decode(payload, version, scratch, &mut rows)?;
            }
            Some(Frame::Samples(rows))
        }
        KIND_USERS => {
            let mut rows = Rows::default();
            codec::decode(payload, version, scratch, &mut rows)?;
            Some(Frame::Users(rows))
        }
        KIND_FAILURES => serde_json::from_slice(payload).ok().map(Frame::Failures),
        KIND_END => Some(Frame::End(payload.to_vec())),
        KIND_ADDRESSES => serde_json::from_slice(payload).ok().map(Frame::Addresses),
        KIND_BEGAN => serde_json::from_slice(payload).ok().map(Frame::Began),
        _ => None,
    }
}

impl<R: Read> Iterator for LogReader<R> {
    type Item = Result<Frame, LogError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.over {
            return None;
        }
        let frame = self.frame();
        self.over = !matches!(frame, Ok(Some(_)));
        match frame {
            Ok(frame) => frame.map(Ok),
            Err(source) => {
                let (path, at) = (self.path.clone(), self.place());
                Some(Err(LogError::Unreadable { path, at, source }))
            }
        }
    }
}
