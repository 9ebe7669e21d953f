//! The HTTP options of a run, from its deployment and its scenario.

use client::cookies::CookieMode;
use client::guard::Guard;
use client::options::{Connections, ConnectionsMax, HttpOptions, Limits, Resend};
use client::url::Origin;
use config::http::{self, Http};
use text::diagnostics::Fault;
use text::yaml::YamlNode;
use text::yaml_place::at;

use super::WorkloadPlan;
use super::deployment::ResolvedDeployment;
use terms::runner::Model;

/// The HTTP options of a run. `literals` are the origins of the scenario's targets and complete URLs.
pub(super) fn options(
    scenario: Option<&Http>,
    deployment: &ResolvedDeployment,
    literals: Vec<Origin>,
) -> HttpOptions {
    let scenario = scenario.copied().unwrap_or_default();
    let usual = Limits::default();
    let targets = deployment.targets.iter().map(|(_, target)| target.origin.clone());
    let size = |size: u64| usize::try_from(size).unwrap_or(usize::MAX);
    HttpOptions {
        version: deployment.http_version,
        connections: match scenario.connections {
            None | Some(http::Connections::User) => Connections::User,
            Some(http::Connections::Iteration) => Connections::Iteration,
            Some(http::Connections::Shared) => Connections::Shared,
        },
        connections_max: scenario.max_connections.map_or_else(ConnectionsMax::default, |most| {
            ConnectionsMax(usize::try_from(most).unwrap_or(usize::MAX))
        }),
        resend: match scenario.resend {
            None | Some(http::Resend::Safe) => Resend::Safe,
            Some(http::Resend::Never) => Resend::Never,
        },
        limits: Limits {
            head_bytes_max: scenario.max_head.map_or(usual.head_bytes_max, |head| size(head.0)),
            headers_max: scenario.max_headers.map_or(usual.headers_max, |most| size(most.into())),
            trailer_bytes_max: scenario.max_trailers.map_or(usual.trailer_bytes_max, |most| size(most.0)),
        },
        cookies: match scenario.cookies {
            None | Some(http::Cookies::Iteration) => CookieMode::Iteration,
            Some(http::Cookies::User) => CookieMode::User,
            Some(http::Cookies::Off) => CookieMode::Off,
        },
        server_names: deployment.server_names.clone(),
        proxies: deployment.proxies.clone(),
        dns: deployment.dns.clone(),
        guard: Guard::new(
            targets.chain(deployment.lookup.origins()).collect(),
            literals,
            deployment.targets_allowed.clone(),
        ),
    }
}

/// The fault of cookies of virtual users for a runner that has none.
pub(super) fn faulty_cookies(http: &Http, workloads: &[WorkloadPlan], root: &YamlNode) -> Option<Fault> {
    if http.cookies != Some(http::Cookies::User) {
        return None;
    }
    let open = |workload: &&WorkloadPlan| matches!(workload.runner.model, Model::Open(_));
    let workload = workloads.iter().find(open)?;
    let message = format!(
        "`cookies: user` needs a fixed number of users, but iterations of `{}` start by the clock",
        workload.name
    );
    let fault = Fault::error(at(root, &["http", "cookies"]).span.clone(), message);
    Some(fault.help("write `cookies: iteration`, or use a `constant` runner"))
}
