//! Statistics for verdicts: pure functions of numbers, checked against SciPy.
//!
//! Invalid numbers, such as NaN, give no result (`None`), never a panic. Nothing here may know what the numbers mean.

pub mod beta;
pub mod binomial;
pub mod change_points;
pub mod counts;
pub mod mean;
pub mod order;
pub mod paired;
pub mod ranks;
pub mod shares;
