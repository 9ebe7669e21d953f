//! Drafts to begin with: one request, a small load, thresholds, and ideas for more as comments.

use serde_json::{Map, Value, json};

use super::draft::DraftStep;
use super::request::{SecretsOnly, split_url};
use super::secrets::Variables;
use super::{Draft, ImportError, sniff};

/// Keys to add to a scenario, each under what it is for. They stand at the end of a new scenario as comments.
pub const IDEAS: [(&str, &str); 5] = [
    (
        "Log in first, and send the token with the requests that follow",
        "variables:\n  user: alice\n  password: { env: PASSWORD }\n\
         iteration:\n  - action: log in\n    post: /login\n    json: { user: \"{{ user }}\", password: \"{{ password }}\" }\n    \
         extract: { token: { json: $.token } }\n  - action: read\n    get: /orders\n    \
         headers: { Authorization: \"Bearer {{ token }}\" }\n",
    ),
    (
        "Another user for each iteration; `data: { users: users.csv }` reads them from a file",
        "data:\n  users: { rows: [{ name: alice }, { name: bob }] }\n\
         iteration:\n  - get: /users/{{ users.name }}\n",
    ),
    (
        "Start iterations at a rate, however long each of them takes",
        "runner: { rps: { rps: 50, duration: 2m } }\n",
    ),
    (
        "More and more of them at the same time",
        "runner: { ramping: { stages: [{ duration: 1m, concurrency: 20 }, { duration: 1m, concurrency: 100 }] } }\n",
    ),
    (
        "Check what a response contains, and wait between requests",
        "iteration:\n  - get: /\n    expect: { status: 200, headers: { Content-Type: { contains: html } }, latency: 2s }\n  \
         - think: 500ms\n",
    ),
];

/// A small load with thresholds that a first run is compared with.
const TIMES: u64 = 200;
const CONCURRENCY: u64 = 10;

/// One GET of a URL.
///
/// # Errors
/// The text is not a URL of HTTP, or it has credentials.
pub fn from_url(url: &str) -> Result<Draft, ImportError> {
    let Some((origin, path)) = split_url(url) else {
        return Err(ImportError::new(
            "this is not a URL of http or https",
            "write it as http://host:port/path",
        ));
    };
    let authority =
        url.split_once("://").map_or("", |(_, rest)| rest.split(['/', '?', '#']).next().unwrap_or_default());
    if authority.contains('@') {
        return Err(ImportError::new(
            "a URL with credentials would be readable in the files",
            "leave them out, and write `auth` into the deployment",
        ));
    }
    let host = origin.split_once("://").map_or(origin.as_str(), |(_, host)| host).to_owned();
    let mut variables = Variables::default();
    let written = sniff::replaced(&path, &mut SecretsOnly(&mut variables));
    let shown = sniff::shown(&path);
    let name = shown.split('?').next().unwrap_or_default();
    let keys = Map::from_iter([
        ("action".to_owned(), Value::from(format!("GET {}", name.chars().take(100).collect::<String>()))),
        ("get".to_owned(), written.into()),
        ("expect".to_owned(), json!({ "status": 200 })),
    ]);
    let mut draft = Draft {
        title: format!("Load on {host}"),
        name: host,
        targets: vec![("default".to_owned(), origin)],
        steps: vec![DraftStep { keys, comment: "The requests of one iteration, in order.".to_owned() }],
        variables,
        ..Draft::default()
    };
    finish(&mut draft, "500ms");
    Ok(draft)
}

/// A method of a gRPC service.
#[derive(Clone, Debug)]
pub struct GrpcMethod {
    /// Its name with its service, such as `shop.v1.Orders/Get`.
    pub name: String,
    /// A message that it takes.
    pub message: Value,
    /// True if it takes any number of them.
    pub takes_several: bool,
}

/// The most methods that are called; more are left out.
const METHODS_MAX: usize = 20;

/// A call of each method of a gRPC service.
///
/// # Errors
/// No methods.
pub fn from_grpc(url: &str, methods: &[GrpcMethod]) -> Result<Draft, ImportError> {
    if methods.is_empty() {
        return Err(ImportError::new("the service has no methods", "check that its address is right"));
    }
    let step = |method: &GrpcMethod| {
        let (key, message) = match method.takes_several {
            true => ("messages", json!([method.message])),
            false => ("message", method.message.clone()),
        };
        let keys = [("grpc".to_owned(), Value::from(&*method.name)), (key.to_owned(), message)];
        DraftStep { keys: Map::from_iter(keys), comment: String::new() }
    };
    let host = url.split_once("://").map_or(url, |(_, host)| host).to_owned();
    let mut draft = Draft {
        title: format!("Load on {host}"),
        name: host,
        targets: vec![("default".to_owned(), url.to_owned())],
        steps: methods.iter().take(METHODS_MAX).map(step).collect(),
        ..Draft::default()
    };
    draft.steps[0].comment =
        "The calls of one iteration, in order. Fill in the messages, and remove what must not run."
            .to_owned();
    if let Some(more) = methods.len().checked_sub(METHODS_MAX).filter(|more| *more > 0) {
        draft.notes.push(format!("{more} methods were left out"));
    }
    draft.notes.push("calls may change data: remove those that must not run".to_owned());
    finish(&mut draft, "500ms");
    Ok(draft)
}

/// The embedded demo: a login and a look-up.
#[must_use]
pub fn demo() -> Draft {
    let step = |value: Value, comment: &str| {
        let keys = if let Value::Object(keys) = value { keys } else { Map::new() };
        DraftStep { keys, comment: comment.to_owned() }
    };
    let log_in = json!({
        "action": "log in",
        "post": "/v3/auth/tokens",
        "json": { "auth": { "identity": { "methods": ["password"], "password": {
            "user": { "name": "{{ name }}", "domain": { "id": "default" }, "password": "demo" } } } } },
        "expect": { "status": 201 },
        "extract": { "token": { "header": "X-Subject-Token" }, "user_id": { "json": "$.token.user.id" } }
    });
    let look_up = json!({
        "action": "look up",
        "get": "/v3/users/{{ user_id }}",
        "headers": { "X-Auth-Token": "{{ token }}" },
        "expect": { "status": 200, "json": { "$.user.name": "{{ name }}" } }
    });
    let mut draft = Draft {
        title: "Log in, then look a user up".to_owned(),
        name: "demo".to_owned(),
        steps: vec![
            step(log_in, "Takes a token and an id from the response …"),
            step(look_up, "… and uses both in the next request."),
        ],
        ..Draft::default()
    };
    draft.deployment.insert("demo".into(), json!({ "slow_percent": 2, "slow_query": "80ms" }));
    let comment =
        "The service built into bench. For your own, write `targets: { default: http://host:port }` instead.";
    draft.deployment_comments.insert("/demo".into(), comment.to_owned());
    draft.variables.plain("name", json!("user-7"), None);
    finish(&mut draft, "1s");
    draft
}

/// Adds to a draft what a beginner needs: a load, thresholds, and ideas.
pub fn finish(draft: &mut Draft, p95: &str) {
    draft.about.insert(0, "Made by `bench init`. `bench help reference` describes every key.".to_owned());
    let load = json!({ "constant": { "times": TIMES, "concurrency": CONCURRENCY } });
    draft.runner = Some((load, format!("{TIMES} iterations, {CONCURRENCY} at the same time.")));
    let sla = json!({ "failure_rate": { "max": 1 }, "thresholds": [format!("p95 < {p95}")] });
    let comment = "What must hold. After a first run, write the times here that you want to keep;\n\
        p95 needs 59 iterations, p99 needs 299.";
    draft.sla = Some((sla, comment.to_owned()));
    draft.ideas = ideas();
}

fn ideas() -> String {
    let mut text = String::from("\n# Ideas; each replaces or adds the keys that it shows.\n");
    for (title, keys) in IDEAS {
        text.push_str("#\n# ");
        text.push_str(title);
        text.push_str(":\n");
        for line in keys.lines() {
            text.push_str("#   ");
            text.push_str(line);
            text.push('\n');
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_becomes_a_target_and_a_path() {
        let draft = from_url("https://h:1/a/b?c=d#e").unwrap();
        assert_eq!(draft.targets, [("default".to_owned(), "https://h:1".to_owned())]);
        assert_eq!(draft.steps[0].keys["get"], "/a/b?c=d");
        for (url, part) in
            [("ftp://h", "not a URL"), ("h/a", "not a URL"), ("http://u:p@h/", "with credentials")]
        {
            assert!(from_url(url).unwrap_err().what.contains(part), "{url}");
        }
    }
}
