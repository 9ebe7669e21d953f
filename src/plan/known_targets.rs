//! The targets that actions may name.

use std::collections::BTreeMap;

use client::url::BaseUrl;
use config::step;
use text::diagnostics::Fault;
use text::similar::did_you_mean;
use text::yaml::YamlNode;

use super::deployment::{DEFAULT_TARGET, ResolvedDeployment};
use super::references::UNKNOWN;

/// Any base URL will do to find the other faults of an action.
const STAND_IN: &str = "http://127.0.0.1";

/// The targets that a scenario's deployment has.
pub(super) struct KnownTargets<'a> {
    /// The deployment; `None` if it cannot be read. Then no target is reported as missing.
    deployment: Option<&'a ResolvedDeployment>,
    /// The targets that are looked up in the cloud's catalog although the deployment does not list them.
    pub(super) services: BTreeMap<String, BaseUrl>,
}

impl<'a> KnownTargets<'a> {
    pub(super) fn new(deployment: Option<&'a ResolvedDeployment>) -> Self {
        Self { deployment, services: BTreeMap::new() }
    }

    /// The deployment, if it can be read.
    pub(super) fn deployment(&self) -> Option<&'a ResolvedDeployment> {
        self.deployment
    }

    /// True if this address may turn out to be a target's: one whose URL is not known offline.
    pub(super) fn may_be_any(&self) -> bool {
        let unknown = BaseUrl::parse(UNKNOWN).ok();
        self.deployment.is_none_or(|deployment| {
            deployment.targets.iter().any(|(_, target)| Some(target) == unknown.as_ref())
        })
    }

    /// True if a URL goes outside the deployment.
    pub(super) fn are_without(&self, base: &BaseUrl) -> bool {
        self.deployment.is_none_or(|deployment| {
            !deployment.targets.iter().any(|(_, target)| target.origin == base.origin)
                && !deployment.lookup.origins().contains(&base.origin)
        })
    }

    /// The first of them.
    pub(super) fn first(&self) -> Option<&'a BaseUrl> {
        self.deployment?.targets.first().map(|(_, base)| base)
    }

    /// The headers that all requests to the target of an action have.
    pub(super) fn headers(&self, step: &step::Step) -> Vec<(&'static str, String)> {
        let name = step.target.as_deref().unwrap_or(DEFAULT_TARGET);
        self.deployment.map(|deployment| deployment.lookup.headers(name)).unwrap_or_default()
    }

    /// The target that an action names, or the default.
    pub(super) fn named(
        &mut self,
        step: &step::Step,
        (node, place): (&YamlNode, &YamlNode),
        faults: &mut Vec<Fault>,
    ) -> Option<BaseUrl> {
        let stand_in = || BaseUrl::parse(STAND_IN).ok();
        let name = step.target.as_deref().unwrap_or(DEFAULT_TARGET);
        let Some(deployment) = self.deployment else { return stand_in() };
        if let Some((_, base)) = deployment.targets.iter().find(|(target, _)| target == name) {
            return Some(base.clone());
        }
        let span = node.get("target").unwrap_or(place).span.clone();
        match deployment.lookup.unlisted(name) {
            Some(Ok(base)) => {
                self.services.insert(name.to_owned(), base.clone());
                return Some(base);
            }
            Some(Err(complaint)) => {
                faults.push(Fault::of(span, complaint));
                return stand_in();
            }
            None => {}
        }
        let known: Vec<&str> = deployment.targets.iter().map(|(target, _)| target.as_str()).collect();
        let fault =
            Fault::error(span, format!("the deployment `{}` has no target `{name}`", deployment.name));
        let help = did_you_mean(name, known.iter().copied()).map_or_else(
            || format!("name one of its targets: {}", known.join(", ")),
            |known| format!("did you mean `{known}`?"),
        );
        faults.push(fault.help(help));
        stand_in()
    }
}
