//! The part of the result model on answers that came as streams.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Distribution, differences};

/// What came as streams in answer to an action's requests, of those that were not cut off.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
pub struct StreamedAnswers {
    /// How many streams.
    pub streams: u64,
    /// How many of them had no message. As a first message, each counts as later than any in thresholds.
    #[serde(default, skip_serializing_if = "differences::is_zero")]
    pub without_message: u64,
    /// How many messages (events, lines, chunks) they had.
    pub messages: u64,
    /// Messages per second of the workload's duration.
    pub messages_per_s: f64,
    /// How many tokens a language model said that it made; absent if it was not asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// Tokens per second of the workload's duration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens_per_s: Option<f64>,
    /// From sending the request to the first message.
    pub first: Distribution,
    /// Between messages, to 0.4 %.
    pub gap: Distribution,
}
