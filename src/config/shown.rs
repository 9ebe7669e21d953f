//! Which parts of a document error messages may show: those that its JSON Schema makes public.
//!
//! A schema marks possible secrets as `writeOnly`: the texts of a secret reference, headers, bodies. Everything below
//! such a mark is secret. The value of an unknown key is shown only if the key that was probably meant is public. This
//! module must not decide by names alone.

use std::collections::HashSet;
use std::ops::Range;

use serde_json::Value;

use text::diagnostics::SourceVisibility;
use text::yaml::{YamlKey, YamlNode, YamlValue};

use text::similar::did_you_mean;

use super::matching::{fits, resolve, with_most_keys};
use super::reference::Reference;
use super::referred::reference;

/// Finds which parts of a document may be shown, and which must not be.
#[must_use]
pub fn shown(text: &str, root: &YamlNode, schema: &Value) -> SourceVisibility {
    let mut walk = Walk { text, schema, shown: SourceVisibility::default() };
    walk.node(root, schema, false);
    walk.shown
}

/// True if a message may quote the text at `span`.
#[must_use]
pub fn is_public(shown: &SourceVisibility, span: &Range<usize>) -> bool {
    let overlaps = |other: &Range<usize>| other.start < span.end && span.start < other.end;
    shown.public.iter().any(overlaps) && !shown.secret.iter().any(overlaps)
}

struct Walk<'s> {
    text: &'s str,
    schema: &'s Value,
    shown: SourceVisibility,
}

impl<'s> Walk<'s> {
    /// `secret`: the node is below something secret.
    fn node(&mut self, node: &YamlNode, schema: &'s Value, secret: bool) {
        let schema = resolve(self.schema, schema);
        let below = secret || is_marked(schema);
        if below && self.show_variable(node) {
            return;
        }
        if let Some(parts) = schema.get("allOf").and_then(Value::as_array) {
            return parts.iter().for_each(|part| self.node(node, part, below));
        }
        let Some(branches) = schema.get("anyOf").and_then(Value::as_array) else {
            return self.plain(node, schema, below, false);
        };
        let branches: Vec<&'s Value> = branches.iter().map(|branch| resolve(self.schema, branch)).collect();
        let reference = branches.iter().any(|branch| is_marked(branch));
        let fitting = || branches.iter().copied().filter(|branch| of_type(node, branch));
        let keyed = with_most_keys(node, fitting());
        match keyed.or_else(|| fitting().next()) {
            Some(branch) if branch.get("anyOf").is_some() => self.node(node, branch, below),
            Some(branch) => self.plain(node, branch, below || is_marked(branch), reference),
            None => self.misfit(node, schema, below),
        }
    }

    /// Shows the name in `{ env: NAME }` in place of a secret text: it is none. A default may be one.
    fn show_variable(&mut self, node: &YamlNode) -> bool {
        let (Some(Reference::Env { .. }), YamlValue::Map(entries)) = (reference(node), &node.kind) else {
            return false;
        };
        for (key, value) in entries {
            self.shown.public.push(key.span.clone());
            match key.name.as_str() {
                "env" => self.shown.public.push(value.span.clone()),
                _ => self.shown.secret.push(value.span.clone()),
            }
        }
        true
    }

    /// A schema without alternatives. `reference`: the value is a secret or a reference to one.
    fn plain(&mut self, node: &YamlNode, schema: &'s Value, secret: bool, reference: bool) {
        if !of_type(node, schema) {
            return self.misfit(node, schema, secret || reference);
        }
        match &node.kind {
            YamlValue::Map(entries) => {
                entries.iter().for_each(|entry| self.entry(entry, schema, secret, reference));
            }
            YamlValue::List(items) => {
                let schema = schema.get("items").unwrap_or(&Value::Bool(true));
                items.iter().for_each(|item| self.node(item, schema, secret));
            }
            _ if secret && !reference => self.hide_but_templates(node),
            _ if secret => self.shown.secret.push(node.span.clone()),
            _ => self.shown.public.push(node.span.clone()),
        }
    }

    fn entry(
        &mut self,
        (key, value): &(YamlKey, YamlNode),
        schema: &'s Value,
        secret: bool,
        reference: bool,
    ) {
        let known = schema.get("properties").and_then(Value::as_object);
        let names = || known.into_iter().flat_map(|known| known.keys().map(String::as_str));
        let meant = match known.and_then(|known| known.get_key_value(&key.name)) {
            Some((name, _)) => Some(name.as_str()),
            None => did_you_mean(&key.name, names()),
        };
        let property = meant.and_then(|name| known?.get(name));
        let rest = schema.get("additionalProperties");
        let further = match rest {
            None => known.is_none().then_some(&Value::Bool(true)),
            Some(rest) => Some(rest).filter(|rest| **rest != Value::Bool(false)),
        };
        match property.or(further) {
            Some(property) => {
                self.shown.public.push(key.span.clone());
                self.node(value, property, secret);
            }
            // `hmac_key: { THE KEY }` is a map to YAML.
            None if reference => {
                self.shown.secret.push(key.span.clone());
                self.shown.secret.push(value.span.clone());
            }
            None => {
                self.shown.public.push(key.span.clone());
                if is_switch(value) { self.show_texts(value) } else { self.hide_but_amounts(key, value) }
            }
        }
    }

    /// A value of the wrong type may be a secret that was written one level too high.
    fn misfit(&mut self, node: &YamlNode, schema: &'s Value, secret: bool) {
        if secret {
            self.shown.secret.push(node.span.clone());
        } else if self.holds_reference(schema, &mut HashSet::new()) && !is_switch(node) {
            self.hide_texts(node);
        } else {
            self.show_texts(node);
        }
    }

    /// Shows texts, but not what is between them: there may be comments, which can contain anything.
    fn show_texts(&mut self, node: &YamlNode) {
        match &node.kind {
            YamlValue::Map(entries) => entries.iter().for_each(|(key, value)| {
                self.shown.public.push(key.span.clone());
                self.show_texts(value);
            }),
            YamlValue::List(items) => items.iter().for_each(|item| self.show_texts(item)),
            _ => self.shown.public.push(node.span.clone()),
        }
    }

    /// Hides what is below an unknown key, but for amounts, which show the mistake: no password is `30s`. Digits may be a
    /// secret if the key says so.
    fn hide_but_amounts(&mut self, key: &YamlKey, node: &YamlNode) {
        const MAY_BE_SECRET: [&str; 10] =
            ["pass", "pwd", "pin", "key", "secret", "token", "auth", "code", "cred", "otp"];
        let name = key.name.to_ascii_lowercase();
        if MAY_BE_SECRET.iter().any(|part| name.contains(part)) {
            return self.hide_texts(node);
        }
        match &node.kind {
            YamlValue::Map(entries) => {
                for (key, value) in entries {
                    self.hide_but_amounts(key, value);
                }
            }
            YamlValue::List(items) => items.iter().for_each(|item| self.hide_but_amounts(key, item)),
            _ if is_amount(&self.text[node.span.clone()]) => self.shown.public.push(node.span.clone()),
            _ => self.shown.secret.push(node.span.clone()),
        }
    }

    fn hide_texts(&mut self, node: &YamlNode) {
        match &node.kind {
            YamlValue::Map(entries) => entries.iter().for_each(|(_, value)| self.hide_texts(value)),
            YamlValue::List(items) => items.iter().for_each(|item| self.hide_texts(item)),
            _ => self.shown.secret.push(node.span.clone()),
        }
    }

    /// Templates only refer to values, but quoted texts inside them may be secrets.
    fn hide_but_templates(&mut self, node: &YamlNode) {
        let (text, mut at) = (&self.text[node.span.clone()], node.span.start);
        let quotes = usize::from(text.len() > 1 && text.starts_with(['"', '\'']));
        let (mut rest, end) = (&text[quotes..text.len() - quotes], node.span.end - quotes);
        at += quotes;
        while let Some(open) = rest.find("{{").into_iter().chain(rest.find("{%")).min() {
            let length = template_length(&rest[open..]);
            self.shown.secret.push(at..at + open);
            self.template(at + open, &rest[open..open + length]);
            (at, rest) = (at + open + length, &rest[open + length..]);
        }
        self.shown.secret.push(at..end);
    }

    fn template(&mut self, start: usize, template: &str) {
        let mut quoted_by: Option<char> = None;
        for (at, c) in template.char_indices() {
            let span = start + at..start + at + c.len_utf8();
            match quoted_by {
                Some(quote) if quote == c => quoted_by = None,
                Some(_) => self.shown.secret.push(span),
                None if matches!(c, '"' | '\'') => quoted_by = Some(c),
                None => self.shown.public.push(span),
            }
        }
    }

    /// True if the schema allows a reference to a secret somewhere below.
    fn holds_reference(&self, schema: &'s Value, seen: &mut HashSet<*const Value>) -> bool {
        let schema = resolve(self.schema, schema);
        let branches = || schema.get("anyOf").and_then(Value::as_array).into_iter().flatten();
        if branches().any(is_marked) {
            return true;
        }
        if !seen.insert(std::ptr::from_ref(schema)) {
            return false;
        }
        let choices = ["allOf", "anyOf"].iter().filter_map(|key| schema.get(*key)?.as_array()).flatten();
        let properties =
            schema.get("properties").and_then(Value::as_object).into_iter().flat_map(|map| map.values());
        let others = ["additionalProperties", "items"].iter().filter_map(|key| schema.get(*key));
        let mut below = choices.chain(properties).chain(others);
        below.any(|below| self.holds_reference(below, seen))
    }
}

/// A number that is short, alone or with a unit: `5`, `0.5`, `100ms`, `1m30s`, `20/s`, `95%`.
fn is_amount(text: &str) -> bool {
    const BYTES_MAX: usize = 8;
    const UNITS: [&str; 13] = ["", "ns", "us", "ms", "s", "m", "h", "d", "%", "/s", "/m", "KiB", "MiB"];
    let is_number =
        |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let mut rest = text;
    while let Some(length) = rest.find(|c: char| !c.is_ascii_digit() && c != '.') {
        let (number, after) = rest.split_at(length);
        let unit_end = after.find(|c: char| c.is_ascii_digit()).unwrap_or(after.len());
        if !is_number(number) || !UNITS.contains(&&after[..unit_end]) {
            return false;
        }
        rest = &after[unit_end..];
    }
    text.len() <= BYTES_MAX
        && text.starts_with(|c: char| c.is_ascii_digit())
        && (rest.is_empty() || is_number(rest))
}

fn is_marked(schema: &Value) -> bool {
    schema.get("writeOnly") == Some(&Value::Bool(true))
}

/// The length of the template at the start of a text: up to its end, or to the end of the text.
fn template_length(text: &str) -> usize {
    let close = if text.starts_with("{{") { "}}" } else { "%}" };
    text.find(close).map_or(text.len(), |at| at + close.len())
}

fn of_type(node: &YamlNode, schema: &Value) -> bool {
    match schema.get("type") {
        Some(Value::String(one)) => fits(node, one),
        Some(Value::Array(many)) => {
            many.iter().filter_map(Value::as_str).any(|expected| fits(node, expected))
        }
        _ => true,
    }
}

/// True for a boolean or a word like one: `auth: false` turns something off.
pub(super) fn is_switch(node: &YamlNode) -> bool {
    match &node.kind {
        YamlValue::Null | YamlValue::Bool(_) => true,
        YamlValue::Text { text, .. } => {
            matches!(text.as_str(), "true" | "false" | "yes" | "no" | "on" | "off")
        }
        _ => false,
    }
}
