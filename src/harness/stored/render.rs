//! A comparison of stored runs as text.

use super::compare::RunComparison;
use crate::error::HarnessError;
use report::document::terminal::TerminalStyle;
use report::{compare, html};

/// An output format for comparisons.
#[derive(Clone, Copy, Debug)]
pub enum Form {
    /// For people, at a terminal, in this style.
    Terminal(TerminalStyle),
    /// For programs, as `bench schema compare` and `bench schema history` describe it.
    Json,
    /// Markdown.
    Markdown,
    /// One page that needs no network.
    Html,
}

impl RunComparison {
    /// The comparison in this format, with a final line feed.
    ///
    /// # Errors
    /// When it cannot be written as JSON or as a page.
    pub fn render(&self, form: Form) -> Result<String, HarnessError> {
        Ok(match form {
            Form::Terminal(style) => {
                let text = match self {
                    Self::TwoRuns(two) => compare::terminal(two, style),
                    Self::AgainstHistory(judged) => compare::history_terminal(judged, style),
                };
                text + "\n"
            }
            Form::Json => {
                let json = match self {
                    Self::TwoRuns(two) => serde_json::to_string_pretty(two),
                    Self::AgainstHistory(judged) => serde_json::to_string_pretty(judged),
                };
                json.map_err(HarnessError::cannot("write JSON"))? + "\n"
            }
            Form::Markdown => match self {
                Self::TwoRuns(two) => compare::markdown(two),
                Self::AgainstHistory(judged) => compare::history_markdown(judged),
            },
            Form::Html => {
                let mut page = Vec::new();
                let written = match self {
                    Self::TwoRuns(two) => html::comparison::two_runs(two, &mut page),
                    Self::AgainstHistory(judged) => html::comparison::history(judged, &mut page),
                };
                written.map_err(HarnessError::cannot("write the page"))?;
                String::from_utf8_lossy(&page).into_owned()
            }
        })
    }
}
