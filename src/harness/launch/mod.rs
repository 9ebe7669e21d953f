//! Files for launchers: what starts the shards of a load somewhere else, and merges them.
//!
//! They are printed, and never submitted: what runs on a cluster is for its users to say.

mod slurm;

use std::path::PathBuf;

use crate::base::complaint::Complaint;
use crate::plan::shard::Shard;

use super::error::HarnessError;
use super::files::{self, Files};
use super::options::{LoadOptions, YamlFile};
use super::shards::Part;

/// A load that a launcher is to make in shards.
#[derive(Clone, Debug)]
pub struct LaunchOptions {
    /// The scenario.
    pub scenario: PathBuf,
    /// The deployment, instead of the one that the scenario names.
    pub deployment: Option<PathBuf>,
    /// How many shards make it.
    pub shards: u32,
    /// The program that each shard runs.
    pub program: PathBuf,
    /// The directory for the runs. All machines must share it.
    pub out: PathBuf,
    /// For how long a shard waits for the others before the load.
    pub wait: String,
    /// Further arguments of `bench run`, as they are written.
    pub arguments: Vec<String>,
    /// What these change in the load.
    pub load: LoadOptions,
    /// Further options of the launcher, as they are written.
    pub launcher: Vec<String>,
}

impl LaunchOptions {
    /// The script for `sbatch`: an array with a task for each shard, and a job that merges them.
    ///
    /// # Errors
    /// All faults of the files, or the load cannot be made in so many shards.
    pub fn slurm(&self) -> Result<String, HarnessError> {
        self.check()?;
        Ok(slurm::script(self))
    }

    /// Reads the files as each shard will.
    fn check(&self) -> Result<(), HarnessError> {
        let usage = |complaint: Complaint| HarnessError::usage(complaint.what).remedy(complaint.remedy);
        let (file, given): (YamlFile, Option<YamlFile>) =
            ((&self.scenario).into(), self.deployment.as_ref().map(Into::into));
        let Files { document, mut deployment, task } =
            files::scenario_and_deployment(&file, given.as_ref(), &self.load)?;
        super::demo::stand_in(&mut deployment);
        let mut plan = files::plan(&file, &document, deployment, task.as_ref(), &self.load)?;
        let shard = Shard::new(0, u64::from(self.shards)).map_err(usage)?;
        Part { shard, job: String::new(), launcher: None }.take(&mut plan)?;
        if shard.is_part() {
            return Ok(());
        }
        Err(HarnessError::usage("one shard is the whole load".to_owned())
            .remedy("ask for more with --shards, or start `bench run` itself"))
    }

    /// The arguments of `bench run` that all shards have, quoted for a shell.
    fn arguments_of_run(&self) -> String {
        let mut words = vec![word(&self.scenario.display().to_string())];
        words.extend(
            self.deployment.iter().map(|file| format!("--deployment {}", word(&file.display().to_string()))),
        );
        words.extend(self.arguments.iter().map(|argument| word(argument)));
        words.join(" ")
    }
}

/// A text as one word of a shell.
fn word(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./:=,@%+".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_what_the_shell_reads() {
        for text in ["plain", "", "two words", "it's", "$HOME `x` \\ \"q\"", "a\nb", "*", "~", "#", "ä"] {
            let mut command = std::process::Command::new("sh");
            let ended = command.arg("-c").arg(format!("printf %s {}", word(text))).output().unwrap();
            assert_eq!(String::from_utf8(ended.stdout).unwrap(), text, "{}", word(text));
        }
    }
}
