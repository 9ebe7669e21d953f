//! A small OpenStack in this process: it keeps what is made, gives it back, and deletes it, as Keystone, Nova, Glance,
//! Neutron, Cinder, Mistral and Placement do. Everything is ready at once.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::{Map, Value, json};

use crate::rewind;
use crate::server::{After, ScriptedRequest, ScriptedServer, Wire};

/// The path of each service on the server, with its type in the catalog.
const SERVICES: [(&str, &str); 7] = [
    ("identity", "/identity/v3"),
    ("compute", "/compute/v2.1"),
    ("image", "/image/v2"),
    ("network", "/network/v2.0"),
    ("volumev3", "/volume/v3"),
    ("workflowv2", "/workflow/v2"),
    ("placement", "/placement"),
];

/// What there is, by the name of its collection.
type Things = BTreeMap<String, Vec<Value>>;

/// A running cloud.
pub(crate) struct FakeOpenStack {
    pub(crate) server: ScriptedServer,
    things: Arc<Mutex<Things>>,
}

/// What is there before anything is made.
fn first_things() -> Things {
    let one = |thing: Value| vec![thing];
    [
        ("flavors", one(json!({ "id": "f1", "name": "m1.tiny" }))),
        ("images", one(json!({ "id": "i1", "name": "cirros", "status": "active" }))),
        ("roles", one(json!({ "id": "r1", "name": "member" }))),
        ("services", one(json!({ "id": "s1", "name": "keystone" }))),
        ("users", one(json!({ "id": "u1", "name": "u" }))),
        ("domains", one(json!({ "id": "default", "name": "Default" }))),
        ("servers", one(json!({ "id": "foreign", "name": "somebody's", "status": "ACTIVE" }))),
    ]
    .into_iter()
    .map(|(name, things)| (name.to_owned(), things))
    .collect()
}

impl FakeOpenStack {
    pub(crate) fn start() -> Self {
        let things = rewind::state(first_things());
        let shared = Arc::clone(&things);
        let server = ScriptedServer::start(move |seen, wire| answer(seen, wire, &mut shared.lock().unwrap()));
        Self { server, things }
    }

    /// A deployment that logs in.
    pub(crate) fn deployment(&self) -> String {
        let url = self.server.url();
        format!(
            "auth: {{ keystone: {{ auth_url: '{url}/identity', username: u, password: P4ssw0rd-x, project_name: p }} }}\n"
        )
    }

    /// The names of what is there besides what was there at first.
    pub(crate) fn left(&self) -> Vec<String> {
        let (first, now) = (first_things(), self.things.lock().unwrap());
        let mut left = Vec::new();
        for (collection, things) in now.iter() {
            let known = first.get(collection).cloned().unwrap_or_default();
            left.extend(
                things.iter().filter(|t| !known.contains(t)).map(|thing| format!("{collection}: {thing}")),
            );
            left.extend(
                known
                    .iter()
                    .filter(|t| !things.contains(t))
                    .map(|thing| format!("{collection} lost {thing}")),
            );
        }
        left
    }
}

/// The singular of a collection's name.
fn singular(collection: &str) -> &str {
    if collection == "security-groups" {
        return "security_group";
    }
    collection.strip_suffix('s').unwrap_or(collection)
}

/// True for things that answers have without a name around them.
fn is_bare(collection: &str) -> bool {
    matches!(collection, "images" | "executions" | "workbooks" | "resource_providers")
}

fn named(collection: &str, thing: &Value) -> Value {
    let mut map = Map::new();
    map.insert(singular(collection).to_owned(), thing.clone());
    if is_bare(collection) { thing.clone() } else { Value::Object(map) }
}

fn has_id(thing: &Value, id: &str) -> bool {
    ["id", "name", "uuid"].iter().any(|key| thing[*key] == id)
}

fn answer(seen: &ScriptedRequest, wire: &mut Wire<'_>, things: &mut Things) -> After {
    let (path, query) = seen.path.split_once('?').unwrap_or((&seen.path, ""));
    let body: Value = match path.rsplit('/').next() {
        Some("workbooks") => workbook(&seen.body),
        _ => serde_json::from_slice(&seen.body).unwrap_or_default(),
    };
    if path.ends_with("/v3/auth/tokens") {
        return token(seen, wire);
    }
    // A token tells its project.
    let token = seen.headers.get("x-auth-token").map(String::as_str).unwrap_or_default();
    let Some(project) = token.strip_prefix("T0ken-").and_then(|rest| rest.strip_suffix("-xYz")) else {
        return wire.answer("401 Unauthorized", "application/json", "{}");
    };
    let service = SERVICES.iter().find_map(|(_, prefix)| path.strip_prefix(prefix));
    let parts: Vec<&str> = service.unwrap_or_default().trim_matches('/').split('/').collect();
    let (status, answer) = match (seen.method.as_str(), parts.as_slice()) {
        ("GET", [collection] | [collection, "detail"]) => list(collection, query, things),
        ("POST", ["workbooks"]) if body.is_null() => (500, json!({})),
        ("POST", [collection]) => make(collection, body, project, things),
        (_, [collection, id]) => one(&seen.method, (collection, id), &body, things),
        (method, [collection, id, rest @ ..]) => within(method, (collection, id), rest, &body, things),
        _ => (404, json!({})),
    };
    let body = if status == 204 { String::new() } else { answer.to_string() };
    wire.answer(&format!("{status} -"), "application/json", body)
}

/// A workbook by its name, as Mistral finds it: `workflows:` must begin a line.
fn workbook(body: &[u8]) -> Value {
    let text = String::from_utf8_lossy(body);
    let name = text.lines().find_map(|line| line.strip_prefix("name: "));
    let has_workflows = text.lines().any(|line| line == "workflows:");
    let name = name.filter(|_| has_workflows).and_then(|name| serde_json::from_str::<String>(name).ok());
    name.map_or(Value::Null, |name| json!({ "name": name }))
}

fn token(seen: &ScriptedRequest, wire: &mut Wire<'_>) -> After {
    let host = seen.headers.get("host").cloned().unwrap_or_default();
    let entry = |(kind, path): &(&str, &str)| {
        let endpoint = json!({ "interface": "public", "region": "R", "region_id": "R", "url": format!("http://{host}{path}") });
        json!({ "type": kind, "name": kind, "endpoints": [endpoint] })
    };
    let catalog: Vec<Value> = SERVICES.iter().map(entry).collect();
    let body = json!({ "token": { "issued_at": "2027-01-15T08:00:00Z", "expires_at": "2027-01-15T09:00:00Z",
        "user": { "id": "u1", "name": "u" }, "project": { "id": "p1", "name": "p" }, "catalog": catalog } })
    .to_string();
    let status = if seen.method == "GET" { "200 OK" } else { "201 Created" };
    let sent: Value = serde_json::from_slice(&seen.body).unwrap_or_default();
    let project = sent["auth"]["scope"]["project"]["id"].as_str().unwrap_or("p1");
    wire.send(format!(
        "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nX-Subject-Token: T0ken-{project}-xYz\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    ));
    After::Keep
}

fn list(collection: &str, query: &str, things: &Things) -> (u16, Value) {
    let parameter = |name: &str| query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='));
    let fits = |thing: &&Value| {
        let text = |key: &str| thing[key].as_str().unwrap_or_default();
        let name =
            parameter("name").is_none_or(|name| match name.strip_prefix("%5E").or(name.strip_prefix('^')) {
                Some(beginning) => text("name").starts_with(beginning),
                None => text("name") == name,
            });
        let owner = parameter("project_id").or(parameter("owner"));
        name && owner.is_none_or(|owner| text("project_id") == owner)
            && parameter("device_id").is_none_or(|id| text("device_id") == id)
            && parameter("name__startswith").is_none_or(|beginning| text("name").starts_with(beginning))
    };
    let found = things.get(collection).into_iter().flatten().filter(fits).cloned();
    let (key, found): (&str, Vec<Value>) = match collection {
        "os-keypairs" => ("keypairs", found.map(|thing| json!({ "keypair": thing })).collect()),
        "types" => ("volume_types", found.collect()),
        "security-groups" => ("security_groups", found.collect()),
        other => (other, found.collect()),
    };
    (200, json!({ key: found }))
}

fn make(collection: &str, body: Value, project: &str, things: &mut Things) -> (u16, Value) {
    let key = if collection == "os-keypairs" { "keypair" } else { singular(collection) };
    let mut thing = if is_bare(collection) { body } else { body[key].clone() };
    if !thing.is_object() {
        return (400, json!({ "error": "no such body" }));
    }
    let all = things.entry(collection.to_owned()).or_default();
    if thing["name"].is_string()
        && all.iter().any(|other| other["name"] == thing["name"])
        && is_unique(collection)
    {
        return (409, json!({ "error": "the name is taken" }));
    }
    static MADE: AtomicUsize = AtomicUsize::new(0);
    let number = MADE.fetch_add(1, Ordering::Relaxed);
    thing["id"] = Value::from(format!("{collection}-{number}"));
    thing["project_id"] = Value::from(project);
    let (status, state) = match collection {
        "servers" => (202, "ACTIVE"),
        "volumes" => (202, "available"),
        "images" => (201, "queued"),
        "flavors" | "os-keypairs" => (200, ""),
        _ => (201, "ACTIVE"),
    };
    thing["status"] = Value::from(state);
    if collection == "executions" {
        thing["state"] = Value::from("SUCCESS");
    }
    all.push(thing.clone());
    (
        status,
        if collection == "os-keypairs" { json!({ "keypair": thing }) } else { named(collection, &thing) },
    )
}

fn is_unique(collection: &str) -> bool {
    matches!(
        collection,
        "users" | "projects" | "roles" | "flavors" | "os-keypairs" | "workbooks" | "resource_providers"
    )
}

fn one(method: &str, (collection, id): (&str, &str), body: &Value, things: &mut Things) -> (u16, Value) {
    let used = |key: &str| things.get("ports").into_iter().flatten().any(|port| port[key] == id);
    if method == "DELETE"
        && (collection == "networks" && used("network_id") || collection == "routers" && used("device_id"))
    {
        return (409, json!({ "error": "it is in use" }));
    }
    let all = things.entry(collection.to_owned()).or_default();
    let Some(at) = all.iter().position(|thing| has_id(thing, id)) else { return (404, json!({})) };
    match method {
        "GET" => (200, named(collection, &all[at])),
        "DELETE" => {
            let gone = all.remove(at);
            if collection == "networks" {
                let subnets = things.entry("subnets".to_owned()).or_default();
                subnets.retain(|subnet| subnet["network_id"] != gone["id"]);
            }
            (if matches!(collection, "volumes" | "flavors" | "os-keypairs") { 202 } else { 204 }, json!({}))
        }
        _ => {
            for (key, value) in body[singular(collection)].as_object().into_iter().flatten() {
                all[at][key] = value.clone();
            }
            for change in body.as_array().into_iter().flatten() {
                let key = change["path"].as_str().unwrap_or_default().trim_start_matches('/').to_owned();
                all[at][key] = change["value"].clone();
            }
            (200, named(collection, &all[at]))
        }
    }
}

/// What has a longer path than a thing.
fn within(
    method: &str,
    (collection, id): (&str, &str),
    rest: &[&str],
    body: &Value,
    things: &mut Things,
) -> (u16, Value) {
    let found = things.get_mut(collection).and_then(|all| all.iter_mut().find(|thing| has_id(thing, id)));
    match (method, collection, rest) {
        (_, "projects", ["users", _, "roles", ..]) => {
            (if method == "GET" { 200 } else { 204 }, json!({ "roles": [] }))
        }
        ("POST", "users", ["credentials", "OS-EC2"]) => (201, json!({ "credential": { "access": "a1" } })),
        ("DELETE", "users", ["credentials", "OS-EC2", "a1"]) => (204, json!({})),
        ("GET", "users", ["credentials", "OS-EC2"]) => (200, json!({ "credentials": [] })),
        ("PUT", "routers", [change]) => {
            let ports = things.entry("ports".to_owned()).or_default();
            if *change == "add_router_interface" {
                ports.push(json!({ "id": format!("port-of-{id}"), "name": "", "device_id": id,
                    "device_owner": "network:router_interface" }));
            } else {
                ports.retain(|port| port["device_id"] != id);
            }
            (200, json!({}))
        }
        _ if found.is_none() => (404, json!({})),
        ("PUT", "images", ["file"]) => {
            found.into_iter().for_each(|image| image["status"] = Value::from("active"));
            (204, json!({}))
        }
        ("GET", "images", ["file"]) => (200, json!("content")),
        ("POST", "images", ["actions", "deactivate"]) => (204, json!({})),
        ("POST", "servers", ["action"]) if body["createImage"].is_object() => {
            let (_, image) = make("images", body["createImage"].clone(), "p1", things);
            let made = things.get_mut("images").and_then(|all| all.last_mut());
            made.into_iter().for_each(|image| image["status"] = Value::from("active"));
            (202, json!({ "image_id": image["id"] }))
        }
        ("POST", "servers", ["action"]) if body.get("forceDelete").is_none() => {
            let states = [("pause", "PAUSED"), ("suspend", "SUSPENDED"), ("shelve", "SHELVED_OFFLOADED")];
            let state = states.iter().find(|(action, _)| body.get(action).is_some());
            let state = state.map_or("ACTIVE", |(_, state)| state);
            found.into_iter().for_each(|server| server["status"] = Value::from(state));
            (202, json!({}))
        }
        ("POST", "servers", ["action"]) => {
            things.entry("servers".to_owned()).or_default().retain(|server| server["id"] != id);
            (202, json!({}))
        }
        (_, "flavors" | "resource_providers", _) => (200, json!({})),
        _ => (404, json!({})),
    }
}
