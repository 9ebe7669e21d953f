//! Filters for hashes, Base64 and URLs.

use base64::Engine as _;
use base64::engine::general_purpose::{GeneralPurpose, STANDARD, URL_SAFE_NO_PAD};
use hmac::{Hmac, KeyInit as _, Mac as _};
use md5::Md5;
use minijinja::{Error, Value};
use sha1::Sha1;
use sha2::{Digest, Sha256, Sha512};

use base::hex;

use super::allowance::{self, invalid};

const ALGORITHMS: &str = "md5, sha1, sha256 or sha512";

/// The hexadecimal digest of a text.
pub(super) fn hash(text: &str, algorithm: &str) -> Result<String, Error> {
    Ok(match algorithm {
        "md5" => hex::encode(&Md5::digest(text)),
        "sha1" => hex::encode(&Sha1::digest(text)),
        "sha256" => hex::encode(&Sha256::digest(text)),
        "sha512" => hex::encode(&Sha512::digest(text)),
        _ => return Err(invalid(format!("hash: `{algorithm}` is not one of {ALGORITHMS}"))),
    })
}

pub(super) fn sha256(text: &str) -> Result<String, Error> {
    hash(text, "sha256")
}

pub(super) fn md5(text: &str) -> Result<String, Error> {
    hash(text, "md5")
}

/// The hexadecimal HMAC of a text.
pub(super) fn hmac(text: &str, key: &str, algorithm: Option<&str>) -> Result<String, Error> {
    macro_rules! digest {
        ($hash:ty) => {{
            let mac = Hmac::<$hash>::new_from_slice(key.as_bytes());
            let mut mac = mac.map_err(|error| invalid(error.to_string()))?;
            mac.update(text.as_bytes());
            hex::encode(&mac.finalize().into_bytes())
        }};
    }
    Ok(match algorithm.unwrap_or("sha256") {
        "sha1" => digest!(Sha1),
        "sha256" => digest!(Sha256),
        "sha512" => digest!(Sha512),
        other => return Err(invalid(format!("hmac: `{other}` is not one of sha1, sha256 or sha512"))),
    })
}

fn variant(url_safe: Option<bool>) -> GeneralPurpose {
    if url_safe == Some(true) { URL_SAFE_NO_PAD } else { STANDARD }
}

pub(super) fn base64encode(text: &str, url_safe: Option<bool>) -> Result<String, Error> {
    allowance::charge_text(text.len() as u64 * 2)?;
    Ok(variant(url_safe).encode(text))
}

pub(super) fn base64decode(text: &str, url_safe: Option<bool>) -> Result<String, Error> {
    let bytes = variant(url_safe).decode(text).map_err(|error| invalid(format!("base64decode: {error}")))?;
    String::from_utf8(bytes).map_err(|_| invalid("base64decode: the result is not text"))
}

/// Escapes everything but letters, digits and `-_.~/`, as Jinja2 does.
pub(super) fn urlencode(value: &Value) -> Result<String, Error> {
    if let Some(text) = value.as_str() {
        return percent_encoded(text, b"-_.~/");
    }
    let mut query = String::new();
    for pair in value.try_iter()? {
        let texts: Vec<Value> = pair.try_iter()?.collect();
        let [name, value] = texts.as_slice() else {
            return Err(invalid("urlencode needs a text, a map, or a list of pairs"));
        };
        if !query.is_empty() {
            query.push('&');
        }
        // In a query, a blank is a plus.
        let part = |value: &Value| percent_encoded(value.as_str().unwrap_or_default(), b"-_.~ ");
        query.push_str(&part(name)?.replace(' ', "+"));
        query.push('=');
        query.push_str(&part(value)?.replace(' ', "+"));
    }
    Ok(query)
}

/// `kept` are the characters besides letters and digits that stay.
fn percent_encoded(text: &str, kept: &[u8]) -> Result<String, Error> {
    use std::fmt::Write as _;
    allowance::charge_text(text.len() as u64 * 3)?;
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            _ if byte.is_ascii_alphanumeric() || kept.contains(&byte) => escaped.push(char::from(byte)),
            _ => write!(escaped, "%{byte:02X}").map_err(|error| invalid(error.to_string()))?,
        }
    }
    Ok(escaped)
}
