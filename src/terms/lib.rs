//! What a run is asked for, as values: the load, whose rows it takes, and how good the results must be.
//!
//! The crate `plan` makes them from the scenario, the run log keeps them, and verdicts are given by them. Nothing here
//! knows of steps or of HTTP, or reads a file.

pub mod allocation;
pub mod control;
pub mod groups;
mod order;
pub mod poisson;
pub mod runner;
pub mod shape;
pub mod sla;
pub mod tags;
pub mod threshold;
