//! Why a log cannot be read, in words.

use std::io;

use super::{VERSION, VERSION_OLDEST};

/// Why a log cannot be read, or not to its end.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// It cannot be opened.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: String,
        /// The system's words.
        source: io::Error,
    },
    /// The system gives no more of it.
    #[error(
        "{path} cannot be read beyond byte {at}: {source}; copy what can be read of it to another disk, and use the copy"
    )]
    Unreadable {
        /// The file.
        path: String,
        /// Everything before it could be read.
        at: u64,
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
    #[error("{path} has version {found} of the run log; this bench reads versions {VERSION_OLDEST} to {VERSION}: {}", remedy(*found))]
    Version {
        /// The file.
        path: String,
        /// Its version.
        found: u16,
    },
    /// It ends before it says what ran.
    #[error("{0} has no header: the run ended before it began, and there is nothing to report")]
    NoHeader(String),
    /// What ran cannot be read.
    #[error("{0} is damaged where it says what ran: nothing can be said of the rest without it")]
    DamagedHeader(String),
    /// A visitor cannot go on, such as one that writes to a full disk.
    #[error(transparent)]
    Visitor(io::Error),
}

impl LogError {
    /// Whether the system failed, and not the file.
    #[must_use]
    pub fn is_of_the_system(&self) -> bool {
        match self {
            Self::Unreadable { .. } => true,
            #[cfg(unix)]
            Self::Io { source, .. } => source.raw_os_error() == Some(rustix::io::Errno::IO.raw_os_error()),
            _ => false,
        }
    }
}

/// What to do with a log of another version.
fn remedy(found: u16) -> &'static str {
    if found > VERSION {
        "a newer bench wrote it; use that one, or update this one"
    } else {
        "use the bench that wrote it"
    }
}

impl From<LogError> for io::Error {
    fn from(error: LogError) -> Self {
        match error {
            LogError::Visitor(error) => error,
            error => Self::other(error),
        }
    }
}
