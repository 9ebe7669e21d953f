//! The deployment file: where, as whom, with which key.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::base::complaint::Complaint;
use crate::base::units::parse_percent;

use super::one_of::one_of;
use super::reference::{DurationText, Reference, SecretReference};

/// A deployment: its targets, its credentials, its profiler.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Deployment {
    /// The deployment's name in reports; the file's name where it is absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Base URLs by name; `default` is used where an action names none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub targets: Option<BTreeMap<String, Reference>>,
    /// Hosts beside the targets that requests may go to when a template, an answer or a redirect names them:
    /// `host`, `host:port`, an address, `*.example.com`. Nothing secret goes there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub targets_allowed: Option<Vec<Reference>>,
    /// TLS options of all targets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<Tls>,
    /// Which HTTP is spoken.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http: Option<Http>,
    /// Who resolves the targets' names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dns: Option<Dns>,
    /// Headers of every request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub headers: Option<BTreeMap<String, SecretReference>>,
    /// Who makes the requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auth: Option<Auth>,
    /// The deployment's OSProfiler.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profiler: Option<Profiler>,
    /// Serve the embedded demo and use it as the deployment: targets, key and collector are its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub demo: Option<Demo>,
}

/// TLS options.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Tls {
    /// Verify the servers' certificates (default true). Turning it off is stamped into every result.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verify: Option<bool>,
    /// A file of PEM certificates to trust instead of the system's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca: Option<String>,
    /// A file with the client's PEM certificate chain.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cert: Option<String>,
    /// A file with the client's PEM key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

/// Which HTTP is spoken.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Http {
    /// `auto` (the default: what the server chooses by ALPN, HTTP/1.1 in clear), 1.1, or 2 (by ALPN over
    /// TLS, by prior knowledge in clear).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<HttpVersion>,
}

/// A version of HTTP.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum HttpVersion {
    /// What the server chooses.
    Auto,
    /// HTTP/1.1.
    Http1,
    /// HTTP/2.
    Http2,
}

impl<'de> Deserialize<'de> for HttpVersion {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // YAML reads 1.1 and 2 as numbers.
        let written = match serde_json::Value::deserialize(deserializer)? {
            serde_json::Value::String(text) => text,
            other => other.to_string(),
        };
        match written.as_str() {
            "auto" => Ok(Self::Auto),
            "1.1" => Ok(Self::Http1),
            "2" | "2.0" => Ok(Self::Http2),
            other => Err(serde::de::Error::custom(format!(
                "`{other}` is not a version of HTTP that bench speaks: write auto, 1.1 or 2"
            ))),
        }
    }
}

impl Serialize for HttpVersion {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(match self {
            Self::Auto => "auto",
            Self::Http1 => "1.1",
            Self::Http2 => "2",
        })
    }
}

impl JsonSchema for HttpVersion {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "HttpVersion".into()
    }
    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "description": "auto, 1.1 or 2.",
            "anyOf": [
                { "type": "string", "enum": ["auto", "1.1", "2"] },
                { "type": "number", "enum": [1.1, 2] }
            ]
        })
    }
}

/// Who resolves the targets' names.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Dns {
    /// DNS servers to ask instead of all that the system asks: addresses such as 10.0.0.2 or
    /// 127.0.0.1:5353.
    #[schemars(length(min = 1))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub servers: Option<Vec<Reference>>,
}

one_of! {
    /// Who makes the requests: exactly one of the kinds.
    pub enum Auth {
        /// Nobody: no header is added.
        "none" => None(Empty),
        /// HTTP basic authentication.
        "basic" => Basic(Basic),
        /// A bearer token.
        "bearer" => Bearer(Bearer),
        /// A token from Keystone v3, sent as X-Auth-Token and renewed before it expires.
        "keystone" => Keystone(Keystone),
    }
}

/// A kind without settings: `{}`.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Empty {}

/// HTTP basic authentication.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Basic {
    /// The user.
    pub username: Reference,
    /// The password.
    pub password: SecretReference,
}

/// A bearer token.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Bearer {
    /// The token, without the word `Bearer`.
    pub token: SecretReference,
}

/// Keystone v3 with a password.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Keystone {
    /// Keystone's URL, such as http://127.0.0.1:5000/v3.
    pub auth_url: Reference,
    /// The user.
    pub username: Reference,
    /// The password.
    pub password: SecretReference,
    /// The project to scope the token to.
    pub project_name: Reference,
    /// The user's domain (default `Default`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_domain_name: Option<Reference>,
    /// The project's domain (default `Default`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project_domain_name: Option<Reference>,
}

/// The deployment's OSProfiler.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Profiler {
    /// Profile every iteration (default true; without a key nothing is attempted).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// The HMAC key that the services accept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hmac_key: Option<SecretReference>,
    /// The HMAC keys that the services accept; the first one signs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hmac_keys: Option<Vec<SecretReference>>,
    /// OSProfiler's connection string of the collector, such as redis://127.0.0.1:6379.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connection_string: Option<SecretReference>,
}

/// The embedded demo service.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Demo {
    /// The share of user look-ups, in percent, that miss the role cache and are slow (default 2).
    #[schemars(range(min = 0.0, max = 100.0))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slow_percent: Option<f64>,
    /// How long the query of such a look-up takes (default 80ms).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slow_query: Option<DurationText>,
    /// How much longer all of its work takes than it would, such as 25% (default 0%): a regression to be found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slowdown: Option<Slowdown>,
}

/// A share of something in percent, from 0% to 1000%.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Slowdown(pub f64);

impl Slowdown {
    /// The `format` in the schema.
    pub const FORMAT: &'static str = "bench-slowdown";

    /// Reads `25%`.
    ///
    /// # Errors
    /// What is wrong, and how to write it.
    pub fn parse(text: &str) -> Result<Self, Complaint> {
        parse_percent(text, 0.0, 1000.0).map(Self)
    }
}

impl<'de> Deserialize<'de> for Slowdown {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::parse(&String::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

impl Serialize for Slowdown {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{}%", self.0))
    }
}

impl JsonSchema for Slowdown {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Slowdown".into()
    }
    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "description": "In percent, from 0% to 1000%: 25%.",
            "type": "string",
            "format": Self::FORMAT,
            "pattern": "^\\s*[0-9.]+\\s*%\\s*$"
        })
    }
}
