//! The body of an operation, as the keys of a step.

use serde_json::{Map, Value};

use crate::multipart::{self, FormField, FormFieldContent};
use crate::replace::Replace;
use crate::request::{FORM, essence, is_json};
use crate::secrets::variable_name;

use super::document::{OpenApiDocument, Operation};
use super::operation::Links;
use super::sample::{self, json_text, template_or_text};
use super::{first_line, style, text_of};

/// Samples have no secrets, and their templates stay.
struct Samples;

impl Replace for Samples {
    fn whole(&mut self, _: &str, value: &str) -> Option<String> {
        Some(template_or_text(value))
    }
}

/// What a note says of bodies that a sample cannot be made for.
const OTHER_TYPES: &str = "bodies whose type is neither JSON nor a form: write `body`";

impl<'d> Operation<'d> {
    /// The keys of the body; `headers` gets a content type that the keys do not imply, and `links` what forms send.
    #[expect(clippy::too_many_lines, reason = "the types of bodies, one after the other")]
    pub(super) fn body(
        &self,
        document: &'d OpenApiDocument,
        parameters: &[&Value],
        headers: &mut Map<String, Value>,
        links: &mut Links,
    ) -> Map<String, Value> {
        if document.is_swagger() {
            return self.swagger_body(document, parameters, headers, links);
        }
        let Links { stand_ins: files, left, .. } = links;
        let mut keys = Map::new();
        let content = self
            .value
            .get("requestBody")
            .and_then(|body| document.resolve(body)?.get("content")?.as_object());
        let Some(content) = content else { return keys };
        let of = |wanted: &dyn Fn(&str) -> bool| content.iter().find(|(mime, _)| wanted(mime));
        let is_json = |mime: &str| is_json(&essence(mime));
        let chosen = of(&is_json)
            .or_else(|| of(&|mime| mime.contains("form-urlencoded")))
            .or_else(|| of(&|mime| mime.starts_with("multipart/form-data")))
            .or_else(|| content.iter().next());
        let Some((mime, media)) = chosen else { return keys };
        if content.len() > 1 {
            left.add("further types of bodies");
        }
        if mime.starts_with("multipart/form-data") {
            let fields = form_fields(document, media);
            let has_type = |field: &FormField| {
                let stated = encoding(media, &field.name).and_then(|one| one.get("contentType")?.as_str());
                matches!(field.content, FormFieldContent::Text(_))
                    && stated.is_some_and(|stated| !stated.starts_with("text/plain"))
            };
            if fields.iter().any(has_type) {
                left.add("content types of a form's fields: they are sent as text");
            }
            let has_headers = |field: &FormField| {
                encoding(media, &field.name).is_some_and(|one| one.get("headers").is_some())
            };
            if fields.iter().any(has_headers) {
                left.add("headers of a form's fields");
            }
            if !fields.is_empty() && multipart::fits(&fields) {
                put_multipart(&mut keys, fields, files);
            }
            return keys;
        }
        let example = sample::example(document, media);
        let value = example.unwrap_or_else(|| {
            media.get("schema").map_or(Value::Null, |schema| sample::of_schema(document, schema))
        });
        let has_file_only = |name: &str| {
            let examples = media.get("examples").and_then(Value::as_object);
            examples.is_some_and(|all| {
                all.values().any(|one| one.get(name).is_some() && one.get("value").is_none())
            })
        };
        if has_file_only("externalValue") {
            left.add("examples that are in other files (externalValue)");
        }
        let mut state = |usual: &str| {
            if mime != usual {
                headers.insert("Content-Type".into(), first_line(mime, 100).into());
            }
        };
        if is_json(mime) {
            // `json: null` in a step is no body.
            match value.is_null() {
                true => {
                    state("");
                    keys.insert("body".into(), "null".into());
                }
                false => {
                    state("application/json");
                    keys.insert("json".into(), json_text(&value));
                }
            }
        } else if let (true, Value::Object(map)) = (mime.contains("form-urlencoded"), &value) {
            state(FORM);
            let is_reserved = |name| {
                encoding(media, name).is_some_and(|one| one.get("allowReserved") == Some(&Value::Bool(true)))
            };
            if map.keys().any(|name| is_reserved(name)) {
                left.add("fields whose reserved characters are not to be encoded");
            }
            keys.insert("form".into(), form(document, media, map));
        } else if essence(mime) == "application/octet-stream"
            && media.get("schema").is_none()
            && value.is_null()
            || is_binary(media.get("schema").and_then(|schema| document.resolve(schema)))
        {
            // A body of any type is a file of that type.
            let field = FormField::stand_in("body", "upload.bin", "");
            keys.extend(
                multipart::stand_ins(std::slice::from_ref(&field))
                    .map(|path| ("file".to_owned(), path.into())),
            );
            files.push(field);
            if !mime.contains('*') {
                headers.insert("Content-Type".into(), first_line(mime, 100).into());
            }
        } else if let Value::Object(_) | Value::Array(_) = value {
            left.add(OTHER_TYPES);
        } else {
            headers.insert("Content-Type".into(), first_line(mime, 100).into());
            keys.insert("body".into(), template_or_text(&text_of(&value)).into());
        }
        keys
    }

    /// Swagger 2 describes bodies as parameters.
    fn swagger_body(
        &self,
        document: &OpenApiDocument,
        parameters: &[&Value],
        headers: &mut Map<String, Value>,
        links: &mut Links,
    ) -> Map<String, Value> {
        let Links { stand_ins: files, left, .. } = links;
        let mut keys = Map::new();
        let consumes = self.value.get("consumes").or_else(|| document.at(&["consumes"]));
        let types = || consumes.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
        let of = |place: &'static str| {
            parameters.iter().filter(move |parameter| parameter.get("in").is_some_and(|found| found == place))
        };
        if let Some(schema) = of("body").find_map(|body| body.get("schema")) {
            match types().find(|mime| is_json(&essence(mime))) {
                None if types().next().is_some() => {
                    left.add(OTHER_TYPES);
                    return keys;
                }
                Some(mime) if mime != "application/json" => {
                    headers.insert("Content-Type".into(), first_line(mime, 100).into());
                }
                _ => {}
            }
            keys.insert("json".into(), json_text(&sample::of_schema(document, schema)));
            return keys;
        }
        let is_multipart = consumes
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .any(|mime| mime == "multipart/form-data")
            || of("formData").any(|field| field.get("type").is_some_and(|kind| kind == "file"));
        let mut fields = Vec::new();
        for field in of("formData") {
            let Some(name) = field.get("name").and_then(Value::as_str) else { continue };
            let is_file = field.get("type").is_some_and(|kind| kind == "file");
            match sample::example(document, field).unwrap_or_else(|| sample::of_schema(document, field)) {
                Value::Array(items) if !is_file => {
                    let texts = style::joined(document, field, &items);
                    fields.extend(texts.into_iter().map(|text| FormField::text(name, text)));
                }
                _ => fields.extend(fields_of(document, name, field, is_file, "")),
            }
        }
        if fields.is_empty() || !multipart::fits(&fields) {
            return keys;
        }
        if is_multipart {
            put_multipart(&mut keys, fields, files);
        } else {
            keys.insert("form".into(), Value::Object(multipart::written(&fields, &mut Samples)));
        }
        keys
    }
}

fn put_multipart(keys: &mut Map<String, Value>, fields: Vec<FormField>, files: &mut Vec<FormField>) {
    keys.insert("multipart".into(), Value::Object(multipart::written(&fields, &mut Samples)));
    files.extend(fields.into_iter().filter(|field| matches!(field.content, FormFieldContent::File { .. })));
}

/// What a property of a form says of how it is written (OpenAPI 3, "Encoding Object").
fn encoding<'m>(media: &'m Value, name: &str) -> Option<&'m Value> {
    media.get("encoding")?.get(name)
}

fn form(document: &OpenApiDocument, media: &Value, map: &Map<String, Value>) -> Value {
    let is_styled = |styled: &&Value| ["style", "explode"].iter().any(|key| styled.get(key).is_some());
    let mut form = Map::new();
    for (name, value) in map.iter().filter(|(name, _)| *name != "<<") {
        match encoding(media, name).filter(is_styled) {
            Some(styled) => form.extend(style::named(document, "query", name, styled, value.clone())),
            None => form.extend([written(name, value)]),
        }
    }
    form.remove("<<");
    Value::Object(form)
}

fn written(name: &str, value: &Value) -> (String, Value) {
    let value = match value {
        Value::Array(items) if !items.is_empty() => {
            items.iter().map(|item| Value::from(template_or_text(&text_of(item)))).collect()
        }
        other => template_or_text(&text_of(other)).into(),
    };
    (name.to_owned(), value)
}

/// The fields of a multipart form: the required ones, or all if none is required; and files.
fn form_fields(document: &OpenApiDocument, media: &Value) -> Vec<FormField> {
    let Some(schema) = media.get("schema").and_then(|schema| document.resolve(schema)) else {
        return Vec::new();
    };
    let sampled = sample::example(document, media).unwrap_or_else(|| sample::of_schema(document, schema));
    let properties = schema.get("properties").and_then(Value::as_object);
    let mut fields = Vec::new();
    for (name, property) in properties.into_iter().flatten().take(200) {
        let Some(property) = document.resolve(property) else { continue };
        let items = property.get("items").and_then(|items| document.resolve(items));
        let is_file = is_binary(Some(property)) || is_binary(items);
        let mime = media.get("encoding").and_then(|all| all.get(name)?.get("contentType")?.as_str());
        if is_file {
            fields.extend(fields_of(document, name, property, true, mime.unwrap_or_default()));
        } else if let Some(value) = sampled.get(name) {
            fields.extend(texts(name, value));
        }
    }
    if fields.is_empty()
        && let Value::Object(map) = &sampled
    {
        fields.extend(map.iter().flat_map(|(name, value)| texts(name, value)));
    }
    fields
}

/// A field of Swagger 2, or a file.
fn fields_of(
    document: &OpenApiDocument,
    name: &str,
    schema: &Value,
    is_file: bool,
    mime: &str,
) -> Vec<FormField> {
    if is_file {
        let mime = mime.split(',').next().unwrap_or_default().trim();
        let mime = if mime.contains('*') { "" } else { mime };
        return vec![FormField::stand_in(name, &format!("{}.bin", variable_name(name)), mime)];
    }
    texts(name, &sample::example(document, schema).unwrap_or_else(|| sample::of_schema(document, schema)))
}

fn texts(name: &str, value: &Value) -> Vec<FormField> {
    match value {
        Value::Array(items) => {
            items.iter().take(20).map(|item| FormField::text(name, text_of(item))).collect()
        }
        one => vec![FormField::text(name, text_of(one))],
    }
}

/// True for a schema of bytes (OpenAPI 3.0: `format: binary`; 3.1: `contentMediaType` or nothing).
fn is_binary(schema: Option<&Value>) -> bool {
    let Some(schema) = schema else { return false };
    let word = |key: &str| schema.get(key).and_then(Value::as_str);
    word("format") == Some("binary")
        || word("contentMediaType").is_some() && word("contentEncoding").is_none()
}
