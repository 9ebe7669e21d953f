//! OSProfiler in Rust, with OSProfiler's own vocabulary and byte-identical headers.
//!
//! A client signs requests ([`signing`]). A service verifies them (`web`), makes trace points for
//! its work ([`profiler`], `instrument`, [`db`]), passes the trace on (`http_client`, [`rpc`])
//! and reports ([`notifier`]) to a collector ([`driver`]). A reader gets the records back and builds
//! the tree ([`report`]).
//!
//! This crate must not know about load tests, scenarios or results. It must never make an observed
//! request wait for the collector or fail because of it.
//!
//! # Features
//!
//! Each way to trace a service and each kind of collector is a cargo feature, so that a service
//! builds only what it uses. The default feature is `tower` (middleware and clients). Collectors in
//! files need no feature.

#![warn(missing_docs)]

/// Secrets, clocks and ids, which the functions here take and give.
pub use base;

pub mod compat;
pub mod db;
pub mod derived;
pub mod driver;
#[cfg(feature = "profiles")]
pub mod functions;
#[cfg(feature = "tower")]
mod grpc;
#[cfg(feature = "tower")]
pub mod http_client;
pub mod info;
#[cfg(feature = "tracing")]
pub mod instrument;
pub mod notifier;
pub mod oslo;
pub mod profile_log;
pub mod profiler;
pub mod record;
pub mod report;
#[cfg(feature = "reqwest")]
pub mod reqwest;
pub mod rpc;
pub mod sharing;
pub mod signing;
#[cfg(feature = "spans")]
pub mod spans;
#[cfg(feature = "sqlx")]
pub mod sqlx;
pub mod statement;
pub mod summary;
pub mod text;
pub mod timestamp;
pub mod trace;
pub mod traced;
pub mod verifying;
#[cfg(feature = "tower")]
pub mod web;

mod base64url;
mod coarse_clocks;
mod columns;
#[cfg(feature = "tracing")]
mod fields;

#[cfg(test)]
mod tests;

/// The examples of README.md are compiled by `cargo test`.
#[cfg(all(
    doctest,
    feature = "functions",
    feature = "redis",
    feature = "reqwest",
    feature = "sqlite",
    feature = "sqlx",
    feature = "tower",
    feature = "tracing"
))]
#[doc = include_str!("README.md")]
pub mod readme {}
