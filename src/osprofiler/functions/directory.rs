//! A directory with a file for each traced operation under its id, bounded in number and bytes.
//!
//! Ids come from clients: only what is harmless in a file name is kept of them. Nothing is ever deleted here.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::model::FunctionProfile;
use super::{collapsed, pprof, pstats, speedscope};

/// A kind of file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// For Python's `pstats`: `.prof`.
    Pstats,
    /// Collapsed stacks: `.collapsed`.
    Collapsed,
    /// For speedscope: `.speedscope.json`.
    Speedscope,
    /// For pprof: `.pb.gz`.
    Pprof,
}

impl Format {
    /// The ending of a file's name.
    #[must_use]
    pub fn ending(self) -> &'static str {
        match self {
            Self::Pstats => "prof",
            Self::Collapsed => "collapsed",
            Self::Speedscope => "speedscope.json",
            Self::Pprof => "pb.gz",
        }
    }

    /// The content of a file.
    ///
    /// # Errors
    /// None in practice: packing in memory.
    pub fn encode(self, profile: &FunctionProfile) -> io::Result<Vec<u8>> {
        match self {
            Self::Pstats => Ok(pstats::encode(profile)),
            Self::Collapsed => Ok(collapsed::encode(profile).into_bytes()),
            Self::Speedscope => Ok(speedscope::encode(profile).into_bytes()),
            Self::Pprof => pprof::encode(profile),
        }
    }
}

/// Where profiles are written, and how many.
#[derive(Clone, Debug)]
pub struct Directory {
    path: PathBuf,
    files_max: u64,
    bytes_max: u64,
    formats: Vec<Format>,
    files: u64,
    bytes: u64,
}

impl Directory {
    /// At most 1,000 files and 64 MiB in this directory, for pstats and as collapsed stacks. What is there already
    /// counts.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>) -> Self {
        let formats = vec![Format::Pstats, Format::Collapsed];
        Self { path: path.into(), files_max: 1_000, bytes_max: 64 << 20, formats, files: 0, bytes: 0 }
    }

    /// Other limits.
    #[must_use]
    pub fn at_most(self, files: u64, bytes: u64) -> Self {
        Self { files_max: files, bytes_max: bytes, ..self }
    }

    /// Other kinds of files.
    #[must_use]
    pub fn formats(self, formats: &[Format]) -> Self {
        Self { formats: formats.to_vec(), ..self }
    }

    /// Makes the directory and counts what is in it.
    pub(super) fn open(mut self) -> io::Result<Self> {
        fs::create_dir_all(&self.path)?;
        for entry in fs::read_dir(&self.path)? {
            let metadata = entry?.metadata()?;
            if metadata.is_file() {
                self.files += 1;
                self.bytes = self.bytes.saturating_add(metadata.len());
            }
        }
        Ok(self)
    }

    /// Writes the files of an operation: `<base_id>-<start of the point's id>.<ending>`, since a trace may have several
    /// operations in a service. `false` if there is no room.
    pub(super) fn write(
        &mut self,
        base_id: &str,
        point_id: &str,
        profile: &FunctionProfile,
    ) -> io::Result<bool> {
        let stem = format!("{}-{}", harmless(base_id, 100), harmless(point_id, 8));
        let mut all = true;
        for format in self.formats.clone() {
            let content = format.encode(profile)?;
            let len = content.len() as u64;
            if self.files >= self.files_max || self.bytes.saturating_add(len) > self.bytes_max {
                all = false;
                continue;
            }
            write_whole(&self.path.join(format!("{stem}.{}", format.ending())), &content)?;
            self.files += 1;
            self.bytes += len;
        }
        Ok(all)
    }
}

/// Writes a file so that no reader sees a part of it.
pub(super) fn write_whole(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut unfinished = path.as_os_str().to_owned();
    unfinished.push(".part");
    fs::write(&unfinished, content)?;
    fs::rename(&unfinished, path)
}

/// Letters, digits and hyphens of an id.
fn harmless(id: &str, len_max: usize) -> String {
    let is_harmless = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    let kept: String = id.chars().filter(is_harmless).take(len_max).collect();
    if kept.is_empty() { "unnamed".to_owned() } else { kept }
}
