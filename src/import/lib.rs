//! What other programs recorded or described, as a scenario and a deployment.
//!
//! Readers of curl commands ([`curl`]), HTTP archives ([`har`]), OpenAPI documents ([`openapi`]) and collections of Postman
//! ([`postman`]) make [`Draft`]s;
//! [`draft`] writes these as two commented YAML files. A value that looks like a secret never reaches a file: it
//! becomes a variable that is read from the environment. The content of a file that a command or a recording names is not
//! written either: steps name the file. [`starter`] makes drafts to begin with.
//!
//! All input is hostile: its size, depth and number of requests are bounded, and what is left out is counted and said.
//! This module must not read or write files, send requests or read the environment; its callers do.

pub mod curl;
pub mod draft;
mod exact;
pub mod har;
mod multipart;
pub mod openapi;
pub mod postman;
mod replace;
mod request;
pub mod secrets;
mod sniff;
pub mod starter;
mod words;

pub use draft::{Draft, ImportOutput};

/// The most requests that one import makes into steps; any more are counted.
pub const STEPS_MAX: usize = 500;

/// Why an input cannot be imported: what is wrong, and what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}; {remedy}")]
pub struct ImportError {
    /// What is wrong: a single clause in lower case.
    pub what: String,
    /// How to fix it.
    pub remedy: String,
}

impl ImportError {
    pub(crate) fn new(what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { what: what.into(), remedy: remedy.into() }
    }
}
