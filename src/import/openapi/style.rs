//! How the values of parameters are written: `style`, `explode` and `content` of OpenAPI 3 ("Style Values"), and
//! `collectionFormat` of Swagger 2.

use serde_json::{Map, Value};

use base::percent;
use text::digits;

use super::document::OpenApiDocument;
use super::sample::{self, template_or_text};
use super::text_of;

/// The most values of a list or of a map that are written.
const ITEMS_MAX: usize = 20;
/// The most characters of a path's parameter.
const PATH_CHARS_MAX: usize = 200;

/// How a parameter says that it is written.
struct ParameterStyle<'d> {
    name: &'d str,
    /// Each value has a name of its own.
    explode: bool,
}

impl<'d> ParameterStyle<'d> {
    fn of(document: &OpenApiDocument, parameter: &'d Value, usual: &'static str) -> Self {
        let word = |key: &str| parameter.get(key).and_then(Value::as_str);
        if document.is_swagger() {
            return match word("collectionFormat") {
                Some("multi") => Self { name: "form", explode: true },
                Some("ssv") => Self { name: "spaceDelimited", explode: false },
                Some("tsv") => Self { name: "tabDelimited", explode: false },
                Some("pipes") => Self { name: "pipeDelimited", explode: false },
                _ => Self { name: usual, explode: false },
            };
        }
        let name = word("style").unwrap_or(usual);
        let explode = parameter.get("explode").and_then(Value::as_bool);
        Self { name, explode: explode.unwrap_or(name == "form") }
    }

    fn separator(&self) -> &'static str {
        match self.name {
            "spaceDelimited" => " ",
            "tabDelimited" => "\t",
            "pipeDelimited" => "|",
            _ => ",",
        }
    }
}

/// The example of a parameter, or a value of its schema; a text if the parameter has a `content`.
pub(super) fn value(document: &OpenApiDocument, parameter: &Value) -> Value {
    let media = parameter.get("content").and_then(Value::as_object).and_then(|content| content.iter().next());
    if let Some((kind, media)) = media {
        let value = sample::example(document, media)
            .unwrap_or_else(|| sample::of_schema(document, media.get("schema").unwrap_or(&Value::Null)));
        let is_json = kind.contains("json") && !value.is_string();
        return if is_json { digits::to_text(&value).into() } else { value };
    }
    sample::example(document, parameter).unwrap_or_else(|| {
        // In Swagger 2, the parameter is its own schema.
        sample::of_schema(document, parameter.get("schema").unwrap_or(parameter))
    })
}

/// Whether a value is too long for its place, or has characters that a line cannot hold.
pub(super) fn is_cut(place: &str, value: &Value) -> bool {
    let is_long = |value: &Value| {
        let text = text_of(value);
        match place {
            "path" => text.chars().nth(PATH_CHARS_MAX).is_some(),
            _ => text.chars().any(is_left_out),
        }
    };
    match value {
        Value::Array(items) => items.len() > ITEMS_MAX || items.iter().any(is_long),
        Value::Object(map) => map.len() > ITEMS_MAX || map.values().any(is_long),
        other => is_long(other),
    }
}

/// A parameter's value as it stands in a path, encoded. Numbers and booleans stay what they are.
pub(super) fn in_path(document: &OpenApiDocument, parameter: Option<&Value>, value: Value) -> Value {
    let none = Value::Null;
    let style = ParameterStyle::of(document, parameter.unwrap_or(&none), "simple");
    let name = parameter.and_then(|parameter| parameter.get("name")?.as_str()).unwrap_or_default();
    let of_text = |value: &Value| percent::encode(&chars(&text_of(value), PATH_CHARS_MAX));
    let pairs = |map: &Map<String, Value>, between: &str| -> Vec<String> {
        let one =
            |(key, value): (&String, &Value)| format!("{}{between}{}", percent::encode(key), of_text(value));
        map.iter().take(ITEMS_MAX).map(one).collect()
    };
    let list = |items: &[Value]| -> Vec<String> { items.iter().take(ITEMS_MAX).map(of_text).collect() };
    let matrix = |items: Vec<String>| match style.explode {
        true => items.iter().map(|item| format!(";{name}={item}")).collect::<String>(),
        false => format!(";{name}={}", items.join(",")),
    };
    let text = match (&value, style.name) {
        (Value::String(text), "simple") if text == "{{ uuid() }}" => {
            "00000000-0000-4000-8000-000000000001".to_owned()
        }
        (Value::Object(_), _) if digits::of_number(&value).is_some() => return value,
        (Value::Array(items), "label") => {
            format!(".{}", list(items).join(if style.explode { "." } else { "," }))
        }
        (Value::Array(items), "matrix") => matrix(list(items)),
        (Value::Array(items), _) => {
            let between = |separator: &str| percent::encode(separator).replace("%2C", ",");
            let of_item = |item| of_list(document, parameter.unwrap_or(&none), item, &of_text, &between);
            let items: Vec<String> = items.iter().take(ITEMS_MAX).map(of_item).collect();
            items.join(&between(style.separator()))
        }
        (Value::Object(map), "label") if style.explode => format!(".{}", pairs(map, "=").join(".")),
        (Value::Object(map), "label") => format!(".{}", pairs(map, ",").join(",")),
        (Value::Object(map), "matrix") if style.explode => {
            pairs(map, "=").iter().map(|pair| format!(";{pair}")).collect()
        }
        (Value::Object(map), "matrix") => format!(";{name}={}", pairs(map, ",").join(",")),
        (Value::Object(map), _) => pairs(map, if style.explode { "=" } else { "," }).join(","),
        (_, "label") => format!(".{}", of_text(&value)),
        (_, "matrix") => format!(";{name}={}", of_text(&value)),
        (Value::Bool(_) | Value::Number(_), _) => return value,
        _ => of_text(&value),
    };
    if text.is_empty() { "1".into() } else { text.into() }
}

/// An item of a list, as `written` writes it. In Swagger 2, a list in a list has a separator of its own, as `between`
/// writes it.
fn of_list(
    document: &OpenApiDocument,
    list: &Value,
    item: &Value,
    written: &dyn Fn(&Value) -> String,
    between: &dyn Fn(&str) -> String,
) -> String {
    match (item, list.get("items")) {
        (Value::Array(inner), Some(schema)) if document.is_swagger() => {
            let inner = inner.iter().take(ITEMS_MAX);
            let inner: Vec<String> =
                inner.map(|item| of_list(document, schema, item, written, between)).collect();
            inner.join(&between(ParameterStyle::of(document, schema, "simple").separator()))
        }
        _ => written(item),
    }
}

/// The names and values that a parameter of a query, a header or a cookie is sent as. A list is sent with its name
/// several times.
pub(super) fn named(
    document: &OpenApiDocument,
    place: &str,
    name: &str,
    parameter: &Value,
    value: Value,
) -> Vec<(String, Value)> {
    let usual = if place == "header" { "simple" } else { "form" };
    let style = ParameterStyle::of(document, parameter, usual);
    let in_query = place == "query";
    let pair = |key: &String, between: &str, value: &Value| format!("{key}{between}{}", plain(value));
    let is_number = digits::of_number(&value).is_some();
    let of_item = |item: &Value| of_list(document, parameter, item, &plain, &str::to_owned);
    match value {
        Value::Object(map) if !is_number => {
            let map = map.iter().take(ITEMS_MAX);
            match (style.name, style.explode) {
                ("deepObject", _) => {
                    map.map(|(key, value)| (format!("{name}[{key}]"), text(&plain(value)))).collect()
                }
                // Each is a cookie: the `&` that OpenAPI 3.0 would put between them is none of a cookie's.
                ("form", true) if place != "header" => {
                    map.map(|(key, value)| (key.clone(), text(&plain(value)))).collect()
                }
                (_, explode) => {
                    let between = if explode { "=" } else { style.separator() };
                    let pairs: Vec<String> = map.map(|(key, value)| pair(key, between, value)).collect();
                    vec![(name.to_owned(), text(&pairs.join(style.separator())))]
                }
            }
        }
        Value::Array(items) if in_query && style.explode && !items.is_empty() => {
            let items = items.iter().take(ITEMS_MAX).map(|item| text(&of_item(item)));
            vec![(name.to_owned(), items.collect())]
        }
        Value::Array(items) => {
            let items: Vec<String> = items.iter().take(ITEMS_MAX).map(of_item).collect();
            vec![(name.to_owned(), text(&items.join(style.separator())))]
        }
        other => vec![(name.to_owned(), text(&plain(&other)))],
    }
}

/// The values of a list as a parameter of Swagger 2 writes them: joined, or several.
pub(super) fn joined(document: &OpenApiDocument, parameter: &Value, items: &[Value]) -> Vec<String> {
    let style = ParameterStyle::of(document, parameter, "simple");
    let of_item = |item| of_list(document, parameter, item, &plain, &str::to_owned);
    let items: Vec<String> = items.iter().take(ITEMS_MAX).map(of_item).collect();
    if style.explode || items.is_empty() { items } else { vec![items.join(style.separator())] }
}

/// A text that a line can hold.
fn plain(value: &Value) -> String {
    text_of(value).chars().filter(|c| !is_left_out(*c)).collect()
}

fn is_left_out(c: char) -> bool {
    c.is_control() && c != '\t'
}

fn text(text: &str) -> Value {
    template_or_text(text).into()
}

fn chars(text: &str, most: usize) -> String {
    text.chars().take(most).collect()
}
