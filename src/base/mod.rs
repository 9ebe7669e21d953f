//! Rank 0: what every other room stands on.
//!
//! Clock and nanoseconds, ids, secrets and their masking, units, YAML with source positions, diagnostics, templates,
//! statistics, text made safe to print.
//! Nothing here may know of load tests, of OSProfiler or of HTTP.

pub mod clock;
pub mod complaint;
pub mod diagnostics;
pub mod files;
pub mod ids;
pub mod masking;
pub mod statistics;
pub mod template;
pub mod template_names;
pub mod units;
pub mod visible;
pub mod yaml;
pub mod yaml_text;

pub use osprofiler::base::secret;
