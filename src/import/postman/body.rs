//! The bodies of a collection's requests.

use serde_json::{Map, Value, json};

use text::digits;

use super::super::multipart::{FormField, FormFieldContent};
use super::{CollectionReader, is_enabled, text_at};

impl CollectionReader {
    /// Adds the key of a body, and the header with its type if it must be stated.
    pub(super) fn body(
        &mut self,
        body: Option<&Value>,
        headers: &mut Map<String, Value>,
        keys: &mut Map<String, Value>,
    ) {
        let Some(body) = body.filter(|body| is_enabled(body)) else { return };
        match text_at(body, &["mode"]) {
            Some("raw") => self.raw(body, headers, keys),
            Some("urlencoded") => {
                let form = body.get("urlencoded").map(|list| self.pairs(list)).unwrap_or_default();
                if !form.is_empty() {
                    without_type(headers);
                    keys.insert("form".to_owned(), Value::Object(form));
                }
            }
            Some("formdata") => {
                let fields = self.fields(body.get("formdata").unwrap_or(&Value::Null));
                if !fields.is_empty() {
                    without_type(headers);
                    keys.insert("multipart".to_owned(), Value::Object(fields));
                }
            }
            Some("graphql") => {
                let query = text_at(body, &["graphql", "query"]).unwrap_or_default();
                let mut sent =
                    Map::from_iter([("query".to_owned(), Value::from(self.templates.written(query)))]);
                let variables = text_at(body, &["graphql", "variables"]).unwrap_or_default();
                match digits::parse(variables.as_bytes()) {
                    Ok(variables) if !variables.is_null() => {
                        sent.insert("variables".to_owned(), self.json(&variables));
                    }
                    Err(_) if !variables.trim().is_empty() => {
                        self.leave("variables of GraphQL that are not JSON")
                    }
                    _ => {}
                }
                without_type(headers);
                keys.insert("json".to_owned(), Value::Object(sent));
            }
            Some("file") => {
                let named = text_at(body, &["file", "src"]).unwrap_or("upload.bin");
                let field = FormField::stand_in("file", named, "");
                if let FormFieldContent::File { path, .. } = &field.content {
                    keys.insert("file".to_owned(), path.as_str().into());
                }
                self.stand_ins.push(field);
            }
            _ => {}
        }
    }

    fn raw(&mut self, body: &Value, headers: &mut Map<String, Value>, keys: &mut Map<String, Value>) {
        let text = text_at(body, &["raw"]).unwrap_or_default();
        if text.trim().is_empty() {
            return;
        }
        let named = headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("content-type"));
        let named = named.and_then(|(_, value)| value.as_str()).map(str::to_owned);
        let language = text_at(body, &["options", "raw", "language"]);
        let is_json = language == Some("json") || named.as_ref().is_some_and(|named| named.contains("json"));
        match digits::parse(text.as_bytes()) {
            Ok(json) if is_json && !has_reference(&json) => {
                // It is the type that a step with `json` has.
                if named.as_deref() == Some("application/json") {
                    without_type(headers);
                }
                let json = self.json(&json);
                keys.insert("json".to_owned(), json);
            }
            _ => {
                let language = match language {
                    _ if named.is_some() => None,
                    Some("json") => Some("application/json"),
                    Some("xml") => Some("application/xml"),
                    Some("html") => Some("text/html"),
                    Some("javascript") => Some("application/javascript"),
                    _ => Some("text/plain"),
                };
                if let Some(content_type) = language {
                    headers.insert("Content-Type".to_owned(), content_type.into());
                }
                keys.insert("body".to_owned(), self.templates.written(text).into());
            }
        }
    }

    /// A JSON value with templates.
    fn json(&mut self, value: &Value) -> Value {
        match value {
            Value::String(text) => self.templates.written(text).into(),
            // A number whose digits are kept.
            number if digits::of_number(number).is_some() => number.clone(),
            Value::Array(items) => items.iter().map(|item| self.json(item)).collect(),
            Value::Object(members) => {
                let members = members.iter().map(|(name, value)| {
                    let value = match value.as_str().filter(|text| !text.contains("{{")) {
                        Some(_) => self.templates.value(name, Some(value)).into(),
                        None => self.json(value),
                    };
                    (name.clone(), value)
                });
                Value::Object(members.collect())
            }
            other => other.clone(),
        }
    }

    /// The fields of a form with files.
    fn fields(&mut self, list: &Value) -> Map<String, Value> {
        let mut fields = Map::new();
        for field in list.as_array().into_iter().flatten().filter(|field| is_enabled(field)) {
            let Some(name) = text_at(field, &["key"]).filter(|name| !name.is_empty()) else { continue };
            let value = if text_at(field, &["type"]) == Some("file") {
                let source = match field.get("src") {
                    Some(Value::Array(names)) => names.first().and_then(Value::as_str),
                    Some(Value::String(name)) => Some(name.as_str()),
                    _ => None,
                };
                let named = source.unwrap_or("upload.bin");
                let stand_in = FormField::stand_in(name, named, "");
                let path = match &stand_in.content {
                    FormFieldContent::File { path, .. } => path.clone(),
                    FormFieldContent::Text(_) => String::new(),
                };
                self.stand_ins.push(stand_in);
                json!({ "file": path, "filename": named.rsplit(['/', '\\']).next().unwrap_or(named) })
            } else {
                Value::from(self.templates.value(name, field.get("value")))
            };
            match fields.get_mut(name) {
                None => drop(fields.insert(name.to_owned(), value)),
                Some(Value::Array(values)) => values.push(value),
                Some(first) => *first = json!([first.take(), value]),
            }
        }
        fields
    }
}

/// The key of the body says the type.
fn without_type(headers: &mut Map<String, Value>) {
    headers.retain(|name, _| !name.eq_ignore_ascii_case("content-type"));
}

/// True if a map in it would be a reference to a secret.
fn has_reference(value: &Value) -> bool {
    match value {
        Value::Array(items) => items.iter().any(has_reference),
        Value::Object(members) => {
            let is_one = members.len() <= 2 && members.keys().any(|name| name == "env" || name == "file");
            is_one || members.values().any(has_reference)
        }
        _ => false,
    }
}
