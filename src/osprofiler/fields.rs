//! What a span's or event's fields say, as JSON: bounded, and told apart from the fields that
//! control [`super::instrument`].
//!
//! Formatted values may have any size, so text above the limit is never created.

use std::fmt;

use serde_json::{Map, Value};
use tracing::field::{Field, Visit};

use super::record::bounded_text;

/// Longer values (bytes of text) are cut.
pub(super) const VALUE_LEN_MAX: usize = 1024;
/// Fields whose names begin so are for the layer itself.
const CONTROL_PREFIX: &str = "osprofiler.";
const HIDE_ARGS: &str = "osprofiler.hide_args";
const POINT_NAME: &str = "osprofiler.name";

/// Collects fields.
#[derive(Debug, Default)]
pub(super) struct CollectedFields {
    /// By name, in the order of the span's declaration (tracing allows 32 at most).
    pub(super) values: Map<String, Value>,
    pub(super) hide_args: bool,
    pub(super) point_name: Option<String>,
}

impl CollectedFields {
    fn insert(&mut self, field: &Field, value: Value) {
        match field.name() {
            HIDE_ARGS => self.hide_args |= value == true,
            POINT_NAME => self.point_name = value.as_str().map(str::to_owned),
            name if name.starts_with(CONTROL_PREFIX) => {}
            name => {
                // `r#type` is how Rust must write a field `type`.
                let name = name.strip_prefix("r#").unwrap_or(name);
                self.values.insert(name.to_owned(), value);
            }
        }
    }
}

impl Visit for CollectedFields {
    fn record_f64(&mut self, field: &Field, value: f64) {
        // JSON has no infinity.
        let json = serde_json::Number::from_f64(value).map(Value::Number);
        self.insert(field, json.unwrap_or_else(|| Value::String(value.to_string())));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.insert(field, value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.insert(field, value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.insert(field, value.into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.insert(field, Value::String(bounded_text(&value, VALUE_LEN_MAX)));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.insert(field, Value::String(bounded_text(&format_args!("{value:?}"), VALUE_LEN_MAX)));
    }
}
