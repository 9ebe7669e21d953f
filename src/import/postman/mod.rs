//! Reads collections of Postman (format 2.1, and 2.0).
//!
//! Each request becomes an action, in the order of the collection, with the names of its folders before its own. Variables stay
//! variables: those of the collection have its values, others must be given one. Of scripts, a value that a test keeps from the
//! answer becomes an extraction, and a status that it asks for a check; all else is counted and left out.

mod body;
mod scripts;
mod templates;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;

use serde_json::{Map, Value, json};
use url::Url;

use text::digits;

use super::draft::{Draft, DraftStep};
use super::request::{Targets, method_key};
use super::{ImportError, STEPS_MAX};
use templates::Templates;

/// The largest collection, in bytes.
pub const BYTES_MAX: u64 = 64 << 20;
/// How deep folders may be nested.
const DEPTH_MAX: usize = 50;
/// The longest name of an action, in characters.
const NAME_CHARS_MAX: usize = 200;
/// Where requests go whose host is a variable that the collection does not define.
const UNKNOWN_HOST: &str = "http://127.0.0.1:8080";

/// The scenario of a collection.
///
/// # Errors
/// The input is not a collection, or has no request.
pub fn from_reader(input: impl Read) -> Result<Draft, ImportError> {
    let root = read(input)?;
    let title = text_at(&root, &["info", "name"]).unwrap_or("Collection");
    let title: String = title.lines().next().unwrap_or_default().chars().take(100).collect();
    let mut draft = Draft { title: title.trim().to_owned(), ..Draft::default() };
    if draft.title.is_empty() {
        draft.title = "Collection".to_owned();
    }
    draft.about.push(format!("Made by `bench import postman` from the collection {}.", draft.title));
    let mut reader = CollectionReader {
        templates: Templates::new(root.get("variable")),
        targets: Targets::default(),
        names: BTreeSet::new(),
        left: BTreeMap::new(),
        steps: Vec::new(),
        stand_ins: Vec::new(),
    };
    reader.scripts_left(&root);
    reader.items(&root, &Surroundings { folders: Vec::new(), auth: root.get("auth") });
    let CollectionReader { templates, targets, left, steps, stand_ins, .. } = reader;
    draft.notes.extend(templates.note());
    draft.variables = templates.variables;
    draft.steps = steps;
    draft.targets = targets.0;
    draft.stand_ins(&stand_ins);
    draft.name = draft.targets.first().map_or("collection", |(_, url)| host(url)).to_owned();
    let parts: Vec<String> = left.iter().map(|(what, count)| format!("{count} {what}")).collect();
    if !parts.is_empty() {
        draft.notes.push(format!("left out: {}", parts.join(", ")));
    }
    Ok(draft)
}

fn read(input: impl Read) -> Result<Value, ImportError> {
    let mut bytes = Vec::new();
    let unreadable = |error: std::io::Error| {
        ImportError::new(format!("the collection cannot be read: {error}"), "check the file")
    };
    input.take(BYTES_MAX + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > BYTES_MAX {
        return Err(ImportError::new("the collection is larger than 64 MiB", "export a part of it"));
    }
    let root = digits::parse(&bytes).map_err(|error| {
        ImportError::new(
            format!("this is not JSON: {error}"),
            "export the collection from Postman, as format v2.1",
        )
    })?;
    // Postman's API wraps it.
    let root = root.get("collection").cloned().unwrap_or(root);
    match (root.get("item"), root.get("requests")) {
        (Some(Value::Array(_)), _) => Ok(root),
        (_, Some(_)) => Err(ImportError::new(
            "this is a collection of format 1",
            "export it from Postman as format v2.1, the recommended one",
        )),
        _ => Err(ImportError::new(
            "this is not a collection of Postman: it has no `item`",
            "export the collection itself, not an environment or a run",
        )),
    }
}

/// What is around an item.
#[derive(Clone)]
struct Surroundings<'c> {
    /// The names of its folders, outermost first.
    folders: Vec<&'c str>,
    /// The authorization that holds unless it has its own.
    auth: Option<&'c Value>,
}

struct CollectionReader {
    templates: Templates,
    targets: Targets,
    /// The names of actions so far.
    names: BTreeSet<String>,
    /// What was left out, and how often.
    left: BTreeMap<&'static str, usize>,
    steps: Vec<DraftStep>,
    stand_ins: Vec<super::multipart::FormField>,
}

impl CollectionReader {
    fn leave(&mut self, what: &'static str) {
        *self.left.entry(what).or_default() += 1;
    }

    fn items<'c>(&mut self, folder: &'c Value, around: &Surroundings<'c>) {
        for item in folder.get("item").and_then(Value::as_array).into_iter().flatten() {
            let name = item.get("name").and_then(Value::as_str).unwrap_or_default();
            let auth = [item.get("auth"), around.auth].into_iter().flatten().find(|auth| !auth.is_null());
            if item.get("item").is_some() {
                if around.folders.len() >= DEPTH_MAX {
                    self.leave("folders that are nested too deeply");
                    continue;
                }
                let mut folders = around.folders.clone();
                folders.push(name);
                self.scripts_left(item);
                self.items(item, &Surroundings { folders, auth });
            } else if self.steps.len() >= STEPS_MAX {
                self.leave("requests after the first 500");
            } else if let Some(request) = item.get("request") {
                self.request(item, request, &Surroundings { folders: around.folders.clone(), auth });
            }
        }
    }

    fn request(&mut self, item: &Value, request: &Value, around: &Surroundings<'_>) {
        // A request may be only its URL.
        let whole = json!({ "method": "GET", "url": request });
        let request = if request.is_string() { &whole } else { request };
        let method = text_at(request, &["method"]).unwrap_or("GET");
        let Some((key, before)) = method_key(method) else {
            return self.leave("requests with methods that bench cannot send");
        };
        let Some((origin, path)) = self.url(request.get("url").unwrap_or(&Value::Null)) else {
            return self.leave("requests without a URL");
        };
        let mut keys = Map::new();
        let name = self.name(item, around, (method, &path));
        keys.insert("action".to_owned(), name.into());
        keys.insert(key.to_owned(), format!("{before}{path}").into());
        if let Some(target) = self.targets.name(&origin) {
            keys.insert("target".to_owned(), target.into());
        }
        if let Some(query) = self.query(request) {
            keys.insert("query".to_owned(), query);
        }
        let mut headers = self.headers(request);
        let own = request.get("auth").filter(|auth| !auth.is_null()).or(around.auth);
        self.authorize(own, &mut headers, &mut keys);
        let body = request.get("body").filter(|body| !body.is_null());
        self.body(body, &mut headers, &mut keys);
        if !headers.is_empty() {
            keys.insert("headers".to_owned(), Value::Object(headers));
        }
        self.scripts(item, &mut keys);
        self.steps.push(DraftStep { keys, comment: String::new() });
    }

    /// `Folder / Name`, which no other action has.
    fn name(&mut self, item: &Value, around: &Surroundings<'_>, (method, path): (&str, &str)) -> String {
        let own = item.get("name").and_then(Value::as_str).map(str::trim).filter(|name| !name.is_empty());
        let own = own.map_or_else(|| format!("{method} {path}"), str::to_owned);
        let parts = around.folders.iter().map(|folder| folder.trim()).chain([own.as_str()]);
        let parts: Vec<&str> = parts.filter(|part| !part.is_empty()).collect();
        let plain = |c: char| if c.is_control() { ' ' } else { c };
        let whole: String =
            parts.join(" / ").replace("{{", "{").chars().map(plain).take(NAME_CHARS_MAX - 8).collect();
        let numbered = |n: usize| if n == 1 { whole.clone() } else { format!("{whole} ({n})") };
        let name = (1..).map(numbered).find(|name| !self.names.contains(name)).unwrap_or(whole.clone());
        self.names.insert(name.clone());
        name
    }

    /// The origin and the path of a URL, without the query that `query` has.
    fn url(&mut self, url: &Value) -> Option<(String, String)> {
        let raw = match url {
            Value::String(raw) => raw.clone(),
            _ => text_at(url, &["raw"]).map(str::to_owned).or_else(|| joined(url))?,
        };
        let raw = raw.split('#').next().unwrap_or_default().trim();
        let (address, query) = raw.split_once('?').unwrap_or((raw, ""));
        // The host may be in a variable, with a part of the path.
        let known = self.templates.resolved(address);
        let (scheme, rest) = known.split_once("://").unwrap_or(("http", known.as_str()));
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        if authority.is_empty() && path.is_empty() {
            return None;
        }
        let whole = format!("{scheme}://{authority}");
        let origin = match Url::parse(&whole) {
            Ok(parsed) if matches!(scheme, "http" | "https") && !authority.contains("{{") => {
                parsed.origin().ascii_serialization()
            }
            _ => {
                self.templates.unknown_host(authority);
                UNKNOWN_HOST.to_owned()
            }
        };
        let mut path = self.path(path, url);
        // What the list of options lacks stands in the text alone.
        let listed = url.get("query").and_then(Value::as_array).is_some_and(|list| !list.is_empty());
        if !listed && !query.is_empty() {
            path = format!("{path}?{}", self.templates.written(query));
        }
        Some((origin, path))
    }

    /// A path, whose parts `:name` are the URL's own variables.
    fn path(&mut self, path: &str, url: &Value) -> String {
        let variables = url.get("variable").and_then(Value::as_array);
        let parts = path.split('/').map(|part| {
            let own = part.strip_prefix(':').filter(|name| !name.is_empty());
            let known = own.and_then(|name| {
                let is_it = |variable: &&Value| text_at(variable, &["key"]) == Some(name);
                variables.and_then(|all| all.iter().find(is_it))
            });
            match (own, known) {
                (Some(name), Some(variable)) => self.templates.path_variable(name, variable),
                (Some(name), None) => self.templates.path_variable(name, &Value::Null),
                _ => self.templates.written(&part.replace(' ', "%20")),
            }
        });
        let path = parts.collect::<Vec<_>>().join("/");
        if path.starts_with('/') { path } else { format!("/{path}") }
    }

    fn query(&mut self, request: &Value) -> Option<Value> {
        let pairs = self.pairs(request.get("url")?.get("query")?);
        (!pairs.is_empty()).then_some(Value::Object(pairs))
    }

    fn headers(&mut self, request: &Value) -> Map<String, Value> {
        match request.get("header") {
            Some(list @ Value::Array(_)) => self.pairs(list),
            _ => Map::new(),
        }
    }

    /// The enabled pairs of a list of keys and values. A name that occurs several times has a list.
    fn pairs(&mut self, list: &Value) -> Map<String, Value> {
        let mut map = Map::new();
        for pair in list.as_array().into_iter().flatten().filter(|pair| is_enabled(pair)) {
            let Some(name) = text_at(pair, &["key"]).map(str::trim).filter(|name| !name.is_empty()) else {
                continue;
            };
            let value = self.templates.value(name, pair.get("value"));
            add(&mut map, self.templates.written(name), value);
        }
        map
    }

    /// Adds what an authorization sends.
    fn authorize(
        &mut self,
        auth: Option<&Value>,
        headers: &mut Map<String, Value>,
        keys: &mut Map<String, Value>,
    ) {
        let Some(kind) = auth.and_then(|auth| text_at(auth, &["type"])) else { return };
        let given = |name: &str| auth.and_then(|auth| parameter(auth.get(kind)?, name)).map(str::to_owned);
        let has_own = headers.keys().any(|name| name.eq_ignore_ascii_case("authorization"));
        match kind {
            "noauth" => {}
            "bearer" if !has_own => {
                let token = self.templates.secret("token", &given("token").unwrap_or_default());
                headers.insert("Authorization".to_owned(), format!("Bearer {token}").into());
            }
            "basic" if !has_own => {
                let name = self.templates.in_expression("username", &given("username").unwrap_or_default());
                let password = self.templates.secret_name("password", &given("password").unwrap_or_default());
                let header = format!("Basic {{{{ ({name} ~ ':' ~ {password}) | base64encode }}}}");
                headers.insert("Authorization".to_owned(), header.into());
            }
            "apikey" => {
                let name = given("key").unwrap_or_else(|| "X-API-Key".to_owned());
                let value = self.templates.secret(&name, &given("value").unwrap_or_default());
                if given("in").as_deref() == Some("query") {
                    let query = keys.entry("query").or_insert_with(|| json!({}));
                    query[name] = value.into();
                } else {
                    headers.insert(name, value.into());
                }
            }
            "bearer" | "basic" => {}
            _ => self.leave("authorizations that bench cannot make (write them as `auth` of the deployment)"),
        }
    }

    /// Scripts of a folder or of the collection, which nothing stands for.
    fn scripts_left(&mut self, item: &Value) {
        for _ in scripts::texts(item, None) {
            self.leave("scripts of folders");
        }
    }

    fn scripts(&mut self, item: &Value, keys: &mut Map<String, Value>) {
        for _ in scripts::texts(item, Some("prerequest")) {
            self.leave("scripts before requests");
        }
        for text in scripts::texts(item, Some("test")) {
            let found = scripts::found(&text);
            if found.is_partial {
                self.leave("tests, in part or as a whole");
            }
            if let Some(status) = found.status {
                keys.insert("expect".to_owned(), json!({ "status": status }));
            }
            let mut extracts = Map::new();
            for (name, path) in found.kept {
                extracts.insert(self.templates.extracted(&name), json!({ "json": path }));
            }
            if !extracts.is_empty() {
                keys.insert("extract".to_owned(), Value::Object(extracts));
            }
        }
    }
}

/// Adds a value. One that is there already becomes a list.
fn add(map: &mut Map<String, Value>, name: String, value: String) {
    match map.get_mut(&name) {
        None => drop(map.insert(name, value.into())),
        Some(Value::Array(values)) => values.push(value.into()),
        Some(first) => *first = json!([first.take(), value]),
    }
}

/// A text at these keys.
fn text_at<'v>(value: &'v Value, keys: &[&str]) -> Option<&'v str> {
    keys.iter().try_fold(value, |value, key| value.get(key))?.as_str()
}

fn is_enabled(pair: &Value) -> bool {
    pair.get("disabled") != Some(&Value::Bool(true))
}

/// A parameter of an authorization: format 2.1 has a list of them, and 2.0 a map.
fn parameter<'a>(parameters: &'a Value, name: &str) -> Option<&'a str> {
    match parameters {
        Value::Array(list) => {
            let own = list.iter().find(|one| text_at(one, &["key"]) == Some(name));
            own.and_then(|one| text_at(one, &["value"]))
        }
        _ => text_at(parameters, &[name]),
    }
}

/// A URL of its parts.
fn joined(url: &Value) -> Option<String> {
    let part = |key: &str, between: &str| match url.get(key) {
        Some(Value::String(text)) => Some(text.clone()),
        Some(Value::Array(parts)) => {
            let parts: Vec<&str> =
                parts.iter().filter_map(|part| part.as_str().or(text_at(part, &["value"]))).collect();
            Some(parts.join(between))
        }
        _ => None,
    };
    let (host, path) = (part("host", ".")?, part("path", "/").unwrap_or_default());
    let port = part("port", "").map_or_else(String::new, |port| format!(":{port}"));
    let protocol = part("protocol", "").unwrap_or_else(|| "http".to_owned());
    let protocol =
        if host.contains("://") || host.starts_with("{{") { String::new() } else { format!("{protocol}://") };
    Some(format!("{protocol}{host}{port}/{}", path.trim_start_matches('/')))
}

fn host(url: &str) -> &str {
    url.split_once("://").map_or(url, |(_, host)| host)
}

#[cfg(test)]
mod tests;
