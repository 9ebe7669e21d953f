//! Makes one run of the run directories of shards: one log, and everything else from it as always.

mod awaited;
mod chosen;
mod ending;

use std::path::{Path, PathBuf};
use std::time::Duration;

use base::clock::Nanos;
use measure::log::{Header, LogWriter, MergedShard, ShardEnding, ShardLog, ShardStart, merge as merge_logs};
use results::directory::RunDirectory;

use self::chosen::{Candidate, ShardSelection};
use super::error::HarnessError;
use super::event::{Event, Sink};
use super::options::ReportOptions;
use super::outcome::FinishedRun;
use super::stored;

/// What to merge.
#[derive(Clone, Debug)]
pub struct MergeOptions {
    /// Run directories of shards, or directories that hold some.
    pub directories: Vec<PathBuf>,
    /// The directory in which the merged run's directory is made.
    pub out: PathBuf,
    /// Merge what there is, although shards are missing or have no end.
    pub partial: bool,
    /// For how long to wait for shards that have not ended, or that are not there yet.
    pub wait: Duration,
    /// What else to write.
    pub report: ReportOptions,
}

/// Merges shards, and judges and reports the run that they are together.
///
/// # Errors
/// Shards are missing, come twice, are of different runs, or cannot be read; then nothing is written.
pub fn merge(options: &MergeOptions, events: &Sink) -> Result<FinishedRun, HarnessError> {
    awaited::wait(&options.directories, options.wait, events);
    let ShardSelection { shards, mut notes } = chosen::choose(&options.directories, options.partial)?;
    let clocks = Clocks::of(&shards);
    notes.extend(clocks.note(&shards));
    let header = header(&shards, &clocks, &notes);
    let id = header.run_id;
    let directory =
        RunDirectory::create(&options.out, &header.scenario.title, id, header.started_unix_ns, None)
            .map_err(|error| {
                let text =
                    format!("cannot make the merged run's directory in {}: {error}", options.out.display());
                HarnessError::failed(text)
                    .remedy("if these shards were merged before, remove that run, or use another --out")
            })?;
    let written = write(&directory, &header, shards, &clocks, options.partial, events);
    if written.is_err() {
        // Half a log must not look like a run. The shards are all there still.
        let _ = std::fs::remove_dir_all(directory.path());
    }
    written?;
    // The run is there. What is wrong with the traces does not take it away.
    let said = match stored::choose_kept(directory.path(), events) {
        Ok(None) => None,
        Ok(Some((found, wanted))) => without_spans(found, wanted),
        Err(error) => Some(format!("no traces were taken from the receivers of the shards: {error}")),
    };
    said.iter().for_each(|text| events.event(&Event::Warning(text)));
    stored::report(directory.path(), &options.report, events)
}

/// Why traces may be missing although shards had receivers.
fn without_spans(found: usize, wanted: usize) -> Option<String> {
    (found < wanted).then(|| {
        format!(
            "{} of the {wanted} iterations whose traces are wanted have no spans at their shard's receiver: the services must \
             send theirs to the receivers of all shards, or to one `bench receive`, whose file `bench merge --from` reads",
            wanted - found
        )
    })
}

fn write(
    directory: &RunDirectory,
    header: &Header,
    shards: Vec<Candidate>,
    clocks: &Clocks,
    partial: bool,
    events: &Sink,
) -> Result<(), HarnessError> {
    let path = directory.log();
    let cannot = |error: std::io::Error| {
        HarnessError::failed(format!("{} cannot be written: {error}", path.display()))
    };
    let mut log = LogWriter::create(&path).map_err(cannot)?;
    log.header(header).map_err(cannot)?;
    let workers: Vec<u32> = shards.iter().map(|shard| shard.log.header.environment.workers).collect();
    let indexes: Vec<u32> = shards.iter().map(|shard| shard.index).collect();
    let logs: Vec<(ShardLog, Nanos)> =
        shards.into_iter().zip(&clocks.shifts_ns).map(|(shard, shift_ns)| (shard.log, *shift_ns)).collect();
    let wanted: u64 = header.shards.iter().map(|shard| shard.rows).sum();
    let mut told = |rows| events.event(&Event::Merging { rows, wanted });
    let endings = merge_logs(&logs, &mut log, &mut told).map_err(HarnessError::failed)?;
    let shifted = endings.iter().zip(&clocks.shifts_ns);
    let ends: Vec<(u32, u32, &ShardEnding, Nanos)> = shifted
        .zip(indexes.iter().zip(&workers))
        .map(|((ending, shift_ns), (index, workers))| (*index, *workers, ending, *shift_ns))
        .collect();
    log.end(&ending::of_all(&ends, header, partial)).map_err(cannot)
}

/// How far the times of each shard are moved.
struct Clocks {
    /// The zero of the merged log, by the clock that all share.
    zero_unix_ns: u64,
    shifts_ns: Vec<Nanos>,
}

impl Clocks {
    fn of(shards: &[Candidate]) -> Self {
        let zeros: Vec<u64> = shards.iter().map(Candidate::zero_unix_ns).collect();
        let zero_unix_ns = zeros.iter().copied().min().unwrap_or_default();
        Self { zero_unix_ns, shifts_ns: zeros.into_iter().map(|zero| zero - zero_unix_ns).collect() }
    }

    /// When a shard began, on the clock of the merged log.
    fn began_ns(&self, number: usize, began: Option<ShardStart>) -> Nanos {
        self.shifts_ns[number].saturating_add(began.unwrap_or_default().began_ns)
    }

    /// That some began later than others, if it matters.
    fn note(&self, shards: &[Candidate]) -> Option<String> {
        const LATE_NS: Nanos = 1_000_000_000;
        let began = shards
            .iter()
            .enumerate()
            .map(|(number, shard)| (self.began_ns(number, shard.log.began), shard.index));
        let (first, last) = (began.clone().min()?, began.max()?);
        let apart_ns = last.0 - first.0;
        (apart_ns > LATE_NS).then(|| {
            let (apart, first, last) = (base::units::format_ns(apart_ns), first.1, last.1);
            let shared = shards.iter().all(|shard| shard.log.began.is_some_and(|began| began.clock_correction_ns.is_some()));
            let clock = if shared { "" } else { ", or the clocks of their machines differ by that" };
            format!(
                "shard {last} began {apart} after shard {first}{clock}: their loads were not at the same time; start shards with \
                 --together or --start-at"
            )
        })
    }
}

/// What ran, all shards together.
fn header(shards: &[Candidate], clocks: &Clocks, notes: &[String]) -> Header {
    let mut header = shards[0].log.header.clone();
    let headers = || shards.iter().map(|shard| &shard.log.header);
    header.started_unix_ns = clocks.zero_unix_ns;
    header.shard = None;
    for (number, workload) in header.workloads.iter_mut().enumerate() {
        workload.planned = headers().map(|header| header.workloads[number].planned).sum();
    }
    let mut hosts: Vec<&str> = headers().map(|header| header.environment.host.as_str()).collect();
    hosts.sort_unstable();
    hosts.dedup();
    let cpus = |host: &str| {
        headers().map(|header| &header.environment).find(|seen| seen.host == host).map_or(0, |seen| seen.cpus)
    };
    header.environment.cpus = hosts.iter().map(|host| cpus(host)).sum();
    header.environment.workers = headers().map(|header| header.environment.workers).sum();
    if let [_, _, ..] = hosts.as_slice() {
        header.environment.host = format!("{} machines", hosts.len());
    }
    header.notes = ending::common(
        headers().map(|header| header.notes.as_slice()).zip(shards.iter().map(|shard| shard.index)),
    );
    header.notes.extend(notes.iter().cloned());
    header.shards = shards
        .iter()
        .enumerate()
        .map(|(number, shard)| shard.merged(clocks.began_ns(number, shard.log.began)))
        .collect();
    header
}

impl Candidate {
    /// The zero of its offsets, by the clock that all share.
    fn zero_unix_ns(&self) -> u64 {
        let correction_ns = self.log.began.and_then(|began| began.clock_correction_ns).unwrap_or(0);
        let own = self.log.header.started_unix_ns;
        own.checked_add_signed(correction_ns).unwrap_or(own)
    }

    fn merged(&self, began_ns: Nanos) -> MergedShard {
        let began = self.log.began.unwrap_or_default();
        MergedShard {
            index: self.index,
            directory: self.directory.display().to_string(),
            environment: self.log.header.environment.clone(),
            began_ns,
            late_ns: began.late_ns,
            clock_correction_ns: began.clock_correction_ns,
            rows: self.ending.rows,
            status: self.ending.end.as_ref().map(|end| end.status),
        }
    }
}

/// A path, for messages.
fn shown(path: &Path) -> String {
    path.display().to_string()
}

#[cfg(test)]
mod tests;
