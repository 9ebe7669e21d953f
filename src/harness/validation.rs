//! What `bench validate --json` writes: each file, and its faults with their places.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::error::HarnessError;
use super::fault_record::FaultRecord;
use super::files::CheckedFile;

/// The value of the key `format`.
const FORMAT: &str = "bench-validation";
/// The version of this document.
const VERSION: u32 = 1;

/// The files that were checked.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
pub struct ValidationDocument {
    /// Always `bench-validation`.
    pub format: String,
    /// The version of this document.
    pub version: u32,
    /// True if no file has a fault.
    pub valid: bool,
    /// The files, in the order in which they were given.
    pub files: Vec<ValidatedFile>,
}

/// A file that was checked.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
pub struct ValidatedFile {
    /// Its name, as it was given.
    pub file: String,
    /// True if neither it nor the deployment that it names has a fault.
    pub valid: bool,
    /// What it is, in words; absent if it has a fault.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
    /// Its faults, and those of its deployment.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<FaultRecord>,
}

impl ValidationDocument {
    /// The JSON Schema (draft-07) of this document.
    #[must_use]
    pub fn schema() -> serde_json::Value {
        text::json_schema::draft07::<Self>()
    }

    /// As JSON.
    #[must_use]
    pub fn to_json(&self) -> serde_json::Value {
        serde_json::to_value(self).unwrap_or_default()
    }

    /// Of these files.
    #[must_use]
    pub fn new(files: Vec<ValidatedFile>) -> Self {
        let valid = files.iter().all(|file| file.valid);
        Self { format: FORMAT.to_owned(), version: VERSION, valid, files }
    }
}

impl ValidatedFile {
    /// A file of this name, and what was found.
    #[must_use]
    pub fn new(file: String, found: &Result<CheckedFile, HarnessError>) -> Self {
        match found {
            Ok(valid) => Self { file, valid: true, summary: Some(valid.to_string()), faults: Vec::new() },
            Err(error) => Self { file, valid: false, summary: None, faults: error.records() },
        }
    }
}
