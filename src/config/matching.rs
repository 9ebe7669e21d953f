//! Approximate matching: the name that was probably meant, and whether a value has the type of a schema.

use serde_json::Value;

use text::similar::did_you_mean;
use text::yaml::{YamlNode, YamlValue};

/// The schema that a `$ref` refers to, or the schema itself.
pub(super) fn resolve<'s>(root: &'s Value, mut schema: &'s Value) -> &'s Value {
    // A definition never refers to itself without a level of data between, so this loop ends.
    while let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
        match reference.strip_prefix('#').and_then(|pointer| root.pointer(pointer)) {
            Some(target) => schema = target,
            None => break,
        }
    }
    schema
}

/// True if the node has this type of JSON Schema.
pub(super) fn fits(node: &YamlNode, expected: &str) -> bool {
    match expected {
        "null" => matches!(node.kind, YamlValue::Null),
        "boolean" => matches!(node.kind, YamlValue::Bool(_)),
        "integer" => matches!(node.kind, YamlValue::Int(_)),
        "number" => matches!(node.kind, YamlValue::Int(_) | YamlValue::Float(_)),
        "string" => matches!(node.kind, YamlValue::Text { .. }),
        "array" => matches!(node.kind, YamlValue::List(_)),
        "object" => matches!(node.kind, YamlValue::Map(_)),
        _ => true,
    }
}

/// The schema of a map that knows the most keys of `node`, or if no key is known, has the most similar ones. The first
/// of equal schemas; `None` if there is none.
pub(super) fn with_most_keys<'s>(
    node: &YamlNode,
    branches: impl Iterator<Item = &'s Value> + Clone,
) -> Option<&'s Value> {
    let known = |branch: &Value| match branch.get("properties").and_then(Value::as_object) {
        Some(known) => node.entries().iter().filter(|(key, _)| known.contains_key(&key.name)).count(),
        None => 0,
    };
    let similar = |branch: &Value| match branch.get("properties").and_then(Value::as_object) {
        Some(known) => {
            let meant = |key: &str| did_you_mean(key, known.keys().map(String::as_str)).is_some();
            node.entries().iter().filter(|(key, _)| meant(&key.name)).count()
        }
        None => 0,
    };
    most(branches.clone(), known).or_else(|| most(branches, similar))
}

/// The first of those that have the most of something; none if all have nothing.
fn most<'s>(branches: impl Iterator<Item = &'s Value>, count: impl Fn(&Value) -> usize) -> Option<&'s Value> {
    let counted = branches.map(|branch| (count(branch), branch)).filter(|(count, _)| *count > 0);
    counted.reduce(|best, next| if next.0 > best.0 { next } else { best }).map(|(_, branch)| branch)
}
