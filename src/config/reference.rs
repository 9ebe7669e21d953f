//! Values with a syntax: references to secrets, durations, shares and sizes.

use crate::notation::{schema, text_form, text_or_number};
use std::fmt;

use schemars::json_schema;
use serde::de::{self, Deserialize, Deserializer, MapAccess, Visitor};
use serde::ser::{self, Serialize, SerializeMap as _, Serializer};

use base::complaint::Complaint;
use base::secret::Secret;
use base::units::{BYTES_MAX, parse_bytes, parse_duration, parse_percent, write_bytes, write_duration};

/// `text`, `{env: NAME}`, `{env: NAME, default: text}` or `{file: PATH}`.
///
/// The text may be a secret, so it is stored as one.
#[derive(Clone, Debug)]
pub enum Reference {
    /// The text itself.
    Inline(Secret),
    /// The value of an environment variable.
    Env {
        /// The variable's name.
        name: String,
        /// The value if the variable is not set.
        default: Option<String>,
    },
    /// The first line of a file, relative to the file that names it.
    File(String),
}

impl<'de> Deserialize<'de> for Reference {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ReferenceVisitor;
        impl<'de> Visitor<'de> for ReferenceVisitor {
            type Value = Reference;
            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("text, `{env: NAME}` or `{file: PATH}`")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Reference, E> {
                Ok(Reference::Inline(Secret::new(text)))
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Reference, A::Error> {
                let (mut env, mut file, mut default) = (None, None, None);
                while let Some((key, value)) = map.next_entry::<String, String>()? {
                    match key.as_str() {
                        "env" => env = Some(value),
                        "file" => file = Some(value),
                        "default" => default = Some(value),
                        _ => return Err(de::Error::custom(format!("unknown key `{key}`"))),
                    }
                }
                match (env, file, default) {
                    (Some(name), None, default) => Ok(Reference::Env { name, default }),
                    (None, Some(path), None) => Ok(Reference::File(path)),
                    _ => Err(de::Error::custom("write either `env` (with an optional `default`) or `file`")),
                }
            }
        }
        deserializer.deserialize_any(ReferenceVisitor)
    }
}

impl Serialize for Reference {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (key, value, default) = match self {
            Self::Inline(text) => return serializer.serialize_str(text.expose()),
            Self::Env { name, default } => ("env", name, default.as_ref()),
            Self::File(path) => ("file", path, None),
        };
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry(key, value)?;
        if let Some(default) = default {
            map.serialize_entry("default", default)?;
        }
        map.end()
    }
}

schema!(Reference, "Reference", |_| json_schema!({
    "description": "Text, or a reference to it: {env: NAME}, {env: NAME, default: TEXT} or {file: PATH}.",
    "anyOf": [
        { "type": "string" },
        { "type": "object", "required": ["env"], "additionalProperties": false, "properties": {
            "env": { "type": "string", "minLength": 1, "description": "The name of an environment variable." },
            "default": { "type": "string", "description": "The value if the variable is not set." } } },
        { "type": "object", "required": ["file"], "additionalProperties": false, "properties": {
            "file": { "type": "string", "minLength": 1, "description": "A file whose first line is the value." } } }
    ]
}));

/// A [`Reference`] to a secret. A secret in the file itself, or in a default, is never shown.
#[derive(Clone, Debug)]
pub struct SecretReference(pub Reference);

impl<'de> Deserialize<'de> for SecretReference {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Reference::deserialize(deserializer).map(Self)
    }
}

/// Writes only references; a secret itself is never written.
impl Serialize for SecretReference {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.0 {
            Reference::Inline(_) | Reference::Env { default: Some(_), .. } => {
                Err(ser::Error::custom("a secret can only be written as {env: NAME} or {file: PATH}"))
            }
            reference => reference.serialize(serializer),
        }
    }
}

schema!(SecretReference, "SecretReference", |_| json_schema!({
    "description": "A secret, or a reference to it: {env: NAME}, {env: NAME, default: TEXT} or {file: PATH}.",
    "anyOf": [
        { "type": "string", "writeOnly": true },
        { "type": "object", "required": ["env"], "additionalProperties": false, "properties": {
            "env": { "type": "string", "minLength": 1, "description": "The name of an environment variable." },
            "default": { "type": "string", "writeOnly": true,
                "description": "The value if the variable is not set." } } },
        { "type": "object", "required": ["file"], "additionalProperties": false, "properties": {
            "file": { "type": "string", "minLength": 1, "description": "A file whose first line is the value." } } }
    ]
}));

/// A duration with a unit: `250ms`, `1.5s`, `2m`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DurationText(pub std::time::Duration);

text_form!(DurationText, |text: &str| parse_duration(text).map(Self), |value: &Self| write_duration(value.0));

schema!(DurationText, "Duration", |_| json_schema!({
    "description": "A duration with a unit: 250ms, 1.5s, 2m, 1h30m.",
    "type": "string",
    "format": "bench-duration",
    "pattern": "^\\s*([0-9.]+\\s*(ns|us|µs|ms|s|m|h)\\s*)+$"
}));

/// A share of iterations in percent: `10%`. It is neither 0% nor 100%, because both groups need iterations.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ShareText(pub f64);

impl ShareText {
    /// The `format` in the schema.
    pub const FORMAT: &'static str = "bench-share";

    /// Reads a text such as `10%`.
    ///
    /// # Errors
    /// What is wrong, and how to write it.
    pub fn parse(text: &str) -> Result<Self, Complaint> {
        parse_percent(text, 0.1, 90.0).map(Self)
    }
}

text_form!(ShareText, |text: &str| Self::parse(text), |value: &Self| format!("{}%", value.0));

schema!(ShareText, "Share", |_| json_schema!({
    "description": "A share in percent, from 0.1% to 90%: 10%.",
    "type": "string",
    "format": Self::FORMAT,
    "pattern": "^\\s*[0-9.]+\\s*%\\s*$"
}));

/// A size in bytes: `512`, `64KiB`, `10MB`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SizeText(pub u64);

impl<'de> Deserialize<'de> for SizeText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = text_or_number(deserializer)?;
        parse_bytes(&text).map(Self).map_err(de::Error::custom)
    }
}

impl Serialize for SizeText {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&write_bytes(self.0))
    }
}

schema!(SizeText, "Size", |_| json_schema!({
    "description": "A size in bytes, or with a unit: 512, 64KiB, 10MB, 1GiB.",
    "anyOf": [
        { "type": "integer", "minimum": 0, "maximum": BYTES_MAX },
        { "type": "string", "pattern": "^\\s*[0-9.]+\\s*([kKmMgG]?[bB]|[kKmMgG][iI][bB])?\\s*$" }
    ]
}));
