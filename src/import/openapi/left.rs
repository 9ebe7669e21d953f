//! What a document says and its scenario does not, counted for a note.

use std::collections::BTreeMap;

use serde_json::Value;

use super::document::{OpenApiDocument, Operation};

/// Values that are too long for a line, or have line breaks.
pub(super) const CUT: &str =
    "parameters whose example was cut: more than 20 values, 200 characters in a path, or line breaks";

/// What is left out, by what it is.
#[derive(Default)]
pub(super) struct OmissionCounts(BTreeMap<&'static str, usize>);

impl OmissionCounts {
    pub(super) fn add(&mut self, what: &'static str) {
        self.add_all(what, 1);
    }

    fn add_all(&mut self, what: &'static str, count: usize) {
        if count > 0 {
            *self.0.entry(what).or_default() += count;
        }
    }

    /// What the whole document has beside its operations.
    pub(super) fn of_document(&mut self, document: &OpenApiDocument) {
        let count = |key: &str| document.at(&[key]).map_or(0, count);
        self.add_all("webhooks", count("webhooks"));
        let further = count("servers").max(count("schemes"));
        self.add_all("further servers of the document", further.saturating_sub(1));
    }

    /// What an operation has beside its request.
    pub(super) fn of_operation(&mut self, operation: &Operation<'_>) {
        self.add_all("callbacks", operation.value.get("callbacks").map_or(0, count));
        let servers = [operation.value, operation.item].into_iter().find_map(|holder| holder.get("servers"));
        self.add_all("further servers of operations", servers.map_or(0, count).saturating_sub(1));
        let alternatives = operation.value.get("security").map_or(0, count);
        self.add_all("further ways to authenticate of operations", alternatives.saturating_sub(1));
    }

    pub(super) fn note(&self) -> Option<String> {
        let parts: Vec<String> = self.0.iter().map(|(what, count)| format!("{count} {what}")).collect();
        (!parts.is_empty()).then(|| format!("not in the scenario: {}", parts.join(", ")))
    }
}

/// How many entries a map or a list has.
fn count(value: &Value) -> usize {
    value.as_array().map_or(0, Vec::len) + value.as_object().map_or(0, serde_json::Map::len)
}
