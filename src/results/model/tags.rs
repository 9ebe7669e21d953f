//! Figures of the actions with a tag.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Counts, Distribution};

/// The requests of all actions of a workload that have a tag with this value. Groups have no requests of their own.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[schemars(rename = "Tagged")]
pub struct TaggedRequests {
    /// The name of the tag, such as `team`.
    pub tag: String,
    /// Its value, such as `identity`.
    pub value: String,
    /// How the requests ended, and the polls of actions that poll.
    pub requests: Counts,
    /// From send to the last byte of the answer.
    pub service_time: Distribution,
    /// From when it was due to the last byte: the service time plus how late its iteration had started.
    pub response_time: Distribution,
}
