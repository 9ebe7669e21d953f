//! Records as OSProfiler before 2.8.0 stored them: each under `osprofiler:<base>_<trace>_<timestamp>`.
//!
//! Only a walk of the keyspace finds such keys, and no current version writes them. So a trace is read
//! from its list, and old keys are looked for only if there is no list. One bounded walk for each
//! connection finds out whether there are any at all. Only if so, a walk for each such trace follows.
//! With `?legacy=true` old keys are looked for in any case: a trace may be in both places if its
//! services are of different releases.

use std::collections::BTreeSet;

use super::super::{DriverError, TRACE_BYTES_MAX, TRACE_RECORDS_MAX};
use super::RedisCollector;

pub(super) const PREFIX: &str = "osprofiler:";
/// Steps of a walk: a million keys.
pub(super) const STEPS_MAX: usize = 1_000;
const CUT: &str = "it has no list of this trace; OSProfiler before 2.8.0 stored records under keys of \
    their own, but redis contains too many keys to search: only about the first million were searched";
/// Values for each answer.
const PAGE_LEN: usize = 200;

/// What a connection knows about old keys; at first nothing.
#[derive(Default)]
pub(super) struct Knowledge {
    walked: Option<KeyWalkOutcome>,
}

/// What a walk for any old key came to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum KeyWalkOutcome {
    Found,
    NoneThere,
    /// None among the keys that were looked at, which are not all.
    NoneSeen,
}

impl RedisCollector {
    /// The old-style records of a trace as JSON, oldest first. It is an error if there are none and not
    /// all keys could be looked at, unless the trace has a list.
    pub(super) async fn legacy_records(
        &self,
        base_id: &str,
        has_list: bool,
    ) -> Result<Vec<Vec<u8>>, DriverError> {
        let (keys, is_cut) = match self.legacy_walk().await? {
            KeyWalkOutcome::Found => self.legacy_keys(base_id).await?,
            walked => (Vec::new(), walked == KeyWalkOutcome::NoneSeen),
        };
        if keys.is_empty() && is_cut && !has_list {
            // It may work later, for a list may still come.
            return Err(self.failed("read from", CUT.into()));
        }
        self.values(base_id, &keys).await
    }

    /// The old keys of a trace, oldest first, and whether keys were left out.
    async fn legacy_keys(&self, base_id: &str) -> Result<(Vec<Vec<u8>>, bool), DriverError> {
        let pattern = format!("{PREFIX}{}_*", escaped(base_id));
        let mut keys = BTreeSet::new();
        let mut cursor = 0;
        for _ in 0..STEPS_MAX {
            let (next, found) = self.scan(cursor, &pattern).await?;
            // The pattern fits the keys of a trace whose id goes on after this one, too.
            let own = found.into_iter().filter_map(|key| {
                let parsed = LegacyKey::parse(&key)?;
                (parsed.base_id == base_id).then(|| (parsed.timestamp.to_owned(), key.clone()))
            });
            keys.extend(own);
            if keys.len() > TRACE_RECORDS_MAX {
                return Err(self.too_large(base_id));
            }
            cursor = next;
            if cursor == 0 {
                break;
            }
        }
        Ok((keys.into_iter().map(|(_, key)| key).collect(), cursor != 0))
    }

    async fn values(&self, base_id: &str, keys: &[Vec<u8>]) -> Result<Vec<Vec<u8>>, DriverError> {
        let mut records = Vec::with_capacity(keys.len());
        let mut bytes = 0;
        for page in keys.chunks(PAGE_LEN) {
            if self.lengths(page).await? > TRACE_BYTES_MAX as u64 {
                return Err(self.too_large(base_id));
            }
            let mut get = redis::cmd("MGET");
            page.iter().for_each(|key| {
                get.arg(key);
            });
            // A key that is not a string, or has been deleted, has no value.
            for json in self.ask::<Vec<Option<Vec<u8>>>>(&get).await?.into_iter().flatten() {
                bytes += json.len();
                if bytes > TRACE_BYTES_MAX {
                    return Err(self.too_large(base_id));
                }
                records.push(json);
            }
        }
        Ok(records)
    }

    /// The bytes under these keys, so that a huge value is refused before it is in memory.
    async fn lengths(&self, keys: &[Vec<u8>]) -> Result<u64, DriverError> {
        let mut lengths = redis::pipe();
        lengths.ignore_errors();
        for key in keys {
            lengths.cmd("STRLEN").arg(key);
        }
        let lengths: Vec<redis::RedisResult<u64>> = self.send("read from", &lengths).await?;
        Ok(lengths.into_iter().flatten().fold(0, u64::saturating_add))
    }

    /// Whether there are old keys, found out once.
    async fn legacy_walk(&self) -> Result<KeyWalkOutcome, DriverError> {
        // Held during the walk: others wait for its answer instead of walking too.
        let mut knowledge = self.shared.legacy.lock().await;
        if let Some(walked) = knowledge.walked {
            return Ok(walked);
        }
        let pattern = format!("{PREFIX}*_*");
        let (mut cursor, mut found) = (0, false);
        for _ in 0..STEPS_MAX {
            let (next, keys) = self.scan(cursor, &pattern).await?;
            found = keys.iter().any(|key| LegacyKey::parse(key).is_some());
            cursor = next;
            if found || cursor == 0 {
                break;
            }
        }
        let walked = match (found, cursor) {
            (true, _) => KeyWalkOutcome::Found,
            (false, 0) => KeyWalkOutcome::NoneThere,
            (false, _) => KeyWalkOutcome::NoneSeen,
        };
        knowledge.walked = Some(walked);
        Ok(walked)
    }
}

/// The parts of an old key.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct LegacyKey<'a> {
    pub(super) base_id: &'a str,
    pub(super) timestamp: &'a str,
}

impl<'a> LegacyKey<'a> {
    /// `None` if it is not such a key.
    pub(super) fn parse(key: &'a [u8]) -> Option<Self> {
        let rest = std::str::from_utf8(key).ok()?.strip_prefix(PREFIX)?;
        let (ids, timestamp) = rest.rsplit_once('_')?;
        let (base_id, trace_id) = ids.rsplit_once('_')?;
        let complete = !base_id.is_empty() && !trace_id.is_empty() && timestamp.contains('T');
        complete.then_some(Self { base_id, timestamp })
    }
}

/// `text` as a pattern of redis that fits nothing else.
fn escaped(text: &str) -> String {
    let mut pattern = String::with_capacity(text.len());
    for character in text.chars() {
        if matches!(character, '*' | '?' | '[' | ']' | '^' | '-' | '\\') {
            pattern.push('\\');
        }
        pattern.push(character);
    }
    pattern
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn keys_are_taken_apart_and_patterns_escaped() {
        let key = LegacyKey::parse(b"osprofiler:a_b_c-d_2016-04-18T17:42:10.77").unwrap();
        assert_eq!((key.base_id, key.timestamp), ("a_b", "2016-04-18T17:42:10.77"));
        for other in
            ["osprofiler:", "osprofiler:a_b", "osprofiler_opt:a_b_T", "osprofiler:__T", "osprofiler:a_b_c"]
        {
            assert_eq!(LegacyKey::parse(other.as_bytes()), None, "{other}");
        }
        assert_eq!(escaped("a*b?[c]\\-^é"), "a\\*b\\?\\[c\\]\\\\\\-\\^é");
    }

    proptest! {
        #[test]
        fn no_key_makes_it_panic(key: Vec<u8>, text in "osprofiler:.{0,30}") {
            let _ = LegacyKey::parse(&key);
            let _ = LegacyKey::parse(text.as_bytes());
        }
    }
}
