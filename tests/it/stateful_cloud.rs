//! A cloud in this process that keeps what is made in it: projects, users, servers, networks, images, volumes and so on,
//! each with its project. The tests of contexts look at what is left.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use crate::rewind;
use crate::server::{After, ScriptedRequest, ScriptedServer, Wire};

/// The administrator's project and user.
const ADMIN: (&str, &str) = ("p1", "u1");

/// Something in the cloud.
#[derive(Clone, Debug)]
pub(crate) struct CloudResource {
    /// The name of its collection, such as `servers`.
    pub(crate) of: String,
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) project: String,
    pub(crate) body: Value,
}

/// Answers a request instead of the cloud: status and body. The path has no query.
type RefusalScript = dyn Fn(&str, &str) -> Option<(&'static str, Value)> + Send + Sync;

#[derive(Clone, Default)]
struct StatefulCloudState {
    things: Vec<CloudResource>,
    /// User and project of each token.
    tokens: BTreeMap<String, (String, String)>,
    /// Method, path with query, and the name of the user of each request to a service but Keystone.
    requests: Vec<(String, String, String)>,
    /// The tokens with which users that were made have asked other services than Keystone.
    used: BTreeSet<String>,
    /// How long a token says that it is valid.
    lifetime_s: i64,
    made: usize,
    /// Service and body of each request that set quotas.
    quotas: Vec<(String, Value)>,
    refuses: Option<Arc<RefusalScript>>,
}

impl StatefulCloudState {
    fn is_in(&self, project: &str, of: &str, id: &str) -> bool {
        self.things.iter().any(|thing| thing.project == project && is(thing, of, id))
    }
}

/// Some things are known by their names.
fn is(thing: &CloudResource, of: &str, id: &str) -> bool {
    let is_named = ["os-keypairs", "workbooks"].contains(&of) && thing.name == id;
    thing.of == of && (thing.id == id || is_named)
}

pub(crate) struct StatefulCloud {
    pub(crate) server: ScriptedServer,
    state: Arc<Mutex<StatefulCloudState>>,
}

impl StatefulCloud {
    pub(crate) fn start() -> Self {
        Self::with_tokens_of(3600)
    }

    /// A cloud whose tokens are valid for this time.
    pub(crate) fn with_tokens_of(lifetime_s: i64) -> Self {
        let state = rewind::state(StatefulCloudState { lifetime_s, ..StatefulCloudState::default() });
        let shared = Arc::clone(&state);
        Self { server: ScriptedServer::start(move |seen, wire| answer(seen, wire, &shared)), state }
    }

    /// From now on, these requests are refused.
    pub(crate) fn refuse(
        &self,
        refuses: impl Fn(&str, &str) -> Option<(&'static str, Value)> + Send + Sync + 'static,
    ) {
        self.state.lock().unwrap().refuses = Some(Arc::new(refuses));
    }

    /// From now on, no request is refused.
    pub(crate) fn allow(&self) {
        self.state.lock().unwrap().refuses = None;
    }

    /// Puts something there that nobody has asked for.
    pub(crate) fn put(&self, of: &str, project: &str, name: &str) {
        let mut state = self.state.lock().unwrap();
        state.made += 1;
        let id = format!("id-{}", state.made);
        let (of, project, name) = (of.to_owned(), project.to_owned(), name.to_owned());
        state.things.push(CloudResource { of, id, name, project, body: json!({}) });
    }

    /// What is there.
    pub(crate) fn things(&self) -> Vec<CloudResource> {
        self.state.lock().unwrap().things.clone()
    }

    /// Collections and names of what is there.
    pub(crate) fn names(&self) -> Vec<String> {
        let mut names: Vec<String> =
            self.things().iter().map(|thing| format!("{} {}", thing.of, thing.name)).collect();
        names.sort();
        names
    }

    /// Method, path with query, and user of each request to another service than Keystone.
    pub(crate) fn requests(&self) -> Vec<(String, String, String)> {
        self.state.lock().unwrap().requests.clone()
    }

    /// How many tokens users have used that were made.
    pub(crate) fn tokens_used(&self) -> usize {
        self.state.lock().unwrap().used.len()
    }

    /// The quotas that were set.
    pub(crate) fn quotas(&self) -> Vec<(String, Value)> {
        self.state.lock().unwrap().quotas.clone()
    }

    /// A deployment file.
    pub(crate) fn deployment(&self) -> String {
        format!(
            "auth: {{ keystone: {{ auth_url: '{}/identity', username: admin, password: P4ssw0rd-x, project_name: admin }} }}\n",
            self.server.url()
        )
    }
}

fn catalog(host: &str) -> Value {
    let one = |kind: &str, path: &str| {
        json!({ "type": kind, "name": kind, "endpoints": [
        { "interface": "public", "region": "One", "region_id": "One", "url": format!("http://{host}{path}") } ] })
    };
    json!([
        one("identity", "/identity"),
        one("compute", "/compute/v2.1"),
        one("image", "/image"),
        one("network", "/network"),
        one("volumev3", &format!("/volume/v3/{}", ADMIN.0)),
        one("workflowv2", "/workflow/v2"),
    ])
}

fn answer(seen: &ScriptedRequest, wire: &mut Wire<'_>, state: &Mutex<StatefulCloudState>) -> After {
    let (path, query) = seen.path.split_once('?').unwrap_or((&seen.path, ""));
    let mut state = state.lock().unwrap();
    if path == "/identity/v3/auth/tokens" {
        return log_in(seen, wire, &mut state);
    }
    let token = seen.headers.get("x-auth-token").cloned().unwrap_or_default();
    let Some((user, project)) = state.tokens.get(&token).cloned() else {
        return wire.answer("401 Unauthorized", "application/json", "{}");
    };
    if !path.starts_with("/identity") {
        if user != "admin" {
            state.used.insert(token);
        }
        state.requests.push((seen.method.clone(), seen.path.clone(), user));
    }
    let refused = state.refuses.as_ref().and_then(|refuses| refuses(&seen.method, path));
    let (status, body) = refused.unwrap_or_else(|| act(seen, (path, query), &project, &mut state));
    drop(state);
    let body = if body.is_null() { String::new() } else { body.to_string() };
    wire.answer(status, "application/json", body)
}

/// A login of the administrator, or of a user that was made.
fn log_in(seen: &ScriptedRequest, wire: &mut Wire<'_>, state: &mut StatefulCloudState) -> After {
    let auth = serde_json::from_slice::<Value>(&seen.body).unwrap_or_default()["auth"].clone();
    let user = &auth["identity"]["password"]["user"];
    let name = user["name"].as_str().unwrap_or_default().to_owned();
    let made = state.things.iter().find(|thing| thing.of == "users" && thing.name == name);
    let project = auth["scope"]["project"]["id"].as_str().unwrap_or(ADMIN.0).to_owned();
    let is_known = match made {
        Some(made) => made.body["password"] == user["password"] && user["password"].is_string(),
        None => name == "admin",
    };
    if !is_known {
        return wire.answer("401 Unauthorized", "application/json", "{}");
    }
    let token = format!("T0ken-{}-xYz", state.tokens.len());
    state.tokens.insert(token.clone(), (name, project.clone()));
    let time = |seconds: i64| jiff::Timestamp::from_second(seconds).unwrap().to_string();
    let host = seen.headers.get("host").cloned().unwrap_or_default();
    let body = json!({ "token": { "issued_at": time(1_800_000_000), "expires_at": time(1_800_000_000 + state.lifetime_s),
        "user": { "id": ADMIN.1 }, "project": { "id": project }, "catalog": catalog(&host) } });
    let body = body.to_string();
    wire.send(format!(
        "HTTP/1.1 201 Created\r\nContent-Type: application/json\r\nX-Subject-Token: {token}\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    ));
    After::Keep
}

/// The key of a single thing of a collection: `servers` has `server`.
fn single(of: &str) -> String {
    match of {
        "os-keypairs" => "keypair".to_owned(),
        other => other.trim_end_matches('s').replace('-', "_"),
    }
}

fn act(
    seen: &ScriptedRequest,
    (path, query): (&str, &str),
    project: &str,
    state: &mut StatefulCloudState,
) -> (&'static str, Value) {
    let parts: Vec<&str> = path.split('/').skip(1).collect();
    // Service, version, and for Cinder the project.
    let skipped = if parts.first() == Some(&"volume") { 3 } else { 2 };
    let rest = parts.get(skipped..).unwrap_or_default();
    let body: Value = serde_json::from_slice(&seen.body).unwrap_or_default();
    match (seen.method.as_str(), rest) {
        ("GET", ["domains", id]) => ("200 OK", json!({ "domain": { "id": id, "name": "Default" } })),
        ("GET", ["roles"]) => (
            "200 OK",
            json!({ "roles": [ { "id": "r0", "name": "admin" }, { "id": "r1", "name": "member" } ] }),
        ),
        ("PUT", ["projects", _, "users", _, "roles", "r1"]) => ("204 No Content", Value::Null),
        ("PUT", ["images", _, "file"]) if seen.body.len() == 1024 => ("204 No Content", Value::Null),
        ("PUT", ["os-quota-sets" | "quotas", _]) => {
            state.quotas.push((parts[0].to_owned(), body));
            ("200 OK", json!({}))
        }
        ("DELETE", ["os-quota-sets" | "quotas", _]) => ("204 No Content", Value::Null),
        ("POST", ["flavors", _, "os-extra_specs"]) => ("200 OK", body),
        ("PUT", ["routers", router, "add_router_interface"]) => {
            state.made += 1;
            let thing = CloudResource {
                of: "ports".to_owned(),
                id: format!("id-{}", state.made),
                name: String::new(),
                project: project.to_owned(),
                body: json!({ "device_id": router, "device_owner": "network:router_interface" }),
            };
            state.things.push(thing);
            ("200 OK", json!({}))
        }
        ("PUT", ["routers", _, "remove_router_interface"]) => {
            state.things.retain(|thing| thing.id != body["port_id"]);
            ("200 OK", json!({}))
        }
        ("POST", [of]) => ("201 Created", make(of, &body, project, state)),
        ("GET", [of] | [of, "detail"]) => ("200 OK", list(of, query, project, state)),
        ("GET", [of, id]) => match state.things.iter().find(|thing| thing.id == *id) {
            Some(thing) => ("200 OK", json!({ single(of): shown(thing) })),
            None => ("404 Not Found", json!({})),
        },
        // Mistral's things are only for members of their project.
        ("DELETE", [of, id]) if parts[0] == "workflow" && !state.is_in(project, of, id) => {
            ("404 Not Found", json!({}))
        }
        ("DELETE", [of, id]) => delete(of, id, state),
        _ => ("404 Not Found", json!({ "error": { "message": "no such path" } })),
    }
}

fn shown(thing: &CloudResource) -> Value {
    // Each service says in its own way whose a thing is.
    let project = &thing.project;
    let mut shown = json!({ "id": thing.id, "name": thing.name, "project_id": project, "tenant_id": project,
        "owner": project, "os-vol-tenant-attr:tenant_id": project,
        "os-extended-snapshot-attributes:project_id": project, "status": "available" });
    if let (Some(shown), Some(body)) = (shown.as_object_mut(), thing.body.as_object()) {
        shown.extend(body.iter().map(|(key, value)| (key.clone(), value.clone())));
    }
    shown
}

fn make(of: &str, body: &Value, project: &str, state: &mut StatefulCloudState) -> Value {
    let key = single(of);
    let inner = body.get(&key).unwrap_or(body).clone();
    state.made += 1;
    let thing = CloudResource {
        of: of.to_owned(),
        id: format!("id-{}", state.made),
        name: inner["name"].as_str().unwrap_or_default().to_owned(),
        project: project.to_owned(),
        body: inner,
    };
    let answer = match of {
        "images" => shown(&thing),
        _ => json!({ key: shown(&thing) }),
    };
    state.things.push(thing);
    answer
}

/// Those of a project; of all projects for collections that have no projects.
fn list(of: &str, query: &str, project: &str, state: &mut StatefulCloudState) -> Value {
    let queried: BTreeMap<&str, &str> = query.split('&').filter_map(|pair| pair.split_once('=')).collect();
    // As Neutron does: a project whose groups are listed has one.
    if let ("security-groups", Some(project)) = (of, queried.get("project_id").filter(|id| **id != ADMIN.0)) {
        let has_one = state.things.iter().any(|thing| thing.of == of && thing.project == **project);
        if !has_one {
            make(of, &json!({ "security_group": { "name": "default" } }), project, state);
        }
    }
    let wanted = ["project_id", "owner"].iter().find_map(|key| queried.get(key)).copied();
    let has_projects = !["projects", "users", "flavors", "os-keypairs"].contains(&of);
    let things = state.things.iter().filter(|thing| thing.of == of);
    let things = things.filter(|thing| {
        !has_projects || queried.contains_key("device_id") || thing.project == wanted.unwrap_or(project)
    });
    let things = things
        .filter(|thing| queried.get("name__startswith").is_none_or(|start| thing.name.starts_with(start)));
    let things =
        things.filter(|thing| queried.get("device_id").is_none_or(|id| thing.body["device_id"] == **id));
    let key = match of {
        "os-keypairs" => "keypairs".to_owned(),
        other => other.replace('-', "_"),
    };
    let items: Vec<Value> = match of {
        "os-keypairs" => {
            let of_user = queried.get("user_id").copied().unwrap_or_default();
            let own = things.filter(|thing| thing.body["user"].as_str().unwrap_or(ADMIN.1) == of_user);
            own.map(|thing| json!({ "keypair": { "name": thing.name, "type": "ssh" } })).collect()
        }
        _ => things.map(shown).collect(),
    };
    json!({ key: items })
}

fn delete(of: &str, id: &str, state: &mut StatefulCloudState) -> (&'static str, Value) {
    let Some(at) = state.things.iter().position(|thing| is(thing, of, id)) else {
        return ("404 Not Found", json!({}));
    };
    // A network is in use while there are ports, a project while it has anything.
    let project = state.things[at].project.clone();
    let in_use = match of {
        "networks" | "subnets" => {
            state.things.iter().any(|thing| thing.of == "ports" && thing.project == project)
        }
        "routers" => state.things.iter().any(|thing| thing.of == "ports" && thing.body["device_id"] == id),
        "projects" => state.things.iter().any(|thing| thing.project == id),
        _ => false,
    };
    if in_use {
        return ("409 Conflict", json!({ "NeutronError": { "message": "It is in use." } }));
    }
    state.things.remove(at);
    ("204 No Content", Value::Null)
}
