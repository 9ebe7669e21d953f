//! What nearly fits: a name that was probably meant, the branch of a schema that a value is of.

use serde_json::Value;

use crate::base::yaml::{Kind, Node};

/// The names of `known` that `name` may have been meant to be.
#[must_use]
pub fn did_you_mean<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // A name as long as a book is no slip of the finger, and comparing takes its length squared.
    const LENGTH_MAX: usize = 80;
    if name.len() > LENGTH_MAX {
        return None;
    }
    known
        .into_iter()
        .filter(|candidate| candidate.len() <= LENGTH_MAX)
        .map(|candidate| {
            (strsim::damerau_levenshtein(&name.to_lowercase(), &candidate.to_lowercase()), candidate)
        })
        .filter(|(distance, candidate)| *distance <= 1 + candidate.len().min(name.len()) / 4)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// What a reference in a schema leads to.
pub(super) fn resolve<'s>(root: &'s Value, mut schema: &'s Value) -> &'s Value {
    // Definitions never refer to themselves in a circle without a level of data between.
    while let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
        match reference.strip_prefix('#').and_then(|pointer| root.pointer(pointer)) {
            Some(target) => schema = target,
            None => break,
        }
    }
    schema
}

/// True for a node of a type that a schema names.
pub(super) fn fits(node: &Node, expected: &str) -> bool {
    match expected {
        "null" => matches!(node.kind, Kind::Null),
        "boolean" => matches!(node.kind, Kind::Bool(_)),
        "integer" => matches!(node.kind, Kind::Int(_)),
        "number" => matches!(node.kind, Kind::Int(_) | Kind::Float(_)),
        "string" => matches!(node.kind, Kind::Text { .. }),
        "array" => matches!(node.kind, Kind::List(_)),
        "object" => matches!(node.kind, Kind::Map(_)),
        _ => true,
    }
}
