//! The part of the result model on what virtual users do around their iterations.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Action, Counts, Distribution, ErrorClass};

/// What virtual users did before their first iterations (`user_setup`), or after their last ones (`user_teardown`). It is
/// part of no other figure.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
pub struct UserActivity {
    /// How often it ran: once for each user, and again after a failure.
    pub users: Counts,
    /// From its start to its end.
    pub service_time: Distribution,
    /// An entry for each of its actions.
    pub actions: Vec<Action>,
    /// Its faults, most frequent first. An iteration whose user could not be set up fails, too.
    pub errors: Vec<ErrorClass>,
}
