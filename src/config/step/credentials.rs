//! Whose credentials a request carries, as written.

use crate::notation::schema;
use schemars::json_schema;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use text::digits;

/// `true`, `false` or `admin`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Credentials {
    /// The usual ones, or none.
    Switch(bool),
    /// The deployment's own, even if iterations are users of a context.
    Admin,
}

const ADMIN: &str = "admin";

impl<'de> Deserialize<'de> for Credentials {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match digits::rounded(deserializer)? {
            Value::Bool(on) => Ok(Self::Switch(on)),
            Value::String(text) if text == ADMIN => Ok(Self::Admin),
            _ => Err(D::Error::custom("expected true, false or admin")),
        }
    }
}

impl Serialize for Credentials {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match *self {
            Self::Switch(on) => on.serialize(serializer),
            Self::Admin => ADMIN.serialize(serializer),
        }
    }
}

schema!(
    Credentials,
    "Credentials",
    inline,
    |_| json_schema!({ "anyOf": [{ "type": "boolean" }, { "type": "string", "enum": [ADMIN] }] })
);
