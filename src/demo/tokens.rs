//! Self-contained tokens, `user.expiry.signature`, so that the demo stores none.
//!
//! They are valid in one run of the demo only; its key never leaves this file.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use uuid::Uuid;

use base::hex;

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
        let signature = digest.map(|digest| hex::encode(&digest)).unwrap_or_default();
        format!("{claim}.{signature}")
    }

    /// The user of a valid token, else `None`.
    pub(super) fn verify<'t>(&self, token: &'t str, now_unix_s: u64) -> Option<&'t str> {
        if token.len() > TOKEN_LEN_MAX {
            return None;
        }
        let (claim, signature) = token.rsplit_once('.')?;
        let digest = hex::decode_lower::<32>(signature.as_bytes())?;
        self.keyed.clone()?.chain_update(claim).verify_slice(&digest).ok()?;
        let (user_id, expires) = claim.split_once('.')?;
        (expires.parse::<u64>().ok()? > now_unix_s).then_some(user_id)
    }
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
