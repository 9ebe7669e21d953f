//! `bench slurm` and `bench k8s`.

use std::path::{Path, PathBuf};

use clap::Parser as _;

use base::complaint::Complaint;
use base::units::parse_duration;
use harness::launch::{KubernetesOptions, LaunchOptions, SlurmOptions};
use harness::{HarnessError, LoadOptions};

use super::exit::Exit;
use super::{Arguments, Command, output};

const SLURM: &str = "\
Examples:
  bench slurm order.yaml --shards 8 > order.sbatch && sbatch order.sbatch
  bench slurm order.yaml --shards 8 --sbatch=--partition=fast -- --set customer=c-2 | sbatch";

const KUBERNETES: &str = "\
Examples:
  bench k8s order.yaml --shards 8 --image registry.example/bench:1 > order-k8s.yaml
  bench k8s order.yaml --shards 8 --image registry.example/bench:1 --include users.csv | kubectl apply -f -";

/// The load, for each launcher.
#[derive(Debug, clap::Args)]
struct LaunchArguments {
    /// The scenario file.
    scenario: PathBuf,
    /// How many shards make the load.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..))]
    shards: u32,
    /// The deployment file, instead of the one that the scenario names.
    #[arg(short, long, value_name = "FILE")]
    deployment: Option<PathBuf>,
    /// How long a shard waits for the others before the load.
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = time)]
    wait: String,
    /// Further arguments of `bench run`, after `--`.
    #[arg(last = true, value_name = "ARGUMENT")]
    arguments: Vec<String>,
}

/// Print a script for Slurm's sbatch that makes a load in shards and merges them.
///
/// Each task of a job array makes one shard; they begin together. Another job, which waits for all of them, merges
/// them, fetches the traces of the slow iterations, and ends with the exit code of the verdict. The files are checked now.
#[derive(Debug, clap::Args)]
#[command(after_help = SLURM)]
pub(super) struct SlurmArguments {
    #[command(flatten)]
    launch: LaunchArguments,
    /// The directory for the runs, which all machines share.
    #[arg(short, long, alias = "output", value_name = "DIR", default_value = "runs")]
    out: PathBuf,
    /// The program that the machines run (default: this one).
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
    /// A further option of sbatch for the shards, such as --sbatch=--partition=fast (may be repeated).
    #[arg(long, value_name = "OPTION", allow_hyphen_values = true, value_parser = option)]
    sbatch: Vec<String>,
}

/// Print manifests for Kubernetes that make a load in shards and merge them.
///
/// An Indexed Job has a pod for each shard; they begin together. Another Job waits for their runs, merges them, fetches
/// the traces of the slow iterations, and ends with the exit code of the verdict. Scenario and deployment are in a
/// ConfigMap; variables that they refer to come from a Secret, which you create. The files are checked now.
#[derive(Debug, clap::Args)]
#[command(after_help = KUBERNETES)]
pub(super) struct KubernetesArguments {
    #[command(flatten)]
    launch: LaunchArguments,
    /// The image, whose entry point is bench: that of a release, or one that `.ci/package --only image` makes.
    #[arg(long)]
    image: String,
    /// A further file that the scenario or the deployment names (may be repeated).
    #[arg(long, value_name = "FILE")]
    include: Vec<PathBuf>,
    /// The name of all objects (default: of the scenario's file, with a random end).
    #[arg(long, value_parser = label)]
    name: Option<String>,
    /// The Secret with the variables that the files refer to.
    #[arg(long, value_name = "NAME", default_value = "bench", value_parser = label)]
    secret: String,
    /// The volume claim for the runs, which all nodes can write to (default: a new one).
    #[arg(long, value_name = "NAME", value_parser = label)]
    claim: Option<String>,
    /// The size of a new one.
    #[arg(long, value_name = "SIZE", default_value = "10Gi", conflicts_with = "claim")]
    size: String,
}

pub(super) fn slurm(arguments: &SlurmArguments) -> Result<Exit, HarnessError> {
    let cannot = HarnessError::cannot("find this program; name one with --program");
    let program = arguments.program.clone().map_or_else(std::env::current_exe, Ok).map_err(cannot)?;
    let (out, sbatch) = (arguments.out.clone(), arguments.sbatch.clone());
    let options = SlurmOptions { launch: arguments.launch.options()?, program, out, sbatch };
    output::deliver(options.script()?.trim_end())?;
    Ok(Exit::Ok)
}

pub(super) fn kubernetes(arguments: &KubernetesArguments) -> Result<Exit, HarnessError> {
    let name = arguments.name.clone();
    let options = KubernetesOptions {
        launch: arguments.launch.options()?,
        image: arguments.image.clone(),
        include: arguments.include.clone(),
        name: name.unwrap_or_else(|| KubernetesOptions::name_for(&arguments.launch.scenario)),
        secret: arguments.secret.clone(),
        claim: arguments.claim.clone(),
        size: arguments.size.clone(),
    };
    output::deliver(options.manifests()?.trim_end())?;
    Ok(Exit::Ok)
}

impl LaunchArguments {
    fn options(&self) -> Result<LaunchOptions, HarnessError> {
        Ok(LaunchOptions {
            scenario: self.scenario.clone(),
            deployment: self.deployment.clone(),
            shards: self.shards,
            wait: self.wait.clone(),
            arguments: self.arguments.clone(),
            load: load(&self.scenario, &self.arguments)?,
        })
    }
}

/// What further arguments of `bench run` change in the load, if they are some.
fn load(scenario: &Path, arguments: &[String]) -> Result<LoadOptions, HarnessError> {
    let mut words = vec!["bench".into(), "run".into(), scenario.as_os_str().to_owned()];
    words.extend(arguments.iter().map(Into::into));
    let parsed = Arguments::try_parse_from(words).map_err(|error| {
        let said = error.to_string();
        let first = said.lines().next().unwrap_or_default();
        let what = first.split_once(": ").map_or(first, |(_, what)| what);
        HarnessError::usage(format!("after `--`: {what}")).remedy("see `bench run --help`")
    })?;
    match parsed.command {
        Command::Run(run) => run.load_of_shard(),
        _ => Err(HarnessError::failed("`bench run` is another command")),
    }
}

/// A time as it is written, if it is one.
fn time(text: &str) -> Result<String, Complaint> {
    parse_duration(text).map(|_| text.to_owned())
}

/// An option of sbatch, which is a line of the script.
fn option(text: &str) -> Result<String, &'static str> {
    let is_option = text.starts_with('-') && !text.contains(char::is_control);
    is_option.then(|| text.to_owned()).ok_or("write an option of sbatch, as in --sbatch=--partition=fast")
}

/// The name of an object of Kubernetes.
fn label(text: &str) -> Result<String, &'static str> {
    let known = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let good = (1..=50).contains(&text.len())
        && text.chars().all(known)
        && !text.starts_with('-')
        && !text.ends_with('-');
    good.then(|| text.to_owned())
        .ok_or("write at most 50 lower-case letters, digits and hyphens, as in order-7")
}
