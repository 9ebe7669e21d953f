//! Writes the run log: every frame whole or not at all, and at the end how many iterations there are.

use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use super::{
    BLOCK_EVERY, End, FRAME_HEAD_BYTES, Header, KIND_ADDRESSES, KIND_BEGAN, KIND_END, KIND_FAILURES,
    KIND_HEADER, KIND_SAMPLES, KIND_USERS, LogFile, MAGIC, PAYLOAD_BYTES_MAX, ShardStart, VERSION, checksum,
};
use crate::codec::{self, Scratch};
use crate::errors::NumberedFailure;
use crate::rows::Rows;
use crate::sample::CompletionStatus;
use base::clock::now;

/// Where a log is written to.
pub trait Sink: Write + Send {
    /// Brings all that was written to the disk.
    ///
    /// # Errors
    /// An I/O error.
    fn sync(&mut self) -> io::Result<()>;

    /// Takes everything behind `length` bytes away again.
    ///
    /// # Errors
    /// An I/O error.
    fn cut(&mut self, length: u64) -> io::Result<()>;
}

impl Sink for Arc<File> {
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
    /// The file behind the sink, if it is one.
    file: Option<LogFile>,
    /// All that was written whole.
    length: u64,
    /// Samples that wait to become a block.
    pending: Rows,
    oldest: Instant,
    scratch: Scratch,
    frame: Vec<u8>,
    /// Iterations whose block was written.
    rows: u64,
    /// Iterations that were started and whose block could not be written, by workload.
    lost: Vec<u64>,
}

impl LogWriter {
    /// Creates the log; it must not be there yet.
    ///
    /// # Errors
    /// An I/O error of the file system.
    pub fn create(path: &Path) -> io::Result<Self> {
        let mut options = File::options();
        options.read(true).write(true).create_new(true);
        private(&mut options);
        let file = Arc::new(options.open(path)?);
        let written = LogFile::written(path, Arc::clone(&file));
        Ok(Self { file: Some(written), ..Self::to_sink(Box::new(file))? })
    }

    /// Begins a log in something else than a file.
    ///
    /// # Errors
    /// An I/O error of the sink.
    pub fn to_sink(sink: Box<dyn Sink>) -> io::Result<Self> {
        #[cfg(feature = "simulation")]
        let sink = super::simulated::disk(sink);
        let mut sink = sink;
        let mut start = MAGIC.to_vec();
        start.extend_from_slice(&VERSION.to_le_bytes());
        sink.write_all(&start)?;
        Ok(Self {
            sink,
            file: None,
            length: start.len() as u64,
            pending: Rows::default(),
            oldest: now(),
            scratch: Scratch::default(),
            frame: Vec::new(),
            rows: 0,
            lost: Vec::new(),
        })
    }

    /// The file that is written, to be read; absent when it is none.
    #[must_use]
    pub fn file(&self) -> Option<LogFile> {
        self.file.clone()
    }

    /// Writes what ran.
    ///
    /// # Errors
    /// An I/O error of the sink, or a frame over 16 MiB.
    pub fn header(&mut self, header: &Header) -> io::Result<()> {
        self.header_with(&serde_json::to_vec(header)?)
    }

    /// The same as JSON.
    pub(super) fn header_with(&mut self, json: &[u8]) -> io::Result<()> {
        self.json(KIND_HEADER, json)?;
        self.sink.sync()
    }

    /// Takes samples, and writes them once they fill a block; [`LogWriter::flush`] writes the rest.
    ///
    /// # Errors
    /// An I/O error of the sink.
    pub fn samples(&mut self, rows: &Rows) -> io::Result<()> {
        let mut written = Ok(());
        if !self.pending.is_empty() && !self.pending.share_a_block(rows) {
            written = self.seal();
        }
        if self.pending.is_empty() {
            self.oldest = now();
        }
        if self.pending.share_a_block(rows) {
            self.pending.extend(rows);
            return written;
        }
        // Every row is either written or counted as lost, also behind a block that could not be written.
        for row in rows.iter() {
            self.pending.push_row(row);
            if self.pending.fill_a_block() {
                written = written.and(self.seal());
            }
        }
        written
    }

    /// Writes what virtual users did around their iterations.
    ///
    /// # Errors
    /// An I/O error of the sink, or a frame over 16 MiB.
    pub fn users(&mut self, rows: &Rows) -> io::Result<()> {
        if rows.is_empty() {
            return Ok(());
        }
        self.begin_frame();
        codec::encode(rows, &mut self.scratch, &mut self.frame);
        self.write_frame(KIND_USERS)
    }

    /// Writes texts that the following samples refer to.
    ///
    /// # Errors
    /// An I/O error of the sink, or a frame over 16 MiB.
    pub fn failures(&mut self, failures: &[NumberedFailure]) -> io::Result<()> {
        self.json(KIND_FAILURES, &serde_json::to_vec(failures)?)
    }

    /// Writes addresses that the following samples refer to by these numbers.
    ///
    /// # Errors
    /// An I/O error of the sink, or a frame over 16 MiB.
    pub fn addresses(&mut self, addresses: &[(u16, IpAddr)]) -> io::Result<()> {
        self.json(KIND_ADDRESSES, &serde_json::to_vec(addresses)?)
    }

    /// Writes when a shard's load begins; its samples come after it.
    ///
    /// # Errors
    /// An I/O error of the sink, or a frame over 16 MiB.
    pub fn began(&mut self, began: &ShardStart) -> io::Result<()> {
        self.json(KIND_BEGAN, &serde_json::to_vec(began)?)
    }

    /// Writes the samples that still wait. From here on it is known how many are in the log, and how many are not.
    ///
    /// # Errors
    /// An I/O error of the sink; the samples are lost then.
    pub fn seal(&mut self) -> io::Result<()> {
        if self.pending.is_empty() {
            return Ok(());
        }
        self.begin_frame();
        codec::encode(&self.pending, &mut self.scratch, &mut self.frame);
        let written = self.write_frame(KIND_SAMPLES);
        let pending = std::mem::take(&mut self.pending);
        match &written {
            Ok(()) => self.rows += pending.len() as u64,
            Err(_) => self.lose(&pending),
        }
        self.pending = pending;
        self.pending.clear();
        written
    }

    /// Writes how it ended, with the number of iterations in the log, and brings all to the disk.
    ///
    /// # Errors
    /// An I/O error of the sink; the log has no end then. Samples that cannot be written do not keep the end from being
    /// tried.
    pub fn end(&mut self, end: &End) -> io::Result<()> {
        self.end_with(|rows| Ok(serde_json::to_vec(&End { rows: Some(rows), ..end.clone() })?))
    }

    /// The same with the JSON that `json` makes of the number of iterations.
    pub(super) fn end_with(&mut self, json: impl FnOnce(u64) -> io::Result<Vec<u8>>) -> io::Result<()> {
        let samples = self.seal();
        let json = json(self.rows)?;
        let before = self.length;
        self.json(KIND_END, &json)?;
        if let Err(error) = self.sink.sync() {
            // What may not be on the disk must not say that it is all there.
            let _ = self.sink.cut(before);
            self.length = before;
            return Err(error);
        }
        samples
    }

    /// Hands samples that have waited for `BLOCK_EVERY` to the operating system: what is written
    /// survives the end of this process. To be called ten times a second, samples or not.
    ///
    /// # Errors
    /// An I/O error of the sink.
    pub fn flush(&mut self) -> io::Result<()> {
        if self.pending.is_empty() || now() - self.oldest < BLOCK_EVERY {
            return Ok(());
        }
        self.seal()
    }

    /// Iterations of a workload that were started, given to this log and could not be written.
    #[must_use]
    pub fn lost(&self, workload: usize) -> u64 {
        self.lost.get(workload).copied().unwrap_or(0)
    }

    /// Iterations that were written.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Counts samples that will not be written any more. Dropped arrivals are counted where they are dropped.
    pub fn lose(&mut self, rows: &Rows) {
        for row in rows.iter().filter(|row| row.head.ended != CompletionStatus::Dropped) {
            let workload = usize::from(row.head.workload);
            if self.lost.len() <= workload {
                self.lost.resize(workload + 1, 0);
            }
            self.lost[workload] += 1;
        }
    }

    /// Bytes written so far.
    #[must_use]
    pub fn length_bytes(&self) -> u64 {
        self.length
    }

    /// Makes the oldest sample as old as one that is written, for tests.
    #[cfg(test)]
    pub(super) fn age(&mut self) {
        self.oldest = now().checked_sub(BLOCK_EVERY).unwrap();
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

    /// Writes the frame at once, whole or not at all.
    fn write_frame(&mut self, kind: u8) -> io::Result<()> {
        let (head, payload) = self.frame.split_at_mut(FRAME_HEAD_BYTES);
        if payload.len() > PAYLOAD_BYTES_MAX {
            return Err(io::Error::other("a frame of the run log over 16 MiB"));
        }
        head[..4].copy_from_slice(&(payload.len() as u32).to_le_bytes());
        head[4] = kind;
        head[5..].copy_from_slice(&checksum(kind, payload).to_le_bytes());
        if let Err(error) = self.sink.write_all(&self.frame) {
            // Best effort: a reader finds the next whole frame, and says that the log is damaged.
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
