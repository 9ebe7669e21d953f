//! Which hosts the load may reach.
//!
//! The user wrote the targets of the deployment and the complete URLs in the scenario. If a template, an
//! answer or a redirect names a host, it must be one of these, or the deployment must allow it. This is
//! checked when a connection is opened, so for every request: before the name is resolved, and again by
//! its addresses.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use url::Host;

use base::complaint::Complaint;

use super::error::ClientError;
use super::url::Origin;

/// The hosts that may be reached. The default is none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Guard {
    targets: Vec<Origin>,
    literals: Vec<Origin>,
    allowed: Vec<HostPattern>,
    unrestricted: bool,
}

/// An allowed host, or all hosts below a domain; with a port, or with any.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPattern {
    host: Host,
    /// True for `*.host`.
    below: bool,
    port: Option<u16>,
}

impl HostPattern {
    /// Parses `host`, `host:port`, `*.example.com`, or an address.
    ///
    /// # Errors
    /// What is wrong, and how to write a host.
    pub fn parse(text: &str) -> Result<Self, Complaint> {
        const USAGE: &str =
            "write a host, host:port, an address, or *.example.com for all hosts below a domain";
        let wrong = |what: &str| Err(Complaint::new(format!("`{text}` is not a host: {what}"), USAGE));
        let trimmed = text.trim();
        if let Ok(address) = trimmed.parse::<Ipv6Addr>() {
            return Ok(Self { host: Host::Ipv6(address), below: false, port: None });
        }
        if trimmed.contains(['/', '@', '?', '#', '\\']) || trimmed.contains(char::is_whitespace) {
            return wrong("it is a URL");
        }
        let (name, port) = match trimmed.rsplit_once(':') {
            Some((name, port)) if !port.ends_with(']') => match port.parse::<u16>() {
                Ok(port) if port > 0 => (name, Some(port)),
                _ => return wrong("its port is not one from 1 to 65535"),
            },
            _ => (trimmed, None),
        };
        let (name, below) = name.strip_prefix("*.").map_or((name, false), |domain| (domain, true));
        let Ok(host) = Host::parse(name.trim_end_matches('.')) else { return wrong("it cannot be read") };
        match &host {
            Host::Domain(name) if name.contains('*') => wrong("a `*` is only allowed before the first dot"),
            Host::Domain(name) if below && !name.contains('.') => wrong("that is a whole top-level domain"),
            Host::Ipv4(_) | Host::Ipv6(_) if below => wrong("an address has no subdomains"),
            _ => Ok(Self { host, below, port }),
        }
    }

    fn fits(&self, host: &Host, port: u16) -> bool {
        if self.port.is_some_and(|own| own != port) {
            return false;
        }
        match (&self.host, host) {
            (Host::Domain(domain), Host::Domain(name)) if self.below => {
                name.strip_suffix(domain.as_str()).is_some_and(|rest| rest.len() > 1 && rest.ends_with('.'))
            }
            (own, host) => own == host,
        }
    }
}

impl Guard {
    /// Allows requests to these targets, to these other URLs that the user wrote, and to allowed hosts.
    #[must_use]
    pub fn new(targets: Vec<Origin>, literals: Vec<Origin>, allowed: Vec<HostPattern>) -> Self {
        Self { targets, literals, allowed, unrestricted: false }
    }

    /// For callers that check hosts by other means.
    #[must_use]
    pub fn unrestricted() -> Self {
        Self { unrestricted: true, ..Self::default() }
    }

    /// True for the deployment's targets: only these receive credentials and signed headers.
    #[must_use]
    pub fn is_target(&self, origin: &Origin) -> bool {
        self.targets.iter().any(|target| is_same(target, origin))
    }

    /// True if the deployment allows further hosts.
    #[must_use]
    pub fn allows_others(&self) -> bool {
        !self.allowed.is_empty()
    }

    /// Refuses an origin before its name is resolved.
    pub(super) fn admit(&self, origin: &Origin) -> Result<(), ClientError> {
        if self.is_written(origin) || self.is_allowed(origin) {
            return Ok(());
        }
        let scheme = if origin.tls { "https" } else { "http" };
        Err(ClientError::Target(format!(
            "{scheme}://{} is neither a target of the deployment nor written out in the scenario; \
             add `{}` to `targets_allowed` of the deployment if requests may go there",
            origin.authority, origin.authority
        )))
    }

    /// Refuses special addresses for a name that came from data: even an allowed name may resolve to this machine, or
    /// to the metadata service of a cloud.
    pub(super) fn admit_addresses(&self, origin: &Origin, found: &[SocketAddr]) -> Result<(), ClientError> {
        let host = host(origin);
        let is_name =
            matches!(&host, Host::Domain(name) if name != "localhost" && !name.ends_with(".localhost"));
        if !is_name || self.is_written(origin) {
            return Ok(());
        }
        let own = |address: &SocketAddr| {
            let host = match plain(address.ip()) {
                IpAddr::V4(address) => Host::Ipv4(address),
                IpAddr::V6(address) => Host::Ipv6(address),
            };
            self.allowed.iter().any(|pattern| pattern.fits(&host, origin.port))
        };
        match found.iter().find(|address| is_special(plain(address.ip())) && !own(address)) {
            None => Ok(()),
            Some(address) => Err(ClientError::Target(format!(
                "{} has the address {}, which is a loopback or link-local address; \
                 add the address itself to `targets_allowed` of the deployment if requests may go there",
                origin.authority,
                address.ip()
            ))),
        }
    }

    fn is_written(&self, origin: &Origin) -> bool {
        self.unrestricted || self.targets.iter().chain(&self.literals).any(|written| is_same(written, origin))
    }

    fn is_allowed(&self, origin: &Origin) -> bool {
        let host = host(origin);
        self.allowed.iter().any(|pattern| pattern.fits(&host, origin.port))
    }
}

/// True for the same scheme, host and port; a trailing dot of a name is ignored.
fn is_same(a: &Origin, b: &Origin) -> bool {
    (a.tls, a.port) == (b.tls, b.port) && host(a) == host(b)
}

fn host(origin: &Origin) -> Host {
    if let Ok(address) = origin.host.parse::<IpAddr>() {
        return match plain(address) {
            IpAddr::V4(address) => Host::Ipv4(address),
            IpAddr::V6(address) => Host::Ipv6(address),
        };
    }
    let name = origin.host.strip_suffix('.').unwrap_or(&origin.host);
    Host::Domain(name.to_ascii_lowercase())
}

/// Converts an IPv4-mapped IPv6 address to IPv4.
fn plain(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V6(six) => six.to_ipv4_mapped().map_or(address, IpAddr::V4),
        four => four,
    }
}

fn is_special(address: IpAddr) -> bool {
    /// A large cloud's metadata service has this address, in addition to 169.254.169.254.
    const METADATA: Ipv6Addr = Ipv6Addr::new(0xfd00, 0x0ec2, 0, 0, 0, 0, 0, 0x0254);
    match address {
        IpAddr::V4(four) => {
            four.is_loopback()
                || four.is_link_local()
                || four.is_multicast()
                || four.octets()[0] == 0
                || four == Ipv4Addr::BROADCAST
        }
        IpAddr::V6(six) => {
            six.is_loopback()
                || six.is_unspecified()
                || six.is_multicast()
                || six.is_unicast_link_local()
                || six == METADATA
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::url::BaseUrl;

    fn origin(url: &str) -> Origin {
        BaseUrl::parse(url).unwrap().origin
    }

    fn guard() -> Guard {
        let allowed = [
            "svc.example",
            "port.example:8080",
            "*.below.example",
            "10.0.0.5",
            "[fd00::1]:80",
            "bücher.example",
        ];
        let allowed = allowed.iter().map(|text| HostPattern::parse(text).unwrap()).collect();
        Guard::new(
            vec![
                origin("http://good.example:8080"),
                origin("https://secure.example"),
                origin("http://127.0.0.1:9"),
            ],
            vec![origin("http://literal.example")],
            allowed,
        )
    }

    #[test]
    fn only_what_is_written_or_allowed_is_admitted() {
        for (url, expected) in [
            ("http://good.example:8080", true),
            ("http://GOOD.example.:8080", true),
            ("https://good.example:8080", false),
            ("http://good.example", false),
            ("http://good.example:8081", false),
            ("https://secure.example:443", true),
            ("http://secure.example", false),
            ("http://secure.example:443", false),
            ("http://literal.example:80", true),
            ("https://literal.example", false),
            ("http://svc.example:1234", true),
            ("https://svc.example", true),
            ("https://svc.example.", true),
            ("http://xsvc.example", false),
            ("http://a.svc.example", false),
            ("http://port.example:8080", true),
            ("http://port.example", false),
            ("http://a.below.example", true),
            ("http://a.b.below.example", true),
            ("http://below.example", false),
            ("http://.below.example", false),
            ("http://xbelow.example", false),
            ("http://below.example.evil", false),
            ("http://10.0.0.5:5000", true),
            ("http://167772165", true),
            ("http://0x0a.0.0.5", true),
            ("http://[::ffff:10.0.0.5]", true),
            ("http://10.0.0.6", false),
            ("http://[fd00::1]", true),
            ("http://[fd00:0:0::1]:80", true),
            ("http://[fd00::1]:81", false),
            ("http://127.0.0.1:9", true),
            ("http://2130706433:9", true),
            ("http://127.0.0.1", false),
            ("http://localhost:9", false),
            ("http://xn--bcher-kva.example", true),
            ("http://b\u{fc}cher.example", true),
            ("http://evil", false),
        ] {
            let Ok(base) = BaseUrl::parse(url) else {
                assert!(!expected, "{url}");
                continue;
            };
            let admitted = guard().admit(&base.origin);
            assert_eq!(admitted.is_ok(), expected, "{url}: {admitted:?}");
            if let Err(error) = admitted {
                assert_eq!(error.class().as_str(), "target");
                assert!(error.to_string().contains("add `"), "{error}");
            }
        }
        assert!(Guard::default().admit(&origin("http://127.0.0.1")).is_err());
    }

    #[test]
    fn a_name_from_elsewhere_may_not_lead_to_this_machine_or_the_link() {
        let check = |url: &str, address: &str| {
            guard().admit_addresses(&origin(url), &[SocketAddr::new(address.parse().unwrap(), 80)]).is_ok()
        };
        for (url, address, expected) in [
            ("http://svc.example", "192.0.2.1", true),
            ("http://svc.example", "10.1.2.3", true),
            ("http://svc.example", "fd12::1", true),
            ("http://svc.example", "169.254.169.254", false),
            ("http://svc.example", "::ffff:169.254.169.254", false),
            ("http://svc.example", "fd00:ec2::254", false),
            ("http://svc.example", "fe80::1", false),
            ("http://svc.example", "127.0.0.1", false),
            ("http://svc.example", "::1", false),
            ("http://svc.example", "0.0.0.0", false),
            ("http://svc.example", "255.255.255.255", false),
            ("http://svc.example", "224.0.0.1", false),
            ("http://svc.example", "ff02::1", false),
            ("http://a.below.example", "127.0.0.1", false),
            // The user wrote these.
            ("http://good.example:8080", "127.0.0.1", true),
            ("http://literal.example", "169.254.169.254", true),
            ("http://127.0.0.1:9", "127.0.0.1", true),
        ] {
            assert_eq!(check(url, address), expected, "{url} {address}");
        }
        let both = ["svc.example", "127.0.0.1"].map(|text| HostPattern::parse(text).unwrap()).to_vec();
        let guard = Guard::new(Vec::new(), Vec::new(), both);
        assert!(
            guard.admit_addresses(&origin("http://svc.example"), &["127.0.0.1:80".parse().unwrap()]).is_ok()
        );
        assert!(
            guard.admit_addresses(&origin("http://svc.example"), &["127.0.0.2:80".parse().unwrap()]).is_err()
        );
    }

    #[test]
    fn patterns_are_read_or_refused_with_a_remedy() {
        for text in [
            "svc",
            "svc:80",
            "*.example.com",
            "*.example.com:8443",
            "10.0.0.1",
            "::1",
            "[::1]:80",
            " Svc.Example. ",
        ] {
            assert!(HostPattern::parse(text).is_ok(), "{text}");
        }
        for text in [
            "",
            "*",
            "*.com",
            "*.10.0.0.1",
            "a.*.example",
            "http://svc",
            "svc/path",
            "me@svc",
            "svc:0",
            "svc:x",
            "svc:99999",
            "a b",
            "[::1",
        ] {
            let error = HostPattern::parse(text).unwrap_err();
            assert!(error.remedy.starts_with("write a host"), "{text}: {error}");
        }
    }
}
