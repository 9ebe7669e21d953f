//! The part of the result model on functions: what slow iterations spend processor time in, and typical ones do not.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The functions of slow iterations compared with those of typical ones, in the points of the cause.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct ComparedFunctions {
    /// How many samples there are of slow iterations.
    pub slow_samples: u64,
    /// The same of typical ones.
    pub typical_samples: u64,
    /// The mean processor time in these functions of a slow iteration.
    pub slow_ms: f64,
    /// The same of a typical one.
    pub typical_ms: f64,
    /// True if these are all functions of the iterations, because the causes have none of their own.
    pub whole: bool,
    /// The function that explains the difference; absent if none does for certain, or there are too few samples.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<ComparedFunction>,
    /// The calls of both sides in depth-first order: what a flame graph of the difference draws.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tree: Vec<FunctionNode>,
}

/// A function, and how much of the difference it explains.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct ComparedFunction {
    /// Its name with its path.
    pub name: String,
    /// Its source file; empty if it is not known.
    pub file: String,
    /// The first line of it that was seen; 0 if it is not known.
    pub line: u32,
    /// How much longer it and what it called were at work, as a share of how much longer the causes took by
    /// themselves.
    pub share: f64,
    /// The share is at least this, with 95 % confidence.
    pub share_low: f64,
    /// The share is at most this, with 95 % confidence.
    pub share_high: f64,
    /// The mean processor time in it of a slow iteration.
    pub slow_ms: f64,
    /// The same of a typical one.
    pub typical_ms: f64,
}

/// A function where it is called from one place.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct FunctionNode {
    /// How many nodes are above it.
    pub depth: u32,
    /// Its name.
    pub name: String,
    /// The mean processor time in or below it of a slow iteration.
    pub slow_ms: f64,
    /// The same of a typical one.
    pub typical_ms: f64,
}
