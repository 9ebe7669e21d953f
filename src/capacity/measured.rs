//! What was measured of a load: when iterations were due, how long they took, and what the traced ones did.

use crate::ceiling::ServerCeiling;
use crate::program::Program;

/// An iteration of the load.
#[derive(Clone, Copy, Debug)]
pub struct LoadedIteration {
    /// When it was due, in microseconds.
    pub due_us: i64,
    /// From then to its end.
    pub response_us: i64,
    /// Whether it counts: not in the warm-up.
    pub counts: bool,
    /// Its place among the traced ones.
    pub traced: Option<usize>,
}

/// Why an iteration has a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChosenFor {
    /// For its number, or by chance.
    Chance,
    /// Its response time is typical.
    Typical,
    /// It is slow, or for another reason.
    Slowness,
}

/// A traced iteration.
#[derive(Clone, Debug)]
pub struct TracedIteration {
    pub due_us: i64,
    /// From then to its end.
    pub response_us: i64,
    pub chosen: ChosenFor,
    pub program: Program,
}

/// What was measured.
#[derive(Clone, Debug, Default)]
pub struct MeasuredLoad {
    /// In the order of their due times, without a gap.
    pub iterations: Vec<LoadedIteration>,
    pub traced: Vec<TracedIteration>,
    pub pools: Vec<ServerCeiling>,
    /// Whether iterations are due however slow others are.
    pub is_open: bool,
    /// Iterations with longer response times are slow: all of them have traces, or a random sample of them has.
    pub slow_from_us: i64,
}
