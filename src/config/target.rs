//! A target, as written: a base URL, or a service of the cloud's catalog.

use crate::notation::{schema, written_as_its_value};
use schemars::{JsonSchema, json_schema};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use text::digits;

use super::reference::Reference;

/// A base URL, or a service of the cloud's catalog.
#[derive(Clone, Debug)]
pub enum Target {
    /// A base URL.
    Url(Reference),
    /// A service of the catalog.
    Service(Box<Service>),
}

/// A service of the cloud's catalog.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Service {
    /// The service's type, such as `compute`; old types such as `volumev3` and projects such as `nova` do, too.
    pub service: Reference,
    /// Who the endpoint is for: `public` (the default), `internal` or `admin`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interface: Option<Reference>,
    /// The region (default: the only one).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub region: Option<Reference>,
    /// The major version in the URL, such as `v2.1` (default: the catalog's, or the service's usual one if the catalog's
    /// URL has none).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<Reference>,
    /// The microversion that requests ask for, in quotes: `"2.95"`, or `latest`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub microversion: Option<Reference>,
    /// The endpoint, instead of the catalog's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<Reference>,
}

/// Where the services of the catalog are looked up, unless a target says otherwise.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct CatalogDefaults {
    /// The region (default: the only one).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub region: Option<Reference>,
    /// Who the endpoints are for: `public` (the default), `internal` or `admin`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interface: Option<Reference>,
}

impl<'de> Deserialize<'de> for Target {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = digits::rounded(deserializer)?;
        match &value {
            Value::Object(map) if !(map.contains_key("env") || map.contains_key("file")) => {
                Service::deserialize(value).map(|service| Self::Service(Box::new(service)))
            }
            _ => Reference::deserialize(value).map(Self::Url),
        }
        .map_err(D::Error::custom)
    }
}

written_as_its_value!(Target: Url, Service);

schema!(Target, "Target", |generator| {
    // A map whose keys are all unknown was probably meant as a service.
    let mut branches = vec![generator.subschema_for::<Service>().to_value()];
    let reference = Reference::json_schema(generator).to_value();
    branches.extend(reference["anyOf"].as_array().cloned().unwrap_or_default());
    json_schema!({
        "description": "A base URL, a reference to one, or a service of the cloud's catalog: {service: compute}.",
        "anyOf": branches
    })
});
