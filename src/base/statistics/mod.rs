//! Statistics that verdicts stand on: pure functions of numbers, checked against SciPy.
//!
//! What is no number gives no result (`None`), never a panic. Nothing here may know what the numbers mean.

pub mod beta;
pub mod binomial;
pub mod mean;
pub mod order;
pub mod paired;
