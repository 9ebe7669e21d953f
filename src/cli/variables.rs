//! Where options and references take values from, beside the command line: `BENCH_*` variables, and files of variables.

use std::path::{Path, PathBuf};

use clap::ArgAction;
use clap::builder::BoolishValueParser;

use harness::env_file::EnvFiles;
use harness::options::Environment;
use harness::{Event, HarnessError};

use super::progress::ProgressDisplay;

/// The file of variables that references of the scenario and of its deployment name.
#[derive(Clone, Debug, Default, clap::Args)]
pub(super) struct EnvFileArgument {
    /// Take variables that files refer to (`{env: NAME}`) from this file, too, instead of `.env` beside the scenario.
    ///
    /// Lines of NAME=VALUE; # begins a comment. A variable that is set in the environment wins. Of several files, the last one
    /// wins. Its values are never printed.
    #[arg(long, value_name = "FILE")]
    env_file: Vec<PathBuf>,
}

impl EnvFileArgument {
    /// Where variables are looked up for a scenario.
    ///
    /// # Errors
    /// A file cannot be read.
    pub(super) fn environment(&self, scenario: Option<&Path>) -> Result<Environment, HarnessError> {
        let files = EnvFiles::read(&self.env_file, scenario)?;
        let shown = ProgressDisplay::new(false).sink();
        files.warnings.iter().for_each(|warning| shown.event(&Event::Warning(warning)));
        Ok(files.environment())
    }
}

/// Options whose variables have another meaning of their own: what a launcher says.
const OWN: [&str; 2] = ["shards", "job"];

/// The variable of an option.
pub(super) fn variable(long: &str) -> String {
    format!("BENCH_{}", long.to_uppercase().replace('-', "_"))
}

/// `bench run` whose options have variables: BENCH_RATE for --rate.
pub(super) fn with_variables(run: clap::Command) -> clap::Command {
    run.mut_args(|option| {
        let Some(long) = option.get_long().filter(|long| !OWN.contains(long)) else { return option };
        let name = variable(long);
        let is_switch = matches!(option.get_action(), ArgAction::SetTrue);
        let option = option.env(name).hide_env(true);
        if is_switch { option.value_parser(BoolishValueParser::new()) } else { option }
    })
}
