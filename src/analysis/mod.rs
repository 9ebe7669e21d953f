//! Rank 8: why slow iterations were slow. Nothing here may do I/O.

pub mod attribution;
pub mod breakdown;
pub mod call_stats;
pub mod causes;
pub mod contrast;
pub mod critical_path;
pub mod culprit;
pub mod explained;
pub mod findings;
pub mod mean_tree;
pub mod observer;
pub mod points;
pub mod ranking;
pub mod skew;
pub mod statement;

#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;
