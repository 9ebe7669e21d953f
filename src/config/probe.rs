//! The part of a scenario on the probe: what runs before the load to see whether traces arrive, and what they cost.

use crate::notation::schema;
use schemars::{JsonSchema, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use text::digits;

/// The fewest pairs: with fewer, the cost has no bounds.
pub const PAIRS_MIN: u32 = 6;
/// The most pairs.
pub const PAIRS_MAX: u32 = 1_000;

/// Whether an iteration runs before the load, and how many pairs of iterations.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Probe {
    /// One iteration (true) or none (false).
    Switch(bool),
    /// One iteration, and then this many pairs.
    Pairs(u32),
}

/// A probe, and pairs of iterations with and without profiling.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
struct ProbePairs {
    /// How many pairs of iterations run before the load, one after another: one profiled, one not, in changing order.
    /// The difference is what profiling costs.
    #[schemars(range(min = 6, max = 1_000))]
    pairs: u32,
}

impl<'de> Deserialize<'de> for Probe {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        use serde::de::Error;
        match digits::rounded(deserializer)? {
            Value::Bool(on) => Ok(Self::Switch(on)),
            map @ Value::Object(_) => {
                ProbePairs::deserialize(map).map(|probe| Self::Pairs(probe.pairs)).map_err(D::Error::custom)
            }
            _ => Err(D::Error::custom("expected true, false or {pairs: 20}")),
        }
    }
}

impl Serialize for Probe {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match *self {
            Self::Switch(on) => on.serialize(serializer),
            Self::Pairs(pairs) => ProbePairs { pairs }.serialize(serializer),
        }
    }
}

schema!(Probe, "Probe", |generator| {
    let pairs = generator.subschema_for::<ProbePairs>();
    json_schema!({
        "description": "true, false, or {pairs: 20}.",
        "anyOf": [{ "type": "boolean" }, pairs]
    })
});
