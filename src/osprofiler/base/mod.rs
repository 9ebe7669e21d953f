//! The basis of this crate: clock, ids, secrets and their masking, and text made safe to print.
//!
//! Nothing here may know of OSProfiler or of HTTP.

#[cfg(feature = "http-collectors")]
pub mod certificates;
pub mod civil;
pub mod clock;
pub mod hex;
pub mod ids;
pub mod marshal;
pub mod masking;
pub mod parallel;
pub mod percent;
mod punycode;
pub mod secret;
pub mod visible;
