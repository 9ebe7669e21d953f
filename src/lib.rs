//! `bench`: a load-test harness that profiles every iteration.

pub mod base;
pub mod osprofiler;
pub mod report;
pub mod results;
