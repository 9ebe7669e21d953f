//! Rank 0: what every other room stands on.
//!
//! Clock and nanoseconds, ids, secrets, units, YAML with source positions, diagnostics, templates, statistics.
//! Nothing here may know of load tests, of OSProfiler or of HTTP.

pub mod clock;
pub mod diagnostics;
pub mod ids;
pub mod secret;
pub mod statistics;
pub mod template;
pub mod units;
pub mod yaml;
