//! OSProfiler in Rust, with OSProfiler's own vocabulary and byte-identical headers.
//!
//! A load generator signs requests ([`signing`]) under a fresh [`profiler::Profiler`]; a service
//! verifies them ([`web`]) and reports its trace points ([`trace::Trace`], [`notifier`]) to a
//! collector ([`driver`]); whoever wants to know what happened reads the records back and builds
//! the tree ([`report`]). Any Rust service may use this room on its own.
//!
//! Nothing here may know of load tests, scenarios or results, and nothing may make an observed
//! request wait for the collector or fail because of it.

pub mod compat;
pub mod driver;
pub mod notifier;
pub mod profile_log;
pub mod profiler;
pub mod record;
pub mod report;
pub mod signing;
pub mod spans;
pub mod trace;
pub mod verifying;
pub mod web;

mod base64url;

#[cfg(test)]
mod tests;
