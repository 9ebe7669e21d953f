//! A fault with its place, for other programs.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use text::diagnostics::{Fault, SourceText};

/// A fault.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct FaultRecord {
    /// The file that has it; absent if it is of no file, such as a target that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Its line, from 1; absent if the whole file has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
    /// Its column, from 1, in characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub column: Option<usize>,
    /// What is wrong.
    pub message: String,
    /// What to do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub help: Option<String>,
}

impl FaultRecord {
    /// A fault in this file.
    pub(super) fn of(source: &SourceText, fault: &Fault) -> Self {
        let before = fault.span.as_ref().and_then(|span| source.text.get(..span.start));
        let line_start = before.map(|before| before.rfind('\n').map_or(0, |at| at + 1));
        Self {
            file: Some(source.name.clone()),
            line: before.map(|before| before.matches('\n').count() + 1),
            column: before.zip(line_start).map(|(before, start)| before[start..].chars().count() + 1),
            message: fault.message.clone(),
            help: fault.help.clone(),
        }
    }
}
