//! HTTP proxies: which requests go through one, and the tunnel for TLS.
//!
//! Requests in clear are sent to the proxy with the whole URL (RFC 9112, section 3.2.2). For TLS, the proxy makes a
//! tunnel (RFC 9110, section 9.3.6), so that it sees neither requests nor secrets. Requests to this machine never go
//! through a proxy that the environment names.

use std::net::IpAddr;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use base::complaint::Complaint;
use base::masking;
use base::percent;
use base::secret::Secret;

use super::error::ClientError;
use super::url::Origin;

/// The largest answer to CONNECT.
const ANSWER_BYTES_MAX: usize = 16 * 1024;
const REMEDY: &str = "write it as http://host:port, or http://user:password@host:port";

/// A proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proxy {
    /// Where it listens, in clear.
    pub origin: Origin,
    /// The value of `Proxy-Authorization`.
    authorization: Option<Secret>,
    /// The URL with its credentials.
    url: Secret,
}

/// The proxies of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Proxies {
    /// For http.
    pub http: Option<Proxy>,
    /// For https.
    pub https: Option<Proxy>,
    /// Hosts that are reached without a proxy.
    pub except: Vec<Exception>,
    /// Whether requests to this machine may go through a proxy.
    pub also_loopback: bool,
}

/// Hosts that are reached without a proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Exception {
    /// All hosts.
    All,
    /// A name and its subdomains, at any port or at one.
    Domain(String, Option<u16>),
    /// Addresses with these leading bits.
    Network(IpAddr, u8),
}

impl Proxy {
    /// Reads a proxy's URL. `host:port` needs no scheme, and `http://host` means port 80. A mere word is refused: it is
    /// rather a mistake for `none`.
    ///
    /// # Errors
    /// Not a URL, or a kind of proxy that is not supported.
    pub fn parse(text: &str) -> Result<Self, Complaint> {
        let text = text.trim();
        let whole = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
        masking::hide_url(&whole);
        let url = url::Url::parse(&whole)
            .map_err(|error| Complaint::new(format!("not a proxy's URL: {error}"), REMEDY))?;
        if url.scheme() != "http" {
            let what = format!("a proxy with `{}` is not supported", url.scheme());
            return Err(Complaint::new(what, REMEDY));
        }
        if url.query().is_some() || url.fragment().is_some() || url.path().len() > 1 {
            return Err(Complaint::new("a proxy's URL has no path", REMEDY));
        }
        let has_port = || whole.trim_end_matches('/').rsplit_once(':').is_some_and(|(_, port)| is_port(port));
        if !text.contains("://") && !has_port() {
            return Err(Complaint::new("a proxy needs `http://` or a port", REMEDY));
        }
        let origin = Origin::of(&url)?;
        Ok(Self { authorization: authorization(&url), url: Secret::new(whole), origin })
    }

    /// The line of `Proxy-Authorization` with its end; empty without credentials.
    pub(super) fn authorization_line(&self) -> String {
        let secret = self.authorization.as_ref();
        secret.map_or_else(String::new, |secret| format!("proxy-authorization: {}\r\n", secret.expose()))
    }

    /// The URL with its credentials, for another client.
    pub(super) fn url(&self) -> &str {
        self.url.expose()
    }

    /// Makes a tunnel to `to` over a connection to the proxy.
    pub(super) async fn tunnel(&self, socket: &mut TcpStream, to: &Origin) -> Result<(), ClientError> {
        let failed = |reason: String| failed(&to.authority, &self.origin.authority, &reason);
        let host = if to.host.contains(':') { format!("[{}]", to.host) } else { to.host.clone() };
        let (port, authorization) = (to.port, self.authorization_line());
        let request = format!("CONNECT {host}:{port} HTTP/1.1\r\nhost: {host}:{port}\r\n{authorization}\r\n");
        socket.write_all(request.as_bytes()).await.map_err(|error| failed(error.to_string()))?;
        let mut answer = Vec::new();
        let status = loop {
            let Some(end) = answer.windows(4).position(|window| window == b"\r\n\r\n") else {
                match socket.read_buf(&mut answer).await {
                    Ok(0) => return Err(failed("closed the connection".to_owned())),
                    Ok(_) if answer.len() > ANSWER_BYTES_MAX => {
                        let proxy = &self.origin.authority;
                        let reason = format!("the proxy {proxy} answered more than {ANSWER_BYTES_MAX} bytes");
                        return Err(ClientError::Limit(reason));
                    }
                    Ok(_) => continue,
                    Err(error) => return Err(failed(error.to_string())),
                }
            };
            let status =
                answer.strip_prefix(b"HTTP/1.").and_then(|rest| std::str::from_utf8(rest.get(2..5)?).ok());
            match status.and_then(|status| status.parse::<u16>().ok()) {
                // Interim answers come before the answer (RFC 9110, section 15.2).
                Some(100..=199) => drop(answer.drain(..end + 4)),
                status => break status,
            }
        };
        match status {
            // Bytes of the server would mean that it spoke before the client, which TLS does not do.
            Some(200..=299) if answer.ends_with(b"\r\n\r\n") => Ok(()),
            Some(407) => Err(unauthorized(&to.authority, &self.origin.authority)),
            Some(status) => Err(failed(format!("answered {status} instead of making a tunnel"))),
            None => Err(failed("does not speak HTTP".to_owned())),
        }
    }
}

fn failed(address: &str, proxy: &str, reason: &str) -> ClientError {
    ClientError::Connect { address: address.to_owned(), reason: format!("the proxy {proxy} {reason}") }
}

/// The error for a proxy that wants to know who asks it to reach an address.
pub(super) fn unauthorized(address: &str, proxy: &str) -> ClientError {
    failed(address, proxy, "answered 407: give its user and password in its URL")
}

fn is_port(text: &str) -> bool {
    text.parse::<u16>().is_ok()
}

fn authorization(url: &url::Url) -> Option<Secret> {
    use base64::Engine as _;
    if url.username().is_empty() && url.password().is_none() {
        return None;
    }
    let user = percent::decode(url.username());
    let pair = [user, b":".to_vec(), percent::decode(url.password().unwrap_or_default())].concat();
    let pair = base64::engine::general_purpose::STANDARD.encode(pair);
    masking::hide(&pair);
    Some(Secret::new(format!("Basic {pair}")))
}

impl Proxies {
    /// The proxy for requests to `origin`; `None` if they go there directly.
    #[must_use]
    pub fn of(&self, origin: &Origin) -> Option<&Proxy> {
        let proxy = if origin.tls { self.https.as_ref()? } else { self.http.as_ref()? };
        let host = origin.host.trim_end_matches('.').to_ascii_lowercase();
        let address = host.parse::<IpAddr>().ok();
        let local = host == "localhost"
            || host.ends_with(".localhost")
            || address.is_some_and(|address| address.to_canonical().is_loopback());
        let direct = origin.socket().is_some()
            || local && !self.also_loopback
            || self.except.iter().any(|exception| exception.fits(&host, address, origin.port));
        (!direct).then_some(proxy)
    }
}

impl Exception {
    /// Reads one entry of `no_proxy`: `*`, `example.com`, `.example.com`, `host:8080`, `10.0.0.1` or `10.0.0.0/8`.
    ///
    /// # Errors
    /// A network that is not valid.
    pub fn parse(text: &str) -> Result<Self, Complaint> {
        let text = text.trim();
        if text == "*" {
            return Ok(Self::All);
        }
        if let Some((address, bits)) = text.split_once('/') {
            let network = || {
                let address = address.parse::<IpAddr>().ok()?;
                let most = if address.is_ipv4() { 32 } else { 128 };
                Some(Self::Network(address, bits.parse().ok().filter(|bits| *bits <= most)?))
            };
            return network().ok_or_else(|| {
                Complaint::new(format!("`{text}` is not a network"), "write it as 10.0.0.0/8")
            });
        }
        if let Ok(address) = text.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>() {
            return Ok(Self::Network(address, if address.is_ipv4() { 32 } else { 128 }));
        }
        let (name, port) = match text.rsplit_once(':') {
            Some((name, port)) => match port.parse::<u16>() {
                Ok(port) => (name, Some(port)),
                Err(_) => {
                    return Err(Complaint::new(format!("`{text}` is not a host"), "write it as host:8080"));
                }
            },
            None => (text, None),
        };
        let name = name.trim_start_matches("*.").trim_start_matches('.').trim_end_matches('.');
        let name = super::url::host_name(name.trim_start_matches('[').trim_end_matches(']'));
        if name.is_empty() {
            return Err(Complaint::new(
                format!("`{text}` is not a host"),
                "write a name such as example.com",
            ));
        }
        Ok(Self::Domain(name, port))
    }

    fn fits(&self, host: &str, address: Option<IpAddr>, port: u16) -> bool {
        match self {
            Self::All => true,
            Self::Domain(_, Some(own)) if *own != port => false,
            Self::Domain(name, _) => {
                host.strip_suffix(name.as_str()).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
            }
            Self::Network(network, bits) => {
                address.is_some_and(|address| shares_bits(*network, address.to_canonical(), *bits))
            }
        }
    }
}

fn shares_bits(network: IpAddr, address: IpAddr, bits: u8) -> bool {
    let bits = u32::from(bits);
    match (network, address) {
        (IpAddr::V4(a), IpAddr::V4(b)) => {
            (a.to_bits() ^ b.to_bits()).checked_shr(32 - bits).unwrap_or(0) == 0
        }
        (IpAddr::V6(a), IpAddr::V6(b)) => {
            (a.to_bits() ^ b.to_bits()).checked_shr(128 - bits).unwrap_or(0) == 0
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::url::BaseUrl;

    #[test]
    fn proxies_are_read_or_refused() {
        for (text, expected) in [
            ("http://proxy.example:8080", Ok(("proxy.example", 8080, ""))),
            ("http://proxy.example:80/", Ok(("proxy.example", 80, ""))),
            ("proxy.example:8080", Ok(("proxy.example", 8080, ""))),
            ("proxy.example", Err("needs `http://` or a port")),
            ("foo", Err("needs `http://` or a port")),
            ("[::1]", Err("needs `http://` or a port")),
            ("[::1]:81", Ok(("::1", 81, ""))),
            ("http://proxy.example", Ok(("proxy.example", 80, ""))),
            ("http://[::1]:81", Ok(("::1", 81, ""))),
            ("http://u:p%40ss@h:1", Ok(("h", 1, "proxy-authorization: Basic dTpwQHNz\r\n"))),
            ("socks5://h:1", Err("`socks5` is not supported")),
            ("https://h:1", Err("`https` is not supported")),
            ("http://h:1/path", Err("no path")),
            ("http://", Err("not a proxy's URL")),
            ("", Err("not a proxy's URL")),
        ] {
            match (Proxy::parse(text), expected) {
                (Ok(proxy), Ok((host, port, line))) => {
                    let read = (proxy.origin.host.as_str(), proxy.origin.port, proxy.authorization_line());
                    assert_eq!(read, (host, port, line.to_owned()), "{text}");
                }
                (Err(error), Err(part)) => assert!(error.what.contains(part), "{text}: {error}"),
                (read, _) => panic!("{text}: {read:?}"),
            }
        }
    }

    #[test]
    fn exceptions_are_reached_directly() {
        for (except, url, proxied) in [
            ("", "http://a.example", true),
            ("*", "http://a.example", false),
            ("a.example", "http://a.example", false),
            ("a.example", "http://A.Example.", false),
            ("a.example", "http://x.a.example", false),
            ("a.example", "http://xa.example", true),
            (".a.example", "http://x.a.example", false),
            ("*.a.example", "http://x.a.example", false),
            ("a.example:81", "http://a.example:81", false),
            ("a.example:81", "http://a.example", true),
            ("10.0.0.0/8", "http://10.1.2.3", false),
            ("10.0.0.0/8", "http://11.1.2.3", true),
            ("10.0.0.0/8", "http://[::ffff:10.1.2.3]", false),
            ("10.0.0.0/0", "http://11.1.2.3", false),
            ("10.1.2.3", "http://10.1.2.3:8", false),
            ("fd00::/8", "http://[fd12::1]", false),
            ("::/0", "http://[fd12::1]", false),
            ("10.0.0.0/8", "http://ten.example", true),
            ("b.example, a.example", "http://a.example", false),
            ("", "http://127.0.0.1", false),
            ("", "http://127.8.0.1:80", false),
            ("", "http://[::1]", false),
            ("", "http://localhost:81", false),
            ("", "http://x.localhost", false),
        ] {
            let except = except.split(',').filter(|text| !text.is_empty());
            let proxies = Proxies {
                http: Some(Proxy::parse("http://p:1").unwrap()),
                except: except.map(|text| Exception::parse(text).unwrap()).collect(),
                ..Proxies::default()
            };
            let origin = BaseUrl::parse(url).unwrap().origin;
            assert_eq!(proxies.of(&origin).is_some(), proxied, "{url}");
            assert!(proxies.of(&Origin { tls: true, ..origin }).is_none());
        }
        for text in ["10.0.0.0/33", "10.0.0/8", "a.example:http", ".", ""] {
            assert!(Exception::parse(text).is_err(), "{text}");
        }
    }
}
