//! Where a scenario's deployment is: in a file, or in the scenario itself.

use schemars::json_schema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::notation::schema;
use text::digits;

/// The path of a deployment file, or what such a file would say.
#[derive(Clone, Debug)]
pub enum DeploymentPlace {
    /// A file.
    File(String),
    /// Its keys. They are read once more, as those of a file are, and their faults found then.
    Inline(Value),
}

impl<'de> Deserialize<'de> for DeploymentPlace {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        use serde::de::Error;
        match digits::rounded(deserializer)? {
            Value::String(path) => Ok(Self::File(path)),
            keys @ Value::Object(_) => Ok(Self::Inline(keys)),
            _ => Err(D::Error::custom("expected the path of a deployment, or a map with its keys")),
        }
    }
}

impl Serialize for DeploymentPlace {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::File(path) => path.serialize(serializer),
            Self::Inline(keys) => keys.serialize(serializer),
        }
    }
}

schema!(DeploymentPlace, "DeploymentPlace", |_| json_schema!({
    "description": "The path of a deployment file, or a map with the keys of one.",
    "anyOf": [
        { "type": "string" },
        { "type": "object", "additionalProperties": true, "writeOnly": true }
    ]
}));
