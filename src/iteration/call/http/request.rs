//! Builds a request from a compiled call and the iteration's variables.

use http::header::HeaderName;
use uuid::Uuid;

use client::headers::HeaderBlock;
use client::url::{Origin, push_escaped_path, push_query_value, rendered_whole};
use osprofiler::signing::{TraceHeaders, traceparent};
use plan::call::http::HttpCall;
use plan::propagation::Propagation;
use text::template::{CompiledText, TemplateError, Variables};

static X_TRACE_INFO: HeaderName = HeaderName::from_static("x-trace-info");
static X_TRACE_HMAC: HeaderName = HeaderName::from_static("x-trace-hmac");
static TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
static TRACESTATE: HeaderName = HeaderName::from_static("tracestate");
static BAGGAGE: HeaderName = HeaderName::from_static("baggage");

/// Appends path and query of `call` to the base URL's path `prefix`. If the rendered path is a whole URL, returns its
/// origin.
pub(super) fn render_path(
    call: &HttpCall,
    prefix: &str,
    variables: &Variables,
    output: &mut String,
) -> Result<Option<Origin>, TemplateError> {
    let mut rendered = String::new();
    let path = match call.path.literal() {
        Some(path) => path,
        None => {
            call.path.render(variables, &mut rendered)?;
            &rendered
        }
    };
    let whole = if call.may_be_whole { rendered_whole(path).map_err(TemplateError)? } else { None };
    let whole = match whole {
        Some((origin, path)) => {
            output.push_str(&path);
            Some(origin)
        }
        None if path.is_empty() || path.starts_with(['/', '?']) => {
            output.push_str(prefix);
            push_escaped_path(path, output);
            start_with_slash(output);
            None
        }
        // After the host's name it would become a part of that name.
        None => {
            let message =
                "the rendered text is neither a path nor a URL: it must begin with /, http:// or https://";
            return Err(TemplateError(message.to_owned()));
        }
    };
    if !call.query.is_empty() {
        output.push(if output.contains('?') { '&' } else { '?' });
        render_pairs(&call.query, variables, output)?;
    }
    Ok(whole)
}

/// An empty path is sent as `/`.
pub(super) fn start_with_slash(path: &mut String) {
    if path.is_empty() || path.starts_with('?') {
        path.insert(0, '/');
    }
}

/// Appends the parameters of a query or a form.
pub(super) fn render_pairs(
    pairs: &[(String, CompiledText)],
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

/// Appends the call's headers that have templates, without those that `carrying` replaces.
#[inline]
pub(super) fn render_headers(
    call: &HttpCall,
    variables: &Variables,
    carrying: Propagation,
    output: &mut HeaderBlock,
) -> Result<(), TemplateError> {
    for (name, value) in
        call.headers.iter().filter(|(name, value)| value.literal().is_none() || call.changes(name))
    {
        if is_trace_header(name, carrying) {
            continue;
        }
        let mut text = String::new();
        value.render(variables, &mut text)?;
        output.push(name, text.as_bytes()).map_err(|_| invalid_header(name))?;
    }
    Ok(())
}

/// Appends OSProfiler's signed headers.
#[inline]
pub(super) fn add_signed_headers(output: &mut HeaderBlock, signed: &TraceHeaders) {
    let (info, hmac) = signed.as_bytes();
    output.push_valid(&X_TRACE_INFO, info);
    output.push_valid(&X_TRACE_HMAC, hmac);
}

/// Appends W3C's headers, which name the same trace and point as OSProfiler's.
#[inline]
pub(super) fn add_w3c_headers(
    output: &mut HeaderBlock,
    carrying: Propagation,
    (trace, point): (Uuid, Uuid),
    number: u64,
    sampled: bool,
) {
    if carrying.w3c {
        let value = traceparent(trace, point);
        let value = if sampled { value } else { value.unsampled() };
        output.push_valid(&TRACEPARENT, value.as_bytes());
    }
    if carrying.tracestate {
        output.push_valid(&TRACESTATE, format!("bench={number}").as_bytes());
    }
    if carrying.baggage {
        output.push_valid(&BAGGAGE, format!("bench.iteration={number}").as_bytes());
    }
}

/// True for the headers that carry a trace, if any are sent: a scenario's headers would name another trace.
#[inline]
pub(super) fn is_trace_header(name: &HeaderName, carrying: Propagation) -> bool {
    carrying.traces() && [&X_TRACE_INFO, &X_TRACE_HMAC, &TRACEPARENT, &TRACESTATE].contains(&name)
        || carrying.baggage && name == BAGGAGE
}

pub(super) fn invalid_header(name: &HeaderName) -> TemplateError {
    TemplateError(format!(
        "the value of the header {name} contains characters that are not allowed in a header"
    ))
}
