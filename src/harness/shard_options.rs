//! Options of a load that several processes make together.

use std::path::PathBuf;
use std::time::Duration;

use plan::shard::Shard;

/// How long a shard waits for the others by default.
const WAIT: Duration = Duration::from_secs(600);

/// Which part of a load to make, together with other processes.
#[derive(Clone, Debug)]
pub struct ShardOptions {
    /// The part; if absent, the one that the launcher's environment names.
    pub shard: Option<Shard>,
    /// How many parts there are, for a launcher that only says which one this is.
    pub count: Option<u32>,
    /// What all shards of this load have in common and no other load has; if absent, the launcher's name of the job.
    pub job: Option<String>,
    /// Make the whole load, whatever the launcher's environment says.
    pub whole: bool,
    /// When the load begins, on the wall clock in nanoseconds since 1970.
    pub start_at_unix_ns: Option<u64>,
    /// A directory that all shards share: the load begins when all are there.
    pub together: Option<PathBuf>,
    /// For how long to wait for the others.
    pub wait: Duration,
    /// A shard that begins later than this fails.
    pub skew_max: Option<Duration>,
    /// Shard 0 serves and pushes the metrics of all shards, and the others none.
    pub lead: bool,
}

impl Default for ShardOptions {
    fn default() -> Self {
        Self {
            shard: None,
            count: None,
            job: None,
            whole: false,
            start_at_unix_ns: None,
            together: None,
            wait: WAIT,
            skew_max: None,
            lead: false,
        }
    }
}
