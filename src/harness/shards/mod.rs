//! One of several processes that make a load together: which part is its own, and what all of them have in common.
//!
//! Nothing here starts a process or talks to a launcher: what the launcher's environment says is enough. Shards never
//! wait for each other while the load runs.

mod chunk;
mod exchange;
mod launcher;
mod source;
mod start;

use std::path::{Path, PathBuf};
use std::time::Duration;

use sha2::{Digest, Sha256};
use uuid::Uuid;

use base::complaint::Complaint;
use base::units::{format_ns, write_duration};
use measure::log::{ShardHeader, ShardStart};
use plan::shard::Shard;
use plan::{Plan, SEED_MAX};
use terms::threshold::Threshold;

use super::environment::Environment;
use super::error::HarnessError;
use super::shard_options::ShardOptions;

pub(super) use exchange::{Exchange, Link};
pub(super) use source::ShardAudience;
pub(super) use start::{Start, listed};

/// The variable with the number of shards, for launchers that do not say it.
const COUNT: &str = "BENCH_SHARDS";
/// The variable with the name that all shards have in common.
const JOB: &str = "BENCH_JOB";
/// A shard that begins this late is worth a word.
const LATE: Duration = Duration::from_secs(1);

/// This process's part of a load.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ShardAssignment {
    /// Which one.
    pub shard: Shard,
    /// What all shards of the load have in common.
    pub job: String,
    /// Who said so; absent if it was the caller.
    pub launcher: Option<&'static str>,
}

impl ShardOptions {
    /// The part of this process; `None` for the whole load.
    ///
    /// # Errors
    /// The options or the launcher's variables contradict each other, or something is missing.
    pub(super) fn part(
        &self,
        seed: Option<u64>,
        environment: &Environment,
    ) -> Result<Option<ShardAssignment>, HarnessError> {
        let usage = |complaint: Complaint| HarnessError::usage(complaint.what).remedy(complaint.remedy);
        if self.whole {
            return Ok(None);
        }
        let variable = |name: &str| environment.get(name).filter(|value| !value.trim().is_empty());
        let found = launcher::found(&variable).map_err(usage)?;
        let count = match (self.count, variable(COUNT)) {
            (Some(count), _) => Some(u64::from(count)),
            (None, Some(text)) => Some(launcher::number(COUNT, &text).map_err(usage)?),
            (None, None) => None,
        };
        let shard = match (self.shard, &found) {
            (Some(shard), _) => shard,
            (None, None) if count.is_some_and(|count| count > 1) => {
                return Err(usage(Complaint::new(
                    "it is not known which of the shards this is: no launcher says so",
                    "name it with --shard, as in --shard 2/8",
                )));
            }
            (None, None) => return Ok(None),
            (None, Some(found)) => found.shard(count).map_err(usage)?,
        };
        if !shard.is_part() {
            return Ok(None);
        }
        let launcher = found.as_ref().filter(|_| self.shard.is_none()).map(|found| found.name);
        let job = self
            .job
            .clone()
            .or_else(|| variable(JOB))
            .or_else(|| found.map(|found| found.job).filter(|job| !job.is_empty()));
        // Without a launcher, a seed that only this load has is as good as a name.
        let job = job.or_else(|| seed.map(|seed| format!("seed {seed}")));
        let job = job.ok_or_else(|| {
            usage(Complaint::new(
                "the shards have no name in common",
                "give all of them the same --job NAME (or BENCH_JOB), which no other load has",
            ))
        })?;
        if let Some(folder) = &self.together {
            std::fs::create_dir_all(folder).map_err(|error| {
                HarnessError::failed(format!("cannot make the directory {}: {error}", folder.display()))
                    .remedy("name one with --together that all shards can write to")
            })?;
        }
        Ok(Some(ShardAssignment { shard, job, launcher }))
    }
}

impl ShardOptions {
    /// What decides when the load of a part begins.
    pub(super) fn start(&self, part: &ShardAssignment) -> Start {
        match (&self.together, self.start_at_unix_ns) {
            (Some(folder), _) => Start::Together { folder: part.meeting(folder), longest: self.wait },
            (None, Some(unix_ns)) => Start::At(unix_ns),
            (None, None) => Start::Now,
        }
    }

    /// What to say of a shard that began late.
    ///
    /// # Errors
    /// It began later than it may.
    pub(super) fn late(&self, began: &ShardStart) -> Result<Option<String>, String> {
        let late_ns = began.late_ns.unwrap_or_default();
        let late = Duration::from_nanos(late_ns);
        match self.skew_max {
            Some(most) if late > most => Err(format!(
                "this shard was to begin {} ago, and --skew-max allows {}",
                format_ns(late_ns),
                write_duration(most)
            )),
            _ if late > LATE => Ok(Some(format!(
                "this shard began {} after it was due: its load is that much later than that of the others",
                format_ns(late_ns)
            ))),
            _ => Ok(None),
        }
    }
}

impl ShardAssignment {
    /// The id of the run, which all shards share.
    pub(super) fn run_id(&self) -> Uuid {
        self.uuid("run", "")
    }

    /// Where the shards of this run meet, in a directory that they share.
    pub(super) fn meeting(&self, together: &Path) -> PathBuf {
        together.join(self.run_id().to_string())
    }

    /// The seed of all trace ids. Another scenario in the same job has other ids.
    pub(super) fn id_seed(&self, scenario_sha256: &str) -> Uuid {
        self.uuid("ids", scenario_sha256)
    }

    /// The seed of rows and of values in requests.
    pub(super) fn data_seed(&self) -> u64 {
        self.uuid("data", "").as_u64_pair().1 & SEED_MAX
    }

    /// Makes this the plan of the part.
    ///
    /// # Errors
    /// A workload has too few users for this number of parts; or a threshold has abort_on_fail, and there is no
    /// --together.
    pub(super) fn take(&self, plan: &mut Plan, meets: bool) -> Result<(), HarnessError> {
        plan.take_shard(self.shard)
            .map_err(|complaint| HarnessError::usage(complaint.what).remedy(complaint.remedy))?;
        match aborting(plan).filter(|_| !meets) {
            None => Ok(()),
            Some(threshold) => Err(HarnessError::usage(format!(
                "`{}` says abort_on_fail, and one shard sees only its part of the load",
                threshold.condition
            ))
            .remedy(
                "name a directory with --together in which all shards tell what they measure, or remove abort_on_fail; \
                 `bench merge` judges the whole load",
            )),
        }
    }

    pub(super) fn header(&self) -> ShardHeader {
        ShardHeader {
            index: self.shard.index(),
            count: self.shard.count(),
            job: self.job.clone(),
            launcher: self.launcher.map(str::to_owned),
        }
    }

    fn uuid(&self, what: &str, more: &str) -> Uuid {
        let mut hash = Sha256::new();
        // Lengths in front, so that no two lists of texts are the same bytes.
        for text in [what, &self.job, more] {
            hash.update((text.len() as u64).to_le_bytes());
            hash.update(text);
        }
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&hash.finalize()[..16]);
        uuid::Builder::from_random_bytes(bytes).into_uuid()
    }
}

/// A threshold that may end the load early.
pub(super) fn aborting(plan: &Plan) -> Option<&Threshold> {
    let mut thresholds = plan.workloads.iter().flat_map(|workload| &workload.sla.thresholds);
    thresholds.find(|threshold| threshold.abort_after_ns.is_some())
}

impl std::fmt::Display for ShardAssignment {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "shard {} of job `{}`", self.shard, self.job)?;
        self.launcher.map_or(Ok(()), |launcher| write!(formatter, ", by {launcher}"))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// What is asked for, what the environment says, and what comes of it: shard, job and launcher, or words of the error.
    #[test]
    #[expect(clippy::too_many_lines, reason = "a table")]
    fn a_part_is_what_the_options_or_the_launcher_say() {
        type ShardOptionsRow =
            (&'static [(&'static str, &'static str)], ShardOptions, Result<&'static str, &'static str>);
        let none = ShardOptions::default;
        let shard = |text| ShardOptions { shard: Some(Shard::parse(text).unwrap()), ..none() };
        let named = |text, job: &str| ShardOptions { job: Some(job.to_owned()), ..shard(text) };
        let slurm = &[
            ("SLURM_JOB_ID", "17"),
            ("SLURM_STEP_ID", "0"),
            ("SLURM_STEP_NUM_TASKS", "3"),
            ("SLURM_NTASKS", "3"),
            ("SLURM_PROCID", "2"),
        ];
        let rows: [ShardOptionsRow; 22] = [
            (&[], none(), Ok("none")),
            (&[], named("1/3", "nightly"), Ok("shard 1/3 of job `nightly`")),
            (&[], shard("1/3"), Err("the same --job NAME")),
            (&[], shard("0/1"), Ok("none")),
            (&[("BENCH_JOB", "b")], shard("1/3"), Ok("shard 1/3 of job `b`")),
            (&[("BENCH_SHARDS", "4")], none(), Err("--shard 2/8")),
            (&[("BENCH_SHARDS", "four")], none(), Err("BENCH_SHARDS is `four`")),
            (slurm, none(), Ok("shard 2/3 of job `Slurm 17.0`, by Slurm")),
            (slurm, shard("0/5"), Ok("shard 0/5 of job `Slurm 17.0`")),
            (slurm, ShardOptions { whole: true, ..none() }, Ok("none")),
            (slurm, ShardOptions { count: Some(4), ..none() }, Err("Slurm says that there are 3 shards")),
            // The batch script itself is no task, although it has a number.
            (&[("SLURM_JOB_ID", "17"), ("SLURM_NTASKS", "3"), ("SLURM_PROCID", "0")], none(), Ok("none")),
            (
                &[
                    ("SLURM_JOB_ID", "9"),
                    ("SLURM_STEP_ID", "0"),
                    ("SLURM_STEP_NUM_TASKS", "3"),
                    ("SLURM_PROCID", "x"),
                ],
                none(),
                Err("SLURM_PROCID is `x`"),
            ),
            (
                &[
                    ("SLURM_ARRAY_JOB_ID", "20"),
                    ("SLURM_JOB_ID", "22"),
                    ("SLURM_ARRAY_TASK_ID", "7"),
                    ("SLURM_ARRAY_TASK_MIN", "5"),
                    ("SLURM_ARRAY_TASK_MAX", "9"),
                    ("SLURM_ARRAY_TASK_STEP", "2"),
                    ("SLURM_ARRAY_TASK_COUNT", "3"),
                    ("SLURM_CLUSTER_NAME", "big"),
                ],
                none(),
                Ok("shard 1/3 of job `Slurm big 20`, by Slurm"),
            ),
            (
                &[
                    ("SLURM_ARRAY_JOB_ID", "20"),
                    ("SLURM_ARRAY_TASK_ID", "4"),
                    ("SLURM_ARRAY_TASK_MIN", "1"),
                    ("SLURM_ARRAY_TASK_COUNT", "3"),
                ],
                none(),
                Err("the array has gaps"),
            ),
            (
                &[
                    ("OMPI_COMM_WORLD_RANK", "1"),
                    ("OMPI_COMM_WORLD_SIZE", "2"),
                    ("PMIX_NAMESPACE", "77"),
                    ("SLURM_JOB_ID", "17"),
                ],
                none(),
                Ok("shard 1/2 of job `Open MPI 77 Slurm 17`, by Open MPI"),
            ),
            (&[("OMPI_COMM_WORLD_RANK", "1")], none(), Err("OMPI_COMM_WORLD_SIZE")),
            (&[("PMI_RANK", "0"), ("PMI_SIZE", "2")], none(), Err("the same --job NAME")),
            (
                &[("PMI_RANK", "0"), ("PMI_SIZE", "2"), ("BENCH_JOB", "b")],
                none(),
                Ok("shard 0/2 of job `b`, by MPI"),
            ),
            (
                &[("JOB_COMPLETION_INDEX", "3"), ("HOSTNAME", "load-3")],
                ShardOptions { count: Some(4), ..none() },
                Ok("shard 3/4 of job `Kubernetes load`, by Kubernetes"),
            ),
            (&[("JOB_COMPLETION_INDEX", "3"), ("HOSTNAME", "load-3")], none(), Err("BENCH_SHARDS")),
            (
                &[("JOB_COMPLETION_INDEX", "4"), ("HOSTNAME", "load-4"), ("BENCH_SHARDS", "4")],
                none(),
                Err("there is no shard 4/4"),
            ),
        ];
        for (variables, options, expected) in rows {
            let map: BTreeMap<String, String> =
                variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
            let found = options.part(None, &Environment::new(move |name| map.get(name).cloned()));
            let text = |part: Option<ShardAssignment>| {
                part.map_or_else(|| "none".to_owned(), |part| part.to_string())
            };
            match (found.map(text), expected) {
                (Ok(found), Ok(expected)) => assert_eq!(found, expected, "{variables:?} {options:?}"),
                (Err(error), Err(part)) => {
                    let error = format!("{error:?}");
                    assert!(error.contains(part), "{variables:?} {options:?}: {error}");
                }
                (found, expected) => panic!("{variables:?} {options:?}: {found:?}, expected {expected:?}"),
            }
        }
    }

    #[test]
    fn shards_of_a_job_share_what_no_other_job_has() {
        let part = |index, job: &str| ShardAssignment {
            shard: Shard::new(index, 3).unwrap(),
            job: job.to_owned(),
            launcher: None,
        };
        let (one, two, other) = (part(0, "a"), part(2, "a"), part(0, "b"));
        assert_eq!(
            (one.run_id(), one.id_seed("s"), one.data_seed()),
            (two.run_id(), two.id_seed("s"), two.data_seed())
        );
        assert_ne!(one.run_id(), other.run_id());
        assert_ne!(one.id_seed("s"), other.id_seed("s"));
        assert_ne!(one.id_seed("s"), one.id_seed("t"));
        assert_ne!(one.data_seed(), other.data_seed());
        assert!(one.data_seed() <= SEED_MAX);
        let options = ShardOptions { shard: Some(Shard::new(0, 2).unwrap()), ..ShardOptions::default() };
        let seeded = |seed| options.part(Some(seed), &Environment::new(|_| None)).unwrap().unwrap();
        assert_ne!(seeded(1).run_id(), seeded(2).run_id());
    }
}
