//! The part of the result model on load that was asked for, and load that was served.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The load that a workload asked for and the load that was served.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[schemars(rename = "Offered")]
pub struct OfferedLoad {
    /// Iterations per second that were due, without the warm-up; absent where virtual users set the pace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked_per_s: Option<f64>,
    /// Iterations per second that ended, without the warm-up. Where iterations are due at a rate, it is taken between
    /// the first and the last end, to compare with `asked_per_s`; else from the first start to the last end.
    pub served_per_s: f64,
    /// The most iterations that may run at the same time: `concurrency`, or `max_concurrency`; absent where only the
    /// machine limits it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub users_max: Option<u32>,
    /// The most virtual users that were seen busy at the end of an interval.
    pub busy_max: u64,
    /// The most iterations that were seen waiting for a virtual user at the end of an interval.
    pub queued_max: u64,
    /// True if iterations waited, or were dropped, because all virtual users were busy.
    pub all_busy: bool,
    /// Both over time; absent if nothing was due.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub series: Option<LoadSeries>,
}

/// What TCP had to repeat for requests that took 200 ms or longer, without the warm-up. Linux counts it (`tcp_info`); on
/// other systems only `connections_given_up` is known.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Network {
    /// Connections for which the kernel had to ask the service again (SYN): its queue of connections was full, or packets
    /// were lost.
    pub late_connections: u64,
    /// The shortest time that these took, in milliseconds.
    pub late_connection_ms_min: f64,
    /// The longest.
    pub late_connection_ms_max: f64,
    /// Requests that were given up, 0.9 s or longer after they began, while their connection had no answer.
    pub connections_given_up: u64,
    /// Requests during which segments to the service were sent again.
    pub requests_with_segments_resent: u64,
    /// Answers with segments that came although one before them was missing.
    pub answers_out_of_order: u64,
}

/// Load over time, with that of the warm-up; each list has an entry for each interval.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct LoadSeries {
    /// Offset of the first interval from the run's start, in seconds.
    pub start_s: f64,
    /// The length of an interval, in seconds.
    pub step_s: f64,
    /// How many iterations were due in each interval.
    pub due: Vec<u64>,
    /// How many of those were dropped.
    pub dropped: Vec<u64>,
    /// How many iterations started in each interval.
    pub started: Vec<u64>,
    /// How many ended.
    pub ended: Vec<u64>,
    /// Virtual users that were busy at the end of each interval.
    pub busy: Vec<u64>,
    /// Iterations that were due and had not started at the end of each interval.
    pub queued: Vec<u64>,
    /// The mean queue time of the iterations that started in each interval; 0 if none started, empty in results that
    /// were written before it was known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub queue_time_mean_ms: Vec<f64>,
    /// The longest queue time of an iteration that started in each interval; 0 if none started.
    pub queue_time_max_ms: Vec<f64>,
    /// Iterations that are planned to be due per second, in the middle of each interval; empty where virtual users set
    /// the pace.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub planned_per_s: Vec<f64>,
    /// Virtual users that are planned in the middle of each interval; empty where arrivals are planned.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub planned_users: Vec<f64>,
}
