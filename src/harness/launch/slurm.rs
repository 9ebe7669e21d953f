//! Slurm: an array of tasks, one for each shard, and a job that merges the shards when all have ended.
//!
//! An array, because Slurm starts each of its tasks again on its own when a node fails.

use std::path::PathBuf;

use crate::error::HarnessError;
use base::visible::on_one_line;
use text::shell;

use super::LaunchOptions;

/// A load that Slurm is to make.
#[derive(Clone, Debug)]
pub struct SlurmOptions {
    /// The load.
    pub launch: LaunchOptions,
    /// The program that each shard runs.
    pub program: PathBuf,
    /// The directory for the runs. All machines must share it.
    pub out: PathBuf,
    /// Further options of sbatch, as they are written.
    pub sbatch: Vec<String>,
}

impl SlurmOptions {
    /// The script for `sbatch`.
    ///
    /// # Errors
    /// All faults of the files, or the load cannot be made in this number of shards.
    pub fn script(&self) -> Result<String, HarnessError> {
        self.launch.check().map(|_| script(self))
    }
}

/// The arguments of `bench run` that all shards have.
fn arguments(launch: &LaunchOptions) -> String {
    let mut words = vec![shell::path(&launch.scenario)];
    let deployment = launch.deployment.iter();
    words.extend(deployment.map(|file| format!("--deployment {}", shell::path(file))));
    words.extend(launch.arguments.iter().map(|argument| shell::word(argument)));
    words.join(" ")
}

fn script(options: &SlurmOptions) -> String {
    let SlurmOptions { launch, program, out, sbatch } = options;
    let (last, version) = (launch.shards - 1, env!("CARGO_PKG_VERSION"));
    let own: String = sbatch.iter().map(|option| format!("#SBATCH {option}\n")).collect();
    let (program, run) = (shell::path(program), arguments(launch));
    let (out, wait) = (shell::path(out), shell::word(&launch.wait));
    let (count, scenario) = (launch.shards, on_one_line(&launch.scenario.display().to_string()));
    // What the job that merges needs comes as its arguments: a shell reads each value once, and only as a word.
    format!(
        r#"#!/bin/sh
# {scenario} in {count} shards, by bench {version}. Submit this with `sbatch` from the directory in which it was written.
# Each task of the array makes one shard. Another job merges them when all have ended, and its exit code is the verdict's.
#SBATCH --job-name=bench
#SBATCH --array=0-{last}
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --output=slurm-%A_%a.out
{own}# shellcheck disable=SC1003,SC2016 # names are meant as they are written
set -eu
bench={program}
# All machines must share this directory.
runs={out}/slurm-$SLURM_ARRAY_JOB_ID
if [ "$SLURM_ARRAY_TASK_ID" = 0 ] && [ "${{SLURM_RESTART_COUNT:-0}}" = 0 ]; then
    mkdir -p "$runs"
    cat > "$runs/merge.sh" <<'END'
#!/bin/sh
exec "$1" merge "$2/shards" --out "$2" --collect
END
    sbatch --dependency="afterany:$SLURM_ARRAY_JOB_ID" --job-name=bench-merge --output=slurm-%j.out "$runs/merge.sh" "$bench" "$runs"
fi
exec "$bench" run {run} --out "$runs/shards" --together "$runs/meet" --wait {wait}
"#
    )
}
