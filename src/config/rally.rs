//! Rally's own documents, read without conversion: a deployment (`{"openstack": {…}}`) and an environment's
//! spec (`{"existing@openstack": {…}}`).
//!
//! Keys that Rally knows but `bench` does not use are ignored, as Rally's users expect. Unknown keys are errors, as in
//! Rally.

use schemars::JsonSchema;
use serde::Deserialize;

use text::digits;

use super::reference::{Reference, SecretReference};

/// The top-level keys that make a document one of Rally's.
pub const KEYS: [&str; 2] = ["openstack", "existing@openstack"];

/// A Rally deployment or environment spec with the platform `openstack` (rally-openstack). It may also contain other
/// platforms and Rally's own settings.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct RallyDocument {
    /// The cloud, in a deployment.
    pub openstack: Option<OpenStack>,
    /// The cloud, in an environment's spec.
    #[serde(rename = "existing@openstack")]
    pub existing: Option<OpenStack>,
}

/// The cloud, its administrator and its profiler.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OpenStack {
    /// The URL of Keystone.
    pub auth_url: Reference,
    /// The region whose endpoints of the catalog are the targets.
    pub region_name: Option<Reference>,
    /// Ignored: deprecated in Rally and without effect.
    pub endpoint: Option<String>,
    /// Which endpoints of the catalog are the targets: `public` (the default), `internal` or `admin`.
    pub endpoint_type: Option<String>,
    /// The user who makes the requests.
    pub admin: Option<User>,
    /// Without an `admin`, the first of these makes the requests.
    #[schemars(length(min = 1))]
    pub users: Option<Vec<User>>,
    /// API versions of the services. Ignored.
    #[serde(default, deserialize_with = "digits::rounded_map")]
    pub api_info: Option<serde_json::Map<String, serde_json::Value>>,
    /// Do not verify certificates.
    pub https_insecure: Option<bool>,
    /// A file of PEM certificates to trust.
    pub https_cacert: Option<String>,
    /// A file with the client's PEM certificate chain.
    pub https_cert: Option<String>,
    /// A file with the client's PEM key.
    pub https_key: Option<String>,
    /// OSProfiler's HMAC key.
    pub profiler_hmac_key: Option<SecretReference>,
    /// OSProfiler's connection string for the collector.
    pub profiler_conn_str: Option<SecretReference>,
}

/// A user's credentials.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct User {
    /// The user.
    pub username: Reference,
    /// The password.
    pub password: SecretReference,
    /// The project.
    pub project_name: Option<Reference>,
    /// The project, by its old name.
    pub tenant_name: Option<Reference>,
    /// A domain to which the token is scoped. Ignored.
    pub domain_name: Option<Reference>,
    /// The user's domain.
    pub user_domain_name: Option<Reference>,
    /// The project's domain.
    pub project_domain_name: Option<Reference>,
}
