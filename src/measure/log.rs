//! The run log: append-only, versioned, checksummed.
//!
//! ```text
//! "BENCHLOG" version:u16        then frames:
//! length:u32 kind:u8 crc32(kind, payload):u32 payload          (little-endian)
//! ```
//! A frame that is cut short or damaged ends the log: everything before it counts. Every result can
//! be made from this file alone. Only this file knows the format, both ways.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::Path;

use super::codec::{Previous, decode};
use super::errors::NumberedFailure;
use super::sample::IterationSample;

const MAGIC: &[u8; 8] = b"BENCHLOG";
/// The version that this build writes and reads.
pub const VERSION: u16 = 2;
/// The largest payload that is read or written, in bytes.
pub const PAYLOAD_BYTES_MAX: usize = 16 << 20;
/// The log's name in a run directory.
pub const FILE_NAME: &str = "run.log";

const KIND_HEADER: u8 = 1;
const KIND_SAMPLES: u8 = 2;
const KIND_FAILURES: u8 = 3;
const KIND_END: u8 = 4;

/// One frame of the log.
#[derive(Debug, PartialEq)]
pub enum Frame {
    /// What ran: JSON, the first frame.
    Header(Vec<u8>),
    /// Samples of one worker.
    Samples(Vec<IterationSample>),
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

/// Appends frames.
pub struct LogWriter {
    file: BufWriter<File>,
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
        let mut file = BufWriter::new(options.open(path)?);
        file.write_all(MAGIC)?;
        file.write_all(&VERSION.to_le_bytes())?;
        Ok(Self { file })
    }

    /// Writes what ran, as JSON.
    ///
    /// # Errors
    /// What the system says.
    pub fn header(&mut self, json: &[u8]) -> io::Result<()> {
        self.frame(KIND_HEADER, json)?;
        self.sync()
    }

    /// Writes encoded samples of one worker (see [`super::codec`], starting from a fresh `Previous`).
    ///
    /// # Errors
    /// What the system says.
    pub fn samples(&mut self, encoded: &[u8]) -> io::Result<()> {
        self.frame(KIND_SAMPLES, encoded)
    }

    /// Writes texts that the following samples refer to.
    ///
    /// # Errors
    /// What the system says.
    pub fn failures(&mut self, failures: &[NumberedFailure]) -> io::Result<()> {
        self.frame(KIND_FAILURES, &serde_json::to_vec(failures)?)
    }

    /// Writes how it ended, as JSON, and brings all to the disk.
    ///
    /// # Errors
    /// What the system says.
    pub fn end(&mut self, json: &[u8]) -> io::Result<()> {
        self.frame(KIND_END, json)?;
        self.sync()
    }

    /// Hands all to the operating system: what is flushed survives the end of this process.
    ///
    /// # Errors
    /// What the system says.
    pub fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }

    fn sync(&mut self) -> io::Result<()> {
        self.file.flush()?;
        self.file.get_ref().sync_data()
    }

    fn frame(&mut self, kind: u8, payload: &[u8]) -> io::Result<()> {
        let length = u32::try_from(payload.len()).map_err(|_| io::Error::other("a frame over 4 GiB"))?;
        self.file.write_all(&length.to_le_bytes())?;
        self.file.write_all(&[kind])?;
        self.file.write_all(&checksum(kind, payload).to_le_bytes())?;
        self.file.write_all(payload)
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
        Ok(Self { input, damaged: false })
    }

    /// True once a damaged or cut frame was met: the log ends there.
    #[must_use]
    pub fn is_damaged(&self) -> bool {
        self.damaged
    }

    fn read_frame(&mut self) -> Option<Frame> {
        let mut head = [0; 9];
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
        let frame = interpret(kind, payload)?;
        self.damaged = false;
        Some(frame)
    }
}

fn interpret(kind: u8, payload: Vec<u8>) -> Option<Frame> {
    match kind {
        KIND_HEADER => Some(Frame::Header(payload)),
        KIND_SAMPLES => {
            let (mut input, mut previous, mut samples) =
                (payload.as_slice(), Previous::default(), Vec::new());
            while !input.is_empty() {
                samples.push(decode(&mut input, &mut previous)?);
            }
            Some(Frame::Samples(samples))
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
    use crate::measure::codec::encode;
    use crate::measure::errors::Failure;
    use proptest::prelude::*;

    fn sample(number: u64) -> IterationSample {
        IterationSample {
            number,
            start_ns: number * 1000,
            due_ns: number * 1000,
            duration_ns: 500,
            ..Default::default()
        }
    }

    /// A log of three frames of samples, with the length at which each frame ends.
    fn written() -> (Vec<u8>, Vec<usize>) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(FILE_NAME);
        let mut writer = LogWriter::create(&path).unwrap();
        writer.header(b"{}").unwrap();
        let mut ends = Vec::new();
        for frame in 0..3 {
            let (mut encoded, mut previous) = (Vec::new(), Previous::default());
            for number in 0..10 {
                encode(&sample(frame * 10 + number), &mut previous, &mut encoded);
            }
            writer.samples(&encoded).unwrap();
            writer.flush().unwrap();
            ends.push(usize::try_from(std::fs::metadata(&path).unwrap().len()).unwrap());
        }
        let failure = Failure { class: "status".into(), action: Some("a".into()), message: "500".into() };
        writer.failures(&[NumberedFailure { number: 1, failure }]).unwrap();
        writer.end(b"{\"done\":true}").unwrap();
        assert!(LogWriter::create(&path).is_err(), "a log is never written over");
        (std::fs::read(&path).unwrap(), ends)
    }

    fn numbers(bytes: &[u8]) -> (Vec<u64>, bool) {
        let Ok(mut reader) = LogReader::new(bytes, "t") else { return (Vec::new(), true) };
        let mut numbers = Vec::new();
        for frame in reader.by_ref() {
            if let Frame::Samples(samples) = frame {
                numbers.extend(samples.iter().map(|sample| sample.number));
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
