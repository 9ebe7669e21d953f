//! JSON Schemas of types, in the draft that editors understand.

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::Value;

/// Makes the draft-07 schema of a type.
#[must_use]
pub fn draft07<T: JsonSchema>() -> Value {
    SchemaSettings::draft07().into_generator().into_root_schema_for::<T>().to_value()
}
