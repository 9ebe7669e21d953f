//! The run log: append-only, versioned, checksummed.
//!
//! ```text
//! "BENCHLOG" version:u16        then frames:
//! length:u32 kind:u8 crc32(kind, payload):u32 payload          (little-endian)
//! ```
//! Samples are blocks of columns ([`super::codec`]). A frame that is cut short or damaged ends the
//! log: everything before it counts. Every result can be made from this file alone. Only this file
//! knows the format, both ways.
//!
//! Version 3: samples in columns. The versions before had rows.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use super::codec::{self, BLOCK_REQUESTS, BLOCK_ROWS_MAX, Scratch};
use super::errors::NumberedFailure;
use super::rows::Rows;

const MAGIC: &[u8; 8] = b"BENCHLOG";
/// The version that this build writes and reads.
pub const VERSION: u16 = 3;
/// The largest payload that is read or written, in bytes.
pub const PAYLOAD_BYTES_MAX: usize = 16 << 20;
/// The log's name in a run directory.
pub const FILE_NAME: &str = "run.log";
/// Samples wait so long for others to share a block with. With what they waited in their worker, the
/// log is at most a second behind.
pub const BLOCK_EVERY: Duration = Duration::from_millis(400);

const KIND_HEADER: u8 = 1;
const KIND_SAMPLES: u8 = 2;
const KIND_FAILURES: u8 = 3;
const KIND_END: u8 = 4;
/// Length, kind and checksum.
const FRAME_HEAD_BYTES: usize = 9;

/// One frame of the log.
#[derive(Debug, PartialEq)]
pub enum Frame {
    /// What ran: JSON, the first frame.
    Header(Vec<u8>),
    /// Samples, in order of their numbers within the frame.
    Samples(Rows),
    /// Texts that samples refer to; always before the samples.
    Failures(Vec<NumberedFailure>),
    /// How it ended: JSON, the last frame.
    End(Vec<u8>),
}

/// Why a log cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// It cannot be read or written.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: String,
        /// The system's words.
        source: io::Error,
    },
    /// It is something else.
    #[error("{path} is not a run log of bench")]
    Foreign {
        /// The file.
        path: String,
    },
    /// It is of another version.
    #[error(
        "{path} has version {found} of the run log; this bench reads version {VERSION}: use the bench that wrote it"
    )]
    Version {
        /// The file.
        path: String,
        /// Its version.
        found: u16,
    },
}

/// Where a log is written to.
pub trait Sink: Write + Send {
    /// Brings all that was written to the disk.
    ///
    /// # Errors
    /// What the system says.
    fn sync(&mut self) -> io::Result<()>;

    /// Takes everything behind `length` bytes away again.
    ///
    /// # Errors
    /// What the system says.
    fn cut(&mut self, length: u64) -> io::Result<()>;
}

impl Sink for File {
    fn sync(&mut self) -> io::Result<()> {
        self.sync_data()
    }

    fn cut(&mut self, length: u64) -> io::Result<()> {
        self.set_len(length)?;
        self.seek(SeekFrom::Start(length)).map(drop)
    }
}

/// Appends frames.
pub struct LogWriter {
    sink: Box<dyn Sink>,
    /// All that was written whole.
    length: u64,
    /// Samples that wait to become a block.
    pending: Rows,
    oldest: Instant,
    scratch: Scratch,
    frame: Vec<u8>,
    /// Iterations whose block could not be written.
    lost: u64,
}

impl LogWriter {
    /// Creates the log; it must not be there yet.
    ///
    /// # Errors
    /// What the system says.
    pub fn create(path: &Path) -> io::Result<Self> {
        let mut options = File::options();
        options.write(true).create_new(true);
        private(&mut options);
        Self::to_sink(Box::new(options.open(path)?))
    }

    /// Begins a log in something else than a file.
    ///
    /// # Errors
    /// What the sink says.
    pub fn to_sink(mut sink: Box<dyn Sink>) -> io::Result<Self> {
        let mut start = MAGIC.to_vec();
        start.extend_from_slice(&VERSION.to_le_bytes());
        sink.write_all(&start)?;
        Ok(Self {
            sink,
            length: start.len() as u64,
            pending: Rows::default(),
            oldest: Instant::now(),
            scratch: Scratch::default(),
            frame: Vec::new(),
            lost: 0,
        })
    }

    /// Writes what ran, as JSON.
    ///
    /// # Errors
    /// What the system says.
    pub fn header(&mut self, json: &[u8]) -> io::Result<()> {
        self.json(KIND_HEADER, json)?;
        self.sink.sync()
    }

    /// Takes samples, and writes them once they fill a block; [`LogWriter::flush`] writes the rest.
    ///
    /// # Errors
    /// What the system says.
    pub fn samples(&mut self, rows: &Rows) -> io::Result<()> {
        let full = |pending: usize, more: usize, max: usize| pending > 0 && pending + more > max;
        if full(self.pending.len(), rows.len(), BLOCK_ROWS_MAX)
            || full(self.pending.requests(), rows.requests(), BLOCK_REQUESTS)
        {
            self.write_pending()?;
        }
        if self.pending.is_empty() {
            self.oldest = Instant::now();
        }
        if rows.len() <= BLOCK_ROWS_MAX && rows.requests() <= BLOCK_REQUESTS {
            self.pending.extend(rows);
            return Ok(());
        }
        for row in rows.iter() {
            self.pending.push_row(row);
            if self.pending.len() >= BLOCK_ROWS_MAX || self.pending.requests() >= BLOCK_REQUESTS {
                self.write_pending()?;
            }
        }
        Ok(())
    }

    /// Writes texts that the following samples refer to.
    ///
    /// # Errors
    /// What the system says.
    pub fn failures(&mut self, failures: &[NumberedFailure]) -> io::Result<()> {
        self.json(KIND_FAILURES, &serde_json::to_vec(failures)?)
    }

    /// Writes how it ended, as JSON, and brings all to the disk.
    ///
    /// # Errors
    /// What the system says. Samples that cannot be written do not keep the end from being tried.
    pub fn end(&mut self, json: &[u8]) -> io::Result<()> {
        let samples = self.write_pending();
        self.json(KIND_END, json)?;
        self.sink.sync()?;
        samples
    }

    /// Hands samples that have waited for [`BLOCK_EVERY`] to the operating system: what is written
    /// survives the end of this process. To be called ten times a second, samples or not.
    ///
    /// # Errors
    /// What the system says.
    pub fn flush(&mut self) -> io::Result<()> {
        if self.pending.is_empty() || self.oldest.elapsed() < BLOCK_EVERY {
            return Ok(());
        }
        self.write_pending()
    }

    /// Iterations that were given to this log and could not be written.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Counts samples that nobody tries to write any more.
    pub fn lose(&mut self, rows: &Rows) {
        self.lost += rows.len() as u64;
    }

    /// Bytes written so far.
    #[must_use]
    pub fn length_bytes(&self) -> u64 {
        self.length
    }

    fn write_pending(&mut self) -> io::Result<()> {
        if self.pending.is_empty() {
            return Ok(());
        }
        self.begin_frame();
        codec::encode(&self.pending, &mut self.scratch, &mut self.frame);
        let written = self.write_frame(KIND_SAMPLES);
        if written.is_err() {
            self.lost += self.pending.len() as u64;
        }
        self.pending.clear();
        written
    }

    fn json(&mut self, kind: u8, json: &[u8]) -> io::Result<()> {
        self.begin_frame();
        self.frame.extend_from_slice(json);
        self.write_frame(kind)
    }

    fn begin_frame(&mut self) {
        self.frame.clear();
        self.frame.resize(FRAME_HEAD_BYTES, 0);
    }

    /// Writes the frame at once, whole or not at all: half a frame would hide all that follows it.
    fn write_frame(&mut self, kind: u8) -> io::Result<()> {
        let (head, payload) = self.frame.split_at_mut(FRAME_HEAD_BYTES);
        if payload.len() > PAYLOAD_BYTES_MAX {
            return Err(io::Error::other("a frame of the run log over 16 MiB"));
        }
        head[..4].copy_from_slice(&(payload.len() as u32).to_le_bytes());
        head[4] = kind;
        head[5..].copy_from_slice(&checksum(kind, payload).to_le_bytes());
        if let Err(error) = self.sink.write_all(&self.frame) {
            // Best effort: the reader ends at half a frame, too.
            let _ = self.sink.cut(self.length);
            return Err(error);
        }
        self.length += self.frame.len() as u64;
        Ok(())
    }
}

#[cfg(unix)]
fn private(options: &mut std::fs::OpenOptions) {
    std::os::unix::fs::OpenOptionsExt::mode(options, 0o600);
}

#[cfg(not(unix))]
fn private(_: &mut std::fs::OpenOptions) {}

fn checksum(kind: u8, payload: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&[kind]);
    hasher.update(payload);
    hasher.finalize()
}

/// Reads frames in bounded memory.
pub struct LogReader<R> {
    input: R,
    /// True once a damaged or cut frame was met.
    damaged: bool,
    scratch: Scratch,
}

impl LogReader<BufReader<File>> {
    /// Opens the log of a run.
    ///
    /// # Errors
    /// No log, another version, another file.
    pub fn open(path: &Path) -> Result<Self, LogError> {
        let name = path.display().to_string();
        let file = File::open(path).map_err(|source| LogError::Io { path: name.clone(), source })?;
        Self::new(BufReader::new(file), &name)
    }
}

impl<R: Read> LogReader<R> {
    /// Reads the log's beginning.
    ///
    /// # Errors
    /// Another version, another file.
    pub fn new(mut input: R, name: &str) -> Result<Self, LogError> {
        let mut start = [0; 10];
        let path = name.to_owned();
        if input.read_exact(&mut start).is_err() || &start[..8] != MAGIC {
            return Err(LogError::Foreign { path });
        }
        let found = u16::from_le_bytes([start[8], start[9]]);
        if found != VERSION {
            return Err(LogError::Version { path, found });
        }
        Ok(Self { input, damaged: false, scratch: Scratch::default() })
    }

    /// True once a damaged or cut frame was met: the log ends there.
    #[must_use]
    pub fn is_damaged(&self) -> bool {
        self.damaged
    }

    fn read_frame(&mut self) -> Option<Frame> {
        let mut head = [0; FRAME_HEAD_BYTES];
        let mut filled = 0;
        while filled < head.len() {
            match self.input.read(&mut head[filled..]) {
                Ok(0) => {
                    self.damaged |= filled > 0;
                    return None;
                }
                Ok(read) => filled += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => {
                    self.damaged = true;
                    return None;
                }
            }
        }
        self.damaged = true;
        let length = u32::from_le_bytes([head[0], head[1], head[2], head[3]]) as usize;
        let (kind, crc) = (head[4], u32::from_le_bytes([head[5], head[6], head[7], head[8]]));
        if length > PAYLOAD_BYTES_MAX {
            return None;
        }
        let mut payload = Vec::new();
        let read = (&mut self.input).take(length as u64).read_to_end(&mut payload).ok()?;
        if read < length || checksum(kind, &payload) != crc {
            return None;
        }
        let frame = interpret(kind, payload, &mut self.scratch)?;
        self.damaged = false;
        Some(frame)
    }
}

fn interpret(kind: u8, payload: Vec<u8>, scratch: &mut Scratch) -> Option<Frame> {
    match kind {
        KIND_HEADER => Some(Frame::Header(payload)),
        KIND_SAMPLES => {
            let mut rows = Rows::default();
            codec::decode(&payload, scratch, &mut rows)?;
            Some(Frame::Samples(rows))
        }
        KIND_FAILURES => serde_json::from_slice(&payload).ok().map(Frame::Failures),
        KIND_END => Some(Frame::End(payload)),
        _ => None,
    }
}

impl<R: Read> Iterator for LogReader<R> {
    type Item = Frame;

    fn next(&mut self) -> Option<Frame> {
        if self.damaged { None } else { self.read_frame() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::errors::Failure;
    use crate::measure::sample::IterationSample;
    use proptest::prelude::*;
    use std::sync::{Arc, Mutex};

    fn samples(numbers: std::ops::Range<u64>) -> Rows {
        let mut rows = Rows::default();
        for number in numbers {
            rows.push(&IterationSample {
                number,
                start_ns: number * 1000,
                due_ns: number * 1000,
                duration_ns: 500,
                ..Default::default()
            });
        }
        rows
    }

    fn failure() -> [NumberedFailure; 1] {
        let failure = Failure { class: "status".into(), action: Some("a".into()), message: "500".into() };
        [NumberedFailure { number: 1, failure }]
    }

    /// A log of three frames of samples, with the length at which each frame ends.
    fn written() -> (Vec<u8>, Vec<usize>) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(FILE_NAME);
        let mut writer = LogWriter::create(&path).unwrap();
        writer.header(b"{}").unwrap();
        let mut ends = Vec::new();
        for frame in 0..3 {
            writer.samples(&samples(frame * 10..frame * 10 + 10)).unwrap();
            writer.flush().unwrap();
            writer.write_pending().unwrap();
            ends.push(usize::try_from(std::fs::metadata(&path).unwrap().len()).unwrap());
        }
        writer.failures(&failure()).unwrap();
        writer.end(b"{\"done\":true}").unwrap();
        assert!(LogWriter::create(&path).is_err(), "a log is never written over");
        (std::fs::read(&path).unwrap(), ends)
    }

    /// A disk with so much room; `grows` gives it more once it was full.
    struct SmallDisk {
        written: Arc<Mutex<Vec<u8>>>,
        room: usize,
        grows: bool,
        cuts: bool,
    }

    impl Write for SmallDisk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let mut written = self.written.lock().unwrap();
            let fits = bytes.len().min(self.room.saturating_sub(written.len()));
            if fits == 0 && !bytes.is_empty() {
                self.room += if self.grows { 1 << 20 } else { 0 };
                return Err(io::ErrorKind::StorageFull.into());
            }
            written.extend_from_slice(&bytes[..fits]);
            Ok(fits)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Sink for SmallDisk {
        fn sync(&mut self) -> io::Result<()> {
            Ok(())
        }

        fn cut(&mut self, length: u64) -> io::Result<()> {
            if !self.cuts {
                return Err(io::Error::other("not here"));
            }
            self.written.lock().unwrap().truncate(usize::try_from(length).unwrap());
            Ok(())
        }
    }

    /// Writes what `written` writes to a disk with so much room: what is on it, which blocks of ten were
    /// taken, whether the end was, and how many iterations were lost.
    fn write_to(room: usize, grows: bool, cuts: bool) -> (Vec<u8>, Vec<u64>, bool, u64) {
        let written = Arc::new(Mutex::new(Vec::new()));
        let disk = SmallDisk { written: Arc::clone(&written), room, grows, cuts };
        let (mut taken, mut ended, mut lost) = (Vec::new(), false, 0);
        if let Ok(mut writer) = LogWriter::to_sink(Box::new(disk))
            && writer.header(b"{}").is_ok()
        {
            for frame in 0..3 {
                writer.samples(&samples(frame * 10..frame * 10 + 10)).unwrap();
                if writer.write_pending().is_ok() {
                    taken.extend(frame * 10..frame * 10 + 10);
                }
            }
            let _ = writer.failures(&failure());
            ended = writer.end(b"{\"done\":true}").is_ok();
            lost = writer.lost();
        }
        let bytes = written.lock().unwrap().clone();
        (bytes, taken, ended, lost)
    }

    #[test]
    fn a_disk_that_is_full_at_any_byte_keeps_all_that_was_written_before() {
        let (whole, _) = written();
        for room in 0..=whole.len() {
            for (grows, cuts) in [(false, false), (false, true), (true, true)] {
                let (bytes, taken, ended, lost) = write_to(room, grows, cuts);
                let (read, damaged) = numbers(&bytes);
                assert_eq!(read, taken, "room {room}, grows {grows}, cuts {cuts}");
                assert!(
                    !damaged || !cuts || bytes.len() < 10,
                    "half a frame is taken away again: room {room}"
                );
                if ended {
                    assert_eq!(taken.len() as u64 + lost, 30, "room {room}");
                    assert!(bytes.ends_with(b"{\"done\":true}"));
                }
                assert!(ended || room < whole.len(), "with enough room all is written");
            }
        }
    }

    #[test]
    fn samples_wait_for_others_to_share_a_block_with_but_not_for_long() {
        let sink = Arc::new(Mutex::new(Vec::new()));
        let disk = SmallDisk { written: Arc::clone(&sink), room: usize::MAX, grows: false, cuts: true };
        let mut writer = LogWriter::to_sink(Box::new(disk)).unwrap();
        writer.samples(&samples(0..10)).unwrap();
        writer.flush().unwrap();
        assert_eq!(writer.length_bytes(), 10, "a block of ten would be small");
        writer.samples(&samples(10..20_000)).unwrap();
        writer.oldest = Instant::now().checked_sub(BLOCK_EVERY).unwrap();
        writer.flush().unwrap();
        let bytes = sink.lock().unwrap().clone();
        assert_eq!(numbers(&bytes), ((0..20_000).collect(), false));
    }

    fn numbers(bytes: &[u8]) -> (Vec<u64>, bool) {
        let Ok(mut reader) = LogReader::new(bytes, "t") else { return (Vec::new(), true) };
        let mut numbers = Vec::new();
        for frame in reader.by_ref() {
            if let Frame::Samples(samples) = frame {
                numbers.extend(samples.iter().map(|row| row.head.number));
            }
        }
        (numbers, reader.is_damaged())
    }

    #[test]
    fn a_log_cut_at_any_byte_gives_all_before_its_last_frame() {
        let (bytes, ends) = written();
        assert_eq!(numbers(&bytes), ((0..30).collect(), false));
        for cut in 0..bytes.len() {
            let whole = ends.iter().filter(|end| **end <= cut).count() as u64;
            assert_eq!(numbers(&bytes[..cut]).0, (0..whole * 10).collect::<Vec<_>>(), "cut at {cut}");
        }
    }

    #[test]
    fn foreign_files_and_other_versions_say_so() {
        let (mut bytes, _) = written();
        assert!(matches!(LogReader::new(&b"hello world, hello"[..], "t"), Err(LogError::Foreign { .. })));
        bytes[8] = 9;
        assert!(matches!(LogReader::new(bytes.as_slice(), "t"), Err(LogError::Version { found: 9, .. })));
    }

    proptest! {
        #[test]
        fn no_damage_makes_it_panic(at in 10..400_usize, byte: u8, cut in 0..600_usize) {
            let (mut bytes, _) = written();
            let at = at.min(bytes.len() - 1);
            bytes[at] = byte;
            bytes.truncate(cut.max(10));
            let _ = numbers(&bytes);
        }
    }
}
