//! Before the load: targets that are services of the cloud's catalog, and the types of gRPC's messages.
//!
//! The catalog comes with the token. So bench logs in first, and plans again with the URLs that it then knows: the plan of
//! a load never has a URL that may change. It plans again too when services have said what their messages are.

use std::sync::Arc;

use crate::cloud::ISSUER;
use crate::error::HarnessError;
use crate::event::warn;
use crate::reflection;
use client::plain::PlainClient;
use client::tls;
use config::Document;
use config::scenario::Scenario;
use plan::Plan;
use plan::deployment::{Auth, ResolvedDeployment, is_awaited};
use plan::keystone::Token;

use super::planned::planned;
use super::{Round, RunExecution};

/// What is needed to plan again.
pub(super) struct ReplanInputs {
    pub(super) document: Document<Scenario>,
    pub(super) deployment: ResolvedDeployment,
    /// Warnings about this machine.
    pub(super) warnings: Vec<String>,
    /// How many traces are fetched in a round: of slow and of other iterations.
    pub(super) traces: Option<(u32, u32)>,
}

/// True if the plan has a target whose URL is not known yet, contexts, which need the whole catalog, or calls whose
/// messages are not known.
pub(super) fn is_needed(plan: &Plan) -> bool {
    wants_catalog(plan) || !plan.services_awaited().is_empty()
}

/// True if something is to be looked up in the cloud's catalog.
fn wants_catalog(plan: &Plan) -> bool {
    let mut targets = plan.deployment.targets.iter();
    plan.wants_contexts()
        || plan.deployment.lookup.is_needed()
        || targets.any(|(_, url)| is_awaited(&url.origin))
}

impl ReplanInputs {
    pub(super) fn new(
        (document, deployment): (Document<Scenario>, ResolvedDeployment),
        warnings: Vec<String>,
        round: Option<&Round<'_>>,
    ) -> Box<Self> {
        let traces = round.map(|round| (round.traces, round.random_traces));
        Box::new(Self { document, deployment, warnings, traces })
    }
}

impl RunExecution {
    /// Logs in and asks services, as far as that is needed, and plans again. The plan is new and complete, and the token
    /// still unused.
    pub(super) async fn look_up(
        &self,
        awaiting: ReplanInputs,
    ) -> Result<(Plan, Option<Token>), HarnessError> {
        let ReplanInputs { document, mut deployment, warnings, traces } = awaiting;
        let replanned = |deployment: &ResolvedDeployment| {
            planned(&self.options, &document, deployment.clone(), self.task.as_ref())
        };
        let mut token = None;
        if wants_catalog(&self.plan) {
            token = Some(look_up_targets(&mut deployment).await?);
        }
        let mut plan = replanned(&deployment)?;
        if !plan.services_awaited().is_empty() {
            deployment.schemas = reflection::schemas(&plan).await?;
            plan = replanned(&deployment)?;
        }
        let is_new = |warning: &&String| !self.plan.warnings.contains(warning);
        warn(&self.events, &plan.warnings.iter().filter(is_new).cloned().collect::<Vec<_>>());
        plan.warnings.extend(warnings);
        if let Some((slow, random)) = traces {
            plan.traces.slow = plan.traces.slow.min(slow);
            plan.traces.others = plan.traces.others.max(random);
        }
        if let Some(part) = &self.share.part {
            part.take(&mut plan, self.options.shards.together.is_some())?;
        }
        plan.draw_arrivals(self.identity.data_seed);
        Ok((plan, token))
    }
}

/// Logs in, and gives targets the URLs that the catalog has for them.
async fn look_up_targets(deployment: &mut ResolvedDeployment) -> Result<Token, HarnessError> {
    let Auth::Keystone(credentials) = &deployment.auth else {
        return Err(HarnessError::input("only Keystone has a catalog of services"));
    };
    let wants_tls = deployment.auth.wants_tls();
    let tls = tls::config(&deployment.tls, wants_tls).map_err(HarnessError::input)?;
    let client = PlainClient::through(&tls, &deployment.dns, &deployment.proxies)
        .map_err(HarnessError::unreachable)?;
    let token = ISSUER.issue(&client, credentials).await.map_err(HarnessError::unreachable)?;
    deployment.look_up(Arc::clone(&token.catalog)).map_err(HarnessError::faults)?;
    Ok(token)
}
