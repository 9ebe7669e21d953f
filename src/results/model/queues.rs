//! Calls that wait for their turn, as iterations in a row show them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Workload;

/// Waiting for less than this share of the time is not what makes iterations slow.
const MUCH: f64 = 0.2;

/// Calls of one name that wait for servers: the connections of a pool, workers, a lock.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct CallQueue {
    /// The project and service that reports the calls.
    pub service: String,
    /// The same of those that call; `bench` for the client.
    #[serde(default)]
    pub caller: String,
    /// Their name, such as `db`.
    pub name: String,
    /// True if these are the points at which requests enter the service.
    #[serde(default)]
    pub enters: bool,
    /// How many calls the service works on at once while others wait.
    pub servers: u32,
    /// How much of their time the servers were busy, from 0 to 1.
    pub busy: f64,
    /// How long an iteration waits for them, on average.
    pub waits_ms: f64,
    /// How long a call takes once it has begun, on average.
    pub works_ms: f64,
    /// The share of the waiting in the time of the iterations, from 0 to 1.
    pub share: f64,
    /// How many iterations in a row this was seen in.
    pub iterations: u64,
}

impl Workload {
    /// The queue in which slow iterations lose the time that the named cause says: before the calls of its service, or before
    /// their requests enter one.
    #[must_use]
    pub fn queue_of_cause(&self) -> Option<&CallQueue> {
        let kinds = &self.comparison.as_ref()?.kinds;
        let cause = kinds.iter().find(|kind| kind.is_cause)?;
        let fits = |queue: &&CallQueue| match queue.enters {
            true => cause.outside || cause.service == queue.caller,
            false => !cause.outside && cause.service == queue.caller,
        };
        self.queues.iter().filter(|queue| queue.share >= MUCH).find(fits)
    }
}
