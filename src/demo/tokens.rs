//! Self-contained tokens, `user.expiry.signature`, so that the demo stores none.
//!
//! They are valid in one run of the demo only; its key never leaves this file.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use uuid::Uuid;

/// The validity of a token, in seconds.
pub(super) const VALID_FOR_S: u64 = 3_600;

/// A longer text is not one of these tokens.
const TOKEN_LEN_MAX: usize = 256;

/// Issues and verifies tokens.
#[derive(Clone)]
pub(super) struct Tokens {
    keyed: Option<Hmac<Sha256>>,
}

impl Tokens {
    /// Tokens with a random key.
    pub(super) fn random() -> Self {
        let mut key = [0; 32];
        key[..16].copy_from_slice(Uuid::new_v4().as_bytes());
        key[16..].copy_from_slice(Uuid::new_v4().as_bytes());
        // HMAC accepts keys of any length. Without a key, every token would be refused.
        Self { keyed: Hmac::new_from_slice(&key).ok() }
    }

    /// A token for `user_id`, which must not contain a full stop.
    pub(super) fn issue(&self, user_id: &str, expires_unix_s: u64) -> String {
        let claim = format!("{user_id}.{expires_unix_s}");
        let digest = self.keyed.clone().map(|keyed| keyed.chain_update(&claim).finalize().into_bytes());
        let hex: String = digest.into_iter().flatten().flat_map(hex_digits).collect();
        format!("{claim}.{hex}")
    }

    /// The user of a valid token, else `None`.
    pub(super) fn verify<'t>(&self, token: &'t str, now_unix_s: u64) -> Option<&'t str> {
        if token.len() > TOKEN_LEN_MAX {
            return None;
        }
        let (claim, signature) = token.rsplit_once('.')?;
        let digest = bytes_from_hex(signature)?;
        self.keyed.clone()?.chain_update(claim).verify_slice(&digest).ok()?;
        let (user_id, expires) = claim.split_once('.')?;
        (expires.parse::<u64>().ok()? > now_unix_s).then_some(user_id)
    }
}

fn hex_digits(byte: u8) -> [char; 2] {
    let digit = |value: u8| char::from_digit(u32::from(value), 16).unwrap_or('0');
    [digit(byte >> 4), digit(byte & 15)]
}

fn bytes_from_hex(hex: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let pairs = hex.as_bytes().chunks(2);
    pairs.map(|pair| Some((digit(*pair.first()?)? << 4) | digit(*pair.get(1)?)?)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_unchanged_unexpired_tokens_of_this_run_are_valid() {
        let tokens = Tokens::random();
        let token = tokens.issue("user-7", 100);
        assert_eq!(tokens.verify(&token, 99), Some("user-7"));
        assert_eq!(tokens.verify(&token, 100), None);
        assert_eq!(Tokens::random().verify(&token, 99), None);
        let cut = &token[..token.len() - 2];
        for bad in [
            "",
            ".",
            "..",
            "user-7.100.",
            "user-7.100.é",
            cut,
            &token.replace("user-7", "admin"),
            &"x".repeat(300),
        ] {
            assert_eq!(tokens.verify(bad, 0), None, "{bad}");
        }
    }
}
