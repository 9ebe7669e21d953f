//! The run log: append-only, versioned, checksummed.
//!
//! ```text
//! "BENCHLOG" version:u16        then frames:
//! length:u32 kind:u8 crc32(kind, payload):u32 payload          (little-endian)
//! ```
//! The first frame says what ran ([`Header`]). The last one says how it ended ([`End`]) and how many iterations the log
//! must hold. Samples are blocks of columns ([`super::codec`]); texts of faults, and addresses of hosts that have
//! several, come before the samples that refer to them. Every result can be made from this file alone. Only this module
//! knows the format, both ways, and the types of its header are its own.
//!
//! Everything that is made from a log is a [`Visitor`] of one pass by [`RunLog::visit`]; nothing else may decode one.
//!
//! Only shards write the frame of a shard's beginning. What virtual users do around their iterations is in frames of its own,
//! as samples whose number is twice the user's, and one more after the iterations.
//!
//! Version 7 has the numbers that a scenario takes from answers, and what virtual users do around their iterations. Version 6 has the streams that answered requests. Version 5 tells the protocol of each request. Version 4 has requests of HTTP only, and version 3 no nested steps.
//! Logs of earlier builds of version 3 have no number of iterations in their last frame.

mod criteria;
mod data;
mod end;
mod environment;
mod error;
mod file;
mod header;
mod merge;
mod probe;
mod rally;
mod reader;
mod run_log;
mod shard;
#[cfg(feature = "simulation")]
pub mod simulated;
#[cfg(test)]
mod tests;
mod writer;

use std::net::IpAddr;
use std::time::Duration;

use super::errors::NumberedFailure;
use super::rows::Rows;

pub use end::{End, IterationCounts, Status};
pub use environment::LoadEnvironment;
pub use error::LogError;
pub use file::LogFile;
pub use header::{DeploymentInfo, Header, ScenarioInfo, WorkloadHeader};
pub use merge::{ShardEnding, ShardLog, merge};
pub use probe::ProbeRecord;
pub use rally::{HookRun, RallySubtask, RallyTask, RallyWorkload};
pub use reader::Flaws;
pub use run_log::{Ending, RunLog, Visitor, decodes};
pub use shard::{MergedShard, ShardHeader, ShardStart};
pub use writer::{LogWriter, Sink};

const MAGIC: &[u8; 8] = b"BENCHLOG";
/// The version that this build writes. It also reads the four before it.
pub const VERSION: u16 = 7;
/// The oldest version that this build reads.
const VERSION_OLDEST: u16 = 3;
/// The largest payload that is read or written, in bytes.
const PAYLOAD_BYTES_MAX: usize = 16 << 20;
/// The log's name in a run directory.
pub const FILE_NAME: &str = "run.log";
/// How long samples wait for others to share a block with. With what they waited in their worker, the
/// log is at most a second behind.
const BLOCK_EVERY: Duration = Duration::from_millis(400);

const KIND_HEADER: u8 = 1;
const KIND_SAMPLES: u8 = 2;
const KIND_FAILURES: u8 = 3;
const KIND_END: u8 = 4;
const KIND_ADDRESSES: u8 = 5;
/// Only in the log of a shard.
const KIND_BEGAN: u8 = 6;
/// What virtual users did around their iterations: samples.
const KIND_USERS: u8 = 7;
const KIND_LAST: u8 = KIND_USERS;
/// Length, kind and checksum.
const FRAME_HEAD_BYTES: usize = 9;

/// One frame of the log.
#[derive(Debug, PartialEq)]
enum Frame {
    /// What ran: JSON, the first frame.
    Header(Vec<u8>),
    /// Samples, in order of their numbers within the frame.
    Samples(Rows),
    /// What virtual users did around their iterations.
    Users(Rows),
    /// Texts that samples refer to; always before the samples.
    Failures(Vec<NumberedFailure>),
    /// How it ended: JSON, the last frame.
    End(Vec<u8>),
    /// Addresses that samples refer to by their numbers; always before the samples.
    Addresses(Vec<(u16, IpAddr)>),
    /// When a shard's load began: JSON, before the first samples.
    Began(ShardStart),
}

fn checksum(kind: u8, payload: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&[kind]);
    hasher.update(payload);
    hasher.finalize()
}
