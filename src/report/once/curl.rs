//! Requests as commands for curl, or for grpcurl, which a shell can run.
//!
//! A secret is a shell variable instead, unless it is to be revealed. What a terminal would obey, or would not show, is
//! written as octal digits for `printf`.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::ops::Range;

use super::{scheme_of, secrets_of};
use base::masking::{names_secret, secret_spans};
use measure::observation::{Exchange, Observation};
use measure::protocol::Protocol;
use text::named_secrets::named_secrets;
use text::shell::{self, octal, quoted};

/// A longer body is passed through a pipe: an argument has a limit.
const ARGUMENT_BYTES_MAX: usize = 64 << 10;

/// How a secret stands in a body of JSON.
const ESCAPED: &str = "escaped as in JSON: \\\" for a quote, \\\\ for a backslash";

/// What a secret in the body is named after.
const BODY: &str = "the body";

/// The status of a service that agrees to open a WebSocket.
const SWITCHING_PROTOCOLS: u16 = 101;

/// Before a body above this size, some versions of curl ask whether it is wanted.
const EXPECTS_ABOVE_BYTES: usize = 1024;

/// How requests connect.
#[derive(Clone, Debug, Default)]
pub struct CurlConnection {
    /// Certificates are not verified.
    pub insecure: bool,
    /// The file with the certificates to trust.
    pub ca: Option<String>,
    /// The files with the client's certificate and key.
    pub identity: Option<(String, String)>,
    /// Only HTTP/2 is spoken.
    pub http2: bool,
    /// Names with their addresses, separated by commas.
    pub hosts: Vec<(String, String)>,
}

/// The commands, one for each request that was sent. `reveal` writes secrets themselves.
#[must_use]
pub fn commands(observations: &[Observation], connecting: &CurlConnection, reveal: bool) -> String {
    let mut names =
        SecretVariables { reveal, secrets: secrets_of(observations), ..SecretVariables::default() };
    let mut text = String::new();
    for observation in observations {
        match observation {
            Observation::Part { name, .. } => {
                let _ = writeln!(text, "\n# {}", comment(name));
            }
            Observation::Exchange(exchange) => {
                let _ = writeln!(text, "# {}", comment(&exchange.action));
                let _ = writeln!(text, "{}", command(exchange, connecting, &mut names));
            }
            Observation::Step { .. } | Observation::Unsent { .. } => {}
        }
    }
    let mut head = String::new();
    if !names.known.is_empty() {
        head.push_str("# Set these variables of the shell first:\n");
        for (name, (_, from)) in &names.known {
            let _ = writeln!(head, "#   {name}: {}", comment(from));
        }
    }
    format!("{head}{text}").trim_start().to_owned()
}

fn comment(text: &str) -> String {
    base::visible::on_one_line(&base::masking::masked(text))
}

/// The variables that stand for secrets.
#[derive(Default)]
struct SecretVariables {
    reveal: bool,
    /// The secrets of all steps.
    secrets: Vec<String>,
    /// By name: the secret, and where it is from.
    known: BTreeMap<String, (String, String)>,
}

impl SecretVariables {
    /// The variable for a secret.
    fn of(&mut self, secret: &str, exchange: &Exchange, hint: &str) -> String {
        if let Some((name, _)) = self.known.iter().find(|(_, (known, _))| known == secret) {
            return name.clone();
        }
        let variable = |form: fn(&str) -> Cow<'_, str>| {
            let found = exchange.variables.iter().find(|(_, value)| form(value) == secret);
            found.map(|(name, _)| name)
        };
        let from = if let Some(name) = variable(|value| Cow::Borrowed(value)) {
            (name.clone(), format!("the variable {name}"))
        } else if let Some(name) = variable(in_json) {
            (format!("{name}_in_json"), format!("the variable {name}, {ESCAPED}"))
        } else if secret.contains('\\') && hint == BODY {
            (hint.to_owned(), format!("from {hint}, {ESCAPED}"))
        } else {
            (hint.to_owned(), format!("from {hint}"))
        };
        let base = shell_name(&from.0);
        let mut name = base.clone();
        let mut number = 2;
        while self.known.contains_key(&name) {
            name = format!("{base}_{number}");
            number += 1;
        }
        self.known.insert(name.clone(), (secret.to_owned(), from.1));
        name
    }
}

/// A text as it stands between the quotes of JSON.
fn in_json(text: &str) -> Cow<'_, str> {
    let quoted = serde_json::Value::from(text).to_string();
    Cow::Owned(quoted.get(1..quoted.len() - 1).unwrap_or_default().to_owned())
}

/// `x-auth-token` as `X_AUTH_TOKEN`.
fn shell_name(text: &str) -> String {
    let name: String = text
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' })
        .take(60)
        .collect();
    if name.starts_with(|c: char| c.is_ascii_alphabetic()) { name } else { format!("SECRET_{name}") }
}

fn command(exchange: &Exchange, connecting: &CurlConnection, names: &mut SecretVariables) -> String {
    let sent = &exchange.request;
    match exchange.protocol {
        Protocol::Grpc if sent.method != "POST" => {
            return format!("# in the gRPC call: {} {}", sent.method, comment(&exchange.action));
        }
        Protocol::Grpc => return grpcurl(exchange, connecting, names),
        Protocol::WebSocket => {
            return format!("# over the WebSocket: {} {}", sent.method, comment(&exchange.action));
        }
        _ if exchange.answer.as_ref().is_some_and(|answer| answer.outcome == SWITCHING_PROTOCOLS) => {
            return websocat(exchange, connecting, names);
        }
        _ => {}
    }
    let mut parts = vec!["curl --silent --show-error --globoff --path-as-is".to_owned()];
    parts.extend(options(exchange, connecting, names));
    match sent.method.as_str() {
        "HEAD" => parts.push("--head".to_owned()),
        method => parts.push(format!("--request {}", shell::word(method))),
    }
    parts.push(word(sent.url().as_bytes(), exchange, "the URL", names));
    parts.extend(headers(exchange, names));
    let has_body = !sent.body.is_empty();
    let mut pipe = String::new();
    if is_plain(&sent.body) && sent.body.len() <= ARGUMENT_BYTES_MAX {
        if has_body || matches!(sent.method.as_str(), "POST" | "PUT" | "PATCH") {
            parts.push(format!("--data-raw {}", word(&sent.body, exchange, BODY, names)));
        }
    } else {
        pipe = format!("printf {} | ", printf(&sent.body, exchange, names));
        parts.push("--data-binary @-".to_owned());
    }
    format!("{pipe}{}", parts.join(" \\\n  "))
}

/// Headers that grpcurl writes itself.
const OF_GRPCURL: [&str; 8] = [
    "host",
    "content-type",
    "te",
    "user-agent",
    "grpc-timeout",
    "grpc-encoding",
    "grpc-accept-encoding",
    "accept",
];

/// A gRPC call as a command for grpcurl.
fn grpcurl(exchange: &Exchange, connecting: &CurlConnection, names: &mut SecretVariables) -> String {
    let sent = &exchange.request;
    let mut parts = vec!["grpcurl".to_owned()];
    if sent.tls {
        parts.extend(connecting.insecure.then(|| "-insecure".to_owned()));
        parts.extend(connecting.ca.iter().map(|path| format!("-cacert {}", quoted(path.as_bytes()))));
        if let Some((certificate, key)) = &connecting.identity {
            parts.push(format!("-cert {}", quoted(certificate.as_bytes())));
            parts.push(format!("-key {}", quoted(key.as_bytes())));
        }
    } else {
        parts.push("-plaintext".to_owned());
    }
    for (name, value) in sent.headers.iter().filter(|(name, _)| !OF_GRPCURL.contains(&name.as_str())) {
        parts.push(format!("-H {}", header(name, value, exchange, names)));
    }
    if sent.body.is_empty() {
        // A dialogue, or messages that are not known: they are read from the terminal.
        parts.push("-d @".to_owned());
    } else {
        parts.push(format!("-d {}", word(&sent.body, exchange, BODY, names)));
    }
    match &sent.socket {
        Some(path) => parts.push(format!("-unix {}", quoted(path.as_bytes()))),
        None => parts.push(word(sent.authority.as_bytes(), exchange, "the host", names)),
    }
    let method = sent.path.trim_start_matches('/');
    parts.push(word(method.as_bytes(), exchange, "the method", names));
    parts.join(" \\\n  ")
}

/// The opening of a WebSocket as a command for websocat, which then sends what it is given.
fn websocat(exchange: &Exchange, connecting: &CurlConnection, names: &mut SecretVariables) -> String {
    // It does not compress.
    const OF_WEBSOCAT: [&str; 4] = ["host", "accept", "user-agent", "sec-websocket-extensions"];
    let sent = &exchange.request;
    let mut parts = vec!["websocat".to_owned()];
    parts.extend((sent.tls && connecting.insecure).then(|| "--insecure".to_owned()));
    for (name, value) in &sent.headers {
        match name.as_str() {
            "sec-websocket-protocol" => {
                parts.push(format!("--protocol {}", word(value, exchange, "the subprotocols", names)));
            }
            own if OF_WEBSOCAT.contains(&own) => {}
            _ => parts.push(format!("--header {}", header(name, value, exchange, names))),
        }
    }
    let scheme = if sent.tls { "wss" } else { "ws" };
    let url = format!("{scheme}://{}{}", sent.authority, sent.path);
    parts.push(word(url.as_bytes(), exchange, "the URL", names));
    parts.join(" \\\n  ")
}

/// How to connect.
fn options(exchange: &Exchange, connecting: &CurlConnection, names: &mut SecretVariables) -> Vec<String> {
    let sent = &exchange.request;
    let mut options = Vec::new();
    if connecting.http2 {
        options.push((if sent.tls { "--http2" } else { "--http2-prior-knowledge" }).to_owned());
    }
    options.extend(sent.socket.iter().map(|path| format!("--unix-socket {}", quoted(path.as_bytes()))));
    let port =
        sent.authority.rsplit_once(':').map(|(_, port)| port).filter(|port| port.parse::<u16>().is_ok());
    let port = port.unwrap_or(if sent.tls { "443" } else { "80" });
    for (host, addresses) in connecting.hosts.iter().filter(|_| sent.socket.is_none()) {
        let own = sent
            .authority
            .strip_prefix(host.as_str())
            .is_some_and(|rest| rest.is_empty() || rest.starts_with(':'));
        if own {
            let resolved = format!("{host}:{port}:{addresses}");
            options.push(format!("--resolve {}", word(resolved.as_bytes(), exchange, "the host", names)));
        }
    }
    if sent.tls {
        options.extend(connecting.insecure.then(|| "--insecure".to_owned()));
        options.extend(connecting.ca.iter().map(|path| format!("--cacert {}", quoted(path.as_bytes()))));
        if let Some((certificate, key)) = &connecting.identity {
            options.push(format!("--cert {}", quoted(certificate.as_bytes())));
            options.push(format!("--key {}", quoted(key.as_bytes())));
        }
    }
    options
}

/// The headers, and removals of those that curl would add.
fn headers(exchange: &Exchange, names: &mut SecretVariables) -> Vec<String> {
    let sent = &exchange.request;
    let mut options = Vec::new();
    let has = |wanted: &str| sent.headers.iter().any(|(name, _)| name == wanted);
    for (name, value) in &sent.headers {
        if name == "host" && value == sent.authority.as_bytes() {
            continue;
        }
        if value.is_empty() {
            options.push(format!("--header {}", quoted(format!("{name};").as_bytes())));
            continue;
        }
        options.push(format!("--header {}", header(name, value, exchange, names)));
    }
    for added in ["accept", "user-agent", "content-type", "expect"] {
        let by_curl = match added {
            "content-type" => {
                !sent.body.is_empty() || matches!(sent.method.as_str(), "POST" | "PUT" | "PATCH")
            }
            "expect" => sent.body.len() > EXPECTS_ABOVE_BYTES,
            _ => true,
        };
        if by_curl && !has(added) {
            options.push(format!("--header '{added}:'"));
        }
    }
    options
}

/// A secret in a text: its place, and what to name its variable after.
type Secret = (Range<usize>, String);

/// The secrets in a text, in order and without overlaps.
fn secrets_in(text: &str, hint: &str, names: &SecretVariables) -> Vec<Secret> {
    if names.reveal {
        return Vec::new();
    }
    let known = secret_spans(text, &names.secrets).into_iter().map(|span| (span, hint.to_owned()));
    let mut all: Vec<Secret> = known.collect();
    for (span, name) in named_secrets(text) {
        if !all.iter().any(|(other, _)| other.start < span.end && span.start < other.end) {
            all.push((span, name));
        }
    }
    all.sort_by_key(|(span, _)| span.start);
    all
}

fn header(name: &str, value: &[u8], exchange: &Exchange, names: &mut SecretVariables) -> String {
    let line = [name.as_bytes(), b": ", value].concat();
    let Ok(text) = std::str::from_utf8(&line) else { return quoted(&line) };
    let value = name.len() + 2;
    let secrets = match names_secret(name) && !names.reveal {
        true => vec![(value + scheme_of(name, &text[value..])..text.len(), name.to_owned())],
        false => secrets_in(text, name, names),
    };
    with_variables(text, secrets, exchange, names)
}

/// A word of the shell, with variables for the secrets in it.
fn word(bytes: &[u8], exchange: &Exchange, hint: &str, names: &mut SecretVariables) -> String {
    let Ok(text) = std::str::from_utf8(bytes) else { return quoted(bytes) };
    let secrets = secrets_in(text, hint, names);
    with_variables(text, secrets, exchange, names)
}

fn with_variables(
    text: &str,
    secrets: Vec<Secret>,
    exchange: &Exchange,
    names: &mut SecretVariables,
) -> String {
    let (mut shown, mut at) = (String::new(), 0);
    for (span, hint) in secrets {
        if at < span.start {
            shown.push_str(&quoted(&text.as_bytes()[at..span.start]));
        }
        let variable = names.of(&text[span.clone()], exchange, &hint);
        let _ = write!(shown, "\"${variable}\"");
        at = span.end;
    }
    if at < text.len() || shown.is_empty() {
        shown.push_str(&quoted(&text.as_bytes()[at..]));
    }
    shown
}

/// The arguments of `printf` for a body of any bytes.
fn printf(bytes: &[u8], exchange: &Exchange, names: &mut SecretVariables) -> String {
    let secrets = match std::str::from_utf8(bytes) {
        Ok(text) => secrets_in(text, BODY, names),
        _ => Vec::new(),
    };
    let (mut format, mut arguments, mut at) = (String::new(), String::new(), 0);
    for (span, hint) in secrets {
        format.push_str(&octal(&bytes[at..span.start]));
        let secret = String::from_utf8_lossy(&bytes[span.clone()]).into_owned();
        let variable = names.of(&secret, exchange, &hint);
        format.push_str("%s");
        let _ = write!(arguments, " \"${variable}\"");
        at = span.end;
    }
    format.push_str(&octal(&bytes[at..]));
    format!("'{format}'{arguments}")
}

/// True for a text that can stand between quotes.
fn is_plain(bytes: &[u8]) -> bool {
    !bytes.contains(&0)
}
