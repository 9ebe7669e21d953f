//! Rank 9: what people and programs read: HTML, terminal, and metrics while the load runs.
//!
//! Functions of results and a writer. Nothing here computes a statistic, and nothing prints by
//! itself: the caller hands in the writer.

pub mod annotations;
pub mod badge;
pub mod html;
pub mod junit;
pub mod metrics;
pub mod terminal;
pub mod trace;
pub mod words;
