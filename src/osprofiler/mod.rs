//! OSProfiler in Rust, with OSProfiler's own vocabulary and byte-identical headers.
//!
//! A load generator signs requests ([`signing`]) under a fresh [`derived::DerivedProfiler`]; a
//! service verifies them ([`web`]), makes trace points of what it does ([`profiler`],
//! [`instrument`], [`db`]), passes the trace on ([`http_client`], [`rpc`]) and reports ([`notifier`])
//! to a collector ([`driver`]); whoever wants to know what happened reads the records back and
//! builds the tree ([`report`]). Any Rust service may use this room on its own.
//!
//! Nothing here may know of load tests, scenarios or results, and nothing may make an observed
//! request wait for the collector or fail because of it.

pub mod compat;
pub mod db;
pub mod derived;
pub mod driver;
pub mod http_client;
pub mod instrument;
pub mod notifier;
pub mod profile_log;
pub mod profiler;
pub mod record;
pub mod report;
pub mod rpc;
pub mod signing;
pub mod spans;
pub mod trace;
pub mod traced;
pub mod verifying;
pub mod web;

mod base64url;
mod columns;
mod current;
mod fields;

#[cfg(test)]
mod tests;
