//! Builds the bodies of requests: once for all requests if nothing in them changes, else for each.

use std::fmt::Write as _;
use std::io::Write as _;
use std::sync::Arc;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::HeaderValue;

use client::body::{BodyContent, Part, Parts};
use plan::body::{BodyTemplate, FieldContent, Multipart, escaped};
use plan::call::http::HttpCall;
use text::template::{TemplateError, Variables};

use super::request::render_pairs;

/// The body of `call`, if all of its requests have the same.
pub(super) fn literal_body(call: &HttpCall) -> Result<Option<BodyContent>, TemplateError> {
    let literal = match &call.body {
        BodyTemplate::Empty => Some(BodyContent::EMPTY),
        BodyTemplate::Later => Some(BodyContent::Later),
        BodyTemplate::Json(json) => json.literal().map(|text| Bytes::from(text).into()),
        BodyTemplate::Text(text) => text.literal().map(|text| Bytes::from(text.to_owned()).into()),
        BodyTemplate::File(file) => Some(one_part(file.part.clone())),
        BodyTemplate::Messages(messages) => messages.literal().cloned().map(BodyContent::from),
        BodyTemplate::Multipart(multipart) if is_literal(multipart) => {
            Some(render_multipart(multipart, &Variables::with_computed(Arc::default(), Vec::new()))?)
        }
        BodyTemplate::Form(_) | BodyTemplate::Multipart(_) => None,
    };
    literal.map(|content| compressed(call, content)).transpose()
}

/// The body of a request of `call`.
pub(super) fn render_body(call: &HttpCall, variables: &Variables) -> Result<BodyContent, TemplateError> {
    let mut text = String::new();
    match &call.body {
        BodyTemplate::Empty => {}
        BodyTemplate::Later => return Ok(BodyContent::Later),
        BodyTemplate::Json(json) => json.render(variables, &mut text)?,
        BodyTemplate::Form(pairs) => render_pairs(pairs, variables, &mut text)?,
        BodyTemplate::Text(body) => body.render(variables, &mut text)?,
        BodyTemplate::File(file) => return compressed(call, one_part(file.part.clone())),
        BodyTemplate::Messages(messages) => return messages.render(variables).map(BodyContent::from),
        BodyTemplate::Multipart(multipart) => {
            return compressed(call, render_multipart(multipart, variables)?);
        }
    }
    compressed(call, Bytes::from(text).into())
}

/// The content type that goes with a body.
pub(super) fn content_type(body: &BodyTemplate) -> Option<HeaderValue> {
    match body {
        BodyTemplate::Json(_) => Some(HeaderValue::from_static("application/json")),
        BodyTemplate::Form(_) => Some(HeaderValue::from_static("application/x-www-form-urlencoded")),
        BodyTemplate::File(file) => Some(file.content_type.clone()),
        BodyTemplate::Multipart(multipart) => {
            HeaderValue::from_str(&format!("multipart/form-data; boundary={}", multipart.boundary)).ok()
        }
        BodyTemplate::Empty | BodyTemplate::Text(_) | BodyTemplate::Messages(_) | BodyTemplate::Later => None,
    }
}

fn one_part(part: Part) -> BodyContent {
    match part {
        Part::Bytes(bytes) => bytes.into(),
        file => {
            let mut parts = Parts::default();
            parts.push(file);
            BodyContent::Parts(parts)
        }
    }
}

fn is_literal(multipart: &Multipart) -> bool {
    multipart.fields.iter().all(|field| match &field.content {
        FieldContent::Text(text) | FieldContent::File { filename: text, .. } => text.literal().is_some(),
    })
}

/// RFC 7578. All texts are in memory, and files are parts of their own.
fn render_multipart(multipart: &Multipart, variables: &Variables) -> Result<BodyContent, TemplateError> {
    let mut parts = Parts::default();
    let mut text = String::new();
    let boundary = &multipart.boundary;
    for field in &multipart.fields {
        // Writing to a string cannot fail.
        let _ = write!(text, "--{boundary}\r\nContent-Disposition: form-data; name=\"{}\"", field.name);
        match &field.content {
            FieldContent::Text(value) => {
                text.push_str("\r\n\r\n");
                value.render(variables, &mut text)?;
            }
            FieldContent::File { filename, file } => {
                let mut name = String::new();
                filename.render(variables, &mut name)?;
                let _ = write!(text, "; filename=\"{}\"\r\nContent-Type: ", escaped(&name));
                text.push_str(file.content_type.to_str().unwrap_or("application/octet-stream"));
                text.push_str("\r\n\r\n");
                parts.push(Part::Bytes(Bytes::from(std::mem::take(&mut text))));
                parts.push(file.part.clone());
            }
        }
        text.push_str("\r\n");
    }
    let _ = write!(text, "--{boundary}--\r\n");
    parts.push(Part::Bytes(Bytes::from(text)));
    Ok(parts.joined())
}

/// The body, compressed if the call says so.
fn compressed(call: &HttpCall, content: BodyContent) -> Result<BodyContent, TemplateError> {
    if !call.gzip || content.is_empty() {
        return Ok(content);
    }
    let failed = |error: std::io::Error| TemplateError(format!("the body cannot be compressed: {error}"));
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    match &content {
        BodyContent::Bytes(bytes) => encoder.write_all(bytes).map_err(failed)?,
        BodyContent::Parts(parts) => parts.write_to(&mut encoder).map_err(failed)?,
        BodyContent::Later => return Ok(content),
    }
    Ok(Bytes::from(encoder.finish().map_err(failed)?).into())
}
