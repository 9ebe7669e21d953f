//! Statistics that verdicts stand on: pure functions of numbers, checked against SciPy.
//!
//! What is no number gives no result, never a panic. Nothing here may know what the numbers mean.

pub mod binomial;
pub mod mean;
