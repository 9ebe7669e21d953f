//! The options of a command that are about the connection: addresses, proxies, sockets, TLS and the HTTP version.

use core::net::IpAddr;

use serde_json::{Map, Value, json};

use crate::draft::Draft;
use crate::request::method_key;
use crate::{ImportError, secrets};

use super::{CurlCommand, NameFile};

/// The longest path of a Unix socket, in bytes.
const SOCKET_BYTES_MAX: usize = 100;
/// The port of a proxy without one, as curl has it.
const PROXY_PORT: &str = "1080";

impl CurlCommand {
    /// `--resolve [+]HOST:PORT:ADDRESS[,ADDRESS]`.
    pub(super) fn resolve(&mut self, text: &str) {
        let entry = text.trim_start_matches('+');
        let mut parts = entry.splitn(3, ':');
        let (host, addresses) = (parts.next().unwrap_or_default(), parts.nth(1).unwrap_or_default());
        let addresses: Option<Vec<IpAddr>> = addresses
            .split(',')
            .map(|address| address.trim_start_matches('[').trim_end_matches(']').parse().ok())
            .collect();
        let is_name = !host.is_empty()
            && host.parse::<IpAddr>().is_err()
            && host.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c));
        match addresses.filter(|_| is_name) {
            Some(addresses) => {
                self.hosts.insert(host.to_ascii_lowercase(), json!(addresses));
                self.notes.push(format!("--resolve: `dns` gives {host} these addresses for every port"));
            }
            None => self.notes.push(format!("--resolve {} was ignored: write `dns` yourself", shown(text))),
        }
    }

    /// The target of every request, if the command names a Unix socket.
    pub(super) fn socket_target(&self) -> Result<Option<String>, ImportError> {
        let Some(path) = &self.socket else { return Ok(None) };
        let wrong = |what: &str| Err(ImportError::new(what, "name it as /run/app.sock"));
        if !path.starts_with('/') {
            return wrong("the path of a Unix socket must be absolute");
        }
        if path.len() > SOCKET_BYTES_MAX
            || path.ends_with('/')
            || path.contains(':')
            || path.chars().any(char::is_control)
        {
            return wrong("a target cannot name this Unix socket");
        }
        Ok(Some(format!("unix:{path}")))
    }

    /// What a Unix socket changes about requests to these URLs.
    pub(super) fn note_socket(&mut self, urls: &[String]) {
        let host = |url: &str| {
            url.split_once("://").map_or(url, |(_, rest)| rest).split('/').next() == Some("localhost")
        };
        if self.socket.is_some() && urls.iter().any(|url| url.starts_with("https:") || !host(url)) {
            let note = "requests over the Unix socket have no TLS, and `localhost` in their header Host";
            self.notes.push(note.to_owned());
        }
    }

    /// Headers that are not sent as the command has them.
    pub(super) fn note_headers(&mut self, urls: &[String]) {
        const OWN: [&str; 4] = ["content-length", "connection", "accept-encoding", "transfer-encoding"];
        let host = |url: &String| {
            let rest = url.split_once("://").map_or(url.as_str(), |(_, rest)| rest);
            let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
            authority.rsplit_once('@').map_or(authority, |(_, host)| host).to_ascii_lowercase()
        };
        let has_data = !self.data.is_empty() || !self.fields.is_empty() || !self.uploads.is_empty();
        let mut notes = Vec::new();
        for (name, value) in &self.headers {
            let lower = name.to_ascii_lowercase();
            if lower == "host" && !urls.iter().all(|url| host(url) == value.to_ascii_lowercase()) {
                notes.push(
                    "the header Host is not sent as given: name that host in `targets`, and its address in `dns: { hosts }`"
                        .to_owned(),
                );
            } else if OWN.contains(&lower.as_str()) {
                notes.push(format!("the header {name} is not sent as given: bench sends its own"));
            } else if lower == "content-type" && !self.fields.is_empty() {
                notes.push(
                    "the header Content-Type is not sent as given: a form with --form has its own".to_owned(),
                );
            }
        }
        for (name, own) in
            [("accept", true), ("content-type", has_data), ("host", true), ("user-agent", true)]
        {
            let given =
                self.headers.iter().chain(&self.own).any(|(known, _)| known.eq_ignore_ascii_case(name));
            if own && !given && self.removed.iter().any(|removed| removed == name) {
                notes.push(format!("curl leaves out the header {name}, and bench sends its own"));
            }
        }
        for name in ["content-type", "authorization"] {
            if self.headers.iter().filter(|(known, _)| known.eq_ignore_ascii_case(name)).count() > 1 {
                notes.push(format!("the command has several headers {name}: check which one the step sends"));
            }
        }
        if let Some(method) = self.method.as_ref().filter(|method| {
            method_key(method).is_some_and(|(key, _)| key != "request")
                && **method != method.to_ascii_uppercase()
        }) {
            notes.push(format!("the method `{method}` is sent in capitals"));
        }
        self.notes.extend(notes);
    }

    /// `--http2` offers servers without TLS what RFC 9113 has withdrawn.
    pub(super) fn note_upgrade(&mut self, urls: &[String]) {
        let has_tls = |url: &String| url.get(..8).is_some_and(|start| start.eq_ignore_ascii_case("https://"));
        if self.http_version == Some("auto") && !urls.iter().all(has_tls) {
            self.notes.push(
                "--http2: curl offers a server without TLS to change to HTTP/2 (`Upgrade: h2c`), and bench does not"
                    .to_owned(),
            );
        }
    }

    pub(super) fn connection(&self, draft: &mut Draft, file: &NameFile<'_>) {
        self.tls(draft, file);
        self.through_proxy(draft);
        if !self.hosts.is_empty() {
            draft.deployment.insert("dns".into(), json!({ "hosts": self.hosts }));
        }
        if let Some(version) = self.http_version {
            draft.deployment.insert("http".into(), json!({ "version": version }));
        }
        if self.compressed {
            draft.http.insert("decompress".into(), true.into());
        }
        if let Some(redirects) = self.redirects {
            draft.http.insert("redirects".into(), redirects.min(50).into());
        }
    }

    fn tls(&self, draft: &mut Draft, file: &NameFile<'_>) {
        let mut tls = Map::new();
        if self.insecure {
            tls.insert("verify".into(), false.into());
        }
        // A file with the certificate may have the key, too.
        let cert = self.cert.as_deref().map(|cert| match cert.split_once(':') {
            Some((path, _)) => {
                draft.notes.push("the password of --cert is left out: name a key without one".to_owned());
                path
            }
            None => cert,
        });
        let key = self.key.as_deref().or(cert).filter(|_| cert.is_some());
        for (name, path) in [("ca", self.ca.as_deref()), ("cert", cert), ("key", key)] {
            let Some(path) = path else { continue };
            let named = file(path).unwrap_or_else(|error| {
                draft.notes.push(format!("`tls` names a file that is not there yet: {}", error.what));
                path.to_owned()
            });
            tls.insert(name.to_owned(), named.into());
        }
        if self.key.is_some() && cert.is_none() {
            draft.notes.push("--key was ignored: it lacks --cert".to_owned());
        }
        if !tls.is_empty() {
            draft.deployment.insert("tls".into(), Value::Object(tls));
        }
    }

    fn through_proxy(&self, draft: &mut Draft) {
        let wrong = self.no_proxy.split(',').map(str::trim).filter(|host| !host.is_empty() && !is_host(host));
        draft
            .notes
            .extend(wrong.map(|host| format!("--noproxy: {} is no host and was left out", shown(host))));
        let except: Vec<&str> =
            self.no_proxy.split(',').map(str::trim).filter(|host| is_host(host)).collect();
        let Some(proxy) = self.proxy.as_deref().filter(|_| !except.contains(&"*")) else {
            if except.contains(&"*") {
                draft.deployment.insert("proxy".into(), "none".into());
            } else if !except.is_empty() {
                draft.notes.push("--noproxy was ignored: write `proxy` with `except` yourself".to_owned());
            }
            return;
        };
        if proxy.is_empty() {
            draft.deployment.insert("proxy".into(), "none".into());
            return;
        }
        let (scheme, rest) = proxy.split_once("://").unwrap_or(("http", proxy));
        if !scheme.eq_ignore_ascii_case("http") {
            let what = format!("--proxy was ignored: bench has no proxies with {}", shown(scheme));
            draft.notes.push(what);
            return;
        }
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        let (credentials, host) = match authority.rsplit_once('@') {
            Some((credentials, host)) => (Some(credentials), host),
            None => (None, authority),
        };
        // Such as a port that is no number.
        if !is_host(host) || url::Url::parse(&format!("http://{host}")).is_err() {
            let what = format!("--proxy was ignored: {} is no host with a port", shown(host));
            draft.notes.push(what);
            return;
        }
        let has_port = host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        let port = if has_port { String::new() } else { format!(":{PROXY_PORT}") };
        let url = if credentials.is_some() || self.proxy_user.is_some() {
            draft.environment.push("PROXY_URL".into());
            let comment = format!("PROXY_URL holds http://USER:PASSWORD@{host}{port}.");
            draft.deployment_comments.insert("/proxy".into(), comment);
            json!({ "env": "PROXY_URL" })
        } else {
            format!("http://{host}{port}").into()
        };
        let proxy =
            if except.is_empty() { url } else { json!({ "http": url, "https": url, "except": except }) };
        draft.deployment.insert("proxy".into(), proxy);
    }
}

fn is_host(text: &str) -> bool {
    text == "*"
        || !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || "-_.:[]/".contains(c))
}

/// A text of the command in a note, unless it may have a secret.
pub(super) fn shown(text: &str) -> String {
    if secrets::is_secret_value(text) || text.contains('@') {
        "…".to_owned()
    } else {
        text.chars().take(100).collect()
    }
}
