//! Rally's own deployment documents: `{"openstack": {…}}`, read as they are.
//!
//! Keys that Rally knows and `bench` has no use for are passed over, as Rally's users expect.

use schemars::JsonSchema;
use serde::Deserialize;

use super::reference::Reference;

/// A Rally environment spec with the platform `openstack` (rally-openstack 4.1).
#[derive(Debug, Deserialize, JsonSchema)]
pub struct RallyDocument {
    /// The cloud.
    pub openstack: OpenStack,
}

/// The cloud, its administrator and its profiler.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct OpenStack {
    /// Keystone's URL.
    pub auth_url: Reference,
    /// The region whose endpoints are looked up.
    pub region_name: Option<Reference>,
    /// `public`, `internal` or `admin`.
    pub endpoint_type: Option<String>,
    /// Who makes the requests.
    pub admin: Admin,
    /// Do not verify certificates.
    pub https_insecure: Option<bool>,
    /// A file of PEM certificates to trust.
    pub https_cacert: Option<String>,
    /// A file with the client's PEM certificate chain.
    pub https_cert: Option<String>,
    /// A file with the client's PEM key.
    pub https_key: Option<String>,
    /// OSProfiler's HMAC key.
    pub profiler_hmac_key: Option<Reference>,
    /// OSProfiler's connection string of the collector.
    pub profiler_conn_str: Option<Reference>,
}

/// The administrator's credentials.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Admin {
    /// The user.
    pub username: Reference,
    /// The password.
    pub password: Reference,
    /// The project.
    pub project_name: Option<Reference>,
    /// The project, by its old name.
    pub tenant_name: Option<Reference>,
    /// The user's domain.
    pub user_domain_name: Option<Reference>,
    /// The project's domain.
    pub project_domain_name: Option<Reference>,
}
