//! Rank 7: the versioned result model and the run directory.
//!
//! Everything here can be built again from the run log. Nothing here prints.

pub mod columns;
pub mod model;

pub use columns::IterationColumns;
