//! A small cloud in this process: Keystone with a catalog, and services that want its tokens.
//!
//! It keeps who may log in, what was made and what was deleted; the tests of catalogs, tokens and contexts share it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use crate::rewind;
use crate::server::{After, ScriptedRequest, ScriptedServer, Wire};

/// What a cloud does besides the usual.
#[derive(Clone, Debug)]
pub(crate) struct CloudBehavior {
    /// How long a token says that it is valid.
    pub(crate) lifetime_s: i64,
    /// The services refuse the first token after this many requests, as if it had been revoked.
    pub(crate) first_token_ends_after: usize,
    /// The services refuse all tokens.
    pub(crate) refuses_all: bool,
}

impl Default for CloudBehavior {
    fn default() -> Self {
        Self { lifetime_s: 3600, first_token_ends_after: usize::MAX, refuses_all: false }
    }
}

#[derive(Clone, Default)]
struct TokenCloudState {
    /// How many requests each token has brought.
    tokens: BTreeMap<String, usize>,
    logins: Vec<Value>,
}

/// A running cloud.
pub(crate) struct TokenCloud {
    pub(crate) server: ScriptedServer,
    state: Arc<Mutex<TokenCloudState>>,
}

impl TokenCloud {
    pub(crate) fn start(options: CloudBehavior) -> Self {
        let state = rewind::state(TokenCloudState::default());
        let shared = Arc::clone(&state);
        let server = ScriptedServer::start(move |seen, wire| answer(seen, wire, &options, &shared));
        Self { server, state }
    }

    pub(crate) fn url(&self) -> String {
        self.server.url()
    }

    /// What was sent to log in: `auth` of each request.
    pub(crate) fn logins(&self) -> Vec<Value> {
        self.state.lock().unwrap().logins.clone()
    }

    /// How many tokens were used.
    pub(crate) fn tokens_used(&self) -> usize {
        self.state.lock().unwrap().tokens.values().filter(|requests| **requests > 0).count()
    }

    /// `auth: {keystone: …}` of a deployment.
    pub(crate) fn auth(&self) -> String {
        let url = self.url();
        format!(
            "auth: {{ keystone: {{ auth_url: '{url}/identity', username: u, password: P4ssw0rd-x, project_name: p }} }}"
        )
    }
}

/// The catalog: everything is on this server, each service below its own path.
fn catalog(host: &str) -> Value {
    let endpoint = |interface: &str, region: &str, path: &str| json!({ "interface": interface, "region": region, "region_id": region, "url": format!("http://{host}{path}") });
    let one = |path: &str| json!([endpoint("public", "RegionOne", path)]);
    json!([
        { "type": "identity", "name": "keystone", "endpoints": one("/identity") },
        { "type": "compute", "name": "nova", "endpoints": [
            endpoint("public", "RegionOne", "/one/compute/v2.1"), endpoint("public", "RegionTwo", "/two/compute/v2.1"),
            endpoint("internal", "RegionOne", "/inside/compute/v2.1") ] },
        { "type": "image", "name": "glance", "endpoints": one("/image") },
        { "type": "network", "name": "neutron", "endpoints": one("/network") },
        { "type": "volumev3", "name": "cinderv3", "endpoints": one("/volume/v3/p1") },
        { "type": "dns", "name": "designate", "endpoints": [
            { "interface": "public", "region": "RegionOne", "region_id": "RegionOne", "url": "http://127.0.0.1:1/dns" } ] },
    ])
}

fn answer(
    seen: &ScriptedRequest,
    wire: &mut Wire<'_>,
    options: &CloudBehavior,
    state: &Mutex<TokenCloudState>,
) -> After {
    let json = "application/json";
    let token = seen.headers.get("x-auth-token").cloned();
    if seen.path == "/identity/v3/auth/tokens" {
        let host = seen.headers.get("host").cloned().unwrap_or_default();
        return log_in(seen, wire, options, state, &host);
    }
    let mut state = state.lock().unwrap();
    let used = token.as_ref().and_then(|token| state.tokens.get_mut(token));
    let is_first = token.is_some_and(|token| !token.contains("T0ken-1") && !token.contains("T0ken-2"));
    let most = if is_first { options.first_token_ends_after } else { usize::MAX };
    match used {
        Some(used) if *used < most && !options.refuses_all => {
            *used += 1;
            drop(state);
            let links = json!({ "path": seen.path, "self": format!("http://{}{}", seen.headers["host"], "/one/compute/v2.1/linked") });
            wire.answer("200 OK", json, links.to_string())
        }
        _ => wire.answer("401 Unauthorized", json, json!({ "error": { "code": 401 } }).to_string()),
    }
}

fn log_in(
    seen: &ScriptedRequest,
    wire: &mut Wire<'_>,
    options: &CloudBehavior,
    state: &Mutex<TokenCloudState>,
    host: &str,
) -> After {
    let mut state = state.lock().unwrap();
    let auth = match seen.method.as_str() {
        "GET" => json!({ "given": seen.headers.get("x-subject-token") }),
        _ => serde_json::from_slice::<Value>(&seen.body).unwrap_or_default()["auth"].clone(),
    };
    state.logins.push(auth.clone());
    let words = auth.to_string();
    if words.contains("wrong") || words.contains("expired") {
        drop(state);
        let said = json!({ "error": { "message": "The request you have made requires authentication." } });
        return wire.answer("401 Unauthorized", "application/json", said.to_string());
    }
    let token = match auth["given"].as_str() {
        Some(given) => given.to_owned(),
        None => format!("T0ken-{}-xYz", state.tokens.len()),
    };
    state.tokens.insert(token.clone(), 0);
    drop(state);
    let issued = 1_800_000_000_i64;
    let time = |seconds: i64| jiff::Timestamp::from_second(seconds).unwrap().to_string();
    let is_unscoped =
        auth["scope"].is_null() && auth["given"].is_null() && !words.contains("application_credential");
    let mut answer = json!({ "token": { "issued_at": time(issued), "expires_at": time(issued + options.lifetime_s),
        "user": { "id": "u1", "name": "u" }, "project": { "id": "p1", "name": "p" }, "catalog": catalog(host) } });
    if is_unscoped {
        answer["token"].as_object_mut().unwrap().remove("catalog");
    }
    let (body, status) = (answer.to_string(), if seen.method == "GET" { "200 OK" } else { "201 Created" });
    wire.send(format!(
        "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nX-Subject-Token: {token}\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    ));
    After::Keep
}
