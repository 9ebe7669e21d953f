//! The contexts of a run, which the crate `openstack` makes and deletes.

use std::sync::Arc;

use client::plain::PlainClient;
use iteration::credentials::CurrentCredentials;
use openstack::cloud::Cloud;
use openstack::contexts::ContextsMessage;
use openstack::keystone::KeystoneIssuer;
use plan::Plan;
use plan::keystone::{Token, TokenIssuer};
use results::directory::RunDirectory;

use crate::event::{Event, Sink};
use crate::files::default_headers;

pub(crate) use openstack::contexts::{RunContexts, UserTokens};

/// What logs in to Keystone.
pub(crate) const ISSUER: &dyn TokenIssuer = &KeystoneIssuer;

/// The contexts of a run that has logged in, if it wants any. `name`: what the names of all things begin with;
/// `directory`: the run's, and whether it stays.
pub(crate) fn contexts(
    plan: &Plan,
    (client, credentials): (PlainClient, Arc<CurrentCredentials>),
    token: Option<&Token>,
    name: String,
    (directory, stays): (&RunDirectory, bool),
    events: &Sink,
) -> Option<RunContexts> {
    if !plan.wants_contexts() {
        return None;
    }
    let ids = token.map(|token| (token.project_id.clone(), token.user_id.clone()));
    let deployment = &plan.deployment;
    let headers = default_headers(Some(deployment));
    let cloud = Cloud::of((deployment, headers), client, credentials, ids.unwrap_or_default())?;
    let events = Arc::clone(events);
    let messages = Box::new(move |message: ContextsMessage<'_>| match message {
        ContextsMessage::Progress(text) => events.event(&Event::Contexts(text)),
        ContextsMessage::Left(text) => events.event(&Event::ContextsLeft(text)),
    });
    Some(RunContexts::new(cloud, plan, name, (directory.path(), stays), messages))
}
