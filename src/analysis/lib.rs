//! Why slow iterations were slow. Nothing here may do I/O.

pub mod asynchronous;
pub mod attribution;
pub mod breakdown;
pub mod call_changes;
pub mod call_stats;
pub mod causes;
pub mod client_comparison;
pub mod client_features;
pub mod compared;
mod comparison;
pub mod contrast;
pub mod critical_path;
pub mod differences;
pub mod explained;
pub mod explanation;
pub mod feature;
mod features;
pub mod findings;
pub mod folding;
pub mod foreign;
mod functions;
pub mod late_causes;
pub mod late_work;
pub mod levels;
pub mod mean_tree;
pub mod moments;
mod numbers;
pub mod observer;
pub mod observer_pairs;
mod overall;
pub mod own_time;
pub mod places;
pub mod points;
pub mod polls;
mod proportion;
pub mod ranking;
pub mod skew;
mod some;
pub mod spread;
pub mod stall;
pub mod statement;
mod tails;
pub mod tree_diff;
mod usual;
pub mod weighted;
mod whole_calls;
pub mod wholes;

#[cfg(test)]
mod busy_machine;
#[cfg(test)]
mod lost_spans;
#[cfg(test)]
mod sample_trees;
#[cfg(test)]
mod series;
#[cfg(test)]
mod simulation;
#[cfg(test)]
mod standstill;
#[cfg(test)]
mod tests;
