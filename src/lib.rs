//! `bench`: a load-test harness that profiles every iteration.

pub mod analysis;
pub mod base;
pub mod cli;
pub mod client;
pub mod collect;
pub mod config;
pub mod demo;
pub mod iteration;
pub mod measure;
pub mod osprofiler;
pub mod plan;
pub mod report;
pub mod results;
pub mod runner;
pub mod verdict;
