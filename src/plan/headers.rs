//! Headers in deployments and scenarios: which values are allowed, and which are secrets.

use base::complaint::Complaint;
use base::masking;

/// Whether a header's value in a file may be a secret: any value except a short one or one of a header that is always
/// public.
pub(super) fn holds_secret(name: &str, value: &str) -> bool {
    const PUBLIC: [&str; 25] = [
        "accept",
        "accept-charset",
        "accept-encoding",
        "accept-language",
        "cache-control",
        "connection",
        "content-encoding",
        "content-language",
        "content-type",
        "dnt",
        "expect",
        "host",
        "if-match",
        "if-modified-since",
        "if-none-match",
        "origin",
        "pragma",
        "prefer",
        "range",
        "referer",
        "sec-websocket-extensions",
        "te",
        "upgrade-insecure-requests",
        "user-agent",
        "x-requested-with",
    ];
    let public = || PUBLIC.iter().any(|public| name.eq_ignore_ascii_case(public));
    masking::names_secret(name) || is_long_enough_to_hide(value) && !public()
}

/// Whether a text in a file is long enough to hide. A short one, such as the demo's `demo`, is an ordinary word that
/// also occurs in reports.
pub(super) fn is_long_enough_to_hide(text: &str) -> bool {
    const BYTES_MIN: usize = 8;
    text.len() >= BYTES_MIN
}

/// Parses a header's name and value.
///
/// # Errors
/// The name or the value is not allowed in a header.
pub(super) fn header(name: &str, value: &str) -> Result<(http::HeaderName, http::HeaderValue), Complaint> {
    let parsed = name.parse().map_err(|_| {
        Complaint::new(format!("`{name}` is not a header name"), "use letters, digits and dashes only")
    })?;
    let value = value.parse().map_err(|_| {
        let what = format!("the value of `{name}` contains characters that are not allowed in a header");
        Complaint::new(what, "remove line breaks and control characters")
    })?;
    Ok((parsed, value))
}

/// Parses the name and the value of a header of requests. The value of a header with templates may be empty.
///
/// # Errors
/// As [`header`]; or `bench` writes this header itself. A second one, or another value, would make a server wait for a
/// body that never ends or answer in another protocol (RFC 9112, section 6.3; RFC 9110, section 7.8).
pub(super) fn request_header(
    name: &str,
    value: &str,
) -> Result<(http::HeaderName, http::HeaderValue), Complaint> {
    let parsed = header(name, value)?;
    let remedy = match parsed.0.as_str() {
        "content-length" => "remove it: bench computes it from the body",
        "transfer-encoding" => "remove it: bench sends a body with its length",
        "connection" if !["close", "keep-alive"].iter().any(|word| value.eq_ignore_ascii_case(word)) => {
            "write `close` or `keep-alive`, or remove it"
        }
        _ => return Ok(parsed),
    };
    let what = match parsed.0.as_str() {
        "connection" => format!("`{name}` cannot have this value: bench keeps its connections in HTTP"),
        _ => format!("`{name}` says where the request ends, which bench does itself"),
    };
    Err(Complaint::new(what, remedy))
}

/// As [`request_header`], for one of `lines` lines.
///
/// # Errors
/// As [`request_header`]; or the header can only be sent once.
pub(super) fn request_header_line(
    name: &str,
    value: &str,
    lines: usize,
) -> Result<(http::HeaderName, http::HeaderValue), Complaint> {
    let parsed = request_header(name, value)?;
    // A server must refuse a request with two of them (RFC 9112, section 3.2).
    if lines > 1 && matches!(parsed.0.as_str(), "host" | "connection") {
        return Err(Complaint::new(format!("`{name}` can only be sent once"), "give it one value"));
    }
    Ok(parsed)
}

/// True for a text without templates that is long enough to hide.
pub(super) fn is_written_secret(text: &str) -> bool {
    is_long_enough_to_hide(text) && !text.contains("{{")
}

/// Hides texts whose key in a JSON body has a name like a secret, in case a service sends them back.
pub(super) fn hide_secrets_of(json: &serde_json::Value) {
    match json {
        serde_json::Value::Array(items) => items.iter().for_each(hide_secrets_of),
        serde_json::Value::Object(map) => {
            for (name, value) in map {
                match value.as_str() {
                    Some(text) if masking::names_secret(name) && is_written_secret(text) => {
                        masking::hide(text)
                    }
                    _ => hide_secrets_of(value),
                }
            }
        }
        _ => {}
    }
}
