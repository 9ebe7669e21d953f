//! Bodies of requests: bytes in memory, or parts, some of them files.
//!
//! Files are read from disk while they are sent, a chunk at a time. Their length is known before the load. If a file is
//! not the one that was measured, the request fails; a body that is shorter or longer than announced is never sent.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use bytes::{Bytes, BytesMut};
use tokio::io::AsyncReadExt as _;

use super::error::ClientError;
use text::files::open_regular;

/// How much of a file is read at once.
const CHUNK_BYTES: usize = 256 << 10;

/// The body of a request.
#[derive(Clone, Debug)]
pub enum BodyContent {
    /// Bytes; if there are none, no body is sent.
    Bytes(Bytes),
    /// Several parts, one after another.
    Parts(Parts),
    /// Pieces that are sent once the request has begun; over HTTP/2 alone. See [`Dialogue`](super::dialogue::Dialogue).
    Later,
}

/// The parts of a body, and their length.
#[derive(Clone, Debug, Default)]
pub struct Parts {
    parts: Vec<Part>,
    length: u64,
}

/// A part of a body.
#[derive(Clone, Debug)]
pub enum Part {
    /// Bytes in memory.
    Bytes(Bytes),
    /// A file.
    File(Arc<FileContent>),
}

/// A file to send, as it was before the load.
#[derive(Debug)]
pub struct FileContent {
    path: PathBuf,
    length: u64,
    modified: Option<SystemTime>,
}

impl FileContent {
    /// Measures the file at `path`.
    ///
    /// # Errors
    /// It cannot be opened, or is not a file.
    pub fn measure(path: PathBuf) -> std::io::Result<Self> {
        if !std::fs::metadata(&path)?.is_file() {
            return Err(std::io::Error::other("it is not a file"));
        }
        // Whether it may be read is known only after opening it.
        let file = open_regular(&path)?.metadata()?;
        Ok(Self { path, length: file.len(), modified: file.modified().ok() })
    }

    /// Its length in bytes.
    #[must_use]
    pub fn length(&self) -> u64 {
        self.length
    }

    fn error(&self, reason: impl Into<String>) -> ClientError {
        ClientError::File { path: self.path.display().to_string(), reason: reason.into() }
    }

    /// That the file is still what was measured.
    fn check(&self, now: &std::fs::Metadata) -> Result<(), ClientError> {
        if now.len() != self.length {
            let reason = format!("it has {} bytes, but had {} before the load", now.len(), self.length);
            return Err(self.error(reason));
        }
        if now.modified().ok() != self.modified {
            return Err(self.error("it was changed during the load"));
        }
        Ok(())
    }
}

impl Parts {
    /// Appends a part.
    pub fn push(&mut self, part: Part) {
        self.length += match &part {
            Part::Bytes(bytes) => bytes.len() as u64,
            Part::File(file) => file.length,
        };
        self.parts.push(part);
    }

    /// The body that they make; a small one without files is kept in one piece.
    #[must_use]
    pub fn joined(self) -> BodyContent {
        const JOINED_BYTES_MAX: u64 = 1 << 20;
        if self.length > JOINED_BYTES_MAX || self.parts.iter().any(|part| matches!(part, Part::File(_))) {
            return BodyContent::Parts(self);
        }
        let mut all = BytesMut::new();
        for part in &self.parts {
            if let Part::Bytes(bytes) = part {
                all.extend_from_slice(bytes);
            }
        }
        BodyContent::Bytes(all.freeze())
    }

    /// Writes all parts.
    ///
    /// # Errors
    /// A file that cannot be read, or is not the one that was measured.
    pub fn write_to(&self, output: &mut impl std::io::Write) -> std::io::Result<()> {
        for part in &self.parts {
            match part {
                Part::Bytes(bytes) => output.write_all(bytes)?,
                Part::File(content) => {
                    let file = open_regular(&content.path)?;
                    content.check(&file.metadata()?).map_err(std::io::Error::other)?;
                    std::io::copy(&mut std::io::Read::take(file, content.length), output)?;
                }
            }
        }
        Ok(())
    }
}

/// Takes bytes up to a limit.
struct LimitedBuffer {
    bytes: Vec<u8>,
    limit: u64,
}

impl std::io::Write for LimitedBuffer {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let room = usize::try_from(self.limit).unwrap_or(usize::MAX).saturating_sub(self.bytes.len());
        let taken = bytes.len().min(room);
        self.bytes.extend_from_slice(&bytes[..taken]);
        Ok(taken)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl From<Bytes> for BodyContent {
    fn from(bytes: Bytes) -> Self {
        Self::Bytes(bytes)
    }
}

impl BodyContent {
    /// The first bytes, to observe a single request. A file that cannot be read counts as empty.
    #[must_use]
    pub fn beginning(&self, limit: u64) -> Bytes {
        match self {
            Self::Bytes(bytes) => {
                bytes.slice(..bytes.len().min(usize::try_from(limit).unwrap_or(usize::MAX)))
            }
            Self::Parts(parts) => {
                let mut output = LimitedBuffer { bytes: Vec::new(), limit };
                // The end of the limit is reported as an error.
                let _ = parts.write_to(&mut output);
                output.bytes.into()
            }
            Self::Later => Bytes::new(),
        }
    }

    /// No body.
    pub const EMPTY: Self = Self::Bytes(Bytes::new());

    /// The length in bytes.
    #[inline]
    #[must_use]
    pub fn len(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::Parts(parts) => parts.length,
            Self::Later => 0,
        }
    }

    /// True if no body is sent.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        match self {
            Self::Bytes(bytes) => bytes.is_empty(),
            Self::Parts(parts) => parts.length == 0,
            Self::Later => false,
        }
    }

    /// True if it is sent once the request has begun.
    #[inline]
    #[must_use]
    pub fn is_later(&self) -> bool {
        matches!(self, Self::Later)
    }

    /// Opens the body's files and checks that they are those that were measured.
    pub(super) async fn open(&self) -> Result<Source, ClientError> {
        match self {
            Self::Bytes(bytes) => Ok(Source::of(bytes)),
            Self::Later => Ok(Source::of(&Bytes::new())),
            Self::Parts(parts) => {
                Ok(Source { bytes: Bytes::new(), streaming: Some(Box::new(BodyStream::open(parts).await?)) })
            }
        }
    }
}

/// A body that is being sent.
pub(super) struct Source {
    bytes: Bytes,
    streaming: Option<Box<BodyStream>>,
}

struct BodyStream {
    /// The rest, the next one last.
    parts: Vec<OpenedPart>,
}

enum OpenedPart {
    Bytes(Bytes),
    File { file: tokio::fs::File, content: Arc<FileContent>, left: u64 },
}

impl Source {
    /// A body in memory.
    pub(super) fn of(bytes: &Bytes) -> Self {
        Self { bytes: bytes.clone(), streaming: None }
    }

    /// The next chunk; empty at the end.
    pub(super) async fn next(&mut self) -> Result<Bytes, ClientError> {
        match &mut self.streaming {
            None => Ok(std::mem::take(&mut self.bytes)),
            Some(streaming) => streaming.next().await,
        }
    }

    /// True after the last chunk.
    pub(super) fn is_at_end(&self) -> bool {
        match &self.streaming {
            None => self.bytes.is_empty(),
            Some(streaming) => streaming.parts.is_empty(),
        }
    }
}

impl BodyStream {
    async fn open(parts: &Parts) -> Result<Self, ClientError> {
        let mut opened = Vec::with_capacity(parts.parts.len());
        for part in &parts.parts {
            match part {
                Part::Bytes(bytes) if bytes.is_empty() => {}
                Part::Bytes(bytes) => opened.push(OpenedPart::Bytes(bytes.clone())),
                Part::File(content) => {
                    let failed = |error: std::io::Error| content.error(error.to_string());
                    let file = tokio::fs::File::open(&content.path).await.map_err(failed)?;
                    content.check(&file.metadata().await.map_err(failed)?)?;
                    if content.length > 0 {
                        let (content, left) = (Arc::clone(content), content.length);
                        opened.push(OpenedPart::File { file, content, left });
                    }
                }
            }
        }
        opened.reverse();
        Ok(Self { parts: opened })
    }

    async fn next(&mut self) -> Result<Bytes, ClientError> {
        let chunk = match self.parts.last_mut() {
            None => return Ok(Bytes::new()),
            Some(OpenedPart::Bytes(bytes)) => std::mem::take(bytes),
            Some(OpenedPart::File { file, content, left }) => {
                let chunk = read(file, content, *left).await?;
                *left -= chunk.len() as u64;
                if *left > 0 {
                    return Ok(chunk);
                }
                // Before the last chunk is sent, so that the server sees that the body is not whole.
                let now = file.metadata().await.map_err(|error| content.error(error.to_string()))?;
                content.check(&now)?;
                chunk
            }
        };
        self.parts.pop();
        Ok(chunk)
    }
}

async fn read(file: &mut tokio::fs::File, content: &FileContent, left: u64) -> Result<Bytes, ClientError> {
    let size = usize::try_from(left).unwrap_or(CHUNK_BYTES).min(CHUNK_BYTES);
    let mut chunk = BytesMut::with_capacity(size);
    while chunk.len() < size {
        let wanted = (size - chunk.len()) as u64;
        let read = (&mut *file).take(wanted).read_buf(&mut chunk).await;
        match read {
            Ok(0) => return Err(content.error("it became shorter while it was sent")),
            Ok(_) => {}
            Err(error) => return Err(content.error(error.to_string())),
        }
    }
    Ok(chunk.freeze())
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn all(content: &BodyContent) -> Result<Vec<u8>, ClientError> {
        let mut source = content.open().await?;
        let mut sent = Vec::new();
        while !source.is_at_end() {
            sent.extend_from_slice(&source.next().await?);
        }
        assert!(source.next().await?.is_empty());
        Ok(sent)
    }

    #[tokio::test]
    async fn parts_are_sent_in_order_and_changed_files_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f.bin");
        let long: Vec<u8> = (0..CHUNK_BYTES * 2 + 5).map(|at| (at % 251) as u8).collect();
        std::fs::write(&path, &long).unwrap();
        let file = Arc::new(FileContent::measure(path.clone()).unwrap());
        let mut parts = Parts::default();
        for part in
            [Part::Bytes(Bytes::from_static(b"<")), Part::File(file), Part::Bytes(Bytes::from_static(b">"))]
        {
            parts.push(part);
        }
        let content = BodyContent::Parts(parts);
        assert_eq!(content.len(), long.len() as u64 + 2);
        assert_eq!(all(&content).await.unwrap(), [b"<", long.as_slice(), b">"].concat());
        for (change, part) in [(&long[1..], "but had"), (b"", "but had")] {
            std::fs::write(&path, change).unwrap();
            let error = all(&content).await.unwrap_err();
            assert_eq!(error.class().as_str(), "file");
            assert!(error.to_string().contains(part), "{error}");
        }
        std::fs::remove_file(&path).unwrap();
        assert_eq!(all(&content).await.unwrap_err().class().as_str(), "file");
        assert!(FileContent::measure(folder.path().to_path_buf()).is_err());
        for bytes in [&b""[..], b"abc"] {
            assert_eq!(all(&BodyContent::from(Bytes::copy_from_slice(bytes))).await.unwrap(), bytes);
        }
    }

    #[tokio::test]
    async fn a_file_that_shrinks_while_it_is_sent_ends_the_body() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f.bin");
        std::fs::write(&path, vec![1; CHUNK_BYTES * 3]).unwrap();
        let mut parts = Parts::default();
        parts.push(Part::File(Arc::new(FileContent::measure(path.clone()).unwrap())));
        let mut source = BodyContent::Parts(parts).open().await.unwrap();
        assert_eq!(source.next().await.unwrap().len(), CHUNK_BYTES);
        std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(CHUNK_BYTES as u64 + 1).unwrap();
        // The first read may still have been made ahead.
        let error = match source.next().await {
            Err(error) => error,
            Ok(_) => source.next().await.unwrap_err(),
        };
        assert_eq!(error.class().as_str(), "file");
    }
}
