//! The options of a load that several processes make together.

use std::path::PathBuf;
use std::time::Duration;

use base::complaint::Complaint;
use base::units::parse_duration;
use harness::options::ShardOptions;
use plan::shard::Shard;
use text::times::from_rfc3339;

/// Part of a load.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Several machines")]
pub(super) struct ShardArguments {
    /// Make one part of the load, such as 2/8: the third of eight (default: what the launcher says).
    ///
    /// Open MPI, Slurm (srun, arrays) and Kubernetes' Indexed Jobs say which part a process is; elsewhere name it. Each
    /// part has its own iterations, users and rows of data. `bench merge` makes one run of the parts' directories.
    #[arg(long, value_name = "I/N", value_parser = Shard::parse, conflicts_with = "once")]
    shard: Option<Shard>,
    /// How many parts there are, where the launcher does not say it, as in Kubernetes (also BENCH_SHARDS).
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), conflicts_with = "shard")]
    shards: Option<u32>,
    /// Make the whole load, whatever a launcher says.
    #[arg(long, conflicts_with_all = ["shard", "shards"])]
    no_shard: bool,
    /// A name that all parts of this load share, and that no other load has (also BENCH_JOB; default: the launcher's
    /// name of the job, or the --seed).
    ///
    /// The trace ids are made from it: with the same name, another load of the same scenario has the same trace ids.
    #[arg(long, value_name = "NAME", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    job: Option<String>,
    /// Begin the load at this time, such as 2026-11-23T21:00:00Z.
    #[arg(long, value_name = "TIME", value_parser = time, conflicts_with = "together")]
    start_at: Option<u64>,
    /// Begin the load when all parts are ready, which meet in this directory that all machines share.
    #[arg(long, value_name = "DIR")]
    together: Option<PathBuf>,
    /// With --together: how long to wait for the others.
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = parse_duration)]
    wait: Duration,
    /// With --together: part 0 serves and pushes the metrics of all parts (--metrics, --otlp and their kind), the others none.
    #[arg(long, requires = "together")]
    lead: bool,
    /// Fail instead of beginning the load later than this after it was due.
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    skew_max: Option<Duration>,
}

impl ShardArguments {
    /// Whether any of them says which part of a load this is, or when it begins.
    pub(super) fn is_given(&self) -> bool {
        self.shard.is_some()
            || self.shards.is_some()
            || self.no_shard
            || self.job.is_some()
            || self.start_at.is_some()
            || self.together.is_some()
    }

    pub(super) fn options(&self) -> ShardOptions {
        ShardOptions {
            shard: self.shard,
            count: self.shards,
            job: self.job.clone(),
            whole: self.no_shard,
            start_at_unix_ns: self.start_at,
            together: self.together.clone(),
            wait: self.wait,
            skew_max: self.skew_max,
            lead: self.lead,
        }
    }
}

/// A time on the wall clock, in nanoseconds since 1970.
fn time(text: &str) -> Result<u64, Complaint> {
    let known = from_rfc3339(text).and_then(|unix_ns| u64::try_from(unix_ns).ok());
    known.ok_or_else(|| {
        Complaint::new(
            format!("`{text}` is not a time with its zone"),
            "write it as 2026-11-23T21:00:00Z, as `date -u +%Y-%m-%dT%H:%M:%SZ -d '+1 minute'` does",
        )
    })
}
