//! The server's side of the headers: which requests may be traced.
//!
//! Accepts and rejects the same requests as OSProfiler's `WsgiMiddleware` 4.4.0, with three deliberate
//! differences, all for input that makes the Python service fail or never occurs. Input that would make
//! it answer HTTP 500 (an HMAC that is not ASCII, a base_id that is not a string) is rejected here. A
//! lone surrogate in an id is rejected, and header values are bounded. Nothing here may panic or take
//! time that depends on how much of a signature is right.

use std::fmt;

use serde_json::Value;
use thiserror::Error;
use uuid::Uuid;

use super::base64url;
use super::signing::Signer;
use base::hex;
use base::secret::Secret;

/// Header values longer than this (bytes) are rejected unread; a real one has 140.
pub const HEADER_LEN_MAX: usize = 8 * 1024;

const DIGEST_LEN: usize = 20;
const KNOWN_KEYS: [&str; 3] = ["base_id", "parent_id", "hmac_key"];

/// The keys of a service: a request signed with any of them is traced.
#[derive(Clone)]
pub struct ServerKeys {
    signers: Vec<Signer>,
}

/// The trace of a verified request.
#[derive(Clone, Debug)]
pub struct TraceContext {
    /// The trace: any text, as the client chose it (a fresh UUID if it sent an empty one).
    pub base_id: String,
    /// The client's point; base_id if the client sent none.
    pub parent_id: String,
    /// Signs onward requests with the key that the client used.
    pub signer: Signer,
}

/// Why a request is not traced. Never shown to the client, which gets a normal response.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Rejection {
    /// One of the headers is absent or empty.
    #[error("read the trace headers: one is missing or empty; send both X-Trace-Info and X-Trace-HMAC")]
    Missing,
    /// The service has no key.
    #[error("verify the trace headers: this service has no HMAC key; configure at least one")]
    NoKeys,
    /// A header is longer than [`HEADER_LEN_MAX`].
    #[error(
        "read the trace headers: a value of {len} bytes is over the limit of {HEADER_LEN_MAX}; use shorter ids"
    )]
    TooLong {
        /// Bytes of the longer header.
        len: usize,
    },
    /// A header contains bytes outside ASCII.
    #[error("read the trace headers: a value is not ASCII; send base64 and lowercase hex")]
    NotAscii,
    /// No key made this signature.
    #[error(
        "verify the trace headers: no key of this service made this signature; use one of its \
         keys, whole and in the same spelling, and write the HMAC as 40 lowercase hex digits"
    )]
    WrongSignature,
    /// The info is not base64.
    #[error("decode X-Trace-Info: it is not base64; keep its `=` padding")]
    NotBase64,
    /// The info is not a JSON object.
    #[error("decode X-Trace-Info: it is not a JSON object; send base_id and parent_id")]
    NotJsonObject,
    /// base_id is absent.
    #[error("decode X-Trace-Info: base_id is missing; send it, even if it is empty")]
    BaseIdMissing,
    /// A key that OSProfiler does not know, which makes it ignore the request.
    #[error("decode X-Trace-Info: it has a key besides base_id and parent_id; remove it")]
    UnknownKey,
    /// An id is neither text nor empty.
    #[error("decode X-Trace-Info: {key} is not a string; send a UUID as a string")]
    IdNotText {
        /// Which one.
        key: &'static str,
    },
}

impl ServerKeys {
    /// Reads keys in the format of OSProfiler's `hmac_keys` option: split at commas, blanks around
    /// each removed, empty ones left out.
    #[must_use]
    pub fn parse(keys: &str) -> Self {
        let signers = split(keys).filter_map(|key| Signer::new(&Secret::new(key))).collect();
        Self { signers }
    }

    /// Whether there are no keys. Then nothing can be traced.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.signers.is_empty()
    }

    /// The key that equals `key`, if there is one.
    pub(super) fn find(&self, key: &Signer) -> Option<&Signer> {
        self.signers.iter().find(|signer| signer.is_same(key))
    }

    /// Verifies the values of `X-Trace-Info` and `X-Trace-HMAC`.
    ///
    /// # Errors
    /// The reason why the request is not traced; no message contains the values themselves.
    pub fn verify(&self, trace_info: &[u8], trace_hmac: &[u8]) -> Result<TraceContext, Rejection> {
        let len = trace_info.len().max(trace_hmac.len());
        if len > HEADER_LEN_MAX {
            return Err(Rejection::TooLong { len });
        }
        let trace_hmac = strip(trace_hmac);
        if trace_info.is_empty() || trace_hmac.is_empty() {
            return Err(Rejection::Missing);
        }
        if self.signers.is_empty() {
            return Err(Rejection::NoKeys);
        }
        if !trace_info.is_ascii() || !trace_hmac.is_ascii() {
            return Err(Rejection::NotAscii);
        }
        // Lowercase digits only: OSProfiler compares the text.
        let digest = hex::decode_lower::<DIGEST_LEN>(trace_hmac).ok_or(Rejection::WrongSignature)?;
        let signer = self
            .signers
            .iter()
            .find(|signer| signer.verifies(trace_info, &digest))
            .ok_or(Rejection::WrongSignature)?;
        let json = base64url::decode_lenient(trace_info).ok_or(Rejection::NotBase64)?;
        let (base_id, parent_id) = ids_from_json(&json)?;
        Ok(TraceContext { base_id, parent_id, signer: signer.clone() })
    }
}

impl fmt::Debug for ServerKeys {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "ServerKeys({} keys)", self.signers.len())
    }
}

pub(super) fn split(keys: &str) -> impl Iterator<Item = &str> {
    keys.split(',').map(str::trim).filter(|key| !key.is_empty())
}

fn ids_from_json(json: &[u8]) -> Result<(String, String), Rejection> {
    // The input is bounded, and serde_json bounds the depth.
    let Ok(Value::Object(info)) = serde_json::from_slice(json) else {
        return Err(Rejection::NotJsonObject);
    };
    if !info.contains_key("base_id") {
        return Err(Rejection::BaseIdMissing);
    }
    if info.keys().any(|key| !KNOWN_KEYS.contains(&key.as_str())) {
        return Err(Rejection::UnknownKey);
    }
    let base_id = id(info.get("base_id"), "base_id")?.unwrap_or_else(|| Uuid::new_v4().to_string());
    let parent_id = id(info.get("parent_id"), "parent_id")?.unwrap_or_else(|| base_id.clone());
    Ok((base_id, parent_id))
}

/// `None` for what Python takes as false: OSProfiler then makes up the id.
pub(super) fn id(value: Option<&Value>, key: &'static str) -> Result<Option<String>, Rejection> {
    match value {
        None | Some(Value::Null | Value::Bool(false)) => Ok(None),
        Some(Value::String(text)) if text.is_empty() => Ok(None),
        Some(Value::Array(items)) if items.is_empty() => Ok(None),
        Some(Value::Object(entries)) if entries.is_empty() => Ok(None),
        Some(Value::Number(number)) if number.as_f64() == Some(0.0) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(_) => Err(Rejection::IdNotText { key }),
    }
}

/// Removes what Python's `str.strip` removes from a header value, which it reads as Latin-1.
fn strip(value: &[u8]) -> &[u8] {
    let is_blank = |byte: &u8| matches!(byte, 9..=13 | 28..=32 | 0x85 | 0xa0);
    let Some(start) = value.iter().position(|byte| !is_blank(byte)) else { return &[] };
    let end = value.iter().rposition(|byte| !is_blank(byte)).map_or(start, |last| last + 1);
    &value[start..end]
}
