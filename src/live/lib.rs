//! A load under way, for people who watch it.
//!
//! [`figures`] is fed with what the coordinator receives anyway and stays bounded, however long the load is. It gives a
//! [`snapshot`], which is made only when somebody looks. The [`screen`] is a function of a snapshot, of what its viewer
//! has chosen and of a size; it draws into a buffer. Nothing here reads a clock, a terminal or a file.

pub mod counts;
pub mod figures;
pub mod screen;
pub mod series;
pub mod snapshot;
