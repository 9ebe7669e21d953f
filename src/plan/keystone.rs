//! A login to Keystone v3, as deployments describe it, and the token that it gives.
//!
//! Nothing here sends requests: a [`TokenIssuer`] does, which is in the crate `openstack`.

use std::fmt::Debug;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use base::secret::Secret;
use client::plain::{PlainClient, PlainError};
use client::url::BaseUrl;

use super::catalog::EndpointCatalog;

/// The credentials.
#[derive(Clone)]
pub struct Credentials {
    /// Keystone's v3 URL.
    pub auth_url: BaseUrl,
    /// Who logs in, and with what.
    pub identity: Identity,
    /// What the token is for.
    pub scope: Scope,
}

/// Who logs in, and with what.
#[derive(Clone)]
pub enum Identity {
    /// A user with a password.
    Password {
        /// The user.
        user: KeystoneReference,
        /// The password.
        password: Secret,
    },
    /// A token that was issued before. Without a scope, it is used as it is.
    Token(Secret),
    /// An application credential, which has a scope of its own.
    ApplicationCredential {
        /// Its id, or its name and its user.
        credential: Application,
        /// Its secret.
        secret: Secret,
    },
}

/// An application credential.
#[derive(Clone)]
pub enum Application {
    /// By its id.
    Id(String),
    /// By its name.
    Name {
        /// Its name.
        name: String,
        /// Whose it is.
        user: KeystoneReference,
    },
}

/// A user or project: by id, or by name and domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeystoneReference {
    /// By its id.
    Id(String),
    /// By its name.
    Name {
        /// Its name.
        name: String,
        /// Its domain.
        domain: Domain,
    },
}

/// A domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Domain {
    /// By its id.
    Id(String),
    /// By its name.
    Name(String),
}

/// What a token is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// A project.
    Project(KeystoneReference),
    /// A domain.
    Domain(Domain),
    /// The whole cloud.
    System,
    /// What the credentials themselves say.
    Own,
}

impl Domain {
    /// Its name, if that is known.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        if let Self::Name(name) = self { Some(name) } else { None }
    }
}

impl KeystoneReference {
    /// Its name, if that is known.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        if let Self::Name { name, .. } = self { Some(name) } else { None }
    }

    /// Its id, if that is known.
    #[must_use]
    pub fn id(&self) -> Option<&str> {
        if let Self::Id(id) = self { Some(id) } else { None }
    }

    /// Its domain's name, if that is known.
    #[must_use]
    pub fn domain_name(&self) -> Option<&str> {
        if let Self::Name { domain, .. } = self { domain.name() } else { None }
    }
}

impl Credentials {
    /// The user, if it is known.
    #[must_use]
    pub fn user(&self) -> Option<&KeystoneReference> {
        match &self.identity {
            Identity::Password { user, .. } => Some(user),
            Identity::ApplicationCredential { credential: Application::Name { user, .. }, .. } => Some(user),
            Identity::Token(_) | Identity::ApplicationCredential { .. } => None,
        }
    }

    /// True if logging in again gives a token that is valid for longer. A token from a token ends with that.
    #[must_use]
    pub fn can_renew(&self) -> bool {
        !matches!(self.identity, Identity::Token(_))
    }

    /// What the template variable `auth` has: the known texts, by name.
    #[must_use]
    pub fn values(&self) -> Vec<(&'static str, &str)> {
        let user = self.user();
        let mut values = vec![
            ("username", user.and_then(KeystoneReference::name)),
            ("user_domain_name", user.and_then(KeystoneReference::domain_name)),
            ("user_id", user.and_then(KeystoneReference::id)),
        ];
        match &self.identity {
            Identity::Password { password, .. } => values.push(("password", Some(password.expose()))),
            // It is there as `auth.token` anyway.
            Identity::Token(_) => {}
            Identity::ApplicationCredential { credential, secret } => {
                let (key, name) = match credential {
                    Application::Id(id) => ("application_credential_id", id),
                    Application::Name { name, .. } => ("application_credential_name", name),
                };
                values.push((key, Some(name)));
                values.push(("application_credential_secret", Some(secret.expose())));
            }
        }
        if let Scope::Project(project) = &self.scope {
            values.push(("project_name", project.name()));
            values.push(("project_domain_name", project.domain_name()));
            values.push(("project_id", project.id()));
        }
        values.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
    }
}

/// A token.
#[derive(Clone)]
pub struct Token {
    /// The value of `X-Auth-Token`.
    pub value: Secret,
    /// How long it is valid from now.
    pub valid_for: std::time::Duration,
    /// The services that it can be used with.
    pub catalog: Arc<dyn EndpointCatalog>,
    /// The project that it is for, if it is for one.
    pub project_id: Option<String>,
    /// The id of its user.
    pub user_id: Option<String>,
}

/// A token that is being asked for.
pub type PendingToken<'a> = Pin<Box<dyn Future<Output = Result<Token, PlainError>> + Send + 'a>>;

/// Logs in to Keystone.
pub trait TokenIssuer: Debug + Send + Sync {
    /// Asks for a token. It fails if there is no answer, or a refusal.
    fn issue<'a>(&'a self, client: &'a PlainClient, login: &'a Credentials) -> PendingToken<'a>;
}

/// What a build without the crate `openstack` has: it cannot log in.
#[derive(Debug)]
pub struct NoIssuer;

impl TokenIssuer for NoIssuer {
    fn issue<'a>(&'a self, _: &'a PlainClient, _: &'a Credentials) -> PendingToken<'a> {
        let text = "this build of bench cannot log in to Keystone; build it with the feature `openstack`";
        Box::pin(std::future::ready(Err(PlainError(text.to_owned()))))
    }
}
