//! Rank 2: the YAML files exactly as they are written.
//!
//! The types here are the single source of the files' shape: serde reads by them, schemars makes
//! the JSON Schema of them, and [`check`] holds a document against that schema and finds every fault
//! at once, with its place. Nothing is resolved or defaulted here, and no secret is looked up.

pub mod check;
pub mod deployment;
pub mod rally;
pub mod reference;
pub mod scenario;
pub mod schema;

use serde::de::DeserializeOwned;

use crate::base::diagnostics::{Fault, Source};
use crate::base::yaml::{self, Node};

/// A document: as written, and with the place of everything in it.
pub struct Document<T> {
    /// The file's name and text.
    pub source: Source,
    /// The document with positions.
    pub root: Node,
    /// The document.
    pub value: T,
}

/// A source with the faults found in it.
pub struct Rejected {
    /// The file's name and text.
    pub source: Source,
    /// Every fault found.
    pub faults: Vec<Fault>,
}

/// Reads one document of type `T`.
///
/// # Errors
/// Every fault of syntax and shape at once.
pub fn read<T: DeserializeOwned>(
    source: Source,
    schema: &serde_json::Value,
) -> Result<Document<T>, Rejected> {
    let root = match yaml::parse(&source) {
        Ok(root) => root,
        Err(faults) => return Err(Rejected { source, faults }),
    };
    from_node(source, root, schema)
}

/// Reads a document that is parsed already.
///
/// # Errors
/// Every fault of shape at once.
pub fn from_node<T: DeserializeOwned>(
    source: Source,
    root: Node,
    schema: &serde_json::Value,
) -> Result<Document<T>, Rejected> {
    let faults = check::check(&root, schema);
    if !faults.is_empty() {
        return Err(Rejected { source, faults });
    }
    match serde_path_to_error::deserialize(root.to_value()) {
        Ok(value) => Ok(Document { source, root, value }),
        Err(error) => {
            // What the schema cannot say; the path leads to the place.
            let fault = Fault::error(check::span_at(&root, error.path()), error.inner().to_string());
            Err(Rejected { source, faults: vec![fault] })
        }
    }
}
