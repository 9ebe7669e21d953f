//! Which run directories are the shards of a run, and what is wrong with them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::error::HarnessError;
use crate::runs;
use crate::shards::listed;
use measure::log::{Header, LogFile, RunLog, ShardEnding, ShardHeader, ShardLog, Status};
use results::directory::RunDirectory;

use super::shown;

/// A shard and its directory.
pub(super) struct Candidate {
    pub(super) index: u32,
    pub(super) directory: PathBuf,
    pub(super) log: ShardLog,
    pub(super) ending: ShardEnding,
}

/// The shards to merge, in order of their numbers, and what a reader must know.
pub(super) struct ShardSelection {
    pub(super) shards: Vec<Candidate>,
    pub(super) notes: Vec<String>,
}

/// The shards in these directories.
pub(super) fn choose(given: &[PathBuf], partial: bool) -> Result<ShardSelection, HarnessError> {
    let mut of_index: BTreeMap<u32, Vec<Candidate>> = BTreeMap::new();
    let mut first: Option<(PathBuf, Header)> = None;
    for directory in directories(given)? {
        let (log, shard) = open(&directory)?;
        match &first {
            None => first = Some((directory.clone(), log.header.clone())),
            Some(first) => alike(first, (&directory, &log.header))?,
        }
        let ending = log.ending().map_err(HarnessError::of_log)?;
        let candidate = Candidate { index: shard.index, directory, log, ending };
        of_index.entry(shard.index).or_default().push(candidate);
    }
    let count = first.as_ref().and_then(|(_, header)| header.shard.as_ref()).map_or(0, |shard| shard.count);
    let (mut shards, mut notes) = (Vec::new(), Vec::new());
    for (index, candidates) in of_index {
        let (shard, note) = best(index, candidates)?;
        notes.extend(note);
        shards.push(shard);
    }
    let missing: Vec<u32> =
        (0..count).filter(|index| shards.iter().all(|shard| shard.index != *index)).collect();
    if !missing.is_empty() {
        let text = format!("{} of {count} shards are missing: {}", missing.len(), listed(&missing));
        if !partial {
            return Err(HarnessError::input(text)
                .remedy("name their directories, too, or merge what there is with --partial"));
        }
        notes.push(format!("partial: {text}; all figures are those of the rest"));
    }
    for shard in shards.iter().filter(|shard| shard.ending.end.is_none()) {
        let text = format!(
            "shard {} in {} has no end: it was killed, or it still runs",
            shard.index,
            shown(&shard.directory)
        );
        if !partial {
            return Err(HarnessError::input(text)
                .remedy("run that shard again, or merge what there is with --partial"));
        }
        notes.push(format!("partial: {text}; what it recorded is included"));
    }
    Ok(ShardSelection { shards, notes })
}

/// Run directories: those given, and those in directories that are none.
pub(super) fn directories(given: &[PathBuf]) -> Result<Vec<PathBuf>, HarnessError> {
    let mut all = Vec::new();
    for path in given {
        if RunDirectory::open(path).log().is_file() {
            all.push(path.clone());
            continue;
        }
        let before = all.len();
        for found in runs::logs_in(path)? {
            // Other runs may be beside the shards, such as a run of these that was merged before.
            if is_shard(&found) {
                all.push(found);
            }
        }
        if all.len() == before {
            return Err(HarnessError::input(format!("there is no shard in {}", shown(path))).remedy(
                "name the run directories that `bench run --shard` made, or a directory that holds them",
            ));
        }
    }
    // The same directory twice is no second shard.
    let mut seen = std::collections::HashSet::new();
    all.retain(|path| seen.insert(std::fs::canonicalize(path).unwrap_or_else(|_| path.clone())));
    Ok(all)
}

fn is_shard(directory: &Path) -> bool {
    RunLog::open(&RunDirectory::open(directory).log()).is_ok_and(|log| log.header.shard.is_some())
}

fn open(directory: &Path) -> Result<(ShardLog, ShardHeader), HarnessError> {
    let log =
        ShardLog::open(LogFile::at(&RunDirectory::open(directory).log())).map_err(HarnessError::input)?;
    match log.header.shard.clone() {
        Some(shard) => Ok((log, shard)),
        None => Err(HarnessError::input(format!("{} is no shard, but a whole run", shown(directory)))
            .remedy("merge only directories of runs that were made with --shard or by a launcher")),
    }
}

/// Why two shards are not of one run.
fn alike(first: &(PathBuf, Header), other: (&Path, &Header)) -> Result<(), HarnessError> {
    let ((one_path, one), (other_path, other)) = (first, other);
    let job = |header: &Header| header.shard.as_ref().map_or_else(String::new, |shard| shard.job.clone());
    let count = |header: &Header| header.shard.as_ref().map_or(0, |shard| shard.count).to_string();
    let version = |header: &Header| header.environment.bench_version.clone();
    let set = |header: &Header| {
        header
            .scenario
            .set
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect::<Vec<_>>()
            .join(" ")
    };
    let seed = |header: &Header| header.data_seed.map_or_else(|| "none".to_owned(), |seed| seed.to_string());
    let text = |header: &Header| header.scenario.sha256.chars().take(12).collect::<String>();
    let differences: [(&str, String, String); 6] = [
        ("the job", job(one), job(other)),
        ("the number of shards", count(one), count(other)),
        ("the text of the scenario (SHA-256)", text(one), text(other)),
        ("the variables of --set", set(one), set(other)),
        ("the seed of the data", seed(one), seed(other)),
        ("the version of bench", version(one), version(other)),
    ];
    let names = |header: &Header| {
        header
            .workloads
            .iter()
            .map(|workload| (workload.name.clone(), workload.actions.clone(), workload.runner.clone()))
            .collect::<Vec<_>>()
    };
    let found = differences.iter().find(|(_, one, other)| one != other);
    let (paths, what) = (format!("{} and {} are not of one run", shown(one_path), shown(other_path)), found);
    match what {
        Some((what, one, other)) => {
            Err(HarnessError::input(format!("{paths}: {what} differs, `{one}` and `{other}`"))
                .remedy("merge the shards of one run only"))
        }
        None if names(one) != names(other) || one.id_seed != other.id_seed => {
            Err(HarnessError::input(format!("{paths}: what they ran differs"))
                .remedy("merge the shards of one run only"))
        }
        None => Ok(()),
    }
}

/// The one of several attempts at a shard that counts: the only one that ran to its end, or else the only one that has
/// an end.
fn best(index: u32, mut candidates: Vec<Candidate>) -> Result<(Candidate, Option<String>), HarnessError> {
    let all: Vec<String> = candidates.iter().map(|candidate| shown(&candidate.directory)).collect();
    candidates.sort_by_key(Candidate::completeness);
    let most = candidates.last().map(Candidate::completeness);
    let (mut chosen, left): (Vec<Candidate>, Vec<Candidate>) =
        candidates.into_iter().partition(|candidate| Some(candidate.completeness()) == most);
    match (chosen.pop(), chosen.is_empty()) {
        (Some(shard), true) if left.is_empty() => Ok((shard, None)),
        (Some(shard), true) => {
            let left: Vec<String> = left.iter().map(|candidate| shown(&candidate.directory)).collect();
            let note = format!(
                "shard {index} was begun {} times; what was cut short is left out: {}. Traces of iterations that ran in both \
                 hold both",
                all.len(),
                left.join(", ")
            );
            Ok((shard, Some(note)))
        }
        _ => Err(HarnessError::input(format!(
            "shard {index} is there {} times: {}",
            all.len(),
            all.join(", ")
        ))
        .remedy("name only the one that counts")),
    }
}

impl Candidate {
    /// How much of its load this attempt made: 0 if it was killed, 1 if it was cut short, 2 if it ran to its end.
    fn completeness(&self) -> u8 {
        match self.ending.end.as_ref().map(|end| end.status) {
            None => 0,
            Some(Status::Interrupted | Status::Failed | Status::TimedOut) => 1,
            Some(Status::Finished | Status::Aborted) => 2,
        }
    }
}
