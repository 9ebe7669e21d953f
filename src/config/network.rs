//! How a deployment's hosts are reached, as written: proxies, addresses and names.

use crate::notation::{schema, written_as_its_value};
use std::collections::BTreeMap;

use schemars::{JsonSchema, json_schema};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use text::digits;

use super::reference::{Reference, SecretReference};

/// The addresses of a name: one, or a list.
#[derive(Clone, Debug)]
pub struct Addresses {
    /// In order.
    pub all: Vec<Reference>,
    /// Whether they are written as a list.
    pub is_list: bool,
}

impl<'de> Deserialize<'de> for Addresses {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let read = |value: Value| Reference::deserialize(value).map_err(D::Error::custom);
        Ok(match digits::rounded(deserializer)? {
            Value::Array(items) => {
                Self { all: items.into_iter().map(read).collect::<Result<_, _>>()?, is_list: true }
            }
            one => Self { all: vec![read(one)?], is_list: false },
        })
    }
}

impl Serialize for Addresses {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.all.as_slice() {
            [one] if !self.is_list => one.serialize(serializer),
            all => all.serialize(serializer),
        }
    }
}

schema!(Addresses, "Addresses", |generator| {
    let one = generator.subschema_for::<Reference>();
    json_schema!({
        "description": "An IP address, or a list of them.",
        "anyOf": [ { "type": "array", "minItems": 1, "items": one }, one ]
    })
});

/// The names of servers in TLS: one for all targets, or one for each.
#[derive(Clone, Debug)]
pub enum ServerNames {
    /// For all targets.
    All(Reference),
    /// By target.
    ByTarget(BTreeMap<String, Reference>),
}

impl<'de> Deserialize<'de> for ServerNames {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = digits::rounded(deserializer)?;
        match &value {
            Value::Object(map) if !is_reference(map) => BTreeMap::deserialize(value).map(Self::ByTarget),
            _ => Reference::deserialize(value).map(Self::All),
        }
        .map_err(D::Error::custom)
    }
}

written_as_its_value!(ServerNames: All, ByTarget);

schema!(ServerNames, "ServerNames", |generator| {
    let one = generator.subschema_for::<Reference>();
    json_schema!({
        "description": "A host name, or a map from targets to host names.",
        "anyOf": [ { "type": "object", "minProperties": 1, "additionalProperties": one }, { "type": "string" } ]
    })
});

/// True for a map that is a reference by its keys.
fn is_reference(map: &serde_json::Map<String, Value>) -> bool {
    map.contains_key("env") || map.contains_key("file")
}

/// The proxies of a deployment.
#[derive(Clone, Debug)]
pub enum Proxy {
    /// A proxy for all requests; `none` for none.
    One(SecretReference),
    /// By scheme.
    ByScheme(Proxies),
}

/// Proxies by scheme.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Proxies {
    /// The proxy for targets with http.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http: Option<SecretReference>,
    /// The proxy for targets with https; it makes tunnels.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub https: Option<SecretReference>,
    /// Hosts that are reached without a proxy: `example.com` with its subdomains, `host:8080`, `10.0.0.0/8`.
    #[schemars(length(min = 1))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub except: Option<Vec<Reference>>,
}

impl<'de> Deserialize<'de> for Proxy {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = digits::rounded(deserializer)?;
        match &value {
            Value::Object(map) if !is_reference(map) => Proxies::deserialize(value).map(Self::ByScheme),
            _ => SecretReference::deserialize(value).map(Self::One),
        }
        .map_err(D::Error::custom)
    }
}

written_as_its_value!(Proxy: One, ByScheme);

schema!(Proxy, "Proxy", |generator| {
    let by_scheme = generator.subschema_for::<Proxies>();
    // The reference's own branches, so that a map is checked as the one that it is meant to be.
    let reference = SecretReference::json_schema(generator).to_value();
    let branches = reference["anyOf"].as_array().cloned().unwrap_or_default();
    let branches: Vec<Value> = std::iter::once(by_scheme.to_value()).chain(branches).collect();
    json_schema!({
        "description": "A proxy's URL, such as http://proxy.example:3128; {http: URL, https: URL, except: [HOST]}; or none.",
        "anyOf": branches
    })
});
