//! Stands for the crate `openstack` in a build without it.

use std::sync::Arc;

use client::plain::PlainClient;
use iteration::credentials::CurrentCredentials;
use iteration::crowd::Crowds;
use plan::Plan;
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
    use super::*;

    #[test]
    fn a_build_without_openstack_says_what_to_do() {
        let refused = cleanup(&CleanupOptions::default(), &Environment::default(), &Interrupt::new());
        let said = refused.map(|outcome| outcome.deleted).unwrap_err().to_string();
        assert!(said.contains("build it with the feature `openstack`"), "{said}");
    }
}
