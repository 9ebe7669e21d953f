//! The disk of a run log: full, slow to take bytes, or torn when its process is killed.

use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bench::measure::log::Sink;
use fastrand::Rng;

use crate::scene::{DiskFaults, Torn};

/// What stands between a log and its file.
pub(crate) struct Faulty {
    file: Box<dyn Sink>,
    disk: DiskFaults,
    rng: Rng,
    written: u64,
    /// Set when a write is refused.
    refused: Arc<AtomicBool>,
}

impl Faulty {
    pub(crate) fn new(file: Box<dyn Sink>, disk: &DiskFaults, rng: Rng, refused: &Arc<AtomicBool>) -> Self {
        Self { file, disk: disk.clone(), rng, written: 0, refused: Arc::clone(refused) }
    }
}

impl Write for Faulty {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut length = bytes.len();
        if self.disk.short_writes && length > 1 {
            length = self.rng.usize(1..=length);
        }
        if let Some(full_after) = self.disk.full_after {
            let room = usize::try_from(full_after.saturating_sub(self.written)).unwrap();
            if room == 0 && length > 0 {
                self.refused.store(true, Ordering::Relaxed);
                if self.disk.full_for == 0 {
                    return Err(io::ErrorKind::StorageFull.into());
                }
                // Somebody makes room after a while.
                self.disk.full_for -= 1;
                if self.disk.full_for == 0 {
                    self.disk.full_after = None;
                }
                return Err(io::ErrorKind::StorageFull.into());
            }
            length = length.min(room);
        }
        let written = self.file.write(&bytes[..length])?;
        self.written += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Sink for Faulty {
    fn sync(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn cut(&mut self, length: u64) -> io::Result<()> {
        self.written = self.written.min(length);
        self.file.cut(length)
    }
}

/// What a machine's end leaves of a file. The first bytes stay, as they were brought to the disk.
pub(crate) fn tear(path: &Path, torn: Torn, per_mille: u32, kept: usize) {
    let mut bytes = std::fs::read(path).unwrap();
    let span = bytes.len().saturating_sub(kept);
    if span == 0 {
        return;
    }
    let at = kept + span * per_mille as usize / 1_000;
    match torn {
        Torn::Cut => bytes.truncate(at),
        Torn::Wrong => bytes[at] ^= 1 << (per_mille % 8),
    }
    std::fs::write(path, bytes).unwrap();
}
