//! The functions of one operation: how often each was seen at work on it, in a service that switches tasks.
//!
//! An operation is a trace point and everything below it, or what a `session::ProfileSession` is put around. A sampler
//! looks at the stacks of busy threads. Which operation a stack belongs to is written into the stack itself
//! (`numbers`). So a task keeps its functions when it moves between threads, and no other task that runs meanwhile is
//! counted. While no operation is picked, the sampler stands still and a poll pays one comparison.
//!
//! | file | holds |
//! |---|---|
//! | [`model`] | a profile: functions, stacks, waits |
//! | [`table`] | functions with own and cumulative samples |
//! | [`pstats`], [`collapsed`], [`speedscope`], [`pprof`] | files that other programs open |
//! | [`carried`] | a profile within a record of the trace |
//! | `numbers`, `operation` | what a poll and a point do |
//! | `sampler`, `reader`, `symbols` | what a thread of its own does |
//! | `settings`, `session`, `waits`, `directory` | what a service calls |
//!
//! Samples are not calls: a function that is called a million times for a nanosecond each and one that is called
//! once look alike. What waits has no stack. Nothing here may stop or slow down the work that it observes when it
//! fails: it counts what it lost.

pub mod carried;
pub mod collapsed;
pub mod model;
pub mod pprof;
pub mod pstats;
pub mod speedscope;
pub mod table;

#[cfg(feature = "functions")]
pub mod directory;
#[cfg(feature = "functions")]
pub(crate) mod numbers;
#[cfg(feature = "functions")]
pub(crate) mod operation;
#[cfg(feature = "functions")]
mod reader;
#[cfg(feature = "functions")]
mod sampler;
#[cfg(feature = "functions")]
pub mod session;
#[cfg(feature = "functions")]
pub mod settings;
#[cfg(feature = "functions")]
mod symbols;
#[cfg(feature = "functions")]
pub mod waits;
