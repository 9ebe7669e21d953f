//! A load under way, at a moment: what the screen and the page show.

use serde::Serialize;
use uuid::Uuid;

use base::clock::Nanos;
use verdict::standing::CriterionStanding;

/// A run under way.
#[derive(Clone, Debug, Default, Serialize)]
pub struct LiveSnapshot {
    /// The scenario's title.
    pub title: String,
    /// The deployment's name.
    pub deployment: String,
    /// Which part of a load of several processes this is; empty for the whole load of one.
    pub part: String,
    /// One for each workload, in the order of the plan.
    pub loads: Vec<LoadSnapshot>,
    /// Why slow iterations are slow, so far, where spans are received.
    pub cause: Option<CauseSnapshot>,
    /// Where spans are received, what has come.
    pub receiving: Option<ReceptionSnapshot>,
}

/// What the report would say of slow iterations if the load had ended at this time.
#[derive(Clone, Debug, Default, Serialize)]
pub struct CauseSnapshot {
    /// At most ten words.
    pub headline: String,
    pub sentence: String,
    /// False where nothing stands out so far.
    pub is_named: bool,
    /// Of how many iterations, and with how many traces.
    pub iterations: u64,
    pub traces: u64,
    /// When it was looked for, since the load began.
    pub at_ns: Nanos,
}

/// What a receiver of spans has got.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct ReceptionSnapshot {
    /// Traces that are kept, and their spans.
    pub kept_traces: u64,
    pub kept_spans: u64,
}

/// Whether a workload runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LoadState {
    /// It begins later.
    #[default]
    Waiting,
    Running,
    Ended,
}

/// A workload under way.
#[derive(Clone, Debug, Default, Serialize)]
pub struct LoadSnapshot {
    pub name: String,
    pub state: LoadState,
    /// Since its start.
    pub elapsed_ns: Nanos,
    /// The planned number of iterations, if that bounds it.
    pub times: Option<u64>,
    /// The planned duration, if that bounds it.
    pub duration_ns: Option<Nanos>,
    /// All that have ended, including the warm-up.
    pub ended: u64,
    pub warm_up: u64,
    pub failed: u64,
    pub dropped: u64,
    pub under_way: u64,
    /// Arrivals that wait for a virtual user.
    pub queued: u64,
    /// What the plan asks for now.
    pub asked: AskedLoad,
    /// Ended per second, over the last two seconds.
    pub served_per_s: f64,
    /// Response times of the measured part; `None` where a percentile falls among those without a time.
    pub p50_ns: Option<Nanos>,
    pub p95_ns: Option<Nanos>,
    pub p99_ns: Option<Nanos>,
    pub max_ns: Nanos,
    /// What was wanted over time: the iterations, or one of their steps.
    pub series: SeriesSnapshot,
    pub steps: Vec<StepSnapshot>,
    pub errors: Vec<ErrorSnapshot>,
    pub slowest: Vec<SlowIteration>,
    pub criteria: Vec<CriterionStanding>,
}

/// What a plan asks for at a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AskedLoad {
    #[default]
    Nothing,
    /// Arrivals per second.
    PerSecond(f64),
    /// Virtual users.
    Users(u32),
}

/// A load over time.
#[derive(Clone, Debug, Default, Serialize)]
pub struct SeriesSnapshot {
    /// The length of a column.
    pub column_ns: Nanos,
    pub columns: Vec<ColumnSnapshot>,
}

/// What happened in the time of a column.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ColumnSnapshot {
    pub asked_per_s: Option<f64>,
    pub served_per_s: f64,
    pub failed_per_s: f64,
    pub under_way: u64,
    pub queued: u64,
    pub p50_ns: Option<Nanos>,
    pub p95_ns: Option<Nanos>,
    pub p99_ns: Option<Nanos>,
    /// Successful response times by row of the heat map ([`super::counts::row_of`]), ascending.
    pub rows: Vec<(u16, u32)>,
    /// True if part of it belongs to the warm-up.
    pub warm_up: bool,
}

/// A step of the iterations.
#[derive(Clone, Debug, Default, Serialize)]
pub struct StepSnapshot {
    pub name: String,
    pub count: u64,
    pub failed: u64,
    pub p50_ns: Option<Nanos>,
    pub p95_ns: Option<Nanos>,
    pub p99_ns: Option<Nanos>,
    pub max_ns: Nanos,
}

/// Iterations that failed for the same reason.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ErrorSnapshot {
    /// The class of the fault.
    pub class: String,
    pub count: u64,
    /// The step and the message of the first one.
    pub example: String,
    /// The trace id of the last one.
    pub trace_id: Uuid,
}

/// One of the slowest iterations.
#[derive(Clone, Debug, Default, Serialize)]
pub struct SlowIteration {
    pub trace_id: Uuid,
    pub response_ns: Nanos,
    /// Of that, from due to start.
    pub queue_ns: Nanos,
    /// When it ended, since the workload's start.
    pub at_ns: Nanos,
    pub failed: bool,
    /// The step that took longest, and how long.
    pub longest_step: Option<(String, Nanos)>,
    /// How many spans of its trace have come; `None` if nobody receives them, or if it is not kept.
    pub spans: Option<u32>,
}
