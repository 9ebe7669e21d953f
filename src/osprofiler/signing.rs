//! The headers that carry a trace: `X-Trace-Info`, `X-Trace-HMAC` and W3C's `traceparent`.
//!
//! Info is URL-safe padded base64 of `{"base_id": "…", "parent_id": "…"}` exactly as Python's
//! `json.dumps` writes it; the HMAC is SHA-1 in lowercase hex over the base64 text (observed on
//! OSProfiler 4.4.0). Signing happens on the load generator's hot path: with UUIDs it may neither
//! allocate nor lock. Keys must never be shown; they are stored because OpenStack's services pass it on
//! to each other in their messages ([`super::rpc`]).

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use hmac::{Hmac, KeyInit, Mac};
use sha1::{Digest, Sha1, block_api};
use uuid::Uuid;

use super::base64url;
use base::hex;
use base::ids::span_id;
use base::secret::Secret;

/// The header that carries base_id and parent_id.
pub const X_TRACE_INFO: &str = "X-Trace-Info";
/// The header that carries the signature over [`X_TRACE_INFO`].
pub const X_TRACE_HMAC: &str = "X-Trace-HMAC";

const UUID_LEN: usize = 36;
const OPENING: &[u8] = br#"{"base_id": ""#;
const MIDDLE: &[u8] = br#"", "parent_id": ""#;
const CLOSING: &[u8] = br#""}"#;
const JSON_LEN: usize = OPENING.len() + UUID_LEN + MIDDLE.len() + UUID_LEN + CLOSING.len();
const INFO_LEN: usize = base64url::encoded_len(JSON_LEN);
const HMAC_LEN: usize = 40;

/// How much of the JSON depends on base_id only. It is a multiple of three, so that its base64 text
/// is independent of what follows.
const FIXED_JSON_LEN: usize = OPENING.len() + UUID_LEN + MIDDLE.len();
const FIXED_INFO_LEN: usize = base64url::encoded_len(FIXED_JSON_LEN);
/// The input block of SHA-1: the part of the fixed text that can be hashed in advance.
const BLOCK_LEN: usize = 64;
const _: () = assert!(FIXED_JSON_LEN.is_multiple_of(3) && FIXED_INFO_LEN >= BLOCK_LEN);

/// The bytes of the JSON, in whole threes, that base_id is in: the text of the others is the same in every trace.
const BASE_FROM: usize = OPENING.len() / 3 * 3;
const BASE_UNTIL: usize = (OPENING.len() + UUID_LEN).next_multiple_of(3);
/// Where base_id is in the JSON.
const BASE_TEXT: Range<usize> = OPENING.len()..OPENING.len() + UUID_LEN;
const _: () = assert!(UUID_LEN.is_multiple_of(3));
/// The blocks of the text behind the first one, with SHA-1's padding.
const TAIL_LEN: usize = (INFO_LEN - BLOCK_LEN + 1 + 8).next_multiple_of(BLOCK_LEN);

/// The state of SHA-1 between two blocks.
type Midstate = [u32; 5];
const SHA1_START: Midstate = [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476, 0xc3d2_e1f0];

/// Signs with one HMAC key. Cloning is cheap.
#[derive(Clone)]
pub struct Signer {
    keyed: Hmac<Sha1>,
    /// Where the two hashes of an HMAC (RFC 2104) begin with this key, for texts whose length is known.
    inner: Midstate,
    outer: Midstate,
    /// The text for ids of zeros.
    template: [u8; INFO_LEN],
    key: Arc<Secret>,
}

impl Signer {
    /// A signer for `key`; `None` for an empty one, for which OSProfiler sends no headers.
    ///
    /// A client's key is used as it is, commas included; only servers split theirs.
    #[must_use]
    pub fn new(key: &Secret) -> Option<Self> {
        if key.expose().is_empty() {
            return None;
        }
        // HMAC takes keys of every length, so this never fails.
        let keyed = Hmac::new_from_slice(key.expose().as_bytes()).ok()?;
        let mut block = [0; BLOCK_LEN];
        match key.expose().as_bytes() {
            long if long.len() > BLOCK_LEN => block[..HMAC_LEN / 2].copy_from_slice(&Sha1::digest(long)),
            short => block[..short.len()].copy_from_slice(short),
        }
        let begin = |pad: u8| {
            let mut state = SHA1_START;
            block_api::compress(&mut state, &[block.map(|byte| byte ^ pad)]);
            state
        };
        let mut json = [b'0'; JSON_LEN];
        json[..OPENING.len()].copy_from_slice(OPENING);
        json[BASE_TEXT.end..][..MIDDLE.len()].copy_from_slice(MIDDLE);
        json[JSON_LEN - CLOSING.len()..].copy_from_slice(CLOSING);
        let mut template = [0; INFO_LEN];
        base64url::encode_into(&json, &mut template);
        Some(Self { keyed, inner: begin(0x36), outer: begin(0x5c), template, key: Arc::new(key.clone()) })
    }

    pub(super) fn key(&self) -> &Secret {
        &self.key
    }

    /// Whether both have the same key. Compares their signatures of one text, in constant time.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        let signature: [u8; HMAC_LEN / 2] = self.keyed.clone().finalize().into_bytes().into();
        other.verifies(b"", &signature)
    }

    /// A signer for all points of one trace: hashes once what only depends on `base_id`.
    #[must_use]
    pub fn for_base(&self, base_id: Uuid) -> BaseSigner {
        let mut json = [0; BASE_UNTIL - BASE_FROM];
        json[..BASE_TEXT.start - BASE_FROM].copy_from_slice(&OPENING[BASE_FROM..]);
        base_id.hyphenated().encode_lower(&mut json[BASE_TEXT.start - BASE_FROM..][..UUID_LEN]);
        json[BASE_TEXT.end - BASE_FROM..].copy_from_slice(&MIDDLE[..BASE_UNTIL - BASE_TEXT.end]);
        let mut info = self.template;
        let place = base64url::encoded_len(BASE_FROM)..base64url::encoded_len(BASE_UNTIL);
        base64url::encode_into(&json, &mut info[place]);
        let mut hashed = self.inner;
        if let Some(block) = info.first_chunk() {
            block_api::compress(&mut hashed, &[*block]);
        }
        BaseSigner { hashed, outer: self.outer, info, base_id }
    }

    /// The header values (info, HMAC) for ids of any form, for instance of another program's trace.
    #[must_use]
    pub fn sign_text(&self, base_id: &str, parent_id: &str) -> (String, String) {
        let mut json = String::with_capacity(JSON_LEN);
        json.push_str("{\"base_id\": ");
        push_json_string(&mut json, base_id);
        json.push_str(", \"parent_id\": ");
        push_json_string(&mut json, parent_id);
        json.push('}');
        let info = base64url::encode(json.as_bytes());
        let mut hmac = self.keyed.clone();
        hmac.update(info.as_bytes());
        let hmac = text(&hex::digits::<20, HMAC_LEN>(&hmac.finalize().into_bytes().into())).to_owned();
        (info, hmac)
    }

    /// Whether `hmac` is this key's signature over `info`, in constant time.
    pub(super) fn verifies(&self, info: &[u8], hmac: &[u8; HMAC_LEN / 2]) -> bool {
        let mut keyed = self.keyed.clone();
        keyed.update(info);
        keyed.verify_slice(hmac).is_ok()
    }
}

impl fmt::Debug for Signer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Signer(***)")
    }
}

/// Signs for the points of one trace; see [`Signer::for_base`].
#[derive(Clone)]
pub struct BaseSigner {
    /// The inner hash, after the first block of the text.
    hashed: Midstate,
    outer: Midstate,
    /// The text, but for parent_id.
    info: [u8; INFO_LEN],
    base_id: Uuid,
}

impl BaseSigner {
    /// The trace that is signed for.
    #[must_use]
    pub fn base_id(&self) -> Uuid {
        self.base_id
    }

    /// The headers that make the receiver's points children of `parent_id`. Allocates nothing.
    #[must_use]
    pub fn sign(&self, parent_id: Uuid) -> TraceHeaders {
        let mut json = [0; UUID_LEN];
        parent_id.hyphenated().encode_lower(&mut json);
        let mut info = self.info;
        base64url::encode_into(&json, &mut info[FIXED_INFO_LEN..][..base64url::encoded_len(UUID_LEN)]);
        let mut tail = [0; TAIL_LEN];
        tail[..INFO_LEN - BLOCK_LEN].copy_from_slice(&info[BLOCK_LEN..]);
        let mut hashed = self.hashed;
        pad(&mut tail, INFO_LEN - BLOCK_LEN, BLOCK_LEN + INFO_LEN);
        block_api::compress(&mut hashed, tail.as_chunks().0);
        let mut last = [0; BLOCK_LEN];
        last[..HMAC_LEN / 2].copy_from_slice(&bytes_of(&hashed));
        pad(&mut last, HMAC_LEN / 2, BLOCK_LEN + HMAC_LEN / 2);
        let mut signature = self.outer;
        block_api::compress(&mut signature, &[last]);
        TraceHeaders { info, hmac: hex::digits(&bytes_of(&signature)) }
    }
}

/// Ends a message of `hashed_len` bytes as SHA-1 does (RFC 3174). Its last blocks are here, up to `end`.
fn pad(blocks: &mut [u8], end: usize, hashed_len: usize) {
    blocks[end] = 0x80;
    if let Some(length) = blocks.last_chunk_mut() {
        *length = (hashed_len as u64 * 8).to_be_bytes();
    }
}

/// The digest that a state stands for.
fn bytes_of(state: &Midstate) -> [u8; HMAC_LEN / 2] {
    let mut bytes = [0; HMAC_LEN / 2];
    for (four, word) in bytes.as_chunks_mut::<4>().0.iter_mut().zip(state) {
        *four = word.to_be_bytes();
    }
    bytes
}

impl fmt::Debug for BaseSigner {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "BaseSigner({}, ***)", self.base_id)
    }
}

/// The values of the two headers of one signed request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceHeaders {
    info: [u8; INFO_LEN],
    hmac: [u8; HMAC_LEN],
}

impl TraceHeaders {
    /// The value of [`X_TRACE_INFO`].
    #[must_use]
    pub fn trace_info(&self) -> &str {
        text(&self.info)
    }

    /// The values of [`X_TRACE_INFO`] and [`X_TRACE_HMAC`] as they are sent: ASCII without control
    /// characters.
    #[must_use]
    pub fn as_bytes(&self) -> (&[u8; INFO_LEN], &[u8; HMAC_LEN]) {
        (&self.info, &self.hmac)
    }

    /// The value of [`X_TRACE_HMAC`].
    #[must_use]
    pub fn hmac(&self) -> &str {
        text(&self.hmac)
    }
}

/// The value of W3C's `traceparent` header; see [`traceparent`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Traceparent([u8; 55]);

impl Traceparent {
    /// The same without the sampled flag: services keep the ids and record nothing.
    #[must_use]
    pub fn unsampled(mut self) -> Self {
        self.0[54] = b'0';
        self
    }

    /// The header's value.
    #[must_use]
    pub fn as_str(&self) -> &str {
        text(&self.0)
    }

    /// The header's value as it is sent: ASCII without control characters.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; 55] {
        &self.0
    }
}

/// The W3C Trace Context (version 00, sampled) of the same trace and point, for services that speak
/// OpenTelemetry. The trace id is the whole base_id, the span id the low 64 bits of `point_id`.
#[must_use]
pub fn traceparent(base_id: Uuid, point_id: Uuid) -> Traceparent {
    let mut value = *b"00-00000000000000000000000000000000-0000000000000000-01";
    base_id.simple().encode_lower(&mut value[3..35]);
    value[36..52].copy_from_slice(&hex::digits::<8, 16>(&span_id(point_id).to_be_bytes()));
    Traceparent(value)
}

/// The bytes are ASCII by construction, so the fallback never shows.
fn text(ascii: &[u8]) -> &str {
    std::str::from_utf8(ascii).unwrap_or_default()
}

/// Appends a JSON string as Python's `json.dumps` writes it: ASCII only.
fn push_json_string(json: &mut String, value: &str) {
    json.push('"');
    for character in value.chars() {
        match character {
            '"' => json.push_str("\\\""),
            '\\' => json.push_str("\\\\"),
            '\n' => json.push_str("\\n"),
            '\r' => json.push_str("\\r"),
            '\t' => json.push_str("\\t"),
            '\u{8}' => json.push_str("\\b"),
            '\u{c}' => json.push_str("\\f"),
            ' '..='~' => json.push(character),
            _ => {
                for unit in character.encode_utf16(&mut [0; 2]) {
                    json.push_str("\\u");
                    json.push_str(text(&hex::digits::<2, 4>(&unit.to_be_bytes())));
                }
            }
        }
    }
    json.push('"');
}
