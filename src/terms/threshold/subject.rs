//! Whose requests a metric is about: `action "NAME"` or `tag "NAME=VALUE"`.

use std::fmt;

use super::quoted;

/// Requests that a metric is about, if it is not about iterations.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum MetricSubject {
    /// The requests of the action with this name.
    Action(String),
    /// The requests of all actions with this tag and value, written as `team=identity`.
    Tag(String),
}

impl MetricSubject {
    /// The word before its name in a metric.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::Action(_) => "action",
            Self::Tag(_) => "tag",
        }
    }

    /// Its name, or the tag with its value.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Action(name) | Self::Tag(name) => name,
        }
    }
}

impl fmt::Display for MetricSubject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.word(), quoted(self.name()))
    }
}
