//! `bench`: a load-test harness that profiles every iteration.

pub mod base;
pub mod client;
pub mod config;
pub mod demo;
pub mod measure;
pub mod osprofiler;
pub mod plan;
pub mod report;
pub mod results;
