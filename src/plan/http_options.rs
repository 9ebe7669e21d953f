//! The HTTP options of a run, from its deployment and its scenario.

use crate::client::guard::Guard;
use crate::client::options::{Connections, ConnectionsMax, HttpOptions, Limits};
use crate::client::url::Origin;
use crate::config::http::{self, Http};

use super::deployment::Deployment;

/// The HTTP options of a run. `literals` are the origins of the scenario's targets and complete URLs.
pub(super) fn options(
    scenario: Option<&Http>,
    deployment: &Deployment,
    literals: Vec<Origin>,
) -> HttpOptions {
    let scenario = scenario.copied().unwrap_or_default();
    let usual = Limits::default();
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
        limits: Limits {
            head_bytes_max: scenario.max_head.map_or(usual.head_bytes_max, |head| size(head.0)),
            headers_max: scenario.max_headers.map_or(usual.headers_max, |most| size(most.into())),
            trailer_bytes_max: scenario.max_trailers.map_or(usual.trailer_bytes_max, |most| size(most.0)),
        },
        dns: deployment.dns.clone(),
        guard: Guard::new(
            deployment.targets.iter().map(|(_, target)| target.origin.clone()).collect(),
            literals,
            deployment.targets_allowed.clone(),
        ),
    }
}
