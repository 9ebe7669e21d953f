//! Numbers that JSON cannot hold: what is not finite is written as null, and read back here.

use serde::{Deserialize as _, Deserializer};

/// A number that is infinite where it is null.
///
/// # Errors
/// The value is neither a number nor null.
pub fn infinite<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    Ok(Option::<f64>::deserialize(deserializer)?.unwrap_or(f64::INFINITY))
}

/// A number that is unknown where it is null: no comparison with it holds.
///
/// # Errors
/// The value is neither a number nor null.
pub fn unknown<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    Ok(Option::<f64>::deserialize(deserializer)?.unwrap_or(f64::NAN))
}
