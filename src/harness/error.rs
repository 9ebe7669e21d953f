//! The error type of the harness: its kind, what happened, and what to do.

use super::fault_record::FaultRecord;
use std::collections::HashSet;
use std::fmt;

use config::RejectedFile;
use measure::log::LogError;
use text::diagnostics;

/// The kind of an error: a program decides by it, for example about its exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HarnessErrorKind {
    /// The options contradict each other, or ask for something impossible.
    Usage,
    /// A given file does not exist, or has faults.
    Input,
    /// A target, the collector or a service that was started does not answer.
    Unreachable,
    /// An operation failed, such as writing a file.
    Failed,
    /// The recorded data allow no verdict.
    NoVerdict,
    /// It was interrupted before there was anything to report.
    Interrupted,
}

/// Why the harness cannot continue. Its text says what happened and what to do.
#[derive(Debug, thiserror::Error)]
#[error("{}", joined(.parts))]
pub struct HarnessError {
    kind: HarnessErrorKind,
    parts: Vec<ErrorDetail>,
}

/// One of the things that went wrong.
enum ErrorDetail {
    Message {
        text: String,
        remedy: Option<String>,
    },
    /// A file with its faults, each at its place.
    Faults(Box<RejectedFile>),
}

impl fmt::Debug for ErrorDetail {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text(false))
    }
}

impl ErrorDetail {
    fn text(&self, colour: bool) -> String {
        match self {
            Self::Message { text, remedy: None } => text.clone(),
            Self::Message { text, remedy: Some(remedy) } => format!("{text}; {remedy}"),
            Self::Faults(rejected) => {
                let text = diagnostics::render(&rejected.source, &rejected.faults, colour);
                let count = rejected.faults.len();
                let noun = if count == 1 { "fault" } else { "faults" };
                format!("{text}{}: {count} {noun}", rejected.source.name)
            }
        }
    }
}

fn joined(parts: &[ErrorDetail]) -> String {
    parts.iter().map(|part| part.text(false)).collect::<Vec<_>>().join("\n")
}

impl HarnessError {
    /// An error of this kind.
    pub fn new(kind: HarnessErrorKind, text: impl fmt::Display) -> Self {
        Self { kind, parts: vec![ErrorDetail::Message { text: text.to_string(), remedy: None }] }
    }

    /// Wrong usage.
    pub fn usage(text: impl fmt::Display) -> Self {
        Self::new(HarnessErrorKind::Usage, text)
    }

    /// A bad input file.
    pub fn input(text: impl fmt::Display) -> Self {
        Self::new(HarnessErrorKind::Input, text)
    }

    /// Something that does not answer.
    pub fn unreachable(text: impl fmt::Display) -> Self {
        Self::new(HarnessErrorKind::Unreachable, text)
    }

    /// A failed operation.
    pub fn failed(text: impl fmt::Display) -> Self {
        Self::new(HarnessErrorKind::Failed, text)
    }

    /// Something that the system does not let bench do: `what` names it.
    pub fn cannot<E: fmt::Display>(what: impl fmt::Display) -> impl FnOnce(E) -> Self {
        move |error| Self::failed(format!("cannot {what}: {error}"))
    }

    /// A log that cannot be read: a bad file, or a disk that fails.
    pub(super) fn of_log(error: LogError) -> Self {
        Self::new(
            if error.is_of_the_system() { HarnessErrorKind::Failed } else { HarnessErrorKind::Input },
            error,
        )
    }

    /// The faults of a file.
    #[must_use]
    pub fn faults(rejected: RejectedFile) -> Self {
        Self { kind: HarnessErrorKind::Input, parts: vec![ErrorDetail::Faults(Box::new(rejected))] }
    }

    /// Adds what to do to the last report.
    #[must_use]
    pub fn remedy(mut self, help: impl fmt::Display) -> Self {
        if let Some(ErrorDetail::Message { remedy, .. }) = self.parts.last_mut() {
            *remedy = Some(help.to_string());
        }
        self
    }

    /// Adds a further error; the kind of the first remains.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.parts.extend(other.parts);
        self
    }

    /// Leaves out the faults of files that were already reported, and remembers those that were not. `of` is the file
    /// that was checked: something is always said about it.
    #[must_use]
    pub fn without_repeats(mut self, said: &mut HashSet<String>, of: impl fmt::Display) -> Self {
        let mut shared = None;
        self.parts.retain(|part| {
            let is_new = said.insert(part.text(false));
            if let ErrorDetail::Faults(rejected) = part
                && !is_new
            {
                shared = Some(rejected.source.name.clone());
            }
            is_new
        });
        if let (true, Some(shared)) = (self.parts.is_empty(), shared) {
            let text = format!("{of}: it has only the faults of {shared}, which are shown above");
            self.parts.push(ErrorDetail::Message { text, remedy: None });
        }
        self
    }

    /// Its kind.
    #[must_use]
    pub fn kind(&self) -> HarnessErrorKind {
        self.kind
    }

    /// Everything that went wrong, for other programs.
    pub(super) fn records(&self) -> Vec<FaultRecord> {
        let of_part = |part: &ErrorDetail| match part {
            ErrorDetail::Message { text, remedy } => {
                let (message, help) = (text.clone(), remedy.clone());
                vec![FaultRecord { file: None, line: None, column: None, message, help }]
            }
            ErrorDetail::Faults(rejected) => {
                rejected.faults.iter().map(|fault| FaultRecord::of(&rejected.source, fault)).collect()
            }
        };
        self.parts.iter().flat_map(of_part).collect()
    }

    /// Everything that went wrong, one after another.
    pub fn reports(&self, colour: bool) -> impl Iterator<Item = Report> {
        self.parts.iter().map(move |part| Report {
            text: part.text(colour),
            is_rendered: matches!(part, ErrorDetail::Faults(_)),
        })
    }
}

/// One of the things that went wrong, in words.
pub struct Report {
    /// The words.
    pub text: String,
    /// True for the faults of a file: they are already rendered with their lines and the word `error`.
    pub is_rendered: bool,
}

/// What to do when a file cannot be written.
#[must_use]
pub fn remedy_for(error: &std::io::Error) -> &'static str {
    use std::io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    match error.kind() {
        StorageFull | QuotaExceeded => "make room",
        FileTooLarge => "raise the limit on the size of files (`ulimit -f`)",
        _ => "check the directory and the disk",
    }
}
