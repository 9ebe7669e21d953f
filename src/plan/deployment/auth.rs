//! The part of a deployment about tokens: OAuth 2.0, and programs that print them.

use std::time::Duration;

use ::config::auth::{self as config, CommandLine};
use ::config::deployment::{self as config_deployment, Deployment};
use base::complaint::Complaint;
use client::client_credentials::{Grant, Style};
use client::tls::TlsOptions;
use client::url::endpoint_uses_tls;
use text::diagnostics::Fault;
use text::yaml::YamlNode;
use text::yaml_place::{at, item, key_span};

use super::{Auth, Lookup, ReferenceReader};

/// The time limit of a program that prints a token.
const PROGRAM_LIMIT: Duration = Duration::from_secs(30);

/// A program that prints a token.
#[derive(Clone)]
pub struct TokenCommand {
    /// Its name and arguments.
    pub program: Vec<String>,
    /// The header that carries the token alone; `None` for a bearer token.
    pub header: Option<http::HeaderName>,
    /// How long a token is used, if the deployment says so.
    pub lifetime: Option<Duration>,
    /// The token's place in JSON.
    pub pointer: Option<String>,
    /// The program's time limit.
    pub limit: Duration,
}

/// How requests authenticate: as the deployment says, or as its cloud does, with the cloud's TLS options.
pub(super) fn auth_or_cloud(
    reader: &mut ReferenceReader<'_>,
    value: &Deployment,
    root: &YamlNode,
    lookup: &mut Lookup,
) -> (Option<Auth>, Option<TlsOptions>) {
    let Some(name) = &value.cloud else { return (own_auth(reader, value.auth.as_ref(), root), None) };
    if value.auth.is_some() {
        let fault = Fault::error(key_span(root, "auth"), "`auth` together with `cloud`");
        reader.faults.push(fault.help("remove one of them: clouds.yaml says how to log in"));
    }
    let Some(cloud) = super::cloud::cloud(reader, name, at(root, &["cloud"])) else {
        // Nothing can be said about what is not known.
        reader.partial |= reader.env.is_offline();
        return (reader.env.is_offline().then_some(Auth::None), None);
    };
    let own = std::mem::replace(lookup, cloud.lookup);
    lookup.overridden_by(own, value.catalog.as_ref());
    (Some(cloud.auth), Some(cloud.tls))
}

fn own_auth(
    reader: &mut ReferenceReader<'_>,
    auth: Option<&config_deployment::Auth>,
    root: &YamlNode,
) -> Option<Auth> {
    match auth {
        None | Some(config_deployment::Auth::None(_)) => Some(Auth::None),
        Some(config_deployment::Auth::Basic(basic)) => {
            let node = at(root, &["auth", "basic"]);
            let username = reader.text(&basic.username, at(node, &["username"]));
            let password = reader.secret(&basic.password, at(node, &["password"]));
            Some(Auth::Basic { username: username?, password: password? })
        }
        Some(config_deployment::Auth::Bearer(bearer)) => {
            let token = reader.secret(&bearer.token, at(root, &["auth", "bearer", "token"]))?;
            Some(Auth::Bearer { token })
        }
        Some(config_deployment::Auth::OAuth2(oauth2)) => {
            oauth2_grant(reader, oauth2, at(root, &["auth", "oauth2"]))
        }
        Some(config_deployment::Auth::Command(command)) => {
            token_command(reader, command, at(root, &["auth", "command"]))
        }
        Some(config_deployment::Auth::Keystone(keystone)) => {
            super::keystone::login_of(reader, keystone, root)
        }
    }
}

pub(super) fn oauth2_grant(
    reader: &mut ReferenceReader<'_>,
    written: &config::OAuth2,
    node: &YamlNode,
) -> Option<Auth> {
    let place = at(node, &["token_url"]);
    let token_url = reader.text(&written.token_url, place).filter(|url| match endpoint_uses_tls(url) {
        Ok(_) => true,
        Err(complaint) => {
            reader.quoting_fault(&written.token_url, url, place, complaint);
            false
        }
    });
    let client_id = reader.text(&written.client_id, at(node, &["client_id"]));
    let client_secret = reader.secret(&written.client_secret, at(node, &["client_secret"]));
    let scope = written.scope.as_ref().and_then(|scope| reader.text(scope, at(node, &["scope"])));
    let audience = written.audience.as_ref().and_then(|text| reader.text(text, at(node, &["audience"])));
    Some(Auth::OAuth2(Box::new(Grant {
        token_url: token_url?,
        client_id: client_id?,
        client_secret: client_secret?,
        scope,
        audience,
        style: match written.style {
            None | Some(config::Style::Basic) => Style::Basic,
            Some(config::Style::Post) => Style::Post,
        },
    })))
}

pub(super) fn token_command(
    reader: &mut ReferenceReader<'_>,
    written: &config::TokenCommand,
    node: &YamlNode,
) -> Option<Auth> {
    let (faults_before, run) = (reader.faults.len(), at(node, &["run"]));
    let program = match &written.run {
        CommandLine::Shell(line) => {
            vec!["sh".to_owned(), "-c".to_owned(), reader.text(line, run).unwrap_or_default()]
        }
        CommandLine::Words(words) => {
            let words = words.iter().enumerate();
            words.filter_map(|(index, word)| reader.text(word, item(run, index))).collect()
        }
    };
    let name = written.header.as_ref().and_then(|name| reader.known_text(name, at(node, &["header"])));
    let header = name.and_then(|name| match super::request_header(&name, "") {
        Ok((name, _)) => Some(name),
        Err(complaint) => {
            reader.faults.push(Fault::of(at(node, &["header"]).span.clone(), complaint));
            None
        }
    });
    let pointer = written.pointer.as_ref().and_then(|place| reader.known_text(place, at(node, &["pointer"])));
    if pointer.as_ref().is_some_and(|pointer| !pointer.starts_with('/')) {
        let complaint = Complaint::new("a JSON pointer starts with a slash", "write it as /status/token");
        reader.faults.push(Fault::of(at(node, &["pointer"]).span.clone(), complaint));
    }
    for (key, time) in [("lifetime", written.lifetime), ("timeout", written.timeout)] {
        if time.is_some_and(|time| time.0.is_zero()) {
            let complaint = Complaint::new(format!("`{key}` must be above zero"), "write a time such as 50m");
            reader.faults.push(Fault::of(at(node, &[key]).span.clone(), complaint));
        }
    }
    (reader.faults.len() == faults_before).then(|| {
        Auth::Command(Box::new(TokenCommand {
            program,
            header,
            lifetime: written.lifetime.map(|time| time.0),
            pointer,
            limit: written.timeout.map_or(PROGRAM_LIMIT, |time| time.0),
        }))
    })
}
