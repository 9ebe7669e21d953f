//! A word in colour.

use serde::Serialize;

/// A word with the class that colours it.
#[derive(Serialize)]
pub(super) struct Badge {
    pub(super) word: &'static str,
    pub(super) class: &'static str,
}
