//! A document and the references in it.

use std::io::Read;

use serde_json::Value;

use crate::ImportError;
use crate::replace::escaped;
use crate::request::split_url;
use base::percent;
use text::charset;
use text::diagnostics::SourceText;
use text::digits;
use text::yaml;

/// How many references lead from one to the next.
const REFERENCES_MAX: usize = 16;

const NO_DOCUMENT: &str = "give an OpenAPI 3 document, or Swagger 2";

/// A document, parsed.
pub(super) struct OpenApiDocument {
    root: Value,
}

/// An operation of a document.
pub(super) struct Operation<'d> {
    pub(super) method: &'d str,
    pub(super) path: &'d str,
    pub(super) item: &'d Value,
    pub(super) value: &'d Value,
    pub(super) id: Option<&'d str>,
}

/// Where the API is.
pub(super) struct Base {
    pub(super) url: String,
    pub(super) note: Option<String>,
}

/// Where a service is whose document does not say it.
const UNKNOWN: &str = "http://127.0.0.1:8080";

/// The first of a list of servers, its variables replaced.
fn server_url(servers: &Value) -> Option<String> {
    let server = servers.get(0)?;
    let mut url = server.get("url")?.as_str()?.to_owned();
    let variables = server.get("variables").and_then(Value::as_object);
    for (name, variable) in variables.into_iter().flatten().take(50) {
        let value = variable.get("default").map(super::text_of).unwrap_or_default();
        url = url.replace(&format!("{{{name}}}"), &value);
    }
    Some(url)
}

/// A URL of HTTP without its query and its last slash.
fn absolute(url: &str) -> Option<String> {
    let (origin, path) = split_url(url)?;
    let path = path.split('?').next().unwrap_or_default().trim_end_matches('/');
    Some(format!("{origin}{}", escaped(path)))
}

/// The YAML reader takes quadratic time for brackets within brackets. Brackets in texts count too, so the limit is far
/// above what documents have.
fn is_too_nested(bytes: &[u8]) -> bool {
    const OPEN_MAX: usize = 10_000;
    let mut open = 0_usize;
    bytes.iter().any(|byte| {
        match byte {
            b'[' | b'{' => open += 1,
            b']' | b'}' => open = open.saturating_sub(1),
            _ => {}
        }
        open > OPEN_MAX
    })
}

/// Reads a document, which may name other files.
pub(super) fn read(input: impl Read) -> Result<Value, ImportError> {
    let mut bytes = Vec::new();
    let read = input.take(super::BYTES_MAX + 1).read_to_end(&mut bytes);
    read.map_err(|error| ImportError::new(format!("cannot read the document: {error}"), "check the file"))?;
    if bytes.len() as u64 > super::BYTES_MAX {
        return Err(ImportError::new("the document is larger than 64 MiB", "give a smaller one"));
    }
    parse(bytes)
}

/// Reads JSON, or else YAML.
pub(super) fn parse(mut bytes: Vec<u8>) -> Result<Value, ImportError> {
    if charset::has_mark(&bytes) {
        bytes = charset::text(&bytes, None).into_owned().into_bytes();
    }
    let no_document = |what: String| ImportError::new(what, NO_DOCUMENT);
    let is_json = bytes.iter().find(|byte| !byte.is_ascii_whitespace()).is_some_and(|byte| *byte == b'{');
    if is_json {
        return digits::parse(&bytes).map_err(|error| no_document(format!("this is not JSON: {error}")));
    }
    if is_too_nested(&bytes) {
        return Err(no_document("this YAML is nested too deeply".to_owned()));
    }
    // Our own reader keeps the digits of numbers; it is strict, and bounded, as documents need not be.
    let text = std::str::from_utf8(&bytes).ok().filter(|text| text.len() <= yaml::BYTES_MAX);
    let exact = text.and_then(|text| yaml::parse(&SourceText::new("document", text)).ok());
    if let Some(value) = exact.and_then(|root| digits::value(root.to_value()).ok()) {
        return Ok(value);
    }
    digits::value(serde_yaml::Deserializer::from_slice(&bytes))
        .map_err(|error| no_document(format!("this is not YAML: {error}")))
}

impl OpenApiDocument {
    /// The document with this content.
    pub(super) fn of(root: Value) -> Result<Self, ImportError> {
        let no_document = |what: String| ImportError::new(what, NO_DOCUMENT);
        let version = root.get("openapi").or_else(|| root.get("swagger")).map(super::text_of);
        match version.as_deref() {
            Some(version) if version.starts_with("3.") || version.starts_with('2') => Ok(Self { root }),
            Some(version) => {
                let version: String = version.chars().take(20).collect();
                let what = match version.as_str() {
                    "3" => "`openapi: 3` is no whole version: write one such as 3.0.3".to_owned(),
                    version => format!("version `{version}` of OpenAPI is not supported"),
                };
                Err(no_document(what))
            }
            None => Err(no_document("this is not an OpenAPI document: it has no key `openapi`".to_owned())),
        }
    }

    /// True for Swagger 2.
    pub(super) fn is_swagger(&self) -> bool {
        self.root.get("swagger").is_some()
    }

    pub(super) fn at(&self, keys: &[&str]) -> Option<&Value> {
        keys.iter().try_fold(&self.root, |value, key| value.get(key))
    }

    /// The value that a reference leads to, or the value itself. `None` if it leads nowhere, or in a circle.
    pub(super) fn resolve<'d>(&'d self, mut value: &'d Value) -> Option<&'d Value> {
        for _ in 0..REFERENCES_MAX {
            match value.get("$ref").and_then(Value::as_str) {
                Some(reference) => {
                    let pointer = String::from_utf8(percent::decode(reference.strip_prefix('#')?)).ok()?;
                    value = self.root.pointer(&pointer)?;
                }
                None => return Some(value),
            }
        }
        None
    }

    /// The base URL: the first server's.
    pub(super) fn base(&self) -> Base {
        let missing = |what: &str| Base {
            url: UNKNOWN.to_owned(),
            note: Some(format!("{what}: write the service's URL into `targets` of the deployment")),
        };
        let url =
            if self.is_swagger() { self.swagger_url() } else { self.at(&["servers"]).and_then(server_url) };
        let Some(url) = url.filter(|url| !url.is_empty()) else {
            return missing("the document names no server");
        };
        match absolute(&url) {
            Some(url) => Base { url, note: None },
            None if url.starts_with('/') => {
                let base = missing("the document names a server without its host");
                Base { url: format!("{UNKNOWN}{}", url.trim_end_matches('/')), ..base }
            }
            None => missing("the document's server is not a URL"),
        }
    }

    /// The base URL of an operation: its own server, or its path's, or else the document's. A server without a host is
    /// on the document's.
    ///
    /// # Errors
    /// The server's URL, which is none.
    pub(super) fn base_of(&self, operation: &Operation<'_>, base: &Base) -> Result<String, String> {
        let own = [operation.value, operation.item]
            .into_iter()
            .find_map(|holder| server_url(holder.get("servers")?));
        let Some(url) = own.filter(|url| !url.is_empty()) else { return Ok(base.url.clone()) };
        let origin = split_url(&base.url).map_or_else(|| UNKNOWN.to_owned(), |(origin, _)| origin);
        let url = if url.starts_with('/') && !url.starts_with("//") { format!("{origin}{url}") } else { url };
        absolute(&url).ok_or(url)
    }

    fn swagger_url(&self) -> Option<String> {
        let path = self.at(&["basePath"]).and_then(Value::as_str).unwrap_or("/");
        let Some(host) = self.at(&["host"]).and_then(Value::as_str) else { return Some(path.to_owned()) };
        let schemes = self.at(&["schemes"]).and_then(Value::as_array);
        let scheme = schemes.and_then(|schemes| schemes.first()?.as_str()).unwrap_or("https");
        Some(format!("{scheme}://{host}{path}"))
    }

    /// All operations, in the document's order.
    pub(super) fn operations(&self) -> impl Iterator<Item = Operation<'_>> {
        const METHODS: [&str; 8] = ["get", "head", "options", "post", "put", "patch", "delete", "trace"];
        let paths = self.at(&["paths"]).and_then(Value::as_object).into_iter().flatten();
        paths.flat_map(move |(path, item)| {
            let item = self.resolve(item).unwrap_or(item);
            let operations = item.as_object().into_iter().flatten();
            operations.filter(|(method, value)| METHODS.contains(&method.as_str()) && value.is_object()).map(
                move |(method, value)| Operation {
                    method,
                    path,
                    item,
                    value,
                    id: value.get("operationId").and_then(Value::as_str),
                },
            )
        })
    }
}
