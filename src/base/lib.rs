//! What every other crate here uses and what a service with trace points needs, too: clock, ids, secrets and their
//! masking, units, and text made safe to print.
//!
//! Nothing here may know of OSProfiler, of HTTP or of load tests.

#[cfg(feature = "certificates")]
pub mod certificates;
pub mod civil;
pub mod clock;
pub mod complaint;
pub mod digits;
pub mod hex;
pub mod ids;
pub mod lists;
pub mod marshal;
pub mod masking;
pub mod parallel;
pub mod percent;
mod punycode;
pub mod secret;
pub mod units;
pub mod visible;
