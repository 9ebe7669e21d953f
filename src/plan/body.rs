//! The bodies of requests, compiled. Small files are read here, once; large ones are measured and sent from disk.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use http::HeaderValue;
use sha2::{Digest as _, Sha256};

use base::hex;
use base::masking::{self, names_secret};
use client::body::{FileContent, Part};
use config::body::{Field, FilePart, OrderedMap, Values};
use config::step;
use text::diagnostics::Fault;
use text::template::CompiledText;
use text::yaml::{YamlNode, YamlValue};
use text::yaml_place::{at, item, key_span};

use super::compiler::Compiler;
use super::headers::{hide_secrets_of, is_written_secret};
use super::json::JsonTemplate;
use super::messages::Messages;

/// Files up to this size are kept in memory.
const FILE_BYTES_KEPT: u64 = 64 << 10;
/// Files up to this size can be compressed.
const GZIP_FILE_BYTES_MAX: u64 = 16 << 20;
/// The most fields of a multipart body; each may have an open file.
const FIELDS_MAX: usize = 100;

/// A request's body.
pub enum BodyTemplate {
    /// No body.
    Empty,
    /// JSON, sent as application/json.
    Json(JsonTemplate),
    /// A form, sent as application/x-www-form-urlencoded.
    Form(Vec<(String, CompiledText)>),
    /// Text, sent as it is.
    Text(CompiledText),
    /// A file, sent as it is.
    File(BodyFile),
    /// Fields, sent as multipart/form-data.
    Multipart(Multipart),
    /// gRPC messages.
    Messages(Messages),
    /// gRPC messages that later steps send.
    Later,
}

/// A file to send.
pub struct BodyFile {
    /// Its content.
    pub part: Part,
    pub content_type: HeaderValue,
}

/// A multipart body.
pub struct Multipart {
    /// The line between the fields.
    pub boundary: String,
    /// The fields, in order.
    pub fields: Vec<MultipartField>,
}

/// A field of a multipart body.
pub struct MultipartField {
    /// Its name, escaped.
    pub name: String,
    pub content: FieldContent,
}

/// The content of a field.
pub enum FieldContent {
    Text(CompiledText),
    File {
        /// The name that the service gets; escaped after rendering.
        filename: CompiledText,
        file: BodyFile,
    },
}

impl Compiler<'_> {
    pub(super) fn body(&mut self, step: &step::Step, label: &str, node: &YamlNode) -> BodyTemplate {
        self.single_body(step, node);
        if let Some(json) = &step.json {
            hide_secrets_of(json);
            return self
                .texts
                .json(json, at(node, &["json"]))
                .map_or(BodyTemplate::Empty, BodyTemplate::Json);
        }
        if step.form.is_some() {
            return BodyTemplate::Form(self.pairs(step.form.as_ref(), at(node, &["form"])));
        }
        if let Some(path) = &step.file {
            return self
                .file(path, None, at(node, &["file"]))
                .map_or(BodyTemplate::Empty, BodyTemplate::File);
        }
        if step.multipart.is_some() {
            return BodyTemplate::Multipart(self.multipart(step, label, at(node, &["multipart"])));
        }
        let body = step.body.as_ref().and_then(|body| self.texts.text(body, at(node, &["body"])));
        body.map_or(BodyTemplate::Empty, BodyTemplate::Text)
    }

    fn single_body(&mut self, step: &step::Step, node: &YamlNode) {
        let bodies = [
            ("json", step.json.is_some()),
            ("form", step.form.is_some()),
            ("body", step.body.is_some()),
            ("file", step.file.is_some()),
            ("multipart", step.multipart.is_some()),
        ];
        let mut places: Vec<_> =
            bodies.iter().filter(|(_, there)| *there).map(|(key, _)| key_span(node, key)).collect();
        places.sort_by_key(|span| span.start);
        if let Some(second) = places.get(1) {
            let fault = Fault::error(second.clone(), "more than one body");
            self.texts.faults.push(fault.help("keep one of json, form, body, file, multipart"));
        }
        if step.gzip == Some(true) && places.is_empty() {
            let fault = Fault::error(key_span(node, "gzip"), "`gzip` without a body");
            self.texts
                .faults
                .push(fault.help("add one of json, form, body, file, multipart, or remove `gzip`"));
        }
        let has_encoding = |name: &String| name.eq_ignore_ascii_case("content-encoding");
        if step.gzip == Some(true) && step.headers.iter().flatten().any(|(name, _)| has_encoding(name)) {
            let fault =
                Fault::error(key_span(node, "gzip"), "`gzip` together with a header Content-Encoding");
            self.texts.faults.push(fault.help("keep one of them"));
        }
        if step.gzip == Some(true) {
            self.compressible(step, node);
        }
    }

    /// Reports files that are too large to be compressed in memory.
    fn compressible(&mut self, step: &step::Step, node: &YamlNode) {
        let fields = step.multipart.iter().flat_map(|multipart| &multipart.0).flat_map(|(_, fields)| fields);
        let in_fields = fields.filter_map(|field| match field {
            Field::File(file) => Some(&file.file),
            Field::Text(_) => None,
        });
        for path in step.file.iter().chain(in_fields) {
            let size = std::fs::metadata(self.files.folder().join(path)).map_or(0, |file| file.len());
            if size > GZIP_FILE_BYTES_MAX {
                let message = format!("{path} is too large to be compressed: it is kept in memory for that");
                let fault = Fault::error(key_span(node, "gzip"), message);
                self.texts.faults.push(fault.help(
                    "compress the file with gzip, name it under `file`, and write the header `Content-Encoding: gzip`",
                ));
            }
        }
    }

    fn file(
        &mut self,
        path: &str,
        content_type: Option<(&str, &YamlNode)>,
        node: &YamlNode,
    ) -> Option<BodyFile> {
        if path.contains("{{") {
            let fault = Fault::error(node.span.clone(), "the path of a file cannot contain templates");
            self.texts.faults.push(fault.help("write one action for each file"));
            return None;
        }
        let content_type = match content_type {
            None => HeaderValue::from_static(type_of(path)),
            Some((text, node)) => match HeaderValue::from_str(text) {
                Ok(value) if text.contains('/') => value,
                _ => {
                    let fault = Fault::error(node.span.clone(), format!("`{text}` is not a content type"));
                    self.texts.faults.push(fault.help("write it as image/png"));
                    return None;
                }
            },
        };
        let full = self.files.folder().join(path);
        let part = FileContent::measure(full.clone()).and_then(|file| {
            if file.length() > FILE_BYTES_KEPT {
                return Ok(Part::File(Arc::new(file)));
            }
            text::files::read_regular(&full).map(|content| Part::Bytes(Bytes::from(content)))
        });
        match part {
            Ok(part) => Some(BodyFile { part, content_type }),
            Err(error) => {
                let message = format!("cannot read {}: {error}", full.display());
                let fault = Fault::error(node.span.clone(), message);
                self.texts.faults.push(fault.help("name a file, relative to the scenario"));
                None
            }
        }
    }

    fn multipart(&mut self, step: &step::Step, label: &str, node: &YamlNode) -> Multipart {
        let written = step.multipart.iter().flat_map(|multipart| &multipart.0);
        let mut fields = Vec::new();
        for (name, values) in written {
            let place = at(node, &[name]);
            for (index, value) in values.iter().enumerate() {
                let place = if matches!(place.kind, YamlValue::List(_)) { item(place, index) } else { place };
                let content = match value {
                    Field::Text(text) => {
                        if names_secret(name) && is_written_secret(&text.0) {
                            masking::hide(&text.0);
                        }
                        self.texts.text(&text.0, place).map(FieldContent::Text)
                    }
                    Field::File(file) => self.file_field(file, place),
                };
                let name = escaped(name);
                fields.extend(content.map(|content| MultipartField { name, content }));
            }
        }
        if fields.len() > FIELDS_MAX {
            let fault = Fault::error(node.span.clone(), format!("more than {FIELDS_MAX} fields"));
            self.texts.faults.push(fault.help("send them in several requests"));
        }
        // The same in every run, and not the beginning of any likely content.
        let boundary = hex::encode(&Sha256::digest(format!("bench multipart {label}").as_bytes()));
        Multipart { boundary: format!("bench-{}", &boundary[..40]), fields }
    }

    fn file_field(&mut self, file: &FilePart, node: &YamlNode) -> Option<FieldContent> {
        let content_type = file.content_type.as_deref().map(|text| (text, at(node, &["type"])));
        let body = self.file(&file.file, content_type, at(node, &["file"]));
        let own_name = Path::new(&file.file).file_name().map(|name| name.to_string_lossy().into_owned());
        let filename = file.filename.clone().or(own_name).unwrap_or_default();
        let filename = self.texts.text(&filename, at(node, &["filename"]));
        Some(FieldContent::File { filename: filename?, file: body? })
    }

    /// The parameters of a query or a form; a name with several values occurs several times.
    pub(super) fn pairs(
        &mut self,
        pairs: Option<&OrderedMap<Values>>,
        node: &YamlNode,
    ) -> Vec<(String, CompiledText)> {
        let mut compiled = Vec::new();
        for (name, values) in pairs.iter().flat_map(|pairs| &pairs.0) {
            let place = at(node, &[name]);
            for (index, value) in values.all().iter().enumerate() {
                if names_secret(name) && is_written_secret(&value.0) {
                    masking::hide(&value.0);
                }
                let place = if matches!(values, Values::Several(_)) { item(place, index) } else { place };
                compiled.extend(self.texts.text(&value.0, place).map(|text| (name.clone(), text)));
            }
        }
        compiled
    }
}

/// A name as multipart/form-data writes it in quotes (WHATWG HTML, "multipart form data").
#[must_use]
pub fn escaped(name: &str) -> String {
    name.replace('"', "%22").replace('\r', "%0D").replace('\n', "%0A")
}

/// The content type of a file, by its extension.
fn type_of(path: &str) -> &'static str {
    let extension =
        Path::new(path).extension().map(|extension| extension.to_string_lossy().to_ascii_lowercase());
    match extension.as_deref().unwrap_or_default() {
        "json" => "application/json",
        "xml" => "application/xml",
        "yaml" | "yml" => "application/yaml",
        "csv" => "text/csv",
        "txt" | "log" => "text/plain",
        "html" | "htm" => "text/html",
        "css" => "text/css",
        "js" | "mjs" => "text/javascript",
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "gif" => "image/gif",
        "webp" => "image/webp",
        "svg" => "image/svg+xml",
        "pdf" => "application/pdf",
        "zip" => "application/zip",
        "gz" | "tgz" => "application/gzip",
        "tar" => "application/x-tar",
        "mp3" => "audio/mpeg",
        "mp4" => "video/mp4",
        "wasm" => "application/wasm",
        "ndjson" | "jsonl" => "application/x-ndjson",
        _ => "application/octet-stream",
    }
}
