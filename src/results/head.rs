//! The results of a run without its iterations: what a list of runs needs, read without the largest part of the file.
//!
//! `iterations` is the last key of a `results.json` ([`super::json`]); reading ends there.

use std::fmt;
use std::io::{BufReader, Read as _};
use std::path::Path;

use serde::de::{Deserializer as _, MapAccess, Visitor};
use serde_json::{Map, Value};

use super::model::{FORMAT, Results, VERSION};
use crate::base::files::open_regular;

/// The largest part of a file that is read.
const BYTES_MAX: u64 = 32 << 20;

/// Reads the results; what is wrong with the file in words otherwise.
///
/// # Errors
/// No file, no results of bench, or another version of them.
pub fn read(path: &Path) -> Result<Results, String> {
    let file = open_regular(path).map_err(|error| error.to_string())?;
    let mut keys = Keys::default();
    let mut json = serde_json::Deserializer::from_reader(BufReader::new(file.take(BYTES_MAX)));
    let ended = json.deserialize_map(&mut keys);
    // What follows the key is not read, and that is no fault.
    if let (Err(error), false) = (ended, keys.is_over) {
        return Err(error.to_string());
    }
    if keys.all.get("format").and_then(Value::as_str) != Some(FORMAT) {
        return Err("it does not contain results of bench".to_owned());
    }
    match keys.all.get("version").and_then(Value::as_u64) {
        Some(version) if version == u64::from(VERSION) => {}
        _ => return Err("its results have another version".to_owned()),
    }
    serde_json::from_value(Value::Object(keys.all)).map_err(|error| error.to_string())
}

#[derive(Default)]
struct Keys {
    all: Map<String, Value>,
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
                self.is_over = true;
                return Ok(());
            }
            self.all.insert(key, map.next_value()?);
        }
        Ok(())
    }
}
