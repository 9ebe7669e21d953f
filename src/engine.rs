//! The crate `bench-engine`: the ranks that make a load and measure it, up to the results that are made of its log.
//!
//! A crate of its own for two reasons: the compiler works on it while it works on the rest of `bench`, and it optimises
//! it harder, because most of it runs for every request, iteration or span. [`bench`](../bench/index.html) has the list of
//! the modules and their rules, and shows these as its own; nobody else uses this crate.

pub mod base;
pub mod client;
pub mod config;
pub mod iteration;
pub mod measure;
pub mod plan;
pub mod receive;
pub mod results;
pub mod runner;
pub mod terms;

pub use osprofiler;
