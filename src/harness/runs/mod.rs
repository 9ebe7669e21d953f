//! The runs and comparisons in a directory: found, listed, named `latest`, opened and deleted.
//!
//! A directory is one of them if it has a run log, results, or a comparison of bench; nothing else is touched. Their
//! files are not trusted.

mod find;
mod list;
mod open;
mod prune;

pub(super) use find::newest_of_all;
pub use find::{DIRECTORY, named};
pub(super) use find::{logs_in, runs_in};
pub use list::list;
pub use open::{OpenedReport, open};
pub use prune::{PruneCandidate, PruneOptions, age, prune};

#[cfg(test)]
mod tests;
