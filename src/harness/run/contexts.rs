//! Contexts in the life of a run: made before `setup`, deleted after `teardown`, whatever happened in between.

use super::RunExecution;
use super::prepare::PreflightResult;
use crate::cloud::{self, RunContexts, UserTokens};
use crate::run_name;
use iteration::Context;
use measure::errors::{Failure, FailureClass};
use runner::stop::Stop;

impl RunExecution {
    /// The contexts of this run, if it wants any.
    pub(super) fn contexts(&self, prepared: &PreflightResult) -> Option<RunContexts> {
        let name = run_name::of_run(self.identity.clock.wall_anchor_unix_ns(), self.identity.names_id);
        cloud::contexts(
            &self.plan,
            (prepared.client.clone(), prepared.context.credentials.clone()),
            self.cloud.token.as_ref(),
            name,
            (&self.directory, self.options.once.is_none()),
            &self.events,
        )
    }

    /// Makes the contexts, unless the run is stopped meanwhile. The tokens of users are renewed from now on.
    pub(super) fn make_contexts(&self, context: &mut Context, stop: &Stop) -> Result<(), Failure> {
        let Some(contexts) = &self.cloud.contexts else { return Ok(()) };
        let made = self.runtime.block_on(async {
            tokio::select! {
                made = contexts.make(&self.plan) => made.map(Some),
                () = stop.stopping() => Ok(None),
            }
        });
        let ready = made.map_err(|message| Failure {
            class: FailureClass::Contexts,
            action: None,
            message: format!("contexts: {message}"),
            seen: None,
        })?;
        if let Some(ready) = ready {
            context.crowds = ready.crowds;
            let tokens = ready.tokens;
            self.runtime.spawn(async move { UserTokens::keep_fresh(&tokens).await });
        }
        Ok(())
    }

    /// Deletes what the run has made in the cloud. Gives what to say about what is left, and about users' tokens.
    pub(super) fn delete_contexts(&self) -> Vec<String> {
        let Some(contexts) = &self.cloud.contexts else { return Vec::new() };
        self.runtime.block_on(contexts.delete())
    }
}
