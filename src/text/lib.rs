//! Text that is read, checked, filled in and shown: YAML with source positions, diagnostics, templates, numbers, times,
//! files and programs.
//!
//! Nothing here may know of load tests, OSProfiler or HTTP.

pub mod charset;
pub mod diagnostics;
pub mod digits;
pub mod files;
pub mod json_schema;
pub mod marked;
pub mod named_secrets;
#[cfg(any(test, feature = "simulation"))]
pub mod page;
pub mod programs;
pub mod shell;
pub mod similar;
pub mod stream;
pub mod template;
pub mod template_names;
pub mod times;
pub mod visible_lines;
pub mod yaml;
pub mod yaml_place;
pub mod yaml_text;
