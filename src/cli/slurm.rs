//! `bench slurm`.

use std::path::PathBuf;

use clap::Parser as _;

use crate::base::units::parse_duration;
use crate::harness::HarnessError;
use crate::harness::launch::LaunchOptions;

use super::exit::Exit;
use super::{Arguments, Command, output};

const EXAMPLES: &str = "\
Examples:
  bench slurm order.yaml --shards 8 > order.sbatch && sbatch order.sbatch
  bench slurm order.yaml --shards 8 --sbatch=--partition=fast -- --set customer=c-2 | sbatch";

/// Print a script for Slurm's sbatch that makes a load in shards and merges them.
///
/// Each task of a job array makes one shard; they begin together. Another job, which waits for all of them, merges
/// them, fetches the traces of the slow iterations, and ends with the exit code of the verdict. The files are checked now.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct SlurmArguments {
    /// The scenario file.
    scenario: PathBuf,
    /// How many shards make the load.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..))]
    shards: u32,
    /// The deployment file, instead of the one that the scenario names.
    #[arg(short, long, value_name = "FILE")]
    deployment: Option<PathBuf>,
    /// The directory for the runs, which all machines share.
    #[arg(long, value_name = "DIR", default_value = "runs")]
    out: PathBuf,
    /// How long a shard waits for the others before the load.
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = time)]
    wait: String,
    /// The program that the machines run (default: this one).
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
    /// A further option of sbatch for the shards, such as --sbatch=--partition=fast (may be repeated).
    #[arg(long, value_name = "OPTION", allow_hyphen_values = true, value_parser = option)]
    sbatch: Vec<String>,
    /// Further arguments of `bench run`, after `--`.
    #[arg(last = true, value_name = "ARGUMENT")]
    arguments: Vec<String>,
}

pub(super) fn run(arguments: &SlurmArguments) -> Result<Exit, HarnessError> {
    let program = match &arguments.program {
        Some(program) => program.clone(),
        None => std::env::current_exe()
            .map_err(HarnessError::cannot("find this program; name one with --program"))?,
    };
    let options = LaunchOptions {
        scenario: arguments.scenario.clone(),
        deployment: arguments.deployment.clone(),
        shards: arguments.shards,
        program,
        out: arguments.out.clone(),
        wait: arguments.wait.clone(),
        load: load(&arguments.arguments)?,
        arguments: arguments.arguments.clone(),
        launcher: arguments.sbatch.clone(),
    };
    output::deliver(options.slurm()?.trim_end())?;
    Ok(Exit::Ok)
}

/// What further arguments of `bench run` change in the load, if they are some.
fn load(arguments: &[String]) -> Result<crate::harness::LoadOptions, HarnessError> {
    let words = ["bench", "run", "scenario.yaml"].into_iter().chain(arguments.iter().map(String::as_str));
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
fn time(text: &str) -> Result<String, crate::base::complaint::Complaint> {
    parse_duration(text).map(|_| text.to_owned())
}

/// An option of sbatch, which is a line of the script.
fn option(text: &str) -> Result<String, &'static str> {
    if text.starts_with('-') && !text.contains('\n') {
        Ok(text.to_owned())
    } else {
        Err("write an option of sbatch, as in --sbatch=--partition=fast")
    }
}
