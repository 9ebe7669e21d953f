//! Rank 0: helpers that every other module uses.
//!
//! Clock and nanoseconds, ids, secrets and their masking, units, YAML with source positions, diagnostics, templates,
//! statistics, and text made safe to print.
//! Nothing here may depend on load tests, OSProfiler or HTTP.

pub mod charset;
pub mod clock;
pub mod complaint;
pub mod diagnostics;
pub mod digits;
pub mod files;
pub mod ids;
pub mod json_schema;
pub mod lists;
pub mod marked;
pub mod masking;
pub mod named_secrets;
#[cfg(any(test, feature = "simulation"))]
pub mod page;
pub mod programs;
pub mod shell;
pub mod similar;
pub mod statistics;
pub mod template;
pub mod template_names;
pub mod units;
pub mod visible;
pub mod visible_lines;
pub mod yaml;
pub mod yaml_place;
pub mod yaml_text;

pub use osprofiler::base::{certificates, hex, parallel, percent, secret};
