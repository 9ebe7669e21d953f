//! The part of the result model on numbers that actions take from their answers.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::differences;

/// The numbers that a workload's actions took from their answers under one name (`measure`).
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct MeasuredNumbers {
    /// The name, such as `cart_total`.
    pub name: String,
    /// How many numbers there are.
    pub count: u64,
    /// How many answers had something else in the number's place, or nothing; not part of the count.
    #[serde(default, skip_serializing_if = "differences::is_zero")]
    pub without_number: u64,
    /// The smallest; absent without numbers, as are all others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min: Option<f64>,
    /// The arithmetic mean.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean: Option<f64>,
    /// The largest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<f64>,
    /// Percentiles, to 0.1 %. Whole numbers up to 2048 are exact.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub percentiles: Vec<NumberPercentile>,
}

/// A percentile of numbers.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct NumberPercentile {
    /// The percentile; 100 is the largest number.
    pub percentile: f64,
    /// The number.
    pub value: f64,
    /// An iteration with that number.
    pub trace_id: Uuid,
}
