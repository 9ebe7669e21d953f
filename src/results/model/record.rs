//! The part of the result model on whether everything that ran was recorded and read.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Whether the run log has all iterations that ran.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct Record {
    /// How the log was read.
    pub state: RecordState,
    /// Iterations that were read, including warm-up and dropped arrivals.
    pub rows: u64,
    /// How many there must be, according to the log's end; null if the log has no end, or was written by an earlier
    /// build.
    pub rows_expected: Option<u64>,
    /// Bytes of the log that could not be decoded.
    pub bytes_lost: u64,
    /// Iterations that were started and not recorded; null after a crash, and in logs of earlier builds.
    pub unrecorded: Option<u64>,
    /// Why the log could not be stored, although it was read; absent if it was stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unsaved: Option<String>,
    /// An entry for each workload, in the scenario's order.
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
    /// A part of it could not be decoded, or is missing.
    Damaged,
}

/// How the iterations of a workload add up, with the warm-up's. `issued` is the sum of `ok`, `failed`, `aborted` and
/// `unrecorded`. `planned`, where a number was planned, is the sum of `issued`, `dropped` and `not_started`.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct Tally {
    /// How many iterations were planned; absent if there was no number, and in logs of earlier builds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub planned: Option<u64>,
    /// How many were started, or waited for a virtual user when the run ended; null if unknown.
    pub issued: Option<u64>,
    /// Without fault, according to the log.
    pub ok: u64,
    /// With a fault, according to the log.
    pub failed: u64,
    /// Cut off by the end of the run, according to the log.
    pub aborted: u64,
    /// How many of those issued are not in the log; null if unknown.
    pub unrecorded: Option<u64>,
    /// How many were due but never started because the queue was full; null if unknown.
    pub dropped: Option<u64>,
    /// How many planned iterations the run did not reach; null if unknown, or if there was no number.
    pub not_started: Option<u64>,
}
