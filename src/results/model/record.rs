//! The part of the result model that says whether all that ran was recorded and read back.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Whether the run log holds all that ran.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct Record {
    /// How the log was read.
    pub state: RecordState,
    /// Iterations that were read, those of the warm-up and dropped arrivals with them.
    pub rows: u64,
    /// How many there must be, as the log's end says; null where it has none, or was written by an earlier build.
    pub rows_expected: Option<u64>,
    /// Bytes of the log that could not be understood.
    pub bytes_lost: u64,
    /// Iterations that were started and not recorded; null after a crash, and in logs of earlier builds.
    pub unrecorded: Option<u64>,
    /// Why the log could not be kept, although it was read; absent when it was kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unsaved: Option<String>,
    /// One entry for each workload, in the scenario's order.
    pub tallies: Vec<Tally>,
}

/// How a run log was read.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RecordState {
    /// From its beginning to its end.
    #[default]
    Complete,
    /// It has no end: bench was killed, or could not write it.
    Cut,
    /// Something in it could not be understood, or is missing.
    Damaged,
}

/// How the iterations of a workload add up, those of the warm-up with them: `issued` is the sum of `ok`, `failed`,
/// `aborted` and `unrecorded`; `planned`, where a number was planned, the sum of `issued`, `dropped` and
/// `not_started`.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct Tally {
    /// How many iterations there were to be; absent where none were planned, and in logs of earlier builds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub planned: Option<u64>,
    /// How many were started, or waited for a virtual user when the run ended; null where that is unknown.
    pub issued: Option<u64>,
    /// Without fault, as the log holds them.
    pub ok: u64,
    /// With a fault, as the log holds them.
    pub failed: u64,
    /// Cut off by the end of the run, as the log holds them.
    pub aborted: u64,
    /// How many of those issued are not in the log; null where that is unknown.
    pub unrecorded: Option<u64>,
    /// How many were due and never started because the queue was full; null where that is unknown.
    pub dropped: Option<u64>,
    /// How many the run did not come to; null where that is unknown or none were planned.
    pub not_started: Option<u64>,
}
