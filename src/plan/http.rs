//! How HTTP is spoken: what the deployment says of the servers and the scenario of its requests.

use std::net::{IpAddr, SocketAddr};

use crate::base::complaint::Complaint;
use crate::client::guard::Guard;
use crate::client::options::{Connections, ConnectionsMax, HttpOptions, Limits, Version};
use crate::client::url::Origin;
use crate::config::deployment::HttpVersion;
use crate::config::scenario::{self, Http};

use super::deployment::Deployment;

const DNS_PORT: u16 = 53;

/// The options of a run.
/// `literals` are the whole URLs that the scenario names.
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
            None | Some(scenario::Connections::User) => Connections::User,
            Some(scenario::Connections::Iteration) => Connections::Iteration,
            Some(scenario::Connections::Shared) => Connections::Shared,
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

/// The version that a deployment names.
pub(super) fn version(written: Option<HttpVersion>) -> Version {
    match written {
        None | Some(HttpVersion::Auto) => Version::Auto,
        Some(HttpVersion::Http1) => Version::Http1,
        Some(HttpVersion::Http2) => Version::Http2,
    }
}

/// A DNS server's address, with or without a port.
pub(super) fn server(text: &str) -> Result<SocketAddr, Complaint> {
    let text = text.trim();
    text.parse::<SocketAddr>()
        .or_else(|_| text.parse::<IpAddr>().map(|address| SocketAddr::new(address, DNS_PORT)))
        .map_err(|_| {
            let what = format!("`{text}` is not a DNS server's address");
            Complaint::new(what, "write it as 10.0.0.2 or 10.0.0.2:53")
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_addresses_with_or_without_a_port() {
        for (text, expected) in [
            ("10.0.0.2", Some("10.0.0.2:53")),
            (" 127.0.0.1:5353 ", Some("127.0.0.1:5353")),
            ("::1", Some("[::1]:53")),
            ("[::1]:5353", Some("[::1]:5353")),
            ("ns.example", None),
            ("", None),
        ] {
            let server = server(text).map(|server| server.to_string());
            assert_eq!(server.as_deref().ok(), expected, "{text}: {server:?}");
        }
    }
}
