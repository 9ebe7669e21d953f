//! What is wrong with a text that a user wrote, and what to write instead.

use std::fmt;

/// Why a text is refused, and the remedy: separate fields, because diagnostics show them in separate places.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Complaint {
    /// What is wrong: a single clause in lower case.
    pub what: String,
    /// How to fix it.
    pub remedy: String,
}

impl Complaint {
    /// What is wrong, and how to fix it.
    #[must_use]
    pub fn new(what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { what: what.into(), remedy: remedy.into() }
    }
}

/// On a single line, for messages without separate places.
impl fmt::Display for Complaint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}; {}", self.what, self.remedy)
    }
}

impl std::error::Error for Complaint {}
