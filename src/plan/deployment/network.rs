//! The part of a deployment about how hosts are reached: addresses, names in TLS, and proxies.

use std::net::IpAddr;
use std::path::PathBuf;

use ::config::deployment as config;
use ::config::network::{Addresses, Proxy as ProxyConfig, ServerNames};
use ::config::reference::{Reference, SecretReference};
use base::complaint::Complaint;
use base::secret::redacted_url;
use client::options::DnsOptions;
use client::proxy::{Exception, Proxies, Proxy};
use client::tls::{TlsOptions, is_server_name};
use client::url::{BaseUrl, Origin, host_name};
use text::diagnostics::Fault;
use text::files::open_regular;
use text::similar::did_you_mean;
use text::yaml::YamlNode;
use text::yaml_place::{at, item, key_span};

use super::{ReferenceReader, is_awaited, written};

/// A deployment that uses no proxy says so with this word.
const NONE: &str = "none";

pub(super) fn tls(
    reader: &mut ReferenceReader<'_>,
    verify: bool,
    ca: (Option<&str>, &YamlNode),
    cert: (Option<&str>, &YamlNode),
    key: (Option<&str>, &YamlNode),
) -> TlsOptions {
    if cert.0.is_some() != key.0.is_some() {
        let there = if cert.0.is_some() { cert.1 } else { key.1 };
        let fault = Fault::error(there.span.clone(), "`cert` and `key` need each other");
        reader.faults.push(fault.help("give both, or neither"));
    }
    let [ca, cert, key] = [ca, cert, key].map(|(path, node)| path.map(|path| pem_file(reader, path, node)));
    TlsOptions { verify, ca, identity: cert.zip(key) }
}

/// Checks that a file exists before the load; its content is read later.
fn pem_file(reader: &mut ReferenceReader<'_>, path: &str, node: &YamlNode) -> PathBuf {
    let path = reader.folder.join(path);
    if reader.env.is_offline() {
        return path;
    }
    let problem = match open_regular(&path) {
        Ok(_) => None,
        Err(_) if path.is_dir() => Some("it is a directory".to_owned()),
        Err(error) => Some(error.to_string()),
    };
    if let Some(problem) = problem {
        let message = format!("cannot read {}: {problem}", path.display());
        let fault = Fault::error(node.span.clone(), message);
        reader.faults.push(fault.help("name a PEM file, relative to the deployment file"));
    }
    path
}

pub(super) fn dns(
    reader: &mut ReferenceReader<'_>,
    dns: Option<&config::Dns>,
    root: &YamlNode,
) -> DnsOptions {
    let mut servers = Vec::new();
    let listed = dns.and_then(|dns| dns.servers.as_ref()).into_iter().flatten();
    for (index, reference) in listed.enumerate() {
        let node = item(at(root, &["dns", "servers"]), index);
        let Some(text) = reader.known_text(reference, node) else { continue };
        match crate::http::server(&text) {
            Ok(server) => servers.push(server),
            Err(complaint) => reader.quoting_fault(reference, &text, node, complaint),
        }
    }
    let mut hosts = Vec::new();
    for (name, addresses) in dns.and_then(|dns| dns.hosts.as_ref()).into_iter().flatten() {
        let node = at(root, &["dns", "hosts", name]);
        if name.is_empty() || name.contains(['/', ':', '*']) || name.parse::<IpAddr>().is_ok() {
            let span = key_span(at(root, &["dns", "hosts"]), name);
            let fault = Fault::error(span, format!("`{name}` is not a host's name"));
            reader.faults.push(fault.help("write the name alone, such as api.example.com"));
        }
        hosts.push((host_name(name), addresses_of(reader, addresses, node)));
    }
    DnsOptions { servers, hosts }
}

fn addresses_of(reader: &mut ReferenceReader<'_>, addresses: &Addresses, node: &YamlNode) -> Vec<IpAddr> {
    let mut read = Vec::new();
    for (index, reference) in addresses.all.iter().enumerate() {
        let node = if addresses.is_list { item(node, index) } else { node };
        let Some(text) = reader.known_text(reference, node) else { continue };
        match text.trim().trim_start_matches('[').trim_end_matches(']').parse() {
            Ok(address) => read.push(address),
            Err(_) => {
                let complaint =
                    Complaint::new(format!("`{text}` is not an IP address"), "write it as 10.0.0.1 or ::1");
                reader.quoting_fault(reference, &text, node, complaint);
            }
        }
    }
    read
}

/// The names that the targets have in TLS, if these are not their hosts' names.
pub(super) fn server_names(
    reader: &mut ReferenceReader<'_>,
    names: Option<&ServerNames>,
    targets: &[(String, BaseUrl)],
    root: &YamlNode,
) -> Vec<(Origin, String)> {
    let node = at(root, &["tls", "sni"]);
    match names {
        None => Vec::new(),
        Some(ServerNames::All(name)) => {
            let Some(name) = server_name_of(reader, name, node) else { return Vec::new() };
            targets.iter().map(|(_, url)| (url.origin.clone(), name.clone())).collect()
        }
        Some(ServerNames::ByTarget(names)) => {
            let mut found = Vec::new();
            for (target, name) in names {
                let name = server_name_of(reader, name, at(node, &[target]));
                match targets.iter().find(|(known, _)| known == target) {
                    Some((_, url)) => found.extend(name.map(|name| (url.origin.clone(), name))),
                    None => unknown_target(reader, target, targets, key_span(node, target)),
                }
            }
            found
        }
    }
}

fn server_name_of(
    reader: &mut ReferenceReader<'_>,
    reference: &Reference,
    node: &YamlNode,
) -> Option<String> {
    let name = reader.known_text(reference, node)?;
    if is_server_name(&host_name(&name)) {
        return Some(if name.is_ascii() { name } else { host_name(&name) });
    }
    let complaint = Complaint::new(
        format!("`{name}` is not a host's name"),
        "write the name in the server's certificate, such as api.example.com",
    );
    reader.quoting_fault(reference, &name, node, complaint);
    None
}

fn unknown_target(
    reader: &mut ReferenceReader<'_>,
    name: &str,
    known: &[(String, BaseUrl)],
    span: std::ops::Range<usize>,
) {
    if reader.partial {
        return;
    }
    let known: Vec<&str> = known.iter().map(|(known, _)| known.as_str()).collect();
    let fault = Fault::error(span, format!("there is no target `{name}`"));
    reader.faults.push(fault.help(match did_you_mean(name, known.iter().copied()) {
        Some(similar) => format!("did you mean `{similar}`?"),
        None => format!("name one of the targets: {}", known.join(", ")),
    }));
}

/// The proxies that the deployment names, or else the environment's, with warnings: a load through a forgotten
/// proxy measures the proxy.
pub(super) fn proxies(
    reader: &mut ReferenceReader<'_>,
    proxy: Option<&ProxyConfig>,
    targets: &[(String, BaseUrl)],
    root: &YamlNode,
) -> (Proxies, Vec<String>) {
    let node = at(root, &["proxy"]);
    let proxies = match proxy {
        None => return proxies_of_environment(reader, targets),
        Some(ProxyConfig::One(reference)) => {
            let one = proxy_of(reader, reference, node);
            Proxies { http: one.clone(), https: one, except: Vec::new(), also_loopback: true }
        }
        Some(ProxyConfig::ByScheme(written)) => Proxies {
            http: written.http.as_ref().and_then(|http| proxy_of(reader, http, at(node, &["http"]))),
            https: written.https.as_ref().and_then(|https| proxy_of(reader, https, at(node, &["https"]))),
            except: exceptions(reader, written.except.as_deref().unwrap_or_default(), at(node, &["except"])),
            also_loopback: true,
        },
    };
    (proxies, Vec::new())
}

fn proxy_of(
    reader: &mut ReferenceReader<'_>,
    SecretReference(reference): &SecretReference,
    node: &YamlNode,
) -> Option<Proxy> {
    let text = reader.known_word(reference, node).filter(|text| text != NONE)?;
    reader.inline_secret |=
        written(reference).is_some_and(|text| text != redacted_url(text) && text.contains('@'));
    match Proxy::parse(&text) {
        Ok(proxy) => Some(proxy),
        Err(complaint) => {
            reader.faults.push(Fault::of(node.span.clone(), complaint));
            None
        }
    }
}

fn exceptions(reader: &mut ReferenceReader<'_>, written: &[Reference], node: &YamlNode) -> Vec<Exception> {
    let mut read = Vec::new();
    for (index, reference) in written.iter().enumerate() {
        let node = item(node, index);
        let Some(text) = reader.known_text(reference, node) else { continue };
        match Exception::parse(&text) {
            Ok(exception) => read.push(exception),
            Err(complaint) => reader.quoting_fault(reference, &text, node, complaint),
        }
    }
    read
}

/// As curl reads them: `HTTP_PROXY` in capitals is not read, because a CGI server would set it from a header.
pub(super) fn proxies_of_environment(
    reader: &mut ReferenceReader<'_>,
    targets: &[(String, BaseUrl)],
) -> (Proxies, Vec<String>) {
    let first = |names: &[&'static str]| {
        names
            .iter()
            .find_map(|name| Some((*name, reader.env.variable(name).filter(|value| !value.is_empty())?)))
    };
    let except = first(&["no_proxy", "NO_PROXY"]).map(|(_, value)| value).unwrap_or_default();
    let except = except.split([',', ' ']).filter(|text| !text.trim().is_empty());
    let named = [
        first(&["http_proxy", "all_proxy", "ALL_PROXY"]),
        first(&["https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"]),
    ];
    let mut proxies = Proxies {
        // Other programs ignore what they do not understand, too.
        except: except.filter_map(|text| Exception::parse(text).ok()).collect(),
        ..Proxies::default()
    };
    let mut notes = Vec::new();
    for (tls, named) in [(false, &named[0]), (true, &named[1])] {
        let Some((name, value)) = named else { continue };
        let mut scheme = targets.iter().filter(|(_, url)| url.origin.tls == tls);
        match Proxy::parse(value) {
            Ok(proxy) if tls => proxies.https = Some(proxy),
            Ok(proxy) => proxies.http = Some(proxy),
            Err(complaint) if scheme.next().is_some() => {
                let fault = Fault::file(format!("the environment variable {name}: {}", complaint.what));
                reader.faults.push(fault.help(format!("{}, or unset it", complaint.remedy)));
                continue;
            }
            Err(_) => continue,
        }
        let known = targets.iter().filter(|(_, url)| url.origin.tls == tls && !is_awaited(&url.origin));
        for (_, url) in known {
            if let Some(proxy) = proxies.of(&url.origin) {
                notes.push(format!(
                    "requests to {} go through the proxy {}, which the environment variable {name} names; \
                     `proxy: none` in the deployment ignores it",
                    url.origin.shown(),
                    proxy.origin.authority
                ));
            }
        }
    }
    (proxies, notes)
}
