//! `bench cleanup`.

use std::path::PathBuf;
use std::time::Duration;

use harness::cloud::{CleanupOptions, cleanup};
use harness::options::Environment;
use harness::{HarnessError, Interrupt, runs};

use super::exit::Exit;
use super::output::{self, say};
use super::signals::interrupt_by_signals;

/// Delete what runs have left in a cloud: of one run, or of all that are old enough.
///
/// A run deletes what its `contexts` and iterations have made. If it was killed, or a service refused, this tries again.
/// Deletes what is in projects that bench made, and elsewhere what has a run's name; nothing else. Without --yes, it only
/// lists what it would delete.
#[derive(Debug, clap::Args)]
pub(super) struct CleanupArguments {
    /// The run's directory, or `latest`.
    #[arg(required_unless_present = "older_than")]
    run_dir: Option<PathBuf>,
    /// The deployment (default: the run's).
    #[arg(short, long, value_name = "FILE", required_unless_present = "run_dir")]
    deployment: Option<PathBuf>,
    /// Things of all runs that began longer ago than this, such as 1d or 12h.
    #[arg(long, value_name = "AGE", value_parser = runs::age, conflicts_with = "run_dir")]
    older_than: Option<Duration>,
    /// Delete them.
    #[arg(long)]
    yes: bool,
}

pub(super) fn run(arguments: &CleanupArguments) -> Result<Exit, HarnessError> {
    let interrupt = Interrupt::new();
    let listening = interrupt_by_signals(&interrupt, || output::last_words("ended at once"))?;
    let options = CleanupOptions {
        run: arguments.run_dir.clone(),
        deployment: arguments.deployment.clone().map(Into::into),
        older_than: arguments.older_than,
        delete: arguments.yes,
    };
    let cleaned = cleanup(&options, &Environment::default(), &interrupt)?;
    drop(listening);
    cleaned.left.iter().for_each(|thing| output::print(thing));
    cleaned.unknown.iter().for_each(|why| say(why));
    if cleaned.only_looked {
        say(&format!("{} things would be deleted; --yes deletes them", cleaned.left.len()));
    } else {
        say(&format!("deleted {} things, {} are left", cleaned.deleted, cleaned.left.len()));
    }
    cleaned.result().map(|()| Exit::Ok)
}
