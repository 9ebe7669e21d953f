//! Where options and references take values from, beside the command line: `BENCH_*` variables, and files of variables.

use std::path::{Path, PathBuf};

use clap::ArgAction;
use clap::builder::BoolishValueParser;

use text::similar::did_you_mean;

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

/// What to say of variables that look like those of options of `run` and are none, each in a sentence.
pub(super) fn strange(run: &clap::Command) -> Vec<String> {
    let known: Vec<(String, String)> = run
        .get_arguments()
        .filter_map(|option| {
            let long = option.get_long()?.to_owned();
            let aliases = option.get_all_aliases().unwrap_or_default().into_iter().map(str::to_owned);
            Some(std::iter::once(long.clone()).chain(aliases).map(move |name| (name, long.clone())))
        })
        .flatten()
        .collect();
    let given = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    let mut said: Vec<String> = given.filter_map(|name| strange_name(&name, &known)).collect();
    said.sort_unstable();
    said
}

/// The same of one variable; `known` has the names of options, and those that they go by.
fn strange_name(given: &str, known: &[(String, String)]) -> Option<String> {
    let name = given.strip_prefix("BENCH_")?.to_lowercase().replace('_', "-");
    if known.iter().any(|(_, long)| *long == name) {
        return None;
    }
    let alike = did_you_mean(&name, known.iter().map(|(name, _)| name.as_str()))?;
    let (_, long) = known.iter().find(|(name, _)| name == alike)?;
    Some(format!("{given} is no option's variable: did you mean {}?", variable(long)))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_in_names_of_variables_are_said() {
        let known =
            [("rate", "rate"), ("concurrency", "concurrency"), ("vus", "concurrency"), ("quiet", "quiet")];
        let known = known.map(|(name, long)| (name.to_owned(), long.to_owned()));
        for (given, meant) in [
            ("BENCH_RATE", None),
            ("BENCH_RAET", Some("BENCH_RATE")),
            ("BENCH_VUS", Some("BENCH_CONCURRENCY")),
            ("BENCH_TOKEN", None),
            ("BENCH_TEST_REDIS_URL", None),
            ("RATE", None),
        ] {
            let said = strange_name(given, &known);
            let expected =
                meant.map(|meant| format!("{given} is no option's variable: did you mean {meant}?"));
            assert_eq!(said, expected, "{given}");
        }
    }
}
