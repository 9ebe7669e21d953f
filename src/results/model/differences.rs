//! The part of the result model on what traces of slow iterations have and traces of typical ones lack.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Attributes that slow iterations have more often than typical ones, anywhere in their traces.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Differences {
    /// How many slow traces were compared.
    pub slow: u64,
    /// How many typical ones.
    pub typical: u64,
    /// How many sets of values that go together were tested.
    pub tested: u64,
    /// What slow iterations have more often, largest difference first.
    pub found: Vec<AttributeDifference>,
    /// How many further differences were found.
    #[serde(default)]
    pub more: u64,
    /// How many attributes were not compared because they have too many values, such as ids.
    #[serde(default)]
    pub left_out: u64,
}

/// A value of an attribute that slow iterations have more often.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct AttributeDifference {
    /// The value.
    #[serde(flatten)]
    pub value: AttributeValue,
    /// The share of slow iterations that have it, 0 to 1.
    pub slow_share: f64,
    /// The same share of typical iterations.
    pub typical_share: f64,
    /// The difference of the shares is at least this, with 95 % confidence.
    pub low: f64,
    /// The difference of the shares is at most this, with 95 % confidence.
    pub high: f64,
    /// The probability of such a difference by chance, adjusted for the number of tests.
    pub chance: f64,
    /// For a bound of a number, how closely the number goes with the time that the traces take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub correlation: Option<Correlation>,
    /// Further values that the same iterations have.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub same: Vec<AttributeValue>,
    /// How many more of these there are.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub same_more: u64,
}

/// Spearman's rank correlation of a number with the time that the compared traces take, -1 to 1: slow and typical ones, and
/// none between them.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Correlation {
    /// The coefficient.
    pub rho: f64,
    /// It is at least this, with 95 % confidence.
    pub low: f64,
    /// It is at most this, with 95 % confidence.
    pub high: f64,
}

/// A value of an attribute.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, Ord, PartialEq, PartialOrd, Serialize)]
pub struct AttributeValue {
    /// An attribute of a span, of its resource or of one of its events; `point` for the point itself, `service`, `host`
    /// or `error`; `client.address`, `client.row` and the like for what the client knows.
    pub attribute: String,
    /// The value as text.
    pub value: String,
    /// The point that has it, if nearly every trace has the value at some point; for values of the client, the action,
    /// and for `client.row`, the name of the data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub point: Option<String>,
}

pub(super) fn is_zero<T: Default + PartialEq>(count: &T) -> bool {
    *count == T::default()
}
