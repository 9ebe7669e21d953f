//! Compares a document with a JSON Schema and finds every fault at once, with its place and remedy.
//!
//! It supports the part of draft-07 that schemars uses for the types in this module. It checks structure only: `plan`
//! checks whether names exist and values fit together.

use std::collections::HashSet;
use std::ops::Range;

use serde_json::Value;
use serde_path_to_error::{Path, Segment};

use base::units::parse_duration;
use text::diagnostics::{Fault, SourceVisibility};
use text::yaml::{DEPTH_MAX, YamlKey, YamlNode, YamlValue};

use super::capacity::SearchTime;
use super::deployment::Slowdown;
use super::matching::{fits, resolve, with_most_keys};
use super::reference::ShareText;
use super::runner::RateText;
use super::shown::{is_public, is_switch};

use text::similar::did_you_mean;

/// All faults of structure. Messages quote only what `shown` allows.
#[must_use]
pub fn check(root: &YamlNode, schema: &Value, shown: &SourceVisibility) -> Vec<Fault> {
    checked(root, schema, shown).faults
}

/// The document without the parts that have faults of structure, so that the rest can be checked. `None` if nothing is
/// left.
#[must_use]
pub fn without_faults(mut root: YamlNode, schema: &Value) -> Option<YamlNode> {
    // Removing a required key makes the map around it unusable, too.
    for _ in 0..=DEPTH_MAX {
        let unusable = checked(&root, schema, &SourceVisibility::default()).unusable;
        if unusable.contains(&root.span) {
            return None;
        }
        if unusable.is_empty() {
            break;
        }
        prune(&mut root, &unusable);
    }
    Some(root)
}

fn checked<'s>(root: &YamlNode, schema: &'s Value, shown: &'s SourceVisibility) -> Checker<'s> {
    let mut checker = Checker { schema, shown, faults: Vec::new(), unusable: HashSet::new() };
    checker.node(root, schema, ROOT);
    checker
}

fn prune(node: &mut YamlNode, unusable: &HashSet<Range<usize>>) {
    match &mut node.kind {
        YamlValue::List(items) => {
            items.retain(|item| !unusable.contains(&item.span));
            items.iter_mut().for_each(|item| prune(item, unusable));
        }
        YamlValue::Map(entries) => {
            entries.retain(|(key, value)| !unusable.contains(&key.span) && !unusable.contains(&value.span));
            entries.iter_mut().for_each(|(_, value)| prune(value, unusable));
        }
        _ => {}
    }
}

/// The span of the value at `path`, or of the nearest value above it.
#[must_use]
pub fn span_at(root: &YamlNode, path: &Path) -> Range<usize> {
    let mut node = root;
    for segment in path.iter() {
        let next = match segment {
            Segment::Seq { index } => node.items().get(*index),
            Segment::Map { key } => node.get(key),
            _ => None,
        };
        match next {
            Some(next) => node = next,
            None => break,
        }
    }
    node.span.clone()
}

/// What messages call the root of a document.
const ROOT: &str = "the document";

/// The `format` of a duration with its unit.
const DURATION_FORMAT: &str = "bench-duration";

struct Checker<'s> {
    schema: &'s Value,
    shown: &'s SourceVisibility,
    faults: Vec<Fault>,
    /// Parts that cannot be read because of their faults.
    unusable: HashSet<Range<usize>>,
}

impl<'s> Checker<'s> {
    fn resolve(&self, schema: &'s Value) -> &'s Value {
        resolve(self.schema, schema)
    }

    fn node(&mut self, node: &YamlNode, schema: &'s Value, name: &str) {
        let schema = self.resolve(schema);
        if let Some(all) = schema.get("allOf").and_then(Value::as_array) {
            for part in all {
                self.node(node, part, name);
            }
        }
        if let Some(any) = schema.get("anyOf").and_then(Value::as_array) {
            return self.any_of(node, any, name);
        }
        if let Some(types) = schema.get("type") {
            let types: Vec<&str> = match types {
                Value::String(one) => vec![one],
                Value::Array(many) => many.iter().filter_map(Value::as_str).collect(),
                _ => Vec::new(),
            };
            // serde accepts null for optional keys, but in a file it is usually a forgotten value.
            if matches!(node.kind, YamlValue::Null) && types.contains(&"null") {
                self.no_value(node, name);
                return;
            }
            if !types.iter().any(|expected| fits(node, expected)) {
                self.wrong_type(node, schema, &types, name);
                return;
            }
        }
        match &node.kind {
            YamlValue::Map(entries) => self.map(node, entries, schema, name),
            YamlValue::List(items) => self.list(node, items, schema, name),
            YamlValue::Text { text, .. } => self.text(node, text, schema, name),
            YamlValue::Int(value) => self.number(node, *value as f64, schema, name),
            YamlValue::Float(real) => self.number(node, real.value, schema, name),
            YamlValue::Null | YamlValue::Bool(_) => {}
        }
    }

    /// Checks the node against the branch that it was probably meant to match.
    fn any_of(&mut self, node: &YamlNode, branches: &'s [Value], name: &str) {
        let branches: Vec<&'s Value> = branches.iter().map(|branch| self.resolve(branch)).collect();
        let fitting: Vec<&'s Value> = branches
            .iter()
            .copied()
            .filter(|branch| {
                let types = branch.get("type").and_then(Value::as_str);
                types.is_none_or(|expected| fits(node, expected))
            })
            .collect();
        if matches!(node.kind, YamlValue::Null) && fitting.iter().any(|branch| branch["type"] == "null") {
            self.no_value(node, name);
            return;
        }
        let keyed = with_most_keys(node, fitting.iter().copied());
        match keyed.or_else(|| fitting.first().copied()) {
            Some(branch) => {
                let before = self.faults.len();
                self.node(node, branch, name);
                if branch.get("enum").is_some()
                    && let Some(others) = beside_words(&branches)
                {
                    for fault in &mut self.faults[before..] {
                        let help = fault.help.take().unwrap_or_default();
                        fault.help = Some(format!("{help}, or {others} without quotes"));
                    }
                }
            }
            None => {
                let types: Vec<&str> =
                    branches.iter().filter_map(|branch| branch.get("type")?.as_str()).collect();
                let a_duration = branches.iter().copied().find(|branch| branch["format"] == DURATION_FORMAT);
                let mut meant = branches.iter().copied().filter(|branch| branch["type"] != "null");
                let meant = meant.next().filter(|_| meant.next().is_none());
                let meant = a_duration.filter(|_| matches!(node.kind, YamlValue::Int(_))).or(meant);
                self.wrong_type(node, meant.unwrap_or(&Value::Null), &types, name);
            }
        }
    }

    fn no_value(&mut self, node: &YamlNode, name: &str) {
        let fault = Fault::error(node.span.clone(), format!("{name} has no value"));
        self.unusable.insert(node.span.clone());
        self.faults.push(fault.help("give it a value, or remove the key"));
    }

    fn wrong_type(&mut self, node: &YamlNode, schema: &Value, types: &[&str], name: &str) {
        let known: Vec<&str> = schema
            .get("properties")
            .and_then(Value::as_object)
            .into_iter()
            .flatten()
            .filter(|(_, schema)| is_published(schema))
            .map(|(key, _)| key.as_str())
            .collect();
        let format = schema.get("format").and_then(Value::as_str);
        let expected = expected_words(types);
        let secret = !is_public(self.shown, &node.span);
        let found = if secret { described_as_secret(node) } else { node.describe() };
        self.unusable.insert(node.span.clone());
        let fault = Fault::error(node.span.clone(), format!("{name} must be {expected}, but is {found}"));
        let help = match (format, &node.kind) {
            (Some(DURATION_FORMAT | SearchTime::FORMAT), YamlValue::Int(value)) => {
                format!("write it with its unit: {value}s, {value}ms or {value}m")
            }
            (Some(ShareText::FORMAT | Slowdown::FORMAT), YamlValue::Int(value)) => {
                format!("write it with its sign: {value}%")
            }
            _ => remedy(node, types, &known, secret),
        };
        self.faults.push(fault.help(help));
    }

    fn map(&mut self, node: &YamlNode, entries: &[(YamlKey, YamlNode)], schema: &'s Value, name: &str) {
        let properties = schema.get("properties").and_then(Value::as_object);
        let known: Vec<(&str, &'s Value)> =
            properties.map(|map| map.iter().map(|(k, v)| (k.as_str(), v)).collect()).unwrap_or_default();
        let additional = schema.get("additionalProperties");
        for (key, value) in entries {
            if let Some(property) = known.iter().find(|(k, _)| *k == key.name).map(|(_, schema)| *schema) {
                self.node(value, property, &format!("`{}`", key.name));
            } else if additional == Some(&Value::Bool(false)) {
                let literal = schema.get("literal").and_then(Value::as_str);
                let published = known.iter().filter(|(_, schema)| is_published(schema)).map(|(k, _)| *k);
                self.unknown_key(key, published, name, literal);
            } else if let Some(rest @ Value::Object(_)) = additional {
                self.node(value, rest, &format!("`{}`", key.name));
            }
        }
        self.map_size(node, entries, schema, &known, name);
    }

    /// `literal`: the key below which a map stands for itself.
    fn unknown_key<'k>(
        &mut self,
        key: &YamlKey,
        known: impl Iterator<Item = &'k str> + Clone,
        name: &str,
        literal: Option<&str>,
    ) {
        self.unusable.insert(key.span.clone());
        let candidate =
            elsewhere(&key.name, known.clone()).or_else(|| did_you_mean(&key.name, known.clone()));
        // `hmac_key: { THE KEY }` is a map to YAML.
        let message = if candidate.is_none() && !is_public(self.shown, &key.span) {
            format!("an unknown key in {name}")
        } else {
            format!("unknown key `{}` in {name}", key.name)
        };
        let fault = Fault::error(key.span.clone(), message);
        let help = match candidate {
            Some(candidate) => format!("did you mean `{candidate}`?"),
            None if known.clone().next().is_none() => "there are no keys here: remove it".to_owned(),
            None => format!("known keys: {}", known.collect::<Vec<_>>().join(", ")),
        };
        let help = match literal {
            Some(literal) => format!("{help}; if the map itself is meant, write {{ {literal}: {{ … }} }}"),
            None => help,
        };
        self.faults.push(fault.help(help));
    }

    fn map_size(
        &mut self,
        node: &YamlNode,
        entries: &[(YamlKey, YamlNode)],
        schema: &Value,
        known: &[(&str, &Value)],
        name: &str,
    ) {
        let at = entries.first().map_or(node.span.clone(), |(key, _)| key.span.clone());
        let required = schema.get("required").and_then(Value::as_array).into_iter().flatten();
        // A misspelt required key has already been reported.
        let misspelt: Vec<&str> = entries
            .iter()
            .filter(|(key, _)| !known.iter().any(|(k, _)| *k == key.name))
            .filter_map(|(key, _)| did_you_mean(&key.name, known.iter().map(|(k, _)| *k)))
            .collect();
        for required in required.filter_map(Value::as_str) {
            if !entries.iter().any(|(key, _)| key.name == required) {
                self.unusable.insert(node.span.clone());
                if misspelt.contains(&required) {
                    continue;
                }
                let fault = Fault::error(at.clone(), format!("{name} lacks the key `{required}`"));
                self.faults.push(fault.help(format!("add `{required}:`")));
            }
        }
        let count = entries.len() as u64;
        let names = || known.iter().map(|(k, _)| *k).collect::<Vec<_>>().join(", ");
        let known_only = entries.iter().all(|(key, _)| known.iter().any(|(k, _)| *k == key.name));
        if schema.get("minProperties").and_then(Value::as_u64).is_some_and(|least| count < least) {
            self.unusable.insert(node.span.clone());
            self.faults
                .push(Fault::error(at, format!("{name} is empty")).help(format!("add one of: {}", names())));
        } else if known_only
            && schema.get("maxProperties").and_then(Value::as_u64).is_some_and(|most| count > most)
        {
            let second = &entries[1].0;
            self.unusable.extend(entries[1..].iter().map(|(key, _)| key.span.clone()));
            self.faults.push(
                Fault::error(second.span.clone(), format!("{name} takes only one key, but has {count}"))
                    .help(format!("keep one of: {}", names())),
            );
        }
    }

    fn list(&mut self, node: &YamlNode, items: &[YamlNode], schema: &'s Value, name: &str) {
        let least = schema.get("minItems").and_then(Value::as_u64).unwrap_or(0);
        if (items.len() as u64) < least {
            self.unusable.insert(node.span.clone());
            self.faults.push(Fault::error(node.span.clone(), format!("{name} is empty")).help("add an item"));
        }
        if let Some(item_schema) = schema.get("items") {
            for item in items {
                self.node(item, item_schema, &format!("an item of {name}"));
            }
        }
    }

    fn text(&mut self, node: &YamlNode, text: &str, schema: &Value, name: &str) {
        let before = self.faults.len();
        self.text_content(node, text, schema, name);
        if self.faults.len() > before {
            self.unusable.insert(node.span.clone());
        }
    }

    fn text_content(&mut self, node: &YamlNode, text: &str, schema: &Value, name: &str) {
        let read = match schema.get("format").and_then(Value::as_str) {
            Some(DURATION_FORMAT) => parse_duration(text).map(drop),
            Some(SearchTime::FORMAT) => SearchTime::parse(text).map(drop),
            Some(RateText::FORMAT) => RateText::parse(text).map(drop),
            Some(ShareText::FORMAT) => ShareText::parse(text).map(drop),
            Some(Slowdown::FORMAT) => Slowdown::parse(text).map(drop),
            _ => Ok(()),
        };
        if let Err(complaint) = read {
            self.faults.push(Fault::of(node.span.clone(), complaint));
        }
        if let Some(choices) = schema.get("enum").and_then(Value::as_array) {
            let choices: Vec<&str> = choices.iter().filter_map(Value::as_str).collect();
            if !choices.contains(&text) {
                let fault = Fault::error(node.span.clone(), format!("{name} cannot be `{text}`"));
                self.faults.push(fault.help(format!("one of: {}", choices.join(", "))));
            }
        }
        let length = text.chars().count() as u64;
        if schema.get("minLength").and_then(Value::as_u64).is_some_and(|least| length < least) {
            self.faults
                .push(Fault::error(node.span.clone(), format!("{name} is empty")).help("give it a value"));
        }
        if let Some(most) = schema.get("maxLength").and_then(Value::as_u64).filter(|most| length > *most) {
            let message = format!("{name} is {length} characters long");
            self.faults.push(
                Fault::error(node.span.clone(), message).help(format!("the limit is {most}; shorten it")),
            );
        }
    }

    fn number(&mut self, node: &YamlNode, value: f64, schema: &Value, name: &str) {
        let bound = |key: &str| schema.get(key).and_then(Value::as_f64);
        let (least, above, most) = (bound("minimum"), bound("exclusiveMinimum"), bound("maximum"));
        let message = match (least, above, most) {
            _ if !value.is_finite() => format!("{name} is too large a number"),
            (Some(least), ..) if value < least => format!("{name} must be at least {least}, but is {value}"),
            (_, Some(above), _) if value <= above => {
                format!("{name} must be more than {above}, but is {value}")
            }
            (.., Some(most)) if value > most => format!("{name} must be at most {most}, but is {value}"),
            _ => return,
        };
        let help = match (least, above, most) {
            (Some(least), _, Some(most)) => format!("write {least} to {most}"),
            (Some(least), _, None) => format!("write {least} or more"),
            (None, Some(above), Some(most)) => format!("write more than {above} and at most {most}"),
            (None, Some(above), None) => format!("write more than {above}"),
            (None, None, Some(most)) => format!("write {most} or less"),
            (None, None, None) => "write a smaller number".to_owned(),
        };
        self.unusable.insert(node.span.clone());
        self.faults.push(Fault::error(node.span.clone(), message).help(help));
    }
}

/// False for a key that only builds of tests have: no message and no schema names it.
pub(super) fn is_published(schema: &Value) -> bool {
    schema.get("x-unpublished").is_none()
}

/// What a value may be if it is none of some words.
fn beside_words(branches: &[&Value]) -> Option<String> {
    if branches.iter().any(|branch| branch["type"] == "boolean") {
        return Some("true or false".to_owned());
    }
    let number = branches.iter().find(|branch| branch["type"] == "integer")?;
    Some(format!("a number from {} to {}", number.get("minimum")?, number.get("maximum")?))
}

/// What to write instead of a value of the wrong type. `known` are the keys that a map could have here.
fn remedy(node: &YamlNode, types: &[&str], known: &[&str], secret: bool) -> String {
    let wanted = |kind: &str| types.contains(&kind);
    let number = wanted("integer") || wanted("number");
    match &node.kind {
        YamlValue::Text { text, quoted: true } if number && text.parse::<f64>().is_ok() => {
            format!("remove the quotes: {text}")
        }
        YamlValue::Text { text, .. } if number && parse_duration(text).is_ok() => {
            "write the plain number of seconds, as in Rally".to_owned()
        }
        YamlValue::Float(real) if wanted("integer") && real.value.abs() >= 1e15 => {
            "write a smaller number".to_owned()
        }
        YamlValue::Float(real) if wanted("integer") => format!("write {:.0}", real.value),
        YamlValue::Text { text, .. } if wanted("boolean") => match text.to_lowercase().as_str() {
            "yes" | "on" | "true" | "y" => "write true".to_owned(),
            "no" | "off" | "false" | "n" => "write false".to_owned(),
            _ => "write true or false".to_owned(),
        },
        YamlValue::Int(_) | YamlValue::Float(_) | YamlValue::Bool(_) if wanted("string") => {
            "put it in quotes to make it text".to_owned()
        }
        YamlValue::Map(_) if wanted("array") && wanted("string") => {
            format!("write {} here", expected_words(types))
        }
        YamlValue::Map(_) if wanted("array") => "begin each item with a dash: `- `".to_owned(),
        YamlValue::Null => "give it a value, or remove the key".to_owned(),
        YamlValue::Int(_) | YamlValue::Float(_) if wanted("object") && known.contains(&"max") => {
            let number = if secret { "…".to_owned() } else { node.describe().replace("the number ", "") };
            format!("write `max: {number}` below it; known keys: {}", known.join(", "))
        }
        _ if wanted("object") && !known.is_empty() => {
            let meant = if let YamlValue::Text { text, .. } = &node.kind
                && !secret
            {
                let first = text.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default();
                did_you_mean(first, known.iter().copied())
            } else {
                None
            };
            format!(
                "write keys below it, such as `{}: …`; known keys: {}",
                meant.unwrap_or(known[0]),
                known.join(", ")
            )
        }
        _ if number => "write a number without quotes and unit, such as 10".to_owned(),
        _ => format!("write {} here", expected_words(types)),
    }
}

/// Describes a value that must not be shown.
fn described_as_secret(node: &YamlNode) -> String {
    match node.kind {
        YamlValue::Int(_) | YamlValue::Float(_) => "a number".to_owned(),
        YamlValue::Text { .. } if !is_switch(node) => "a text".to_owned(),
        _ => node.describe(),
    }
}

fn expected_words(types: &[&str]) -> String {
    let mut words: Vec<&str> = Vec::new();
    for kind in types {
        let word = match *kind {
            "boolean" => "true or false",
            "integer" => "a whole number",
            "number" => "a number",
            "string" => "text",
            "array" => "a list",
            "object" => "a map",
            _ => continue,
        };
        if !words.contains(&word) {
            words.push(word);
        }
    }
    words.join(" or ")
}

/// Words of other programs, and the keys that mean the same where they are known.
const ELSEWHERE: [(&[&str], &[&str]); 14] = [
    (&["name", "label", "id"], &["action", "title"]),
    (&["url", "uri", "method", "request", "endpoint", "path"], &["get"]),
    (&["check", "checks", "assert", "asserts", "assertions", "validate", "tests"], &["expect"]),
    (&["sleep", "wait", "pause", "delay"], &["think"]),
    (&["data", "payload", "content"], &["body", "json"]),
    (&["capture", "captures", "save", "register"], &["extract"]),
    (&["vus", "users", "threads", "connections", "workers"], &["concurrency"]),
    (&["iterations", "count", "requests"], &["times"]),
    (&["rate", "arrival_rate"], &["rps"]),
    (&["thresholds", "threshold", "criteria"], &["sla"]),
    (&["steps", "scenario", "tasks", "flow", "actions", "requests"], &["iteration"]),
    (&["base_url", "baseurl", "host", "server", "target", "url"], &["targets", "deployment"]),
    (&["name", "description"], &["title"]),
    (&["load", "executor", "options", "users", "vus"], &["runner"]),
];

/// The known key that means what other programs call `name`.
fn elsewhere<'k>(name: &str, known: impl Iterator<Item = &'k str> + Clone) -> Option<&'k str> {
    let name = name.to_lowercase();
    let meant = ELSEWHERE.iter().filter(|(words, _)| words.contains(&name.as_str()));
    meant.flat_map(|(_, keys)| *keys).find_map(|key| known.clone().find(|one| one == key))
}
