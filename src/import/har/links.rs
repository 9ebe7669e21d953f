//! Finds values of earlier responses that later requests send again.
//!
//! A value counts only if a response contained it before any request sent it: what the client made itself is not a
//! value of the service. Short and common values are left alone.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use regex::Regex;
use serde_json::{Map, Value, json};

use crate::replace::{Replace, escaped};
use crate::request::{RecordedRequest, method_key};
use crate::secrets::{Variables, is_secret_value, secret};
use text::digits;

use super::read::{NameValuePair, Response, decoded};

/// Shorter values occur by accident.
const CHARS_MIN: usize = 6;
const CHARS_MAX: usize = 4096;
/// Without a digit, a value of this length is hardly a word.
const CHARS_OF_NO_WORD: usize = 16;
/// How many values of one response are looked at, and of all.
const OF_RESPONSE_MAX: usize = 5000;
const OF_ALL_MAX: usize = 200_000;

/// A value of a response, and how to extract it.
#[derive(Debug)]
pub(super) struct ResponseValue {
    value: String,
    /// What to call it.
    hint: String,
    place: ValueLocation,
    is_number: bool,
    /// Only for segments of paths: too short to be recognised elsewhere.
    is_short: bool,
}

#[derive(Clone, Debug)]
enum ValueLocation {
    /// A JSONPath.
    Json(String),
    Header(String),
    /// The last segment of the path in a header.
    LastSegment(String),
    /// A regular expression with one group.
    Body(String),
}

/// The values of a response that may come back.
pub(super) fn found_in(response: &Response, method: &str, path: &str) -> Vec<ResponseValue> {
    let mut found = Vec::new();
    for header in &response.headers {
        of_header(header, &mut found);
    }
    let created = method == "POST";
    let resource = resource_of(path);
    if let Some(text) = body_text(response) {
        let mime = response.content.mime_type.to_ascii_lowercase();
        if mime.contains("json") || text.trim_start().starts_with(['{', '[']) {
            if let Ok(value) = digits::parse(text.as_bytes()) {
                let mut walk = ResponseBodyWalk { found: &mut found, resource: &resource, created };
                walk.value(&value, "$".to_owned(), &resource, "");
            }
        } else if mime.contains("html") {
            of_page(&text, &mut found);
        }
    }
    found.truncate(OF_RESPONSE_MAX);
    found
}

fn body_text(response: &Response) -> Option<String> {
    decoded(response.content.text.text.as_ref()?, response.content.encoding.as_deref())
}

/// What a path is about, in the singular: `order` of `/orders/17`.
fn resource_of(path: &str) -> String {
    let path = path.split('?').next().unwrap_or_default();
    let words = path
        .rsplit('/')
        .find(|part| part.chars().any(char::is_alphabetic) && !part.chars().any(|c| c.is_ascii_digit()));
    let word = words.unwrap_or("value");
    word.strip_suffix('s').filter(|word| word.len() > 2).unwrap_or(word).to_owned()
}

fn of_header(header: &NameValuePair, found: &mut Vec<ResponseValue>) {
    const DULL: [&str; 16] = [
        "date",
        "server",
        "content-type",
        "content-length",
        "set-cookie",
        "cache-control",
        "vary",
        "connection",
        "expires",
        "last-modified",
        "strict-transport-security",
        "content-security-policy",
        "access-control-allow-origin",
        "keep-alive",
        "alt-svc",
        "content-encoding",
    ];
    let name = header.name.to_ascii_lowercase();
    if name.starts_with(':') || DULL.contains(&name.as_str()) || !is_telling(&header.value, &name) {
        return;
    }
    let mut push = |value: &str, hint: &str, place| {
        let (value, hint) = (value.to_owned(), hint.to_owned());
        found.push(ResponseValue { value, hint, place, is_number: false, is_short: false });
    };
    push(&header.value, &header.name, ValueLocation::Header(header.name.clone()));
    if name == "location" {
        let path = header.value.split(['?', '#']).next().unwrap_or_default();
        if let Some((before, last)) = path.rsplit_once('/').filter(|(_, last)| is_telling(last, "id")) {
            push(
                last,
                &format!("{}_id", resource_of(before)),
                ValueLocation::LastSegment(header.name.clone()),
            );
        }
    }
}

struct ResponseBodyWalk<'f> {
    found: &'f mut Vec<ResponseValue>,
    resource: &'f str,
    created: bool,
}

impl ResponseBodyWalk<'_> {
    /// `owner` names the object that contains the value, and `key` is its key there.
    fn value(&mut self, value: &Value, path: String, owner: &str, key: &str) {
        if self.found.len() >= OF_RESPONSE_MAX {
            return;
        }
        if let Some(digits) = digits::of_number(value) {
            self.leaf(&digits, true, path, owner, key);
            return;
        }
        match value {
            Value::Object(map) => {
                const WRAPPERS: [&str; 6] = ["", "data", "result", "results", "items", "body"];
                let owner = if WRAPPERS.contains(&key) { owner } else { key };
                for (name, item) in map {
                    self.value(item, format!("{path}{}", member(name)), owner, name);
                }
            }
            Value::Array(items) => {
                let owner = if key.is_empty() { self.resource } else { key.strip_suffix('s').unwrap_or(key) };
                for (index, item) in items.iter().enumerate().take(100) {
                    self.value(item, format!("{path}[{index}]"), owner, "");
                }
            }
            Value::String(text) => self.leaf(text, false, path, owner, key),
            _ => {}
        }
    }

    fn leaf(&mut self, text: &str, is_number: bool, path: String, owner: &str, key: &str) {
        let is_id = is_id_name(key);
        let is_short = text.chars().count() < CHARS_MIN;
        let telling =
            if is_short { self.created && is_id && !text.is_empty() } else { is_telling(text, key) };
        if telling {
            let hint = if matches!(key, "id" | "") { format!("{owner}_id") } else { key.to_owned() };
            self.found.push(ResponseValue {
                value: text.to_owned(),
                hint,
                place: ValueLocation::Json(path),
                is_number,
                is_short,
            });
        }
    }
}

/// A member in a JSONPath.
fn member(name: &str) -> String {
    let plain = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    match plain {
        true => format!(".{name}"),
        false => format!("[{}]", Value::from(name)),
    }
}

/// Hidden fields of forms and the page's own tokens.
fn of_page(text: &str, found: &mut Vec<ResponseValue>) {
    static TAG: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"(?is)<(?:input|meta)\b[^<>]+>").ok());
    static NAME: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r#"(?i)\bname="([^"]+)""#).ok());
    static VALUE: LazyLock<Option<Regex>> =
        LazyLock::new(|| Regex::new(r#"(?i)\b(value|content)="([^"&]+)""#).ok());
    let (Some(tag), Some(name), Some(value)) = (&*TAG, &*NAME, &*VALUE) else { return };
    for tag in tag.find_iter(text).take(OF_RESPONSE_MAX) {
        let (Some(name), Some(value)) = (name.captures(tag.as_str()), value.captures(tag.as_str())) else {
            continue;
        };
        let (name_at, attribute) = (name.get(0).map_or(0, |m| m.start()), &value[1]);
        if !is_telling(&value[2], &name[1]) {
            continue;
        }
        let (named, valued) =
            (format!("name=\"{}\"", regex::escape(&name[1])), format!("{attribute}=\"([^\"]+)\""));
        let value_at = value.get(0).map_or(0, |m| m.start());
        let (first, second) = if name_at < value_at { (named, valued) } else { (valued, named) };
        found.push(ResponseValue {
            value: value[2].to_owned(),
            hint: name[1].to_owned(),
            place: ValueLocation::Body(format!("{first}[^<>]*{second}")),
            is_number: false,
            is_short: false,
        });
    }
}

fn is_id_name(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    [
        "id", "token", "key", "code", "nonce", "csrf", "uuid", "slug", "etag", "cursor", "ticket", "session",
        "location",
    ]
    .iter()
    .any(|end| lower.ends_with(end))
        || lower.contains("csrf")
}

/// True for a value that hardly occurs twice by accident.
fn is_telling(value: &str, name: &str) -> bool {
    let chars = value.chars().count();
    (CHARS_MIN..=CHARS_MAX).contains(&chars)
        && !value.chars().any(|c| c.is_whitespace() || c.is_control())
        && (value.bytes().any(|byte| byte.is_ascii_digit()) || chars >= CHARS_OF_NO_WORD || is_id_name(name))
}

/// Replaces the values of requests, and remembers which extractions that needs.
pub(super) struct Linker<'v> {
    variables: &'v mut Variables,
    /// By value: the entry and what was found there.
    known: HashMap<String, ValueSource>,
    /// What requests sent before a response had it.
    sent: HashSet<String>,
    extracts: Vec<(usize, String, Value)>,
}

struct ValueSource {
    entry: usize,
    found: ResponseValue,
    variable: Option<String>,
}

impl<'v> Linker<'v> {
    pub(super) fn new(variables: &'v mut Variables) -> Self {
        Self { variables, known: HashMap::new(), sent: HashSet::new(), extracts: Vec::new() }
    }

    /// The keys of the step that sends a request, whose URL is `url`.
    pub(super) fn step(&mut self, recorded: &RecordedRequest, url: &str) -> Option<Map<String, Value>> {
        let mut keys = recorded.step(self)?;
        let path = recorded.path.as_str();
        let location = [url, path].into_iter().find_map(|target| {
            let source = self.known.get(target)?;
            matches!(&source.found.place, ValueLocation::Header(name) if name.eq_ignore_ascii_case("location"))
                .then_some(target)
        });
        if let Some(target) = location.map(str::to_owned)
            && let Some(name) = self.variable(&target)
        {
            let (key, before) = method_key(&recorded.method)?;
            keys.insert(key.to_owned(), format!("{before}{{{{ {name} }}}}").into());
            keys.remove("query");
        }
        Some(keys)
    }

    /// Remembers what the response to an entry had.
    pub(super) fn received(&mut self, entry: usize, found: Vec<ResponseValue>) {
        for found in found {
            if self.known.len() < OF_ALL_MAX && !self.sent.contains(&found.value) {
                self.known.entry(found.value.clone()).or_insert(ValueSource { entry, found, variable: None });
            }
        }
    }

    /// The extractions: the entry, the variable and what to extract.
    pub(super) fn extracts(self) -> Vec<(usize, String, Value)> {
        self.extracts
    }

    /// The variable of a known value.
    fn variable(&mut self, value: &str) -> Option<String> {
        let source = self.known.get_mut(value)?;
        if let Some(name) = &source.variable {
            return Some(name.clone());
        }
        let (key, place) = match &source.found.place {
            ValueLocation::Json(path) => ("json", path),
            ValueLocation::Header(name) | ValueLocation::LastSegment(name) => ("header", name),
            ValueLocation::Body(pattern) => ("regex", pattern),
        };
        let mut extract = json!({ key: place });
        if is_secret_value(value) {
            extract["secret"] = true.into();
        }
        let name = self.variables.reserve(&source.found.hint);
        source.variable = Some(name.clone());
        self.extracts.push((source.entry, name.clone(), extract));
        Some(name)
    }

    fn linked(&mut self, name: &str, value: &str) -> Option<String> {
        let (is_number, is_short, is_last) = {
            let found = &self.known.get(value)?.found;
            (found.is_number, found.is_short, matches!(found.place, ValueLocation::LastSegment(_)))
        };
        if is_short && !name.is_empty() {
            return None;
        }
        let variable = self.variable(value)?;
        Some(match (is_last, is_number && !name.is_empty()) {
            (true, _) => format!("{{{{ {variable} | split('/') | last }}}}"),
            // A single expression would keep its type.
            (false, true) => format!("{{{{ {variable} | string }}}}"),
            (false, false) => format!("{{{{ {variable} }}}}"),
        })
    }

    fn remember(&mut self, value: &str) {
        if self.sent.len() < OF_ALL_MAX && value.len() <= CHARS_MAX && !self.known.contains_key(value) {
            self.sent.insert(value.to_owned());
        }
    }
}

impl Replace for Linker<'_> {
    fn whole(&mut self, name: &str, value: &str) -> Option<String> {
        if let Some(template) = self.linked(name, value) {
            return Some(template);
        }
        // `Bearer TOKEN` and the like.
        if let Some((scheme, rest)) = value.split_once(' ')
            && let Some(template) = self.linked("", rest)
        {
            return Some(format!("{} {template}", escaped(scheme)));
        }
        self.remember(value);
        secret(self.variables, name, value)
    }

    fn public(&mut self, value: &str) -> Option<String> {
        let template = self.linked("", value);
        if template.is_none() {
            self.remember(value);
        }
        template
    }

    fn number(&mut self, _name: &str, value: &str) -> Option<String> {
        let source = self.known.get(value).filter(|source| source.found.is_number && !source.found.is_short);
        if source.is_none() {
            self.remember(value);
            return None;
        }
        self.variable(value).map(|name| format!("{{{{ {name} }}}}"))
    }
}
