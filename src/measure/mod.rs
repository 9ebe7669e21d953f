//! Rank 4: how long it took.
//!
//! A [`sample::IterationSample`] is recorded by its worker's own [`recorder::Recorder`] into
//! [`rows`], which go to the coordinator in batches, and from there, packed, to the append-only
//! [`log`]. Nothing here may lock, allocate or send per sample. Statistics are made afterwards, from
//! the log, with [`latency::Latency`]; what is watched during the load is counted by [`meter`].

pub mod codec;
pub mod errors;
pub mod ids;
pub mod latency;
pub mod log;
pub mod meter;
mod pack;
pub mod recorder;
pub mod rows;
pub mod sample;
