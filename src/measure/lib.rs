//! How long iterations took.
//!
//! Each worker has a [`recorder::Recorder`] that records [`sample::IterationSample`]s into [`rows`]. These
//! go to the coordinator in batches, which packs them and writes them to the append-only [`log`]. Nothing
//! here may lock, allocate or send per sample. Statistics are computed afterwards, from the log, with
//! [`latency::Latency`]; [`meter`] computes live metrics during the load.

pub mod candidates;
pub mod codec;
pub mod errors;
pub mod generator;
pub mod ids;
pub mod intervals;
pub mod latency;
pub mod log;
pub mod meter;
pub mod numbers;
pub mod observation;
mod pack;
pub mod phases;
pub mod protocol;
pub mod ranked;
pub mod recorder;
pub mod rows;
pub mod sample;
pub mod streams;
