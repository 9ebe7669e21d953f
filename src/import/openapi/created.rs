//! Where the answer of an operation has the id of what it created.

use serde_json::Value;

use super::document::OpenApiDocument;

/// How many schemas lead from one to the next.
const LEVELS_MAX: usize = 4;

/// The member of a response that is called like the parameter, or `id`, as a JSONPath: of the answer itself, or of the
/// one object in it (`{"order": {"id": 1}}`).
pub(super) fn member(document: &OpenApiDocument, response: &Value, parameter: &str) -> Option<String> {
    let content = response.get("content").and_then(Value::as_object);
    let schema = match content {
        Some(content) => content
            .iter()
            .find(|(mime, _)| mime.contains("json") || mime.as_str() == "*/*")?
            .1
            .get("schema")?,
        // Swagger 2.
        None => response.get("schema")?,
    };
    let names = [parameter, "id"].into_iter().filter(|name| is_plain(name));
    let own = names.clone().find(|name| property(document, schema, name, LEVELS_MAX).is_some());
    if let Some(name) = own {
        return Some(format!("$.{name}"));
    }
    let wrapped = wrapped(document, schema)?;
    names.clone().find_map(|name| {
        property(document, wrapped.1, name, LEVELS_MAX).map(|_| format!("$.{}.{name}", wrapped.0))
    })
}

/// A property of a schema or of its parts.
fn property<'d>(
    document: &'d OpenApiDocument,
    schema: &'d Value,
    name: &str,
    levels: usize,
) -> Option<&'d Value> {
    let schema = document.resolve(schema)?;
    let own = schema.get("properties").and_then(|properties| properties.get(name));
    let parts = || {
        let lists = ["allOf", "oneOf", "anyOf"].into_iter().filter_map(|key| schema.get(key)?.as_array());
        lists.flatten().take(50)
    };
    own.or_else(|| {
        let levels = levels.checked_sub(1)?;
        parts().find_map(|part| property(document, part, name, levels))
    })
}

/// The only property of a schema that is an object, with its name.
fn wrapped<'d>(document: &'d OpenApiDocument, schema: &'d Value) -> Option<(&'d str, &'d Value)> {
    let properties = document.resolve(schema)?.get("properties")?.as_object()?;
    let mut objects = properties.iter().filter_map(|(name, value)| {
        let value = document.resolve(value)?;
        let is_object = value.get("properties").is_some() || value.get("allOf").is_some();
        (is_object && is_plain(name)).then_some((name.as_str(), value))
    });
    let first = objects.next()?;
    objects.next().is_none().then_some(first)
}

fn is_plain(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}
