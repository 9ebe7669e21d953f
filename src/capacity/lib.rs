//! How much load a service takes, and what stops it.
//!
//! [`search`] decides which arrival rate to try next, from how the levels before it went. [`servers`] finds how many calls
//! of a kind a service works on at once while others wait. [`limit`] compares the traces of a level that a service bears
//! with those of one that it does not. [`waits`] tells waiting
//! from working at one level. [`what_if`] says what a change would bring. Nothing here makes load, reads a clock or prints.

mod arrivals;
pub mod calls;
pub mod ceiling;
mod choice;
pub mod limit;
pub mod measured;
pub mod over_time;
pub mod program;
pub mod replay;
pub mod search;
pub mod servers;
mod sharing;
pub mod waits;
pub mod what_if;

#[cfg(test)]
mod queue;
#[cfg(test)]
mod tests;
