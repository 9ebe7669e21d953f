//! Runs the steps of an iteration in the order that the scenario says.
//!
//! Plain requests and pauses run in one future. Every other step has its own, so that a plan without them needs no
//! memory for them. What a request is, is [`super::lane`]'s.

use std::sync::Arc;
use std::time::Instant;

use crate::base::masking::masked_with;
use crate::base::template::Variables;
use crate::measure::errors::Failure;
use crate::plan::action::Action;
use crate::plan::step::Step;

use super::lane::{Attempted, Branch, Fault, Lane, Pass};

/// Why an iteration ends before its last step.
pub(super) enum Ending {
    /// A step failed.
    Failed(Failure),
    /// The scenario stops it, without a fault.
    Stopped,
}

impl Lane {
    /// Runs steps one after another.
    ///
    /// # Errors
    /// The iteration ends here.
    pub(super) async fn steps(
        &mut self,
        pass: &Pass<'_>,
        branch: &mut Branch,
        steps: &[Step],
        variables: &mut Variables,
    ) -> Result<(), Ending> {
        for step in steps {
            match step {
                Step::Think(pause) => {
                    let waited = pass.wait(Instant::now() + *pause).await;
                    waited.map_err(|fault| failed(fault, None, variables))?;
                }
                Step::Action(action) => {
                    let ended = self.action(pass, branch, action, variables).await;
                    ended.map_err(|fault| failed(fault, Some(&action.name), variables))?;
                }
            }
        }
        Ok(())
    }

    /// A request within its own trace point.
    async fn action(
        &mut self,
        pass: &Pass<'_>,
        branch: &mut Branch,
        action: &Action,
        variables: &mut Variables,
    ) -> Result<(), Fault> {
        let (_, parent) = branch.begin(pass);
        let before = Attempted { parent, ..Attempted::default() };
        let attempt = self.attempt(pass, branch, action, variables, &before).await;
        branch.end(parent);
        let attempt = attempt?;
        self.actions.push(attempt.sample);
        attempt.verdict
    }
}

/// The failure of an iteration, without secrets.
fn failed((class, message): Fault, action: Option<&Arc<str>>, variables: &Variables) -> Ending {
    Ending::Failed(Failure {
        class: class.to_owned(),
        action: action.map(Arc::clone),
        message: masked_with(&message, &variables.secrets()).into_owned(),
    })
}
