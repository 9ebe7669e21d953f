//! The part of the result model on single iterations: what made each slow one slow.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// What an explanation rests on.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, Hash, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Basis {
    /// The kind of point whose own time on the critical path is most above its mean in typical iterations.
    Difference,
    /// The kind of point with the most own time, because there are too few typical traces to compare with, or the trace
    /// is incomplete.
    #[default]
    OwnTime,
}

/// Where the time of a cause was spent.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, Hash, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// In a trace point: a service's, or a phase of the client's request.
    #[default]
    Point,
    /// Before the iteration started, although it was due.
    QueueTime,
    /// During a request, while no service had a point open: the network, a queue before the service, or a service that
    /// is not traced.
    Outside,
}

/// Where the own time of a point lies that made the difference: a point's own time is not its duration, unless nothing is
/// below it.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum OwnTime {
    /// There are no points below: own time is duration.
    Alone,
    /// Before the first point below.
    Before,
    /// Between points below.
    Between,
    /// After the last point below.
    After,
    /// In several of these places.
    Around,
}

/// Why an iteration was slow.
///
/// `own_ms` is a part of `response_ms`. By difference, `longer_ms` is `own_ms - typical_ms`, `excess_ms` is
/// `response_ms - typical_response_ms`, and the share is `longer_ms` of `excess_ms`, at most 1: other points may have
/// taken shorter than in typical iterations.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Explanation {
    /// The iteration's trace id.
    pub trace_id: Uuid,
    /// The index of its workload.
    pub workload: u16,
    /// What it rests on.
    pub basis: Basis,
    /// Where the time was spent.
    pub place: Place,
    /// The project and service that reported the point; `bench` for the client's own points.
    pub service: String,
    /// The point's name.
    pub name: String,
    /// What it did, without literals and ids.
    pub detail: String,
    /// Name and detail of the point around it.
    pub parent: String,
    /// The host that reported the longest of these points; empty if unknown.
    pub host: String,
    /// The names of the points above the longest of them, outermost first.
    pub path: Vec<String>,
    /// The id of the longest of them in the trace; absent for the time outside all points of an incomplete trace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub point_id: Option<String>,
    /// The time of these points on the critical path, without their children.
    pub own_ms: f64,
    /// The mean of this time in typical iterations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub typical_ms: Option<f64>,
    /// How much longer it took here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub longer_ms: Option<f64>,
    /// Where that lies in these points; absent in results of earlier builds, and without a comparison.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own_time: Option<OwnTime>,
    /// The response time of this iteration: queue time and service time.
    pub response_ms: f64,
    /// The mean response time of typical iterations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub typical_response_ms: Option<f64>,
    /// How much longer this iteration took than typical ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub excess_ms: Option<f64>,
    /// `longer_ms` as a share of `excess_ms`, 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share_of_excess: Option<f64>,
    /// How many of these points the trace has.
    pub calls: u64,
    /// Their mean number in typical iterations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub typical_calls: Option<f64>,
    /// Whether this explains the iteration: at least half of all that took longer, or a fifth if the comparison of slow with typical
    /// iterations names this kind. Otherwise it is only the largest of several parts.
    pub explains: bool,
    /// Whether the comparison of slow with typical iterations names this kind.
    pub is_headline: bool,
}

impl Explanation {
    /// `own_ms` as a share of the response time, 0 to 1.
    #[must_use]
    pub fn share_of_response(&self) -> f64 {
        if self.response_ms > 0.0 { (self.own_ms / self.response_ms).clamp(0.0, 1.0) } else { 0.0 }
    }
}
