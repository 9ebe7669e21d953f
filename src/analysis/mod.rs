//! Rank 8: why slow iterations were slow. Pure functions of traces; no I/O.

pub mod culprit;
pub mod findings;
