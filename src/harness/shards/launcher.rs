//! What launchers tell their processes by variables: their index, how many there are, and their job.

use base::complaint::Complaint;
use plan::shard::Shard;

type Look<'a> = &'a dyn Fn(&str) -> Option<String>;

/// What a launcher says.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct LauncherReport {
    /// The launcher.
    pub(super) name: &'static str,
    /// Which process this is, from 0.
    index: u64,
    /// How many there are, if it says so.
    count: Option<u64>,
    /// What all processes of this job have in common; empty if nothing tells this job from others.
    pub(super) job: String,
}

impl LauncherReport {
    /// The shard of this process, if there are `told` of them by what the user says.
    pub(super) fn shard(&self, told: Option<u64>) -> Result<Shard, Complaint> {
        match (self.count, told) {
            (Some(count), Some(told)) if count != told => Err(Complaint::new(
                format!("{} says that there are {count} shards, and not {told}", self.name),
                "leave out --shards and BENCH_SHARDS, or name the shard with --shard, as in --shard 2/8",
            )),
            (Some(count), _) | (None, Some(count)) => Shard::new(self.index, count),
            (None, None) => Err(Complaint::new(
                format!("{} says that this is shard {}, and not of how many", self.name, self.index),
                "say it with --shards N or BENCH_SHARDS, or make the whole load with --no-shard",
            )),
        }
    }
}

/// What the innermost launcher says; `None` if there is none, or if it has started only one process.
pub(super) fn found(look: Look<'_>) -> Result<Option<LauncherReport>, Complaint> {
    for launcher in [open_mpi, mpi, slurm, kubernetes] {
        if let Some(found) = launcher(look)? {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

/// `mpirun` of Open MPI.
fn open_mpi(look: Look<'_>) -> Result<Option<LauncherReport>, Complaint> {
    let Some((index, count)) = pair(look, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE")? else {
        return Ok(None);
    };
    // The job's number comes from a process id, which comes again; the address of mpirun has a port, too.
    let names = ["PMIX_NAMESPACE", "OMPI_MCA_orte_hnp_uri", "OMPI_MCA_ess_base_jobid"];
    let mut job: Vec<String> = names.iter().filter_map(|name| look(name)).collect();
    job.extend(look("SLURM_JOB_ID").map(|id| format!("Slurm {id}")));
    Ok(Some(LauncherReport {
        name: "Open MPI",
        index,
        count: Some(count),
        job: named("Open MPI", &job.join(" ")),
    }))
}

/// Other implementations of MPI: MPICH, Intel MPI. They do not say which job this is.
fn mpi(look: Look<'_>) -> Result<Option<LauncherReport>, Complaint> {
    let found = pair(look, "PMI_RANK", "PMI_SIZE")?;
    let job = look("SLURM_JOB_ID").map_or_else(String::new, |id| named("Slurm", &id));
    Ok(found.map(|(index, count)| LauncherReport { name: "MPI", index, count: Some(count), job }))
}

/// Tasks of a step (`srun`), tasks of an array (`sbatch --array`), or both.
fn slurm(look: Look<'_>) -> Result<Option<LauncherReport>, Complaint> {
    // A batch script has SLURM_PROCID and SLURM_NTASKS too, although it runs only once.
    let step = match look("SLURM_STEP_NUM_TASKS") {
        Some(_) => pair(look, "SLURM_PROCID", "SLURM_STEP_NUM_TASKS")?,
        None => None,
    };
    let array = array(look)?;
    let (index, count) = match (array, step) {
        (None, None) => return Ok(None),
        (Some(found), None) | (None, Some(found)) => found,
        (Some((task, tasks)), Some((index, count))) => {
            (task.saturating_mul(count).saturating_add(index), tasks.saturating_mul(count))
        }
    };
    let id = look("SLURM_ARRAY_JOB_ID").filter(|_| array.is_some()).or_else(|| look("SLURM_JOB_ID"));
    let mut job = id.unwrap_or_default();
    for (name, before) in [("SLURM_STEP_ID", "."), ("SLURM_RESTART_COUNT", " again ")] {
        // One task of an array may be started again on its own, which must not make it another job.
        let counts = step.is_some() && (array.is_none() || name != "SLURM_RESTART_COUNT");
        if let Some(value) =
            look(name).filter(|value| counts && !(name == "SLURM_RESTART_COUNT" && value == "0"))
        {
            job = format!("{job}{before}{value}");
        }
    }
    let cluster = look("SLURM_CLUSTER_NAME").map_or_else(String::new, |name| format!("{name} "));
    Ok(Some(LauncherReport {
        name: "Slurm",
        index,
        count: Some(count),
        job: named("Slurm", &format!("{cluster}{job}")),
    }))
}

/// The place of this task in its array.
fn array(look: Look<'_>) -> Result<Option<(u64, u64)>, Complaint> {
    let Some((task, count)) = pair(look, "SLURM_ARRAY_TASK_ID", "SLURM_ARRAY_TASK_COUNT")? else {
        return Ok(None);
    };
    let of = |name: &str, default: u64| look(name).map_or(Ok(default), |text| number(name, &text));
    let (first, step) = (of("SLURM_ARRAY_TASK_MIN", 0)?, of("SLURM_ARRAY_TASK_STEP", 1)?.max(1));
    let place = task.checked_sub(first).filter(|past| past % step == 0).map(|past| past / step);
    match place.filter(|place| *place < count) {
        Some(place) => Ok(Some((place, count))),
        None => Err(Complaint::new(
            format!(
                "task {task} is none of the first {count} from {first} in steps of {step}: the array has gaps"
            ),
            "submit one without gaps, such as --array=0-7, or name the shard with --shard",
        )),
    }
}

/// An Indexed Job, whose pods are called after the job and their index.
fn kubernetes(look: Look<'_>) -> Result<Option<LauncherReport>, Complaint> {
    let Some(text) = look("JOB_COMPLETION_INDEX") else { return Ok(None) };
    let index = number("JOB_COMPLETION_INDEX", &text)?;
    let host = look("HOSTNAME").unwrap_or_default();
    let job = host.strip_suffix(&format!("-{index}")).unwrap_or_default();
    Ok(Some(LauncherReport { name: "Kubernetes", index, count: None, job: named("Kubernetes", job) }))
}

fn named(launcher: &str, job: &str) -> String {
    if job.is_empty() { String::new() } else { format!("{launcher} {job}") }
}

/// Index and count in two variables; `None` without an index.
fn pair(look: Look<'_>, index: &str, count: &str) -> Result<Option<(u64, u64)>, Complaint> {
    let Some(text) = look(index) else { return Ok(None) };
    let of = look(count).ok_or_else(|| {
        Complaint::new(
            format!("{index} is set, and {count} is not"),
            "name the shard with --shard, or use --no-shard",
        )
    })?;
    Ok(Some((number(index, &text)?, number(count, &of)?)))
}

/// The number in a variable.
pub(super) fn number(name: &str, text: &str) -> Result<u64, Complaint> {
    text.trim().parse().map_err(|_| {
        Complaint::new(
            format!("{name} is `{text}`, which is no number"),
            "name the shard with --shard, or use --no-shard",
        )
    })
}
