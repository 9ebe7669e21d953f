//! Before the load: checks that targets and collector answer, and logs in.

use std::sync::Arc;
use std::time::Duration;

use super::RunExecution;
use crate::cloud::ISSUER;
use crate::error::HarnessError;
use crate::event::Event;
use crate::files;
use crate::run_name;
use client::options::Settings;
use client::plain::PlainClient;
use client::pool;
use client::tls;
use client::url::Origin;
use iteration::Context;
use iteration::call::http::fixed::FixedPartsCache;
use iteration::credentials::{CurrentCredentials, auth_variable};
use iteration::crowd::Crowds;
use osprofiler::signing::Signer;
use plan::Plan;
use plan::scenario::RUN;
use plan::step::{PlanStep, actions};
use text::template::Value;

const PROBE_LIMIT: Duration = Duration::from_secs(5);

/// What the load needs, after everything has answered.
pub(super) struct PreflightResult {
    pub(super) context: Context,
    pub(super) client: PlainClient,
    pub(super) token_valid_for: Option<Duration>,
}

impl RunExecution {
    /// Everything that must answer before the load may start.
    pub(super) async fn prepare(&self) -> Result<PreflightResult, HarnessError> {
        let deployment = &self.plan.deployment;
        let mut origins = Vec::new();
        for action in all_steps(&self.plan).flat_map(actions) {
            let origin = (&action.call.base().origin, action.call.version());
            if !origins.contains(&origin) {
                origins.push(origin);
            }
        }
        let wants_tls = deployment.auth.wants_tls()
            || self.options.watch.wants_tls()
            || origins.iter().any(|(origin, _)| origin.tls)
            || self.plan.http.guard.allows_others()
            || self.plan.wants_contexts();
        let tls = tls::config(&deployment.tls, wants_tls).map_err(HarnessError::input)?;
        let http = Settings::new(&tls, self.plan.http.clone());
        for (origin, version) in origins {
            let answered = pool::probe(origin, version, &http, PROBE_LIMIT).await;
            answered.map_err(|error| self.does_not_answer(origin, error))?;
        }
        if let Some(connection) = self.collector() {
            collect::probe(connection).await.map_err(|error| {
                HarnessError::unreachable(format!(
                    "the collector does not answer: {error}\nTraced services fail without it: start it, or run with --no-profile."
                ))
            })?;
        }
        let client = PlainClient::through(&tls, &self.plan.http.dns, &self.plan.http.proxies)
            .map_err(HarnessError::unreachable)?;
        let (credentials, token_valid_for) =
            CurrentCredentials::establish(&deployment.auth, &client, ISSUER, self.cloud.token.clone())
                .await
                .map_err(HarnessError::unreachable)?;
        let context = self.context(http, Arc::new(credentials));
        Ok(PreflightResult { context, client, token_valid_for })
    }

    /// An origin that does not answer, and where it is named if the user did not write it.
    fn does_not_answer(&self, origin: &Origin, error: impl std::fmt::Display) -> HarnessError {
        let unreachable = HarnessError::unreachable(error);
        let lookup = &self.plan.deployment.lookup;
        let of = self.plan.deployment.targets.iter().find(|(_, url)| url.origin == *origin);
        match of.filter(|_| self.cloud.token.is_some() && lookup.has_origin(origin)) {
            Some((name, _)) => unreachable.remedy(format!(
                "the cloud's catalog names it as the endpoint of the target `{name}`: choose another with `interface` or `region`, or give the target a `url`"
            )),
            None => unreachable,
        }
    }

    /// Passes the texts of `log` steps on.
    fn log(&self) -> Box<dyn Fn(&str) + Send + Sync> {
        let events = Arc::clone(&self.events);
        Box::new(move |text| events.event(&Event::Logged(text)))
    }

    fn context(&self, http: Arc<Settings>, credentials: Arc<CurrentCredentials>) -> Context {
        let deployment = &self.plan.deployment;
        let mut variables = self.plan.variables.clone();
        for (_, value) in variables.iter_mut().filter(|(name, _)| &**name == "auth") {
            *value = auth_variable(value.clone(), Arc::clone(&credentials));
        }
        if !variables.iter().any(|(name, _)| &**name == RUN) {
            let name = run_name::of_run(self.identity.clock.wall_anchor_unix_ns(), self.identity.names_id);
            variables.push((Arc::from(RUN), Value::from(name)));
        }
        Context {
            clock: self.identity.clock,
            ids: self.identity.ids,
            propagation: self.plan.propagation,
            signer: deployment.hmac_key().filter(|_| self.plan.propagation.osprofiler).and_then(Signer::new),
            headers: files::default_headers(Some(deployment)),
            foreign_headers: files::default_headers(None),
            credentials,
            crowds: Crowds::default(),
            http,
            data_seed: self.identity.data_seed,
            variables: Arc::new(variables),
            log: self.log(),
            observed: self.options.once.clone(),
            fixed_parts: FixedPartsCache::default(),
        }
    }
}

fn all_steps(plan: &Plan) -> impl Iterator<Item = &[PlanStep]> {
    let workloads = plan.workloads.iter().flat_map(|workload| workload.lists().map(Vec::as_slice));
    workloads.chain([plan.setup.as_slice(), plan.teardown.as_slice()])
}
