//! Slurm: an array of tasks, of which each is a shard, and a job that merges them when all have ended.
//!
//! An array, because Slurm starts each of its tasks again on its own when a node fails.

use super::{LaunchOptions, word};

/// The script.
pub(super) fn script(options: &LaunchOptions) -> String {
    let (last, version) = (options.shards - 1, env!("CARGO_PKG_VERSION"));
    let own: String = options.launcher.iter().map(|option| format!("#SBATCH {option}\n")).collect();
    let (program, run) = (word(&options.program.display().to_string()), options.arguments_of_run());
    let (out, wait) = (word(&options.out.display().to_string()), word(&options.wait));
    let (count, scenario) = (options.shards, options.scenario.display().to_string().replace('\n', " "));
    format!(
        r#"#!/bin/sh
# {scenario} in {count} shards, by bench {version}. Submit this with `sbatch` from the directory in which it was written.
# Each task of the array makes one shard. Another job merges them when all have ended, and its exit code is the verdict's.
#SBATCH --job-name=bench
#SBATCH --array=0-{last}
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --output=slurm-%A_%a.out
{own}set -eu
bench={program}
# All machines must share this directory.
runs={out}/slurm-$SLURM_ARRAY_JOB_ID
if [ "$SLURM_ARRAY_TASK_ID" = 0 ] && [ "${{SLURM_RESTART_COUNT:-0}}" = 0 ]; then
    mkdir -p "$runs"
    cat > "$runs/merge.sh" <<END
#!/bin/sh
exec "$bench" merge "$runs/shards" --out "$runs" --collect
END
    sbatch --dependency="afterany:$SLURM_ARRAY_JOB_ID" --job-name=bench-merge --output=slurm-%j.out "$runs/merge.sh"
fi
exec "$bench" run {run} --out "$runs/shards" --together "$runs/meet" --wait {wait}
"#
    )
}
