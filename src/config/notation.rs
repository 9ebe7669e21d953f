//! Types that are written in a notation of their own, such as `250ms` or `{min: 1s, max: 3s}`: what serde and schemars
//! cannot derive, without what is the same for each.

use serde::Deserializer;
use serde_json::Value;

use text::digits;

/// Reads a text, or a number with all of its digits: YAML reads `1.1` and `12` as numbers.
pub(super) fn text_or_number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    Ok(match digits::value(deserializer)? {
        Value::String(text) => text,
        other => digits::to_text(&other),
    })
}

/// Implements the schema of a type: its name in the schema, `inline` if it has no definition of its own, and what makes it.
macro_rules! schema {
    ($type:ty, $name:literal, $build:expr) => {
        $crate::notation::schema!($type, $name, false, $build);
    };
    ($type:ty, $name:literal, inline, $build:expr) => {
        $crate::notation::schema!($type, $name, true, $build);
    };
    ($type:ty, $name:literal, $is_inline:literal, $build:expr) => {
        impl schemars::JsonSchema for $type {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                $name.into()
            }
            fn inline_schema() -> bool {
                $is_inline
            }
            fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
                let build: fn(&mut schemars::SchemaGenerator) -> schemars::Schema = $build;
                build(generator)
            }
        }
    };
}

/// Implements that a choice is written as the value that it holds.
macro_rules! written_as_its_value {
    ($type:ty: $($variant:ident),+) => {
        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                match self {
                    $(Self::$variant(value) => value.serialize(serializer),)+
                }
            }
        }
    };
}

/// Implements that a type is read from a text by its function and written as one.
macro_rules! text_form {
    ($type:ty, $read:expr, $write:expr) => {
        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let read = $read;
                read(&<String as serde::Deserialize>::deserialize(deserializer)?)
                    .map_err(serde::de::Error::custom)
            }
        }

        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let write = $write;
                serializer.collect_str(&write(self))
            }
        }
    };
}

pub(super) use {schema, text_form, written_as_its_value};
