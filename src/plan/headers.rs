//! Headers as deployments and scenarios write them: what may stand in one, and what of it is a secret.

use crate::base::complaint::Complaint;
use crate::base::masking;

/// Whether the value that is written for a header may be a secret: any but a short one, or that of a header which only
/// says how the two sides talk.
pub(super) fn holds_secret(name: &str, value: &str) -> bool {
    const PUBLIC: [&str; 24] = [
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
        "te",
        "upgrade-insecure-requests",
        "user-agent",
        "x-requested-with",
    ];
    let public = || PUBLIC.iter().any(|public| name.eq_ignore_ascii_case(public));
    masking::names_secret(name) || is_long_enough_to_hide(value) && !public()
}

/// Whether a text that stands in the file itself is worth hiding: a short one, such as the demo's `demo`, is an
/// ordinary word that reports have too.
pub(super) fn is_long_enough_to_hide(text: &str) -> bool {
    const BYTES_MIN: usize = 8;
    text.len() >= BYTES_MIN
}

/// A header's name and value.
///
/// # Errors
/// What may not stand in a header.
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
