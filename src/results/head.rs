//! The results of a run without its iterations: what a list of runs needs, read without the largest part of the file.
//!
//! `iterations` is the last key of a `results.json` ([`super::json`]); reading ends there, or passes it.

use std::fmt;
use std::io::{self, BufReader, Read as _};
use std::path::Path;

use serde::de::{Deserializer as _, IgnoredAny, MapAccess, Visitor};
use serde_json::{Map, Value};

use super::model::{FORMAT, Results, VERSION};
use text::files::open_regular;

/// The largest part of a file that is read.
const BYTES_MAX: u64 = 32 << 20;

/// Reads the results; what is wrong with the file in words otherwise.
///
/// # Errors
/// No file, no results of bench, or another version of them.
pub fn read(path: &Path) -> Result<Results, String> {
    let file = open_regular(path).map_err(|error| error.to_string())?;
    let all =
        keys(BufReader::new(file.take(BYTES_MAX)), Iterations::Unread).map_err(|error| error.to_string())?;
    if all.get("format").and_then(Value::as_str) != Some(FORMAT) {
        return Err("it does not contain results of bench".to_owned());
    }
    match all.get("version").and_then(Value::as_u64) {
        Some(version) if version == u64::from(VERSION) => {}
        _ => return Err("its results have another version".to_owned()),
    }
    results(all).map_err(|error| error.to_string())
}

/// What is done about the list of iterations, and what follows it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Iterations {
    /// Reading ends there.
    Unread,
    /// They are read, so that a file that is cut off is noticed, but not kept.
    Passed,
}

/// All keys of an object but `iterations`.
pub(super) fn keys(
    json: impl io::Read,
    iterations: Iterations,
) -> Result<Map<String, Value>, serde_json::Error> {
    let mut keys = Keys { all: Map::new(), iterations, is_over: false };
    let mut json = serde_json::Deserializer::from_reader(json);
    let ended = json.deserialize_map(&mut keys).and_then(|()| json.end());
    // What follows the key is not read, and that is no fault.
    if keys.is_over { Ok(keys.all) } else { ended.map(|()| keys.all) }
}

/// The results that these keys are. All results are read by way of this: reading each type from a file and from a value
/// would be compiled twice.
pub(super) fn results(keys: Map<String, Value>) -> Result<Results, serde_json::Error> {
    serde_json::from_value(Value::Object(keys))
}

struct Keys {
    all: Map<String, Value>,
    iterations: Iterations,
    is_over: bool,
}

impl<'de> Visitor<'de> for &mut Keys {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<(), M::Error> {
        while let Some(key) = map.next_key::<String>()? {
            if key == "iterations" {
                if self.iterations == Iterations::Unread {
                    self.is_over = true;
                    return Ok(());
                }
                map.next_value::<IgnoredAny>()?;
                continue;
            }
            self.all.insert(key, map.next_value()?);
        }
        Ok(())
    }
}
