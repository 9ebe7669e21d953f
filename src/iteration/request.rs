//! From a compiled action and the iteration's variables to a request.

use bytes::Bytes;
use http::HeaderMap;
use http::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use uuid::Uuid;

use crate::base::template::{TemplateError, Text, Variables};
use crate::client::url::{push_escaped_path, push_query_value};
use crate::osprofiler::signing::{TraceHeaders, traceparent};
use crate::plan::action::{Action, Body};

use super::Context;

const X_TRACE_INFO: HeaderName = HeaderName::from_static("x-trace-info");
const X_TRACE_HMAC: HeaderName = HeaderName::from_static("x-trace-hmac");
const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// Appends path and query of `action`.
pub(super) fn render_path(
    action: &Action,
    variables: &Variables,
    output: &mut String,
) -> Result<(), TemplateError> {
    output.push_str(&action.base.prefix);
    match action.path.literal() {
        Some(path) => push_escaped_path(path, output),
        None => {
            let mut path = String::new();
            action.path.render(variables, &mut path)?;
            push_escaped_path(&path, output);
        }
    }
    if output.is_empty() || output.starts_with('?') {
        output.insert(0, '/');
    }
    if !action.query.is_empty() {
        output.push(if output.contains('?') { '&' } else { '?' });
        render_pairs(&action.query, variables, output)?;
    }
    Ok(())
}

fn render_pairs(
    pairs: &[(String, Text)],
    variables: &Variables,
    output: &mut String,
) -> Result<(), TemplateError> {
    let mut value = String::new();
    for (index, (name, text)) in pairs.iter().enumerate() {
        if index > 0 {
            output.push('&');
        }
        push_query_value(name, output);
        output.push('=');
        value.clear();
        text.render(variables, &mut value)?;
        push_query_value(&value, output);
    }
    Ok(())
}

/// The body of `action`, and the content type that goes with it.
pub(super) fn render_body(
    action: &Action,
    variables: &Variables,
) -> Result<(Bytes, Option<HeaderValue>), TemplateError> {
    let mut text = String::new();
    let content_type = match &action.body {
        Body::Empty => return Ok((Bytes::new(), None)),
        Body::Json(json) => {
            json.render(variables, &mut text)?;
            Some(HeaderValue::from_static("application/json"))
        }
        Body::Form(pairs) => {
            render_pairs(pairs, variables, &mut text)?;
            Some(HeaderValue::from_static("application/x-www-form-urlencoded"))
        }
        Body::Text(body) => {
            body.render(variables, &mut text)?;
            None
        }
    };
    Ok((Bytes::from(text), content_type))
}

/// The headers of `action`: the deployment's (to its own targets), the credentials, the content type, the action's own,
/// the trace's; a later one wins.
pub(super) fn render_headers(
    context: &Context,
    action: &Action,
    variables: &Variables,
    content_type: Option<HeaderValue>,
) -> Result<HeaderMap, TemplateError> {
    let mut headers = if action.signed { context.headers.clone() } else { context.foreign_headers.clone() };
    if let Some(content_type) = content_type {
        headers.insert(CONTENT_TYPE, content_type);
    }
    if action.authorised
        && let Some((name, value)) = context.credentials.header()
    {
        headers.insert(name, value);
    }
    let mut text = String::new();
    for (name, value) in &action.headers {
        text.clear();
        value.render(variables, &mut text)?;
        let value = HeaderValue::from_str(&text).map_err(|_| {
            TemplateError(format!("the value of the header {name} holds characters that no header may hold"))
        })?;
        headers.insert(name.clone(), value);
    }
    Ok(headers)
}

/// Adds OSProfiler's signed headers and W3C's traceparent, which name the same trace.
pub(super) fn add_trace_headers(
    headers: &mut HeaderMap,
    signed: &TraceHeaders,
    base_id: Uuid,
    point_id: Uuid,
) {
    let parent = traceparent(base_id, point_id);
    for (name, value) in
        [(X_TRACE_INFO, signed.trace_info()), (X_TRACE_HMAC, signed.hmac()), (TRACEPARENT, parent.as_str())]
    {
        // Base64, hexadecimal and dashes: always a valid header value.
        if let Ok(value) = HeaderValue::from_str(value) {
            headers.insert(name, value);
        }
    }
}
