//! A request as it was recorded, and the step that sends it again.

use std::collections::HashSet;

use serde_json::{Map, Value, json};
use url::Url;

use base::percent;
use text::digits;
use text::yaml;

use super::multipart::{self, FormField};
use super::replace::{Replace, escaped};
use super::secrets::{Variables, is_public_header, is_secret_name, is_secret_value, is_uuid, secret};
use super::sniff;

/// The content type of a form.
pub(super) const FORM: &str = "application/x-www-form-urlencoded";

/// A request with literal values.
#[derive(Clone, Debug, Default)]
pub(super) struct RecordedRequest {
    /// In upper case, if it is a usual one.
    pub(super) method: String,
    /// The name of the target; `None` for the default.
    pub(super) target: Option<String>,
    /// The path with the query, as sent.
    pub(super) path: String,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Body,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) enum Body {
    #[default]
    Empty,
    /// The text and its content type.
    Text(String, Option<String>),
    /// A file's path from the scenario, and its content type if it must be stated.
    File(String, Option<String>),
    /// Fields of multipart/form-data.
    Multipart(Vec<FormField>),
}

impl Body {
    /// A text that was sent: its fields if it is a form with files.
    pub(super) fn of_text(text: String, content_type: Option<String>) -> Self {
        match content_type.as_deref().and_then(|mime| multipart::read(&text, mime)) {
            Some(fields) => Self::Multipart(fields),
            None => Self::Text(text, content_type),
        }
    }
}

/// Replaces only secrets.
pub(super) struct SecretsOnly<'v>(pub(super) &'v mut Variables);

impl Replace for SecretsOnly<'_> {
    fn whole(&mut self, name: &str, value: &str) -> Option<String> {
        secret(self.0, name, value)
    }
}

/// Adds a header. One that is there already becomes a list, which is sent as several lines.
fn add_line(headers: &mut Map<String, Value>, name: &str, value: String) {
    let known = headers.iter_mut().find(|(known, _)| known.eq_ignore_ascii_case(name));
    match known {
        Some((_, Value::Array(lines))) => lines.push(value.into()),
        Some((_, first)) => *first = json!([std::mem::take(first), value]),
        None => {
            headers.insert(name.to_owned(), value.into());
        }
    }
}

/// The key of a step that sends a method, and what is before the path in its value: `get` and nothing, or `request` and
/// `PURGE `. `None` if steps cannot send it: it is not a token (RFC 9110, section 5.6.2), or it opens a tunnel.
pub(super) fn method_key(method: &str) -> Option<(&'static str, String)> {
    const METHODS: [&str; 7] = ["get", "head", "post", "put", "patch", "delete", "options"];
    const BYTES_MAX: usize = 50;
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if let Some(key) = METHODS.into_iter().find(|key| key.eq_ignore_ascii_case(method)) {
        return Some((key, String::new()));
    }
    let can_be_sent = (1..=BYTES_MAX).contains(&method.len())
        && method.bytes().all(is_token)
        && !method.eq_ignore_ascii_case("CONNECT");
    can_be_sent.then(|| ("request", format!("{method} ")))
}

impl RecordedRequest {
    /// The keys of a step that sends it. `None` if steps cannot send its method.
    pub(super) fn step(&self, replace: &mut dyn Replace) -> Option<Map<String, Value>> {
        let (key, before) = method_key(&self.method)?;
        let mut step = Map::new();
        let (path, query) = self.path.split_once('?').unwrap_or((&self.path, ""));
        let mut path = self.path_text(path, replace);
        let pairs = pairs(query);
        // A map is encoded anew: a query that would differ then stays as it is.
        let is_same = |pairs: &Vec<(String, String)>| is_grouped(pairs) && encoded(pairs) == query;
        let named = pairs.as_ref().is_some_and(|pairs| !pairs.is_empty() && is_same(pairs));
        if !named && self.path.contains('?') {
            path.push('?');
            path.push_str(&query_text(query, replace));
        }
        step.insert(key.to_owned(), format!("{before}{path}").into());
        if let Some(target) = &self.target {
            step.insert("target".to_owned(), target.as_str().into());
        }
        if let Some(pairs) = pairs.filter(|_| named) {
            step.insert("query".to_owned(), Value::Object(replaced(&pairs, replace)));
        }
        let (body, content_type) = self.body_keys(replace);
        let headers = self.header_keys(content_type, replace);
        if !headers.is_empty() {
            step.insert("headers".to_owned(), Value::Object(headers));
        }
        step.extend(body);
        Some(step)
    }

    /// The path without its query as the step has it, without what is secret: for the name of the step.
    pub(super) fn shown_path(&self, keys: &Map<String, Value>) -> String {
        let key = method_key(&self.method).map(|(key, _)| key);
        let written = key.and_then(|key| keys.get(key)?.as_str()).unwrap_or_default();
        let written = &written[written.find('/').unwrap_or(0)..];
        let own = self.path.split('?').next().unwrap_or_default();
        let pairs = written.split('/').zip(own.split('/'));
        let shown = |(written, own): (&str, &str)| match written.starts_with("{{ ") && !written.contains('\'')
        {
            true => "…".to_owned(),
            false => sniff::shown(own),
        };
        pairs.map(shown).collect::<Vec<_>>().join("/")
    }

    fn path_text(&self, path: &str, replace: &mut dyn Replace) -> String {
        let (mut before, mut is_hook) = (String::new(), false);
        let segments = path.split('/').map(|segment| {
            let decoded = String::from_utf8(percent::decode(segment)).unwrap_or_default();
            let name = if is_secret_of_path(&before, is_hook, &decoded) { "path_token" } else { "" };
            let template = match decoded.is_empty() {
                true => None,
                false if is_unreserved(&decoded) => replace.whole(name, &decoded),
                // As it was sent: an encoded slash must stay one.
                false if !name.is_empty() || is_secret_value(&decoded) => {
                    replace.whole("path_token", segment)
                }
                false => None,
            };
            is_hook |= decoded.to_ascii_lowercase().contains("hook");
            before = decoded;
            template.unwrap_or_else(|| sniff::replaced(segment, replace))
        });
        let path = segments.collect::<Vec<_>>().join("/");
        if path.starts_with('/') { path } else { format!("/{path}") }
    }

    fn header_keys(&self, content_type: Option<String>, replace: &mut dyn Replace) -> Map<String, Value> {
        let mut headers = Map::new();
        for (name, value) in &self.headers {
            let value = match is_public_header(name) {
                true => replace.public(value).unwrap_or_else(|| escaped(value)),
                false => replace.whole(name, value).unwrap_or_else(|| sniff::replaced(value, replace)),
            };
            add_line(&mut headers, name, value);
        }
        if let Some(content_type) = content_type {
            headers.insert("Content-Type".to_owned(), escaped(&content_type).into());
        }
        headers
    }

    /// The keys of the body, and the content type if it must be stated.
    fn body_keys(&self, replace: &mut dyn Replace) -> (Map<String, Value>, Option<String>) {
        let mut keys = Map::new();
        let (text, content_type) = match &self.body {
            Body::Empty => return (keys, None),
            Body::Multipart(fields) => {
                keys.insert("multipart".to_owned(), Value::Object(multipart::written(fields, replace)));
                return (keys, None);
            }
            Body::File(path, content_type) => {
                keys.insert("file".to_owned(), path.as_str().into());
                return (keys, content_type.clone());
            }
            Body::Text(text, content_type) => (text, content_type),
        };
        let mime = content_type.as_deref().unwrap_or_default();
        let essence = essence(mime);
        if is_json(&essence)
            && let Some(value) = json_body(text)
        {
            keys.insert("json".to_owned(), replaced_json("", &value, replace));
            return (keys, content_type.clone().filter(|mime| mime != "application/json"));
        }
        if essence == FORM
            && let Some(pairs) = form_pairs(text)
        {
            keys.insert("form".to_owned(), Value::Object(replaced(&pairs, replace)));
            return (keys, content_type.clone().filter(|mime| *mime != essence));
        }
        keys.insert("body".to_owned(), sniff::replaced(text, replace).into());
        (keys, content_type.clone())
    }
}

/// A number that is a secret, such as a PIN; the template keeps it one.
fn secret_number(name: &str, text: &str, replace: &mut dyn Replace) -> Option<String> {
    const DIGITS_MIN: usize = 4;
    let is_whole = text.len() >= DIGITS_MIN && text.bytes().all(|byte| byte.is_ascii_digit());
    // Such names also stand for positions.
    let is_secret = is_whole && is_secret_name(name) && !matches!(name, "key" | "sid" | "session");
    let template = is_secret.then(|| replace.whole(name, text)).flatten()?;
    Some(template.replace(" }}", " | int }}"))
}

/// True for a segment of a path that is a secret by what is before it: `/webhooks/…/TOKEN`, `/token/TOKEN`.
fn is_secret_of_path(before: &str, is_hook: bool, segment: &str) -> bool {
    const OF_HOOK_MIN: usize = 16;
    const NAMED_MIN: usize = 8;
    let is_word = segment.chars().all(|c| c.is_ascii_lowercase() || "-_.".contains(c));
    let is_id = segment.bytes().all(|byte| byte.is_ascii_digit());
    let of_hook = is_hook && segment.len() >= OF_HOOK_MIN;
    let named = segment.len() >= NAMED_MIN && is_secret_name(before) && !is_uuid(segment);
    !is_word && !is_id && (of_hook || named)
}

/// Texts that are the same in a path and decoded.
fn is_unreserved(text: &str) -> bool {
    text.chars().all(|c| c.is_ascii_alphanumeric() || "-._~:@".contains(c))
}

/// The pairs of a query or a form, decoded. `None` if they cannot be written as a map of names to texts.
fn pairs(text: &str) -> Option<Vec<(String, String)>> {
    let decoded = |text: &str| String::from_utf8(percent::decode(&text.replace('+', " "))).ok();
    let parts = text.split('&').filter(|part| !part.is_empty());
    parts
        .map(|part| part.split_once('=').and_then(|(name, value)| Some((decoded(name)?, decoded(value)?))))
        .collect()
}

/// The pairs of a form that a step has as a map.
pub(super) fn form_pairs(text: &str) -> Option<Vec<(String, String)>> {
    pairs(text).filter(|pairs| !pairs.is_empty() && is_grouped(pairs))
}

/// A content type without its parameters.
pub(super) fn essence(mime: &str) -> String {
    mime.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

/// Whether a content type without its parameters is JSON's.
pub(super) fn is_json(essence: &str) -> bool {
    essence == "application/json" || essence.ends_with("+json")
}

/// A query or a form as a step sends its map.
pub(super) fn encoded(pairs: &[(String, String)]) -> String {
    let pair =
        |(name, value): &(String, String)| format!("{}={}", percent::encode(name), percent::encode(value));
    pairs.iter().map(pair).collect::<Vec<_>>().join("&")
}

/// A query as it was sent, with templates for its values.
fn query_text(query: &str, replace: &mut dyn Replace) -> String {
    let part = |part: &str| {
        let plain = pairs(part).and_then(|pairs| pairs.into_iter().next());
        let plain = plain.filter(|(_, value)| !value.is_empty() && is_unreserved(value));
        let template = plain.and_then(|(name, value)| replace.whole(&name, &value));
        match (template, part.split_once('=')) {
            (Some(template), Some((name, _))) => format!("{}={template}", escaped(name)),
            _ => sniff::replaced(part, replace),
        }
    };
    query.split('&').map(part).collect::<Vec<_>>().join("&")
}

/// True if a map has the same order: equal names follow each other.
fn is_grouped(pairs: &[(String, String)]) -> bool {
    let mut seen = HashSet::new();
    let mut before = None;
    let in_order = pairs.iter().all(|(name, _)| {
        let is_next = before.replace(name) == Some(name);
        is_next || (name != "<<" && seen.insert(name))
    });
    in_order && pairs.len() < yaml::KEYS_MAX
}

fn replaced(pairs: &[(String, String)], replace: &mut dyn Replace) -> Map<String, Value> {
    let mut map: Map<String, Value> = Map::new();
    for (name, value) in pairs {
        let template = replace.whole(name, value);
        let value = Value::from(template.unwrap_or_else(|| sniff::replaced(value, replace)));
        match map.get_mut(name) {
            None => drop(map.insert(name.clone(), value)),
            Some(Value::Array(values)) => values.push(value),
            Some(first) => *first = json!([first.take(), value]),
        }
    }
    map
}

/// A body that a scenario can hold as JSON.
pub(super) fn json_body(text: &str) -> Option<Value> {
    const LEVELS_MAX: usize = 40;
    fn fits(value: &Value, levels: usize) -> bool {
        match value {
            Value::Array(items) => levels > 0 && items.iter().all(|item| fits(item, levels - 1)),
            Value::Object(_) if digits::digits(value).is_some() => true,
            Value::Object(map) => {
                levels > 0
                    && map.len() < yaml::KEYS_MAX
                    && map.iter().all(|(key, item)| key != "<<" && fits(item, levels - 1))
            }
            _ => true,
        }
    }
    let value = digits::parse(text.as_bytes()).ok()?;
    // Of two equal keys, a value has one.
    let has_all = colons(text) == colons(&digits::to_text(&value));
    // `json: null` in a step is no body.
    (has_all && !value.is_null() && fits(&value, LEVELS_MAX)).then_some(value)
}

/// How many colons a JSON text has outside of its texts: one for each key.
pub(super) fn colons(json: &str) -> usize {
    let (mut colons, mut is_inside, mut is_escaped) = (0, false, false);
    for byte in json.bytes() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_inside => is_escaped = true,
            b'"' => is_inside = !is_inside,
            b':' if !is_inside => colons += 1,
            _ => {}
        }
    }
    colons
}

fn replaced_json(name: &str, value: &Value, replace: &mut dyn Replace) -> Value {
    match value {
        Value::String(text) => {
            let template = replace.whole(name, text);
            template.unwrap_or_else(|| sniff::replaced(text, replace)).into()
        }
        number if digits::of_number(number).is_some() => {
            let digits = digits::of_number(number).unwrap_or_default();
            let template = replace.number(name, &digits).or_else(|| secret_number(name, &digits, replace));
            template.map_or_else(|| number.clone(), Value::from)
        }
        Value::Array(items) => items.iter().map(|item| replaced_json(name, item, replace)).collect(),
        Value::Object(map) if is_like_a_reference(map) => as_it_is(map),
        Value::Object(map) => {
            // `{name: password, value: …}`, and `{password: {value: …}}`.
            let said = ["name", "key"].iter().find_map(|key| map.get(*key)?.as_str());
            let own = said.or(Some(name)).filter(|name| is_secret_name(name));
            let entry = |(key, item): (&String, &Value)| {
                let name = own.filter(|_| matches!(key.as_str(), "value" | "text" | "raw" | "plain"));
                (key.clone(), replaced_json(name.unwrap_or(key), item, replace))
            };
            Value::Object(map.iter().map(entry).collect())
        }
        other => other.clone(),
    }
}

/// True for a map that a scenario would read as a reference, such as `{file: PATH}`.
pub(super) fn is_like_a_reference(map: &Map<String, Value>) -> bool {
    (map.contains_key("env") || map.contains_key("file"))
        && map.len() <= 2
        && map.keys().all(|key| matches!(key.as_str(), "env" | "file" | "default"))
        && map.values().all(Value::is_string)
}

/// Such a map, written so that it means itself: its texts are templates.
pub(super) fn as_it_is(map: &Map<String, Value>) -> Value {
    let quoted = |text: &str| format!("{{{{ '{}' }}}}", text.replace('\\', "\\\\").replace('\'', "\\'"));
    let entry = |(key, item): (&String, &Value)| {
        (key.clone(), Value::from(quoted(item.as_str().unwrap_or_default())))
    };
    Value::Object(map.iter().map(entry).collect())
}

/// Splits a URL into its origin and the path with the query; the fragment is dropped. `None` if it is not a URL of HTTP.
pub(super) fn split_url(url: &str) -> Option<(String, String)> {
    let (scheme, rest) = url.split_once("://")?;
    let scheme = ["http", "https"].into_iter().find(|known| known.eq_ignore_ascii_case(scheme))?;
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let path = path.split('#').next().unwrap_or_default();
    let slash = if path.starts_with('/') { "" } else { "/" };
    let is_host = |c: char| c.is_ascii_alphanumeric() || ".-_:[]%".contains(c);
    let origin = format!("{scheme}://{}", host.to_ascii_lowercase());
    // Such as a port that is no number.
    let is_origin = !host.is_empty() && host.chars().all(is_host) && Url::parse(&origin).is_ok();
    is_origin.then(|| (origin, format!("{slash}{path}")))
}

/// The targets that requests go to.
#[derive(Debug, Default)]
pub(super) struct Targets(pub(super) Vec<(String, String)>);

impl Targets {
    /// The target's name for an origin; `None` for the default, which is the first.
    pub(super) fn name(&mut self, origin: &str) -> Option<String> {
        if let Some((name, _)) = self.0.iter().find(|(_, known)| known == origin) {
            return (name != "default").then(|| name.clone());
        }
        if self.0.is_empty() {
            self.0.push(("default".to_owned(), origin.to_owned()));
            return None;
        }
        let host = origin.split_once("://").map_or(origin, |(_, host)| host);
        let name: String =
            host.chars().map(|c| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' }).collect();
        let taken = |name: &str, known: &[(String, String)]| known.iter().any(|(other, _)| other == name);
        let free = (1_u32..)
            .map(|n| if n == 1 { name.clone() } else { format!("{name}-{n}") })
            .find(|name| !taken(name, &self.0));
        let name = free.unwrap_or(name);
        self.0.push((name.clone(), origin.to_owned()));
        Some(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct NoReplacement;
    impl Replace for NoReplacement {
        fn whole(&mut self, _: &str, _: &str) -> Option<String> {
            None
        }
    }

    #[test]
    fn steps_send_what_was_recorded() {
        let json = Some("application/json".to_owned());
        let form = Some("application/x-www-form-urlencoded".to_owned());
        for (method, path, body, expected) in [
            (
                "GET",
                "/a%20b?x=1%262&y=",
                Body::Empty,
                json!({ "get": "/a%20b", "query": { "x": "1&2", "y": "" } }),
            ),
            (
                "GET",
                "/a?x=1&x=2&y=3",
                Body::Empty,
                json!({ "get": "/a", "query": { "x": ["1", "2"], "y": "3" } }),
            ),
            ("GET", "/a?x=1&y=2&x=3", Body::Empty, json!({ "get": "/a?x=1&y=2&x=3" })),
            ("GET", "/a?flag", Body::Empty, json!({ "get": "/a?flag" })),
            ("GET", "/{{a}}", Body::Empty, json!({ "get": "/{{ '{{' }}a}}" })),
            (
                "POST",
                "/a",
                Body::Text(r#"{"n":1,"t":"{% x %}"}"#.into(), json.clone()),
                json!({ "post": "/a", "json": { "n": 1, "t": "{{ '{%' }} x %}" } }),
            ),
            (
                "POST",
                "/a",
                Body::Text(r#"{"a":{"file":"it's"},"env":1}"#.into(), json.clone()),
                json!({ "post": "/a", "json": { "a": { "file": "{{ 'it\\'s' }}" }, "env": 1 } }),
            ),
            (
                "PUT",
                "/a",
                Body::Text("{".into(), json),
                json!({ "put": "/a", "headers": { "Content-Type": "application/json" }, "body": "{" }),
            ),
            (
                "POST",
                "/a",
                Body::Text("a=1&b=x+y%21".into(), form.clone()),
                json!({ "post": "/a", "form": { "a": "1", "b": "x y!" } }),
            ),
            (
                "POST",
                "/a",
                Body::Text("a=1&a=2".into(), form),
                json!({ "post": "/a", "form": { "a": ["1", "2"] } }),
            ),
        ] {
            let recorded = RecordedRequest {
                method: method.into(),
                path: path.into(),
                body,
                ..RecordedRequest::default()
            };
            assert_eq!(Value::Object(recorded.step(&mut NoReplacement).unwrap()), expected);
        }
    }

    #[test]
    fn steps_send_other_methods_files_and_forms() {
        for (method, path, body, expected) in [
            ("PURGE", "/a?x=1", Body::Empty, json!({ "request": "PURGE /a", "query": { "x": "1" } })),
            (
                "PUT",
                "/a",
                Body::File("c.pem".into(), Some("text/plain".into())),
                json!({ "put": "/a", "headers": { "Content-Type": "text/plain" }, "file": "c.pem" }),
            ),
            (
                "POST",
                "/a",
                Body::Multipart(vec![
                    FormField::text("t", "{{ x"),
                    FormField::stand_in("f", "a.png", "image/png"),
                    FormField::stand_in("f", "b", "nonsense"),
                    FormField::text("f", "c"),
                ]),
                json!({ "post": "/a", "multipart": { "t": "{{ '{{' }} x", "f": [
                    { "file": "files/a.png", "filename": "a.png", "type": "image/png" },
                    { "file": "files/b", "filename": "b" }, "c"] } }),
            ),
        ] {
            let recorded = RecordedRequest {
                method: method.into(),
                path: path.into(),
                body,
                ..RecordedRequest::default()
            };
            assert_eq!(Value::Object(recorded.step(&mut NoReplacement).unwrap()), expected);
        }
        for method in ["CONNECT", "", "A B", "{{ x }}", &"X".repeat(51)] {
            let odd =
                RecordedRequest { method: method.into(), path: "/".into(), ..RecordedRequest::default() };
            assert!(odd.step(&mut NoReplacement).is_none(), "{method}");
        }
    }

    #[test]
    fn urls_are_split_without_their_credentials_and_fragments() {
        for (url, expected) in [
            ("http://H:1/a?b=c#d", Some(("http://h:1", "/a?b=c"))),
            ("HTTPS://u:p@h", Some(("https://h", "/"))),
            ("https://h?x=1", Some(("https://h", "/?x=1"))),
            ("ftp://h/", None),
            ("http:///x", None),
            ("http://{{ h }}/", None),
            ("h/x", None),
        ] {
            let split = split_url(url);
            assert_eq!(split, expected.map(|(origin, path)| (origin.to_owned(), path.to_owned())), "{url}");
        }
    }

    #[test]
    fn each_key_has_a_colon() {
        for (json, expected) in [("{}", 0), (r#"{"a:":":","b":{"c":[1,2]}}"#, 3), (r#"{"a\":":1,"a":2}"#, 2)]
        {
            assert_eq!(colons(json), expected, "{json}");
        }
    }
}
