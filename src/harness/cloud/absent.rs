//! Stands for the crate `openstack` in a build without it.

use std::sync::Arc;

use client::plain::PlainClient;
use iteration::credentials::CurrentCredentials;
use iteration::crowd::Crowds;
use plan::Plan;
use plan::deployment::{Auth, ResolvedDeployment};
use plan::keystone::{NoIssuer, Token, TokenIssuer};
use results::directory::RunDirectory;

use super::{CleanupOptions, CleanupOutcome};
use crate::error::HarnessError;
use crate::event::Sink;
use crate::interrupt::Interrupt;
use crate::options::Environment;

/// Refuses to log in to Keystone. So no run of such a build ever has contexts.
pub(crate) const ISSUER: &dyn TokenIssuer = &NoIssuer;

/// Contexts, of which there are none.
pub(crate) enum RunContexts {}

/// Tokens, of which there are none.
pub(crate) enum UserTokens {}

pub(crate) struct ProvisionedCloud {
    pub(crate) crowds: Crowds,
    pub(crate) tokens: Arc<UserTokens>,
}

impl RunContexts {
    pub(crate) fn is_clean(&self) -> bool {
        match *self {}
    }

    pub(crate) async fn make(&self, _: &Plan) -> Result<ProvisionedCloud, String> {
        match *self {}
    }

    pub(crate) async fn delete(&self) -> Vec<String> {
        match *self {}
    }
}

impl UserTokens {
    pub(crate) async fn keep_fresh(&self) {
        match *self {}
    }
}

pub(crate) fn contexts(
    _: &Plan,
    _: (PlainClient, Arc<CurrentCredentials>),
    _: Option<&Token>,
    _: String,
    _: (&RunDirectory, bool),
    _: &Sink,
) -> Option<RunContexts> {
    None
}

/// Refuses a deployment that logs in to Keystone.
pub(crate) fn can_log_in(deployment: &ResolvedDeployment) -> Result<(), HarnessError> {
    match deployment.auth {
        Auth::Keystone(_) => Err(HarnessError::usage(format!(
            "{}: this build of bench cannot log in to Keystone",
            deployment.file.display()
        ))
        .remedy("build it with the feature `openstack`")),
        _ => Ok(()),
    }
}

/// Refuses.
///
/// # Errors
/// Always: only the crate `openstack` knows what runs have left.
pub fn cleanup(_: &CleanupOptions, _: &Environment, _: &Interrupt) -> Result<CleanupOutcome, HarnessError> {
    Err(HarnessError::usage("this build of bench has no OpenStack")
        .remedy("build it with the feature `openstack`"))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use plan::deployment;
    use plan::references::Env;
    use text::diagnostics::SourceText;

    use super::*;

    #[test]
    fn a_build_without_openstack_says_what_to_do() {
        let refused = cleanup(&CleanupOptions::default(), &Environment::default(), &Interrupt::new());
        let said = refused.map(|outcome| outcome.deleted).unwrap_err().to_string();
        assert!(said.contains("build it with the feature `openstack`"), "{said}");
    }

    #[test]
    fn a_login_to_keystone_is_refused_before_a_load() {
        let keystone = "auth: {keystone: {auth_url: http://127.0.0.1:1/v3, username: u, password: p}}\n";
        for (auth, refused) in [("", false), ("auth: {bearer: {token: t}}\n", false), (keystone, true)] {
            let source = SourceText::new("d.yaml", format!("target: http://127.0.0.1:1\n{auth}"));
            let read = deployment::load(Path::new("d.yaml"), source, Env::new(&|_| None)).ok().unwrap();
            assert_eq!(can_log_in(&read).is_err(), refused, "{auth}");
        }
    }
}
