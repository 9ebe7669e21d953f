//! The versioned result model and the run directory.
//!
//! Everything here can be built again from the run log. Nothing here prints.

pub mod aggregate;
pub mod batched;
pub mod build;
pub mod candidates;
pub mod choice;
pub mod client_points;
pub mod columns;
pub mod counting;
pub mod directory;
pub mod distributions;
pub mod due_times;
pub mod export;
pub mod fetched;
pub mod find;
pub mod functions;
pub mod head;
pub mod histogram;
pub mod json;
mod json_rows;
pub mod largest;
pub mod listed;
pub mod load;
pub mod model;
pub mod network;
pub mod nullable;
mod numbers;
pub mod phase_times;
mod rally_sums;
pub mod record;
pub mod request_figures;
pub mod rpc;
pub mod selection;
pub mod series;
mod slice;
pub mod stored;
pub mod strata;
mod streams;
mod tags;
mod tasks;
#[cfg(test)]
mod tests;
pub mod trace;

pub use columns::IterationColumns;
pub use rally_sums::RallySums;
