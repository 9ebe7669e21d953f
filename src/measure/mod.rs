//! Rank 4: how long it took.
//!
//! A [`sample::IterationSample`] is recorded by its worker's own [`recorder::Recorder`] into a
//! buffer, which goes to the append-only [`log`] in batches. Nothing here may lock, allocate or send
//! per sample. Statistics are made afterwards, from the log, with [`latency::Latency`].

pub mod codec;
pub mod errors;
pub mod latency;
pub mod log;
pub mod recorder;
pub mod sample;
