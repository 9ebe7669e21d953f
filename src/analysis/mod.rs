//! Rank 8: why the slow iterations were slow. Nothing here may do I/O.

pub mod call_stats;
pub mod culprit;
pub mod findings;
pub mod ranking;
pub mod statement;

#[cfg(test)]
mod tests;
