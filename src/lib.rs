//! `bench`: a load-test harness that profiles every iteration.

pub mod base;
pub mod config;
pub mod plan;
pub mod report;
pub mod results;
