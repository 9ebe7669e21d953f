//! How to log in to Keystone, as written. The keys are those of `clouds.yaml` and of the variables `OS_*`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::reference::{Reference, SecretReference};

/// Keystone v3: a user with a password, a token, or an application credential; and what the token is for.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Keystone {
    /// The URL of Keystone, such as http://127.0.0.1:5000/v3.
    pub auth_url: Reference,
    /// The user's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub username: Option<Reference>,
    /// The user's id, instead of the name and the domain.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_id: Option<Reference>,
    /// The user's password.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub password: Option<SecretReference>,
    /// The name of the user's domain (default `Default`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_domain_name: Option<Reference>,
    /// The id of the user's domain, instead of its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_domain_id: Option<Reference>,
    /// A token, instead of a user with a password. Without a project, domain or system, it is used as it is. It cannot
    /// be renewed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<SecretReference>,
    /// The id of an application credential, instead of a user with a password. It has a project of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub application_credential_id: Option<Reference>,
    /// The name of an application credential, with its user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub application_credential_name: Option<Reference>,
    /// The secret of the application credential.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub application_credential_secret: Option<SecretReference>,
    /// The name of the project to which the token is scoped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project_name: Option<Reference>,
    /// The id of the project, instead of its name and domain.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project_id: Option<Reference>,
    /// The name of the project's domain (default `Default`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project_domain_name: Option<Reference>,
    /// The id of the project's domain, instead of its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project_domain_id: Option<Reference>,
    /// The name of the domain to which the token is scoped, instead of a project.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub domain_name: Option<Reference>,
    /// The id of that domain, instead of its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub domain_id: Option<Reference>,
    /// `all`: the token is for the whole cloud, instead of a project.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system_scope: Option<Reference>,
}
