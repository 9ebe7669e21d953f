//! The deployment file: the service to test, the credentials and the profiler's key.

use crate::notation::{schema, text_form, text_or_number};
use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use base::complaint::Complaint;
use base::units::parse_percent;

use super::auth::{OAuth2, TokenCommand};
use super::body::Lines;
use super::keystone::Keystone;
use super::network::{Addresses, Proxy, ServerNames};
use super::one_of::one_of;
use super::reference::{DurationText, Reference, SecretReference};
use super::target::{CatalogDefaults, Target};

/// A deployment: the targets, credentials and profiler of a service to test.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Deployment {
    /// The deployment's name in reports (default: the file's name without its extension).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Base URLs by name, or services of the cloud's catalog. An action without a `target` uses the one named `default`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub targets: Option<BTreeMap<String, Target>>,
    /// Where the services of the cloud's catalog are looked up. With Keystone, a target that is not listed is the service
    /// of this type.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub catalog: Option<CatalogDefaults>,
    /// A cloud of `clouds.yaml` and `secure.yaml`: its credentials, region, interface and certificates, instead of `auth`
    /// and `catalog`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cloud: Option<Reference>,
    /// Other hosts that requests may go to if a template, a response or a redirect names them: `host`, `host:port`, an
    /// IP address or `*.example.com`. No secrets are sent to these hosts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub targets_allowed: Option<Vec<Reference>>,
    /// TLS options for all targets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<Tls>,
    /// The HTTP version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http: Option<Http>,
    /// How the targets' host names are resolved.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dns: Option<Dns>,
    /// The proxy for all requests to the targets and for logging in (default: what `http_proxy`, `https_proxy` and
    /// `no_proxy` say in the environment). `none` uses no proxy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proxy: Option<Proxy>,
    /// Headers for every request. A list sends a header several times.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub headers: Option<BTreeMap<String, Lines<SecretReference>>>,
    /// How requests authenticate (default: not at all).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auth: Option<Auth>,
    /// OSProfiler's settings in the deployment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profiler: Option<Profiler>,
    /// Serve the embedded demo and test it. The demo brings its own targets, key and collector.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub demo: Option<Demo>,
}

/// TLS options.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Tls {
    /// Verify the servers' certificates (default true). If this is off, reports, JUnit files and `results.json` say so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verify: Option<bool>,
    /// A file with PEM certificates to trust instead of the system's: those of issuers, or a server's own, such as
    /// one that `openssl req -x509` made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca: Option<String>,
    /// The host name that the targets' certificates must have and that `bench` asks for (SNI), if it is not the URL's: a
    /// name, or a map from targets to names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sni: Option<ServerNames>,
    /// A file with the client's PEM certificate chain.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cert: Option<String>,
    /// A file with the client's private key, in PEM format.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

/// The HTTP version.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Http {
    /// The HTTP version. `auto` (the default): over TLS, the server chooses with ALPN; without TLS, HTTP/1.1. `1.1`:
    /// always HTTP/1.1. `2`: always HTTP/2, with ALPN over TLS and with prior knowledge without TLS.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<HttpVersion>,
}

/// An HTTP version.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum HttpVersion {
    /// Over TLS, the server chooses; without TLS, HTTP/1.1.
    Auto,
    /// HTTP/1.1.
    Http1,
    /// HTTP/2.
    Http2,
}

impl<'de> Deserialize<'de> for HttpVersion {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // YAML reads 1.1 and 2 as numbers.
        match text_or_number(deserializer)?.as_str() {
            "auto" => Ok(Self::Auto),
            "1.1" => Ok(Self::Http1),
            "2" | "2.0" => Ok(Self::Http2),
            other => Err(serde::de::Error::custom(format!(
                "`{other}` is not an HTTP version that bench supports: write auto, 1.1 or 2"
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

schema!(HttpVersion, "HttpVersion", |_| schemars::json_schema!({
    "description": "auto, 1.1 or 2.",
    "anyOf": [
        { "type": "string", "enum": ["auto", "1.1", "2"] },
        { "type": "number", "enum": [1.1, 2] }
    ]
}));

/// How the targets' host names are resolved.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Dns {
    /// DNS servers to use instead of the system's: IP addresses such as 10.0.0.2 or 127.0.0.1:5353.
    #[schemars(length(min = 1))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub servers: Option<Vec<Reference>>,
    /// The addresses of names that are not looked up, such as `api.example.com: 10.0.0.7`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hosts: Option<BTreeMap<String, Addresses>>,
}

one_of! {
    /// How requests authenticate: exactly one method.
    pub enum Auth {
        /// No authentication.
        "none" => None(Empty),
        /// HTTP basic authentication.
        "basic" => Basic(Basic),
        /// A bearer token.
        "bearer" => Bearer(Bearer),
        /// A token from Keystone v3. `bench` sends it as X-Auth-Token and renews it before it expires.
        "keystone" => Keystone(Box<Keystone>),
        /// A token by OAuth 2.0's client credentials. `bench` sends it as a bearer token and renews it before it expires.
        "oauth2" => OAuth2(OAuth2),
        /// A token that a program prints. `bench` runs it again before the token expires.
        "command" => Command(TokenCommand),
    }
}

/// A method without settings: `{}`.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Empty {}

/// HTTP basic authentication.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Basic {
    /// The user's name.
    pub username: Reference,
    /// The user's password.
    pub password: SecretReference,
}

/// A bearer token.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Bearer {
    /// The token, without the word `Bearer`.
    pub token: SecretReference,
}

/// OSProfiler's settings in the deployment.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Profiler {
    /// Profile iterations (default true). Without an HMAC key, nothing is profiled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// An HMAC key that the services accept. It signs the trace headers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hmac_key: Option<SecretReference>,
    /// HMAC keys that the services accept. The first one signs the trace headers, unless `hmac_key` is set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hmac_keys: Option<Vec<SecretReference>>,
    /// OSProfiler's connection string for the collector, such as redis://127.0.0.1:6379.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connection_string: Option<SecretReference>,
    /// The headers that carry the trace (default: `osprofiler` and `w3c` with an HMAC key; without one, `w3c` if
    /// spans are received, or if the collector stores OpenTelemetry's spans). `osprofiler`: the signed headers
    /// `X-Trace-Info` and `X-Trace-HMAC`. `w3c`: `traceparent`. `tracestate` and `baggage` add those headers with the
    /// iteration's number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub headers: Option<Vec<TraceHeader>>,
    /// Receive OpenTelemetry's spans at this address while the load runs, by OTLP over HTTP and gRPC: the services need
    /// no other backend. `--receive` overrides it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub receive: Option<Reference>,
    /// With `receive`: pass everything on to this OTLP backend, such as http://collector:4318.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub forward: Option<Reference>,
}

/// A header that carries the trace.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TraceHeader {
    /// OSProfiler's `X-Trace-Info` and `X-Trace-HMAC`. They need an HMAC key.
    Osprofiler,
    /// W3C's `traceparent`.
    W3c,
    /// W3C's `tracestate`, with the iteration's number.
    Tracestate,
    /// W3C's `baggage`, with the iteration's number.
    Baggage,
}

schema!(
    TraceHeader,
    "TraceHeader",
    |_| schemars::json_schema!({ "type": "string", "enum": ["osprofiler", "w3c", "tracestate", "baggage"] })
);

/// The embedded demo service.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Demo {
    /// The percentage of user look-ups that miss the role cache and are slow (default 2).
    #[schemars(range(min = 0.0, max = 100.0))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slow_percent: Option<f64>,
    /// How long the database query of a slow look-up takes (default 80ms).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slow_query: Option<DurationText>,
    /// How much longer all of the demo's work takes, such as 25% (default 0%): a regression to detect.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slowdown: Option<Slowdown>,
    /// How many queries run at once: the size of the pool of connections (default: any number).
    #[schemars(range(min = 1, max = 10_000))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pool: Option<u32>,
}

/// A percentage from 0% to 1000%.
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

text_form!(Slowdown, |text: &str| Self::parse(text), |value: &Self| format!("{}%", value.0));

schema!(Slowdown, "Slowdown", |_| schemars::json_schema!({
    "description": "A percentage from 0% to 1000%: 25%.",
    "type": "string",
    "format": Self::FORMAT,
    "pattern": "^\\s*[0-9.]+\\s*%\\s*$"
}));
