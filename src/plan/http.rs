//! Reads the HTTP and DNS settings of a deployment.

use std::net::{IpAddr, SocketAddr};

use base::complaint::Complaint;
use client::options::Version;
use config::deployment::HttpVersion;

const DNS_PORT: u16 = 53;

/// The HTTP version of a deployment.
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

/// An address to receive spans at.
///
/// # Errors
/// It is not an IP address with a port.
pub fn receive_address(text: &str) -> Result<SocketAddr, Complaint> {
    let text = text.trim();
    let text =
        text.strip_prefix("localhost:").map_or_else(|| text.to_owned(), |port| format!("127.0.0.1:{port}"));
    text.parse().map_err(|_| {
        Complaint::new(
            format!("`{text}` is not an IP address with a port"),
            "write 127.0.0.1:4318, or 0.0.0.0:4318 for other machines",
        )
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
