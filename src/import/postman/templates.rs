//! The variables of a collection, and texts with them.

use std::collections::BTreeMap;

use serde_json::Value;

use super::super::replace::escaped;
use super::super::secrets::{Variables, is_secret_name, is_secret_value, variable_name};
use super::text_at;

/// How often a variable may stand in the value of another one.
const DEPTH_MAX: usize = 10;

/// A variable of the collection.
enum VariableSource {
    /// It has this value.
    Known(String),
    /// A test keeps it from an answer.
    Extracted(String),
}

/// Makes templates of texts, and collects the variables in them.
pub(super) struct Templates {
    pub(super) variables: Variables,
    collection: BTreeMap<String, VariableSource>,
    /// Variables that the collection does not define.
    unknown: Vec<String>,
    /// Hosts that it does not define.
    unknown_hosts: Vec<String>,
}

impl Templates {
    /// With the collection's variables.
    pub(super) fn new(list: Option<&Value>) -> Self {
        let mut collection = BTreeMap::new();
        for variable in list.and_then(Value::as_array).into_iter().flatten() {
            let name = text_at(variable, &["key"]).or_else(|| text_at(variable, &["id"]));
            let value = match variable.get("value") {
                Some(Value::String(text)) => text.clone(),
                Some(Value::Null) | None => String::new(),
                Some(value) => value.to_string(),
            };
            if let Some(name) = name.filter(|_| super::is_enabled(variable)) {
                collection.insert(name.to_owned(), VariableSource::Known(value));
            }
        }
        let (unknown, unknown_hosts) = (Vec::new(), Vec::new());
        Self { variables: Variables::default(), collection, unknown, unknown_hosts }
    }

    /// A text with the values of variables in their places, as far as they are known.
    pub(super) fn resolved(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for _ in 0..DEPTH_MAX {
            let mut changed = String::new();
            let pieces = pieces(&text);
            let is_final = !pieces.iter().any(|piece| match piece {
                Piece::Variable(name) => matches!(self.collection.get(*name), Some(VariableSource::Known(value)) if !value.is_empty()),
                Piece::Text(_) => false,
            });
            if is_final || text.len() > 10_000 {
                break;
            }
            for piece in pieces {
                match piece {
                    Piece::Text(text) => changed.push_str(text),
                    Piece::Variable(name) => match self.collection.get(name) {
                        Some(VariableSource::Known(value)) if !value.is_empty() => changed.push_str(value),
                        _ => changed.extend(["{{", name, "}}"]),
                    },
                }
            }
            text = changed;
        }
        text
    }

    /// A text as a template.
    pub(super) fn written(&mut self, text: &str) -> String {
        let mut written = String::new();
        for piece in pieces(text) {
            match piece {
                Piece::Text(text) => written.push_str(&escaped(text)),
                Piece::Variable(name) => written.extend(["{{ ", &self.expression(name), " }}"]),
            }
        }
        written
    }

    /// The value of a header, an option or a field with this name; a secret becomes a variable.
    pub(super) fn value(&mut self, name: &str, value: Option<&Value>) -> String {
        let text = match value {
            Some(Value::String(text)) => text.clone(),
            Some(Value::Null) | None => String::new(),
            Some(value) => value.to_string(),
        };
        match text.contains("{{") {
            true => self.written(&text),
            false => super::super::secrets::secret(&mut self.variables, name, &text)
                .unwrap_or_else(|| escaped(&text)),
        }
    }

    /// A template for a value that is secret, whatever it looks like.
    pub(super) fn secret(&mut self, name: &str, value: &str) -> String {
        match value.contains("{{") {
            true => self.written(value),
            false => format!("{{{{ {} }}}}", self.variables.secret(name, value)),
        }
    }

    /// The same as a name in an expression.
    pub(super) fn secret_name(&mut self, name: &str, value: &str) -> String {
        match pieces(value).as_slice() {
            [Piece::Variable(variable)] => self.expression(variable),
            _ => self.variables.secret(name, value),
        }
    }

    /// A value as a name in an expression.
    pub(super) fn in_expression(&mut self, name: &str, value: &str) -> String {
        match pieces(value).as_slice() {
            [Piece::Variable(variable)] => self.expression(variable),
            _ => self.variables.plain(name, value.into(), None),
        }
    }

    /// A part of a path that the URL itself gives a value.
    pub(super) fn path_variable(&mut self, name: &str, variable: &Value) -> String {
        let value = text_at(variable, &["value"]).unwrap_or_default();
        if value.contains("{{") {
            return self.written(value);
        }
        let comment = value.is_empty().then(|| "Give it a value that exists.".to_owned());
        if value.is_empty() && !self.unknown.iter().any(|known| known == name) {
            self.unknown.push(name.to_owned());
        }
        format!("{{{{ {} | urlencode }}}}", self.variables.plain(name, value.into(), comment))
    }

    /// The variable that a test keeps from an answer.
    pub(super) fn extracted(&mut self, name: &str) -> String {
        if let Some(VariableSource::Extracted(known)) = self.collection.get(name) {
            return known.clone();
        }
        // Where it was used before, it had a value.
        let own = self.variables.reserve(name);
        self.collection.insert(name.to_owned(), VariableSource::Extracted(own.clone()));
        own
    }

    pub(super) fn unknown_host(&mut self, written: &str) {
        if !self.unknown_hosts.iter().any(|known| known == written) {
            self.unknown_hosts.push(written.to_owned());
        }
    }

    /// What must be given a value.
    pub(super) fn note(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if !self.unknown.is_empty() {
            let names: Vec<&str> = self.unknown.iter().map(String::as_str).take(20).collect();
            notes.push(format!(
                "give these variables values, which the collection does not have: {}",
                names.join(", ")
            ));
        }
        if !self.unknown_hosts.is_empty() {
            let hosts: Vec<&str> = self.unknown_hosts.iter().map(String::as_str).take(5).collect();
            notes.push(format!(
                "the collection does not say where {} is: write its URL into the deployment",
                hosts.join(" and ")
            ));
        }
        notes
    }

    /// What a variable of Postman is in an expression of bench.
    fn expression(&mut self, name: &str) -> String {
        match name {
            "$guid" | "$randomUUID" => return "uuid()".to_owned(),
            "$randomInt" => return "random_int(0, 1000)".to_owned(),
            "$timestamp" => return "now() | int".to_owned(),
            _ => {}
        }
        match self.collection.get(name) {
            Some(VariableSource::Extracted(own)) => own.clone(),
            Some(VariableSource::Known(value)) if !value.is_empty() => {
                let value = value.clone();
                let resolved = self.resolved(&value);
                match is_secret_name(name) || is_secret_value(&resolved) {
                    true => self.variables.secret(name, &resolved),
                    false => self.variables.plain(name, resolved.into(), None),
                }
            }
            // An environment of Postman has it.
            _ if is_secret_name(name) => {
                let own = format!("the value of {name}");
                self.variables.secret(&variable_name(name), &own)
            }
            _ => {
                if !self.unknown.iter().any(|known| known == name) {
                    self.unknown.push(name.to_owned());
                }
                self.variables.plain(
                    name,
                    "".into(),
                    Some("Give it a value: the collection has none.".to_owned()),
                )
            }
        }
    }
}

/// A part of a text.
#[derive(Debug, PartialEq)]
pub(super) enum Piece<'t> {
    Text(&'t str),
    /// The name between double braces.
    Variable(&'t str),
}

/// The parts of a text with variables.
pub(super) fn pieces(text: &str) -> Vec<Piece<'_>> {
    let (mut found, mut rest) = (Vec::new(), text);
    while let Some(at) = rest.find("{{") {
        let Some(length) = rest[at + 2..].find("}}") else { break };
        let name = rest[at + 2..at + 2 + length].trim();
        let is_name = !name.is_empty() && name.len() <= 100 && !name.contains(['{', '}', '\n', '"']);
        if !is_name {
            found.push(Piece::Text(&rest[..at + 2]));
            rest = &rest[at + 2..];
            continue;
        }
        if at > 0 {
            found.push(Piece::Text(&rest[..at]));
        }
        found.push(Piece::Variable(name));
        rest = &rest[at + 2 + length + 2..];
    }
    if !rest.is_empty() {
        found.push(Piece::Text(rest));
    }
    found
}
