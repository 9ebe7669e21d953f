//! What is wrong with a text that somebody wrote, and what to write instead.

use std::fmt;

/// Why a text is refused, and the remedy: two fields, so that each is shown in its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Complaint {
    /// What is wrong: one clause in lower case.
    pub what: String,
    /// What to do about it.
    pub remedy: String,
}

impl Complaint {
    /// What is wrong, and what to do about it.
    #[must_use]
    pub fn new(what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { what: what.into(), remedy: remedy.into() }
    }
}

/// On one line, where there is no place for each.
impl fmt::Display for Complaint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}; {}", self.what, self.remedy)
    }
}

impl std::error::Error for Complaint {}
