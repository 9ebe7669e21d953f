//! Sample values: an example of the document, or a value that a schema allows.

use serde_json::{Map, Value, json};

use crate::replace::escaped;
use crate::request::{as_it_is, is_like_a_reference};
use text::digits;

use super::document::OpenApiDocument;

/// How deep samples are nested, and how many values one sample has.
const LEVELS_MAX: usize = 8;
const VALUES_MAX: usize = 500;
const TEXT_CHARS_MAX: usize = 200;
const TUPLE_MAX: usize = 20;
/// The most items of a list, even if its schema requires more.
const ITEMS_MAX: u64 = 100;

/// The example of a parameter, a media type or a schema, if it has one.
pub(super) fn example(document: &OpenApiDocument, holder: &Value) -> Option<Value> {
    let of_schema = |schema: &Value| {
        let given = schema.get("example").or_else(|| schema.get("examples")?.get(0));
        given.or_else(|| schema.get("default")).cloned()
    };
    if let Some(value) = holder.get("example") {
        return Some(value.clone());
    }
    let named =
        holder.get("examples").and_then(Value::as_object).and_then(|examples| examples.values().next());
    if let Some(value) = named.and_then(|example| document.resolve(example)?.get("value")) {
        return Some(value.clone());
    }
    of_schema(holder).or_else(|| of_schema(document.resolve(holder.get("schema")?)?))
}

/// A value that a schema allows by its types and bounds.
pub(super) fn of_schema(document: &OpenApiDocument, schema: &Value) -> Value {
    let mut sampler = Sampler { document, left: VALUES_MAX };
    sampler.value(schema, 0)
}

struct Sampler<'d> {
    document: &'d OpenApiDocument,
    /// How many more values there may be.
    left: usize,
}

impl Sampler<'_> {
    fn value(&mut self, schema: &Value, level: usize) -> Value {
        let reference = schema.get("$ref").and_then(Value::as_str);
        let Some(schema) = self.document.resolve(schema) else { return Value::Null };
        self.left = self.left.saturating_sub(1);
        if self.left == 0 || level > LEVELS_MAX {
            return Value::Null;
        }
        let first = |key: &str| schema.get(key).and_then(Value::as_array).and_then(|items| items.first());
        if let Some(value) = schema
            .get("const")
            .or_else(|| schema.get("example"))
            .or_else(|| first("examples"))
            .or_else(|| schema.get("default"))
            .or_else(|| first("enum"))
        {
            return value.clone();
        }
        if let Some(parts) = schema.get("allOf").and_then(Value::as_array) {
            return self.all_of(schema, parts, level, reference);
        }
        let branches = ["oneOf", "anyOf"].iter().find_map(|key| schema.get(*key)?.as_array());
        if let Some(branches) = branches
            && schema.get("properties").is_none()
        {
            let branch = branches.iter().find(|branch| branch.get("type").is_none_or(|kind| kind != "null"));
            let mut value = branch.map_or(Value::Null, |branch| self.value(branch, level + 1));
            let taken = branch.and_then(|branch| branch.get("$ref")?.as_str());
            tell(schema, taken, &mut value);
            return value;
        }
        self.typed(schema, level)
    }

    /// `reference` is what led to the schema: the name by which a part may tell it from others.
    fn all_of(&mut self, schema: &Value, parts: &[Value], level: usize, reference: Option<&str>) -> Value {
        let mut merged = Map::new();
        let own = schema.get("properties").map(|_| self.typed(schema, level));
        for part in parts.iter().take(50) {
            match self.value(part, level + 1) {
                Value::Object(map) => merged.extend(map),
                Value::Null => {}
                other => return other,
            }
        }
        if let Some(Value::Object(map)) = own {
            merged.extend(map);
        }
        let mut merged = Value::Object(merged);
        for part in parts.iter().take(50).filter_map(|part| self.document.resolve(part)) {
            tell(part, reference, &mut merged);
        }
        merged
    }

    fn typed(&mut self, schema: &Value, level: usize) -> Value {
        match kind(schema) {
            "object" => self.object(schema, level),
            "array" if schema.get("prefixItems").is_some_and(Value::is_array) => {
                // Each place has a schema of its own; some allow further items, which are not needed.
                let places = schema.get("prefixItems").and_then(Value::as_array).into_iter().flatten();
                places.take(TUPLE_MAX).map(|place| self.value(place, level + 1)).collect()
            }
            "array" => {
                let count = schema.get("minItems").and_then(Value::as_u64).unwrap_or(1).clamp(1, ITEMS_MAX);
                let items = schema.get("items");
                items.map_or_else(
                    || json!([]),
                    |items| (0..count).map(|_| self.value(items, level + 1)).collect(),
                )
            }
            "integer" => whole(schema).unwrap_or_else(|| json!(number(schema, 1.0).round() as i64)),
            "number" => json!(number(schema, 1.5)),
            "boolean" => json!(true),
            "string" => json!(text(schema)),
            _ => Value::Null,
        }
    }

    fn object(&mut self, schema: &Value, level: usize) -> Value {
        let properties = schema.get("properties").and_then(Value::as_object);
        let required: Vec<&str> = schema
            .get("required")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        let mut map = Map::new();
        for (name, property) in properties.into_iter().flatten() {
            let property_schema = self.document.resolve(property);
            let is_read_only =
                property_schema.and_then(|schema| schema.get("readOnly")).and_then(Value::as_bool)
                    == Some(true);
            let is_shown = property_schema.is_some_and(|schema| schema.get("example").is_some());
            // A deep body is more often wrong than a small one.
            let is_optional = !required.is_empty() && !required.contains(&name.as_str()) && !is_shown;
            if is_read_only || is_optional || self.left == 0 {
                continue;
            }
            let value = self.value(property, level + 1);
            if !value.is_null() || required.contains(&name.as_str()) {
                map.insert(name.clone(), value);
            }
        }
        Value::Object(map)
    }
}

/// Writes the value by which a schema's `discriminator` tells that an object is of the schema that `reference` leads to:
/// the name that its `mapping` has for it, or else the schema's own.
fn tell(schema: &Value, reference: Option<&str>, value: &mut Value) {
    let property = schema.get("discriminator").and_then(|found| found.get("propertyName")?.as_str());
    let (Some(property), Some(reference), Value::Object(map)) = (property, reference, value) else { return };
    let own = reference.rsplit('/').next().unwrap_or_default();
    let mapping = schema.pointer("/discriminator/mapping").and_then(Value::as_object);
    let is_it = |target: &Value| target.as_str().is_some_and(|target| target == reference || target == own);
    let mapped =
        mapping.into_iter().flatten().find(|(_, target)| is_it(target)).map(|(name, _)| name.as_str());
    map.insert(property.to_owned(), mapped.unwrap_or(own).into());
}

/// The type of a schema; from 3.1, there may be several.
fn kind(schema: &Value) -> &str {
    let stated = match schema.get("type") {
        Some(Value::String(kind)) => Some(kind.as_str()),
        Some(Value::Array(kinds)) => kinds.iter().filter_map(Value::as_str).find(|kind| *kind != "null"),
        _ => None,
    };
    stated.unwrap_or_else(|| {
        let has = |key: &str| schema.get(key).is_some();
        match () {
            () if has("properties") || has("additionalProperties") => "object",
            () if has("items") || has("prefixItems") => "array",
            () if has("minimum") || has("maximum") => "number",
            () => "string",
        }
    })
}

/// A whole number, if the bounds are: exactly, for doubles do not hold every one.
fn whole(schema: &Value) -> Option<Value> {
    let bound = |key: &str| match schema.get(key).filter(|bound| !bound.is_boolean()) {
        Some(bound) => digits::of_number(bound)?.parse::<i128>().ok().map(Some),
        None => Some(None),
    };
    let strict = |key: &str| i128::from(schema.get(key).and_then(Value::as_bool) == Some(true));
    let least = bound("minimum")?.map(|least| least.saturating_add(strict("exclusiveMinimum")));
    let least = least.or(bound("exclusiveMinimum")?.map(|least| least.saturating_add(1)));
    let most = bound("maximum")?.map(|most| most.saturating_sub(strict("exclusiveMaximum")));
    let most = most.or(bound("exclusiveMaximum")?.map(|most| most.saturating_sub(1)));
    let value = least.map_or(1, |least| least.max(1));
    let value = most.map_or(value, |most| value.min(most));
    let value = match bound("multipleOf")?.filter(|step| *step > 0) {
        Some(step) => {
            let over = value.rem_euclid(step);
            if over == 0 { value } else { value.checked_add(step - over)? }
        }
        None => value,
    };
    Some(digits::number(&value.to_string()))
}

fn number(schema: &Value, usual: f64) -> f64 {
    let bound = |key: &str| digits::of_number(schema.get(key)?)?.parse::<f64>().ok();
    let above = bound("exclusiveMinimum").map(|least| least + 1.0);
    let below = bound("exclusiveMaximum").map(|most| most - 1.0);
    // In 3.0, `exclusiveMinimum: true` belongs to `minimum`.
    let strict = |key: &str| schema.get(key).and_then(Value::as_bool) == Some(true);
    let least =
        bound("minimum").map(|least| if strict("exclusiveMinimum") { least + 1.0 } else { least }).or(above);
    let most =
        bound("maximum").map(|most| if strict("exclusiveMaximum") { most - 1.0 } else { most }).or(below);
    let value = least.map_or(usual, |least| usual.max(least));
    let value = most.map_or(value, |most| value.min(most));
    match bound("multipleOf").filter(|step| *step > 0.0) {
        Some(step) => (value / step).ceil() * step,
        None => value,
    }
}

fn text(schema: &Value) -> String {
    let format = schema.get("format").and_then(Value::as_str).unwrap_or_default();
    let sample = match format {
        "date-time" => "2026-01-31T12:00:00Z",
        "date" => "2026-01-31",
        "time" => "12:00:00Z",
        "duration" => "PT1M",
        "email" | "idn-email" => "someone@example.com",
        "uuid" => "{{ uuid() }}",
        "uri" | "url" | "iri" | "uri-reference" => "https://example.com/",
        "hostname" => "example.com",
        "ipv4" => "192.0.2.1",
        "ipv6" => "2001:db8::1",
        "byte" => "YmVuY2g=",
        "password" => "",
        _ => "text",
    };
    let length = |key: &str| schema.get(key).and_then(Value::as_u64).and_then(|n| usize::try_from(n).ok());
    let (least, most) = (length("minLength").unwrap_or(0), length("maxLength").unwrap_or(TEXT_CHARS_MAX));
    let mut text = sample.to_owned();
    if sample == "text" {
        while text.len() < least.min(TEXT_CHARS_MAX) {
            text.push('x');
        }
        text.truncate(most.max(1));
    }
    text
}

/// A text of the document means nothing as a template; the samples of this module do.
pub(super) fn template_or_text(text: &str) -> String {
    if text == "{{ uuid() }}" { text.to_owned() } else { escaped(text) }
}

pub(super) fn json_text(value: &Value) -> Value {
    match value {
        Value::String(text) => template_or_text(text).into(),
        Value::Array(items) => items.iter().map(json_text).collect(),
        Value::Object(map) if is_like_a_reference(map) => as_it_is(map),
        Value::Object(map) => Value::Object(
            map.iter()
                .filter(|(key, _)| *key != "<<")
                .map(|(k, item)| (k.clone(), json_text(item)))
                .collect(),
        ),
        other => other.clone(),
    }
}
